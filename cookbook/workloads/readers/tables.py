"""Vocabulary of model files, from the tables: kinds of models, their fields, operations, and number formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from cookbook import catalog

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Family(NamedTuple):
    """A kind of model, from the table ``model_families``.

    Attributes
    ----------
    reader : str
        Who reads its configuration.
    arguments : mapping
        Arguments that the family's builder always has.
    readings : mapping
        Settings for reading its fields.
    """

    reader: str = ""
    arguments: Mapping[str, Any] = NOTHING
    readings: Mapping[str, Any] = NOTHING


class Operation(NamedTuple):
    """The count of a library's operation: its kind, and which activation, norm, cell or pooling."""

    kind: str
    meaning: str


class Names:
    """Names of fields; patterns such as ``*_eps`` and ``rope*`` match all that end or begin so."""

    def __init__(self, names: Iterable[str]) -> None:
        patterns = tuple(names)
        self.exact = frozenset(name for name in patterns if "*" not in name)
        self.starts = tuple(name[:-1] for name in patterns if name.endswith("*"))
        self.ends = tuple(name[1:] for name in patterns if name.startswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self.exact or name.startswith(self.starts) or name.endswith(self.ends)


@lru_cache(maxsize=1)
def families() -> Mapping[str, Family]:
    """Return all kinds of models that are read, by the name that their files have."""
    rows_of: dict[str, dict[str, dict[str, Any]]] = {}
    for row in catalog.table("model_families").itertuples():
        for name in row.families.split(";"):
            rows_of.setdefault(name, {}).setdefault(row.kind, {})[row.name] = _value(row.value)
    return {
        name: Family(rows["reader"]["reader"], rows.get("argument", NOTHING), rows.get("reading", NOTHING))
        for name, rows in rows_of.items()
    }


def _value(cell: str) -> Any:
    return cell == "yes" if cell in ("yes", "no") else int(cell) if cell.isdigit() else cell


@lru_cache(maxsize=256)
def fields(meaning: str, kind: str = "") -> Names:
    """Return the fields that change no count, of one kind of model or of all (""); `meaning` is silent or reviewed."""
    rows = catalog.table("configuration_fields")
    rows = rows[rows["meaning"] == meaning]
    return Names(row.field for row in rows.itertuples() if kind in row.families.split(";"))


@lru_cache(maxsize=256)
def defaults(kind: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the defaults of a kind of model where its file is silent: those to report, and those that nearly all have.

    Both by field, from the table ``configuration_defaults``.
    """
    rows = catalog.table("configuration_defaults")
    reported, silent = dict[str, Any](), dict[str, Any]()
    for row in rows[[kind in families.split(";") for families in rows["families"]]].itertuples():
        value = float(row.value)
        (reported if row.told == "yes" else silent)[row.field] = int(value) if value.is_integer() else value
    return MappingProxyType(reported), MappingProxyType(silent)


@lru_cache(maxsize=8)
def operations(library: str) -> Mapping[str, Operation]:
    """Return the operations of a library by their names, from the table ``operation_names``."""
    rows = catalog.table("operation_names")
    return {row.name: Operation(row.kind, row.meaning) for row in rows[rows["library"] == library].itertuples()}


def operation(library: str, name: str) -> Operation:
    """Return one operation; its kind is empty where it is not known."""
    return operations(library).get(name, Operation("", ""))


@lru_cache(maxsize=8)
def gguf_names(kind: str) -> Mapping[str, str]:
    """Return architectures or keys of GGUF files, and the configurations' names for them."""
    rows = catalog.table("gguf_names")
    return {row.name: row.meaning for row in rows[rows["kind"] == kind].itertuples()}


@lru_cache(maxsize=2)
def formats(file: str) -> Mapping[str, float]:
    """Return the number formats of safetensors or GGUF files by name: bits of one element, scales included [bit]."""
    rows = catalog.table("tensor_formats")
    return {row.name: 8 * row.bytes / row.elements for row in rows[rows["file"] == file].itertuples()}


@lru_cache(maxsize=1)
def gguf_formats() -> Mapping[int, str]:
    """Return the name of each format of GGUF files by its number."""
    rows = catalog.table("tensor_formats")
    return {int(row.number): row.name for row in rows[rows["file"] == "gguf"].itertuples()}
