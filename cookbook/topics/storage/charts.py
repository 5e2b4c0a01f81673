"""Charts of a machine and of the input chain that feeds it.

Links in use, what accelerators get, samples a second over cores; rates of the stages, epochs, and what to change first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MUTED, PALETTE, PAPER, alt

# Use of a link: a colour, a width and a word, never a colour alone.
LEVELS = {
    "not used": ("#767676", 1),
    "below half used": (PALETTE[0], 2),
    "half used or more": (PALETTE[3], 4),
    "full": (PALETTE[1], 7),
}
FULL, HALF = 0.995, 0.5
# Ends of the axes of the drawing: names of rows stand at the left, arcs below.
_ACROSS, _DOWN = [-0.2, 1.02], [-0.26, 1.1]
_LEFT, _BENDS = -0.19, tuple(step / 12 for step in range(13))
# Two labels nearer than this would cover one another.
_WIDE, _HIGH = 0.075, 0.06
_ROOM = 120
_GRAPH_KEY = "Width and colour show the use of a link in its busier direction; equal links have one percentage."
_GETS_KEY = "Filled marks are actual rates, hollow marks the rates that keep the accelerator busy; per direction."
_CORES_KEY = "The solid line is one worker per core, with its 80 % interval; the dashed line is the chosen workers."


def level(share: float) -> str:
    """Return the word for the use of a link.

    Examples
    --------
    >>> level(0), level(0.2), level(0.5), level(1)
    ('not used', 'below half used', 'half used or more', 'full')
    """
    return list(LEVELS)[int(share > 0) + int(share >= HALF) + int(share >= FULL)]


def drawing(nodes: pd.DataFrame, links: pd.DataFrame, rows: Mapping[str, float]) -> pd.DataFrame:
    """Points of all nodes and links of a machine, as `machine` takes them; of links alike one has its share in words.

    Parameters
    ----------
    nodes : pandas.DataFrame
        By name: `x`, `y` (0 to 1), `row` (a key of `rows`), `text`, `tip`.
    links : pandas.DataFrame
        `start`, `end`, `share` of its rate, `text` (the share as a label), `tip`.
    rows : mapping of str to float
        Name of each row of nodes, and its height.
    """
    at = nodes.to_dict("index")
    found: list[tuple[Any, ...]] = []
    spots: list[tuple[float, float]] = []
    done = set()
    for place, link in enumerate(links.itertuples()):
        start, end = at[link.start], at[link.end]
        x, y = _points(start, end)
        found += [
            ("path", place, *spot, "", order, level(link.share), link.tip)
            for order, spot in enumerate(zip(x, y, strict=True))
        ]
        spot, alike = (_label(x), _label(y)), (start["row"], end["row"], link.text)
        free = all(abs(spot[0] - a) > _WIDE or abs(spot[1] - b) > _HIGH for a, b in spots)
        if link.share > 0 and alike not in done and free:
            done.add(alike)
            spots.append(spot)
            found.append(("share", -1, *spot, link.text, 0, "", ""))
    found += [("node", -1, node["x"], node["y"], node["text"], 0, "", node["tip"]) for node in at.values()]
    found += [("row", -1, _LEFT, y, name, 0, "", "") for name, y in rows.items()]
    return pd.DataFrame(found, columns=["what", "id", "x", "y", "text", "order", "level", "tip"])


def _label(ends: list[float]) -> float:
    """Return the position of a label: at the middle of an arc, beyond that of a line, where lines diverge."""
    return ends[len(ends) // 2] if len(ends) > 2 else 0.4 * ends[0] + 0.6 * ends[1]


def _points(start: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """A straight link, or an arc below a row for two nodes of the same; processors stand side by side."""
    (x, y), (x2, y2) = (start["x"], start["y"]), (end["x"], end["y"])
    if y != y2 or start["row"] == "processors":
        return [x, x2], [y, y2]
    depth = 0.04 + 0.36 * abs(x2 - x)
    return [x + (x2 - x) * t for t in _BENDS], [y - depth * 4 * t * (1 - t) for t in _BENDS]


def machine(frame: pd.DataFrame, title: str | None = None) -> Any:
    """A machine as a graph: nodes in rows by kind, links by how much of them is used.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (path, node, row or share), `x` and `y` (0 to 1), `text`. Of a path, several rows with the
        same `id`, in `order`, with `level` (a key of `LEVELS`) and `tip`; a node has a `tip` too.
    title : str, optional
        The takeaway; how many links are full by default.

    Returns
    -------
    altair.LayerChart

    Examples
    --------
    >>> import pandas as pd
    >>> ends = [["path", 0, 0.5, 1, "", 0, "full", "a to b"], ["path", 0, 0.5, 0, "", 1, "full", "a to b"]]
    >>> columns = ["what", "id", "x", "y", "text", "order", "level", "tip"]
    >>> machine(pd.DataFrame(ends, columns=columns)).title.text
    '1 of 1 links is full'
    """
    hidden = alt.Axis(labels=False, ticks=False, grid=False, title=None)
    x = alt.X("x:Q", scale=alt.Scale(domain=_ACROSS, nice=False), axis=hidden)
    y = alt.Y("y:Q", scale=alt.Scale(domain=_DOWN, nice=False), axis=hidden)
    tip = [alt.Tooltip("tip:N", title="what")]
    words = {"fontSize": 12, "baseline": "middle"}
    aside = {**words, "dy": alt.ExprRef("narrow ? -26 : 0")}
    node, row, share = (look.rows_of(what) for what in ("node", "row", "share"))
    square: dict[str, Any] = {"shape": "square", "size": 620, "filled": True, "color": PAPER, "opacity": 1}
    layers = [
        *_links(x, y),
        node.mark_point(**square, stroke=INK, strokeWidth=1.5).encode(x=x, y=y, tooltip=tip),
        node.mark_text(color=INK, **words).encode(x=x, y=y, text="text:N", tooltip=tip),
        row.mark_text(align="left", color=PAPER, stroke=PAPER, strokeWidth=5, **aside).encode(x=x, y=y, text="text:N"),
        row.mark_text(align="left", color=MUTED, **aside).encode(x=x, y=y, text="text:N"),
        share.mark_text(color=PAPER, stroke=PAPER, strokeWidth=5, **words).encode(x=x, y=y, text="text:N"),
        share.mark_text(color=INK, **words).encode(x=x, y=y, text="text:N"),
    ]
    paths = frame[frame["what"] == "path"].drop_duplicates("id")
    full = int((paths["level"] == "full").sum())
    headline = title or f"{full} of {len(paths)} links {'is' if full == 1 else 'are'} full"
    about = (
        "Drawing of a machine as a graph of nodes in rows: sources of data on top, then processors, PCIe switches, "
        "accelerators. Links are wider and another colour the more of their rate is used; the table below lists them."
    )
    return look.finished(frame, layers, headline, _GRAPH_KEY, about)


def _links(x: Any, y: Any) -> list[Any]:
    """One layer for each level, the busiest on top."""
    legend = look.top_legend(
        title="Share of the rate of a link [%]",
        titleOrient="left",
        columns=4,
        symbolType="stroke",
        symbolStrokeWidth=4,
        titleLimit=240,
    )
    tip = [alt.Tooltip("tip:N", title="link")]
    line: dict[str, Any] = {"x": x, "y": y, "detail": "id:N", "order": "order:Q", "tooltip": tip}
    line["color"] = look.coloured("level", {name: colour for name, (colour, _) in LEVELS.items()}, legend)
    paths = look.rows_of("path")
    layers = ((paths.transform_filter(f"datum.level == '{name}'"), width) for name, (_, width) in LEVELS.items())
    return [layer.mark_line(strokeWidth=width, strokeCap="round").encode(**line) for layer, width in layers]


def gets(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the actual rate of each flow beside the rate that it requires.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `got`, `need` [GB/s], `text` (words at the right).
    title : str, optional
        The takeaway; how many get what they need by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `low` and `high`, the ends of the axis [GB/s].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", 2.0, 1.0, ""], ["b", 0.5, 1.0, ""]]
    >>> gets(pd.DataFrame(rows, columns=["row", "got", "need", "text"])).title.text
    '1 of 2 get the rate that keeps them busy'
    """
    scale, y = look.log_scale("low", "high"), look.rows_axis(_ROOM)
    x = alt.X(
        "got:Q",
        title="Rate of links, one direction [GB/s], logarithmic",
        scale=scale,
        axis=look.decade_axis(look.PLAIN_TENTHS, -6, 6),
    )
    tip = [alt.Tooltip("row:N", title="flow"), *look.number_tips(".3~g", "got", "need")]
    base = alt.Chart()
    need = base.mark_point(size=110, strokeWidth=2, color=PALETTE[1], shape="diamond", filled=False)
    layers = [
        *look.row_text(base, _ROOM),
        base.mark_rule(color=MUTED, strokeWidth=2).encode(x=x, x2="need:Q", y=y),
        base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0]).encode(x=x, y=y, tooltip=tip),
        need.encode(x=alt.X("need:Q", scale=scale), y=y, tooltip=tip),
    ]
    enough = int((frame["got"] >= frame["need"] * FULL).sum())
    title = title or f"{enough} of {len(frame)} get the rate that keeps them busy"
    about = (
        "One row for each flow, on a logarithmic axis: a filled mark at the rate that it gets while all others run, "
        "and a hollow diamond at the rate that keeps the accelerator busy."
    )
    return look.finished(frame, layers, title, _GETS_KEY, about, **rate_ends(frame))


