"""Places to run: the cost of each over a horizon, its band, and why it is out of the question.

And rent or buy: how often a task must run, and for how long, until owning has cost no more than renting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.prices import BOUGHT, HOUR, REGION, SINCE_YEAR, region_row
from cookbook.catalog.refusals import refused
from cookbook.prediction.api import MODEL, network_of
from cookbook.prediction.kinds.transformer import USUAL_SEQ
from cookbook.result import Result, plain
from cookbook.topics.costs.cost import HOURS_PER_YEAR, MONTHS
from cookbook.topics.devices.comparison import evidence, lead
from cookbook.topics.purchase import places as sites
from cookbook.topics.purchase.places import ELECTRICITY, PRIVACY, QUANTITIES, Place, Task, costs, drawn, total
from cookbook.units import shown
from cookbook.workloads.zoo import Workload

BAND_PERCENTILES = (10, 50, 90)
# Runs per month that are too few to keep a machine busy.
FEW_RUNS = 1e-3
UNTIMED = "its time is not stated, so it cannot be checked against the deadline"
UPFRONT = ("hardware", "network", "storage")
# The longest horizon [years]; machines are not kept for longer.
MAX_YEARS = 50


def horizon(years: float) -> str:
    """Return a number of years with its noun."""
    return f"{years:g} year{'' if years == 1 else 's'}"


def rank(feasible: int, noun: str, open_: str) -> str:
    """Return what the first of several feasible options is: the only one, the cheapest, or first with a doubt."""
    if feasible == 1:
        return f"is the only feasible {noun}"
    return f"leads {feasible} feasible {noun}s, {open_}" if open_ else f"is the cheapest of {feasible} feasible {noun}s"


def overlap(table: pd.DataFrame, by: str) -> str:
    """Return why the first of a table only leads by a column; "" where it is called the best."""
    ends = (table[f"{by}{end}"] for end in ("", "_low", "_high"))
    first = lead(*ends, evidence=[evidence(tier) for tier in table["tier"]], able=table["will_do"])
    if first is None or first.named:
        return ""
    return "but not clearly" if first.rivals else "by its datasheet alone"


@dataclass(frozen=True, eq=False, repr=False)
class WhereToRun(Result):
    """Every place for one task.

    Attributes
    ----------
    task : Task
    places : dict of str to Place
    """

    task: Task
    places: Mapping[str, Place] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", MappingProxyType(dict(self.places)))

    def summary(self) -> str:
        """Return the first place by cost that will do, what it costs, and whether it is clearly the cheapest."""
        if self.best is None:
            return f"none of {len(self.places)} options is feasible"
        row, will_do = self._table.loc[self.best], int(self._table["will_do"].sum())
        among = rank(will_do, "option", overlap(self._table, "usd"))
        return f"{row['name']}, {units.dollars(row['usd'])} over {horizon(self.task.years)}, {among}"

    def to_dict(self) -> dict[str, Any]:
        """Return the row of each place, by its key; None where a value is missing."""
        return plain(self._table.to_dict("index"))

    @cached_property
    def outcomes(self) -> Mapping[str, dict[str, Any]]:
        """Monte-Carlo outcomes of each place that has its figures."""
        return self._costs(drawn)

    @cached_property
    def points(self) -> Mapping[str, dict[str, Any]]:
        """Outcomes with every figure at its median."""
        return self._costs(sites.middle)

    def _costs(self, values: Any) -> Mapping[str, dict[str, Any]]:
        with np.errstate(all="ignore"):
            return MappingProxyType({key: costs(place, values(place), self.task) for key, place in self.places.items()})

    def usd(self, key: str) -> np.ndarray:
        """Return the total of each draw at one place [USD]."""
        return total(self.outcomes[self._key(key)]["parts"])

    def frame(self) -> pd.DataFrame:
        """Return one row per place: its cost and use, whether it is possible, and why not; missing values are NaN."""
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        return pd.DataFrame([self._row(place) for place in self.places.values()]).set_index("place")

    def _row(self, place: Place) -> dict[str, Any]:
        outcome = self.outcomes[place.key]
        price = place.figures["price"]
        row: dict[str, Any] = {"place": place.key, "name": place.name, "kind": place.kind, "way": place.way}
        for name, values in {"usd": self.usd(place.key), **{name: outcome[name] for name in QUANTITIES}}.items():
            band = np.percentile(values, BAND_PERCENTILES) if np.isfinite(values).all() else (np.nan,) * 3
            row |= dict(zip((f"{name}_low", name, f"{name}_high"), band, strict=True))
        row["usd_per_run"] = row["usd"] / self.task.count
        row["usd_to_buy"] = float(np.median(self._upfront(place))) if place.way == BOUGHT else 0.0
        row["upload_hours"] = 0.0 if place.data_at == "house" else self.task.data_bytes / self.task.uplink / HOUR
        limit = max(self.task.deadline / HOUR - row["upload_hours"], 0.0)
        with np.errstate(all="ignore"):
            chance = np.mean(outcome["hours"] <= limit) if np.isfinite(row["hours"]) else np.nan
            part = np.percentile(np.minimum(limit / outcome["hours"], 1), BAND_PERCENTILES)
        row |= {"in_time": chance, "part_low": part[0], "part": part[1], "part_high": part[2], "batch": place.batch}
        row["why"] = self._why(place, row)
        row["will_do"] = not row["why"]
        row["priced"] = "; ".join(filter(None, [price.dates, price.note]))
        row |= {"price_low": price.low, "price": price.median, "price_high": price.high}
        row |= {"price_unit": price.unit, "tier": place.tier}
        return row

    def _why(self, place: Place, row: Mapping[str, Any]) -> str:
        """Return the first reason against a place."""
        if place.data_at not in PRIVACY[self.task.private]:
            return f"data would leave: they would be with {'the provider' if place.data_at == 'provider' else 'others'}"
        if place.why:
            return place.why
        if not np.isfinite(row["usd"]):
            return "a figure is missing"
        if np.isnan(row["hours"]):
            return UNTIMED
        if row["hours"] > self.task.deadline / HOUR - row["upload_hours"]:
            waits = " with the upload of the data" if row["upload_hours"] else ""
            return f"too late: a run takes {units.human((row['hours'] + row['upload_hours']) * HOUR, 's')}{waits}"
        return ""

    @cached_property
    def best(self) -> str | None:
        """Key of the cheapest place that will do; None where none will."""
        will_do = self._table[self._table["will_do"]]
        return None if will_do.empty else str(will_do["usd"].idxmin())

    @cached_property
    def odds(self) -> dict[str, float]:
        """Part of the draws in which each place that will do is the cheapest of them."""
        keys = [key for key, fine in self._table["will_do"].items() if fine]
        cheapest = np.argmin(np.array([self.usd(key) for key in keys]), axis=0) if keys else np.array([])
        return {key: float(np.mean(cheapest == at)) for at, key in enumerate(keys)}

    def tornado(self, key: str | None = None) -> pd.DataFrame:
        """Return the effect of each figure on the cost of one place, the others at their medians; the largest first.

        Parameters
        ----------
        key : str, optional
            The place; the best one by default.

        Returns
        -------
        pandas.DataFrame
            figure, low, high (values and unit), usd_low, usd_high: total with the figure at either end; swing.

        Raises
        ------
        ValueError
            No place will do, or the place has no cost.
        """
        place = self.place(key)
        centre, rows = sites.middle(place), []
        for name, figure in place.figures.items():
            if not figure.high > figure.low:
                continue
            ends = {each: np.repeat(value, 2) for each, value in centre.items()}
            ends[name] = np.array([float(figure.low), float(figure.high)])
            usd = total(costs(place, ends, self.task)["parts"])
            rows.append((name, figure.low, figure.high, figure.unit, usd[0], usd[1], abs(usd[1] - usd[0])))
        columns = ["figure", "low", "high", "unit", "usd_low", "usd_high", "swing"]
        table = pd.DataFrame(rows, columns=columns)
        return table[table["swing"] > 0].sort_values("swing", ascending=False, kind="stable", ignore_index=True)

    def place(self, key: str | None = None) -> Place:
        """Return one place that has a cost; the best one by default."""
        chosen = self.best if key is None else key
        if chosen is None:
            raise ValueError("no option is feasible: loosen the deadline or the rule for the data, or run less often")
        chosen = self._key(chosen)
        if not np.isfinite(self._table.loc[chosen, "usd"]):
            raise ValueError(f"{chosen} has no cost here: {self._table.loc[chosen, 'why']}")
        return self.places[chosen]

    def _key(self, key: str) -> str:
        if isinstance(key, str) and key in self.places:
            return key
        place = catalog.lookup("places", key)
        if place not in self.places:
            raise ValueError(f"{place} has no cost here: it is not among the places asked for")
        return place

    def _upfront(self, place: Place) -> np.ndarray:
        """Return the cost of a purchase at the start: the machines that keep up, their network and storage [USD]."""
        draws = drawn(place)
        return draws["price"] * (1 + draws["network"] + draws["storage"]) * self.outcomes[place.key]["paid"]

    def per_run(self, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the cost of a place, in whole machines: USD over the horizon without runs, and per run per month."""
        place = self.place(key)
        with np.errstate(all="ignore"):
            none, few = (
                total(costs(place, drawn(place), replace(self.task, runs=runs, utilisation=None))["parts"])
                for runs in (0.0, FEW_RUNS)
            )
        return none, (few - none) / FEW_RUNS


