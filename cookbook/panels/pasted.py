"""The state of a panel as Python that a reader can paste."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cookbook.workloads import zoo

# What the code calls a network that it cannot make again.
UNNAMED = "my_model"


def as_python(value: Any) -> str:
    """A value as Python text: JSON's true, false and null are not Python.

    Examples
    --------
    >>> as_python({"bias": False, "sizes": [1, 2.5, None]})
    '{"bias": False, "sizes": [1, 2.5, None]}'
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{as_python(key)}: {as_python(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_python, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return workload_text(value) if isinstance(value, zoo.Workload) else repr(value)


def keywords(values: Mapping[str, Any]) -> str:
    """Keyword arguments as Python text.

    Examples
    --------
    >>> keywords({"batch": 32, "seq": None})
    'batch=32, seq=None'
    """
    return ", ".join(f"{name}={as_python(value)}" for name, value in values.items())


def model_text(value: Any) -> str:
    """Argument `model` of `cb.requirements`: a name, a record, the reader's own layers or configuration."""
    if not isinstance(value, Mapping) or "layers" not in value:
        return f"cb.model({as_python(value)})" if isinstance(value, Mapping) else as_python(value)
    more = "".join(f", {name}={as_python(value[name])}" for name in ("input", "title") if name in value)
    return f"cb.layers({as_python(value['layers'])}{more})"


def device_text(value: Any) -> str:
    """Argument `system` or `accelerators`: a name, an accelerator like another, or several of them."""
    if isinstance(value, list):
        return f"[{', '.join(map(device_text, value))}]"
    return f"cb.accelerator({keywords(value)})" if isinstance(value, Mapping) else as_python(value)


def workload_text(workload: zoo.Workload) -> str:
    """Python that gives this network again: of the zoo, of the zoo with changes, or the reader's own variable."""
    return _in_zoo(workload) or _in_session(workload) or UNNAMED


@lru_cache(maxsize=16)
def _in_zoo(workload: zoo.Workload) -> str:
    """`"resnet50"` or `cb.model("resnet50", image=448)`, where that builds this very network."""
    try:
        plain = zoo.model(workload.name)
    except KeyError:
        return ""
    if plain is workload or (plain.title == workload.title and _same(plain, workload)):
        return as_python(workload.name)
    changes = {name: value for name, value in workload.arguments.items() if plain.arguments.get(name) != value}
    try:
        same = workload.title.startswith(f"{plain.title} (") and _same(zoo.model(workload.name, **changes), workload)
    except (ValueError, TypeError):
        return ""
    return f"cb.model({as_python(workload.name)}, {keywords(changes)})" if same else ""


def _same(one: zoo.Workload, other: zoo.Workload) -> bool:
    work = [(w.ops.parameter_count, float(w.ops.total("macs", 1, w.seq or 1))) for w in (one, other)]
    return one.arguments == other.arguments and work[0] == work[1]


def _in_session(workload: zoo.Workload) -> str:
    """The variable of the reader's notebook that holds this network."""
    names = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    return next((n for n, v in list(names.items()) if v is workload and not n.startswith("_")), "")
