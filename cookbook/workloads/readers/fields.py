"""Fields of a user's file: looked up by any of their names, checked, and reported where guessed or not read."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads import zoo
from cookbook.workloads.arguments import LARGEST, check_possible, whole
from cookbook.workloads.limits import MAX_FIELDS
from cookbook.workloads.readers import tables

LONGEST_NAME, MAX_NAMED, LONGEST_REASON = 60, 8, 300
# Members of a list in a configuration.
MAX_WORDS = 4096


class Fields:
    """The fields of one configuration.

    Parameters
    ----------
    given : mapping
        The fields as in the file.
    family : str
        Kind of the file, for messages.
    kind : str
        Kind of model in the tables of configurations; by default `family`.
    """

    def __init__(self, given: Mapping[str, Any], family: str, kind: str | None = None) -> None:
        if len(given) > MAX_FIELDS:
            raise ValueError(
                f"the configuration of {family} has {len(given):,} fields; at most {MAX_FIELDS:,} are read"
            )
        self.given, self.family = given, family
        kind = family if kind is None else kind
        self.usual, self.silent = tables.defaults(kind)
        self.idle = tables.fields("silent", kind) if kind else tables.Names(())
        self.read: set[str] = set()
        self.assumed: list[str] = []

    def raw(self, *names: str) -> Any:
        """Return the first of these fields that the file states, or that its family has by default, else None."""
        self.read.update(names)
        stated = next((self.given[name] for name in names if self.given.get(name) is not None), None)
        if stated is not None:
            return stated
        name = next((name for name in names if self.usual.get(name) is not None), "")
        if not name:
            return None
        self.assume(f"{name} = {self.usual[name]}, which {self.family} has unless its file says otherwise")
        return self.usual[name]

    def usually(self, *names: str) -> Any:
        """Return the publisher's default where the file has none of these fields; None where it is not known."""
        return next((self.silent[name] for name in names if name in self.silent), None)

    def assume(self, sentence: str) -> None:
        """Note an assumption, once."""
        if sentence not in self.assumed:
            self.assumed.append(sentence)

    def whole(
        self, *names: str, default: int | None = None, least: int = 1, most: int = LARGEST, needed: bool = True
    ) -> Any:
        """Return an integer, or the usual value or `default` where the file has none; ValueError where it is needed."""
        value = self.raw(*names)
        if value is not None:
            return whole(value, names[0], most, least)
        default = self.usually(*names) if default is None else default
        if default is None and needed:
            raise ValueError(f"the configuration of {self.family} has no {' or '.join(names[:3])}; add it")
        return default

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ValueError(f"{names[0]} = {shown(value)} must be true or false")
        return value

    def word(self, *names: str, default: str = "") -> str:
        """Return a short text."""
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > LONGEST_NAME:
            raise ValueError(f"{names[0]} = {shown(value)} must be a short text")
        return value

    def number(self, *names: str) -> float:
        """Return a non-negative number, or the usual value or 0 where the file has none."""
        value = self.raw(*names)
        if value is None:
            return float(self.usually(*names) or 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            raise ValueError(f"{names[0]} = {shown(value)} must be a number from 0 to {LARGEST:,}")
        return float(value)

    def members(self, *names: str) -> list[Any]:
        """Return a list, empty where there is none."""
        value = self.raw(*names)
        if value is None:
            return []
        if not isinstance(value, list | tuple) or len(value) > MAX_WORDS:
            raise ValueError(f"{names[0]} = {shown(value)} must be a list of at most {MAX_WORDS:,}")
        return list(value)

    def wholes(self, *names: str, most: int = LARGEST) -> list[int]:
        """Return a list of integers; ValueError where there is none."""
        members = self.members(*names)
        if not members:
            raise ValueError(f"the configuration of {self.family} has no {names[0]}; add it")
        return [whole(number, names[0], most) for number in members]

    def part(self, *names: str) -> Mapping[str, Any]:
        """Return a nested configuration, empty where there is none."""
        value = self.raw(*names)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise ValueError(f"{names[0]} = {shown(value)} must be a group of fields")
        return value

    def passed(self, name: Any) -> bool:
        """Return True if no reader used a field and this kind of model may need it."""
        return name not in self.read and str(name) not in self.idle

    def unread(self) -> list[str]:
        """Return the fields that no reader used and that state something, shortened."""
        idle: tuple[Any, ...] = (None, False, 0, 1, "", [], {})
        return [
            str(name)[:LONGEST_NAME]
            for name, value in self.given.items()
            if self.passed(name) and not (isinstance(value, list | dict | str | int | None) and value in idle)
        ]


def listed(names: Sequence[str]) -> str:
    """Return some names as a phrase, the rest counted."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def built(
    builder: str,
    arguments: Mapping[str, Any],
    changes: Mapping[str, Any],
    *,
    title: str,
    assumed: Sequence[str] = (),
    seq: float | None = None,
    **record: Any,
) -> zoo.Workload:
    """Build a network by one of our builders, every argument checked as that of a reader is.

    Parameters
    ----------
    builder, arguments : str, mapping
        "module.function" of `cookbook.workloads`, and the file's values of its arguments.
    changes : mapping
        The reader's changes; ``title`` and ``seq`` are the printed name and the usual length.
    title, assumed, seq : str, sequence of str, float
        Title, assumptions and sequence length of the `Workload`.
    **record
        Its other fields (family, task, data_kind, sample, stored, note).

    Raises
    ------
    ValueError
        If the builder does not take an argument, or no network can have its value.
    """
    changes = dict(changes)
    title, seq = titled(changes.pop("title", title)), changes.pop("seq", seq)
    if seq is not None:
        seq = float(whole(seq, "seq"))
    parameters = inspect.signature(zoo.builder_function(builder)).parameters
    check_names(changes, ["title", "seq", *parameters], "this model")
    stated = {**arguments, **changes}
    usual = {name: parameter.default for name, parameter in parameters.items()}
    defaults = {name: None if value is inspect.Parameter.empty else value for name, value in usual.items()}
    try:
        ops = zoo.checked_ops(builder, stated, stated, {**defaults, **arguments})
    except ValueError as problem:
        raise ValueError(str(problem)[:LONGEST_REASON]) from None
    except (TypeError, AttributeError, ArithmeticError, KeyError, IndexError):
        raise ValueError(f"no network of {builder} can be built with these sizes; check them") from None
    stated = {name: value for name, value in stated.items() if value != usual[name]}
    check_possible(ops, "the model's work cannot be counted; check its sizes")
    return zoo.Workload(
        "custom",
        title,
        ops,
        seq=seq if ops.needs_seq else None,
        arguments=stated,
        builder=builder,
        assumed=tuple(assumed),
        **record,
    )


def titled(title: Any) -> str:
    """Return a printable title; ValueError where it is not one."""
    if not isinstance(title, str) or not 0 < len(title) <= zoo.LONGEST_TITLE:
        raise refused("title", title, f"must be a text of 1 to {zoo.LONGEST_TITLE} letters")
    return " ".join("".join(letter if letter.isprintable() else " " for letter in title).split()) or "Your model"
