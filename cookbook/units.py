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
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

__all__ = ["Unit", "human", "parse", "scale", "si", "si_unit"]

PREFIXES = {
    "a": 1e-18, "f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3,
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip

# Unit -> (factor to SI, dimension); OP and FLOP share a dimension so that integer and floating peaks compare.
BASES: dict[str, tuple[float, dict[str, int]]] = {
    "FLOP": (1.0, {"operation": 1}), "OP": (1.0, {"operation": 1}), "MAC": (2.0, {"operation": 1}),
    "FLOPS": (1.0, {"operation": 1, "s": -1}), "OPS": (1.0, {"operation": 1, "s": -1}),
    "B": (1.0, {"B": 1}), "b": (0.125, {"B": 1}), "bit": (0.125, {"B": 1}),
    "s": (1.0, {"s": 1}), "min": (60.0, {"s": 1}), "h": (3600.0, {"s": 1}), "d": (86400.0, {"s": 1}),
    "Hz": (1.0, {"s": -1}), "IOPS": (1.0, {"s": -1}), "m": (1.0, {"m": 1}), "g": (1.0, {"g": 1}), "L": (1.0, {"L": 1}),
    "J": (1.0, {"J": 1}), "W": (1.0, {"J": 1, "s": -1}), "Wh": (3600.0, {"J": 1}),
    "USD": (1.0, {"USD": 1}),
}  # fmt: skip
# Units that take no prefix.
WHOLE: dict[str, tuple[float, dict[str, int]]] = {
    "": (1.0, {}), "1": (1.0, {}), "%": (0.01, {}), "year": (365.25 * 86400.0, {"s": 1}),
    "years": (365.25 * 86400.0, {"s": 1}), "day": (86400.0, {"s": 1}), "days": (86400.0, {"s": 1}),
    "hour": (3600.0, {"s": 1}), "hours": (3600.0, {"s": 1}), "h": (3600.0, {"s": 1}), "min": (60.0, {"s": 1}),
    "month": (365.25 / 12 * 86400.0, {"s": 1}), "device": (1.0, {}), "devices": (1.0, {}), "image": (1.0, {}),
    "images": (1.0, {}), "token": (1.0, {}), "tokens": (1.0, {}), "sample": (1.0, {}), "samples": (1.0, {}),
    "parameter": (1.0, {}), "parameters": (1.0, {}),
}  # fmt: skip
# Words and letters that may stand before a unit, or alone: 14 M, 14 million images, 1.2 M USD.
MULTIPLES = {name: factor for name, factor in PREFIXES.items() if name and factor >= 1e3 and "i" not in name} | {
    "thousand": 1e3, "million": 1e6, "billion": 1e9,
}  # fmt: skip

ACCEPTED = (
    "a number, or a number and a unit such as 312 TFLOP/s, 16 TOP/s, 80 GB, 64 GiB, 3.35 TB/s, 400 Gb/s, 300 W, "
    "5 us, 8 h, 1.4 GHz, 2.5 USD/h"
)
# Commas and underscores stand between thousands alone: 12,5 is neither 12.5 nor 125.
WHOLE_PART = r"\d{1,3}(?:,\d{3})+(?![\d,_])|\d{1,3}(?:_\d{3})+(?![\d,_])|\d+(?![\d,_])"
NUMBER = re.compile(rf"^\s*([-+]?(?:(?:{WHOLE_PART})\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\d.,_])\s*(.*?)\s*$")
PREFIXED = {"FLOP", "FLOP/s", "OP", "OP/s", "MAC", "MAC/s", "B", "B/s", "FLOP/B", "W", "J", "Hz", "m"}
YEAR = 86400.0 * 365.25
CLOCK = [(1e9 * YEAR, "billion years"), (1e6 * YEAR, "million years"), (YEAR, "years"), (86400.0, "d"), (3600.0, "h"),
         (60.0, "min")]  # fmt: skip
# Beyond these parts of the outermost prefix a figure says no more than that it is out of range.
MOST, LEAST = 1e9, 1e-3


class Unit(NamedTuple):
    """A parsed unit: multiply by `factor` to get SI; `dimension` is the sorted powers of the base quantities."""

    factor: float
    dimension: tuple[tuple[str, int], ...]


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


@lru_cache(maxsize=512)
def parse(unit: str) -> Unit:
    """Parse a unit such as ``TFLOP/s`` or ``USD/kWh``.

    >>> parse("GB/s")
    Unit(factor=1000000000.0, dimension=(('B', 1), ('s', -1)))

    Raises
    ------
    ValueError
        If a part of the unit is not known.
    """
    factor, powers = 1.0, dict[str, int]()
    for position, part in enumerate(unit.split("/")):
        atom = _atom(part.strip())
        if atom is None or (position and not part.strip()):
            hint = " (write FLOP for a count, FLOP/s for a rate)" if part.endswith("FLOPs") else ""
            raise ValueError(f"unknown unit {unit!r}{hint}; accepted: {ACCEPTED}")
        sign = -1 if position else 1
        factor *= atom[0] ** sign
        for base, power in atom[1].items():
            powers[base] = powers.get(base, 0) + sign * power
    return Unit(factor, tuple(sorted((base, power) for base, power in powers.items() if power)))


def scale(unit: str) -> float:
    """Factor from a unit to SI, for example of a schema's unit column.

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
        If the text cannot be read, the unit is unknown or missing, or its dimension is not that of `unit`.

    Examples
    --------
    >>> si("64 GiB"), si("5 us"), si(300.0)
    (68719476736.0, 5e-06, 300.0)
    """
    if not isinstance(value, str):
        return value
    match = NUMBER.match(value)
    if not match:
        comma = "; a comma stands between thousands only, write decimals with a point" if "," in value else ""
        raise ValueError(f"cannot read {value!r} as a quantity{comma}; accepted: {ACCEPTED}")
    parsed = parse(match.group(2))
    if unit is not None and parsed.dimension != parse(unit).dimension:
        if not parsed.dimension:
            raise ValueError(f"{value!r} has no unit of the kind {unit}: add one, or give a plain number, which is SI")
        expected = f"expected one like {unit}" if unit else "expected a count such as 14e6 or 14 million"
        raise ValueError(f"{value!r} has the wrong unit: {expected}")
    # Decimal arithmetic keeps 5 us at 5e-06 and 33.45 TFLOP/s at 33.45e12 exactly.
    return float(Decimal(match.group(1).replace(",", "").replace("_", "")) * Decimal(repr(parsed.factor)))


def si_unit(unit: str) -> str:
    """The unit without prefixes, in which `si` gives its answer.

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
    """Three significant digits with thousands separators and no exponent."""
    rounded = float(f"{value:.3g}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded)))) if rounded else 0
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _prefixed(value: float, unit: str) -> str:
    names = {v: k for k, v in PREFIXES.items() if len(k) < 2 and k != "µ"}
    magnitude = abs(float(f"{value:.3g}"))
    exponent = 3 * math.floor(math.log10(magnitude) / 3 + 1e-12) if magnitude else 0
    step = float(f"1e{min(max(exponent, -18), 24)}")
    return f"{_within(value / step)} {names[step]}{unit}"


def _within(value: float) -> str:
    """The digits of a figure, or the limit that it lies beyond: 1e60 B is not worth sixty zeros."""
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
    return f"{_within(value / 1024**power)} {names[power]}B"


def human(value: float, unit: str = "") -> str:
    """Write an SI number for people: three significant digits and a fitting prefix.

    Parameters
    ----------
    value : float
        In SI; NaN gives ``"unknown"`` and infinity ``"unlimited"``.
    unit : str
        The SI unit. Seconds become ns ... h, d or years; counts and money get thousands separators; ``"iB"`` is bytes
        of memory, with binary prefixes (1 GiB = 2^30 B).

    Examples
    --------
    >>> human(8280.0, "s"), human(0.045, "s"), human(8e10, "B")
    ('2.3 h', '45 ms', '80 GB')
    >>> human(33600, "USD"), human(25557032), human(80 * 2**30, "iB")
    ('33,600 USD', '25.6 M', '80 GiB')
    """
    value = float(value)
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "unlimited" if value > 0 else "-unlimited"
    if unit == "s":
        for seconds, name in CLOCK:
            if abs(float(f"{value:.3g}")) >= seconds:
                return f"{_within(value / seconds)} {name}"
        return _prefixed(value, "s")
    if unit == "iB":
        return _binary(value)
    if unit in PREFIXED:
        return _prefixed(value, unit)
    if abs(value) >= 1e7:
        return f"{_prefixed(value, '')} {unit}".strip()
    return f"{_digits(value)} {unit}".strip()
