"""The search over layouts: all divide, the front is that of brute force, and reasons name parts that differ."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import cookbook as cb
from cookbook.catalog import UnknownName
from cookbook.topics.runs.search import AXES, Layouts, search

COSTS = ("step_seconds", "memory_bytes", "device_seconds")


@pytest.fixture(scope="module")
def found() -> Layouts:
    return search("llama2_7b", "h100-sxm", [16, 32], 64)


def test_every_layout_divides_what_it_must(found: Layouts) -> None:
    table = found.table
    assert len(table) == found.fitting <= found.tried
    assert (table["tp"] * table["pp"] * table["cp"] * table["dp"] == table["devices"]).all()
    assert (32 % table["tp"] == 0).all() and (32 % (table["pp"] * table["vp"]) == 0).all()  # heads and layers
    assert (64 % (table["dp"] * table["micro_batch"]) == 0).all()
    assert (table["tp"] <= 8).all()  # within a node


def test_experts_and_long_sequences_bring_their_own_axes() -> None:
    experts = search("mixtral_8x7b", "h100-sxm", 64, 64, recompute="full").table
    assert set(experts["ep"]) > {1} and (8 % experts["ep"] == 0).all()
    assert ((experts["dp"] * experts["cp"] * experts["tp"]) % experts["ep"] == 0).all()
    long = search("llama2_7b", "h100-sxm", 64, 16, seq=65_536, recompute="full").table
    assert long["cp"].max() > 1


def test_layouts_come_fastest_first(found: Layouts) -> None:
    seconds = found.table["step_seconds"].to_numpy()
    assert (np.diff(seconds) >= 0).all()
    assert (found.table["low80"] <= seconds).all() and (seconds <= found.table["high80"]).all()


def test_the_front_is_that_of_brute_force(found: Layouts) -> None:
    costs = found.table[list(COSTS)].to_numpy()
    for row, cost in enumerate(costs):
        no_worse = (costs <= cost).all(axis=1)
        better = no_worse & (costs < cost).any(axis=1)
        if found.table["front"].iloc[row]:
            assert not better.any()
        else:
            assert no_worse.sum() > 1


def step_of(row: dict[str, Any], model: str, accelerator: str, **more: Any) -> Any:
    """Return the training step of the layout in a row of a search, predicted alone."""
    layout = {name: row[name] for name in ("tp", "pp", "vp", "cp", "ep", "zero", "recompute")}
    layout |= {"batch": row["micro_batch"], "sequence_parallel": row["tp"] > 1, "software": "Megatron Core"}
    return cb.train_step(model, accelerator, **layout, neighbours=False, **more)


@pytest.mark.parametrize(
    ("model", "accelerator", "devices", "batch"),
    [("llama2_7b", "h100-sxm", 8, 8), ("gpt2", "v100-sxm2-32gb", 4, 8), ("llama2_13b", "a100-sxm-80gb", 16, 16)],
)
def test_the_search_equals_single_calls(model: str, accelerator: str, devices: int, batch: int) -> None:
    """Every layout of a small search, predicted one by one at the front door."""
    found = search(model, accelerator, devices, batch, recompute=["none", "full"], micro_batch=[1, 2])
    table = found.table
    for row in table.iloc[:: max(len(table) // 12, 1)].to_dict("records"):
        step = step_of(row, model, accelerator, devices=devices, global_batch=batch)
        assert step.point == pytest.approx(row["step_seconds"])
        assert step.memory_bytes == pytest.approx(row["memory_bytes"]) and step.fits == "yes"


def test_no_layout_is_forgotten() -> None:
    """The number of layouts of a small case, counted with plain loops."""
    count = 0
    for tp, pp, vp, micro, zero in product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4), (1, 2), (1, 2, 3)):
        if 8 % (tp * pp):
            continue
        dp = 8 // (tp * pp)
        chunked = vp == 1 or (pp > 1 and 32 % (pp * vp) == 0)
        whole = vp == 1 or 8 // (dp * micro) % pp == 0  # rounds of an interleaved pipeline
        count += chunked and 8 % (dp * micro) == 0 and whole and (zero < 3 or pp == 1) and (zero == 1 or dp > 1)
    found = search("llama2_7b", "h100-sxm", 8, 8, recompute="none", micro_batch=[1, 2])
    assert found.tried == count


def test_no_layout_needs_more_memory_than_there_is(found: Layouts) -> None:
    capacity = cb.accelerator("h100-sxm").memory_bytes
    assert (found.table["memory_bytes"] <= capacity).all() and (found.table["headroom_bytes"] >= 0).all()
    assert found.fitting < found.tried  # some do not fit, and are not proposed


def test_why_names_a_part_that_differs(found: Layouts) -> None:
    reasons = found.why(0, 12)
    best = found.table.iloc[0]
    assert 6 <= len(reasons) <= 12
    for reason in reasons.to_dict("records"):
        changes = dict(change.split(" ", 1) for change in reason["change"].split(", "))
        assert changes and set(changes) <= set(AXES)
        rows = found.table
        for axis, values in changes.items():
            before, _, after = values.partition(" -> ")
            assert str(best[axis]) == before
            rows = rows[rows[axis].astype(str) == after]
        same = [axis for axis in AXES if axis not in changes]
        other = rows[rows[same].eq(best[same]).all(axis=1)]
        assert len(other) == 1 and other["step_seconds"].iloc[0] == pytest.approx(reason["step_seconds"])
        parts = found.prediction.parts[reason["part"]][found.rows[[0, other.index[0]]]]
        assert parts[1] - parts[0] == pytest.approx(reason["part_seconds"]) and reason["part_seconds"] != 0


def test_where_nothing_fits_the_nearest_is_told() -> None:
    found = search("llama2_70b", "v100-sxm2-16gb", 8, 8)
    assert not len(found.table) and found.fitting == 0 and not len(found.front)
    assert found.nearest["memory_bytes"] > found.nearest["capacity_bytes"]
    assert found.nearest["tp"] * found.nearest["pp"] * found.nearest["cp"] * found.nearest["dp"] == 8
    known = np.asarray(found.prediction.memory_bytes)
    assert found.nearest["memory_bytes"] == np.nanmin(known)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"devices": [8, -1]}, ["devices = -1"]),
        ({"global_batch": 7, "devices": 11}, ["global_batch = 7", "devices = 11"]),
        ({"model": "resnet50"}, ["resnet50", "language model"]),
        ({"micro_batch": [64, 128], "global_batch": 32}, ["global_batch = 32"]),
        ({"micro_batch": range(10**9)}, ["micro_batch", "1,024"]),
        ({"recompute": "ful"}, ["recompute = 'ful' is not a choice", "nearest: full"]),
        ({"recompute": ["none", "some"]}, ["recompute = 'some'"]),
    ],
)
def test_what_leaves_no_layout_is_told(change: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as problem:
        search(**{"model": "llama2_7b", "accelerator": "h100-sxm", "devices": 16, "global_batch": 64, **change})
    assert all(word in str(problem.value) for word in words), problem.value


@pytest.mark.parametrize("change", [{"model": "llama2_7"}, {"accelerator": "h1000"}, {"precision": "fp7"}])
def test_unknown_names_are_told(change: dict[str, Any]) -> None:
    with pytest.raises(UnknownName):
        search(**{"model": "llama2_7b", "accelerator": "h100-sxm", "devices": 16, "global_batch": 64, **change})


WIDER: list[tuple[tuple[str, str, int, int], dict[str, Any]]] = [
    (("llama2_7b", "h100-sxm", 16, 64), {"pipeline_schedule": ["1f1b", "interleaved", "zero-bubble", "zb-v", "gpipe"]}),
    (
        ("llama2_13b", "a100-sxm-80gb", 16, 16),
        {"offload": ["", "optimiser", "optimiser to drives"], "shard": [None, 8]},
    ),
    (
        ("mixtral_8x7b", "gb200", 72, 72),
        {"fabric": "NVL72", "capacity_factor": 1.25, "oversubscription": 2, "pipeline_schedule": ["zero-bubble"]},
    ),
]


@pytest.mark.parametrize(("case", "more"), WIDER)
def test_the_search_over_options_equals_single_calls(case: tuple[Any, ...], more: dict[str, Any]) -> None:
    """Layouts with schedules, offload, groups and networks, each predicted once more at the front door."""
    found = search(*case, recompute=["none", "full"], micro_batch=[1, 2], **more)
    model, accelerator, devices, batch = case
    fixed = {name: value for name, value in more.items() if not isinstance(value, list)}
    chosen = {name for name in more if name not in fixed}
    assert chosen <= set(found.axes) and len(found.table) > 100
    for name in chosen:
        names = {"all" if each is None else each for each in more[name]}
        assert set(found.table[name]) == names, name
    for row in found.table.iloc[:: len(found.table) // 25].to_dict("records"):
        options = {name: None if row[name] == "all" else row[name] for name in chosen}
        step = step_of(row, model, accelerator, devices=devices, global_batch=batch, **fixed, **options)
        assert step.point == pytest.approx(row["step_seconds"]) and step.fits == "yes"
        assert step.memory_bytes == pytest.approx(row["memory_bytes"])


def test_schedules_are_tried_where_they_can_be_and_once_without_a_pipeline() -> None:
    names = ("1f1b", "interleaved", "zb-v", "gpipe")
    count = 0
    for tp, pp, vp, micro, zero, name in product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4), (1, 2), (1, 2, 3), names):
        if 8 % (tp * pp):
            continue
        dp = 8 // (tp * pp)
        chunked = vp == 1 or (pp > 1 and 32 % (pp * vp) == 0)
        tried = chunked and 64 % (dp * micro) == 0 and (zero < 3 or pp == 1) and (zero == 1 or dp > 1)
        fed = 64 // (dp * micro)
        takes = {"interleaved": vp > 1 and fed % pp == 0, "zb-v": vp == 2}.get(name, vp == 1)
        count += bool(tried and (takes if pp > 1 else name == names[0]))
    found = search("llama2_7b", "h100-sxm", 8, 64, recompute="none", micro_batch=[1, 2], pipeline_schedule=names)
    assert found.tried == count


def test_why_names_the_term_that_an_option_changes() -> None:
    found = search(
        "llama2_70b",
        "h100-sxm",
        64,
        64,
        recompute="full",
        micro_batch=[1],
        pipeline_schedule=["1f1b", "zero-bubble"],
        offload=["", "optimiser"],
    )
    row = int(np.flatnonzero((found.table["pp"] > 1) & (found.table["offload"] == ""))[0])
    reasons = found.why(row, 60).set_index("change")
    schedule = reasons[reasons.index.str.startswith("pipeline_schedule")]
    host = reasons[reasons.index.str.startswith("offload")]
    assert set(schedule["part"]) == {"bubble"} and set(host["part"]) == {"optimiser"}
    assert (host["memory_bytes"] < found.table["memory_bytes"].iloc[row]).all()


def test_a_rack_as_one_node_allows_wider_tensor_parallelism() -> None:
    nodes, rack = (
        search("llama2_70b", "gb200", 64, 64, recompute="none", **more).table for more in ({}, {"fabric": "NVL72"})
    )
    assert nodes["tp"].max() == 8 and rack["tp"].max() == 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pipeline_schedule": ["1f2b"]}, ["1f2b", "zb-v"]),
        ({"pipeline_schedule": ["1f1b", "2f2b"]}, ["2f2b"]),
        ({"capacity_factor": 1.25}, ["capacity_factor = 1.25", "no experts"]),
        ({"oversubscription": 0}, ["oversubscription = 0"]),
        ({"offload": ["disk"]}, ["disk"]),
        ({"fabric": "tpu-v4-pod"}, ["torus"]),
    ],
)
def test_options_that_cannot_be_are_told(change: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as problem:
        search("llama2_7b", "h100-sxm", 16, 64, **change)
    assert all(word in str(problem.value) for word in words), problem.value


def test_one_word_is_one_choice() -> None:
    one, listed = (
        search("llama2_7b", "h100-sxm", 16, 64, recompute=each, zero=3, micro_batch=2) for each in ("full", ["full"])
    )
    assert len(one.table) == len(listed.table) > 0
    for column, value in (("recompute", "full"), ("zero", 3), ("micro_batch", 2)):
        assert set(one.table[column]) == {value}


def test_what_was_not_given_is_told(found: Layouts) -> None:
    names = [each.split(" = ")[0] for each in found.assumed]
    assert {"precision", "seq", "software", "attention", "zero", "sequence_parallel", "neighbours"} <= set(names)
    assert "software = megatron-core (tuned)" in found.assumed and "attention = flash3" in found.assumed
    given = search(
        "llama2_7b",
        "h100-sxm",
        16,
        64,
        precision="bf16",
        seq=4096,
        software="Megatron Core",
        attention="flash2",
        zero=1,
        recompute="none",
        micro_batch=1,
    )
    left = [each.split(" = ")[0] for each in given.assumed]
    assert not {"precision", "seq", "software", "attention", "zero", "recompute", "micro_batch"} & set(left)
    assert "sequence_parallel" in left


def test_the_result_reads_well_and_stays_as_it_is(found: Layouts) -> None:
    best = found.table.iloc[0]
    assert f"{best['tokens_per_second']:,.0f} tokens/s" in repr(found) and len(repr(found)) < 300
    page = found._repr_html_()
    assert "--jp-ui-font-color1,CanvasText" in page and "Assumed: software = " in page and "&gt; 1" in page
    assert "<script" not in replace(found, title="<script>alert(1)</script>")._repr_html_()
    kept = found.to_dict()
    json.dumps(kept, allow_nan=False)
    assert len(kept["layouts"]) == found.fitting and kept["assumed"] == list(found.assumed)
    for frame in (found.table, found.frame()):
        frame.loc[0, "step_seconds"] = 0.0
        del frame["tp"]
    assert found.table["step_seconds"].iloc[0] == best["step_seconds"] and "tp" in found.table
    with pytest.raises(ValueError, match="read-only"):
        found.rows[0] = 5
    with pytest.raises(FrozenInstanceError):
        found.tried = 0  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.nearest["tp"] = 1  # type: ignore[index]


def test_layouts_of_the_grid_are_those_that_a_call_takes() -> None:
    """Every axis at once: the search tries no layout that a call refuses."""
    more = {"pipeline_schedule": ["", "gpipe", "interleaved", "zb-v"], "shard": [None, 8, 16], "seq": 16384}
    for model in ("mixtral_8x7b", "llama3_405b"):
        found = search(model, "h100-sxm", [48, 128], 96, **more)
        assert (found.prediction.why == "").all() and len(found.prediction.why) == found.tried > 1000


def test_a_network_with_changed_arguments_is_searched_and_planned() -> None:
    """With as many layers as the network of the zoo it is that network; with more, slower and larger."""
    plain, same, deep = (
        search(model, "h100-sxm", 16, 64, recompute="none", micro_batch=1)
        for model in ("llama2_7b", cb.model("llama2_7b", depth=32), cb.model("llama2_7b", depth=40))
    )
    assert same.table["step_seconds"].tolist() == pytest.approx(plain.table["step_seconds"].tolist())
    assert deep.table["step_seconds"].iloc[0] > plain.table["step_seconds"].iloc[0]
    assert set(deep.table["pp"]) <= {1, 2, 4, 8, 16} and (40 % deep.table["pp"] == 0).all()
    days = [
        cb.planning.plan_run(model, "h100-sxm", 16, 1e11, global_batch=64).table["days"].item()
        for model in ("llama2_7b", cb.model("llama2_7b", depth=40))
    ]
    assert days[1] > days[0]
    with pytest.raises(ValueError, match="pp = 16 does not divide 40 layers; nearest: 10 or 20"):
        cb.planning.plan_run(cb.model("llama2_7b", depth=40), "h100-sxm", 16, 1e11, layout={"pp": 16})


@pytest.mark.parametrize(
    ("model", "accelerator", "counts", "batch"),
    [("llama2_7b", "h100-sxm", [8, 16, 32, 64], 256), ("mixtral_8x7b", "a100-sxm-80gb", [32, 64, 128], 256)],
)
def test_more_devices_never_slow_a_layout(model: str, accelerator: str, counts: list[int], batch: int) -> None:
    table = search(model, accelerator, counts, batch).table
    axes = [name for name in AXES if name != "devices"]
    for few, many in pairwise(counts):
        both = table[table["devices"] == few].merge(table[table["devices"] == many], on=axes)
        assert len(both) > 50 and (both["step_seconds_y"] <= both["step_seconds_x"]).all()
    assert table.groupby("devices")["step_seconds"].min().is_monotonic_decreasing
