"""Tables of generation: figures of single kernels of a device, and what each engine does."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.hardware.machine import link_shares
from cookbook.prediction.kernels import kernel_constant, kernel_family
from cookbook.prediction.kinds.devices import memory_type, stored_bytes

# Formats of the table ``kernel_constants``; every other one is computed in 16 bits. Devices without a fast link sum
# over PCIe, which was timed on one family.
KERNEL_FORMATS, WIDE, OVER_PCIE = {"fp8": "fp8", "int8": "int8", "fp4": "fp4"}, "bf16", "blackwell-gddr"
ENGINE = (
    "layer_time",
    "prompt_time",
    "step_time",
    "sequence_time",
    "request_time",
    "chunk",
    "most_sequences",
    "prefill_first",
    "piece",
    "query_cost",
    "score_bytes",
    "loaded",
)
# Of the ideal, whose kernels start at once and reach the datasheet.
IDEAL_KERNELS = {
    **dict.fromkeys(
        (
            "weight_share",
            "product_share",
            "cache_share",
            "attention_share",
            "expert_pace",
            "expert_reading",
            "sum_link",
        ),
        1.0,
    ),
    **dict.fromkeys(
        (
            "attention_ramp",
            "layer_start",
            "latent_start",
            "expert_start",
            "expert_tile",
            "expert_passes",
            "query_cost",
            "sum_start",
            "sum_rank",
        ),
        0.0,
    ),
}


def of_kernels(row: tuple[Any, str, str]) -> dict[str, float]:
    """Return values of single kernels of a device in its formats of products and of keys and values."""
    machine, precision, cache = row
    device = machine.accelerator if machine else None
    family = kernel_family(machine.generation, memory_type(device.like)) if device else ""
    form, cached = KERNEL_FORMATS.get(precision, WIDE), "fp8" if stored_bytes(cache or WIDE) <= 1 else WIDE

    def of(part: str, name: str, format: str = form) -> float:
        return kernel_constant(part, name, family, format).value

    fast = device is not None and device.device_link_kind not in ("", "bridge", "bus")
    joined = family if fast else OVER_PCIE
    sums = {name: kernel_constant("engine_all_reduce", name, joined).value for name in ("start", "rank", "link_share")}
    return {
        "weight_share": of("matmul", "bandwidth_share"),
        "product_share": of("matmul", "peak_share"),
        "cache_share": of("decode_attention", "bandwidth_share", cached),
        "attention_share": of("prompt_attention", "peak_share", WIDE),
        "attention_ramp": of("prompt_attention", "ramp", WIDE),
        "layer_start": of("layer", "start"),
        "expert_start": max(of("layer", "start_experts") - of("layer", "start"), 0.0),
        # Queries and results of latent attention pass three more products.
        "latent_start": of("latent_decode", "start", cached)
        - of("decode_attention", "start", cached)
        + 3 * of("matmul", "start"),
        "expert_pace": of("matmul", "peak_share") / of("experts", "peak_share"),
        "expert_reading": of("matmul", "bandwidth_share") / of("experts", "bandwidth_share"),
        "expert_tile": of("experts", "tile_rows"),
        "expert_passes": of("experts", "passes"),
        "sum_start": sums["start"],
        "sum_rank": sums["rank"],
        "sum_link": sums["link_share"] / link_shares()["nvlink"] if fast else 1.0,
    }


@lru_cache(maxsize=1)
def engines() -> dict[str, dict[str, float]]:
    """Return what each engine does, by level and column of generation_engines; what it does not limit is infinite."""
    rows = catalog.table("generation_engines")
    # Engines for one user multiply the experts of a few tokens row by row, not in tiles.
    return {
        str(row["level"]): {name: float(row[name]) if row[name] == row[name] else np.inf for name in ENGINE}
        | {"tiled": float(row["family"] != "local")}
        for _, row in rows.iterrows()
    }


@lru_cache(maxsize=1)
def usual_formats() -> dict[str, tuple[str, str, str]]:
    """Return the formats of products, of weights, and of keys and values, that each engine usually takes."""
    rows = catalog.table("generation_engines")
    formats = zip(rows["precision"], rows["weights_format"], rows["kv_format"], strict=True)
    return dict(zip(rows["level"], formats, strict=True))
