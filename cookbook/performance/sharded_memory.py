"""Bytes that one device of many holds in training a transformer, and the update of weights whose states lie elsewhere.

Held are shards of states, activations in flight and logits; states may stand in host memory or on drives.
"""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, at_least_one, fraction, non_negative, positive


def sharded_state_bytes(
    parameters: ArrayLike,
    stage: ArrayLike,
    ranks: ArrayLike,
    weight_bytes: ArrayLike,
    gradient_bytes: ArrayLike,
    optimiser_bytes: ArrayLike,
) -> dict[str, Array]:
    r"""Weights, gradients and optimiser states on one device, shared out among data-parallel ranks by stage.

    .. math:: M = N \left( \frac{w}{n^{[z \ge 3]}} + \frac{g}{n^{[z \ge 2]}} + \frac{o}{n^{[z \ge 1]}} \right)

    Parameters
    ----------
    parameters : array_like
        Parameters of this device's part of the model, N [-].
    stage : array_like
        What is shared out, z: 0 nothing, 1 optimiser states, 2 also gradients, 3 also weights [-].
    ranks : array_like
        Data-parallel ranks that share, n >= 1 [-].
    weight_bytes : array_like
        Size of one weight that the arithmetic reads, w [B].
    gradient_bytes : array_like
        Size of one gradient, g [B].
    optimiser_bytes : array_like
        Master weight and states of the optimiser for one parameter, o [B].

    Returns
    -------
    dict of str to numpy.ndarray
        Memory [B] of weights, gradients and optimiser.

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, figure 1.

    Examples
    --------
    7.5 billion parameters on 64 ranks, as in the figure: 120 GB without, 31.4, 16.6 and 1.9 GB.

    >>> [round(float(sum(sharded_state_bytes(7.5e9, z, 64, 2, 2, 12).values())) / 1e9, 1) for z in range(4)]
    [120.0, 31.4, 16.6, 1.9]
    """
    count, level = at_least_one("ranks", ranks), non_negative("stage", stage)
    whole = non_negative("parameters", parameters)
    each = {"weights": (3, weight_bytes), "gradients": (2, gradient_bytes), "optimiser": (1, optimiser_bytes)}
    return {
        name: whole * non_negative(f"{name} bytes", size) / np.where(level >= least, count, 1)
        for name, (least, size) in each.items()
    }


def layer_activation_bytes(
    tokens: ArrayLike,
    stream_width: ArrayLike,
    attention_width: ArrayLike,
    mlp_width: ArrayLike,
    scores: ArrayLike,
    element_bytes: ArrayLike,
    mask_bytes: ArrayLike,
) -> dict[str, Array]:
    r"""Activations that one layer keeps for its backward pass, by where they arise.

    .. math:: M = T \left( w s + w d + w f \right) + (2 w + b)\, c

    Parameters
    ----------
    tokens : array_like
        Tokens of the micro-batch on this device, T [-].
    stream_width : array_like
        Values kept of the residual stream: inputs and outputs of norms, s [-].
    attention_width : array_like
        Values kept of queries, keys, values and their weighted sum, d [-].
    mlp_width : array_like
        Values kept within the feed-forward layer, f [-].
    scores : array_like
        Attention scores that are written out, c, 0 with a fused kernel [-].
    element_bytes : array_like
        Size of one value, w [B].
    mask_bytes : array_like
        Size of the dropout mask of one score, b [B].

    Returns
    -------
    dict of str to numpy.ndarray
        Memory [B] of stream, attention, mlp and scores.

    References
    ----------
    Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023, section 4.1.

    Examples
    --------
    A layer of GPT-3 keeps s b h (34 + 5 a s / h) bytes; here without the 2 bytes of two dropout masks on the stream:

    >>> s, b, h, a = 2048, 1, 12288, 96
    >>> kept = layer_activation_bytes(s * b, 4 * h, 4 * h, 8 * h, a * b * s * s, 2, 1)
    >>> float(sum(kept.values()) / (s * b * h)), 32 + 5 * a * s / h
    (112.0, 112.0)
    """
    count, size = non_negative("tokens", tokens), non_negative("element_bytes", element_bytes)
    return {
        "stream": count * size * non_negative("stream_width", stream_width),
        "attention": count * size * non_negative("attention_width", attention_width),
        "mlp": count * size * non_negative("mlp_width", mlp_width),
        "scores": (2 * size + non_negative("mask_bytes", mask_bytes)) * non_negative("scores", scores),
    }


