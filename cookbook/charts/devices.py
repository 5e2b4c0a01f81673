"""Charts for choosing devices: values with intervals, rooflines, growth; cost by location and its sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MUTED, PALETTE, PAPER, SHAPES, alt

# Evidence of a value: a colour and a shape, and a word in the legend.
EVIDENCE = {
    "measured here": (PALETTE[0], "circle"),
    "sibling measured": (PALETTE[2], "diamond"),
    "datasheet only": (PALETTE[1], "square"),
}
# Evidence of a prediction for a measured machine.
KNOWS = {
    "measured": (PALETTE[0], "circle"),
    "fitted": (PALETTE[0], "circle"),
    "held out": (PALETTE[2], "diamond"),
    "datasheet": (PALETTE[1], "square"),
}
BOUNDS = {"compute": (PALETTE[0], "circle"), "memory": (PALETTE[1], "diamond")}
AXES = {
    "throughput": "Samples per second, logarithmic",
    "energy": "Energy of the device alone [J per sample], logarithmic",
    "cost": "Price [$ per million samples], logarithmic",
    "products": "Rate of matmuls [FLOP/s], logarithmic",
    "memory": "Memory bandwidth [B/s], logarithmic",
    "networks": "Time of one step or pass [s], logarithmic",
}
_KEYS = {
    "throughput": "Bars are 80 % intervals, grey ticks the peak of the datasheet. Click a mark to select its device.",
    "energy": "The bar is the interval of rate and power combined. It is not validated, since no power was measured.",
    "cost": "The bar is from the fastest end at the lower quartile of prices to the slowest at the upper.",
    "products": "The bar is the middle 80 % of the samples, the grey tick the peak of the datasheet by share of cores.",
    "memory": "The bar is the middle 80 % of the samples, the grey tick the datasheet by share of cores.",
    "networks": "Marks are predictions, bars their 80 % intervals where they are known, grey ticks measurements.",
}
_ROOF_KEY = "Each mark is one kind of operation, larger where it takes longer. Click one to read its numbers."
_GROWTH_KEY = (
    "Values are relative to the line's first year. Marks are devices at launch; lines are least squares of logarithms."
)
_LABEL_WIDTH = 206
# Decades between two labels of roofs that can both be read.
_LABEL_GAP = 0.3
_SIGNS = tuple(
    (PALETTE[at % 5], SHAPES[at % 5], dash)
    for at, dash in enumerate(([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 0], [6, 3], [2, 2]))
)
# Verdicts on a location: colour and shape.
PLACES = {
    "cheapest feasible": (PALETTE[2], "diamond"),
    "feasible": (PALETTE[0], "circle"),
    "not feasible": (PALETTE[1], "cross"),
    "not known": (MUTED, "triangle-up"),
}
_CONTRACTS = ("owned", "rented")
_PLACE_LABEL_WIDTH = 216
_COSTS_KEY = "Marks are totals over the horizon, bars the 10th to 90th percentile. Rows without a mark lack a value."
_TORNADO_KEY = "Each bar moves one input from its low to its high end, with the others at their medians."
_PAID_KEY = (
    "Lines are payments so far, bands the 10th to 90th percentile. Diamonds count a purchase at its share of use."
)


def per_device(
    frame: pd.DataFrame,
    title: str | None = None,
    what: str = "throughput",
    evidence: Mapping[str, tuple[str, Any]] = EVIDENCE,
) -> Any:
    """Return a chart of one value per device, with its interval and evidence.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `point`, `low`, `high`, `peak` (value at peak, else
        missing), `before` (pinned, else missing), `evidence` (a key of `EVIDENCE`), `text` (words at the right),
        `looked` (True for the device looked at), `control` and `value` (what a click sets).
    title : str, optional
        The takeaway; by default the number of devices with a value.
    what : {"throughput", "energy", "cost", "products", "memory", "networks"}
        The quantity, for axis and key.
    evidence : mapping of str to (str, str)
        Colour and shape of each word of the column `evidence`; with a legend where there are several.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `start` and `end` of the axis.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"row": "a", "point": 2.0, "low": 1.0, "high": 4.0, "peak": 9.0, "before": None, "text": "2",
    ...        "evidence": "measured here", "looked": True, "control": "on", "value": "a"}
    >>> per_device(pd.DataFrame([row])).title.text
    '1 of 1 devices has a figure'
    """
    tenths = look.decade_axis(look.PLAIN_TENTHS, -9, 19)
    x = partial(alt.X, title=AXES[what], scale=look.log_scale("start", "end"), axis=tenths)
    evidence_looks = look.looks("evidence", evidence, look.top_legend() if len(evidence) > 1 else None)
    ends = look.number_tips(",.3~g", "point", "low", "high")
    tip = [alt.Tooltip("row:N", title="device"), alt.Tooltip("evidence:N"), *ends]
    y, marked = look.rows_axis(_LABEL_WIDTH), look.rows_with("point")
    tick = look.rows_with("peak").mark_tick(thickness=2, size=14, color=MUTED, clip=True)
    ghost = look.rows_with("before").mark_point(size=90, color=MUTED, filled=False)
    ring = marked.transform_filter("datum.looked").mark_point(size=330, color=INK, strokeWidth=1.5, filled=False)
    layers = [
        *look.row_text(alt.Chart(), _LABEL_WIDTH),
        tick.encode(x=x("peak:Q"), y=y),
        ghost.encode(x=x("before:Q"), y=y),
        marked.mark_rule(strokeWidth=3, clip=True).encode(
            x=x("low:Q"), x2="high:Q", y=y, color=evidence_looks["color"]
        ),
        marked.mark_point(filled=True, size=110, opacity=1, cursor="pointer", clip=True).encode(
            x=x("point:Q"), y=y, tooltip=tip, **evidence_looks
        ),
        ring.encode(x=x("point:Q"), y=y),
    ]
    count = int(frame["point"].notna().sum())
    title = title or f"{count} of {len(frame)} devices {'has' if count == 1 else 'have'} a figure"
    words = (
        f"One row for each device on a logarithmic axis ({AXES[what]}): a mark whose shape says how the figure is "
        "known, a bar for its interval, and where there is none the reason at the right."
    )
    return look.finished(frame, layers, title, _KEYS[what], words, **figure_ends(frame))


def figure_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the axis of `per_device`: whole decades around intervals, peaks and pinned values."""
    values = [v for name in ("low", "high", "peak", "before") for v in frame[name]]
    return dict(zip(("start", "end"), look.decades(values, 1.0, 1000.0), strict=True))