# Arguments of purchases: the horizon, a rule for the data, the way out of the house, the reader's own prices.
YEARS, DURATION = Field.number(high=MAX_YEARS, words=False), Field.number(unit="s")
PRIVATE, UPLINK = Field.choice(*PRIVACY), Field.number(unit="B/s")
PRICES = Field.record(Mapping, what="mapping", give="one such as {'workstation': 3500}")


@checked(
    model=MODEL,
    data=Field.named("data_sets"),
    samples=Field.number(words=False),
    data_bytes=Field.number(unit="B"),
    epochs=Field.number(words=False),
    batch=Field.count(high=1e6),
    seq=Field.number(words=False),
    runs=Field.number(words=False),
    years=YEARS,
    deadline=DURATION,
    region=REGION,
    private=PRIVATE,
    uplink=UPLINK,
    utilisation=Field.number(high=1, words=False),
    places=Field.named("places", Mapping, many=True, give="names such as 'workstation', or {'like': 'workstation'}"),
    prices=PRICES,
    since=SINCE_YEAR,
)
def where_to_run(
    model: str | Workload,
    data: str = "imagenet-1k",
    *,
    samples: float | None = None,
    data_bytes: float | str | None = None,
    epochs: float = 1,
    batch: int | None = None,
    seq: float | None = None,
    runs: float = 1,
    years: float = 3,
    deadline: float | str = "7 days",
    region: str = "us",
    private: str = "anywhere",
    uplink: float | str = "1 Gb/s",
    utilisation: float | None = None,
    places: Sequence[str | Mapping[str, Any]] | None = None,
    prices: Mapping[str, float] | None = None,
    since: int | None = None,
) -> WhereToRun:
    """Compare laptop, workstation, cloud, own server and service: the cost of a task at each place, with bands.

    Each place gets the predicted time of the task on its accelerators, then USD, kWh and kg of CO2 equivalents over
    the horizon. Bands contain the middle 80 % of 2,000 draws in which every figure varies over its range.

    Parameters
    ----------
    model : str or Workload
        A network of the zoo, or one of the reader's own.
    data : str
        A card of the table ``data_sets``: samples of an epoch, and bytes to move.
    samples, data_bytes : float, optional
        Your own, in place of the card's.
    epochs : float
        Epochs of one run.
    batch : int, optional
        Samples on each accelerator in one step; by default the fastest power of two up to 1,024 that fits each place.
    seq : float, optional
        Tokens of a sample of a language model; its usual length by default.
    runs, years : float
        Runs per month, and the horizon.
    deadline : float or str
        Longest time of one run, the upload of the data included [s].
    region : str
        Region of the machines, a row of the table ``regions``.
    private : {"anywhere", "own machines", "in house"}
        Where the data may lie.
    uplink : float or str
        Rate at which data leave the house [B/s].
    utilisation : float, optional
        Share of hours in which what is bought or reserved is busy, other work included, above 0 to 1: the task pays
        for its share of them. By default whole machines are paid for this task alone.
    places : sequence, optional
        Rows of the table ``places``, all by default; or your own, ``{"like": "workstation", "device": ...,
        "devices": 2, "price": 9000}``, where `device` may be a `cookbook.accelerator`.
    prices : mapping, optional
        Your own price of a place: USD of the purchase of one machine (0: you have it already), USD per hour of one
        accelerator, or USD per million tokens; of "electricity": USD per kWh.
    since : int, optional
        First year of prices to count; the newest twelve months of each if not given.

    Returns
    -------
    WhereToRun
        `frame()`, `best`, `odds`, `tornado()`; see `break_even`.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, card, region or place that the catalogue does not have.
    ValueError
        An invalid value, such as a horizon of 0; a language model with a card that contains no text.

    Examples
    --------
    >>> found = where_to_run("resnet50", epochs=90, places=["workstation", "cloud-h100"])
    >>> frame = found.frame()
    >>> found.best in found.places, bool((frame.usd_low <= frame.usd).all())
    (True, True)
    """
    network = network_of(model)
    card = catalog.table("data_sets").set_index("key").loc[catalog.lookup("data_sets", data)]
    speaks = sites.language_model(model)
    if speaks and samples is None and card["data_type"] != "text":
        kind, reader = card["data_type"], network.title if network.name == "custom" else network.name
        raise refused("data", data, f"contains {kind} samples, but {reader} reads text; take c4-en-tokens")
    length = seq if seq is not None else network.seq or (USUAL_SEQ if speaks else None)
    task = Task(
        model=model,
        region=region_row(region)["key"],
        private=private,
        seq=length if speaks else None,
        batch=batch,
        samples=float(card["samples"]) if samples is None else samples,
        epochs=epochs,
        runs=runs,
        years=years,
        deadline=float(deadline),
        uplink=float(uplink),
        data_bytes=float(card["stored_bytes"] if data_bytes is None else data_bytes),
        utilisation=utilisation,
    )
    rows = [sites.place_row(entry) for entry in (sites.place_keys() if places is None else places)]
    own = _own_prices(prices)
    current, year = own.pop(ELECTRICITY, None), since
    by_key = {}
    for row in rows:
        key = dict(row)["key"]
        place = sites.read_place(row, model, batch, task.seq, task.region, year, own.get(key), current)
        if key in by_key:
            raise ValueError(f"places holds {shown(key)} twice; give each a name of its own")
        by_key[key] = place
    return WhereToRun(task, by_key)


