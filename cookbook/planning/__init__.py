"""Many scenarios at once, and what follows for a purchase: sweeps, layouts, sizes of hosts, prices.

Names are loaded when first used. Everywhere here a name that the catalogue does not have raises
`cookbook.catalog.UnknownName`, and a figure that cannot be ValueError: the argument, its value and the remedy.

Results of this room share `card`, for a notebook, light or dark, and `plain`, Python values without arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

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


# Colours and font of the page that shows the card; where it has none, those of the browser, light or dark.
_CARD = (
    "color-scheme:light dark;color:var(--jp-ui-font-color1,CanvasText);background:var(--jp-layout-color1,Canvas);"
    "border:1px solid var(--jp-border-color2,GrayText);padding:8px;max-width:100%;overflow-x:auto;"
    "font-family:var(--jp-ui-font-family,sans-serif);font-variant-numeric:tabular-nums"
)
_QUIET = "color:var(--jp-ui-font-color2,GrayText)"
_CELL = "padding:0 12px 0 0;text-align:left;white-space:nowrap;color:inherit;background:transparent"
MOST_ROWS = 12


def card(title: str, table: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """A result as HTML: its headline, at most twelve rows, and what is quiet below them; all text is escaped.

    Parameters
    ----------
    title : str
        The headline.
    table : pandas.DataFrame
        Printed cells, with units in the headings.
    notes : sequence of str
        Sentences below the table.
    """
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(str(name))}</th>' for name in table.columns)
    rows = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in table.head(MOST_ROWS).itertuples(index=False)
    )
    left = len(table) - MOST_ROWS
    said = [*([f"{left:,} more rows in .frame()."] if left > 0 else []), *notes]
    below = "".join(f'<div style="{_QUIET}">{escape(note)}</div>' for note in said)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if len(table) else ""
    return f'<div style="{_CARD}"><strong>{escape(title)}</strong>{body}{below}</div>'


def plain(value: Any) -> Any:
    """A value as JSON would take it: numbers of Python, lists and dicts; None where a figure is missing.

    >>> plain({"a": np.array([1.5, np.nan])})
    {'a': [1.5, None]}
    """
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
