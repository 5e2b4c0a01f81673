"""Blocks of large language models: mixtures of experts, latent attention with a low-rank bottleneck, and the branches
of networks whose layers differ (Gemma 4, Step 3.5, MiMo-V2, Kimi Linear, LFM2, DeepSeek-V4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cookbook.catalog.refusals import refused
from cookbook.workloads.layers import S, Shape, Trace, mlp
from cookbook.workloads.ops import latent_products


def moe(
    t: Trace,
    x: Shape,
    experts: int,
    top_k: int,
    hidden: int,
    shared: int = 0,
    gated: bool = True,
    act: str = "silu",
    router_bias: bool = False,
    bias: bool = False,
    latent: int = 0,
    name: str = "moe",
) -> Shape:
    """Write a mixture of experts: a router, `top_k` of `experts` MLPs per token, `shared` hidden units for all tokens.

    The chosen experts read and write `latent` features if given, fewer than those of x, through two projections.
    """
    t.softmax(t.linear(x, experts, router_bias, f"{name}.router"), f"{name}.scores")
    expert_input = t.linear(x, latent, False, f"{name}.into_latent") if latent else x
    y = t.act(t.expert_linear(expert_input, hidden, experts, top_k, f"{name}.up", bias), act, f"{name}.{act}")
    if gated:
        gate = t.expert_linear(expert_input, hidden, experts, top_k, f"{name}.gate", bias, keep=False)
        y = t.multiply(y, gate, name=f"{name}.product")
    per_choice = Shape(y.channels / top_k, y.space)
    t.expert_linear(per_choice, int(expert_input.channels), experts, top_k, f"{name}.down", bias)
    y = t.add(*[expert_input.with_channels(expert_input.channels)] * top_k, name=f"{name}.combine")
    y = t.linear(y, int(x.channels), False, f"{name}.out_of_latent") if latent else y
    if shared:
        y = t.add(y, mlp(t, x, shared, gated, act, bias=False, name=f"{name}.shared"), name=f"{name}.add")
    return y


def mixture_of_experts(t: Trace, x: Shape, sizes: Mapping[str, Any], gated: bool, act: str) -> Shape:
    """Write a mixture of experts of the sizes in a network's arguments."""
    optional = {name: sizes[name] for name in ("shared", "router_bias", "bias", "latent") if name in sizes}
    return moe(t, x, sizes["number"], sizes["top_k"], sizes["hidden"], gated=gated, act=act, **optional)


def latent_attention(
    t: Trace,
    x: Shape,
    heads: int,
    q_rank: int | None,
    kv_rank: int,
    nope_dim: int,
    rope_dim: int,
    v_dim: int,
    causal: bool = True,
    flash: bool = True,
    index: Mapping[str, int] | None = None,
    name: str = "mla",
) -> Shape:
    """Write multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values through a low-rank bottleneck.

    With `index` (heads, dim, top), small heads score all tokens before each, and it attends to the best `top` of them;
    with `top` alone, to those that an earlier layer chose.
    Counted as in training: latents are expanded to full heads before the scores.
    """
    query, expanded = heads * (nope_dim + rope_dim), heads * (nope_dim + v_dim)
    products = latent_products(int(x.channels), query, expanded, heads * v_dim, q_rank or 0, kv_rank, rope_dim)
    q_down, q_up, kv_down, kv_up, out = products
    q_in = x
    if q_rank:
        q_in = t.norm(t.linear(x, q_down[1], False, f"{name}.q_down"), "rms", name=f"{name}.q_norm")
    q = t.linear(q_in, q_up[1], False, f"{name}.q_up")
    t.linear(x, kv_down[1], False, f"{name}.kv_down")
    latent = t.norm(x.with_channels(kv_rank), "rms", name=f"{name}.kv_norm")
    t.linear(latent, kv_up[1], False, f"{name}.kv_up")
    if index and "heads" in index:
        scored = index["heads"] * index["dim"]
        t.linear(q_in, scored, False, f"{name}.index.q")
        key = t.norm(t.linear(x, index["dim"], False, f"{name}.index.k"), "layer", name=f"{name}.index.norm")
        weights = t.linear(x, index["heads"], False, f"{name}.index.weights")
        t.matmul(weights, key, x.with_channels(1), np.array([0.0, scored / 2, scored / 2]), f"{name}.index.scores")
    top = index["top"] if index else None
    y = t.attention(q, heads, heads, nope_dim + rope_dim, causal, top, flash, None, v_dim, name=f"{name}.core")
    return t.linear(y, out[1], False, f"{name}.out")


