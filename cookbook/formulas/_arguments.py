"""Argument checks of the formulas: invalid values raise a clear ValueError; NaN, a missing value in a sweep, passes.

A formula says in its signature which values each argument may have; `checked` converts them to floats and refuses
others, so that the body is the formula alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

P = ParamSpec("P")
R = TypeVar("R")
Array = NDArray[np.float64]


# Largest number of entries of a list or range converted to an array; an existing array has its memory already.
MAX_ENTRIES = 10_000_000
# Most axes of an array: NumPy broadcasts no more.
MAX_AXES = 32
# Signs of a repr that shows Python's internals.
INTERNAL_SIGNS = ("<", "np.", "(", "\n")


def floats(name: str, value: ArrayLike) -> Array:
    """Return `value` as floats; the ValueError quotes a value that is not a number, or names its type."""
    if not isinstance(value, np.ndarray | float | int) and (size := _length(value)) > MAX_ENTRIES:
        raise ValueError(f"{name} has {size:,} entries: give at most {MAX_ENTRIES:,}")
    try:
        values = np.asarray(value, dtype=float)
    except OverflowError:
        raise ValueError(f"{name} = {written(value)} holds more than any float: give smaller numbers") from None
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{name} = {written(value)} is not a number: give one, or an array of numbers") from None
    if values.ndim > MAX_AXES:
        raise ValueError(f"{name} is nested {values.ndim} deep: give a number, or an array of up to {MAX_AXES} axes")
    return values


def written(value: object) -> str:
    """Return the text that messages quote for `value`: its repr, or its type where that shows Python's internals."""
    try:
        text = str(value)[:40]
    except (ValueError, RecursionError):  # Python writes no integer of thousands of digits, nor a list nested as deep
        return "an integer of thousands of digits" if isinstance(value, int) else f"a {type(value).__name__}"
    if isinstance(value, str):
        return repr(text)
    return f"a {type(value).__name__}" if any(sign in text for sign in INTERNAL_SIGNS) else text


def _length(value: object) -> int:
    try:
        return len(value)  # type: ignore[arg-type]
    except TypeError:
        return 0
    except OverflowError:  # a range beyond all that can be counted
        return 2**63 - 1


def reject(name: str, values: Array, bad: NDArray[np.bool_], allowed: str, remedy: str) -> None:
    """Refuse the first of the `bad` values."""
    first = np.extract(bad, values)[0]
    raise ValueError(f"{name} = {first:g} is outside {allowed}: {remedy} (NaN marks a missing figure).")


class Range(NamedTuple):
    """Values that an argument may have, up to both ends or above an `open` lower one, and what to give instead."""

    low: float
    high: float
    remedy: str
    open: bool = False

    def __call__(self, name: str, value: ArrayLike) -> Array:
        """Return `value` as floats, each within the range or NaN."""
        values = floats(name, value)
        bad = values <= self.low if self.open else values < self.low
        if self.high < np.inf:
            bad = bad | (values > self.high)
        if bad.any():
            left, right = "(" if self.open else "[", ")" if self.high == np.inf else "]"
            reject(name, values, bad, f"{left}{self.low:g}, {self.high:g}{right}", self.remedy)
        return values


positive = Range(0.0, np.inf, "give it in SI units, greater than zero", open=True)
non_negative = Range(0.0, np.inf, "give it in SI units, zero or more")
at_least_one = Range(1.0, np.inf, "give one or more")
fraction = Range(0.0, 1.0, "give a fraction, not a percentage")
# What a caller gives is a number, a list or an array; what the body of a formula gets are floats, of any shape. A
# default reaches it as written.
Positive = Annotated[Any, positive]
NonNegative = Annotated[Any, non_negative]
AtLeastOne = Annotated[Any, at_least_one]
Fraction = Annotated[Any, fraction]


def checked(formula: Callable[P, R]) -> Callable[P, R]:
    """Return a formula whose arguments are floats within the ranges of its signature.

    A single number is handled first: one prediction checks hundreds of them, and array checks cost more.
    """
    code, hints = formula.__code__, formula.__annotations__
    ranges = [
        (at, name, allowed, allowed.low, allowed.high, allowed.open)
        for at, name in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        # An annotation is the text of a name of the module; to evaluate it would take longer than to look it up.
        for allowed in getattr(formula.__globals__.get(hints.get(name, "")), "__metadata__", ())
    ]
    if not ranges:
        raise TypeError(f"{formula.__qualname__} states no range of an argument as the text of an annotation")

    @functools.wraps(formula)
    def call(*args: Any, **kwargs: Any) -> R:
        given = [*args]
        for at, name, allowed, low, high, above in ranges:
            values: Any = given if at < len(args) else kwargs
            key: Any = at if at < len(args) else name
            if values is kwargs and name not in kwargs:  # a default applies, or Python names what is missing
                continue
            value = values[key]
            if type(value) is float:
                value = values[key] = np.float64(value)
            if type(value) is not np.float64 or value < low or value > high or (above and value == low):
                values[key] = allowed(name, value)
        return formula(*given, **kwargs)

    return call
