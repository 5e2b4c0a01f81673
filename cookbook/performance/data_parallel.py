"""Data parallelism: what workers exchange, by which way, how much of it shows, and how many workers pay.

Scaling in general: what cannot be split, whom all wait for, and what larger batches cost.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, at_least_one, fraction, non_negative, positive


def hpe_2017_data_parallel_seconds(
    model_flop: ArrayLike, weight_bytes: ArrayLike, workers: ArrayLike, flops: ArrayLike, bandwidth: ArrayLike
) -> dict[str, Array]:
    r"""Computation and exchange of data-parallel training as the Deep Learning Cookbook of 2017 put it.

    .. math:: t_c = \frac{c}{p \gamma}, \qquad t_x = \frac{2 w \log_2 p}{\beta}

    The batch stays the same, so each worker gets a p-th of it (strong scaling). The second formula cannot be read in
    the document any more; it is reconstructed after Keuper and Pfreundt, who analyse the same exchange.

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
    count = at_least_one("workers", workers)
    return {
        "compute": non_negative("model_flop", model_flop) / (count * positive("flops", flops)),
        "exchange": 2 * non_negative("weight_bytes", weight_bytes) * np.log2(count) / positive("bandwidth", bandwidth),
    }


def hpe_2017_best_workers(
    model_flop: ArrayLike, weight_bytes: ArrayLike, flops: ArrayLike, bandwidth: ArrayLike
) -> Array:
    r"""Workers at which the step of `hpe_2017_data_parallel_seconds` is shortest: more make it longer.

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
    work = non_negative("model_flop", model_flop) / positive("flops", flops)
    exchange = 2 * positive("weight_bytes", weight_bytes) / positive("bandwidth", bandwidth)
    return np.maximum(work * np.log(2) / exchange, 1.0)


def parameter_server_seconds(
    payload_bytes: ArrayLike,
    workers: ArrayLike,
    servers: ArrayLike,
    worker_bandwidth: ArrayLike,
    server_bandwidth: ArrayLike,
) -> Array:
    r"""Time in which all workers send gradients to servers and fetch weights, each direction of a link by itself.

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
    load = at_least_one("workers", workers) / at_least_one("servers", servers)
    slowest = np.maximum(
        1 / positive("worker_bandwidth", worker_bandwidth), load / positive("server_bandwidth", server_bandwidth)
    )
    return 2 * non_negative("payload_bytes", payload_bytes) * slowest


def halving_doubling_seconds(
    payload_bytes: ArrayLike, ranks: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike
) -> Array:
    r"""Time of an all-reduce by recursive halving and doubling: the traffic of a ring, few starts.

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
        Start of one message, alpha [s].

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
    count = at_least_one("ranks", ranks)
    starts = 2 * np.ceil(np.log2(count)) * non_negative("latency", latency)
    moved = 2 * (count - 1) / count * non_negative("payload_bytes", payload_bytes)
    return starts + moved / positive("bandwidth", bandwidth)


def in_network_seconds(payload_bytes: ArrayLike, ranks: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike) -> Array:
    r"""Time of an all-reduce that switches sum: every rank sends its vector once and receives the sum once.

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
    moved = non_negative("payload_bytes", payload_bytes) / positive("bandwidth", bandwidth)
    return (at_least_one("ranks", ranks) > 1) * (2 * non_negative("latency", latency) + moved)


