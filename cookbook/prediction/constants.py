"""Fitted constants: levels of software, constants by level with stand-ins, evidence tiers and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog

SEEN, SIBLING, NEW_ENGINE, DATASHEET, ADAPTERS, EXPERTS, FIRST_TOKEN, LOADED, IN_FLIGHT = (
    "device and engine measured",
    "sibling device",
    "engine not measured",
    "datasheet only",
    "low-rank adapters",
    "mixture of experts",
    "prompts and first tokens",
    "first tokens under load",
    "requests that come and go",
)
# Of a device that was measured and calibrated where the prediction is made; its intervals are of those measurements.
HERE = "measured here"
# Levels of an interval in per cent; the number of assumed fields from which a scenario has several of them.
LEVELS, MANY_ASSUMED = (80, 90), 2
# A level of which measurements say no more than this share is taken as not measured.
MIN_DETERMINED = 0.05
# From the best known to the least; what is trained or computed in a special way has tiers of its own.
TIERS = (SEEN, SIBLING, NEW_ENGINE, DATASHEET, ADAPTERS, EXPERTS, FIRST_TOKEN, LOADED, IN_FLIGHT)


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
        where micro-benchmarks already say the value; 0 where it is not fitted but stays at the start.
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
    spreads : mapping of str to mapping of str to float
        By how much of each value the measurements leave it open; that of the pull where they say nothing.
    """

    values: Mapping[str, Mapping[str, float]]
    vendors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    accelerators: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()
    spreads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.accelerators, self.engines))


def of_rows(fitted: Fitted, constants: Sequence[Constant], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each constant for each row: a number, or an array where it has levels.

    A level that was not measured takes the geometric mean of the measured levels of the same vendor, software first of
    all that of other releases of the same product, each weighing what its measurements say of it; where there is none,
    the start value: an efficiency of a device is never carried from one vendor to another. `keys` has the ``family``,
    ``engine`` and ``vendor`` of each row.
    """
    by_name: dict[str, Any] = {}
    for constant in constants:
        levels = fitted.values.get(constant.name, {})
        if not constant.by:
            by_name[constant.name] = levels.get("", constant.start)
            continue
        pairs = [*zip(keys[constant.by], keys["vendor"], strict=True)]
        values = {pair: value_at(fitted, constant, *pair) for pair in dict.fromkeys(pairs)}
        by_name[constant.name] = np.array([values[pair] for pair in pairs], dtype=float)
    return by_name


def value_at(fitted: Fitted, constant: Constant, level: str, vendor: str) -> float:
    """Return one constant at one level, or what stands in for it.

    >>> e = Constant("e", 0.5, 0.1, 1, "family")
    >>> known = Fitted({"e": {"Volta": 0.4, "Ampere": 0.9}}, {"Volta": frozenset({"A"}), "Ampere": frozenset({"A"})})
    >>> [round(value_at(known, e, *pair), 3) for pair in [("Volta", "A"), ("Hopper", "A"), ("Hopper", "B")]]
    [0.4, 0.6, 0.5]
    """
    levels, spreads = fitted.values.get(constant.name, {}), fitted.spreads.get(constant.name, {})
    # How much of a level its measurements say, and not the pull: next to nothing where it has stayed at the start.
    determined = {name: 1 - (spreads[name] / constant.pull) ** 2 if name in spreads else 1.0 for name in levels}
    if level and determined.get(level, 0.0) > MIN_DETERMINED:
        return levels[level]
    # Releases and variants of one product ("vllm-2024" of "vllm") are more alike than what runs on one maker's devices.
    siblings = [
        other
        for other in levels
        if constant.by == "engine"
        and level
        and other
        and (level.startswith(f"{other}-") or other.startswith(f"{level}-"))
    ]
    siblings = siblings or [other for other in levels if other and vendor in fitted.vendors.get(other, ())]
    if not siblings:
        return constant.start
    siblings = [other for other in siblings if determined[other] > MIN_DETERMINED] or siblings
    logs = np.log([levels[other] for other in siblings])
    return float(np.exp(np.average(logs, weights=[max(determined[other], MIN_DETERMINED) for other in siblings])))


def tiers_of_rows(fitted: Fitted, keys: Mapping[str, Any]) -> np.ndarray:
    """Return how well measurements cover each row: one of `TIERS`, by device, maker, software and what is run."""
    makers = frozenset().union(*fitted.vendors.values()) if fitted.vendors else frozenset()
    seen, related, engine = (
        np.array([key in those for key in keys[name]], dtype=bool)
        for name, those in (("accelerator", fitted.accelerators), ("vendor", makers), ("engine", fitted.engines))
    )
    plain = np.select([~related, ~engine, seen], [DATASHEET, NEW_ENGINE, SEEN], SIBLING)
    special = np.asarray(keys["special"], dtype=object)
    return np.where((special != "") & ((plain != DATASHEET) | (special == LOADED)), special, plain)


@lru_cache(maxsize=8)
def committed(kind: str) -> Fitted:
    """Return the constants of a kind from the tables ``training_constants`` and ``training_evidence``.

    Raises
    ------
    ValueError
        If the table has none for this kind.
    """
    rows = catalog.table("training_constants")
    rows = rows[rows["kind"] == kind]
    if rows.empty:
        raise ValueError(
            f"no constants of {kind!r} in data/training_constants.csv; run: python -m cookbook dev calibrate"
        )
    values: dict[str, dict[str, float]] = {}
    spreads: dict[str, dict[str, float]] = {}
    vendors: dict[str, frozenset[str]] = {}
    for row in rows.itertuples(index=False):
        values.setdefault(row.constant, {})[row.level] = row.value
        if row.spread > 0:
            spreads.setdefault(row.constant, {})[row.level] = row.spread
        if row.level:
            vendors[row.level] = vendors.get(row.level, frozenset()) | frozenset(row.vendors.split(";"))
    seen = catalog.table("training_evidence")
    seen = seen[seen["kind"] == kind]
    makers = catalog.table("accelerators").set_index("key")["vendor"]
    vendors[""] = frozenset(makers.loc[makers.index.intersection(seen["accelerator"])])  # also where no level differs
    return Fitted(values, vendors, frozenset(seen["accelerator"]), frozenset(seen["engine"]), spreads)


def factors(kind: str, tier: Any) -> dict[int, np.ndarray]:
    """Return, for each level in per cent, the factors that intervals of tiers reach up and down from the point.

    Of shape (tiers, 2): where few fields are assumed, and where several are.
    """
    table, none = _intervals(kind), (np.nan,) * len(LEVELS)
    reaches = [table.get((name, many), none)[: len(LEVELS)] for name in tier for many in (False, True)]
    by_tier = np.array(reaches, dtype=float).reshape(-1, 2, len(LEVELS))
    return {level: by_tier[:, :, at] for at, level in enumerate(LEVELS)}


def remark(kind: str, tier: str) -> str:
    """Return a note about the interval of a tier: "few sources" and the like, or ""."""
    if tier not in TIERS:
        raise ValueError(f"tier = {tier!r} is not one of {', '.join(TIERS)}")
    return str(_intervals(kind).get((tier, False), ("no interval",))[-1])


@lru_cache(maxsize=8)
def _intervals(kind: str) -> dict[tuple[str, bool], tuple[Any, ...]]:
    """Return factors by level, and the note, by tier and whether several fields are assumed; empty where none are."""
    rows = catalog.table("interval_quantiles")
    rows = rows[rows["kind"] == kind]
    return {
        (row.tier, row.assumed == "several"): (row.factor_80, row.factor_90, row.remark)
        for row in rows.itertuples(index=False)
    }
