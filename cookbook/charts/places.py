"""Charts of where to run: cost by place, what moves it, what has been paid by month."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cookbook.charts.look import INK, MUTED, PALETTE
from cookbook.charts.rows import alt, decades, narrow_param, nice_ceiling, row_text, rows_axis, rows_param, titled

if TYPE_CHECKING:
    import pandas as pd

# A verdict is a colour, a shape and a word, never a colour alone.
VERDICTS = {
    "cheapest that will do": (PALETTE[2], "diamond"),
    "will do": (PALETTE[0], "circle"),
    "will not do": (PALETTE[1], "cross"),
    "cannot tell": (MUTED, "triangle-up"),
}
LINES = ("owned", "rented")
_ROOM = 205
_COSTS_KEY = "Bar: middle 80 % of draws. Total over the horizon, all runs; no mark: a figure is missing."
_TORNADO_KEY = "One figure from its low to its high end, the others at their medians; the least are in the table."
_PAID_KEY = "Lines: paid so far, band: middle 80 % of draws. Diamonds: the cost counted, a purchase at its share alone."


def place_costs(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What a task costs at each place, with its band.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `usd`, `low`, `high` [USD], `verdict` (a key of `VERDICTS`),
        `text` (words at the right).
    title : str, optional
        The takeaway; the cheapest that will do by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `low` and `high`, the ends of the axis [USD].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", 90.0, 70.0, 120.0, "cheapest that will do", ""], ["b", 50.0, 40.0, 60.0, "will not do", "late"]]
    >>> place_costs(pd.DataFrame(rows, columns=["row", "usd", "low", "high", "verdict", "text"])).title.text
    'a is the cheapest place that will do'
    """
    low, high = cost_domain(frame)
    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    axis = alt.Axis(labelExpr="format(datum.value, '~s')", values=[10.0**power for power in range(-2, 12)])
    x = alt.X("usd:Q", title="Cost over the horizon [USD], logarithmic", scale=scale, axis=axis)
    names, base = list(VERDICTS), alt.Chart().transform_filter("isValid(datum.usd)")
    legend = alt.Legend(orient="top", title=None, columns=alt.ExprRef("narrow ? 2 : 4"))
    colour = alt.Scale(domain=names, range=[colour for colour, _ in VERDICTS.values()])
    shape = alt.Scale(domain=names, range=[shape for _, shape in VERDICTS.values()])
    ends = (alt.Tooltip(f"{column}:Q", format=",.3~s") for column in ("low", "usd", "high"))
    tip = [alt.Tooltip("row:N", title="place"), *ends]
    layers = [
        *row_text(alt.Chart(), _ROOM),
        base.mark_bar(height=7, opacity=0.4, color=MUTED, clip=True).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=rows_axis(_ROOM), tooltip=tip
        ),
        base.mark_point(filled=True, size=110, opacity=1, clip=True).encode(
            x=x, y=rows_axis(_ROOM), tooltip=tip, color=alt.Color("verdict:N", scale=colour, legend=legend),
            shape=alt.Shape("verdict:N", scale=shape, legend=legend),
        ),
    ]  # fmt: skip
    signals = (alt.param(name="low", value=low), alt.param(name="high", value=high))
    chart = alt.layer(*layers, data=frame).add_params(rows_param(frame), narrow_param(), *signals)
    return titled(chart, title or costs_title(frame), _COSTS_KEY, costs_description(frame))