def compressed_bytes(
    payload_bytes: ArrayLike, kept_share: ArrayLike, element_bytes: ArrayLike, index_bytes: ArrayLike
) -> Array:
    r"""Gradients of which only the largest are sent, each with its position.

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
    whole, size = non_negative("payload_bytes", payload_bytes), positive("element_bytes", element_bytes)
    longer = (size + non_negative("index_bytes", index_bytes)) / size
    return np.minimum(whole, whole * fraction("kept_share", kept_share) * longer)


def bucketed_exposed_seconds(exchange_seconds: ArrayLike, backward_seconds: ArrayLike, buckets: ArrayLike) -> Array:
    r"""Time by which an exchange of gradients in buckets outlasts the backward pass that it runs beside.

    .. math:: t = \frac{x}{k} + \max\left( 0,\; \left(1 - \frac{1}{k}\right) (x - b) \right)

    A bucket starts when the backward pass has filled it; the last one can never be hidden.

    Parameters
    ----------
    exchange_seconds : array_like
        Time of the whole exchange, x [s].
    backward_seconds : array_like
        Time of the backward pass, b [s].
    buckets : array_like
        Buckets of equal size, k >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s]: all of the exchange with one bucket.

    References
    ----------
    Li et al., PyTorch distributed: experiences on accelerating data parallel training, VLDB 2020.

    Examples
    --------
    >>> bucketed_exposed_seconds(0.04, 0.1, [1, 4, 40]).round(4).tolist()
    [0.04, 0.01, 0.001]
    """
    exchange, parts = non_negative("exchange_seconds", exchange_seconds), at_least_one("buckets", buckets)
    left = np.maximum(exchange - non_negative("backward_seconds", backward_seconds), 0)
    return exchange / parts + (1 - 1 / parts) * left


def local_sgd_seconds(step_seconds: ArrayLike, exchange_seconds: ArrayLike, period: ArrayLike) -> Array:
    r"""Mean time of a step where parameters are averaged only now and then.

    .. math:: t = t_s + \frac{x}{H}

    Fewer averages can cost more steps to the same accuracy: this is time, not time to accuracy.

    Parameters
    ----------
    step_seconds : array_like
        Time of a step without exchange, t_s [s].
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
    exchange = non_negative("exchange_seconds", exchange_seconds) / at_least_one("period", period)
    return non_negative("step_seconds", step_seconds) + exchange


def amdahl_speedup(workers: ArrayLike, serial_share: ArrayLike) -> Array:
    r"""Speed-up of a problem of fixed size, of which a share cannot be split.

    .. math:: S = \frac{1}{s + (1 - s) / p}

    Parameters
    ----------
    workers : array_like
        Workers, p >= 1 [-].
    serial_share : array_like
        Share of the time on one worker that cannot be split, s, 0 to 1 [-].

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
    serial = fraction("serial_share", serial_share)
    return 1 / (serial + (1 - serial) / at_least_one("workers", workers))


def gustafson_speedup(workers: ArrayLike, serial_share: ArrayLike) -> Array:
    r"""Speed-up of a problem that grows with the workers, of whose time a share does not grow.

    .. math:: S = s + p (1 - s)

    Parameters
    ----------
    workers : array_like
        Workers, p >= 1 [-].
    serial_share : array_like
        Share of the time on all workers that is spent on what does not grow, s, 0 to 1 [-].

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
    serial = fraction("serial_share", serial_share)
    return serial + at_least_one("workers", workers) * (1 - serial)


_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def slowest_seconds(mean_seconds: ArrayLike, spread_seconds: ArrayLike, workers: ArrayLike) -> Array:
    r"""Expected time of the slowest of many workers whose times scatter normally: the step that all wait for.

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
    count = at_least_one("workers", workers)
    rank = (count - 0.375) / (count + 0.25)
    return non_negative("mean_seconds", mean_seconds) + non_negative("spread_seconds", spread_seconds) * _quantile(rank)


def samples_to_target(least_samples: ArrayLike, batch: ArrayLike, critical_batch: ArrayLike) -> Array:
    r"""Samples to a given loss: batches beyond the critical one need more of them.

    .. math:: E = E_0 \left( 1 + \frac{B}{B_c} \right)

    Parameters
    ----------
    least_samples : array_like
        Samples with very small batches, E_0 [-].
    batch : array_like
        Global batch, B [-].
    critical_batch : array_like
        Batch at which twice as many samples are needed, B_c [-].

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
    share = positive("batch", batch) / positive("critical_batch", critical_batch)
    return non_negative("least_samples", least_samples) * (1 + share)
