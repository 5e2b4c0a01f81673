"""What the framework of a training run is told when it starts, and what a short run is told that times a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cookbook.catalog.commands import Launch, launch

__all__ = ["start_finetuning", "start_training"]
# Steps of the short run that are logged: each.
CHECK = {"steps": "check", "log_steps": 1, "mock": "yes"}
AXES = ("dp", "tp", "pp", "vp", "cp", "ep", "zero", "micro_batch", "recompute")
INTERLEAVED, SIMPLE = "interleaved", "1f1b"


def start_training(engine: str, row: Mapping[str, Any], shared: Mapping[str, Any]) -> Launch:
    """Return the command line of a parallelism configuration.

    Parameters
    ----------
    engine : str
        "megatron-lm" or "torchtitan".
    row : mapping
        One row of `Layouts.table`, or of a run, which has the steps too.
    shared : mapping
        What all rows have in common: `Layouts.settings`.
    """
    axes = {name: row[name] for name in AXES}
    devices, node = int(row["devices"]), min(int(shared["per_node"]), int(row["devices"]))
    staged, split = row["pp"] > 1, row["zero"] >= 1
    stated = row.get("shard", "")
    shard = row["dp"] if isinstance(stated, str) or stated is None else int(stated)
    settings = {
        "per_node": node,
        "nodes": math.ceil(devices / node),
        "model_config": shared["title"],
        **axes,
        "dp_replicate": row["dp"] // shard if split else row["dp"],
        "dp_shard": shard if split else 1,
        "state_copies": row["dp"] // shard if split else 1,
        "sequence_parallel": row["tp"] > 1,
        "pipeline_schedule": (row.get("pipeline_schedule") or (INTERLEAVED if row["vp"] > 1 else SIMPLE))
        if staged
        else None,
        "local_batch": shared["global_batch"] // row["dp"] if staged else row["micro_batch"],
        "pipeline_micro_batch": row["micro_batch"] if staged else None,
        **{name: shared[name] for name in ("global_batch", "seq", "precision", "attention", "software")},
        "offload": row.get("offload") or None,
        "steps": row.get("steps"),
        "checkpoint_steps": row.get("checkpoint_steps"),
    }
    return launch("train", engine, settings, CHECK, (shared["model"], shared["title"]))


def start_finetuning(engine: str, row: Mapping[str, Any], shared: Mapping[str, Any]) -> Launch:
    """Return the command line of one way to fine-tune.

    Parameters
    ----------
    engine : str
        "torchtune".
    row : mapping
        One row of `FineTuning.table`.
    shared : mapping
        What all rows have in common: `FineTuning.settings`.
    """
    devices, adapted = int(row["devices"]), row["method"] != "full"
    settings = {
        "devices": devices,
        "nodes": math.ceil(devices / max(int(shared["per_node"]), 1)),
        "recipe": f"{'lora' if adapted else 'full'} on {'several' if devices > 1 else 'one'}",
        "model_config": shared["title"],
        "method": row["method"],
        "zero": row["zero"] if devices > 1 else None,
        **{name: row[name] for name in ("recompute", "micro_batch", "seq", "global_batch")},
        "accumulation": row["global_batch"] // (devices * row["micro_batch"]),
        **{name: shared[name] if adapted else None for name in ("rank", "target_modules")},
        **{name: shared[name] for name in ("packed", "optimiser", "precision", "attention", "software")},
    }
    return launch("finetune", engine, settings, {**CHECK, "log_memory": "yes"}, (shared["model"], shared["title"]))
