"""Fits of the constants of one kind of prediction to measurements, holding out a publisher, generation or family.

The fit minimises logarithms of predicted over measured by moving logarithms of constants. Publishers are draws from a
population: an error common to all rows of one counts less than differences between its rows, the less the more rows
it has, and its weight grows with the root of their number (partial pooling; Gelman & Hill, Data Analysis Using
Regression and Multilevel/Hierarchical Models, 2007, chapter 12). The spread within publishers and between them is
estimated from the residuals of the same fit. Residuals beyond `KNEE` spreads count linearly (Huber), so that a few odd
rows do not dominate; a weak pull of each constant towards its start fixes what the rows cannot determine. The fit takes
Gauss-Newton steps with a numerical Jacobian and Levenberg-Marquardt damping, without randomness: the same rows give
the same constants.

The memory of transformer training has a fit and an evaluation of its own, `fit_memory` and `judge_memory`, on
configurations that ran, configurations that ran out of memory, and stated gigabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.evidence import FEW
from cookbook.prediction.constants import Constant, Fitted, of_rows, tiers_of_rows
from cookbook.prediction.engine import terms_of
from cookbook.prediction.kinds import configurations as needs
from cookbook.prediction.kinds import transformer
from cookbook.prediction.neighbours import Measured, Runs, correction
from cookbook.prediction.parsing import tables
from cookbook.prediction.parsing.networks import metric_of
from cookbook.prediction.scenario import Coded, coded

KNEE = 2.0
NUDGE = 1e-3
# Changes of a logarithm, and relative changes of the loss, that count as zero.
TOLERANCE, ENOUGH_GAIN = 1e-4, 1e-6
# Spread of logarithmic errors within a publisher and between publishers: the start of the fit, and its lower
# bound, since identical runs of one publisher differ by 4 to 9 per cent.
SPREADS, MIN_SPREADS = (0.15, 0.1), (0.06, 0.02)
# A larger logarithmic error means that a row was misread.
LARGEST_ERROR = 1.2
# Jacobians of a full fit, and of a warm-started one; steps along each; the largest step of a logarithm.
ROUNDS, OUTER_ROUNDS, STEPS, LEAP = 5, 3, 10, 0.5


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured rows of one kind, ready to be fitted and evaluated.

    `module`: terms of the kind: CONSTANTS, parts, step_seconds, outcome; `scenarios`: what `module.resolve` made of
    them; `measured`: outcomes, NaN where there is none; `group`: publisher of each row; `terms`: terms that are
    switched off; `engine_levels`: whether constants may differ by software level; `clear`: rows of which it is clear
    what was run; the others are predicted, never fitted. All by default; `workload`: family of networks that each row
    belongs to.
    """

    module: Any
    scenarios: Any
    measured: np.ndarray
    group: np.ndarray
    terms: Mapping[str, bool] = field(default_factory=dict)
    engine_levels: bool = True
    clear: np.ndarray | None = None
    workload: np.ndarray | None = None
    habit: np.ndarray | None = None

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Return the constants to fit."""
        return tuple(self.module.CONSTANTS)

    @property
    def keys(self) -> dict[str, np.ndarray]:
        """Return the level keys of the rows; one engine for all where software levels are switched off."""
        keys = {name: self.scenarios.key(name) for name in self.scenarios.keys}
        if not self.engine_levels:
            keys["engine"] = np.full(len(self.measured), "any", dtype=object)
        return keys

    @property
    def usable(self) -> np.ndarray:
        """Return True for rows to fit: clear ones that have an outcome and can be predicted."""
        return self.judged & (True if self.clear is None else self.clear)

    @property
    def judged(self) -> np.ndarray:
        """Return True for rows that have an outcome and can be predicted, clear or not."""
        positive = np.isfinite(self.measured) & (self.measured > 0)
        return positive & (np.asarray(self.scenarios.why) == "")

    def outcome(self, values: Mapping[str, Any]) -> np.ndarray:
        """Return the predicted outcome of every row, in the unit of what was measured."""
        parts = self.module.parts(self.scenarios, values, dict(self.terms) or None)
        predicted = self.module.outcome(self.scenarios, self.module.step_seconds(parts))
        return np.broadcast_to(predicted, len(self.measured))


@dataclass(frozen=True, eq=False)
class _Layout:
    """The index of each constant and level in the vector of unknowns, and the unknown of each row."""

    names: list[tuple[Constant, str]]
    columns: dict[str, np.ndarray]
    starts: dict[str, float]

    def start(self) -> np.ndarray:
        return np.log([constant.start for constant, _ in self.names])

    def pull(self) -> np.ndarray:
        return np.array([constant.pull for constant, _ in self.names])

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = zip(*((constant.low, constant.high) for constant, _ in self.names), strict=True)
        return np.log(low), np.log(high)

    def values(self, unknowns: np.ndarray) -> dict[str, Any]:
        """Return constants for each row.

        A level that is not fitted has its start, as has a constant that no row determines.
        """
        values: dict[str, Any] = dict(self.starts)
        for name, column in self.columns.items():
            constant = next(c for c, _ in self.names if c.name == name)
            column_values = np.where(column >= 0, np.exp(unknowns[column]), constant.start)
            values[name] = column_values if constant.by else float(column_values[0])
        return values


def _layout(rows: Rows, train: np.ndarray) -> _Layout:
    names: list[tuple[Constant, str]] = []
    columns: dict[str, np.ndarray] = {}
    keys = rows.keys
    for constant in (candidate for candidate in rows.constants if candidate.pull):
        if not constant.by:
            columns[constant.name] = np.full(len(train), len(names))
            names.append((constant, ""))
            continue
        column = np.full(len(train), -1)
        for level in sorted(set(keys[constant.by][train].tolist()) - {""}):
            column[keys[constant.by] == level] = len(names)
            names.append((constant, level))
        if np.any(column >= 0):
            columns[constant.name] = column
    return _Layout(names, columns, {constant.name: constant.start for constant in rows.constants})


def _residuals(rows: Rows, layout: _Layout, unknowns: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        residuals = np.log(rows.outcome(layout.values(unknowns)) / rows.measured)
    return np.where(np.isfinite(residuals), residuals, 0.0)


def _jacobian(rows: Rows, layout: _Layout, unknowns: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Return the derivatives of residuals by unknowns; levels of one constant are moved together, as no row has two."""
    jacobian = np.zeros((len(base), len(unknowns)))
    for column in layout.columns.values():
        moved = unknowns.copy()
        moved[np.unique(column[column >= 0])] += NUDGE
        change = (_residuals(rows, layout, moved) - base) / NUDGE
        at = np.flatnonzero(column >= 0)
        jacobian[at, column[at]] = change[at]
    return jacobian


