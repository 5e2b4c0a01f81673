"""Cost of a run in USD, kWh and kg of CO2 equivalents, from dated prices, each with low and high.

The power model is unvalidated: our tables contain no measurement of power. Power is what a machine draws idle plus a
part that grows with the share of time in which its accelerators compute or move memory; most of its figures are
recalled.

And the total cost of ownership over a horizon, and when owning beats renting: `ownership_usd`, `annuity_usd`,
`break_even_hours`, `break_even_use`, whose arguments may all be arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog.fields import MIN_NUMBER, Field, checked
from cookbook.catalog.prices import (
    BOUGHT,
    ENDS,
    HOUR,
    MONTH,
    REGION,
    SINCE_YEAR,
    USD_PER_HOUR,
    WAY,
    WORDS,
    YEAR,
    Price,
    carbon,
    given,
    hourly_usd,
    stated,
    tariff,
    times,
)
from cookbook.hardware import Accelerator, accelerator
from cookbook.prediction.engine import Estimate
from cookbook.result import Result

UNVALIDATED = "The power model is unvalidated: no table here holds a measurement of power."
# Parts of a step in which an accelerator draws more than idle.
ACTIVE = ("compute", "memory traffic", "optimiser")
JOULES_PER_KWH = units.si("1 kWh")
SPANS = ("step", "epoch", "run")
GRAM = 1e-3


# A prediction, and the device it is of; counts of it, one or an array.
PREDICTION = Field.record(Estimate, what="prediction", give="what cookbook.train_step returns")
DEVICE = Field.named("accelerators", Accelerator)
COUNTS = Field.array(MIN_NUMBER, missing=False)


@checked(
    prediction=PREDICTION,
    device=DEVICE,
    samples_per_step=COUNTS,
    samples=Field.number(words=False),
    devices=COUNTS,
    epochs=Field.number(words=False),
    way=WAY,
    price=replace(USD_PER_HOUR, records=(Price,)),
    region=REGION,
    pue=WORDS,
    since=SINCE_YEAR,
)
def run_cost(
    prediction: Estimate,
    device: str | Accelerator,
    *,
    samples_per_step: Any,
    samples: float,
    devices: Any = 1,
    epochs: float = 1,
    way: str = "on demand",
    price: Price | float | None = None,
    region: str = "us",
    pue: str = "Uptime Institute survey average",
    since: int | None = None,
) -> pd.DataFrame:
    """Return the cost of training: the interval of the predicted time by the range of prices.

    Low takes the short end of the 80 % interval and the lower quartile of prices, high the long end and the upper
    quartile. A device that is bought pays for electricity and cooling besides; rent includes them.

    Parameters
    ----------
    prediction : Estimate
        Of `cookbook.train_step`; one scenario or many.
    device : str or Accelerator
        The accelerator predicted; of your own no price is known, so that `price` must state it.
    samples_per_step : array_like
        Samples of one step of all devices.
    samples : float
        Samples of one epoch.
    devices : array_like
        Accelerators in all.
    epochs : float
        Epochs of the run.
    way : str
        As for `hourly_usd`.
    price : Price or float, optional
        Your own price of one accelerator [USD/h].
    region : str
        Of electricity and carbon, a row of the table ``regions``.
    pue : str
        Whose power usage effectiveness: words of an item in ``tco``; "" for none.
    since : int, optional
        First year of prices to count; the newest twelve months of each if not given.

    Returns
    -------
    pandas.DataFrame
        A row for each scenario and span (step, epoch, run): seconds, usd, kwh, kgco2e, each as _low, _median, _high;
        why, where a figure is missing; priced, the dates of the prices. Missing stays NaN.

    Examples
    --------
    >>> from cookbook.prediction.api import train_step
    >>> step = train_step("resnet152", "a100-sxm-80gb", batch=64)
    >>> bill = run_cost(step, "a100-sxm-80gb", samples_per_step=64, samples=14e6, since=2025).set_index("span")
    >>> bool(bill.usd_low["epoch"] < bill.usd_median["epoch"] < bill.usd_high["epoch"])
    True
    """
    per_step, every, passes, count = (
        np.asarray(value, dtype=float) for value in (samples_per_step, samples, epochs, devices)
    )
    hour, energy, per_kwh = _price(price, device, way, since), step_kwh(prediction, device, count), carbon(region)
    power = tariff(region)
    building = stated("pue", items=pue) if pue else Price(1.0, 1.0, 1.0, "ratio")
    steps = every / np.atleast_1d(per_step)
    counts = {"step": np.ones_like(steps), "epoch": steps, "run": steps * passes}
    seconds, wall = Price(*seconds_of(prediction), "s"), times(energy, building, "kWh")
    spent = times(times(seconds, times(hour, 1 / HOUR, "USD/s"), "USD"), count, "USD")
    if way == BOUGHT:
        current = times(wall, power, "USD")
        spent = replace(spent, **{end: getattr(spent, end) + getattr(current, end) for end in ENDS})
    quantities = {"seconds": seconds, "usd": spent, "kwh": wall, "kgco2e": times(wall, times(per_kwh, GRAM, ""), "kg")}
    lacks = (hour.why or (power.why if way == BOUGHT else ""), energy.why, building.why, per_kwh.why)
    lack = "; ".join(dict.fromkeys(filter(None, lacks)))
    why = np.array([str(reason) or lack for reason in np.atleast_1d(np.asarray(prediction.why, dtype=object))])
    frames = [_rows(span, number, quantities) for span, number in counts.items()]
    reasons = np.tile(np.broadcast_to(why, len(frames[0])).astype(object), len(SPANS))
    return pd.concat(frames, ignore_index=True).assign(why=reasons, priced=hour.dates)


def _price(price: Price | float | None, device: str | Accelerator, way: str, since: int | None) -> Price:
    if isinstance(price, Price):
        return price
    listed = hourly_usd(device, way, since)
    return listed if price is None else given(price, "USD/h")


def _rows(span: str, count: np.ndarray, quantities: dict[str, Price]) -> pd.DataFrame:
    columns = {
        f"{name}_{end}": np.asarray(getattr(quantity, end)) * count
        for name, quantity in quantities.items()
        for end in ENDS
    }
    frame = pd.DataFrame(dict(zip(columns, np.broadcast_arrays(*columns.values()), strict=True)))
    frame.insert(0, "span", span)
    frame.insert(0, "scenario", range(len(frame)))
    return frame


@dataclass(frozen=True, eq=False)
class Power:
    """Rated power of machines, and what parts of it they draw.

    Attributes
    ----------
    rated : Price
        All machines, hosts included [W].
    idle, full : Price
        Part of it drawn when nothing runs, and when accelerators are active all the time.
    """

    rated: Price
    idle: Price
    full: Price


SHARE = Field.array(0, 1)


@checked(rated_watts=Field.array(0), active_share=SHARE, idle_share=SHARE, full_share=SHARE)
def power_watts(rated_watts: Any, active_share: Any, idle_share: Any, full_share: Any) -> Any:
    r"""Return the mean power of a machine: idle, plus a part that grows with activity.

    .. math:: P = P_{rated} (f_{idle} + (f_{full} - f_{idle}) a)

    Parameters
    ----------
    rated_watts : array_like
        Rated power of the machine, host included [W].
    active_share : array_like
        Share of time in which accelerators compute or move memory, a, 0 to 1.
    idle_share, full_share : array_like
        Draw at a = 0 and at a = 1 over rated power.

    Returns
    -------
    numpy.ndarray
        Power [W].

    References
    ----------
    Fan, Weber & Barroso, Power provisioning for a warehouse-sized computer, ISCA 2007 (linear in utilisation).

    Examples
    --------
    >>> float(power_watts(10_000, 0.5, 0.2, 0.8))
    5000.0
    """
    try:
        return (rated_watts * (idle_share + (full_share - idle_share) * active_share))[()]
    except ValueError:
        raise ValueError("the power and the shares are lists of different lengths; give lists of one length") from None


@lru_cache(maxsize=128)
def _rated(kind: str, watts: float, key: str, source: tuple[str, ...]) -> Power:
    """Return the power of one accelerator in its server [W]."""
    more = stated("power", "x chip TDP", items="TPU" if kind == "tpu" else "GPU;server power")
    why = "" if watts == watts else f"data/accelerators.csv has no rated power of {key}"
    ends = (watts * more.low, watts * more.median, watts * more.high)
    return Power(
        Price(*ends, "W", rows=more.rows, source=tuple(dict.fromkeys([*source, *more.source])), why=why), *shares()
    )


def machine_power(device: str | Accelerator, devices: Any = 1) -> Power:
    """Return the rated, idle and full power of machines with a number of accelerators [W].

    Parameters
    ----------
    device : str or Accelerator
        An accelerator; its rated power times what servers add to it.
    devices : int
        Accelerators in all machines.

    Returns
    -------
    Power
        NaN with the reason where the catalogue has no rated power.

    Examples
    --------
    >>> box = machine_power("h100-sxm", 8)
    >>> round(box.rated.low / 1e3, 1), round(box.rated.high / 1e3, 1)
    (9.3, 11.4)
    """
    count = COUNTS.read(devices, "devices")
    record = accelerator(device) if not isinstance(device, Accelerator) else device
    power = _rated(record.kind, float(record.tdp_watts), record.key, tuple(record.sources))
    return replace(power, rated=times(power.rated, count if count.ndim else count.item(), "W"))


@lru_cache(maxsize=1)
def shares() -> tuple[Price, Price]:
    """Draw of an idle machine and of one whose accelerators are active all the time, over its rated power."""
    return stated("power", "fraction", items="idle draw"), stated("power", "fraction", items="full draw;GPU")


def active_seconds(prediction: Estimate) -> Any:
    """Time of a step in which accelerators compute or move memory, at most the step [s]."""
    parts = prediction.by_part
    busy = np.sum([np.asarray(parts[name], dtype=float) for name in ACTIVE if name in parts], axis=0)
    return np.minimum(busy, prediction.point)


@checked(prediction=PREDICTION, device=DEVICE, devices=COUNTS)
def step_kwh(prediction: Estimate, device: str | Accelerator, devices: Any = 1) -> Price:
    """Return the energy of one step of all machines, before cooling [kWh]; unvalidated.

    Idle power runs for the whole step, the rest for its active part. The low end takes the short step and the low
    figures of power, the high end the long step and the high ones.

    Parameters
    ----------
    prediction : Estimate
        One scenario or many.
    device : str or Accelerator
        Accelerator that was predicted.
    devices : array_like
        How many, in all.

    Returns
    -------
    Price
        Arrays in `low`, `median`, `high`, one entry a scenario.

    Examples
    --------
    >>> from cookbook.prediction.api import train_step
    >>> energy = step_kwh(train_step("resnet50", "a100-sxm-80gb", batch=256), "a100-sxm-80gb")
    >>> bool(0 < energy.low < energy.median < energy.high), energy.note == UNVALIDATED
    (True, True)
    """
    power, active = machine_power(device, devices), active_seconds(prediction) / prediction.point
    ends = []
    for end, seconds in zip(ENDS, seconds_of(prediction), strict=True):
        rated, idle, full = (getattr(watts, end) for watts in (power.rated, power.idle, power.full))
        ends.append(power_watts(rated, active, idle, full) * seconds / JOULES_PER_KWH)
    source = tuple(dict.fromkeys([*power.rated.source, *power.idle.source, *power.full.source]))
    low, middle, high = ends
    return Price(low, middle, high, "kWh", rows=power.rated.rows, source=source, note=UNVALIDATED, why=power.rated.why)


def seconds_of(prediction: Estimate) -> tuple[Any, Any, Any]:
    """Return a step's time: low, point, high of its 80 % interval [s]; the point itself where it has no interval."""
    point = np.asarray(prediction.point, dtype=float)
    low, high = (np.asarray(end, dtype=float) for end in (prediction.low80, prediction.high80))
    return np.where(np.isnan(low), point, low)[()], point[()], np.where(np.isnan(high), point, high)[()]


