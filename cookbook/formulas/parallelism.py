"""Formulas of parallel training: products on a grid, pipelines, data parallelism, scaling, failures.

- Pipelines: `flush_seconds`, `bubble_share`, `unfilled_share`, `schedule` (every pass on every device).
- Data parallelism: gradient communication, its exposed part and its limits (`hpe_2017_*`,
  `parameter_server_seconds`, `halving_doubling_seconds`, `in_network_seconds`, `compressed_bytes`,
  `bucketed_exposed_seconds`, `local_sgd_seconds`).
- Scaling in general: `amdahl_speedup`, `gustafson_speedup`, `slowest_seconds`, `samples_to_target`.
- Matrix products spread over a grid of devices: `summa_*`, `hpe_2017_summa_bandwidth`, `replicated_seconds`.
- Failures in long runs: `cluster_mtbf_seconds`, `young_1974_interval_seconds`, `daly_2006_interval_seconds`,
  `checkpoint_seconds`, `useful_share`, `run_seconds`.
- Collectives are those of `cookbook.formulas.collectives`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import (
    Array,
    AtLeastOne,
    Fraction,
    NonNegative,
    Positive,
    at_least_one,
    checked,
    reject,
)
from cookbook.formulas.collectives import (
    dragonfly_bandwidth,
    hierarchical_all_reduce_seconds,
    nested_all_gather_seconds,
    nested_all_reduce_seconds,
    nested_all_to_all_seconds,
    nested_bisection_bandwidth,
    rail_all_to_all_seconds,
    ring_all_reduce_seconds,
    saturating_bandwidth,
    switch_all_reduce_seconds,
    torus_all_gather_seconds,
    torus_all_reduce_seconds,
    torus_all_to_all_seconds,
    torus_bisection_bandwidth,
    tree_all_reduce_seconds,
)

__all__ = [
    "SCHEDULES",
    "amdahl_speedup",
    "bubble_share",
    "bucketed_exposed_seconds",
    "cluster_mtbf_seconds",
    "compressed_bytes",
    "daly_2006_interval_seconds",
    "dragonfly_bandwidth",
    "flush_seconds",
    "gustafson_speedup",
    "halving_doubling_seconds",
    "hierarchical_all_reduce_seconds",
    "hpe_2017_best_workers",
    "hpe_2017_data_parallel_seconds",
    "hpe_2017_summa_bandwidth",
    "in_network_seconds",
    "local_sgd_seconds",
    "nested_all_gather_seconds",
    "nested_all_reduce_seconds",
    "nested_all_to_all_seconds",
    "nested_bisection_bandwidth",
    "parameter_server_seconds",
    "rail_all_to_all_seconds",
    "replicated_seconds",
    "ring_all_reduce_seconds",
    "samples_to_target",
    "saturating_bandwidth",
    "schedule",
    "slowest_seconds",
    "summa_required_bandwidth",
    "summa_seconds",
    "switch_all_reduce_seconds",
    "torus_all_gather_seconds",
    "torus_all_reduce_seconds",
    "torus_all_to_all_seconds",
    "torus_bisection_bandwidth",
    "tree_all_reduce_seconds",
    "useful_share",
    "young_1974_interval_seconds",
]


SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
# Weight gradients of a micro-batch that fit into a stage's part of the bubble; other schedules fill nothing.
FILLED = {"zero-bubble": 2.0, "zb-v": 3.0}
FORWARD, BACKWARD, WEIGHTS = range(3)


@checked
def flush_seconds(stage_seconds: NonNegative, micro_batches: AtLeastOne) -> Array:
    r"""Return the time of one flush: every micro-batch passes all stages, and the slowest stage sets the pace.

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
    return stage_seconds.sum(axis=-1) + (micro_batches - 1) * stage_seconds.max(axis=-1)


