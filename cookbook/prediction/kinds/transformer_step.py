"""Parts of a transformer's training step, from the formulas: what one stage computes, exchanges and waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cookbook.catalog import constant
from cookbook.formulas import collectives, memory
from cookbook.formulas import transformer_training as formulas
from cookbook.formulas.memory import offloaded_update_seconds
from cookbook.formulas.parallelism import FILLED, unfilled_share
from cookbook.prediction.constants import Constant
from cookbook.prediction.kinds import configurations
from cookbook.prediction.kinds.configurations import Shard
from cookbook.prediction.kinds.constraints import impossible as impossible
from cookbook.prediction.kinds.transformer import TransformerRows
from cookbook.prediction.kinds.transformer import resolve as resolve
from cookbook.prediction.precision import SIZES
from cookbook.prediction.scenario import RECOMPUTED, each_row
from cookbook.prediction.scenario import step_seconds as step_seconds

# Bounds and pull are narrow where benchmarks of products or collectives, or operation counts, already say the value.
# `efficiency` is the sustained share of the best measured product; `attention_efficiency` multiplies it for kernels of
# attention, whose shares were measured on their own: together about one.
CONSTANTS = (
    Constant("efficiency", 0.9, 0.2, 1.5, "family", pull=0.1),
    Constant("network_efficiency", 0.8, 0.1, 1.2, pull=0.2),
    Constant("attention_efficiency", 1.15, 0.5, 2.0, pull=0.2),
    Constant("elementwise_share", 1.2, 0.5, 3.0, pull=0.2),
    Constant("kernel_start", 10e-6, 1e-6, 1e-4, "", "s", pull=0.4),
    Constant("link_efficiency", 0.8, 0.3, 1.2, pull=0.1),
    Constant("narrow_share", 1.0, 0.5, 1.5, pull=0.12),
    Constant("ring_attention", 1.3, 0.5, 3.0, pull=0.3),
    Constant("adapter_share", 1.0, 0.2, 5.0, pull=0.5),
    Constant("widened_share", 1.0, 0.3, 3.0, pull=0.3),
    Constant("hooked_bytes", 30.0, 4.0, 300.0, "", "B", pull=0.7),
    Constant("straggler_share", 0.005, 0.0005, 0.05, pull=0.4),
    Constant("expert_efficiency", 0.6, 0.2, 1.5, pull=0.3),
    Constant("expert_kernels", 8.0, 1.0, 100.0, pull=0.7),
    Constant("ragged_rows", 128.0, 8.0, 1024.0, pull=0.5),
)
MEMORY_CONSTANTS = configurations.MEMORY_CONSTANTS
CALIBRATED = {"kernel_start": "host"}
# Values that replace those of a row, or constants, where a cause is switched off.
NEUTRAL: Mapping[str, Mapping[str, float]] = {
    "overlap": {"tensor_hidden": 0.0, "gradients_hidden": 0.0, "weights_hidden": 0.0},
    "shared_ports": {"one_port": 0.0},
    "eager_kernels": {"extra_kernels": 0.0},
    "frozen_weights": {"lora": 0.0, "qlora": 0.0},
    "dequantisation": {"qlora": 0.0},
    "adapters": {"adapter_share": 0.0},
    "casts": {"narrow": 0.0},
    "power_cap": {"clock": 1.0},
    "sliding_windows": {"windowed": 0.0},
    "ring_attention": {"ring_attention": 1.0},
    "expert_kernels": {"expert_kernels": 0.0},
    "ragged_experts": {"ragged_rows": 0.0},
}
# What an ablation may switch off.
TERMS = (
    "products",
    "attention",
    "elementwise",
    "head",
    "experts",
    "recompute",
    "launch",
    "tensor_exchange",
    "context_exchange",
    "expert_exchange",
    "weight_exchange",
    "gradient_exchange",
    "pipeline_exchange",
    "offload",
    "bubble",
    "optimiser",
    "stragglers",
    "hooks",
    "dispatch",
    *NEUTRAL,
)
WIDE = SIZES["fp32"]
MEMORY_EFFICIENCY = constant("copy-bandwidth-share")
LINK_LATENCY, NETWORK_LATENCY = constant("message-start-in-node"), constant("message-start-between-nodes")
# Kernels of a layer in one pass, and what else starts some; passes over them, forward and backward.
KERNELS, SPLIT, SCORED, ROUTED, STARTS = (
    constant(f"kernels-{name}") for name in ("layer", "split", "scores", "router", "passes")
)
ADAPTED, FEW_ADAPTED, WIDENING, UNPACKING, HOOKS = (
    constant(f"kernels-{name}") for name in ("adapters", "few-adapters", "widening", "unpacking", "hooks")
)
TILE, HEAD_TILE = constant("tile-width"), constant("head-tile-width")
ATTENTION_BYTES, CAST_BYTES, LOGIT_BYTES = (
    constant(f"{name}-bytes") for name in ("attention-element", "cast", "logit")
)
SORT_BYTES, EXPERT_BYTES = constant("expert-sorting-bytes"), constant("expert-activation-bytes")
ADAPTER_BYTES, PLAIN_ADAPTER_BYTES = constant("adapter-bytes"), constant("plain-adapter-bytes")
WIDENED_BYTES, UNPACKED_BYTES = constant("widened-bytes"), constant("unpacked-bytes")
FUSED_BACKWARD, HALF_SPEED = constant("fused-attention-backward"), constant("attention-half-speed")


def outcome(rows: TransformerRows, step_seconds: np.ndarray) -> np.ndarray:
    """Return the outcome that rows of this kind state: the step time itself [s]."""
    return step_seconds


def tokens(rows: TransformerRows) -> np.ndarray:
    """Return the tokens of one step of all devices."""
    return np.asarray(rows.global_batch * rows.seq)


def memory_parts(rows: TransformerRows, constants: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return bytes by part on the fullest device, and the bytes that it has."""
    return configurations.memory_parts(rows, constants), rows.memory / rows.cores


