"""Charts of measurements, thousands in one picture or in small multiples, and of predictions beside them.

Places are computed before, so one spec draws all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MUTED, PALETTE, SHAPES, alt, tick_text, ticks

# One pane is SIDE wide and SIDE high, in whole steps.
SIDE = 10_000
GAP = 1_100
MOST_PANES = 6
COLOURS = (*PALETTE[:4], "#A170C6", "#767676")
MARKS = (*SHAPES, "triangle-down")
COLUMNS = ("x", "y", "group", "model", "device", "count", "value", "source", "key")
# What is drawn beside the measurements, each a signal with one list a column: short lists travel with the signals, so
# that the thousands of measurements are read once.
BESIDE = {
    "grid": ("x", "y", "x2", "y2"),
    "lines": ("x", "y", "x2", "y2", "group"),
    "intervals": ("x", "y", "x2", "y2"),
    "predictions": ("x", "y"),
    "rings": ("x", "y"),
    "ticks": ("x", "y", "text"),
    "labels": ("x", "y", "text"),
    "titles": ("x", "y", "text"),
}
LISTS = ("models", "devices", "publishers")
# Pixels at the left for names of rows, and for values.
ROOM, NARROW_ROOM = (100, 330), 52
# Pixels of a letter, most letters of a name at the left, and of one above a pane before there are but two in a row.
LETTER, MOST_LETTERS, WIDE = 6.7, 46, 20
MARGIN, SPREAD = 0.03, 0.55
OTHERS, UNKNOWN = "others", "not stated"
_GRID = "#e0e0e0"
# Largest width of the labels at the left in a narrow chart.
_LEFT = "min(left, 0.55 * width)"
_KEY = "Click a mark to see what it is, with its source."
_FIRST: dict[str, Any] = {
    "groups": [""],
    "across": SIDE,
    "down": SIDE,
    "left": 60,
    "size": 26,
    "opacity": 0.6,
    "unit": "",
}
_TIP = (
    "{'what': models[datum.model], 'on': devices[datum.device] + (datum.count > 0 ? ' × ' + datum.count : ''), "
    "'measured': format(datum.value, ',.4~g') + unit, 'published by': publishers[datum.source]}"
)


def explored(frame: pd.DataFrame, title: str = "") -> Any:
    """Return the chart of measurements and their predictions, at positions that were computed before.

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
    x = alt.X(
        "x:Q",
        axis=None,
        scale=alt.Scale(
            domain=[0, alt.ExprRef("across")], range=[alt.ExprRef(_LEFT), alt.ExprRef("width")], nice=False, zero=False
        ),
    )
    y = alt.Y(
        "y:Q",
        axis=None,
        scale=alt.Scale(domain=[0, alt.ExprRef("down")], range=[alt.ExprRef("height - 34"), 4], nice=False, zero=False),
    )
    grid = _of("grid").mark_rule(color=_GRID, strokeWidth=1).encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    line = _of("lines").mark_rule(strokeWidth=2, opacity=0.6)
    lines = line.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=_looks()["color"])
    layers = [grid, lines, _measured(x, y), *_predictions(x, y), *_texts(x, y)]
    signals = {**_FIRST, **{name: [] for name in LISTS}, **{name: nothing(name) for name in BESIDE}}
    words = (
        "Measurements as marks, one colour and shape per group, over gridlines with their values; the table below the "
        "panel lists the first of them with their sources."
    )
    return look.finished(frame, layers, title, _KEY, words, **signals)


def nothing(signal: str) -> dict[str, list[Any]]:
    """Return the value of a signal of `BESIDE` where there is nothing to draw."""
    return {name: [] for name in BESIDE[signal]}


def _of(signal: str) -> Any:
    """Return a chart over the lists of a signal."""
    cells = {name: f"{signal}.{name}[datum.i]" for name in BESIDE[signal]}
    row = alt.Chart(alt.sequence(0, 1, as_="one")).transform_calculate(i=f"sequence(length({signal}.x))")
    return row.transform_flatten(["i"]).transform_calculate(**cells)


