"""Work of one device in one micro-batch of a sharded transformer, and the schedule of micro-batches in a step."""

from __future__ import annotations

import numpy as np

from cookbook.formulas._arguments import Array, AtLeastOne, Fraction, NonNegative, Positive, checked


@checked
def aligned(size: NonNegative, multiple: Positive) -> Array:
    r"""Return the width that a tensor core computes for a requested one, rounded up to a multiple of its tile.

    .. math:: x' = q \lceil x / q \rceil

    Parameters
    ----------
    size : array_like
        Requested width, x [-].
    multiple : array_like
        Width of a tile, q >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Width computed [-].

    References
    ----------
    Anthony et al., The case for co-designing model architectures with hardware, ICPP 2024, section 3.1.

    Examples
    --------
    >>> float(aligned(1729, 64))
    1792.0
    """
    # A width that rounding errors put just above a multiple is that multiple.
    return np.ceil(size / multiple - 1e-9) * multiple


@checked
def product_seconds(flop: NonNegative, moved_bytes: NonNegative, flops: Positive, mem_bandwidth: Positive) -> Array:
    r"""Return the time of matrix products.

    Tiles are loaded before their arithmetic and stored after it, so the times add up.

    .. math:: t = F / R + M / W

    Parameters
    ----------
    flop : array_like
        Arithmetic, F [FLOP].
    moved_bytes : array_like
        Traffic, M [B].
    flops : array_like
        Achieved arithmetic rate, R [FLOP/s].
    mem_bandwidth : array_like
        Achieved memory bandwidth, W [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    NVIDIA, Matrix multiplication background user's guide, DU-09798-001, 2023, section 3 (tiles); the sum of both times
    is the other end of the roofline of Williams, Waterman & Patterson, Commun. ACM 52(4), 2009, which takes the larger.

    Examples
    --------
    A product of 4096 x 4096 x 4096 in 16 bits at 250 TFLOP/s and 1.7 TB/s:

    >>> round(float(product_seconds(2 * 4096**3, 3 * 2 * 4096**2, 250e12, 1.7e12)), 6)
    0.000609
    """
    return flop / flops + moved_bytes / mem_bandwidth


@checked
def mean_context(seq: AtLeastOne, window: AtLeastOne = np.inf) -> Array:
    r"""Return the mean number of keys that a token attends to, causal, within a sliding window.

    .. math:: c = \frac{u (u + 1)}{2 s} + \frac{(s - u) u}{s}, \quad u = \min(s, w)

    Parameters
    ----------
    seq : array_like
        Length of the sequence, s >= 1 [-].
    window : array_like
        Keys within reach of a token, itself included, w [-].

    Returns
    -------
    numpy.ndarray
        Keys [-]; half the sequence without a window.

    References
    ----------
    Beltagy, Peters & Cohan, Longformer, arXiv:2004.05150, 2020, section 3.1.

    Examples
    --------
    >>> float(mean_context(4096)), float(mean_context(4096, 128))
    (2048.5, 126.015625)
    """
    reach = np.minimum(seq, window)
    return reach * ((reach + 1) / 2 + seq - reach) / seq


@checked
def attention_flop(
    tokens: NonNegative, context: NonNegative, query_width: NonNegative, value_width: NonNegative
) -> Array:
    r"""Return the FLOP of the attention core: scores, and the values weighted by them.

    .. math:: F = 2 T c (d_q + d_v)

    Parameters
    ----------
    tokens : array_like
        Tokens of the micro-batch on this device, T [-].
    context : array_like
        Keys that a token attends to on average, c [-].
    query_width : array_like
        Width of all queries on this device: heads times head size, d_q [-].
    value_width : array_like
        Width of all values that the heads weigh, d_v [-].

    Returns
    -------
    numpy.ndarray
        Multiply-adds counted twice [-].

    References
    ----------
    Dao, FlashAttention-2, arXiv:2307.08691, 2023, section 4.1.

    Examples
    --------
    >>> float(attention_flop(2048, 1024.5, 4096, 4096)) / 1e9
    34.376515584
    """
    return 2 * tokens * context * (query_width + value_width)


