"""Words about parallelism beyond one count for each column: configurations in one cell, and ranks of Ulysses."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.prediction.parsing import words
from cookbook.prediction.parsing.columns import Columns, normal
from cookbook.prediction.parsing.vocabulary import alternatives, meaning
from cookbook.prediction.scenario import NOTHING, Coded, together

WHOLE = re.compile(r"(\d+)(?:\.0*)?")
READ_AS = "Ulysses, whose exchanges of heads are counted as those of a ring"
SIZES = ("tp", "pp", "vp", "dp", "cp", "ep")
UNSTATED = dict.fromkeys((*SIZES, "sp"), np.nan)


@lru_cache(maxsize=1)
def _split() -> re.Pattern[str]:
    """Return the pattern of a cell such as "TP=8, PP4, dp: 2, sp=64": the word of a split, and its size."""
    return re.compile(
        rf"(?<![a-z])({alternatives('parallelism')})"
        r"(?:[\s_-]*parallel(?:ism)?)?(?:[\s_-]*(?:size|degree))?[\s_=:x-]*(\d+)(?![\d.])",
        re.I,
    )


@lru_cache(maxsize=1)
def _stage() -> re.Pattern[str]:
    """Return the pattern of a stage of sharding."""
    return re.compile(rf"zero[\s_=:-]*(?:stage[\s_=:-]*)?([0-3])(?!\d)|{alternatives('zero', 'fsdp')}", re.I)


def splits(cell: str) -> dict[str, float]:
    """Return the sizes of the splits that a cell names, by short name.

    >>> splits("TP=8, PP4 / sp: 64"), splits("tensor parallel size 2; ZeRO-3")
    ({'tp': 8.0, 'pp': 4.0, 'sp': 64.0}, {'tp': 2.0})
    """
    return {meaning("parallelism", match[1]): float(match[2]) for match in _split().finditer(cell)}


def stage(cell: str) -> str:
    """Return the part of a cell that names a stage of sharding, as `words.zero_stage` reads it; "" where none does.

    >>> stage("tp=8, zero=3"), stage("FSDP within a node, TP 2"), stage("tp 8")
    ('zero 3', 'FSDP within a node, TP 2', '')
    """
    match = _stage().search(cell)
    return "" if not match else f"zero {match[1]}" if match[1] else cell


def of_cells(c: Columns, columns: dict[str, Any]) -> None:
    """Set the sizes of splits from a column of configurations where their own columns are blank."""
    cells = c.text("parallelism")
    if cells.levels == ("",):
        return
    named = cells.map(splits)
    for name in SIZES:
        own = columns.get(name, NOTHING)
        columns[name] = np.where(np.isnan(own), named.map(lambda sizes: {**UNSTATED, **sizes}).part(name), own)
    c.note(cells.map(lambda cell: _sizes_note(cell, splits(cell))))


def _sizes_note(cell: str, named: dict[str, float]) -> str:
    """Return what was read from a cell, or that nothing was."""
    if words.is_blank(cell):
        return ""
    sizes = [f"{name} = {size:g}" for name, size in named.items() if name in SIZES]
    if sizes or named or stage(cell):
        return ", ".join(sizes)
    return f"parallelism = {words.shown(cell)} is not read: write it as tp=8, pp=4, cp=2"


def sequences(c: Columns, columns: dict[str, Any]) -> None:
    """Set whether tensor-parallel ranks split norms; another number of ranks is Ulysses, and counts as cp.

    Megatron's sequence parallelism has the ranks of tp. Where a column has any larger number, 1 is one, and says
    nothing of it.
    """
    column, cells = c.text("sequence_parallel"), c.text("parallelism")
    sizes = [match[1] for level in column.levels if (match := WHOLE.fullmatch(level.strip()))]
    counted = any(float(size) > 1 for size in sizes)

    def ranks(cell: str) -> float:
        match = WHOLE.fullmatch(cell.strip()) if counted else None
        return float(match[1]) if match else np.nan

    own = column.each(ranks)
    stated = np.where(np.isnan(own), cells.each(lambda cell: splits(cell).get("sp", np.nan)), own)
    if counted:
        flags = column.map(lambda cell: "" if np.isfinite(ranks(cell)) else cell)
        columns["sequence_parallel"] = c.values(flags, _flag, "sequence_parallel").each(float)
    else:
        columns["sequence_parallel"] = c.flag("sequence_parallel")
    tensor, context = columns.get("tp", NOTHING), columns.get("cp", NOTHING)
    same = (stated > 1) & (stated == tensor)
    columns["sequence_parallel"] = np.where(same, 1.0, np.where(stated == 0, 0.0, columns["sequence_parallel"]))
    ulysses = (stated > 1) & ~same
    if np.any(ulysses):
        whole = np.where(ulysses, stated * np.fmax(context, 1.0), context)
        # Where both columns state one number, they mean the same ranks.
        whole = np.where(ulysses & (stated == context), context, whole)
        columns["cp"] = whole
        c.note(_notes(lambda size, ways: f"cp = {ways:g}: sp = {size:g} is {READ_AS}", ulysses, stated, whole))
    if "ulysses" in normal(c.headers.get("cp", "")):
        c.note(_notes(lambda size: f"cp = {size:g}: {READ_AS}", columns.get("cp", NOTHING) > 1, columns["cp"]))


def _flag(cell: str) -> tuple[float, str]:
    """Return yes as 1 and no as 0, and what is wrong with other words."""
    value = words.truth(cell)
    problem = f"sequence_parallel = {words.shown(cell)} says neither yes nor no, and is no number of ranks"
    return (np.nan, problem) if value is None else (value, "")


def _notes(words_of: Any, marked: Any, *numbers: Any) -> Coded:
    """Return a note for marked rows, made from their numbers; "" for the others."""
    size = np.broadcast_shapes(*(np.shape(values) for values in (marked, *numbers)))
    columns = [np.broadcast_to(np.asarray(values, dtype=float), size) for values in (marked, *numbers)]
    coded = []
    for column in columns:
        distinct, codes = np.unique(np.nan_to_num(column), return_inverse=True)
        coded.append(Coded(codes.reshape(size), tuple(distinct.tolist())))
    return together(*coded).map(lambda row: words_of(*row[1:]) if row[0] else "")
