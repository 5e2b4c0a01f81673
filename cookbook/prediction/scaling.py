"""Data-parallel training from one device to many: the same step, with the exchange that the reader chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.catalog import constant
from cookbook.catalog.fields import MAX_TOKENS, Field
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.formulas import collectives
from cookbook.formulas import parallelism as data_parallel
from cookbook.formulas.networks import exchange_exposed_seconds
from cookbook.hardware import Accelerator, Machine
from cookbook.prediction.api import MODEL, network_of, plan_fields, training_scenario
from cookbook.prediction.engine import estimate_rows, prepare
from cookbook.prediction.kinds.networks import KIND, LINK_LATENCY, NETWORK_LATENCY, resolve
from cookbook.prediction.kinds.transformer import is_language_model
from cookbook.prediction.precision import training_formats
from cookbook.workloads.zoo import Workload

Exchange = Callable[..., Any]
MODES = ("weak", "strong")
MEASURED = "hierarchical"
MAX_DEVICES = 65_536
BACKWARD_SHARE = 2 / 3


def _log_2017(payload: Any, ranks: Any, bandwidth: Any, _latency: Any) -> Any:
    """Return the time of the communication model of 2017: 2 w log2(p) / beta."""
    return data_parallel.hpe_2017_data_parallel_seconds(0, payload, ranks, 1, bandwidth)["exchange"]


def _one_server(payload: Any, ranks: Any, bandwidth: Any, _latency: Any) -> Any:
    """Return the time of a parameter server with the link of one device; one rank needs none."""
    return data_parallel.parameter_server_seconds(payload, ranks, 1, bandwidth, bandwidth) * (np.asarray(ranks) > 1)


# (payload, ranks, bandwidth, latency) -> seconds, between nodes, or in the node where there is one.
EXCHANGES: dict[str, Exchange | None] = {
    MEASURED: None,
    "flat ring": collectives.ring_all_reduce_seconds,
    "halving-doubling": data_parallel.halving_doubling_seconds,
    "in-network": data_parallel.in_network_seconds,
    "parameter server": _one_server,
    "HPE 2017": _log_2017,
}


# Arguments of `cookbook.scaling`; one number of devices means more than a list of it.
DEVICES = Field.count(name="devices", high=MAX_DEVICES, many=True, later=True)
FIELDS = {
    "model": MODEL,
    "accelerator": Field.named("accelerators", Accelerator, Machine),
    "devices": DEVICES,
    "batch": Field.number(1, 1e9),
    "mode": Field.choice(*MODES),
    "exchange": Field.choice(*EXCHANGES, records=(Callable,)),
    "buckets": Field.count(),
    "link": Field.named("interconnects"),
    "per_node": Field.count(),
    "software": Field.text(),
    "precision": Field.named("number_formats"),
    "seq": Field.count(high=MAX_TOKENS),
}


def scaled(
    model: str | Workload,
    accelerator: str,
    devices: int | Sequence[int] = 1024,
    batch: float = 64,
    *,
    mode: str = "weak",
    exchange: str | Exchange = MEASURED,
    buckets: int | None = None,
    link: str = "",
    per_node: int | None = None,
    software: str = "",
    precision: str = "",
    seq: float | None = None,
) -> pd.DataFrame:
    """Return step, speed-up and parts for each number of devices; see `cookbook.scaling`, which adds intervals."""
    samples, requested = batch, _requested(devices)
    if mode == "strong" and _is_single(devices):
        requested = [count for count in requested if count <= samples]
    counts = requested if requested[:1] == [1] else [1, *requested]  # one device to compare with
    network = network_of(model)
    if is_language_model(network):
        what = ": a language model is split in more ways than data parallel; use cb.train_step with tp and pp, or take "
        raise refused("model", network.name, f"{what}another network", "network-not-split")
    machine, parts_sent = hardware.machine(accelerator), buckets
    formula = exchange if callable(exchange) else EXCHANGES[exchange]
    if precision:
        Field.choice(*formats_of(machine)).read(precision, "precision")
    batches = _batches(mode, samples, counts)
    plan = {
        "devices": np.array(counts, dtype=float),
        "micro_batch": batches,
        "network": _port(link) if link else None,
        "per_node": per_node,
    }
    stated = plan_fields(None, plan)
    scenarios = resolve(training_scenario(network, machine, stated, KIND, software or None, precision or None, seq))
    estimated = estimate_rows(prepare(KIND, scenarios), neighbours=False)
    if estimated.why[0]:
        raise Refused(estimated.why[0])
    parts = dict(estimated.parts)
    if formula is not None or parts_sent is not None:
        parts["exchange"] = _exposed(scenarios, parts, network.ops.parameter_count, formula, parts_sent)
        estimated = replace(estimated, parts=parts)
    step = np.asarray(sum(parts.values()))
    rate = np.asarray(counts) * batches / step if mode == "weak" else samples / step
    table = pd.DataFrame(
        {
            "devices": counts,
            "nodes": scenarios.nodes.astype(int),
            "batch": batches,
            "step_seconds": step,
            "samples_per_second": rate,
            "speed_up": rate / rate[0],
            "efficiency": rate / rate[0] / np.asarray(counts),
            **{f"{name} [s]": part for name, part in estimated.by_part.items()},
            "tier": estimated.tier,
        }
    )
    return table[np.isin(table["devices"], requested)].reset_index(drop=True)


@lru_cache(maxsize=256)
def formats_of(system: Any) -> tuple[str, ...]:
    """Return the number formats of `cookbook.scaling` for the accelerator of a machine."""
    return training_formats(hardware.machine(system))


@lru_cache(maxsize=256)
def device_of(system: Any) -> str:
    """Return the key of the accelerator of a machine."""
    return hardware.machine(system).accelerator.key


def _requested(devices: int | Sequence[int]) -> list[int]:
    """Return the numbers of devices to show: those given, or the powers of two up to one number."""
    counts = DEVICES.read(devices)
    powers = () if not _is_single(devices) else (2**power for power in range(counts[0].bit_length()))
    return sorted({*powers, *counts})


def _is_single(devices: Any) -> bool:
    """Return whether one number of devices is given, not several."""
    if isinstance(devices, np.ndarray):
        return not devices.ndim
    return isinstance(devices, str) or not isinstance(devices, Iterable)


def _batches(mode: str, batch: float, counts: list[int]) -> np.ndarray:
    """Return the samples of the device with most."""
    if mode == "strong" and batch < max(counts):
        fewer = 2 ** int(np.log2(batch))
        reason = (
            f"batch = {batch:,.0f} cannot be split over devices = {max(counts):,}: take {max(counts):,} samples or "
            f"more, at most {fewer:,} devices, or mode weak"
        )
        raise Refused(Refusal(reason, field="batch"))
    return np.ceil(batch / np.asarray(counts)) if mode == "strong" else np.full(len(counts), float(batch))


def _port(link: str) -> float:
    """Return the rate of a port of this kind, one for each device between nodes [B/s]."""
    key = catalog.lookup("interconnects", link)
    return float(catalog.table("interconnects").set_index("key").loc[key]["bandwidth"])


def _exposed(
    scenarios: Any, parts: dict[str, Any], parameters: float, formula: Exchange | None, buckets: int | None
) -> np.ndarray:
    """Return the time that another formula of communication adds to a step."""
    passes = np.asarray(sum(parts[name] for name in ("products", "elementwise", "launch", "recurrence")))
    try:
        seconds = np.asarray(exchange_seconds(scenarios, parameters * scenarios.element_bytes, formula), dtype=float)
    except (TypeError, ArithmeticError):
        seconds = np.array(np.nan)
    if np.shape(seconds) != np.shape(passes) or not np.all(np.isfinite(seconds) & (seconds >= 0)):
        raise refused(
            "exchange",
            formula,
            "must be a function of payload [B], ranks, bandwidth [B/s] and latency [s] "
            "that gives seconds, 0 or more, one for each number of devices",
        )
    if buckets is None:
        return exchange_exposed_seconds(seconds, passes, constant("exchange-hidden"), constant("exchange-visible"))
    return data_parallel.bucketed_exposed_seconds(seconds, passes * BACKWARD_SHARE, buckets)


def exchange_seconds(scenarios: Any, payload: Any, formula: Exchange | None) -> np.ndarray:
    """Return the time of one all-reduce alone: a ring within nodes, the formula between them, or within the only
    node."""
    s, network = scenarios, scenarios.values["network"]
    if formula is None:
        return collectives.hierarchical_all_reduce_seconds(
            payload, s.per_node, s.nodes, s.link, network, LINK_LATENCY, NETWORK_LATENCY
        )
    alone = s.nodes == 1
    if formula is collectives.ring_all_reduce_seconds:  # of all devices; one stream crosses between two nodes
        rate = np.where(alone, s.link, np.minimum(s.link, network * s.per_node))
        return formula(payload, s.devices, rate, np.where(alone, LINK_LATENCY, NETWORK_LATENCY))
    inside = collectives.ring_all_reduce_seconds(payload, s.per_node, s.link, LINK_LATENCY)
    between = partial(formula, payload / s.per_node, s.nodes, network, NETWORK_LATENCY)
    return np.where(alone, formula(payload, s.per_node, s.link, LINK_LATENCY), inside + between())
