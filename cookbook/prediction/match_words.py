"""From names to the figures of the input chain: workload, data set, storage tier, host, prices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog import UnknownName
from cookbook.prediction.estimate import Estimate
from cookbook.prediction.requirements import sizes_of
from cookbook.prediction.storage_rows import DRIVES
from cookbook.prediction.doors import train_step
from cookbook.workloads import zoo

BENCHMARK = "mlperf/"
LOCAL = (*DRIVES, "DRAM / page cache / tmpfs", "interface")
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
LAYOUTS = ("small files", "shards", "columnar")
# What networks of each kind of data of the zoo take.
TAKEN = {"images": ("image", "video"), "volume": ("medical volume",), "video": ("video",)}
CAPACITY = re.compile(r"(\d+(?:\.\d+)?)\s?TB", re.I)
VOLUME = re.compile(r", (\d+ [GT]iB)$")
HOST_LINK = re.compile(r"PCIe\s?(\d)\s?x(\d+)")


def demand(workload: Any, system: str, batch: Any, number_format: str, software: str) -> dict[str, Any]:
    """Step time and batch, the checkpoint that goes with them, and the data set of a storage benchmark.

    Parameters
    ----------
    workload : str, float or Estimate
        A network of the zoo, "mlperf/" and a workload of the table ``storage_workloads``, the seconds of one step, or
        what `cookbook.train_step` gave.
    system, batch, number_format, software
        As for `cookbook.prediction.train.train_step`.
    """
    if isinstance(workload, Estimate):
        return _predicted(workload, batch, np.nan)
    if not isinstance(workload, str):
        return {"step": workload, "batch": batch, "parameters": np.nan, "required": np.nan}
    if workload.startswith(BENCHMARK):
        return _benchmark(workload.removeprefix(BENCHMARK), system)
    step = train_step(workload, system, batch=batch, number_format=number_format, software=software)
    return _predicted(step, batch, zoo.model(workload).ops.parameter_count)


def _predicted(step: Estimate, batch: Any, parameters: float) -> dict[str, Any]:
    return {"step": step.point, "batch": batch, "parameters": parameters, "required": np.nan,
            "step_low": step.low80, "step_high": step.high80, "predicted": step}  # fmt: skip


def _benchmark(name: str, system: str) -> dict[str, Any]:
    rows = catalog.table("storage_workloads")
    rows = rows[rows["step_seconds"].notna()]
    if name not in set(rows["workload"]):
        raise UnknownName("storage_workloads", name, sorted(set(rows["workload"])))
    printed = system.split("-")[0].upper()
    same = rows[(rows["workload"] == name) & (rows["accelerator_as_printed"] == printed)]
    if same.empty:
        have = ", ".join(sorted(set(rows.loc[rows["workload"] == name, "accelerator_as_printed"])))
        raise ValueError(f"system = {system!r}: the benchmark {name!r} has no step for it, only for {have}; "
                         "give the seconds of a step as workload")  # fmt: skip
    row = same.iloc[0]
    resized = row["record_bytes_resized"]
    card = {
        "samples": row["files"] * row["samples_per_file"],
        "stored_bytes": row["files"] * row["samples_per_file"] * row["record_bytes"],
        "decoded_bytes": resized if resized > 0 else row["record_bytes"], "decode_work": 0.0,
        "layout": "small files" if row["samples_per_file"] == 1 else "shards",
    }  # fmt: skip
    return {"step": row["step_seconds"], "batch": row["batch"], "card": card, "parameters": np.nan,
            "required": row["utilisation_required"]}  # fmt: skip


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
    return {key: np.array([one[key] for one in found]) for key in found[0]}


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
        layouts: Any = found["layout"]
        unknown = [word for word in np.ravel(layouts).tolist() if word not in LAYOUTS]
        if unknown:
            raise ValueError(f"data['layout'] = {unknown[0]!r} is not a layout; take one of {', '.join(LAYOUTS)}")
        return found
    size = _positive("data", data, "B", "give the bytes of one sample, a card such as 'imagenet-1k', or a mapping")
    return {"samples": 1e6, "stored_bytes": 1e6 * size, "decoded_bytes": size, "decode_work": 0.0, "images": 1.0,
            "layout": "shards"}  # fmt: skip


def _card(name: str) -> dict[str, Any]:
    rows = catalog.table("data_sets").set_index("key")
    found = rows.loc[catalog.lookup("data_sets", name), list(DATA_FIELDS)].to_dict()
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
    cards, kind = catalog.table("data_sets").set_index("key"), zoo.model(workload).data_kind
    taken, key = TAKEN.get(kind, (kind,)), catalog.lookup("data_sets", card)
    if cards.loc[key, "data_type"] not in taken:
        fits = ", ".join(cards.index[cards["data_type"].isin(taken)])
        raise ValueError(f"data = {key!r} is {cards.loc[key, 'data_type']}, and {workload} takes {kind}: choose "
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
    given = {"storage": storage} if isinstance(storage, str) else dict(storage)
    found: dict[str, Any] = dict.fromkeys(TIER_FIELDS, np.nan)
    found |= {"drives": 1.0, "local": 0.0, "name": "own", "object_store": 0.0, "seeks": 0.0, "price_date": "",
              "price_per": "purchase"}  # fmt: skip
    if "storage" in given:
        rows = catalog.table("storage").set_index("key")
        key = catalog.lookup("storage", given.pop("storage"))
        row = rows.loc[key]
        found |= {name: row[name] for name in TIER_FIELDS if name in row}
        size = CAPACITY.search(row["name"])
        volume = VOLUME.search(row["name"])
        found |= {"name": key, "local": float(row["category"] in LOCAL),
                  "object_store": float(row["category"] == "object store"), "seeks": float(row["category"] in DISKS),
                  "capacity": units.si(volume[1], "B") if volume else float(size[1]) * 1e12 if size else np.nan,
                  }  # fmt: skip
        found["price_date"] = row["price_date"]
        found["price_per"] = "month" if row["price_basis"] not in ("", "purchase") else "purchase"
        found |= _limits(key)
    found |= _checked("storage", given, TIER_FIELDS)
    if "price_usd_per_tb" in given:
        found["price_date"] = "as given"
    for burst, steady in (("burst_bandwidth", "read_bandwidth"), ("burst_iops", "read_iops")):
        if np.any(np.asarray(found[burst]) < found[steady]):
            raise ValueError(f"storage[{burst!r}] = {found[burst]!r} is below {steady!r}, {found[steady]!r}: "
                             "a burst is faster; give more, or leave it out")  # fmt: skip
    if np.any(np.isnan(found["read_bandwidth"])) and not found["object_store"]:
        raise ValueError(
            f"storage = {found['name']!r} has no read bandwidth in the catalogue; give one above zero: "
            f"{{'storage': {found['name']!r}, 'read_bandwidth': '2 GB/s'}}"
        )
    return found


def _limits(key: str) -> dict[str, float]:
    """Bursts and the limit of one client of a row, where they are known."""
    rows = catalog.table("storage_limits").set_index("storage")
    names = [name for name in TIER_FIELDS if name in rows]
    return {} if key not in rows.index else {name: float(rows.loc[key, name]) for name in names}


def _checked(argument: str, given: Mapping[str, Any], fields: Mapping[str, str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"{argument} has no field {name!r}; it has {', '.join(fields)}")
        unit = fields[name]
        if unit is None:
            found[name] = value
        elif name in ("latency", "local", "decode_work", "price_usd_per_tb", "endurance_dwpd"):
            found[name] = _number(f"{argument}[{name!r}]", value, unit, 0, "give zero or more")
        else:
            found[name] = _positive(f"{argument}[{name!r}]", value, unit, "give more than zero")
    return found


def _positive(name: str, value: Any, unit: str, remedy: str) -> Any:
    found = _number(name, value, unit, 0, remedy)
    if np.any(np.asarray(found) == 0):
        raise ValueError(f"{name} = {value!r} is outside (0, inf): {remedy}")
    return found


def _number(name: str, value: Any, unit: str, low: float, remedy: str) -> Any:
    """A number or a list of them in SI, text with a unit; not below `low`."""
    try:
        if isinstance(value, (list, tuple, np.ndarray)):
            found: Any = np.array([units.si(each, unit) for each in np.ravel(value).tolist()], dtype=float)
        else:
            found = float(units.si(value, unit))
        if np.any(np.isnan(found)):
            raise ValueError("NaN marks what is missing")
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name} = {value!r} is not a number: {problem}; {remedy}") from None
    if np.any(np.asarray(found) < low):
        raise ValueError(f"{name} = {value!r} is outside [{low:g}, inf): {remedy}")
    return found


def setting(name: str, value: Any, low: float, unit: str = "") -> Any:
    """A setting as a number or an array, at least `low`; a clear error otherwise.

    Parameters
    ----------
    name : str
        Argument.
    value : float, str or sequence
        What was given.
    low : float
        Smallest allowed value.
    unit : str
        Unit that text must have.
    """
    return _number(name, value, unit, low, f"give {low:g} or more" if low >= 1 or not low else "give more than zero")


def host_link(accelerator: str, link: str) -> tuple[float, float]:
    """Nominal rate of the link from the host to an accelerator [B/s], and the part that a pinned copy reaches.

    Parameters
    ----------
    accelerator : str
        Key in accelerators.
    link : str
        A key of the table ``interconnects``; blank for that of the device.
    """
    rows = catalog.table("interconnects").set_index("key")
    devices = catalog.table("accelerators").set_index("key")["host_link"]
    words = "" if link else str(devices[accelerator])
    bus = HOST_LINK.search(words)
    key = link or (f"pcie-{bus[1]}-0-x{bus[2]}" if bus else "nvlink-c2c-grace-hopper-blackwell" * ("C2C" in words))
    key = catalog.lookup("interconnects", key) if link else key
    if key not in rows.index:
        return np.inf, 1.0
    return float(rows.loc[key, "bandwidth"]), float(rows.loc[key, "efficiency"])


@lru_cache(maxsize=256)
def server(system: str) -> dict[str, Any]:
    """Accelerator of a system of the catalogue, and the cores and memory of its host where it is a server.

    Parameters
    ----------
    system : str
        A key of accelerators or of systems.
    """
    try:
        return {"accelerator": catalog.lookup("accelerators", system)}
    except UnknownName:
        rows = catalog.table("systems").set_index("key")
        row = rows.loc[catalog.lookup("systems", system)]
        if not row["accelerator_key"]:
            raise ValueError(f"system = {system!r}: the catalogue does not say which accelerator it has") from None
        return {"accelerator": row["accelerator_key"], "devices": row["devices"], "cores": row["cores"],
                "memory": row["memory_bytes"], "cpu": row["cpu"]}  # fmt: skip


@lru_cache(maxsize=256)
def hour_price(accelerator: str) -> tuple[float, float, float, str]:
    """Median, lowest and highest price of an hour on demand [USD], and its dates; NaN where no price is known.

    Parameters
    ----------
    accelerator : str
        Key in accelerators.
    """
    rows = catalog.table("cloud_prices")
    rows = rows[(rows["accelerator_key"] == accelerator) & (rows["usd_per_device_hour"] > 0) & (rows["date"] != "")]
    if rows.empty:
        return np.nan, np.nan, np.nan, "no price is known"
    price, dates = rows["usd_per_device_hour"], sorted(rows["date"].astype(str))
    words = f"{len(rows)} prices of clouds, {dates[0]} to {dates[-1]}"
    return float(price.median()), float(price.min()), float(price.max()), words


@lru_cache(maxsize=1)
def memory_price() -> tuple[float, str]:
    """Newest price of server memory in the table ``tco`` [USD/B] and what it rests on; NaN where there is none."""
    rows = catalog.table("tco")
    rows = rows[(rows["category"] == "part_price") & (rows["item"] == "server memory")].sort_values("year")
    if rows.empty:
        return np.nan, "no price is known"
    return float(rows["value"].iloc[-1]) / 1e9, f"price of a GB of server memory, {rows['year'].iloc[-1]}"


def checkpoint_bytes(parameters: Any, number_format: str) -> Any:
    """Bytes of a checkpoint: weights, master weights and the states of Adam.

    Parameters
    ----------
    parameters : array_like
        Trainable parameters.
    number_format : str
        As for training; "bf16" where blank.

    Examples
    --------
    >>> float(checkpoint_bytes(8e9, "bf16")) / 1e9
    112.0
    """
    sizes = sizes_of(number_format or "bf16", "adam")[0]
    return np.asarray(parameters) * (sizes.weight + sizes.master + sizes.state * sizes.state_elements)
