"""Layouts that a model, a batch or a sequence does not allow: the argument, its value, and the nearest that would do.

Rows of reports are read with more patience (`transformer_checks`): they ran, whatever their cells say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.prediction import transformer_text as cells

if TYPE_CHECKING:
    import pandas as pd

Words = Callable[[int], str]


def layout_refusals(s: Any, frame: pd.DataFrame) -> np.ndarray:
    """Why each layout cannot be; "" where it can.

    Parameters
    ----------
    s : Scenarios
        The rows.
    frame : pandas.DataFrame
        What they were made of.
    """
    why = np.full(len(s), "", dtype=object)
    schedule, shard = np.array(cells.texts(frame, "pipeline_schedule")), cells.numbers(frame, "shard_group")
    with np.errstate(all="ignore"):
        for bad, words in (*_splits(s), *_batches(s), *_schedules(s, schedule), *_options(s, shard)):
            for row in np.flatnonzero(bad & (why == "")):
                why[row] = words(int(row))
    return why


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


def _options(s: Any, shard: np.ndarray) -> list[tuple[np.ndarray, Words]]:
    ranks, factor = s.dp * s.cp, s.capacity_factor
    return [
        ((shard < 1) | (ranks % shard > 0), lambda row: (
            f"shard = {shard[row]:g} does not divide dp x cp = {ranks[row]:g}: "
            f"take {nearest_divisors(shard[row], ranks[row])}")),
        ((s.zero == 0) & (shard > 1), lambda row: f"shard = {shard[row]:g}: zero = 0 shares nothing out; take zero = "
         "1, 2 or 3"),
        (~np.isnan(factor) & ~(factor > 0), lambda row: f"capacity_factor = {factor[row]:g} must be above 0, such as "
         "1.25"),
        (~np.isnan(factor) & (s.moe == 0), lambda row: f"capacity_factor = {factor[row]:g}: the model has no experts; "
         "leave it out"),
        (~(s.oversubscription >= 1), lambda row: f"oversubscription = {s.oversubscription[row]:g} must be 1 "
         "(non-blocking) or more"),
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
    return [each for each in range(1, int(whole) + 1) if whole % each == 0] or [1]


def _or(values: Any) -> str:
    return " or ".join(f"{value:g}" for value in values)
