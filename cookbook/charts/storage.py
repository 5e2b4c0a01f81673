"""Charts of an input chain: rates of its stages, utilisation over accelerators, epochs, and what to change first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cookbook.charts.engine import alt
from cookbook.charts.look import INK, MUTED, PALETTE
from cookbook.charts.rows import row_text, rows_axis, rows_param, titled

if TYPE_CHECKING:
    import pandas as pd

STATES = {"slowest stage": PALETTE[1], "below the demand": PALETTE[3], "keeps up": PALETTE[0], "the demand": MUTED}
PRICED = {"free": PALETTE[2], "has a price": PALETTE[0], "no price known": PALETTE[3], "as it is": MUTED}
TIMES = {"computing": PALETTE[0], "waiting for input": PALETTE[1], "writing checkpoints": PALETTE[3]}
LINES = {"later epochs": (PALETTE[0], [1, 0]), "first epoch": (PALETTE[1], [6, 4]), "pinned": (MUTED, [2, 3])}
# Pixels for the longest label: which rows are shown changes in place.
_ROOM = 148
_CHAIN_KEY = "Upright rule: what the accelerators could take. A bar that reaches the edge goes on. Hollow: pinned."
_SCALE_KEY = "Same hosts, same storage, more accelerators. Dashed rule: the utilisation to keep. Point: as chosen."
_EPOCH_KEY = "Time of one epoch, by what accelerators do in it."
_CHANGE_KEY = "Samples a second in later epochs after one change. Upright rule: what the accelerators could take."
_CLOCK = "format(datum.value / unit, '.3~g') + ' ' + clock"
_TICKS = "[0, 0.2 * most, 0.4 * most, 0.6 * most, 0.8 * most, most]"


def chain(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What each stage could deliver, beside what the accelerators could take.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (stage, in order from the top), `rate` [samples/s; missing where nothing limits], `state` (a
        key of `STATES`), `before` (rate when pinned, else missing), `text` (words at the right).
    title : str, optional
        The takeaway; the slowest stage by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `most`, the end of the axis; `demand`, where the rule stands.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["storage", 100.0, "slowest stage", None, ""], ["accelerators", 300.0, "keeps up", None, ""]]
    >>> chain(pd.DataFrame(rows, columns=["row", "rate", "state", "before", "text"])).title.text
    'Slowest stage: storage'
    """
    base = alt.Chart()
    hollow = base.transform_filter("isValid(datum.before)").mark_point(
        size=90, strokeWidth=2, color=INK, shape="diamond", clip=True
    )
    layers = [*_bars(frame, "state", STATES), hollow.encode(x=_rates("before"), y=rows_axis(_ROOM))]
    slow = frame.loc[frame["state"] == "slowest stage", "row"]
    words = title or f"Slowest stage: {slow.iloc[0] if len(slow) else 'none'}"
    return titled(_with_rates(layers, frame), words, _CHAIN_KEY, _told(frame, "stage of the input chain"))


