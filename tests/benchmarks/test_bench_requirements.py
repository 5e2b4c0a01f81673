"""Speed, always against a reference run beside it in the same run, never against absolute seconds."""

import numpy as np
import pytest
from stopwatch import seconds

from cookbook.formulas import arithmetic as roofline
from cookbook.prediction.requirements import requirements

N = 100_000


def test_all_accelerators_cost_little_more_than_one():
    one = seconds(lambda: requirements("resnet152", accelerators=["h100-sxm"]))
    every = seconds(lambda: requirements("resnet152"))
    assert every < 4 * one, f"{every / one:.1f} times one accelerator"


def test_hundred_batches_cost_less_than_ten_calls():
    batches = np.arange(1, 101)
    one = seconds(lambda: requirements("resnet152", 32, accelerators=["h100-sxm"]))
    many = seconds(lambda: requirements("resnet152", batches, accelerators=["h100-sxm"]))
    assert many < 10 * one, f"{many / one:.1f} times one batch"


def test_formula_costs_a_few_dozen_plain_array_operations():
    rng = np.random.default_rng(0)
    flop, moved, peak, bandwidth = (rng.uniform(1, 2, N) for _ in range(4))
    plain = seconds(lambda: flop / peak + moved / bandwidth)
    formula = seconds(lambda: roofline.op_seconds(flop, moved, peak, bandwidth))
    assert formula < 100 * plain, f"{formula / plain:.0f} times two divisions and a sum"


@pytest.mark.parametrize("batch", [32, list(range(1, 33))], ids=["one batch", "32 batches"])
def test_bench_requirements_of_all_accelerators(benchmark, batch):
    need = benchmark(requirements, "resnet152", batch)
    assert len(need.devices) >= 100


def test_bench_roofline(benchmark):
    ones = np.ones(N)
    assert benchmark(roofline.op_seconds, ones, ones, ones, ones).shape == (N,)
