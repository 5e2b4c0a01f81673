"""Time of one forward pass: what the device does, what its host starts meanwhile, and what it holds in memory.

Operations of a pass are those of `network_training`, run once. FLOP are counted as 1 MAC = 2 FLOP.
"""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, at_least_one, fraction, non_negative, positive
from cookbook.performance.roofline import smooth_max


def pass_seconds(device_seconds: ArrayLike, host_seconds: ArrayLike, overlap: ArrayLike = 2) -> Array:
    r"""Time of one pass when a host starts operations while the device still runs earlier ones.

    .. math:: t = (t_d^p + t_h^p)^{1/p}

    Parameters
    ----------
    device_seconds : array_like
        All operations on the device, one after the other, t_d [s].
    host_seconds : array_like
        All starts on the host, one after the other, t_h; next to none where a graph is replayed [s].
    overlap : array_like
        Exponent, p >= 1: 1 adds the two, infinity hides the shorter wholly [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Yu, Gao, Golikov & Pekhimenko, Habitat, USENIX ATC 2021 (a pass as a queue of kernels); form of this cookbook.

    Examples
    --------
    A batch so small that the host cannot keep up, and one a hundred times as large:

    >>> [round(float(pass_seconds(device, 4e-3)), 4) for device in (0.1e-3, 10e-3)]
    [0.004, 0.0108]
    """
    return smooth_max(device_seconds, host_seconds, overlap)


def samples_per_second(batch: ArrayLike, seconds: ArrayLike, replicas: ArrayLike = 1, waiting: ArrayLike = 0) -> Array:
    r"""Rate of replicas that each run one batch after the other.

    .. math:: R = \frac{r\, b}{t\,(1 + w\,[r > 1])}

    Parameters
    ----------
    batch : array_like
        Samples of one pass, b [-].
    seconds : array_like
        Time of one pass, t > 0 [s].
    replicas : array_like
        Copies of the network, r >= 1 [-].
    waiting : array_like
        Share of the time that replicas of one host cost each other, w [-].

    Returns
    -------
    numpy.ndarray
        Samples a second [1/s].

    References
    ----------
    Reddi et al., MLPerf inference benchmark, ISCA 2020 (offline scenario).

    Examples
    --------
    >>> float(samples_per_second(32, 0.01, 4))
    12800.0
    """
    shared = 1 + non_negative("waiting", waiting) * (at_least_one("replicas", replicas) > 1)
    return np.asarray(
        np.asarray(replicas, dtype=float) * non_negative("batch", batch) / (positive("seconds", seconds) * shared)
    )


def kernels_left(products: ArrayLike, others: ArrayLike, kept: ArrayLike) -> Array:
    r"""Kernels of one pass: every matrix product, and what fusion leaves of norms, activations and sums.

    .. math:: n = n_p + k\, n_o

    Parameters
    ----------
    products : array_like
        Convolutions and matrix products, n_p [-].
    others : array_like
        All other operations, n_o [-].
    kept : array_like
        Share of them that remains a kernel of its own, k, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Kernels [-].

    References
    ----------
    Jacob et al., Quantization and training of neural networks for efficient inference, CVPR 2018 (norms folded into
    products).

    Examples
    --------
    ResNet-50 module by module, and with all but a tenth of the small operations fused:

    >>> float(kernels_left(54, 121, 1)), round(float(kernels_left(54, 121, 0.1)), 1)
    (175.0, 66.1)
    """
    return np.asarray(non_negative("products", products) + non_negative("others", others) * fraction("kept", kept))


def sustained_peak(
    peak_flops: ArrayLike, watts: ArrayLike, joules_per_flop: ArrayLike, smoothness: ArrayLike = 4
) -> Array:
    r"""Peak that a device can hold within its design power, when all its arithmetic units are busy.

    .. math:: P_s = \left( P^{-p} + (W / e)^{-p} \right)^{-1/p}

    Parameters
    ----------
    peak_flops : array_like
        Peak at boost clock, P > 0 [FLOP/s].
    watts : array_like
        Design power, W > 0; infinite where it sets no limit [W].
    joules_per_flop : array_like
        Energy of one operation with all that it takes to feed it, e [J/FLOP].
    smoothness : array_like
        Exponent, p >= 1: how sharply one limit gives way to the other [-].

    Returns
    -------
    numpy.ndarray
        Rate [FLOP/s].

    References
    ----------
    Choi, Bedard, Fowler & Vuduc, A roofline model of energy, IPDPS 2013 (power caps).

    Examples
    --------
    Two cards with the same chip, one of them with a quarter of the power:

    >>> [f"{float(sustained_peak(10e12, watts, 25e-12)):.2e}" for watts in (300, 75)]
    ['9.06e+12', '2.99e+12']
    """
    slowest = smooth_max(
        1 / positive("peak_flops", peak_flops),
        non_negative("joules_per_flop", joules_per_flop) / positive("watts", watts),
        smoothness,
    )
    return np.asarray(1 / slowest)


def generation_seconds(
    prompt_seconds: ArrayLike, step_seconds: ArrayLike, steps: ArrayLike, prompts: ArrayLike = 1
) -> Array:
    r"""Time of a static batch of a language model: one pass over the prompts, then one a token.

    .. math:: t = q\, t_p + n\, t_s

    Parameters
    ----------
    prompt_seconds : array_like
        Pass over all tokens of the prompts, t_p [s].
    step_seconds : array_like
        Pass over one token of each sequence, at the mean length of the cache, t_s [s].
    steps : array_like
        Such passes, n: tokens of an answer less the one that the prompt gives [-].
    prompts : array_like
        Passes over prompts that count, q: 0 where the delay of single tokens is asked for [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Pope et al., Efficiently scaling transformer inference, MLSys 2023, section 2 (prefill and decode).

    Examples
    --------
    >>> round(float(generation_seconds(0.2, 0.01, 127)), 3)
    1.47
    """
    passes = non_negative("prompts", prompts) * non_negative("prompt_seconds", prompt_seconds)
    return np.asarray(passes + non_negative("steps", steps) * non_negative("step_seconds", step_seconds))


def shard_exchange_seconds(
    exchanges: ArrayLike, bytes_each: ArrayLike, shards: ArrayLike, link_bandwidth: ArrayLike, start_seconds: ArrayLike
) -> Array:
    r"""Time that tensor-parallel shards of one pass spend on their sums, nothing of it hidden.

    .. math:: t = n \left( t_0 \log_2 k + \frac{2 (k - 1)}{k} \frac{M}{B} \right)

    Parameters
    ----------
    exchanges : array_like
        All-reduces of one pass, n: two a layer [-].
    bytes_each : array_like
        Payload of one, M [B].
    shards : array_like
        Devices that share a layer, k >= 1 [-].
    link_bandwidth : array_like
        Rate of a device's links that an all-reduce reaches, B > 0 [B/s].
    start_seconds : array_like
        Time of one message, t_0 [s].

    Returns
    -------
    numpy.ndarray
        Time [s]; 0 for one shard.

    References
    ----------
    Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005.

    Examples
    --------
    >>> float(shard_exchange_seconds(64, 1e6, 1, 1e11, 1e-5)), float(shard_exchange_seconds(2, 1e9, 2, 1e9, 0.5))
    (0.0, 3.0)
    """
    k = at_least_one("shards", shards)
    start = non_negative("start_seconds", start_seconds) * np.log2(k)
    ring = 2 * (k - 1) / k * non_negative("bytes_each", bytes_each) / positive("link_bandwidth", link_bandwidth)
    return np.asarray(non_negative("exchanges", exchanges) * (start + ring))
