"""Time of one forward pass of any network of the zoo, by batch, number format and engine: parts from the formulas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.performance import inference as formulas
from cookbook.performance import network_training as layers
from cookbook.performance.memory import inference_bytes, workspace_bytes
from cookbook.prediction.constants import Constant, figure
from cookbook.prediction.scenario import Rows
from cookbook.prediction.terms.forward_rows import resolve
from cookbook.prediction.terms.network_arrays import Products, products
from cookbook.prediction.terms.networks import product_seconds, product_shares, runs, step_seconds, tokens
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

__all__ = [
    "CONSTANTS",
    "MEMORY_CONSTANTS",
    "TERMS",
    "memory_parts",
    "outcome",
    "parts",
    "resolve",
    "runs",
    "step_seconds",
    "tokens",
]

CONSTANTS = (
    Constant("convolution_efficiency", 0.8, 0.2, 1.0),
    Constant("product_efficiency", 0.85, 0.2, 1.0),
    Constant("tf32_convolution", 0.7, 0.3, 1.3),
    Constant("tf32_product", 0.9, 0.3, 1.3),
    Constant("byte_share", 1.0, 0.3, 1.5),
    Constant("peak_exponent", 0.1, 0.01, 0.6, "", "", 1.0),
    Constant("deep_convolution", 0.7, 0.1, 1.2),
    Constant("other_instructions", 0.3, 0.05, 1.5),
    Constant("vector_convolution", 0.6, 0.2, 1.0),
    Constant("vector_product", 0.8, 0.2, 1.0),
    Constant("grouped_share", 0.2, 0.02, 1.0, "", "", 1.0),
    Constant("depthwise", 0.09, 0.01, 1.0, "", "", 1.0),
    Constant("memory_efficiency", 0.8, 0.3, 1.0),
    Constant("touch_instructions", 5.0, 0.1, 100.0, "", "", 1.0),
    Constant("forward_share", 0.3, 0.1, 1.0, "", "", 1.0),
    Constant("fused_share", 0.1, 0.01, 1.0, "", "", 1.0),
    Constant("score_touches", 5.0, 0.5, 30.0, "", "", 1.0),
    Constant("launch", 3e-5, 1e-6, 2e-4, "engine", "s", 1.0),
    Constant("kernel_floor", 4e-6, 5e-7, 3e-5, "", "s", 1.0),
    Constant("call_overhead", 2e-4, 1e-6, 5e-3, "", "s", 1.0),
    Constant("overlap", 2.5, 1.0, 8.0),
    Constant("recurrent_step", 1e-5, 1e-6, 3e-4, "", "s", 1.0),
    Constant("replica_waiting", 0.02, 0.001, 0.3, "", "", 1.0),
    Constant("vector_energy", 1.4e-12, 1e-13, 1e-11, "", "J/nm", 1.0),
    Constant("half_energy", 1.9e-13, 2e-14, 2e-12, "", "J/nm", 1.0),
    Constant("byte_energy", 8.5e-14, 1e-14, 1e-12, "", "J/nm", 1.0),
    Constant("engine_share", 1.0, 0.1, 1.6, "engine", "", 0.3),
)
TERMS = (
    "products", "traffic", "fast_algorithms", "elementwise", "launch", "floor", "transposes", "scores", "waiting",
    "power",
)  # fmt: skip
BLOCK = 4096
MEMORY_CONSTANTS: tuple[Constant, ...] = ()
# Makers whose runtime holds memory of the device.
RUNTIMES = ("NVIDIA", "AMD")
# Between products, engines in 8 bits and less still keep sums, norms and softmax in 16.
LEAST_STREAMED = 2.0


def outcome(scenarios: Rows, step_seconds: np.ndarray) -> np.ndarray:
    """Rate of the whole system, or of one device where the metric says so; for delays, passes per second."""
    with np.errstate(divide="ignore", invalid="ignore"):
        samples = scenarios.batch * scenarios.replicas * scenarios.items
        samples = samples / np.where(scenarios.each_device > 0, scenarios.devices, 1.0)
        return np.asarray(np.where(scenarios.is_delay > 0, 1.0, samples) / step_seconds)


def parts(
    scenarios: Rows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None
) -> dict[str, np.ndarray]:
    """Exposed seconds of one forward pass by part; NaN where `scenarios.why` says why not.

    Parameters
    ----------
    scenarios : Scenarios
        The rows.
    constants : mapping of str to float or numpy.ndarray
        Value of each of `CONSTANTS`: one, or one a row where it has levels.
    terms : mapping of str to bool, optional
        Terms to switch off, ``{"launch": False}``; all are on if not given.
    """
    on = {name: bool((terms or {}).get(name, True)) for name in TERMS}
    values = {c.name: np.asarray(constants[c.name], dtype=float) for c in CONSTANTS}
    table = products(scenarios.networks)
    shares = _shares(table, values, on)
    names = ("products", "elementwise", "floor", "recurrence", "launch", "overhead", "waiting")
    found = {name: np.full(len(scenarios), np.nan) for name in names}
    order = np.flatnonzero(scenarios.why == "")
    order = order[np.argsort(scenarios.place[order], kind="stable")]
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        some = {name: each[block] if each.ndim else each for name, each in values.items()}
        for name, seconds in _pass(table, shares, scenarios, block, some, on).items():
            found[name][block] = seconds
    return found


def memory_parts(rows: Rows, constants: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Device memory by part [B]: weights, tensors of the largest operation, the runtime; and the bytes that it has.

    Parameters
    ----------
    rows : Rows
        From `resolve`.
    constants : mapping
        None are fitted.
    """
    sizes = np.array([_largest(*each) for each in rows.networks] + [(np.nan, np.nan)])
    parameters, tensors = sizes[rows.place].T
    runtime = rows.keys["vendor"].each(lambda vendor: figure("runtime-memory") if vendor in RUNTIMES else 0.0)
    workspace = workspace_bytes(tensors * rows.batch * rows.element_bytes, runtime)
    return inference_bytes(parameters, rows.element_bytes, np.zeros(len(rows)), workspace), rows.memory_bytes


