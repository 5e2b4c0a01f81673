"""A step that waits for its input: rates of all stages of the chain, how far they may be off, what to change first.

As a kind of prediction it gives the time of a training step in later epochs; constants are those of storage benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from cookbook.formulas import input_pipeline, storage_rates
from cookbook.prediction.kinds.input_pipeline_arguments import KIND as KIND
from cookbook.prediction.kinds.input_pipeline_arguments import InputPipelineRows, committed, memory_price
from cookbook.prediction.kinds.input_pipeline_arguments import resolve as resolve

CONSTANTS = TERMS = ()
DESCRIBED, WORKLOAD, DATASHEET = "system described", "workload measured", "datasheet only"
LEVELS = (80, 90)
UNEVEN = "accelerators do not divide evenly among hosts: a mean host stands for them"
STAGES = ("storage", "network", "reading", "decoding", "copying", "accelerators")
MOST = 1 << 20
# Chains computed at once (rows times changes); points at which a search divides the remaining interval, and the most
# of them at once (rows times points): of more, fewer passes would cost more than they save.
CHAINS_AT_ONCE, SECTIONS, POINTS_AT_ONCE = 1 << 16, 31, 1 << 13
# Share of a utilisation within which it counts as kept: near 1 it is known to rounding alone.
ROUNDING = 1e-9
LEAST_GAIN = 0.005
_READ = ("bandwidth", "iops", "burst_bandwidth", "burst_iops", "connection")

Figures = Mapping[str, Any]
# A chain in which nothing limits: of one sample of one byte, which is neither decoded nor copied nor trained with.
UNLIMITED: Figures = MappingProxyType(
    dict.fromkeys(("accelerators", "hosts", "batch", "samples", "stored", "drives", "sharers", "pinned"), 1.0)
    | dict.fromkeys(("speed", "threads", "copy_efficiency", "variation", "shuffled", "epochs"), 1.0)
    | dict.fromkeys(("step", "overhead", "decoded", "work", "workers", "memory", "serial", "remote", "latency"), 0.0)
    | dict.fromkeys(("small_files", "seeks", "local", "asynchronous", "checkpoint_bytes"), 0.0)
    | dict.fromkeys(("bandwidth", "iops", "write_bandwidth", "network", "client", "connection", "link"), np.inf)
    | dict.fromkeys(("cores", "prefetch", "checkpoint_interval"), np.inf)
)


def evidence(rows: InputPipelineRows) -> tuple[Mapping[str, float], np.ndarray, np.ndarray]:
    """Constants, how well measurements cover each row, and what to mind about it."""
    tier = np.select([rows.described > 0, rows.benchmark > 0], [DESCRIBED, WORKLOAD], DATASHEET)
    uneven = np.remainder(rows.accelerators, rows.hosts) > 0
    return committed(), tier.astype(object), np.where(uneven, UNEVEN, "").astype(object)


def parts(rows: InputPipelineRows, constants: Mapping[str, float], terms: Any = None) -> dict[str, np.ndarray]:
    """Seconds of one step in later epochs by stage, storage and network without what the page cache serves.

    Stages work side by side, so that the slowest decides; "waiting" is what the step takes beyond it: batches of uneven
    times, and checkpoints.
    """
    found, counted = chain(rows.values, constants), rows.batch * rows.accelerators
    seconds = {name: counted / rate for name, rate in found["stages"].items()}
    seconds |= {name: seconds[name] * (1 - found["hit_rate"]) for name in ("storage", "network")}
    slowest = np.max([*seconds.values()], axis=0)
    return seconds | {"waiting": np.maximum(counted / found["later"] - slowest, 0.0)}


def step_seconds(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of one step: the slowest stage and the waiting."""
    return np.max([parts[name] for name in STAGES], axis=0) + parts["waiting"]


def outcome(rows: InputPipelineRows, step_seconds: np.ndarray) -> np.ndarray:
    """Samples a second of all accelerators."""
    return np.asarray(rows.batch * rows.accelerators / step_seconds)