def parts(
    rows: TransformerRows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None
) -> dict[str, np.ndarray]:
    """Return exposed seconds by part; NaN where `rows.why` says why not; ``{"bubble": False}`` switches one off.

    Raises
    ------
    ValueError
        If a term is not one of `TERMS`.
    """
    unknown = set(terms or {}) - set(TERMS)
    if unknown:
        raise ValueError(f"no term {sorted(unknown)[0]!r}; the terms are {', '.join(TERMS)}")
    on = dict.fromkeys(TERMS, True) | dict(terms or {})
    if rows.in_grid:
        return step_parts(rows, constants, on)
    good = rows.why == ""
    if good.all():
        by_part = step_parts(rows, constants, on)
        return {name: each_row(value, len(rows)) for name, value in by_part.items()}
    at = np.flatnonzero(good)
    some = {name: value[at] if np.ndim(value) else value for name, value in constants.items()}
    by_part = {}
    for name, value in step_parts(rows.take(at), some, on).items():
        by_part[name] = np.full(len(rows), np.nan)
        by_part[name][at] = value
    return by_part


class _Rates:
    """Achieved rates of one shard: what a device offers, divided by its cores, times the constants."""

    def __init__(self, s: TransformerRows, c: Mapping[str, Any]) -> None:
        efficiency = c["efficiency"] * s.matmul * s.clock / s.cores
        self.products, self.wide = (
            s.peak * efficiency * np.where(s.narrow > 0, c["narrow_share"], 1),
            s.wide_peak * efficiency,
        )
        # A device that does not sustain its best products does not sustain its best attention kernels either.
        sustained = c["efficiency"] * c["attention_efficiency"] * s.clock
        self.attention = s.wide_peak / s.cores * s.attention_share * sustained
        self.memory = s.mem_bandwidth / s.cores * MEMORY_EFFICIENCY
        self.link = s.link / s.cores * c["link_efficiency"]
        self.network = s.network / s.cores * c["network_efficiency"]
        self.host, self.host_memory, self.drives = (
            rate / s.cores for rate in (s.offload_link, s.offload_memory, s.offload_drives)
        )
        self.domain = s.domain * s.cores
        self.pod, self.oversubscription, self.beyond = s.pod * s.cores, s.oversubscription, s.devices > s.pod
        # A ring enters a pod once, on the ports of one domain: other ports of the pod leave it their part of the spine.
        self.ring = self.network * self.spread(self.domain)

    def spread(self, ports: Any) -> Any:
        """Return the part of their rate that a number of ports of a pod get above it, if they alone are in use."""
        return np.where(self.beyond, np.minimum(self.pod / (ports * self.oversubscription), 1.0), 1.0)

    def scattered(self, ranks: Any) -> Any:
        """Return the rate between domains in an all-to-all of a number of ranks, of which all data for other pods go
        up."""
        above = (ranks - self.pod) / np.maximum(ranks - self.domain, 1.0)
        return self.network / np.where(ranks > self.pod, np.maximum(self.oversubscription * above, 1.0), 1.0)

    def levels(self, ranks: Any, stride: Any) -> tuple[Any, Any]:
        """Return ranks within a fast domain, and domains, for ranks that are `stride` shards apart."""
        inner = np.minimum(np.maximum(np.floor(self.domain / stride), 1), ranks)
        return inner, ranks / inner


