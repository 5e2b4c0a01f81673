"""Charts of serving: latencies over load, and the memory of an engine."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MUTED, PALETTE, alt

# Latencies of a service: colour by what is waited for, dash by how many wait no longer.
# Pixels for the longest label of a row.
_ROOM = 140

LATENCIES = {
    "TTFT p50": (PALETTE[0], [6, 3]),
    "TTFT p95": (PALETTE[0], [1, 0]),
    "TPOT p50": (PALETTE[1], [6, 3]),
    "TPOT p95": (PALETTE[1], [1, 0]),
}
ENGINE_MEMORY = {
    "weights": PALETTE[0],
    "KV cache in use": PALETTE[1],
    "KV cache free": PALETTE[2],
    "reserved": "#767676",
}
_KNEE_KEY = "Dashed lines are p50 with 80 % bands, solid lines p95. Dots are your load, grey rules limits and capacity."
_ENGINE_KEY = "Each bar is one device of an engine. At the right is the number of requests that fit at once."


def knee(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Latency of a service over its load, up to where the queue grows without end.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (line, band, here, limit or capacity), `series` (a key of `LATENCIES`), `rate` [requests/s],
        `ms` (of a band its low end), `high` (the other), `text` (words beside a limit or the capacity).
    title : str, optional
        The takeaway; the growth of the first series by default.

    Returns
    -------
    altair.LayerChart
        Signals: `most`, the end of the load; `low`, `high`, the ends of the latency [ms].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["line", "TTFT p95", 1.0, 50.0, None], ["line", "TTFT p95", 9.0, 400.0, None]]
    >>> knee(pd.DataFrame(rows, columns=["what", "series", "rate", "ms", "text"])).title.text
    'TTFT p95 grows 8.0× up to 9 requests per second'
    """
    x = alt.X("rate:Q", title="Load [requests/s]", scale=look.linear_scale("most"), axis=alt.Axis(tickCount=6))
    y = alt.Y("ms:Q", title="Latency [ms], logarithmic", scale=look.log_scale("low", "high"), axis=look.step_ticks())
    colour = look.coloured("series", {name: each for name, (each, _) in LATENCIES.items()}, None)
    dash = alt.StrokeDash(
        "series:N", legend=None, scale=alt.Scale(domain=list(LATENCIES), range=[dash for _, dash in LATENCIES.values()])
    )
    tip = [alt.Tooltip("series:N"), *look.number_tips(",.3~g", "rate", "ms")]
    line, band, here, limit, end = (look.rows_of(kind) for kind in ("line", "band", "here", "limit", "capacity"))
    rule: dict[str, Any] = {"color": MUTED, "strokeWidth": 2, "strokeDash": [2, 3], "clip": True}
    words: dict[str, Any] = {"fontSize": 12, "color": INK, "clip": True}
    layers = [
        limit.mark_rule(**rule).encode(y=y),
        limit.mark_text(align="left", dx=6, dy=-7, **words).encode(x=alt.value(0), y=y, text="text:N"),
        end.mark_rule(**rule).encode(x=x),
        end.mark_text(align="right", dx=-6, dy=10, **words).encode(x=x, y=alt.value(0), text="text:N"),
        band.mark_area(opacity=0.15, clip=True).encode(x=x, y=y, y2="high:Q", color=colour),
        line.mark_line(clip=True).encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tip),
        here.mark_point(filled=True, size=80, opacity=1, clip=True).encode(x=x, y=y, color=colour, tooltip=tip),
        *look.end_names(line, "series", x, y, colour, "0.07 * log(high / low)", log=True),
    ]
    drawn = frame[(frame["what"] == "line") & (frame["series"] == frame["series"].iloc[0])]
    takeaway = (
        f"{drawn['series'].iloc[0]} grows {drawn['ms'].max() / drawn['ms'].min():.1f}× up to "
        f"{drawn['rate'].max():.3g} requests per second"
    )
    description = (
        "Lines of the time to the first token and of the time of each further one over the load in requests/s: "
        "nearly flat at first, then bending upwards where requests wait. Grey rules are the limits and the capacity."
    )
    return look.finished(frame, layers, title or takeaway, _KNEE_KEY, description, **knee_ends(frame))


def knee_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Ends of the axes of `knee`."""
    low, high = look.ends_around([*frame["ms"], *frame.get("high", ())])
    return {"most": look.nice_ceiling(float(frame["rate"].astype(float).max())), "low": low, "high": high}


def engine_memory(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the memory of one device of an engine: weights against KV cache.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `part` (a key of `ENGINE_MEMORY`), `value` [GiB], `text`
        (words at the right of the row, once a row).
    title : str, optional
        The takeaway; the share of the weights in the first row by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `most`, the end of the axis.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["bf16", "weights", 16.0, "9"], ["bf16", "KV cache free", 48.0, None]]
    >>> engine_memory(pd.DataFrame(rows, columns=["row", "part", "value", "text"])).title.text
    'Weights take 25 % of the memory of bf16'
    """
    base = alt.Chart().transform_calculate(place=f"indexof({list(ENGINE_MEMORY)}, datum.part)")
    colour = look.coloured("part", ENGINE_MEMORY, look.top_legend(columns=4, symbolType="square"))
    x = alt.X(
        "value:Q",
        title="Memory of one device [GiB]",
        scale=look.linear_scale("most"),
        stack="zero",
        axis=alt.Axis(tickCount=6),
    )
    tip = [alt.Tooltip("row:N"), alt.Tooltip("part:N"), alt.Tooltip("value:Q", title="GiB", format=",.3~g")]
    bars = base.mark_bar(clip=True).encode(
        x=x, y=look.rows_axis(_ROOM), color=colour, order=alt.Order("place:Q"), tooltip=tip
    )
    first = frame[frame["row"] == frame["row"].iloc[0]]
    share = first.loc[first["part"] == "weights", "value"].sum() / first["value"].sum()
    takeaway = f"Weights take {100 * share:.0f} % of the memory of {frame['row'].iloc[0]}"
    description = (
        "Stacked bars, one per way to store the model: weights, KV cache in use and free, and memory reserved by the "
        "software."
    )
    layers = [*look.row_text(alt.Chart(), _ROOM), bars]
    return look.finished(frame, layers, title or takeaway, _ENGINE_KEY, description, most=look.longest_row(frame))
