"""Charts of many devices: one figure a device with its interval, operations under rooflines, growth over the years."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cookbook.charts.look import INK, MUTED, PALETTE, PAPER, SHAPES
from cookbook.charts.rows import alt, decades, row_text, rows_axis, rows_param, titled

if TYPE_CHECKING:
    import pandas as pd

# How a figure is known: a colour and a shape, and a word in the legend.
EVIDENCE = {
    "measured here": (PALETTE[0], "circle"), "sibling measured": (PALETTE[2], "diamond"),
    "datasheet only": (PALETTE[1], "square"),
}  # fmt: skip
BOUNDS = {"compute": (PALETTE[0], "circle"), "memory": (PALETTE[1], "diamond")}
AXES = {
    "throughput": "Samples a second, logarithmic",
    "energy": "Energy of the device alone for one sample [J], logarithmic",
    "cost": "Price of a million samples [USD], logarithmic",
}
_KEYS = {
    "throughput": "Bar: 80 % interval. Grey tick: at the peak of the datasheet. Click a mark to look at its device.",
    "energy": "Bar: interval of rate and power together. Not validated: nobody's power was measured here.",
    "cost": "Bar: cheapest hour at the fastest end to dearest hour at the slowest. Prices as dated in the table.",
}
_ROOF_KEY = "A mark for each kind of operation, larger where it takes longer. Click one to read its numbers."
_GROWTH_KEY = "Times the line's value in its first year. Marks: devices at launch; lines: least squares on logarithms."
_ROOM = 206
# Decades between two labels of roofs that can both be read.
_APART = 0.3
_SIGNS = tuple((PALETTE[at % 5], SHAPES[at % 5], dash) for at, dash in enumerate(
    ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 0], [6, 3], [2, 2])))  # fmt: skip


def per_device(frame: pd.DataFrame, title: str | None = None, what: str = "throughput") -> Any:
    """One figure a device, with its interval and how it is known.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `point`, `low`, `high`, `peak` (what the peak would give, else
        missing), `before` (pinned, else missing), `evidence` (a key of `EVIDENCE`), `text` (words at the right),
        `looked` (True for the device looked at), `control` and `value` (what a click sets).
    title : str, optional
        The takeaway; how many have a figure by default.
    what : {"throughput", "energy", "cost"}
        What the figure is, for axis and key.

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
    start, end = figure_domain(frame)
    scale = alt.Scale(type="log", domainMin=alt.ExprRef("start"), domainMax=alt.ExprRef("end"), nice=False)
    x = partial(alt.X, title=AXES[what], scale=scale, axis=_decades())
    names = list(EVIDENCE)
    colour = alt.Color("evidence:N", scale=alt.Scale(domain=names, range=[c for c, _ in EVIDENCE.values()]),
                       legend=alt.Legend(orient="top", title=None))  # fmt: skip
    shape = alt.Shape("evidence:N", scale=alt.Scale(domain=names, range=[s for _, s in EVIDENCE.values()]))
    tip = [alt.Tooltip("row:N", title="device"), alt.Tooltip("evidence:N"),
           *(alt.Tooltip(f"{name}:Q", format=",.3~g") for name in ("point", "low", "high"))]  # fmt: skip
    y, known = rows_axis(_ROOM), alt.Chart().transform_filter("isValid(datum.point)")
    tick = alt.Chart().transform_filter("isValid(datum.peak)").mark_tick(thickness=2, size=14, color=MUTED, clip=True)
    ghost = alt.Chart().transform_filter("isValid(datum.before)").mark_point(size=90, color=MUTED, filled=False)
    ring = known.transform_filter("datum.looked").mark_point(size=330, color=INK, strokeWidth=1.5, filled=False)
    layers = [
        *row_text(alt.Chart(), _ROOM),
        tick.encode(x=x("peak:Q"), y=y),
        ghost.encode(x=x("before:Q"), y=y),
        known.mark_rule(strokeWidth=3, clip=True).encode(x=x("low:Q"), x2="high:Q", y=y, color=colour),
        known.mark_point(filled=True, size=110, opacity=1, cursor="pointer", clip=True).encode(
            x=x("point:Q"), y=y, color=colour, shape=shape, tooltip=tip),
        ring.encode(x=x("point:Q"), y=y),
    ]  # fmt: skip
    ends = (alt.param(name="start", value=start), alt.param(name="end", value=end))
    chart = alt.layer(*layers, data=frame).add_params(rows_param(frame), *ends)
    return titled(chart, title or per_device_title(frame), _KEYS[what], per_device_description(frame, what))


def _decades() -> Any:
    """One tick a decade; 0.1 and not 100m."""
    label = "format(datum.value, datum.value < 1 ? '~g' : '~s')"
    return alt.Axis(labelExpr=label, values=[10.0**power for power in range(-9, 19)])


