"""Readers of training logs with the times of steps: CSV, lines of JSON, and plain text with a pattern.

A pattern is a line with ``{step}`` and ``{seconds}``, ``{ms}`` or ``{rate}`` (steps per second) in place of numbers,
such as ``"step {step} | {ms} ms"``; the rest is plain text, ``*`` matches anything, and no regular expression of a
reader is run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cookbook.catalog.refusals import refused
from cookbook.topics.clinic.reading import KNOWN_FORMATS, Notes, Reading, number, steps_from
from cookbook.units import shown

# Columns by content: unit in seconds, or negative for a rate in steps per second.
STEP_COLUMNS = ("step", "iteration", "iter", "global_step", "batch_idx", "it", "steps")
TIME_COLUMNS = {
    "step_time": 1.0,
    "step_time_s": 1.0,
    "step_seconds": 1.0,
    "step_time_ms": 1e-3,
    "iter_time": 1.0,
    "iteration_time": 1.0,
    "iter_time_ms": 1e-3,
    "iteration_time_ms": 1e-3,
    "time_per_step": 1.0,
    "seconds": 1.0,
    "elapsed_time_per_iteration_ms": 1e-3,
    "elapsed time per iteration (ms)": 1e-3,
    "batch_time": 1.0,
    "time_s": 1.0,
    "time_ms": 1e-3,
    "step_ms": 1e-3,
    "dt": 1.0,
    "duration": 1.0,
    "duration_s": 1.0,
    "train_step_time": 1.0,
    "steps_per_second": -1.0,
    "it/s": -1.0,
    "steps_per_sec": -1.0,
    "train_steps_per_second": -1.0,
}
CLOCK_COLUMNS = ("timestamp", "wall_time", "_timestamp", "unix_time")
TERM_COLUMNS = {
    "input": ("data_time", "data_time_s", "dataloader_time", "data_wait", "data_loading_time", "input_time"),
    "communication": ("comm_time", "communication_time", "allreduce_time", "all_reduce_time", "grad_sync_time"),
    "checkpoint": ("checkpoint_time", "save_time", "checkpoint_save_time"),
    "compute": ("compute_time", "forward_backward_time"),
}
FIGURE, WORDS = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)", "(?:step|it|iter|iteration|batch)"
# Usual spellings of step times in lines of text.
USUAL_PATTERNS = (
    ("{ms}ms/step", re.compile(rf"(?<![\w.]){FIGURE} ?ms ?/ ?{WORDS}\b"), 1e-3),
    ("{seconds}s/step", re.compile(rf"(?<![\w.]){FIGURE} ?s ?/ ?{WORDS}\b"), 1.0),
    ("{rate}it/s", re.compile(rf"(?<![\w.]){FIGURE} ?(?:step|steps|it|iter)/s\b"), -1.0),
    ("elapsed time per iteration (ms): {ms}", re.compile(rf"elapsed time per iteration \(ms\): ?{FIGURE}"), 1e-3),
    ("step_time: {seconds}", re.compile(rf"{WORDS}[_ ]time[ :=]{{1,3}}{FIGURE}(?![0-9.]| ?ms)"), 1.0),
    ("step_time: {ms} ms", re.compile(rf"{WORDS}[_ ]time[ :=]{{1,3}}{FIGURE} ?ms"), 1e-3),
)
MAX_PATTERN, LONGEST_LINE = 200, 2_000
FEWEST, LONGEST_STEP = 3, 1e7  # steps of a log; seconds of one, some hundred days


def is_header(cells: Sequence[str]) -> bool:
    """Return True if a line of CSV names a time of a step, or a step and a clock."""
    names = {_normalised(cell) for cell in cells}
    return bool(names & set(TIME_COLUMNS)) or bool(names & set(CLOCK_COLUMNS) and names & set(STEP_COLUMNS))


def _normalised(name: Any) -> str:
    return str(name).strip().lower().replace(" [s]", "_s").replace(" [ms]", "_ms").replace("perf/", "")


def from_rows(rows: list[list[str]], name: str) -> Reading:
    """Read a log as CSV, whose first line names the columns."""
    head, notes = rows[0], Notes()
    records = []
    for line, row in enumerate(rows[1:], start=2):
        if len(row) == len(head):
            records.append((line, dict(zip(head, row, strict=True))))
        elif any(row):
            notes.add("lines with another number of columns than the header", f"line {line}")
    return _reading(records, name, "training log (CSV)", notes)


def from_json_lines(lines: list[str], name: str) -> Reading:
    """Read a log with one JSON object per line."""
    notes, records = Notes(), []
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            notes.add("lines that are no JSON", f"line {line}")
            continue
        if isinstance(record, dict):
            records.append((line, record))
        else:
            notes.add("lines that are no JSON object", f"line {line}")
    return _reading(records, name, "training log (JSON lines)", notes)


def _reading(rows: Sequence[tuple[int, Mapping[str, Any]]], name: str, kind: str, notes: Notes) -> Reading:
    keys = {_normalised(key): key for _, row in rows for key in row}
    timed, clock = (next((column for column in names if column in keys), "") for names in (TIME_COLUMNS, CLOCK_COLUMNS))
    if not timed and not clock:
        raise ValueError(
            f"{name} tells no time of a step: its columns are {shown(sorted(keys)[:8])}; name one "
            "step_time (seconds), step_time_ms or steps_per_second"
        )
    columns = {
        term: key
        for term, names in TERM_COLUMNS.items()
        if (key := next((keys[column] for column in names if column in keys), None))
    }
    _note_order(rows, keys, notes)
    steps, before = [], math.nan
    for line, row in rows:
        value = number(row.get(keys[timed or clock]))
        seconds = _seconds(value, TIME_COLUMNS[timed]) if timed else value - before
        before = value
        if not timed and (line == rows[0][0] or not math.isfinite(seconds)):
            continue
        if not 0 < seconds < LONGEST_STEP:
            notes.add(
                "the clock goes backwards or stands still" if clock and not timed else "steps without a time",
                f"line {line}, column {keys[timed or clock]}",
            )
            continue
        steps.append((seconds, *(number(row.get(key)) for key in columns.values())))
    return _log_reading(steps, list(columns), name, kind, notes)


def _note_order(rows: Sequence[tuple[int, Mapping[str, Any]]], keys: Mapping[str, str], notes: Notes) -> None:
    """Note where the step number goes backwards, as it does after restarts."""
    step, before = next((keys[name] for name in STEP_COLUMNS if name in keys), ""), -math.inf
    for line, row in rows if step else ():
        before = _later(number(row.get(step)), before, line, notes)


def _later(at: float, before: float, line: int, notes: Notes) -> float:
    """Return the number of the last step, noting where it is below the one before."""
    if at < before:
        notes.add("the number of the step goes backwards: a restart, or two logs in one", f"line {line}")
    return at if math.isfinite(at) else before


def _seconds(value: float, scale: float) -> float:
    if scale > 0:
        return value * scale
    return 1 / value if value > 0 else math.nan


def _log_reading(steps: Iterable[tuple[float, ...]], terms: list[str], name: str, kind: str, notes: Notes) -> Reading:
    table = np.array(list(steps), dtype=float).reshape(-1, 1 + len(terms))
    if len(table) < FEWEST:
        raise ValueError(
            f"{name} has {len(table)} steps with a time; at least {FEWEST} are needed to tell a usual "
            "step from a slow one"
        )
    columns = {term: np.clip(np.nan_to_num(table[:, place]), 0, table[:, 0]) for place, term in enumerate(terms, 1)}
    return Reading(name, kind, steps_from(table[:, 0]), columns=columns, notes=notes())


def from_text(lines: list[str], name: str, pattern: str = "") -> Reading:
    """Read a log of plain text, with times as lines usually print them, or where `pattern` locates them."""
    patterns = [_compiled(pattern)] if pattern else list(USUAL_PATTERNS)
    lines = [line[:LONGEST_LINE] for line in lines]
    counted = [
        (sum(1 for line in lines if candidate[1].search(line)), -place) for place, candidate in enumerate(patterns)
    ]
    most, place = max(counted)
    if most < FEWEST:
        fitting = f"the pattern {shown(pattern)} fits {most}" if pattern else f"the time of a step was found in {most}"
        raise ValueError(
            f"{name} is not understood: {fitting} of its {len(lines):,} lines; known are {KNOWN_FORMATS}. For a log of "
            'your own, give pattern="step {step} took {seconds} s" with its words'
        )
    _, used, scale = patterns[-place]
    notes, steps, before = Notes(), [], -math.inf
    for line, text in enumerate(lines, start=1):
        match = used.search(text)
        if not match:
            continue
        before = _later(number(match.groupdict().get("step")), before, line, notes)
        seconds = _seconds(number(match["time"] if "time" in used.groupindex else match[1]), scale)
        if 0 < seconds < LONGEST_STEP:
            steps.append((seconds,))
        else:
            notes.add("steps without a time", f"line {line}")
    if most < len(lines):
        notes.add(f"{len(lines) - most:,} lines tell no time of a step")
    return _log_reading(steps, [], name, "training log (text)", notes)


def _compiled(pattern: Any) -> tuple[str, re.Pattern[str], float]:
    """Compile a reader's pattern to an expression that reads every letter once: no part of it can repeat another."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN:
        raise refused("pattern", pattern, f"must be a text of 1 to {MAX_PATTERN} letters")
    scales = {"{seconds}": 1.0, "{ms}": 1e-3, "{rate}": -1.0}
    time_marks = [mark for mark in scales if mark in pattern]
    if (
        len(time_marks) != 1
        or pattern.count(time_marks[0]) != 1
        or pattern.count("{step}") > 1
        or pattern.count("*") > 1
    ):
        raise refused(
            "pattern", pattern, f"must hold one of {', '.join(scales)}, at most one {{step}} and at most one *"
        )
    figure = r"[0-9]{1,15}(?:[.][0-9]{1,15})?"
    text = re.escape(pattern).replace(re.escape(time_marks[0]), f"(?P<time>{figure})")
    text = text.replace(re.escape("{step}"), r"(?P<step>[0-9]{1,15})").replace(r"\*", ".{0,200}?")
    text = text.replace(r"\ ", r"\s{1,20}")
    return pattern, re.compile(text), scales[time_marks[0]]
