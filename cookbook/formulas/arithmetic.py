"""Arithmetic of training, and the time of one operation: arithmetic, memory traffic and launch.

- FLOP of a run and the rate it needs: `training_flop`, `sustained_rate`.
- Roofline: `op_seconds`, `arithmetic_intensity`, `ridge_point`, `attainable_flops`, `bound_by`, `smooth_max`; limits of
  overlap: `perfect_overlap_seconds`, `no_overlap_seconds`.

FLOP are counted as 1 MAC = 2 FLOP, bytes are those moved between memory and chip. The peak is that of one number
format, so another format is another argument, not another function.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cookbook.formulas._arguments import Array, AtLeastOne, NonNegative, Positive, checked

FLOP_PER_MAC = 2


@checked
def training_flop(
    forward_macs: NonNegative, samples: NonNegative = 1, backward: NonNegative = 2, recomputed: NonNegative = 0
) -> Array:
    r"""Return the FLOP of training on a number of samples.

    Each matrix product of the forward pass has two in the backward pass, the gradient of its input and that of its
    weights.

    .. math:: F = 2 (1 + \rho + r) A S

    Parameters
    ----------
    forward_macs : array_like
        Multiply-accumulates of the forward pass of one sample, A [MAC].
    samples : array_like
        Samples, epochs included, S [-].
    backward : array_like
        Backward pass in forward passes, rho [-].
    recomputed : array_like
        Share of the forward pass that is recomputed to save memory, r [-].

    Returns
    -------
    numpy.ndarray
        Arithmetic, two operations for each multiply-accumulate [FLOP].

    References
    ----------
    Kaplan et al., Scaling laws for neural language models, arXiv:2001.08361, 2020, section 2.1.

    Examples
    --------
    >>> f"{training_flop(11.3e9, 14e6):.3g}"
    '9.49e+17'
    """
    return FLOP_PER_MAC * (1 + backward + recomputed) * forward_macs * samples


@checked
def sustained_rate(flop: NonNegative, seconds: Positive) -> Array:
    r"""Return the throughput that must be sustained to finish in time.

    .. math:: R = F / t

    Parameters
    ----------
    flop : array_like
        Arithmetic to do, F [FLOP].
    seconds : array_like
        Time allowed, t > 0 [s].

    Returns
    -------
    numpy.ndarray
        Rate [FLOP/s].

    References
    ----------
    The founding example: 3 x 11.3e9 x 14e6 / 3600 s, in MAC/s; Hewlett Packard Labs, Deep Learning Cookbook, 2017.

    Examples
    --------
    >>> f"{sustained_rate(training_flop(11.3e9, 14e6), 3600):.3g}"
    '2.64e+14'
    """
    return np.asarray(flop / seconds)


@checked
def smooth_max(a: NonNegative, b: NonNegative, smoothness: AtLeastOne = 2) -> Array:
    r"""Return the maximum of two times that overlap imperfectly.

    .. math:: m = (a^p + b^p)^{1/p}

    Parameters
    ----------
    a : array_like
        First time [s].
    b : array_like
        Second time [s].
    smoothness : array_like
        Exponent, p >= 1 [-]: 1 adds the two (no overlap), infinity is the plain maximum (perfect overlap).

    Returns
    -------
    numpy.ndarray
        Time [s], between the maximum and the sum of the two.

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76 (the plain maximum, of which the
    p-norm is a smooth form).

    Examples
    --------
    >>> float(smooth_max(3.0, 4.0))
    5.0
    >>> float(smooth_max(3.0, 4.0, 1)), float(smooth_max(3.0, 4.0, float("inf")))
    (7.0, 4.0)
    """
    high, low = np.maximum(a, b), np.minimum(a, b)
    # The ratio keeps a^p from overflowing or vanishing; two zero times have no ratio.
    ratio = np.divide(low, high, out=np.zeros(np.broadcast_shapes(low.shape, high.shape)), where=high != 0)
    return np.asarray(high * (1 + ratio**smoothness) ** (1 / smoothness))


@checked
def op_seconds(
    flop: NonNegative,
    bytes_moved: NonNegative,
    peak_flops: Positive,
    mem_bandwidth: Positive,
    launch_seconds: NonNegative = 0,
    smoothness: ArrayLike = 2,
) -> Array:
    r"""Return the time of one operation: smooth maximum of its compute and memory times, plus its launch.

    .. math:: t = \left[ (F / P)^p + (M / W)^p \right]^{1/p} + t_0

    Parameters
    ----------
    flop : array_like
        Arithmetic of the operation, F [FLOP].
    bytes_moved : array_like
        Bytes read from and written to memory, M [B].
    peak_flops : array_like
        Peak of the number format used, dense, P > 0 [FLOP/s].
    mem_bandwidth : array_like
        Memory bandwidth, W > 0 [B/s].
    launch_seconds : array_like
        Time to start the operation that nothing hides [s].
    smoothness : array_like
        Exponent of the smooth maximum, p >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s], broadcast over the arguments.

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76.

    Examples
    --------
    A 1,024 x 4,096 by 4,096 x 4,096 product in 16 bits at 312 TFLOP/s and 2 TB/s:

    >>> flop, moved = 2 * 1024 * 4096 * 4096, 2 * (2 * 1024 * 4096 + 4096 * 4096)
    >>> round(float(op_seconds(flop, moved, 312e12, 2e12)) * 1e6, 1)
    113.0
    """
    return smooth_max(flop / peak_flops, bytes_moved / mem_bandwidth, smoothness) + launch_seconds


@checked
def arithmetic_intensity(flop: NonNegative, bytes_moved: Positive) -> Array:
    r"""Return the arithmetic intensity: FLOP per byte moved.

    .. math:: I = F / M

    Parameters
    ----------
    flop : array_like
        Arithmetic of the operation, F [FLOP].
    bytes_moved : array_like
        Bytes read from and written to memory, M > 0 [B].

    Returns
    -------
    numpy.ndarray
        Intensity [FLOP/B].

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76 ("operational intensity").

    Examples
    --------
    A linear layer of 1,024 inputs and 4,096 outputs in 16 bits, batch 512:

    >>> b, i, o = 512, 1024, 4096
    >>> round(float(arithmetic_intensity(2 * b * i * o, 2 * (b * i + i * o + b * o))))
    315
    """
    return np.asarray(flop / bytes_moved)


@checked
def ridge_point(peak_flops: Positive, mem_bandwidth: Positive) -> Array:
    r"""Return the arithmetic intensity above which arithmetic, not memory, is the limit.

    .. math:: I_r = P / W

    Parameters
    ----------
    peak_flops : array_like
        Peak of the number format used, P > 0 [FLOP/s].
    mem_bandwidth : array_like
        Memory bandwidth, W > 0 [B/s].

    Returns
    -------
    numpy.ndarray
        Intensity [FLOP/B].

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76.

    Examples
    --------
    >>> round(float(ridge_point(125e12, 900e9)))
    139
    """
    return np.asarray(peak_flops / mem_bandwidth)


@checked
def attainable_flops(intensity: NonNegative, peak_flops: Positive, mem_bandwidth: Positive) -> Array:
    r"""Return the roofline: the highest throughput that an operation of this intensity can reach.

    .. math:: R = \min(P, I W)

    Parameters
    ----------
    intensity : array_like
        Arithmetic intensity of the operation, I [FLOP/B].
    peak_flops : array_like
        Peak of the number format used, P > 0 [FLOP/s].
    mem_bandwidth : array_like
        Memory bandwidth, W > 0 [B/s].

    Returns
    -------
    numpy.ndarray
        Rate [FLOP/s].

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76, equation in section 3.

    Examples
    --------
    >>> float(attainable_flops(0.5, 17.6e9, 15e9)), float(attainable_flops(16, 17.6e9, 15e9))
    (7500000000.0, 17600000000.0)
    """
    return np.asarray(np.minimum(peak_flops, intensity * mem_bandwidth))


@checked
def bound_by(
    flop: NonNegative,
    bytes_moved: NonNegative,
    peak_flops: Positive,
    mem_bandwidth: Positive,
    launch_seconds: NonNegative = 0,
) -> NDArray[np.str_]:
    r"""Return the name of the part of an operation that takes longest.

    .. math:: \arg\max (F / P, \; M / W, \; t_0)

    Parameters
    ----------
    flop : array_like
        Arithmetic of the operation, F [FLOP].
    bytes_moved : array_like
        Bytes read from and written to memory, M [B].
    peak_flops : array_like
        Peak of the number format used, P > 0 [FLOP/s].
    mem_bandwidth : array_like
        Memory bandwidth, W > 0 [B/s].
    launch_seconds : array_like
        Time to start the operation [s].

    Returns
    -------
    numpy.ndarray
        "compute", "memory" or "launch" (the first of equals), "unknown" where a value is missing [-].

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76.

    Examples
    --------
    >>> print(*bound_by([1e12, 1e9], 1e9, 312e12, 2e12))
    compute memory
    """
    stack = np.stack(np.broadcast_arrays(flop / peak_flops, bytes_moved / mem_bandwidth, launch_seconds))
    names = np.array(["compute", "memory", "launch"])[np.argmax(stack, axis=0)]
    return np.where(np.isnan(stack).any(axis=0), "unknown", names)


@checked
def perfect_overlap_seconds(parts_seconds: NonNegative) -> Array:
    r"""Return the lower bound of the time of several parts: each is hidden behind the longest.

    .. math:: t = \max_i t_i

    Parameters
    ----------
    parts_seconds : array_like
        Total time of each part, one part an entry of the first axis, t_i [s].

    Returns
    -------
    numpy.ndarray
        Time [s], the first axis reduced; NaN where a part is missing.

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76 (bound and bottleneck analysis).

    Examples
    --------
    >>> float(perfect_overlap_seconds([3.0, 2.0, 0.5]))
    3.0
    """
    return np.asarray(np.max(np.atleast_1d(parts_seconds), axis=0))


@checked
def no_overlap_seconds(parts_seconds: NonNegative) -> Array:
    r"""Return the time of several parts that run one after the other.

    .. math:: t = \sum_i t_i

    Parameters
    ----------
    parts_seconds : array_like
        Total time of each part, one part an entry of the first axis, t_i [s].

    Returns
    -------
    numpy.ndarray
        Time [s], the first axis reduced; NaN where a part is missing.

    References
    ----------
    Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, p. 65-76 (bound and bottleneck analysis).

    Examples
    --------
    >>> float(no_overlap_seconds([3.0, 2.0, 0.5]))
    5.5
    """
    return np.asarray(np.sum(np.atleast_1d(parts_seconds), axis=0))
