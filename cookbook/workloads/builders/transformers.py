"""Transformers: decoder-only language models, text encoders (BERT and its relatives, ModernBERT), encoder-decoders (T5,
BART), and networks on image patches (ViT, DeiT, BEiT, DINO, Swin, with texts CLIP and SigLIP, and the multilayer
perceptrons Mixer and ResMLP).

Arguments of `decoder` are the dimensions in a model's configuration file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cookbook.catalog.reading import check_names
from cookbook.workloads.builders.blocks import latent_attention, mixture_of_experts, moe
from cookbook.workloads.layers import (
    Length,
    S,
    Shape,
    Trace,
    attention_branches,
    mlp,
    self_attention,
    transformer_block,
)
from cookbook.workloads.ops import Ops, join, repeat

EXPERT_ARGUMENTS = (
    "number",
    "top_k",
    "hidden",
    "shared",
    "shared_gate",
    "router_bias",
    "score_bias",
    "bias",
    "first_dense",
)
INDEX_ARGUMENTS = ("heads", "dim", "top", "layers")
LATENT_ARGUMENTS = ("q_rank", "kv_rank", "nope_dim", "rope_dim", "v_dim")


# Arguments of `decoder` that its layers share.
_Layer = NamedTuple(  # noqa: UP014
    "_Layer",
    [
        ("heads", int),
        ("kv_heads", int | None),
        ("head_dim", int | None),
        ("hidden", int),
        ("norm", str),
        ("norm_bias", bool | None),
        ("norms", int),
        ("gated", bool),
        ("act", str),
        ("bias", bool),
        ("qkv_bias", bool),
        ("mlp_bias", bool),
        ("qk_norm", bool),
        ("whole_norm", bool),
        ("sinks", bool),
        ("parallel", bool),
        ("dropout", bool),
        ("flash", bool),
        ("latent", Mapping[str, Any] | None),
        ("index", Mapping[str, Any] | None),
        ("experts", Mapping[str, Any] | None),
    ],
)


def decoder(
    vocab: int,
    width: int,
    depth: int,
    heads: int,
    hidden: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    positions: int = 0,
    norm: str = "rms",
    norm_bias: bool | None = None,
    norms: int = 2,
    gated: bool = True,
    act: str = "silu",
    bias: bool = False,
    qkv_bias: bool | None = None,
    mlp_bias: bool | None = None,
    qk_norm: bool = False,
    whole_norm: bool = False,
    sinks: bool = False,
    tied: bool = False,
    head_bias: bool = False,
    embedding_norm: bool = False,
    embedding_width: int | None = None,
    final_norm: bool = True,
    parallel: bool = False,
    dropout: bool = False,
    window: int | None = None,
    full_every: int | None = None,
    experts: Mapping[str, Any] | None = None,
    latent: Mapping[str, Any] | None = None,
    index: Mapping[str, Any] | None = None,
    predict_ahead: int = 0,
    flash: bool = True,
) -> Ops:
    """Build a causal language model that predicts every next token of a sequence.

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
    qk_norm, whole_norm, sinks : bool
        Norm of each query and key head; of all queries and of all keys together (OLMo 2); a trained attention sink for
        each head.
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
    index : mapping
        Sparse attention of latent heads (DeepSeek-V3.2): heads and dim of the indexer that scores all tokens before
        each, and top, the tokens that attention then reads; layers, the number with an indexer of their own (None:
        all); each other layer reads what the nearest earlier one chose.
    predict_ahead : int
        Extra layers that predict tokens further ahead (multi-token prediction), sharing embedding and output matrix.
    flash : bool
        Whether attention scores stay on chip.

    Returns
    -------
    Ops
        Symbolic in the sequence length.
    """
    check_names(experts or (), EXPERT_ARGUMENTS, "experts", "entry")
    check_names(latent or (), LATENT_ARGUMENTS, "latent", "entry")
    check_names(index or (), INDEX_ARGUMENTS, "index", "entry")
    if index and not {"heads", "dim", "top"} <= set(index):
        raise ValueError("index needs heads, dim and top")
    if index and not (latent and latent.get("q_rank")):
        raise ValueError("index needs latent attention with q_rank: its queries are made of that latent")
    layer = _Layer(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=hidden,
        norm=norm,
        norm_bias=norm_bias,
        norms=norms,
        gated=gated,
        act=act,
        bias=bias,
        qkv_bias=bias if qkv_bias is None else qkv_bias,
        mlp_bias=bias if mlp_bias is None else mlp_bias,
        qk_norm=qk_norm,
        whole_norm=whole_norm,
        sinks=sinks,
        parallel=parallel,
        dropout=dropout,
        flash=flash,
        latent=latent,
        index=index,
        experts=experts,
    )
    t = Trace()
    x = _embedded(t, vocab, width, positions, embedding_width, dropout)
    if embedding_norm:
        x = t.norm(x, norm, bias=norm_bias, name="embedding_norm")
    for name, count, kind, reach, sparse in _groups(layer, depth, window, full_every):
        with t.block(name, repeat=count):
            x = _block(t, x, kind, reach, sparse)
    if final_norm:
        x = t.norm(x, norm, bias=norm_bias, name="final_norm")
    _head(t, x, vocab, tied, head_bias, embedding_width)
    for offset in range(1, predict_ahead + 1):
        _predict_ahead(t, x, layer, vocab, offset)
    return t.ops()


def _embedded(t: Trace, vocab: int, width: int, positions: int, narrow: int | None, dropout: bool) -> Shape:
    x = t.embedding(S, vocab, narrow or width)
    if narrow:
        x = t.linear(x, width, False, "embedding.project")
    if positions:
        x = t.add(x, t.embedding(S, positions, width, "positions"), name="embedding.add")
    return t.dropout(x, "embedding.dropout") if dropout else x


def _groups(
    layer: _Layer, depth: int, window: int | None, full_every: int | None
) -> list[tuple[str, int, _Layer, int | None, bool]]:
    """Return groups of identical layers: label, number, form, sliding window, and True for layers with experts."""
    experts, index, sparse = layer.experts, layer.index, layer.experts is not None
    dense = int(experts.get("first_dense", 0)) if experts else 0
    full = depth // full_every if window and full_every else 0
    most, least = depth - full, max(dense, 1)
    own = most if not index or index.get("layers") is None else int(index["layers"])
    if index and not least <= own <= most:
        raise ValueError(f"index: layers must be {least} to {most}, since layers without experts have an indexer each")
    reading = most - own
    reader = layer._replace(index={"top": index["top"]}) if index else layer
    groups = [
        ("dense_layer", dense, layer, window, False),
        ("layer", depth - dense - full - reading, layer, window, sparse),
        ("reading_layer", reading, reader, window, sparse),
        ("full_layer", full, layer, None, sparse),
    ]
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
        kv_rank, nope, rope, values = (c.latent[name] for name in LATENT_ARGUMENTS[1:])
        q_rank = c.latent.get("q_rank")
        return latent_attention(t, y, c.heads, q_rank, kv_rank, nope, rope, values, flash=c.flash, index=c.index)
    if c.sinks:
        t.parameter(c.heads, "attention.sinks")
    if c.whole_norm:
        width = c.head_dim or int(y.channels // c.heads)
        t.parameter((c.heads + (c.kv_heads or c.heads)) * width, "attention.whole_norm")
    return self_attention(
        t,
        y,
        c.heads,
        c.kv_heads,
        c.head_dim,
        causal=True,
        window=window,
        flash=c.flash,
        bias=c.bias,
        qkv_bias=c.qkv_bias,
        qk_norm=c.qk_norm,
        dropout=c.dropout,
    )


def _feed_forward(t: Trace, y: Shape, c: _Layer, sparse: bool) -> Shape:
    if not sparse or c.experts is None:
        return mlp(t, y, c.hidden, c.gated, c.act, c.mlp_bias)
    e = c.experts
    if e.get("score_bias"):
        t.parameter(e["number"], "moe.score_bias")
    if e.get("shared_gate"):
        t.linear(y, 1, False, "moe.shared_gate")
    return mixture_of_experts(t, y, e, c.gated, c.act)


def _head(t: Trace, x: Shape, vocab: int, tied: bool, bias: bool, narrow: int | None = None) -> None:
    if narrow:
        x = t.linear(x, narrow, False, "head.project")
    if tied and bias:
        t.parameter(vocab, "head.bias")
    t.loss(t.linear(x, vocab, bias and not tied, "head", shared=tied), "head.loss")


def _predict_ahead(t: Trace, x: Shape, c: _Layer, vocab: int, ahead: int) -> None:
    """Write one more layer on normed hidden state and next token's embedding (DeepSeek-V3 report, section 2.2)."""
    with t.block(f"predict_ahead{ahead}"):
        token = t.embedding(S, vocab, int(x.channels), "embedding", shared=True)
        both = t.concat([t.norm(token, c.norm, name="norm_token"), t.norm(x, c.norm, name="norm_hidden")])
        y = _block(t, t.linear(both, int(x.channels), False, "project"), c, None, c.experts is not None)
        _head(t, t.norm(y, c.norm, name="final_norm"), vocab, True, False)


