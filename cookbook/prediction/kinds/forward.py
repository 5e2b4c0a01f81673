"""Time of one forward pass of any network: rows with all that is blank filled in, parts from the formulas."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import hardware
from cookbook.catalog import constant
from cookbook.formulas import networks as formulas
from cookbook.formulas.memory import inference_bytes, workspace_bytes
from cookbook.prediction.constants import Constant
from cookbook.prediction.kinds.network_arrays import Pairs, Products, network, products
from cookbook.prediction.kinds.networks import (
    in_blocks,
    look_up,
    product_seconds,
    product_shares,
)
from cookbook.prediction.kinds.networks import runs as runs
from cookbook.prediction.kinds.networks import tokens as tokens
from cookbook.prediction.precision import usual_precision
from cookbook.prediction.scenario import Coded, Rows, Scenario, together
from cookbook.prediction.scenario import step_seconds as step_seconds
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

KIND = "inference"
DEVICE = (
    "peak",
    "vector_peak",
    "mem_bandwidth",
    "element_bytes",
    "unit_kind",
    "lanes",
    "memory",
    "watts",
    "process_nm",
    "cache",
    "convolution",
    "cores",
)
# Shared by the cores of a chip with a network each.
SHARED = ("peak", "vector_peak", "mem_bandwidth", "memory", "watts", "cache")
CALIBRATED = {
    **dict.fromkeys(("launch", "kernel_floor", "call_overhead", "recurrent_step"), "host"),
    "touch_instructions": "elementwise",
}
QUEUED, OFFLINE, ONE_STREAM = ("server",), ("offline", "server"), ("single_stream",)
SUBMITTED = (*OFFLINE, *ONE_STREAM, "multi_stream")
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
    Constant("engine_share", 1.0, 0.1, 1.6, "engine", "", 0.2),
)
TERMS = (
    "products",
    "traffic",
    "fast_algorithms",
    "elementwise",
    "launch",
    "floor",
    "transposes",
    "scores",
    "waiting",
    "power",
)
MEMORY_CONSTANTS: tuple[Constant, ...] = ()
# Makers whose runtime occupies memory of the device.
RUNTIMES = ("NVIDIA", "AMD")
# Between products, engines in 8 bits and less still keep sums, norms and softmax in 16.
LEAST_STREAMED = 2.0


class ForwardRows(Rows):
    """Forward passes of any network."""

    # Requests and what is asked for.
    batch: np.ndarray  # samples of one replica in one pass [-]
    items: np.ndarray  # counted items of one sample, 1 or tokens; of a server times the share that its delays leave [-]
    is_delay: np.ndarray  # 1 where a delay is asked for, 0 for a rate
    ahead: np.ndarray  # passes that a request waits for before its own, where a delay is asked for, else 0 [-]
    each_device: np.ndarray  # 1 where the rate is that of one device, 0 for all devices
    # Devices.
    devices: np.ndarray  # devices in all [-]
    cores: np.ndarray  # cores of a device that each hold a network of their own; usually 1 [-]
    replicas: np.ndarray  # copies of the network that run side by side [-]
    # Core, or device where that is one, in the number format of the products.
    peak: np.ndarray  # peak of the units that compute products, before power limits it [FLOP/s]
    vector_peak: np.ndarray  # peak of the vector units in single precision; `peak` where there is none [FLOP/s]
    mem_bandwidth: np.ndarray  # memory bandwidth, that of idle cores included [B/s]
    memory_bytes: np.ndarray  # memory [B]
    cache: np.ndarray  # last cache before memory, or memory on the chip; 0 where none is known [B]
    element_bytes: np.ndarray  # bytes of an element in the stated format [B]
    unit_kind: np.ndarray  # units of products: 0 vector, 1 matrix in 16 bits, 2 in TF32, 3 in 8 bits or less
    lanes: np.ndarray  # lanes that one scheduler feeds, in widths of an instruction [-]
    convolution: np.ndarray  # measured rate of convolutions over the expected one; 1 where not measured [-]
    watts: np.ndarray  # power that limits the clock; infinite where it sets no limit [W]
    process_nm: np.ndarray  # process of the chip; 1 where power sets no limit [nm]
    # Software.
    launches: np.ndarray  # time in which it starts and finishes an operation, over that of a graph executor [-]
    drains: np.ndarray  # time of the device between two kernels, over that of a GPU [-]
    kernels: np.ndarray  # share of the best kernels that the compiler reaches, where the fit starts [-]
    fused: np.ndarray  # fusion of small operations: 0 none, 1 compilers of frameworks, 1.5 of whole networks [-]
    transposes: np.ndarray  # 1 where convolutions on matrix units reorder tensors with channels first, else 0
    fast_algorithms: np.ndarray  # 1 where convolutions take whole batches, by Winograd if it saves; 0: image by image


def resolve(scenario: Scenario) -> ForwardRows:
    """Return scenarios with network, machine and engine; `batch` is that of one replica, `peak` that of its device."""
    lacks = scenario.words("precision").where(lambda word: word == "")
    pairs = together(scenario.words("accelerator"), scenario.words("precision"), scenario.words("scenario"))
    s, assumed = replace(scenario, columns={**scenario.columns, "precision": pairs.map(_format)}), list[Any]()
    resolved = look_up(s, KIND, DEVICE, assumed)
    values, keys = resolved.values, resolved.keys
    values |= _counts(s, resolved.networks, resolved.network_index, values["cores"], assumed)
    for name in SHARED:
        values[name] = values[name] / values["cores"]
    # Cores without a network leave the rate of the memory to the others.
    idle = values["cores"] * values["devices"] / values["replicas"]
    values["mem_bandwidth"] = values["mem_bandwidth"] * np.clip(idle, 1.0, values["cores"])
    values["memory_bytes"] = values.pop("memory")
    queued = s.words("scenario").where(lambda word: word in QUEUED)
    items = np.where(np.isnan(s.number("items")), 1.0, s.number("items"))
    values["items"] = items * np.where(queued, constant("server-share"), 1.0)
    for name, field in (("is_delay", "delay"), ("each_device", "each_device")):
        values[name] = np.nan_to_num(s.number(field))
    # A core runs the requests that it has taken on one after the other: each waits for those before it.
    values["ahead"] = np.where(values["is_delay"] > 0, np.fmax(s.number("in_flight"), 1.0) - 1.0, 0.0)
    keys["scale"] = Coded((values["replicas"] > 1).astype(int), ("1 device", "1 node"))
    assumed.append(("precision", lacks, s.words("precision")))
    return resolved.rows(ForwardRows, s, assumed)


def _format(row: tuple[Any, str, str]) -> str:
    """Return the number format of a row; submissions of benchmarks that do not state theirs are of 8 bits."""
    machine, stated, way = row
    narrow = way in SUBMITTED and machine != "" and "int8" in hardware.formats(machine.accelerator)
    return stated or ("int8" if narrow else usual_precision(machine, KIND))


@lru_cache(maxsize=512)
def offline_batch(name: Any, arguments: str, seq: float | None) -> float:
    """Return the samples of one pass where a submitter does not state them: as many as fill any device."""
    counted = network(name, arguments, seq)
    return max(1.0, math.ceil(constant("offline-macs") / float(counted.macs @ counted.count)))


def _counts(
    s: Scenario, networks: tuple[Any, ...], index: np.ndarray, cores: np.ndarray, assumed: list[Any]
) -> dict[str, np.ndarray]:
    """Return the batch of a replica and replicas; blanks follow from the way in which requests arrive."""
    batch, devices, way = s.number("batch"), s.number("devices"), s.words("scenario")
    assumed.append(("devices", np.isnan(devices), np.array(1.0)))
    devices = np.where(np.isnan(devices), 1.0, devices)
    blank = np.isnan(batch)
    if blank.any():
        full = way.where(lambda word: word in OFFLINE)
        enough = np.array([*(offline_batch(*row) for row in networks), 1.0]) if np.any(full & blank) else np.ones(1)
        usual = np.where(full, enough[index if len(enough) > 1 else 0], 1.0)
        assumed.append(("batch", blank, usual))
        batch = np.where(blank, usual, batch)
    replicas = np.where(np.isnan(s.number("replicas")), devices * cores, s.number("replicas"))
    # One stream keeps one device busy, however many there are.
    replicas = np.where(way.where(lambda word: word in ONE_STREAM), 1.0, replicas)
    return {"batch": batch, "devices": devices, "replicas": replicas}


def outcome(scenarios: ForwardRows, step_seconds: np.ndarray) -> np.ndarray:
    """Return the rate of the whole system, or per device where the metric is; for delays, passes per second."""
    with np.errstate(divide="ignore", invalid="ignore"):
        samples = scenarios.batch * scenarios.replicas * scenarios.items
        samples = samples / np.where(scenarios.each_device > 0, scenarios.devices, 1.0)
        return np.asarray(np.where(scenarios.is_delay > 0, 1.0, samples) / step_seconds)


def parts(
    scenarios: ForwardRows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None
) -> dict[str, np.ndarray]:
    """Return exposed seconds of one pass by part; NaN where `scenarios.why` says why not; `terms` switches some off."""
    on = {name: bool((terms or {}).get(name, True)) for name in TERMS}
    values = {c.name: np.asarray(constants[c.name], dtype=float) for c in CONSTANTS}
    table = products(scenarios.networks)
    shares = _shares(table, values, on)
    names = ("products", "elementwise", "floor", "recurrence", "launch", "overhead", "waiting")
    return in_blocks(scenarios, values, names, lambda at, some: _pass(table, shares, scenarios, at, some, on))


def memory_parts(rows: ForwardRows, constants: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return device memory by part [B]: weights, tensors of the largest operation, runtime; and the device's bytes."""
    sizes = np.array([_largest(*row) for row in rows.networks] + [(np.nan, np.nan)])
    parameters, tensors = sizes[rows.network_index].T
    runtime = rows.keys["vendor"].each(lambda vendor: constant("runtime-memory") if vendor in RUNTIMES else 0.0)
    workspace = workspace_bytes(tensors * rows.batch * rows.element_bytes, runtime)
    return inference_bytes(parameters, rows.element_bytes, np.zeros(len(rows)), workspace), rows.memory_bytes