class _Layer:
    """Widths, weights and counts of one stage, and what it recomputes."""

    def __init__(self, s: TransformerRows, on: Mapping[str, bool]) -> None:
        self.tokens = s.micro_batch * s.seq / s.cp
        self.layers = s.layers / s.pp
        self.sparse = s.moe * (s.layers - s.dense_layers) / s.pp
        self.dense = self.layers - self.sparse
        self.recomputed = {part: getattr(s, f"recomputed_{part}") * on["recompute"] for part in RECOMPUTED}
        self.passes = 3 - s.lora
        self.padded = np.where(np.isnan(s.capacity_factor), 1.0, s.capacity_factor)
        self.gates = 2 + s.gated_mlp
        # The last feed-forward product is recomputed only where the software does not see that nothing reads it.
        self.recomputed["mlp"] = self.recomputed["mlp"] * (1 - (1 - s.recomputes_last) / self.gates)
        shard = Shard(s, HEAD_TILE, TILE)
        self.query, self.values, self.pairs, self.inner = shard.query, shard.values, shard.pairs, shard.inner
        self.attention, self.mlp, self.expert, self.shared = shard.attention, shard.mlp, shard.expert, shard.shared

    def held(self, s: TransformerRows) -> tuple[Any, Any]:
        """Return the weights of one stage on one shard: those of all ranks alike, and those of its experts."""
        alike = self.layers * self.attention + self.dense * self.mlp + self.sparse * self.shared
        return alike, self.sparse * self.expert * s.experts / s.ep


def step_parts(s: TransformerRows, c: Mapping[str, Any], on: Mapping[str, bool]) -> dict[str, np.ndarray]:
    """Return exposed seconds of a step by part, for rows that can be predicted; `on` switches each of `TERMS`."""
    s, c = _neutral(s, c, on)
    rates, layer = _Rates(s, c), _Layer(s, on)
    time = _computation(s, rates, layer, c, on)
    body = sum(value for name, value in time.items() if name != "head")
    time |= _communication(s, rates, layer, body, on) | {"offload": _offload(s, rates, body) * on["offload"]}
    chunk = sum(value for name, value in time.items() if name not in ("head", "pipeline_exchange"))
    step = {name: value * s.micro_batches for name, value in time.items()}
    step["bubble"] = _bubble(s, layer, chunk, time["products"] + time["experts"]) * on["bubble"]
    step |= _once(s, rates, layer, body, c, on)
    total = sum(step.values())
    step["stragglers"] = formulas.straggler_seconds(total, s.nodes, c["straggler_share"]) * on["stragglers"]
    return step


