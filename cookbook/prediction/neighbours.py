"""Correction of a prediction by similar measurements: the mean by which the formulas miss them, weighted by likeness.

A layer of its own above the formulas: it can be left out, says how many measurements spoke, and names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

# Distances add up; a measurement speaks with weight exp(-distance) and not at all beyond REACH.
REACH = 9.0
# Weight of the formulas themselves, in measurements of equal conditions.
DAMPING = 0.03
BLOCK = 512
# Likeness of two runs: what a different label costs, and what a factor of e in an amount costs.
# Another maker is out of reach.
LABEL_COSTS = {
    "vendor": 10.0, "network": 4.0, "workload": 4.0, "format": 3.0, "engine": 3.0, "family": 1.0, "accelerator": 1.5,
}  # fmt: skip
# Counts of devices are no part of it: a correction that changed with them could make more devices slower or faster
# than the formulas of the exchange say.
AMOUNT_COSTS = {"batch": 1.2}


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs described by labels and amounts.

    Attributes
    ----------
    labels : mapping of str to numpy.ndarray of str
        Network, number format, software level, accelerator and so on.
    amounts : mapping of str to numpy.ndarray
        Amounts above zero: batch, devices.
    costs : mapping of str to float, optional
        Distance of different labels, and of a factor of e in an amount, where this kind of runs has its own.
    """

    labels: Mapping[str, np.ndarray]
    amounts: Mapping[str, np.ndarray]
    costs: Mapping[str, float] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.labels.values())))

    def take(self, index: np.ndarray) -> Runs:
        """Some of the runs."""
        labels, amounts = ({k: v[index] for k, v in each.items()} for each in (self.labels, self.amounts))
        return Runs(labels, amounts, self.costs)


@dataclass(frozen=True, eq=False)
class Measured:
    """Measured runs and by how much the formulas miss them.

    Attributes
    ----------
    runs : Runs
        What was run.
    error : numpy.ndarray
        Logarithm of predicted over measured outcome, NaN where one is missing.
    group, row : numpy.ndarray of str
        Publisher, and name of the row.
    """

    runs: Runs
    error: np.ndarray
    group: np.ndarray
    row: np.ndarray


@dataclass(frozen=True, eq=False)
class Correction:
    """What similar measurements say about predictions.

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
    asked: Runs,
    measured: Measured,
    exclude_groups: Collection[str] = (),
    exclude_rows: Collection[str] | np.ndarray = (),
    label_costs: Mapping[str, float] | None = None,
    amount_costs: Mapping[str, float] | None = None,
    named: int = 8,
) -> Correction:
    """Kernel-weighted mean error of similar measurements, as a factor for each asked run.

    Parameters
    ----------
    asked : Runs
        Runs to predict.
    measured : Measured
        Runs that were measured.
    exclude_groups : collection of str
        Publishers that may not speak.
    exclude_rows : collection of str
        Rows that may not speak to anyone; an array with one name for each asked run is left out for that run alone.
    label_costs, amount_costs : mapping of str to float, optional
        Distance of different labels, and of a factor of e in an amount.
    named : int
        How many rows to name at most for each run.
    """
    costs = (label_costs or asked.costs or LABEL_COSTS, amount_costs or asked.costs or AMOUNT_COSTS)
    own = exclude_rows if isinstance(exclude_rows, np.ndarray) else None
    barred = np.isin(measured.row, list(exclude_rows)) if own is None else np.zeros(len(measured.row), dtype=bool)
    barred |= np.isin(measured.group, list(exclude_groups)) | ~np.isfinite(measured.error)
    known = np.flatnonzero(~barred)
    distinct, back = _distinct(asked, own)
    one = asked.take(distinct)
    shift, count = np.zeros(len(distinct)), np.zeros(len(distinct), dtype=int)
    rows: list[np.ndarray] = []
    runs, error, names = measured.runs.take(known), measured.error[known], measured.row[known]
    for start in range(0, len(distinct), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(distinct)))
        weight = _weights(one.take(block), runs, *costs)
        if own is not None:
            weight = np.where(own[distinct[block]][:, None] == names[None, :], 0.0, weight)
        shift[block] = (weight @ error) / (weight.sum(axis=1) + DAMPING)
        count[block] = (weight > 0).sum(axis=1)
        nearest = np.argsort(-weight, axis=1, kind="stable")[:, :named]
        rows += [names[at[weight[i, at] > 0]] for i, at in enumerate(nearest)]
    return Correction(np.exp(-shift)[back], count[back], tuple(rows[i] for i in back))


def _distinct(asked: Runs, own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """First index of each distinct run, and for each run which of them it is."""
    code = np.zeros(len(asked), dtype=np.int64)
    columns = [*asked.labels.values(), *asked.amounts.values(), *([] if own is None else [own])]
    for column in columns:
        levels, at = np.unique(
            np.asarray(column).astype(str) if column.dtype == object else column, return_inverse=True
        )
        _, code = np.unique(code * len(levels) + at, return_inverse=True)
    _, first, back = np.unique(code, return_index=True, return_inverse=True)
    return first, back


def _weights(
    asked: Runs, known: Runs, label_costs: Mapping[str, float], amount_costs: Mapping[str, float]
) -> np.ndarray:
    """Weight of each known run for each asked one."""
    distance = distances(asked, known, label_costs, amount_costs)
    return np.where(distance <= REACH, np.exp(-distance), 0.0)


def distances(
    asked: Runs, known: Runs, label_costs: Mapping[str, float], amount_costs: Mapping[str, float]
) -> np.ndarray:
    """Distance of each known run (second axis) from each asked one, by what both of them name.

    Parameters
    ----------
    asked, known : Runs
        Runs with labels and amounts.
    label_costs, amount_costs : mapping of str to float
        Distance of different labels, and of a factor of e in an amount; an amount that is missing is out of reach.
    """
    distance = np.zeros((len(asked), len(known)))
    for name, cost in label_costs.items():
        if name in asked.labels and name in known.labels:
            ours, theirs = _codes(asked.labels[name], known.labels[name])
            distance += cost * (ours[:, None] != theirs[None, :])
    for name, cost in amount_costs.items():
        if name in asked.amounts and name in known.amounts:
            with np.errstate(divide="ignore", invalid="ignore"):
                apart = np.log(asked.amounts[name])[:, None] - np.log(known.amounts[name])[None, :]
            distance += cost * np.nan_to_num(np.abs(apart), nan=REACH, posinf=REACH)
    return distance


def _codes(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels as whole numbers, for they compare faster than words."""
    _, codes = np.unique(np.concatenate([first.astype(str), second.astype(str)]), return_inverse=True)
    return codes[: len(first)], codes[len(first) :]
