"""Checks of a network's arguments: invalid ones are refused by name before anything is built; read-only afterwards."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from cookbook.catalog.fields import Field
from cookbook.catalog.refusals import Refused, refusal_of, refused
from cookbook.units import shown
from cookbook.workloads.layers import ACT_FLOP, NORM_FLOP, Length
from cookbook.workloads.limits import MAX_PARAMETERS, MAX_WORK
from cookbook.workloads.ops import POLYNOMIALS, Ops

# Arguments that count something, and those of them that may be left to the layer.
COUNTS = (
    "out",
    "kernel",
    "stride",
    "dilation",
    "heads",
    "kv_heads",
    "head_dim",
    "hidden",
    "groups",
    "vocab",
    "features",
    "layers",
    "experts",
    "top_k",
    "state",
    "projection",
)
OPTIONAL = ("out", "kv_heads", "head_dim", "projection", "stride")
# Arguments of which each unit is recorded by itself, so that a large number would take too long.
LOOPED = (
    "depth",
    "depths",
    "layers",
    "top_k",
    "decoder_depth",
    "decoder_layers",
    "generator_depth",
    "cross_layers",
    "middle_depth",
    "single",
    "double",
    "flows",
    "repeats",
    "res_blocks",
    "multipliers",
    "predict_ahead",
    "full_every",
    "experts_every",
    "attend_at",
    "deep_supervision",
    "heads_out",
)
LARGEST, MAX_LAYERS, MAX_ELEMENTS, MAX_SIZES = 10**9, 1000, 1000, 4
POSITIVE, FLAG = Field.number(high=LARGEST, words=False), Field.flag()
WORDS = {"act": ACT_FLOP, "norm": NORM_FLOP}


def whole(value: Any, name: str, most: int = LARGEST, least: int = 1) -> int:
    """Return an integer within bounds; raises ValueError naming the argument."""
    return int(_counts(least, most).read(value, name))


@lru_cache(maxsize=256)
def _counts(least: int, most: int) -> Field:
    """Return the declaration of an integer within bounds."""
    return Field.count(least, most)


def stated(value: Any, name: str, most: int, usual: int | None = None) -> int:
    """Return an integer that a file may leave out; ValueError where it has no default."""
    if value is None and usual is None:
        raise ValueError(f"{name} is missing")
    return whole(usual if value is None else value, name, most)


def sample_sizes(shape: Any, example: str) -> list[Any]:
    """Return a reader's sizes of one sample; ValueError where they are not a list, missing or too many."""
    if not isinstance(shape, list | tuple) or not 0 < len(shape) <= MAX_SIZES:
        raise refused("shape", shape, f"must be that of one sample, such as {example}")
    return list(shape)


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Prefix every ValueError raised inside with its subject, and turn arithmetic errors into a ValueError."""
    try:
        yield
    except ValueError as problem:
        raise Refused(refusal_of(problem).reworded(f"{what}: {problem}")) from None
    except (TypeError, ArithmeticError, IndexError, AttributeError, KeyError):
        raise ValueError(f"{what} cannot be built as stated") from None


def check_word(parameter: inspect.Parameter, name: str, value: Any, words: Collection[str]) -> None:
    """Refuse a word that no network of this builder and none of its layers uses."""
    allowed = {*words, *WORDS.get(name, ()), *([parameter.default] if isinstance(parameter.default, str) else [])}
    if isinstance(value, str) and value not in allowed:
        raise refused(name, value, f"is not one of {', '.join(sorted(filter(None, allowed)))[:150]}")


def check(parameter: inspect.Parameter | None, name: str, value: Any, usual: Any = None) -> None:
    """Refuse a value that does not fit the type that the builder declares for the argument.

    `parameter`: the argument of the builder; nothing is checked where it declares no type; `name`, `value`, `usual`:
    the argument, what was given, and what it is by default. ValueError: naming the argument, the value and what it must
    be.
    """
    kind = "" if parameter is None else str(parameter.annotation)
    if value is None:
        if usual is not None and "None" not in kind and kind not in ("", "Any"):
            raise ValueError(f"{name} = None must be a value such as {shown(usual)}")
        return
    if kind.startswith("bool"):
        FLAG.read(value, name)
    elif kind.startswith("str"):
        if not isinstance(value, str):
            raise refused(name, value, f"must be a word such as {shown(usual)}")
    elif kind.startswith("Mapping"):
        _check_members(name, value, usual)
    elif "Sequence" in kind and not ("int |" in kind and not isinstance(value, Sequence)):
        _check_sequence(name, value, usual)
    elif kind.startswith("int") or (kind == "Size" and not isinstance(value, Length)):
        default = 1 if parameter is None else parameter.default
        zero = any(
            isinstance(number, int) and not isinstance(number, bool) and number == 0 for number in (default, usual)
        )
        whole(value, name, MAX_LAYERS if name in LOOPED else LARGEST, 0 if zero else 1)
    elif kind.startswith("float"):
        POSITIVE.read(value, name)
    elif name == "padding":
        for side in value if isinstance(value, list | tuple) else [value]:
            if not (isinstance(side, str) and side in ("same", "valid")) and not isinstance(side, list | tuple):
                _padding(side, value)


def _padding(side: Any, value: Any) -> None:
    try:
        whole(side, "padding", least=0)
    except ValueError:
        raise TypeError(f"padding = {shown(value)}") from None


def _check_sequence(name: str, value: Any, usual: Any) -> None:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_ELEMENTS:
        raise refused(name, value, f"must be a list of whole numbers, such as {shown(usual)}")
    for member in value:
        if isinstance(member, list | tuple):
            _check_sequence(name, member, usual)
        else:
            whole(member, name, MAX_LAYERS if name in LOOPED else LARGEST, 0)


def _check_members(name: str, value: Any, usual: Any) -> None:
    if not isinstance(value, Mapping):
        raise refused(name, value, f"must be a mapping such as {shown(dict(usual or {}), 150)}")
    for key, number in value.items():
        if isinstance(number, str | list | tuple | Mapping) or not isinstance(key, str):
            raise ValueError(f"{name}: {shown(key)} = {shown(number)} must be a number")
        if number is not None and not isinstance(number, bool):
            whole(number, f"{name}: {key}", MAX_LAYERS if key in LOOPED else LARGEST, 0)
    if value.get("top_k") and value.get("number") and value["top_k"] > value["number"]:
        raise ValueError(f"{name}: top_k = {value['top_k']} is more than the {value['number']} experts there are")


def check_heads(arguments: Mapping[str, Any]) -> None:
    """Check that the number of heads divides the width, unless heads have their own size."""
    heads, width, groups = (arguments.get(name) for name in ("heads", "width", "kv_heads"))
    alone = arguments.get("head_dim") is None and arguments.get("latent") is None
    if isinstance(heads, int) and isinstance(width, int) and alone and width % heads:
        raise ValueError(f"heads = {heads} must divide width = {width}, or give head_dim")
    if isinstance(heads, int) and isinstance(groups, int) and groups and heads % groups:
        raise ValueError(f"kv_heads = {groups} must divide heads = {heads}")


def check_possible(ops: Ops, otherwise: str) -> None:
    """Refuse a network with an amount that is NaN, negative or implausibly large.

    `otherwise`: the message where nothing can be counted.
    """
    columns = [getattr(ops, name) for name in (*POLYNOMIALS, "count", "parameters", "weights")]
    total = math.fsum(float(np.abs(column).sum()) for column in columns)
    if not math.isfinite(total) or total <= 0 or not ((ops.parameters >= 0).all() and (ops.weights >= 0).all()):
        raise ValueError(otherwise)
    parameters = float((ops.parameters * ops.count).sum())
    if parameters > MAX_PARAMETERS:
        raise ValueError(
            f"the network would have {parameters:.1e} parameters; networks of up to "
            f"{MAX_PARAMETERS:.0e} are read, so check its sizes"
        )
    if total > MAX_WORK:
        raise ValueError(
            f"one sample would need {total:.1e} elements and multiplications; networks of up to "
            f"{MAX_WORK:.0e} are read, so check its sizes"
        )


def read_only(value: Any) -> Any:
    """Return the value with mappings and lists made immutable."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: read_only(member) for key, member in value.items()})
    return tuple(map(read_only, value)) if isinstance(value, list | tuple) else value
