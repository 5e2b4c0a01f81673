"""Calls as Python that a reader can paste, and the sources of what they name."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Any

import numpy as np

# Tables that have names too where those of another one are asked for.
ALSO_IN = {"accelerators": ("systems",)}
# Namespaces of public functions, and how a notebook writes each.
NAMESPACES = {"cookbook": "cb", "cookbook.planning": "cb.planning", "cookbook.measure": "cb.measure"}


@dataclass(frozen=True)
class Call:
    """One call of a public function, with the arguments as they were given.

    Attributes
    ----------
    module, name : str
        The module and the name of the function.
    args : tuple
        Positional arguments.
    kwargs : mapping of str
        Keyword arguments.
    """

    module: str
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def python(self) -> str:
        """Return the call as Python: ``cb.serve("llama3_8b", "h100-sxm", users=500)``."""
        given = [*map(as_python, self.args), *([keywords(self.kwargs)] if self.kwargs else [])]
        return f"{public_name(self.module, self.name)}({', '.join(given)})"

    def sources(self) -> tuple[str, ...]:
        """Return the keys of the sources of the catalogue's rows and the records that the arguments name."""
        function = getattr(import_module(self.module), self.name)
        given = inspect.signature(function).bind_partial(*self.args, **self.kwargs).arguments
        declared = function.declared()
        found: dict[str, None] = {}
        for name, value in given.items():
            found |= dict.fromkeys(_sources(value, declared[name].of_table if name in declared else ""))
        return tuple(filter(None, found))


def _sources(value: Any, table: str) -> Iterator[str]:
    """Yield the keys of the sources of a record, of a name of a table, or of a list of them."""
    if isinstance(value, (list, tuple)):
        for entry in value:
            yield from _sources(entry, table)
    elif isinstance(value, str):
        yield from _of_row(value, table)
    else:
        keys = getattr(value, "sources", getattr(value, "source", ()))
        yield from keys.split(";") if isinstance(keys, str) else keys


def _of_row(name: str, table: str) -> tuple[str, ...]:
    """Return the keys of a row's sources; nothing where the name is of no table."""
    catalog = import_module("cookbook.catalog")
    for home in (table, *ALSO_IN.get(table, ())) if table else ():
        with suppress(KeyError):
            found = catalog.row(home, name)
            device = _of_row(found["accelerator_key"], table) if home != table else ()
            return (*str(found["source"]).split(";"), *device)
    return ()


def public_name(module: str, name: str) -> str:
    """Return how a notebook writes a function: ``cb.serve`` where a namespace offers it, else its dotted name."""
    wanted = getattr(import_module(module), name, None)
    for namespace, short in NAMESPACES.items():
        offered = import_module(namespace)
        if name in offered.__all__ and getattr(offered, name) is wanted:
            return f"{short}.{name}"
    return f"{module}.{name}"


def keywords(values: Mapping[str, Any]) -> str:
    """Return keyword arguments as Python text.

    Examples
    --------
    >>> keywords({"batch": 32, "seq": None})
    'batch=32, seq=None'
    """
    return ", ".join(f"{name}={as_python(value)}" for name, value in values.items())


def as_python(value: Any) -> str:
    """Return a value as Python text: JSON's true, false and null are not Python.

    A record that the catalogue or a public function gave is written as its name or that call; any other as the variable
    of the reader's session that refers to it, or as a name such as ``my_price``.

    Examples
    --------
    >>> as_python({"bias": False, "sizes": [1, 2.5, None]})
    '{"bias": False, "sizes": [1, 2.5, None]}'
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, PurePath):
        value = str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{as_python(key)}: {as_python(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, tuple) and len(value) == 1:
        return f"({as_python(value[0])},)"
    if isinstance(value, (list, tuple)):
        return ("[{}]" if isinstance(value, list) else "({})").format(", ".join(map(as_python, value)))
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, range)):
        return repr(value)
    return _record_text(value)


def _record_text(value: Any) -> str:
    """Return a record as Python: what it says of itself, the call that gave it, its fields, or a variable."""
    for way in ("python", "call"):
        text = getattr(value, way, None)
        if callable(text) and not isinstance(value, type) and (written := text()):
            return str(written)
    name, module = type(value).__name__, type(value).__module__
    public = public_name(module, name)
    if is_dataclass(value) and not isinstance(value, type) and public.startswith("cb."):
        changed = {
            each.name: getattr(value, each.name)
            for each in fields(value)
            if each.default is MISSING or getattr(value, each.name) != each.default
        }
        return f"{public}({keywords(changed)})"
    return in_session(value) or f"my_{name.lower()}"


def in_session(value: Any) -> str:
    """Return the variable of the reader's session that refers to this very object; "" where there is none."""
    names = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    return next((n for n, v in list(names.items()) if v is value and not n.startswith("_")), "")