# ---- branches of networks whose layers differ -----------------------------------------------------------------

Sizes = Mapping[str, Any]
# Sizes that each kind needs, then those that it may have.
BRANCHES = {
    "attention": (
        {"heads", "head_dim"},
        {"kv_heads", "v_dim", "window", "qk_norm", "gate", "head_gate", "sinks", "one_kv", "no_kv", "index"},
    ),
    "latent": ({"heads", "kv_rank", "nope_dim", "rope_dim", "v_dim"}, {"q_rank", "gate"}),
    "delta": ({"heads", "head_dim", "kernel", "chunk"}, {"gate_rank"}),
    "convolution": ({"kernel"}, set[str]()),
    "compressed": ({"heads", "head_dim", "q_rank", "out_groups", "out_rank", "window"}, {"ratio", "index"}),
    "mlp": ({"hidden"}, set[str]()),
    "lookup": ({"width"}, set[str]()),
}


def check_branches(branches: Mapping[str, Sizes]) -> None:
    """Refuse a branch of no known kind, or one that lacks a size or has one that its kind does not take."""
    for letter, c in branches.items():
        needed, optional = BRANCHES.get(c.get("kind", ""), (set[str](), set(c)))
        unknown = ["kind"] * (c.get("kind") not in BRANCHES)
        if wrong := unknown + sorted({*needed - set(c), *set(c) - {"kind"} - needed - optional}):
            kinds = f"kind (one of {', '.join(BRANCHES)})" + f" and {', '.join(sorted(needed))}" * bool(needed)
            raise refused("branches", wrong[0], f"is wrong or missing for {letter!r}, which takes {kinds}")


def attention_branch(t: Trace, y: Shape, c: Sizes) -> Shape:
    """Write attention in heads of its own size: with a window, gate, sinks or index, or keys and values of others."""
    heads, size, pairs, index = c["heads"], c["head_dim"], c.get("kv_heads") or c["heads"], c.get("index")
    values, own = c.get("v_dim") or size, not c.get("no_kv")
    q = t.linear(y, heads * size, False, "attention.q")
    if own:
        t.linear(y, pairs * (size + values * (not c.get("one_kv"))), False, "attention.kv")
    if extra := (1 + own) * size * c.get("qk_norm", 0) + heads * c.get("sinks", 0):
        t.parameter(extra, "attention.norms_and_sinks")
    if index:
        _indexed(t, y, y, index)
    out = t.attention(q, heads, pairs, size, True, index["top"] if index else c.get("window"), v_dim=values)
    if gates := heads * values * c.get("gate", 0) + heads * c.get("head_gate", 0):
        out = t.multiply(out, t.linear(y, gates, False, "attention.gate"), name="attention.gated")
    return t.linear(out, int(y.channels), False, "attention.out")


def _indexed(t: Trace, queries: Shape, keys: Shape, index: Mapping[str, int], ratio: int = 0) -> None:
    """Write the scores of an indexer, which chooses the tokens (or one entry per `ratio` tokens) to attend to."""
    scored, every = index["heads"] * index["dim"], ratio or 1
    t.linear(queries, scored, False, "index.q")
    t.linear(keys, index["heads"] if ratio else index["dim"], False, "index.weights" if ratio else "index.k")
    if ratio:
        compressor(t, keys, index["dim"], ratio, 2, "index.compressor")
    else:
        t.parameter(2 * index["dim"], "index.norms")
    pairs = np.array([0.0, 0.0 if ratio else scored / 2, scored / 2 / every])
    t.matmul(keys, keys, keys.with_channels(1), pairs, "index.scores")


