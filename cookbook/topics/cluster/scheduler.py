"""A cluster in simulated time: jobs arrive, a policy starts them, they fail, continue and end (simulated by simpy)."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from cookbook.progress_bar import progress_bar
from cookbook.topics.cluster.policies import Spots

# Jobs of one size and team that a policy examines, and in total; jobs between two updates of the progress bar.
DEPTH, MAX_LOOKED_AT, STRIDE = 4, 32, 2000
SERVICE = -1  # in the place of a job
# Time after which a service is assumed to block the jobs that never run beside it [s].
MAX_STALL = 86400.0
# Speed relative to that on the requested GPUs, packed: by (GPUs, GPUs per node, True if behind two switches).
Speeds = Mapping[tuple[int, int, bool], float]
# Entries of the log: job, begin and end [s], node, lane of the node.
Line = tuple[int, float, float, int, int]


@dataclass(slots=True, eq=False)
class Job:
    """One job: its request and its state; times in seconds.

    Attributes
    ----------
    order, kind, team : int, str, str
        Position in the order of arrival, name of its class, and its team.
    arrival, expected : float
        Arrival time; predicted time on the requested GPUs, packed.
    gpus, least, most : int
        GPUs requested; smallest and largest number with which it can run (equal for a rigid job).
    urgent : bool
        True if it goes first under a policy that considers urgency.
    use : float
        Share of each of its GPUs that it keeps busy.
    left : float
        Remaining work: true time on the requested GPUs, packed.
    speeds : mapping, optional
        Relative speed in other placements; without it, that of a job without a network, equal everywhere.
    luck : float
        Number from 0 to 1 that determines its number of failures.
    """

    order: int
    kind: str
    team: str
    arrival: float
    expected: float
    gpus: int
    least: int
    most: int
    urgent: bool
    use: float
    left: float
    speeds: Speeds | None
    luck: float
    work: float = field(init=False)
    held: int = 0
    rate: float = 0.0
    since: float = 0.0
    due: float = 0.0
    debt: float = 0.0
    first: float = math.nan
    ended: float = math.nan
    granted: float = 0.0
    stops: int = 0
    epoch: int = 0
    queued: float = 0.0
    waited: float = 0.0
    lanes: list[tuple[int, int]] = field(default_factory=list)
    cell: Cell | None = None

    def __post_init__(self) -> None:
        self.work = self.left


@dataclass(slots=True, eq=False)
class Cell:
    """A GPU that several jobs share: its location, the number of jobs, and its team (None: any team's)."""

    lane: tuple[int, int]
    owner: str | None
    jobs: int = 0


@dataclass(frozen=True)
class Rules:
    """The rules for all jobs; times in seconds.

    Attributes
    ----------
    nodes, per_node, per_switch : int
        Nodes, GPUs per node, nodes behind one switch.
    slices : int
        Jobs that may share a GPU, each with its part; 1 for no sharing.
    mtbf, interval, restart : float
        Mean time between failures of one GPU; time between checkpoints; times to save, to load and to restart.
    service : callable, optional
        Function of the time that returns the GPUs of a service.
    apart : bool
        True if jobs share a GPU with those of their own team only, and the team owns all of it.
    """

    nodes: int
    per_node: int
    per_switch: int
    slices: int = 1
    mtbf: float = math.inf
    interval: float = 1800.0
    restart: float = 300.0
    service: Callable[[float], int] | None = None
    apart: bool = False


class Cluster:
    """Nodes, queues and what runs; policies call `waiting`, `start`, `stop`, `resize` and `reservation`.

    Attributes
    ----------
    now : float
        Time [s].
    free, total : int
        GPUs.
    teams, used, quota
        Names of the teams; GPUs that each uses, its part of shared ones included, and GPUs that each owns.
    running : list of Job
        Running jobs, in the order in which they were started.
    """

    def __init__(
        self,
        rules: Rules,
        quota: Mapping[str, int],
        policy: Callable[[Cluster], None],
        place: Callable[[Sequence[int], int, int, int], Spots],
        log: bool = False,
    ) -> None:
        self.rules, self.quota, self.teams = rules, dict(quota), tuple(quota)
        self.total = self.free = rules.nodes * rules.per_node
        self.used: dict[str, float] = dict.fromkeys(self.teams, 0)
        self.lines: list[Line] | None = [] if log else None
        self.areas = dict.fromkeys(("busy", "work", "jobs", "waiting", "service", "idle"), 0.0)
        self._policy, self._place = policy, place
        self._lanes = [list(range(rules.per_node))[::-1] for _ in range(rules.nodes)]
        self._room = [rules.per_node] * rules.nodes
        self._queues: dict[tuple[str, int, bool], deque[Job]] = {}
        self._running: dict[int, Job] = {}
        self._cells: list[Cell] = []
        self._whole, self._slots = dict.fromkeys(self.teams, 0), dict.fromkeys(self.teams, 0)
        self._closed: dict[str, float] = dict(self.areas)
        self._serving: list[tuple[tuple[int, int], float]] = []
        self._inside = self._queued = 0
        self._speed, self.now = 0.0, 0.0
        self._dues: list[tuple[float, int, int]] = []
        self._env: Any = None

    @property
    def running(self) -> list[Job]:
        """Return the running jobs, in the order of their starts."""
        return list(self._running.values())

    def waiting(self, team: str | None = None, urgent: bool | None = None, full: bool = False) -> Iterator[Job]:
        """Yield the waiting jobs, first come first; while no GPU is free none but urgent ones, unless `full`.

        Of the jobs of one team and size, those after one that does not fit and those after the fourth are left out;
        at most 32 jobs that do not start are examined.
        """
        look, looks = full or urgent is not None, MAX_LOOKED_AT
        if not look and self.free <= 0 and not self._cells:
            return
        heads = [
            (queue[0].order, key, 0)
            for key, queue in self._queues.items()
            if queue and (team is None or key[0] == team) and (urgent is None or key[2] == urgent)
        ]
        heapify(heads)
        while heads and looks and (look or self.free > 0 or self._cells):
            _, key, at = heappop(heads)
            queue = self._queues[key]
            job = queue[at]
            yield job
            if not job.held:
                looks -= 1
                at = at + 1 if job.gpus <= self.free else DEPTH
            if at < min(len(queue), DEPTH):
                heappush(heads, (queue[at].order, key, at))

    def needs(self, job: Job) -> int:
        """Return the number of free GPUs that a job needs: none if it gets a part of one that is already shared."""
        return 0 if self._small(job) and self._open(job) else job.gpus

    def start(self, job: Job, gpus: int | None = None) -> bool:
        """Start a waiting job on the GPUs that it requests, or on `gpus`; False if they are not free."""
        count = job.gpus if gpus is None else gpus
        if job.held:
            return False
        if not (self._slice(job) if self._small(job) else self._take(job, count)):
            return False
        self._queues[(job.team, job.gpus, job.urgent)].remove(job)
        self._queued -= 1
        if math.isnan(job.first):
            job.first = self.now
        job.waited += self._env.now - job.queued
        self._run(job)
        return True

    def stop(self, job: Job) -> None:
        """Stop a running job: it writes a checkpoint, and waits before all others of its team and size."""
        self._leave(job)
        job.debt += 2 * self.rules.restart
        job.stops += 1
        job.queued = self._env.now
        self._queues[(job.team, job.gpus, job.urgent)].appendleft(job)
        self._queued += 1

    def resize(self, job: Job, gpus: int) -> bool:
        """Continue a job on another number of GPUs after saving and loading; False, without a change, if impossible."""
        rules, room = self.rules, list(self._room)
        for node, _ in job.lanes:
            room[node] += 1
        possible = job.least <= gpus <= job.most and gpus <= self.free + job.held
        if not possible or not self._place(room, gpus, rules.per_node, rules.per_switch):
            return False
        self._leave(job)
        if not self._take(job, gpus):
            raise RuntimeError(f"job {job.order} cannot have the {gpus} GPUs that its place named; mend `place`")
        job.debt += 2 * rules.restart
        self._run(job)
        return True

    def reservation(self, job: Job) -> tuple[float, int]:
        """Return the earliest start of a job if all running jobs end as predicted [s], and the GPUs left over then."""
        free = self.free
        for due, _, gpus in self._dues:
            free += gpus
            if free >= job.gpus:
                return max(due, self.now), free - job.gpus
        return math.inf, 0

    def run(
        self, jobs: Sequence[Job], marks: Sequence[float] = (), progress: bool = False, to_end: bool = False
    ) -> list[dict[str, float]]:
        """Run all jobs from the first to the end of the last, and return the sums up to each of the `marks` [s].

        A service lasts until the last arrival and mark; `to_end`: as long as there are jobs, whose end is a mark too.
        """
        try:
            import simpy
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "simulating a cluster needs the package simpy: run `make lab`, or `python -m pip install simpy`"
            ) from None
        self._env = simpy.Environment()
        sums: list[dict[str, float]] = []
        for mark in marks:
            self._env.timeout(mark).callbacks.append(lambda _: sums.append(dict(self.summed())))
        if self.rules.service:
            self._env.process(self._serve(max([jobs[-1].arrival, *marks]), to_end))
        self._env.process(self._arrive(jobs, progress))
        self._env.run()
        return [*sums, self._closed] if to_end else sums

    def summed(self) -> dict[str, float]:
        """Return the sums up to now: GPU-seconds held, worked, served and idle beside a wait; job-seconds inside and
        waiting.
        """
        now = self._env.now
        passed = now - self.now
        if passed > 0:
            areas, self.now, serving = self.areas, now, len(self._serving)
            areas["busy"] += (self.total - self.free - serving) * passed
            areas["work"] += self._speed * passed
            areas["jobs"] += self._inside * passed
            areas["waiting"] += self._queued * passed
            areas["service"] += serving * passed
            if self._queued:
                areas["idle"] += self.free * passed
        return self.areas

    def _arrive(self, jobs: Sequence[Job], progress: bool) -> Iterator[Any]:
        begun = time.monotonic()
        for done, job in enumerate(jobs, 1):
            if job.arrival > self._env.now:
                yield self._env.timeout(job.arrival - self._env.now)
            self.summed()
            job.queued = self._env.now
            self._queues.setdefault((job.team, job.gpus, job.urgent), deque()).append(job)
            self._inside += 1
            self._queued += 1
            self._policy(self)
            if progress and (done % STRIDE == 0 or done == len(jobs)):
                progress_bar(done, len(jobs), unit="jobs", since=begun)

    def _take(self, job: Job, count: int) -> bool:
        """Assign GPUs to a job, and set its speed there."""
        if count > self.free:
            return False
        spots = self._place(self._room, count, self.rules.per_node, self.rules.per_switch)
        if not spots:
            return False
        self.summed()
        switches = {node // self.rules.per_switch for node, _ in spots}
        most = max(count_on for _, count_on in spots)
        place = (count, 1 << (most.bit_length() - 1), len(switches) > 1)
        speed = 1.0 if job.speeds is None else job.speeds.get(place)
        if speed is None:
            raise ValueError(
                f"a job of {job.kind!r} has no predicted speed on {count} GPUs, {most} a node; start it "
                f"with {job.least} to {job.most} GPUs, a power of two"
            )
        for node, lane_count in spots:
            job.lanes += [(node, self._lanes[node].pop()) for _ in range(lane_count)]
            self._room[node] -= lane_count
        job.held, job.rate = count, speed
        self.free -= count
        self._hold(job.team, count, 0)
        return True

    def _slice(self, job: Job) -> bool:
        """Assign a part of a GPU, preferably of one that is already shared."""
        cell = self._open(job)
        if cell is None:
            node = max(range(len(self._room)), key=lambda index: (self._room[index] > 0, -self._room[index]))
            if not self._room[node]:
                return False
            self.summed()
            cell = Cell((node, self._lanes[node].pop()), job.team if self.rules.apart else None)
            self._room[node] -= 1
            self.free -= 1
            self._cells.append(cell)
            self._hold(cell.owner, 1, 0)
        self.summed()
        cell.jobs += 1
        job.cell, job.held, job.rate = cell, 1, 1.0
        self._hold(None if cell.owner else job.team, 0, 1)
        job.lanes = [cell.lane]
        return True

    def _small(self, job: Job) -> bool:
        """Return True if a job may share a GPU."""
        return self.rules.slices > 1 and job.gpus == 1 and job.use * self.rules.slices <= 1

    def _open(self, job: Job) -> Cell | None:
        """Return the fullest shared GPU with a part left for a job."""
        open_cells = [cell for cell in self._cells if cell.jobs < self.rules.slices and cell.owner in (None, job.team)]
        return max(open_cells, key=lambda cell: cell.jobs, default=None)

    def _hold(self, team: str | None, whole: int, slots: int) -> None:
        """Count the GPUs of a team, in integers, so that nothing drifts."""
        if team is not None:
            self._whole[team] += whole
            self._slots[team] += slots
            self.used[team] = self._whole[team] + self._slots[team] / self.rules.slices

    def _run(self, job: Job) -> None:
        """Schedule a job from its start to its end, with failures and restarts in it."""
        now, rules = self._env.now, self.rules
        pure = job.left / job.rate
        job.due = now + pure * job.expected / job.work + job.debt
        length = pure + job.debt
        if rules.mtbf < math.inf:
            length += _failures(job.luck, length * job.held / rules.mtbf) * (rules.interval / 2 + rules.restart)
        job.debt, job.since = 0.0, now
        job.rate = job.left / length if length > 0 else 0.0
        job.epoch += 1
        self._speed += job.rate * job.gpus * job.use
        self._running[job.order] = job
        insort(self._dues, (job.due, job.order, job.held))
        self._env.timeout(length, job.epoch).callbacks.append(lambda event: self._end(job, event.value))

    def _end(self, job: Job, epoch: int) -> None:
        if job.epoch != epoch or job.order not in self._running:
            return
        self._leave(job)
        job.left, job.ended = 0.0, self._env.now
        self._inside -= 1
        if not self._inside:
            self._closed = dict(self.summed())
        self._policy(self)

    def _leave(self, job: Job) -> None:
        """Release the GPUs of a job, and record its work on them."""
        self.summed()
        now = self._env.now
        del self._running[job.order]
        del self._dues[bisect_left(self._dues, (job.due, job.order, job.held))]
        self._speed -= job.rate * job.gpus * job.use
        job.left = max(job.left - job.rate * (now - job.since), 0.0)
        if self.lines is not None:
            self.lines += [(job.order, job.since, now, node, lane) for node, lane in job.lanes]
        if job.cell is not None:
            job.granted += (now - job.since) / self.rules.slices
            self._hold(None if job.cell.owner else job.team, 0, -1)
            job.cell.jobs -= 1
            if not job.cell.jobs:
                self._cells.remove(job.cell)
                self._give([job.cell.lane])
                self._hold(job.cell.owner, -1, 0)
            job.cell = None
        else:
            job.granted += (now - job.since) * job.held
            self._hold(job.team, -job.held, 0)
            self._give(job.lanes)
        job.lanes, job.held = [], 0

    def _give(self, lanes: Sequence[tuple[int, int]]) -> None:
        """Return GPUs to their nodes."""
        for node, lane in lanes:
            self._lanes[node].append(lane)
            self._room[node] += 1
        self.free += len(lanes)

    def _serve(self, last: float, to_end: bool) -> Iterator[Any]:
        """Adjust the service's GPUs every hour until `last`; jobs make way for it, the latest first.

        `to_end`: as long as jobs are inside, unless none has run for `MAX_STALL`.
        """
        assert self.rules.service is not None
        ran = last
        while self._env.now <= last or (to_end and self._inside and self._env.now - ran < MAX_STALL):
            target = self.rules.service(self._env.now)
            for job in reversed(self.running):
                if self.free >= target - len(self._serving):
                    break
                self.stop(job)
            self.summed()
            while len(self._serving) > target:
                self._served()
            while len(self._serving) < target and self.free:
                node = max(range(len(self._room)), key=lambda index: self._room[index])
                self._serving.append(((node, self._lanes[node].pop()), self._env.now))
                self._room[node] -= 1
                self.free -= 1
            self._policy(self)
            ran = self._env.now if self._running else ran
            yield self._env.timeout(3600.0)
        self.summed()
        while self._serving:
            self._served()
        self._policy(self)

    def _served(self) -> None:
        """Release the GPU that the service got last."""
        lane, since = self._serving.pop()
        if self.lines is not None:
            self.lines.append((SERVICE, since, self._env.now, *lane))
        self._give([lane])


def _failures(luck: float, mean: float) -> int:
    """Return the number of failures of a job: the Poisson count at a quantile."""
    if mean > 50:
        return round(mean)
    count, term = 0, math.exp(-mean)
    below = term
    while below < luck and count < 200:
        count += 1
        term *= mean / count
        below += term
    return count
