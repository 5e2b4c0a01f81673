"""Collectives and their exposed time: communication in a node and between nodes, on nested networks and on tori.

- Rings, trees and hierarchies: `ring_*`, `tree_*`, `hierarchical_*`, `all_to_all_seconds`, `point_to_point_seconds`.
- Overlap with computation: `exposed_seconds`, `partly_hidden_seconds`.
- Links and switches: `saturating_bandwidth`, `switch_all_reduce_seconds`, `rail_all_to_all_seconds`,
  `dragonfly_bandwidth`.
- Nested networks, `nested_*`: a list of levels. At each, groups of some size communicate with the others, and every
  device has its part of the rate out of its group: groups of 1 over NVLink, of 8 over the node's adapters, of a pod
  over the spine. Whatever the route, the level whose links need longest sets the pace; levels work at the same time.
- Tori, `torus_*`: devices joined along each of a few axes without switches. Axes that close to rings have two ways to
  each device (l = 2 links per axis); open ones, of a part of a machine, end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import Array, AtLeastOne, Fraction, NonNegative, Positive, checked


@checked
def ring_all_gather_seconds(
    payload_bytes: NonNegative, ranks: Positive, bandwidth: Positive, latency: NonNegative
) -> Array:
    r"""Return the time of a ring all-gather, after which every rank has the whole vector.

    .. math:: t = (n - 1) \left( \alpha + \frac{M}{n \beta} \right)

    Parameters
    ----------
    payload_bytes : array_like
        Size of the whole vector, of which each rank contributes one part, M [B].
    ranks : array_like
        Number of ranks, n >= 1 [-].
    bandwidth : array_like
        Bandwidth of the slowest link, one direction, beta [B/s].
    latency : array_like
        Latency of one message, alpha [s].

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
    wire = payload_bytes / (ranks * bandwidth)
    return np.maximum(ranks - 1, 0) * (latency + wire)


def ring_all_reduce_seconds(
    payload_bytes: ArrayLike, ranks: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike
) -> Array:
    r"""Return the time of a ring all-reduce: a reduce-scatter, then an all-gather.

    .. math:: t = 2 (n - 1) \left( \alpha + \frac{M}{n \beta} \right)

    Parameters
    ----------
    payload_bytes : array_like
        Vector on each rank, M [B].
    ranks : array_like
        Number of ranks, n >= 1 [-].
    bandwidth : array_like
        Bandwidth of the slowest link, one direction, beta [B/s].
    latency : array_like
        Latency of one message, alpha [s].

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


@checked
def tree_all_reduce_seconds(
    payload_bytes: NonNegative, ranks: Positive, bandwidth: Positive, latency: NonNegative
) -> Array:
    r"""Return the time of a pipelined double-tree all-reduce: few latencies, nearly the traffic of a ring.

    .. math:: t = 2 \alpha \log_2 n + 2 \frac{n - 1}{n} \frac{M}{\beta}

    Parameters
    ----------
    payload_bytes : array_like
        Vector on each rank, M [B].
    ranks : array_like
        Number of ranks, n >= 1 [-].
    bandwidth : array_like
        Bandwidth of the slowest link, one direction, beta [B/s].
    latency : array_like
        Latency of one message, alpha [s].

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
    count = np.maximum(ranks, 1)
    wire = payload_bytes / bandwidth
    return 2 * latency * np.log2(count) + 2 * (count - 1) / count * wire


