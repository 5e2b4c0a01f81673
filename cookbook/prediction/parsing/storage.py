"""Rows of reports about storage as scenarios of input pipelines: what their words about systems and workloads mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.prediction.parsing.columns import STORAGE, Columns
from cookbook.prediction.parsing.drives import (
    MAX_READ,
    MAX_SHOWN,
    NamedChain,
    NamedSystem,
    cloud_network,
    key_of,
    named_chain,
    named_system,
    processor_of,
)
from cookbook.prediction.parsing.words import PIPELINE, is_blank
from cookbook.prediction.scenario import Coded, Scenario, together
from cookbook.units import shown

MLPERF, DECODE, OBJECT_STORE, FIO, METADATA, CHECKPOINT, LOADER, TRAINING, WEIGHTS, START = (
    "mlperf",
    "decode",
    "object_store",
    "fio",
    "metadata",
    "checkpoint",
    "loader",
    "training",
    "model_load",
    "start",
)
KINDS = {
    "mlperf": MLPERF,
    "mlperf-storage": MLPERF,
    "decode": DECODE,
    "dataloader": DECODE,
    "object_store": OBJECT_STORE,
    "object-store": OBJECT_STORE,
    "fio": FIO,
    "metadata": METADATA,
    "checkpoint": CHECKPOINT,
    "loader": LOADER,
    "training": TRAINING,
    "dl-training-with-storage": TRAINING,
    **dict.fromkeys(("model_load", "model-load", "model load", "weights"), WEIGHTS),
}
# Kinds that a whole chain answers: storage, network, readers, decoding and, of runs, the step.
CHAINS = (LOADER, TRAINING, WEIGHTS, START)
# Figures of an answer: samples per second, utilisation, read rate, operations per second, latency; those of each kind,
# the first of which it leads with, and the units in which they are given.
FIGURES = {
    MLPERF: (0, 1, 2),
    DECODE: (0,),
    OBJECT_STORE: (2,),
    FIO: (2, 3),
    METADATA: (4,),
    LOADER: (0, 2),
    TRAINING: (0, 2),
    WEIGHTS: (2,),
    START: (4,),
}
UNITS = ("samples/s", "", "GB/s", "IOPS", "us")
METRICS = {
    "samples_per_s": 0,
    "samples_per_second": 0,
    "samples/s": 0,
    "throughput": 0,
    "images_per_s": 0,
    "images/s": 0,
    "accelerator_utilisation": 1,
    "accelerator_utilization": 1,
    "utilisation": 1,
    "utilization": 1,
    "au": 1,
    "read_gbps": 2,
    "read_bandwidth": 2,
    "bandwidth": 2,
    "read_rate": 2,
    "iops": 3,
    "read_iops": 3,
    "latency_us": 4,
    "latency": 4,
}
SHARES = {"%": 0.01, "share": 1.0, "fraction": 1.0}
COUNTED = ("samples", "sample", "images", "image", "1")
# Columns of words, and of numbers.
WORD_COLUMNS = ("kind", "workload", "system", "accelerator", "cpu", "framework", "note", "metric", "unit")
NUMBER_COLUMNS = ("accelerators", "hosts", "batch", "sample_bytes", "workers")
WORKLOADS = ((re.compile(r"u-?net", re.I), "unet3d"), (re.compile(r"resnet", re.I), "resnet50"))
ACCELERATOR = re.compile(r"[a-z]+\d+\w*", re.I)
WORKERS = re.compile(r"(\d+) workers?", re.A)
BLOCK = re.compile(r"bs=(\d+)([km]?)", re.I | re.A)
FACTORS = {"": 1, "k": 1024, "m": 1024**2}


def read(frame: pd.DataFrame, why: np.ndarray | None = None) -> Scenario:
    """Return rows of a table of reports about storage, ours or one under the usual other column names, as a scenario.

    Each distinct cell is read once, however many rows have it. Beside the fields of input pipelines there are columns
    of what words say: ``report`` (what was measured), ``benchmark`` (as `_demand`), ``named`` (`NamedSystem`), ``chip``
    (single-thread speed, threads), ``instance`` (as `cloud_network`), ``chain`` (`NamedChain`), ``request`` [B],
    ``open`` [s], ``decoder``, and ``requested`` (outcome, what turns SI into its unit, the unit as written).

    Parameters
    ----------
    frame : pandas.DataFrame
        Text or numbers; outcomes are not looked at.
    why : numpy.ndarray of str, optional
        What is known to be wrong with single rows.
    """
    cells = Columns(STORAGE, frame)
    text = {name: cells.text(name).map(lambda cell: "" if is_blank(cell) else cell).compact() for name in WORD_COLUMNS}
    report = _joined(_kind, text["kind"], text["workload"]).compact()
    workload, system, accelerator = text["workload"], text["system"], text["accelerator"]
    cells.problems += [
        _joined(_why, report, workload, text["kind"]),
        _joined(_writes, report, text["note"]),
        _joined(_no_step, report, workload, accelerator),
    ]
    requested = _joined(_requested, report, text["metric"], text["unit"])
    named = _joined(_system, report, system).compact()
    cells.problems += [requested.map(lambda entry: entry[3]), named.map(lambda entry: entry.why)]
    numbers = {name: cells.number(name) for name in NUMBER_COLUMNS}
    benchmark = _joined(_demand, report, workload, accelerator).compact()
    cells.note(_joined(_assumed, report, benchmark, named, *(_blank(numbers[name]) for name in NUMBER_COLUMNS[1:4])))
    columns = numbers | {
        "workers": _workers(numbers["workers"], _joined(_worded_workers, workload, text["cpu"])),
        "report": report,
        "benchmark": benchmark,
        "named": named,
        "chip": _joined(_processor, report, system, text["cpu"]),
        "instance": _joined(_cloud, report, system),
        "chain": _chain(report, workload, system, accelerator, *(text[name] for name in ("cpu", "framework", "note"))),
        "request": workload.map(_request),
        "open": _joined(_latency, report, workload, system),
        "decoder": text["framework"].map(lambda words: words.split("+")[0].strip().casefold()),
        "requested": requested,
    }
    return Scenario(PIPELINE, cells.size, columns, cells.why(why), cells.noted())


def _joined(function: Callable[..., Any], *columns: Coded) -> Coded:
    """Return the values of a function of the words of each row, called once per distinct combination."""
    return together(*columns).map(lambda values: function(*values))


def _blank(numbers: np.ndarray) -> Coded:
    return Coded(np.isnan(numbers).astype(np.int64), (False, True))


def _workers(stated: np.ndarray, worded: Coded) -> np.ndarray:
    """Return loader processes: none where one thread decodes, else as stated, else as words about the processor say."""
    return np.where(worded.part(0) > 0, 0, np.where(np.isnan(stated), worded.part(1), stated))


def _chain(report: Coded, *words: Coded) -> Coded:
    """Return the chain that words describe in reports of loaders, runs and weights; of other reports an empty one."""
    at = np.flatnonzero(report.where(CHAINS.__contains__))
    if not len(at):
        return Coded(np.array(0), (NamedChain(),))
    chains = _joined(named_chain, *(column.take(at) for column in words))
    codes = np.zeros(np.shape(report.codes), dtype=np.int64)
    codes[at] = chains.codes + 1
    return Coded(codes, (NamedChain(), *chains.levels))


def _assumed(report: str, benchmark: tuple[float, ...], named: NamedSystem, *blank: bool) -> str:
    """Return fields of a row of MLPerf Storage that were not given, with the value taken."""
    if report != MLPERF:
        return ""
    _, batch, size, *_ = benchmark
    fields = ("hosts 1", f"batch {batch:g}", f"sample_bytes {size:,.0f} B", "a run that keeps the required utilisation")
    return "; ".join(text for text, is_assumed in zip(fields, (*blank, not named.rate > 0), strict=True) if is_assumed)


def _kind(kind: str, workload: str) -> str:
    if kind:
        report = KINDS.get(kind.casefold(), "")
        if report == WEIGHTS and re.search(r"\bstart", workload[:200], re.I):
            return START
        if report == DECODE and not re.search(r"jpe?g_|decod", workload[:200], re.I):
            return TRAINING if re.search(r"\btraining\b", workload[:200], re.I) else LOADER
        return report
    if re.search(r"jpe?g|decod", workload[:200], re.I):
        return DECODE
    return MLPERF if _workload(workload) in _steps() else ""


def _workload(words: str) -> str:
    return next((name for pattern, name in WORKLOADS if pattern.search(words[:200])), words.casefold().strip())


@lru_cache(maxsize=1)
def _steps() -> dict[str, dict[str, tuple[float, ...]]]:
    """Return step, batch, sample bytes, required utilisation and own files, by workload and emulated device."""
    steps: dict[str, dict[str, tuple[float, ...]]] = {}
    for row in catalog.table("storage_workloads").itertuples(index=False):
        by_device = steps.setdefault(row.workload, {})
        if row.step_seconds > 0:
            required = row.utilisation_required if row.utilisation_required > 0 else np.nan
            by_device.setdefault(
                row.accelerator_as_printed,
                (row.step_seconds, row.batch, row.record_bytes, required, float(row.samples_per_file == 1)),
            )
    return steps


def _demand(kind: str, workload: str, accelerator: str) -> tuple[float, ...]:
    """Return the figures of `_steps`, and whether the step is that of another device, scaled."""
    nothing = (np.nan, np.nan, np.nan, np.nan, 0.0, 0.0)
    rows = _steps().get(_workload(workload), {}) if kind == MLPERF else {}
    printed = ACCELERATOR.match(accelerator)
    if not rows or not printed:
        return nothing
    if printed[0].upper() in rows:
        return (*rows[printed[0].upper()], 0.0)
    bandwidth = _memory_bandwidth(accelerator)
    ratios = {name: rate / bandwidth for name in rows if (rate := _memory_bandwidth(name)) > 0 and bandwidth > 0}
    if not ratios:
        return nothing
    name = min(ratios, key=lambda device: abs(np.log(ratios[device])))
    step, *others = rows[name]
    return (step * ratios[name], *others, float(ratios[name] != 1))


def _memory_bandwidth(name: str) -> float:
    return _bandwidths().get(key_of("accelerators", name[:80]), np.nan)


@lru_cache(maxsize=1)
def _bandwidths() -> dict[str, float]:
    rows = catalog.table("accelerators")
    return dict(zip(rows["key"], rows["mem_bandwidth"].astype(float), strict=True))


def _system(kind: str, system: str) -> NamedSystem:
    """Return the storage system of the kinds of reports that read from storage; in others it does not matter."""
    return named_system(system[:MAX_READ]) if kind in (MLPERF, FIO) else NamedSystem()


def _processor(kind: str, system: str, cpu: str) -> tuple[float, float]:
    return processor_of(system[:MAX_READ], cpu[:MAX_READ]) if kind == DECODE else (np.nan, np.nan)


def _cloud(kind: str, system: str) -> tuple[float, float, str]:
    return cloud_network(system) if kind in (OBJECT_STORE, *CHAINS) else (np.nan, np.nan, "")


def _request(workload: str) -> float:
    """Return bytes of a request."""
    block = BLOCK.search(workload[:200])
    return float(block[1]) * FACTORS[block[2].casefold()] if block else np.nan


def _worded_workers(workload: str, cpu: str) -> tuple[float, float]:
    """Return whether one thread decodes without a loader, and the workers that words about the processor name."""
    words = WORKERS.search(cpu[:MAX_READ])
    return float("thread" in workload), float(words[1]) if words else 0.0


def _latency(kind: str, workload: str, system: str) -> float:
    """Return the latency of opening a small file [s], from the rows of the catalogue for file systems."""
    if kind != METADATA or not _opens(workload) or "nfs" in system.casefold():
        return np.nan
    return next((latency for word, latency in _opening() if word in system.casefold()), np.nan)


@lru_cache(maxsize=1)
def _opening() -> list[tuple[str, float]]:
    """Return the latency of opening a small file [s] on file systems that words name."""
    rows = catalog.table("storage")
    rows = rows[rows["category"] == "metadata"]
    words = ["lustre" if "Lustre" in name else "nvme" for name in rows["name"]]
    return list(zip(words, rows["latency"].astype(float), strict=True))


def _opens(workload: str) -> bool:
    return "open" in workload.casefold() and "enoent" not in workload.casefold()


def _requested(kind: str, metric: str, unit: str) -> tuple[float, float, str, str]:
    """Return the outcome that a row requests, the factor from SI to its unit, that unit, and why there is none."""
    if kind not in FIGURES:
        return 0, 1, "", ""
    allowed = FIGURES[kind]
    named = METRICS.get("_".join(metric[:80].casefold().replace("-", " ").replace("_", " ").split()), -1)
    meant, scale = _measured_in(unit)
    have = ", ".join(dict.fromkeys([*(UNITS[at] or "a share" for at in allowed)]))
    if metric and named not in allowed:
        return 0, 1, "", f"metric = {shown(metric, MAX_SHOWN)} is not predicted for kind {kind}: it has {have}"
    if unit and (meant not in allowed or (metric and meant != named)):
        return 0, 1, "", f"unit = {shown(unit, MAX_SHOWN)} is not one of what is predicted for kind {kind}: {have}"
    at = named if metric else meant if unit else allowed[0]
    return at, 1 / (scale if unit else units.scale(UNITS[at])), unit if unit else UNITS[at], ""


def _measured_in(unit: str) -> tuple[int, float]:
    """Return the position of the figure with a unit, and the unit's size in SI; -1 where none has it."""
    if unit in SHARES:
        return 1, SHARES[unit]
    head = unit.partition("/")[0].strip()
    try:
        written = unit[:40].replace("/second", "/s").replace("/sec", "/s")
        parsed = units.parse(written[:-2] + "/s" if written.endswith("Bps") else written)
    except ValueError:
        return -1, 1.0
    figure = {(("B", 1), ("s", -1)): 2, (("s", 1),): 4}.get(parsed.dimension, -1)
    if parsed.dimension == (("s", -1),):
        figure = 3 if head.endswith("IOPS") else 0 if head in COUNTED else -1
    return figure, parsed.factor


