"""The common style of charts: palette, order and colour of parts, fonts; shared elements; and Altair itself.

Altair is imported when a chart is first written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.catalog.parts import part_groups

if TYPE_CHECKING:
    import pandas as pd


class _Later:
    """Altair, imported when its first name is used."""

    def __getattr__(self, name: str) -> Any:
        if "Chart" not in vars(self):
            vars(self).update(vars(import_module("altair")))
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"altair has no {name}") from None


if TYPE_CHECKING:
    import altair as alt
else:
    alt = _Later()

palette = PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")

# The front end swaps these three for JupyterLab's own colours, so that one spec fits the light and the dark theme.
INK = "#000000"
MUTED = "#616161"
PAPER = "#ffffff"

# Fixed order and colour for the whole cookbook: a part looks the same in every recipe.
TIME_PARTS = {name: group.colour for name, group in part_groups().items()}
MEMORY_PARTS = {
    "weights": "#0072B2",
    "fp32 copy": "#2F8F9D",
    "gradients": "#009E73",
    "optimiser states": "#A170C6",
    "activations": "#D55E00",
    "workspace": "#696E6E",
}

# Phases of a step of post-training.
PHASE_PARTS = {
    "generation": "#D55E00",
    "old policy": "#A170C6",
    "reference": "#2F8F9D",
    "training": "#0072B2",
    "weight update": "#009E73",
}

MONEY_PARTS = {
    "hardware": "#0072B2",
    "network": "#2F8F9D",
    "storage": "#009E73",
    "maintenance": "#7A9C39",
    "electricity": "#D55E00",
    "cooling": "#8C6A00",
    "staff": "#A170C6",
    "space": "#696E6E",
    "rent": "#CC79A7",
    "data": "#8C564B",
}

# A verdict is a colour, a shape and a word, never a colour alone.
VERDICTS = {
    "possible": ("#009E73", "circle"),
    "possible under a condition": ("#0072B2", "diamond"),
    "too slow at its peak": ("#D55E00", "cross"),
    "does not fit": ("#CC79A7", "square"),
    "not known": ("#616161", "triangle-up"),
}

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

_WORDS: dict[str, Any] = {
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "labelColor": INK,
    "titleColor": MUTED,
}
CONFIG: dict[str, Any] = {
    "background": PAPER,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        **_WORDS,
        "grid": True,
        "gridColor": "#e0e0e0",
        "gridWidth": 1,
        "domain": False,
        "tickColor": "#e0e0e0",
        "labelPadding": 6,
        "titlePadding": 8,
    },
    "axisQuantitative": {"labelSeparation": 3},
    "legend": {**_WORDS, "labelLimit": 260, "symbolSize": 80},
    "title": {
        "fontSize": 14,
        "fontWeight": 600,
        "anchor": "start",
        "frame": "bounds",
        "color": INK,
        "subtitleColor": MUTED,
        "subtitleFontSize": 12,
        "offset": 12,
        "lineHeight": 18,
    },
    "text": {"fontSize": 12, "color": INK},
    "mark": {"color": PALETTE[0]},
    "line": {"strokeWidth": 2},
    "rule": {"strokeWidth": 2},
    "range": {"category": list(PALETTE), "symbol": list(SHAPES), "heatmap": {"scheme": "viridis"}},
}


def theme() -> dict[str, Any]:
    """Return the Vega-Lite configuration of the cookbook, as `alt.Chart.configure` takes it.

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
# Longest words beside a row, drawn invisibly: they reserve the space, so that the chart does not jump.
_ROOM = "fits batch 00,000 at most"
# A format for `decade_axis` with which a tenth is 0.1 and not 100m.
PLAIN_TENTHS = "datum.value < 1 ? '~g' : '~s'"
# Rows that state a need are bold; Vega sees only the label, so the word itself marks them.
NEEDS = " needs"


def decades(values: Iterable[float], low: float = 1e9, high: float = 1e15) -> tuple[float, float]:
    """Return whole powers of ten around positive values, so that an axis rarely moves.

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
    """Return the next of 1, 1.5, 2, 3, 5, 7 times a power of ten: the end of a linear axis that rarely moves.

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
    """Return numbers from -0.5 to 0.5, neighbours far apart: positions of marks that would overlap."""
    return np.asarray(np.arange(count) * GOLDEN % 1 - 0.5)


