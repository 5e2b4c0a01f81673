"""The one road from a scenario to an answer: terms of its kind, constants, similar measurements, intervals, bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog.parts import part_groups
from cookbook.catalog.refusals import Refusal, code_of, refused
from cookbook.prediction import constants, neighbours
from cookbook.prediction.assumptions import Assumptions
from cookbook.prediction.constants import Fitted, committed, of_rows, tiers_of_rows
from cookbook.prediction.kinds.constraints import with_usual_configurations
from cookbook.prediction.scenario import KEYS, Coded, Rows, Scenario, each_row, together
from cookbook.prediction.software import lacking
from cookbook.result import Result, plain

COLUMNS = (
    "point",
    "low80",
    "high80",
    "low90",
    "high90",
    "bound_low",
    "bound_high",
    "rate",
    "unit",
    "tokens_per_s",
    "bottleneck",
    "memory_bytes",
    "fits",
    "tier",
    "remark",
    "neighbours",
    "assumed",
    "why",
    "reason",
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Result):
    """Estimated training steps or forward passes, one entry a scenario; numbers where there is one scenario.

    Attributes
    ----------
    kind : str
        One of `scenario.KINDS`.
    point : numpy.ndarray
        Time of one step, waiting for input included where that is asked for, or of one forward pass [s].
    low80, high80, low90, high90 : numpy.ndarray
        Intervals of the time of one step at 80 and 90 per cent [s]; NaN where none has been calibrated.
    parts : mapping of str to numpy.ndarray
        Time by part [s].
    rate, unit : numpy.ndarray, str
        The outcome in the unit in which it is usually reported.
    tokens : numpy.ndarray
        Tokens of one step or pass of all devices, of language models; NaN of other networks.
    memory : mapping of str to numpy.ndarray
        Device memory by part [B]; empty where the kind has none.
    memory_bytes, fits : numpy.ndarray
        Device memory in all [B], and whether it fits: "yes", "no", or "" where that cannot be said.
    tier, remark : numpy.ndarray of str
        How well measurements cover the scenario, and what to mind about its interval.
    assumed : numpy.ndarray of str
        Fields that were not given, with the value taken.
    neighbours : numpy.ndarray
        Similar measurements that corrected the point.
    similar : tuple of str
        Rows of the tables of measurements that corrected it, where there is one scenario.
    why : numpy.ndarray of str
        Why there is no estimate; "" where there is one. `reason` is its code.
    sources : tuple of str
        Keys of the sources that the constants, the device and the similar measurements come from.
    measured : tuple of Measurement
        Measured runs of exactly this case, with any version of the engine; one tuple a scenario where there are
        several, all of them empty where more than 16,384 were asked at once.
    """

    _class_in_repr = False
    kind: str
    point: Any
    low80: Any
    high80: Any
    low90: Any
    high90: Any
    parts: Mapping[str, Any] = field(repr=False)
    rate: Any
    unit: str
    tier: Any
    why: Any
    remark: Any = ""
    memory: Mapping[str, Any] = field(default_factory=dict, repr=False)
    memory_bytes: Any = np.nan
    fits: Any = ""
    tokens: Any = np.nan
    neighbours: Any = 0
    similar: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=(), repr=False)
    told: Any = field(default=None, repr=False)
    rows: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("parts", "memory"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __len__(self) -> int:
        return int(np.size(self.point))

    def summary(self) -> str:
        """Return the time with its interval and evidence, or why there is none; of several estimates their number."""
        if len(self) != 1:
            finite = int(np.isfinite(self.point).sum())
            return f"{len(self):,} estimated {self._units[1]}, {finite:,} of them with a number"
        one = self.one() if np.ndim(self.point) else self
        if one.why:
            return f"no estimate: {one.why}"
        low, high = units.human(one.low80, "s"), units.human(one.high80, "s")
        corrected = f", {one.corrected}" if one.neighbours else ""
        remark = f"; interval: {one.remark}" if one.remark else ""
        lacks = f"DOES NOT FIT in device memory, {one._lacking}; if it did: " if one.fits == "no" else ""
        time = f"{lacks}{units.human(one.point, 's')} per {self._units[0]}"
        runs = one._first_facts.get("measured", "")
        measured = f"; measured: {runs}" if runs else ""
        return f"{time}, 80 % within {low} to {high} ({one.tier}{corrected}{remark}){measured}"

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return no table: several estimates are those of `frame`."""
        return {}

    def facts(self) -> dict[str, str]:
        """Return measured runs and the estimate in their unit, or its interval; bottleneck, evidence, assumptions.

        Of a single estimate; or why there is none.
        """
        if len(self) != 1:
            return {"table": ".frame() shows them all"}
        one = self.one() if np.ndim(self.point) else self
        if one.why:
            return {"why": one.why}
        facts = one._first_facts or {
            "80 % interval": f"{units.human(one.low80, 's')} to {units.human(one.high80, 's')}"
        }
        facts |= {
            "bottleneck": one.bottleneck.replace("_", " "),
            "evidence": one.tier,
            "throughput": f"{one.tokens_per_s:,.4g} tokens/s" if np.isfinite(one.tokens_per_s) else "",
            "fits": f"{one.fits} ({units.human(one.memory_bytes, 'iB')} per device)" if one.fits else "",
            "assumed": one.assumed,
        }
        return {name: fact for name, fact in facts.items() if fact}

    def _headline(self) -> str:
        if len(self) != 1:
            return self.summary()
        one = self.one() if np.ndim(self.point) else self
        head = f"{units.human(one.point, 's')} per {self._units[0]}"
        if one.fits == "no":
            head = f"Does not fit in device memory, {one._lacking}; if it did: {head}"
        return "No estimate" if one.why else head

    @property
    def _first_facts(self) -> dict[str, str]:
        """Return measured runs of a single scenario, and the estimate in their unit; nothing where there are none."""
        from cookbook.prediction.measurements import stated

        runs = self.measured
        if not runs:
            return {}
        ends = [self.point, self.low80, self.high80]
        if self.unit != "s":  # a rate falls where the time rises
            ends = [self.rate * self.point / seconds for seconds in (self.point, self.high80, self.low80)]
        point, low, high = (units.human(end, "s") if self.unit == "s" else units.figure(end) for end in ends)
        named = "" if self.unit == "s" else f" {self.unit}"
        facts = stated(runs, f"{point}{named} ({low} to {high}, 80 %)")
        return {name.lower(): fact for name, fact in facts.items()}

    @property
    def _lacking(self) -> str:
        """Return what a single scenario lacks to fit device memory, in words."""
        return f"of which it takes {units.human(self.memory_bytes, 'iB')}"

    @property
    def _units(self) -> tuple[str, str]:
        of_kind = {"inference": ("pass", "passes"), "generation": ("batch or request", "batches or requests")}
        return of_kind.get(self.kind, ("step", "steps"))

    @property
    def corrected(self) -> str:
        """Return the correction by the nearest measurements, in words."""
        count = int(np.max(self.neighbours, initial=0))
        return f"corrected by {count} similar measurement{'' if count == 1 else 's'}" if count else "not corrected"

    @property
    def assumed(self) -> Any:
        """Return the fields that were not given, with their values: "software = megatron-core (tuned); zero = 1"."""
        if self.told is not None:
            return self.told
        assumptions = (
            self.rows.assumptions() if self.rows is not None else np.array([Assumptions()] * len(self), dtype=object)
        )
        return assumptions if np.ndim(self.point) else assumptions[0]

    @property
    def measured(self) -> tuple[Any, ...]:
        """Return measured runs of exactly this case, newest first; one tuple per scenario where there are several."""
        from cookbook.prediction.measurements import matching

        has_rows = self.rows is not None
        runs = matching(self.kind, self.rows, self.unit, terms_of(self.kind)) if has_rows else ((),) * len(self)
        return runs if np.ndim(self.point) else runs[0]

    @property
    def reason(self) -> Any:
        """Return the stable code of `why`, a row of ``data/schema/reasons.csv``; "" where there is an estimate."""
        return code_of(self.why)

    @property
    def tokens_per_s(self) -> Any:
        """Return the throughput of all devices, of language models [tokens/s]; NaN of other networks."""
        return self.tokens / self.point

    @property
    def by_part(self) -> dict[str, Any]:
        """Return the parts, added up under the names that every chart uses [s]."""
        return {
            name: sum(self.parts[part] for part in group.parts if part in self.parts)
            for name, group in part_groups().items()
            if any(part in self.parts for part in group.parts)
        }

    @property
    def bound_low(self) -> Any:
        """Return the largest part: a step in which all parts overlap [s]."""
        return self._stack().max(axis=0)[()]

    @property
    def bound_high(self) -> Any:
        """Return the sum of the parts: a step in which none overlaps [s]."""
        return self._stack().sum(axis=0)[()]

    @property
    def bottleneck(self) -> Any:
        """Return the name of the largest part; "" where there is no estimate."""
        largest, at = np.array(-np.inf), np.array(len(self.parts))
        for number, part in enumerate(self.parts.values()):
            more = part > largest
            largest, at = np.where(more, part, largest), np.where(more, number, at)
        return np.array([*self.parts, ""], dtype=object)[np.where(np.isfinite(self.point), at, len(self.parts))]

    def _stack(self) -> np.ndarray:
        nothing = np.full((1, *np.shape(self.point)), np.nan)
        return np.array([*self.parts.values()], dtype=float) if self.parts else nothing

    def one(self, at: int = 0, **changes: Any) -> Estimate:
        """Return one scenario, its numbers as plain numbers.

        Parameters
        ----------
        at : int
            Which one.
        **changes
            Attributes to set besides.
        """
        entries = {name: _entry(getattr(self, name), at) for name in _NAMES}
        rows = self.rows.take(slice(at, at + 1)) if self.rows is not None and len(self.rows) > 1 else self.rows
        return Estimate(**{**entries, "rows": rows, **changes})

    def frame(self) -> pd.DataFrame:
        """Return all scenarios as a table: the point, intervals, bounds, rate, parts, memory, tier, remark, why ..."""
        named = {name: np.broadcast_to(np.atleast_1d(getattr(self, name)), (len(self),)) for name in COLUMNS}
        parts = {f"{name}_seconds": np.atleast_1d(part) for name, part in self.parts.items()}
        return pd.DataFrame({**named, **parts})

    def to_dict(self) -> dict[str, Any]:
        """Return all as plain values: numbers for one scenario, lists for several; None where a value is missing."""
        names = ("kind", *COLUMNS, "similar", "sources", "measured", "parts", "memory")
        return plain({name: getattr(self, name) for name in names})

    @classmethod
    def joined(cls, parts: Sequence[Estimate]) -> Estimate:
        """Return several estimates of one kind as one, in their order."""
        sizes = [len(part) for part in parts]

        def join(columns: Sequence[Any]) -> Any:
            first = columns[0]
            if isinstance(first, Mapping):
                names = dict.fromkeys(name for column in columns for name in column)
                nothing = [np.full(size, np.nan) for size in sizes]
                pairs = list(zip(columns, nothing, strict=True))
                return {name: join([column.get(name, blank) for column, blank in pairs]) for name in names}
            if isinstance(first, (str, tuple)) and not isinstance(first, np.ndarray):
                return first
            return np.concatenate([np.broadcast_to(c, (n,)) for c, n in zip(columns, sizes, strict=True)])

        names = [item.name for item in fields(cls) if item.name not in ("told", "rows")]
        changed = {name: join([getattr(part, name) for part in parts]) for name in names}
        return replace(
            parts[0], **changed, told=join([np.asarray(part.assumed, dtype=object) for part in parts]), rows=None
        )


