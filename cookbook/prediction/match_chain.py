"""The chain from storage to accelerators for many scenarios at once: figures in, rates of all stages out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cookbook.performance import input_pipeline, storage_rates
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
        ``first_utilisation``, ``stall``, ``warm_up``, ``first_seconds``, ``later_seconds``, ``total_seconds``.
    """
    f = {name: np.asarray(value, dtype=float) for name, value in figures.items()}
    sample, each = f["stored"] / f["samples"], f["accelerators"] / f["hosts"]
    readers = np.maximum(f["workers"], 1) * each
    storage, network, wait = _stored(f, known, sample, readers)
    cache = known["memory_for_cache"] * f["memory"]
    hit = input_pipeline.cache_hit_rate(f["stored"] / f["hosts"], cache, f["shuffled"])
    cached = known["page_cache_rate"] * np.minimum(readers, f["cores"]) * f["hosts"] / sample
    first_read = np.minimum(storage, network)
    reading = input_pipeline.cached_rate(hit, cached, first_read)
    decoding, single = _decoded(f, known, each)
    copy = storage_rates.host_copy_rate(f["link"], f["link"], f["sharers"], f["copy_efficiency"]) / f["decoded"]
    step = f["step"] + f["overhead"] + np.where(f["pinned"] > 0, 0, f["batch"] / copy)
    taken = f["hosts"] * input_pipeline.partly_serial_rate(each * f["batch"] / step, f["serial"])
    copying = copy * f["accelerators"]
    rates = [input_pipeline.pipelined_rate(np.minimum(np.minimum(read, decoding), copying), taken, f["prefetch"],
                                           f["variation"]) for read in (first_read, reading)]  # fmt: skip
    stall = storage_rates.checkpoint_stall_share(
        f["checkpoint_bytes"], f["write_bandwidth"] * f["drives"] * np.where(f["local"] > 0, f["hosts"], 1),
        f["checkpoint_interval"], f["asynchronous"], f["link"] * f["copy_efficiency"] * f["accelerators"],
    )  # fmt: skip
    first, later = (rate * (1 - stall) for rate in rates)
    busy = f["step"] / f["batch"] / f["accelerators"]
    warm = wait + f["batch"] * f["accelerators"] / np.minimum(np.minimum(first_read, decoding), copying)
    seconds = {name: f["samples"] / rate for name, rate in (("first_seconds", first), ("later_seconds", later))}
    total = input_pipeline.epochs_seconds(f["samples"], first, later, f["epochs"], warm)
    stages = (storage, network, reading, decoding, copying, taken)
    latency = (wait, sample / f["network"], sample / known["page_cache_rate"], 1 / single, 1 / copy, step)
    return {
        "stages": dict(zip(STAGES, stages, strict=True)), "latency": dict(zip(STAGES, latency, strict=True)),
        "hit_rate": hit, "first": first, "later": later, "utilisation": np.minimum(rates[1] * busy, 1),
        "first_utilisation": np.minimum(rates[0] * busy, 1), "stall": stall, "warm_up": warm, **seconds,
        "total_seconds": total,
    }  # fmt: skip


def _stored(f: Figures, known: Mapping[str, float], sample: Any, readers: Any) -> tuple[Any, Any, Any]:
    """Samples a second of the tier and of the network, and the time that one read waits."""
    one_by_one = (f["small_files"] > 0) & (sample < known["readahead"])
    request = np.where(one_by_one, sample, known["readahead"])
    iops = np.where(one_by_one, f["iops"], np.inf)
    hosts = np.where(f["local"] > 0, f["hosts"], 1)
    depth = np.where(f["local"] > 0, readers, readers * f["hosts"])
    latency = np.where(one_by_one, f["latency"], f["latency"] * np.minimum(1, request / known["readahead"]))
    tier = hosts * storage_rates.tier_rate(request, f["bandwidth"] * f["drives"], iops * f["drives"], depth, latency)
    left = storage_rates.read_share_beside_writes(
        f["checkpoint_bytes"], f["write_bandwidth"] * f["drives"] * hosts, f["checkpoint_interval"], f["asynchronous"]
    )
    network = storage_rates.clients_rate(np.inf, f["hosts"], f["network"], np.maximum(readers, 1), f["connection"])
    return tier * left / sample, network / sample, f["latency"] + sample / f["bandwidth"]


def _decoded(f: Figures, known: Mapping[str, float], each: Any) -> tuple[Any, Any]:
    """Samples a second that all loaders decode, and what one core decodes."""
    core = known["core_rate"] * f["speed"]
    with np.errstate(divide="ignore"):
        single = np.asarray(core / f["work"])
    asked = np.maximum(f["workers"], 1) * each
    real = np.where(np.isinf(f["cores"]), asked, input_pipeline.working_threads(
        asked, np.where(np.isinf(f["cores"]), 1, f["cores"]), known["second_thread"]))  # fmt: skip
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