def decade_axis(form: str = "'~s'", low: int = -3, high: int = 25) -> Any:
    """Return an axis with one tick per decade; `form` is its format as a Vega expression."""
    return alt.Axis(labelExpr=f"format(datum.value, {form})", values=[10.0**power for power in range(low, high)])


def log_scale(low: str, high: str) -> Any:
    """Return a logarithmic scale whose ends are signals."""
    return alt.Scale(type="log", domainMin=alt.ExprRef(low), domainMax=alt.ExprRef(high), nice=False)


def log_plane(across: str, x_title: str, up: str, y_title: str, axis: Any) -> tuple[Any, Any]:
    """Return two logarithmic axes by column and title: x from `left` to `right`, y from `bottom` to `top`."""
    x_scale, y_scale = log_scale("left", "right"), log_scale("bottom", "top")
    x = alt.X(f"{across}:Q", title=f"{x_title}, logarithmic", axis=axis, scale=x_scale)
    return x, alt.Y(f"{up}:Q", title=f"{y_title}, logarithmic", axis=axis, scale=y_scale)


def linear_scale(high: str, low: Any = 0, **more: Any) -> Any:
    """Return a linear scale from `low` to a signal."""
    return alt.Scale(domainMin=low, domainMax=alt.ExprRef(high), nice=False, **more)


def top_legend(**more: Any) -> Any:
    """Return a legend above the chart, without a title unless one is given."""
    return alt.Legend(orient="top", **{"title": None, **more})


def coloured(column: str, colours: Mapping[str, Any], key: Any) -> Any:
    """Return the colour of a column of words."""
    return alt.Color(f"{column}:N", scale=_words(colours, list(colours.values())), legend=key)


def looks(column: str, table: Mapping[str, tuple[str, Any]], key: Any) -> dict[str, Any]:
    """Return colour and shape of a column of words, by the word: never a colour alone."""
    shape = alt.Shape(f"{column}:N", scale=_words(table, [shape for _, shape in table.values()]), legend=key)
    return {"color": coloured(column, {word: colour for word, (colour, _) in table.items()}, key), "shape": shape}


def _words(words: Iterable[str], looks: list[Any]) -> Any:
    return alt.Scale(domain=list(words), range=looks)


def number_tips(form: str, *columns: str) -> list[Any]:
    """Return tooltips of numbers, under the names of their columns."""
    return [alt.Tooltip(f"{column}:Q", format=form) for column in columns]


def rows_of(name: str) -> Any:
    """Return a chart over the rows whose `what` is a name."""
    return alt.Chart().transform_filter(f"datum.what == '{name}'")


def rows_with(column: str) -> Any:
    """Return a chart over the rows in which a column is not missing."""
    return alt.Chart().transform_filter(f"isValid(datum.{column})")


def inward(dx: float) -> dict[str, Any]:
    """Return the alignment of words beside a mark, `dx` pixels towards the side with more space."""
    right = "item.x > width / 2"
    return {"align": alt.ExprRef(f"{right} ? 'right' : 'left'"), "dx": alt.ExprRef(f"{right} ? {-dx} : {dx}")}


