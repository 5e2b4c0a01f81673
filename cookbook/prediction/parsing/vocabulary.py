"""Words that people use, from the table ``vocabulary``: which patterns of which field mean what."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from cookbook import catalog

# Line breaks within a cell are blanks like others.
FLAGS = re.IGNORECASE | re.DOTALL


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[tuple[str, str, str]]]:
    """Return meaning, match and pattern of the rows of each field, in the order of the table."""
    by_field: dict[str, list[tuple[str, str, str]]] = {}
    columns = catalog.table("vocabulary")[["field", "meaning", "match", "pattern"]]
    for field, *row in columns.itertuples(index=False):
        by_field.setdefault(field, []).append(tuple(row))
    return by_field


@lru_cache(maxsize=128)
def _matchers(field: str) -> tuple[tuple[Callable[[str], object], str], ...]:
    """Return what fits a text, and the meaning, of each row of a field."""
    patterns = [(re.compile(pattern, FLAGS), match, word) for word, match, pattern in _rows()[field]]
    return tuple((pattern.fullmatch if match == "whole" else pattern.search, word) for pattern, match, word in patterns)


@lru_cache(maxsize=32768)
def meaning(field: str, text: str) -> str:
    """Return the meaning of the first row of a field whose pattern fits a text; "" where none does.

    Parameters
    ----------
    field : str
        As in the table ``vocabulary``.
    text : str
        Words, whose case is ignored.

    Raises
    ------
    KeyError
        If the table has no such field.

    Examples
    --------
    >>> meaning("optimiser", "AdamW (fused)"), meaning("seconds", "msec"), meaning("optimiser", "Muon")
    ('adam', '0.001', '')
    """
    return next((word for fits, word in _matchers(field) if fits(text)), "")


def mentions(field: str, text: str) -> bool:
    """Return whether any pattern of a field fits a text."""
    return bool(meaning(field, text))


@lru_cache(maxsize=32)
def alternatives(field: str, word: str = "") -> str:
    """Return the patterns of a field, or of one of its meanings, as alternatives of a regular expression.

    >>> alternatives("zero", "1")
    'distributed'
    """
    return "|".join(pattern for meaning, _, pattern in _rows()[field] if word in ("", meaning))


@lru_cache(maxsize=32)
def _removed(field: str) -> re.Pattern[str]:
    return re.compile(alternatives(field), FLAGS)


def without(field: str, text: str) -> str:
    """Return a text without the words of a field.

    >>> without("rate_of", "tokens/s/GPU")
    'tokens/s'
    """
    return _removed(field).sub("", text)


@lru_cache(maxsize=32)
def spellings(field: str) -> dict[str, str]:
    """Return the meaning of each pattern of a field whose patterns are plain words.

    >>> spellings("column_inference")["dtype"]
    'precision_text'
    """
    return {pattern: word for word, _, pattern in _rows()[field]}


__all__ = ["alternatives", "meaning", "mentions", "spellings", "without"]