def bert(
    vocab: int,
    width: int,
    depth: int,
    heads: int,
    hidden: int,
    positions: int = 512,
    types: int = 2,
    embedding_width: int | None = None,
    share_layers: bool = False,
    pooler: bool = True,
    head: str = "",
    predicted: float = 0.15625,
    classes: int = 2,
    act: str = "gelu",
    dropout: bool = True,
    flash: bool = True,
) -> Ops:
    """Build a bidirectional encoder: BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA's networks.

    Parameters
    ----------
    vocab, width, depth, heads, hidden : int
        Rows of the embedding table, width, layers, heads, hidden units of the MLP.
    positions, types : int
        Rows of the position and of the segment table (0: none).
    embedding_width : int
        Narrower embedding with a projection to `width` (ALBERT, small ELECTRA).
    share_layers : bool
        Whether all layers use the same parameters (ALBERT).
    pooler : bool
        Dense layer on the first position.
    head : str
        "" (none), "masked" (predicts masked tokens), "masked+next" (and whether two sentences follow each other),
        "discriminator" (replaced or not, for each position), "tokens" (`classes` for each position: 2 for the span of
        an answer) or "classes" (`classes` for the whole sequence).
    predicted : float
        Share of positions whose token is predicted (BERT: 20 of 128, 80 of 512).
    act, dropout, flash : str, bool, bool
        Activation; dropout as in training; whether attention scores stay on chip.

    Returns
    -------
    Ops
        Symbolic in the sequence length.
    """
    t = Trace()
    narrow = embedding_width or width
    x = _embedded_pieces(t, vocab, narrow, positions, types, dropout)
    if narrow != width:
        x = t.linear(x, width, True, "embedding.project")
    layers = Trace() if share_layers else t
    with layers.block("layer", repeat=1 if share_layers else depth):
        x = transformer_block(layers, x, heads, hidden, "layer", act=act, dropout=dropout, flash=flash)
    tail = Trace() if share_layers else t
    _bert_head(tail, x, vocab, narrow, pooler, head, predicted, classes, act)
    if not share_layers:
        return t.ops()
    first = layers.ops()
    again = replace(first, parameters=0 * first.parameters, active_parameters=0 * first.active_parameters)
    parts = [t.ops(), first, repeat(again, depth - 1)]
    return join([*parts, tail.ops()] if pooler or head else parts)


