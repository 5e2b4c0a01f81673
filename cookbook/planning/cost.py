"""What an hour costs, from dated prices: a range with its dates and sources, never a price that nobody states."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog import UnknownName
from cookbook.catalog.names import normalise
from cookbook.hardware import Accelerator

if TYPE_CHECKING:
    import pandas as pd

# Ways to rent and the column of cloud_prices that states them, each for the whole instance.
RENT = {
    "on demand": "usd_per_hour",
    "spot": "usd_per_hour_spot",
    "reserved 1 year": "usd_per_hour_reserved_1y",
    "reserved 3 years": "usd_per_hour_reserved_3y",
}
BOUGHT = "bought"
HOUR, YEAR = units.si("1 h"), units.si("1 year")


@dataclass(frozen=True)
class Price:
    """A price as a range over the rows that state it; NaN throughout, with the reason in `why`, where none does.

    Attributes
    ----------
    low, median, high : float
        Lowest, middle and highest of the rows, in `unit`.
    unit : str
    first, last : str
        Dates of the oldest and the newest dated row; blank where none is dated.
    rows : int
        How many rows it rests on.
    source : tuple of str
        Their keys in sources.
    note : str
        What it counts, where that is not plain.
    why : str
        Why there is none; blank where there is one.
    """

    low: float
    median: float
    high: float
    unit: str
    first: str = ""
    last: str = ""
    rows: int = 0
    source: tuple[str, ...] = ()
    note: str = ""
    why: str = ""


def hourly_usd(name: str | Accelerator, way: str = "on demand", since: int | None = None) -> Price:
    """What an hour of one accelerator, or of a whole system, costs [USD/h].

    Rented, it is the range of what clouds ask; a system that no cloud lists by name counts as so many accelerators.
    Bought, it is the purchase price spread over the years of use in the table ``tco``, the cheapest over the longest
    and the dearest over the shortest, every hour of them; electricity is not in it (`electricity_usd`).

    Parameters
    ----------
    name : str or Accelerator
        Accelerator or system, by any spelling that `lookup` accepts.
    way : str
        ``on demand``, ``spot``, ``reserved 1 year``, ``reserved 3 years`` or ``bought``.
    since : int, optional
        First year to count; rows without a date are left out then.

    Raises
    ------
    UnknownName
        If it is neither an accelerator nor a system (a KeyError; names the nearest three).
    ValueError
        If `way` is none of these.

    Examples
    --------
    >>> price = hourly_usd("a100-sxm-80gb", since=2026)
    >>> price.low < price.median < price.high, price.unit
    (True, 'USD/h')
    >>> hourly_usd("power8-nvlink").why
    'no row of data/cloud_prices.csv states a price on demand of power8-nvlink'
    """
    if way not in (*RENT, BOUGHT):
        raise ValueError(f"way is {way!r}; it must be one of {', '.join((*RENT, BOUGHT))}")
    if isinstance(name, Accelerator) and name.changed:
        return _missing("USD/h", f"{name.name} is made up, so nobody sells it")
    kind, key = _known(name)
    if way == BOUGHT:
        return _bought(kind, key, since)
    return _rented(kind, key, way, since)


def _known(name: str | Accelerator) -> tuple[str, str]:
    if isinstance(name, Accelerator):
        return "accelerators", name.key
    near = []
    for kind in ("accelerators", "systems"):
        try:
            return kind, catalog.lookup(kind, name)
        except UnknownName as unknown:
            near += unknown.nearest[:2]
    raise UnknownName("accelerators", name, near[:3])


def _rented(kind: str, key: str, way: str, since: int | None) -> Price:
    prices, column = _since(catalog.table("cloud_prices"), since), RENT[way]
    if kind == "accelerators":
        rows = prices[prices["accelerator_key"] == key]
        words = f"no row of data/cloud_prices.csv states a price {way} of {key}"
        return _price(rows[column] / rows["devices"], rows, words + _from(since))
    system = _row("systems", key)
    wanted = normalise(system["name"])
    instances = [normalise(f"{p} {i}") for p, i in zip(prices["provider"], prices["instance"], strict=True)]
    rows = prices[[instance == wanted for instance in instances]]
    if rows[column].notna().any():
        return _price(rows[column], rows, "", note="the instance as a whole")
    if not system["accelerator_key"]:
        return _missing("USD/h", f"no cloud lists {key}, and which accelerator it holds is not certain")
    return _devices(_rented("accelerators", system["accelerator_key"], way, since), system)


def bought_usd(name: str | Accelerator, since: int | None = None) -> Price:
    """What one accelerator, or a whole system, costs to buy [USD]; a system without a price counts its accelerators.

    Parameters
    ----------
    name, since
        As for `hourly_usd`; the price of a system is not dated, so that its note says how old it is.

    Raises
    ------
    UnknownName
        If it is neither an accelerator nor a system.

    Examples
    --------
    >>> bought_usd("tinybox-green").median
    25000.0
    """
    kind, key = _known(name)
    if kind == "systems" and not math.isnan(_row("systems", key)["price_usd"]):
        return _purchase(kind, key, None)
    return _purchase(kind, key, since)


def _bought(kind: str, key: str, since: int | None) -> Price:
    return _spread(_purchase(kind, key, since))


def _purchase(kind: str, key: str, since: int | None) -> Price:
    if kind == "accelerators":
        prices = _since(catalog.table("hardware_prices"), since)
        rows = prices[prices["accelerator_key"] == key]
        why = f"no row of data/hardware_prices.csv states a price of {key}{_from(since)}"
        return _price(rows["usd_per_device"], rows, why, unit="USD")
    system = _row("systems", key)
    if since is None and not math.isnan(system["price_usd"]):
        cost, source = float(system["price_usd"]), tuple(system["source"].split(";"))
        return Price(cost, cost, cost, "USD", rows=1, source=source, note=system["note"])
    if not system["accelerator_key"]:
        return _missing("USD", f"data/systems.csv has no price of {key}, nor for certain its accelerator")
    return _devices(_purchase("accelerators", system["accelerator_key"], since), system, ", with the server or without")


def _spread(price: Price) -> Price:
    """A purchase price as USD an hour over the years of use that the sources state."""
    table = catalog.table("tco")
    rows = table[(table["category"] == "depreciation_years") & (table["unit"] == "years")]
    hours = rows["value"] * YEAR / HOUR
    source = tuple(dict.fromkeys([*price.source, *_sources(rows)])) if price.rows else ()
    return _times(price, 1 / hours.max(), 1 / hours.median(), 1 / hours.min(), unit="USD/h", source=source)


def electricity_usd(watts: float | str, region: str | None = None, since: int | None = None) -> Price:
    """What an hour of a load costs in electricity, cooling and conversion losses of the building included [USD/h].

    Parameters
    ----------
    watts : float or str
        Power drawn [W].
    region : str, optional
        In the words of the table ``tco``; all that are priced in USD if not given.
    since : int, optional
        First year of prices to count.

    Raises
    ------
    ValueError
        If `watts` is negative, not finite or no power.

    Examples
    --------
    >>> price = electricity_usd("10.2 kW", region="US", since=2024)
    >>> round(price.low, 2) < round(price.high, 2), price.rows
    (True, 2)
    """
    load = float(units.si(watts, "W"))
    if not math.isfinite(load) or load < 0:
        raise ValueError(f"watts = {watts!r} must be zero or more and finite, such as '700 W'")
    table = catalog.table("tco")
    rows = table[(table["category"] == "electricity_price") & (table["unit"] == "USD/kWh")]
    rows = _since(rows.assign(date=rows["year"]), since)
    rows = rows if region is None else rows[rows["region"] == region]
    if rows.empty:
        return _missing("USD/h", f"no row of data/tco.csv states a price in USD/kWh for {region}{_from(since)}")
    losses = table[table["category"] == "pue"]
    tariff, factor = _range(rows), _range(losses)
    low, median, high = (price * loss for price, loss in zip(tariff, factor, strict=True))
    sources = tuple(dict.fromkeys([*_sources(rows), *_sources(losses)]))
    note = "the dearest is stated as 'at least'" if rows[["value", "value_high"]].isna().all(axis=1).any() else ""
    first, last = _dates(rows["date"])
    hourly = load * units.scale("USD/kWh") * HOUR
    return _times(Price(low, median, high, "USD/h", first, last, len(rows), sources, note), hourly, hourly, hourly)


def _range(rows: pd.DataFrame) -> tuple[float, float, float]:
    """Lowest, median and highest of rows that state a value or the ends of a range."""
    stated = rows[["value", "value_low", "value_high"]]
    return float(np.nanmin(stated)), float(stated.mean(axis=1).median()), float(np.nanmax(stated))


def storage_usd(capacity: float | str = 1e12) -> pd.DataFrame:
    """What storage costs for its size and for its read rate, a row for each row of the table ``storage``.

    Parameters
    ----------
    capacity : float or str
        Size of one drive or volume, which has the read rate of the row [B]. The table does not state it.

    Returns
    -------
    pandas.DataFrame
        key, name; usd_per_tb [USD/TB], usd for the capacity [USD], usd_per_gb_s of sequential read [USD per GB/s]; per
        (purchase or month: what the USD pay), date, how, source; why, where a figure is missing. Missing stays NaN.

    Raises
    ------
    ValueError
        If `capacity` is not above 0 and finite, or has another unit.

    Examples
    --------
    >>> drives = storage_usd("1 TB").set_index("key")
    >>> round(float(drives.at["samsung-990-pro-1tb-consumer", "usd_per_gb_s"]), 2)
    11.41
    """
    size = float(units.si(capacity, "B"))
    if not math.isfinite(size) or size <= 0:
        raise ValueError(f"capacity = {capacity!r} must be above 0 and finite, such as '7.68 TB'")
    table = catalog.table("storage")
    usd = table["price_usd_per_tb"] * size / units.scale("TB")
    frame = table[["key", "name"]].assign(usd_per_tb=table["price_usd_per_tb"], usd=usd)
    frame["usd_per_gb_s"] = usd / (table["read_bandwidth"] / units.scale("GB/s"))
    basis = table["price_basis"]
    frame["per"] = np.select([basis == "purchase", basis != ""], ["purchase", "month"], "")
    priced, rated = table["price_usd_per_tb"].notna(), table["read_bandwidth"].notna()
    frame = frame.assign(date=table["price_date"], how=table["how"], source=table["source"])
    reasons = ["no price and no read bandwidth", "no price", "no read bandwidth"]
    why = np.select([~priced & ~rated, ~priced, ~rated], [f"{reason} in data/storage.csv" for reason in reasons], "")
    return frame.assign(why=why)


def _price(values: pd.Series, rows: pd.DataFrame, why: str, unit: str = "USD/h", note: str = "") -> Price:
    stated = values.notna()
    if not stated.any():
        return _missing(unit, why)
    found, rows = values[stated], rows[stated]
    first, last = _dates(rows["date"])
    ends = (float(found.min()), float(found.median()), float(found.max()))
    return Price(*ends, unit, first, last, len(found), _sources(rows), note)


def _devices(one: Price, system: dict[str, Any], more: str = "") -> Price:
    """The price of one accelerator for all of a system's."""
    count = float(system["devices"])
    note = f"{count:g} times the price of one {system['accelerator_key']}{more}" if one.rows else ""
    return _times(one, count, count, count, note=note)


def _times(price: Price, low: float, median: float, high: float, **changes: Any) -> Price:
    low, median, high = float(price.low * low), float(price.median * median), float(price.high * high)
    return replace(price, low=low, median=median, high=high, **changes)


def _missing(unit: str, why: str) -> Price:
    return Price(math.nan, math.nan, math.nan, unit, why=why)


def _since(rows: pd.DataFrame, year: int | None) -> pd.DataFrame:
    return rows if year is None else rows[rows["date"].str[:4] >= f"{year:04d}"]


def _from(year: int | None) -> str:
    return "" if year is None else f" since {year}"


def _dates(dates: pd.Series) -> tuple[str, str]:
    dated = sorted(date for date in dates if date)
    return (dated[0], dated[-1]) if dated else ("", "")


def _sources(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for cell in rows["source"] for key in cell.split(";")))


def _row(table: str, key: str) -> dict[str, Any]:
    frame = catalog.table(table)
    return frame[frame["key"] == key].iloc[0].to_dict()