@checked
def bubble_share(
    kind: str,
    stages: AtLeastOne,
    micro_batches: AtLeastOne,
    interleave: ArrayLike = 1,
    weights_share: ArrayLike = 1 / 3,
) -> Array:
    r"""Return the time that devices of a pipeline with equal stages wait, divided by the time that they compute.

    .. math:: \frac{(p - 1)\, g}{m v}, \quad g = \max(0, 1 - k x): \text{ weight gradients fill k of the gaps}

    Parameters
    ----------
    kind : str
        One of `SCHEDULES`, or "zb-v", two chunks in a V shape [-].
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
    kinds = dict.fromkeys([*SCHEDULES, *FILLED])
    if kind not in kinds:
        raise ValueError(f"kind = {str(kind)[:40]!r} is not a schedule; take one of {', '.join(kinds)}")
    chunks = at_least_one("interleave", interleave) if kind == "interleaved" else 1.0
    waits = (stages - 1) * unfilled_share(FILLED.get(kind, 0.0), weights_share)
    return waits / (micro_batches * chunks)


@checked
def unfilled_share(filled: NonNegative, weights_share: Fraction) -> Array:
    r"""Return the share of a pipeline's bubble that weight gradients, which nothing waits for, do not fill.

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
        Share of the bubble [-].

    References
    ----------
    Qi, Wan, Huang & Lin, Zero bubble pipeline parallelism, ICLR 2024, table 2: k = 2 for ZB-H1, 3 for ZB-H2 and ZB-V.

    Examples
    --------
    >>> unfilled_share([0, 2, 3], 0.25).tolist()
    [1.0, 0.5, 0.25]
    """
    return np.maximum(1 - filled * weights_share, 0)


def schedule(
    kind: str,
    forward_seconds: Sequence[float],
    backward_seconds: Sequence[float],
    micro_batches: int,
    interleave: int = 1,
    weights_share: float = 0.5,
) -> dict[str, Array]:
    r"""Return every pass of one flush: its device, micro-batch, start and end.

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
        Share of the backward pass that computes weight gradients, which nothing waits for [-]; for zero-bubble alone.

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
    seconds = np.stack(
        [
            np.asarray(forward_seconds, dtype=float) / interleave,
            backward,
            np.asarray(backward_seconds, dtype=float) * weights_share,
        ]
    )
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
        steady = [task for pair in zip(forward[ahead:], backward, strict=False) for task in pair]
        return forward[:ahead] + steady + backward[total - ahead :]

    def _nth(self, k: int, back: bool) -> tuple[int, int]:
        group, within = divmod(k, self.stages * self.chunks)
        if self.chunks == 1:
            return k, 0
        chunk, first = divmod(within, self.stages)
        return group * self.stages + first, self.chunks - 1 - chunk if back else chunk


def _run(plan: _Plan, seconds: Array) -> dict[str, Array]:
    """Start every pass as soon as its device is free and its inputs are available."""
    done: dict[tuple[int, int, int], float] = {}
    waiting = [plan.order(device) for device in range(plan.stages)]
    free, owed = [0.0] * plan.stages, [list[tuple[int, int]]() for _ in range(plan.stages)]
    stored = [0] * plan.stages
    passes: list[tuple[float, ...]] = []
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
        passes.append((device, micro, chunk, phase, start, end))
        free[device] = end
        stored[device] += {FORWARD: 1, WEIGHTS: -1}.get(phase, 0)
        if phase != WEIGHTS:
            done[phase, micro, chunk * plan.stages + device] = end
        if phase == BACKWARD and plan.kind == "zero-bubble":
            owed[device].append((micro, chunk))

    while any(waiting):
        _fill(plan, waiting, ready, free, owed, stored, take, seconds)
    for device, left in enumerate(owed):
        for micro, chunk in left:
            take(device, WEIGHTS, micro, chunk, free[device])
    names = ("device", "micro_batch", "chunk", "phase", "start", "end")
    return dict(zip(names, np.array(sorted(passes, key=lambda entry: (entry[4], entry[0]))).T, strict=True))


def _fill(
    plan: _Plan,
    waiting: list[list[tuple[int, int, int]]],
    ready: Callable[[int], float | None],
    free: list[float],
    owed: list[list[tuple[int, int]]],
    stored: list[int],
    take: Callable[[int, int, int, int, float], None],
    seconds: Array,
) -> None:
    """Run the pass that can start first; weight gradients fill a gap before it, and free the memory that it needs."""
    starts = [(max(at, free[d]), d) for d in range(plan.stages) if waiting[d] and (at := ready(d)) is not None]
    start, device = min(starts)
    phase, micro, chunk = waiting[device].pop(0)
    while owed[device] and (
        free[device] + seconds[WEIGHTS, device] <= start + 1e-12 or (phase == FORWARD and stored[device] >= plan.stages)
    ):
        take(device, WEIGHTS, *owed[device].pop(0), free[device])
    take(device, phase, micro, chunk, max(start, free[device]))


