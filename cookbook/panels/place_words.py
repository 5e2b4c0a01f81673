"""Words of the panel "Where should it run?"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cookbook.planning.cost import BOUGHT
from cookbook.planning.energy import UNVALIDATED
from cookbook.planning.ownership import MONTHS
from cookbook.planning.where import UNTIMED
from cookbook.units import human

if TYPE_CHECKING:
    from cookbook.planning.crossing import BreakEven
    from cookbook.planning.where import WhereToRun

# How figures are called in a picture.
FIGURES = {
    "price": "price", "step": "time of a step", "tariff": "electricity price", "pue": "cooling (PUE)",
    "rated": "rated power", "idle": "idle power", "full": "full power", "life": "years of use",
    "money": "cost of money", "maintenance": "maintenance", "staff": "staff", "network": "network",
    "storage": "storage", "space": "space", "interruption": "time between interruptions",
    "restart": "restart", "checkpoint": "checkpoint", "egress": "egress price", "keep": "cloud storage",
    "carbon": "carbon intensity",
}  # fmt: skip
SHORT = {"data would leave": "data would leave", "does not fit": "does not fit", "too late": "too late",
         "its time": "time not stated", "no row": "no price", "services fine-tune": "trains no such network",
         "data/tco": "no electricity price"}  # fmt: skip
RULES = {"anywhere": "anywhere", "own machines": "on own machines", "in house": "in the house"}


def usd(value: float) -> str:
    """An amount with three significant digits.

    Examples
    --------
    >>> usd(18132), usd(1.6147e6), usd(0.5), usd(float("nan"))
    ('18.1 kUSD', '1.61 MUSD', '0.5 USD', 'not known')
    """
    if math.isnan(value):
        return "not known"
    sizes = ((1e9, "GUSD"), (1e6, "MUSD"), (1e3, "kUSD"))
    size, unit = next((pair for pair in sizes if abs(value) >= pair[0]), (1.0, "USD"))
    return f"{value / size:.3g} {unit}"


def usd_range(low: float, high: float) -> str:
    """Two amounts in the unit of the larger.

    Examples
    --------
    >>> usd_range(9541, 35500)
    '9.54-35.5 kUSD'
    """
    figure, unit = usd(high).split()
    return f"{low / {'USD': 1.0, 'kUSD': 1e3, 'MUSD': 1e6, 'GUSD': 1e9}[unit]:.3g}-{figure} {unit}"


def answer(found: WhereToRun, even: BreakEven | None, reason: str, network: str) -> str:
    """Place 1: the cheapest place that will do, how sure that is, and when another would win."""
    best, frame = found.best, found.frame
    if best is None:
        timed = frame[frame["hours"].notna() & frame["why"].str.startswith("too")]
        near = f" {timed.loc[timed['hours'].idxmin(), 'name']} comes nearest, " if len(timed) else ""
        near += f"{timed.loc[timed['hours'].idxmin(), 'why']}." if len(timed) else ""
        near = near or f" {frame['name'].iloc[0]}: {frame['why'].iloc[0]}."
        return f"**No place will do** for {network}.{near}{_laptop(found)}"
    row = frame.loc[best]
    sure = found.odds[best]
    several = f"{row['units']:.0f} times " if row["units"] > 1 else ""
    start = (
        f"{several}**{row['name']}** is the cheapest place that will do: {usd(row['usd'])} over "
        f"{found.task.years:g} years ({usd_range(row['usd_low'], row['usd_high'])}), "
        f"**{usd(row['usd_per_run'])}** a run of {network}; it is the cheapest in {100 * sure:.0f} % of draws."
    )
    return f"{start} {_even(found, even, reason)}{_laptop(found)}"


def _even(found: WhereToRun, even: BreakEven | None, reason: str) -> str:
    if even is None:
        return f"{reason[0].upper()}{reason[1:]}."
    own, rent = found.places[even.own].name, found.places[even.rent].name
    low, middle, high = even.runs
    if math.isinf(middle) or even.use[1] > 1:
        return f"{own} does not beat {rent}, not even when always in use."
    if middle == 0:
        return f"{own} costs less than {rent} even unused, since that is paid for all hours."
    share = f"{100 * even.use[1]:.0f} % of its hours"
    return f"{own} beats {rent} from **{_runs(middle)} runs a month** ({_runs(low)}-{_runs(high)}), {share}."


def _runs(value: float) -> str:
    """A number of runs with two significant digits."""
    return "never" if math.isinf(value) else f"{float(f'{value:.2g}'):,g}"


def _laptop(found: WhereToRun) -> str:
    """Which part of the data a laptop gets through, where it is too slow for all of it."""
    frame = found.frame
    rows = frame[(frame["kind"] == "laptop") & frame["why"].str.startswith("too") & (frame["part"] < 1)]
    if rows.empty or not rows["part"].iloc[0] > 0:
        return ""
    row = rows.iloc[0]
    return f" By the deadline a laptop gets through {100 * row['part']:.2g} % of the data."


def chips(found: WhereToRun) -> tuple[tuple[str, str], ...]:
    """How the answer is known."""
    key = found.best or found.frame.index[0]
    row = found.frame.loc[key]
    dated = row["priced"].partition(";")[0] or "price undated"
    price = f"priced {dated}" if dated[:1].isdigit() else dated
    tier = row["tier"] or "time not predicted"
    own = "Purchases are spread over years of use." if row["way"] == BOUGHT else "Rent includes power and staff."
    return (
        (price, f"{_range(row)}, {row['priced']}. Stale the day it is printed: give your own with prices=. {own}"),
        (tier, "How well measurements cover the predicted time of a step."),
        ("power unvalidated", UNVALIDATED),
        ("middle 80 % of 2,000 draws",
         "Every figure is drawn from its range, whose ends count as 10th and 90th percentile."),
    )


def _range(row: Any) -> str:
    return f"{row['name']}: {row['price_low']:,.4g} to {row['price_high']:,.4g} {row['price_unit']}"


def verdict(row: Any, best: str | None) -> str:
    """Word for a place, a key of the chart's verdicts."""
    if row["why"] == UNTIMED:
        return "cannot tell"
    return "cheapest that will do" if row.name == best else "will do" if row["will_do"] else "will not do"


