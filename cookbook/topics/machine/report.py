"""The file of results: one JSON object with a declared schema, checked whenever it is read or written.

``schema`` and ``version`` identify it; ``state`` is whether the run was complete; ``options`` and ``environment``
describe the run and the machine; ``rows`` are the results, with the columns of `FIELDS`; ``skipped`` lists what was not
measured, with reasons. Values are SI: s, B/s, FLOP/s, or items per second.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from cookbook.catalog import data_directory
from cookbook.catalog.fields import Field as Declared
from cookbook.catalog.fields import checked
from cookbook.catalog.files import check_target, writing
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refused
from cookbook.result import Result
from cookbook.units import human, shown

SCHEMA, VERSION = "dl-cookbook-measurements", 1
# Runs of the cookbook's own, in the folder of data.
OWN_RUNS = ("epyc", "h200")
STATES = ("complete", "cancelled", "out of time")
MAX_FILE_BYTES, MAX_ROWS, MAX_TEXT, MAX_DEPTH = 16_000_000, 10_000, 2_000, 6
# Significant digits of rows; allowed relative difference of a rate from work over median time.
DIGITS, TOLERANCE = 6, 1e-3
# The work counted by each benchmark, hence the unit of its value: work per second, or seconds per piece of
# work.
UNITS = {
    "matmul": "FLOP/s",
    "convolution": "FLOP/s",
    "memory": "B/s",
    "launch": "s",
    "host copy": "B/s",
    "disk sequential": "B/s",
    "disk random": "IOPS",
    "jpeg decode": "images/s",
    "all-reduce": "B/s",
    "training step": "samples/s",
    "forward pass": "samples/s",
    "prefill": "tokens/s",
    "decode": "tokens/s",
}


class Field(NamedTuple):
    """One column of a row: its type (text, number or integer), whether it is required, and its meaning."""

    type: str
    required: bool
    meaning: str


FIELDS = {
    "benchmark": Field("text", True, "What was measured: one of UNITS"),
    "case": Field("text", True, "Its sizes in words"),
    "path": Field("text", True, "What ran it: numpy, torch, files, fio, pillow"),
    "device": Field("text", True, "cpu, cuda, mps"),
    "model": Field("text", False, "Network of the zoo"),
    "batch": Field("integer", False, "Samples or sequences of one pass"),
    "seq": Field("integer", False, "Sequence length, or tokens in the cache of a decoding step [tokens]"),
    "number_format": Field("text", False, "Number format"),
    "method": Field("text", False, "How it ran: eager, graph, recompute, lora; pinned; cache state"),
    "work": Field("number", True, "Work of one call in the counted unit: FLOP, B, samples, tokens, calls"),
    "value": Field("number", True, "Median result, in unit"),
    "unit": Field("text", True, "Unit of value"),
    "median_s": Field("number", True, "Median time of one call [s]"),
    "low_s": Field("number", True, "Fastest sample [s]"),
    "q1_s": Field("number", True, "First quartile [s]"),
    "q3_s": Field("number", True, "Third quartile [s]"),
    "high_s": Field("number", True, "Slowest sample [s]"),
    "samples": Field("integer", True, "Samples timed after the warm-up"),
    "calls": Field("integer", True, "Calls in a sample, whose time is divided by them"),
    "memory_bytes": Field("number", False, "Peak of device memory allocated during the call [B]"),
    "note": Field("text", False, "What to mind"),
}
# Further required fields of network rows, so that they can be predicted.
REQUIRED_FIELDS = {
    "training step": ("model", "batch"),
    "forward pass": ("model", "batch"),
    "prefill": ("model", "batch", "seq"),
    "decode": ("model", "batch", "seq"),
}
TIMES = ("low_s", "q1_s", "median_s", "q3_s", "high_s")
# Files of other tools by a key that they have and ours has not.
OTHER_FILES = {
    "traceEvents": "a Chrome or PyTorch profiler trace",
    "fio version": "a result of fio",
    "machine_info": "a result of pytest-benchmark",
    "architectures": "the configuration of a model",
    "cells": "a notebook",
    "context": "a result of Google Benchmark",
    "results": "a result of another tool",
}


@dataclass(frozen=True, repr=False)
class Report(Result):
    """The results of one run.

    Attributes
    ----------
    state : str
        "complete", "cancelled" or "out of time"; finished rows are kept in each case.
    created : str
        Day and minute of the end of the run, UTC.
    options, environment : mapping
        The requested options; processor, devices, software, clocks and load. No names of hosts or users, no paths.
    rows : tuple of mapping
        Results, with the columns of `FIELDS`.
    skipped : tuple of mapping
        ``benchmark``, ``case`` and ``why`` of each case that was not measured.
    """

    state: str
    created: str
    options: Mapping[str, Any]
    environment: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    skipped: Sequence[Mapping[str, Any]] = field(default=())

    def __post_init__(self) -> None:
        _check_document(self.document())

    def __len__(self) -> int:
        return len(self.rows)

    def document(self) -> dict[str, Any]:
        """Return the JSON object that `write` writes."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "state": self.state,
            "created": self.created,
            "options": dict(self.options),
            "environment": dict(self.environment),
            "rows": [dict(row) for row in self.rows],
            "skipped": [dict(entry) for entry in self.skipped],
        }

    def frame(self) -> pd.DataFrame:
        """Return one row per result, with the columns of `FIELDS`; what a row does not state is blank."""
        columns = {name: [row.get(name) for row in self.rows] for name in FIELDS}
        kinds = {"number": "float64", "integer": "Int64", "text": "str"}
        return pd.DataFrame({name: pd.Series(cells, dtype=kinds[FIELDS[name].type]) for name, cells in columns.items()})

    def write(self, path: str | Path) -> Path:
        """Write the file, whole or not at all, and return its path."""
        check_target(path)
        with writing(path) as file:
            json.dump(self.document(), file, indent=1, ensure_ascii=True, allow_nan=False)
            file.write("\n")
        return Path(path)

    def summary(self) -> str:
        """Return the report in one short line."""
        device = self.environment.get("device_name") or self.environment.get("processor") or "unknown device"
        left = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"{len(self.rows)} results on {device}, {self.state}{left}"

    def lines(self) -> list[str]:
        """Return each result as a sentence for a screen: median, and the middle half of the samples."""
        return [_line(row) for row in self.rows]


