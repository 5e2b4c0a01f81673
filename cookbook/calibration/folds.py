"""Predictions of measured rows that the constants have not seen: leave out a publisher, a generation, a family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.calibration.fit import ROUNDS, Fit, Rows, fit
from cookbook.prediction.constants import Fitted, of_rows, tiers_of_rows
from cookbook.prediction.engine import terms_of
from cookbook.prediction.intake import tables
from cookbook.prediction.intake.networks import metric_of
from cookbook.prediction.neighbours import Measured, Runs, correction
from cookbook.prediction.scenario import Coded, coded

SERVED = "a language model answers token by token, not in one pass"
LEAVE_OUT = ("source", "accelerator", "family")


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Each row as predicted by constants that were fitted without its fold.

    Attributes
    ----------
    error : numpy.ndarray
        Logarithm of predicted over measured outcome; NaN where there is none.
    tier : numpy.ndarray of str
        How well the rest of the measurements covers the row.
    neighbours : numpy.ndarray of int
        Similar measurements that corrected it.
    fold : numpy.ndarray of str
        The fold that each row was left out with.
    """

    error: np.ndarray
    tier: np.ndarray
    neighbours: np.ndarray
    fold: np.ndarray


@lru_cache(maxsize=8)
def measured_rows(kind: str) -> tuple[Rows, Any]:
    """All measured rows of a kind, with the table that they come from.

    Parameters
    ----------
    kind : str
        "training_classic", "training_transformer" or "inference".
    """
    module, frame = terms_of(kind), tables.measured_table(kind)
    asked = tables.read(kind, tables.without_outcomes(frame))
    scenarios = module.resolve(asked)
    measured = np.asarray(tables.measured(kind, frame), dtype=float)
    clear = np.isin(frame["id"], tables.clear_rows(frame)["id"])
    if kind == "inference":
        # Answers of language models are more than one pass; they are judged elsewhere.
        scenarios = replace(scenarios, why=np.where(asked.columns["served"], SERVED, scenarios.why))
        clear = clear & ~tables.needs_care(frame)
        frame = frame.assign(unit=["passes/s" if metric_of(each).delay else each for each in frame["metric"]])
    group, workload = tables.publishers(frame), workload_families(module, scenarios, frame)
    return Rows(module, scenarios, measured, group, clear=clear, workload=workload), frame


def workload_families(module: Any, scenarios: Any, frame: Any) -> np.ndarray:
    """Family of networks of each row: that of the zoo, or else the first word of the model's name."""
    families = dict(catalog.table("models")[["name", "family"]].itertuples(index=False))
    names = module.runs(scenarios).labels.get("network")
    if names is not None:
        return names.each(lambda name: families.get(str(name), "none"), object).astype(str)
    words = frame["model"].str.casefold().str.extract(r"([a-z]+)")[0]
    return words.fillna("none").to_numpy(dtype=str)


def fold_labels(rows: Rows, leave_out: str) -> np.ndarray:
    """What each row is left out with.

    Parameters
    ----------
    rows : Rows
        The rows.
    leave_out : str
        "source" (publisher), "accelerator" (its generation) or "family" (of networks).
    """
    if leave_out == "source":
        return rows.group
    if leave_out == "accelerator":
        return np.asarray(rows.keys["family"])
    if leave_out == "family":
        return rows.group if rows.workload is None else rows.workload
    raise ValueError(f"leave_out = {leave_out!r}; take one of {', '.join(LEAVE_OUT)}")


def without(rows: Rows, terms: Mapping[str, bool] | None = None, engine_levels: bool = True) -> Rows:
    """The same rows with terms or software levels switched off.

    Parameters
    ----------
    rows : Rows
        The rows.
    terms : mapping of str to bool, optional
        Terms of the kind; False switches one off.
    engine_levels : bool
        Whether software levels may differ.
    """
    return replace(rows, terms=dict(terms or {}), engine_levels=engine_levels)


