"""Step time and memory of transformer training for any layout: rows in, parts of a step out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from cookbook.prediction import transformer_memory as memory
from cookbook.prediction import transformer_parts
from cookbook.prediction import transformer_text as words
from cookbook.prediction.constants import Constant
from cookbook.prediction.neighbours import Runs
from cookbook.prediction.transformer_rows import Scenarios, scenarios

__all__ = [
    "CONSTANTS", "MEMORY_CONSTANTS", "TERMS", "Scenarios", "fits", "measured", "memory_bytes", "memory_parts",
    "outcome", "parts", "runs", "scenarios", "step_seconds",
]  # fmt: skip

# Bounds and pull are narrow where benchmarks of products or collectives, or operation counts, already say the value.
# `efficiency` is the sustained share of the best measured product; `attention_efficiency` multiplies it for kernels of
# attention, whose shares were measured on their own: together about one.
CONSTANTS = (
    Constant("efficiency", 0.9, 0.2, 1.2, "family", pull=0.1),
    Constant("engine_share", 1.0, 0.8, 1.15, "engine"),
    Constant("network_efficiency", 0.85, 0.1, 0.95),
    Constant("attention_efficiency", 1.25, 1.1, 1.4),
    Constant("elementwise_share", 1.0, 0.9, 1.1),
    Constant("layer_launch", 5e-4, 4e-4, 6e-4, "", "s"),
    Constant("link_efficiency", 0.8, 0.75, 0.85),
    Constant("straggler_share", 0.005, 0.004, 0.006),
    Constant("expert_efficiency", 0.6, 0.3, 1.0),
    Constant("expert_launch", 4e-3, 2e-3, 8e-3, "", "s"),
    Constant("ragged_rows", 128.0, 32.0, 512.0),
)
# What makes two runs alike: the distance of another label, and of a factor of e in an amount. A measurement on another
# stack or generation of devices, or with experts for a network without, says nothing: beyond `neighbours.REACH`.
LIKENESS = {
    "stack": 10.0, "experts": 10.0, "format": 2.0, "accelerator": 1.0, "recompute": 1.0, "size": 2.0, "seq_len": 2.0,
    "tp": 1.5, "pp": 1.5, "micro_batch": 1.5,
}  # fmt: skip
# Rows at a time: their arrays stay in the processor's cache.
BLOCK = 16384
MEMORY_CONSTANTS = memory.CONSTANTS
TERMS = transformer_parts.TERMS


def measured(frame: pd.DataFrame) -> np.ndarray:
    """Measured step time [s]; NaN where none is stated."""
    seconds = words.numbers(frame, "step_time_s")
    return np.where(np.isnan(seconds), words.numbers(frame, "step_seconds"), seconds)


def outcome(scenarios: Scenarios, step_seconds: np.ndarray) -> np.ndarray:
    """The outcome that rows of this kind state: the step time itself [s]."""
    return step_seconds


def runs(scenarios: Scenarios) -> Runs:
    """The rows as what similar measurements are found by."""
    engine, family = (scenarios.tier_keys[name] for name in ("engine", "family"))
    labels = {
        "stack": np.char.add(np.char.add(engine.astype(str), " "), family.astype(str)),
        "accelerator": scenarios.tier_keys["accelerator"],
        "experts": (scenarios.moe > 0).astype(int),
        "format": scenarios.element - scenarios.narrow,
        "recompute": (scenarios.again_all > 0).astype(int),
    }
    amounts = {name: getattr(scenarios, name) for name in ("seq_len", "tp", "pp", "micro_batch")}
    amounts["size"] = scenarios.layers * scenarios.hidden**2
    return Runs(labels, amounts, LIKENESS)


def step_seconds(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of a step: the parts are exposed time, so they add up."""
    return np.asarray(sum(parts.values()))


def parts(
    scenarios: Scenarios, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None
) -> dict[str, np.ndarray]:
    """Exposed seconds of a step by part; NaN where `scenarios.why` says why not.

    Parameters
    ----------
    scenarios : Scenarios
        The rows.
    constants : mapping of str to float or numpy.ndarray
        Value of each of `CONSTANTS`, one or one a row.
    terms : mapping of str to bool, optional
        Terms to switch off, ``{"bubble": False}``; all are on if not given.

    Raises
    ------
    ValueError
        If a term is not one of `TERMS`.
    """
    unknown = set(terms or {}) - set(TERMS)
    if unknown:
        raise ValueError(f"no term {sorted(unknown)[0]!r}; the terms are {', '.join(TERMS)}")
    on = dict.fromkeys(TERMS, True) | dict(terms or {})
    good = np.flatnonzero(scenarios.why == "")
    whole, found = len(good) == len(scenarios), dict[str, np.ndarray]()
    for start in range(0, max(len(good), 1), BLOCK):
        some = slice(start, start + BLOCK) if whole else good[start : start + BLOCK]
        chosen = {name: value if np.ndim(value) == 0 else np.asarray(value)[some] for name, value in constants.items()}
        for name, value in transformer_parts.step_parts(scenarios.take(some), chosen, on).items():
            found.setdefault(name, np.full(len(scenarios), np.nan))[some] = value
    return found


def memory_parts(scenarios: Scenarios, constants: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
    """Bytes by part on the fullest device; `constants` are those of `MEMORY_CONSTANTS`, their start if not given."""
    return memory.memory_parts(scenarios, constants or memory.usual())


def memory_bytes(scenarios: Scenarios, constants: Mapping[str, Any] | None = None) -> np.ndarray:
    """Memory that each row needs on its fullest device [B]; NaN where it cannot be predicted."""
    return memory.memory_bytes(scenarios, constants or memory.usual())


def fits(scenarios: Scenarios, constants: Mapping[str, Any] | None = None) -> np.ndarray:
    """Whether each row fits the memory of its device; False where that cannot be said."""
    return memory.fits(scenarios, constants or memory.usual())
