"""One look for every chart: palette, order and colour of parts, fonts; what charts share; and Altair itself.

Altair is imported in half the time. Where JupyterLab is installed, jsonschema (which Altair imports) loads a grammar of
international web addresses that no chart needs. Hidden for the moment of the import, it is skipped, as on a machine
where it is not installed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_SLOW = "rfc3987_syntax"
_hidden = _SLOW not in sys.modules
if _hidden:
    sys.modules[_SLOW] = None  # type: ignore[assignment]
try:
    import altair as alt
finally:
    if _hidden:
        del sys.modules[_SLOW]

palette = PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")

# The front end swaps these three for JupyterLab's own colours, so that one spec fits the light and the dark theme.
INK = "#000000"
MUTED = "#616161"
PAPER = "#ffffff"

# Fixed order and colour for the whole cookbook: a part looks the same in every recipe.
TIME_PARTS = {
    "compute": "#0072B2",
    "memory traffic": "#D55E00",
    "launch": "#767676",
    "tensor-parallel communication": "#009E73",
    "pipeline-parallel communication": "#2F8F9D",
    "data-parallel communication": "#6B8E23",
    "input": "#CC79A7",
    "optimiser": "#9467BD",
    "bubble": "#A67C00",
    "waiting": "#8C564B",
}
MEMORY_PARTS = {
    "weights": "#0072B2",
    "fp32 copy": "#2F8F9D",
    "gradients": "#009E73",
    "optimiser states": "#9467BD",
    "activations": "#D55E00",
    "workspace": "#767676",
}

MONEY_PARTS = {
    "hardware": "#0072B2",
    "network": "#2F8F9D",
    "storage": "#009E73",
    "maintenance": "#6B8E23",
    "electricity": "#D55E00",
    "cooling": "#A67C00",
    "staff": "#9467BD",
    "space": "#767676",
    "rent": "#CC79A7",
    "data": "#8C564B",
}

# A verdict is a colour, a shape and a word, never a colour alone.
VERDICTS = {
    "possible": ("#009E73", "circle"),
    "possible under a condition": ("#0072B2", "diamond"),
    "cannot at its peak": ("#D55E00", "cross"),
    "does not fit": ("#CC79A7", "square"),
    "cannot tell": ("#616161", "triangle-up"),
}

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

_WORDS: dict[str, Any] = {
    "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK, "titleColor": MUTED,
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "background": PAPER,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        **_WORDS, "grid": True, "gridColor": "#e0e0e0", "gridWidth": 1, "domain": False, "tickColor": "#e0e0e0",
        "labelPadding": 6, "titlePadding": 8,
    },
    "legend": {**_WORDS, "labelLimit": 260, "symbolSize": 80},
    "title": {
        "fontSize": 14, "fontWeight": 600, "anchor": "start", "frame": "bounds", "color": INK, "subtitleColor": MUTED,
        "subtitleFontSize": 12, "offset": 12, "lineHeight": 18,
    },
    "text": {"fontSize": 12, "color": INK},
    "mark": {"color": PALETTE[0]},
    "line": {"strokeWidth": 2},
    "rule": {"strokeWidth": 2},
    "range": {"category": list(PALETTE), "symbol": list(SHAPES), "heatmap": {"scheme": "viridis"}},
}  # fmt: skip


def theme() -> dict[str, Any]:
    """Vega-Lite configuration of the cookbook, as `alt.Chart.configure` takes it.

    Returns
    -------
    dict
        A fresh copy that the caller may change.

    Examples
    --------
    >>> theme()["axis"]["labelFontSize"]
    12
    """
    return {key: dict(value) if isinstance(value, dict) else value for key, value in CONFIG.items()}


HEIGHT = 372
GOLDEN = 0.6180339887
# Longest words beside a row, drawn unseen: they keep the room, so that the picture does not jump.
_ROOM = "fits batch 00,000 at most"
# A format for `decade_axis` with which a tenth is 0.1 and not 100m.
PLAIN_TENTHS = "datum.value < 1 ? '~g' : '~s'"
# Rows that state a need are printed bold; Vega sees the label alone, so the word itself tells.
NEEDS = " needs"


def decades(values: Iterable[float], low: float = 1e9, high: float = 1e15) -> tuple[float, float]:
    """Whole powers of ten around positive values, so that an axis moves seldom.

    Examples
    --------
    >>> decades([2.6e14, 1.2e13])
    (10000000000000.0, 1000000000000000.0)
    """
    finite = [v for v in values if v is not None and math.isfinite(v) and v > 0]
    if not finite:
        return low, high
    start, stop = math.floor(math.log10(min(finite))), math.ceil(math.log10(max(finite)))
    return 10.0**start, 10.0 ** max(stop, start + 1)


def nice_ceiling(value: float) -> float:
    """Next of 1, 1.5, 2, 3, 5, 7 times a power of ten: the end of a linear axis that moves seldom.

    Examples
    --------
    >>> nice_ceiling(83e9)
    100000000000.0
    """
    if not (value > 0 and math.isfinite(value)):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 5, 7, 10) if step * power >= value * 0.999999)


def spread(count: int) -> np.ndarray:
    """Numbers from -0.5 to 0.5, neighbours far apart: places of marks that would cover each other."""
    return np.asarray(np.arange(count) * GOLDEN % 1 - 0.5)


def decade_axis(form: str = "'~s'", low: int = -3, high: int = 25) -> Any:
    """Axis with one tick a decade; `form` is its format as a Vega expression."""
    return alt.Axis(labelExpr=f"format(datum.value, {form})", values=[10.0**power for power in range(low, high)])


def log_scale(low: str, high: str) -> Any:
    """Logarithmic scale whose ends are signals."""
    return alt.Scale(type="log", domainMin=alt.ExprRef(low), domainMax=alt.ExprRef(high), nice=False)


def linear_scale(high: str, low: Any = 0, **more: Any) -> Any:
    """Linear scale from `low` to a signal."""
    return alt.Scale(domainMin=low, domainMax=alt.ExprRef(high), nice=False, **more)


def top_legend(**more: Any) -> Any:
    """Legend above the picture, without a title unless one is given."""
    return alt.Legend(orient="top", **{"title": None, **more})


def coloured(column: str, colours: Mapping[str, Any], key: Any) -> Any:
    """Colour of a column of words."""
    return alt.Color(f"{column}:N", scale=_words(colours, list(colours.values())), legend=key)


def looks(column: str, table: Mapping[str, tuple[str, Any]], key: Any) -> dict[str, Any]:
    """Colour and shape of a column of words, by the word: never a colour alone."""
    shape = alt.Shape(f"{column}:N", scale=_words(table, [shape for _, shape in table.values()]), legend=key)
    return {"color": coloured(column, {word: colour for word, (colour, _) in table.items()}, key), "shape": shape}


def _words(known: Iterable[str], looks: list[Any]) -> Any:
    return alt.Scale(domain=list(known), range=looks)


def number_tips(form: str, *columns: str) -> list[Any]:
    """Numbers in a tooltip, under the names of their columns."""
    return [alt.Tooltip(f"{column}:Q", format=form) for column in columns]


def rows_of(name: str) -> Any:
    """A chart over the rows whose `what` is a name."""
    return alt.Chart().transform_filter(f"datum.what == '{name}'")


def rows_with(column: str) -> Any:
    """A chart over the rows in which a column is not missing."""
    return alt.Chart().transform_filter(f"isValid(datum.{column})")


def one_row(**columns: str) -> Any:
    """A chart over one row alone, its columns given as Vega expressions."""
    return alt.Chart().transform_aggregate(n="count()").transform_calculate(**columns)


def finished(frame: pd.DataFrame, layers: Iterable[Any], title: str, key: str, words: str, **signals: Any) -> Any:
    """Layers over a frame, with takeaway, key to the marks, words for those who do not see it, and first signals.

    A frame with rows has their order as a signal too, since Vega forgets it when data change. The page sets `narrow`
    where a legend needs two lines.
    """
    first = {"rows": row_order(frame), **signals} if "row" in frame else signals
    chart = alt.layer(*layers, data=frame).add_params(*(alt.param(name=name, value=first[name]) for name in first))
    return chart.properties(
        title=alt.Title(title, subtitle=key), description=words, width="container", height=HEIGHT
    )  # fmt: skip


def row_order(frame: pd.DataFrame) -> list[str]:
    """Labels of the rows from the top."""
    return list(dict.fromkeys(frame["row"]))


def rows_axis(room: int | None = None) -> Any:
    """Vertical axis with one band a row; `room` [pixels] is kept for labels where they change in place."""
    bold = alt.condition(f"indexof(datum.value, '{NEEDS}') > 0", alt.value("bold"), alt.value("normal"))
    kept: dict[str, Any] = {} if room is None else {"minExtent": room, "maxExtent": room}
    axis = alt.Axis(grid=False, ticks=False, labelLimit=room or 200, labelFontWeight=bold, **kept)
    return alt.Y("row:N", scale=alt.Scale(domain=alt.ExprRef("rows")), title=None, axis=axis)


def row_text(base: Any, room: int | None = None) -> list[Any]:
    """Words at the right edge of each row; `|` breaks the line."""
    kept = base.transform_aggregate(n="count()").mark_text(align="left", dx=10, fontSize=12, opacity=0)
    words = base.transform_filter("isValid(datum.text)").mark_text(
        align="left", dx=10, dy=alt.ExprRef("indexof(datum.text, '|') < 0 ? 0 : -7"), baseline="middle",
        lineBreak="|", lineHeight=14, fontSize=12, color=INK,
    )  # fmt: skip
    at = alt.value("width")
    return [kept.encode(x=at, text=alt.value(_ROOM)), words.encode(y=rows_axis(room), x=at, text="text:N")]
