"""Time of a network, operation by operation, for one training step (forward and twice backward) or one forward pass.

- Rates that layers reach: `matrix_unit_rate`, `vector_unit_rate`, `issue_rate`, `issued_share`, `winograd_saving`.
- Parts of a step: `layer_seconds`, `stream_seconds`, `dispatch_seconds`, `recurrence_seconds`, `waiting_seconds`,
  `exchange_exposed_seconds`.
- A pass: `pass_seconds`, `samples_per_second`, `kernels_left`, `sustained_peak`.

FLOP are counted as 1 MAC = 2 FLOP. Efficiencies are arguments: shares of a peak that kernels reach.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import Array, AtLeastOne, Fraction, NonNegative, Positive, checked
from cookbook.formulas.arithmetic import smooth_max
from cookbook.formulas.collectives import exposed_seconds


@checked
def matrix_unit_rate(
    peak_flops: Positive, efficiency: NonNegative, reference_flops: Positive, exponent: ArrayLike
) -> Array:
    r"""Return the rate of matrix units (tensor cores).

    Faster units are harder to feed and reach a smaller share of their peak.

    .. math:: R = e P (P / P_0)^{-x}

    Parameters
    ----------
    peak_flops : array_like
        Dense peak of the number format, P > 0 [FLOP/s].
    efficiency : array_like
        Share of the peak reached on a device of the reference peak, e [-].
    reference_flops : array_like
        Peak at which the efficiency is stated, P_0 > 0 [FLOP/s].
    exponent : array_like
        Decrease of the share with the peak, x: 0 for none [-].

    Returns
    -------
    numpy.ndarray
        Rate [FLOP/s].

    References
    ----------
    Form of this cookbook: a share e of the peak as in Qi, Sparks & Talwalkar, Paleo, ICLR 2017, with a trend.

    Examples
    --------
    >>> f"{matrix_unit_rate(800e12, 0.6, 200e12, 0.5):.4g}"
    '2.4e+14'
    """
    slower = (peak_flops / reference_flops) ** -np.asarray(exponent, dtype=float)
    return np.asarray(peak_flops * efficiency * slower)


@checked
def vector_unit_rate(peak_flops: Positive, efficiency: NonNegative, saving: Positive = 1) -> Array:
    r"""Return the rate of plain arithmetic units on one product, in FLOP of the direct algorithm.

    .. math:: R = e P g

    Parameters
    ----------
    peak_flops : array_like
        Peak of the number format outside matrix units, P > 0 [FLOP/s].
    efficiency : array_like
        Share of the peak that the kernel reaches, e [-].
    saving : array_like
        Multiplications of the direct algorithm for each one that is done, g > 0 [-].

    Returns
    -------
    numpy.ndarray
        Rate [FLOP/s]; above the peak where a fast algorithm saves more than the kernel wastes.

    References
    ----------
    Lavin & Gray, Fast algorithms for convolutional neural networks, CVPR 2016.

    Examples
    --------
    >>> float(vector_unit_rate(10e12, 0.5, 2))
    10000000000000.0
    """
    return np.asarray(peak_flops * efficiency * saving)


@checked
def issued_share(lanes: NonNegative, others: NonNegative) -> Array:
    r"""Return the share of the vector units' peak that their schedulers, with one instruction per cycle, can feed.

    .. math:: s = \min\left(1, \; \frac{1}{l (1 + q)}\right)

    Parameters
    ----------
    lanes : array_like
        Lanes that one scheduler feeds, in widths of an instruction, l >= 0; 0 where schedulers set no limit [-].
    others : array_like
        Other instructions (addresses, loads, loops) for each arithmetic one, q [-].

    Returns
    -------
    numpy.ndarray
        Share [-].

    References
    ----------
    Volkov, Understanding latency hiding on GPUs, dissertation, UC Berkeley, 2016 (issue slots as a limit).

    Examples
    --------
    One scheduler for a whole width of lanes, and one for half of it:

    >>> float(issued_share(1, 0.25)), float(issued_share(0.5, 0.25))
    (0.8, 1.0)
    """
    return np.asarray(1 / np.maximum(lanes * (1 + others), 1.0))


@checked
def issue_rate(peak_flops: Positive, lanes: Positive) -> Array:
    r"""Return the rate of instructions of any kind that all schedulers issue, one operation per lane.

    .. math:: R_i = P / (2 l)

    Parameters
    ----------
    peak_flops : array_like
        Peak of the plain arithmetic units, two operations a lane and cycle, P > 0 [FLOP/s].
    lanes : array_like
        Lanes that one scheduler feeds, in widths of an instruction, l > 0 [-].

    Returns
    -------
    numpy.ndarray
        Rate [FLOP/s].

    References
    ----------
    Volkov, Understanding latency hiding on GPUs, dissertation, UC Berkeley, 2016.

    Examples
    --------
    Schedulers that feed half a width start twice as many instructions as their lanes could multiply and add:

    >>> float(issue_rate(16e12, 0.5))
    16000000000000.0
    """
    return np.asarray(peak_flops / (2 * lanes))


@checked
def winograd_saving(outputs: AtLeastOne, taps: AtLeastOne) -> Array:
    r"""Return the factor of multiplications that minimal filtering saves in a square convolution of stride 1.

    .. math:: g = \left( \frac{m r}{m + r - 1} \right)^2

    Parameters
    ----------
    outputs : array_like
        Outputs of one tile along an axis, m >= 1 [-].
    taps : array_like
        Taps of the kernel along an axis, r >= 1 [-].

    Returns
    -------
    numpy.ndarray
        Multiplications of the direct algorithm for each one of the fast algorithm [-].

    References
    ----------
    Lavin & Gray, Fast algorithms for convolutional neural networks, CVPR 2016 (minimal filtering).

    Examples
    --------
    F(2x2, 3x3) needs 16 multiplications in place of 36:

    >>> float(winograd_saving(2, 3))
    2.25
    """
    return np.asarray((outputs * taps / (outputs + taps - 1)) ** 2)


@checked
def layer_seconds(
    flop: NonNegative, bytes_moved: NonNegative, rate: Positive, mem_bandwidth: Positive, passes: NonNegative = 3
) -> Array:
    r"""Return the time of one layer in a training step: forward, gradient of the input, gradient of the weights.

    Each pass has the arithmetic of the forward pass and moves the same three tensors.

    .. math:: t = n \sqrt{(F / R)^2 + (M / W)^2}

    Parameters
    ----------
    flop : array_like
        Arithmetic of one pass, F [FLOP].
    bytes_moved : array_like
        Input, output and weights, M [B].
    rate : array_like
        Rate of the arithmetic, R > 0 [FLOP/s].
    mem_bandwidth : array_like
        Memory bandwidth that kernels reach, W > 0 [B/s].
    passes : array_like
        Passes, n: 1 for inference [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Qi, Sparks & Talwalkar, Paleo, ICLR 2017 (passes layer by layer); Williams, Waterman & Patterson,
    Commun. ACM 52(4), 2009 (arithmetic beside traffic).

    Examples
    --------
    >>> float(layer_seconds(3e12, 4e9, 1e12, 1e9))
    15.0
    """
    compute = flop / rate
    memory = bytes_moved / mem_bandwidth
    return np.asarray(passes * np.sqrt(compute * compute + memory * memory))


@checked
def stream_seconds(
    elements: NonNegative,
    element_bytes: NonNegative,
    mem_bandwidth: Positive,
    instructions: NonNegative = 0,
    issued: ArrayLike = np.inf,
    kept: Fraction = 1,
) -> Array:
    r"""Return the time of operations that only move data: norms, activations, sums, pooling, softmax.

    Traffic shrinks with the number format, instructions do not.

    .. math:: t = s n \sqrt{(w / W)^2 + (i / R_i)^2}

    Parameters
    ----------
    elements : array_like
        Elements read or written when each operation runs by itself, forward and backward, n [-].
    element_bytes : array_like
        Size of one element, w [B].
    mem_bandwidth : array_like
        Memory bandwidth that such kernels reach, W > 0 [B/s].
    instructions : array_like
        Instructions for each element read or written, one operation each, i [FLOP].
    issued : array_like
        Rate at which the device starts instructions, R_i > 0; see `issue_rate` [FLOP/s].
    kept : array_like
        Share of the traffic that remains after fusion, s, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Ivanov et al., Data movement is all you need, MLSys 2021 (traffic between products bounds training).

    Examples
    --------
    >>> float(stream_seconds(2e9, 2, 1e9, kept=0.5)), float(stream_seconds(1e9, 3, 1e9, 4, 1e9))
    (2.0, 5.0)
    """
    element_seconds = element_bytes / mem_bandwidth
    started = instructions / np.asarray(issued, dtype=float)
    touched = elements * kept
    return np.asarray(touched * np.sqrt(element_seconds * element_seconds + started * started))


@checked
def missed_share(held_bytes: NonNegative, cache_bytes: NonNegative) -> Array:
    r"""Return the share of an operation's traffic that misses a cache, when the next operation reads what it wrote.

    .. math:: m = \frac{h}{h + C}

    Parameters
    ----------
    held_bytes : array_like
        Bytes read and written by one operation, h [B].
    cache_bytes : array_like
        The last cache before memory, C; 0 for none [B].

    Returns
    -------
    numpy.ndarray
        Share, 0 to 1 [-].

    References
    ----------
    Hartstein et al., Cache miss behavior: is it sqrt(2)?, Computing Frontiers 2006 (no sharp edge); form of this
    cookbook.

    Examples
    --------
    >>> [float(missed_share(held, 4e6)) for held in (0, 1e6, 4e6, 36e6)], float(missed_share(1e6, 0))
    ([0.0, 0.2, 0.5, 0.9], 1.0)
    """
    total = held_bytes + cache_bytes
    return np.asarray(np.where(cache_bytes > 0, held_bytes / np.where(total > 0, total, 1.0), 1.0))


@checked
def dispatch_seconds(operations: NonNegative, seconds_each: NonNegative) -> Array:
    r"""Return the time of launching and finishing many small kernels beyond their arithmetic and traffic.

    .. math:: t = n t_0

    Parameters
    ----------
    operations : array_like
        Kernels per step, n [-].
    seconds_each : array_like
        Time per kernel, t_0 [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Yu, Gao, Golikov & Pekhimenko, Habitat, USENIX ATC 2021 (a step as a sequence of kernels).

    Examples
    --------
    >>> float(dispatch_seconds(1000, 5e-6))
    0.005
    """
    return np.asarray(operations * seconds_each)


@checked
def recurrence_seconds(positions: NonNegative, seconds_each: NonNegative, passes: NonNegative = 3) -> Array:
    r"""Return the time that a recurrent layer adds because its positions run one after the other.

    .. math:: t = n s t_1

    Parameters
    ----------
    positions : array_like
        Positions that depend on the one before, s [-].
    seconds_each : array_like
        Time added by one position of one pass, t_1 [s].
    passes : array_like
        Passes, n [-].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Appleyard, Kocisky & Blunsom, Optimizing performance of recurrent neural networks on GPUs, arXiv:1604.01946, 2016.

    Examples
    --------
    >>> float(recurrence_seconds(100, 2e-5))
    0.006
    """
    return np.asarray(positions * seconds_each * passes)


@checked
def exchange_exposed_seconds(
    exchange_seconds: ArrayLike, pass_seconds: NonNegative, hidden: Fraction, least: Fraction = 0
) -> Array:
    r"""Return the exposed time of the gradient all-reduce in a step, when the backward pass can hide it.

    The backward pass takes two thirds of forward and backward together; the gradient of the first layers comes
    last, so a share stays visible.

    .. math:: t = \max\left(t_c - \tfrac{2}{3} h\, t_p, \; l\, t_c\right)

    Parameters
    ----------
    exchange_seconds : array_like
        Time of the communication alone, t_c [s].
    pass_seconds : array_like
        Last forward and backward pass before the update, t_p [s].
    hidden : array_like
        Share of the backward pass that can overlap with communication, h, 0 to 1 [-].
    least : array_like
        Share of the communication that nothing hides, l, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Time [s]; 0 without communication.

    References
    ----------
    Li et al., PyTorch Distributed, Proc. VLDB Endow. 13(12), 2020 (buckets overlap the backward pass).

    Examples
    --------
    >>> float(exchange_exposed_seconds(4.0, 3.0, 0.5, 0.25)), float(exchange_exposed_seconds(4.0, 30.0, 0.5, 0.25))
    (3.0, 1.0)
    """
    backward = pass_seconds * 2 / 3
    visible = exposed_seconds(exchange_seconds, backward, hidden)
    return np.maximum(visible, least * np.asarray(exchange_seconds, dtype=float))


@checked
def waiting_seconds(step_seconds: NonNegative, devices: AtLeastOne, share: NonNegative) -> Array:
    r"""Return the time lost because a node's devices share its host and power, and all wait for the slowest.

    .. math:: t_w = s\, t\, [d > 1]

    Parameters
    ----------
    step_seconds : array_like
        Step of one device by itself, t [s].
    devices : array_like
        Devices of one node, d >= 1 [-].
    share : array_like
        Share lost in a node with more than one device, s [-].

    Returns
    -------
    numpy.ndarray
        Time [s]; 0 for one device.

    References
    ----------
    Petrini, Kerbyson & Pakin, The case of the missing supercomputer performance, SC 2003.

    Examples
    --------
    >>> float(waiting_seconds(1.0, 8, 0.05)), float(waiting_seconds(1.0, 1, 0.05))
    (0.05, 0.0)
    """
    return np.asarray(step_seconds * share * (devices > 1))


def pass_seconds(device_seconds: ArrayLike, host_seconds: ArrayLike, overlap: ArrayLike = 2) -> Array:
    r"""Return the time of one pass when the host launches operations while the device still runs earlier ones.

    .. math:: t = (t_d^p + t_h^p)^{1/p}

    Parameters
    ----------
    device_seconds : array_like
        Time of all operations on the device, one after the other, t_d [s].
    host_seconds : array_like
        Time of all launches on the host, one after the other, t_h; near 0 where a graph is replayed [s].
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


@checked
def samples_per_second(
    batch: NonNegative, seconds: Positive, replicas: AtLeastOne = 1, waiting: NonNegative = 0
) -> Array:
    r"""Return the throughput of replicas that each run one batch after the other.

    .. math:: R = \frac{r\, b}{t\,(1 + w\,[r > 1])}

    Parameters
    ----------
    batch : array_like
        Samples per pass, b [-].
    seconds : array_like
        Time of one pass, t > 0 [s].
    replicas : array_like
        Copies of the network, r >= 1 [-].
    waiting : array_like
        Share of the time that replicas of one host cost each other, w [-].

    Returns
    -------
    numpy.ndarray
        Samples per second [1/s].

    References
    ----------
    Reddi et al., MLPerf inference benchmark, ISCA 2020 (offline scenario).

    Examples
    --------
    >>> float(samples_per_second(32, 0.01, 4))
    12800.0
    """
    shared = 1 + waiting * (replicas > 1)
    return np.asarray(replicas * batch / (seconds * shared))


@checked
def kernels_left(products: NonNegative, others: NonNegative, kept: Fraction) -> Array:
    r"""Return the number of kernels of one pass: matrix products, and the other operations that fusion leaves.

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
    return np.asarray(products + others * kept)


@checked
def sustained_peak(
    peak_flops: Positive, watts: Positive, joules_per_flop: NonNegative, smoothness: ArrayLike = 4
) -> Array:
    r"""Return the peak that a device can sustain within its design power, when all its arithmetic units are busy.

    .. math:: P_s = \left( P^{-p} + (W / e)^{-p} \right)^{-1/p}

    Parameters
    ----------
    peak_flops : array_like
        Peak at boost clock, P > 0 [FLOP/s].
    watts : array_like
        Design power, W > 0; infinite where it sets no limit [W].
    joules_per_flop : array_like
        Energy per operation, its operands' movement included, e [J/FLOP].
    smoothness : array_like
        Exponent, p >= 1: sharpness of the transition between the limits [-].

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
    return np.asarray(1 / smooth_max(1 / peak_flops, joules_per_flop / watts, smoothness))
