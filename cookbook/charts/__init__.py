"""Charts: a tidy frame in, a chart with title, units and description out; and charts that change in place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_OFFERED = {
    "clinic": "attribution",
    "cluster": "gains timeline",
    "crossbar": "accuracy beside energy_roofline",
    "devices": "growth paid per_device place_costs roofline tornado",
    "explore": "coverage errors explored points",
    "host": "gets machine over_cores",
    "live": "LiveChart",
    "look": "palette theme",
    "models": "memory_bars parameters_vs_flop rate_needed",
    "run": "assembly_line checkpoints days_hours days_usd efficiencies engine_memory knee speedups step_parts",
    "stacks": "fit_matrix",
}
_HOMES = {name: home for home, names in _OFFERED.items() for name in names.split()}

__all__ = sorted([*_HOMES, *_OFFERED])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _OFFERED:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"cookbook.charts has no name {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
