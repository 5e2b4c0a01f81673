"""Time of the exchanges between devices: each takes the bytes, the ranks, the bandwidth of one rank and the latency.

The bandwidth is what one rank sends or receives in one direction; 'bus bandwidth' in benchmarks is the same quantity.
"""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, fraction, non_negative, positive


def ring_all_gather_seconds(
    payload_bytes: ArrayLike, ranks: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike
) -> Array:
    r"""Time of a ring all-gather: afterwards every rank holds the whole vector.

    .. math:: t = (n - 1) \left( \alpha + \frac{M}{n \beta} \right)

    Parameters
    ----------
    payload_bytes : array_like
        Whole vector, of which each rank brings one part, M [B].
    ranks : array_like
        Number of ranks, n >= 1 [-].
    bandwidth : array_like
        Slowest link, one direction, beta [B/s].
    latency : array_like
        Start of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one rank.

    References
    ----------
    Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005, section 4.1.

    Examples
    --------
    >>> round(float(ring_all_gather_seconds(100e6, 8, 50e9, 5e-6)), 6)
    0.001785
    """
    count = positive("ranks", ranks)
    wire = non_negative("payload_bytes", payload_bytes) / (count * positive("bandwidth", bandwidth))
    return np.maximum(count - 1, 0) * (non_negative("latency", latency) + wire)


def ring_reduce_scatter_seconds(
    payload_bytes: ArrayLike, ranks: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike
) -> Array:
    r"""Time of a ring reduce-scatter: afterwards every rank holds the sum of one part of the vector.

    .. math:: t = (n - 1) \left( \alpha + \frac{M}{n \beta} \right)

    Parameters
    ----------
    payload_bytes : array_like
        Vector held by each rank, M [B].
    ranks : array_like
        Number of ranks, n >= 1 [-].
    bandwidth : array_like
        Slowest link, one direction, beta [B/s].
    latency : array_like
        Start of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one rank; the additions are hidden behind the traffic.

    References
    ----------
    Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005, section 4.3.

    Examples
    --------
    >>> round(float(ring_reduce_scatter_seconds(100e6, 8, 50e9, 5e-6)), 6)
    0.001785
    """
    return ring_all_gather_seconds(payload_bytes, ranks, bandwidth, latency)


def ring_all_reduce_seconds(
    payload_bytes: ArrayLike, ranks: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike
) -> Array:
    r"""Time of a ring all-reduce: a reduce-scatter, then an all-gather.

    .. math:: t = 2 (n - 1) \left( \alpha + \frac{M}{n \beta} \right)

    Parameters
    ----------
    payload_bytes : array_like
        Vector held by each rank, M [B].
    ranks : array_like
        Number of ranks, n >= 1 [-].
    bandwidth : array_like
        Slowest link, one direction, beta [B/s].
    latency : array_like
        Start of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one rank.

    References
    ----------
    Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009, section 3.

    Examples
    --------
    >>> round(float(ring_all_reduce_seconds(100e6, 8, 50e9, 5e-6)), 6)
    0.00357
    """
    return 2 * ring_all_gather_seconds(payload_bytes, ranks, bandwidth, latency)


def tree_all_reduce_seconds(
    payload_bytes: ArrayLike, ranks: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike
) -> Array:
    r"""Time of a pipelined double-tree all-reduce: few starts, nearly the traffic of a ring.

    .. math:: t = 2 \alpha \log_2 n + 2 \frac{n - 1}{n} \frac{M}{\beta}

    Parameters
    ----------
    payload_bytes : array_like
        Vector held by each rank, M [B].
    ranks : array_like
        Number of ranks, n >= 1 [-].
    bandwidth : array_like
        Slowest link, one direction, beta [B/s].
    latency : array_like
        Start of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one rank.

    References
    ----------
    Sanders, Speck & Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Comput. 35,
    2009, section 3.

    Examples
    --------
    >>> round(float(tree_all_reduce_seconds(100e6, 8, 50e9, 5e-6)), 6)
    0.00353
    """
    count = np.maximum(positive("ranks", ranks), 1)
    wire = non_negative("payload_bytes", payload_bytes) / positive("bandwidth", bandwidth)
    return 2 * non_negative("latency", latency) * np.log2(count) + 2 * (count - 1) / count * wire


