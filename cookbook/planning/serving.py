"""Serving a language model: latency, throughput and cost under load, and the fewest devices that keep what is promised.

Iterations of an engine take what `cookbook.generate` estimates; how requests share them is solved for a steady state
(`cookbook.performance.serving`) or simulated request by request (`cookbook.planning.simulation`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, hardware, units
from cookbook.catalog.prices import per_hour
from cookbook.catalog.printed import Printed, card
from cookbook.performance.serving import held_tokens, service_latencies
from cookbook.planning.cost import Price, device_usd, machine_power, power_watts
from cookbook.planning.engines import (
    SHARDS,
    Asked,
    arrivals,
    asked_of,
    engine_costs,
    granted,
    groups,
    lengths,
    tier,
    widths,
)
from cookbook.planning.simulation import CHUNKED, FIRST, SPLIT, simulate
from cookbook.prediction.asked import flag, listed, quantity, whole
from cookbook.prediction.constants import figure
from cookbook.prediction.doors import network_of
from cookbook.prediction.terms.transformer import answers_tokens
from cookbook.workloads.zoo import Workload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Asked", "Service", "serve"]
MILLION, HOUR, NEAR, MOST_ENGINES = 1e6, units.si("1 h"), 0.02, 4096
# More than so many times the devices that throughput takes, and limits cost much; so many times those, and they keep a
# looser limit.
MUCH, ROOMY, CLOSE = 3, 1.25, 1e-3
# Share of the capacity up to which clients are an open load; beyond, they wait for each other.
FULL = 0.98


@dataclass(frozen=True, eq=False, repr=False)
class Service(Printed):
    """A service on one or several numbers of devices and kinds of them; read-only.

    Attributes
    ----------
    title : str
        The model and the load.
    rows : tuple of dict
        One a stack, as `table` holds them.
    table : pandas.DataFrame
        One row a stack: accelerator, devices, tp, pp, ep, engines (copies of the weights); requests_per_second;
        in_service, requests that wait or are being answered, on average; output_tokens_per_second; ttft, tpot and e2e
        as _p50, _p95 and _p99 [s]; goodput, requests per second that keep both limits; busy, batch, kv_share; capacity
        [requests/s]; usd_per_hour, usd_per_million_input and usd_per_million_output with _low and _high of the price;
        joule_per_token of answers with _low and _high of the power; binds, what limits it; costly, what a looser limit
        would save where limits take several times the devices that throughput does; meets, whether the limits are kept;
        tier, how well measurements cover the engine; why, where there is none. ttft_p50, tpot_p50,
        output_tokens_per_second and both usd_per_million also with _low80 and _high80, 80 % intervals from measured
        services; how queues change with speed is not in them. A copy each time.
    asked : Asked
    price : dict of str to Price
        An hour of one device, by accelerator [USD/h].
    assumed : tuple of str
        What was not given, and what was taken.
    """

    title: str
    rows: tuple[dict[str, Any], ...] = field(repr=False)
    asked: Asked = field(repr=False)
    price: dict[str, Price] = field(repr=False)
    model: str
    assumed: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row a stack."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(COLUMNS))

    def frame(self) -> pd.DataFrame:
        """The table."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Title, what was assumed, and the rows."""
        return {"title": self.title, "assumed": list(self.assumed), "stacks": self.table.to_dict("records")}

    @cached_property
    def best(self) -> dict[str, Any] | None:
        """The cheapest stack that keeps the limits, without prices that of the fewest devices; None if none does."""
        rows = [row for row in self.rows if row["meets"]]
        priced = [row for row in rows if row["usd_per_hour"] == row["usd_per_hour"]]
        by = "usd_per_hour" if priced else "devices"
        return dict(min(priced or rows, key=lambda row: row[by])) if rows else None

    def summary(self) -> str:
        """The cheapest stack that keeps the limits, and what it does."""
        row = self.best
        if row is None:
            return f"{self.title}: none of {len(self.rows)} stacks keeps the limits"
        usd = f", {units.dollars(row['usd_per_hour'])}/h" if row["usd_per_hour"] == row["usd_per_hour"] else ""
        return (f"{self.title}: {row['devices']:,} × {row['accelerator']}{usd}, TTFT p95 "
                f"{units.human(row['ttft_p95'], 's')}, TPOT p95 {units.human(row['tpot_p95'], 's')}, limit: "
                f"{row['binds']}{row['costly'] and '; '}{row['costly']}")  # fmt: skip

    def _repr_html_(self) -> str:
        rows = []
        for row in self.rows:
            told = {"Stack": f"{row['devices']:,} × {row['accelerator']}, TP {row['tp']}"
                             + (f", EP {row['ep']}" if row["ep"] > 1 else "")}  # fmt: skip
            if row["why"]:
                rows.append({**told, "Limit": row["why"]})
                continue
            usd = row["usd_per_million_output"]
            rows.append({
                **told, "Requests/s": f"{row['requests_per_second']:.3g}",
                **{f"{name.upper()} p50 / p95 / p99": " / ".join(units.human(row[f"{name}_p{each}"], "s") for each in
                                                               (50, 95, 99)) for name in ("ttft", "tpot", "e2e")},
                "Busy": units.percent(row['busy']), "$ per M output": units.dollars(usd),
                "J/token": f"{row['joule_per_token']:.3g}", "Limit": row["binds"],
                "Limits kept": "yes" if row["meets"] else "no",
            })  # fmt: skip
        import pandas as pd

        return card(self.summary(), pd.DataFrame(rows).fillna(""), [f"Assumed: {'; '.join(self.assumed)}."])

    def against_apis(self) -> pd.DataFrame:
        """The best stack against list prices of APIs: cost of a request, and the rate from which owning is cheaper.

        Returns
        -------
        pandas.DataFrame
            provider, model, date, usd_per_request of the API and of the stack at its load, break_even: requests per
            second at which an hour of the stack costs as much as its requests there; reachable, whether the stack can
            serve so many; cheaper ("api" or "own") at this load. No rows where the table has no price of the model.

        Raises
        ------
        ValueError
            No stack keeps the limits, or none has a price.
        """
        rows, row = catalog.table("api_prices"), self.best
        if row is None or not row["usd_per_hour"] == row["usd_per_hour"]:
            raise ValueError("no stack with a price keeps the limits; loosen ttft or tpot, or give hourly")
        rows = rows[rows["model"] == self.model]
        each = (rows["usd_input"] * self.asked.prompt + rows["usd_output"] * self.asked.answer) / MILLION
        own, needed = row["usd_per_hour"] / HOUR / row["requests_per_second"], row["usd_per_hour"] / HOUR / each
        found = rows[["provider", "model", "date"]].assign(
            usd_per_request=each, own_usd_per_request=own, break_even=needed, reachable=needed <= row["capacity"],
            cheaper=np.where(each < own, "api", "own"), how=rows["how"], source=rows["source"])  # fmt: skip
        return found.reset_index(drop=True)


