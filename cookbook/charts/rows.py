"""What the charts share: axes by decades, rows with words at their right edge, a title and its key; and Altair itself.

Altair is imported in half the time. Where JupyterLab is installed, jsonschema (which Altair imports) loads a grammar of
international web addresses that no chart needs. Hidden for the moment of the import, it is skipped, as on a machine
where it is not installed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.charts.look import INK

if TYPE_CHECKING:
    import pandas as pd

_SLOW = "rfc3987_syntax"
_hidden = _SLOW not in sys.modules
if _hidden:
    sys.modules[_SLOW] = None  # type: ignore[assignment]
try:
    import altair as alt
finally:
    if _hidden:
        del sys.modules[_SLOW]

HEIGHT = 372
GOLDEN = 0.6180339887
# Longest words beside a row, drawn unseen: they keep the room, so that the picture does not jump.
_ROOM = "fits batch 00,000 at most"
# Rows that state a need are printed bold; Vega sees the label alone, so the word itself tells.
NEEDS = " needs"


def decades(values: Iterable[float], low: float = 1e9, high: float = 1e15) -> tuple[float, float]:
    """Whole powers of ten around positive values, so that an axis moves seldom.

    Examples
    --------
    >>> decades([2.6e14, 1.2e13])
    (10000000000000.0, 1000000000000000.0)
    """
    finite = [v for v in values if v is not None and math.isfinite(v) and v > 0]
    if not finite:
        return low, high
    start, stop = math.floor(math.log10(min(finite))), math.ceil(math.log10(max(finite)))
    return 10.0**start, 10.0 ** max(stop, start + 1)


def nice_ceiling(value: float) -> float:
    """Next of 1, 1.5, 2, 3, 5, 7 times a power of ten: the end of a linear axis that moves seldom.

    Examples
    --------
    >>> nice_ceiling(83e9)
    100000000000.0
    """
    if not (value > 0 and math.isfinite(value)):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 5, 7, 10) if step * power >= value * 0.999999)


def spread(count: int) -> np.ndarray:
    """Numbers from -0.5 to 0.5, neighbours far apart: places of marks that would cover each other."""
    return np.asarray(np.arange(count) * GOLDEN % 1 - 0.5)


def decade_axis() -> Any:
    """Axis with one tick a decade."""
    return alt.Axis(labelExpr="format(datum.value, '~s')", values=[10.0**power for power in range(-3, 25)])


def titled(chart: Any, title: str, key: str, description: str) -> Any:
    """The chart with its takeaway, the key to its marks, and words for those who do not see it."""
    return chart.properties(
        title=alt.Title(title, subtitle=key), description=description, width="container", height=HEIGHT
    )


def row_order(frame: pd.DataFrame) -> list[str]:
    """Labels of the rows from the top; a signal, since Vega forgets the order when data change."""
    return list(dict.fromkeys(frame["row"]))


def rows_param(frame: pd.DataFrame) -> Any:
    """Signal `rows` with the order of the rows."""
    return alt.param(name="rows", value=row_order(frame))


def narrow_param() -> Any:
    """Signal `narrow`, which the page sets where a legend needs two lines."""
    return alt.param(name="narrow", value=False)


def rows_axis(room: int | None = None) -> Any:
    """Vertical axis with one band a row; `room` [pixels] is kept for labels where they change in place."""
    bold = alt.condition(f"indexof(datum.value, '{NEEDS}') > 0", alt.value("bold"), alt.value("normal"))
    kept: dict[str, Any] = {} if room is None else {"minExtent": room, "maxExtent": room}
    axis = alt.Axis(grid=False, ticks=False, labelLimit=room or 200, labelFontWeight=bold, **kept)
    return alt.Y("row:N", scale=alt.Scale(domain=alt.ExprRef("rows")), title=None, axis=axis)


def row_text(base: Any, room: int | None = None) -> list[Any]:
    """Words at the right edge of each row; `|` breaks the line."""
    kept = base.transform_aggregate(n="count()").mark_text(align="left", dx=10, fontSize=12, opacity=0)
    words = base.transform_filter("isValid(datum.text)").mark_text(
        align="left", dx=10, dy=alt.ExprRef("indexof(datum.text, '|') < 0 ? 0 : -7"), baseline="middle",
        lineBreak="|", lineHeight=14, fontSize=12, color=INK,
    )  # fmt: skip
    at = alt.value("width")
    return [kept.encode(x=at, text=alt.value(_ROOM)), words.encode(y=rows_axis(room), x=at, text="text:N")]
