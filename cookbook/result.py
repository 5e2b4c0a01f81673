"""Results: their output in a terminal and in a notebook, their table and their plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 12
# Colours and font of the page that shows a card; where it has none, those of the browser, light or dark.
_CARD = (
    "color-scheme:light dark;color:var(--jp-ui-font-color1,CanvasText);background:var(--jp-layout-color1,Canvas);"
    "border:1px solid var(--jp-border-color2,GrayText);padding:8px;max-width:100%;overflow-x:auto;"
    "font-family:var(--jp-ui-font-family,sans-serif);font-variant-numeric:tabular-nums"
)
_QUIET = "color:var(--jp-ui-font-color2,GrayText)"
_CELL = "padding:0 12px 0 0;text-align:left;white-space:nowrap;color:inherit;background:transparent"
# Fields that hold several names for one row.
_NAMES = ("source",)


class Result:
    """The methods of a frozen record of results besides its fields; `summary` is the record in one line."""

    # True to print the name of the class before the summary, where the summary does not identify the record.
    _class_in_repr = True
    # Returns the call of a public function that gave the record; None of one that was made otherwise.
    _made_by: Callable[[], Any] | None = None

    def call(self) -> str:
        """Return the call that gave the record as Python to paste, with ``cb`` for the package; "" where there is none.

        Examples
        --------
        >>> import cookbook as cb
        >>> cb.requirements("resnet50", batch=64).call()
        'cb.requirements("resnet50", batch=64)'
        """
        return self._made_by().python() if self._made_by else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the keys of the table ``sources`` for what was asked about and for the prices used."""
        of_call = self._made_by().sources() if self._made_by else ()
        values: list[Any] = [getattr(self, field.name) for field in fields(self)] if is_dataclass(self) else []
        prices = [member for value in values for member in (value.values() if isinstance(value, dict) else (value,))]
        of_prices = [
            key for member in (self, *prices) if isinstance(member, Result) for key in getattr(member, "source", ())
        ]
        return tuple(dict.fromkeys((*of_call, *of_prices)))

    def summary(self) -> str:
        """Return the record in one short line."""
        return ", ".join(f"{name}={short(value)}" for name, value in _columns(self, finite=False).items())

    def to_dict(self) -> dict[str, Any]:
        """Return fields by name, as plain values; None where a value is missing or infinite."""
        return _columns(self)

    def frame(self) -> pd.DataFrame:
        """Return the record as a table: one row, or one for each entry of its arrays."""
        import pandas as pd

        columns = _columns(self, finite=False)
        has_lists = any(isinstance(value, list) and name not in _NAMES for name, value in columns.items())
        return pd.DataFrame(columns) if has_lists else pd.DataFrame([columns])

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the record's tables as printed, by title; the first one is that of the card."""
        return {"Values": self.frame().map(short)}

    def facts(self) -> dict[str, str]:
        """Return what a card says besides the summary and the first table: sentences by label."""
        assumed = getattr(self, "assumed", "")
        return (
            {"Assumed": assumed if isinstance(assumed, str) else "; ".join(map(str, assumed))} if len(assumed) else {}
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>" if self._class_in_repr else f"<{self.summary()}>"

    def _headline(self) -> str:
        """Return the title of the card."""
        return self.summary()

    def _repr_html_(self) -> str:
        tables, facts = self.tables(), self.facts()
        if not tables:
            return card(self._headline(), facts)
        return card(self._headline(), next(iter(tables.values())), [f"{name}: {fact}" for name, fact in facts.items()])


def html_text(text: str) -> str:
    """Return plain text as HTML; each dollar sign is an element of its own, as notebooks take two for a formula's ends.

    Examples
    --------
    >>> html_text("$5 < $6")
    '<span>$</span>5 &lt; <span>$</span>6'
    """
    return escape(text).replace("$", "<span>$</span>")


def card(title: str, rows: pd.DataFrame | Mapping[str, Any] | None = None, notes: Sequence[str] = ()) -> str:
    """Return a result as HTML: its headline, at most twelve rows, and quiet notes below them; all text is escaped.

    Parameters
    ----------
    title : str
        The headline.
    rows : pandas.DataFrame or mapping, optional
        Printed cells, with units in the headings; or facts by name.
    notes : sequence of str
        Sentences below the table.
    """
    rows = {} if rows is None else rows
    if isinstance(rows, Mapping):
        head, left = "", 0
        lines = [_cell("th", name, ' scope="row"') + _cell("td", fact) for name, fact in rows.items()]
    else:
        head, left = "".join(_cell("th", name, ' scope="col"') for name in rows.columns), len(rows) - MOST_ROWS
        lines = ["".join(_cell("td", cell) for cell in row) for row in rows.head(MOST_ROWS).itertuples(index=False)]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    table = f"<table>{head}<tbody>{body}</tbody></table>" if body else ""
    lines_below = [*([f"{left:,} more rows in .frame()."] if left > 0 else []), *notes]
    below = "".join(f'<div style="{_QUIET}">{html_text(note)}</div>' for note in lines_below)
    return f'<div style="{_CARD}"><strong>{html_text(title)}</strong>{table}{below}</div>'


def _cell(tag: str, value: Any, more: str = "") -> str:
    return f'<{tag}{more} style="{_CELL}">{html_text(str(value))}</{tag}>'


def short(value: Any) -> str:
    """Return a value as a cell of a card or in a sentence: four digits, the first three of several.

    >>> short(1234.567), short(float("nan")), short([1, 2, 3, 4])
    ('1,235', 'not known', '1, 2, 3, ... (4)')
    """
    if isinstance(value, float):
        return "not known" if math.isnan(value) else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, (list, tuple)):
        shown = ", ".join(short(member) for member in value[:3])
        return f"{shown}, ... ({len(value)})" if len(value) > 3 else shown
    return str(value)


def plain(value: Any, finite: bool = True) -> Any:
    """Return a value as JSON would take it: Python numbers, lists and dicts; None where a value is missing or infinite.

    Parameters
    ----------
    value : Any
        Numbers, text, arrays, mappings and sequences; records as their fields, tables as a list of their rows.
    finite : bool
        Whether NaN and infinities become None; False keeps them, for tables.

    Examples
    --------
    >>> plain({"a": (1.5, math.nan)}), plain({"a": (1.5, math.nan)}, finite=False)
    ({'a': [1.5, None]}, {'a': [1.5, nan]})
    """
    if isinstance(value, Result) and finite:
        return value.to_dict()
    if is_dataclass(value):
        return _columns(value, finite)
    if hasattr(value, "columns"):
        value = value.to_dict("records")
    if isinstance(value, Mapping):
        return {str(name): plain(member, finite) for name, member in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(member, finite) for member in value]
    return None if finite and isinstance(value, float) and not math.isfinite(value) else value


def _columns(record: Any, finite: bool = True) -> dict[str, Any]:
    """Return the fields of a record that its repr shows, as plain values."""
    return {field.name: plain(getattr(record, field.name), finite) for field in fields(record) if field.repr}
