"""A platform by phase: pre-processing, training and inference of one network, each sized for the same load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cookbook import catalog
from cookbook.planning.host_size import size_host
from cookbook.planning.sizing import cores_needed
from cookbook.prediction.terms.feed_arguments import data_set, tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

# Forward and two gradients of a training step, each about the same work: inference is the first alone.
PASSES = 3
STORES = ("hdfs-datanode-12-disks", "nfs-server-10-gbe", "hpe-clusterstor-e1000-48-x-7-15tib-nvme-10xhdr200")
ETHERNET = ("ethernet-1g", "ethernet-10g", "ethernet-25g", "ethernet-100g", "ethernet-200g", "ethernet-400g")


def size_platform(
    machine: str, network: str, data: str, machines: int = 1, batch: float = 64, work: float = 1
) -> pd.DataFrame:
    """Samples a second, cores and bytes a second of each phase, and the network that carries them.

    Pre-processing decodes for all machines and sends decoded samples on; training reads compressed samples, or those
    decoded elsewhere; inference takes compressed samples from clients. Inference is counted as three times the rate of
    training, as it computes one of the three passes: about right for large batches, too much for small ones.

    Parameters
    ----------
    machine : str
        As for `cookbook.topology`, one with a server of the catalogue.
    network, data : str
        A network of the zoo and a card of the table ``data_sets``.
    machines : int
        How many train, and as many infer.
    batch : float
        Samples of one step of one accelerator.
    work : float
        Work for one sample over decoding it alone.

    Returns
    -------
    pandas.DataFrame
        By phase: ``samples_per_s`` and ``cores`` (of all machines; infinite where one loader an accelerator is not
        enough), ``bytes_in``, ``bytes_out`` [B/s] of all machines, ``host_link`` (what one machine takes) [B/s] and
        ``ethernet``, the slowest that carries it; "" where none does.

    Raises
    ------
    cookbook.catalog.UnknownName
        A machine, network or data set that the catalogue does not have.
    ValueError
        A figure that cannot be, or a network that takes other data.

    Examples
    --------
    >>> frame = size_platform("hgx-h100", "resnet50", "imagenet-1k", 8)
    >>> frame["ethernet"]["training, samples compressed"], bool(frame["cores"]["pre-processing"] > 64)
    ('Ethernet 25G', True)
    """
    import pandas as pd

    if not machines >= 1:
        raise ValueError(f"machines = {machines!r} is outside [1, inf): give one or more")
    size, card = size_host(machine, network, data, batch=batch), data_set(data)
    count = len(size.machine.named("accelerator"))
    rate = size.stages["computing"] * count * machines
    server = catalog.table("system_topologies").set_index("key").loc[size.machine.key, "system"]
    one = cores_needed(network, server or size.machine.accelerator, data, batch, work=work)
    stored, decoded = float(card["stored_bytes"]) / float(card["samples"]), float(card["decoded_bytes"])
    cores = one * count * machines
    rows = {
        "pre-processing": (rate, cores, rate * stored, rate * decoded),
        "training, samples compressed": (rate, cores, rate * stored, 0.0),
        "training, decoded elsewhere": (rate, 0.0, rate * decoded, 0.0),
        "inference": (PASSES * rate, PASSES * cores, PASSES * rate * stored, 0.0),
    }
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["samples_per_s", "cores", "bytes_in", "bytes_out"])
    link = np.maximum(frame["bytes_in"], frame["bytes_out"]) / machines
    return frame.assign(host_link=link, ethernet=[_ethernet(value) for value in link]).rename_axis("phase")


def _ethernet(rate: float) -> str:
    """The slowest Ethernet that carries a rate, at the part of the line rate that is known for it."""
    links = catalog.table("interconnects").set_index("key").loc[list(ETHERNET)]
    share = links["efficiency"].fillna(links["efficiency"].min())
    fast = links[links["bandwidth"] * share >= rate]
    return str(fast["name"].iloc[0]) if len(fast) else ""


def nodes_needed(rate: float, data: str | float, stores: Sequence[str] = STORES) -> pd.DataFrame:
    """Nodes, drives or units of stores that read samples one by one or in shards as fast as asked.

    Parameters
    ----------
    rate : float
        Samples a second [1/s].
    data : str or float
        A card of the table ``data_sets``, or the bytes of one sample as stored [B].
    stores : sequence of str, optional
        Keys of the table ``storage``, each with a read bandwidth; one each of HDFS, NFS and Lustre by default.

    Returns
    -------
    pandas.DataFrame
        By store: ``shards`` and ``small files``, how many are needed; NaN where the figure for it is not known.

    Raises
    ------
    ValueError
        A rate or size that is not above zero.
    """
    import pandas as pd

    if not 0 < rate < np.inf:
        raise ValueError(f"rate = {rate!r} is outside (0, inf): give more than zero samples a second")
    card, found = data_set(data), {}
    sample = float(card["stored_bytes"]) / float(card["samples"])
    for store in stores:
        one = tier(store)
        streamed, single = rate * sample / one["read_bandwidth"], rate / one["read_iops"]
        files = streamed + single if one["seeks"] else np.maximum(streamed, single)
        found[one["name"]] = np.ceil([streamed, files])
    return pd.DataFrame.from_dict(found, orient="index", columns=["shards", "small files"]).rename_axis("store")
