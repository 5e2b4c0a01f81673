"""The one reader of prices and running costs: ranges with their dates and sources; no value without a source."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog.fields import MAX_NUMBER, Field, checked
from cookbook.catalog.refusals import refused
from cookbook.result import Result

from .names import UnknownName, lookup, normalise
from .tables import table

# Ways to rent and the column of cloud_prices that states them, each for the whole instance.
RENT = {
    "on demand": "usd_per_hour",
    "spot": "usd_per_hour_spot",
    "reserved 1 year": "usd_per_hour_reserved_1y",
    "reserved 3 years": "usd_per_hour_reserved_3y",
}
SPOT, BOUGHT = "spot", "bought"
# Rows that state the price of so many accelerators at once, from which on offers of fewer are left out.
FEWEST_TOGETHER = 3
ENDS = ("low", "median", "high")
PER_KWH = "USD/kWh"
SINCE = "2024"
HOUR, YEAR = units.si("1 h"), units.si("1 year")
MONTH = YEAR / 12
# Years that a price list may contain.
EARLIEST, LATEST = 1900, 2200
# Arguments of prices: ways to pay, the first year that counts, and an hour of one device.
WAY = Field.choice(*RENT, BOUGHT)
SINCE_YEAR = Field.count(EARLIEST, LATEST, give="a year such as 2025, or None for the newest 12 months", optional=True)
USD_PER_HOUR = Field.number(0, 1e9, unit="USD/h", in_unit=True, give="0 USD/h or more, such as '$2.50/h'")
WORDS, REGION = Field.text(1000), Field.named("regions")


@dataclass(frozen=True, repr=False)
class Price(Result):
    """A price as a range over the rows that state it; NaN throughout, with the reason in `why`, where none does.

    Attributes
    ----------
    low, median, high : float
        Lower quartile, median and upper quartile of hardware prices, in `unit`; for values of `stated`, the
        lowest, the median and the highest.
    unit : str
    first, last : str
        Dates of the oldest and the newest dated row; blank where none is dated.
    rows : int
        Number of rows from which it is computed.
    source : tuple of str
        Keys of these rows' sources.
    note : str
        Remark on the cost counted, where that is not obvious.
    why : str
        Reason why there is no price; blank where there is one.
    """

    low: float
    median: float
    high: float
    unit: str
    first: str = ""
    last: str = ""
    rows: int = 0
    source: tuple[str, ...] = field(default=())
    note: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        for name in ("low", "median", "high"):
            value = getattr(self, name)
            single = isinstance(value, (int, float)) and not isinstance(value, bool)
            is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 0
            if not is_array and not (single and not abs(value) >= MAX_NUMBER):  # NaN: not known
                raise refused(name, value, "must be a number, in the unit of the price")
        for name in ("unit", "first", "last", "note", "why"):
            if not isinstance(getattr(self, name), str):
                raise refused(name, getattr(self, name), "must be text")
        if not isinstance(self.rows, int) or not isinstance(self.source, tuple):
            raise ValueError("rows and source of a price are a whole number and a tuple of keys of the table 'sources'")
        if abs(self.rows) >= MAX_NUMBER:
            raise refused("rows", self.rows, "must be the number of rows of a table")

    def summary(self) -> str:
        """Return the range with its unit, rows and dates; or the reason why there is none."""
        if self.why:
            return self.why
        low, median, high = (np.asarray(getattr(self, end), dtype=float) for end in ENDS)
        count = max(low.size, median.size, high.size)
        if count > 1:
            return f"{count} prices [{self.unit}]"
        middle, ends = f"{median:.4g} {self.unit}", f"{low:.4g} to {high:.4g}"
        if self.unit.startswith("USD"):
            middle = units.human(float(median), self.unit)
            ends = f"{units.dollars(float(low))} to {units.dollars(float(high))}"
        range_text = f" ({ends})" if high > low else ""
        dates = f", {self.dates}" if self.dates else ""
        return f"{middle}{range_text}, {self.rows} row{'' if self.rows == 1 else 's'}{dates}"

    @property
    def dates(self) -> str:
        """Return the first and last date in words; blank where nothing is dated."""
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


def missing(unit: str, why: str) -> Price:
    """Return a missing price with its reason."""
    return Price(math.nan, math.nan, math.nan, unit, why=why)


def given(value: float, unit: str) -> Price:
    """Return a price that the reader states."""
    return Price(value, value, value, unit, note="your own price")


@runtime_checkable
class Keyed(Protocol):
    """A record of the catalogue, or of the reader's own."""

    @property
    def key(self) -> str:
        """The name in the catalogue."""

    @property
    def name(self) -> str:
        """The name as printed."""


