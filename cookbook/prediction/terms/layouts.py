"""Parallelism configurations that cannot be: what is missing or out of range, and the nearest that would do.

Rows of reports are read with patience (`refusals`): they ran, whatever their cells say. What a reader asks for is held
to more (`impossible`): shards divide heads, layers, tokens and devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cookbook.prediction.scenario import Coded, Scenario

Words = Callable[[int], str]
COUNTS = (
    "devices", "tp", "pp", "vp", "cp", "ep", "micro_batch", "seq_len", "per_node", "layers", "hidden", "heads",
    "kv_heads", "ffn_hidden", "vocab",
)  # fmt: skip
# Counts that follow from the others where they are blank.
FOLLOWING = ("dp", "global_batch", "shard_group")
# Stated parameters beyond so many times those of the stated dimensions, or below their share, mean another model.
CONTRADICTS = 2.5
PARTS = ("experts", "experts_per_token", "shared_experts", "moe_ffn_hidden", "dense_layers")


def refusals(v: Mapping[str, np.ndarray], accelerator: Coded, why: np.ndarray) -> np.ndarray:
    """Why a row cannot be predicted; empty where it can.

    Parameters
    ----------
    v : mapping of str to numpy.ndarray
        All numbers of the rows, blanks filled.
    accelerator : Coded
        Keys of the devices, "" where the catalogue has none.
    why : numpy.ndarray of str
        What reading said about each row.
    """
    found = None
    for bad, reason, *figures in _refused(v, accelerator):
        if np.any(bad):
            found = told(why if found is None else found, bad, reason, figures)
    return why if found is None else found


def told(why: np.ndarray, bad: Any, reason: str, figures: Sequence[Any]) -> np.ndarray:
    """Reasons with one more, its figures filled in, for bad rows that have none yet."""
    new = (why == "") & bad
    if not new.any():
        return why
    words: Any = reason
    if figures:
        # Of a grid the reasons stay as few as the figures that they tell.
        shape = np.broadcast_shapes(np.shape(bad), *map(np.shape, figures))
        at = np.flatnonzero(new if new.shape == shape else np.broadcast_to(bad, shape))
        rows = zip(*(np.broadcast_to(each, shape).reshape(-1)[at].tolist() for each in figures), strict=True)
        words = np.full(math.prod(shape), "", dtype=object)
        words[at] = [reason.format(*row) for row in rows]
        words = words.reshape(shape)
    return np.where(new, words, why.astype(object))


def _bad(v: Mapping[str, np.ndarray], names: tuple[str, ...], least: float) -> Any:
    bad: Any = False
    for name in names:
        bad = bad | ~(v[name] >= least) | (v[name] == np.inf)
    return bad


def _refused(v: Mapping[str, np.ndarray], accelerator: Coded) -> Iterator[tuple[Any, ...]]:
    below = "a count of devices, layers, shards, batch or tokens is missing or below 1"
    devices, layout = v["devices"] * v["cores"], v["tp"] * v["pp"] * v["cp"]
    yield (
        accelerator.where(lambda key: key == ""),
        'the accelerator is not in the catalogue: take a key of cb.table("accelerators")',
    )
    weights = (
        v["layers"] * (4 * v["hidden"] ** 2 + (2 + v["gated"]) * v["hidden"] * v["ffn_hidden"])
        + v["vocab"] * v["hidden"]
    )
    yield (
        (v["moe"] == 0) & (np.abs(np.log(v["params"] / weights)) > np.log(CONTRADICTS)),
        "parameters (params_b) = {:g} contradict layers, hidden and ffn_hidden, which make about {:g}",
        v["params"],
        weights,
    )
    yield (
        np.isnan(v["layers"] * v["hidden"]),
        "the model is not in the zoo, and neither its dimensions nor its parameters are given: fill layers and hidden, "
        "or parameters",
    )
    yield v["offered"] == 0, "precision: the catalogue knows no such arithmetic of this accelerator; take another"
    yield (
        np.isnan(v["peak"] * v["mem_bandwidth"]),
        "precision: the catalogue has no peak or no memory bandwidth of this accelerator in this number format",
    )
    yield _bad(v, COUNTS, 1), below
    yield from _refused_splits(v, devices, layout, below)


def _refused_splits(
    v: Mapping[str, np.ndarray], devices: np.ndarray, layout: np.ndarray, below: str
) -> Iterator[tuple[Any, ...]]:
    yield layout > devices, "tp x pp x cp = {:g} is more than devices = {:g}", layout, devices
    whole = layout * v["dp"]
    yield (
        (np.abs(whole - devices) > 0.01 * whole) | (v["dp"] != np.round(v["dp"])),
        "tp x pp x cp x dp = {:g} is not devices = {:g}",
        whole,
        devices,
    )
    yield _bad(v, FOLLOWING, 1), below
    yield (
        v["pp"] > v["layers"],
        "pp = {:g} is more than layers = {:g}: a stage holds at least one",
        v["pp"],
        v["layers"],
    )
    yield (
        v["tp"] > v["heads"],
        "tp = {:g} is more than heads = {:g}: a shard computes at least one",
        v["tp"],
        v["heads"],
    )
    yield v["kv_heads"] > v["heads"], "kv_heads = {:g} is more than heads = {:g}", v["kv_heads"], v["heads"]
    yield (v["moe"] == 1) & (v["ep"] > v["experts"]), "ep = {:g} is more than experts = {:g}", v["ep"], v["experts"]
    yield (
        v["stated_dp"] & (v["global_batch"] < v["dp"] * 0.99),
        "global_batch = {:g} is less than dp = {:g}: every replica needs a sequence",
        v["global_batch"],
        v["dp"],
    )
    odd = _bad(v, PARTS, 0) | ((v["latent"] == 0) & (~(v["head_dim"] >= 1) | (v["head_dim"] == np.inf)))
    yield (
        odd | (v["experts_per_token"] > v["experts"]) | (v["dense_layers"] > v["layers"]),
        "a width or a number of experts is negative, infinite, or larger than what it is a part of",
    )


def impossible(s: Any, asked: Scenario) -> np.ndarray:
    """Why each configuration that a reader asks for cannot be; "" where it can.

    Parameters
    ----------
    s : Rows
        The rows, as `terms.transformer.resolve` made them.
    asked : Scenario
        What they were made of.
    """
    schedule, why = asked.words("pipeline_schedule").each(str, object), np.full(len(s), "", dtype=object)
    with np.errstate(all="ignore"):
        if any(np.any(bad) for bad, _ in _checks(s, schedule)):
            rows = _View({name: np.broadcast_to(value, len(s)) for name, value in s.values.items()})
            for bad, words in _checks(rows, np.broadcast_to(schedule, len(s))):
                for row in np.flatnonzero(bad & (why == "")):
                    why[row] = words(int(row))
    return why


def _checks(s: Any, schedule: np.ndarray) -> list[tuple[np.ndarray, Words]]:
    return [*_splits(s), *_batches(s), *_schedules(s, schedule), *_options(s)]


class _View:
    """Columns as attributes, one entry a row each."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self.__dict__.update(values)


