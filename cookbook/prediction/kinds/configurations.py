"""Memory of the fullest device of a parallelism configuration: weights, optimiser states, activations and logits."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.catalog import constant
from cookbook.formulas import memory as formulas
from cookbook.formulas.parallelism import FILLED
from cookbook.formulas.transformer_training import aligned
from cookbook.prediction.constants import Constant
from cookbook.prediction.scenario import RECOMPUTED
from cookbook.workloads.ops import attention_products, latent_products, mlp_products, weights_of

if TYPE_CHECKING:
    from cookbook.prediction.kinds.transformer import TransformerRows

MEMORY_CONSTANTS = (
    Constant("activation_margin", 1.15, 0.9, 1.5),
    Constant("reserved_bytes", 1e9, 3e8, 4e9, "", "B"),
)
# A weight and an activation in 16 bits; master weight, momentum and variance of Adam in 32.
WEIGHT, OPTIMISER = 2.0, 12.0
QUANTISED = constant("quantised-weight")
# Layers of which a device holds weights or activations that lie elsewhere: the one it computes, and the next.
BUFFERED = 2.0
RECOMPUTED_PARTS = tuple(f"recomputed_{part}" for part in RECOMPUTED)


def usual() -> dict[str, float]:
    """Return the constants of memory where nothing else is given: their start."""
    return {constant.name: constant.start for constant in MEMORY_CONSTANTS}


def memory_parts(s: TransformerRows, constants: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return bytes by part on the fullest device: the first stage, with most micro-batches, or the last, with
    logits."""
    if s.in_grid or (s.why == "").all():
        return stage_of(s).parts(constants, s)
    at, by_part = np.flatnonzero(s.why == ""), {}
    some = s.take(at)
    for name, part in Stage(some).parts(constants, some).items():
        by_part[name] = np.full(len(s), np.nan)
        by_part[name][at] = part
    return by_part


def stage_of(s: TransformerRows) -> Stage:
    """Return the stage of rows, the one that was prepared with them where they are unchanged."""
    return s.stage if s.stage is not None and s.stage.values is s.values else Stage(s)


