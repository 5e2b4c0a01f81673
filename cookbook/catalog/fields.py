"""Arguments as data: each is declared once, as a `Field`, and one check reads what is given for it.

A public function declares its arguments above its head, fields of scenarios by the name of their row in
``data/schema/scenario.csv``, and its body takes them as they come:

>>> @checked(devices=Field.count(high=1024), rate=Field.number(unit="1/s"), policy=Field.choice("fifo", "fair"))
... def served(devices: int, rate: float | str, policy: str = "fifo") -> float:
...     return devices * rate
>>> served(8, 0.5)
4.0
>>> served(2000, 0.5)
Traceback (most recent call last):
cookbook.catalog.Refused: devices = 2000 is outside its range; give a whole number from 1 to 1,024
>>> served(8, 0.5, policy="fiar")
Traceback (most recent call last):
cookbook.catalog.Refused: policy = 'fiar' is not a choice; take one of fifo, fair; nearest: fair
"""

from __future__ import annotations

import csv
import functools
import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

import numpy as np

from cookbook import units
from cookbook.catalog.calls import Call
from cookbook.catalog.reading import data_directory, nearest
from cookbook.catalog.refusals import NOT_ALLOWED, NOT_READ, Refused, refused
from cookbook.formulas._arguments import MAX_AXES
from cookbook.result import Result

__all__ = [
    "MAX_AMOUNT",
    "MAX_DEVICES",
    "MAX_ENTRIES",
    "MAX_NUMBER",
    "MAX_SEQUENCES",
    "MAX_TOKENS",
    "MIN_NUMBER",
    "NUMERIC",
    "TABLES",
    "Amount",
    "Amounts",
    "Field",
    "Names",
    "Row",
    "checked",
    "columns",
    "declared",
    "fields",
    "names_of",
]

P = ParamSpec("P")
R = TypeVar("R")
# Types of public arguments: a number in SI, of a panel in the unit of its control, or text such as "80 GB/s"; several
# of them, read entry by entry, of which None is not given; and names.
Amount = float | str
Amounts = Amount | Sequence[Amount | None] | np.ndarray
Names = str | Sequence[str | None] | np.ndarray

# Most devices, sequences of one step and tokens of a sequence that a run may have; most values in one list.
MAX_DEVICES, MAX_SEQUENCES, MAX_TOKENS, MAX_ENTRIES = 2**20, 2**30, 2**27, 1024
# The smallest and largest number of anything that is counted, measured or paid, and the largest of one run.
MIN_NUMBER, MAX_NUMBER, MAX_AMOUNT = 1e-18, 1e300, 1e18
# Letters of a name that are compared with others, and the share of them that agree where it may be the one meant.
COMPARED_LETTERS, MIN_SIMILARITY = 60, 0.6
# From here on a number is written with an exponent.
EXPONENT_FROM = 1e12
# Letters of choices that a message lists in full.
MAX_LISTED_LETTERS = 200
# Types of numbers: any, of what is not divided, and parts of one, where True and False are 1 and 0.
NUMERIC = ("number", "count", "share")
# Types of names, and the table that has them; workloads of storage benchmarks begin with their suite.
TABLES = {
    "model": "models",
    "workload": "models",
    "precision": "number_formats",
    "storage": "storage",
    "data_set": "data_sets",
    "host_link": "interconnects",
}


