"""Networks for sequences of text, sensor data and time series: recurrent language models and translation, early
transformers, state-space models and their hybrids with attention (Mamba, Jamba, MiniMax-01, Qwen3-Next, Nemotron-H),
the temporal fusion transformer (Lim et al., arXiv:1912.09363).

In translation, source and target have the same number of tokens, the sequence length s.

And recommenders: DLRM, neural collaborative filtering, wide and deep. A sample is one row of the training table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads.arguments import whole
from cookbook.workloads.builders.blocks import (
    WRITERS,
    check_branches,
    kept,
    mixed_streams,
    mixture_of_experts,
    second_embedding,
)
from cookbook.workloads.layers import S, Shape, Trace, mlp, self_attention
from cookbook.workloads.ops import Ops

# Sizes of each kind of layer with a state; those of OPTIONAL_SIZES may be given for all kinds.
STATES = {
    "mamba": ("state", "kernel", "expand", "rank"),
    "mamba2": ("heads", "head_dim", "state", "groups", "kernel", "chunk"),
    "lightning": ("heads", "head_dim", "chunk"),
    "gated delta": ("heads", "key_heads", "head_dim", "kernel", "chunk"),
}
OPTIONAL_SIZES = ("norms", "bytes")
# Kinds of operations on states, and the default bytes of a state's element: engines store them as activations.
STATE_KINDS, STATE_BYTES = ("matmul", "scan"), 2
MAX_PATTERN = 1000
EXPERT_SIZES = ("number", "top_k", "hidden", "shared", "shared_gate", "latent", "extra")


def dense_stack(inputs: int = 540, hidden: int = 2048, layers: int = 5, classes: int = 8192) -> Ops:
    """Build fully connected ReLU layers, the acoustic model of hybrid speech recognisers (Dean et al., NIPS 2012)."""
    t = Trace()
    x = t.vector(inputs)
    for layer in range(layers):
        x = t.act(t.linear(x, hidden, name=f"linear{layer + 1}"), "relu")
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()


def lstm_language_model(vocab: int = 10000, width: int = 1500, layers: int = 2, biases: int = 1) -> Ops:
    """Build an LSTM language model with dropout (Zaremba, Sutskever & Vinyals, arXiv:1409.2329), by default "large"."""
    t = Trace()
    x = t.embedding(S, vocab, width)
    for layer in range(layers):
        x = t.recurrent(t.dropout(x), width, biases=biases, name=f"lstm{layer}")
    t.loss(t.linear(t.dropout(x), vocab, name="softmax_linear"))
    return t.ops()


# ---- translation ----------------------------------------------------------------------------------------------


def _additive_attention(t: Trace, queries: Shape, keys: Shape, units: int) -> Shape:
    """Write normalised Bahdanau attention: scores are a learned vector times tanh(query + key), for all pairs.

    The fused kernel does not store the tanh of all pairs, so neither work nor memory is counted for it.
    """
    q = t.linear(queries, units, bias=False, name="attention.query")
    k = t.linear(keys, units, bias=False, name="attention.key")
    pairs = np.array([0.0, 0.0, queries.positions[1] * keys.positions[1]])
    t.parameter(2 * units + 1, "attention.vector")
    t.matmul(q, k, queries.with_channels(1), pairs * units, "attention.scores")
    return t.matmul(queries, keys, queries.with_channels(keys.channels), pairs * keys.channels, "attention.context")


def gnmt(vocab: int = 32320, width: int = 1024, layers: int = 4) -> Ops:
    """Build GNMT v2 of MLPerf and NVIDIA: 4-layer LSTMs, the first of the encoder bidirectional, shared embeddings."""
    t = Trace()
    x = t.embedding(S, vocab, width, name="encoder.embedding")
    x = t.recurrent(t.dropout(x), width, bidirectional=True, name="encoder.lstm0")
    x = t.recurrent(t.dropout(x), width, name="encoder.lstm1")
    for layer in range(2, layers):
        x = t.add(x, t.recurrent(t.dropout(x), width, name=f"encoder.lstm{layer}"), name=f"encoder.residual{layer}")
    memory = x
    y = t.embedding(S, vocab, width, name="decoder.embedding", shared=True)
    y = t.recurrent(t.dropout(y), width, name="decoder.lstm0")
    context = _additive_attention(t, y, memory, width)
    for layer in range(1, layers):
        z = t.recurrent(t.dropout(t.concat([y, context])), width, name=f"decoder.lstm{layer}")
        y = t.add(y, z, name=f"decoder.residual{layer}") if layer > 1 else z
    t.loss(t.linear(y, vocab, name="classifier"))
    return t.ops()


def transformer(
    vocab: int = 33712,
    width: int = 512,
    hidden: int = 2048,
    heads: int = 8,
    layers: int = 6,
    attention_bias: bool = False,
    final_norms: bool = False,
) -> Ops:
    """Build the transformer of "Attention Is All You Need" (Vaswani et al., arXiv:1706.03762), one embedding for all.

    `final_norms` closes both stacks with a norm, as networks with norms before each part do.
    """
    t = Trace()
    x = t.embedding(S, vocab, width, name="encoder.embedding")
    with t.block("encoder", repeat=layers):
        x = _layer(t, x, heads, hidden, attention_bias, None)
    x = t.norm(x, "layer", name="encoder.norm") if final_norms else x
    y = t.embedding(S, vocab, width, name="decoder.embedding", shared=True)
    with t.block("decoder", repeat=layers):
        y = _layer(t, y, heads, hidden, attention_bias, x)
    y = t.norm(y, "layer", name="decoder.norm") if final_norms else y
    t.loss(t.linear(y, vocab, bias=False, name="classifier", shared=True))
    return t.ops()


def _layer(t: Trace, x: Shape, heads: int, hidden: int, bias: bool, memory: Shape | None) -> Shape:
    """Write a layer with dropout after each part; the decoder's has cross-attention on `memory`."""
    causal = memory is not None
    for name, keys in (("self", None), ("cross", memory))[: 2 if causal else 1]:
        y = self_attention(t, x, heads, bias=bias, causal=causal and keys is None, flash=False, memory=keys, name=name)
        x = t.norm(t.add(x, t.dropout(y), name=f"residual_{name}"), "layer", name=f"norm_{name}")
    y = mlp(t, x, hidden, act="relu")
    return t.norm(t.add(x, t.dropout(y), name="residual_mlp"), "layer", name="norm_mlp")