def roofline(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of the operations of a network under the rooflines of devices.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (roof, op or label), `id` (device or operation), `x` (FLOP/B), `y` (FLOP/s), `looked`; of
        operations also `bound` (a key of `BOUNDS`), `share` of the time, `text`, and `control` and `value` (what a
        click sets).
    title : str, optional
        The takeaway; by default the number of memory-bound operations.

    Returns
    -------
    altair.LayerChart
        Signals: `left`, `right`, `bottom`, `top`, the ends of the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"what": "op", "id": "a", "x": 9.0, "y": 1e12, "bound": "memory", "share": 0.5, "text": "a",
    ...        "looked": True, "control": "op", "value": "a"}
    >>> roofline(pd.DataFrame([row])).title.text
    'Memory limits 1 of 1 operations'
    """
    tenths = look.decade_axis(look.PLAIN_TENTHS, -9, 19)
    x, y = look.log_plane("x", "Arithmetic per byte moved [FLOP/B]", "y", "Attainable rate, unfused [FLOP/s]", tenths)
    bound_looks = look.looks("bound", BOUNDS, look.top_legend(title="limited by", titleOrient="left"))
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, 0.25], range=[40, 500], clamp=True), legend=None)
    tip = [
        alt.Tooltip("text:N", title="operation"),
        alt.Tooltip("x:Q", title="FLOP/B", format=",.3~g"),
        alt.Tooltip("y:Q", title="attainable FLOP/s", format=".3~s"),
        alt.Tooltip("share:Q", title="of the time", format=".1%"),
    ]
    roof, ops, name = (look.rows_of(role) for role in ("roof", "op", "label"))
    line, label = {"x": x, "y": y, "detail": "id:N"}, {"align": "right", "dy": -10}
    chosen = ops.transform_filter("datum.looked").mark_point(size=620, color=INK, strokeWidth=2, filled=False)
    layers = [
        roof.transform_filter("!datum.looked").mark_line(color=MUTED, strokeWidth=1, clip=True).encode(**line),
        roof.transform_filter("datum.looked").mark_line(color=INK, strokeWidth=2.5, clip=True).encode(**line),
        ops.mark_point(filled=True, opacity=0.75, cursor="pointer", clip=True).encode(
            x=x, y=y, size=size, tooltip=tip, **bound_looks
        ),
        chosen.encode(x=x, y=y),
        name.mark_text(**label, stroke=PAPER, strokeWidth=4, color=PAPER).encode(x=x, y=y, text="text:N"),
        name.mark_text(**label, color=INK).encode(x=x, y=y, text="text:N"),
    ]
    bounds = frame.loc[frame["what"] == "op", "bound"]
    title = title or f"Memory limits {int((bounds == 'memory').sum())} of {len(bounds)} operations"
    words = (
        "Operations on two logarithmic axes, arithmetic per byte and rate at best, under the rooflines of devices: a "
        "slope where memory is the limit, level where arithmetic is. The table lists operations."
    )
    return look.finished(frame, layers, title, _ROOF_KEY, words, **roofline_ends(frame))


def under_roofs(ops: pd.DataFrame, lines: Callable[[float, float], pd.DataFrame], chosen: str, on: str) -> pd.DataFrame:
    """Return the frame that `roofline` draws, from operations and the roofs of devices.

    Parameters
    ----------
    ops : pandas.DataFrame
        name, kind, count, intensity, attainable_flops, bound_by and share of each operation.
    lines : callable
        Called with the ends of the intensity axis; returns key, name, intensity and attainable_flops of each corner
        of each roof.
    chosen, on : str
        Name of the selected operation, and key of the selected device.
    """
    labels = [
        f"{op.kind} {op.name}" + (f" and {op.count - 1:,.0f} alike" if op.count > 1 else "")
        for op in ops[["kind", "name", "count"]].itertuples(index=False)
    ]
    spots = pd.DataFrame(
        {
            "what": "op",
            "id": ops["name"],
            "x": ops["intensity"],
            "y": ops["attainable_flops"],
            "bound": ops["bound_by"],
            "share": ops["share"],
            "text": labels,
            "looked": ops["name"] == chosen,
            "control": "op",
            "value": ops["name"],
        }
    )
    spots = spots[spots["x"] > 0]
    ends = roofline_ends(spots)
    corners = lines(ends["left"], ends["right"])
    roofs = pd.DataFrame(
        {
            "what": "roof",
            "id": corners["key"],
            "x": corners["intensity"],
            "y": corners["attainable_flops"],
            "looked": corners["key"] == on,
            "text": corners["name"].str.split(" (", regex=False).str[0],
        }
    )
    frame = pd.concat([roofs, spots, _labels(roofs, ends["right"])], ignore_index=True)
    return frame.assign(looked=frame["looked"].astype(bool))


def _labels(roofs: pd.DataFrame, right: float) -> pd.DataFrame:
    """Return the names of roofs at their right ends: the selected device's, and others that do not overlap."""
    ends = roofs[roofs["x"] == right].sort_values(["looked", "y"], ascending=False, kind="stable")
    heights: list[float] = []
    for at, height in zip(ends.index, (math.log10(y) for y in ends["y"]), strict=True):
        free = all(abs(height - other) > _LABEL_GAP for other in heights)
        heights += [height] if free else []
        ends.loc[at, "what"] = "label" if free else "none"
    return ends[ends["what"] == "label"].assign(x=right * 0.93)


