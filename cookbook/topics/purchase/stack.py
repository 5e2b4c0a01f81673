"""Which complete stack for an application: every stack ranked, what would change that, and what one size for all costs.

Limits that contradict each other are reported as the smallest set of them that no stack keeps, and by how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.catalog import constant
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.prices import HOUR, REGION, SINCE_YEAR, region_row
from cookbook.catalog.refusals import Refused, refused
from cookbook.prediction.api import MODEL, network_of
from cookbook.prediction.kinds.input_pipeline_arguments import mismatch
from cookbook.prediction.kinds.transformer import USUAL_SEQ, answers_tokens
from cookbook.result import Result, plain
from cookbook.topics.purchase import places as sites
from cookbook.topics.purchase.places import BY_HOUR, PER_TOKEN, Task, costs, own_price, total
from cookbook.topics.purchase.stack_limits import TOLERANCE, broken_limits, contradiction, run_seconds
from cookbook.topics.purchase.stack_sizes import (
    SERVE,
    TASKS,
    Candidate,
    Wanted,
    candidates,
    card_of,
    stack_rows,
)
from cookbook.topics.purchase.where import DURATION, PRICES, PRIVATE, UNTIMED, UPLINK, YEARS, WhereToRun, overlap
from cookbook.workloads.zoo import Workload

# Columns that stacks are ranked by: unit and name.
RANKINGS = {"usd": ("USD", "cost"), "hours": ("h", "time of a run"), "kwh": ("kWh", "energy")}
# Largest factor by which inputs are changed, points per decade of a search, successive bisections of a crossing whose
# points are computed together, and the logarithm of the ratio of its two sides at which it is found.
MAX_FACTOR, STEPS, HALVINGS, NEAR_ENOUGH = 100.0, 16, 4, 1e-4
# Arguments that only runs, and only services, use.
RUNS_ALONE, SERVICE_ALONE = ("samples", "epochs", "runs", "deadline"), ("rate", "hours", "latency")
ENDS, QUANTITIES = (10, 90), ("kwh", "kgco2e", "hours")


@dataclass(frozen=True, eq=False, repr=False)
class StackChoice(Result):
    """Every stack for one application, ranked.

    Attributes
    ----------
    wanted : Wanted
        What was asked, with what the table ``applications`` says where nothing was.
    found : tuple of Candidate
    limits : dict
        deadline, latency [s], budget [USD], power [W], private and stacks; None where nothing limits.
    by : str
        usd, hours or kwh.
    assumed : tuple of str
        What was not given, and what was taken.
    """

    wanted: Wanted
    found: tuple[Candidate, ...] = field(repr=False)
    limits: Mapping[str, Any]
    by: str
    assumed: tuple[str, ...]

    @cached_property
    def where(self) -> WhereToRun:
        """The same stacks as places, with Monte Carlo outcomes and `tornado`."""
        return WhereToRun(self.wanted.job(), {candidate.key: candidate.place for candidate in self.found})

    @cached_property
    def ranked(self) -> pd.DataFrame:
        """Every stack with all figures at their medians, the best first."""
        frame = pd.DataFrame([self._row(candidate) for candidate in self.found]).set_index("stack")
        broken = broken_limits(frame, self.limits).values()
        frame["why"] = [
            why or next((words[key] for words in broken if words[key]), "") for key, why in frame["why"].items()
        ]
        frame["will_do"] = frame["why"] == ""
        order = frame.assign(last=~frame["will_do"]).sort_values(["last", self.by], kind="stable").index
        return frame.loc[order]

    def _row(self, candidate: Candidate) -> dict[str, Any]:
        place, serves = candidate.place, self.wanted.task == SERVE
        point = self.where.points[candidate.key]
        figures = {name: float(np.ravel(point[name])[0]) for name in ("kwh", "kgco2e", "hours")}
        usd = float(np.ravel(total(point["parts"]))[0])
        late = place.data_at != "house" and not serves
        upload = self.where.task.data_bytes / self.wanted.uplink / HOUR if late else 0.0
        copies = 1 if serves else self._copies(candidate)
        row = {
            "stack": candidate.key,
            "name": candidate.name,
            "place": place.kind,
            "way": place.way,
            "data_at": place.data_at,
            "accelerator": candidate.row["device"],
            "devices": place.devices * copies,
            "machines": place.machines * copies,
            "least": candidate.least,
            "most": candidate.most,
            "system": candidate.row["system"],
            "storage": candidate.row["storage"],
            "network": candidate.row["network"],
            "software": candidate.software,
            "usd": usd,
            **figures,
            "upload_hours": upload,
            "latency": candidate.latency,
            "watts": self._rated(candidate) * copies,
            "limit": candidate.limit,
            "used": candidate.used,
            "batch": place.batch,
            "tier": place.tier,
            "price": place.figures["price"].median,
            "priced": place.figures["price"].dates,
            "impossible": bool(candidate.why) or place.way == PER_TOKEN,
        }
        if serves:
            row |= {"hours": math.nan, "upload_hours": math.nan}
        if candidate.why:  # what cannot do the task has no cost of it
            row |= dict.fromkeys(("usd", *QUANTITIES, "watts"), math.nan)
        missing = "" if math.isfinite(usd) or candidate.why else "a figure is missing"
        return row | {"why": candidate.why or missing or (UNTIMED if place.way == PER_TOKEN else "")}

    def _copies(self, candidate: Candidate, factor: Any = 1.0) -> Any:
        """Return the copies of a stack that run side by side, with `factor` times the work; all are paid for."""
        point, work = self.where.points[candidate.key], np.asarray(factor, dtype=float)
        if candidate.place.way in (*BY_HOUR, PER_TOKEN):
            return np.ones(work.shape, dtype=int) if work.ndim else 1
        use = float(np.ravel(point["use"])[0])
        copies = np.maximum(np.ceil((use if math.isfinite(use) else 1.0) * work), 1).astype(int)
        return copies if work.ndim else int(copies)

    @staticmethod
    def _rated(candidate: Candidate) -> float:
        """Return the rated power of the machines of a stack on one's own premises [W]; 0 elsewhere."""
        return float(candidate.place.figures["rated"].median) if candidate.place.data_at == "house" else 0.0

    def _interval(self, candidate: Candidate) -> dict[str, float]:
        """Return 10th and 90th percentiles of cost, energy and time; of a service with the machines of either end."""
        outcome, count = self.where.outcomes[candidate.key], max(candidate.place.machines, 1)
        less, more = (candidate.least / count, candidate.most / count) if self.wanted.task == SERVE else (1.0, 1.0)
        columns = dict[str, float]()
        for name, values in {
            "usd": self.where.usd(candidate.key),
            **{name: outcome[name] for name in QUANTITIES},
        }.items():
            low, high = np.percentile(values, ENDS)
            point = self.ranked.loc[candidate.key, name]
            ends = (low * less, high * more) if math.isfinite(point) else (math.nan, math.nan)
            columns |= {f"{name}_low": min(ends[0], point), f"{name}_high": max(ends[1], point)}
        return columns

    def frame(self) -> pd.DataFrame:
        """Return one row per stack, best first; impossible ones are last, with the reason; figures at their medians.

        name, place, way, data_at, accelerator, devices, machines (least and most of a service's interval), system,
        storage, network, software; usd, kwh and kgco2e over the horizon and hours of a run, each with _low and _high of
        the 80 % interval; upload_hours; latency [s]; watts on one's own premises, rated; limit, used, batch, tier;
        price of all its machines [USD; USD/h if rented] and its dates (priced); will_do, why.
        """
        return self._whole.copy()

    @cached_property
    def _whole(self) -> pd.DataFrame:
        ends = pd.DataFrame({candidate.key: self._interval(candidate) for candidate in self.found}).T
        return self.ranked.join(ends)

    def to_dict(self) -> dict[str, Any]:
        """Return the row of each stack, by its key."""
        return plain(self._whole.to_dict("index"))

    @cached_property
    def best(self) -> str:
        """Key of the best stack."""
        return str(self.ranked.index[0])

    @cached_property
    def odds(self) -> dict[str, float]:
        """Part of the Monte Carlo samples in which each stack that will do costs least of them.

        Of services they are samples of prices and power, with as many machines as at the median speed.
        """
        table = self.ranked[self.ranked["will_do"]]
        usd = np.array([self.where.usd(key) for key in table.index])
        cheapest = np.argmin(usd, axis=0)
        return {key: float(np.mean(cheapest == at)) for at, key in enumerate(table.index)}

    def summary(self) -> str:
        """Return the first stack, what it takes, and whether it is clearly the best."""
        row, count = self.ranked.iloc[0], int(self.ranked["will_do"].sum())
        open_ = overlap(self._whole, self.by)
        stacks = f"{'leads' if open_ else 'is the best of'} {count} feasible stacks by {RANKINGS[self.by][1]}"
        among = "is the only feasible stack" if count == 1 else stacks
        what = told_value(row[self.by], self.by)
        return f"{row['name']}{several(row)} {among}{f', {open_}' if open_ else ''}: {what}"

    def value(self, candidate: Candidate, name: str = "", factor: Any = 1.0, by: str = "") -> np.ndarray:
        """Return the value that stacks are ranked by, or `by`, with one input times `factor`; figures at their medians.

        Of a service the machines follow the requests, whole machines at a time, each as many requests as now.
        """
        factor, task, serves = np.asarray(factor, dtype=float), self.where.task, self.wanted.task == SERVE
        scale, price = np.ones_like(factor), np.ones(1)
        if name == "use":
            task = replace(task, samples=task.samples * factor) if serves else replace(task, runs=task.runs * factor)
        elif name == "volume" and not serves:
            task = replace(task, samples=task.samples * factor, data_bytes=task.data_bytes * factor)
        elif name == "volume":
            scale = factor if candidate.place.way == PER_TOKEN else self._more(candidate, factor)
        elif name == "price" and candidate.key == self.best:
            price = factor
        elif name == "years":
            task = replace(task, years=task.years * factor)
        spent, by = self._costs(candidate, task, price), by or self.by
        value = total(spent["parts"]) if by == "usd" else spent[by]
        return np.broadcast_to((value[0] if np.size(value) == 1 else value) * scale, np.shape(factor))

    @staticmethod
    def _more(candidate: Candidate, factor: Any) -> Any:
        """Return machines of a service over those now, with `factor` times the requests."""
        return np.maximum(np.ceil(candidate.need * np.asarray(factor) - TOLERANCE), 1) / max(
            candidate.place.machines, 1
        )

    def _costs(self, candidate: Candidate, task: Task, price: np.ndarray) -> dict[str, Any]:
        """Return outcomes of a stack with another task or a multiple of its price, figures at their medians."""
        if task is self.where.task and np.all(price == 1):
            return self.where.points[candidate.key]
        draws = sites.middle(candidate.place)
        with np.errstate(all="ignore"):
            return costs(candidate.place, draws | {"price": draws["price"] * price}, task)

    @cached_property
    def _open(self) -> dict[str, float]:
        """Time of a run [s] of every stack that keeps the limits, deadline, power and budget apart."""
        table, hard = self.ranked, dict(self.limits) | {"budget": None, "deadline": None, "power": None}
        broken = broken_limits(table, hard).values()
        return {
            key: float(run_seconds(row))
            for key, row in table.iterrows()
            if not row["impossible"] and not any(words[key] for words in broken)
        }

    def _able(self, candidate: Candidate, name: str, factor: Any) -> Any:
        """Return whether a stack keeps the limits with one input times `factor`.

        A budget is left out where stacks are ranked by cost.
        """
        seconds, limits, factor = self._open.get(candidate.key), self.limits, np.asarray(factor, dtype=float)
        if seconds is None:
            return np.zeros(factor.shape, dtype=bool)
        able, more = np.ones(factor.shape, dtype=bool), 1 + TOLERANCE
        if limits["deadline"] is not None:
            longer = factor if name == "volume" else 1.0
            later = factor if name == "deadline" else 1.0
            able &= seconds * longer <= limits["deadline"] * later * more
        if limits["power"] is not None:
            work = factor if name in ("use", "volume") else np.ones_like(factor)
            copies = (
                self._copies(candidate, work)
                if self.wanted.task != SERVE
                else (self._more(candidate, work) if name == "volume" else 1.0)
            )
            able &= self._rated(candidate) * copies <= limits["power"] * more
        if limits["budget"] is not None and self.by != "usd":
            able &= self.value(candidate, name, factor, "usd") <= limits["budget"] * more
        return able

    def winners(self, name: str, factors: Any) -> np.ndarray:
        """Return keys of the best stack with one input times each factor; "" where none is possible.

        Parameters
        ----------
        name : str
            price (of the stack that is best now), use (runs per month, or hours per day of a service), volume (samples,
            or requests per second), deadline or years.
        factors : array_like
            How many times as large it is.

        Raises
        ------
        ValueError
            The volume of a service that answers token by token: its machines follow from a queue.
        """
        if name == "volume" and self._speaks:
            raise ValueError(
                "name = 'volume' is not searched for a language model, whose machines follow from a "
                "queue: ask pick_stack again with another rate"
            )
        factors = np.atleast_1d(np.asarray(factors, dtype=float))
        values = np.full((len(self.found), len(factors)), np.inf)
        for at, candidate in enumerate(self.found):
            if (able := self._able(candidate, name, factors)).any():
                values[at] = np.where(able, self.value(candidate, name, factors), np.inf)
        values = np.where(np.isfinite(values), values, np.inf)
        keys = np.array([candidate.key for candidate in self.found], dtype=object)
        return np.where(np.isfinite(values.min(axis=0)), keys[np.argmin(values, axis=0)], "")

    def _ends(self, name: str) -> tuple[float, float]:
        """Return how far an input can go down and up."""
        up = MAX_FACTOR
        if name == "use" and self.wanted.task == SERVE:
            up = 24 / self.wanted.hours
        return 1 / MAX_FACTOR, min(up, YEARS.high / self.wanted.years) if name == "years" else up

    def changes(self) -> pd.DataFrame:
        """Return the changes of the ranking: the nearest values of each input, up and down, where another stack wins.

        Found by bisection, one input changed at a time; a budget is left aside where stacks are ranked by cost. The
        volume of a language model's service is not searched, since its machines follow from a queue: call it with
        another rate.

        Returns
        -------
        pandas.DataFrame
            input, now and at (in SI; price: times today's), factor, wins (its key; "" where none will do), name; no row
            where nothing changes within a hundred times either way.
        """
        now, rows = self._now(), list[tuple[Any, ...]]()
        names = {candidate.key: candidate.name for candidate in self.found}
        for name in now:
            low, high = self._ends(name)
            for end in (high, low):
                if abs(math.log(end)) < TOLERANCE or (turn := self._turn(name, end)) is None:
                    continue
                factor, wins = turn
                rows.append((name, now[name], now[name] * factor, factor, wins, names.get(wins, "none is feasible")))
        columns = ["input", "now", "at", "factor", "wins", "name"]
        table = pd.DataFrame(rows, columns=columns)
        return table.iloc[np.argsort(np.abs(np.log(table["factor"].to_numpy(dtype=float))), kind="stable")]

    def _now(self) -> dict[str, float]:
        """Return inputs that can change, and what they are now."""
        wanted = self.wanted
        if wanted.task == SERVE:
            volume = {} if self._speaks else {"volume": wanted.rate}
            return {"price": 1.0, "use": wanted.hours, **volume, "years": wanted.years}
        late = {"deadline": float(self.limits["deadline"])} if self.limits["deadline"] else {}
        return {"price": 1.0, "use": wanted.runs, "volume": wanted.samples, **late, "years": wanted.years}

    @property
    def _speaks(self) -> bool:
        return self.wanted.task == SERVE and answers_tokens(network_of(self.wanted.model))

    def _turn(self, name: str, end: float) -> tuple[float, str] | None:
        """Return the factor nearest to 1, on the way to an end, from which another stack is best."""
        count = max(int(abs(math.log10(end)) * STEPS), 2)
        tried = np.exp(np.linspace(0, math.log(end), count + 1))
        won = self.winners(name, tried)
        other = np.flatnonzero(won != self.best)
        if not len(other) or other[0] == 0:
            return None
        near, far, wins = tried[other[0] - 1], tried[other[0]], won[other[0]]
        while abs(math.log(far / near)) >= NEAR_ENOUGH:
            points = _halved(near, far)
            best_at, low, high = self.winners(name, points), 0, len(points) - 1
            while high - low > 1 and abs(math.log(points[high] / points[low])) >= NEAR_ENOUGH:
                middle = (low + high) // 2
                low, high = (low, middle) if best_at[middle] != self.best else (middle, high)
            near, far, wins = points[low], points[high], best_at[high]
        return float(far), str(wins)