def _neutral(
    s: TransformerRows, c: Mapping[str, Any], on: Mapping[str, bool]
) -> tuple[TransformerRows, Mapping[str, Any]]:
    """Return rows and constants, those of `NEUTRAL` in the place of what is switched off."""
    off = {
        name: np.asarray(value) for term, neutral in NEUTRAL.items() if not on[term] for name, value in neutral.items()
    }
    if not off:
        return s, c
    changed = {name: value for name, value in off.items() if name in s.values}
    return replace(s, values={**s.values, **changed}), {**c, **off}


def _bubble(s: TransformerRows, w: _Layer, chunk: Any, products: Any) -> Any:
    """Return the seconds that a pipeline fills and drains, less the weight-gradient products that its schedule puts
    there."""
    weights = products * (w.passes - 2) / (w.passes + w.recomputed["projection"])
    share = np.where(chunk > 0, np.clip(weights / np.where(chunk > 0, chunk, 1.0), 0, 1), 0.0)
    chunks = np.where(s.filled == FILLED["zb-v"], 1, s.vp)
    return formulas.bubble_seconds(chunk, s.pp, chunks, s.flushes) * unfilled_share(s.filled, share)


def _computation(
    s: TransformerRows, r: _Rates, w: _Layer, c: Mapping[str, Any], on: Mapping[str, bool]
) -> dict[str, Any]:
    """Return seconds of one micro-batch on one stage; what the host takes beyond the device is `launch`."""
    time = {
        "products": _products(s, r, w, c),
        "experts": _experts(s, r, w, c),
        "attention": w.layers * _attention(s, r, w) * np.where(s.cp > 1, c["ring_attention"], 1),
        "elementwise": (
            _elementwise(s, w, on) * c["elementwise_share"] * (3 + w.recomputed["elementwise"]) + _frozen(s, w, c)
        )
        / r.memory,
        "head": _head(s, r, w),
    }
    time = {name: value * on[name] for name, value in time.items()}
    device = sum(value for name, value in time.items() if name != "head")
    host = _kernels(s, w, c, on) * c["kernel_start"] * s.start_share
    # Where nothing caps the tokens of an expert, the host asks in every layer how many there are, and both wait.
    power = np.where((s.moe > 0) & np.isnan(s.capacity_factor), 2, 4)
    return time | {"launch": ((device**power + host**power) ** (1 / power) - device) * on["launch"]}


def _kernels(s: TransformerRows, w: _Layer, c: Mapping[str, Any], on: Mapping[str, bool]) -> Any:
    """Return the kernels that the host starts for one stage and micro-batch, forward, backward and where recomputed."""
    plain = KERNELS + s.extra_kernels + np.where(s.tp > 1, SPLIT, 0) + np.where(s.kernel > 0, 0, SCORED)
    plain = plain + s.lora * np.where(s.adapts_mlp == 1, ADAPTED, FEW_ADAPTED)
    plain = plain + s.qlora * np.where(s.unpacked > 0, UNPACKING, WIDENING)
    plain = plain + _hooked(s, on) * HOOKS
    routed = ROUTED + c["expert_kernels"] * s.experts / s.ep * np.where(s.narrow > 0, 1, 0.5)
    return (w.layers * plain + w.sparse * routed) * (STARTS + w.recomputed["all"])


def _hooked(s: TransformerRows, on: Mapping[str, bool]) -> Any:
    """Return whether a stack of plain modules trains all weights, or shards its states: then hooks run at each
    module."""
    return (s.extra_kernels > 0) & ((s.zero >= 2) | (s.lora == 0)) & on["hooks"]


def _frozen(s: TransformerRows, w: _Layer, c: Mapping[str, Any]) -> Any:
    """Return the bytes beside frozen weights in all passes: adapters, and 4-bit weights widened for each product."""
    beside = 2 * s.hidden + w.query + w.pairs + w.values
    beside = beside + np.where((s.adapts_mlp == 1) & (s.moe == 0), w.gates * (s.hidden + w.inner), 0.0)
    per_element = np.where(s.extra_kernels > 0, PLAIN_ADAPTER_BYTES, ADAPTER_BYTES) * c["adapter_share"]
    adapted = per_element * w.tokens * beside * (3 + w.recomputed["elementwise"])
    alike, experts = w.held(s)
    # What plain operations widened is kept for the backward pass; a kernel of its own widens once more there.
    times = np.where(s.unpacked > 0, UNPACKED_BYTES, 2 * WIDENED_BYTES)
    recompute = np.where(s.unpacked > 0, UNPACKED_BYTES, WIDENED_BYTES) * w.recomputed["projection"]
    return s.lora * w.layers * adapted + s.qlora * c["widened_share"] * (alike + experts) * (times + recompute)