def serve(
    model: str | Workload, accelerator: Any, *, rate: Any = None, users: Any = None, concurrency: Any = None,
    arrival: Any = None, think: float | str | None = None, input_len: Any = 512, output_len: Any = 256,
    input_spread: float = 0.5, output_spread: float = 0.5, burstiness: float = 1.0, ttft: float | str | None = None,
    tpot: float | str | None = None, kept: float = 0.95, policy: str = CHUNKED, devices: Any = None,
    tp: int | None = None, pp: int = 1, ep: int | None = None, prefill_engines: int = 1, precision: Any = None,
    weights_format: Any = None, kv_format: Any = None, software: Any = None, max_sequences: int | None = None,
    chunk: int | None = None, context: int | None = None, hourly: float | None = None, way: str = "on demand",
    since: int | None = None, simulated: bool = False, seed: int = 0, acceptance: float | None = None,
    drafted: int | None = None, prefix_hit: float | None = None, two_batches: bool = False,
) -> Service:  # fmt: skip
    """Latency, throughput and cost of a service under load; without `devices`, the fewest that keep the limits.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo, or one with changed arguments.
    accelerator : str, Accelerator or Machine, or a list of them
        Each gives rows of its own.
    rate : float
        Requests that arrive per second; or else give one of the next three.
    users : float
        People who ask again some time after they have their answer. They ask at the rate of the interactive response
        time law, users / (think + time of the answer), so no more requests are in service than there are users.
    concurrency : float
        Requests that are always there: each client asks again at once.
    arrival : array_like
        When each request of a trace comes, in order, in all [s]; rate and burstiness are taken from it.
    think : float or str, optional
        Time of a user between an answer and the next request [s]; that of the table ``constants`` by default.
    input_len, output_len : float or array_like
        Mean tokens of prompts and answers; or those of each request of a trace, two lists of one length, of which means
        and spreads are taken, and which `simulated` serves as they are.
    input_spread, output_spread : float
        Standard deviations of both over their means, log-normal; 0 for one length.
    burstiness : float
        Variance of the gaps between arrivals over their squared mean; 1 for a Poisson process.
    ttft, tpot : float or str, optional
        Limits (SLO): most time to the first token and for each further one [s].
    kept : float
        Share of the requests that must keep each limit.
    policy : str
        "chunked prefill", "prefill first" or "disaggregated".
    devices : int or list of int, optional
        In all; the fewest that keep the limits by default.
    tp, pp : int, optional
        Shards of each layer and stages of one engine; the fewest shards that hold the weights by default.
    ep : int, optional
        Devices that the experts of a mixture are spread over; where they are more than tp, groups of tp devices attend
        to requests of their own (attention data parallel), and one engine has ep x pp devices. Groups take as many
        requests each.
    prefill_engines : int
        Disaggregated: engines for prompts, for each that decodes.
    precision, weights_format, kv_format, software
        As for `cookbook.generate`.
    max_sequences, chunk : int, optional
        Most sequences and most tokens of one iteration, of each group where `ep` makes several; those of the software
        by default.
    context : int, optional
        Most tokens of a prompt with its answer that the model takes; by default as many as it has learned positions
        for, and of models without such any number.
    hourly : float, optional
        An hour of one device [USD/h]; from dated prices, with `way` and `since` as for `planning.hourly_usd`.
    way, since
        See `hourly`.
    simulated : bool
        Whether 20,000 requests, or those of the trace, are simulated one by one instead of solving for the steady
        state.
    seed : int
        Of a simulation.
    acceptance, drafted, prefix_hit
        As for `cookbook.generate`: speculative decoding, and prompts that are partly kept from earlier requests.
    two_batches : bool
        With `ep` above tp: each group works on two halves of its requests in turn, of which one computes while the
        tokens of the other are on the network. All that is sent is hidden as far as there is work; weights are read
        and kernels started for both. This is a bound that no measurement here was fitted to; what it changes is told
        in `assumed`.

    Returns
    -------
    Service

    Raises
    ------
    cookbook.catalog.UnknownName
        A model, device, format or software that the catalogue does not have.
    ValueError
        Limits that not even an idle engine keeps, a load above what the devices can serve, weights that do not fit,
        a context that the model does not take, or an argument that cannot be. Among several stacks, in `why`.

    Examples
    --------
    >>> chat = serve("llama3_8b", "h100-sxm", rate=2, input_len=512, output_len=128, devices=1)
    >>> row = chat.table.iloc[0]
    >>> bool(0 < row["ttft_p50"] < row["ttft_p95"] < row["ttft_p99"]), bool(row["meets"])
    (True, True)

    Lengths of one's own requests, simulated as they are:

    >>> own = {"input_len": [100, 900, 400, 2000] * 50, "output_len": [200, 10, 150, 60] * 50, "simulated": True}
    >>> bool(serve("llama3_8b", "h100-sxm", rate=2, devices=1, **own).best["meets"])
    True
    """
    asked, assumed = asked_of(locals())
    network = network_of(model)
    if not answers_tokens(network):
        raise ValueError(f"model = {network.title!r} is no language model; cb.forward_pass answers for it")
    assumed |= _context(network, asked, context)
    stack = {"pp": whole("pp", pp, 64), "ep": None if ep is None else whole("ep", ep, 1024), "precision": precision,
             "weights_format": weights_format, "kv_format": kv_format, "software": software, "acceptance": acceptance,
             "drafted": drafted, "prefix_hit": prefix_hit}  # fmt: skip
    limits = {"max_sequences": max_sequences, "chunk": chunk, "two_batches": flag("two_batches", two_batches)}
    seed = int(quantity("seed", seed, "", "0", 0, 1e9))
    shares, simulated = whole("prefill_engines", prefill_engines, 64), flag("simulated", simulated)
    counts = [None] if devices is None else [whole("devices", each) for each in listed("devices", devices)]
    kinds = listed("accelerator", accelerator)
    rows, prices = list[dict[str, Any]](), dict[str, Price]()
    for kind in kinds:
        machine = hardware.machine(kind)
        name = machine.accelerator.key
        given = None if hourly is None else quantity("hourly", per_hour("hourly", hourly), "", "$2.50/h", 0)
        prices[name] = device_usd(machine.accelerator, way, since) if given is None else Price(
            given, given, given, "USD/h", note="given")  # fmt: skip
        for count in counts:
            row: dict[str, Any] = {"accelerator": name, "devices": count or 0,
                                   "tp": tp if isinstance(tp, int) else 0, "pp": stack["pp"], "ep": stack["ep"] or 1,
                                   "why": "", "costly": "", "meets": False}  # fmt: skip
            found, reasons = list[tuple[int, _Engines]](), list[ValueError]()
            for each in _shards(machine, tp, stack, count):
                try:
                    one = _Engines(network, machine, {**stack, "tp": each}, limits, shares, asked)
                    number = one.fewest(found) if count is None else one.engines_of(count)
                    one.refuse(number)
                    found.append((number, one))
                except ValueError as problem:
                    reasons.append(problem)
                if found and count is not None:
                    break  # the fewest shards that hold the weights
            if found:
                number, one = min(found, key=lambda pair: pair[0] * pair[1].each)
                row |= {"tp": one.tp} | one.row(number, prices[name], simulated, seed)
                row["costly"] = one.costly(number) if count is None else ""
                taken = {"max_sequences": one.costs.max_sequences // one.groups, "chunk": one.chunk // one.groups}
                assumed |= granted(one.costs, drafted)
                assumed |= one.gained(network, {**stack, "tp": one.tp}, limits) if two_batches else {}
                assumed |= {f"{each} = {value:,}": None for each, value in taken.items() if limits[each] is None}
            else:  # what is too slow for the load says more than what is too small for the weights
                heavy = [each for each in reasons if isinstance(each, _Overload)]
                reason = (heavy or reasons)[-1 if count is None else 0]
                if len(kinds) * len(counts) == 1:
                    raise ValueError(str(reason))
                row["why"] = str(reason)
            rows.append(row)
    load = f"{asked.rate:.3g} requests/s"
    if asked.rate != asked.rate:
        load = f"{asked.clients:,.0f} {'users' if asked.think else 'requests at once'}"
    return Service(f"{network.title}, {load}", tuple(rows), asked, prices, network.name, tuple(assumed))


COLUMNS = (
    "accelerator", "devices", "tp", "pp", "ep", "engines", "requests_per_second", "in_service",
    "output_tokens_per_second",
    *(f"{name}_p{each}" for name in ("ttft", "tpot", "e2e") for each in (50, 95, 99)), "goodput", "busy", "batch",
    "kv_share", "capacity", "usd_per_hour", "usd_per_million_input", "usd_per_million_input_low",
    "usd_per_million_input_high", "usd_per_million_output", "usd_per_million_output_low",
    "usd_per_million_output_high", "joule_per_token", "joule_per_token_low", "joule_per_token_high", "binds", "costly",
    "meets", "tier", "why",
    *(f"{name}_{end}80" for name in ("ttft_p50", "tpot_p50", "output_tokens_per_second", "usd_per_million_input",
                                     "usd_per_million_output") for end in ("low", "high")),
)  # fmt: skip


def _context(network: Workload, asked: Asked, context: int | None) -> dict[str, None]:
    """Refuse requests longer than the model takes; what is assumed where that is not known.

    Of rotary models the zoo knows the length of a sample of training; learned positions end.
    """
    most = float(network.arguments.get("positions") or math.inf)
    most = most if context is None else whole("context", context, 1 << 27)
    beyond = asked.prompt + asked.answer
    if "input_len" in asked.trace:
        beyond = max(beyond, float(np.max(asked.trace["input_len"] + asked.trace["output_len"])))
    if beyond > most:
        raise ValueError(f"input_len + output_len = {beyond:,.0f} tokens is more than "
                         f"{network.title} takes, {most:,.0f}; shorten them, or give context where a version takes "
                         "more")  # fmt: skip
    long = beyond > (network.seq or math.inf) and context is None
    return {f"the model takes {beyond:,.0f} tokens, more than the {network.seq:,.0f} of the table models": None} \
        if long else {}  # fmt: skip


def _shards(machine: Any, tp: int | None, stack: dict[str, Any], count: int | None) -> list[int]:
    """Shards of one engine to try: those given, or powers of two up to a node and the devices there are."""
    if tp is not None:
        return [whole("tp", tp, 1024)]
    most = max(machine.per_node, SHARDS[3]) if count is None else count // stack["pp"]
    ep = stack["ep"] or 1
    return [each for each in SHARDS if each <= max(most, 1) and max(each, ep) % min(each, ep) == 0]


class _Overload(ValueError):
    """More requests than so many engines serve."""


class _Engines:
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
            raise ValueError(f"a request of {asked.prompt + asked.answer:,.0f} tokens is more than the keys and values "
                             f"that fit, {most:,.0f} tokens; take tp = {2 * self.tp} or a smaller "
                             "kv_format")  # fmt: skip
        self.load = {"prompt": asked.prompt, "answer": asked.answer, "prompt_spread": asked.prompt_spread,
                     "answer_spread": asked.answer_spread, "window": self.costs.window,
                     "windowed": self.costs.windowed}  # fmt: skip
        self.context, self.attended, _ = held_tokens(**self.load).tolist()
        self.fitting = self.costs.kv_tokens / (self.context + self.costs.state)
        self.slots = max(min(self.costs.max_sequences, self.fitting), 1.0)
        self.costs, self.solved = replace(self.costs, transfer=self._transfer()), dict[float, dict[str, Any]]()
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
        best = {"ttft": float(self.costs.prefill(tokens, self.costs.kept(tokens / 2, tokens))),
                "tpot": float(self.costs.decode(1.0, self.context))}  # fmt: skip
        for name, least in best.items():
            if getattr(asked, name) < least:
                self._too_tight(name, least)

    def _too_tight(self, name: str, least: float, who: str = "") -> None:
        raise ValueError(
            f"{name} = {getattr(self.asked, name):.3g} s: an idle engine of {self.size} × {self.name} needs "
            f"{least:.3g} s{who}; give {name} above that, a larger tp or a faster accelerator")  # fmt: skip

    def gained(self, network: Workload, stack: dict[str, Any], limits: dict[str, Any]) -> dict[str, None]:
        """What two batches in turn change, in words."""
        free = replace(self.asked, ttft=math.inf, tpot=math.inf)
        plain = _Engines(network, self.machine, stack, {**limits, "two_batches": False}, self.prefill, free)
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
            raise ValueError(f"devices = {devices} does not hold engines of {self.each} devices each; give a multiple")
        return devices // self.each

    def refuse(self, engines: int) -> None:
        """Refuse a load above what so many engines can serve."""
        if self.asked.rate / engines >= self.capacity:
            least = math.ceil(self.asked.rate / self.capacity + NEAR)
            raise _Overload(
                f"rate = {self.asked.rate:.3g} requests/s is above the capacity of {engines * self.each:,} devices, "
                f"{engines * self.capacity:.3g} requests/s: the queue grows without end; take "
                f"{least * self.each:,} devices or more, or shorter requests")  # fmt: skip

    def solve(self, engines: float) -> dict[str, Any]:
        """The steady state of one of so many engines, solved once."""
        if engines not in self.solved:
            self.solved[engines] = self._solve(self.asked.share(engines))
        return self.solved[engines]

    def _solve(self, asked: Asked) -> dict[str, Any]:
        if asked.rate != asked.rate and (asked.think or asked.policy == SPLIT):
            return self._closed_loop(asked)
        load = {**self.load, "kv_tokens": self.costs.kv_tokens, "max_sequences": self.costs.max_sequences,
                "chunk": self.costs.chunk, "burstiness": asked.burstiness, "state": self.costs.state}  # fmt: skip
        if asked.policy != SPLIT:
            return service_latencies(self.costs.decode, self.costs.prefill, rate=asked.rate, clients=asked.clients,
                                  prefill_first=asked.policy == FIRST, **load)  # fmt: skip
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
            if abs(more) < CLOSE or high - low < CLOSE * high:
                break
        if high < full or more <= CLOSE:
            return found
        if asked.policy == SPLIT:  # the others wait for their first token, as long as Little's law says
            wait = asked.clients / rate - think - found["e2e"]
            late = {f"{name}{end}": found[f"{name}{end}"] + wait
                    for name in ("ttft", "e2e") for end in ("", "_p50", "_p95", "_p99")}  # fmt: skip
            return found | late | {"stable": False}
        for _ in range(3):  # the rate of a full engine hardly depends on how many wait
            waiting = max(asked.clients - rate * think, 1.0)
            found = self._solve(replace(asked, clients=waiting, think=0.0))
            rate = found["rate"]
        return found | {"stable": False}

    @cached_property
    def shortest(self) -> float:
        """Time of an answer on an idle engine [s]."""
        asked, costs = self.asked, self.costs
        first = float(costs.prefill(asked.prompt, costs.kept(asked.prompt / 2, asked.prompt)))
        return first + max(asked.answer - 1, 0.0) * float(costs.decode(1.0, self.context))

    def _split(self, asked: Asked, load: dict[str, Any]) -> dict[str, Any]:
        """Prompts on engines of their own, then the way of keys and values, then engines that decode."""
        first = service_latencies(self.costs.decode, self.costs.prefill, rate=asked.rate / self.prefill,
                               prefill_first=True, **{**load, "answer": 1.0, "answer_spread": 0.0})  # fmt: skip
        then = service_latencies(self.costs.decode, lambda tokens, seen: 0.0 * np.asarray(tokens), rate=asked.rate,
                              prefill_first=True, **load)  # fmt: skip
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

    def fewest(self, found: list[tuple[int, _Engines]]) -> int:
        """Fewest engines that serve the load within the limits; refused where others found need no more devices."""
        closed = self.asked.rate != self.asked.rate and not self.asked.think
        high = least = 1 if closed else self.fewest_by_load
        if least * self.each >= min((number * other.each for number, other in found), default=math.inf):
            raise ValueError(f"tp = {self.tp} needs no fewer devices than fewer shards do")
        gap = 1
        while high <= MOST_ENGINES and not self.meets(self.solve(high)):
            if gap == 1:
                self._alone_limits()
            least, high, gap = high + 1, high + gap, 2 * gap
        if high > MOST_ENGINES:
            raise ValueError(f"ttft and tpot: more than {MOST_ENGINES:,} engines of {self.size} × {self.name} would be "
                             f"needed; {self.relaxed()}, or take a larger tp")  # fmt: skip
        while least < high:
            middle = (least + high) // 2
            least, high = (least, middle) if self.meets(self.solve(middle)) else (middle + 1, high)
        return high

    @property
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
        limits = [f"{name} = {self.needs(found, name):g} s" for name in ("ttft", "tpot")
                  if self.within(found, name) < self.asked.kept]  # fmt: skip
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
        watts = {end: power_watts(getattr(power.rated, end), busy, getattr(power.idle, end), getattr(power.full, end))
                 for end in usd}  # fmt: skip
        row = {"devices": devices, "tp": self.tp, "engines": engines, "requests_per_second": rate,
               "in_service": rate * found["e2e"] if asked.rate == asked.rate else asked.clients - rate * asked.think,
               "output_tokens_per_second": rate * asked.answer, "goodput": rate * kept,
               "capacity": max(engines * self.capacity, rate), "usd_per_hour": usd["median"],
               "kv_share": min(found["batch"] * (self.context + self.costs.state) / self.costs.kv_tokens, 1.0),
               "meets": self.meets(found), "tier": self.tier,
               "binds": self.binds(found), "why": ""}  # fmt: skip
        row |= {name: found[name] for name in COLUMNS if name in found}
        for end, tail in (("median", ""), ("low", "_low"), ("high", "_high")):
            second = usd[end] / HOUR / rate * MILLION
            row[f"usd_per_million_input{tail}"] = second * share / asked.prompt
            row[f"usd_per_million_output{tail}"] = second * (1 - share) / asked.answer
            row[f"joule_per_token{tail}"] = watts[end] / rate / asked.answer
        return row | self.ends(row)

    def ends(self, row: dict[str, Any]) -> dict[str, float]:
        """80 % intervals by measured delays and rates of services; clients ask less often where they wait longer."""
        (first, other), rate, asked = self.widths, row["requests_per_second"], self.asked
        low, high = min(1.0, row["capacity"] / other / rate), 1.0
        if asked.rate != asked.rate:
            answer = asked.clients / rate - asked.think
            low = min(low, asked.clients / (asked.think + answer * other) / rate)
            high = asked.clients / (asked.think + answer / other) / rate
        pairs = {"ttft_p50": (1 / first, first), "tpot_p50": (1 / other, other),
                 "output_tokens_per_second": (low, high),
                 **{f"usd_per_million_{each}": (1 / high, 1 / low) for each in ("input", "output")}}  # fmt: skip
        return {f"{name}_{end}80": row[name] * each for name, pair in pairs.items()
                for end, each in zip(("low", "high"), pair, strict=True)}  # fmt: skip

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
        drawn = [trace.get(name, lengths(mean, count, spread, seed + at, most)) for name, mean, spread, at in (
            ("input_len", asked.prompt, asked.prompt_spread, 1), ("output_len", asked.answer, asked.answer_spread, 2))]
        served = simulate(self.costs, *drawn, policy=asked.policy, engines=engines,
                          prefill_engines=engines * self.prefill, **load)  # fmt: skip
        return {**served.to_dict(), "rate": served.rate / engines}

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
        }  # fmt: skip
        return max(spent, key=lambda name: spent[name])
