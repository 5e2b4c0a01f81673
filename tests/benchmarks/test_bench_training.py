"""Scenarios a second on prepared axes: point, total, and low and high of the interval for 100,000 training steps.

Limits are ratios to plain array work of the same size in the same run, never absolute seconds.
"""

import numpy as np
import pandas as pd
import pytest
from stopwatch import seconds

from cookbook.prediction.api import train_step
from cookbook.prediction.engine import estimate_rows, prepare, terms_of
from cookbook.prediction.parsing import tables

N = 100_000
LAYOUTS = [(tp, pp) for tp in (1, 2, 4, 8) for pp in (1, 2, 4, 8)]


def transformer_axes():
    """Layout x batch of one dense transformer."""
    batches = np.arange(N // len(LAYOUTS)) + 1
    tp, pp = (np.repeat([layout[at] for layout in LAYOUTS], len(batches)) for at in (0, 1))
    micro = np.tile(batches % 8 + 1, len(LAYOUTS))
    devices = 64
    replicas = devices // (tp * pp)
    count = np.tile(batches // 8 + 1, len(LAYOUTS))
    return pd.DataFrame(
        {
            "model": "llama2_7b",
            "accelerator": "a100-sxm-80gb",
            "precision": "bf16",
            "devices": devices,
            "per_node": 8,
            "tp": tp,
            "pp": pp,
            "dp": replicas,
            "micro_batch": micro,
            "global_batch": micro * replicas * count,
            "seq_len": 4096,
            "activation_recompute": "none",
            "attention_kernel": "flash2",
            "software": "NeMo",
        }
    )


def classic_axes():
    """Batch x device x count of ResNet-50."""
    devices = ["v100-sxm2-16gb", "a100-sxm-80gb", "h100-sxm", "t4", "rtx-3090"]
    counts = [1, 2, 4, 8, 16, 32, 64, 128]
    batches = np.arange(N // len(devices) // len(counts)) + 1
    index = pd.MultiIndex.from_product([devices, counts, batches], names=["accelerator", "devices", "batch_per_device"])
    frame = index.to_frame(index=False)
    same = {"model": "resnet50", "precision": "amp_fp16", "unit": "images/s", "software": "PyTorch NGC 21.03"}
    return frame.assign(per_node=frame["devices"].clip(upper=8), **same)


KINDS = {"training_transformer": transformer_axes, "training_classic": classic_axes}


def ready(kind):
    """A hundred thousand scenarios of a kind, with all that is looked up."""
    return prepare(kind, terms_of(kind).resolve(tables.read(kind, KINDS[kind]())))


@pytest.fixture(scope="module", params=list(KINDS))
def prepared(request):
    found = ready(request.param)
    assert (found.rows.why == "").mean() > 0.99
    return found


def test_hundred_thousand_scenarios_cost_a_few_hundred_array_operations(prepared):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, (2, N))
    plain = seconds(lambda: np.hypot(a / b, a) + b)
    whole = seconds(lambda: estimate_rows(prepared, neighbours=False, memory=False))
    rate = len(prepared.tier) / whole
    print(f"\n{prepared.kind}: {rate / 1e6:.2f} million scenarios a second, {whole / plain:.0f} times a hypotenuse")
    assert whole < 1500 * plain


def test_many_scenarios_are_far_cheaper_than_single_calls(prepared):
    many = seconds(lambda: estimate_rows(prepared, neighbours=False, memory=False))
    call = seconds(lambda: train_step("resnet50", "a100-sxm-80gb", batch=64, neighbours=False))
    print(f"\none call {call * 1e3:.1f} ms, {call / (many / len(prepared.tier)):.0f} times a scenario among many")
    assert many / len(prepared.tier) < call / 100


def test_bench_prepared(benchmark, prepared):
    found = benchmark(estimate_rows, prepared, False)
    assert np.isfinite(found.low80).mean() > 0.99


def test_bench_one_call(benchmark):
    assert benchmark(train_step, "resnet50", "a100-sxm-80gb", batch=64, neighbours=False).point > 0
