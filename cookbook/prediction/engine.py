"""The one road from a scenario to an estimate: terms of its kind, constants, similar measurements, intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from cookbook.prediction import neighbours, widths
from cookbook.prediction.constants import NEW_ENGINE, SEEN, SIBLING, Fitted, committed, figure, of_rows, tiers_of_rows
from cookbook.prediction.estimate import Estimate
from cookbook.prediction.rows import KEYS, Rows, each_row
from cookbook.prediction.scenario import Scenario, together

# What the rate is where the row does not say what it counts.
UNITS = {
    "training_classic": "samples/s",
    "training_transformer": "s",
    "inference": "samples/s",
    "generation": "tokens/s",
}
TERMS = {"training_classic": "networks", "training_transformer": "transformer_step", "inference": "forward",
         "generation": "generation"}  # fmt: skip
# Answers of language models are made of forward passes, with their constants.
FITTED_AS = {"generation": "inference"}
NOT_FINITE = "the formulas give no finite time for this row: check its sizes"
# Rows at a time: their arrays stay in the processor's cache. Two blocks run side by side.
BLOCK, WORKERS = 16384, 2


def terms_of(kind: str) -> Any:
    """The module that lists the terms of a kind of prediction: constants, rows, parts, outcome, memory.

    Parameters
    ----------
    kind : str
        "training_classic", "training_transformer", "inference" or "generation".

    Raises
    ------
    ValueError
        Any other kind.
    """
    if kind not in TERMS:
        raise ValueError(f"kind = {kind!r} is not modelled; take one of {', '.join(TERMS)}")
    return import_module(f"cookbook.prediction.terms.{TERMS[kind]}")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows with all that does not change while formulas run: constants, tier and interval of each row.

    Attributes
    ----------
    kind : str
        Kind of prediction.
    rows : Rows
        As the kind's terms made them.
    constants : dict
        Value of each constant, one a row where it has levels.
    tier : numpy.ndarray of str
        Evidence tier of each row.
    factors : dict of int to numpy.ndarray
        Interval of each row as a factor, by level in per cent.
    remark : numpy.ndarray of str
        What to mind about the interval of each row.
    """

    kind: str
    rows: Rows
    constants: Mapping[str, Any]
    tier: np.ndarray
    factors: Mapping[int, np.ndarray]
    remark: np.ndarray


def prepare(kind: str, rows: Rows, fitted: Fitted | None = None) -> Prepared:
    """Look up constants, tiers and intervals of rows.

    Parameters
    ----------
    kind : str
        Kind of prediction.
    rows : Rows
        As the kind's terms made them.
    fitted : Fitted, optional
        Other constants than the committed ones.
    """
    module, like = terms_of(kind), FITTED_AS.get(kind, kind)
    known = committed(like) if fitted is None else fitted
    distinct = together(*(rows.keys[name] for name in KEYS))
    columns = np.empty((len(KEYS), len(distinct.levels)), dtype=object)
    for at, level in enumerate(distinct.levels):
        columns[:, at] = level
    keys = dict(zip(KEYS, columns, strict=True))
    keys["moe"] = keys["moe"].astype(bool)
    tier = tiers_of_rows(known, keys)
    codes = each_row(distinct.codes, len(rows))
    factors = {level: each[codes] for level, each in widths.factors(like, tier, keys["scale"]).items()}
    constants = of_rows(known, module.CONSTANTS, keys)
    by_row = {name: value[codes] if np.ndim(value) else value for name, value in constants.items()}
    remarks = [widths.remark(like, *pair) for pair in zip(tier.tolist(), keys["scale"].tolist(), strict=True)]
    tier = tier[codes]
    if like != kind:
        # No engine was fitted to language models, so intervals are those of answers that were composed.
        tier = np.where(np.isin(tier, (SEEN, SIBLING)), NEW_ENGINE, tier)
        factors = {level: np.full(len(rows), figure(f"generation-interval-{level}")) for level in factors}
    if "dimensions_known" in rows.values:
        # Dimensions that follow from a number of parameters alone: no better known than another stack.
        bare = (rows.dimensions_known == 0) & np.isin(tier, (SEEN, SIBLING))
        tier = np.where(bare, NEW_ENGINE, tier) if np.any(bare) else tier
    return Prepared(kind, rows, by_row, tier, factors, np.array(remarks, dtype=object)[codes])


def estimate(
    scenario: Scenario, neighbours: bool = True, refuse: Callable[[Rows, Scenario], np.ndarray] | None = None
) -> Estimate:
    """Estimates of all rows of a scenario, with the committed constants.

    Parameters
    ----------
    scenario : Scenario
        The rows.
    neighbours : bool
        Whether similar measurements correct the point.
    refuse : callable, optional
        Further reasons why a row cannot be, such as `terms.layouts.impossible`.
    """

    def one(part: Scenario) -> Estimate:
        rows = terms_of(scenario.kind).resolve(part)
        if refuse is not None:
            why = refuse(rows, part)
            if np.any(why != ""):
                # What a caller's own configuration lacks is told with its remedy, before what any row is refused for.
                rows = replace(rows, why=np.where((part.why == "") & (why != ""), why, rows.why.astype(object)))
        return estimate_rows(prepare(scenario.kind, rows), neighbours)

    if len(scenario) <= BLOCK:
        return one(scenario)
    starts = range(0, len(scenario), BLOCK)
    with ThreadPoolExecutor(WORKERS) as pool:
        return Estimate.joined(list(pool.map(lambda at: one(scenario.take(slice(at, at + BLOCK))), starts)))


