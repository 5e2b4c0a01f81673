"""Places to train: what each predicts, and the figures that its cost rests on, each a range with a date."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.planning.cost import BOUGHT, RENT, Price, bought_usd, hourly_usd
from cookbook.planning.energy import active_seconds, machine_power, seconds_of
from cookbook.planning.facts import SINCE, carbon, stated, tariff, times
from cookbook.prediction.devices import optimiser_row
from cookbook.prediction.doors import train_step
from cookbook.prediction.requirements import requirements
from cookbook.prediction.terms.transformer import LANGUAGE_MODELS
from cookbook.workloads import zoo

PER_TOKEN = "per token"
# Where data may lie, from the loosest rule to the strictest, and which places each allows.
PRIVACY = {
    "anywhere": ("house", "own machine elsewhere", "provider"),
    "own machines": ("house", "own machine elsewhere"),
    "in house": ("house",),
}
FLOAT, GIGA = 4, 1e9
MINUTE, MONTH = units.si("1 min"), units.si("1 month")
HOUR = units.si("1 h")
ELECTRICITY = "electricity"
ONE_PRICE = "one price, given the usual spread"
# Prices of one accelerator that make a spread.
QUOTES_RENTED, QUOTES_BOUGHT = 5, 2
NONE = Price(0.0, 0.0, 0.0, "")
ONE = Price(1.0, 1.0, 1.0, "ratio")
BILLIONS = re.compile(r"up to ([\d.]+) billion")


@dataclass(frozen=True, eq=False)
class Place:
    """One row of the table `places`, and what its cost rests on.

    Attributes
    ----------
    key, name, kind, way, data_at : str
    devices, machines : int
        Accelerators in all, and machines; 0 for a service.
    term_years : float
        Years that must be paid for at least.
    figures : dict of str to Price
        Ranges by name; those of other places under the same `shared` name vary together.
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
    staffed: bool
    figures: Mapping[str, Price]
    active: float = np.nan
    tier: str = ""
    why: str = ""

    def shared(self, figure: str) -> str:
        """Name under which a figure varies together with that of other places."""
        if figure == "price":
            return f"price {self.key if self.way == PER_TOKEN else self.way}"
        return f"step {self.devices}" if figure == "step" else figure


@lru_cache(maxsize=256)
def step(model: str, device: str, devices: int, batch: int, seq: float | None) -> tuple[Price, float, str, str, tuple]:
    """Predicted step as a range [s], active share, tier, why not, sources; the reason where it does not fit."""
    plan = {"devices": devices, "batch": batch} | ({"zero": 3} if devices > 1 and language_model(model) else {})
    try:
        found = train_step(model, device, plan, seq=seq)
    except ValueError as problem:
        return replace(NONE, low=np.nan, median=np.nan, high=np.nan), np.nan, "", str(problem), ()
    low, point, high = (float(each) for each in seconds_of(found))
    why = str(found.why) or _memory(model, device, batch, seq, str(found.fits))
    share = float(active_seconds(found) / found.point)
    return Price(low, point, high, "s", source=found.sources), share, str(found.tier), why, found.sources


def _memory(model: str, device: str, batch: int, seq: float | None, fits: str) -> str:
    if fits == "no":
        return f"does not fit in memory with {batch} samples on each accelerator"
    if not fits and not bool(requirements(model, batch=batch, seq=seq, accelerators=[device]).devices["fits"].iloc[0]):
        return f"does not fit in memory with {batch} samples on each accelerator"
    return ""


@lru_cache(maxsize=64)
def language_model(model: str) -> bool:
    """Whether a network of the zoo is a language model, which services fine-tune."""
    rows = catalog.table("models").set_index("name")
    return rows.loc[catalog.lookup("models", model), "builder"] in LANGUAGE_MODELS


@lru_cache(maxsize=64)
def network_of(model: str) -> tuple[float, float | None]:
    """Parameters and usual sequence length of a network."""
    network = zoo.model(model)
    return float(network.ops.parameter_count), network.seq


def place_keys() -> list[str]:
    """Keys of all places, in the order of the table."""
    return catalog.table("places")["key"].tolist()


@lru_cache(maxsize=256)
def read_place(
    key: str, model: str, batch: int, seq: float | None, region: str, since: int | None,
    given: tuple[tuple[str, float], ...] = (),
) -> Place:
    """A place with all figures that its cost rests on.

    Parameters
    ----------
    key : str
        Of the table ``places``.
    model, batch, seq
        What is trained, and samples on each accelerator.
    region : str
        Where machines stand: electricity and carbon.
    since : int, optional
        First year of prices to count.
    given : tuple of (str, float)
        The reader's own prices by key: USD of the purchase, USD an hour of one accelerator, or USD a million tokens;
        "electricity": USD a kWh.
    """
    table, own = catalog.table("places"), dict(given)
    row = table[table["key"] == key].iloc[0].to_dict()
    service = row["way"] == PER_TOKEN
    machines = 0 if service else int(row["machines"])
    count = 0 if service else machines * int(row["devices"])
    place = Place(
        key, row["name"], row["kind"], row["way"], row["data_at"], count, machines,
        0.0 if np.isnan(row["term_years"]) else float(row["term_years"]), row["staffed"] == "yes", {},
    )  # fmt: skip
    price = _price(row, model, count, since, own.get(key))
    if service:
        return replace(place, figures={"price": price}, why=price.why)
    seconds, active, tier, why, _ = step(model, row["device"], count, batch, seq)
    figures = {"step": seconds, "price": price, **_power(row, count, region)}
    if (current := own.get(ELECTRICITY)) is not None:
        figures["tariff"] = _yours(current, "USD/kWh")
    figures |= _owner(place) if row["way"] == BOUGHT else _renter(place, model)
    missing = "" if row["way"] != BOUGHT else figures["tariff"].why
    return replace(place, figures=figures, active=active, tier=tier, why=why or price.why or missing)