@checked
def elementwise_bytes(
    tokens: NonNegative,
    hidden: NonNegative,
    attention_width: NonNegative,
    mlp_width: NonNegative,
    sequence_shards: AtLeastOne,
    hidden_passes: NonNegative,
    attention_passes: NonNegative,
    mlp_passes: NonNegative,
) -> Array:
    r"""Return the traffic between the matrix products of a layer: norms, sums, rotations, activations.

    .. math:: M = T \left( \frac{p_h h}{S} + p_a d + p_f f \right)

    Parameters
    ----------
    tokens : array_like
        Tokens of the micro-batch, T [-].
    hidden : array_like
        Width of the residual stream, h [-].
    attention_width : array_like
        Queries, keys and values on this device, d [-].
    mlp_width : array_like
        Inner width of the feed-forward layer on this device, f [-].
    sequence_shards : array_like
        Devices that share the work on the residual stream, S >= 1 [-].
    hidden_passes : array_like
        Bytes read and written for each element of the stream, p_h [B].
    attention_passes : array_like
        Bytes for each element of queries, keys and values, p_a [B].
    mlp_passes : array_like
        Bytes for each element of the inner width, p_f [B].

    Returns
    -------
    numpy.ndarray
        Traffic [B].

    References
    ----------
    Ivanov et al., Data movement is all you need, MLSys 2021, section 4; Korthikanti et al., MLSys 2023, section 4.

    Examples
    --------
    >>> float(elementwise_bytes(2048, 4096, 12288, 16384, 1, 20, 4, 4)) / 1e6
    402.653184
    """
    stream = hidden_passes * hidden / sequence_shards
    return tokens * (stream + attention_passes * attention_width + mlp_passes * mlp_width)


@checked
def distinct_ranks(choices: NonNegative, ranks: AtLeastOne) -> Array:
    r"""Return the expected number of different devices that store a token's experts.

    .. math:: r = n \left[ 1 - (1 - 1/n)^k \right]

    Parameters
    ----------
    choices : array_like
        Experts of a token, k [-].
    ranks : array_like
        Devices that share the experts, n >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Devices [-], 1 where one device holds all experts.

    References
    ----------
    Feller, An introduction to probability theory and its applications, vol. 1, 1968, section IX.2 (occupancy).

    Examples
    --------
    >>> round(float(distinct_ranks(8, 8)), 3), float(distinct_ranks(8, 1))
    (5.251, 1.0)
    """
    return ranks * (1 - (1 - 1 / ranks) ** choices)


@checked
def expert_rows(tokens: NonNegative, choices: NonNegative, experts: NonNegative, ragged_rows: NonNegative) -> Array:
    r"""Return the rows that the expert products of all local experts compute, including the ragged end of each.

    .. math:: R = k T + q\, E

    Parameters
    ----------
    tokens : array_like
        Tokens that reach the local experts if each were sent once, T [-].
    choices : array_like
        Experts of a token, k [-].
    experts : array_like
        Experts on this device, E [-].
    ragged_rows : array_like
        Rows lost per expert to partly filled tiles and uneven routing, q [-].

    Returns
    -------
    numpy.ndarray
        Rows [-].

    References
    ----------
    Gale, Narayanan, Young & Zaharia, MegaBlocks, MLSys 2023, section 5.

    Examples
    --------
    >>> float(expert_rows(4096, 8, 16, 64))
    33792.0
    """
    return tokens * choices + ragged_rows * experts


@checked
def bubble_seconds(
    stage_seconds: NonNegative, stages: AtLeastOne, interleave: AtLeastOne, flushes: NonNegative
) -> Array:
    r"""Return the time that the devices of a pipeline wait while it fills and drains.

    .. math:: t = \frac{(p - 1) f}{v} t_s

    Parameters
    ----------
    stage_seconds : array_like
        Forward and backward pass of one micro-batch through one stage, t_s [s].
    stages : array_like
        Stages of the pipeline, p >= 1 [-].
    interleave : array_like
        Chunks of layers on each device, v >= 1 [-].
    flushes : array_like
        Number of times that the pipeline is drained per step, f [-].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one stage.

    References
    ----------
    Narayanan et al., Efficient large-scale language model training on GPU clusters, SC21, 2021, section 2.2.

    Examples
    --------
    >>> round(float(bubble_seconds(0.1, 8, 2, 1)), 6)
    0.35
    """
    return (stages - 1) * flushes / interleave * stage_seconds


@checked
def straggler_seconds(step_seconds: NonNegative, nodes: AtLeastOne, share: Fraction) -> Array:
    r"""Return the time added because every step waits for the slowest of many nodes.

    .. math:: t = s\, t_s \log_2 N

    Parameters
    ----------
    step_seconds : array_like
        Step of a node alone, t_s [s].
    nodes : array_like
        Nodes that step together, N >= 1 [-].
    share : array_like
        Share of a step added with each doubling, s, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one node.

    References
    ----------
    Dean & Barroso, The tail at scale, Commun. ACM 56(2), 2013 (waiting for the slowest; the logarithm is a fit).

    Examples
    --------
    >>> round(float(straggler_seconds(10.0, 64, 0.01)), 3)
    0.6
    """
    return share * step_seconds * np.log2(nodes)
