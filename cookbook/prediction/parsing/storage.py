"""Rows about storage as typed columns: what words about systems, drives, processors and workloads mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.catalog.reading import ALIKE, nearest
from cookbook.prediction.parsing.columns import ignored, normal
from cookbook.prediction.parsing.drives import (
    MOST_READ,
    Fed,
    NamedSystem,
    cloud_network,
    cut,
    fed,
    key_of,
    named_system,
    processor_of,
)

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
# Figures of an answer: samples a second, utilisation, read rate, operations a second, latency; those of each kind, the
# first of which it leads with, and the units in which they are given.
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
# Columns, and the same under other names.
NAMES = {
    "kind": (),
    "workload": ("model", "benchmark"),
    "system": ("device_or_system", "storage", "storage_system"),
    "accelerator": ("accelerator_as_printed", "accelerator_type", "gpu", "device"),
    "accelerators": ("accelerator_count", "num_accelerators", "accelerators_count", "gpus", "devices"),
    "hosts": ("host_count", "num_hosts", "clients", "client_hosts"),
    "batch": ("batch_size", "batch_per_device"),
    "sample_bytes": ("bytes_per_sample", "sample_size", "record_bytes"),
    "workers": ("num_workers", "loader_workers", "read_threads"),
    "cpu": ("cpu_cores", "processor"),
    "framework": ("decoder",),
    "note": ("notes",),
    "metric": (),
    "unit": (),
}
# Columns that say nothing of what was run.
NO_INPUT = (
    "cpu_count",
    "emulated_or_real",
    "read_bandwidth",
    "write_bandwidth",
    "read_gbps",
    "write_gbps",
    "latency_us",
    "latency",
    "iops",
)
# Cells that say that nothing is known.
BLANK = frozenset({"", "nan", "none", "null", "na", "n/a", "-", "--", "?", "unknown", "not stated", "<na>"})
# Smallest and largest count that a row may ask for, whether it is whole, and what is taken where nothing is said.
MOST = 1e6
COUNTS = {"accelerators": (1, np.nan), "hosts": (1, 1.0), "batch": (1, np.nan), "workers": (0, np.nan)}
MOST_BYTES = 1e12
CROWDS = (
    "",
    "accelerators: give how many are emulated, 1 or more",
    "hosts: there are more of them than accelerators, which each of them has",
)
WORKLOADS = ((re.compile(r"u-?net", re.I), "unet3d"), (re.compile(r"resnet", re.I), "resnet50"))
ACCELERATOR = re.compile(r"[a-z]+\d+\w*", re.I)
WORKERS = re.compile(r"(\d+) workers?", re.A)
BLOCK = re.compile(r"bs=(\d+)([km]?)", re.I | re.A)
COUNT = re.compile(
    r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d{1,3})?)\s*((?:k|m|thousand|million)(?![a-z]))?\s*([a-z ]*)",
    re.I | re.A,
)
DOUBTFUL = re.compile(r"\b(?:b|nodes?|hosts?|servers?|per|or|to|each)\b", re.I)
FACTORS = {"": 1, "k": 1024, "m": 1024**2}
THOUSANDS = {"": 1, "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}


@dataclass(frozen=True, eq=False)
class StorageRows:
    """Rows of storage benchmarks, one entry each; NaN where a figure is not known or not of the kind.

    Attributes
    ----------
    kind : numpy.ndarray of str
        One of mlperf, decode, object_store, fio, metadata, checkpoint; "" where it is not clear.
    accelerators, hosts : numpy.ndarray
        Emulated accelerators and client hosts.
    step, batch, sample_bytes, required, own_file : numpy.ndarray
        Computation of one step [s], its samples, bytes of one, utilisation that a valid run must reach, and whether
        each sample is a file of its own.
    drive, drive_most, drive_iops, drives, local : numpy.ndarray
        Read bandwidth that the words name, the most that the catalogue states for it [B/s], operations a second, how
        many there are in all, and whether they stand in the hosts.
    line, client : numpy.ndarray
        Network that the words name, all links together, and the most that one host reads [B/s].
    submitted : numpy.ndarray of bool
        Whether the words have the form of a published run, a submitter and its system.
    request : numpy.ndarray
        Bytes of a request.
    workers, speed, threads, decoder : numpy.ndarray
        Loader processes, single-thread speed, threads of a core, decoder.
    network, network_class, processors : numpy.ndarray
        Network of the instance [B/s], its word where there is no figure, virtual processors.
    fed : numpy.ndarray of Fed
        Chain of a loader, of a run on real data or of weights that are read.
    latency : numpy.ndarray
        Latency of the operation that the catalogue has [s].
    estimated : numpy.ndarray of bool
        Whether something in the row stands in for what is not known.
    figure, factor, unit : numpy.ndarray
        Which figure the row asks for, what turns SI into its unit, and that unit as written.
    assumed : numpy.ndarray of str
        Fields that were not given, with the value taken.
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
    own_file: np.ndarray
    drive: np.ndarray
    drive_most: np.ndarray
    drive_iops: np.ndarray
    drives: np.ndarray
    local: np.ndarray
    line: np.ndarray
    client: np.ndarray
    submitted: np.ndarray
    request: np.ndarray
    workers: np.ndarray
    speed: np.ndarray
    threads: np.ndarray
    decoder: np.ndarray
    network: np.ndarray
    network_class: np.ndarray
    processors: np.ndarray
    fed: np.ndarray
    latency: np.ndarray
    estimated: np.ndarray
    figure: np.ndarray
    factor: np.ndarray
    unit: np.ndarray
    assumed: np.ndarray
    why: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)


