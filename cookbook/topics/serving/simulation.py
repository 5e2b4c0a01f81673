"""A service of language models, request by request: iterations of engines as processes of a discrete-event simulation.

Each engine decides before every iteration what it computes, as servers with in-flight batching do (Yu et al., Orca,
OSDI 2022): prompts in chunks beside the running answers (Agrawal et al., Sarathi-Serve, OSDI 2024), prompts before
answers (Kwon et al., vLLM, SOSP 2023), or prompts on machines of their own (Zhong et al., DistServe, OSDI 2024). Keys
and values are taken token by token; where they no longer fit, the request that came last starts again.

Iterations that nothing can change are one event: until an answer ends, a sequence outgrows the window of layers that
have one, memory is full or a request can join.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cookbook.catalog.fields import MAX_AMOUNT, MAX_TOKENS, Field, checked
from cookbook.formulas.generation import attended_tokens
from cookbook.result import Result, plain

__all__ = ["CHUNKED", "FIRST", "POLICIES", "SPLIT", "Served", "StepCosts", "simulate"]
CHUNKED, FIRST, SPLIT = "chunked prefill", "prefill first", "disaggregated"
POLICIES = (CHUNKED, FIRST, SPLIT)
PERCENTILES, LATENCIES = (50, 95, 99), ("ttft", "tpot", "e2e")
# Requests of one simulation, and of those the share that is not counted, since the service starts empty.
MAX_REQUESTS, WARM_UP_SHARE = 1_000_000, 0.1

# Members of `StepCosts`.
COST, CAPACITY = (
    Field.function("one of a number of tokens and of the tokens that each attends to"),
    Field.number(1, MAX_AMOUNT),
)
MEMBERS = {
    name: replace(declared, name=name)
    for name, declared in {
        **dict.fromkeys(("kv_tokens", "max_sequences", "chunk"), CAPACITY),
        **dict.fromkeys(("transfer", "state", "state_seconds"), Field.number(0, MAX_AMOUNT)),
        "windowed": Field.number(0, 1),
        "windowed_scores": Field.number(0, 1, optional=True),
        **dict.fromkeys(("decode", "prefill"), COST),
    }.items()
}
WINDOW = Field.count(name="window", high=MAX_TOKENS)


@dataclass(frozen=True)
class StepCosts:
    """Costs of iterations of one engine, and its memory; an engine is the devices with one copy of the weights.

    Attributes
    ----------
    decode : callable
        Seconds of an iteration that gives each sequence of a batch one token, from the batch and the tokens whose keys
        and values a sequence reads, on average also over layers; of arrays, and straight lines in the second.
    prefill : callable
        Seconds of a pass over tokens of prompts, from the number of tokens and the tokens that each of them attends to,
        on average also over layers; of arrays, and straight lines in the second.
    kv_tokens : float
        Tokens whose keys and values fit, kept in all layers.
    max_sequences : int
        Most sequences of one iteration.
    chunk : int
        Most tokens of one iteration; with prompts before answers, most tokens of one pass unless one prompt has more.
    transfer : float
        Seconds to move keys and values of one token to another engine.
    window, windowed : float
        Sliding window in tokens, and the share of the layers that attend within it and keep nothing that has left it.
    windowed_scores : float, optional
        Share of the work of prompts on scores within it, where layers have heads of several sizes; by default
        `windowed`.
    state : float
        Tokens whose keys and values take as much memory as the state of a sequence in layers that do not attend,
        however long it is. Of a network in which none attends a token is such a state, and its window one token.
    state_seconds : float
        Seconds that reading and writing one state adds to an iteration; `decode` has them already.
    """

    decode: Callable[[Any, Any], Any]
    prefill: Callable[[Any, Any], Any]
    kv_tokens: float
    max_sequences: int = 256
    chunk: int = 2048
    transfer: float = 0.0
    window: float = math.inf
    windowed: float = 0.0
    windowed_scores: float | None = None
    state: float = 0.0
    state_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name, declared in MEMBERS.items():
            declared.read(getattr(self, name))
        if not (isinstance(self.window, float) and self.window == math.inf):
            WINDOW.read(self.window)

    def kept(self, tokens: Any, span: Any = 0.0) -> np.ndarray:
        """Return the tokens of a sequence that layers keep and read on average, as `attended_tokens` has them.

        >>> StepCosts(max, max, 1e6, window=1000, windowed=0.5).kept([800, 2000]).tolist()
        [800.0, 1500.0]
        """
        return attended_tokens(tokens, self.window, self.windowed, span)

    def attended(self, tokens: Any, span: Any) -> np.ndarray:
        """Return the tokens that each of the last `span` before `tokens` attends to, on average over heads.

        >>> StepCosts(max, max, 1e6, window=1000, windowed=0.5, windowed_scores=1.0).attended(1000, 2000).tolist()
        750.0
        """
        return attended_tokens(tokens, self.window, self.near, span)

    @property
    def near(self) -> float:
        """Share of the work on scores that is within the window."""
        return self.windowed if self.windowed_scores is None else self.windowed_scores

    def held(self, tokens: Any) -> np.ndarray:
        """Return the memory of a sequence, in tokens whose keys and values all layers keep: `kept` and its state.

        >>> StepCosts(max, max, 1e6, window=1000, windowed=0.5, state=50).held([800, 2000]).tolist()
        [850.0, 1550.0]
        """
        return self.kept(tokens) + self.state

    def longest(self, kept: float) -> float:
        """Return the tokens of a sequence of which layers keep `kept` on average; infinite where no length keeps more.

        >>> StepCosts(max, max, 1e6, window=1000, windowed=0.5).longest(1500)
        2000.0
        """
        beyond = (kept - self.window) / (1 - self.windowed) if self.windowed < 1 else math.inf
        return kept if kept < self.window else self.window + beyond


@dataclass(frozen=True, eq=False, repr=False)
class Served(Result):
    """A simulated service: its requests, and how full it was.

    Attributes
    ----------
    requests : pandas.DataFrame
        One row per request, in order of arrival: arrival, first and finish [s], prompt and answer [tokens], ttft, tpot
        (NaN for answers of one token) and e2e [s], preempted (how often), counted (False while the service filled).
    seconds : float
        From the first arrival to the last token.
    busy : float
        Share of that time in which engines computed.
    batch : float
        Sequences that are decoded in an iteration, on average over tokens' iterations.
    kv_share : float
        Share of the memory for keys and values in use, on average over time.
    gaps : numpy.ndarray
        Times between tokens (ITL) [s], and the number of tokens after each: two rows.
    """

    requests: pd.DataFrame
    seconds: float
    busy: float
    batch: float
    kv_share: float
    gaps: np.ndarray

    def summary(self) -> str:
        """Return requests, throughput and median latencies, in one sentence."""
        figures = self.figures
        return (
            f"{len(self.requests):,} requests, {figures['requests_per_second']:.3g} requests/s, TTFT p50 "
            f"{figures['ttft_p50']:.3g} s, TPOT p50 {figures['tpot_p50']:.3g} s"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures; None where one is missing."""
        return plain(self.figures)

    @property
    def figures(self) -> dict[str, Any]:
        """Rates over the counted part, percentiles of TTFT, TPOT, ITL and end-to-end latency, and how full it was."""
        rows = self.requests[self.requests["counted"]]
        figures: dict[str, Any] = {
            "requests_per_second": self.rate,
            "output_tokens_per_second": self.rate * float(rows["answer"].mean()),
        }
        for name in LATENCIES:
            values = rows[name].dropna().to_numpy()
            figures[name] = float(values.mean()) if len(values) else math.nan
            ends = np.percentile(values, PERCENTILES) if len(values) else [math.nan] * len(PERCENTILES)
            figures |= {f"{name}_p{percentile}": float(end) for percentile, end in zip(PERCENTILES, ends, strict=True)}
        figures |= {f"itl_p{percentile}": self.gap(percentile / 100) for percentile in PERCENTILES}
        return figures | {
            "busy": self.busy,
            "batch": self.batch,
            "kv_share": self.kv_share,
            "preempted": int(self.requests["preempted"].sum()),
        }

    def frame(self) -> pd.DataFrame:
        """Return the requests; a copy."""
        return self.requests.copy()

    def gap(self, share: float) -> float:
        """Time between two tokens that this share of all tokens waits at most [s]."""
        if not self.gaps.size:
            return math.nan
        order = np.argsort(self.gaps[0], kind="stable")
        seconds, counts = self.gaps[0][order], np.cumsum(self.gaps[1][order])
        return float(seconds[np.searchsorted(counts, share * counts[-1])])

    @property
    def rate(self) -> float:
        """Requests finished per second while the service ran full: between the counted ends."""
        ends = np.sort(self.requests["finish"].to_numpy())
        low, high = int(WARM_UP_SHARE * len(ends)), max(int((1 - WARM_UP_SHARE) * len(ends)) - 1, 0)
        return float((high - low) / (ends[high] - ends[low])) if ends[high] > ends[low] else math.nan

    def goodput(self, ttft: float = math.inf, tpot: float = math.inf) -> float:
        """Return requests finished per second that keep both limits [1/s].

        Parameters
        ----------
        ttft, tpot : float
            Most seconds to the first token, and for each further one.
        """
        rows = self.requests[self.requests["counted"]]
        within = (rows["ttft"] <= ttft) & ~(rows["tpot"] > tpot)
        return self.rate * float(within.mean())


