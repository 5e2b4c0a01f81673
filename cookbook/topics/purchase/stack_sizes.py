"""Sizes of the stacks of the table `stacks` for a task: a place with its step or its machines, as costs are counted.

No physics here. Steps are those of `cookbook.train_step` and `cookbook.finetune`, their input of
`cookbook.match_storage`, answers of `cookbook.forward_pass` and `cookbook.serve`; a service then takes as many machines
as its requests need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, hardware
from cookbook.catalog import constant
from cookbook.catalog.prices import BOUGHT, HOUR, Price
from cookbook.prediction.api import forward_pass, train_step
from cookbook.prediction.assumptions import Assumptions
from cookbook.prediction.kinds.input_pipeline_arguments import server
from cookbook.prediction.kinds.transformer import answers_tokens
from cookbook.prediction.match import match_storage
from cookbook.result import Result
from cookbook.topics.costs.cost import HOURS_PER_YEAR, MONTHS, active_seconds
from cookbook.topics.purchase import places as sites
from cookbook.topics.purchase.places import PER_TOKEN, Place, Task
from cookbook.topics.runs.finetuning import finetune
from cookbook.topics.serving.service import serve
from cookbook.units import human
from cookbook.workloads.zoo import Workload

TRAIN, TUNE, SERVE = TASKS = ("train", "fine-tune", "serve")
# Requests that are answered together, of which the most within the limit are taken.
BATCH_SIZES = tuple(2**power for power in range(11))
NEVER_IF_SLOW = "; no number of machines keeps the limits if the engine is as slow as its interval ends"
# A request waits for the batch before its own, and for its own.
BATCHES_WAITED = 2
UNSTEADY = "it does not stay: a service needs machines that nobody carries home or takes back"
UNTRAINED = "services fine-tune and serve language models only"
UNSERVED = "no list price of this network is in the table of services"
NO_DEADLINE = 1e15
# Cores of a machine where their number is unknown: they do not limit.
UNLIMITED_CORES = 1e4


@dataclass(frozen=True, repr=False)
class Wanted(Result):
    """Task, size and limits that a stack must serve.

    Attributes
    ----------
    application, task : str
    model : str or Workload
    data : str
        Card of the data set.
    samples, epochs, runs, passes : float
        Samples of an epoch, epochs of a run, runs per month, and passes of the network for a sample or a request.
    seq : float, optional
        Tokens of a sequence.
    rate, hours : float
        Requests per second, and hours per day in which the service is on.
    latency, tpot : float
        Longest time to an answer or its first token, and of each further token [s].
    prompt, answer : float
        Mean tokens of a request.
    years : float
        Horizon.
    region : str
    uplink : float
        Rate at which data leave the house [B/s].
    away : float
        Round trip of a request to machines in another building [s].
    since : int, optional
        First year of prices to count.
    prices : tuple of (str, float)
        The reader's own prices by stack.
    """

    application: str
    task: str
    model: str | Workload
    data: str
    samples: float
    epochs: float
    runs: float
    passes: float
    seq: float | None
    rate: float
    hours: float
    latency: float
    tpot: float
    prompt: float
    answer: float
    years: float
    region: str
    uplink: float
    away: float
    since: int | None
    prices: tuple[tuple[str, float], ...] = ()

    @property
    def data_bytes(self) -> float:
        """Stored data of all samples [B]."""
        card = card_of(self.data)
        return float(card["stored_bytes"]) * self.samples / float(card["samples"])

    def job(self) -> Task:
        """Return the job whose costs are counted: of a service a month of requests, which are no data to move."""
        serves = self.task == SERVE
        return Task(
            model=self.model,
            samples=self.rate * self.seconds if serves else self.samples * self.passes,
            epochs=1.0 if serves else self.epochs,
            batch=None,
            seq=self.prompt + self.answer if serves else self.seq,
            data_bytes=0.0 if serves else self.data_bytes,
            uplink=self.uplink,
            runs=1.0 if serves else self.runs,
            years=self.years,
            deadline=NO_DEADLINE,
            region=self.region,
            private="anywhere",
        )

    @property
    def seconds(self) -> float:
        """Seconds of a month in which the service is on, a hair less than all of them."""
        return self.hours / 24 * HOURS_PER_YEAR / MONTHS * HOUR * (1 - 1e-9)


@dataclass(frozen=True, eq=False, repr=False)
class Candidate(Result):
    """A stack for one task.

    Attributes
    ----------
    key, name : str
    place : Place
        With all that its cost rests on.
    row : mapping
        Its row of the table.
    need : float
        Machines before rounding up; 1 for training.
    least, most : int
        Machines with the fast and the slow end of the 80 % interval.
    latency : float
        Time to an answer, or to its first token, the way to the user included [s].
    limit, software : str
        Its bottleneck, and its software.
    used : float
        Part of the time that storage and host let accelerators compute.
    why : str
        Why it cannot do the task at all.
    """

    key: str
    name: str
    place: Place = field(repr=False)
    row: Mapping[str, Any] = field(repr=False)
    need: float = 1.0
    least: int = 1
    most: int = 1
    latency: float = math.nan
    limit: str = ""
    software: str = ""
    used: float = 1.0
    why: str = ""


@lru_cache(maxsize=64)
def card_of(data: str) -> dict[str, Any]:
    """Return a row of the table ``data_sets``."""
    row: dict[str, Any] = catalog.table("data_sets").set_index("key").loc[data].to_dict()
    return row


@lru_cache(maxsize=1)
def stack_rows() -> dict[str, dict[str, Any]]:
    """Return rows of the table ``stacks`` by key, with the kind and rules of their places."""
    places = catalog.table("places").set_index("key")
    rows = catalog.table("stacks").to_dict("records")
    return {row["key"]: row | places.loc[row["place"], ["way", "data_at", "kind"]].to_dict() for row in rows}


@lru_cache(maxsize=32)
def candidates(wanted: Wanted) -> tuple[Candidate, ...]:
    """Return every stack of the table, as large as the task needs it."""
    if wanted.task != SERVE:
        return tuple(_fed(wanted, [_trained(wanted, row) for row in stack_rows().values()]))
    speaks = answers_tokens(sites.network_of(wanted.model))
    answered = _spoken(wanted) if speaks else _answered(wanted)
    return tuple(
        _service(wanted, row, speaks) if row["way"] == PER_TOKEN else _served(wanted, row, answered)
        for row in stack_rows().values()
    )


def _row(row: Mapping[str, Any], machines: int | None = None) -> tuple[tuple[str, Any], ...]:
    """Return the row of the place with a number of machines of the stack."""
    base = dict(sites.place_row(row["place"]))
    if row["way"] != PER_TOKEN:
        base |= {name: row[name] for name in ("device", "devices", "machines")}
        base |= {"system": row["system"] if row["way"] == BOUGHT else ""}
        base |= {"machines": machines} if machines else {}
    return tuple({**base, "key": row["key"], "name": row["name"]}.items())


def _read(wanted: Wanted, row: Mapping[str, Any], batch: int | None, machines: int | None = None) -> Place:
    own = dict(wanted.prices)
    return sites.read_place(
        _row(row, machines),
        wanted.model,
        batch,
        wanted.seq if wanted.task != SERVE else None,
        wanted.region,
        wanted.since,
        own.get(row["key"]),
        own.get(sites.ELECTRICITY),
    )


def _unpriced(place: Place) -> str:
    """Return why no cost is known of a place, whatever it computes; "" where one is."""
    prices = [place.figures["price"], *([place.figures["tariff"]] if place.way == BOUGHT else [])]
    return next((price.why for price in prices if price.why), "")


def _trained(wanted: Wanted, row: Mapping[str, Any]) -> Candidate:
    """Return one stack that trains, before the limits of storage and host."""
    service = row["way"] == PER_TOKEN
    place = _read(wanted, row, None)
    if service:
        return Candidate(row["key"], row["name"], place, row, why=place.why)
    if wanted.task == TUNE and sites.language_model(wanted.model):
        return _tuned(wanted, row, place)
    if place.why:
        return Candidate(row["key"], row["name"], place, row, why=place.why)
    shards = {"zero": 3} if place.devices > 1 and sites.language_model(wanted.model) else {}
    step = train_step(
        wanted.model, row["device"], {"devices": place.devices, "micro_batch": place.batch, **shards}, seq=wanted.seq
    )
    limit = str(np.ravel(step.bottleneck)[0]).replace("_", " ")
    return Candidate(row["key"], row["name"], place, row, limit=limit, software=_software(step.assumed))


def _software(assumed: Any) -> str:
    """Return the engine among the assumptions of an estimate."""
    values = (assumed if isinstance(assumed, Assumptions) else assumed.flat[0]).taken
    return str(values.get("software", "")).partition(" (")[0]


def _tuned(wanted: Wanted, row: Mapping[str, Any], place: Place) -> Candidate:
    """Return a stack that fine-tunes a language model by adapters: the faster of LoRA and QLoRA that fits."""
    try:
        tuned = finetune(
            wanted.model,
            row["device"],
            method=["lora", "qlora"],
            devices=place.devices,
            seq=int(wanted.seq) if wanted.seq else None,
        )
    except ValueError as problem:
        return Candidate(row["key"], row["name"], place, row, why=str(problem)[:200])
    table = tuned.table
    able = table[(table["memory_bytes"] <= table["capacity_bytes"]) & table["step_seconds"].notna()]
    if able.empty:
        return Candidate(row["key"], row["name"], place, row, why=str(table["why"].iloc[-1])[:200])
    best = able.loc[able["tokens_per_second"].idxmax()]
    step = Price(float(best["step_low"]), float(best["step_seconds"]), float(best["step_high"]), "s")
    place = replace(
        place,
        figures={**place.figures, "step": step},
        why=_unpriced(place),
        active=1.0,
        batch=int(best["global_batch"]) // place.devices,
        tier=place.tier or "adapters",
    )
    return Candidate(
        row["key"],
        row["name"],
        place,
        row,
        limit="compute",
        why=place.why,
        software=f"transformers, {'LoRA' if best['method'] == 'lora' else 'QLoRA'}",
    )


def _fed(wanted: Wanted, candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates with steps as long as storage and host make them, computed for all stacks at once."""
    able = [candidate for candidate in candidates if not candidate.why and candidate.place.way != PER_TOKEN]
    if not able:
        return candidates
    cores = [_cores(candidate.row) for candidate in able]
    batches = [max(round(candidate.place.batch / wanted.passes), 1) for candidate in able]
    match = match_storage(
        [float(candidate.place.figures["step"].median) for candidate in able],
        [candidate.row["system"] or candidate.row["device"] for candidate in able],
        [candidate.row["storage"] for candidate in able],
        [wanted.data] * len(able),
        batch=batches,
        accelerators=[candidate.place.devices for candidate in able],
        hosts=[candidate.place.machines for candidate in able],
        cores=cores,
    )
    fed, stages = {}, np.minimum.reduce([match.stages[name] for name in ("reading", "decoding", "copying")])
    for at, candidate in enumerate(able):
        used, step = float(match.utilisation[at]), candidate.place.figures["step"]
        if not used > 0:
            fed[candidate.key] = replace(candidate, why=str(match.why[at]) or "no rate of its storage is known")
            continue
        slow, input_seconds = float(step.median) / used, batches[at] * candidate.place.devices / float(stages[at])
        step = replace(
            step, low=max(float(step.low), min(input_seconds, slow)), median=slow, high=max(float(step.high), slow)
        )
        place = replace(
            candidate.place, figures={**candidate.place.figures, "step": step}, active=candidate.place.active * used
        )
        limit = candidate.limit if str(match.bottleneck[at]) == "accelerators" else str(match.bottleneck[at])
        fed[candidate.key] = replace(candidate, place=place, used=used, limit=limit)
    return [fed.get(candidate.key, candidate) for candidate in candidates]


