"""Scaling in general: what cannot be split, whom all wait for, and what larger batches cost."""

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, at_least_one, fraction, non_negative, positive


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