HOURS_PER_YEAR, MONTHS = YEAR / HOUR, round(YEAR / MONTH)
KILO = 1e3


@dataclass(frozen=True, eq=False, repr=False)
class Ownership(Result):
    """Cost of owning over a horizon.

    Attributes
    ----------
    parts : dict of str to numpy.ndarray
        USD over the horizon by part: hardware, network, storage, maintenance, electricity, cooling, staff, space.
    horizon_years : numpy.ndarray
    """

    parts: Mapping[str, Any]
    horizon_years: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def summary(self) -> str:
        """Return the total and the horizon, in words."""
        if np.ndim(self.total):
            return f"{np.size(self.total)} totals"
        return f"{units.dollars(self.total)} over {self.horizon_years:g} year{'' if self.horizon_years == 1 else 's'}"

    def frame(self) -> pd.DataFrame:
        """Return one row per part: its name and USD over the horizon."""
        rows = [{"part": name, "usd": usd} for name, usd in self.parts.items()]
        return pd.DataFrame([*rows, {"part": "total", "usd": self.total}])

    @property
    def total(self) -> Any:
        """All parts together [USD]."""
        return np.sum(np.broadcast_arrays(*self.parts.values()), axis=0)[()]


def _one_shape(*values: Any) -> None:
    """Refuse lists of figures that cannot be combined."""
    try:
        np.broadcast_shapes(*map(np.shape, values))
    except ValueError:
        raise ValueError("the figures are lists of different lengths; give lists of one length") from None