@dataclass(frozen=True)
class Field:
    """One argument of a public function, or one field of a scenario: a row of ``data/schema/scenario.csv``.

    Attributes
    ----------
    name : str
        The argument.
    type : str
        "number", "count" (whole), "share", "flag", "choice", "text", "name" (of a table), "array" (of numbers),
        "record" (of some class), "function"; of a scenario also what `TABLES` has.
    unit, default, description, default_source : str
    low, high : float
        Range of a number; letters of a text.
    choices : mapping of str to str
        From every spelling of a choice to the choice.
    phases : tuple of str
        Kinds of prediction that read it, and the group of `cookbook.prediction.scenario.GROUPS` that it is in.
    spellings : tuple of str
        Other names of the column in readers' tables.
    above : bool
        Whether a number must be more than `low`.
    optional, blank : bool
        Whether None, and whether "" or an empty list, mean that nothing is given.
    many, gaps : bool
        Whether it may be a list, which is read entry by entry, and whether entries of it may be None.
    entries : int
        Most entries of such a list.
    missing : bool
        Whether NaN means an unknown value.
    words : bool
        Whether text is read as a number: one with a unit, or "20 M" of what has none.
    in_unit : bool
        Whether numbers are in `unit`, not in SI, such as the dollars of an hour.
    offered : callable, optional
        Gives the choices when they are needed, such as rows of a table.
    table : str
        The table whose names it takes.
    records : tuple of type
        Classes whose instances are taken as they are.
    kept : bool
        Whether it is passed on as it is given, once it is checked: a list stays a list.
    what, give : str
        The noun of it and the remedy, where type and range do not say them.
    label : str
        What it is called in a sentence and beside a control.
    later : bool
        Whether what it becomes part of checks it, as a scenario does, whose columns may be lists.
    """

    name: str = ""
    type: str = "number"
    unit: str = ""
    default: str = ""
    description: str = ""
    default_source: str = ""
    low: float = -math.inf
    high: float = math.inf
    choices: Mapping[Any, Any] = field(default_factory=dict, hash=False)
    phases: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    above: bool = False
    optional: bool = False
    blank: bool = False
    many: bool = False
    gaps: bool = False
    entries: int = MAX_ENTRIES
    missing: bool = False
    words: bool = True
    in_unit: bool = False
    offered: Callable[[], Collection[Any]] | None = None
    table: str = ""
    records: tuple[Any, ...] = ()
    what: str = ""
    give: str = ""
    label: str = ""
    kept: bool = False
    later: bool = False

    @classmethod
    def count(cls, low: float = 1, high: float = MAX_DEVICES, **more: Any) -> Field:
        """Declare a whole number."""
        return cls(type="count", low=low, high=high, **{"words": False, **more})

    @classmethod
    def number(cls, low: float | None = None, high: float = MAX_NUMBER, unit: str = "", **more: Any) -> Field:
        """Declare a number in SI, or text with its unit: more than 0 where no lower end is given."""
        if low is None:
            return cls(type="number", low=0.0, high=high, unit=unit, above=True, **more)
        return cls(type="number", low=low, high=high, unit=unit, **more)

    @classmethod
    def array(cls, low: float = -MAX_NUMBER, high: float = MAX_NUMBER, **more: Any) -> Field:
        """Declare a number or an array of numbers, read as an array; NaN, a figure that is not known, passes."""
        return cls(type="array", low=low, high=high, **{"missing": True, **more})

    @classmethod
    def choice(cls, *allowed: Any, of: Callable[[], Collection[Any]] | None = None, **more: Any) -> Field:
        """Declare one of some values; `of` gives them when they are first needed, such as rows of a table."""
        return cls(type="choice", choices=MappingProxyType({value: value for value in allowed}), offered=of, **more)

    @classmethod
    def flag(cls, **more: Any) -> Field:
        """Declare True or False."""
        return cls(type="flag", **more)

    @classmethod
    def text(cls, letters: int = 100, **more: Any) -> Field:
        """Declare a name or a few words."""
        return cls(type="text", high=letters, **{"give": f"a text of at most {letters:,} letters", **more})

    @classmethod
    def named(cls, table: str, *records: Any, **more: Any) -> Field:
        """Declare a name of a table, which is looked up where it is used, or a record of the reader's own."""
        what = table.removesuffix("s").replace("_", " ")
        give = f"a name of the table {table!r}"
        return cls(type="name", table=table, records=records, **{"what": what, "give": give, **more})

    @classmethod
    def record(cls, *records: Any, what: str, give: str, **more: Any) -> Field:
        """Declare what another function returns, or a mapping."""
        return cls(type="record", records=records, what=what, give=give, **more)

    @classmethod
    def function(cls, give: str, **more: Any) -> Field:
        """Declare a function of the reader's own."""
        return cls(type="function", give=give, **more)

    @staticmethod
    def row(name: str, phase: str = "", **more: Any) -> Row:
        """Declare an argument as a field of a scenario has it: type, unit, range and choices of its row."""
        return Row(name, phase, more)

    @property
    def spelt(self) -> Mapping[Any, Any]:
        """From every spelling of a choice to the choice."""
        return {value: value for value in self.offered()} if self.offered else self.choices

    @property
    def of_table(self) -> str:
        """The table whose names it takes; "" where it takes none."""
        return self.table or TABLES.get(self.type, "")

    @property
    def allowed(self) -> str:
        """Allowed values, in words."""
        if self.give:
            return self.give
        if self.type == "flag":
            return "yes or no" if self.phases else "True or False"
        if self.choices or self.offered:
            return ", ".join(str(choice) or "''" for choice in dict.fromkeys(self.spelt.values()))
        if self.type not in (*NUMERIC, "array"):
            return f"a name of the table {TABLES[self.type]!r}" if self.type in TABLES else "a name, or a few words"
        return self._span

    @property
    def _span(self) -> str:
        """The range of a number in words."""
        whole = "a whole number" if self.type == "count" and not self.phases else ""
        unit = f" {self.unit}" if self.unit else ""
        end = _end if self.phases else _thousands
        if self.type == "array":
            whole = "one number or an array of them"
        if self.high >= MAX_NUMBER and not self.phases:
            finite = "" if self.high == math.inf else ", finite"
            least = f"more than {end(self.low)}" if self.above else f"{end(self.low)} or more"
            if self.low <= -MAX_NUMBER:
                return whole or "a finite number"
            return f"{whole}{whole and ', '}{least}{unit}{finite}"
        if self.above:
            return f"{whole or 'a number'}{whole and ','} more than {end(self.low)} and up to {end(self.high)}{unit}"
        return f"{whole}{whole and ' from '}{end(self.low)} to {end(self.high)}{unit}"

    @property
    def remedy(self) -> str:
        """The remedy, in words: take one of the choices, or give what is allowed."""
        chosen = self.choices or self.offered or (self.type == "flag" and self.phases)
        return f"{'take' if chosen else 'give'} {self.allowed}"

    def refuse(self, value: Any, what: str, code: str = NOT_READ) -> Refused:
        """Return the error for a value: the argument, the value, what is wrong with it, and the remedy."""
        return refused(self.name, value, f"{what}; {self.remedy}", code)

    def read(self, value: Any, name: str = "") -> Any:
        """Return what is given for an argument as functions take it: of several values a tuple.

        Raises
        ------
        cookbook.catalog.Refused
            An invalid value: the argument (`name`, that of the field by default), the value, what is allowed.
        """
        if name and name != self.name:
            try:
                return self.read(value)
            except Refused:
                return replace(self, name=name).read(value)
        if (value is None and self.optional) or (self.blank and not self._states(value)):
            return value
        if not self.many:
            return self._one(value)
        values = self._listed(value)
        if self.kept:
            for entry in values:
                self._one(entry)
            return values if isinstance(value, Iterator) else value
        read = [None if entry is None and self.gaps else self._one(entry) for entry in values]
        return tuple(dict.fromkeys(read) if self.type in ("count", "choice") else read)

    def _states(self, value: Any) -> bool:
        """Return whether anything is given: not "", and not an empty list where lists are allowed."""
        return not (isinstance(value, str) or (self.many and isinstance(value, (list, tuple)))) or len(value) > 0

    def _listed(self, value: Any) -> list[Any]:
        """Return one value or several as a list of Python's own, neither empty nor longer than can be searched."""
        if isinstance(value, np.ndarray) and not value.ndim:
            return [value.item()]
        if isinstance(value, Iterator):
            value = list(islice(value, self.entries + 1))
        if not isinstance(value, Collection) or isinstance(value, (str, bytes, Mapping)):
            return [value]
        if not len(value):
            raise self.refuse(value, "is empty")
        if len(value) > self.entries:
            raise refused(self.name, value, f"has more than {self.entries:,} entries; give at most that many")
        return [of_numpy(entry) for entry in value]

    def changes(self, default: Any) -> bool:
        """Return whether a default is read as another value: as a list, a number of text, or an array."""
        if default is None or default is inspect.Parameter.empty or (isinstance(default, (str, tuple)) and not default):
            return False
        if self.many:
            return not self.kept and not isinstance(default, tuple)
        return self.type == "array" or (self.type in NUMERIC and isinstance(default, str))

    def _one(self, value: Any) -> Any:
        """Return one value."""
        if self.records and isinstance(value, self.records):
            return value
        return _READERS[self.type](self, value if self.type == "array" else of_numpy(value))

    def to_number(self, value: Any) -> float:
        """Return a number in SI within its range, from a number or from text, which has the unit of the field."""
        original = value = of_numpy(value)
        if isinstance(value, bool) and self.type != "share":
            raise self.refuse(value, "is not a number", NOT_ALLOWED)
        if isinstance(value, str) and self.words:
            try:
                value = units.si(value, self.unit) / (units.scale(self.unit) if self.in_unit else 1)
            except (ValueError, ArithmeticError) as problem:
                if not self.unit:
                    raise self.refuse(original, "is not a number", NOT_ALLOWED) from None
                raise self.refuse(original, f": {str(problem)[:120]}") from None
        if not isinstance(value, (int, float)):
            raise self.refuse(original, "is not a number", NOT_ALLOWED)
        if value != value and self.missing:
            return math.nan
        # An integer beyond all floats is no infinity.
        inside = self.low <= value <= min(self.high, 1e308) or (value, self.high) == (math.inf, math.inf)
        if not inside or (self.above and value < self.low + MIN_NUMBER):
            raise self.refuse(original, "is outside its range", NOT_ALLOWED)
        if self.type == "count" and value != math.floor(value):
            raise self.refuse(original, "is not whole", NOT_ALLOWED)
        return float(value)

    def _integer(self, value: Any) -> int:
        return value if type(value) is int and self.low <= value <= self.high else int(self.to_number(value))

    def _flag(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.refuse(value, "says neither yes nor no")
        return value

    def _choice(self, value: Any) -> Any:
        choices = self.spelt
        if self.phases and isinstance(value, str):
            value = value.strip().casefold() if value.strip().casefold() in choices else value
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choices[choice]
        words = [choice for choice in choices if isinstance(choice, str)]
        near = nearest(value[:COMPARED_LETTERS], words, 1, MIN_SIMILARITY) if isinstance(value, str) else []
        remedy = f"take one of {self.allowed}" + (f"; nearest: {', '.join(near)}" if near else "")
        if len(self.allowed) > MAX_LISTED_LETTERS:
            near = nearest(value[:COMPARED_LETTERS], words, 3) if isinstance(value, str) else words[:3]
            remedy = f"nearest of {len(choices):,}: {', '.join(near)}"
        raise refused(self.name, value, f"is not a choice; {remedy}", nearest=near)

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self.refuse(value, "is no text")
        if len(value) > self.high:
            raise self.refuse(value, f"has {len(value):,} letters")
        return value

    def _name(self, value: Any) -> str:
        """Return a name as it is: who looks it up says which are nearest. An entry with `gaps` may be empty."""
        if not isinstance(value, str) or not (value or self.gaps):
            raise self.refuse(value, f"is no {self.what}")
        return value

    def _record(self, value: Any) -> Any:
        raise self.refuse(value, f"is no {self.what}")

    def _function(self, value: Any) -> Any:
        if not callable(value):
            raise self.refuse(value, "is no function")
        return value

    def _array(self, value: Any) -> np.ndarray:
        """Return numbers of any shape as floats; one alone has the shape of one number."""
        units.size_within(self.name, value)
        try:
            numbers = np.asarray(value)
            if numbers.dtype.kind not in "iuf" and not (numbers.dtype.kind == "O" and _all_numbers(numbers)):
                raise TypeError
            numbers = numbers.astype(float)
        except (TypeError, ValueError, OverflowError):
            raise self.refuse(value, "is not a number", NOT_ALLOWED) from None
        if numbers.ndim > MAX_AXES:
            raise self.refuse(value, f"is nested {numbers.ndim} deep")
        if not numbers.size and not self.missing:
            raise self.refuse(value, "is empty")
        bad = (numbers < self.low + MIN_NUMBER if self.above else numbers < self.low) | (numbers > self.high)
        if not self.missing:
            bad |= np.isnan(numbers)
        if bad.any():
            first = np.extract(bad, np.asarray(value))[0]
            raise self.refuse(of_numpy(first), "is outside its range", NOT_ALLOWED)
        return numbers


_READERS: Mapping[str, Callable[[Field, Any], Any]] = {
    "number": Field.to_number,
    "share": Field.to_number,
    "count": Field._integer,
    "flag": Field._flag,
    "choice": Field._choice,
    "text": Field._text,
    "name": Field._name,
    "record": Field._record,
    "function": Field._function,
    "array": Field._array,
}


def of_numpy(value: Any) -> Any:
    """Return Python's own number, text or flag in place of a scalar of NumPy; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _all_numbers(values: np.ndarray) -> bool:
    return values.size > 0 and all(
        isinstance(entry, (int, float, np.number)) and not isinstance(entry, bool) for entry in values.flat
    )


def _end(value: float) -> str:
    """Return an end of a range, exactly."""
    return f"{value:g}" if float(f"{value:g}") == value else f"{value:,.0f}"


def _thousands(value: float) -> str:
    """Return an end of a range, in digits where it can be counted."""
    return f"{value:,.0f}" if value == math.floor(value) and abs(value) < EXPONENT_FROM else _end(value)


@dataclass(frozen=True)
class Row:
    """A field of a scenario by its name, read from the schema when it is first needed."""

    name: str
    phase: str
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def field(self, argument: str) -> Field:
        """Return the field under the name of the argument."""
        return replace(fields(self.phase)[self.name], **{"name": argument, **self.more})


def columns(phase: str, *names: str) -> dict[str, Row]:
    """Declare arguments that become columns of a scenario, whose rows check them."""
    return {name: Field.row(name, phase, optional=True, later=True) for name in names}


def checked(**declarations: Field | Row) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that reads the arguments of a function as their fields declare them.

    Docstring and types stay those of the function, and so does its signature, which has the entries of a record in the
    place of ``**fields: Unpack[Record]``; a result remembers the call. None is taken as it is where it is the default,
    and so is "". A default is read as what is given for it, and checked by no one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = _listed(function)
        parameters = signature.parameters
        names = tuple(
            name for name, parameter in parameters.items() if parameter.kind == parameter.POSITIONAL_OR_KEYWORD
        )
        if not {*declarations} <= {*parameters} and all(
            parameter.kind != parameter.VAR_KEYWORD for parameter in parameters.values()
        ):
            raise TypeError(f"{function.__name__} has no argument {({*declarations} - {*parameters}).pop()}")

        @lru_cache(maxsize=1)
        def all_fields() -> Mapping[str, Field]:
            return {name: _named(declaration, name, parameters.get(name)) for name, declaration in declarations.items()}

        @lru_cache(maxsize=1)
        def readers() -> Mapping[str, Callable[[Any], Any]]:
            return {name: declaration.read for name, declaration in all_fields().items() if not declaration.later}

        @lru_cache(maxsize=1)
        def usual() -> Mapping[str, Any]:
            """Return the defaults that are read as other values."""
            read = {
                name: declaration
                for name, declaration in all_fields().items()
                if name in parameters and not declaration.later
            }
            values = {name: parameters[name].default for name in read}
            return {
                name: declaration.read(values[name])
                for name, declaration in read.items()
                if declaration.changes(values[name])
            }

        of_function = partial(Call, function.__module__, function.__name__)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            by_name, made_by = readers(), partial(of_function, args, {**kwargs})
            if args:
                read = [
                    by_name[name](value) if name in by_name else value for name, value in zip(names, args, strict=False)
                ]
                args = (*read, *args[len(read) :])  # type: ignore[assignment]
            for name, value in kwargs.items():
                if name in by_name:
                    kwargs[name] = by_name[name](value)
            for name, value in usual().items():
                if name not in kwargs and name not in names[: len(args)]:
                    kwargs[name] = value
            answer = function(*args, **kwargs)
            if isinstance(answer, Result):
                answer = copy(answer)  # another call may have given the same record, and keeps it
                object.__setattr__(answer, "_made_by", made_by)  # its dataclass is frozen
            return answer

        call.declared = all_fields  # type: ignore[attr-defined]
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def _listed(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature with the entries of a record in the place of ``**fields: Unpack[Record]``, as editors do."""
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
    for rest in signature.parameters.values():
        if rest.kind == rest.VAR_KEYWORD and str(rest.annotation).startswith("Unpack"):
            (record,) = get_args(get_type_hints(function)[rest.name])
            entries = record.__annotations__.items()
            kind = inspect.Parameter.KEYWORD_ONLY
            more = [
                inspect.Parameter(name, kind, default=None, annotation=types.__forward_arg__) for name, types in entries
            ]
            return signature.replace(parameters=[*own, *more])
    return signature


def _named(declaration: Field | Row, name: str, parameter: inspect.Parameter | None) -> Field:
    """Return a field under the name of its argument, which may be left out as its default has it."""
    made = declaration.field(name) if isinstance(declaration, Row) else replace(declaration, name=name)
    default = None if parameter is None else parameter.default
    empty = isinstance(default, (str, tuple)) and not default
    return replace(made, optional=made.optional or default is None, blank=made.blank or empty)


def declared(function: Callable[..., Any]) -> Mapping[str, Field]:
    """Return the fields that a function declares, by argument; none where it declares none."""
    declarations = getattr(function, "declared", None)
    return declarations() if declarations else {}


@lru_cache(maxsize=16)
def fields(phase: str = "") -> Mapping[str, Field]:
    """Return fields of a kind of prediction or of a group by name; of no kind all, of several of one name the first."""
    by_name: dict[str, Field] = {}
    with (data_directory() / "schema" / "scenario.csv").open(encoding="utf-8", newline="") as file:
        for declaration in map(_field, csv.DictReader(file)):
            if not phase or phase in declaration.phases:
                by_name.setdefault(declaration.name, declaration)
    return MappingProxyType(by_name)


def names_of(kind: str, *types: str) -> tuple[str, ...]:
    """Return the names of the fields of a kind that have one of these types, in the order of the schema.

    Examples
    --------
    >>> names_of("training_transformer", "flag")[:2], "vp" in names_of("training_transformer", "count", "number")
    (('gated_mlp', 'latent_attention'), True)
    """
    return tuple(name for name, field in fields(kind).items() if field.type in types)


def _field(row: Mapping[str, str]) -> Field:
    low, high, choices, allowed = -math.inf, math.inf, dict[str, str](), row["allowed"]
    if row["type"] in NUMERIC and ".." in allowed:
        low, high = (float(end) for end in allowed.split(".."))
    elif row["type"] in NUMERIC and allowed:
        low, high = float(allowed.split("|")[0]), float(allowed.split("|")[-1])
    elif row["type"] == "choice":
        choices = {word: group.split("=")[0] for group in allowed.split("|") for word in group.split("=")}
    return Field(
        row["name"],
        row["type"],
        row["unit"],
        row["default"],
        row["description"],
        row["default_source"],
        low,
        high,
        MappingProxyType(choices),
        tuple(row["phases"].split(";")),
        tuple(filter(None, row["spellings"].split(";"))),
        label=row["label"] or row["name"].replace("_", " "),
    )
