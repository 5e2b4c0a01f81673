"""Limits of a purchase: what is against each stack, and which limits contradict each other, by how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog.prices import HOUR
from cookbook.catalog.refusals import Refusal
from cookbook.topics.purchase.places import PRIVACY
from cookbook.topics.purchase.stack_sizes import SERVE, Wanted, told_time

TOLERANCE = 1e-9
Check = Callable[[Any], dict[str, str]]


def run_seconds(frame: Any) -> Any:
    """Time of a run with the upload of its data [s]."""
    return (frame["hours"] + frame["upload_hours"]) * HOUR


def checks(wanted: Wanted, limits: Mapping[str, Any]) -> dict[str, Check]:
    """Return a check of each limit that is set, which gives what is against each stack; "" where it keeps the limit."""

    def over(name: str, column: Callable[[Any], Any], words: Callable[[float], str]) -> Check:
        return lambda frame: {
            key: "" if not value > limits[name] * (1 + TOLERANCE) else words(value)
            for key, value in column(frame).items()
        }

    by_name: dict[str, Check] = {}
    if limits["stacks"] is not None:
        by_name["stacks"] = lambda frame: {
            key: "" if key in limits["stacks"] else "it is not among the stacks asked for" for key in frame.index
        }
    if limits["private"] != "anywhere":
        by_name["private"] = lambda frame: {
            key: ""
            if at in PRIVACY[limits["private"]]
            else f"data would leave: they lie with {'the provider' if at == 'provider' else 'others'}"
            for key, at in frame["data_at"].items()
        }
    if limits["power"] is not None:
        by_name["power"] = over(
            "power",
            lambda frame: frame["watts"],
            lambda value: f"its machines are rated for {units.human(value, 'W')} on your own premises",
        )
    if limits["deadline"] is not None and wanted.task != SERVE:
        by_name["deadline"] = over(
            "deadline", run_seconds, lambda value: f"too late: a run takes {units.human(value, 's')}"
        )
    if limits["latency"] is not None and wanted.task == SERVE:
        by_name["latency"] = over(
            "latency", lambda frame: frame["latency"], lambda value: f"too slow: an answer takes {told_time(value)}"
        )
    if limits["budget"] is not None:
        by_name["budget"] = over(
            "budget", lambda frame: frame["usd"], lambda value: f"over the budget: it costs {units.dollars(value)}"
        )
    return by_name


# The figure behind a limit, its unit, and what may be done.
FIGURES = {"deadline": ("s", "allow"), "latency": ("s", "allow"), "budget": ("USD", "give"), "power": ("W", "allow")}


def _told(limits: Mapping[str, Any], name: str) -> str:
    """Return a limit as its caller wrote it, in words."""
    value = limits[name]
    if name in FIGURES:
        return f"{name} = {units.human(value, FIGURES[name][0])}"
    return f"{name} = {value if isinstance(value, str) else ', '.join(value)!r}".replace("'", "")


def contradiction(ranked: pd.DataFrame, wanted: Wanted, limits: Mapping[str, Any]) -> Refusal:
    """Return the fewest limits that no stack keeps together, and by how much; an empty refusal where one keeps all.

    Parameters
    ----------
    ranked : pandas.DataFrame
        Stacks by key, with `impossible` where a stack cannot do the task whatever the limits are.
    wanted : Wanted
    limits : mapping
        As `StackChoice` has them.
    """
    able = ranked[~ranked["impossible"]]
    by_name = checks(wanted, limits)
    broken = {name: check(able) for name, check in by_name.items()}
    if able.empty:
        reasons = "; ".join(f"{row['name']}: {row['why']}" for _, row in ranked.head(3).iterrows())
        return Refusal(
            f"no stack can do this at all ({reasons}); take a smaller network, or other stacks", field="model"
        )
    if limits["stacks"] is not None and all(broken["stacks"].values()):
        reasons = "; ".join(f"{ranked.loc[key, 'name']}: {ranked.loc[key, 'why']}" for key in limits["stacks"])
        return Refusal(f"none of the requested stacks can do this ({reasons}); take others", field="stacks")
    for size in range(1, len(by_name) + 1):
        for names in combinations(by_name, size):
            if all(any(broken[name][key] for name in names) for key in able.index):
                return Refusal(_said(limits, able, broken, names), field=names[0])
    return Refusal()


def _said(
    limits: Mapping[str, Any], able: pd.DataFrame, broken: Mapping[str, dict[str, str]], names: Sequence[str]
) -> str:
    """Return a contradiction in words: the limits, and the nearest stacks among those that keep the others."""
    words = [_told(limits, name) for name in names]
    named = " and ".join(words)
    head = f"no stack meets {named}" if len(names) == 1 else f"{named} contradict each other"
    nearest = []
    for name in sorted(names, key=lambda limit: limit not in FIGURES):
        remaining = [key for key in able.index if not any(broken[limit][key] for limit in names if limit != name)]
        if name not in FIGURES or not remaining:
            continue
        amounts = _amounts(able.loc[remaining], name)
        if not np.isfinite(amounts).any():
            continue
        key, unit = amounts.idxmin(), FIGURES[name][0]
        more, ratio = amounts[key] - limits[name], amounts[key] / limits[name]
        rest = [text for text in words if not text.startswith(f"{name} = ")]
        among = f"of the stacks that keep {' and '.join(rest)}, " if rest else ""
        nearest.append(
            f"{among}{able.loc[key, 'name']} comes nearest at {units.human(amounts[key], unit)}, "
            f"which is {units.human(more, unit)} more ({units.human(ratio)} times as much): "
            f"{FIGURES[name][1]} {name} = {_up(amounts[key], unit)}"
        )
    if not nearest:
        remaining = [able.loc[key, "name"] for key in able.index if not broken[names[-1]][key]]
        loose = f"; {words[-1]} leaves {', '.join(remaining[:4])}" if remaining else ""
        nearest = [f"no stack is in both{loose}. Loosen one of them" if len(names) > 1 else "loosen it"]
    return f"{head}: {'; or '.join(nearest)}"


def _up(value: float, unit: str) -> str:
    """Return a figure as printed with three digits, rounded up, so that a limit of this size is kept."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    amount = math.ceil(value / step - 1e-6) * step
    while unit != "USD" and units.si(units.human(amount, unit), unit) < value:
        amount += step
    return units.human(amount, unit)


def _amounts(able: pd.DataFrame, name: str) -> pd.Series:
    columns = {"budget": able["usd"], "latency": able["latency"], "power": able["watts"], "deadline": run_seconds(able)}
    return columns[name]
