"""The chain from storage to accelerators for many scenarios at once: figures in, rates of all stages out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cookbook.performance import input_pipeline, storage_bursts, storage_rates
from cookbook.prediction.storage import loader_rate

STAGES = ("storage", "network", "reading", "decoding", "copying", "accelerators")
MOST = 1 << 20

Figures = Mapping[str, Any]


def chain(figures: Figures, known: Mapping[str, float]) -> dict[str, Any]:
    """Rates, utilisation and times of the chain.

    Each host reads its own part of the data; local drives are in every host, shared stores serve all hosts. Rates of
    stages are those of all accelerators together [1/s].

    Parameters
    ----------
    figures : mapping of str to array_like
        As `cookbook.prediction.match_words` makes them, SI; infinite where nothing limits.
    known : mapping of str to float
        Constants of the table ``pipeline_constants``.

    Returns
    -------
    dict of str to numpy.ndarray
        ``stages`` and ``latency`` by stage, ``hit_rate``, ``first``, ``later`` (samples a second), ``utilisation``,
        ``first_utilisation``, ``stall``, ``warm_up``, ``first_seconds``, ``later_seconds``, ``total_seconds``,
        ``credit_seconds`` until burst credits are out; later epochs are those after that.
    """
    f = {name: np.asarray(value, dtype=float) for name, value in figures.items()}
    parts = _parts(f, known)
    steady = _trained(f, known, parts, f["bandwidth"], f["iops"])
    bursts = np.any(np.isfinite(f["burst_credit"]) | np.isfinite(f["burst_operations"]))
    lent = _trained(f, known, parts, f["burst_bandwidth"], f["burst_iops"]) if bursts else steady
    times = _times(f, known, parts, steady, lent)
    lasting, stall = np.isinf(times["later_credit"]), parts["stall"]
    now = {name: np.where(lasting, lent[name], steady[name]) for name in ("storage", "reading", "later")}
    busy = f["step"] / f["batch"] / f["accelerators"]
    first, later = f["samples"] / times["first_seconds"], now["later"] * (1 - stall)
    stages = (now["storage"], parts["network"], now["reading"], parts["decoding"], parts["copying"], parts["taken"])
    wait = f["latency"] + parts["sample"] / f["bandwidth"]
    latency = (wait, parts["sample"] / parts["client"], parts["sample"] / known["page_cache_rate"],
               1 / parts["single"], f["accelerators"] / parts["copying"], parts["step"])  # fmt: skip
    return {
        "stages": dict(zip(STAGES, stages, strict=True)), "latency": dict(zip(STAGES, latency, strict=True)),
        "hit_rate": parts["hit"], "first": first, "later": later, "utilisation": np.minimum(now["later"] * busy, 1),
        "first_utilisation": np.minimum(first / (1 - stall) * busy, 1), "stall": stall, **times,
    }  # fmt: skip


def _parts(f: Figures, known: Mapping[str, float]) -> dict[str, Any]:
    """Everything of the chain that does not depend on the rates of the storage."""
    sample, each = f["stored"] / f["samples"], f["accelerators"] / f["hosts"]
    readers = np.maximum(f["workers"], 1) * each
    cache, client = known["memory_for_cache"] * f["memory"], np.minimum(f["network"], f["client"])
    cached = known["page_cache_rate"] * np.minimum(readers, f["cores"]) * f["hosts"] / sample
    decoding, single = _decoded(f, known, each)
    copy = storage_rates.host_copy_rate(f["link"], f["link"], f["sharers"], f["copy_efficiency"]) / f["decoded"]
    step = f["step"] + f["overhead"] + np.where(f["pinned"] > 0, 0, f["batch"] / copy)
    return {
        "sample": sample, "readers": readers, "client": client, "cached": cached, "decoding": decoding,
        "single": single, "copying": copy * f["accelerators"], "step": step,
        "network": storage_rates.clients_rate(np.inf, f["hosts"], client, readers, f["connection"]) / sample,
        "hit": input_pipeline.cache_hit_rate(f["stored"] / f["hosts"], cache, f["shuffled"]),
        "taken": f["hosts"] * input_pipeline.partly_serial_rate(each * f["batch"] / step, f["serial"]),
        "stall": storage_rates.checkpoint_stall_share(
            f["checkpoint_bytes"], f["write_bandwidth"] * f["drives"] * np.where(f["local"] > 0, f["hosts"], 1),
            f["checkpoint_interval"], f["asynchronous"], f["link"] * f["copy_efficiency"] * f["accelerators"]),
    }  # fmt: skip


def _trained(f: Figures, known: Mapping[str, float], parts: Mapping[str, Any], bandwidth: Any, iops: Any) -> Figures:
    """Samples a second of the tier, of the tier behind the cache, and trained in the first and in later epochs."""
    storage = _stored(f, known, parts, bandwidth, iops)
    fresh = np.minimum(storage, parts["network"])
    reading = input_pipeline.cached_rate(parts["hit"], parts["cached"], fresh)
    rest = np.minimum(parts["decoding"], parts["copying"])
    first, later = (input_pipeline.pipelined_rate(np.minimum(read, rest), parts["taken"], f["prefetch"], f["variation"])
                    for read in (fresh, reading))  # fmt: skip
    supply = np.minimum(fresh, rest)
    return {"storage": storage, "reading": reading, "first": first, "later": later, "supply": supply}


def _stored(f: Figures, known: Mapping[str, float], parts: Mapping[str, Any], bandwidth: Any, iops: Any) -> Any:
    """Samples a second of the tier."""
    sample, readers = parts["sample"], parts["readers"]
    alone = _one_by_one(f, known, sample)
    request = np.where(alone, sample, known["readahead"])
    hosts = np.where(f["local"] > 0, f["hosts"], 1)
    depth = np.where(f["local"] > 0, readers, readers * f["hosts"])
    each = np.where(alone, iops, np.inf) * f["drives"]
    tier = hosts * storage_rates.tier_rate(request, bandwidth * f["drives"], each, depth, f["latency"], 1, f["seeks"])
    left = storage_rates.read_share_beside_writes(
        f["checkpoint_bytes"], f["write_bandwidth"] * f["drives"] * hosts, f["checkpoint_interval"], f["asynchronous"]
    )
    return tier * left / sample


def _one_by_one(f: Figures, known: Mapping[str, float], sample: Any) -> Any:
    """Whether each sample is a read of its own: small files, and any files where a head has to find them."""
    return (f["small_files"] > 0) & ((sample < known["readahead"]) | (f["seeks"] > 0))


def _credits(f: Figures, known: Mapping[str, float], sample: Any) -> list[tuple[Any, Any]]:
    """Full buckets and their refill, in samples: bytes, and operations where samples are read one by one."""
    many = f["drives"] * np.where(f["local"] > 0, f["hosts"], 1)
    alone = _one_by_one(f, known, sample)
    counted = (f["burst_operations"] * many, f["iops"] * many)
    return [(f["burst_credit"] * many / sample, f["bandwidth"] * many / sample),
            (np.where(alone, counted[0], np.inf), np.where(alone, counted[1], np.inf))]  # fmt: skip


def _lasting(buckets: list[tuple[Any, Any]], draw: Any) -> Any:
    """Time until the first of the buckets is empty."""
    return np.minimum(*(storage_bursts.credit_seconds(have, draw, refill) for have, refill in buckets))


def _times(
    f: Figures, known: Mapping[str, float], parts: Mapping[str, Any], steady: Figures, lent: Figures
) -> dict[str, Any]:
    """Times of epochs, and how long burst credits last: from the beginning, and in later epochs from a full bucket."""
    go, samples, rest = 1 - parts["stall"], f["samples"], (f["epochs"] - 1) * f["samples"]
    full, fast, draw = _credits(f, known, parts["sample"]), lent["first"] * go, lent["later"] * go * (1 - parts["hit"])
    early, forever = _lasting(full, fast), _lasting(full, draw)
    first = storage_bursts.bursting_seconds(samples, fast, steady["first"] * go, early)
    left = [(storage_bursts.credit_left(have, samples / first, refill, first), refill) for have, refill in full]
    until, slow = _lasting(left, draw), np.where(np.isinf(forever), lent["later"], steady["later"]) * go
    later = storage_bursts.bursting_seconds(rest, lent["later"] * go, slow, until)
    warm = f["latency"] + parts["sample"] / f["bandwidth"] + f["batch"] * f["accelerators"] / lent["supply"]
    mean = np.where(rest > 0, rest / np.maximum(later, np.finfo(float).tiny), slow)
    return {"warm_up": warm, "first_seconds": first, "later_seconds": samples / slow, "later_credit": forever,
            "total_seconds": input_pipeline.epochs_seconds(samples, samples / first, mean, f["epochs"], warm),
            "credit_seconds": np.where(early < first, early, first + until)}  # fmt: skip


def _decoded(f: Figures, known: Mapping[str, float], each: Any) -> tuple[Any, Any]:
    """Samples a second that all loaders decode, and what one core decodes."""
    core = known["core_rate"] * f["speed"]
    with np.errstate(divide="ignore"):
        single = np.asarray(core / f["work"])
    asked = np.maximum(f["workers"], 1) * each
    cores, lost = np.where(np.isinf(f["cores"]), asked, f["cores"]), f["remote"] * known["remote_loss"]
    real = input_pipeline.working_threads(asked, cores, known["second_thread"], lost)
    workers = np.where(f["workers"] < 1, 0, np.maximum(real / each, 1))
    reference = core * known["benchmark_image_bytes"] / f["decoded"]
    rate = loader_rate(workers, single, reference, f["threads"], known)
    crowded = np.minimum(1, real / each)
    return rate * np.where(f["workers"] < 1, 1, crowded) * f["accelerators"], single


def most_accelerators(figures: Figures, known: Mapping[str, float], utilisation: float) -> np.ndarray:
    """Largest number of accelerators on the same hosts and storage that keeps a utilisation; 0 where one does not.

    Infinite beyond a million.

    Parameters
    ----------
    figures, known
        As for `chain`.
    utilisation : float
        Utilisation to keep, 0 to 1, in later epochs, checkpoints apart.
    """
    shape = np.broadcast_shapes(*(np.shape(value) for value in figures.values()))
    low, high = np.zeros(shape), np.full(shape, float(MOST))
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        kept = chain({**figures, "accelerators": np.maximum(middle, 1)}, known)["utilisation"] >= utilisation
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return np.where(low >= MOST - 1, np.inf, low)