def roofline_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of both axes of `roofline`: whole decades around its operations, and up to the highest roof."""
    ops, roofs = frame[frame["what"] == "op"], frame[frame["what"] == "roof"]
    left, right = look.decades(ops["x"], 0.1, 1000.0)
    bottom = look.decades(ops["y"], 1e9, 1e15)[0]
    # Marks on the highest roof, and its name, need space above it.
    top = look.decades([2 * y for y in (*ops["y"], *roofs["y"])], 1e9, 1e15)[1]
    return {"left": left, "right": max(right, 1000.0), "bottom": bottom, "top": top}


def _grew(names: list[str]) -> str:
    """Return the growth of the first and the last of quantities such as "FLOP/s: 1.60×", as a sentence."""
    (first, rate), last = names[0].rsplit(": ", 1), names[-1].replace(":", "")
    return f"{first[:1].upper()}{first[1:]} grew {rate} per year" + (f", but {last}" if len(names) > 1 else "")


def growth(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of devices' values at launch, and the straight lines through their logarithms.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (device or line), `words` (the quantity), `year`, `value` (over the line's in its first year),
        `name` (of the device).
    title : str, optional
        The takeaway; the growth of the first and the last quantity by default.

    Returns
    -------
    altair.LayerChart

    Examples
    --------
    >>> import pandas as pd
    >>> words = "a: 1.25×"
    >>> rows = [["device", words, 2014.0, 1.0, "x"], ["line", words, 2014.0, 1.0, ""], ["line", words, 2024.0, 9.0, ""]]
    >>> growth(pd.DataFrame(rows, columns=["what", "words", "year", "value", "name"])).title.text
    'A grew 1.25× per year'
    """
    names = list(dict.fromkeys(frame["words"]))
    first, last = float(frame["year"].min()) - 0.5, float(frame["year"].max()) + 0.3
    low, high = look.decades(frame["value"], 0.1, 1000.0)
    x = alt.X(
        "year:Q",
        title="Launch [year]",
        axis=alt.Axis(format="d", tickMinStep=1),
        scale=alt.Scale(domain=[first, last], nice=False),
    )
    y = alt.Y(
        "value:Q",
        title="Times the first year's line, logarithmic",
        axis=look.decade_axis(look.PLAIN_TENTHS, -9, 19),
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
    )
    colours, shapes, dashes = map(list, zip(*(_SIGNS[at % len(_SIGNS)] for at in range(len(names))), strict=True))
    legend = look.top_legend(title="growth per year", columns=2, symbolType="stroke", titleOrient="left")
    colour = alt.Color("words:N", scale=alt.Scale(domain=names, range=colours), legend=legend)
    shape = alt.Shape("words:N", scale=alt.Scale(domain=names, range=shapes), legend=None)
    dash = alt.StrokeDash("words:N", scale=alt.Scale(domain=names, range=dashes), legend=legend)
    tip = [
        alt.Tooltip("name:N", title="device"),
        alt.Tooltip("words:N", title="quantity"),
        alt.Tooltip("value:Q", title="times the first year", format=",.3~g"),
    ]
    layers = [
        look.rows_of("line").mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
        look.rows_of("device")
        .mark_point(filled=True, size=60, opacity=0.8)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=tip),
    ]
    title = title or _grew(names)
    words = (
        f"{int((frame['what'] == 'device').sum())} marks over the year of launch on a logarithmic axis, and a straight "
        f"line for each of {len(names)} quantities, with its growth in a year in the legend."
    )
    return look.finished(frame, layers, title, _GROWTH_KEY, words)