@checked
def hpe_2017_data_parallel_seconds(
    model_flop: NonNegative, weight_bytes: NonNegative, workers: AtLeastOne, flops: Positive, bandwidth: Positive
) -> dict[str, Array]:
    r"""Return computation and communication of data-parallel training as in the Deep Learning Cookbook of 2017.

    .. math:: t_c = \frac{c}{p \gamma}, \qquad t_x = \frac{2 w \log_2 p}{\beta}

    The batch stays the same, so each worker gets a p-th of it (strong scaling). The second formula is no longer legible
    in the document; it is reconstructed after Keuper and Pfreundt, who analyse the same communication.

    Parameters
    ----------
    model_flop : array_like
        Arithmetic of one step of the whole batch, c [FLOP].
    weight_bytes : array_like
        Size of all weights, w [B].
    workers : array_like
        Workers, p >= 1 [-].
    flops : array_like
        Arithmetic rate of one worker, gamma [FLOP/s].
    bandwidth : array_like
        Rate of a worker's link, beta [B/s].

    Returns
    -------
    dict of str to numpy.ndarray
        ``compute`` and ``exchange`` [s].

    References
    ----------
    Serebryakov & Vassilieva, Deep Learning Cookbook, Hewlett Packard Enterprise, 2017; Keuper & Pfreundt,
    Distributed training of deep neural networks: theoretical and practical limits of parallel scalability, 2016.

    Examples
    --------
    >>> found = hpe_2017_data_parallel_seconds(1e12, 2.4e8, 8, 4e12, 16e9)
    >>> {name: round(float(seconds), 5) for name, seconds in found.items()}
    {'compute': 0.03125, 'exchange': 0.09}
    """
    return {"compute": model_flop / (workers * flops), "exchange": 2 * weight_bytes * np.log2(workers) / bandwidth}


@checked
def hpe_2017_best_workers(
    model_flop: NonNegative, weight_bytes: Positive, flops: Positive, bandwidth: Positive
) -> Array:
    r"""Return the number of workers at which the step of `hpe_2017_data_parallel_seconds` is shortest.

    More workers make it longer.

    .. math:: p^* = \max\left( 1, \frac{c\, \beta \ln 2}{2\, w\, \gamma} \right)

    Parameters
    ----------
    model_flop : array_like
        Arithmetic of one step of the whole batch, c [FLOP].
    weight_bytes : array_like
        Size of all weights, w [B].
    flops : array_like
        Arithmetic rate of one worker, gamma [FLOP/s].
    bandwidth : array_like
        Rate of a worker's link, beta [B/s].

    Returns
    -------
    numpy.ndarray
        Workers, not rounded [-].

    References
    ----------
    Keuper & Pfreundt, Distributed training of deep neural networks, 2016 (limits of scaling); here the derivative of
    `hpe_2017_data_parallel_seconds` by the number of workers, set to zero.

    Examples
    --------
    >>> round(float(hpe_2017_best_workers(1e13, 1e8, 4e12, 16e9)), 1)
    138.6
    """
    work = model_flop / flops
    exchange = 2 * weight_bytes / bandwidth
    return np.maximum(work * np.log(2) / exchange, 1.0)


@checked
def parameter_server_seconds(
    payload_bytes: NonNegative,
    workers: AtLeastOne,
    servers: AtLeastOne,
    worker_bandwidth: Positive,
    server_bandwidth: Positive,
) -> Array:
    r"""Return the time in which all workers send gradients to parameter servers and fetch weights.

    .. math:: t = M \max\left( \frac{1}{\beta_w}, \frac{p}{s \beta_s} \right) \cdot 2

    Parameters
    ----------
    payload_bytes : array_like
        Size of the gradients, and of the weights, M [B].
    workers : array_like
        Workers, p >= 1 [-].
    servers : array_like
        Servers that share the weights evenly, s >= 1 [-].
    worker_bandwidth : array_like
        Rate of a worker's link, one direction [B/s].
    server_bandwidth : array_like
        Rate of a server's link, one direction [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014.

    Examples
    --------
    One server is a bottleneck for eight workers, eight servers are not:

    >>> parameter_server_seconds(1e8, 8, [1, 8], 1e10, 1e10).tolist()
    [0.16, 0.02]
    """
    return 2 * payload_bytes * np.maximum(1 / worker_bandwidth, workers / servers / server_bandwidth)


