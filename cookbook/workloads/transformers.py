"""Decoder-only language models: one builder, whose arguments are the dimensions in a model's configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .blocks import latent_attention, mlp, moe, self_attention
from .layers import Trace
from .ops import Ops
from .shapes import S, Shape

EXPERT_ARGUMENTS = ("number", "top_k", "hidden", "shared", "shared_gate", "router_bias", "score_bias", "bias",
                    "first_dense")  # fmt: skip
LATENT_ARGUMENTS = ("q_rank", "kv_rank", "nope_dim", "rope_dim", "v_dim")


@dataclass(frozen=True)
class _Layer:
    """What the layers of one decoder share."""

    heads: int
    kv_heads: int | None
    head_dim: int | None
    hidden: int
    norm: str
    norm_bias: bool | None
    norms: int
    gated: bool
    act: str
    bias: bool
    qkv_bias: bool
    mlp_bias: bool
    qk_norm: bool
    sinks: bool
    parallel: bool
    dropout: bool
    flash: bool
    latent: Mapping[str, Any] | None
    experts: Mapping[str, Any] | None


def decoder(vocab: int, width: int, depth: int, heads: int, hidden: int, kv_heads: int | None = None,
            head_dim: int | None = None, positions: int = 0, norm: str = "rms", norm_bias: bool | None = None,
            norms: int = 2, gated: bool = True, act: str = "silu", bias: bool = False, qkv_bias: bool | None = None,
            mlp_bias: bool | None = None, qk_norm: bool = False, sinks: bool = False, tied: bool = False,
            head_bias: bool = False, embedding_norm: bool = False, embedding_width: int | None = None,
            final_norm: bool = True, parallel: bool = False, dropout: bool = False, window: int | None = None,
            full_every: int | None = None, experts: Mapping[str, Any] | None = None,
            latent: Mapping[str, Any] | None = None, predict_ahead: int = 0, flash: bool = True) -> Ops:  # fmt: skip
    """A causal language model that predicts every next token of a sequence.

    Parameters
    ----------
    vocab, width, depth, heads, hidden : int
        Rows of the embedding table, model width, layers, query heads, and hidden units of the (dense) MLP.
    kv_heads, head_dim : int
        Key and value heads (fewer than `heads`: grouped-query; 1: multi-query) and width of a head; by default
        `heads` and width / heads.
    positions : int
        Rows of a trained position table; 0 where positions take no parameters (rotary, ALiBi).
    norm, norm_bias, norms : str, bool, int
        Kind of norm, whether it has a bias, and how many a layer has: 2, 1 (parallel branches share it) or 4 (before
        and after each branch). `final_norm` and `embedding_norm` add one after the last layer and the embedding.
    gated, act, bias, qkv_bias, mlp_bias : bool, str, bool, bool, bool
        Form of the MLP (gated: SwiGLU or GeGLU, three matrices), activation, and biases; the last two follow `bias`
        unless given.
    qk_norm, sinks : bool
        Norm of each query and key head; a trained attention sink for each head.
    tied, head_bias, embedding_width : bool, bool, int
        Whether the output matrix is the embedding table; bias of the output; narrower embedding with projections.
    parallel, dropout : bool
        MLP beside attention instead of after it; dropout at the end of each branch.
    window, full_every : int
        Sliding window in tokens; every `full_every`-th layer attends without it (None: no layer does).
    experts : mapping
        Mixture of experts: number, top_k, hidden, shared (hidden units that all tokens use), shared_gate,
        router_bias, score_bias (trained or updated offset of each expert's score), bias, first_dense (layers that
        keep the dense MLP).
    latent : mapping
        Multi-head latent attention: q_rank (None: full-rank queries), kv_rank, nope_dim, rope_dim, v_dim.
    predict_ahead : int
        Extra layers that predict tokens further ahead (multi-token prediction), sharing embedding and output matrix.
    flash : bool
        Whether attention scores stay on chip.

    Returns
    -------
    Ops
        Symbolic in the sequence length.
    """
    _check(experts, EXPERT_ARGUMENTS, "experts")
    _check(latent, LATENT_ARGUMENTS, "latent")
    layer = _Layer(heads, kv_heads, head_dim, hidden, norm, norm_bias, norms, gated, act, bias,
                   bias if qkv_bias is None else qkv_bias, bias if mlp_bias is None else mlp_bias, qk_norm, sinks,
                   parallel, dropout, flash, latent, experts)  # fmt: skip
    t = Trace()
    x = _embedded(t, vocab, width, positions, embedding_width, dropout)
    if embedding_norm:
        x = t.norm(x, norm, bias=norm_bias, name="embedding_norm")
    for name, count, reach, sparse in _groups(depth, window, full_every, experts):
        with t.block(name, repeat=count):
            x = _block(t, x, layer, reach, sparse)
    if final_norm:
        x = t.norm(x, norm, bias=norm_bias, name="final_norm")
    _head(t, x, vocab, tied, head_bias, embedding_width)
    for ahead in range(1, predict_ahead + 1):
        _predict_ahead(t, x, layer, vocab, ahead)
    return t.ops()


def _check(given: Mapping[str, Any] | None, known: tuple[str, ...], name: str) -> None:
    unknown = [key for key in given or {} if key not in known]
    if unknown:
        raise ValueError(f"{name} has no entry {unknown[0]!r}; it takes {', '.join(known)}")


def _embedded(t: Trace, vocab: int, width: int, positions: int, narrow: int | None, dropout: bool) -> Shape:
    x = t.embedding(S, vocab, narrow or width)
    if narrow:
        x = t.linear(x, width, False, "embedding.project")
    if positions:
        x = t.add(x, t.embedding(S, positions, width, "positions"), name="embedding.add")
    return t.dropout(x, "embedding.dropout") if dropout else x


def _groups(depth: int, window: int | None, full_every: int | None,
            experts: Mapping[str, Any] | None) -> list[tuple[str, int, int | None, bool]]:  # fmt: skip
    """Identical layers together: label, number, sliding window, whether they hold experts."""
    dense = int(experts.get("first_dense", 0)) if experts else 0
    full = depth // full_every if window and full_every else 0
    groups = [("dense_layer", dense, window, False), ("layer", depth - dense - full, window, experts is not None),
              ("full_layer", full, None, experts is not None)]  # fmt: skip
    return [g for g in groups if g[1] > 0]


def _block(t: Trace, x: Shape, c: _Layer, window: int | None, sparse: bool) -> Shape:
    y = t.norm(x, c.norm, bias=c.norm_bias, name="norm1")
    attended = _attention(t, y, c, window)
    if c.norms == 4:
        attended = t.norm(attended, c.norm, bias=c.norm_bias, name="norm1.after")
    if c.dropout:
        attended = t.dropout(attended, "attention.dropout")
    if c.parallel:
        y = y if c.norms == 1 else t.norm(x, c.norm, bias=c.norm_bias, name="norm2")
        return t.add(x, attended, _feed_forward(t, y, c, sparse), name="residual")
    x = t.add(x, attended, name="residual1")
    y = _feed_forward(t, t.norm(x, c.norm, bias=c.norm_bias, name="norm2"), c, sparse)
    if c.norms == 4:
        y = t.norm(y, c.norm, bias=c.norm_bias, name="norm2.after")
    return t.add(x, t.dropout(y, "mlp.dropout") if c.dropout else y, name="residual2")


def _attention(t: Trace, y: Shape, c: _Layer, window: int | None) -> Shape:
    if c.latent:
        return latent_attention(t, y, c.heads, c.latent.get("q_rank"), c.latent["kv_rank"], c.latent["nope_dim"],
                                c.latent["rope_dim"], c.latent["v_dim"], flash=c.flash)  # fmt: skip
    if c.sinks:
        t.parameter(c.heads, "attention.sinks")
    return self_attention(t, y, c.heads, c.kv_heads, c.head_dim, causal=True, window=window, flash=c.flash, bias=c.bias,
                          qkv_bias=c.qkv_bias, qk_norm=c.qk_norm, dropout=c.dropout)  # fmt: skip


def _feed_forward(t: Trace, y: Shape, c: _Layer, sparse: bool) -> Shape:
    if not sparse or c.experts is None:
        return mlp(t, y, c.hidden, c.gated, c.act, c.mlp_bias)
    e = c.experts
    if e.get("score_bias"):
        t.parameter(e["number"], "moe.score_bias")
    if e.get("shared_gate"):
        t.linear(y, 1, False, "moe.shared_gate")
    return moe(t, y, e["number"], e["top_k"], e["hidden"], e.get("shared", 0), c.gated, c.act,
               e.get("router_bias", False), e.get("bias", False))  # fmt: skip


def _head(t: Trace, x: Shape, vocab: int, tied: bool, bias: bool, narrow: int | None = None) -> None:
    if narrow:
        x = t.linear(x, narrow, False, "head.project")
    if tied and bias:
        t.parameter(vocab, "head.bias")
    t.loss(t.linear(x, vocab, bias and not tied, "head", shared=tied), "head.loss")


def _predict_ahead(t: Trace, x: Shape, c: _Layer, vocab: int, ahead: int) -> None:
    """One more layer on hidden state and embedding of the next token, both normed (DeepSeek-V3 report, section 2.2)."""
    with t.block(f"predict_ahead{ahead}"):
        token = t.embedding(S, vocab, int(x.channels), "embedding", shared=True)
        both = t.concat([t.norm(token, c.norm, name="norm_token"), t.norm(x, c.norm, name="norm_hidden")])
        y = _block(t, t.linear(both, int(x.channels), False, "project"), c, None, c.experts is not None)
        _head(t, t.norm(y, c.norm, name="final_norm"), vocab, True, False)
