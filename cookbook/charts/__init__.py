"""Charts: a tidy frame in, a chart with title, units and description out; and charts that change in place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "LiveChart": "live",
    "assembly_line": "scaling",
    "coverage": "accuracy",
    "efficiencies": "scaling",
    "errors": "accuracy",
    "gets": "host",
    "growth": "devices",
    "machine": "host",
    "memory_bars": "models",
    "parameters_vs_flop": "models",
    "over_cores": "host",
    "per_device": "devices",
    "points": "accuracy",
    "rate_needed": "models",
    "ratios": "accuracy",
    "roofline": "devices",
    "speedups": "scaling",
    "step_parts": "scaling",
    "paid": "places",
    "palette": "look",
    "place_costs": "places",
    "theme": "look",
    "tornado": "places",
}
_MODULES = ("accuracy", "devices", "host", "live", "look", "models", "places", "scaling")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"cookbook.charts has no name {name!r}; it offers {', '.join(__all__)}")
