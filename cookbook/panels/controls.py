"""Controls of a panel, described once: how each is shown, what it accepts, how its value is written as code."""

from __future__ import annotations

import bisect
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from IPython import get_ipython

from cookbook import catalog, units
from cookbook.catalog.names import index, normalise
from cookbook.catalog.reading import check_names, nearest
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.catalog.tables import raw as as_text
from cookbook.panels.text import duration, json_of, listed, pieces
from cookbook.prediction.scenario import NUMERIC, Field, fields
from cookbook.units import shown

Option = tuple[str, str, str, str]
LONGEST, LONGEST_LINK = 200, 4000  # letters of a name, and of the state in a link
# Tables whose rows tell which networks and accelerators are asked for most.
MEASURED = ("training_classic", "training_transformer", "inference")
# What a function that is handed another thing than it expects may raise.
MISUSED = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError)
# What a state that cannot be drawn may raise.
PROBLEMS = (*MISUSED, IndexError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Own:
    """The reader's own entry of a combo box.

    Attributes
    ----------
    label, help, example : str
        Words of the option, what to write, and a text to start from.
    read : callable
        Text to value; it raises ValueError in plain words.
    show : callable
        Value to (text, label).
    files : str
        Ending of files whose text is accepted, such as ".json"; blank: no file is offered.
    most : int
        Letters that a text may have.
    """

    label: str
    help: str
    example: str
    read: Callable[[str], Any]
    show: Callable[[Any], tuple[str, str]]
    files: str = ""
    most: int = LONGEST**2


@dataclass(frozen=True)
class Described:
    """Description that all controls share.

    Attributes
    ----------
    name, label, group : str
        Parameter, words beside the control, heading above it. Without a label, that of the field in the schema.
    more : bool
        True if it is under "More".
    place : str
        "controls", or "picture" for the row above the picture.
    tooltip : str
        Help; without it the description of the field, and what is taken where the control is empty.
    argument : str
        Argument of the function that answers, where it is not called as the control.
    phase : str
        Kind of prediction whose schema has the field; of none that which comes first.
    """

    name: str
    label: str = ""
    group: str = ""
    tooltip: str = field(default="", kw_only=True)
    more: bool = field(default=False, kw_only=True)
    place: str = field(default="controls", kw_only=True)
    argument: str = field(default="", kw_only=True)
    phase: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Take missing words from the field of the schema."""
        row = self.declared
        if row is None:
            return
        empty = f"; empty: {row.default}" if getattr(self, "optional", False) and row.default else ""
        defaults = {"label": row.label[:1].upper() + row.label[1:], "tooltip": f"{row.description}{empty}"}
        for name, words in defaults.items():
            if not getattr(self, name):
                object.__setattr__(self, name, words)

    @property
    def declared(self) -> Field | None:
        """Row of ``data/schema/scenario.csv`` that the control sets; None where it sets another argument."""
        row = fields(self.phase).get(self.argument or self.name)
        return row if row and self.takes(row.type in NUMERIC) else None

    def takes(self, number: bool) -> bool:
        """Return True if the control can set a field of this kind: a number, or not a number."""
        return True

    def to_link(self, value: Any) -> Any:
        """A value as a link carries it."""
        return value

    def sets(self, argument: str) -> bool:
        """Return whether it sets an argument."""
        return bool(argument) and argument in (self.name, self.argument)

    def named(self, sentence: str, at_fault: bool = True) -> str:
        """Return a sentence with the words beside the control in place of the argument that it sets.

        Its head is replaced where the argument is at fault, and within it those names that are no words.

        Examples
        --------
        >>> prompt = Slider("prompt", "Prompt", "Requests", (1.0, 8.0), argument="input_len")
        >>> prompt.named("Input_len = 9 is too long; give input_len = 8, or another prompt.")
        'Prompt = 9 is too long; give prompt = 8, or another prompt.'
        """
        within = self.label if self.label[1:2].isupper() else f"{self.label[:1].lower()}{self.label[1:]}"
        for name in {self.name: 1, self.argument: 1}:
            first = f"{name[:1].upper()}{name[1:]}"
            coded = "_" in name
            if name and sentence.startswith(first if coded else f"{first} = ") and (coded or at_fault):
                sentence = f"{self.label}{sentence[len(first) :]}"
            if coded:
                sentence = sentence.replace(name, within)
        return sentence

    def refused(self, raw: Any, what: str) -> Refused:
        """Return the error for a value of the reader, under the label of the control."""
        return refused(self.argument or self.name, raw, what, name=self.label)

    def unusable(self, sentence: str) -> Refused:
        """Return the error of a sentence about the control."""
        return Refused(Refusal(sentence, field=self.argument or self.name))

    def _described(self, kind: str, **own: Any) -> dict[str, Any]:
        names = ("name", "label", "group", "tooltip", "more", "place")
        return {"kind": kind, **{name: getattr(self, name) for name in names}, **own}


@dataclass(frozen=True)
class Combo(Described):
    """Type-to-search box over many names, for one of them or (`many`) for several.

    Attributes
    ----------
    options : tuple
        (value, label, other words to search, group) of each.
    many : bool
        Several at a time; `least` to `limit`.
    own : Own, optional
        The entry under "custom…".
    plain : callable, optional
        A record of the reader's to what the control keeps: a name, or a dict.
    short : callable, optional
        Printed name to the name on the tag of a chosen entry.
    ranked : bool
        Whether the options stand in the order in which a search shall show them; else those most measured come first.
    """

    options: tuple[Option, ...] = ()
    many: bool = False
    least: int = 0
    limit: int = 8
    own: Own | None = None
    plain: Callable[[Any], Any] | None = None
    short: Callable[[str], str] = str
    ranked: bool = False

    def takes(self, number: bool) -> bool:
        """Return True for fields that are names."""
        return not number

    def describe(self) -> dict[str, Any]:
        """Return the description of the control for the browser."""
        own = self.own and {name: getattr(self.own, name) for name in ("label", "help", "example", "files", "most")}
        groups = list(dict.fromkeys(group for *_, group in self.options))
        options = [list(option) for option in sorted(self.options, key=lambda option: groups.index(option[3]))]
        counts = {} if self.ranked else _popular()
        popular = sorted((key for key, *_ in self.options if key in counts), key=lambda key: -counts[key])
        return self._described("combo", options=options, many=self.many, limit=self.limit, custom=own, popular=popular)

    def read(self, raw: Any) -> Any:
        """Value that a message, a caller or the reader's typing means."""
        if not self.many:
            return self._one(raw)
        entries = raw if isinstance(raw, (list, tuple)) else [raw]
        chosen: list[Any] = []
        for entry in entries[: self.limit + 1]:
            for name in self._names(entry) if isinstance(entry, str) else [entry]:
                value = self._one(name)
                chosen += value if isinstance(value, list) else [value]
        count = max(len(chosen), len(entries))
        if count > self.limit:
            raise self.unusable(f"{self.label} has {count:,} entries; choose at most {self.limit}")
        if len(chosen) < self.least:
            raise self.unusable(f"{self.label} is empty; choose at least {self.least}")
        return chosen

    def _names(self, text: str) -> list[str]:
        """Names in a text with commas between them; a comma in brackets or in a known name is part of it."""
        is_name = any(text.casefold() == label.casefold() for _, label, _, _ in self.options) if "," in text else True
        return [text] if is_name else pieces(text)

    def show(self, value: Any) -> dict[str, Any]:
        """State of the control in the browser."""
        entries = list(value)[: self.limit + 1] if self.many and isinstance(value, (list, tuple)) else [value]
        if self.typed(entries):
            return self._as_typed(entries)
        keys = [entry for entry in entries if isinstance(entry, str)]
        labels = [self._tag(key)[:LONGEST] for key in keys]
        written = [self._written(entry) for entry in entries if not isinstance(entry, str) and entry is not None]
        labels += [label for _, label in written]
        text = labels[0] if labels else ""
        own = "\n".join(text for text, _ in written if len(text) <= LONGEST**2)
        return {"keys": keys, "labels": labels, "own": own, "text": text}

    def _written(self, entry: Any) -> tuple[str, str]:
        """(text to edit, label) of an entry that is no name."""
        try:
            if self.own is not None:
                return self.own.show(entry)
        except MISUSED:
            pass
        return "", shown(entry)

    def typed(self, raw: Any) -> bool:
        """Return True if a value, or one of several, is a text that the reader typed under "custom…"."""
        return any(_custom(entry) for entry in (raw if isinstance(raw, (list, tuple)) else [raw]))

    def _as_typed(self, entries: Sequence[Any]) -> dict[str, Any]:
        """State that keeps the reader's own text letter by letter, whether or not it can be read."""
        text = "\n".join(str(entry["custom"]) for entry in entries if _custom(entry))
        read: list[Any] = []
        for entry in entries:
            try:
                value = self._one(entry)
            except MISUSED:
                value = []
            read += value if isinstance(value, list) else [value]
        shown = self.show(read if self.many else read[0] if read else None)
        # A text that no form holds stays in the page; it does not travel back with each answer.
        return {**shown, "own": text if len(text) <= LONGEST**2 else "", "text": shown["text"] or "your own"}

    def strange(self, raw: Any) -> str:
        """The first name that nothing in the list bears; empty where there is none."""
        spelt = "\n".join(_words(f"{key} {label} {search}") for key, label, search, _ in self.options)
        names = [entry for entry in (raw if isinstance(raw, (list, tuple)) else [raw]) if isinstance(entry, str)]
        return next((name for name in names if _words(name) not in spelt), "")

    def labels_like(self, name: str) -> list[str]:
        """Three printed names of the list that look most like another."""
        return [self.label_of(key) for key in self._like(name)]

    def _like(self, name: str) -> list[str]:
        keys = {text.casefold(): key for key, label, _, _ in self.options for text in (key, label)}
        close = nearest(name[:LONGEST].casefold(), list(keys), 8, letters=LONGEST)
        return list(dict.fromkeys(keys[text] for text in close if keys[text] != name))[:3]

    def near(self, raw: Any, last: Any, hints: Sequence[str] = ()) -> list[Any]:
        """Values to take in place of one that cannot be used, the likeliest first; `last` could be used."""
        if not self.many:
            return [*(hints or (self._like(raw) if isinstance(raw, str) else ())), last]
        entries = list(raw) if isinstance(raw, (list, tuple)) else [raw]
        new = (entry for entry in entries if not any(same(entry, one) for one in last))
        wrong = self.strange(entries) or next(new, None)
        others = [entry for entry in entries if not same(entry, wrong)][: self.limit]
        like = hints or (self._like(wrong) if isinstance(wrong, str) else ())
        return [*([*others, entry] for entry in like if entry not in others), others, last]

    def told(self, value: Any, now: Any = None) -> str:
        """Return a value in the words of the control; of several, the difference to those chosen `now`."""
        if not self.many:
            return str(self.show(value)["text"])
        before = now if isinstance(now, (list, tuple)) else [now]
        new, gone = (
            self.show([each for each in one if not any(same(each, it) for it in other)])["labels"]
            for one, other in ((value, before), (before, value))
        )
        return listed(new, 2) if new else f"without {listed(gone, 2)}" if gone else f"{len(value)} of them"

    def said(self, value: Any) -> str:
        """A value in full, in the words of the control."""
        return ", ".join(self.show(value)["labels"])

    def label_of(self, key: str) -> str:
        """Printed name of a value; the value itself where it is not an option."""
        return next((label for value, label, _, _ in self.options if value == key), key)

    def _tag(self, key: str) -> str:
        return self.short(self.label_of(key)) if self.many else self.label_of(key)

    def to_link(self, value: Any) -> Any:
        """A value as a link carries it: names of the list, and the reader's own as the text that would be typed."""
        if self.many:
            return [self._to_link(entry) for entry in value]
        return self._to_link(value)

    def _to_link(self, entry: Any) -> Any:
        if isinstance(entry, str) and (key := self._key(entry)) is not None:
            return key
        text = entry if isinstance(entry, str) else self._written(entry)[0]
        text = text if len(text) <= LONGEST_LINK else ""
        read = self.own.read(text) if self.own is not None and text else None
        again = read[0] if isinstance(read, list) and read else read
        if again is None or self.show([again] if self.many else again) != self.show([entry] if self.many else entry):
            raise self.refused(entry, "is of this session alone; a link cannot carry it")
        return {"custom": text}

    def from_link(self, raw: Any) -> Any:
        """Value of a link: names of the list, or a text for `own`; ValueError names anything else."""
        if isinstance(raw, list) != self.many:
            raise self.refused(raw, f"is not {'a list of names' if self.many else 'one name'}")
        values = [self._from_link(entry) for entry in (raw if self.many else [raw])]
        return self.read(values if self.many else values[0])

    def _from_link(self, entry: Any) -> Any:
        if _custom(entry) and isinstance(entry["custom"], str):
            return entry
        key = self._key(entry) if isinstance(entry, str) else None
        if key is None:
            near = f"; nearest names: {', '.join(self.labels_like(entry))}" if isinstance(entry, str) else ""
            raise self.refused(entry, f"is not a choice of this panel{near}")
        return key

    def _key(self, name: str) -> str | None:
        """Value of the option that a name means: the value itself, what is printed, or another spelling of it."""
        words = _words(name)
        for key, label, also, _ in self.options:
            if name == key or (words.strip() and words in map(_words, (key, label, *also.split(";")))):
                return key
        return None

    def _one(self, raw: Any) -> Any:
        if _custom(raw):
            if self.own is None:
                raise self.unusable(f"{self.label} takes no entry of your own; choose one of the list")
            if len(str(raw["custom"])) > self.own.most:
                raise self.unusable(
                    f"{self.label}: your own entry is longer than {self.own.most:,} letters; shorten it"
                )
            return self.own.read(str(raw["custom"]))
        try:
            value = self.plain(raw) if self.plain else raw
        except ValueError as wrong:
            raise self.unusable(f"{self.label} = {wrong}") from None
        if isinstance(value, str) and len(value) > LONGEST:
            raise self.refused(raw, f"has {len(value):,} letters; no name is that long")
        if isinstance(value, str):
            return value
        if self.own is None and self.plain is None:
            raise self.refused(raw, "is not a choice; give a name of the list")
        return value


@dataclass(frozen=True)
class Slider(Described):
    """Slider over sensible values with an editable number beside it; any value in range may be typed.

    Attributes
    ----------
    stops : tuple of float
        Values that the slider snaps to, ascending; the first and the last are the range. Without them powers of two
        over the range of the field.
    unit : str
        Words beside the number; for `seconds` the number carries its own unit.
    whole : bool
        True if only integers are allowed.
    seconds : bool
        A duration: shown and typed as "8 h".
    optional : bool
        True if it may be left empty, which is read as None.
    zero : str
        Words for 0 where it is not an amount, such as "list price". The panel shows them and accepts them as input.
    """

    stops: tuple[float, ...] = ()
    unit: str = ""
    whole: bool = True
    seconds: bool = False
    optional: bool = False
    zero: str = ""

    def __post_init__(self) -> None:
        """Take range and unit, too, from the field of the schema."""
        super().__post_init__()
        if not self.stops and self.declared is not None:
            low, high = (round(math.log2(end)) for end in (max(self.declared.low, 1), self.declared.high))
            object.__setattr__(self, "stops", powers_of_two(low, high))
            object.__setattr__(self, "unit", self.unit or self.declared.unit)

    def takes(self, number: bool) -> bool:
        """Return True for fields that are numbers."""
        return number

    def describe(self) -> dict[str, Any]:
        """Return the description of the control for the browser."""
        stops = [[stop, self._worded(stop)] for stop in self.stops]
        return self._described("slider", stops=stops, unit=self.unit, zero=self.zero)

    def read(self, raw: Any) -> float | int | None:
        """Value that a message, a caller or the reader's typing means; None where it may be left empty and is."""
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            if self.optional:
                return None
            raise self.unusable(
                f"{self.label} is empty; give a {'time' if self.seconds else 'number'} {self._allowed()}"
            )
        value = self._number(raw)
        low, high = self.stops[0], self.stops[-1]
        allowed, what = self._allowed(), "time" if self.seconds else "number"
        if not low <= value <= high:
            raise self.refused(raw, f"is outside its range; give a {what} {allowed}")
        if self.whole and value != int(value):
            raise self.refused(raw, f"is not a whole number; give one {allowed}")
        return int(value) if self.whole else float(value)

    def from_link(self, raw: Any) -> float | int | None:
        """Value of a link: a number in range, or null where it may be left empty."""
        if isinstance(raw, bool) or not isinstance(raw, (int, float, type(None))):
            raise self.refused(raw, f"is not a number; a link has one {self._allowed()}")
        return self.read(raw)

    def show(self, value: Any) -> dict[str, Any]:
        """State of the control in the browser: the text and the nearest stop."""
        try:
            value = self.read(value)
        except ValueError:
            return {"text": value[:LONGEST] if isinstance(value, str) else shown(value), "index": 0}
        if value is None:
            return {"text": "", "index": 0}
        return {"text": self._worded(value), "index": self._nearest_stop(value)}

    def near(self, raw: Any, last: Any, hints: Sequence[str] = ()) -> list[Any]:
        """Stops to take in place of a value that cannot be used, the nearest first; `last` could be used."""
        try:
            value = self._number(raw)
        except ValueError:
            value = last if last is not None else self.stops[0]
        at = self._nearest_stop(min(max(value, self.stops[0]), self.stops[-1]))
        around = [at + step for step in (0, -1, 1, -2, 2, -4, 4) if 0 <= at + step < len(self.stops)]
        return [*hints, *dict.fromkeys(self.stops[each] for each in around if self.stops[each] != value), last]

    def told(self, value: Any, now: Any = None) -> str:
        """Return a value with its unit, or the words for 0; "empty" where it is None."""
        if value is None:
            return "empty"
        if self.zero and not value:
            return self.zero
        before, sign, after = self.unit.partition("$")
        text = self.text(value)
        if sign:  # cents have two digits, and the sign stands first
            text = f"${text}{'0' * (len(text.partition('.')[2]) == 1)}"
            return f"{text} {before}".rstrip() + after
        return f"{text} {self.unit}".rstrip()

    def said(self, value: Any) -> str:
        """Return a value as `told` does; "" where it is None."""
        return "" if value is None else self.told(value)

    def _worded(self, value: float) -> str:
        return self.zero if self.zero and not value else self.text(value)

    def text(self, value: float) -> str:
        """The number as it is printed."""
        if self.seconds:
            return duration(value)
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"

    def _number(self, raw: Any) -> float:
        remedy = f"write {_TIMES}" if self.seconds else f"give one {self._allowed()}"
        unreadable = self.refused(raw, f"is not a {'time' if self.seconds else 'number'}; {remedy}")
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise unreadable
        if not isinstance(raw, str):
            return float(max(min(raw, 1e300), -1e300)) if raw == raw else math.nan
        if self.zero and raw.strip().casefold() == self.zero.casefold():
            return 0.0
        text = raw.strip().removesuffix(self.unit).strip()
        if self.seconds and text[-1:].isdecimal():
            raise self.refused(raw, f"has no unit; write {text} h, or {text} s, min or d")
        try:
            return float(units.si(text, "s" if self.seconds else ""))
        except (ValueError, ArithmeticError):
            raise unreadable from None

    def _allowed(self) -> str:
        return f"from {self.text(self.stops[0])} to {self.text(self.stops[-1])} {self.unit}".rstrip()

    def _nearest_stop(self, value: float) -> int:
        at = bisect.bisect_left(self.stops, value)
        if at in (0, len(self.stops)):
            return min(at, len(self.stops) - 1)
        return at if self.stops[at] / value <= value / max(self.stops[at - 1], 1e-300) else at - 1


@dataclass(frozen=True)
class Choice(Described):
    """A few values side by side, one of them chosen.

    Attributes
    ----------
    options : tuple
        (value, label, tooltip) of each.
    """

    options: tuple[tuple[str, str, str], ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return the description of the control for the browser."""
        return self._described("choice", options=[list(option) for option in self.options])

    def read(self, raw: Any) -> str:
        """Return one of the values; the ValueError for another lists them all."""
        names = [value for value, _, _ in self.options]
        if not isinstance(raw, str) or raw not in names:
            raise self.refused(raw, f"is not a choice; take one of {', '.join(names)}")
        return raw

    def from_link(self, raw: Any) -> str:
        """Value of a link: one of the values."""
        return self.read(raw)

    def show(self, value: Any) -> dict[str, Any]:
        """State of the control in the browser."""
        return {"text": value[:LONGEST] if isinstance(value, str) else shown(value)}

    def near(self, raw: Any, last: Any, hints: Sequence[str] = ()) -> list[Any]:
        """All other values, `last` first, which could be used."""
        return [each for each in dict.fromkeys([last, *(value for value, _, _ in self.options)]) if not same(each, raw)]

    def told(self, value: Any, now: Any = None) -> str:
        """Printed name of a value."""
        return next((label for key, label, _ in self.options if key == value), shown(value))

    def said(self, value: Any) -> str:
        """Printed name of a value, or the words that it is."""
        return next((label for key, label, _ in self.options if key == value), str(value))


Control = Combo | Slider | Choice


def place() -> dict[str, str]:
    """Return the Binder and the notebook cell of a panel, for links to it; "" where there is none.

    The cell tells panels of one kind in a notebook apart; it has the same id in every session.
    """
    host, request = (os.environ.get(f"BINDER_{name}", "") for name in ("LAUNCH_HOST", "REQUEST"))
    parent: Any = getattr(getattr(get_ipython(), "kernel", None), "get_parent", dict)()
    cell = (parent or {}).get("metadata", {}).get("cellId", "")
    return {
        "binder": f"{host.rstrip('/')}/{request}" if host.startswith("https://") and request else "",
        "cell": cell if isinstance(cell, str) and len(cell) <= LONGEST else "",
    }


def to_link(
    name: str, controls: Mapping[str, Control], values: Mapping[str, Any], defaults: Mapping[str, Any], cell: str = ""
) -> str:
    """Query of the address that opens a panel in a state: what differs from its defaults; "" where none can carry it.

    Examples
    --------
    >>> to_link("host", {"cores": Slider("cores", "Cores", "Host", (1.0, 64.0))}, {"cores": 8}, {"cores": 4}, "roots")
    'panel=host&state=%7B%22cores%22%3A8%7D&cell=roots'
    """
    try:
        changed = {
            each: control.to_link(values[each])
            for each, control in controls.items()
            if not same(values[each], defaults[each])
        }
    except ValueError:
        return ""
    state = json.dumps(changed, ensure_ascii=False, separators=(",", ":"))
    where = f"&cell={quote(cell, safe='')}" if cell else ""
    return f"panel={name}&state={quote(state, safe='')}{where}" if len(state) <= LONGEST_LINK else ""


def from_link(controls: Mapping[str, Control], state: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the controls that the state in a link names, each read by its control; nothing in it is executed.

    Raises
    ------
    ValueError
        In a sentence, for what is too long or not JSON, and for a control or a value that the panel does not offer.

    Examples
    --------
    >>> from_link({"cores": Slider("cores", "Cores", "Host", (1.0, 64.0))}, '{"cores": 8}', {"cores": 4})
    {'cores': 8}
    """
    if not isinstance(state, str) or len(state) > LONGEST_LINK:
        raise ValueError(f"the link is longer than {LONGEST_LINK:,} letters; copy it anew with Copy link")
    entries = json_of(state, "the state in the link")
    if not isinstance(entries, dict):
        raise ValueError("the state in the link is not a list of controls and values; copy it anew with Copy link")
    values = dict[str, Any]()
    check_names(entries, list(controls), "the panel of this link", "control")
    for name, raw in entries.items():
        try:
            usual = type(raw) is type(defaults[name]) and same(raw, defaults[name])
            values[name] = raw if usual else controls[name].from_link(raw)
        except MISUSED as problem:
            raise ValueError(f"the link cannot be used: {problem.args[0] if problem.args else problem}") from None
    return values


@lru_cache(maxsize=1)
def _popular() -> dict[str, int]:
    """Return the number of measurements of each network and accelerator."""
    folder = catalog.data_directory()
    names, counts = index("models", folder), Counter[str]()
    for table in MEASURED:  # as text: a list of names waits for no reading of figures
        file = as_text(table, folder)
        counts.update(file.column("accelerator"))
        for name, count in Counter(file.column("model")).items():
            counts[names.get(normalise(name), "")] += count
    return {key: count for key, count in counts.items() if key}


def same(one: Any, other: Any) -> bool:
    """Return True if two values are equal; values that cannot be compared, such as arrays, are not."""
    try:
        return bool(one == other)
    except (TypeError, ValueError, RecursionError):
        return False


_TIMES = "it as 90 min, 8 h or 3 d"


def _custom(entry: Any) -> bool:
    return isinstance(entry, dict) and set(entry) == {"custom"}


@lru_cache(maxsize=8192)
def _words(text: str) -> str:
    """A text as its words, each between blanks."""
    return f" {' '.join(''.join(c if c.isalnum() or c == '_' else ' ' for c in text.casefold()).split())} "


def powers_of_two(low: int, high: int) -> tuple[float, ...]:
    """Stops 2^low … 2^high.

    Examples
    --------
    >>> powers_of_two(0, 3)
    (1.0, 2.0, 4.0, 8.0)
    """
    return tuple(2.0**power for power in range(low, high + 1))


def one_two_five(low: float, high: float, also: Sequence[float] = ()) -> tuple[float, ...]:
    """Stops 1, 2, 5 times powers of ten from `low` to `high`, and those of `also`, ascending.

    Examples
    --------
    >>> one_two_five(1, 20, also=[14])
    (1.0, 2.0, 5.0, 10.0, 14.0, 20.0)
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    regular = (step * 10.0**power for power in powers for step in (1, 2, 5))
    return tuple(sorted({float(v) for v in (*regular, *also) if low <= v <= high}))


# Stops of the slider of the reader's own price of an hour of one device [$].
PRICES_PER_HOUR = (0.2, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20)


def price_control() -> Slider:
    """Return the control of the reader's own price of an hour of one device."""
    return Slider(
        "hourly",
        "Price",
        "Money",
        PRICES_PER_HOUR,
        unit="$ per hour",
        whole=False,
        more=True,
        optional=True,
        tooltip="Price per device-hour; empty: the range of dated prices",
    )


def picture_control(*charts: tuple[str, str, str]) -> Choice:
    """Return the control above the picture, which selects the chart: key, label and content of each."""
    return Choice("picture", "Chart", "", charts, place="picture")
