"""Matrix products spread over a grid of devices: what each computes, and what it has to receive for that."""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, _reject, at_least_one, positive


def _side(grid: ArrayLike) -> Array:
    """Rows of a square grid: a whole number, for ten devices form none."""
    rows = at_least_one("grid", grid)
    uneven = rows > np.floor(rows)
    if uneven.any():
        _reject("grid", rows, uneven, "the whole numbers", "p rows and columns make p squared devices")
    return rows


def summa_seconds(
    size: ArrayLike, grid: ArrayLike, flops: ArrayLike, bandwidth: ArrayLike, element_bytes: ArrayLike = 4.0
) -> dict[str, Array]:
    r"""Time of one square product on a square grid of devices, by computation and by data received.

    .. math:: t_c = \frac{2 n^3}{p^2 \gamma}, \qquad t_d = \frac{2 w n^2}{\beta} \frac{p - 1}{p^2}

    The grid has p rows and p columns: p squared devices, not p. Each receives the blocks of its row and of its column
    but its own, so that one device by itself receives nothing.

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix: inputs, outputs and batch, n [-].
    grid : array_like
        Rows of the grid, p, a whole number [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    bandwidth : array_like
        Rate at which one device receives, from memory or from others, beta [B/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    dict of str to numpy.ndarray
        ``compute`` and ``data`` [s].

    References
    ----------
    van de Geijn & Watts, SUMMA: scalable universal matrix multiplication algorithm, Concurrency 9(4), 1997.

    Examples
    --------
    On four devices of 15 TFLOP/s, matrices of 2000 take as long to compute as to receive at 30 GB/s:

    >>> {name: round(float(t), 7) for name, t in summa_seconds(2000, 2, 15e12, 30e9).items()}
    {'compute': 0.0002667, 'data': 0.0002667}
    """
    n, p = at_least_one("size", size), _side(grid)
    received = 2 * positive("element_bytes", element_bytes) * n**2 * (p - 1) / p**2
    return {
        "compute": 2 * n**3 / (p**2 * positive("flops", flops)),
        "data": received / positive("bandwidth", bandwidth),
    }


def summa_required_bandwidth(
    size: ArrayLike, grid: ArrayLike, flops: ArrayLike, element_bytes: ArrayLike = 4.0
) -> Array:
    r"""Rate at which each device of a grid has to receive so that data does not take longer than computation.

    .. math:: \beta \ge \frac{w\, (p - 1)\, \gamma}{n}

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix, n [-].
    grid : array_like
        Rows of the grid, p, a whole number, for p squared devices [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    numpy.ndarray
        Bandwidth [B/s]; 0 for one device, which has all it needs.

    References
    ----------
    van de Geijn & Watts, SUMMA: scalable universal matrix multiplication algorithm, Concurrency 9(4), 1997.

    Examples
    --------
    1, 4 and 100 devices of 15 TFLOP/s at n = 2000 need 0, 30 and 270 GB/s:

    >>> (summa_required_bandwidth(2000, [1, 2, 10], 15e12) / 1e9).round().tolist()
    [0.0, 30.0, 270.0]
    """
    n, p = at_least_one("size", size), _side(grid)
    return positive("element_bytes", element_bytes) * (p - 1) * positive("flops", flops) / n


def hpe_2017_summa_bandwidth(
    size: ArrayLike, grid: ArrayLike, flops: ArrayLike, element_bytes: ArrayLike = 4.0
) -> Array:
    r"""The same as the Deep Learning Cookbook of 2017 put it: p in place of p - 1, so that one device needs data, too.

    .. math:: \beta \ge \frac{w\, p\, \gamma}{n}

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix, n [-].
    grid : array_like
        Rows of the grid, p >= 1; the easy misreading takes the number of devices [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    numpy.ndarray
        Bandwidth [B/s].

    References
    ----------
    Hewlett Packard Labs, Deep Learning Cookbook, 2017, after van de Geijn & Watts 1997.

    Examples
    --------
    The document prints 30 GB/s for p = 1 and 300 GB/s for p = 10:

    >>> (hpe_2017_summa_bandwidth(2000, [1, 10], 15e12) / 1e9).round().tolist()
    [30.0, 300.0]
    """
    n, p = at_least_one("size", size), at_least_one("grid", grid)
    return positive("element_bytes", element_bytes) * p * positive("flops", flops) / n


def replicated_seconds(
    size: ArrayLike,
    devices: ArrayLike,
    copies: ArrayLike,
    flops: ArrayLike,
    bandwidth: ArrayLike,
    element_bytes: ArrayLike = 4.0,
) -> dict[str, Array]:
    r"""Time of one square product where the grid is stacked: copies of the inputs save traffic and cost memory.

    .. math:: t_c = \frac{2 n^3}{P \gamma}, \qquad
        t_d = \frac{w n^2}{\beta} \left( \frac{2}{\sqrt{c P}} - \frac{2}{P} + \frac{3 (c - 1)}{P} \right)

    A device does not receive its own blocks, 2 / P. The last part is copying both inputs to the layers, and summing
    the results of the layers.

    Parameters
    ----------
    size : array_like
        Rows and columns of each matrix, n [-].
    devices : array_like
        Devices in all, P >= 1 [-].
    copies : array_like
        Layers of the grid, each with a copy of the inputs, c, 1 to the cube root of P [-].
    flops : array_like
        Arithmetic rate of one device, gamma: multiplications and additions [1/s].
    bandwidth : array_like
        Rate at which one device receives, beta [B/s].
    element_bytes : array_like
        Size of one element, w [B].

    Returns
    -------
    dict of str to numpy.ndarray
        ``compute`` and ``data`` [s]; with one copy those of `summa_seconds`.

    Raises
    ------
    ValueError
        More copies than the cube root of the devices: no traffic is left to save.

    References
    ----------
    Solomonik & Demmel, Communication-optimal parallel 2.5D matrix multiplication and LU, Euro-Par 2011.

    Examples
    --------
    >>> one, four = (replicated_seconds(20000, 64, c, 15e12, 30e9)["data"] for c in (1, 4))
    >>> round(float(one), 4), round(float(four), 4)
    (0.0117, 0.0125)
    """
    n, count = at_least_one("size", size), at_least_one("devices", devices)
    layers = at_least_one("copies", copies)
    if np.any(layers > np.cbrt(count) * (1 + 1e-9)):
        raise ValueError(
            f"copies = {np.max(layers):g} is more than the cube root of devices = {np.min(count):g}: take fewer copies"
        )
    moved = 2 / np.sqrt(layers * count) - 2 / count + 3 * (layers - 1) / count
    seconds = positive("element_bytes", element_bytes) * n**2 / positive("bandwidth", bandwidth)
    return {"compute": 2 * n**3 / (count * positive("flops", flops)), "data": seconds * moved}
