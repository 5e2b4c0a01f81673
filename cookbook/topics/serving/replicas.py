"""Replicas of one engine under one load: latency, capacity, limits, and the fewest that keep them."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from cookbook import units
from cookbook.catalog import constant
from cookbook.catalog.prices import HOUR, Price
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.formulas.serving import held_tokens, service_latencies
from cookbook.prediction.kinds.serving_memory import REQUEST_TOO_LONG
from cookbook.prediction.measurements import Measurement
from cookbook.topics.costs.cost import machine_power, power_watts
from cookbook.topics.serving.engines import (
    Batching,
    EngineOptions,
    Limits,
    Load,
    arrivals,
    costs_of,
    engine_formats,
    engine_name,
    interval_factors,
    lengths,
    measured_runs,
    tier,
)
from cookbook.topics.serving.simulation import CHUNKED, FIRST, PERCENTILES, SPLIT, simulate
from cookbook.workloads.zoo import Workload

__all__ = ["COLUMNS", "Overload", "Replicas", "load_settings"]
MILLION, MILLI, LEAST_BURSTINESS = 1e6, 1e-3, 1e-3
# Engines more than a load needs where its queue would grow without end, and most engines of a search.
SPARE_ENGINES, MAX_ENGINES = 0.02, 4096
# Steady states of one engine that are remembered.
MAX_STATES = 512
# Engines over those that the throughput needs: from here on limits are costly, and the number of the looser limits that
# are suggested.
COSTLY_RATIO, LOOSER_RATIO = 3, 1.25
# Relative error of the requests in service of a closed loop, and the share of pauses below which requests come at once;
# most steps.
TOLERANCE, MAX_SECANTS = 1e-3, 20
# Share of the capacity up to which clients are an open load; beyond, they wait for each other.
FULL = 0.98
# Bound of the excess over a limit, beyond which a search does not take it to be on a line: e times the limit.
MAX_EXCESS = 1.0
COLUMNS = (
    "accelerator",
    "devices",
    "tp",
    "pp",
    "ep",
    "engines",
    "requests_per_second",
    "in_service",
    "output_tokens_per_second",
    *(f"{name}_p{percentile}" for name in ("ttft", "tpot", "e2e") for percentile in PERCENTILES),
    "goodput",
    "busy",
    "batch",
    "kv_share",
    "capacity",
    "usd_per_hour",
    "usd_per_million_input",
    "usd_per_million_input_low",
    "usd_per_million_input_high",
    "usd_per_million_output",
    "usd_per_million_output_low",
    "usd_per_million_output_high",
    "joule_per_token",
    "joule_per_token_low",
    "joule_per_token_high",
    "binds",
    "costly",
    "meets",
    "tier",
    "why",
    "devices_fast",
    "devices_slow",
    *(
        f"{name}_{end}80"
        for name in (
            "ttft_p50",
            "tpot_p50",
            "output_tokens_per_second",
            "usd_per_million_input",
            "usd_per_million_output",
        )
        for end in ("low", "high")
    ),
)


@lru_cache(maxsize=128)
def _states(*engine: Any) -> dict[tuple[float | None, ...], dict[str, Any]]:
    """Return the steady states that were solved for an engine and a mix of requests, by rate, clients and pause."""
    return {}


class Overload(Refused):
    """A load above the capacity of a number of engines."""


class Replicas:
    """Engines of one kind under one load.

    Attributes
    ----------
    costs : StepCosts
        Of one engine.
    engine_devices, unit_devices : int
        Devices of one engine, and of one with its share of engines for prompts where those are apart.
    group_tokens : float
        Tokens whose keys and values fit the group of devices that serves a request.
    slots : float
        Most requests that one engine decodes at once.
    points : list of tuple of float
        Rates that were solved for this load, each with the time of an answer, from an idle engine to a full one.
    loops : dict
        Closed loops by clients and pause. They begin with the points, so that they are not shared with other loads.
    """

    def __init__(
        self,
        network: Workload,
        machine: Any,
        options: EngineOptions,
        batching: Batching,
        load: Load,
        limits: Limits,
    ) -> None:
        self.network, self.machine, self.options, self.batching = network, machine, options, batching
        self.load, self.limits, self.policy, self.prefill = load, limits, batching.policy, batching.prefill_engines
        self.tp, self.groups, self.name = options.tp or 1, options.groups, machine.accelerator.name
        self.costs = costs_of(network, machine, options, batching, load.prompt)
        # An iteration takes more tokens of prompts where some are cached, all but the last one at most.
        self.chunk, share = self.costs.chunk, max(1 - (options.prefix_hit or 0.0), 1 / load.prompt)
        self.costs = replace(self.costs, chunk=round(self.chunk / share))
        self.factors, self.tier = interval_factors(network, machine, options), tier(network, machine, options)
        self.engine_devices = self.tp * options.pp * self.groups
        self.unit_devices = self.engine_devices * (1 + self.prefill if self.policy == SPLIT else 1)
        self.group_tokens = self.costs.kv_tokens / self.groups
        self._check_length()
        self.lengths = {
            "prompt": load.prompt,
            "answer": load.answer,
            "prompt_spread": load.prompt_spread,
            "answer_spread": load.answer_spread,
            "window": self.costs.window,
            "windowed": self.costs.windowed,
            "windowed_scores": self.costs.near,
        }
        self.context, self.attended, _ = held_tokens(**self.lengths).tolist()
        self.fitting = self.costs.kv_tokens / (self.context + self.costs.state)
        self.slots = max(min(self.costs.max_sequences, self.fitting), 1.0)
        self.costs = replace(self.costs, transfer=self._transfer())
        self.solved = _states(network, machine, options, batching, replace(load, rate=0.0, clients=0.0, think=0.0))
        self.points = [(0.0, self.shortest), (self.capacity, math.inf)]
        self.loops = dict[tuple[float, float], dict[str, Any]]()
        self._check_limits()

    def afresh(self) -> Replicas:
        """Return the same without points and loops: a stack has the same figures however it was found."""
        other = copy(self)
        other.points, other.loops = [self.points[0], self.points[-1]], {}
        return other

    def _check_length(self) -> None:
        """Refuse requests of a mean length that does not fit the memory of a group."""
        length = self.load.prompt + self.load.answer
        if self.costs.held(length) > self.group_tokens:
            longest = max(self.costs.longest(self.group_tokens - self.costs.state), 0.0)
            raise Refused(REQUEST_TOO_LONG.filled(length, longest, 2 * self.tp))

    def _transfer(self) -> float:
        """Return the time to send keys and values of one token over the network of an engine's devices [s]."""
        if self.policy != SPLIT:
            return 0.0
        memory = constant("memory-served") * self.machine.accelerator.memory_bytes * self.engine_devices
        bytes_per_token = memory / self.costs.kv_tokens  # at most: weights are in that memory, too
        link = self.machine.link if math.isnan(self.machine.network) else self.machine.network
        return float(bytes_per_token / (link * self.engine_devices / self.groups)) if link and link > 0 else 0.0

    def _check_limits(self) -> None:
        """Refuse limits that not even an idle engine keeps."""
        tokens = self.load.prompt
        idle = {
            "ttft": float(self.costs.prefill(tokens, self.costs.kept(tokens / 2, tokens))),
            "tpot": float(self.costs.decode(1.0, self.context)),
        }
        for name, least in idle.items():
            if getattr(self.limits, name) < least:
                self._too_tight(name, least)

    def _too_tight(self, name: str, least: float, share: str = "") -> None:
        reason = (
            f"{name} = {getattr(self.limits, name):.3g} s: an idle engine of {self.engine_devices} × {self.name} needs "
            f"{least:.3g} s{share}; give {name} above that, a larger tp or a faster accelerator"
        )
        raise Refused(Refusal(reason, field=name))

    def assumed_overlap(self) -> str:
        """Return the gain in capacity from two batches in turn, in words."""
        plain = Replicas(
            self.network, self.machine, self.options, replace(self.batching, two_batches=False), self.load, Limits()
        )
        return f"two batches in turn hide what is sent: {self.capacity / plain.capacity:.2f}× the capacity"

    @cached_property
    def prompt_seconds(self) -> float:
        """Time of one prompt, where passes are full [s]."""
        prompt, costs, chunked = self.load.prompt, self.costs, self.policy == CHUNKED
        tokens = costs.chunk if chunked else max(costs.chunk / prompt, 1.0) * prompt
        full = float(costs.prefill(tokens, self.attended))
        shared = float(costs.decode(1.0, 0.0)) if chunked else 0.0
        return max(full - shared, 0.05 * full) * prompt / tokens

    @cached_property
    def capacity(self) -> float:
        """Requests per second of one engine (disaggregated: with those for its prompts) that is never idle."""
        count, batch = max(self.load.answer - 1, 1e-9), self.slots
        if self.policy == CHUNKED:  # no more are decoded than prompts that pass in this number of iterations
            batch = min(batch, max(count * self.costs.chunk / self.load.prompt, 1.0))
        steps = count * float(self.costs.decode(batch, self.context)) / batch
        if self.policy == SPLIT:
            return min(1 / steps, self.prefill / self.prompt_seconds)
        rate = 1 / (self.prompt_seconds + steps)
        if self.policy == FIRST and self.groups > 1:  # all groups wait for the prompt of one; then none decodes
            rate = min(rate, 1 / float(self.costs.prefill(self.load.prompt, self.load.prompt / 2)))
        return rate

    def engines_of(self, devices: int) -> int:
        """Return the number of engines on a number of devices."""
        if devices % self.unit_devices or devices < self.unit_devices:
            reason = f"is no multiple of the {self.unit_devices} devices of an engine; give one"
            raise refused("devices", devices, reason)
        return devices // self.unit_devices

    def refuse(self, engines: int) -> None:
        """Refuse a load above the capacity of a number of engines."""
        if self.load.rate / engines >= self.capacity:
            least = math.ceil(self.load.rate / self.capacity + SPARE_ENGINES)
            devices = engines * self.unit_devices
            reason = (
                f"rate = {self.load.rate:.3g} requests/s is above the capacity of {devices:,} devices, "
                f"{engines * self.capacity:.3g} requests/s: the queue grows without end; take "
                f"{least * self.unit_devices:,} devices or more, or shorter requests"
            )
            raise Overload(Refusal(reason, field="rate"))

    def solve(self, engines: float) -> dict[str, Any]:
        """Return the steady state of one engine of `engines`."""
        return self._solve(self.load.share(engines))

    def _solve(self, load: Load) -> dict[str, Any]:
        """Return the steady state of one engine under a load, solved once whatever the limits."""
        if load.closed and (load.think or self.policy == SPLIT):
            if (load.clients, load.think) not in self.loops:
                self.loops[load.clients, load.think] = self._closed_loop(load)
            return self.loops[load.clients, load.think]
        key = (load.clients, None) if load.closed else (None, load.rate)
        if key not in self.solved:
            if len(self.solved) >= MAX_STATES:
                self.solved.clear()
            self.solved[key] = self._steady(load)
        state = self.solved[key]
        if not load.closed and (load.rate, state["e2e"]) not in self.points:
            insort(self.points, (load.rate, state["e2e"]))
        return state

    def _steady(self, load: Load) -> dict[str, Any]:
        if load.clients < 1:  # the one client of an engine shares its time with others
            alone = self._solve(replace(load, clients=1.0))
            return alone | {name: load.clients * alone[name] for name in ("rate", "batch", "busy")}
        arguments = {
            **self.lengths,
            "kv_tokens": self.costs.kv_tokens,
            "max_sequences": self.costs.max_sequences,
            "chunk": self.costs.chunk,
            "burstiness": load.burstiness,
            "state": self.costs.state,
        }
        if self.policy != SPLIT:
            return service_latencies(
                self.costs.decode,
                self.costs.prefill,
                rate=load.rate,
                clients=load.clients,
                prefill_first=self.policy == FIRST,
                **arguments,
            )
        return self._split(load, arguments)

    def _closed_loop(self, load: Load) -> dict[str, Any]:
        """Return the state in which clients send as many requests as are answered: rate x (think + answer) = clients.

        This is the interactive response time law. Where even a full engine keeps clients waiting, those who are not
        thinking are the clients of a closed loop.
        """
        for _ in range(MAX_SECANTS):
            rate, state = self._approach(load)
            if self._settled(load, rate, state["e2e"]) or self._jumps(load):
                break
        (low, _), (high, _) = self._bracket(load)
        settled = self._settled(load, rate, state["e2e"])
        if high < self.capacity or settled:
            if low > 0 and not settled:  # answers jump here: now they are of one state, now of the other
                lower, upper = (self._solve(load.at_rate(rate)) for rate in (low, high))
                under, over = _served(load, low, lower["e2e"]), _served(load, high, upper["e2e"])
                state = _between(lower, upper, (1 - under) / (over - under))
            return self._hurried(load, state)
        if self.policy == SPLIT:  # the others wait for their first token, as long as Little's law says
            wait = load.clients / rate - load.think - state["e2e"]
            late = {
                f"{name}{end}": state[f"{name}{end}"] + wait
                for name in ("ttft", "e2e")
                for end in ("", "_p50", "_p95", "_p99")
            }
            return state | late | {"stable": False}
        for _ in range(3):  # the rate of a full engine hardly depends on how many wait
            waiting = max(load.clients - rate * load.think, 1.0)
            state = self._solve(replace(load, clients=waiting, think=0.0))
            rate = state["rate"]
        return state | {"stable": False}

    def _approach(self, load: Load) -> tuple[float, dict[str, Any]]:
        """Return a rate closer to that of a closed loop than the points are, and its state; or a point that is settled.

        The rate is where the law holds on a line of 1 / (time of an answer) through two points, those nearest to the
        loop or else those on both sides of it; of a processor-sharing queue, it is such a line.
        """
        nearest = sorted(self.points, key=lambda point: abs(1 - _served(load, *point)))[:2]
        below, above = self._bracket(load)
        rate, high = nearest[0][0], min(self._highest(load), above[0])
        if not self._settled(load, *nearest[0]):
            guesses = (_balanced_rate(load, *points) for points in (nearest, (below, above)))
            rate = next((guess for guess in guesses if below[0] < guess < high), high)
        return rate, self._solve(load.at_rate(rate))

    def _highest(self, load: Load) -> float:
        """Return the rate above which clients wait for each other, or that of answers without delay if it is lower."""
        return min(FULL * self.capacity, load.clients / load.think if load.think else math.inf)

    def _settled(self, load: Load, rate: float, answer: float) -> bool:
        """Return whether clients at a rate have as many requests in service as a closed loop has."""
        return abs(1 - _served(load, rate, answer)) * (load.think + answer) < TOLERANCE * answer

    def _jumps(self, load: Load) -> bool:
        """Return whether the time of an answer jumps at the rate of a closed loop, or the loop is above the highest."""
        (low, answer), (high, _) = self._bracket(load)
        return (min(high, self._highest(load)) - low) * (load.think + answer) < TOLERANCE * answer * high

    def _bracket(self, load: Load) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the points below and above the rate of a closed loop."""
        at = bisect_left(self.points, 1.0, key=lambda point: _served(load, *point))
        return self.points[at - 1], self.points[at]

    def _hurried(self, load: Load, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of clients who think, which for a pause near 0 is that of requests at once.

        Requests sent at once are in the next iteration; those after a pause come at any time within one, and wait for
        its end. The weight between both is the share of exponential pauses of this mean that outlast a first token.
        """
        paused = 1.0 if self.policy == SPLIT else 1 - math.exp(-load.think / state["ttft_p50"])
        if paused > 1 - TOLERANCE:
            return state
        at_once = self._solve(replace(load, think=0.0))
        return _between(at_once, state, paused)

    @cached_property
    def shortest(self) -> float:
        """Time of an answer on an idle engine [s]."""
        load, costs = self.load, self.costs
        first = float(costs.prefill(load.prompt, costs.kept(load.prompt / 2, load.prompt)))
        return first + max(load.answer - 1, 0.0) * float(costs.decode(1.0, self.context))

    def _split(self, load: Load, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the state of disaggregated engines: prompts, the transfer of keys and values, and decoding."""
        first = service_latencies(
            self.costs.decode,
            self.costs.prefill,
            rate=load.rate / self.prefill,
            prefill_first=True,
            **{**arguments, "answer": 1.0, "answer_spread": 0.0},
        )
        then = service_latencies(
            self.costs.decode,
            lambda tokens, seen: 0.0 * np.asarray(tokens),
            rate=load.rate,
            prefill_first=True,
            **arguments,
        )
        wait = self.costs.transfer * float(self.costs.held(load.prompt))
        state = {**then, "busy": (then["busy"] + self.prefill * first["busy"]) / (1 + self.prefill)}
        for end in ("", "_p50", "_p95", "_p99"):
            state[f"ttft{end}"] = first[f"ttft{end}"]
            state[f"tpot{end}"] = then[f"tpot{end}"] + wait / max(load.answer - 1, 1.0)
            state[f"e2e{end}"] = then[f"e2e{end}"] + first[f"ttft{end}"] + wait
        return state

    def meets(self, state: dict[str, Any]) -> bool:
        """Return whether enough requests keep both limits; without limits, whether the engines keep up."""
        return self.excess(state) <= 0

    def excess(self, state: dict[str, Any]) -> float:
        """Return the logarithm of the latency that enough requests keep over its limit, the larger one, bounded."""
        if self.limits.absent:
            return -MAX_EXCESS if state.get("stable", True) else MAX_EXCESS
        over = [self._kept(state, name) - math.log(getattr(self.limits, name)) for name in ("ttft", "tpot")]
        return min(max(*over, -MAX_EXCESS), MAX_EXCESS)

    def within(self, state: dict[str, Any], name: str) -> float:
        """Return the share of requests that keep one limit, between the percentiles on a logarithmic scale."""
        limit, (scale, shares) = getattr(self.limits, name), self._scale(state, name)
        return 1.0 if math.isinf(limit) else float(np.interp(math.log(limit), scale, shares))

    def kept_limit(self, state: dict[str, Any], name: str) -> float:
        """Return the limit that enough requests just keep, to two digits [s]."""
        least = math.exp(self._kept(state, name))
        digit = 10 ** (math.floor(math.log10(least)) - 1)
        return float(f"{math.ceil(least / digit + 1e-6) * digit:.2g}")

    def _kept(self, state: dict[str, Any], name: str) -> float:
        """Return the logarithm of the latency within which enough requests are [log s]."""
        scale, shares = self._scale(state, name)
        return float(np.interp(self.limits.kept, shares, scale))

    def _scale(self, state: dict[str, Any], name: str) -> tuple[list[float], list[float]]:
        """Return logarithms of latencies [log s], and the shares of requests below them."""
        ends = np.array([state[f"{name}_p{percentile}"] for percentile in PERCENTILES])
        scale = np.log(np.maximum.accumulate(np.maximum(ends, 1e-12)) + np.array([0, 1e-12, 2e-12]))
        low, high = 2 * scale[0] - scale[1], 2 * scale[2] - scale[1]
        return [low, *scale, high], [0.05, 0.5, 0.95, 0.99, 1.0]

    def fewest(self, best: float = math.inf) -> int:
        """Return the fewest engines that serve the load within the limits; refuse those of `best` devices or more."""
        least = 1 if self.load.closed and not self.load.think else self.fewest_by_load
        number = self._search(least, best, self._near)
        if number is None or not self._confirmed(number, least):  # answers jump between the rates that were solved
            number = self._search(least, best, self._exactly, MAX_ENGINES)
        return number or MAX_ENGINES

    def _search(
        self,
        least: int,
        best: float,
        near: Callable[[int], tuple[float, float]],
        most_steps: int = MAX_SECANTS,
    ) -> int | None:
        """Return the fewest engines, of `least` or more, that keep the limits by what `near` says; None if it is late.

        They are between two ends: a number that misses the limits and one that keeps them, each with its excess, NaN
        where that is not known.
        """
        missed, kept, last = (least - 1.0, math.nan), (math.inf, math.nan), None
        for _ in range(most_steps):
            least = math.floor(missed[0]) + 1
            if least > MAX_ENGINES:
                raise ValueError(
                    f"ttft and tpot: more than {MAX_ENGINES:,} engines of {self.engine_devices} × {self.name} would be "
                    f"needed; {self.relaxed()}, or take a larger tp"
                )
            self._beats(least, best)
            if least >= math.ceil(min(kept[0], MAX_ENGINES + 1)):
                return math.ceil(kept[0])
            if math.isnan(missed[1]):
                number, excess = near(least)
            elif math.isnan(kept[1]):
                number, excess = self._alone()
            else:
                number, excess = near(_integer_between(missed, kept))
            end, again, last = (number, excess), last is (excess <= 0), excess <= 0
            if again:  # an end that stays counts half each time, so that it does not hold up the search
                missed, kept = ((missed[0], missed[1] / 2), kept) if last else (missed, (kept[0], kept[1] / 2))
            missed, kept = (missed, min(kept, end)) if last else (max(missed, end), kept)
        return None

    def _confirmed(self, number: int, least: int) -> bool:
        """Return whether this number of engines keeps the limits, and one less misses them or the load."""
        return self.meets(self.solve(number)) and (number <= least or not self.meets(self.solve(number - 1)))

    def enough(self, engines: int) -> int:
        """Return this number of engines, or more where it keeps the limits to the tolerance of a search alone."""
        return next(number for doublings in range(64) if self.meets(self.solve(number := engines + 2**doublings - 1)))

    def _near(self, engines: float) -> tuple[float, float]:
        """Return this number of engines or, for users who think, one closer to it than the points; and its excess."""
        load = self.load.share(engines)
        if load.closed and load.think:
            rate, state = self._approach(load)
            if not (self._settled(load, rate, state["e2e"]) or self._jumps(load)):
                engines = 1 / _served(self.load, rate, state["e2e"])
                return engines, self.excess(self._hurried(self.load.share(engines), state))
        return self._exactly(engines)

    def _exactly(self, engines: float) -> tuple[float, float]:
        """Return this number of engines, and its excess over the limits."""
        return engines, self.excess(self.solve(engines))

    def _beats(self, least: int, best: float) -> None:
        """Refuse at once where `least` engines are on no fewer devices than the best so far."""
        if least * self.unit_devices >= best:
            raise refused("tp", self.tp, "needs no fewer devices than fewer shards do")

    @cached_property
    def fewest_by_load(self) -> int:
        """Fewest engines that serve the load, however late; of clients, those that fit all of them at once."""
        load = self.load
        if load.think:  # those whose requests nearly fill the engines
            rate = FULL * self.capacity
            nearly = self._solve(load.at_rate(rate))
            return max(math.ceil(load.clients / rate / (load.think + nearly["e2e"])), 1)
        return math.ceil(load.clients / self.slots if load.closed else load.rate / self.capacity + SPARE_ENGINES)

    def relaxed(self) -> str:
        """Return the limits that a quarter more engines than the throughput needs would keep, in words."""
        number = math.ceil(LOOSER_RATIO * self.fewest_by_load)
        state = self.afresh().solve(number)
        limits = [
            f"{name} = {self.kept_limit(state, name):g} s"
            for name in ("ttft", "tpot")
            if self.within(state, name) < self.limits.kept
        ]
        return f"{' with '.join(limits) or 'looser ones'} would need {number * self.unit_devices:,} devices"

    def costly(self, engines: int) -> str:
        """Return the saving by looser limits, in words, where limits need several times the engines of the load."""
        if engines <= COSTLY_RATIO * self.fewest_by_load:
            return ""
        times = engines / self.fewest_by_load
        return f"the limits need {times:.2g}× the devices that the throughput does; {self.relaxed()}"

    def _alone(self) -> tuple[float, float]:
        """Return engines on which no request waits for another, and their excess; refuse limits that they miss."""
        engines = max(self.load.clients if self.load.closed else 1e3 * self.load.rate / self.capacity, 1.0)
        state = self.solve(engines)
        for name in ("ttft", "tpot"):
            if self._kept(state, name) > math.log(getattr(self.limits, name)):
                share = f" for {units.percent(self.limits.kept)} of the requests"
                self._too_tight(name, self.kept_limit(state, name), share)
        return engines, self.excess(state)

    def row(self, engines: int, price: Price, seed: int | None) -> dict[str, Any]:
        """Return one row of the table; of a simulation where a seed is given."""
        state = self.solve(engines) if seed is None else self.simulate(engines, seed)
        load, devices, rate = self.load, engines * self.unit_devices, state["rate"] * engines
        row = {
            "devices": devices,
            "tp": self.tp,
            "engines": engines,
            "requests_per_second": rate,
            "in_service": load.clients - rate * load.think if load.closed else rate * state["e2e"],
            "output_tokens_per_second": rate * load.answer,
            "goodput": rate * min(self.within(state, "ttft"), self.within(state, "tpot")),
            "capacity": max(engines * self.capacity, rate),
            "usd_per_hour": price.median * devices,
            "kv_share": min(state["batch"] * (self.context + self.costs.state) / self.costs.kv_tokens, 1.0),
            "meets": self.meets(state),
            "tier": self.tier,
            "binds": self.binds(state),
            "why": "",
        }
        row |= {name: state[name] for name in COLUMNS if name in state}
        row |= self._per_token(state, price, devices, rate)
        return row | self.ends(row)

    def _per_token(self, state: dict[str, Any], price: Price, devices: int, rate: float) -> dict[str, float]:
        """Return cost [USD per million tokens] and energy [J per token of answers], with low and high of both."""
        load, batch = self.load, max(state["batch"], 1.0)
        steps = max(load.answer - 1, 0.0) * float(self.costs.decode(batch, self.context)) / batch
        share = self.prompt_seconds / (self.prompt_seconds + steps)
        power, busy = machine_power(self.machine.accelerator, devices), min(state["busy"], 1.0)
        columns = dict[str, float]()
        for end, tail in (("median", ""), ("low", "_low"), ("high", "_high")):
            rated, idle, full = (getattr(watts, end) for watts in (power.rated, power.idle, power.full))
            usd = getattr(price, end) * devices / HOUR / rate * MILLION
            columns[f"usd_per_million_input{tail}"] = usd * share / load.prompt
            columns[f"usd_per_million_output{tail}"] = usd * (1 - share) / load.answer
            columns[f"joule_per_token{tail}"] = power_watts(rated, busy, idle, full) / rate / load.answer
        return columns

    def ends(self, row: dict[str, Any]) -> dict[str, float]:
        """Return 80 % intervals by measured latencies and rates of services, each end solved with its own queues.

        Where all times are longer, requests of an open load queue longer too, and without end once they exceed the
        capacity; clients of a closed load send fewer.
        """
        (alone, loaded, other), load, engines = self.factors, self.load, row["engines"]
        first, now = loaded if row["batch"] > 1 else alone, self.solve(engines)
        slow, fast = (self._at_speed(engines, factor) for factor in (other, 1 / other))
        within = min(1.0, row["capacity"] / other / row["requests_per_second"])
        low, high = (slow["rate"] / now["rate"], fast["rate"] / now["rate"]) if load.closed else (within, 1.0)
        least, most = ({name: end[name] / now[name] for name in ("ttft_p50", "tpot_p50")} for end in (fast, slow))
        pairs = {
            "ttft_p50": (min(1 / first, least["ttft_p50"]), max(first, most["ttft_p50"])),
            "tpot_p50": (least["tpot_p50"], most["tpot_p50"]),
            "output_tokens_per_second": (low, high),
            **{f"usd_per_million_{kind}": (1 / high, 1 / low) for kind in ("input", "output")},
        }
        return {
            f"{name}_{end}80": row[name] * factor
            for name, pair in pairs.items()
            for end, factor in zip(("low", "high"), pair, strict=True)
        }

    def _at_speed(self, engines: float, factor: float) -> dict[str, Any]:
        """Return rate and median latencies of one engine of `engines` whose iterations take `factor` times as long.

        With time counted in units of `factor`, that is this engine under requests and pauses that are so much shorter.
        """
        load = self.load.share(engines).in_units(factor)
        if not load.closed and load.rate >= self.capacity:
            return {"rate": self.capacity / factor, "ttft_p50": math.inf, "tpot_p50": math.inf}
        state = self._solve(load)
        latencies = {name: state[name] * factor for name in ("ttft_p50", "tpot_p50")}
        return {"rate": state["rate"] / factor, **latencies}

    def fewest_at_ends(self, engines: int) -> dict[str, float]:
        """Return the fewest devices within the limits where every time is at one end; NaN if no number is.

        The fast end needs no more than the `engines` of the median, and the slow end no fewer.
        """
        devices, slow = float(engines * self.unit_devices), self._fewest_at(self.factors[2])
        fast = self._fewest_at(1 / self.factors[2])
        return {"devices_fast": min(devices, fast), "devices_slow": slow if math.isnan(slow) else max(devices, slow)}

    def _fewest_at(self, factor: float) -> float:
        limits = replace(self.limits, ttft=self.limits.ttft / factor, tpot=self.limits.tpot / factor)
        load = self.load.in_units(factor)
        try:
            other = Replicas(self.network, self.machine, self.options, self.batching, load, limits)
            other.points, other.loops = self.points, self.loops
            engines = other.fewest()
        except ValueError:
            return math.nan
        return float(engines * self.unit_devices)

    def simulate(self, engines: int, seed: int) -> dict[str, Any]:
        """Return the state of one engine as `solve` does, from single requests."""
        load, trace = self.load, self.load.trace
        count = len(next(iter(trace.values()))) if trace else int(constant("service-simulated-requests"))
        longest = self.costs.longest(max(self.group_tokens // 3, 1.0))
        times: dict[str, Any]
        if load.closed:
            pauses = np.random.default_rng(seed + 3).exponential(load.think, count) if load.think else None
            times = {"concurrency": max(round(load.clients), 1), "think": pauses}
        else:
            times = {"arrival": trace.get("arrival", arrivals(load.rate, count, load.burstiness, seed))}
        prompts = lengths(load.prompt, count, load.prompt_spread, seed + 1, longest)
        answers = lengths(load.answer, count, load.answer_spread, seed + 2, longest)
        served = simulate(
            self.costs,
            trace.get("input_len", prompts),
            trace.get("output_len", answers),
            policy=self.policy,
            engines=engines,
            prefill_engines=engines * self.prefill,
            **times,
        )
        return {**served.figures, "rate": served.rate / engines}

    def binds(self, state: dict[str, Any]) -> str:
        """Return the limit of the service: one that is missed, or the largest share of a full engine's time."""
        if not self.meets(state):
            if self.limits.absent:
                return "capacity: users wait for each other"
            worst = min(("ttft", "tpot"), key=lambda name: self.within(state, name))
            return f"SLO ({worst.upper()})"
        steps = max(self.load.answer - 1, 0.0) / self.slots
        base, unattended = float(self.costs.decode(1.0, 0.0)), float(self.costs.decode(self.slots, 0.0))
        full = float(self.costs.decode(self.slots, self.context))
        by_memory, states = self.fitting < self.costs.max_sequences, self.costs.state_seconds * (self.slots - 1)
        seconds = {
            "compute (prompts)": self.prompt_seconds,
            "KV memory" if by_memory else "sequences of an iteration": base * steps,
            "memory bandwidth (keys and values)": (full - unattended) * steps,
            "compute (answers)": (unattended - base - states) * steps,
            "memory bandwidth (states)": states * steps,
        }
        return max(seconds, key=lambda name: seconds[name])

    def engine(self, engines: int) -> tuple[str, Callable[[], tuple[Measurement, ...]]]:
        """Return the software of an engine, and a function that returns measured runs of it where it is alone."""
        which = (self.network, self.machine, self.options)
        alone = engines == 1 and self.policy != SPLIT
        return engine_name(*which), partial(measured_runs, *which, self.load) if alone else tuple

    def settings(self, engines: int, context: int | None) -> dict[str, Any]:
        """Return what engines are started with, by the names of the table ``engine_flags``; None if not chosen.

        Parameters
        ----------
        engines : int
            Copies of the weights.
        context : int, optional
            Most tokens of a prompt with its answer.
        """
        options, tp, pp, ep = self.options, self.tp, self.options.pp, self.options.ep or 1
        return {
            "network": (self.network.name, self.network.title),
            **engine_formats(self.network, self.machine, options),
            "tp": tp,
            "ranks": max(tp, ep),
            "groups": self.groups,
            "pp": pp,
            "two_ways": tp > 1 and pp > 1,
            "ep": ep,
            "expert_shards": max(tp // ep, 1) if ep > 1 else 1,
            "nodes": math.ceil(self.engine_devices / max(self.machine.per_node, 1)),
            "max_sequences": self.costs.max_sequences // self.groups,
            "chunk": self.chunk // self.groups,
            "engines": engines,
            "context": context,
            "policy": self.batching.policy,
            "prefill_engines": self.batching.prefill_engines,
            "prefix_hit": options.prefix_hit or 0,
            "drafted": options.drafted,
            "acceptance": options.acceptance,
            "two_batches": self.batching.two_batches,
        }


def _between(state: dict[str, Any], other: dict[str, Any], share: float) -> dict[str, Any]:
    """Return a state that for a `share` of the time is another, stable as that one is."""
    mean = {name: (1 - share) * value + share * other[name] for name, value in state.items()}
    return mean | {"stable": other["stable"]}


def _integer_between(missed: tuple[float, float], kept: tuple[float, float]) -> int:
    """Return an integer between two numbers of engines, where the excess is 0 on a line over the load of one engine."""
    over, under = missed[1], -kept[1]
    load = (under / missed[0] + over / kept[0]) / (over + under)
    return min(max(round(1 / load), math.floor(missed[0]) + 1), math.ceil(kept[0]) - 1)


def _served(load: Load, rate: float, answer: float) -> float:
    """Return the share of the clients that one engine serves at a rate, where an answer takes this time."""
    return rate * (load.think + answer) / load.clients


def _balanced_rate(load: Load, point: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the rate of clients who think, where 1 / (time of an answer) is a line through points (rate, time)."""
    slope = (1 / other[1] - 1 / point[1]) / (other[0] - point[0])
    start, thinking = 1 / point[1] - slope * point[0], load.think * slope
    # (clients - think rate) (start + slope rate) = rate
    half = (1 + load.think * start - load.clients * slope) / 2
    root = half**2 + thinking * load.clients * start
    return load.clients * start / (half + math.sqrt(root)) if root >= 0 and half > 0 else math.nan


def load_settings(load: Load, limits: Limits, row: dict[str, Any]) -> dict[str, Any]:
    """Return the load of one engine of a stack, by the names of the table ``engine_flags``.

    Parameters
    ----------
    load : Load
        Requests of all engines.
    limits : Limits
        Latencies that are promised.
    row : dict
        The stack, as in `Service.rows`.
    """
    engines, paused = row["engines"], load.closed and load.think > 0
    in_flight = max(round(row["in_service"] / engines), 1)
    return {
        "input_len": round(load.prompt),
        "output_len": round(load.answer),
        "input_spread": load.prompt_spread,
        "output_spread": load.answer_spread,
        "rate": None if load.closed and not paused else row["requests_per_second"] / engines,
        "concurrency": math.ceil(load.clients / engines) if load.closed and not paused else None,
        "think": load.think if paused else None,
        # Engines' benchmarks draw gaps of a gamma distribution by its shape; equal gaps have none.
        "gamma_shape": None if load.closed else 1 / max(load.burstiness, LEAST_BURSTINESS),
        "in_flight": in_flight,
        "kv_needed": in_flight * (round(load.prompt) + round(load.answer)),
        "slo": " ".join(
            f"{name}:{getattr(limits, name) / MILLI:g}"
            for name in ("ttft", "tpot")
            if math.isfinite(getattr(limits, name))
        )
        or None,
    }
