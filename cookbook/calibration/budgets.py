"""What a step needs at the peaks of datasheets, for rules that know no more than totals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.calibration.fit import Rows
from cookbook.workloads import zoo


@dataclass(frozen=True, eq=False)
class Budget:
    """Totals of a step on one device, in seconds at peak.

    Attributes
    ----------
    arithmetic : numpy.ndarray
        Matrix arithmetic, recomputation included, at the peak of its number format [s].
    traffic : numpy.ndarray
        Weights and activations moved once a pass, at the memory's bandwidth [s].
    exchange : numpy.ndarray
        Ring all-reduce of the gradients at the nominal rate of the slowest link [s].
    exchange_per_level : numpy.ndarray
        One transfer of all gradients over that link [s].
    devices, peak : numpy.ndarray
        Devices [-], and the peak of one [FLOP/s].
    """

    arithmetic: np.ndarray
    traffic: np.ndarray
    exchange: np.ndarray
    exchange_per_level: np.ndarray
    devices: np.ndarray
    peak: np.ndarray


def budget(rows: Rows) -> Budget:
    """The totals of each row.

    Parameters
    ----------
    rows : Rows
        The rows.
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
