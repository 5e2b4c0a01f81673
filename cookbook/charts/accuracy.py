"""Charts of predictions beside what was measured: points, errors by group, coverage of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cookbook.charts.engine import alt
from cookbook.charts.look import INK, MUTED, PALETTE, SHAPES
from cookbook.charts.rows import narrow_param, row_text, rows_axis, rows_param, titled

BANDS = (0.2, 0.1)
OTHERS = "others"
# Ends of the axes of ratios and of errors [%]; what lies beyond is drawn at the edge.
RATIOS = (0.15, 8.0)
ERRORS = (1.0, 300.0)
COVERED = {
    "within chance": (PALETTE[2], "circle"),
    "too seldom": (PALETTE[1], "cross"),
    "more often": (PALETTE[0], "diamond"),
}
LISTS = ("publishers", "urls", "models", "devices", "units")
_REST = "#767676"
# Pixels for the longest label, "device and engine measured": which groups are shown changes in place.
_ROOM = 184
_POINTS_KEY = "Bands: 10 and 20 %. Rings: furthest off, numbered where there is room; a click opens the source."
_GROUPS_KEY = "Filled: median. Bar: middle half. Hollow (a term is off, or a rule): what it is compared with."
_COVERAGE_KEY = "Grey: what chance allows around 80 % in 95 of 100 cases, were runs independent."


def points(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Predicted over measured outcome of every run, over the number of its accelerators, with bands of 10 and 20 %.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `at` (accelerators, spread a little so that runs can be told apart), `ratio` (predicted over
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
    ends = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    ticks = alt.Axis(values=[10.0**power for power in range(6)], format="~s")
    x = alt.X("at:Q", title="Accelerators of the run, logarithmic, spread a little", scale=ends, axis=ticks)
    ratios = alt.Scale(type="log", domain=list(RATIOS), clamp=True, nice=False)
    ticks = alt.Axis(values=[0.25, 0.5, 0.8, 1, 1.25, 2, 4, 8], format="~g")
    y = alt.Y("ratio:Q", title="Predicted / measured, logarithmic", scale=ratios, axis=ticks)
    low, high = device_domain(frame)
    bands = [_ends(1 + share, 1 - share).mark_area(color=MUTED, opacity=0.22, clip=True).encode(x=x, y=y, y2="below:Q")
             for share in BANDS]  # fmt: skip
    exact = _ends(1, 1).mark_line(color=INK, strokeWidth=1, clip=True).encode(x=x, y=y)
    chart = alt.layer(*bands, _runs(x, y), exact, *_furthest(x, y), data=frame).add_params(
        alt.param(name="low", value=low), alt.param(name="high", value=high),
        alt.param(name="groups", value=list(dict.fromkeys(frame["group"]))), narrow_param(),
        *(alt.param(name=name, value=[]) for name in LISTS),
    )  # fmt: skip
    return titled(chart, title or points_title(frame), _POINTS_KEY, points_description(frame))


def device_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of `points`."""
    return 0.7, float(10 ** np.ceil(np.log10(max(frame["at"].max(), 2))))


def _ends(ratio: float, below: float) -> Any:
    """Two rows, at the ends of the axis, at one height and at another below."""
    one = alt.Chart().transform_aggregate(n="count()").transform_calculate(both="[low, high]")
    return one.transform_flatten(["both"], ["at"]).transform_calculate(ratio=str(ratio), below=str(below))


