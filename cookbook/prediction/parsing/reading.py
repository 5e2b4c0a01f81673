"""Reads a reader's own table of scenarios, however it was saved: one bad row never stops the prediction of the rest.

Plain stretches of a file go through pandas' quick parser, a block at a time; where a row has too few or too many cells,
or a quote is misplaced, the lines of that block are read one by one, and each doubtful row says what is wrong with it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cookbook.units import shown

DELIMITERS = (",", ";", "\t", "|")
MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
)
# What other kinds of file begin with, and how to make a CSV file of one.
OTHER_FILES = (
    (b"\x1f\x8b", "packed by gzip: unpack it first (gunzip)"),
    (b"BZh", "packed by bzip2: unpack it first (bunzip2)"),
    (b"\xfd7zXZ", "packed by xz: unpack it first (unxz)"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd: unpack it first"),
    (b"PK\x03\x04", "an Excel workbook or a zip archive: save the sheet as CSV (UTF-8), or unpack the archive"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save the sheet as CSV (UTF-8)"),
    (b"%PDF", "a PDF: copy its table"),
    (b"PAR1", "a Parquet file: save it with pandas' to_csv"),
    (b"ARROW1", "an Arrow file: save it with pandas' to_csv"),
    (b"{", "JSON: save it as CSV, one row a scenario"),
    (b"[", "JSON: save it as CSV, one row a scenario"),
    (b"<", "HTML or XML: save its table as CSV"),
)
BLOCK_BYTES, HEAD_BYTES = 1 << 24, 1 << 16
# The longest row that is looked at, and the lines over which one quoted cell may reach.
MAX_ROW_LETTERS, MAX_LINES = 100_000, 50
UNCLOSED = "a quote in line {line} is not closed, or stands within a cell: write it twice, in a cell between quotes"
NEWLINE, QUOTE, RETURN = 10, 34, 13


@dataclass(frozen=True)
class _Layout:
    """The form of a file: its header, its delimiter, where the rows begin, what is wrong with all."""

    header: tuple[str, ...]
    delimiter: str
    begin: int
    problem: str = ""


def read_blocks(path: str | Path) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """Read a CSV file block by block, so that a million rows take little memory.

    It may have any of the usual encodings, line ends, delimiters and ways of quoting. A row with fewer or more cells
    than the header is kept, with the reason that it cannot be trusted; a file without rows gives none.

    Parameters
    ----------
    path : str or Path
        The file.

    Yields
    ------
    pandas.DataFrame, numpy.ndarray
        The cells of some 100,000 rows as categorical text, blank where a row has none; and for each row why it cannot
        be read as meant, "" where it can.

    Raises
    ------
    ValueError
        If the file is no CSV file, or has no header: what it is, and what to do.
    """
    content = _utf8(path, Path(path).read_bytes())
    layout = _layout(path, content)
    at = layout.begin
    while at < len(content):
        end = len(content) if len(content) - at <= BLOCK_BYTES else content.rfind(b"\n", at, at + BLOCK_BYTES) + 1
        end = end if end > at else content.find(b"\n", at + BLOCK_BYTES) + 1 or len(content)
        block = content[at:end]
        if _is_plain(block, layout):
            frame, why, reached = *_quick(block, layout), end
        else:
            frame, why, reached = _careful(content, at, end, layout)
        at = reached
        if len(why):
            why[why == ""] = layout.problem
            yield frame, why


# ---- the whole file -----------------------------------------------------------------------------------------------
def _utf8(path: str | Path, content: bytes) -> bytes:
    """Return the file with plain line ends; in UTF-8, or in the encoding of each block."""
    for mark, what in OTHER_FILES:
        if content[:HEAD_BYTES].lstrip(b"\xef\xbb\xbf \r\n\t").startswith(mark):
            raise ValueError(f"{path} is no CSV file but {what}")
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "")
    head = content[:1000]
    if not encoding and len(head) > 3 and max(head[::2].count(0), head[1::2].count(0)) > len(head) // 5:
        encoding = "utf-16-be" if head[::2].count(0) > head[1::2].count(0) else "utf-16-le"
    if encoding == "utf-8-sig":
        content = content[3:]
    elif encoding:
        content = content.decode(encoding, errors="replace").encode()
    if b"\r" in content and content.count(b"\r") != content.count(b"\r\n"):
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return content


def _layout(path: str | Path, content: bytes) -> _Layout:
    """Find the header: the first line that is neither blank, a comment nor Excel's note of the delimiter."""
    at, line, delimiter = 0, 0, ""
    while at < len(content):
        text, after = _line(content, at)
        at, line = after, line + 1
        plain = text.replace("\0", "").strip().strip('"')
        if plain.casefold().startswith("sep=") and len(plain) <= len("sep=;"):
            delimiter = plain[4:] or ("\t" if text.rstrip("\r\n").endswith("\t") else ",")
        elif plain and not plain.startswith("#"):
            return _header(path, text, delimiter, at, line)
    return _Layout((), ",", len(content))