def _splits(s: Any) -> list[tuple[np.ndarray, Words]]:
    ranks = s.dp * s.cp * s.tp

    def divides(name: str, what: str, wanted: str) -> tuple[np.ndarray, Words]:
        value, whole = getattr(s, name), getattr(s, what)
        return (
            whole % value > 0,
            lambda row: (
                f"{name} = {value[row]:g} does not divide the {whole[row]:g} {wanted}: "
                f"take {nearest_divisors(value[row], whole[row])}"
            ),
        )

    layers, model = s.layers / s.pp, s.tp * s.pp * s.cp
    return [
        (s.devices * s.cores % model > 0, lambda row: (
            f"devices = {s.devices[row]:g} is not a multiple of tp x pp x cp = {model[row]:g}: take "
            f"{nearest_multiples(s.devices[row], model[row] / s.cores[row])} devices, or other shards")),
        divides("tp", "heads", "attention heads"),
        (s.pp > s.layers, lambda row: f"pp = {s.pp[row]:g} is more than the {s.layers[row]:g} layers: a stage holds at "
         f"least one; take {nearest_divisors(s.pp[row], s.layers[row])}"),
        ((s.vp > 1) & ~even_stages(s.layers, s.pp * s.vp), lambda row: (
            f"vp = {s.vp[row]:g}: {s.layers[row]:g} layers on pp = {s.pp[row]:g} stages are not a whole number of "
            f"layers for each chunk; take {nearest_divisors(s.vp[row], layers[row])}")),
        divides("cp", "seq_len", "tokens of a sequence (seq)"),
        ((s.ep > 1) & (s.moe == 0), lambda row: f"ep = {s.ep[row]:g}: the model has no experts; take ep = 1"),
        ((s.moe == 1) & (s.experts % s.ep > 0), divides("ep", "experts", "experts")[1]),
        ((s.moe == 1) & (ranks % s.ep > 0), lambda row: (
            f"ep = {s.ep[row]:g} does not divide dp x cp x tp = {ranks[row]:g}, the devices that share the experts: "
            f"take {nearest_divisors(s.ep[row], np.gcd(int(ranks[row]), int(s.experts[row])))}")),
    ]  # fmt: skip