# A device: by name, or a record of the reader's own, which has a key.
DEVICE = Field.record(str, Keyed, what="device", give="an accelerator or a system such as 'h100-sxm'")


# Shares of the rows below the two ends of a list price, by the name of its range.
RANGES = {"quartiles": (0.25, 0.75), "deciles": (0.1, 0.9)}
RANGE = Field.choice(*RANGES)


@checked(name=DEVICE, way=WAY, since=SINCE_YEAR, together=Field.count(high=1_000_000), ends=RANGE)
def hourly_usd(
    name: str | Keyed, way: str = "on demand", since: int | None = None, together: int = 1, ends: str = "quartiles"
) -> Price:
    """Return the price of one hour of an accelerator, or of a system [USD/h].

    For rent, it is the median and the quartiles of cloud prices in the twelve months up to the newest list; a system
    that no cloud lists by name counts as its accelerators. Reserved, it is the price on demand times the share of it
    that lists with both prices ask, since few lists state a reservation, and those are the most expensive. Bought, it
    is the purchase price, of its newest twelve months too, spread over the years of use in the table ``tco``: the lower
    quartile over the longest and the upper over the shortest. Electricity comes on top (`electricity_usd`).

    Spot offers are of a market, of one accelerator for the most part. One that asks more than the same provider asks on
    demand is left out, and where at least three rows offer `together` accelerators in one machine, only those count.

    Parameters
    ----------
    name : str or Accelerator
        Accelerator or system, by any spelling that `lookup` accepts; of the reader's own accelerator no price is known.
    way : str
        ``on demand``, ``spot``, ``reserved 1 year``, ``reserved 3 years`` or ``bought``.
    since : int, optional
        First year to count, instead of the newest twelve months; rows without a date are left out.
    together : int
        Accelerators that one machine must have; spot prices only.
    ends : str
        ``quartiles``, or ``deciles``: low and high are the 10th and the 90th percentile.

    Raises
    ------
    UnknownName
        If it is neither an accelerator nor a system (a KeyError; names the nearest three).
    ValueError
        If `way` is not one of these, or `since` is not a year.

    Examples
    --------
    >>> price = hourly_usd("a100-sxm-80gb", since=2026)
    >>> price.low < price.median < price.high, price.unit
    (True, 'USD/h')
    >>> hourly_usd("power8-nvlink").why
    'no row of data/cloud_prices.csv states a price on demand of power8-nvlink'
    """
    kind, key = _table_key(name)
    if not kind:
        return missing("USD/h", f"{key} is made up: nobody sells it, so that no price is known; give your own")
    if way == BOUGHT:
        return _spread(_purchase(kind, key, since, ends))
    return _rented(kind, key, way, since, together if way == SPOT else 1, ends)


@checked(accelerator=DEVICE, way=WAY, since=SINCE_YEAR)
def device_usd(accelerator: str | Keyed, way: str = "on demand", since: int | None = None) -> Price:
    """Return the price of one hour of one accelerator of a machine, as its share of the machine [USD/h].

    Parameters
    ----------
    accelerator : str or Accelerator
        An accelerator, or a system, whose price is shared among its accelerators.
    way, since
        As in `hourly_usd`.

    Examples
    --------
    >>> device_usd("dgx-h100").median == hourly_usd("h100-sxm").median
    True
    """
    whole = hourly_usd(accelerator, way, since)
    kind, key = _table_key(accelerator)
    return times(whole, 1 / float(_row("systems", key)["devices"]), whole.unit) if kind == "systems" else whole


def hour_usd(
    accelerator: str | Keyed, hourly: float | None = None, way: str = "on demand", since: int | None = None
) -> Price:
    """Return the price of one hour of an accelerator: the reader's own where it is given, else `device_usd` [USD/h].

    Spot prices are those of single accelerators; `hourly_usd` has those of machines.

    >>> hour_usd("h100-sxm", 2.5).median
    2.5
    """
    if hourly is None:
        return device_usd(accelerator, way, since)
    return given(hourly, "USD/h")


