"""Controls of a panel, described once: how each is shown, what it accepts, how its value is written as code."""

from __future__ import annotations

import bisect
import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cookbook import units
from cookbook.panels.text import duration, pieces
from cookbook.units import shown

Option = tuple[str, str, str, str]
LONGEST = 200
# What a function that is handed another thing than it expects may raise.
MISUSED = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError)


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
    """

    label: str
    help: str
    example: str
    read: Callable[[str], Any]
    show: Callable[[Any], tuple[str, str]]


@dataclass(frozen=True)
class Described:
    """What every control says of itself.

    Attributes
    ----------
    name, label, group : str
        Parameter, words beside the control, heading above it.
    more : bool
        Whether it stands under "more".
    place : str
        "controls", or "picture" for the row above the picture.
    """

    name: str
    label: str
    group: str
    tooltip: str = field(default="", kw_only=True)
    more: bool = field(default=False, kw_only=True)
    place: str = field(default="controls", kw_only=True)

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
        What "custom…" takes.
    plain : callable, optional
        A record of the reader's to what the control keeps: a name, or a dict.
    short : callable, optional
        Printed name to the name on the tag of a chosen entry.
    """

    options: tuple[Option, ...]
    many: bool = False
    least: int = 0
    limit: int = 8
    own: Own | None = None
    plain: Callable[[Any], Any] | None = None
    short: Callable[[str], str] = str

    def describe(self) -> dict[str, Any]:
        """What the browser needs to draw it."""
        own = self.own and {"label": self.own.label, "help": self.own.help, "example": self.own.example}
        options = [list(option) for option in self.options]
        return self._described("combo", options=options, many=self.many, limit=self.limit, custom=own)

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
            raise ValueError(f"{self.label} has {count:,} entries; choose at most {self.limit}")
        if len(chosen) < self.least:
            raise ValueError(f"{self.label} is empty; choose at least {self.least}")
        return chosen

    def _names(self, text: str) -> list[str]:
        """Names in a text with commas between them; a comma in brackets or in a known name is part of it."""
        known = any(text.casefold() == label.casefold() for _, label, _, _ in self.options) if "," in text else True
        return [text] if known else pieces(text)

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
        return {"keys": keys, "labels": labels, "own": "\n".join(text for text, _ in written), "text": text}

    def _written(self, entry: Any) -> tuple[str, str]:
        """(text to edit, label) of an entry that is no name."""
        try:
            if self.own is not None:
                return self.own.show(entry)
        except MISUSED:
            pass
        return "", shown(entry)

    def typed(self, raw: Any) -> bool:
        """Whether a value, or one of several, is a text that the reader typed under "custom…"."""
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
        return {**shown, "own": text, "text": shown["text"] or "your own"}

    def strange(self, raw: Any) -> str:
        """The first name that nothing in the list bears; empty where there is none."""
        spelt = "\n".join(_words(f"{key} {label} {search}") for key, label, search, _ in self.options)
        names = [entry for entry in (raw if isinstance(raw, (list, tuple)) else [raw]) if isinstance(entry, str)]
        return next((name for name in names if _words(name) not in spelt), "")

    def nearest(self, name: str) -> list[str]:
        """Three printed names of the list that look most like another."""
        labels = {text.casefold(): label for key, label, _, _ in self.options for text in (key, label)}
        close = difflib.get_close_matches(name[:LONGEST].casefold(), labels, 6, 0)
        return list(dict.fromkeys(labels[text] for text in close))[:3]

    def label_of(self, key: str) -> str:
        """Printed name of a value; the value itself where it is not an option."""
        return next((label for value, label, _, _ in self.options if value == key), key)

    def _tag(self, key: str) -> str:
        return self.short(self.label_of(key)) if self.many else self.label_of(key)

    def _one(self, raw: Any) -> Any:
        if _custom(raw):
            if self.own is None:
                raise ValueError(f"{self.label} takes no entry of your own; choose one of the list")
            if len(str(raw["custom"])) > LONGEST**2:
                raise ValueError(f"{self.label}: your own entry is longer than {LONGEST**2:,} letters")
            return self.own.read(str(raw["custom"]))
        try:
            value = self.plain(raw) if self.plain else raw
        except ValueError as wrong:
            raise ValueError(f"{self.label} = {wrong}") from None
        if isinstance(value, str) and len(value) > LONGEST:
            raise ValueError(f"{self.label} = {shown(raw)} has {len(value):,} letters; no name is that long")
        if isinstance(value, str):
            return value
        if self.own is None and self.plain is None:
            raise ValueError(f"{self.label} = {shown(raw)} is not a choice; give a name of the list")
        return value


