"""What the memory of devices that serve a language model does not hold, and what would do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cookbook.catalog.refusals import Refusal
from cookbook.performance.generation import Decoder, Group, cache_slots
from cookbook.prediction.constants import figure
from cookbook.prediction.scenario import Rows
from cookbook.prediction.terms.devices import stored_bytes
from cookbook.prediction.terms.layout_grid import told
from cookbook.units import human

WEIGHTS = "weights-too-large"
TOO_MUCH = Refusal("a request of {:,.0f} tokens is more than the keys and values that fit, {:,.0f} tokens; take tp = "
                   "{:g} or a smaller kv_format", "cache-too-large", "tp")  # fmt: skip
NO_ROOM = Refusal("weights of {} do not fit beside keys and values; give a larger tp, or a smaller weights_format",
                  WEIGHTS, "tp")  # fmt: skip
# Formats to try where weights do not fit.
SMALLER = ("fp8", "int4")


def refused(rows: Rows, decoder: Decoder, group: Group, networks: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Why weights, or one request, cannot be held; "" where they can. `networks` tells those of some rows."""
    # A pass over prompts alone keeps nothing of them.
    over = (rows.fitting < 1) & (rows.fitting > 0) & (rows.prompt_only == 0)
    if not (over | (rows.fitting == 0)).any():
        return np.array("", dtype=object)
    share, found = figure("memory-served"), np.full(len(rows), "", dtype=object)
    if over.any():
        most = _longest(rows, decoder, group, share)
        found = told(found, over, TOO_MUCH, [rows.length + rows.answer, most, 2 * rows.shards])
    memory, have = share * rows.memory / rows.cores, rows.shards * rows.stages * rows.replicas
    weights = (rows.weight_bytes + rows.embedded_bytes) * rows.replicas + rows.expert_bytes
    large = np.flatnonzero(weights > memory * have)
    if not len(large):
        return found
    for at, network in zip(large, np.broadcast_to(networks(large), len(large)), strict=True):
        least = 2 ** math.ceil(math.log2(weights[at] / memory[at]))
        stored = network.ops.parameter_count * np.array([stored_bytes(name) for name in SMALLER])
        able = [name for name, size in zip(SMALLER, stored, strict=True) if size <= memory[at] * have[at]]
        smaller = f", or weights_format = {' or '.join(map(repr, able))}" if able else ""
        name = "ep" if rows.replicas[at] > 1 else "tp"
        words = (f"weights of {human(weights[at], 'B')} do not fit {have[at]:,.0f} × {human(memory[at], 'B')}; "
                 f"give {name} = {least} or more{smaller}")  # fmt: skip
        found[at] = Refusal(words, WEIGHTS, name, [least])
    return found


def _longest(rows: Rows, decoder: Decoder, group: Group, share: float) -> np.ndarray:
    """Tokens of one request that fit beside the weights and the state that layers keep of it."""
    plain, copies = decoder._replace(windowed=0.0, state_bytes=0.0), np.maximum(rows.shards / rows.cache_heads, 1.0)
    kept = cache_slots(1.0, decoder=plain, group=group, memory_share=share)
    kept = np.maximum(kept - rows.state_bytes / (rows.cache_bytes * copies), 0.0)
    more = np.maximum(kept - np.where(np.isfinite(rows.window), rows.window, 0.0), 0.0)
    return np.where(kept < rows.window, kept, rows.window + more / np.maximum(1 - rows.windowed, 1e-9))
