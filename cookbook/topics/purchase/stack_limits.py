"""Limits of a purchase: what is against each stack, and which limits contradict each other, by how much."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog.prices import HOUR
from cookbook.catalog.refusals import Refusal
from cookbook.topics.purchase.places import PRIVACY
from cookbook.topics.purchase.stack_sizes import told_time

TOLERANCE = 1e-9
# Limits of an amount: its unit, the verb of the remedy, and the reason against a stack that exceeds it.
AMOUNTS = {
    "power": ("W", "allow", "its machines are rated for {} on your own premises"),
    "deadline": ("s", "allow", "too late: a run takes {}"),
    "latency": ("s", "allow", "too slow: an answer takes {}"),
    "budget": ("USD", "give", "over the budget: it costs {}"),
}


def run_seconds(frame: Any) -> Any:
    """Time of a run with the upload of its data [s]."""
    return (frame["hours"] + frame["upload_hours"]) * HOUR


def _amounts(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return the amount of each stack that a limit bounds."""
    columns = {"power": "watts", "latency": "latency", "budget": "usd"}
    return run_seconds(frame) if name == "deadline" else frame[columns[name]]


def broken_limits(frame: pd.DataFrame, limits: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return what is against each stack by each limit that is set; "" where the stack keeps the limit."""
    broken: dict[str, dict[str, str]] = {}
    if limits["stacks"] is not None:
        broken["stacks"] = {
            key: "" if key in limits["stacks"] else "it is not among the stacks asked for" for key in frame.index
        }
    if limits["private"] != "anywhere":
        broken["private"] = {
            key: ""
            if at in PRIVACY[limits["private"]]
            else f"data would leave: they lie with {'the provider' if at == 'provider' else 'others'}"
            for key, at in frame["data_at"].items()
        }
    for name in (name for name in AMOUNTS if limits[name] is not None):
        unit, _, words = AMOUNTS[name]
        write = told_time if name == "latency" else partial(units.human, unit=unit)
        broken[name] = {
            key: words.format(write(value)) if value > limits[name] * (1 + TOLERANCE) else ""
            for key, value in _amounts(frame, name).items()
        }
    return broken


def _told(limits: Mapping[str, Any], name: str) -> str:
    """Return a limit as its caller wrote it, in words."""
    value = limits[name]
    if name in AMOUNTS:
        return f"{name} = {units.human(value, AMOUNTS[name][0])}"
    return f"{name} = {value if isinstance(value, str) else ', '.join(value)!r}".replace("'", "")


def contradiction(ranked: pd.DataFrame, limits: Mapping[str, Any]) -> Refusal:
    """Return the fewest limits that no stack keeps together, and by how much; an empty refusal where one keeps all.

    Parameters
    ----------
    ranked : pandas.DataFrame
        Stacks by key, with `impossible` where a stack cannot do the task whatever the limits are.
    limits : mapping
        As `StackChoice` has them.
    """
    able = ranked[~ranked["impossible"]]
    broken = broken_limits(able, limits)
    if able.empty:
        reasons = "; ".join(f"{row['name']}: {row['why']}" for _, row in ranked.head(3).iterrows())
        return Refusal(
            f"no stack can do this at all ({reasons}); take a smaller network, or other stacks", field="model"
        )
    if limits["stacks"] is not None and all(broken["stacks"].values()):
        reasons = "; ".join(f"{ranked.loc[key, 'name']}: {ranked.loc[key, 'why']}" for key in limits["stacks"])
        return Refusal(f"none of the requested stacks can do this ({reasons}); take others", field="stacks")
    for size in range(1, len(broken) + 1):
        for names in combinations(broken, size):
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
    for name in sorted(names, key=lambda limit: limit not in AMOUNTS):
        remaining = [key for key in able.index if not any(broken[limit][key] for limit in names if limit != name)]
        if name not in AMOUNTS or not remaining:
            continue
        amounts = _amounts(able.loc[remaining], name)
        if not np.isfinite(amounts).any():
            continue
        key, unit = amounts.idxmin(), AMOUNTS[name][0]
        more, ratio = amounts[key] - limits[name], amounts[key] / limits[name]
        rest = [text for text in words if not text.startswith(f"{name} = ")]
        among = f"of the stacks that keep {' and '.join(rest)}, " if rest else ""
        nearest.append(
            f"{among}{able.loc[key, 'name']} comes nearest at {units.human(amounts[key], unit)}, "
            f"which is {units.human(more, unit)} more ({units.human(ratio)} times as much): "
            f"{AMOUNTS[name][1]} {name} = {_up(amounts[key], unit)}"
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
