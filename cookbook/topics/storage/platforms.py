"""Hosts that accelerators need: tables over generations, machines, rented instances, and a platform by phase.

And what an input chain costs and what to change first: `rank_changes` by what they gain for the money, `epoch_parts`,
`chain_figures`. They take what `cookbook.match_storage` gave for one scenario, and refuse several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.prices import HOUR, MONTH, YEAR, years_of_use
from cookbook.hardware import Accelerator
from cookbook.hardware.topology import Topology, topology
from cookbook.prediction.api import MODEL
from cookbook.prediction.kinds.input_pipeline_arguments import one_of
from cookbook.prediction.match import StorageMatch, match_storage
from cookbook.topics.storage.host import BATCH, BOUNDLESS, CORES, DATA, MACHINE, MAX_COUNT, one_data_set, size_host
from cookbook.workloads import zoo

NODE, THREADS = 8, 2
# Forward and two gradients of a training step, each about the same work: inference is the first alone.
PASSES = 3
STORES = ("hdfs-datanode-12-disks", "nfs-server-10-gbe", "hpe-clusterstor-e1000-48-x-7-15tib-nvme-10xhdr200")
ETHERNET = ("ethernet-1g", "ethernet-10g", "ethernet-25g", "ethernet-100g", "ethernet-200g", "ethernet-400g")
DEVICES = {"accelerator": "accelerators", "nic": "adapters", "storage": "drives"}
RATES = ("input alone", "input, all", "all from socket 0", "gradients", "both: input", "both: gradients")


WORK, SYSTEM = Field.number(0, MAX_COUNT), Field.named("accelerators", Accelerator, what="system")
INSTANCE = Field.named("systems", what="instance", many=True, give="names of the table 'systems'")
MATCHED = Field.record(
    StorageMatch, what="match of a storage", give="what cookbook.match_storage gave for one scenario"
)


@checked(model=MODEL, system=SYSTEM, data=DATA, batch=BATCH, work=WORK, processor=Field.text())
def cores_needed(
    model: str | zoo.Workload,
    system: str | Accelerator,
    data: str | float | Mapping[str, Any],
    batch: float = 64,
    *,
    work: float = 1,
    processor: str = "",
) -> float:
    """Return physical cores for one accelerator, a worker on each, that decode as fast as it trains.

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

    Examples
    --------
    >>> cores_needed("gpt2", "dgx-h100", "c4-en-tokens", 8)
    0.25
    """
    own = one_data_set(data)
    card = (
        {"card": data}
        if isinstance(data, str)
        else dict(data)
        if isinstance(data, Mapping)
        else {"samples": own["samples"], "stored_bytes": own["stored_bytes"]}
    )
    card |= {"layout": "shards", "decode_work": work * float(own["decode_work"])}
    fed = match_storage(
        model,
        system,
        BOUNDLESS,
        card,
        batch=batch,
        accelerators=NODE,
        cores=NODE * CORES,
        workers=np.maximum(CORES, 1),
        processor=processor,
    )
    return float(CORES[fed.stages["decoding"] >= fed.stages["accelerators"]].min(initial=np.inf))


@checked(names=replace(MACHINE, many=True))
def machines(names: Sequence[str | Topology]) -> pd.DataFrame:
    """Return the bandwidth of each accelerator of machines, alone and with all others, at nominal rates of links.

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
    rows = {}
    for box in map(topology, names):
        near, far = box.input_flows(), box.input_flows(box.named("memory")[0])
        inputs = box.bandwidth(*near[0]), box.concurrent(near).min(), box.concurrent(far).min()
        concurrent = box.concurrent([*near, *box.ring_flows()])[: len(near)].min()
        rows[box.name] = (box.root, *inputs, box.ring_bandwidth(), concurrent, box.ring_bandwidth(beside=near))
    return pd.DataFrame.from_dict(rows, orient="index", columns=["root", *RATES]).rename_axis("machine")