@lru_cache(maxsize=512)
def _largest(name: str | Workload, arguments: str, seq: float | None) -> tuple[float, float]:
    """Return parameters, and elements for one sample that one operation reads and writes at most."""
    ops = (zoo.model(name, **json.loads(arguments or "{}")) if isinstance(name, str) else name).ops
    held = (ops.column("reads", 1, seq) + ops.column("writes", 1, seq)) / ops.count
    return float(ops.parameter_count), float(np.max(held))


def _shares(table: Products, values: Mapping[str, np.ndarray], on: Mapping[str, bool]) -> np.ndarray:
    """Return the share of the peak of each product, as in training, and on matrix units in 8 bits or less."""
    trained = product_shares(table, values, on)
    return np.vstack([trained, trained[2] * float(values["byte_share"])])


def _pass(
    table: Products,
    shares: np.ndarray,
    scenarios: ForwardRows,
    at: np.ndarray,
    values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
) -> dict[str, np.ndarray]:
    """Return seconds of one forward pass by part."""
    rows, net = {name: column[at] for name, column in scenarios.values.items()}, scenarios.network_index[at]
    batch, size = rows["batch"], rows["element_bytes"]
    if on["power"]:
        rows |= _sustained(rows, values)
    share = values["engine_share"] * rows["kernels"]
    bandwidth = rows["mem_bandwidth"] * values["memory_efficiency"]
    unfused = values["fused_share"] ** rows["fused"]
    relaunched = table.convolutions[net] * np.where(rows["fast_algorithms"] > 0, 0.0, np.maximum(batch - 1, 0))
    kernels = formulas.kernels_left(table.started[net] + relaunched, table.others[net], unfused)
    # A compiler's share of the best kernels slows arithmetic; memory is as fast for any.
    reached = rows | {name: rows[name] * share for name in ("peak", "vector_peak")}
    device = {
        "products": product_seconds(_cached(table, net, rows), shares, reached, bandwidth, values, on, passes=1),
        "elementwise": _streams(table, net, rows, bandwidth, unfused, values, on),
        "floor": formulas.dispatch_seconds(kernels * on["floor"], values["kernel_floor"] * rows["drains"]),
        "recurrence": formulas.recurrence_seconds(table.positions[net], values["recurrent_step"], 1),
    }
    reordered = table.convolved[net] * on["transposes"] * rows["transposes"] * (rows["unit_kind"] == 1)
    device["products"] = device["products"] + formulas.stream_seconds(reordered * batch, size, bandwidth)
    busy = np.asarray(sum(device.values()))
    host = formulas.dispatch_seconds(kernels * on["launch"], values["launch"] * rows["launches"])
    exposed = formulas.pass_seconds(busy, host, values["overlap"])
    overhead = values["call_overhead"] * rows["launches"] * on["launch"]
    waiting = formulas.waiting_seconds(exposed, rows["replicas"], values["replica_waiting"]) * on["waiting"]
    waiting = waiting + rows["ahead"] * (exposed + overhead + waiting)
    return {**device, "launch": exposed - busy, "overhead": overhead, "waiting": waiting}


