"""How records print: a line, a small table in a notebook, a frame, a plain dict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MOST = 12
# Colours of the page around it, light or dark.
STYLE = (
    "color:var(--jp-ui-font-color1,inherit);background:var(--jp-layout-color1,transparent);max-width:100%;"
    "border:1px solid var(--jp-border-color2,#8888);padding:8px;overflow-x:auto;font-variant-numeric:tabular-nums"
)


class Printed:
    """What a frozen record of results offers besides its fields; `summary` says it in one line."""

    def summary(self) -> str:
        """The record in one short line."""
        return ", ".join(f"{name}={_short(value)}" for name, value in self.to_dict().items())

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, as a plain dict."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self) if each.repr}  # type: ignore[arg-type]

    def frame(self) -> pd.DataFrame:
        """The record as a table: one row, or one for each entry of its arrays."""
        import pandas as pd

        columns = self.to_dict()
        several = any(isinstance(value, list) and name not in _NAMES for name, value in columns.items())
        return pd.DataFrame(columns) if several else pd.DataFrame([columns])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_html_(self) -> str:
        return f'<div style="{STYLE}"><b>{escape(self.summary())}</b>{html_table(self.frame())}</div>'


# Fields that hold several names for one row.
_NAMES = ("source",)


def html_table(frame: pd.DataFrame, most: int = MOST) -> str:
    """At most so many rows of a table as HTML, in the colours of the page around it."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in frame)
    rows = ("".join(f"<td>{escape(_short(cell))}</td>" for cell in row)
            for row in frame.head(most).itertuples(index=False))  # fmt: skip
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    left = len(frame) - most
    more = f"<p>{left:,} more rows: frame() has all.</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return "not known" if math.isnan(value) else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, (list, tuple)):
        shown = ", ".join(_short(each) for each in value[:3])
        return f"{shown}, ... ({len(value)})" if len(value) > 3 else shown
    return str(value)


def _plain(value: Any) -> Any:
    """Arrays as lists, mappings as dicts, records within as dicts."""
    if isinstance(value, Printed):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value
