"""Text encoders (BERT and its relatives) and encoder-decoders (T5, BART)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .blocks import moe, self_attention, transformer_block
from .layers import Trace
from .ops import Ops, join, repeat
from .shapes import Length, S, Shape


def bert(vocab: int, width: int, depth: int, heads: int, hidden: int, positions: int = 512, types: int = 2,
         embedding_width: int | None = None, share_layers: bool = False, pooler: bool = True, head: str = "",
         predicted: float = 0.15625, classes: int = 2, act: str = "gelu", dropout: bool = True,
         flash: bool = True) -> Ops:  # fmt: skip
    """A bidirectional encoder: BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA's networks.

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
    x = _embedded(t, vocab, narrow, positions, types, dropout)
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


def _embedded(t: Trace, vocab: int, width: int, positions: int, types: int, dropout: bool) -> Shape:
    parts = [t.embedding(S, vocab, width), t.embedding(S, positions, width, "positions")]
    if types:
        parts.append(t.embedding(S, types, width, "segments"))
    x = t.norm(t.add(*parts, name="embedding.add"), "layer", name="embedding.norm")
    return t.dropout(x, "embedding.dropout") if dropout else x


def _bert_head(t: Trace, x: Shape, vocab: int, narrow: int, pooler: bool, head: str, predicted: float, classes: int,
               act: str) -> None:  # fmt: skip
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


def electra(vocab: int, width: int, depth: int, heads: int, hidden: int, generator_width: int, generator_heads: int,
            generator_depth: int, embedding_width: int | None = None, predicted: float = 0.15625, dropout: bool = True,
            flash: bool = True) -> Ops:  # fmt: skip
    """ELECTRA's pre-training: a small masked-token generator, then a discriminator of all positions.

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
    table = embedding_width or width
    small = bert(vocab, generator_width, generator_depth, generator_heads, 4 * generator_width, embedding_width=table,
                 pooler=False, head="masked", predicted=predicted, dropout=dropout, flash=flash)  # fmt: skip
    large = bert(vocab, width, depth, heads, hidden, embedding_width=embedding_width, pooler=False,
                 head="discriminator", dropout=dropout, flash=flash)  # fmt: skip
    own = small.kind != "embedding"
    small = replace(small, parameters=small.parameters * own, active_parameters=small.active_parameters * own)
    return join([small, large])


def encoder_decoder(vocab: int, width: int, depth: int, heads: int, hidden: int, head_dim: int | None = None,
                    decoder_depth: int | None = None, positions: int = 0, relative_buckets: int = 0,
                    norm: str = "layer", gated: bool = False, act: str = "gelu", bias: bool = True, tied: bool = True,
                    embedding_norm: bool = False, final_norm: bool = False, experts: int = 0, experts_every: int = 2,
                    target: float = 1.0, dropout: bool = True, flash: bool = True) -> Ops:  # fmt: skip
    """Encoder and decoder with cross-attention: T5, BART, the switch transformer.

    Parameters
    ----------
    vocab, width, depth, heads, hidden, head_dim, decoder_depth : int
        Rows of the embedding table, width, encoder layers, heads, hidden units, width of a head (width / heads), and
        decoder layers (as many as the encoder).
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
    block: dict[str, Any] = {"norm": norm, "gated": gated, "act": act, "bias": bias, "dropout": dropout, "flash": flash,
                             "head_dim": head_dim}  # fmt: skip

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


def _table(t: Trace, part: str, length: Length, vocab: int, width: int, positions: int, norm: str, normed: bool,
           dropout: bool, shared: bool) -> Shape:  # fmt: skip
    x = t.embedding(length, vocab, width, f"{part}.embedding", shared=shared)
    if positions:
        x = t.add(x, t.embedding(length, positions, width, f"{part}.positions"), name=f"{part}.embedding.add")
    if normed:
        x = t.norm(x, norm, name=f"{part}.embedding.norm")
    return t.dropout(x, f"{part}.embedding.dropout") if dropout else x


def _expert_block(t: Trace, x: Shape, heads: int, hidden: int, experts: int, memory: Shape | None,
                  c: dict[str, Any]) -> Shape:  # fmt: skip
    """A layer whose MLP is a mixture of experts, one expert a token."""
    attention = {key: c[key] for key in ("bias", "flash", "dropout", "head_dim")}
    y = self_attention(t, t.norm(x, c["norm"], name="norm1"), heads, causal=memory is not None, **attention)
    x = t.add(x, t.dropout(y) if c["dropout"] else y, name="residual1")
    if memory is not None:
        y = self_attention(t, t.norm(x, c["norm"], name="norm_cross"), heads, memory=memory, name="cross", **attention)
        x = t.add(x, t.dropout(y) if c["dropout"] else y, name="residual_cross")
    y = moe(t, t.norm(x, c["norm"], name="norm2"), experts, 1, hidden, gated=c["gated"], act=c["act"])
    return t.add(x, t.dropout(y) if c["dropout"] else y, name="residual2")