# ---- Transformer-XL -------------------------------------------------------------------------------------------


def transformer_xl(
    width: int = 512,
    heads: int = 8,
    head_dim: int = 64,
    hidden: int = 2048,
    layers: int = 16,
    tokens: int = 192,
    memory: int = 192,
    vocab: int = 267735,
    cutoffs: Sequence[int] = (19997, 39997, 199997),
    ratio: int = 1,
) -> Ops:
    """Build Transformer-XL (Dai et al., arXiv:1901.02860) on WikiText-103, with adaptive embedding and softmax.

    The softmax over rare words is not counted, since its work depends on the words; nor is the projection of relative
    positions, which is done once per batch.

    Parameters
    ----------
    tokens, memory : int
        Tokens predicted, and cached states of earlier tokens that they also attend to.
    cutoffs, ratio : int
        Words at which the frequency clusters end (all words: a plain softmax); divisor of the embedding width from
        one cluster to the next.
    """
    t = Trace()
    x = _adaptive_embedding(t, tokens, width, (0, *cutoffs, vocab), ratio)
    inner, keys = heads * head_dim, tokens + memory
    with t.block("layers", repeat=layers):
        context = t.tokens(keys, width)
        qkv = t.linear(context, 3 * inner, bias=False, name="qkv")
        t.parameter(width * inner, "relative")
        q = Shape(inner, (tokens,))
        scores = np.array([heads * head_dim * tokens * keys, 0.0, 0.0])
        t.matmul(q, qkv.with_channels(inner), t.tokens(tokens, heads * keys), scores, "relative_scores")
        y = t.linear(t.attention(q, heads, flash=False, memory=context), width, bias=False, name="out")
        x = t.norm(t.add(x, t.dropout(y), name="residual1"), "layer", name="norm1")
        y = t.dropout(mlp(t, x, hidden, act="relu"))
        x = t.norm(t.add(x, y, name="residual2"), "layer", name="norm2")
    t.parameter(2 * inner, "position_biases")
    _adaptive_softmax(t, x, vocab, cutoffs, ratio)
    return t.ops()