def left_out(
    rows: Rows, labels: np.ndarray, neighbours: bool = True, warm: Fit | None = None, only: Any = None,
    rounds: int = ROUNDS,
) -> LeftOut:  # fmt: skip
    """Predict each fold with constants, and similar measurements, of the other folds.

    Parameters
    ----------
    rows : Rows
        All rows.
    labels : numpy.ndarray of str
        Fold of each row.
    neighbours : bool
        Whether similar measurements correct the predictions.
    warm : Fit, optional
        Where each fit starts.
    only : sequence of str, optional
        Some of the folds; rows of the others have no error.
    rounds : int
        As for `fit.minimise`.
    """
    error = np.full(len(labels), np.nan)
    tier = np.full(len(labels), "", dtype=object)
    count = np.zeros(len(labels), dtype=int)
    for name in sorted(set(labels[rows.judged].tolist())) if only is None else only:
        out = labels == name
        train = rows.usable & ~out
        fitted = fit(rows, train, warm, rounds)
        found = log_error(rows, fitted)
        shift, used = similar_shift(rows, found, train, out) if neighbours else (np.zeros(len(out)), count * 0)
        error[out], tier[out], count[out] = (found - shift)[out], tiers_of_rows(fitted, rows.keys)[out], used[out]
    return LeftOut(np.where(rows.judged, error, np.nan), tier, count, labels)


def each_row_out(rows: Rows, warm: Fit) -> LeftOut:
    """Each row as predicted with all other measurements at hand: what the correction is worth among its like.

    The constants are those of all rows, on which a single row has next to no weight; only the row itself may not
    correct its prediction.

    Parameters
    ----------
    rows : Rows
        All rows.
    warm : Fit
        The fit to all rows.
    """
    error = log_error(rows, warm.fitted)
    names = np.arange(len(error)).astype(str)
    shift, count = np.zeros(len(error)), np.zeros(len(error), dtype=int)
    runs = full_runs(rows)
    known = Measured(runs, np.where(rows.usable, error, np.nan), rows.group, names)
    found = correction(runs, known, len(names), exclude_rows=names, named=0)
    shift, count = -np.log(found.factor), found.count
    return LeftOut(error - shift, tiers_of_rows(warm.fitted, rows.keys), count, names)


def log_error(rows: Rows, fitted: Fitted) -> np.ndarray:
    """Logarithm of predicted over measured outcome of every row.

    Parameters
    ----------
    rows : Rows
        All rows.
    fitted : Fitted
        The constants.
    """
    with np.errstate(all="ignore"):
        found = np.log(rows.outcome(of_rows(fitted, rows.constants, rows.keys)) / rows.measured)
    return np.where(rows.judged & np.isfinite(found), found, np.nan)


def similar_shift(rows: Rows, error: np.ndarray, train: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far measurements similar to each row lie from their predictions, and how many they are.

    Parameters
    ----------
    rows : Rows
        All rows.
    error : numpy.ndarray
        Logarithmic error of every row under constants that have not seen the rows to correct.
    train, out : numpy.ndarray of bool
        Rows that may be looked at, and rows to correct.
    """
    shift, count = np.zeros(len(error)), np.zeros(len(error), dtype=int)
    runs, at = full_runs(rows), np.flatnonzero(out)
    names = np.arange(len(error)).astype(str)
    known = Measured(runs, np.where(train, error, np.nan), rows.group, names)
    found = correction(runs.take(at), known, len(at), named=0)
    shift[at], count[at] = -np.log(found.factor), found.count
    return shift, count


def full_runs(rows: Rows) -> Runs:
    """The rows as what similar measurements are found by, one entry a row."""
    runs, size = rows.module.runs(rows.scenarios), len(rows.measured)
    labels = {name: _full(label, size) for name, label in runs.labels.items()}
    return Runs(labels, {name: np.broadcast_to(each, (size,)) for name, each in runs.amounts.items()}, runs.costs)


def _full(label: Any, size: int) -> Coded:
    column = label if isinstance(label, Coded) else coded(np.broadcast_to(label, (size,)).astype(object))
    return Coded(np.broadcast_to(column.codes, (size,)), column.levels)
