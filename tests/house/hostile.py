"""What nobody should give to a call or a panel, and what no answer may say of it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

# Words of Python and NumPy about a mistake of ours, never about the caller's argument.
RAW = (
    "Traceback",
    "unsupported operand",
    "object has no",
    "has no attribute",
    "not subscriptable",
    "invalid literal",
    "division by zero",
    "broadcast",
    "cannot convert",
    "could not convert",
    "ufunc",
    "index out of range",
    "out of range for",
    "out of bounds",
    "unhashable",
    "not iterable",
    "not supported between",
    "truth value of",
    "ambiguous",
    "math domain",
    "must be real number",
    "must be str",
    "too large to convert",
    "setting an array element",
    "inhomogeneous",
    "shape mismatch",
    "only integer",
    "only length-1",
    "only 0-dimensional",
    "indices must be",
    "bad operand",
    "object is not callable",
    "expected str instance",
    "expected string",
    "got an",
    "cannot unpack",
    "values to unpack",
    "zero-size array",
    "null byte",
    "null character",
    "exceeds the limit",
    "set_int_max",
    "has no len()",
    "argument of type",
    "object cannot be interpreted",
    "descriptor",
    "Invalid comparison",
    "NoneType",
)


def raw_words(message: str) -> list[str]:
    """Words of a message that are Python's own."""
    return [words for words in RAW if words.lower() in message.lower()]


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(40):
        nested = [nested]
    return nested


# By name, what makes the value anew.
HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "-1": lambda: -1,
    "0": lambda: 0,
    "0.5": lambda: 0.5,
    "1e308": lambda: 1e308,
    "-1e308": lambda: -1e308,
    "5e-324": lambda: 5e-324,
    "10**400": lambda: 10**400,
    "-(10**400)": lambda: -(10**400),
    "10**5000": lambda: 10**5000,
    "empty": lambda: "",
    "blank": lambda: " ",
    "abc": lambda: "abc",
    "text 1e999": lambda: "1e999",
    "text 1e99999999": lambda: "1e99999999",
    "text nan": lambda: "nan",
    "text -0": lambda: "-0",
    "Arabic digit": lambda: "٣",
    "NUL": lambda: "a\x00b",
    "line end": lambda: "\n",
    "long": lambda: "Ä" * 50_000,
    "long digits": lambda: "9" * 50_000,
    "long list": lambda: "a," * 5_000,
    "[]": lambda: [],
    "()": lambda: (),
    "[None]": lambda: [None],
    "[object]": lambda: [object()],
    "[{}]": lambda: [{}],
    "[[1],[2]]": lambda: [[1], [2]],
    "[[1],[2,3]]": lambda: [[1], [2, 3]],
    "deep": _deep,
    "{}": lambda: {},
    "{object: 1}": lambda: {object(): 1},
    "set": set,
    "own empty": lambda: {"custom": ""},
    "own cut": lambda: {"custom": "{"},
    "own deep": lambda: {"custom": "[" * 20_000},
    "own digits": lambda: {"custom": "9" * 30_000},
    "own None": lambda: {"custom": None},
    "like alone": lambda: {"like": "h100-sxm"},
    "like object": lambda: {"like": object()},
    "no layers": lambda: {"layers": []},
    "layers object": lambda: {"layers": object()},
    "huge layer": lambda: {"layers": [{"layer": "conv", "out": 1e308}]},
    "object": object,
    "True": lambda: True,
    "False": lambda: False,
    "bytes": lambda: b"bytes",
    "1j": lambda: 1j,
    "array 0": lambda: np.array([]),
    "array 2x3": lambda: np.arange(6.0).reshape(2, 3),
    "array 1x1x2": lambda: np.ones((1, 1, 2)),
    "array of objects": lambda: np.array([None, "a"], dtype=object),
    "NumPy nan": lambda: np.float64("nan"),
    "NumPy -5": lambda: np.int64(-5),
    "frame": lambda: pd.DataFrame({"a": [1]}),
    "NA": lambda: pd.NA,
    "date": lambda: datetime.datetime(2025, 1, 1),
    "class": lambda: Exception,
    "lambda": lambda: lambda: 0,
}
