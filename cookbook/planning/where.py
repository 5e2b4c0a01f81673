"""Where to run: every place with what it costs over a horizon, its band, and why it is out of the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, units
from cookbook.planning.ownership import HOUR
from cookbook.planning.places import ELECTRICITY, PRIVACY, Place, language_model, network_of, place_keys, read_place
from cookbook.planning.spending import QUANTITIES, Task, costs, drawn, middle, total

if TYPE_CHECKING:
    import pandas as pd

BAND = (10, 50, 90)
# Runs a month that keep no machine busy all the time.
FEW = 1e-3
UNTIMED = "its time is not stated, so that nobody can promise the deadline"


@dataclass(frozen=True, eq=False)
class WhereToRun:
    """Every place for one task.

    Attributes
    ----------
    task : Task
    places : dict of str to Place
    """

    task: Task
    places: Mapping[str, Place] = field(repr=False)

    @cached_property
    def outcomes(self) -> dict[str, dict[str, Any]]:
        """Monte-Carlo outcomes of each place that has its figures."""
        with np.errstate(all="ignore"):
            return {key: costs(place, drawn(place), self.task) for key, place in self.places.items() if place.figures}

    @cached_property
    def points(self) -> dict[str, dict[str, Any]]:
        """Outcomes with every figure at its median."""
        with np.errstate(all="ignore"):
            return {key: costs(place, middle(place), self.task) for key, place in self.places.items() if place.figures}

    def usd(self, key: str) -> np.ndarray:
        """Total of each draw at one place [USD]."""
        return total(self.outcomes[key]["parts"])

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row a place: what it costs and uses, whether it will do, and why not; missing stays NaN."""
        import pandas as pd

        rows = [self._row(place) for place in self.places.values()]
        return pd.DataFrame(rows).set_index("place")

    def _row(self, place: Place) -> dict[str, Any]:
        found = self.outcomes[place.key]
        usd, price = self.usd(place.key), place.figures["price"]
        row: dict[str, Any] = {"place": place.key, "name": place.name, "kind": place.kind, "way": place.way}
        for name, values in {"usd": usd, **{name: found[name] for name in QUANTITIES}}.items():
            known = np.isfinite(values).all()
            row |= dict(zip((f"{name}_low", name, f"{name}_high"),
                            np.percentile(values, BAND) if known else (np.nan,) * 3, strict=True))  # fmt: skip
        row["usd_per_run"] = row["usd"] / self.task.count
        row["upload_hours"] = 0.0 if place.data_at == "house" else self.task.data_bytes / self.task.uplink / HOUR
        limit = max(self.task.deadline / HOUR - row["upload_hours"], 0.0)
        with np.errstate(all="ignore"):
            chance = np.mean(found["hours"] <= limit) if np.isfinite(row["hours"]) else np.nan
            part = np.percentile(np.minimum(limit / found["hours"], 1), BAND)
        row |= {"in_time": chance, "part_low": part[0], "part": part[1], "part_high": part[2]}
        row["why"] = self._why(place, row)
        row["will_do"] = not row["why"]
        dates = sorted({price.first, price.last} - {""})
        priced = "; ".join(filter(None, [" to ".join(dates), price.note]))
        row |= {"priced": priced, "price_low": price.low, "price": price.median, "price_high": price.high}
        row |= {"price_unit": price.unit, "tier": place.tier}
        return row

    def _why(self, place: Place, row: Mapping[str, Any]) -> str:
        """First reason against a place."""
        if place.data_at not in PRIVACY[self.task.private]:
            return f"data would leave: they lie with {'the provider' if place.data_at == 'provider' else 'others'}"
        if place.why:
            return place.why
        if not np.isfinite(row["usd"]):
            return "a figure is missing"
        if np.isnan(row["hours"]):
            return UNTIMED
        if row["hours"] > self.task.deadline / HOUR - row["upload_hours"]:
            waits = " with the upload of the data" if row["upload_hours"] else ""
            return f"too late: {units.human((row['hours'] + row['upload_hours']) * HOUR, 's')} a run{waits}"
        return ""

    @cached_property
    def best(self) -> str | None:
        """Key of the cheapest place that will do; None where none will."""
        will_do = self.frame[self.frame["will_do"]]
        return None if will_do.empty else str(will_do["usd"].idxmin())

    @cached_property
    def odds(self) -> dict[str, float]:
        """Part of the draws in which each place that will do is the cheapest of them."""
        keys = [key for key, fine in self.frame["will_do"].items() if fine]
        cheapest = np.argmin(np.array([self.usd(key) for key in keys]), axis=0) if keys else np.array([])
        return {key: float(np.mean(cheapest == at)) for at, key in enumerate(keys)}

    def tornado(self, key: str | None = None) -> pd.DataFrame:
        """What each figure does to the cost of one place, the others at their medians; the largest first.

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
        import pandas as pd

        place = self.place(key)
        centre, rows = middle(place), []
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
        """One place that has a cost; the best one by default."""
        chosen = self.best if key is None else key
        if chosen is None:
            raise ValueError("no place will do: loosen the deadline or the rule for the data, or run less often")
        if chosen not in self.places:
            chosen = catalog.lookup("places", chosen)
        if chosen not in self.places or not np.isfinite(self.frame.loc[chosen, "usd"]):
            why = self.frame.loc[chosen, "why"] if chosen in self.places else "it is not among the places asked for"
            raise ValueError(f"{chosen} has no cost here: {why}")
        return self.places[chosen]

    def per_run(self, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Cost of a place as a line: USD over the horizon with no run, and USD more for each run a month."""
        place = self.place(key)
        with np.errstate(all="ignore"):
            none, few = (self._with_runs(place, runs) for runs in (0.0, FEW))
        return none, (few - none) / FEW

    def _with_runs(self, place: Place, runs: float) -> np.ndarray:
        return total(costs(place, drawn(place), replace(self.task, runs=runs))["parts"])