class Cells(NamedTuple):
    """A column as its distinct words and, for each row, which of them it has."""

    codes: np.ndarray
    words: list[Any]

    def each(self, values: Any, dtype: Any = object) -> np.ndarray:
        """What belongs to each row, given what belongs to each word."""
        return np.array(values, dtype=dtype)[self.codes]

    def columns(self, figures: int | None = None) -> list[np.ndarray]:
        """Where words are tuples: their entries by row, the first so many of them numbers; all if none is said."""
        columns = [list(column) for column in zip(*self.words, strict=True)]
        count = len(columns) if figures is None else figures
        return [self.each(column, float if at < count else object) for at, column in enumerate(columns)]


def storage_rows(frame: pd.DataFrame) -> StorageRows:
    """Rows of a table of storage benchmarks, ours or one under the usual other column names.

    Each distinct cell is read once, however many rows have it.

    Parameters
    ----------
    frame : pandas.DataFrame
        Text or numbers; outcomes are not looked at.
    """
    cells = {name: _cells(frame, name) for name in NAMES}
    kinds = _joined(_kind, cells["kind"], cells["workload"], cells["system"])
    kind = kinds.each(kinds.words, "U16")
    counts = {name: _counts(cells[name], name, *limits) for name, limits in COUNTS.items()}
    number = {name: values for name, (values, _) in counts.items()}
    given, odd_sizes = _sizes(cells["sample_bytes"])
    step, batch, size, required, own_file, guessed = _joined(
        _demand, kinds, cells["workload"], cells["accelerator"]
    ).columns()
    own = np.where(np.isnan(number["batch"]), batch, number["batch"])
    systems = _joined(_system, kinds, cells["system"])
    rate, most, iops, count, in_each_host, local, line, client, submitted, stands_in, unknown = systems.columns(10)
    speed, threads = _joined(_processor, kinds, cells["system"], cells["cpu"]).columns()
    network, processors, network_class = _joined(_cloud, kinds, cells["system"]).columns(2)
    figure, factor, unit, odd_units = _joined(_asked, kinds, cells["metric"], cells["unit"]).columns(2)
    said = _joined(_workers, cells["workload"], cells["cpu"])
    thread, worded = said.columns()
    basis = _joined(_why, kinds, cells["workload"], cells["accelerator"], cells["note"], cells["kind"])
    emulates = kind == MLPERF
    crowd = np.where(emulates & np.isnan(number["accelerators"]), 1, 0) + np.where(
        emulates & (number["accelerators"] < number["hosts"]), 2, 0
    )
    reasons = [
        basis.each(basis.words),
        odd_units,
        unknown,
        *(reason for _, reason in counts.values()),
        odd_sizes,
        np.array(CROWDS, dtype=object)[crowd],
    ]
    blank = [
        _flags(cells[name], [word == "" for word in cells[name].words]) for name in ("hosts", "batch", "sample_bytes")
    ]
    taken = _flags(systems, [not one.rate > 0 for one in systems.words])
    assumed = _joined(_assumed, cells["workload"], cells["accelerator"], *blank, taken)
    return StorageRows(
        kind=kind,
        accelerators=number["accelerators"],
        hosts=number["hosts"],
        step=step * np.where(batch > 0, own / batch, 1),
        batch=own,
        sample_bytes=np.where(np.isnan(given), size, given),
        required=required,
        own_file=own_file,
        drive=rate,
        drive_most=most,
        drive_iops=iops,
        drives=count * np.where(in_each_host > 0, number["hosts"], 1),
        local=local,
        line=line,
        client=client,
        submitted=submitted > 0,
        request=_joined(_request, cells["workload"]).columns()[0],
        workers=np.where(thread > 0, 0, np.where(np.isnan(number["workers"]), worded, number["workers"])),
        speed=speed,
        threads=threads,
        decoder=_joined(_decoder, cells["framework"]).columns(0)[0],
        network=network,
        network_class=network_class,
        processors=processors,
        fed=_objects(
            _joined(
                _fed,
                kinds,
                *(cells[name] for name in ("workload", "system", "accelerator", "cpu", "framework", "note")),
            )
        ),
        latency=_joined(_latency, kinds, cells["workload"], cells["system"]).columns()[0],
        estimated=(guessed > 0)
        | ((kind == DECODE) & np.isnan(speed))
        | (stands_in > 0)
        | ((kind == OBJECT_STORE) & (network_class == "") & np.isnan(network)),
        figure=figure.astype(int),
        factor=factor,
        unit=unit,
        assumed=np.where(emulates, assumed.each(assumed.words), ""),
        why=_first(reasons),
    )


