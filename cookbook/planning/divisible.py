"""What a search is asked for: counts and choices that can be, what divides what, and the nearest numbers that do."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from cookbook import units
from cookbook.prediction.layout_checks import even_stages

# Most devices, sequences of one step and tokens of a sequence that a run may have.
MOST_DEVICES, MOST_SEQUENCES, MOST_TOKENS = 2**20, 2**30, 2**27
MOST_ENTRIES = 1024
# How far to look for a number that can be divided, as a multiple of the number asked for.
REACH = 2
# From this length on, context parallelism is tried.
LONG = 8192
SIZES = ("tp", "pp", "vp", "cp", "ep", "dp", "micro_batch")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def shown(value: Any) -> str:
    """A value as a message repeats it, at most about sixty characters."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python prints no whole number of thousands of digits
        return f"a number of {type(value).__name__}"


def whole(name: str, value: Any, most: int = MOST_DEVICES) -> int:
    """A count from 1 to `most`.

    >>> whole("devices", 64.0)
    64
    """
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and 1 <= value <= most and value == int(value)):
        raise ValueError(f"{name} = {shown(value)} must be a whole number, 1 or more and at most {most:,}")
    return int(value)


def wholes(name: str, value: Any, most: int = MOST_DEVICES) -> list[int]:
    """One count or several, in order, each once."""
    return sorted({whole(name, each, most) for each in listed(name, value)})


def listed(name: str, value: Any) -> list[Any]:
    """One value or several as a list of Python's own, neither empty nor longer than can be searched."""
    if isinstance(value, np.ndarray) and not value.ndim:
        return [value.item()]
    if not isinstance(value, Collection) or isinstance(value, (str, bytes, Mapping)):
        return [value]
    if not 0 < len(value) <= MOST_ENTRIES:
        what = f"has {len(value):,} entries" if len(value) else "is empty"
        raise ValueError(f"{name} = {shown(value)} {what}; give one value or up to {MOST_ENTRIES:,}")
    return [each.item() if isinstance(each, np.generic) else each for each in value]