def estimate_rows(
    prepared: Prepared, neighbours: bool = True, terms: Mapping[str, bool] | None = None, memory: bool = True
) -> Estimate:
    """Estimates of prepared rows.

    Parameters
    ----------
    prepared : Prepared
        From `prepare`.
    neighbours : bool
        Whether similar measurements correct the point.
    terms : mapping of str to bool, optional
        Terms to switch off.
    memory : bool
        Whether to tell device memory too, for the kinds that know it.
    """
    module, rows = terms_of(prepared.kind), prepared.rows
    size = len(rows)
    known = rows.why == ""
    if not known.any():
        return _nothing(prepared)
    with np.errstate(all="ignore"):
        parts = module.parts(rows, prepared.constants, terms)
        plain = module.step_seconds(parts)
        factor, used, named = _correction(prepared, neighbours)
        seconds = plain * factor
        rate = module.outcome(rows, seconds)
        good = known & np.isfinite(seconds) & (seconds > 0) & np.isfinite(rate) & (rate > 0)
        told = _memory(module, prepared) if memory else {}
    why = rows.why
    if not good.all():
        seconds, rate = np.where(good, seconds, np.nan), np.where(good, rate, np.nan)
        why = np.where(good | ~known, why.astype(object), NOT_FINITE)
        parts = {name: np.where(good, part, np.nan) for name, part in parts.items()}
        told = {name: _without(value, good) for name, value in told.items()}
    half80, half90 = prepared.factors[80], prepared.factors[90]
    return Estimate(
        kind=prepared.kind, point=each_row(seconds, size), rate=each_row(rate, size),
        unit=UNITS[prepared.kind],
        low80=seconds / half80, high80=seconds * half80, low90=seconds / half90, high90=seconds * half90,
        parts=parts, tier=prepared.tier, remark=prepared.remark, why=why, neighbours=used, similar=named,
        tokens=each_row(module.tokens(rows), size), rows=rows, **told,
    )  # fmt: skip


def _without(value: Any, good: np.ndarray) -> Any:
    if isinstance(value, Mapping):
        return {name: np.where(good, part, np.nan) for name, part in value.items()}
    return np.where(good, value, "" if value.dtype.kind in "OU" else np.nan)


def _nothing(prepared: Prepared) -> Estimate:
    """No estimate at all, where no row can be."""
    size = len(prepared.rows)
    names = ("point", "low80", "high80", "low90", "high90", "rate", "memory_bytes", "tokens")
    numbers: dict[str, Any] = {name: np.full(size, np.nan) for name in names}
    return Estimate(
        kind=prepared.kind, parts={}, unit=UNITS[prepared.kind], tier=prepared.tier, fits=np.full(size, "", object),
        neighbours=np.zeros(size, dtype=int), why=np.asarray(prepared.rows.why, dtype=object), rows=prepared.rows,
        **numbers,
    )  # fmt: skip


def _correction(prepared: Prepared, wanted: bool) -> tuple[Any, np.ndarray, tuple[str, ...]]:
    """Factor on the time of a step, how many similar measurements gave it, and for one scenario which."""
    size = len(prepared.rows)
    found = neighbours.correct(prepared.kind, terms_of(prepared.kind).runs(prepared.rows), size) if wanted else None
    if found is None:
        return 1.0, np.zeros(size, dtype=int), ()
    factor = found.factor if UNITS[prepared.kind] == "s" else 1 / found.factor
    return factor, found.count, tuple(found.rows[0].tolist()) if size == 1 else ()


def _memory(module: Any, prepared: Prepared) -> dict[str, Any]:
    """Device memory by part, in all, and whether it fits, for the kinds that know it."""
    if not hasattr(module, "memory_parts"):
        return {}
    parts, capacity = module.memory_parts(prepared.rows, memory_constants(prepared.kind))
    total = np.asarray(sum(parts.values()))
    fits = np.where(total <= capacity, "yes", "no")
    size = len(prepared.rows)
    return {
        "memory": {name: each_row(part, size) for name, part in parts.items()},
        "memory_bytes": each_row(total, size),
        "fits": each_row(np.where(np.isfinite(total) & np.isfinite(capacity), fits, ""), size),
    }


def memory_constants(kind: str) -> dict[str, float]:
    """The constants of device memory of a kind that knows it."""
    known = committed(FITTED_AS.get(kind, kind)).values
    return {each.name: known.get(each.name, {}).get("", each.start) for each in terms_of(kind).MEMORY_CONSTANTS}
