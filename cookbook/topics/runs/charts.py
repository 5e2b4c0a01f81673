"""Charts of a run: speed-up over devices, what a step is made of, a pipeline as an assembly line, what days cost, how
often to write a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MUTED, PALETTE, SHAPES, TIME_PARTS, alt

PHASES = {"forward": PALETTE[0], "backward": PALETTE[1], "weight gradients": PALETTE[2]}
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_SPEEDUPS_KEY = (
    "The dotted line is the ideal, bands are 80 % intervals, crosses measurements; click one for its source."
)
PARTS_KEY = "Bars as long as the first mean no loss. At the right is the share of the ideal."
_LINE_KEY = "Each row is a device and each number a micro-batch; in a gap the device waits."
# Pixels for the longest label of a row, and most bars that still hold a number.
_ROOM, _NUMBERED = 140, 160
_POWERS = [2.0**power for power in range(-7, 17)]


def speedups(frame: pd.DataFrame, title: str | None = None, key: str = _SPEEDUPS_KEY) -> Any:
    """Speed-up over devices, both logarithmic, beside the ideal.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `devices`, `speed_up`, `network` (four at most); where there are any also `low`, `high` (interval,
        else missing), `measured` (True for a measured point), `url` (of its source), `pinned` (True for a line kept
        to compare with).
    title : str, optional
        The takeaway; the largest speed-up by default.
    key : str
        What the marks mean.

    Returns
    -------
    altair.LayerChart
        Signals: `most`, the end of both axes; `least`, where the second begins; `networks`, in the order of colours.

    Examples
    --------
    >>> import pandas as pd
    >>> speedups(pd.DataFrame([{"devices": 8, "speed_up": 6.0, "network": "a"}])).title.text
    '8 devices work as fast as 6.0 of a'
    """
    scale = alt.Scale(type="log", base=2, nice=False, domainMin=alt.ExprRef("least"), domainMax=alt.ExprRef("most"))
    axis = alt.Axis(values=_POWERS, format=",~g")
    y = partial(alt.Y, title="Speed-up over one device, logarithmic", scale=scale, axis=axis)
    return _over_devices(frame, y, "speed_up", "datum.devices", title or speedups_title(frame), key, True)


def least(frame: pd.DataFrame) -> float:
    """Return the start of the axis of `speedups`: 1, or the power of two below the smallest speed-up."""
    return float(min(1.0, 2.0 ** np.floor(np.log2(frame["speed_up"].astype(float).min()))))


def efficiencies(frame: pd.DataFrame, title: str | None = None, key: str | list[str] = _SPEEDUPS_KEY) -> Any:
    """The same as a share of the ideal, where small losses can be seen.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `speedups`, with the share of the ideal as `share`, `low` and `high` [%].
    title : str, optional
        The takeaway; the smallest share by default.
    key : str or list of str
        What the marks mean, one line each.
    """
    ends = alt.Scale(domain=[0, 125], nice=False)
    ticks = alt.Axis(values=[0, 20, 40, 60, 80, 100, 120])
    y = partial(alt.Y, title="Share of the ideal speed-up [%]", scale=ends, axis=ticks)
    return _over_devices(frame, y, "share", "100", title or efficiencies_title(frame), key)


def _over_devices(
    frame: pd.DataFrame,
    y: Any,
    column: str,
    ideal: str,
    title: str,
    key: str | list[str],
    log: bool = False,
) -> Any:
    fewest = int(frame["devices"].min())
    counts = alt.Scale(type="log", base=2, nice=False, domainMin=fewest, domainMax=alt.ExprRef("most"))
    x = alt.X("devices:Q", title="Devices, logarithmic", scale=counts, axis=alt.Axis(values=_POWERS, format=",d"))
    looks = {"domain": alt.ExprRef("networks")}
    colour = alt.Color("network:N", scale=alt.Scale(range=list(PALETTE[:4]), **looks), legend=None)
    dash = alt.StrokeDash("network:N", scale=alt.Scale(range=list(_DASHES), **looks), legend=None)
    shape = alt.Shape("network:N", scale=alt.Scale(range=list(SHAPES[:4]), **looks), legend=None)
    tip = [
        alt.Tooltip("network:N"),
        alt.Tooltip("devices:Q", format=",d"),
        alt.Tooltip(f"{column}:Q", title=column.replace("_", "-"), format=",.3~g"),
    ]
    where = {"x": x, "y": y(f"{column}:Q")}
    predicted, pinned = (
        alt.Chart().transform_filter(which) for which in ("!datum.measured && !datum.pinned", "datum.pinned")
    )
    both = look.one_row(both="[1, most]").transform_flatten(["both"], ["devices"])
    both = both.transform_calculate(**{column: ideal})
    band = predicted.transform_filter("isValid(datum.low)").mark_area(opacity=0.15, clip=True)
    crossed: dict[str, Any] = {"shape": "cross", "angle": 45, "size": 50, "filled": True, "color": INK, "opacity": 0.55}
    points = alt.Chart().transform_filter("datum.measured").mark_point(**crossed, clip=True, cursor="pointer")
    layers = [
        band.encode(x=x, y=y("low:Q"), y2="high:Q", color=colour),
        both.mark_line(color=MUTED, strokeDash=[2, 4], clip=True).encode(**where),
        pinned.mark_line(color=MUTED, strokeWidth=4, opacity=0.6, clip=True).encode(**where),
        predicted.mark_line(clip=True).encode(**where, color=colour, strokeDash=dash),
        predicted.mark_point(filled=True, size=45, opacity=1, clip=True).encode(
            **where, color=colour, shape=shape, tooltip=tip
        ),
        points.encode(**where, tooltip=tip, href="url:N"),
        *look.end_names(
            predicted, "network", **where, colour=colour, log=log, gap="0.07 * log(most / least)" if log else "8"
        ),
    ]
    networks = list(dict.fromkeys(_predicted(frame)["network"]))
    words = (
        "Lines of the speed-up over one device against devices, both logarithmic; a dotted line is the ideal, a band "
        "an 80 % interval. Crosses are measured speed-ups."
    )
    start = least(frame) if "speed_up" in frame else 1
    signals = {"most": int(frame["devices"].max()), "least": start, "networks": networks}
    return look.finished(frame, layers, title, key, words, **signals)


def _predicted(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that are neither measured nor pinned."""
    frame = frame.reset_index(drop=True)
    for name in ("measured", "pinned"):
        frame = frame[~frame[name].astype(bool)] if name in frame else frame
    return frame