def _embedded_pieces(t: Trace, vocab: int, width: int, positions: int, types: int, dropout: bool) -> Shape:
    parts = [t.embedding(S, vocab, width), t.embedding(S, positions, width, "positions")]
    if types:
        parts.append(t.embedding(S, types, width, "segments"))
    x = t.norm(t.add(*parts, name="embedding.add"), "layer", name="embedding.norm")
    return t.dropout(x, "embedding.dropout") if dropout else x


def _bert_head(
    t: Trace, x: Shape, vocab: int, narrow: int, pooler: bool, head: str, predicted: float, classes: int, act: str
) -> None:
    width = int(x.channels)
    first = Shape(width)
    if pooler:
        first = t.act(t.linear(first, width, True, "pooler"), "tanh", "pooler.tanh")
    if head in ("masked", "masked+next"):
        y = t.linear(Shape(width, (S * predicted,)), narrow, True, "head.transform")
        y = t.norm(t.act(y, act, f"head.{act}"), "layer", name="head.norm")
        t.parameter(vocab, "head.bias")
        t.loss(t.linear(y, vocab, False, "head", shared=True), "head.loss")
        if head == "masked+next":
            t.loss(t.linear(first, 2, True, "next"), "next.loss")
    elif head == "discriminator":
        y = t.act(t.linear(x, width, True, "head.transform"), act, f"head.{act}")
        t.loss(t.linear(y, 1, True, "head"), "head.loss")
    elif head in ("tokens", "classes"):
        t.loss(t.linear(x if head == "tokens" else first, classes, True, "head"), "head.loss")
    elif head:
        raise ValueError(f"head = {head!r}; take one of '', masked, masked+next, discriminator, tokens, classes")


