"""Blocks that many networks share, written with `Trace`: attention, MLP, experts, MLA; convolutions with norms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cookbook.workloads.layers import Shape, Trace


def self_attention(t: Trace, x: Shape, heads: int, kv_heads: int | None = None, head_dim: int | None = None,
                   causal: bool = False, window: float | None = None, flash: bool = True, bias: bool = True,
                   qkv_bias: bool | None = None, memory: Shape | None = None, qk_norm: bool = False,
                   dropout: bool = False, name: str = "attention") -> Shape:  # fmt: skip
    """Projections, attention core and output projection; `memory` makes it cross-attention.

    `bias` is that of the output projection and, unless `qkv_bias` says otherwise, of query, key and value; `dropout`
    is that of the attention weights.
    """
    kv_heads = kv_heads or heads
    d = head_dim or int(x.channels // heads)
    qkv_bias = bias if qkv_bias is None else qkv_bias
    source = memory or x
    q = t.linear(x, heads * d, qkv_bias, f"{name}.q")
    t.linear(source, kv_heads * d, qkv_bias, f"{name}.k")
    t.linear(source, kv_heads * d, qkv_bias, f"{name}.v")
    if qk_norm:
        t.parameter(2 * d, f"{name}.qk_norm")
    y = t.attention(q, heads, kv_heads, d, causal, window, flash, memory, dropout=dropout,
                    name=f"{name}.core")  # fmt: skip
    return t.linear(y, int(x.channels), bias, f"{name}.out")


def mlp(t: Trace, x: Shape, hidden: int, gated: bool = False, act: str = "gelu", bias: bool = True,
        out: int | None = None, name: str = "mlp") -> Shape:  # fmt: skip
    """Two linear layers with an activation between; `gated` adds a third whose output multiplies (SwiGLU, GeGLU)."""
    y = t.act(t.linear(x, hidden, bias, f"{name}.up"), act, f"{name}.{act}")
    if gated:
        y = t.multiply(y, t.linear(x, hidden, bias, f"{name}.gate"), name=f"{name}.product")
    return t.linear(y, out or int(x.channels), bias, f"{name}.down")


def moe(t: Trace, x: Shape, experts: int, top_k: int, hidden: int, shared: int = 0, gated: bool = True,
        act: str = "silu", router_bias: bool = False, bias: bool = False, name: str = "moe") -> Shape:  # fmt: skip
    """Mixture of experts: a router, `top_k` of `experts` MLPs for each token, `shared` hidden units for all tokens."""
    t.softmax(t.linear(x, experts, router_bias, f"{name}.router"), f"{name}.scores")
    y = t.act(t.expert_linear(x, hidden, experts, top_k, f"{name}.up", bias), act, f"{name}.{act}")
    if gated:
        gate = t.expert_linear(x, hidden, experts, top_k, f"{name}.gate", bias, keep=False)
        y = t.multiply(y, gate, name=f"{name}.product")
    per_choice = Shape(y.channels / top_k, y.space)
    t.expert_linear(per_choice, int(x.channels), experts, top_k, f"{name}.down", bias)
    y = t.add(*[x.with_channels(x.channels)] * top_k, name=f"{name}.combine")
    if shared:
        y = t.add(y, mlp(t, x, shared, gated, act, bias=False, name=f"{name}.shared"), name=f"{name}.add")
    return y


def latent_attention(t: Trace, x: Shape, heads: int, q_rank: int | None, kv_rank: int, nope_dim: int, rope_dim: int,
                     v_dim: int, causal: bool = True, flash: bool = True, name: str = "mla") -> Shape:  # fmt: skip
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values through a low-rank bottleneck.

    Counted as in training: latents are expanded to full heads before the scores.
    """
    q_in = x
    if q_rank:
        q_in = t.norm(t.linear(x, q_rank, False, f"{name}.q_down"), "rms", name=f"{name}.q_norm")
    q = t.linear(q_in, heads * (nope_dim + rope_dim), False, f"{name}.q_up")
    t.linear(x, kv_rank + rope_dim, False, f"{name}.kv_down")
    latent = t.norm(x.with_channels(kv_rank), "rms", name=f"{name}.kv_norm")
    t.linear(latent, heads * (nope_dim + v_dim), False, f"{name}.kv_up")
    y = t.attention(q, heads, heads, nope_dim + rope_dim, causal, None, flash, None, v_dim, name=f"{name}.core")
    return t.linear(y, int(x.channels), False, f"{name}.out")


