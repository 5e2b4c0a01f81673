"""Reads a reader's own table of scenarios, however it was saved: nothing in it may stop a prediction of the rest."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = (",", ";", "\t", "|")
MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
LONGEST_CELL = 1 << 24


@dataclass(frozen=True, eq=False)
class Intake:
    """A table as text, and what is wrong with single rows.

    Attributes
    ----------
    frame : pandas.DataFrame
        All cells as text, blank where the row has none.
    why : list of str
        For each row, why it cannot be read as meant; "" where it can.
    """

    frame: pd.DataFrame
    why: list[str]


def read_scenarios(path: str | Path) -> Intake:
    """Read a CSV file as text: any of the usual encodings, line ends, delimiters and ways of quoting.

    A row with fewer or more cells than the header is kept, with the reason that it cannot be trusted; an empty file
    has no rows.

    Parameters
    ----------
    path : str or Path
        The file.
    """
    import pandas as pd

    lines = _lines(_text(Path(path).read_bytes()))
    header = [cell.strip() for cell in lines[0]] if lines else []
    twice = sorted({name for name in header if name and header.count(name) > 1})
    rows, why = [], []
    for cells in lines[1:]:
        problem = ""
        if twice:
            problem = f"the header has the column {twice[0]} twice: remove one"
        elif len(cells) != len(header):
            problem = f"the row has {len(cells)} cells, the header {len(header)}: quote cells that hold a comma"
        why.append(problem)
        rows.append([_plain(cell) for cell in (cells + [""] * len(header))[: len(header)]])
    keep = [at for at, name in enumerate(header) if name and name not in header[:at]]
    columns = {header[at]: [row[at] for row in rows] for at in keep}
    return Intake(pd.DataFrame(columns, index=range(len(rows)), dtype=object), why)


def _text(content: bytes) -> str:
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "")
    for attempt in (encoding, "utf-8", "cp1252"):
        try:
            return content.decode(attempt).replace("\0", "") if attempt else _refuse()
        except UnicodeError:
            continue
    return content.decode("utf-8", errors="replace").replace("\0", "")


def _refuse() -> str:
    raise UnicodeError


def _lines(text: str) -> list[list[str]]:
    csv.field_size_limit(LONGEST_CELL)
    first = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=first.count)
    try:
        found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        found = [line.split(delimiter) for line in text.splitlines()]
    return [cells for cells in found if any(cell.strip() for cell in cells)]


def _plain(cell: str) -> str:
    """A cell without the ="..." by which spreadsheets keep text as text, and without space around it."""
    cell = cell.strip().replace("\u00a0", " ")
    return cell[2:-1] if cell.startswith('="') and cell.endswith('"') else cell


def read_blocks(path: str | Path, rows: int = 200_000) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """A CSV file as frames of text, block by block, with what is wrong with single rows."""
    taken = read_scenarios(path)
    for at in range(0, len(taken.frame), rows):
        yield taken.frame.iloc[at : at + rows].reset_index(drop=True), taken.why[at : at + rows]