@checked
def halving_doubling_seconds(
    payload_bytes: NonNegative, ranks: AtLeastOne, bandwidth: Positive, latency: NonNegative
) -> Array:
    r"""Return the time of an all-reduce by recursive halving and doubling: the traffic of a ring, few latencies.

    .. math:: t = 2 \lceil \log_2 p \rceil \alpha + \frac{2 (p - 1)}{p} \frac{M}{\beta}

    Parameters
    ----------
    payload_bytes : array_like
        Size of the vector, M [B].
    ranks : array_like
        Ranks, p >= 1; the formula is exact for powers of two [-].
    bandwidth : array_like
        Rate of a rank's link, one direction, beta [B/s].
    latency : array_like
        Latency of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one rank.

    References
    ----------
    Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005.

    Examples
    --------
    >>> round(float(halving_doubling_seconds(1e6, 8, 1e9, 1e-5)), 6)
    0.00181
    """
    starts = 2 * np.ceil(np.log2(ranks)) * latency
    traffic = 2 * (ranks - 1) / ranks * payload_bytes
    return starts + traffic / bandwidth


@checked
def in_network_seconds(
    payload_bytes: NonNegative, ranks: AtLeastOne, bandwidth: Positive, latency: NonNegative
) -> Array:
    r"""Return the time of an in-network all-reduce: every rank sends its vector once and receives the sum once.

    .. math:: t = 2 \alpha + \frac{M}{\beta} \quad (p > 1)

    Parameters
    ----------
    payload_bytes : array_like
        Size of the vector, M [B].
    ranks : array_like
        Ranks, p >= 1 [-].
    bandwidth : array_like
        Rate of a rank's link, one direction, beta [B/s].
    latency : array_like
        Time from a rank to the top of the switches, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one rank.

    References
    ----------
    Graham et al., Scalable hierarchical aggregation protocol (SHArP), COMHPC 2016.

    Examples
    --------
    >>> in_network_seconds(1e9, [1, 8], 1e11, 0).tolist()
    [0.0, 0.01]
    """
    return (ranks > 1) * (2 * latency + payload_bytes / bandwidth)


@checked
def compressed_bytes(
    payload_bytes: NonNegative, kept_share: Fraction, element_bytes: Positive, index_bytes: NonNegative
) -> Array:
    r"""Return the bytes of gradients of which only the largest are sent, each with its position.

    .. math:: M' = \min\left( M,\; r M \frac{w + i}{w} \right)

    Parameters
    ----------
    payload_bytes : array_like
        Size of all gradients, M [B].
    kept_share : array_like
        Share of the elements that is sent, r, 0 to 1 [-].
    element_bytes : array_like
        Size of one element, w [B].
    index_bytes : array_like
        Size of one position, i [B].

    Returns
    -------
    numpy.ndarray
        Size of what is sent [B].

    References
    ----------
    Lin, Han, Mao, Wang & Dally, Deep gradient compression, ICLR 2018.

    Examples
    --------
    >>> compressed_bytes(1e9, [0.001, 0.9], 4, 4).tolist()
    [2000000.0, 1000000000.0]
    """
    longer = (element_bytes + index_bytes) / element_bytes
    return np.minimum(payload_bytes, payload_bytes * kept_share * longer)


