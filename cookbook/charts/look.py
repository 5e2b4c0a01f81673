"""One look for every chart: palette, the fixed order and colour of parts, fonts and grid."""

from __future__ import annotations

from typing import Any

palette = PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")

# The front end swaps these three for JupyterLab's own colours, so that one spec fits the light and the dark theme.
INK = "#000000"
MUTED = "#616161"
PAPER = "#ffffff"

# Fixed order and colour for the whole cookbook: a part looks the same in every recipe.
TIME_PARTS = {
    "compute": "#0072B2",
    "memory traffic": "#D55E00",
    "launch": "#767676",
    "tensor-parallel communication": "#009E73",
    "pipeline-parallel communication": "#2F8F9D",
    "data-parallel communication": "#6B8E23",
    "input": "#CC79A7",
    "optimiser": "#9467BD",
    "bubble": "#A67C00",
    "waiting": "#8C564B",
}
MEMORY_PARTS = {
    "weights": "#0072B2",
    "fp32 copy": "#2F8F9D",
    "gradients": "#009E73",
    "optimiser states": "#9467BD",
    "activations": "#D55E00",
    "workspace": "#767676",
}

MONEY_PARTS = {
    "hardware": "#0072B2",
    "network": "#2F8F9D",
    "storage": "#009E73",
    "maintenance": "#6B8E23",
    "electricity": "#D55E00",
    "cooling": "#A67C00",
    "staff": "#9467BD",
    "space": "#767676",
    "rent": "#CC79A7",
    "data": "#8C564B",
}

# A verdict is a colour, a shape and a word, never a colour alone.
VERDICTS = {
    "possible": ("#009E73", "circle"),
    "possible under a condition": ("#0072B2", "diamond"),
    "cannot at its peak": ("#D55E00", "cross"),
    "does not fit": ("#CC79A7", "square"),
    "cannot tell": ("#616161", "triangle-up"),
}

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

CONFIG: dict[str, Any] = {
    "background": PAPER,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": MUTED,
        "grid": True,
        "gridColor": "#e0e0e0",
        "gridWidth": 1,
        "domain": False,
        "tickColor": "#e0e0e0",
        "labelPadding": 6,
        "titlePadding": 8,
    },
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": MUTED,
        "labelLimit": 260,
        "symbolSize": 80,
    },
    "title": {
        "fontSize": 14,
        "fontWeight": 600,
        "anchor": "start",
        "frame": "bounds",
        "color": INK,
        "subtitleColor": MUTED,
        "subtitleFontSize": 12,
        "offset": 12,
        "lineHeight": 18,
    },
    "text": {"fontSize": 12, "color": INK},
    "mark": {"color": PALETTE[0]},
    "line": {"strokeWidth": 2},
    "rule": {"strokeWidth": 2},
    "range": {"category": list(PALETTE), "symbol": list(SHAPES), "heatmap": {"scheme": "viridis"}},
}


def theme() -> dict[str, Any]:
    """Vega-Lite configuration of the cookbook, as `alt.Chart.configure` takes it.

    Returns
    -------
    dict
        A fresh copy that the caller may change.

    Examples
    --------
    >>> theme()["axis"]["labelFontSize"]
    12
    """
    return {key: dict(value) if isinstance(value, dict) else value for key, value in CONFIG.items()}