def unknown_columns(headers: list[str]) -> list[tuple[str, str]]:
    """Return columns that nothing is read from, each with the name it may be a misspelling of, or ""."""
    known = [name for both in NAMES.items() for name in (both[0], *both[1])]
    lost = [header for header in headers if normal(header) not in {*known, *NO_INPUT} and not ignored(header)]
    return [(header, "".join(nearest(normal(header)[:60], known, 1, ALIKE))) for header in lost]


def _cells(frame: pd.DataFrame, name: str) -> Cells:
    """A column as distinct words, blank where a cell says nothing; the first of its names that has a word."""
    found = Cells(np.zeros(len(frame), dtype=np.int64), [""])
    for spelling in (name, *NAMES[name]):
        for header in frame.columns:
            if normal(header) == spelling:
                own = _distinct(frame[header], name in COUNTS or name == "sample_bytes")
                found = own if found.words == [""] else _joined(lambda first, second: first or second, found, own)
    return found


def _assumed(workload: str, accelerator: str, *blank: bool) -> str:
    """Fields of a row of MLPerf Storage that were not given, with the value taken."""
    _, batch, size, *_ = _demand(MLPERF, workload, accelerator)
    told = ("hosts 1", f"batch {batch:g}", f"sample_bytes {size:,.0f} B", "a run that keeps the required utilisation")
    return "; ".join(text for text, taken in zip(told, blank, strict=True) if taken)


