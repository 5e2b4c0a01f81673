"""Working in parallel by formulas alone: a pipeline as an assembly line, a batch split over devices, named networks.

And what a layout whose axes are held must divide, with the nearest numbers that do: `check_layout`, `undivided`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.catalog.fields import MAX_DEVICES, MAX_SEQUENCES, MAX_TOKENS, Field, checked
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.formulas import collectives, parallelism
from cookbook.prediction.api import MODEL, network_of
from cookbook.prediction.fabrics import EXCHANGES, exchange_seconds, fabric
from cookbook.prediction.kinds.constraints import HELD, alternatives, around, divisors, multiples
from cookbook.result import Result, plain
from cookbook.workloads import zoo

PHASES = ("forward", "backward", "weight gradients")
# The backward pass computes two gradients, of inputs and of weights, each as much work as the forward pass.
BACKWARD = 2.0
# Arithmetic of a training step for each multiply-accumulate of the forward pass, and bytes of a 32-bit gradient.
STEP_FLOP, GRADIENT = 6, 4
# Each pass is placed by itself: more would take minutes.
MAX_PASSES = 2**17


@dataclass(frozen=True, eq=False, repr=False)
class AssemblyLine(Result):
    """One flush of a pipeline; read-only.

    Attributes
    ----------
    title : str
        Schedule, stages and micro-batches, as printed.
    passes : pandas.DataFrame
        One row per pass: device, micro_batch, chunk, phase (in words), start and end [s]. A copy each time.
    seconds : float
        From the first start to the last end [s].
    waiting : float
        Share of the devices' time in which they wait: the pipeline bubble [-].
    kept : float
        Most micro-batches whose activations one device keeps at a time [-].
    """

    _class_in_repr = False
    title: str
    _passes: pd.DataFrame = field(repr=False)
    seconds: float
    waiting: float
    kept: float

    @property
    def passes(self) -> pd.DataFrame:
        """One row per pass."""
        return self._passes.copy(deep=False)

    @property
    def devices(self) -> pd.DataFrame:
        """Each device: passes, start of the first and end of the last [s], and the share of the time it waits."""
        by_device = self._passes.assign(busy=self._passes["end"] - self._passes["start"]).groupby("device")
        table = by_device.agg(
            passes=("start", "size"), start=("start", "min"), end=("end", "max"), busy=("busy", "sum")
        )
        return table.assign(waiting=1 - table["busy"] / self.seconds).drop(columns="busy").reset_index()

    @property
    def shares(self) -> dict[str, float]:
        """Share of the devices' time by phase, and of waiting."""
        spent = (self._passes["end"] - self._passes["start"]).groupby(self._passes["phase"]).sum()
        spent = spent / spent.sum() * (1 - self.waiting)
        return {**{name: float(spent[name]) for name in PHASES if name in spent}, "waiting": self.waiting}

    def frame(self) -> pd.DataFrame:
        """Return the passes, in SI units."""
        return self.passes

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain Python values."""
        return plain(
            {**{name: getattr(self, name) for name in ("title", "seconds", "waiting", "kept")}, "passes": self._passes}
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the devices as printed, by title."""
        table = self.devices
        table = table.assign(device=table["device"] + 1, waiting=table["waiting"].map(units.percent))
        return {"Devices": table.rename(columns={"start": "start [s]", "end": "end [s]"})}

    def summary(self) -> str:
        """Return the schedule, the share of time that devices wait, and the activations that one keeps, in words."""
        return (
            f"{self.title}: devices wait {units.percent(self.waiting)} of the time; one keeps the activations of up to "
            f"{self.kept:g} micro-batches"
        )