def recomputed_bytes(kept_bytes: ArrayLike, input_bytes: ArrayLike, recompute: ArrayLike) -> Array:
    r"""Activations of a part of the layers where a share of them is computed again from its inputs.

    .. math:: M = (1 - r) A + r \min(A, I)

    Parameters
    ----------
    kept_bytes : array_like
        All that the part keeps, A [B].
    input_bytes : array_like
        Inputs that it is computed from again, I [B].
    recompute : array_like
        Share computed again, r, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Chen, Xu, Zhang & Guestrin, Training deep nets with sublinear memory cost, arXiv:1604.06174, 2016, section 3.

    Examples
    --------
    >>> recomputed_bytes(34.0, 2.0, [0, 0.5, 1]).tolist()
    [34.0, 18.0, 2.0]
    """
    kept, share = non_negative("kept_bytes", kept_bytes), fraction("recompute", recompute)
    return (1 - share) * kept + share * np.minimum(kept, non_negative("input_bytes", input_bytes))


def micro_batches_held(
    stages: ArrayLike, interleave: ArrayLike, micro_batches: ArrayLike, share: ArrayLike = np.nan
) -> Array:
    r"""Micro-batches whose activations the first stage of a pipeline holds at once (one forward, one backward).

    .. math:: q = \min\left( m,\; p \left( 1 + \frac{p - 1}{p v} [v > 1] \right) \right)

    A schedule in the form of a V, in which the first device has the first and the last layers, holds a share of p.

    Parameters
    ----------
    stages : array_like
        Stages of the pipeline, p >= 1 [-].
    interleave : array_like
        Chunks of layers on each device, v >= 1 [-].
    micro_batches : array_like
        Micro-batches of one flush, m >= 1 [-].
    share : array_like
        Of the stages, in a schedule in the form of a V: 1 (V-ZB), 1/2 (V-Half) or 1/3 (V-Min); infinite where all
        forward passes come first (GPipe); NaN for others [-].

    Returns
    -------
    numpy.ndarray
        Micro-batches [-].

    References
    ----------
    Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023, section 4.2.3;
    Qi, Wan, Amar & Lin, Pipeline parallelism with controllable memory, NeurIPS 2024 (V-Min, V-Half, V-ZB).

    Examples
    --------
    >>> micro_batches_held(8, [1, 2], 64).tolist(), micro_batches_held(8, 2, 64, [1, 1 / 2]).tolist()
    ([8.0, 11.5], [8.0, 4.0])
    """
    depth, chunks = at_least_one("stages", stages), at_least_one("interleave", interleave)
    part = np.asarray(share, dtype=float)
    held = np.where(np.isnan(part), depth + (chunks > 1) * (depth - 1) / chunks, np.maximum(depth * part, 1))
    return np.minimum(at_least_one("micro_batches", micro_batches), held)


def logits_bytes(tokens: ArrayLike, vocabulary: ArrayLike, bytes_per_logit: ArrayLike) -> Array:
    r"""Logits of the last stage with what the loss keeps of them.

    .. math:: M = u\, T V

    Parameters
    ----------
    tokens : array_like
        Tokens of the micro-batch on this device, T [-].
    vocabulary : array_like
        Rows of the head on this device, V [-].
    bytes_per_logit : array_like
        Bytes for each logit: itself, its single-precision copy, its gradient, u [B].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023, section 4.3.

    Examples
    --------
    >>> float(logits_bytes(4096, 32000, 10)) / 1e9
    1.31072
    """
    logits = non_negative("tokens", tokens) * non_negative("vocabulary", vocabulary)
    return non_negative("bytes_per_logit", bytes_per_logit) * logits


def fits(needed_bytes: ArrayLike, capacity_bytes: ArrayLike) -> np.ndarray:
    r"""Whether what is needed goes into the memory of a device.

    .. math:: M \le C

    Parameters
    ----------
    needed_bytes : array_like
        Memory needed, M [B].
    capacity_bytes : array_like
        Memory of the device, C [B].

    Returns
    -------
    numpy.ndarray
        True where it fits; False where a figure is missing [-].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.

    Examples
    --------
    >>> fits([70e9, 90e9], 80e9).tolist()
    [True, False]
    """
    return np.asarray(non_negative("needed_bytes", needed_bytes) <= non_negative("capacity_bytes", capacity_bytes))


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