def rotary_encoder(
    vocab: int,
    width: int,
    depth: int,
    heads: int,
    hidden: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    types: int = 0,
    norm: str = "layer",
    norm_bias: bool = False,
    norms: int = 2,
    qk_norm: bool = False,
    act: str = "gelu",
    window: int | None = None,
    full: int = 0,
    embedding_norm: bool = True,
    final_norm: bool = False,
    dense: Sequence[int] = (),
) -> Ops:
    """Build a bidirectional encoder with rotary positions and gated MLPs, without biases.

    Parameters
    ----------
    vocab, width, depth, heads, hidden : int
        Rows of the embedding table, width, layers, heads, hidden units of the MLP.
    kv_heads, head_dim : int
        Key and value heads, and width of a head; by default `heads` and width / heads.
    types : int
        Rows of the segment table (0: none).
    norm, norm_bias, norms : str, bool, int
        Kind of norm, whether it has a bias, and how many a layer has: 2, or 4 (before and after each branch).
    qk_norm, act : bool, str
        Norm of each query and key head; activation.
    window, full : int
        Tokens of a window (None: all layers attend to all), and the layers without it.
    embedding_norm, final_norm : bool
        Norm after the embedding; after the last layer.
    dense : sequence of int
        Features of the layers on the mean of all tokens.

    Returns
    -------
    Ops
        Symbolic in the sequence length.
    """
    t = Trace()
    x = t.embedding(S, vocab, width)
    if types:
        x = t.add(x, t.embedding(S, types, width, "segments"), name="embedding.add")
    x = t.norm(x, norm, bias=norm_bias, name="embedding.norm") if embedding_norm else x
    own: dict[str, Any] = {"kv_heads": kv_heads, "head_dim": head_dim, "qk_norm": qk_norm, "norm_bias": norm_bias}
    groups = (("full_layer", depth if window is None else full, None), ("layer", depth - full, window))
    for name, count, reach in groups[: 1 + bool(window)]:
        with t.block(name, repeat=count):
            x = transformer_block(t, x, heads, hidden, norm, True, act, False, window=reach, **own)
            x = t.norm(t.norm(x, norm, name="after1"), norm, name="after2") if norms == 4 else x
    x = t.norm(x, norm, bias=norm_bias, name="final_norm") if final_norm else x
    for at, features in enumerate(dense):
        t.linear(Shape(dense[at - 1] if at else width), features, False, f"dense{at + 1}")
    return t.ops()