@checked(
    schedule=Field.choice(*parallelism.SCHEDULES),
    stages=Field.count(),
    micro_batches=Field.count(),
    seconds=Field.number(1e-12, 1e9, unit="s"),
    interleave=Field.count(),
)
def assembly_line(
    schedule: str, stages: int, micro_batches: int, seconds: float | str = 1.0, interleave: int = 2
) -> AssemblyLine:
    """Return one flush of a pipeline with equal stages.

    Parameters
    ----------
    schedule : str
        "gpipe", "1f1b", "interleaved" or "zero-bubble".
    stages, micro_batches : int
        Devices in line, and what passes them between two updates; stages x micro-batches at most 65,536.
    seconds : float or str
        Forward pass of one micro-batch on one device [s]; the backward pass takes twice as long.
    interleave : int
        Chunks of layers on each device where the schedule is interleaved.

    Raises
    ------
    ValueError
        Numbers that the schedule cannot work with.

    Examples
    --------
    >>> line = assembly_line("1f1b", 4, 8)
    >>> round(line.waiting, 3), line.kept, assembly_line("gpipe", 4, 8).kept
    (0.273, 4.0, 8.0)
    """
    kind, depth, fed, forward = schedule, stages, micro_batches, float(seconds)
    chunks = interleave if kind == "interleaved" else 1
    if depth * fed * chunks > MAX_PASSES / 2:
        reason = f", micro_batches = {fed:,}: more than {MAX_PASSES // 2:,} passes each way; take fewer"
        raise refused("stages", depth, reason)
    plan = parallelism.schedule(kind, [forward] * depth, [BACKWARD * forward] * depth, fed, chunks)
    passes = pd.DataFrame(plan).astype({"device": int, "micro_batch": int, "chunk": int})
    end = float(passes["end"].max())
    waiting = 1 - float((passes["end"] - passes["start"]).sum()) / (depth * end)
    most_stored = max(_kept(rows) for _, rows in passes.groupby("device")) / chunks
    words = np.array(PHASES, dtype=object)[passes["phase"].astype(int)]
    return AssemblyLine(
        f"{kind}, {depth:,} stages, {fed:,} micro-batches", passes.assign(phase=words), end, waiting, most_stored
    )


def _kept(rows: pd.DataFrame) -> float:
    """Return the most passes of one device whose activations still wait for their last use."""
    last = rows["phase"].max()
    begun, freed = rows.loc[rows["phase"] == parallelism.FORWARD, "start"], rows.loc[rows["phase"] == last, "end"]
    events = sorted([*((at, 1) for at in begun), *((at, -1) for at in freed)])
    return float(np.max(np.cumsum([change for _, change in events])))


LINK = Field.record(tuple, list, what="link", give="a name and a rate, such as ('PCIe 3', '16 GB/s')")


@checked(
    model=MODEL,
    batch=Field.number(1, 1e24),
    flops=Field.number(high=1e24, unit="FLOP/s"),
    inner=LINK,
    outer=LINK,
    devices=Field.count(),
    node=Field.count(),
)
def split_batch(
    model: str | zoo.Workload,
    batch: float,
    flops: float | str,
    inner: tuple[str, float | str],
    outer: tuple[str, float | str],
    devices: int = 256,
    node: int = 8,
) -> pd.DataFrame:
    """Return the speed-up of one batch split over devices: the founding formula, a ring and a hierarchy, no overlap.

    Parameters
    ----------
    model : str or Workload
        A network; its gradients have 32 bits.
    batch : float
        Samples of one step of all devices together.
    flops : float or str
        Arithmetic rate that one device reaches [FLOP/s].
    inner, outer : (str, float or str)
        Name and rate [B/s] of the link of each device: within a node, and between nodes. The founding formula uses
        each alone, the ring the outer, the hierarchy both.
    devices, node : int
        End of the curves; devices that share a node.

    Returns
    -------
    pandas.DataFrame
        devices, speed_up, network (the way of summing): as `cookbook.charts.speedups` takes it.

    Examples
    --------
    >>> links = ("PCIe 3", "16 GB/s"), ("InfiniBand", "56 Gb/s")
    >>> curves = split_batch("alexnet", 1024, "4 TFLOP/s", *links, devices=64)
    >>> curves.groupby("network")["speed_up"].max().round().to_dict()
    {'2 w log2(p), InfiniBand': 3.0, '2 w log2(p), PCIe 3': 6.0, 'hierarchical': 22.0, 'ring, InfiniBand': 13.0}
    """
    samples, rate, joined, most = batch, float(flops), node, devices
    (near, inside), (far, between) = _link("inner", inner), _link("outer", outer)
    network = network_of(model)
    counts = np.array([2**power for power in range(most.bit_length())])
    weights = GRADIENT * network.ops.parameter_count
    seconds = {
        f"2 w log2(p), {name}": parallelism.hpe_2017_data_parallel_seconds(0, weights, counts, 1, link)["exchange"]
        for name, link in ((near, inside), (far, between))
    }
    levels = np.minimum(counts, joined), np.maximum(counts / joined, 1)
    seconds |= {
        f"ring, {far}": collectives.ring_all_reduce_seconds(weights, counts, between, 0),
        "hierarchical": collectives.hierarchical_all_reduce_seconds(weights, *levels, inside, between, 0, 0),
    }
    alone = STEP_FLOP * samples * network.ops.total("macs", 1, network.seq) / rate
    return pd.concat(
        [
            pd.DataFrame({"devices": counts, "speed_up": alone / (alone / counts + wait), "network": name})
            for name, wait in seconds.items()
        ],
        ignore_index=True,
    )


