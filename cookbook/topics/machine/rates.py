"""Constants of a device from single operations: sustained rates by size, launch time, memory, drives, JPEG.

The interval of each value comes from its samples; that of an asymptote from its fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cookbook.evidence import student_t
from cookbook.topics.machine.environment import ONE_THREAD
from cookbook.topics.machine.report import TIMES, UNITS, Report

TIER = "measured here"
# Middle 80 per cent of samples, between the quartiles and the extremes that a row keeps.
TENTH, NINETIETH = 0.1, 0.9
# Lower bound of the spread of log times around a fit, since clocks and caches vary this much.
MIN_SPREAD = 0.01
FEWEST_SIZES = 3
# Benchmarks of single operations, and how the names of their constants begin.
CONSTANTS = {
    "matmul": "matmul of",
    "memory": "memory bandwidth,",
    "launch": "start of an operation,",
    "disk sequential": "sequential reads,",
    "disk random": "random reads,",
    "jpeg decode": "JPEG decode,",
    "host copy": "copy from the host,",
    "all-reduce": "all-reduce,",
    "convolution": "convolution,",
}


class Figure(NamedTuple):
    """One constant of a device with its 80 % interval, in SI, from `rows` results."""

    constant: str
    number_format: str
    value: float
    low80: float
    high80: float
    unit: str
    rows: int
    says: str


def seconds_of(report: Report, row: Mapping[str, Any]) -> float:
    """Return the representative time of one call of a row [s]: its first quartile; the fastest on a shared machine.

    Disturbances only add time, so the faster half of the samples is closer to the undisturbed time.
    """
    busy = "shared" in report.environment and report.environment.get("clock") != ONE_THREAD
    return float(row["low_s"] if busy else row["q1_s"])


def calm(report: Report) -> Report:
    """Return the report with the representative time of each row in place of its median."""
    rows = []
    for row in report.rows:
        seconds = seconds_of(report, row)
        least, most = {"low_s": min(row["low_s"], seconds), "q1_s": min(row["q1_s"], seconds)}, row["q3_s"]
        rows.append({**row, **least, "median_s": seconds, "q3_s": max(most, seconds), "value": rate(row, seconds)})
    return replace(report, rows=rows)


def spread_of(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return the 10th and 90th percentile of a row's times [s]."""
    low, q1, _, q3, high = (float(row[name]) for name in TIMES)
    return low + (q1 - low) * TENTH / 0.25, q3 + (high - q3) * (NINETIETH - 0.75) / 0.25


def rate(row: Mapping[str, Any], seconds: float) -> float:
    """Return the result of a row where one call takes `seconds`, in its unit."""
    return seconds / row["work"] if UNITS[row["benchmark"]] == "s" else row["work"] / seconds


def figures(report: Report) -> list[Figure]:
    """Return constants of the device from a report's single operations: asymptotes first, then each size and case."""
    rows = [row for row in report.rows if row["benchmark"] in CONSTANTS]
    constants = []
    for name in formats(rows):
        constants += _asymptote(report, name, [row for row in rows if _square(row, name)])
    for row in rows:
        slow, fast = sorted(rate(row, seconds) for seconds in spread_of(row))
        value = rate(row, seconds_of(report, row))
        name = f"{CONSTANTS[row['benchmark']]} {', '.join(filter(None, [row['case'], row.get('method')]))}"
        ends = (min(slow, value), max(fast, value))
        constants.append(Figure(name, row.get("number_format") or "", value, *ends, row["unit"], 1, "a row"))
    return constants


def formats(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the number formats of the matrix products of a report, in their order."""
    row_formats = [
        str(row["number_format"]) for row in rows if row["benchmark"] == "matmul" and row.get("number_format")
    ]
    return list(dict.fromkeys(row_formats))


def _square(row: Mapping[str, Any], name: str) -> bool:
    sides = row["case"].split("x")
    return row["benchmark"] == "matmul" and row.get("number_format") == name and len(set(sides)) == 1 == len(sides) - 2


def _asymptote(report: Report, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Return the rate that large products approach and the fixed time of each: t = t0 + work / rate."""
    work = np.array([row["work"] for row in rows], dtype=float)
    if len(np.unique(work)) < FEWEST_SIZES:
        return []
    fitted, error, freedom = line(work, np.array([seconds_of(report, row) for row in rows]))
    reach = student_t(0.8, freedom) * error
    best = Figure(
        "matmul, sustained",
        name,
        1 / fitted[1],
        math.exp(-math.log(fitted[1]) - reach[1]),
        math.exp(-math.log(fitted[1]) + reach[1]),
        "FLOP/s",
        len(rows),
        "t = t0 + work / rate",
    )
    if fitted[0] <= 0:
        return [best]
    floor = Figure(
        "matmul, time beside the arithmetic",
        name,
        fitted[0],
        fitted[0] * math.exp(-reach[0]),
        fitted[0] * math.exp(reach[0]),
        "s",
        len(rows),
        "t = t0 + work / rate",
    )
    return [best, floor]


def line(work: np.ndarray, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return intercept and slope of times over work, relative errors weighted equally; errors of their logarithms.

    Parameters
    ----------
    work, seconds : numpy.ndarray
        Work of a call and its time [s], at least two different amounts.

    Returns
    -------
    tuple
        (t0 [s], time of one piece of work [s]), standard errors of their logarithms, degrees of freedom. t0 is 0, and
        its error infinite, where the times rather fall below the line.

    Examples
    --------
    >>> found, _, _ = line(np.array([1.0, 10.0, 100.0]), np.array([3.0, 12.0, 102.0]))
    >>> found.round(6).tolist()
    [2.0, 1.0]
    """
    design = np.stack([1 / seconds, work / seconds], axis=1)
    target = np.ones(len(work))
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    free = max(len(work) - 2, 1)
    if solution[0] <= 0 or solution[1] <= 0:
        slope = float(np.exp(np.mean(np.log(seconds / work))))
        spread = max(float(np.std(np.log(seconds / work), ddof=1)), MIN_SPREAD)
        return np.array([0.0, slope]), np.array([math.inf, spread / math.sqrt(len(work))]), len(work) - 1
    spread = max(math.sqrt(float(np.sum((target - design @ solution) ** 2)) / free), MIN_SPREAD)
    covariance = np.linalg.inv(design.T @ design) * spread**2
    return solution, np.sqrt(np.diag(covariance)) / solution, free