# Amounts from 0 on, and those above 0, as numbers or arrays.
AMOUNT, POSITIVE = Field.array(0), Field.array(0, above=True)


@checked(price_usd=AMOUNT, years=POSITIVE, money_rate=SHARE)
def annuity_usd(price_usd: Any, years: Any, money_rate: Any = 0.0) -> Any:
    r"""Return the yearly cost of a purchase, spread over its years of use with interest, in monthly instalments.

    .. math:: A = 12 P i / (1 - (1 + i)^{-12 n}), \quad i = r / 12; \quad A = P / n \text{ where } r = 0

    Parameters
    ----------
    price_usd : array_like
        Price of purchase, P [USD].
    years : array_like
        Years of use, n [years]; nothing is left after them.
    money_rate : array_like
        Yearly cost of money, r; 0 is plain depreciation.

    Returns
    -------
    numpy.ndarray
        Cost of one year [USD/year].

    References
    ----------
    Hennessy & Patterson, Computer Architecture, 5th edition, 2011, section 6.4.

    Examples
    --------
    >>> round(float(annuity_usd(66.7e6, 3, 0.05)) / 12 / 1e6, 2)
    2.0
    >>> float(annuity_usd(9000, 3))
    3000.0
    """
    _one_shape(price_usd, years, money_rate)
    price, months, rate = price_usd, MONTHS * years, np.asarray(money_rate) / MONTHS
    factor = np.where(rate > 0, rate / -np.expm1(-months * np.log1p(np.where(rate > 0, rate, 1.0))), 1 / months)
    return (MONTHS * price * factor)[()]