def _halved(near: float, far: float) -> np.ndarray:
    """Return two factors and those between them after `HALVINGS` halvings of each interval.

    >>> _halved(1.0, 4.0)[[0, 8, 16]].tolist()
    [1.0, 2.0, 4.0]
    """
    points = np.array([near, far])
    for _ in range(HALVINGS):
        points = np.insert(points, range(1, len(points)), np.sqrt(points[:-1] * points[1:]))
    return points


def several(row: Any) -> str:
    """Return the number of machines of a stack, in words; "" where it is one."""
    return f", {row['machines']:,.0f} of them" if row["machines"] > 1 and row["place"] != "cluster" else ""


def times(ratio: float) -> str:
    """Return a ratio, as printed."""
    return f"×{float(f'{ratio:.3g}'):,.0f}" if ratio >= 10 else f"×{ratio:.2g}"


def told_value(value: float, by: str) -> str:
    """Return the value that stacks are ranked by, as printed."""
    return (
        units.dollars(value)
        if by == "usd"
        else units.human(value * HOUR, "s")
        if by == "hours"
        else (f"{value:,.0f} kWh" if value >= 100 else f"{value:.3g} kWh")
    )


def applications_known() -> list[str]:
    """Return applications of the table, in its order."""
    return list(dict.fromkeys(catalog.table("applications")["application"]))