def place_costs(
    frame: pd.DataFrame,
    title: str | None = None,
    axis: str = "Cost over the horizon [$], logarithmic",
    key: str = _COSTS_KEY,
    each: str = "option",
) -> Any:
    """Return a chart of a task's cost at each location, with its band.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `usd`, `low`, `high` [USD], `verdict` (a key of `PLACES`),
        `text` (words at the right).
    title : str, optional
        The takeaway; by default the cheapest suitable place.
    axis, key, each : str
        The quantity with its unit, the meaning of the marks, and the noun of a row.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `low` and `high`, the ends of the axis [USD].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", 90.0, 70.0, 120.0, "cheapest feasible", ""], ["b", 50.0, 40.0, 60.0, "not feasible", "late"]]
    >>> place_costs(pd.DataFrame(rows, columns=["row", "usd", "low", "high", "verdict", "text"])).title.text
    'a is the cheapest feasible option'
    """
    scale = look.log_scale("low", "high")
    x = alt.X("usd:Q", title=axis, scale=scale, axis=look.decade_axis(look.PLAIN_TENTHS, -4, 12))
    priced, y = look.rows_with("usd"), look.rows_axis(_PLACE_LABEL_WIDTH)
    verdict = look.looks("verdict", PLACES, look.top_legend(columns=4))
    tip = [alt.Tooltip("row:N", title=each), *look.number_tips(",.3~r", "low", "usd", "high")]
    layers = [
        *look.row_text(alt.Chart(), _PLACE_LABEL_WIDTH),
        priced.mark_bar(height=7, opacity=0.4, color=MUTED, clip=True).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=tip
        ),
        priced.mark_point(filled=True, size=110, opacity=1, clip=True).encode(x=x, y=y, tooltip=tip, **verdict),
    ]
    best = frame.loc[frame["verdict"] == "cheapest feasible", "row"]
    feasible = (frame["verdict"] == "feasible").any()
    none = f"No {each} is clearly the cheapest feasible one" if feasible else f"No {each} is feasible"
    title = title or (f"{best.iloc[0]} is the cheapest feasible {each}" if len(best) else none)
    words = (
        f"One row for each {each}: a mark at the cost on a logarithmic axis in dollars, a bar from low to high, and at "
        f"the right words on it or the reason why the {each} is not feasible."
    )
    return look.finished(frame, layers, title, key, words, **cost_ends(frame))


