"""Jobs of a shared cluster: arrivals, requests, and the predicted speed of each on its GPUs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.fields import Field
from cookbook.catalog.refusals import Refused, refused
from cookbook.formulas.sharing import max_min_rates
from cookbook.topics.cluster.scheduler import Job, Speeds
from cookbook.topics.sweeps.sweeping import sweep
from cookbook.units import shown

HOUR, DAY, WEEK = 3600.0, 86400.0, 7 * 86400.0
MIXES = ("research", "mixed", "large")
# Standard deviations at which the lengths of jobs are cut, and the quantile of an 80 % interval.
CUT_SIGMAS, TENTH = 2.5, NormalDist().inv_cdf(0.9)
# Three in the afternoon, when most jobs arrive, days of a week before the weekend, and the hour at which time begins.
PEAK, WORKDAYS, SUNDAY = 15, 5, 6 * 24
# Standard deviations above the expected number of jobs for which gaps are drawn: more never come.
SURELY = 8
OWN_KIND = "given"
MAX_JOBS = 2_000_000


@lru_cache(maxsize=8)
def classes(mix: str) -> list[dict[str, Any]]:
    """Return the rows of the table ``cluster_jobs`` in a mix, with their share of the jobs as `share`."""
    rows = catalog.table("cluster_jobs")
    rows = rows[rows[mix] > 0].assign(share=rows[mix] / rows[mix].sum())
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def mean_gpu_seconds(mix: str, errors: Sequence[float]) -> float:
    """Return the expected GPU-seconds of a job; `errors` are the spreads of true times around predicted ones."""
    return sum(
        row["share"] * row["gpus"] * row["median"] * _mean_factor(row["spread"]) * _mean_factor(error)
        for row, error in zip(classes(mix), errors, strict=True)
    )


def _mean_factor(spread: float) -> float:
    """Return mean over median of a log-normal length that is cut at `CUT_SIGMAS` standard deviations."""
    normal = NormalDist()
    cut_mean = math.exp(spread**2 / 2) * (normal.cdf(CUT_SIGMAS - spread) - normal.cdf(-CUT_SIGMAS - spread))
    return cut_mean + normal.cdf(-CUT_SIGMAS) * (math.exp(spread * CUT_SIGMAS) + math.exp(-spread * CUT_SIGMAS))


@lru_cache(maxsize=64)
def speeds_of(
    model: str, micro_batch: float, gpus: int, most: int, accelerator: str, per_node: int, network: float, across: float
) -> tuple[Speeds, float]:
    """Return the relative speeds of a class of jobs by GPUs, GPUs per node, and position behind one or two switches.

    Returns
    -------
    tuple of dict and float
        Also the spread of the true speed around the prediction: standard deviation of its logarithm.
    """
    counts = sorted({2**power for power in range(most.bit_length()) if 2**power <= most} | {gpus})
    nodes = [2**power for power in range(per_node.bit_length()) if 2**power <= per_node]
    axes = {"devices": counts, "per_node": nodes, "network": [network, across]}
    table = sweep("train_step", progress=False, model=model, micro_batch=micro_batch, accelerator=accelerator, **axes)
    rows = {(row["devices"], row["per_node"], row["network"]): row for row in table.to_dict("records")}
    requested = rows[gpus, max(count for count in nodes if count <= gpus), network]
    if not requested["rate"] > 0:
        reason = f": no step of {model} on {gpus} is predicted ({requested['why']}); take another accelerator"
        raise refused("accelerator", accelerator, reason)
    # Spreading never helps: a step across nodes that is predicted to be shorter, by a few per cent, counts as packed.
    packed = {
        count: rows[count, max(node_size for node_size in nodes if node_size <= count), network]["rate"]
        for count in counts
    }
    speeds = {
        (count, on, crossed): float(
            min(rows[count, on, across if crossed else network]["rate"], packed[count]) / requested["rate"]
        )
        for count, on, crossed in itertools.product(counts, nodes, (False, True))
        if on <= count and packed[count] > 0
    }
    return speeds, math.log(requested["high80"] / requested["low80"]) / (2 * TENTH)


def share_across(network: float, oversubscription: float, per_switch: int) -> float:
    """Return a node's share of its switch's uplink when all nodes behind it send: max-min sharing [B/s]."""
    uplink = per_switch * network / oversubscription
    routes = [[node, per_switch] for node in range(per_switch)]
    return float(max_min_rates(routes, [network] * per_switch + [uplink])[0])


def intensity(hours: np.ndarray, rhythm: float) -> np.ndarray:
    """Return the relative arrival rate in each hour of a week from Monday, mean 1; `rhythm` 0 is even."""
    swing, weekend = (constant(f"cluster-{name}") for name in ("day-swing", "weekend"))
    day = 1 + rhythm * swing * np.cos(2 * np.pi * (hours % 24 + 0.5 - PEAK) / 24)
    level = day * np.where(hours // 24 % 7 < WORKDAYS, 1.0, 1 - rhythm * (1 - weekend))
    return np.asarray(level / (WORKDAYS + 2 * (1 - rhythm * (1 - weekend))) * 7)


def arrivals(mean: float, seconds: float, rhythm: float, random: np.random.Generator) -> np.ndarray:
    """Return times of a Poisson process whose rate follows the day and the week [s]; `mean` is jobs per second.

    The gaps are drawn in the measure of expected jobs, one after the other: at twice the rate the same jobs come in the
    same order, sooner, and more follow them. So two loads differ in the load, and not in what was drawn.
    """
    hours = np.arange(math.ceil(seconds / HOUR))
    summed = np.concatenate([[0.0], np.cumsum(intensity(hours + SUNDAY, rhythm))]) * HOUR * mean
    if summed[-1] > MAX_JOBS:
        raise ValueError(
            f"{summed[-1]:,.0f} jobs would arrive, more than {MAX_JOBS:,}: take fewer weeks, nodes or load"
        )
    most = math.ceil(summed[-1] + SURELY * math.sqrt(summed[-1]) + SURELY**2)
    places = np.cumsum(random.exponential(size=most))
    return np.asarray(np.interp(places[places < summed[-1]], summed, np.arange(len(summed)) * HOUR))


def generate(
    mix: str,
    gpus: int,
    load: float,
    seconds: float,
    demand: Mapping[str, float],
    rhythm: float,
    seed: int,
    place: tuple[str, int, float, float],
) -> list[Job]:
    """Return jobs over `seconds`; `demand` is each team's share of them, `place` the last arguments of `speeds_of`."""
    rows = classes(mix)
    # A stream of its own for each attribute, so that the first jobs are the same whatever number follows them.
    streams = [np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(6)]
    by_class = [speeds_of(row["model"], row["micro_batch"], int(row["gpus"]), int(row["most"]), *place) for row in rows]
    mean = load * gpus / mean_gpu_seconds(mix, [error for _, error in by_class])
    times = arrivals(mean, seconds, rhythm, streams[0])
    count = len(times)
    kinds = streams[1].choice(len(rows), count, p=[row["share"] for row in rows])
    teams = streams[2].choice(len(demand), count, p=list(demand.values()))
    lengths, errors = (np.clip(stream.standard_normal(count), -CUT_SIGMAS, CUT_SIGMAS) for stream in streams[3:5])
    luck, names = streams[5].random(count), list(demand)
    jobs = []
    for order, (time, at, team) in enumerate(zip(times.tolist(), kinds.tolist(), teams.tolist(), strict=True)):
        row, (speeds, error) = rows[at], by_class[at]
        expected = row["median"] * math.exp(row["spread"] * lengths[order])
        jobs.append(
            Job(
                order,
                row["key"],
                names[team],
                time,
                expected,
                int(row["gpus"]),
                int(row["least"]),
                int(row["most"]),
                row["urgent"] == "yes",
                float(row["use"]),
                expected * math.exp(error * errors[order]),
                speeds,
                float(luck[order]),
            )
        )
    return jobs