def electra(
    vocab: int,
    width: int,
    depth: int,
    heads: int,
    hidden: int,
    generator_width: int,
    generator_heads: int,
    generator_depth: int,
    embedding_width: int | None = None,
    predicted: float = 0.15625,
    dropout: bool = True,
    flash: bool = True,
) -> Ops:
    """Build ELECTRA's pre-training: a small masked-token generator, then a discriminator of all positions.

    Both use one embedding table (Clark et al., ICLR 2020, section 3.2), counted once.

    Parameters
    ----------
    vocab, width, depth, heads, hidden, embedding_width : int
        Dimensions of the discriminator, as in `bert`.
    generator_width, generator_heads, generator_depth : int
        Dimensions of the generator; its MLP is 4 x as wide as the generator.
    predicted, dropout, flash : float, bool, bool
        As in `bert`.

    Returns
    -------
    Ops
        Symbolic in the sequence length.
    """
    common: dict[str, Any] = {"pooler": False, "dropout": dropout, "flash": flash}
    masked: dict[str, Any] = {"embedding_width": embedding_width or width, "head": "masked", "predicted": predicted}
    small = bert(vocab, generator_width, generator_depth, generator_heads, 4 * generator_width, **masked, **common)
    large = bert(vocab, width, depth, heads, hidden, embedding_width=embedding_width, head="discriminator", **common)
    own = small.kind != "embedding"
    small = replace(small, parameters=small.parameters * own, active_parameters=small.active_parameters * own)
    return join([small, large])


def encoder_decoder(
    vocab: int,
    width: int,
    depth: int,
    heads: int,
    hidden: int,
    head_dim: int | None = None,
    decoder_depth: int | None = None,
    positions: int = 0,
    relative_buckets: int = 0,
    norm: str = "layer",
    gated: bool = False,
    act: str = "gelu",
    bias: bool = True,
    tied: bool = True,
    embedding_norm: bool = False,
    final_norm: bool = False,
    experts: int = 0,
    experts_every: int = 2,
    target: float = 1.0,
    dropout: bool = True,
    flash: bool = True,
) -> Ops:
    """Build an encoder and decoder with cross-attention: T5, BART, the switch transformer.

    Parameters
    ----------
    vocab, width, depth, heads, hidden, head_dim, decoder_depth : int
        Rows of the embedding table, width, encoder layers, heads, hidden units, width of a head (width / heads), and
        decoder layers (the number of the encoder's).
    positions, relative_buckets : int
        Rows of a trained position table of encoder and decoder each; buckets of a relative position bias for each
        head, in encoder and decoder each.
    norm, gated, act, bias : str, bool, str, bool
        As in `transformers.decoder`.
    tied : bool
        Whether the output matrix is the embedding table.
    embedding_norm, final_norm : bool
        Norm after the embedding; norm after the last layer.
    experts, experts_every : int
        Number of experts, of which a token uses one, in every `experts_every`-th layer (Fedus et al., 2021).
    target : float
        Length of the decoder's sequence for each token of the encoder's.
    dropout, flash : bool
        Dropout as in training; whether attention scores stay on chip.

    Returns
    -------
    Ops
        Symbolic in the length of the encoder's sequence.
    """
    t = Trace()
    block: dict[str, Any] = {
        "norm": norm,
        "gated": gated,
        "act": act,
        "bias": bias,
        "dropout": dropout,
        "flash": flash,
        "head_dim": head_dim,
    }

    def stack(part: str, length: Length, layers: int, memory: Shape | None, shared: bool) -> Shape:
        x = _table(t, part, length, vocab, width, positions, norm, embedding_norm, dropout, shared)
        if relative_buckets:
            t.parameter(relative_buckets * heads, f"{part}.relative_positions")
        sparse = layers // experts_every if experts else 0
        with t.block(f"{part}.layer", repeat=layers - sparse):
            x = transformer_block(t, x, heads, hidden, memory=memory, causal=memory is not None, **block)
        if sparse:
            with t.block(f"{part}.expert_layer", repeat=sparse):
                x = _expert_block(t, x, heads, hidden, experts, memory, block)
        return t.norm(x, norm, name=f"{part}.final_norm") if final_norm else x

    encoded = stack("encoder", S, depth, None, False)
    decoded = stack("decoder", S * target, decoder_depth or depth, encoded, True)
    t.loss(t.linear(decoded, vocab, False, "head", shared=tied), "head.loss")
    return t.ops()


