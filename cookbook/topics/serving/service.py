"""Serving a language model: latency, throughput and cost under load, and the fewest devices that keep what is promised.

Iterations of an engine take what `cookbook.generate` estimates; how requests share them is solved for a steady state
(`cookbook.formulas.serving`) or simulated request by request (`cookbook.topics.serving.simulation`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware, units
from cookbook.catalog.fields import MAX_TOKENS, Field, checked
from cookbook.catalog.prices import SINCE_YEAR, USD_PER_HOUR, WAY
from cookbook.catalog.refusals import Refused, refusal_of, refused
from cookbook.prediction.api import network_of
from cookbook.prediction.kinds.serving_memory import TOO_LONG
from cookbook.prediction.kinds.transformer import answers_tokens
from cookbook.result import Result, card, plain
from cookbook.topics.costs.cost import Price, device_usd
from cookbook.topics.serving.engines import (
    BURSTINESS,
    ENGINE,
    SEED,
    SHARDS,
    Asked,
    asked_of,
    engine_costs,
    granted,
    stack_taken,
)
from cookbook.topics.serving.replicas import COLUMNS, Overload, Replicas
from cookbook.topics.serving.simulation import CHUNKED, POLICIES
from cookbook.workloads.zoo import Workload

__all__ = ["Asked", "Service", "serve"]
MILLION, HOUR = 1e6, units.si("1 h")


@dataclass(frozen=True, eq=False, repr=False)
class Service(Result):
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
        return pd.DataFrame(list(self.rows), columns=list(COLUMNS))

    def frame(self) -> pd.DataFrame:
        """The table."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Title, what was assumed, and the rows; None where a figure is missing."""
        return plain({"title": self.title, "assumed": self.assumed, "stacks": self.table})

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

    def _repr_html_(self) -> str:
        return card(self.summary(), self.tables()["Stacks"], [f"Assumed: {'; '.join(self.assumed)}."])

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
            usd_per_request=each,
            own_usd_per_request=own,
            break_even=needed,
            reachable=needed <= row["capacity"],
            cheaper=np.where(each < own, "api", "own"),
            how=rows["how"],
            source=rows["source"],
        )
        return found.reset_index(drop=True)


def row_words(row: Mapping[str, Any]) -> dict[str, str]:
    """Return delays, load, cost, energy and limits of one row, as printed."""
    each = {
        f"{name.upper()} p50 / p95 / p99": " / ".join(units.human(row[f"{name}_p{part}"], "s") for part in (50, 95, 99))
        for name in ("ttft", "tpot")
    }
    answers, prompts = (units.dollars(row[f"usd_per_million_{kind}"]) for kind in ("output", "input"))
    return {
        **each,
        "Requests held": f"{row['batch'] * row['engines']:,.0f}",
        "Of capacity": units.share(row["requests_per_second"] / row["capacity"]),
        "$ per M output (prompts)": f"{answers} ({prompts})",
        "$/h": units.dollars(row["usd_per_hour"]),
        "J/token": "-".join(units.figure(row[f"joule_per_token_{end}"]) for end in ("low", "high")),
        "Limits kept": "yes" if row["meets"] else "no",
        "Limit": str(row["binds"]),
    }


LOAD, LIMIT, SPREAD = Field.number(high=1e9), Field.number(high=1e24, unit="s"), Field.number(0, 10)
OF_REQUESTS = Field.number(1, 1e8, later=True)


