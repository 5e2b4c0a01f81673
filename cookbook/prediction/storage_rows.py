"""Rows about storage as arrays: what words about systems, processors, instances and workloads mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.catalog import UnknownName
from cookbook.prediction.cells import BLANK, NUMBER

if TYPE_CHECKING:
    import pandas as pd

MLPERF, DECODE, OBJECT_STORE, FIO, METADATA, CHECKPOINT = (
    "mlperf", "decode", "object_store", "fio", "metadata", "checkpoint",
)  # fmt: skip
KINDS = {
    "mlperf": MLPERF, "mlperf-storage": MLPERF, "decode": DECODE, "dataloader": DECODE, "object_store": OBJECT_STORE,
    "object-store": OBJECT_STORE, "fio": FIO, "metadata": METADATA, "checkpoint": CHECKPOINT,
}  # fmt: skip
# The same column under other names.
NAMES = {
    "system": ("system", "device_or_system"), "accelerators": ("accelerators", "accelerator_count"),
    "cpu": ("cpu", "cpu_cores"), "note": ("note", "notes"),
    "accelerator": ("accelerator", "accelerator_as_printed"),
}  # fmt: skip
DRIVES = ("NVMe SSD", "SATA SSD", "SCM SSD", "HDD")
WORKLOADS = ((re.compile(r"u-?net", re.I), "unet3d"), (re.compile(r"resnet", re.I), "resnet50"))
ACCELERATOR = re.compile(r"[a-z]+\d+\w*", re.I)
WORKERS = re.compile(r"(\d+) workers?")
INSTANCE = re.compile(r"\b([a-z]\d\w*)\.(\w+)\b")
LINE_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:Gb/s|Gbit/s|Gbps|GbE)\b")
# The number of a drive, and its size, as words of a name.
MODEL = re.compile(r"[a-z]{0,3}\d{3,4}[a-z0-9]?|[a-z]{2}\d[a-z]?")
CAPACITY = re.compile(r"\d+tb|gen\d")
SIZE = re.compile(r"(\d*)x?(large|medium|small|micro|nano|metal)")
BLOCK = re.compile(r"bs=(\d+)([km]?)", re.I)
FACTORS = {"": 1, "k": 1024, "m": 1024**2}
WHOLE_MACHINE = 96.0


@dataclass(frozen=True, eq=False)
class StorageRows:
    """Rows of storage benchmarks, one entry each; NaN where a figure is not known or not of the kind.

    Attributes
    ----------
    kind : numpy.ndarray of str
        One of mlperf, decode, object_store, fio, metadata, checkpoint; "" where it is not clear.
    accelerators, hosts : numpy.ndarray
        Emulated accelerators and client hosts.
    step, batch, sample_bytes, required : numpy.ndarray
        Computation of one step [s], its samples, bytes of one, utilisation that a valid run must reach.
    drive, drive_iops, request : numpy.ndarray
        Read bandwidth [B/s] and operations a second of the drive that the system is named after, bytes of a request.
    workers, speed, threads, decoder : numpy.ndarray
        Loader processes, single-thread speed, threads of a core, decoder.
    network, network_class, processors : numpy.ndarray
        Network of the instance [B/s], its word where there is no figure, virtual processors.
    latency : numpy.ndarray
        Latency of the operation that the catalogue has [s].
    estimated : numpy.ndarray of bool
        Whether something in the row stands in for what is not known.
    why : numpy.ndarray of str
        Why nothing can be said; "" where something can.
    """

    kind: np.ndarray
    accelerators: np.ndarray
    hosts: np.ndarray
    step: np.ndarray
    batch: np.ndarray
    sample_bytes: np.ndarray
    required: np.ndarray
    drive: np.ndarray
    drive_iops: np.ndarray
    request: np.ndarray
    workers: np.ndarray
    speed: np.ndarray
    threads: np.ndarray
    decoder: np.ndarray
    network: np.ndarray
    network_class: np.ndarray
    processors: np.ndarray
    latency: np.ndarray
    estimated: np.ndarray
    why: np.ndarray


def storage_rows(frame: pd.DataFrame) -> StorageRows:
    """Rows of a table of storage benchmarks, ours or one under the usual other column names.

    Parameters
    ----------
    frame : pandas.DataFrame
        Text or numbers; outcomes are not looked at.
    """
    cells = {name: _cells(frame, name) for name in ("kind", "workload", "framework", "workers", "hosts", "batch",
                                                    "sample_bytes", *NAMES)}  # fmt: skip
    kind = _each(_kind, cells["kind"], cells["workload"])
    numbers = {name: _each(_number, cells[name]).astype(float) for name in ("accelerators", "hosts", "batch")}
    demand = _each(_demand, kind, cells["workload"], cells["accelerator"])
    step, batch, size, required, guessed = (np.array(column, dtype=float) for column in _columns(demand, 5))
    own = np.where(numbers["batch"] > 0, numbers["batch"], batch)
    given = _each(_number, cells["sample_bytes"]).astype(float)
    drive, drive_iops = _floats(_each(_drive, cells["system"]), 2)
    speed, threads = _floats(_each(processor_of, cells["system"], cells["cpu"]), 2)
    network, network_class, processors = _columns(_each(_network, cells["system"]), 3)
    decoding = kind == DECODE
    return StorageRows(
        kind=kind, accelerators=numbers["accelerators"], hosts=np.nan_to_num(numbers["hosts"], nan=1.0),
        step=step * np.where(batch > 0, own / batch, 1), batch=own, sample_bytes=np.where(given > 0, given, size),
        required=required, drive=drive, drive_iops=drive_iops,
        request=_each(_request, cells["workload"]).astype(float),
        workers=_each(_workers, cells["workload"], cells["workers"], cells["cpu"]).astype(float),
        speed=speed, threads=threads, decoder=_each(_decoder, cells["framework"]),
        network=network.astype(float), network_class=network_class, processors=processors.astype(float),
        latency=_each(_latency, cells["workload"], cells["system"]).astype(float),
        estimated=(guessed > 0) | (decoding & np.isnan(speed)) | (
            (kind == OBJECT_STORE) & (network_class == "") & np.isnan(network.astype(float))),
        why=_each(_why, kind, cells["workload"], cells["accelerator"], cells["accelerators"], cells["note"]),
    )  # fmt: skip


def _cells(frame: pd.DataFrame, name: str) -> np.ndarray:
    """A column as text, blank where a cell says nothing; the first of its names that has a word."""
    found = np.full(len(frame), "", dtype=object)
    for column in NAMES.get(name, (name,)):
        if column in frame:
            words = np.array([_plain(cell) for cell in frame[column].tolist()], dtype=object)
            found = np.where(found == "", words, found)
    return found


@lru_cache(maxsize=1 << 16)
def _plain(cell: Any) -> str:
    words = str(cell).strip()
    return "" if words.casefold() in BLANK else words


def _each(function: Callable[..., Any], *columns: np.ndarray) -> np.ndarray:
    """A cached function of the words of each row."""
    found = np.empty(len(columns[0]), dtype=object)
    for at, words in enumerate(zip(*columns, strict=True)):
        found[at] = function(*words)
    return found


def _columns(rows: np.ndarray, count: int) -> list[np.ndarray]:
    return [np.array([row[at] for row in rows], dtype=object) for at in range(count)]


def _floats(rows: np.ndarray, count: int) -> list[np.ndarray]:
    return [column.astype(float) for column in _columns(rows, count)]


@lru_cache(maxsize=4096)
def _number(cell: str) -> float:
    number = NUMBER.match(cell)
    return float(number[1].replace(",", "")) if number else np.nan


@lru_cache(maxsize=4096)
def _kind(kind: str, workload: str) -> str:
    if kind:
        return KINDS.get(kind.casefold(), "")
    if re.search(r"jpe?g|decod", workload, re.I):
        return DECODE
    return MLPERF if _workload(workload) in set(catalog.table("storage_workloads")["workload"]) else ""


def _workload(words: str) -> str:
    return next((name for pattern, name in WORKLOADS if pattern.search(words)), words.casefold().strip())


@lru_cache(maxsize=4096)
def _demand(kind: str, workload: str, accelerator: str) -> tuple[float, float, float, float, float]:
    """Step, batch, bytes, utilisation required, and whether the step is that of another device, scaled."""
    nothing = (np.nan, np.nan, np.nan, np.nan, 0.0)
    if kind != MLPERF:
        return nothing
    rows = catalog.table("storage_workloads")
    rows = rows[(rows["workload"] == _workload(workload)) & rows["step_seconds"].notna()]
    printed = ACCELERATOR.match(accelerator)
    if rows.empty or not printed:
        return nothing
    same, scale = rows[rows["accelerator_as_printed"] == printed[0].upper()], 1.0
    if same.empty:
        same, scale = _scaled(rows, accelerator)
        if same is None:
            return nothing
    row = same.iloc[0]
    required = row["utilisation_required"]
    return (row["step_seconds"] * scale, row["batch"], row["record_bytes"],
            required if required > 0 else np.nan, float(scale != 1))  # fmt: skip


def _scaled(rows: pd.DataFrame, accelerator: str) -> tuple[pd.DataFrame | None, float]:
    """The nearest device whose step is known, and the ratio of memory bandwidths by which its step is scaled."""
    bandwidth = _memory_bandwidth(accelerator)
    known = [(name, _memory_bandwidth(name)) for name in rows["accelerator_as_printed"]]
    ratios = {name: value / bandwidth for name, value in known if value > 0}
    if not bandwidth > 0 or not ratios:
        return None, 1.0
    name = min(ratios, key=lambda each: abs(np.log(ratios[each])))
    return rows[rows["accelerator_as_printed"] == name], ratios[name]


@lru_cache(maxsize=256)
def _memory_bandwidth(name: str) -> float:
    devices = catalog.table("accelerators").set_index("key")["mem_bandwidth"]
    try:
        return float(devices[catalog.lookup("accelerators", name)])
    except UnknownName as unknown:  # the benchmark's "A100" is any of them; the first has the least memory bandwidth
        return float(devices[unknown.nearest[0]]) if unknown.shared else np.nan


@lru_cache(maxsize=4096)
def _drive(system: str) -> tuple[float, float]:
    """Bandwidth and operations a second of the drive of the catalogue that the words name, by maker and number."""
    words = set(re.split(r"[\W_]+", system.casefold()))
    rows = catalog.table("storage")
    for row in rows[rows["category"].isin(DRIVES)].itertuples(index=False):
        name = [word for word in re.split(r"[\W_]+", row.name.casefold()) if not CAPACITY.fullmatch(word)]
        model = next((word for word in name[1:] if MODEL.fullmatch(word)), "")
        if model and {name[0], model} <= words and "measured" not in name:
            return row.read_bandwidth, row.read_iops
    return np.nan, np.nan


@lru_cache(maxsize=4096)
def processor_of(system: str, cpu: str) -> tuple[float, float]:
    """Single-thread speed and threads of a core of the processor that the words name; NaN where none is known.

    Parameters
    ----------
    system, cpu : str
        Words about the system and about its processor; the latter count first.
    """
    for words in (cpu, system):
        for row in catalog.table("processors").itertuples(index=False):
            if words and re.search(row.pattern, words, re.I):
                return row.single_thread, row.threads_per_core
    return np.nan, np.nan


@lru_cache(maxsize=4096)
def _network(system: str) -> tuple[float, str, float]:
    """Network of a cloud instance [B/s] or its word, and its virtual processors."""
    stated, instance = LINE_RATE.search(system), INSTANCE.search(system)
    size = SIZE.fullmatch(instance[2]) if instance else None
    processors = _virtual_processors(size) if size else np.nan
    if stated:
        return float(stated[1]) * 1e9 / 8, "", processors
    if instance:
        for row in catalog.table("cloud_networks").itertuples(index=False):
            if instance[1] in row.families.split(";") and instance[2] in row.sizes.split(";"):
                return row.network, row.network_class, processors
    return np.nan, "", processors


def _virtual_processors(size: re.Match[str]) -> float:
    if size[2] == "metal":
        return WHOLE_MACHINE
    return 4.0 * float(size[1] or 1) if "x" in size[0] and size[2] == "large" else 2.0


@lru_cache(maxsize=4096)
def _request(workload: str) -> float:
    block = BLOCK.search(workload)
    return float(block[1]) * FACTORS[block[2].casefold()] if block else np.nan


@lru_cache(maxsize=4096)
def _workers(workload: str, workers: str, cpu: str) -> float:
    if "thread" in workload:
        return 0.0
    words = WORKERS.search(cpu)
    return _number(workers) if workers else float(words[1]) if words else 0.0


@lru_cache(maxsize=4096)
def _decoder(framework: str) -> str:
    return framework.split("+")[0].strip().casefold()


@lru_cache(maxsize=4096)
def _latency(workload: str, system: str) -> float:
    """Latency of opening a small file [s], from the rows of the catalogue for file systems."""
    if "open" not in workload.casefold() or "enoent" in workload.casefold():
        return np.nan
    rows = catalog.table("storage")
    for row in rows[rows["category"] == "metadata"].itertuples(index=False):
        if re.search("lustre" if "Lustre" in row.name else "nvme", system, re.I) and "nfs" not in system.casefold():
            return float(row.latency)
    return np.nan


@lru_cache(maxsize=4096)
def _why(kind: str, workload: str, accelerator: str, accelerators: str, note: str) -> str:
    """What is missing in a row, before anything is computed."""
    if not kind:
        return "kind: it is not clear what was measured; give mlperf-storage, dataloader, object-store, fio or metadata"
    if kind == CHECKPOINT:
        return "writing checkpoints asks for no read rate; give read_bandwidth of a described system"
    if kind == METADATA and not ("open" in workload.casefold() and "enoent" not in workload.casefold()):
        return f"workload = {workload[:40]!r}: of small files, opening one is known"
    if kind == FIO and not BLOCK.search(workload):
        return f"workload = {workload[:40]!r}: no block size such as bs=4k"
    if kind == FIO and note.casefold().startswith("write"):
        return "the row asks for writing; reading is predicted"
    if kind == MLPERF and np.isnan(_demand(kind, workload, accelerator)[0]):
        return f"no step of workload {workload[:40]!r} on accelerator {accelerator[:40]!r} is known"
    if kind == MLPERF and not _number(accelerators) > 0:
        return "accelerators: give how many are emulated, 1 or more"
    return ""
