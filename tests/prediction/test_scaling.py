"""`cb.scaling`: it is the engine's step, exchanges and links do what their formulas say, bad arguments are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cookbook as cb
from cookbook.charts.look import TIME_PARTS
from cookbook.evidence import FEW, evaluation
from cookbook.formulas import collectives, parallelism
from cookbook.prediction.scaling import EXCHANGES
from cookbook.topics.runs.pipelines import assembly_line

APOLLO: dict[str, Any] = {"accelerator": "hpe-apollo-6500-gen9-xl270d", "precision": "fp32"}
ALONE: dict[str, Any] = {"accelerator": "k40", "precision": "fp32", "per_node": 1, "devices": [2, 16, 256]}


@pytest.mark.parametrize("network", ["alexnet", "resnet152", "eng_acoustic_model"])
def test_as_measured_it_is_the_step_of_the_engine(network: str) -> None:
    counts = [1, 2, 4, 8, 16, 64]
    step = cb.train_step(network, devices=counts, batch=32, neighbours=False, **APOLLO)
    table = cb.scaling(network, devices=counts, batch=32, **APOLLO)
    assert table["step_seconds"].to_numpy() == pytest.approx(step.point)
    assert table["samples_per_second"].to_numpy() == pytest.approx(step.rate)
    assert table["speed_up"].to_numpy() == pytest.approx(step.rate / step.rate[0])
    parts = table[[name for name in table if name.removesuffix(" [s]") in TIME_PARTS]]
    assert parts.sum(axis=1).to_numpy() == pytest.approx(step.point)


@pytest.mark.parametrize("kind", ["training_classic", "training_transformer"])
def test_named_parts_lose_nothing(kind: str) -> None:
    classic = kind == "training_classic"
    step = cb.train_step("vgg16" if classic else "llama2_7b", "dgx-h100", devices=64, batch=4)
    assert sum(step.by_part.values()) == pytest.approx(step.bound_high)
    assert set(step.by_part) <= set(TIME_PARTS)


def test_hierarchical_written_out_is_hierarchical() -> None:
    """The same formulas by hand, through the door for the reader's own exchange: trees between nodes."""
    usual = cb.scaling("alexnet", devices=[8, 64, 512], batch=64, **APOLLO)
    own = cb.scaling("alexnet", devices=[8, 64, 512], batch=64, exchange=_rings_and_trees, **APOLLO)
    assert own["step_seconds"].to_numpy() == pytest.approx(usual["step_seconds"].to_numpy(), rel=1e-6)
    assert own["low80"].isna().all() and usual["low80"].notna().all()


def _rings_and_trees(payload: Any, ranks: Any, bandwidth: Any, latency: Any) -> Any:
    """A ring in the node (starts of 5 us), trees between nodes."""
    ring = collectives.ring_all_reduce_seconds(payload, ranks, bandwidth, latency)
    tree = collectives.tree_all_reduce_seconds(payload, ranks, bandwidth, latency)
    return np.where(np.asarray(latency) < 1e-5, ring, tree)


def test_exchanges_keep_their_order_between_many_nodes() -> None:
    """Switches that add move least, one server most; the founding logarithm lies between."""
    shares = {name: cb.scaling("vgg16", batch=16, exchange=name, **ALONE)["efficiency"].iloc[-1] for name in EXCHANGES}
    assert shares["in-network"] >= shares["hierarchical"] >= shares["HPE 2017"] >= shares["parameter server"]
    assert shares["halving-doubling"] >= shares["HPE 2017"]


def test_the_founding_exchange_is_the_founding_formula() -> None:
    """2 w log2(p) / beta with nothing hidden is the whole exchange of the table."""
    beta = cb.table("interconnects").set_index("key").loc["pcie-3-0-x16", "bandwidth"] * 0.8
    table = cb.scaling("alexnet", batch=16, exchange="HPE 2017", buckets=1, link="pcie-3-0-x16", **ALONE)
    by_hand = 2 * 4 * cb.model("alexnet").ops.parameter_count * np.log2(table["devices"]) / beta
    assert table["data-parallel communication [s]"].to_numpy() == pytest.approx(by_hand.to_numpy())


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(sorted(EXCHANGES)), st.sampled_from([1, 4, 25]))
def test_a_faster_link_is_never_slower(exchange: str, buckets: int) -> None:
    rates = [
        cb.scaling("alexnet", batch=8, exchange=exchange, buckets=buckets, link=link, **ALONE)["samples_per_second"]
        for link in ("ethernet-10g", "infiniband-edr-4x-100-gb-s", "infiniband-ndr-4x-400-gb-s")
    ]
    assert (rates[0] <= rates[1]).all() and (rates[1] <= rates[2]).all()


