"""What a run costs in USD, kWh and kg of CO2 equivalents: a step, an epoch, the run, each with low and high."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.planning.cost import BOUGHT, Price, hourly_usd
from cookbook.planning.energy import seconds_of, step_kwh
from cookbook.planning.facts import carbon, stated, tariff, times
from cookbook.planning.ownership import HOUR

if TYPE_CHECKING:
    import pandas as pd

    from cookbook.prediction.estimate import Estimate

SPANS = ("step", "epoch", "run")
ENDS = ("low", "median", "high")
GRAM = 1e-3


def run_cost(
    prediction: Estimate,
    device: str,
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
    """What training costs: the interval of the predicted time by the range of prices.

    Low takes the short end of the 80 % interval and the lowest price, high the long end and the highest: an envelope,
    so that more than 80 % lie inside, if prices are what the rows say. A device that is bought pays electricity and
    cooling besides; rent includes them.

    Parameters
    ----------
    prediction : Estimate
        Of `cookbook.train_step`; one scenario or many.
    device : str
        The accelerator predicted.
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
        First year of prices to count.

    Returns
    -------
    pandas.DataFrame
        A row for each scenario and span (step, epoch, run): seconds, usd, kwh, kgco2e, each as _low, _median, _high;
        why, where a figure is missing; priced, the dates of the prices. Missing stays NaN.

    Raises
    ------
    cookbook.catalog.UnknownName
        A device or region that the catalogue does not have.
    ValueError
        Samples or epochs not above 0, or an unknown `way`.

    Examples
    --------
    >>> from cookbook.prediction.doors import train_step
    >>> step = train_step("resnet152", "a100-sxm-80gb", batch=64)
    >>> bill = run_cost(step, "a100-sxm-80gb", samples_per_step=64, samples=14e6, since=2025).set_index("span")
    >>> bool(bill.usd_low["epoch"] < bill.usd_median["epoch"] < bill.usd_high["epoch"])
    True
    """
    import pandas as pd

    for name, value in (("samples_per_step", samples_per_step), ("samples", samples), ("epochs", epochs)):
        if not np.all(np.asarray(value, dtype=float) > 0):
            raise ValueError(f"{name} = {value!r} must be above 0; give the number, such as 64")
    hour, energy, per_kwh = _price(price, device, way, since), step_kwh(prediction, device, devices), carbon(region)
    power = tariff(region)
    building = stated("pue", items=pue) if pue else Price(1.0, 1.0, 1.0, "ratio")
    steps = samples / np.atleast_1d(np.asarray(samples_per_step, dtype=float))
    counts = {"step": np.ones_like(steps), "epoch": steps, "run": steps * epochs}
    seconds, wall = Price(*seconds_of(prediction), "s"), times(energy, building, "kWh")
    spent = times(seconds, times(hour, 1 / HOUR, "USD/s"), "USD")
    spent = replace(spent, **{end: getattr(spent, end) * devices for end in ENDS})
    if way == BOUGHT:
        current = times(wall, power, "USD")
        spent = replace(spent, **{end: getattr(spent, end) + getattr(current, end) for end in ENDS})
    quantities = {"seconds": seconds, "usd": spent, "kwh": wall, "kgco2e": times(wall, times(per_kwh, GRAM, ""), "kg")}
    why = _why(prediction, {"usd": hour.why or (power.why if way == BOUGHT else ""), "kwh": energy.why,
                            "kgco2e": per_kwh.why})  # fmt: skip
    frames = [_rows(span, count, quantities) for span, count in counts.items()]
    dated = hour.last if hour.first == hour.last else f"{hour.first} to {hour.last}"
    return pd.concat(frames, ignore_index=True).assign(why=np.tile(why, len(SPANS)), priced=dated)


def _price(price: Price | float | None, device: str, way: str, since: int | None) -> Price:
    if isinstance(price, Price):
        return price
    if price is None:
        return hourly_usd(device, way, since)
    if not price >= 0:
        raise ValueError(f"price = {price!r} must be 0 or more [USD/h]")
    return Price(price, price, price, "USD/h", note="your own price")


def _rows(span: str, count: np.ndarray, quantities: dict[str, Price]) -> pd.DataFrame:
    import pandas as pd

    columns = {
        f"{name}_{end}": np.broadcast_to(getattr(quantity, end) * count, np.broadcast_shapes(
            np.shape(getattr(quantity, end)), count.shape))
        for name, quantity in quantities.items() for end in ENDS
    }  # fmt: skip
    rows = np.broadcast_arrays(*columns.values())
    frame = pd.DataFrame(dict(zip(columns, rows, strict=True)))
    frame.insert(0, "span", span)
    frame.insert(0, "scenario", range(len(frame)))
    return frame


def _why(prediction: Estimate, missing: dict[str, str]) -> np.ndarray:
    money = "; ".join(dict.fromkeys(reason for reason in missing.values() if reason))
    reasons = np.atleast_1d(np.asarray(prediction.why, dtype=object))
    return np.array([str(reason) or money for reason in reasons], dtype=object)
