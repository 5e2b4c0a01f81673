"""From arguments to the figures of the input chain: workload, data set, storage tier, host, link, prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog import UnknownName, prices
from cookbook.hardware import Accelerator, machine
from cookbook.hardware.accelerator import shown
from cookbook.prediction.doors import train_step
from cookbook.prediction.engine import Estimate
from cookbook.prediction.intake.drives import LOCAL, bus_in, capacity_in, processor_of
from cookbook.prediction.requirements import sizes_of
from cookbook.workloads import zoo

BENCHMARK = "mlperf/"
DISKS = ("HDD", "HDFS")
TIER_FIELDS = {
    "read_bandwidth": "B/s", "write_bandwidth": "B/s", "read_iops": "IOPS", "latency": "s", "capacity": "B",
    "endurance_dwpd": "", "price_usd_per_tb": "USD", "local": "", "drives": "",
    "burst_bandwidth": "B/s", "burst_credit": "B", "burst_iops": "IOPS", "burst_operations": "",
    "client_bandwidth": "B/s",
}  # fmt: skip
DATA_FIELDS = {
    "samples": "", "stored_bytes": "B", "decoded_bytes": "B", "decode_work": "", "images": "", "layout": None,
}  # fmt: skip
MAY_BE_ZERO = ("latency", "decode_work", "price_usd_per_tb", "endurance_dwpd")
LAYOUTS = ("small files", "shards", "columnar")
# What networks of each kind of data of the zoo take.
TAKEN = {"images": ("image", "video"), "volume": ("medical volume",), "video": ("video",)}
# Beyond these a figure is a slip: of anything, of what is counted, and the smallest above zero.
MOST, MOST_COUNTED, LEAST = 1e18, 1e7, 1e-12
LONGEST = 80


def many(value: Any) -> list[Any] | None:
    """The entries of a list or an array of one axis; None for a single value."""
    if isinstance(value, (list, tuple, range)):
        return list(value)
    return list(value) if (isinstance(value, np.ndarray) and value.ndim) or hasattr(value, "to_numpy") else None


def figure(
    name: str, value: Any, low: float, unit: str = "", high: float = MOST, remedy: str = "", whole: bool = False
) -> Any:
    """A number in SI, or an array of those of a list, within bounds; a clear error otherwise.

    Parameters
    ----------
    name : str
        Argument.
    value : float, str or sequence
        What was given; text has a unit.
    low, high : float
        Smallest and largest allowed value.
    unit : str
        Unit that text must have.
    remedy : str
        What to give instead.
    whole : bool
        Whether it counts something.
    """
    remedy = remedy or (f"give {low:g} or more" if low >= 1 or low <= 0 else "give more than zero")
    given = many(value)
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iuf":
        found: Any = value.astype(float)
    else:
        found = _one(name, value, unit, remedy) if given is None else np.array(
            [_one(name, each, unit, remedy) for each in given], dtype=float)  # fmt: skip
    if not np.size(found):
        raise ValueError(f"{name}: an empty list names nothing; give at least one")
    bad = ~((found >= low) & (found <= high)) if np.ndim(found) else not low <= found <= high
    if np.any(bad):
        bounds = f"({0:g}, {high:g}]" if low == LEAST else f"[{low:g}, {high:g}]"
        raise ValueError(f"{name} = {shown(value)} is outside {bounds}: {remedy}")
    if whole and np.any(found != np.floor(found)):
        raise ValueError(f"{name} = {shown(value)} is not whole: {remedy}")
    return found


def _one(name: str, value: Any, unit: str, remedy: str) -> float:
    try:
        number = isinstance(value, str) or hasattr(value, "__float__") or hasattr(value, "__index__")
        if not number or isinstance(value, (bool, np.bool_, complex)) or np.ndim(value):
            raise TypeError
        if isinstance(value, str) and (len(value) > LONGEST or not value.replace("µ", "").isascii()):
            raise ValueError("write plain digits and a unit")
        found = float(units.si(value, unit))
    except (TypeError, ValueError, ArithmeticError) as problem:
        why = f": {problem}"[:140] if isinstance(problem, ValueError) else ""
        raise ValueError(f"{name} = {shown(value)} is not a number{why}; {remedy}") from None
    if np.isnan(found):
        raise ValueError(f"{name} = {shown(value)} is not a number: NaN marks what is missing; {remedy}")
    return found


def counted(name: str, value: Any, low: float = 1) -> Any:
    """A whole number, or several, of what can be counted."""
    return figure(name, value, low, high=MOST_COUNTED, whole=True)


def share(name: str, value: Any, remedy: str = "give a share, not a percentage") -> Any:
    """A part of one, 0 to 1; True and False are 1 and 0."""
    given = many(value)
    plain = [float(each) if isinstance(each, (bool, np.bool_)) else each for each in given or [value]]
    return figure(name, plain if given else plain[0], 0, high=1, remedy=remedy)


def key(argument: str, table: str, name: Any) -> str:
    """The key of a row from what an argument says."""
    if not isinstance(name, str):
        raise ValueError(f"{argument} = {shown(name)} is no name: give one of the table {table!r}")
    return catalog.lookup(table, name[:LONGEST])


def figures_of(
    need: Mapping[str, Any], about: Mapping[str, Any], tier: Mapping[str, Any], card: Mapping[str, Any],
    given: Mapping[str, Any], known: Mapping[str, float], remarks: list[str],
) -> dict[str, Any]:  # fmt: skip
    """Figures of the chain in SI, scalars or arrays; what is assumed is added to the remarks.

    Parameters
    ----------
    need, about, tier, card : mapping
        The demand, the system, the storage tier and the data set: `demand`, `server`, `tier` and `data_set`.
    given : mapping
        The other arguments of `cookbook.match_storage` by name.
    known : mapping of str to float
        Constants of the table ``pipeline_constants``.
    remarks : list of str
        Grows.

    Raises
    ------
    ValueError
        A figure that cannot be.
    """
    g, accelerators, hosts = given, counted("accelerators", given["accelerators"]), counted("hosts", given["hosts"])
    if not np.ndim(hosts) and not np.ndim(accelerators) and hosts > accelerators:
        raise ValueError(f"hosts = {shown(g['hosts'])} are more than accelerators = {shown(g['accelerators'])}: "
                         "each host has one; give at most as many hosts")  # fmt: skip
    if np.any(np.remainder(accelerators, hosts)):
        remarks.append("accelerators do not divide evenly among hosts: a mean host stands for them")
    variation = g["variation"]
    return {
        **_work(need, need["batch"] if g["batch"] is None else g["batch"], g["workload"], known),
        **_host(about, g, known, remarks), **_data(card), **_tier(tier, g["network"], known, remarks),
        **_link(about["accelerator"], g, known, remarks), **_checkpoints(need, g, tier, remarks),
        "accelerators": accelerators, "hosts": hosts, "prefetch": figure("prefetch", g["prefetch"], 0),
        "shuffled": share("shuffled", g["shuffled"], "give 1 for a new order in each epoch, 0 for always the same"),
        "epochs": figure("epochs", g["epochs"], 1, high=MOST_COUNTED),
        "variation": (2 / known["buffer"]) ** 0.5 if variation is None else figure("variation", variation, 1e-6),
        "serial": figure("serial", g["serial"], 0, "s"),
    }  # fmt: skip


def _work(need: Mapping[str, Any], batch: Any, workload: Any, known: Mapping[str, float]) -> dict[str, Any]:
    benchmark = isinstance(workload, str) and workload.startswith(BENCHMARK)
    step = figure("workload", need["step"], LEAST, "s", remedy="give more than zero seconds for a step")
    scale = np.asarray(counted("batch", batch)) / (need["batch"] if benchmark else batch)
    ends = {name: np.asarray(need.get(name, np.nan), dtype=float) * scale for name in ("step_low", "step_high")}
    return {"step": step * scale, "batch": batch, "overhead": known["step_overhead"] if benchmark else 0.0, **ends}


def _host(
    about: Mapping[str, Any], g: Mapping[str, Any], known: Mapping[str, float], remarks: list[str]
) -> dict[str, Any]:
    """Cores, memory and speed of one host; what is not known does not limit, which a remark says."""
    cores, memory = about.get("cores", np.nan), about.get("memory", np.nan)
    if g["cores"] is not None:
        cores = figure("cores", g["cores"], 1, high=MOST_COUNTED)
    elif np.isnan(cores):
        cores = np.inf
        remarks.append("cores are not given: each worker has one of its own")
    if g["memory"] is not None:
        memory = figure("memory", g["memory"], 0, "B")
    elif np.isnan(memory):
        memory = 0.0
        remarks.append("memory is not given: no page cache is counted")
    if not isinstance(g["processor"], str):
        raise ValueError(f"processor = {shown(g['processor'])} is no name: give words such as 'AMD EPYC 9654'")
    speed, threads = processor_of("", g["processor"] or str(about.get("cpu", "")))
    if np.isnan(speed):
        speed, threads = known["usual_speed"], 2.0
        remarks.append("processor is not known: the mean speed of those measured stands in")
    return {"cores": cores, "memory": memory, "speed": speed, "threads": threads,
            "workers": figure("workers", g["workers"], 0, high=MOST_COUNTED),
            "remote": share("remote", g["remote"], "give the share of workers on the other socket")}  # fmt: skip


def _data(card: Mapping[str, Any]) -> dict[str, Any]:
    return {"samples": card["samples"], "stored": card["stored_bytes"], "decoded": card["decoded_bytes"],
            "work": card["decode_work"],
            "small_files": np.equal(card["layout"], "small files").astype(float)}  # fmt: skip


def _named(names: Any, chosen: Any) -> str:
    """Names of the tiers that are meant."""
    every, meant = np.broadcast_arrays(np.atleast_1d(np.asarray(names, dtype=object)), np.atleast_1d(chosen))
    return ", ".join(dict.fromkeys(every[meant].tolist()))


def _tier(tier: Mapping[str, Any], network: Any, known: Mapping[str, float], remarks: list[str]) -> dict[str, Any]:
    """The tier in figures; what the catalogue does not have is unlimited, except operations, which small files need."""
    counts_nothing = np.isfinite(tier["burst_bandwidth"]) & np.isnan(tier["burst_credit"])
    if np.any(counts_nothing):
        which = _named(tier["name"], counts_nothing)
        remarks.append(f"burst credits of {which} are not known: it is taken at its baseline")
    if network is None and not np.any(tier["local"]):
        remarks.append("network is not given: it does not limit")
    if np.any(np.isnan(tier["latency"])):
        which = _named(tier["name"], np.isnan(tier["latency"]))
        remarks.append(f"latency of {which} is not known: waiting for single reads is not counted")
    rate = np.inf if network is None else figure("network", network, 1, "B/s", np.inf)
    return _bursts(tier) | {
        "bandwidth": _or(tier["read_bandwidth"], np.inf), "write_bandwidth": _or(tier["write_bandwidth"], np.inf),
        "iops": tier["read_iops"], "seeks": tier["seeks"], "client": _or(tier["client_bandwidth"], np.inf),
        "latency": _or(tier["latency"], 0.0), "drives": tier["drives"],
        "local": tier["local"], "capacity": tier["capacity"], "endurance": tier["endurance_dwpd"],
        "price": tier["price_usd_per_tb"],
        "network": np.where(np.asarray(tier["local"]) > 0, np.inf, rate),
        "object_store": tier["object_store"],
        "connection": np.where(np.asarray(tier["object_store"]) > 0, known["connection_rate"], np.inf),
    }  # fmt: skip


def _bursts(tier: Mapping[str, Any]) -> dict[str, Any]:
    """Rates with credits, and credits in bytes and operations: infinite where nothing is counted."""
    found = {}
    pairs = {"bandwidth": ("read_bandwidth", "credit"), "iops": ("read_iops", "operations")}
    for name, (steady, credit) in pairs.items():
        have = np.isfinite(tier[f"burst_{credit}"]) & np.isfinite(tier[f"burst_{name}"])
        found[f"burst_{name}"] = np.where(have, tier[f"burst_{name}"], tier[steady])
        found[f"burst_{credit}"] = np.where(have, tier[f"burst_{credit}"], np.inf)
    return found | {"burst_bandwidth": _or(found["burst_bandwidth"], np.inf)}


def _or(value: Any, other: float) -> np.ndarray:
    return np.where(np.isnan(value), other, value)


def _link(device: Accelerator, g: Mapping[str, Any], known: Mapping[str, float], remarks: list[str]) -> dict[str, Any]:
    rate, reached = host_link(device, g["link"])
    if np.isinf(rate):
        remarks.append(f"the host link of {device.key} is not known: copies do not limit")
    reached = known["copy_share"] if np.isnan(reached) else reached
    lock = share("pinned", g["pinned"], "give True or False")
    if np.any((np.asarray(lock) > 0) & (np.asarray(lock) < 1)):
        raise ValueError(f"pinned = {shown(g['pinned'])} is neither: give True or False")
    return {"link": rate, "sharers": counted("sharers", g["sharers"]), "pinned": lock,
            "copy_efficiency": reached * np.where(np.asarray(lock) > 0, 1, known["pageable_share"])}  # fmt: skip


def _checkpoints(
    need: Mapping[str, Any], g: Mapping[str, Any], tier: Mapping[str, Any], remarks: list[str]
) -> dict[str, Any]:
    behind = share("asynchronous", g["asynchronous"], "give 1 for behind the training, or 0")
    size = g["checkpoint_bytes"]
    size = size if size is None else figure("checkpoint_bytes", size, 0, "B")
    if g["checkpoint_interval"] is None:
        return {"checkpoint_bytes": 0.0, "checkpoint_interval": np.inf, "asynchronous": 0.0}
    if size is None:
        size = checkpoint_bytes(need["parameters"], g["precision"])
        if np.any(np.isnan(size)):
            raise ValueError("checkpoint_bytes = None: the workload has no parameters to go by; give the bytes")
    if np.any(np.isnan(tier["write_bandwidth"])):
        which = _named(tier["name"], np.isnan(tier["write_bandwidth"]))
        remarks.append(f"write bandwidth of {which} is not known: checkpoints cost no time here")
    interval = figure("checkpoint_interval", g["checkpoint_interval"], 1e-9, "s", remedy="give more than zero seconds")
    return {"checkpoint_bytes": size, "checkpoint_interval": interval, "asynchronous": behind}


def demand(workload: Any, system: Accelerator, batch: Any, precision: str, software: str) -> dict[str, Any]:
    """Step time and batch, the checkpoint that goes with them, and the data set of a storage benchmark.

    Parameters
    ----------
    workload : str, float or Estimate
        A network of the zoo, "mlperf/" and a workload of the table ``storage_workloads``, the seconds of one step, or
        what `cookbook.train_step` gave.
    system, batch, precision, software
        As for `cookbook.train_step`.
    """
    if isinstance(workload, Estimate):
        if not np.all(np.isfinite(workload.point)):
            why = next(filter(None, np.ravel(workload.why).tolist()), "it has no prediction")
            raise ValueError(f"workload has no step: {why}"[:300])
        return _predicted(workload, batch, np.nan)
    if not isinstance(workload, str):
        step = figure("workload", workload, LEAST, "s", remedy="give a network, 'mlperf/unet3d', or seconds of a step")
        return {"step": step, "batch": batch, "parameters": np.nan}
    if workload.startswith(BENCHMARK):
        return _benchmark(workload.removeprefix(BENCHMARK)[:LONGEST], system)
    step = train_step(
        workload[:LONGEST], system, batch=batch, precision=precision or None, software=software or None)  # fmt: skip
    return _predicted(step, batch, zoo.model(workload).ops.parameter_count)


def worded_step(workload: Any) -> Any:
    """Seconds of a step where a workload is a time in words, such as "120 ms"; else the workload as it is."""
    if not isinstance(workload, str) or not workload[:1].isdigit():
        return workload
    try:
        return figure("workload", workload, LEAST, "s")
    except ValueError:
        return workload


def _predicted(step: Estimate, batch: Any, parameters: float) -> dict[str, Any]:
    return {"step": step.point, "batch": batch, "parameters": parameters, "step_low": step.low80,
            "step_high": step.high80, "predicted": step}  # fmt: skip


def _benchmark(name: str, system: Accelerator) -> dict[str, Any]:
    rows = catalog.table("storage_workloads")
    rows = rows[rows["step_seconds"].notna()]
    if name not in set(rows["workload"]):
        raise UnknownName("storage_workloads", name, sorted(set(rows["workload"])))
    printed = system.like.split("-")[0].upper()
    same = rows[(rows["workload"] == name) & (rows["accelerator_as_printed"] == printed)]
    if same.empty:
        have = ", ".join(sorted(set(rows.loc[rows["workload"] == name, "accelerator_as_printed"])))
        raise ValueError(f"system = {system.key!r}: the benchmark {name!r} has no step for it, only for {have}; "
                         "give the seconds of a step as workload")  # fmt: skip
    row = same.iloc[0]
    resized = row["record_bytes_resized"]
    card = {
        "samples": row["files"] * row["samples_per_file"],
        "stored_bytes": row["files"] * row["samples_per_file"] * row["record_bytes"],
        "decoded_bytes": resized if resized > 0 else row["record_bytes"], "decode_work": 0.0,
        "layout": "small files" if row["samples_per_file"] == 1 else "shards",
    }  # fmt: skip
    return {"step": row["step_seconds"], "batch": row["batch"], "card": card, "parameters": np.nan}


def each_of(function: Callable[[Any], dict[str, Any]], names: Any) -> dict[str, Any]:
    """Figures of one name, or arrays of those of several.

    Parameters
    ----------
    function : callable
        `tier` or `data_set`.
    names : object
        What it takes, or a list of such.
    """
    if not isinstance(names, (list, tuple)):
        return function(names)
    found = [function(name) for name in names]
    if not found:
        raise ValueError("storage and data: an empty list names nothing; give at least one")
    if any(np.ndim(value) for one in found for value in one.values()):
        raise ValueError("storage and data: one of a list has a list itself; give single figures there")
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def data_set(data: Any) -> dict[str, Any]:
    """Figures of a data set: a card by name, one with other figures, or the bytes of one sample.

    Parameters
    ----------
    data : str, mapping or float
        A key of the table ``data_sets``; a mapping of its columns, with "card" to start from one; or bytes.

    Raises
    ------
    ValueError
        Neither, or a figure that cannot be.
    """
    if isinstance(data, str):
        return _card(data)
    if isinstance(data, Mapping):
        given = dict(data)
        start = _card(given.pop("card")) if "card" in given else {"decode_work": 0.0, "images": 1.0, "layout": "shards"}
        found = start | _checked("data", given, DATA_FIELDS)
        missing = [name for name in ("samples", "stored_bytes") if name not in found]
        if missing:
            raise ValueError(f"data has no {missing[0]}; give it, or a card such as 'imagenet-1k' to start from")
        found.setdefault("decoded_bytes", np.asarray(found["stored_bytes"]) / found["samples"])
        layouts = many(found["layout"])
        unknown = [word for word in ([found["layout"]] if layouts is None else layouts)
                   if not isinstance(word, str) or word not in LAYOUTS]  # fmt: skip
        if unknown or layouts == []:
            given_as = shown(found["layout"])
            raise ValueError(f"data['layout'] = {given_as} is no layout; take one of {', '.join(LAYOUTS)}")
        return found
    remedy = "give the bytes of one sample, a card such as 'imagenet-1k', or a mapping"
    size = figure("data", data, LEAST, "B", remedy=remedy)
    return {"samples": 1e6, "stored_bytes": 1e6 * size, "decoded_bytes": size, "decode_work": 0.0, "images": 1.0,
            "layout": "shards"}  # fmt: skip


def _card(name: Any) -> dict[str, Any]:
    rows = catalog.table("data_sets").set_index("key")
    found = rows.loc[key("data", "data_sets", name), list(DATA_FIELDS)].to_dict()
    return found | {"images": found["images"] if found["images"] > 0 else 1.0}


def check_pair(workload: Any, data: Any) -> None:
    """Refuse a network of the zoo on a data set of another kind of data.

    Parameters
    ----------
    workload, data : object
        As for `cookbook.match_storage`; only a named network and a named card are looked at.

    Raises
    ------
    ValueError
        They do not go together; names data sets that do.
    """
    card = data.get("card") if isinstance(data, Mapping) else data
    if not isinstance(workload, str) or workload.startswith(BENCHMARK) or not isinstance(card, str):
        return
    cards, kind = catalog.table("data_sets").set_index("key"), zoo.model(workload[:LONGEST]).data_kind
    taken, name = TAKEN.get(kind, (kind,)), key("data", "data_sets", card)
    if cards.loc[name, "data_type"] not in taken:
        fits = ", ".join(cards.index[cards["data_type"].isin(taken)])
        raise ValueError(f"data = {name!r} is {cards.loc[name, 'data_type']}, and {workload} takes {kind}: choose "
                         f"{fits}, another network, or give the seconds of a step as workload")  # fmt: skip


def tier(storage: Any) -> dict[str, Any]:
    """Figures of a storage tier by name, or the reader's own.

    Parameters
    ----------
    storage : str or mapping
        A key of the table ``storage``; or a mapping of its columns, with "storage" to start from a row, "drives" for
        several, "capacity" of one and "local" for drives inside each host; columns of ``storage_limits`` likewise.

    Raises
    ------
    ValueError
        A figure that cannot be, no read bandwidth, or a burst below it.
    """
    if not isinstance(storage, (str, Mapping)):
        raise ValueError(f"storage = {shown(storage)} is no storage: give a row of the table 'storage', or a mapping "
                         "such as {'read_bandwidth': '2 GB/s'}")  # fmt: skip
    given = {"storage": storage} if isinstance(storage, str) else dict(storage)
    found: dict[str, Any] = dict.fromkeys(TIER_FIELDS, np.nan)
    found |= {"drives": 1.0, "local": 0.0, "name": "own", "object_store": 0.0, "seeks": 0.0, "price_date": "",
              "price_per": "purchase"}  # fmt: skip
    if "storage" in given:
        found |= _catalogued(given.pop("storage"))
    found |= _checked("storage", given, TIER_FIELDS)
    if "price_usd_per_tb" in given:
        found["price_date"] = "as given"
    for burst, steady in (("burst_bandwidth", "read_bandwidth"), ("burst_iops", "read_iops")):
        if np.any(np.asarray(found[burst]) < found[steady]):
            raise ValueError(f"storage[{burst!r}] = {shown(found[burst])} is below {steady!r}, {shown(found[steady])}: "
                             "a burst is faster; give more, or leave it out")  # fmt: skip
    if np.any(np.isnan(found["read_bandwidth"])) and not found["object_store"]:
        raise ValueError(
            f"storage = {found['name']!r} has no read bandwidth in the catalogue; give one above zero: "
            f"{{'storage': {found['name']!r}, 'read_bandwidth': '2 GB/s'}}"
        )
    return found


def _catalogued(name: Any) -> dict[str, Any]:
    """A row of the table ``storage``, with its bursts and the limit of one client where they are known."""
    stored = key("storage", "storage", name)
    row = catalog.table("storage").set_index("key").loc[stored]
    limits = catalog.table("storage_limits").set_index("storage")
    known = {field: row[field] for field in TIER_FIELDS if field in row}
    if stored in limits.index:
        known |= {field: float(limits.loc[stored, field]) for field in TIER_FIELDS if field in limits}
    return known | {
        "name": stored, "local": float(row["category"] in LOCAL), "capacity": capacity_in(row["name"]),
        "object_store": float(row["category"] == "object store"), "seeks": float(row["category"] in DISKS),
        "price_date": row["price_date"],
        "price_per": "month" if row["price_basis"] not in ("", "purchase") else "purchase",
    }  # fmt: skip


def _checked(argument: str, given: Mapping[str, Any], fields: Mapping[str, str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"{argument} has no field {shown(name)}; it has {', '.join(fields)}")
        unit, called = fields[name], f"{argument}[{name!r}]"
        if unit is None:
            found[name] = value
        elif name == "local":
            found[name] = share(called, value, "give 1 for drives in every host, or 0")
        elif name == "drives":
            found[name] = counted(called, value)
        elif name in MAY_BE_ZERO:
            found[name] = figure(called, value, 0, unit, remedy="give zero or more")
        else:
            found[name] = figure(called, value, LEAST, unit, remedy="give more than zero")
    return found


def host_link(device: Accelerator, link: str) -> tuple[float, float]:
    """Nominal rate of the link from the host to an accelerator [B/s], and the part that a pinned copy reaches.

    Parameters
    ----------
    device : Accelerator
        Of the catalogue or the reader's own.
    link : str
        A key of the table ``interconnects``; blank for that of the device.
    """
    own = isinstance(link, str) and not link
    if own and ("host_link" in device.changed or not device.like):
        return (device.host_link, np.nan) if device.host_link > 0 else (np.inf, 1.0)
    rows = catalog.table("interconnects").set_index("key")
    devices = catalog.table("accelerators").set_index("key")["host_link"]
    name = bus_in(str(devices[device.like])) if own else key("link", "interconnects", link)
    if name not in rows.index:
        return np.inf, 1.0
    return float(rows.loc[name, "bandwidth"]), float(rows.loc[name, "efficiency"])


def server(system: Any) -> Mapping[str, Any]:
    """Accelerator of a machine, and the cores and memory of its host where the catalogue knows them.

    Parameters
    ----------
    system : str, Accelerator or Machine
        As for `cookbook.train_step`.
    """
    if not isinstance(system, str) and not hasattr(system, "mem_bandwidth") and not hasattr(system, "accelerator"):
        raise ValueError(f"system = {shown(system)} is no name: give an accelerator such as 'h100-sxm', or a server")
    found = machine(system)
    if not found.server:
        return {"accelerator": found.accelerator}
    row = catalog.table("systems").set_index("key").loc[found.server]
    return {"accelerator": found.accelerator, "devices": row["devices"], "cores": row["cores"],
            "memory": row["memory_bytes"], "cpu": row["cpu"]}  # fmt: skip


@lru_cache(maxsize=256)
def hour_price(accelerator: str) -> tuple[float, float, float, str]:
    """Median, lowest and highest price of an hour on demand [USD], and its dates; NaN where no price is known.

    Parameters
    ----------
    accelerator : str
        Key in accelerators.
    """
    if accelerator not in _accelerators():
        return np.nan, np.nan, np.nan, "no price is known"
    found = prices.hourly_usd(accelerator)
    if found.why:
        return np.nan, np.nan, np.nan, "no price is known"
    return found.median, found.low, found.high, f"{found.rows} prices of clouds, {found.first} to {found.last}"


@lru_cache(maxsize=1)
def _accelerators() -> frozenset[str]:
    return frozenset(catalog.table("accelerators")["key"])


@lru_cache(maxsize=1)
def memory_price() -> tuple[float, str]:
    """Newest price of server memory in the table ``tco`` [USD/B] and what it rests on; NaN where there is none."""
    rows = catalog.table("tco")
    rows = rows[(rows["category"] == "part_price") & (rows["item"] == "server memory")].sort_values("year")
    if rows.empty:
        return np.nan, "no price is known"
    return float(rows["value"].iloc[-1]) / 1e9, f"price of a GB of server memory, {rows['year'].iloc[-1]}"


def checkpoint_bytes(parameters: Any, precision: str) -> Any:
    """Bytes of a checkpoint: weights, master weights and the states of Adam.

    Parameters
    ----------
    parameters : array_like
        Trainable parameters.
    precision : str
        As for training; "bf16" where blank.

    Examples
    --------
    >>> float(checkpoint_bytes(8e9, "bf16")) / 1e9
    112.0
    """
    sizes = sizes_of(precision or "bf16", "adam")[0]
    return np.asarray(parameters) * (sizes.weight + sizes.master + sizes.state * sizes.state_elements)
