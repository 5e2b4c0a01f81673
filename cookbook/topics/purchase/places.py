"""Places to train: what each predicts, the figures that its cost rests on as dated ranges, and what a task costs there.

Every figure is drawn from its range, for all draws at once; figures that places share vary together.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog import prices
from cookbook.catalog.fields import Field
from cookbook.catalog.prices import BOUGHT, HOUR, RENT, Price, stated, times
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refused
from cookbook.formulas.parallelism import cluster_mtbf_seconds, daly_2006_interval_seconds, useful_share
from cookbook.hardware import Accelerator
from cookbook.prediction.api import kind_of, network_of, train_step
from cookbook.prediction.requirements import requirements
from cookbook.result import Result
from cookbook.topics.costs.cost import (
    HOURS_PER_YEAR,
    KILO,
    MONTHS,
    active_seconds,
    machine_power,
    ownership_usd,
    power_watts,
    seconds_of,
)
from cookbook.units import shown
from cookbook.workloads.zoo import Workload

PER_TOKEN = "per token"
BY_HOUR = ("on demand", "spot")
# Where data may lie, from the loosest rule to the strictest, and which places each allows.
PRIVACY = {
    "anywhere": ("house", "own machine elsewhere", "provider"),
    "own machines": ("house", "own machine elsewhere"),
    "in house": ("house",),
}
# Samples on each accelerator that are tried where the reader names none.
BATCHES = tuple(2**power for power in range(11))
FLOAT, GIGA, MILLION, GRAM = 4, 1e9, 1e6, 1e-3
MINUTE, MONTH = units.si("1 min"), units.si("1 month")
ELECTRICITY = "electricity"
ONE_PRICE = "a single price, to which the usual spread is applied"
# Prices of one accelerator that make a spread.
QUOTES_RENTED, QUOTES_BOUGHT = 5, 2
NO_COST, UNIT_FACTOR = Price(0.0, 0.0, 0.0, ""), Price(1.0, 1.0, 1.0, "ratio")
DRAWS, SEED = 2000, 9
# Kinds of places that use the network, disks and rooms of an office; all others need their own.
UNDER_A_DESK = ("laptop", "workstation")
# A range counts as the middle 80 % of what may be: so many standard deviations of a normal either way.
TENTH = NormalDist().inv_cdf(0.9)
QUANTITIES = ("hours", "use", "units", "paid", "kwh", "kgco2e")
# Figures that are shares or factors with a bound, whatever is drawn.
BOUNDS = {"idle": (0, 1), "full": (0, 1), "pue": (1, np.inf), "money": (0, 1)}
Draws = Mapping[str, np.ndarray]
Row = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Place(Result):
    """One row of the table `places`, or the reader's own, and what its cost rests on.

    Attributes
    ----------
    key, name, kind, way, data_at : str
    devices, machines : int
        Accelerators in all, and machines; 0 for a service.
    term_years : float
        Years that must be paid for at least.
    staff_share : float
        Administrator's time of one machine over that of a server [-].
    figures : dict of str to Price
        Ranges by name, whose ends count as the 10th and 90th percentile; those of list prices are these, not the
        quartiles that `cookbook.catalog.prices.hourly_usd` returns. Ranges of other places under the same `shared`
        name vary together.
    batch : int
        Samples on each accelerator in one step; 0 for a service.
    active : float
        Part of a step in which accelerators draw more than idle.
    tier, why : str
        How well measurements cover the prediction; why the place is out of the question, "" where it is not.
    """

    key: str
    name: str
    kind: str
    way: str
    data_at: str
    devices: int
    machines: int
    term_years: float
    staff_share: float
    figures: Mapping[str, Price]
    batch: int = 0
    active: float = np.nan
    tier: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", MappingProxyType(dict(self.figures)))

    def summary(self) -> str:
        """Name, how it is paid for, and how many figures it rests on."""
        return f"{self.name}, {self.way}, {len(self.figures)} figures" + (f": {self.why}" if self.why else "")

    def shared(self, figure: str) -> str:
        """Name under which a figure varies together with that of other places."""
        if figure == "price":
            return f"price {self.key if self.way == PER_TOKEN else self.way}"
        return f"step {self.devices}" if figure == "step" else figure


@dataclass(frozen=True, repr=False)
class Task(Result):
    """A job: what is run, how often, and under which rules.

    Attributes
    ----------
    model : str or Workload
    samples, epochs : float
        Samples of an epoch; epochs of a run.
    batch : int, optional
        Samples on each accelerator in one step; the fastest that fits each place where None.
    seq : float, optional
        Tokens of a sample.
    data_bytes, uplink : float
        Stored data [B], and the rate at which they can leave the house [B/s].
    runs : float
        Runs per month.
    years : float
        Horizon.
    deadline : float
        Longest time of one run, upload of the data included [s].
    region, private : str
    utilisation : float, optional
        Share of hours in which what is bought or reserved is busy, other work included; None: with this task alone.
    """

    model: str | Workload
    samples: float
    epochs: float
    batch: int | None
    seq: float | None
    data_bytes: float
    uplink: float
    runs: float
    years: float
    deadline: float
    region: str
    private: str
    utilisation: float | None = None

    @property
    def count(self) -> float:
        """Runs over the horizon."""
        return self.runs * MONTHS * self.years


@lru_cache(maxsize=256)
def step(
    model: str | Workload, device: Any, devices: int, batch: int | None, seq: float | None
) -> tuple[Price, int, float, str, str]:
    """Return the predicted step as a range [s], its batch, active share and tier, and why it is impossible.

    Without a batch, the power of two up to 1,024 with the most samples per second of those that fit the accelerators.
    """
    unknown, sizes = Price(np.nan, np.nan, np.nan, "s"), BATCHES if batch is None else (batch,)
    shards = {"zero": 3} if devices > 1 and language_model(model) else {}
    try:
        answer = train_step(model, device, {"devices": devices, "micro_batch": list(sizes), **shards}, seq=seq)
    except (ValueError, KeyError) as problem:
        return unknown, sizes[0], np.nan, "", str(problem.args[0] if problem.args else problem)[:200]
    fits, counts = np.ravel(answer.fits), np.array(sizes)
    if not all(fits):
        fits = requirements(model, batch=list(sizes), seq=seq, accelerators=[device]).devices["fits"].to_numpy()
    else:
        fits = fits != "no"
    rates = np.where(fits, counts / np.ravel(answer.point), -1.0)
    at = int(np.nanargmax(rates)) if np.isfinite(rates).any() else 0
    low, point, high = (float(np.ravel(value)[at]) for value in seconds_of(answer))
    shares = np.ravel(active_seconds(answer) / answer.point)
    words = f"does not fit in memory with {sizes[at]:,} sample{'' if sizes[at] == 1 else 's'} on each accelerator"
    why = str(np.ravel(np.asarray(answer.why, dtype=object))[at]) or ("" if fits[at] else words)
    range_ = Price(low, point, high, "s", source=answer.sources)
    return range_, sizes[at], float(shares[at]), str(np.ravel(np.asarray(answer.tier, dtype=object))[at]), why


@lru_cache(maxsize=64)
def language_model(model: str | Workload) -> bool:
    """Return whether a network is a language model of the zoo, which services fine-tune."""
    return kind_of(network_of(model)) == "training_transformer"


def place_keys() -> list[str]:
    """Return keys of all places, in the order of the table."""
    return catalog.table("places")["key"].tolist()


@lru_cache(maxsize=64)
def _rows() -> Mapping[str, dict[str, Any]]:
    return {row["key"]: row for row in catalog.table("places").to_dict("records")}


# Cells of a place that a reader may change.
PLACE_FIELDS = {
    "way": Field.choice(*RENT, BOUGHT, PER_TOKEN),
    "data_at": Field.choice(*PRIVACY["anywhere"]),
    "devices": Field.count(high=1_000_000),
    "machines": Field.count(high=1_000_000),
    "staff_share": Field.number(0, 100),
}


def place_row(entry: str | Mapping[str, Any]) -> Row:
    """Return a row of the table, or one like it with some columns changed."""
    if isinstance(entry, str):
        return tuple(_rows()[catalog.lookup("places", entry)].items())
    if "like" not in entry:
        raise ValueError(f"places holds {shown(entry)}; give names, or {{'like': 'workstation', 'devices': 2}}")
    stated = dict(entry)
    base = _rows()[catalog.lookup("places", stated.pop("like"))]
    changeable = [name for name in base if name not in ("key", "source", "how")]
    check_names(stated, ["price", *changeable], "a place", "column")
    for name, declared in PLACE_FIELDS.items():
        if name in stated:
            stated[name] = declared.read(stated[name], name)
    for name, value in stated.items():
        if name == "price":
            own_price(value, "USD")
        elif name not in (*PLACE_FIELDS, "device") and not isinstance(value, type(base[name])):
            raise refused(name, value, f"is not of the kind of {shown(base[name])}, which it stands for")
    if "device" in stated and not isinstance(stated["device"], Accelerator):
        stated["device"] = catalog.lookup("accelerators", stated["device"])
    # Other devices, or more of them, have another price than the machine of the row.
    system = stated.get("system", "" if {"device", "devices"} & set(stated) else base["system"])
    name = str(stated.get("name", f"{base['name']}, changed"))
    if system:
        system = catalog.lookup("systems", system)
    return tuple({**base, **stated, "system": system, "name": name, "key": name}.items())


@lru_cache(maxsize=512)
def read_place(
    row: Row,
    model: str | Workload,
    batch: int | None,
    seq: float | None,
    region: str,
    since: int | None,
    price: float | None = None,
    current: float | None = None,
) -> Place:
    """Return a place with all figures that its cost rests on."""
    cells = dict(row)
    service = cells["way"] == PER_TOKEN
    machines = 0 if service else int(cells["machines"])
    count = 0 if service else machines * int(cells["devices"])
    term = 0.0 if np.isnan(cells["term_years"]) else float(cells["term_years"])
    place = Place(
        cells["key"],
        cells["name"],
        cells["kind"],
        cells["way"],
        cells["data_at"],
        count,
        machines,
        term,
        float(cells["staff_share"]),
        {},
    )
    priced = _price(cells, model, count, since, cells.get("price") if price is None else price)
    if service:
        return replace(place, figures={"price": priced}, why=priced.why)
    seconds, batch, active, tier, why = step(model, cells["device"], count, batch, seq)
    figures = {"step": seconds, "price": priced, **_power(cells, count, region)}
    if current is not None:
        figures["tariff"] = own_price(current, "USD/kWh")
    figures |= _owner(place) if place.way == BOUGHT else _renter(place, model)
    missing = "" if place.way != BOUGHT else figures["tariff"].why
    reason = why or priced.why or missing
    return replace(place, figures=figures, batch=batch, active=active, tier=tier, why=reason)


def _price(row: Mapping[str, Any], model: str | Workload, count: int, since: int | None, own: float | None) -> Price:
    """Return the reader's own price, else that of a table: of accelerators, of machines, or of a million tokens."""
    if row["way"] == PER_TOKEN:
        return _service(model) if own is None else own_price(own, "USD/million tokens")
    if row["way"] in RENT:
        offer = list_price(row["device"], row["way"], since, int(row["devices"]))
        return times(offer if own is None else own_price(own, "USD/h"), count, "USD/h")
    if own is not None:
        return times(own_price(own, "USD"), float(row["machines"]), "USD")
    machine = (
        list_price(row["system"], BOUGHT, since)
        if row["system"]
        else times(list_price(row["device"], BOUGHT, since), float(row["devices"]), "USD")
    )
    return times(machine, float(row["machines"]), "USD")