def _looks() -> dict[str, Any]:
    legend = look.top_legend(columns=3, symbolOpacity=1, labelLimit=190, labelExpr="groups[datum.value]")
    domain = {"domain": alt.ExprRef("sequence(length(groups))")}
    return {
        "color": alt.Color("group:N", scale=alt.Scale(range=list(COLOURS), **domain), legend=legend),
        "shape": alt.Shape("group:N", scale=alt.Scale(range=list(MARKS), **domain), legend=legend),
    }


def _measured(x: Any, y: Any) -> Any:
    marks = alt.Chart().mark_point(
        filled=True,
        size=alt.ExprRef("size"),
        opacity=alt.ExprRef("opacity"),
        cursor="pointer",
        tooltip=alt.ExprRef(_TIP),
    )
    return marks.encode(x=x, y=y, **_looks())


def _predictions(x: Any, y: Any) -> list[Any]:
    """Return intervals, predictions as hollow diamonds, and rings around measurements."""
    interval = _of("intervals").mark_rule(color=INK, strokeWidth=1, opacity=0.45)
    point = _of("predictions").mark_point(shape="diamond", color=INK, size=34, strokeWidth=1.2, opacity=0.8)
    ring = _of("rings").mark_point(size=150, strokeWidth=2, color=INK, filled=False, shape="circle")
    return [interval.encode(x=x, y=y, x2="x2:Q", y2="y2:Q"), point.encode(x=x, y=y), ring.encode(x=x, y=y)]


def _texts(x: Any, y: Any) -> list[Any]:
    """Return the values under the chart, names or values at its left, and titles of panes."""
    size = {"fontSize": 12, "color": INK}
    marks = [
        _of("ticks").transform_filter("!narrow || datum.i % 2 == 0").mark_text(dy=13, baseline="middle", **size),
        _of("labels").mark_text(dx=-6, align="right", baseline="middle", limit=alt.ExprRef(f"{_LEFT} - 8"), **size),
        _of("titles").mark_text(
            align="left",
            baseline="bottom",
            dy=-3,
            fontSize=12,
            fontWeight="bold",
            color=MUTED,
            limit=alt.ExprRef(f"(width - {_LEFT}) * {SIDE} / across + 4"),
        ),
    ]
    return [mark.encode(x=x, y=y, text="text:N") for mark in marks]


def panes(count: int, letters: int = 0) -> tuple[int, int]:
    """Return the columns and rows of small multiples; two columns where the longest title has many `letters`.

    Examples
    --------
    >>> panes(1), panes(3), panes(4), panes(6), panes(6, letters=26)
    ((1, 1), (3, 1), (2, 2), (3, 2), (2, 3))
    """
    across = {1: 1, 2: 2, 3: 3, 4: 2}.get(count, 3) if letters <= WIDE else min(count, 2)
    return across, math.ceil(count / across)


@dataclass(frozen=True, eq=False)
class Axis:
    """Positions from 0 to 1 on one axis: of the marks, and of ticks with their text.

    Attributes
    ----------
    at : numpy.ndarray
        Place of each mark.
    ticks : list of (float, str)
        Place and text.
    ends : tuple of float
        Values at 0 and 1; none for names.
    log : bool
    """

    at: np.ndarray
    ticks: list[tuple[float, str]]
    ends: tuple[float, float] = (0.0, 1.0)
    log: bool = False

    def place(self, values: Any) -> np.ndarray:
        """Return the positions of other values on the same axis, clipped to it."""
        low, high = self.ends
        with np.errstate(invalid="ignore", divide="ignore"):
            way = np.log(values / low) / np.log(high / low) if self.log else (values - low) / (high - low)
        return np.clip(way, 0, 1)


def number_axis(values: pd.Series, log: bool, most: int) -> Axis:
    """Return the axis over amounts (logarithmic) or years, with jitter and a margin at its ends."""
    low, high = float(values.min()), float(values.max())
    if not log:
        return _axis(values + SPREAD * look.spread(len(values)), (low - 0.6, high + 0.6), False, most, whole=True)
    span = max(np.log10(high / low), 0.3)
    return _axis(values, (low * 10 ** (-MARGIN * span), high * 10 ** (MARGIN * span)), True, most)