def changes(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What each change alone would give.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (change, in order from the top), `rate` [samples/s], `state` (a key of `PRICED`), `text`.
    title : str, optional
        The takeaway; the first change by default.

    Returns
    -------
    altair.LayerChart
        Signals as for `chain`.
    """
    words = title or (f"First: {frame['row'].iloc[1]}" if len(frame) > 1 else "No change here brings half a per cent")
    layers = _bars(frame, "state", PRICED)
    return titled(_with_rates(layers, frame), words, _CHANGE_KEY, _told(frame, "change"))


def _bars(frame: pd.DataFrame, column: str, looks: dict[str, str]) -> list[Any]:
    """Bars from nothing, cut at the end of the axis, the rule of the demand, and words."""
    base = alt.Chart()
    scale = alt.Scale(domain=list(looks), range=list(looks.values()))
    tip = [
        alt.Tooltip("row:N", title="what"),
        alt.Tooltip("rate:Q", title="samples/s", format=",.4~s"),
        alt.Tooltip(f"{column}:N", title="state"),
    ]
    bar = base.transform_filter("isValid(datum.rate)").mark_bar(height={"band": 0.55}, clip=True).encode(
        x=_rates("rate"), y=rows_axis(_ROOM), tooltip=tip,
        color=alt.Color(f"{column}:N", scale=scale, legend=alt.Legend(orient="top", title=None)),
    )  # fmt: skip
    one = base.transform_aggregate(n="count()").transform_calculate(at="demand")
    return [*row_text(base, _ROOM), bar, one.mark_rule(color=INK, strokeWidth=2).encode(x=_rates("at"))]


def _rates(column: str) -> Any:
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("most"), nice=False, clamp=True)
    axis = alt.Axis(tickCount=5, labelExpr="format(datum.value, '~s')")
    return alt.X(f"{column}:Q", title="Samples a second", scale=scale, axis=axis)


def _with_rates(layers: list[Any], frame: pd.DataFrame) -> Any:
    ends = float(frame["rate"].max())
    ends = ends if ends > 0 else 1.0
    signals = [alt.param(name="most", value=ends), alt.param(name="demand", value=ends)]
    return alt.layer(*layers, data=frame).add_params(rows_param(frame), *signals)


def _told(frame: pd.DataFrame, what: str) -> str:
    return (
        f"Horizontal bars, one for each {what} ({len(frame)} rows), in samples a second on a linear axis; a vertical "
        "rule marks what the accelerators could take. Words at the right give the figures."
    )


def scaling(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Utilisation over the number of accelerators on the same hosts and storage.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `count`, `utilisation` [%], `line` (a key of `LINES`).
    title : str, optional
        The takeaway.

    Returns
    -------
    altair.LayerChart
        Signals: `most`, the end of the axis; `now` and `here`, the chosen number and its utilisation [%]; `bar`, the
        utilisation to keep [%].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"count": [1, 2], "utilisation": [99.0, 60.0], "line": ["later epochs"] * 2})
    >>> scaling(rows).title.text
    'Utilisation from 99 % to 60 %'
    """
    x = alt.X("count:Q", title="Accelerators, logarithmic", axis=alt.Axis(values=[2**power for power in range(21)],
              labelExpr="format(datum.value, ',')"),
              scale=alt.Scale(type="log", base=2, domainMin=1, domainMax=alt.ExprRef("most"), nice=False))  # fmt: skip
    y = alt.Y("utilisation:Q", title="Accelerator utilisation [%]", scale=alt.Scale(domain=[0, 100], nice=False))
    base, names = alt.Chart(), list(LINES)
    colour = alt.Scale(domain=names, range=[colour for colour, _ in LINES.values()])
    dash = alt.Scale(domain=names, range=[dash for _, dash in LINES.values()])
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolStrokeWidth=2.5)
    lines = base.mark_line(strokeWidth=2.5, clip=True).encode(
        x=x, y=y, color=alt.Color("line:N", scale=colour, legend=legend),
        strokeDash=alt.StrokeDash("line:N", scale=dash, legend=legend),
        tooltip=[alt.Tooltip("count:Q", format=","), alt.Tooltip("utilisation:Q", format=".1f"), "line:N"],
    )  # fmt: skip
    one = base.transform_aggregate(n="count()")
    rule = one.transform_calculate(utilisation="bar").mark_rule(color=MUTED, strokeDash=[4, 4], strokeWidth=2)
    point = one.transform_calculate(count="now", utilisation="here").mark_point(
        filled=True, size=120, opacity=1, color=INK
    )
    chart = alt.layer(rule.encode(y=y), lines, point.encode(x=x, y=y), data=frame).add_params(
        alt.param(name="most", value=float(frame["count"].max())), alt.param(name="now", value=1.0),
        alt.param(name="here", value=float(frame["utilisation"].max())), alt.param(name="bar", value=90.0),
    )  # fmt: skip
    ends = frame["utilisation"].iloc[0], frame["utilisation"].min()
    words = title or f"Utilisation from {ends[0]:.0f} % to {ends[1]:.0f} %"
    about = (
        "Lines of accelerator utilisation over the number of accelerators, logarithmic from 1; one for later epochs, "
        "one for the first, one for a pinned scenario. A dashed rule is the utilisation to keep, a point the choice."
    )
    return titled(chart, words, _SCALE_KEY, about)


def epochs(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Time of the first and of a later epoch by what accelerators do in it.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (epoch, in order from the top), `part` (a key of `TIMES`), `start`, `end` [s], `text`.
    title : str, optional
        The takeaway.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `most`, the end of the axis [s]; `unit` and `clock`, the unit of its
        labels [s] and what it is called.

    Examples
    --------
    >>> import pandas as pd
    >>> row = ["first epoch", "computing", 0.0, 60.0, "1 min"]
    >>> epochs(pd.DataFrame([row], columns=["row", "part", "start", "end", "text"])).title.text
    'The longest epoch takes 60 s'
    """
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("most"), nice=False)
    x = alt.X("start:Q", title="Time of one epoch", scale=scale, axis=_clock())
    looks = alt.Scale(domain=list(TIMES), range=list(TIMES.values()))
    tip = [alt.Tooltip("row:N"), alt.Tooltip("part:N"), alt.Tooltip("start:Q", format=",.3~r", title="from [s]"),
           alt.Tooltip("end:Q", format=",.3~r", title="to [s]")]  # fmt: skip
    base = alt.Chart()
    bar = base.mark_bar(height={"band": 0.45}, clip=True).encode(
        x=x, x2="end:Q", y=rows_axis(_ROOM), tooltip=tip,
        color=alt.Color("part:N", scale=looks, legend=alt.Legend(orient="top", title=None)),
    )  # fmt: skip
    chart = alt.layer(*row_text(base, _ROOM), bar, data=frame).add_params(
        rows_param(frame), alt.param(name="most", value=float(frame["end"].max())),
        alt.param(name="unit", value=1.0), alt.param(name="clock", value="s"),
    )  # fmt: skip
    about = (
        f"Stacked horizontal bars of time for {frame['row'].nunique()} kinds of epoch: computing, waiting for input, "
        "writing checkpoints. Words at the right give the totals."
    )
    return titled(chart, title or f"The longest epoch takes {frame['end'].max():.0f} s", _EPOCH_KEY, about)


def _clock() -> Any:
    """Five steps of an axis of time in a unit that the signals give."""
    return alt.Axis(values=alt.ExprRef(_TICKS), labelExpr=_CLOCK)
