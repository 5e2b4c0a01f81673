"""Answers a reader's table of scenarios row by row: a number with its interval, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cookbook.catalog.refusals import Refusal, code_of, refused
from cookbook.prediction.engine import Estimate, estimate
from cookbook.prediction.parsing import columns, networks, tables
from cookbook.prediction.parsing.columns import levels_of
from cookbook.prediction.parsing.reading import read_blocks
from cookbook.prediction.scenario import Scenario
from cookbook.prediction.storage import COLUMNS as STORAGE_COLUMNS
from cookbook.prediction.storage import storage_table

if TYPE_CHECKING:
    from pathlib import Path

    from cookbook.hardware import Machine

COLUMNS = ("id", "predicted", "unit", "low80", "high80", "low90", "high90", "tier", "why", "assumed")
MEMORY_COLUMNS = ("memory_bytes", "fits")
INTERVAL = ("predicted", "low80", "high80", "low90", "high90")
NO_NUMBER = Refusal("the formulas give no finite number for this row: check its sizes", "no-finite-time")
MODELLED = ("training_classic", "training_transformer", "inference")
ANSWERED = (*MODELLED, "storage")
MAX_REASON_LETTERS, NOT_DIVISIBLE = 300, "batch-not-divisible"


def more_columns(kind: str) -> tuple[str, ...]:
    """Return the columns of answers of one kind beyond `COLUMNS`."""
    if kind == "storage":
        return tuple(name for name in STORAGE_COLUMNS if name not in COLUMNS)
    return ("reason", *MEMORY_COLUMNS) if kind != "training_classic" else ("reason",)


def answer_blocks(
    path: str | Path, kind: str, neighbours: bool = True, here: Machine | None = None
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Predict every row of a CSV file of any usual encoding, block by block: rows as read, and their answers."""
    before = 0
    for frame, why in read_blocks(path):
        answers = answer(frame, kind, neighbours, why, here)
        if _id_of(frame) is None:
            answers["id"] = [str(before + row) for row in range(1, len(frame) + 1)]
        before += len(frame)
        yield frame, answers


def answer_file(path: str | Path, kind: str, neighbours: bool = True, here: Machine | None = None) -> pd.DataFrame:
    """Predict every row of a CSV file as one table; see `answer_blocks`."""
    blocks = [answers for _, answers in answer_blocks(path, kind, neighbours, here)]
    return pd.concat(blocks, ignore_index=True) if blocks else answer(pd.DataFrame(), kind)


def unknown_columns(kind: str, headers: Iterable[str]) -> list[str]:
    """Return sentences about columns that no field is read from, with the name that each may be a misspelling of."""
    return [
        f"column {header[:60]!r} is not known and was not read" + (near and f"; nearest: {near}")
        for header, near in columns.unknown(kind, list(headers))
    ]


def answer(
    frame: pd.DataFrame, kind: str, neighbours: bool = True, why: Any = None, here: Machine | None = None
) -> pd.DataFrame:
    """Predict every row of a table, in its order; a row that cannot be predicted has blank numbers and a reason.

    Parameters
    ----------
    frame : pandas.DataFrame
        Scenarios, text or numbers, under the columns of ``data/schema/scenario.csv`` or other spellings there; outcomes
        are not looked at.
    kind : str
        As for `answer_blocks`.
    neighbours : bool
        Whether similar measurements correct the points.
    why : sequence of str, optional
        What reading said about single rows.
    here : Machine, optional
        A machine of the reader's own, for rows that have its name in the place of the accelerator, or none.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS` and those of `more_columns`; numbers are NaN where there is no prediction. `id` is that of the
        table, or the number of the row, from 1.
    """
    if kind not in ANSWERED:
        raise refused("kind", kind, f"is not known; take one of {', '.join(ANSWERED)}")
    frame = frame.reset_index(drop=True)
    problems = np.full(len(frame), "", dtype=object) if why is None else np.asarray(why, dtype=object)
    if frame.empty and kind != "storage":
        return pd.DataFrame(columns=[*COLUMNS, *more_columns(kind)])
    if kind == "storage":
        answers = storage_table(tables.without_outcomes(frame), problems)
    else:
        scenario = tables.read(kind, frame, problems, here)
        parts = tables.split(scenario) if kind == "inference" else [(np.arange(len(frame)), scenario)]
        estimates = [(at, part, estimate(part, neighbours)) for at, part in parts]
        answers = _joined(
            kind, frame, [*estimates, *(shared for one in estimates for shared in _shared_out(*one, neighbours))]
        )
    header = _id_of(frame)
    if header is None:
        return answers.assign(id=[str(row) for row in range(1, len(frame) + 1)])[[*COLUMNS, *more_columns(kind)]]
    named = levels_of(frame[header])
    ids = np.broadcast_to(np.array(named.levels, dtype=object)[named.codes], len(frame))
    return answers.assign(id=ids)[[*COLUMNS, *more_columns(kind)]]


def _id_of(frame: pd.DataFrame) -> Any:
    """Return the header of the names of rows, in any case; None where rows have none and are counted from 1."""
    return next((header for header in frame.columns if columns.normal(header) == "id"), None)


