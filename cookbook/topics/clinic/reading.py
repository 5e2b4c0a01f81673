"""The common result of all readers of traces, and opening of files: with limits, as text, a database or compressed."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cookbook.catalog.refusals import refused
from cookbook.topics.machine.report import parsed_json as json_of_file
from cookbook.workloads.limits import check_members

# Bytes of one file, before and after it is unpacked; events, lines and cells of one file; letters of a line.
LARGEST_FILE, LARGEST_TEXT = 256_000_000, 512_000_000
MAX_EVENTS, MAX_LINES, LONGEST_LINE = 1_500_000, 500_000, 100_000
MAX_GROUPS, MAX_VALUES = 8_000_000, 40_000_000  # of JSON
MAX_NOTES = 8
KNOWN_FORMATS = (
    "Chrome and PyTorch traces, Nsight Systems (SQLite, CSV), nvidia-smi, DCGM, NCCL tests, fio, iostat, metrics "
    "of vLLM and SGLang, training logs"
)
SQLITE, GZIP = b"SQLite format 3\0", b"\x1f\x8b"
# Terms of spans, in the order in which they claim an instant that several share.
TERMS = ("checkpoint", "input", "compute", "memory traffic", "communication", "launch", "idle")


@dataclass(frozen=True, eq=False)
class Spans:
    """The spans of a profiler: one entry per span.

    Attributes
    ----------
    start, end : numpy.ndarray
        Begin and end [s].
    term : numpy.ndarray
        Index into `TERMS`.
    device : bool
        True if kernels of an accelerator are among them; else operations of the processor are the computation.
    facts : mapping of str to float
        Counts: operations, shares of small ones, shares of number formats.
    """

    start: np.ndarray
    end: np.ndarray
    term: np.ndarray
    device: bool = False
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Reading:
    """The content of one file.

    Attributes
    ----------
    name, kind : str
        Name of the file, and its kind in words.
    steps : numpy.ndarray
        Begin and end of each training step [s]; no rows where it has none.
    spans : Spans or None
        The spans of a profiler.
    counters : mapping of str to float
        Counted shares, rates and times by their name in `COUNTERS` of `counters`; SI units.
    columns : mapping of str to numpy.ndarray
        Seconds of each step by term, where a log reports them.
    rank : int or None
        Rank of the process that wrote it.
    notes : tuple of str
        Content that was not understood, by line, column or key.
    """

    name: str
    kind: str
    steps: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    spans: Spans | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    rank: int | None = None
    notes: tuple[str, ...] = ()


class Notes:
    """The things not understood, counted by kind, each with the first location where it occurred."""

    def __init__(self) -> None:
        self._found: dict[str, list[Any]] = {}

    def add(self, what: str, place: str = "") -> None:
        """Count one more note of a kind."""
        entry = self._found.setdefault(what[:160], [0, place[:80]])
        entry[0] += 1

    def __call__(self) -> tuple[str, ...]:
        lines = [
            f"{note}{f' ({place})' if place else ''}{f', {count:,} times' if count > 1 else ''}"
            for note, (count, place) in self._found.items()
        ]
        return (*lines[:MAX_NOTES], *([f"{len(lines) - MAX_NOTES} more kinds"] if len(lines) > MAX_NOTES else []))


def contents(path: str | Path) -> tuple[Path, bytes]:
    """Return a file's bytes, unpacked where it is compressed; of a database only its first bytes.

    Raises
    ------
    ValueError
        If it is not a file, too large before or after unpacking, empty, or its compression is broken.
    """
    if not isinstance(path, (str, Path)) or not str(path).strip() or "\0" in str(path):
        raise refused("path", path, "must be the path of a trace, a log or the output of a tool")
    target = Path(path)
    name = target.name[:80]
    try:
        if not target.is_file():
            raise refused("path", str(path), "is no file; give the path of a trace, a log or an output")
        size = target.stat().st_size
        if size > LARGEST_FILE:
            raise ValueError(f"{name} has {size:,} bytes, at most {LARGEST_FILE:,} are read; record fewer steps")
        with target.open("rb") as file:
            first = file.read(16)
            content = first if first == SQLITE else first + file.read()
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror or 'no such file'}; give a file of a trace") from None
    if content.startswith(GZIP):
        content = _unpacked(content, name)
    if not content.strip():
        raise ValueError(f"{name} is empty: nothing was recorded, or the tool had not closed it; record again")
    return target, content


def _unpacked(packed: bytes, name: str) -> bytes:
    try:
        machine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content = machine.decompress(packed, LARGEST_TEXT + 1)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name} cannot be unpacked ({error}); compress it again with gzip") from None
    if len(content) > LARGEST_TEXT:
        raise ValueError(f"{name} unpacks to more than {LARGEST_TEXT:,} bytes; record fewer steps")
    if not machine.eof:
        raise ValueError(f"{name} ends in the middle of its compression: it is truncated; copy the whole file")
    return content


def text_of(raw: bytes, name: str) -> str:
    """Decode bytes to text; ValueError where they are not text."""
    encoding = "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is no text at byte {error.start:,} and no database that is known; export it as JSON, CSV or SQLite"
        ) from None
    if "\0" in text:
        raise ValueError(f"{name} holds zero bytes, so it is no text; export it as JSON, CSV or SQLite")
    return text


def lines_of(text: str, name: str) -> list[str]:
    """Return the lines of a text, none of them too long."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise ValueError(f"{name} has {len(lines):,} lines, at most {MAX_LINES:,} are read; cut it")
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"{name}: line {number} has {len(line):,} letters, at most {LONGEST_LINE:,} are read")
    return lines


def parsed_json(text: str, name: str) -> Any:
    """Parse a JSON text; ValueError in words where it is truncated, too deep or invalid."""
    check_members(text, name, MAX_GROUPS, MAX_VALUES)
    return json_of_file(text, name, "a trace", "copy the whole file, or let the tool close it", parse_int=_bounded)


def _bounded(digits: str) -> int | float:
    return int(digits) if len(digits) < 300 else math.nan


def number(value: Any) -> float:
    """Return a finite number, or NaN for anything else.

    Words such as "98 %", "1410 MHz" or "N/A" are parsed as printed.
    """
    if isinstance(value, bool) or value is None:
        return math.nan
    if isinstance(value, str):
        words = value.strip().replace("%", " ").split()
        value = words[0].replace(",", "") if words else ""
        if not value or value[0] not in "+-.0123456789" or len(value) > 40 or "_" in value:
            return math.nan
    try:
        parsed = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return parsed if math.isfinite(parsed) else math.nan


def cells_of(lines: list[str], name: str) -> list[list[str]]:
    """Return the rows of CSV lines."""
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines)]
    except csv.Error as error:
        raise ValueError(f"{name} is no CSV: {error}") from None


def steps_from(durations: np.ndarray) -> np.ndarray:
    """Return consecutive steps from their durations [s]."""
    ends = np.cumsum(durations)
    return np.stack([ends - durations, ends], axis=1)
