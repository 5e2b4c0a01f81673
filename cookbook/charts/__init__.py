"""Charts: a tidy frame in, a chart with title, units and description out; and charts that change in place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "LiveChart": "live",
    "assembly_line": "scaling",
    "checkpoints": "run",
    "coverage": "accuracy",
    "days_hours": "run",
    "days_usd": "run",
    "efficiencies": "scaling",
    "errors": "accuracy",
    "explored": "explore",
    "gets": "host",
    "machine": "host",
    "memory_bars": "models",
    "parameters_vs_flop": "models",
    "over_cores": "host",
    "points": "accuracy",
    "rate_needed": "models",
    "ratios": "accuracy",
    "speedups": "scaling",
    "step_parts": "scaling",
    "paid": "places",
    "palette": "look",
    "place_costs": "places",
    "theme": "look",
    "tornado": "places",
}
_MODULES = ("accuracy", "explore", "host", "live", "look", "models", "places", "run", "scaling")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"cookbook.charts has no name {name!r}; it offers {', '.join(__all__)}")
