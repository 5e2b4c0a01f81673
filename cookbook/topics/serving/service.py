"""Serving a language model: latency, throughput and cost under load, and the fewest devices that keep what is promised.

Iterations of an engine take what `cookbook.generate` estimates; how requests share them is solved for a steady state
(`cookbook.formulas.serving`) or simulated request by request (`cookbook.topics.serving.simulation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cookbook import catalog, hardware, units
from cookbook.catalog.commands import Launch, engines_for, launch, one_of
from cookbook.catalog.fields import MAX_TOKENS, Amount, Field, checked
from cookbook.catalog.prices import HOUR, SINCE_YEAR, USD_PER_HOUR, WAY, Price, hour_usd
from cookbook.catalog.refusals import Refused, refusal_of, refused
from cookbook.hardware import System, Systems
from cookbook.prediction.api import network_of
from cookbook.prediction.kinds.serving_memory import TOO_LONG
from cookbook.prediction.kinds.transformer import answers_tokens
from cookbook.prediction.measurements import Measurement, stated
from cookbook.result import Result, plain
from cookbook.topics.serving.engines import (
    BURSTINESS,
    ENGINE,
    SEED,
    SHARDS,
    SPREAD,
    Batching,
    EngineOptions,
    Limits,
    Load,
    LoadArguments,
    assumed_options,
    assumed_terms,
    costs_of,
    load_of,
)
from cookbook.topics.serving.replicas import COLUMNS, Overload, Replicas, load_settings
from cookbook.topics.serving.simulation import CHUNKED, PERCENTILES, POLICIES
from cookbook.workloads.zoo import Workload

__all__ = ["Limits", "Load", "Service", "serve"]
MILLION = 1e6


@dataclass(frozen=True, eq=False, repr=False)
class Service(Result):
    """A service on one or several numbers of devices and kinds of them; read-only.

    Attributes
    ----------
    title : str
        The model and the load.
    rows : tuple of dict
        One per stack, as in `table`.
    table : pandas.DataFrame
        One row per stack: accelerator, devices, tp, pp, ep, engines (copies of the weights); requests_per_second;
        in_service, requests that wait or are being answered, on average; output_tokens_per_second; ttft, tpot and e2e
        as _p50, _p95 and _p99 [s]; goodput, requests per second that keep both limits; busy, batch, kv_share; capacity
        [requests/s]; usd_per_hour, usd_per_million_input and usd_per_million_output with _low and _high of the price;
        joule_per_token of answers with _low and _high of the power; binds, what limits it; costly, what a looser limit
        would save where limits take several times the devices that throughput does; meets, whether the limits are kept;
        tier, how well measurements cover the engine; why, where there is none; devices_fast and devices_slow, the
        fewest devices of the same engines that keep the limits where every time is at that end of its interval, where
        the fewest are asked for and any number does. ttft_p50, tpot_p50, output_tokens_per_second and both
        usd_per_million also with _low80 and _high80, 80 % intervals from measured services, with the queues of an
        engine of that speed: without end where such an engine is overloaded. A copy each time.
    load : Load
        Requests: their rate or clients, lengths and spreads.
    limits : Limits
        Latencies that are promised, and the share of requests that must keep them.
    price : dict of str to Price
        One hour of one device, by accelerator [USD/h].
    model : str
        Name of the network.
    assumed : tuple of str
        Values that were assumed where none were given.
    settings : tuple of dict
        What each stack is started with, by the names of the table ``engine_flags``; empty where there is no stack.
    engines : tuple
        Software of each stack without its version, and a function that returns `measured` of it.
    """

    title: str
    rows: tuple[dict[str, Any], ...] = field(repr=False)
    load: Load = field(repr=False)
    limits: Limits = field(repr=False)
    price: dict[str, Price] = field(repr=False)
    model: str
    assumed: tuple[str, ...]
    settings: tuple[dict[str, Any], ...] = field(repr=False, default=())
    engines: tuple[tuple[str, Callable[[], tuple[Measurement, ...]]], ...] = field(repr=False, default=())

    @property
    def table(self) -> pd.DataFrame:
        """One row per stack."""
        return pd.DataFrame(list(self.rows), columns=list(COLUMNS))

    def frame(self) -> pd.DataFrame:
        """Return the table."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Return the title, the assumptions and the rows; None where a value is missing."""
        return plain({"title": self.title, "assumed": self.assumed, "stacks": self.table})

    @cached_property
    def best(self) -> dict[str, Any] | None:
        """The cheapest stack that keeps the limits, without prices that of the fewest devices; None if none does."""
        rows = [row for row in self.rows if row["meets"]]
        priced = [row for row in rows if not math.isnan(row["usd_per_hour"])]
        by = "usd_per_hour" if priced else "devices"
        return dict(min(priced or rows, key=lambda row: row[by])) if rows else None

    def launch(self, engine: str = "vllm", row: int | None = None) -> Launch:
        """Return the command line that starts a stack of the table, and the one that measures it.

        Parameters
        ----------
        engine : str
            "vllm", "sglang", "tensorrt-llm" or "llama.cpp".
        row : int, optional
            Row of the table; that of `best` by default, else the first that has a stack.

        Returns
        -------
        cookbook.catalog.commands.Launch

        Raises
        ------
        ValueError
            A row without a stack, or a stack that the engine cannot run: the quantity, the reason and the remedy.

        Examples
        --------
        >>> chat = serve("llama3_8b", "h100-sxm", rate=2, devices=2, tp=2)
        >>> chat.launch("vllm").command.split(" --")[:3]
        ['vllm serve meta-llama/Meta-Llama-3-8B', 'dtype float16', 'kv-cache-dtype auto']
        """
        number = one_of("row", row, self._able, "has no stack to start")
        return launch("serve", engine, self.settings[number], load_settings(self.load, self.limits, self.rows[number]))

    @property
    def _able(self) -> list[int]:
        """Return the rows that have a stack, that of `best` first."""
        able = [number for number, settings in enumerate(self.settings) if settings]
        return sorted(able, key=lambda number: self.rows[number] != self.best)

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """Measured runs of the stack that `launch` starts: as many requests at once, of the same mean lengths."""
        return next((self.engines[number][1]() for number in self._able), ())

    def facts(self) -> dict[str, str]:
        """Return measured runs, the estimate and the command that measures it of what `launch` starts; assumptions."""
        first = {}
        for number in self._able[:1]:
            engine, row = self.engines[number][0], self.rows[number]
            start = partial(self.launch, engine) if engine in engines_for("serve") else None
            first = stated(self.measured, _estimated(row, self.load.closed), start)
        return {**first, **super().facts()}

    def summary(self) -> str:
        """Return the cheapest stack that keeps the limits, with its price, latencies and limit, in one sentence."""
        row = self.best
        if row is None:
            return f"{self.title}: none of {len(self.rows)} stacks keeps the limits"
        usd = "" if math.isnan(row["usd_per_hour"]) else f", {units.dollars(row['usd_per_hour'])}/h"
        return (
            f"{self.title}: {row['devices']:,} × {row['accelerator']}{usd}, TTFT p95 "
            f"{units.human(row['ttft_p95'], 's')}, TPOT p95 {units.human(row['tpot_p95'], 's')}, "
            f"{'a full engine is limited by' if row['meets'] else 'missed:'} {row['binds']}"
            f"{row['costly'] and '; '}{row['costly']}"
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the stacks as printed, by title."""
        rows = []
        for row in self.rows:
            groups = f", EP {row['ep']}" if row["ep"] > 1 else ""
            stack = {"Stack": f"{row['devices']:,} × {row['accelerator']}, TP {row['tp']}{groups}"}
            rows.append({**stack, "Limit": row["why"]} if row["why"] else {**stack, **row_words(row)})
        return {"Stacks": pd.DataFrame(rows).fillna("")}

    def against_apis(self) -> pd.DataFrame:
        """Compare the best stack with list prices of APIs: cost per request, and the rate from which owning is cheaper.

        Returns
        -------
        pandas.DataFrame
            provider, model, date, usd_per_request of the API and of the stack at its load, with low and high ends by
            the quartiles of its price; break_even: requests per second at which an hour of the stack costs as much as
            its requests there; reachable, whether the stack can serve that rate; cheaper at this load: "api", "own", or
            "cannot tell" between the ends. No rows where the table has no price of the model.

        Raises
        ------
        ValueError
            No stack keeps the limits, or none has a price.
        """
        prices, row = catalog.table("api_prices"), self.best
        if row is None or math.isnan(row["usd_per_hour"]):
            raise ValueError("no stack with a price keeps the limits; loosen ttft or tpot, or give hourly")
        prices = prices[prices["model"] == self.model]
        api = (prices["usd_input"] * self.load.prompt + prices["usd_output"] * self.load.answer) / MILLION
        own, break_even = row["usd_per_hour"] / HOUR / row["requests_per_second"], row["usd_per_hour"] / HOUR / api
        price = self.price[row["accelerator"]]
        low, high = (own * end / price.median for end in (price.low, price.high))
        comparison = prices[["provider", "model", "date"]].assign(
            usd_per_request=api,
            own_usd_per_request=own,
            own_usd_per_request_low=low,
            own_usd_per_request_high=high,
            break_even=break_even,
            reachable=break_even <= row["capacity"],
            cheaper=np.select([api < low, api > high], ["api", "own"], "cannot tell"),
            how=prices["how"],
            source=prices["source"],
        )
        return comparison.reset_index(drop=True)


def _estimated(row: Mapping[str, Any], closed: bool) -> str:
    """Return throughput of requests at once, or latencies of requests that arrive, with their intervals."""

    def ends(name: str, write: Callable[[float], str], unit: str = "") -> str:
        point, low, high = (write(row[f"{name}{end}"]) for end in ("", "_low80", "_high80"))
        return f"{point}{unit} ({low} to {high}, 80 %)"

    if closed:
        return ends("output_tokens_per_second", "{:,.0f}".format, " tokens/s")
    return ", ".join(
        f"{name.upper()} p50 {ends(f'{name}_p50', partial(units.human, unit='s'))}" for name in ("ttft", "tpot")
    )


def tokens_per_usd(row: Mapping[str, Any]) -> float:
    """Return the tokens of answers that a dollar pays for, with their prompts, of one row with a price."""
    return float(row["output_tokens_per_second"] * HOUR / row["usd_per_hour"])


def row_words(row: Mapping[str, Any]) -> dict[str, str]:
    """Return latencies, load, cost, energy and limits of one row, as printed."""
    latencies = {
        f"{name.upper()} p50 / p95 / p99": " / ".join(
            units.human(row[f"{name}_p{percentile}"], "s") for percentile in PERCENTILES
        )
        for name in ("ttft", "tpot")
    }
    answers, prompts = (units.dollars(row[f"usd_per_million_{kind}"]) for kind in ("output", "input"))
    return {
        **latencies,
        "Requests held": f"{row['batch'] * row['engines']:,.0f}",
        "Of capacity": units.share(row["requests_per_second"] / row["capacity"]),
        "$ per M output (prompts)": f"{answers} ({prompts})",
        "Output tokens per $": units.large(tokens_per_usd(row)) if row["usd_per_hour"] > 0 else "",
        "$/h": units.dollars(row["usd_per_hour"]),
        "J/token": "-".join(units.figure(row[f"joule_per_token_{end}"]) for end in ("low", "high")),
        "Limits kept": "yes" if row["meets"] else "no",
        "Limit": str(row["binds"]),
    }


# Fields of arguments: a load, a latency, and lengths of requests, which `load_of` reads.
LOAD, LATENCY, LENGTHS = Field.number(high=1e9), Field.number(high=1e24, unit="s"), Field.number(1, 1e8, later=True)


@checked(
    **ENGINE,
    accelerator=Field.named("accelerators", hardware.Accelerator, hardware.Machine, many=True),
    rate=LOAD,
    users=LOAD,
    concurrency=LOAD,
    arrival=Field.array(0, missing=False),
    think=Field.number(0, 1e24, unit="s"),
    input_len=LENGTHS,
    output_len=LENGTHS,
    input_spread=SPREAD,
    output_spread=SPREAD,
    burstiness=BURSTINESS,
    ttft=LATENCY,
    tpot=LATENCY,
    kept=Field.number(0.5, 0.999),
    policy=Field.choice(*POLICIES),
    devices=Field.count(many=True),
    tp=Field.count(high=1024),
    prefill_engines=Field.count(high=64),
    context=Field.count(high=MAX_TOKENS),
    hourly=USD_PER_HOUR,
    way=WAY,
    since=SINCE_YEAR,
    simulated=Field.flag(),
    seed=SEED,
)
def serve(
    model: str | Workload,
    accelerator: Systems,
    *,
    rate: Amount | None = None,
    users: Amount | None = None,
    concurrency: Amount | None = None,
    arrival: ArrayLike | None = None,
    think: float | str | None = None,
    input_len: Amount | ArrayLike | None = None,
    output_len: Amount | ArrayLike | None = None,
    input_spread: float = 0.5,
    output_spread: float = 0.5,
    burstiness: float = 1.0,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    kept: float = 0.95,
    policy: str = CHUNKED,
    devices: int | Sequence[int] | None = None,
    tp: int | None = None,
    pp: int = 1,
    ep: int | None = None,
    prefill_engines: int = 1,
    precision: str | None = None,
    weights_format: str | None = None,
    kv_format: str | None = None,
    software: str | None = None,
    max_sequences: int | None = None,
    chunk: int | None = None,
    context: int | None = None,
    hourly: float | None = None,
    way: str = "on demand",
    since: int | None = None,
    simulated: bool = False,
    seed: int = 0,
    acceptance: float | None = None,
    drafted: int | None = None,
    prefix_hit: float | None = None,
    two_batches: bool = False,
) -> Service:
    """Return latency, throughput and cost of a service under load, by default on the fewest devices within the limits.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo, or one with changed arguments.
    accelerator : str, Accelerator or Machine, or a list of them
        Each gives rows of its own.
    rate : float
        Requests that arrive per second; or else give one of the next three.
    users : float
        People who send their next request some time after they have their answer. Requests arrive at the rate of the
        interactive response time law, users / (think + time of the answer), so no more are in service than there are
        users.
    concurrency : float
        Requests that are always in service: each client sends its next request at once.
    arrival : array_like
        Times at which the requests of a trace arrive, in order [s]; rate and burstiness follow from them.
    think : float or str, optional
        Time of a user between an answer and the next request [s]; that of the table ``constants`` by default.
    input_len, output_len : float, str or array_like
        Mean tokens of prompts (512 by default) and answers (256), or a data set of the table ``request_sets`` in the
        place of the first, as for `cookbook.generate`; or those of each request of a trace, two lists of one length,
        of which means and spreads are taken, and which `simulated` serves as they are.
    input_spread, output_spread : float
        Standard deviations of both over their means, log-normal; 0 for one length.
    burstiness : float
        Variance of the gaps between arrivals over their squared mean; 1 for a Poisson process.
    ttft, tpot : float or str, optional
        Limits (SLO): longest time to the first token, and for each further one [s].
    kept : float
        Share of the requests that must keep each limit.
    policy : str
        "chunked prefill", "prefill first" or "disaggregated".
    devices : int or list of int, optional
        Number of devices in total; the fewest that keep the limits by default.
    tp, pp : int, optional
        Shards of each layer and stages of one engine; the fewest shards that fit the weights by default.
    ep : int, optional
        Devices that the experts of a mixture are spread over; where they are more than tp, groups of tp devices attend
        to requests of their own (attention data parallel), and one engine has ep x pp devices. Groups take as many
        requests each.
    prefill_engines : int
        Disaggregated: engines for prompts, per engine that decodes.
    precision, weights_format, kv_format, software
        As for `cookbook.generate`.
    max_sequences, chunk : int, optional
        Most sequences and most tokens of one iteration, of each group where `ep` makes several; those of the software
        by default.
    context : int, optional
        Most tokens of a prompt with its answer that the model takes; by default as many as it has learned positions
        for, and of models without such any number.
    hourly : float, optional
        Price of one hour of one device [USD/h]; from dated prices, with `way` and `since` as for `planning.hourly_usd`.
    way, since
        See `hourly`.
    simulated : bool
        Whether 20,000 requests, or those of the trace, are simulated one by one instead of solving for the steady
        state.
    seed : int
        Seed of a simulation.
    acceptance, drafted, prefix_hit
        As for `cookbook.generate`: speculative decoding, and prompts that are partly cached from earlier requests.
    two_batches : bool
        With `ep` above tp: each group works on two halves of its requests in turn, of which one computes while the
        tokens of the other are on the network. All that is sent is hidden as far as there is work; weights are read
        and kernels started for both. This is a bound to which no measurement was fitted; `assumed` reports
        what it changes.

    Returns
    -------
    Service

    Raises
    ------
    cookbook.catalog.UnknownName
        A model, device, format or software that the catalogue does not contain.
    ValueError
        Limits that not even an idle engine keeps, a load above what the devices can serve, weights that do not fit,
        a context that the model does not take, or an invalid argument. Of several stacks, in their column `why`.

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
    load, assumed = load_of(
        LoadArguments(
            rate, users, concurrency, arrival, think, input_len, output_len, input_spread, output_spread, burstiness
        )
    )
    network = network_of(model)
    if not answers_tokens(network):
        raise refused("model", network.title, "is no language model; cb.forward_pass answers for it")
    limits = Limits.of(ttft, tpot, kept)
    options = EngineOptions(tp, pp, ep, precision, weights_format, kv_format, software, acceptance, drafted, prefix_hit)
    batching = Batching(max_sequences, chunk, two_batches, policy, prefill_engines)
    question = _Question(network, load, limits, options, batching, context, seed if simulated else None)
    machines = [hardware.machine(kind) for kind in cast(Sequence[System], accelerator)]  # read as several
    counts = (None,) if devices is None else cast(Sequence[int], devices)
    prices = {machine.accelerator.key: hour_usd(machine.accelerator, hourly, way, since) for machine in machines}
    alone = len(machines) * len(counts) == 1
    answers = [
        _row(question, machine, count, prices[machine.accelerator.key], alone)
        for machine in machines
        for count in counts
    ]
    rows, notes, settings, engines = zip(*answers, strict=True)
    assumed += [sentence for sentences in notes for sentence in sentences]
    return Service(
        f"{network.title}, {_load_words(load)}",
        rows,
        load,
        limits,
        prices,
        network.name,
        tuple(dict.fromkeys(assumed)),
        settings,
        engines,
    )


def _load_words(load: Load) -> str:
    """Return a load in words."""
    if load.closed:
        return f"{load.clients:,.0f} {'users' if load.think else 'requests at once'}"
    return f"{load.rate:.3g} requests/s"


@dataclass(frozen=True, eq=False)
class _Question:
    """Everything but accelerators, numbers of devices and prices.

    `options.tp` is None where shards are to be chosen, `seed` where requests are not simulated.
    """

    network: Workload
    load: Load
    limits: Limits
    options: EngineOptions
    batching: Batching
    context: int | None
    seed: int | None


@dataclass(frozen=True, eq=False)
class _Stack:
    """Replicas that serve the load, and their number."""

    engines: int
    replicas: Replicas

    @property
    def devices(self) -> int:
        """Devices of all engines."""
        return self.engines * self.replicas.unit_devices


def _row(
    question: _Question, machine: hardware.Machine, count: int | None, price: Price, alone: bool
) -> tuple[dict[str, Any], list[str], dict[str, Any], tuple[str, Callable[[], tuple[Measurement, ...]]]]:
    """Return the row of one accelerator and number of devices, None for the fewest, its assumptions, settings, engine.

    Raises
    ------
    ValueError
        No such stack serves the load, and it is `alone` in the table.
    """
    options = question.options
    row: dict[str, Any] = {
        "accelerator": machine.accelerator.key,
        "devices": count or 0,
        "tp": options.tp or 0,
        "pp": options.pp,
        "ep": options.ep or 1,
        "why": "",
        "costly": "",
        "meets": False,
        "devices_fast": math.nan,
        "devices_slow": math.nan,
    }
    stacks, reasons, assumed = _stacks(question, machine, count)
    if stacks:
        stack = min(stacks, key=lambda stack: stack.devices)
        replicas, shown = stack.replicas, stack.replicas.afresh()
        engines = stack.engines if count else shown.enough(stack.engines)
        row |= shown.row(engines, price, question.seed)
        if count is None:
            row["costly"] = replicas.costly(engines)
            row |= replicas.fewest_at_ends(engines)
        settings = replicas.settings(engines, question.context)
        return row, assumed + _assumed(question, replicas), settings, replicas.engine(engines)
    # A stack that is too slow for the load is a better reason than one that does not fit the weights.
    overloads = [reason for reason in reasons if isinstance(reason, Overload)]
    reason = (overloads or reasons)[-1 if count is None else 0]
    if alone:
        raise reason
    return row | {"why": refusal_of(reason)}, assumed, {}, ("", tuple)


def _stacks(
    question: _Question, machine: hardware.Machine, count: int | None
) -> tuple[list[_Stack], list[ValueError], list[str]]:
    """Return the stacks that serve the load, one per number of shards, why others do not, and what is assumed.

    Of a given number of devices the first one, whose engines have the fewest shards that fit the weights.
    """
    stacks, reasons, assumed = list[_Stack](), list[ValueError](), list[str]()
    network, load, batching = question.network, question.load, question.batching
    for tp in _shards(machine, question.options, count):
        options = replace(question.options, tp=tp)
        try:
            costs_of(network, machine, options, batching, load.prompt)  # refuses weights before long requests
            assumed += _assumed_length(network, load.longest, question.context)
            replicas = Replicas(network, machine, options, batching, load, question.limits)
            best = min((stack.devices for stack in stacks), default=math.inf)
            engines = replicas.fewest(best) if count is None else replicas.engines_of(count)
            replicas.refuse(engines)
            stacks.append(_Stack(engines, replicas))
        except ValueError as problem:
            reasons.append(problem)
        if stacks and count is not None:
            break
    return stacks, reasons, assumed


def _assumed(question: _Question, replicas: Replicas) -> list[str]:
    """Return what is assumed of the engines of a row, in sentences."""
    batching, groups = question.batching, replicas.groups
    assumed = assumed_options(question.network, replicas.machine, replicas.options)
    assumed += assumed_terms(replicas.costs, replicas.options.drafted)
    assumed += [replicas.assumed_overlap()] if batching.two_batches else []
    if batching.max_sequences is None:
        assumed.append(f"max_sequences = {replicas.costs.max_sequences // groups:,}")
    if batching.chunk is None:
        assumed.append(f"chunk = {replicas.chunk // groups:,}")
    return assumed


def _assumed_length(network: Workload, longest: float, context: int | None) -> list[str]:
    """Refuse requests longer than the model takes; return what is assumed where that is not known.

    Of rotary models the zoo has the length of a sample of training; learned positions end.
    """
    limit = float(network.arguments.get("positions") or math.inf) if context is None else context
    if longest > limit and context is None:
        raise Refused(TOO_LONG.filled(longest, network.title, limit))
    if longest > limit:
        raise ValueError(
            f"input_len + output_len = {longest:,.0f} tokens is more than {network.title} takes, {limit:,.0f}; "
            "shorten them, or give context where a version takes more"
        )
    if longest > (network.seq or math.inf) and context is None:
        return [f"the model takes {longest:,.0f} tokens, more than the {network.seq:,.0f} of the table models"]
    return []


def _shards(machine: hardware.Machine, options: EngineOptions, count: int | None) -> list[int]:
    """Return numbers of shards to try: the given one, or powers of two up to a node and the number of devices."""
    if options.tp is not None:
        return [options.tp]
    largest = max(machine.per_node, SHARDS[3]) if count is None else count // options.pp
    ep = options.ep or 1
    return [tp for tp in SHARDS if tp <= max(largest, 1) and max(tp, ep) % min(tp, ep) == 0]