def hierarchical_all_reduce_seconds(
    payload_bytes: ArrayLike,
    inner_ranks: ArrayLike,
    outer_ranks: ArrayLike,
    inner_bandwidth: ArrayLike,
    outer_bandwidth: ArrayLike,
    inner_latency: ArrayLike,
    outer_latency: ArrayLike,
) -> Array:
    r"""Time of an all-reduce in two levels: scatter within the node, reduce parts between nodes, gather within.

    .. math:: t = 2 (i - 1) \left( \alpha_i + \frac{M}{i \beta_i} \right)
        + 2 \alpha_o \log_2 o + 2 \frac{o - 1}{o} \frac{M}{i \beta_o}

    Parameters
    ----------
    payload_bytes : array_like
        Vector held by each rank, M [B].
    inner_ranks : array_like
        Ranks within one node, i >= 1 [-].
    outer_ranks : array_like
        Nodes, o >= 1 [-].
    inner_bandwidth : array_like
        Of one rank within the node, one direction, beta_i [B/s].
    outer_bandwidth : array_like
        Share of one rank in the node's network, one direction, beta_o [B/s].
    inner_latency : array_like
        Start of one message within the node, alpha_i [s].
    outer_latency : array_like
        Start of one message between nodes, alpha_o [s].

    Returns
    -------
    numpy.ndarray
        Time [s]; a ring where there is one node, a tree where each node has one rank.

    References
    ----------
    Jia et al., Highly scalable deep learning training system with mixed-precision, arXiv:1807.11205, 2018, section 4.2.

    Examples
    --------
    >>> round(float(hierarchical_all_reduce_seconds(100e6, 8, 4, 200e9, 20e9, 0, 0)), 6)
    0.001812
    """
    inner = ring_all_reduce_seconds(payload_bytes, inner_ranks, inner_bandwidth, inner_latency)
    part = non_negative("payload_bytes", payload_bytes) / positive("inner_ranks", inner_ranks)
    return inner + tree_all_reduce_seconds(part, outer_ranks, outer_bandwidth, outer_latency)


def hierarchical_all_gather_seconds(
    payload_bytes: ArrayLike,
    inner_ranks: ArrayLike,
    outer_ranks: ArrayLike,
    inner_bandwidth: ArrayLike,
    outer_bandwidth: ArrayLike,
    latency: ArrayLike,
) -> Array:
    r"""Time of an all-gather (or reduce-scatter) over ranks of several nodes, where the slower level sets the pace.

    A ring through all ranks enters every node once on each of its network ports; everything passes the inner link.

    .. math:: t = (i o - 1) \alpha + \max\left( \frac{(i o - 1) M}{i o \beta_i}, \frac{(o - 1) M}{i o \beta_o} \right)

    Parameters
    ----------
    payload_bytes : array_like
        Whole vector, M [B].
    inner_ranks : array_like
        Ranks within one node, i >= 1 [-].
    outer_ranks : array_like
        Nodes, o >= 1 [-].
    inner_bandwidth : array_like
        Of one rank within the node, one direction, beta_i [B/s].
    outer_bandwidth : array_like
        Share of one rank in the node's network, one direction, beta_o [B/s].
    latency : array_like
        Start of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one rank.

    References
    ----------
    Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005, section 4.1 (ring, one level).

    Examples
    --------
    >>> round(float(hierarchical_all_gather_seconds(100e6, 8, 4, 200e9, 20e9, 0)), 6)
    0.000484
    """
    inner, outer = positive("inner_ranks", inner_ranks), positive("outer_ranks", outer_ranks)
    payload, ranks = non_negative("payload_bytes", payload_bytes), inner * outer
    within = np.maximum(ranks - 1, 0) / (ranks * positive("inner_bandwidth", inner_bandwidth))
    between = np.maximum(outer - 1, 0) / (ranks * positive("outer_bandwidth", outer_bandwidth))
    return np.maximum(ranks - 1, 0) * non_negative("latency", latency) + payload * np.maximum(within, between)


