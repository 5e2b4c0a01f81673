"""Failures in long runs: how often a cluster fails, how often to write checkpoints, and how much time is useful."""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, at_least_one, non_negative, positive


def cluster_mtbf_seconds(device_mtbf_seconds: ArrayLike, devices: ArrayLike) -> Array:
    r"""Mean time between failures of a job that stops when any of its devices fails.

    .. math:: M = M_1 / n

    Parameters
    ----------
    device_mtbf_seconds : array_like
        Mean time between failures that one device accounts for, its share of host and network included, M_1 [s].
    devices : array_like
        Devices, n >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Feller, An introduction to probability theory and its applications, vol. 1, 1968 (independent failures at random).

    Examples
    --------
    Devices that fail every five years each stop a job of 10,000 more than five times a day:

    >>> round(float(cluster_mtbf_seconds(5 * 365 * 86400, 10_000)) / 3600, 2)
    4.38
    """
    return positive("device_mtbf_seconds", device_mtbf_seconds) / at_least_one("devices", devices)


def young_1974_interval_seconds(checkpoint_seconds: ArrayLike, mtbf_seconds: ArrayLike) -> Array:
    r"""Time of work between checkpoints that loses least, to first order.

    .. math:: \tau = \sqrt{2 \delta M}

    Parameters
    ----------
    checkpoint_seconds : array_like
        Time that writing a checkpoint stops the work, delta [s].
    mtbf_seconds : array_like
        Mean time between failures, M [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Young, A first order approximation to the optimum checkpoint interval, Commun. ACM 17(9), 1974.

    Examples
    --------
    >>> float(young_1974_interval_seconds(50.0, 10_000.0))
    1000.0
    """
    return np.sqrt(2 * non_negative("checkpoint_seconds", checkpoint_seconds) * positive("mtbf_seconds", mtbf_seconds))


def daly_2006_interval_seconds(checkpoint_seconds: ArrayLike, mtbf_seconds: ArrayLike) -> Array:
    r"""Time of work between checkpoints that loses least, also where checkpoints take long beside failures.

    .. math:: \tau = \sqrt{2 \delta M} \left( 1 + \tfrac{1}{3} \sqrt{\tfrac{\delta}{2 M}}
        + \tfrac{1}{9} \tfrac{\delta}{2 M} \right) - \delta \quad (\delta < 2 M), \quad \text{else } M

    Parameters
    ----------
    checkpoint_seconds : array_like
        Time that writing a checkpoint stops the work, delta [s].
    mtbf_seconds : array_like
        Mean time between failures, M [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.

    Examples
    --------
    >>> round(float(daly_2006_interval_seconds(50.0, 10_000.0)), 1)
    966.9
    """
    write, mtbf = non_negative("checkpoint_seconds", checkpoint_seconds), positive("mtbf_seconds", mtbf_seconds)
    share = np.minimum(write / (2 * mtbf), 1)
    found = np.sqrt(2 * write * mtbf) * (1 + np.sqrt(share) / 3 + share / 9) - write
    return np.where(write < 2 * mtbf, found, mtbf)


def useful_share(
    interval_seconds: ArrayLike, checkpoint_seconds: ArrayLike, restart_seconds: ArrayLike, mtbf_seconds: ArrayLike
) -> Array:
    r"""Share of the time that goes into work that is kept: neither checkpoints, nor lost, nor restarting.

    .. math:: g = \frac{\tau}{M e^{R / M} \left( e^{(\tau + \delta) / M} - 1 \right)}

    Parameters
    ----------
    interval_seconds : array_like
        Work between checkpoints, tau [s].
    checkpoint_seconds : array_like
        Time that writing a checkpoint stops the work, delta [s].
    restart_seconds : array_like
        Time from a failure until work goes on, R [s].
    mtbf_seconds : array_like
        Mean time between failures, M [s].

    Returns
    -------
    numpy.ndarray
        Share, called goodput where it is of throughput [-].

    References
    ----------
    Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.

    Examples
    --------
    >>> round(float(useful_share(967.0, 50.0, 300.0, 10_000.0)), 4)
    0.8766
    """
    work, mtbf = positive("interval_seconds", interval_seconds), positive("mtbf_seconds", mtbf_seconds)
    cycle = work + non_negative("checkpoint_seconds", checkpoint_seconds)
    restart = non_negative("restart_seconds", restart_seconds)
    return work / (mtbf * np.exp(restart / mtbf) * np.expm1(cycle / mtbf))


def checkpoint_seconds(parameters: ArrayLike, bytes_per_parameter: ArrayLike, bandwidth: ArrayLike) -> Array:
    r"""Time that writing weights and optimiser states takes, all devices together.

    .. math:: \delta = \frac{b N}{\beta}

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    bytes_per_parameter : array_like
        Size of what is kept for each: weight, master weight, states of the optimiser, b [B].
    bandwidth : array_like
        Rate at which the storage takes it, beta [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.1 (states of mixed-precision Adam).

    Examples
    --------
    405 billion parameters, with 2 + 12 bytes each, to a storage of 2 TB/s:

    >>> float(checkpoint_seconds(405e9, 14, 2e12))
    2.835
    """
    size = non_negative("bytes_per_parameter", bytes_per_parameter) * non_negative("parameters", parameters)
    return size / positive("bandwidth", bandwidth)


def run_seconds(
    tokens: ArrayLike, tokens_per_step: ArrayLike, step_seconds: ArrayLike, useful: ArrayLike = 1.0
) -> Array:
    r"""Time of a training run from its first to its last token, failures included.

    .. math:: t = \frac{D}{B}\, \frac{t_{step}}{g}

    Parameters
    ----------
    tokens : array_like
        Tokens to train on, D [-].
    tokens_per_step : array_like
        Tokens of one update, B > 0 [-].
    step_seconds : array_like
        Time of one step [s].
    useful : array_like
        Share of the time that goes into work that is kept, g > 0 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC21, 2021,
    section 5.1 (end-to-end training time).

    Examples
    --------
    >>> float(run_seconds(1e12, 4e6, 2.0, 0.8)) / 86400
    7.233796296296297
    """
    steps = non_negative("tokens", tokens) / positive("tokens_per_step", tokens_per_step)
    return steps * non_negative("step_seconds", step_seconds) / positive("useful", useful)
