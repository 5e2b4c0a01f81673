"""Measurements and errors of predictions: every measured run, errors, intervals and Student's t.

This module defines the error statistics with which the tables of evaluated predictions are written and read: every
publisher weighs one, since rows of one publisher are not independent. `evaluation` and `measurements` read the tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from cookbook.catalog.refusals import refused
from cookbook.prediction.constants import LEVELS

# Models in the tables of evaluated predictions.
FULL, NO_NEIGHBOURS, ROW = "full", "without neighbours", "row"
# A publisher with fewer rows weighs in proportion, since a single row shows no systematic error.
FEW = 10
# Fewer publishers count as few sources; fewer rows are too few for the coverage of a publisher's intervals.
ENOUGH = 5
FIGURES = (
    "rows",
    "publishers",
    "median_error",
    "mean_error",
    "mean_of_publishers",
    "mean_of_medians",
    "within_10",
    "within_20",
    "bias",
    "coverage_80",
    "coverage_90",
    "publishers_covered_80",
    "publishers_covered_90",
    "publishers_in_band",
    "score_80",
    "factor_80",
    "factor_90",
    "band_low_80",
    "band_high_80",
)
# A publisher's intervals are right where they cover this share of at least `ENOUGH` rows.
COVERAGE_BAND = (0.6, 0.95)


def table_name(kind: str) -> str:
    """Return the table of the predictions of a kind.

    >>> table_name("training_classic")
    'validation_classic_rows'
    """
    return f"validation_{kind.removeprefix('training_')}_rows"


def student_t(level: float, freedom: float) -> float:
    """Return the two-sided critical value of Student's t: the half-width of an interval at a level, in standard errors.

    Exact for one and two degrees of freedom; from three on, shares up to 0.9 are right to 0.05 %, 0.95 to 0.2 % and
    0.99 to 1 %.

    Parameters
    ----------
    level : float
        Coverage of the interval, 0 to 1.
    freedom : float
        Degrees of freedom: 1, or 2 and more.

    Raises
    ------
    ValueError
        Other degrees of freedom.

    References
    ----------
    Abramowitz & Stegun, Handbook of mathematical functions, 1964, 26.7.5; for one and two degrees the exact forms.

    Examples
    --------
    >>> [round(student_t(0.8, freedom), 3) for freedom in (1, 2, 3, 10)]
    [3.078, 1.886, 1.637, 1.372]
    """
    if freedom != 1 and not freedom >= 2:
        raise refused("freedom", freedom, "is no number of degrees that is known; give 1, or 2 and more")
    if freedom == 1:
        return math.tan(math.pi * level / 2)
    if freedom == 2:
        return level * math.sqrt(2 / (1 - level**2))
    z = NormalDist().inv_cdf(0.5 + level / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def interval_score(errors: np.ndarray, half: np.ndarray, level: float) -> np.ndarray:
    """Return the interval score of each row, in the logarithm: its width, plus weighted misses.

    `errors`: logarithmic errors; `half`: half-width of each interval; `level`: its nominal coverage.

    >>> interval_score(np.array([0.1, 0.3]), np.array([0.2, 0.2]), 0.8).round(3).tolist()
    [0.4, 1.4]
    """
    return 2 * half + 2 / (1 - level) * np.maximum(np.abs(errors) - half, 0)


def publisher_means(values: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each publisher, and its weight: one, or less in proportion with fewer than `FEW` rows.

    `values`: one a row; `group`: publisher of each.
    """
    _, codes = np.unique(group, return_inverse=True)
    counts = np.bincount(codes)
    return np.bincount(codes, values) / counts, np.minimum(counts / FEW, 1.0)


def pooled_quantile(errors: np.ndarray, group: np.ndarray, level: float) -> float:
    """Return the quantile `level` of absolute errors, every group weighing as in `publisher_means`.

    `errors`: logarithmic errors; `group`: publisher, or another group that is held out, of each; `level`: share, 0 to
    1.

    >>> pooled_quantile(np.arange(1.0, 41), np.array(["a"] * 30 + ["b"] * 10), 0.5)
    30.0
    """
    _, codes, counts = np.unique(group, return_inverse=True, return_counts=True)
    size = np.abs(errors)
    order = np.argsort(size, kind="stable")
    below = np.cumsum(1 / np.maximum(counts, FEW)[codes][order])
    return float(size[order][min(int(np.searchsorted(below / below[-1], level - 1e-12)), len(size) - 1)])


