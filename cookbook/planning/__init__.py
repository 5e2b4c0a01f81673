"""Many scenarios at once, and what follows for a purchase: sweeps, layouts, sizes of hosts, prices.

Names are loaded when first used. Everywhere here a name that the catalogue does not have raises
`cookbook.catalog.UnknownName`, and a figure that cannot be ValueError: the argument, its value and the remedy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "PLACEMENTS": "policies",
    "POLICIES": "policies",
    "Price": "cost",
    "StepCosts": "simulation",
    "accuracy_curve": "digits",
    "annuity_usd": "cost",
    "arrivals": "engines",
    "assembly_line": "parallel",
    "bought_usd": "cost",
    "break_even": "where",
    "break_even_hours": "cost",
    "break_even_use": "cost",
    "carbon": "cost",
    "chain_figures": "platforms",
    "cluster": "clusters",
    "cluster_gains": "clusters",
    "cluster_weeks": "clusters",
    "compare": "comparison",
    "cores_needed": "platforms",
    "crossbar_accuracy": "digits",
    "crossbar_tile": "crossbar",
    "cumulative": "where",
    "device_usd": "cost",
    "drf_tasks": "clusters",
    "digit_images": "digits",
    "digital_intensity": "crossbar",
    "digital_roofs": "crossbar",
    "electricity_usd": "cost",
    "engine_costs": "engines",
    "erlang_wait_seconds": "clusters",
    "epoch_parts": "platforms",
    "exchange_times": "parallel",
    "explore": "exploring",
    "growth_lines": "comparison",
    "growth_rates": "comparison",
    "hourly_usd": "cost",
    "jain_index": "clusters",
    "lane_budget": "platforms",
    "least_squares_growth": "comparison",
    "lengths": "engines",
    "machines": "platforms",
    "max_min_rates": "clusters",
    "map_to_crossbars": "crossbar",
    "measured_links": "platforms",
    "milestones": "comparison",
    "nodes_needed": "platforms",
    "one_size": "stack",
    "operations": "comparison",
    "ownership_usd": "cost",
    "pick_stack": "stack",
    "plan_run": "run",
    "power_watts": "cost",
    "published_crossbars": "crossbar",
    "rank_changes": "platforms",
    "rented": "platforms",
    "run_cost": "cost",
    "search": "layouts",
    "serve": "serving",
    "simulate": "simulation",
    "size_host": "host",
    "size_platform": "platforms",
    "split_batch": "parallel",
    "stated": "cost",
    "step_kwh": "cost",
    "storage_usd": "cost",
    "sweep": "sweeps",
    "tariff": "cost",
    "train_digits": "digits",
    "where_to_run": "where",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"cookbook.planning has no name {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
