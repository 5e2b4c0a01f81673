"""One forward pass of networks: scenarios with their machine and engine, and what is blank filled in."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.prediction.constants import figure
from cookbook.prediction.scenario import Coded, Rows, Scenario, together
from cookbook.prediction.terms.devices import cores_of, of_inference
from cookbook.prediction.terms.network_arrays import network
from cookbook.prediction.terms.network_rows import keys_of, of_devices, of_networks, refuse

KIND = "inference"
DOES = ("launches", "drains", "kernels", "fused", "transposes", "fast_algorithms")
DEVICE = ("peak", "vector_peak", "mem_bandwidth", "element_bytes", "unit_kind", "lanes", "memory", "watts",
          "process_nm", "ring_link")  # fmt: skip
# Shared by the cores of a chip that hold a network each.
SHARED = ("peak", "vector_peak", "mem_bandwidth", "memory", "watts")
QUEUED, FULL, ONE_STREAM = ("server",), ("offline", "server"), ("single_stream",)


def resolve(scenario: Scenario) -> Rows:
    """Scenarios with their network, machine and engine; `batch` is that of one replica, `peak` what one replica has.

    Parameters
    ----------
    scenario : Scenario
        Of the kind "inference".
    """
    s, size = scenario, len(scenario)
    networks, index, _, why = of_networks(s)
    pairs = together(s.words("accelerator"), s.words("precision"))
    devices = [of_inference(*level) for level in pairs.levels]
    values = of_devices(devices, pairs, DEVICE)
    assumed: list[Any] = []
    keys = keys_of(KIND, s, devices, pairs, assumed)
    traits = keys["engine"].map(lambda level: does()[level])
    for name in DOES:
        values[name] = traits.part(name)
    values["cores"] = keys["accelerator"].each(cores_of)
    values |= _counts(s, networks, index, values["cores"], assumed)
    for name in SHARED:
        values[name] = values[name] / values["cores"]
    values["memory_bytes"] = values.pop("memory")
    queued = s.words("scenario").where(lambda word: word in QUEUED)
    items = np.where(np.isnan(s.number("items")), 1.0, s.number("items"))
    values["items"] = items * np.where(queued, figure("server-share"), 1.0)
    for name, field in (("is_delay", "delay"), ("each_device", "each_device")):
        values[name] = np.nan_to_num(s.number(field))
    keys["scale"] = Coded((values["replicas"] > 1).astype(int), ("1 device", "1 node"))
    lacks = s.words("precision").where(lambda word: word == "")
    assumed.append(("precision", lacks, Coded(np.array(0), ("smallest usual",))))
    lacks = Coded(pairs.codes, tuple(each.why for each in devices))
    said = together(why, lacks).map(lambda each: each[0] or each[1])
    refused = refuse(s.why, said, values)
    full = {name: np.broadcast_to(np.asarray(value, dtype=float), (size,)) for name, value in values.items()}
    return Rows(full, refused, keys, networks, np.broadcast_to(index, (size,)), tuple(assumed))


@lru_cache(maxsize=1)
def does() -> dict[str, dict[str, float]]:
    """What each level of engine does with operations."""
    rows = catalog.table("inference_engines").set_index("level")
    return {str(level): {name: float(row[name]) for name in DOES} for level, row in rows.iterrows()}


@lru_cache(maxsize=512)
def offline_batch(name: Any, arguments: str, seq: float | None) -> float:
    """Samples of one pass where a submitter does not state them: as many as fill any device."""
    found = network(name, arguments, seq)
    return max(1.0, math.ceil(figure("offline-macs") / float(found.macs @ found.count)))


def _counts(
    s: Scenario, networks: tuple[Any, ...], index: np.ndarray, cores: np.ndarray, assumed: list[Any]
) -> dict[str, np.ndarray]:
    """Batch of a replica and replicas; what is blank follows from how requests arrive."""
    batch, devices, way = s.number("batch"), s.number("devices"), s.words("scenario")
    assumed.append(("devices", np.isnan(devices), np.array(1.0)))
    devices = np.where(np.isnan(devices), 1.0, devices)
    blank = np.isnan(batch)
    if blank.any():
        full = way.where(lambda word: word in FULL)
        enough = np.array([*(offline_batch(*each) for each in networks), 1.0]) if np.any(full & blank) else np.ones(1)
        usual = np.where(full, enough[index if len(enough) > 1 else 0], 1.0)
        assumed.append(("batch", blank, usual))
        batch = np.where(blank, usual, batch)
    replicas = np.where(np.isnan(s.number("replicas")), devices * cores, s.number("replicas"))
    # One stream keeps one device busy, however many there are.
    replicas = np.where(way.where(lambda word: word in ONE_STREAM), 1.0, replicas)
    return {"batch": batch, "devices": devices, "replicas": replicas, "accumulation": np.array(1.0)}