@checked
def bucketed_exposed_seconds(
    exchange_seconds: NonNegative, backward_seconds: NonNegative, buckets: AtLeastOne
) -> Array:
    r"""Return the time by which a bucketed gradient all-reduce outlasts the concurrent backward pass.

    .. math:: t = \frac{x}{k} + \max\left( 0,\; \left(1 - \frac{1}{k}\right) (x - b) \right)

    A bucket starts when the backward pass has filled it; the last one can never be hidden.

    Parameters
    ----------
    exchange_seconds : array_like
        Time of the whole communication, x [s].
    backward_seconds : array_like
        Time of the backward pass, b [s].
    buckets : array_like
        Buckets of equal size, k >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s]: all of the communication with one bucket.

    References
    ----------
    Li et al., PyTorch distributed: experiences on accelerating data parallel training, VLDB 2020.

    Examples
    --------
    >>> bucketed_exposed_seconds(0.04, 0.1, [1, 4, 40]).round(4).tolist()
    [0.04, 0.01, 0.001]
    """
    left = np.maximum(exchange_seconds - backward_seconds, 0)
    return exchange_seconds / buckets + (1 - 1 / buckets) * left


@checked
def local_sgd_seconds(step_seconds: NonNegative, exchange_seconds: NonNegative, period: AtLeastOne) -> Array:
    r"""Return the mean time of a step where parameters are averaged only once per period.

    .. math:: t = t_s + \frac{x}{H}

    Fewer averages can cost more steps to the same accuracy: this is time, not time to accuracy.

    Parameters
    ----------
    step_seconds : array_like
        Time of a step without communication, t_s [s].
    exchange_seconds : array_like
        Exposed time of one average of all parameters, x [s].
    period : array_like
        Steps from one average to the next, H >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Stich, Local SGD converges fast and communicates little, ICLR 2019.

    Examples
    --------
    >>> local_sgd_seconds(0.1, 0.05, [1, 10]).round(4).tolist()
    [0.15, 0.105]
    """
    return step_seconds + exchange_seconds / period


@checked
def amdahl_speedup(workers: AtLeastOne, serial_share: Fraction) -> Array:
    r"""Return the speed-up of a problem of fixed size, of which a share is serial.

    .. math:: S = \frac{1}{s + (1 - s) / p}

    Parameters
    ----------
    workers : array_like
        Workers, p >= 1 [-].
    serial_share : array_like
        Serial share of the time of one worker, s, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Speed-up [-], at most 1 / s.

    References
    ----------
    Amdahl, Validity of the single processor approach to achieving large scale computing capabilities, AFIPS 1967.

    Examples
    --------
    >>> amdahl_speedup([1, 8, 1e9], 0.05).round(2).tolist()
    [1.0, 5.93, 20.0]
    """
    return 1 / (serial_share + (1 - serial_share) / workers)


@checked
def gustafson_speedup(workers: AtLeastOne, serial_share: Fraction) -> Array:
    r"""Return the speed-up of a problem that grows with the workers, except for a serial share of its time.

    .. math:: S = s + p (1 - s)

    Parameters
    ----------
    workers : array_like
        Workers, p >= 1 [-].
    serial_share : array_like
        Serial share of the time of all workers, s, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Speed-up [-].

    References
    ----------
    Gustafson, Reevaluating Amdahl's law, Commun. ACM 31(5), 1988.

    Examples
    --------
    >>> gustafson_speedup(8, 0.05).round(2).tolist()
    7.65
    """
    return serial_share + workers * (1 - serial_share)


_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


@checked
def slowest_seconds(mean_seconds: NonNegative, spread_seconds: NonNegative, workers: AtLeastOne) -> Array:
    r"""Return the expected time of the slowest of many workers with normally distributed times.

    .. math:: t = \mu + \sigma\, \Phi^{-1}\left( \frac{p - 3/8}{p + 1/4} \right)

    Parameters
    ----------
    mean_seconds : array_like
        Mean time of one worker, mu [s].
    spread_seconds : array_like
        Standard deviation, sigma [s].
    workers : array_like
        Workers that step together, p >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Blom, Statistical estimates and transformed beta-variables, 1958 (expected order statistics).

    Examples
    --------
    With a spread of 2 %, eight workers lose 3 % and a thousand 6 %:

    >>> slowest_seconds(1.0, 0.02, [1, 8, 1000]).round(3).tolist()
    [1.0, 1.029, 1.065]
    """
    rank = (workers - 0.375) / (workers + 0.25)
    return mean_seconds + spread_seconds * _quantile(rank)


