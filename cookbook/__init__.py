"""What deep learning needs from hardware, computed from sourced facts.

Notebooks need this package alone: ``import cookbook as cb``. Names are loaded when first used, so importing is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "accelerator": "hardware",
    "accuracy": "evidence.evaluation",
    "check": "lesson",
    "compare": "planning.comparison",
    "compare_published": "workloads.zoo",
    "finetune": "planning.finetune",
    "forward_pass": "prediction.doors",
    "generate": "prediction.doors",
    "hint": "lesson",
    "human": "units",
    "layers": "workloads.zoo",
    "machine": "hardware",
    "match_storage": "prediction.match",
    "measurements": "evidence.measurements",
    "model": "workloads.imports.door",
    "models": "workloads.zoo",
    "plan_run": "planning.run",
    "predict_first": "lesson",
    "progress": "lesson",
    "provenance": "catalog",
    "requirements": "prediction.requirements",
    "roofline_table": "prediction.requirements",
    "scaling": "evidence.evaluation",
    "search": "planning.layouts",
    "serve": "planning.serving",
    "show_source": "lesson",
    "si": "units",
    "sweep": "planning.sweeps",
    "table": "catalog",
    "topology": "hardware.topology",
    "train_step": "prediction.doors",
}
_MODULES = {
    "arithmetic": "performance.arithmetic",
    "charts": "charts",
    "crossbar": "performance.crossbar",
    "measure": "measure",
    "memory": "performance.memory",
    "panels": "panels",
    "parallelism": "performance.parallelism",
    "planning": "planning",
    "utilisation": "performance.utilisation",
}

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    raise AttributeError(f"cookbook has no name {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
