"""Simulation of a cluster that teams share: waits, utilisation, and the effect of another policy.

The API is `cluster`, one run of simulated weeks; `cluster_weeks` runs several policies on the same weeks, and
`cluster_gains` compares them week by week. Jobs are drawn from stated distributions (table ``cluster_jobs``); facts on
real clusters are in ``cluster_facts``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import index
from typing import Any, cast

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.catalog import constant
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.prices import hourly_usd
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.formulas.sharing import jain_index
from cookbook.progress_bar import progress_bar
from cookbook.result import Result, plain
from cookbook.topics.cluster import jobs
from cookbook.topics.cluster.jobs import DAY, HOUR, MIXES, WEEK
from cookbook.topics.cluster.policies import PLACEMENTS, POLICIES, Spots
from cookbook.topics.cluster.scheduler import SERVICE, Cluster, Job, Line, Rules
from cookbook.topics.costs.cost import machine_power, power_watts
from cookbook.units import shown

# Days before the measured window, so that the cluster is not empty at first; limits of several arguments.
WARM_UP = DAY
MAX_TEAMS, MAX_NODES, MAX_SLICES, MAX_LOAD, MAX_SKEW = 8, 4096, 7, 4.0, 100.0
# Claims of a vendor of cluster-sharing software: rows of the table ``cluster_facts``.
CLAIM_OF_MEASURE = {"utilisation": "gain of GPU utilisation", "finished": "gain of job throughput"}
# Resamples for an interval of a mean, and its quantiles.
RESAMPLES, ENDS = 2000, (0.05, 0.95)
RELIABILITY_STUDY = "Meta RSC-1"
PERCENTILES = (50, 95)
# Lanes from one node to the next in a chart.
PITCH = 9


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRun(Result):
    """Simulated weeks of a cluster under one policy; read-only.

    Attributes
    ----------
    title : str
        The policy and the cluster.
    measures : dict
        Results over the measured time (the weeks after a warm-up of one day; for given jobs, all time from the first
        arrival on): utilisation (allocated over total GPU time), effective (the same, counting only work at the speed
        of a packed job that keeps its GPUs busy), goodput (effective over allocated), jobs that arrived, finished
        within that time, wait_p50, wait_p95 and wait_mean [s] (total wait, after preemptions too), stay_p50 and
        stay_p95 (wait plus run) [s], makespan (until the last job ends) [s], fairness (Jain's index over teams of the
        share of their stay in which jobs run), stops (preemptions), service and idle_waiting (share of GPU time used by
        the service, and idle while a job waited), kwh and usd with low and high (rented GPUs at their list prices),
        usd_per_job.
    sums : dict
        GPU-seconds held (busy) and worked (work), job-seconds inside (jobs) and waiting, of the whole run.
    assumed : tuple of str
        The defaults used for missing arguments.
    gpus, window : int, tuple of float
        GPUs of the cluster; begin and end of what is measured [s].
    """

    _class_in_repr = False
    title: str
    _measures: dict[str, float] = field(repr=False)
    _sums: dict[str, float] = field(repr=False)
    assumed: tuple[str, ...]
    gpus: int
    window: tuple[float, float]
    _jobs: list[Job] = field(repr=False)
    _lines: list[Line] = field(repr=False)

    @property
    def measures(self) -> dict[str, float]:
        """Return the measures by which the run is evaluated."""
        return dict(self._measures)

    @property
    def sums(self) -> dict[str, float]:
        """Return the sums over the whole run."""
        return dict(self._sums)

    @property
    def jobs(self) -> pd.DataFrame:
        """Return every job: kind, team, gpus, arrival, start, end [s], wait [s], granted [GPU-s], stops."""
        columns = ("kind", "team", "gpus", "arrival", "first", "ended", "waited", "granted", "stops")
        jobs = pd.DataFrame({name: [getattr(job, name) for job in self._jobs] for name in columns})
        return jobs.rename(columns={"first": "start", "ended": "end", "waited": "wait"})

    @property
    def timeline(self) -> pd.DataFrame:
        """Return every stay on a GPU: job (-1: the service), team, kind, gpus, start, end [s], node, lane.

        Empty if `log` was False.
        """
        stays = pd.DataFrame(self._lines, columns=["job", "start", "end", "node", "lane"])
        labels = [self._named(job) for job in stays["job"]]
        return stays.assign(**{name: [record[name] for record in labels] for name in ("team", "kind", "gpus")})

    def drawn(self) -> pd.DataFrame:
        """Return the first week as `cookbook.charts.timeline` takes it: stays of jobs on GPUs, and each hour in words.

        Raises
        ------
        ValueError
            If the run has no log.
        """
        if not self._lines:
            raise ValueError("no timeline was kept: simulate with log=True")
        begin = self.window[0] // DAY * DAY
        end = min(self.window[1], begin + WEEK)
        lines = [line for line in self._lines if line[2] > begin and line[1] < end]
        rows = [
            {
                "what": "stay",
                "node": node,
                "low": node * PITCH + low,
                "high": node * PITCH + high,
                "start": (max(since, begin) - begin) / HOUR,
                "end": (min(until, end) - begin) / HOUR,
                **self._named(job),
                "text": None,
            }
            for job, since, until, node, low, high in _bands(lines)
        ]
        at = begin + HOUR * np.arange(int((end - begin) // HOUR) + 1)
        waiting = _count_at(at, [(job.arrival, job.ended) for job in self._jobs])
        waiting -= _count_at(at, list({(since, until, job) for job, since, until, _, _ in lines if job != SERVICE}))
        used = _count_at(at, _merged(lines))
        for hour, (wait, in_use) in enumerate(zip(waiting.tolist(), used.tolist(), strict=True)):
            words = f"{in_use} of {self.gpus} GPUs in use, {wait} {'job waits' if wait == 1 else 'jobs wait'}"
            rows.append(
                {"what": "hour", "start": float(hour), "text": words, "waiting": wait, "idle": self.gpus - in_use}
            )
        return pd.DataFrame(rows)

    def _named(self, job: int) -> dict[str, Any]:
        """Return team, kind and GPUs of a stay."""
        if job == SERVICE:
            return {"team": "service", "kind": "service", "gpus": 1}
        stay = self._jobs[job]
        return {"team": stay.team, "kind": stay.kind, "gpus": stay.gpus}

    def frame(self) -> pd.DataFrame:
        """Return the measures, one row each, in SI units except kWh and USD."""
        return pd.DataFrame({"measure": list(self.measures), "value": list(self.measures.values())})

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; a missing value is None."""
        return plain({"title": self.title, "assumed": self.assumed, **self.measures})

    def summary(self) -> str:
        """Return utilisation, the number of finished jobs, and their waits in one line."""
        measures = self.measures
        return (
            f"{self.title}: {100 * measures['utilisation']:.0f} % in use, {measures['finished']:,.0f} jobs done, half "
            f"of them waited {units.human(measures['wait_p50'], 's')} or less, 5 % more than "
            f"{units.human(measures['wait_p95'], 's')}"
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the measures as printed, by title."""
        return {"Measures": self.frame().round(3)}


def _count_at(times: np.ndarray, stays: Sequence[tuple[float, ...]]) -> np.ndarray:
    """Return the number of stays, (since, until), at each time."""
    ends = np.sort(np.array([stay[:2] for stay in stays] or np.empty((0, 2)), dtype=float), axis=0)
    return np.asarray(np.searchsorted(ends[:, 0], times, "right") - np.searchsorted(ends[:, 1], times, "right"))


def _merged(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """Return the intervals in which each GPU is in use, regardless of how many jobs share it."""
    intervals: list[tuple[float, float]] = []
    last: tuple[int, int] | None = None
    for _, since, until, node, lane in sorted(lines, key=lambda line: (line[3], line[4], line[1])):
        if (node, lane) == last and since < intervals[-1][1]:
            intervals[-1] = (intervals[-1][0], max(until, intervals[-1][1]))
        else:
            intervals.append((since, until))
        last = (node, lane)
    return intervals


def _bands(lines: Sequence[Line]) -> Iterator[tuple[int, float, float, int, int, int]]:
    """Yield stays with neighbouring lanes combined: job, since, until, node, first lane and that after the last."""
    stays: dict[tuple[int, float, float, int], list[int]] = {}
    for job, since, until, node, lane in lines:
        stays.setdefault((job, since, until, node), []).append(lane)
    for key, lanes in stays.items():
        lanes.sort()
        first = lanes[0]
        for lane, after in zip(lanes, [*lanes[1:], math.inf], strict=True):
            if after != lane + 1:
                yield *key, first, lane + 1
                first = int(after) if math.isfinite(after) else 0


# Arguments of `cluster`: a policy or a placement by name, or a function of the reader's own.
POLICY = Field.choice(*POLICIES, records=(Callable,))
MIX, LOAD, TEAMS = Field.choice(*MIXES), Field.number(1e-3, MAX_LOAD), Field.count(high=MAX_TEAMS)
FIXED = {
    "nodes": Field.count(high=MAX_NODES),
    "per_node": Field.count(high=64),
    "teams": TEAMS,
    "skew": Field.number(1, MAX_SKEW),
    "quota": Field.record(Mapping, list, tuple, what="list of numbers", give="a number of GPUs for each team"),
    "place": Field.choice(*PLACEMENTS, records=(Callable,)),
    "share": Field.count(high=MAX_SLICES),
    "service": Field.count(0, MAX_NODES * 64),
    "beside": Field.flag(),
    "rhythm": Field.number(0, 1),
    "accelerator": Field.named("accelerators"),
    "per_switch": Field.count(high=MAX_NODES),
    "network": Field.number(1e3, 1e15, unit="B/s"),
    "oversubscription": Field.number(1, 1e3),
    "mtbf_days": Field.number(1e-3, math.inf, give="0.001 days or more, or math.inf for no failures"),
    "jobs": Field.record(pd.DataFrame, list, tuple, what="table", give="rows with arrival [h], gpus and hours"),
    "progress": Field.flag(),
}


@checked(
    **FIXED,
    policy=POLICY,
    load=LOAD,
    mix=MIX,
    weeks=Field.count(high=520),
    seed=Field.count(0, 2**32 - 1),
    log=Field.flag(),
)
def cluster(
    policy: str | Callable[[Any], None] = "backfill",
    *,
    nodes: int = 8,
    per_node: int = 8,
    load: float = 0.8,
    mix: str = "mixed",
    teams: int = 4,
    skew: float = 2.0,
    quota: Sequence[int] | Mapping[str, int] | None = None,
    place: str | Callable[..., Any] = "pack",
    share: int = 1,
    service: int = 0,
    beside: bool = True,
    weeks: int = 1,
    seed: int = 0,
    rhythm: float = 1.0,
    accelerator: str = "a100-sxm-80gb",
    per_switch: int = 4,
    network: float | str = "12.5 GB/s",
    oversubscription: float = 2.0,
    mtbf_days: float | None = None,
    jobs: pd.DataFrame | Sequence[Any] | None = None,
    progress: bool = True,
    log: bool = True,
) -> ClusterRun:
    """Simulate weeks of a cluster that teams share, event by event; all policies of one `seed` meet the same jobs.

    Parameters
    ----------
    policy : str or callable
        "static" (each team its own GPUs), "fifo", "backfill", "fair", "priority", "elastic"; or a function of the
        cluster such as those in `cookbook.planning.POLICIES`.
    nodes, per_node : int
        Nodes, and GPUs of each.
    load : float
        Requested over available GPU time; above 1 the queue grows.
    mix : {"research", "mixed", "large"}
        Column of the table ``cluster_jobs`` with the frequency of each class of jobs.
    teams, skew : int, float
        Number of teams, and the ratio of the busiest team's jobs to the quietest's.
    quota : sequence or mapping, optional
        GPUs that each team owns; by default equal parts of those that the service leaves at its peak. Only "static"
        and your own policies mind it.
    place : str or callable
        "pack", "same node" (a job waits until the fewest nodes have free GPUs) or "spread"; or a function as in
        `cookbook.planning.PLACEMENTS`.
    share : int
        Jobs that may share a GPU if they keep only that part of it busy, under "static" those of one team; 1 for none.
    service, beside : int, bool
        GPUs that an interactive service needs at its peak; whether training may use those that are idle at night.
    weeks, seed, rhythm : int, int, float
        Simulated weeks after one day of warm-up; seed of the draws; 0 for even arrivals, 1 for those of working days.
    accelerator, per_switch, network, oversubscription
        Accelerator of the jobs, nodes behind one switch, rate of a node's network [B/s], and the ratio of the nodes'
        total rate behind a switch to its uplink. They determine the speed of jobs that are spread.
    mtbf_days : float, optional
        Mean time between failures of one GPU [d]; that of a large cluster by default; infinite: none.
    jobs : table, optional
        Your own jobs instead: rows with arrival [h], gpus, hours, and optionally team ("A"), urgent (True, False)
        and use (the part of a GPU that it keeps busy, 1: it shares none). All are measured.
    progress, log : bool
        Whether to show a bar after a second, and to keep the `timeline`.

    Raises
    ------
    ValueError
        If arguments contradict each other: more GPUs requested than exist, no arrivals, a quota above the cluster, two
        constraints that exclude each other (both are named).
    cookbook.catalog.UnknownName
        If the catalogue does not have the accelerator.

    Examples
    --------
    >>> sent = [{"arrival": 0, "gpus": 8, "hours": 2}, {"arrival": 1, "gpus": 1, "hours": 1}]
    >>> run = cluster("fifo", nodes=1, jobs=sent)
    >>> [round(wait / 3600, 1) for wait in run.jobs["wait"]], round(run.measures["utilisation"], 3)
    ([0.0, 1.0], 0.708)
    """
    chosen = policy if callable(policy) else POLICIES[policy]
    if service >= nodes * per_node:
        raise refused(
            "service", service, f"takes all {nodes * per_node} GPUs: no job can run; lower service or add nodes"
        )
    rules = Rules(
        nodes,
        per_node,
        per_switch,
        share,
        _mtbf(mtbf_days, jobs is not None),
        interval=constant("cluster-checkpoint"),
        restart=constant("cluster-restart"),
        service=partial(_service_gpus, service, beside) if service else None,
        apart=chosen is POLICIES["static"],
    )
    sent, demand = _jobs_and_demand(
        jobs,
        mix,
        load,
        teams,
        skew,
        weeks,
        seed,
        rhythm,
        rules,
        _where(accelerator, rules, network, oversubscription),
    )
    owned = _team_quotas(quota, tuple(demand), rules)
    _check_possible(sent, rules, owned if rules.apart else None, quota is None)
    simulated = Cluster(rules, owned, chosen, partial(_placed, place) if callable(place) else PLACEMENTS[place], log)
    marks = [WARM_UP, WARM_UP + weeks * WEEK] if jobs is None else [sent[0].arrival]
    sums = simulated.run(sent, marks, progress, to_end=jobs is not None)
    unfinished = [job for job in sent if math.isnan(job.ended)]
    if unfinished:
        reason = (
            f"never starts {len(unfinished):,} of {len(sent):,} jobs, such as one of {unfinished[0].gpus} GPUs of team "
            f"{unfinished[0].team}; let it start each job when nothing else runs"
        )
        raise refused("policy", policy, reason)
    window = (marks[0], marks[1] if jobs is None else max(job.ended for job in sent))
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", "your policy")
    measures = _measures(sent, sums, window, rules, accelerator)
    return ClusterRun(
        f"{name} on {simulated.total:,} GPUs",
        measures,
        simulated.areas,
        _assumed(rules, jobs is not None, mtbf_days),
        simulated.total,
        window,
        sent,
        simulated.lines or [],
    )


def _mtbf(days: float | None, own: bool) -> float:
    """Return the mean time between failures of one GPU [s]; of the reader's own jobs infinite by default."""
    if days is not None:
        return days * DAY
    if own:
        return math.inf
    row = catalog.table("long_runs").set_index("name").loc[RELIABILITY_STUDY]
    return float(row["devices"] * row["duration"] / row["interruptions"])


def _service_gpus(peak: int, beside: bool, now: float) -> int:
    """Return the GPUs of a service: its peak, or what people need at this hour."""
    night = constant("cluster-service-night")
    day = (1 + math.cos(2 * math.pi * (now / HOUR % 24 - jobs.PEAK) / 24)) / 2
    return math.ceil(peak * (night + (1 - night) * day)) if beside else peak


def _where(accelerator: Any, rules: Rules, network: Any, oversubscription: Any) -> tuple[str, int, float, float]:
    """Return the key of the accelerator, GPUs per node, and the network's rate within and across switches [B/s]."""
    return (
        catalog.lookup("accelerators", accelerator),
        rules.per_node,
        network,
        jobs.share_across(network, oversubscription, min(rules.per_switch, 64)),
    )


def _placed(place: Callable[..., Any], free: Sequence[int], gpus: int, per_node: int, per_switch: int) -> Spots:
    """Return the nodes that a reader's function gives a job, and its GPUs on each; refuse what is not free."""
    given = place(free, gpus, per_node, per_switch)
    try:
        spots = [] if given is None or given is False else [(index(node), index(count)) for node, count in given]
    except (TypeError, ValueError):
        spots = [(-1, 0)]
    possible = len({node for node, _ in spots}) == len(spots) and all(
        0 <= node < len(free) and 0 < count <= free[node] for node, count in spots
    )
    if not possible or (spots and sum(count for _, count in spots) != gpus):
        reason = (
            f"place returned {shown(given)} for a job of {gpus:,} GPUs; return pairs of a node and of its free GPUs, "
            "which add up to those of the job, or an empty list where it has to wait"
        )
        raise Refused(Refusal(reason, field="place"))
    return spots


def _jobs_and_demand(
    own: Any,
    mix: Any,
    load: Any,
    teams: Any,
    skew: Any,
    weeks: Any,
    seed: Any,
    rhythm: Any,
    rules: Rules,
    place: tuple[str, int, float, float],
) -> tuple[list[Job], dict[str, float]]:
    """Return jobs, and each team's share of them."""
    seconds = WARM_UP + weeks * WEEK
    if own is not None:
        sent = jobs.read(own)
        return sent, {name: 1.0 for name in sorted({job.team for job in sent})}
    weights = np.array([skew ** ((teams - 1 - at) / max(teams - 1, 1)) for at in range(teams)])
    demand = dict(zip([chr(ord("A") + at) for at in range(teams)], (weights / weights.sum()).tolist(), strict=True))
    gpus = rules.nodes * rules.per_node
    largest = max(jobs.classes(mix), key=lambda row: row["gpus"])
    if largest["gpus"] > gpus:
        raise ValueError(
            f"nodes x per_node = {gpus} GPUs are fewer than the {largest['gpus']:.0f} that a job of "
            f"{largest['key']!r} asks in mix = {mix!r}; take more nodes"
        )
    sent = jobs.generate(mix, gpus, load, seconds, demand, rhythm, seed, place)
    if not sent:
        raise refused("load", load, f"on {gpus} GPUs: no job arrives in {seconds / WEEK:.1f} weeks; take more")
    return sent, demand


def _team_quotas(quota: Any, teams: tuple[str, ...], rules: Rules) -> dict[str, int]:
    """Return the GPUs of each team; a service's need at its peak belongs to no team by default."""
    gpus = rules.nodes * rules.per_node
    if quota is None:
        gpus -= max(_service_by_hour(rules))
        return {team: gpus // len(teams) + (at < gpus % len(teams)) for at, team in enumerate(teams)}
    shares = dict(quota if isinstance(quota, Mapping) else zip(teams, quota, strict=False))
    if set(shares) != set(teams) or len(quota) != len(teams):
        raise refused("quota", quota, f"does not fit the teams {', '.join(teams)}; give a number of GPUs for each")
    for team, count in shares.items():
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or not 0 <= count <= gpus:
            raise ValueError(
                f"quota of team {team} = {shown(count)} must be a whole number from 0 to the {gpus} GPUs "
                "of the cluster; lower it or add nodes"
            )
    if sum(shares.values()) > gpus:
        raise refused(
            "quota",
            quota,
            f"sums to {sum(shares.values())} GPUs, more than the {gpus} of the cluster; lower one of them or add nodes",
        )
    return {team: int(shares[team]) for team in teams}


def _service_by_hour(rules: Rules) -> list[int]:
    """Return the GPUs of the service in each hour of a day."""
    return [rules.service(hour * HOUR) for hour in range(24)] if rules.service else [0]


def _check_possible(sent: Sequence[Job], rules: Rules, owned: Mapping[str, int] | None, equal: bool) -> None:
    """Check that each job could ever run, else name the contradiction. `equal`: no quota was given."""
    gpus, reserved = rules.nodes * rules.per_node, min(_service_by_hour(rules))
    for job in sorted(sent, key=lambda other: -other.gpus):
        if job.gpus > gpus:
            reason = f"of job {job.order} are more than the {gpus} that exist; add nodes, or ask fewer"
            raise refused("gpus", job.gpus, reason)
        if job.gpus > gpus - reserved:
            reason = f"at least and a job that requests {job.gpus} GPUs contradict each other on {gpus} GPUs"
            raise refused("service", reserved, f"{reason}; lower service or add nodes")
        if owned is not None and job.gpus > owned[job.team]:
            remedy = "add nodes" if equal else "raise its quota"
            reason = (
                f"and a job of team {job.team} that requests {job.gpus} GPUs contradict each other: the team owns "
                f"{owned[job.team]}; {remedy}, or take another policy"
            )
            raise refused("policy", "static", reason)


def _measures(
    sent: Sequence[Job],
    sums: Sequence[Mapping[str, float]],
    window: tuple[float, float],
    rules: Rules,
    accelerator: str,
) -> dict[str, float]:
    """Return the measures of a run, over the jobs that arrive in the window."""
    begin, end = window
    gpus, seconds = rules.nodes * rules.per_node, end - begin
    busy, work, served, idle = (
        (sums[1][name] - sums[0][name]) / (gpus * seconds) for name in ("busy", "work", "service", "idle")
    )
    measured = [job for job in sent if begin <= job.arrival < end] or list(sent)
    waits = np.array([job.waited for job in measured])
    stays = np.array([job.ended - job.arrival for job in measured])
    finished = sum(begin <= job.ended <= end for job in sent)
    parts = []
    for team in sorted({job.team for job in measured}):
        own = np.array([job.team == team for job in measured])
        parts.append(1 - waits[own].sum() / stays[own].sum())
    power, price = machine_power(accelerator, gpus), hourly_usd(accelerator)
    hours = seconds / HOUR
    measures: dict[str, float] = {
        "utilisation": busy,
        "effective": work,
        "goodput": work / busy if busy else math.nan,
        "jobs": len(measured),
        "finished": finished,
    }
    for name, values in (("wait", waits), ("stay", stays)):
        measures |= {f"{name}_p{part}": float(np.percentile(values, part)) for part in PERCENTILES}
    measures |= {
        "wait_mean": float(waits.mean()),
        "makespan": max(job.ended for job in sent) - begin,
        "fairness": jain_index(parts),
        "stops": sum(job.stops for job in measured),
        "service": served,
        "idle_waiting": idle,
    }
    for name, end_name in (("", "median"), ("_low", "low"), ("_high", "high")):
        rated, idle, full = (getattr(spread, end_name) for spread in (power.rated, power.idle, power.full))
        measures[f"kwh{name}"] = float(power_watts(rated, min(work + served, 1.0), idle, full)) * hours / 1e3
        measures[f"usd{name}"] = float(getattr(price, end_name)) * gpus * hours
    measures["usd_per_job"] = measures["usd"] / finished if finished else math.nan
    return measures


def _assumed(rules: Rules, own: bool, mtbf_days: Any) -> tuple[str, ...]:
    notes = [
        f"a checkpoint every {rules.interval / 60:.0f} min, {rules.restart / 60:.0f} min to save or to start again"
    ]
    if mtbf_days is None:
        notes.append(
            "no failures" if own else f"a failure of each GPU every {rules.mtbf / DAY:,.0f} days ({RELIABILITY_STUDY})"
        )
    return tuple(notes)


@checked(
    **FIXED,
    policies=replace(POLICY, many=True),
    load=replace(LOAD, many=True),
    mix=replace(MIX, many=True),
    weeks=Field.count(high=10_000),
    seed=Field.count(0, 2**31),
)
def cluster_weeks(
    policies: Sequence[str] = ("static", "fifo", "backfill", "fair"),
    *,
    load: float | Sequence[float] = 0.9,
    mix: str | Sequence[str] = "mixed",
    weeks: int = 10,
    seed: int = 0,
    progress: bool = True,
    **fixed: Any,
) -> pd.DataFrame:
    """Simulate several policies on the same weeks, each drawn independently: one row per load, mix, week and policy.

    Parameters
    ----------
    policies : sequence of str or callable
        As in `cluster`.
    load, mix
        One value or several, as in `cluster`.
    weeks : int
        Weeks of each load and mix, with the seeds `seed`, `seed` + 1 ...
    seed : int
        Seed of the first week.
    progress : bool
        Whether to show a bar.
    **fixed
        Other arguments of `cluster`.

    Returns
    -------
    pandas.DataFrame
        load, mix, week (the seed), policy and the measures of `ClusterRun`.

    Examples
    --------
    >>> found = cluster_weeks(("static", "fifo"), load=0.5, weeks=1)
    >>> found["policy"].tolist(), found["jobs"].nunique()
    (['static', 'fifo'], 1)
    """
    reserved = {"weeks", "log"} & set(fixed)
    if reserved:
        raise ValueError(f"{', '.join(sorted(reserved))} cannot be given here: each row is one week; leave it out")
    rows, cases = [], list(itertools.product(cast(Any, load), mix, range(seed, seed + weeks), policies))
    for done, (level, kind, week, policy) in enumerate(cases, 1):
        run = cluster(policy, load=level, mix=kind, seed=week, progress=False, log=False, **fixed)
        name = policy if isinstance(policy, str) else getattr(policy, "__name__", "your policy")
        rows.append({"load": level, "mix": kind, "week": week, "policy": name, **run.measures})
        if progress:
            progress_bar(done, len(cases), unit="weeks")
    return pd.DataFrame(rows)


@checked(
    found=Field.record(pd.DataFrame, what="table", give="a table as of cb.planning.cluster_weeks"),
    against=Field.text(),
    by=Field.text(many=True),
)
def cluster_gains(found: pd.DataFrame, against: str = "static", by: Sequence[str] = ("load", "mix")) -> pd.DataFrame:
    """Return each policy's gain over one of them on the same weeks: means with 90 % intervals.

    Parameters
    ----------
    found : pandas.DataFrame
        Result of `cluster_weeks`.
    against : str
        Policy that the others are compared with.
    by : sequence of str
        Columns that distinguish the cases.

    Returns
    -------
    pandas.DataFrame
        One row per case and policy: for utilisation and finished (jobs done in a week) the mean gain over the weeks,
        its low and high (bootstrap over weeks), and `claim`, the share of weeks that gain as much as the claim in the
        table ``cluster_facts``; both: the share in which both do. wait: the median over weeks of the ratio of mean
        waits, with low and high likewise; sooner: the share of weeks with a shorter mean wait; weeks: those that both
        policies have.

    Raises
    ------
    ValueError
        If the table has another shape, lacks the reference policy, or has several rows for a week and policy.
    """
    needed = {*by, "week", "policy", "wait_mean", *CLAIM_OF_MEASURE}
    if not needed <= set(found):
        raise ValueError(f"found must be a table as of cb.planning.cluster_weeks, with {', '.join(sorted(needed))}")
    Field.choice(*dict.fromkeys(found["policy"])).read(against, "against")
    keys, claims = [*by, "week"], claimed()
    twice = found[found.duplicated([*keys, "policy"])]
    if len(twice):
        raise refused(
            "by",
            list(by),
            f"leaves several rows of week {twice['week'].iloc[0]} and policy "
            f"{twice['policy'].iloc[0]!r}; name all columns that tell cases apart",
        )
    base = found[found["policy"] == against].set_index(keys)
    random = np.random.default_rng(0)
    rows = []
    for case, own in found[found["policy"] != against].groupby([*by, "policy"], sort=False):
        own = own.set_index(keys)
        own = own[own.index.isin(base.index)]
        if not len(own):
            continue
        other, row = base.loc[own.index], dict(zip([*by, "policy"], case, strict=True))
        in_both = np.ones(len(own), dtype=bool)
        for name, claim in claims.items():
            gain = (own[name] / other[name] - 1).to_numpy()
            low, high = _interval(gain, np.mean, random)
            reached = gain >= claim - 1e-9  # 0.6 over 0.5 is 20 %, whatever floats make of it
            in_both &= reached
            row |= {name: gain.mean(), f"{name}_low": low, f"{name}_high": high, f"{name}_claim": reached.mean()}
        waits = (own["wait_mean"] / other["wait_mean"].where(other["wait_mean"] > 0)).dropna().to_numpy()
        low, high = _interval(waits, np.median, random)
        sooner = (own["wait_mean"] < other["wait_mean"]).mean()
        rows.append(
            {
                **row,
                "both": in_both.mean(),
                "wait": np.median(waits) if len(waits) else math.nan,
                "wait_low": low,
                "wait_high": high,
                "sooner": sooner,
                "weeks": len(own),
            }
        )
    return pd.DataFrame(rows)


def _interval(values: np.ndarray, middle: Callable[..., Any], random: np.random.Generator) -> tuple[float, float]:
    """Return the ends of a 90 % bootstrap interval of a mean or median."""
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(middle(values[random.integers(0, len(values), (RESAMPLES, len(values)))], axis=1), ENDS)
    return float(low), float(high)


def claimed() -> dict[str, float]:
    """Return the gains that AIStation's maker claims, as shares, by measure."""
    rows = catalog.table("cluster_facts").set_index("quantity")["value"]
    return {name: float(rows[quantity_]) / 100 for name, quantity_ in CLAIM_OF_MEASURE.items()}
