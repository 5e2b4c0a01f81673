"""Provenance of values: sources and statements; row counts of the tables, and a page written from their schemas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cookbook.catalog.fields import Field, checked
from cookbook.catalog.refusals import refused

from .. import units
from .files import write_csv
from .names import CACHED, ambiguous, lookup
from .reading import NUMBER, CatalogError, Column, folder_of, nearest, read, schema
from .tables import TABLE_LIST, TABLE_LIST_PATH, contents, frame, keys, raw, records, row_counts, table_names

OPTIONAL_PROVENANCE = ("launch_date", "memory_type", "host_link", "device_link", "scale_up_domain", "process_nm")


@dataclass(frozen=True, repr=False)
class Statement:
    """The statement of one source: the value in SI with its unit, how it is known, and its location."""

    value: float | str
    unit: str
    source: str
    how: str
    locator: str = ""
    note: str = ""

    def __repr__(self) -> str:
        unit = "iB" if self.unit == "B" else self.unit
        shown = units.human(self.value, unit) if isinstance(self.value, float) else self.value
        return f"{shown} ({'; '.join(filter(None, [self.how, self.source, self.locator, self.note]))})"


@dataclass(frozen=True, repr=False)
class Provenance(Statement):
    """The value that a table uses, with the alternatives that other sources state and those found wrong."""

    alternatives: tuple[Statement, ...] = ()
    rejected: tuple[Statement, ...] = ()

    def __repr__(self) -> str:
        lines = [super().__repr__()]
        lines += [f"  alternative: {statement}" for statement in self.alternatives]
        lines += [f"  rejected: {statement}" for statement in self.rejected]
        return "\n".join(lines)


def cite(source: str, directory: str | Path | None = None) -> str:
    """Return one line for a source (or several keys separated by semicolons): title, address, licence.

    Parameters
    ----------
    source : str
        Key in sources, or several separated by semicolons.
    directory : str or Path, optional
        Another data directory, its schema folder included.

    Raises
    ------
    UnknownName
        If there is no such source.
    ValueError
        If `source` is not text.

    Examples
    --------
    >>> cite("kingma-2014-adam").split(",")[0]
    'Kingma and Ba'
    """
    folder = folder_of(directory)
    if not isinstance(source, str):
        raise refused("source", source, "must be text: keys of sources, separated by semicolons")
    return " | ".join(_cite(lookup("sources", key, folder), folder) for key in source.split(";"))


def _cite(key: str, folder: Path) -> str:
    row = next(row for row in raw("sources", folder).records() if row["key"] == key)
    reading = {"no": "recalled, not opened", "copy": "read in a copy"}.get(row["seen"], "")
    return ". ".join(filter(None, [row["title"], row["url"], row["licence"], reading]))


@lru_cache(maxsize=8)
def _provenance_rows(directory: Path) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Return all rows of accelerator_provenance by accelerator and field, as text: few of them are ever needed."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in raw("accelerator_provenance", directory).records():
        rows.setdefault((row["accelerator"], row["field"]), []).append(row)
    return rows


@lru_cache(maxsize=4096)
def statements(directory: Path, accelerator: str, field: str) -> tuple[tuple[str, Statement], ...]:
    """Return the statements on one value of an accelerator, each with its status."""
    return tuple(
        (
            row["status"],
            Statement(*_si(field, row["value"], row["unit"]), row["source"], row["how"], row["locator"], row["note"]),
        )
        for row in _provenance_rows(directory).get((accelerator, field), ())
    )


def _si(field: str, value: str, unit: str) -> tuple[float | str, str]:
    if unit:
        return units.si(f"{value} {unit}"), units.si_unit(unit)
    if field not in OPTIONAL_PROVENANCE and NUMBER.fullmatch(value):
        return float(value), ""
    return value, ""


@checked(
    key=Field.text(1000, give="a key of the table, as text"),
    field=Field.text(1000, give="a column of the table, as text"),
    kind=Field.text(1000, give="the name of a table"),
    directory=Field.record(str, Path, what="folder", give="a path, or leave it out"),
)
def provenance(key: str, field: str, kind: str = "accelerators", directory: str | Path | None = None) -> Provenance:
    """Return the provenance of one value.

    Parameters
    ----------
    key : str
        Row, by any spelling that `lookup` accepts.
    field : str
        Column of the table.
    kind : str
        Table; accelerators have a source for each value, other tables one for each row.
    directory : str or Path, optional
        Another data directory, its schema folder included.

    Raises
    ------
    UnknownName
        If there is no such row.
    ValueError
        If there is no such column, or the row leaves it blank.

    Examples
    --------
    >>> provenance("h100-sxm", "mem_bandwidth").value
    3350000000000.0
    """
    folder = folder_of(directory)
    name, names = lookup(kind, key, folder), [column.name for column in schema(kind, folder).columns]
    if field not in names:
        close = ", ".join(nearest(field, names, 3))
        raise refused("field", field, f"; {kind} has no such column. Nearest: {close}")
    stated = statements(folder, name, field) if kind == "accelerators" else ()
    used = next((statement for status, statement in stated if status == "used"), None)
    used = used or _row_statement(name, field, kind, folder)
    others = {
        group: tuple(statement for status, statement in stated if status == group)
        for group in ("alternative", "rejected")
    }
    if used is None and not stated:
        raise ValueError(f"field = {field!r}; {name} has no figure for it in data/{kind}.csv")
    used = used or Statement("", "", "", "")
    return Provenance(**vars(used), alternatives=others["alternative"], rejected=others["rejected"])


def _row_statement(name: str, field: str, kind: str, folder: Path) -> Statement | None:
    values, errors = contents(kind, folder)
    for error in errors:
        raise error
    row, column = values[schema(kind, folder).key].index(name), schema(kind, folder)[field]
    value = values[field][row]
    if _is_missing(value):
        return None
    how = values["how"][row] if "how" in values else "seen"
    source = values["source"][row] if "source" in values else name
    return Statement(value, units.si_unit(column.unit) if column.unit else "", source, how)


def provenance_errors(directory: Path) -> Iterator[CatalogError]:
    """Yield values of accelerators without a `used` provenance row of equal value, and the reverse."""
    values, _ = contents("accelerators", directory)
    stated, file = _provenance_rows(directory), raw("accelerators", directory)
    fields = sorted({field for _, field in stated})
    for field in fields:
        if field not in values:
            expected = "a column of accelerators"
            yield CatalogError("data/accelerator_provenance.csv", None, "field", field, expected)
            continue
        for line, key, value in zip(file.lines, values["key"], values[field], strict=True):
            used_values = [s.value for status, s in statements(directory, key, field) if status == "used"]
            table_values = [] if _is_missing(value) else [value]
            if list(map(_as_number, used_values)) != list(map(_as_number, table_values)):
                expectation = f"one row with status used for {key}, value {table_values or 'blank'}"
                yield CatalogError(
                    file.file, line, field, str(used_values), expectation, "correct one of the two tables"
                )


def _is_missing(value: float | str) -> bool:
    return value == "" or (isinstance(value, float) and math.isnan(value))


def _as_number(value: float | str) -> float | str:
    """Return the number for a number written as text; other values are returned as they are."""
    return float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value


def validate_all(directory: str | Path | None = None) -> list[CatalogError]:
    """Check every table against its schema, and the tables against each other.

    Parameters
    ----------
    directory : str or Path, optional
        Another data directory, its schema folder included.

    Returns
    -------
    list of CatalogError
        Every problem found; empty if the catalogue is valid.
    """
    folder, errors = folder_of(directory), list[CatalogError]()
    for name in table_names(folder):
        try:
            errors += contents(name, folder)[1]
            if schema(name, folder).key:
                errors += ambiguous(name, folder)
        except CatalogError as error:
            if str(error) not in map(str, errors):
                errors.append(error)
    if not errors and "accelerator_provenance" in table_names(folder):
        errors += provenance_errors(folder)
    return errors


INTRODUCTION = """# Facts

