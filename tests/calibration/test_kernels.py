"""Constants of single kernels: the same from the same measurements, within physics, and as published steps say."""

import csv
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cookbook import catalog
from cookbook.calibration import kernels
from cookbook.prediction.kernels import ANY, KernelConstant, kernel_constant, kernel_families, kernel_family

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("ada", "ampere", "blackwell", "blackwell-gddr", "hopper")
# Llama 3 8B: columns and summed dimension of the four matmuls of a layer, of the language model's head.
LAYERS, MATMULS, HEAD = 32, ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)), (128256, 4096)
HEADS, KV_HEADS, WIDTH = 32, 8, 128


@cache
def committed():
    with open(ROOT / "data" / "kernel_constants.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def agree(lines):
    found = {line["key"]: line for line in lines}
    assert list(found) == [line["key"] for line in committed()], "run: python -m cookbook dev calibrate --kernels"
    for line in committed():
        for name in ("value", "spread", "error", "left_out"):
            text = str(found[line["key"]][name])
            assert bool(text) == bool(line[name]), line["key"]
            rel = 1e-6 if name == "value" else 0.02
            assert not text or float(text) == pytest.approx(float(line[name]), rel=rel), (line["key"], name)


@pytest.mark.all
def test_refitting_gives_the_table():
    agree(kernels.constants())


@pytest.mark.all
def test_another_processor_gives_the_same():
    code = (
        "import csv, sys; from cookbook.calibration.kernels import constants; rows = constants()\n"
        "out = csv.DictWriter(sys.stdout, list(rows[0]), restval=''); out.writeheader(); out.writerows(rows)"
    )
    asked = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512_SKX", "OMP_NUM_THREADS": "1"}
    environment = os.environ | asked | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    agree(csv.DictReader(done.stdout.splitlines()))


def test_a_search_finds_the_constants_that_made_the_times():
    rows = kernels.rows_of("matmul")
    rows = rows.where((rows.device == "h100-sxm") & (rows.format == "bf16"))
    form, free = kernels.PARTS["matmul"]
    true = {"bandwidth_share": 0.7, "peak_share": 0.5, "start": 8e-6}
    made = kernels.Rows(rows.x, form(rows.x, true), rows.table, rows.engine, rows.device, rows.family, rows.format)
    found = kernels.search(form, free, made, made.weights(pooled=False))
    assert found.values == pytest.approx(true, rel=2e-3)  # the pull towards the start moves them a little
    made.seconds[::20] *= 5  # one row in twenty is spoilt
    assert kernels.search(form, free, made, made.weights(pooled=False)).values == pytest.approx(true, rel=0.05)


def test_engines_and_devices_weigh_the_same():
    rows = kernels.rows_of("matmul")
    rows = rows.where(rows.format == "bf16")
    weights = rows.weights(pooled=True)
    assert weights.mean() == pytest.approx(1)
    one = rows.device == "h200-sxm"
    for levels, own in ((rows.family, weights), (rows.engine[one], weights[one])):
        sums = [own[levels == level].sum() for level in sorted(set(levels))]
        assert sums == pytest.approx([sums[0]] * len(sums))


def test_shares_are_within_physics():
    for line in committed():
        if line["constant"].endswith("_share"):
            assert 0.2 <= float(line["value"]) <= 1, line["key"]
        most = 0.4 if line["constant"].startswith("busiest") else 0.27  # how loads fall on ranks differs most
        assert float(line["spread"]) > 0 and float(line["error"]) < most, line["key"]


@pytest.mark.parametrize(
    ("part", "constant", "low", "high"),
    [
        ("matmul", "start", 1e-6, 7e-6),
        ("matmul", "bandwidth_share", 0.74, 0.9),
        ("matmul", "peak_share", 0.6, 0.86),
        ("decode_attention", "query_cost", 0, 0.02),
        ("decode_attention", "start", 6e-6, 25e-6),
        ("prompt_attention", "peak_share", 0.55, 0.72),
        ("layer", "start", 12e-6, 70e-6),
        ("experts", "busiest", 0.9, 2.1),
        ("engine_all_reduce", "start", 5e-7, 7e-6),
        ("nccl_all_reduce", "rank", 1e-6, 4e-6),
    ],
)
def test_constants_are_those_of_devices(part, constant, low, high):
    for family in (*FAMILIES, ANY):
        found = kernel_constant(part, constant, family)
        if found.measured or family == ANY:
            assert low <= found.value <= high, (family, found)


def test_low_precision_starts_later_and_experts_more_so():
    for family in ("hopper", "blackwell"):
        bf16, fp8, experts = (
            kernel_constant("layer", name, family, form).value
            for name, form in (("start", "bf16"), ("start", "fp8"), ("start_experts", "bf16"))
        )
        assert fp8 - bf16 == pytest.approx(13e-6, abs=6e-6)
        assert experts - bf16 == pytest.approx(17e-6, abs=6e-6)


def test_what_was_not_measured_falls_back():
    pooled = kernel_constant("matmul", "peak_share", ANY, "fp8")
    assert kernel_constant("matmul", "peak_share", "ampere", "fp8") == pooled
    assert not pooled.measured
    assert kernel_constant("matmul", "start", "cdna3", "mxfp6") == kernel_constant("matmul", "start")
    assert kernel_constant("engine_all_reduce", "start", "hopper", "fp8").measured
    assert isinstance(kernel_constant("experts", "passes", "hopper", "fp8"), KernelConstant)
    with pytest.raises(ValueError, match="no constant 'speed' of kernel 'matmul'"):
        kernel_constant("matmul", "speed")


def test_families_are_generations_with_gddr_apart_where_it_was_measured():
    assert kernel_families() == set(FAMILIES)
    assert kernel_family("blackwell", "GDDR7") == "blackwell-gddr"
    assert kernel_family("ampere", "GDDR6") == "ampere"
    generations = set(catalog.table("accelerators")["generation"])
    assert {name.removesuffix("-gddr") for name in FAMILIES} <= generations


def test_rows_come_from_their_tables():
    tables = catalog.table("kernel_tables").set_index("key")
    counted = catalog.table("kernels")["table"].value_counts()
    assert tables["rows"].to_dict() == counted.to_dict()
    assert not catalog.table("kernels").drop(columns="seconds").duplicated().any()


def seconds_of(key, kind, batch, tokens, precision, kv="bf16"):
    """Kernels alone of a step of one token, or of one prompt, of Llama 3 8B."""
    device = catalog.table("accelerators").set_index("key").loc[key]
    family = kernel_family(device["generation"], device["memory_type"])

    def of(part, name, form=precision):
        return kernel_constant(part, name, family, form).value

    def matmul(m, n, k, form=precision):
        moved = n * k * (2 if form == "bf16" else 1) + 2 * m * (n + k)
        reads = moved / device["mem_bandwidth"] / of("matmul", "bandwidth_share", form)
        return np.hypot(reads, 2 * m * n * k / device[f"peak_{form}"] / of("matmul", "peak_share", form)) + of(
            "matmul", "start", form
        )

    rows = batch if kind == "step" else batch * tokens
    layer = sum(matmul(rows, *shape) for shape in MATMULS) + 3 * of("matmul", "start", "bf16")
    if kind == "step":
        kept = 2 * batch * tokens * KV_HEADS * WIDTH * (2 if kv == "bf16" else 1)
        cost = 1 + of("decode_attention", "query_cost", kv) * (HEADS / KV_HEADS - 1)
        layer += kept * cost / device["mem_bandwidth"] / of("decode_attention", "bandwidth_share", kv)
        return LAYERS * (layer + of("decode_attention", "start", kv)) + matmul(batch, *HEAD, "bf16")
    pairs = batch * HEADS * tokens * (tokens + 1) * 2 * WIDTH
    ramp = 1 + of("prompt_attention", "ramp", "bf16") / (batch * HEADS * tokens)
    layer += pairs * ramp / device["peak_bf16"] / of("prompt_attention", "peak_share", "bf16")
    moved = 2 * batch * tokens * WIDTH * (2 * HEADS + 4 * KV_HEADS)
    layer += moved / device["mem_bandwidth"] / of("prompt_attention", "bandwidth_share", "bf16")
    return LAYERS * (layer + of("prompt_attention", "start", "bf16"))


# Milliseconds, from constants of every single table of the same measurements: another path to the same sums.
@pytest.mark.parametrize(
    ("device", "precision", "one", "many", "prompt"),
    [
        ("h100-sxm", "bf16", 6.5, 9.6, 189),
        ("h100-sxm", "fp8", 4.4, 6.2, 141),
        ("a100-sxm-80gb", "bf16", 11.2, 16.8, 576),
        ("b200-sxm", "bf16", 3.4, 4.7, 90),
        ("h200-sxm", "bf16", 4.9, 7.1, 185),
        ("l40s", "bf16", 22, 34, 630),
    ],
)
def test_kernels_add_up_to_known_steps(device, precision, one, many, prompt):
    assert seconds_of(device, "step", 1, 1000, precision, precision) == pytest.approx(one / 1e3, rel=0.1)
    assert seconds_of(device, "step", 64, 1000, precision, precision) == pytest.approx(many / 1e3, rel=0.1)
    assert seconds_of(device, "prompt", 1, 8192, precision) == pytest.approx(prompt / 1e3, rel=0.1)
