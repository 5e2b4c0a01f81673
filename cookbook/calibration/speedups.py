"""Speed-ups: measured ones beside those predicted with the publisher unseen, and how far predicted ones may be off."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.prediction import scaling as engine
from cookbook.prediction.intake import networks
from cookbook.workloads.zoo import Workload

if TYPE_CHECKING:
    import pandas as pd

# Two runs are the same but for the number of devices where these agree.
SAME = ("publisher", "source", "model", "accelerator", "precision", "task_input", "software", "software_notes",
        "batch_per_device", "grad_accum_steps", "data", "unit")  # fmt: skip
HELD = 0.8


def scaling(
    workload: str | Workload,
    system: str,
    devices: int | Sequence[int] = 1024,
    batch: float = 64,
    *,
    mode: str = "weak",
    exchange: str | engine.Exchange = engine.MEASURED,
    buckets: int | None = None,
    link: str = "",
    per_node: int | None = None,
    software: str = "",
    precision: str = "",
    seq: float | None = None,
) -> pd.DataFrame:
    """Data-parallel training from one device to many: step, speed-up with its interval, and what a step is made of.

    Parameters
    ----------
    workload : str or Workload
        A network, but no language model.
    system : str
        An accelerator or a server of the catalogue.
    devices : int or sequence of int
        Numbers of devices; one number means the powers of two up to it, in strong scaling no more than there
        are samples.
    batch : float
        Samples of each device (weak scaling), or of all together (strong), of which the fullest device decides.
    mode : str
        "weak" or "strong".
    exchange : str or callable
        How gradients are summed: "hierarchical" (as measured stacks do), "flat ring", "halving-doubling",
        "in-network", "parameter server" (one), "HPE 2017" (2 w log2(p) / beta); or your own function of payload [B],
        ranks, bandwidth [B/s] and latency [s], used between nodes, and within the node where there is only one.
    buckets : int, optional
        Parts in which gradients are sent while the backward pass goes on; 1 hides nothing. By default what measured
        stacks hide.
    link : str
        A link of the catalogue between nodes, one port a device, in place of the machine's own.
    per_node : int, optional
        Devices of a node; those of the server, or 8.
    software, precision, seq
        As for `cookbook.train_step`.

    Returns
    -------
    pandas.DataFrame
        One row a number of devices: nodes, batch (of a device), step_seconds, samples_per_second, speed_up (over one
        device), low80 and high80 (of the speed-up, from measured ones; NaN where the exchange is not as measured
        stacks do it), efficiency, and seconds of each part.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, device, link or number format that the catalogue does not have.
    ValueError
        Any other argument that cannot be: which, its value and the remedy.

    Examples
    --------
    >>> table = scaling("vgg16", "dgx-1-p100", 8, 32, precision="fp32")
    >>> table["devices"].tolist(), bool(table["efficiency"].iloc[-1] < 1)
    ([1, 2, 4, 8], True)
    """
    table = engine.scaled(
        workload, system, devices, batch, mode=mode, exchange=exchange, buckets=buckets, link=link, per_node=per_node,
        software=software, precision=precision, seq=seq,
    )  # fmt: skip
    as_measured = exchange == engine.MEASURED and buckets is None
    low, high = reach(table["devices"], table["nodes"]) if as_measured else np.full((2, len(table)), np.nan)
    at = table.columns.get_loc("speed_up") + 1
    table.insert(at, "low80", table["speed_up"] * low)
    table.insert(at + 1, "high80", table["speed_up"] * high)
    return table


@lru_cache(maxsize=1)
def pairs() -> pd.DataFrame:
    """Measured runs on several devices that have a twin on one, and the speed-up predicted with the publisher unseen.

    Columns as of `cookbook.accuracy` by row, and measured_speed_up, predicted_speed_up, ratio (predicted over
    measured), network (of the zoo), nodes, low_80 and high_80: from what the other publishers' speed-ups were off by.
    """
    from cookbook.calibration import judged

    rows = judged.accuracy("row", "classic", "without neighbours")
    more = catalog.table("training_classic").set_index("id")
    wanted = [*(name for name in SAME if name not in rows), "per_node"]
    rows = rows[rows["unit"].str.endswith("/s")].join(more[wanted], on="id")
    keys = list(SAME)
    one = rows[rows["devices"] == 1].groupby(keys, dropna=False)[["measured", "predicted"]].median().add_suffix("_one")
    many = rows[rows["devices"] > 1].join(one, on=keys, how="inner")
    found = many.assign(
        measured_speed_up=many["measured"] / many["measured_one"],
        predicted_speed_up=many["predicted"] / many["predicted_one"],
        network=[networks.trained(*run).name for run in many[["model", "task_input", "unit"]].to_numpy()],
        nodes=np.ceil(many["devices"] / many["per_node"].fillna(many["devices"].clip(upper=8))),
    )
    found = found.assign(ratio=found["predicted_speed_up"] / found["measured_speed_up"]).reset_index(drop=True)
    ends = np.ones((2, len(found)))
    for publisher in found["publisher"].unique():
        own = (found["publisher"] == publisher).to_numpy()
        ends[:, own] = _reach(found[~own], found.loc[own, "devices"], found.loc[own, "nodes"])
    low, high = found["predicted_speed_up"].to_numpy() * ends
    return found.assign(low_80=low, high_80=high).drop(columns=["measured_one", "predicted_one"])


def judged_pairs(ids: Any) -> pd.DataFrame:
    """Speed-ups of some runs by publisher, on one node and on several.

    Columns: publisher, nodes, runs; medians of measured and predicted efficiency, of the error of the predicted
    speed-up and of what claiming the ideal would be off by; inside_80: share inside the interval that the other
    publishers give.

    Raises
    ------
    ValueError
        None of the runs has a twin on one device.
    """
    found = pairs()
    found = found[found["id"].isin(ids)]
    if not len(found):
        raise ValueError("none of these runs has a twin on one device: take kind = classic, or other publishers")
    measured = found["measured_speed_up"]
    each = found.assign(
        nodes=np.where(found["nodes"] > 1, "several", "one"), runs=1, measured=measured / found["devices"],
        predicted=found["predicted_speed_up"] / found["devices"], error=np.abs(found["ratio"] - 1),
        error_of_ideal=np.abs(found["devices"] / measured - 1),
        inside_80=(found["low_80"] <= measured) & (measured <= found["high_80"]),
    ).groupby(["publisher", "nodes"])  # fmt: skip
    middle = each[["measured", "predicted", "error", "error_of_ideal"]].median()
    return each[["runs"]].sum().join(middle).join(each[["inside_80"]].mean()).reset_index()


def reach(devices: Any, nodes: Any) -> np.ndarray:
    """Ends of the 80 per cent interval of a speed-up over the predicted one, (2, ...): 1 for one device."""
    return _reach(pairs(), devices, nodes)


def _reach(known: pd.DataFrame, devices: Any, nodes: Any) -> np.ndarray:
    """Ends from the errors of known speed-ups; between nodes, which only cost more, low reaches further."""
    error, publisher = np.abs(np.log(known["ratio"].to_numpy())), known["publisher"].to_numpy()
    one = known["nodes"].to_numpy() == 1
    near = _quantile(error[one], publisher[one])
    far = max(near, _quantile(error[~one], publisher[~one])) if (~one).any() else near
    alone, several = np.asarray(devices) <= 1, np.asarray(nodes) > 1
    low, high = np.where(several, far, near), np.full(several.shape, near)
    return np.where(alone, 1.0, np.exp([-low, high]))


def _quantile(error: np.ndarray, publisher: np.ndarray) -> float:
    """Error that the share `HELD` of all stays below, publishers weighted alike."""
    _, codes, counts = np.unique(publisher, return_inverse=True, return_counts=True)
    order = np.argsort(error)
    below = np.cumsum(1 / counts[codes][order])
    return float(error[order][min(int(np.searchsorted(below / below[-1], HELD)), len(error) - 1)])
