"""Predictions for rows of storage benchmarks: utilisation, samples a second, rates of object stores and drives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, units
from cookbook.performance import input_pipeline, storage_rates
from cookbook.prediction.intake.storage import (
    DECODE,
    FIO,
    METADATA,
    MLPERF,
    OBJECT_STORE,
    StorageRows,
    storage_rows,
    unknown_columns,
)

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("samples_per_s", "accelerator_utilisation", "read_GBps", "iops", "latency_us")
DESCRIBED, WORKLOAD, DATASHEET = "system described", "workload measured", "datasheet only"
# Below this bar the benchmark itself says that hosts, not storage, decide.
STORAGE_BOUND = 0.9
LEVELS = (80, 90)
NOTHING = "the words do not say on what it ran: no network, drive or workers that is known"
# Rows that are predicted at once; more of them are predicted in so many parts, to bound the memory.
BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class Found:
    """What is predicted for rows of storage benchmarks; NaN where the kind has no such figure.

    Attributes
    ----------
    samples_per_s, utilisation, read_rate, iops, latency : numpy.ndarray
        Rate of all accelerators or workers [1/s], utilisation, read rate [B/s], operations a second, latency [s].
    described : numpy.ndarray of bool
        Whether a drive, processor or network of the catalogue carries the prediction.
    limited : numpy.ndarray of bool
        Whether the most that hosts or links carry decides, which says no more than that it is not above.
    """

    samples_per_s: np.ndarray
    utilisation: np.ndarray
    read_rate: np.ndarray
    iops: np.ndarray
    latency: np.ndarray
    described: np.ndarray
    limited: np.ndarray


@lru_cache(maxsize=1)
def committed() -> Mapping[str, float]:
    """The constants of the table ``pipeline_constants``, in SI."""
    rows = catalog.table("pipeline_constants")
    cells = zip(rows["name"], rows["value"], rows["unit"], strict=True)
    return {name: units.si(f"{value!r} {unit}") if unit else float(value) for name, value, unit in cells}


def predict_rows(rows: StorageRows, constants: Mapping[str, Any] | None = None) -> Found:
    """Predict rows of storage benchmarks."""
    known = committed() if constants is None else constants
    with np.errstate(all="ignore"):
        utilisation, described, limited = _utilisation(rows, known)
        trained = rows.accelerators * rows.batch / rows.step * utilisation * known["counted_share"]
        decoded, processor = decoding(rows, known)
        samples = np.where(rows.kind == DECODE, decoded, trained)
        network, instance = downloads(rows, known)
        drive = storage_rates.tier_rate(
            _or_one(rows.request), _or_one(rows.drive), _or_one(rows.drive_iops), 1, 0) * rows.drives  # fmt: skip
        drive = np.where(np.isnan(rows.drive + rows.drive_iops + rows.request), np.nan, drive)
        read = np.select([rows.kind == MLPERF, rows.kind == OBJECT_STORE, rows.kind == FIO],
                         [trained * rows.sample_bytes, network, drive], np.nan)  # fmt: skip
        basis = np.select([rows.kind == MLPERF, rows.kind == DECODE, rows.kind == OBJECT_STORE],
                          [described, processor, instance], False)  # fmt: skip
        return Found(samples, utilisation, read, np.where(rows.kind == FIO, drive / rows.request, np.nan),
                     np.where(rows.kind == METADATA, rows.latency, np.nan), basis, limited)  # fmt: skip


def _or_one(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1.0)


def _utilisation(rows: StorageRows, known: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Utilisation in MLPerf Storage, whether the drive decides it, and whether the most that hosts and links carry.

    A described drive gives the utilisation of the chain. A row in the form of a published run, or one that says nothing
    about its storage, is taken for a run that keeps the required utilisation: submitters add accelerators until it does
    not, and where nothing is said the rest above shrinks with accelerators a host and with hosts that wait for each
    other; it is not below what the least of all storage would give, which counts where the demand is tiny. No row is
    above what its drives, links and hosts carry, whatever the benchmark requires.
    """
    usable = (rows.kind == MLPERF) & (rows.why == "")
    if not usable.any():
        return np.full(len(rows), np.nan), usable, usable
    bar = np.where(np.isnan(rows.required), STORAGE_BOUND, rows.required)
    each = rows.accelerators / rows.hosts
    room = np.clip(known["room"] * rows.hosts ** -known["room_hosts"] * each ** -known["room_devices"], 0, 1)
    usual = bar + (1 - bar) * np.where(bar < STORAGE_BOUND, known["room_host_bound"], room)
    named = usable & (rows.drive > 0)
    described = named & (bar >= STORAGE_BOUND)
    expected, most = _supply(rows, rows.drive, known), _supply(rows, rows.drive_most, known)
    rate = np.where(described, expected, known["least_host_rate"] * rows.hosts)
    demand = np.where(usable, rows.accelerators * rows.sample_bytes, 1.0)
    chain = input_pipeline.accelerator_utilisation(
        np.where(usable, rows.step, 1.0), np.where(usable, rows.batch, 1.0), np.where(usable, rate / demand, 1.0),
        known["step_overhead"], known["buffer"], 1.0,
    )  # fmt: skip
    kept = np.where(rows.submitted, np.maximum(chain, bar), chain)
    found = np.where(described, kept, np.fmax(usual, chain))
    ceiling = most * rows.step / rows.batch / demand
    limited = usable & ~named & (ceiling < found)
    return np.where(usable, np.minimum(found, ceiling), np.nan), described, limited


