"""Optimiser states in host memory or on drives: the update of the weights there, and the traffic to it."""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, non_negative, positive


def offloaded_update_seconds(
    parameters: ArrayLike,
    gradient_bytes: ArrayLike,
    weight_bytes: ArrayLike,
    state_bytes: ArrayLike,
    link: ArrayLike,
    host_memory: ArrayLike,
    drives: ArrayLike = np.inf,
) -> Array:
    r"""Time of an update by the processor: gradients go to it and weights come back, states are read and written.

    Parts of the parameters follow each other, so the slowest of link, host memory and drives sets the pace.

    .. math:: t = N \max\left( \frac{\max(g, w)}{\beta_l}, \frac{g + w + 2 o}{\beta_m}, \frac{2 o}{\beta_d} \right)

    Parameters
    ----------
    parameters : array_like
        Parameters whose states this device's share of the host keeps, N [-].
    gradient_bytes : array_like
        Size of one gradient as it is sent, g [B].
    weight_bytes : array_like
        Size of one weight as it comes back, w [B].
    state_bytes : array_like
        Master weight and states of the optimiser for one parameter, o [B].
    link : array_like
        From the device to its host, one direction, beta_l [B/s].
    host_memory : array_like
        Share of this device in the host's memory bandwidth, beta_m [B/s].
    drives : array_like
        Its share in the bandwidth of drives that keep the states, beta_d; infinite where they stay in memory [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Ren et al., ZeRO-Offload, USENIX ATC 2021, section 4; Rajbhandari et al., ZeRO-Infinity, SC21, 2021, section 5.2
    (states on drives; traffic in both directions at once).

    Examples
    --------
    One billion parameters over PCIe 4.0 (25 GB/s), 50 GB/s of host memory; then with states on drives of 5 GB/s:

    >>> [round(float(offloaded_update_seconds(1e9, 2, 2, 12, 25e9, 50e9, d)), 3) for d in (np.inf, 5e9)]
    [0.56, 4.8]
    """
    gradient, weight = non_negative("gradient_bytes", gradient_bytes), non_negative("weight_bytes", weight_bytes)
    states = 2 * non_negative("state_bytes", state_bytes)
    over_link = np.maximum(gradient, weight) / positive("link", link)
    in_memory = (gradient + weight + states) / positive("host_memory", host_memory)
    slowest = np.maximum(np.maximum(over_link, in_memory), states / positive("drives", drives))
    return np.asarray(non_negative("parameters", parameters) * slowest)