def coverage_band(rows: int, level: float) -> tuple[float, float]:
    """Return the shares of covered rows that chance alone allows in 95 of 100 cases, if rows are independent.

    `rows`: rows of the publisher; `level`: nominal coverage, 0 to 1. The interval is the Wilson score interval.

    >>> tuple(round(edge, 2) for edge in coverage_band(50, 0.8))
    (0.67, 0.89)
    """
    z = 1.959964
    centre = (level + z**2 / (2 * rows)) / (1 + z**2 / rows)
    reach = z * np.sqrt(level * (1 - level) / rows + z**2 / (4 * rows**2)) / (1 + z**2 / rows)
    return float(centre - reach), float(min(centre + reach, 1.0))


def figures(errors: np.ndarray, group: np.ndarray, half: Mapping[int, np.ndarray] | None = None) -> dict[str, Any]:
    """Return error, bias, coverage and width of some rows.

    `errors`: logarithm of predicted over measured; `group`: publisher of each; `half`: half-widths of the rows by
    level.
    """
    relative = np.abs(np.expm1(errors))
    names = np.unique(group)
    results: dict[str, Any] = {
        "rows": len(errors),
        "publishers": len(names),
        "median_error": np.median(relative),
        "mean_error": np.mean(relative),
        "within_10": np.mean(relative <= 0.1),
        "within_20": np.mean(relative <= 0.2),
        "mean_of_publishers": _of_publishers(relative, group),
        "mean_of_medians": _of_medians(relative, group),
        "bias": np.expm1(np.median(errors)),
    }
    if half is None:
        return results
    for level in LEVELS:
        bounded = np.isfinite(half[level])
        if bounded.any():
            covered = np.abs(errors)[bounded] <= half[level][bounded]
            results[f"coverage_{level}"] = np.mean(covered)
            results[f"publishers_covered_{level}"] = _of_publishers(covered, group[bounded])
            results[f"factor_{level}"] = np.exp(np.median(half[level][bounded]))
            if level == LEVELS[0]:
                results["score_80"] = _of_publishers(interval_score(errors, half[level], 0.8)[bounded], group[bounded])
                results["publishers_in_band"] = _in_band(covered, group[bounded])
    results["band_low_80"], results["band_high_80"] = coverage_band(len(errors), 0.8)
    return results


def paired(errors: np.ndarray, base: np.ndarray, group: np.ndarray, draws: int = 2000) -> tuple[float, float, float]:
    """Return the excess error of one model over another, mean over publishers, with its 90 % bootstrap over publishers.

    `errors`, `base`: logarithmic errors of the same rows, by the model and by what it is compared with; `group`:
    publisher of each. Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    more, weights = publisher_means(np.abs(np.expm1(errors)) - np.abs(np.expm1(base)), group)
    drawn = np.random.default_rng(0).integers(0, len(more), (draws, len(more)))
    means = (more * weights)[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    return float(np.average(more, weights=weights)), *np.quantile(means, [0.05, 0.95]).tolist()


def _of_medians(values: np.ndarray, group: np.ndarray) -> float:
    """Return the mean over publishers of their medians, weighted as their means are."""
    medians = np.array([np.median(values[group == name]) for name in np.unique(group)])
    return float(np.average(medians, weights=publisher_means(values, group)[1]))


def _in_band(covered: np.ndarray, group: np.ndarray) -> float:
    """Return the share of publishers with enough rows whose intervals cover neither too few of them nor nearly all."""
    _, codes = np.unique(group, return_inverse=True)
    counts = np.bincount(codes)
    coverage = (np.bincount(codes, covered) / counts)[counts >= ENOUGH]
    return float(np.mean((coverage >= COVERAGE_BAND[0]) & (coverage <= COVERAGE_BAND[1]))) if len(coverage) else np.nan


def _of_publishers(values: np.ndarray, group: np.ndarray) -> float:
    """Return the mean over publishers of their means; one with fewer than `FEW` rows weighs in proportion."""
    means, weights = publisher_means(values, group)
    return float(np.average(means, weights=weights))