APPLICATION, TASK = Field.choice(of=applications_known), Field.choice(*TASKS)


def application_row(application: str, task: str) -> dict[str, Any]:
    """Return a row of the table ``applications``."""
    table = catalog.table("applications")
    row: dict[str, Any] = table[(table["application"] == application) & (table["task"] == task)].iloc[0].to_dict()
    return row


NUMBER = Field.number(high=1e15, words=False)
WANTED = {
    "model": MODEL,
    "data": Field.named("data_sets"),
    **dict.fromkeys(("samples", "epochs", "runs", "rate"), NUMBER),
    "deadline": DURATION,
    "hours": Field.number(high=24, words=False),
    "latency": DURATION,
    "years": YEARS,
    "budget": Field.number(words=False),
    "power": Field.number(unit="W"),
    "private": PRIVATE,
    "stacks": Field.named("stacks", many=True),
    "region": REGION,
    "uplink": UPLINK,
    "away": Field.number(0, unit="s"),
    "prices": PRICES,
    "since": SINCE_YEAR,
}


@checked(application=APPLICATION, task=TASK, by=Field.choice(*RANKINGS), **WANTED)
def pick_stack(
    application: str = "chat",
    task: str = "serve",
    *,
    model: str | Workload | None = None,
    data: str | None = None,
    samples: float | None = None,
    epochs: float | None = None,
    runs: float | None = None,
    deadline: float | str | None = None,
    rate: float | None = None,
    hours: float | None = None,
    latency: float | str | None = None,
    years: float = 3,
    budget: float | None = None,
    power: float | str | None = None,
    private: str = "anywhere",
    stacks: Sequence[str] | None = None,
    region: str = "us",
    uplink: float | str = "1 Gb/s",
    away: float | str | None = None,
    prices: Mapping[str, float] | None = None,
    by: str = "usd",
    since: int | None = None,
) -> StackChoice:
    """Rank complete stacks for an application: accelerators, host, storage, network, software and place.

    Parameters
    ----------
    application : str
        image, video, speech, text, chat, sensor, recommender or image generation.
    task : {"train", "fine-tune", "serve"}
        What is to be done. What is left out below is as the table ``applications`` has it.
    model : str or Workload, optional
        Network of the zoo, or one of the reader's own.
    data : str, optional
        Card of the table ``data_sets``.
    samples, epochs, runs : float, optional
        Samples of an epoch, epochs of a run, and runs per month.
    deadline : float or str, optional
        Longest time of a run, upload of the data included [s].
    rate, hours : float, optional
        Requests per second, and hours per day in which the service is on.
    latency : float or str, optional
        Longest time to an answer, of a chat to its first token, the way to the user included [s].
    years : float
        Horizon.
    budget : float, optional
        Most that may be spent over the horizon [USD].
    power : float or str, optional
        Most that machines on one's own premises may be rated for [W].
    private : {"anywhere", "own machines", "in house"}
        Where the data may lie.
    stacks : sequence of str, optional
        Keys of the table ``stacks``; all by default.
    region : str
        Of electricity and carbon, a row of the table ``regions``.
    uplink : float or str
        Rate at which data leave the house [B/s].
    away : float or str, optional
        Round trip of a request to machines in another building [s].
    prices : mapping, optional
        Your own price by stack: USD of the purchase of one machine, USD per hour of one accelerator, or USD per million
        tokens; of "electricity": USD per kWh.
    by : {"usd", "hours", "kwh"}
        What to rank by: cost over the horizon, time of a run, or energy over the horizon.
    since : int, optional
        First year of prices to count; the newest twelve months of each if not given.

    Returns
    -------
    StackChoice
        `frame()`, `best`, `odds`, `changes()`.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, card, region or stack that the catalogue does not have.
    ValueError
        An invalid value; one that the task does not use; limits that contradict each other: which, by how much.

    Examples
    --------
    >>> found = pick_stack("image", "train", deadline="3 d")
    >>> table = found.frame()
    >>> bool(table["will_do"].iloc[0]), bool((table["usd_low"] <= table["usd"]).iloc[0])
    (True, True)
    """
    row = application_row(application, task)
    stated: dict[str, Any] = {"samples": samples, "epochs": epochs, "runs": runs, "deadline": deadline}
    stated |= {"rate": rate, "hours": hours, "latency": latency}
    wanted, assumed = _wanted(
        row,
        stated,
        model,
        data,
        prices or {},
        years=years,
        region=region_row(region)["key"],
        uplink=uplink,
        away=constant("stack-round-trip-elsewhere") if away is None else away,
        since=since,
    )
    late = "latency" if task == SERVE else "deadline"
    limits: dict[str, Any] = {
        "stacks": None if stacks is None else tuple(catalog.lookup("stacks", key) for key in stacks),
        "private": private,
        "power": power,
        "deadline": None,
        "latency": None,
        "budget": budget,
        late: float(row[late] if stated[late] is None else stated[late]),
    }
    _used(task, [name for name in stated if stated[name] is not None])
    Field.choice(*(RANKINGS if task != SERVE else ("usd", "kwh"))).read(by, "by")
    if stated[late] is None:
        assumed = (*assumed, f"{late} = {units.human(limits[late], 's')}")
    sized = candidates(replace(wanted, runs=1.0, years=1.0))  # how often and how long it runs changes its cost alone
    choice = StackChoice(wanted, sized, limits, by, assumed)
    if not choice.ranked["will_do"].any():
        raise Refused(contradiction(choice.ranked, limits))
    return choice


