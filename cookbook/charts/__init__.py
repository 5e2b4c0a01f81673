"""Charts: a tidy frame in, a chart with title, units and description out; and charts that change in place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "LiveChart": "live",
    "assembly_line": "run",
    "checkpoints": "run",
    "coverage": "explore",
    "days_hours": "run",
    "days_usd": "run",
    "efficiencies": "run",
    "errors": "explore",
    "explored": "explore",
    "gets": "host",
    "growth": "devices",
    "machine": "host",
    "memory_bars": "models",
    "over_cores": "host",
    "paid": "devices",
    "palette": "look",
    "parameters_vs_flop": "models",
    "per_device": "devices",
    "place_costs": "devices",
    "points": "explore",
    "rate_needed": "models",
    "roofline": "devices",
    "speedups": "run",
    "step_parts": "run",
    "theme": "look",
    "tornado": "devices",
}
_MODULES = ("devices", "explore", "host", "live", "look", "models", "run")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"cookbook.charts has no name {name!r}; it offers {', '.join(__all__)}")
