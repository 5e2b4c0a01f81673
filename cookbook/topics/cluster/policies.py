"""Scheduling policies and placements: each policy is a plain function of the cluster, each placement of its free GPUs.

A policy is called whenever a job arrives or ends. It walks through `cluster.waiting()` (or `waiting(team)`), jobs in
the order in which they came, and calls `cluster.start(job)`, which returns True if the job runs now. It may look at
`now` [s], `free`, `total` (GPUs), `used` and `quota` (GPUs of each team), `running`, and at a job's `gpus`, `team`,
`urgent`, `arrival` and `expected` (predicted time [s]); `needs(job)` is the number of free GPUs it takes. Jobs are gang
scheduled: all GPUs of a job at once, or none. `waiting` shows the first four jobs of each team, size and urgency, no
more of them after one that does not fit, and 32 jobs in all that do not start: a policy that sorts them sorts these
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

HOUR = 3600.0
# Time between two changes of the size of one elastic job.
RESIZE_AFTER = 2 * HOUR
Spots = list[tuple[int, int]]


def static(cluster: Any) -> None:
    """Give each team its own GPUs, used by no other team, first come, first served."""
    for team in cluster.teams:
        for job in cluster.waiting(team):
            if cluster.used[team] + cluster.needs(job) > cluster.quota[team] or not cluster.start(job):
                break


def fifo(cluster: Any) -> None:
    """Serve one queue for all, first come, first served: no job overtakes another."""
    for job in cluster.waiting():
        if not cluster.start(job):
            break


def backfill(cluster: Any) -> None:
    """Serve one queue; jobs overtake a waiting one if by prediction they do not delay it (EASY, Lifka 1995)."""
    at, spare = None, 0
    for job in cluster.waiting():
        if at is None:
            if not cluster.start(job):
                at, spare = cluster.reservation(job)
        elif cluster.now + job.expected <= at:
            cluster.start(job)
        elif job.gpus <= spare and cluster.start(job):
            spare -= job.gpus


def fair(cluster: Any) -> None:
    """Serve the team with the fewest GPUs first: max-min fair shares, which is DRF with one resource."""
    teams = set(cluster.teams)
    while teams:
        team = min(teams, key=lambda name: (cluster.used[name], name))
        if not any(cluster.start(job) for job in cluster.waiting(team)):
            teams.remove(team)


def priority(cluster: Any) -> None:
    """Backfill, but let urgent jobs go first and stop others, which write a checkpoint and wait again."""
    for job in cluster.waiting(urgent=True):
        if not cluster.start(job):
            victims = [candidate for candidate in reversed(cluster.running) if not candidate.urgent]
            if cluster.free + sum(victim.held for victim in victims) >= job.gpus:
                while not cluster.start(job) and victims:
                    cluster.stop(victims.pop(0))
    backfill(cluster)


def elastic(cluster: Any) -> None:
    """Backfill, but shrink elastic jobs when others wait and grow them when none does."""
    backfill(cluster)
    first = next(cluster.waiting(full=True), None)
    resizable = [job for job in cluster.running if job.most > job.least and cluster.now - job.since >= RESIZE_AFTER]
    if first and first.gpus > cluster.free:
        shrunk = False
        for job in sorted(resizable, key=lambda running: -running.held):
            if job.held > job.least and cluster.free < first.gpus:
                shrunk = cluster.resize(job, max(job.held // 2, job.least)) or shrunk
        if shrunk:
            backfill(cluster)
    elif not first and cluster.free:
        for job in sorted(resizable, key=lambda running: running.held):
            if job.held < job.most and cluster.free >= job.held:
                cluster.resize(job, job.held * 2)


POLICIES: Mapping[str, Callable[[Any], None]] = MappingProxyType(
    {
        "static": static,
        "fifo": fifo,
        "backfill": backfill,
        "fair": fair,
        "priority": priority,
        "elastic": elastic,
    }
)


def pack(free: Sequence[int], gpus: int, per_node: int, per_switch: int) -> Spots:
    """Place a job on as few nodes as possible, behind one switch if it fits.

    A small job fills the fullest node that fits.
    """
    if gpus <= per_node:
        rooms = [(room, node) for node, room in enumerate(free) if room >= gpus]
        if rooms:
            return [(min(rooms)[1], gpus)]
    blocks = [range(at, min(at + per_switch, len(free))) for at in range(0, len(free), per_switch)]
    fitting = [block for block in blocks if sum(free[node] for node in block) >= gpus]
    nodes = min(fitting, key=lambda block: sum(free[node] for node in block)) if fitting else range(len(free))
    return _filled(sorted(nodes, key=lambda node: -free[node]), free, gpus, per_node)


def same_node(free: Sequence[int], gpus: int, per_node: int, per_switch: int) -> Spots:
    """Place as `pack`, but wait until the fewest nodes that could fit the job are free."""
    spots = pack(free, gpus, per_node, per_switch)
    return spots if len(spots) <= -(-gpus // per_node) else []


def spread(free: Sequence[int], gpus: int, per_node: int, _per_switch: int) -> Spots:
    """Place a job evenly over all nodes with free GPUs, the emptiest first."""
    nodes = sorted((node for node, room in enumerate(free) if room), key=lambda node: -free[node])[:gpus]
    return _filled(nodes, free, gpus, -(-gpus // max(len(nodes), 1))) or _filled(nodes, free, gpus, per_node)


def _filled(nodes: Sequence[int], free: Sequence[int], gpus: int, most: int) -> Spots:
    """Return GPUs of some nodes in their order, at most `most` of each; empty if they have too few."""
    spots: Spots = []
    for node in nodes:
        take = min(free[node], gpus, most)
        if take:
            spots.append((node, take))
            gpus -= take
        if not gpus:
            return spots
    return []


PLACEMENTS: Mapping[str, Callable[[Sequence[int], int, int, int], Spots]] = MappingProxyType(
    {
        "pack": pack,
        "same node": same_node,
        "spread": spread,
    }
)
