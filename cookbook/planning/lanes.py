"""PCIe lanes of a machine: what its devices could use, what its processors offer, and what switches share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.host import topology

if TYPE_CHECKING:
    import pandas as pd

LANES = re.compile(r"pcie-(\d)-\d-x(\d+)$")
DEVICES = {"accelerator": "accelerators", "nic": "adapters", "storage": "drives"}


def lane_budget(names: Sequence[str]) -> pd.DataFrame:
    """Lanes that devices of machines ask for, beside those of the processors; drives of the drawing only.

    Parameters
    ----------
    names : sequence of str
        As for `cookbook.topology`.

    Returns
    -------
    pandas.DataFrame
        By machine: ``accelerators``, ``adapters``, ``drives`` (lanes at the devices; 0 where they hang on something
        else than PCIe), ``asked`` (their sum), ``taken`` (lanes that leave the processors, to devices or to switches),
        ``sharing`` (asked over taken: devices' lanes for one of the processors'), ``offered`` (by all processors; NaN
        where the table ``processors`` does not say), ``left``, ``generation`` (the oldest of links to accelerators).

    Raises
    ------
    cookbook.catalog.UnknownName
        A machine that the catalogue does not have.

    Examples
    --------
    Four switches take 64 of the 80 lanes of two processors, and share them among 192 of devices:

    >>> lane_budget(["dgx-1-v100"])[["asked", "taken", "offered"]].to_numpy().tolist()
    [[192.0, 64.0, 80.0]]
    """
    import pandas as pd

    boxes = [topology(name) for name in names]
    frame = pd.DataFrame([_lanes(box.key) for box in boxes], index=pd.Index([b.name for b in boxes], name="machine"))
    asked = frame[list(DEVICES.values())].sum(axis=1)
    found = frame.assign(asked=asked, sharing=asked / frame["taken"], left=frame["offered"] - frame["taken"])
    return found[[*DEVICES.values(), "asked", "taken", "sharing", "offered", "left", "generation"]]


def _lanes(key: str) -> dict[str, float]:
    nodes, links = (catalog.table(table) for table in ("system_nodes", "system_links"))
    kinds = nodes[nodes["system"] == key].set_index("node")["kind"]
    found = dict.fromkeys([*DEVICES.values(), "taken"], 0.0)
    generations = []
    for row in links[links["system"] == key].to_dict("records"):
        bus = LANES.search(str(row["link"]))
        if not bus:
            continue
        ends, lanes = {kinds[row["from"]], kinds[row["to"]]}, float(bus[2]) * row["count"]
        for kind in ends & set(DEVICES):
            found[DEVICES[kind]] += lanes
        found["taken"] += lanes * ("socket" in ends)
        generations += [float(bus[1])] * ("accelerator" in ends)
    offered = _offered(key, int((kinds == "socket").sum()))
    return found | {"offered": offered, "generation": min(generations, default=np.nan)}


def _offered(key: str, sockets: int) -> float:
    """Lanes of all processors of a machine."""
    machines, systems = (catalog.table(table).set_index("key") for table in ("system_topologies", "systems"))
    system = machines.loc[key, "system"]
    words: Any = systems.loc[system, "cpu"] if system else ""
    for row in catalog.table("processors").itertuples(index=False):
        if words and re.search(row.pattern, words, re.I):
            return row.pcie_lanes * sockets
    return np.nan
