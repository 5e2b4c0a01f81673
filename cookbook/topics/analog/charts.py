"""Charts of computing in crossbars: accuracy over one parameter, operations per joule, and published machines."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MUTED, PALETTE, alt

# Parameters of a curve: words of the axis.
AXES = {
    "adc_bits": "Resolution of the ADCs [bit]",
    "weight_bits": "Bits of a weight, its sign included",
    "programming": "Spread of programming [% of the largest conductance]",
    "rows": "Rows and columns of a tile",
}
# Parts of the energy in the order of a bar.
PARTS = {"ADC": PALETTE[1], "DAC": PALETTE[3], "cells": PALETTE[0], "digital sums": "#696E6E"}
# Lines of a crossbar, from its cells to the whole: colour and dash.
ROOFS = {
    "cells alone": (PALETTE[0], [2, 2]),
    "cells and drivers": (PALETTE[3], [6, 3]),
    "with ADCs and sums": (PALETTE[1], [1, 0]),
    "digital devices": (MUTED, [1, 0]),
}
ORIGINS = {"ours": (PALETTE[0], "circle"), "published": (PALETTE[1], "diamond")}
_CURVE_KEY = (
    "The line is the mean of the draws, the band worst to best. Dashed is floating point; the ring is your choice."
)
_ROOF_KEY = (
    "Weights stay in a crossbar, so its lines are level. Digital devices are at design power. Marks are this network."
)
_BESIDE_KEY = "Diamonds are published peaks, circles our values for the same tile and bits. Nothing is fitted to them."
_LABEL_WIDTH = 190


def accuracy(frame: pd.DataFrame, title: str | None = None, over: str = "adc_bits") -> Any:
    """Return a chart of the share of digits read correctly over one parameter of the crossbar.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `label` (the value of the parameter, in order), `mean`, `least`, `most`, `exact` (in floating point)
        [%], `here` (True for what is chosen).
    title : str, optional
        The takeaway; the best mean by default.
    over : str
        A key of `AXES`.

    Returns
    -------
    altair.LayerChart
        Signals: `labels`, the order of the axis.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["2", 30.0, 20.0, 40.0, 93.0, False], ["8", 90.0, 89.0, 91.0, 93.0, True]]
    >>> accuracy(pd.DataFrame(rows, columns=["label", "mean", "least", "most", "exact", "here"])).title.text
    'Up to 90.0 % of the digits are recognised'
    """
    scale = alt.Scale(type="point", domain=alt.ExprRef("labels"), padding=0.3)
    x = alt.X("label:O", title=AXES[over], scale=scale, axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=False))
    y = partial(alt.Y, title="Test digits recognised [%]", scale=alt.Scale(domain=[0, 100], nice=False))
    tip = [alt.Tooltip("label:N", title=AXES[over]), *look.number_tips(".1f", "mean", "least", "most")]
    base, current = alt.Chart(), alt.Chart().transform_filter("datum.here")
    layers = [
        base.mark_area(color=PALETTE[0], opacity=0.25).encode(x=x, y=y("least:Q"), y2="most:Q"),
        base.mark_line(color=MUTED, strokeDash=[6, 3], strokeWidth=2).encode(x=x, y=y("exact:Q")),
        base.mark_line(color=PALETTE[0], strokeWidth=2).encode(x=x, y=y("mean:Q")),
        base.mark_point(filled=True, size=60, opacity=1, color=PALETTE[0]).encode(x=x, y=y("mean:Q"), tooltip=tip),
        current.mark_point(size=330, color=INK, strokeWidth=2, filled=False).encode(x=x, y=y("mean:Q")),
    ]
    words = (
        f"Share of test digits recognised over settings ({AXES[over]}): a line with a band from the worst to the best "
        "draw of the cells, and a dashed line for floating point. A ring marks what is chosen."
    )
    best = title or f"Up to {frame['mean'].max():.1f} % of the digits are recognised"
    return look.finished(frame, layers, best, _CURVE_KEY, words, labels=list(frame["label"]))


def energy_roofline(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of operations per joule over arithmetic per byte: digital roofs beside a crossbar's level.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (roof or point), `id` (line), `kind` (a key of `ROOFS`), `x` [OP/B], `y` [OP/J],
        `text` (name of the device or of the line).
    title : str, optional
        The takeaway; by default the number of devices drawn.

    Returns
    -------
    altair.LayerChart
        Signals: `left`, `right`, `bottom`, `top`, the ends of the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["roof", "a", "digital devices", x, y, ""] for x, y in ((1.0, 1e10), (100.0, 1e12))]
    >>> energy_roofline(pd.DataFrame(rows, columns=["what", "id", "kind", "x", "y", "text"])).title.text
    'A crossbar beside 1 digital device'
    """
    tenths = look.decade_axis(look.PLAIN_TENTHS, -9, 22)
    x, y = look.log_plane("x", "Arithmetic per byte of weights [OP/B]", "y", "Operations per joule [OP/J]", tenths)
    key = look.top_legend(columns=2, symbolType="stroke")
    colour = look.coloured("kind", {name: colour for name, (colour, _) in ROOFS.items()}, key)
    dash = alt.StrokeDash(
        "kind:N", legend=key, scale=alt.Scale(domain=list(ROOFS), range=[dash for _, dash in ROOFS.values()])
    )
    tip = [
        alt.Tooltip("text:N", title="device"),
        alt.Tooltip("x:Q", title="OP/B", format=",.3~g"),
        alt.Tooltip("y:Q", title="OP/J", format=".3~s"),
    ]
    roof, point = (look.rows_of(role) for role in ("roof", "point"))
    digital = roof.transform_filter("datum.kind == 'digital devices'")
    layers = [
        roof.mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, detail="id:N", color=colour, strokeDash=dash),
        point.mark_point(filled=True, size=110, opacity=1, clip=True).encode(
            x=x,
            y=y,
            color=look.coloured("kind", {name: colour for name, (colour, _) in ROOFS.items()}, None),
            tooltip=tip,
        ),
        *look.end_names(digital, "text", x, y, alt.value(MUTED), "0.07 * log(top / bottom)", log=True),
    ]
    count = frame.loc[(frame["what"] == "roof") & (frame["kind"] == "digital devices"), "id"].nunique()
    words = (
        "Operations for one joule on two logarithmic axes. Digital devices: a slope where memory is the limit, level "
        "where arithmetic is. A crossbar: level lines for its cells, with drivers, and with converters."
    )
    headline = title or f"A crossbar beside {count} digital device{'s' * (count != 1)}"
    return look.finished(frame, layers, headline, _ROOF_KEY, words, **roofline_ends(frame))