def _shared_out(
    at: np.ndarray, part: Scenario, estimated: Estimate, neighbours: bool
) -> Iterator[tuple[np.ndarray, Scenario, Estimate]]:
    """Yield steps whose batch is no integer number of passes, which a call refuses, with the batch shared out
    evenly."""
    rows = np.flatnonzero((code_of(estimated.why) == NOT_DIVISIBLE) & (part.kind == "training_transformer"))
    while len(rows):
        selected = part.take(rows)
        even = replace(selected, columns={**selected.columns, "even_passes": np.array(1.0)})
        shared = estimate(even, neighbours)
        good = np.asarray(shared.why) == ""
        if good.all():
            yield at[rows], even, shared
            return
        rows = rows[good]


def _joined(kind: str, frame: pd.DataFrame, parts: list[tuple[np.ndarray, Scenario, Estimate]]) -> pd.DataFrame:
    """Return the answers of all rows from those of parts of the table."""
    size = len(frame)
    columns_of: dict[str, Any] = {name: np.full(size, np.nan) for name in (*INTERVAL, "memory_bytes")}
    columns_of |= {name: np.full(size, "", dtype=object) for name in ("tier", "why", "reason", "assumed", "fits")}
    scale = np.full(size, np.nan)
    columns_of["unit"] = _units(kind, frame, scale)
    for at, part, estimated in parts:
        for name, values in _answers_of(kind, part, estimated, scale[at]).items():
            columns_of[name][at] = values
    return pd.DataFrame(columns_of)


def _units(kind: str, frame: pd.DataFrame, scale: np.ndarray) -> np.ndarray:
    """Return the requested unit of each row; `scale` gets the seconds in the unit of a delay."""
    if kind == "training_transformer":
        return np.full(len(frame), "s", dtype=object)
    cells = columns.Columns(kind, frame)
    name = "unit" if kind == "training_classic" or "metric" not in cells else "metric"
    units = cells.text(name)
    if kind == "inference":
        scale[:] = units.each(lambda cell: networks.metric_of(cell).seconds)
    return np.array(np.broadcast_to(units.each(lambda cell: cell or "samples/s", object), (len(frame),)))


def _answers_of(kind: str, part: Scenario, estimated: Estimate, scale: np.ndarray) -> dict[str, Any]:
    """Return the columns of answers of one part."""
    seconds = np.stack([estimated.point, estimated.low80, estimated.high80, estimated.low90, estimated.high90])
    if kind == "training_transformer":
        numbers = seconds
    else:
        with np.errstate(all="ignore"):
            # A rate falls where the time rises; a delay is a time in its unit.
            rates = estimated.rate / (seconds / estimated.point)[[0, 2, 1, 4, 3]]
            numbers = np.where(np.isfinite(scale), seconds / scale, rates)
    good = np.isfinite(numbers).all(axis=0) & (numbers > 0).all(axis=0)
    if not good.all():
        numbers = np.where(good, numbers, np.nan)
    why = np.asarray(estimated.why, dtype=object)
    why = np.where((why == "") & ~good, NO_NUMBER.cell, why)
    assumptions, read = np.asarray(estimated.assumed, dtype=object), part.read.each(str, object)
    joined = (
        np.where(read == "", assumptions, np.where(assumptions == "", read, read + "; " + assumptions))
        if np.any(read != "")
        else assumptions
    )
    answers = dict(zip(INTERVAL, numbers, strict=True))
    answers |= {"tier": np.where(good, estimated.tier, ""), "why": _cut(why), "reason": code_of(why)}
    answers["assumed"] = np.where(good, joined, "")
    if kind != "training_classic":
        answers["memory_bytes"] = np.where(good, estimated.memory_bytes, np.nan)
        answers["fits"] = np.where(good, estimated.fits, "")
    return answers


def _cut(why: np.ndarray) -> np.ndarray:
    """Return reasons on one line, of bounded length."""
    codes, levels = pd.factorize(why)
    short = [" ".join(str(level).split())[:MAX_REASON_LETTERS] for level in levels]
    return np.array(short, dtype=object)[codes]


def as_csv(answers: pd.DataFrame, header: bool = True) -> str:
    """Return answers as CSV text: six digits, blanks for missing values.

    Parameters
    ----------
    answers : pandas.DataFrame
        From `answer`.
    header : bool
        Whether to begin with the names of the columns.
    """
    columns = [
        _numbers(answers[name]) if answers[name].dtype.kind in "fiu" else _words(answers[name]) for name in answers
    ]
    lines = [",".join(answers)] if header else []
    lines += map(",".join, zip(*columns, strict=True))
    return "".join(f"{line}\n" for line in lines)


def _numbers(column: pd.Series) -> list[str]:
    return ["" if number != number else f"{number:.6g}" for number in column.to_numpy(dtype=float).tolist()]


def _words(column: pd.Series) -> list[str]:
    codes, levels = pd.factorize(column.to_numpy(dtype=object), use_na_sentinel=False)
    texts = [_cell("" if level is None or level != level else str(level)) for level in levels]
    return [texts[code] for code in codes.tolist()]


def _cell(text: str) -> str:
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text