def _price(row: Mapping[str, Any], model: str, count: int, since: int | None, own: float | None) -> Price:
    """The reader's own price, else what rows state: of all accelerators, of the machines, or of a million tokens."""
    if row["way"] == PER_TOKEN:
        return _service(model) if own is None else _yours(own, "USD/million tokens")
    if row["way"] in RENT:
        offer = _widened(_asked(row["device"], row["way"], since), bought=False)
        return times(offer if own is None else _yours(own, "USD/h"), count, "USD/h")
    if own is not None:
        return _yours(own, "USD")
    return times(_widened(_sold(row["system"], since), bought=True), float(row["machines"]), "USD")


def _yours(price: float, unit: str) -> Price:
    if isinstance(price, (bool, str)) or not 0 <= price < math.inf:
        raise ValueError(f"prices holds {price!r}, which is no price; give 0 or more [{unit}]")
    return Price(price, price, price, unit, note="your own price")


def _widened(price: Price, bought: bool) -> Price:
    """One quote is not certainty: it gets the usual spread of prices that several rows state."""
    if price.high > price.low or price.why:
        return price
    low, high = usual_spread(bought)
    return replace(price, low=price.low * low, high=price.high * high, note=f"{price.note}; {ONE_PRICE}".lstrip("; "))


@lru_cache(maxsize=2)
def usual_spread(bought: bool) -> tuple[float, float]:
    """How far prices of one accelerator lie apart: 10th and 90th percentile over the median, of a usual accelerator.

    Parameters
    ----------
    bought : bool
        Of purchases, or of rent on demand.

    Examples
    --------
    >>> low, high = usual_spread(False)
    >>> 0.2 < low < 1 < high < 5
    True
    """
    rows = catalog.table("hardware_prices" if bought else "cloud_prices")
    rows = rows[(rows["accelerator_key"] != "") & (rows["date"] >= SINCE)]
    prices = rows["usd_per_device"] if bought else rows["usd_per_hour"] / rows["devices"]
    groups = prices.groupby(rows["accelerator_key"])
    several = groups.count() >= (QUOTES_BOUGHT if bought else QUOTES_RENTED)
    ends = [(groups.quantile(share) / groups.median())[several].median() for share in (0.1, 0.9)]
    return float(ends[0]), float(ends[1])


_sold = lru_cache(maxsize=64)(bought_usd)
_asked = lru_cache(maxsize=64)(hourly_usd)


@lru_cache(maxsize=64)
def _service(model: str) -> Price:
    """Price of fine-tuning by the smallest class that holds the network."""
    missing = Price(np.nan, np.nan, np.nan, "USD/million tokens")
    if not language_model(model):
        return replace(missing, why="services fine-tune language models only")
    parameters, _ = network_of(model)
    items = catalog.table("tco").query("category == 'api_price'")["item"].unique()
    classes = sorted((float(match[1]) * 1e9, item) for item in items if (match := BILLIONS.search(item)))
    fitting = [item for most, item in classes if parameters <= most]
    if not fitting:
        return replace(missing, why=f"no service in data/tco.csv fine-tunes {parameters / 1e9:.0f} billion parameters")
    return stated("api_price", items=fitting[0])


def _power(row: Mapping[str, Any], count: int, region: str) -> dict[str, Price]:
    power = machine_power(row["device"], count)
    pue = stated("pue", items=row["pue"]) if row["pue"] else ONE
    return {"rated": power.rated, "idle": power.idle, "full": power.full, "pue": pue, "tariff": tariff(region),
            "carbon": carbon(region)}  # fmt: skip


def _owner(place: Place) -> dict[str, Price]:
    """What an owner pays besides; a colocated machine's electricity is billed beside its space."""
    found = {
        "life": stated("depreciation_years", "years"), "money": stated("money"), "maintenance": stated("maintenance"),
    }  # fmt: skip
    if not place.staffed:
        return {**found, "staff": NONE, "network": NONE, "storage": NONE, "space": NONE}
    part = times(stated("staff", "fraction"), float(place.machines), "fraction")
    return {
        **found,
        "staff": times(stated("staff", "USD/year"), part, "USD/year"),
        "network": stated("networking_share", items="on top of node capex"),
        "storage": stated("storage_share"),
        "space": stated("colocation") if place.data_at != "house" else NONE,
    }


def _renter(place: Place, model: str) -> dict[str, Price]:
    """What moving data and being interrupted cost."""
    found = {"egress": stated("egress_price"), "keep": stated("cloud_storage_price")}
    if place.way != "spot":
        return found
    parameters, _ = network_of(model)
    states = parameters * FLOAT * (1 + float(optimiser_row("adam")["state_elements"]))
    rate = stated("checkpoint", "GB/s")
    seconds = [states / (each * GIGA) for each in (rate.high, rate.median, rate.low)]
    write = replace(rate, low=seconds[0], median=seconds[1], high=seconds[2], unit="s")
    return {
        **found, "checkpoint": write, "restart": times(stated("checkpoint", "min"), MINUTE, "s"),
        "interruption": _interruption(),
    }  # fmt: skip


def _interruption() -> Price:
    """Mean time between interruptions of one machine [s]: from what users report to what the provider's bands say."""
    scarce, band = stated("spot_interruption", "h"), stated("spot_interruption", "fraction/month")
    longest = -MONTH / math.log1p(-band.low)
    source = tuple(dict.fromkeys([*scarce.source, *band.source]))
    return replace(scarce, low=scarce.low * HOUR, median=scarce.high * HOUR, high=longest, unit="s", source=source,
                   last=band.last)  # fmt: skip
