"""What results of this room share: a card for a notebook, light or dark, and plain Python values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Colours and font of the page that shows the card; where it has none, those of the browser, light or dark.
_CARD = (
    "color-scheme:light dark;color:var(--jp-ui-font-color1,CanvasText);background:var(--jp-layout-color1,Canvas);"
    "border:1px solid var(--jp-border-color2,GrayText);padding:8px;max-width:100%;overflow-x:auto;"
    "font-family:var(--jp-ui-font-family,sans-serif);font-variant-numeric:tabular-nums"
)
_QUIET = "color:var(--jp-ui-font-color2,GrayText)"
_CELL = "padding:0 12px 0 0;text-align:left;white-space:nowrap;color:inherit;background:transparent"
MOST_ROWS = 12


def card(title: str, table: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """A result as HTML: its headline, at most twelve rows, and what is quiet below them; all text is escaped.

    Parameters
    ----------
    title : str
        The headline.
    table : pandas.DataFrame
        Printed cells, with units in the headings.
    notes : sequence of str
        Sentences below the table.
    """
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(str(name))}</th>' for name in table.columns)
    rows = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in table.head(MOST_ROWS).itertuples(index=False)
    )
    left = len(table) - MOST_ROWS
    said = [*([f"{left:,} more rows in .frame()."] if left > 0 else []), *notes]
    below = "".join(f'<div style="{_QUIET}">{escape(note)}</div>' for note in said)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if len(table) else ""
    return f'<div style="{_CARD}"><strong>{escape(title)}</strong>{body}{below}</div>'


def plain(value: Any) -> Any:
    """A value as JSON would take it: numbers of Python, lists and dicts; None where a figure is missing.

    >>> plain({"a": np.array([1.5, np.nan])})
    {'a': [1.5, None]}
    """
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
