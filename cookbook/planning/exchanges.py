"""Exchanges of one job on several named networks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cookbook import catalog
from cookbook.prediction.fabrics import EXCHANGES, exchange_seconds, fabric

if TYPE_CHECKING:
    import pandas as pd


def exchange_times(devices: int, payload_bytes: float, fabrics: Sequence[str] = ()) -> pd.DataFrame:
    """Time of each exchange among the first devices of each network.

    Parameters
    ----------
    devices : int
        Devices that take part.
    payload_bytes : float
        Vector held by each device, or the whole that is gathered [B].
    fabrics : sequence of str
        Networks of the table ``fabrics``; all that have so many devices by default.

    Returns
    -------
    pandas.DataFrame
        One row a network and exchange: ``fabric``, ``exchange``, ``seconds``, ``bus_bandwidth`` (what a device would
        need on its only link for the same time) and ``bisection_bandwidth`` (nominal) [B/s].

    Raises
    ------
    cookbook.catalog.UnknownName
        A network that the catalogue does not have.
    ValueError
        More devices than a named network has.

    Examples
    --------
    >>> found = exchange_times(1024, 1e9, ["SuperPOD H100", "Meta RoCE"])
    >>> found.groupby("exchange")["seconds"].nunique().to_dict()  # one pod holds 1,024: nothing is oversubscribed
    {'all_gather': 1, 'all_reduce': 1, 'all_to_all': 1, 'reduce_scatter': 1}
    """
    import pandas as pd

    table = catalog.table("fabrics")
    names = list(fabrics) or list(table.loc[~(table["largest"] < devices), "key"])
    rows = []
    for network in map(fabric, names):
        for kind in EXCHANGES:
            seconds = exchange_seconds(kind, payload_bytes, devices, network)
            passes = 2 if kind == "all_reduce" else 1
            moved = passes * (devices - 1) / devices * payload_bytes
            bus = moved / seconds if seconds > 0 else np.nan
            rows.append((network.name, kind, seconds, bus, network.bisection_bandwidth(devices)))
    return pd.DataFrame(rows, columns=["fabric", "exchange", "seconds", "bus_bandwidth", "bisection_bandwidth"])
