"""What panels offer and print of tables of the catalogue."""

from __future__ import annotations

from functools import lru_cache

from cookbook import catalog
from cookbook.panels.controls import Option
from cookbook.prediction.terms.transformer import LANGUAGE_MODELS


def networks(language: bool | None = None) -> tuple[Option, ...]:
    """Networks of the zoo by family: all, language models only (True) or all others (False)."""
    rows = catalog.table("models")
    if language is not None:
        rows = rows[rows["builder"].isin(LANGUAGE_MODELS) == language]
    columns = zip(rows["name"], rows["title"], rows["aliases"], rows["family"], strict=True)
    return tuple((name, title, also, family.replace("_", " ")) for name, title, also, family in columns)


def data_sets() -> tuple[Option, ...]:
    """Cards of data sets by kind of sample."""
    rows = catalog.table("data_sets")
    return tuple((row.key, row.name, "", row.data_type) for row in rows.itertuples(index=False))


@lru_cache(maxsize=256)
def printed(table: str, key: str, column: str, name: str) -> str:
    """What a table says in one column of the row of a name, found as `catalog.lookup` does in the column `key`."""
    rows = catalog.table(table).set_index(key)
    return str(rows.loc[catalog.lookup(table, name), column])
