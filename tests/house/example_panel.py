"""Panel of recipe 04: how much memory training takes. `test_additions.py` adds it to a copy of the package."""

from __future__ import annotations

from typing import Any

import pandas as pd

import cookbook.charts.models as charts
from cookbook.panels.controls import Choice, Control, Slider
from cookbook.panels.options import cited
from cookbook.panels.shell import Panel, Picture, View, panel_call
from cookbook.prediction.requirements import requirements


def memory(model: str = "resnet50", batch: Any = 8) -> Panel:
    """Return the panel "How much memory does training take?" in the state that the arguments describe."""
    return Panel(
        memory, "How much memory does training take?", _controls, {"memory": charts.memory_bars}, _draw, locals()
    )


def _controls() -> tuple[Control, ...]:
    models = (("resnet50", "ResNet-50", "A network for images"), ("vgg16", "VGG-16", "A larger network for images"))
    return (
        Choice("model", "Network", "Network", models, tooltip="What is trained"),
        Slider("batch", "Batch", "Network", tuple(range(1, 65)), tooltip="Samples per device in one step"),
    )


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    need = requirements(**values)
    gib = need.memory_bytes / 2**30
    rows = [[need.workload.title, "need", part, size, "", ""] for part, size in need.memory.items()]
    frame = pd.DataFrame(rows, columns=["row", "role", "part", "bytes", "verdict", "text"])
    return View(
        f"Training {need.workload.title} takes **{gib:.1f} GiB**.",
        {"memory [GiB]": gib},
        (),
        Picture("memory", frame, f"Training takes {gib:.1f} GiB", {"x_high": 2 * gib, "rows": [need.workload.title]}),
        (),
        "",
        lambda: frame[["part", "bytes"]],
        lambda: frame,
        lambda: cited(dict.fromkeys(need.sources, "accelerators and network")),
        panel_call(memory, values),
    )