@checked(
    **dict.fromkeys(("hardware_usd", "network_share", "storage_share", "maintenance_share", "watts"), AMOUNT),
    **dict.fromkeys(("usd_per_kwh", "staff_usd_per_year", "space_usd_per_year"), AMOUNT),
    horizon_years=POSITIVE,
    life_years=POSITIVE,
    money_rate=SHARE,
    pue=Field.array(1),
)
def ownership_usd(
    hardware_usd: Any,
    horizon_years: Any,
    *,
    life_years: Any,
    money_rate: Any = 0.0,
    network_share: Any = 0.0,
    storage_share: Any = 0.0,
    maintenance_share: Any = 0.0,
    watts: Any = 0.0,
    pue: Any = 1.0,
    usd_per_kwh: Any = 0.0,
    staff_usd_per_year: Any = 0.0,
    space_usd_per_year: Any = 0.0,
) -> Ownership:
    """Return the total cost of ownership over a horizon, by part.

    Hardware, its network and its storage are spread over their years of use; a horizon that is shorter pays its share,
    a longer one replaces them at the same price.

    Parameters
    ----------
    hardware_usd : array_like
        Price of the machines [USD].
    horizon_years : array_like
        Time over which costs are counted [years].
    life_years, money_rate : array_like
        As for `annuity_usd`.
    network_share, storage_share : array_like
        Price of switches and cables, and of shared storage, over that of the machines.
    maintenance_share : array_like
        Support and repair of one year over the price of all of it.
    watts : array_like
        Mean power drawn by the machines over the horizon, idle hours included [W].
    pue : array_like
        Power usage effectiveness of the building, 1 or more: what it draws over what the machines draw.
    usd_per_kwh : array_like
        Electricity [USD/kWh].
    staff_usd_per_year, space_usd_per_year : array_like
        Staff; rent of space and power feed, as in colocation [USD/year].

    Returns
    -------
    Ownership
        `parts` and `total`; NaN where an argument is NaN.

    Examples
    --------
    >>> owned = ownership_usd(300e3, 3, life_years=5, watts=6e3, pue=1.5, usd_per_kwh=0.08, staff_usd_per_year=20e3)
    >>> {name: round(float(usd) / 1e3) for name, usd in owned.parts.items() if usd}
    {'hardware': 180, 'electricity': 13, 'cooling': 6, 'staff': 60}
    """
    _one_shape(
        hardware_usd,
        horizon_years,
        life_years,
        money_rate,
        network_share,
        storage_share,
        maintenance_share,
        watts,
        pue,
        usd_per_kwh,
        staff_usd_per_year,
        space_usd_per_year,
    )
    price = hardware_usd
    yearly = annuity_usd(1.0, life_years, money_rate) * price
    whole = price * (1 + network_share + storage_share)
    power = np.asarray(watts) / KILO * HOURS_PER_YEAR * usd_per_kwh
    per_year = {
        "hardware": yearly,
        "network": yearly * network_share,
        "storage": yearly * storage_share,
        "maintenance": whole * maintenance_share,
        "electricity": power,
        "cooling": power * (pue - 1),
        "staff": staff_usd_per_year,
        "space": space_usd_per_year,
    }
    return Ownership({name: np.asarray(usd * horizon_years)[()] for name, usd in per_year.items()}, horizon_years[()])