def end_names(lines: Any, name: str, x: Any, y: Any, colour: Any, gap: str, log: bool = False) -> list[Any]:
    """Return names at the ends of lines, on a halo, one below the other; inside the plot where it is narrow.

    None is below the plot: the lowest one stands at its foot, and pushes those above it up.

    Parameters
    ----------
    lines : altair.Chart
        Over the rows of lines alone.
    name : str
        Column of the names.
    x, y : altair.X, altair.Y
        As in the chart of the lines.
    colour : altair.Color
        As in the chart of the lines, without a legend.
    gap : str
        Vega expression of the smallest distance between two names, in the unit of y or of its natural logarithm.
    log : bool
        Whether y is logarithmic.
    """
    across, up = (axis["shorthand"].removesuffix(":Q") for axis in (x, y))
    order = [alt.SortField("height", order="descending")]
    ends = (
        lines.transform_joinaggregate(last=f"max({across})", groupby=[name])
        .transform_filter(f"datum.{across} == datum.last && isValid(datum.{up})")
        .transform_aggregate([alt.AggregatedFieldDef(**{"op": "max", "field": up, "as": up})], groupby=[name, across])
        .transform_calculate(height=f"log(datum.{up})" if log else f"datum.{up}")
        .transform_window(place="row_number()", sort=order)
        .transform_joinaggregate(names="count()")
        .transform_calculate(free=f"datum.height + datum.place * {gap}")
    )
    scale = y["scale"].to_dict()
    low = scale["domain"][0] if "domain" in scale else scale["domainMin"]
    low = f"({low['expr'] if isinstance(low, dict) else low})"
    foot = f"{f'log{low}' if log else low} + (datum.names - datum.place) * {gap}"
    below = f"max(datum.lowest - datum.place * {gap}, {foot})"
    at = ends.transform_window(lowest="min(free)", sort=order, frame=[None, 0]).transform_calculate(
        at=f"exp({below})" if log else below
    )
    place: dict[str, Any] = {
        "align": alt.ExprRef("narrow ? 'right' : 'left'"),
        "dx": alt.ExprRef("narrow ? 0 : 12"),
        "dy": alt.ExprRef("narrow ? -9 : 0"),
        "fontSize": 12,
        "baseline": "middle",
    }
    where = {"x": x, "y": alt.Y("at:Q", scale=y["scale"]), "text": f"{name}:N"}
    halo = at.mark_text(**place, stroke=PAPER, strokeWidth=4, color=PAPER)
    # Some colours of lines are too faint for words: ink above them, darker on light paper and lighter on dark.
    ink = at.mark_text(**place, strokeWidth=0, color=INK, opacity=0.45)
    return [halo.encode(**where), at.mark_text(**place).encode(**where, color=colour), ink.encode(**where)]


def large_parts(frame: pd.DataFrame, order: Iterable[str], most: int = 5) -> list[str]:
    """Return the parts that a chart of `value` by `part` names, in a fixed order: of many, the largest and "other".

    Examples
    --------
    >>> import pandas as pd
    >>> large_parts(pd.DataFrame({"part": list("abcd"), "value": [1, 3, 2, 4]}), "abcd", most=2)
    ['b', 'd', 'other']
    """
    sums = frame.groupby("part")["value"].sum()
    largest = sums[sums > 0].nlargest(most if (sums > 0).sum() > most + 1 else most + 1).index
    return [*(name for name in order if name in largest), *(["other"] if len(largest) < (sums > 0).sum() else [])]


def one_row(**columns: str) -> Any:
    """Return a chart over a single row, its columns given as Vega expressions."""
    return alt.Chart().transform_aggregate(n="count()").transform_calculate(**columns)


def finished(
    frame: pd.DataFrame, layers: Iterable[Any], title: str, key: str | list[str], words: str, **signals: Any
) -> Any:
    """Return layers over a frame, with takeaway, key to the marks, alternative text, and initial signals.

    A frame with rows has their order as a signal too, since Vega forgets it when data change. The page sets `narrow`
    where there is little space, and `over`, the number of text lines above each row.
    """
    rows = {"rows": row_order(frame), "over": 0} if "row" in frame else {}
    first = {**rows, "narrow": False, **signals}
    chart = alt.layer(*layers, data=frame).add_params(*(alt.param(name=name, value=first[name]) for name in first))
    return chart.properties(title=alt.Title(title, subtitle=key), description=words, width="container", height=HEIGHT)


def row_order(frame: pd.DataFrame) -> list[str]:
    """Return the labels of the rows from the top."""
    return list(dict.fromkeys(frame["row"]))


# Where space is tight, labels and words are above their rows, in a gap of this many pixels.
_STEP = "height / max(length(rows), 1)"
_GAP = "(over ? 16 * over + 4 : 0)"
_FIRST_LINE = f"10 - ({_STEP} + {_GAP}) / 2"


def rows_axis(room: int | None = None) -> Any:
    """Return a vertical axis with one band per row; at least `room` [pixels] is for labels that change in place."""
    bold = alt.condition(f"indexof(datum.value, '{NEEDS}') > 0", alt.value("bold"), alt.value("normal"))
    extents: dict[str, Any] = {} if room is None else {"minExtent": _beside(room, 0)}
    axis = alt.Axis(
        grid=False,
        ticks=False,
        labelLimit=_beside(380, "width"),
        labelFontWeight=bold,
        labelPadding=_beside(6, 0),
        labelAlign=_beside("'right'", "'left'"),
        labelOffset=_beside(0, _FIRST_LINE),
        **extents,
    )
    gap = alt.ExprRef(f"over ? min({_GAP} / ({_STEP}), 0.9) : 0.1")
    scale = alt.Scale(
        type="band",
        domain=alt.ExprRef("rows"),
        paddingInner=gap,
        paddingOuter=alt.ExprRef(f"({gap.expr}) / 2"),
        align=_beside(0.5, 1),
    )
    return alt.Y("row:N", scale=scale, title=None, axis=axis)