# Requests one by one: their tokens, and times.
TOKENS, TIMES = Field.array(1, missing=False), Field.array(0, missing=False)


@checked(
    costs=Field.record(StepCosts, what="cost of iterations", give="those of cb.planning.engine_costs"),
    prompts=TOKENS,
    answers=TOKENS,
    arrival=TIMES,
    concurrency=Field.count(),
    think=TIMES,
    policy=Field.choice(*POLICIES),
    engines=Field.count(high=4096),
    prefill_engines=Field.count(high=4096),
)
def simulate(
    costs: StepCosts,
    prompts: ArrayLike,
    answers: ArrayLike,
    *,
    arrival: ArrayLike | None = None,
    concurrency: int | None = None,
    think: ArrayLike | None = None,
    policy: str = CHUNKED,
    engines: int = 1,
    prefill_engines: int = 1,
) -> Served:
    """Simulate requests one by one, and return the times at which each gets its tokens.

    Parameters
    ----------
    costs : StepCosts
        Of each engine.
    prompts, answers : array_like
        Tokens of each request, whole numbers of 1 or more.
    arrival : array_like, optional
        When each request comes, in order [s].
    concurrency : int, optional
        Instead: number of clients, each of which sends its next request when the last one is answered.
    think : array_like, optional
        Pause of a client before each request [s]; none by default.
    policy : str
        "chunked prefill", "prefill first" or "disaggregated".
    engines : int
        Copies of the weights; a request goes to the one with the fewest requests. Disaggregated: those that decode.
    prefill_engines : int
        Disaggregated: engines that only work on prompts.

    Returns
    -------
    Served

    Raises
    ------
    ValueError
        Invalid lengths, arrivals or counts, or a request that is larger than the memory for keys and values.

    Examples
    --------
    One at a time, 10 ms per token and 50 ms per prompt:

    >>> costs = StepCosts(lambda batch, seen: 0.01 + 0 * batch, lambda tokens, seen: 0.05 + 0 * tokens, 10_000)
    >>> alone = simulate(costs, [100] * 20, [11] * 20, concurrency=1)
    >>> round(float(alone.requests["e2e"].iloc[5]), 6)
    0.15
    """
    from simpy import Environment

    run = _Run(
        Environment(),
        costs,
        *_checked(costs, prompts, answers, arrival, concurrency, think),
        policy=policy,
    )
    own = FIRST if run.policy == SPLIT else run.policy
    run.decoders = [_Engine(run, own) for _ in range(engines)]
    run.fillers = [_Engine(run, SPLIT) for _ in range(prefill_engines)] if run.policy == SPLIT else run.decoders
    times = arrival if arrival is not None else think
    run.start(None if times is None else np.asarray(times).tolist(), concurrency)
    return run.served()


