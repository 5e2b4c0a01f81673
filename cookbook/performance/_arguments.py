"""Argument checks of the formulas: a clear ValueError; NaN, a missing figure in a sweep, passes through.

One number of NumPy's is told apart first: a single prediction asks hundreds of times, and array checks cost more.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def _floats(name: str, value: ArrayLike) -> Array:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} = {str(value)[:40]!r} is not a number: give one, or an array of numbers") from None


def _reject(name: str, values: Array, bad: NDArray[np.bool_], allowed: str, remedy: str) -> None:
    first = np.extract(bad, values)[0]
    raise ValueError(f"{name} = {first:g} is outside {allowed}: {remedy} (NaN marks a missing figure).")


def positive(name: str, value: ArrayLike) -> Array:
    """`value` as floats, each > 0 or NaN."""
    if type(value) is np.float64 and not value <= 0:
        return value  # type: ignore[return-value]
    values = _floats(name, value)
    bad = values <= 0
    if bad.any():
        _reject(name, values, bad, "(0, inf)", "give it in SI units, greater than zero")
    return values


def non_negative(name: str, value: ArrayLike) -> Array:
    """`value` as floats, each >= 0 or NaN."""
    if type(value) is np.float64 and not value < 0:
        return value  # type: ignore[return-value]
    values = _floats(name, value)
    bad = values < 0
    if bad.any():
        _reject(name, values, bad, "[0, inf)", "give it in SI units, zero or more")
    return values


def at_least_one(name: str, value: ArrayLike) -> Array:
    """`value` as floats, each >= 1 or NaN."""
    if type(value) is np.float64 and not value < 1:
        return value  # type: ignore[return-value]
    values = _floats(name, value)
    bad = values < 1
    if bad.any():
        _reject(name, values, bad, "[1, inf)", "give one or more")
    return values


def fraction(name: str, value: ArrayLike) -> Array:
    """`value` as floats, each between 0 and 1 or NaN."""
    if type(value) is np.float64 and 0 <= value <= 1:
        return value  # type: ignore[return-value]
    values = _floats(name, value)
    bad = (values < 0) | (values > 1)
    if bad.any():
        _reject(name, values, bad, "[0, 1]", "give a fraction, not a percentage")
    return values
