"""A training run from its first to its last token: days, device-hours, USD, utilisation, failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import pandas as pd

from cookbook import catalog, hardware, units
from cookbook.catalog.commands import Launch, one_of
from cookbook.catalog.fields import MAX_SEQUENCES, MAX_TOKENS, Field, checked
from cookbook.catalog.prices import HOUR, SINCE_YEAR, USD_PER_HOUR, Price, hour_usd
from cookbook.catalog.prices import WAY as PAID
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import Refusal, Refused, refusal_of, refused
from cookbook.formulas import parallelism, utilisation
from cookbook.hardware import System
from cookbook.prediction.kinds.configurations import OPTIMISER, WEIGHT
from cookbook.prediction.kinds.constraints import context_sizes, divisors, stage_counts
from cookbook.prediction.precision import usual_precision
from cookbook.result import Result, plain
from cookbook.topics.runs.pipelines import SIZES, check_layout, undivided
from cookbook.topics.runs.search import (
    AXES,
    LANGUAGE_MODEL,
    RECOMPUTE,
    SYSTEM,
    TOKENS,
    ZERO,
    Layouts,
    layout_words,
    machine_of,
    model_of,
    search,
    sequence,
    shape_of,
    start_training,
)
from cookbook.units import shown
from cookbook.workloads.zoo import Workload

# How far around the best interval a curve over intervals goes, as a factor.
MAX_INTERVAL_RATIO = 30.0
DAY, MINUTE = units.si("1 d"), units.si("1 min")
# What recomputation repeats, of the products with weights and of the attention matrix.
RECOMPUTED_SHARES = {"none": (0.0, 0.0), "selective": (0.0, 1.0), "full": (1.0, 1.0)}
BATCH, WAY = 1024, "on demand"
# Axes that a run may fix.
FIXED_AXES = (*(name for name in AXES if name != "devices"), "dp")
SHARES = ("goodput", "goodput_low", "goodput_high")
# Of a run of which less is kept, days and USD say nothing.
MIN_USEFUL = 1e-3
# Tokens, prices and failures change nothing of a layout: the last searches are kept.
_searched = lru_cache(maxsize=16)(search)


@dataclass(frozen=True)
class Failures:
    """Failures that a run is assumed to meet.

    Attributes
    ----------
    mtbf_seconds : tuple of float
        Mean time between failures that one device accounts for: shortest, middle and longest [s].
    storage : float
        Rate at which storage takes checkpoints [B/s]; NaN where it follows from `storage_per_device`.
    storage_per_device : float
        The same for each device [B/s].
    restart_seconds : float
        Time from a failure until work goes on [s].
    source : tuple of str
        Keys in sources of what was not given.
    """

    mtbf_seconds: tuple[float, float, float]
    storage: float
    storage_per_device: float
    restart_seconds: float
    source: tuple[str, ...]

    def bandwidth(self, devices: Any) -> np.ndarray:
        """Return the rate at which storage writes a checkpoint of a number of devices [B/s]."""
        rate = np.asarray(devices) * self.storage_per_device
        return np.full(np.shape(devices), self.storage) if math.isfinite(self.storage) else rate


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun(Result):
    """A training run on one or several numbers of devices, each with the fastest layout of those tried; read-only.

    Attributes
    ----------
    title : str
        The model and the machine, as printed.
    table : pandas.DataFrame
        One row per number of devices: its layout (as in `Layouts.table`), step_seconds with step_low and step_high (80
        %), tokens_per_second; mfu with mfu_low and mfu_high, and hfu; mtbf_seconds of the cluster,
        checkpoint_seconds, checkpoint_interval_seconds, goodput at the middle failure rate with goodput_low and
        goodput_high at the extreme ones; days with days_low and days_high (80 % interval of the step); device_hours;
        failures expected; usd with usd_low and usd_high (days_low and days_high at the quartiles of prices);
        energy_kwh of the accelerators at their design power; memory_bytes, headroom_bytes; why, where there is none.
        A copy each time.
    tokens, tokens_per_step, peak_flops : float
        Tokens of the run and of one step; peak that utilisation refers to, of one device [FLOP/s].
    training_flop : float
        The rule of thumb 6 N D: six for each active parameter and token [FLOP].
    checkpoint_bytes : float
        Weights, master weights and states of Adam of the whole model [B].
    price : Price
        Price of one hour of one device [USD/h].
    failures : Failures
        Failure rates, storage and restarts assumed.
    layouts : Layouts
        All layouts tried.
    precision : str
        What products are computed in.
    assumed : tuple of str
        What was not given, and what was taken.
    """

    _class_in_repr = False
    title: str
    _table: pd.DataFrame = field(repr=False)
    tokens: float
    tokens_per_step: float
    peak_flops: float
    training_flop: float
    checkpoint_bytes: float
    price: Price
    failures: Failures
    layouts: Layouts
    precision: str
    assumed: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per number of devices."""
        return self._table.copy(deep=False)

    @cached_property
    def parts(self) -> pd.DataFrame:
        """Step of each row by part [s], under the names that every chart uses."""
        return self._of(self.layouts.prediction.by_part)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """Memory of the fullest device of each row by part [B]."""
        return self._of(self.layouts.prediction.memory)

    def frame(self) -> pd.DataFrame:
        """Return the table, in SI units but for days and USD."""
        return self._table.drop(columns="row")

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain Python values; a missing figure is None."""
        names = ("title", "tokens", "tokens_per_step", "training_flop", "checkpoint_bytes", "precision", "assumed")
        return plain({**{name: getattr(self, name) for name in names}, "runs": self.frame()})

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the numbers of devices, each with its fastest layout, as printed, by title."""
        rows = []
        for _, row in self._table.iterrows():
            head = {"Devices": f"{row['devices']:,}"}
            if row["why"]:
                rows.append({**head, "Fastest layout": "none: " + str(row["why"]).partition(": ")[2]})
                continue
            days, low, high = (units.figure(row[f"days{end}"]) for end in ("", "_low", "_high"))
            usd = f"{units.dollars(row['usd'])} ({units.dollar_range(row['usd_low'], row['usd_high'])})"
            rows.append(
                {
                    **head,
                    "Fastest layout": layout_words(row),
                    "Step": units.human(row["step_seconds"], "s"),
                    "MFU, HFU": f"{units.share(row['mfu'])}, {units.share(row['hfu'])}",
                    "Days (80 %)": f"{days} ({low}-{high})",
                    "Device-hours": units.large(row["device_hours"]),
                    **({"Cost": usd} if math.isfinite(self.price.median) else {}),
                    "A failure every": units.human(row["mtbf_seconds"], "s"),
                    "Checkpoint every": units.human(row["checkpoint_interval_seconds"], "s"),
                    "Goodput": units.percent(row["goodput"], 1),
                }
            )
        return {"Numbers of devices": pd.DataFrame(rows).fillna("")}

    def facts(self) -> dict[str, str]:
        """Return why a number of devices has no run, the training FLOP, and the assumptions, by label."""
        whys = "; ".join(why for why in self._table["why"] if why)
        return {
            **({"No run": whys} if whys else {}),
            "6 N D": units.human(self.training_flop, "FLOP"),
            **super().facts(),
        }

    def summary(self) -> str:
        """Return the fastest of the runs in one line."""
        table = self._table[self._table["why"] == ""]
        best = table.loc[table["days"].idxmin()]
        among = f", the fastest of {len(table)} numbers of devices" if len(table) > 1 else ""
        return (
            f"{self.title}, {units.human(self.tokens).strip()} tokens: {best['days']:,.3g} days on "
            f"{best['devices']:,} devices ({layout_words(best)}){among}, {best['tokens_per_second']:,.0f} tokens/s"
        )

    def launch(self, engine: str = "", devices: int | None = None) -> Launch:
        """Return the command line that starts the run, and that of a short run which times its step.

        Parameters
        ----------
        engine : str
            "megatron-lm" or "torchtitan"; by default the one that starts the software, or else the first.
        devices : int, optional
            One of the numbers of devices of the table; the one that is done first by default.

        Returns
        -------
        cookbook.catalog.commands.Launch

        Raises
        ------
        ValueError
            A number of devices without a layout, or a layout that the engine cannot run: the quantity, the reason and
            the remedy.

        Examples
        --------
        >>> run = plan_run("llama2_7b", "h100-sxm", 32, 1e12, global_batch=512)
        >>> "--train-iters 476838" in run.launch("megatron-lm").command
        True
        """
        able = self._table[self._table["why"] == ""].sort_values("days", kind="stable").set_index("devices", drop=False)
        row = able.loc[one_of("devices", devices, able["devices"].tolist(), "has no layout")]
        return start_training(
            engine or self.layouts.engine,
            {
                **row.to_dict(),
                "steps": math.ceil(self.tokens / self.tokens_per_step),
                "checkpoint_steps": max(round(row["checkpoint_interval_seconds"] / row["step_seconds"]), 1),
            },
            self.layouts.settings,
        )

    def over_intervals(self, devices: int) -> pd.DataFrame:
        """Return the useful share of time over the work between checkpoints, and the intervals by Young and by Daly.

        Parameters
        ----------
        devices : int
            One of the numbers of devices of the table.

        Returns
        -------
        pandas.DataFrame
            by ("curve", "Young 1974" or "Daly 2006"), interval_seconds, goodput at the middle failure rate, goodput_low
            and goodput_high at the extreme ones.

        Raises
        ------
        ValueError
            A number of devices that the table does not have.
        """
        if Field.count().read(devices, "devices") not in set(self._table["devices"]):
            planned = self._table["devices"].tolist()
            raise refused("devices", devices, f"is not among those planned: {planned}")
        row = self._table.set_index("devices").loc[devices]
        write, between = float(row["checkpoint_seconds"]), float(row["mtbf_seconds"])
        best = float(parallelism.daly_2006_interval_seconds(write, between))
        young = float(parallelism.young_1974_interval_seconds(write, between))
        every = np.concatenate([np.geomspace(best / MAX_INTERVAL_RATIO, best * MAX_INTERVAL_RATIO, 61), [young, best]])
        low, middle, high = (
            parallelism.useful_share(
                every, write, self.failures.restart_seconds, parallelism.cluster_mtbf_seconds(device, devices)
            )
            for device in self.failures.mtbf_seconds
        )
        by = ["curve"] * (len(every) - 2) + ["Young 1974", "Daly 2006"]
        shares = dict(zip(SHARES, (middle, low, high), strict=True))
        return pd.DataFrame({"by": by, "interval_seconds": every, **shares})

    def _of(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        rows = self._table["row"].to_numpy()
        values = {name: np.where(rows >= 0, np.asarray(column)[rows], np.nan) for name, column in columns.items()}
        return pd.DataFrame(values, index=self._table["devices"])

    def devices_needed(self, days: float, certain: bool = False) -> pd.Series:
        """Return the row with the fewest devices of those given that are done in time.

        Parameters
        ----------
        days : float
            Days until the last token.
        certain : bool
            Whether the upper end of the 80 % interval must be in time, too.

        Raises
        ------
        ValueError
            None is: how long the fastest takes.
        """
        wanted, column = Field.number(high=1e24).read(days, "days"), "days_high" if certain else "days"
        table = self._table[self._table[column].notna()]
        in_time = table[table[column] <= wanted]
        if in_time.empty:
            best = table.loc[table[column].idxmin()]
            reason = (
                f": the fastest of those tried, {best['devices']:,} devices, takes {best[column]:.3g} days; give more "
                "days, more devices or fewer tokens"
            )
            raise refused("days", wanted, reason)
        return in_time.loc[in_time["devices"].idxmin()]

    def tokens_possible(self, usd: float) -> pd.Series:
        """Return the tokens that a budget buys at the median price, by number of devices; NaN without a price."""
        table = self._table.set_index("devices")
        return (Field.number(high=1e24).read(usd, "usd") / table["usd"] * self.tokens).rename("tokens")


FAILURES = {
    "mtbf_hours": Field.number(high=1e24, unit="h", in_unit=True),
    "checkpoint_bandwidth": Field.number(high=1e24, unit="B/s"),
    "restart": Field.number(0, 1e24, unit="s"),
}


@checked(
    **FAILURES,
    model=LANGUAGE_MODEL,
    accelerator=SYSTEM,
    devices=Field.count(many=True),
    tokens=TOKENS,
    global_batch=Field.count(high=MAX_SEQUENCES),
    seq=Field.count(high=MAX_TOKENS),
    layout=Field.record(Mapping, what="layout", give="a dict such as {'tp': 8, 'pp': 4}"),
    precision=Field.named("number_formats"),
    micro_batch=Field.count(high=MAX_SEQUENCES, many=True),
    zero=Field.choice(*ZERO, many=True),
    recompute=Field.choice(*RECOMPUTE, many=True),
    attention=Field.text(),
    software=Field.text(),
    hourly=replace(USD_PER_HOUR, records=(Price,)),
    way=PAID,
    since=SINCE_YEAR,
    interval=Field.function("one of the seconds that a checkpoint takes and of those between failures"),
    per_node=Field.count(),
    network=Field.number(high=1e24, unit="B/s"),
)
def plan_run(
    model: str | Workload,
    accelerator: System,
    devices: int | Sequence[int],
    tokens: float | str,
    *,
    global_batch: int | None = None,
    seq: int | None = None,
    layout: Mapping[str, Any] | None = None,
    precision: str = "",
    micro_batch: int | Sequence[int] | None = None,
    zero: int | Sequence[int] | None = None,
    recompute: str | Sequence[str] | None = None,
    attention: str = "",
    software: str = "",
    hourly: float | Price | None = None,
    way: str = "",
    since: int | None = None,
    mtbf_hours: float | None = None,
    checkpoint_bandwidth: float | str | None = None,
    restart: float | str | None = None,
    interval: Callable[..., Any] = parallelism.daly_2006_interval_seconds,
    per_node: int | None = None,
    network: float | str | None = None,
) -> TrainingRun:
    """Plan a training run: the best layout of those tried, days, USD, utilisation, failures, checkpoints, goodput.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo, or one with changed arguments (``cb.model("llama2_7b", depth=40)``).
    accelerator : str, Accelerator or Machine
        An accelerator, a server or a cloud instance of the catalogue, or the reader's own record.
    devices : int or sequence of int
        Accelerators, at most 1,048,576; several numbers give one row each.
    tokens : float or str
        Tokens to train on, such as ``2e12`` or ``"2 T"``.
    global_batch : int, optional
        Sequences of one step; 1,024 by default.
    seq : int, optional
        Tokens of a sequence; the model's by default.
    layout : mapping, optional
        Axes to fix, such as ``{"tp": 8, "pp": 4}``: tp, pp, vp, cp, ep, dp, micro_batch, zero, recompute.
    precision, micro_batch, zero, recompute, attention, software
        As for `cookbook.planning.search`: one choice, or several to try.
    hourly : float or Price, optional
        Price of one hour of one accelerator [USD/h]; by default from dated prices, as `hourly_usd` with `way` and
        `since`.
    mtbf_hours : float, optional
        Mean time between failures that one device accounts for, its share of host and network included [h]; the
        range of the table ``long_runs`` by default.
    checkpoint_bandwidth : float or str, optional
        Rate at which storage takes a checkpoint, during which work stops [B/s]; per device as in ``long_runs``
        by default. Where checkpoints go to host memory first, give that rate.
    restart : float or str, optional
        Time from a failure until work goes on [s]; that of ``long_runs`` by default.
    interval : callable
        Work between checkpoints [s], from the time to write one and the mean time between failures [s].
    per_node, network
        As for `cookbook.planning.search`.

    Returns
    -------
    TrainingRun
        Its `assumed` lists what was not given, and what was taken.

    Raises
    ------
    cookbook.catalog.UnknownName
        A model, system or precision that the catalogue does not have.
    ValueError
        An invalid argument, or no layout that divides and fits for any number of devices: which, and the
        nearest that can. Among several numbers of devices, those get NaN and a reason.

    Examples
    --------
    >>> run = plan_run("llama2_7b", "h100-sxm", [32, 64], 1e12, global_batch=512, seq=4096)
    >>> fast = run.table.iloc[1]
    >>> bool(fast["days_low"] < fast["days"] < fast["days_high"]), bool(fast["days"] < run.table["days"].iloc[0])
    (True, True)
    """
    counts, wanted = sorted(cast(Sequence[int], devices)), float(tokens)
    workload, machine = model_of(model), machine_of(accelerator)
    device = machine.accelerator
    shape_of(workload)
    length = sequence(workload, seq)
    batch = BATCH if global_batch is None else global_batch
    same: dict[str, Any] = {"precision": precision, "software": software, "attention": attention}
    same |= {
        "seq": length,
        "zero": zero,
        "recompute": recompute,
        "micro_batch": None if micro_batch is None else tuple(sorted(cast(Sequence[int], micro_batch))),
        "network": network,
        "per_node": per_node,
    }
    failures = known_failures(mtbf_hours, checkpoint_bandwidth, restart)
    price = hourly if isinstance(hourly, Price) else hour_usd(machine.priced, hourly, way or WAY, since)
    layouts, best, why = fastest(workload, accelerator, counts, batch, {} if layout is None else layout, same)
    chosen = precision or usual_precision(hardware.machine(device), "training")
    sizes = _sizes(workload, length)
    peak, saved = hardware.peak_flops(device, chosen), workload.ops.parameter_count * (WEIGHT + OPTIMISER)
    table = _reliable(best.assign(why=why), failures, saved, interval)
    table = _spent(table, wanted, batch * length, price, device.tdp_watts)
    table = _utilised(table, sizes, peak)
    mean, bandwidth = failures.mtbf_seconds[1] / HOUR, units.human(failures.storage_per_device, "B/s")
    assumed = (
        ("seq", seq, f"{length:,} tokens"),
        ("global_batch", global_batch, f"{BATCH:,} sequences"),
        ("way", hourly or way, WAY),
        ("mtbf_hours", mtbf_hours, f"{mean:,.0f}, the median of published runs"),
        ("checkpoint_bandwidth", checkpoint_bandwidth, f"{bandwidth} per device"),
        ("restart", restart, units.human(failures.restart_seconds, "s")),
    )
    of_layouts = [note for note in layouts.assumed if not note.startswith("seq = ")]
    defaults = [f"{name} = {usual}" for name, argument, usual in assumed if argument in (None, "")]
    return TrainingRun(
        layouts.title,
        table,
        wanted,
        batch * length,
        peak,
        6 * sizes[0] * wanted,
        saved,
        price,
        failures,
        layouts,
        chosen,
        (*defaults, *of_layouts),
    )


def _sizes(network: Workload, length: float) -> tuple[float, float, float, float]:
    """Return active parameters, layers, width of all heads, and tokens of a sequence, as utilisation counts them."""
    own, shape = network.arguments, shape_of(network)
    head = own.get("head_dim") or own["width"] / own["heads"]
    return network.ops.active_parameter_count, shape["layers"], shape["heads"] * head, length


def _reliable(
    table: pd.DataFrame, failures: Failures, checkpoint_bytes: float, interval: Callable[..., Any]
) -> pd.DataFrame:
    counts = table["devices"].to_numpy()
    write = parallelism.checkpoint_seconds(1.0, checkpoint_bytes, failures.bandwidth(counts))
    low, middle, high = failures.mtbf_seconds
    columns: dict[str, Any] = {}
    for name, device in zip(SHARES, (middle, low, high), strict=True):
        between = parallelism.cluster_mtbf_seconds(device, counts)
        every = _interval(interval, write, between)
        with np.errstate(over="ignore"):
            columns[name] = parallelism.useful_share(every, write, failures.restart_seconds, between)
        if name == "goodput":
            columns |= {"mtbf_seconds": between, "checkpoint_seconds": write, "checkpoint_interval_seconds": every}
    return _kept(table.assign(**columns))


def _kept(table: pd.DataFrame) -> pd.DataFrame:
    """Return the same, with a reason in place of figures where failures leave next to nothing of the work."""
    lost = table["goodput"] < MIN_USEFUL
    for at in np.flatnonzero(lost):
        row = table.iloc[at]
        often, write = (units.human(float(row[name]), "s") for name in ("mtbf_seconds", "checkpoint_seconds"))
        words = (
            f"devices = {row['devices']:,}: a failure every {often} and checkpoints that take {write} leave less than "
            f"{units.percent(MIN_USEFUL, 1)} of the time useful; give a longer mtbf_hours, a faster "
            "checkpoint_bandwidth or fewer devices"
        )
        table.loc[table.index[at], "why"] = Refusal(words, "failures-too-often", "devices")
    if (table["why"] != "").all():
        raise Refused(table["why"].iloc[-1])
    return table.assign(**{name: table[name].mask(lost) for name in SHARES})


def _interval(interval: Callable[..., Any], write: np.ndarray, between: np.ndarray) -> np.ndarray:
    """Return the work between checkpoints [s], by the reader's function or a published one."""
    try:
        every = np.asarray(interval(write, between), dtype=float)
    except (TypeError, ArithmeticError):
        every = np.array(np.nan)
    if every.shape != between.shape or not np.all(np.isfinite(every) & (every > 0)):
        raise ValueError(
            "interval must be a function of the times to write a checkpoint and between failures [s] "
            f"that gives seconds above 0, one for each number of devices; given: {shown(interval)}"
        )
    return every


def _spent(table: pd.DataFrame, tokens: float, per_step: float, price: Price, watts: float) -> pd.DataFrame:
    useful = table["goodput"].to_numpy()
    ends = {"days": "step_seconds", "days_low": "step_low", "days_high": "step_high"}
    days = {
        name: parallelism.run_seconds(tokens, per_step, table[step].to_numpy(), useful) / DAY
        for name, step in ends.items()
    }
    hours = {name: table["devices"] * DAY / HOUR * value for name, value in days.items()}
    return table.assign(
        **days,
        device_hours=hours["days"],
        failures=days["days"] * DAY / table["mtbf_seconds"],
        usd=hours["days"] * price.median,
        usd_low=hours["days_low"] * price.low,
        usd_high=hours["days_high"] * price.high,
        energy_kwh=hours["days"] * watts / 1e3,
    )


def _utilised(table: pd.DataFrame, sizes: tuple[float, float, float, float], peak: float) -> pd.DataFrame:
    """Return model and hardware FLOP per token over those of the peak in the same time."""
    repeats = [RECOMPUTED_SHARES.get(how, (np.nan, np.nan)) for how in table["recompute"]]
    products, attention = np.array(repeats, dtype=float).T
    counted = np.isfinite(products)
    again = utilisation.repeated_forward(*sizes, np.where(counted, products, 0), np.where(counted, attention, 0))
    model = utilisation.chowdhery_2022(*sizes)
    rate = table["tokens_per_second"] / (table["devices"] * peak)
    slow, fast = (table["step_seconds"] / table[name] for name in ("step_high", "step_low"))
    return table.assign(
        mfu=model * rate, hfu=(model + again) * rate, mfu_low=model * rate * slow, mfu_high=model * rate * fast
    )


def known_failures(mtbf_hours: Any = None, bandwidth: Any = None, restart: Any = None) -> Failures:
    """Return failures as published, or as given: hours, B/s, seconds.

    >>> low, middle, high = known_failures().mtbf_seconds
    >>> low < middle < high
    True
    """
    rows = catalog.table("long_runs")
    between = rows["devices"] * rows["duration"] / rows["interruptions"]
    mtbf = (float(between.min()), float(between.median()), float(between.max()))
    if mtbf_hours is not None:
        each = mtbf_hours * HOUR
        mtbf = (each, each, each)
    storage = math.nan if bandwidth is None else bandwidth
    seconds = float(rows["restart"].median()) if restart is None else restart
    a_device = float((rows["storage_write"] / rows["devices"]).median())
    read = mtbf_hours is None or bandwidth is None or restart is None
    keys = dict.fromkeys(key for cell in rows["source"] for key in cell.split(";")) if read else {}
    return Failures(mtbf, storage, a_device, seconds, tuple(keys))


def fastest(
    network: Workload, system: System, counts: list[int], batch: int, layout: Mapping[str, Any], same: dict[str, Any]
) -> tuple[Layouts, pd.DataFrame, list[str]]:
    """Return all layouts, the fastest per number of devices with its row of the estimate, and reasons.

    `layout` fixes axes; `same` are further arguments of `search`. Where no number has a layout that divides and
    fits, the reason of the last is raised.
    """
    held = _held(layout)
    same = {**same, **{name: (held[name],) for name in ("zero", "recompute") if name in held}}
    same |= {"micro_batch": (Field.count().read(held["micro_batch"], "micro_batch"),)} if "micro_batch" in held else {}
    why = [_undivided(network, system, count, batch, held, same) for count in counts]
    able = [count for count, reason in zip(counts, why, strict=True) if not reason]
    if not able:
        raise Refused(why[-1])
    searched = _searched(network, system, tuple(able), batch, **same)
    table = searched.table.assign(row=searched.rows)
    for name, value in held.items():
        table = table[table[name] == value]
    best = table.drop_duplicates("devices").set_index("devices").reindex(counts).reset_index()
    best["row"] = best["row"].fillna(-1).astype(int)
    for at, count in enumerate(counts):
        if not why[at] and best["row"].iloc[at] < 0:
            why[at] = _too_large(_searched(network, system, (count,), batch, **same), count, held)
    if (best["row"] < 0).all():
        raise Refused(why[-1])
    return searched, best.rename(columns={"low80": "step_low", "high80": "step_high"}), why


def _held(layout: Mapping[str, Any]) -> dict[str, Any]:
    check_names(layout, FIXED_AXES, "layout", "axis")
    for name, allowed in (("recompute", RECOMPUTE), ("zero", ZERO)):
        if name in layout:
            Field.choice(*allowed).read(layout[name], name)
    return dict(layout)


def _undivided(
    network: Workload, system: System, count: int, batch: int, held: Mapping[str, Any], same: Mapping[str, Any]
) -> str:
    """Return why a number of devices has no layout that divides; "" where it has one."""
    sizes = {name: held[name] for name in SIZES if name in held}
    seq, shape = same["seq"], shape_of(network)
    split = context_sizes(seq)
    if len(split) == 1 and {"tp", "pp"} <= set(sizes):  # shorter sequences are not split
        sizes = {"cp": 1, **sizes}
    node = min(same["per_node"] or machine_of(system).per_node, count)
    try:
        check_layout(sizes, {**shape, "per_node": node}, count, batch, seq)
    except ValueError as problem:
        return refusal_of(problem)
    tensor, stages = divisors(shape["heads"], min(node, count)), stage_counts(shape["layers"], count)
    return undivided(count, batch, sorted({t * p * c for t in tensor for p in stages for c in split}), shape)


def _too_large(alone: Layouts, count: int, held: Mapping[str, Any]) -> Refusal:
    """Return why no layout of a number of devices is left: memory, or axes that none of those tried has."""
    if alone.nearest:
        need, have = (units.human(alone.nearest[name], "iB") for name in ("memory_bytes", "capacity_bytes"))
        words = f"devices = {count:,}: no layout fits the memory; the smallest of those tried needs {need} of {have}; "
        words += "give more devices, or ask cb.planning.need how many hold the model"
        return Refusal(words, "memory-exceeded", "devices")
    fixed = ", ".join(f"{name} = {value}" for name, value in held.items())
    best = alone.table.iloc[0]
    other = ", ".join(f"{name} = {best[name]}" for name in held)
    words = (
        f"devices = {count:,}: of the layouts that fit none has {fixed}; the fastest has {other}. Give fewer "
        "axes, or more devices"
    )
    return Refusal(words, "memory-exceeded", "devices")