def cost_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the axis of `place_costs`: whole decades [USD]."""
    costs = frame[["low", "usd", "high"]].to_numpy(float).ravel()
    return dict(zip(("low", "high"), look.decades(costs, 100.0, 1e6), strict=True))


def tornado(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of each uncertain value's effect on one cost, the largest on top.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `start`, `end` (cost at either end of the range),
        `centre` (cost with all values at their medians) [USD], `text` (words at the right).
    title : str, optional
        The takeaway; by default the value with the largest effect.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `low` and `high`, the ends of the axis [USD].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["price", 10.0, 40.0, 20.0, ""], ["tariff", 19.0, 21.0, 20.0, ""]]
    >>> tornado(pd.DataFrame(rows, columns=["row", "start", "end", "centre", "text"])).title.text
    'The price decides: from $10 to $40'
    """
    scale, y = look.linear_scale("high", alt.ExprRef("low")), look.rows_axis(_PLACE_LABEL_WIDTH)
    x = alt.X("start:Q", title="Cost over the horizon [$]", scale=scale, axis=alt.Axis(format="~s"))
    tip = [alt.Tooltip("row:N", title="input"), *look.number_tips(",.3~f", "start", "end")]
    bar = alt.Chart().mark_bar(height=14, opacity=0.75, color=PALETTE[0])
    centre = alt.Chart().mark_rule(color=INK, strokeWidth=2, opacity=look.THROUGH)
    layers = [
        *look.row_text(alt.Chart(), _PLACE_LABEL_WIDTH),
        bar.encode(x=x, x2="end:Q", y=y, tooltip=tip),
        centre.encode(x=alt.X("mean(centre):Q", scale=scale)),
    ]
    first, last = sorted((float(frame["start"].iloc[0]), float(frame["end"].iloc[0])))
    title = title or f"The {frame['row'].iloc[0]} decides: from ${first:,.0f} to ${last:,.0f}"
    words = (
        "One horizontal bar for each uncertain figure, from the cost with the figure at its low end to that with it at "
        "its high end, the widest on top; a vertical rule at the cost with all at their medians."
    )
    return look.finished(frame, layers, title, _TORNADO_KEY, words, **tornado_ends(frame))