def _products(s: TransformerRows, r: _Rates, w: _Layer, c: Mapping[str, Any]) -> Any:
    """Return the seconds of matrix products of attention and of feed-forward layers without experts."""
    moved = s.element * (w.attention + w.tokens * (2 * s.hidden + 2 * w.query + w.pairs))
    attention = formulas.product_seconds(2 * w.tokens * w.attention, moved, r.products, r.memory)
    moved = s.element * (w.mlp + w.tokens * (2 * s.hidden + w.gates * w.inner))
    mlp = formulas.product_seconds(2 * w.tokens * w.mlp, moved, r.products, r.memory)
    return w.layers * attention * (w.passes + w.recomputed["projection"]) + w.dense * mlp * (
        w.passes + w.recomputed["mlp"]
    )


def _experts(s: TransformerRows, r: _Rates, w: _Layer, c: Mapping[str, Any]) -> Any:
    """Return the seconds of matrix products of experts, routed and shared."""
    if not np.any(w.sparse):
        return np.zeros(())
    local, rate = s.experts / s.ep, r.products * c["expert_efficiency"]
    # With a capacity every expert computes as many rows, full or not; without, each has a ragged end.
    ragged = np.where(np.isnan(s.capacity_factor), c["ragged_rows"], 0.0)
    rows = formulas.expert_rows(w.tokens / s.tp * w.padded, s.experts_per_token, local, ragged)
    moved = s.element * (w.expert * local + rows * (2 * s.hidden + w.gates * s.moe_ffn_hidden))
    routed = formulas.product_seconds(2 * rows * w.expert, moved, rate, r.memory)
    return w.sparse * (routed + 2 * w.tokens * w.shared / rate) * (w.passes + w.recomputed["mlp"])


def _attention(s: TransformerRows, r: _Rates, w: _Layer) -> Any:
    """Return the seconds of the attention core of a layer: fused over the causal half, or with all scores written
    out."""
    whole = formulas.mean_context(s.seq)
    near = s.windowed * formulas.mean_context(s.seq, s.window) + (1 - s.windowed) * whole
    context = np.where(s.kernel > 0, near, s.seq)
    flop = formulas.attention_flop(w.tokens, context, w.query, w.values)
    fused = flop / (r.attention * s.seq / (s.seq + HALF_SPEED))
    scores = s.score_bytes * w.tokens * s.seq * s.heads / s.tp / r.memory
    plain = (flop / r.wide + scores) * (3 + w.recomputed["core"])
    return np.where(s.kernel > 0, fused * (1 + FUSED_BACKWARD + w.recomputed["core"]), plain)


def _elementwise(s: TransformerRows, w: _Layer, on: Mapping[str, bool]) -> Any:
    """Return the bytes that the small operations of one stage move in the forward pass of one micro-batch."""
    shards = np.where(s.sequence_parallel == 1, s.tp, 1)
    plain = s.moe == 0
    # Products in 8 bits have their inputs rounded: two of the stream, one of values, one of the inner width.
    cast = CAST_BYTES * s.narrow
    inner = plain * w.inner * ((w.gates - 1) / 2 * s.mlp_bytes + cast)
    stream, around = s.stream_bytes + 2 * cast, (w.query + w.pairs) * ATTENTION_BYTES + w.values * cast
    moved = formulas.elementwise_bytes(w.tokens, s.hidden, around, inner, shards, stream, 1, 1)
    sent = w.tokens / s.tp * w.padded * s.experts_per_token * (SORT_BYTES * s.hidden + EXPERT_BYTES * s.moe_ffn_hidden)
    return (w.layers * moved + w.sparse * sent * on["dispatch"]) * s.element / 2


