"""Charts of the inside of a machine: links in use, what accelerators get, samples a second over cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cookbook.charts.engine import alt
from cookbook.charts.look import INK, MUTED, PALETTE, PAPER
from cookbook.charts.rows import decades, nice_ceiling, row_text, rows_axis, rows_param, titled

if TYPE_CHECKING:
    import pandas as pd

# Use of a link: a colour, a width and a word, never a colour alone.
LEVELS = {
    "not used": ("#767676", 1),
    "less than half used": (PALETTE[0], 2),
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
_GRAPH_KEY = "Width and colour: use of a link in its busier direction. Percentages: one of each alike."
_GETS_KEY = "Filled: what it gets. Hollow: what keeps it busy. Nominal rates of links, one direction."
_CORES_KEY = "Solid: a worker for each core, with its 80 % interval. Dashed: the workers chosen."


def level(share: float) -> str:
    """Word for the use of a link.

    Examples
    --------
    >>> level(0), level(0.2), level(0.5), level(1)
    ('not used', 'less than half used', 'half used or more', 'full')
    """
    names = list(LEVELS)
    return names[int(share > 0) + int(share >= HALF) + int(share >= FULL)]


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
    import pandas as pd

    at = nodes.to_dict("index")
    found: list[tuple[Any, ...]] = []
    spots: list[tuple[float, float]] = []
    done = set()
    for place, link in enumerate(links.itertuples()):
        start, end = at[link.start], at[link.end]
        x, y = _points(start, end)
        found += [("path", place, *spot, "", order, level(link.share), link.tip)
                  for order, spot in enumerate(zip(x, y, strict=True))]  # fmt: skip
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
    """Where a label stands: in the middle of an arc, beyond that of a line, where lines have parted."""
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
    nodes = _part("node").mark_point(shape="square", size=620, filled=True, color=PAPER, opacity=1, stroke=INK,
                                     strokeWidth=1.5).encode(x=x, y=y, tooltip=tip)  # fmt: skip
    layers = [
        *_links(x, y),
        nodes,
        _part("node").mark_text(color=INK, **words).encode(x=x, y=y, text="text:N", tooltip=tip),
        _part("row").mark_text(align="left", color=MUTED, **words).encode(x=x, y=y, text="text:N"),
        _part("share").mark_text(color=PAPER, stroke=PAPER, strokeWidth=5, **words).encode(x=x, y=y, text="text:N"),
        _part("share").mark_text(color=INK, **words).encode(x=x, y=y, text="text:N"),
    ]
    paths = frame[frame["what"] == "path"].drop_duplicates("id")
    full = int((paths["level"] == "full").sum())
    headline = title or f"{full} of {len(paths)} links {'is' if full == 1 else 'are'} full"
    about = (
        f"Drawing of a machine as a graph of {int((frame['what'] == 'node').sum())} nodes in rows: sources of data on "
        "top, then processors, PCIe switches, accelerators. Links are wider and another colour the more of their rate "
        "is used; the table below lists them."
    )
    return titled(alt.layer(*layers, data=frame), headline, _GRAPH_KEY, about)


def _links(x: Any, y: Any) -> list[Any]:
    """One layer for each level, the busiest on top."""
    colours = alt.Scale(domain=list(LEVELS), range=[colour for colour, _ in LEVELS.values()])
    legend = alt.Legend(orient="top", title="Share of the rate of a link [%]", titleOrient="left", columns=4,
                        symbolType="stroke", symbolStrokeWidth=4, titleLimit=240)  # fmt: skip
    tip = [alt.Tooltip("tip:N", title="link")]
    line: dict[str, Any] = {"x": x, "y": y, "detail": "id:N", "order": "order:Q", "tooltip": tip}
    line["color"] = alt.Color("level:N", scale=colours, legend=legend)
    layers = ((_part("path").transform_filter(f"datum.level == '{name}'"), LEVELS[name][1]) for name in LEVELS)
    return [layer.mark_line(strokeWidth=width, strokeCap="round").encode(**line) for layer, width in layers]


def _part(name: str) -> Any:
    return alt.Chart().transform_filter(f"datum.what == '{name}'")


def gets(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What each accelerator gets beside what it needs.

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
    low, high = rate_domain(frame)
    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    label = "format(datum.value, datum.value < 1 ? '~g' : '~s')"  # 0.1 and not 100m
    axis = alt.Axis(labelExpr=label, values=[10.0**power for power in range(-6, 6)])
    x = alt.X("got:Q", title="Rate of links, one direction [GB/s], logarithmic", scale=scale, axis=axis)
    tip = [alt.Tooltip("row:N", title="flow"), *(alt.Tooltip(f"{c}:Q", format=".3~g") for c in ("got", "need"))]
    base, y = alt.Chart(), rows_axis(_ROOM)
    need = base.mark_point(size=110, strokeWidth=2, color=PALETTE[1], shape="diamond", filled=False)
    layers = [
        *row_text(alt.Chart(), _ROOM),
        base.mark_rule(color=MUTED, strokeWidth=2).encode(x=x, x2="need:Q", y=y),
        base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0]).encode(x=x, y=y, tooltip=tip),
        need.encode(x=alt.X("need:Q", scale=scale), y=y, tooltip=tip),
    ]
    ends = (alt.param(name="low", value=low), alt.param(name="high", value=high))
    chart = alt.layer(*layers, data=frame).add_params(rows_param(frame), *ends)
    enough = int((frame["got"] >= frame["need"] * FULL).sum())
    about = (
        f"One row for each of {len(frame)} flows, on a logarithmic axis: a filled mark at the rate that it gets while "
        "all others run, and a hollow diamond at the rate that keeps the accelerator busy."
    )
    return titled(chart, title or f"{enough} of {len(frame)} get the rate that keeps them busy", _GETS_KEY, about)


def rate_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of `gets`: whole decades."""
    return decades([*frame["got"], *frame["need"]], 0.01, 100.0)


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
    '2 cores an accelerator meet the demand'
    """
    ends = [float(frame["cores"].min()), float(frame["cores"].max())]
    ticks = alt.Axis(values=[0.25, 0.5, 1, 2, 4, 8, 16, 32, 64], format="~g")
    x = alt.X("cores:Q", title="Physical cores for one accelerator, logarithmic", axis=ticks,
              scale=alt.Scale(type="log", domain=[min(0.5, ends[0]), 64], nice=False))  # fmt: skip
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("top"), nice=False)
    y = alt.Y("rate:Q", title="Decoded for one accelerator [samples/s]", scale=scale)
    tip = [alt.Tooltip("cores:Q", format=".3~g"), alt.Tooltip("rate:Q", format=",.0f")]
    line, demand, here = (_part(name) for name in ("curve", "demand", "here"))
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
        here.mark_text(align="left", dx=9, dy=12, **words).encode(x=x, y=y, text="text:N"),
    ]  # fmt: skip
    chart = alt.layer(*layers, data=frame).add_params(alt.param(name="top", value=top_of(frame)))
    curve = frame[frame["what"] == "curve"]
    need = float(curve.loc[curve["rate"] >= frame.loc[frame["what"] == "demand", "rate"].min(), "cores"].min())
    headline = title or (
        f"{need:g} core{'s' * (need != 1)} an accelerator meet the demand" if need > 0 else
        "No number of cores meets the demand"
    )  # fmt: skip
    about = (
        f"Line over {len(curve)} numbers of cores: samples a second that they decode for one accelerator, with an "
        "interval; a horizontal rule at what the accelerator takes, and a square where the machine stands with the "
        "workers chosen."
    )
    return titled(chart, headline, _CORES_KEY, about)


def top_of(frame: pd.DataFrame) -> float:
    """End of the axis of `over_cores`: the demand lies in its lower half, unless the curve ends before."""
    marked = float(frame.loc[frame["what"] != "curve", "rate"].max())
    return nice_ceiling(min(1.2 * float(frame["rate"].max()), 2.5 * marked))
