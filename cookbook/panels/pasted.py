"""The state of a panel as Python that a reader can paste."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cookbook.catalog.calls import as_python, keywords


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