def roofline_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of both axes of `energy_roofline`: whole decades around its lines."""
    left, right = look.decades(frame["x"], 1.0, 1000.0)
    bottom, top = look.decades(frame["y"], 1e9, 1e15)
    return {"left": left, "right": right, "bottom": bottom, "top": top}


def beside(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of published operations per joule beside ours, one row per machine.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (machine, in order from the top), `whose` (a key of `ORIGINS`), `value` [OP/J], missing where
        it is not known, `other` (the value of the other one), `text` (words at the right, once a row).
    title : str, optional
        The takeaway; by default the number of machines with both values.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `low` and `high`, the ends of the axis.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", "ours", 2e12, 1e12, "2×"], ["a", "published", 1e12, 2e12, None]]
    >>> beside(pd.DataFrame(rows, columns=["row", "whose", "value", "other", "text"])).title.text
    '1 machine compared with our values'
    """
    scale, y = look.log_scale("low", "high"), look.rows_axis(_LABEL_WIDTH)
    x = alt.X(
        "value:Q", title="Operations per joule [OP/J], logarithmic", scale=scale, axis=look.decade_axis("'~s'", 6, 18)
    )
    marked = look.rows_with("value")
    tip = [alt.Tooltip("row:N", title="machine"), alt.Tooltip("whose:N"), *look.number_tips(".3~s", "value")]
    layers = [
        *look.row_text(alt.Chart(), _LABEL_WIDTH),
        marked.transform_filter("isValid(datum.other)")
        .mark_rule(strokeWidth=2, color=MUTED, clip=True)
        .encode(x=x, x2="other:Q", y=y),
        marked.mark_point(filled=True, size=110, opacity=1, clip=True).encode(
            x=x, y=y, tooltip=tip, **look.looks("whose", ORIGINS, look.top_legend())
        ),
    ]
    count = frame.loc[frame["value"].notna() & frame["other"].notna(), "row"].nunique()
    words = (
        "One row for each published machine: a diamond at its peak operations per joule, a circle at our value, on a "
        "logarithmic axis; at the right their ratio, or what is not stated."
    )
    headline = title or f"{count} machine{'s' * (count != 1)} compared with our values"
    return look.finished(frame, layers, headline, _BESIDE_KEY, words, **beside_ends(frame))


def beside_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the axis of `beside`: whole decades."""
    return dict(zip(("low", "high"), look.decades(frame["value"].dropna(), 1e11, 1e15), strict=True))