This file is written from the schemas by `python -m cookbook dev data-readme`; do not edit it by hand.

Each table is one CSV file with a schema in `schema/`: the columns, their types and units, and whether a cell may be
blank. Blank means that no figure is known. Reading converts every number to SI (B, B/s, FLOP/s, W, s, USD), so the unit
below is the unit in the file. One multiply-accumulate (MAC) is two FLOP. Peaks are dense: no structured sparsity.

Each row cites keys of `sources.csv` in `source` and says in `how` how its figures are known:

| how | meaning |
|---|---|
| datasheet | the maker of the thing states it, in its own document or a copy of it |
| seen | read at the cited source, which is not the maker's |
| measured | the result of a run that the source describes |
| derived | computed from other figures; the note, the locator or `derived_fields` say which |
| estimated | the source itself calls it an estimate |
| recalled | written down from memory: nobody opened the source, so check it before relying on it |
| mixed | some figures of the row are recalled: `recalled_fields` names them |

Models have their own words: verified, parameters only, unverified.

A test fails if a row has no source, a key leads nowhere, a figure of an accelerator differs from its row in
`accelerator_provenance.csv`, or a recalled figure is not named in `recalled_fields`.

## Types

| type | a cell holds |
|---|---|
| key | the name of the row, different in every row |
| key:table, keys:table | the name of a row of that table; several, separated by semicolons |
| text, names | words; several, separated by semicolons |
| number, integer | digits, not negative; no unit and no thousands separators |
| signed | a number that may be negative |
| date | 2024, 2024-Q3, 2024-09 or 2024-09-30 |
| choice | one of the words listed |
| json | a JSON object |
| unit | a unit, where values of one column have different ones |
"""


def count_rows(directory: str | Path | None = None) -> dict[str, tuple[str, int]]:
    """Count the rows of every table and note them in `data/schema/_tables.csv`.

    Parameters
    ----------
    directory : str or Path, optional
        Another data directory, its schema folder included.

    Returns
    -------
    dict of str to (str, int)
        The earlier and the present number of rows, for the tables where they differ.
    """
    folder, changed = folder_of(directory), dict[str, tuple[str, int]]()
    path = folder / "schema" / TABLE_LIST
    counts = [{"rows": "", **row} for row in read(path, TABLE_LIST_PATH).records()]
    for row in counts:
        before, rows = row["rows"], len(read(folder / f"{row['table']}.csv"))
        if before != str(rows):
            changed[row["table"]], row["rows"] = (before, rows), str(rows)
    if changed:
        write_csv(path, ("table", "rows", "description"), counts)
    for cached in (schema, raw, row_counts, keys, contents, frame, records, statements, *CACHED):
        cached.cache_clear()
    return changed


def describe_tables(directory: str | Path | None = None) -> str:
    """Return Markdown that documents every table and column.

    `data/README.md` is this text; `directory` may name another.
    """
    folder = folder_of(directory)
    descriptions = {row["table"]: row["description"] for row in read(folder / "schema" / TABLE_LIST).records()}
    parts = [INTRODUCTION]
    for name in table_names(folder):
        lines = [f"\n## {name}.csv\n", descriptions.get(name, ""), "", "| column | type | unit | required | meaning |"]
        lines += ["|---|---|---|---|---|"]
        lines += [_line(column) for column in schema(name, folder).columns]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _line(column: Column) -> str:
    kind = column.type
    if kind.startswith("choice:"):
        kind = ", ".join(kind.removeprefix("choice:").split("|"))
    cells = (
        f"`{column.name}`",
        kind,
        column.unit,
        "yes" if column.required else column.required_with and f"with {column.required_with}",
        column.description,
    )
    return "| " + " | ".join(cells) + " |"
