"""How fast accelerators grow: straight lines through the logarithms of what they offer, over the dates of launch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.catalog.prices import shown
from cookbook.catalog.printed import Printed
from cookbook.planning.comparison import records_of
from cookbook.planning.ownership import figure
from cookbook.prediction.devices import device_table, peaks

if TYPE_CHECKING:
    import pandas as pd

# Quantity: its words, its unit, and what it takes beside the peak.
QUANTITIES = {
    "flops": ("FLOP/s, 16 bits or wider", "FLOP/s"),
    "fp32": ("FLOP/s, FP32 outside matrix units", "FLOP/s"),
    "bandwidth": ("memory bandwidth", "B/s"),
    "memory": ("memory", "B"),
    "flop_per_byte": ("FLOP per byte", "FLOP/B"),
    "flop_per_joule": ("FLOP per joule of rated power", "FLOP/J"),
    "flops_per_usd": ("FLOP/s per USD at launch", "FLOP/s/USD"),
}
WIDE = ("fp32", "tf32", "fp16", "bf16")
# A line of data-centre devices, one a generation, from the founding deck's oldest GPU on.
LINE = ("k40", "p100-sxm2-16gb", "v100-sxm2-16gb", "tpu-v2", "tpu-v3", "a100-sxm-40gb", "tpu-v4", "mi250x", "h100-sxm",
        "tpu-v5p", "mi300x", "tpu-v6e", "b200-sxm", "mi355x", "tpu-v7x")  # fmt: skip


@dataclass(frozen=True, repr=False)
class Growth(Printed):
    """A straight line through logarithms.

    Attributes
    ----------
    per_year, low, high : float
        Growth in a year as a factor, and its interval.
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
        """Growth in a year with its interval."""
        return f"x{self.per_year:.3g} a year ({self.low:.3g} to {self.high:.3g}), {self.points} points"

    def line(self, years: Any) -> Any:
        """Value of the line in these years."""
        return self.at * self.per_year ** (np.asarray(years, dtype=float) - self.middle)


def least_squares_growth(years: Any, values: Any, level: float = 0.8) -> Growth:
    r"""Exponential growth by ordinary least squares on logarithms.

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
        Share that the interval is meant to hold.

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
    t, v = figure("years", years, low=-1e6, high=1e6), figure("values", values)
    if t.shape != v.shape or t.ndim != 1 or len(t) < 3:
        raise ValueError(f"growth needs at least three dates with a value each; there are {min(t.size, v.size)}")
    if not (np.isfinite(t).all() and np.isfinite(v).all() and (v > 0).all()) or np.ptp(t) == 0:
        raise ValueError("growth needs values above 0 and more than one date")
    _check_level(level)
    middle, free = float(t.mean()), len(t) - 2
    spread, logs = float(((t - middle) ** 2).sum()), np.log(v)
    slope = float(((t - middle) * logs).sum() / spread)
    off = logs - logs.mean() - slope * (t - middle)
    scatter = math.sqrt(float((off**2).sum()) / free)
    reach = student_quantile(0.5 + level / 2, free) * scatter / math.sqrt(spread)
    doubling = math.log(2) / slope if slope else math.inf
    ends = (math.exp(slope), math.exp(slope - reach), math.exp(slope + reach))
    return Growth(*ends, doubling, math.exp(float(logs.mean())), middle, math.exp(scatter), len(t))


def _check_level(level: Any) -> None:
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise ValueError(f"level = {shown(level)} must lie between 0 and 1, such as 0.8")


def student_quantile(share: float, free: float) -> float:
    """Quantile of Student's t, to 0.1 % from three degrees of freedom on for shares up to 0.95.

    References
    ----------
    Abramowitz & Stegun, Handbook of mathematical functions, 1964, 26.7.5; for one and two degrees the exact forms.

    Examples
    --------
    >>> [round(student_quantile(0.9, free), 3) for free in (1, 2, 3, 10)]
    [3.078, 1.886, 1.637, 1.372]
    """
    if free == 1:
        return math.tan(math.pi * (share - 0.5))
    if free == 2:
        return (2 * share - 1) / math.sqrt(2 * share * (1 - share))
    z = NormalDist().inv_cdf(share)
    terms = (
        z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )  # fmt: skip
    return sum(term / free**power for power, term in enumerate(terms))


def milestones(accelerators: Iterable[str] | None = LINE) -> pd.DataFrame:
    """What devices offer, one row a device and quantity, with the date of launch.

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
    import pandas as pd

    table = device_table(records_of(accelerators))
    launched = catalog.table("accelerators").set_index("key")["launch_price_usd"]
    wide = np.fmax.reduce([peaks(table, name) for name in WIDE])
    bandwidth = table["mem_bandwidth"].to_numpy(dtype=float)
    values = {
        "flops": wide, "fp32": peaks(table, "fp32"), "bandwidth": bandwidth, "memory": table["memory_bytes"].to_numpy(),
        "flop_per_byte": wide / bandwidth, "flop_per_joule": wide / table["tdp_watts"].to_numpy(dtype=float),
        "flops_per_usd": wide / launched.reindex(table["key"]).to_numpy(dtype=float),
    }  # fmt: skip
    base = table[["key", "name", "launch_date"]].assign(year=[decimal_year(date) for date in table["launch_date"]])
    parts = [base.assign(quantity=name, words=QUANTITIES[name][0], unit=QUANTITIES[name][1], value=values[name])
             for name in QUANTITIES]  # fmt: skip
    rows = pd.concat(parts, ignore_index=True)
    return rows[np.isfinite(rows["value"]) & np.isfinite(rows["year"])].reset_index(drop=True)


