"""Whether the inside of one machine feeds its accelerators: computing, decoding and links beside one another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, hardware
from cookbook.host import Topology, topology
from cookbook.performance.collectives import ring_all_reduce_seconds
from cookbook.prediction.doors import train_step
from cookbook.prediction.match import match_storage
from cookbook.prediction.match_words import check_pair, data_set, server
from cookbook.prediction.requirements import sizes_of
from cookbook.prediction.storage import committed
from cookbook.prediction.terms.devices import TRAINING
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

    from cookbook.prediction.estimate import Estimate

TRAFFIC = ("memory", "storage", "gradients", "both")
LOADS = ("needed", "all they can")
STAGES = ("computing", "decoding", "links")
# Cores of one accelerator that are tried, and workers of one.
CORES = np.arange(1, 257) / 4
WORKERS = np.arange(1.0, 65.0)
# A storage that never limits, so that the chain shows what the host does.
BOUNDLESS = {"read_bandwidth": 1e15, "read_iops": 1e12, "local": 1}
# Part of the demand with which loads are counted before any link is full.
_LITTLE = 1e-6


@dataclass(frozen=True, eq=False)
class Traffic:
    """Flows inside a machine at the same time, and what becomes of them.

    Attributes
    ----------
    flows : list of (str, str)
        From and to.
    asked, got : numpy.ndarray
        Rate of the links that each flow asks for, and what it gets [B/s]; the same where links have room.
    inputs : int
        How many of the flows, the first, carry input; the others carry gradients.
    rings : list of int
        Flows of each ring.
    use : pandas.DataFrame
        As `Topology.traffic` gives it.
    """

    flows: list[tuple[str, str]]
    asked: np.ndarray
    got: np.ndarray
    inputs: int
    rings: list[int]
    use: pd.DataFrame = field(repr=False)

    @property
    def ring_got(self) -> float:
        """Rate of the exchange: of each ring its slowest flow, all rings together [B/s]; NaN without rings."""
        ends = self.inputs + np.cumsum([0, *self.rings])
        paces = [float(self.got[a:b].min()) for a, b in pairwise(ends)]
        return sum(paces) if paces else math.nan


@dataclass(frozen=True, eq=False)
class HostSize:
    """What each stage inside one machine can do for one accelerator, beside what the accelerator can take.

    Stages overlap, so that the slowest decides; what is said is what is possible at best.

    Attributes
    ----------
    machine : Topology
    step : float
        One step of an accelerator that never waits [s].
    batch : float
        Samples of that step.
    stages : dict of str to float
        Samples a second of one accelerator: computing; decoding, infinite where the traffic has none and NaN where the
        cores are not known; links, infinite without traffic.
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
        For one accelerator: physical cores that it has (NaN: not known), that would do with as many workers; workers
        chosen, and workers that would do on the cores there; infinite where no number does, NaN without decoding.
    curve : pandas.DataFrame
        cores (of one accelerator), rate with as many workers as cores, chosen (with the workers chosen) [1/s].
    memory, cacheable, stored : float
        Memory of the machine, the part that may cache data, and the data set [B]; NaN where not known.
    changes : dict of str to float
        Gain of twice the workers, cores (and workers), links, speed of the accelerators.
    processor : str
        As the catalogue states it.
    """

    machine: Topology
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
    curve: pd.DataFrame = field(repr=False)
    memory: float
    cacheable: float
    stored: float
    changes: Mapping[str, float]
    processor: str

    @property
    def limit(self) -> str:
        """The slowest stage."""
        known = {name: rate for name, rate in self.stages.items() if not math.isnan(rate)}
        return min(known, key=lambda name: known[name])

    @property
    def rate(self) -> float:
        """Samples a second of one accelerator, at best."""
        return self.stages[self.limit]


def size_host(
    machine: str | Topology,
    workload: str,
    data: Any,
    traffic: str = "both",
    *,
    load: str = "needed",
    batch: float = 64,
    workers: float = 2,
    cores: float | None = None,
    precision: str = "",
) -> HostSize:
    """What the inside of a machine gives its accelerators, beside what a network asks for.

    Parameters
    ----------
    machine : str or Topology
        As for `cookbook.topology`.
    workload : str
        A network of the zoo; gradients are as wide as the number format.
    data : str, float or mapping
        As for `cookbook.match_storage`.
    traffic : {"memory", "storage", "gradients", "both"}
        What crosses links: decoded samples from host memory; stored samples straight from drives, to be decoded on the
        accelerator; gradients alone (synthetic data); samples from memory and gradients.
    load : {"needed", "all they can"}
        Whether flows ask for what keeps accelerators busy, or for all that links give.
    batch : float
        Samples of one step of one accelerator.
    workers : float
        Loader processes of one accelerator.
    cores : float, optional
        Physical cores of one accelerator; those of the machine in the catalogue by default.
    precision : str
        As for `cookbook.train_step`.

    Raises
    ------
    cookbook.catalog.UnknownName
        A machine, network or data set that the catalogue does not have.
    ValueError
        A figure that cannot be, or traffic that the machine has no way for.

    Examples
    --------
    Two workers starve an H100, while its links are all but idle:

    >>> found = size_host("hgx-h100", "resnet50", "imagenet-1k")
    >>> found.limit, found.busiest[2] < 0.1
    ('decoding', True)
    """
    _check(traffic, load, workers, cores)
    box = topology(machine)
    check_pair(workload, data)
    card, known, count = data_set(data), committed(), len(box.named("accelerator"))
    step = _step(workload, box.accelerator, batch * card["images"], precision)
    carried = card["decoded_bytes"] if traffic != "storage" else card["stored_bytes"] / card["samples"]
    exchanged = _exchanged(workload, box.accelerator, precision, count)
    asked = 1 / step.point / known["copy_share"]
    needed = {"input": carried * batch * asked * (traffic != "gradients"),
              "exchange": exchanged * asked * (traffic in ("gradients", "both"))}  # fmt: skip
    flows = _traffic(box, traffic, needed["input"], needed["exchange"], load)
    busiest = _busiest(box, traffic, needed["input"], needed["exchange"])
    link = batch / step.point / busiest[2]
    about = _inside(box, count, cores)
    decoding = _decoding(box, step.point, batch, data, workers, about, count) if traffic in ("memory", "both") else None
    return _size(box, step, batch, (carried, exchanged), needed, flows, (link, busiest), about, decoding, workers, card)


def _check(traffic: str, load: str, workers: float, cores: float | None) -> None:
    for name, value, allowed in (("traffic", traffic, TRAFFIC), ("load", load, LOADS)):
        if value not in allowed:
            raise ValueError(f"{name} = {value!r} is not a choice; take one of {', '.join(allowed)}")
    for name, figure in (("workers", workers), ("cores", cores)):
        if figure is not None and not 0 < figure < math.inf:
            raise ValueError(f"{name} = {figure!r} is outside (0, inf): give more than zero for one accelerator")


@lru_cache(maxsize=64)
def _step(workload: str, device: str, batch: float, precision: str) -> Estimate:
    return train_step(workload, device, batch=batch, precision=precision)


def _exchanged(workload: str, device: str, precision: str, count: int) -> float:
    """Bytes that each accelerator sends in one all-reduce of all gradients."""
    offered = hardware.formats(hardware.accelerator(device))
    width = precision or next(name for name in TRAINING if name in offered)
    gradients = zoo.model(workload).ops.parameter_count * sizes_of(width, "sgd")[0].gradient
    return float(ring_all_reduce_seconds(gradients, count, 1, 0))


@lru_cache(maxsize=64)
def _traffic(box: Topology, traffic: str, sample: float, exchange: float, load: str) -> Traffic:
    """Flows of a kind of traffic, the input first, each asking for its part of the rates needed, or for all."""
    source = {"memory": "memory", "both": "memory", "storage": "storage"}.get(traffic)
    inputs = box.input_flows(source) if source else []
    rings = box.rings() if traffic in ("gradients", "both") else []
    if not inputs and not rings:
        raise ValueError(f"{box.name} has one accelerator: no gradients cross; set traffic to 'memory', the input")
    flows = [*inputs, *(flow for ring in rings for flow in ring)]
    each = exchange / max(len(rings), 1)
    asked = np.array([sample] * len(inputs) + [each] * (len(flows) - len(inputs)))
    asked = asked if load == LOADS[0] else np.full(len(flows), np.inf)
    lengths = [len(ring) for ring in rings]
    return Traffic(flows, asked, box.concurrent(flows, asked), len(inputs), lengths, box.traffic(flows, asked))


@lru_cache(maxsize=64)
def _busiest(box: Topology, traffic: str, sample: float, exchange: float) -> tuple[str, str, float]:
    """The link that fills first as all accelerators speed up, and its share at full demand."""
    use = _traffic(box, traffic, _LITTLE * sample, _LITTLE * exchange, LOADS[0]).use
    worst = use.loc[use["share"].idxmax()]
    return worst["from"], worst["to"], float(worst["share"]) / _LITTLE


def _inside(box: Topology, count: int, cores: float | None) -> dict[str, Any]:
    """Cores of one accelerator, memory and processor of the machine; NaN where the catalogue does not say."""
    rows = catalog.table("system_topologies").set_index("key")
    key = rows.loc[box.key, "system"] if box.key in rows.index else ""
    about: Mapping[str, Any] = server(key) if key else {}
    have = float(about.get("cores", math.nan)) / count if cores is None else float(cores)
    return {"cores": have, "memory": float(about.get("memory", math.nan)), "cpu": str(about.get("cpu", ""))}


def _decoding(
    box: Topology, step: float, batch: float, data: Any, workers: float, about: Mapping[str, Any], count: int
) -> dict[str, np.ndarray]:
    """Samples a second of one accelerator: over cores, over workers, and with twice of each."""
    here = about["cores"] if about["cores"] > 0 else math.nan
    have = CORES[CORES * count >= 1]
    tried = {
        "cores": (np.maximum(have, 1), have), "chosen": (np.full(len(have), workers), have),
        "workers": (WORKERS, np.full(len(WORKERS), here)), "now": (np.array([workers]), np.array([here])),
        "twice the workers": (np.array([2 * workers]), np.array([here])),
        "twice the cores": (np.array([2 * workers]), np.array([2 * here])),
    }  # fmt: skip
    asked, there = (np.concatenate([pair[at] for pair in tried.values()]) for at in (0, 1))
    usable = np.isfinite(there) & (there * count >= 1)
    card = {"card": data, "layout": "shards"} if isinstance(data, str) else data
    found = match_storage(
        step, box.accelerator, BOUNDLESS, card, batch=batch, accelerators=count, workers=asked,
        cores=np.where(usable, there * count, 1), memory=0, processor=about["cpu"],
    )  # fmt: skip
    rates = np.where(usable, found.stages["decoding"] / count, math.nan)
    ends = np.cumsum([len(pair[0]) for pair in tried.values()])[:-1]
    return {**dict(zip(tried, np.split(rates, ends), strict=True)), "grid": have}


def _first(tried: np.ndarray, rates: np.ndarray, demand: float) -> float:
    """The first that meets the demand; infinite where none does, NaN where nothing is known."""
    if np.isnan(rates).all():
        return math.nan
    enough = np.flatnonzero(rates >= demand)
    return float(tried[enough[0]]) if len(enough) else math.inf


def _size(
    box: Topology, step: Any, batch: float, carried: tuple[float, float], needed: Mapping[str, float], flows: Traffic,
    links: tuple[float, tuple[str, str, float]], about: Mapping[str, Any], decoding: dict[str, np.ndarray] | None,
    workers: float, card: Mapping[str, Any],
) -> HostSize:  # fmt: skip
    known, demand = committed(), batch / step.point
    decoded = math.inf if decoding is None else float(decoding["now"][0])
    stages = dict(zip(STAGES, (demand, decoded, links[0]), strict=True))
    reach = known["interval/decode/80"]
    return HostSize(
        machine=box, step=step.point, batch=batch, stages=stages,
        computing_range=(batch / step.high80, batch / step.low80), decoding_range=(decoded / reach, decoded * reach),
        input_bytes=carried[0], exchange_bytes=carried[1], input_needed=needed["input"],
        exchange_needed=needed["exchange"], traffic=flows, busiest=links[1], cores=about["cores"],
        cores_needed=math.nan if decoding is None else _first(decoding["grid"], decoding["cores"], demand),
        workers=workers,
        workers_needed=math.nan if decoding is None else _first(WORKERS, decoding["workers"], demand),
        curve=_curve(decoding), memory=about["memory"], cacheable=about["memory"] * known["memory_for_cache"],
        stored=float(card["stored_bytes"]), changes=_changes(stages, decoding), processor=about["cpu"],
    )  # fmt: skip


def _curve(decoding: dict[str, np.ndarray] | None) -> pd.DataFrame:
    import pandas as pd

    found = decoding or {name: np.array([]) for name in ("grid", "cores", "chosen")}
    return pd.DataFrame({"cores": found["grid"], "rate": found["cores"], "chosen": found["chosen"]})


def _changes(stages: Mapping[str, float], decoding: dict[str, np.ndarray] | None) -> dict[str, float]:
    """Gain of each change over now, when nothing else changes."""
    now = np.nanmin(list(stages.values()))
    tried = {name: {"decoding": float(decoding[name][0])} for name in ("twice the workers", "twice the cores")
             } if decoding is not None else {}  # fmt: skip
    tried |= {"links twice as wide": {"links": 2 * stages["links"]},
              "accelerators twice as fast": {"computing": 2 * stages["computing"]}}  # fmt: skip
    return {name: float(np.nanmin(list({**stages, **change}.values())) / now) for name, change in tried.items()}