def _adaptive_embedding(t: Trace, tokens: int, width: int, ends: Sequence[int], ratio: int) -> Shape:
    if ratio == 1:
        return t.embedding(tokens, ends[-1], width)
    for i, (start, end) in enumerate(pairwise(ends)):
        t.embedding(tokens if i == 0 else 0, end - start, width // ratio**i, name=f"embedding{i}")
        t.parameter(width * (width // ratio**i), f"embedding{i}.projection")
    return t.tokens(tokens, width)


def _adaptive_softmax(t: Trace, x: Shape, vocab: int, cutoffs: Sequence[int], ratio: int) -> None:
    """Write the adaptive softmax, its matrix tied to the embedding, with its own biases and cluster vectors."""
    width, clusters = int(x.channels), sum(end < vocab for end in cutoffs)
    if ratio > 1:
        x = t.linear(x, width, bias=False, name="softmax.projection")
    t.parameter(clusters * (width + 1) + vocab, "softmax.biases")
    t.loss(t.linear(x, min(cutoffs[0], vocab) + clusters, bias=False, name="softmax.head", shared=True))


def mamba(
    width: int = 768, layers: int = 24, vocab: int = 50280, state: int = 16, kernel: int = 4, expand: int = 2
) -> Ops:
    """Build a Mamba language model (Gu & Dao, arXiv:2312.00752): gated selective scans, tied embeddings.

    Parameters
    ----------
    width, layers : int
        Features of the residual stream; number of blocks.
    vocab : int
        Vocabulary, padded to a multiple of 8.
    state, kernel, expand : int
        State of the scan for each feature; taps of the causal convolution; inner width over outer width.
    """
    t = Trace()
    x = t.embedding(S, vocab, width)
    with t.block("blocks", repeat=layers):
        y = _mamba(t, t.norm(x, "rms"), state, kernel, expand * width, math.ceil(width / 16))
        x = t.add(x, y, name="residual")
    x = t.norm(x, "rms", name="final_norm")
    t.loss(t.linear(x, vocab, bias=False, name="lm_head", shared=True))
    return t.ops()


def _mamba(t: Trace, y: Shape, state: int, kernel: int, inner: int, rank: int, norms: bool = False) -> Shape:
    """Write a gated selective scan; `norms` are those that Jamba has on step size, input and output of the state."""
    width = int(y.channels)
    t.linear(y, 2 * inner, bias=False, name="in_proj")
    u, gate = y.with_channels(inner), y.with_channels(inner)
    u = t.act(t.conv(u, inner, kernel, padding="same", groups=inner, name="conv1d"), "silu")
    t.linear(u, rank + 2 * state, bias=False, name="x_proj")
    if norms:
        t.norm(u.with_channels(rank + 2 * state), "rms", name="x_norms")
    t.act(t.linear(u.with_channels(rank), inner, name="dt_proj"), "softplus")
    t.parameter(inner * state + inner, "a_and_d")
    u = t.multiply(t.scan(u, state), t.act(gate, "silu", "gate.silu"), name="gate")
    return t.linear(u, width, bias=False, name="out_proj")


def hybrid(
    vocab: int,
    width: int,
    pattern: str,
    repeats: int = 1,
    recurrent: str = "",
    state: Mapping[str, Any] | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    qk_norm: bool = False,
    gate: bool = False,
    hidden: int | None = None,
    gated: bool = True,
    act: str = "silu",
    experts: Mapping[str, Any] | None = None,
    tied: bool = False,
    branches: Mapping[str, Any] | None = None,
    norms_after: bool = False,
    streams: int = 0,
    weighted_residuals: bool = False,
    looked_up: int = 0,
) -> Ops:
    """Build a causal language model of which some layers attend and the others keep a state of fixed size, or of which
    layers attend in several ways.

    Work on the state is that of chunked kernels: matmuls within chunks of tokens and from chunk to chunk, linear in the
    sequence. Of "mamba" it is elementwise, as in `mamba`.

    Parameters
    ----------
    vocab, width : int
        Rows of the embedding table; features of the residual stream.
    pattern, repeats : str, int
        Branches in their order, each with a norm before it and a residual around it: "M" keeps a state, "*" attends,
        "-" is an MLP and "E" a mixture of experts (the letters of Nemotron-H); and the number of repetitions.
    recurrent : {"", "mamba", "mamba2", "lightning", "gated delta"}
        Kind of the layers "M": selective scan (Gu & Dao, arXiv:2312.00752), its form with heads (Dao & Gu,
        arXiv:2405.21060), lightning attention (MiniMax, arXiv:2501.08313), gated DeltaNet (Yang et al.,
        arXiv:2412.06464).
    state : mapping
        Numbers of that kind. mamba: state (numbers for each feature), kernel (taps of the convolution), expand (inner
        width over width), rank (of the step size), norms (1 where those have norms). mamba2: heads, head_dim, state,
        groups (that share input and output of the state), kernel, chunk [tokens]. lightning: heads, head_dim, chunk.
        gated delta: heads (of values), key_heads, head_dim, kernel, chunk. Of each: bytes of one number kept (2).
    heads, kv_heads, head_dim, qk_norm, gate : int, int, int, bool, bool
        Arguments of the layers "*", as in `transformers.decoder`; `gate` adds an output gate, one number per feature of
        the heads.
    hidden, gated, act : int, bool, str
        Hidden units, form and activation of the branches "-"; experts have the same form and activation.
    experts : mapping
        number, top_k, hidden, shared (hidden units that all tokens use), shared_gate, latent (features that the chosen
        experts read and write, where fewer than `width`), extra (parameters beside: offsets of scores, norms, factors).
    tied : bool
        Whether the output matrix is the embedding table.
    branches : mapping
        Sizes of further letters, each with its kind. attention: heads, kv_heads, head_dim, v_dim, window [tokens]; 1
        where it has qk_norm, gate or head_gate (an output gate: one factor per feature or per head), sinks, one_kv
        (values are the keys), no_kv (keys and values are those of an earlier layer); index (heads, dim and top of an
        indexer, as in `transformers.decoder`). latent: as in `transformers.decoder`, with heads, and gate 1 for an
        output gate. delta: heads, head_dim, kernel, chunk [tokens], gate_rank (of the output gate; absent: full).
        convolution: kernel. compressed: heads, head_dim, q_rank, out_groups, out_rank, window, ratio (tokens per entry)
        and index. mlp: hidden. lookup: width, features of a second embedding that the layer adds.
    norms_after : bool
        A second norm after each branch.
    streams, weighted_residuals : int, bool
        Residual streams that each branch mixes (hyper-connections, Zhu et al., arXiv:2409.19606; 0: one, unmixed);
        whether each branch reads a weighted sum of earlier layers (Kimi K3).
    looked_up : int
        Rows of the second embedding.

    Returns
    -------
    Ops
        Symbolic in the sequence length.

    Raises
    ------
    ValueError
        If a letter or kind is unknown, a branch lacks its numbers, or a number is invalid.

    Examples
    --------
    >>> round(hybrid(50288, 2560, "M", 64, "mamba2", {"heads": 80, "head_dim": 64, "state": 128, "groups": 1,
    ...     "kernel": 4, "chunk": 256}, tied=True).parameter_count / 1e9, 3)
    2.703
    """
    own = branches or {}
    check_branches(own)
    _check_pattern(pattern, recurrent, {"*": heads, "-": hidden, "E": experts}, own)
    state_sizes, expert_sizes = _numbers("state", state, recurrent), _numbers("experts", experts)
    t = Trace()
    x = t.embedding(S, vocab, width)
    for letter in (letter for letter in own if own[letter]["kind"] == "lookup"):
        second_embedding(t, x, looked_up, own[letter]["width"], repeats * pattern.count(letter))
    with t.block("layers", repeat=repeats):
        for at, letter in enumerate(pattern):
            kind = own.get(letter, {}).get("kind", "")
            mixed_streams(t, x, streams, weighted_residuals, f"mix{at}")
            y = x if kind == "lookup" else t.norm(x, "rms", name=f"norm{at}")
            if kind in WRITERS:
                y = WRITERS[kind](t, y, own[letter])
            elif letter == "M":
                y = _recurrent(t, y, recurrent, state_sizes)
            elif letter == "*":
                y = self_attention(
                    t, y, heads or 0, kv_heads, head_dim, causal=True, bias=False, qk_norm=qk_norm, gate=gate
                )
            elif letter == "-" or kind:
                y = mlp(t, y, own[letter]["hidden"] if kind else hidden or 0, gated, act, bias=False)
            else:
                if expert_sizes.get("shared_gate"):
                    t.linear(y, 1, False, "moe.shared_gate")
                if expert_sizes.get("extra"):
                    t.parameter(expert_sizes["extra"], "moe.extra")
                y = mixture_of_experts(t, y, expert_sizes, gated, act)
            y = t.norm(y, "rms", name=f"norm{at}.after") if norms_after else y
            x = t.add(x, y, name=f"residual{at}")
    mixed_streams(t, x, streams, weighted_residuals, "mix.out", 1)
    x = t.norm(x, "rms", name="final_norm")
    t.loss(t.linear(x, vocab, bias=False, name="lm_head", shared=tied))
    return t.ops()


def _check_pattern(pattern: str, recurrent: str, needed: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if not isinstance(pattern, str) or not pattern or set(pattern) - set("M*-E") - set(own):
        raise refused(
            "pattern",
            pattern,
            "must be of the letters M (keeps a state), * (attends), - (MLP) and E (experts), such as 'M-M*'",
        )
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"pattern has {len(pattern):,} branches; write at most {MAX_PATTERN:,}, and repeats")
    if not set(pattern) & {*"M*", *(letter for letter in own if own[letter]["kind"] not in ("mlp", "lookup"))}:
        raise refused("pattern", pattern, "sees no other tokens: it needs branches M or *")
    if "M" in pattern and recurrent not in STATES:
        raise refused("recurrent", recurrent, f"is not one of {', '.join(STATES)}")
    for letter, name in (("*", "heads"), ("-", "hidden"), ("E", "experts")):
        if letter in pattern and not needed[letter]:
            raise refused("pattern", pattern, f"has branches {letter!r}: give {name}")


def _numbers(name: str, sizes: Mapping[str, Any] | None, kind: str = "") -> dict[str, int]:
    """Return the integer sizes that a kind of layer needs, each at least 1; those of `experts` may be 0."""
    needed, least = STATES.get(kind, ()), 0 if name == "experts" else 1
    allowed = EXPERT_SIZES if name == "experts" else (*needed, *OPTIONAL_SIZES)
    for key, value in (sizes or {}).items():
        if key not in allowed:
            raise ValueError(f"{name} has no entry {shown(key)}; {kind or 'it'} takes {', '.join(allowed)}")
        if not isinstance(value, bool):
            whole(value, f"{name}: {key}", least=least)
    lacking = [key for key in needed if key not in (sizes or {})]
    if lacking:
        raise ValueError(f"{name} lacks {lacking[0]!r}: {kind} takes {', '.join(allowed)}")
    return {key: int(value) for key, value in (sizes or {}).items()}


def _recurrent(t: Trace, y: Shape, kind: str, c: Mapping[str, int]) -> Shape:
    """Write one layer with a state: projections, convolution, work on the state in chunks, norm, gate."""
    width = int(y.channels)
    if kind == "mamba":
        return _mamba(t, y, c["state"], c["kernel"], c["expand"] * width, c["rank"], bool(c.get("norms")))
    inner = c["heads"] * c["head_dim"]
    values, conv_channels = y.with_channels(inner), _mixed_channels(kind, width, c)
    if kind == "mamba2":
        t.linear(y, inner + conv_channels + c["heads"], bias=False, name="in_proj")
        t.parameter(3 * c["heads"], "a_d_and_dt")
    else:
        t.linear(y, 3 * inner if kind == "lightning" else conv_channels, bias=False, name="in_proj")
        t.linear(y, inner, bias=False, name="gate")
    if kind == "gated delta":
        t.linear(y, 2 * c["heads"], bias=False, name="rates")
        t.parameter(2 * c["heads"], "a_and_dt")
    if conv_channels:
        inputs = y.with_channels(conv_channels)
        t.act(
            t.conv(
                inputs,
                conv_channels,
                c["kernel"],
                padding="same",
                groups=conv_channels,
                bias=kind == "mamba2",
                name="conv1d",
            ),
            "silu",
        )
    u = t.matmul(values, values, values, np.array([0.0, _chunked(kind, c), 0.0]), "state")
    # Norms of gated DeltaNet have one size for all heads.
    u = t.norm(u, "rms", affine=kind != "gated delta", name="state.norm")
    if kind == "gated delta":
        t.parameter(c["head_dim"], "state.scale")
    u = t.multiply(u, t.act(values, "silu", "gate.silu"), name="gated")
    return t.linear(u, width, bias=False, name="out_proj")


def _mixed_channels(kind: str, width: int, c: Mapping[str, int]) -> int:
    """Return the channels of the causal convolution of one layer; 0 where it has none."""
    return {
        "mamba": lambda: c["expand"] * width,
        "mamba2": lambda: c["heads"] * c["head_dim"] + 2 * c["groups"] * c["state"],
        "lightning": lambda: 0,
        "gated delta": lambda: (c["heads"] + 2 * c["key_heads"]) * c["head_dim"],
    }[kind]()


def _chunked(kind: str, c: Mapping[str, int]) -> float:
    """Return the MAC of one token with the earlier tokens of its chunk, and with the state.

    Dao & Gu, arXiv:2405.21060, section 6; of the delta rule also the triangular system of a chunk, Yang et al.,
    arXiv:2406.06484, section 3.
    """
    size, near = c["head_dim"], (c["chunk"] + 1) / 2
    if kind == "gated delta":
        return c["heads"] * (5 * near * size + c["chunk"] ** 2 / 6 + 3 * size**2)
    keys, groups = (c["state"], c["groups"]) if kind == "mamba2" else (size, c["heads"])
    return near * (groups * keys + c["heads"] * size) + 2 * c["heads"] * keys * size


def hybrid_dimensions(own: Mapping[str, Any], ops: Ops) -> dict[str, float]:
    """Return the dimensions of a `hybrid` network that a server needs, as `formulas.generation.Decoder` names them.

    Parameters
    ----------
    own : mapping
        Arguments of `hybrid`.
    ops : Ops
        Its operations.

    Returns
    -------
    dict of str to float
        Layers have two branches, as in other decoders; `attending` is the share that attends, `state_bytes` the size of
        the state of one sequence in all layers, `state_flop` the work on it per token, in chunks; `cached` the elements
        that all layers keep of one token, `windowed` their share that leaves a window, `windowed_scores` the share of
        the scores within windows, `looked_up` the elements of the second embedding, which is read by row.
    """
    layers_of, state, expert_sizes = (
        Counter(own["pattern"] * own.get("repeats", 1)),
        own.get("state") or {},
        own.get("experts") or {"number": 1, "top_k": 1, "hidden": 0},
    )
    state_size = sum(state_elements(own["width"], own["recurrent"], state)) if layers_of["M"] else 0
    heads, width = own.get("heads") or 1, own["width"]
    size, pairs = own.get("head_dim") or width / heads, own.get("kv_heads") or heads
    usual = {"kind": "attention", "heads": heads, "kv_heads": pairs, "head_dim": size}
    kinds = {**(own.get("branches") or {}), **({"*": usual} if layers_of["*"] else {})}
    amounts = Counter[str]()
    for letter, sizes in kinds.items():
        amounts.update({name: layers_of[letter] * amount for name, amount in kept(sizes, width).items()})
    attends = {letter: c for letter, c in kinds.items() if c.get("heads") and c["kind"] != "delta"} or {"*": usual}
    rows = {letter: layers_of[letter] * sizes["width"] for letter, sizes in kinds.items() if sizes["kind"] == "lookup"}
    layers = (layers_of.total() - sum(layers_of[letter] for letter in rows)) / 2
    attending, widest = sum(layers_of[letter] for letter in attends), max(c["heads"] for c in attends.values())
    scored, cached = amounts["scores"] + amounts["near_scores"], amounts["kept"] + amounts["near_kept"]
    # Experts on fewer features have the size of narrower experts on all features.
    narrow = expert_sizes["hidden"] * ((expert_sizes.get("latent") or width) / width)
    work = ops.column("flop", 1, 1) + ops.column("vector_flop", 1, 1)
    return {
        "layers": layers,
        "hidden": width,
        "heads": widest,
        "kv_heads": min(c.get("kv_heads") or (c["heads"] if c["kind"] == "attention" else 1) for c in attends.values()),
        "queries": max(
            (c["heads"] / (c.get("kv_heads") or c["heads"]) for c in attends.values() if "head_dim" in c), default=1.0
        ),
        "head_dim": scored / (attending * widest) if attending else size,
        "vocab": own["vocab"],
        "cached": cached,
        "windowed": amounts["near_kept"] / (cached or 1),
        "windowed_scores": amounts["near_scores"] / (scored or 1),
        "window": float(np.round(amounts["reach"] / amounts["near_scores"])) if amounts["near_scores"] else np.inf,
        "gated_mlp": float(own.get("gated", True)),
        "experts": expert_sizes["number"],
        "experts_per_token": expert_sizes["top_k"],
        "moe_ffn_hidden": narrow,
        "dense_layers": layers - layers_of["E"],
        "attending": attending / layers,
        "looked_up": float(sum(rows.values()) * own.get("looked_up", 0)),
        "state_bytes": float(layers_of["M"] * state_size * state.get("bytes", STATE_BYTES))
        + amounts["state"] * STATE_BYTES,
        "state_flop": float(work[np.isin(ops.kind, STATE_KINDS)].sum()),
    }


def state_elements(width: int, recurrent: str, state: Mapping[str, Any]) -> tuple[int, int]:
    """Return the elements that one layer stores per sequence: its state, and the pending inputs of its convolution.

    Parameters
    ----------
    width, recurrent, state : int, str, mapping
        As in `hybrid`.

    Examples
    --------
    Jamba 1.5 Large: 16 numbers for each of 16,384 features, and the last three inputs of a convolution of four.

    >>> state_elements(8192, "mamba", {"state": 16, "kernel": 4, "expand": 2, "rank": 512})
    (262144, 49152)
    """
    c = _numbers("state", state, recurrent)
    if recurrent == "mamba":
        elements = c["expand"] * width * c["state"]
    else:
        elements = c["heads"] * c["head_dim"] * (c["state"] if recurrent == "mamba2" else c["head_dim"])
    return elements, _mixed_channels(recurrent, width, c) * (c.get("kernel", 1) - 1)


def tft(
    history: int = 168,
    future: int = 24,
    hidden: int = 128,
    heads: int = 4,
    known: int = 3,
    observed: int = 0,
    series: int = 369,
    quantiles: int = 3,
) -> Ops:
    """Build the temporal fusion transformer as NVIDIA trains it on hourly electricity (369 series) or traffic (963).

    Parameters
    ----------
    history, future : int
        Steps observed and steps forecast.
    hidden, heads : int
        Width and attention heads; the heads share one set of values.
    known, observed, series : int
        Inputs known in advance at each step, inputs observed only, and rows of the table of series.
    """
    t = Trace()
    static = t.embedding((), series, hidden, name="series")
    for name, inputs in (("known", known), ("observed", observed), ("target", 1)):
        t.parameter(2 * inputs * hidden, f"{name}.embedding")
    static = _select(t, static, 1, hidden, "static", None)
    contexts = [_gated(t, static, hidden, name=f"context{number}") for number in range(4)]
    parts = []
    for name, steps, inputs in (("history", history, known + observed + 1), ("future", future, known)):
        chosen = _select(t, t.tokens(steps, hidden * inputs), inputs, hidden, name, contexts[0])
        parts.append((chosen, t.recurrent(chosen, hidden, name=f"{name}.lstm")))
    x = t.tokens(history + future, hidden)
    x = _glu(t, x, x.with_channels(hidden), hidden, "input_gate")
    x = _gated(t, x, hidden, context=contexts[1], name="enrichment")
    _attention(t, x, hidden, heads)
    # Only the forecast steps leave the attention.
    late = t.tokens(future, hidden)
    y = _glu(t, t.tokens(future, hidden), late, hidden, "attention_gate")
    y = _gated(t, y, hidden, name="positionwise")
    y = _glu(t, y, late, hidden, "decoder_gate")
    t.loss(t.linear(y, quantiles, name="quantiles"))
    return t.ops()


def _gated(t: Trace, x: Shape, hidden: int, out: int = 0, context: Shape | None = None, name: str = "") -> Shape:
    """Write a gated residual network: two linear layers with ELU, a gated linear unit, a shortcut, a norm."""
    y = t.linear(x, hidden, name=f"{name}.a")
    if context is not None:
        y = t.add(y, t.linear(context, hidden, bias=False, name=f"{name}.context"), name=f"{name}.add")
    y = t.dropout(t.linear(t.act(y, "elu"), hidden, name=f"{name}.i"))
    shortcut = t.linear(x, out, name=f"{name}.shortcut") if out else x
    return _glu(t, y, shortcut, out or hidden, name)


def _glu(t: Trace, x: Shape, shortcut: Shape, out: int, name: str) -> Shape:
    """Write a gated linear unit, a shortcut and a norm."""
    y = t.linear(x, 2 * out, name=f"{name}.glu")
    y = t.multiply(y.with_channels(out), t.act(y.with_channels(out), "sigmoid"), name=f"{name}.gate")
    y = t.add(y, shortcut, name=f"{name}.residual")
    return t.norm(y, "layer", name=f"{name}.norm") if out > 1 else y


def _select(t: Trace, x: Shape, inputs: int, hidden: int, name: str, context: Shape | None) -> Shape:
    """Write a variable selection: a network per input, weighted by a softmax from another network of all inputs."""
    if context is None:
        # The source builds the layer for a context, and leaves it unused for static inputs.
        t.parameter(hidden * hidden, f"{name}.unused_context")
    weights = t.softmax(_gated(t, x, hidden, inputs, context, f"{name}.joint"), f"{name}.weights")
    with t.block(f"{name}.inputs", repeat=inputs):
        _gated(t, x.with_channels(hidden), hidden, name=f"{name}.input")
    y = t.multiply(x.with_channels(hidden * inputs), weights, name=f"{name}.weighted")
    return y.with_channels(hidden)


def _attention(t: Trace, x: Shape, hidden: int, heads: int) -> None:
    """Write causal attention whose heads share the values and are averaged before the output layer."""
    width = hidden // heads
    qkv = t.linear(x, (2 * heads + 1) * width, bias=False, name="attention.qkv")
    y = t.attention(qkv.with_channels(hidden), heads, causal=True, flash=False)
    t.dropout(t.linear(y.with_channels(width), hidden, bias=False, name="attention.out"))


# Rows of the 26 embedding tables of the Criteo terabyte set, indices folded at 40 million: MLPerf DLRM, and DLRM-DCNv2
# (its multi-hot version).
CRITEO_40M = (
    39884406,
    39043,
    17289,
    7420,
    20263,
    3,
    7120,
    1543,
    63,
    38532951,
    2953546,
    403346,
    10,
    2208,
    11938,
    155,
    4,
    976,
    14,
    39979771,
    25641295,
    39664984,
    585935,
    12972,
    108,
    36,
)
CRITEO_MULTI_HOT = (
    40000000,
    39060,
    17295,
    7424,
    20265,
    3,
    7122,
    1543,
    63,
    40000000,
    3067956,
    405282,
    10,
    2209,
    11938,
    155,
    4,
    976,
    14,
    40000000,
    40000000,
    40000000,
    590152,
    12973,
    108,
    36,
)


def _dense(t: Trace, x: Shape, widths: Sequence[int], name: str, dropout: bool = False) -> Shape:
    for i, width in enumerate(widths):
        x = t.act(t.linear(x, width, name=f"{name}{i}"), "relu")
        x = t.dropout(x) if dropout else x
    return x


def _pairwise_dots(t: Trace, vectors: int, width: int) -> Shape:
    """Write the dot products of all pairs of feature vectors, computed as one full matrix product."""
    stack = t.tokens(vectors, width)
    macs = np.array([vectors * vectors * width, 0.0, 0.0])
    t.matmul(stack, stack, t.tokens(vectors, vectors), macs, "interaction")
    return t.vector(vectors * (vectors - 1) // 2)


def dlrm(
    tables: Sequence[int] = CRITEO_40M,
    width: int = 128,
    bottom: Sequence[int] = (512, 256, 128),
    top: Sequence[int] = (1024, 1024, 512, 256),
    dense_features: int = 13,
) -> Ops:
    """Build DLRM (Naumov et al., arXiv:1906.00091) in the MLPerf configuration on the Criteo terabyte set."""
    t = Trace()
    for i, rows in enumerate(tables):
        t.embedding(1, rows, width, name=f"table{i}")
    x = _dense(t, t.vector(dense_features), bottom, "bottom")
    dots = _pairwise_dots(t, len(tables) + 1, width)
    x = _dense(t, t.concat([x, dots]), top, "top")
    t.loss(t.linear(x, 1, name="click"))
    return t.ops()


def dlrm_dcn(
    tables: Sequence[int] = CRITEO_MULTI_HOT,
    width: int = 128,
    bottom: Sequence[int] = (512, 256, 128),
    top: Sequence[int] = (1024, 1024, 512, 256),
    cross_layers: int = 3,
    rank: int = 512,
    lookups: float = 214,
    dense_features: int = 13,
) -> Ops:
    """Build DLRM-DCNv2 of MLPerf: multi-hot features, a low-rank cross network (Wang et al., arXiv:2008.13535).

    `lookups` is the number of rows read per sample from all tables.
    """
    t = Trace()
    for i, rows in enumerate(tables):
        t.embedding(lookups / len(tables), rows, width, name=f"table{i}")
    x0 = x = t.concat([_dense(t, t.vector(dense_features), bottom, "bottom"), t.vector(len(tables) * width)])
    for i in range(cross_layers):
        y = t.linear(t.linear(x, rank, bias=False, name=f"cross{i}.v"), int(x0.channels), name=f"cross{i}.w")
        x = t.add(x, t.multiply(x0, y, name=f"cross{i}.product"), name=f"cross{i}.residual")
    t.loss(t.linear(_dense(t, x, top, "top"), 1, name="click"))
    return t.ops()


def ncf(users: int = 138493, items: int = 26744, factors: int = 64, widths: Sequence[int] = (256, 256, 128, 64)) -> Ops:
    """Build neural collaborative filtering, NeuMF (He et al., arXiv:1708.05031), sized for MovieLens 20M."""
    t = Trace()
    half, tables = widths[0] // 2, (("user", users), ("item", items))
    product = t.multiply(*(t.embedding((), rows, factors, name=f"mf.{side}") for side, rows in tables))
    x = t.concat([t.embedding((), rows, half, name=f"mlp.{side}") for side, rows in tables])
    x = _dense(t, x, widths[1:], "mlp", dropout=True)
    t.loss(t.linear(t.concat([product, x]), 1, name="final"))
    return t.ops()


# Outbrain features of NVIDIA's recipe: rows, embedding width, values per sample.
OUTBRAIN = (
    (300000, 128, 1),
    (250000, 128, 1),
    (100000, 128, 1),
    (4000, 64, 1),
    (4000, 64, 1),
    (2500, 64, 1),
    (2500, 64, 1),
    (2000, 64, 1),
    (1000, 64, 1),
    (1000, 64, 1),
    (300, 64, 1),
    (4, 19, 1),
    (5000, 128, 1),
    (350, 64, 3),
    (10000, 64, 3),
    (100, 64, 3),
)


def wide_and_deep(
    tables: Sequence[Sequence[int]] = OUTBRAIN, hidden: Sequence[int] = (1024,) * 5, numeric: int = 13
) -> Ops:
    """Build wide and deep (Cheng et al., arXiv:1606.07792) as NVIDIA trains it on the Outbrain click set."""
    t = Trace()
    deep = [t.vector(numeric)]
    for i, (rows, width, values) in enumerate(tables):
        t.embedding(values, rows, width, name=f"deep{i}")
        t.embedding(values, rows, 1, name=f"wide{i}")
        deep.append(t.vector(width))
    t.linear(t.vector(numeric), 1, name="wide.numeric")
    x = _dense(t, t.concat(deep), hidden, "deep", dropout=True)
    t.loss(t.linear(x, 1, name="deep.out"))
    return t.ops()