def efficiencies_title(frame: pd.DataFrame) -> str:
    """Takeaway of `efficiencies`."""
    own = _predicted(frame)
    last = own[own["devices"] == own["devices"].max()]
    low, high = (last.loc[at] for at in (last["share"].idxmin(), last["share"].idxmax()))
    where = f"of the ideal are left on {low['devices']:,} devices"
    if len(last) == 1:
        return f"{low['share']:.0f} % {where}"
    return f"{low['share']:.0f} % ({low['network']}) to {high['share']:.0f} % ({high['network']}) {where}"


def speedups_title(frame: pd.DataFrame) -> str:
    """Takeaway of `speedups`."""
    own = _predicted(frame)
    last = own.loc[own["devices"].idxmax()]
    first = own[own["network"] == last["network"]]
    best = first.loc[first["speed_up"].idxmax()]
    if best["devices"] < last["devices"]:
        return f"{last['network']} is fastest on {best['devices']:,.0f} devices: more make it slower"
    return f"{last['devices']:,.0f} devices work as fast as {_figure(last['speed_up'])} of {last['network']}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:#.2g}".rstrip(".")


def step_parts(
    frame: pd.DataFrame,
    title: str | None = None,
    axis: str = "Device time per sample [ms]",
    key: str = PARTS_KEY,
    parts: Mapping[str, str] | None = None,
) -> Any:
    """Return the chart of the parts of a step, one stacked bar per row.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `part` (a key of `parts`), `value` (in the unit that the
        axis says), `text` (words at the right of the row, once a row); where there is an interval of the whole, `low`
        and `high`, its ends, once a row.
    title : str, optional
        The takeaway; longest and shortest bar by default.
    axis : str
        What the bars measure, with its unit.
    key : str
        What the marks mean.
    parts : mapping of str to str, optional
        Colour of each part, in their order; those of `TIME_PARTS` by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `most`, the end of the axis; `parts`, those that are named: what is not
        among them is drawn as "other".

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["1", "compute", 2.0, ""], ["8", "compute", 2.0, ""], ["8", "waiting", 1.0, ""]]
    >>> step_parts(pd.DataFrame(rows, columns=["row", "part", "value", "text"])).title.text
    '1 takes least, 8 1.5 times as long'
    """
    colours = {**(parts or TIME_PARTS), "other": MUTED}
    colour = look.coloured(
        "shown", colours, look.top_legend(columns=3, symbolType="square", values=alt.ExprRef("parts"))
    )
    base = alt.Chart().transform_calculate(shown="indexof(parts, datum.part) < 0 ? 'other' : datum.part")
    base = base.transform_calculate(place=f"indexof({list(colours)}, datum.shown)")
    tip = [alt.Tooltip("row:N"), alt.Tooltip("part:N"), alt.Tooltip("value:Q", title=axis, format=",.3~g")]
    x = alt.X("value:Q", title=axis, scale=look.linear_scale("most"), stack="zero", axis=alt.Axis(tickCount=6))
    bars = base.mark_bar(clip=True).encode(
        x=x, y=look.rows_axis(_ROOM), tooltip=tip, color=colour, order=alt.Order("place:Q")
    )
    totals = frame.groupby("row", sort=False)["value"].sum()
    title = title or f"{totals.idxmin()} takes least, {totals.idxmax()} {totals.max() / totals.min():.1f} times as long"
    words = "Stacked bars, one per row: the parts of a step in one fixed order and colour."
    whisker = (
        look.rows_with("high")
        .mark_rule(strokeWidth=2, color=INK, clip=True)
        .encode(x=alt.X("low:Q", scale=look.linear_scale("most")), x2="high:Q", y=look.rows_axis(_ROOM))
    )
    layers = [*look.row_text(alt.Chart(), _ROOM), bars, whisker]
    return look.finished(frame, layers, title, key, words, **part_ends(frame, parts or TIME_PARTS))


