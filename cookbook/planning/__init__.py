"""Many scenarios at once, and what follows for a purchase: sweeps, layouts, sizes of hosts, prices.

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "assembly_line": "assembly",
    "cores_needed": "sizing",
    "electricity_usd": "cost",
    "hourly_usd": "cost",
    "lane_budget": "lanes",
    "machines": "sizing",
    "measured_links": "sizing",
    "rented": "sizing",
    "nodes_needed": "phases",
    "rank_changes": "changes",
    "search": "layouts",
    "size_host": "sizing",
    "size_platform": "phases",
    "storage_usd": "cost",
    "sweep": "sweeps",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"cookbook.planning has no name {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