def growth_rates(accelerators: Iterable[str] | None = LINE, level: float = 0.8) -> pd.DataFrame:
    """Growth in a year of what devices offer, one row a quantity, with its interval and dates.

    Parameters
    ----------
    accelerators : iterable of str, optional
        As for `milestones`.
    level : float
        Share that the interval is meant to hold.

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
    import pandas as pd

    _check_level(level)
    rows, found = milestones(accelerators), []
    for name, (words, unit) in QUANTITIES.items():
        own = rows[rows["quantity"] == name].sort_values("year")
        line: dict[str, Any] = {"quantity": name, "words": words, "unit": unit}
        try:
            fit = least_squares_growth(own["year"], own["value"], level)
            line |= {key: getattr(fit, key) for key in ("per_year", "low", "high", "doubling_years", "scatter")}
            line |= {"first": own["launch_date"].iloc[0], "last": own["launch_date"].iloc[-1], "why": ""}
        except ValueError as problem:
            line |= {"first": "", "last": "", "why": str(problem)}
        found.append(line | {"points": len(own)})
    columns = ["quantity", "words", "unit", "per_year", "low", "high", "doubling_years", "scatter", "points", "first",
               "last", "why"]  # fmt: skip
    return pd.DataFrame(found).reindex(columns=columns)


def decimal_year(date: str) -> float:
    """A date of the tables (year, quarter, month or day) as a year with a fraction; the middle of what it leaves open.

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


def growth_lines(
    accelerators: Iterable[str] | None = LINE, quantities: Iterable[str] = ("flops", "flop_per_joule", "bandwidth")
) -> pd.DataFrame:
    """Devices and fitted lines, both over the line's value in its first year, as `charts.growth` draws them.

    Parameters
    ----------
    accelerators : iterable of str, optional
        As for `milestones`.
    quantities : iterable of str
        Keys of `QUANTITIES`; one that fewer than three devices state is left out.

    Returns
    -------
    pandas.DataFrame
        what ("device" or "line"), words (the quantity, and its growth in a year), year, value, name.

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
    import pandas as pd

    rows, found = milestones(accelerators), []
    wanted = [quantities] if isinstance(quantities, str) else quantities
    if not isinstance(wanted, (list, tuple)):
        raise ValueError(f"quantities = {shown(quantities)} is no list; take some of {', '.join(QUANTITIES)}")
    for name in wanted:
        if not isinstance(name, str) or name not in QUANTITIES:
            raise ValueError(f"quantity = {shown(name)} is not known; take some of {', '.join(QUANTITIES)}")
        own = rows[rows["quantity"] == name]
        if len(own) < 3:
            continue
        fit = least_squares_growth(own["year"], own["value"])
        ends = np.array([own["year"].min(), own["year"].max()])
        first = float(fit.line(ends[0]))
        words = f"{QUANTITIES[name][0].split(',')[0]}: x{fit.per_year:.2f}"
        line = pd.DataFrame({"what": "line", "year": ends, "value": fit.line(ends) / first, "name": ""})
        found += [own[["name", "year"]].assign(what="device", value=own["value"] / first, words=words),
                  line.assign(words=words)]  # fmt: skip
    if not found:
        raise ValueError("a line needs at least three devices that state its quantity: name more accelerators")
    return pd.concat(found, ignore_index=True)[["what", "words", "year", "value", "name"]]
