"""Rent or buy: how often a task must run, and for how long, until owning has cost no more than renting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cookbook.planning.cost import BOUGHT
from cookbook.planning.ownership import HOURS_A_YEAR, MONTHS
from cookbook.planning.places import Place
from cookbook.planning.spending import drawn, total
from cookbook.planning.where import BAND, WhereToRun

if TYPE_CHECKING:
    import pandas as pd

UPFRONT = ("hardware", "network", "storage")
_DAY = re.compile(r"\d{4}-\d{2}")


@dataclass(frozen=True)
class BreakEven:
    """Where owning and renting cost the same; (low, median, high) of the middle 80 % of draws.

    Attributes
    ----------
    own, rent : str
        Keys of the two places.
    runs : tuple of float
        Runs a month, infinite where a run costs less to rent however often.
    use : tuple of float
        Part of all hours that the own machine then works; above 1, one machine is not enough.
    months : tuple of float
        Months until what was paid for buying and running equals the rent, at the runs planned; infinite: never.
    date : str
        Month of the median, counted from the newest price of the purchase; "" where there is none.
    """

    own: str
    rent: str
    runs: tuple[float, float, float]
    use: tuple[float, float, float]
    months: tuple[float, float, float]
    date: str


def break_even(found: WhereToRun, own: str | None = None, rent: str | None = None) -> BreakEven:
    """Compare one place that is bought with one that is rented.

    Parameters
    ----------
    found : WhereToRun
    own, rent : str, optional
        Places; by default the cheapest of each sort that will do.

    Returns
    -------
    BreakEven

    Raises
    ------
    ValueError
        No place of the sort will do, or a place has no cost.

    Examples
    --------
    >>> from cookbook.planning.where import where_to_run
    >>> both = where_to_run("resnet50", epochs=90, places=["workstation", "cloud-a100"])
    >>> found = break_even(both)
    >>> found.own, found.rent, found.runs[0] < found.runs[1] < found.runs[2]
    ('workstation', 'cloud-a100', True)
    """
    own, rent = own or _cheapest(found, True), rent or _cheapest(found, False)
    (fixed, more), (fee, each) = found.per_run(own), found.per_run(rent)
    with np.errstate(all="ignore"):
        runs = np.where(each > more, np.maximum(fixed - fee, 0) / (each - more), np.where(fixed <= fee, 0.0, np.inf))
        hours = found.outcomes[own]["hours"]
        use = runs * hours * MONTHS / HOURS_A_YEAR
        months = _months(found, own, rent)
    return BreakEven(own, rent, _band(runs), _band(use), _band(months), _month(found, own, float(np.median(months))))


def _cheapest(found: WhereToRun, owned: bool) -> str:
    frame = found.frame
    rows = frame[frame["will_do"] & ((frame["way"] == BOUGHT) == owned)]
    if rows.empty:
        sort = "own machine" if owned else "rented place"
        reasons = frame.loc[(frame["way"] == BOUGHT) == owned, "why"].drop_duplicates()
        first = f" ({reasons.iloc[0]})" if len(reasons) else ""
        raise ValueError(f"no {sort} will do{first}, so that there is nothing to compare")
    return str(rows["usd"].idxmin())


def _band(values: np.ndarray) -> tuple[float, float, float]:
    """Percentiles that infinite values do not turn into NaN."""
    ordered = np.sort(values)
    low, middle, high = (float(ordered[min(int(share / 100 * len(ordered)), len(ordered) - 1)]) for share in BAND)
    return low, middle, high


def _months(found: WhereToRun, own: str, rent: str) -> np.ndarray:
    """Upfront price over what a month of renting costs more than a month of running."""
    place = found.place(own)
    parts = found.outcomes[own]["parts"]
    length = MONTHS * found.task.years
    running = sum(np.asarray(usd) for name, usd in parts.items() if name not in UPFRONT) / length
    gain = total(found.outcomes[rent]["parts"]) / length - running
    return np.where(gain > 0, _upfront(found, place) / gain, np.inf)


def _upfront(found: WhereToRun, place: Place) -> np.ndarray:
    """What a purchase costs at the start: as many machines as keep up, their network and storage [USD]."""
    draws = drawn(place)
    return draws["price"] * (1 + draws["network"] + draws["storage"]) * found.outcomes[place.key]["units"]


def _month(found: WhereToRun, own: str, months: float) -> str:
    bought = found.places[own].figures["price"].last
    if not (np.isfinite(months) and months < 1200 and _DAY.match(bought)):
        return ""
    at = int(bought[:4]) * MONTHS + int(bought[5:7]) - 1 + round(months)
    return f"{at // MONTHS}-{at % MONTHS + 1:02d}"


def cumulative(found: WhereToRun, keys: list[str], points: int = 13) -> pd.DataFrame:
    """What has been paid after each month at some places: purchases at the start, everything else as it falls due.

    Parameters
    ----------
    found : WhereToRun
    keys : list of str
        Places that have a cost.
    points : int
        Months shown, the first and the last of the horizon included.

    Returns
    -------
    pandas.DataFrame
        place, name, month, usd, usd_low, usd_high.
    """
    import pandas as pd

    months = np.linspace(0, MONTHS * found.task.years, points)
    rows = []
    for key in keys:
        place, usd = found.place(key), found.usd(key)
        start = np.zeros_like(usd)
        if place.way == BOUGHT:
            start, parts = _upfront(found, place), found.outcomes[key]["parts"]
            usd = sum(np.asarray(each) for name, each in parts.items() if name not in UPFRONT) + np.zeros_like(usd)
        paid = np.percentile(start[:, None] + usd[:, None] * months / months[-1], BAND, axis=0)
        rows.append(pd.DataFrame({"place": key, "name": place.name, "month": months, "usd_low": paid[0],
                                  "usd": paid[1], "usd_high": paid[2]}))  # fmt: skip
    return pd.concat(rows, ignore_index=True)
