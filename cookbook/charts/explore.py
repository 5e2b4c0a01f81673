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

# One pane is SIDE wide and SIDE high, in whole steps, since whole numbers travel fastest.
SIDE = 10_000
GAP = 1_100
MOST_PANES = 6
COLOURS = (*PALETTE, "#767676")
MARKS = (*SHAPES, "triangle-down")
KINDS = ("point", "grid", "tick", "label", "pane", "predicted", "ring")
COLUMNS = ("what", "x", "y", "x2", "y2", "group", "text", "model", "device", "count", "value", "source", "key")
WHOLE = ("what", "x", "y", "x2", "y2", "group", "model", "device", "count", "source", "key")
LISTS = ("models", "devices", "publishers")
HEIGHT = 372
_GRID = "#e0e0e0"
_KEY = "A click on a mark tells what it is, with its source and the runs most like it. Lines join best or median values."


def explored(frame: pd.DataFrame, title: str = "") -> Any:
    """Measurements, gridlines, labels and predictions at places that were computed before.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns of `COLUMNS`: `what` (place in `KINDS`), `x`, `y`, `x2`, `y2` (steps of `SIDE` a pane), `group` (place
        in `groups`), `text`, and of measurements `model`, `device`, `source` (places in the lists of names), `count`
        (devices), `value` and `key` (what a click tells);
        whole numbers but for `text` and `value`, -1 for none.
    title : str
        The takeaway.

    Returns
    -------
    altair.LayerChart
        Signals: `groups` (names in the order of colours), `across` and `down` (ends of the places), `left` (pixels
        for names of rows), `size` and `opacity` of marks, `lines` (whether they are joined), `unit`, and `models`,
        `devices`, `publishers` (names, so that they travel once and not with every point).

    Examples
    --------
    >>> import pandas as pd
    >>> point = dict.fromkeys(COLUMNS, 0) | {"x": 5000, "y": 5000, "text": None}
    >>> explored(pd.DataFrame([point]), "one run").title.text
    'one run'
    """
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, alt.ExprRef("across")], range=[alt.ExprRef("left"), alt.ExprRef("width")],
                                     nice=False, zero=False), axis=None)  # fmt: skip
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, alt.ExprRef("down")], range=[alt.ExprRef("height - 34"), 4],
                                     nice=False, zero=False), axis=None)  # fmt: skip
    layers = [_rules("grid", _GRID, 1, x, y), *_lines(x, y), _measured(x, y), *_predictions(x, y), _rings(x, y),
              *_texts(x, y)]  # fmt: skip
    chart = alt.layer(*layers, data=frame).add_params(
        *(alt.param(name=name, value=value) for name, value in _FIRST.items()), narrow_param(),
        *(alt.param(name=name, value=[]) for name in LISTS),
    )  # fmt: skip
    words = (
        "Measurements as marks, one colour and shape a group, over gridlines with their values; the table below the "
        "panel lists the first of them with their sources."
    )
    return chart.properties(
        title=alt.Title(title, subtitle=_KEY), description=words, width="container", height=HEIGHT
    ).resolve_scale(color="independent", shape="independent")


_FIRST: dict[str, Any] = {
    "groups": [""], "across": SIDE, "down": SIDE, "left": 60, "size": 26, "opacity": 0.6, "lines": False, "unit": "",
}  # fmt: skip


def _only(kind: str) -> Any:
    return alt.Chart().transform_filter(f"datum.what === {KINDS.index(kind)}")


def _rules(kind: str, colour: str, width: float, x: Any, y: Any) -> Any:
    return _only(kind).mark_rule(color=colour, strokeWidth=width).encode(x=x, y=y, x2="x2:Q", y2="y2:Q")


def _named(chart: Any) -> Any:
    return chart.transform_calculate(
        name="groups[datum.group]", publisher="publishers[datum.source]", model="models[datum.model]",
        on="devices[datum.device] + (datum.count > 0 ? ' x ' + datum.count : '')",
        measured="format(datum.value, ',.4~g') + unit",
    )  # fmt: skip


def _looks(legend: bool) -> dict[str, Any]:
    shown = alt.Legend(
        orient="top", title=None, columns=alt.ExprRef("narrow ? 2 : 3"), symbolOpacity=1, labelLimit=190
    ) if legend else None  # fmt: skip
    domain = {"domain": alt.ExprRef("groups")}
    return {
        "color": alt.Color("name:N", scale=alt.Scale(range=list(COLOURS), **domain), legend=shown),
        "shape": alt.Shape("name:N", scale=alt.Scale(range=list(MARKS), **domain), legend=shown),
    }  # fmt: skip


def _measured(x: Any, y: Any) -> Any:
    marks = _named(_only("point")).mark_point(
        filled=True, size=alt.ExprRef("size"), opacity=alt.ExprRef("opacity"), cursor="pointer"
    )
    tip = [alt.Tooltip(f"{name}:N", title=words) for name, words in
           (("model", "what"), ("on", "on"), ("measured", "measured"), ("publisher", "published by"))]  # fmt: skip
    return marks.encode(x=x, y=y, tooltip=tip, **_looks(True))


def _lines(x: Any, y: Any) -> list[Any]:
    joined = _named(_only("point").transform_filter("lines"))
    line = joined.mark_line(strokeWidth=2, opacity=0.6)
    return [line.encode(x=x, y=y, color=_looks(False)["color"], detail="group:N")]


def _predictions(x: Any, y: Any) -> list[Any]:
    """Interval as a rule, and the prediction itself as a hollow diamond (`text` is set where it is the diamond)."""
    rule = _only("predicted").transform_filter("!isValid(datum.text)")
    point = _only("predicted").transform_filter("isValid(datum.text)")
    return [
        rule.mark_rule(color=INK, strokeWidth=1, opacity=0.45).encode(x=x, y=y, x2="x2:Q", y2="y2:Q"),
        point.mark_point(shape="diamond", color=INK, size=34, strokeWidth=1.2, opacity=0.8).encode(x=x, y=y),
    ]


def _rings(x: Any, y: Any) -> Any:
    return _only("ring").mark_point(size=150, strokeWidth=2, color=INK, filled=False, shape="circle").encode(x=x, y=y)


def _texts(x: Any, y: Any) -> list[Any]:
    """Values under the picture, names or values at its left, titles of panes."""
    size = {"fontSize": 12, "color": INK}
    return [
        _only("tick").mark_text(dy=13, baseline="middle", **size).encode(x=x, y=y, text="text:N"),
        _only("label").mark_text(dx=-6, align="right", baseline="middle", limit=176, **size).encode(
            x=x, y=y, text="text:N"
        ),
        _only("pane").mark_text(
            align="left", baseline="bottom", dy=-3, fontSize=12, fontWeight="bold", limit=230, color=MUTED
        ).encode(x=x, y=y, text="text:N"),
    ]  # fmt: skip


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