def measured_links() -> pd.DataFrame:
    """Return nominal rates of machines' graphs beside the largest that were measured on their accelerators.

    Measurements name accelerators and their number, not machines: those whose rings need no processor are compared.

    Returns
    -------
    pandas.DataFrame
        One row per machine: accelerators, ``nominal`` (rings of an all-reduce), ``measured`` (bus bandwidth of an
        all-reduce in one machine, without sums in switches) [B/s], ``share``, source.
    """
    seen = catalog.table("collectives")
    words = seen["algorithm"] + " " + seen["intra_node_link"]
    summed = words.str.contains("SHARP", regex=False) | words.str.contains("NVLS", regex=False)
    seen = seen[(seen["collective"] == "all_reduce") & (seen["nodes"] == 1) & ~summed]
    rows = {}
    for box in map(topology, catalog.table("system_topologies")["key"]):
        count = len(box.named("accelerator"))
        own = seen[(seen["accelerator"] == box.accelerator) & (seen["per_node"] == count)]
        crossed = {name for flow in box.ring_flows() for name in box.path(*flow)}
        if len(own) and not crossed & set(box.named("socket")):
            best = own.loc[own["bus_bandwidth"].idxmax()]
            rows[box.name] = (count, box.ring_bandwidth(), best["bus_bandwidth"], best["source"])
    table = pd.DataFrame.from_dict(
        rows, orient="index", columns=["accelerators", "nominal", "measured", "source"]
    ).rename_axis("machine")
    return table.assign(share=table["measured"] / table["nominal"])


@checked(instances=INSTANCE, model=MODEL, data=DATA, batch=BATCH)
def rented(instances: Sequence[str], model: str, data: str, batch: float = 64) -> pd.DataFrame:
    """Return cores of rented instances for one accelerator, beside those that a workload needs.

    Parameters
    ----------
    instances : sequence of str
        Keys of the table ``systems`` with virtual processors, each one thread of a core with two.
    workload, data, batch
        As for `cores_needed`.

    Returns
    -------
    pandas.DataFrame
        By instance: ``cores``, ``needed`` and ``needed with augmentation``, an allowance of three times the
        decoding that no measurement supports.
    """
    rows = catalog.table("systems").set_index("key")
    by_instance = {}
    for name in instances:
        key = catalog.lookup("systems", name)
        if not rows.loc[key, "vcpus"] > 0:
            raise ValueError(f"instances: {name!r} has no number of virtual processors in the catalogue; take another")
        need = [cores_needed(model, key, data, batch, work=work) for work in (1, 3)]
        by_instance[key] = [rows.loc[key, "vcpus"] / THREADS / rows.loc[key, "devices"], *need]
    return pd.DataFrame.from_dict(
        by_instance, orient="index", columns=["cores", "needed", "needed with augmentation"]
    ).rename_axis("instance")


@checked(names=replace(MACHINE, many=True))
def lane_budget(names: Sequence[str]) -> pd.DataFrame:
    """Return the lanes that devices of machines need, beside those of the processors; drives of the drawing only.

    Parameters
    ----------
    names : sequence of str
        As for `cookbook.topology`, of the catalogue.

    Returns
    -------
    pandas.DataFrame
        By machine: ``accelerators``, ``adapters``, ``drives`` (lanes at the devices; 0 where they hang on something
        else than PCIe), ``asked`` (their sum), ``taken`` (lanes that leave the processors, to devices or to switches),
        ``sharing`` (asked over taken: devices' lanes for one of the processors'), ``offered`` (by all processors; NaN
        where the table ``processors`` does not say), ``left``, ``generation`` (the oldest of links to accelerators).

    Examples
    --------
    Four switches take 64 of the 80 lanes of two processors, and share them among 192 of devices:

    >>> lane_budget(["dgx-1-v100"])[["asked", "taken", "offered"]].to_numpy().tolist()
    [[192.0, 64.0, 80.0]]
    """
    boxes = [topology(name) for name in names]
    frame = pd.DataFrame([_lanes(box) for box in boxes], index=pd.Index([b.name for b in boxes], name="machine"))
    requested = frame[list(DEVICES.values())].sum(axis=1)
    table = frame.assign(asked=requested, sharing=requested / frame["taken"], left=frame["offered"] - frame["taken"])
    return table[[*DEVICES.values(), "asked", "taken", "sharing", "offered", "left", "generation"]]


