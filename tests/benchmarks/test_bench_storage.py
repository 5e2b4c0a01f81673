"""Storage matches and predictions a second; limits are ratios to plain array work of the same run, never seconds."""

import numpy as np
import pandas as pd
import pytest
from stopwatch import seconds

from cookbook.prediction.answer import answer
from cookbook.prediction.kinds.input_pipeline import chain
from cookbook.prediction.kinds.input_pipeline_arguments import committed
from cookbook.prediction.match import match_storage
from cookbook.prediction.parsing.tables import measured_table

N = 100_000
DRIVE = "micron-9400-7-68tb-gen4"


@pytest.fixture(scope="module")
def figures():
    """Accelerators x memory x workers of one data set and drive, in the form that the chain takes."""
    rng = np.random.default_rng(0)
    found = {
        "step": 0.1,
        "batch": 256,
        "overhead": 0,
        "accelerators": rng.integers(1, 65, N),
        "hosts": 1,
        "samples": 1.3e6,
        "stored": 1.5e11,
        "decoded": 150528,
        "work": 1,
        "small_files": 1,
        "bandwidth": 7e9,
        "write_bandwidth": 7e9,
        "iops": 1e6,
        "latency": 1e-4,
        "drives": 1,
        "local": 1,
        "network": np.inf,
        "connection": np.inf,
        "cores": 64,
        "workers": rng.integers(0, 17, N),
        "memory": rng.uniform(0, 3e11, N),
        "speed": 2500,
        "threads": 2,
        "link": 31.5e9,
        "sharers": 1,
        "pinned": 1,
        "copy_efficiency": 0.8,
        "prefetch": 2,
        "variation": 0.4,
        "shuffled": 1,
        "epochs": 10,
        "serial": 0,
        "checkpoint_bytes": 1e9,
        "checkpoint_interval": 600,
        "asynchronous": 0,
        "remote": 0,
        "client": np.inf,
        "seeks": 0,
        "burst_bandwidth": 7e9,
        "burst_iops": 1e6,
        "burst_credit": np.inf,
        "burst_operations": np.inf,
    }
    return {name: np.broadcast_to(np.asarray(value, dtype=float), N) for name, value in found.items()}


def test_hundred_thousand_chains_cost_a_few_hundred_array_operations(figures):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, (2, N))
    plain = seconds(lambda: np.hypot(a / b, a) + b)
    whole = seconds(lambda: chain(figures, committed()))
    print(f"\n{N / whole / 1e6:.2f} million chains a second, {whole / plain:.0f} times a hypotenuse")
    assert whole < 500 * plain


def test_many_matches_are_far_cheaper_than_single_calls(figures):
    call = seconds(lambda: match_storage(0.1, "a100-sxm-80gb", DRIVE, "imagenet-1k", accelerators=8))
    counts = np.arange(1, 1001)
    many = seconds(lambda: match_storage(0.1, "a100-sxm-80gb", DRIVE, "imagenet-1k", accelerators=counts))
    print(f"\none match {call * 1e3:.1f} ms, of a thousand {many * 1e3:.1f} ms")
    assert many / len(counts) < call / 50


def test_predicting_rows_takes_much_the_same_for_each():
    frame = measured_table("storage_measured")
    many = pd.concat([frame] * 20, ignore_index=True)
    few, all_of_them = (seconds(lambda rows=rows: answer(rows, "storage"), 3) for rows in (frame, many))
    print(f"\n{len(many) / all_of_them:,.0f} rows a second")
    assert all_of_them < 25 * few