def _checked(
    costs: StepCosts, prompts: Any, answers: Any, arrival: Any, concurrency: Any, think: Any
) -> tuple[list, list]:
    """Return lengths as lists of one size."""
    if (arrival is None) == (concurrency is None):
        raise ValueError("give either arrival, the times of requests, or concurrency, a number of clients")
    lengths = []
    for name, array in (("prompts", prompts), ("answers", answers)):
        if array.ndim != 1 or not 0 < array.size <= MAX_REQUESTS:
            raise ValueError(f"{name} must be a list of 1 to {MAX_REQUESTS:,} numbers of tokens")
        if not np.all(array == np.floor(array)):
            raise replace(TOKENS, name=name).refuse(array[array != np.floor(array)][0].item(), "is not whole")
        lengths.append(array.astype(int).tolist())
    if len(lengths[0]) != len(lengths[1]):
        raise ValueError(f"prompts has {len(lengths[0]):,} entries and answers {len(lengths[1]):,}; give one of each")
    size = (len(lengths[0]),)
    if arrival is not None and (arrival.shape != size or not np.all(np.diff(arrival, prepend=0.0) >= 0)):
        raise ValueError("arrival must be one time for each request, from 0 s and in order")
    if think is not None and (concurrency is None or think.shape != size):
        raise ValueError("think must be a pause of 0 s or more for each request, and goes with concurrency")
    most = max(map(int.__add__, *lengths))
    if costs.held(most) > costs.kv_tokens:
        raise ValueError(
            f"a request of {most:,} tokens is larger than the room for keys and values, "
            f"{costs.kv_tokens:,.0f} tokens; shorten it, or take more devices"
        )
    return lengths[0], lengths[1]