def part_rows(labels: Iterable[str], parts: pd.DataFrame, beside: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the frame of `step_parts`: rows of `parts` for each label, that of compute with `beside`."""
    rows = zip(labels, parts.to_dict("records"), beside, strict=True)
    return pd.DataFrame(
        [
            {"row": label, "part": part, "value": float(f"{value:.5g}"), **(once if part == "compute" else {})}
            for label, values, once in rows
            for part, value in values.items()
            if np.isfinite(value)
        ]
    )


def part_ends(frame: pd.DataFrame, parts: Mapping[str, str] = TIME_PARTS) -> dict[str, Any]:
    """Signals of `step_parts` that follow from its frame."""
    return {"most": look.longest_row(frame), "parts": look.large_parts(frame, parts)}


def assembly_line(frame: pd.DataFrame, title: str | None = None) -> Any:
    """A pipeline as an assembly line: every pass of every micro-batch on its device.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (device, in order from the top), `start`, `end` (both in one unit of time), `phase` (a key of
        `PHASES`), `micro_batch`; `faded` (True for passes that stand back), where there are any.
    title : str, optional
        The takeaway; the number of passes by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `most`, the end of the axis.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"row": "device 1", "start": 0.0, "end": 1.0, "phase": "forward", "micro_batch": 1}
    >>> assembly_line(pd.DataFrame([row])).title.text
    '1 passes on 1 devices'
    """
    scale = look.linear_scale("most")
    x = alt.X("start:Q", title="Time [ms]", scale=scale)
    tip = [
        alt.Tooltip("row:N", title="device"),
        alt.Tooltip("micro_batch:Q", title="micro-batch"),
        alt.Tooltip("phase:N"),
        *look.number_tips(",.4~g", "start", "end"),
    ]
    base, y, opacity = alt.Chart(), look.rows_axis(70), alt.condition("datum.faded", alt.value(0.3), alt.value(1))
    bars = base.mark_bar(stroke="#ffffff", strokeWidth=0.5).encode(
        x=x,
        x2="end:Q",
        y=y,
        color=look.coloured("phase", PHASES, look.top_legend(symbolType="square")),
        tooltip=tip,
        opacity=opacity,
    )
    wide = base.transform_joinaggregate(n="count()").transform_filter(f"datum.n <= {_NUMBERED}")
    wide = wide.transform_calculate(middle="(datum.start + datum.end) / 2")
    # White by name stays white in the dark theme; what stands back is near the paper, so its numbers are in ink.
    numbers = wide.mark_text(fontSize=12).encode(
        x=alt.X("middle:Q", scale=scale),
        y=y,
        text="micro_batch:Q",
        color=alt.condition("datum.faded", alt.value(look.INK), alt.value("white")),
    )
    takeaway = f"{len(frame):,} passes on {frame['row'].nunique()} devices"
    words = "One row per device, time to the right, a bar for each forward and backward pass of a micro-batch."
    return look.finished(frame, [bars, numbers], title or takeaway, _LINE_KEY, words, most=float(frame["end"].max()))


_CURVE_KEY = "Numbers are devices. The cross is the 80 % interval of the days, and the range of the cost by price."
_HOURS_KEY = "Numbers are devices. The cross is the 80 % interval of the days."
_CHECKPOINTS_KEY = "The line is at the median of published failure rates, the band at their extremes."
_LAYOUTS_KEY = "Lines are 80 % intervals. At the right are the days, and the memory of the fullest device."


def days_usd(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the cost of a run over its duration, a point for each number of devices.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (curve, here, ghost, deadline or budget), `days`, `cost` [USD], `text` (words beside the
        mark), `devices`; `low`, `high` [days] and `least`, `most` [USD] of what is here.
    title : str, optional
        The takeaway; the cheapest and the fastest by default.

    Returns
    -------
    altair.LayerChart
        Signals: `x_low`, `x_high`, `y_low`, `y_high`, the ends of the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["curve", 20.0, 2e6, "64"], ["curve", 11.0, 2.2e6, "128"]]
    >>> days_usd(pd.DataFrame(rows, columns=["what", "days", "cost", "text"])).title.text
    '128 devices are 1.82 times as fast as 64, for 1.1 times the cost'
    """
    return _curve(frame, "Cost [$], logarithmic", _CURVE_KEY, title or curve_title(frame))


