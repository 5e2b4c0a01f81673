"""The fastest layout for each of several numbers of devices, with some axes held, and why there may be none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cookbook import units
from cookbook.planning import divisible
from cookbook.planning.altered import System
from cookbook.planning.layouts import AXES, RECOMPUTE, Layouts, search, shards_of

if TYPE_CHECKING:
    import pandas as pd

HELD = (*(name for name in AXES if name != "devices"), "dp")
SIZES = ("tp", "pp", "vp", "cp", "ep", "dp", "micro_batch")
# Tokens, prices and failures change nothing of a layout: the last searches are kept.
_searched = lru_cache(maxsize=16)(search)


def fastest(
    model: str, system: System, counts: list[int], batch: int, layout: Mapping[str, Any], same: dict[str, Any]
) -> tuple[Layouts | None, pd.DataFrame, list[str]]:
    """All layouts, the fastest for each number of devices with its row of the prediction, and why some have none.

    Parameters
    ----------
    model, system, batch
        As for `cookbook.planning.search`.
    counts : list of int
        Numbers of devices, one row each.
    layout : mapping
        Axes to hold fixed.
    same : dict
        Further arguments of `search`; seq and per_node among them.

    Raises
    ------
    ValueError
        None of the numbers of devices has a layout that divides and fits: the reason of the last.
    """
    held = _held(layout)
    tried: dict[str, Any] = {"recompute": (held["recompute"],)} if "recompute" in held else {}
    tried |= {"micro_batches": (int(held["micro_batch"]),)} if "micro_batch" in held else {}
    why = [_undivided(model, system, count, batch, held, same) for count in counts]
    able = [count for count, reason in zip(counts, why, strict=True) if not reason]
    if not able:
        raise ValueError(why[-1])
    found = _searched(model, system, tuple(able), batch, **same, **tried)
    table = found.table.assign(row=found.rows)
    for name, value in held.items():
        table = table[table[name] == value]
    best = table.drop_duplicates("devices").set_index("devices").reindex(counts).reset_index()
    best["row"] = best["row"].fillna(-1).astype(int)
    for at, count in enumerate(counts):
        if not why[at] and best["row"].iloc[at] < 0:
            why[at] = _too_large(model, system, count, batch, held, {**same, **tried})
    if (best["row"] < 0).all():
        raise ValueError(why[-1])
    return found, best.drop(columns=["low80", "high80"]).assign(step_low=best["low80"], step_high=best["high80"]), why


def _held(layout: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in layout if name not in HELD]
    if unknown:
        raise ValueError(f"layout has no axis {unknown[0]!r}; it has {', '.join(HELD)}")
    if layout.get("recompute", "none") not in RECOMPUTE:
        raise ValueError(f"recompute = {layout['recompute']!r} is not a choice; take one of {', '.join(RECOMPUTE)}")
    return dict(layout)


def _undivided(
    model: str, system: System, count: int, batch: int, held: Mapping[str, Any], same: Mapping[str, Any]
) -> str:
    """Why a number of devices has no layout that divides; "" where it has."""
    sizes = {name: held[name] for name in SIZES if name in held}
    if same["seq"] < divisible.LONG and {"tp", "pp"} <= set(sizes):  # shorter sequences are not split
        sizes = {"cp": 1, **sizes}
    shape, shards = shards_of(model, system, count, same["seq"], same["per_node"])
    try:
        divisible.check_layout(sizes, shape, count, batch, same["seq"])
    except ValueError as problem:
        return str(problem)
    return divisible.undivided(count, batch, shards, shape)


def _too_large(
    model: str, system: System, count: int, batch: int, held: Mapping[str, Any], same: Mapping[str, Any]
) -> str:
    """Why no layout of a number of devices is left: memory, or axes that none of those tried has."""
    alone = _searched(model, system, (count,), batch, **same)
    if alone.nearest:
        need, have = (units.human(alone.nearest[name], "iB") for name in ("memory_bytes", "capacity_bytes"))
        return f"devices = {count:,}: no layout fits the memory; the smallest of those tried needs {need} of {have}"
    fixed = ", ".join(f"{name} = {value}" for name, value in held.items())
    best = alone.table.iloc[0]
    other = ", ".join(f"{name} = {best[name]}" for name in held)
    return (
        f"devices = {count:,}: of the layouts that fit none has {fixed}; the fastest has {other}. Give fewer axes, "
        "or more devices"
    )