_NAMES = tuple(item.name for item in fields(Estimate) if item.name != "rows")


def _entry(value: Any, at: int) -> Any:
    """Return one entry of a column, or of each column of a mapping; any other value as it is."""
    if isinstance(value, Mapping):
        return {name: _entry(column, at) for name, column in value.items()}
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    return value[at].item() if value.dtype != object else value[at]


# What the rate is where the row does not say what it counts.
UNITS = {
    "training_classic": "samples/s",
    "training_transformer": "s",
    "inference": "samples/s",
    "generation": "tokens/s",
    "input_pipeline": "samples/s",
}
TERMS = {
    "training_classic": "networks",
    "training_transformer": "transformer_step",
    "inference": "forward",
    "generation": "generation",
    "input_pipeline": "input_pipeline",
}
# Answers of language models are made of forward passes, with their constants; input pipelines of rows of storage.
FITTED_AS = {"input_pipeline": "storage"}
NOT_FINITE = Refusal("the formulas give no finite time for this row: check its sizes", "no-finite-time")
# Kinds whose rows are laid out on several devices.
CONFIGURED = ("training_transformer",)
# Rows at a time: their arrays stay in the processor's cache. Two blocks run side by side.
BLOCK_ROWS, WORKERS = 16384, 2


def terms_of(kind: str) -> Any:
    """Return the module of a kind of prediction: its constants, rows, parts, outcome and memory.

    Raises
    ------
    ValueError
        Any other kind.
    """
    if kind not in TERMS:
        raise refused("kind", kind, f"is not modelled; take one of {', '.join(TERMS)}")
    return import_module(f"cookbook.prediction.kinds.{TERMS[kind]}")


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
    """Look up constants, tiers and intervals of rows; `fitted` stands in for the committed constants."""
    like, module = FITTED_AS.get(kind, kind), terms_of(kind)
    if hasattr(module, "evidence"):
        values, tier, remark = module.evidence(rows)
        return Prepared(kind, rows, values, tier, {}, remark)
    distinct = together(*(rows.keys[name] for name in KEYS))
    values, tier, factors, remark = _at_levels(kind, committed(like) if fitted is None else fitted, distinct.levels)
    codes = each_row(distinct.codes, len(rows))
    several = (rows.assumed_count() >= constants.MANY_ASSUMED).astype(int)
    tier, factors = tier[codes], {level: factor[codes, several] for level, factor in factors.items()}
    by_row = {name: value[codes] if np.ndim(value) else value for name, value in values.items()}
    if "dimensions_known" in rows.values:
        # Dimensions that follow from a number of parameters alone: no better known than another stack.
        bare = rows.values["dimensions_known"] == 0
        near = bare & np.isin(tier, (constants.SEEN, constants.SIBLING))
        tier = np.where(near, constants.NEW_ENGINE, tier) if np.any(bare) else tier
    prepared = Prepared(kind, rows, by_row, tier, factors, remark[codes])
    calibrated = rows.keys.get("calibrated")
    return prepared if calibrated is None or not any(calibrated.levels) else _measured_here(prepared, calibrated)