def _table(
    t: Trace,
    part: str,
    length: Length,
    vocab: int,
    width: int,
    positions: int,
    norm: str,
    normed: bool,
    dropout: bool,
    shared: bool,
) -> Shape:
    x = t.embedding(length, vocab, width, f"{part}.embedding", shared=shared)
    if positions:
        x = t.add(x, t.embedding(length, positions, width, f"{part}.positions"), name=f"{part}.embedding.add")
    if normed:
        x = t.norm(x, norm, name=f"{part}.embedding.norm")
    return t.dropout(x, f"{part}.embedding.dropout") if dropout else x


def _expert_block(
    t: Trace, x: Shape, heads: int, hidden: int, experts: int, memory: Shape | None, c: dict[str, Any]
) -> Shape:
    """Write a layer whose MLP is a mixture of experts, one expert per token."""
    attention = {key: c[key] for key in ("norm", "bias", "dropout", "flash", "head_dim")}
    x = attention_branches(t, x, heads, memory=memory, causal=memory is not None, **attention)
    y = moe(t, t.norm(x, c["norm"], name="norm2"), experts, 1, hidden, gated=c["gated"], act=c["act"])
    return t.add(x, t.dropout(y) if c["dropout"] else y, name="residual2")


POSITION_HIDDEN = 512
"""Hidden units between relative coordinates and the bias of each head (Liu et al., arXiv:2111.09883, section 3.3)."""


