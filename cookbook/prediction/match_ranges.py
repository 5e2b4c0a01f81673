"""How far the predictions of an input chain may be off: each stage by its own 80 % interval, errors independent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cookbook.prediction.match_chain import chain

OUTCOMES = {"samples": "later", "utilisation": "utilisation"}
_READ = ("bandwidth", "iops", "burst_bandwidth", "burst_iops", "connection")


def ranges(
    figures: Mapping[str, Any], found: Mapping[str, Any], known: Mapping[str, float]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Low and high ends of samples a second and of utilisation, in later epochs.

    The step, decoding and the storage are each made as slow and as fast as their intervals say; deviations of the
    outcome add up as independent errors do, by their squares on a logarithmic scale.

    Parameters
    ----------
    figures : mapping of str to array_like
        As for `cookbook.prediction.match_chain.chain`, with ``step_low``, ``step_high`` (NaN where a step is given, not
        predicted) and ``object_store``.
    found : mapping
        What the chain gave for them.
    known : mapping of str to float
        Constants of the table ``pipeline_constants``.
    """
    f = {name: np.asarray(value, dtype=float) for name, value in figures.items()}
    drives, remote = known["interval/mlperf/80"], known["interval/object_store/80"]
    read = np.where(f["object_store"] > 0, remote, drives)
    core, reach = known["core_rate"], known["interval/decode/80"]
    steps = (np.where(np.isnan(f[end]), f["step"], f[end]) for end in ("step_low", "step_high"))
    causes = [
        [chain({**f, "step": step}, known) for step in steps],
        [chain(f, {**known, "core_rate": core * reach**sign}) for sign in (1, -1)],
        [chain({**f, **{name: f[name] * read**sign for name in _READ}}, known) for sign in (1, -1)],
    ]
    ends = {name: _ends(found[key], [[one[key] for one in pair] for pair in causes]) for name, key in OUTCOMES.items()}
    low, high = ends["utilisation"]
    return {**ends, "utilisation": (low, np.minimum(high, 1))}


def _ends(point: np.ndarray, pairs: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Both ends around a point, from what each cause alone makes of it."""
    up = sum(np.log(np.maximum(np.maximum(*pair), point) / point) ** 2 for pair in pairs)
    down = sum(np.log(np.minimum(np.minimum(*pair), point) / point) ** 2 for pair in pairs)
    return point * np.exp(-np.sqrt(down)), point * np.exp(np.sqrt(up))
