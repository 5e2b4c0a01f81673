"""Blocks of large language models: mixtures of experts, and latent attention with a low-rank bottleneck."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cookbook.workloads.layers import Shape, Trace, mlp
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

    With `index` (heads, dim, top), small heads score all tokens before each, and it attends to the best `top` of them.
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
    if index:
        scored = index["heads"] * index["dim"]
        t.linear(q_in, scored, False, f"{name}.index.q")
        key = t.norm(t.linear(x, index["dim"], False, f"{name}.index.k"), "layer", name=f"{name}.index.norm")
        weights = t.linear(x, index["heads"], False, f"{name}.index.weights")
        t.matmul(weights, key, x.with_channels(1), np.array([0.0, scored / 2, scored / 2]), f"{name}.index.scores")
    top = index["top"] if index else None
    y = t.attention(q, heads, heads, nope_dim + rope_dim, causal, top, flash, None, v_dim, name=f"{name}.core")
    return t.linear(y, out[1], False, f"{name}.out")
