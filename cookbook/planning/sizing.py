"""How much host accelerators need: one machine in full, and tables over generations, machines and rented instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cookbook import catalog
from cookbook.host import topology
from cookbook.planning.host_size import BOUNDLESS, CORES, HostSize, size_host
from cookbook.prediction.match import match_storage
from cookbook.prediction.terms.feed_arguments import data_set

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HostSize", "cores_needed", "machines", "measured_links", "rented", "size_host"]
NODE, THREADS = 8, 2


def cores_needed(
    workload: str, system: str, data: str, batch: float = 64, *, work: float = 1, processor: str = ""
) -> float:
    """Physical cores for one accelerator, a worker on each, that decode as fast as it trains.

    Parameters
    ----------
    workload, system, data
        As for `cookbook.match_storage`; a server brings its processor along. Eight accelerators share the host.
    batch : float
        Samples of one step of one accelerator.
    work : float
        Work for one sample over decoding it alone: 2 where augmentation costs as much again.
    processor : str
        Words that name another processor.

    Returns
    -------
    float
        Cores, in quarters; infinite where the process that collects batches stops before.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, system or data set that the catalogue does not have.
    ValueError
        A figure that cannot be.

    Examples
    --------
    >>> cores_needed("gpt2", "dgx-h100", "c4-en-tokens", 8)
    0.25
    """
    if not 0 <= work < np.inf:
        raise ValueError(f"work = {work!r} is outside [0, inf): give the work for a sample over decoding it alone")
    card = {"card": data, "layout": "shards", "decode_work": work * float(data_set(data)["decode_work"])}
    fed = match_storage(
        workload, system, BOUNDLESS, card, batch=batch, accelerators=NODE, cores=NODE * CORES,
        workers=np.maximum(CORES, 1), processor=processor,
    )  # fmt: skip
    return float(CORES[fed.stages["decoding"] >= fed.stages["accelerators"]].min(initial=np.inf))


def machines(names: Sequence[str]) -> pd.DataFrame:
    """What each accelerator of machines gets from links, alone and with all others, at nominal rates.

    Parameters
    ----------
    names : sequence of str
        As for `cookbook.topology`.

    Returns
    -------
    pandas.DataFrame
        By machine: root; ``input alone``, ``input, all`` (from the nearest memory, all at once), ``all from socket 0``
        (from one memory), ``gradients`` (rings of an all-reduce; NaN for one accelerator), and with both at
        once ``both: input`` and ``both: gradients`` [B/s].

    Examples
    --------
    >>> machines(["hgx-h100"])["gradients"].tolist()
    [450000000000.0]
    """
    import pandas as pd

    rows = []
    for box in map(topology, names):
        near, far = box.input_flows(), box.input_flows(box.named("memory")[0])
        inputs = box.bandwidth(*near[0]), box.concurrent(near).min(), box.concurrent(far).min()
        both = box.concurrent([*near, *box.ring_flows()])[: len(near)].min()
        rows.append((box.name, box.root, *inputs, box.ring_bandwidth(), both, box.ring_bandwidth(beside=near)))
    rates = ["input alone", "input, all", "all from socket 0", "gradients", "both: input", "both: gradients"]
    return pd.DataFrame(rows, columns=["machine", "root", *rates]).set_index("machine")


def rented(instances: Sequence[str], workload: str, data: str, batch: float = 64) -> pd.DataFrame:
    """Cores of rented instances for one accelerator, beside what a workload needs.

    Parameters
    ----------
    instances : sequence of str
        Keys of the table ``systems`` with virtual processors, each one thread of a core with two.
    workload, data, batch
        As for `cores_needed`.

    Returns
    -------
    pandas.DataFrame
        By instance: ``cores``, ``needed`` and ``needed with augmentation``, which costs twice the decoding.

    Raises
    ------
    ValueError
        An instance without a number of virtual processors.
    """
    import pandas as pd

    rows = catalog.table("systems").set_index("key")
    found = {}
    for name in instances:
        row = rows.loc[catalog.lookup("systems", name)]
        if not row["vcpus"] > 0:
            raise ValueError(f"instances: {name!r} has no number of virtual processors in the catalogue; take another")
        need = [cores_needed(workload, row.name, data, batch, work=work) for work in (1, 3)]
        found[row.name] = [row["vcpus"] / THREADS / row["devices"], *need]
    columns = ["cores", "needed", "needed with augmentation"]
    return pd.DataFrame.from_dict(found, orient="index", columns=columns).rename_axis("instance")


def measured_links() -> pd.DataFrame:
    """Nominal rates of machines' graphs beside the largest that were measured on their accelerators.

    Measurements name accelerators and their number, not machines: those whose rings need no processor are compared.

    Returns
    -------
    pandas.DataFrame
        One row a machine: accelerators, ``nominal`` (rings of an all-reduce), ``measured`` (bus bandwidth of an
        all-reduce in one machine, without sums in switches) [B/s], ``share``, source.
    """
    import pandas as pd

    seen = catalog.table("collectives")
    summed = seen[["algorithm", "intra_node_link"]].agg(" ".join, axis=1).str.contains("SHARP|NVLS")
    seen = seen[(seen["collective"] == "all_reduce") & (seen["nodes"] == 1) & ~summed]
    rows = []
    for key in catalog.table("system_topologies")["key"]:
        box = topology(key)
        own = seen[(seen["accelerator"] == box.accelerator) & (seen["per_node"] == len(box.named("accelerator")))]
        crossed = {name for flow in box.ring_flows() for name in box.path(*flow)}
        if len(own) and not crossed & set(box.named("socket")):
            best = own.loc[own["bus_bandwidth"].idxmax()]
            rows.append((box.name, len(box.named("accelerator")), box.ring_bandwidth(), best["bus_bandwidth"],
                         best["source"]))  # fmt: skip
    found = pd.DataFrame(rows, columns=["machine", "accelerators", "nominal", "measured", "source"])
    return found.assign(share=found["measured"] / found["nominal"]).set_index("machine")