def _lanes(box: Topology) -> dict[str, float]:
    links, processors = catalog.table("system_links"), catalog.table("processors").set_index("key")
    kinds = {node.name: node.kind for node in box.nodes}
    counts = dict.fromkeys([*DEVICES.values(), "taken"], 0.0)
    generations = []
    for row in links[links["system"] == box.key].to_dict("records"):
        generation, lanes = _pcie(str(row["link"]))
        if not lanes:
            continue
        ends, lanes = {kinds[row["from"]], kinds[row["to"]]}, lanes * row["count"]
        for kind in ends & set(DEVICES):
            counts[DEVICES[kind]] += lanes
        counts["taken"] += lanes * ("socket" in ends)
        generations += [generation] * ("accelerator" in ends)
    offered = processors.loc[box.processor, "pcie_lanes"] * len(box.named("socket")) if box.processor else np.nan
    return counts | {"offered": offered, "generation": min(generations, default=np.nan)}


def _pcie(link: str) -> tuple[float, float]:
    """Return the generation and lanes of a link such as pcie-4-0-x16; no lanes for other kinds."""
    bus, _, lanes = link.partition("-x")
    kind, _, generation = bus.partition("-")
    readable = kind == "pcie" and lanes.isdecimal()
    return (float(generation.partition("-")[0]), float(lanes)) if readable else (np.nan, 0.0)


@checked(machine=MACHINE, model=MODEL, data=DATA, machines=Field.count(high=MAX_COUNT), batch=BATCH, work=WORK)
def size_platform(
    machine: str | Topology, model: str, data: str, machines: int = 1, batch: float = 64, work: float = 1
) -> pd.DataFrame:
    """Return samples per second, cores and bytes per second of each phase, and the network that carries them.

    Pre-processing decodes for all machines and sends decoded samples on; training reads compressed samples, or those
    decoded elsewhere, and sums gradients over the machines: each sends 2 (m - 1) / m times their bytes in a step;
    inference takes compressed samples from clients. Inference is counted as three times the rate of
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
        enough), ``bytes_in``, ``bytes_out`` [B/s] of all machines, ``gradients`` that one machine sends, in 16 bits
        [B/s], ``host_link`` (samples and gradients of one machine, one direction) [B/s] and ``ethernet``, the slowest
        that carries it; "" where none does.

    Examples
    --------
    >>> frame = size_platform("hgx-h100", "resnet50", "imagenet-1k", 8)
    >>> frame["ethernet"]["training, samples compressed"], bool(frame["cores"]["pre-processing"] > 64)
    ('Ethernet 100G', True)
    """
    hosts = machines
    size, card = size_host(machine, model, data, batch=batch), one_data_set(data)
    count = len(size.machine.named("accelerator")) * hosts
    rate = size.stages["computing"] * count
    cores = cores_needed(model, size.machine.system or size.machine.accelerator, data, batch, work=work) * count
    stored, decoded = float(card["stored_bytes"]) / float(card["samples"]), float(card["decoded_bytes"])
    rows = {
        "pre-processing": (rate, cores, rate * stored, rate * decoded),
        "training, samples compressed": (rate, cores, rate * stored, 0.0),
        "training, decoded elsewhere": (rate, 0.0, rate * decoded, 0.0),
        "inference": (PASSES * rate, PASSES * cores, PASSES * rate * stored, 0.0),
    }
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["samples_per_s", "cores", "bytes_in", "bytes_out"])
    formats = catalog.table("number_formats").set_index("name")
    gradients = zoo.model(model).ops.parameter_count * float(formats.at["bf16", "gradient_bytes"])
    sent = 2 * (hosts - 1) / hosts * gradients * rate / count / batch
    frame["gradients"] = [sent * name.startswith("training") for name in frame.index]
    link = np.maximum(frame["bytes_in"], frame["bytes_out"]) / hosts + frame["gradients"]
    return frame.assign(host_link=link, ethernet=[_ethernet(value) for value in link]).rename_axis("phase")


