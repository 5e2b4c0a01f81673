"""Panels: one finished, live answer a recipe, each the same as one function call."""

from __future__ import annotations

from cookbook.namespace import lazy

# Every panel and the module that defines it.
RECIPES = {
    "accelerators": "topics.devices.panel",
    "accuracy": "topics.accuracy.accuracy_panel",
    "assembly_line": "topics.runs.pipelines_panel",
    "clinic": "topics.clinic.panel",
    "cluster": "topics.cluster.panel",
    "crossbar": "topics.analog.panel",
    "finetuning": "topics.runs.finetuning_panel",
    "host": "topics.storage.host_panel",
    "measurements": "topics.accuracy.measurements_panel",
    "model_zoo": "topics.models.panel",
    "scaling": "topics.runs.scaling_panel",
    "serving": "topics.serving.panel",
    "stack": "topics.purchase.stack_panel",
    "storage": "topics.storage.storage_panel",
    "this_machine": "topics.machine.panel",
    "training_run": "topics.runs.training_run_panel",
    "where_to_run": "topics.purchase.where_panel",
}
_HOMES = {
    **RECIPES,
    "Panel": "panels.shell",
    "View": "panels.shell",
    "record": "panels.decision",
    "measure_here": "topics.machine.measuring",
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
