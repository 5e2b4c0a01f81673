"""Columns of a reader's table: their names, their cells as typed values, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook.catalog.reading import ALIKE, nearest
from cookbook.catalog.refusals import Refusal, as_refusal
from cookbook.prediction.parsing import vocabulary, words
from cookbook.prediction.scenario import BLANK, NOTHING, Coded, Field, fields, together
from cookbook.prediction.software import unknown_version

STORAGE = "storage"  # rows of reports about storage, whose numbers are fields of input pipelines
TRANSFORMER, CLASSIC, SERVED, GENERATION = "training_transformer", "training_classic", "inference", "generation"
# Fields of an engine of language models.
POLICY = ("acceptance", "drafted", "prefix_hit", "request_rate", "chunk")
# Columns of words that several fields are read from, by kind.
PROSE = {
    TRANSFORMER: (
        "decoder_layers",
        "recompute_modules",
        "note",
        "locator",
        "intra_node_link",
        "parallelism",
        "params_b",
        "params_active_b",
    ),
    CLASSIC: ("task_input", "unit", "software_notes", "intra_node_link", "inter_node_link", "note"),
    SERVED: (
        "input_len",
        "data_set",
        "metric",
        "note",
        "accelerator_as_printed",
        "precision_text",
        "number_format",
        "params_b",
        "params_active_b",
        "experts_active",
        "unit",
    ),
    STORAGE: (
        "kind",
        "workload",
        "system",
        "accelerator",
        "accelerators",
        "hosts",
        "batch",
        "sample_bytes",
        "workers",
        "cpu",
        "framework",
        "note",
        "metric",
        "unit",
    ),
}


def normal(header: str) -> str:
    """Return a column name without case, spaces, hyphens and brackets; a slash is "per".

    >>> normal("Batch/GPU"), normal("Batch size (per GPU)"), normal("Batch per-GPU")
    ('batch_per_gpu', 'batch_size_per_gpu', 'batch_per_gpu')
    """
    return re.sub(r"[\s\-.()\[\]_]+", "_", str(header).strip().casefold().replace("/", " per ")).strip("_")


@lru_cache(maxsize=8)
def names(kind: str) -> dict[str, str]:
    """Return the name under which each spelling of a column is read."""
    by_spelling: dict[str, str] = {}
    other_names = vocabulary.spellings(f"column_{kind}")
    for name in PROSE[kind]:
        for spelling in (name, *(other for other, meant in other_names.items() if meant == name)):
            by_spelling.setdefault(spelling, name)
    for name in fields(kind):
        by_spelling.setdefault(name, name)
    for field in fields(kind).values():
        for other in field.spellings:
            by_spelling.setdefault(other, field.name)
    return by_spelling


def ignored(header: str) -> bool:
    """Return whether a column says nothing about a scenario: the name of a row, provenance, an outcome of a run."""
    name = normal(header)
    return not name or vocabulary.mentions("column_ignored", name)


def unknown(kind: str, headers: list[str]) -> list[tuple[str, str]]:
    """Return columns that no field of a kind is read from, each with the name it may be a misspelling of, or ""."""
    by_spelling = names(kind)
    outcomes = vocabulary.spellings("outcome_storage") if kind == STORAGE else {}
    read = {*by_spelling, *outcomes}
    lost = [header for header in headers if normal(header) not in read and not ignored(header)]
    return [(header, "".join(nearest(normal(header)[:60], list(by_spelling), 1, ALIKE))) for header in lost]


class Columns:
    """The columns of a frame under the names of one kind, and what is wrong with single cells."""

    def __init__(self, kind: str, frame: pd.DataFrame) -> None:
        self.kind, self.size = kind, len(frame)
        self.problems: list[Coded] = []
        self.assumed: list[Coded] = []
        by_spelling, self._columns, self.headers = names(kind), dict[str, Any](), dict[str, str]()
        meant = self._networks_are_models(frame, by_spelling)
        for header in frame.columns:
            name = "model" if meant and normal(header) == "network" else by_spelling.get(normal(header))
            # A column under its own name comes before one under another spelling.
            if name is not None and (name not in self._columns or normal(header) == name):
                self._columns[name], self.headers[name] = frame[header], str(header)

    def _networks_are_models(self, frame: pd.DataFrame, by_spelling: dict[str, str]) -> bool:
        """Return whether "network" is the header of models: no other is, and none of its cells states a rate; noted
        if so."""
        named = [header for header in frame.columns if normal(header) == "network"]
        others = {by_spelling.get(normal(header)) for header in frame.columns if header not in named}
        if not named or "model" not in by_spelling.values() or "model" in others:
            return False
        cells = levels_of(frame[named[0]])
        rates = [cell for cell in cells.levels if not words.is_blank(cell) and words.network(cell)[0] > 0]
        if rates:
            return False
        self.note(cells.map(lambda cell: "" if words.is_blank(cell) else f"{named[0]} = model"))
        return True

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def text(self, name: str) -> Coded:
        """Return a column as text, stripped, "" where blank or absent."""
        if name not in self._columns:
            return BLANK
        column = self._columns[name]
        if not isinstance(column, Coded):
            self._columns[name] = column = levels_of(column)
        return column

    def own_rows(self, name: str, own: str) -> np.ndarray:
        """Return the rows whose cell is `own` or blank, which is noted; from now on the cell is blank in all of
        them."""
        column = self.text(name)
        self.note(column.map(lambda cell: f"{name} = {own}" if words.is_blank(cell) else ""))
        if name in self._columns:
            self._columns[name] = column.map(lambda cell: "" if normal(cell) == normal(own) else cell)
        return np.broadcast_to(self.text(name).where(words.is_blank), (self.size,))

    def number(self, name: str, scale: float = 1.0, field: str = "") -> np.ndarray:
        """Return a column of numbers; NaN where nothing is stated."""
        if name not in self._columns:
            return NOTHING
        declared = fields(words.PIPELINE if self.kind == STORAGE else "")[field or name]
        column = self._columns[name]
        if not isinstance(column, Coded) and getattr(column.dtype, "kind", "O") in "iuf":
            return self._in_range(name, column.to_numpy(dtype=float) * scale, declared)
        column = self.text(name)
        numbers, strange = _plain_numbers(column.levels, declared, scale)
        refused = assumed = False
        problems, notes = [""] * len(column.levels), [""] * len(column.levels)
        for at in strange:
            cell = column.levels[at]
            numbers[at], problems[at], notes[at] = words.number(cell, declared, scale)
            refused, assumed = refused or bool(problems[at]), assumed or bool(notes[at])
        if refused:
            self.add_problem(name, Coded(column.codes, tuple(problems)), declared.name)
        if assumed:
            self.assumed.append(Coded(column.codes, tuple(notes)))
        return numbers[column.codes]

    def add_problem(self, name: str, problem: Coded, field: str = "") -> None:
        """Note what is wrong with rows, under the reader's name of the column."""
        header, field = self.headers.get(name, name), field or name

        def under_header(problem_text: str) -> Refusal:
            why = as_refusal(problem_text)
            return (why if why.field else Refusal(why, why.code, field)).under(header)

        self.problems.append(problem.map(under_header))

    def _in_range(self, name: str, numbers: np.ndarray, declared: Field) -> np.ndarray:
        """Return numbers, NaN where they are outside their range, which is noted."""
        bad = ~np.isnan(numbers) & ~((numbers >= declared.low) & (numbers <= declared.high))
        if declared.type == "count":
            bad |= ~np.isnan(numbers) & (numbers != np.floor(numbers))
        if bad.any():
            codes, levels = np.zeros(len(numbers), dtype=int), [""]
            for value in np.unique(numbers[bad]).tolist():
                codes[numbers == value] = len(levels)
                levels.append(words.in_range(value, f"{value:g}", declared)[1])
            self.add_problem(name, Coded(codes, tuple(levels)), declared.name)
        return np.where(bad, np.nan, numbers)

    def read(self, name: str, reader: Callable[[str], tuple[Any, str]]) -> Coded:
        """Return a column of words; `reader` gives the typed value of a cell and what is wrong with it."""
        return self.values(self.text(name), reader, name)

    def values(self, column: Coded, reader: Callable[[Any], tuple[Any, str]], name: str = "") -> Coded:
        """Return the typed values of a column's levels; what is wrong with them is noted."""
        pairs = [reader(level) for level in column.levels]
        if any(problem for _, problem in pairs):
            self.add_problem(name, Coded(column.codes, tuple(problem for _, problem in pairs)))
        return Coded(column.codes, tuple(value for value, _ in pairs))

    def flag(self, name: str, field: str = "", reader: Callable[[str], float | None] = words.truth) -> np.ndarray:
        """Return a column of yes and no; NaN where nothing is stated."""
        if name not in self._columns:
            return NOTHING

        def one(cell: str) -> tuple[float, str]:
            value = reader(cell)
            problem = f"{field or name} = {words.shown(cell)} says neither yes nor no"
            return (np.nan, problem) if value is None else (value, "")

        return self.read(name, one).each(float)

    def choice(self, name: str) -> Coded:
        """Return a column of listed choices in any spelling; "" where nothing is stated."""
        declared = fields(self.kind)[name]

        def one(cell: str) -> tuple[str, str]:
            word = declared.choices.get(re.sub(r"[\s_-]+", " ", cell.casefold()), "")
            lost = not word and not words.is_blank(cell)
            return word, f"{name} = {words.shown(cell)} is not known; write one of {declared.allowed}" if lost else ""

        return self.read(name, one)

    def refuse_versions(self, served: Any) -> None:
        """Refuse unlisted versions of software, as a call does; `served` marks rows that answer in tokens."""
        software, other = self.text("software"), GENERATION if self.kind == SERVED else self.kind
        levels = [unknown_version(kind, cell) for kind in (self.kind, other) for cell in software.levels]
        self.problems.append(Coded(software.codes + np.where(served, len(software.levels), 0), tuple(levels)))

    def note(self, column: Coded) -> None:
        """Note what reading assumed about rows, in words."""
        if any(column.levels):
            self.assumed.append(column)

    def why(self, first: np.ndarray | None = None) -> np.ndarray:
        """Return for each row the first problem; "" where there is none."""
        problems = np.full(self.size, "", dtype=object) if first is None else np.asarray(first, dtype=object)
        for problem in self.problems:
            reasons = np.broadcast_to(problem.each(as_refusal, object), (self.size,))
            problems = np.where(problems == "", reasons, problems)
        return problems

    def noted(self) -> Coded:
        """Return what reading assumed about each row, in words."""
        return together(*self.assumed).map(lambda notes: "; ".join(filter(None, notes))) if self.assumed else BLANK


