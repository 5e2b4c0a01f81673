"""From columns of a scenario to figures of the input chain: workload, data set, storage tier, host, link, prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog import UnknownName, prices
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import Refusal, Refused, refusal_of, refused
from cookbook.hardware import Machine
from cookbook.prediction.api import train_step
from cookbook.prediction.engine import Estimate
from cookbook.prediction.kinds.constraints import with_reason
from cookbook.prediction.parsing.drives import LOCAL, bus_in, capacity_in, processor_of
from cookbook.prediction.requirements import sizes_of
from cookbook.prediction.scenario import BENCHMARK, Coded, Rows, Scenario, checked, each_row, fields, scenario, together
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

KIND = "input_pipeline"
DISKS = ("HDD", "HDFS")
# Groups of fields of an argument, and the name under which a mapping gives the row of a table that it starts from.
GROUPS = MappingProxyType({"storage": ("storage_tier", "storage"), "data": ("data_set", "card")})
# Fields whose name is not that of the argument of `cookbook.match_storage`.
ARGUMENT_NAMES = MappingProxyType({"accelerator": "system", "step": "workload", "sample_bytes": "data"})
# Types of data sets that networks of each kind of data of the zoo take.
DATA_TYPES = {"images": ("image", "video"), "volume": ("medical volume",), "video": ("video",)}
# Samples of a data set where only the bytes of one are known.
ASSUMED_SAMPLES = 1e6
BURSTS = (("burst_bandwidth", "read_bandwidth"), ("burst_iops", "read_iops"))
ENDS = ("low80", "high80", "low90", "high90")
DATA_FIGURES = ("samples", "stored_bytes", "decoded_bytes", "decode_work", "images", "small_files")
BENCHMARK_FIGURES = ("step", "batch", *DATA_FIGURES)
NO_DATA = Refusal(
    "data = None: name a card such as 'imagenet-1k', or give the bytes of one sample", "data-not-known", "data"
)
NO_FIGURE = Refusal("data has no {}; give it, or a card such as 'imagenet-1k' to start from", "data-not-known", "data")
NO_STEP = Refusal(
    "workload = None: name a network, a workload such as 'mlperf/unet3d', or give the seconds of a step",
    "step-not-known",
    "workload",
)
NO_SIZE = Refusal(
    "checkpoint_bytes = None: the workload has no parameters to go by; give the bytes",
    "checkpoint-size-missing",
    "checkpoint_bytes",
)
NO_RATE = Refusal(
    "storage = {0!r} has no read bandwidth in the catalogue; give one above zero: "
    "{{'storage': {0!r}, 'read_bandwidth': '2 GB/s'}}",
    "storage-figure-missing",
    "storage",
)
NO_OPERATIONS = Refusal(
    "storage = {0!r} has no figure of read operations a second, which small files need; give one "
    "above zero, {{'storage': {0!r}, 'read_iops': 5000}}, or store shards ('layout': 'shards')",
    "storage-figure-missing",
    "storage",
)
SLOW_BURST = Refusal(
    "{} = {:g} is below {} = {:g}: a burst is faster; give more, or leave it out", "burst-below-baseline", "storage"
)
MORE_HOSTS = Refusal(
    "hosts = {:,.0f} are more than accelerators = {:,.0f}: each host has one; give at most as many hosts",
    "hosts-exceed-accelerators",
    "hosts",
)
TOO_LARGE = Refusal(
    "data = {:.4g} B is larger than storage, {:.4g} B; allowed is up to that: take more drives, or a larger 'capacity'",
    "data-exceed-storage",
    "data",
)
NO_SYSTEM = Refusal("accelerator is blank: name one, or a server or a cloud instance", "accelerator-unknown", "system")


@lru_cache(maxsize=1)
def committed() -> Mapping[str, float]:
    """Return the constants of the table ``pipeline_constants``, in SI."""
    rows = catalog.table("pipeline_constants")
    cells = zip(rows["name"], rows["value"], rows["unit"], strict=True)
    return {name: units.si(f"{value!r} {unit}") if unit else float(value) for name, value, unit in cells}


def columns_of(workload: Any, system: Any, storage: Any, data: Any) -> dict[str, Any]:
    """Return fields of a scenario from the first arguments of `cookbook.match_storage`."""
    return {"accelerator": system, **_step_or_name(workload), **apart("storage", storage), **apart("data", data)}


def _step_or_name(workload: Any) -> dict[str, Any]:
    if isinstance(workload, Estimate):
        if not np.all(np.isfinite(workload.point)):
            why = next(filter(None, np.ravel(workload.why).tolist()), "it has no prediction")
            raise ValueError(f"workload has no step: {why}"[:300])
        return {"step": workload.point} | {f"step_{end}": _stated(getattr(workload, end)) for end in ENDS}
    first = workload[0] if isinstance(workload, (list, tuple)) and len(workload) else workload
    named = isinstance(first, Workload) or (isinstance(first, str) and not _is_time(first))
    return {"workload" if named else "step": workload}


def _stated(values: Any) -> Any:
    """Return numbers, with None for unknown ones."""
    if np.ndim(values):
        return [_stated(number) for number in np.asarray(values).tolist()]
    return None if np.isnan(values) else values


def _is_time(words: str) -> bool:
    """Return whether a workload is a time in words, such as "120 ms"."""
    try:
        return words[:1].isdigit() and units.si(words, "s") > 0
    except ValueError:
        return False


def apart(argument: str, value: Any) -> dict[str, Any]:
    """Return fields of a scenario from a storage tier or a data set.

    Parameters
    ----------
    argument : {"storage", "data"}
    value : str, mapping or sequence
        A name, a mapping of its fields, or a list of these; of data also the bytes of one sample.
    """
    group, start = GROUPS[argument]
    if isinstance(value, (list, tuple)):
        groups = [apart(argument, entry) for entry in value]
        if not groups:
            raise ValueError(f"{argument}: an empty list names nothing; give at least one")
        if any(isinstance(figure, (list, tuple, np.ndarray)) for entry in groups for figure in entry.values()):
            raise ValueError(f"{argument}: one of a list has a list itself; give single figures there")
        names = dict.fromkeys(name for entry in groups for name in entry)
        return {name: [entry.get(name) for entry in groups] for name in names}
    if isinstance(value, Mapping):
        check_names(value, (start, *fields(group)), argument, "field")
        return {argument if name == start else name: figure for name, figure in value.items()}
    if argument == "storage" and not isinstance(value, str):
        raise refused(
            "storage",
            value,
            "is no storage: give a row of the table 'storage', or a mapping such as {'read_bandwidth': '2 GB/s'}",
        )
    return {argument if isinstance(value, str) else "sample_bytes": value}


def one_of(argument: str, value: Any, workload: Any = None) -> dict[str, float]:
    """Return figures of one storage tier or data set in SI.

    Parameters
    ----------
    argument : {"storage", "data"}
    value : object
        As for `cookbook.match_storage`.
    workload : str or Workload, optional
        Network that takes the data.

    Raises
    ------
    ValueError
        Several, an invalid value, or data of a kind that the network does not take.
    """
    workload = workload if isinstance(workload, (str, Workload)) else None
    request = scenario(KIND, {**apart(argument, value), "workload": workload}, ARGUMENT_NAMES)
    if request.several:
        raise refused(argument, value, "holds several figures; give one")
    figures, why = (tier_of if argument == "storage" else data_of)(request)
    if why[0]:
        raise Refused(why[0])
    return {name: float(figure) for name, figure in figures.items()}


class _Taken:
    """Columns of a scenario, and stand-ins where they are blank, noted for `Rows.assumed`."""

    def __init__(self, request: Scenario) -> None:
        self.request, self.assumed = request, list[tuple[str, Any, Any]]()

    def __call__(self, name: str, *stand_ins: Any, default: float | None = None, where: Any = True) -> np.ndarray:
        """Return the column, else stand-ins, else the default, by default of the schema; noted `where` it counts."""
        values = _first(self.request.number(name), *stand_ins)
        lacks = np.isnan(values)
        if lacks.any():
            declared = fields(KIND)[name]
            stands_in = checked(declared, declared.default) if default is None else np.asarray(default)
            self.assumed.append((name, lacks & where, stands_in))
            values = np.where(lacks, stands_in, values)
        return values


def _first(*columns: Any) -> np.ndarray:
    """Return the first known figure of several columns in each row."""
    values = np.asarray(columns[0], dtype=float)
    for column in columns[1:]:
        values = np.where(np.isnan(values), column, values)
    return values


def first_reason(first: np.ndarray, refused: Iterable[tuple[Any, ...]]) -> np.ndarray:
    """Return the first reason against each row; "" where there is none.

    Parameters
    ----------
    first : numpy.ndarray of str
        Reasons that are known already.
    refused : iterable of tuple
        Rows that are bad, the reason, and the numbers that fill its braces.
    """
    for bad, reason, *figures in refused:
        if np.any(bad):
            first = with_reason(first, bad, reason, figures)
    return first


class InputPipelineRows(Rows):
    """Storage, hosts and links that feed accelerators in training."""

    # Step of the network.
    step: np.ndarray  # time of one step of one accelerator that never waits [s]
    step_low80: np.ndarray  # low end of its 80 % interval; NaN where a step is given without one [s]
    step_high80: np.ndarray  # high end of its 80 % interval; NaN where a step is given without one [s]
    step_low90: np.ndarray  # low end of its 90 % interval; NaN where a step is given without one [s]
    step_high90: np.ndarray  # high end of its 90 % interval; NaN where a step is given without one [s]
    benchmark: np.ndarray  # 1 where the step is that of a storage benchmark, else 0
    overhead: np.ndarray  # time of a step beside its computation; 0 except for steps of storage benchmarks [s]
    batch: np.ndarray  # samples of one accelerator in one step [-]
    serial: np.ndarray  # work of a host for one sample that stands beside the step [s]
    # Run.
    accelerators: np.ndarray  # accelerators in all [-]
    hosts: np.ndarray  # hosts in all, each with an even part of the accelerators and of the data [-]
    epochs: np.ndarray  # passes over the data set [-]
    shuffled: np.ndarray  # 1 for a new order in each epoch, 0 for always the same
    # Data set.
    samples: np.ndarray  # samples of the data set [-]
    stored: np.ndarray  # size of the data set as stored [B]
    decoded: np.ndarray  # size of one sample as an accelerator takes it [B]
    work: np.ndarray  # work of a core for one sample over that for an image of the reference; 0: used as stored [-]
    small_files: np.ndarray  # 1 where each sample is a file of its own, else 0
    # Storage tier.
    described: np.ndarray  # 1 where the tier is a row of the catalogue, 0 for the reader's own
    local: np.ndarray  # 1 for drives in every host, 0 for shared storage
    object_store: np.ndarray  # 1 for object stores, else 0
    seeks: np.ndarray  # 1 for disks, whose heads seek before they read, else 0
    drives: np.ndarray  # drives or nodes; of local storage in each host [-]
    bandwidth: np.ndarray  # read bandwidth of one drive or node [B/s]
    iops: np.ndarray  # read operations a second of one drive or node [1/s]
    write_bandwidth: np.ndarray  # write bandwidth of one drive or node [B/s]
    latency: np.ndarray  # time of a single read [s]
    burst_bandwidth: np.ndarray  # read bandwidth while credits last; `bandwidth` where there are none [B/s]
    burst_credit: np.ndarray  # bytes that a full bucket of credits lends; infinite where there are none [B]
    burst_iops: np.ndarray  # read operations a second while credits last; `iops` where there are none [1/s]
    burst_operations: np.ndarray  # operations that a full bucket of credits lends; infinite where there are none [-]
    client: np.ndarray  # most that one host reads of the tier [B/s]
    connection: np.ndarray  # rate of one connection to an object store; infinite for other tiers [B/s]
    capacity: np.ndarray  # bytes that one drive or node holds; NaN where not known [B]
    endurance: np.ndarray  # drive writes a day that are bought; NaN where not known [-]
    price: np.ndarray  # price of a terabyte, of a purchase or a month; NaN where not known [USD/TB]
    # Host and its network.
    network: np.ndarray  # network of one host on the way to shared storage; infinite for local drives [B/s]
    cores: np.ndarray  # physical cores of one host; infinite where not known: one for each worker [-]
    memory: np.ndarray  # memory of one host; 0 where not known: no page cache is counted [B]
    speed: np.ndarray  # single-thread speed of its processor, in points of PassMark [-]
    threads: np.ndarray  # threads of a core [-]
    # Loader.
    workers: np.ndarray  # loader processes of one accelerator; 0: the main process decodes [-]
    remote: np.ndarray  # share of the workers on the socket away from their data [-]
    prefetch: np.ndarray  # batches that may wait for an accelerator [-]
    variation: np.ndarray  # standard deviation of the times of batches over their mean [-]
    # Link from the host to an accelerator.
    link: np.ndarray  # nominal rate of the link, one direction; infinite where not known [B/s]
    sharers: np.ndarray  # accelerators that share one such link [-]
    pinned: np.ndarray  # 1 where copies to accelerators come from pinned memory, else 0
    copy_efficiency: np.ndarray  # share of the nominal rate that a copy reaches, from pinned memory or not [-]
    # Checkpoints.
    checkpoint_bytes: np.ndarray  # size of one checkpoint; 0 where none is written, NaN where not known [B]
    checkpoint_interval: np.ndarray  # training between checkpoints; infinite where none is written [s]
    asynchronous: np.ndarray  # 1 where checkpoints are written behind the training, 0 where it waits for them


def resolve(request: Scenario) -> InputPipelineRows:
    """Return scenarios as figures of the chain in SI: infinite where nothing limits, NaN where a price is not known."""
    take, constants, system = _Taken(request), committed(), request.words("accelerator")
    stated = together(request.words("workload"), system).map(lambda pair: _benchmark(*pair))
    bench = stated.figures(lambda pair: pair[0])
    (card, no_data), (tier, no_tier) = data_of(request, bench), tier_of(request)
    batch = take("batch", bench["batch"])
    work, no_step = _work(take, batch, batch * card["images"], bench, constants)
    work["step"] = np.where(stated.where(lambda pair: bool(pair[1])), np.nan, work["step"])
    v = {
        **work,
        **_host(take, system, constants),
        **_tier(take, tier, constants),
        **_link(take, system, constants),
        **_checkpoints(take, tier),
        **{
            name: card[field]
            for name, field in (
                ("samples", "samples"),
                ("stored", "stored_bytes"),
                ("decoded", "decoded_bytes"),
                ("work", "decode_work"),
                ("small_files", "small_files"),
            )
        },
        **{name: take(name) for name in ("accelerators", "hosts", "prefetch", "shuffled", "epochs", "serial")},
        "variation": take("variation", default=(2 / constants["buffer"]) ** 0.5),
        "batch": batch,
        "described": request.words("storage").where(bool).astype(float),
    }
    small = (v["small_files"] > 0) & (v["stored"] / v["samples"] < constants["readahead"])
    room = v["capacity"] * v["drives"] * np.where(v["local"] > 0, v["hosts"], 1)
    names = request.words("storage").each(lambda key: key or "own", object)
    refused = [
        (system.where(lambda name: name == ""), NO_SYSTEM),
        (stated.where(lambda pair: bool(pair[1])), stated.each(lambda pair: pair[1], object)),
        (no_step != "", no_step),
        (np.isnan(v["step"]), NO_STEP),
        (no_data != "", no_data),
        (no_tier != "", no_tier),
        (np.isnan(v["checkpoint_bytes"]), NO_SIZE),
        (v["stored"] > room, TOO_LARGE, v["stored"], room),
        (v["hosts"] > v["accelerators"], MORE_HOSTS, v["hosts"], v["accelerators"]),
        (small & np.isnan(v["iops"]), NO_OPERATIONS, names),
    ]
    why = first_reason(request.why, refused)
    v |= {name: np.where(np.isnan(v[name]), np.inf, v[name]) for name in ("iops", "burst_iops")}
    values = {name: each_row(np.asarray(figure, dtype=float), len(request)) for name, figure in v.items()}
    return InputPipelineRows(values, why, {}, assumed=tuple(take.assumed))


def _work(
    take: _Taken, batch: np.ndarray, images: np.ndarray, bench: Mapping[str, Any], constants: Mapping[str, float]
) -> tuple[dict[str, Any], np.ndarray]:
    """Time of a step with its interval, given, stated by a benchmark or predicted, and why there is none."""
    s, size = take.request, len(take.request)
    own, why = s.number("step"), np.full(size, "", dtype=object)
    step = _first(own, bench["step"] * (batch / bench["batch"]))
    columns = {"step": each_row(step, size).copy()}
    columns |= {f"step_{end}": each_row(s.number(f"step_{end}"), size).copy() for end in ENDS}
    cases = together(*(s.words(name) for name in ("workload", "accelerator", "precision", "software")))
    wanted = np.isnan(columns["step"]) & cases.where(lambda case: "" not in case[:2] and not _suite(case[0]))
    codes, images = each_row(cases.codes, size), each_row(images, size)
    rests_on = [""] * len(cases.levels)
    for code in np.unique(codes[wanted]).tolist():
        at = np.flatnonzero(wanted & (codes == code))
        batches, back = np.unique(images[at], return_inverse=True)
        network, machine, precision, software = cases.levels[code]
        try:
            predicted = train_step(
                network,
                machine.accelerator,
                precision=precision,
                software=software,
                micro_batch=batches.tolist() if len(batches) > 1 else batches.item(),
            )
        except ValueError as problem:
            why[at] = refusal_of(problem)
            continue
        why[at] = np.atleast_1d(np.asarray(predicted.why, dtype=object))[back]
        rests_on[code] = str(np.atleast_1d(predicted.assumed)[0]).replace("; ", ", ")
        for name, end in (("step", "point"), *((f"step_{end}", end) for end in ENDS)):
            columns[name][at] = np.atleast_1d(getattr(predicted, end))[back]
    levels = tuple(f"predicted ({words})" for words in rests_on)
    take.assumed.append(("step", wanted & np.isfinite(columns["step"]), Coded(cases.codes, levels)))
    stated = np.isnan(own) & np.isfinite(bench["step"])
    return columns | {"overhead": np.where(stated, constants["step_overhead"], 0.0), "benchmark": stated}, why


def _suite(workload: Any) -> bool:
    return isinstance(workload, str) and workload.startswith(BENCHMARK)


def _host(take: _Taken, system: Coded, constants: Mapping[str, float]) -> dict[str, Any]:
    """Return cores, memory and speed of one host; what is not known does not limit."""
    about = system.figures(lambda machine: server(machine)[0])
    words = together(take.request.words("processor"), system)
    chip = words.map(lambda pair: processor_of("", pair[0] or server(pair[1])[1]))
    speed, lacks = chip.part(0), np.isnan(chip.part(0))
    take.assumed.append(("processor", lacks, Coded(np.array(0), ("mean of those measured",))))
    return {
        "cores": take("cores", about["cores"], default=np.inf),
        "memory": take("memory", about["memory"], default=0.0),
        "speed": np.where(lacks, constants["usual_speed"], speed),
        "threads": np.where(lacks, 2.0, chip.part(1)),
        "workers": take("workers"),
        "remote": take("remote"),
    }


def _tier(take: _Taken, tier: Mapping[str, Any], constants: Mapping[str, float]) -> dict[str, Any]:
    """Return figures of a tier; unknown ones are unlimited, except operations, which small files need."""
    local, remote = tier["local"] > 0, tier["object_store"] > 0
    rate = take("network", np.where(local, np.inf, np.nan), default=np.inf)
    figures = {"iops": tier["read_iops"], "bandwidth": _first(tier["read_bandwidth"], np.inf)}
    for name, steady, credit in (("bandwidth", "read_bandwidth", "credit"), ("iops", "read_iops", "operations")):
        have = np.isfinite(tier[f"burst_{credit}"]) & np.isfinite(tier[f"burst_{name}"])
        figures[f"burst_{name}"] = np.where(have, tier[f"burst_{name}"], tier[steady])
        figures[f"burst_{credit}"] = np.where(have, tier[f"burst_{credit}"], np.inf)
    uncounted = np.isfinite(tier["burst_bandwidth"]) & np.isnan(tier["burst_credit"])
    take.assumed.append(("burst_credit", uncounted, np.array(0.0)))
    return figures | {
        "burst_bandwidth": _first(figures["burst_bandwidth"], np.inf),
        "seeks": tier["seeks"],
        "client": _first(tier["client_bandwidth"], np.inf),
        "latency": take("latency", tier["latency"], default=0),
        "drives": tier["drives"],
        "local": tier["local"],
        "capacity": tier["capacity"],
        "endurance": tier["endurance_dwpd"],
        "price": tier["price_usd_per_tb"],
        "network": np.where(local, np.inf, rate),
        "object_store": tier["object_store"],
        "connection": np.where(remote, constants["connection_rate"], np.inf),
    }


def _link(take: _Taken, system: Coded, constants: Mapping[str, float]) -> dict[str, Any]:
    link = together(system, take.request.words("link")).map(lambda pair: host_link(*pair))
    rate, pinned = link.part(0), take("pinned")
    take.assumed.append(("link", np.isinf(rate), np.array(np.inf)))
    reached = _first(link.part(1), constants["copy_share"])
    return {
        "link": rate,
        "sharers": take("sharers"),
        "pinned": pinned,
        "copy_efficiency": reached * np.where(pinned > 0, 1, constants["pageable_share"]),
    }


def _checkpoints(take: _Taken, tier: Mapping[str, Any]) -> dict[str, Any]:
    """Size and interval of checkpoints; nothing where none are written."""
    interval, rate = take.request.number("checkpoint_interval"), tier["write_bandwidth"]
    written = ~np.isnan(interval)
    behind = take("asynchronous", where=written)
    size = take.request.number("checkpoint_bytes")
    if np.any(written & np.isnan(size)):
        own = together(take.request.words("workload"), take.request.words("precision")).each(
            lambda pair: own_bytes(*pair)
        )
        take.assumed.append(("checkpoint_bytes", written & np.isnan(size), own))
        size = _first(size, own)
    take.assumed.append(("write_bandwidth", written & np.isnan(rate), np.array(np.inf)))
    return {
        "checkpoint_bytes": np.where(written, size, 0.0),
        "checkpoint_interval": np.where(written, interval, np.inf),
        "asynchronous": np.where(written, behind, 0.0),
        "write_bandwidth": _first(rate, np.inf),
    }


def _benchmark(workload: Any, system: Machine | str) -> tuple[dict[str, float], str]:
    """Return the figures of a storage benchmark for an accelerator, NaN for other workloads, and why there are none."""
    nothing = dict.fromkeys(BENCHMARK_FIGURES, np.nan)
    if not _suite(workload) or not isinstance(system, Machine):
        return nothing, ""
    rows, name, device = catalog.table("storage_workloads"), workload[len(BENCHMARK) :], system.accelerator
    rows = rows[rows["step_seconds"].notna()]
    if name not in set(rows["workload"]):
        raise UnknownName("storage_workloads", name[:80], sorted(set(rows["workload"])))
    printed = device.like.split("-")[0].upper()
    same = rows[(rows["workload"] == name) & (rows["accelerator_as_printed"] == printed)]
    if same.empty:
        have = ", ".join(sorted(set(rows.loc[rows["workload"] == name, "accelerator_as_printed"])))
        what = f": the benchmark {name!r} has no step for it, only for {have}; give the seconds of a step as workload"
        return nothing, refused("system", device.key, what, "step-not-known").refusal
    row = same.iloc[0]
    samples, resized = row["files"] * row["samples_per_file"], row["record_bytes_resized"]
    decoded = resized if resized > 0 else row["record_bytes"]
    stated = (
        row["step_seconds"],
        row["batch"],
        samples,
        samples * row["record_bytes"],
        decoded,
        0.0,
        1.0,
        row["samples_per_file"] == 1,
    )
    return dict(zip(BENCHMARK_FIGURES, map(float, stated), strict=True)), ""


def data_of(s: Scenario, bench: Mapping[str, Any] | None = None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return figures of data sets, or why there are none: of a card with changes, bytes of a sample, or a benchmark."""
    named, sample = s.words("data"), s.number("sample_bytes")
    card, own = named.figures(_of_data_set), named.where(bool) | np.isfinite(sample)
    own = own | np.isfinite(s.number("samples")) | np.isfinite(s.number("stored_bytes"))
    layout = s.words("layout").each(lambda word: float(word == "small files") if word else np.nan)

    def of(name: str, stated: Any, *others: Any) -> np.ndarray:
        return _first(stated, card[name], np.where(own | (bench is None), np.nan, (bench or card)[name]), *others)

    samples = of("samples", s.number("samples"), np.where(np.isnan(sample), np.nan, ASSUMED_SAMPLES))
    stored = of("stored_bytes", s.number("stored_bytes"), samples * sample)
    figures = (
        samples,
        stored,
        of("decoded_bytes", s.number("decoded_bytes"), sample, stored / samples),
        of("decode_work", s.number("decode_work"), 0.0),
        of("images", s.number("images"), 1.0),
        of("small_files", layout, 0.0),
    )
    pairs = together(s.words("workload"), named)
    why = first_reason(
        np.full(len(s), "", dtype=object),
        [
            (np.isnan(samples) & np.isnan(stored), NO_DATA),
            (np.isnan(samples), NO_FIGURE, "samples"),
            (np.isnan(stored), NO_FIGURE, "stored_bytes"),
            (pairs.where(lambda pair: bool(mismatch(*pair))), pairs.each(lambda pair: mismatch(*pair), object)),
        ],
    )
    return dict(zip(DATA_FIGURES, figures, strict=True)), why