@checked
def hierarchical_all_reduce_seconds(
    payload_bytes: NonNegative,
    inner_ranks: Positive,
    outer_ranks: ArrayLike,
    inner_bandwidth: ArrayLike,
    outer_bandwidth: ArrayLike,
    inner_latency: ArrayLike,
    outer_latency: ArrayLike,
) -> Array:
    r"""Return the time of a two-level all-reduce: scatter within the node, reduce between nodes, gather within.

    .. math:: t = 2 (i - 1) \left( \alpha_i + \frac{M}{i \beta_i} \right)
        + 2 \alpha_o \log_2 o + 2 \frac{o - 1}{o} \frac{M}{i \beta_o}

    Parameters
    ----------
    payload_bytes : array_like
        Vector on each rank, M [B].
    inner_ranks : array_like
        Ranks within one node, i >= 1 [-].
    outer_ranks : array_like
        Nodes, o >= 1 [-].
    inner_bandwidth : array_like
        Bandwidth of one rank within the node, one direction, beta_i [B/s].
    outer_bandwidth : array_like
        Bandwidth of the node's network divided by its ranks, one direction, beta_o [B/s].
    inner_latency : array_like
        Latency of one message within the node, alpha_i [s].
    outer_latency : array_like
        Latency of one message between nodes, alpha_o [s].

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
    part = payload_bytes / inner_ranks
    return inner + tree_all_reduce_seconds(part, outer_ranks, outer_bandwidth, outer_latency)


@checked
def hierarchical_all_gather_seconds(
    payload_bytes: NonNegative,
    inner_ranks: Positive,
    outer_ranks: Positive,
    inner_bandwidth: Positive,
    outer_bandwidth: Positive,
    latency: NonNegative,
) -> Array:
    r"""Return the time of an all-gather (or reduce-scatter) over several nodes, where the slower level sets the pace.

    A ring through all ranks enters every node once on each network port; all data pass the links inside the node.

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
        Bandwidth of one rank within the node, one direction, beta_i [B/s].
    outer_bandwidth : array_like
        Bandwidth of the node's network divided by its ranks, one direction, beta_o [B/s].
    latency : array_like
        Latency of one message, alpha [s].

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
    ranks = inner_ranks * outer_ranks
    within = np.maximum(ranks - 1, 0) / (ranks * inner_bandwidth)
    between = np.maximum(outer_ranks - 1, 0) / (ranks * outer_bandwidth)
    return np.maximum(ranks - 1, 0) * latency + payload_bytes * np.maximum(within, between)


@checked
def all_to_all_seconds(
    payload_bytes: NonNegative,
    inner_ranks: Positive,
    outer_ranks: Positive,
    inner_bandwidth: Positive,
    outer_bandwidth: Positive,
    latency: NonNegative,
) -> Array:
    r"""Return the time of an all-to-all.

    Each rank sends a different part of its data to every other rank, within and between nodes at once.

    .. math:: t = \alpha + \frac{M}{i o} \max\left( \frac{i - 1}{\beta_i}, \frac{i (o - 1)}{\beta_o} \right),
        \quad 0 \text{ for one rank}

    Parameters
    ----------
    payload_bytes : array_like
        Data on each rank, M, one part of which stays there [B].
    inner_ranks : array_like
        Ranks within one node, i >= 1 [-].
    outer_ranks : array_like
        Nodes, o >= 1 [-].
    inner_bandwidth : array_like
        Bandwidth of one rank within the node, one direction, beta_i [B/s].
    outer_bandwidth : array_like
        Bandwidth of the node's network divided by its ranks, one direction, beta_o [B/s].
    latency : array_like
        Latency of the transfer, alpha [s].

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
    part = payload_bytes / (inner_ranks * outer_ranks)
    within = np.maximum(inner_ranks - 1, 0) / inner_bandwidth
    between = inner_ranks * np.maximum(outer_ranks - 1, 0) / outer_bandwidth
    start = np.where(inner_ranks * outer_ranks > 1, latency, 0.0)
    return np.asarray(start + part * np.maximum(within, between))


@checked
def point_to_point_seconds(payload_bytes: NonNegative, bandwidth: Positive, latency: NonNegative) -> Array:
    r"""Return the time of one message from one rank to another.

    .. math:: t = \alpha + \frac{M}{\beta}

    Parameters
    ----------
    payload_bytes : array_like
        Size of the message, M [B].
    bandwidth : array_like
        Bandwidth of the slowest link, one direction, beta [B/s].
    latency : array_like
        Latency of one message, alpha [s].

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
    return np.asarray(latency + payload_bytes / bandwidth)


