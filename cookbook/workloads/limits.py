"""Limits of everything that a stranger's file may ask for, in one place: bytes, members, nesting, nodes and parameters.

Each is some ten to a hundred times what the largest files of today have; a reader is done within seconds and some
hundred megabytes whatever it is given.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

# Bytes of a text that describes a network, of a checkpoint's header, and of an ONNX file, which protobuf limits.
MOST_BYTES_OF_TEXT, MOST_BYTES_OF_HEADER, MOST_BYTES_OF_GRAPH = 8 * 2**20, 48 * 2**20, 2**31 - 1
# Groups (lists and objects) and values of one JSON text.
MOST_GROUPS, MOST_VALUES = 600_000, 4_000_000
# Layers of a description, nodes and operations of a graph, and inputs of all of them together.
MOST_LAYERS_OF_FILE, MOST_NODES, MOST_REFERENCES = 5000, 50_000, 250_000
MOST_FIELDS, MOST_TENSORS, LARGEST_TENSOR = 50_000, 200_000, 2**48
MOST_PARAMETERS, MOST_WORK = 10**15, 1e24  # of a network; of one sample, in elements and multiplications
MOST_BYTES_OF_DIRECTORY = 4 * 2**20  # of a zip archive: the list of what is in it


def parsed_json(text: str, what: str, groups: int = MOST_GROUPS, values: int = MOST_VALUES) -> Any:
    """What a JSON text says.

    Parameters
    ----------
    text, what : str
        The text, and what it is, for messages.
    groups, values : int
        Most lists and objects, and most values, that it may have: they are counted before any is made.

    Raises
    ------
    ValueError
        It is no JSON, has too many members, is nested too deeply, or has a number of too many digits.
    """
    for marks, most, each in (("{[", groups, "lists and groups"), (",", values, "values")):
        number = sum(map(text.count, marks))
        if number > most:
            raise ValueError(f"{what} has {number:,} {each}; at most {most:,} are read")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{what} is not valid JSON: it is nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise ValueError(f"{what} is not valid JSON: {str(problem)[:100]}") from None
    except ValueError:
        raise ValueError(f"{what} is not valid JSON: it has a number of too many digits") from None


def directory_fits(file: BinaryIO) -> bool:
    """Whether the directory of a zip archive is small enough to be read: its size stands at the end of the file."""
    end, longest = file.seek(0, 2), 22 + 2**16
    file.seek(max(end - longest, 0))
    tail = file.read(longest)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 16 > len(tail):
        return False
    file.seek(0)
    return bool(struct.unpack("<I", tail[at + 12 : at + 16])[0] <= MOST_BYTES_OF_DIRECTORY)