@checked
def samples_to_target(least_samples: NonNegative, batch: Positive, critical_batch: Positive) -> Array:
    r"""Return the number of samples to a given loss, which rises beyond the critical batch size.

    .. math:: E = E_0 \left( 1 + \frac{B}{B_c} \right)

    Parameters
    ----------
    least_samples : array_like
        Samples with very small batches, E_0 [-].
    batch : array_like
        Global batch, B [-].
    critical_batch : array_like
        Batch at which twice the number of samples is needed, B_c [-].

    Returns
    -------
    numpy.ndarray
        Samples [-].

    References
    ----------
    McCandlish, Kaplan & Amodei, An empirical model of large-batch training, arXiv:1812.06162, 2018; that batches
    beyond some size stop paying depends on the model and the data: Shallue et al., JMLR 20(112), 2019.

    Examples
    --------
    >>> samples_to_target(1e6, [256, 4096], 4096).tolist()
    [1062500.0, 2000000.0]
    """
    return least_samples * (1 + batch / critical_batch)


@checked
def _side(grid: AtLeastOne) -> Array:
    """Return the rows of a square grid, an integer: ten devices form no square."""
    uneven = grid > np.floor(grid)
    if uneven.any():
        reject("grid", grid, uneven, "the whole numbers", "p rows and columns make p squared devices")
    return grid


@checked
def summa_seconds(
    size: AtLeastOne, grid: ArrayLike, flops: Positive, bandwidth: Positive, element_bytes: Positive = 4.0
) -> dict[str, Array]:
    r"""Return the time of one square product on a square grid of devices, by computation and by data received.

    .. math:: t_c = \frac{2 n^3}{p^2 \gamma}, \qquad t_d = \frac{2 w n^2}{\beta} \frac{p - 1}{p^2}

    The grid has p rows and p columns: p squared devices, not p. Each receives the blocks of its row and of its column
    but its own, so that one device by itself receives nothing.

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix: inputs, outputs and batch, n [-].
    grid : array_like
        Rows of the grid, p, an integer [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    bandwidth : array_like
        Rate at which one device receives, from memory or from others, beta [B/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    dict of str to numpy.ndarray
        ``compute`` and ``data`` [s].

    References
    ----------
    van de Geijn & Watts, SUMMA: scalable universal matrix multiplication algorithm, Concurrency 9(4), 1997.

    Examples
    --------
    On four devices of 15 TFLOP/s, matrices of 2000 take as long to compute as to receive at 30 GB/s:

    >>> {name: round(float(t), 7) for name, t in summa_seconds(2000, 2, 15e12, 30e9).items()}
    {'compute': 0.0002667, 'data': 0.0002667}
    """
    p = _side(grid)
    received = 2 * element_bytes * size**2 * (p - 1) / p**2
    return {"compute": 2 * size**3 / (p**2 * flops), "data": received / bandwidth}


@checked
def summa_required_bandwidth(
    size: AtLeastOne, grid: ArrayLike, flops: Positive, element_bytes: Positive = 4.0
) -> Array:
    r"""Return the bandwidth that each device of a grid needs so that data do not take longer than computation.

    .. math:: \beta \ge \frac{w\, (p - 1)\, \gamma}{n}

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix, n [-].
    grid : array_like
        Rows of the grid, p, an integer, for p squared devices [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    numpy.ndarray
        Bandwidth [B/s]; 0 for one device, which has all data.

    References
    ----------
    van de Geijn & Watts, SUMMA: scalable universal matrix multiplication algorithm, Concurrency 9(4), 1997.

    Examples
    --------
    1, 4 and 100 devices of 15 TFLOP/s at n = 2000 need 0, 30 and 270 GB/s:

    >>> (summa_required_bandwidth(2000, [1, 2, 10], 15e12) / 1e9).round().tolist()
    [0.0, 30.0, 270.0]
    """
    p = _side(grid)
    return element_bytes * (p - 1) * flops / size