@checked(name=DEVICE, since=SINCE_YEAR, ends=RANGE)
def bought_usd(name: str | Keyed, since: int | None = None, ends: str = "quartiles") -> Price:
    """Return the purchase price of an accelerator, or of a system [USD].

    A system without a price counts its accelerators.

    Parameters
    ----------
    name, since, ends
        As in `hourly_usd`; the price of a system is not dated, so its note states its age.

    Raises
    ------
    UnknownName
        If it is neither an accelerator nor a system.

    Examples
    --------
    >>> bought_usd("tinybox-green").median
    25000.0
    """
    kind, key = _table_key(name)
    if not kind:
        return missing("USD", f"{key} is made up: nobody sells it, so that no price is known; give your own")
    priced = kind == "systems" and not math.isnan(_row("systems", key)["price_usd"])
    return _purchase(kind, key, None if priced else since, ends)


def _table_key(name: Any) -> tuple[str, str]:
    """Return table and key of a name or a record; no table for a record of the reader's own, with its name."""
    if not isinstance(name, str):
        return ("accelerators", name.key) if name.key in _keys() else ("", str(name.name))
    suggestions: list[str] = []
    for kind in ("accelerators", "systems"):
        try:
            return kind, lookup(kind, name)
        except UnknownName as unknown:
            suggestions += unknown.nearest[:2]
    raise UnknownName("accelerators", name, suggestions[:3])


@lru_cache(maxsize=1)
def _keys() -> frozenset[str]:
    return frozenset(table("accelerators")["key"])


@lru_cache(maxsize=2048)
def _rented(kind: str, key: str, way: str, since: int | None, together: int, ends: str) -> Price:
    prices = _since(table("cloud_prices"), since)
    if kind == "accelerators":
        rows = prices[prices["accelerator_key"] == key]
        rows = _on_the_market(rows, since, together) if way == SPOT else rows
        reason = f"no row of data/cloud_prices.csv states a price {way} of {key}{_from(since)}"
        return _offered(rows, way, reason, rows["devices"], since, ends)
    system = _row("systems", key)
    spelling = normalise(system["name"])
    instances = [normalise(f"{p} {i}") for p, i in zip(prices["provider"], prices["instance"], strict=True)]
    rows = prices[[instance == spelling for instance in instances]]
    if rows[RENT[way]].notna().any():
        return replace(_offered(rows, way, "", 1.0, since, ends), note="the instance as a whole")
    if not system["accelerator_key"]:
        return missing("USD/h", f"no cloud lists {key}, and which accelerator it holds is not certain")
    one = _rented("accelerators", system["accelerator_key"], way, since, int(system["devices"]), ends)
    return _devices(one, system)


def _on_the_market(rows: pd.DataFrame, since: int | None, together: int) -> pd.DataFrame:
    """Return spot offers at most at what the provider asks on demand; of `together` devices where three are."""
    on_demand = (rows[RENT["on demand"]] / rows["devices"]).groupby(rows["provider"]).max()
    spot = rows[RENT[SPOT]] / rows["devices"]
    rows = rows[~(spot > rows["provider"].map(on_demand))]
    if together == 1:
        return rows
    stating = rows[RENT[SPOT]].notna()
    if since is None:
        stating &= newest_year(rows["date"].where(stating, ""))
    enough = stating & (rows["devices"] >= together)
    return rows[enough] if enough.sum() >= FEWEST_TOGETHER else rows


def _offered(rows: pd.DataFrame, way: str, why: str, devices: Any, since: int | None, ends: str) -> Price:
    """Return the rows' prices per device-hour; a reservation as a share of the on-demand price."""
    usual, column = RENT["on demand"], RENT[way]
    both = rows[rows[column].notna() & rows[usual].notna()]
    if not way.startswith("reserved") or both.empty:
        return _price(rows[column] / devices, rows, why, since, ends)
    now = _offered(rows, "on demand", why, devices, since, ends)
    share = _price(both[column] / both[usual], both, why, since, ends, "ratio")
    lists = "1 list that states both" if share.rows == 1 else f"{share.rows} lists that state both"
    note = f"{100 * share.median:.0f} % of the on-demand price, from {lists}"
    return replace(times(now, share, "USD/h"), note=note)