def _line(row: Mapping[str, Any]) -> str:
    label = " ".join(filter(None, [row["benchmark"], row["case"], row.get("number_format"), row.get("method")]))
    unit = row["unit"]
    value = human(row["value"], unit) if unit in ("s", "B/s", "FLOP/s") else f"{human(row['value'])} {unit}"
    return f"{label}: {value}, {human(row['median_s'], 's')} ({human(row['q1_s'], 's')} to {human(row['q3_s'], 's')})"


def row(benchmark: str, work: float, times: Sequence[float], calls: int, **fields: Any) -> dict[str, Any]:
    """Return a row of results from the times of one call [s], its work and its other fields."""
    ordered = sorted(times)
    shares = dict(zip(TIMES, (0.0, 0.25, 0.5, 0.75, 1.0), strict=True))
    quantiles = {name: rounded(_quantile(ordered, share)) for name, share in shares.items()}
    median = quantiles["median_s"]
    value = median / work if UNITS[benchmark] == "s" else work / median
    stated = {name: entry for name, entry in fields.items() if entry not in (None, "")}
    whole: dict[str, Any] = {"benchmark": benchmark, **stated, "work": work, "value": rounded(value)}
    whole |= {"unit": UNITS[benchmark], **quantiles, "samples": len(ordered), "calls": calls}
    return {name: whole[name] for name in FIELDS if name in whole}


def rounded(value: float) -> float:
    """Return a value rounded to the digits that rows store."""
    return float(f"{value:.{DIGITS}g}")


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


PATH = Declared.record(str, Path, what="path", give="the path of a file of results")


@checked(path=PATH)
def read(path: str | Path) -> Report:
    """Read a file of results and check all of it.

    Parameters
    ----------
    path : str or Path
        A file that `Report.write` or ``python -m cookbook measure`` wrote.

    Raises
    ------
    ValueError
        If the file is missing, truncated, too large, of another tool or a later version, or a row is invalid; the
        message has the location, the content and the expectation.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "trace.json"
    >>> _ = file.write_text('{"traceEvents": []}')
    >>> read(file)
    Traceback (most recent call last):
    ValueError: trace.json is a Chrome or PyTorch profiler trace, not a file of `python -m cookbook measure`
    """
    if "\0" in str(path):
        raise replace(PATH, name="path").refuse(path, "is no path")
    target = Path(path)
    name = target.name[:80]
    try:
        if target.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(
                f"{name} has {target.stat().st_size:,} bytes; a file of results has at most {MAX_FILE_BYTES:,}"
            )
        text = target.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8 text; give the JSON file that the benchmark wrote") from None
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror or 'no such file'}; give a file of results") from None
    if not text.strip():
        raise ValueError(f"{name} is empty; measure again, or copy the whole file")
    hooks = {"parse_constant": _no_constant, "parse_int": _bounded}
    return of_document(
        parsed_json(text, name, "a file of results", "measure again, or copy the whole file", **hooks), name
    )


@checked(machine=Declared.choice(*OWN_RUNS))
def own_run(machine: str = OWN_RUNS[0]) -> Report:
    """Return a run of the cookbook's own.

    Parameters
    ----------
    machine : {"epyc", "h200"}
        The run from which recipe 11 starts (two virtual cores, one thread, PyTorch), or that of one H200, with
        language models.

    Returns
    -------
    Report
        As `read` returns it.

    Raises
    ------
    ValueError
        A machine that is not one of these.

    Examples
    --------
    >>> own_run().environment["processor"], len(own_run())
    ('AMD EPYC', 52)
    """
    return read(data_directory() / f"own_run_{machine}.json")


