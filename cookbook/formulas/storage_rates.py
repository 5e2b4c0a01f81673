"""Rates of storage tiers and host links, lifetimes of drives, and the cost of checkpoints.

Rates are payload bytes per second in one direction; an infinite argument is no limit. Burstable volumes have a bucket
of credits: it fills at the baseline rate, and reading above that rate empties it. Credits may count bytes or
operations; the docstrings assume bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import Array, AtLeastOne, Fraction, NonNegative, Positive, checked


@checked
def concurrency_rate(request_bytes: Positive, queue_depth: Positive, latency: NonNegative) -> Array:
    r"""Return the rate that this number of requests in flight sustains, by Little's law.

    .. math:: \beta = Q\, b / \tau

    Parameters
    ----------
    request_bytes : array_like
        Bytes of one request, b [B].
    queue_depth : array_like
        Requests in flight, Q [-].
    latency : array_like
        Time of one request, tau; 0 is no limit [s].

    Returns
    -------
    numpy.ndarray
        Rate [B/s].

    References
    ----------
    Little, Operations Research 9(3), 1961.

    Examples
    --------
    One reader that waits 100 us for each 4 KiB gets 41 MB/s from any drive; 32 get 32 times as much:

    >>> [round(float(concurrency_rate(4096, depth, 100e-6)) / 1e6) for depth in (1, 32)]
    [41, 1311]
    """
    with np.errstate(divide="ignore"):
        return np.asarray(request_bytes * queue_depth / latency)


@checked
def tier_rate(
    request_bytes: Positive,
    bandwidth: Positive,
    iops: Positive,
    queue_depth: ArrayLike,
    latency: ArrayLike,
    efficiency: Positive = 1,
    seeking: Fraction = 0,
) -> Array:
    r"""Return the rate of a storage tier: the minimum over bandwidth, operations per second and queue depth.

    .. math:: \beta = \min(\kappa B,\; I b,\; Q b / \tau); \quad
        1 / \beta = 1 / (\kappa B) + 1 / (I b) \; \text{where a head seeks, then reads}

    Parameters
    ----------
    request_bytes : array_like
        Bytes of one request, b [B].
    bandwidth : array_like
        Sequential bandwidth of the datasheet, B [B/s].
    iops : array_like
        Operations per second, I [1/s].
    queue_depth : array_like
        Requests in flight, Q [-].
    latency : array_like
        Time of one request, tau [s].
    efficiency : array_like
        Share of the bandwidth that is reached, kappa [-].
    seeking : array_like
        1 for a disk, which moves its head and then reads; 0 where operations overlap; 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Rate [B/s].

    References
    ----------
    Little, Operations Research 9(3), 1961; Patterson & Hennessy, Computer Organization and Design, 1994, chapter 6.

    Examples
    --------
    A hard disk of 270 MB/s and 170 reads per second gives 19 MB/s in files of 110 KB:

    >>> round(float(tier_rate(110e3, 270e6, 170, 32, 4e-3)) / 1e6)
    19
    """
    streaming = efficiency * bandwidth
    operations = iops * request_bytes
    at_once = np.minimum(streaming, operations)
    in_turn = 1 / (1 / streaming + 1 / operations)
    served = np.where(seeking > 0, seeking * in_turn + (1 - seeking) * at_once, at_once)
    return np.minimum(served, concurrency_rate(request_bytes, queue_depth, latency))


@checked
def clients_rate(
    shared_rate: Positive,
    clients: AtLeastOne,
    client_rate: Positive,
    connections: AtLeastOne,
    connection_rate: Positive,
) -> Array:
    r"""Return the total rate at which clients read a shared store, each with its own network and connections.

    .. math:: \beta = \min(\beta_s,\; n \min(\beta_c,\; m \beta_m))

    Parameters
    ----------
    shared_rate : array_like
        Bandwidth of the store, beta_s [B/s].
    clients : array_like
        Client hosts, n >= 1 [-].
    client_rate : array_like
        Network or software limit of one client, beta_c [B/s].
    connections : array_like
        Parallel connections of one client, m >= 1 [-].
    connection_rate : array_like
        Limit of one connection, beta_m [B/s].

    Returns
    -------
    numpy.ndarray
        Rate of all clients [B/s].

    References
    ----------
    Durner, Leis & Neumann, Proc. VLDB Endow. 16(11), 2023 (object stores: bandwidth grows with connections up to the
    network of the instance).

    Examples
    --------
    Ten connections of 93 MB/s do not fill a network of 25 Gbit/s; forty do:

    >>> [float(clients_rate(1e12, 1, 25e9 / 8, m, 93e6)) / 1e9 for m in (10, 40)]
    [0.93, 3.125]
    """
    return np.minimum(shared_rate, clients * np.minimum(client_rate, connections * connection_rate))


@checked
def host_copy_rate(
    link_bandwidth: Positive, uplink_bandwidth: Positive, sharers: AtLeastOne, efficiency: Positive
) -> Array:
    r"""Return the rate of copies from the host to each accelerator behind a shared switch.

    .. math:: \beta = \eta \min(B,\; U / n)

    Parameters
    ----------
    link_bandwidth : array_like
        Bandwidth of one accelerator's link, B [B/s].
    uplink_bandwidth : array_like
        Bandwidth between the switch and the processor, U [B/s].
    sharers : array_like
        Accelerators that copy over it concurrently, n >= 1 [-].
    efficiency : array_like
        Share of the nominal rate that a copy reaches, eta; higher from pinned than from pageable memory [-].

    Returns
    -------
    numpy.ndarray
        Rate of one accelerator [B/s].

    References
    ----------
    Li et al., IEEE Trans. Parallel Distrib. Syst. 31(1), 2020 (PCIe, NVLink and switches measured).

    Examples
    --------
    Four accelerators behind one PCIe 3.0 x16 uplink:

    >>> float(host_copy_rate(16e9, 16e9, 4, 0.75)) / 1e9
    3.0
    """
    return efficiency * np.minimum(link_bandwidth, uplink_bandwidth / sharers)


@checked
def checkpoint_stall_share(
    checkpoint_bytes: NonNegative,
    write_bandwidth: Positive,
    interval: Positive,
    asynchronous: Fraction = 0,
    copy_bandwidth: Positive = np.inf,
) -> Array:
    r"""Return the share of the time in which training stalls for checkpoints.

    .. math:: s = \frac{w}{T + w},\quad w = (1 - a) \frac{M}{W} + a \left[ \frac{M}{C} +
        \max\left(0, \frac{M}{W} - T\right) \right]

    Parameters
    ----------
    checkpoint_bytes : array_like
        Size of one checkpoint, M [B].
    write_bandwidth : array_like
        Write bandwidth of the storage, W [B/s].
    interval : array_like
        Training time between two checkpoints, T [s].
    asynchronous : array_like
        1 where it is written asynchronously, from a copy in host memory; 0 to 1 [-].
    copy_bandwidth : array_like
        Rate of that copy, C [B/s].

    Returns
    -------
    numpy.ndarray
        Share of the time, 0 to 1 [-].

    References
    ----------
    Mohan, Phanishayee & Chidambaram, CheckFreq, FAST 2021 (snapshot, then persist behind the training).

    Examples
    --------
    105 GB every half hour at 1 GB/s stop the training for 5.5 % of the time, and behind it for 0.3 %:

    >>> [round(float(checkpoint_stall_share(105e9, 1e9, 1800, a, 20e9)), 4) for a in (0, 1)]
    [0.0551, 0.0029]
    """
    write = checkpoint_bytes / write_bandwidth
    hidden = checkpoint_bytes / copy_bandwidth + np.maximum(write - interval, 0)
    stall = np.where(
        asynchronous == 0,
        write,
        np.where(asynchronous == 1, hidden, (1 - asynchronous) * write + asynchronous * hidden),
    )
    return stall / (interval + stall)


@checked
def read_share_beside_writes(
    checkpoint_bytes: NonNegative, write_bandwidth: Positive, interval: Positive, asynchronous: Fraction = 0
) -> Array:
    r"""Return the share of the read bandwidth that asynchronous checkpoint writes leave.

    .. math:: 1 - a \min\left(1, \frac{M}{W T}\right) / 2

    While a checkpoint is written, reads and writes share the drive evenly. A checkpoint that stops the training takes
    nothing from reads.

    Parameters
    ----------
    checkpoint_bytes : array_like
        Size of one checkpoint, M [B].
    write_bandwidth : array_like
        Write bandwidth of the storage, W [B/s].
    interval : array_like
        Training time between two checkpoints, T [s].
    asynchronous : array_like
        1 where it is written asynchronously, a; 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Share, 0.5 to 1 [-].

    References
    ----------
    Mohan, Phanishayee & Chidambaram, CheckFreq, FAST 2021 (the even share is this package's assumption).

    Examples
    --------
    >>> float(read_share_beside_writes(60e9, 1e9, 120, 1)), float(read_share_beside_writes(60e9, 1e9, 120, 0))
    (0.75, 1.0)
    """
    write = checkpoint_bytes / write_bandwidth
    busy = np.minimum(write / interval, 1)
    return 1 - asynchronous * busy / 2


@checked
def drive_writes_per_day(written_bytes: NonNegative, days: Positive, capacity: Positive) -> Array:
    r"""Return the endurance that a workload needs: drive writes per day.

    .. math:: e = M / (d\, C)

    Parameters
    ----------
    written_bytes : array_like
        Bytes written in these days, M: fills of a cache, checkpoints [B].
    days : array_like
        Number of days, d [-].
    capacity : array_like
        Capacity of the drives, C [B].

    Returns
    -------
    numpy.ndarray
        Drive writes per day [-].

    References
    ----------
    JEDEC JESD218B, 2016 (endurance of solid-state drives, stated as terabytes written).

    Examples
    --------
    Reading writes nothing; a cache of 1 TB filled once a day on 7.68 TB needs 0.13:

    >>> round(float(drive_writes_per_day(1e12, 1, 7.68e12)), 2)
    0.13
    """
    return written_bytes / days / capacity


@checked
def drive_life_years(needed: NonNegative, bought: Positive, rated_years: Positive) -> Array:
    r"""Return the years until the rated writes of a drive are used up.

    .. math:: L = Y\, e_b / e_n

    Parameters
    ----------
    needed : array_like
        Drive writes per day of the workload, e_n; 0 causes no wear [-].
    bought : array_like
        Drive writes per day of the datasheet, e_b [-].
    rated_years : array_like
        Years for which the datasheet guarantees them, Y [-].

    Returns
    -------
    numpy.ndarray
        Years [-]; infinite where nothing is written.

    References
    ----------
    JEDEC JESD218B, 2016.

    Examples
    --------
    >>> float(drive_life_years(0.13, 1.0, 5)) > 38, float(drive_life_years(0, 1.0, 5))
    (True, inf)
    """
    with np.errstate(divide="ignore"):
        return np.asarray(rated_years * bought / needed)


@checked
def credit_seconds(credit: NonNegative, draw: NonNegative, refill: Positive) -> Array:
    r"""Return the time until reads above the baseline have used up the credits.

    .. math:: t = \frac{C}{r - b}, \quad r > b; \quad t = \infty, \; r \le b

    Parameters
    ----------
    credit : array_like
        Credits in the bucket, C; infinite for a volume without credits [B].
    draw : array_like
        Read rate while credits last, r [B/s].
    refill : array_like
        Baseline rate, at which credits accrue, b [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s]; infinite where they never run out.

    References
    ----------
    Turner, IEEE Communications Magazine 24(10), 1986 (the bucket); Amazon, EBS volume types (I/O credits).

    Examples
    --------
    5.4 million operations, 3,000 a second read and 100 a second given back, last 31 minutes:

    >>> round(float(credit_seconds(5.4e6, 3000, 100)) / 60)
    31
    """
    credits, rate, baseline = np.broadcast_arrays(credit, draw, refill)
    above = rate > baseline
    with np.errstate(invalid="ignore"):
        return np.where(above, credits / np.where(above, rate - baseline, 1), np.inf)


@checked
def credit_left(credit: NonNegative, draw: NonNegative, refill: Positive, seconds: NonNegative) -> Array:
    r"""Return the credits after reading for a while from a full bucket, which never exceed its initial content.

    .. math:: C' = \min(C, \max(0, C - (r - b) t))

    Parameters
    ----------
    credit : array_like
        Credits of a full bucket, C [B].
    draw : array_like
        Mean read rate, r [B/s].
    refill : array_like
        Baseline rate, b [B/s].
    seconds : array_like
        Time, t [s].

    Returns
    -------
    numpy.ndarray
        Credits [B].

    References
    ----------
    Turner, IEEE Communications Magazine 24(10), 1986.

    Examples
    --------
    >>> [float(credit_left(1000.0, draw, 50.0, 4.0)) for draw in (100.0, 20.0, 900.0)]
    [800.0, 1000.0, 0.0]
    """
    with np.errstate(invalid="ignore"):
        spent = np.where(draw > refill, (draw - refill) * seconds, 0)
    return np.where(np.isinf(credit), credit, np.maximum(credit - np.where(np.isinf(credit), 0, spent), 0))


@checked
def bursting_seconds(volume: NonNegative, burst_rate: Positive, later_rate: Positive, credits: NonNegative) -> Array:
    r"""Return the time for a volume at a higher rate while credits last, and at a lower one after them.

    .. math:: t = \min\left(\frac{V}{r_b}, t_c\right) + \frac{\max(0, V - r_b t_c)}{r_l}

    Where the volume alone is read, with burst rate r, baseline b and C credits, this is max(V / r, (V - C) / b).

    Parameters
    ----------
    volume : array_like
        Bytes to read, V [B].
    burst_rate : array_like
        Rate with credits, r_b [B/s].
    later_rate : array_like
        Rate without credits, r_l [B/s].
    credits : array_like
        Time until the credits are used up, t_c; may be infinite [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Turner, IEEE Communications Magazine 24(10), 1986.

    Examples
    --------
    148 GB at 105 MB/s for ten minutes, then at 52 MB/s:

    >>> round(float(bursting_seconds(148e9, 105e6, 52e6, 600)))
    2235
    """
    time = np.minimum(volume / burst_rate, credits)
    return time + np.maximum(volume - burst_rate * time, 0) / later_rate