class _Tables:
    """Costs of iterations by number of sequences and of tokens: an iteration must not cost a call of formulas."""

    def __init__(self, costs: StepCosts, longest: int) -> None:
        batch, tokens = np.arange(1, costs.max_sequences + 1), np.arange(1, max(costs.chunk, longest) + 1)
        far = 1024.0
        step, pass_ = np.asarray(costs.decode(batch, 0.0)) + 0.0 * batch, costs.prefill(tokens, 0.0) + 0.0 * tokens
        self.step = [0.0, *step.tolist()]
        self.step_seen = [0.0, *((costs.decode(batch, far) - step) / far).tolist()]
        self.pass_ = [0.0, *pass_.tolist()]
        self.pass_seen = [0.0, *((costs.prefill(tokens, far) - pass_) / far).tolist()]
        # What an iteration costs without any work; a pass with both kinds of work pays it once.
        self.idle = min(self.step[1], self.pass_[1])

    def mixed(self, batch: int, seen: float, tokens: int, attended: float) -> float:
        """Return the time of an iteration with answers of total context `seen`, and with tokens of prompts [s]."""
        seconds = self.step[batch] + self.step_seen[batch] * seen / batch if batch else 0.0
        if tokens:
            more = self.pass_[tokens] + self.pass_seen[tokens] * attended
            seconds = max(seconds, more, seconds + more - self.idle) if batch else more
        return seconds