def list_price(name: Any, way: str, since: int | None = None, together: int = 1) -> Price:
    """Return a list price with the 10th and 90th percentile of its rows as ends.

    Parameters
    ----------
    name, way, since, together
        As for `hourly_usd`, whose median this is [USD/h]; bought, that of `bought_usd` [USD].

    Returns
    -------
    Price
        A single row has the usual spread, since one quote is not certainty.

    Examples
    --------
    >>> wide, quartiles = list_price("h100-sxm", "on demand"), prices.hourly_usd("h100-sxm")
    >>> wide.low < quartiles.low < wide.median == quartiles.median < quartiles.high < wide.high
    True
    """
    if way == BOUGHT:
        return _widened(prices.bought_usd(name, since, "deciles"), True)
    return _widened(prices.hourly_usd(name, way, since, together, "deciles"), False)


def own_price(price: Any, unit: str) -> Price:
    """Return a price that the reader states; ValueError where it is none."""
    usd = Field.number(0, MAX_PRICE, unit=unit, words=False).read(price, "prices")
    return prices.given(usd, unit)


# Beyond any price.
MAX_PRICE = 1e15


def _widened(price: Price, bought: bool) -> Price:
    """Return a single quote with the usual spread of prices that several rows state; one quote is not certainty."""
    if price.high > price.low or price.why:
        return price
    low, high = usual_spread(bought)
    return replace(price, low=price.low * low, high=price.high * high, note=f"{price.note}; {ONE_PRICE}".lstrip("; "))