@lru_cache(maxsize=2048)
def _purchase(kind: str, key: str, since: int | None, ends: str) -> Price:
    if kind == "accelerators":
        prices = _since(table("hardware_prices"), since)
        rows = prices[prices["accelerator_key"] == key]
        reason = f"no row of data/hardware_prices.csv states a price of {key}{_from(since)}"
        return _price(rows["usd_per_device"], rows, reason, since, ends, "USD")
    system = _row("systems", key)
    if since is None and not math.isnan(system["price_usd"]):
        cost, source = float(system["price_usd"]), tuple(system["source"].split(";"))
        return Price(cost, cost, cost, "USD", rows=1, source=source, note=system["note"])
    if not system["accelerator_key"]:
        return missing("USD", f"data/systems.csv has no price of {key}, nor for certain its accelerator")
    one = _purchase("accelerators", system["accelerator_key"], since, ends)
    return _devices(one, system, ", with the server or without")


def _spread(price: Price) -> Price:
    """Return a purchase price in USD per hour over the years of use that the sources state."""
    low, median, high = (years * YEAR / HOUR for years in years_of_use())
    source = tuple(dict.fromkeys([*price.source, *_sources(_lives())])) if price.rows else ()
    ends = (price.low / high, price.median / median, price.high / low)
    return replace(price, low=ends[0], median=ends[1], high=ends[2], unit="USD/h", source=source)


def years_of_use() -> tuple[float, float, float]:
    """Return the shortest, median and longest depreciation time of hardware [years], from the table ``tco``."""
    years = _lives()["value"]
    return float(years.min()), float(years.median()), float(years.max())


def _lives() -> pd.DataFrame:
    rows = table("tco")
    return rows[(rows["category"] == "depreciation_years") & (rows["unit"] == "years")]


@checked(watts=Field.number(0, unit="W"), region=WORDS, since=SINCE_YEAR)
def electricity_usd(watts: float | str, region: str | None = None, since: int | None = None) -> Price:
    """Return the price per hour of a load's electricity, including the building's cooling and losses [USD/h].

    Parameters
    ----------
    watts : float or str
        Power drawn [W].
    region : str, optional
        Region as written in the table ``tco``; by default all regions that are priced in USD.
    since : int, optional
        First year of prices to count.

    Raises
    ------
    ValueError
        If `watts` is negative, not finite or not a power.

    Examples
    --------
    >>> price = electricity_usd("10.2 kW", region="US", since=2024)
    >>> round(price.low, 2) < round(price.high, 2), price.rows
    (True, 2)
    """
    load = float(watts)
    rate = stated("electricity_price", PER_KWH, region=region, since="" if since is None else f"{since:04d}")
    if rate.why:
        return missing("USD/h", f"no row of data/tco.csv states a price in $/kWh for {region}{_from(since)}")
    losses = stated("pue")
    hourly = times(times(rate, losses, "USD/h"), load * units.scale(PER_KWH) * HOUR, "USD/h")
    return replace(hourly, first=rate.first, last=rate.last, rows=rate.rows, note=rate.note)


@checked(capacity=Field.number(unit="B"))
def storage_usd(capacity: float | str = 1e12) -> pd.DataFrame:
    """Return the cost of storage by size and by read rate, a row for each row of the table ``storage``.

    Parameters
    ----------
    capacity : float or str
        Size of one drive or volume, which has the read rate of the row [B]. The table does not state it.

    Returns
    -------
    pandas.DataFrame
        key, name; usd_per_tb [USD/TB], usd for the capacity [USD], usd_per_gb_s of sequential read [USD per GB/s]; per
        (purchase or month: what the USD pay), date, how, source; why, where a value is missing. Missing stays NaN.

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
    size, rows = float(capacity), table("storage")
    usd = rows["price_usd_per_tb"] * size / units.scale("TB")
    priced, rated = usd.notna(), rows["read_bandwidth"].notna()
    basis = rows["price_basis"]
    return rows[["key", "name"]].assign(
        usd_per_tb=rows["price_usd_per_tb"],
        usd=usd,
        usd_per_gb_s=usd / (rows["read_bandwidth"] / units.scale("GB/s")),
        per=np.select([basis == "purchase", basis != ""], ["purchase", "month"], ""),
        date=rows["price_date"],
        how=rows["how"],
        source=rows["source"],
        why=np.select(
            [~priced & ~rated, ~priced, ~rated],
            [
                f"{lack} in data/storage.csv"
                for lack in ("no price and no read bandwidth", "no price", "no read bandwidth")
            ],
            "",
        ),
    )


@checked(category=WORDS, unit=WORDS, items=WORDS, region=WORDS, since=WORDS, note=WORDS)
def stated(
    category: str, unit: str = "", *, items: str = "", region: str | None = None, since: str = "", note: str = ""
) -> Price:
    """Return a value of `tco` as the range of all rows that state it; NaN with the reason where none does.

    Parameters
    ----------
    category, unit : str
        As in the table; any unit if not given.
    items : str
        Words separated by ``;``, one of which an item must contain; every item if not given.
    region : str, optional
        As in the table.
    since : str
        First year to count, where the row has a year.
    note : str
        A caveat.

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
    return _stated(category, unit, items, region, since, note)