@checked(bought_usd=AMOUNT, running_usd_per_hour=AMOUNT, rent_usd_per_hour=AMOUNT)
def break_even_hours(bought_usd: Any, running_usd_per_hour: Any, rent_usd_per_hour: Any) -> Any:
    r"""Return hours of use after which a purchase has cost less than renting.

    .. math:: h = P / (c_{rent} - c_{running})

    Parameters
    ----------
    bought_usd : array_like
        What is paid at the start, P [USD].
    running_usd_per_hour : array_like
        Cost of one hour to the owner: power, cooling, staff [USD/h].
    rent_usd_per_hour : array_like
        Price of one hour of rent [USD/h].

    Returns
    -------
    numpy.ndarray
        Hours [h]; infinite where renting costs no more than running.

    Examples
    --------
    The published example of Lenovo, 8,556 hours:

    >>> round(float(break_even_hours(833_806, 0.87, 98.32)))
    8556
    """
    _one_shape(bought_usd, running_usd_per_hour, rent_usd_per_hour)
    gain = rent_usd_per_hour - running_usd_per_hour
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain > 0, bought_usd / gain, np.where(np.isnan(gain), np.nan, np.inf))[()]


@checked(owned_usd_per_year=AMOUNT, rent_usd_per_hour=POSITIVE)
def break_even_use(owned_usd_per_year: Any, rent_usd_per_hour: Any) -> Any:
    """Return the share of all hours that must be used for owning to cost no more than renting those hours.

    Parameters
    ----------
    owned_usd_per_year : array_like
        Total cost of owning [USD/year].
    rent_usd_per_hour : array_like
        Price of one hour of rent [USD/h].

    Returns
    -------
    numpy.ndarray
        Part of 8,766 hours; above 1: renting is cheaper however much it is used.

    Examples
    --------
    >>> round(float(break_even_use(100e3, 28.0)), 2)
    0.41
    """
    _one_shape(owned_usd_per_year, rent_usd_per_hour)
    return np.asarray(owned_usd_per_year / (rent_usd_per_hour * HOURS_PER_YEAR))[()]
