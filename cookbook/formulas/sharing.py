"""Sharing of resources: queues, fairness, links, and several resources at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cookbook.formulas import topology
from cookbook.formulas._arguments import Array, non_negative, positive, written

# Servers of a queue, and tasks of one resource.
MAX_COUNT = 100_000

__all__ = ["drf_tasks", "erlang_wait_seconds", "jain_index", "max_min_rates"]


def erlang_wait_seconds(servers: int, arrival_rate: float, service_seconds: float) -> float:
    r"""Return the mean wait of a job of one GPU with random arrivals and durations: the queue M/M/c.

    .. math:: W = \frac{C}{c / s - \lambda}, \quad
              C = \left(1 + (1 - \rho) \frac{c!}{a^c} \sum_{k<c} \frac{a^k}{k!}\right)^{-1}, \quad
              a = \lambda s, \quad \rho = a / c

    Parameters
    ----------
    servers : int
        GPUs, c, an integer [-].
    arrival_rate : float
        Arrival rate of jobs, lambda [1/s].
    service_seconds : float
        Mean time of a job, s [s].

    Returns
    -------
    float
        Mean wait [s]; infinite in overload.

    References
    ----------
    Erlang, Solution of some problems in the theory of probabilities, 1917 (formula C).

    Examples
    --------
    >>> erlang_wait_seconds(1, 0.5, 1.0), round(erlang_wait_seconds(2, 1.0, 1.0), 4)
    (1.0, 0.3333)
    """
    value = float(_finite("servers", positive("servers", servers), MAX_COUNT))
    count = int(value)
    if count < 1 or count != value:
        raise ValueError(f"servers = {written(servers)} is outside [1, {MAX_COUNT:,}]: give whole GPUs, one or more")
    rate = float(_finite("arrival_rate", positive("arrival_rate", arrival_rate)))
    seconds = float(_finite("service_seconds", positive("service_seconds", service_seconds)))
    offered = rate * seconds
    if offered >= count:
        return float("inf")
    blocked = 1.0
    for busy in range(1, count + 1):  # Erlang's formula B, server by server
        blocked = offered * blocked / (busy + offered * blocked)
    waits = blocked / (1 - offered / count * (1 - blocked))
    return float(waits / (count / seconds - rate))


def jain_index(shares: Sequence[float]) -> float:
    r"""Return Jain's fairness index of shares: 1 if all are equal, 1/n if one gets everything.

    .. math:: J = \frac{(\sum x_i)^2}{n \sum x_i^2}

    Parameters
    ----------
    shares : sequence of float
        Shares, x [-].

    Returns
    -------
    float
        J [-]; NaN where all shares are 0.

    References
    ----------
    Jain, Chiu & Hawe, A quantitative measure of fairness and discrimination, DEC-TR-301, 1984.

    Examples
    --------
    >>> jain_index([1, 1, 1, 1]), jain_index([4, 0, 0, 0])
    (1.0, 0.25)
    """
    values = np.ravel(non_negative("shares", shares))
    most = values.max(initial=0.0)
    if not 0 < most < np.inf:
        return float("nan")
    parts = values / most  # so that squares of large numbers stay finite
    return float(parts.sum() ** 2 / (len(parts) * (parts**2).sum()))


def max_min_rates(routes: Sequence[Sequence[int]], capacities: Sequence[float]) -> Array:
    r"""Return the rate of each flow under max-min fairness: none can gain without taking from one that has less.

    .. math:: r_f = \min_{l \in f} \frac{C_l - \sum_{g \ni l, g\,fixed} r_g}{|\{g \ni l, g\,free\}|}

    The link with the smallest share per unassigned flow is filled first; its flows are then fixed, and so on, as in
    `cookbook.formulas.topology.max_min_rates`, for flows without a demand of their own.

    Parameters
    ----------
    routes : sequence of sequence of int
        Links that each flow goes through, by number from 0 [-].
    capacities : sequence of float
        Rate of each link, C [B/s].

    Returns
    -------
    numpy.ndarray
        Rate of each flow [B/s]; infinite for one that uses no link.

    References
    ----------
    Bertsekas & Gallager, Data Networks, 1992, section 6.5.2.

    Examples
    --------
    >>> max_min_rates([[0], [0, 1], [1]], [10.0, 4.0]).tolist()
    [8.0, 2.0, 2.0]
    """
    rates = np.ravel(positive("capacities", capacities))
    try:
        links_of = [set(links) for links in routes]
    except TypeError:
        raise ValueError(f"routes = {written(routes)} is no list of lists: give the links of each flow") from None
    numbers = range(len(rates))
    beyond = [link for links in links_of for link in links if link not in numbers]
    if beyond:
        raise ValueError(
            f"routes name the link {beyond[0]!r}, of {len(rates)}: number links from 0 to {len(rates) - 1}"
        )
    uses = [[float(link in links) for link in numbers] for links in links_of]
    return topology.max_min_rates(uses, rates, np.inf) if uses else np.zeros(0)


def drf_tasks(capacity: Sequence[float], demands: Sequence[Sequence[float]]) -> list[int]:
    r"""Return the number of tasks of each user under dominant resource fairness, tasks being assigned one by one.

    .. math:: s_u = \max_r \frac{n_u d_{u,r}}{C_r}

    The next task goes to the user with the smallest dominant share s whose task still fits.

    Parameters
    ----------
    capacity : sequence of float
        Capacity of each resource, C, in any unit of its own [-].
    demands : sequence of sequence of float
        Demand of each user's task for each resource, d, in the same units [-].

    Returns
    -------
    list of int
        Tasks of each user, n [-].

    References
    ----------
    Ghodsi et al., Dominant resource fairness, NSDI 2011, section 4.1: 9 CPUs and 18 GB.

    Examples
    --------
    >>> drf_tasks([9, 18], [[1, 4], [3, 1]])
    [3, 2]
    """
    free = np.array(positive("capacity", capacity), dtype=float)
    tasks = np.array(non_negative("demands", demands), dtype=float)
    if tasks.ndim != 2 or tasks.shape[1] != len(free):
        raise ValueError(f"demands has shape {tasks.shape}; give for each user one number for each of {len(free)}")
    if not (tasks > 0).any(axis=1).all():
        raise ValueError("demands has a user whose task takes nothing; leave that user out")
    least = np.where(tasks > 0, tasks, np.inf).min(axis=0)
    if not (np.isfinite(free).all() and np.isfinite(tasks).all()) or (free / least > MAX_COUNT).any():
        raise ValueError(f"demands give more than {MAX_COUNT:,} tasks of one resource; count them in larger units")
    shares, assigned, slack = (tasks / free).max(axis=1), np.zeros(len(tasks), dtype=int), 1e-9 * free
    while (startable := (tasks <= free + slack).all(axis=1)).any():
        user = int(np.argmin(np.where(startable, assigned * shares, np.inf)))
        assigned[user] += 1
        free -= tasks[user]
    return [int(count) for count in assigned]


def _finite(name: str, values: Array, most: float = np.inf) -> Array:
    """Return one finite number."""
    if np.ndim(values) or not np.isfinite(values) or not values <= most:
        ends = "" if most == np.inf else f" up to {most:,}"
        raise ValueError(f"{name} = {str(values)[:40]} must be one finite number{ends}")
    return values
