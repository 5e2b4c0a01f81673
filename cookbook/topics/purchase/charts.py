"""Chart of stacks: the cost of every stack relative to the best one, by application."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import PALETTE, alt

_ROOM = 216
# Cells are pale at the best and dark at so many times its cost.
DARKEST = 1000.0
# Words on cells, which keep their colours in dark themes too.
_DARK, _PALE = "#101010", "#fdfdfd"
_KEY = "Numbers are costs relative to the best stack of the column, which is outlined; empty cells are not feasible."


def fit_matrix(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return the chart of the cost of each stack relative to the best one, by application.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (stack, in order from the top), `case` (column, in order from the left), `ratio` (cost over the
        best of the column, None where it will not do), `text` (the ratio as printed), `why` (what a pointer is told).
    title : str, optional
        The takeaway; how many stacks are best somewhere by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows` and `cases`, the order of rows and columns.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["a", "chat", 1.0, "1", ""], ["b", "chat", None, "", "too slow"]]
    >>> fit_matrix(pd.DataFrame(rows, columns=["row", "case", "ratio", "text", "why"])).title.text
    '1 stack is best somewhere'
    """
    cases = list(dict.fromkeys(frame["case"]))
    x = alt.X(
        "case:N",
        title=None,
        scale=alt.Scale(type="band", domain=alt.ExprRef("cases"), padding=0.06),
        axis=alt.Axis(
            orient="top",
            labelAngle=60,
            labelAlign="right",
            labelBaseline="middle",
            ticks=False,
            domain=False,
            grid=False,
            labelPadding=6,
            labelLimit=130,
        ),
    )
    y = look.rows_axis(_ROOM)
    shade = alt.Color(
        "ratio:Q",
        legend=None,
        scale=alt.Scale(type="log", domain=[1, DARKEST], clamp=True, range=["#e3f1fa", "#003e63"]),
    )
    tip = [
        alt.Tooltip("row:N", title="stack"),
        alt.Tooltip("case:N", title="for"),
        alt.Tooltip("text:N", title="times the best"),
        alt.Tooltip("why:N", title="note"),
    ]
    feasible = alt.Chart().transform_filter("isValid(datum.ratio)")
    none = alt.Chart().transform_filter("!isValid(datum.ratio)")
    best = alt.condition("datum.ratio <= 1.0000001", alt.value(PALETTE[1]), alt.value("#00000000"))
    words = alt.condition("datum.ratio > 30", alt.value(_PALE), alt.value(_DARK))
    layers = [
        none.mark_rect(fill="#9e9e9e", opacity=0.18).encode(x=x, y=y, tooltip=tip),
        feasible.mark_rect(strokeWidth=2.5).encode(x=x, y=y, color=shade, stroke=best, tooltip=tip),
        feasible.mark_text(fontSize=12).encode(x=x, y=y, text="text:N", color=words, tooltip=tip),
    ]
    count = frame.loc[frame["ratio"] <= 1, "row"].nunique()
    description = (
        "A grid of stacks in rows by uses in columns. Each cell tells how many times the best stack of its column this "
        "one costs, darker where more; grey cells are not feasible."
    )
    title = title or f"{count} stack{' is' if count == 1 else 's are'} best somewhere"
    return look.finished(frame, layers, title, _KEY, description, cases=cases)
