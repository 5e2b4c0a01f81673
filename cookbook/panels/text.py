"""Names and numbers as every panel prints them."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cookbook.prediction.requirements import ratio
from cookbook.units import human

if TYPE_CHECKING:
    import pandas as pd

Source = tuple[str, str, str]

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def quoted(value: Any) -> str:
    """A value as a sentence quotes it: short and on one line, whatever it is.

    Examples
    --------
    >>> quoted("abc"), quoted(10**400)[:8], len(quoted("x" * 10**6))
    ("'abc'", '10000000', 60)
    """
    try:
        return " ".join(_SHORT.repr(value).split())
    except ValueError:
        return "a whole number of thousands of digits"


def json_of(text: str, what: str) -> Any:
    """What a reader's JSON says.

    Raises
    ------
    ValueError
        In plain words, where it says nothing.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise ValueError(f"{what} is not valid JSON: {problem}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{what} is too deep, or a number in it is too long") from None


def counted(count: int, one: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "publisher"), counted(1200, "run")
    ('1 publisher', '1,200 runs')
    """
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a row, the rest counted.

    Examples
    --------
    >>> listed(["A", "B"]), listed(["A", "B", "C", "D", "E", "F"])
    ('A and B', 'A, B, C, D and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def capital(text: str) -> str:
    """A text with its first letter large."""
    return f"{text[:1].upper()}{text[1:]}"


def figure(value: float) -> str:
    """A number with three digits, or all of its whole part.

    Examples
    --------
    >>> figure(12345.6), figure(1.2345), figure(6.19e14)
    ('12,346', '1.23', '619 T')
    """
    if abs(value) >= 1e7:
        return human(value, "").strip()
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(fraction: float) -> str:
    """A share in percent, two digits at least, never an exponent.

    Examples
    --------
    >>> percent(0.0345), percent(2.114), percent(41.3), percent(3.2e-7)
    ('3.5 %', '211 %', '4,130 %', '0.000032 %')
    """
    value = 100 * fraction
    return f"{ratio(value)} %" if value < 9.95 else f"{value:,.0f} %"


def money(usd: float) -> str:
    """US dollars without their sign.

    Examples
    --------
    >>> money(31.12), money(1234.5), money(float("nan"))
    ('31.12', '1,234', 'not known')
    """
    return "not known" if usd != usd else f"{usd:,.0f}" if usd >= 100 else f"{usd:.2f}"


def duration(seconds: float) -> str:
    """A duration in the largest unit that keeps it a short number.

    Examples
    --------
    >>> duration(3600), duration(5400), duration(90 * 86400)
    ('1 h', '1.5 h', '90 d')
    """
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.4g} s"


def pieces(text: str) -> list[str]:
    """What stands between the commas of a text; a comma in brackets is part of a name.

    Examples
    --------
    >>> pieces("Tesla K80 (board, 2x GK210), t4")
    ['Tesla K80 (board, 2x GK210)', 't4']
    """
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            found.append("")
        else:
            found[-1] += letter
    return [piece.strip() for piece in found if piece.strip()]


def short_name(name: str) -> str:
    """A name without what stands in brackets, unless that tells how much hardware it is.

    Examples
    --------
    >>> short_name("Tesla K80 (board, 2x GK210)"), short_name("TPU v2-8 (Cloud TPU device, 4 chips)")
    ('Tesla K80 (board, 2x GK210)', 'TPU v2-8 (4 chips)')
    >>> short_name("GH200 (Hopper GPU, 96GB)")
    'GH200'
    """
    front, _, rest = name.partition(" (")
    told = [piece for piece in rest.rstrip(")").split(", ") if _devices(piece) or {"board", "one"} & {*piece.split()}]
    return f"{front} ({', '.join(told)})" if told else front


def memories(name: str) -> int:
    """How many separate memories the hardware of one row has, as its name says.

    Examples
    --------
    >>> memories("Tesla K80 (board, 2x GK210)"), memories("H100 SXM5 80GB")
    (2, 1)
    """
    return next(filter(None, map(_devices, name.partition(" (")[2].rstrip(")").split(", "))), 1)


def _devices(piece: str) -> int:
    """How many devices "2x GK210" and "4 chips" count; 0 where a text counts none."""
    first, _, rest = piece.partition(" ")
    number = first.removesuffix("x")
    return int(number) if number.isdecimal() and (number != first or rest == "chips") else 0


def sources_by_count(rows: pd.DataFrame, what: str) -> tuple[Source, ...]:
    """(title, link, rows) of each source of measured rows, those with most rows first."""
    counts = rows[["source", "url", "publisher"]].value_counts().reset_index(name="count")
    return tuple(
        (row.source, row.url, f"{row.publisher}: {counted(row.count, what)}") for row in counts.itertuples(index=False)
    )