def value_axis(values: pd.Series, log: bool, most: int, beside: np.ndarray) -> Axis:
    """Return the axis over outcomes: logarithmic, or from 0 for shares, wide enough for predictions `beside` them."""
    finite = np.concatenate([values.to_numpy(), beside[np.isfinite(beside)]])
    ends = number_axis(pd.Series(finite), True, most).ends if log else (0.0, look.nice_ceiling(float(finite.max())))
    return _axis(values, ends, log, most)


def _axis(values: pd.Series, ends: tuple[float, float], log: bool, most: int, whole: bool = False) -> Axis:
    bare = Axis(np.zeros(0), [], ends, log)
    marks = [value for value in ticks(*ends, log, most) if not whole or float(value).is_integer()]
    texts = [(float(bare.place(value)), tick_text(value, whole)) for value in marks]
    return Axis(bare.place(values.to_numpy(dtype=float)), texts, ends, log)


def name_axis(names: pd.Series, values: pd.Series, least: bool) -> Axis:
    """Return the axis over names, one row each, the best median at the top; marks are jittered within their row."""
    middle = values.groupby(names).median().sort_values(ascending=not least, kind="stable")
    order = {name: at for at, name in enumerate(middle.index)}
    aside = SPREAD * look.spread(len(names)) * (len(names) > len(order))
    at = (names.map(order).to_numpy(dtype=float) + 0.5 + aside) / len(order)
    counts = names.value_counts()
    labels = {name: f"{middle_out(name)} ({counts[name]:,})" for name in order}
    return Axis(at, [((place + 0.5) / len(order), labels[name]) for name, place in order.items()])


def middle_out(name: str) -> str:
    """Return a name, without its middle where it is too long for a chart.

    Examples
    --------
    >>> middle_out("tinygrad, commit b399d98e414bbfdff4825bf5307a56b1a98c6a90")
    'tinygrad, commit b399d ... 5bf5307a56b1a98c6a90'
    """
    half = (MOST_LETTERS - 4) // 2
    return name if len(name) <= MOST_LETTERS else f"{name[: half + 1]} ... {name[-half + 1 :]}"


def few(names: pd.Series, most: int) -> pd.Series:
    """Return names, the rarer ones as others unless there is only one of those; blank is not stated."""
    names = names.where(names.notna(), "").astype(str) if names.dtype != float else names.map("{:g}".format)
    names = names.mask(names.isin(["", "nan"]), UNKNOWN)
    counts = names.value_counts()
    return names.where(names.isin(counts.index[: most if len(counts) > most + 1 else most + 1]), OTHERS)