def _runs(x: Any, y: Any) -> Any:
    looks = {"domain": alt.ExprRef("groups")}
    legend = alt.Legend(orient="top", title=None, columns=alt.ExprRef("narrow ? 2 : 3"), symbolOpacity=1)
    named = alt.Chart().transform_calculate(
        publisher="publishers[datum.source]", url="urls[datum.source]",
        network="models[datum.model]", on="datum.count + ' x ' + devices[datum.device]",
        was="format(datum.measured, ',.4~g') + ' ' + units[datum.unit]",
        told="format(datum.predicted, ',.4~g') + ' ' + units[datum.unit]",
    )  # fmt: skip
    tip = [
        alt.Tooltip("network:N", title="network"),
        alt.Tooltip("on:N", title="on"),
        alt.Tooltip("was:N", title="measured"),
        alt.Tooltip("told:N", title="predicted"),
        alt.Tooltip("ratio:Q", title="predicted / measured", format=".3~g"),
        alt.Tooltip("publisher:N", title="published by"),
    ]
    marks = named.mark_point(filled=True, size=26, opacity=0.6, cursor="pointer")
    return marks.encode(
        x=x, y=y, tooltip=tip, href="url:N",
        color=alt.Color("group:N", scale=alt.Scale(range=[*PALETTE[:4], _REST], **looks), legend=legend),
        shape=alt.Shape("group:N", scale=alt.Scale(range=list(SHAPES), **looks), legend=legend),
    )  # fmt: skip


def _furthest(x: Any, y: Any) -> list[Any]:
    """Rings of the runs that the table lists, and where there is room their numbers, away from the line."""
    chosen = alt.Chart().transform_filter("isValid(datum.rank)")
    ring = chosen.mark_point(size=110, strokeWidth=2, color=INK, filled=False, shape="circle")
    away = alt.ExprRef(f"inrange(datum.ratio, [{RATIOS[0]}, 1]) ? 16 : -14")
    number = chosen.transform_filter("datum.rank > 0").mark_text(dy=away, fontSize=12, color=INK)
    return [ring.encode(x=x, y=y), number.encode(x=x, y=y, text="rank:Q")]


def points_title(frame: pd.DataFrame) -> str:
    """Takeaway of `points`."""
    inside = (abs(frame["ratio"] - 1) <= BANDS[0]).mean()
    return f"{100 * inside:.0f} % of {len(frame):,} runs are predicted within {100 * BANDS[0]:.0f} %"


def points_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    return (
        f"Scatter of {len(frame)} measured training runs: predicted over measured outcome, over the number of "
        "accelerators, both logarithmic. The line is 1; two grey bands around it are 10 and 20 %. The runs furthest "
        "off are ringed, and numbered as in the table below where there is room."
    )


