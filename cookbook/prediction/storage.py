"""Predictions for rows of storage benchmarks: utilisation, samples a second, rates of object stores and drives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.formulas import input_pipeline, storage_rates
from cookbook.prediction.engine import estimate
from cookbook.prediction.parsing.drives import Fed, processor_of
from cookbook.prediction.parsing.networks import square_image
from cookbook.prediction.parsing.storage import (
    CHAINS,
    DECODE,
    FIO,
    METADATA,
    MLPERF,
    OBJECT_STORE,
    START,
    TRAINING,
    WEIGHTS,
    StorageRows,
    storage_rows,
    unknown_columns,
)
from cookbook.prediction.parsing.words import stack
from cookbook.prediction.scenario import scenario
from cookbook.workloads import zoo

COLUMNS = ("samples_per_s", "accelerator_utilisation", "read_GBps", "iops", "latency_us")
DESCRIBED, WORKLOAD, DATASHEET = "system described", "workload measured", "datasheet only"
# Below this bar the benchmark itself says that hosts, not storage, decide.
STORAGE_BOUND = 0.9
LEVELS = (80, 90)
ENDS = tuple(f"{end}{level}" for level in LEVELS for end in ("low", "high"))
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
    ends : dict of str to numpy.ndarray
        Ends of intervals that whole chains have of their own, SI; NaN for other kinds.
    assumed : numpy.ndarray of str
        What was taken for fields of whole chains that the words leave open.
    """

    samples_per_s: np.ndarray
    utilisation: np.ndarray
    read_rate: np.ndarray
    iops: np.ndarray
    latency: np.ndarray
    described: np.ndarray
    limited: np.ndarray
    ends: dict[str, np.ndarray]
    assumed: np.ndarray


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
        network, instance = downloads(rows, known)
        chained, ends, machine, assumed = chains(rows, network, known)
        samples = np.select([rows.kind == DECODE, np.isin(rows.kind, CHAINS)], [decoded, chained], trained)
        drive = (
            storage_rates.tier_rate(_or_one(rows.request), _or_one(rows.drive), _or_one(rows.drive_iops), 1, 0)
            * rows.drives
        )
        drive = np.where(np.isnan(rows.drive + rows.drive_iops + rows.request), np.nan, drive)
        weights = rows.kind == WEIGHTS
        read = np.select(
            [rows.kind == OBJECT_STORE, rows.kind == FIO, weights],
            [network, drive, chained],
            samples * rows.sample_bytes,
        )
        basis = np.select(
            [rows.kind == MLPERF, rows.kind == DECODE, rows.kind == OBJECT_STORE],
            [described, processor, instance],
            machine,
        )
        latency = np.select([rows.kind == METADATA, rows.kind == START], [rows.latency, chained], np.nan)
        samples = np.where(weights | (rows.kind == START), np.nan, samples)
        return Found(
            samples,
            utilisation,
            np.where(rows.kind == DECODE, np.nan, read),
            np.where(rows.kind == FIO, drive / rows.request, np.nan),
            latency,
            basis,
            limited,
            ends,
            assumed,
        )


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
        np.where(usable, rows.step, 1.0),
        np.where(usable, rows.batch, 1.0),
        np.where(usable, rate / demand, 1.0),
        known["step_overhead"],
        known["buffer"],
        1.0,
    )
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
    wanted = np.isin(rows.kind, (OBJECT_STORE, *CHAINS))
    if not np.any(wanted):
        return np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
    words = {
        name.partition("/")[2].replace("-", " "): value for name, value in known.items() if name.startswith("network/")
    }
    word = _looked_up(rows.network_class, words) * rows.processors ** known["network_size"]
    network = np.where(np.isnan(rows.network), word, known["network_share"] * rows.network)
    software = np.where(np.isnan(rows.processors), np.inf, known["processor_rate"] * rows.processors)
    network = np.where(np.isnan(network), known["usual_download"], network)
    found = np.minimum(np.minimum(network, software), known["client_rate"])
    return np.where(wanted, found, np.nan), wanted & np.isfinite(rows.network)


class _Chain(NamedTuple):
    """One loader, run or load: its kind and words, and figures that are NaN where nothing is stated."""

    kind: str
    fed: Fed
    network: float
    size: float
    devices: float
    hosts: float
    batch: float
    workers: float


