"""What a panel shows, written as Python that a reader can paste."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cookbook.workloads import zoo

UNNAMED = "my_model"


def literal(value: Any) -> str:
    """A value as Python text: JSON's true, false and null are not Python.

    Examples
    --------
    >>> literal({"bias": False, "sizes": [1, 2.5, None]})
    '{"bias": False, "sizes": [1, 2.5, None]}'
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key)}: {literal(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return workload_text(value) if isinstance(value, zoo.Workload) else repr(value)


def arguments(values: Mapping[str, Any]) -> str:
    """Keyword arguments as Python text.

    Examples
    --------
    >>> arguments({"batch": 32, "seq": None})
    'batch=32, seq=None'
    """
    return ", ".join(f"{name}={literal(value)}" for name, value in values.items())


def model_text(value: Any) -> str:
    """Argument `model` of `cb.requirements`: a name, a record, or the layers of the reader's own network."""
    if not isinstance(value, Mapping):
        return literal(value)
    more = "".join(f", {name}={literal(value[name])}" for name in ("input", "title") if name in value)
    return f"cb.layers({literal(value['layers'])}{more})"


def devices_text(values: Any) -> str:
    """Argument `accelerators` of `cb.requirements`."""
    return f"[{', '.join(device_text(value) for value in values)}]"


def device_text(value: Any) -> str:
    """Argument `system` or `accelerator`: a name, or an accelerator like another."""
    return f"cb.accelerator({arguments(value)})" if isinstance(value, Mapping) else literal(value)


def workload_text(workload: zoo.Workload) -> str:
    """Python that gives this network again: of the zoo, of the zoo with changes, or the reader's own variable."""
    return _in_zoo(workload) or _in_session(workload) or UNNAMED


def preamble(values: Mapping[str, Any]) -> str:
    """A first line where the code needs a variable that only the reader has; else nothing."""
    chosen = [values["model"], *values["compare"]]
    lost = [v.title for v in chosen if isinstance(v, zoo.Workload) and workload_text(v) == UNNAMED]
    return f"# {UNNAMED} is the network that you gave this panel: {lost[0]}\n" if lost else ""


@lru_cache(maxsize=16)
def _in_zoo(workload: zoo.Workload) -> str:
    """`"resnet50"` or `cb.model("resnet50", image=448)`, where that builds this very network."""
    try:
        plain = zoo.model(workload.name)
    except KeyError:
        return ""
    if plain is workload:
        return literal(workload.name)
    changes = {name: value for name, value in workload.arguments.items() if plain.arguments.get(name) != value}
    try:
        same = workload.title.startswith(f"{plain.title} (") and _same(zoo.model(workload.name, **changes), workload)
    except (ValueError, TypeError):
        return ""
    return f"cb.model({literal(workload.name)}, {arguments(changes)})" if same else ""


def _same(one: zoo.Workload, other: zoo.Workload) -> bool:
    work = [(w.ops.parameter_count, float(w.ops.total("macs", 1, w.seq or 1))) for w in (one, other)]
    return one.arguments == other.arguments and work[0] == work[1]


def _in_session(workload: zoo.Workload) -> str:
    """The variable of the reader's notebook that holds this network."""
    names = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    return next((n for n, v in list(names.items()) if v is workload and not n.startswith("_")), "")