def test_more_buckets_hide_more() -> None:
    steps = [cb.scaling("alexnet", batch=64, buckets=k, **ALONE)["step_seconds"].iloc[-1] for k in (1, 4, 25)]
    assert steps[0] > steps[1] > steps[2]


def test_strong_scaling_splits_one_batch() -> None:
    table = cb.scaling("resnet50", devices=[1, 3, 8], batch=100, mode="strong", **APOLLO)
    assert table["batch"].tolist() == [100, 34, 13]  # the fullest device decides
    one = cb.train_step("resnet50", batch=13, devices=8, neighbours=False, **APOLLO)
    assert table["step_seconds"].iloc[-1] == pytest.approx(one.point)
    assert table["samples_per_second"].iloc[-1] == pytest.approx(100 / one.point)
    assert cb.scaling("resnet50", devices=64, batch=10, mode="strong", **APOLLO)["devices"].tolist() == [1, 2, 4, 8]


def test_what_computes_more_for_each_parameter_scales_better() -> None:
    names = ["eng_acoustic_model", "alexnet", "vgg16", "resnet50"]
    work = [cb.model(name).ops.total("macs") / cb.model(name).ops.parameter_count for name in names]
    shares = [cb.scaling(name, devices=[8], batch=64, **APOLLO)["efficiency"].iloc[0] for name in names]
    assert work == sorted(work) and shares == sorted(shares)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"devices": [4, "8"]}, ["devices = '8'"]),
        ({"mode": "strong", "batch": 4, "devices": [8]}, ["batch = 4", "devices = 8", "4 devices"]),
        ({"model": "llama2_7b"}, ["llama2_7b", "train_step"]),
    ],
)
def test_what_cannot_be_is_told(change: dict[str, Any], words: list[str]) -> None:
    given_ = {"model": "alexnet", "devices": 8, "batch": 32, **APOLLO, **change}
    with pytest.raises(ValueError) as problem:
        cb.scaling(**given_)
    assert all(word in str(problem.value) for word in words), problem.value


@pytest.mark.parametrize("change", [{"link": "string"}, {"accelerator": "abacus"}, {"model": "resnet5"}])
def test_unknown_names_get_the_nearest(change: dict[str, Any]) -> None:
    with pytest.raises(KeyError, match=r"nearest"):
        cb.scaling(**{"model": "alexnet", "devices": 8, **APOLLO, **change})


def test_pairs_are_the_same_but_for_the_devices() -> None:
    """A pair of runs looked up in the table by hand has the measured speed-up that is told."""
    pairs, runs = evaluation.pairs(), cb.table("training_classic").set_index("id")
    for row in pairs.iloc[:: len(pairs) // 20].itertuples():
        run = runs.loc[row.id]
        alike = runs[
            (runs["devices"] == 1)
            & (runs["source"] == run["source"])
            & (runs["model"] == run["model"])
            & (runs["accelerator"] == run["accelerator"])
            & (runs["precision"] == run["precision"])
            & (runs["software"] == run["software"])
            & (runs["unit"] == run["unit"])
            & (runs["batch_per_device"] == run["batch_per_device"])
        ]
        assert run["devices"] > 1
        assert alike["value"].min() <= run["value"] / row.measured_speed_up * (1 + 1e-5)
        assert alike["value"].max() >= run["value"] / row.measured_speed_up * (1 - 1e-5)


def test_intervals_are_those_of_other_publishers() -> None:
    """Without the runs of a publisher, the reach of its intervals stays the same."""
    pairs = evaluation.pairs()
    for publisher, own in pairs.groupby("publisher"):
        others = pairs[(pairs["publisher"] != publisher) & (pairs["nodes"] == 1)]
        low, high = (own[f"{end}_80"] / own["predicted_speed_up"] for end in ("low", "high"))
        inside = (1 / others["ratio"]).between(low.max() - 1e-12, high.min() + 1e-12)
        # Publishers weigh alike; one with a few rows weighs in proportion.
        each = inside.groupby(others["publisher"]).agg(["size", "mean"])
        held = np.average(each["mean"], weights=np.minimum(each["size"], FEW))
        assert held == pytest.approx(0.8, abs=0.02) and low.max() < 1 < high.min()


def test_judged_speed_ups_count_what_they_say() -> None:
    table, pairs = cb.accuracy(by="speed-up", kind="classic"), evaluation.pairs()
    assert table["runs"].sum() == len(pairs)
    lambdas = pairs[pairs["publisher"] == "lambda"]
    line = cb.accuracy(by="speed-up", publishers=["lambda"]).iloc[0]
    assert line["error"] == pytest.approx(np.median(np.abs(lambdas["ratio"] - 1)))
    assert line["inside_80"] == lambdas["measured_speed_up"].between(lambdas["low_80"], lambdas["high_80"]).mean()
    with pytest.raises(ValueError, match="twin"):
        cb.accuracy(by="speed-up", kind="transformer")


@pytest.mark.parametrize("kind", parallelism.SCHEDULES)
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8), (8, 32)])
def test_the_assembly_line_waits_as_its_formula_says(kind: str, stages: int, micro_batches: int) -> None:
    line = assembly_line(kind, stages, micro_batches, 0.5)
    bubble = float(parallelism.bubble_share(kind, stages, micro_batches, 2))
    assert line.waiting == pytest.approx(bubble / (1 + bubble), abs=0.02)
    passes = line.passes.sort_values(["device", "start"])
    after = passes.groupby("device")["start"].shift(-1)
    assert (after.dropna() >= passes["end"][after.notna()] - 1e-9).all()  # one pass at a time