def _cores(row: Mapping[str, Any]) -> float:
    """Return physical cores of one machine: of its system, else of the row; `UNLIMITED_CORES` where unknown."""
    cores = _system_cores(row["system"]) if row["system"] else float(row["cores"])
    return cores if cores > 0 else UNLIMITED_CORES


@lru_cache(maxsize=64)
def _system_cores(system: str) -> float:
    return float(server(hardware.machine(system))[0]["cores"])


def away(wanted: Wanted, row: Mapping[str, Any]) -> float:
    """Return the round trip of a request to a stack [s]."""
    return constant("stack-round-trip-house") if row["data_at"] == "house" else wanted.away


def _answered(wanted: Wanted) -> dict[str, dict[str, np.ndarray]]:
    """Return seconds of a batch, with its interval, over batches, of each accelerator of the table."""
    names = list(dict.fromkeys(row["device"] for row in stack_rows().values() if row["device"]))
    sizes = [round(wanted.passes * requests) for requests in BATCH_SIZES]
    answer = forward_pass(wanted.model, [name for name in names for _ in sizes], batch=sizes * len(names))
    columns = {
        "point": answer.point,
        "low": answer.low80,
        "high": answer.high80,
        "fits": answer.fits,
        "active": active_seconds(answer) / answer.point,
        "why": np.asarray(answer.why, dtype=object),
        "tier": np.asarray(answer.tier, dtype=object),
        "assumed": np.asarray(answer.assumed, dtype=object),
        "limit": answer.bottleneck,
    }
    cut = {
        name: np.broadcast_to(values, len(names) * len(sizes)).reshape(len(names), -1)
        for name, values in columns.items()
    }
    return {name: {what: values[at] for what, values in cut.items()} for at, name in enumerate(names)}


