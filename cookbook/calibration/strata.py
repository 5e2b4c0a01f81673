"""How good predictions are, stratum by stratum: error, bias, coverage and width of the intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.calibration.fit import Rows, publisher_weights
from cookbook.calibration.folds import LeftOut
from cookbook.calibration.intervals import coverage_band, widths
from cookbook.prediction.widths import LEVELS

if TYPE_CHECKING:
    import pandas as pd

FIGURES = ("rows", "publishers", "median_error", "mean_error", "mean_of_publishers", "within_10", "within_20", "bias",
           "coverage_80", "coverage_90", "publishers_covered_80",
           "publishers_covered_90", "factor_80", "factor_90", "band_low_80", "band_high_80")  # fmt: skip


def row_widths(rows: Rows, folds: LeftOut) -> dict[int, np.ndarray]:
    """Half-width of the interval of each row, from the errors of the other publishers alone.

    Parameters
    ----------
    rows : Rows
        The rows; those that need care set no width.
    folds : LeftOut
        Their predictions.
    """
    errors, group, tier = folds.error, rows.group, np.asarray(folds.tier)
    scale = np.asarray(rows.keys["scale"])
    half = {level: np.full(len(errors), np.nan) for level in LEVELS}
    known = np.isfinite(errors)
    for name in np.unique(group[known]):
        own, others = known & (group == name), known & rows.usable & (group != name)
        if not others.any():
            continue
        found = widths(np.abs(errors[others]), group[others], tier[others], scale[others])
        table = {(width.tier, width.scale): width.half for width in found}
        for at in np.flatnonzero(own):
            for level, value in zip(LEVELS, table.get((tier[at], scale[at]), table[tier[at], ""]), strict=True):
                half[level][at] = value
    return half


def figures(errors: np.ndarray, group: np.ndarray, half: Mapping[int, np.ndarray] | None = None) -> dict[str, Any]:
    """Error, bias, coverage and width of some rows.

    Parameters
    ----------
    errors : numpy.ndarray
        Logarithm of predicted over measured.
    group : numpy.ndarray of str
        Publisher of each.
    half : mapping of int to numpy.ndarray, optional
        Half-widths of the rows by level.
    """
    relative = np.abs(np.expm1(errors))
    names = np.unique(group)
    found: dict[str, Any] = {
        "rows": len(errors), "publishers": len(names), "median_error": np.median(relative),
        "mean_error": np.mean(relative), "within_10": np.mean(relative <= 0.1), "within_20": np.mean(relative <= 0.2),
        "mean_of_publishers": _of_publishers(relative, group),
        "bias": np.expm1(np.median(errors)),
    }  # fmt: skip
    if half is None:
        return found
    for level in LEVELS:
        known = np.isfinite(half[level])
        if known.any():
            covered = np.abs(errors)[known] <= half[level][known]
            found[f"coverage_{level}"] = np.mean(covered)
            found[f"publishers_covered_{level}"] = _of_publishers(covered, group[known])
            found[f"factor_{level}"] = np.exp(np.median(half[level][known]))
    found["band_low_80"], found["band_high_80"] = coverage_band(len(errors), 0.8)
    return found


def _of_publishers(values: np.ndarray, group: np.ndarray) -> float:
    """Mean over publishers of their means; one with fewer than `fit.FEW` rows weighs in proportion."""
    return float(np.average(values, weights=publisher_weights(group, np.ones(len(group), dtype=bool))))


def labels_of(rows: Rows, frame: pd.DataFrame, folds: LeftOut) -> dict[str, np.ndarray]:
    """The strata that a report shows, one label a row each.

    Parameters
    ----------
    rows : Rows
        The rows.
    frame : pandas.DataFrame
        Their table, for dates.
    folds : LeftOut
        Their predictions.
    """
    keys = rows.keys
    year = frame["date"].astype(str).str.extract(r"((?:19|20)\d\d)")[0].fillna("not stated")
    moe = np.where(np.asarray(keys["moe"], dtype=bool), "mixture of experts", "dense")
    return {
        "all": np.full(len(frame), "all"),
        "rows": np.where(rows.usable, "clear what was run", "needs care"),
        "publisher": rows.group,
        "device class": np.char.add(np.char.add(keys["vendor"].astype(str), " "), keys["family"].astype(str)),
        "tier": np.asarray(folds.tier, dtype=str),
        "scale": np.asarray(keys["scale"], dtype=str),
        "software": np.asarray(keys["engine"], dtype=str),
        "network": moe,
        "neighbours": np.where(folds.neighbours > 0, "corrected", "not corrected"),
        "year": year.to_numpy(dtype=str),
    }


def report(rows: Rows, frame: pd.DataFrame, folds: LeftOut) -> pd.DataFrame:
    """Figures of every stratum.

    Parameters
    ----------
    rows, frame, folds
        As for `labels_of`.

    Returns
    -------
    pandas.DataFrame
        Columns by, stratum and `FIGURES`.
    """
    import pandas as pd

    half = row_widths(rows, folds)
    judged = np.isfinite(folds.error)
    found = []
    for by, labels in labels_of(rows, frame, folds).items():
        known = judged & (rows.usable | (by == "rows"))
        for stratum in sorted(set(labels[known].tolist())):
            chosen = known & (labels == stratum)
            cut = {level: each[chosen] for level, each in half.items()}
            found.append({"by": by, "stratum": stratum, **figures(folds.error[chosen], rows.group[chosen], cut)})
    return pd.DataFrame(found)
