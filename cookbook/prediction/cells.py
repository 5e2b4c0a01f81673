"""Cells that cannot mean what their column asks for: said before anything is computed from them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Whole numbers of one or more.
COUNTS = ("devices", "per_node", "tp", "pp", "vp", "dp", "cp", "ep", "global_batch", "grad_accum_steps", "seq_len",
          "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab", "moe_ffn_hidden", "accelerators",
          "accelerator_count", "hosts")  # fmt: skip
# Whole numbers that may be none.
COUNTS_OR_NONE = ("experts", "experts_per_token", "shared_experts", "dense_layers", "decoder_layers", "workers")
# Sizes above zero.
SIZES = ("batch_per_device", "micro_batch", "params_b", "params_active_b", "sample_bytes")
# Cells that say that nothing is known.
BLANK = frozenset({"", "nan", "none", "null", "na", "n/a", "-", "--", "?", "unknown", "not stated", "<na>"})
NUMBER = re.compile(r"([+-]?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])")
SUM = re.compile(r"\d+(\+\d+)+")
FORMATS = re.compile(
    r"(?:^|[^a-z0-9]|nv|mx|m\d)(?:b?f(?:p|loat)?|tf)(4|8|16|32|64)(?![\dx])|amp|half|single|mixed", re.I
)
DOUBTFUL = re.compile(r"\d|\b(?:k|m|b|nodes?|hosts?|servers?|per|or|to)\b|^\s*[-/x*]", re.I)
LARGEST = 1e15


def impossible(frame: pd.DataFrame, formats: bool = True) -> list[str]:
    """For each row, the first cell that cannot be what its column holds, in words; "" where all can.

    Parameters
    ----------
    frame : pandas.DataFrame
        Scenarios as text or numbers; blank cells and columns that are absent are fine.
    formats : bool
        Whether ``precision`` must name a format of training; engines for inference have more of them.
    """
    found = [""] * len(frame)
    for columns, good, wanted in (
        (COUNTS, _counts, "a whole number of 1 or more"),
        (COUNTS_OR_NONE, _counts_or_none, "a whole number, 0 or more"),
        (SIZES, _is_size, "a number above 0"),
    ):
        for column in columns:
            if column in frame:
                _check(frame[column].tolist(), column, partial(_holds, good=good), wanted, found)
    if formats and "precision" in frame:
        known = "a number format such as fp16, bf16, tf32 or fp32"
        _check(frame["precision"].tolist(), "precision", lambda cell: bool(FORMATS.search(cell)), known, found)
    return found


def _counts(number: float) -> bool:
    return number >= 1 and number == int(number)


def _counts_or_none(number: float) -> bool:
    return number >= 0 and number == int(number)


def _is_size(number: float) -> bool:
    return number > 0


def _check(cells: list[object], column: str, good: Callable[[str], bool], wanted: str, found: list[str]) -> None:
    verdict: dict[str, bool] = {}
    for at, value in enumerate(cells):
        cell = str(value).strip()
        if cell not in verdict:
            verdict[cell] = cell.casefold() in BLANK or good(cell)
        if not verdict[cell] and not found[at]:
            found[at] = f"{column} = {cell[:40]!r} is not {wanted}"


def _holds(cell: str, good: Callable[[float], bool]) -> bool:
    """Whether a cell is such a number, words behind it apart.

    >>> [_holds(cell, lambda number: number >= 1) for cell in ("8 GPUs", "1,024", "24+24", "0x10", "eight", "1e400")]
    [True, True, True, False, False, False]
    """
    if SUM.fullmatch(cell):
        return True
    number = NUMBER.match(cell)
    # Words may say what is counted, or stand in brackets; a second figure, a multiple or a node may not.
    if not number or _grouped_badly(number[1]) or DOUBTFUL.search(re.sub(r"\(.*\)", "", cell[number.end():])):
        return False
    value = float(number[1].replace(",", ""))
    return math.isfinite(value) and abs(value) <= LARGEST and good(value)


def _grouped_badly(number: str) -> bool:
    """A comma that does not group thousands: a decimal comma, which would be read a thousand times too large."""
    return "," in number and not re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", number)