def _plain_numbers(levels: tuple[str, ...], declared: Field, scale: float) -> tuple[np.ndarray, list[int]]:
    """Return cells of digits with a point at most, in range; and the positions of the others, which are read as
    words."""
    numbers = np.full(len(levels), np.nan)
    try:
        # Most columns contain nothing else, which their letters show at once.
        if "".join(levels).encode().translate(None, b"0123456789."):
            raise ValueError
        numbers[:] = [float(cell or "nan") for cell in levels]
    except ValueError:
        at = [position for position, cell in enumerate(levels) if cell.isascii() and cell.replace(".", "", 1).isdigit()]
        numbers[at] = [float(levels[position]) for position in at]
    numbers *= scale
    strange = ~((numbers >= declared.low) & (numbers <= declared.high))
    if declared.type == "count":
        strange |= numbers != np.floor(numbers)
    return numbers, np.flatnonzero(strange).tolist()


def levels_of(column: Any) -> Coded:
    """Return a column of a frame as text levels and codes, blanks as ""."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, levels = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    else:
        try:
            codes, levels = pd.factorize(column)
        except TypeError:  # lists and other values without a hash, which are compared by their text
            codes, levels = pd.factorize(column.map(str))
    texts = [
        level.strip() if level.__class__ is str else "" if level is None or level != level else str(level).strip()
        for level in levels
    ]
    if (codes < 0).any():
        codes, texts = np.where(codes < 0, len(texts), codes), [*texts, ""]
    return Coded(np.asarray(codes, dtype=np.int64), tuple(texts) or ("",))