def _used(task: str, names: Iterable[str]) -> None:
    """Refuse arguments that a task does not use."""
    unused = [name for name in names if name in (RUNS_ALONE if task == SERVE else SERVICE_ALONE)]
    if unused:
        raise ValueError(f"{unused[0]} is not used when task = {task!r}: leave it out")


def _wanted(
    row: Mapping[str, Any],
    stated: Mapping[str, Any],
    model: str | Workload | None,
    data: str | None,
    prices: Mapping[str, Any],
    **same: Any,
) -> tuple[Wanted, tuple[str, ...]]:
    """Return the request, with values of the table where none are given, and what is assumed."""
    network = network_of(row["network"] if model is None else model)
    card = catalog.lookup("data_sets", row["data"] if data is None else data)
    _suits(row, network, card, not isinstance(model, Workload))
    assumed = [*([f"model = {row['network']}"] if model is None else []), f"data = {card}"]
    model = model if isinstance(model, Workload) else network.name
    # All samples of a data set that is the reader's choice count.
    whole = data is not None or not row["samples"] > 0
    usual = {"samples": float(card_of(card)["samples"]) if whole else row["samples"]}
    values = dict[str, Any]()
    for name in ("samples", "epochs", "runs", "rate", "hours"):
        value = usual.get(name, row[name]) if stated[name] is None else stated[name]
        values[name] = _or(value, 0.0)
        if stated[name] is None and value == value:
            assumed.append(f"{name} = {value:,.10g}")
    speaks = sites.language_model(model)
    length = row["seq"] if row["seq"] > 0 else network.seq or (USUAL_SEQ if speaks else None)
    own = {
        "electricity" if key == sites.ELECTRICITY else catalog.lookup("stacks", key): own_price(usd, "USD")
        for key, usd in prices.items()
    }
    late = row["latency"] if stated["latency"] is None else stated["latency"]
    wanted = Wanted(
        row["application"],
        row["task"],
        model,
        card,
        passes=float(row["passes"]),
        seq=float(length) if speaks and length else None,
        latency=_or(late, 0.0),
        tpot=_or(row["tpot"], 0.0),
        prompt=_or(row["prompt"], 1.0),
        answer=_or(row["answer"], 0.0),
        **same,
        prices=tuple((key, float(usd.median)) for key, usd in own.items()),
        **values,
    )
    return wanted, tuple(assumed)