@dataclass(frozen=True, eq=False)
class _Cached(Pairs):
    """Pairs of which a cache keeps part of what moves."""

    moved: np.ndarray
    weights: np.ndarray


def _cached(table: Products, net: np.ndarray, rows: Mapping[str, np.ndarray]) -> Pairs:
    """Return pairs with what they read from memory and write to it for one sample."""
    pairs, size = table.of(net), rows["element_bytes"]
    held = pairs.row(rows["batch"] * size) * pairs.moved / pairs.count
    cache = pairs.row(rows["cache"])
    all_weights = table.parameters[net] * size
    return _Cached(
        pairs.table,
        pairs.at,
        pairs.number,
        pairs.start,
        moved=pairs.moved * formulas.missed_share(held, cache),
        weights=pairs.weights * pairs.row(formulas.missed_share(all_weights, rows["cache"])),
    )


def _sustained(rows: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return peaks within the design power; energy shrinks with the width of structures on the chip."""
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
    table: Products,
    net: np.ndarray,
    rows: Mapping[str, np.ndarray],
    bandwidth: np.ndarray,
    unfused: np.ndarray,
    values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
) -> np.ndarray:
    """Return seconds of norms, activations, sums and softmax that are not fused into products."""
    touched = table.streamed[net] * values["forward_share"] * on["elementwise"]
    issued = formulas.issue_rate(rows["vector_peak"], rows["lanes"])
    moved = np.maximum(rows["element_bytes"], LEAST_STREAMED)
    held = touched / np.maximum(table.others[net], 1) * rows["batch"] * moved
    moved = moved * formulas.missed_share(held, rows["cache"])
    streams = formulas.stream_seconds(
        touched * rows["batch"], moved, bandwidth, values["touch_instructions"], issued, unfused
    )
    scores = table.scores[net] * values["score_touches"] * on["scores"] * rows["batch"]
    return streams + formulas.stream_seconds(scores, moved, bandwidth, kept=np.sqrt(unfused))