@lru_cache(maxsize=64)
def _of_data_set(name: str) -> dict[str, float]:
    """Return figures of a data set of the catalogue; NaN of none."""
    if not name:
        return dict.fromkeys(DATA_FIGURES, np.nan)
    row = catalog.table("data_sets").set_index("key").loc[name]
    images = row["images"] if row["images"] > 0 else 1.0
    cells = row.to_dict() | {"images": images, "small_files": row["layout"] == "small files"}
    return {field: float(cells[field]) for field in DATA_FIGURES}


@lru_cache(maxsize=1024)
def mismatch(workload: Any, data: str) -> str:
    """Return why a network does not take a data set of the catalogue; "" where it does, or where a kind is unknown."""
    if not isinstance(workload, (str, Workload)) or not workload or _suite(workload) or not data:
        return ""
    network = zoo.model(workload) if isinstance(workload, str) else workload
    cards, kind = catalog.table("data_sets").set_index("key"), network.data_kind
    if not kind:
        return ""
    workload = workload if isinstance(workload, str) else network.title
    types, data_type = DATA_TYPES.get(kind, (kind,)), cards.loc[data, "data_type"]
    if data_type in types:
        return ""
    fits = ", ".join(cards.index[cards["data_type"].isin(types)])
    what = (
        f"is {data_type}, and {workload} takes {kind}: choose {fits}, another network, or give the seconds of a step "
        "as workload"
    )
    return refused("data", data, what, "data-not-taken").refusal


