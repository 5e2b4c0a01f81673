"""Panels: one finished, live answer a recipe, each the same as one function call."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_RECIPES = (
    "accelerators",
    "accuracy",
    "assembly_line",
    "clinic",
    "cluster",
    "crossbar",
    "finetuning",
    "host",
    "measurements",
    "model_zoo",
    "scaling",
    "serving",
    "stack",
    "storage",
    "this_machine",
    "training_run",
    "where_to_run",
)
_HOMES = {
    "Panel": "shell",
    "View": "shell",
    "record": "decision",
    "measure_here": "measuring",
    **{name: name for name in _RECIPES},
}

__all__ = sorted(_HOMES)


class _Package(ModuleType):
    """The package, in which a recipe's name stays its function when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        recipe = name in _RECIPES and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if recipe else value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"cookbook.panels has no name {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
