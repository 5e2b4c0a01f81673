"""Correction of an estimate by similar measurements: the mean by which the formulas miss them, weighted by likeness.

A layer of its own above the formulas: it can be left out, says how many measurements spoke, and names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.prediction.scenario import Coded, coded, together

# Distances add up; a measurement speaks with weight exp(-distance) and not at all beyond MAX_DISTANCE.
MAX_DISTANCE = 9.0
# Weight of the formulas themselves, in measurements of equal conditions.
DAMPING = 0.1
BLOCK_RUNS = 512
# Combinations of labels whose answer is remembered.
MAX_ANSWERS = 1 << 18
# Likeness of two runs: what a different label costs, and what a factor of e in an amount costs.
# Another maker is out of reach.
LABEL_COSTS = {
    "vendor": 10.0,
    "network": 4.0,
    "workload": 4.0,
    "format": 3.0,
    "engine": 3.0,
    "family": 1.0,
    "accelerator": 1.5,
}
# Counts of devices and samples are no part of it: a correction that changed with them could make a larger batch, or
# more devices, slower than a smaller one although the formulas say otherwise.


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs described by labels and amounts; one value may stand for all runs.

    Attributes
    ----------
    labels : mapping of str to Coded or numpy.ndarray
        Network, number format, software level, accelerator and so on.
    amounts : mapping of str to numpy.ndarray
        Amounts above zero, such as the batch, by which `distances` compares runs, but no correction.
    """

    labels: Mapping[str, Any]
    amounts: Mapping[str, np.ndarray] = field(default_factory=dict)

    def distinct(self, size: int) -> tuple[Runs, np.ndarray]:
        """Return the distinct runs among `size` rows, without amounts, and for each row the index of its run."""
        joined = together(*map(_column, self.labels.values()))
        levels = zip(*joined.levels, strict=True)
        labels = {name: coded(values) for name, values in zip(self.labels, levels, strict=True)}
        return Runs(labels), np.broadcast_to(joined.codes, (size,))

    @cached_property
    def codes_of_levels(self) -> dict[str, tuple[dict[str, int], np.ndarray]]:
        """Return, for each label, the code of every level as text, and the code of every run."""
        columns = {name: _column(label) for name, label in self.labels.items()}
        return {
            name: ({str(level): at for at, level in enumerate(column.levels)}, np.atleast_1d(column.codes))
            for name, column in columns.items()
        }

    @cached_property
    def logarithms(self) -> dict[str, np.ndarray]:
        """Return the logarithms of the amounts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return {name: np.log(amount) for name, amount in self.amounts.items()}

    def take(self, index: np.ndarray) -> Runs:
        """Return some of the runs."""
        labels = {
            name: label.take(index) if isinstance(label, Coded) else label[index] for name, label in self.labels.items()
        }
        return Runs(labels)


def _column(values: Any) -> Coded:
    """Return a column as codes, whose levels are its distinct values."""
    if isinstance(values, Coded):
        return values.compact()
    if np.ndim(values) == 0:
        return coded(values)
    levels, codes = np.unique(values, return_inverse=True)
    return Coded(codes, tuple(levels.tolist()))


@dataclass(frozen=True, eq=False)
class Measured:
    """Measured runs and by how much the formulas miss them.

    Attributes
    ----------
    runs : Runs
        What was run.
    error : numpy.ndarray
        Logarithm of predicted over measured outcome, NaN where one is missing.
    row : numpy.ndarray of str
        Name of the row.
    """

    runs: Runs
    error: np.ndarray
    row: np.ndarray

    def take(self, index: np.ndarray) -> Measured:
        """Return some of the runs."""
        return Measured(self.runs.take(index), self.error[index], self.row[index])

    @cached_property
    def complete(self) -> Measured:
        """Return the runs of which both outcomes are known."""
        complete = np.isfinite(self.error)
        return self if complete.all() else self.take(np.flatnonzero(complete))


@dataclass(frozen=True, eq=False)
class Correction:
    """A correction of estimates by similar measurements.

    Attributes
    ----------
    factor : numpy.ndarray
        By which to multiply each predicted outcome; 1 where nothing similar was measured.
    count : numpy.ndarray of int
        Measurements that spoke.
    rows : tuple of numpy.ndarray of str
        Their names, the most similar first.
    """

    factor: np.ndarray
    count: np.ndarray
    rows: tuple[np.ndarray, ...]


def correction(
    requested: Runs, measured: Measured, size: int, own: np.ndarray | None = None, named: int = 8
) -> Correction:
    """Return the kernel-weighted mean error of similar measurements, as a factor for each requested run.

    Parameters
    ----------
    requested : Runs
        Runs to predict.
    measured : Measured
        Runs that were measured.
    size : int
        How many runs are asked for.
    own : numpy.ndarray of str, optional
        For each requested run the row that may not speak to it.
    named : int
        How many rows to name at most for each run.
    """
    measured = measured.complete
    if own is not None:
        requested = Runs({**requested.labels, "row itself": coded(own.astype(object))})
    one, back = requested.distinct(size)
    total = int(back.max()) + 1
    shift, count = np.zeros(total), np.zeros(total, dtype=int)
    rows: list[np.ndarray] = []
    runs, error, names = measured.runs, measured.error, measured.row
    for start in range(0, total, BLOCK_RUNS):
        block = np.arange(start, min(start + BLOCK_RUNS, total))
        some = one.take(block)
        distance = distances(some, runs, LABEL_COSTS, {})
        weight = np.where(distance <= MAX_DISTANCE, np.exp(-distance), 0.0)
        if own is not None:
            weight = np.where(some.labels["row itself"].each(str, object)[:, None] == names[None, :], 0.0, weight)
        shift[block] = (weight @ error) / (weight.sum(axis=1) + DAMPING)
        count[block] = (weight > 0).sum(axis=1)
        if named:
            near = [np.flatnonzero(weights > 0) for weights in weight]
            rows += [
                names[at[np.argsort(-weights[at], kind="stable")[:named]]]
                for weights, at in zip(weight, near, strict=True)
            ]
    return Correction(np.exp(-shift)[back], count[back], tuple(rows[i] for i in back) if rows else ())


def distances(
    requested: Runs, measured: Runs, label_costs: Mapping[str, float], amount_costs: Mapping[str, float]
) -> np.ndarray:
    """Return the distance of each measured run (second axis) from each requested one, by what both name; far off
    without."""
    distance: Any = np.zeros((1, 1))
    for name, cost in label_costs.items():
        if name in requested.labels and name in measured.labels:
            code_of, theirs = measured.codes_of_levels[name]
            mine = coded(requested.labels[name])
            ours = np.array([code_of.get(str(level), -1) for level in mine.levels])[mine.codes]
            distance = distance + cost * (ours[:, None] != theirs)
    for name, cost in amount_costs.items():
        if name in requested.amounts and name in measured.amounts:
            with np.errstate(invalid="ignore"):
                apart = np.abs(requested.logarithms[name][:, None] - measured.logarithms[name])
            distance = distance + cost * np.where(np.isfinite(apart), apart, MAX_DISTANCE)
    return distance


@lru_cache(maxsize=4)
def known_errors(kind: str) -> Measured | None:
    """Return measured runs of a kind of which it is clear what was run; none for a kind that compares no runs.

    Calibration writes them to the table ``training_neighbours``, so that no measured network is built to read them.
    """
    table = catalog.table("training_neighbours")
    table = table[table["kind"] == kind]
    if not len(table):
        return None
    table = table[np.isfinite(np.log(table["ratio"]))]
    labels = {name: coded(cells.astype(str).astype(object)) for name, cells in _columns(table["labels"]).items()}
    return Measured(Runs(labels), np.log(table["ratio"].to_numpy()), table["row"].to_numpy().astype(str))


def _columns(cells: Iterable[str]) -> dict[str, np.ndarray]:
    """Return cells of JSON objects with the same names as one array for each name."""
    rows = [json.loads(cell) for cell in cells]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def correct(kind: str, requested: Runs, size: int) -> Correction | None:
    """Return what similar measurements say about runs; none where the kind compares no runs."""
    measured = known_errors(kind)
    if measured is None or not size:
        return None
    return _of_many(requested, measured, size) if size > 1 else correction(requested, measured, size)


@dataclass(frozen=True, eq=False)
class _Merged:
    """Measured runs, those of the same labels as one, with the sum of their errors and their number.

    `codes` are positions in `levels` counted from 1: 0 is a label without measurements. `answers` remembers what was
    said about combinations of labels, by their code.
    """

    levels: Mapping[str, Mapping[str, int]]
    codes: Mapping[str, np.ndarray]
    errors: np.ndarray
    counts: np.ndarray
    answers: dict[tuple[str, int], tuple[float, int]]


@lru_cache(maxsize=8)
def _merged(measured: Measured) -> _Merged:
    """Return measured runs with those of the same labels merged into one."""
    labels = {name: _column(label) for name, label in measured.runs.labels.items()}
    levels = {name: {str(level): at + 1 for at, level in enumerate(label.levels)} for name, label in labels.items()}
    codes = [np.broadcast_to(label.codes + 1, len(measured.error)) for label in labels.values()]
    one, back = np.unique(np.stack(codes), axis=1, return_inverse=True)
    counted = np.bincount(back, measured.error), np.bincount(back)
    return _Merged(levels, dict(zip(labels, one, strict=True)), *counted, {})


def _of_many(requested: Runs, measured: Measured, size: int) -> Correction:
    """Return what `correction` gives for many runs: once for each combination of labels, from near measurements
    alone."""
    merged, total, code = _merged(measured), 1, np.zeros(1, dtype=np.int64)
    names = [name for name in LABEL_COSTS if name in requested.labels and name in merged.levels]
    for name in names:
        mine, code_of = _column(requested.labels[name]), merged.levels[name]
        ours = np.array([code_of.get(str(level), 0) for level in mine.levels])[mine.codes]
        code, total = code * (len(code_of) + 1) + ours, total * (len(code_of) + 1)
    if total >= 1 << 62:
        return correction(requested, measured, size, named=0)
    one, back = np.unique(np.broadcast_to(code, (size,)), return_inverse=True)
    shift, count = _remembered(one, names, merged)
    return Correction(np.exp(-shift)[back], count[back], ())


def _remembered(one: np.ndarray, names: list[str], merged: _Merged) -> tuple[Any, Any]:
    """Return shift and count of combinations of labels, each computed once."""
    if len(merged.answers) > MAX_ANSWERS:
        merged.answers.clear()
    labels, answers = " ".join(names), merged.answers
    lost = np.array([code for code in one.tolist() if (labels, code) not in answers], dtype=np.int64)
    if len(lost):
        sums = zip(*(column.tolist() for column in _summed(lost, names, merged)), strict=True)
        answers.update({(labels, code): pair for code, pair in zip(lost.tolist(), sums, strict=True)})
    pairs = [answers[labels, code] for code in one.tolist()]
    return np.array([shift for shift, _ in pairs]), np.array([count for _, count in pairs])


def _summed(one: np.ndarray, names: list[str], merged: _Merged) -> tuple[Any, Any]:
    """Return shift and count of combinations; a label whose other values are out of reach selects the measurements."""
    labels, rest = dict[str, np.ndarray](), one
    for name in reversed(names):
        rest, labels[name] = np.divmod(rest, len(merged.levels[name]) + 1)
    mine, theirs = np.zeros(len(one), dtype=np.int64), np.zeros(len(merged.errors), dtype=np.int64)
    for name in (name for name in labels if LABEL_COSTS[name] > MAX_DISTANCE):
        many = len(merged.levels[name]) + 1
        mine, theirs = mine * many + labels[name], theirs * many + merged.codes[name]
    shift, count = np.zeros(len(one)), np.zeros(len(one), dtype=int)
    for group in np.unique(mine).tolist():
        rows, columns = np.flatnonzero(mine == group), np.flatnonzero(theirs == group)
        for at in (
            rows[start : start + BLOCK_RUNS] for start in range(0, len(rows) if len(columns) else 0, BLOCK_RUNS)
        ):
            distance: Any = np.zeros((len(at), len(columns)))
            for name, label in labels.items():
                if LABEL_COSTS[name] <= MAX_DISTANCE:
                    distance += LABEL_COSTS[name] * (label[at][:, None] != merged.codes[name][columns])
            weight = np.where(distance <= MAX_DISTANCE, np.exp(-distance), 0.0)
            shift[at] = weight @ merged.errors[columns] / (weight @ merged.counts[columns] + DAMPING)
            count[at] = (weight > 0) @ merged.counts[columns]
    return shift, count
