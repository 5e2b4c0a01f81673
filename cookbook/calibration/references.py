"""Rules to beat: what a constant utilisation, a scaled neighbour, or a published form would have said of the same rows.

Each takes measured rows, which of them it may look at and which to predict, and returns the logarithm of predicted over
measured outcome. Arithmetic, peaks and traffic are those that the kind's own formulas use, so that only the rule
differs; a percentage that a published form leaves to its user is the median of the rows that may be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.calibration.fit import Rows, publisher_weights
from cookbook.workloads import zoo

DOUBLINGS = {"engine": 3.0, "accelerator": 2.0, "workload": 2.0}


def _log_error(rows: Rows, seconds: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        found = np.log(rows.module.outcome(rows.scenarios, seconds) / rows.measured)
    return np.where(rows.judged & np.isfinite(found), found, np.nan)


def measured_seconds(rows: Rows) -> np.ndarray:
    """Measured time of a step, whether the outcome is a time or a rate."""
    one, two = (
        np.asarray(rows.module.outcome(rows.scenarios, np.full(len(rows.measured), seconds)), dtype=float)
        for seconds in (1.0, 2.0)
    )
    with np.errstate(all="ignore"):
        return np.where(two > one, rows.measured / one, one / rows.measured)


def _median_share(rows: Rows, share: np.ndarray, train: np.ndarray, out: np.ndarray, by: Sequence[str]) -> np.ndarray:
    """Median of a share over the rows that may be looked at: of the same label where there is one, else of all."""
    known = train & np.isfinite(share) & (share > 0)
    found = np.full(len(share), _median(share[known], publisher_weights(rows.group, known)[known]))
    for key in by:
        labels = np.asarray(rows.keys[key])
        for name in set(labels[out].tolist()):
            same = known & (labels == name)
            if same.any():
                found[out & (labels == name)] = _median(share[same], publisher_weights(rows.group, same)[same])
    return found


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    if not len(values):
        return np.nan
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def constant_utilisation(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """One share of the peak for each device; one that was not measured takes that of its vendor, else of all."""
    ideal = budget(rows).arithmetic
    share = ideal / measured_seconds(rows)
    return _log_error(rows, ideal / _median_share(rows, share, train, out, ("vendor", "accelerator")))


def scaled_neighbour(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The most similar measured row, its utilisation carried over.

    Distances are doublings of arithmetic, of devices and of the peak; another software level, device or network counts
    as many doublings as `DOUBLINGS` says.
    """
    known_of, measured = budget(rows), measured_seconds(rows)
    known = np.flatnonzero(train & np.isfinite(known_of.arithmetic / measured))
    with np.errstate(all="ignore"):
        places = np.nan_to_num(np.log2(np.column_stack([known_of.arithmetic, known_of.devices, known_of.peak])))
    labels = [(np.asarray(rows.keys[key]), cost) for key, cost in DOUBLINGS.items() if key in rows.keys]
    seconds = np.full(len(measured), np.nan)
    for at in np.flatnonzero(out & np.isfinite(known_of.arithmetic)):
        distance = np.abs(places[known] - places[at]).sum(1)
        for label, cost in labels:
            distance += cost * (label[known] != label[at])
        if len(known):
            nearest = known[np.argmin(distance)]
            seconds[at] = known_of.arithmetic[at] / known_of.arithmetic[nearest] * measured[nearest]
    return _log_error(rows, seconds)


