"""Exercises that check themselves: a wrong answer is not given away, but a usual slip is named."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Any

from cookbook import units
from cookbook.lesson.record import EXERCISE, key_of, note

# The usual slips: ratio of the answer given to the right one, and what each direction points to.
RATIOS: tuple[tuple[float, str, str], ...] = (
    (
        2,
        "twice too large: MAC counted as FLOP twice, or a sparse peak taken for a dense one (1 MAC = 2 FLOP)",
        "half of it: MAC taken for FLOP (1 MAC = 2 FLOP), or a dense peak halved once more",
    ),
    (
        3,
        "three times too large: only the forward pass is asked for, not forward and backward",
        "a third of it: the backward pass is missing (it costs two forward passes)",
    ),
    (
        6,
        "six times too large: forward MAC are asked for, not the FLOP of training",
        "a sixth of it: forward MAC, where training costs 3 passes of 2 FLOP each MAC",
    ),
    (8, "eight times too large: bits taken for bytes (1 B = 8 bit)", "an eighth of it: bytes taken for bits"),
    (
        4,
        "four times too large: bytes counted where elements are asked for (4 B in single precision)",
        "a quarter of it: elements counted where bytes are asked for (4 B in single precision)",
    ),
    (1.024, "2.4 % too large: 1,024 taken for 1,000", "2.4 % too small: 1,000 taken for 1,024"),
    (1.024**2, "4.9 % too large: MiB taken for MB", "4.9 % too small: MB taken for MiB"),
    (1.024**3, "7.4 % too large: GiB taken for GB", "7.4 % too small: GB taken for GiB"),
    (1.024**4, "10 % too large: TiB taken for TB", "9 % too small: TB taken for TiB"),
    (60, "60 times too large: seconds and minutes", "60 times too small: seconds and minutes"),
    (3600, "3,600 times too large: seconds and hours", "3,600 times too small: seconds and hours"),
    (
        1e2,
        "100 times too large: a percentage given for a fraction",
        "100 times too small: a fraction given for a percentage",
    ),
    (1e3, "1,000 times too large: one SI prefix off", "1,000 times too small: one SI prefix off"),
    (1e6, "10^6 times too large: two SI prefixes off", "10^6 times too small: two SI prefixes off"),
    (1e9, "10^9 times too large: three SI prefixes off", "10^9 times too small: three SI prefixes off"),
    (1e12, "10^12 times too large: four SI prefixes off", "10^12 times too small: four SI prefixes off"),
)
RATIO_TOLERANCE = 0.005


@dataclass(frozen=True)
class Verdict:
    """Outcome of `check`; true where the answer is right."""

    correct: bool
    message: str

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        head, _, tail = self.message.partition(":")
        return f'<p role="status"><strong>{html.escape(head)}:</strong>{html.escape(tail)}</p>'


def check(answer: Any, expected: Any, tolerance: float = 0.02, unit: str = "") -> Verdict:
    """Whether an answer agrees with what the package computes.

    Parameters
    ----------
    answer : float, str or None
        The reader's answer in SI units, text with a unit such as "132 TFLOP/s", or a word; None or `...`
        stands for an exercise not done yet.
    expected : callable, float or str
        What is right; a callable is called now, so that the answer is recomputed and not stored.
    tolerance : float
        Relative difference that passes, 0 to 1.
    unit : str
        SI unit in which the answer is printed, such as "FLOP/s".

    Returns
    -------
    Verdict
        True where the answer is right; a wrong answer is not given away, but a usual slip is named.

    Raises
    ------
    ValueError
        A tolerance out of range.

    Examples
    --------
    >>> check("264 TFLOP/s", lambda: 2 * 132e12, unit="FLOP/s")
    Correct: 264 TFLOP/s, within 2 % of the computed value.
    >>> check(132e12, lambda: 2 * 132e12, unit="FLOP/s")
    Not yet: 132 TFLOP/s is half of it: MAC taken for FLOP (1 MAC = 2 FLOP), or a dense peak halved once more.
    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance = {tolerance!r} is outside [0, 1); give a fraction such as 0.02")
    key = key_of(EXERCISE, expected)
    before = note(key)
    if answer is None or answer is ...:
        solved = f" You solved this before, with {before}." if before else ""
        return Verdict(False, f"Not answered yet: put your answer in place of the blank, run again.{solved}")
    right = expected() if callable(expected) else expected
    verdict = (
        _check_word(answer, right) if isinstance(right, (str, bool))
        else _check_number(answer, float(right), tolerance, unit)
    )  # fmt: skip
    note(key, str(answer) if verdict else "")
    return verdict


def _check_word(answer: Any, right: str | bool) -> Verdict:
    same = str(answer).strip().casefold() == str(right).strip().casefold()
    return Verdict(same, f"Correct: {answer}." if same else f"Not yet: {answer} is not what is computed.")


def _check_number(answer: Any, right: float, tolerance: float, unit: str) -> Verdict:
    try:
        given = _in_unit(answer, "B" if unit == "iB" else unit)
    except (TypeError, ValueError) as problem:
        return Verdict(False, f"Not a number: {problem}")
    shown = units.human(given, unit) if unit else f"{given:,.4g}"
    if given == right or abs(given - right) <= tolerance * abs(right):
        return Verdict(True, f"Correct: {shown}, within {100 * tolerance:g} % of the computed value.")
    return Verdict(False, f"Not yet: {shown} is {_slip(given, right, tolerance)}.")


def _in_unit(answer: Any, unit: str) -> float:
    """The answer as a number in `unit`: text must have a unit of its kind, where one is asked for."""
    if isinstance(answer, str) and unit:
        return float(units.si(answer, unit)) / units.scale(unit)
    return float(units.si(answer))


def _slip(given: float, right: float, tolerance: float) -> str:
    if not math.isfinite(given) or not right or given / right < 0:
        return "not a value that this quantity can take"
    ratio = given / right
    for factor, large, small in RATIOS:
        if math.isclose(ratio, factor, rel_tol=RATIO_TOLERANCE):
            return large
        if math.isclose(ratio, 1 / factor, rel_tol=RATIO_TOLERANCE):
            return small
    side = "too large" if ratio > 1 else "too small"
    return f"{side} by more than the {100 * tolerance:g} % allowed, and by no usual slip"