@dataclass(frozen=True)
class Slider(Described):
    """Slider over sensible values with an editable number beside it; any value in range may be typed.

    Attributes
    ----------
    stops : tuple of float
        Values that the slider snaps to, ascending; the first and the last are the range.
    unit : str
        Words beside the number; for `seconds` the number carries its own unit.
    whole : bool
        Whether only whole numbers are allowed.
    seconds : bool
        A duration: shown and typed as "8 h".
    optional : bool
        Whether it may be left empty, which reads as None.
    """

    stops: tuple[float, ...]
    unit: str = ""
    whole: bool = True
    seconds: bool = False
    optional: bool = False

    def describe(self) -> dict[str, Any]:
        """What the browser needs to draw it."""
        return self._described("slider", stops=[[stop, self.text(stop)] for stop in self.stops], unit=self.unit)

    def read(self, raw: Any) -> float | int | None:
        """Value that a message, a caller or the reader's typing means; None where it may be left empty and is."""
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            if self.optional:
                return None
            raise ValueError(f"{self.label} is empty; give a {'time' if self.seconds else 'number'} {self._allowed()}")
        value = self._number(raw)
        low, high = self.stops[0], self.stops[-1]
        allowed, what = self._allowed(), "time" if self.seconds else "number"
        if not low <= value <= high:
            raise ValueError(f"{self.label} = {shown(raw)} is outside its range; give a {what} {allowed}")
        if self.whole and value != int(value):
            raise ValueError(f"{self.label} = {shown(raw)} is not a whole number; give one {allowed}")
        return int(value) if self.whole else float(value)

    def show(self, value: Any) -> dict[str, Any]:
        """State of the control in the browser: the text and the nearest stop."""
        try:
            value = self.read(value)
        except ValueError:
            return {"text": value[:LONGEST] if isinstance(value, str) else shown(value), "index": 0}
        return {"text": "", "index": 0} if value is None else {"text": self.text(value), "index": self._nearest(value)}

    def text(self, value: float) -> str:
        """The number as it is printed."""
        if self.seconds:
            return duration(value)
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"

    def _number(self, raw: Any) -> float:
        remedy = f"write {_TIMES}" if self.seconds else f"give one {self._allowed()}"
        unreadable = f"{self.label} = {shown(raw)} is not a {'time' if self.seconds else 'number'}; {remedy}"
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueError(unreadable)
        if not isinstance(raw, str):
            return float(max(min(raw, 1e300), -1e300)) if raw == raw else math.nan
        text = raw.strip().removesuffix(self.unit).strip()
        if self.seconds and text[-1:].isdecimal():
            raise ValueError(f"{self.label} = {shown(raw)} has no unit; write {text} h, or {text} s, min or d")
        try:
            return float(units.si(text, "s" if self.seconds else ""))
        except (ValueError, ArithmeticError):
            raise ValueError(unreadable) from None

    def _allowed(self) -> str:
        return f"from {self.text(self.stops[0])} to {self.text(self.stops[-1])} {self.unit}".rstrip()

    def _nearest(self, value: float) -> int:
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

    options: tuple[tuple[str, str, str], ...]

    def describe(self) -> dict[str, Any]:
        """What the browser needs to draw it."""
        return self._described("choice", options=[list(option) for option in self.options])

    def read(self, raw: Any) -> str:
        """One of the values; ValueError names them all."""
        known = [value for value, _, _ in self.options]
        if not isinstance(raw, str) or raw not in known:
            raise ValueError(f"{self.label} = {shown(raw)} is not a choice; take one of {', '.join(known)}")
        return raw

    def show(self, value: Any) -> dict[str, Any]:
        """State of the control in the browser."""
        return {"text": value[:LONGEST] if isinstance(value, str) else shown(value)}


Control = Combo | Slider | Choice
_TIMES = "it as 90 min, 8 h or 3 d"


def _custom(entry: Any) -> bool:
    return isinstance(entry, dict) and set(entry) == {"custom"}


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
