"""Many scenarios at once, and what follows for a purchase: sweeps, layouts, sizes of hosts, prices.

Names are loaded when first used. Everywhere here a name that the catalogue does not have raises
`cookbook.catalog.UnknownName`, and a figure that cannot be ValueError: the argument, its value and the remedy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Price": "cost",
    "annuity_usd": "cost",
    "assembly_line": "parallel",
    "bought_usd": "cost",
    "break_even": "where",
    "break_even_hours": "cost",
    "break_even_use": "cost",
    "carbon": "cost",
    "chain_figures": "platforms",
    "compare": "comparison",
    "cores_needed": "platforms",
    "cumulative": "where",
    "device_usd": "cost",
    "electricity_usd": "cost",
    "epoch_parts": "platforms",
    "exchange_times": "parallel",
    "growth_lines": "comparison",
    "growth_rates": "comparison",
    "hourly_usd": "cost",
    "lane_budget": "platforms",
    "least_squares_growth": "comparison",
    "machines": "platforms",
    "measured_links": "platforms",
    "milestones": "comparison",
    "nodes_needed": "platforms",
    "operations": "comparison",
    "ownership_usd": "cost",
    "plan_run": "run",
    "power_watts": "cost",
    "rank_changes": "platforms",
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