def _measured_here(prepared: Prepared, calibrated: Coded) -> Prepared:
    """Return rows with corrected constants and intervals of held-out measurements where devices were calibrated."""
    kind, size, values = prepared.kind, len(prepared.rows), dict(prepared.constants)
    for name, what in terms_of(kind).CALIBRATED.items():
        factor = calibrated.each(partial(_factor, what=what, kind=kind))
        values[name] = values[name] * each_row(factor, size)
    here = each_row(calibrated.where(lambda device: device is not None and device.here and kind in device.kinds), size)
    factors = {
        level: np.where(here, each_row(calibrated.each(partial(_spread, level=level)), size), value)
        for level, value in prepared.factors.items()
    }
    tier = np.where(here, constants.HERE, prepared.tier)
    return replace(prepared, constants=values, tier=tier, factors=factors, remark=np.where(here, "", prepared.remark))


def _factor(calibrated: Any, what: str, kind: str) -> float:
    """Return the factor of a calibrated device on a constant; 1 without one."""
    return 1.0 if calibrated is None else calibrated.of(what, kind)


def _spread(calibrated: Any, level: int) -> float:
    """Return the spread of a calibrated device at a level in per cent; NaN without one."""
    return np.nan if calibrated is None else dict(calibrated.spreads).get(level, np.nan)


