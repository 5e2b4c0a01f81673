"""A panel or chart without a kernel: its static view as plain HTML that needs no script or style."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from cookbook.result import html_text

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS, BAR = 5, 160  # rows of a table, and pixels of all parts together
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# A notebook that was opened from a link to a panel shows what was saved, until its cells have run.
SAVED_NOTE = '<p class="ck-badges">Saved view: run all cells to use the controls, or to open a link to this panel.</p>'
# Where a front end shows both, the card is below the live chart, and one of the two is hidden. A widget that was not
# restored leaves an error in its place; the card waits until a loading widget has had its time.
CARD_STYLE = """<style>
.jp-OutputArea-child:has(.cookbook-panel, .cookbook-record, .cookbook-chart, .cookbook-measuring)\
 + .jp-OutputArea-child:has(.ck-beside),
.jp-OutputArea-child:not(:has(.cookbook-panel, .cookbook-record, .cookbook-chart, .cookbook-measuring))\
:has(+ .jp-OutputArea-child .ck-beside) {
  display: none;
}
.ck-beside { animation: ck-wait 3s step-end backwards; }
@keyframes ck-wait { from, to { height: 0; overflow: hidden; visibility: hidden; } }
</style>"""


def panel_card(shown: Mapping[str, Any], rows: pd.DataFrame | None = None) -> str:
    """Return headline, badges and parts of a panel; with `rows` also its first numbers. All text is escaped.

    Parameters
    ----------
    shown : mapping
        The panel's message to the browser: `error`, `answer` with `**` around key values, `chips`, `parts_title` and
        `parts`, each with a `name`, a `value`, a `text` and a `colour`.
    rows : pandas.DataFrame, optional
        Printed cells, with units in the headings; five rows are shown. A cell may be (text, address).

    Returns
    -------
    str
        HTML of some kB; where styles are stripped, it is a paragraph and tables.

    Examples
    --------
    >>> panel_card({"error": "Batch = 0 is not allowed.", "answer": ""})
    '<div class="ck-card"><p>Batch = 0 is not allowed.</p></div>'
    """
    if shown["error"]:
        return f'<div class="ck-card"><p>{html_text(shown["error"])}</p></div>'
    pieces = html_text(shown["answer"]).split("**")
    headline = "".join(f"<strong>{piece}</strong>" if place % 2 else piece for place, piece in enumerate(pieces))
    badges = " · ".join(f'<span title="{escape(tip)}">{html_text(label)}</span>' for label, tip in shown["chips"])
    body = f'<p>{headline}</p><p class="ck-badges">{badges}</p>{SAVED_NOTE}{_parts(shown)}'
    return f'<div class="ck-card">{body}{_table(rows) if rows is not None else ""}</div>'


def chart_card(title: str, key: Any, frame: pd.DataFrame) -> str:
    """Return the takeaway of a chart, its key, and its first rows: words beside a row where it has them, else numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"row": ["a"], "value": [0.25], "text": ["25 %|of all"]})
    >>> chart_card("One row", "Bar: a share.", rows).partition("<table>")[0]
    '<div class="ck-card"><p><strong>One row</strong></p><p class="ck-badges">Bar: a share.</p>'
    """
    if {"row", "text"} <= set(frame.columns):
        frame = frame.loc[frame["text"].notna(), ["row", "text"]]
        frame = frame.assign(text=[words.replace("|", ", ") for words in frame["text"]])
    cells = frame.map(lambda cell: f"{cell:,.4g}" if isinstance(cell, float) and not math.isnan(cell) else cell)
    key_text = " ".join([key] if isinstance(key, str) else key or [])
    head = f'<p><strong>{html_text(title)}</strong></p><p class="ck-badges">{html_text(key_text)}</p>'
    return f'<div class="ck-card">{head}{_table(cells.astype(object).where(cells.notna(), None))}</div>'


def served() -> bool:
    """Return True if a Jupyter server started this kernel, so that a notebook stores what is shown."""
    return "JPY_SESSION_NAME" in os.environ


def kept(bundle: tuple[dict[str, Any], dict[str, Any]], html: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a widget's mime bundle with its card; a notebook under a Jupyter server gets them as two outputs.

    JupyterLab would show the error of a missing widget and not the rest of the same output.
    """
    data, metadata = bundle
    data["text/html"] = html
    if "image/png" not in data and served() and WIDGET_VIEW in data:
        from IPython.display import display

        display({WIDGET_VIEW: data.pop(WIDGET_VIEW)}, raw=True)
        data["text/html"] = f'{CARD_STYLE}<div class="ck-beside">{html}</div>'
    return data, metadata


def _parts(shown: Mapping[str, Any]) -> str:
    """Return one row per part, with a bar of the length of its share where styles are kept."""
    whole = sum(part["value"] for part in shown["parts"]) or 1
    line = "<tr><th scope='row'>{}</th><td>{}</td><td>{}</td></tr>"
    bar = "<div style='width:{:.0f}px;height:12px;background-color:{}'></div>"
    rows = [
        line.format(
            html_text(part["name"]), html_text(part["text"]), bar.format(BAR * part["value"] / whole, part["colour"])
        )
        for part in shown["parts"]
    ]
    return f"<table><caption>{html_text(shown['parts_title'])}</caption>{''.join(rows)}</table>" if rows else ""


def _table(rows: pd.DataFrame) -> str:
    cells = [[cell[0] if isinstance(cell, tuple) else cell for cell in row] for row in rows.head(MOST_ROWS).values]
    lines = [("th scope='col'", "th", rows.columns), *(("td", "td", row) for row in cells)]
    text = [
        "".join(f"<{tag}>{html_text('' if cell is None else str(cell))}</{end}>" for cell in row)
        for tag, end, row in lines
    ]
    note = "As of the last run of this cell" + ("; the first rows." if len(rows) > MOST_ROWS else ".")
    return f"<table><caption>{note}</caption><tr>{'</tr><tr>'.join(text)}</tr></table>"
