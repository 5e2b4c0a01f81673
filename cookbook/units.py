"""Units at the border: everything inside the package is plain SI floats (s, B, FLOP, FLOP/s, B/s, W, USD).

>>> si("312 TFLOP/s")
312000000000000.0
>>> human(3.12e14, "FLOP/s")
'312 TFLOP/s'

`FLOP` counts operations and `FLOP/s` is a rate; one multiply-accumulate (MAC) is two FLOP. The spelling `TFLOPs`
is refused because it is read both ways.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal, DecimalException
from enum import Enum
from functools import lru_cache
from numbers import Number
from typing import Any, NamedTuple

__all__ = ["Unit", "dollars", "human", "parse", "scale", "shown", "si", "si_unit"]

PREFIXES = {
    "a": 1e-18,
    "f": 1e-15,
    "p": 1e-12,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Z": 1e21,
    "Y": 1e24,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
}

# Unit -> (factor to SI, dimension); OP and FLOP share a dimension so that integer and floating peaks compare.
BASES: dict[str, tuple[float, dict[str, int]]] = {
    "FLOP": (1.0, {"operation": 1}),
    "OP": (1.0, {"operation": 1}),
    "MAC": (2.0, {"operation": 1}),
    "FLOPS": (1.0, {"operation": 1, "s": -1}),
    "OPS": (1.0, {"operation": 1, "s": -1}),
    "B": (1.0, {"B": 1}),
    "b": (0.125, {"B": 1}),
    "bit": (0.125, {"B": 1}),
    "s": (1.0, {"s": 1}),
    "min": (60.0, {"s": 1}),
    "h": (3600.0, {"s": 1}),
    "d": (86400.0, {"s": 1}),
    "Hz": (1.0, {"s": -1}),
    "IOPS": (1.0, {"s": -1}),
    "m": (1.0, {"m": 1}),
    "g": (1.0, {"g": 1}),
    "L": (1.0, {"L": 1}),
    "J": (1.0, {"J": 1}),
    "W": (1.0, {"J": 1, "s": -1}),
    "Wh": (3600.0, {"J": 1}),
    "USD": (1.0, {"USD": 1}),
}
YEAR = 365.25 * 86400.0
COUNTED = ("device", "image", "token", "sample", "parameter")
# Units that take no prefix.
WHOLE: dict[str, tuple[float, dict[str, int]]] = {
    **dict.fromkeys(("", "1", *COUNTED, *(f"{noun}s" for noun in COUNTED)), (1.0, {})),
    "%": (0.01, {}),
    "min": (60.0, {"s": 1}),
    **dict.fromkeys(("h", "hour", "hours"), (3600.0, {"s": 1})),
    **dict.fromkeys(("day", "days"), (86400.0, {"s": 1})),
    "month": (365.25 / 12 * 86400.0, {"s": 1}),
    **dict.fromkeys(("year", "years"), (YEAR, {"s": 1})),
}
# Words and letters that may precede a unit, or be alone: 14 M, 14 million images, $1.2 M.
MULTIPLES = {name: factor for name, factor in PREFIXES.items() if name and factor >= 1e3 and "i" not in name} | {
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "tn": 1e12,
}
MONEY = {name: MULTIPLES[name] for name in ("tn", "bn", "M", "k")}
WHOLE_DOLLARS = 10_000  # from here on an amount is written in thousands, millions and more
LEAST_PERCENT = 0.01  # a smaller share is next to nothing
WIDE = 100  # amounts further apart keep units of their own
NEGLIGIBLE_DOLLARS = 1e-5  # below a thousandth of a cent an amount is written as none

ACCEPTED = (
    "a number, or a number and a unit such as 312 TFLOP/s, 16 TOP/s, 80 GB, 64 GiB, 3.35 TB/s, 400 Gb/s, 300 W, "
    "5 us, 8 h, 1.4 GHz, $2.50/h"
)
# Longer text is neither a quantity nor a unit.
LONGEST_QUANTITY, LONGEST_UNIT = 200, 40
PREFIXED = {"FLOP", "FLOP/s", "OP", "OP/s", "MAC", "MAC/s", "B", "B/s", "FLOP/B", "W", "J", "Hz", "m"}
CLOCK = [
    (1e9 * YEAR, "billion years"),
    (1e6 * YEAR, "million years"),
    (YEAR, "years"),
    (86400.0, "d"),
    (3600.0, "h"),
    (60.0, "min"),
]
# Beyond these multiples of the outermost prefix a value is only reported as out of range.
MOST, LEAST = 1e9, 1e-3


class Unit(NamedTuple):
    """A parsed unit: multiply by `factor` to get SI; `dimension` is the sorted powers of the base quantities."""

    factor: float
    dimension: tuple[tuple[str, int], ...]


def shown(value: Any, letters: int = 60) -> str:
    """Return a message's text for a given value: as Python writes it, its middle left out where it is long.

    Values of arrays are written like those of lists, without the names of their types; what has a name by it, and what
    Python knows by an address in memory alone, by its kind.

    >>> shown("a" * 1000, 9), shown(10**5000)
    ("'aaa…aaa'", 'a number of 5,001 digits')
    >>> import numpy as np
    >>> shown(np.int64(7)), shown(np.array([1, 2])), shown([np.float64(0.5), {"a": np.bool_(True)}])
    ('7', '[1, 2]', "[0.5, {'a': True}]")
    >>> shown(print), shown([object()]), shown(range(10**30), 30)
    ('print', '[an object]', 'range(0, 10000…0000000000000)')
    """
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"a number of {math.floor(value.bit_length() * math.log10(2)) + 1:,} digits"
    if isinstance(value, str):
        value = value if len(value) <= 2 * letters else value[:letters] + value[-letters:]
    elif _length(value) > letters:
        kind = "an array" if hasattr(value, "tolist") else _kind(value)
        return f"{kind} of {len(value):,} elements"
    try:
        text = repr(_without_types(value))
    except (ValueError, RecursionError):  # a long integer or endless nesting somewhere within
        text = _kind(value)
    text = " ".join(text.split())
    if " at 0x" in text and not isinstance(value, str):  # of something within what was not looked into
        text = _kind(value)
    half = (letters - 1) // 2
    return text if len(text) <= letters + 2 else f"{text[:half]}…{text[-half:]}"


def size_within(name: str, value: Any, most: int = 10_000_000) -> None:
    """Refuse what has more entries than `most` before it is listed; an array already has its memory.

    >>> size_within("years", range(10**9))
    Traceback (most recent call last):
    ValueError: years = a range of 1,000,000,000 elements: give at most 10,000,000
    """
    if hasattr(value, "dtype"):
        return
    try:
        size = len(value)
    except TypeError:  # one value, or what gives values one by one
        return
    except OverflowError:
        size = sys.maxsize
    if size > most:
        raise ValueError(f"{name} = {shown(value)}: give at most {most:,}")


def _without_types(value: Any) -> Any:
    """Return the Python value of an array's value, alone or within short lists and mappings."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_without_types, value))
    if type(value) is dict:
        return {name: _without_types(member) for name, member in value.items()}
    return value if type(value) in (int, float, str, bool, type(None)) else _Word.of(value)


