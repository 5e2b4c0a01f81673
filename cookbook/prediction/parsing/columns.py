"""Columns of a reader's table: under which name each stands, its cells as typed values, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook.catalog.reading import ALIKE, nearest
from cookbook.catalog.refusals import Refusal, as_refusal
from cookbook.prediction.constants import unknown_version
from cookbook.prediction.parsing import words
from cookbook.prediction.scenario import BLANK, NOTHING, Coded, Field, fields, together

T, N, SERVED, GENERATION = "training_transformer", "training_classic", "inference", "generation"
STORAGE = "storage"  # rows of reports about storage, whose numbers are fields of input pipelines
LENGTHS = (
    "input_len",
    "input_length",
    "prompt_len",
    "prompt_length",
    "isl",
    "input_tokens",
    "prompt_tokens",
    "seq",
    "seq_len",
    "sequence_length",
    "seqlen",
    "input_size",
    "image_size",
    "resolution",
    "max_input_len",
)
# What an engine of language models is told; names of the batch which say that requests come and go.
POLICY = ("acceptance", "drafted", "prefix_hit", "request_rate", "chunk")
CONCURRENT = ("max_concurrency", "concurrency")
# Columns of words that several fields are read from, with their other names.
PROSE: dict[str, dict[str, tuple[str, ...]]] = {
    T: {
        "decoder_layers": (),
        "recompute_modules": (),
        "note": ("notes",),
        "locator": (),
        "intra_node_link": (),
        "parallelism": ("parallelization", "parallelisation", "parallel_strategy", "parallel_config", "layout"),
        "params_b": ("parameters_b", "total_params_b", "model_size_b", "size_b"),
        "params_active_b": ("active_params_b", "activated_params_b"),
    },
    N: {
        "task_input": ("input", "input_size", "input_shape", "image_size", "resolution"),
        "unit": ("units",),
        "software_notes": ("software_note",),
        "intra_node_link": ("link",),
        "inter_node_link": ("node_network", "network"),
        "note": ("notes",),
    },
    SERVED: {
        "input_len": LENGTHS,
        "data_set": ("dataset", "dataset_name", "data", "requests_from"),
        "metric": ("measure", "quantity"),
        "note": ("notes",),
        "accelerator_as_printed": (),
        "precision_text": ("precision", "dtype", "data_type", "datatype"),
        "number_format": (),
        "params_b": ("parameters_b", "model_size_b", "size_b"),
        "params_active_b": ("active_params_b",),
        "experts_active": (),
        "unit": (),
    },
    STORAGE: {
        "kind": (),
        "workload": ("model", "benchmark"),
        "system": ("device_or_system", "storage", "storage_system"),
        "accelerator": ("accelerator_as_printed", "accelerator_type", "gpu", "device"),
        "accelerators": ("accelerator_count", "num_accelerators", "accelerators_count", "gpus", "devices"),
        "hosts": ("host_count", "num_hosts", "clients", "client_hosts"),
        "batch": ("batch_size", "batch_per_device"),
        "sample_bytes": ("bytes_per_sample", "sample_size", "record_bytes"),
        "workers": ("num_workers", "loader_workers", "read_threads"),
        "cpu": ("cpu_cores", "processor"),
        "framework": ("decoder",),
        "note": ("notes",),
        "metric": (),
        "unit": (),
    },
}
# Columns that say nothing about what is asked: names of rows, provenance, and what came out of a run.
IGNORED = frozenset(
    {
        "id",
        "source",
        "source_group",
        "locator",
        "date",
        "quality",
        "completeness",
        "use",
        "data",
        "how",
        "derived_fields",
        "inferred_fields",
        "recalled_fields",
        "note",
        "notes",
        "accelerator_as_printed",
        "url",
        "comment",
        "comments",
        "trial",
        "flops_convention",
        "value",
        "step_time_s",
        "step_seconds",
        "tokens_per_s",
        "tokens_per_s_per_device",
        "mfu",
        "hfu",
        "tflops_per_device_reported",
        "reported_flops",
        "memory_per_device_gb",
        "memory_bytes",
        "outcome",
        "samples_per_s",
        "deviation",
        "accelerator_utilisation",
        "utilisation",
        "experts_active",
        "unit",
        "task",
        "publisher",
        "",
    }
)

# What came out of reports about storage, under the names of other kinds' fields.
OUTCOMES_OF = {
    STORAGE: frozenset(
        (
            "cpu_count",
            "emulated_or_real",
            "read_bandwidth",
            "write_bandwidth",
            "read_gbps",
            "write_gbps",
            "latency_us",
            "latency",
            "iops",
        )
    )
}


def normal(header: str) -> str:
    """Return a column name without case, spaces, hyphens and brackets; a slash is "per".

    >>> normal("Batch/GPU"), normal("Batch size (per GPU)"), normal("Batch per-GPU")
    ('batch_per_gpu', 'batch_size_per_gpu', 'batch_per_gpu')
    """
    return re.sub(r"[\s\-.()\[\]_]+", "_", str(header).strip().casefold().replace("/", " per ")).strip("_")


@lru_cache(maxsize=8)
def names(kind: str) -> dict[str, str]:
    """From every spelling of a column to the name under which it is read."""
    found: dict[str, str] = {}
    for name, others in PROSE[kind].items():
        for each in (name, *others):
            found.setdefault(each, name)
    for name in fields(kind):
        found.setdefault(name, name)
    for field in fields(kind).values():
        for other in field.spellings:
            found.setdefault(other, field.name)
    return found


def unknown(kind: str, headers: list[str]) -> list[tuple[str, str]]:
    """Return columns that no field of a kind is read from, each with the name it may be a misspelling of, or ""."""
    known = names(kind)
    lost = [header for header in headers if normal(header) not in {*known, *IGNORED, *OUTCOMES_OF.get(kind, ())}]
    return [(header, "".join(nearest(normal(header)[:60], list(known), 1, ALIKE))) for header in lost]


class Columns:
    """The columns of a frame under the names of one kind, and what is wrong with single cells."""

    def __init__(self, kind: str, frame: pd.DataFrame) -> None:
        self.kind, self.size = kind, len(frame)
        self.problems: list[Coded] = []
        self.assumed: list[Coded] = []
        known, self._columns, self.headers = names(kind), dict[str, Any](), dict[str, str]()
        meant = self._networks_are_models(frame, known)
        for header in frame.columns:
            name = "model" if meant and normal(header) == "network" else known.get(normal(header))
            # A column under its own name comes before one under another spelling.
            if name is not None and (name not in self._columns or normal(header) == name):
                self._columns[name], self.headers[name] = frame[header], str(header)

    def _networks_are_models(self, frame: pd.DataFrame, known: dict[str, str]) -> bool:
        """Whether "network" heads the models: no other column does, and no cell of it states a rate; noted if so."""
        named = [header for header in frame.columns if normal(header) == "network"]
        others = {known.get(normal(header)) for header in frame.columns if header not in named}
        if not named or "model" not in known.values() or "model" in others:
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
        """A column as text, stripped, "" where blank or absent."""
        if name not in self._columns:
            return BLANK
        column = self._columns[name]
        if not isinstance(column, Coded):
            self._columns[name] = column = levels_of(column)
        return column

    def own_rows(self, name: str, own: str) -> np.ndarray:
        """Rows whose cell is `own` or blank, which is noted; from now on it is blank in all of them."""
        column = self.text(name)
        self.note(column.map(lambda cell: f"{name} = {own}" if words.is_blank(cell) else ""))
        if name in self._columns:
            self._columns[name] = column.map(lambda cell: "" if normal(cell) == normal(own) else cell)
        return np.broadcast_to(self.text(name).where(words.is_blank), (self.size,))

    def number(self, name: str, scale: float = 1.0, field: str = "") -> np.ndarray:
        """A column of numbers; NaN where nothing is stated."""
        if name not in self._columns:
            return NOTHING
        declared = fields(words.PIPELINE if self.kind == STORAGE else "")[field or name]
        column = self._columns[name]
        if not isinstance(column, Coded) and getattr(column.dtype, "kind", "O") in "iuf":
            return self._in_range(name, column.to_numpy(dtype=float) * scale, declared)
        column = self.text(name)
        numbers, strange = _plain_numbers(column.levels, declared, scale)
        said = assumed = False
        problems, notes = [""] * len(column.levels), [""] * len(column.levels)
        for at in strange:
            cell = column.levels[at]
            numbers[at], problems[at], notes[at] = words.number(cell, declared, scale)
            said, assumed = said or bool(problems[at]), assumed or bool(notes[at])
        if said:
            self.say(name, Coded(column.codes, tuple(problems)), declared.name)
        if assumed:
            self.assumed.append(Coded(column.codes, tuple(notes)))
        return numbers[column.codes]

    def say(self, name: str, problem: Coded, field: str = "") -> None:
        """What is wrong with rows, under the name that the reader gave the column."""
        header, field = self.headers.get(name, name), field or name

        def told(said: str) -> Refusal:
            why = as_refusal(said)
            return (why if why.field else Refusal(why, why.code, field)).under(header)

        self.problems.append(problem.map(told))

    def _in_range(self, name: str, numbers: np.ndarray, declared: Field) -> np.ndarray:
        bad = ~np.isnan(numbers) & ~((numbers >= declared.low) & (numbers <= declared.high))
        if declared.type == "count":
            bad |= ~np.isnan(numbers) & (numbers != np.floor(numbers))
        if bad.any():
            codes, levels = np.zeros(len(numbers), dtype=int), [""]
            for value in np.unique(numbers[bad]).tolist():
                codes[numbers == value] = len(levels)
                levels.append(words.in_range(value, f"{value:g}", declared)[1])
            self.say(name, Coded(codes, tuple(levels)), declared.name)
        return np.where(bad, np.nan, numbers)

    def read(self, name: str, reader: Callable[[str], tuple[Any, str]]) -> Coded:
        """A column of words; `reader` gives the typed value of a cell and what is wrong with it."""
        return self.values(self.text(name), reader, name)

    def values(self, column: Coded, reader: Callable[[Any], tuple[Any, str]], name: str = "") -> Coded:
        """Typed values of a column's levels; what is wrong with them is noted."""
        pairs = [reader(level) for level in column.levels]
        if any(problem for _, problem in pairs):
            self.say(name, Coded(column.codes, tuple(problem for _, problem in pairs)))
        return Coded(column.codes, tuple(value for value, _ in pairs))

    def flag(self, name: str, field: str = "", reader: Callable[[str], float | None] = words.truth) -> np.ndarray:
        """A column of yes and no; NaN where nothing is stated."""
        if name not in self._columns:
            return NOTHING

        def one(cell: str) -> tuple[float, str]:
            value = reader(cell)
            said = f"{field or name} = {words.shown(cell)} says neither yes nor no"
            return (np.nan, said) if value is None else (value, "")

        return self.read(name, one).each(float)

    def choice(self, name: str) -> Coded:
        """A column of listed choices, however they are spelt; "" where nothing is stated."""
        declared = fields(self.kind)[name]

        def one(cell: str) -> tuple[str, str]:
            word = declared.choices.get(re.sub(r"[\s_-]+", " ", cell.casefold()), "")
            lost = not word and not words.is_blank(cell)
            return word, f"{name} = {words.shown(cell)} is not known; write one of {declared.allowed}" if lost else ""

        return self.read(name, one)

    def refuse_versions(self, served: Any) -> None:
        """Refuse versions of software that nobody knows, as a call does; `served` tells rows that answer in tokens."""
        said, other = self.text("software"), GENERATION if self.kind == SERVED else self.kind
        levels = [unknown_version(kind, cell) for kind in (self.kind, other) for cell in said.levels]
        self.problems.append(Coded(said.codes + np.where(served, len(said.levels), 0), tuple(levels)))

    def note(self, column: Coded) -> None:
        """What reading assumed about rows, in words."""
        if any(column.levels):
            self.assumed.append(column)

    def why(self, first: np.ndarray | None = None) -> np.ndarray:
        """For each row, the first thing that is wrong with it; "" where nothing is."""
        found = np.full(self.size, "", dtype=object) if first is None else np.asarray(first, dtype=object)
        for problem in self.problems:
            said = np.broadcast_to(problem.each(as_refusal, object), (self.size,))
            found = np.where(found == "", said, found)
        return found

    def noted(self) -> Coded:
        """What reading assumed about each row, in words."""
        return together(*self.assumed).map(lambda each: "; ".join(filter(None, each))) if self.assumed else BLANK


