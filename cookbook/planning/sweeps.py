"""The named outer product of scenarios as one tidy frame."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.catalog import UnknownName
from cookbook.prediction.requirements import requirements
from cookbook.workloads.zoo import Workload

if TYPE_CHECKING:
    import pandas as pd

OUTER = ("model", "seq", "precision", "optimiser", "recompute", "samples", "epochs", "target_seconds")
INNER = ("batch", "accelerator")


def sweep(**axes: Any) -> pd.DataFrame:
    """Requirements of every combination of the values given, one row a combination.

    Parameters
    ----------
    **axes
        Arguments of `requirements` by name, each one value or a list of values: model, accelerator, batch, seq,
        precision, optimiser, recompute, samples, epochs, target_seconds; `accelerators` is `accelerator`. Those
        not named take their defaults; all accelerators of the table where none is named.

    Returns
    -------
    pandas.DataFrame
        The axes, the columns of `requirements(...).devices`, memory by part, and the same memory as a line in the
        batch, fixed_bytes + batch x bytes_per_sample [B]. A combination that cannot be computed has a row for each
        accelerator and batch too, with NaN and a reason in `why`. Where the optimiser is an axis, the memory of its
        states is optimiser_bytes.

    Raises
    ------
    ValueError
        An axis that does not exist, is given twice, or has no values.
    cookbook.catalog.UnknownName
        A name that no table has.

    Examples
    --------
    >>> frame = sweep(model=["resnet50", "vgg16"], batch=[16, 64], accelerator="v100-sxm2-16gb", precision="fp32")
    >>> len(frame), bool(frame["fits"].all())
    (4, True)
    """
    import pandas as pd

    if {"accelerators", "accelerator"} <= set(axes):
        raise ValueError("accelerator and accelerators are one axis; give one of the two")
    axes = {"accelerator" if axis == "accelerators" else axis: value for axis, value in axes.items()}
    unknown = [axis for axis in axes if axis not in OUTER + INNER]
    if unknown:
        raise ValueError(f"unknown axis {unknown[0]!r}; take some of {', '.join(OUTER + INNER)}")
    values = {axis: _listed(axis, value) for axis, value in axes.items()}
    devices = values.pop("accelerator", [None])
    inner = {"batch": values.pop("batch", [32]), "accelerators": None if devices == [None] else devices}
    scenarios = (dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))
    return pd.concat([_frame(scenario, inner) for scenario in scenarios], ignore_index=True)


def _listed(axis: str, value: Any) -> list[Any]:
    values = list(value) if isinstance(value, (list, tuple, set, range, np.ndarray)) else [value]
    if not values:
        raise ValueError(f"{axis} = {value!r} has no values; give at least one, or leave it out")
    return values


def _frame(outer: dict[str, Any], inner: dict[str, Any]) -> pd.DataFrame:
    named = {axis: value.title if isinstance(value, Workload) else value for axis, value in outer.items()}
    try:
        need = requirements(**{"model": "resnet50", **outer}, **inner)
    except UnknownName:
        raise
    except ValueError as problem:
        return _failed(named, inner, str(problem))
    repeats = len(need.devices) // len(inner["batch"])
    parts = {part: np.tile(np.atleast_1d(size), repeats) for part, size in need.memory.items()}
    line = {"fixed_bytes": need.fixed_bytes, "bytes_per_sample": need.bytes_per_sample}
    return _beside(named, need.devices.assign(**parts, **line))


def _beside(named: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    """The axes before the rest; memory of an axis' name (that of the optimiser's state) is told apart by _bytes."""
    rows = rows.rename(columns={axis: f"{axis}_bytes" for axis in named})
    for place, (axis, value) in enumerate(named.items()):
        rows.insert(place, axis, value)
    return rows


def _failed(named: dict[str, Any], inner: dict[str, Any], why: str) -> pd.DataFrame:
    """What a combination that cannot be computed leaves: its axes, every accelerator and batch, and the reason."""
    good = _frame({}, inner | {"batch": [1]})
    rows = good.loc[good.index.repeat(len(inner["batch"]))].reset_index(drop=True)
    numbers = rows.select_dtypes("number").columns
    rows = rows.assign(**dict.fromkeys(numbers, np.nan), fits=False, verdict="cannot tell", why=why)
    rows["batch"] = np.tile(inner["batch"], len(good))
    return _beside(named, rows)