@lru_cache(maxsize=512)
def _stated(category: str, unit: str, items: str, region: str | None, since: str, note: str) -> Price:
    rows = table("tco")
    words = [word.strip() for word in items.split(";") if word.strip()]
    rows = rows[(rows["category"] == category) & (rows["unit"] == (unit or rows["unit"]))]
    rows = rows if region is None else rows[rows["region"] == region]
    if words:
        rows = rows[np.array([any(word in item for word in words) for item in rows["item"]], dtype=bool)]
    rows = rows[rows["year"].str[:4] >= since] if since else rows
    values = rows[["value", "value_low", "value_high"]].to_numpy(dtype=float)
    has_value = np.isfinite(values).any(axis=1)
    if not has_value.any():
        subject, where = f" of {items}" if items else "", f" for {region}" if region is not None else ""
        return missing(unit, f"no row of data/tco.csv states {category}{f' in {unit}' if unit else ''}{subject}{where}")
    middle = np.median(np.nanmean(values[has_value], axis=1))
    first, last = _dates(rows["year"])
    note = note or ("the dearest is stated as 'at least'" if np.isnan(values[:, [0, 2]]).all(axis=1).any() else "")
    ends = (float(np.nanmin(values)), float(middle), float(np.nanmax(values)))
    return Price(*ends, rows["unit"].iloc[0], first, last, len(rows), _sources(rows), note)


def times(one: Price, other: Any, unit: str) -> Price:
    """Return the product of two non-negative ranges: low by low, high by high; or the reason why either is missing.

    Examples
    --------
    >>> product = times(Price(1, 2, 3, "h"), Price(10, 10, 20, "USD/h"), "USD")
    >>> product.low, product.median, product.high, product.unit
    (10, 20, 60, 'USD')
    """
    if not isinstance(other, Price):
        return replace(one, low=one.low * other, median=one.median * other, high=one.high * other, unit=unit)
    ends = (one.low * other.low, one.median * other.median, one.high * other.high)
    first, last = _dates([date for price in (one, other) for date in (price.first, price.last)])
    source = tuple(dict.fromkeys([*one.source, *other.source]))
    return Price(*ends, unit, first, last, max(one.rows, other.rows), source, one.note, one.why or other.why)


def region_row(region: str) -> dict[str, Any]:
    """Return the row of the table `regions`."""
    return _row("regions", lookup("regions", REGION.read(region, "region")))


@checked(region=REGION, currency=Field.text(give="USD, or another currency of data/tco.csv"), since=WORDS)
def tariff(region: str = "us", currency: str = "USD", since: str = SINCE) -> Price:
    """Return the price of electricity for industry, in US dollars whatever the currency of the source.

    Parameters
    ----------
    region : str
        A row of the table ``regions``.
    currency : str
        Currency of the result: ``USD`` or ``EUR``.
    since : str
        First year of prices to count.

    Returns
    -------
    Price
        Per kWh; NaN with the reason where no row states it.

    Raises
    ------
    cookbook.catalog.UnknownName
        If the table does not have the region.
    ValueError
        If ``tco`` has no exchange rate for the currency.

    Examples
    --------
    >>> round(tariff("Germany").median, 3), tariff("norway").why
    (0.252, 'the catalogue states no electricity price of Norway; give your own')
    """
    row, rate = region_row(region), _exchange(currency)
    if not row["electricity"]:
        return missing(f"{currency}/kWh", f"the catalogue states no electricity price of {row['name']}; give your own")
    price = stated("electricity_price", PER_KWH, region=row["electricity"], since=since)
    if price.why:
        euro = stated("exchange_rate", "USD/EUR")
        price = times(stated("electricity_price", "EUR/kWh", region=row["electricity"], since=since), euro, PER_KWH)
    if currency == "USD":
        return price
    ends = (price.low / rate.high, price.median / rate.median, price.high / rate.low)
    source = tuple(dict.fromkeys([*price.source, *rate.source]))
    low, median, high = ends
    return replace(price, low=low, median=median, high=high, unit=f"{currency}/kWh", source=source)