def _head(s: TransformerRows, r: _Rates, w: _Layer) -> Any:
    """Return products and loss of the head, forward and backward; its stage sets the pace of a pipeline.

    Where the vocabulary is not split up to the loss, each tensor-parallel rank gathers all logits and reads them all.
    """
    logits = w.tokens * s.vocab / s.tp
    others = logits * (s.tp - 1) * (1 - s.logits_sharded)
    loss = LOGIT_BYTES * (logits + others) / r.memory + s.element * others / r.link
    return 2 * (w.passes + s.lora * s.trains_edge) * logits * s.hidden / r.wide + loss


def _communication(s: TransformerRows, r: _Rates, w: _Layer, body: Any, on: Mapping[str, bool]) -> dict[str, Any]:
    """Return the communication of one micro-batch on one stage, as far as nothing hides it."""
    stream = w.tokens * s.hidden * s.element
    inner, outer = r.levels(s.tp, 1)
    reduce = collectives.hierarchical_all_reduce_seconds(
        stream, inner, outer, r.link, r.ring, LINK_LATENCY, NETWORK_LATENCY
    )
    # Split along the sequence, an all-reduce is a scatter and a gather; the gathers of the inputs are made once more.
    times = 4 + s.sequence_parallel + 2 * w.recomputed["all"]
    seconds = {"tensor_exchange": w.layers * reduce * times * (1 - s.tensor_hidden)}
    rate = np.where(s.tp * s.cp <= r.domain, r.link, r.ring)
    ring = (s.cp - 1) * collectives.point_to_point_seconds(w.tokens * w.pairs * s.element, rate, LINK_LATENCY)
    # Keys and values go round in the forward pass, they and their gradients in the backward pass.
    seconds["context_exchange"] = collectives.exposed_seconds(3 * w.layers * ring, body, 0.5)
    # Tokens come back from experts once more only where the software does not see that nothing reads them.
    sent = w.sparse * _switch(s, r, stream / s.tp * w.padded) * (4 + (1 + s.recomputes_last) * w.recomputed["all"])
    seconds["expert_exchange"] = collectives.partly_hidden_seconds(sent, body, s.gradients_hidden)
    seconds["weight_exchange"] = collectives.partly_hidden_seconds(_gather(s, r, w), body, s.weights_hidden)
    sent = stream / np.where((s.sequence_parallel == 1) | (s.hops_split == 1), s.tp, 1)
    stage = s.tp * s.cp * s.dp
    # All devices of a stage send at once, from pod to pod where stages lie in different ones; of the hops between
    # stages, those that leave a fast domain go through the network.
    hops = np.maximum(s.pp - 1, 1)
    far = np.minimum(np.maximum((np.ceil(s.pp * stage / r.domain) - 1) / hops, 0), 1)
    rate = 1 / ((1 - far) / r.link + far / (r.network * r.spread(np.minimum(stage, r.pod))))
    hop = collectives.point_to_point_seconds(sent, rate, NETWORK_LATENCY) * (s.pp > 1)
    seconds["pipeline_exchange"] = collectives.partly_hidden_seconds(2 * s.vp * hop, body, s.gradients_hidden)
    return {name: value * on[name] for name, value in seconds.items()}


def _switch(s: TransformerRows, r: _Rates, sent: Any) -> Any:
    """Return the time of one all-to-all of tokens to experts; a token crosses to each node once, whichever experts
    are there."""
    if not np.any(s.moe):
        return np.zeros(())
    inner, outer = r.levels(s.ep, 1)
    near = sent * formulas.distinct_ranks(s.experts_per_token, inner)
    far = sent * formulas.distinct_ranks(s.experts_per_token, outer)
    return np.maximum(
        collectives.all_to_all_seconds(near, inner, 1, r.link, r.network, LINK_LATENCY),
        collectives.all_to_all_seconds(far, 1, outer, r.link, r.scattered(s.ep), NETWORK_LATENCY),
    )