def _distinct(column: pd.Series, counts: bool) -> Cells:
    """The distinct words of a column; where they count something and are numbers already, those numbers."""
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists and the like, which cannot be told apart without their text
        codes, values = pd.factorize(column.map(str))
    words = values.tolist() if counts and values.dtype.kind in "iuf" else [*map(_words, values)]
    return Cells(np.where(codes < 0, len(words), codes), [*words, ""])


def _words(cell: Any) -> str:
    words = str(cell).strip()
    return "" if words.casefold() in BLANK else words


def _joined(function: Callable[..., Any], *columns: Cells) -> Cells:
    """A function of the words of each row, called once for each combination that there is."""
    shape = tuple(len(column.words) for column in columns)
    at = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column, size in zip(columns, shape, strict=True):
        at = at * size + column.codes
    codes, there = pd.factorize(at)
    there = there if len(there) else np.zeros(1, dtype=np.int64)
    picked = np.unravel_index(there, shape)
    words = zip(
        *([column.words[code] for code in codes_of] for column, codes_of in zip(columns, picked, strict=True)),
        strict=True,
    )
    return Cells(codes, [function(*each) for each in words])


def _first(reasons: list[np.ndarray]) -> np.ndarray:
    """The first reason of each row that is not blank."""
    found = reasons[-1]
    for reason in reasons[-2::-1]:
        found = np.where(reason == "", found, reason)
    return found


def _numbers(cells: Cells, read: Callable[[str], float]) -> np.ndarray:
    """A figure for each word; words that are no plain number are read one by one, NaN where nothing can be read."""
    found = pd.to_numeric(pd.Series(cells.words, dtype=object), errors="coerce").to_numpy(dtype=float, copy=True)
    for at in np.flatnonzero(np.isnan(found)).tolist():
        found[at] = read(str(cells.words[at])) if cells.words[at] else np.nan
    return found