def cost_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of `place_costs`: whole decades [USD]."""
    return decades([*frame["low"].dropna(), *frame["high"].dropna()], 100.0, 1e6)


def costs_title(frame: pd.DataFrame) -> str:
    """Takeaway of `place_costs`."""
    best = frame.loc[frame["verdict"] == "cheapest that will do", "row"]
    return f"{best.iloc[0]} is the cheapest place that will do" if len(best) else "No place will do"


def costs_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    return (
        f"One row for each of {len(frame)} places: a mark at the cost over the horizon on a logarithmic axis in USD, a "
        "bar over the middle 80 % of draws, and at the right the cost or the reason why the place will not do."
    )


def tornado(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What each uncertain figure does to one cost, the largest on top.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `start`, `end` (cost at either end of the figure),
        `centre` (cost with all figures at their medians), in thousands of USD, `text` (words at the right).
    title : str, optional
        The takeaway; the figure that matters most by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `low` and `high`, the ends of the axis [kUSD].

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["price", 10.0, 40.0, 20.0, ""], ["tariff", 19.0, 21.0, 20.0, ""]]
    >>> tornado(pd.DataFrame(rows, columns=["row", "start", "end", "centre", "text"])).title.text
    'The price decides: from 10 to 40 kUSD'
    """
    low, high = tornado_domain(frame)
    scale = alt.Scale(domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    x = alt.X("start:Q", title="Cost over the horizon [kUSD]", scale=scale)
    tip = [alt.Tooltip("row:N", title="figure"), *(alt.Tooltip(f"{c}:Q", format=",.3~f") for c in ("start", "end"))]
    base = alt.Chart()
    bar = base.mark_bar(height=14, opacity=0.75, color=PALETTE[0])
    layers = [
        *row_text(alt.Chart(), _ROOM),
        bar.encode(x=x, x2="end:Q", y=rows_axis(_ROOM), tooltip=tip),
        base.mark_rule(color=INK, strokeWidth=2).encode(x=alt.X("mean(centre):Q", scale=scale)),
    ]
    ends = (alt.param(name="low", value=low), alt.param(name="high", value=high))
    chart = alt.layer(*layers, data=frame).add_params(rows_param(frame), *ends)
    return titled(chart, title or tornado_title(frame), _TORNADO_KEY, tornado_description(frame))


def tornado_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of `tornado` [kUSD]: a little beyond the widest bar."""
    low, high = float(frame[["start", "end"]].min().min()), float(frame[["start", "end"]].max().max())
    room = 0.05 * (high - low) or 1.0
    return max(low - room, 0.0), high + room


def tornado_title(frame: pd.DataFrame) -> str:
    """Takeaway of `tornado`."""
    top = frame.iloc[0]
    low, high = sorted((float(top["start"]), float(top["end"])))
    return f"The {top['row']} decides: from {low:,.3g} to {high:,.3g} kUSD"


def tornado_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    return (
        f"One horizontal bar for each of {len(frame)} uncertain figures, from the cost with the figure at its low end "
        "to that with it at its high end, the widest on top; a vertical rule at the cost with all at their medians."
    )


def paid(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What has been paid after each month, owning and renting.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` ("owned" or "rented"), `month`, `usd`, `low`, `high` [kUSD], `text` (the place, in its last
        month), `counted` (cost that is compared, in the last month; missing elsewhere, or left out), `meets` (month in
        which both have cost the same, else missing).
    title : str, optional
        The takeaway; the month in which they meet by default.

    Returns
    -------
    altair.LayerChart
        Signals: `top`, the end of the axis [kUSD]; `last`, the last month.

    Examples
    --------
    >>> import pandas as pd
    >>> columns = ["what", "month", "usd", "low", "high", "text", "counted", "meets"]
    >>> rows = [["owned", 0, 20.0, 15.0, 30.0, "", 8.0, 10.0], ["rented", 12, 24.0, 20.0, 40.0, "cloud", 24.0, 10.0]]
    >>> paid(pd.DataFrame(rows, columns=columns)).title.text
    'Owning has paid for itself after 10 months'
    """
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("top"), nice=False)
    months = alt.Scale(domainMin=0, domainMax=alt.ExprRef("last"), nice=False)
    x = alt.X("month:Q", title="Months since the start", scale=months, axis=alt.Axis(tickMinStep=1))
    y = alt.Y("usd:Q", title="Paid so far [kUSD]", scale=scale)
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1)
    colours = alt.Scale(domain=list(LINES), range=[PALETTE[0], PALETTE[1]])
    colour = alt.Color("what:N", legend=legend, scale=colours)
    dash = alt.StrokeDash("what:N", legend=None, scale=alt.Scale(domain=list(LINES), range=[[1, 0], [6, 4]]))
    tip = [alt.Tooltip("what:N", title="place"), alt.Tooltip("month:Q", format=".0f"),
           *(alt.Tooltip(f"{c}:Q", format=",.3~f") for c in ("low", "usd", "high"))]  # fmt: skip
    base = alt.Chart()
    meets = base.transform_filter("isValid(datum.meets)").transform_aggregate(at="min(meets)")
    layers = [
        base.mark_area(opacity=0.18, clip=True).encode(
            x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour
        ),
        base.mark_line(clip=True).encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tip),
        meets.mark_rule(color=MUTED, strokeWidth=2, strokeDash=[2, 3]).encode(x=alt.X("at:Q", scale=months)),
        base.transform_filter("isValid(datum.counted)").mark_point(
            filled=True, shape="diamond", size=160, opacity=1, stroke=INK).encode(
            x=x, y=alt.Y("counted:Q", scale=scale), color=colour, tooltip=[
                alt.Tooltip("text:N", title="place"), alt.Tooltip("counted:Q", title="cost counted", format=",.3~f")]),
    ]  # fmt: skip
    last = float(frame["month"].max())
    ends = (alt.param(name="top", value=paid_top(frame)), alt.param(name="last", value=last))
    chart = alt.layer(*layers, data=frame).add_params(*ends, narrow_param())
    return titled(chart, title or paid_title(frame), _PAID_KEY, paid_description(frame))


def paid_top(frame: pd.DataFrame) -> float:
    """End of the axis of `paid` [kUSD]: bands may run out of the picture, lines may not."""
    return nice_ceiling(1.5 * float(frame.reindex(columns=["usd", "counted"]).astype(float).max().max()))


def paid_title(frame: pd.DataFrame) -> str:
    """Takeaway of `paid`."""
    at = frame["meets"].dropna()
    if at.empty:
        return "Owning does not pay for itself within the horizon"
    return f"Owning has paid for itself after {at.iloc[0]:.0f} months"


def paid_description(frame: pd.DataFrame) -> str:
    """Words for those who do not see the picture."""
    months = float(frame["month"].max())
    return (
        f"Two lines over {months:.0f} months with bands: what owning has cost, from the price of the purchase upward, "
        "and what renting has cost, from nothing upward; a dotted rule where the medians meet; at the end a diamond at "
        "the cost of each that is compared, in which a purchase counts with the share of its years that is used."
    )