def _plain_numbers(levels: tuple[str, ...], declared: Field, scale: float) -> tuple[np.ndarray, list[int]]:
    """Cells of digits with a point at most, in range; and the places of the others, which are read as words."""
    numbers = np.full(len(levels), np.nan)
    try:
        # Most columns hold nothing else, which their letters tell at once.
        if "".join(levels).encode().translate(None, b"0123456789."):
            raise ValueError
        numbers[:] = [float(cell or "nan") for cell in levels]
    except ValueError:
        at = [place for place, cell in enumerate(levels) if cell.isascii() and cell.replace(".", "", 1).isdigit()]
        numbers[at] = [float(levels[place]) for place in at]
    numbers *= scale
    strange = ~((numbers >= declared.low) & (numbers <= declared.high))
    if declared.type == "count":
        strange |= numbers != np.floor(numbers)
    return numbers, np.flatnonzero(strange).tolist()


def levels_of(column: Any) -> Coded:
    """A column of a frame as text levels and codes, blanks as ""."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, levels = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    else:
        try:
            codes, levels = pd.factorize(column)
        except TypeError:  # lists and the like, which cannot be told apart without their text
            codes, levels = pd.factorize(column.map(str))
    texts = [
        level.strip() if level.__class__ is str else "" if level is None or level != level else str(level).strip()
        for level in levels
    ]
    if (codes < 0).any():
        codes, texts = np.where(codes < 0, len(texts), codes), [*texts, ""]
    return Coded(np.asarray(codes, dtype=np.int64), tuple(texts) or ("",))