class _Word(str):
    """Text that is written as it is, also within lists."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Any:
        """Return the name or type of what Python writes in angle brackets; the value itself otherwise."""
        written = repr(value)
        if not (written.startswith("<") and written.endswith(">")):
            return value
        if isinstance(value, Enum):
            return cls(f"{type(value).__name__}.{value.name}")
        name = getattr(value, "__name__", "") if callable(value) else ""
        return cls(name if isinstance(name, str) and name.isidentifier() else _kind(value))

    def __repr__(self) -> str:
        return str(self)


def _kind(value: Any) -> str:
    """Return the type of a value in words: "a generator"."""
    name = type(value).__name__
    if name == "NAType":  # which pandas writes for what is missing
        return "NA"
    return f"a{'n' if name[:1].lower() in 'aeiou' else ''} {name}"


def _length(value: Any) -> int:
    try:
        return len(value)
    except (TypeError, OverflowError):  # it has none, as a number or an array of no dimension, or an endless one
        return 0


def _atom(text: str) -> tuple[float, dict[str, int]] | None:
    multiple, _, rest = text.partition(" ")
    if multiple in MULTIPLES and (not rest or rest.strip() in WHOLE or rest.strip() in BASES):
        factor, dimension = WHOLE.get(rest.strip()) or BASES[rest.strip()]
        return MULTIPLES[multiple] * factor, dimension
    if text in WHOLE:
        return WHOLE[text]
    for base in sorted(BASES, key=len, reverse=True):
        if text.endswith(base) and text[: -len(base)] in PREFIXES:
            factor, dimension = BASES[base]
            return PREFIXES[text[: -len(base)]] * factor, dimension
    return None


def parse(unit: str) -> Unit:
    """Parse a unit such as ``TFLOP/s`` or ``USD/kWh``.

    >>> parse("GB/s")
    Unit(factor=1000000000.0, dimension=(('B', 1), ('s', -1)))

    Raises
    ------
    ValueError
        If a part of the unit is not known.
    """
    if not isinstance(unit, str) or len(unit) > LONGEST_UNIT:
        raise ValueError(f"unit = {shown(unit)} must be a short text such as GB/s")
    return _parsed(unit)


@lru_cache(maxsize=512)
def _parsed(unit: str) -> Unit:
    factor, powers = 1.0, dict[str, int]()
    for position, part in enumerate(unit.split("/")):
        atom = _atom(part.strip())
        if atom is None or (position and not part.strip()):
            hint = " (write FLOP for a count, FLOP/s for a rate)" if part.endswith("FLOPs") else ""
            raise ValueError(f"unknown unit {shown(unit)}{hint}; accepted: {ACCEPTED}")
        sign = -1 if position else 1
        factor *= atom[0] ** sign
        for base, power in atom[1].items():
            powers[base] = powers.get(base, 0) + sign * power
    return Unit(factor, tuple(sorted((base, power) for base, power in powers.items() if power)))


def scale(unit: str) -> float:
    """Return the factor from a unit to SI, for example of a schema's unit column.

    >>> scale("GB/s")
    1000000000.0
    """
    return parse(unit).factor


def si(value: Any, unit: str | None = None) -> Any:
    """Turn text with a unit into an SI float; numbers (and arrays) pass through as they are.

    Parameters
    ----------
    value : str, number or array
        For example ``"312 TFLOP/s"``, ``"64 GiB"``, ``"8 h"``, or a number that is in SI already.
    unit : str, optional
        A unit of the dimension that is expected, ``""`` for a count; text of another dimension, or without a unit
        where one is expected, is refused.

    Raises
    ------
    ValueError
        If the text is not valid, the unit is unknown or missing, or its dimension is not that of `unit`.

    Examples
    --------
    >>> si("64 GiB"), si("5 us"), si(300.0)
    (68719476736.0, 5e-06, 300.0)
    """
    if not isinstance(value, str):
        return _checked_number(value)
    number, written = _split(_unit_after_amount(value))
    if not number:
        comma = "; a comma stands between thousands only, write decimals with a point" if "," in value else ""
        raise ValueError(f"cannot read {shown(value)} as a quantity{comma}; accepted: {ACCEPTED}")
    parsed = parse(written)
    if unit is not None and parsed.dimension != parse(unit).dimension:
        if not parsed.dimension:
            raise ValueError(f"{shown(value)} has no unit of the kind {unit}: add one, or a plain number, which is SI")
        expected = f"expected one like {unit}" if unit else "expected a count such as 14e6 or 14 million"
        raise ValueError(f"{shown(value)} has the wrong unit: {expected}")
    return _multiplied(number, parsed.factor, value)


def _unit_after_amount(text: str) -> str:
    """Return an amount with its unit after it: `$1.2 M` is `1.2 M USD`, and `$2.50/h` is `2.50 USD/h`."""
    sign, dollar, amount = text.strip().partition("$")
    if not dollar or sign not in ("", "-", "+"):
        return text
    number, slash, per = amount.strip().partition("/")
    return f"{sign}{number.rstrip()} USD{slash}{per}"


def _checked_number(value: Any) -> Any:
    """Return numbers and arrays as they are; anything else is refused."""
    if isinstance(value, int) and value.bit_length() > 1023:
        raise ValueError(f"value = {shown(value)} is beyond any quantity; write a number up to 1e300")
    if value is None or isinstance(value, Number | list | tuple) or hasattr(value, "dtype"):
        return value
    raise TypeError(f"value = {shown(value)} must be a number, or text; accepted: {ACCEPTED}")


def _multiplied(number: str, factor: float, value: str) -> float:
    """Return number times factor in decimal arithmetic, so that 5 us is 5e-06 exactly."""
    try:
        written = Decimal(number)
        product = written * Decimal(repr(factor))
        result = float(product)
    except DecimalException:
        raise ValueError(f"{shown(value)} is beyond any quantity; write a number between 1e-300 and 1e300") from None
    if not math.isfinite(result) or (written and not result):
        raise ValueError(f"{shown(value)} is beyond any quantity; write a number between 1e-300 and 1e300")
    return result


def _split(text: str) -> tuple[str, str]:
    """Return the number that a text begins with, and the unit after it; no number where there is none."""
    text = " ".join(text[: 2 * LONGEST_QUANTITY].split())
    if len(text) > LONGEST_QUANTITY or not text.isprintable():
        return "", ""
    begin = 1 if text[:1] in ("+", "-") else 0
    end = _run(text, begin, "0123456789.,_")
    whole, _, decimals = text[begin:end].partition(".")
    number = f"{text[:begin]}{_joined(whole)}.{decimals}"
    if text[end : end + 1] in ("e", "E"):
        digits = end + 2 if text[end + 1 : end + 2] in ("+", "-") else end + 1
        if (stop := _run(text, digits, "0123456789")) > digits:
            number, end = f"{number}e{text[end + 1 : stop]}", stop
    plain = all(letter in "0123456789" for letter in decimals) and (_joined(whole) or (decimals and not whole))
    return (number, text[end:].strip()) if plain and text[end : end + 1] not in (".", ",", "_") else ("", "")


def _run(text: str, begin: int, letters: str) -> int:
    """Return the end of the run of certain letters that begins at an index."""
    while begin < len(text) and text[begin] in letters:
        begin += 1
    return begin


def _joined(whole: str) -> str:
    """Return digits without thousands separators; "" where they are misplaced: 12,5 is neither 12.5 nor 125."""
    mark = "," if "," in whole else "_"
    first, *others = whole.split(mark)
    grouped = not others or (1 <= len(first) <= 3 and all(len(part) == 3 for part in others))
    joined = "".join([first, *others])
    return joined if grouped and joined.isascii() and joined.isdecimal() else ""


def si_unit(unit: str) -> str:
    """Return the unit without prefixes, in which `si` gives its answer.

    >>> si_unit("TFLOP/s"), si_unit("GB/s"), si_unit("MHz"), si_unit("us")
    ('FLOP/s', 'B/s', 'Hz', 's')
    """
    parse(unit)
    return "/".join(_base(part.strip()) for part in unit.split("/"))


def _base(part: str) -> str:
    if part in WHOLE:
        factor, dimension = WHOLE[part]
        return "s" if dimension else (part if factor == 1.0 else "")
    return next(base for base in sorted(BASES, key=len, reverse=True) if part.endswith(base))


def _digits(value: float) -> str:
    """Return three significant digits with thousands separators and no exponent."""
    rounded = float(f"{value:.3g}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded)))) if rounded else 0
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _prefixed(value: float, unit: str) -> str:
    names = {v: k for k, v in PREFIXES.items() if len(k) < 2 and k != "u"}
    magnitude = abs(float(f"{value:.3g}"))
    exponent = 3 * math.floor(math.log10(magnitude) / 3 + 1e-12) if magnitude else 0
    step = float(f"1e{min(max(exponent, -18), 24)}")
    return f"{_digits_or_limit(value / step)} {names[step]}{unit}"


def _digits_or_limit(value: float) -> str:
    """Return the digits of a value, or the limit that it exceeds: 1e60 B is not worth sixty zeros."""
    sign = "-" if value < 0 else ""
    if abs(value) > MOST:
        return f"more than {sign}{_digits(MOST)}"
    if 0 < abs(value) < LEAST:
        return f"less than {sign}{_digits(LEAST)}"
    return _digits(value)


def _binary(value: float) -> str:
    names = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
    magnitude = abs(float(f"{value:.3g}"))
    power = min(int(math.log(magnitude, 1024) + 1e-12), len(names) - 1) if magnitude >= 1 else 0
    return f"{_digits_or_limit(value / 1024**power)} {names[power]}B"


def percent(fraction: float, digits: int = 0) -> str:
    """Return a share in percent, with a space as between any number and its unit; `digits` after the point.

    Examples
    --------
    >>> percent(0.624), percent(0.9871, 1), percent(1.5)
    ('62 %', '98.7 %', '150 %')
    """
    return f"{100 * fraction:.{digits}f} %"


def dollars(usd: float) -> str:
    """Write an amount of US dollars: three digits, from ten thousand on with k, M, bn or tn; no dust of a cent.

    Examples
    --------
    >>> dollars(2.5), dollars(0.178), dollars(1234.5), dollars(18_132), dollars(2_033_840)
    ('$2.50', '$0.178', '$1,230', '$18.1 k', '$2.03 M')
    >>> dollars(float("nan")), dollars(1.49e-7)
    ('not known', '$0')
    """
    if math.isnan(usd):
        return "not known"
    if abs(usd) < NEGLIGIBLE_DOLLARS:
        return "$0"
    size, sign = float(f"{abs(usd):.3g}"), "-" if usd < 0 else ""
    if math.isinf(size):
        return f"{sign}unlimited"
    if size >= WHOLE_DOLLARS:
        name = next(prefix for prefix, factor in MONEY.items() if prefix == "k" or size >= factor)
        return f"{sign}${_digits_or_limit(size / MONEY[name])} {name}"
    cents = size < 10 and size == round(size, 2)
    return f"{sign}${size:.2f}" if cents else f"{sign}${_digits(size)}"


def human(value: float, unit: str = "") -> str:
    """Write an SI number for people: three significant digits and a fitting prefix.

    Parameters
    ----------
    value : float
        In SI; NaN gives ``"unknown"`` and infinity ``"unlimited"``.
    unit : str
        The SI unit. Seconds become ns ... h, d or years; counts get thousands separators; ``"USD"``, also per
        something, is written by `dollars`; ``"iB"`` is bytes of memory, with binary prefixes (1 GiB = 2^30 B).

    Raises
    ------
    TypeError
        The value is not one number.
    ValueError
        The unit is not a short text.

    Examples
    --------
    >>> human(8280.0, "s"), human(0.045, "s"), human(8e10, "B")
    ('2.3 h', '45 ms', '80 GB')
    >>> human(33600, "USD"), human(25557032), human(80 * 2**30, "iB")
    ('$33.6 k', '25.6 M', '80 GiB')
    """
    if not isinstance(unit, str) or len(unit) > LONGEST_UNIT:
        raise ValueError(f"unit = {shown(unit)} must be a short text such as B/s")
    if isinstance(value, str):
        raise TypeError(f"value = {shown(value)} must be a number; read text by si")
    try:
        value = float(value)
    except OverflowError:
        return f"more than {sys.float_info.max:.0e} {unit}".strip()
    except (TypeError, ValueError):
        raise TypeError(f"value = {shown(value)} must be one number") from None
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "unlimited" if value > 0 else "-unlimited"
    if unit.partition("/")[0] == "USD":
        return f"{dollars(value)}{unit[3:]}"
    if unit == "s":
        for seconds, name in CLOCK:
            if abs(float(f"{value:.3g}")) >= seconds:
                return f"{_digits_or_limit(value / seconds)} {name}"
        return _prefixed(value, "s")
    if unit == "iB":
        return _binary(value)
    if unit in PREFIXED:
        return _prefixed(value, unit)
    if abs(value) >= 1e7:
        return f"{_prefixed(value, '')} {unit}".strip()
    return f"{_digits(value)} {unit}".strip()


def ratio(value: float) -> str:
    """Two significant digits without an exponent.

    >>> ratio(1.94), ratio(0.0345), ratio(1234.0)
    ('1.9', '0.035', '1,200')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(abs(rounded))))}f}"


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