def chains(
    rows: StorageRows, network: np.ndarray, known: Mapping[str, Any]
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """What loaders and runs on real data hand on [1/s], how fast weights are read [B/s] or an engine starts [s].

    With the ends of intervals, whether the machine is stated, and what was taken for what is not. The slowest stage
    decides, at each end of the interval too; where no machine is stated, the servers of the catalogue stand for it,
    and their range counts.
    """
    found, seen = np.full((1 + len(ENDS), len(rows)), np.nan), dict[str, tuple[list[float], str]]()
    assumed, stated = np.full(len(rows), "", dtype=object), np.zeros(len(rows), dtype=bool)
    counts = np.array([network, rows.sample_bytes, rows.accelerators, rows.hosts, rows.batch, rows.workers])
    for at in np.flatnonzero(np.isin(rows.kind, CHAINS)).tolist():
        one = _Chain(str(rows.kind[at]), rows.fed[at], *counts[:, at].tolist())
        key = str(one)
        if key not in seen:
            weights = one.kind in (WEIGHTS, START)
            seen[key] = (_weights(one, known) if weights else _samples(one, known)), _taken(one, weights, known)
        found[:, at], assumed[at] = seen[key]
        stated[at] = one.fed.cores > 0 and (one.fed.least == one.fed.most or one.fed.store == "object")
    return found[0], dict(zip(ENDS, found[1:], strict=True)), stated, assumed


def _taken(one: _Chain, weights: bool, known: Mapping[str, Any]) -> str:
    """What is taken for fields that the words leave open."""
    told = {
        "machine any server of the catalogue": not weights and not one.fed.cores > 0,
        "storage fast enough": not weights and not one.fed.store,
        "volume any kind of flash": one.fed.least < one.fed.most,
        "as many readers as it takes": weights and not one.workers > 0 and not one.fed.readers > 0,
        f"engine_start {known['engine_start']:g} s": one.kind == START,
        f"batch {known['training_batch']:g}": one.kind == TRAINING and not one.batch > 0,
    }
    return "; ".join(words for words, holds in told.items() if holds)


def _reads(one: _Chain, readers: float, known: Mapping[str, Any]) -> list[float]:
    """Least, middle and most [B/s] that so many readers get; infinite where nothing is known."""
    fed = one.fed
    each = {"object": "connection_rate", "volume": "volume_reader_rate"}.get(fed.store, "page_cache_rate")
    stored = [one.network] * 3 if fed.store == "object" else [fed.least, fed.middle, fed.most]
    return [float(np.fmin(np.fmin(rate, readers * known[each]), np.inf)) for rate in stored]


def _weights(one: _Chain, known: Mapping[str, Any]) -> list[float]:
    """Rate at which weights are read, or the time until an engine is ready, with its intervals; NaN where unknown.

    Where readers are not stated there may be one, which bounds the interval.
    """
    asked = one.workers if one.workers > 0 else one.fed.readers
    few, many = (asked, asked) if asked > 0 else (1.0, np.inf)
    least, middle, most = _reads(one, few, known)[0], *_reads(one, many, known)[1:]
    if not np.isfinite(middle):
        return [np.nan] * (1 + len(ENDS))
    wide = [known[f"interval/{OBJECT_STORE}/{level}"] ** known["interval/undescribed"] for level in LEVELS]
    found = [middle, *(end for reach in wide for end in (least / reach, most * reach))]
    if one.kind == WEIGHTS:
        return found
    usual = [known[f"interval/other/{level}"] ** sign for level in LEVELS for sign in (-1, 1)]
    slow = [found[at] for at in (0, 2, 1, 4, 3)]
    return [one.size / rate + known["engine_start"] * reach for rate, reach in zip(slow, [1.0, *usual], strict=True)]


def _samples(one: _Chain, known: Mapping[str, Any]) -> list[float]:
    """Samples a second of a loader or of a run on real data, with its intervals; NaN where no network is named."""
    trains, model = one.kind == TRAINING, one.fed.model
    if trains and not model:
        return [np.nan] * (1 + len(ENDS))
    names, devices, *host = _machines(one.fed)
    devices = np.array([one.devices]) if one.devices > 0 else devices if trains else np.ones(1)
    steps = np.full((1 + len(ENDS), 1), np.inf)
    if trains:
        names, devices = np.broadcast_arrays(names, devices)
        batch = one.batch if one.batch > 0 else known["training_batch"]
        steps = _step_rates(one.fed, tuple(names.tolist()), tuple(devices.tolist()), batch)
    images = not model or zoo.model(model).data_kind == "images"
    decoded = _host_rate(one, host, devices, known) if images else np.full(1, np.inf)
    reads, found = _reads(one, np.inf, known), []
    for at, end in enumerate(("", *ENDS)):
        level, sign = int(end[-2:] or LEVELS[0]), {"": 0, "low": -1, "high": 1}[end[:-2]]
        core, remote = (
            known[f"interval/{name}/{level}"] ** (sign * known["interval/undescribed"])
            for name in (DECODE, OBJECT_STORE)
        )
        stored = reads[1 + sign] / one.size * remote if one.size > 0 else np.inf
        slowest = np.minimum(np.minimum(decoded * core, stored), steps[at])
        slowest = slowest[np.isfinite(slowest)]
        found.append(float(np.quantile(slowest, 0.5 + sign * level / 200)) if len(slowest) else np.nan)
    return found


@lru_cache(maxsize=256)
def _machines(one: Fed) -> tuple[Any, ...]:
    """Accelerators, their number, cores, speeds and threads of the machine, or of all servers that it could be."""
    rows = catalog.table("systems")
    rows = rows[rows["accelerator_key"].ne("") & (rows["devices"] > 0) & (rows["cores"].gt(0) | rows["vcpus"].gt(0))]
    named = rows["key"].eq(one.server) if one.server else rows["devices"].eq(rows["devices"].mode().iloc[0])
    like = rows["accelerator_key"].eq(one.accelerator) & rows["devices"].ge(1)
    rows = rows[like] if not one.server and like.any() else rows[named]
    speed, threads = np.array([processor_of("", cpu) for cpu in rows["cpu"]]).reshape(-1, 2).T
    threads = np.where(np.isnan(threads), 2.0, threads)
    cores = rows["cores"].fillna(rows["vcpus"] / threads).to_numpy(dtype=float)
    names = rows["accelerator_key"].to_numpy() if not one.accelerator else np.array([one.accelerator])
    count = rows["devices"].to_numpy(dtype=float)
    if one.cores > 0:
        cores, speed, threads = np.array([one.cores]), np.array([one.speed]), np.array([one.threads])
    return names, count if len(count) else np.ones(1), cores, speed, threads


def _host_rate(one: _Chain, host: list[np.ndarray], devices: np.ndarray, known: Mapping[str, Any]) -> np.ndarray:
    """Samples a second that all cores of the hosts decode, crop and hand over.

    Images of ImageNet are as large as those of the decoding benchmark, 4 to 3, or as their stored side says.
    """
    (cores, speed, threads), fed = host, one.fed
    cores = cores * one.hosts
    core = known["core_rate"] * np.where(np.isnan(speed), known["usual_speed"], speed)
    threads = np.where(np.isnan(threads), 2.0, threads)
    side = fed.side if fed.side > 0 else known["crop_side"]
    share = np.fmin(1.0, 3 * fed.stored_side**2 * 3 / 4 / known["benchmark_image_bytes"])
    single = core / (fed.jpeg * share + known["crop_work"])
    asked = np.minimum(one.workers * devices if one.workers > 0 else np.inf, cores * threads)
    real = input_pipeline.working_threads(asked, cores, known["second_thread"])
    reference = core * known["benchmark_image_bytes"] / (3 * side**2)
    each = loader_rate(np.maximum(real / devices, 1), single, reference, threads, known) * devices
    return np.asarray(real * single if fed.pooled else each)


@lru_cache(maxsize=256)
def _step_rates(one: Fed, names: tuple[str, ...], devices: tuple[float, ...], batch: float) -> np.ndarray:
    """Samples a second of all accelerators and their intervals, one column a machine, without input."""
    found = estimate(
        scenario(
            "training_classic",
            {
                "model": one.model,
                "network_arguments": square_image(one.model, round(one.side)) if one.side > 0 else "",
                "accelerator": list(names),
                "devices": list(devices),
                "batch": batch,
                "software": [stack("classic", one.software, name) if one.software else "" for name in names],
                "precision": one.precision,
            },
        )
    )
    ends = [getattr(found, f"{end}{level}") for level in LEVELS for end in ("high", "low")]
    return np.array([batch * np.array(devices) / time for time in (found.point, *ends)])


def storage_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Predictions with intervals for a table of scenarios, in the form of `python -m cookbook predict`."""
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
    table["assumed"] = np.where(good, np.where(found.assumed == "", rows.assumed, found.assumed), "")
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
    sizes = np.where(rows.kind == WEIGHTS, 1.0, rows.sample_bytes)
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
    whole, scale = np.isin(rows.kind, CHAINS), rows.factor * np.where(rows.figure == 2, sizes, 1)
    return {
        name: np.where(whole, np.where(np.isnan(point), np.nan, found.ends[name] * scale), each)
        for name, each in ends.items()
    }


def tiers(rows: StorageRows, found: Found) -> np.ndarray:
    """How well each row is described: by drive, processor or network; by its kind alone; by a stand-in."""
    stands_in = rows.estimated | found.limited | (rows.kind == FIO) | (rows.kind == METADATA)
    names = np.array([WORKLOAD, DATASHEET, DESCRIBED], dtype=object)
    return names[np.where(found.described & ~rows.estimated, 2, np.where(stands_in, 1, 0))]


__all__ = [
    "BLOCK",
    "COLUMNS",
    "LEVELS",
    "STORAGE_BOUND",
    "Found",
    "committed",
    "decoding",
    "downloads",
    "loader_rate",
    "predict_rows",
    "storage_table",
    "tiers",
    "unknown_columns",
]
