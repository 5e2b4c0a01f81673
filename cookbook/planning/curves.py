"""Curves of scaling by formulas alone: one batch over ever more devices, by ways to sum gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cookbook import units
from cookbook.performance import collectives, data_parallel
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

# Arithmetic of a training step for each multiply-accumulate of the forward pass, and bytes of a 32-bit gradient.
STEP_FLOP, GRADIENT = 6, 4


def split_batch(
    workload: str | zoo.Workload, batch: float, flops: float | str, inner: tuple[str, float | str],
    outer: tuple[str, float | str], devices: int = 256, node: int = 8,
) -> pd.DataFrame:  # fmt: skip
    """Speed-up of one batch split over devices: the founding formula beside a ring and a hierarchy; nothing is hidden.

    Parameters
    ----------
    workload : str or Workload
        A network; its gradients have 32 bits.
    batch : float
        Samples of one step of all devices together.
    flops : float or str
        Arithmetic rate that one device reaches [FLOP/s].
    inner, outer : (str, float or str)
        Name and rate [B/s] of the link of each device: within a node, and between nodes. The founding formula uses
        each alone, the ring the outer, the hierarchy both.
    devices, node : int
        End of the curves; devices that share a node.

    Returns
    -------
    pandas.DataFrame
        devices, speed_up, network (the way of summing): as `cookbook.charts.speedups` takes it.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network that the catalogue does not have.
    ValueError
        A figure that cannot be.

    Examples
    --------
    >>> links = ("PCIe 3", "16 GB/s"), ("InfiniBand", "56 Gb/s")
    >>> curves = split_batch("alexnet", 1024, "4 TFLOP/s", *links, devices=64)
    >>> curves.groupby("network")["speed_up"].max().round().to_dict()
    {'2 w log2(p), InfiniBand': 3.0, '2 w log2(p), PCIe 3': 6.0, 'hierarchical': 22.0, 'ring, InfiniBand': 13.0}
    """
    import pandas as pd

    counts = np.array([2**power for power in range(int(devices).bit_length())])
    network = zoo.model(workload) if isinstance(workload, str) else workload
    work = STEP_FLOP * batch * network.ops.total("macs", 1, network.seq)
    seconds = _exchanges(GRADIENT * network.ops.parameter_count, counts, node, inner, outer)
    alone = work / units.si(flops, "FLOP/s")
    return pd.concat([
        pd.DataFrame({"devices": counts, "speed_up": alone / (alone / counts + wait), "network": name})
        for name, wait in seconds.items()
    ], ignore_index=True)  # fmt: skip


def _exchanges(weights: float, counts: np.ndarray, node: int, *links: tuple[str, float | str]) -> dict[str, np.ndarray]:
    """Seconds in which devices sum 32-bit gradients, by way."""
    rates = {name: units.si(rate, "B/s") for name, rate in links}
    (inside, between), far = rates.values(), links[1][0]
    founding = {
        f"2 w log2(p), {name}": data_parallel.hpe_2017_data_parallel_seconds(0, weights, counts, 1, rate)["exchange"]
        for name, rate in rates.items()
    }
    levels = np.minimum(counts, node), np.maximum(counts / node, 1)
    return founding | {
        f"ring, {far}": collectives.ring_all_reduce_seconds(weights, counts, between, 0),
        "hierarchical": collectives.hierarchical_all_reduce_seconds(weights, *levels, inside, between, 0, 0),
    }
