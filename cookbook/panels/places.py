"""Panel of recipe 09: where should it run, and what does that cost?"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from cookbook import catalog
from cookbook.charts import places as charts
from cookbook.panels import code
from cookbook.panels import place_frames as frames
from cookbook.panels import place_words as words
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider, duration, one_two_five, powers_of_two
from cookbook.panels.options import data_sets, networks, printed
from cookbook.panels.shell import Panel, Picture, View, defaults
from cookbook.planning.crossing import BreakEven, break_even, cumulative
from cookbook.planning.where import WhereToRun
from cookbook.planning.where import where_to_run as compare

if TYPE_CHECKING:
    import pandas as pd

DAY = 86400.0
PICTURES = {"costs": charts.place_costs, "paid": charts.paid, "tornado": charts.tornado}
DEADLINES = (3600.0, 7200.0, 14400.0, 28800.0, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 60 * DAY, 90 * DAY)


def where_to_run(
    model: str = "resnet152",
    data: str = "imagenet-21k",
    runs: Any = 4,
    deadline: Any = 7 * DAY,
    private: str = "anywhere",
    region: str = "us",
    epochs: Any = 30,
    years: Any = 3,
    batch: Any = 32,
    uplink: Any = 1,
    picture: str = "costs",
) -> Panel:
    """The panel "Where should it run?", in the state that the arguments say.

    Parameters
    ----------
    model, data, runs, private, region, epochs, years, batch
        As for `cb.planning.where_to_run`.
    deadline : float or str
        Longest time of one run, such as "7 d" [s].
    uplink : float
        Rate at which data leave the house [Gb/s].
    picture : {"costs", "paid", "tornado"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = where_to_run("resnet50", "imagenet-1k")
    >>> panel.update(private="in house")
    >>> "Cloud" in panel.answer
    False
    """
    return Panel("where_to_run", "Where should it run?", _controls(), PICTURES, _draw, DEFAULTS, locals(),
                 {"picture": _pictures})  # fmt: skip


DEFAULTS = defaults(where_to_run)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    return (
        Combo("model", "Model", "Workload", networks(), tooltip="The network to train"),
        Combo("data", "Data set", "Workload", data_sets(), tooltip="Samples of an epoch, and bytes to upload"),
        Slider("runs", "Runs a month", "Workload", one_two_five(0.1, 200, also=[4]), whole=False,
               tooltip="How often the whole training is run"),
        Slider("deadline", "Deadline of a run", "Rules", DEADLINES, seconds=True, whole=False,
               tooltip="Longest time of one run, upload of the data included"),
        Choice("private", "Data may lie", "Rules", (
            ("anywhere", "anywhere", "With a provider too"),
            ("own machines", "own machines", "Also on own machines in another's building"),
            ("in house", "in house", "Nowhere else")), tooltip="Where the data may lie: a hard filter"),
        Combo("region", "Region", "Money", _regions(), tooltip="Electricity price and carbon intensity"),
        Slider("epochs", "Epochs", "Workload", one_two_five(1, 1000, also=[3, 30, 90]), more=True,
               tooltip="Passes over the data in one run"),
        Slider("years", "Horizon", "Money", (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0), unit="years", whole=False,
               more=True, tooltip="Time over which costs are counted"),
        Slider("batch", "Batch", "Workload", powers_of_two(0, 12), more=True,
               tooltip="Samples on each accelerator in one step"),
        Slider("uplink", "Uplink", "Rules", one_two_five(0.01, 100), unit="Gb/s", whole=False, more=True,
               tooltip="Rate at which data leave the house"),
        Choice("picture", "Picture", "", (
            ("costs", "Cost by place", "Every place with its band"),
            ("paid", "Paid by month", "Owning beside renting, until they meet"),
            ("tornado", "What matters", "Each figure of the cheapest place from its low to its high end")),
            place="picture"),
    )  # fmt: skip


def _regions() -> tuple[Option, ...]:
    rows = catalog.table("regions")
    return tuple((r["key"], r["name"], r["aliases"], "") for r in rows.to_dict("records"))


def _pictures(values: dict[str, Any]) -> dict[str, str]:
    found = _found(**{name: value for name, value in values.items() if name != "picture"})
    off = {} if _even(found)[0] else {"paid": "there is nothing to compare: one sort of place will not do"}
    return off if found.best else {**off, "tornado": "no place will do"}


@lru_cache(maxsize=64)
def _found(uplink: float, **values: Any) -> WhereToRun:
    return compare(uplink=uplink * 1e9 / 8, **values)


@lru_cache(maxsize=8)
def _even(found: WhereToRun) -> tuple[BreakEven | None, str]:
    try:
        return break_even(found), ""
    except ValueError as problem:
        return None, str(problem)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    picture = values["picture"]
    found = _found(**{name: value for name, value in values.items() if name != "picture"})
    even, reason = _even(found)
    shown, table, data = _shown(picture, found, even, reason)
    best = found.best
    name = found.places[best].name if best else ""
    whole = f"{name}: cost over {found.task.years:g} years by part, all figures at their medians"
    return View(
        answer=words.answer(found, even, reason, printed("models", "name", "title", values["model"])),
        headline={"cost": float(found.frame.loc[best, "usd"])} if best else {},
        chips=words.chips(found),
        picture=shown,
        parts=frames.parts(found, best),
        parts_title=whole if best else "No place will do, so that there is nothing to add up",
        table=table,
        data=data,
        sources=partial(frames.source_rows, found),
        code=_code(values),
    )


def _shown(
    picture: str, found: WhereToRun, even: BreakEven | None, reason: str
) -> tuple[Picture, Callable[[], pd.DataFrame], Callable[[], pd.DataFrame]]:
    """The chart chosen, its table and its data."""
    if picture == "costs":
        return frames.costs_picture(found), partial(frames.place_table, found), partial(found.frame.reset_index)
    if picture == "tornado":
        return frames.tornado_picture(found), partial(frames.tornado_table, found), found.tornado
    if even is None:
        raise ValueError(reason)
    table = partial(frames.paid_table, found, even)
    return frames.paid_picture(found, even), table, partial(cumulative, found, [even.own, even.rent])


def _plain(value: Any) -> Any:
    """A whole number without its point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _code(values: dict[str, Any]) -> str:
    """The panel's state, then the call behind it."""
    plain = {name: _plain(value) for name, value in values.items()} | {"deadline": duration(values["deadline"])}
    changed = {name: value for name, value in plain.items() if values[name] != DEFAULTS[name]}
    call = {name: value for name, value in plain.items() if name not in ("model", "data", "picture")}
    call |= {"uplink": f"{values['uplink']:g} Gb/s"}
    given = f"{code.literal(values['model'])}, {code.literal(values['data'])}, {code.arguments(call)}"
    lines = [f"cb.panels.where_to_run({code.arguments(changed)})", f"found = cb.planning.where_to_run({given})"]
    last = {"costs": "found.frame", "paid": "cb.planning.break_even(found)", "tornado": "found.tornado()"}
    return "\n".join([*lines, last[values["picture"]]])