def rate_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Ends of the axis of `gets`: whole decades."""
    return dict(zip(("low", "high"), look.decades([*frame["got"], *frame["need"]], 0.01, 100.0), strict=True))


def over_cores(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Samples a second that the cores of one accelerator decode, beside what it takes.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (curve, demand or here), `cores`, `rate`; of the curve also `low`, `high` and `chosen` (with
        the workers chosen), all in samples a second; `text` of the others.
    title : str, optional
        The takeaway; the cores that meet the demand by default.

    Returns
    -------
    altair.LayerChart
        Signal: `top`, the end of the axis.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["curve", 1, 500, 400, 600, 500, ""], ["curve", 2, 1000, 800, 1200, 500, ""]]
    >>> rows += [["demand", 2, 900, None, None, None, "takes 900"]]
    >>> columns = ["what", "cores", "rate", "low", "high", "chosen", "text"]
    >>> over_cores(pd.DataFrame(rows, columns=columns)).title.text
    '2 cores per accelerator meet the demand'
    """
    ends = [float(frame["cores"].min()), float(frame["cores"].max())]
    ticks = alt.Axis(values=[0.25, 0.5, 1, 2, 4, 8, 16, 32, 64], format="~g")
    x = alt.X(
        "cores:Q",
        title="Physical cores per accelerator, logarithmic",
        axis=ticks,
        scale=alt.Scale(type="log", domain=[min(0.5, ends[0]), 64], nice=False),
    )
    scale = look.linear_scale("top")
    y = alt.Y("rate:Q", title="Decoding rate per accelerator [samples/s]", scale=scale)
    tip = [alt.Tooltip("cores:Q", format=".3~g"), alt.Tooltip("rate:Q", format=",.0f")]
    line, demand, here = (look.rows_of(name) for name in ("curve", "demand", "here"))
    words, low = {"fontSize": 12, "color": INK}, alt.Y("low:Q", scale=scale)
    square = here.mark_point(filled=True, size=110, opacity=1, shape="square", color=PALETTE[1])
    layers = [
        line.mark_area(color=PALETTE[0], opacity=0.2, clip=True).encode(x=x, y=low, y2="high:Q"),
        line.mark_line(color=PALETTE[0], clip=True).encode(x=x, y=y, tooltip=tip),
        line.mark_line(color=PALETTE[1], strokeDash=[6, 4], clip=True).encode(x=x, y=alt.Y("chosen:Q", scale=scale)),
        demand.mark_rule(color=INK, strokeWidth=2, clip=True).encode(y=y),
        demand.mark_text(align="left", dx=8, dy=-9, **words).encode(x=alt.value(0), y=y, text="text:N"),
        here.mark_rule(color=MUTED, strokeWidth=2, strokeDash=[2, 3]).encode(x=x),
        square.encode(x=x, y=y, tooltip=tip),
        here.mark_text(**look.inward(9), dy=12, **words).encode(x=x, y=y, text="text:N"),
    ]
    curve = frame[frame["what"] == "curve"]
    need = float(curve.loc[curve["rate"] >= frame.loc[frame["what"] == "demand", "rate"].min(), "cores"].min())
    headline = title or (
        f"{need:g} core{'s' * (need != 1)} per accelerator meet the demand"
        if need > 0
        else "No number of cores meets the demand"
    )
    about = (
        "Line over numbers of cores: samples a second that they decode for one accelerator, with an interval; a "
        "horizontal rule at what the accelerator takes, and a square where the machine stands with the workers chosen."
    )
    return look.finished(frame, layers, headline, _CORES_KEY, about, top=top_of(frame))


