"""Strict readers of CSV files as text: the schema defines the content of a table, nothing is guessed.

A schema is a CSV file `data/schema/<table>.csv` with the columns `column,type,unit,required,description`. Types:

========================  =====================================================================
``key``                   name of the row, different in every row
``key:<table>``           name of a row of another table
``keys:<table>``          several of them, separated by semicolons
``text``, ``names``       words; several words or names separated by semicolons
``number``, ``integer``   not negative; `unit` is its unit, and reading converts it to SI
``signed``                a number that may be negative
``date``                  2024, 2024-Q3, 2024-09 or 2024-09-30
``choice:a|b|c``          one of these
``json``                  a JSON object
``unit``                  a unit, for a table whose values have different ones
========================  =====================================================================

`required` is yes, no, or ``with`` and the name of a column: required in every row where that one is stated.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from cookbook.catalog.refusals import NOT_READ, Refusal

from .. import units
from ..units import shown

# Letters of a name that are compared; no table has a longer name.
NAME_LETTERS = 80
# Most letters of a list of names in a refusal.
MAX_LISTED = 200
SAME_AS_HEADER = "save the file as UTF-8 text with commas, one line a row, and the header as the first line"


class CatalogError(ValueError):
    """Error for a cell or a line of a data file that violates its schema.

    Attributes
    ----------
    file, row, column, value, expected, remedy : str, int or None, str, str, str, str
        Location, content, expectation and remedy. `row` is the line number in the file.
    """

    def __init__(self, file: str, row: int | None, column: str, value: str, expected: str, remedy: str = "") -> None:
        self.file, self.row, self.column = file, row, column
        self.value, self.expected, self.remedy = value, expected, remedy
        place = ", ".join(filter(None, [file, f"row {row}" if row else "", f"column {column}" if column else ""]))
        shown = value if len(value) <= 80 else value[:77] + "..."
        super().__init__(f"{place}: found {shown!r}, expected {expected}{'. ' + remedy if remedy else ''}")


class UnknownName(KeyError):
    """Error for a name that no row has, with the nearest names.

    Attributes
    ----------
    kind, name, nearest : str, str, list of str
    what : str
        One row of the table, in words.
    plain : bool
        True if the message consists of the name and the nearest ones only.
    shared : bool
        True if the name is shared by all of `nearest`, and so identifies none of them.
    """

    def __init__(self, kind: str, name: str, nearest: list[str], message: str = "", shared: bool = False) -> None:
        self.kind, self.name, self.nearest, self.shared = kind, name, nearest, shared
        self.what, self.plain = _singular(kind.replace("_", " ")), not message and bool(nearest)
        self.message = message or (
            f"no {self.what} called {shown(name, 40)}; nearest names: {', '.join(nearest)}. "
            f'Write one of them, or list all with cb.table("{kind}")'
            if nearest
            else f"no {self.what} called {shown(name, 40)}, and none that is spelt alike; list all with "
            f'cb.table("{kind}")'
        )
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    @property
    def refusal(self) -> Refusal:
        """Return the error as data: the code of the table, the field that names its rows, the nearest names."""
        return Refusal(self.message, UNKNOWN_NAME_CODES.get(self.kind, NOT_READ), self.what, self.nearest)


# Codes of ``data/schema/reasons.csv`` for names that a table does not have.
UNKNOWN_NAME_CODES = {"accelerators": "accelerator-unknown", "models": "network-unknown"}


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
        """Return the number of rows, broken ones included."""
        return len(self.rows) + len(self.errors)

    def column(self, name: str) -> list[str]:
        """Return all cells of one column, in the order of the file."""
        position = self.header.index(name)
        return [row[position] for row in self.rows]

    def records(self) -> Iterator[dict[str, str]]:
        """Yield one dictionary per row."""
        for row in self.rows:
            yield dict(zip(self.header, row, strict=True))


@lru_cache(maxsize=1)
def data_directory() -> Path:
    """Return the folder of the data files: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "data", package.parent / "data"):
        if (candidate / "schema").is_dir():
            return candidate
    raise FileNotFoundError(f"no data directory with a schema folder in {package} or {package.parent}; reinstall")