def share(fraction: float) -> str:
    """A share in percent, two digits at least, never an exponent, and none of its digits where it is next to nothing.

    Examples
    --------
    >>> share(0.0345), share(2.114), share(41.3), share(3.2e-7)
    ('3.5 %', '211 %', '4,130 %', 'less than 0.01 %')
    """
    value = 100 * fraction
    if 0 < value < LEAST_PERCENT:
        return f"less than {LEAST_PERCENT} %"
    return f"{ratio(value)} %" if value < 9.95 else f"{value:,.0f} %"


def dollar_range(low: float, high: float) -> str:
    """Two amounts of US dollars, the lower one written in the unit of the higher.

    Examples
    --------
    >>> dollar_range(9541, 35500), dollar_range(6000, 55_000), dollar_range(941_000, 2.69e6), dollar_range(20, 35500)
    ('$9.54 k to $35.5 k', '$6 k to $55 k', '$0.941 M to $2.69 M', '$20 to $35.5 k')
    """
    most = dollars(high)
    unit = most.rpartition(" ")[2]
    near = unit in MONEY and low >= high / WIDE and not dollars(low).endswith(f" {unit}")
    return f"{f'${_digits(low / MONEY[unit])} {unit}' if near else dollars(low)} to {most}"


def large(count: float) -> str:
    """A large number to two or three digits.

    Examples
    --------
    >>> large(2033840), large(644358), large(9830)
    ('2.03 M', '644 k', '9,830')
    """
    if count >= 1e4:
        size, name = (1e9, "bn") if count >= 0.9995e9 else (1e6, "M") if count >= 0.9995e6 else (1e3, "k")
        return f"{figure(count / size)} {name}"
    return f"{count:,.0f}"
