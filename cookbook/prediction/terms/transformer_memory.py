"""Memory of transformer training on the fullest device of a layout, part by part, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cookbook.performance import sharded_memory as formulas
from cookbook.performance.pipeline import FILLED
from cookbook.prediction.constants import Constant, figure

CONSTANTS = (
    Constant("activation_margin", 1.15, 0.9, 1.5),
    Constant("reserved_bytes", 1e9, 3e8, 4e9, "", "B"),
)
# A weight and an activation in 16 bits; master weight, momentum and variance of Adam in 32.
WEIGHT, OPTIMISER = 2.0, 12.0
TRAINED = figure("low-rank-trained-share")


def usual() -> dict[str, float]:
    """The constants of memory where nothing else is given: their start."""
    return {constant.name: constant.start for constant in CONSTANTS}


def memory_parts(s: Any, constants: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Bytes by part on the fullest device: the first stage, which holds most micro-batches, or the last, with logits.

    Parameters
    ----------
    s : Scenarios
        The rows.
    constants : mapping of str to float or numpy.ndarray
        Value of each of `CONSTANTS`.
    """
    good = s.why == ""
    if good.ndim > 1 or good.all():
        return _fullest(s.blanked(), constants)
    found = {}
    for name, part in _fullest(s.take(np.flatnonzero(good)), constants).items():
        found[name] = np.full(len(s), np.nan)
        found[name][good] = part
    return found


def _fullest(s: Any, c: Mapping[str, Any]) -> dict[str, np.ndarray]:
    first = _stage(s, c, True)
    # One stage is both the first and the last.
    if np.all(s.pp == 1):
        return first
    last = _stage(s, c, False)
    heavier = np.asarray(sum(first.values())) >= np.asarray(sum(last.values()))
    return {name: np.where(heavier, first[name], last[name]) for name in first}


def memory_bytes(s: Any, constants: Mapping[str, Any]) -> np.ndarray:
    """Memory needed on the fullest device [B]; NaN where the row cannot be predicted."""
    return np.asarray(sum(memory_parts(s, constants).values()))


def fits(s: Any, constants: Mapping[str, Any]) -> np.ndarray:
    """Whether each row fits the memory of its device; False where that cannot be said."""
    return formulas.fits(memory_bytes(s, constants), s.memory / s.cores)


def _stage(s: Any, c: Mapping[str, Any], first: bool) -> dict[str, np.ndarray]:
    layers = np.ceil(s.layers / s.pp - 1e-9)
    sparse = np.minimum(layers, s.layers - s.dense_layers) * s.moe
    weights = layer_weights(s)
    dense = layers * weights["attention"] + (layers - sparse) * weights["mlp"] + sparse * weights["shared"]
    # One device has both ends of the model where there is one stage, or where stages lie in the form of a V.
    both = (s.pp == 1) | (s.filled == FILLED["zb-v"])
    edge = s.vocab * s.hidden / s.tp * np.where(both, 2, 1)
    experts = sparse * weights["expert"] * s.experts / s.ep
    stored = dense + experts + edge
    # Experts are already spread over the ranks of `ep`; what is shared out further is the rest.
    ranks = np.maximum(s.shard_group / np.where(experts > dense, s.ep, 1), 1)
    states = formulas.sharded_state_bytes(stored, s.zero, ranks, WEIGHT, s.gradient_bytes, OPTIMISER)
    states["optimiser"] = states["optimiser"] * (1 - s.offload_optimiser)
    states["gradients"] = states["gradients"] * (1 - s.offload_optimiser)
    states["weights"] = states["weights"] * (1 - s.offload_weights)
    trained = np.where(s.lora == 1, TRAINED, 1.0)
    states["gradients"], states["optimiser"] = states["gradients"] * trained, states["optimiser"] * trained
    states["gathered"] = np.where(s.zero >= 3, 2 * WEIGHT * (stored - edge) / layers, 0.0)
    held = held_micro_batches(s) if first else 1.0
    tokens = s.micro_batch * s.seq_len / s.cp
    kept, again = layer_activations(s, tokens)
    states["activations"] = c["activation_margin"] * held * layers * kept * (1 - s.offload_activations)
    vocabulary = s.vocab / np.where(s.logits_sharded == 1, s.tp, 1)
    logits = np.where(both | (not first), formulas.logits_bytes(tokens, vocabulary, s.logit_bytes), 0.0)
    # The logits are gone before the first layer is computed again.
    states["transient"] = np.maximum(logits, c["activation_margin"] * again)
    return {**states, "reserved": np.asarray(c["reserved_bytes"])}


