"""Argument checks of the formulas: invalid values raise a clear ValueError; NaN, a missing value in a sweep, passes.

A single NumPy number is handled first: one prediction checks hundreds of them, and array checks cost more.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


# Largest number of entries of a list or range converted to an array; an existing array has its memory already.
MAX_ENTRIES = 10_000_000
# Signs of a repr that shows Python's internals.
INTERNAL_SIGNS = ("<", "np.", "(", "\n")


def floats(name: str, value: ArrayLike) -> Array:
    """Return `value` as floats; the ValueError quotes a value that is not a number, or names its type."""
    if not isinstance(value, np.ndarray | float | int) and (size := _length(value)) > MAX_ENTRIES:
        raise ValueError(f"{name} has {size:,} entries: give at most {MAX_ENTRIES:,}")
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} = {written(value)} is not a number: give one, or an array of numbers") from None


def written(value: object) -> str:
    """Return the text that messages quote for `value`: its repr, or its type where that shows Python's internals."""
    text = str(value)[:40]
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


def _reject(name: str, values: Array, bad: NDArray[np.bool_], allowed: str, remedy: str) -> None:
    first = np.extract(bad, values)[0]
    raise ValueError(f"{name} = {first:g} is outside {allowed}: {remedy} (NaN marks a missing figure).")


def positive(name: str, value: ArrayLike) -> Array:
    """Return `value` as floats, each > 0 or NaN."""
    if type(value) is np.float64 and not value <= 0:
        return value  # type: ignore[return-value]
    values = floats(name, value)
    bad = values <= 0
    if bad.any():
        _reject(name, values, bad, "(0, inf)", "give it in SI units, greater than zero")
    return values


def non_negative(name: str, value: ArrayLike) -> Array:
    """Return `value` as floats, each >= 0 or NaN."""
    if type(value) is np.float64 and not value < 0:
        return value  # type: ignore[return-value]
    values = floats(name, value)
    bad = values < 0
    if bad.any():
        _reject(name, values, bad, "[0, inf)", "give it in SI units, zero or more")
    return values


def at_least_one(name: str, value: ArrayLike) -> Array:
    """Return `value` as floats, each >= 1 or NaN."""
    if type(value) is np.float64 and not value < 1:
        return value  # type: ignore[return-value]
    values = floats(name, value)
    bad = values < 1
    if bad.any():
        _reject(name, values, bad, "[1, inf)", "give one or more")
    return values


def fraction(name: str, value: ArrayLike) -> Array:
    """Return `value` as floats, each between 0 and 1 or NaN."""
    if type(value) is np.float64 and 0 <= value <= 1:
        return value  # type: ignore[return-value]
    values = floats(name, value)
    bad = (values < 0) | (values > 1)
    if bad.any():
        _reject(name, values, bad, "[0, 1]", "give a fraction, not a percentage")
    return values
