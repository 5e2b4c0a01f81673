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
from cookbook.prediction.transformer_rows import Scenarios, scenarios

__all__ = [
    "CONSTANTS", "MEMORY_CONSTANTS", "TERMS", "Scenarios", "fits", "measured", "memory_bytes", "memory_parts",
    "outcome", "parts", "scenarios", "step_seconds",
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
MEMORY_CONSTANTS = memory.CONSTANTS
TERMS = transformer_parts.TERMS


def measured(frame: pd.DataFrame) -> np.ndarray:
    """Measured step time [s]; NaN where none is stated."""
    seconds = words.numbers(frame, "step_time_s")
    return np.where(np.isnan(seconds), words.numbers(frame, "step_seconds"), seconds)


def outcome(scenarios: Scenarios, step_seconds: np.ndarray) -> np.ndarray:
    """The outcome that rows of this kind state: the step time itself [s]."""
    return step_seconds


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
    if len(good) == len(scenarios):
        return transformer_parts.step_parts(scenarios, constants, on)
    chosen = {name: value if np.ndim(value) == 0 else np.asarray(value)[good] for name, value in constants.items()}
    found = transformer_parts.step_parts(scenarios.take(good), chosen, on)
    full = {name: np.full(len(scenarios), np.nan) for name in found}
    for name, value in found.items():
        full[name][good] = value
    return full


def memory_parts(scenarios: Scenarios, constants: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
    """Bytes by part on the fullest device; `constants` are those of `MEMORY_CONSTANTS`, their start if not given."""
    return memory.memory_parts(scenarios, constants or memory.usual())


def memory_bytes(scenarios: Scenarios, constants: Mapping[str, Any] | None = None) -> np.ndarray:
    """Memory that each row needs on its fullest device [B]; NaN where it cannot be predicted."""
    return memory.memory_bytes(scenarios, constants or memory.usual())


def fits(scenarios: Scenarios, constants: Mapping[str, Any] | None = None) -> np.ndarray:
    """Whether each row fits the memory of its device; False where that cannot be said."""
    return memory.fits(scenarios, constants or memory.usual())