def transformer_block(t: Trace, x: Shape, heads: int, hidden: int, norm: str = "layer", gated: bool = False,
                      act: str = "gelu", bias: bool = True, memory: Shape | None = None, dropout: bool = False,
                      norm_bias: bool | None = None, **attention: object) -> Shape:  # fmt: skip
    """Norm, self-attention, add, (norm, cross-attention on `memory`, add,) norm, MLP, add.

    Counts are the same for norms before or after. Further arguments go to `self_attention`.
    """
    y = self_attention(t, t.norm(x, norm, bias=norm_bias, name="norm1"), heads, bias=bias, dropout=dropout,
                       **attention)  # type: ignore[arg-type]
    x = t.add(x, t.dropout(y) if dropout else y, name="residual1")
    if memory is not None:
        flash = bool(attention.get("flash", True))
        head_dim = attention.get("head_dim")
        y = self_attention(t, t.norm(x, norm, bias=norm_bias, name="norm_cross"), heads, bias=bias, memory=memory,
                           head_dim=head_dim, flash=flash, dropout=dropout, name="cross")  # type: ignore[arg-type]  # fmt: skip
        x = t.add(x, t.dropout(y) if dropout else y, name="residual_cross")
    y = mlp(t, t.norm(x, norm, bias=norm_bias, name="norm2"), hidden, gated, act, bias)
    return t.add(x, t.dropout(y) if dropout else y, name="residual2")


def conv_norm(t: Trace, x: Shape, out: int, kernel: Any, stride: int = 1, padding: Any = None, groups: int = 1,
              dilation: int = 1, act: str = "relu", name: str = "conv") -> Shape:  # fmt: skip
    """Convolution without bias, batch norm, activation (`act` = "" for none).

    `padding` defaults to what keeps the size at stride 1.
    """
    if padding is None:
        kernels = kernel if isinstance(kernel, tuple) else (kernel,) * len(x.space)
        padding = tuple(dilation * (k - 1) // 2 for k in kernels)
    y = t.conv(x, out, kernel, stride, padding, groups, dilation, bias=False, name=name)
    y = t.norm(y, "batch", name=f"{name}.norm")
    return t.act(y, act, name=f"{name}.{act}") if act else y


def squeeze_excite(t: Trace, x: Shape, hidden: int, act: str = "relu", gate: str = "sigmoid",
                   name: str = "se") -> Shape:  # fmt: skip
    """Squeeze-and-excitation gate on the channels (Hu et al., arXiv:1709.01507)."""
    s = t.act(t.linear(t.global_pool(x, f"{name}.pool"), hidden, name=f"{name}.squeeze"), act, f"{name}.{act}")
    s = t.act(t.linear(s, int(x.channels), name=f"{name}.excite"), gate, f"{name}.{gate}")
    return t.multiply(x, s, name=f"{name}.gate")


def classify(t: Trace, x: Shape, classes: int, dropout: bool = False) -> None:
    """Global mean, linear classifier, loss."""
    x = t.flatten(t.global_pool(x))
    t.loss(t.linear(t.dropout(x) if dropout else x, classes, name="classifier"))


def variant_of(table: Mapping[Any, Any], value: Any, argument: str) -> Any:
    """The entry of a table of published variants; ValueError names the others where there is none."""
    if value not in table:
        raise ValueError(f"{argument} = {value!r}; take one of {', '.join(repr(v) for v in table)}")
    return table[value]


def divisible(channels: float, divisor: int = 8) -> int:
    """Nearest multiple of `divisor` that is not more than 10 % below `channels`."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest
