"""Pipelines: the time of stages that need not be equal, and the schedule of every pass on every device."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, at_least_one, fraction, non_negative

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
# How many weight gradients of a micro-batch a stage's part of the bubble takes; other schedules fill nothing.
FILLED = {"zero-bubble": 2.0, "zb-v": 3.0}
FORWARD, BACKWARD, WEIGHTS = range(3)


def flush_seconds(stage_seconds: ArrayLike, micro_batches: ArrayLike) -> Array:
    r"""Time of one flush: every micro-batch passes all stages, and the slowest stage sets the pace.

    .. math:: t = \sum_s t_s + (m - 1) \max_s t_s

    Parameters
    ----------
    stage_seconds : array_like, (..., p)
        Forward and backward pass of one micro-batch through each stage [s].
    micro_batches : array_like, (...)
        Micro-batches between two flushes, m >= 1 [-].

    Returns
    -------
    numpy.ndarray, (...)
        Time [s].

    References
    ----------
    Huang et al., GPipe, NeurIPS 2019; here with stages of unequal time.

    Examples
    --------
    Four equal stages, eight micro-batches; then the same work with a heavier last stage:

    >>> float(flush_seconds([1, 1, 1, 1], 8)), float(flush_seconds([0.9, 0.9, 0.9, 1.3], 8))
    (11.0, 13.1)
    """
    stages = non_negative("stage_seconds", stage_seconds)
    return stages.sum(axis=-1) + (at_least_one("micro_batches", micro_batches) - 1) * stages.max(axis=-1)


def bubble_share(
    kind: str, stages: ArrayLike, micro_batches: ArrayLike, interleave: ArrayLike = 1, weights_share: ArrayLike = 1 / 3
) -> Array:
    r"""Time that devices of a pipeline with equal stages wait, over the time that they compute.

    .. math:: \frac{(p - 1)\, g}{m v}, \quad g = \max(0, 1 - k x): \text{ weight gradients fill k of the gaps}

    Parameters
    ----------
    kind : str
        One of `SCHEDULES`, or "zb-v", two chunks in the form of a V [-].
    stages : array_like
        Stages, p >= 1 [-].
    micro_batches : array_like
        Micro-batches between two flushes, m >= 1 [-].
    interleave : array_like
        Chunks of layers on each device, v; 1 unless the schedule is interleaved [-].
    weights_share : array_like
        Share of a micro-batch's time that goes into weight gradients, x; k = 2 for zero-bubble, 3 for zb-v [-].

    Returns
    -------
    numpy.ndarray
        Bubble over computation [-].

    References
    ----------
    Narayanan et al., Efficient large-scale language model training on GPU clusters, SC21, 2021; Qi, Wan, Huang & Lin,
    Zero bubble pipeline parallelism, ICLR 2024 (ZB-H1 and ZB-V, which keep the memory of 1F1B).

    Examples
    --------
    >>> [round(float(bubble_share(kind, 8, 32, 2)), 4) for kind in SCHEDULES]
    [0.2188, 0.2188, 0.1094, 0.0729]
    """
    known = dict.fromkeys([*SCHEDULES, *FILLED])
    if kind not in known:
        raise ValueError(f"kind = {str(kind)[:40]!r} is not a schedule; take one of {', '.join(known)}")
    chunks = at_least_one("interleave", interleave) if kind == "interleaved" else 1.0
    waits = (at_least_one("stages", stages) - 1) * unfilled_share(FILLED.get(kind, 0.0), weights_share)
    return waits / (at_least_one("micro_batches", micro_batches) * chunks)


def unfilled_share(filled: ArrayLike, weights_share: ArrayLike) -> Array:
    r"""Part of a pipeline's bubble that weight gradients, which nobody waits for, do not fill.

    .. math:: g = \max(0, 1 - k x)

    Parameters
    ----------
    filled : array_like
        Weight gradients of a micro-batch that fit into the bubble of a stage, k; 0 where they stay in their place [-].
    weights_share : array_like
        Their share of a micro-batch's time, x, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Part of the bubble [-].

    References
    ----------
    Qi, Wan, Huang & Lin, Zero bubble pipeline parallelism, ICLR 2024, table 2: k = 2 for ZB-H1, 3 for ZB-H2 and ZB-V.

    Examples
    --------
    >>> unfilled_share([0, 2, 3], 0.25).tolist()
    [1.0, 0.5, 0.25]
    """
    return np.maximum(1 - non_negative("filled", filled) * fraction("weights_share", weights_share), 0)


def schedule(
    kind: str,
    forward_seconds: Sequence[float],
    backward_seconds: Sequence[float],
    micro_batches: int,
    interleave: int = 1,
    weights_share: float = 0.5,
) -> dict[str, Array]:
    r"""Every pass of one flush: on which device, of which micro-batch, from when to when.

    .. math:: t_{start} = \max(t_{device\ free},\; t_{input\ there}), \qquad t_{end} = t_{start} + t_{pass}

    Parameters
    ----------
    kind : str
        One of `SCHEDULES` [-].
    forward_seconds, backward_seconds : sequence of float, (p,)
        Time of one micro-batch on each device [s].
    micro_batches : int
        Micro-batches of the flush [-]; a multiple of the devices where the schedule is interleaved.
    interleave : int
        Chunks of layers on each device [-]; more than 1 only where the schedule is interleaved.
    weights_share : float
        Share of the backward pass that computes weight gradients, which nobody waits for [-]; for zero-bubble alone.

    Returns
    -------
    dict of str to numpy.ndarray
        ``device``, ``micro_batch``, ``chunk``, ``phase`` (0 forward, 1 backward, 2 weight gradients), ``start`` and
        ``end`` [s], one entry a pass.

    Raises
    ------
    ValueError
        An unknown schedule, or numbers that it cannot work with.

    References
    ----------
    Narayanan et al., SC21, 2021; Qi et al., ICLR 2024. Messages between stages take no time here.

    Examples
    --------
    >>> passes = schedule("1f1b", [1, 1], [2, 2], 4)
    >>> float(passes["end"].max()), len(passes["end"])
    (15.0, 16)
    """
    stages = len(forward_seconds)
    _check(kind, stages, len(backward_seconds), micro_batches, interleave)
    split = kind == "zero-bubble"
    backward = np.asarray(backward_seconds, dtype=float) * (1 - weights_share if split else 1.0) / interleave
    seconds = np.stack([
        np.asarray(forward_seconds, dtype=float) / interleave,
        backward,
        np.asarray(backward_seconds, dtype=float) * weights_share,
    ])  # fmt: skip
    return _run(_Plan(kind, stages, micro_batches, interleave), seconds)


def _check(kind: str, stages: int, others: int, micro_batches: int, interleave: int) -> None:
    if kind not in SCHEDULES:
        raise ValueError(f"kind = {kind!r} is not a schedule; take one of {', '.join(SCHEDULES)}")
    if stages < 1 or stages != others:
        raise ValueError(f"forward_seconds has {stages} entries, backward_seconds {others}: one for each device")
    if micro_batches < 1:
        raise ValueError(f"micro_batches = {micro_batches} must be 1 or more")
    if kind == "interleaved" and (interleave < 2 or micro_batches % stages):
        raise ValueError(
            f"interleave = {interleave}, micro_batches = {micro_batches}: take 2 chunks or more, and a multiple of "
            f"{stages} micro-batches"
        )
    if kind != "interleaved" and interleave != 1:
        raise ValueError(f"interleave = {interleave} must be 1 unless kind is 'interleaved'")


class _Plan:
    """In which order a device takes its passes: (phase, micro-batch, chunk)."""

    def __init__(self, kind: str, stages: int, micro_batches: int, chunks: int) -> None:
        self.kind, self.stages, self.micro_batches, self.chunks = kind, stages, micro_batches, chunks

    def order(self, device: int) -> list[tuple[int, int, int]]:
        total = self.micro_batches * self.chunks
        forward = [(FORWARD, *self._nth(k, False)) for k in range(total)]
        backward = [(BACKWARD, *self._nth(k, True)) for k in range(total)]
        if self.kind == "gpipe":
            return forward + backward
        ahead = self.stages - device - 1
        if self.kind == "interleaved":
            ahead = 2 * ahead + (self.chunks - 1) * self.stages
        ahead = min(ahead, total)
        steady = [each for pair in zip(forward[ahead:], backward, strict=False) for each in pair]
        return forward[:ahead] + steady + backward[total - ahead :]

    def _nth(self, k: int, back: bool) -> tuple[int, int]:
        group, within = divmod(k, self.stages * self.chunks)
        if self.chunks == 1:
            return k, 0
        chunk, first = divmod(within, self.stages)
        return group * self.stages + first, self.chunks - 1 - chunk if back else chunk


def _run(plan: _Plan, seconds: Array) -> dict[str, Array]:
    """Start every pass as soon as its device is free and what it needs is there."""
    done: dict[tuple[int, int, int], float] = {}
    waiting = [plan.order(device) for device in range(plan.stages)]
    free, owed = [0.0] * plan.stages, [list[tuple[int, int]]() for _ in range(plan.stages)]
    kept = [0] * plan.stages
    found: list[tuple[float, ...]] = []
    last = plan.stages * plan.chunks - 1

    def ready(device: int) -> float | None:
        phase, micro, chunk = waiting[device][0]
        stage = chunk * plan.stages + device
        needs = [(FORWARD, micro, stage - 1)] if phase == FORWARD else [(FORWARD, micro, stage)]
        needs += [(BACKWARD, micro, stage + 1)] if phase == BACKWARD and stage < last else []
        times = [done.get(need) for need in needs if need[2] >= 0]
        return None if None in times else max([0.0, *times])  # type: ignore[type-var]

    def take(device: int, phase: int, micro: int, chunk: int, start: float) -> None:
        end = start + float(seconds[phase, device])
        found.append((device, micro, chunk, phase, start, end))
        free[device] = end
        kept[device] += {FORWARD: 1, WEIGHTS: -1}.get(phase, 0)
        if phase != WEIGHTS:
            done[phase, micro, chunk * plan.stages + device] = end
        if phase == BACKWARD and plan.kind == "zero-bubble":
            owed[device].append((micro, chunk))

    while any(waiting):
        _fill(plan, waiting, ready, free, owed, kept, take, seconds)
    for device, left in enumerate(owed):
        for micro, chunk in left:
            take(device, WEIGHTS, micro, chunk, free[device])
    names = ("device", "micro_batch", "chunk", "phase", "start", "end")
    return dict(zip(names, np.array(sorted(found, key=lambda each: (each[4], each[0]))).T, strict=True))


def _fill(
    plan: _Plan, waiting: list[list[tuple[int, int, int]]], ready: Callable[[int], float | None], free: list[float],
    owed: list[list[tuple[int, int]]], kept: list[int], take: Callable[[int, int, int, int, float], None],
    seconds: Array,
) -> None:  # fmt: skip
    """Take the pass that can start first; weight gradients fill a gap before it, and free the memory that it needs."""
    starts = [(max(at, free[d]), d) for d in range(plan.stages) if waiting[d] and (at := ready(d)) is not None]
    start, device = min(starts)
    phase, micro, chunk = waiting[device].pop(0)
    while owed[device] and (
        free[device] + seconds[WEIGHTS, device] <= start + 1e-12 or (phase == FORWARD and kept[device] >= plan.stages)
    ):
        take(device, WEIGHTS, *owed[device].pop(0), free[device])
    take(device, phase, micro, chunk, max(start, free[device]))