def _ethernet(rate: float) -> str:
    """Return the slowest Ethernet that carries a rate, at the part of the line rate that is known for it."""
    links = catalog.table("interconnects").set_index("key").loc[list(ETHERNET)]
    share = links["efficiency"].fillna(links["efficiency"].min())
    fast = links[links["bandwidth"] * share >= rate]
    return str(fast["name"].iloc[0]) if len(fast) else ""


@checked(
    rate=Field.number(high=1e18),
    data=DATA,
    stores=Field.named("storage", Mapping, many=True, what="storage", give="names of the table 'storage'"),
)
def nodes_needed(rate: float, data: str | float, stores: Sequence[str] = STORES) -> pd.DataFrame:
    """Return nodes, drives or units of stores that read samples, one by one or in shards, at a rate.

    Parameters
    ----------
    rate : float
        Samples per second [1/s].
    data : str or float
        A card of the table ``data_sets``, or the bytes of one sample as stored [B].
    stores : sequence of str, optional
        Keys of the table ``storage``, each with a read bandwidth; one each of HDFS, NFS and Lustre by default.

    Returns
    -------
    pandas.DataFrame
        By store: ``shards`` and ``small files``, how many are needed; NaN where the figure for it is not known.
    """
    card, by_store = one_data_set(data), {}
    sample = float(card["stored_bytes"]) / float(card["samples"])
    for store in stores:
        tier = one_of("storage", store)
        streamed, single = rate * sample / tier["read_bandwidth"], rate / tier["read_iops"]
        files = streamed + single if tier["seeks"] else np.maximum(streamed, single)
        name = store if isinstance(store, str) else store.get("storage", "own")
        by_store[name if name == "own" else catalog.lookup("storage", name)] = np.ceil([streamed, files])
    return pd.DataFrame.from_dict(by_store, orient="index", columns=["shards", "small files"]).rename_axis("store")


SHORT_CHANGES = MappingProxyType(
    {
        "twice the drives or nodes of the storage": "twice the drives",
        "enough memory for the data set": "memory for all of it",
        "shards instead of small files": "packed files",
        "twice the workers": "twice the loaders",
        "twice the cores and workers": "twice the cores",
        "decoded once and stored ready to use": "stored decoded",
        "four times the prefetched batches": "more prefetching",
        "asynchronous checkpoints": "asynchronous",
    }
)
PARTS = ("computing", "waiting for input", "writing checkpoints")


@checked(found=MATCHED)
def rank_changes(found: StorageMatch) -> pd.DataFrame:
    """Return changes that speed up training, best first: free ones, then by gain per price, then those without price.

    To set what is bought beside what is rented, a purchase is spread over the years of use in the table ``tco`` (the
    median), every hour of them, and a month is a twelfth of a year.

    Parameters
    ----------
    found : StorageMatch
        Of one scenario.

    Returns
    -------
    pandas.DataFrame
        By place in `found.changes`: ``change``, ``gain`` [samples/s], ``usd`` (0 is free, NaN not known), ``per``
        ("purchase", "month" or ""), ``usd_per_hour``, ``gain_per_usd`` [samples/s for each USD/h], ``saved_per_hour``
        (what the same training then costs less in an hour of the accelerators as they are) [USD/h], ``pays_after`` (of
        a purchase) [h], ``basis``, ``short`` (the change in at most 20 letters).

    Examples
    --------
    >>> import cookbook as cb
    >>> tier = {"storage": "samsung-860-evo-1tb", "price_usd_per_tb": 79}
    >>> frame = rank_changes(cb.match_storage(0.05, "h100-sxm", tier, "imagenet-1k", batch=256, accelerators=8))
    >>> frame["change"].iloc[0], frame["per"].iloc[0]
    ('twice the drives or nodes of the storage', 'purchase')
    """
    _one(found)
    columns = {"change": "name", "gain": "gain", "usd": "usd", "per": "per", "basis": "basis"}
    frame = pd.DataFrame({column: [getattr(c, name) for c in found.changes] for column, name in columns.items()})
    hours = np.where(frame["per"] == "month", MONTH / HOUR, years_of_use()[1] * YEAR / HOUR)
    hourly = frame["usd"] / hours
    saved = found.usd_per_hour * frame["gain"] / (found.samples_per_s + frame["gain"])
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = frame["gain"] / hourly
        pays = np.where((frame["usd"] > 0) & (frame["per"] == "purchase"), frame["usd"] / saved, np.nan)
    frame = frame.assign(
        usd_per_hour=hourly,
        gain_per_usd=worth,
        saved_per_hour=saved,
        pays_after=pays,
        short=[SHORT_CHANGES.get(name, name) for name in frame["change"]],
    )
    group = np.select([frame["usd"] == 0, frame["usd"].notna()], [0, 1], 2)
    order = np.lexsort((-frame["gain"], np.where(group == 1, -worth, 0), group))
    return frame.iloc[order]


