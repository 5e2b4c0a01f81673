"""Accuracy is kept: committed constants and report are current, no stratum got worse, and every switch matters."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cookbook import catalog
from cookbook.calibration import fit, validate
from cookbook.calibration.fit import minimise
from cookbook.calibration.intervals import REFERENCES, row_widths
from cookbook.calibration.validate import KINDS, calibrate, noise
from cookbook.evidence import figures, table_name
from cookbook.prediction.constants import committed
from cookbook.publish.refresh import ACCURACY, accuracy_section, marks, write_accuracy

# Publishers that are left out again by the tests: few rows, several devices and software levels.
SUBSET = {
    "training_classic": ("cnn-benchmarks", "huggingface"),
    "training_transformer": ("mosaicml", "nvidia-jax"),
    "inference": ("cnn-benchmarks", "nvidia-tfqat"),
    "generation": ("internlm", "qwen"),
}
# More publishers beside them, enough for a fit in little time.
EXTRA = {
    "training_classic": ("lambda", "mlcommons"),
    "training_transformer": ("qwen", "torchtitan"),
    "inference": ("huggingface", "kentaroy47"),
    "generation": ("geerlingguy", "nvidia-fastertransformer"),
}
# Terms that cost no measured row anything: context parallelism, and copies that computation hides or whose link is
# not known.
NOBODY_MEASURED = ("context_exchange", "offload")
each_kind = pytest.mark.parametrize("kind", list(KINDS))


def worse_than(report: pd.DataFrame, baseline: pd.DataFrame) -> list[str]:
    """Strata whose median error rose above the baseline by more than noise, in words."""
    place = ["kind", "leave_out", "by", "stratum"]
    full = report[report["model"] == "full"]
    both = full.merge(baseline, on=place, suffixes=("", "_before"))
    worse = both[both["median_error"] > both["median_error_before"] + both["noise"]]
    return [
        f"{row.kind}, leaving out one {row.leave_out}, {row.by} {row.stratum}: median error {row.median_error:.3f}, "
        f"was {row.median_error_before:.3f} and may rise by {row.noise:.3f}"
        for row in worse.itertuples(index=False)
    ]


@pytest.fixture(scope="module")
def refit():
    return calibrate()


@pytest.mark.all
def test_committed_constants_equal_the_refit(refit):
    committed = catalog.table("training_constants").set_index("key")["value"]
    found = {row["key"]: float(row["value"]) for row in refit["training_constants"]}
    assert set(found) == set(committed.index), "run: make calibrate"
    for key, value in found.items():
        assert value == pytest.approx(committed[key], rel=1e-3), f"{key}: run make calibrate"


@pytest.mark.all
def test_committed_intervals_equal_the_refit(refit):
    committed = catalog.table("interval_quantiles").set_index(["kind", "tier", "assumed"])
    for row in refit["interval_quantiles"]:
        known = committed.loc[(row["kind"], row["tier"], row["assumed"])]
        assert float(row["factor_80"]) == pytest.approx(known["factor_80"], rel=1e-2)
        assert float(row["factor_90"]) == pytest.approx(known["factor_90"], rel=1e-2)


@pytest.mark.all
def test_committed_evidence_equals_the_refit(refit):
    committed = catalog.table("training_evidence")
    assert {(row["kind"], row["accelerator"], row["engine"]) for row in refit["training_evidence"]} == set(
        committed[["kind", "accelerator", "engine"]].itertuples(index=False, name=None)
    )


@pytest.mark.all
def test_committed_errors_of_similar_runs_equal_the_refit(refit):
    committed = catalog.table("training_neighbours").set_index(["kind", "row"])
    found = refit["training_neighbours"]
    assert {(row["kind"], row["row"]) for row in found} == set(committed.index), "run: make calibrate"
    for row in found:
        known = committed.loc[(row["kind"], row["row"])]
        assert float(row["ratio"]) == pytest.approx(known["ratio"], rel=1e-3), f"{row['row']}: run make calibrate"
        assert row["labels"] == known["labels"], row["row"]


def test_constants_are_few_and_none_is_for_one_model_or_publisher():
    rows = catalog.table("training_constants")
    publishers = set(catalog.table("sources")["source_group"])
    assert not set(rows["level"]) & publishers
    assert not set(rows["level"]) & set(catalog.table("models")["name"])
    assert set(rows["by"]) <= {"all", "family", "untimed", "engine"}
    for kind in KINDS:
        assert (rows["kind"] == kind).sum() < len(catalog.table(table_name(kind))) / 20


def test_the_report_is_current():
    keys = set(catalog.table("validation")["key"])
    assert keys == {validate.state_key()}, "code or data changed since the report was written: run make validate"


def test_no_stratum_is_worse_than_the_baseline():
    worse = worse_than(catalog.table("validation"), catalog.table("validation_baseline"))
    assert not worse, "\n".join(worse)


@pytest.mark.all
@each_kind
def test_leaving_publishers_out_again_gives_the_committed_figures(kind):
    rows, _, found = validate.judge(kind, only=SUBSET[kind])
    table = catalog.table("validation")
    for publisher in SUBSET[kind]:
        chosen = np.isfinite(found.error) & rows.usable & (rows.group == publisher)
        again = figures(found.error[chosen], rows.group[chosen])
        kept = table[(table["kind"] == kind) & (table["leave_out"] == "source") & (table["model"] == "full")]
        kept = kept[(kept["by"] == "publisher") & (kept["stratum"] == publisher)].iloc[0]
        assert again["rows"] == kept["rows"]
        assert again["median_error"] == pytest.approx(kept["median_error"], rel=0.02, abs=0.001)


@pytest.mark.all
@each_kind
def test_what_is_left_out_does_not_reach_its_own_prediction(kind):
    """Measured outcomes of a publisher may be anything: its predictions stay the same, digit for digit."""
    rows, _ = fit.measured_rows(kind)
    name = SUBSET[kind][0]
    own = rows.group == name
    warm = minimise(rows, rows.usable & ~own, rounds=1)
    before = fit.left_out(rows, rows.group, warm=warm, only=[name])
    changed = rows.measured.copy()
    changed[own] *= 7.0
    other = fit.replace(rows, measured=changed)
    after = fit.left_out(other, rows.group, warm=warm, only=[name])
    known = np.isfinite(before.error)
    np.testing.assert_allclose(after.error[known] + np.log(7.0), before.error[known], rtol=1e-9, atol=1e-12)


@each_kind
def test_no_fold_shares_a_publisher_with_what_it_was_fitted_on(kind):
    rows, _ = fit.measured_rows(kind)
    labels = fit.fold_labels(rows, "source")
    for name in set(labels.tolist()):
        assert name not in set(rows.group[labels != name].tolist())


# Transformers and language models have no correction by similar measurements, the former no level of software either.
WITHOUT = {"training_transformer": ("neighbours", "engine_levels"), "generation": ("neighbours",)}
SWITCHES = [(k, s) for k in SUBSET for s in ("neighbours", "engine_levels", "term") if s not in WITHOUT.get(k, ())]


@pytest.mark.all
@pytest.mark.parametrize(("kind", "switch"), SWITCHES)
def test_every_switch_changes_the_report(kind, switch):
    only = SUBSET[kind]
    plain = validate.judge(kind, only=only, neighbours=switch == "neighbours")[2].error
    off = {
        "neighbours": {"neighbours": False},
        "engine_levels": {"neighbours": False, "engine_levels": False},
        "term": {"neighbours": False, "terms": {validate.terms_of(kind)[0]: False}},
    }
    other = validate.judge(kind, only=only, **off[switch])[2].error
    known = np.isfinite(plain)
    assert np.max(np.abs(plain[known] - other[known])) > 1e-3


@each_kind
def test_every_term_can_be_switched_off(kind):
    rows, _ = fit.measured_rows(kind)
    values = {constant.name: constant.start for constant in rows.constants}
    plain = rows.outcome(values)[rows.usable]
    for term in validate.terms_of(kind):
        other = fit.without(rows, {term: False}).outcome(values)[rows.usable]
        if term not in NOBODY_MEASURED:
            assert np.any(np.abs(np.log(other / plain)) > 1e-6), term


@each_kind
def test_the_formulas_beat_every_rule_on_publishers_left_out(kind):
    table = catalog.table("validation")
    whole = table[(table["kind"] == kind) & (table["leave_out"] == "source") & (table["by"] == "all")]
    whole = whole.set_index("model")
    for name in REFERENCES:
        assert whole.loc["full", "median_error"] < whole.loc[name, "median_error"], name


@each_kind
def test_widths_of_a_publishers_rows_come_from_the_others(kind):
    rows, _ = fit.measured_rows(kind)
    rng = np.random.default_rng(0)
    errors = np.where(rows.usable, rng.normal(0, 0.2, len(rows.measured)), np.nan)
    tier = np.full(len(errors), "sibling device")
    found = fit.LeftOut(errors, tier, np.zeros(len(errors), int), rows.group)
    before = row_widths(rows, found)[80]
    own = rows.group == SUBSET[kind][0]
    wild = row_widths(rows, fit.replace(found, error=np.where(own, errors * 100, errors)))[80]
    np.testing.assert_array_equal(before[own], wild[own])
    assert np.nanmax(np.abs(wild[~own] - before[~own])) > 0


@pytest.mark.all
@each_kind
def test_nested_widths_have_not_seen_the_publisher(kind):
    """Its outcomes may be anything, or missing: to the digit, its intervals stay as wide as they were."""
    rows, _ = fit.measured_rows(kind)
    keep = (*SUBSET[kind], *EXTRA[kind])
    rows = fit.replace(rows, measured=np.where(np.isin(rows.group, keep), rows.measured, np.nan))
    name = SUBSET[kind][0]
    own = rows.group == name
    folds = fit.left_out(rows, rows.group, warm=minimise(rows, rows.usable, rounds=1), rounds=1)
    before = row_widths(rows, folds, fit.left_out_twice(rows, rows.group, only=[name]))
    wild = np.where(rows.measured > np.nanmedian(rows.measured[own]), 1e-3, 1e3)
    other = fit.replace(rows, measured=np.where(own, wild, rows.measured))
    after = row_widths(rows, folds, fit.left_out_twice(other, rows.group, only=[name]))
    for level, half in before.items():
        assert np.isfinite(half[own & np.isfinite(folds.error)]).all()
        np.testing.assert_array_equal(half[own], after[level][own])
    once = row_widths(rows, folds)
    assert np.nanmax(np.abs(np.log(once[80][own] / before[80][own]))) > 1e-4, "the inner loop changed nothing"


def test_the_report_tells_both_widths():
    table = catalog.table("validation").set_index(["kind", "leave_out", "model", "by", "stratum"]).sort_index()
    for kind in KINDS:
        nested, once = (table.loc[(kind, "source", "full", *at)] for at in (("all", "all"), ("widths", "once")))
        assert nested["median_error"] == once["median_error"] and nested["rows"] == once["rows"]
        assert (nested[["coverage_80", "factor_80"]] != once[["coverage_80", "factor_80"]]).any()


def test_what_a_term_is_worth_is_told_of_each_publisher():
    """Planted: without a term one publisher is a tenth further off, and nothing else changes."""
    rows, _ = fit.measured_rows("training_transformer")
    known, name = np.where(rows.usable, 0.1, np.nan), SUBSET["training_transformer"][0]
    base = fit.LeftOut(known, np.full(len(known), ""), np.zeros(len(known), int), rows.group)
    own = rows.group == name
    off = fit.replace(base, error=np.where(own, np.log(np.exp(known) + 0.1), known))
    found = validate._lines("training_transformer", "source", "without launch", rows, off, base, True)
    each = found[found["by"] == "publisher"].set_index("stratum")
    assert set(each.index) == set(rows.group[rows.usable])
    assert each.loc[name, "worse_by"] == pytest.approx(0.1)
    assert each.loc[name, "bias"] == pytest.approx(np.expm1(0.1) + 0.1)
    assert each.drop(name)["worse_by"].abs().max() < 1e-12 and each["worse_by_low"].isna().all()
    assert 0 < found.set_index("by").loc["all", "worse_by"] < 0.1


def page_of_accuracy() -> str:
    return " ".join((Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8").split())


@pytest.mark.all
def test_memory_tells_what_ran_from_what_ran_out():
    found, page = fit.judge_memory(), page_of_accuracy()
    assert found["balanced_accuracy"] >= 0.9
    assert f"One publisher lists {found['rows']} configurations" in page
    assert f"we tell {100 * found['accuracy']:.0f} % of them correctly" in page
    assert f"{found['stated_rows']} in all, the median error is {100 * found['stated_median_error']:.0f} %" in page


def test_how_often_memory_exceeds_that_of_a_device_on_which_it_ran():
    """The page on accuracy tells it of all publishers who list no failures, and of the lower end of the interval.

    Publishers are told apart by runs that state what they recompute: of others, the estimate itself decides that.
    """
    rows, page = fit.memory_rows(), page_of_accuracy()
    values = committed("training_transformer").values
    constants = {name: values[name][""] for name in ("activation_margin", "reserved_bytes")}
    over = fit.needed_over_capacity(rows, constants)
    ran = np.isnan(rows.ran) & (rows.scenarios.why == "") & np.isfinite(over)
    (taken,) = (where for name, where, _ in rows.scenarios.assumed if name == "recompute")
    stated = ran & ~taken
    of = pd.DataFrame({"publisher": rows.group[stated], "over": 100 * (over[stated] > 0)})
    of = of.groupby("publisher")["over"].mean()
    whole = 100 * np.mean(over[ran] + np.log(catalog.constant("memory-interval-low")) > 0)
    assert f"exceeds the memory of the device for {100 * (over[ran] > 0).mean():.0f} % of {ran.sum():,} runs" in page
    assert f"for {100 * (over[stated] > 0).mean():.0f} % of the {stated.sum():,} that state what they recompute" in page
    assert (
        f"{of['internlm']:.0f} % of InternLM's, {of['torchtitan']:.0f} % of torchtitan's, "
        f"{of['nvidia-nemo']:.0f} % of NVIDIA NeMo's, {of['mlcommons']:.0f} % of MLPerf's and "
        f"{of['mosaicml']:.0f} % of MosaicML's, but {of['bigscience']:.0f} % of BigScience's and "
        f"{of['qwen']:.0f} % of Qwen's" in page
    )
    adapted = (rows.scenarios.lora == 1) & (rows.scenarios.narrow == 1)
    assert "All of MLPerf's fine-tune adapters in 8 bits" in page
    assert adapted[stated & (over > 0) & (rows.group == "mlcommons")].all()
    assert f"The lower end of the 80 % interval exceeds the memory for {whole:.0f} % of the runs" in page and whole < 10


def test_a_worse_stratum_is_named():
    rows = pd.DataFrame(
        {
            "kind": ["a"],
            "leave_out": ["source"],
            "model": ["full"],
            "by": ["tier"],
            "stratum": ["x"],
            "rows": [100],
            "median_error": [0.2],
        }
    )
    baseline = rows.assign(noise=[noise(rows.iloc[0])]).drop(columns="model")
    assert worse_than(rows, baseline) == []
    (told,) = worse_than(rows.assign(median_error=0.23), baseline)
    assert "tier x" in told and "0.230" in told
    assert worse_than(rows.assign(median_error=0.215), baseline) == []


def test_words_do_not_change_the_key_and_code_does():
    code = '"""Doc."""\n\n# why\ndef f(x):\n    """What."""\n    return x + 1  # one more\n'
    other = code.replace("Doc", "Other doc").replace("# why\n", "").replace("What", "That").replace("one more", "next")
    assert validate._bare(code) == validate._bare(other)
    assert validate._bare(code) != validate._bare(code.replace("+ 1", "+ 2"))


def test_readme_says_what_the_table_says(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    start, end = marks(ACCURACY)
    written = text.split(start)[1].split(end)[0]
    assert written.strip() == accuracy_section().strip(), "run: make validate"


def test_the_table_of_readme_has_one_row_a_kind_and_no_figure_of_an_inner_loop():
    table = catalog.table("validation")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in accuracy_section().splitlines()]
    assert len(lines) == 2 + table["kind"].nunique() and len({len(cells) for cells in lines}) == 1
    outer = table[(table["leave_out"] == "source") & (table["by"] == "all")].set_index(["model", "rows"])
    for cells in lines[2:]:
        row = outer.loc[("full", int(cells[2].replace(",", "")))]
        rule = outer.loc[("constant utilisation", row.name[1])]
        assert cells[1] == f"{row.publishers:.0f}"
        told = (row.median_error, row.mean_of_medians, row.mean_of_publishers, rule.mean_of_medians)
        assert cells[3:7] == [f"{100 * share:.1f} %" for share in told]
        assert cells[7:] == [
            f"{100 * row.publishers_covered_80:.0f} %",
            f"{100 * row.publishers_in_band:.0f} %",
            f"{row.factor_80:.2f}×",
        ]


def test_a_page_without_marks_is_refused(tmp_path):
    (tmp_path / "page.md").write_text("nothing here", encoding="utf-8")
    with pytest.raises(ValueError, match="marks"):
        write_accuracy(tmp_path / "page.md")


def test_reports_as_markdown_and_json():
    table = catalog.table("validation").head(30)
    assert json.loads(validate.as_json(table))[0]["kind"] == table["kind"].iloc[0]
    text = validate.as_markdown(table)
    assert text.startswith("## training_") and "| median error |" in text and "nan" not in text


@pytest.mark.all
def test_the_shell_writes_nothing_unless_asked(tmp_path, root):
    before = (root / "data" / "validation.csv").read_bytes()
    target = tmp_path / "report.json"
    command = [
        sys.executable,
        "-m",
        "cookbook",
        "dev",
        "validate",
        "--table",
        "training_transformer",
        "--leave-out",
        "accelerator",
        "--json",
        str(target),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert result.returncode == 0, result.stderr
    assert "leaving out one accelerator" in result.stdout and json.loads(target.read_text())
    assert (root / "data" / "validation.csv").read_bytes() == before


def test_a_partial_report_is_not_written(root):
    command = [sys.executable, "-m", "cookbook", "dev", "validate", "--write", "--table", "training_classic"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert result.returncode == 1 and "--write" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.all
def test_calibration_is_written_in_the_order_of_the_schema(tmp_path, refit):
    from cookbook.calibration.validate import write_table

    shutil.copytree(catalog.data_directory(), tmp_path / "data")
    for name, rows in refit.items():
        write_table(name, rows, tmp_path / "data")
    assert catalog.validate_all(tmp_path / "data") == []


def test_every_folder_and_file_of_the_key_is_there():
    package = Path(validate.__file__).parents[1]
    for folder in validate.PACKAGES:
        assert any((package / folder).rglob("*.py")), folder
    names = {path.name for folder in validate.PACKAGES for path in (package / folder).rglob("*.py")}
    assert set(validate.READER_MODULES) <= names
