"""Predictions for reports about storage: utilisation, samples per second, rates of object stores and drives, latencies.

A report becomes a scenario of an input pipeline (`cookbook.prediction.parsing.storage`); what it says nothing of does
not limit the chain, and what was measured is an outcome of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.refusals import Refusal
from cookbook.prediction.engine import estimate
from cookbook.prediction.kinds.input_pipeline import (
    DATASHEET,
    DESCRIBED,
    LEVELS,
    UNLIMITED,
    WORKLOAD,
    trained,
)
from cookbook.prediction.kinds.input_pipeline_arguments import MORE_HOSTS, committed, first_reason
from cookbook.prediction.parsing.drives import NamedChain, NamedSystem, processor_of
from cookbook.prediction.parsing.networks import square_image
from cookbook.prediction.parsing.storage import (
    CHAINS,
    DECODE,
    FIO,
    LOADER,
    METADATA,
    MLPERF,
    OBJECT_STORE,
    START,
    TRAINING,
    WEIGHTS,
    read,
)
from cookbook.prediction.parsing.tables import machine_of
from cookbook.prediction.parsing.words import stack
from cookbook.prediction.scenario import Coded, Rows, Scenario, each_row, scenario, together
from cookbook.workloads import zoo

COLUMNS = ("samples_per_s", "accelerator_utilisation", "read_GBps", "iops", "latency_us")
OUTCOMES = ("samples_per_s", "utilisation", "read_rate", "iops", "latency")
# Below this bar the benchmark itself says that hosts, not storage, decide.
STORAGE_BOUND = 0.9
# The point and the ends of its intervals: on which side of the point they are, and their levels.
ENDS = ("", *(f"{end}{level}" for level in LEVELS for end in ("low", "high")))
SIDES, LEVEL_OF = np.array([0, -1, 1, -1, 1]), (LEVELS[0], *np.repeat(LEVELS, 2).tolist())
# Ends of a time, from those of the rate that it follows from.
SLOWER = [0, 2, 1, 4, 3]
NOTHING = Refusal("the words do not say on what it ran: no network, drive or workers that is known")
NO_ACCELERATORS = Refusal("accelerators: give how many are emulated, 1 or more", "value-not-allowed", "accelerators")
STORE = NamedSystem._fields[:-1]
BENCHMARK = ("step", "batch", "sample_bytes", "required", "own_file", "guessed")
# Rows that are predicted at once; more are predicted in parts, to bound the memory.
BLOCK = 1 << 18

Known = Mapping[str, Any]
Outcomes = dict[str, Any]


class ReportRows(Rows):
    """Reports about storage: benchmarks, decoders, downloads, drives, and runs that read their data."""

    # What is asked for.
    outcome: np.ndarray  # position in `OUTCOMES` of the figure that is asked for (integer)
    factor: np.ndarray  # factor from SI to the unit in which it is asked for [-]
    # Run.
    accelerators: np.ndarray  # accelerators in all, emulated or real; NaN where not stated [-]
    hosts: np.ndarray  # client hosts; 1 where not stated [-]
    batch: np.ndarray  # samples of one accelerator in one step; NaN where neither stated nor of a benchmark [-]
    sample_bytes: np.ndarray  # mean bytes of one stored sample, or of all weights that are read; NaN: not known [B]
    workers: np.ndarray  # loader processes of one accelerator, or readers of weights; 0: one thread, or not stated [-]
    # Benchmark MLPerf Storage; NaN for other reports.
    step: np.ndarray  # emulated computation of one step of one accelerator, in proportion to the batch [s]
    required: np.ndarray  # utilisation that a valid run must keep [-]
    own_file: np.ndarray  # 1 where each sample is a file of its own, else 0; 0 for other reports
    submitted: np.ndarray  # 1 where the words have the form of a published run, else 0 (bool)
    # Storage; figures are NaN where not known.
    drive: np.ndarray  # read bandwidth of one drive or store: first of the catalogue, or a lower stated one [B/s]
    drive_most: np.ndarray  # most that any row of the catalogue states for it, or a lower stated rate [B/s]
    drive_iops: np.ndarray  # read operations a second of one drive or store [1/s]
    drives: np.ndarray  # drives or stores, of all hosts together [-]
    local: np.ndarray  # 1 for drives inside the hosts, 0 for shared storage
    line: np.ndarray  # all network links together, the least that the words name; infinite where they name none [B/s]
    client: np.ndarray  # most that one host reads of the store; infinite where not known [B/s]
    request: np.ndarray  # bytes of one read, where the words state them (bs=4k); NaN where not [B]
    latency: np.ndarray  # time in which a small file is opened; NaN for other reports [s]
    # Processor of a decoding benchmark; NaN for other reports.
    speed: np.ndarray  # single-thread speed, in points of PassMark; NaN where the processor is not known [-]
    threads: np.ndarray  # threads of a core; NaN where the processor is not known [-]
    # Cloud instance that downloads or trains; NaN for other reports.
    instance: np.ndarray  # network of the instance; NaN where no number is stated [B/s]
    processors: np.ndarray  # virtual processors of the instance; NaN where not known [-]
    # Evidence.
    estimated: np.ndarray  # 1 where something stands in for what is not known, else 0 (bool)


def resolve(reports: Scenario) -> ReportRows:
    """Return reports as numbers in SI, one entry per row: NaN where a number is not known or not of what was measured.

    Beside the columns of the scenario: ``step``, ``required`` and ``own_file`` (whether each sample is a file of its
    own) of the benchmark; ``drive``, ``drive_most`` (the most that the catalogue states for it), ``drive_iops``,
    ``drives`` in all, ``local``, ``line`` (all links together) and ``client``; ``speed`` and ``threads``; ``instance``
    [B/s] and its virtual ``processors``; ``outcome`` (its position in `OUTCOMES`) and ``factor``; ``submitted`` (in the
    form of a published run) and ``estimated`` (something stands in for what is not known).
    """
    report, size = reports.words("report"), len(reports)
    bench = dict(zip(BENCHMARK, map(reports.words("benchmark").part, range(len(BENCHMARK))), strict=True))
    named, chip, instance = reports.words("named"), reports.words("chip"), reports.words("instance")
    batch, stated = reports.number("batch"), reports.number("sample_bytes")
    hosts = np.where(np.isnan(reports.number("hosts")), 1.0, reports.number("hosts"))
    own = np.where(np.isnan(batch), bench["batch"], batch)
    accelerators, speed, network = reports.number("accelerators"), chip.part(0), instance.part(0)
    store = {name: named.part(at) for at, name in enumerate(STORE)}
    emulates, unworded = report.where(MLPERF.__eq__), instance.where(lambda entry: entry[2] == "")
    values = {
        "accelerators": accelerators,
        "hosts": hosts,
        "step": bench["step"] * np.where(bench["batch"] > 0, own / bench["batch"], 1),
        "batch": own,
        "sample_bytes": np.where(np.isnan(stated), bench["sample_bytes"], stated),
        "required": bench["required"],
        "own_file": bench["own_file"],
        "drive": store["rate"],
        "drive_most": store["most"],
        "drive_iops": store["iops"],
        "drives": store["number"] * np.where(store["in_each_host"] > 0, hosts, 1),
        "local": store["local"],
        "line": store["line"],
        "client": store["client"],
        "submitted": store["submitted"] > 0,
        "request": reports.words("request").each(float),
        "workers": reports.number("workers"),
        "speed": speed,
        "threads": chip.part(1),
        "instance": network,
        "processors": instance.part(1),
        "latency": reports.words("open").each(float),
        "estimated": (bench["guessed"] > 0)
        | (store["stands_in"] > 0)
        | (report.where(DECODE.__eq__) & np.isnan(speed))
        | (report.where(OBJECT_STORE.__eq__) & unworded & np.isnan(network)),
        "outcome": reports.words("requested").each(lambda entry: entry[0], int),
        "factor": reports.words("requested").part(1),
    }
    keys = {name: reports.words(name) for name in ("report", "chain", "decoder")}
    keys["network_class"] = instance.map(lambda entry: entry[2]).compact()
    refused = [
        (emulates & np.isnan(accelerators), NO_ACCELERATORS),
        (emulates & (hosts > accelerators), MORE_HOSTS, hosts, accelerators),
    ]
    return ReportRows(
        {name: each_row(value, size) for name, value in values.items()},
        first_reason(reports.why, refused),
        {name: Coded(each_row(key.codes, size), key.levels) for name, key in keys.items()},
    )


def predict_rows(rows: ReportRows, constants: Known | None = None) -> Outcomes:
    """Predict rows of reports about storage.

    Parameters
    ----------
    rows : ReportRows
        From `resolve`.
    constants : mapping, optional
        Constants of the table ``pipeline_constants``, the committed ones by default.

    Returns
    -------
    dict of str to numpy.ndarray
        ``samples_per_s`` of all accelerators or workers [1/s], ``utilisation``, ``read_rate`` [B/s], ``iops``,
        ``latency`` [s]: NaN where the report has no such outcome. ``described``: whether a drive, processor or network
        of the catalogue carries the prediction. ``limited``: whether the most that hosts or links carry decides, which
        says no more than that it is not above. ``low80`` to ``high90``: ends of intervals that whole chains have of
        their own. ``assumed``: what was taken for fields of whole chains that the words leave open.
    """
    constants, size = committed() if constants is None else constants, len(rows)
    table: Outcomes = {name: np.full(size, np.nan) for name in (*OUTCOMES, *ENDS[1:])}
    table |= {name: np.zeros(size, dtype=bool) for name in ("described", "limited")}
    table["assumed"] = np.full(size, "", dtype=object)
    for reports, predict in PREDICTED:
        at = np.flatnonzero(rows.keys["report"].where(reports.__contains__) & (rows.why == ""))
        if len(at):
            with np.errstate(all="ignore"):
                outcomes = predict(rows if len(at) == size else rows.take(at), constants)
            for name, values in outcomes.items():
                table[name][at] = values
    return table


def utilised(rows: ReportRows, constants: Known) -> Outcomes:
    """Return outcomes of MLPerf Storage.

    A described drive gives the utilisation of the chain. A row in the form of a published run, or one that says nothing
    about its storage, is taken for a run that keeps the required utilisation: submitters add accelerators until it does
    not, and where nothing is stated the rest above shrinks with accelerators a host and with hosts that wait for each
    other; it is not below what the least of all storage would give, which counts where the demand is tiny. No row is
    above what its drives, links and hosts carry, whatever the benchmark requires.
    """
    bar = np.where(np.isnan(rows.required), STORAGE_BOUND, rows.required)
    per_host = rows.accelerators / rows.hosts
    rest = np.clip(
        constants["room"] * rows.hosts ** -constants["room_hosts"] * per_host ** -constants["room_devices"], 0, 1
    )
    usual = bar + (1 - bar) * np.where(bar < STORAGE_BOUND, constants["room_host_bound"], rest)
    named = rows.drive > 0
    described = named & (bar >= STORAGE_BOUND)
    busy = rows.step / rows.batch / rows.accelerators
    rates = trained(_emulated(rows, described, constants), constants)
    chain, ceiling = rates["later"][0] * busy, rates["supply"][1] * busy
    bounded = np.where(rows.submitted, np.maximum(chain, bar), chain)
    expected = np.where(described, bounded, np.fmax(usual, chain))
    utilisation = np.minimum(expected, ceiling)
    samples = utilisation / busy * constants["counted_share"]
    return {
        "utilisation": utilisation,
        "samples_per_s": samples,
        "read_rate": samples * rows.sample_bytes,
        "described": described,
        "limited": ~named & (ceiling < expected),
    }


def _emulated(rows: ReportRows, described: np.ndarray, constants: Known) -> dict[str, Any]:
    """Return chains of emulated accelerators, on storage as it is expected to read, and at the most that it can."""
    port = np.where(np.isfinite(rows.line), np.inf, constants["host_network"])
    host = np.minimum(
        np.where(rows.local > 0, constants["host_bus"], port), np.minimum(rows.client, constants["host_bus"])
    )
    most = np.where(rows.drive_most > 0, rows.drive_most, np.inf)
    expected = np.where(described, rows.drive, constants["least_host_rate"])
    operations, network = _unless_stated(rows.drive_iops), np.minimum(rows.line / rows.hosts, host)
    return {
        **UNLIMITED,
        "step": rows.step,
        "batch": rows.batch,
        "overhead": constants["step_overhead"],
        "accelerators": rows.accelerators,
        "hosts": rows.hosts,
        "stored": rows.sample_bytes,
        "small_files": rows.own_file,
        "bandwidth": np.array([expected, most]),
        "iops": np.array([np.where(described, operations, np.inf), operations]),
        "drives": np.array([np.where(described, rows.drives, rows.hosts), rows.drives]),
        "network": np.array([np.where(described, network, np.inf), network]),
        "prefetch": constants["buffer"],
    }


def _unless_stated(values: np.ndarray) -> np.ndarray:
    """Return values, infinite where they are unknown and NaN where there are none."""
    return np.where(np.isnan(values), np.inf, np.where(values > 0, values, np.nan))


def decoded(rows: ReportRows, constants: Known) -> Outcomes:
    """Return decoded samples per second of workers, and whether processor and decoder are known."""
    decoders = {name.partition("/")[2]: value for name, value in constants.items() if name.startswith("decoder/")}
    middle = float(np.exp(np.mean(np.log(list(decoders.values()) or [1.0]))))
    factor = rows.keys["decoder"].each(lambda word: decoders.get(word, np.nan))
    figures = {
        "workers": rows.workers,
        "work": 1 / np.where(np.isnan(factor), middle, factor),
        "decoded": constants["benchmark_image_bytes"],
        "speed": np.where(np.isnan(rows.speed), constants["usual_speed"], rows.speed),
        "threads": rows.threads,
    }
    rate = trained({**UNLIMITED, **figures}, constants)["later"]
    return {"samples_per_s": rate, "described": np.isfinite(rate) & np.isfinite(factor) & np.isfinite(rows.speed)}


def instance_network(rows: ReportRows, constants: Known) -> np.ndarray:
    """Return the rate of parallel downloads to an instance [B/s], by its network, its processors and one client."""
    words = {
        name.partition("/")[2].replace("-", " "): value
        for name, value in constants.items()
        if name.startswith("network/")
    }
    word = rows.keys["network_class"].each(lambda word: words.get(word, np.nan))
    network = np.where(
        np.isnan(rows.instance),
        word * rows.processors ** constants["network_size"],
        constants["network_share"] * rows.instance,
    )
    software = np.where(np.isnan(rows.processors), np.inf, constants["processor_rate"] * rows.processors)
    network = np.where(np.isnan(network), constants["usual_download"], network)
    return np.minimum(np.minimum(network, software), constants["client_rate"])


def downloaded(rows: ReportRows, constants: Known) -> Outcomes:
    """Return the rate of downloads from an object store, and whether the network of the instance is a stated number."""
    network = _unless_stated(instance_network(rows, constants))
    rate = trained({**UNLIMITED, "network": network}, constants)["later"]
    return {"read_rate": rate, "described": np.isfinite(rows.instance)}


def blocks_read(rows: ReportRows, constants: Known) -> Outcomes:
    """Return operations per second and read rate of drives that read blocks of one size."""
    figures = {
        "stored": _unless_stated(rows.request),
        "small_files": 1.0,
        "bandwidth": rows.drive,
        "iops": rows.drive_iops,
        "drives": rows.drives,
    }
    rate = trained({**UNLIMITED, **figures}, constants)["later"]
    return {"iops": rate, "read_rate": rate * rows.request}


def opened(rows: ReportRows, constants: Known) -> Outcomes:
    """Return the latency of opening a small file."""
    return {"latency": rows.latency}


def _reach(constants: Known, name: str, exponent: float = 1.0) -> np.ndarray:
    """Return the factor from the point to each end of an interval of the table, one row per end."""
    factors = [constants[f"interval/{name}/{level}"] ** exponent for level in LEVEL_OF]
    return np.array(factors)[:, None] ** SIDES[:, None]


def _store(rows: ReportRows, chain: Coded, constants: Known) -> tuple[np.ndarray, np.ndarray]:
    """Read rates of what a chain reads from, one row per end of its interval, and what one reader gets of it [B/s]."""
    remote = chain.where(lambda entry: entry.store == "object")
    stated = np.array([chain.figure(name) for name in ("least", "middle", "most")])[1 + SIDES]
    rate = np.where(remote, instance_network(rows, constants), stated)
    names = {"object": "connection_rate", "volume": "volume_reader_rate"}
    return _unless_stated(rate), chain.each(lambda entry: constants[names.get(entry.store, "page_cache_rate")])


def weights(rows: ReportRows, constants: Known) -> Outcomes:
    """Return the rate of reading weights, or the time until an engine is ready; NaN where no limit is known.

    Where readers are not stated there may be one, which bounds the interval.
    """
    chain = rows.keys["chain"]
    store, per_connection = _store(rows, chain, constants)
    readers = np.where(rows.workers > 0, rows.workers, chain.figure("readers"))
    readers = np.where(readers > 0, readers, np.where(SIDES < 0, 1.0, np.inf)[:, None])
    reach = _reach(constants, OBJECT_STORE, constants["interval/undescribed"])
    rates = trained({**UNLIMITED, "network": store * reach, "connection": readers * per_connection * reach}, constants)[
        "later"
    ]
    rates = np.where(np.isfinite(rates[0]), rates, np.nan)
    starts = rows.keys["report"].where(START.__eq__)
    seconds = rows.sample_bytes / rates[SLOWER] + constants["engine_start"] * _reach(constants, "other")
    values = np.where(starts, seconds, rates)
    point = {"latency": np.where(starts, values[0], np.nan), "read_rate": np.where(starts, np.nan, values[0])}
    return point | _of_chains(rows, values, constants)


def _of_chains(rows: ReportRows, ends: np.ndarray, constants: Known) -> Outcomes:
    """Return ends of intervals of whole chains, whether their machine is stated, and what was assumed."""
    chain = rows.keys["chain"]
    flags = (Coded(flag.astype(np.int64), (False, True)) for flag in (rows.workers > 0, rows.batch > 0))
    assumed = together(rows.keys["report"], chain, *flags).map(lambda entry: _assumed(constants, *entry))
    stated = chain.where(lambda entry: entry.cores > 0 and (entry.least == entry.most or entry.store == "object"))
    return dict(zip(ENDS[1:], ends[1:], strict=True)) | {"described": stated, "assumed": assumed.each(str, object)}


def _assumed(constants: Known, report: str, chain: NamedChain, workers: bool, batch: bool) -> str:
    """Return the values that are assumed for fields that the words leave open, as text."""
    weights = report in (WEIGHTS, START)
    assumed = {
        "machine any server of the catalogue": not weights and not chain.cores > 0,
        "storage fast enough": not weights and not chain.store,
        "volume any kind of flash": chain.least < chain.most,
        "as many readers as it takes": weights and not workers and not chain.readers > 0,
        f"engine_start {constants['engine_start']:g} s": report == START,
        f"batch {constants['training_batch']:g}": report == TRAINING and not batch,
    }
    return "; ".join(words for words, holds in assumed.items() if holds)


def loaded(rows: ReportRows, constants: Known) -> Outcomes:
    """Return samples per second of loaders and of runs on real data; NaN of runs whose network is not known.

    The slowest stage decides, at each end of the interval too; where no machine is stated, the servers of the catalogue
    represent it, and their range counts.
    """
    columns = ("sample_bytes", "accelerators", "hosts", "batch", "workers", "instance", "processors")
    keys = (rows.keys[name] for name in ("report", "chain", "network_class"))
    codes = together(*keys, *(_levels(rows.values[name]) for name in columns)).codes
    distinct = rows.take(np.unique(codes, return_index=True)[1])
    ends = _over_machines(distinct, constants)[:, codes]
    point = {"samples_per_s": ends[0], "read_rate": ends[0] * rows.sample_bytes}
    return point | _of_chains(rows, ends, constants)


def _levels(values: np.ndarray) -> Coded:
    """Return numbers as levels, one of which is none."""
    codes, levels = pd.factorize(values)
    return Coded(codes + 1, (np.nan, *levels.tolist()))


def _over_machines(rows: ReportRows, constants: Known) -> np.ndarray:
    """Return samples per second of each row and the ends of its interval, of all machines that it could be."""
    chain, trains = rows.keys["chain"], rows.keys["report"].where(TRAINING.__eq__)
    chains = [chain.levels[code] for code in chain.codes.tolist()]
    several = [run or not chain.cores > 0 for chain, run in zip(chains, trains, strict=True)]
    machines = [_machines(chain)[: None if many else 1] for chain, many in zip(chains, several, strict=True)]
    count = [len(group) for group in machines]
    at = np.repeat(np.arange(len(rows)), count)
    names, usual, *host = zip(*(machine for group in machines for machine in group), strict=True)
    stated, training = rows.accelerators[at], trains[at]
    devices = np.where(stated > 0, stated, np.where(training, usual, 1.0))
    batch = np.where(rows.batch > 0, rows.batch, constants["training_batch"])[at]
    step = np.zeros((len(ENDS), len(at)))
    if training.any():
        runs = zip(at.tolist(), names, devices.tolist(), batch.tolist(), strict=True)
        cases = tuple((chains[row], *numbers) for row, *numbers in runs if trains[row])
        step[:, training] = _step_seconds(cases)
    figures = _host(rows, host, devices, at, constants) | {
        "step": step[SLOWER],
        "batch": batch,
        "accelerators": devices,
    }
    core_rate = constants["core_rate"] * _reach(constants, DECODE, constants["interval/undescribed"])
    rates = trained({**UNLIMITED, **figures}, {**constants, "core_rate": core_rate})["later"]
    return np.transpose([_middle(part) for part in np.split(rates, np.cumsum(count)[:-1], axis=1)])


def _middle(rates: np.ndarray) -> list[float]:
    """Return the middle of the rates of several machines, and the ends of their range, one row per end."""
    if rates.shape[1] == 1:
        return [float(rate) for rate in rates[:, 0]]
    shares = [0.5 + side * level / 200 for side, level in zip(SIDES, LEVEL_OF, strict=True)]
    finite = [rate[np.isfinite(rate)] for rate in rates]
    return [float(np.quantile(rate, q)) if len(rate) else np.nan for rate, q in zip(finite, shares, strict=True)]


def _host(rows: ReportRows, host: list[Any], devices: np.ndarray, at: np.ndarray, constants: Known) -> dict[str, Any]:
    """Return numbers of storage and hosts of a chain, one entry per machine.

    All cores decode and crop where the number of processes is not stated. Images of ImageNet are as large as those of
    the decoding benchmark, 4 to 3, or as their stored side says. Threads that write into the batch hand nothing over.
    """
    cores, speed, threads = np.array(host, dtype=float)
    chain = rows.keys["chain"].take(at)
    hosts, size, workers = (rows.values[name][at] for name in ("hosts", "sample_bytes", "workers"))
    reach = _reach(constants, OBJECT_STORE, constants["interval/undescribed"])
    store = _store(rows, rows.keys["chain"], constants)[0][:, at]
    images = chain.where(lambda entry: not entry.model or zoo.model(entry.model).data_kind == "images")
    side = np.where(chain.figure("side") > 0, chain.figure("side"), constants["crop_side"])
    share = np.fmin(1.0, 3 * chain.figure("stored_side") ** 2 * 3 / 4 / constants["benchmark_image_bytes"])
    processes = np.minimum(np.where(workers > 0, workers, np.inf), cores * threads * hosts / devices)
    return {
        "hosts": hosts,
        "stored": np.where(size > 0, size, 1.0),
        "network": np.where(size > 0, store / hosts * reach, np.inf),
        "cores": cores,
        "speed": np.where(np.isnan(speed), constants["usual_speed"], speed),
        "threads": threads,
        "workers": np.where(images, np.maximum(processes, 1), 0),
        "work": np.where(images, chain.figure("jpeg") * share + constants["crop_work"], 0),
        "decoded": np.where(images & ~chain.where(lambda entry: entry.pooled), 3 * side**2, 0),
    }


@lru_cache(maxsize=256)
def _machines(chain: NamedChain) -> tuple[tuple[str, float, float, float, float], ...]:
    """Return accelerator, number, cores, speed and threads of the machine, or of all servers that it could be."""
    rows = catalog.table("systems")
    rows = rows[rows["accelerator_key"].ne("") & (rows["devices"] > 0) & (rows["cores"].gt(0) | rows["vcpus"].gt(0))]
    named = rows["key"].eq(chain.server) if chain.server else rows["devices"].eq(rows["devices"].mode().iloc[0])
    like = rows["accelerator_key"].eq(chain.accelerator) & rows["devices"].ge(1)
    rows = rows[like] if not chain.server and like.any() else rows[named]
    own = (chain.cores, chain.speed, chain.threads if chain.threads > 0 else 2.0)
    machines = []
    for row in rows.itertuples(index=False):
        speed, threads = processor_of("", row.cpu)
        threads = threads if threads > 0 else 2.0
        host = own if chain.cores > 0 else (row.cores if row.cores > 0 else row.vcpus / threads, speed, threads)
        cores, speed, threads = map(float, host)
        machines.append((chain.accelerator or row.accelerator_key, float(row.devices), cores, speed, threads))
    return tuple(machines) or ((chain.accelerator, 1.0, *own),)


@lru_cache(maxsize=64)
def _step_seconds(runs: tuple[tuple[NamedChain, str, float, float], ...]) -> np.ndarray:
    """Return steps of runs without input and the ends of their intervals [s]: network, accelerator, devices, batch."""
    chains, names, devices, batches = zip(*runs, strict=True)
    columns = {
        "model": [chain.model for chain in chains],
        "network_arguments": [_image(chain.model, chain.side) for chain in chains],
        "accelerator": [machine_of(name)[0] for name in names],
        "devices": list(devices),
        "batch": list(batches),
        "software": [_level(chain.software, name) for chain, name in zip(chains, names, strict=True)],
        "precision": [chain.precision for chain in chains],
    }
    step = estimate(scenario("training_classic", columns))
    return np.array([getattr(step, name or "point") for name in ENDS])


def _image(model: str, side: float) -> str:
    """Return arguments of a network that takes square images of a side, where that is known."""
    return square_image(model, round(side)) if model and side > 0 else ""


def _level(software: str, accelerator: str) -> str:
    """Return the level of the software that words name; "" where they name none."""
    return stack("classic", software, accelerator) if software else ""


PREDICTED: tuple[tuple[tuple[str, ...], Callable[[ReportRows, Known], Outcomes]], ...] = (
    ((MLPERF,), utilised),
    ((DECODE,), decoded),
    ((OBJECT_STORE,), downloaded),
    ((FIO,), blocks_read),
    ((METADATA,), opened),
    ((LOADER, TRAINING), loaded),
    ((WEIGHTS, START), weights),
)


def storage_table(frame: pd.DataFrame, why: np.ndarray | None = None) -> pd.DataFrame:
    """Return predictions with intervals for a table of reports, in the form of `python -m cookbook predict`.

    `why` is what is wrong with single rows before they are read.
    """
    if len(frame) > BLOCK:
        parts = [slice(at, at + BLOCK) for at in range(0, len(frame), BLOCK)]
        blocks = [storage_table(frame.iloc[part], None if why is None else why[part]) for part in parts]
        return pd.concat(blocks, ignore_index=True)
    reports = read(frame, why)
    rows, constants = resolve(reports), committed()
    outcomes = predict_rows(rows, constants)
    values = np.array([outcomes[name] for name in OUTCOMES])
    main = values[rows.outcome, np.arange(len(rows))] * rows.factor
    good = (rows.why == "") & np.isfinite(main) & (main > 0)
    unit, assumed = reports.words("requested").each(lambda entry: entry[2], object), reports.read.each(str, object)
    table: dict[str, Any] = {"predicted": np.where(good, main, np.nan), "unit": unit}
    tier = tiers(rows, outcomes)
    table |= _intervals(rows, outcomes, table["predicted"], tier, constants)
    table |= {"tier": np.where(good, tier, ""), "why": np.where(good | (rows.why != ""), rows.why, NOTHING.cell)}
    joined = (assumed != "") & (outcomes["assumed"] != "")
    table["assumed"] = np.where(good, assumed + np.where(joined, "; ", "").astype(object) + outcomes["assumed"], "")
    scale = np.array([1, 1, 1e-9, 1, 1e6])[:, None]
    table |= dict(zip(COLUMNS, np.where(good, values * scale, np.nan), strict=True))
    return pd.DataFrame(table)


def _intervals(rows: ReportRows, outcomes: Outcomes, point: np.ndarray, tier: np.ndarray, constants: Known) -> Outcomes:
    """Return intervals by kind of report, wider for unknown systems; never above accelerators that do not wait.

    The bandwidth of a drive bounds the point alone: drives have been seen to read a tenth more than is stated.
    """
    report, ends = rows.keys["report"], Outcomes()
    mlperf = report.where(MLPERF.__eq__)
    with np.errstate(all="ignore"):
        share = np.where(rows.outcome == 1, 1, constants["counted_share"])
        most = np.where(mlperf, 1 / (outcomes["utilisation"] * share), np.inf)
    usual = (tier == DESCRIBED) | report.where((FIO, METADATA).__contains__)
    unnamed = mlperf & ~usual & ~rows.submitted & ~(rows.drive > 0)
    for level in LEVELS:
        reach = np.full(len(rows), constants[f"interval/other/{level}"])
        for kind in (MLPERF, DECODE, OBJECT_STORE):
            reach[report.where(kind.__eq__) & ~outcomes["limited"]] = constants[f"interval/{kind}/{level}"]
        reach = np.where(usual, reach, reach ** constants["interval/undescribed"])
        reach = np.where(unnamed, np.maximum(reach, constants[f"interval/unnamed/{level}"]), reach)
        reach = np.where(rows.estimated, np.maximum(reach, constants[f"interval/stand-in/{level}"]), reach)
        ends |= {f"low{level}": point / reach, f"high{level}": point * np.minimum(reach, np.fmax(most, 1))}
    whole = report.where(CHAINS.__contains__)
    sizes = np.where((rows.outcome == 2) & ~report.where(WEIGHTS.__eq__), rows.sample_bytes, 1.0)
    return {
        name: np.where(whole, np.where(np.isnan(point), np.nan, outcomes[name] * rows.factor * sizes), values)
        for name, values in ends.items()
    }


def tiers(rows: ReportRows, outcomes: Outcomes) -> np.ndarray:
    """Return how well each row is described: by drive, processor or network; by its kind alone; by a stand-in."""
    stands_in = rows.estimated | outcomes["limited"] | rows.keys["report"].where((FIO, METADATA).__contains__)
    names = np.array([WORKLOAD, DATASHEET, DESCRIBED], dtype=object)
    return names[np.where(outcomes["described"] & ~rows.estimated, 2, np.where(stands_in, 1, 0))]
