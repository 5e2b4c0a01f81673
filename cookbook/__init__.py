"""The hardware needs of deep learning, computed from sourced facts.

Notebooks need this package alone: ``import cookbook as cb``. Names are loaded when first used, so importing is fast.
"""

from __future__ import annotations

from cookbook.namespace import lazy

__version__ = "1.0.0"

_HOMES = {
    "accelerator": "hardware",
    "accuracy": "evidence.evaluation",
    "check": "lesson",
    "compare": "topics.devices.comparison",
    "compare_published": "workloads.zoo",
    "finetune": "topics.runs.finetuning",
    "forward_pass": "prediction.api",
    "generate": "prediction.api",
    "hint": "lesson",
    "human": "units",
    "layers": "workloads.zoo",
    "machine": "hardware",
    "match_storage": "prediction.match",
    "measurements": "evidence.measurements",
    "model": "workloads.readers.door",
    "models": "workloads.zoo",
    "plan_run": "topics.runs.training_run",
    "predict_first": "lesson",
    "progress": "lesson",
    "provenance": "catalog",
    "requirements": "prediction.requirements",
    "roofline_table": "prediction.requirements",
    "scaling": "evidence.evaluation",
    "search": "topics.runs.search",
    "serve": "topics.serving.service",
    "show_source": "lesson",
    "si": "units",
    "sweep": "topics.sweeps.sweeping",
    "table": "catalog",
    "topology": "hardware.topology",
    "train_step": "prediction.api",
}
_MODULES = {
    "arithmetic": "formulas.arithmetic",
    "charts": "charts",
    "crossbar": "formulas.crossbar",
    "measure": "measure",
    "memory": "formulas.memory",
    "panels": "panels",
    "parallelism": "formulas.parallelism",
    "planning": "planning",
    "utilisation": "formulas.utilisation",
}

__all__, __getattr__, _names = lazy(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
