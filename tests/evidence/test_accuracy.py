"""What was predicted for single runs agrees with the report, the measured tables, and what readers are told."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.calibration import fit, intervals, validate
from cookbook.calibration.intervals import REFERENCES
from cookbook.calibration.validate import KINDS, write_row_schemas
from cookbook.evidence import evaluation, table_name

# Terms of layouts that no measured row has.
NOBODY_MEASURED = ("without context exchange",)
each_kind = pytest.mark.parametrize("kind", list(KINDS))


def table_of(kind):
    return catalog.table(table_name(kind))


def reported(kind, **where):
    table = catalog.table("validation")
    table = table[(table["kind"] == kind) & (table["leave_out"] == "source")]
    for column, value in where.items():
        table = table[table[column] == value]
    return table


@each_kind
def test_every_clear_measurement_is_there_once_with_its_outcome(kind):
    rows, frame = fit.measured_rows(kind)
    table = table_of(kind)
    assert list(table["id"]) == list(frame["id"][rows.usable])
    np.testing.assert_allclose(table["measured"], rows.measured[rows.usable], rtol=1e-5)
    assert list(table["software_level"]) == list(rows.keys["engine"][rows.usable])


@each_kind
def test_the_report_follows_from_the_rows(kind):
    """Median, shares and coverage of every stratum, counted anew from the rows alone."""
    rows = evaluation.chosen(kind.removeprefix("training_"))
    strata = {"publisher": "publisher", "tier": "tier", "scale": "scale", "software": "software_level", "year": "year"}
    for by, column in strata.items():
        for line in reported(kind, model="full", by=by).itertuples():
            own = rows[rows[column] == line.stratum]
            error = (np.exp(own["full"]) - 1).abs()
            assert len(own) == line.rows, (by, line.stratum)
            assert error.median() == pytest.approx(line.median_error, abs=2e-3, rel=2e-3)
            assert (error <= 0.2).mean() == pytest.approx(line.within_20, abs=0.02 + 1.1 / len(own))
            inside = (own["full"].abs() <= own["half_80"]).mean()
            assert inside == pytest.approx(line.coverage_80, abs=0.01 + 1.1 / len(own))


@each_kind
def test_every_model_of_the_report_follows_from_the_rows(kind):
    rows = evaluation.chosen(kind.removeprefix("training_"))
    names = {column.casefold(): name for name, column in evaluation._ratios(table_name(kind)).items()}
    for line in reported(kind, by="all").itertuples():
        error = (np.exp(rows[names[intervals.column_of(line.model)]].dropna()) - 1).abs()
        assert len(error) == line.rows
        assert error.median() == pytest.approx(line.median_error, rel=5e-3, abs=1e-3), line.model
        by_publisher = error.groupby(rows["publisher"]).agg(["mean", "size"])
        weights = np.minimum(by_publisher["size"] / 10, 1)
        assert np.average(by_publisher["mean"], weights=weights) == pytest.approx(line.mean_of_publishers, rel=5e-3)


@each_kind
def test_columns_follow_the_terms(kind, tmp_path):
    (tmp_path / "schema").mkdir()
    written = write_row_schemas((kind,), tmp_path)[0]
    committed = catalog.data_directory() / "schema" / written.name
    assert written.read_bytes() == committed.read_bytes(), "run make validate"
    columns = set(table_of(kind).columns)
    assert {intervals.column_of(f"without {term}") for term in validate.terms_of(kind)} <= columns
    assert {intervals.column_of(rule) for rule in REFERENCES} <= columns


@each_kind
def test_switching_a_term_off_changes_the_figures(kind):
    rows = evaluation.chosen(kind.removeprefix("training_"))
    for term in validate.terms_of(kind):
        name = f"without {term.replace('_', ' ')}"
        if name not in NOBODY_MEASURED:
            assert (rows[name] - rows["without neighbours"]).abs().max() > 0.002, name


def test_leaving_out_rows_alone_flatters():
    lines = cb.accuracy(by="prediction", kind="classic").set_index("prediction")
    assert lines.loc[evaluation.ROW_ALONE, "median_error"] < lines.loc["full", "median_error"]


def test_each_run_has_its_source_and_its_interval():
    rows = cb.accuracy(by="row")
    assert rows["url"].str.startswith("http").all() and rows["source"].str.len().min() > 3
    assert rows["id"].is_unique and set(rows["kind"]) == {"transformer", "classic"}
    np.testing.assert_allclose(rows["predicted"] / rows["measured"], rows["ratio"])
    known = rows[rows["low_80"].notna()]
    assert len(known) > 0.9 * len(rows)
    assert ((known["low_90"] <= known["low_80"]) & (known["low_80"] < known["predicted"])).all()
    assert ((known["predicted"] < known["high_80"]) & (known["high_80"] <= known["high_90"])).all()


def test_a_publisher_is_the_group_of_its_first_source():
    rows = cb.accuracy(by="row", kind="classic").set_index("id")
    groups = catalog.table("sources").set_index("key")["source_group"]
    sources = catalog.table("training_classic").set_index("id")["source"].str.split(";").str[0]
    assert (rows["publisher"] == groups[sources[rows.index]].to_numpy()).all()


@pytest.mark.parametrize("by", evaluation.GROUPS)
def test_groups_hold_every_run_once(by):
    table = cb.accuracy(by=by)
    assert table["rows"].sum() == len(cb.accuracy(by="row")) and table[by].is_unique
    quartiles = table[["lower_quartile", "median_error", "upper_quartile"]].to_numpy()
    assert (np.diff(quartiles, axis=1) >= 0).all()


def test_filters_keep_what_they_name():
    rows = cb.accuracy(by="row", publishers=["lambda"], accelerators="v100-sxm2-16gb")
    assert set(rows["publisher"]) == {"lambda"} and set(rows["accelerator"]) == {"v100-sxm2-16gb"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": "without magic"}, "without launch"),
        ({"model": "without bubble", "kind": "classic"}, "choose another kind of runs"),
        ({"publishers": ["nobody"]}, "no run by publisher 'nobody'"),
        ({"kind": "transformer", "publishers": ["lambda"]}, "No such run was measured"),
    ],
)
def test_what_cannot_be_told_is_said(arguments, said):
    with pytest.raises(ValueError, match=said):
        cb.accuracy(**arguments)


def test_what_is_returned_can_be_changed_without_harm():
    before = cb.accuracy(by="row")
    before["ratio"] = 0.0
    assert (cb.accuracy(by="row")["ratio"] > 0).all()


def test_repeats_are_runs_that_nothing_tells_apart():
    """Counted anew with a dictionary, for the strictest reading of "the same"."""
    rows = cb.accuracy(by="row", kind="classic").set_index("id")
    table = pd.DataFrame(catalog.table("training_classic"))
    same = [name for name in table if name not in evaluation.NO_INPUT]
    groups = defaultdict(list)
    for row in table.to_dict("records"):
        if row["id"] in rows.index:
            groups[tuple(str(row[name]) for name in same)].append(rows.loc[row["id"], "measured"])
    several = [values for values in groups.values() if len(values) > 1]
    found = cb.accuracy(by="repeats", kind="classic").set_index("same").loc["all that the table holds"]
    assert found["configurations"] == len(several) and found["rows"] == sum(map(len, several))
    away = [abs(value / np.median(values) - 1) for values in several for value in values]
    assert found["median_difference"] == pytest.approx(np.median(away))


def test_the_less_is_the_same_the_more_repeats_there_are():
    counts = cb.accuracy(by="repeats")["rows"].tolist()
    assert counts == sorted(counts) and counts[0] < counts[-1]
    assert "value" in evaluation.NO_INPUT and "step_seconds" in evaluation.NO_INPUT


@pytest.mark.all
def test_layouts_of_one_run_are_ranked_by_what_was_measured() -> None:
    found = cb.accuracy(by="layouts", kind="transformer")
    assert (found["chosen"] >= 1).all() and (found["chosen"] <= found["slowest"]).all()
    assert (found["layouts"] >= 5).all() and found["rank_correlation"].between(-1, 1).all()
    blind = cb.accuracy(by="layouts", kind="transformer", model="constant utilisation")
    assert found["chosen"].median() < blind["chosen"].median()
    line, rows = found[found["publisher"] == "aleph-alpha"].iloc[-1], cb.accuracy(by="row", kind="transformer")
    table = cb.table("training_transformer")
    same = [name for name in ("seq_len", "attention_kernel", "fused_norm") if line[name] == line[name]]
    runs = rows.merge(table[["id", *same]], on="id")
    for name in ("publisher", "model", "devices", *same):
        runs = runs[runs[name] == line[name]]
    assert runs.loc[runs["predicted"].idxmin(), "measured"] / runs["measured"].min() == pytest.approx(line["chosen"])
    assert cb.accuracy(by="layouts", kind="classic").empty