def _header(path: str | Path, text: str, delimiter: str, begin: int, line: int) -> _Layout:
    """Return the form of a file whose header is a line; refuse one without names."""
    outside = "".join(text.split('"')[::2])  # a delimiter within a quoted name says nothing
    delimiter = delimiter or max(DELIMITERS, key=outside.count)
    header = tuple(_bare(cell) for cell in _cells(text, delimiter) or text.split(delimiter))
    numbers = [name for name in header if _is_number(name)]
    if numbers or not any(header):
        contents = f"holds the number {shown(numbers[0], 20)}" if numbers else "holds no names"
        raise ValueError(
            f"{path} has no header: line {line} {contents}; write the names of the columns in the first line"
        )
    if not all(name.isprintable() for name in header):
        raise ValueError(f"{path} is no CSV file: its first line is not text; save the table as CSV (UTF-8)")
    twice = next((name for name in header if name and header.count(name) > 1), "")
    problem = f"the header has the column {twice[:40]} twice: remove one" if twice else ""
    return _Layout(header, delimiter, begin, problem)


def _is_number(name: str) -> bool:
    """Return whether a name is a number."""
    try:
        float(name.replace(",", "."))
    except ValueError:
        return False
    return True


# ---- plain stretches ----------------------------------------------------------------------------------------------
def _is_plain(block: bytes, layout: _Layout) -> bool:
    """Return whether each line is a row with as many cells as the header, and quotes are around whole cells alone."""
    if b"\0" in block:
        return False
    letters = np.frombuffer(block, dtype=np.uint8)
    delimiters, ends = letters == ord(layout.delimiter), np.flatnonzero(letters == NEWLINE)
    if QUOTE in block:
        quotes = letters == QUOTE
        outside = np.cumsum(quotes, dtype=np.uint8) & 1 == 0  # parity alone, which wrapping at 256 does not change
        edges = np.isin(np.arange(256), [NEWLINE, RETURN, QUOTE, ord(layout.delimiter)])
        positions = np.flatnonzero(quotes)
        before, after = positions[::2] - 1, positions[1::2] + 1
        around = letters[np.r_[before[before >= 0], after[after < len(letters)]]]
        if not (outside[-1] and outside[ends].all() and edges[around].all()):
            return False
        delimiters &= outside
    ends = ends if len(ends) and ends[-1] == len(letters) - 1 else np.r_[ends, len(letters)]
    begins = np.r_[0, ends[:-1] + 1]
    length = ends - begins - (letters[np.maximum(ends - 1, 0)] == RETURN)
    counts = np.diff(np.searchsorted(np.flatnonzero(delimiters), ends), prepend=0)
    return bool(np.all((counts == len(layout.header) - 1) | (length <= 0)) and length.max() < MAX_ROW_LETTERS)