def held_micro_batches(s: Any) -> np.ndarray:
    """Micro-batches whose activations the first stage holds at once."""
    return formulas.micro_batches_held(s.pp, s.vp, np.maximum(s.micro_batches / s.flushes, 1), s.held_share)


def layer_weights(s: Any) -> dict[str, np.ndarray]:
    """Parameters of one layer on one shard: attention, feed-forward, one expert, shared experts."""
    latent, t = s.latent == 1, s.tp
    query = s.heads * np.where(latent, s.nope_dim + s.rope_dim, s.head_dim) / t
    value = s.heads * np.where(latent, s.v_dim, s.head_dim) / t
    pairs = np.maximum(s.kv_heads / t, 1) * 2 * np.where(latent, 0.0, s.head_dim)
    low = s.hidden * (s.q_rank + s.kv_rank + s.rope_dim) + s.q_rank * query
    low = low + s.kv_rank * s.heads * (s.nope_dim + s.v_dim) / t
    gates = 2 + s.gated
    expert = gates * s.hidden * s.moe_ffn_hidden
    return {
        "attention": np.where(latent, low, s.hidden * (query + pairs)) + value * s.hidden,
        "mlp": gates * s.hidden * s.ffn_hidden / t,
        "expert": expert,
        "shared": expert * s.shared_experts / t,
    }


def layer_activations(s: Any, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes that a layer keeps, and those of one layer that exist again while it is recomputed."""
    latent, t = s.latent == 1, s.tp
    shards = np.where(s.sequence_parallel == 1, t, 1)
    query = s.heads * np.where(latent, s.nope_dim + s.rope_dim, s.head_dim) / t
    pairs = np.where(latent, 2 * query, np.maximum(s.kv_heads / t, 1) * 2 * np.where(latent, 0.0, s.head_dim))
    # A norm that runs operation by operation keeps single-precision copies: 8 more values in 16 bits.
    plain = (s.stream_bytes > 20) & (s.gated == 1)
    stream = s.hidden / shards * (4 + 8 * plain)
    chosen = s.experts_per_token * np.nan_to_num(s.capacity_factor, nan=1.0)
    routed = (chosen + s.shared_experts) * s.moe_ffn_hidden
    inner = np.where(s.moe == 1, routed, s.ffn_hidden) / t
    inner = np.where(s.gated == 1, s.gated_kept, 2) * inner + s.moe * chosen * s.hidden * 2 / t
    scores = np.where(s.kernel == 0, s.micro_batch * s.seq_len**2 / s.cp * s.heads / t, 0.0)
    kept = formulas.layer_activation_bytes(tokens, stream, 2 * query + pairs, inner, scores, s.element, 1)
    entry = tokens * s.hidden * s.element / shards
    share = s.again_all
    inputs = {"stream": entry, "attention": 0.0, "mlp": 0.0, "scores": 0.0}
    parts = {
        "stream": np.maximum(s.again_elementwise, share), "attention": np.maximum(s.again_projection, share),
        "mlp": np.maximum(s.again_mlp, share), "scores": np.maximum(s.again_core, share),
    }  # fmt: skip
    # The activation function counts as a small operation: computed again, it frees half of the feed-forward layer.
    parts["mlp"] = np.maximum(parts["mlp"], 0.5 * s.again_elementwise)
    left = sum(formulas.recomputed_bytes(kept[name], inputs[name], parts[name]) for name in kept)
    return np.asarray(left), np.maximum(sum(kept.values()) - left, 0)