class _Run:
    """Requests by number, their engines, and what became of them."""

    def __init__(self, env: Any, costs: StepCosts, prompts: list[int], answers: list[int], policy: str) -> None:
        self.env, self.costs, self.policy = env, costs, policy
        self.prompts, self.answers, self.size = prompts, answers, len(prompts)
        self.tables = _Tables(costs, max(map(int.__add__, prompts, answers)) if policy != CHUNKED else costs.chunk)
        self.arrival, self.first, self.finish = ([math.nan] * self.size for _ in range(3))
        self.preempted, self.given = [0] * self.size, [0] * self.size
        self.done: dict[int, Any] = {}
        self.decoders, self.fillers = list[_Engine](), list[_Engine]()
        self.left, self.over = self.size, env.event()
        self.stepped = self.stepped_tokens = self.computed = self.filled = 0.0
        self.gaps: tuple[list[float], list[float]] = ([], [])
        # As `StepCosts.kept` of one sequence, without a call of formulas where no layer has a window.
        self.kept, self.attended = (
            lru_cache(1 << 16)(lambda *sizes, of=of: float(of(*sizes)))
            if costs.windowed
            else lambda tokens, span=0.0: tokens
            for of in (costs.kept, costs.attended)
        )

    def held(self, tokens: float) -> float:
        """Return the tokens of memory that a sequence takes."""
        return self.kept(tokens) + self.costs.state

    def start(self, times: list[float] | None, clients: int | None) -> None:
        """Let requests come at these times, or from clients after these pauses, and run until all are answered."""
        for engine in {id(engine): engine for engine in (*self.fillers, *self.decoders)}.values():
            engine.process = self.env.process(engine.run())
        if clients is None:
            self.env.process(self._open(times or []))
        else:
            numbers = iter(range(self.size))
            for _ in range(min(clients, self.size)):
                self.env.process(self._client(numbers, times or [0.0] * self.size))
        self.env.run(until=self.over)

    def _open(self, times: list[float]) -> Any:
        timeout, env = self.env.timeout, self.env
        for request, time in enumerate(times):
            if time > env.now:
                yield timeout(time - env.now)
            self.submit(request)

    def _client(self, numbers: Iterable[int], pauses: list[float]) -> Any:
        for request in numbers:
            if pauses[request]:
                yield self.env.timeout(pauses[request])
            self.done[request] = self.env.event()
            self.submit(request)
            yield self.done[request]
            del self.done[request]

    def submit(self, request: int) -> None:
        self.arrival[request] = self.env.now
        self.give(request, self.fillers)

    def give(self, request: int, engines: list[_Engine], first: bool = False) -> None:
        """Queue a request at the engine with the fewest."""
        engine = engines[0] if len(engines) == 1 else min(engines, key=_Engine.load)
        engine.take(request, first)

    def answered(self, request: int) -> None:
        self.finish[request] = self.env.now
        self.left -= 1
        if request in self.done:
            self.done[request].succeed()
        if not self.left:
            self.over.succeed()

    def hand_over(self, request: int) -> None:
        """Send keys and values of a prompt to an engine that decodes."""
        wait = self.env.timeout(self.costs.transfer * self.held(self.prompts[request] + self.given[request]))
        wait.callbacks.append(lambda _: self.give(request, self.decoders))

    def served(self) -> Served:
        rows = pd.DataFrame(
            {
                "arrival": self.arrival,
                "first": self.first,
                "finish": self.finish,
                "prompt": self.prompts,
                "answer": self.answers,
                "preempted": self.preempted,
            }
        )
        steps = (rows["answer"] - 1).where(rows["answer"] > 1)
        rows["ttft"], rows["e2e"] = rows["first"] - rows["arrival"], rows["finish"] - rows["arrival"]
        rows["tpot"] = (rows["finish"] - rows["first"]) / steps
        rows["counted"] = np.arange(self.size) >= int(WARM_UP_SHARE * self.size)
        seconds = float(rows["finish"].max() - rows["arrival"].min())
        busy = self.computed / seconds / len({id(engine) for engine in (*self.fillers, *self.decoders)})
        full = self.filled / seconds / self.costs.kv_tokens / len(self.decoders)
        return Served(rows, seconds, busy, self.stepped_tokens / max(self.stepped, 1.0), full, np.array(self.gaps))


