"""Failures of long runs: how often devices fail, how fast storage takes a checkpoint, how long a restart takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cookbook import catalog, units

HOUR = units.si("1 h")


@dataclass(frozen=True)
class Failures:
    """What a run is assumed to meet.

    Attributes
    ----------
    mtbf_seconds : tuple of float
        Mean time between failures that one device accounts for: shortest, middle and longest [s].
    storage : float
        Rate at which storage takes checkpoints [B/s]; NaN where it follows from `storage_per_device`.
    storage_per_device : float
        The same for each device [B/s].
    restart_seconds : float
        Time from a failure until work goes on [s].
    source : tuple of str
        Keys in sources of what was not given.
    """

    mtbf_seconds: tuple[float, float, float]
    storage: float
    storage_per_device: float
    restart_seconds: float
    source: tuple[str, ...]

    def bandwidth(self, devices: Any) -> np.ndarray:
        """Rate at which storage takes a checkpoint of so many devices [B/s]."""
        return np.full(np.shape(devices), self.storage) if math.isfinite(self.storage) else np.asarray(
            devices) * self.storage_per_device  # fmt: skip


def known_failures(
    mtbf_hours: float | None = None, bandwidth: float | str | None = None, restart: float | str | None = None
) -> Failures:
    """Failures as published, or as given.

    Parameters
    ----------
    mtbf_hours : float, optional
        Mean time between failures that one device accounts for [h].
    bandwidth : float or str, optional
        Rate at which storage takes a checkpoint [B/s].
    restart : float or str, optional
        Time from a failure until work goes on [s].

    Raises
    ------
    ValueError
        One that is not above 0 and finite (a restart may take no time).

    Examples
    --------
    >>> low, middle, high = known_failures().mtbf_seconds
    >>> low < middle < high
    True
    """
    rows = catalog.table("long_runs")
    between = rows["devices"] * rows["days"] / rows["interruptions"]
    published = (float(between.min()), float(between.median()), float(between.max()))
    given = None if mtbf_hours is None else _positive("mtbf_hours", mtbf_hours, "h", "50000") * HOUR
    storage = math.nan if bandwidth is None else _positive("checkpoint_bandwidth", bandwidth, "B/s", "'100 GB/s'")
    seconds = float(rows["restart"].median()) if restart is None else _positive("restart", restart, "s", "'10 min'", 0)
    each = float((rows["storage_write"] / rows["devices"]).median())
    read = given is None or bandwidth is None or restart is None
    keys = dict.fromkeys(key for cell in rows["source"] for key in cell.split(";")) if read else {}
    mtbf = published if given is None else (given, given, given)
    return Failures(mtbf, storage, each, seconds, tuple(keys))


def _positive(name: str, value: float | str, unit: str, example: str, least: float = 1e-300) -> float:
    number = float(value) if unit == "h" and not isinstance(value, str) else float(units.si(value, unit))
    number = number / HOUR if unit == "h" and isinstance(value, str) else number
    if not (math.isfinite(number) and number >= least):
        raise ValueError(f"{name} = {value!r} must be above 0 and finite, such as {example}")
    return number
