"""The roofline of a network, operation by operation, against arithmetic by hand."""

import numpy as np
import pytest

import cookbook as cb
from cookbook.workloads import zoo
from cookbook.workloads.layers import Trace


def two_layers():
    """1,000 x 1,000 weights, then a ReLU."""
    t = Trace()
    t.act(t.linear(t.vector(1000), 1000, bias=False), "relu")
    return zoo.Workload("two", "Two layers", t.ops())


def device(bandwidth=1e9):
    return cb.accelerator(like="k40", peak_fp32=1e12, mem_bandwidth=bandwidth)


@pytest.mark.parametrize(("batch", "limit"), [(1000, "memory"), (10_000, "compute")])
def test_a_linear_layer_by_hand(batch, limit):
    table = cb.roofline_table(two_layers(), device(), batch=batch, precision="fp32")
    row, relu = (table.iloc[number] for number in (0, 1))
    flop, moved = 2 * batch * 1e6, 4 * (2 * 1000 * batch + 1e6)
    assert (row["kind"], row["count"], row["flop"], row["bytes"]) == ("linear", 1, flop, moved)
    assert row["intensity"] == pytest.approx(flop / moved)
    assert row["attainable_flops"] == pytest.approx(min(1e12, flop / moved * 1e9))
    assert row["seconds"] == pytest.approx(max(flop / 1e12, moved / 1e9))
    assert (relu["kind"], relu["flop"], relu["bytes"]) == ("activation", 1000 * batch, 8 * 1000 * batch)
    assert relu["bound_by"] == "memory" and relu["seconds"] == pytest.approx(8e-6 * batch)
    assert row["bound_by"] == ("memory" if moved / 1e9 > flop / 1e12 else "compute")
    assert (
        cb.roofline_table(two_layers(), device(1e12 if limit == "compute" else 1e6), batch=batch, precision="fp32")[
            "bound_by"
        ].iloc[0]
        == limit
    )


def test_rate_is_flop_over_seconds_and_totals_are_those_of_the_network():
    table = cb.roofline_table("resnet50", "v100", batch=8, precision="fp16")
    assert np.allclose(table["attainable_flops"] * table["seconds"], table["flop"])
    ops = zoo.model("resnet50").ops
    assert table["flop"].sum() == pytest.approx(float(ops.total("flop", 8) + ops.total("vector_flop", 8)))
    elements = sum(float(ops.total(q, 8)) for q in ("reads", "writes", "weights"))
    assert table["bytes"].sum() == pytest.approx(2 * elements)
    assert table["count"].sum() == ops.count.sum()


def test_a_format_that_the_device_lacks_is_unknown_not_zero():
    table = cb.roofline_table("resnet18", "k40", precision="bf16")
    assert (table["bound_by"] == "unknown").all() and table["seconds"].isna().all()
    assert (table["flop"] > 0).any()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch": [1, 2]}, "is a list; give one number of samples"),
        ({"batch": 0}, "batch = 0"),
        ({"seq": 128}, "fixed"),
        ({"model": None}, "model = None"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        cb.roofline_table(**{"model": "resnet18", "accelerator": "k40", "precision": "fp32", **arguments})
