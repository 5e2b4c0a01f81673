"""The panels of recipe 03 without a browser: what they say, that figures are those of the calls, and their errors."""

from __future__ import annotations

import ast
import io
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.evidence import evaluation
from cookbook.formulas import parallelism
from cookbook.panels.shell import MOST_ROWS
from cookbook.panels.text import percent

FP32 = {"precision": "fp32"}


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("scaling")


@pytest.fixture
def line(made_once: Any) -> Any:
    return made_once("assembly_line")


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    table = cb.scaling("alexnet", "hpe-apollo-6500-gen9-xl270d", 1024, 64, **FP32)
    last = table.iloc[-1]
    assert f"{last['speed_up']:,.0f}× as fast as one" in panel.answer
    assert f"Interval (80 %): {last['low80']:,.0f}-{last['high80']:,.0f}×" in panel.answer
    assert f"{100 * last['efficiency']:.0f} % of the ideal" in panel.answer
    worth = table.loc[table["efficiency"] >= 0.8, "devices"].max()
    assert (f"up to {worth:,} devices" if worth > 1 else "from the second device on") in panel.answer
    ops = cb.model("alexnet").ops
    assert f"{64 * ops.total('macs') / ops.parameter_count:,.0f} MAC per step for each parameter" in panel.answer


def test_lines_are_those_of_the_call(panel: Any) -> None:
    assert panel.shown["picture"] == "efficiency", "it opens where small losses can be seen"
    panel.update(picture="speedups")
    columns = pd.DataFrame(panel.columns)
    for name in ("alexnet", "vgg16", "resnet50", "eng_acoustic_model"):
        own = columns[(columns["network"] == cb.model(name).title) & ~columns["measured"].astype(bool)]
        table = cb.scaling(name, "hpe-apollo-6500-gen9-xl270d", 1024, 64, **FP32)
        assert own["speed_up"].tolist() == pytest.approx(table["speed_up"].tolist(), rel=1e-4)
        for end in ("low", "high"):
            assert own[end].tolist() == pytest.approx(table[f"{end}80"].tolist(), rel=1e-4), "a line has its interval"
    assert panel.shown["signals"]["most"] == 1024


def test_efficiency_is_the_speed_up_over_the_devices(panel: Any) -> None:
    panel.update(picture="efficiency")
    columns = pd.DataFrame(panel.columns)
    table = cb.scaling("vgg16", "hpe-apollo-6500-gen9-xl270d", 1024, 64, **FP32)
    own = columns[columns["network"] == cb.model("vgg16").title]
    assert own["share"].tolist() == pytest.approx((100 * table["efficiency"]).tolist(), rel=1e-4)
    first = columns[columns["network"] == cb.model("alexnet").title]
    assert (first["low"] <= first["share"]).all() and (first["share"] <= first["high"]).all()


def test_measured_speed_ups_are_drawn_with_their_sources(panel: Any) -> None:
    panel.update(model="resnet50_v1.5", accelerator="dgx-1-v100", precision="fp16", picture="speedups")
    columns, known = pd.DataFrame(panel.columns), evaluation.pairs()
    known = known[(known["network"] == "resnet50_v1.5") & (known["accelerator"] == "v100-sxm2-16gb")]
    drawn = columns[columns["measured"].astype(bool)]
    assert len(drawn) == len(known) > 5 and f"[{len(known)} measured]" in repr(panel)
    assert drawn["speed_up"].tolist() == pytest.approx(known["measured_speed_up"].tolist(), rel=1e-4)
    assert drawn["url"].str.startswith("http").all()
    panel.update(mode="strong", batch=2048)
    assert not any(panel.columns["measured"])  # they were measured with a batch for each device


@pytest.mark.parametrize("picture", ["speedups", "efficiency"])
def test_a_pinned_scenario_stays_as_a_line(panel: Any, picture: str) -> None:
    panel.update(picture=picture)
    column = {"speedups": "speed_up", "efficiency": "share"}[picture]
    before = pd.DataFrame(panel.columns)
    before = before[before["network"] == cb.model("alexnet").title]
    panel.pin()
    panel.update(model="vgg19", link="ethernet-10g")
    kept = pd.DataFrame(panel.columns)
    kept = kept[kept["pinned"].astype(bool)]
    assert kept[column].tolist() == pytest.approx(before[column].tolist())
    assert "pinned" not in panel.shown["signals"]["networks"] and "pinned" not in panel._view.picture.title
    panel.pin()
    assert not any(panel.columns["pinned"])


