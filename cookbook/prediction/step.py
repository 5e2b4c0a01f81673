"""From scenarios to predictions: constants, parts, correction by similar measurements, intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cookbook.prediction import similar, transformer_memory, widths
from cookbook.prediction.constants import Fitted, coded, committed, of_rows, tiers_of_rows
from cookbook.prediction.measurements import module_of
from cookbook.prediction.record import Prediction

# What the rate is where the row does not say what it counts.
UNITS = {"training_classic": "samples/s", "training_transformer": "s", "inference": "samples/s"}
KEYS = ("accelerator", "vendor", "family", "engine", "scale", "moe")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Scenarios with all that does not change while formulas run: constants, tier and interval of each row.

    Attributes
    ----------
    kind : str
        Kind of training.
    scenarios : object
        As the kind's module made them.
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
    scenarios: Any
    constants: Mapping[str, Any]
    tier: np.ndarray
    factors: Mapping[int, np.ndarray]
    remark: np.ndarray


def prepare(kind: str, scenarios: Any, fitted: Fitted | None = None) -> Prepared:
    """Look up constants, tiers and intervals of scenarios.

    Parameters
    ----------
    kind : str
        Kind of training.
    scenarios : object
        As the kind's module made them.
    fitted : Fitted, optional
        Other constants than the committed ones.
    """
    known = committed(kind) if fitted is None else fitted
    codes, distinct = coded(*(scenarios.tier_keys[name] for name in KEYS))
    columns = np.array(distinct, dtype=object).reshape(-1, len(KEYS)).T
    keys = dict(zip(KEYS, columns, strict=True))
    keys["moe"] = keys["moe"] == "True"
    tier = tiers_of_rows(known, keys)
    factors = {level: each[codes] for level, each in widths.factors(kind, tier, keys["scale"]).items()}
    constants = of_rows(known, module_of(kind).CONSTANTS, keys)
    each_row = {name: value[codes] if np.ndim(value) else value for name, value in constants.items()}
    remarks = [widths.remark(kind, *pair) for pair in zip(tier.tolist(), keys["scale"].tolist(), strict=True)]
    return Prepared(kind, scenarios, each_row, tier[codes], factors, np.array(remarks, dtype=object)[codes])


def predict_prepared(
    prepared: Prepared, neighbours: bool = True, terms: Mapping[str, bool] | None = None, memory: bool = True
) -> Prediction:
    """Predictions for prepared scenarios.

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
    module, scenarios = module_of(prepared.kind), prepared.scenarios
    if not np.any(np.asarray(scenarios.why) == ""):
        return _nothing(prepared)
    with np.errstate(all="ignore"):
        parts = module.parts(scenarios, prepared.constants, terms)
        plain = module.step_seconds(parts)
        factor, used, named = _correction(prepared, neighbours)
        seconds = plain * factor
        rate = module.outcome(scenarios, seconds)
    good = np.isfinite(seconds) & (seconds > 0) & np.isfinite(rate) & (rate > 0)
    point = np.where(good, seconds, np.nan)
    half80, half90 = prepared.factors[80], prepared.factors[90]
    return Prediction(
        kind=prepared.kind, point=point, rate=np.where(good, rate, np.nan),
        unit=np.full(len(point), UNITS[prepared.kind], dtype=object),
        low80=point / half80, high80=point * half80, low90=point / half90, high90=point * half90,
        parts=parts, tier=prepared.tier, remark=prepared.remark, why=_why(scenarios, good),
        neighbours=used, similar=named,
        **(_memory(prepared) if memory else {}),
    )  # fmt: skip


def _nothing(prepared: Prepared) -> Prediction:
    """No prediction at all, where no scenario can be."""
    size = len(prepared.tier)
    names = ("point", "low80", "high80", "low90", "high90", "rate")
    numbers: dict[str, Any] = {name: np.full(size, np.nan) for name in names}
    memory: dict[str, Any] = {"memory_bytes": np.full(size, np.nan), "fits": np.full(size, "", dtype=object)}
    return Prediction(
        kind=prepared.kind, parts={}, unit=np.full(size, UNITS[prepared.kind], dtype=object),
        tier=prepared.tier, neighbours=np.zeros(size, dtype=int),
        why=np.asarray(prepared.scenarios.why, dtype=object), **numbers, **memory,
    )  # fmt: skip


def predict_scenarios(kind: str, scenarios: Any, neighbours: bool = True) -> Prediction:
    """Predictions for scenarios with the committed constants; see `predict_prepared`."""
    return predict_prepared(prepare(kind, scenarios), neighbours)


def _why(scenarios: Any, good: np.ndarray) -> np.ndarray:
    why = np.asarray(scenarios.why, dtype=object)
    return np.where((why == "") & ~good, "the formulas give no finite time for this row: check its sizes", why)


def _correction(prepared: Prepared, wanted: bool) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Factor on the time of a step, how many similar measurements gave it, and for one scenario which."""
    size = len(prepared.tier)
    found = similar.correct(prepared.kind, prepared.scenarios) if wanted else None
    if found is None:
        return np.ones(size), np.zeros(size, dtype=int), ()
    factor = found.factor if UNITS[prepared.kind] == "s" else 1 / found.factor
    return factor, found.count, tuple(found.rows[0].tolist()) if size == 1 else ()


def _memory(prepared: Prepared) -> dict[str, Any]:
    """Device memory by part, in all, and whether it fits, for the kinds that know it."""
    if prepared.kind == "inference":
        return _told(module_of(prepared.kind).memory_parts(prepared.scenarios), prepared.scenarios.memory_bytes)
    if prepared.kind != "training_transformer":
        return {}
    known = committed(prepared.kind).values
    constants = {each.name: known.get(each.name, {}).get("", each.start) for each in transformer_memory.CONSTANTS}
    parts = transformer_memory.memory_parts(prepared.scenarios, constants)
    return _told(parts, prepared.scenarios.memory / prepared.scenarios.cores)


def _told(parts: Mapping[str, np.ndarray], capacity: np.ndarray) -> dict[str, Any]:
    total = np.asarray(sum(parts.values()))
    fits = np.where(total <= capacity, "yes", "no")
    return {
        "memory": parts,
        "memory_bytes": total,
        "fits": np.where(np.isfinite(total) & np.isfinite(capacity), fits, ""),
    }