@lru_cache(maxsize=256)
def _at_levels(
    kind: str, fitted: Fitted, levels: tuple[tuple[Any, ...], ...]
) -> tuple[dict[str, Any], np.ndarray, dict[int, np.ndarray], np.ndarray]:
    """Return constants, tier, factors and remark of several combinations of `KEYS`."""
    columns = np.empty((len(KEYS), len(levels)), dtype=object)
    for at, level in enumerate(levels):
        columns[:, at] = level
    keys = dict(zip(KEYS, columns, strict=True))
    like, tier = FITTED_AS.get(kind, kind), tiers_of_rows(fitted, keys)
    remarks = [constants.remark(like, name) for name in tier.tolist()]
    values = of_rows(fitted, terms_of(kind).CONSTANTS, keys)
    return values, tier, constants.factors(like, tier), np.array(remarks, dtype=object)


def requested_rows(scenario: Scenario) -> Rows:
    """Return the rows that a reader requests by any public function, with the reasons why some are impossible.

    Measured rows are resolved without: they ran, whatever their cells say.
    """
    module = terms_of(scenario.kind)
    scenario, rows = _configured(scenario) if scenario.kind in CONFIGURED else (scenario, module.resolve(scenario))
    reasons = [lacking(scenario), *([module.impossible(rows, scenario)] if hasattr(module, "impossible") else [])]
    nonempty, refused = (
        [reason for reason in reasons if reason.ndim],
        rows.why,
    )  # of one word for all rows, nothing is said
    # Formulas take a grid as a whole: rows that they would refuse have no numbers there.
    rows = replace(rows.masked(), why=refused) if rows.in_grid else rows
    if not nonempty:
        return rows
    why = nonempty[0] if len(nonempty) == 1 else np.where(nonempty[0] == "", nonempty[1], nonempty[0])
    # A gap in a reader's own configuration is reported with its remedy, before the reason why any row is refused.
    return replace(rows, why=np.where((scenario.why == "") & (why != ""), why, refused.astype(object)))


