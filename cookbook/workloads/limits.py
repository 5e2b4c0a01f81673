"""Limits on what an untrusted file can request, in one place: bytes, members, nesting, nodes and parameters.

Each limit is 10 to 100 times the size of today's largest files; for any input, a reader ends within seconds and a few
hundred megabytes.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

# Bytes of a text that describes a network, of a checkpoint's header, and of an ONNX file, which protobuf limits.
MAX_TEXT_BYTES, MAX_HEADER_BYTES, MAX_GRAPH_BYTES = 8 * 2**20, 48 * 2**20, 2**31 - 1
# Groups (lists and objects) and values of one JSON text.
MAX_GROUPS, MAX_VALUES = 600_000, 4_000_000
# Layers of a description, nodes and operations of a graph, and inputs of all of them together.
MAX_FILE_LAYERS, MAX_NODES, MAX_REFERENCES = 5000, 50_000, 250_000
MAX_FIELDS, MAX_TENSORS, LARGEST_TENSOR = 50_000, 200_000, 2**48
MAX_PARAMETERS, MAX_WORK = 10**15, 1e24  # of a network; of one sample, in elements and multiplications
MAX_DIRECTORY_BYTES = 4 * 2**20  # of a zip archive: the list of what is in it


def parsed_json(text: str, what: str, groups: int = MAX_GROUPS) -> Any:
    """Return the value of a JSON text.

    Parameters
    ----------
    text, what : str
        The text, and its name in messages.
    groups : int
        Largest number of lists and objects; they are counted before any is parsed, as values are.

    Raises
    ------
    ValueError
        If it is not JSON, has too many members, is nested too deeply, or has a number with too many digits.
    """
    check_members(text, what, groups, MAX_VALUES)
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{what} is not valid JSON: it is nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise ValueError(f"{what} is not valid JSON: {str(problem)[:100]}") from None
    except ValueError:
        raise ValueError(f"{what} is not valid JSON: it has a number of too many digits") from None


def check_members(text: str, what: str, groups: int, values: int) -> None:
    """Refuse a JSON text with too many lists and objects, or too many values, before any of them is parsed."""
    for marks, most, noun in (("{[", groups, "lists and groups"), (",", values, "values")):
        number = sum(map(text.count, marks))
        if number > most:
            raise ValueError(f"{what} has {number:,} {noun}; at most {most:,} are read")


def archived_text(file: BinaryIO, name: str, beside: str) -> str:
    """Return a text in a zip archive that also contains another file, "" where there is none.

    No other file is unpacked.
    """
    try:
        if not _directory_fits(file):
            return ""
        with zipfile.ZipFile(file) as archive:
            if not {name, beside} <= set(archive.namelist()):
                return ""
            if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                return ""  # others may request gigabytes before they deliver a byte
            with archive.open(name) as member:
                text = member.read(MAX_TEXT_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError):
        return ""
    return text.decode("utf-8", "replace") if len(text) <= MAX_TEXT_BYTES else ""


def _directory_fits(file: BinaryIO) -> bool:
    """Return True if the directory of a zip archive is small enough to be read: its size is at the end of the file."""
    end, longest = file.seek(0, 2), 22 + 2**16
    file.seek(max(end - longest, 0))
    tail = file.read(longest)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 16 > len(tail):
        return False
    file.seek(0)
    return bool(struct.unpack("<I", tail[at + 12 : at + 16])[0] <= MAX_DIRECTORY_BYTES)