def top_of(frame: pd.DataFrame) -> float:
    """Return the end of the axis of `over_cores`: the demand is in its lower half, unless the curve ends before."""
    marked = float(frame.loc[frame["what"] != "curve", "rate"].max())
    return look.nice_ceiling(min(1.2 * float(frame["rate"].max()), 2.5 * marked))


STATES = {"slowest stage": PALETTE[1], "below the demand": PALETTE[3], "keeps up": PALETTE[0], "the demand": MUTED}
PRICED = {"free": PALETTE[2], "has a price": PALETTE[0], "no price known": PALETTE[3], "as it is": MUTED}
TIMES = {"computing": PALETTE[0], "waiting for input": PALETTE[1], "writing checkpoints": PALETTE[3]}
LINES = {"later epochs": (PALETTE[0], [1, 0]), "first epoch": (PALETTE[1], [6, 4]), "pinned": (MUTED, [2, 3])}
# Pixels for the longest label: which rows are shown changes in place.
_ROOM_BESIDE = 148
_CHAIN_KEY = "The vertical line is the demand, horizontal ones are 80 % intervals. Bars cut off at the edge continue."
_SCALE_KEY = "Hosts and storage are the same. The dashed rule is the target utilisation, the point your choice."
_EPOCH_KEY = "Each bar is the time of one epoch, by activity of the accelerators."
_CHANGE_KEY = "Rates are of later epochs after one change. The rule is the demand of the accelerators."
_CLOCK = "format(datum.value / unit, '.3~g') + ' ' + clock"
_TICKS = "[0, 0.2 * most, 0.4 * most, 0.6 * most, 0.8 * most, most]"