@lru_cache(maxsize=2)
def usual_spread(bought: bool) -> tuple[float, float]:
    """Return the spread of prices of one accelerator: 10th and 90th percentile over the median, of a usual accelerator.

    Examples
    --------
    >>> low, high = usual_spread(False)
    >>> 0.2 < low < 1 < high < 5
    True
    """
    rows = catalog.table("hardware_prices" if bought else "cloud_prices")
    rows = rows[(rows["accelerator_key"] != "") & (rows["date"] >= prices.SINCE)]
    usd = rows["usd_per_device"] if bought else rows["usd_per_hour"] / rows["devices"]
    groups = usd.groupby(rows["accelerator_key"])
    several = groups.count() >= (QUOTES_BOUGHT if bought else QUOTES_RENTED)
    ends = [(groups.quantile(share) / groups.median())[several].median() for share in (0.1, 0.9)]
    return float(ends[0]), float(ends[1])


@lru_cache(maxsize=64)
def _service(model: str | Workload) -> Price:
    """Return the price of fine-tuning by the smallest class that fits the network."""
    missing = Price(np.nan, np.nan, np.nan, "USD/million tokens")
    if not language_model(model):
        return replace(missing, why="services fine-tune language models only")
    size = float(network_of(model).ops.parameter_count)
    items = catalog.table("tco").query("category == 'api_price'")["item"].unique()
    fitting = sorted((most, item) for item in items if (most := _most(item)) >= size)
    if not fitting:
        return replace(missing, why=f"no service in the catalogue fine-tunes {size / 1e9:.0f} billion parameters")
    return stated("api_price", items=fitting[0][1])