def _exchange(currency: str) -> Price:
    """Return US dollars per unit of a currency."""
    usd = currency == "USD"
    rate = Price(1.0, 1.0, 1.0, "USD/USD") if usd else stated("exchange_rate", f"USD/{currency}")
    if rate.why:
        costs = table("tco")
        rates = costs.loc[costs["category"] == "exchange_rate", "unit"].str.partition("/")[2]
        offered = ", ".join(["USD", *rates])
        raise refused("currency", currency, f"has no exchange rate in data/tco.csv; take one of {offered}")
    return rate


@checked(region=REGION)
def carbon(region: str = "us") -> Price:
    """Return the carbon intensity of a region's electricity, location based [gCO2e/kWh].

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
        If neither table has the region.

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
        reason = f"the catalogue states no carbon intensity of {row['name']} as a whole; take one of its countries"
        return missing(cloud.unit, reason)
    return stated("carbon_intensity", region=row["carbon"])


def _price(values: pd.Series, rows: pd.DataFrame, why: str, since: int | None, ends: str, unit: str = "USD/h") -> Price:
    """Return median and ends of the priced rows: all of them where `since` has chosen them, else the newest year's."""
    stating = values.notna()
    if since is None:
        stating &= newest_year(rows["date"].where(stating, ""))
    if not stating.any():
        return missing(unit, why)
    selected, rows = values[stating], rows[stating]
    low, median, high = (float(selected.quantile(share)) for share in (RANGES[ends][0], 0.5, RANGES[ends][1]))
    return Price(low, median, high, unit, *_dates(rows["date"]), len(selected), _sources(rows))


def newest_year(dates: pd.Series) -> pd.Series:
    """Return the dates within the twelve months that end with the newest of them; all where none is dated.

    The window ends with the newest date in the table and not today, so that a page prints the same next year.

    Parameters
    ----------
    dates : pandas.Series of str
        ``2026-05`` or ``2026-05-24``; blank where unknown.

    Examples
    --------
    >>> import pandas as pd
    >>> newest_year(pd.Series(["2026-05-24", "2025-06", "2025-05-24", ""])).tolist()
    [True, True, False, False]
    """
    dated = dates.str.len() >= len("2026-05")
    if not dated.any():
        return ~dated
    month = dates.where(dated, "0000-00").str.slice(0, 7)
    months = month.str.slice(0, 4).astype(int) * 12 + month.str.slice(5).astype(int)
    return dated & (months > months.max() - 12)


def _devices(one: Price, system: dict[str, Any], more: str = "") -> Price:
    """Return the price of one accelerator times the number in a system."""
    count = float(system["devices"])
    note = f"{count:g} times the price of one {system['accelerator_key']}{more}" if one.rows else ""
    return replace(times(one, count, one.unit), note=note)


def _since(rows: pd.DataFrame, year: int | None) -> pd.DataFrame:
    return rows if year is None else rows[rows["date"].str[:4] >= f"{year:04d}"]


def _from(year: int | None) -> str:
    return "" if year is None else f" since {year}"


def _dates(dates: Any) -> tuple[str, str]:
    dated = sorted(date for date in dates if date)
    return (dated[0], dated[-1]) if dated else ("", "")


def _sources(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for cell in rows["source"] for key in cell.split(";")))


@lru_cache(maxsize=512)
def _row(name: str, key: str) -> dict[str, Any]:
    rows = table(name)
    return rows[rows["key"] == key].iloc[0].to_dict()
