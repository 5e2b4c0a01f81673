"""Replicas of one engine under one load: latency, capacity, limits, and the fewest that keep them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from cookbook import units
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.formulas.serving import held_tokens, service_latencies
from cookbook.prediction.constants import figure
from cookbook.prediction.kinds.serving_memory import REQUEST_TOO_LONG
from cookbook.topics.costs.cost import HOUR, Price, machine_power, power_watts
from cookbook.topics.serving.engines import Asked, arrivals, engine_costs, groups, lengths, tier, widths
from cookbook.topics.serving.simulation import CHUNKED, FIRST, SPLIT, simulate
from cookbook.workloads.zoo import Workload

__all__ = ["COLUMNS", "Overload", "Replicas"]
MILLION, NEAR, MOST_ENGINES = 1e6, 0.02, 4096
# Steady states that are remembered of one engine.
MAX_SOLVED = 512
# More than so many times the devices that throughput takes, and limits cost much; so many times those, and they keep a
# looser limit.
MUCH, ROOMY, CLOSE = 3, 1.25, 1e-3
# Share of the capacity up to which clients are an open load; beyond, they wait for each other.
FULL = 0.98
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
    *(f"{name}_p{each}" for name in ("ttft", "tpot", "e2e") for each in (50, 95, 99)),
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
def _solved(*engine: Any) -> dict[tuple[float | None, ...], dict[str, Any]]:
    """Return the steady states that were solved of one engine and one mix of requests, by rate, clients and pause."""
    return {}


class Overload(Refused):
    """More requests than so many engines serve."""


class Replicas:
    """Engines of one kind under one load."""

    def __init__(
        self, network: Workload, machine: Any, stack: dict[str, Any], limits: dict[str, Any], prefill: int, asked: Asked
    ) -> None:
        self.machine, self.tp, self.asked, self.prefill = machine, stack["tp"], asked, prefill
        self.name, self.groups = machine.accelerator.name, groups(stack)
        self.costs = engine_costs(network, machine, **stack, **limits, input_len=asked.prompt)
        # An iteration takes more tokens of prompts where some are kept, all but the last one at most.
        self.chunk, share = self.costs.chunk, max(1 - (stack["prefix_hit"] or 0.0), 1 / asked.prompt)
        self.costs = replace(self.costs, chunk=round(self.chunk / share))
        options = tuple(stack.items())
        self.widths, self.tier = widths(network, machine, options), tier(network, machine, options)
        self.size = self.tp * stack["pp"] * self.groups
        self.each = self.size * (1 + prefill if asked.policy == SPLIT else 1)
        self.room = self.costs.kv_tokens / self.groups  # of the group that has a request
        if self.costs.held(asked.prompt + asked.answer) > self.room:
            most = max(self.costs.longest(self.room - self.costs.state), 0.0)
            raise Refused(REQUEST_TOO_LONG.filled(asked.prompt + asked.answer, most, 2 * self.tp))
        self.load = {
            "prompt": asked.prompt,
            "answer": asked.answer,
            "prompt_spread": asked.prompt_spread,
            "answer_spread": asked.answer_spread,
            "window": self.costs.window,
            "windowed": self.costs.windowed,
        }
        self.context, self.attended, _ = held_tokens(**self.load).tolist()
        self.fitting = self.costs.kv_tokens / (self.context + self.costs.state)
        self.slots = max(min(self.costs.max_sequences, self.fitting), 1.0)
        self.costs = replace(self.costs, transfer=self._transfer())
        free = replace(asked, rate=0.0, clients=0.0, think=0.0, ttft=math.inf, tpot=math.inf, kept=0.0)
        self.solved = _solved(network, machine, options, tuple(limits.items()), prefill, free)
        self._idle_limits()

    def _transfer(self) -> float:
        """Seconds to send keys and values of one token over the network of an engine's devices."""
        if self.asked.policy != SPLIT:
            return 0.0
        room = figure("memory-served") * self.machine.accelerator.memory_bytes * self.size
        per_token = room / self.costs.kv_tokens  # at most: weights are in that room, too
        link = self.machine.network if self.machine.network == self.machine.network else self.machine.link
        return float(per_token / (link * self.size / self.groups)) if link and link > 0 else 0.0

    def _idle_limits(self) -> None:
        """Refuse limits that not even an idle engine keeps."""
        asked, tokens = self.asked, self.asked.prompt
        best = {
            "ttft": float(self.costs.prefill(tokens, self.costs.kept(tokens / 2, tokens))),
            "tpot": float(self.costs.decode(1.0, self.context)),
        }
        for name, least in best.items():
            if getattr(asked, name) < least:
                self._too_tight(name, least)

    def _too_tight(self, name: str, least: float, who: str = "") -> None:
        reason = (
            f"{name} = {getattr(self.asked, name):.3g} s: an idle engine of {self.size} × {self.name} needs "
            f"{least:.3g} s{who}; give {name} above that, a larger tp or a faster accelerator"
        )
        raise Refused(Refusal(reason, field=name))

    def gained(self, network: Workload, stack: dict[str, Any], limits: dict[str, Any]) -> dict[str, None]:
        """What two batches in turn change, in words."""
        free = replace(self.asked, ttft=math.inf, tpot=math.inf)
        plain = Replicas(network, self.machine, stack, {**limits, "two_batches": False}, self.prefill, free)
        return {f"two batches in turn hide what is sent: {self.capacity / plain.capacity:.2f}× the capacity": None}

    @cached_property
    def prompt_seconds(self) -> float:
        """Work on one prompt, where passes are full."""
        asked, costs = self.asked, self.costs
        many = costs.chunk if asked.policy == CHUNKED else max(costs.chunk / asked.prompt, 1.0) * asked.prompt
        full = float(costs.prefill(many, self.attended))
        shared = float(costs.decode(1.0, 0.0)) if asked.policy == CHUNKED else 0.0
        return max(full - shared, 0.05 * full) * asked.prompt / many

    @cached_property
    def capacity(self) -> float:
        """Requests per second of one engine (disaggregated: with those for its prompts) that is never idle."""
        count, batch = max(self.asked.answer - 1, 1e-9), self.slots
        if self.asked.policy == CHUNKED:  # no more are decoded than prompts that pass in so many iterations
            batch = min(batch, max(count * self.costs.chunk / self.asked.prompt, 1.0))
        steps = count * float(self.costs.decode(batch, self.context)) / batch
        if self.asked.policy == SPLIT:
            return min(1 / steps, self.prefill / self.prompt_seconds)
        most = 1 / (self.prompt_seconds + steps)
        if self.asked.policy == FIRST and self.groups > 1:  # all groups wait for the prompt of one; then none decodes
            most = min(most, 1 / float(self.costs.prefill(self.asked.prompt, self.asked.prompt / 2)))
        return most

    def engines_of(self, devices: int) -> int:
        """Engines of a number of devices."""
        if devices % self.each or devices < self.each:
            raise refused("devices", devices, f"is no multiple of the {self.each} devices of an engine; give one")
        return devices // self.each

    def refuse(self, engines: int) -> None:
        """Refuse a load above what so many engines can serve."""
        if self.asked.rate / engines >= self.capacity:
            least = math.ceil(self.asked.rate / self.capacity + NEAR)
            reason = (
                f"rate = {self.asked.rate:.3g} requests/s is above the capacity of {engines * self.each:,} devices, "
                f"{engines * self.capacity:.3g} requests/s: the queue grows without end; take "
                f"{least * self.each:,} devices or more, or shorter requests"
            )
            raise Overload(Refusal(reason, field="rate"))

    def solve(self, engines: float) -> dict[str, Any]:
        """Return the steady state of one engine of this number."""
        return self._solve(self.asked.share(engines))

    def _solve(self, asked: Asked) -> dict[str, Any]:
        """Return the steady state of one engine under a load, solved once whatever the limits."""
        load = tuple(None if math.isnan(value) else value for value in (asked.rate, asked.clients, asked.think))
        if load not in self.solved:
            if len(self.solved) >= MAX_SOLVED:
                self.solved.clear()
            self.solved[load] = self._steady(asked)
        return self.solved[load]

    def _steady(self, asked: Asked) -> dict[str, Any]:
        if asked.rate != asked.rate and (asked.think or asked.policy == SPLIT):
            return self._closed_loop(asked)
        if asked.clients < 1:  # the one client of an engine shares its time with others
            alone = self._solve(replace(asked, clients=1.0))
            return alone | {name: asked.clients * alone[name] for name in ("rate", "batch", "busy")}
        load = {
            **self.load,
            "kv_tokens": self.costs.kv_tokens,
            "max_sequences": self.costs.max_sequences,
            "chunk": self.costs.chunk,
            "burstiness": asked.burstiness,
            "state": self.costs.state,
        }
        if asked.policy != SPLIT:
            return service_latencies(
                self.costs.decode,
                self.costs.prefill,
                rate=asked.rate,
                clients=asked.clients,
                prefill_first=asked.policy == FIRST,
                **load,
            )
        return self._split(asked, load)

    def _closed_loop(self, asked: Asked) -> dict[str, Any]:
        """The state in which clients ask as often as they are answered: rate x (think + answer) = clients.

        The interactive response time law, solved for the rate by regula falsi (Illinois). Clients whom even a full
        engine keeps waiting are those of a closed loop: all that do not think.
        """
        think, full = asked.think, FULL * self.capacity
        high = min(full, asked.clients / think) if think else full
        low, below, above = 0.0, 1.0, self.shortest / think if high < full else 1.0
        for _ in range(20):
            rate = low + (high - low) * min(max(below / (below + above), 0.05), 0.99)
            found = self._solve(replace(asked, rate=rate, clients=math.nan, think=0.0))
            more = 1 - rate * (think + found["e2e"]) / asked.clients
            low, below, high, above = (rate, more, high, above / 2) if more > 0 else (low, below / 2, rate, -more)
            near = CLOSE * found["e2e"] / (think + found["e2e"])  # requests in service are what thinking leaves
            if abs(more) < near or high - low < near * high:
                break
        if high < full or more <= CLOSE:
            return self._hurried(asked, found)
        if asked.policy == SPLIT:  # the others wait for their first token, as long as Little's law says
            wait = asked.clients / rate - think - found["e2e"]
            late = {
                f"{name}{end}": found[f"{name}{end}"] + wait
                for name in ("ttft", "e2e")
                for end in ("", "_p50", "_p95", "_p99")
            }
            return found | late | {"stable": False}
        for _ in range(3):  # the rate of a full engine hardly depends on how many wait
            waiting = max(asked.clients - rate * think, 1.0)
            found = self._solve(replace(asked, clients=waiting, think=0.0))
            rate = found["rate"]
        return found | {"stable": False}

    def _hurried(self, asked: Asked, found: dict[str, Any]) -> dict[str, Any]:
        """Return the state of clients who think, which for a pause near 0 is that of requests at once.

        Those who ask at once are in the next iteration; those who think come at any time within one, and wait for its
        end. What counts between both is the share of exponential pauses of this mean that outlast a first token.
        """
        paused = 1.0 if asked.policy == SPLIT else 1 - math.exp(-asked.think / found["ttft_p50"])
        if paused > 1 - CLOSE:
            return found
        at_once = self._solve(replace(asked, think=0.0))
        between = {name: (1 - paused) * at_once[name] + paused * value for name, value in found.items()}
        return between | {"stable": found["stable"]}

    @cached_property
    def shortest(self) -> float:
        """Time of an answer on an idle engine [s]."""
        asked, costs = self.asked, self.costs
        first = float(costs.prefill(asked.prompt, costs.kept(asked.prompt / 2, asked.prompt)))
        return first + max(asked.answer - 1, 0.0) * float(costs.decode(1.0, self.context))

    def _split(self, asked: Asked, load: dict[str, Any]) -> dict[str, Any]:
        """Prompts on engines of their own, then the way of keys and values, then engines that decode."""
        first = service_latencies(
            self.costs.decode,
            self.costs.prefill,
            rate=asked.rate / self.prefill,
            prefill_first=True,
            **{**load, "answer": 1.0, "answer_spread": 0.0},
        )
        then = service_latencies(
            self.costs.decode,
            lambda tokens, seen: 0.0 * np.asarray(tokens),
            rate=asked.rate,
            prefill_first=True,
            **load,
        )
        wait = self.costs.transfer * float(self.costs.held(asked.prompt))
        found = {**then, "busy": (then["busy"] + self.prefill * first["busy"]) / (1 + self.prefill)}
        for each in ("", "_p50", "_p95", "_p99"):
            found[f"ttft{each}"] = first[f"ttft{each}"]
            found[f"tpot{each}"] = then[f"tpot{each}"] + wait / max(asked.answer - 1, 1.0)
            found[f"e2e{each}"] = then[f"e2e{each}"] + first[f"ttft{each}"] + wait
        return found

    def meets(self, found: dict[str, Any]) -> bool:
        """Whether enough requests keep both limits; where there are none, whether the engines keep up."""
        if self.unlimited and not found.get("stable", True):
            return False
        return all(self.within(found, name) >= self.asked.kept for name in ("ttft", "tpot"))

    @property
    def unlimited(self) -> bool:
        """Whether no latency is promised."""
        return math.isinf(self.asked.ttft) and math.isinf(self.asked.tpot)

    def within(self, found: dict[str, Any], name: str) -> float:
        """Share of requests that keep one limit, between the percentiles on a logarithmic scale."""
        limit, (scale, shares) = getattr(self.asked, name), self._scale(found, name)
        return 1.0 if math.isinf(limit) else float(np.interp(math.log(limit), scale, shares))

    def needs(self, found: dict[str, Any], name: str) -> float:
        """The limit that enough requests just keep, to two digits [s]."""
        scale, shares = self._scale(found, name)
        least = math.exp(np.interp(self.asked.kept, shares, scale))
        digit = 10 ** (math.floor(math.log10(least)) - 1)
        return float(f"{math.ceil(least / digit + 1e-6) * digit:.2g}")

    def _scale(self, found: dict[str, Any], name: str) -> tuple[list[float], list[float]]:
        ends = np.array([found[f"{name}_p{each}"] for each in (50, 95, 99)])
        scale = np.log(np.maximum.accumulate(np.maximum(ends, 1e-12)) + np.array([0, 1e-12, 2e-12]))
        low, high = 2 * scale[0] - scale[1], 2 * scale[2] - scale[1]
        return [low, *scale, high], [0.05, 0.5, 0.95, 0.99, 1.0]

    def fewest(self, found: list[tuple[int, Replicas]]) -> int:
        """Fewest engines that serve the load within the limits; refused where others found need no more devices."""
        closed = self.asked.rate != self.asked.rate and not self.asked.think
        high = least = 1 if closed else self.fewest_by_load
        best, gap = min((number * other.each for number, other in found), default=math.inf), 1
        self._beats(least, best)
        while high <= MOST_ENGINES and not self.meets(self.solve(high)):
            if gap == 1:
                self._alone_limits()
            least, high, gap = high + 1, high + gap, 2 * gap
            self._beats(least, best)
        if high > MOST_ENGINES:
            raise ValueError(
                f"ttft and tpot: more than {MOST_ENGINES:,} engines of {self.size} × {self.name} would be "
                f"needed; {self.relaxed()}, or take a larger tp"
            )
        while least < high:
            middle = (least + high) // 2
            least, high = (least, middle) if self.meets(self.solve(middle)) else (middle + 1, high)
            self._beats(least, best)
        return high

    def _beats(self, least: int, best: float) -> None:
        """Refuse at once where so many engines take no fewer devices than others that were found."""
        if least * self.each >= best:
            raise refused("tp", self.tp, "needs no fewer devices than fewer shards do")

    @cached_property
    def fewest_by_load(self) -> int:
        """Fewest engines that serve the load, however late; of clients, those that hold all of them at once."""
        asked = self.asked
        if asked.think:  # all that ask while engines are nearly full
            rate = FULL * self.capacity
            nearly = self._solve(replace(asked, rate=rate, clients=math.nan, think=0.0))
            return max(math.ceil(asked.clients / rate / (asked.think + nearly["e2e"])), 1)
        return math.ceil(asked.clients / self.slots if asked.rate != asked.rate else asked.rate / self.capacity + NEAR)

    def relaxed(self) -> str:
        """The limits that little more than the engines which throughput takes would keep."""
        number = math.ceil(ROOMY * self.fewest_by_load)
        found = self.solve(number)
        limits = [
            f"{name} = {self.needs(found, name):g} s"
            for name in ("ttft", "tpot")
            if self.within(found, name) < self.asked.kept
        ]
        return f"{' with '.join(limits) or 'looser ones'} would need {number * self.each:,} devices"

    def costly(self, engines: int) -> str:
        """What a looser limit would save, where limits take several times the engines that throughput does."""
        if engines <= MUCH * self.fewest_by_load:
            return ""
        times = engines / self.fewest_by_load
        return f"the limits take {times:.2g}× the devices that the throughput needs; {self.relaxed()}"

    def _alone_limits(self) -> None:
        """Refuse limits that requests of their lengths do not keep even where none waits for another."""
        count = self.asked.clients if self.asked.rate != self.asked.rate else 1e3 * self.asked.rate / self.capacity
        found = self.solve(max(count, 1.0))
        for name in ("ttft", "tpot"):
            if self.within(found, name) < self.asked.kept:
                self._too_tight(name, self.needs(found, name), f" for {units.percent(self.asked.kept)} of the requests")

    def row(self, engines: int, price: Price, simulated: bool, seed: int) -> dict[str, Any]:
        """One row of the table."""
        found = self.simulate(engines, seed) if simulated else self.solve(engines)
        asked, devices = self.asked, engines * self.each
        rate = found["rate"] * engines
        kept = min(self.within(found, "ttft"), self.within(found, "tpot"))
        batch = max(found["batch"], 1.0)
        steps = max(asked.answer - 1, 0.0) * float(self.costs.decode(batch, self.context)) / batch
        share = self.prompt_seconds / (self.prompt_seconds + steps)
        usd = {end: getattr(price, end) * devices for end in ("low", "median", "high")}
        power = machine_power(self.machine.accelerator, devices)
        busy = min(found["busy"], 1.0)
        watts = {
            end: power_watts(getattr(power.rated, end), busy, getattr(power.idle, end), getattr(power.full, end))
            for end in usd
        }
        row = {
            "devices": devices,
            "tp": self.tp,
            "engines": engines,
            "requests_per_second": rate,
            "in_service": rate * found["e2e"] if asked.rate == asked.rate else asked.clients - rate * asked.think,
            "output_tokens_per_second": rate * asked.answer,
            "goodput": rate * kept,
            "capacity": max(engines * self.capacity, rate),
            "usd_per_hour": usd["median"],
            "kv_share": min(found["batch"] * (self.context + self.costs.state) / self.costs.kv_tokens, 1.0),
            "meets": self.meets(found),
            "tier": self.tier,
            "binds": self.binds(found),
            "why": "",
        }
        row |= {name: found[name] for name in COLUMNS if name in found}
        for end, tail in (("median", ""), ("low", "_low"), ("high", "_high")):
            second = usd[end] / HOUR / rate * MILLION
            row[f"usd_per_million_input{tail}"] = second * share / asked.prompt
            row[f"usd_per_million_output{tail}"] = second * (1 - share) / asked.answer
            row[f"joule_per_token{tail}"] = watts[end] / rate / asked.answer
        return row | self.ends(row)

    def ends(self, row: dict[str, Any]) -> dict[str, float]:
        """80 % intervals by measured delays and rates of services; clients ask less often where they wait longer."""
        (alone, loaded, other), rate, asked = self.widths, row["requests_per_second"], self.asked
        first = loaded if row["batch"] > 1 else alone
        low, high = min(1.0, row["capacity"] / other / rate), 1.0
        if asked.rate != asked.rate:
            answer = asked.clients / rate - asked.think
            low = min(low, asked.clients / (asked.think + answer * other) / rate)
            high = asked.clients / (asked.think + answer / other) / rate
        pairs = {
            "ttft_p50": (1 / first, first),
            "tpot_p50": (1 / other, other),
            "output_tokens_per_second": (low, high),
            **{f"usd_per_million_{each}": (1 / high, 1 / low) for each in ("input", "output")},
        }
        return {
            f"{name}_{end}80": row[name] * each
            for name, pair in pairs.items()
            for end, each in zip(("low", "high"), pair, strict=True)
        }

    def simulate(self, engines: int, seed: int) -> dict[str, Any]:
        """The same as `solve` from single requests."""
        asked, trace = self.asked, self.asked.trace
        count = len(next(iter(trace.values()))) if trace else int(figure("service-simulated-requests"))
        most = self.costs.longest(max(self.room // 3, 1.0))
        if asked.rate == asked.rate:
            load = {"arrival": trace.get("arrival", arrivals(asked.rate, count, asked.burstiness, seed))}
        else:
            pauses = np.random.default_rng(seed + 3).exponential(asked.think, count) if asked.think else None
            load = {"concurrency": max(round(asked.clients), 1), "think": pauses}
        drawn = [
            trace.get(name, lengths(mean, count, spread, seed + at, most))
            for name, mean, spread, at in (
                ("input_len", asked.prompt, asked.prompt_spread, 1),
                ("output_len", asked.answer, asked.answer_spread, 2),
            )
        ]
        served = simulate(
            self.costs, *drawn, policy=asked.policy, engines=engines, prefill_engines=engines * self.prefill, **load
        )
        return {**served.figures, "rate": served.rate / engines}

    def binds(self, found: dict[str, Any]) -> str:
        """What keeps the service from more: limits, or what an engine that is full does most of its time."""
        if not self.meets(found):
            if self.unlimited:
                return "capacity: users wait for each other"
            worst = min(("ttft", "tpot"), key=lambda name: self.within(found, name))
            return f"SLO ({worst.upper()})"
        steps = max(self.asked.answer - 1, 0.0) / self.slots
        floor, flat = float(self.costs.decode(1.0, 0.0)), float(self.costs.decode(self.slots, 0.0))
        by_memory, states = self.fitting < self.costs.max_sequences, self.costs.state_seconds * (self.slots - 1)
        spent = {
            "compute (prompts)": self.prompt_seconds,
            "KV memory" if by_memory else "sequences of an iteration": floor * steps,
            "memory bandwidth (keys and values)": (float(self.costs.decode(self.slots, self.context)) - flat) * steps,
            "compute (answers)": (flat - floor - states) * steps,
            "memory bandwidth (states)": states * steps,
        }
        return max(spent, key=lambda name: spent[name])