def _suits(row: Mapping[str, Any], network: Workload, data: str, zoo: bool) -> None:
    """Refuse a network that does not take the samples of the application, or that answers in another way."""
    wrong = mismatch(network.name, data) if zoo else ""
    if wrong:
        others = row["networks"].replace(";", ", ")
        reason = (
            f"takes {network.data_kind}, and data = {data!r} is something else: take one of {others}, or other data"
        )
        raise refused("model", network.name, reason)
    speaks, prompted = answers_tokens(network), row["prompt"] > 0
    if row["task"] == SERVE and speaks != prompted:
        how = "answers token by token" if speaks else "is no language model"
        other = "take application = 'chat'" if speaks else f"take one such as {row['network']!r}"
        what = f"{how}, which is not what serving {row['application']!r} asks for: {other}"
        raise refused("model", network.title, what)


def _or(value: Any, other: float) -> float:
    return float(value) if value > 0 else other


@dataclass(frozen=True, eq=False, repr=False)
class OneSize(Result):
    """Every application beside every stack.

    Attributes
    ----------
    table : pandas.DataFrame
        case, application, task, stack, name, usd, machines, ratio (to the best of the case), will_do, why.
    wins : dict of str to str
        Case -> its best stack.
    size : str
        The one stack that does most cases, among those the one that costs least more than the best.
    does : int
        How many cases it does.
    penalty, worst : float
        Geometric mean and most of what it costs over the best, of those that it does.
    left : int
        How many cases no stack can do within the limits.
    """

    table: pd.DataFrame = field(repr=False)
    wins: Mapping[str, str]
    size: str
    does: int
    penalty: float
    worst: float
    left: int = 0

    def frame(self) -> pd.DataFrame:
        """Return the table."""
        return self.table.copy()

    def summary(self) -> str:
        """Return how many stacks lead in some case, by the medians, and the cost of choosing one size, in words."""
        different, cases = len(set(self.wins.values())), len(self.wins)
        lead = "stacks lead" if different > 1 else "stack leads"
        left = f"; left out: {self.left} that no stack can do within the limits" if self.left else ""
        return (
            f"{different} {lead} in {cases} cases, by the medians; {stack_rows()[self.size]['name']} alone does "
            f"{self.does} of them for {times(self.penalty)} of the best as a geometric mean, "
            f"{times(self.worst)} at most{left}"
        )