def all_to_all_seconds(
    payload_bytes: ArrayLike,
    inner_ranks: ArrayLike,
    outer_ranks: ArrayLike,
    inner_bandwidth: ArrayLike,
    outer_bandwidth: ArrayLike,
    latency: ArrayLike,
) -> Array:
    r"""Time in which every rank sends another part of its data to each rank, within and between nodes at once.

    .. math:: t = \alpha + \frac{M}{i o} \max\left( \frac{i - 1}{\beta_i}, \frac{i (o - 1)}{\beta_o} \right),
        \quad 0 \text{ for one rank}

    Parameters
    ----------
    payload_bytes : array_like
        Data held by each rank, M, of which it keeps one part [B].
    inner_ranks : array_like
        Ranks within one node, i >= 1 [-].
    outer_ranks : array_like
        Nodes, o >= 1 [-].
    inner_bandwidth : array_like
        Of one rank within the node, one direction, beta_i [B/s].
    outer_bandwidth : array_like
        Share of one rank in the node's network, one direction, beta_o [B/s].
    latency : array_like
        Start of the exchange, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005, section 4.2 (pairwise exchange).

    Examples
    --------
    >>> round(float(all_to_all_seconds(100e6, 8, 4, 200e9, 20e9, 0)), 6)
    0.00375
    """
    inner, outer = positive("inner_ranks", inner_ranks), positive("outer_ranks", outer_ranks)
    part = non_negative("payload_bytes", payload_bytes) / (inner * outer)
    within = np.maximum(inner - 1, 0) / positive("inner_bandwidth", inner_bandwidth)
    between = inner * np.maximum(outer - 1, 0) / positive("outer_bandwidth", outer_bandwidth)
    start = np.where(inner * outer > 1, non_negative("latency", latency), 0.0)
    return np.asarray(start + part * np.maximum(within, between))


def point_to_point_seconds(payload_bytes: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike) -> Array:
    r"""Time of one message from one rank to another.

    .. math:: t = \alpha + \frac{M}{\beta}

    Parameters
    ----------
    payload_bytes : array_like
        Message, M [B].
    bandwidth : array_like
        Slowest link, one direction, beta [B/s].
    latency : array_like
        Start of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Hockney, Parallel Comput. 20(3), 1994, equation 1.

    Examples
    --------
    >>> round(float(point_to_point_seconds(100e6, 50e9, 5e-6)), 6)
    0.002005
    """
    wire = non_negative("payload_bytes", payload_bytes) / positive("bandwidth", bandwidth)
    return np.asarray(non_negative("latency", latency) + wire)


def exposed_seconds(communication_seconds: ArrayLike, compute_seconds: ArrayLike, hidden: ArrayLike) -> Array:
    r"""Time that an exchange adds to the computation beside it, if part of the computation can hide it.

    .. math:: t_e = \max(0, t_c - h\, t_k)

    Parameters
    ----------
    communication_seconds : array_like
        Exchange alone, t_c [s].
    compute_seconds : array_like
        Computation that may run at the same time, t_k [s].
    hidden : array_like
        Share of it that does, h, 0 to 1: 0 adds the exchange whole [-].

    Returns
    -------
    numpy.ndarray
        Time [s], at most that of the exchange.

    References
    ----------
    Li et al., PyTorch Distributed, Proc. VLDB Endow. 13(12), 2020, section 3.2.3.

    Examples
    --------
    >>> float(exposed_seconds(3.0, 4.0, 0.5))
    1.0
    """
    covered = fraction("hidden", hidden) * non_negative("compute_seconds", compute_seconds)
    return np.maximum(non_negative("communication_seconds", communication_seconds) - covered, 0)


def partly_hidden_seconds(communication_seconds: ArrayLike, compute_seconds: ArrayLike, hidden: ArrayLike) -> Array:
    r"""Time that an exchange adds to the computation beside it, where part of it runs at the same time.

    .. math:: t_e = t_c - h \min(t_c, t_k)

    Parameters
    ----------
    communication_seconds : array_like
        Exchange alone, t_c [s].
    compute_seconds : array_like
        Computation beside it, t_k [s].
    hidden : array_like
        Share of the exchange that does, h, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Rajbhandari et al., ZeRO-Infinity, SC21, 2021, section 6.2 (gathering during computation).

    Examples
    --------
    >>> float(partly_hidden_seconds(3.0, 2.0, 0.5))
    2.0
    """
    alone = non_negative("communication_seconds", communication_seconds)
    return alone - fraction("hidden", hidden) * np.minimum(alone, non_negative("compute_seconds", compute_seconds))