def extremes(
    s: TransformerRows, stage: Stage, blank: np.ndarray, constants: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return bytes on the fullest device as rows are, and where the rows that `blank` marks recompute all layers."""
    whole = SimpleNamespace(**{name: np.where(blank, 1.0, getattr(s, name))[()] for name in RECOMPUTED_PARTS})
    needed, least = (np.asarray(sum(stage.parts(constants, rows).values())) for rows in (s, whole))
    return needed, least


def memory_bytes(s: TransformerRows, constants: Mapping[str, Any]) -> np.ndarray:
    """Return the memory needed on the fullest device [B]; NaN where the row cannot be predicted."""
    return np.asarray(sum(memory_parts(s, constants).values()))


def fits(s: TransformerRows, constants: Mapping[str, Any]) -> np.ndarray:
    """Return whether each row fits the memory of its device; False where that is unknown."""
    return formulas.fits(memory_bytes(s, constants), s.memory / s.cores)


class Stage:
    """Memory of a stage apart from what is recomputed; the first and the last stage differ in batches and logits."""

    def __init__(self, s: TransformerRows) -> None:
        self.values = s.values
        layers = np.ceil(s.layers / s.pp - 1e-9)
        sparse = np.minimum(layers, s.layers - s.dense_layers) * s.moe
        shard = Shard(s)
        dense = layers * shard.attention + (layers - sparse) * shard.mlp + sparse * shard.shared
        adapters = shard.adapters(s, layers, sparse)
        # One device has both ends of the model where there is one stage, or where stages lie in the form of a V.
        both = (s.pp == 1) | (s.filled == FILLED["zb-v"])
        edge = s.vocab * s.hidden / s.tp * np.where(both, 2, 1)
        experts = sparse * shard.expert * s.experts / s.ep
        stored = dense + experts + edge
        # Experts are already spread over the ranks of `ep`; what is shared out further is the rest.
        ranks = np.maximum(s.shard / np.where(experts > dense, s.ep, 1), 1)
        # Embeddings that train do so in place; adapters are weights of their own beside frozen ones.
        trained = np.where(s.lora == 1, adapters + edge * s.trains_edge, stored)
        size = np.where(s.qlora == 1, QUANTISED, WEIGHT)
        weights = size * (dense + experts) + WEIGHT * (edge + adapters)
        held = formulas.sharded_state_bytes(1, s.zero, ranks, weights, 0, 0)["weights"]
        states = formulas.sharded_state_bytes(trained, s.zero, ranks, 0, s.gradient_bytes, s.optimiser_bytes)
        # A product with weights of 4 bits has them widened before.
        widened = s.qlora * WEIGHT * s.hidden * shard.inner
        self.states = {
            "weights": held * (1 - s.offload_weights),
            "gradients": states["gradients"] * (1 - s.offload_optimiser),
            "optimiser": states["optimiser"] * (1 - s.offload_optimiser),
            "gathered": np.where(s.zero >= 3, BUFFERED * size * (stored - edge) / layers, 0.0) + widened,
        }
        if np.any(s.offload_weights == 1):
            # Of weights in host memory, those of two layers are on the device, and the output layer at the loss.
            near = np.minimum(BUFFERED, layers) * size * (stored - edge) / layers
            near = np.maximum(near, WEIGHT * s.vocab * s.hidden / s.tp)
            self.states["gathered"] = np.where(s.offload_weights == 1, near + widened, self.states["gathered"])
        tokens = s.micro_batch * s.seq / s.cp
        self.trained = trained
        self.layers, self.held = layers, held_micro_batches(s)
        self.host_weights, self.to_host = held * s.offload_weights, s.offload_activations
        self.logits = formulas.logits_bytes(tokens, s.vocab / np.where(s.logits_sharded == 1, s.tp, 1), s.logit_bytes)
        self.both, self.single = both, bool(np.all(s.pp == 1))
        self.kept, self.entry, self.activated = layer_activations(s, shard, tokens)

    def parts(self, c: Mapping[str, Any], s: TransformerRows | SimpleNamespace) -> dict[str, np.ndarray]:
        """Return bytes by part where `s` states the share of a layer that is recomputed."""
        stored, recomputed = self._stored_and_recomputed(s)
        margin, layers = c["activation_margin"], self.layers * stored * (1 - self.to_host)
        away = self.layers * self.to_host
        activations = margin * self.held * layers + margin * np.minimum(BUFFERED, self.held * away) * stored
        # The logits are gone before the first layer is recomputed.
        transient = np.maximum(np.where(self.both, self.logits, 0.0), margin * recomputed)
        if not self.single:
            last = margin * layers + margin * np.minimum(BUFFERED, away) * stored
            loss = np.maximum(self.logits, margin * recomputed)
            heavier = activations + transient >= last + loss
            activations, transient = np.where(heavier, activations, last), np.where(heavier, transient, loss)
        reserved = np.asarray(c["reserved_bytes"])
        return {**self.states, "activations": activations, "transient": transient, "reserved": reserved}

    def host_copies(self, s: TransformerRows) -> tuple[np.ndarray, np.ndarray]:
        """Return bytes that lie in host memory: weights, and what layers store in a forward pass of a micro-batch."""
        return self.host_weights, self.to_host * self.layers * self._stored_and_recomputed(s)[0]

    def _stored_and_recomputed(self, s: TransformerRows | SimpleNamespace) -> tuple[np.ndarray, np.ndarray]:
        """Return the bytes that a layer stores, and those of one layer that exist again while it is recomputed."""
        share = s.recomputed_all
        # The activation function counts as a small operation.
        shares = {
            "stream": np.maximum(s.recomputed_elementwise, share),
            "attention": np.maximum(s.recomputed_projection, share),
            "mlp": np.maximum(np.maximum(s.recomputed_mlp, share), self.activated * s.recomputed_elementwise),
            "scores": np.maximum(s.recomputed_core, share),
        }
        whole = sum(self.kept.values())
        if not any(np.any(part) for part in shares.values()):
            return np.asarray(whole), np.zeros(np.shape(whole))
        left = sum(
            formulas.recomputed_bytes(part, self.entry if name == "stream" else 0.0, shares[name])
            for name, part in self.kept.items()
        )
        return np.asarray(left), np.maximum(whole - left, 0)


def held_micro_batches(s: TransformerRows) -> np.ndarray:
    """Return the micro-batches whose activations the first stage stores at once."""
    return formulas.micro_batches_held(s.pp, s.vp, np.maximum(s.micro_batches / s.flushes, 1), s.held_share)


class Shard:
    """Widths and weights of one layer on one shard: the layer of the network with its part of heads and inner width."""

    def __init__(self, s: TransformerRows, head_tile: float = 0.0, tile: float = 0.0) -> None:
        """Set the sizes; widths of heads and of the feed-forward layer are rounded up to `head_tile` and `tile`, if
        any."""
        latent = s.latent_attention == 1
        query = s.heads * np.where(latent, s.nope_dim + s.rope_dim, s.head_dim) / s.tp
        self.query = aligned(query, head_tile) if head_tile else query
        self.values = s.heads * np.where(latent, s.v_dim, s.head_dim) / s.tp
        # A shard has one head of keys and values at least.
        keys = np.maximum(s.kv_heads / s.tp, 1) * np.where(latent, 0.0, s.head_dim)
        self.pairs = np.where(latent, self.query + self.values, 2 * keys)
        attention = weights_of(attention_products(s.hidden, self.query, keys, self.values))
        if np.any(latent):
            expanded = s.heads * (s.nope_dim + s.v_dim) / s.tp
            low = latent_products(s.hidden, self.query, expanded, self.values, s.q_rank, s.kv_rank, s.rope_dim)
            attention = np.where(latent, weights_of(low), attention)
        inner = s.ffn_hidden / s.tp
        self.inner = aligned(inner, tile) if tile else inner
        self.attention = attention
        self.mlp = weights_of(mlp_products(s.hidden, self.inner, s.gated_mlp))
        self.expert = weights_of(mlp_products(s.hidden, s.moe_ffn_hidden, s.gated_mlp))
        self.shared = self.expert * s.shared_experts / s.tp

    def adapters(self, s: TransformerRows, layers: Any, sparse: Any) -> Any:
        """Return weights of low-rank adapters: rank times inputs and outputs of each product (Hu et al., 2022,
        section 4)."""
        beside = layers * (4 * s.hidden + self.query + self.pairs + self.values)
        routed = s.shared_experts / s.tp + s.experts / s.ep
        inner = (layers - sparse) * (s.hidden + self.inner) + sparse * routed * (s.hidden + s.moe_ffn_hidden)
        return s.lora * s.rank * (beside + s.adapts_mlp * (2 + s.gated_mlp) * inner)


def layer_activations(
    s: TransformerRows, shard: Shard, tokens: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return the bytes that a layer stores by their origin, and those of its inputs.

    Third is the share of the feed-forward layer's bytes that are not stored where its activation function is
    recomputed.
    """
    t = s.tp
    shards = np.where(s.sequence_parallel == 1, t, 1)
    query, pairs = shard.query, np.where(s.latent_attention == 1, 2 * shard.query, shard.pairs)
    # A norm that runs operation by operation keeps single-precision copies: 8 more values in 16 bits.
    plain = (s.stream_bytes > 20) & (s.gated_mlp == 1)
    # Of its input, a product with weights that train keeps a copy in its own format, and one with frozen weights none;
    # where adapters multiply the same input, they keep it in 16 bits. The gate of experts keeps its input in 16 bits,
    # shared experts their own copy. A fused kernel keeps what attention returns; the product after it, a narrow copy.
    own = s.input_bytes / s.element
    narrow = own < 1
    adapted = s.adapts_mlp == 1
    before_attention = np.where(s.lora == 1, 1.0, own)
    before_mlp = np.where(s.lora == 1, adapted, own)
    before_experts = np.where(s.lora == 1, adapted, 1 + own * (narrow & (s.shared_experts > 0)))
    stream = 2 + before_attention + np.where(s.moe == 1, before_experts, before_mlp) + 8 * plain
    returned = np.where(narrow & (s.lora == 0), own + (s.kernel > 0), 1.0)
    attention = 2 * query + pairs + (returned - 1) * shard.values
    chosen = s.experts_per_token * np.where(np.isnan(s.capacity_factor), 1.0, s.capacity_factor)
    routed = (chosen + s.shared_experts) * s.moe_ffn_hidden
    width = np.where(s.moe == 1, routed, s.ffn_hidden) / t
    # Gate and other half, or the one product, are inputs of the activation function; the rest is computed from them.
    made = np.where(s.gated_mlp == 1, s.gated_kept - 2, 1.0) - 1 + before_mlp
    inner = (np.where(s.gated_mlp == 1, 2, 1) + made) * width + s.moe * chosen * s.hidden * (1 + before_mlp) / t
    scores = np.where(s.kernel == 0, s.micro_batch * s.seq**2 / s.cp * s.heads / t, 0.0)
    stream = s.hidden / shards * stream
    stored = formulas.layer_activation_bytes(tokens, stream, attention, inner, scores, s.element, 1)
    return stored, tokens * s.hidden * s.element / shards, made * width / np.maximum(inner, 1.0)