@checked(
    task=Field.choice(*TASKS, many=True),
    applications=Field.choice(of=applications_known, many=True),
    by=Field.choice(*RANKINGS),
    **WANTED,
)
def one_size(
    task: str | Sequence[str] = TASKS, applications: Sequence[str] | None = None, by: str = "usd", **limits: Any
) -> OneSize:
    """Return every application beside every stack, relative to the best, and the cost of one size for all.

    Parameters
    ----------
    task : str or sequence of str
        "train", "fine-tune", "serve", or several of them.
    applications : sequence of str, optional
        Those of the table ``applications``; all by default.
    by : str
        As for `pick_stack`.
    **limits
        Further arguments of `pick_stack`, the same for every application.

    Returns
    -------
    OneSize
        Cases that no stack can do within the limits are not among its `wins`.

    Raises
    ------
    ValueError
        As `pick_stack`; an argument that one of the tasks does not use; where no case is left, the reason of the last.

    Examples
    --------
    >>> found = one_size("train", ["image", "sensor"])
    >>> sorted(found.wins)
    ['image, train', 'sensor, train']
    """
    names, tasks = applications_known() if applications is None else applications, task
    for what in tasks:
        _used(what, (name for name, value in limits.items() if value is not None))
    frames, wins, problem = [], dict[str, str](), None
    for name, what in product(names, tasks):
        try:
            stacks = pick_stack(name, what, by=by, **limits)
        except ValueError as why:
            problem = why
            continue
        frame, case = stacks.ranked.reset_index(), f"{name}, {what}"
        wins[case], best = stacks.best, float(frame[by].iloc[0])
        ratio = (frame[by] / best).mask(frame[by] == best, 1.0).where(frame["will_do"])
        frames.append(
            frame.assign(case=case, application=name, task=what, ratio=ratio)[
                ["case", "application", "task", "stack", "name", by, "machines", "ratio", "will_do", "why"]
            ]
        )
    if not frames:
        raise problem or ValueError("no case is left: give at least one application and one task")
    table = pd.concat(frames, ignore_index=True)
    able = table[table["will_do"]].groupby("stack")["ratio"]
    means = pd.DataFrame(
        {"does": able.count(), "mean": np.exp(able.apply(lambda values: np.log(values).mean())), "most": able.max()}
    ).sort_values(["does", "mean"], ascending=[False, True])
    top = means.iloc[0]
    return OneSize(
        table,
        wins,
        str(means.index[0]),
        int(top["does"]),
        float(top["mean"]),
        float(top["most"]),
        len(names) * len(tasks) - len(wins),
    )