@lru_cache(maxsize=512)
def _largest(name: str | Workload, arguments: str, seq: float | None) -> tuple[float, float]:
    """Parameters, and elements for one sample that one operation reads and writes at most."""
    ops = (zoo.model(name, **json.loads(arguments or "{}")) if isinstance(name, str) else name).ops
    held = (ops.column("reads", 1, seq) + ops.column("writes", 1, seq)) / ops.count
    return float(ops.parameter_count), float(np.max(held))


def _shares(table: Products, values: Mapping[str, np.ndarray], on: Mapping[str, bool]) -> np.ndarray:
    """Share of the peak of each product, as in training, and on matrix units in 8 bits or less."""
    trained = product_shares(table, values, on)
    return np.vstack([trained, trained[2] * float(values["byte_share"])])


def _pass(
    table: Products, shares: np.ndarray, scenarios: Rows, at: np.ndarray, values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Seconds of one forward pass by part."""
    rows, net = {name: column[at] for name, column in scenarios.values.items()}, scenarios.place[at]
    batch, size = rows["batch"], rows["element_bytes"]
    if on["power"]:
        rows |= _sustained(rows, values)
    share = values["engine_share"] * rows["kernels"]
    bandwidth = rows["mem_bandwidth"] * values["memory_efficiency"] * np.sqrt(share)
    kept = values["fused_share"] ** rows["fused"]
    again = table.convolutions[net] * np.where(rows["fast_algorithms"] > 0, 0.0, np.maximum(batch - 1, 0))
    kernels = formulas.kernels_left(table.started[net] + again, table.others[net], kept)
    device = {
        "products": product_seconds(table.of(net), shares, rows, bandwidth, values, on, passes=1) / share,
        "elementwise": _streams(table, net, rows, bandwidth, kept, values, on),
        "floor": layers.dispatch_seconds(kernels * on["floor"], values["kernel_floor"] * rows["drains"]),
        "recurrence": layers.recurrence_seconds(table.positions[net], values["recurrent_step"], 1),
    }
    reordered = table.convolved[net] * on["transposes"] * rows["transposes"] * (rows["unit_kind"] == 1)
    device["products"] = device["products"] + layers.stream_seconds(reordered * batch, size, bandwidth)
    busy = np.asarray(sum(device.values()))
    host = layers.dispatch_seconds(kernels * on["launch"], values["launch"] * rows["launches"])
    exposed = formulas.pass_seconds(busy, host, values["overlap"])
    overhead = values["call_overhead"] * rows["launches"] * on["launch"]
    waiting = layers.waiting_seconds(exposed, rows["replicas"], values["replica_waiting"]) * on["waiting"]
    return {**device, "launch": exposed - busy, "overhead": overhead, "waiting": waiting}


def _sustained(rows: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Peaks within the design power; energy shrinks with the width of structures on the chip."""
    vector = values["vector_energy"] * rows["process_nm"]
    energy = np.select(
        [rows["unit_kind"] == 0, rows["unit_kind"] == 3],
        [vector, values["byte_energy"] * rows["process_nm"]],
        values["half_energy"] * rows["process_nm"] * np.where(rows["unit_kind"] == 2, 2.0, 1.0),
    )
    return {
        "peak": formulas.sustained_peak(rows["peak"], rows["watts"], energy),
        "vector_peak": formulas.sustained_peak(rows["vector_peak"], rows["watts"], vector),
    }


def _streams(
    table: Products, net: np.ndarray, rows: Mapping[str, np.ndarray], bandwidth: np.ndarray, kept: np.ndarray,
    values: Mapping[str, np.ndarray], on: Mapping[str, bool],
) -> np.ndarray:  # fmt: skip
    """Seconds of norms, activations, sums and softmax that are not fused into products."""
    touched = table.streamed[net] * values["forward_share"] * on["elementwise"]
    issued = layers.issue_rate(rows["vector_peak"], rows["lanes"])
    moved = np.maximum(rows["element_bytes"], LEAST_STREAMED)
    streams = layers.stream_seconds(
        touched * rows["batch"], moved, bandwidth, values["touch_instructions"], issued, kept
    )
    scores = table.scores[net] * values["score_touches"] * on["scores"] * rows["batch"]
    return streams + layers.stream_seconds(scores, moved, bandwidth, kept=np.sqrt(kept))
