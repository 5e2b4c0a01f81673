"""A training run from its first to its last token: days, device-hours, USD, utilisation, failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import hardware, units
from cookbook.performance import reliability, utilisation
from cookbook.planning.altered import System, accelerator_of
from cookbook.planning.best_layout import fastest
from cookbook.planning.cost import HOUR, Price, device_usd
from cookbook.planning.layouts import Layouts
from cookbook.planning.long_runs import Failures, known_failures
from cookbook.prediction.transformer_memory import OPTIMISER, WEIGHT
from cookbook.prediction.transformer_rows import of_model
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

# How far around the best interval a curve over intervals goes, as a factor.
REACH = 30.0
DAY, MINUTE = units.si("1 d"), units.si("1 min")
# What recomputation repeats, of the products with weights and of the attention matrix.
REPEATS = {"none": (0.0, 0.0), "selective": (0.0, 1.0), "full": (1.0, 1.0)}


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A training run on one or several numbers of devices, each with the fastest layout of those tried.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a number of devices: its layout (as in `Layouts.table`), step_seconds with step_low and step_high (80
        %), tokens_per_second; mfu with mfu_low and mfu_high, and hfu; mtbf_seconds of the cluster,
        checkpoint_seconds, checkpoint_interval_seconds, goodput at the middle failure rate with goodput_low and
        goodput_high at the extreme ones; days with days_low and days_high (80 % interval of the step); device_hours;
        failures expected; usd with usd_low and usd_high (days_low at the lowest price, days_high at the highest);
        energy_kwh of the accelerators at their design power; memory_bytes, headroom_bytes; why, where there is none.
    tokens, tokens_per_step, peak_flops : float
        Tokens of the run and of one step; peak that utilisation refers to, of one device [FLOP/s].
    checkpoint_bytes : float
        Weights, master weights and states of Adam of the whole model [B].
    price : Price
        An hour of one device [USD/h].
    failures : Failures
        Failure rates, storage and restarts assumed.
    layouts : Layouts or None
        All layouts tried; None where none fits.
    precision : str
        What products are computed in.
    """

    table: pd.DataFrame
    tokens: float
    tokens_per_step: float
    peak_flops: float
    checkpoint_bytes: float
    price: Price
    failures: Failures
    layouts: Layouts | None
    precision: str

    @cached_property
    def parts(self) -> pd.DataFrame:
        """Step of each row by part [s], under the names that every chart uses."""
        return self._of(self.layouts.prediction.by_part if self.layouts is not None else {})

    @cached_property
    def memory(self) -> pd.DataFrame:
        """Memory of the fullest device of each row by part [B]."""
        return self._of(self.layouts.prediction.memory if self.layouts is not None else {})

    @property
    def summary(self) -> pd.DataFrame:
        """The table in short: layout, utilisation, days and millions of USD, for reading."""
        import pandas as pd

        table = self.table
        usd = table[["usd", "usd_low", "usd_high"]] / 1e6
        return pd.DataFrame({
            "devices": table["devices"], "layout": [layout_words(row) for _, row in table.iterrows()],
            "recompute": table["recompute"].fillna(""), "mfu": table["mfu"].round(3), "hfu": table["hfu"].round(3),
            **{name: table[name].round(1) for name in ("days", "days_low", "days_high")},
            **{f"{name} [M]": usd[name].round(2) for name in usd},
        })  # fmt: skip

    @property
    def reliability(self) -> pd.DataFrame:
        """Failures and checkpoints of each row, for reading."""
        import pandas as pd

        table = self.table
        shares = ("goodput", "goodput_low", "goodput_high")
        return pd.DataFrame({
            "devices": table["devices"], "failures": table["failures"].round(1),
            "one every [h]": (table["mtbf_seconds"] / HOUR).round(2),
            "checkpoint every [min]": (table["checkpoint_interval_seconds"] / MINUTE).round(1),
            "writing it [s]": table["checkpoint_seconds"].round(1), **{name: table[name].round(3) for name in shares},
        })  # fmt: skip

    def over_intervals(self, devices: int) -> pd.DataFrame:
        """Useful share of the time over the work between checkpoints, and the intervals by Young and by Daly.

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
        import pandas as pd

        if devices not in set(self.table["devices"]):
            raise ValueError(f"devices = {devices!r} is not among those planned: {self.table['devices'].tolist()}")
        row = self.table.set_index("devices").loc[devices]
        write, between = float(row["checkpoint_seconds"]), float(row["mtbf_seconds"])
        best = float(reliability.daly_2006_interval_seconds(write, between))
        young = float(reliability.young_1974_interval_seconds(write, between))
        every = np.concatenate([np.geomspace(best / REACH, best * REACH, 61), [young, best]])
        low, middle, high = (
            reliability.useful_share(
                every, write, self.failures.restart_seconds, reliability.cluster_mtbf_seconds(device, devices))
            for device in self.failures.mtbf_seconds
        )  # fmt: skip
        by = ["curve"] * (len(every) - 2) + ["Young 1974", "Daly 2006"]
        return pd.DataFrame({"by": by, "interval_seconds": every, "goodput": middle, "goodput_low": low,
                             "goodput_high": high})  # fmt: skip

    def _of(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        import pandas as pd

        rows = self.table["row"].to_numpy()
        found = {name: np.where(rows >= 0, np.asarray(each)[rows], np.nan) for name, each in columns.items()}
        return pd.DataFrame(found, index=self.table["devices"])

    def devices_needed(self, days: float) -> pd.Series:
        """Row with the fewest of the numbers of devices given that are done in time.

        Parameters
        ----------
        days : float
            Days until the last token.

        Raises
        ------
        ValueError
            None is: how long the fastest takes.
        """
        table = self.table[self.table["days"].notna()]
        if not (isinstance(days, (int, float)) and days > 0):
            raise ValueError(f"days = {days!r} must be a number above 0")
        in_time = table[table["days"] <= days]
        if in_time.empty:
            best = table.loc[table["days"].idxmin()]
            raise ValueError(
                f"days = {days:g}: the fastest of those tried, {best['devices']:,} devices, takes "
                f"{best['days']:.3g} days; give more days, more devices or fewer tokens"
            )
        return in_time.loc[in_time["devices"].idxmin()]

    def tokens_possible(self, usd: float) -> pd.Series:
        """Tokens that a budget pays for at the median price, by number of devices; NaN where there is no price."""
        if not (isinstance(usd, (int, float)) and usd > 0):
            raise ValueError(f"usd = {usd!r} must be a number above 0")
        table = self.table.set_index("devices")
        return (usd / table["usd"] * self.tokens).rename("tokens")


def plan_run(
    model: str,
    system: System,
    devices: int | Sequence[int],
    tokens: float | str,
    *,
    global_batch: int = 1024,
    seq: float | None = None,
    layout: Mapping[str, Any] | None = None,
    precision: str = "",
    hourly: float | Price | None = None,
    way: str = "on demand",
    since: int | None = None,
    mtbf_hours: float | None = None,
    checkpoint_bandwidth: float | str | None = None,
    restart: float | str | None = None,
    interval: Callable[..., Any] = reliability.daly_2006_interval_seconds,
    per_node: int | None = None,
    network: float | str | None = None,
    software: str = "Megatron Core",
    attention: str = "flash2",
) -> TrainingRun:
    """Plan a training run: the best layout of those tried, days, USD, utilisation, failures, checkpoints, goodput.

    Parameters
    ----------
    model : str
        A language model of the zoo.
    system : str or Accelerator
        An accelerator or a server of the catalogue, or an accelerator with some figures changed.
    devices : int or sequence of int
        Accelerators; several numbers give one row each.
    tokens : float or str
        Tokens to train on, such as ``2e12`` or ``"2 T"``.
    global_batch : int
        Sequences of one step.
    seq : float, optional
        Tokens of a sequence; the model's by default.
    layout : mapping, optional
        Axes to hold fixed, such as ``{"tp": 8, "pp": 4}``: tp, pp, vp, cp, ep, dp, micro_batch, zero, recompute.
    precision, software, attention
        As for `cookbook.train_step`; "fp8" where the accelerator has it.
    hourly : float or Price, optional
        An hour of one accelerator [USD/h]; from dated prices, as `hourly_usd` with `way` and `since`, by default.
    mtbf_hours : float, optional
        Mean time between failures that one device accounts for, its share of host and network included [h]; the
        range of the table ``long_runs`` by default.
    checkpoint_bandwidth : float or str, optional
        Rate at which storage takes a checkpoint, during which work stops [B/s]; so much a device as in ``long_runs``
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

    Raises
    ------
    cookbook.catalog.UnknownName
        A model, system or number format that the catalogue does not have.
    ValueError
        An argument that cannot be, or no layout that divides and fits for any number of devices: which, and the
        nearest that can. Among several numbers of devices, those get NaN and a reason.

    Examples
    --------
    >>> run = plan_run("llama2_7b", "h100-sxm", [32, 64], 1e12, global_batch=512, seq=4096)
    >>> fast = run.table.iloc[1]
    >>> bool(fast["days_low"] < fast["days"] < fast["days_high"]), bool(fast["days"] < run.table["days"].iloc[0])
    (True, True)
    """
    counts, wanted = _counts(devices), _tokens(tokens)
    network_of = zoo.model(model)
    length, shape = _whole("seq", (network_of.seq or 2048) if seq is None else seq), of_model(network_of.name)
    batch = int(_whole("global_batch", global_batch))
    per_node = None if per_node is None else int(_whole("per_node", per_node))
    same = {"seq": length, "precision": precision, "software": software, "attention": attention,
            "per_node": per_node, "network": network}  # fmt: skip
    layouts, best, why = fastest(network_of.name, system, counts, batch, layout or {}, same)
    device, _, _ = accelerator_of(system)
    chosen = precision or _format(device)
    failures = known_failures(mtbf_hours, checkpoint_bandwidth, restart)
    count = network_of.ops.parameter_count
    table = _reliable(best.assign(why=why), failures, count * (WEIGHT + OPTIMISER), interval)
    price = hourly if isinstance(hourly, Price) else _price(system, hourly, way, since)
    table = _spent(table, wanted, batch * length, price, device.tdp_watts)
    sizes = (network_of.ops.active_parameter_count, shape["layers"], shape["heads"] * shape["head_dim"], length)
    peak = hardware.peak_flops(device, chosen)
    return TrainingRun(
        _utilised(table, sizes, peak), wanted, batch * length, peak, count * (WEIGHT + OPTIMISER), price,
        failures, layouts, chosen,
    )  # fmt: skip


def layout_words(row: Any) -> str:
    """A layout as its splits; "none" where there is none.

    >>> layout_words({"tp": 8, "pp": 4, "cp": 1, "ep": 1, "dp": 32})
    'TP 8, PP 4, DP 32'
    """
    if row["dp"] != row["dp"]:
        return "none"
    names = [(name.upper(), int(row[name])) for name in ("tp", "pp", "cp", "ep", "dp")]
    return ", ".join(f"{name} {size:,}" for name, size in names if size > 1) or "one device"


def _counts(devices: int | Sequence[int]) -> list[int]:
    given: list[Any] = [devices] if np.ndim(devices) == 0 else list(devices)  # type: ignore[arg-type]
    for count in given:
        _whole("devices", count)
    if not given:
        raise ValueError("devices = [] is empty; give one number of devices or several")
    return sorted({int(count) for count in given})


def _whole(name: str, value: Any) -> float:
    number = np.ndim(value) == 0 and isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value >= 1 and value == np.floor(value)):
        raise ValueError(f"{name} = {value!r} must be a whole number, 1 or more")
    return float(value)


def _tokens(tokens: float | str) -> float:
    wanted = float(units.si(tokens))
    if not (math.isfinite(wanted) and wanted > 0):
        raise ValueError(f"tokens = {tokens!r} must be above 0 and finite, such as 2e12 or '2 T'")
    return wanted


def _format(device: hardware.Accelerator) -> str:
    return next(name for name in ("bf16", "fp16", "tf32", "fp32") if name in hardware.formats(device))


def _price(system: System, hourly: float | None, way: str, since: int | None) -> Price:
    if hourly is None:
        return device_usd(system, way, since)
    number = isinstance(hourly, (int, float)) and not isinstance(hourly, bool)
    if not (number and math.isfinite(hourly) and hourly >= 0):
        raise ValueError(f"hourly = {hourly!r} must be 0 USD/h or more, or a price of cb.planning.hourly_usd")
    return Price(hourly, hourly, hourly, "USD/h", note="given")


def _reliable(
    table: pd.DataFrame, failures: Failures, checkpoint_bytes: float, interval: Callable[..., Any]
) -> pd.DataFrame:
    counts = table["devices"].to_numpy()
    bandwidth = failures.bandwidth(counts)
    write = reliability.checkpoint_seconds(1.0, checkpoint_bytes, bandwidth)
    useful = {}
    for name, device in zip(("low", "median", "high"), failures.mtbf_seconds, strict=True):
        between = reliability.cluster_mtbf_seconds(device, counts)
        every = interval(write, between)
        useful[name] = reliability.useful_share(every, write, failures.restart_seconds, between)
        if name == "median":
            table = table.assign(
                mtbf_seconds=between, checkpoint_seconds=write, checkpoint_interval_seconds=every, goodput=useful[name]
            )
    return table.assign(goodput_low=useful["low"], goodput_high=useful["high"])


def _spent(table: pd.DataFrame, tokens: float, per_step: float, price: Price, watts: float) -> pd.DataFrame:
    useful = table["goodput"].to_numpy()
    ends = {"days": "step_seconds", "days_low": "step_low", "days_high": "step_high"}
    days = {
        name: reliability.run_seconds(tokens, per_step, table[step].to_numpy(), useful) / DAY
        for name, step in ends.items()
    }
    devices = table["devices"] * DAY / HOUR
    hours = {name: devices * each for name, each in days.items()}
    return table.assign(
        **days, device_hours=hours["days"], failures=days["days"] * DAY / table["mtbf_seconds"],
        usd=hours["days"] * price.median, usd_low=hours["days_low"] * price.low,
        usd_high=hours["days_high"] * price.high, energy_kwh=hours["days"] * watts / 1e3,
    )  # fmt: skip


def _utilised(table: pd.DataFrame, sizes: tuple[float, float, float, float], peak: float) -> pd.DataFrame:
    """Model and hardware FLOP of a token over what the peak would do in the same time."""
    repeats = [REPEATS.get(how, (np.nan, np.nan)) for how in table["recompute"]]
    products, attention = np.array(repeats, dtype=float).T
    known = np.isfinite(products)
    again = utilisation.repeated_forward(*sizes, np.where(known, products, 0), np.where(known, attention, 0))
    model = utilisation.chowdhery_2022(*sizes)
    rate = table["tokens_per_second"] / (table["devices"] * peak)
    slow, fast = (table["step_seconds"] / table[name] for name in ("step_high", "step_low"))
    return table.assign(
        mfu=model * rate, hfu=(model + again) * rate, mfu_low=model * rate * slow, mfu_high=model * rate * fast
    )

