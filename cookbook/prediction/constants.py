"""The few fitted constants of a kind of prediction, and what stands in where a device or a stack was never measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, units

SEEN, SIBLING, NEW_ENGINE, DATASHEET, EXPERTS = (
    "device and engine measured",
    "sibling device",
    "engine not measured",
    "datasheet only",
    "mixture of experts",
)
# From the narrowest interval to the widest.
TIERS = (SEEN, SIBLING, NEW_ENGINE, DATASHEET, EXPERTS)


@dataclass(frozen=True)
class Constant:
    """One free constant of a kind of prediction.

    Attributes
    ----------
    name : str
        Name by which the formulas take it.
    start : float
        Where the fit starts, and the value where nothing was measured.
    low, high : float
        Bounds that physics sets; all above zero, as the fit is in logarithms.
    by : str
        "" where one value serves all, "family" or "engine" where each level has its own.
    unit : str
        Unit of the value, SI; "" for a pure number.
    pull : float
        How far the logarithm of a value is expected to lie from that of the start, before any row was seen: small
        where micro-benchmarks already say the value.
    """

    name: str
    start: float
    low: float
    high: float
    by: str = ""
    unit: str = ""
    pull: float = 0.5


@dataclass(frozen=True)
class Fitted:
    """Constants with their levels, and what they were fitted on.

    Attributes
    ----------
    values : mapping of str to mapping of str to float
        For each constant, its value by level; the level is "" where one value serves all.
    vendors : mapping of str to frozenset of str
        Vendors whose devices were measured at a level.
    accelerators, engines : frozenset of str
        Devices and software levels that were measured.
    """

    values: Mapping[str, Mapping[str, float]]
    vendors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    accelerators: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()


def of_rows(fitted: Fitted, constants: Sequence[Constant], keys: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each constant for each row: a number, or an array where it has levels.

    A level that was not measured takes the geometric mean of the measured levels of the same vendor, and where the
    vendor has none, the start value: an efficiency is never carried from one vendor to another.

    Parameters
    ----------
    fitted : Fitted
        What was fitted.
    constants : sequence of Constant
        The constants of the kind.
    keys : mapping of str to numpy.ndarray
        ``family``, ``engine`` and ``vendor`` of each row.
    """
    found: dict[str, Any] = {}
    for constant in constants:
        levels = fitted.values.get(constant.name, {})
        if not constant.by:
            found[constant.name] = levels.get("", constant.start)
            continue
        pairs = [*zip(keys[constant.by], keys["vendor"], strict=True)]
        values = {pair: value_at(fitted, constant, *pair) for pair in dict.fromkeys(pairs)}
        found[constant.name] = np.array([values[pair] for pair in pairs], dtype=float)
    return found


def value_at(fitted: Fitted, constant: Constant, level: str, vendor: str) -> float:
    """One constant at one level, or what stands in for it.

    >>> e = Constant("e", 0.5, 0.1, 1, "family")
    >>> known = Fitted({"e": {"Volta": 0.4, "Ampere": 0.9}}, {"Volta": frozenset({"A"}), "Ampere": frozenset({"A"})})
    >>> [round(value_at(known, e, *pair), 3) for pair in [("Volta", "A"), ("Hopper", "A"), ("Hopper", "B")]]
    [0.4, 0.6, 0.5]
    """
    levels = fitted.values.get(constant.name, {})
    if level and level in levels:
        return levels[level]
    siblings = [value for other, value in levels.items() if other and vendor in fitted.vendors.get(other, ())]
    return float(np.exp(np.mean(np.log(siblings)))) if siblings else constant.start


def tiers_of_rows(fitted: Fitted, keys: Mapping[str, Any]) -> np.ndarray:
    """How well each row is covered by what was measured: one of `TIERS`.

    Parameters
    ----------
    fitted : Fitted
        What was fitted.
    keys : mapping of str to numpy.ndarray
        ``accelerator``, ``vendor``, ``engine`` and ``moe`` of each row.
    """
    makers = frozenset().union(*fitted.vendors.values()) if fitted.vendors else frozenset()
    known, related, engine = (
        np.array([each in those for each in keys[name]], dtype=bool)
        for name, those in (("accelerator", fitted.accelerators), ("vendor", makers), ("engine", fitted.engines))
    )
    plain = np.select([~related, ~engine, known], [DATASHEET, NEW_ENGINE, SEEN], SIBLING)
    return np.where(np.asarray(keys["moe"], dtype=bool) & (plain != DATASHEET), EXPERTS, plain)


@lru_cache(maxsize=8)
def committed(kind: str) -> Fitted:
    """The constants of a kind from the tables ``training_constants`` and ``training_evidence``.

    Raises
    ------
    ValueError
        If the table has none for this kind.
    """
    rows = catalog.table("training_constants")
    rows = rows[rows["kind"] == kind]
    if rows.empty:
        raise ValueError(f"no constants of {kind!r} in data/training_constants.csv; run: python -m cookbook calibrate")
    values: dict[str, dict[str, float]] = {}
    vendors: dict[str, frozenset[str]] = {}
    for row in rows.itertuples(index=False):
        values.setdefault(row.constant, {})[row.level] = row.value
        if row.level:
            vendors[row.level] = vendors.get(row.level, frozenset()) | frozenset(row.vendors.split(";"))
    seen = catalog.table("training_evidence")
    seen = seen[seen["kind"] == kind]
    return Fitted(values, vendors, frozenset(seen["accelerator"]), frozenset(seen["engine"]))


@lru_cache(maxsize=64)
def figure(name: str) -> float:
    """A figure of the table ``constants`` that is not fitted, in SI."""
    row = catalog.table("constants").set_index("name").loc[name]
    return units.si(f"{row['value']} {row['unit']}") if row["unit"] else float(row["value"])
