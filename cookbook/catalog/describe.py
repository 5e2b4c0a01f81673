"""What is kept of the tables beside them: how many rows each has, and a page written from their schemas."""

from __future__ import annotations

from pathlib import Path

from . import names
from .evidence import statements
from .reading import folder_of, read
from .schema import Column, schema
from .tables import ABOUT, COUNTS, contents, frame, keys, raw, row_counts, table_names
from .writing import write_csv

INTRODUCTION = """# Facts

This file is written from the schemas by `python -m cookbook data-readme`; do not edit it by hand.

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
    """Count the rows of every table anew and note them in `data/schema/_tables.csv`.

    Parameters
    ----------
    directory : str or Path, optional
        Another data directory, its schema folder included.

    Returns
    -------
    dict of str to (str, int)
        What was noted before and the rows found, for the tables where they differ.
    """
    folder, changed = folder_of(directory), dict[str, tuple[str, int]]()
    path = folder / "schema" / ABOUT
    about = [{"rows": "", **row} for row in read(path, COUNTS).records()]
    for row in about:
        before, found = row["rows"], len(read(folder / f"{row['table']}.csv"))
        if before != str(found):
            changed[row["table"]], row["rows"] = (before, found), str(found)
    if changed:
        write_csv(path, ("table", "rows", "description"), about)
    for cached in (schema, raw, row_counts, keys, contents, frame, statements, *names.CACHED):
        cached.cache_clear()
    return changed


def describe_tables(directory: str | Path | None = None) -> str:
    """Markdown that documents every table and column; `data/README.md` is this text; `directory` may name another."""
    folder = folder_of(directory)
    about = {row["table"]: row["description"] for row in read(folder / "schema" / ABOUT).records()}
    parts = [INTRODUCTION]
    for name in table_names(folder):
        lines = [f"\n## {name}.csv\n", about.get(name, ""), "", "| column | type | unit | required | meaning |"]
        lines += ["|---|---|---|---|---|"]
        lines += [_line(column) for column in schema(name, folder).columns]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _line(column: Column) -> str:
    kind = column.type
    if kind.startswith("choice:"):
        kind = ", ".join(kind.removeprefix("choice:").split("|"))
    cells = (f"`{column.name}`", kind, column.unit, "yes" if column.required else "", column.description)
    return "| " + " | ".join(cells) + " |"
