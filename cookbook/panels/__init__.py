"""Panels: one finished, live answer a recipe, each the same as one function call."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Panel": "shell",
    "View": "shell",
    "accelerators": "devices",
    "accuracy": "trust",
    "assembly_line": "assembly",
    "host": "hosts",
    "measurements": "explore",
    "model_zoo": "models",
    "scaling": "parallel",
    "storage": "match",
    "training_run": "run",
    "where_to_run": "places",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"cookbook.panels has no name {name!r}; it offers {', '.join(__all__)}")