def _configured(scenario: Scenario) -> tuple[Scenario, Rows]:
    """Return steps with a parallelism configuration: the usual one where the reader states none."""
    module, constants = terms_of(scenario.kind), memory_constants(scenario.kind)

    def over(rows: Rows) -> np.ndarray:
        parts, capacity = module.memory_parts(rows, constants)
        return each_row(np.asarray(sum(parts.values()) - capacity), len(rows))

    def estimated(candidate: Scenario) -> Estimate:
        return estimate_rows(prepare(candidate.kind, module.resolve(candidate, constants)), neighbours=False)

    rows = module.resolve(scenario, constants)
    whole, assumed = with_usual_configurations(scenario, rows, over, estimated)
    if assumed:
        rows = module.resolve(whole, constants)
        rows = replace(rows, assumed=(*assumed, *rows.assumed))
    return whole, rows


def estimate(scenario: Scenario, neighbours: bool = True) -> Estimate:
    """Return estimates of all rows of a scenario, with the committed constants.

    `neighbours` says whether similar measurements correct the point. Of rows in a grid, each array has as many entries
    along an axis as it depends on, and parts have numbers of rows without an estimate too.
    """

    def one(part: Scenario) -> Estimate:
        return estimate_rows(prepare(scenario.kind, requested_rows(part)), neighbours)

    if scenario.in_grid or len(scenario) <= BLOCK_ROWS:
        return one(scenario)
    starts = range(0, len(scenario), BLOCK_ROWS)
    with ThreadPoolExecutor(WORKERS) as pool:
        return Estimate.joined(list(pool.map(lambda at: one(scenario.take(slice(at, at + BLOCK_ROWS))), starts)))


