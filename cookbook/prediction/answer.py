"""Answers a reader's table of scenarios row by row: a number with its interval, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.catalog.reading import nearest
from cookbook.prediction.engine import Estimate, estimate, reasons_of
from cookbook.prediction.intake import columns, networks, tables
from cookbook.prediction.intake.columns import levels_of
from cookbook.prediction.intake.reading import read_blocks
from cookbook.prediction.scenario import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

COLUMNS = ("id", "predicted", "unit", "low80", "high80", "low90", "high90", "tier", "why", "assumed")
MEMORY_COLUMNS = ("memory_bytes", "fits")
INTERVAL = ("predicted", "low80", "high80", "low90", "high90")
WORDS = ("id", "unit", "tier", "why", "reason", "assumed", "fits")
# Columns of storage rows in the spelling of reports.
STORAGE_SPELLINGS = (
    "device_or_system", "accelerator_count", "cpu_cores", "emulated_or_real", "notes", "system", "storage", "unit",
    "metric", "cpu", "cpu_count", "workers",
)  # fmt: skip
MODELLED = ("training_classic", "training_transformer", "inference")
ASKED = (*MODELLED, "storage")
LONGEST_WHY = 300


def more_columns(kind: str) -> tuple[str, ...]:
    """Columns of answers of one kind beyond `COLUMNS`."""
    if kind == "storage":
        from cookbook.prediction.storage import COLUMNS as STORAGE_COLUMNS

        return tuple(name for name in STORAGE_COLUMNS if name not in COLUMNS)
    return ("reason", *MEMORY_COLUMNS) if kind != "training_classic" else ("reason",)


def answer_blocks(path: str | Path, kind: str, neighbours: bool = True) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Predict every row of a CSV file of any usual encoding, block by block: rows as read, and their answers."""
    for frame, why in read_blocks(path):
        yield frame, answer(frame, kind, neighbours, why)


def answer_file(path: str | Path, kind: str, neighbours: bool = True) -> pd.DataFrame:
    """Predict every row of a CSV file as one table; see `answer_blocks`."""
    import pandas as pd

    blocks = [found for _, found in answer_blocks(path, kind, neighbours)]
    return pd.concat(blocks, ignore_index=True) if blocks else answer(pd.DataFrame(), kind)


def unknown_columns(kind: str, headers: Iterable[str]) -> list[str]:
    """Sentences about columns that no field is read from, each with the nearest that is."""
    if kind == "storage":
        known = [*catalog.table("storage_measured"), *STORAGE_SPELLINGS]
        lost = [(each, nearest(each[:60], known, 1)[0]) for each in headers if columns.normal(each) not in
                {columns.normal(name) for name in known} | columns.IGNORED]  # fmt: skip
    else:
        lost = columns.unknown(kind, list(headers))
    return [f"column {header[:60]!r} is not known and was not read; nearest: {near}" for header, near in lost]