def _most(item: str) -> float:
    """Return the largest number of parameters of an item, as in "... up to 16 billion ..."; 0 where it states none."""
    words = item.partition("up to ")[2].split()
    return float(words[0]) * GIGA if len(words) > 1 and words[1].startswith("billion") else 0.0


def _power(row: Mapping[str, Any], count: int, region: str) -> dict[str, Price]:
    power = machine_power(row["device"], count)
    pue = stated("pue", items=row["pue"]) if row["pue"] else UNIT_FACTOR
    return {
        "rated": power.rated,
        "idle": power.idle,
        "full": power.full,
        "pue": pue,
        "tariff": prices.tariff(region),
        "carbon": prices.carbon(region),
    }


def _owner(place: Place) -> dict[str, Price]:
    """Return the other costs of an owner; a colocated machine's electricity is billed beside its space."""
    figures = {
        "life": stated("depreciation_years", "years"),
        "money": stated("money"),
        "maintenance": stated("maintenance"),
    }
    part = times(stated("staff", "fraction"), float(place.machines) * place.staff_share, "fraction")
    figures["staff"] = times(stated("staff", "USD/year"), part, "USD/year")
    if place.kind in UNDER_A_DESK:
        return {**figures, "network": NO_COST, "storage": NO_COST, "space": NO_COST}
    return {
        **figures,
        "network": stated("networking_share", items="on top of node capex"),
        "storage": stated("storage_share"),
        "space": stated("colocation") if place.data_at != "house" else NO_COST,
    }


def _renter(place: Place, model: str | Workload) -> dict[str, Price]:
    """Return the costs of moving data and of interruptions."""
    figures = {"egress": stated("egress_price"), "keep": stated("cloud_storage_price")}
    if place.way != "spot":
        return figures
    states = (
        network_of(model).ops.parameter_count * FLOAT * (1 + float(catalog.row("optimisers", "adam")["state_elements"]))
    )
    rate = stated("checkpoint", "GB/s")
    seconds = [states / (speed * GIGA) for speed in (rate.high, rate.median, rate.low)]
    write = replace(rate, low=seconds[0], median=seconds[1], high=seconds[2], unit="s")
    return {
        **figures,
        "checkpoint": write,
        "restart": times(stated("checkpoint", "min"), MINUTE, "s"),
        "interruption": _interruption(),
    }


def _interruption() -> Price:
    """Return the mean time between interruptions of one machine [s], from users' reports to the provider's bands."""
    scarce, band = stated("spot_interruption", "h"), stated("spot_interruption", "fraction/month")
    longest = -MONTH / math.log1p(-band.low)
    source = tuple(dict.fromkeys([*scarce.source, *band.source]))
    return replace(
        scarce, low=scarce.low * HOUR, median=scarce.high * HOUR, high=longest, unit="s", source=source, last=band.last
    )