def vit(
    image: int = 224,
    patch: int = 16,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    tokens: int = 1,
    positions: bool = True,
    qkv_bias: str = "all",
    relative_positions: bool = False,
    layer_scale: bool = False,
    mean_pool: bool = False,
    heads_out: int = 1,
    classes: int = 1000,
    act: str = "gelu",
    dropout: bool = False,
    flash: bool = True,
) -> Ops:
    """Build a vision transformer on non-overlapping patches: ViT, DeiT, BEiT.

    Parameters
    ----------
    image, patch, width, depth, heads, hidden : int
        Side of the image and of a patch [pixels]; width, layers, heads, hidden units of the MLP.
    tokens : int
        Extra trained tokens: class token (1), class and distillation token (2), none (0).
    positions, relative_positions : bool
        Trained position table; bias table for each layer and head over relative positions (BEiT: 3 more entries for
        the class token).
    qkv_bias : str
        "all", "query and value" (BEiT) or "none".
    layer_scale, mean_pool : bool
        Trained factor for each channel at the end of each branch; mean of the patches, then a norm, instead of the
        class token.
    heads_out, classes : int
        Classifiers (DeiT distilled: 2) and classes.
    act, dropout, flash : str, bool, bool
        Activation; dropout as in training; whether attention scores stay on chip.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    if qkv_bias not in ("all", "query and value", "none"):
        raise ValueError(f"qkv_bias = {qkv_bias!r}; take all, query and value, or none")
    t = Trace()
    side = image // patch
    patches = t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches")
    x = Shape(width, (side * side + tokens,), patches.tensor)
    if tokens:
        t.parameter(tokens * width, "tokens")
    if positions:
        t.parameter((side * side + tokens) * width, "positions")
        x = t.add(x, name="positions.add")
    with t.block("layer", repeat=depth):
        if relative_positions:
            t.parameter(((2 * side - 1) ** 2 + 3 * tokens) * heads, "attention.relative_positions")
        y = t.norm(x, "layer", name="norm1")
        if qkv_bias == "query and value":
            t.parameter(2 * width, "attention.bias")
        y = self_attention(t, y, heads, flash=flash, qkv_bias=qkv_bias == "all", dropout=dropout)
        x = _branch(t, x, y, layer_scale, dropout, "residual1")
        y = mlp(t, t.norm(x, "layer", name="norm2"), hidden, act=act)
        x = _branch(t, x, y, layer_scale, dropout, "residual2")
    if mean_pool:
        y = t.norm(t.global_pool(x), "layer", name="final_norm")
    else:
        t.norm(x, "layer", name="final_norm")
        y = Shape(width)
    for number in range(heads_out):
        t.loss(t.linear(y, classes, True, f"head{number or ''}"), "loss")
    return t.ops()


def _branch(t: Trace, x: Shape, y: Shape, layer_scale: bool, dropout: bool, name: str) -> Shape:
    """Write the end of a residual branch."""
    if dropout:
        y = t.dropout(y)
    return t.add(x, t.scale(y, "layer_scale") if layer_scale else y, name=name)


def contrastive(
    image: int = 224,
    patch: int = 14,
    width: int = 1024,
    depth: int = 24,
    heads: int = 16,
    hidden: int = 4096,
    vocab: int = 49408,
    tokens: int = 77,
    text_width: int = 768,
    text_depth: int = 12,
    text_heads: int = 12,
    text_hidden: int = 3072,
    joint: int = 768,
    pooled_by_attention: bool = False,
) -> Ops:
    """Build towers for image and text whose outputs are compared: CLIP (Radford et al., arXiv:2103.00020), SigLIP
    (Zhai et al., arXiv:2303.15343).

    Parameters
    ----------
    image, patch, width, depth, heads, hidden : int
        Side of the image and of a patch [pixels]; width, layers, heads, hidden units of the tower for images.
    vocab, tokens : int
        Rows of the embedding table; tokens of a text.
    text_width, text_depth, text_heads, text_hidden : int
        Width, layers, heads, hidden units of the tower for texts.
    joint : int
        Features of the common space.
    pooled_by_attention : bool
        Whether attention of one trained query pools the image (SigLIP), not a class token and a projection (CLIP).

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t, side, clip = Trace(), image // patch, not pooled_by_attention
    patches = t.conv(t.image(3, image, image), width, patch, stride=patch, bias=not clip, name="patches")
    x = Shape(width, (side * side + clip,), patches.tensor)
    t.parameter((side * side + clip + clip) * width, "positions_and_class")
    x = t.norm(x, "layer", name="first_norm") if clip else x
    with t.block("image", repeat=depth):
        x = transformer_block(t, x, heads, hidden)
    x = t.norm(x, "layer", name="final_norm")
    if clip:
        t.linear(Shape(width), joint, False, "image.out")
    else:
        t.parameter(width, "pool.query")
        y = self_attention(t, Shape(width, (1,)), heads, memory=x, name="pool")
        mlp(t, t.norm(y, "layer", name="pool.norm"), hidden, name="pool.mlp")
    y = t.add(t.embedding(tokens, vocab, text_width), t.embedding(tokens, tokens, text_width, "positions"), name="add")
    with t.block("text", repeat=text_depth):
        y = transformer_block(t, y, text_heads, text_hidden, causal=clip)
    t.norm(y, "layer", name="text.final_norm")
    t.linear(Shape(text_width), joint, not clip, "text.out")
    t.parameter(1 if clip else 2, "temperature")
    return t.ops()