def tier_of(s: Scenario) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return figures of storage tiers and why there are none: rows of the catalogue, changed, or the reader's own."""
    names = s.words("storage")
    row = names.figures(lambda key: catalogued(key)[0])
    figures = {name: _first(s.number(name), figure) for name, figure in row.items()}
    labels, rate = names.each(lambda key: key or "own", object), figures["read_bandwidth"]
    pairs = [(name, figures[name], steady, figures[steady]) for name, steady in BURSTS]
    return figures, first_reason(
        np.full(len(s), "", dtype=object),
        [
            *((pair[1] < pair[3], SLOW_BURST, *pair) for pair in pairs),
            (np.isnan(rate) & (figures["object_store"] == 0), NO_RATE, labels),
        ],
    )


@lru_cache(maxsize=1024)
def catalogued(key: str) -> tuple[dict[str, float], str, str]:
    """Return a row of the table ``storage`` with its bursts, what its price pays for, and of when; NaN of none."""
    figures = dict.fromkeys(fields("storage_tier"), np.nan) | {"drives": 1.0, "local": 0.0}
    if not key:
        return figures | {"object_store": 0.0, "seeks": 0.0}, "purchase", ""
    row, limits = catalog.table("storage").set_index("key").loc[key], catalog.table("storage_limits")
    limits = limits.set_index("storage")
    cells = row.to_dict() | (limits.loc[key].to_dict() if key in limits.index else {})
    cells |= {"local": row["category"] in LOCAL, "capacity": capacity_in(row["name"])}
    figures = {name: float(cells.get(name, default)) for name, default in figures.items()}
    figures |= {"object_store": float(row["category"] == "object store"), "seeks": float(row["category"] in DISKS)}
    return figures, "month" if row["price_basis"] not in ("", "purchase") else "purchase", row["price_date"]