def quantity(name: str, value: Any, unit: str, example: str, least: float = 1e-9, most: float = 1e24) -> float:
    """A number from `least` to `most` in SI, from a number or from text with its unit.

    >>> quantity("restart", "10 min", "s", "'10 min'")
    600.0
    """
    try:
        number = isinstance(value, (str, int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number or len(value if isinstance(value, str) else "") > 60:
            raise TypeError
        found = float(units.si(value, unit or None))
    except (TypeError, ValueError, ArithmeticError):
        found = math.nan
    if not least <= found <= most:
        above = "0 or more" if least == 0 else "above 0"
        raise ValueError(f"{name} = {shown(value)} must be {above} and finite, such as {example}")
    return found


def choices(name: str, given: Any, allowed: Sequence[Any], usual: Sequence[Any]) -> tuple[Any, ...]:
    """One choice or several of those allowed, each once; the usual ones where none is given.

    >>> choices("recompute", "full", ("none", "full"), ("none",))
    ('full',)
    """
    if given is None:
        return tuple(usual)
    values = listed(name, given)
    for value in values:
        if not any(type(value) is type(each) and value == each for each in allowed):
            near = get_close_matches(str(value)[:60], [each for each in allowed if isinstance(each, str)], 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(f"{name} = {shown(value)} is not a choice; take one of "
                             f"{', '.join(map(repr, allowed))}{meant}")  # fmt: skip
    return tuple(dict.fromkeys(values))


def divisors(number: int, most: int | None = None) -> list[int]:
    """Divisors of a number up to a most.

    >>> divisors(12, 6), divisors(7)
    ([1, 2, 3, 4, 6], [1, 7])
    """
    low = np.arange(1, math.isqrt(number) + 1)
    low = low[number % low == 0]
    return [each for each in sorted({*low.tolist(), *(number // low).tolist()}) if each <= (most or number)]


def stage_counts(layers: int, most: int) -> list[int]:
    """Numbers of pipeline stages, up to a most, that layers fill evenly."""
    return [each for each in range(1, min(layers, most) + 1) if even_stages(layers, each)]


def context_sizes(seq: float) -> list[int]:
    """Ways to split a sequence that leave each part long enough to be worth it."""
    return [c for c in (1, 2, 4, 8, 16) if c == 1 or (seq >= LONG and seq / c >= LONG / 2 and seq % c == 0)]


def check_layout(layout: Mapping[str, Any], shape: Mapping[str, int], devices: int, batch: int, seq: float) -> None:
    """Whether a layout divides the network, the devices, the batch and the sequence.

    Parameters
    ----------
    layout : mapping of str to int
        Some of tp, pp, vp, cp, ep, dp and micro_batch.
    shape : mapping of str to int
        layers, heads and experts of the network; per_node, the devices of an NVLink domain.
    devices, batch : int
        Devices; sequences of one step.
    seq : float
        Tokens of a sequence.

    Raises
    ------
    ValueError
        Which number does not divide which, and the nearest that does.
    """
    most = {"micro_batch": MOST_SEQUENCES, "cp": MOST_TOKENS}
    axes = {name: whole(name, layout.get(name, 1), most.get(name, MOST_DEVICES)) for name in SIZES}
    layers, node, stages = shape["layers"], shape["per_node"], axes["pp"]
    _divides("tp", axes["tp"], shape["heads"], "heads")
    if axes["tp"] > node:
        raise ValueError(
            f"tp = {axes['tp']:,} is more than the {node:,} devices that the fast link joins; take no more, or set "
            "per_node"
        )
    if not even_stages(layers, stages) or stages > layers:
        raise ValueError(f"pp = {stages:,} does not divide {layers:,} layers; nearest: "
                         f"{around(stages, stage_counts(layers, layers))}")  # fmt: skip
    chunks = [each for each in range(1, layers // stages + 1) if even_stages(layers, stages * each)]
    if axes["vp"] not in chunks:
        raise ValueError(f"vp = {axes['vp']:,} does not divide the layers of pp = {stages:,} stages; nearest: "
                         f"{around(axes['vp'], chunks)}")  # fmt: skip
    _divides("cp", axes["cp"], int(seq), "tokens of a sequence")
    if shape["experts"] or axes["ep"] > 1:
        _divides("ep", axes["ep"], max(shape["experts"], 1), "experts")
    names = [name for name in ("tp", "pp", "cp", "dp") if name in layout]
    _multiple("devices", devices, " x ".join(names), math.prod(axes[name] for name in names))
    fixed = {"tp", "pp", "cp"} <= set(layout) and "dp" not in layout
    replicas = devices // math.prod(axes[name] for name in names) if fixed else axes["dp"]
    words = f"replicas x micro-batch = {replicas:,} x {axes['micro_batch']:,}"
    _multiple("global_batch", batch, words, replicas * axes["micro_batch"])


def _divides(name: str, size: int, total: int, what: str) -> None:
    if total % size:
        raise ValueError(f"{name} = {size:,} does not divide {total:,} {what}; nearest: {around(size, divisors(total))}")


def _multiple(name: str, number: int, words: str, of: int) -> None:
    if number % of:
        near = around(number, multiples(number, of))
        raise ValueError(f"{name} = {number:,} is not a multiple of {words} = {of:,}; nearest: {near}")


def multiples(number: int, of: int) -> list[int]:
    """Multiples of a number around another."""
    return [below for below in (number // of * of, (number // of + 1) * of) if below]


def around(number: int, good: Iterable[int]) -> str:
    """The nearest good numbers below and above, in words; "" where there is none.

    >>> around(6, [1, 2, 4, 8]), around(9, [1, 2, 4, 8])
    ('4 or 8', '8')
    """
    known = list(good)
    below, above = [each for each in known if each < number], [each for each in known if each > number]
    ends = ([max(below)] if below else []) + ([min(above)] if above else [])
    return " or ".join(f"{each:,}" for each in ends)


def undivided(devices: int, batch: int, shards: list[int], shape: Mapping[str, int]) -> str:
    """Why devices and batch cannot be divided, with the nearest that can; "" where some layout divides them.

    Parameters
    ----------
    devices, batch : int
        Devices; sequences of one step.
    shards : list of int
        Ways to split the network: every tp x pp x cp that the search tries.
    shape : mapping of str to int
        layers and heads, for the words.
    """
    replicas = [devices // each for each in shards if devices % each == 0]
    if any(batch % each == 0 for each in replicas):
        return ""
    counts = {each * share for each in shards for share in divisors(batch)}
    near = (
        around(devices, (each for each in counts if each <= REACH * devices)),
        around(batch, (each for share in replicas for each in multiples(batch, share) if each <= REACH * batch)),
    )
    found = [f"{near[0]} devices"] * bool(near[0]) + [f"a batch of {near[1]}"] * bool(near[1])
    return (
        f"devices = {devices:,} cannot share {shape['heads']:,} heads, {shape['layers']:,} layers and global_batch = "
        f"{batch:,} evenly; nearest: {', or '.join(found) or 'none'}"
    )
