"""Fits and judges the memory of transformer training: layouts that ran, layouts that ran out, and stated gigabytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.prediction.constants import Constant, Fitted
from cookbook.prediction.intake import tables
from cookbook.prediction.terms import layouts as needs
from cookbook.prediction.terms import transformer

# How sharply "fits" turns into "does not" around the capacity, in the logarithm.
SHARPNESS = 0.05
# Tools that print device memory in "GB" divide by 2^30.
GIGA = 2**30
GRID = 13
ROUNDS = 6


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Layouts with what is known of their memory.

    Attributes
    ----------
    scenarios : object
        The layouts.
    ran : numpy.ndarray
        1 where it ran, 0 where it ran out of memory, NaN where that is not a label (it ran, and nobody tried more).
    stated : numpy.ndarray
        Device memory as stated [B]; NaN where it is not.
    fold : numpy.ndarray of str
        Model and number of devices.
    group : numpy.ndarray of str
        Publisher.
    """

    scenarios: Any
    ran: np.ndarray
    stated: np.ndarray
    fold: np.ndarray
    group: np.ndarray

    @property
    def labelled(self) -> np.ndarray:
        """Rows that ran or ran out, and can be predicted."""
        return np.isfinite(self.ran) & (self.scenarios.why == "")


@lru_cache(maxsize=1)
def memory_rows() -> MemoryRows:
    """Rows of both tables: the publisher who lists failures lists what ran as well."""
    import pandas as pd

    out = tables.measured_table("training_out_of_memory")
    ran = tables.measured_table("training_transformer")
    failures = tables.publishers(out)
    both = pd.concat([ran, out], ignore_index=True).fillna("")
    group = np.concatenate([tables.publishers(ran), failures])
    label = np.concatenate([np.where(np.isin(group[: len(ran)], failures), 1.0, np.nan), np.zeros(len(out))])
    fold = np.char.add(np.char.add([name.casefold() for name in both["model"]], " on "), list(both["devices"]))
    stated = np.array([float(cell or "nan") for cell in both["memory_bytes"]]) * GIGA
    asked = tables.read(transformer.KIND, tables.without_outcomes(both))
    return MemoryRows(transformer.resolve(asked), label, stated, fold, group)


def needed_over_capacity(rows: MemoryRows, constants: Mapping[str, float]) -> np.ndarray:
    """Logarithm of the memory needed over that of the device."""
    with np.errstate(all="ignore"):
        return np.log(needs.memory_bytes(rows.scenarios, constants) / capacity(rows))


def capacity(rows: MemoryRows) -> np.ndarray:
    """Device memory that one shard has [B]."""
    return np.asarray(np.broadcast_to(rows.scenarios.memory / rows.scenarios.cores, len(rows.ran)))


def fit_memory(rows: MemoryRows, train: np.ndarray) -> dict[str, float]:
    """Constants that tell best what ran from what ran out, and meet the stated gigabytes.

    Each side of the label, and the rows with a statement, weigh the same. One constant at a time is searched on a grid
    that narrows, so the result does not depend on chance.

    Parameters
    ----------
    rows : MemoryRows
        All rows.
    train : numpy.ndarray of bool
        Those that may be looked at.
    """
    found = {constant.name: constant.start for constant in needs.MEMORY_CONSTANTS}
    for turn in range(ROUNDS):
        for constant in needs.MEMORY_CONSTANTS:
            tried = _grid(constant, found[constant.name], turn)
            losses = [_loss(rows, train, found | {constant.name: value}) for value in tried]
            found[constant.name] = float(tried[int(np.argmin(losses))])
    return found


def _grid(constant: Constant, at: float, turn: int) -> np.ndarray:
    """Values around the present one, between the bounds; each turn half as far apart."""
    low, high = np.log(constant.low), np.log(constant.high)
    reach = (high - low) / 2**turn
    first, last = max(np.log(at) - reach / 2, low), min(np.log(at) + reach / 2, high)
    return np.exp(np.linspace(first, last, GRID))


def _loss(rows: MemoryRows, train: np.ndarray, constants: Mapping[str, float]) -> float:
    over = needed_over_capacity(rows, constants)
    total = 0.0
    for label in (0.0, 1.0):
        chosen = train & rows.labelled & (rows.ran == label)
        if chosen.any():
            wrong = np.where(label == 1.0, over[chosen], -over[chosen]) / SHARPNESS
            total += float(np.mean(np.logaddexp(0, np.clip(wrong, -60, 60))))
    stated = train & np.isfinite(rows.stated) & (rows.scenarios.why == "")
    if stated.any():
        error = over[stated] + np.log(capacity(rows)[stated] / rows.stated[stated])
        total += float(np.mean(np.minimum(np.abs(error), 0.5))) / SHARPNESS / 4
    return total


def judge_memory() -> dict[str, float]:
    """Balanced accuracy of "fits", leaving out each model on each number of devices; error of the stated gigabytes.

    Returns
    -------
    dict
        balanced_accuracy, accuracy, rows, folds; stated_rows, stated_median_error.
    """
    rows = memory_rows()
    over = np.full(len(rows.ran), np.nan)
    wanted = rows.labelled | (np.isfinite(rows.stated) & (rows.scenarios.why == ""))
    for fold in sorted(set(rows.fold[wanted].tolist())):
        out = rows.fold == fold
        over[out] = needed_over_capacity(rows, fit_memory(rows, ~out))[out]
    known = rows.labelled
    right = (over[known] <= 0) == (rows.ran[known] == 1)
    sides = [right[rows.ran[known] == label].mean() for label in (0.0, 1.0)]
    stated = np.isfinite(rows.stated) & np.isfinite(over)
    error = np.exp(over[stated]) * capacity(rows)[stated] / rows.stated[stated] - 1
    return {
        "balanced_accuracy": float(np.mean(sides)), "accuracy": float(right.mean()), "rows": int(known.sum()),
        "folds": len(set(rows.fold[wanted].tolist())), "stated_rows": int(stated.sum()),
        "stated_median_error": float(np.median(np.abs(error))),
    }  # fmt: skip


def memory_constants() -> Fitted:
    """The constants fitted to all rows."""
    rows = memory_rows()
    return Fitted({name: {"": value} for name, value in fit_memory(rows, np.ones(len(rows.ran), bool)).items()})
