"""The model zoo: named networks from the table ``models``, and networks of the reader's own."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import as_python, in_session, keywords
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads import layers as parts
from cookbook.workloads.arguments import (
    COUNTS,
    LARGEST,
    LOOPED,
    MAX_LAYERS,
    OPTIONAL,
    check,
    check_heads,
    check_possible,
    check_word,
    read_only,
    whole,
)
from cookbook.workloads.builders import blocks
from cookbook.workloads.layers import S, Shape, Trace
from cookbook.workloads.limits import parsed_json
from cookbook.workloads.ops import Ops

# Layers a reader's own table may name: methods of Trace, then functions of blocks.
TRACE_LAYERS = (
    "conv",
    "linear",
    "norm",
    "act",
    "pool",
    "global_pool",
    "flatten",
    "dropout",
    "softmax",
    "scale",
    "recurrent",
    "resize",
    "scan",
    "loss",
)
LONGEST_TITLE, MAX_AXES = 200, 8
PER_AXIS = ("kernel", "stride", "dilation")  # arguments of a layer that may be a number for each axis
# Builders of language models: those of transformer blocks, which parallelism can split.
DECODER = "transformers.decoder"
LANGUAGE_MODELS = (DECODER, "transformers.encoder_decoder")
# Builders of language models with unlike layers that still generate token by token.
HYBRID = "sequence.hybrid"
ANSWERING = (*LANGUAGE_MODELS, HYBRID)
UNEQUAL = "its layers differ (some keep a state instead of keys and values, or attend otherwise than the rest)"
DIVIDED = "an embedding, equal blocks of causal attention and feed-forward, and a linear head"
BLOCK_LAYERS = ("self_attention", "mlp", "moe", "transformer_block")


@lru_cache(maxsize=1)
def published_formats() -> dict[str, str]:
    """Return the number format of each network's published weights, "" where that is bf16 or was not looked up.

    The formats are those of `weights_format`; from the column of that name of the table ``models``.
    """
    rows = catalog.table("models")
    return dict(zip(rows["name"], rows["weights_format"].fillna(""), strict=True))


# What code calls a network that it cannot make again.
UNNAMED = "my_model"


@dataclass(frozen=True, eq=False)
class Workload:
    """A network and the sample it works on.

    Attributes
    ----------
    name, title : str
        Key in the zoo ("custom" for the reader's own) and name in print.
    ops : Ops
        The operations of one forward pass.
    family, task, data_kind : str
        Kind of network, of task and of data.
    sample : str
        The noun for one sample ("image", "sequence", ...).
    seq : float or None
        Default sequence length [tokens], where the network has one.
    how : str
        "verified" (published parameters and MAC), "parameters only" or "unverified".
    sources : tuple of str
        Keys of the table ``sources``.
    note : str
        Differences from the published values, with reasons.
    arguments : mapping
        Arguments of its builder, changes included; of the reader's own network of decoder blocks, its dimensions.
    builder : str
        The builder of its arguments: a function of `cookbook.workloads`, such as "transformers.decoder".
    unsplit : str
        Reason why the reader's own network, or a hybrid, cannot be split: why its layers are not equal blocks.
    assumed : tuple of str
        Assumptions made for a model that was read from a file.
    stored : mapping
        Elements of the file's tensors by stored format, where it was a checkpoint.
    """

    name: str
    title: str
    ops: Ops
    family: str = "custom"
    task: str = ""
    data_kind: str = ""
    sample: str = "sample"
    seq: float | None = None
    how: str = "unverified"
    sources: tuple[str, ...] = ()
    note: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    builder: str = ""
    unsplit: str = ""
    assumed: tuple[str, ...] = ()
    stored: Mapping[str, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", read_only(self.arguments))
        object.__setattr__(self, "stored", read_only(self.stored))

    def python(self) -> str:
        """Return Python that gives this network: its name, its name with changes, or the variable of the reader's."""
        return _in_zoo(self) or in_session(self) or UNNAMED

    def __repr__(self) -> str:
        return "\n".join([f"<{self._counted()}>", *(f"  assumed: {sentence}" for sentence in self.assumed)])

    def _counted(self) -> str:
        size = f"{self.ops.parameter_count:,.0f} parameters"
        if self.seq is None and self.ops.needs_seq:
            return f"{self.title}: {size}, GMAC depends on the sequence length, {self.how}"
        at = "" if self.seq is None else f" at {self.seq:,.0f} tokens"
        gmac = float(self.ops.total("macs", 1, self.seq)) / 1e9
        amount = f"{gmac:,.0f}" if gmac >= 1000 else f"{gmac:,.4g}"
        return f"{self.title}: {size}, {amount} GMAC for one {self.sample}{at}, {self.how}"


def model(name: str, **changes: Any) -> Workload:
    """Return a network of the zoo by name or alias.

    Parameters
    ----------
    name : str
        Name in any usual spelling; case, spaces, hyphens and underscores do not matter.
    **changes
        Arguments of the network's builder to change, such as ``image=448``; the result is no longer verified.

    Raises
    ------
    UnknownName
        If there is no such network; the message gives the three nearest names.
    ValueError
        If the builder does not know a change, or no network can have its value.

    Examples
    --------
    >>> model("ResNet-50 v1.5")
    <ResNet-50 v1.5: 25,557,032 parameters, 4.089 GMAC for one image, verified>
    """
    workload = _named(catalog.lookup("models", name))
    return _changed(workload, changes) if changes else workload


def models() -> pd.DataFrame:
    """Return the zoo, one row per network: parameters, forward MAC at the default input, and its verification.

    Returns
    -------
    pandas.DataFrame
        Columns name, title, family, task, data_kind, year, sample, seq, parameters, active_parameters, macs,
        saved_elements, how.
    """
    table = catalog.table("models")
    keep = ["name", "title", "family", "task", "data_kind", "year", "sample", "seq"]
    zoo = [_named(name) for name in table["name"]]
    return table[keep].assign(
        parameters=[w.ops.parameter_count for w in zoo],
        active_parameters=[w.ops.active_parameter_count for w in zoo],
        macs=[float(w.ops.total("macs", 1, w.seq)) for w in zoo],
        saved_elements=[float(w.ops.total("saved", 1, w.seq)) for w in zoo],
        how=[w.how for w in zoo],
    )


@checked(names=Field.named("models", many=True, give="networks of the zoo, such as ['resnet50']"))
def compare_published(names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a comparison of our counts with the published ones.

    Parameters
    ----------
    names : sequence of str, optional
        Networks to compare; all that have a published parameter count by default.

    Returns
    -------
    pandas.DataFrame
        Columns name, parameters, parameters_adjustment (what the publication counts besides, explained in note),
        published_parameters, gmac, gmac_adjustment, published_gmac, how, note.

    Raises
    ------
    KeyError, ValueError
        If the zoo lacks a network, or `names` is not a list of names.
    """
    rows = catalog.table("models").set_index("name", drop=False)
    if names is None:
        rows = rows[rows["published_parameters"].notna()]
    else:
        rows = rows.loc[[catalog.lookup("models", name) for name in names]]
    zoo = [_named(name) for name in rows["name"]]
    frame = rows[["name"]].assign(
        parameters=[w.ops.parameter_count for w in zoo],
        parameters_adjustment=rows["parameters_adjustment"].fillna(0),
        published_parameters=rows["published_parameters"],
        gmac=[float(w.ops.total("macs", 1, w.seq)) / 1e9 for w in zoo],
        gmac_adjustment=rows["macs_adjustment"].fillna(0) / 1e9,
        published_gmac=rows["published_macs"] / 1e9,
        how=rows["how"],
        note=rows["note"],
    )
    counts = ["parameters", "parameters_adjustment", "published_parameters"]
    return frame.astype(dict.fromkeys(counts, "Int64")).reset_index(drop=True)


@checked(
    table=Field.record(str, list, tuple, what="table of layers", give='a list like [{"layer": "linear", "out": 10}]'),
    input=Field.record(list, tuple, what="shape of a sample", give="one like (3, 224, 224) or (64, 's')"),
    title=Field.text(LONGEST_TITLE),
)
def layers(
    table: Sequence[Mapping[str, Any]] | str, input: Sequence[Any] | None = None, title: str = "Your network"
) -> Workload:
    """Build a network of the reader's own, from a table of layers.

    Parameters
    ----------
    table : sequence of dict, or str
        One dict per layer, or the same as JSON: ``{"layer": "conv", "out": 64, "kernel": 3, "padding": 1}``. Layers are
        conv, linear, norm, act, pool, global_pool, flatten, dropout, softmax, scale, recurrent, resize, scan, loss,
        self_attention, mlp, moe, transformer_block and, first of all, embedding (vocab, features). ``"repeat": n``
        applies a layer n times, each with its own parameters.
        An embedding, equal blocks of causal attention and feed-forward (or experts) and a linear head to the entries
        of the embedding are a language model: all parallelism configurations are supported, as for those of the zoo.
    input : sequence
        (channels, positions, ...) of one sample; a position "s" is the sequence length, given later. Not needed
        where the first layer is an embedding.
    title : str
        Printed name.

    Raises
    ------
    ValueError
        If a layer is invalid; the message names its position in the table, the error and valid values.

    Examples
    --------
    >>> layers([{"layer": "conv", "out": 8, "kernel": 3}, {"layer": "flatten"}, {"layer": "linear", "out": 10}],
    ...        input=(3, 32, 32))
    <Your network: 72,234 parameters, 0.0002664 GMAC for one sample, unverified>
    """
    if not title:
        raise refused("title", title, f"is empty; give a text of 1 to {LONGEST_TITLE} letters")
    rows = _parsed(table)
    t = Trace()
    x = None if input is None else _sample_shape(input)
    for number, row in enumerate(rows, start=1):
        layer = row.get("layer", "no layer named")
        place = f"layer {number} ({layer[:40] if isinstance(layer, str) else shown(layer, 40)})"
        try:
            x = _apply(t, x, row)
        except ValueError as problem:
            raise ValueError(f"{place}: {problem}") from None
        except (TypeError, ArithmeticError, AttributeError, IndexError):
            stated = [f"{str(key)[:40]} = {shown(value, 40)}" for key, value in row.items() if key != "layer"][:4]
            words = ", ".join(stated) or "no arguments"
            raise ValueError(f"{place}: nothing can be computed with {words}; check what each must be") from None
    ops = t.ops()
    check_possible(ops, "the table gives no network whose work can be counted; give smaller sizes")
    own = Workload("custom", title, ops, sample="sequence" if ops.needs_seq else "sample")
    try:
        return replace(own, builder=DECODER, arguments=_decoder_of(rows))
    except ValueError as problem:
        return replace(own, unsplit=str(problem))


def _sample_shape(input: Any) -> Shape:
    """Return the shape of one sample: channels, then positions, "s" for the sequence length."""
    if not isinstance(input, Sequence) or isinstance(input, str) or not 0 < len(input) <= MAX_AXES:
        raise refused("input", input, "must be (channels, positions, ...), like (3, 224, 224) or (64, 's')")
    channels, *space = input
    lengths = tuple(S if isinstance(p, str) and p == "s" else whole(p, "input") for p in space)
    if lengths.count(S) > 1:
        raise refused("input", input, "has several sequence lengths; one axis may be 's'")
    return Shape(whole(channels, "input channels"), lengths)


def _parsed(table: Sequence[Mapping[str, Any]] | str) -> list[Mapping[str, Any]]:
    rows: Any = table
    if isinstance(table, str):
        rows = parsed_json(table, "the layer table")
    is_table = isinstance(rows, Sequence) and len(rows) and all(isinstance(row, Mapping) for row in rows[:MAX_LAYERS])
    if not is_table:
        raise ValueError('the layer table must be a list with at least one layer like {"layer": "linear", "out": 10}')
    if len(rows) > MAX_LAYERS:
        raise ValueError(f"the layer table has {len(rows):,} layers; give at most {MAX_LAYERS:,}")
    return list(rows)


def _apply(t: Trace, x: Shape | None, row: Mapping[str, Any]) -> Shape:
    arguments = {key: value for key, value in row.items() if key not in ("layer", "repeat")}
    layer, times = row.get("layer"), whole(row.get("repeat", 1), "repeat", MAX_LAYERS)
    for argument in COUNTS:
        stated = arguments.get(argument, 1)
        if stated is None and argument in OPTIONAL:
            continue
        for number in stated if isinstance(stated, list | tuple) and argument in PER_AXIS else [stated]:
            whole(number, argument, MAX_LAYERS if argument in LOOPED else LARGEST)
    if not isinstance(layer, str):
        raise refused("layer", layer, "must be the name of a layer, such as linear")
    if layer == "embedding":
        if x is not None:
            raise ValueError("an embedding must be the first layer, without input=")
        return t.embedding(S, **_known_arguments(Trace.embedding, arguments))
    if layer not in TRACE_LAYERS + BLOCK_LAYERS:
        names = ", ".join(TRACE_LAYERS + BLOCK_LAYERS)
        raise ValueError(f"unknown layer {shown(layer)}; take one of embedding, {names}")
    if x is None:
        raise ValueError("the first layer must be an embedding, or give input=(channels, positions, ...)")
    function = _layer_function(layer)
    arguments = _known_arguments(function, arguments)
    heads = arguments.get("heads")
    if heads and not arguments.get("head_dim") and x.channels % heads:
        raise ValueError(f"heads = {heads} must divide the {x.channels:g} channels, or give head_dim")
    for _ in range(int(times)):
        x = function(t, x, **arguments)
    return x


def _known_arguments(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a layer, refused where one is unknown or missing."""
    parameters = _parameters(function)
    names = [n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD and n not in ("name", "memory")]
    check_names([name for name in arguments if name != "name"], names, "the layer")
    missing = [n for n in names if parameters[n].default is inspect.Parameter.empty and n not in arguments]
    if missing:
        raise ValueError(f"needs {' and '.join(map(repr, missing))}; it takes {', '.join(names)}")
    for name, value in arguments.items():
        if name not in COUNTS:
            check(parameters.get(name), name, value)
    return arguments


def _decoder_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return arguments of `transformers.decoder` equal to a table of layers; ValueError names the obstacle.

    Parallelism splits attention, feed-forward, embedding and head; norms, biases, activations and dropout are
    arbitrary.
    """
    first, *body = ((number, _filled(row)) for number, row in enumerate(rows, start=1))
    table = first[1]
    body = [(number, row) for number, row in body if row["layer"] not in ("norm", "dropout", "loss", "softmax")]
    if table["layer"] != "embedding":
        raise ValueError("its first layer is no embedding")
    head = body.pop()[1] if body else table
    if head["layer"] != "linear" or head["out"] != table["vocab"] or head["repeat"] != 1:
        raise ValueError(f"its last layer is not linear with the {int(table['vocab']):,} outputs of its embedding")
    block_sizes = _decoder_blocks(body, int(table["features"]))
    windows = _windows([block["window"] for block in block_sizes])
    dense = next((at for at, block in enumerate(block_sizes) if block["experts"]), 0)
    for at, block in enumerate(block_sizes):
        like = (
            block_sizes[-1] if at >= dense else {**block_sizes[-1], "experts": None, "hidden": block_sizes[0]["hidden"]}
        )
        other = next((name for name in block if name != "window" and block[name] != like[name]), "")
        if other:
            raise ValueError(f"its blocks are not equal: {other} differs between them")
    experts = {**block_sizes[-1]["experts"], "first_dense": dense} if block_sizes[-1]["experts"] else None
    return {
        "vocab": int(table["vocab"]),
        "width": int(table["features"]),
        "depth": len(block_sizes),
        **block_sizes[0],
        **windows,
        "experts": experts,
        "tied": bool(head["shared"]),
    }


def _windows(reach: Sequence[float | None]) -> dict[str, Any]:
    """Return the sliding window of blocks, of which some may attend without it; ValueError where there are several.

    >>> _windows([1024, None, 1024, None]), _windows([None, None])
    ({'window': 1024, 'full_every': 2}, {'window': None, 'full_every': None})
    """
    sizes, depth, full = sorted({size for size in reach if size is not None}), len(reach), reach.count(None)
    if len(sizes) > 1:
        raise ValueError(f"its blocks are not equal: their windows are {sizes[0]:g} and {sizes[1]:g} tokens; give one")
    period = depth // full if sizes and full else None
    if period and depth // period != full:
        raise ValueError(f"{full} of its {depth} blocks attend without a window; give every n-th block none")
    return {"window": sizes[0] if sizes else None, "full_every": period}


def _decoder_blocks(rows: Sequence[tuple[int, Mapping[str, Any]]], width: int) -> list[dict[str, Any]]:
    """Return the sizes of each pair of causal attention and feed-forward, written as one block or as its layers."""
    block_sizes: list[dict[str, Any]] = []
    attention, inner = dict[str, Any](), 0
    for number, row in rows:
        layer, times = row["layer"], int(row["repeat"])
        if layer in ("self_attention", "transformer_block") and not row["causal"]:
            raise ValueError(f"layer {number} ({layer}) is not causal: it sees later tokens")
        if row.get("gate"):
            raise ValueError(f"layer {number} ({layer}) has an output gate")
        if layer == "transformer_block" and not attention:
            block_sizes += [_attention_sizes(row, width) | _feed_forward_sizes(row)] * times
        elif layer == "self_attention" and not attention and times == 1:
            attention = _attention_sizes(row, width)
        elif layer in ("mlp", "moe") and attention and not inner and times == 1 and row.get("out") in (None, width):
            block_sizes.append(attention | _feed_forward_sizes(row))
            attention = {}
        elif layer == "linear" and attention and not inner and times == 1:
            inner = int(row["out"])
        elif layer == "linear" and inner and times == 1 and row["out"] == width:
            block_sizes.append(attention | _feed_forward_sizes({"hidden": inner}))
            attention, inner = {}, 0
        elif not (layer == "act" and inner):
            raise ValueError(f"layer {number} ({layer}) is part of no block of attention and feed-forward")
    if attention or not block_sizes:
        raise ValueError("it has attention without a feed-forward layer" if attention else "it has no attention")
    return block_sizes


def _attention_sizes(row: Mapping[str, Any], width: int) -> dict[str, Any]:
    heads = int(row["heads"])
    return {
        "heads": heads,
        "kv_heads": int(row["kv_heads"] or heads),
        "head_dim": int(row["head_dim"] or width // heads),
        "window": row["window"],
    }


def _feed_forward_sizes(row: Mapping[str, Any]) -> dict[str, Any]:
    sizes: dict[str, Any] = {"hidden": int(row["hidden"]), "gated": bool(row.get("gated", False)), "experts": None}
    if "experts" in row:
        sizes["experts"] = {
            "number": int(row["experts"]),
            "top_k": int(row["top_k"]),
            "hidden": int(row["hidden"]),
            "shared": int(row["shared"]),
        }
    return sizes


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a layer with its default arguments."""
    parameters = _parameters(_layer_function(row["layer"]))
    return {"repeat": 1, **{name: parameter.default for name, parameter in parameters.items()}, **row}


def _layer_function(layer: str) -> Any:
    return getattr(blocks if layer == "moe" else parts if layer in BLOCK_LAYERS else Trace, layer)


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the arguments of a layer.

    The trace and the input come first, and a block takes those of its attention too.
    """
    parameters = dict(list(inspect.signature(function).parameters.items())[2:])
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        parameters = dict(list(inspect.signature(parts.self_attention).parameters.items())[2:]) | parameters
    return parameters


@lru_cache(maxsize=16)
def _in_zoo(workload: Workload) -> str:
    """Return `"resnet50"` or `cb.model("resnet50", image=448)`, where that builds this very network; else ""."""
    try:
        plain = model(workload.name)
    except KeyError:
        return ""
    if plain is workload or (plain.title == workload.title and _same(plain, workload)):
        return as_python(workload.name)
    changes = {name: value for name, value in workload.arguments.items() if plain.arguments.get(name) != value}
    try:
        same = workload.title.startswith(f"{plain.title} (") and _same(model(workload.name, **changes), workload)
    except (ValueError, TypeError):
        return ""
    return f"cb.model({as_python(workload.name)}, {keywords(changes)})" if same else ""


def _same(one: Workload, other: Workload) -> bool:
    work = [(w.ops.parameter_count, float(w.ops.total("macs", 1, w.seq or 1))) for w in (one, other)]
    return one.arguments == other.arguments and work[0] == work[1]


@cache  # as many as the zoo has: fewer would be built again by whatever walks through all of them
def _named(name: str) -> Workload:
    row = catalog.row("models", name)
    seq = None if math.isnan(row["seq"]) else float(row["seq"])
    sources = [row[c] for c in ("source", "parameters_source", "macs_source") if row[c]]
    keys = dict.fromkeys(key for cell in sources for key in cell.split(";"))
    arguments = json.loads(row["arguments"] or "{}")
    ops = builder_function(row["builder"])(**arguments)
    return Workload(
        name,
        row["title"],
        ops,
        row["family"],
        row["task"],
        row["data_kind"],
        row["sample"],
        seq,
        row["how"],
        tuple(keys),
        row["note"],
        arguments,
        row["builder"],
        UNEQUAL if row["builder"] == HYBRID else "",
    )


def _changed(workload: Workload, changes: dict[str, Any]) -> Workload:
    row = catalog.row("models", workload.name)
    builder, stated = builder_function(row["builder"]), json.loads(row["arguments"] or "{}")
    parameters = inspect.signature(builder).parameters
    check_names(changes, list(parameters), workload.name)
    arguments = {**stated, **changes}
    usual = {name: stated.get(name, parameter.default) for name, parameter in parameters.items()}
    changed = ", ".join(f"{key} = {shown(value, 40).strip(chr(39))}" for key, value in list(changes.items())[:3])
    by_default = ", ".join(f"{key} = {shown(usual[key], 40)}" for key in list(changes)[:3])
    try:
        ops = checked_ops(row["builder"], arguments, changes, usual)
    except (ValueError, TypeError, AttributeError, ArithmeticError, KeyError, IndexError) as problem:
        cause = f" ({str(problem)[:160]})" if isinstance(problem, ValueError) else ""
        raise ValueError(f"{workload.name} cannot be built with {changed}; by default {by_default}{cause}") from None
    check_possible(ops, f"{workload.name} cannot be built with {changed}: its work cannot be counted")
    title = f"{workload.title} ({changed})"
    return replace(workload, title=title, ops=ops, how="unverified", arguments=arguments)


def checked_ops(builder: str, arguments: Mapping[str, Any], given: Mapping[str, Any], usual: Mapping[str, Any]) -> Ops:
    """Return the operations of a builder's network; the arguments `given` by a reader or a file are checked.

    `usual`: values that show valid forms of an argument. ValueError: an invalid argument, or the builder's own error.
    """
    function, allowed = builder_function(builder), words(builder)
    parameters = inspect.signature(function).parameters
    for name, value in given.items():
        check(parameters[name], name, value, usual[name])
    check_heads({**usual, **given})
    ops: Ops = function(**arguments)
    for name, value in given.items():  # what a builder does not refuse by itself
        if name != "pattern":  # of which it refuses what it cannot read, and the zoo has not all there are
            check_word(parameters[name], name, value, allowed.get(name, ()))
    return ops


@lru_cache(maxsize=256)
def words(builder: str) -> dict[str, frozenset[str]]:
    """Return the words that networks of one builder use, by argument."""
    by_argument: dict[str, set[str]] = {}
    table = catalog.table("models")
    for cell in table.loc[table["builder"] == builder, "arguments"]:
        for name, value in json.loads(cell or "{}").items():
            if isinstance(value, str):
                by_argument.setdefault(name, set()).add(value)
    return {name: frozenset(values) for name, values in by_argument.items()}


def all_arguments(workload: Workload) -> dict[str, Any]:
    """Return the arguments of a network of the zoo, with its builder's defaults.

    Parameters
    ----------
    workload : Workload
        Network, from `model`.

    Returns
    -------
    dict
        Value by argument; two networks of one builder that agree in it are the same.

    Examples
    --------
    >>> all_arguments(model("resnet50_v1.5", image=224)) == all_arguments(model("resnet50_v1.5"))
    True
    """
    parameters = inspect.signature(builder_function(workload.builder)).parameters.values()
    usual = {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}
    return {**usual, **workload.arguments}


@lru_cache(maxsize=64)
def builder_function(builder: str) -> Any:
    """Return the function of `cookbook.workloads` that a builder such as "transformers.decoder" names."""
    module, _, function = builder.rpartition(".")
    return getattr(import_module(f"cookbook.workloads.builders.{module}"), function)