def _spoken(wanted: Wanted) -> dict[str, dict[str, Any]]:
    """Return the fewest devices of each accelerator that keep the limits of a chat; where none do, without limits."""
    names = list(dict.fromkeys(row["device"] for row in stack_rows().values() if row["device"]))
    load = {"rate": wanted.rate, "input_len": wanted.prompt, "output_len": wanted.answer}
    left = wanted.latency - wanted.away
    by_device: dict[str, dict[str, Any]] = {}
    for limits in ({"ttft": left, "tpot": wanted.tpot}, {}):
        missing = [name for name in names if not by_device.get(name, {}).get("meets")]
        if not missing or (limits and left <= 0):
            continue
        for row in _rows_of(wanted.model, missing, {**load, **limits}):
            by_device[row["accelerator"]] = row if limits or row["why"] else {**row, "meets": False}
    return by_device


def _rows_of(model: str | Workload, names: list[str], load: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return list(serve(model, names, **load).rows)
    except ValueError as problem:
        return [{"accelerator": name, "why": str(problem)[:200], "meets": False} for name in names]


def _served(wanted: Wanted, row: Mapping[str, Any], answered: Mapping[str, Any]) -> Candidate:
    """Return one stack with as many machines as the requests need."""
    answer = answered[row["device"]]
    size = _language(wanted, row, answer) if "accelerator" in answer else _batched(wanted, row, answer)
    why = UNSTEADY if row["serves"] == "no" else size["why"]
    machines = 1 if why else max(math.ceil(size["need"] - 1e-9), 1)
    place = _read(wanted, row, 1, machines)
    if why:
        return Candidate(row["key"], row["name"], replace(place, why=why), row, why=why)
    busy = size["need"] / machines
    every = wanted.seconds * size["batch"] * place.devices / (wanted.rate * wanted.seconds)
    figures = {**place.figures, "step": Price(every, every, every, "s")}
    place = replace(
        place,
        batch=size["batch"],
        active=min(size["active"] * busy, 1.0),
        tier=size["tier"],
        figures=figures,
        why=_unpriced(place),
    )
    ends = [max(math.ceil(size["need"] * size[end] - 1e-9), 1) for end in ("fast", "slow")]
    return Candidate(
        row["key"],
        row["name"],
        place,
        row,
        need=size["need"],
        least=min(ends[0], machines),
        most=max(ends[1], machines),
        latency=size["latency"],
        limit=size["limit"],
        software=size["software"],
        why=place.why,
    )


def _batched(wanted: Wanted, row: Mapping[str, Any], answer: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return machines of a network that answers batches: the largest batch whose wait is within the limit."""
    able = np.isfinite(answer["point"]) & (answer["fits"] != "no")
    if not able[0]:
        return {"why": str(answer["why"][0]) or "one request does not fit in its memory"}
    trip = away(wanted, row)
    waits = BATCHES_WAITED * answer["point"] + trip
    good = np.flatnonzero(able & (waits <= wanted.latency))
    rates = np.array(BATCH_SIZES) / answer["point"]
    at = int(good[np.argmax(rates[good])]) if len(good) else 0
    need = wanted.rate / (constant("stack-busy") * rates[at]) / float(row["devices"])
    return {
        "why": "",
        "need": need,
        "batch": BATCH_SIZES[at],
        "latency": float(waits[at]),
        "fast": float(answer["low"][at] / answer["point"][at]),
        "slow": float(answer["high"][at] / answer["point"][at]),
        "active": float(answer["active"][at]) * constant("stack-busy"),
        "tier": str(answer["tier"][at]),
        "limit": str(answer["limit"][at]),
        "software": _software(answer["assumed"][at]),
    }


def _language(wanted: Wanted, row: Mapping[str, Any], served: Mapping[str, Any]) -> dict[str, Any]:
    """Return machines of a language model: those of the service that keeps the limits."""
    if served["why"]:
        return {"why": served["why"]}
    engine, per_machine = int(served["tp"]) * int(served["pp"]), int(row["devices"])
    if engine > per_machine:
        return {"why": f"one copy of the weights takes {engine} accelerators, and one machine has {per_machine}"}
    fewest = max(int(served["devices"]), 1)
    # Where no number keeps the limits at one end, that of the median stands for it, and the limit says so.
    fast, slow = (float(served[f"devices_{end}"]) / fewest for end in ("fast", "slow"))
    late = max(float(served["tpot_p95"]) / wanted.tpot, 1.0) if not served["meets"] and wanted.tpot > 0 else 1.0
    first = max(float(served["ttft_p95"]) + away(wanted, row), wanted.latency * late if late > 1 else 0.0)
    return {
        "why": "",
        "need": fewest / per_machine,
        "batch": 1,
        "latency": first,
        "fast": fast if math.isfinite(fast) else 1.0,
        "slow": slow if math.isfinite(slow) else 1.0,
        "active": min(float(served["busy"]), 1.0),
        "tier": str(served["tier"]),
        "limit": str(served["binds"]) + ("" if math.isfinite(slow) else NEVER_IF_SLOW),
        "software": "vllm",
    }


def _service(wanted: Wanted, row: Mapping[str, Any], speaks: bool) -> Candidate:
    """Return a provider of the model itself, paid by the token; the time of an answer is not published."""
    place = _read(wanted, row, 1)
    prices = catalog.table("api_prices")
    prices = (
        prices[prices["model"] == (wanted.model if isinstance(wanted.model, str) else "")] if speaks else prices[:0]
    )
    if prices.empty:
        why = UNSERVED if speaks else UNTRAINED
        return Candidate(row["key"], row["name"], replace(place, why=why), row, why=why)
    tokens = wanted.prompt + wanted.answer
    usd = np.asarray((prices["usd_input"] * wanted.prompt + prices["usd_output"] * wanted.answer) / tokens, dtype=float)
    dates = sorted(prices["date"])
    price = Price(
        float(usd.min()),
        float(np.median(usd)),
        float(usd.max()),
        "USD/million tokens",
        dates[0],
        dates[-1],
        len(usd),
        tuple(dict.fromkeys(";".join(prices["source"]).split(";"))),
    )
    return Candidate(
        row["key"], row["name"], replace(place, figures={"price": price}, why=""), row, software="the provider's"
    )


def told_time(seconds: float) -> str:
    """Return a time, or that it is not published."""
    return human(seconds, "s") if math.isfinite(seconds) else "not stated"