def test_the_axis_reaches_down_to_what_is_slower_than_one(panel: Any) -> None:
    panel.update(picture="speedups")
    assert panel.shown["signals"]["least"] == 1 or min(panel.columns["speed_up"]) < 1
    panel.update(mode="strong", batch=1024, exchange="parameter server", link="ethernet-10g")
    assert panel.shown["signals"]["least"] <= min(panel.columns["speed_up"]) < 1
    assert "further ones make it slower" in panel._view.picture.title


def test_parts_add_up_to_a_sample(panel: Any) -> None:
    panel.update(picture="parts")
    table = cb.scaling("alexnet", "hpe-apollo-6500-gen9-xl270d", 1024, 64, **FP32)
    bars = pd.DataFrame(panel.columns).groupby("row", sort=False)["value"].sum()
    assert bars.tolist() == pytest.approx((1000 * table["devices"] / table["samples_per_second"]).tolist(), rel=1e-3)
    assert bars.iloc[0] / bars.iloc[-1] == pytest.approx(table["efficiency"].iloc[-1], rel=1e-3)
    assert sum(part["value"] for part in panel.shown["parts"]) == pytest.approx(table["step_seconds"].iloc[-1])
    assert "data-parallel communication grows most" in repr(panel)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "all-reduce of the gradients"),
        ({"model": "resnet50", "accelerator": "dgx-h100", "precision": "bf16"}, "waiting for the slowest"),
        (
            {"model": "vgg16", "mode": "strong", "batch": 1024, "exchange": "parameter server"},
            "further ones make it slower",
        ),
        ({"link": "ethernet-1g", "model": "eng_acoustic_model"}, "from the second device on"),
    ],
)
def test_it_says_where_scaling_stops_and_why(state: dict[str, Any], words: str) -> None:
    panel = cb.panels.scaling(**state)
    assert panel.shown["error"] == "" and words in panel.answer


def test_an_exchange_that_nobody_measured_has_no_interval(panel: Any) -> None:
    panel.update(exchange="in-network")
    assert "[a formula, no interval]" in repr(panel) and "Interval" not in panel.answer
    assert all(value is None for value in panel.columns["low"])
    json.dumps(panel.columns, allow_nan=False)
    panel.update(exchange="hierarchical", buckets="4")
    assert "[a formula, no interval]" in repr(panel)


@pytest.mark.parametrize("picture", ["speedups", "efficiency", "parts"])
def test_strong_scaling_over_another_link_can_be_sent(panel: Any, picture: str) -> None:
    panel.update(picture=picture, mode="strong", batch=1024, link="infiniband-fdr-4x-56-gb-s")
    panel.receive({"do": "open", "what": "table"})
    json.dumps([panel.shown, panel.columns], allow_nan=False)
    assert 0 < len(panel.shown["table"]["rows"]) <= MOST_ROWS
    panel.receive({"do": "open", "what": "sources"})
    assert {item[2] for item in panel.shown["sources"]["items"]} >= {"layers of the network", "datasheet of the link"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "resnet5"}, ["resnet5", "resnet50"]),
        ({"model": "llama2_7b"}, ["llama2_7b", "language model"]),
        ({"accelerator": "abacus"}, ["abacus"]),
        ({"link": "string"}, ["string", "nearest"]),
        ({"exchange": "pigeon"}, ["pigeon", "flat ring"]),
        ({"batch": 0}, ["Batch = 0", "1 to 65,536"]),
        ({"devices": 4096}, ["Devices up to", "2 to 1,024"]),
        ({"buckets": "7"}, ["Buckets", "25"]),
        ({"accelerator": "k40", "precision": "bf16"}, ["bf16", "fp32"]),
        ({"compare": ["vgg16"] * 4}, ["at most 3"]),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"model": "vgg16", "compare": [], "mode": "strong", "batch": 4096, "picture": "parts"},
        {"exchange": "HPE 2017", "buckets": "1", "link": "pcie-3-0-x16", "accelerator": "k40", "devices": 16},
        {"accelerator": "dgx-h100", "precision": "own"},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.scaling(**state)
    assert panel.shown["error"] == ""
    first, second = panel.code.splitlines()
    assert repr(eval(first, {"cb": cb})) == repr(panel)
    ast.parse(panel.code)
    found = eval(second, {"cb": cb})
    assert f"{percent(found['efficiency'].iloc[-1])} of the ideal" in panel.answer


