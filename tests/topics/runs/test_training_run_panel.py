"""The panel of recipe 08: figures are those of `plan_run`, what cannot be is told with the nearest that can."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels.shell import MOST_ROWS
from cookbook.panels.text import dollar_range, figure
from cookbook.units import dollars

SMALL = {"model": "llama2_7b", "tokens": 100, "batch": 512, "devices": 64}


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("training_run", **SMALL)


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    row = cb.planning.plan_run("llama2_7b", "h100-sxm", 64, 1e11, global_batch=512).table.iloc[0]
    assert f"in {figure(row['days'])} days for {dollars(row['usd'])}." in panel.answer
    assert f"{figure(row['days_low'])} to {figure(row['days_high'])} days for 100 billion tokens; " in panel.answer
    assert dollar_range(row["usd_low"], row["usd_high"]) in panel.answer
    assert f"MFU {100 * row['mfu']:.0f} %" in panel.answer
    assert f"goodput is {100 * row['goodput']:.1f} %." in panel.answer
    step = sum(part["value"] for part in panel.shown["parts"])
    assert step == pytest.approx(row["step_seconds"])


@pytest.mark.parametrize("picture", ["curve", "layouts", "memory", "checkpoints"])
def test_every_picture_of_a_rack_can_be_drawn(panel: Any, picture: str) -> None:
    panel.update(picture=picture, accelerator="gb200-nvl72")
    assert panel.shown["error"] == "" and panel.columns, panel.answer
    panel.receive({"do": "open", "what": "table"})
    json.dumps([panel.shown, panel.columns], allow_nan=False)
    assert 0 < len(panel.shown["table"]["rows"]) <= MOST_ROWS and panel.sources


def test_the_last_preset_is_gpt_3(panel: Any) -> None:
    panel.receive({"do": "preset", "index": 2})
    assert len(panel.shape["presets"]) == 3 and "GPT-3 175B" in panel.answer and panel.values["tp"] is None


def test_pictures_show_the_plan(panel: Any) -> None:
    run = cb.planning.plan_run("llama2_7b", "h100-sxm", [64, 128], 1e11, global_batch=512)
    curve = pd.DataFrame(panel.columns)
    drawn = curve[curve["text"].isin(["64", "128"]) & (curve["what"] == "curve")]
    np.testing.assert_allclose(sorted(drawn["days"], reverse=True), run.table["days"], rtol=1e-5)
    np.testing.assert_allclose(drawn["cost"].astype(float).sort_values(), run.table["usd"].sort_values(), rtol=1e-5)
    panel.update(picture="memory")
    held = pd.DataFrame(panel.columns)
    need = held.loc[held["role"] == "need", "bytes"].sum()
    assert need == pytest.approx(run.table["memory_bytes"].iloc[0])
    panel.update(picture="layouts")
    steps = pd.DataFrame(panel.columns).groupby("row", sort=False)["value"].sum()
    assert steps.iloc[0] == pytest.approx(run.table["step_seconds"].iloc[0], rel=1e-4)
    assert steps.is_monotonic_increasing
    panel.update(picture="checkpoints")
    marks = pd.DataFrame(panel.columns).query("what == 'mark'")
    assert 100 * run.table["goodput"].iloc[0] == pytest.approx(marks["useful"].iloc[-1], rel=1e-5)


def test_deadline_and_budget_are_answered(panel: Any) -> None:
    panel.update(deadline=1)
    assert "64 devices miss the 1-day deadline by " in panel.answer
    assert re.search(r"; [\d,]+ devices meet it with .* to spare", panel.answer)
    days = panel.frame.set_index("devices")["days"]
    panel.update(deadline=1000, budget=1)
    assert re.search(
        r"meet the 1,000-day deadline with .* to spare.*; 8 devices meet it with .* to spare", panel.answer
    )
    assert "$1 M pays for" in panel.answer
    panel.update(deadline=float(days[64]) * 1.01, budget=None)
    assert ", though not certainly" in panel.answer
    panel.update(tokens=100_000, deadline=1)
    assert "none of the numbers tried meets it" in panel.answer


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(c.name, marks=() if c.name in ("deadline", "seq", "tp") else pytest.mark.all)
        for c in cb.panels.training_run("llama2_7b", devices=64)._controls.values()
        if getattr(c, "optional", False)
    ],
)
def test_what_may_be_empty_can_be_emptied_again(panel: Any, name: str) -> None:
    before = panel.answer if name != "deadline" else ""
    panel.update(**{name: panel._controls[name].stops[1]})
    panel.update(**{name: " "})
    assert panel.shown["error"] == "" and panel.values[name] is None
    assert before in panel.answer and ("deadline" not in panel.answer or name != "deadline")


def test_a_missing_price_is_said_and_can_be_given(panel: Any) -> None:
    panel.update(accelerator="gb200-nvl72")
    assert "price not known" in panel.answer and panel.shown["picture"] == "hours"
    assert " device-hours. Interval" in panel.answer and "$" not in panel.answer
    panel.update(hourly=10)
    assert " at your price of $10 per hour" in panel.answer and "quartiles" not in panel.answer
    assert panel.shown["picture"] == "curve" and "[your price]" in repr(panel)


def test_a_pinned_run_is_compared(panel: Any) -> None:
    panel.pin()
    panel.update(precision="fp8")
    assert re.search(r"Against the pinned scenario: days 0\.\d+×", panel.answer)
    assert "ghost" in panel.columns["what"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"devices": 1000}, ["Devices = 1,000 cannot share 32 heads", "nearest:", "1,024"]),
        ({"tp": 6}, ["TP degree = 6 does not divide 32 heads; nearest: 4 or 8"]),
        ({"pp": 5}, ["PP degree = 5 does not divide 32 layers; nearest: 4 or 8"]),
        ({"tp": 1, "pp": 1, "batch": 40}, ["Batch = 40 is not a multiple of replicas", "64 x 1 = 64; nearest: 64"]),
        ({"model": "llama2_70b", "devices": 8}, ["Devices = 8: no layout fits the memory", "GiB"]),
        ({"model": "resnet50"}, ["resnet50"]),
        ({"model": "lama2_7b"}, ["lama2_7b", "nearest"]),
        ({"accelerator": "h100-sxn"}, ["h100-sxn", "nearest"]),
        ({"precision": "fp8", "accelerator": "a100-sxm-80gb"}, ["fp8", "bf16"]),
        ({"devices": 12.5}, ["Devices", "whole number"]),
        ({"tokens": 0}, ["Tokens", "from 1 to"]),
        ({"accelerator": {"custom": "h100"}}, ["cannot read", "like="]),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"per_node": 32, "network": 200, "tp": 16, "picture": "layouts"},
        {"accelerator": {"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}, "hourly": 3, "precision": "fp8"},
        {"mtbf": 2, "storage": 10, "budget": 1, "seq": 8192, "picture": "checkpoints"},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.training_run(**{**SMALL, **state})
    assert panel.shown["error"] == "", panel.answer
    ast.parse(panel.code)
    first, second = panel.code.splitlines()
    assert repr(eval(first, {"cb": cb})) == repr(panel)
    row = eval(second, {"cb": cb}).table.iloc[0]
    assert f"{figure(row['days'])} days" in panel.answer and row["devices"] == 64


def test_formats_that_the_machine_lacks_say_so(panel: Any) -> None:
    panel.update(accelerator="a100-sxm-80gb")
    assert "fp8" in panel.shown["off"]["precision"] and "bf16" not in panel.shown["off"]["precision"]
