"""Thousands of measurements in one picture or in small multiples: places are computed before, so one spec draws all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cookbook.charts.engine import alt
from cookbook.charts.look import INK, MUTED, PALETTE, SHAPES
from cookbook.charts.rows import narrow_param

if TYPE_CHECKING:
    import pandas as pd

# One pane is SIDE wide and SIDE high, in whole steps.
SIDE = 10_000
GAP = 1_100
MOST_PANES = 6
COLOURS = (*PALETTE[:4], "#9467BD", "#767676")
MARKS = (*SHAPES, "triangle-down")
COLUMNS = ("x", "y", "group", "model", "device", "count", "value", "source", "key")
# What is drawn beside the measurements, each a signal with one list a column: short lists travel with the signals, so
# that the thousands of measurements are read once.
BESIDE = {
    "grid": ("x", "y", "x2", "y2"), "lines": ("x", "y", "x2", "y2", "group"), "intervals": ("x", "y", "x2", "y2"),
    "predictions": ("x", "y"), "rings": ("x", "y"), "ticks": ("x", "y", "text"), "labels": ("x", "y", "text"),
    "titles": ("x", "y", "text"),
}  # fmt: skip
LISTS = ("models", "devices", "publishers")
HEIGHT = 372
_GRID = "#e0e0e0"
_KEY = "A click on a mark tells what it is, with its source."
_FIRST: dict[str, Any] = {
    "groups": [""], "across": SIDE, "down": SIDE, "left": 60, "size": 26, "opacity": 0.6, "unit": "",
}  # fmt: skip
_TIP = (
    "{'what': models[datum.model], 'on': devices[datum.device] + (datum.count > 0 ? ' x ' + datum.count : ''), "
    "'measured': format(datum.value, ',.4~g') + unit, 'published by': publishers[datum.source]}"
)


def explored(frame: pd.DataFrame, title: str = "") -> Any:
    """Measurements, and whatever stands beside them, at places that were computed before.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns of `COLUMNS`, numbers alone: `x`, `y` (steps of `SIDE` a pane), `group` (place in `groups`), `model`,
        `device`, `source` (places in the lists of names), `count` (devices, -1 where unknown), `value`, and `key` (what
        a click tells).
    title : str
        The takeaway.

    Returns
    -------
    altair.LayerChart
        Signals: those of `BESIDE`, each {column: list}; `groups` (names in the order of colours), `across` and `down`
        (ends of the places), `left` (pixels for names of rows), `size` and `opacity` of marks, `unit`, and `models`,
        `devices`, `publishers` (names, so that they travel once and not with every mark).

    Examples
    --------
    >>> import pandas as pd
    >>> explored(pd.DataFrame([dict.fromkeys(COLUMNS, 0)]), "one run").title.text
    'one run'
    """
    x = alt.X("x:Q", axis=None, scale=alt.Scale(
        domain=[0, alt.ExprRef("across")], range=[alt.ExprRef("left"), alt.ExprRef("width")], nice=False, zero=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(
        domain=[0, alt.ExprRef("down")], range=[alt.ExprRef("height - 34"), 4], nice=False, zero=False))
    grid = _of("grid").mark_rule(color=_GRID, strokeWidth=1).encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    line = _of("lines").mark_rule(strokeWidth=2, opacity=0.6)
    lines = line.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=_looks()["color"])
    layers = [grid, lines, _measured(x, y), *_predictions(x, y), *_texts(x, y)]
    chart = alt.layer(*layers, data=frame).add_params(
        *(alt.param(name=name, value=value) for name, value in _FIRST.items()), narrow_param(),
        *(alt.param(name=name, value=[]) for name in LISTS),
        *(alt.param(name=name, value=nothing(name)) for name in BESIDE),
    )  # fmt: skip
    words = (
        "Measurements as marks, one colour and shape a group, over gridlines with their values; the table below the "
        "panel lists the first of them with their sources."
    )
    return chart.properties(
        title=alt.Title(title, subtitle=_KEY), description=words, width="container", height=HEIGHT
    )


def nothing(signal: str) -> dict[str, list[Any]]:
    """Value of a signal of `BESIDE` where there is nothing to draw."""
    return {name: [] for name in BESIDE[signal]}


def _of(signal: str) -> Any:
    """A chart over the lists of a signal."""
    cells = {name: f"{signal}.{name}[datum.i]" for name in BESIDE[signal]}
    one = alt.Chart(alt.sequence(0, 1, as_="one")).transform_calculate(i=f"sequence(length({signal}.x))")
    return one.transform_flatten(["i"]).transform_calculate(**cells)


def _looks() -> dict[str, Any]:
    legend = alt.Legend(
        orient="top", title=None, columns=alt.ExprRef("narrow ? 2 : 3"), symbolOpacity=1, labelLimit=190,
        labelExpr="groups[datum.value]",
    )  # fmt: skip
    domain = {"domain": alt.ExprRef("sequence(length(groups))")}
    return {
        "color": alt.Color("group:N", scale=alt.Scale(range=list(COLOURS), **domain), legend=legend),
        "shape": alt.Shape("group:N", scale=alt.Scale(range=list(MARKS), **domain), legend=legend),
    }  # fmt: skip


def _measured(x: Any, y: Any) -> Any:
    marks = alt.Chart().mark_point(
        filled=True, size=alt.ExprRef("size"), opacity=alt.ExprRef("opacity"), cursor="pointer",
        tooltip=alt.ExprRef(_TIP),
    )  # fmt: skip
    return marks.encode(x=x, y=y, **_looks())


def _predictions(x: Any, y: Any) -> list[Any]:
    """Intervals, predictions as hollow diamonds, rings around measurements."""
    interval = _of("intervals").mark_rule(color=INK, strokeWidth=1, opacity=0.45)
    point = _of("predictions").mark_point(shape="diamond", color=INK, size=34, strokeWidth=1.2, opacity=0.8)
    ring = _of("rings").mark_point(size=150, strokeWidth=2, color=INK, filled=False, shape="circle")
    return [interval.encode(x=x, y=y, x2="x2:Q", y2="y2:Q"), point.encode(x=x, y=y), ring.encode(x=x, y=y)]


def _texts(x: Any, y: Any) -> list[Any]:
    """Values under the picture, names or values at its left, titles of panes."""
    size = {"fontSize": 12, "color": INK}
    marks = [
        _of("ticks").mark_text(dy=13, baseline="middle", **size),
        _of("labels").mark_text(dx=-6, align="right", baseline="middle", limit=176, **size),
        _of("titles").mark_text(
            align="left", baseline="bottom", dy=-3, fontSize=12, fontWeight="bold", limit=230, color=MUTED
        ),
    ]
    return [mark.encode(x=x, y=y, text="text:N") for mark in marks]


def panes(count: int) -> tuple[int, int]:
    """Columns and rows of small multiples.

    Examples
    --------
    >>> panes(1), panes(3), panes(4), panes(6)
    ((1, 1), (3, 1), (2, 2), (3, 2))
    """
    across = {1: 1, 2: 2, 3: 3, 4: 2}.get(count, 3)
    return across, math.ceil(count / across)


def ticks(low: float, high: float, log: bool, most: int = 7) -> list[float]:
    """Round values from `low` to `high`: powers of ten, with 2 and 5 where there are few, or equal steps.

    Examples
    --------
    >>> ticks(10, 1000, True), ticks(0, 1, False), ticks(2014, 2026, False)
    ([10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [2014.0, 2016.0, 2018.0, 2020.0, 2022.0, 2024.0, 2026.0])
    """  # noqa: E501
    if not log:
        step = next(s for s in _steps(high - low) if (high - low) / s <= most)
        return [round(step * n, 12) for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    powers = range(math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9) + 1)
    for parts in ((1, 2, 5), (1,)):
        found = [p * 10.0**power for power in powers for p in parts if low * 0.999 <= p * 10.0**power <= high * 1.001]
        if len(found) <= most:
            return found
    return found[:: math.ceil(len(found) / most)]


def _steps(span: float) -> Sequence[float]:
    power = 10.0 ** math.floor(math.log10(max(span, 1e-300)) - 1)
    return [part * power * ten for ten in (1, 10, 100) for part in (1, 2, 5)]