@checked(
    **ENGINE,
    accelerator=Field.named("accelerators", hardware.Accelerator, hardware.Machine, many=True),
    rate=LOAD,
    users=LOAD,
    concurrency=LOAD,
    arrival=Field.array(0, missing=False),
    think=Field.number(0, 1e24, unit="s"),
    input_len=OF_REQUESTS,
    output_len=OF_REQUESTS,
    input_spread=SPREAD,
    output_spread=SPREAD,
    burstiness=BURSTINESS,
    ttft=LIMIT,
    tpot=LIMIT,
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
    accelerator: Any,
    *,
    rate: Any = None,
    users: Any = None,
    concurrency: Any = None,
    arrival: Any = None,
    think: float | str | None = None,
    input_len: Any = None,
    output_len: Any = None,
    input_spread: float = 0.5,
    output_spread: float = 0.5,
    burstiness: float = 1.0,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    kept: float = 0.95,
    policy: str = CHUNKED,
    devices: Any = None,
    tp: int | None = None,
    pp: int = 1,
    ep: int | None = None,
    prefill_engines: int = 1,
    precision: Any = None,
    weights_format: Any = None,
    kv_format: Any = None,
    software: Any = None,
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
    input_len, output_len : float, str or array_like
        Mean tokens of prompts (512 by default) and answers (256), or a data set of the table ``request_sets`` in the
        place of the first, as for `cookbook.generate`; or those of each request of a trace, two lists of one length,
        of which means and spreads are taken, and which `simulated` serves as they are.
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
    came = {"rate": rate, "users": users, "concurrency": concurrency, "arrival": arrival, "burstiness": burstiness}
    tokens = {"input_len": input_len, "output_len": output_len, "input_spread": input_spread}
    limit = {"ttft": ttft, "tpot": tpot, "kept": kept, "think": think, "policy": policy}
    asked, assumed = asked_of({**came, **tokens, "output_spread": output_spread, **limit})
    network = network_of(model)
    if not answers_tokens(network):
        raise refused("model", network.title, "is no language model; cb.forward_pass answers for it")
    stack = {
        "pp": pp,
        "ep": ep,
        "precision": precision,
        "weights_format": weights_format,
        "kv_format": kv_format,
        "software": software,
        "acceptance": acceptance,
        "drafted": drafted,
        "prefix_hit": prefix_hit,
    }
    limits: dict[str, Any] = {"max_sequences": max_sequences, "chunk": chunk, "two_batches": two_batches}
    counts: Sequence[int | None] = (None,) if devices is None else devices
    kinds = accelerator
    rows, prices = list[dict[str, Any]](), dict[str, Price]()
    for kind in kinds:
        machine = hardware.machine(kind)
        name = machine.accelerator.key
        prices[name] = (
            device_usd(machine.accelerator, way, since)
            if hourly is None
            else Price(hourly, hourly, hourly, "USD/h", note="given")
        )
        for count in counts:
            row: dict[str, Any] = {
                "accelerator": name,
                "devices": count or 0,
                "tp": tp if isinstance(tp, int) else 0,
                "pp": stack["pp"],
                "ep": stack["ep"] or 1,
                "why": "",
                "costly": "",
                "meets": False,
            }
            found, reasons = list[tuple[int, Replicas]](), list[ValueError]()
            for each in _shards(machine, tp, stack, count):
                try:
                    engine_costs(network, machine, **stack, tp=each, **limits, input_len=asked.prompt)
                    assumed |= _context(network, asked, context)
                    one = Replicas(network, machine, {**stack, "tp": each}, limits, prefill_engines, asked)
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
                assumed |= stack_taken(network, machine, tuple({**stack, "tp": one.tp}.items()))
                taken = {"max_sequences": one.costs.max_sequences // one.groups, "chunk": one.chunk // one.groups}
                assumed |= granted(one.costs, drafted)
                assumed |= one.gained(network, {**stack, "tp": one.tp}, limits) if two_batches else {}
                assumed |= {f"{each} = {value:,}": None for each, value in taken.items() if limits[each] is None}
            else:  # what is too slow for the load says more than what is too small for the weights
                heavy = [each for each in reasons if isinstance(each, Overload)]
                reason = (heavy or reasons)[-1 if count is None else 0]
                if len(kinds) * len(counts) == 1:
                    raise reason
                row["why"] = refusal_of(reason)
            rows.append(row)
    load = f"{asked.rate:.3g} requests/s"
    if asked.rate != asked.rate:
        load = f"{asked.clients:,.0f} {'users' if asked.think else 'requests at once'}"
    return Service(f"{network.title}, {load}", tuple(rows), asked, prices, network.name, tuple(assumed))


def _context(network: Workload, asked: Asked, context: int | None) -> dict[str, None]:
    """Refuse requests longer than the model takes; what is assumed where that is not known.

    Of rotary models the zoo knows the length of a sample of training; learned positions end.
    """
    most = float(network.arguments.get("positions") or math.inf)
    most = most if context is None else context
    beyond = asked.prompt + asked.answer
    if "input_len" in asked.trace:
        beyond = max(beyond, float(np.max(asked.trace["input_len"] + asked.trace["output_len"])))
    if beyond > most and context is None:
        raise Refused(TOO_LONG.filled(beyond, network.title, most))
    if beyond > most:
        raise ValueError(
            f"input_len + output_len = {beyond:,.0f} tokens is more than "
            f"{network.title} takes, {most:,.0f}; shorten them, or give context where a version takes "
            "more"
        )
    long = beyond > (network.seq or math.inf) and context is None
    return (
        {f"the model takes {beyond:,.0f} tokens, more than the {network.seq:,.0f} of the table models": None}
        if long
        else {}
    )


def _shards(machine: Any, tp: int | None, stack: dict[str, Any], count: int | None) -> list[int]:
    """Shards of one engine to try: those given, or powers of two up to a node and the devices there are."""
    if tp is not None:
        return [tp]
    most = max(machine.per_node, SHARDS[3]) if count is None else count // stack["pp"]
    ep = stack["ep"] or 1
    return [each for each in SHARDS if each <= max(most, 1) and max(each, ep) % min(each, ep) == 0]