def _link(name: str, value: Any) -> tuple[str, float]:
    """Name and rate [B/s] of a link."""
    if not (len(value) == 2 and isinstance(value[0], str)):
        raise replace(LINK, name=name).refuse(value, "is no link")
    return value[0][:60], Field.number(high=1e24, unit="B/s").read(value[1], name)


@checked(
    devices=Field.count(), payload_bytes=Field.number(high=1e24, unit="B"), fabrics=Field.named("fabrics", many=True)
)
def exchange_times(devices: int, payload_bytes: float | str, fabrics: Sequence[str] = ()) -> pd.DataFrame:
    """Time of each exchange among the first devices of each network.

    Parameters
    ----------
    devices : int
        Devices that take part.
    payload_bytes : float or str
        Vector held by each device, or the whole that is gathered [B].
    fabrics : sequence of str
        Networks of the table ``fabrics``; all that have this number of devices by default.

    Returns
    -------
    pandas.DataFrame
        One row per network and exchange: ``fabric``, ``exchange``, ``seconds``, ``bus_bandwidth`` (what a device would
        need on its only link for the same time) and ``bisection_bandwidth`` (nominal) [B/s].

    Raises
    ------
    cookbook.catalog.UnknownName
        A network that the catalogue does not have.
    ValueError
        More devices than a named network has.

    Examples
    --------
    >>> found = exchange_times(1024, 1e9, ["SuperPOD H100", "Meta RoCE"])
    >>> found.groupby("exchange")["seconds"].nunique().to_dict()  # 1,024 are in one pod: nothing is oversubscribed
    {'all_gather': 1, 'all_reduce': 1, 'all_to_all': 1, 'reduce_scatter': 1}
    """
    count, payload = devices, float(payload_bytes)
    table = catalog.table("fabrics")
    rows = []
    for network in map(fabric, fabrics or table.loc[~(table["largest"] < count), "key"]):
        for kind in EXCHANGES:
            seconds = exchange_seconds(kind, payload, count, network)
            moved = (2 if kind == "all_reduce" else 1) * (count - 1) / count * payload
            bus = moved / seconds if seconds > 0 else np.nan
            rows.append((network.name, kind, seconds, bus, network.bisection_bandwidth(count)))
    return pd.DataFrame(rows, columns=["fabric", "exchange", "seconds", "bus_bandwidth", "bisection_bandwidth"])


# How far to look for a number that can be divided, as a multiple of the requested number.
MAX_RATIO = 2
SIZES = ("tp", "pp", "vp", "cp", "ep", "dp", "micro_batch")


def check_layout(layout: Mapping[str, Any], shape: Mapping[str, int], devices: int, batch: int, seq: float) -> None:
    """Refuse a layout (some of `SIZES`) that does not divide the network (`shape`), devices, batch and sequence.

    ValueError: which number does not divide which, and the nearest that does.
    """
    most = {"micro_batch": MAX_SEQUENCES, "cp": MAX_TOKENS}
    axes = {name: Field.count(high=most.get(name, MAX_DEVICES)).read(layout.get(name, 1), name) for name in SIZES}
    names = [name for name in ("tp", "pp", "cp", "dp") if name in layout]
    model = math.prod(axes[name] for name in names)
    if {"tp", "pp", "cp"} <= set(layout) and "dp" not in layout:
        axes["dp"] = max(devices // model, 1)
    sizes = {"experts": max(shape["experts"], 1), "seq": int(seq), "devices": devices, "global_batch": batch}
    held = SimpleNamespace(**{**shape, **axes, **sizes}, broken=0, split=" x ".join(names), model=model)
    for constraint in HELD:
        if constraint.broken(held):
            raise Refused(constraint.refusal(held))


def undivided(devices: int, batch: int, shards: list[int], shape: Mapping[str, int]) -> Refusal:
    """Return why devices and batch cannot be divided, with the nearest that can; "" where some layout divides them.

    `shards` are the ways to split the network: every tp x pp x cp that the search tries.
    """
    replicas = [devices // size for size in shards if devices % size == 0]
    if any(batch % count == 0 for count in replicas):
        return Refusal()
    counts = {size * share for size in shards for share in divisors(batch)}
    fewer = around(devices, (count for count in counts if count <= MAX_RATIO * devices))
    other = around(batch, (size for share in replicas for size in multiples(batch, share) if size <= MAX_RATIO * batch))
    remedies = [f"{alternatives(fewer, ',')} devices"] if fewer else []
    remedies += [f"a batch of {alternatives(other, ',')}"] if other else []
    words = (
        f"devices = {devices:,} cannot share {shape['heads']:,} heads, {shape['layers']:,} layers and global_batch = "
        f"{batch:,} evenly; nearest: {', or '.join(remedies) or 'none'}"
    )
    return Refusal(words, "split-not-devices", "devices", fewer)
