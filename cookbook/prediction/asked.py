"""What a typed call is asked for: counts, quantities, choices and names that can be; all else is refused shortly."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from cookbook import units

# Most devices, sequences of one step and tokens of a sequence that a run may have; most values in one list.
MOST_DEVICES, MOST_SEQUENCES, MOST_TOKENS = 2**20, 2**30, 2**27
MOST_ENTRIES = 1024
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
        above = f"{least:g} or more" if least == 0 or least >= 1 else "above 0"
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


def text(name: str, value: Any, most: int = 100) -> str:
    """A name or a few words."""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{name} = {shown(value)} must be a text of at most {most} letters")
    return value
