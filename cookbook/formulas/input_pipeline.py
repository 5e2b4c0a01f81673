"""The chain from stored samples to a training step: cache, decoding, copy, prefetch, utilisation of the accelerator.

Rates of samples are in 1/s; an infinite argument is no limit. The storage tier itself is in `storage_rates`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import Array, AtLeastOne, Fraction, NonNegative, Positive, checked, fraction, positive


@checked
def cache_hit_rate(data_bytes: Positive, cache_bytes: NonNegative, shuffled: Fraction = 1) -> Array:
    r"""Return the share of a later epoch's reads that a least-recently-used cache, such as the page cache, serves.

    .. math:: h = \sigma \left[ c + (1 - c) \ln(1 - c) \right], \quad c = C / D < 1; \quad h = 1, \; C \ge D

    A sample is hit if fewer others than fit were read since: with a new order each epoch, a sample read with a part a
    of the epoch still to come, and again after a part v, has a + v - a v others between. Read in the same order each
    time, the cache drops every sample just before it is needed. The first epoch hits nothing.

    Parameters
    ----------
    data_bytes : array_like
        Data set as stored, D [B].
    cache_bytes : array_like
        Memory that the cache may take, C [B].
    shuffled : array_like
        1 for a new order each epoch, 0 for the same order, sigma; 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Hits over reads, 0 to 1 [-].

    References
    ----------
    Mohan et al., Proc. VLDB Endow. 14(5), 2021 (page cache thrashing; a cache that keeps what it has would hit C/D).

    Examples
    --------
    Half of the data fits, and the page cache serves a seventh:

    >>> [round(float(cache_hit_rate(100, size)), 3) for size in (50, 90, 100)]
    [0.153, 0.67, 1.0]
    >>> float(cache_hit_rate(100, 99, 0))
    0.0
    """
    part = cache_bytes / data_bytes
    missing, few = np.clip(1 - part, np.finfo(float).tiny, 1), np.clip(part, 0, 1e-3)
    series = few**2 / 2 + few**3 / 6 + few**4 / 12 + few**5 / 20  # where the difference below has no digits left
    partial = np.where(part < 1e-3, series, np.clip(1 - missing + missing * np.log(missing), 0, 1))
    return np.where(part >= 1, 1.0, shuffled * partial)


@checked
def cached_rate(hit_rate: Fraction, cache_rate: Positive, storage_rate: Positive) -> Array:
    r"""Return the rate of reads that a cache serves in part: times add, not rates.

    .. math:: r = \left( \frac{h}{r_c} + \frac{1 - h}{r_s} \right)^{-1}

    Parameters
    ----------
    hit_rate : array_like
        Part that the cache serves, h; 0 to 1 [-].
    cache_rate : array_like
        Rate of the cache alone, r_c [1/s].
    storage_rate : array_like
        Rate of the storage alone, r_s [1/s].

    Returns
    -------
    numpy.ndarray
        Rate [1/s].

    References
    ----------
    Patterson & Hennessy, Computer Organization and Design, 1994, chapter 7 (average access time).

    Examples
    --------
    >>> round(float(cached_rate(0.5, 9.0, 1.0)), 3)
    1.8
    """
    return np.asarray(1 / (hit_rate / cache_rate + (1 - hit_rate) / storage_rate))


@checked
def working_threads(workers: NonNegative, cores: Positive, second_thread: Fraction, remote: Fraction = 0) -> Array:
    r"""Return the number of cores that worker processes effectively use, with two threads per core and remote memory.

    .. math:: n = \left[ \min(w, c) + g \min(\max(w - c, 0), c) \right] (1 - u)

    Parameters
    ----------
    workers : array_like
        Worker processes, w >= 0 [-].
    cores : array_like
        Physical cores, c > 0 [-].
    second_thread : array_like
        Extra throughput of a core's second thread, g; 0 to 1 [-].
    remote : array_like
        Part of the work lost to memory of the other socket, u; 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Equivalent number of cores [-].

    References
    ----------
    Marr et al., Intel Technology Journal 6(1), 2002 (a second thread adds up to 30 %).

    Examples
    --------
    >>> [float(working_threads(w, 8, 0.25)) for w in (4, 8, 16, 64)]
    [4.0, 8.0, 10.0, 10.0]
    """
    second = second_thread * np.clip(workers - cores, 0, cores)
    return (np.minimum(workers, cores) + second) * (1 - remote)


@checked
def decode_rate(
    workers: NonNegative,
    single_rate: Positive,
    reference_rate: Positive,
    handover: NonNegative,
    collation: Positive,
    sharpness: AtLeastOne,
) -> Array:
    r"""Return the samples per second that loader processes decode and one process collates into batches.

    .. math:: r = \left[ \left( \frac{n}{1/r_1 + o/r_0} \right)^{-p} + (k\, r_0)^{-p} \right]^{-1/p}

    Parameters
    ----------
    workers : array_like
        Worker processes, n >= 0; 0 decodes in the main process at r_1 [-].
    single_rate : array_like
        Decoding rate of one core for these samples, r_1 [1/s].
    reference_rate : array_like
        Decoding rate of one core with the reference decoder, r_0, which measures the core [1/s].
    handover : array_like
        Cost of handing a sample over, o, in decodings of the reference [-].
    collation : array_like
        Throughput of the collating process, k, over the reference rate [-].
    sharpness : array_like
        Sharpness of the knee, p >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Rate [1/s].

    References
    ----------
    Iglovikov, imread_benchmark, 2026 (JPEG decoding in a PyTorch DataLoader: eight workers give 2.4 to 4.2 times one).

    Examples
    --------
    >>> [round(float(decode_rate(n, 500, 500, 0.1, 3, 4))) for n in (0, 1, 4, 64)]
    [500, 454, 1364, 1500]
    """
    sample_seconds = 1 / single_rate + handover / reference_rate
    # Times a sample, as rates to a negative power overflow.
    parallel, collect = sample_seconds / np.maximum(workers, 1), 1 / (collation * reference_rate)
    slower = np.maximum(parallel, collect)
    both = slower * (1 + (np.minimum(parallel, collect) / slower) ** sharpness) ** (1 / sharpness)
    return np.where(workers < 1, single_rate, 1 / both)


@checked
def pipelined_rate(supply_rate: Positive, demand_rate: Positive, prefetch: NonNegative, variation: Positive) -> Array:
    r"""Return the rate of a supply and a demand with a buffer of prefetched batches between them.

    .. math:: r = r_- \frac{1 - \rho^K}{1 - \rho^{K+1}}, \quad \rho = r_- / r_+, \quad K = 1 + d / v^2

    With :math:`r_-` the slower and :math:`r_+` the faster. Without prefetching the two take turns (times add); with a
    deep buffer or without variation the slower one decides. Between them the times of batches vary, and the buffer runs
    empty or full: exact for exponential times (v = 1), stretched for others.

    Parameters
    ----------
    supply_rate : array_like
        Throughput of the input pipeline [1/s].
    demand_rate : array_like
        Throughput of the accelerators [1/s].
    prefetch : array_like
        Prefetched batches, at most, d >= 0 [-].
    variation : array_like
        Standard deviation of the time of a batch over its mean, v > 0 [-].

    Returns
    -------
    numpy.ndarray
        Rate [1/s].

    References
    ----------
    Hunt, Operations Research 4(6), 1956 (two stages with a finite queue between them).

    Examples
    --------
    Supply equals demand: in turns half of it is left, with two batches in between three quarters:

    >>> [round(float(pipelined_rate(8.0, 8.0, depth, 1)), 6) for depth in (0, 2, 1e9)]
    [4.0, 6.0, 8.0]
    """
    steps = 1 + prefetch / variation**2
    slower, faster = np.minimum(supply_rate, demand_rate), np.maximum(supply_rate, demand_rate)
    logarithm = np.minimum(np.log(slower) - np.log(faster), -1e-12)
    return np.minimum(slower, slower * np.expm1(steps * logarithm) / np.expm1((steps + 1) * logarithm))


@checked
def partly_serial_rate(synthetic_rate: Positive, host_seconds: NonNegative) -> Array:
    r"""Return the training rate on real data, from that on synthetic data and the host work that nothing hides.

    .. math:: \frac{1}{r} = \frac{1}{r_s} + c

    Parameters
    ----------
    synthetic_rate : array_like
        Samples per second without input, r_s [1/s].
    host_seconds : array_like
        Host work per sample that does not overlap with the step, c [s].

    Returns
    -------
    numpy.ndarray
        Samples per second with input [1/s].

    References
    ----------
    Amdahl, AFIPS Spring Joint Computer Conference, 1967.

    Examples
    --------
    >>> round(float(partly_serial_rate(2500, 20e-6)))
    2381
    """
    return 1 / (1 / synthetic_rate + host_seconds)


@checked
def accelerator_utilisation(
    compute_seconds: Positive,
    batch: Positive,
    supply_rate: ArrayLike,
    overhead_seconds: NonNegative,
    prefetch: ArrayLike,
    variation: ArrayLike,
) -> Array:
    r"""Return the share of the time in which an accelerator computes, as MLPerf Storage defines it.

    .. math:: AU = t\, r / b, \quad r = \mathrm{pipelined}\left(s, \frac{b}{t + o}\right)

    Parameters
    ----------
    compute_seconds : array_like
        Computation time of one step, t [s].
    batch : array_like
        Samples per step, b [-].
    supply_rate : array_like
        Throughput of the input pipeline per accelerator, s [1/s].
    overhead_seconds : array_like
        Time of each step outside the computation, o [s].
    prefetch : array_like
        Prefetched batches, at most [-].
    variation : array_like
        Standard deviation of the time of a batch over its mean [-].

    Returns
    -------
    numpy.ndarray
        Utilisation, 0 to 1 [-].

    References
    ----------
    MLCommons, MLPerf Storage v1.0 rules, 2024, section 2.

    Examples
    --------
    >>> supply = [1e6, 20.0, 10.0]
    >>> [round(float(accelerator_utilisation(0.323, 7, s, 0.003, 100, 1)), 3) for s in supply]
    [0.991, 0.923, 0.461]
    """
    demand = batch / (compute_seconds + overhead_seconds)
    return compute_seconds / batch * pipelined_rate(supply_rate, demand, prefetch, variation)


@checked
def largest_accelerators(supply_rate: Positive, demand_rate: Positive, utilisation: ArrayLike) -> Array:
    r"""Return the largest number of accelerators that a supply sustains at a utilisation, in the limit of deep buffers.

    .. math:: N = \left\lfloor \frac{s}{AU_{min}\, r} \right\rfloor

    Parameters
    ----------
    supply_rate : array_like
        Total throughput of the input pipeline [B/s].
    demand_rate : array_like
        Throughput of one accelerator that never waits [B/s].
    utilisation : array_like
        Required utilisation; 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Accelerators, 0 or more [-].

    References
    ----------
    MLCommons, MLPerf Storage v1.0 rules, 2024 (0.90 for ResNet-50 and U-Net 3D).

    Examples
    --------
    A drive of 7 GB/s and U-Net 3D on H100 (3.18 GB/s each) at 0.90:

    >>> float(largest_accelerators(7e9, 3.1771e9, 0.9))
    2.0
    """
    device_rate = positive("utilisation", fraction("utilisation", utilisation)) * demand_rate
    return np.floor(supply_rate / device_rate)


@checked
def epochs_seconds(
    samples: Positive, first_rate: Positive, later_rate: Positive, epochs: AtLeastOne, warm_up: NonNegative = 0
) -> Array:
    r"""Return the time of all epochs: the first reads everything, later ones find part of it in the cache.

    .. math:: t = w + \frac{S}{r_1} + (E - 1) \frac{S}{r_2}

    Parameters
    ----------
    samples : array_like
        Samples of one epoch, S [-].
    first_rate : array_like
        Rate of the first epoch, r_1 [1/s].
    later_rate : array_like
        Rate of the later ones, r_2 [1/s].
    epochs : array_like
        Epochs, E >= 1 [-].
    warm_up : array_like
        Time until the first batch is available, w [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Mohan et al., Proc. VLDB Endow. 14(5), 2021 (fetch stalls of the first and of later epochs).

    Examples
    --------
    >>> float(epochs_seconds(1000, 10, 100, 5))
    140.0
    """
    return warm_up + samples * (1 / first_rate + (epochs - 1) / later_rate)
