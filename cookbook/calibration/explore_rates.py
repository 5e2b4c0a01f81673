"""What follows from a measured rate: per device, per watt, scaling efficiency and utilisation of the arithmetic."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.hardware import peak_flops
from cookbook.prediction.intake import networks
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

# Runs that differ in nothing but devices and batch: a curve of scaling.
SAME = ("publisher", "source", "kind", "phase", "model", "task", "accelerator", "precision", "software", "data", "unit")
# Kinds whose rate is one rate of all devices together; a collective's is that of one rank.
TOGETHER = ("training", "inference", "matmul")
# A multiply-add of the forward pass is 2 FLOP, and the backward pass does it twice more.
TRAINING_FLOP_PER_MAC = 6.0


def per_device(rows: pd.DataFrame) -> pd.Series:
    """Rate over devices [items/s]; missing where rates of devices do not add up, or their number is unknown."""
    together = rows["kind"].isin(TOGETHER) | ((rows["kind"] == "storage") & (rows["unit"] == "samples/s"))
    return (rows["throughput"] / rows["devices"]).where(together & (rows["devices"] > 0))


def per_watt(rows: pd.DataFrame) -> pd.Series:
    """Rate over the design power (TDP) of the devices [items/s/W]; no power was measured, hosts are left out."""
    watts = rows["accelerator"].map(catalog.table("accelerators").set_index("key")["tdp_watts"])
    return (rows["throughput"] / (rows["devices"] * watts)).where(rows["kind"].isin(TOGETHER))


def efficiencies(rows: pd.DataFrame) -> pd.DataFrame:
    """Weak and strong scaling efficiency, and the kind of curve that a row belongs to.

    A curve holds runs of one publisher that are equal in all of `SAME` and in the layout of training, and
    in batch a device (weak) or in global batch (strong). The base is the median rate per device on its fewest devices;
    those runs have no efficiency of their own.

    Parameters
    ----------
    rows : pandas.DataFrame
        Columns of `SAME`, `layout`, `devices`, `batch`, `batch_per_device` and `throughput`.

    Returns
    -------
    pandas.DataFrame
        ``weak_efficiency``, ``strong_efficiency`` (NaN without fewer devices to compare with), ``scaling`` (weak,
        strong, weak and strong, or blank).
    """
    run = rows[rows["kind"].isin(("training", "inference")) & rows["throughput"].notna() & rows["batch"].notna()]
    layout = run["layout"].where(run["kind"] == "training", "")
    each = run["throughput"] / run["devices"]
    found, member = rows[[]].copy(), {}
    for name, fixed in (("weak", "batch_per_device"), ("strong", "batch")):
        keys = [run[column] for column in SAME] + [layout, run[fixed]]
        fewest = run["devices"].groupby(keys, dropna=False).transform("min")
        base = each.where(run["devices"] == fewest).groupby(keys, dropna=False).transform("median")
        found[f"{name}_efficiency"] = (each / base).where(run["devices"] > fewest)
        grows = run["devices"].groupby(keys, dropna=False).transform("max") > fewest
        member[name] = rows.index.isin(run.index[grows])
    both = [member["weak"] & member["strong"], member["weak"], member["strong"]]
    return found.reindex(rows.index).assign(scaling=np.select(both, ["weak and strong", "weak", "strong"], ""))


def utilisation(rows: pd.DataFrame, flop_per_item: Any) -> pd.Series:
    """Share of the dense peak of the devices in the number format of the row that the network's own FLOP amount to.

    Parameters
    ----------
    rows : pandas.DataFrame
        `throughput`, `devices`, `accelerator`, `number_format`.
    flop_per_item : array_like
        FLOP of one item that `throughput` counts.
    """
    names = rows[["accelerator", "number_format"]].drop_duplicates()
    known = {(key, name): peak_flops(key, name) if key and name else np.nan for key, name in names.to_numpy()}
    peak = [known[pair] for pair in zip(rows["accelerator"], rows["number_format"], strict=True)]
    return rows["throughput"] * flop_per_item / (rows["devices"] * np.asarray(peak))


@lru_cache(maxsize=1)
def classic_flop() -> dict[str, float]:
    """FLOP of training one counted item, by id of training_classic, layer by layer; takes some seconds, once."""
    frame = catalog.table("training_classic")
    known: dict[tuple[str, ...], float] = {}
    found = {}
    for row in frame[["id", "model", "task_input", "unit"]].itertuples(index=False):
        what = (row.model, row.task_input, row.unit)
        if what not in known:
            known[what] = _flop(networks.trained(*what))
        found[row.id] = known[what]
    return found


def _flop(given: networks.Input) -> float:
    if not given.name or given.why:
        return float("nan")
    work = zoo.model(str(given.name), **json.loads(given.arguments or "{}"))
    return (
        TRAINING_FLOP_PER_MAC
        * float(work.ops.total("macs", 1, (given.seq if given.seq == given.seq else work.seq) or 1))
        / given.items
    )