@dataclass(frozen=True)
class Places:
    """Panes in columns and rows; `named`: names stand in rows at the left, and values run along the bottom."""

    panes: tuple[int, int]
    named: bool
    letters: int = 0

    @property
    def across(self) -> int:
        """Return the right end of the last pane."""
        return self.panes[0] * SIDE + (self.panes[0] - 1) * GAP

    @property
    def down(self) -> int:
        """Return the upper end of the first pane, with a margin for titles where there are several."""
        several = self.panes != (1, 1)
        return self.panes[1] * SIDE + (self.panes[1] - 1) * 2 * GAP + (GAP if several else 0)

    @property
    def left(self) -> int:
        """Return the pixels for the labels at the left; the longest name has `letters`."""
        least, most = ROOM
        return min(max(math.ceil(LETTER * self.letters) + 14, least), most) if self.named else NARROW_ROOM

    def most_names(self) -> int:
        """Return the number of names that fit."""
        return 16 if self.panes[1] == 1 else 5

    def most_ticks(self, across: bool) -> int:
        """Return the number of values that fit, along the bottom or upwards."""
        return (9, 6, 4)[self.panes[0] - 1] if across else (7, 4, 3)[self.panes[1] - 1]

    def _corner(self, pane: Any) -> tuple[Any, Any]:
        """Return the lower left corners of panes, counted from the upper left."""
        column, row = pane % self.panes[0], pane // self.panes[0]
        return column * (SIDE + GAP), (self.panes[1] - 1 - row) * (SIDE + 2 * GAP)

    def points(self, pane: np.ndarray, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the horizontal and vertical positions of marks, (2, n); names are vertical, numbers horizontal."""
        across, up = (values, x) if self.named else (x, values)
        left, below = self._corner(pane)
        return np.array([left + np.round(across * SIDE), below + np.round(up * SIDE)]).astype(int)

    def grid(self, x: Axis, values: Axis) -> dict[str, dict[str, list[Any]]]:
        """Return gridlines of every pane, values under the lowest panes, and labels left of the first ones."""
        across, up = (values, x) if self.named else (x, values)
        count = self.panes[0] * self.panes[1]
        grid, under, beside = nothing("grid"), nothing("ticks"), nothing("labels")
        for pane in range(count):
            left, below = self._corner(pane)
            for place, _ in across.ticks:
                _add(grid, x=left + place * SIDE, y=below, x2=left + place * SIDE, y2=below + SIDE)
            for place, _ in up.ticks:
                _add(grid, x=left, y=below + place * SIDE, x2=left + SIDE, y2=below + place * SIDE)
            for place, text in across.ticks if pane + self.panes[0] >= count else ():
                _add(under, x=left + place * SIDE, y=below, text=text)
            for place, text in up.ticks if pane % self.panes[0] == 0 else ():
                _add(beside, x=left, y=below + place * SIDE, text=text)
        return {"grid": grid, "ticks": under, "labels": beside}

    def titles(self, names: list[str]) -> dict[str, list[Any]]:
        """Return the names of panes, above each."""
        texts = nothing("titles")
        for pane, name in enumerate(names):
            left, below = self._corner(pane)
            _add(texts, x=left, y=below + SIDE, text=name)
        return texts

    def intervals(
        self, pane: np.ndarray, x: np.ndarray, beside: np.ndarray, values: Axis
    ) -> dict[str, dict[str, list[Any]]]:
        """Return predicted values and their intervals from (n, 3) `beside`: point, low, high; NaN where not known."""
        has_point, reach = np.isfinite(beside[:, 0]), np.isfinite(beside[:, 1])
        at = self.points(pane[has_point], x[has_point], values.place(beside[has_point, 0]))
        low, high = (self.points(pane[reach], x[reach], values.place(beside[reach, end])) for end in (1, 2))
        names = ("x", "y", "x2", "y2")
        return {
            "predictions": dict(zip(("x", "y"), at.tolist(), strict=True)),
            "intervals": dict(zip(names, [*low.tolist(), *high.tolist()], strict=True)),
        }


def placed(
    values: pd.Series,
    x: pd.Series,
    group: np.ndarray,
    groups: list[str],
    beside: np.ndarray,
    *,
    log: bool,
    least: bool,
    several: bool,
    lines: bool,
    ringed: np.ndarray,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the positions of measurements, (2, n), and the signals of everything drawn with them.

    Parameters
    ----------
    values, x : pandas.Series
        What came out, and where it stands: amounts, years (a column of that name) or names.
    group, groups
        Place of each row's group in the names of groups.
    beside : numpy.ndarray
        Predicted values and the ends of their intervals, (n, 3); empty for none.
    log, least : bool
        Whether values are drawn by decades, and whether small ones are the better ones.
    several, lines : bool
        One pane a group; marks of a group joined.
    ringed : numpy.ndarray
        Rows to ring.
    """
    several, named = several and len(groups) > 1, not pd.api.types.is_numeric_dtype(x)
    places = Places(panes(len(groups), max(map(len, groups))) if several else (1, 1), named)
    upright = value_axis(values, log, places.most_ticks(across=named), beside)
    if named:
        axis = name_axis(few(x, places.most_names()), values, least)
        places = replace(places, letters=max(len(text) for _, text in axis.ticks))
    else:
        axis = number_axis(x, x.name != "year", places.most_ticks(across=True))
    pane = group if several else np.zeros(len(values), dtype=int)
    along = places.points(pane, axis.at, upright.at)
    signals = {name: nothing(name) for name in BESIDE} | places.grid(axis, upright)
    if several:
        signals["titles"] = places.titles(groups)
    if len(beside):
        signals |= places.intervals(pane, axis.at, beside, upright)
    if lines and not named:
        drawn = np.array(groups)[group] != OTHERS
        signals["lines"] = joined(along[:, drawn], group[drawn])
    signals["rings"] = {"x": along[0][ringed].tolist(), "y": along[1][ringed].tolist()}
    return along, {"across": places.across, "down": places.down, "left": places.left, **signals}


def joined(along: np.ndarray, group: np.ndarray) -> dict[str, list[Any]]:
    """Return lines from each mark of a group to the next one to the right."""
    order = np.lexsort((along[0], group))
    start, end = order[:-1], order[1:]
    same = group[start] == group[end]
    start, end = start[same], end[same]
    ends = [*along[:, start].tolist(), *along[:, end].tolist(), group[start].tolist()]
    return dict(zip(("x", "y", "x2", "y2", "group"), ends, strict=True))


def _add(lists: dict[str, list[Any]], **cells: Any) -> None:
    for name, cell in cells.items():
        lists[name].append(cell if isinstance(cell, str) else round(cell))


BANDS = (0.2, 0.1)
# Ends of the axes of ratios and of errors [%]; what lies beyond is drawn at the edge.
RATIOS = (0.15, 8.0)
ERRORS = (1.0, 300.0)
COVERED = {
    "within chance": (PALETTE[2], "circle"),
    "less than chance": (PALETTE[1], "cross"),
    "more than chance": (PALETTE[0], "diamond"),
}
NEARER = {
    "more accurate": (PALETTE[2], "circle"),
    "as accurate": (MUTED, "square"),
    "less accurate": (PALETTE[1], "cross"),
}
MOST_LISTED = ("publishers", "urls", "models", "devices", "units")
_REST = "#767676"
# Pixels for the longest label, "device and engine measured": which groups are shown changes in place.
_ROOM = 184
_POINTS_KEY = (
    "The bands are 10 % and 20 %. Rings are the largest errors, as numbered in the table; a click opens the source."
)
_GROUPS_KEY = "Filled marks are medians, bars are the middle half. Hollow marks are the model to compare with."
_EFFECTS_KEY = [
    "Hollow marks are without it, filled marks with it.",
    "A cross is less accurate; faint rows are few runs.",
]
_COVERAGE_KEY = "Grey bars are the range of chance around 80 % in 95 of 100 cases, if runs were independent."


def points(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of predicted over measured outcomes of all runs by number of accelerators, with two bands.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `at` (accelerators, with jitter so that runs can be distinguished), `ratio` (predicted over
        measured), `group` (five at most), `rank` (number among those furthest off, 0 for a ring without it, else
        missing), `measured`, `predicted` (each in the unit of its run), `count` (accelerators), and `source`, `model`,
        `device`, `unit`: places in the lists of names.
    title : str, optional
        The takeaway; the share within 20 % by default.

    Returns
    -------
    altair.LayerChart
        Signals: `low` and `high`, the ends of the axis; `groups`, in the order of colours; `publishers` and `urls` by
        source, `models`, `devices`, `units`: names, so that they travel once and not with every point.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"at": 1.0, "ratio": 1.1, "group": "a", "rank": None, "measured": 10.0, "predicted": 11.0, "count": 1,
    ...        "source": 0, "model": 0, "device": 0, "unit": 0}
    >>> points(pd.DataFrame([row])).title.text
    '100 % of 1 runs are predicted within 20 %'
    """
    ends = look.log_scale("low", "high")
    ticks = alt.Axis(values=[10.0**power for power in range(6)], format="~s")
    x = alt.X("at:Q", title="Number of accelerators, logarithmic, with jitter", scale=ends, axis=ticks)
    ratios = alt.Scale(type="log", domain=list(RATIOS), clamp=True, nice=False)
    ticks = alt.Axis(values=[0.25, 0.5, 0.8, 1, 1.25, 2, 4, 8], format="~g")
    y = alt.Y("ratio:Q", title="Predicted / measured, logarithmic", scale=ratios, axis=ticks)
    bands = [
        _ends(1 + share, 1 - share).mark_area(color=MUTED, opacity=0.22, clip=True).encode(x=x, y=y, y2="below:Q")
        for share in BANDS
    ]
    exact = _ends(1, 1).mark_line(color=INK, strokeWidth=1, clip=True).encode(x=x, y=y)
    layers = [*bands, _runs(x, y), exact, *_furthest(x, y)]
    inside = (abs(frame["ratio"] - 1) <= BANDS[0]).mean()
    title = title or f"{100 * inside:.0f} % of {len(frame):,} runs are predicted within {100 * BANDS[0]:.0f} %"
    words = (
        "Scatter of measured training runs: predicted over measured outcome, over the number of accelerators, both "
        "logarithmic. The line is 1; two grey bands around it are 10 and 20 %. The largest errors are ringed, and "
        "numbered as in the table below where the numbers fit."
    )
    lists: dict[str, Any] = {name: [] for name in MOST_LISTED}
    return look.finished(
        frame,
        layers,
        title,
        _POINTS_KEY,
        words,
        **device_ends(frame),
        groups=list(dict.fromkeys(frame["group"])),
        **lists,
    )


def device_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the axis of `points`."""
    return {"low": 0.7, "high": float(10 ** np.ceil(np.log10(max(frame["at"].max(), 2))))}


def _ends(ratio: float, below: float) -> Any:
    """Return two rows, at the ends of the axis, at one height and at another below."""
    ends = look.one_row(both="[low, high]").transform_flatten(["both"], ["at"])
    return ends.transform_calculate(ratio=str(ratio), below=str(below))


def _runs(x: Any, y: Any) -> Any:
    looks = {"domain": alt.ExprRef("groups")}
    legend = look.top_legend(columns=3, symbolOpacity=1)
    named = alt.Chart().transform_calculate(
        publisher="publishers[datum.source]",
        url="urls[datum.source]",
        network="models[datum.model]",
        on="datum.count + ' × ' + devices[datum.device]",
        was="format(datum.measured, ',.4~g') + ' ' + units[datum.unit]",
        told="format(datum.predicted, ',.4~g') + ' ' + units[datum.unit]",
    )
    titles = {"network": "network", "accelerator": "on", "was": "measured", "told": "predicted"}
    tip = [
        *(alt.Tooltip(f"{name}:N", title=word) for name, word in titles.items()),
        alt.Tooltip("ratio:Q", title="predicted / measured", format=".3~g"),
        alt.Tooltip("publisher:N", title="published by"),
    ]
    marks = named.mark_point(filled=True, size=26, opacity=0.6, cursor="pointer")
    return marks.encode(
        x=x,
        y=y,
        tooltip=tip,
        href="url:N",
        color=alt.Color("group:N", scale=alt.Scale(range=[*PALETTE[:4], _REST], **looks), legend=legend),
        shape=alt.Shape("group:N", scale=alt.Scale(range=list(SHAPES), **looks), legend=legend),
    )


def _furthest(x: Any, y: Any) -> list[Any]:
    """Return rings of the runs that the table lists, and their numbers where they fit, away from the line."""
    chosen = look.rows_with("rank")
    ring = chosen.mark_point(size=110, strokeWidth=2, color=INK, filled=False, shape="circle")
    away = alt.ExprRef(f"inrange(datum.ratio, [{RATIOS[0]}, 1]) ? 16 : -14")
    number = chosen.transform_filter("datum.rank > 0").mark_text(dy=away, fontSize=12, color=INK)
    return [ring.encode(x=x, y=y), number.encode(x=x, y=y, text="rank:Q")]


def errors(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the error of each group: median, and the middle half of its runs.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `median`, `lower`, `upper` (quartiles), all in per cent,
        `before` (median of the model to compare with, else missing), `text` (words at the right).
    title : str, optional
        The takeaway; the span and the worst group by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `band`, where the rule stands [%].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", 8.0, 4.0, 15.0, None, ""], ["b", 20.0, 10.0, 30.0, None, ""]]
    >>> errors(pd.DataFrame(rows, columns=["row", "median", "lower", "upper", "before", "text"])).title.text
    'Median errors range from 8.0 % to 20 % (b)'
    """
    scale = alt.Scale(type="log", domain=list(ERRORS), clamp=True, nice=False)
    ticks = alt.Axis(values=[1, 2, 5, 10, 20, 50, 100, 200], format="~g")
    x = alt.X("median:Q", title="|predicted / measured - 1| [%], logarithmic", scale=scale, axis=ticks)
    tip, y, base = _tip("lower", "median", "upper"), look.rows_axis(_ROOM), alt.Chart()
    bar = base.mark_bar(height=6, opacity=0.45, color=PALETTE[0], clip=True)
    dot = base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0])
    hollow = look.rows_with("before").mark_point(size=90, strokeWidth=2, color=PALETTE[1])
    rule = look.one_row(at="band").mark_rule(color=MUTED, strokeWidth=2, strokeDash=[4, 4], opacity=look.THROUGH)
    layers = [
        *look.row_text(base, _ROOM),
        rule.encode(x=alt.X("at:Q", scale=scale)),
        bar.encode(x=alt.X("lower:Q", scale=scale), x2="upper:Q", y=y, tooltip=tip),
        dot.encode(x=x, y=y, tooltip=tip),
        hollow.encode(x=alt.X("before:Q", scale=scale), y=y, shape=alt.value("diamond"), tooltip=tip),
    ]
    words = (
        "One row for each group of runs: a mark at the median error and a bar over the middle half, on a logarithmic "
        "axis in per cent; a dashed rule at the band chosen. A hollow diamond is the model to compare with."
    )
    return look.finished(frame, layers, title or errors_title(frame), _GROUPS_KEY, words, band=20)


def _tip(*columns: str) -> list[Any]:
    return [alt.Tooltip("row:N", title="runs"), *look.number_tips(".1f", *columns)]


def errors_title(frame: pd.DataFrame) -> str:
    """Return the takeaway of `errors`."""
    low, high = frame.loc[frame["median"].idxmin()], frame.loc[frame["median"].idxmax()]
    if len(frame) == 1:
        return f"Half of the runs are off by less than {percent(low['median'])}"
    return f"Median errors range from {percent(low['median'])} to {percent(high['median'])} ({high['row']})"


def percent(value: float) -> str:
    """Return a percentage with two digits.

    Examples
    --------
    >>> percent(7.43), percent(143.2)
    ('7.4 %', '143 %')
    """
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def coverage(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the share of runs inside their interval, by group, beside the nominal coverage.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `share`, `low`, `high` (the range of chance), in per cent,
        `verdict` (a key of `COVERED`), `text` (words at the right).
    title : str, optional
        The takeaway; the number of groups below the range of chance by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `promised`, the nominal coverage [%].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", 90.0, 70.0, 88.0, "more than chance", ""], ["b", 50.0, 70.0, 88.0, "less than chance", ""]]
    >>> coverage(pd.DataFrame(rows, columns=["row", "share", "low", "high", "verdict", "text"])).title.text
    '1 of 2 groups is inside its interval less often than chance allows'
    """
    scale = alt.Scale(domain=[0, 100], nice=False)
    x = alt.X("share:Q", title="Runs inside their 80 % interval [%]", scale=scale, axis=alt.Axis(tickCount=6))
    base, y, tip = alt.Chart(), look.rows_axis(_ROOM), _tip("share", "low", "high")
    promised = look.one_row(at="promised").mark_rule(color=INK, strokeWidth=2, opacity=look.THROUGH)
    verdicts = look.looks("verdict", COVERED, look.top_legend())
    layers = [
        *look.row_text(base, _ROOM),
        base.mark_bar(height=10, opacity=0.3, color=MUTED).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y),
        promised.encode(x=alt.X("at:Q", scale=scale)),
        base.mark_point(filled=True, size=100, opacity=1).encode(x=x, y=y, tooltip=tip, **verdicts),
    ]
    words = (
        "One row for each group of runs: a mark at the share inside the 80 % interval, a grey bar at the range of "
        "chance around 80 % if runs were independent, and a rule at 80 %."
    )
    return look.finished(frame, layers, title or coverage_title(frame), _COVERAGE_KEY, words, promised=80)


def effects(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the median predicted over measured speed of each group, without a part and with it.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `before`, `after` (predicted over measured speed without it and
        with it), `verdict` (a key of `NEARER`), `few` (True where it rests on few runs).
    title : str, optional
        The takeaway; the number of groups nearer to 1 with it by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `low` and `high`, the ends of the axis.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", 1.4, 1.1, "more accurate", False], ["b", 0.9, 0.8, "less accurate", True]]
    >>> effects(pd.DataFrame(rows, columns=["row", "before", "after", "verdict", "few"])).title.text
    'With it, 1 of 2 groups is predicted more accurately'
    """
    ticks = alt.Axis(values=[0.125, 0.25, 0.5, 0.8, 1, 1.25, 2, 4, 8], format="~g", labelOverlap="greedy")
    scale = look.log_scale("low", "high")
    before, after = (
        alt.X(f"{end}:Q", title="Predicted / measured speed [-]", scale=scale, axis=ticks)
        for end in ("before", "after")
    )
    base = alt.Chart()
    faint = alt.condition("datum.few", alt.value(0.35), alt.value(1))
    tip = [alt.Tooltip("row:N", title="runs"), *look.number_tips(".2f", "before", "after")]
    marks, verdicts = {"y": look.rows_axis(), "opacity": faint, "tooltip": tip}, look.looks("verdict", NEARER, None)
    layers = [
        look.one_row(at="1").mark_rule(color=INK, strokeWidth=1).encode(x=alt.X("at:Q", scale=scale)),
        base.mark_rule(strokeWidth=3).encode(x=before, x2="after:Q", color=verdicts["color"], **marks),
        base.mark_point(size=60, strokeWidth=2, shape="diamond", color=INK).encode(x=before, **marks),
        base.mark_point(filled=True, size=80).encode(x=after, **verdicts, **marks),
    ]
    words = (
        "One row for each group of runs, on a logarithmic axis of predicted over measured speed: a line from a hollow "
        "diamond, the median of its runs without the part that is off, to a filled mark, the median with it, a cross "
        "where that is less accurate; a rule at 1, where the prediction is exact. Groups of fewer than five runs are "
        "faint."
    )
    return look.finished(frame, layers, title or effects_title(frame), _EFFECTS_KEY, words, **effect_ends(frame))


def effect_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the axis of `effects`: as far below 1 as above."""
    furthest = float(np.exp(np.abs(np.log(frame[["before", "after"]].to_numpy(dtype=float))).max()))
    high = next(end for end in (1.25, 1.5, 2, 3, 5, RATIOS[1]) if end >= min(furthest, RATIOS[1]))
    return {"low": 1 / high, "high": high}


def effects_title(frame: pd.DataFrame) -> str:
    """Return the takeaway of `effects`."""
    count = int((frame["verdict"] == "more accurate").sum())
    are = "is" if count == 1 else "are"
    return f"With it, {count or 'none'} of {len(frame)} groups {are} predicted more accurately"


def coverage_title(frame: pd.DataFrame) -> str:
    """Return the takeaway of `coverage`."""
    few = int((frame["verdict"] == "less than chance").sum())
    count, lie = few or "None", "is inside its" if few < 2 else "are inside their"
    return f"{count} of {len(frame)} groups {lie} interval less often than chance allows"


def verdict(share: float, low: float, high: float) -> str:
    """Return the verdict on a coverage beside the range of chance.

    Examples
    --------
    >>> verdict(0.5, 0.7, 0.9)
    'less than chance'
    """
    return "less than chance" if share < low else "more than chance" if share > high else "within chance"