def _quick(block: bytes, layout: _Layout) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the rows of a plain block."""
    if not block.strip():
        return pd.DataFrame(), np.empty(0, dtype=object)
    frame = pd.read_csv(
        io.BytesIO(block if _is_utf8(block) else _decoded(block).encode()),
        sep=layout.delimiter,
        header=None,
        names=range(len(layout.header)),
        dtype=object,
        na_filter=False,
        engine="c",
        skipinitialspace=True,
        quoting=csv.QUOTE_MINIMAL if QUOTE in block else csv.QUOTE_NONE,
        index_col=False,
    )
    strange = _is_strange(block, layout.delimiter)
    columns = [_categorical(frame[number].to_numpy(), strange) for number in frame]
    return _table(columns, layout, np.full(len(frame), "", dtype=object))


def _is_strange(block: bytes, delimiter: str) -> bool:
    """Return whether a cell may begin or end with space, or be text as spreadsheets write it."""
    letters = np.frombuffer(block, dtype=np.uint8)
    edges = np.isin(np.arange(256), [NEWLINE, RETURN, QUOTE, ord(" "), ord(delimiter)])
    spaces = np.flatnonzero(letters == ord(" "))
    beside = edges[letters[spaces - 1]] | edges[letters[(spaces + 1) % len(letters)]]
    tabs = b"\t" in block and (delimiter != "\t" or QUOTE in block)  # between quotes a tab is text
    return bool(beside.any()) or tabs or b"\xa0" in block or b"=" in block


def _categorical(cells: np.ndarray, strange: bool) -> pd.Categorical:
    """Return a column by its different cells, made plain where something strange was seen in the block."""
    codes, names = pd.factorize(cells)
    if strange:
        merged, names = pd.factorize(np.array([_bare(name) for name in names.tolist()], dtype=object))
        codes = merged[codes]
    return pd.Categorical.from_codes(codes, pd.Index(names, dtype=object))


def _table(columns: list[pd.Categorical], layout: _Layout, why: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """Return columns under their names, without the blank rows that spreadsheets leave at the end."""
    blank = why == ""
    for column in columns:
        code = np.flatnonzero(column.categories.to_numpy() == "")
        blank &= column.codes == code[0] if len(code) else False
        if not blank.any():
            break
    named = {name: column for name, column in reversed([*zip(layout.header, columns, strict=True)]) if name}
    named = {name: named[name] for name in dict.fromkeys(filter(None, layout.header))}
    frame = pd.DataFrame(named, copy=False)
    return (frame[~blank].reset_index(drop=True), why[~blank]) if blank.any() else (frame, why)


# ---- line by line -------------------------------------------------------------------------------------------------
def _careful(content: bytes, at: int, end: int, layout: _Layout) -> tuple[pd.DataFrame, np.ndarray, int]:
    """Return the rows of the lines from `at` to `end`, or beyond where the last one goes on; doubtful ones say why."""
    rows, why, count, line = list[list[str]](), list[str](), len(layout.header), content.count(b"\n", 0, at)
    while at < end:
        text, after = _line(content, at)
        line += 1
        cells, reached, problem = _record(content, text, after, layout, line)
        line += content.count(b"\n", after, reached)
        at = reached
        if not any(cell.strip() for cell in cells) and not problem:
            continue
        if not problem and len(cells) != count:
            problem = f"the row has {len(cells)} cells, the header {count}: quote cells that hold a comma"
        rows.append([_bare(cell) for cell in (cells + [""] * count)[:count]])
        why.append(problem)
    columns = [_categorical(np.array(column, dtype=object), strange=False) for column in zip(*rows, strict=True)]
    if not rows:
        return pd.DataFrame(), np.empty(0, dtype=object), at
    return *_table(columns, layout, np.array(why, dtype=object)), at


def _record(content: bytes, text: str, after: int, layout: _Layout, line: int) -> tuple[list[str], int, str]:
    """Return the cells of the row that begins with a line, where it ends, and what is wrong with it."""
    if len(text) > MAX_ROW_LETTERS:
        return [], after, f"line {line} has {len(text):,} characters, too many for a row: is a line end missing?"
    if "\0" in text:
        return text.replace("\0", "").split(layout.delimiter), after, f"line {line} holds NUL characters: it is damaged"
    if '"' not in text:
        return text.split(layout.delimiter), after, ""
    joined, reached = text, after
    for _ in range(MAX_LINES):
        cells = _cells(joined, layout.delimiter)
        if cells is not None:
            return cells, reached, ""
        if reached >= len(content) or len(joined) > MAX_ROW_LETTERS:
            break
        more, reached = _line(content, reached)
        if len(layout.header) > 2 and more.count(layout.delimiter) >= len(layout.header) - 1:
            break  # a row of its own, which the open quote would swallow
        joined += f"\n{more}"
    return text.split(layout.delimiter), after, UNCLOSED.format(line=line)


def _cells(text: str, delimiter: str) -> list[str] | None:
    """Return the cells of one row, or nothing where its quotes do not close around whole cells."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _line(content: bytes, at: int) -> tuple[str, int]:
    """Return the line that begins at a position, and where the next one does."""
    end = content.find(b"\n", at)
    end = len(content) if end < 0 else end
    return _decoded(content[at:end]).removesuffix("\r"), end + 1


# ---- cells --------------------------------------------------------------------------------------------------------
def _is_utf8(content: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


def _decoded(content: bytes) -> str:
    """Return text in UTF-8, else in the encoding of old Windows programs, of which every byte means something."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def _bare(cell: str) -> str:
    """Return a cell without the ="..." by which spreadsheets keep text as text, and without space around it."""
    cell = cell.replace("\u00a0", " ").strip()
    return cell[2:-1].strip() if cell.startswith('="') and cell.endswith('"') and len(cell) > 2 else cell
