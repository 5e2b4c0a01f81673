"""One workload on many accelerators: throughput, energy and cost with intervals, memory, and what is missing.

And how fast accelerators grow: straight lines through the logarithms of what they offer, over the dates of launch
(`milestones`, `growth_rates`, `growth_lines`, `least_squares_growth`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.prices import HOUR, SINCE_YEAR, WAY, hourly_usd
from cookbook.catalog.refusals import code_of
from cookbook.evidence import student_t
from cookbook.formulas import arithmetic, memory
from cookbook.formulas.arithmetic import FLOP_PER_MAC
from cookbook.hardware import Accelerator
from cookbook.prediction.api import ACCELERATORS, FORMAT, MODEL, forward_pass, network_of, train_step
from cookbook.prediction.constants import FIRST_TOKEN, NEW_ENGINE, SEEN
from cookbook.prediction.constants import SIBLING as NEARBY
from cookbook.prediction.engine import Estimate
from cookbook.prediction.measurements import Measurement
from cookbook.prediction.requirements import (
    LENGTH,
    Sizes,
    activations,
    checked_seq,
    memory_parts,
    roofline_table,
    sizes_of,
)
from cookbook.result import Result
from cookbook.topics.costs.cost import active_seconds, power_watts, shares
from cookbook.workloads.zoo import Workload

PHASES = ("training", "inference")
PASSES = {"training": 3, "inference": 1}
MEASURED, SIBLING, DATASHEET = "measured here", "sibling measured", "datasheet only"
MILLION = 1e6
# What a cost or an energy and its ends are computed with: the end of prices and power, and that of the rate.
ENDS = {"": ("median", "samples_per_s"), "_low": ("low", "high"), "_high": ("high", "low")}
# Optimiser of memory, where the prediction does not say: the one that most measured runs of such networks use.
OPTIMISER = "momentum"


DEVICE = Field.named("accelerators", Accelerator)
SAMPLES = Field.count(high=1e9)


@checked(
    model=MODEL,
    accelerators=ACCELERATORS,
    phase=Field.choice(*PHASES),
    batch=SAMPLES,
    precision=FORMAT,
    software=Field.text(),
    seq=LENGTH,
    way=WAY,
    since=SINCE_YEAR,
    neighbours=Field.flag(),
)
def compare(
    model: str | Workload = "resnet50",
    accelerators: Iterable[str | Accelerator] | None = None,
    *,
    phase: str = "training",
    batch: int = 32,
    precision: str = "",
    software: str = "",
    seq: float | None = None,
    way: str = "on demand",
    since: int | None = None,
    neighbours: bool = True,
) -> pd.DataFrame:
    """Compare one workload on one device of each requested kind.

    Parameters
    ----------
    model : str or Workload
        A network of the zoo, or one of the reader's own; of a language model inference is one pass over a prompt.
    accelerators : iterable of str or Accelerator, optional
        Names of the table or records of your own, of which no price is known; all of the table by default.
    phase : {"training", "inference"}
        A training step, or a forward pass of a batch.
    batch : int
        Samples of one pass.
    precision : str
        Row of the table ``number_formats``; by default what `cookbook.train_step` or `cookbook.forward_pass` takes.
    software : str
        A product or a level of the table ``software``, such as "TensorRT"; the usual one of each device by default.
    seq : float, optional
        Sequence length [tokens], where the network has one.
    way : str
        Way to pay, as for `hourly_usd`.
    since : int, optional
        First year of prices to count; the newest twelve months of each if not given.
    neighbours : bool
        Whether similar measurements correct the points.

    Returns
    -------
    pandas.DataFrame
        One row per device, in order: key, name, kind, precision and all formats that it has a peak in;
        samples_per_s with its 80 % interval (low, high), and of networks that read sequences tokens_per_s likewise;
        evidence ("measured here", "sibling measured", "datasheet only") and tier; peak_flops, mem_bandwidth and
        share_of_peak (FLOP that the network defines over what the peak could do; Winograd may exceed 1);
        memory_bytes needed, capacity_bytes, fits ("yes", "no", "not known"); watts, joules a sample and usd_per_million
        samples, each with _low and _high; price_first, price_last, price_rows; and why, why_usd, why_joules where a
        figure is missing. Missing is NaN, never 0. Also "compute seconds" and so on: time of a pass by part [s].

    Raises
    ------
    ValueError
        An argument out of range; the message says what is allowed. A device that cannot run it is no error: it has a
        row and a reason.
    cookbook.catalog.UnknownName
        A network, device or number format that no table has.

    Examples
    --------
    >>> table = compare("resnet50", ["v100-sxm2-16gb", "alveo-u250"], precision="fp32")
    >>> table["why"].tolist()
    ['', 'Alveo U250 trains nothing: devices of its kind run trained networks alone; choose inference']
    """
    network, size = network_of(model), batch
    length = checked_seq(network, seq)
    wanted = catalog.lookup("number_formats", precision) if precision else ""
    records = records_of(accelerators)
    table = hardware.accelerator_table(records)
    how = {"software": software or None, "seq": seq, "neighbours": neighbours}
    columns = _rates(network, records, wanted, phase, size, **how)
    columns |= _tokens(columns, length if network.ops.needs_seq else None)
    columns |= _work(network, table, columns, phase, size, length)
    columns |= _memory(network, table, columns, phase, size, length)
    columns |= _energy(table, columns)
    columns |= _cost(table, records, columns, way, since)
    return pd.DataFrame(
        {**{name: table[name] for name in ("key", "name", "kind")}, **columns, "sources": [*table["sources"]]}
    )


def records_of(accelerators: Any) -> list[str | Accelerator]:
    """Return the requested names and records; all of the table where none are."""
    if accelerators is None:
        return catalog.table("accelerators")["key"].tolist()
    return list(ACCELERATORS.read(accelerators))


def _passes(phase: str, model: str | Workload, devices: Any, batch: int, **how: Any) -> Estimate:
    """Return steps of training, or forward passes of inference."""
    if phase == "training":
        return train_step(model, devices, micro_batch=batch, **how)
    return forward_pass(model, devices, batch=batch, **how)


def _rates(network: Workload, records: list[Any], wanted: str, phase: str, batch: int, **how: Any) -> dict[str, Any]:
    """Return samples per second of all devices, with their interval; the format of each, and all that it has."""
    # Of several devices one that cannot has a reason; a single one would raise it.
    devices = records * (2 if len(records) == 1 else 1)
    steps = _passes(phase, network, devices, batch, precision=wanted or None, **how)
    size, samples = len(records), steps.rate * steps.point
    if steps.unit == "s":  # of language models a step is the outcome
        samples = steps.rows.global_batch
    point, low, high = (
        np.asarray(each, dtype=float)[:size]
        for each in (steps.point / samples, steps.low80 / samples, steps.high80 / samples)
    )
    why = np.asarray(steps.why, dtype=object)[:size].tolist()
    usual = next(value for name, _, value in steps.rows.assumed if name == "precision").each(str, object)
    formats = [wanted] * size if wanted else np.broadcast_to(usual, (len(devices),))[:size].tolist()
    return {
        "samples_per_s": 1 / point,
        "low": 1 / high,
        "high": 1 / low,
        "active_share": (active_seconds(steps) / steps.point)[:size],
        "memory_bytes": np.array(np.broadcast_to(steps.memory_bytes, (len(devices),))[:size], dtype=float),
        "tier": np.where(np.isfinite(point), np.asarray(steps.tier)[:size], "").astype(object),
        # A network that is too large for a device names its format.
        "precision": [
            "" if reason and code_of(reason) != "weights-too-large" else name
            for name, reason in zip(formats, why, strict=True)
        ],
        "why": why,
        "formats": [", ".join(hardware.formats(hardware.machine(record).accelerator)) for record in records],
        **{f"{part} seconds": np.asarray(seconds)[:size] for part, seconds in steps.by_part.items()},
    }


def _tokens(columns: dict[str, Any], seq: float | None) -> dict[str, Any]:
    """Return tokens per second of networks that read sequences; NaN of others."""
    names = {"tokens_per_s": "samples_per_s", "tokens_per_s_low": "low", "tokens_per_s_high": "high"}
    return {name: columns[rate] * (np.nan if seq is None else seq) for name, rate in names.items()}


def _work(
    network: Workload, table: pd.DataFrame, columns: dict[str, Any], phase: str, batch: int, seq: float | None
) -> dict[str, Any]:
    """Return the peak of each device in its format, and the share of it that the network reaches."""
    chosen = np.array(columns["precision"], dtype=object)
    peak = np.full(len(table), np.nan)
    for name in set(chosen) - {""}:
        peak = np.where(chosen == name, hardware.peak_flops(table, name), peak)
    flop = FLOP_PER_MAC * float(np.sum(network.ops.column("macs", 1, seq))) * PASSES[phase]
    bandwidth = table["mem_bandwidth"].to_numpy(dtype=float)
    return {
        "evidence": [evidence(*row) for row in zip(columns["tier"], table["key"], strict=True)],
        "peak_flops": peak,
        "mem_bandwidth": bandwidth,
        "ridge": arithmetic.ridge_point(peak, bandwidth),
        "share_of_peak": columns["samples_per_s"] * flop / peak,
    }


def measured_runs(
    model: str | Workload, accelerator: str, phase: str, batch: int, precision: str, software: str = ""
) -> tuple[Measurement, ...]:
    """Return measured runs of exactly what `compare` predicts of a device; none of a device that no table has.

    Parameters
    ----------
    workload, accelerator, phase, batch, precision, software
        As for `compare`.

    Returns
    -------
    tuple of Measurement
        The newest first.
    """
    if not precision or accelerator not in catalog.table("accelerators")["key"].tolist():
        return ()
    return _passes(phase, model, accelerator, batch, precision=precision, software=software or None).measured


def evidence(tier: str, key: str = "") -> str:
    """Return the evidence of a prediction in two words, "" without one; a device with other software is a sibling.

    Passes over prompts have one tier for all devices: of these, the measured prompts of the device `key` count, or
    those of its maker.

    Examples
    --------
    >>> evidence("device and engine measured"), evidence("engine not measured"), evidence("datasheet only")
    ('measured here', 'sibling measured', 'datasheet only')
    >>> evidence("prompts and first tokens", "rtx-4090"), evidence("prompts and first tokens", "gaudi3")
    ('measured here', 'datasheet only')
    """
    if tier == FIRST_TOKEN and key in _makers():
        timed = _timed_prompts()
        return MEASURED if key in timed else SIBLING if _makers()[key] in timed else DATASHEET
    words = {"": "", SEEN: MEASURED, NEARBY: SIBLING, NEW_ENGINE: SIBLING}
    return words.get(tier, DATASHEET)


@lru_cache(maxsize=1)
def _makers() -> dict[str, str]:
    rows = catalog.table("accelerators")
    return dict(zip(rows["key"], rows["vendor"], strict=True))


@lru_cache(maxsize=1)
def _timed_prompts() -> frozenset[str]:
    """Return the devices of which prompts or first tokens were measured, and their makers."""
    rows = catalog.table("inference")
    timed = rows.loc[rows["metric"].str.contains("prefill|TTFT"), "accelerator"]
    return frozenset(timed) | {_makers()[key] for key in timed if key in _makers()}


def _memory(
    network: Workload, table: pd.DataFrame, columns: dict[str, Any], phase: str, batch: int, seq: float | None
) -> dict[str, Any]:
    """Return the bytes that each device needs, and whether they fit."""
    needed = columns["memory_bytes"].copy()
    formats = np.array(columns["precision"], dtype=object)
    for name in set(formats[np.isnan(needed)]) - {""}:
        needed[np.isnan(needed) & (formats == name)] = held_bytes(network, phase, name, batch, seq)
    capacity = table["memory_bytes"].to_numpy(dtype=float)
    stated = np.isfinite(needed) & np.isfinite(capacity)
    fits = np.where(stated, np.where(needed <= capacity, "yes", "no"), np.where(formats == "", "", "not known"))
    return {"memory_bytes": needed, "capacity_bytes": capacity, "fits": fits}


def held_bytes(network: Workload, phase: str, precision: str, batch: int, seq: float | None) -> float:
    """Return the memory of one device alone: training with SGD and momentum, or a forward pass [B]."""
    sizes = _sizes(precision if phase == "training" else "fp32")
    if phase == "training":
        return float(sum(memory_parts(network.ops, batch, seq, sizes, 0).values()))
    row = catalog.row("number_formats", precision)
    buffer = activations(network.ops, batch, seq, row["activation_bytes"]).buffer
    held = memory.inference_bytes(
        network.ops.parameter_count, row["weight_bytes"], 0, memory.workspace_bytes(buffer, sizes.runtime)
    )
    return float(sum(held.values()))


@lru_cache(maxsize=16)
def _sizes(precision: str) -> Sizes:
    return sizes_of(precision, OPTIMISER)[0]


def _cost(
    table: pd.DataFrame, records: list[str | Accelerator], columns: dict[str, Any], way: str, since: int | None
) -> dict[str, Any]:
    """Return USD per million samples: lowest price at the highest rate, to highest price at the lowest rate."""
    prices = [
        hourly_usd(record if isinstance(record, Accelerator) else key, way, since)
        for key, record in zip(table["key"], records, strict=True)
    ]
    usd = {
        f"usd_per_million{name}": np.array([getattr(price, end) for price in prices]) * MILLION / columns[rate] / HOUR
        for name, (end, rate) in ENDS.items()
    }
    return {
        **usd,
        "usd_per_hour": np.array([price.median for price in prices]),
        "price_first": [price.first for price in prices],
        "price_last": [price.last for price in prices],
        "price_rows": [price.rows for price in prices],
        "price_sources": [price.source for price in prices],
        "why_usd": [reason or price.why for reason, price in zip(columns["why"], prices, strict=True)],
    }


def _energy(table: pd.DataFrame, columns: dict[str, Any]) -> dict[str, Any]:
    """Return joules per sample of the device without its host, from idle power up, over the interval of rates."""
    rated, active = table["tdp_watts"].to_numpy(dtype=float), np.clip(columns["active_share"], 0, 1)
    idle, full = shares()
    watts = {
        name: power_watts(rated, active, getattr(idle, end), getattr(full, end)) for name, (end, _) in ENDS.items()
    }
    lacks = [
        f"data/accelerators.csv has no rated power of {key}" if np.isnan(rated[at]) else ""
        for at, key in enumerate(table["key"])
    ]
    return {
        "tdp_watts": rated,
        **{f"watts{name}": power for name, power in watts.items()},
        **{f"joules{name}": watts[name] / columns[rate] for name, (_, rate) in ENDS.items()},
        "why_joules": [reason or lack for reason, lack in zip(columns["why"], lacks, strict=True)],
    }


@dataclass(frozen=True)
class Lead:
    """The best of several candidates, and whether it may be called so.

    Attributes
    ----------
    first : int
        Place of the candidate with the best figure.
    rivals : tuple of int
        Places of the others whose intervals overlap that of the first, in order of their figures.
    measured : tuple of bool
        Of the first and its rivals: whether measured runs of the very candidate went into its figure.
    on_paper : bool
        Whether the first is known by its datasheet alone.
    """

    first: int
    rivals: tuple[int, ...]
    measured: tuple[bool, ...]
    on_paper: bool

    @property
    def named(self) -> bool:
        """True where the first may be called the best: it has no rival, and more evidence than a datasheet."""
        return not self.rivals and not self.on_paper

    @property
    def tied(self) -> tuple[int, ...]:
        """Places of the first and its rivals."""
        return (self.first, *self.rivals)


def lead(
    points: Any, lows: Any, highs: Any, *, evidence: Any = MEASURED, able: Any = True, most: bool = False
) -> Lead | None:
    """Return the leader of several candidates, with those that cannot be distinguished from it.

    Parameters
    ----------
    points, lows, highs : array_like
        Figure of each candidate and the ends of its interval; NaN where there is none.
    evidence : array_like of str
        As the column of `compare`; all measured by default.
    able : array_like of bool
        Whether a candidate can do the work at all, such as fit the model; all by default.
    most : bool
        Whether the highest figure is the best; the lowest by default.

    Returns
    -------
    Lead or None
        None where no candidate that can do the work has a figure.

    Examples
    --------
    >>> lead([10, 9, 2], [8, 7, 1], [12, 11, 3], evidence=["datasheet only", "measured here", ""], most=True).tied
    (0, 1)
    >>> lead([10, 30], [8, 25], [12, 40]).named, lead([10, 30], [8, 25], [12, 40], evidence="datasheet only").named
    (True, False)
    """
    value, low, high = (np.asarray(values, dtype=float) for values in (points, lows, highs))
    tiers, fine = np.broadcast_to(np.asarray(evidence, dtype=object), value.shape), np.broadcast_to(able, value.shape)
    order = np.argsort(-value if most else value, kind="stable")
    able_at = [int(at) for at in order if fine[at] and np.isfinite(value[at])]
    if not able_at:
        return None
    first, *rest = able_at
    rivals = tuple(at for at in rest if (high[at] >= low[first] if most else low[at] <= high[first]))
    measured = tuple(str(tiers[at]) == MEASURED for at in (first, *rivals))
    return Lead(first, rivals, measured, str(tiers[first]) == DATASHEET)


def roofs(table: pd.DataFrame, least: float, most: float) -> pd.DataFrame:
    """Return corners of the roofline of each device, in the number format that it was compared in."""
    complete = table[np.isfinite(table["ridge"])]
    corners = [np.full(len(complete), least), np.clip(complete["ridge"], least, most), np.full(len(complete), most)]
    lines = [
        complete[["key", "name"]].assign(
            intensity=at,
            attainable_flops=arithmetic.attainable_flops(at, complete["peak_flops"], complete["mem_bandwidth"]),
        )
        for at in corners
    ]
    return pd.concat(lines, ignore_index=True)


@checked(model=MODEL, accelerator=DEVICE, batch=SAMPLES, precision=FORMAT)
def operations(
    model: str | Workload, accelerator: str | Accelerator, batch: int = 1, *, precision: str = "bf16"
) -> pd.DataFrame:
    """Return operations of one forward pass under the roofline of a device, grouped by kind and size, longest first.

    Parameters
    ----------
    model : str or Workload
        A network of the zoo, or one of the reader's own.
    accelerator : str or Accelerator
        The device.
    batch : int
        Samples of the pass.
    precision : str
        Row of the table ``number_formats``.

    Returns
    -------
    pandas.DataFrame
        name, kind, count, flop, bytes, intensity [FLOP/B], attainable_flops [FLOP/s], seconds (each the longer of
        arithmetic and traffic, all alike together), bound_by ("compute" or "memory"), share of the time.

    Examples
    --------
    >>> ops = operations("vgg16", "v100-sxm2-16gb", 32, precision="fp16")
    >>> bool(ops["seconds"].is_monotonic_decreasing), round(float(ops["share"].sum()), 6)
    (True, 1.0)
    """
    every = roofline_table(network_of(model), accelerator, batch, precision=precision)
    every = every[every["bytes"] > 0]
    sizes = [every["kind"], (every["flop"] / every["count"]).round(3), (every["bytes"] / every["count"]).round(3)]
    grouped = every.groupby(sizes, sort=False).agg(
        name=("name", "first"),
        kind=("kind", "first"),
        count=("count", "sum"),
        flop=("flop", "sum"),
        bytes=("bytes", "sum"),
        intensity=("intensity", "first"),
        attainable_flops=("attainable_flops", "first"),
        seconds=("seconds", "sum"),
        bound_by=("bound_by", "first"),
    )
    again = grouped.groupby("name").cumcount() + 1  # networks repeat a name in every block
    grouped["name"] = [f"{name} ({n})" if n > 1 else name for name, n in zip(grouped["name"], again, strict=True)]
    grouped = grouped.sort_values("seconds", ascending=False, kind="stable").reset_index(drop=True)
    return grouped.assign(share=grouped["seconds"] / grouped["seconds"].sum())


# Quantity: its words, its unit, and what it takes beside the peak.
QUANTITIES = {
    "flops": ("FLOP/s, 16 bits or wider", "FLOP/s"),
    "fp32": ("FLOP/s, FP32 outside matrix units", "FLOP/s"),
    "bandwidth": ("memory bandwidth", "B/s"),
    "memory": ("memory", "B"),
    "flop_per_byte": ("FLOP per byte", "FLOP/B"),
    "flop_per_joule": ("FLOP per joule (rated)", "FLOP/J"),
    "flops_per_usd": ("FLOP/s per dollar at launch", "FLOP/s/USD"),
}
WIDE_FORMATS = ("fp32", "tf32", "fp16", "bf16")
# A line of data-centre devices, one per generation, from the founding deck's oldest GPU on.
LINE = (
    "k40",
    "p100-sxm2-16gb",
    "v100-sxm2-16gb",
    "tpu-v2",
    "tpu-v3",
    "a100-sxm-40gb",
    "tpu-v4",
    "mi250x",
    "h100-sxm",
    "tpu-v5p",
    "mi300x",
    "tpu-v6e",
    "b200-sxm",
    "mi355x",
    "tpu-v7x",
)


@dataclass(frozen=True, repr=False)
class Growth(Result):
    """A straight line through logarithms.

    Attributes
    ----------
    per_year, low, high : float
        Growth per year as a factor, and its interval.
    doubling_years : float
        Years in which it doubles at that rate; negative where it halves.
    at : float
        Value of the line in the middle of the years.
    middle : float
        That year.
    scatter : float
        Factor by which one point typically lies off the line.
    points : int
    """

    per_year: float
    low: float
    high: float
    doubling_years: float
    at: float
    middle: float
    scatter: float
    points: int

    def summary(self) -> str:
        """Return the growth per year with its interval."""
        return f"{self.per_year:.3g}× a year ({self.low:.3g} to {self.high:.3g}), {self.points} points"

    def line(self, years: Any) -> Any:
        """Return the value of the line in some years."""
        return self.at * self.per_year ** (np.asarray(years, dtype=float) - self.middle)


LEVEL = Field.number(0, 1, above=True)


@checked(years=Field.array(-1e6, 1e6), values=Field.array(), level=LEVEL)
def least_squares_growth(years: Any, values: Any, level: float = 0.8) -> Growth:
    r"""Return the exponential growth by ordinary least squares on logarithms.

    .. math:: \ln v = a + b t, \quad g = e^b, \quad g \in e^{b \pm q s_b}

    Here q is the quantile of Student's t with n - 2 degrees of freedom. The interval takes points for independent; it
    says how well the line is known, not where the next device will lie.

    Parameters
    ----------
    years : array_like
        Dates as years with fractions, t.
    values : array_like
        What grew, v > 0, in any unit.
    level : float
        Share of points that the interval should contain.

    Raises
    ------
    ValueError
        Fewer than three points, all of one date, or a value that is not above 0.

    References
    ----------
    Hobbhahn & Besiroglu, Trends in GPU price-performance, Epoch, 2022 (the same fit); Draper & Smith, Applied
    regression analysis, 3rd edition, 1998, section 1.4 (its interval).

    Examples
    --------
    >>> round(least_squares_growth([2014, 2016, 2018], [1, 4, 16]).per_year, 6)
    2.0
    """
    t, v = years, values
    if t.shape != v.shape or t.ndim != 1 or len(t) < 3:
        raise ValueError(f"growth needs at least three dates with a value each; there are {min(t.size, v.size)}")
    if not (np.isfinite(t).all() and np.isfinite(v).all() and (v > 0).all()) or np.ptp(t) == 0:
        raise ValueError("growth needs values above 0 and more than one date")
    middle, free = float(t.mean()), len(t) - 2
    spread, logs = float(((t - middle) ** 2).sum()), np.log(v)
    slope = float(((t - middle) * logs).sum() / spread)
    off = logs - logs.mean() - slope * (t - middle)
    scatter = math.sqrt(float((off**2).sum()) / free)
    reach = student_t(level, free) * scatter / math.sqrt(spread)
    doubling = math.log(2) / slope if slope else math.inf
    ends = (math.exp(slope), math.exp(slope - reach), math.exp(slope + reach))
    return Growth(*ends, doubling, math.exp(float(logs.mean())), middle, math.exp(scatter), len(t))


@checked(accelerators=ACCELERATORS)
def milestones(accelerators: Iterable[str] | None = LINE) -> pd.DataFrame:
    """Return what devices offer, one row per device and quantity, with the date of launch.

    Parameters
    ----------
    accelerators : iterable of str, optional
        Names of the table; a line of data-centre devices by default, None for the whole table.

    Returns
    -------
    pandas.DataFrame
        key, name, launch_date, year, quantity (a key of `QUANTITIES`), words, unit, value; a figure that the table does
        not have has no row.

    Examples
    --------
    >>> rows = milestones(["k40", "tpu-v4"])
    >>> rows.loc[rows["quantity"] == "flop_per_joule", "key"].tolist()
    ['k40']
    """
    table = hardware.accelerator_table(records_of(accelerators))
    launched = catalog.table("accelerators").set_index("key")["launch_price_usd"]
    wide = np.fmax.reduce([hardware.peak_flops(table, name) for name in WIDE_FORMATS])
    bandwidth = table["mem_bandwidth"].to_numpy(dtype=float)
    values = {
        "flops": wide,
        "fp32": hardware.peak_flops(table, "fp32"),
        "bandwidth": bandwidth,
        "memory": table["memory_bytes"].to_numpy(),
        "flop_per_byte": wide / bandwidth,
        "flop_per_joule": wide / table["tdp_watts"].to_numpy(dtype=float),
        "flops_per_usd": wide / launched.reindex(table["key"]).to_numpy(dtype=float),
    }
    base = table[["key", "name", "launch_date"]].assign(year=[decimal_year(date) for date in table["launch_date"]])
    parts = [
        base.assign(quantity=name, words=QUANTITIES[name][0], unit=QUANTITIES[name][1], value=values[name])
        for name in QUANTITIES
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[np.isfinite(rows["value"]) & np.isfinite(rows["year"])].reset_index(drop=True)


@checked(accelerators=ACCELERATORS, level=LEVEL)
def growth_rates(accelerators: Iterable[str] | None = LINE, level: float = 0.8) -> pd.DataFrame:
    """Return the growth per year of what devices offer, one row per quantity, with its interval and dates.

    Parameters
    ----------
    accelerators : iterable of str, optional
        As for `milestones`.
    level : float
        Share of points that the interval should contain.

    Returns
    -------
    pandas.DataFrame
        quantity, words, unit, per_year with low and high, doubling_years, scatter (as factors), points, first and last
        date of launch; NaN and a reason in `why` where fewer than three devices state the figure.

    Examples
    --------
    >>> rates = growth_rates().set_index("quantity")
    >>> bool(rates.loc["flops", "per_year"] > rates.loc["bandwidth", "per_year"] > 1)
    True
    """
    rows, lines = milestones(accelerators), []
    for name, (words, unit) in QUANTITIES.items():
        own = rows[rows["quantity"] == name].sort_values("year", kind="stable")
        fit, first, last, why = None, "", "", ""
        try:
            fit = least_squares_growth(own["year"], own["value"], level)
            first, last = own["launch_date"].iloc[0], own["launch_date"].iloc[-1]
        except ValueError as problem:
            why = str(problem)
        columns = ("per_year", "low", "high", "doubling_years", "scatter")
        lines.append(
            {
                "quantity": name,
                "words": words,
                "unit": unit,
                **{column: getattr(fit, column, math.nan) for column in columns},
                "points": len(own),
                "first": first,
                "last": last,
                "why": why,
            }
        )
    return pd.DataFrame(lines)


def decimal_year(date: str) -> float:
    """Return a date of the tables (year, quarter, month or day) as a year with a fraction, at the middle of its span.

    >>> decimal_year("2016"), decimal_year("2016-Q1"), decimal_year("2016-07"), round(decimal_year("2016-07-01"), 2)
    (2016.5, 2016.125, 2016.5416666666667, 2016.5)
    """
    if not date:
        return math.nan
    parts = date.split("-")
    year = float(parts[0])
    if len(parts) == 1:
        return year + 0.5
    if parts[1].startswith("Q"):
        return year + (float(parts[1][1:]) - 0.5) / 4
    month = float(parts[1]) - 1
    return year + (month + 0.5) / 12 if len(parts) == 2 else year + (month + (float(parts[2]) - 1) / 30.4) / 12


@checked(accelerators=ACCELERATORS, quantities=Field.choice(*QUANTITIES, many=True))
def growth_lines(
    accelerators: Iterable[str] | None = LINE, quantities: Iterable[str] = ("flops", "flop_per_joule", "bandwidth")
) -> pd.DataFrame:
    """Return devices and fitted lines, both over the line's value in its first year, as `charts.growth` draws them.

    Parameters
    ----------
    accelerators : iterable of str, optional
        As for `milestones`.
    quantities : iterable of str
        Keys of `QUANTITIES`; one that fewer than three devices state is left out.

    Returns
    -------
    pandas.DataFrame
        what ("device" or "line"), words (the quantity, and its growth per year), year, value, name.

    Raises
    ------
    ValueError
        An unknown quantity, or none that three devices state.

    Examples
    --------
    >>> lines = growth_lines(quantities=["bandwidth"])
    >>> float(lines.loc[lines["what"] == "line", "value"].iloc[0])
    1.0
    """
    rows, lines = milestones(accelerators), []
    for name in quantities:
        own = rows[rows["quantity"] == name]
        if len(own) < 3:
            continue
        fit = least_squares_growth(own["year"], own["value"])
        ends = np.array([own["year"].min(), own["year"].max()])
        first = float(fit.line(ends[0]))
        words = f"{QUANTITIES[name][0].split(',')[0]}: {fit.per_year:.2f}×"
        line = pd.DataFrame({"what": "line", "year": ends, "value": fit.line(ends) / first, "name": ""})
        lines += [
            own[["name", "year"]].assign(what="device", value=own["value"] / first, words=words),
            line.assign(words=words),
        ]
    if not lines:
        raise ValueError("a line needs at least three devices that state its quantity: name more accelerators")
    return pd.concat(lines, ignore_index=True)[["what", "words", "year", "value", "name"]]