@checked
def hpe_2017_summa_bandwidth(
    size: AtLeastOne, grid: AtLeastOne, flops: Positive, element_bytes: Positive = 4.0
) -> Array:
    r"""Return `summa_bandwidth` as in the Deep Learning Cookbook of 2017: p instead of p - 1, even for one device.

    .. math:: \beta \ge \frac{w\, p\, \gamma}{n}

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix, n [-].
    grid : array_like
        Rows of the grid, p >= 1; the easy misreading takes the number of devices [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    numpy.ndarray
        Bandwidth [B/s].

    References
    ----------
    Hewlett Packard Labs, Deep Learning Cookbook, 2017, after van de Geijn & Watts 1997.

    Examples
    --------
    The document prints 30 GB/s for p = 1 and 300 GB/s for p = 10:

    >>> (hpe_2017_summa_bandwidth(2000, [1, 10], 15e12) / 1e9).round().tolist()
    [30.0, 300.0]
    """
    return element_bytes * grid * flops / size


@checked
def replicated_seconds(
    size: AtLeastOne,
    devices: AtLeastOne,
    copies: AtLeastOne,
    flops: Positive,
    bandwidth: Positive,
    element_bytes: Positive = 4.0,
) -> dict[str, Array]:
    r"""Return the time of one square product where the grid is stacked.

    Copies of the inputs save traffic and cost memory.

    .. math:: t_c = \frac{2 n^3}{P \gamma}, \qquad
        t_d = \frac{w n^2}{\beta} \left( \frac{2}{\sqrt{c P}} - \frac{2}{P} + \frac{3 (c - 1)}{P} \right)

    A device does not receive its own blocks, 2 / P. The last part is copying both inputs to the layers, and summing
    the results of the layers.

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix, n [-].
    devices : array_like
        Devices in all, P >= 1 [-].
    copies : array_like
        Layers of the grid, each with a copy of the inputs, c, 1 to the cube root of P [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    bandwidth : array_like
        Rate at which one device receives, beta [B/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    dict of str to numpy.ndarray
        ``compute`` and ``data`` [s]; with one copy those of `summa_seconds`.

    Raises
    ------
    ValueError
        More copies than the cube root of the devices: no traffic is left to save.

    References
    ----------
    Solomonik & Demmel, Communication-optimal parallel 2.5D matrix multiplication and LU, Euro-Par 2011.

    Examples
    --------
    >>> one, four = (replicated_seconds(20000, 64, c, 15e12, 30e9)["data"] for c in (1, 4))
    >>> round(float(one), 4), round(float(four), 4)
    (0.0117, 0.0125)
    """
    if np.any(copies > np.cbrt(devices) * (1 + 1e-9)):
        raise ValueError(
            f"copies = {np.max(copies):g} is more than the cube root of devices = {np.min(devices):g}: "
            "take fewer copies"
        )
    traffic = 2 / np.sqrt(copies * devices) - 2 / devices + 3 * (copies - 1) / devices
    seconds = element_bytes * size**2 / bandwidth
    return {"compute": 2 * size**3 / (devices * flops), "data": seconds * traffic}


@checked
def cluster_mtbf_seconds(device_mtbf_seconds: Positive, devices: AtLeastOne) -> Array:
    r"""Return the mean time between failures of a job that stops when any of its devices fails.

    .. math:: M = M_1 / n

    Parameters
    ----------
    device_mtbf_seconds : array_like
        Mean time between failures that one device accounts for, its share of host and network included, M_1 [s].
    devices : array_like
        Devices, n >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Feller, An introduction to probability theory and its applications, vol. 1, 1968 (independent failures at random).

    Examples
    --------
    Devices that fail every five years each stop a job of 10,000 more than five times a day:

    >>> round(float(cluster_mtbf_seconds(5 * 365 * 86400, 10_000)) / 3600, 2)
    4.38
    """
    return device_mtbf_seconds / devices


@checked
def young_1974_interval_seconds(checkpoint_seconds: NonNegative, mtbf_seconds: Positive) -> Array:
    r"""Return the optimal work time between checkpoints, to first order.

    .. math:: \tau = \sqrt{2 \delta M}

    Parameters
    ----------
    checkpoint_seconds : array_like
        Time for which writing a checkpoint stops the work, delta [s].
    mtbf_seconds : array_like
        Mean time between failures, M [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Young, A first order approximation to the optimum checkpoint interval, Commun. ACM 17(9), 1974.

    Examples
    --------
    >>> float(young_1974_interval_seconds(50.0, 10_000.0))
    1000.0
    """
    return np.sqrt(2 * checkpoint_seconds * mtbf_seconds)