def costs(place: Place, draws: Draws, task: Task) -> dict[str, Any]:
    """Return the costs of the task at one place, for each draw of its figures."""
    if place.way == PER_TOKEN:
        tokens = task.samples * task.epochs * (task.seq or 1) * task.count
        rent = draws["price"] * tokens / MILLION
        return {**dict.fromkeys(QUANTITIES, np.full_like(rent, np.nan)), "parts": {"rent": rent}}
    steps = task.samples * task.epochs / (place.batch * place.devices)
    hours = steps * draws["step"] / _useful(place, draws) / HOUR
    horizon = task.years * HOURS_PER_YEAR
    use = hours * task.count / horizon
    by_hour = place.way in BY_HOUR
    units = np.ones_like(use) if by_hour else np.maximum(np.ceil(use), 1)
    share = 1.0 if task.utilisation is None else np.minimum(use / task.utilisation / units, 1)
    paid = use if by_hour else units * share
    active = np.minimum(place.active * use / np.maximum(paid, 1e-12), 1)
    watts = power_watts(draws["rated"], active, draws["idle"], draws["full"])
    kwh = watts / KILO * horizon * paid * draws["pue"]
    parts = _owned(draws, task, watts) if place.way == BOUGHT else _rented(place, draws, task, use)
    parts = {name: usd * (1 if by_hour or name == "data" else paid) for name, usd in parts.items()}
    carried = kwh * draws["carbon"] * GRAM
    return {"hours": hours, "use": use, "units": units, "paid": paid, "kwh": kwh, "kgco2e": carried, "parts": parts}


def _useful(place: Place, draws: Draws) -> Any:
    """Return the share of the time that is useful: interruptions cost checkpoints, lost work and restarts."""
    if place.way != "spot":
        return 1.0
    between = cluster_mtbf_seconds(draws["interruption"], place.machines)
    interval = daly_2006_interval_seconds(draws["checkpoint"], between)
    return useful_share(interval, draws["checkpoint"], draws["restart"], between)


def _owned(draws: Draws, task: Task, watts: Any) -> Mapping[str, Any]:
    rated_kw = draws["rated"] / KILO
    return ownership_usd(
        draws["price"],
        task.years,
        life_years=draws["life"],
        money_rate=draws["money"],
        network_share=draws["network"],
        storage_share=draws["storage"],
        maintenance_share=draws["maintenance"],
        watts=watts,
        pue=draws["pue"],
        usd_per_kwh=draws["tariff"],
        staff_usd_per_year=draws["staff"],
        space_usd_per_year=draws["space"] * rated_kw * MONTHS,
    ).parts


def _rented(place: Place, draws: Draws, task: Task, use: Any) -> dict[str, Any]:
    """Return USD of hours, or of all hours of the term; of stored data, results, and data brought home at the end."""
    years = task.years if place.way in BY_HOUR else np.maximum(task.years, place.term_years)
    hours = years * HOURS_PER_YEAR * (use if place.way in BY_HOUR else np.ones_like(use))
    home = (task.data_bytes + network_of(task.model).ops.parameter_count * FLOAT * task.count) / GIGA
    stored = task.data_bytes / GIGA * MONTHS * task.years
    return {"rent": hours * draws["price"], "data": home * draws["egress"] + stored * draws["keep"]}


def spread(figure: Price, normal: np.ndarray) -> np.ndarray:
    """Return values of a range, whose ends are the 10th and 90th percentile of two half log-normals at its median.

    Examples
    --------
    >>> spread(Price(1.0, 2.0, 8.0, "USD"), np.array([-TENTH, 0.0, TENTH])).round(6).tolist()
    [1.0, 2.0, 8.0]
    """
    low, middle, high = float(figure.low), float(figure.median), float(figure.high)
    if not (low > 0 and high > low):
        return np.full_like(normal, middle)
    side = np.where(normal < 0, math.log(middle / low), math.log(high / middle))
    return middle * np.exp(side * (normal / TENTH))


@lru_cache(maxsize=128)
def drawn(place: Place, count: int = DRAWS) -> Draws:
    """Return Monte Carlo samples of the figures of a place; figures that places share vary together."""
    values = {}
    for name, figure in place.figures.items():
        seed = zlib.crc32(place.shared(name).encode())
        value = spread(figure, np.random.default_rng([SEED, seed]).standard_normal(count))
        values[name] = np.clip(value, *BOUNDS[name]) if name in BOUNDS else value
        values[name].flags.writeable = False
    return MappingProxyType(values)


def middle(place: Place) -> dict[str, np.ndarray]:
    """Return every figure at its median."""
    return {name: np.array([float(figure.median)]) for name, figure in place.figures.items()}


def total(parts: Mapping[str, Any]) -> Any:
    """Sum of parts, draw by draw."""
    return np.sum(np.broadcast_arrays(*parts.values()), axis=0)
