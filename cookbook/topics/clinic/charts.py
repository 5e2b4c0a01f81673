"""Chart of a diagnosis: the time of a training step by term, over the run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import TIME_PARTS, alt

# Terms of an attribution in the order of a bar; those that other charts have too keep their colours.
TERMS = {
    "steady": TIME_PARTS["compute"],
    "compute": TIME_PARTS["compute"],
    "memory traffic": TIME_PARTS["memory traffic"],
    "launch": TIME_PARTS["launch"],
    "communication": TIME_PARTS["tensor-parallel communication"],
    "input": TIME_PARTS["input"],
    "checkpoint": TIME_PARTS["optimiser"],
    "slowdown": TIME_PARTS["waiting"],
    "idle": TIME_PARTS["bubble"],
}
# Pixels for the longest label: which rows are shown changes in place.
_LABEL_WIDTH = 110
_KEY = "Each bar is the mean step of a stretch of the run, with its length at the right; every instant counts once."


def attribution(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of the time of a mean step by term, one stacked bar for each stretch of a run.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (stretch, in order from the top), `part` (a key of `TERMS`), `start`, `end` [ms], `text` (words
        at the right of the row, once a row).
    title : str, optional
        The takeaway; the largest part of the first bar by default.

    Returns
    -------
    altair.LayerChart
        Signals: `rows`, the order of the rows; `most`, the end of the axis [ms]; `parts`, the parts that are drawn.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["whole run", "compute", 0.0, 1.0, ""], ["whole run", "input", 1.0, 5.0, "5 ms"]]
    >>> attribution(pd.DataFrame(rows, columns=["row", "part", "start", "end", "text"])).title.text
    'input takes most of a step'
    """
    x = alt.X("start:Q", title="Mean time of a step [ms]", scale=look.linear_scale("most"), axis=alt.Axis(tickCount=6))
    tip = [alt.Tooltip("row:N", title="stretch"), alt.Tooltip("part:N"), *look.number_tips(",.3~g", "start", "end")]
    legend = look.top_legend(columns=4, symbolType="square", values=alt.ExprRef("parts"))
    bar = (
        alt.Chart()
        .mark_bar(height={"band": 0.6}, clip=True)
        .encode(
            x=x, x2="end:Q", y=look.rows_axis(_LABEL_WIDTH), tooltip=tip, color=look.coloured("part", TERMS, legend)
        )
    )
    first = frame[frame["row"] == frame["row"].iloc[0]]
    largest = first.loc[(first["end"] - first["start"]).idxmax(), "part"]
    words = (
        "Stacked horizontal bars of time, one a stretch of a run, the whole run first: the parts of a mean step in one "
        "fixed order and colour. Words at the right give its length."
    )
    layers = [*look.row_text(alt.Chart(), _LABEL_WIDTH), bar]
    return look.finished(
        frame,
        layers,
        title or f"{largest} takes most of a step",
        _KEY,
        words,
        most=float(frame["end"].max()),
        parts=drawn(frame),
    )


def drawn(frame: pd.DataFrame) -> list[str]:
    """Return the parts that are long enough to be visible: a hundredth of the longest bar."""
    longest = (frame["end"] - frame["start"]).groupby(frame["part"]).max()
    return [part for part in TERMS if longest.get(part, 0.0) > 0.01 * frame["end"].max()]