def latent_branch(t: Trace, y: Shape, c: Sizes) -> Shape:
    """Write latent attention; its output gate, of one number per feature of the heads, is written before it."""
    if c.get("gate"):
        t.linear(y, c["heads"] * c["v_dim"], False, "mla.gate")
    ranks = (c["kv_rank"], c["nope_dim"], c["rope_dim"], c["v_dim"])
    return latent_attention(t, y, c["heads"], c.get("q_rank"), *ranks)


def delta_branch(t: Trace, y: Shape, c: Sizes) -> Shape:
    """Write linear attention with a forget factor per feature: Kimi Delta Attention (arXiv:2510.26692)."""
    heads, size, near = c["heads"], c["head_dim"], (c["chunk"] + 1) / 2
    inner = heads * size
    values = y.with_channels(inner)
    qkv = t.linear(y, 3 * inner, False, "delta.qkv")
    t.act(t.conv(qkv, 3 * inner, c["kernel"], padding="same", groups=3 * inner, bias=False, name="conv1d"), "silu")
    t.linear(t.linear(y, size, False, "delta.forget_in"), inner, False, "delta.forget_out")
    t.linear(y, heads, False, "delta.rates")
    t.parameter(inner + heads + size, "delta.steps_and_norm")
    # Work of a chunk and of the state: as of the gated delta rule.
    work = heads * (5 * near * size + c["chunk"] ** 2 / 6 + 3 * size**2)
    u = t.norm(t.matmul(values, values, values, np.array([0.0, work, 0.0]), "state"), "rms", affine=False)
    low = t.linear(y, c["gate_rank"], False, "delta.gate_in") if c.get("gate_rank") else y
    u = t.multiply(u, t.act(t.linear(low, inner, False, "delta.gate"), "silu"), name="delta.gated")
    return t.linear(u, int(y.channels), False, "delta.out")


def convolution_branch(t: Trace, y: Shape, c: Sizes) -> Shape:
    """Write a short convolution between two gates (LFM2)."""
    width = int(y.channels)
    gates = t.linear(y, 3 * width, False, "convolution.in").with_channels(width)
    u = t.conv(
        t.multiply(gates, gates, name="convolution.gate_in"),
        width,
        c["kernel"],
        padding="same",
        groups=width,
        bias=False,
        name="conv1d",
    )
    return t.linear(t.multiply(u, gates, name="convolution.gate_out"), width, False, "convolution.out")


def compressed_branch(t: Trace, y: Shape, c: Sizes) -> Shape:
    """Write attention of DeepSeek-V4: to a window, and to one entry per `ratio` tokens, of which an index chooses."""
    heads, size, index, ratio = c["heads"], c["head_dim"], c.get("index"), c.get("ratio", 0)
    low = t.norm(t.linear(y, c["q_rank"], False, "compressed.q_down"), "rms", name="compressed.q_norm")
    q = t.linear(low, heads * size, False, "compressed.q_up")
    t.norm(t.linear(y, size, False, "compressed.kv"), "rms", name="compressed.kv_norm")
    t.parameter(heads, "compressed.sinks")
    out = t.attention(q, heads, 1, size, True, reach(c), name="compressed.core")
    if ratio:
        compressor(t, y, size, ratio, 1 + bool(index), "compressor")
    if index:
        _indexed(t, low, y, index, ratio)
    elif ratio:
        t.matmul(q, q, out, np.array([0.0, 0.0, heads * size / ratio]), "compressed.entries")
    mixed = t.conv(out, c["out_groups"] * c["out_rank"], 1, groups=c["out_groups"], bias=False, name="compressed.down")
    return t.linear(mixed, int(y.channels), False, "compressed.up")


