"""Charts: a tidy frame in, a chart with title, units and description out; and charts that change in place."""

from __future__ import annotations

from cookbook.namespace import lazy

_OFFERED = {
    "topics.clinic.charts": "attribution",
    "topics.cluster.charts": "gains timeline",
    "topics.analog.charts": "accuracy beside energy_roofline",
    "charts.devices": "growth paid per_device place_costs roofline tornado",
    "topics.accuracy.charts": "coverage errors explored points",
    "topics.storage.charts": "gets machine over_cores",
    "charts.live": "LiveChart",
    "charts.look": "palette theme",
    "charts.models": "memory_bars parameters_vs_flop rate_needed",
    "topics.runs.charts": "assembly_line checkpoints days_hours days_usd efficiencies speedups step_parts",
    "topics.serving.charts": "engine_memory knee",
    "topics.purchase.charts": "fit_matrix",
}
_HOMES = {name: home for home, names in _OFFERED.items() for name in names.split()}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