@lru_cache(maxsize=1024)
def host_link(system: Machine | str, link: str) -> tuple[float, float]:
    """Return the nominal rate of the link from host to accelerator [B/s], and the share that a pinned copy reaches.

    Parameters
    ----------
    system : Machine
        Of the catalogue or the reader's own; "" for none.
    link : str
        A key of the table ``interconnects``; blank for that of the device.
    """
    if not isinstance(system, Machine):
        return np.inf, 1.0
    device = system.accelerator
    if not link and ("host_link" in device.changed or not device.like):
        return (device.host_link, np.nan) if device.host_link > 0 else (np.inf, 1.0)
    rows = catalog.table("interconnects").set_index("key")
    devices = catalog.table("accelerators").set_index("key")["host_link"]
    name = link or bus_in(str(devices[device.like]))
    if name not in rows.index:
        return np.inf, 1.0
    return float(rows.loc[name, "bandwidth"]), float(rows.loc[name, "efficiency"])


def server(system: Machine | str) -> tuple[dict[str, float], str]:
    """Return cores and memory of one host and words about its processor; NaN and "" where the catalogue has none."""
    if not isinstance(system, Machine) or not system.server:
        return {"cores": np.nan, "memory": np.nan}, ""
    row = catalog.table("systems").set_index("key").loc[system.server]
    return {"cores": float(row["cores"]), "memory": float(row["memory_bytes"])}, str(row["cpu"])


