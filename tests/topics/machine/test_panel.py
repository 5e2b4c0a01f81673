"""The panel of recipe 11 without a browser: what it says, reports of one's own, and that its code works."""

from __future__ import annotations

from typing import Any

import pytest

import cookbook as cb
from cookbook.topics.machine.report import Report, row


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("this_machine")


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    errors = cb.measure.calibrate(cb.measure.own_run()).errors()
    assert f"a median error of {100 * errors['left_out']:.0f} %" in panel.answer
    inside = round(errors["inside80"] * errors["rows"])
    assert f"Inside 80 % intervals: {inside} of {errors['rows']:.0f}." in panel.answer
    panel.update(prediction="datasheet")
    assert f"a median error of {100 * errors['before']:.0f} %" in panel.answer


def test_a_datasheet_that_stands_in_is_called_a_guess(panel: Any) -> None:
    ours = cb.measure.calibrate(cb.measure.own_run())
    assert ours.lacks == "AMD EPYC"
    assert f"Datasheet (a guess): {ours.before.name}, because the report names only {ours.lacks}." in panel.answer
    named = cb.panels.this_machine(cb.measure.calibrate(cb.measure.own_run(), like="epyc-9654"))
    assert "a guess" not in named.answer and "Datasheet: EPYC 9654" in named.answer


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"picture": "products", "precision": "bf16"},
        {"picture": "memory"},
        {"prediction": "calibrated", "phase": "answers"},
    ],
)
def test_the_code_gives_the_state_again(panel: Any, changes: dict[str, Any]) -> None:
    panel.update(**changes)
    assert not panel.shown["error"]
    first, second = panel.code.splitlines()
    assert eval(first, {"cb": cb}).answer == panel.answer and len(eval(second, {"cb": cb}))
    panel.receive({"do": "open", "what": "table"})
    assert len(panel.shown["table"]["rows"]) == min(len(panel.columns["row"]), 15)


def test_a_report_of_ones_own_is_shown(tmp_path: Any) -> None:
    path = cb.measure.own_run().write(tmp_path / "mine.json")
    panel = cb.panels.this_machine(str(path), phase="training")
    assert "Machine: this machine." in panel.answer and repr(str(path)) in panel.code
    assert eval(panel.code.splitlines()[0], {"cb": cb}).answer == panel.answer


def test_a_report_without_networks_opens_on_products() -> None:
    rows = [
        row("matmul", 2e9, [0.01], 1, case="1000x1000x1000", path="numpy", device="cpu", number_format="fp32"),
        row("memory", 1e9, [0.1], 1, case="copy 64 MiB", path="numpy", device="cpu", number_format="fp64"),
    ]
    report = Report("complete", "2026-01-02 03:04", {}, {"processor": "x", "cores": 2, "memory_bytes": 8e9}, rows)
    panel = cb.panels.this_machine(report)
    assert panel.answer.startswith("Matmuls in fp32 reach 200 GFLOP/s") and panel.shown["picture"] == "products"
    panel.update(picture="networks")
    assert "measured no network" in panel.answer
    panel.update(picture="products", precision="bf16")
    assert "no matmul in it" in panel.answer


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"precision": "fp13"}, ["fp13", "bf16"]),
        ({"prediction": "guessed"}, ["guessed", "left out"]),
        ({"phase": "dreaming"}, ["dreaming", "answers"]),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


def test_what_is_no_report_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"gone.json cannot be read"):
        cb.panels.this_machine(tmp_path / "gone.json")
