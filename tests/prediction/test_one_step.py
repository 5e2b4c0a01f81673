"""One question, three doors: a call, a row of a table and a search give the same step and the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from cookbook.prediction.answer import answer
from cookbook.prediction.api import train_step
from cookbook.prediction.engine import Estimate, estimate
from cookbook.prediction.match import match_storage
from cookbook.prediction.scenario import LEVEL, fields, scenario
from cookbook.topics.runs.search import search

LANGUAGE = ("llama2_7b", "llama2_13b", "llama3_8b", "mixtral_8x7b", "gpt2")
NETWORKS = ("resnet50", "vgg16", "mobilenet_v2", "unet3d", "bert_large")
DEVICES = ("h100-sxm", "a100-sxm-80gb", "v100-sxm2-32gb", "mi300x", "tpu-v5p")
SAME = 1e-9


def pick(rng: np.random.Generator, *values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def transformer(rng: np.random.Generator, left_out: bool) -> dict[str, Any]:
    """Arguments of a call: all of them, or some left to their defaults."""
    tp, pp, dp, micro = pick(rng, 1, 2, 4, 8), pick(rng, 1, 2, 4), pick(rng, 1, 2, 8), pick(rng, 1, 2, 4)
    given = {
        "devices": tp * pp * dp,
        "tp": tp,
        "pp": pp,
        "micro_batch": micro,
        "global_batch": micro * dp * pick(rng, 4, 8, 16),
        "zero": pick(rng, 1, 2, 3),
        "recompute": pick(rng, "none", "selective", "full"),
        "seq": pick(rng, 1024, 2048, 4096),
        "attention": pick(rng, "flash2", "fused-softmax", "flash"),
        "software": pick(rng, "Megatron Core", "PyTorch", "JAX"),
        "precision": pick(rng, "bf16", "fp16"),
    }
    if left_out:
        dropped = [name for name in given if rng.random() < 0.4]
        # Shards are given together or not at all: one that is missing is one shard.
        dropped = [*dropped, "tp", "pp"] if {"tp", "pp"} & set(dropped) else dropped
        given = {name: value for name, value in given.items() if name not in dropped}
    return {"model": pick(rng, *LANGUAGE), "accelerator": pick(rng, *DEVICES), **given}


def classic(rng: np.random.Generator, left_out: bool) -> dict[str, Any]:
    devices, batch = pick(rng, 1, 4, 8, 64), pick(rng, 4, 32, 128)
    given = {
        "devices": devices,
        "micro_batch": batch,
        "global_batch": batch * devices * pick(rng, 1, 2),
        "per_node": min(devices, 8),
        "software": pick(rng, "PyTorch", "PyTorch NGC", "TensorFlow"),
        "precision": pick(rng, "fp16", "fp32"),
    }
    if left_out:
        given = {name: value for name, value in given.items() if rng.random() < 0.6 or name == "micro_batch"}
    return {"model": pick(rng, *NETWORKS), "accelerator": pick(rng, *DEVICES), **given}


def called(given: dict[str, Any], **more: Any) -> Estimate | None:
    """What the call answers; none where it refuses."""
    try:
        return train_step(**given, **more)
    except ValueError:
        return None


def told(rows: list[dict[str, Any]], kind: str, neighbours: bool) -> pd.DataFrame:
    """The same questions as rows of one table of text, blank where a field is left out."""
    cells = [{name: str(value) for name, value in row.items()} for row in rows]
    return answer(pd.DataFrame(cells).fillna(""), kind, neighbours)


def compare(kind: str, draw: Any, count: int, seed: int, left_out: bool) -> None:
    rng = np.random.default_rng(seed)
    asked = [draw(rng, left_out) for _ in range(count)]
    for neighbours in (True, False):
        steps = [called(given, neighbours=neighbours) for given in asked]
        known = [at for at, step in enumerate(steps) if step is not None]
        assert len(known) > 0.5 * count
        table = told([asked[at] for at in known], kind, neighbours)
        assert (table["why"] == "").all(), table["why"][table["why"] != ""].tolist()
        for (_, row), at in zip(table.iterrows(), known, strict=True):
            step = steps[at]
            if kind == "training_transformer":
                assert row["predicted"] == pytest.approx(step.point, rel=SAME), asked[at]
                assert row["low80"] == pytest.approx(step.low80, rel=SAME), asked[at]
                assert row["memory_bytes"] == pytest.approx(step.memory_bytes, rel=SAME), asked[at]
                assert row["fits"] == step.fits
            else:
                assert row["predicted"] == pytest.approx(step.rate, rel=SAME), asked[at]
            assert row["tier"] == step.tier
            one, other = (set(filter(None, each.split("; "))) for each in (row["assumed"], step.assumed))
            # A cell names a level; a product that counts as one is told by a call.
            assert one == {each for each in other if not each.startswith(LEVEL)}, asked[at]


def searched(count: int, seed: int, left_out: bool) -> int:
    """How many configurations that fit were found in a search, with the step and the memory of a call."""
    rng, met = np.random.default_rng(seed), 0
    for _ in range(count):
        given = transformer(rng, left_out)
        step = called(given, neighbours=False)
        if step is None or step.fits != "yes":
            continue
        names = ("devices", "tp", "pp", "vp", "cp", "ep", "micro_batch", "zero", "global_batch")
        row = {name: float(np.ravel(getattr(step.rows, name))[0]) for name in names}
        taken = dict(pair.split(" = ") for pair in step.assumed.split("; ") if pair)
        try:
            found = search(
                given["model"],
                given["accelerator"],
                int(row["devices"]),
                int(row["global_batch"]),
                seq=given.get("seq"),
                precision=given.get("precision", ""),
                software=given.get("software", ""),
                attention=given.get("attention", ""),
                micro_batch=int(row["micro_batch"]),
                zero=int(row["zero"]),
                recompute=given.get("recompute") or taken["recompute"],
            ).table
        except ValueError:
            continue
        for name in ("tp", "pp", "vp", "cp", "ep", "zero"):
            found = found[found[name] == row[name]]
        if len(found):
            assert found["step_seconds"].iloc[0] == pytest.approx(step.point, rel=SAME), given
            assert found["memory_bytes"].iloc[0] == pytest.approx(step.memory_bytes, rel=SAME), given
            met += 1
    return met


each_way = pytest.mark.parametrize("left_out", [False, True], ids=["given", "left out"])
KINDS = {"training_transformer": transformer, "training_classic": classic}
each_kind = pytest.mark.parametrize("kind", list(KINDS))


@each_way
@each_kind
def test_a_call_and_a_row_of_a_table_give_the_same(kind: str, left_out: bool) -> None:
    compare(kind, KINDS[kind], 200, 11, left_out)


def pipeline(rng: np.random.Generator, left_out: bool) -> dict[str, Any]:
    """Fields of an input pipeline: a network, a benchmark or a step, on a store of the catalogue or one's own."""
    given: dict[str, Any] = {
        "accelerators": pick(rng, 2, 8, 64),
        "hosts": pick(rng, 1, 2),
        "workers": pick(rng, 0, 2, 8),
        "cores": pick(rng, 4, 64),
        "memory": pick(rng, 0, 256e9),
        "processor": pick(rng, "AMD EPYC 9654", ""),
        "network": pick(rng, 1e9, 12.5e9),
        "pinned": pick(rng, True, False),
        "remote": pick(rng, 0, 0.5),
        "prefetch": pick(rng, 0, 2, 8),
        "variation": pick(rng, 0.1, 1),
        "serial": pick(rng, 0, 1e-5),
        "shuffled": pick(rng, 0, 1),
        "batch": pick(rng, 1, 32, 256),
        "link": pick(rng, "", "pcie-4-0-x16"),
        "sharers": pick(rng, 1, 4),
        "asynchronous": pick(rng, 0, 1),
        "checkpoint_bytes": 1e9,
        "checkpoint_interval": pick(rng, None, 60.0),
        "drives": pick(rng, 1, 4),
        "layout": pick(rng, "shards", ""),
    }
    if left_out:
        given = {name: value for name, value in given.items() if rng.random() < 0.5 or name == "accelerators"}
    what = {"step": pick(rng, 0.02, 0.5)} if rng.random() < 0.5 else {"workload": pick(rng, "resnet50", "vgg16")}
    store = {"storage": pick(rng, "samsung-860-evo-1tb", "amazon-efs-elastic", "micron-9400-7-68tb-gen4")}
    own = {"read_bandwidth": pick(rng, 5e8, 1e10), "read_iops": 1e5, "local": pick(rng, 0, 1)}
    data = {"data": pick(rng, "imagenet-1k", "imagenet-1k-tfrecord", "cifar-10")}
    return {"accelerator": pick(rng, *DEVICES[:3]), **what, **pick(rng, store, own), **data, **given}