def paleo_2017(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Qi, Sparks & Talwalkar, Paleo, ICLR 2017: arithmetic and traffic at one percentage of peak.

    The percentage belongs to the platform, that is the software, and is the same on every device; gradients are
    exchanged without overlap.
    """
    known = budget(rows)
    ideal = known.arithmetic + known.traffic
    with np.errstate(divide="ignore"):
        share = ideal / np.maximum(measured_seconds(rows) - known.exchange, 0)
    return _log_error(rows, ideal / _median_share(rows, share, train, out, ("engine",)) + known.exchange)


def llm_analysis_2023(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Li, llm-analysis, 2023: the larger of arithmetic at one efficiency and traffic at peak; no pipeline bubble."""
    known = budget(rows)
    share = known.arithmetic / measured_seconds(rows)
    efficiency = np.minimum(_median_share(rows, share, train, out, ()), 1)
    return _log_error(rows, np.fmax(known.arithmetic / efficiency, known.traffic))


def hpe_2017(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The founding form of the Deep Learning Cookbook, 2017: c/(p gamma) + 2 w log2(p)/beta, nothing overlapping."""
    known = budget(rows)
    exchange = known.exchange_per_level * 2 * np.log2(np.maximum(known.devices, 1))
    with np.errstate(divide="ignore"):
        share = known.arithmetic / np.maximum(measured_seconds(rows) - exchange, 0)
    return _log_error(rows, known.arithmetic / _median_share(rows, share, train, out, ("vendor",)) + exchange)


Rule = Callable[[Rows, np.ndarray, np.ndarray], np.ndarray]
REFERENCES: Mapping[str, Rule] = {
    "constant utilisation": constant_utilisation,
    "scaled neighbour": scaled_neighbour,
    "paleo 2017": paleo_2017,
    "llm-analysis 2023": llm_analysis_2023,
    "hpe 2017": hpe_2017,
}

__all__ = ["REFERENCES", "Budget", "measured_seconds", *(rule.__name__ for rule in REFERENCES.values())]


@dataclass(frozen=True, eq=False)
class Budget:
    """Totals of a step on one device, in seconds at peak.

    `arithmetic`: matrix arithmetic, recomputation included, at the peak of its number format [s]; `traffic`: weights
    and activations moved once a pass, at the memory's bandwidth [s]; `exchange`: ring all-reduce of the gradients at
    the nominal rate of the slowest link [s]; `exchange_per_level`: one transfer of all gradients over that link [s];
    `devices`, `peak`: devices [-], and the peak of one [FLOP/s].
    """

    arithmetic: np.ndarray
    traffic: np.ndarray
    exchange: np.ndarray
    exchange_per_level: np.ndarray
    devices: np.ndarray
    peak: np.ndarray


def budget(rows: Rows) -> Budget:
    """The totals of each row.

    `rows`: the rows.
    """
    with np.errstate(all="ignore"):
        totals = _of_networks if rows.scenarios.networks else _of_transformers
        return totals(rows.scenarios)


def _of_networks(s: Any) -> Budget:
    """Totals of networks of the zoo; a backward pass costs two forward ones, inference has none."""
    totals = np.array([_totals(*each) for each in s.networks] + [(np.nan,) * 3])
    macs, moved, parameters = totals[s.place].T
    once = "is_delay" in s.values
    passes = (1.0 if once else 3.0) * s.accumulation
    samples = s.batch * passes
    slowest = np.inf if once else np.where(s.nodes > 1, s.values["network"], s.link)
    level = np.where(s.devices > 1, parameters * s.element_bytes / slowest, 0)
    return Budget(
        arithmetic=2 * macs * samples / s.peak,
        traffic=(moved * samples + parameters * passes) * s.element_bytes / s.mem_bandwidth,
        exchange=2 * (s.devices - 1) / s.devices * level,
        exchange_per_level=level,
        devices=s.devices,
        peak=s.peak,
    )


@lru_cache(maxsize=1024)
def _totals(name: str, arguments: str, seq: float | None) -> tuple[float, float, float]:
    ops = zoo.model(name, **json.loads(arguments or "{}")).ops
    macs, reads, writes = (float(ops.total(column, 1, seq)) for column in ("macs", "reads", "writes"))
    return macs, reads + writes, ops.parameter_count


def _of_transformers(s: Any) -> Budget:
    """Six FLOP a weight and token, causal attention on top, a third more where layers are computed again.

    Activations are 34 bytes an element and layer: Korthikanti et al., arXiv:2205.05198, 2022, section 4.1.
    """
    tokens = s.global_batch * s.seq_len
    head = s.vocab * s.hidden
    attended = np.where(s.latent == 1, s.heads * (s.nope_dim + s.rope_dim + s.v_dim) / 2, s.heads * s.head_dim)
    layer = s.hidden * (2 * s.heads + 2 * s.kv_heads) * np.where(s.latent == 1, s.hidden / s.heads, s.head_dim)
    experts = s.experts_per_token + s.shared_experts
    dense = (2 + s.gated) * s.hidden * np.where(s.moe == 1, s.moe_ffn_hidden * experts, s.ffn_hidden)
    blocks = 6 * s.layers * (layer + dense + s.seq_len * attended)
    flop = blocks * (1 + s.again_all / 3) + 6 * head
    held = (s.layers * (layer + dense) + head) / (s.tp * s.pp)
    micro = s.micro_batches
    activations = 34 * s.micro_batch * s.seq_len * s.hidden * s.layers / (s.tp * s.pp * s.cp)
    slowest = np.where(s.devices > s.domain, s.values["network"], s.link)
    level = np.where(s.dp > 1, 2 * held / slowest, 0)
    return Budget(
        arithmetic=flop * tokens / (s.devices * s.peak),
        traffic=micro * 3 * (2 * held + activations) / s.mem_bandwidth,
        exchange=2 * (s.dp - 1) / s.dp * level,
        exchange_per_level=level,
        devices=s.devices,
        peak=s.peak,
    )
