"""What a typed call is asked for: counts, quantities, choices and names that can be; all else is refused shortly."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cookbook import units
from cookbook.catalog.reading import nearest
from cookbook.catalog.refusals import refused
from cookbook.workloads.zoo import Workload

# Most devices, sequences of one step and tokens of a sequence that a run may have; most values in one list.
MOST_DEVICES, MOST_SEQUENCES, MOST_TOKENS = 2**20, 2**30, 2**27
MOST_ENTRIES = 1024
# Beyond this nothing of one run can be.
LARGEST = 1e18
# Share of letters that agree from which a choice may be the one that was meant.
MISSPELT = 0.6
RECOMPUTE = {"none": 0.0, "full": 1.0}
# Arguments that have a dimension; all others are counts.
UNITS = {"target_seconds": "s"}


def whole(name: str, value: Any, most: int = MOST_DEVICES) -> int:
    """A count from 1 to `most`.

    >>> whole("devices", 64.0)
    64
    """
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and 1 <= value <= most and value == int(value)):
        raise refused(name, value, f"must be a whole number, 1 or more and at most {most:,}")
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
        raise refused(name, value, f"{what}; give one value or up to {MOST_ENTRIES:,}")
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
        above = f"{least:g} or more" if least == 0 or least >= 1 else "above 0"
        raise refused(name, value, f"must be {above} and finite, such as {example}")
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
            near = nearest(str(value)[:60], [each for each in allowed if isinstance(each, str)], 1, MISSPELT)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise refused(
                name, value, f"is not a choice; take one of {', '.join(map(repr, allowed))}{meant}", nearest=near
            )
    return tuple(dict.fromkeys(values))


def text(name: str, value: Any, most: int = 100) -> str:
    """A name or a few words."""
    if not isinstance(value, str) or len(value) > most:
        raise refused(name, value, f"must be a text of at most {most} letters")
    return value


def flag(name: str, value: Any) -> bool:
    """Yes or no as given in a call; anything else is refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise refused(name, value, "says neither yes nor no; give True or False")
    return bool(value)


def numbers(name: str, values: Any) -> np.ndarray:
    """A list of numbers as an array; ValueError names the argument."""
    units.size_within(name, values)
    try:
        found = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        found = np.array("")
    if found.dtype.kind not in "iuf":
        raise refused(name, values, "must be a list of numbers")
    return found


def checked_batch(batch: Any) -> np.ndarray:
    """Batches as floats; a bad scalar raises, a bad entry of an array becomes NaN."""
    try:
        given = np.asarray(batch)
        if given.dtype == bool or (isinstance(batch, (list, tuple)) and any(isinstance(b, bool) for b in batch)):
            raise TypeError
        values = given.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise refused("batch", batch, "is not a number; give whole samples, 1 or more") from None
    good = (values >= 1) & (values == np.floor(values)) & (values <= LARGEST)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"batch has shape {values.shape}; give one number or a list of them")
    if values.ndim == 0 and not good:
        raise refused("batch", batch, "is not allowed; give whole samples, 1 or more")
    return np.where(good, values, np.nan)


def checked_seq(workload: Workload, seq: float | None) -> float | None:
    """Sequence length to use; it raises where the model has a fixed input, or has none of its own."""
    if not isinstance(workload, Workload):
        raise refused("model", workload, "is no network; give a name such as 'resnet50', or cb.layers([...])")
    if seq is None:
        if workload.seq is None and workload.ops.needs_seq:
            raise ValueError(f"seq = None, but {workload.title} has no length of its own; give seq >= 1")
        return workload.seq
    if not workload.ops.needs_seq:
        raise refused("seq", seq, f": the input of {workload.title} is fixed; leave seq out")
    length = at_least("seq", seq, 1)
    if length != round(length):
        raise refused("seq", seq, "is not whole; give whole tokens, 1 or more")
    return length


def checked_recompute(recompute: str | float) -> float:
    """Share of the blocks that is recomputed, 0 to 1."""
    allowed = 'give "none", "full" or a share from 0 to 1'
    if isinstance(recompute, str):
        if recompute not in RECOMPUTE:
            raise refused("recompute", recompute, f"is not known; {allowed}")
        return RECOMPUTE[recompute]
    share = _number("recompute", recompute, allowed)
    if not 0 <= share <= 1:
        raise refused("recompute", recompute, f"is outside [0, 1]; {allowed}")
    return share


def at_least(name: str, value: Any, low: float) -> float:
    """`value` in SI as a float, at least `low`."""
    number = _number(name, value, f"give {low:g} or more")
    if not low <= number <= LARGEST:
        raise refused(name, value, f"is outside [{low:g}, {LARGEST:g}]; give {low:g} or more")
    return number


def above_zero(name: str, value: Any) -> float:
    """`value` in SI as a float, above zero."""
    number = _number(name, value, "give more than zero, in SI units")
    if not 0 < number <= LARGEST:
        raise refused(name, value, f"is outside (0, {LARGEST:g}]; give more than zero, in SI units")
    return number


def _number(name: str, value: Any, remedy: str) -> float:
    """`value` in SI as a float; text must have the unit of the argument."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return float(units.si(value, UNITS.get(name, "")))
    except TypeError:
        raise refused(name, value, f"is not a number; {remedy}") from None
    except (ValueError, ArithmeticError) as problem:
        raise refused(name, value, f": {str(problem)[:150]}") from None
