"""Tables: schema, cells and rules across cells, joined and returned as frames in SI."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from cookbook.catalog.fields import Field, checked

from ..units import shown, si
from .reading import CatalogError, Raw, Schema, UnknownName, folder_of, nearest, read, read_columns, schema

# Schemas of requests and of reasons for refusals: no tables of facts.
SCHEMAS_ALONE = ("scenario", "reasons")
TABLE_LIST = "_tables.csv"
TABLE_LIST_PATH = f"data/schema/{TABLE_LIST}"
RECALLED = ("recalled", "mixed")


def table_names(directory: Path | None = None) -> list[str]:
    """Return the names of all tables: one per schema."""
    schemas = (folder_of(directory) / "schema").glob("*.csv")
    return sorted(path.stem for path in schemas if not path.stem.startswith("_") and path.stem not in SCHEMAS_ALONE)


@lru_cache(maxsize=128)
def raw(name: str, directory: Path) -> Raw:
    """Return the file of a table as text, cached; refused if rows are missing."""
    file, noted = read(directory / f"{name}.csv"), row_counts(directory).get(name)
    if not len(file):
        remedy = "the file may be truncated: restore its rows; a table without rows is no table"
        raise CatalogError(file.file, None, "", "a header alone", "at least one row", remedy)
    if noted is not None and len(file) != noted:
        remedy = (
            "If you added or removed rows, run `make data-readme` (python -m cookbook dev data-readme), which counts "
            "them anew; if not, the file is truncated: restore it"
        )
        raise CatalogError(file.file, None, "", f"{len(file)} rows", f"{noted}, as noted in {TABLE_LIST_PATH}", remedy)
    return file


@lru_cache(maxsize=8)
def row_counts(directory: Path) -> dict[str, int]:
    """Return the rows that each table had when last counted; empty where nothing was counted.

    Raises
    ------
    CatalogError
        If a count is not an integer.
    """
    path, counts = directory / "schema" / TABLE_LIST, dict[str, int]()
    file = read(path, TABLE_LIST_PATH) if path.exists() else None
    for line, row in zip(file.lines, file.records(), strict=True) if file else ():
        if not row.get("rows", "").isdecimal():
            expected = "a whole number of rows"
            raise CatalogError(TABLE_LIST_PATH, line, "rows", row.get("rows", ""), expected, "run `make data-readme`")
        counts[row["table"]] = int(row["rows"])
    return counts


@lru_cache(maxsize=128)
def keys(name: str, directory: Path) -> frozenset[str]:
    """Return the names of the rows of a table."""
    column = schema(name, directory).key
    file = raw(name, directory)
    return frozenset(file.column(column)) if column in file.header else frozenset()


@lru_cache(maxsize=128)
def contents(name: str, directory: Path) -> tuple[dict[str, list[Any]], tuple[CatalogError, ...]]:
    """Return all values of a table by column, in SI, and every error in it."""
    columns, file = schema(name, directory), raw(name, directory)
    others = {column.refers_to for column in columns.columns if column.refers_to}
    values, errors = read_columns(file, columns, {other: keys(other, directory) for other in others})
    if not errors:
        errors = list(recalled_errors(file, columns, unseen_sources(directory)))
    return values, tuple(sorted(errors, key=lambda error: error.row or 0))


def unseen_sources(directory: Path) -> frozenset[str]:
    """Return the sources that nobody opened: values from them count as recalled."""
    file = raw("sources", directory)
    return frozenset(row["key"] for row in file.records() if row.get("seen") == "no")


def recalled_errors(file: Raw, columns: Schema, unseen: frozenset[str]) -> Iterator[CatalogError]:
    """Yield rows with a recalled value that recalled_fields does not name."""
    if "recalled_fields" not in columns:
        yield from recalled_elsewhere(file, columns, unseen)
        return
    for line, row in zip(file.lines, file.records(), strict=True):
        fields, how = row["recalled_fields"], row["how"]
        sources = row["source"].split(";")
        if how in RECALLED and not (fields or row.get("derived_fields")):
            expected = f"the columns that are recalled, as how is {how}"
            yield CatalogError(file.file, line, "recalled_fields", "", expected)
        elif fields and how not in RECALLED:
            yield CatalogError(file.file, line, "how", how, "recalled or mixed, as recalled_fields names columns")
        elif how == "recalled" and not unseen & set(sources):
            yield CatalogError(file.file, line, "source", row["source"], "a source with seen = no, as how is recalled")
        elif unseen & set(sources) and how not in RECALLED:
            yield CatalogError(file.file, line, "how", how, "recalled or mixed, as a source was not opened")
        for field in filter(None, fields.split(";")):
            if field not in columns and field != "all":
                suggestion = nearest(field, [column.name for column in columns.columns], 1)[0]
                yield CatalogError(
                    file.file, line, "recalled_fields", field, f"a column, or all; nearest: {suggestion}"
                )


def recalled_elsewhere(file: Raw, columns: Schema, unseen: frozenset[str]) -> Iterator[CatalogError]:
    """Yield errors of tables without recalled_fields, whose rows are recalled as a whole or not at all."""
    if "how" not in columns or "recalled" not in columns["how"].type.partition(":")[2].split("|"):
        return
    for line, row in zip(file.lines, file.records(), strict=True):
        recalled = row["how"] == "recalled"
        if recalled != bool(unseen & set(row["source"].split(";"))):
            expected = "recalled exactly where the source was not opened"
            yield CatalogError(file.file, line, "how", row["how"], expected, "correct how, or cite what was read")


@lru_cache(maxsize=128)
def frame(name: str, directory: Path) -> pd.DataFrame:
    """Return a table in SI; raises its first error. Its memory is read-only: `table` returns it without copying."""
    import numpy as np

    names = table_names(directory)
    if name not in names:
        suggestions = nearest(name, names, 3)
        words = f"no table called {shown(name, 40)}; nearest names: {', '.join(suggestions)}. Write one of them"
        raise UnknownName("tables", name, suggestions, words)
    values, errors = contents(name, directory)
    for error in errors:
        raise error
    result = pd.DataFrame(values)
    for column in result:
        memory: Any = np.asarray(result[column].array)
        while isinstance(memory, np.ndarray):  # the column, then the block of columns that it is a part of
            memory.setflags(write=False)
            memory = memory.base
    return result


@lru_cache(maxsize=8)
def records(name: str, directory: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, for reading alone."""
    return frame(name, directory).to_dict("records")