@each_way
def test_a_match_of_storage_and_the_estimate_of_a_scenario_give_the_same(left_out: bool) -> None:
    rng = np.random.default_rng(15)
    asked = [pipeline(rng, left_out) for _ in range(150)]
    names = dict.fromkeys(name for each in asked for name in each)
    table = estimate(scenario("input_pipeline", {name: [each.get(name) for each in asked] for name in names}))
    known = 0
    for at, given in enumerate(asked):
        found = table.one(at)
        tier = {name: given[name] for name in (*fields("storage_tier"), "storage") if name in given}
        card = {"card": given["data"], **({"layout": given["layout"]} if given.get("layout") else {})}
        rest = {name: value for name, value in given.items() if name not in {*tier, "data", "layout", "step"}}
        system, workload = rest.pop("accelerator"), rest.pop("workload", given.get("step"))
        try:
            match = match_storage(workload, system, tier, card, **rest)
        except ValueError as problem:
            assert found.why == str(problem) and np.isnan(found.rate)
            continue
        known += 1
        assert (found.rate, found.why) == (pytest.approx(match.samples_per_s, rel=SAME), ""), given
        samples = given.get("batch", 1) * given["accelerators"]
        assert found.rate * found.point == pytest.approx(samples, rel=SAME)
        assert match.samples_range == pytest.approx((samples / found.high80, samples / found.low80), rel=SAME)
        assert found.low90 <= found.low80 <= found.point <= found.high80 <= found.high90
        assert found.bound_low <= found.point * (1 + SAME) and found.point <= found.bound_high * (1 + SAME)
        assert set(found.parts) == {*match.stages, "waiting"}
        for stage in ("reading", "decoding", "copying", "accelerators"):
            assert found.parts[stage] == pytest.approx(samples / match.stages[stage], rel=SAME), stage
        assert set(found.assumed.split("; ")) == set(match.assumed.split("; "))
    assert known > 100


@each_way
def test_a_search_finds_what_a_call_says(left_out: bool) -> None:
    assert searched(60, 12, left_out) >= 12


@pytest.mark.slow
@pytest.mark.all
@each_way
@each_kind
def test_ten_thousand_calls_and_rows_give_the_same(kind: str, left_out: bool) -> None:
    compare(kind, KINDS[kind], 10_000, 13, left_out)


@pytest.mark.slow
@pytest.mark.all
@each_way
def test_two_thousand_searches_find_what_calls_say(left_out: bool) -> None:
    assert searched(2_000, 14, left_out) >= 500