def days_hours(frame: pd.DataFrame, title: str | None = None) -> Any:
    """The same where no price is known: device-hours over days.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `days_usd`; `cost` in device-hours.
    title : str, optional
        The takeaway; the cheapest and the fastest by default.
    """
    title = title or curve_title(frame, "device-hours")
    return _curve(frame, "Device-hours, logarithmic (no price known)", _HOURS_KEY, title)


def _curve(frame: pd.DataFrame, axis: str, key: str, title: str) -> Any:
    frame = frame.assign(**{name: frame.get(name) for name in ("devices", "low", "high", "least", "most", "text")})
    across, up = look.log_scale("x_low", "x_high"), look.log_scale("y_low", "y_high")
    x = alt.X(
        "days:Q", title="Days from the first to the last token, logarithmic", scale=across, axis=look.step_ticks()
    )
    y = alt.Y("cost:Q", title=axis, scale=up, axis=look.step_ticks("~s"))
    tip = [
        alt.Tooltip("text:N", title="devices"),
        alt.Tooltip("days:Q", format=",.3~g"),
        alt.Tooltip("cost:Q", title=axis.split(",")[0], format=",.3~s"),
    ]
    kinds = ("curve", "here", "ghost", "deadline", "budget")
    curve, here, ghost, deadline, budget = (look.rows_of(kind) for kind in kinds)
    words = {"fontSize": 12, "color": INK}
    every = curve.transform_window(at="row_number()", sort=[alt.SortField("devices")]).transform_filter(
        "!narrow || datum.at % 3 == 1"
    )
    cross = here.mark_rule(color=PALETTE[1], strokeWidth=2, clip=True)
    limit: dict[str, Any] = {"color": MUTED, "strokeWidth": 2, "strokeDash": [6, 4], "clip": True}
    layers = [
        deadline.mark_rule(**limit).encode(x=x),
        deadline.mark_text(**look.inward(6), dy=10, **words).encode(x=x, y=alt.value(0), text="text:N"),
        budget.mark_rule(**limit).encode(y=y),
        budget.mark_text(align="right", dx=-6, dy=-8, **words).encode(x=alt.value("width"), y=y, text="text:N"),
        ghost.mark_point(size=110, shape="square", color=MUTED, strokeWidth=2, clip=True).encode(x=x, y=y, tooltip=tip),
        cross.encode(x=alt.X("low:Q", scale=across), x2="high:Q", y=y),
        cross.encode(x=x, y=alt.Y("least:Q", scale=up), y2="most:Q"),
        curve.mark_line(color=PALETTE[0], clip=True).encode(x=x, y=y, order="devices:Q"),
        curve.mark_point(filled=True, size=45, opacity=1, color=PALETTE[0], clip=True).encode(x=x, y=y, tooltip=tip),
        every.mark_text(dy=-12, clip=True, **words).encode(x=x, y=y, text="text:N"),
        here.mark_point(filled=True, size=110, opacity=1, shape="square", color=PALETTE[1], clip=True).encode(
            x=x, y=y, tooltip=tip
        ),
    ]
    description = (
        "A line through numbers of devices: what the run costs over the days that it takes, both logarithmic. A cross "
        "marks the number chosen, with its intervals; dashed rules are the deadline and the budget."
    )
    return look.finished(frame, layers, title, key, description, **ends(frame))


