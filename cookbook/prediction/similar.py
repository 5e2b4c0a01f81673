"""The measurements that correct predictions, with the errors that the committed constants make on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.prediction import measurements
from cookbook.prediction.neighbours import Correction, Measured, Runs, correction


@lru_cache(maxsize=4)
def known_errors(kind: str) -> Measured | None:
    """Measured runs of a kind of which it is clear what was run; none for a kind that has no likeness of runs.

    Calibration writes them to the table ``training_neighbours``, so that no measured network is built to read them.

    Parameters
    ----------
    kind : str
        Kind of prediction.
    """
    table = catalog.table("training_neighbours")
    table = table[table["kind"] == kind]
    if not len(table) or not hasattr(measurements.module_of(kind), "runs"):
        return None
    labels = _columns(table["labels"])
    amounts = {name: cells.astype(float) for name, cells in _columns(table["amounts"]).items()}
    ratio, group, names = (table[name].to_numpy() for name in ("ratio", "publisher", "row"))
    return Measured(Runs(labels, amounts), np.log(ratio), group.astype(str), names.astype(str))


def _columns(cells: Iterable[str]) -> dict[str, np.ndarray]:
    """Cells of JSON objects with the same names, as one array a name."""
    rows = [json.loads(cell) for cell in cells]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


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