@checked
def exposed_seconds(communication_seconds: NonNegative, compute_seconds: NonNegative, hidden: Fraction) -> Array:
    r"""Return the exposed time of a collective, if part of the concurrent computation can hide it.

    .. math:: t_e = \max(0, t_c - h\, t_k)

    Parameters
    ----------
    communication_seconds : array_like
        Time of the communication alone, t_c [s].
    compute_seconds : array_like
        Computation that may run concurrently, t_k [s].
    hidden : array_like
        Share of it that overlaps, h, 0 to 1; with 0 all of the communication is exposed [-].

    Returns
    -------
    numpy.ndarray
        Time [s], at most that of the communication.

    References
    ----------
    Li et al., PyTorch Distributed, Proc. VLDB Endow. 13(12), 2020, section 3.2.3.

    Examples
    --------
    >>> float(exposed_seconds(3.0, 4.0, 0.5))
    1.0
    """
    return np.maximum(communication_seconds - hidden * compute_seconds, 0)


@checked
def partly_hidden_seconds(communication_seconds: NonNegative, compute_seconds: NonNegative, hidden: Fraction) -> Array:
    r"""Return the exposed time of a collective, part of which runs concurrently with computation.

    .. math:: t_e = t_c - h \min(t_c, t_k)

    Parameters
    ----------
    communication_seconds : array_like
        Time of the communication alone, t_c [s].
    compute_seconds : array_like
        Concurrent computation, t_k [s].
    hidden : array_like
        Share of the communication that overlaps, h, 0 to 1 [-].

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
    return communication_seconds - hidden * np.minimum(communication_seconds, compute_seconds)


@checked
def saturating_bandwidth(payload_bytes: Positive, bandwidth: Positive, half_bytes: NonNegative) -> Array:
    r"""Return the bandwidth that a collective of some size reaches.

    With small messages, links are idle between their pieces.

    .. math:: \beta(M) = \frac{\beta}{1 + \sqrt{M_{1/2} / M}}

    Parameters
    ----------
    payload_bytes : array_like
        Payload of the collective, M > 0 [B].
    bandwidth : array_like
        Bandwidth of large payloads, beta [B/s].
    half_bytes : array_like
        Payload that reaches half of that bandwidth, M_1/2; 0 for links that are always saturated [B].

    Returns
    -------
    numpy.ndarray
        Bandwidth [B/s].

    References
    ----------
    Hockney, Parallel Comput. 20(3), 1994, section 2.2 (half-performance length); the square root is a fit to curves of
    nccl-tests, whose payload is cut into more pieces and channels as it grows.

    Examples
    --------
    >>> (saturating_bandwidth([1e6, 16e6, 1.6e9], 400e9, 16e6) / 1e9).round(1).tolist()
    [80.0, 200.0, 363.6]
    """
    return np.asarray(bandwidth / (1 + np.sqrt(half_bytes / payload_bytes)))


@checked
def switch_all_reduce_seconds(
    payload_bytes: NonNegative, devices: AtLeastOne, bandwidth: Positive, latency: NonNegative
) -> Array:
    r"""Return the time of an in-network all-reduce: a device sends its vector, and its part of the sum.

    .. math:: t = 2 \alpha + \frac{n + 1}{n} \frac{M}{\beta} \quad (n > 1)

    Parameters
    ----------
    payload_bytes : array_like
        Vector on each device, M [B].
    devices : array_like
        Devices at the switch, n >= 1 [-].
    bandwidth : array_like
        Bandwidth of one device, one direction, beta [B/s].
    latency : array_like
        Latency of one message, alpha [s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one device.

    References
    ----------
    Klenk, Jiang, Thorson & Dennison, An in-network architecture for accelerating shared-memory multiprocessor
    collectives, ISCA 2020, section IV.

    Examples
    --------
    >>> round(float(switch_all_reduce_seconds(1e9, 8, 450e9, 0)), 6)
    0.0025
    """
    wire = (devices + 1) / devices * payload_bytes / bandwidth
    return np.asarray((devices > 1) * (2 * latency + wire))


@checked
def nested_all_gather_seconds(
    payload_bytes: NonNegative, devices: ArrayLike, groups: ArrayLike, bandwidths: ArrayLike, latencies: ArrayLike
) -> Array:
    r"""Return the time of an all-gather or a reduce-scatter by rings that enter each group once on every port it has.

    .. math:: t = \sum_l \alpha_l \log_2 \frac{g_{l+1}}{g_l} + \max_{l: g_l < n} \frac{n - 1}{n} \frac{M}{g_l \beta_l}

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Whole vector, M [B].
    devices : array_like, (...)
        Participating devices, n >= 1, spread evenly over the fewest groups that hold them [-].
    groups : array_like, (..., levels)
        Devices of the groups that a level joins, g, ascending from 1; from n on a level is not used [-].
    bandwidths : array_like, (..., levels)
        Bandwidth out of such a group per device, one direction, beta [B/s].
    latencies : array_like, (..., levels)
        Latency of one message between such groups, alpha [s].

    Returns
    -------
    numpy.ndarray, (...)
        Time [s], 0 for one device.

    References
    ----------
    Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005, section 4.1, with a ring for each
    port of a node as in NCCL; starts as in a tree.

    Examples
    --------
    Four nodes of 8; the adapters of a node, 8 x 50 GB/s, are slower than NVLink:

    >>> round(float(nested_all_gather_seconds(1e9, 32, [1, 8], [450e9, 50e9], [0, 0])), 6)
    0.002422
    """
    n, g, rate, start = _levels(devices, groups, bandwidths, latencies)
    share = np.where(g < n[..., None], 1 / (g * rate), 0).max(axis=-1)
    return np.asarray(start + payload_bytes * (n - 1) / n * share)


def nested_all_reduce_seconds(
    payload_bytes: ArrayLike, devices: ArrayLike, groups: ArrayLike, bandwidths: ArrayLike, latencies: ArrayLike
) -> Array:
    r"""Return the time of an all-reduce on nested groups: a reduce-scatter, then an all-gather.

    .. math:: t = 2 \left( \sum_l \alpha_l \log_2 \frac{g_{l+1}}{g_l}
        + \max_{l: g_l < n} \frac{n - 1}{n} \frac{M}{g_l \beta_l} \right)

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Vector on each device, M [B].
    devices : array_like, (...)
        Participating devices, n >= 1 [-].
    groups : array_like, (..., levels)
        Devices of the groups that a level joins, g, ascending from 1 [-].
    bandwidths : array_like, (..., levels)
        Bandwidth out of such a group per device, one direction, beta [B/s].
    latencies : array_like, (..., levels)
        Latency of one message between such groups, alpha [s].

    Returns
    -------
    numpy.ndarray, (...)
        Time [s], 0 for one device.

    References
    ----------
    Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009, section 3, with a ring for each port of a node.

    Examples
    --------
    The spine of pods of 256 has a seventh of their rate, but a ring enters a pod once: it does not matter.

    >>> [round(float(nested_all_reduce_seconds(1e9, 1024, [1, 8, 256], [450e9, 50e9, 50e9 / o], 0)), 6) for o in (1, 7)]
    [0.004995, 0.004995]
    """
    return 2 * nested_all_gather_seconds(payload_bytes, devices, groups, bandwidths, latencies)


@checked
def nested_all_to_all_seconds(
    payload_bytes: NonNegative, devices: ArrayLike, groups: ArrayLike, bandwidths: ArrayLike, latencies: NonNegative
) -> Array:
    r"""Return the time of an all-to-all on nested groups: all data except a group's own part leave it.

    .. math:: t = \max_{l: g_l < n} \alpha_l + \max_{l: g_l < n} \frac{n - g_l}{n} \frac{M}{\beta_l}

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Data on each device, M, one part of which stays there [B].
    devices : array_like, (...)
        Participating devices, n >= 1 [-].
    groups : array_like, (..., levels)
        Devices of the groups that a level joins, g, ascending from 1 [-].
    bandwidths : array_like, (..., levels)
        Bandwidth out of such a group per device, one direction, beta [B/s].
    latencies : array_like, (..., levels)
        Latency of one message between such groups, alpha [s].

    Returns
    -------
    numpy.ndarray, (...)
        Time [s], 0 for one device.

    References
    ----------
    Leiserson, Fat-trees: universal networks for hardware-efficient supercomputing, IEEE Trans. Comput. C-34(10), 1985,
    section III (load factor of a cut).

    Examples
    --------
    The same spine as for the all-reduce: here three quarters of all data cross it.

    >>> [round(float(nested_all_to_all_seconds(1e9, 1024, [1, 8, 256], [450e9, 50e9, 50e9 / o], 0)), 6) for o in (1, 7)]
    [0.019844, 0.105]
    """
    n, g, rate, _ = _levels(devices, groups, bandwidths, latencies)
    active = g < n[..., None]
    start = np.where(active, latencies, 0).max(axis=-1)
    share = np.where(active, (1 - g / n[..., None]) / rate, 0).max(axis=-1)
    return np.asarray(start + payload_bytes * share)


@checked
def rail_all_to_all_seconds(
    payload_bytes: NonNegative, devices: AtLeastOne, domain: AtLeastOne, link: Positive, network: Positive
) -> Array:
    r"""Return the time of an all-to-all where each rank of a node has its own rail.

    Data first go to the neighbour on the destination's rail.

    .. math:: t = \max\left( \frac{d - 1}{d} \frac{M}{\beta_l}, \frac{n - d}{n} \frac{M}{\beta_n} \right), \quad d \le n

    Parameters
    ----------
    payload_bytes : array_like
        Data on each device, M [B].
    devices : array_like
        Participating devices, n >= 1 [-].
    domain : array_like
        Devices per node, d >= 1, each with its rail [-].
    link : array_like
        Bandwidth of one device within the node, one direction, beta_l [B/s].
    network : array_like
        Bandwidth of one device on its rail, one direction, beta_n [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s], 0 for one device: no switch above the rails is needed.

    References
    ----------
    Wang et al., Rail-only: a low-cost high-performance network for training LLMs, arXiv:2307.12169, 2023, section IV.

    Examples
    --------
    >>> round(float(rail_all_to_all_seconds(1e9, 1024, 8, 450e9, 50e9)), 6)
    0.019844
    """
    d = np.minimum(domain, devices)
    within, between = (d - 1) / d / link, (1 - d / devices) / network
    return np.asarray(payload_bytes * np.maximum(within, between))


def nested_bisection_bandwidth(devices: ArrayLike, groups: ArrayLike, bandwidths: ArrayLike) -> Array:
    r"""Return the bisection bandwidth of a nested network, along the borders of groups that are small enough.

    .. math:: B = \frac{n}{2} \min_{l: g_l \le n / 2} \beta_l

    Parameters
    ----------
    devices : array_like, (...)
        Devices, n >= 2 [-].
    groups : array_like, (..., levels)
        Devices of the groups that a level joins, g, ascending from 1 [-].
    bandwidths : array_like, (..., levels)
        Bandwidth out of such a group per device, one direction, beta [B/s].

    Returns
    -------
    numpy.ndarray, (...)
        Rate in one direction [B/s].

    References
    ----------
    Dally & Towles, Principles and practices of interconnection networks, 2004, section 3.2.1.

    Examples
    --------
    >>> [float(nested_bisection_bandwidth(n, [1, 8], [450e9, 50e9])) / 1e9 for n in (8, 16)]
    [1800.0, 400.0]
    """
    n, g, rate, _ = _levels(devices, groups, bandwidths, 0)
    return np.asarray(n / 2 * np.where(g <= np.maximum(n / 2, 1)[..., None], rate, np.inf).min(axis=-1))


@checked
def dragonfly_bandwidth(
    bandwidth: Positive, taper: Fraction, partners: AtLeastOne, used_groups: AtLeastOne, groups: AtLeastOne
) -> Array:
    r"""Return the rate per device out of its dragonfly group, with detours once the direct links are full.

    Of the links of a group, those to its q partners carry traffic at once, those to the G - k idle groups detours, and
    those to other busy groups its own detours and theirs:

    .. math:: \beta_g = \tau \beta\, \frac{q + (G - k) + (k - 1 - q) / 2}{G - 1}

    Parameters
    ----------
    bandwidth : array_like
        Rate of one device into the network, beta [B/s].
    taper : array_like
        Rate of all global links of a group over that of all its devices, tau, 0 to 1 [-].
    partners : array_like
        Groups that a group sends to, q: all others of an all-to-all, one of a ring [-].
    used_groups : array_like
        Groups that communicate at the same time, k [-].
    groups : array_like
        Groups of the machine, G, at least k [-].

    Returns
    -------
    numpy.ndarray
        Rate [B/s].

    References
    ----------
    Kim, Dally, Scott & Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008, sections 3.1 and 4.1.

    Examples
    --------
    A whole machine of 74 groups: each sends to all others, then each to the next one alone.

    >>> (dragonfly_bandwidth(25e9, 0.57, [73, 1], 74, 74) / 1e9).round(2).tolist()
    [14.25, 7.22]
    """
    total = np.maximum(groups, 2)
    active = np.clip(used_groups, 2, total)
    sent = np.minimum(partners, active - 1)
    links = (sent + (total - active) + (active - 1 - sent) / 2) / (total - 1)
    return bandwidth * taper * links


@checked
def _levels(
    devices: AtLeastOne, groups: AtLeastOne, bandwidths: Positive, latencies: NonNegative
) -> tuple[Array, Array, Array, Array]:
    """Return devices, group sizes and rates as arrays of one depth, and the latencies of a tree through all levels."""
    g, rate, start = np.broadcast_arrays(*map(np.atleast_1d, (groups, bandwidths, latencies)))
    if np.any(g[..., 1:] < g[..., :-1]):
        raise ValueError(f"groups = {g.tolist()} must ascend: a level joins groups of the level before")
    # The required number of groups, of equal size: 73 devices in racks of 72 are 36 and 37.
    group_count = np.ceil(devices[..., None] / g - 1e-9)
    g = np.where(g < devices[..., None], devices[..., None] / group_count, g)
    sizes = np.minimum(g, devices[..., None])
    joined = np.concatenate([sizes[..., 1:], np.broadcast_to(devices[..., None], sizes[..., :1].shape)], axis=-1)
    return devices, g, rate, (start * np.log2(joined / sizes)).sum(axis=-1)


@checked
def torus_all_gather_seconds(
    payload_bytes: NonNegative, shape: ArrayLike, bandwidth: Positive, latency: NonNegative, wraps: ArrayLike = 1
) -> Array:
    r"""Return the time of an all-gather or reduce-scatter on a torus: a part of the vector for each axis and direction.

    .. math:: t = \alpha \sum_a h_a + \frac{n - 1}{n} \frac{M}{l d\, \beta},
        \quad d = \#\{a: k_a > 1\}, \quad h_a = k_a / l, \quad l = 2 \text{ closed}, 1 \text{ open}

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Whole vector, M [B].
    shape : array_like, (..., axes)
        Devices along each axis, k: 2 or 3 axes [-].
    bandwidth : array_like, (...)
        Bandwidth of one link, one direction, beta [B/s].
    latency : array_like, (...)
        Latency of one hop, alpha [s].
    wraps : array_like, (...)
        Whether axes close to rings, 0 to 1: 0 is a mesh, whose ends have one link an axis [-].

    Returns
    -------
    numpy.ndarray, (...)
        Time [s], 0 for one device; a bound that equal axes reach.

    References
    ----------
    Chan, Heimlich, Purkayastha & van de Geijn, Collective communication: theory, practice, and experience, Concurr.
    Comput. Pract. Exp. 19(13), 2007, section 7; all axes at once as in Jouppi et al., TPU v4, ISCA 2023, section 2.

    Examples
    --------
    A cube of 4 x 4 x 4 with six links of 45 GB/s:

    >>> round(float(torus_all_gather_seconds(1e9, [4, 4, 4], 45e9, 0)), 6)
    0.003646
    """
    size, directions = _torus(shape, wraps)
    count, axes = size.prod(axis=-1), (size > 1).sum(axis=-1)
    hops = np.where(size > 1, np.floor(size / directions[..., None]), 0).sum(axis=-1)
    wire = payload_bytes * (count - 1) / count
    links = bandwidth * directions * np.maximum(axes, 1)
    return np.asarray(latency * hops + wire / links)


def torus_all_reduce_seconds(
    payload_bytes: ArrayLike, shape: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike, wraps: ArrayLike = 1
) -> Array:
    r"""Return the time of an all-reduce on a torus: a reduce-scatter, then an all-gather.

    .. math:: t = 2 \left( \alpha \sum_a h_a + \frac{n - 1}{n} \frac{M}{l d\, \beta} \right)

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Vector on each device, M [B].
    shape : array_like, (..., axes)
        Devices along each axis, k [-].
    bandwidth : array_like, (...)
        Bandwidth of one link, one direction, beta [B/s].
    latency : array_like, (...)
        Latency of one hop, alpha [s].
    wraps : array_like, (...)
        Whether axes close to rings, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray, (...)
        Time [s], 0 for one device.

    References
    ----------
    Chan et al., Concurr. Comput. Pract. Exp. 19(13), 2007, section 7.

    Examples
    --------
    >>> round(float(torus_all_reduce_seconds(1e9, [4, 4, 4], 45e9, 0)), 6)
    0.007292
    """
    return 2 * torus_all_gather_seconds(payload_bytes, shape, bandwidth, latency, wraps)


@checked
def torus_all_to_all_seconds(
    payload_bytes: NonNegative, shape: ArrayLike, bandwidth: Positive, latency: NonNegative, wraps: ArrayLike = 1
) -> Array:
    r"""Return the time of an all-to-all on a torus: the longest axis limits it.

    .. math:: t = \alpha \sum_a h_a + \max_a \frac{\lfloor k_a / 2 \rfloor \lceil k_a / 2 \rceil}{k_a}
        \frac{M}{l\, \beta}

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Data on each device, M, one part of which stays there [B].
    shape : array_like, (..., axes)
        Devices along each axis, k [-].
    bandwidth : array_like, (...)
        Bandwidth of one link, one direction, beta [B/s].
    latency : array_like, (...)
        Latency of one hop, alpha [s].
    wraps : array_like, (...)
        Whether axes close to rings, 0 to 1: l = 2, or 1 for a mesh [-].

    Returns
    -------
    numpy.ndarray, (...)
        Time [s], 0 for one device.

    References
    ----------
    Dally & Towles, Principles and practices of interconnection networks, 2004, section 5.2.1 (uniform traffic).

    Examples
    --------
    Half of all data cross the middle of 8 x 8 x 8, 512 parts of 0.5 x 0.5 GB over 2 x 64 links:

    >>> round(float(torus_all_to_all_seconds(1e9, [8, 8, 8], 45e9, 0)), 6)
    0.022222
    """
    size, directions = _torus(shape, wraps)
    crossing = np.where(size > 1, np.floor(size / 2) * np.ceil(size / 2) / size, 0).max(axis=-1)
    hops = np.where(size > 1, np.floor(size / directions[..., None]), 0).sum(axis=-1)
    wire = payload_bytes * crossing / directions
    return np.asarray(latency * hops + wire / bandwidth)


@checked
def torus_bisection_bandwidth(shape: ArrayLike, bandwidth: Positive, wraps: ArrayLike = 1) -> Array:
    r"""Return the rate between the halves of a torus, cut across its longest axis.

    .. math:: B = l \frac{n}{\max_a k_a} \beta

    Parameters
    ----------
    shape : array_like, (..., axes)
        Devices along each axis, k [-].
    bandwidth : array_like, (...)
        Bandwidth of one link, one direction, beta [B/s].
    wraps : array_like, (...)
        Whether axes close to rings, 0 to 1: l = 2, or 1 for a mesh [-].

    Returns
    -------
    numpy.ndarray, (...)
        Rate in one direction [B/s].

    References
    ----------
    Dally & Towles, Principles and practices of interconnection networks, 2004, section 5.2.1.

    Examples
    --------
    >>> float(torus_bisection_bandwidth([16, 16], 50e9)) / 1e9
    1600.0
    """
    size, directions = _torus(shape, wraps)
    return np.asarray(directions * size.prod(axis=-1) / size.max(axis=-1) * bandwidth)


@checked
def _torus(shape: AtLeastOne, wraps: Fraction) -> tuple[Array, Array]:
    size = np.atleast_1d(shape)
    return size, 1 + wraps