@checked
def daly_2006_interval_seconds(checkpoint_seconds: NonNegative, mtbf_seconds: Positive) -> Array:
    r"""Return the optimal work time between checkpoints, also for checkpoints that are long compared with the MTBF.

    .. math:: \tau = \sqrt{2 \delta M} \left( 1 + \tfrac{1}{3} \sqrt{\tfrac{\delta}{2 M}}
        + \tfrac{1}{9} \tfrac{\delta}{2 M} \right) - \delta \quad (\delta < 2 M), \quad \text{else } M

    Parameters
    ----------
    checkpoint_seconds : array_like
        Time for which writing a checkpoint stops the work, delta [s].
    mtbf_seconds : array_like
        Mean time between failures, M [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.

    Examples
    --------
    >>> round(float(daly_2006_interval_seconds(50.0, 10_000.0)), 1)
    966.9
    """
    share = np.minimum(checkpoint_seconds / (2 * mtbf_seconds), 1)
    interval = (
        np.sqrt(2 * checkpoint_seconds * mtbf_seconds) * (1 + np.sqrt(share) / 3 + share / 9) - checkpoint_seconds
    )
    return np.where(checkpoint_seconds < 2 * mtbf_seconds, interval, mtbf_seconds)


@checked
def useful_share(
    interval_seconds: Positive, checkpoint_seconds: NonNegative, restart_seconds: NonNegative, mtbf_seconds: Positive
) -> Array:
    r"""Return the share of the time spent on work that is kept: not checkpointing, lost or restarting.

    .. math:: g = \frac{\tau}{M e^{R / M} \left( e^{(\tau + \delta) / M} - 1 \right)}

    Parameters
    ----------
    interval_seconds : array_like
        Work between checkpoints, tau [s].
    checkpoint_seconds : array_like
        Time for which writing a checkpoint stops the work, delta [s].
    restart_seconds : array_like
        Time from a failure until work goes on, R [s].
    mtbf_seconds : array_like
        Mean time between failures, M [s].

    Returns
    -------
    numpy.ndarray
        Share, called goodput where it is of throughput [-].

    References
    ----------
    Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.

    Examples
    --------
    >>> round(float(useful_share(967.0, 50.0, 300.0, 10_000.0)), 4)
    0.8766
    """
    cycle = interval_seconds + checkpoint_seconds
    return interval_seconds / (mtbf_seconds * np.exp(restart_seconds / mtbf_seconds) * np.expm1(cycle / mtbf_seconds))


@checked
def checkpoint_seconds(parameters: NonNegative, bytes_per_parameter: NonNegative, bandwidth: Positive) -> Array:
    r"""Return the time of writing weights and optimiser states, from all devices together.

    .. math:: \delta = \frac{b N}{\beta}

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    bytes_per_parameter : array_like
        Bytes stored per parameter: weight, master weight, states of the optimiser, b [B].
    bandwidth : array_like
        Write bandwidth of the storage, beta [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.1 (states of mixed-precision Adam).

    Examples
    --------
    405 billion parameters, with 2 + 12 bytes each, to a storage of 2 TB/s:

    >>> float(checkpoint_seconds(405e9, 14, 2e12))
    2.835
    """
    return parameters * bytes_per_parameter / bandwidth


@checked
def run_seconds(
    tokens: NonNegative, tokens_per_step: Positive, step_seconds: NonNegative, useful: Positive = 1.0
) -> Array:
    r"""Return the time of a training run from its first to its last token, failures included.

    .. math:: t = \frac{D}{B}\, \frac{t_{step}}{g}

    Parameters
    ----------
    tokens : array_like
        Tokens to train on, D [-].
    tokens_per_step : array_like
        Tokens of one update, B > 0 [-].
    step_seconds : array_like
        Time of one step [s].
    useful : array_like
        Share of the time spent on work that is kept, g > 0 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC21, 2021,
    section 5.1 (end-to-end training time).

    Examples
    --------
    >>> float(run_seconds(1e12, 4e6, 2.0, 0.8)) / 86400
    7.233796296296297
    """
    return tokens / tokens_per_step * step_seconds / useful
