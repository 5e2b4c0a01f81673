"""Exchanges on a torus, whose devices are joined along each of a few axes without switches.

Axes that close to rings have two ways to each device (l = 2 links an axis); open ones, of a part of a machine, end.
"""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, at_least_one, fraction, non_negative, positive


def torus_all_gather_seconds(
    payload_bytes: ArrayLike, shape: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike, wraps: ArrayLike = 1
) -> Array:
    r"""Time of an all-gather or reduce-scatter on a torus: a part of the vector for each axis and direction.

    .. math:: t = \alpha \sum_a h_a + \frac{n - 1}{n} \frac{M}{l d\, \beta},
        \quad d = \#\{a: k_a > 1\}, \quad h_a = k_a / l, \quad l = 2 \text{ closed}, 1 \text{ open}

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Whole vector, M [B].
    shape : array_like, (..., axes)
        Devices along each axis, k: 2 or 3 axes [-].
    bandwidth : array_like, (...)
        Of one link, one direction, beta [B/s].
    latency : array_like, (...)
        One hop, alpha [s].
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
    wire = non_negative("payload_bytes", payload_bytes) * (count - 1) / count
    links = positive("bandwidth", bandwidth) * directions * np.maximum(axes, 1)
    return np.asarray(non_negative("latency", latency) * hops + wire / links)


def torus_all_reduce_seconds(
    payload_bytes: ArrayLike, shape: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike, wraps: ArrayLike = 1
) -> Array:
    r"""Time of an all-reduce on a torus: a reduce-scatter, then an all-gather.

    .. math:: t = 2 \left( \alpha \sum_a h_a + \frac{n - 1}{n} \frac{M}{l d\, \beta} \right)

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Vector held by each device, M [B].
    shape : array_like, (..., axes)
        Devices along each axis, k [-].
    bandwidth : array_like, (...)
        Of one link, one direction, beta [B/s].
    latency : array_like, (...)
        One hop, alpha [s].
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


def torus_all_to_all_seconds(
    payload_bytes: ArrayLike, shape: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike, wraps: ArrayLike = 1
) -> Array:
    r"""Time in which every device of a torus sends another part of its data to each: the longest axis limits it.

    .. math:: t = \alpha \sum_a h_a + \max_a \frac{\lfloor k_a / 2 \rfloor \lceil k_a / 2 \rceil}{k_a}
        \frac{M}{l\, \beta}

    Parameters
    ----------
    payload_bytes : array_like, (...)
        Data held by each device, M, of which it keeps one part [B].
    shape : array_like, (..., axes)
        Devices along each axis, k [-].
    bandwidth : array_like, (...)
        Of one link, one direction, beta [B/s].
    latency : array_like, (...)
        One hop, alpha [s].
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
    wire = non_negative("payload_bytes", payload_bytes) * crossing / directions
    return np.asarray(non_negative("latency", latency) * hops + wire / positive("bandwidth", bandwidth))


def torus_bisection_bandwidth(shape: ArrayLike, bandwidth: ArrayLike, wraps: ArrayLike = 1) -> Array:
    r"""Rate between the halves of a torus, cut across its longest axis.

    .. math:: B = l \frac{n}{\max_a k_a} \beta

    Parameters
    ----------
    shape : array_like, (..., axes)
        Devices along each axis, k [-].
    bandwidth : array_like, (...)
        Of one link, one direction, beta [B/s].
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
    return np.asarray(directions * size.prod(axis=-1) / size.max(axis=-1) * positive("bandwidth", bandwidth))


def _torus(shape: ArrayLike, wraps: ArrayLike) -> tuple[Array, Array]:
    size = np.atleast_1d(at_least_one("shape", shape))
    return size, 1 + fraction("wraps", wraps)