def swin(
    image: int = 224,
    patch: int = 4,
    width: int = 96,
    depths: Sequence[int] = (2, 2, 6, 2),
    heads: Sequence[int] = (3, 6, 12, 24),
    window: int = 7,
    version: int = 1,
    key_bias: bool = True,
    classes: int = 1000,
) -> Ops:
    """Build a Swin transformer: attention inside (shifted) windows, patches merged between stages.

    Parameters
    ----------
    image, patch, width : int
        Side of the image and of a patch [pixels]; width of the first stage, doubled at each merging.
    depths, heads : sequence of int
        Layers and heads of each stage.
    window : int
        Side of a window [patches]; attention is full inside it, and a stage smaller than it is one window.
    version : int
        1, or 2 (cosine attention, position bias from a small network, norms after each branch). The network runs once
        a batch on relative coordinates, whatever the images: its parameters are counted, its work is not.
    key_bias : bool
        Whether to count a bias of the keys (torchvision has one, timm does not for version 2).
    classes : int
        Classes.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    x = t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches")
    x = t.norm(x, "layer", name="patches.norm")
    for stage, (depth, stage_heads) in enumerate(zip(depths, heads, strict=True)):
        if stage:
            x = _merged(t, x, version, f"merge{stage}")
        side = min(window, int(x.space[0]))  # type: ignore[arg-type]
        with t.block(f"stage{stage + 1}", repeat=depth):
            x = _swin_layer(t, x, stage_heads, side, window, version, key_bias)
    y = t.global_pool(t.norm(x, "layer", name="final_norm"))
    t.loss(t.linear(y, classes, True, "head"), "loss")
    return t.ops()


def _swin_layer(t: Trace, x: Shape, heads: int, side: int, window: int, version: int, key_bias: bool) -> Shape:
    width = int(x.channels)
    y = t.norm(x, "layer", name="norm1") if version == 1 else x
    if version == 1:
        t.parameter((2 * window - 1) ** 2 * heads, "attention.relative_positions")
    else:
        t.parameter(heads, "attention.temperature")
        t.parameter(POSITION_HIDDEN * (3 + heads), "attention.position_network")
    qkv_bias = version == 1 or key_bias
    if not qkv_bias:
        t.parameter(2 * width, "attention.bias")
    y = self_attention(t, y, heads, window=side * side, flash=False, qkv_bias=qkv_bias)
    if version == 2:
        y = t.norm(y, "layer", name="norm1")
    x = t.add(x, y, name="residual1")
    y = mlp(t, t.norm(x, "layer", name="norm2") if version == 1 else x, 4 * width)
    if version == 2:
        y = t.norm(y, "layer", name="norm2")
    return t.add(x, y, name="residual2")


def _merged(t: Trace, x: Shape, version: int, name: str) -> Shape:
    """Write 2 x 2 neighbours side by side, then half as many channels."""
    height, breadth = (int(side) // 2 for side in x.space)  # type: ignore[arg-type]
    y = t.reshape(x, 4 * x.channels, height, breadth)
    if version == 1:
        return t.linear(t.norm(y, "layer", name=f"{name}.norm"), int(2 * x.channels), False, name)
    return t.norm(t.linear(y, int(2 * x.channels), False, name), "layer", name=f"{name}.norm")


def mixer(
    image: int = 224,
    patch: int = 16,
    width: int = 768,
    depth: int = 12,
    token_hidden: int | None = 384,
    hidden: int = 3072,
    norm: str = "layer",
    layer_scale: bool = False,
    classes: int = 1000,
) -> Ops:
    """Build a network that mixes patches by multilayer perceptrons alone: MLP-Mixer, ResMLP.

    Parameters
    ----------
    image, patch, width, depth, hidden : int
        Side of the image and of a patch [pixels]; width, layers, hidden units of the channel MLP.
    token_hidden : int or None
        Hidden units of the MLP across positions; None: one linear layer (ResMLP).
    norm : str
        "layer", or "affine" (a trained factor and offset for each channel, ResMLP).
    layer_scale : bool
        Trained factor for each channel at the end of each branch.
    classes : int
        Classes.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    patches = (image // patch) ** 2
    x = t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches")
    x = t.reshape(x, width, patches)
    with t.block("layer", repeat=depth):
        y = _normed(t, x, norm, "norm1")
        y = t.reshape(y, patches, width)
        y = t.linear(y, patches, True, "tokens") if token_hidden is None else mlp(t, y, token_hidden, name="tokens")
        x = _branch(t, x, t.reshape(y, width, patches), layer_scale, False, "residual1")
        y = mlp(t, _normed(t, x, norm, "norm2"), hidden, name="channels")
        x = _branch(t, x, y, layer_scale, False, "residual2")
    y = t.global_pool(_normed(t, x, norm, "final_norm"))
    t.loss(t.linear(y, classes, True, "head"), "loss")
    return t.ops()


def _normed(t: Trace, x: Shape, norm: str, name: str) -> Shape:
    if norm == "layer":
        return t.norm(x, "layer", name=name)
    if norm != "affine":
        raise ValueError(f"norm = {norm!r}; take layer or affine")
    t.parameter(x.channels, f"{name}.offset")
    return t.scale(x, name)