def test_one_batch_has_no_more_parts_than_samples(panel: Any) -> None:
    panel.update(mode="strong")
    assert panel.answer.startswith("64 devices train")
    assert "Batch: 64 samples cannot be split" in panel.answer
    assert panel.shown["signals"]["most"] == 64
    panel.update(batch=4096)
    assert panel.answer.startswith("1,024 devices train") and "cannot be split" not in panel.answer


def test_pin_compares(panel: Any) -> None:
    panel.pin()
    before = panel.frame["speed_up"].iloc[10]
    panel.update(link="infiniband-ndr-4x-400-gb-s")
    assert panel.frame["speed_up"].iloc[10] > before
    assert re.search(r"Against the pinned scenario: speed-up [\d.,]+×", panel.answer) and panel.shown["ghost"]


def test_the_csv_is_what_is_shown(panel: Any) -> None:
    read = pd.read_csv(io.StringIO(panel.csv()))
    assert {"network", "devices", "speed_up", "low80", "step_seconds", "compute [s]"} <= set(read.columns)
    assert read["network"].nunique() == 4


@pytest.mark.parametrize("schedule", parallelism.SCHEDULES)
def test_the_assembly_line_is_that_of_the_schedule(line: Any, schedule: str) -> None:
    line.update(schedule=schedule)
    passes = eval(line.code.splitlines()[1], {"cb": cb})
    assert sorted(line.columns["end"]) == pytest.approx(sorted(1000 * passes["end"]), abs=1e-3)
    busy = float((passes["end"] - passes["start"]).sum()) / (4 * passes["end"].max())
    assert f"wait {100 * (1 - busy):.0f} % of the time" in line.answer
    assert sum(part["value"] for part in line.shown["parts"]) == pytest.approx(1)
    assert line.shown["signals"]["rows"] == [f"device {device}" for device in (1, 2, 3, 4)]


def test_1f1b_waits_as_long_as_gpipe_and_keeps_fewer(line: Any) -> None:
    line.pin()
    line.update(schedule="1f1b")
    assert "waiting share 1.0×" in line.answer and "micro-batches kept 0.50×" in line.answer
    line.update(micro_batches=32)
    assert "up to 4 micro-batches" in line.answer


def test_fewer_micro_batches_than_stages_are_told(line: Any) -> None:
    line.update(micro_batches=2)
    assert "fewer micro-batches than stages" in line.answer


def test_interleaving_needs_a_multiple(line: Any) -> None:
    line.update(schedule="interleaved", micro_batches=9)
    assert line.shown["error"] and "Micro-batches = 9" in line.answer and "take 8" in line.answer
    line.update(micro_batches=8)
    assert not line.shown["error"]


def test_the_code_of_the_line_reproduces_it(line: Any) -> None:
    line.update(schedule="zero-bubble", stages=6, micro_batches=12)
    assert repr(eval(line.code.splitlines()[0], {"cb": cb})) == repr(line)
    assert np.isclose(line.frame["end"].max(), eval(line.code.splitlines()[1], {"cb": cb})["end"].max())
    line.receive({"do": "open", "what": "table"})
    assert len(line.shown["table"]["rows"]) == 6


def test_one_micro_batch_can_be_followed(line: Any) -> None:
    """Its passes stand out in the order in which they need one another: down the line, and back up."""
    line.update(follow=3)
    drawn = pd.DataFrame(line.columns)
    own = drawn[~drawn["faded"].astype(bool)].sort_values("start")
    assert own["row"].tolist() == [f"device {device}" for device in (1, 2, 3, 4, 4, 3, 2, 1)]
    assert (own["start"].to_numpy()[1:] >= own["end"].to_numpy()[:-1]).all() and set(own["micro_batch"]) == {3}
    assert f"{own['end'].max() - own['start'].min():g} ms in the pipeline, 12 ms of it computation" in line.answer
    line.update(follow=9)
    assert "Follow micro-batch = 9" in line.answer and "0 to 8" in line.answer
    line.update(follow=0)
    assert not any(line.columns["faded"]) and "in the pipeline" not in line.answer