def publisher_weights(group: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return row weights with which every publisher weighs one among chosen rows, and less with fewer than `FEW` rows.

    >>> publisher_weights(np.array(["a", "a", "b", "b"]), np.array([True, True, True, False])).tolist()
    [0.1, 0.1, 0.1, 0.0]
    """
    names, codes = np.unique(group, return_inverse=True)
    counts = np.bincount(codes[chosen], minlength=len(names))
    return np.where(chosen, 1 / np.maximum(counts[codes], FEW), 0.0)


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished fit.

    `fitted`: the constants; `names`: each unknown: its constant and level; `spread`: root of the inverse curvature for
    each: how far, as a share of its value, it may move before the rows object; `jacobian`: change of each row's
    logarithmic error with the logarithm of each unknown; `spreads`: of errors within publishers, and between them.
    """

    fitted: Fitted
    names: list[tuple[Constant, str]]
    spread: np.ndarray
    jacobian: np.ndarray
    spreads: tuple[float, float] = SPREADS


def minimise(rows: Rows, train: np.ndarray, warm: Fit | None = None, rounds: int = ROUNDS) -> Fit:
    """Fit the constants to the chosen rows.

    `rows`: all rows; `train`: which of them may be looked at; rows without an outcome are never used; `warm`: a fit to
    start from instead of the constants' start, its Jacobian included; `rounds`: how often the Jacobian is computed at
    most; steps between follow the last one.
    """
    train = train & rows.usable
    layout = _layout(rows, train)
    low, high = layout.bounds()
    goal = _Goal(rows, layout, np.flatnonzero(train), SPREADS if warm is None else warm.spreads)
    at = goal.point(np.clip(_start_point(layout, warm), low, high))
    jacobian = _jacobian(rows, layout, at.unknowns, at.residuals) if warm is None else _columns(layout, warm)
    for turn in range(rounds):
        if turn:
            jacobian = _jacobian(rows, layout, at.unknowns, at.residuals)
        before, at = at, _descend(goal, jacobian, at)
        goal = replace(goal, spreads=goal.found_spreads(at.residuals))
        at = goal.point(at.unknowns)
        if np.max(np.abs(at.unknowns - before.unknowns), initial=0.0) < TOLERANCE:
            break
    curvature = goal.slopes(at, jacobian)[1]
    spread = np.sqrt(np.diag(np.linalg.inv(curvature)))
    return Fit(_fitted(rows, layout, train, at.unknowns, spread), layout.names, spread, jacobian, goal.spreads)


def _descend(goal: _Goal, jacobian: np.ndarray, at: _Point) -> _Point:
    """Take damped steps along one Jacobian, as long as the loss falls."""
    low, high = goal.layout.bounds()
    damping = 1e-3
    for _ in range(STEPS):
        gradient, curvature = goal.slopes(at, jacobian)
        free = ~((at.unknowns <= low) & (gradient > 0) | (at.unknowns >= high) & (gradient < 0))
        step = np.zeros(len(low))
        damped = curvature + damping * np.diag(np.diag(curvature))
        step[free] = np.linalg.solve(damped[np.ix_(free, free)], -gradient[free])
        trial = goal.point(np.clip(at.unknowns + np.clip(step, -LEAP, LEAP), low, high))
        gain = at.loss - trial.loss
        if gain >= 0:
            at, damping = trial, max(damping / 10, 1e-9)
            if gain < ENOUGH_GAIN * (1 + at.loss):
                break
        else:
            damping = max(damping * 20, 1e-2)
    return at


def _columns(layout: _Layout, warm: Fit) -> np.ndarray:
    """Return the Jacobian of another fit, for the unknowns of this one."""
    place = {(constant.name, level): at for at, (constant, level) in enumerate(warm.names)}
    chosen = [place.get((constant.name, level), -1) for constant, level in layout.names]
    return np.where(np.array(chosen) >= 0, warm.jacobian[:, chosen], 0.0)


@dataclass(frozen=True, eq=False)
class _Point:
    unknowns: np.ndarray
    residuals: np.ndarray
    loss: float


@dataclass(frozen=True, eq=False)
class _Goal:
    """The objective: the pooled Huber loss of the residuals of some rows, and the pull towards the start.

    `at`: places of the rows that count; `spreads`: within publishers, and between them.
    """

    rows: Rows
    layout: _Layout
    at: np.ndarray
    spreads: tuple[float, float]

    @cached_property
    def publisher(self) -> np.ndarray:
        """Return the publisher of each row that counts, as a number."""
        group = self.rows.group if self.rows.habit is None else self.rows.habit
        return np.unique(group[self.at], return_inverse=True)[1]

    @cached_property
    def counts(self) -> np.ndarray:
        """Return the number of rows of each publisher."""
        return np.bincount(self.publisher)

    @property
    def weights(self) -> np.ndarray:
        """Return the weight of each row that counts: those of a publisher together weigh the root of their number."""
        return 1 / np.sqrt(self.counts)[self.publisher]

    @cached_property
    def common(self) -> np.ndarray:
        """Return the part of its publisher's mean subtracted from each row: the root that whitens both spreads."""
        within, between = self.spreads
        return (1 - 1 / np.sqrt(1 + np.sqrt(self.counts) * (between / within) ** 2))[self.publisher]

    def _means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of each publisher, of a column or of several."""
        columns = values.reshape(len(values), -1)
        sums = np.stack([np.bincount(self.publisher, column) for column in columns.T], axis=1)
        return np.asarray((sums / self.counts[:, None])[self.publisher].reshape(values.shape))

    def found_spreads(self, residuals: np.ndarray) -> tuple[float, float]:
        """Return the spread within publishers and between them, as means over publishers.

        Large errors are cut at `KNEE`.
        """
        errors = np.clip(residuals[self.at], -LARGEST_ERROR, LARGEST_ERROR)
        within_errors = errors - self._means(errors)
        within = np.bincount(self.publisher, np.minimum(within_errors**2, (KNEE * self.spreads[0]) ** 2)) / self.counts
        repeated = self.counts > 1
        own = float(np.mean(within[repeated] * (self.counts / np.maximum(self.counts - 1, 1))[repeated]))
        means = np.bincount(self.publisher, errors) / self.counts
        between = float(np.mean(np.minimum(means**2, (KNEE * 2 * self.spreads[1]) ** 2) - own / self.counts))
        return max(own**0.5, MIN_SPREADS[0]), max(max(between, 0.0) ** 0.5, MIN_SPREADS[1])

    def point(self, unknowns: np.ndarray) -> _Point:
        residuals = _residuals(self.rows, self.layout, unknowns)
        size = np.abs(self._whitened(residuals))
        loss = self.weights @ np.where(size <= KNEE, size**2 / 2, KNEE * (size - KNEE / 2))
        away = (unknowns - self.layout.start()) / self.layout.pull()
        return _Point(unknowns, residuals, float(loss + np.sum(away**2) / 2))

    def _whitened(self, residuals: np.ndarray) -> np.ndarray:
        errors = np.clip(residuals[self.at], -LARGEST_ERROR, LARGEST_ERROR)
        return np.asarray((errors - self.common * self._means(errors)) / self.spreads[0])

    def slopes(self, at: _Point, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient, and the Gauss-Newton curvature."""
        size, pull = self._whitened(at.residuals), self.layout.pull()
        robust = self.weights * np.minimum(1, KNEE / np.maximum(np.abs(size), 1e-12))
        change = jacobian[self.at]
        change = (change - self.common[:, None] * self._means(change)) / self.spreads[0]
        gradient = change.T @ (robust * size) + (at.unknowns - self.layout.start()) / pull**2
        return gradient, (change * robust[:, None]).T @ change + np.diag(pull**-2)


def fit(rows: Rows, train: np.ndarray | None = None, warm: Fit | None = None, rounds: int = ROUNDS) -> Fitted:
    """Return the constants that fit the chosen rows best; see `minimise`."""
    return minimise(rows, rows.usable if train is None else train, warm, rounds).fitted


def _start_point(layout: _Layout, warm: Fit | None) -> np.ndarray:
    if warm is None:
        return layout.start()
    start_values = warm.fitted.values
    return np.log([start_values.get(constant.name, {}).get(level, constant.start) for constant, level in layout.names])


def _fitted(rows: Rows, layout: _Layout, train: np.ndarray, unknowns: np.ndarray, spread: np.ndarray) -> Fitted:
    values, spreads = dict[str, dict[str, float]](), dict[str, dict[str, float]]()
    for (constant, level), unknown, open_by in zip(layout.names, unknowns.tolist(), spread.tolist(), strict=True):
        values.setdefault(constant.name, {})[level] = float(np.exp(unknown))
        spreads.setdefault(constant.name, {})[level] = float(f"{open_by:.3g}")  # as the table keeps it
    keys = {name: np.asarray(key)[train] for name, key in rows.keys.items()}
    vendors: dict[str, frozenset[str]] = {}
    for by in sorted({"family", "engine", *(constant.by for constant in rows.constants if constant.by)}):
        for level, vendor in set(zip(keys[by].tolist(), keys["vendor"].tolist(), strict=True)):
            vendors[level] = vendors.get(level, frozenset()) | {vendor}
    accelerators, engines = (frozenset(keys[name].tolist()) for name in ("accelerator", "engine"))
    return Fitted(values, vendors, accelerators, engines, spreads)


SERVED_REASON = "a language model answers token by token, not in one pass"
LEAVE_OUT = ("source", "accelerator", "family")


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Each row as predicted by constants that were fitted without its fold.

    `error`: logarithm of predicted over measured outcome; NaN where there is none; `tier`: how well the rest of the
    measurements covers the row; `neighbours`: similar measurements that corrected it; `fold`: the fold that each row
    was left out with.
    """

    error: np.ndarray
    tier: np.ndarray
    neighbours: np.ndarray
    fold: np.ndarray


@lru_cache(maxsize=8)
def measured_rows(kind: str) -> tuple[Rows, Any]:
    """Return all measured rows of a kind, with the table that they come from.

    `kind`: "training_classic", "training_transformer", "inference" or "generation" (language models that answer).
    """
    module, frame = terms_of(kind), tables.measured_table(kind)
    requests = tables.read(tables.measurements_of(kind), tables.without_outcomes(frame))
    if tables.measurements_of(kind) != kind:
        ((_, requests),) = tables.split(requests)
    scenarios, habit = module.resolve(requests), None
    measured = np.asarray(tables.measured(kind, frame), dtype=float)
    clear = np.isin(frame["id"], tables.clear_rows(frame)["id"])
    group, workload = tables.publishers(frame), workload_families(module, scenarios, frame)
    if kind == "inference":
        # Answers of language models are more than one pass; they are evaluated elsewhere.
        scenarios = replace(scenarios, why=np.where(requests.columns["served"], SERVED_REASON, scenarios.why))
        clear = clear & ~tables.needs_care(frame)
    if hasattr(module, "strata"):
        # A publisher's habits are per kind of measurement: latencies do not inform rates.
        habit = np.char.add(group.astype(str), module.strata(scenarios).astype(str))
    if "metric" in frame:
        frame = frame.assign(unit=["passes/s" if metric_of(metric).delay else metric for metric in frame["metric"]])
    return Rows(module, scenarios, measured, group, clear=clear, workload=workload, habit=habit), frame


def workload_families(module: Any, scenarios: Any, frame: Any) -> np.ndarray:
    """Return the family of networks of each row: that of the zoo, or else the first word of the model's name."""
    families = dict(catalog.table("models")[["name", "family"]].itertuples(index=False))
    names = module.runs(scenarios).labels.get("network") if hasattr(module, "runs") else None
    if names is not None:
        return names.each(lambda name: families.get(str(name), "none"), object).astype(str)
    words = frame["model"].str.casefold().str.extract(r"([a-z]+)")[0]
    return words.fillna("none").to_numpy(dtype=str)


def fold_labels(rows: Rows, leave_out: str) -> np.ndarray:
    """Return the label of each row's fold.

    `rows`: the rows; `leave_out`: "source" (publisher), "accelerator" (its generation) or "family" (of networks).
    """
    if leave_out == "source":
        return rows.group
    if leave_out == "accelerator":
        return np.asarray(rows.keys["family"])
    if leave_out == "family":
        return rows.group if rows.workload is None else rows.workload
    raise ValueError(f"leave_out = {leave_out!r}; take one of {', '.join(LEAVE_OUT)}")


def without(rows: Rows, terms: Mapping[str, bool] | None = None, engine_levels: bool = True) -> Rows:
    """Return the rows with terms or software levels switched off.

    `rows`: the rows; `terms`: terms of the kind; False switches one off; `engine_levels`: whether software levels may
    differ.
    """
    return replace(rows, terms=dict(terms or {}), engine_levels=engine_levels)


def left_out(
    rows: Rows,
    labels: np.ndarray,
    neighbours: bool = True,
    warm: Fit | None = None,
    only: Any = None,
    rounds: int = ROUNDS,
) -> LeftOut:
    """Predict each fold with constants, and similar measurements, of the other folds.

    `rows`: all rows; `labels`: fold of each row; `neighbours`: whether similar measurements correct the predictions;
    `warm`: where each fit starts; `only`: some of the folds; rows of the others have no error; `rounds`: as for
    `fit.minimise`.
    """
    error = np.full(len(labels), np.nan)
    tier = np.full(len(labels), "", dtype=object)
    count = np.zeros(len(labels), dtype=int)
    for name in sorted(set(labels[rows.judged].tolist())) if only is None else only:
        out = labels == name
        train = rows.usable & ~out
        fitted = fit(rows, train, warm, rounds)
        all_errors = log_error(rows, fitted)
        shift, used = similar_shift(rows, all_errors, train, out) if neighbours else (np.zeros(len(out)), count * 0)
        error[out], tier[out], count[out] = (all_errors - shift)[out], tiers_of_rows(fitted, rows.keys)[out], used[out]
    return LeftOut(np.where(rows.judged, error, np.nan), tier, count, labels)


def left_out_twice(rows: Rows, labels: np.ndarray, neighbours: bool = True, only: Any = None) -> dict[str, LeftOut]:
    """Return, for each fold, the result of `left_out` for the others without the outcomes of that fold.

    Their errors set the width of its intervals: the fits that give them have seen neither the row that they predict nor
    anything of the fold, not even as a place to start from.

    `rows`, `labels`, `neighbours`: as for `left_out`; `only`: some of the folds.
    """
    by_fold = {}
    for name in sorted(set(labels[rows.judged].tolist())) if only is None else only:
        remaining = replace(rows, measured=np.where(labels == name, np.nan, rows.measured))
        warm = minimise(remaining, remaining.usable, rounds=OUTER_ROUNDS)
        by_fold[name] = left_out(remaining, labels, neighbours, warm, rounds=1)
    return by_fold


def each_row_out(rows: Rows, warm: Fit) -> LeftOut:
    """Predict each row from all other measurements, to measure the benefit of the correction.

    The constants are those of all rows, on which a single row has next to no weight; only the row itself may not
    correct its prediction.

    `rows`: all rows; `warm`: the fit to all rows.
    """
    error, runs = log_error(rows, warm.fitted), full_runs(rows)
    names = np.arange(len(error)).astype(str)
    measurements = Measured(runs, np.where(rows.usable, error, np.nan), names)
    corrected = correction(runs, measurements, len(names), own=names, named=0)
    return LeftOut(error + np.log(corrected.factor), tiers_of_rows(warm.fitted, rows.keys), corrected.count, names)


def log_error(rows: Rows, fitted: Fitted) -> np.ndarray:
    """Return the logarithm of predicted over measured outcome of every row.

    `rows`: all rows; `fitted`: the constants.
    """
    with np.errstate(all="ignore"):
        error = np.log(rows.outcome(of_rows(fitted, rows.constants, rows.keys)) / rows.measured)
    return np.where(rows.judged & np.isfinite(error), error, np.nan)


def similar_shift(rows: Rows, error: np.ndarray, train: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean error of measurements similar to each row, and their number.

    `rows`: all rows; `error`: logarithmic error of every row under constants that have not seen the rows to correct;
    `train`, `out`: rows that may be looked at, and rows to correct.
    """
    shift, count = np.zeros(len(error)), np.zeros(len(error), dtype=int)
    if not corrects(rows):
        return shift, count
    runs, at = full_runs(rows), np.flatnonzero(out)
    names = np.arange(len(error)).astype(str)
    measurements = Measured(runs, np.where(train, error, np.nan), names)
    corrected = correction(runs.take(at), measurements, len(at), named=0)
    shift[at], count[at] = -np.log(corrected.factor), corrected.count
    return shift, count


def corrects(rows: Rows) -> bool:
    """Return True if similar measurements correct rows of this kind: only where that helps held-out publishers."""
    return hasattr(rows.module, "runs")


def full_runs(rows: Rows) -> Runs:
    """Return the rows as runs, by which similar measurements are matched, one entry per row."""
    runs, size = rows.module.runs(rows.scenarios), len(rows.measured)
    return Runs({name: _full(label, size) for name, label in runs.labels.items()})


def _full(label: Any, size: int) -> Coded:
    column = label if isinstance(label, Coded) else coded(np.broadcast_to(label, (size,)).astype(object))
    return Coded(np.broadcast_to(column.codes, (size,)), column.levels)


# Sharpness of the transition from "fits" to "does not fit" around the capacity, in the logarithm.
MEMORY_SHARPNESS = 0.05
# Tools that print device memory in "GB" divide by 2^30.
GIGA = 2**30
GRID_POINTS = 13
ROUNDS = 6


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Configurations with what is known of their memory.

    `scenarios`: the configurations; `ran`: 1 where it ran, 0 where it ran out of memory, NaN where that is not a label
    (it ran, and no larger one was tried); `stated`: device memory as stated [B]; NaN where it is not; `fold`: model and
    number of devices; `group`: publisher.
    """

    scenarios: Any
    ran: np.ndarray
    stated: np.ndarray
    fold: np.ndarray
    group: np.ndarray

    @property
    def labelled(self) -> np.ndarray:
        """Return True for rows that ran or ran out of memory, and can be predicted."""
        return np.isfinite(self.ran) & (self.scenarios.why == "")


@lru_cache(maxsize=1)
def memory_rows() -> MemoryRows:
    """Return the rows of both tables: the publisher who lists failures lists what ran as well."""
    out = tables.measured_table("training_out_of_memory")
    ran = tables.measured_table("training_transformer")
    failures = tables.publishers(out)
    both = pd.concat([ran, out], ignore_index=True).fillna("")
    group = np.concatenate([tables.publishers(ran), failures])
    label = np.concatenate([np.where(np.isin(group[: len(ran)], failures), 1.0, np.nan), np.zeros(len(out))])
    fold = np.char.add(np.char.add([name.casefold() for name in both["model"]], " on "), list(both["devices"]))
    stated = np.array([float(cell or "nan") for cell in both["memory_bytes"]]) * GIGA
    requests = tables.read(transformer.KIND, tables.without_outcomes(both))
    return MemoryRows(transformer.resolve(requests), label, stated, fold, group)


def needed_over_capacity(rows: MemoryRows, constants: Mapping[str, float]) -> np.ndarray:
    """Return the logarithm of the needed memory over that of the device."""
    with np.errstate(all="ignore"):
        return np.log(needs.memory_bytes(rows.scenarios, constants) / capacity(rows))


def capacity(rows: MemoryRows) -> np.ndarray:
    """Return the device memory of one shard [B]."""
    return np.asarray(np.broadcast_to(rows.scenarios.memory / rows.scenarios.cores, len(rows.ran)))


def fit_memory(rows: MemoryRows, train: np.ndarray) -> dict[str, float]:
    """Return the constants that best separate runs from out-of-memory failures, and match the stated gigabytes.

    Each side of the label, and the rows with a statement, weigh the same. One constant at a time is searched on a grid
    that narrows, so the result does not depend on chance.

    `rows`: all rows; `train`: those that may be looked at.
    """
    constants = {constant.name: constant.start for constant in needs.MEMORY_CONSTANTS}
    for turn in range(ROUNDS):
        for constant in needs.MEMORY_CONSTANTS:
            tried = _grid(constant, constants[constant.name], turn)
            losses = [_loss(rows, train, constants | {constant.name: value}) for value in tried]
            constants[constant.name] = float(tried[int(np.argmin(losses))])
    return constants


def _grid(constant: Constant, at: float, turn: int) -> np.ndarray:
    """Return values around the present one, between the bounds; each turn halves the spacing."""
    low, high = np.log(constant.low), np.log(constant.high)
    reach = (high - low) / 2**turn
    first, last = max(np.log(at) - reach / 2, low), min(np.log(at) + reach / 2, high)
    return np.exp(np.linspace(first, last, GRID_POINTS))


def _loss(rows: MemoryRows, train: np.ndarray, constants: Mapping[str, float]) -> float:
    over = needed_over_capacity(rows, constants)
    total = 0.0
    for label in (0.0, 1.0):
        chosen = train & rows.labelled & (rows.ran == label)
        if chosen.any():
            wrong = np.where(label == 1.0, over[chosen], -over[chosen]) / MEMORY_SHARPNESS
            total += float(np.mean(np.logaddexp(0, np.clip(wrong, -60, 60))))
    stated = train & np.isfinite(rows.stated) & (rows.scenarios.why == "")
    if stated.any():
        error = over[stated] + np.log(capacity(rows)[stated] / rows.stated[stated])
        total += float(np.mean(np.minimum(np.abs(error), 0.5))) / MEMORY_SHARPNESS / 4
    return total


def judge_memory() -> dict[str, float]:
    """Return the balanced accuracy of "fits", leaving out each model and number of devices; error of stated gigabytes.

    Gives balanced_accuracy, accuracy, rows, folds; stated_rows, stated_median_error.
    """
    rows = memory_rows()
    over = np.full(len(rows.ran), np.nan)
    selected = rows.labelled | (np.isfinite(rows.stated) & (rows.scenarios.why == ""))
    for fold in sorted(set(rows.fold[selected].tolist())):
        out = rows.fold == fold
        over[out] = needed_over_capacity(rows, fit_memory(rows, ~out))[out]
    labelled = rows.labelled
    right = (over[labelled] <= 0) == (rows.ran[labelled] == 1)
    sides = [right[rows.ran[labelled] == label].mean() for label in (0.0, 1.0)]
    stated = np.isfinite(rows.stated) & np.isfinite(over)
    error = np.exp(over[stated]) * capacity(rows)[stated] / rows.stated[stated] - 1
    return {
        "balanced_accuracy": float(np.mean(sides)),
        "accuracy": float(right.mean()),
        "rows": int(labelled.sum()),
        "folds": len(set(rows.fold[selected].tolist())),
        "stated_rows": int(stated.sum()),
        "stated_median_error": float(np.median(np.abs(error))),
    }


def memory_constants() -> Fitted:
    """Return the constants fitted to all rows."""
    rows = memory_rows()
    return Fitted({name: {"": value} for name, value in fit_memory(rows, np.ones(len(rows.ran), bool)).items()})
