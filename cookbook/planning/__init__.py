"""Many scenarios at once, and what follows for a purchase: sweeps, layouts, sizes of hosts, prices.

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Price": "cost",
    "annuity_usd": "ownership",
    "assembly_line": "parallel",
    "bought_usd": "cost",
    "break_even": "where",
    "break_even_hours": "ownership",
    "break_even_use": "ownership",
    "carbon": "cost",
    "chain_figures": "storage",
    "compare": "comparison",
    "cores_needed": "platforms",
    "cumulative": "where",
    "device_usd": "cost",
    "electricity_usd": "cost",
    "epoch_parts": "storage",
    "exchange_times": "parallel",
    "growth_lines": "growth",
    "growth_rates": "growth",
    "hourly_usd": "cost",
    "lane_budget": "platforms",
    "least_squares_growth": "growth",
    "machines": "platforms",
    "measured_links": "platforms",
    "milestones": "growth",
    "nodes_needed": "platforms",
    "operations": "comparison",
    "ownership_usd": "ownership",
    "plan_run": "run",
    "power_watts": "cost",
    "rank_changes": "storage",
    "rented": "platforms",
    "run_cost": "cost",
    "search": "layouts",
    "size_host": "host",
    "size_platform": "platforms",
    "split_batch": "parallel",
    "stated": "cost",
    "step_kwh": "cost",
    "storage_usd": "cost",
    "sweep": "sweeps",
    "tariff": "cost",
    "where_to_run": "where",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"cookbook.planning has no name {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