def _supply(rows: StorageRows, drive: np.ndarray, known: Mapping[str, Any]) -> np.ndarray:
    """Bytes a second that drives of such a bandwidth, links and hosts carry; what is not known does not limit."""
    operations = np.where(rows.own_file > 0, rows.drive_iops * rows.sample_bytes, np.inf)
    drives = rows.drives * np.fmin(np.where(drive > 0, drive, np.inf), operations)
    port = np.where(np.isfinite(rows.line), np.inf, known["host_network"])
    host = np.minimum(np.where(rows.local > 0, known["host_bus"], port), rows.client)
    return np.minimum(np.minimum(drives, rows.line), rows.hosts * np.minimum(host, known["host_bus"]))


def decoding(rows: StorageRows, known: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Decoded samples a second, and whether processor and decoder are known."""
    if not np.any(rows.kind == DECODE):
        return np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
    decoders = {name.partition("/")[2]: value for name, value in known.items() if name.startswith("decoder/")}
    middle = float(np.exp(np.mean(np.log(list(decoders.values()) or [1.0]))))
    factor = _looked_up(rows.decoder, decoders)
    speed = np.where(np.isnan(rows.speed), known["usual_speed"], rows.speed)
    reference = known["core_rate"] * speed
    single = reference * np.where(np.isnan(factor), middle, factor)
    found = loader_rate(rows.workers, single, reference, rows.threads, known)
    usable = (rows.kind == DECODE) & np.isfinite(rows.workers)
    return np.where(usable, found, np.nan), usable & np.isfinite(factor) & np.isfinite(rows.speed)


def _looked_up(words: np.ndarray, figures: Mapping[str, float]) -> np.ndarray:
    """The figure of each word; NaN where there is none."""
    import pandas as pd

    codes, distinct = pd.factorize(words)
    return np.array([*(figures.get(word, np.nan) for word in distinct), np.nan])[codes]


def loader_rate(
    workers: np.ndarray, single: np.ndarray, reference: np.ndarray, threads: np.ndarray, known: Mapping[str, Any]
) -> np.ndarray:
    """Samples a second of loader processes, with less collation where threads share cores."""
    collation = known["collation"] * np.where(threads > 1, known["collation_two_threads"], 1.0)
    count = np.where(np.isnan(workers), 0, workers)
    return input_pipeline.decode_rate(count, single, reference, known["handover"], collation, known["sharpness"])


def downloads(rows: StorageRows, known: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Rate of parallel downloads to an instance [B/s], and whether its network is stated as a figure."""
    if not np.any(rows.kind == OBJECT_STORE):
        return np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
    words = {name.partition("/")[2].replace("-", " "): value for name, value in known.items()
             if name.startswith("network/")}  # fmt: skip
    word = _looked_up(rows.network_class, words) * rows.processors ** known["network_size"]
    network = np.where(np.isnan(rows.network), word, known["network_share"] * rows.network)
    software = np.where(np.isnan(rows.processors), np.inf, known["processor_rate"] * rows.processors)
    network = np.where(np.isnan(network), known["usual_download"], network)
    found = np.minimum(np.minimum(network, software), known["client_rate"])
    return np.where(rows.kind == OBJECT_STORE, found, np.nan), (rows.kind == OBJECT_STORE) & np.isfinite(rows.network)


def storage_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Predictions with intervals for a table of scenarios, in the form of `python -m cookbook predict`."""
    import pandas as pd

    if len(frame) > BLOCK:
        blocks = [storage_table(frame.iloc[at : at + BLOCK]) for at in range(0, len(frame), BLOCK)]
        return pd.concat(blocks, ignore_index=True)
    rows = storage_rows(frame)
    found, known = predict_rows(rows), committed()
    values = np.array([found.samples_per_s, found.utilisation, found.read_rate, found.iops, found.latency])
    main = values[rows.figure, np.arange(len(rows))] * rows.factor
    good = (rows.why == "") & np.isfinite(main) & (main > 0)
    table: dict[str, Any] = {"predicted": np.where(good, main, np.nan), "unit": rows.unit}
    tier = tiers(rows, found)
    table |= _intervals(rows, found, table["predicted"], tier, known)
    table |= {"tier": np.where(good, tier, ""), "why": np.where(good | (rows.why != ""), rows.why, NOTHING)}
    table["assumed"] = np.where(good, rows.assumed, "")
    scale = np.array([1, 1, 1e-9, 1, 1e6])[:, None]
    table |= dict(zip(COLUMNS, np.where(good, values * scale, np.nan), strict=True))
    return pd.DataFrame(table)


def _intervals(
    rows: StorageRows, found: Found, point: np.ndarray, tier: np.ndarray, known: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Intervals by kind, wider where the system is not described; never above accelerators that do not wait.

    The bandwidth of a drive bounds the point alone: drives have been seen to read a tenth more than is stated.
    """
    ends: dict[str, np.ndarray] = {}
    mlperf = rows.kind == MLPERF
    with np.errstate(all="ignore"):
        most = np.where(mlperf, 1 / (found.utilisation * np.where(rows.figure == 1, 1, known["counted_share"])), np.inf)
    usual = (tier == DESCRIBED) | (rows.kind == FIO) | (rows.kind == METADATA)
    unnamed = mlperf & ~usual & ~rows.submitted & ~(rows.drive > 0)
    for level in LEVELS:
        reach = np.full(len(rows), known[f"interval/other/{level}"])
        for kind in (MLPERF, DECODE, OBJECT_STORE):
            at = (rows.kind == kind) & ~found.limited
            reach[at] = known[f"interval/{kind}/{level}"]
        reach = np.where(usual, reach, reach ** known["interval/undescribed"])
        reach = np.where(unnamed, np.maximum(reach, known[f"interval/unnamed/{level}"]), reach)
        reach = np.where(rows.estimated, np.maximum(reach, known[f"interval/stand-in/{level}"]), reach)
        ends |= {f"low{level}": point / reach, f"high{level}": point * np.minimum(reach, np.fmax(most, 1))}
    return ends


def tiers(rows: StorageRows, found: Found) -> np.ndarray:
    """How well each row is described: by drive, processor or network; by its kind alone; by a stand-in."""
    stands_in = rows.estimated | found.limited | (rows.kind == FIO) | (rows.kind == METADATA)
    names = np.array([WORKLOAD, DATASHEET, DESCRIBED], dtype=object)
    return names[np.where(found.described & ~rows.estimated, 2, np.where(stands_in, 1, 0))]


__all__ = [
    "BLOCK", "COLUMNS", "LEVELS", "STORAGE_BOUND", "Found", "committed", "decoding", "downloads", "loader_rate",
    "predict_rows", "storage_table", "tiers", "unknown_columns",
]  # fmt: skip
