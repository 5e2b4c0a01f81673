"""Recognition of the tool that wrote a file, by its content and never by its name; then its reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cookbook import catalog
from cookbook.catalog.fields import Field, checked
from cookbook.topics.clinic import counters, logs, spans
from cookbook.topics.clinic.reading import (
    KNOWN_FORMATS,
    SQLITE,
    Reading,
    cells_of,
    contents,
    lines_of,
    parsed_json,
    text_of,
)
from cookbook.topics.machine.report import OTHER_FILES

HEAD_LINES = 60  # lines that are looked at


def read_trace(path: str | Path, pattern: str = "") -> Reading:
    """Read one file of a profiler, a counter or a training log.

    Parameters
    ----------
    path : str or Path
        The file, also compressed by gzip. Its content determines which tool wrote it.
    pattern : str, optional
        Form of a line in a plain-text log: ``{step}`` and ``{seconds}``, ``{ms}`` or ``{rate}`` replace its numbers.

    Returns
    -------
    Reading
        Steps, spans and counters, and the content that was not understood.

    Raises
    ------
    ValueError
        If it is unreadable, empty, truncated, too large, nested too deeply, or of an unknown tool; the
        message has the location and the remedy.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("step,step_time_s\\n1,0.5\\n2,0.4\\n3,0.6\\n")
    >>> read_trace(file).kind
    'training log (CSV)'
    """
    target, raw = contents(path)
    name = target.name[:80]
    if raw.startswith(SQLITE):
        return spans.nsight_sqlite(target, name)
    return read_text(text_of(raw, name), name, pattern)


def read_text(text: str, name: str = "your text", pattern: str = "") -> Reading:
    """Read the text of a file of a profiler, a counter or a training log, as `read_trace` does of the file.

    Examples
    --------
    >>> read_text("step,step_time_s\\n1,0.5\\n2,0.4\\n3,0.6\\n").kind
    'training log (CSV)'
    """
    if not text.strip():
        raise ValueError(f"{name} is empty; paste what the tool wrote")
    if _is_json(text) and not _is_lines(text):
        return _from_json(parsed_json(text, name), name)
    return _from_lines(lines_of(text, name), name, pattern)


@checked(name=Field.named("traces", what="patient"))
def patient(name: str) -> list[Path]:
    """Return the files of a run with a planted cause, from the table ``traces``.

    Raises
    ------
    cookbook.catalog.UnknownName
        If no patient has that name; the message lists the nearest.

    Examples
    --------
    >>> [path.name for path in patient("anna")]
    ['anna.json.gz']
    """
    files = catalog.table("traces").set_index("patient")["files"][catalog.lookup("traces", name)]
    return [catalog.data_directory() / "traces" / file.strip() for file in files.split(";")]


def _is_json(text: str) -> bool:
    """Return True if a text begins as JSON; "[train] step 1" and "[2026-01-01]" begin lines of logs."""
    start = "".join(text.lstrip()[:200].split())[:2]
    return start.startswith("{") or start in ("[{", "[[", "[]", '["')


def _is_lines(text: str) -> bool:
    """Return True if each line is an object of its own."""
    first = [line.strip() for line in text.lstrip()[:20_000].splitlines()[:2]]
    return len(first) == 2 and all(line.startswith("{") and line.endswith("}") for line in first)


def _from_json(content: Any, name: str) -> Reading:
    if isinstance(content, list):
        if content and isinstance(content[0], Mapping) and "ph" in content[0]:
            return spans.chrome(content, name)
        raise ValueError(f"{name} is a list of JSON that no tool here writes; known are {KNOWN_FORMATS}")
    if not isinstance(content, Mapping):
        raise ValueError(f"{name} is one JSON value and no trace; known are {KNOWN_FORMATS}")
    if "traceEvents" in content:
        return spans.chrome(content, name)
    if "fio version" in content or "jobs" in content:
        return counters.fio(content, name)
    if content.get("schema") == "dl-cookbook-measurements":
        raise ValueError(f"{name} is a file of results of this cookbook; read it with cb.measure.read")
    tool = next((words for key, words in OTHER_FILES.items() if key in content), "JSON of another tool")
    keys = ", ".join(repr(str(key)[:30]) for key in list(content)[:4])
    raise ValueError(f"{name} is {tool}, with the keys {keys or 'none'}, and no trace; known are {KNOWN_FORMATS}")


def _from_lines(lines: list[str], name: str, pattern: str) -> Reading:
    some = [line for line in lines if line.strip()][:HEAD_LINES]
    if not some:
        raise ValueError(f"{name} is empty: nothing was recorded, or the tool had not closed it; record again")
    if pattern:
        return logs.from_text(lines, name, pattern)
    if some[0].lstrip().startswith("{"):
        return logs.from_json_lines(lines, name)
    head = some[0].lstrip("# ").lower().split()
    if some[0].lstrip().startswith("#") and head[:1] in (["gpu"], ["entity"], ["date"], ["time"]):
        return counters.dmon(lines, name)
    if any("busbw" in line and "algbw" in line for line in some):
        return counters.nccl(lines, name)
    if counters.is_prometheus(lines):
        return counters.prometheus(lines, name)
    if any(line.startswith("avg-cpu:") or line.split()[0].rstrip(":") == "Device" for line in some):
        return counters.iostat(lines, name)
    at = next((place for place, line in enumerate(lines[:HEAD_LINES]) if _is_table(line)), None)
    if at is not None:
        rows = cells_of(lines[at:], name)
        if counters.is_query(rows[0]):
            return counters.query(rows, name)
        return logs.from_rows(rows, name) if logs.is_header(rows[0]) else spans.nsight_csv(rows, 0, name)
    return logs.from_text(lines, name)


def _is_table(line: str) -> bool:
    """Return True if a line names columns of a known table."""
    cells = cells_of([line], "")[0]
    names = {cell.lower() for cell in cells}
    nsight = "name" in names and any(name.startswith(("duration (", "total time (")) for name in names)
    return counters.is_query(cells) or logs.is_header(cells) or nsight