def _offload(s: TransformerRows, r: _Rates, body: Any) -> Any:
    """Return the time of copies to and from host memory of a micro-batch, as far as computation does not hide them.

    Weights come in for both passes, activations leave in the forward pass and return in the backward pass. Copies run
    beside computation, of which the backward pass is two of three, and both ways at once (Ren et al., ZeRO-Offload,
    USENIX ATC 2021, section 4.2; Rajbhandari et al., ZeRO-Infinity, SC21, 2021, section 6.2).
    """
    if not np.any(s.offload_weights + s.offload_activations):
        return np.zeros(())
    weights, activations = configurations.stage_of(s).host_copies(s)
    rate = np.where(np.isnan(r.host), np.inf, r.host)
    forward = collectives.exposed_seconds(np.maximum(weights, activations) / rate, body / 3, 1.0)
    return forward + collectives.exposed_seconds((weights + activations) / rate, body * 2 / 3, 1.0)


def _gather(s: TransformerRows, r: _Rates, w: _Layer) -> Any:
    """Return the time to gather sharded weights twice, and to scatter gradients once, for each micro-batch."""
    alike, experts = w.held(s)
    inner, outer = r.levels(s.shard, s.tp)
    # One ring through all ranks has one network port of each node.
    network = r.ring / np.where(s.one_port == 1, inner, 1)
    gather = collectives.hierarchical_all_gather_seconds(
        (alike + experts) * s.element, inner, outer, r.link, network, LINK_LATENCY
    )
    return gather * np.where(s.zero >= 3, 3.0, np.where(s.zero >= 2, 1.0, 0.0))


def _once(
    s: TransformerRows, r: _Rates, w: _Layer, body: Any, c: Mapping[str, Any], on: Mapping[str, bool]
) -> dict[str, Any]:
    """Return the seconds of what happens once a step: gradients between replicas, and the optimiser."""
    alike, experts = w.held(s)
    edge = s.hidden * s.vocab / s.tp
    trained = np.where(s.lora == 1, edge * s.trains_edge, alike + experts + edge)
    replicas = s.dp * s.cp
    inner, outer = r.levels(replicas, s.tp)
    whole = collectives.hierarchical_all_reduce_seconds(
        trained * s.element, inner, outer, r.link, r.ring, LINK_LATENCY, NETWORK_LATENCY
    )
    shard, groups = trained * s.element / s.shard, np.maximum(replicas / s.shard, 1)
    inner, outer = r.levels(groups, s.tp * s.shard)
    sharded = collectives.hierarchical_all_reduce_seconds(
        shard, inner, outer, r.link, r.ring, LINK_LATENCY, NETWORK_LATENCY
    )
    reduce = np.where(s.zero >= 3, sharded, whole)
    # Adam reads gradient, master weight, momentum and variance and writes the last three in 32 bits.
    moved = trained / s.shard, s.update_reads, s.update_writes, WIDE, s.element, s.element
    update = memory.update_bytes(*moved) / r.memory
    host = offloaded_update_seconds(
        trained / s.shard,
        s.element,
        s.element,
        s.optimiser_bytes,
        r.host,
        r.host_memory,
        r.drives,
    )
    # Weights that an accelerator updates return to the host once a step, whole where each device reads them whole.
    bytes_back = s.offload_weights * configurations.WEIGHT * trained / np.where(s.zero >= 3, s.shard, 1)
    returned = bytes_back / np.where(np.isnan(r.host), np.inf, r.host)
    update = np.where((s.offload_optimiser == 1) & ~np.isnan(r.host), host, update + returned)
    update = update + _hooked(s, on) * c["hooked_bytes"] * trained / s.shard * s.micro_batches / r.memory
    return {
        # Gradients travel during the backward pass, two of three; of interleaved stages during the last of each stage.
        "gradient_exchange": collectives.partly_hidden_seconds(
            reduce, body * np.where(s.vp > 1, s.pp, 2 / 3), s.gradients_hidden
        )
        * on["gradient_exchange"],
        "optimiser": update * on["optimiser"],
    }
