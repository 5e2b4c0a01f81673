"""Rows that a report adds to the tables of measured runs: predicted as the report is, and valid by their schemas."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import __main__ as shell
from cookbook import catalog
from cookbook.prediction.engine import estimate
from cookbook.prediction.parsing import tables
from cookbook.topics.machine import sharing

DEVICE = "h100-sxm"
REPORT = cb.measure.own_run()


def networks():
    return [row for row in REPORT.rows if row["benchmark"] in sharing.TABLES]


def shared_rows():
    return sharing.rows_to_share(REPORT, DEVICE)


def predictions(table, rows):
    frame = pd.DataFrame(rows).fillna("")
    read = tables.read(table, tables.without_outcomes(frame))
    found = np.full(len(rows), np.nan)
    for at, part in tables.split(read) if table == "inference" else [(np.arange(len(rows)), read)]:
        found[at] = estimate(part).point
    return found


def test_each_row_is_predicted_as_the_network_that_was_measured():
    compared = cb.measure.beside(REPORT, DEVICE)
    shared = shared_rows()
    assert sum(map(len, shared.values())) == len(compared) == len(networks())
    for table, rows in shared.items():
        language = compared["model"].map(lambda name: name == "gpt2")
        trained = compared["benchmark"] == "training step"
        own = {
            "inference": ~trained,
            "training_classic": trained & ~language,
            "training_transformer": trained & language,
        }[table]
        np.testing.assert_allclose(predictions(table, rows), compared.loc[own, "predicted_s"], rtol=1e-9)


def test_the_outcome_of_each_row_is_what_was_measured():
    shared = shared_rows()
    times = [row["median_s"] for row in networks() if row["benchmark"] != "training step"]
    assert [float(row["value"]) / 1000 for row in shared["inference"]] == pytest.approx(times, rel=1e-5)
    steps = [float(row["batch_per_device"]) / float(row["value"]) for row in shared["training_classic"]]
    steps += [float(row["step_seconds"]) for row in shared["training_transformer"]]
    measured = [row["median_s"] for row in networks() if row["benchmark"] == "training step"]
    assert sorted(steps) == pytest.approx(sorted(measured), rel=1e-5)


def test_files_have_the_columns_of_their_tables(tmp_path):
    files = sharing.write_rows(REPORT, DEVICE, tmp_path / "measured.json")
    assert [file.name for file in files] == [f"measured-{table}.csv" for table in shared_rows()]
    for file in files:
        table = file.stem.partition("-")[2]
        assert list(pd.read_csv(file)) == list(catalog.table(table))


def test_a_row_that_the_schema_does_not_allow_is_refused(tmp_path, monkeypatch):
    rows = {table: [{**row, "accelerator": "my-card"} for row in own] for table, own in shared_rows().items()}
    monkeypatch.setattr(sharing, "rows_to_share", lambda *_: rows)
    with pytest.raises(ValueError, match="my-card"):
        sharing.write_rows(REPORT, DEVICE, tmp_path / "measured.json")
    assert not list(tmp_path.iterdir()), "a file that is not valid must not look ready to share"


def test_a_line_states_both_times_and_whether_the_measurement_is_inside():
    compared = cb.measure.beside(REPORT, DEVICE)
    lines = sharing.lines(compared)
    first = compared.iloc[0]
    assert lines[0].startswith(
        f"{first['benchmark']}, {first['model']}, batch {first['batch']}: measured 1.03 s; predicted"
    )
    assert lines[0].endswith(" 80 %): outside") and len(lines) == len(compared)
    inside = sharing.lines(compared.assign(measured_s=compared["predicted_s"], inside80=True))
    assert inside[0].endswith(" 80 %): inside")
    without = sharing.lines(compared.assign(why="no such device"))
    assert without[0].endswith("no prediction: no such device")


def test_the_command_compares_and_writes_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cb.measure, "run", lambda *_, **__: REPORT)
    out = tmp_path / "measured.json"
    shell.main(["measure", "--compare", "--beside", DEVICE, "--out", str(out)])
    printed = capsys.readouterr().out
    assert "80 %): outside" in printed and "nothing was sent anywhere" in printed
    assert {file.name for file in tmp_path.iterdir()} >= {"measured.json", "measured-inference.csv"}


def test_a_machine_that_is_not_in_the_catalogue_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "processor", lambda: "a processor of tomorrow")
    monkeypatch.setattr(cb.measure, "run", None)
    with pytest.raises(SystemExit, match="--beside"):
        shell.main(["measure", "--compare", "--device", "numpy", "--out", str(tmp_path / "measured.json")])


@pytest.mark.all
@pytest.mark.slow
def test_what_the_page_says_of_the_run_on_a_gpu_is_what_it_gives():
    """An unseen machine and software: nothing is fitted to it, so the page says how often the intervals hold."""
    report = cb.measure.own_run("h200")
    compared = cb.measure.beside(report, "h200-sxm")
    inside = compared["inside80"].astype(bool)
    held = {kind: f"{part.sum()} of {len(part)}" for kind, part in inside.groupby(compared["benchmark"])}
    page = " ".join(
        (Path(__file__).parents[3] / "docs" / "measure-your-machine.md").read_text(encoding="utf-8").split()
    )
    words = page.partition("On one H200")[2].partition("In NumPy")[0]
    median = (compared["predicted_s"] / compared["measured_s"] - 1).abs().median()
    assert f"a median error of {median:.0%}".replace("%", " %") in words
    assert f"{inside.sum()} of the {len(inside)} were within" in words
    assert f"{held['prefill']} prompts".replace("of ", "of the ") in words
    for kind, name in (
        ("training step", "training steps"),
        ("decode", "decoding steps"),
        ("forward pass", "forward passes"),
    ):
        assert f"{held[kind]} {name}" in words
    faster = compared.loc[compared["benchmark"] == "decode", "ratio"]
    assert faster.min() > 1 and f"{faster.min():.1f} to {faster.max():.1f} times as fast" in words
    graph = compared["method"] == "graph"
    assert faster[graph].median() > 1.3 * faster[~graph].median() and "most of all when a CUDA graph" in words
    slower = compared.loc[(compared["benchmark"] == "training step") & (compared["model"] == "gpt2"), "ratio"]
    assert 0.45 < slower.median() < 0.55 and "GPT-2 trained half as fast" in words
    passes = compared.loc[compared["benchmark"] == "forward pass", "ratio"]
    assert (passes > 1).mean() > 0.6, "mostly faster, as docs/accuracy.md says"
    page = (Path(__file__).parents[3] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert f"engine, {inside.sum()} of {len(inside)} predictions were within their 80 % intervals" in page
    ours = cb.measure.calibrate(report).predictions()
    assert f"still {ours['left_out_error'].abs().median():.0%}".replace("%", " %") in words
    assert f"{ours['inside80'].sum()} of the {len(ours)} were within their wider" in words