@checked(found=MATCHED)
def epoch_parts(found: StorageMatch) -> pd.DataFrame:
    """Time of the first and of a later epoch by what accelerators do in it.

    Parameters
    ----------
    found : StorageMatch
        Of one scenario.

    Returns
    -------
    pandas.DataFrame
        ``epoch`` ("first epoch", "each later epoch"), ``part`` (one of `PARTS`), ``start``, ``end`` [s], ``share`` of
        the epoch.

    Examples
    --------
    >>> import cookbook as cb
    >>> parts = epoch_parts(cb.match_storage(0.05, "h100-sxm", "samsung-860-evo-1tb", "imagenet-1k", batch=256))
    >>> round(float(parts.groupby("epoch")["share"].sum().min()), 9)
    1.0
    """
    _one(found)
    rows = []
    for name, seconds, used in (
        ("first epoch", found.first_epoch_seconds, found.first_utilisation),
        ("each later epoch", found.later_epoch_seconds, found.utilisation),
    ):
        running = 1 - found.checkpoint_stall
        shares = np.array([used * running, (1 - used) * running, found.checkpoint_stall])
        ends = seconds * np.cumsum([0, *shares])
        rows += [(name, *row) for row in zip(PARTS, ends, ends[1:], shares, strict=False)]
    return pd.DataFrame(rows, columns=["epoch", "part", "start", "end", "share"])


@checked(found=MATCHED)
def chain_figures(found: StorageMatch) -> pd.DataFrame:
    """Return stages, the whole chain and each change as plain numbers.

    Parameters
    ----------
    found : StorageMatch
        Of one scenario.

    Returns
    -------
    pandas.DataFrame
        ``kind`` (stage, whole or change), ``name``, ``samples_per_s`` and ``gain`` [1/s], ``utilisation``, ``usd``.

    Examples
    --------
    >>> import cookbook as cb
    >>> frame = chain_figures(cb.match_storage(0.05, "h100-sxm", "samsung-860-evo-1tb", "imagenet-1k", batch=256))
    >>> sorted(set(frame["kind"]))
    ['change', 'stage', 'whole']
    """
    _one(found)
    nan = np.nan
    rows = [("stage", name, rate, nan, nan, nan) for name, rate in found.stages.items()]
    rows += [
        ("whole", "later epochs", found.samples_per_s, nan, found.utilisation, nan),
        ("whole", "first epoch", found.first_samples_per_s, nan, found.first_utilisation, nan),
    ]
    rows += [("change", c.name, c.samples_per_s, c.gain, c.utilisation, c.usd) for c in found.changes]
    return pd.DataFrame(rows, columns=["kind", "name", "samples_per_s", "gain", "utilisation", "usd"])


def _one(found: StorageMatch) -> None:
    if np.ndim(found.samples_per_s):
        raise ValueError(f"found holds {np.size(found.samples_per_s):,} scenarios: match one, without lists, to rank")
