"""Structure of every panel: answer, controls, chart, parts, tools; without physics."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from cookbook import catalog
from cookbook.catalog.calls import as_python, keywords
from cookbook.catalog.files import csv_text
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import NOT_READ, refusal_of
from cookbook.charts import live
from cookbook.charts.card import kept, panel_card
from cookbook.panels.controls import PROBLEMS, Combo, Control, from_link, place, same, to_link
from cookbook.panels.specs import spec_of
from cookbook.panels.text import file_name, levels, no_answer, sentence, sources_of, table_of
from cookbook.units import ratio, shown
from cookbook.workloads import zoo

_HERE = Path(__file__).parent
_CHARTS = Path(live.__file__).parent
MOST_ROWS = 15
HEIGHT = 380
# What is tried when a value cannot be used: so many values, for so long [s], until so many were found.
TRIES, PATIENCE, FIXES = 8, 0.5, 3


@dataclass(frozen=True)
class Part:
    """One part of a sum: its value, its text, its colour, and its formula in words."""

    name: str
    value: float
    text: str
    colour: str
    formula: str


@dataclass(frozen=True)
class Picture:
    """The chart now shown: its name, data and takeaway, and the signals that set its axes."""

    name: str
    frame: pd.DataFrame
    title: str
    signals: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """All that a panel shows for one state of its controls.

    Attributes
    ----------
    answer : str
        One plain sentence; `**` around the headline.
    headline : dict of str to float
        What Pin compares, under the names that the sentence uses.
    chips : tuple of (label, tooltip)
        Badges: how the answer is known.
    picture : Picture
        The chart now shown.
    parts, parts_title
        Parts of the answer's number.
    table : callable
        Gives rows as they are printed, with units in the headings; the first 15 are shown, when asked for. A cell
        may be (text, address): a link.
    data : callable
        Gives the same and more as plain numbers, for CSV.
    sources : callable
        Gives (title, url, note) of whatever the numbers come from.
    code : str
        The calls that reproduce the state.
    kept
        Whatever the recipe wants to find again in a pinned view.
    stood_for : dict
        What a control that was left open stands for. Of an empty one it is shown in its place; where words such as
        "best" are chosen, a record names both.
    """

    answer: str
    headline: Mapping[str, float]
    chips: tuple[tuple[str, str], ...]
    picture: Picture
    parts: tuple[Part, ...]
    parts_title: str
    table: Callable[[], pd.DataFrame]
    data: Callable[[], pd.DataFrame]
    sources: Callable[[], tuple[tuple[str, str, str], ...]]
    code: str
    kept: Any = None
    stood_for: Mapping[str, Any] = field(default_factory=dict)


Draw = Callable[[dict[str, Any], "View | None"], View]
Off = Callable[[dict[str, Any]], dict[str, str]]
# What refuses in the caller's words; the other `PROBLEMS` are Python's, of a value that slips through.
REFUSALS = (ValueError, catalog.UnknownName)


class Panel(anywidget.AnyWidget):
    """A recipe's panel.

    Parameters
    ----------
    make : callable or str
        The recipe's function: its name, and the defaults of its arguments, are those of the panel. Its name alone where
        an argument of it is called the same.
    title : str
        What the panel is called for those who do not see it.
    controls : callable
        Gives Combos, Sliders and Choices in reading order, once; one Choice named "picture" selects the chart.
    charts : mapping
        Name of a picture -> function from its first frame to an Altair chart.
    draw : callable
        From the controls' values and the pinned view (or None) to a `View`. ValueError and KeyError become a
        sentence in place 1.
    values : mapping
        The state to start (and Reset) with; what is not in it is as in the state known to be good.
    off : mapping
        Control -> function from the values asked for to {option or "*": why it is not available}. It sees what was
        asked for, not what is shown, so that a state without an answer can be mended with any control.
    pick : str
        Control that a click on a mark sets to the mark's `key`; the table opens, which has its source.
    good : mapping, optional
        State that is known to be good; the defaults of `make` where none is given.
    presets : sequence of (label, values)
        States in the reader's words, one button each: the good state with these values.
    """

    _esm = live.script(_CHARTS / "fit.js", _CHARTS / "vega.js", _HERE / "controls.js", _HERE / "panel.js")
    _css = live.script(_CHARTS / "live.css", _HERE / "panel.css")
    shape = traitlets.Dict().tag(sync=True)
    specs = traitlets.Dict().tag(sync=True)
    shown = traitlets.Dict().tag(sync=True)
    columns = traitlets.Dict().tag(sync=True, to_json=live.packed)
    runtime = traitlets.Instance(live.VegaRuntime).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(
        self,
        make: Callable[..., Panel] | str,
        title: str,
        controls: Callable[[], Sequence[Control]],
        charts: Mapping[str, Callable[[pd.DataFrame], Any]],
        draw: Draw,
        values: Mapping[str, Any],
        off: Mapping[str, Off] | None = None,
        pick: str = "",
        good: Mapping[str, Any] | None = None,
        presets: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> None:
        runtime = live.runtime()  # first, so that the page reads Vega while the kernel computes
        self._name = make if isinstance(make, str) else make.__name__
        self._charts, self._draw = dict(charts), draw
        self._controls = {control.name: control for control in _made(controls)}
        defaults = good or defaults_of(make)
        self._defaults = dict(defaults)
        self._start = {**defaults, **self._checked(values)}
        self._state = dict(self._start)
        self._pinned: View | None = None
        self._off_of, self._off, self._typed = dict(off or {}), dict[str, dict[str, str]](), dict[str, Any]()
        self._open, self._seq, self._turn, self._error = "", 0, 0, ""
        self._good, self._faulty, self._fixes = dict(defaults), "", list[tuple[str, Mapping[str, Any]]]()
        self._presets = [(label, {**defaults, **self._checked(changes)}) for label, changes in presets]
        self._drawn: pd.DataFrame | None = None
        self._view, wrong = self._first(defaults)
        shape = {
            "title": title,
            "height": HEIGHT,
            "pick": pick,
            **place(),
            "controls": [control.describe() for control in self._controls.values()],
            "presets": [label for label, _ in self._presets],
        }
        super().__init__(shape=shape, runtime=runtime)
        self._error = wrong
        self.on_msg(lambda _, message, __: self.receive(message))
        self._show()

    def _first(self, defaults: Mapping[str, Any]) -> tuple[View, str]:
        """Return the first view; of an invalid state, that of the defaults, with the reason."""
        try:
            values = self._read(self._state)
            view = self._draw(values, None)
            self._remember()
            self._start = self._state = self._good = values
            return view, ""
        except PROBLEMS as problem:
            self._good = self._read(dict(defaults))
            wrong = self._told(problem, self._state)
            self._mend(problem, ())
            return self._draw(self._good, None), wrong

    @property
    def name(self) -> str:
        """Name of the recipe's function."""
        return self._name

    @property
    def answer(self) -> str:
        """The sentence in place 1, as plain text."""
        return (self._error or self._answer()).replace("**", "")

    @property
    def code(self) -> str:
        """The calls that reproduce the state; of the last valid state where the present one is not."""
        return self._view.code

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers behind the picture, in SI units."""
        return self._view.data()

    @property
    def values(self) -> dict[str, Any]:
        """Values of the controls."""
        return dict(self._state)

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """Labels and values of the controls in the last valid state, in words, without empty or disabled ones."""
        return [
            (control.label, text)
            for name, control in self._controls.items()
            if control.place == "controls"
            and "*" not in self._off.get(name, {})
            and (text := self._said(name, control))
        ]

    def _said(self, name: str, control: Control) -> str:
        """Return the value of a control in words; of an empty one, with the value that was used."""
        text, used = control.said(self._good[name]), self._view.stood_for.get(name)
        words = "" if used is None else control.said(used)
        return f"{text or 'automatic'}: {words}" if words and words != text else text

    @property
    def sources(self) -> tuple[tuple[str, str, str], ...]:
        """(title, address, note) of whatever the answer comes from."""
        return self._view.sources()

    def printed(self, most: int) -> tuple[list[str], list[list[str]], int]:
        """Return headings and the first `most` rows of the table as printed, and the number of rows."""
        table = self._view.table()
        rows = [[str(cell[0] if isinstance(cell, tuple) else cell) for cell in row] for row in table.head(most).values]
        return [str(name) for name in table.columns], rows, table.attrs.get("rows", len(table))

    def update(self, **values: Any) -> None:
        """Set controls and redraw; of an invalid value the answer gives the reason, and the chart stays.

        Raises
        ------
        TypeError
            For a name that no control has.
        """
        self._state = {**self._state, **self._checked(values)}
        for name in values:
            self._typed.pop(name, None)
        self._redraw(values)

    @property
    def error(self) -> str:
        """Reason why the present state has no answer; "" where it has one."""
        return self._error

    @property
    def view(self) -> View:
        """View of the last valid state, with the answer as printed."""
        return replace(self._view, answer=self._answer())

    @property
    def chart(self) -> dict[str, Any]:
        """The chart now shown, as a page draws it."""
        picture = self._view.picture
        return {
            "spec": self._spec(picture),
            "columns": live.to_columns(picture.frame),
            "signals": self._signals(self._view),
        }

    def _spec(self, picture: Picture) -> dict[str, Any]:
        return self.specs.get(picture.name) or spec_of(
            f"{self._name} {picture.name}", self._charts[picture.name], picture.frame
        )

    @contextmanager
    def decided(self) -> Iterator[None]:
        """Show the last valid state with the first chart within the context; the page is not changed."""
        now = {name: getattr(self, name) for name in ("_state", "_good", "_view", "_off", "_error")}
        first = {name: value for name, value in self._start.items() if name == "picture"}
        try:
            self._off = dict(self._off)
            if any(not same(self._good[name], value) for name, value in first.items()):
                with suppress(*PROBLEMS):
                    values = self._read({**self._good, **first})
                    self._view = self._draw(values, self._pinned)
                    self._good = values
            self._state, self._error = self._good, ""
            self._unavailable()
            yield
        finally:
            for name, value in now.items():
                setattr(self, name, value)

    def pin(self) -> None:
        """Keep the present scenario as a ghost; a second call lets it go."""
        self._pinned = None if self._pinned or self._error else self._view
        self._redraw()

    def reset(self) -> None:
        """Back to the state that the panel was made with; a pinned scenario stays."""
        self._state = dict(self._start)
        self._typed.clear()
        self._redraw()

    @property
    def link(self) -> str:
        """Query of an address that opens this panel in its last valid state; "" where none can carry it."""
        return to_link(self._name, self._controls, self._good, self._defaults, self.shape["cell"])

    def follow(self, state: str) -> None:
        """Take the state of a link; an invalid one changes nothing but the answer, which gives the reason."""
        try:
            values = from_link(self._controls, state, self._defaults)
        except ValueError as problem:
            self._error, self._faulty, self._fixes = sentence(problem), "", [("Go on without the link", {})]
            self._show()
            return
        self._typed.clear()
        self._state = {**self._defaults, **values}
        self._redraw()

    def csv(self) -> str:
        """Text of the CSV download: headings and plain SI numbers, as spreadsheets and pandas read them."""
        return csv_text(self.frame)

    def receive(self, message: Mapping[str, Any]) -> None:
        """Act on a message of the browser; also what a test sends."""
        match message.get("do"):
            case "set":
                self._seq = int(message.get("seq", self._seq))
                self.update(**message["values"])
            case "pick":
                self._open = "table"
                self.update(**{self.shape["pick"]: message["key"]})
            case "preset":
                self._typed.clear()
                self._state = dict(self._presets[int(message["index"])][1])
                self._redraw()
            case "mend":
                self.update(**dict(self._fixes[int(message["index"])][1]))
            case "link":
                self.follow(str(message.get("state")))
            case "pin":
                self.pin()
            case "reset":
                self.reset()
            case "open":
                self._open = str(message["what"])
                self._show()
            case "csv":
                self.send({"csv": self.csv(), "file": f"{self.shown['file']}.csv"})

    def _checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        check_names(values, list(self._controls), self._name, "control")
        return dict(values)

    def _read(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {name: control.read(state[name]) for name, control in self._controls.items()}

    def _redraw(self, changed: Mapping[str, Any] | None = None) -> None:
        """Draw a new view, or show the reason why there is none."""
        try:
            values = self._read(self._state)
            self._view = self._draw(values, self._pinned)
            self._remember()
            self._good = self._state = values
            self._error, self._faulty, self._fixes = "", "", []
        except PROBLEMS as problem:
            self._error = self._told(problem, changed or self._state)
            if set(changed or ()) == {"picture"}:
                self._draw_another_chart()
            self._show()  # the reason at once, what would mend it when it is found
            self._mend(problem, changed or ())
        self._show()

    def _draw_another_chart(self) -> None:
        """The chart that a reader asks for, of the last valid state."""
        good = {**self._good, "picture": self._state.get("picture")}
        if not same(self._good.get("picture"), good["picture"]):
            with suppress(*PROBLEMS):
                self._view = self._draw(self._read(good), self._pinned)
                self._good = good

    def _mend(self, problem: Exception, changed: Iterable[str]) -> None:
        """Find the control at fault, and values of it that can be used, by trying them."""
        suspects, why = self._suspects(problem, changed), refusal_of(problem)
        holding = self._holding(problem)
        self._faulty = next(iter(suspects), "")
        fixes, tried, end = dict[str, Mapping[str, Any]](), 0, time.monotonic() + PATIENCE
        for name in suspects:
            control, now = self._controls[name], self._state[name]
            own = control.sets(why.field) or name in holding
            for value in control.near(now, self._good[name], why.nearest if own else ()):
                if tried == TRIES or len(fixes) == FIXES or time.monotonic() > end:
                    break
                tried += 1
                with suppress(*PROBLEMS):
                    values = self._read({**self._state, name: value})
                    self._draw(values, None)
                    fixes[f"{control.label}: {control.told(values[name], now)}"] = {name: values[name]}
        undone = {name: value for name, value in self._good.items() if not same(value, self._state[name])}
        self._fixes = [*fixes.items(), *([("Undo", undone)] if undone and undone not in fixes.values() else [])]

    def _suspects(self, problem: Exception, changed: Iterable[str]) -> list[str]:
        """Controls that may be at fault: not readable, refused, or with the unknown name; those changed come last."""
        unread, holds = [], self._holding(problem)
        at_fault = [control.name for control in self._controls.values() if control.sets(refusal_of(problem).field)]
        if holds:  # of several controls with an unknown name, the one of its table, else what was changed
            at_fault = [n for n in at_fault if n in holds] or [n for n in holds if n in changed] or holds
        for name, control in self._controls.items():
            try:
                control.read(self._state[name])
            except PROBLEMS:
                unread.append(name)
        return list(dict.fromkeys([*unread, *at_fault, *holds, *changed]))

    def _holding(self, problem: Exception) -> list[str]:
        """Return the controls whose value is a name that no table contains."""
        named = getattr(problem, "name", None)
        entries = {name: value if isinstance(value, list) else [value] for name, value in self._state.items()}
        return [name for name, chosen in entries.items() if named and any(same(named, one) for one in chosen)]

    def _remember(self) -> None:
        """Keep the text that a reader typed while its value is in use."""
        for name, control in self._controls.items():
            if isinstance(control, Combo) and control.typed(self._state[name]):
                self._typed[name] = self._state[name]

    def _stands(self, name: str) -> Any:
        """Return the content of a control: the typed text, its value, or the value used for an empty one."""
        now = self._typed.get(name, self._state[name])
        return self._view.stood_for.get(name) if now is None and not self._error else now

    def _told(self, problem: Exception, changed: Mapping[str, Any]) -> str:
        """Return the sentence of a problem, with the label of a control in place of the name of its parameter."""
        if not isinstance(problem, REFUSALS):
            what = ", ".join(f"{self._controls[name].label} = {shown(changed[name])}" for name in list(changed)[:3])
            return no_answer(problem, what)
        text, field = sentence(problem), refusal_of(problem).field
        own = any(text.startswith(f"{control.label} = ") for control in self._controls.values())
        for control in self._controls.values():
            if isinstance(control, Combo) and control.sets(field) and refusal_of(problem).code == NOT_READ:
                strange = control.strange(self._state[control.name])
                if strange and not isinstance(problem, catalog.UnknownName):
                    near = ", ".join(control.labels_like(strange))
                    return f"{control.label} = {shown(strange)} is not a choice; nearest names: {near}."
            text = text if own else control.named(text, at_fault=control.sets(field))
        return text

    def _unavailable(self) -> dict[str, dict[str, str]]:
        """Return the options that are not available; where that cannot be computed, those of the last state."""
        values = {} if self._error else self._state
        for name, control in self._controls.items() if self._error else ():
            with suppress(*PROBLEMS):
                values[name] = control.read(self._state[name])
        for name, off in self._off_of.items():
            with suppress(*PROBLEMS):
                self._off[name] = off(values)
        return self._off

    def _answer(self) -> str:
        if self._pinned is None:
            return self._view.answer
        then = self._pinned.headline
        pairs = [(what, now, then[what]) for what, now in self._view.headline.items() if then.get(what)]
        ratios = [f"{what} **{ratio(now / before)}×**" for what, now, before in pairs]
        return f"{self._view.answer} Against the pinned scenario: {', '.join(ratios)}."

    def _chips(self) -> tuple[tuple[str, str], ...]:
        """Return the badges; none where there is no answer."""
        return () if self._error else self._view.chips

    def _show(self) -> None:
        view, name = self._view, self._view.picture.name
        new = {} if name in self.specs else {name: self._spec(view.picture)}
        with self.hold_sync():
            if new:
                self.specs = {**self.specs, **new}
            if view.picture.frame is not self._drawn:  # thousands of points travel only when they change
                self._drawn, self.columns = view.picture.frame, live.to_columns(view.picture.frame)
            self._turn += 1  # no two messages are alike: also one that changes nothing is answered
            self.shown = self._message(view)

    @staticmethod
    def _signals(view: View) -> dict[str, Any]:
        """Axes and title of a chart."""
        return {**view.picture.signals, live.TITLE_SIGNAL: view.picture.title}

    def _message(self, view: View) -> dict[str, Any]:
        headline, facts = (self._error, ()) if self._error else levels(self._answer())
        return {
            "name": self._name,
            "seq": self._seq,
            "turn": self._turn,
            "error": self._error,
            "answer": self._answer(),
            "headline": headline,
            "facts": list(facts),
            "faulty": self._faulty,
            "fixes": [label for label, _ in self._fixes],
            "chips": [list(chip) for chip in self._chips()],
            "code": view.code,
            "link": self.link,
            "picture": view.picture.name,
            "file": file_name(self._name, view.picture.name, *(text for _, text in self.inputs[:3])),
            "signals": self._signals(view),
            "parts": [asdict(part) for part in view.parts],
            "parts_title": view.parts_title,
            "ghost": [asdict(part) for part in self._pinned.parts] if self._pinned else [],
            "state": {name: control.show(self._stands(name)) for name, control in self._controls.items()},
            "off": {name: dict(reasons) for name, reasons in self._unavailable().items()},
            "pinned": self._pinned is not None,
            "open": self._open,
            "table": table_of(view.table(), MOST_ROWS) if self._open == "table" else None,
            "sources": sources_of(view.sources()) if self._open == "sources" else None,
        }

    def __repr__(self) -> str:
        """Text digest that a test can compare: the answer, the picture's title and hash, the code."""
        columns, signals = self.columns, self.shown["signals"]
        rows = len(next(iter(columns.values()), []))
        chips = " ".join(f"[{label}]" for label, _ in self._chips())
        picture = (
            f"{self.shown['picture']}: {self._view.picture.title} (rows={rows}, sha={live.digest(columns, signals)})"
        )
        return "\n".join([f"{self.answer} {chips}", picture, self.code])

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live panel, and for pages without a kernel a card."""
        shown, picture = self.shown, None
        if live.static_wanted():
            picture = live.to_png(self.specs[shown["picture"]], self.columns, shown["signals"])
        bundle = live.static_bundle(repr(self), picture, super()._repr_mimebundle_(**kwargs))
        return kept(bundle, panel_card(shown, None if picture else self._view.table()))


@lru_cache(maxsize=16)
def _made(controls: Callable[[], Sequence[Control]]) -> Sequence[Control]:
    return controls()


@lru_cache(maxsize=16)
def defaults_of(make: Callable[..., Panel]) -> Mapping[str, Any]:
    """State of the panel that a recipe's function makes without arguments; tuples as lists, as controls keep them."""
    defaults = {name: argument.default for name, argument in inspect.signature(make).parameters.items()}
    return MappingProxyType(
        {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
    )


def panel_call(
    make: Callable[..., Panel],
    values: Mapping[str, Any],
    good: Mapping[str, Any] | None = None,
    written: Mapping[str, str] | None = None,
) -> str:
    """The call that makes a panel in this state, from what differs from its defaults; some of it as `written`.

    A first line says so where the call needs a variable that only the reader has.
    """
    defaults = good or defaults_of(make)
    changed = [each for each, value in values.items() if value != defaults[each]]
    arguments = ", ".join(f"{each}={(written or {}).get(each) or as_python(values[each])}" for each in changed)
    chosen = [each for value in values.values() for each in (value if isinstance(value, list) else [value])]
    lost = [each.title for each in chosen if isinstance(each, zoo.Workload) and each.python() == zoo.UNNAMED]
    before = f"# {zoo.UNNAMED} is the network that you gave this panel: {lost[0]}\n" if lost else ""
    return f"{before}cb.panels.{make.__name__}({arguments})"


def model_text(value: Any) -> str:
    """Argument `model` of `cb.requirements`: a name, a record, the reader's own layers or configuration."""
    if not isinstance(value, Mapping) or "layers" not in value:
        return f"cb.model({as_python(value)})" if isinstance(value, Mapping) else as_python(value)
    more = "".join(f", {name}={as_python(value[name])}" for name in ("input", "title") if name in value)
    return f"cb.layers({as_python(value['layers'])}{more})"


def sources_of_case(network: Any, device: Any) -> dict[str, str]:
    """Return the keys of the sources of a network and a device, each with what it is for, as `cited` takes them."""
    return {
        **dict.fromkeys(network.sources, "layers of the model"),
        **dict.fromkeys(device.sources, "datasheet of the device"),
    }


def device_text(value: Any) -> str:
    """Argument `system` or `accelerators`: a name, an accelerator like another, or several of them."""
    if isinstance(value, list):
        return f"[{', '.join(map(device_text, value))}]"
    return f"cb.accelerator({keywords(value)})" if isinstance(value, Mapping) else as_python(value)