def short(row: Any) -> str:
    """Cost, or the reason against a place, beside its row."""
    if row["why"]:
        cost = f"{usd(row['usd'])}, " if row["why"] == UNTIMED else ""
        reason = (words for start, words in SHORT.items() if row["why"].startswith(start))
        return cost + next(reason, "a figure is missing")
    return usd(row["usd"]) + (f", {row['units']:.0f} of them" if row["units"] > 1 else "")


def title_of(found: WhereToRun) -> str:
    """Takeaway of the chart of costs."""
    if found.best is None:
        return f"No place will do with data {RULES[found.task.private]} and {human(found.task.deadline, 's')} a run"
    count = int(found.frame["will_do"].sum())
    return f"{found.frame.loc[found.best, 'name']} is the cheapest of {count} places that will do"


def tornado_title(name: str, figure: str, low: float, high: float) -> str:
    """Takeaway of the tornado."""
    low, high = sorted((low, high))
    return f"{name}: the cost depends most on {figure}, {usd_range(low, high)}"


def paid_title(found: WhereToRun, even: BreakEven) -> str:
    """Takeaway of what has been paid."""
    own, rent, months = found.places[even.own].name, found.places[even.rent].name, even.months[1]
    if math.isinf(months):
        return f"{own} never pays for itself against {rent} at these runs"
    when = f", by {even.date}" if even.date else ""
    beyond = " (beyond the horizon)" if months > MONTHS * found.task.years else ""
    return f"{own} has paid for itself after {months:.0f} months{when}{beyond}, against {rent}"
