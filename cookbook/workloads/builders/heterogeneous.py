"""Language models whose layers differ: attention with and without a window in heads of two sizes (Gemma 4, Step 3.5,
MiMo-V2), linear beside latent attention (Kimi Linear, Kimi K3), short convolutions (LFM2), compressed keys and values
(DeepSeek-V4).

A network is a pattern of branches, as in `sequence.hybrid`; each letter has its own sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads.arguments import whole
from cookbook.workloads.builders.blocks import latent_attention, moe
from cookbook.workloads.layers import S, Shape, Trace, mlp
from cookbook.workloads.ops import Ops

Sizes = Mapping[str, Any]
MAX_PATTERN = 1000
STATE_BYTES = 2  # of a number that a state keeps: engines store states as activations
# Kinds of branches: the sizes that each needs, and those that it may have.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attention": (
        ("heads", "head_dim"),
        ("kv_heads", "v_dim", "window", "qk_norm", "gate", "head_gate", "sinks", "one_kv", "no_kv", "index"),
    ),
    "latent": (("heads", "kv_rank", "nope_dim", "rope_dim", "v_dim"), ("q_rank", "gate")),
    "delta": (("heads", "head_dim", "kernel", "chunk"), ("gate_rank",)),
    "convolution": (("kernel",), ()),
    "compressed": (("heads", "head_dim", "q_rank", "out_groups", "out_rank", "window"), ("ratio", "index")),
    "mlp": (("hidden",), ()),
    "experts": (
        ("number", "top_k", "hidden"),
        ("shared", "score_bias", "latent", "latent_norm", "unused", "norms", "scales"),
    ),
    "lookup": (("width",), ()),
}
INDEX_SIZES = ("heads", "dim", "top")
ATTENDING = ("attention", "latent", "compressed")


def decoder(
    vocab: int,
    width: int,
    pattern: str,
    branches: Mapping[str, Any],
    repeats: int = 1,
    norms_after: bool = False,
    gated: bool = True,
    act: str = "silu",
    tied: bool = False,
    streams: int = 0,
    weighted_residuals: bool = False,
    looked_up: int = 0,
) -> Ops:
    """Build a causal language model of branches of several kinds and sizes.

    Parameters
    ----------
    vocab, width : int
        Rows of the embedding table; features of the residual stream.
    pattern, repeats : str, int
        Letters of the branches in their order, each with a norm before it and a residual around it; and the number of
        repetitions.
    branches : mapping
        Sizes of each letter, and its kind. attention: heads, kv_heads, head_dim, v_dim, window [tokens]; 1 where it has
        qk_norm, gate or head_gate (an output gate: one factor per feature or per head), sinks, one_kv (values are the
        keys), no_kv (keys and values are those of an earlier layer); index (heads, dim and top of an indexer, as in
        `transformers.decoder`). latent: as in `transformers.decoder`, with heads, and gate 1 for an output gate.
        delta: linear attention with a forget factor per feature (Kimi Linear, arXiv:2510.26692), of heads, head_dim,
        kernel (taps), chunk [tokens], gate_rank (of the output gate; absent: full). convolution: kernel. compressed:
        attention of DeepSeek-V4 to a window and to one entry per `ratio` tokens, of which an index chooses. mlp:
        hidden. experts: as in `transformers.decoder`, latent features (and latent_norm), unused (choices without work),
        norms and scales beside the usual. lookup: features of a second embedding that each layer adds (Gemma 3n, 4).
    norms_after : bool
        A second norm after each branch.
    gated, act, tied : bool, str, bool
        As in `transformers.decoder`.
    streams : int
        Residual streams that each branch mixes (hyper-connections, Zhu et al., arXiv:2409.19606); 0: one, unmixed.
    weighted_residuals : bool
        Whether each branch reads a weighted sum of earlier layers (Kimi K3).
    looked_up : int
        Rows of the table of `lookup`.

    Returns
    -------
    Ops
        Symbolic in the sequence length.

    Raises
    ------
    ValueError
        If a letter has no sizes, a kind is unknown, or a size is missing or invalid.

    Examples
    --------
    >>> sizes = {"*": {"kind": "attention", "heads": 32, "kv_heads": 8, "head_dim": 128}}
    >>> sizes["-"] = {"kind": "mlp", "hidden": 14336}
    >>> decoder(128256, 4096, "*-", sizes, 32).parameter_count
    8030261248.0
    """
    sizes = _checked(pattern, branches)
    t = Trace()
    x = t.embedding(S, vocab, width)
    depth = repeats * sum(sizes[letter]["kind"] == "lookup" for letter in pattern)
    if depth:
        _looked_up(t, x, looked_up, next(s["width"] for s in sizes.values() if s["kind"] == "lookup"), depth)
    with t.block("layers", repeat=repeats):
        for at, letter in enumerate(pattern):
            branch = sizes[letter]
            if branch["kind"] == "lookup":
                x = _lookup(t, x, branch["width"], act, f"lookup{at}")
                continue
            _mixed(t, x, streams, weighted_residuals, f"mix{at}")
            y = WRITERS[branch["kind"]](t, t.norm(x, "rms", name=f"norm{at}"), branch, gated, act)
            y = t.norm(y, "rms", name=f"norm{at}.after") if norms_after else y
            x = t.add(x, y, name=f"residual{at}")
    if streams:
        t.linear(x.with_channels(streams * width), streams, True, "mix.out")
        t.parameter(1, "mix.out.scale")
    _mixed(t, x, 0, weighted_residuals, "mix.out")
    x = t.norm(x, "rms", name="final_norm")
    t.loss(t.linear(x, vocab, False, "lm_head", shared=tied), "loss")
    return t.ops()


def _checked(pattern: str, branches: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the sizes of each letter, refused where one is missing, unknown or invalid."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN:
        raise refused("pattern", pattern, f"must be 1 to {MAX_PATTERN:,} letters, one per branch, such as '*-'")
    if not isinstance(branches, Mapping):
        raise refused("branches", branches, "must be a mapping of each letter of the pattern to its sizes")
    unknown = sorted(set(pattern) - set(branches))
    if unknown:
        raise refused("pattern", pattern, f"has branches {unknown[0]!r}: give their sizes in branches")
    sizes = {letter: _sizes(letter, branches[letter]) for letter in sorted(set(pattern))}
    if not any(own["kind"] in (*ATTENDING, "delta", "convolution") for own in sizes.values()):
        raise refused("pattern", pattern, f"sees no other tokens: it needs branches of a kind {', '.join(ATTENDING)}")
    return sizes


def _sizes(letter: str, given: Any) -> dict[str, Any]:
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if kind not in KINDS:
        raise refused("branches", given, f"must have for {letter!r} a kind of {', '.join(KINDS)}")
    needed, optional = KINDS[kind]
    sizes: dict[str, Any] = {"kind": kind}
    for name, value in given.items():
        if name == "kind" or value is None:
            continue
        if name not in (*needed, *optional):
            raise ValueError(f"branches: {letter!r} has no entry {shown(name)}; {kind} takes {', '.join(needed)}")
        if name == "index":
            sizes[name] = {part: whole(value.get(part), f"branches: {letter}: index: {part}") for part in INDEX_SIZES}
        else:
            sizes[name] = whole(int(value), f"branches: {letter}: {name}", least=0)
    lacking = [name for name in needed if not sizes.get(name)]
    if lacking:
        raise ValueError(f"branches: {letter!r} lacks {lacking[0]!r}: {kind} takes {', '.join(needed)}")
    return sizes


def _mixed(t: Trace, x: Shape, streams: int, weighted: bool, name: str) -> None:
    """Write what mixes residual streams, or weights earlier layers, before a branch."""
    if streams:
        t.linear(x.with_channels(streams * x.channels), streams * (streams + 2), True, name)
        t.parameter(3, f"{name}.scale")
    if weighted:
        t.linear(t.norm(x, "rms", name=f"{name}.norm"), 1, False, name)


def _looked_up(t: Trace, x: Shape, rows: int, width: int, depth: int) -> None:
    """Write the second embedding: a table of all layers, and a projection of the first (Gemma 3n)."""
    table = t.embedding(S, whole(rows, "looked_up"), depth * width, "lookup.table")
    own = t.linear(x, depth * width, False, "lookup.project")
    t.parameter(width, "lookup.norm")
    t.add(t.norm(own, "rms", affine=False, name="lookup.norm"), table, name="lookup.add")


def _lookup(t: Trace, x: Shape, width: int, act: str, name: str) -> Shape:
    y = t.act(t.linear(x, width, False, f"{name}.gate"), act)
    y = t.linear(t.multiply(y, y.with_channels(width), name=f"{name}.product"), int(x.channels), False, f"{name}.out")
    return t.add(x, t.norm(y, "rms", name=f"{name}.norm"), name=f"{name}.residual")


def _attention(t: Trace, y: Shape, c: Sizes, *_: Any) -> Shape:
    heads, size = c["heads"], c["head_dim"]
    pairs, values = c.get("kv_heads") or heads, c.get("v_dim") or size
    q = t.linear(y, heads * size, False, "attention.q")
    if not c.get("no_kv"):
        t.linear(y, pairs * size, False, "attention.k")
        if not c.get("one_kv"):
            t.linear(y, pairs * values, False, "attention.v")
    if c.get("qk_norm"):
        t.parameter((1 if c.get("no_kv") else 2) * size, "attention.qk_norm")
    if c.get("sinks"):
        t.parameter(heads, "attention.sinks")
    reach = c.get("window")
    if c.get("index"):
        reach = c["index"]["top"]
        _indexed(t, y, y, c["index"])
    out = t.attention(q, heads, pairs, size, True, reach, v_dim=values, name="attention.core")
    if c.get("gate") or c.get("head_gate"):
        gate = t.linear(y, heads * (values if c.get("gate") else 1), False, "attention.gate")
        out = t.multiply(out, gate, name="attention.gated")
    return t.linear(out, int(y.channels), False, "attention.out")


def _indexed(t: Trace, y: Shape, queries: Shape, index: Mapping[str, int]) -> None:
    """Write the scores of an indexer that chooses the tokens to attend to."""
    scored = index["heads"] * index["dim"]
    t.linear(queries, scored, False, "index.q")
    key = t.linear(y, index["dim"], False, "index.k")
    t.parameter(2 * index["dim"], "index.norms")
    t.matmul(key, key, y.with_channels(1), np.array([0.0, scored / 2, scored / 2]), "index.scores")


def _latent(t: Trace, y: Shape, c: Sizes, *_: Any) -> Shape:
    ranks = (c["kv_rank"], c["nope_dim"], c["rope_dim"], c["v_dim"])
    if c.get("gate"):
        t.multiply(
            y.with_channels(c["heads"] * c["v_dim"]),
            t.linear(y, c["heads"] * c["v_dim"], False, "mla.gate"),
            name="gated",
        )
    return latent_attention(t, y, c["heads"], c.get("q_rank") or None, *ranks)


def _delta(t: Trace, y: Shape, c: Sizes, *_: Any) -> Shape:
    width, inner, size = int(y.channels), c["heads"] * c["head_dim"], c["head_dim"]
    mixed = t.linear(y, 3 * inner, False, "delta.qkv")
    t.act(t.conv(mixed, 3 * inner, c["kernel"], padding="same", groups=3 * inner, bias=False, name="conv1d"), "silu")
    t.linear(t.linear(y, size, False, "delta.forget_in"), inner, False, "delta.forget_out")
    t.linear(y, c["heads"], False, "delta.rates")
    t.parameter(inner + c["heads"] + size, "delta.steps_and_norm")
    values = y.with_channels(inner)
    u = t.matmul(values, values, values, np.array([0.0, _chunked(c), 0.0]), "state")
    low = t.linear(y, c["gate_rank"], False, "delta.gate_in") if c.get("gate_rank") else y
    u = t.norm(u, "rms", affine=False, name="delta.norm")
    u = t.multiply(u, t.act(t.linear(low, inner, False, "delta.gate"), "silu"), name="delta.gated")
    return t.linear(u, width, False, "delta.out")


def _chunked(c: Sizes) -> float:
    """Return the MAC of one token with its chunk and with the state, as of the gated delta rule in `sequence`."""
    return float(c["heads"] * (5 * (c["chunk"] + 1) / 2 * c["head_dim"] + c["chunk"] ** 2 / 6 + 3 * c["head_dim"] ** 2))


def _convolution(t: Trace, y: Shape, c: Sizes, *_: Any) -> Shape:
    width = int(y.channels)
    t.linear(y, 3 * width, False, "convolution.in")
    u = t.multiply(y.with_channels(width), y.with_channels(width), name="convolution.gate_in")
    u = t.conv(u, width, c["kernel"], padding="same", groups=width, bias=False, name="conv1d")
    return t.linear(t.multiply(u, y.with_channels(width), name="convolution.gate_out"), width, False, "convolution.out")


def _compressed(t: Trace, y: Shape, c: Sizes, *_: Any) -> Shape:
    heads, size, index, ratio = c["heads"], c["head_dim"], c.get("index"), c.get("ratio", 0)
    low = t.norm(t.linear(y, c["q_rank"], False, "compressed.q_down"), "rms", name="compressed.q_norm")
    q = t.linear(low, heads * size, False, "compressed.q_up")
    t.norm(t.linear(y, size, False, "compressed.kv"), "rms", name="compressed.kv_norm")
    t.parameter(heads, "compressed.sinks")
    out = t.attention(q, heads, 1, size, True, _reach(c), name="compressed.core")
    if ratio:
        _compressor(t, y, size, ratio, 2 if index else 1, "compressor")
        if not index:
            entries = np.array([0.0, 0.0, heads * size / ratio])
            t.matmul(q, q, y.with_channels(heads * size), entries, "compressed.entries")
    if index:
        _compressor(t, y, index["dim"], ratio, 2, "index.compressor")
        scored = index["heads"] * index["dim"]
        t.linear(low, scored, False, "index.q")
        weights = t.linear(y, index["heads"], False, "index.weights")
        t.matmul(weights, weights, y.with_channels(1), np.array([0.0, 0.0, scored / (2 * ratio)]), "index.scores")
    groups = c["out_groups"]
    mixed = t.conv(out, groups * c["out_rank"], 1, groups=groups, bias=False, name="compressed.out_down")
    return t.linear(mixed, int(y.channels), False, "compressed.out_up")


def _compressor(t: Trace, y: Shape, size: int, ratio: int, overlap: int, name: str) -> None:
    """Write the sums of `ratio` (with overlap: twice as many) tokens, weighted feature by feature."""
    for part in ("kv", "gate"):
        t.linear(y, overlap * size, False, f"{name}.{part}")
    t.parameter(ratio * overlap * size + size, f"{name}.positions_and_norm")


def _reach(c: Sizes) -> int:
    """Return the tokens of the window and the chosen entries beside them."""
    return int(c["window"] + (c["index"]["top"] if c.get("index") else 0))


def _mlp(t: Trace, y: Shape, c: Sizes, gated: bool, act: str) -> Shape:
    return mlp(t, y, c["hidden"], gated, act, bias=False)


def _experts(t: Trace, y: Shape, c: Sizes, gated: bool, act: str) -> Shape:
    own = (c.get("unused", 0) + (c["number"] if c.get("score_bias") else 0)) * 1
    extra = own + c.get("unused", 0) * y.channels + c.get("norms", 0) * y.channels
    extra += c.get("scales", 0) + (c["latent"] if c.get("latent_norm") else 0)
    if extra:
        t.parameter(extra, "moe.extra")
    shared, latent = c.get("shared", 0), c.get("latent", 0)
    return moe(t, y, c["number"], c["top_k"], c["hidden"], shared, gated, act, latent=latent)


WRITERS: dict[str, Callable[..., Shape]] = {
    "attention": _attention,
    "latent": _latent,
    "delta": _delta,
    "convolution": _convolution,
    "compressed": _compressed,
    "mlp": _mlp,
    "experts": _experts,
}


def dimensions(own: Mapping[str, Any], ops: Ops) -> dict[str, float]:
    """Return the dimensions of a network that a server needs, as `formulas.generation.Decoder` names them.

    Parameters
    ----------
    own : mapping
        Arguments of `decoder`.
    ops : Ops
        Its operations.

    Returns
    -------
    dict of str to float
        Beside those of `sequence.hybrid_dimensions`: cached, the elements that all layers keep of one token; windowed,
        their share that leaves a window; windowed_scores, the share of the scores' work within windows; looked_up, the
        elements of the tables that are read by row.
    """
    sizes, times = _checked(own["pattern"], own["branches"]), Counter(own["pattern"])
    repeats, width = own.get("repeats", 1), own["width"]
    count = {letter: number * repeats for letter, number in times.items()}
    total: Counter[str] = Counter()
    for letter, branch in sizes.items():
        for name, amount in _kept(branch, width).items():
            total[name] += count[letter] * amount
    attends = {letter: sizes[letter] for letter in sizes if sizes[letter]["kind"] in ATTENDING}
    attending = sum(count[letter] for letter in attends)
    widest = max(attends.values(), key=lambda branch: branch["heads"], default={"heads": 1})
    mixture = next((s for s in sizes.values() if s["kind"] == "experts"), {"number": 1, "top_k": 1, "hidden": 0})
    layers = sum(count[letter] for letter in count if sizes[letter]["kind"] != "lookup") / 2
    scored, cached = total["scores"] + total["near_scores"], total["kept"] + total["near_kept"]
    rows = sum(count[letter] * s["width"] for letter, s in sizes.items() if s["kind"] == "lookup")
    work = ops.column("flop", 1, 1) + ops.column("vector_flop", 1, 1)
    states = np.array(["state" in name for name in ops.name]) if total["state"] else np.zeros(len(ops.kind), bool)
    found = {
        "layers": layers,
        "hidden": width,
        "heads": widest["heads"],
        "kv_heads": min((_pairs(branch) for branch in attends.values()), default=1),
        "head_dim": scored / max(attending * widest["heads"], 1),
        "vocab": own["vocab"],
        "windowed": total["near_kept"] / cached if cached else 0.0,
        "windowed_scores": total["near_scores"] / scored if scored else 0.0,
        "gated_mlp": float(own.get("gated", True)),
        "experts": mixture["number"],
        "experts_per_token": mixture["top_k"],
        "moe_ffn_hidden": mixture["hidden"] * ((mixture.get("latent") or width) / width),
        "dense_layers": layers - sum(count[letter] for letter in count if sizes[letter]["kind"] == "experts"),
        "attending": attending / layers,
        "cached": cached,
        "state_bytes": float(total["state"] * STATE_BYTES),
        "state_flop": float(work[states].sum()),
        "looked_up": float(rows * own.get("looked_up", 0)),
    }
    if total["near_scores"]:
        found["window"] = total["reach"] / total["near_scores"]
    return found


def _pairs(c: Sizes) -> int:
    """Return the heads over which keys and values of a branch are sharded."""
    return int(c.get("kv_heads") or c["heads"]) if c["kind"] == "attention" else 1


def _kept(c: Sizes, width: int) -> dict[str, float]:
    """Return what one branch keeps of each token and of each sequence, and the work of its scores.

    `kept`, `scores`: elements, and half the MAC, per token of the context; `near_kept`, `near_scores`: those within a
    window; `reach`: its tokens times their work; `state`: elements per sequence.
    """
    kind = c["kind"]
    if kind == "attention":
        values = c.get("v_dim") or c["head_dim"]
        elements = 0 if c.get("no_kv") else _pairs(c) * (c["head_dim"] + values)
        scores = c["heads"] * (c["head_dim"] + values) / 2
        if not c.get("window"):
            return {"kept": elements, "scores": scores}
        return {"near_kept": elements, "near_scores": scores, "reach": c["window"] * scores}
    if kind == "latent":
        scores = c["heads"] * (c["nope_dim"] + c["rope_dim"] + c["v_dim"]) / 2
        return {"kept": c["kv_rank"] + c["rope_dim"], "scores": scores}
    if kind == "delta":
        inner = c["heads"] * c["head_dim"]
        return {"state": inner * c["head_dim"] + 3 * inner * (c["kernel"] - 1)}
    if kind == "convolution":
        return {"state": width * (c["kernel"] - 1)}
    if kind == "compressed":
        near, ratio, index = c["heads"] * c["head_dim"], c.get("ratio", 0), c.get("index")
        found = {"near_scores": near, "reach": _reach(c) * near, "state": c["window"] * c["head_dim"]}
        if ratio:
            scored = index["heads"] * index["dim"] / 2 if index else near
            found["kept"] = (c["head_dim"] + (index["dim"] if index else 0)) / ratio
            found["scores"] = scored / ratio
        return found
    return {}