def estimate_rows(prepared: Prepared, neighbours: bool = True, memory: bool = True) -> Estimate:
    """Return estimates of prepared rows; `memory` asks for device memory, too."""
    module, rows = terms_of(prepared.kind), prepared.rows
    possible, size = rows.why == "", _size(rows)
    if not possible.any():
        return _nothing(prepared)
    with np.errstate(all="ignore"):
        parts = module.parts(rows, prepared.constants)
        uncorrected = module.step_seconds(parts)
        factor, used, named = _correction(prepared, neighbours)
        seconds = uncorrected * factor
        rate = module.outcome(rows, seconds)
        good = possible & np.isfinite(seconds) & (seconds > 0) & np.isfinite(rate) & (rate > 0)
        results = _memory(module, prepared) if memory else {}
        if hasattr(module, "ends"):
            results |= module.ends(rows, prepared.constants, np.where(good, rate, np.nan))
    why = rows.why
    if not good.all():
        seconds, rate = np.where(good, seconds, np.nan), np.where(good, rate, np.nan)
        reasons = module.unanswered(rows, prepared.constants) if hasattr(module, "unanswered") else np.array("")
        why, without_reason = why.astype(object, copy=False), possible & ~good
        why = (
            np.where(without_reason, np.where(reasons == "", NOT_FINITE.cell, reasons), why)
            if without_reason.any()
            else why
        )
        parts, results = _without(parts, good), {name: _without(value, good) for name, value in results.items()}
    for level, half in prepared.factors.items():
        results |= {f"low{level}": seconds / half, f"high{level}": seconds * half}
    return Estimate(
        kind=prepared.kind,
        point=each_row(seconds, size),
        rate=each_row(rate, size),
        unit=UNITS[prepared.kind],
        parts=parts,
        tier=prepared.tier,
        remark=prepared.remark,
        why=why,
        neighbours=used,
        similar=named,
        tokens=each_row(module.tokens(rows), size),
        rows=rows,
        **results,
    )


def _size(rows: Rows) -> int | tuple[int, ...]:
    """Return the number of rows; of rows in a grid, the shape of `why`, which a value that all rows share has, too."""
    return rows.why.shape if rows.in_grid else len(rows)


def _without(value: Any, good: np.ndarray) -> Any:
    """Return values, masked where they are no good."""
    if isinstance(value, Mapping):  # parts of a grid stay as small as they are
        return value if good.ndim > 1 else {name: np.where(good, part, np.nan) for name, part in value.items()}
    return np.where(good, value, "" if value.dtype.kind in "OU" else np.nan)


def _nothing(prepared: Prepared) -> Estimate:
    """Return an estimate without any number, where no row is possible."""
    size = _size(prepared.rows)
    names = ("point", "low80", "high80", "low90", "high90", "rate", "memory_bytes", "tokens")
    numbers: dict[str, Any] = {name: np.full(size, np.nan) for name in names}
    return Estimate(
        kind=prepared.kind,
        parts={},
        unit=UNITS[prepared.kind],
        tier=prepared.tier,
        fits=np.full(size, "", object),
        neighbours=np.zeros(size, dtype=int),
        why=np.asarray(prepared.rows.why, dtype=object),
        rows=prepared.rows,
        **numbers,
    )


def _correction(prepared: Prepared, wanted: bool) -> tuple[Any, np.ndarray, tuple[str, ...]]:
    """Return the factor on the time of a step, the number of similar measurements behind it, and of one scenario
    which."""
    size, module = len(prepared.rows), terms_of(prepared.kind)
    wanted = wanted and hasattr(module, "runs")
    correction = neighbours.correct(prepared.kind, module.runs(prepared.rows), size) if wanted else None
    if correction is None:
        return 1.0, np.zeros(_size(prepared.rows), dtype=int), ()
    factor = correction.factor if UNITS[prepared.kind] == "s" else 1 / correction.factor
    return factor, correction.count, tuple(correction.rows[0].tolist()) if size == 1 else ()


def _memory(module: Any, prepared: Prepared) -> dict[str, Any]:
    """Return device memory by part and in total, and whether it fits, for the kinds that model memory."""
    if not hasattr(module, "memory_parts"):
        return {}
    parts, capacity = module.memory_parts(prepared.rows, memory_constants(prepared.kind))
    total = np.asarray(sum(parts.values()))
    finite, size = np.isfinite(total) & np.isfinite(capacity), _size(prepared.rows)
    fits = np.array(["", "yes", "no"], dtype=object)[np.where(finite, np.where(total <= capacity, 1, 2), 0)]
    return {
        "memory": {name: each_row(part, size) for name, part in parts.items()},
        "memory_bytes": each_row(total, size),
        "fits": each_row(fits, size),
    }


def memory_constants(kind: str) -> dict[str, float]:
    """Return the constants of device memory of a kind that models it."""
    values = committed(FITTED_AS.get(kind, kind)).values
    return {
        constant.name: values.get(constant.name, {}).get("", constant.start)
        for constant in terms_of(kind).MEMORY_CONSTANTS
    }
