"""Input of the accelerators of one machine: computing, decoding and links beside one another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cookbook import hardware
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.refusals import Refusal, Refused
from cookbook.formulas.collectives import ring_all_reduce_seconds
from cookbook.hardware import Accelerator
from cookbook.hardware.topology import Topology, topology
from cookbook.prediction.api import MODEL, train_step
from cookbook.prediction.kinds.input_pipeline_arguments import committed, one_of, server
from cookbook.prediction.match import match_storage
from cookbook.prediction.precision import usual_precision
from cookbook.prediction.requirements import sizes_of
from cookbook.result import Result, plain
from cookbook.workloads import zoo

if TYPE_CHECKING:
    from cookbook.prediction.engine import Estimate

TRAFFIC = ("memory", "storage", "gradients", "both")
# Traffic that cores decode; drives send stored samples, which accelerators decode.
DECODED, EXCHANGED = ("memory", "both"), ("gradients", "both")
LOADS = ("needed", "all they can")
STAGES = ("computing", "decoding", "links")
# Cores of one accelerator that are tried, and workers of one.
CORES = np.arange(1, 257) / 4
WORKERS = np.arange(1.0, 65.0)
UNTRIED = np.array([])
CORES.flags.writeable = WORKERS.flags.writeable = UNTRIED.flags.writeable = False
# A storage that never limits, so that the chain shows what the host does.
BOUNDLESS = MappingProxyType({"read_bandwidth": 1e15, "read_iops": 1e12, "local": 1})
# Part of the demand with which loads are counted before any link is full.
_LIGHT_LOAD = 1e-6
MAX_COUNT = 1e6


@dataclass(frozen=True, eq=False)
class Traffic:
    """Flows inside a machine at the same time, and what becomes of them.

    Attributes
    ----------
    flows : tuple of (str, str)
        From and to.
    asked, got : numpy.ndarray
        Rate that each flow requests, and the rate that it gets [B/s]; the same where links are not full.
    inputs : int
        How many of the flows, the first, carry input; the others carry gradients.
    rings : tuple of int
        Flows of each ring.
    use : pandas.DataFrame
        As `Topology.traffic` gives it.
    """

    flows: tuple[tuple[str, str], ...]
    asked: np.ndarray = field(repr=False)
    got: np.ndarray = field(repr=False)
    inputs: int
    rings: tuple[int, ...]
    _use: pd.DataFrame = field(repr=False)

    @property
    def use(self) -> pd.DataFrame:
        """Load of every link and direction."""
        return self._use.copy()

    @property
    def ring_got(self) -> float:
        """Rate of gradient communication: the slowest flow of each ring, summed over rings [B/s]; NaN without rings."""
        ends = self.inputs + np.cumsum([0, *self.rings])
        paces = [float(self.got[a:b].min()) for a, b in pairwise(ends)]
        return sum(paces) if paces else math.nan


@dataclass(frozen=True, eq=False, repr=False)
class HostSize(Result):
    """Rates of each stage inside one machine for one accelerator, beside the rate that the accelerator can take.

    Stages overlap, so that the slowest one decides; the rates are the best possible ones.

    Attributes
    ----------
    machine : Topology
    accelerator : str
        Name of the accelerator that computes.
    step : float
        One step of an accelerator that never waits [s].
    batch : float
        Samples of that step.
    stages : mapping of str to float
        Samples per second of one accelerator: computing; decoding, infinite where the traffic has none and NaN where
        the cores are not known; links, infinite without traffic.
    computing_range, decoding_range : tuple of float
        80 % intervals of the first two [1/s].
    input_bytes, exchange_bytes : float
        Of one sample on the way to the accelerator, and of one step from each accelerator to the next [B].
    input_needed, exchange_needed : float
        Rate of links that keep an accelerator busy [B/s]: payload over the part of a nominal rate that copies reach.
    traffic : Traffic
        Under the chosen load.
    busiest : tuple
        From, to and share of the link that fills first, at full demand.
    cores, cores_needed, workers, workers_needed : float
        For one accelerator: physical cores that it has (NaN: not known), that would suffice with as many workers;
        workers chosen, and workers that would suffice on the cores there; infinite where no number does, NaN without
        decoding.
    tried : mapping of str to numpy.ndarray
        cores (of one accelerator), rate with as many workers as cores, chosen (with the workers chosen) [1/s].
    memory, cacheable, stored : float
        Memory of the machine, the part that may cache data, and the data set [B]; NaN where not known.
    changes : mapping of str to float
        Gain of twice the workers, cores (and workers), links, speed of the accelerators.
    processor : str
        As the catalogue states it.
    """

    _class_in_repr = False
    machine: Topology
    accelerator: str
    step: float
    batch: float
    stages: Mapping[str, float]
    computing_range: tuple[float, float]
    decoding_range: tuple[float, float]
    input_bytes: float
    exchange_bytes: float
    input_needed: float
    exchange_needed: float
    traffic: Traffic
    busiest: tuple[str, str, float]
    cores: float
    cores_needed: float
    workers: float
    workers_needed: float
    tried: Mapping[str, np.ndarray]
    memory: float
    cacheable: float
    stored: float
    changes: Mapping[str, float]
    processor: str

    @property
    def limit(self) -> str:
        """The slowest stage."""
        rated = {name: rate for name, rate in self.stages.items() if not math.isnan(rate)}
        return min(rated, key=lambda name: rated[name])

    @property
    def rate(self) -> float:
        """Samples per second of one accelerator, at best."""
        return self.stages[self.limit]

    @property
    def curve(self) -> pd.DataFrame:
        """The numbers of cores that were tried, as a table: cores, rate, chosen."""
        return pd.DataFrame(dict(self.tried))

    def frame(self) -> pd.DataFrame:
        """Return one row per stage: samples_per_s of one accelerator, its 80 % interval, and share of the demand."""
        ends = {"computing": self.computing_range, "decoding": self.decoding_range}
        rows = [
            (rate, *ends.get(name, (rate, rate)), rate / self.stages["computing"]) for name, rate in self.stages.items()
        ]
        return pd.DataFrame(
            rows, columns=["samples_per_s", "low", "high", "of_demand"], index=pd.Index(self.stages, name="stage")
        )

    def links(self) -> pd.DataFrame:
        """Return one row per link: ends, name, rate [B/s], use in its busier direction, and that of the other one."""
        use = {(way["from"], way["to"]): way for way in self.traffic.use.to_dict("records")}
        frame = self.machine.frame()
        links = frame[frame["part"] == "link"].drop(columns=["part", "kind", "x", "y", "x2", "y2"])
        pairs = [(use[a, b], use[b, a]) for a, b in zip(links["start"], links["end"], strict=True)]
        busier = [max(pair, key=lambda way: way["share"]) for pair in pairs]
        return links.assign(
            **{name: [way[name] for way in busier] for name in ("share", "used", "flows")},
            back=[min(way["used"] for way in pair) for pair in pairs],
        )

    def flows(self) -> pd.DataFrame:
        """Return rates of input and of gradient rings at each accelerator, beside those that keep it busy [B/s]."""
        flows = self.traffic
        names = [self.machine.spoken(flows.flows[place][1]) for place in range(flows.inputs)]
        rows = [(name, float(got), self.input_needed) for name, got in zip(names, flows.got, strict=False)]
        if flows.rings:
            rows.append(("gradients, all rings", flows.ring_got, self.exchange_needed))
        return pd.DataFrame(rows, columns=["flow", "got", "need"])

    def to_dict(self) -> dict[str, Any]:
        """Return figures by name, the machine by its key, traffic as the rows of `flows`; None where one is missing."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return plain(
            values | {"machine": self.machine.key, "rate": self.rate, "limit": self.limit, "traffic": self.flows()}
        )

    def summary(self) -> str:
        """Return the best rate of each accelerator, the rate that it can take, and the slowest stage, in words."""
        return (
            f"{self.machine.name}: {self.rate:,.4g} samples/s for each accelerator at best, of the "
            f"{self.stages['computing']:,.4g} that it can take; limit: {self.limit}"
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the stages as printed, by title."""
        table = self.frame().map("{:,.4g}".format).reset_index()
        return {"Stages": table.rename(columns={"samples_per_s": "samples/s", "of_demand": "of demand"})}


# Arguments of hosts: a machine, a network, a data set, and samples of a step of one accelerator.
MACHINE = Field.named("system_topologies", Topology, what="machine", give="a name as of cookbook.topology")
DATA = Field.record(
    str, int, float, Mapping, what="data set", give="one card, the bytes of a sample, or a mapping", later=True
)
BATCH = Field.number(1, MAX_COUNT)


@checked(
    machine=MACHINE,
    model=MODEL,
    data=DATA,
    traffic=Field.choice(*TRAFFIC),
    load=Field.choice(*LOADS),
    batch=BATCH,
    workers=Field.number(high=MAX_COUNT),
    cores=Field.number(high=MAX_COUNT),
    precision=Field.named("number_formats"),
    accelerator=Field.named("accelerators", Accelerator),
)
def size_host(
    machine: str | Topology,
    model: str | zoo.Workload,
    data: str | float | Mapping[str, Any],
    traffic: str = "both",
    *,
    load: str = "needed",
    batch: float = 64,
    workers: float = 2,
    cores: float | None = None,
    precision: str = "",
    accelerator: str | Accelerator | None = None,
) -> HostSize:
    """Return the rates that a machine gives its accelerators, beside those that a network needs.

    Parameters
    ----------
    machine : str or Topology
        As for `cookbook.topology`.
    model : str
        A network of the zoo, or one from `cookbook.model`; gradients are as wide as the precision.
    data : str, float or mapping
        As for `cookbook.match_storage`.
    traffic : {"memory", "storage", "gradients", "both"}
        What crosses links: decoded samples from host memory; stored samples straight from drives, to be decoded on the
        accelerator; gradients alone (synthetic data); samples from memory and gradients.
    load : {"needed", "all they can"}
        Whether flows request the rate that keeps accelerators busy, or all that links give.
    batch : float
        Samples of one step of one accelerator.
    workers : float
        Loader processes of one accelerator.
    cores : float, optional
        Physical cores of one accelerator; those of the machine in the catalogue by default.
    precision : str
        As for `cookbook.train_step`.
    accelerator : str or Accelerator, optional
        What computes in place of the machine's own accelerators, on the same links.

    Examples
    --------
    Two workers starve an H100, while its links are all but idle:

    >>> found = size_host("hgx-h100", "resnet50", "imagenet-1k")
    >>> found.limit, found.busiest[2] < 0.1
    ('decoding', True)
    """
    box, network = topology(machine), model
    device = box.accelerator if accelerator is None else accelerator
    card, constants, count = one_data_set(data, network), committed(), len(box.named("accelerator"))
    step = predicted(network, device, batch * card["images"], precision)
    demand = batch / step.point
    carried = card["decoded_bytes"] if traffic != "storage" else card["stored_bytes"] / card["samples"]
    exchanged = _exchanged(network, device, precision, count)
    rate = 1 / step.point / constants["copy_share"]
    needed = (carried * batch * rate * (traffic != "gradients"), exchanged * rate * (traffic in EXCHANGED))
    busiest = _busiest(box, traffic, *needed)
    about = _inside(box, count, cores)
    decoding = _decoding(box, device, step.point, batch, data, workers, about, count) if traffic in DECODED else {}
    decoded = float(decoding["now"][0]) if decoding else math.inf
    stages = dict(zip(STAGES, (demand, decoded, batch / step.point / busiest[2]), strict=True))
    tried, reach = _tried(decoding), constants["interval/decode/80"]
    return HostSize(
        machine=box,
        accelerator=device if isinstance(device, str) else device.name,
        step=step.point,
        batch=batch,
        stages=MappingProxyType(stages),
        computing_range=(batch / step.high80, batch / step.low80),
        decoding_range=(decoded / reach, decoded * reach),
        input_bytes=carried,
        exchange_bytes=exchanged,
        input_needed=needed[0],
        exchange_needed=needed[1],
        traffic=_traffic(box, traffic, *needed, load),
        busiest=busiest,
        cores=about["cores"],
        cores_needed=_first(tried["cores"], tried["rate"], demand),
        workers=workers,
        workers_needed=_first(WORKERS, decoding.get("workers", UNTRIED), demand),
        tried=tried,
        memory=about["memory"],
        cacheable=about["memory"] * constants["memory_for_cache"],
        stored=float(card["stored_bytes"]),
        changes=_changes(stages, decoding),
        processor=about["cpu"],
    )


def one_data_set(data: Any, workload: Any = None) -> dict[str, float]:
    """Return figures of one card or of one data set of the reader's own, which the workload takes."""
    if data is None or isinstance(data, (bool, list, tuple, np.ndarray)):
        raise replace(DATA, name="data").refuse(data, "is not one data set")
    return one_of("data", data, workload)


@lru_cache(maxsize=64)
def predicted(workload: Any, device: Any, batch: float, precision: str) -> Estimate:
    """Return the step that `cookbook.train_step` predicts; records of the reader's own are taken too."""
    return train_step(workload, device, micro_batch=batch, precision=precision)


def _exchanged(workload: Any, device: Any, precision: str, count: int) -> float:
    """Return bytes that each accelerator sends in one all-reduce of all gradients."""
    width = precision or usual_precision(hardware.machine(device), "training")
    network = zoo.model(workload) if isinstance(workload, str) else workload
    gradients = network.ops.parameter_count * sizes_of(width, "sgd")[0].gradient
    return float(ring_all_reduce_seconds(gradients, count, 1, 0))


@lru_cache(maxsize=64)
def _traffic(box: Topology, traffic: str, sample: float, exchange: float, load: str) -> Traffic:
    """Return flows of a kind of traffic, the input first, each asking for its part of the rates needed, or for all."""
    inputs = [] if traffic == "gradients" else box.input_flows("storage" if traffic == "storage" else "memory")
    rings = box.rings() if traffic in EXCHANGED else []
    if not inputs and not rings:
        reason = f"{box.name} has one accelerator: no gradients cross; set traffic to 'memory', the input"
        raise Refused(Refusal(reason, field="traffic"))
    flows = [*inputs, *(flow for ring in rings for flow in ring)]
    per_ring = exchange / max(len(rings), 1)
    requested = np.array([sample] * len(inputs) + [per_ring] * (len(flows) - len(inputs)))
    requested = requested if load == LOADS[0] else np.full(len(flows), np.inf)
    got = box.concurrent(flows, requested)
    requested.flags.writeable = got.flags.writeable = False
    return Traffic(tuple(flows), requested, got, len(inputs), tuple(map(len, rings)), box.traffic(flows, requested))


@lru_cache(maxsize=64)
def _busiest(box: Topology, traffic: str, sample: float, exchange: float) -> tuple[str, str, float]:
    """Return the link that fills first as all accelerators speed up, and its share at full demand."""
    use = _traffic(box, traffic, _LIGHT_LOAD * sample, _LIGHT_LOAD * exchange, LOADS[0]).use
    worst = use.loc[use["share"].idxmax()]
    return worst["from"], worst["to"], float(worst["share"]) / _LIGHT_LOAD


def _inside(box: Topology, count: int, cores: float | None) -> dict[str, Any]:
    """Return cores of one accelerator, memory and processor of the machine; NaN where the catalogue does not say."""
    about, words = server(hardware.machine(box.system) if box.system else "")
    return {"cores": about["cores"] / count if cores is None else cores, "memory": about["memory"], "cpu": words}


def _decoding(
    box: Topology,
    device: Any,
    step: float,
    batch: float,
    data: str | float | Mapping[str, Any],
    workers: float,
    about: Mapping[str, Any],
    count: int,
) -> dict[str, np.ndarray]:
    """Return samples per second of one accelerator: over cores, over workers, and with twice of each."""
    here = about["cores"] if about["cores"] > 0 else math.nan
    have = CORES[CORES * count >= 1]
    tried = {
        "cores": (np.maximum(have, 1), have),
        "chosen": (np.full(len(have), workers), have),
        "workers": (WORKERS, np.full(len(WORKERS), here)),
        "now": (np.array([workers]), np.array([here])),
        "twice the workers": (np.array([2 * workers]), np.array([here])),
        "twice the cores": (np.array([2 * workers]), np.array([2 * here])),
    }
    threads, there = (np.concatenate([pair[at] for pair in tried.values()]) for at in (0, 1))
    usable = np.isfinite(there) & (there * count >= 1)
    card = {"card": data, "layout": "shards"} if isinstance(data, str) else data
    match = match_storage(
        step,
        box.accelerator or device,
        BOUNDLESS,
        card,
        batch=batch,
        accelerators=count,
        workers=threads,
        cores=np.where(usable, there * count, 1),
        memory=0,
        processor=about["cpu"],
    )
    rates = np.where(usable, match.stages["decoding"] / count, math.nan)
    ends = np.cumsum([len(pair[0]) for pair in tried.values()])[:-1]
    return {**dict(zip(tried, np.split(rates, ends), strict=True)), "grid": have}


def _first(tried: np.ndarray, rates: np.ndarray, demand: float) -> float:
    """Return the first that meets the demand; infinite where none does, NaN where nothing is known."""
    if np.isnan(rates).all():
        return math.nan
    enough = np.flatnonzero(rates >= demand)
    return float(tried[enough[0]]) if len(enough) else math.inf


def _tried(decoding: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    sources = {"cores": "grid", "rate": "cores", "chosen": "chosen"}
    columns = {name: np.array(decoding.get(source, UNTRIED)) for name, source in sources.items()}
    for values in columns.values():
        values.flags.writeable = False
    return MappingProxyType(columns)


def _changes(stages: Mapping[str, float], decoding: Mapping[str, np.ndarray]) -> Mapping[str, float]:
    """Return the gain of each change over now, when nothing else changes."""
    now = np.nanmin(list(stages.values()))
    names = ("twice the workers", "twice the cores") if decoding else ()
    tried = {name: {"decoding": float(decoding[name][0])} for name in names}
    tried |= {
        "links twice as wide": {"links": 2 * stages["links"]},
        "accelerators twice as fast": {"computing": 2 * stages["computing"]},
    }
    gains = {name: float(np.nanmin(list({**stages, **change}.values())) / now) for name, change in tried.items()}
    return MappingProxyType(gains)