def tornado_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the axis of `tornado` [USD]: a little beyond the widest bar."""
    low, high = float(frame[["start", "end"]].min().min()), float(frame[["start", "end"]].max().max())
    room = 0.05 * (high - low) or 1.0
    return {"low": max(low - room, 0.0), "high": high + room}


def paid(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of the total paid after each month, owning and renting.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` ("owned" or "rented"), `month`, `usd`, `low`, `high` [USD], `text` (the place, in its last
        month), `counted` (cost that is compared, in the last month; missing elsewhere, or left out), `meets` (month in
        which both have cost the same, else missing).
    title : str, optional
        The takeaway; the month in which they meet by default.

    Returns
    -------
    altair.LayerChart
        Signals: `top`, the end of the axis [USD]; `last`, the last month.

    Examples
    --------
    >>> import pandas as pd
    >>> columns = ["what", "month", "usd", "low", "high", "text", "counted", "meets"]
    >>> rows = [["owned", 0, 20.0, 15.0, 30.0, "", 8.0, 10.0], ["rented", 12, 24.0, 20.0, 40.0, "cloud", 24.0, 10.0]]
    >>> paid(pd.DataFrame(rows, columns=columns)).title.text
    'Owning has paid for itself after 10 months'
    """
    scale, months = look.linear_scale("top"), look.linear_scale("last")
    x = alt.X("month:Q", title="Months since the start", scale=months, axis=alt.Axis(tickMinStep=1))
    y = alt.Y("usd:Q", title="Paid so far [$]", scale=scale, axis=alt.Axis(format="~s"))
    colour = look.coloured("what", dict(zip(_CONTRACTS, PALETTE[:2], strict=True)), None)
    dash = alt.StrokeDash("what:N", legend=None, scale=alt.Scale(domain=list(_CONTRACTS), range=[[1, 0], [6, 4]]))
    tip = [
        alt.Tooltip("what:N", title="option"),
        alt.Tooltip("month:Q", format=".0f"),
        *look.number_tips(",.3~f", "low", "usd", "high"),
    ]
    ends = [alt.Tooltip("text:N", title="option"), alt.Tooltip("counted:Q", title="cost counted", format=",.3~f")]
    base, meets = alt.Chart(), look.rows_with("meets").transform_aggregate(at="min(meets)")
    diamond: dict[str, Any] = {"filled": True, "shape": "diamond", "size": 160, "opacity": 1, "stroke": INK}
    layers = [
        base.mark_area(opacity=0.18, clip=True).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour),
        base.mark_line(clip=True).encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tip),
        meets.mark_rule(color=MUTED, strokeWidth=2, strokeDash=[2, 3]).encode(x=alt.X("at:Q", scale=months)),
        look.rows_with("counted")
        .mark_point(**diamond)
        .encode(x=x, y=alt.Y("counted:Q", scale=scale), color=colour, tooltip=ends),
        *look.end_names(base, "what", x, y, colour, "0.07 * top"),
    ]
    at, last = frame["meets"].dropna(), float(frame["month"].max())
    title = title or (
        "Owning does not pay for itself within the horizon"
        if at.empty
        else f"Owning has paid for itself after {at.iloc[0]:.0f} months"
    )
    words = (
        "Two lines over the months with bands: what owning has cost, from the price of the purchase upward, and what "
        "renting has cost, from nothing upward; a dotted rule where the medians meet; at the end a diamond at the cost "
        "of each that is compared, in which a purchase counts with the share of its years that is used."
    )
    return look.finished(frame, layers, title, _PAID_KEY, words, top=paid_top(frame), last=last)


def paid_top(frame: pd.DataFrame) -> float:
    """Return the end of the axis of `paid` [USD]: bands may exceed the chart, lines may not."""
    return look.nice_ceiling(1.5 * float(frame.reindex(columns=["usd", "counted"]).astype(float).max().max()))