def compressor(t: Trace, y: Shape, size: int, ratio: int, overlap: int, name: str) -> None:
    """Write the sums of `ratio` (with overlap: twice as many) tokens, weighted feature by feature."""
    t.linear(y, 2 * overlap * size, False, f"{name}.kv_and_gate")
    t.parameter(ratio * overlap * size + size, f"{name}.positions_and_norm")


def lookup_branch(t: Trace, y: Shape, c: Sizes) -> Shape:
    """Write what a layer adds of a second embedding (Gemma 3n, 4)."""
    return t.linear(t.act(t.linear(y, c["width"], False, "lookup.in"), "gelu"), int(y.channels), False, "lookup.out")


def second_embedding(t: Trace, x: Shape, rows: int, width: int, layers: int) -> None:
    """Write the second embedding of all layers: a table, and a projection of the first."""
    own = t.norm(t.linear(x, layers * width, False, "lookup.project"), "rms", affine=False, name="lookup.norm")
    t.parameter(width, "lookup.scale")
    t.add(own, t.embedding(S, rows, layers * width, "lookup.table"), name="lookup.add")


def mixed_streams(t: Trace, x: Shape, streams: int, weighted: bool, name: str, parts: int = 2) -> None:
    """Write what mixes residual streams (hyper-connections), or weights earlier layers, before a branch."""
    if streams:
        t.linear(x.with_channels(streams * x.channels), streams * (streams * (parts > 1) + parts), True, name)
        t.parameter(2 * parts - 1, f"{name}.scale")
    if weighted:
        t.linear(t.norm(x, "rms", name=f"{name}.norm"), 1, False, name)


WRITERS: dict[str, Callable[[Trace, Shape, Sizes], Shape]] = {
    "attention": attention_branch,
    "latent": latent_branch,
    "delta": delta_branch,
    "convolution": convolution_branch,
    "compressed": compressed_branch,
    "lookup": lookup_branch,
}


def reach(c: Sizes) -> int:
    """Return the tokens of a window and the chosen entries beside them."""
    return int(c["window"] + (c["index"]["top"] if c.get("index") else 0))


def kept(c: Sizes, width: int) -> dict[str, float]:
    """Return what one branch keeps of each token and of each sequence, and the work of its scores.

    `kept`, `scores`: elements, and half the MAC, per token of the context; `near_kept`, `near_scores`: those within a
    window; `reach`: its tokens times their work; `state`: elements per sequence; `pairs`: heads of keys and values.
    """
    kind, heads, size, index = c["kind"], c.get("heads", 1), c.get("head_dim", 0), c.get("index")
    if kind == "attention":
        pairs, both, near = c.get("kv_heads") or heads, size + (c.get("v_dim") or size), "near_" * bool(c.get("window"))
        own = {f"{near}kept": 0 if c.get("no_kv") else pairs * both, f"{near}scores": heads * both / 2}
        return {**own, "reach": (c.get("window") or 0) * heads * both / 2}
    if kind == "latent":
        scores = heads * (c["nope_dim"] + c["rope_dim"] + c["v_dim"]) / 2
        return {"kept": c["kv_rank"] + c["rope_dim"], "scores": scores}
    if kind == "compressed":
        near, ratio, dim = heads * size, c.get("ratio") or np.inf, index["dim"] if index else 0
        own = {"near_scores": near, "reach": reach(c) * near, "state": c["window"] * size}
        return {**own, "kept": (size + dim) / ratio, "scores": (index["heads"] * dim / 2 if index else near) / ratio}
    if kind == "delta":
        return {"state": heads * size * (size + 3 * (c["kernel"] - 1))}
    return {"state": width * (c["kernel"] - 1)} if kind == "convolution" else {}
