"""Energy and carbon of training. The power model is unvalidated: our tables hold no measurement of power.

Power is what a machine draws idle plus a part that grows with the share of time in which its accelerators compute or
move memory. Each figure is a range of the table `tco`, and most are recalled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, units
from cookbook.planning.cost import Price
from cookbook.planning.facts import stated

if TYPE_CHECKING:
    from cookbook.prediction.estimate import Estimate

UNVALIDATED = "The power model is unvalidated: no table here holds a measurement of power."
# Parts of a step in which an accelerator draws more than idle.
ACTIVE = ("compute", "memory traffic", "optimiser")
JOULES_A_KWH = units.si("1 kWh")


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


def power_watts(rated_watts: Any, active_share: Any, idle_share: Any, full_share: Any) -> Any:
    r"""Mean power of a machine: idle, plus a part that grows with activity.

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

    Raises
    ------
    ValueError
        A share outside 0 to 1, or power below 0.

    References
    ----------
    Fan, Weber & Barroso, Power provisioning for a warehouse-sized computer, ISCA 2007 (linear in utilisation).

    Examples
    --------
    >>> float(power_watts(10_000, 0.5, 0.2, 0.8))
    5000.0
    """
    rated = np.asarray(rated_watts, dtype=float)
    active, idle, full = (np.asarray(each, dtype=float) for each in (active_share, idle_share, full_share))
    if np.any(rated < 0):
        raise ValueError(f"rated_watts = {rated_watts!r} must be 0 or more")
    for name, share in (("active_share", active), ("idle_share", idle), ("full_share", full)):
        if np.any((share < 0) | (share > 1)):
            raise ValueError(f"{name} = {share!r} is outside 0 to 1; give a share such as 0.7")
    return (rated * (idle + (full - idle) * active))[()]


@lru_cache(maxsize=128)
def machine_power(device: str, devices: Any = 1) -> Power:
    """What machines with so many accelerators are rated for and draw.

    Parameters
    ----------
    device : str
        An accelerator; its rated power times what servers add to it.
    devices : int
        Accelerators in all machines.

    Returns
    -------
    Power
        NaN with the reason where the catalogue has no rated power.

    Raises
    ------
    cookbook.catalog.UnknownName
        A device that the catalogue does not have.

    Examples
    --------
    >>> box = machine_power("h100-sxm", 8)
    >>> round(box.rated.low / 1e3, 1), round(box.rated.high / 1e3, 1)
    (9.3, 11.4)
    """
    table, key = catalog.table("accelerators"), catalog.lookup("accelerators", device)
    row = table[table["key"] == key].iloc[0]
    more = stated("power", "x chip TDP", items="TPU" if row["kind"] == "tpu" else "GPU;server power")
    watts = float(row["tdp_watts"]) * devices
    why = "" if watts == watts else f"data/accelerators.csv has no rated power of {key}"
    ends = (watts * more.low, watts * more.median, watts * more.high)
    source = tuple(dict.fromkeys([*row["source"].split(";"), *more.source]))
    rated = Price(*ends, "W", rows=more.rows, source=source, why=why)
    return Power(rated, *shares())


@lru_cache(maxsize=1)
def shares() -> tuple[Price, Price]:
    """Draw of an idle machine and of one whose accelerators are active all the time, over its rated power."""
    return stated("power", "fraction", items="idle draw"), stated("power", "fraction", items="full draw;GPU")


def active_seconds(prediction: Estimate) -> Any:
    """Time of a step in which accelerators compute or move memory, at most the step [s].

    Parameters
    ----------
    prediction : Estimate

    Returns
    -------
    numpy.ndarray
        One entry a scenario.
    """
    parts = prediction.by_part
    busy = np.sum([np.asarray(parts[name], dtype=float) for name in ACTIVE if name in parts], axis=0)
    return np.minimum(busy, prediction.point)


def step_kwh(prediction: Estimate, device: str, devices: Any = 1) -> Price:
    """Energy of one step of all machines, before cooling [kWh]; unvalidated.

    Idle power runs for the whole step, the rest for its active part. The low end takes the short step and the low
    figures of power, the high end the long step and the high ones.

    Parameters
    ----------
    prediction : Estimate
        One scenario or many.
    device : str
        Accelerator that was predicted.
    devices : array_like
        How many, in all.

    Returns
    -------
    Price
        Arrays in `low`, `median`, `high`, one entry a scenario.

    Raises
    ------
    cookbook.catalog.UnknownName
        A device that the catalogue does not have.

    Examples
    --------
    >>> from cookbook.prediction.doors import train_step
    >>> energy = step_kwh(train_step("resnet50", "a100-sxm-80gb", batch=256), "a100-sxm-80gb")
    >>> bool(0 < energy.low < energy.median < energy.high), energy.note == UNVALIDATED
    (True, True)
    """
    power, active = machine_power(device, devices), active_seconds(prediction) / prediction.point
    ends = []
    for end, seconds in zip(("low", "median", "high"), seconds_of(prediction), strict=True):
        rated, idle, full = (getattr(each, end) for each in (power.rated, power.idle, power.full))
        ends.append(power_watts(rated, active, idle, full) * seconds / JOULES_A_KWH)
    source = tuple(dict.fromkeys([*power.rated.source, *power.idle.source, *power.full.source]))
    low, middle, high = ends
    return Price(
        low, middle, high, "kWh", rows=power.rated.rows, source=source, note=UNVALIDATED, why=power.rated.why
    )


def seconds_of(prediction: Estimate) -> tuple[Any, Any, Any]:
    """A step's time: low, point, high of its 80 % interval [s]; the point itself where it has no interval."""
    point = np.asarray(prediction.point, dtype=float)
    low, high = (np.asarray(each, dtype=float) for each in (prediction.low80, prediction.high80))
    return np.where(np.isnan(low), point, low)[()], point[()], np.where(np.isnan(high), point, high)[()]