def figure_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of `per_device`: whole decades around intervals, peaks and pinned figures."""
    return decades([v for name in ("low", "high", "peak", "before") for v in frame[name]], 1.0, 1000.0)


def per_device_title(frame: pd.DataFrame) -> str:
    """Takeaway of `per_device`."""
    known = int(frame["point"].notna().sum())
    return f"{known} of {len(frame)} devices {'has' if known == 1 else 'have'} a figure"


def per_device_description(frame: pd.DataFrame, what: str) -> str:
    """Words for those who do not see the picture."""
    return (
        f"One row for each of {len(frame)} devices on a logarithmic axis ({AXES[what]}): a mark whose shape says how "
        "the figure is known, a bar for its interval, and where there is none the reason at the right."
    )


def roofline(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Operations of a network under the rooflines of devices.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (roof, op or label), `id` (device or operation), `x` (FLOP/B), `y` (FLOP/s), `looked`; of
        operations also `bound` (a key of `BOUNDS`), `share` of the time, `text`, and `control` and `value` (what a
        click sets).
    title : str, optional
        The takeaway; how many operations memory holds back by default.

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
    'Memory holds back 1 of 1 operations'
    """
    left, right, bottom, top = roofline_domain(frame)
    across = alt.Scale(type="log", domainMin=alt.ExprRef("left"), domainMax=alt.ExprRef("right"), nice=False)
    up = alt.Scale(type="log", domainMin=alt.ExprRef("bottom"), domainMax=alt.ExprRef("top"), nice=False)
    x = alt.X("x:Q", title="Arithmetic per byte moved [FLOP/B], logarithmic", scale=across, axis=_decades())
    y = alt.Y("y:Q", title="At best, unfused [FLOP/s], logarithmic", scale=up, axis=_decades())
    names = list(BOUNDS)
    colour = alt.Color("bound:N", scale=alt.Scale(domain=names, range=[c for c, _ in BOUNDS.values()]),
                       legend=alt.Legend(orient="top", title="held back by", titleOrient="left"))  # fmt: skip
    shape = alt.Shape("bound:N", scale=alt.Scale(domain=names, range=[s for _, s in BOUNDS.values()]))
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, 0.25], range=[40, 500], clamp=True), legend=None)
    tip = [alt.Tooltip("text:N", title="operation"), alt.Tooltip("x:Q", title="FLOP/B", format=",.3~g"),
           alt.Tooltip("y:Q", title="FLOP/s at best", format=".3~s"),
           alt.Tooltip("share:Q", title="of the time", format=".1%")]  # fmt: skip
    roof, ops = _part("roof"), _part("op")
    line = {"x": x, "y": y, "detail": "id:N"}
    chosen = ops.transform_filter("datum.looked").mark_point(size=620, color=INK, strokeWidth=2, filled=False)
    layers = [
        roof.transform_filter("!datum.looked").mark_line(color=MUTED, strokeWidth=1, clip=True).encode(**line),
        roof.transform_filter("datum.looked").mark_line(color=INK, strokeWidth=2.5, clip=True).encode(**line),
        ops.mark_point(filled=True, opacity=0.75, cursor="pointer", clip=True).encode(
            x=x, y=y, color=colour, shape=shape, size=size, tooltip=tip),
        chosen.encode(x=x, y=y),
        _part("label").mark_text(align="right", dy=-10, stroke=PAPER, strokeWidth=4, color=PAPER).encode(
            x=x, y=y, text="text:N"),
        _part("label").mark_text(align="right", dy=-10, color=INK).encode(x=x, y=y, text="text:N"),
    ]  # fmt: skip
    ends = zip(("left", "right", "bottom", "top"), (left, right, bottom, top), strict=True)
    chart = alt.layer(*layers, data=frame).add_params(*(alt.param(name=name, value=value) for name, value in ends))
    return titled(chart, title or roofline_title(frame), _ROOF_KEY, roofline_description(frame))


def under_roofs(ops: pd.DataFrame, lines: Callable[[float, float], pd.DataFrame], chosen: str, on: str) -> pd.DataFrame:
    """What `roofline` draws, from operations and the roofs of devices.

    Parameters
    ----------
    ops : pandas.DataFrame
        name, kind, count, intensity, attainable_flops, bound_by and share of each operation.
    lines : callable
        From the ends of the axis of intensity to key, name, intensity, attainable_flops of each corner of each roof.
    chosen, on : str
        Name of the operation, and key of the device, that are looked at.
    """
    import pandas as pd

    alike = [f"{op.kind} {op.name}" + (f" and {op.count - 1:,.0f} alike" if op.count > 1 else "")
             for op in ops[["kind", "name", "count"]].itertuples(index=False)]  # fmt: skip
    spots = pd.DataFrame({
        "what": "op", "id": ops["name"], "x": ops["intensity"], "y": ops["attainable_flops"], "bound": ops["bound_by"],
        "share": ops["share"], "text": alike, "looked": ops["name"] == chosen, "control": "op", "value": ops["name"],
    })  # fmt: skip
    spots = spots[spots["x"] > 0]
    left, right = roofline_domain(spots)[:2]
    corners = lines(left, right)
    roofs = pd.DataFrame({
        "what": "roof", "id": corners["key"], "x": corners["intensity"], "y": corners["attainable_flops"],
        "looked": corners["key"] == on, "text": corners["name"].str.split(" (", regex=False).str[0],
    })  # fmt: skip
    frame = pd.concat([roofs, spots, _labels(roofs, right)], ignore_index=True)
    return frame.assign(looked=frame["looked"].astype(bool))