class _Engine:
    """One copy of the weights: a queue, the sequences that are decoded, and a process that computes iterations."""

    def __init__(self, run: _Run, policy: str) -> None:
        self.run_, self.env, self.tables, self.policy, self.costs = run, run.env, run.tables, policy, run.costs
        self.waiting: deque[int] = deque()
        self.filling: deque[list[int]] = deque()  # request, tokens done, tokens in all
        self.ends: list[tuple[int, int]] = []  # iteration in which an answer ends, request
        self.joined: dict[int, int] = {}  # request -> iterations before its first; the last that came is last
        self.outgrowing: list[tuple[float, int]] = []  # iteration in which one outgrows the window of layers, request
        self.outgrown: set[int] = set()
        self.steps, self.context, self.held, self.stalled, self.behind = 0, 0.0, 0.0, 0.0, 0
        self.sleeping: Any = None
        self.open = False
        self.process: Any = None

    def load(self) -> int:
        return len(self.waiting) + len(self.filling) + len(self.ends)

    def take(self, request: int, first: bool) -> None:
        """Queue a request; interrupt an engine that sleeps, or repeats iterations that the request could join."""
        (self.waiting.appendleft if first else self.waiting.append)(request)
        if self.sleeping is not None:
            self.sleeping.succeed()
            self.sleeping = None
        elif self.open and self._fits(self.waiting[0]):
            self.open = False
            self.process.interrupt()

    def _fits(self, request: int) -> bool:
        running = len(self.ends) + len(self.filling)
        # Keys and values of each running sequence grow by one at most, those of states by none; alone, every
        # request fits.
        needed = self.run_.held(self._length(request)) + running * (self.costs.window > self.costs.windowed)
        return running < self.costs.max_sequences and (self.held + needed < self.costs.kv_tokens or not running)

    def run(self) -> Any:
        """Run iterations, one or several alike at a time, as a process of the simulation."""
        while True:
            ready = self._prompts() if self.policy != SPLIT else self._batch()
            if ready or self.filling:
                yield from self._mixed(ready)
            elif self.ends:
                yield from self._decode()
            else:
                self.sleeping = self.env.event()
                yield self.sleeping
            if self.run_.done:
                yield self.env.timeout(0)  # clients that were answered send their next request first

    def _batch(self) -> list[tuple[int, int, int]]:
        """Return prompts of one pass on an engine that does nothing else: request, tokens and tokens before them."""
        room, prompts = self.costs.chunk, list[tuple[int, int, int]]()
        while self.waiting and (not prompts or self._length(self.waiting[0]) <= room):
            request = self.waiting.popleft()
            prompts.append((request, self._length(request), 0))
            room -= prompts[-1][1]
        return prompts

    def _length(self, request: int) -> int:
        return self.run_.prompts[request] + self.run_.given[request]

    def _growth(self) -> float:
        """Return tokens that an iteration adds to what is kept and read: none in layers whose window is full."""
        return len(self.ends) - self.costs.windowed * len(self.outgrown)

    def _prompts(self) -> list[tuple[int, int, int]]:
        """Return the parts of prompts that the next iteration computes, after freeing memory for the iteration."""
        while self.held + self._growth() > self.costs.kv_tokens and len(self.ends) + len(self.filling) > 1:
            self._preempt()
        if self.run_.policy == SPLIT:
            self._join()
            return []
        room, prompts = self.costs.chunk, list[tuple[int, int, int]]()
        room -= len(self.ends) if self.policy == CHUNKED else 0
        for part in self.filling:
            now = min(part[2] - part[1], max(room, 1))
            prompts.append((part[0], now, part[1]))
            room -= now
            if room <= 0:
                return prompts
        while self.waiting and self._fits(self.waiting[0]):
            length = self._length(self.waiting[0])
            if prompts and (room <= 0 or (self.policy == FIRST and length > room)):
                break
            request = self.waiting.popleft()
            now = length if self.policy == FIRST else min(length, max(room, 1))
            self.held += self.run_.held(length)
            self.filling.append([request, 0, length])
            prompts.append((request, now, 0))
            room -= now
        return prompts

    def _join(self) -> None:
        """Disaggregated: begin to decode the prompts whose keys and values have arrived."""
        while self.waiting and self._fits(self.waiting[0]):
            request = self.waiting.popleft()
            self.held += self.run_.held(self._length(request))
            self._begin(request)

    def _begin(self, request: int) -> None:
        """Decode a sequence from the next iteration on."""
        self.context += self.run_.kept(self._length(request))
        self.joined[request] = self.steps
        left = self.costs.window - self._length(request)
        if self.costs.windowed and left <= 0:
            self.outgrown.add(request)
        elif self.costs.windowed:
            heapq.heappush(self.outgrowing, (self.steps + left, request))
        heapq.heappush(self.ends, (self.steps + self.run_.answers[request] - self.run_.given[request], request))

    def _preempt(self) -> None:
        """Free the memory of the sequence that came last, and queue it to be computed again."""
        if self.filling:
            part = self.filling.pop()
            request, self.held = part[0], self.held - self.run_.held(part[2])
        else:
            request, begun = self.joined.popitem()
            self.ends = [entry for entry in self.ends if entry[1] != request]
            heapq.heapify(self.ends)
            self._leave(self._length(request) + self.steps - begun, request)
            self.run_.given[request] += self.steps - begun
        self.run_.preempted[request] += 1
        if self.run_.policy == SPLIT:
            self.run_.give(request, self.run_.fillers, True)
        else:
            self.waiting.appendleft(request)

    def _leave(self, tokens: int, request: int) -> None:
        """Remove a sequence of `tokens`, which keeps nothing."""
        self.context, self.held = self.context - self.run_.kept(tokens), self.held - self.run_.held(tokens)
        self.outgrown.discard(request)

    def _mixed(self, ready: list[tuple[int, int, int]]) -> Any:
        """Run one iteration with prompts, beside the answers or before them."""
        beside = len(self.ends) if self.policy == CHUNKED else 0
        tokens = sum(now for _, now, _ in ready)
        attended = sum(now * self.run_.attended(before + now / 2, now) for _, now, before in ready) / tokens
        seconds = self.tables.mixed(beside, self.context, tokens, attended)
        self._spend(seconds)
        yield self.env.timeout(seconds)
        if beside:
            self._stepped(1, seconds)
        else:
            self.behind = self.behind if self.stalled else len(self.ends)
            self.stalled += seconds if self.behind else 0.0
        if self.policy == SPLIT:
            for request, _, _ in ready:
                self._filled(request)
            return
        for part, (_, now, _) in zip(self.filling, ready, strict=False):
            part[1] += now
        while self.filling and self.filling[0][1] >= self.filling[0][2]:
            self._filled(self.filling.popleft()[0])

    def _filled(self, request: int) -> None:
        """End a prompt, whose pass gives a token of the answer."""
        run, length = self.run_, self._length(request)
        if run.given[request] == 0:
            run.first[request] = self.env.now
        run.given[request] += 1
        if run.given[request] >= run.answers[request]:
            self.held -= run.held(length) if self.policy != SPLIT else 0
            run.answered(request)
        elif self.policy == SPLIT:
            run.hand_over(request)
        else:
            self.held += run.held(length + 1) - run.held(length)
            self._begin(request)

    def _decode(self) -> Any:
        """Run iterations without prompts that are alike, until a request can join."""
        from simpy import Interrupt

        count, growth = len(self.ends), self._growth()
        steps = min(self.ends[0][0], self.outgrowing[0][0] if self.outgrowing else math.inf) - self.steps
        steps = int(max(min(steps, (self.costs.kv_tokens - self.held) // growth if growth > 0 else steps), 1))
        first = self.tables.step[count] + self.tables.step_seen[count] * self.context / count
        slope = self.tables.step_seen[count] * (growth / count)  # each iteration is this much longer than the last
        seconds, begun = steps * first + slope * steps * (steps - 1) / 2, self.env.now
        wait = self.env.timeout(seconds)
        self.open = not self.waiting
        try:
            yield wait
        except Interrupt:
            steps = _whole_steps(self.env.now - begun, first, slope, steps)
            seconds = steps * first + slope * steps * (steps - 1) / 2
            yield self.env.timeout(max(begun + seconds - self.env.now, 0.0))
        self.open = False
        self._spend(seconds)
        self._stepped(steps, seconds)

    def _spend(self, seconds: float) -> None:
        self.run_.computed += seconds
        self.run_.filled += seconds * self.held

    def _stepped(self, steps: int, seconds: float) -> None:
        """Add tokens to every sequence, and remove those that end."""
        count, run, (gaps, counts) = len(self.ends), self.run_, self.run_.gaps
        behind = min(self.behind, count)
        if behind:
            gaps.append(self.stalled + seconds / steps)
            counts.append(behind)
            self.stalled, self.behind = 0.0, 0
        gaps.append(seconds / steps)
        counts.append(count * steps - behind)
        self.steps += steps
        grown = self._growth() * steps
        self.context, self.held = self.context + grown, self.held + grown
        while self.outgrowing and self.outgrowing[0][0] <= self.steps:
            request = heapq.heappop(self.outgrowing)[1]
            # Begun later than when this was noted, if it was preempted meanwhile.
            if self.joined.get(request, math.inf) + self.costs.window - self._length(request) <= self.steps:
                self.outgrown.add(request)
        run.stepped += steps
        run.stepped_tokens += steps * count
        while self.ends and self.ends[0][0] <= self.steps:
            request = heapq.heappop(self.ends)[1]
            self._leave(self._length(request) + self.steps - self.joined.pop(request), request)
            run.answered(request)


def _whole_steps(seconds: float, first: float, slope: float, most: int) -> int:
    """Return iterations until the first boundary at or after a time, each longer than the last by `slope`.

    >>> _whole_steps(0.25, 0.1, 0.0, 10), _whole_steps(0.3, 0.1, 0.0, 10)
    (3, 3)
    """
    half = first - slope / 2
    steps = seconds / half if slope <= 0 else 2 * seconds / (half + math.sqrt(half * half + 2 * slope * seconds))
    return min(max(math.ceil(steps - 1e-9), 1), most)