def _counts(cells: Cells, name: str, least: float, blank: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts of a column, and for each row why its cell is none."""
    found, said = _numbers(cells, _count), np.array([word != "" for word in cells.words])
    with np.errstate(invalid="ignore"):
        good = (found >= least) & (found <= MOST) & (found == np.floor(found))
    wanted = f"is not a whole number from {least} to {MOST:,.0f}"
    return _judged(cells, np.where(said, found, blank), said & ~good, f"{name} = {{!r}} {wanted}")


def _sizes(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of a sample, and for each row why its cell is no size."""
    found = _numbers(cells, _bytes)
    said = np.array([word != "" for word in cells.words])
    with np.errstate(invalid="ignore"):
        good = (found >= 1) & (found <= MOST_BYTES)
    return _judged(cells, found, said & ~good, "sample_bytes = {!r} is not a size from 1 B to 1 TB, such as 140 MB")


def _objects(cells: Cells) -> np.ndarray:
    """Tuples as entries of an array, not as its rows."""
    found = np.empty(len(cells.words), dtype=object)
    for at, each in enumerate(cells.words):
        found[at] = each
    return found[cells.codes]


def _flags(cells: Cells, true: list[bool]) -> Cells:
    """The rows of words of which something is true, and the others."""
    return Cells(np.array(true, dtype=np.int64)[cells.codes], [False, True])


def _judged(cells: Cells, values: np.ndarray, bad: np.ndarray, reason: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = zip(cells.words, bad.tolist(), strict=True)
    why = [reason.format(cut(str(word))) if wrong else "" for word, wrong in pairs]
    return np.where(bad, np.nan, values)[cells.codes], cells.each(why)


def _count(cell: str) -> float:
    """A count, with words behind it that do not change it.

    >>> [_count(cell) for cell in ("8 GPUs", "1,024", "2k", "24+24", "8 or 16", "3 nodes")]
    [8.0, 1024.0, 2000.0, nan, nan, nan]
    """
    found = COUNT.fullmatch(cell[:80])
    if not found or DOUBTFUL.search(found[3]):
        return np.nan
    return float(found[1].replace(",", "")) * THOUSANDS[(found[2] or "").casefold()]


def _bytes(cell: str) -> float:
    found = COUNT.fullmatch(cell[:80])
    if found and not found[2] and not found[3]:
        return float(found[1].replace(",", ""))
    try:
        return float(units.si(cell, "B")) if len(cell) < 80 and cell.isascii() else np.nan
    except ValueError:
        return np.nan


def _kind(kind: str, workload: str, system: str) -> str:
    if kind:
        found = KINDS.get(kind.casefold(), "")
        if found == WEIGHTS and re.search(r"\bstart", workload[:200], re.I):
            return START
        if found == DECODE and not re.search(r"jpe?g_|decod", workload[:200], re.I):
            return TRAINING if re.search(r"\btraining\b", workload[:200], re.I) else LOADER
        return found
    if re.search(r"jpe?g|decod", workload[:200], re.I):
        return DECODE
    return MLPERF if _workload(workload) in _steps() else ""


def _workload(words: str) -> str:
    return next((name for pattern, name in WORKLOADS if pattern.search(words[:200])), words.casefold().strip())


@lru_cache(maxsize=1)
def _steps() -> dict[str, dict[str, tuple[float, ...]]]:
    """By workload and emulated device: step, batch, bytes of a sample, utilisation required, a file for each."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for row in catalog.table("storage_workloads").itertuples(index=False):
        known = found.setdefault(row.workload, {})
        if row.step_seconds > 0:
            required = row.utilisation_required if row.utilisation_required > 0 else np.nan
            known.setdefault(
                row.accelerator_as_printed,
                (row.step_seconds, row.batch, row.record_bytes, required, float(row.samples_per_file == 1)),
            )
    return found


def _demand(kind: str, workload: str, accelerator: str) -> tuple[float, ...]:
    """What `_steps` says, and whether the step is that of another device, scaled."""
    nothing = (np.nan, np.nan, np.nan, np.nan, 0.0, 0.0)
    rows = _steps().get(_workload(workload), {}) if kind == MLPERF else {}
    printed = ACCELERATOR.match(accelerator)
    if not rows or not printed:
        return nothing
    if printed[0].upper() in rows:
        return (*rows[printed[0].upper()], 0.0)
    bandwidth = _memory_bandwidth(accelerator)
    ratios = {name: known / bandwidth for name in rows if (known := _memory_bandwidth(name)) > 0 and bandwidth > 0}
    if not ratios:
        return nothing
    name = min(ratios, key=lambda each: abs(np.log(ratios[each])))
    step, *others = rows[name]
    return (step * ratios[name], *others, float(ratios[name] != 1))


def _memory_bandwidth(name: str) -> float:
    return _bandwidths().get(key_of("accelerators", name[:80]), np.nan)


@lru_cache(maxsize=1)
def _bandwidths() -> dict[str, float]:
    rows = catalog.table("accelerators")
    return dict(zip(rows["key"], rows["mem_bandwidth"].astype(float), strict=True))


def _system(kind: str, system: str) -> NamedSystem:
    """Of the kinds that read from storage; an unknown drive matters there alone."""
    return named_system(system[:MOST_READ]) if kind in (MLPERF, FIO) else NamedSystem()


def _processor(kind: str, system: str, cpu: str) -> tuple[float, float]:
    return processor_of(system[:MOST_READ], cpu[:MOST_READ]) if kind == DECODE else (np.nan, np.nan)


def _cloud(kind: str, system: str) -> tuple[float, float, str]:
    return cloud_network(system) if kind in (OBJECT_STORE, *CHAINS) else (np.nan, np.nan, "")


def _fed(kind: str, *words: str) -> Fed:
    return fed(*words) if kind in CHAINS else Fed()


def _request(workload: str) -> tuple[float]:
    block = BLOCK.search(workload[:200])
    return (float(block[1]) * FACTORS[block[2].casefold()] if block else np.nan,)


def _workers(workload: str, cpu: str) -> tuple[float, float]:
    """Whether one thread decodes without a loader, and the workers that words about the processor name."""
    words = WORKERS.search(cpu[:MOST_READ])
    return float("thread" in workload), float(words[1]) if words else 0.0


def _decoder(framework: str) -> tuple[str]:
    return (framework.split("+")[0].strip().casefold(),)


def _latency(kind: str, workload: str, system: str) -> tuple[float]:
    """Latency of opening a small file [s], from the rows of the catalogue for file systems."""
    if kind != METADATA or not _opens(workload) or "nfs" in system.casefold():
        return (np.nan,)
    return (next((latency for word, latency in _opening() if word in system.casefold()), np.nan),)


@lru_cache(maxsize=1)
def _opening() -> list[tuple[str, float]]:
    """Latency of opening a small file [s] on file systems that words name."""
    rows = catalog.table("storage")
    rows = rows[rows["category"] == "metadata"]
    words = ["lustre" if "Lustre" in name else "nvme" for name in rows["name"]]
    return list(zip(words, rows["latency"].astype(float), strict=True))


def _opens(workload: str) -> bool:
    return "open" in workload.casefold() and "enoent" not in workload.casefold()


def _asked(kind: str, metric: str, unit: str) -> tuple[float, float, str, str]:
    """The figure that a row asks for, what turns SI into its unit, that unit, and why it cannot be had."""
    if kind not in FIGURES:
        return 0, 1, "", ""
    allowed = FIGURES[kind]
    named = METRICS.get("_".join(metric[:80].casefold().replace("-", " ").replace("_", " ").split()), -1)
    meant, scale = _measured_in(unit)
    have = ", ".join(dict.fromkeys([*(UNITS[at] or "a share" for at in allowed)]))
    if metric and named not in allowed:
        return 0, 1, "", f"metric = {cut(metric)!r} is not predicted for kind {kind}: it has {have}"
    if unit and (meant not in allowed or (metric and meant != named)):
        return 0, 1, "", f"unit = {cut(unit)!r} is not one of what is predicted for kind {kind}: {have}"
    at = named if metric else meant if unit else allowed[0]
    return at, 1 / (scale if unit else units.scale(UNITS[at])), unit if unit else UNITS[at], ""


def _measured_in(unit: str) -> tuple[int, float]:
    """Which figure has that unit, and its size in SI; -1 where none has."""
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


def _why(kind: str, workload: str, accelerator: str, note: str, said: str) -> str:
    """What is missing in a row, before anything is computed."""
    if said.casefold() in ("dataset-size", "dataset_size", "size"):
        return "the size of a data set is what a row gives, as sample_bytes; rates and times are predicted"
    if not kind:
        return (
            "kind: what was measured? Give mlperf-storage, dataloader, training, object-store, fio, metadata or "
            "model-load"
        )
    if kind == TRAINING and not fed(workload, "", "", "", "", "").model:
        return f"workload = {cut(workload)!r} names no network of the zoo, such as ResNet-50"
    if kind == CHECKPOINT:
        return "writing checkpoints asks for no read rate; give read_bandwidth of a described system"
    if kind == METADATA and not _opens(workload):
        return f"workload = {cut(workload)!r}: of small files, opening one is known"
    if kind == FIO and not _request(workload)[0] > 0:
        return f"workload = {cut(workload)!r}: no block size such as bs=4k"
    if kind == FIO and note.casefold().startswith("write"):
        return "the row asks for writing; reading is predicted"
    if kind == MLPERF and np.isnan(_demand(kind, workload, accelerator)[0]):
        return f"no step of workload {cut(workload)!r} on accelerator {cut(accelerator)!r} is known"
    return ""