def errors(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Error of each group: median, and the middle half of its runs.

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
    'Median errors from 8.0 % to 20 % (b)'
    """
    scale = alt.Scale(type="log", domain=list(ERRORS), clamp=True, nice=False)
    ticks = alt.Axis(values=[1, 2, 5, 10, 20, 50, 100, 200], format="~g")
    x = alt.X("median:Q", title="|predicted / measured - 1| [%], logarithmic", scale=scale, axis=ticks)
    tip = _tip("lower", "median", "upper")
    base = alt.Chart()
    bar = base.mark_bar(height=6, opacity=0.45, color=PALETTE[0], clip=True)
    dot = base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0])
    hollow = base.transform_filter("isValid(datum.before)").mark_point(size=90, strokeWidth=2, color=PALETTE[1])
    one = base.transform_aggregate(n="count()").transform_calculate(at="band")
    layers = [
        *row_text(alt.Chart(), _ROOM),
        one.mark_rule(color=MUTED, strokeWidth=2, strokeDash=[4, 4]).encode(x=alt.X("at:Q", scale=scale)),
        bar.encode(x=alt.X("lower:Q", scale=scale), x2="upper:Q", y=rows_axis(_ROOM), tooltip=tip),
        dot.encode(x=x, y=rows_axis(_ROOM), tooltip=tip),
        hollow.encode(x=alt.X("before:Q", scale=scale), y=rows_axis(_ROOM), shape=alt.value("diamond"), tooltip=tip),
    ]
    chart = alt.layer(*layers, data=frame).add_params(rows_param(frame), alt.param(name="band", value=20))
    return titled(chart, title or errors_title(frame), _GROUPS_KEY, errors_description(frame))


def _tip(*columns: str) -> list[Any]:
    return [alt.Tooltip("row:N", title="runs"), *(alt.Tooltip(f"{column}:Q", format=".1f") for column in columns)]


def errors_title(frame: pd.DataFrame) -> str:
    """Takeaway of `errors`."""
    low, high = frame.loc[frame["median"].idxmin()], frame.loc[frame["median"].idxmax()]
    if len(frame) == 1:
        return f"Half of the runs are off by less than {percent(low['median'])}"
    return f"Median errors from {percent(low['median'])} to {percent(high['median'])} ({high['row']})"


def percent(value: float) -> str:
    """A percentage with two digits.

    Examples
    --------
    >>> percent(7.43), percent(143.2)
    ('7.4 %', '143 %')
    """
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def errors_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    return (
        f"One row for each of {len(frame)} groups of runs: a mark at the median error and a bar over the middle half, "
        "on a logarithmic axis in per cent; a dashed rule at the band chosen. A hollow diamond is the model to compare "
        "with."
    )


def coverage(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Share of the runs of each group that lie inside their interval, beside what it promises.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `share`, `low`, `high` (what chance allows), in per cent,
        `verdict` (a key of `COVERED`), `text` (words at the right).
    title : str, optional
        The takeaway; how many groups lie below what chance allows by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `promised`, the nominal coverage [%].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", 90.0, 70.0, 88.0, "more often", ""], ["b", 50.0, 70.0, 88.0, "too seldom", ""]]
    >>> coverage(pd.DataFrame(rows, columns=["row", "share", "low", "high", "verdict", "text"])).title.text
    '1 of 2 groups lies inside its interval more seldom than chance allows'
    """
    scale = alt.Scale(domain=[0, 100], nice=False)
    x = alt.X("share:Q", title="Runs inside their 80 % interval [%]", scale=scale, axis=alt.Axis(tickCount=6))
    base, names = alt.Chart(), list(COVERED)
    one = base.transform_aggregate(n="count()").transform_calculate(at="promised")
    colour = alt.Scale(domain=names, range=[colour for colour, _ in COVERED.values()])
    legend = alt.Legend(orient="top", title=None)
    shape = alt.Scale(domain=names, range=[shape for _, shape in COVERED.values()])
    tip = _tip("share", "low", "high")
    layers = [
        *row_text(alt.Chart(), _ROOM),
        base.mark_bar(height=10, opacity=0.3, color=MUTED).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=rows_axis(_ROOM)
        ),
        one.mark_rule(color=INK, strokeWidth=2).encode(x=alt.X("at:Q", scale=scale)),
        base.mark_point(filled=True, size=100, opacity=1).encode(
            x=x, y=rows_axis(_ROOM), tooltip=tip, color=alt.Color("verdict:N", scale=colour, legend=legend),
            shape=alt.Shape("verdict:N", scale=shape, legend=legend),
        ),
    ]  # fmt: skip
    chart = alt.layer(*layers, data=frame).add_params(rows_param(frame), alt.param(name="promised", value=80))
    return titled(chart, title or coverage_title(frame), _COVERAGE_KEY, coverage_description(frame))


def coverage_title(frame: pd.DataFrame) -> str:
    """Takeaway of `coverage`."""
    few = int((frame["verdict"] == "too seldom").sum())
    count, lie = few or "None", "lies inside its" if few < 2 else "lie inside their"
    return f"{count} of {len(frame)} groups {lie} interval more seldom than chance allows"


def coverage_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    return (
        f"One row for each of {len(frame)} groups of runs: a mark at the share inside the 80 % interval, a grey bar at "
        "what chance allows around 80 %, were the runs independent, and a rule at 80 %."
    )


def verdict(share: float, low: float, high: float) -> str:
    """Word for a coverage beside what chance allows.

    Examples
    --------
    >>> verdict(0.5, 0.7, 0.9)
    'too seldom'
    """
    return "too seldom" if share < low else "more often" if share > high else "within chance"
