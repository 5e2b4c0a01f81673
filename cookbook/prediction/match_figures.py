"""From the arguments of `cb.match_storage` to the figures of the input chain, with remarks on what is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cookbook.prediction import match_words as words
from cookbook.prediction.storage_rows import processor_of


def figures_of(
    need: Mapping[str, Any], server: Mapping[str, Any], tier: Mapping[str, Any], card: Mapping[str, Any],
    given: Mapping[str, Any], known: Mapping[str, float], remarks: list[str],
) -> dict[str, Any]:  # fmt: skip
    """Figures of the chain in SI, scalars or arrays; what is assumed is added to the remarks.

    Parameters
    ----------
    need, server, tier, card : mapping
        Of `cookbook.prediction.match_words`: the demand, the system, the storage tier and the data set.
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
    g, variation = given, given["variation"]
    if np.any(np.remainder(words.setting("accelerators", g["accelerators"], 1), words.setting("hosts", g["hosts"], 1))):
        remarks.append("accelerators do not divide evenly among hosts: a mean host stands for them")
    size = need["batch"] if g["batch"] is None else g["batch"]
    return {
        **_work(need, size, g["workload"], known),
        **_host(server, g["workers"], g["cores"], g["memory"], g["processor"], known, g["remote"], remarks),
        **_data(card), **_tier(tier, g["network"], known, remarks),
        **_link(server["accelerator"], g["link"], g["sharers"], g["pinned"], known, remarks),
        "accelerators": words.setting("accelerators", g["accelerators"], 1),
        "hosts": words.setting("hosts", g["hosts"], 1), "prefetch": words.setting("prefetch", g["prefetch"], 0),
        "shuffled": words.setting("shuffled", g["shuffled"], 0), "epochs": words.setting("epochs", g["epochs"], 1),
        "variation": (2 / known["buffer"]) ** 0.5 if variation is None else words.setting("variation", variation, 1e-6),
        "serial": words.setting("serial", g["serial"], 0, "s"),
        **_checkpoints(need, g["checkpoint_interval"], g["checkpoint_bytes"], g["asynchronous"], g["number_format"],
                       tier, remarks),
    }  # fmt: skip


def _work(need: Mapping[str, Any], batch: Any, workload: Any, known: Mapping[str, float]) -> dict[str, Any]:
    benchmark = isinstance(workload, str) and workload.startswith(words.BENCHMARK)
    step = words.setting("workload", need["step"], 0, "s")
    if not np.all(np.asarray(step) > 0):
        raise ValueError(f"workload = {workload!r} gives a step of {step!r} s; give more than zero seconds")
    scale = np.asarray(words.setting("batch", batch, 1)) / (need["batch"] if benchmark else batch)
    ends = {name: np.asarray(need.get(name, np.nan), dtype=float) * scale for name in ("step_low", "step_high")}
    return {"step": step * scale, "batch": batch, "overhead": known["step_overhead"] if benchmark else 0.0, **ends}


def _host(
    server: Mapping[str, Any], workers: Any, cores: Any, memory: Any, processor: str, known: Mapping[str, float],
    remote: Any, remarks: list[str],
) -> dict[str, Any]:
    """Cores, memory and speed of one host; what is not known does not limit, which a remark says."""
    have = {"cores": server.get("cores", np.nan), "memory": server.get("memory", np.nan)}
    given = {"cores": cores, "memory": memory}
    if cores is not None:
        have["cores"] = words.setting("cores", cores, 1)
    if memory is not None:
        have["memory"] = words.setting("memory", memory, 0, "B")
    if given["cores"] is None and np.isnan(have["cores"]):
        have["cores"] = np.inf
        remarks.append("cores are not given: each worker has one of its own")
    if given["memory"] is None and np.isnan(have["memory"]):
        have["memory"] = 0.0
        remarks.append("memory is not given: no page cache is counted")
    speed, threads = processor_of("", processor or str(server.get("cpu", "")))
    if np.isnan(speed):
        speed, threads = known["usual_speed"], 2.0
        remarks.append("processor is not known: the mean speed of those measured stands in")
    away = words.setting("remote", remote, 0)
    if np.any(np.asarray(away) > 1):
        raise ValueError(f"remote = {remote!r} is outside [0, 1]: give the share of workers on the other socket")
    return {**have, "workers": words.setting("workers", workers, 0), "speed": speed, "threads": threads,
            "remote": away}  # fmt: skip


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
    if np.any(np.isfinite(tier["burst_bandwidth"]) & np.isnan(tier["burst_credit"])):
        which = _named(tier["name"], np.isfinite(tier["burst_bandwidth"]) & np.isnan(tier["burst_credit"]))
        remarks.append(f"burst credits of {which} are not known: it is taken at its baseline")
    if network is None and not np.any(tier["local"]):
        remarks.append("network is not given: it does not limit")
    if np.any(np.isnan(tier["latency"])):
        which = _named(tier["name"], np.isnan(tier["latency"]))
        remarks.append(f"latency of {which} is not known: waiting for single reads is not counted")
    unlimited = {"bandwidth": "read_bandwidth", "write_bandwidth": "write_bandwidth"}
    found = {name: np.where(np.isnan(tier[key]), np.inf, tier[key]) for name, key in unlimited.items()}
    rate = np.inf if network is None else words.setting("network", network, 1, "B/s")
    return found | _bursts(tier) | {
        "iops": tier["read_iops"], "seeks": tier["seeks"], "client": _finite_or(tier["client_bandwidth"], np.inf),
        "latency": np.nan_to_num(tier["latency"], nan=0.0), "drives": tier["drives"],
        "local": tier["local"], "capacity": tier["capacity"], "tier": 0.0,
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
    found["burst_bandwidth"] = _finite_or(found["burst_bandwidth"], np.inf)
    return found


def _finite_or(value: Any, other: float) -> np.ndarray:
    return np.where(np.isnan(value), other, value)


def _link(
    device: str, link: str, sharers: Any, pinned: Any, known: Mapping[str, float], remarks: list[str]
) -> dict[str, Any]:
    rate, share = words.host_link(device, link)
    if np.isinf(rate):
        remarks.append(f"the host link of {device} is not known: copies do not limit")
    share = known["copy_share"] if np.isnan(share) else share
    lock = np.asarray(pinned, dtype=float)
    return {"link": rate, "sharers": words.setting("sharers", sharers, 1), "pinned": lock,
            "copy_efficiency": share * np.where(lock > 0, 1, known["pageable_share"])}  # fmt: skip


def _checkpoints(
    need: Mapping[str, Any], interval: Any, size: Any, behind: Any, number_format: str, tier: Mapping[str, Any],
    remarks: list[str],
) -> dict[str, Any]:
    if interval is None:
        return {"checkpoint_bytes": 0.0, "checkpoint_interval": np.inf, "asynchronous": 0.0}
    if size is None:
        size = words.checkpoint_bytes(need["parameters"], number_format)
        if np.any(np.isnan(size)):
            raise ValueError("checkpoint_bytes = None: the workload has no parameters to go by; give the bytes")
    if np.any(np.isnan(tier["write_bandwidth"])):
        which = _named(tier["name"], np.isnan(tier["write_bandwidth"]))
        remarks.append(f"write bandwidth of {which} is not known: checkpoints cost no time here")
    return {"checkpoint_bytes": words.setting("checkpoint_bytes", size, 0, "B"),
            "checkpoint_interval": words.setting("checkpoint_interval", interval, 1e-9, "s"),
            "asynchronous": words.setting("asynchronous", behind, 0)}  # fmt: skip