def test_1f1b_keeps_no_more_than_there_are_stages() -> None:
    assert assembly_line("gpipe", 4, 16).kept == 16
    assert assembly_line("1f1b", 4, 16).kept == assembly_line("zero-bubble", 4, 16).kept == 4


def test_an_assembly_line_tells_of_each_device_and_refuses_what_cannot_be() -> None:
    line = assembly_line("gpipe", 4, 8, "5 ms")
    assert (line.devices["waiting"].mean()) == pytest.approx(line.waiting)
    assert sum(line.shares.values()) == pytest.approx(1) and line.devices["passes"].tolist() == [16] * 4
    assert "wait 27 % of the time" in repr(line) and "wait 27 % of the time" in line._repr_html_()
    assert len(line.to_dict()["passes"]) == len(line.frame()) == 64
    wrong: dict[str, Any] = {"seconds": 0, "stages": 0, "micro_batches": 10**6, "schedule": "gpip", "interleave": 0}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            assembly_line(**{"schedule": "gpipe", "stages": 4, "micro_batches": 8, name: value})


def test_curves_of_formulas_are_the_founding_ones():
    """Peak of the deck's formula where its derivative says; the ring never falls; bits are not bytes."""
    ops = cb.model("vgg16").ops
    links = {"a": 16e9, "b": 7e9}
    curves = cb.planning.split_batch("vgg16", 4096, 4e12, *links.items(), devices=4096)
    curves = curves.pivot(index="devices", columns="network", values="speed_up")
    for name, rate in links.items():
        work, weights = 6 * 4096 * ops.total("macs"), 4 * ops.parameter_count
        best = float(cb.parallelism.hpe_2017_best_workers(work, weights, 4e12, rate))
        own = curves[f"2 w log2(p), {name}"]
        assert best / 2 <= own.idxmax() <= 2 * best and own.iloc[-1] < own.max()
    assert curves["ring, b"].is_monotonic_increasing and (curves["ring, b"] >= curves["2 w log2(p), b"] - 1e-9).all()
    assert (curves.iloc[0] == 1).all() and (curves["hierarchical"] <= curves.index).all()
    text = cb.planning.split_batch("vgg16", 4096, "4 TFLOP/s", ("a", "16 GB/s"), ("b", "56 Gb/s"), devices=4096)
    text = text.pivot(index="devices", columns="network", values="speed_up")
    assert np.allclose(text[curves.columns], curves)
    for change in ({"batch": -1}, {"flops": 0}, {"inner": 5}, {"devices": 0}):
        with pytest.raises(ValueError, match=next(iter(change))):
            cb.planning.split_batch(
                **{"model": "vgg16", "batch": 64, "flops": 4e12, "inner": ("a", 1e9), "outer": ("b", 1e9), **change}
            )