@checked(
    name=Field.text(1000, give="the name of a table, such as 'accelerators'"),
    directory=Field.record(str, Path, what="folder", give="a path, or leave it out"),
)
def table(name: str, directory: str | Path | None = None) -> pd.DataFrame:
    """Return one table of the catalogue, checked by its schema and in SI.

    Parameters
    ----------
    name : str
        Name of the table, such as ``"accelerators"``; `table_names` lists them.
    directory : str or Path, optional
        Another data directory (its `schema` folder included); tests use it.

    Returns
    -------
    pandas.DataFrame
        Numbers are floats with NaN where the table is blank, everything else is text, blank where the table is.
        Changes affect nothing else: pandas copies a column when it is written to.

    Raises
    ------
    CatalogError
        At the first cell that violates the schema: file, row, column, value and expectation.
    UnknownName
        If there is no such table (a KeyError).
    ValueError
        If `name` is not text, or `directory` contains no tables.
    """
    folder = folder_of(directory)
    return frame(name, folder).copy(deep=False)


@lru_cache(maxsize=256)
def constant(name: str, otherwise: float | None = None) -> float:
    """Return a value of the table ``constants``, in SI.

    Parameters
    ----------
    name : str
        Name of its row.
    otherwise : float, optional
        Value where the table has no such row.

    Raises
    ------
    UnknownName
        If the table has no such row, and no other value is given (a KeyError).

    Examples
    --------
    >>> constant("runtime-memory") > 0, constant("no such row", 1.0)
    (True, 1.0)
    """
    rows = _constants()
    if name in rows:
        return rows[name]
    if otherwise is None:
        raise UnknownName("constants", name, nearest(name, list(rows), 3))
    return otherwise


@lru_cache(maxsize=1)
def _constants() -> dict[str, float]:
    rows = table("constants")
    pairs = zip(rows["name"], rows["value"], rows["unit"], strict=True)
    return {name: float(si(f"{value} {unit}")) if unit else float(value) for name, value, unit in pairs}
