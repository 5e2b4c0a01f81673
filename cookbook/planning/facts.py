"""Figures of the table `tco` as ranges with dates and sources, and what regions and places they belong to."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.planning.cost import Price

if TYPE_CHECKING:
    import pandas as pd

PER_KWH = "USD/kWh"
SINCE = "2024"


@lru_cache(maxsize=512)
def stated(
    category: str, unit: str = "", *, items: str = "", region: str | None = None, since: str = "", note: str = ""
) -> Price:
    """A figure of `tco` as the range of all rows that state it; NaN with the reason where none does.

    Parameters
    ----------
    category, unit : str
        As in the table; any unit if not given.
    items : str
        Words of which an item contains one, ``;`` between them; every item if not given.
    region : str, optional
        As in the table.
    since : str
        First year to count, where the row says a year.
    note : str
        What to mind.

    Returns
    -------
    Price
        In the unit of the rows.

    Examples
    --------
    >>> figure = stated("pue", items="Uptime Institute survey average")
    >>> figure.low, figure.high, figure.rows
    (1.56, 1.58, 2)
    >>> stated("electricity_price", "USD/kWh", region="Atlantis").why
    'no row of data/tco.csv states electricity_price in USD/kWh for Atlantis'
    """
    table = catalog.table("tco")
    wanted = [word.strip() for word in items.split(";") if word.strip()]
    rows = table[(table["category"] == category) & (table["unit"] == (unit or table["unit"]))]
    rows = rows if region is None else rows[rows["region"] == region]
    if wanted:
        rows = rows[np.array([any(word in item for word in wanted) for item in rows["item"]], dtype=bool)]
    rows = rows[rows["year"].str[:4] >= since] if since else rows
    values = rows[["value", "value_low", "value_high"]].to_numpy(dtype=float)
    if not np.isfinite(values).any():
        of = f" of {items}" if items else ""
        where = f" for {region}" if region is not None else ""
        why = f"no row of data/tco.csv states {category}{f' in {unit}' if unit else ''}{of}{where}"
        return Price(math.nan, math.nan, math.nan, unit, why=why)
    middle = [float(np.nanmean(row)) for row in values if np.isfinite(row).any()]
    ends = (float(np.nanmin(values)), float(np.median(middle)), float(np.nanmax(values)))
    years = sorted(year for year in rows["year"] if year)
    first, last = (years[0], years[-1]) if years else ("", "")
    return Price(*ends, rows["unit"].iloc[0], first, last, len(rows), _sources(rows), note)


def _sources(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for cell in rows["source"] for key in cell.split(";")))


def times(one: Price, other: Price | float, unit: str) -> Price:
    """Product of two ranges that are not below 0: low by low, high by high; the reason of either where one is missing.

    Examples
    --------
    >>> product = times(Price(1, 2, 3, "h"), Price(10, 10, 20, "USD/h"), "USD")
    >>> product.low, product.median, product.high, product.unit
    (10, 20, 60, 'USD')
    """
    if not isinstance(other, Price):
        other = Price(other, other, other, "")
    ends = (one.low * other.low, one.median * other.median, one.high * other.high)
    dates = sorted(date for price in (one, other) for date in (price.first, price.last) if date)
    first, last = (dates[0], dates[-1]) if dates else ("", "")
    source = tuple(dict.fromkeys([*one.source, *other.source]))
    return Price(*ends, unit, first, last, max(one.rows, other.rows), source, one.note, one.why or other.why)


def region_row(region: str) -> dict[str, Any]:
    """Row of the table `regions`.

    Raises
    ------
    cookbook.catalog.UnknownName
        A region that the table does not have; names the nearest three.
    """
    table, key = catalog.table("regions"), catalog.lookup("regions", region)
    return table[table["key"] == key].iloc[0].to_dict()


@lru_cache(maxsize=64)
def tariff(region: str = "us", currency: str = "USD", since: str = SINCE) -> Price:
    """Price of electricity for industry, in US dollars whatever the currency of the source.

    Parameters
    ----------
    region : str
        A row of the table ``regions``.
    currency : str
        What to state it in: ``USD`` or ``EUR``.
    since : str
        First year of prices to count.

    Returns
    -------
    Price
        Per kWh; NaN with the reason where no row states it.

    Raises
    ------
    cookbook.catalog.UnknownName
        A region that the table does not have.
    ValueError
        A currency without an exchange rate in ``tco``.

    Examples
    --------
    >>> round(tariff("Germany").median, 3), tariff("norway").why
    (0.252, 'data/tco.csv has no electricity price of Norway; give your own')
    """
    row, rate = region_row(region), _exchange(currency)
    if not row["electricity"]:
        why = f"data/tco.csv has no electricity price of {row['name']}; give your own"
        return Price(math.nan, math.nan, math.nan, f"{currency}/kWh", why=why)
    found = stated("electricity_price", PER_KWH, region=row["electricity"], since=since)
    if found.why:
        euro = stated("exchange_rate", "USD/EUR")
        found = times(stated("electricity_price", "EUR/kWh", region=row["electricity"], since=since), euro, PER_KWH)
    return found if currency == "USD" else _over(found, rate, f"{currency}/kWh")


def _exchange(currency: str) -> Price:
    """US dollars for one unit of a currency."""
    one = Price(1.0, 1.0, 1.0, "USD/USD")
    found = one if currency == "USD" else stated("exchange_rate", f"USD/{currency}")
    if found.why:
        known = catalog.table("tco")
        units = known.loc[known["category"] == "exchange_rate", "unit"].str.partition("/")[2]
        offered = ", ".join(["USD", *units])
        raise ValueError(f"currency = {currency!r} has no exchange rate in data/tco.csv; take one of {offered}")
    return found


def _over(price: Price, rate: Price, unit: str) -> Price:
    source = tuple(dict.fromkeys([*price.source, *rate.source]))
    low, median, high = price.low / rate.high, price.median / rate.median, price.high / rate.low
    return replace(price, low=low, median=median, high=high, unit=unit, source=source)


@lru_cache(maxsize=64)
def carbon(region: str = "us") -> Price:
    """Carbon intensity of a region's electricity, location based [gCO2e/kWh].

    Parameters
    ----------
    region : str
        A row of the table ``regions``, or a region of a cloud as ``tco`` names it, such as ``europe-north1``.

    Returns
    -------
    Price
        The range of the rows; NaN with the reason where no row states it.

    Raises
    ------
    cookbook.catalog.UnknownName
        A region that neither table has.

    Examples
    --------
    >>> carbon("us").median, carbon("Germany West Central").high
    (369.473, 402.0)
    """
    cloud = stated("carbon_intensity", region=region)
    if not cloud.why:
        return cloud
    row = region_row(region)
    if not row["carbon"]:
        why = f"data/tco.csv has no carbon intensity of {row['name']} as a whole; take one of its countries"
        return Price(math.nan, math.nan, math.nan, cloud.unit, why=why)
    return stated("carbon_intensity", region=row["carbon"])