def _why(kind: str, workload: str, stated: str) -> str:
    """Return what is missing in a row, before anything is computed; "" where nothing is."""
    if stated.casefold() in ("dataset-size", "dataset_size", "size"):
        return "the size of a data set is what a row gives, as sample_bytes; rates and times are predicted"
    if not kind:
        return (
            "kind: what was measured? Give mlperf-storage, dataloader, training, object-store, fio, metadata or "
            "model-load"
        )
    if kind == TRAINING and not named_chain(workload, "", "", "", "", "").model:
        return f"workload = {shown(workload, MAX_SHOWN)} names no network of the zoo, such as ResNet-50"
    if kind == CHECKPOINT:
        return "writing checkpoints asks for no read rate; give read_bandwidth of a described system"
    if kind == METADATA and not _opens(workload):
        return f"workload = {shown(workload, MAX_SHOWN)}: of small files, opening one is known"
    if kind == FIO and not _request(workload) > 0:
        return f"workload = {shown(workload, MAX_SHOWN)}: no block size such as bs=4k"
    return ""


def _writes(kind: str, note: str) -> str:
    writes = kind == FIO and note.casefold().startswith("write")
    return "the row asks for writing; reading is predicted" if writes else ""


def _no_step(kind: str, workload: str, accelerator: str) -> str:
    if kind != MLPERF or _demand(kind, workload, accelerator)[0] > 0:
        return ""
    return f"no step of workload {shown(workload, MAX_SHOWN)} on accelerator {shown(accelerator, MAX_SHOWN)} is known"