def ends(rows: InputPipelineRows, constants: Mapping[str, float], rate: np.ndarray) -> dict[str, np.ndarray]:
    """Intervals of the time of a step [s] about samples a second, composed of calibrated ones as in `ranges`."""
    counted, found = rows.batch * rows.accelerators, dict[str, np.ndarray]()
    for level in LEVELS:
        low, high = ranges(rows.values, rate, constants, "later", level)
        found |= {f"low{level}": counted / high, f"high{level}": counted / low}
    return found


def tokens(rows: InputPipelineRows) -> np.ndarray:
    """Samples are not counted in tokens."""
    return np.array(np.nan)


def chain(figures: Figures, known: Mapping[str, float]) -> dict[str, Any]:
    """Rates, utilisation and times of the chain.

    Each host reads its own part of the data; local drives are in every host, shared stores serve all hosts. Rates of
    stages are those of all accelerators together [1/s].

    Parameters
    ----------
    figures : mapping of str to array_like
        As `resolve` makes them, SI; infinite where nothing limits.
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
    latency = (
        wait,
        parts["sample"] / parts["client"],
        parts["sample"] / known["page_cache_rate"],
        1 / parts["single"],
        f["accelerators"] / parts["copying"],
        parts["step"],
    )
    return {
        "stages": dict(zip(STAGES, stages, strict=True)),
        "latency": dict(zip(STAGES, latency, strict=True)),
        "hit_rate": parts["hit"],
        "first": first,
        "later": later,
        "utilisation": np.minimum(now["later"] * busy, 1),
        "first_utilisation": np.minimum(first / (1 - stall) * busy, 1),
        "stall": stall,
        **times,
    }


def trained(figures: Figures, known: Mapping[str, Any]) -> Figures:
    """Samples a second in the first and in later epochs, without checkpoints, and what their input could supply.

    Parameters
    ----------
    figures, known
        As for `chain`; what is left of `UNLIMITED` does not limit.

    Returns
    -------
    dict of str to numpy.ndarray
        ``first``, ``later``, ``supply`` (input alone, first epoch), ``storage`` and ``reading`` [1/s]; NaN where
        nothing limits.
    """
    f = {name: np.asarray(value, dtype=float) for name, value in figures.items()}
    return _trained(f, known, _parts(f, known), f["bandwidth"], f["iops"])


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
        "sample": sample,
        "readers": readers,
        "client": client,
        "cached": cached,
        "decoding": decoding,
        "single": single,
        "copying": copy * f["accelerators"],
        "step": step,
        "network": storage_rates.clients_rate(np.inf, f["hosts"], client, np.maximum(readers, 1), f["connection"])
        / sample,
        "hit": input_pipeline.cache_hit_rate(f["stored"] / f["hosts"], cache, f["shuffled"]),
        "taken": f["hosts"] * input_pipeline.partly_serial_rate(each * f["batch"] / step, f["serial"]),
        "stall": storage_rates.checkpoint_stall_share(
            f["checkpoint_bytes"],
            f["write_bandwidth"] * f["drives"] * np.where(f["local"] > 0, f["hosts"], 1),
            f["checkpoint_interval"],
            f["asynchronous"],
            f["link"] * f["copy_efficiency"] * f["accelerators"],
        ),
    }


def _trained(f: Figures, known: Mapping[str, float], parts: Mapping[str, Any], bandwidth: Any, iops: Any) -> Figures:
    """Samples a second of the tier, of the tier behind the cache, and trained in the first and in later epochs."""
    storage = _stored(f, known, parts, bandwidth, iops)
    fresh = np.minimum(storage, parts["network"])
    reading = input_pipeline.cached_rate(parts["hit"], parts["cached"], fresh)
    rest = np.minimum(parts["decoding"], parts["copying"])
    first, later = (
        input_pipeline.pipelined_rate(np.minimum(read, rest), parts["taken"], f["prefetch"], f["variation"])
        for read in (fresh, reading)
    )
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
    """Return whether each sample is a read of its own: small files, and any files where a head has to find them."""
    return (f["small_files"] > 0) & ((sample < known["readahead"]) | (f["seeks"] > 0))


def _credits(f: Figures, known: Mapping[str, float], sample: Any) -> list[tuple[Any, Any]]:
    """Full buckets and their refill, in samples: bytes, and operations where samples are read one by one."""
    many = f["drives"] * np.where(f["local"] > 0, f["hosts"], 1)
    alone = _one_by_one(f, known, sample)
    counted = (f["burst_operations"] * many, f["iops"] * many)
    return [
        (f["burst_credit"] * many / sample, f["bandwidth"] * many / sample),
        (np.where(alone, counted[0], np.inf), np.where(alone, counted[1], np.inf)),
    ]


def _lasting(buckets: list[tuple[Any, Any]], draw: Any) -> Any:
    """Time until the first of the buckets is empty."""
    return np.minimum(*(storage_rates.credit_seconds(have, draw, refill) for have, refill in buckets))


def _times(
    f: Figures, known: Mapping[str, float], parts: Mapping[str, Any], steady: Figures, lent: Figures
) -> dict[str, Any]:
    """Times of epochs, and how long burst credits last: from the beginning, and in later epochs from a full bucket."""
    go, samples, rest = 1 - parts["stall"], f["samples"], (f["epochs"] - 1) * f["samples"]
    full, fast, draw = _credits(f, known, parts["sample"]), lent["first"] * go, lent["later"] * go * (1 - parts["hit"])
    early, forever = _lasting(full, fast), _lasting(full, draw)
    first = storage_rates.bursting_seconds(samples, fast, steady["first"] * go, early)
    left = [(storage_rates.credit_left(have, samples / first, refill, first), refill) for have, refill in full]
    until, slow = _lasting(left, draw), np.where(np.isinf(forever), lent["later"], steady["later"]) * go
    later = storage_rates.bursting_seconds(rest, lent["later"] * go, slow, until)
    warm = f["latency"] + parts["sample"] / f["bandwidth"] + f["batch"] * f["accelerators"] / lent["supply"]
    mean = np.where(rest > 0, rest / np.maximum(later, np.finfo(float).tiny), slow)
    return {
        "warm_up": warm,
        "first_seconds": first,
        "later_seconds": samples / slow,
        "later_credit": forever,
        "total_seconds": input_pipeline.epochs_seconds(samples, samples / first, mean, f["epochs"], warm),
        "credit_seconds": np.where(early < first, early, first + until),
    }


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


def loader_rate(
    workers: np.ndarray, single: np.ndarray, reference: np.ndarray, threads: np.ndarray, known: Mapping[str, Any]
) -> np.ndarray:
    """Samples a second of loader processes, with less collation where threads share cores."""
    collation = known["collation"] * np.where(threads > 1, known["collation_two_threads"], 1.0)
    return input_pipeline.decode_rate(workers, single, reference, known["handover"], collation, known["sharpness"])


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
    points = max(min(SECTIONS, POINTS_AT_ONCE // max(low.size, 1)), 1)
    shares = np.arange(1, points + 1).reshape(-1, *[1] * low.ndim) / (points + 1)
    while np.any(high - low > 1):
        tried = np.floor(low + (high - low) * shares)
        reached = chain({**figures, "accelerators": np.maximum(tried, 1)}, known)["utilisation"]
        enough = np.logical_and.accumulate(reached >= utilisation * (1 - ROUNDING))
        low = np.max(np.where(enough, tried, low), axis=0)
        high = np.min(np.where(enough, high, tried), axis=0)
    return np.where(low >= MOST - 1, np.inf, low)


def _after(
    figures: Figures, known: Mapping[str, float], changes: Sequence[Mapping[str, Any]], *outcomes: str
) -> list[list[np.ndarray]]:
    """Return outcomes of the chain after each of several changes; for many rows, a few changes at a time."""
    shape = np.broadcast_shapes(*(np.shape(value) for value in figures.values()))
    together = max(CHAINS_AT_ONCE // max(math.prod(shape), 1), 1)
    by_outcome: list[list[np.ndarray]] = [[] for _ in outcomes]
    for start in range(0, len(changes), together):
        batch = changes[start : start + together]
        stacked = {
            name: _stacked([change.get(name, figures[name]) for change in batch], len(shape))
            for name in dict.fromkeys(name for change in batch for name in change)
        }
        after = chain({**figures, **stacked}, known)
        for values, name in zip(by_outcome, outcomes, strict=True):
            whole = np.broadcast_shapes(after[name].shape, (len(batch), *[1] * len(shape)))
            values += [*np.broadcast_to(after[name], whole)]
    return by_outcome


def _stacked(values: Sequence[Any], ndim: int) -> np.ndarray:
    """Return the values of one figure after each change, stacked along a new first axis."""
    own = np.broadcast_shapes(*(np.shape(value) for value in values))
    return np.stack([np.broadcast_to(value, (1,) * (ndim - len(own)) + own) for value in values])


def ranges(
    figures: Figures, point: np.ndarray, known: Mapping[str, float], outcome: str = "later", level: int = 80
) -> tuple[np.ndarray, np.ndarray]:
    """Low and high end of an outcome of the chain.

    The step, decoding and the storage are each made as slow and as fast as their intervals say; deviations of the
    outcome add up as independent errors do, by their squares on a logarithmic scale. Only the intervals of the three
    are calibrated, not that of the whole.

    Parameters
    ----------
    figures : mapping of str to array_like
        As for `chain`, with ``step_low80`` and so on (NaN where a step is given, not predicted) and ``object_store``.
    point : numpy.ndarray
        What the chain gave for them.
    known : mapping of str to float
        Constants of the table ``pipeline_constants``.
    outcome : {"later", "utilisation"}
        Samples a second, or utilisation, in later epochs.
    level : {80, 90}
        Of the interval, in per cent.
    """
    f = {name: np.asarray(value, dtype=float) for name, value in figures.items()}
    drives, remote = known[f"interval/mlperf/{level}"], known[f"interval/object_store/{level}"]
    read = np.where(f["object_store"] > 0, remote, drives)
    reach = known[f"interval/decode/{level}"]
    steps = (f[f"step_{end}{level}"] for end in ("low", "high"))
    causes = [
        *({"step": np.where(np.isnan(step), f["step"], step)} for step in steps),
        *({"speed": f["speed"] * reach**sign} for sign in (1, -1)),
        *({name: f[name] * read**sign for name in _READ} for sign in (1, -1)),
    ]
    (after,) = _after(f, known, causes, outcome)
    return _ends(point, [after[at : at + 2] for at in range(0, len(after), 2)])


def _ends(point: np.ndarray, pairs: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Both ends around a point, from what each cause alone makes of it."""
    up = sum(np.log(np.maximum(np.maximum(*pair), point) / point) ** 2 for pair in pairs)
    down = sum(np.log(np.minimum(np.minimum(*pair), point) / point) ** 2 for pair in pairs)
    return point * np.exp(-np.sqrt(down)), point * np.exp(np.sqrt(up))


