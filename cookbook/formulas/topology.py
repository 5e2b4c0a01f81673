"""Traffic in a graph of links: widest paths, and the max-min fair rates of concurrent flows.

A graph is a matrix of directed rates, so the two directions of a link are two entries. Some nodes pass traffic on
(processors, switches), the others are ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cookbook.formulas._arguments import Array, NonNegative, Positive, checked

# Shares within this relative distance of the smallest count as equal, so that rounding decides nothing.
RELATIVE_TOLERANCE = 1e-9


def widest_bandwidths(bandwidth: ArrayLike, forwards: ArrayLike) -> Array:
    r"""Return the bandwidth of the widest path between every two nodes, with no other traffic.

    .. math:: w_{ij} = \max_{P: i \to j} \min_{(a, b) \in P} \beta_{ab}

    Parameters
    ----------
    bandwidth : array_like
        Rate of the link from each node to each other one, shape (nodes, nodes), 0 where there is none [B/s].
    forwards : array_like
        True for nodes that pass traffic on, shape (nodes,): a path may start and end at any node [-].

    Returns
    -------
    numpy.ndarray
        Shape (nodes, nodes), 0 where no path leads, infinite from a node to itself [B/s].

    References
    ----------
    Pollack, The maximum capacity through a network, Oper. Res. 8(5), 1960.

    Examples
    --------
    >>> slow, fast = 4e9, 16e9
    >>> links = [[0, fast, 0], [fast, 0, slow], [0, slow, 0]]
    >>> float(widest_bandwidths(links, [False, True, False])[0, 2])
    4000000000.0
    """
    width, passes = _graph(bandwidth, forwards)
    for node in np.flatnonzero(passes):
        width = np.maximum(width, np.minimum(width[:, [node]], width[[node], :]))
    np.fill_diagonal(width, np.inf)
    return width


def widest_paths(bandwidth: ArrayLike, forwards: ArrayLike) -> NDArray[np.int64]:
    r"""Return the path between every two nodes: the widest, of those with the fewest links, of those the first.

    .. math:: P_{ij} = \arg\min \{ |P| : \beta_{ab} \ge w_{ij} \text{ for all } (a, b) \in P \}

    Parameters
    ----------
    bandwidth : array_like
        Rate of the link from each node to each other one, shape (nodes, nodes), 0 where there is none [B/s].
    forwards : array_like
        True for nodes that pass traffic on, shape (nodes,) [-].

    Returns
    -------
    numpy.ndarray
        Shape (nodes, nodes, nodes): the nodes from i to j in order, padded with -1; only -1 where
        there is no path [-].

    References
    ----------
    Wang & Crowcroft, Quality-of-service routing for supporting multimedia applications, IEEE J. Sel. Areas Commun.
    14(7), 1996, section III (shortest-widest path).

    Examples
    --------
    >>> links = [[0, 9, 0], [9, 0, 9], [0, 9, 0]]
    >>> widest_paths(links, [False, True, False])[0, 2].tolist()
    [0, 1, 2]
    """
    rates, passes = _graph(bandwidth, forwards)
    width = widest_bandwidths(rates, passes)
    paths = np.full((len(rates),) * 3, -1)
    paths[np.arange(len(rates)), np.arange(len(rates)), 0] = np.arange(len(rates))
    for threshold in np.unique(width[np.isfinite(width) & (width > 0)]):
        links = rates >= threshold
        hops = _hops(links, passes)
        for source, target in np.argwhere(width == threshold):
            paths[source, target] = _walk(links, passes, hops, source, target)
    return paths


@checked
def _graph(bandwidth: NonNegative, forwards: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    rates = np.atleast_2d(bandwidth).copy()
    passes = np.atleast_1d(np.asarray(forwards)).astype(bool)
    if rates.ndim != 2 or rates.shape[0] != rates.shape[1] or passes.shape != rates.shape[:1]:
        raise ValueError(
            f"bandwidth has shape {rates.shape} and forwards {passes.shape}; give (nodes, nodes) and (nodes,)"
        )
    np.fill_diagonal(rates, 0)
    return rates, passes


def _hops(links: NDArray[np.bool_], passes: NDArray[np.bool_]) -> Array:
    """Return the fewest links from node to node."""
    hops = np.where(links, 1.0, np.inf)
    for node in np.flatnonzero(passes):
        hops = np.minimum(hops, hops[:, [node]] + hops[[node], :])
    np.fill_diagonal(hops, 0)
    return hops


def _walk(
    links: NDArray[np.bool_], passes: NDArray[np.bool_], hops: Array, source: int, target: int
) -> NDArray[np.int64]:
    """Return one shortest path, at each node through the first neighbour on one."""
    path, node = np.full(len(links), -1), source
    for place in range(len(links)):
        path[place] = node
        if node == target:
            break
        nearer = links[node] & (hops[:, target] == hops[node, target] - 1) & passes
        nearer[target] |= links[node, target]
        node = int(np.argmax(nearer))
    return path


@checked
def max_min_rates(uses: NonNegative, capacities: Positive, demands: NonNegative) -> Array:
    r"""Return max-min fair rates of flows that share links: none can grow unless a flow at most as fast shrinks.

    Progressive filling: all rates grow equally until a link is full or a flow's demand is met; those flows stop,
    the others continue. Hence the share of a flow is determined at the link where the equal shares are smallest:

    .. math:: r_f = \min\left( d_f, \min_{l \in f} \frac{c_l - \sum_{g \in S_l} u_{gl} r_g}{\sum_{g \notin S_l} u_{gl}}
        \right), \quad S_l \text{ the flows on } l \text{ that stopped before}

    Parameters
    ----------
    uses : array_like
        Number of times that each flow crosses each link in its direction, u, shape (flows, links) [-].
    capacities : array_like
        Rate of each link in that direction, c, shape (links,) [B/s].
    demands : array_like
        Largest demand of each flow, d, shape (flows,) or one for all; infinite where only links limit it [B/s].

    Returns
    -------
    numpy.ndarray
        Rate of each flow, shape (flows,) [B/s].

    References
    ----------
    Bertsekas & Gallager, Data Networks, 2nd edition, 1992, section 6.5.2.

    Examples
    --------
    >>> across, short = [1, 1], [0, 1]
    >>> max_min_rates([across, short, short], [1e9, 12e9], np.inf).tolist()
    [1000000000.0, 5500000000.0, 5500000000.0]
    """
    crossed = np.atleast_2d(uses)
    left = np.atleast_1d(capacities).copy()
    limits = np.broadcast_to(demands, crossed.shape[:1])
    if crossed.shape[1:] != left.shape:
        shapes = f"uses has shape {crossed.shape} and capacities {left.shape}"
        raise ValueError(f"{shapes}; give (flows, links) and (links,)")
    rates, grows = np.zeros(len(crossed)), np.ones(len(crossed), dtype=bool)
    while grows.any():
        load = crossed[grows].sum(axis=0)
        share = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 0)
        step = min(share.min(initial=np.inf), (limits - rates)[grows].min())
        rates[grows] += step
        if np.isinf(step):
            break
        left = np.maximum(left - step * load, 0)
        full = (share <= step * (1 + RELATIVE_TOLERANCE)) & (load > 0)
        grows &= ~(crossed[:, full] > 0).any(axis=1) & (rates < limits * (1 - RELATIVE_TOLERANCE))
    return rates


@checked
def message_latency(start: NonNegative, forwarding: NonNegative) -> Array:
    r"""Return the latency of a message's first byte: its start plus that of each node on the way.

    .. math:: t = \alpha + \sum_k h_k

    Parameters
    ----------
    start : array_like
        Latency of one message, alpha [s].
    forwarding : array_like
        Time that each node that passes it on adds, h, along the last axis [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Kurose & Ross, Computer Networking: A Top-Down Approach, 8th edition, 2021, section 1.4.

    Examples
    --------
    >>> round(float(message_latency(5e-6, [150e-9, 500e-9])), 8)
    5.65e-06
    """
    return np.asarray(start + np.atleast_1d(forwarding).sum(axis=-1))
