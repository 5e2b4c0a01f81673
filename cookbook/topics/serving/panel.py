"""Panel of recipe 10: which accelerators serve a language model to so many users, and at what cost?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import hardware
from cookbook.catalog import constant
from cookbook.catalog.calls import keywords
from cookbook.catalog.fields import Amount
from cookbook.catalog.prices import HOUR, MONTH
from cookbook.catalog.refusals import refusal_of
from cookbook.charts import devices as cost_charts
from cookbook.charts.look import TIME_PARTS, longest_row, row_order
from cookbook.hardware import Accelerator
from cookbook.panels.controls import Choice, Combo, Control, Slider, one_two_five, powers_of_two
from cookbook.panels.options import (
    Device,
    accelerators,
    assumed,
    cited,
    device_of,
    model_of,
    named_model,
    networks,
    own_accelerator,
    own_model,
    plain_device,
    plain_model,
    rounded,
)
from cookbook.panels.shell import Panel, Part, Picture, View, device_text, model_text, panel_call, sources_of_case
from cookbook.panels.text import (
    GIBI,
    MILLI,
    at_your_price,
    capital,
    counted,
    figure,
    in_words,
    large,
    percent,
    price_badge,
    short_name,
    sources_of_price,
    undecided,
)
from cookbook.prediction.api import generate
from cookbook.topics.devices.comparison import Lead, evidence, lead
from cookbook.topics.serving import charts
from cookbook.topics.serving.engines import engine_costs
from cookbook.topics.serving.replicas import COLUMNS
from cookbook.topics.serving.service import Service, row_words, serve, tokens_per_usd
from cookbook.topics.serving.simulation import POLICIES, StepCosts
from cookbook.units import dollars, human

CHARTS: dict[str, Any] = {
    "knee": charts.knee,
    "costs": partial(
        cost_charts.place_costs,
        axis="Cost of this load [$ per hour], logarithmic",
        each="accelerator",
        key="Bars: from a fast engine at the lower price quartile to a slow one at the upper. Marks: at the median.",
    ),
    "memory": charts.engine_memory,
}
# Accelerators compared by cost, and parts of the capacity at which the knee is drawn.
RIVALS = ("l40s", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x")
LOADS = (0.05, 0.3, 0.6, 0.8, 0.92, 0.98)
FORMATS: dict[str, dict[str, str]] = {
    "own": {},
    "fp8": {"precision": "fp8", "weights_format": "fp8"},
    "int4": {"weights_format": "int4"},
}
# Arguments that are passed on where they differ from this.
UNSET = {"policy": POLICIES[0], "hourly": 0, "think": 30}
# Parts of `cb.generate`, their names here, the part of a training step whose colour they have, and how they come.
STEP = (
    (
        ("weights",),
        "weights read, not hidden",
        "memory traffic",
        "Weights are read from memory once for all requests while "
        "matmuls run; the longer of the two hides most of the other.",
    ),
    (("products",), "matmuls", "compute", "Time of matmuls beyond the time in which weights are read."),
    (("cache",), "KV cache read", "input", "KV cache of each request over the memory bandwidth."),
    (("elementwise",), "other memory traffic", "bubble", "Activations between matmuls over the memory bandwidth."),
    (("launch",), "launch", "launch", "Host time per layer, per step and per request."),
    (
        ("tensor_exchange",),
        "communication",
        "tensor-parallel communication",
        "All-reduces over the devices that share each layer.",
    ),
)
STATES = "KV cache and states read"


def serving(
    model: str = "llama3_8b",
    accelerator: Device = "h100-sxm",
    users: Amount = 500,
    prompt: Amount = 512,
    answer: Amount = 256,
    ttft: Amount | None = 1000,
    tpot: Amount | None = 50,
    devices: Amount = 0,
    policy: str = "chunked prefill",
    precision: str = "own",
    kv: str = "own",
    think: Amount = 30,
    hourly: Amount = 0,
    picture: str = "knee",
) -> Panel:
    """Return the panel "Which GPUs serve this model?" in the state that the arguments describe.

    Parameters
    ----------
    model : str
        A language model of the zoo.
    accelerator : str, Accelerator or dict
        A device, or ``{"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}``.
    users : float
        People who ask again some time after they have their answer.
    prompt, answer : float
        Mean tokens of a prompt and of its answer.
    ttft, tpot : float, optional
        Limits (SLO) that 95 of 100 requests keep: time to the first token and for each further one [ms].
    devices : int
        Devices in all; 0 for the fewest that keep the limits.
    policy : {"chunked prefill", "prefill first", "disaggregated"}
        How prompts and answers share the devices.
    precision, kv : {"own", "fp8", "int4"}
        Format of weights and matmuls, where "int4" is of weights alone, as AWQ and GPTQ store them, with matmuls in 16
        bits; and of keys and values ("own", which is 16 bits, or "fp8").
    think, hourly : float
        Seconds between an answer and the next request, 0 for as many requests at once as users; your price of an hour
        of a device [USD], 0 for list prices.
    picture : {"knee", "costs", "memory"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = serving(users=100)
    >>> panel.update(tpot=1)
    >>> panel.answer.startswith("TPOT limit = 0.001 s: an idle engine of ")
    True
    """
    return Panel(
        serving,
        "Which GPUs serve this model?",
        _controls,
        CHARTS,
        _draw,
        locals(),
        {"precision": _unavailable, "kv": _unavailable},
    )


def _controls() -> tuple[Control, ...]:
    more = partial(Slider, more=True, optional=True, whole=False)
    formats = (
        ("own", "best", "fp16 or bf16, whichever the accelerator computes faster in, else tf32 or fp32"),
        ("fp8", "fp8", "Weights and matmuls in fp8"),
        ("int4", "int4 (AWQ, GPTQ)", "Weights in 4 bits, activations and matmuls in 16"),
    )
    return (
        Combo(
            "model",
            "Model",
            "Workload",
            networks(language=True, serving=True),
            own=own_model(),
            plain=plain_model,
            tooltip="The language model to serve",
        ),
        Slider(
            "users",
            "Users",
            "Workload",
            one_two_five(1, 20_000),
            tooltip="People who send their next request some time after an answer",
        ),
        Combo(
            "accelerator",
            group="Hardware",
            options=accelerators(),
            own=own_accelerator("Accelerator"),
            plain=plain_device,
            tooltip="Accelerator; each replica of the model runs on one or several",
        ),
        Slider(
            "devices",
            group="Hardware",
            stops=(0.0, *powers_of_two(0, 12)),
            optional=True,
            zero="chosen automatically",
            tooltip="Total number of devices; 0: the fewest that meet the limits",
        ),
        Slider(
            "ttft",
            "TTFT limit",
            "Goal",
            one_two_five(10, 60_000),
            unit="ms",
            whole=False,
            optional=True,
            tooltip="Longest time to the first token for 95 of 100 requests; empty: no limit",
        ),
        Slider(
            "tpot",
            "TPOT limit",
            "Goal",
            one_two_five(1, 1000, (15, 30, 40, 75)),
            unit="ms",
            whole=False,
            optional=True,
            tooltip="Longest time for each further token for 95 of 100 requests; empty: no limit",
        ),
        Slider(
            "prompt",
            "Prompt",
            "Workload",
            powers_of_two(0, 17),
            unit="tokens",
            whole=False,
            more=True,
            argument="input_len",
            tooltip="Mean length of a prompt",
        ),
        Slider(
            "answer",
            "Answer",
            "Workload",
            powers_of_two(0, 14),
            unit="tokens",
            whole=False,
            more=True,
            argument="output_len",
            tooltip="Mean length of an answer",
        ),
        Slider(
            "think",
            "Think time",
            "Workload",
            (0.0, *one_two_five(1, 1000, (30,))),
            unit="s",
            whole=False,
            more=True,
            zero="requests at once",
            tooltip="Time between an answer and the user's next request; 0: requests at once",
        ),
        Choice(
            "precision",
            "Precision",
            "Hardware",
            formats,
            more=True,
            argument="weights_format",
            tooltip="Precision of weights and matmuls; 4 bits apply to weights alone",
        ),
        Choice(
            "kv",
            "KV cache",
            "Hardware",
            (
                ("own", "16 bits", "KV cache in 16 bits, whatever the precision of the matmuls"),
                ("fp8", "fp8", "KV cache in fp8"),
            ),
            more=True,
            argument="kv_format",
        ),
        Choice(
            "policy",
            "Policy",
            "Hardware",
            (
                (POLICIES[0], "chunked", "Each iteration also processes a piece of the prompts"),
                (POLICIES[1], "prefill first", "Prompts are processed before the next tokens"),
                (POLICIES[2], "split", "Prompts have their own engines"),
            ),
            more=True,
            tooltip="How prompts and answers share the devices",
        ),
        more(
            "hourly",
            "Price",
            "Money",
            (0.0, 0.2, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20),
            unit="$ per hour",
            zero="list price",
            tooltip="Your price per device-hour; 0: list prices of the last 12 months",
        ),
        Choice(
            "picture",
            "Chart",
            "",
            (
                ("knee", "Latency", "Latency over the load, up to capacity"),
                ("costs", "Cost", "The fewest devices of each kind, by cost of this load per hour"),
                ("memory", "Memory", "Weights against KV cache"),
            ),
            place="picture",
        ),
    )


def _unavailable(values: dict[str, Any]) -> dict[str, str]:
    """Return the reason why a format cannot be chosen."""
    offered = hardware.formats(device_of(values["accelerator"]))
    return {} if "fp8" in offered else {"fp8": f"the accelerator has {', '.join(offered)}"}


@dataclass(frozen=True, eq=False)
class Served:
    """A service with what the reader chose: all that the panel shows."""

    values: Mapping[str, Any]
    service: Service
    title: str
    device: Accelerator

    @cached_property
    def own(self) -> dict[str, Any]:
        """Its row."""
        return dict(self.service.rows[0])

    @cached_property
    def stack(self) -> dict[str, Any]:
        """Formats and shards of one engine."""
        return _formats(self.values) | {"tp": int(self.own["tp"])}

    @cached_property
    def context(self) -> float:
        """Tokens of a request whose keys and values are held, on average and at its end."""
        return float(self.values["prompt"] + self.values["answer"])

    @cached_property
    def batch(self) -> int:
        """Requests that an engine answers at a time, one at least."""
        return max(round(self.own["batch"]), 1)

    @cached_property
    def step(self) -> Any:
        """One further token of all sequences of an engine."""
        length = self.values["prompt"] + self.values["answer"] / 2
        return generate(
            named_model(self.values["model"]),
            device_of(self.values["accelerator"]),
            input_len=max(round(length), 1),
            output_len=2,
            batch=self.batch,
            delay_of="token",
            **self.stack,
        )


def _formats(values: Mapping[str, Any]) -> dict[str, Any]:
    return FORMATS[values["precision"]] | ({} if values["kv"] == "own" else {"kv_format": values["kv"]})


def _arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `cb.serve` beyond model, accelerator and devices."""
    arguments = {"users": values["users"], "input_len": values["prompt"], "output_len": values["answer"]}
    arguments |= {name: round(values[name] * MILLI, 9) for name in ("ttft", "tpot") if values[name] is not None}
    arguments |= {name: values[name] for name in UNSET if values[name] not in (UNSET[name], None)}
    return arguments | _formats(values)


@lru_cache(maxsize=256)
def _serve(model: str, device: Accelerator, arguments: tuple[tuple[str, Any], ...]) -> Service:
    return serve(model, device, **dict(arguments))


def _found(values: Mapping[str, Any], **changes: Any) -> Service:
    """Return the service of the controls, with changes."""
    arguments = {**_arguments(values), "devices": values["devices"] or None, **changes}
    return _serve(
        named_model(values["model"]),
        device_of(changes.pop("on", values["accelerator"])),
        tuple((name, value) for name, value in arguments.items() if name != "on"),
    )


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    service = _found(values)
    view = Served(
        MappingProxyType(dict(values)), service, model_of(values["model"]).title, device_of(values["accelerator"])
    )
    own, picture = view.own, values["picture"]
    usd = float(own["usd_per_million_output"])
    taken = {"precision": view.step.assumed.taken["precision"]} if values["precision"] == "own" else {}
    return View(
        answer=_answer(view),
        headline={"devices": float(own["devices"]), **({"cost per million tokens": usd} if usd > 0 else {})},
        chips=_chips(view),
        picture=PICTURES[picture](view),
        parts=_parts(view),
        parts_title=f"One decode step at batch {view.batch} per engine, without prompts",
        table=partial(_cost_table if picture == "costs" else _table, view),
        data=lambda: _rivals(view) if picture == "costs" else service.table,
        sources=partial(_sources, view),
        code=_code(values),
        kept=view,
        stood_for={"devices": int(own["devices"]), **taken},
    )


def _parts(view: Served) -> tuple[Part, ...]:
    """Return the parts of one further token; weights and matmuls overlap and share the longer of their times."""
    parts = []
    for names, name, colour, formula in STEP:
        seconds = sum(float(np.ravel(view.step.parts[each])[0]) for each in names)
        has_states = names == ("cache",) and "states" in view.step.memory
        parts.append(
            Part(name if not has_states else STATES, seconds, human(seconds, "s"), TIME_PARTS[colour], formula)
        )
    return tuple(parts)


def _code(values: dict[str, Any]) -> str:
    arguments = _arguments(values) | ({"devices": values["devices"]} if values["devices"] else {})
    first = f"{model_text(values['model'])}, {device_text(values['accelerator'])}"
    return f"{panel_call(serving, values)}\ncb.serve({first}, {keywords(arguments)})"


def _answer(view: Served) -> str:
    """Return the answer: devices and cost per million tokens, then prices, latencies, load and the cost of limits."""
    own, users = view.own, counted(view.values["users"], "user")
    devices, serve = f"{own['devices']:,} {short_name(view.device.name)}", "serves" if own["devices"] == 1 else "serve"
    usd, low, high = (float(own[f"usd_per_million_output{end}"]) for end in ("", "_low", "_high"))
    hour, price = float(own["usd_per_hour"]), next(iter(view.service.price.values()))
    if not own["meets"]:
        head = f"{devices} {serve} {view.title} to {users}, and the **{own['binds']} is missed**."
    elif usd == 0:
        head = f"{devices} {serve} {view.title} to {users} for **{dollars(hour)}** per hour; answers have one token."
    elif usd != usd:
        head = f"**{devices}** {serve} {view.title} to {users} at an unknown price."
    else:
        head = f"{devices} {serve} {view.title} to {users} for **{dollars(usd)}** per million output tokens."
    per = "per million output tokens" if usd else "per hour"
    low, high = (low, high) if usd else (price.low * own["devices"], price.high * own["devices"])
    reach = (
        at_your_price(float(view.values["hourly"]))
        if view.values["hourly"]
        else "at the only price known"
        if price.rows == 1
        else f"{dollars(low)} to {dollars(high)} {per} at the price quartiles"
    )
    cost = (
        ""
        if usd != usd
        else (
            f"Cost: {dollars(hour)} per hour, {dollars(hour * MONTH / HOUR)} per month, {reach}; "
            f"{dollars(own['usd_per_million_input'])} per million input tokens; a dollar buys "
            f"{large(tokens_per_usd(own))} output tokens, their prompts included."
        )
    )
    return " ".join(filter(None, [head, cost, *_kept(view), assumed(model_of(view.values["model"]))]))


def _kept(view: Served) -> Iterator[str]:
    """Yield latencies with limits, and the load: against capacity and its bound, and what the limits cost."""
    own, values = view.own, view.values
    for name in ("ttft", "tpot"):
        limit = f" (limit {human(values[name] * MILLI, 's')})" if values[name] else ""
        middle, low, high, late = (
            human(own[f"{name}_{end}"], "s") for end in ("p50", "p50_low80", "p50_high80", "p95")
        )
        yield f"{name.upper()}: p50 is {middle} (80 %: {low} to {high}), p95 {late}{limit}."
    slow = own["devices_slow"]
    load = [
        f"Load: {figure(own['requests_per_second'])} of at most {figure(own['capacity'])} requests per second, "
        f"about {large(own['in_service'])} in service at any time",
        f"a full engine is limited by {own['binds']}" if own["meets"] else "",
        f"it takes {slow:,.0f} devices to keep the limits if the engine is as slow as its interval allows"
        if own["meets"] and slow > own["devices"]
        else "no number of devices keeps the limits if the engine is as slow as its interval allows"
        if own["meets"] and slow != slow and not view.values["devices"]
        else "",
        own["costly"].replace("ttft = ", "a TTFT limit of ").replace("tpot = ", "a TPOT limit of "),
    ]
    yield f"{'; '.join(filter(None, load))}."


def _chips(view: Served) -> tuple[tuple[str, str], ...]:
    price = next(iter(view.service.price.values()))
    assumed = view.service.assumed
    return (
        (str(view.step.tier), "Coverage of the time of an iteration by measurements of other runs."),
        price_badge(price),
        (
            "queue not measured",
            "Waiting times are derived from iteration times; no published load test of this stack is used.",
        ),
        (f"{len(assumed)} assumed", f"Values used where nothing is set: {in_words(assumed)}."),
    )


def _knee(view: Served) -> Picture:
    """Latency over the load, on the devices chosen."""
    own, values = view.own, view.values
    engines, each = int(own["engines"]), int(own["devices"] // own["engines"])
    rows: list[dict[str, Any]] = []
    free = {"users": None, "ttft": None, "tpot": None, "hourly": 1.0, "think": None}
    for part in LOADS:
        rate = float(f"{part * own['capacity'] / engines:.6g}")
        with suppress(ValueError):
            at = _found(values, **free, rate=rate, devices=each, tp=int(own["tp"])).rows[0]
            rows += [
                {"what": "line", "series": name, "rate": rate * engines, "ms": at[_column(name)] / MILLI}
                for name in charts.LATENCIES
            ]
            rows += _bands(at, rate * engines)
    load = own["requests_per_second"]
    if load > max((row["rate"] for row in rows if row["what"] == "band"), default=0.0):
        rows += _bands(own, load)  # clients who wait for a slow engine send less, so that it keeps up with them
    rows += [
        {"what": "here", "series": name, "rate": load, "ms": own[_column(name)] / MILLI} for name in charts.LATENCIES
    ]
    rows += [
        {"what": "limit", "ms": values[name], "text": f"{name.upper()} limit"}
        for name in ("ttft", "tpot")
        if values[name] is not None
    ]
    rows.append({"what": "capacity", "rate": own["capacity"], "text": "capacity"})
    numbers = ("rate", "ms", "high")
    frame = rounded(pd.DataFrame(rows, columns=["what", "series", "text", *numbers]), numbers)
    title = (
        f"At {percent(load / own['capacity'])} of capacity, TTFT p95 is {human(own['ttft_p95'], 's')} and TPOT p95 "
        f"{human(own['tpot_p95'], 's')}"
    )
    return Picture("knee", frame, title, charts.knee_ends(frame))


def _bands(at: dict[str, Any], rate: float) -> Iterator[dict[str, Any]]:
    """Yield the 80 % intervals of latencies at a load, as far as an engine at the slow end keeps up with it."""
    for name in ("TTFT p50", "TPOT p50"):
        low, high = (at[f"{_column(name)}_{end}80"] / MILLI for end in ("low", "high"))
        if math.isfinite(high):
            yield {"what": "band", "series": name, "rate": rate, "ms": low, "high": high}


def _column(series: str) -> str:
    return series.lower().replace(" ", "_")


@lru_cache(maxsize=64)
def _compared(model: str, arguments: tuple[tuple[str, Any], ...], own: Accelerator, hourly: float) -> pd.DataFrame:
    """The fewest devices of each rival; those that cannot, with the reason. The reader's price is that of `own`.

    Dollars per hour from a fast engine at low prices to a slow one at high prices, infinite where no number of devices
    is enough for it.
    """
    devices = {device.key: device for device in (own, *map(hardware.accelerator, RIVALS))}
    rows = []
    for key, device in devices.items():
        paid = (("hourly", hourly),) if device is own and hourly else ()
        try:
            service = _serve(model, device, arguments + paid)
            row, price = service.rows[0], next(iter(service.price.values()))
            slow = math.inf if math.isnan(row["devices_slow"]) else row["devices_slow"]
            row |= {"prices": price.rows, "low": price.low * row["devices_fast"], "high": price.high * slow}
        except ValueError as problem:
            row = {"accelerator": key, "why": refusal_of(problem), "meets": False}
        rows.append({"name": device.name, **row})
    return pd.DataFrame(rows).reindex(columns=["name", *COLUMNS, "prices", "low", "high"])


def _rivals(view: Served) -> pd.DataFrame:
    """Sizing of each accelerator, the chosen one at the reader's price."""
    arguments = {name: value for name, value in _arguments(view.values).items() if name != "hourly"}
    frame = _compared(
        named_model(view.values["model"]), tuple(arguments.items()), view.device, float(view.values["hourly"] or 0)
    ).copy()
    return frame.sort_values("usd_per_hour", kind="stable").reset_index(drop=True)


def _cheapest(rows: pd.DataFrame) -> Lead | None:
    """Return the cheapest that meets the limits, with the rivals whose intervals overlap its own."""
    tiers = [evidence(str(tier)) if isinstance(tier, str) else "" for tier in rows["tier"]]
    usd, able = rows["usd_per_hour"], rows["meets"].astype(bool)
    return lead(usd, rows["low"], rows["high"], evidence=tiers, able=able)


def _costs(view: Served) -> Picture:
    """The fewest devices of each kind, the cheapest on top."""
    rows = _rivals(view)
    best = _cheapest(rows)
    verdicts = [
        "cheapest feasible"
        if best is not None and best.named and at == best.first
        else "feasible"
        if fine
        else "not feasible"
        for at, fine in enumerate(rows["meets"])
    ]
    frame = pd.DataFrame(
        {
            "row": [short_name(name) for name in rows["name"]],
            "usd": rows["usd_per_hour"],
            **rows[["low", "high"]],
            "verdict": verdicts,
            "text": [
                "cannot meet the limits"
                if row["why"]
                else counted(int(row["devices"]), "device")
                + ("" if row["usd_per_hour"] == row["usd_per_hour"] else ", no price")
                + ", no upper end" * (row["high"] == math.inf)
                for _, row in rows.iterrows()
            ],
        }
    )
    ends = cost_charts.cost_ends(frame)
    frame["high"] = frame["high"].clip(upper=ends["high"])
    title = "No accelerator compared has a price and meets the limits"
    if best is not None:
        only = ", by its only price" if rows["prices"][best.first] == 1 else ""
        title = capital(undecided(list(frame["row"]), best)) or (
            f"{frame['row'][best.first]} is the cheapest of {counted(len(rows), 'accelerator')} compared{only}"
        )
    return Picture("costs", rounded(frame, ("usd", "low", "high")), title, {"rows": row_order(frame), **ends})


def _memory(view: Served) -> Picture:
    """Weights against keys and values: as chosen, sharded further, and in smaller formats."""
    own, stack, device = view.own, view.stack, view.device
    tp, capacity, share = stack["tp"], float(device.memory_bytes) / GIBI, constant("memory-served")
    ways = {
        f"as chosen, TP {tp}": stack,
        f"TP {2 * tp}": {**stack, "tp": 2 * tp},
        "weights in fp8": {**stack, **FORMATS["fp8"]},
        "weights in int4": {**stack, **FORMATS["int4"]},
        "KV cache in fp8": {**stack, "kv_format": "fp8"},
    }
    rows: list[dict[str, Any]] = []
    for name, way in ways.items():
        engine = _held(named_model(view.values["model"]), device, tuple(way.items()))
        if engine is None or (rows and way == stack):
            continue
        weights, costs = engine
        room = max(share * capacity - weights, 0.0)
        used = room * float(own["kv_share"]) if way is stack else 0.0
        parts = zip(charts.ENGINE_MEMORY, (weights, used, room - used, (1 - share) * capacity), strict=True)
        text = f"{costs.kv_tokens / costs.held(view.context):,.0f} requests"
        rows += [
            {"row": name, "part": part, "value": value, "text": text if part == "weights" else None}
            for part, value in parts
        ]
    frame = rounded(pd.DataFrame(rows), ("value",))
    weights_gib = float(frame["value"].iloc[0])
    title = (
        f"Weights take {percent(weights_gib / capacity)} of each device; the load fills {percent(own['kv_share'])} of "
        "the KV cache"
    )
    if not math.isfinite(capacity):
        title = f"Weights take {human(weights_gib * 2**30, 'iB')} of each device, whose memory is not in the catalogue"
    return Picture("memory", frame, title, {"rows": row_order(frame), "most": longest_row(frame)})


@lru_cache(maxsize=128)
def _held(model: str, device: Accelerator, way: tuple[tuple[str, Any], ...]) -> tuple[float, StepCosts] | None:
    """Return GiB of weights on one device and the costs of an engine; None where the model does not fit."""
    try:
        costs = engine_costs(model, device, **dict(way))
        memory = generate(model, device, input_len=1, output_len=2, **dict(way)).memory
    except ValueError:
        return None
    return float(np.ravel(memory["weights"])[0]) / GIBI, costs


PICTURES: dict[str, Callable[[Served], Picture]] = {"knee": _knee, "costs": _costs, "memory": _memory}


def _table(view: Served) -> pd.DataFrame:
    """Return the service on half, the same and up to four times the devices, as printed text."""
    each = int(view.own["devices"] // view.own["engines"])
    counts = sorted({max(round(view.own["engines"] * part), 1) * each for part in (0.5, 1, 1.5, 2, 4)})
    rows = []
    for count in counts:
        try:
            row = _found(view.values, devices=count, tp=int(view.own["tp"])).rows[0]
        except ValueError as problem:
            rows.append({"Devices": f"{count:,}", "Limit": str(problem).partition(";")[0]})
            continue
        rows.append({"Devices": f"{count:,}", **row_words(row)})
    return pd.DataFrame(rows).fillna("")


def _cost_table(view: Served) -> pd.DataFrame:
    """Each accelerator with the fewest devices that keep the limits, as printed."""
    rows = [
        {"Accelerator": row["name"], "Limit": row["why"].partition(";")[0]}
        if row["why"]
        else {"Accelerator": row["name"], "Devices (TP)": f"{row['devices']:.0f} ({row['tp']:.0f})", **row_words(row)}
        for row in _rivals(view).to_dict("records")
    ]
    return pd.DataFrame(rows).fillna("")


def _sources(view: Served) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of the model, the device and its prices."""
    case = sources_of_case(model_of(view.values["model"]), view.device)
    return cited({**case, **sources_of_price(next(iter(view.service.price.values())))})