def _own_prices(prices: Any) -> dict[str, Any]:
    if prices is None:
        return {}
    by_place = {name if name == ELECTRICITY else catalog.lookup("places", name): usd for name, usd in prices.items()}
    for usd in by_place.values():
        sites.own_price(usd, "USD")
    return by_place


@dataclass(frozen=True, repr=False)
class BreakEven(Result):
    """The point where owning and renting cost the same; (low, median, high) of the middle 80 % of draws.

    Attributes
    ----------
    own, rent : str
        Keys of the two places.
    runs : tuple of float
        Runs per month, infinite where a run costs less to rent however often.
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

    def summary(self) -> str:
        """Return the runs per month, and the share of hours, from which owning wins, in words."""
        often = f"{self.runs[1]:.2g} runs per month, which is {units.percent(self.use[1])} of its hours"
        return f"{self.own} costs less than {self.rent} from {often}"

    def frame(self) -> pd.DataFrame:
        """Return one row each for runs, use and months, with low, median and high."""
        rows = {name: getattr(self, name) for name in ("runs", "use", "months")}
        return pd.DataFrame([{"figure": name, "low": r[0], "median": r[1], "high": r[2]} for name, r in rows.items()])


COMPARED_PLACES = Field.record(WhereToRun, what="comparison of places", give="what where_to_run returns")


@checked(
    found=COMPARED_PLACES,
    own=Field.text(1000, give="a key of found.places, as text"),
    rent=Field.text(1000, give="a key of found.places, as text"),
)
def break_even(found: WhereToRun, own: str | None = None, rent: str | None = None) -> BreakEven:
    """Compare one place that is bought, for this task alone, with one that is rented.

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
    >>> both = where_to_run("resnet50", epochs=90, places=["workstation", "cloud-a100"])
    >>> found = break_even(both)
    >>> found.own, found.rent, found.runs[0] < found.runs[1] < found.runs[2]
    ('workstation', 'cloud-a100', True)
    """
    own, rent = own or _cheapest(found, True), rent or _cheapest(found, False)
    (fixed, more), (fee, per_run) = found.per_run(own), found.per_run(rent)
    with np.errstate(all="ignore"):
        runs = np.where(
            per_run > more, np.maximum(fixed - fee, 0) / (per_run - more), np.where(fixed <= fee, 0.0, np.inf)
        )
        hours = found.outcomes[found.place(own).key]["hours"]
        use = runs * hours * MONTHS / HOURS_PER_YEAR
        months = _months(found, own, rent)
    return BreakEven(own, rent, _band(runs), _band(use), _band(months), _month(found, own, float(np.median(months))))


def _cheapest(result: WhereToRun, owned: bool) -> str:
    frame = result.frame()
    sort = frame[(frame["way"] == BOUGHT) == owned]
    rows = sort[sort["will_do"]]
    if rows.empty:
        first = f" ({sort['why'].iloc[0]})" if len(sort) else ""
        what = "own machine" if owned else "rented place"
        raise ValueError(f"no {what} is feasible{first}, so there is nothing to compare")
    return str(rows["usd"].idxmin())


def _band(values: np.ndarray) -> tuple[float, float, float]:
    """Return percentiles that infinite values do not turn into NaN."""
    ordered = np.sort(values)
    low, middle, high = (
        float(ordered[min(int(share / 100 * len(ordered)), len(ordered) - 1)]) for share in BAND_PERCENTILES
    )
    return low, middle, high


def _months(result: WhereToRun, own: str, rent: str) -> np.ndarray:
    """Return the upfront price over the difference between a month of renting and a month of running [months]."""
    place, length = result.place(own), MONTHS * result.task.years
    gain = result.usd(rent) / length - _running(result, place.key) / length
    return np.where(gain > 0, result._upfront(place) / gain, np.inf)


def _running(result: WhereToRun, key: str) -> Any:
    """Return the cost of owning over the horizon besides the purchase, for each draw [USD]."""
    return sum(np.asarray(usd) for name, usd in result.outcomes[key]["parts"].items() if name not in UPFRONT)


def _month(result: WhereToRun, own: str, months: float) -> str:
    """Return the month of a date such as "2025-03", or with a day, `months` later; "" where there is no such date."""
    year, _, month = result.place(own).figures["price"].last[:7].partition("-")
    if not (np.isfinite(months) and months < 1200 and year.isdigit() and len(month) == 2 and month.isdigit()):
        return ""
    at = int(year) * MONTHS + int(month) - 1 + round(months)
    return f"{at // MONTHS}-{at % MONTHS + 1:02d}"


@checked(found=COMPARED_PLACES, keys=Field.text(1000, many=True), points=Field.count(high=1000))
def cumulative(found: WhereToRun, keys: Sequence[str], points: int = 13) -> pd.DataFrame:
    """Return the money paid after each month at some places: purchases when they fall due, everything else as it comes.

    A purchase is paid again when its years of use are over. At the end of the horizon what is bought is still worth
    something: `counted` is the cost that `WhereToRun.frame` compares, with the horizon's share of the purchase alone.

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
        place, name, month, usd, usd_low, usd_high; counted, counted_low, counted_high [USD].
    """
    months = np.linspace(0, MONTHS * found.task.years, points + (points == 1))
    rows = []
    for key in keys:
        place = found.place(key)
        usd, start = found.usd(place.key)[:, None], 0.0
        if place.way == BOUGHT:
            life = MONTHS * drawn(place)["life"][:, None]
            start = found._upfront(place)[:, None] * np.maximum(np.ceil(months / life - 1e-9), 1)
            usd = _running(found, place.key)[:, None]
        paid = np.percentile(start + usd * months / months[-1], BAND_PERCENTILES, axis=0)
        row = found.frame().loc[place.key]
        rows.append(
            pd.DataFrame(
                {
                    "place": place.key,
                    "name": place.name,
                    "month": months,
                    "usd_low": paid[0],
                    "usd": paid[1],
                    "usd_high": paid[2],
                    "counted": row["usd"],
                    "counted_low": row["usd_low"],
                    "counted_high": row["usd_high"],
                }
            )
        )
    return pd.concat(rows, ignore_index=True)
