"""Output files: tables as CSV text that no spreadsheet interprets as formulas, and files written atomically."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import Any, TextIO

import pandas as pd

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
CONTROL_CHARACTERS = ("\t", "\r", "\n", "\0")


@contextmanager
def writing(path: str | Path) -> Iterator[TextIO]:
    """Open a text file for writing, which replaces `path` only once it is completely written to disk.

    Until then it is beside the target under another name; in case of errors, the old file remains intact. A link
    remains a link: its target is replaced. Devices and pipes, such as /dev/stdout, are written directly.

    Parameters
    ----------
    path : str or Path
        The file, written as UTF-8 with the line ends given.

    Raises
    ------
    ValueError
        As in `check_target`.
    """
    check_target(path)
    if Path(path).exists() and not Path(path).is_file():
        with open(path, "w", encoding="utf-8", newline="") as device:
            yield device
        return
    target = Path(path).resolve()
    handle, name = mkstemp(prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(name, target)
    finally:  # where all went well, nothing bears the name any more
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file atomically; see `writing`."""
    with writing(path) as file:
        file.write(text)
    return Path(path)


def write_bytes(path: str | Path, content: bytes) -> Path:
    """Write a file of any kind atomically; see `writing`."""
    with writing(path) as file:
        file.buffer.write(content)
    return Path(path)


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as a table of `data/`, cells in the order of `columns` and blank where a row has none."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return write_text(path, text.getvalue())


def check_target(path: str | Path, *sources: str | Path, new_folders: bool = False) -> Path:
    """Refuse a file that is not writable, or that is one of the sources; to be called before anything is computed.

    Parameters
    ----------
    path : str or Path
        The file to write.
    *sources : str or Path
        Files from which it is computed, under any name or link.
    new_folders : bool
        True to create missing folders.

    Raises
    ------
    ValueError
        If the folder does not exist or is not writable, the path is a folder, or the file is a source.
    """
    target = Path(path)
    folder = target.resolve().parent
    if target.is_dir():
        raise ValueError(f"{target} is a folder: name a file in it")
    if not folder.is_dir() and not new_folders:
        raise ValueError(f"{target} cannot be written: the folder {folder} does not exist; make it first")
    if folder.is_dir() and not os.access(folder, os.W_OK) and not target.exists():
        raise ValueError(f"{target} cannot be written: the folder {folder} takes no new files; choose another")
    for source in map(Path, sources):
        if target.resolve() == source.resolve() or (target.exists() and source.exists() and target.samefile(source)):
            raise ValueError(f"{target} is the file that is read ({source}) and would be destroyed; choose another")
    return target


def safe_cell(cell: Any) -> Any:
    """Return a cell safe for download: text that a spreadsheet would run as a formula begins with an apostrophe.

    >>> [safe_cell(cell) for cell in ("=1+1", "-3.5e3", "@SUM(A1)", "H100", "-x", 7)]
    ["'=1+1", '-3.5e3', "'@SUM(A1)", 'H100', "'-x", 7]
    """
    if not isinstance(cell, str) or not cell.lstrip(" ").startswith(FORMULA_SIGNS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell if "_" not in cell and not any(letter in cell for letter in CONTROL_CHARACTERS) else f"'{cell}"


def csv_text(frame: pd.DataFrame) -> str:
    """Return a frame as the text of a CSV file for a reader to keep, its text cells and headings made safe."""
    shown = frame.rename(columns=safe_cell)
    for place, kind in enumerate(shown.dtypes):
        if kind.kind not in "biufcmM":
            shown.isetitem(place, shown.iloc[:, place].map(safe_cell))
    return shown.to_csv(index=False)