@dataclass(frozen=True, eq=False)
class Change:
    """One change and what it brings.

    Attributes
    ----------
    name : str
        What changes, in words.
    samples_per_s, gain : float or numpy.ndarray
        Samples a second after it, and what it adds [1/s].
    utilisation : float or numpy.ndarray
        Utilisation after it.
    usd : float or numpy.ndarray
        What it costs: 0 where nothing has to be bought, NaN where no price is known.
    gain_per_usd : float or numpy.ndarray
        Gain over cost [1/s/USD]: infinite for what is free, NaN where no price is known, which ranks by gain alone.
    per : str
        What `usd` pays for: a purchase or a month; blank where it is free or not known.
    basis : str
        What the price rests on.
    """

    name: str
    samples_per_s: Any
    gain: Any
    utilisation: Any
    usd: Any
    gain_per_usd: Any
    per: str
    basis: str


def changes_of(
    figures: Mapping[str, np.ndarray], found: Mapping[str, Any], tier: Mapping[str, Any], known: Mapping[str, float]
) -> tuple[Change, ...]:
    """Changes that gain at least half a per cent, best first: free ones, then by gain per USD, then without a price.

    Parameters
    ----------
    figures, known
        As for `chain`.
    found : mapping
        What the chain gave.
    tier : mapping
        The storage tier with its price.

    A purchase and a month cannot be compared here: `cookbook.planning.rank_changes` does.
    """
    changes = []
    candidates = _candidates(figures, tier, known)
    after = _after(figures, known, [other for _, other, *_ in candidates], "later", "utilisation")
    for (name, _, usd, per, basis), later, utilisation in zip(candidates, *after, strict=True):
        gain = later - found["later"]
        cost = np.broadcast_to(np.asarray(usd, dtype=float), gain.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = gain / cost
        change = Change(name, later, gain, utilisation, cost, worth, per, basis)
        if np.nanmax(gain / found["later"], initial=0) >= LEAST_GAIN:
            changes.append(_as_numbers(change))
    return tuple(sorted(changes, key=_rank))


def _candidates(figures: Mapping[str, np.ndarray], tier: Mapping[str, Any], known: Mapping[str, float]) -> list[Any]:
    hosts, double = figures["hosts"], 2.0
    drives = figures["drives"] * np.where(figures["local"] > 0, hosts, 1)
    usd = tier["price_usd_per_tb"] * figures["capacity"] / 1e12 * drives
    dates = " and ".join(sorted({str(date) for date in np.ravel(tier["price_date"]).tolist() if date}))
    dated = f"price of a terabyte, {dates}" if np.any(np.isfinite(usd)) else "no price is known"
    all_of_it = figures["stored"] / hosts / known["memory_for_cache"]
    chips, chips_basis = memory_price()
    more = np.maximum(all_of_it - figures["memory"], 0) * hosts
    free, none = ("", "nothing to buy"), ("", "no price is known")
    rent = (tier["price_per"] if np.any(np.isfinite(usd)) else "", dated)
    return [
        ("twice the drives or nodes of the storage", {"drives": double * figures["drives"]}, usd, *rent),
        ("twice the network", {"network": double * figures["network"]}, np.nan, *none),
        (
            "enough memory for the data set",
            {"memory": np.maximum(all_of_it, figures["memory"])},
            more * chips,
            "purchase",
            chips_basis,
        ),
        ("shards instead of small files", {"small_files": 0 * figures["small_files"]}, 0, *free),
        ("twice the workers", {"workers": double * np.maximum(figures["workers"], 1)}, 0, *free),
        (
            "twice the cores and workers",
            {"workers": double * np.maximum(figures["workers"], 1), "cores": double * figures["cores"]},
            np.nan,
            *none,
        ),
        (
            "decoded once and stored ready to use",
            {"work": 0 * figures["work"], "stored": figures["samples"] * figures["decoded"]},
            0,
            *free,
        ),
        ("four times the prefetched batches", {"prefetch": 4 * np.maximum(figures["prefetch"], 1)}, 0, *free),
        (
            "pinned memory",
            {
                "pinned": np.ones_like(hosts),
                "copy_efficiency": np.where(figures["pinned"] > 0, 1, 1 / known["pageable_share"])
                * figures["copy_efficiency"],
            },
            0,
            *free,
        ),
        ("twice the host link", {"link": double * figures["link"]}, np.nan, *none),
        ("asynchronous checkpoints", {"asynchronous": np.ones_like(hosts)}, 0, *free),
    ]


def _rank(change: Change) -> tuple[int, float]:
    gain, cost = float(np.nanmean(change.gain)), float(np.mean(change.usd))
    if np.isnan(cost):
        return 2, -gain
    return (0, -gain) if cost == 0 else (1, -gain / cost)


def _as_numbers(change: Change) -> Change:
    """Numbers instead of arrays of one."""
    if np.size(change.gain) != 1:
        return change
    names = ("samples_per_s", "gain", "utilisation", "usd", "gain_per_usd")
    numbers: dict[str, Any] = {name: float(np.ravel(getattr(change, name))[0]) for name in names}
    return replace(change, **numbers)