def _batches(s: Any) -> list[tuple[np.ndarray, Words]]:
    once = s.dp * s.micro_batch

    def words(row: int) -> str:
        count = max(int(s.global_batch[row] // once[row]), 1)
        near = sorted({count * once[row], (count + (s.global_batch[row] >= once[row])) * once[row]})
        return (
            f"global_batch = {s.global_batch[row]:g} is no multiple of dp x micro-batch = {s.dp[row]:g} x "
            f"{s.micro_batch[row]:g}: take {_or(near)}, or a smaller batch of a device"
        )

    return [(s.global_batch % once > 0, words)]


def _schedules(s: Any, schedule: np.ndarray) -> list[tuple[np.ndarray, Words]]:
    piped = s.pp > 1
    fed = s.micro_batches / s.flushes
    whole = np.isin(schedule, ["gpipe", "1f1b", "zero-bubble"])
    return [
        (piped & whole & (s.vp != 1), lambda row: f"vp = {s.vp[row]:g}: {schedule[row]} has one chunk a stage; take "
         "vp = 1, or pipeline_schedule = 'interleaved'"),
        (piped & (schedule == "interleaved") & (s.vp < 2), lambda row: (
            f"vp = {s.vp[row]:g}: an interleaved pipeline has two chunks a stage or more; take "
            f"vp = {_or(_divisors(s.layers[row] / s.pp[row])[1:3]) or '1 and 1f1b'}")),
        (piped & (schedule == "interleaved") & (fed % s.pp > 0), lambda row: (
            f"global_batch = {s.global_batch[row]:g} gives {fed[row]:g} micro-batches, and an interleaved pipeline "
            f"takes a multiple of pp = {s.pp[row]:g}; take global_batch = "
            f"{np.ceil(fed[row] / s.pp[row]) * s.pp[row] * s.dp[row] * s.micro_batch[row]:g}")),
        (piped & (schedule == "zb-v") & (s.vp != 2), lambda row: (
            f"vp = {s.vp[row]:g}: zb-v has two chunks a stage; take vp = 2")),
    ]  # fmt: skip


def _options(s: Any) -> list[tuple[np.ndarray, Words]]:
    ranks, factor, shard = s.dp * s.cp, s.capacity_factor, s.stated_shard
    return [
        ((shard >= 1) & (ranks % shard > 0), lambda row: (
            f"shard = {shard[row]:g} does not divide dp x cp = {ranks[row]:g}: "
            f"take {nearest_divisors(shard[row], ranks[row])}")),
        ((s.zero == 0) & (shard > 1), lambda row: f"shard = {shard[row]:g}: zero = 0 shares nothing out; take zero = "
         "1, 2 or 3"),
        (~np.isnan(factor) & (s.moe == 0), lambda row: f"capacity_factor = {factor[row]:g}: the model has no experts; "
         "leave it out"),
    ]  # fmt: skip


def even_stages(layers: Any, stages: Any) -> Any:
    """Whether layers fill stages evenly, or a power of two of them where embedding and head count as a layer each.

    >>> even_stages(80, [16, 41]).tolist(), even_stages(126, [16, 9, 41]).tolist()
    ([True, False], [True, True, False])
    """
    layers, stages = np.asarray(layers), np.asarray(stages).astype(int)
    return (layers % stages == 0) | (((layers + 2) % stages == 0) & (stages & (stages - 1) == 0))


def nearest_divisors(value: float, whole: float) -> str:
    """The divisors of a number that lie around a value, in words.

    >>> nearest_divisors(3, 32), nearest_divisors(100, 32), nearest_divisors(5, 7)
    ('2 or 4', '32', '1 or 7')
    """
    known = _divisors(whole)
    below, above = [each for each in known if each <= value], [each for each in known if each > value]
    return _or([*below[-1:], *above[:1]])


def nearest_multiples(value: float, of: float) -> str:
    """The multiples of a number that lie around a value, in words.

    >>> nearest_multiples(64, 5), nearest_multiples(3, 8)
    ('60 or 65', '8')
    """
    below = np.floor(value / of) * of
    return _or([each for each in (below, below + of) if each > 0])


def _divisors(whole: float) -> list[int]:
    whole = int(whole)
    small = [each for each in range(1, int(whole**0.5) + 1) if whole % each == 0]
    return sorted({*small, *(whole // each for each in small)}) or [1]


def _or(values: Any) -> str:
    return " or ".join(f"{value:g}" for value in values)