@lru_cache(maxsize=256)
def hour_price(accelerator: str) -> tuple[float, float, float, str]:
    """Return median and quartiles of an hour's price on demand [USD] and their dates; NaN where no price is known.

    Parameters
    ----------
    accelerator : str
        Key in accelerators.
    """
    price = prices.hourly_usd(accelerator) if accelerator in set(catalog.table("accelerators")["key"]) else None
    if price is None or price.why:
        return np.nan, np.nan, np.nan, "no price is known"
    return price.median, price.low, price.high, f"{price.rows} prices of clouds, {price.first} to {price.last}"


@lru_cache(maxsize=1)
def memory_price() -> tuple[float, str]:
    """Return the newest price of server memory in the table ``tco`` [USD/B] and its source; NaN where there is none."""
    rows = catalog.table("tco")
    rows = rows[(rows["category"] == "part_price") & (rows["item"] == "server memory")]
    rows = rows.sort_values("year", kind="stable")
    if rows.empty:
        return np.nan, "no price is known"
    return float(rows["value"].iloc[-1]) / 1e9, f"price of a GB of server memory, {rows['year'].iloc[-1]}"


def own_bytes(workload: Any, precision: str) -> float:
    """Return bytes of a checkpoint of a network; NaN where its parameters are not known."""
    if workload == "" or _suite(workload):
        return np.nan
    network = zoo.model(workload) if isinstance(workload, str) else workload
    try:
        return float(checkpoint_bytes(network.ops.parameter_count, precision))
    except ValueError:
        return np.nan


def checkpoint_bytes(parameters: Any, precision: str) -> Any:
    """Return bytes of a checkpoint: weights, master weights and the states of Adam.

    Parameters
    ----------
    parameters : array_like
        Trainable parameters.
    precision : str
        As for training; "bf16" where blank.

    Examples
    --------
    >>> float(checkpoint_bytes(8e9, "bf16")) / 1e9
    112.0
    """
    sizes = sizes_of(precision or "bf16", "adam")[0]
    return np.asarray(parameters) * (sizes.weight + sizes.master + sizes.state * sizes.state_elements)