def folder_of(directory: Any = None) -> Path:
    """Return the requested data directory, by default that of the package.

    Raises
    ------
    ValueError
        If it is not a path, or contains no schemas.
    """
    if directory is None:
        return data_directory()
    if not isinstance(directory, str | Path) or "\0" in str(directory) or len(str(directory).encode()) > 1000:
        raise ValueError(f"directory = {shown(directory)} must be the path of a folder with tables")
    if not (Path(directory) / "schema").is_dir():
        raise ValueError(f"directory = {shown(str(directory))} has no folder `schema`; give the folder with the tables")
    return Path(directory)


def read_text(path: Path) -> str:
    """Read a file; a byte-order mark and Windows line ends are tolerated, a truncated last line is not."""
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
                rows.append(tuple(map(str.strip, cells)))
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        remedy = "a quote is not closed or stands inside a cell: double it, or restore the end of the file"
        raise CatalogError(name, start, "", str(error), "well-formed CSV", remedy) from None
    return Raw(name, header, tuple(rows), tuple(lines), tuple(errors))


def check_header(name: str, cells: Sequence[str]) -> tuple[str, ...]:
    """Return the header, refused if a column has no name or occurs twice."""
    header = tuple(cell.strip() for cell in cells)
    for column in header:
        if not column or header.count(column) > 1:
            raise CatalogError(name, 1, column, ",".join(header), "column names that are all different", "rename it")
    return header


def wrong_count(name: str, line: int, cells: Sequence[str], header: Sequence[str]) -> CatalogError:
    """Return the error for a row with too few or too many cells."""
    few = len(cells) < len(header)
    column = header[len(cells)] if few else header[-1]
    remedy = (
        "the row is truncated: restore it, or write the missing commas"
        if few
        else 'a cell with a comma must be quoted: "a, b"'
    )
    return CatalogError(name, line, column, ",".join(cells), f"{len(header)} cells, not {len(cells)}", remedy)


def nearest(
    name: Any, known: Sequence[str], count: int = 1, alike: float = 0.0, letters: int = NAME_LETTERS
) -> list[str]:
    """Return the most similar of the known names; of a long name the first letters are compared.

    Parameters
    ----------
    name, known, count
        The name, the candidates, and the largest number of results.
    alike : float
        Smallest share of letters that agree, from 0 to 1.
    letters : int
        Number of letters of the name that are compared.

    Examples
    --------
    >>> nearest("globl_batch", ["unit", "global_batch"], alike=ALIKE), nearest("Run", ["unit"], alike=ALIKE)
    (['global_batch'], [])
    """
    return difflib.get_close_matches(str(name)[:letters], known, n=count, cutoff=alike)


def check_names(given: Iterable[Any], known: Sequence[str], what: str, noun: str = "argument") -> None:
    """Refuse the first name that is not known, with those that are, of many the nearest.

    Parameters
    ----------
    given, known
        Names that a caller gave, and all that there are.
    what, noun : str
        What has the names, and what they are of it, in words.

    Raises
    ------
    ValueError
        A name that is not known.

    Examples
    --------
    >>> check_names(["tp", "patience"], ("tp", "pp"), "layout", "axis")
    Traceback (most recent call last):
    ValueError: layout has no axis 'patience'; it has tp, pp
    """
    for name in given:
        if name not in known:
            listed = f"it has {', '.join(known)}"
            alike = f"nearest: {', '.join(nearest(name, known, 3))}"
            raise ValueError(f"{what} has no {noun} {shown(name)}; {listed if len(listed) <= MAX_LISTED else alike}")


def likeness(first: str, second: str) -> float:
    """Return the share of matching letters of two spellings, from 0 to 1; the order of arguments may matter.

    >>> likeness("resnet51", "resnet50")
    0.875
    """
    return difflib.SequenceMatcher(None, first, second).ratio()