def ends(frame: pd.DataFrame) -> dict[str, float]:
    """Ends of the axes, which move by steps of 1, 2 and 5."""
    days = [*frame["days"], *frame.get("low", []), *frame.get("high", [])]
    cost = [*frame["cost"], *frame.get("least", []), *frame.get("most", [])]
    (x_low, x_high), (y_low, y_high) = look.ends_around(days), look.ends_around(cost)
    return {"x_low": x_low, "x_high": x_high, "y_low": y_low, "y_high": y_high}


def curve_title(frame: pd.DataFrame, what: str = "cost") -> str:
    """Takeaway of `days_usd`; of `days_hours` with what = "device-hours"."""
    curve = frame[frame["what"] == "curve"].astype({"days": float, "cost": float})
    cheap, fast = (curve.loc[curve[name].idxmin()] for name in ("cost", "days"))
    if cheap["text"] == fast["text"]:
        return f"{cheap['text']} devices finish first, at the lowest {what}"
    faster, dearer = cheap["days"] / fast["days"], fast["cost"] / cheap["cost"]
    gain = f"{fast['text']} devices are {faster:.3g} times as fast as {cheap['text']}"
    return f"{gain}, for {dearer:.3g} times the {what}"


def layout_parts(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the parts of a step, one bar per configuration, as `step_parts` draws it.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `cookbook.charts.step_parts`, in seconds.
    title : str, optional
        The takeaway; longest and shortest bar by default.
    """
    return step_parts(frame, title, "Time of a step [s]", _LAYOUTS_KEY)


def checkpoints(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Useful share of the time over the work between two checkpoints.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (curve or mark), `minutes` of work between checkpoints, `useful` [%] with `low` and `high`
        of the curve, `text` of the marks.
    title : str, optional
        The takeaway; the best share by default.

    Returns
    -------
    altair.LayerChart
        Signals: `x_low`, `x_high`, `y_low`, the ends of the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["curve", 10.0, 90.0, 80.0, 95.0, None], ["curve", 30.0, 97.0, 90.0, 98.0, None]]
    >>> checkpoints(pd.DataFrame(rows, columns=["what", "minutes", "useful", "low", "high", "text"])).title.text
    'Goodput is at best 97.0 %'
    """
    x = alt.X(
        "minutes:Q",
        title="Work between checkpoints [min], logarithmic",
        axis=look.step_ticks(),
        scale=look.log_scale("x_low", "x_high"),
    )
    scale = alt.Scale(domainMin=alt.ExprRef("y_low"), domainMax=100, nice=False)
    y = alt.Y("useful:Q", title="Useful share of the time, goodput [%]", scale=scale, axis=alt.Axis(tickCount=6))
    tip = [
        alt.Tooltip("minutes:Q", format=",.3~g"),
        alt.Tooltip("useful:Q", title="useful [%]", format=".3~f"),
        alt.Tooltip("text:N", title="by"),
    ]
    curve, by = look.rows_of("curve"), {"Young 1974": (PALETTE[2], "triangle-up"), "Daly 2006": (PALETTE[1], "square")}
    size = alt.condition("datum.text == 'Young 1974'", alt.value(300), alt.value(60))
    points = (
        look.rows_of("mark")
        .mark_point(opacity=1, strokeWidth=2, clip=True)
        .encode(x=x, y=y, tooltip=tip, size=size, **look.looks("text", by, look.top_legend()))
    )
    band = curve.mark_area(color=PALETTE[0], opacity=0.2, clip=True)
    layers = [
        band.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        curve.mark_line(color=PALETTE[0], clip=True).encode(x=x, y=y, tooltip=tip),
        points,
    ]
    words = (
        "A curve over intervals between checkpoints, logarithmic: the share of the time that goes into work that is "
        "kept, which rises, peaks and falls; a band for other published failure rates, and marks at the intervals by "
        "Young and by Daly."
    )
    takeaway = f"Goodput is at best {frame['useful'].max():.1f} %"
    return look.finished(frame, layers, title or takeaway, _CHECKPOINTS_KEY, words, **checkpoint_ends(frame))


def checkpoint_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Ends of the axes of `checkpoints`."""
    x_low, x_high = look.ends_around(frame["minutes"])
    best = float(frame["useful"].max())
    worst = next((low for low in (98.0, 95.0, 90.0, 80.0, 60.0) if 100 - low > 3 * (100 - best)), 0.0)
    return {"x_low": x_low, "x_high": x_high, "y_low": worst}
