"""Measurements beside each other: the nearest to a configuration, and what one thing is worth, all else equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.calibration import explore_rows
from cookbook.prediction.neighbours import AMOUNT_COSTS, LABEL_COSTS, REACH, Runs, distances

if TYPE_CHECKING:
    import pandas as pd

# What a configuration may say; what it leaves out does not count.
ASKED = ("kind", "phase", "model", "accelerator", "devices", "batch_per_device", "precision", "framework")
# What decides about a rate beside the thing compared.
DECIDES = ("kind", "phase", "network", "task", "accelerator", "devices", "batch_per_device", "precision", "data",
           "unit")  # fmt: skip
# Columns that can be compared, and what goes with each: a device implies its generation, a framework its version.
TIED = {
    "framework": (), "software": (), "software_level": (), "publisher": (), "server": (), "processor": (), "link": (),
    "data": ("data",), "precision": ("precision",), "accelerator": ("accelerator",), "generation": ("accelerator",),
}  # fmt: skip


def nearest_rows(rows: pd.DataFrame, asked: Mapping[str, Any], itself: str = "") -> pd.DataFrame:
    """Rows by their distance from a configuration, nearest first; none beyond the reach of corrections.

    Distances are those by which similar runs correct predictions, with devices counted like the batch.

    Parameters
    ----------
    rows : pandas.DataFrame
        Measurements.
    asked : mapping
        Some of `ASKED`.
    itself : str
        Row that comes before others at the same distance.

    Raises
    ------
    ValueError
        Nothing similar was measured.
    """
    same = [rows[name] == asked[name] for name in ("kind", "phase") if asked.get(name)]
    rows = rows[np.logical_and.reduce(same)] if same else rows
    far = distances(_runs(_frame(asked)), _runs(rows), LABEL_COSTS, {**AMOUNT_COSTS, "devices": AMOUNT_COSTS["batch"]})
    found = rows.assign(distance=far[0], other=rows["id"] != itself)[far[0] <= REACH]
    found = found.sort_values(["distance", "other"], kind="stable").drop(columns="other")
    if not len(found):
        said = ", ".join(f"{name} = {value}" for name, value in asked.items())
        raise ValueError(f"nothing like {said} was measured: another maker's devices are out of reach; name less")
    return found


def _frame(asked: Mapping[str, Any]) -> pd.DataFrame:
    """One row with what was asked alone."""
    import pandas as pd

    given = {name: value for name, value in asked.items() if value not in ("", None) and value == value}
    for name in ("devices", "batch_per_device"):
        if name in given and not (isinstance(given[name], (int, float)) and given[name] > 0):
            raise ValueError(f"{name} = {given[name]!r} is not possible; give a number above 0")
    return pd.DataFrame([given])


def _runs(rows: pd.DataFrame) -> Runs:
    """Measurements as what likeness is told by."""
    devices = catalog.table("accelerators").set_index("key")
    labels, amounts = {}, {}
    if "model" in rows:
        models = catalog.table("models").set_index("name")["family"]
        network = rows["model"].map({name: explore_rows.network(name) for name in rows["model"].unique()})
        labels["network"], labels["workload"] = network, network.map(models).fillna("")
    if "accelerator" in rows:
        labels["accelerator"] = rows["accelerator"]
        labels["vendor"] = rows["accelerator"].map(devices["vendor"]).fillna("")
        labels["family"] = rows["accelerator"].map(devices["generation"]).fillna("")
    for name, column in (("format", "precision"), ("engine", "framework")):
        if column in rows:
            labels[name] = rows[column]
    for name, column in (("batch", "batch_per_device"), ("devices", "devices")):
        if column in rows:
            amounts[name] = rows[column].to_numpy(dtype=float)
    if not labels:
        raise ValueError(f"near names nothing to compare: give some of {', '.join(ASKED)}")
    return Runs({name: np.asarray(values, dtype=str) for name, values in labels.items()}, amounts)


def versus(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """What one thing is worth: the best rate of each of its values, where all else that decides is equal.

    Parameters
    ----------
    rows : pandas.DataFrame
        Measurements.
    what : str
        A key of `TIED`.

    Returns
    -------
    pandas.DataFrame
        One row for each value in each setting that two values or more were measured in: `setting` (a number),
        `values` (how many), the columns of `DECIDES` that are equal, `what`, its best `throughput`, `publisher`,
        `year`, `software`, `url` and `id`, and `times` (rate over that of the slowest value of the setting), the
        settings with the largest ratio first.

    Raises
    ------
    ValueError
        Another column, or no setting in which two values were measured.
    """
    if what not in TIED:
        raise ValueError(f"versus = {what!r} cannot be compared; take one of {', '.join(TIED)}")
    rows = rows[(rows[what] != "") & rows["throughput"].notna() & rows["batch_per_device"].notna()]
    same = [name for name in DECIDES if name not in TIED[what]]
    best = rows.sort_values("throughput", kind="stable").groupby([*same, what], dropna=False).tail(1)
    by = best.groupby(same, dropna=False)
    times = best["throughput"] / by["throughput"].transform("min")
    best = best.assign(setting=by.ngroup(), values=by[what].transform("size"), times=times)
    best = best[best["values"] > 1]
    if not len(best):
        raise ValueError(f"no two values of {what} were measured with all else equal: loosen the choice")
    most = best.groupby("setting")["times"].transform("max")
    order = best.assign(most=most).sort_values(["most", "setting", "times"], ascending=[False, True, False])
    columns = ["setting", "values", *same, what, "throughput", "times", "publisher", "year", "software", "url", "id"]
    return order[list(dict.fromkeys(columns))].assign(setting=order["setting"].rank(method="dense").astype(int))
