"""The measurements that correct predictions, with the errors that the committed constants make on them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.prediction import measurements
from cookbook.prediction.constants import committed, of_rows
from cookbook.prediction.neighbours import Correction, Measured, correction


@lru_cache(maxsize=4)
def known_errors(kind: str) -> Measured | None:
    """Measured runs of a kind of which it is clear what was run; none for a kind that has no likeness of runs.

    Parameters
    ----------
    kind : str
        "training_classic" or "training_transformer".
    """
    module = measurements.module_of(kind)
    if not hasattr(module, "runs"):
        return None
    frame = measurements.clear_rows(measurements.measured_table(kind))
    if hasattr(module, "needs_care"):
        frame = frame[~module.needs_care(frame)].reset_index(drop=True)
    scenarios = module.scenarios(measurements.without_outcomes(frame))
    constants = of_rows(committed(kind), module.CONSTANTS, scenarios.tier_keys)
    with np.errstate(all="ignore"):
        found = module.outcome(scenarios, module.step_seconds(module.parts(scenarios, constants)))
        error = np.log(found / np.asarray(module.measured(frame), dtype=float))
    usable = np.isfinite(error) & (np.asarray(scenarios.why) == "")
    group, names = measurements.publishers(frame), frame["id"].to_numpy(dtype=str)
    return Measured(module.runs(scenarios), np.where(usable, error, np.nan), group, names)


def correct(kind: str, scenarios: Any, without: Mapping[str, Any] | None = None) -> Correction | None:
    """What similar measurements say about scenarios; none where the kind has no such layer.

    Parameters
    ----------
    kind : str
        Kind of training.
    scenarios : object
        As the kind's module made them.
    without : mapping, optional
        ``exclude_groups`` or ``exclude_rows`` of `neighbours.correction`.
    """
    known = known_errors(kind)
    if known is None or not len(scenarios.why):
        return None
    return correction(measurements.module_of(kind).runs(scenarios), known, **(without or {}))
