"""Quantities of a service that its engine is told when it is started, and those of the load that measures it."""

from __future__ import annotations

import math
from typing import Any

from cookbook.topics.serving.engines import Limits, Load, engine_formats
from cookbook.topics.serving.replicas import Replicas

__all__ = ["load_settings", "stack_settings"]
MILLI, LEAST_BURSTINESS = 1e-3, 1e-3


def stack_settings(replicas: Replicas, context: int | None) -> dict[str, Any]:
    """Return the quantities of a stack by the names of the table ``engine_flags``; None where nothing was chosen.

    Parameters
    ----------
    replicas : Replicas
        Engines of one kind under a load.
    context : int, optional
        Most tokens of a prompt with its answer.
    """
    options, batching, groups = replicas.options, replicas.batching, replicas.groups
    tp, pp, ep = options.tp or 1, options.pp, options.ep or 1
    devices = replicas.engine_devices
    return {
        **engine_formats(replicas.network, replicas.machine, options),
        "tp": tp,
        "ranks": max(tp, ep),
        "groups": groups,
        "pp": pp,
        "two_ways": tp > 1 and pp > 1,
        "ep": ep,
        "expert_shards": max(tp // ep, 1) if ep > 1 else 1,
        "nodes": math.ceil(devices / max(replicas.machine.per_node, 1)),
        "max_sequences": replicas.costs.max_sequences // groups,
        "chunk": replicas.chunk // groups,
        "context": context,
        "policy": batching.policy,
        "prefill_engines": batching.prefill_engines,
        "prefix_hit": options.prefix_hit or 0,
        "drafted": options.drafted,
        "acceptance": options.acceptance,
        "two_batches": batching.two_batches,
    }


def load_settings(load: Load, limits: Limits, row: dict[str, Any]) -> dict[str, Any]:
    """Return the load of one engine of a stack, by the names of the table ``engine_flags``.

    Parameters
    ----------
    load : Load
        Requests of all engines.
    limits : Limits
        Latencies that are promised.
    row : dict
        The stack, as in `Service.rows`.
    """
    engines, paused = row["engines"], load.closed and load.think > 0
    in_flight = max(round(row["in_service"] / engines), 1)
    promised = {name: getattr(limits, name) for name in ("ttft", "tpot") if math.isfinite(getattr(limits, name))}
    return {
        "input_len": round(load.prompt),
        "output_len": round(load.answer),
        "input_spread": load.prompt_spread,
        "output_spread": load.answer_spread,
        "rate": None if load.closed and not paused else row["requests_per_second"] / engines,
        "concurrency": math.ceil(load.clients / engines) if load.closed and not paused else None,
        "think": load.think if paused else None,
        # Engines' benchmarks draw gaps of a gamma distribution by its shape; equal gaps have none.
        "gamma_shape": None if load.closed else 1 / max(load.burstiness, LEAST_BURSTINESS),
        "in_flight": in_flight,
        "kv_needed": in_flight * (round(load.prompt) + round(load.answer)),
        "slo": " ".join(f"{name}:{seconds / MILLI:g}" for name, seconds in promised.items()) or None,
    }