# Share of matching letters from which a column may be a misspelling of another.
ALIKE = 0.7
SCHEMA_COLUMNS = ("column", "type", "unit", "required", "description")
PLAIN_TYPES = ("key", "text", "names", "number", "integer", "signed", "date", "json", "unit")
NUMERIC_TYPES = ("number", "integer", "signed")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
DATE = re.compile(r"\d{4}(-Q[1-4]|-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
KEY = re.compile(r"[^\s;,]+")
TABLES_WITHOUT_SOURCE = ("sources",)


@dataclass(frozen=True)
class Column:
    """One column of a schema."""

    name: str
    type: str
    unit: str
    required: bool
    description: str
    required_with: str = ""

    @property
    def numeric(self) -> bool:
        """Return True if the column contains numbers."""
        return self.type in NUMERIC_TYPES

    @property
    def refers_to(self) -> str:
        """Return the table that its keys belong to; empty if none."""
        kind, _, table = self.type.partition(":")
        return table if kind in ("key", "keys") else ""


@dataclass(frozen=True)
class Schema:
    """The columns of one table, in the order of its documentation."""

    table: str
    columns: tuple[Column, ...]

    @property
    def key(self) -> str:
        """Return the column that names the rows; empty if rows have no name."""
        return next((column.name for column in self.columns if column.type == "key"), "")

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def __contains__(self, name: str) -> bool:
        return any(column.name == name for column in self.columns)


@lru_cache(maxsize=128)
def schema(table: str, directory: Path) -> Schema:
    """Read and check the schema of a table.

    Raises
    ------
    CatalogError
        If a type or unit of the schema is unknown, or the table could not cite its sources.
    """
    raw = read(directory / "schema" / f"{table}.csv", f"data/schema/{table}.csv")
    for error in raw.errors:
        raise error
    if raw.header != SCHEMA_COLUMNS:
        raise CatalogError(raw.file, 1, "", ",".join(raw.header), ",".join(SCHEMA_COLUMNS), "write this header")
    columns = tuple(read_column(raw.file, line, record) for line, record in zip(raw.lines, raw.records(), strict=True))
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise CatalogError(raw.file, None, name, name, "each column once", "remove one of the rows")
    for other in filter(None, (column.required_with for column in columns)):
        if other not in names:
            raise CatalogError(raw.file, None, "required", f"with {other}", "a column of this schema", "name one")
    if table not in TABLES_WITHOUT_SOURCE and ("source" not in names or "how" not in names):
        expected = "the columns how and source"
        raise CatalogError(raw.file, None, "", ",".join(names), expected, "every row says how it is known and where")
    return Schema(table, columns)


def read_column(file: str, line: int, record: dict[str, str]) -> Column:
    """Check one row of a schema file."""
    kind, _, rest = record["type"].partition(":")
    if not (record["type"] in PLAIN_TYPES or (kind in ("key", "keys", "choice") and rest)):
        expected = ", ".join(PLAIN_TYPES) + ", key:<table>, keys:<table> or choice:a|b"
        raise CatalogError(file, line, "type", record["type"], expected, "correct the schema")
    needed, _, other = record["required"].partition(" ")
    if record["required"] not in ("yes", "no") and not (needed == "with" and other):
        expected = "yes, no, or with and another column"
        raise CatalogError(file, line, "required", record["required"], expected, "correct the schema")
    if record["unit"]:
        if record["type"] not in NUMERIC_TYPES:
            raise CatalogError(file, line, "unit", record["unit"], "blank, as the column holds no numbers")
        try:
            units.parse(record["unit"])
        except ValueError as error:
            raise CatalogError(file, line, "unit", record["unit"], "a known unit", str(error)) from None
    return Column(record["column"], record["type"], record["unit"], needed == "yes", record["description"], other)


def reader(column: Column, keys: frozenset[str]) -> Callable[[str], Any]:
    """Return the function that converts a cell of this column to a value, or raises ValueError with the expectation."""
    kind = column.type.partition(":")[0]
    if kind in NUMERIC_TYPES:
        return _number_reader(column)
    if kind == "choice":
        return _one_of(column.type.partition(":")[2].split("|"))
    if column.refers_to:
        return _reference(keys, column.refers_to, several=kind == "keys")
    return {"key": _key, "date": _date, "json": _json, "unit": _unit}.get(kind, str)


def _number_reader(column: Column) -> Callable[[str], float]:
    whole, signed, in_si = column.type == "integer", column.type == "signed", units.scale(column.unit) == 1
    expected = f"a {'whole ' if whole else ''}number{' in ' + column.unit if column.unit else ''}"
    expected += "" if signed else ", not negative"

    def read_number(cell: str) -> float:
        if not NUMBER.fullmatch(cell) or len(cell) > units.LONGEST_QUANTITY:
            raise ValueError(f"{expected}; write digits only, without unit or thousands separators")
        value = float(cell)
        if not value and cell.strip("-0.") and cell.strip("-0.")[0] not in "eE":
            raise ValueError(f"{expected}; this one is beyond any quantity")
        if not math.isfinite(value) or (value < 0 and not signed) or (whole and value != round(value)):
            raise ValueError(expected)
        return value if in_si else units.si(f"{cell} {column.unit}")

    return read_number


def _one_of(choices: list[str]) -> Callable[[str], str]:
    def read_choice(cell: str) -> str:
        if cell not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return cell

    return read_choice


def _reference(keys: frozenset[str], table: str, several: bool) -> Callable[[str], str]:
    def read_keys(cell: str) -> str:
        for key in cell.split(";") if several else [cell]:
            if key not in keys:
                suggestions = ", ".join(nearest(key, sorted(keys), 3)) or "none: the table is empty"
                raise ValueError(
                    f"a key of data/{table}.csv; {key!r} is not one (nearest: {suggestions}); add its row there"
                )
        return cell

    return read_keys


def _pattern(pattern: re.Pattern[str], expected: str) -> Callable[[str], str]:
    def read_text(cell: str) -> str:
        if not pattern.fullmatch(cell):
            raise ValueError(expected)
        return cell

    return read_text


_key = _pattern(KEY, "a name without spaces, commas and semicolons")
_date = _pattern(DATE, "a date such as 2024, 2024-Q3, 2024-09 or 2024-09-30")


def _unit(cell: str) -> str:
    units.parse(cell)
    return cell


def _json(cell: str) -> str:
    try:
        value = json.loads(cell)
    except json.JSONDecodeError as error:
        raise ValueError(f'a JSON object such as {{"depth": 50}} ({error})') from None
    if not isinstance(value, dict):
        raise ValueError('a JSON object such as {"depth": 50}')
    return cell


def header_errors(raw: Raw, columns: Schema) -> Iterator[CatalogError]:
    """Yield columns of the file that the schema does not know, and the reverse."""
    names = [column.name for column in columns.columns]
    for name in raw.header:
        if name not in names:
            remedy = f"nearest: {nearest(name, names)[0]}; rename it or describe it in data/schema/{columns.table}.csv"
            yield CatalogError(raw.file, 1, name, name, "a column of the schema", remedy)
    for name in names:
        if name not in raw.header:
            yield CatalogError(raw.file, 1, name, ",".join(raw.header), f"a column {name}", "add the column")


def read_columns(
    raw: Raw, columns: Schema, keys: dict[str, frozenset[str]]
) -> tuple[dict[str, list[Any]], list[CatalogError]]:
    """Read every cell by its schema: the values by column, in SI, and every error found."""
    values: dict[str, list[Any]] = {}
    errors = [*raw.errors, *header_errors(raw, columns)]
    for column in columns.columns:
        if column.name in raw.header:
            values[column.name], column_errors = _read_column(raw, column, keys.get(column.refers_to, frozenset()))
            errors += column_errors
    return values, errors


def _read_column(raw: Raw, column: Column, keys: frozenset[str]) -> tuple[list[Any], list[CatalogError]]:
    read_cell, cells = reader(column, keys), raw.column(column.name)
    missing: Any = math.nan if column.numeric else ""
    values, wrong = {"": missing}, dict[str, str]()
    for cell in filter(None, dict.fromkeys(cells)):  # most cells occur in many rows
        try:
            values[cell] = read_cell(cell)
        except ValueError as error:
            values[cell], wrong[cell] = missing, str(error)
    if column.required:
        wrong[""] = f"a value: {column.description or column.name}"
    found = [(line, cell, wrong[cell]) for line, cell in zip(raw.lines, cells, strict=True) if cell in wrong]
    if column.required_with in raw.header:
        expected = f"a value, as {column.required_with} is stated: {column.description}"
        stated = raw.column(column.required_with)
        others = zip(raw.lines, cells, stated, strict=True)
        found += [(line, cell, expected) for line, cell, other in others if other and not cell]
    if column.type == "key":
        told, first_lines = {line for line, *_ in found}, dict[str, int]()
        for line, cell in zip(raw.lines, cells, strict=True):
            if first_lines.setdefault(cell, line) != line and line not in told:
                found.append((line, cell, f"a name of its own: row {first_lines[cell]} has it too"))
    found.sort(key=itemgetter(0))
    errors = [CatalogError(raw.file, line, column.name, cell, expected) for line, cell, expected in found]
    return list(map(values.__getitem__, cells)), errors
