"""Names: from what people write to the key of a row, with the nearest names where nothing fits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from .reading import CatalogError, data_directory
from .schema import schema
from .tables import raw, table_names

SPELLINGS = ("name", "title", "aliases")
IGNORED = re.compile(r"[\s\-_.,()/]+")
# Between digits a separator tells 1.6 from 16, whichever character it is.
# Makers and their brands, which people write before a name or leave out.
MAKERS = re.compile(r"^(nvidia|amd|intel|google|aws|tesla|geforce|quadro|instinct|cloud)+")
_PLURAL = re.compile(r"(ies|s)$")
BETWEEN_DIGITS = re.compile(r"(?<=\d)[\s\-_.,()/]+(?=\d)")


class UnknownName(KeyError):
    """A name that no row has; carries the three nearest names.

    Attributes
    ----------
    kind, name, nearest : str, str, list of str
    what : str
        One row of the table, in words.
    """

    def __init__(self, kind: str, name: str, nearest: list[str]) -> None:
        self.kind, self.name, self.nearest = kind, name, nearest
        self.what = _PLURAL.sub(lambda end: "y" if end[0] == "ies" else "", kind.replace("_", " "))
        listing = f'cb.table("{kind}")'
        nearest_text = ", ".join(nearest) or "none, the table is empty"
        self.message = (
            f"no {self.what} called {name!r}; nearest names: {nearest_text}. "
            f"Write one of them, or list all with {listing}"
        )
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


def normalise(name: str) -> str:
    """A spelling without case, spaces, hyphens, underscores, dots and brackets, except between digits.

    >>> normalise("NVIDIA A100-SXM4-80GB"), normalise("regnet_y_1_6gf"), normalise("RegNetY 1.6GF")
    ('nvidiaa100sxm4:80gb', 'regnety1:6gf', 'regnety1:6gf')
    """
    return IGNORED.sub("", BETWEEN_DIGITS.sub(":", name.strip())).casefold()


def spellings(kind: str, directory: Path) -> Iterator[tuple[int, str, str]]:
    """Every spelling of every row: line, spelling, key; keys first, since they win over aliases."""
    file, key = raw(kind, directory), schema(kind, directory).key
    records = list(zip(file.lines, file.records(), strict=True))
    for line, record in records:
        yield line, record[key], record[key]
    for line, record in records:
        for column in SPELLINGS:
            for spelling in record.get(column, "").split(";") if column == "aliases" else [record.get(column, "")]:
                if spelling.strip():
                    yield line, spelling.strip(), record[key]


@lru_cache(maxsize=64)
def index(kind: str, directory: Path) -> dict[str, str]:
    """From normalised spelling to key."""
    found: dict[str, str] = {}
    for _, spelling, key in spellings(kind, directory):
        found.setdefault(normalise(spelling), key)
    return found


def ambiguous(kind: str, directory: Path) -> Iterator[CatalogError]:
    """Names and aliases that could mean two rows."""
    owner, told = dict[str, str](), set[tuple[int, str]]()
    for line, spelling, key in spellings(kind, directory):
        other = owner.setdefault(normalise(spelling), key)
        if other != key and (line, normalise(spelling)) not in told:
            told.add((line, normalise(spelling)))
            expected = f"a spelling of its own: {other} has it too"
            yield CatalogError(f"data/{kind}.csv", line, "aliases", spelling, expected, "remove one of the two")


def nearest_keys(name: str, known: dict[str, str], count: int = 3) -> list[str]:
    """Keys of the most similar spellings, best first: those that begin with the name, then those that contain it."""
    wanted = normalise(name)

    def likeness(spelling: str) -> float:
        score = difflib.SequenceMatcher(None, wanted, spelling).ratio()
        contained = len(wanted) > 2 and (wanted in spelling or (len(spelling) > 2 and spelling in wanted))
        begins = len(wanted) > 1 and spelling.startswith(wanted)
        return score + (1.0 if begins else 0.3 if contained else 0.0)

    ranked = sorted(known, key=likeness, reverse=True)
    return list(dict.fromkeys(known[spelling] for spelling in ranked))[:count]


@lru_cache(maxsize=64)
def _named_tables(directory: Path) -> tuple[str, ...]:
    return tuple(table for table in table_names(directory) if schema(table, directory).key)


def lookup(kind: str, name: str, directory: Path | None = None) -> str:
    """The key of a row from any usual spelling.

    Parameters
    ----------
    kind : str
        The table: ``"accelerators"``, ``"models"``, ``"optimisers"``, ``"number_formats"``, ``"sources"`` ...
    name : str
        Key, name or alias; case, and which of space, hyphen, underscore or dot stands between words, do not matter.
    directory : Path, optional
        Another data directory, its schema folder included.

    Raises
    ------
    UnknownName
        With the three nearest names (a KeyError).
    ValueError
        If `kind` is not a table whose rows have names.

    Examples
    --------
    >>> lookup("accelerators", "NVIDIA A100-SXM4-80GB")
    'a100-sxm-80gb'
    """
    folder = directory or data_directory()
    if kind not in _named_tables(folder):
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(_named_tables(folder))}")
    if not isinstance(name, str):
        raise ValueError(f"name is {name!r}; it must be text, such as {next(iter(index(kind, folder).values()))!r}")
    known = index(kind, folder)
    wanted = normalise(name)
    for spelling in (wanted, MAKERS.sub("", wanted)):
        if spelling in known:
            return known[spelling]
    raise UnknownName(kind, name, nearest_keys(name, known))