def parsed_json(text: str, name: str, what: str, remedy: str, **hooks: Any) -> Any:
    """Return the value of the JSON text of a file; ValueError in words where it is truncated, too deep or invalid.

    Parameters
    ----------
    text, name, what : str
        The text, the name of its file, and what the file should be.
    remedy : str
        What to do about a truncated one.
    **hooks
        As of `json.loads`; their ValueError is told with the name of the file.
    """
    try:
        return json.loads(text, **hooks)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
            problem = f"{name} ends in the middle, at line {error.lineno}: it is truncated; {remedy}"
            raise ValueError(problem) from None
        raise ValueError(f"{name} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply for {what}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {str(error)[:200]}") from None


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no figure; leave out what is not known")


def _bounded(digits: str) -> int:
    if len(digits) > 300:
        raise ValueError(f"a number of {len(digits):,} digits is no measurement")
    return int(digits)


def of_document(document: Any, name: str) -> Report:
    """Return a report from its JSON object; the ValueError for an invalid one or a bad row begins with `name`."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        keys = document if isinstance(document, dict) else {}
        kind = next((words for key, words in OTHER_FILES.items() if key in keys), "another JSON file")
        raise ValueError(f"{name} is {kind}, not a file of `python -m cookbook measure`")
    try:
        _check_document(document)
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    return Report(**{key: document[key] for key in ("state", "created", "options", "environment", "rows", "skipped")})


def _check_document(document: Mapping[str, Any]) -> None:
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise refused("version", version, f"must be a whole number from 1 to {VERSION}")
    if version > VERSION:
        raise ValueError(f"version {version} is of a later cookbook; this one reads up to {VERSION}: update it")
    kinds = {"created": str, "options": Mapping, "environment": Mapping, "rows": list, "skipped": list}
    for key, kind in kinds.items():
        if not isinstance(document.get(key), kind):
            words = {str: "a text", Mapping: "an object", list: "a list"}[kind]
            raise refused(key, document.get(key), f"must be {words}; the file may be cut or changed by hand")
    if document.get("state") not in STATES:
        raise refused("state", document.get("state"), f"must be one of {', '.join(STATES)}")
    if len(document["rows"]) > MAX_ROWS or len(document["skipped"]) > MAX_ROWS:
        raise ValueError(f"it has more than {MAX_ROWS:,} rows; split it")
    for key in ("created", "options", "environment", "skipped"):
        _check_plain(key, document[key])
    for number, entry in enumerate(document["rows"], start=1):
        try:
            _check_row(entry)
        except ValueError as problem:
            raise ValueError(f"row {number}: {problem}") from None


def _check_plain(place: str, value: Any, depth: int = 0) -> None:
    """Check that options, environment and skipped cases are plain, short values."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{place[:80]} is nested too deeply")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_plain(f"{place}.{str(key)[:40]}", inner, depth + 1)
    elif isinstance(value, list):
        for inner in value[: MAX_ROWS + 1]:
            _check_plain(place, inner, depth + 1)
    elif isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ValueError(f"{place[:80]} has {len(value):,} letters; at most {MAX_TEXT:,} are kept")
    elif value is not None and not isinstance(value, bool):
        _number(place, value)


def _check_row(entry: Any) -> None:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{shown(entry)} must be an object with {', '.join(list(FIELDS)[:3])} ...")
    check_names(entry, list(FIELDS), "a result", "field")
    for name, column in FIELDS.items():
        _check_cell(name, column, entry.get(name))
    benchmark, unit = entry["benchmark"], entry["unit"]
    if benchmark not in UNITS:
        raise refused("benchmark", benchmark, f"must be one of {', '.join(UNITS)}")
    if unit != UNITS[benchmark]:
        raise refused("unit", unit, f": a {benchmark} is given in {UNITS[benchmark]}; convert value and unit")
    for name in REQUIRED_FIELDS.get(benchmark, ()):
        if not entry.get(name):
            raise ValueError(f"{name} is missing: a {benchmark} tells {', '.join(REQUIRED_FIELDS[benchmark])}")
    times = [entry[name] for name in TIMES]
    if times != sorted(times) or times[0] <= 0:
        raise ValueError(f"times {', '.join(TIMES)} = {shown(times)} must be above 0 and in this order, in seconds")
    expected = entry["median_s"] / entry["work"] if unit == "s" else entry["work"] / entry["median_s"]
    if not math.isclose(entry["value"], expected, rel_tol=TOLERANCE):
        raise ValueError(
            f"value = {entry['value']:g} {unit}, but work and median time give {expected:g} {unit}; "
            "one of them is in another unit"
        )


def _check_cell(name: str, column: Field, value: Any) -> None:
    if value is None:
        if column.required:
            raise ValueError(f"{name} is missing: {column.meaning}")
        return
    if column.type == "text":
        if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
            raise refused(name, value, f"must be a text of 1 to {MAX_TEXT:,} letters")
        return
    quantity = _number(name, value)
    if quantity < 0 or (quantity == 0 and column.required):
        raise refused(name, value, "must be above 0")
    if column.type == "integer" and quantity != round(quantity):
        raise refused(name, value, "must be a whole number")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name[:80]} = {shown(value)} must be a number without a unit")
    if not abs(value) < 1e30:
        raise ValueError(f"{name[:80]} = {shown(value)} is beyond any measurement; write a finite number in SI")
    return float(value)