def _labels(roofs: pd.DataFrame, right: float) -> pd.DataFrame:
    """Names of roofs at their right ends: of the device looked at, and of others where there is room."""
    ends = roofs[roofs["x"] == right].sort_values(["looked", "y"], ascending=False, kind="stable")
    taken: list[float] = []
    for at, height in zip(ends.index, (math.log10(y) for y in ends["y"]), strict=True):
        free = all(abs(height - other) > _APART for other in taken)
        taken += [height] if free else []
        ends.loc[at, "what"] = "label" if free else "none"
    return ends[ends["what"] == "label"].assign(x=right * 0.93)


def _part(name: str) -> Any:
    return alt.Chart().transform_filter(f"datum.what == '{name}'")


def roofline_domain(frame: pd.DataFrame) -> tuple[float, float, float, float]:
    """Ends of both axes of `roofline`: whole decades around its operations, and up to the highest roof."""
    ops, roofs = frame[frame["what"] == "op"], frame[frame["what"] == "roof"]
    left, right = decades(ops["x"], 0.1, 1000.0)
    bottom = decades(ops["y"], 1e9, 1e15)[0]
    # Marks on the highest roof, and its name, need room above it.
    return left, max(right, 1000.0), bottom, decades([2 * y for y in (*ops["y"], *roofs["y"])], 1e9, 1e15)[1]


def roofline_title(frame: pd.DataFrame) -> str:
    """Takeaway of `roofline`."""
    ops = frame[frame["what"] == "op"]
    return f"Memory holds back {int((ops['bound'] == 'memory').sum())} of {len(ops)} operations"


def roofline_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    ops, roofs = frame[frame["what"] == "op"], frame.loc[frame["what"] == "roof", "id"].nunique()
    return (
        f"{len(ops)} operations on two logarithmic axes, arithmetic per byte and rate at best, under the rooflines of "
        f"{roofs} devices: a slope where memory is the limit, level where arithmetic is. The table lists operations."
    )


def growth(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What devices offered at launch, and the straight lines through their logarithms.

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
    >>> words = "a: x1.25"
    >>> rows = [["device", words, 2014.0, 1.0, "x"], ["line", words, 2014.0, 1.0, ""], ["line", words, 2024.0, 9.0, ""]]
    >>> growth(pd.DataFrame(rows, columns=["what", "words", "year", "value", "name"])).title.text
    'A year brings a x1.25'
    """
    names = list(dict.fromkeys(frame["words"]))
    first, last = float(frame["year"].min()) - 0.5, float(frame["year"].max()) + 0.3
    low, high = decades(frame["value"], 0.1, 1000.0)
    x = alt.X("year:Q", title="Launch [year]", axis=alt.Axis(format="d", tickMinStep=1),
              scale=alt.Scale(domain=[first, last], nice=False))  # fmt: skip
    y = alt.Y("value:Q", title="Times the first year's line, logarithmic", axis=_decades(),
              scale=alt.Scale(type="log", domain=[low, high], nice=False))  # fmt: skip
    looks, legend = zip(*(_SIGNS[at % len(_SIGNS)] for at in range(len(names))), strict=True), alt.Legend(
        orient="top", title="growth in a year", columns=2, symbolType="stroke", titleOrient="left")  # fmt: skip
    colours, shapes, dashes = (list(look) for look in looks)
    colour = alt.Color("words:N", scale=alt.Scale(domain=names, range=colours), legend=legend)
    shape = alt.Shape("words:N", scale=alt.Scale(domain=names, range=shapes), legend=None)
    dash = alt.StrokeDash("words:N", scale=alt.Scale(domain=names, range=dashes), legend=legend)
    tip = [alt.Tooltip("name:N", title="device"), alt.Tooltip("words:N", title="quantity"),
           alt.Tooltip("value:Q", title="times the first", format=",.3~g")]  # fmt: skip
    points = _part("device").mark_point(filled=True, size=60, opacity=0.8)
    layers = [
        _part("line").mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
        points.encode(x=x, y=y, color=colour, shape=shape, tooltip=tip),
    ]
    return titled(alt.layer(*layers, data=frame), title or growth_title(frame), _GROWTH_KEY, growth_description(frame))


def growth_title(frame: pd.DataFrame) -> str:
    """Takeaway of `growth`."""
    names = [words.replace(":", "") for words in dict.fromkeys(frame["words"])]
    return f"A year brings {names[0]}" + (f", but {names[-1]}" if len(names) > 1 else "")


def growth_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    devices = int((frame["what"] == "device").sum())
    return (
        f"{devices} marks over the year of launch on a logarithmic axis, and a straight line for each of "
        f"{frame['words'].nunique()} quantities, with its growth in a year in the legend."
    )
