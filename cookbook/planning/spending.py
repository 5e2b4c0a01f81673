"""What a task costs at one place, for every draw of its figures at once."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.performance.reliability import cluster_mtbf_seconds, daly_2006_interval_seconds, useful_share
from cookbook.planning.cost import BOUGHT, Price
from cookbook.planning.energy import power_watts
from cookbook.planning.ownership import HOUR, HOURS_A_YEAR, KILO, MONTHS, ownership_usd
from cookbook.planning.places import FLOAT, GIGA, PER_TOKEN, Place, network_of

DRAWS, SEED = 2000, 9
# A range counts as the middle 80 % of what may be: so many standard deviations of a normal either way.
TENTH = 1.2815515655446004
GRAM, MILLION = 1e-3, 1e6
RENTED_BY_HOUR = ("on demand", "spot")
QUANTITIES = ("hours", "use", "units", "kwh", "kgco2e")
# Figures that are shares or factors with a bound, whatever is drawn.
BOUNDS = {"idle": (0, 1), "full": (0, 1), "pue": (1, np.inf), "money": (0, 1)}
Draws = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Task:
    """What is to be run, how often, and under which rules.

    Attributes
    ----------
    model : str
    samples, epochs, batch : float
        Samples of an epoch; epochs of a run; samples on each accelerator in one step.
    seq : float, optional
        Tokens of a sample.
    data_bytes, uplink : float
        Stored data [B], and the rate at which they can leave the house [B/s].
    runs : float
        Runs a month.
    years : float
        Horizon.
    deadline : float
        Longest time of one run, upload of the data included [s].
    region, private : str
    """

    model: str
    samples: float
    epochs: float
    batch: int
    seq: float | None
    data_bytes: float
    uplink: float
    runs: float
    years: float
    deadline: float
    region: str
    private: str

    @property
    def count(self) -> float:
        """Runs over the horizon."""
        return self.runs * MONTHS * self.years


def costs(place: Place, draws: Draws, task: Task) -> dict[str, Any]:
    """What the task costs at one place, for each draw of its figures.

    Parameters
    ----------
    place : Place
    draws : mapping
        Values of the place's figures by name; arrays of one length, or numbers.
    task : Task

    Returns
    -------
    dict
        hours of one run, use (hours of all runs over those of the horizon), units (how often the place is bought or
        reserved, so that it keeps up), kwh and kgco2e of the horizon; parts: USD by part.
    """
    if place.way == PER_TOKEN:
        tokens = task.samples * task.epochs * (task.seq or 1) * task.count
        rent = draws["price"] * tokens / MILLION
        return {**dict.fromkeys(QUANTITIES, np.full_like(rent, np.nan)), "parts": {"rent": rent}}
    steps = task.samples * task.epochs / (task.batch * place.devices)
    hours = steps * draws["step"] / _useful(place, draws) / HOUR
    horizon = task.years * HOURS_A_YEAR
    use = hours * task.count / horizon
    by_hour = place.way in RENTED_BY_HOUR
    units = np.ones_like(use) if by_hour else np.maximum(np.ceil(use), 1)
    paid = use if by_hour else units
    active = np.minimum(place.active * use / np.maximum(paid, 1e-12), 1)
    watts = power_watts(draws["rated"], active, draws["idle"], draws["full"])
    kwh = watts / KILO * horizon * paid * draws["pue"]
    parts = _owned(draws, task, watts) if place.way == BOUGHT else _rented(place, draws, task, use)
    parts = {name: usd * (units if name != "data" else 1) for name, usd in parts.items()}
    found = {"hours": hours, "use": use, "units": units, "kwh": kwh, "kgco2e": kwh * draws["carbon"] * GRAM}
    return {**found, "parts": parts}


def _useful(place: Place, draws: Draws) -> Any:
    """Part of the time that is kept: interruptions cost checkpoints, lost work and restarts."""
    if place.way != "spot":
        return 1.0
    between = cluster_mtbf_seconds(draws["interruption"], place.machines)
    interval = daly_2006_interval_seconds(draws["checkpoint"], between)
    return useful_share(interval, draws["checkpoint"], draws["restart"], between)


def _owned(draws: Draws, task: Task, watts: Any) -> Mapping[str, Any]:
    rated_kw = draws["rated"] / KILO
    return ownership_usd(
        draws["price"], task.years, life_years=draws["life"], money_rate=draws["money"],
        network_share=draws["network"], storage_share=draws["storage"], maintenance_share=draws["maintenance"],
        watts=watts, pue=draws["pue"], usd_per_kwh=draws["tariff"], staff_usd_per_year=draws["staff"],
        space_usd_per_year=draws["space"] * rated_kw * MONTHS,
    ).parts  # fmt: skip


def _rented(place: Place, draws: Draws, task: Task, use: Any) -> dict[str, Any]:
    """Hours at their price, or all hours of the term; data kept, results and at the end the data brought home."""
    years = task.years if place.way in RENTED_BY_HOUR else max(task.years, place.term_years)
    hours = years * HOURS_A_YEAR * (use if place.way in RENTED_BY_HOUR else np.ones_like(use))
    parameters, _ = network_of(task.model)
    home = (task.data_bytes + parameters * FLOAT * task.count) / GIGA
    kept = task.data_bytes / GIGA * MONTHS * task.years
    return {"rent": hours * draws["price"], "data": home * draws["egress"] + kept * draws["keep"]}


def spread(figure: Price, normal: np.ndarray) -> np.ndarray:
    """Values of a range: its ends are the 10th and the 90th percentile of two half log-normals around its median.

    Examples
    --------
    >>> spread(Price(1.0, 2.0, 8.0, "USD"), np.array([-TENTH, 0.0, TENTH])).round(6).tolist()
    [1.0, 2.0, 8.0]
    """
    low, middle, high = float(figure.low), float(figure.median), float(figure.high)
    if not (low > 0 and high > low):
        return np.full_like(normal, middle)
    side = np.where(normal < 0, math.log(middle / low), math.log(high / middle))
    return middle * np.exp(side * (normal / TENTH))


@lru_cache(maxsize=64)
def drawn(place: Place, count: int = DRAWS) -> dict[str, np.ndarray]:
    """Monte-Carlo values of the figures of a place; figures that places share vary together. Never change them.

    Parameters
    ----------
    place : Place
    count : int
        How many.
    """
    values = {}
    for name, figure in place.figures.items():
        seed = zlib.crc32(place.shared(name).encode())
        values[name] = spread(figure, np.random.default_rng([SEED, seed]).standard_normal(count))
    return {name: np.clip(value, *BOUNDS[name]) if name in BOUNDS else value for name, value in values.items()}


def middle(place: Place) -> dict[str, np.ndarray]:
    """Every figure at its median."""
    return {name: np.array([float(figure.median)]) for name, figure in place.figures.items()}


def total(parts: Mapping[str, Any]) -> Any:
    """Sum of parts, draw by draw."""
    return np.sum(np.broadcast_arrays(*parts.values()), axis=0)
