"""Checks of what a reader asks for: each error names the argument, its value, the allowed range and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np

from cookbook import units
from cookbook.workloads.zoo import Workload

RECOMPUTE = {"none": 0.0, "full": 1.0}
# Arguments that have a dimension; all others are counts.
# Beyond this nothing of one run can be.
LARGEST = 1e18
UNITS = {"target_seconds": "s"}


def checked_batch(batch: Any) -> np.ndarray:
    """Batches as floats; a bad scalar raises, a bad entry of an array becomes NaN."""
    try:
        given = np.asarray(batch)
        if given.dtype == bool or (isinstance(batch, (list, tuple)) and any(isinstance(b, bool) for b in batch)):
            raise TypeError
        values = given.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"batch = {units.shown(batch)} is not a number; give whole samples, 1 or more") from None
    good = (values >= 1) & (values == np.floor(values)) & (values <= LARGEST)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"batch has shape {values.shape}; give one number or a list of them")
    if values.ndim == 0 and not good:
        raise ValueError(f"batch = {units.shown(batch)} is not allowed; give whole samples, 1 or more")
    return np.where(good, values, np.nan)


def checked_seq(workload: Workload, seq: float | None) -> float | None:
    """Sequence length to use; it raises where the model has a fixed input, or has none of its own."""
    if not isinstance(workload, Workload):
        raise ValueError(f"model = {units.shown(workload)} is no network; give a name such as 'resnet50', or cb.layers([...])")
    if seq is None:
        if workload.seq is None and workload.ops.needs_seq:
            raise ValueError(f"seq = None, but {workload.title} has no length of its own; give seq >= 1")
        return workload.seq
    if not workload.ops.needs_seq:
        raise ValueError(f"seq = {units.shown(seq)}: the input of {workload.title} is fixed; leave seq out")
    length = at_least("seq", seq, 1)
    if length != round(length):
        raise ValueError(f"seq = {units.shown(seq)} is not whole; give whole tokens, 1 or more")
    return length


def checked_recompute(recompute: str | float) -> float:
    """Share of the blocks that is recomputed, 0 to 1."""
    allowed = 'give "none", "full" or a share from 0 to 1'
    if isinstance(recompute, str):
        if recompute not in RECOMPUTE:
            raise ValueError(f"recompute = {units.shown(recompute)} is not known; {allowed}")
        return RECOMPUTE[recompute]
    share = _number("recompute", recompute, allowed)
    if not 0 <= share <= 1:
        raise ValueError(f"recompute = {units.shown(recompute)} is outside [0, 1]; {allowed}")
    return share


def at_least(name: str, value: Any, low: float) -> float:
    """`value` in SI as a float, at least `low`."""
    number = _number(name, value, f"give {low:g} or more")
    if not low <= number <= LARGEST:
        raise ValueError(f"{name} = {units.shown(value)} is outside [{low:g}, {LARGEST:g}]; give {low:g} or more")
    return number


def above_zero(name: str, value: Any) -> float:
    """`value` in SI as a float, above zero."""
    number = _number(name, value, "give more than zero, in SI units")
    if not 0 < number <= LARGEST:
        raise ValueError(f"{name} = {units.shown(value)} is outside (0, {LARGEST:g}]; give more than zero, in SI units")
    return number


def _number(name: str, value: Any, remedy: str) -> float:
    """`value` in SI as a float; text must have the unit of the argument."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return float(units.si(value, UNITS.get(name, "")))
    except TypeError:
        raise ValueError(f"{name} = {units.shown(value)} is not a number; {remedy}") from None
    except (ValueError, ArithmeticError) as problem:
        raise ValueError(f"{name} = {units.shown(value)}: {str(problem)[:150]}") from None
