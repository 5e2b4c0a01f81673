"""Memory of transformer training on the fullest device of a layout, part by part, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from cookbook.performance import sharded_memory as formulas
from cookbook.performance.pipeline import FILLED
from cookbook.prediction.constants import Constant, figure
from cookbook.prediction.scenario import RECOMPUTED

CONSTANTS = (
    Constant("activation_margin", 1.15, 0.9, 1.5),
    Constant("reserved_bytes", 1e9, 3e8, 4e9, "", "B"),
)
# A weight and an activation in 16 bits; master weight, momentum and variance of Adam in 32.
WEIGHT, OPTIMISER = 2.0, 12.0
TRAINED = figure("low-rank-trained-share")
AGAIN = tuple(f"again_{part}" for part in RECOMPUTED)


def usual() -> dict[str, float]:
    """The constants of memory where nothing else is given: their start."""
    return {constant.name: constant.start for constant in CONSTANTS}


def memory_parts(s: Any, constants: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Bytes by part on the fullest device: the first stage, which holds most micro-batches, or the last, with logits.

    Parameters
    ----------
    s : Rows
        The rows.
    constants : mapping of str to float or numpy.ndarray
        Value of each of `CONSTANTS`.
    """
    good = s.why == ""
    if good.all():
        known = s.stage is not None and s.stage.values is s.values
        return (s.stage if known else Stage(s)).parts(constants, s)
    at, found = np.flatnonzero(good), {}
    some = s.take(at)
    for name, part in Stage(some).parts(constants, some).items():
        found[name] = np.full(len(s), np.nan)
        found[name][at] = part
    return found


def extremes(s: Any, stage: Stage, blank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes on the fullest device as rows stand, and where rows that `blank` marks compute all layers again."""
    whole, constants = SimpleNamespace(**{name: np.where(blank, 1.0, getattr(s, name))[()] for name in AGAIN}), usual()
    needed, least = (sum(stage.parts(constants, again).values()) for again in (s, whole))
    return np.asarray(needed), np.asarray(least)


def memory_bytes(s: Any, constants: Mapping[str, Any]) -> np.ndarray:
    """Memory needed on the fullest device [B]; NaN where the row cannot be predicted."""
    return np.asarray(sum(memory_parts(s, constants).values()))


def fits(s: Any, constants: Mapping[str, Any]) -> np.ndarray:
    """Whether each row fits the memory of its device; False where that cannot be said."""
    return formulas.fits(memory_bytes(s, constants), s.memory / s.cores)


class Stage:
    """What a stage holds, apart from what is computed again; the first and the last differ in batches and logits."""

    def __init__(self, s: Any) -> None:
        self.values = s.values
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
        trained, updated = np.where(s.lora == 1, TRAINED, 1.0), 1 - s.offload_optimiser
        self.states = {
            "weights": states["weights"] * (1 - s.offload_weights),
            "gradients": states["gradients"] * updated * trained,
            "optimiser": states["optimiser"] * updated * trained,
            "gathered": np.where(s.zero >= 3, 2 * WEIGHT * (stored - edge) / layers, 0.0),
        }
        tokens = s.micro_batch * s.seq_len / s.cp
        self.size, self.layers, self.stays = len(s), layers, 1 - s.offload_activations
        self.held = held_micro_batches(s)
        self.logits = formulas.logits_bytes(tokens, s.vocab / np.where(s.logits_sharded == 1, s.tp, 1), s.logit_bytes)
        self.both, self.single = both, bool(np.all(s.pp == 1))
        self.kept, self.entry = layer_activations(s, tokens)

    def parts(self, c: Mapping[str, Any], s: Any) -> dict[str, np.ndarray]:
        """Bytes by part where `s` says what share of a layer is computed again."""
        kept, again = self._kept_and_again(s)
        margin, layers = c["activation_margin"], self.layers * kept * self.stays
        activations = margin * self.held * layers
        # The logits are gone before the first layer is computed again.
        transient = np.maximum(np.where(self.both, self.logits, 0.0), margin * again)
        if not self.single:
            last, loss = margin * layers, np.maximum(self.logits, margin * again)
            heavier = activations + transient >= last + loss
            activations, transient = np.where(heavier, activations, last), np.where(heavier, transient, loss)
        reserved = np.zeros(self.size) + c["reserved_bytes"]
        return {**self.states, "activations": activations, "transient": transient, "reserved": reserved}

    def _kept_and_again(self, s: Any) -> tuple[np.ndarray, np.ndarray]:
        """Bytes that a layer keeps, and those of one layer that exist again while it is recomputed."""
        share = s.again_all
        # The activation function counts as a small operation: computed again, it frees half of the feed-forward layer.
        shares = {
            "stream": np.maximum(s.again_elementwise, share), "attention": np.maximum(s.again_projection, share),
            "mlp": np.maximum(np.maximum(s.again_mlp, share), 0.5 * s.again_elementwise),
            "scores": np.maximum(s.again_core, share),
        }  # fmt: skip
        left = sum(
            formulas.recomputed_bytes(part, self.entry if name == "stream" else 0.0, shares[name])
            for name, part in self.kept.items()
        )
        return np.asarray(left), np.maximum(sum(self.kept.values()) - left, 0)


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


def layer_activations(s: Any, tokens: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Bytes that a layer keeps by where they arise, and those of its inputs."""
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
    return kept, tokens * s.hidden * s.element / shards