def where_to_run(
    model: str,
    data: str = "imagenet-1k",
    *,
    samples: float | None = None,
    data_bytes: float | str | None = None,
    epochs: float = 1,
    batch: int = 32,
    seq: float | None = None,
    runs: float = 1,
    years: float = 3,
    deadline: float | str = "7 days",
    region: str = "us",
    private: str = "anywhere",
    uplink: float | str = "1 Gb/s",
    places: Sequence[str] | None = None,
    prices: Mapping[str, float] | None = None,
    since: int | None = 2025,
) -> WhereToRun:
    """Laptop, workstation, cloud, own server or service: what a task costs at each place, with bands.

    Each place gets the predicted time of the task on its accelerators, then USD, kWh and kg of CO2 equivalents over
    the horizon. Bands hold the middle 80 % of 2,000 draws in which every figure varies over its range.

    Parameters
    ----------
    model : str
        A network of the zoo.
    data : str
        A card of the table ``data_sets``: samples of an epoch, and bytes to move.
    samples, data_bytes : float, optional
        Your own, in place of the card's.
    epochs, batch : float
        Epochs of one run; samples on each accelerator in one step.
    seq : float, optional
        Tokens of a sample of a language model; its usual length by default.
    runs, years : float
        Runs a month, and the horizon.
    deadline : float or str
        Longest time of one run, the upload of the data included [s].
    region : str
        Where machines stand, a row of the table ``regions``.
    private : {"anywhere", "own machines", "in house"}
        Where the data may lie.
    uplink : float or str
        Rate at which data leave the house [B/s].
    places : sequence of str, optional
        Rows of the table ``places``; all by default.
    prices : mapping, optional
        Your own price of a place: USD of the purchase (0: you have it already), USD an hour of one accelerator, or USD
        a million tokens; of "electricity": USD a kWh.
    since : int, optional
        First year of prices to count.

    Returns
    -------
    WhereToRun
        `frame`, `best`, `odds`, `tornado()`; see `break_even`.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, card, region or place that the catalogue does not have.
    ValueError
        A figure that cannot be, such as a horizon of 0; a language model with a card that holds no text.

    Examples
    --------
    >>> found = where_to_run("resnet50", epochs=90, places=["workstation", "cloud-h100"])
    >>> found.best in found.places, bool((found.frame.usd_low <= found.frame.usd).all())
    (True, True)
    """
    card = catalog.table("data_sets").set_index("key").loc[catalog.lookup("data_sets", data)]
    numbers = {
        "samples": float(card["samples"]) if samples is None else samples, "epochs": epochs, "batch": batch,
        "runs": runs, "years": years, "deadline": units.si(deadline, "s"), "uplink": units.si(uplink, "B/s"),
        "data_bytes": float(card["stored_bytes"]) if data_bytes is None else units.si(data_bytes, "B"),
    }  # fmt: skip
    for name, value in {**numbers, "seq": 1 if seq is None else seq}.items():
        if isinstance(value, (bool, str)) or not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} = {value!r} must be above 0 and finite; give a number such as 3")
    if batch != int(batch):
        raise ValueError(f"batch = {batch!r} must be a whole number of samples; give one such as 32")
    if private not in PRIVACY:
        raise ValueError(f"private = {private!r} is not a rule; take one of {', '.join(PRIVACY)}")
    key = catalog.lookup("models", model)
    own = {each if each == ELECTRICITY else catalog.lookup("places", each): usd for each, usd in (prices or {}).items()}
    wanted = [places] if isinstance(places, str) else place_keys() if places is None else places
    chosen = [catalog.lookup("places", each) for each in wanted]
    if not chosen:
        raise ValueError("places = []: give at least one, or leave it out for all")
    speaks, samples_of = language_model(key), str(card["data_type"])
    if speaks and samples is None and samples_of != "text":
        raise ValueError(f"data = {data!r} holds {samples_of} samples, but {key} reads text; take c4-en-tokens")
    length = (seq or network_of(key)[1]) if speaks else None
    task = Task(key, region=region, private=private, seq=length, **numbers)
    found = {each: read_place(each, key, int(batch), length, region, since, tuple(own.items())) for each in chosen}
    return WhereToRun(task, found)