def _beside(wide: Any, narrow: Any) -> Any:
    """Return a value for labels beside their rows, and another for labels over them."""
    return alt.ExprRef(f"over ? {narrow} : {wide}")


# Opacity of a rule from top to bottom: where labels are above their rows, it crosses words.
THROUGH = {"expr": "over ? 0.4 : 1"}


def row_text(base: Any, room: int | None = None) -> list[Any]:
    """Return the words at the right edge of each row; `|` breaks the line."""
    spacer = base.transform_aggregate(n="count()").mark_text(align="left", dx=10, fontSize=12, opacity=0)
    visible = base.transform_filter("isValid(datum.text)").transform_calculate(
        said="over && over < 3 ? replace(datum.text, /[|]/g, ', ') : datum.text"
    )
    aside = "indexof(datum.text, '|') < 0 ? 0 : -7"
    words = visible.mark_text(
        align=alt.ExprRef("over == 1 ? 'right' : 'left'"),
        dx=_beside(10, 0),
        dy=_beside(aside, f"{_FIRST_LINE} + (over > 1 ? 16 : 0)"),
        baseline="middle",
        lineBreak="|",
        lineHeight=14,
        fontSize=12,
        color=INK,
    )
    at = alt.value(alt.ExprRef("over > 1 ? 0 : width"))
    spacer_text = alt.value(_beside(f"'{_ROOM}'", "''"))
    return [spacer.encode(x=alt.value("width"), text=spacer_text), words.encode(y=rows_axis(room), x=at, text="said:N")]


def ticks(low: float, high: float, log: bool, most: int = 7) -> list[float]:
    """Return round values from `low` to `high`: powers of ten, with 2 and 5 where there are few, or equal steps.

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
        values = [p * 10.0**power for power in powers for p in parts if low * 0.999 <= p * 10.0**power <= high * 1.001]
        if len(values) <= most:
            return values
    return values[:: math.ceil(len(values) / most)]


def _steps(span: float) -> Sequence[float]:
    power = 10.0 ** math.floor(math.log10(max(span, 1e-300)) - 1)
    return [part * power * ten for ten in (1, 10, 100) for part in (1, 2, 5)]


def tick_text(value: float, whole: bool = False) -> str:
    """Return the text of an axis value.

    Examples
    --------
    >>> tick_text(2016, True), tick_text(0.001), tick_text(5000), tick_text(2e6), tick_text(1e-5)
    ('2016', '0.001', '5,000', '2 M', '10 µ')
    """
    if whole:
        return f"{value:.0f}"
    for size, prefix in _PREFIXES:
        if value >= size:
            return f"{value / (size if size != 1e4 else 1e3):g} {prefix}"
    if 0 < value < 0.999e-3:
        return f"{value * 1e6:g} µ" if value > 0.999e-6 else f"{value * 1e9:g} n"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


# Steps of axes that adapt to their data.
_STEPS = (1.0, 2.0, 5.0, 10.0)


def step_ticks(form: str = ",~g") -> Any:
    """Return ticks at 1, 2 and 5 times powers of ten."""
    values = [step * 10.0**power for power in range(-4, 12) for step in _STEPS[:3]]
    return alt.Axis(values=values, format=form, labelOverlap="greedy")


def ends_around(values: Iterable[Any]) -> tuple[float, float]:
    """Return steps of 1, 2 and 5 around positive numbers; missing ones do not count.

    >>> ends_around([3.0, None, 70.0])
    (2.0, 100.0)
    """
    positive = [float(value) for value in values if value is not None and math.isfinite(value) and value > 0]
    if not positive:
        return 1.0, 10.0
    low, high = min(positive) / 1.1, max(positive) * 1.1
    steps = [step * 10.0**power for power in range(-6, 14) for step in _STEPS[:3]]
    return max(end for end in steps if end <= low), min(end for end in steps if end >= high)


def longest_row(frame: pd.DataFrame) -> float:
    """Return the end of the axis of `step_parts`."""
    most = [frame.groupby("row")["value"].sum().max(), *(frame["high"].dropna() if "high" in frame else ())]
    return nice_ceiling(float(max(most)))
