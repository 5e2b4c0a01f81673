"""Rows a second and peak memory from names to a table of answers, and the time of one warm call.

Limits are ratios to a reference of the same run, never absolute seconds: reading and writing the same file with the
csv module, or a hypotenuse of a hundred thousand elements. ``COOKBOOK_ROWS=1000000 make bench`` asks for more rows.
"""

import itertools
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from stopwatch import seconds
from test_bench_training import transformer_axes

import cookbook as cb

# What `predict` may take, in readings and writings of its own file; a sweep, in hypotenuses a row; a warm call, in
# hypotenuses of a hundred thousand elements. Lowered as they improve.
MOST_COPIES = {"training_classic": 60, "training_transformer": 60, "inference": 60, "storage": 60}
MOST_HYPOTENUSES = 10_000
MOST_OF_A_SWEEP = 500
MOST_OF_A_CALL = 100
MOST_BYTES = 2**31
ROWS = int(os.environ.get("COOKBOOK_ROWS", 10_000))
COPY = """import csv, sys
with open(sys.argv[1], newline="") as taken, open(sys.argv[2], "w", newline="") as given:
    csv.writer(given).writerows(list(csv.reader(taken)))
"""
GOOD = {
    "training_classic": (
        {
            "model": ["resnet50", "vgg16", "bert_large", "mobilenet_v2"],
            "software": "PyTorch NGC 21.03",
            "accelerator": ["a100-sxm-80gb", "v100-sxm2-16gb", "h100-sxm", "t4"],
            "precision": "amp_fp16",
            "unit": "samples/s",
            "per_node": 8,
            "devices": [8, 16, 64],
        },
        "batch_per_device",
        512,
    ),
    "training_transformer": (
        {
            "model": ["llama2_7b", "llama3-8b"],
            "software": "NeMo",
            "accelerator": ["a100-sxm-80gb", "h100-sxm"],
            "precision": "bf16",
            "per_node": 8,
            "devices": 64,
            "tp": [1, 2, 4, 8],
            "pp": [1, 2],
            "seq_len": [2048, 4096],
            "micro_batch": [1, 2],
            "activation_recompute": "full",
            "attention_kernel": "flash2",
            "zero_stage": 1,
        },
        "global_batch",
        4096,
    ),
    "inference": (
        {
            "model": ["resnet50", "llama2_7b"],
            "accelerator": ["h100-sxm", "t4"],
            "devices": [1, 2],
            "precision": "fp16",
            "software": ["TensorRT 8.6", "vLLM 0.6"],
            "scenario": "static",
            "metric": "samples/s",
        },
        "batch",
        1024,
    ),
    "storage": (
        {
            "kind": "mlperf",
            "workload": ["unet3d", "resnet50"],
            "system": ["Acme: Array_9000", "Other: Box_1"],
            "accelerator": ["h100-sxm", "a100-sxm-80gb"],
            "hosts": [1, 2, 4],
            "framework": "PyTorch",
        },
        "accelerators",
        512,
    ),
}


def rows(kind: str) -> pd.DataFrame:
    """As many different rows: all combinations of the words, times a number that counts on."""
    words, counted, most = GOOD[kind]
    combined = list(itertools.product(*(value if isinstance(value, list) else [value] for value in words.values())))
    frame = pd.DataFrame(combined, columns=list(words)).sample(ROWS, replace=True, random_state=0, ignore_index=True)
    step = 64 if counted == "global_batch" else 1
    return frame.assign(**{counted: (np.arange(ROWS) % most + 1) * step, "id": np.arange(ROWS).astype(str)})


def spent(*command: str) -> tuple[float, float]:
    """Seconds and peak memory [B] of a process."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - start, usage.ru_maxrss * 1024


@pytest.mark.all
@pytest.mark.parametrize("kind", list(GOOD))
def test_rows_of_a_file_cost_little_more_than_copying_it(kind, tmp_path):
    few, source, target = (tmp_path / f"{name}.csv" for name in ("few", "in", "out"))
    frame = rows(kind)
    frame.to_csv(source, index=False)
    frame.head(20).to_csv(few, index=False)
    start, base = spent("-m", "cookbook", "predict", str(few), str(target), "--kind", kind)
    begin, _ = spent("-c", "")
    whole, peak = spent("-m", "cookbook", "predict", str(source), str(target), "--kind", kind)
    copied = spent("-c", COPY, str(source), str(target.with_suffix(".copy")))[0] - begin
    taken = max(whole - start, 1e-3)
    answered = pd.read_csv(target)["predicted"].notna().mean()
    print(
        f"\n{kind}: {ROWS / taken:,.0f} rows a second, {taken / copied:.0f} copies of the file, "
        f"{peak / 1e6:,.0f} MB ({base / 1e6:,.0f} MB for twenty rows), {answered:.0%} answered"
    )
    assert answered > 0.9
    assert taken < MOST_COPIES[kind] * max(copied, 1e-3) and peak < MOST_BYTES


def hypotenuse(count: int) -> float:
    """Seconds of one plain operation on arrays of such a length."""
    a, b = np.random.default_rng(0).uniform(1, 2, (2, count))
    return seconds(lambda: np.hypot(a, b))


def test_names_to_a_table_of_transformer_steps():
    """Words to predictions with their intervals, as one table; `test_bench_training` times prepared arrays."""
    from cookbook.prediction.answer import answer

    axes = transformer_axes()
    repeats = -(-ROWS // len(axes))
    frame = pd.concat([axes] * repeats, ignore_index=True).iloc[:ROWS]
    whole = seconds(lambda: answer(frame, "training_transformer", neighbours=False), 1)
    plain = hypotenuse(len(frame))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"\n{len(frame) / whole:,.0f} rows a second, {whole / plain:,.0f} hypotenuses, {memory / 1e6:,.0f} MB")
    assert whole < MOST_HYPOTENUSES * plain


def test_a_sweep_of_transformer_steps():
    """Names to a table: every combination of layout, batch and recomputation."""
    axes = {
        "model": ["llama2_7b", "llama3-8b"],
        "accelerator": ["h100-sxm", "a100-sxm-80gb"],
        "devices": [64, 128, 256],
        "tp": [1, 2, 4, 8],
        "pp": [1, 2, 4],
        "zero": [0, 1, 3],
        "recompute": ["none", "full"],
        "seq": [2048, 4096],
        "micro_batch": [1, 2, 4, 8],
        "global_batch": [512 * (at + 1) for at in range(8)],
    }
    whole = seconds(lambda: cb.sweep("train_step", progress=False, **axes), 1)
    frame = cb.sweep("train_step", progress=False, **axes)
    plain = hypotenuse(len(frame))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"\n{len(frame) / whole:,.0f} rows a second, {whole / plain:,.0f} hypotenuses, {memory / 1e6:,.0f} MB")
    assert frame["seconds"].notna().mean() > 0.9 and whole < MOST_OF_A_SWEEP * plain


def test_a_warm_call():
    """One training step by names, everything looked up before."""
    layout = {"devices": 64, "tp": 8, "pp": 2, "global_batch": 64}
    call = seconds(lambda: cb.train_step("llama2_7b", "h100-sxm", **layout), 20)
    plain = hypotenuse(100_000)
    print(f"\n{call * 1e3:.2f} ms a call, {call / plain:.0f} hypotenuses of a hundred thousand elements")
    assert call < MOST_OF_A_CALL * plain
