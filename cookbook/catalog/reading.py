"""Reads CSV files as text, strictly: what a table holds is decided by its schema, never guessed."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..units import shown

# A name is compared by so many of its letters; no table has a longer one.
NAME_LETTERS = 80
SAME_AS_HEADER = "save the file as UTF-8 text with commas, one line a row, and the header as the first line"


class CatalogError(ValueError):
    """A cell or a line of a data file that breaks its schema.

    Attributes
    ----------
    file, row, column, value, expected, remedy : str, int or None, str, str, str, str
        Where it is, what stands there, what should, and what to do. `row` is the line number in the file.
    """

    def __init__(self, file: str, row: int | None, column: str, value: str, expected: str, remedy: str = "") -> None:
        self.file, self.row, self.column = file, row, column
        self.value, self.expected, self.remedy = value, expected, remedy
        place = ", ".join(filter(None, [file, f"row {row}" if row else "", f"column {column}" if column else ""]))
        shown = value if len(value) <= 80 else value[:77] + "..."
        super().__init__(f"{place}: found {shown!r}, expected {expected}{'. ' + remedy if remedy else ''}")


class UnknownName(KeyError):
    """A name that no row has; carries the nearest names.

    Attributes
    ----------
    kind, name, nearest : str, str, list of str
    what : str
        One row of the table, in words.
    shared : bool
        Whether the name stands for all of `nearest`, and so for none of them alone.
    """

    def __init__(self, kind: str, name: str, nearest: list[str], message: str = "", shared: bool = False) -> None:
        self.kind, self.name, self.nearest, self.shared = kind, name, nearest, shared
        self.what = _singular(kind.replace("_", " "))
        self.message = message or (
            f"no {self.what} called {shown(name, 40)}; nearest names: {', '.join(nearest) or 'none'}. "
            f'Write one of them, or list all with cb.table("{kind}")'
        )
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


def _singular(words: str) -> str:
    return f"{words[:-3]}y" if words.endswith("ies") else words.removesuffix("s")


@dataclass(frozen=True)
class Raw:
    """A CSV file as text: its name, header, cells by row, and the line on which each row starts."""

    file: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    errors: tuple[CatalogError, ...] = ()

    def __len__(self) -> int:
        """Number of rows, broken ones included."""
        return len(self.rows) + len(self.errors)

    def column(self, name: str) -> list[str]:
        """All cells of one column, in the order of the file."""
        position = self.header.index(name)
        return [row[position] for row in self.rows]

    def records(self) -> Iterator[dict[str, str]]:
        """One dictionary a row."""
        for row in self.rows:
            yield dict(zip(self.header, row, strict=True))


@lru_cache(maxsize=1)
def data_directory() -> Path:
    """Where the data files are: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "data", package.parent / "data"):
        if (candidate / "schema").is_dir():
            return candidate
    raise FileNotFoundError(f"no data directory with a schema folder in {package} or {package.parent}; reinstall")


def folder_of(directory: Any = None) -> Path:
    """The data directory that is asked for, by default that of the package.

    Raises
    ------
    ValueError
        If it is no path, or holds no schemas.
    """
    if directory is None:
        return data_directory()
    if not isinstance(directory, str | Path) or "\0" in str(directory) or len(str(directory).encode()) > 1000:
        raise ValueError(f"directory = {shown(directory)} must be the path of a folder with tables")
    if not (Path(directory) / "schema").is_dir():
        raise ValueError(f"directory = {shown(str(directory))} has no folder `schema`; give the folder with the tables")
    return Path(directory)


def read_text(path: Path) -> str:
    """The whole file; a byte-order mark and Windows line ends are tolerated, a cut-off last line is not."""
    name = f"data/{path.name}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise CatalogError(name, None, "", str(path), "a file", "restore it or reinstall the package") from None
    except UnicodeDecodeError as error:
        raise CatalogError(name, None, "", str(error), "UTF-8 text", SAME_AS_HEADER) from None
    if not text.strip():
        raise CatalogError(name, None, "", text[:20], "a header line", SAME_AS_HEADER)
    if not text.endswith("\n"):
        tail = text.rsplit("\n", 1)[-1]
        line = text.count("\n") + 1
        remedy = "the file may be truncated: restore its end, or end the last line with a newline"
        raise CatalogError(name, line, "", tail, "a complete last line", remedy)
    return text


def read(path: Path, label: str | None = None) -> Raw:
    """Read a CSV file as text.

    Rows with too few or too many cells are left out and reported in `errors`.

    Raises
    ------
    CatalogError
        If the file is missing, empty, not UTF-8, cut off, or not CSV.
    """
    name = label or f"data/{path.name}"
    header: tuple[str, ...] = ()
    rows, lines, errors = [], [], []
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    start = 1
    try:
        for cells in reader:
            if not header:
                header = check_header(name, cells)
            elif len(cells) != len(header) and cells:
                errors.append(wrong_count(name, start, cells, header))
            elif cells:
                rows.append(tuple(cell.strip() for cell in cells))
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        remedy = "a quote is not closed or stands inside a cell: double it, or restore the end of the file"
        raise CatalogError(name, start, "", str(error), "well-formed CSV", remedy) from None
    return Raw(name, header, tuple(rows), tuple(lines), tuple(errors))


def check_header(name: str, cells: Sequence[str]) -> tuple[str, ...]:
    """The header, refused if a column has no name or stands twice."""
    header = tuple(cell.strip() for cell in cells)
    for column in header:
        if not column or header.count(column) > 1:
            raise CatalogError(name, 1, column, ",".join(header), "column names that are all different", "rename it")
    return header


def wrong_count(name: str, line: int, cells: Sequence[str], header: Sequence[str]) -> CatalogError:
    """The error for a row with too few or too many cells."""
    few = len(cells) < len(header)
    column = header[len(cells)] if few else header[-1]
    remedy = (
        "the row is truncated: restore it, or write the missing commas"
        if few
        else 'a cell with a comma must be quoted: "a, b"'
    )
    return CatalogError(name, line, column, ",".join(cells), f"{len(header)} cells, not {len(cells)}", remedy)


def nearest(name: Any, known: Sequence[str], count: int = 1) -> list[str]:
    """The most similar of the known names; of a long name the first letters are compared."""
    return difflib.get_close_matches(str(name)[:NAME_LETTERS], known, n=count, cutoff=0.0)