# What a row of a reader's own jobs has.
GPUS, USE, HOURS = Field.count(high=1e6), Field.number(high=1), Field.number(0, 1e6)


def _of_row(order: int, declared: Field, value: Any, name: str) -> Any:
    """Return a cell of a row of jobs, as its field declares it."""
    try:
        return declared.read(value, name)
    except Refused as problem:
        raise Refused(problem.refusal.reworded(f"jobs, row {order}: {problem}")) from None


def read(table: Any) -> list[Job]:
    """Read a user's jobs: rows with arrival, hours [h], gpus; optionally team ("A"), urgent (False) and use (1)."""
    rows = table.to_dict("records") if isinstance(table, pd.DataFrame) else list(table)
    if not rows:
        raise ValueError("jobs is empty: nothing arrives; give at least one row with arrival [h], gpus and hours")
    if len(rows) > MAX_JOBS:
        raise ValueError(f"jobs has {len(rows):,} rows; give at most {MAX_JOBS:,}")
    jobs = []
    for order, row in enumerate(rows):
        if not isinstance(row, Mapping) or not {"arrival", "gpus", "hours"} <= set(row):
            raise ValueError(f"jobs, row {order}: {shown(row)} must have arrival [h], gpus and hours")
        when, length = (_of_row(order, HOURS, row[name], name) for name in ("arrival", "hours"))
        count = _of_row(order, GPUS, row["gpus"], "gpus")
        if length <= 0:
            raise ValueError(f"jobs, row {order}: hours = 0 must be above 0; leave out jobs that do nothing")
        team = "A" if _missing(row.get("team")) else str(row["team"])
        urgent = _urgent(order, row)
        use = 1.0 if _missing(row.get("use")) else _of_row(order, USE, row["use"], "use")
        seconds = length * HOUR
        jobs.append(
            Job(order, OWN_KIND, team, when * HOUR, seconds, count, count, count, urgent, use, seconds, None, 0.5)
        )
    jobs.sort(key=lambda job: (job.arrival, job.order))
    for order, job in enumerate(jobs):
        job.order = order
    return jobs


def _missing(value: Any) -> bool:
    """Return True if a cell of a table is empty: None, NaN or pandas' NA."""
    return value is None or value is pd.NA or (isinstance(value, (float, np.floating)) and math.isnan(value))


def _urgent(order: int, row: Mapping[str, Any]) -> bool:
    value = row.get("urgent")
    if _missing(value):
        return False
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) and value in ("yes", "no"):
        return value == "yes"
    raise ValueError(f"jobs, row {order}: urgent = {shown(value)} must be True or False, or 'yes' or 'no'")