def answer(frame: pd.DataFrame, kind: str, neighbours: bool = True, why: Any = None) -> pd.DataFrame:
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

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS` and those of `more_columns`; numbers are NaN where there is no prediction.
    """
    if kind not in ASKED:
        raise ValueError(f"kind = {kind!r} is not known; take one of {', '.join(ASKED)}")
    frame = frame.reset_index(drop=True)
    known = np.full(len(frame), "", dtype=object) if why is None else np.asarray(why, dtype=object)
    if kind == "storage":
        found = _storage(frame, known)
    else:
        asked = tables.read(kind, frame, known)
        parts = tables.split(asked) if kind == "inference" else [(np.arange(len(frame)), asked)]
        found = _joined(kind, frame, [(at, part, estimate(part, neighbours)) for at, part in parts])
    ids = levels_of(frame["id"]).each(str, object) if "id" in frame else np.full(len(frame), "", dtype=object)
    return found.assign(id=ids)[[*COLUMNS, *more_columns(kind)]]


def _storage(frame: pd.DataFrame, known: np.ndarray) -> pd.DataFrame:
    from cookbook.prediction.storage import storage_table

    found = storage_table(tables.without_outcomes(frame))
    bad = known != ""
    if bad.any():
        numbers = [name for name in found if name not in WORDS]
        found.loc[bad, numbers] = np.nan
        found.loc[bad, "tier"], found.loc[bad, "why"] = "", known[bad]
    return found.assign(assumed=found.get("assumed", ""))


def _joined(kind: str, frame: pd.DataFrame, parts: list[tuple[np.ndarray, Scenario, Estimate]]) -> pd.DataFrame:
    import pandas as pd

    size = len(frame)
    found: dict[str, Any] = {name: np.full(size, np.nan) for name in (*INTERVAL, "memory_bytes")}
    found |= {name: np.full(size, "", dtype=object) for name in ("tier", "why", "reason", "assumed", "fits")}
    scale = np.full(size, np.nan)
    found["unit"] = _units(kind, frame, scale)
    for at, part, estimated in parts:
        for name, values in _told(kind, part, estimated, scale[at]).items():
            found[name][at] = values
    return pd.DataFrame(found)


def _units(kind: str, frame: pd.DataFrame, scale: np.ndarray) -> np.ndarray:
    """Unit of each row as it was asked for; `scale` gets the seconds in the unit of a delay."""
    if kind == "training_transformer":
        return np.full(len(frame), "s", dtype=object)
    cells = columns.Columns(kind, frame)
    name = "unit" if kind == "training_classic" or "metric" not in cells else "metric"
    asked = cells.text(name)
    if kind == "inference":
        scale[:] = asked.each(lambda cell: networks.metric_of(cell).seconds)
    return np.array(np.broadcast_to(asked.each(lambda cell: cell or "samples/s", object), (len(frame),)))


def _told(kind: str, part: Scenario, found: Estimate, scale: np.ndarray) -> dict[str, Any]:
    seconds = np.stack([found.point, found.low80, found.high80, found.low90, found.high90])
    if kind == "training_transformer":
        numbers = seconds
    else:
        with np.errstate(all="ignore"):
            # A rate falls where the time rises; a delay is a time in its unit.
            rates = found.rate / (seconds / found.point)[[0, 2, 1, 4, 3]]
            numbers = np.where(np.isfinite(scale), seconds / scale, rates)
    good = np.isfinite(numbers).all(axis=0) & (numbers > 0).all(axis=0)
    if not good.all():
        numbers = np.where(good, numbers, np.nan)
    why = np.asarray(found.why, dtype=object)
    why = np.where((why == "") & ~good, "the formulas give no finite number for this row: check its sizes", why)
    said, read = np.asarray(found.assumed, dtype=object), part.read.each(str, object)
    joined = np.where(read == "", said, np.where(said == "", read, read + "; " + said)) if np.any(read != "") else said
    told = dict(zip(INTERVAL, numbers, strict=True))
    told |= {"tier": np.where(good, found.tier, ""), "why": _cut(why), "reason": reasons_of(why)}
    told["assumed"] = np.where(good, joined, "")
    if kind != "training_classic":
        told["memory_bytes"] = np.where(good, found.memory_bytes, np.nan)
        told["fits"] = np.where(good, found.fits, "")
    return told


def _cut(why: np.ndarray) -> np.ndarray:
    """Reasons on one line, of bounded length."""
    import pandas as pd

    codes, levels = pd.factorize(why)
    short = [" ".join(str(level).split())[:LONGEST_WHY] for level in levels]
    return np.array(short, dtype=object)[codes]


def as_csv(found: pd.DataFrame, header: bool = True) -> str:
    """Answers as CSV text: six digits, blanks for what is not known.

    Parameters
    ----------
    found : pandas.DataFrame
        From `answer`.
    header : bool
        Whether to begin with the names of the columns.
    """
    names = list(found)
    head = ",".join(names) + "\n" if header else ""
    if not len(found):
        return head
    cells: list[Any] = []
    for name in names:
        column = found[name]
        text = column.dtype.kind not in "fiu"
        cells.append(_quoted(column) if text else _digits(column.to_numpy(dtype=float)))
    return head + "\n".join(map(",".join, zip(*cells, strict=True))) + "\n"


def _digits(numbers: np.ndarray) -> list[str]:
    """Numbers with six digits, a blank for NaN; many at a time, since each call of a format costs."""
    texts = ("%.6g\n" * len(numbers) % tuple(numbers.tolist())).split("\n")[:-1]
    return [("" if each == "nan" else each) for each in texts] if np.isnan(numbers).any() else texts


def _quoted(column: pd.Series) -> list[str]:
    import pandas as pd

    codes, levels = pd.factorize(column.to_numpy(dtype=object), use_na_sentinel=False)
    plain = [_cell("" if level is None or level != level else str(level)) for level in levels]
    return [plain[code] for code in codes.tolist()]


def _cell(text: str) -> str:
    if any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


__all__ = ["ASKED", "COLUMNS", "answer", "answer_blocks", "answer_file", "as_csv", "more_columns", "unknown_columns"]
