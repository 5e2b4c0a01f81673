"""The decision record of a panel: what was asked and answered, to hand on as Markdown or as a page of its own."""

from __future__ import annotations

import platform
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import date
from hashlib import sha256
from html import escape
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets

from cookbook.charts import live
from cookbook.charts.card import kept
from cookbook.panels.text import levels
from cookbook.result import html_text
from cookbook.units import shown as told

if TYPE_CHECKING:
    from cookbook.panels.shell import Panel

_HERE = Path(__file__).parent
_CHARTS = Path(live.__file__).parent
Row = tuple[str, str, str]
Section = tuple[str, list[Row]]
LONGEST_QUESTION, LONGEST_NOTE, LONGEST_DATE = 300, 10_000, 10  # letters
CODE = "Code that reproduces it"
BEFORE_CHART = ("Decision", "Answer", "Note")  # sections of a report that stand before its chart
MOST_ROWS, LONGEST_PICTURE = 15, 6_000_000  # of a table in a report; letters of its chart
PICTURE = "data:image/png;base64,"
# What Markdown gives a meaning anywhere in a line; what it would read as a heading or a list stands behind a label.
MEANT = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]<>&#|~$!"})
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem}
body{color:#212121;background:#fff}h1{font-size:1.5rem}
h2{font-size:1.1rem;margin:1.5rem 0 .25rem;border-bottom:1px solid #bdbdbd}ul{padding-left:1.2rem}
pre,.note{white-space:pre-wrap;overflow-wrap:anywhere}pre{background:#f5f5f5;padding:.5rem}"""
# What a report needs besides: its chart, its table, and a sheet of paper.
REPORT_STYLE = """img{max-width:100%}table{border-collapse:collapse;font-size:.8rem;margin:.5rem 0}
th,td{text-align:left;vertical-align:top;padding:.15rem .5rem .15rem 0;border-bottom:1px solid #e0e0e0}
.ck-card table div{height:12px}.ck-badges{color:#616161;font-size:.85rem}.wide{overflow-x:auto}
td{min-width:6.5rem}.whole{white-space:nowrap;min-width:0}summary{margin:1.5rem 0;font-weight:600;cursor:pointer}
button{float:right;margin:0 0 .5rem 1rem;font:inherit;padding:.25rem .75rem}
@media print{button{display:none}body{margin:0;max-width:none;font-size:10pt}table{font-size:8pt}
h2,tr,img,li{break-inside:avoid}
img{max-height:9.5cm}details:not([open]){display:none}.inputs ul{columns:2}ul{margin:.25rem 0}}"""
# A button that asks the browser to print; it shows where its script runs, and the policy allows no other script.
SCRIPT = 'let b=document.getElementById("print");b.hidden=false;b.onclick=()=>print()'
PRINT = f'<button id="print" hidden>Print or save as PDF</button><script>{SCRIPT}</script>\n'
REPORT_POLICY = f"; img-src data:; script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'"
# Letters of a cell up to which it stands on one line: figures with their units.
SHORT_CELL = 20


class Record(anywidget.AnyWidget):
    """A form that follows a panel: what was asked and answered, and the reader's own words; `record` makes one."""

    _esm = live.script(_CHARTS / "fit.js", _CHARTS / "vega.js", _HERE / "controls.js", _HERE / "record.js")
    _css = live.script(_HERE / "panel.css")
    question = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    date = traitlets.Unicode().tag(sync=True)
    said: traitlets.List[Any] = traitlets.List().tag(sync=True)
    limits = traitlets.Dict({"question": LONGEST_QUESTION, "note": LONGEST_NOTE}).tag(sync=True)
    runtime = traitlets.Instance(live.VegaRuntime).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(self, panel: Panel | None, question: str, decided: Mapping[str, str], note: str) -> None:
        self._panel, self._decided = panel, decided
        super().__init__(
            question=question, note=note, date=date.today().isoformat(), runtime=live.runtime(), said=self._live()
        )
        if panel is not None:
            panel.observe(lambda _: self._follow(), "shown")
        self.on_msg(lambda _, message, __: self.receive(message))

    def _follow(self) -> None:
        self.said = self._live()

    def _live(self) -> list[Any]:
        """Return the sections of the form, which follow the panel and stay while it shows an error."""
        if self._panel and self.said and self._panel.error:
            return self.said
        rows = [("Decision", [(label, text, "") for label, text in self._decided.items()])]
        return [*(rows if self._decided else []), *(_of_panel(self._panel) if self._panel else [])]

    def sections(self, dated: bool = True) -> list[Section]:
        """All that the record says, as (heading, rows), a row being (label, text, address).

        What stays in a notebook is not `dated`: it holds neither what changes from day to day nor the list of sources.
        """
        note = [("Note", [("", self.note, "")])] if self.note.strip() else []
        sources = [(title, about, url) for title, url, about in self._panel.sources] if self._panel else []
        sources = sources if dated else [("", f"{len(sources)} sources: the saved file lists them.", "")]
        code = [(CODE, [("", self._panel.code, "")]), ("Sources", sources)] if self._panel else []
        made = [("Date", self.date, ""), ("Python", platform.python_version(), "")] if dated else []
        made = [("Deep Learning Cookbook", sys.modules["cookbook"].__version__, ""), *made]
        return [*self._live(), *note, *code, ("Made with", made)]

    def markdown(self, dated: bool = True) -> str:
        """The record as Markdown; the reader's words are escaped, so that they stay words."""
        lines = [f"# {_markdown_text(self.question)}"]
        for heading, rows in self.sections(dated):
            lines += ["", f"## {_markdown_text(heading)}", ""]
            lines += [_line(*row) if heading != CODE else indent(row[1], "    ") for row in rows]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """The record as one page that needs nothing else: no script, no picture, no network."""
        return page(self.question, f"<h1>{escape(self.question)}</h1>\n{_body(self.sections(), 2)}")

    def report(self, picture: str = "") -> str:
        """The record as one page with the chart and the table of the panel, to print or to hand on.

        Parameters
        ----------
        picture : str
            The chart as the address of a PNG that holds its data; left out where it is none.
        """
        return page(self.question, f"<h1>{escape(self.question)}</h1>\n{self.sheet(picture)}", report=True)

    def sheet(self, picture: str = "") -> str:
        """Return the body of a report as HTML: decision, answer, chart and inputs on one page.

        All of it is of the chart that the panel was made with, whichever is looked at. Table, assumptions, code and
        sources are folded behind the rest; opened, they are printed too.
        """
        if self._panel is None:
            return _body(self.sections(), 2)
        with self._panel.decided():
            sections = self.sections()
            table, words = _table(self._panel), escape(self._panel.view.picture.title)
        first = [section for section in sections if section[0] in BEFORE_CHART]
        inputs, *more = (section for section in sections if section[0] not in BEFORE_CHART)
        chart = f'<img src="{picture}" alt="{words}">' if _is_picture(picture) else ""
        behind = f"{table}\n{_body(more, 2)}"
        return (
            f"{_body(first, 2)}\n{chart}\n<div class='inputs'>{_body([inputs], 2)}</div>\n"
            f"<details><summary>Table, assumptions, code and sources</summary>\n{behind}</details>"
        )

    def receive(self, message: Mapping[str, Any]) -> None:
        """Send the file that the browser asks for, or say why there is none; also what a test sends."""
        if message.get("do") == "draw" and not self._panel:
            message = {"save": "report"}  # without a panel there is no chart to wait for
        problem = _problem(self.question, self.note, self.date)
        drawn = message.get("picture")
        makers = {
            "md": (self.markdown, "text/markdown"),
            "html": (self.html, "text/html"),
            "report": (lambda: self.report(drawn if isinstance(drawn, str) else ""), "text/html"),
        }
        if problem:
            self.send({"problem": problem})
        elif self._panel and message.get("do") == "draw":
            with self._panel.decided():
                self.send({"chart": self._panel.chart})
        elif (kind := message.get("save")) in makers:
            make, media = makers[kind]
            about = f"-{self._panel.name}" if self._panel else ""
            name = f"{'report' if kind == 'report' else 'decision'}{about}"
            self.send({"file": f"{name}.{'html' if kind == 'report' else kind}", "text": make(), "type": media})

    def __repr__(self) -> str:
        """The record as Markdown, without what differs from day to day."""
        return self.markdown(dated=False)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live form, and for pages without a kernel what it says."""
        bundle = live.static_bundle(repr(self), None, super()._repr_mimebundle_(**kwargs))
        body = _body(self.sections(dated=False), 4)
        return kept(bundle, f'<div class="ck-card"><h3>{html_text(self.question)}</h3>{body}</div>')


def record(
    panel: Panel | None = None, question: str = "", decided: Mapping[str, Any] | None = None, note: str = ""
) -> Record:
    """A decision record: a form filled from a decision and the state of a panel, to be saved as Markdown or HTML.

    Parameters
    ----------
    panel : Panel, optional
        A panel of `cb.panels` about the same scenario; the record follows it and keeps its last valid state.
    question : str
        What is to be decided; the title of the panel where it is empty.
    decided : mapping, optional
        Further rows, each a label and a text or number, such as {"Choice": "qlora"}.
    note : str
        The reader's own words; the form has a field for them.

    Returns
    -------
    Record
        `markdown()` and `html()` give the text of the files.

    Raises
    ------
    ValueError
        For what is no panel, rows that are no mapping, words that are too long, and without a panel for no question or
        no decision.

    Examples
    --------
    >>> import cookbook as cb
    >>> print(cb.panels.record(cb.panels.assembly_line(), "Buy the node?").markdown().splitlines()[0])
    # Buy the node?
    """
    if panel is not None and not hasattr(panel, "inputs"):
        raise ValueError(f"panel = {told(panel)} is not a panel; give what a function of cb.panels returned")
    if not isinstance(decided, (Mapping, type(None))):
        raise ValueError(f'decided = {told(decided)} is not a mapping; give rows such as {{"Choice": "qlora"}}')
    if not (isinstance(question, str) and isinstance(note, str)):
        raise ValueError(f"question = {told(question)}, note = {told(note)}: give text")
    if panel is None and not (question and decided):
        raise ValueError("without a panel, a record is of a question and what is decided; give both, or a panel")
    question = question or str(panel.shape["title"])  # type: ignore[union-attr]
    if problem := _problem(question, note, ""):
        raise ValueError(problem)
    return Record(panel, question, {str(label): str(text) for label, text in (decided or {}).items()}, note)


def page(title: str, body: str, report: bool = False) -> str:
    """A page of HTML that asks for nothing else; a `report` holds its picture and its one script itself."""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{REPORT_POLICY * report}"
    body = PRINT * report + body
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}{REPORT_STYLE * report}</style></head>\n'
        f"<body><main>{body}</main></body></html>\n"
    )


def _is_picture(text: str) -> bool:
    """Return True if a text is a data address of a PNG and nothing else."""
    data = text.removeprefix(PICTURE)
    if data == text or len(text) > LONGEST_PICTURE:
        return False
    try:
        return b64decode(data, validate=True).startswith(b"\x89PNG")
    except ValueError:
        return False


def _table(panel: Panel) -> str:
    """The first rows of a panel's table, with how many there are."""
    head, rows, count = panel.printed(MOST_ROWS)
    if not rows:
        return ""
    lines = [
        "".join(f"<td{' class=whole' * (len(cell) <= SHORT_CELL)}>{escape(cell)}</td>" for cell in row) for row in rows
    ]
    title = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    more = f", the first {len(rows)} of {count:,} rows" if count > len(rows) else ""
    body = "</tr><tr>".join(lines)
    return f'<h2>Table{more}</h2><div class="wide"><table><tr>{title}</tr><tr>{body}</tr></table></div>'


def _problem(question: str, note: str, day: str) -> str:
    """Return the reason why the reader's words make no record; "" where they do."""
    for what, text, most in (("question", question, LONGEST_QUESTION), ("note", note, LONGEST_NOTE)):
        if len(text) > most:
            return f"The {what} has {len(text):,} letters; write at most {most:,}."
    try:
        _ = day and date.fromisoformat(day[: LONGEST_DATE + 1])
    except ValueError:
        return f"Date = {told(day)} is no date; write it as 2026-01-31."
    return ""


def _of_panel(panel: Panel) -> list[Section]:
    """Return the sections of a panel in its last valid state; the largest part, the bottleneck, is named."""
    view = panel.view
    headline, facts = levels(view.answer)
    parts = [(part.name, part.text, "") for part in view.parts]
    largest = max(view.parts, key=lambda part: part.value, default=None)
    most = [("Largest part", largest.name, "")] if largest else []
    sections: list[Section] = [
        ("Answer", [("", text.replace("**", ""), "") for text in (headline, *facts)]),
        (f"Inputs: {panel.shape['title']}", [(label, text, "") for label, text in panel.inputs]),
        (view.parts_title, [*most, *parts]),
        ("How this is known", [(label, why, "") for label, why in view.chips]),
    ]
    return [(heading, rows) for heading, rows in sections if rows]


def _markdown_text(text: str) -> str:
    """Text on one line in which nothing has a meaning for Markdown."""
    return " ".join(text.split()).translate(MEANT)


def _line(label: str, text: str, url: str) -> str:
    """A row as an item of a list in Markdown."""
    name = f"[{_markdown_text(label)}]({url})" if _web(url) else f"**{_markdown_text(label)}**" if label else ""
    return f"- {': '.join(filter(None, [name, _markdown_text(text)]))}"


def _web(url: str) -> bool:
    """Return True if an address is of the web and is valid in Markdown without escapes."""
    return url.startswith(("https://", "http://")) and not set(url) & set(" <>()\\\n")


def _body(sections: list[Section], level: int) -> str:
    """Sections as HTML; all text is escaped."""
    pieces = list[str]()
    for heading, rows in sections:
        pieces.append(f"<h{level}>{escape(heading)}</h{level}>")
        if heading in (CODE, "Note"):
            tag = "pre" if heading == CODE else 'p class="note"'
            pieces += [f"<{tag}>{escape(text)}</{tag.split()[0]}>" for _, text, _ in rows]
            continue
        pieces += ["<ul>", *(f"<li>{_item(*row)}</li>" for row in rows), "</ul>"]
    return "\n".join(pieces)


def _item(label: str, text: str, url: str) -> str:
    name = f'<a href="{escape(url)}">{escape(label)}</a>' if _web(url) else f"<strong>{escape(label)}</strong>"
    return ": ".join(filter(None, [name if label else "", escape(text)]))