def chain(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the rate of each stage beside the demand of the accelerators.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (stage, in order from the top), `rate` [samples/s; missing where nothing limits], `state` (a
        key of `STATES`), `before` (rate when pinned, else missing), `text` (words at the right); where there is an
        interval `low` and `high`, its ends.
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
    hollow = look.rows_with("before").mark_point(size=90, strokeWidth=2, color=INK, shape="diamond", clip=True)
    slow = frame.loc[frame["state"] == "slowest stage", "row"]
    title = title or f"Slowest stage: {slow.iloc[0] if len(slow) else 'none'}"
    ghost = hollow.encode(x=_rates("before"), y=look.rows_axis(_ROOM_BESIDE))
    return _bars(frame, STATES, title, _CHAIN_KEY, "stage of the input pipeline", ghost)


def changes(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the rate after each change alone.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (change, in order from the top), `rate` [samples/s], `state` (a key of `PRICED`), `text`;
        where there is an interval `low` and `high`, its ends.
    title : str, optional
        The takeaway; the first change by default.

    Returns
    -------
    altair.LayerChart
        Signals as for `chain`.
    """
    title = title or (
        f"First: {frame['row'].iloc[1]}" if len(frame) > 1 else "No change here increases the rate by 0.5 %"
    )
    return _bars(frame, PRICED, title, _CHANGE_KEY, "change")


def _bars(frame: pd.DataFrame, looks: dict[str, str], title: str, key: str, what: str, *more: Any) -> Any:
    """Return bars from zero, cut at the end of the axis, with the rule of the demand, words, and layers above them."""
    tip = [
        alt.Tooltip("row:N", title="what"),
        alt.Tooltip("rate:Q", title="samples/s", format=",.4~s"),
        alt.Tooltip("state:N", title="state"),
    ]
    bar = (
        look.rows_with("rate")
        .mark_bar(height={"band": 0.55}, clip=True)
        .encode(
            x=_rates("rate"),
            y=look.rows_axis(_ROOM_BESIDE),
            tooltip=tip,
            color=look.coloured("state", looks, look.top_legend()),
        )
    )
    demand = look.one_row(at="demand").mark_rule(color=INK, strokeWidth=2, opacity=look.THROUGH).encode(x=_rates("at"))
    whisker = (
        look.rows_with("high")
        .mark_rule(strokeWidth=2, color=INK, clip=True)
        .encode(x=_rates("low"), x2="high:Q", y=look.rows_axis(_ROOM_BESIDE))
    )
    layers, most = [*look.row_text(alt.Chart(), _ROOM_BESIDE), bar, whisker, demand, *more], float(frame["rate"].max())
    most = most if most > 0 else 1.0
    words = (
        f"Horizontal bars, one for each {what}, in samples a second on a linear axis; a vertical rule marks the "
        "demand of the accelerators. Words at the right give the figures."
    )
    return look.finished(frame, layers, title, key, words, most=most, demand=most)


def _rates(column: str) -> Any:
    scale = look.linear_scale("most", clamp=True)
    axis = alt.Axis(tickCount=5, labelExpr="format(datum.value, '~s')")
    return alt.X(f"{column}:Q", title="Samples per second", scale=scale, axis=axis)


def scaling(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Utilisation over the number of accelerators on the same hosts and storage.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `count`, `utilisation` [%], `line` (a key of `LINES`); where there is an interval `low` and `high`,
        its ends [%].
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
    x = alt.X(
        "count:Q",
        title="Accelerators, logarithmic",
        axis=alt.Axis(values=[2**power for power in range(21)], labelExpr="format(datum.value, ',')"),
        scale=alt.Scale(type="log", base=2, domainMin=1, domainMax=alt.ExprRef("most"), nice=False),
    )
    y = alt.Y("utilisation:Q", title="Accelerator utilisation [%]", scale=alt.Scale(domain=[0, 100], nice=False))
    colour = look.coloured("line", {name: colour for name, (colour, _) in LINES.items()}, None)
    dashes = alt.Scale(domain=list(LINES), range=[dash for _, dash in LINES.values()])
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=2.5, clip=True)
        .encode(
            x=x,
            y=y,
            color=colour,
            strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=None),
            tooltip=[alt.Tooltip("count:Q", format=","), alt.Tooltip("utilisation:Q", format=".1f"), "line:N"],
        )
    )
    rule = look.one_row(utilisation="bar").mark_rule(color=MUTED, strokeDash=[4, 4], strokeWidth=2)
    point = look.one_row(count="now", utilisation="here").mark_point(filled=True, size=120, opacity=1, color=INK)
    band = (
        look.rows_with("high")
        .mark_area(opacity=0.15, clip=True)
        .encode(x=x, y=alt.Y("low:Q", scale=y["scale"]), y2="high:Q", color=colour)
    )
    names = look.end_names(alt.Chart(), "line", x, y, colour, "7")
    layers = [band, rule.encode(y=y), lines, point.encode(x=x, y=y), *names]
    ends = frame["utilisation"].iloc[0], frame["utilisation"].min()
    about = (
        "Lines of accelerator utilisation over the number of accelerators, logarithmic from 1; one for later epochs, "
        "one for the first, one for a pinned scenario. A dashed rule is the utilisation to keep, a point the choice."
    )
    return look.finished(
        frame,
        layers,
        title or f"Utilisation from {ends[0]:.0f} % to {ends[1]:.0f} %",
        _SCALE_KEY,
        about,
        now=1.0,
        most=float(frame["count"].max()),
        here=float(frame["utilisation"].max()),
        bar=90.0,
    )


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
    clock = alt.Axis(values=alt.ExprRef(_TICKS), labelExpr=_CLOCK)
    x = alt.X("start:Q", title="Time of one epoch", scale=look.linear_scale("most"), axis=clock)
    bar = (
        alt.Chart()
        .mark_bar(height={"band": 0.45}, clip=True)
        .encode(
            x=x,
            x2="end:Q",
            y=look.rows_axis(_ROOM_BESIDE),
            tooltip=[
                alt.Tooltip("row:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("start:Q", format=",.3~r", title="from [s]"),
                alt.Tooltip("end:Q", format=",.3~r", title="to [s]"),
            ],
            color=look.coloured("part", TIMES, look.top_legend()),
        )
    )
    longest, layers = float(frame["end"].max()), [*look.row_text(alt.Chart(), _ROOM_BESIDE), bar]
    about = (
        "Stacked horizontal bars of time, one per kind of epoch: computing, waiting for input, writing checkpoints. "
        "Words at the right give the totals."
    )
    title = title or f"The longest epoch takes {longest:.0f} s"
    return look.finished(frame, layers, title, _EPOCH_KEY, about, most=longest, unit=1.0, clock="s")
