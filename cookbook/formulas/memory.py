"""Device memory of a model, part by part.

Sizes of one element come from the number format and states from the optimiser; all are arguments here.

Sharded, one device of many in training a transformer: `sharded_state_bytes`, `layer_activation_bytes`,
`recomputed_bytes`, `micro_batches_held`, `logits_bytes`, and `offloaded_update_seconds` of weights whose states
are in host memory or on drives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import Array, AtLeastOne, Fraction, NonNegative, Positive, checked


@checked
def weight_bytes(parameters: NonNegative, bytes_per_weight: NonNegative) -> Array:
    r"""Return the memory of the weights that the arithmetic reads.

    .. math:: M_w = N w

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    bytes_per_weight : array_like
        Size of one weight, w [B].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.1.

    Examples
    --------
    >>> float(weight_bytes(1.5e9, 2))
    3000000000.0
    """
    return parameters * bytes_per_weight


@checked
def gradient_bytes(parameters: NonNegative, bytes_per_gradient: NonNegative) -> Array:
    r"""Return the memory of the gradients of all weights.

    .. math:: M_g = N g

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    bytes_per_gradient : array_like
        Size of one gradient, g [B].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.1.

    Examples
    --------
    >>> float(gradient_bytes(1.5e9, 2))
    3000000000.0
    """
    return parameters * bytes_per_gradient


@checked
def master_bytes(parameters: NonNegative, bytes_per_master: NonNegative) -> Array:
    r"""Return the memory of the full-precision copy kept beside low-precision weights.

    .. math:: M_c = N c

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    bytes_per_master : array_like
        Size of one weight of the copy, c, 0 without one [B].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Micikevicius et al., Mixed precision training, ICLR 2018, section 3.1.

    Examples
    --------
    >>> float(master_bytes(1.5e9, 4))
    6000000000.0
    """
    return parameters * bytes_per_master


@checked
def optimiser_bytes(parameters: NonNegative, state_elements: NonNegative, bytes_per_state: NonNegative) -> Array:
    r"""Return the memory of the optimiser's states (momentum, variance).

    .. math:: M_o = N k s

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    state_elements : array_like
        Elements kept for each parameter, k (0 for plain SGD, 2 for Adam) [-].
    bytes_per_state : array_like
        Size of one element, s [B].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.1.

    Examples
    --------
    >>> float(optimiser_bytes(1.5e9, 2, 4))
    12000000000.0
    """
    return parameters * state_elements * bytes_per_state


@checked
def update_bytes(
    parameters: NonNegative,
    update_reads: NonNegative,
    update_writes: NonNegative,
    bytes_per_state: NonNegative,
    bytes_per_gradient: NonNegative,
    bytes_per_copy: NonNegative = 0,
) -> Array:
    r"""Return the traffic of one optimiser step: gradient, weights and states read, weights and states written.

    .. math:: M = N \left[ (r - 1 + w) s + g + c \right]

    Parameters
    ----------
    parameters : array_like
        Parameters updated, N [-].
    update_reads : array_like
        Elements read for each parameter, its gradient among them, r >= 1 [-].
    update_writes : array_like
        Elements written for each parameter, w [-].
    bytes_per_state : array_like
        Size of one weight or state in the optimiser, s [B].
    bytes_per_gradient : array_like
        Size of one gradient, g [B].
    bytes_per_copy : array_like
        Size of the low-precision weight written beside the full-precision one, c, 0 without one [B].

    Returns
    -------
    numpy.ndarray
        Traffic of one step [B].

    References
    ----------
    Kingma & Ba, Adam, ICLR 2015, algorithm 1 (what one step reads and writes).

    Examples
    --------
    Adam in single precision moves 28 B a parameter:

    >>> float(update_bytes(1, 4, 3, 4, 4))
    28.0
    """
    others = update_reads - 1 + update_writes
    states = np.maximum(others, 0) * bytes_per_state
    return parameters * (states + bytes_per_gradient + bytes_per_copy)


@checked
def activation_bytes(
    saved_bytes: NonNegative,
    block_input_bytes: NonNegative,
    largest_block_bytes: NonNegative,
    recompute: Fraction = 0,
) -> Array:
    r"""Return the memory of the activations saved for the backward pass.

    Without recomputation everything saved in the forward pass remains. With full recomputation only the input
    of each block remains, and one block at a time is recomputed; shares between the two are interpolated.
    Where keeping everything is cheaper (a single block), everything is kept.

    .. math:: M_a = (1 - r) A + r \min(A, I + L)

    Parameters
    ----------
    saved_bytes : array_like
        Activations saved by the forward pass, A [B].
    block_input_bytes : array_like
        Inputs of all blocks and whatever is saved outside blocks, I [B].
    largest_block_bytes : array_like
        Largest saved size of any block, L [B].
    recompute : array_like
        Share of the blocks that is recomputed, r, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Chen, Xu, Zhang & Guestrin, Training deep nets with sublinear memory cost, arXiv:1604.06174, 2016;
    Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023, section 5.

    Examples
    --------
    A chain of 100 equal layers in 10 blocks of 10:

    >>> float(activation_bytes(100, 10, 10)), float(activation_bytes(100, 10, 10, recompute=1))
    (100.0, 20.0)
    """
    recomputed = block_input_bytes + largest_block_bytes
    return np.asarray((1 - recompute) * saved_bytes + recompute * np.minimum(saved_bytes, recomputed))


@checked
def workspace_bytes(buffer_bytes: NonNegative, runtime_bytes: NonNegative) -> Array:
    r"""Return the transient memory: the tensors of the running operation, and the runtime's own.

    .. math:: M_t = B + R

    Parameters
    ----------
    buffer_bytes : array_like
        Tensors of the largest operation that nothing else counts: gradients of its input and output, B [B].
    runtime_bytes : array_like
        Memory of driver, kernels and libraries before the first tensor, R [B].

    Returns
    -------
    numpy.ndarray
        Memory [B].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.2 (temporary buffers).

    Examples
    --------
    >>> float(workspace_bytes(2e8, 1e9))
    1200000000.0
    """
    return buffer_bytes + runtime_bytes


@checked
def training_bytes(
    parameters: ArrayLike,
    activations: NonNegative,
    workspace: NonNegative,
    bytes_per_weight: ArrayLike,
    bytes_per_gradient: ArrayLike,
    bytes_per_master: ArrayLike,
    state_elements: ArrayLike,
    bytes_per_state: ArrayLike,
) -> dict[str, Array]:
    r"""Return the memory of training by part, on one device with the whole model.

    .. math:: M = N (w + g + c + k s) + M_a + M_t

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    activations : array_like
        Activations saved for the backward pass, M_a [B].
    workspace : array_like
        Memory in flight, M_t [B].
    bytes_per_weight : array_like
        Size of one weight, w [B].
    bytes_per_gradient : array_like
        Size of one gradient, g [B].
    bytes_per_master : array_like
        Size of one weight of the full-precision copy, c, 0 without one [B].
    state_elements : array_like
        Optimiser elements kept for each parameter, k [-].
    bytes_per_state : array_like
        Size of one of them, s [B].

    Returns
    -------
    dict of str to numpy.ndarray
        Memory [B] of weights, gradients, optimiser, master, activations and workspace; they add up.

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.

    Examples
    --------
    Model states of 1.5 billion parameters, Adam in mixed precision, 16 B each:

    >>> float(sum(training_bytes(1.5e9, 0, 0, 2, 2, 4, 2, 4).values()))
    24000000000.0
    """
    return {
        "weights": weight_bytes(parameters, bytes_per_weight),
        "gradients": gradient_bytes(parameters, bytes_per_gradient),
        "optimiser": optimiser_bytes(parameters, state_elements, bytes_per_state),
        "master": master_bytes(parameters, bytes_per_master),
        "activations": activations,
        "workspace": workspace,
    }


@checked
def inference_bytes(
    parameters: ArrayLike, bytes_per_weight: ArrayLike, cache: NonNegative, workspace: NonNegative
) -> dict[str, Array]:
    r"""Return the memory of inference by part: no gradients, no states, nothing saved.

    .. math:: M = N w + M_k + M_t

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    bytes_per_weight : array_like
        Size of one weight, w [B].
    cache : array_like
        State carried from step to step (keys and values), M_k, 0 without one [B].
    workspace : array_like
        Memory in flight, M_t [B].

    Returns
    -------
    dict of str to numpy.ndarray
        Memory [B] of weights, cache and workspace; they add up.

    References
    ----------
    Pope et al., Efficiently scaling transformer inference, MLSys 2023, section 2.

    Examples
    --------
    >>> float(sum(inference_bytes(7e9, 2, 1e9, 0).values()))
    15000000000.0
    """
    return {"weights": weight_bytes(parameters, bytes_per_weight), "cache": cache, "workspace": workspace}


@checked
def largest_batch(capacity_bytes: NonNegative, fixed_bytes: NonNegative, bytes_per_sample: Positive) -> Array:
    r"""Return the largest batch whose memory, linear in the batch, fits the device.

    .. math:: b = \max\left(0, \left\lfloor \frac{C - M_0}{m} \right\rfloor\right)

    Parameters
    ----------
    capacity_bytes : array_like
        Memory of the device, C [B].
    fixed_bytes : array_like
        Memory needed at any batch size, M_0 [B].
    bytes_per_sample : array_like
        Memory added by each sample of the batch, m > 0 [B].

    Returns
    -------
    numpy.ndarray
        Samples, an integer [-]; 0 where not even one fits, NaN where a value is missing.

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3 (states fixed, activations per sample).

    Examples
    --------
    >>> largest_batch([16e9, 80e9, 1e9], 2e9, 0.5e9)
    array([ 28., 156.,   0.])
    """
    batch = np.floor((capacity_bytes - fixed_bytes) / bytes_per_sample)
    # A quotient rounded across an integer would be off by one sample.
    batch = batch - (fixed_bytes + batch * bytes_per_sample > capacity_bytes)
    batch = batch + (fixed_bytes + (batch + 1) * bytes_per_sample <= capacity_bytes)
    return np.maximum(batch, 0)


@checked
def sharded_state_bytes(
    parameters: NonNegative,
    stage: NonNegative,
    ranks: AtLeastOne,
    weight_bytes: NonNegative,
    gradient_bytes: NonNegative,
    optimiser_bytes: NonNegative,
) -> dict[str, Array]:
    r"""Return weights, gradients and optimiser states on one device, sharded over data-parallel ranks by ZeRO stage.

    .. math:: M = N \left( \frac{w}{n^{[z \ge 3]}} + \frac{g}{n^{[z \ge 2]}} + \frac{o}{n^{[z \ge 1]}} \right)

    Parameters
    ----------
    parameters : array_like
        Parameters of this device's part of the model, N [-].
    stage : array_like
        ZeRO stage, z: 0 shards nothing, 1 optimiser states, 2 also gradients, 3 also weights [-].
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
    states = {"weights": (3, weight_bytes), "gradients": (2, gradient_bytes), "optimiser": (1, optimiser_bytes)}
    return {name: parameters * size / np.where(stage >= least, ranks, 1) for name, (least, size) in states.items()}


@checked
def layer_activation_bytes(
    tokens: NonNegative,
    stream_width: NonNegative,
    attention_width: NonNegative,
    mlp_width: NonNegative,
    scores: NonNegative,
    element_bytes: NonNegative,
    mask_bytes: NonNegative,
) -> dict[str, Array]:
    r"""Return the activations that one layer saves for its backward pass, by where they arise.

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
    return {
        "stream": tokens * element_bytes * stream_width,
        "attention": tokens * element_bytes * attention_width,
        "mlp": tokens * element_bytes * mlp_width,
        "scores": (2 * element_bytes + mask_bytes) * scores,
    }


@checked
def recomputed_bytes(kept_bytes: NonNegative, input_bytes: NonNegative, recompute: Fraction) -> Array:
    r"""Return the activations of a part of the layers, a share of which is recomputed from its inputs.

    .. math:: M = (1 - r) A + r \min(A, I)

    Parameters
    ----------
    kept_bytes : array_like
        Activations that the layers save, A [B].
    input_bytes : array_like
        Inputs from which it is recomputed, I [B].
    recompute : array_like
        Share recomputed, r, 0 to 1 [-].

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
    return (1 - recompute) * kept_bytes + recompute * np.minimum(kept_bytes, input_bytes)


@checked
def micro_batches_held(
    stages: AtLeastOne, interleave: AtLeastOne, micro_batches: AtLeastOne, share: NonNegative = np.nan
) -> Array:
    r"""Return the number of micro-batches whose activations the first pipeline stage stores at once (1F1B).

    .. math:: q = \min\left( m,\; p \left( 1 + \frac{p - 1}{p v} [v > 1] \right) \right)

    In a V-shaped schedule the first device has the first and the last layers, and stores a share of p.

    Parameters
    ----------
    stages : array_like
        Stages of the pipeline, p >= 1 [-].
    interleave : array_like
        Chunks of layers on each device, v >= 1 [-].
    micro_batches : array_like
        Micro-batches of one flush, m >= 1 [-].
    share : array_like
        Share of the stages whose activations are resident in a V-shaped schedule: 1 (V-ZB), 1/2 (V-Half) or 1/3
        (V-Min); infinite if all forward passes come first (GPipe); NaN for other schedules [-].

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
    flushed = stages + (interleave > 1) * (stages - 1) / interleave
    stored = np.where(np.isnan(share), flushed, np.maximum(stages * share, 1))
    return np.minimum(micro_batches, stored)


@checked
def logits_bytes(tokens: NonNegative, vocabulary: NonNegative, bytes_per_logit: NonNegative) -> Array:
    r"""Return the bytes of the last stage's logits, with what the loss stores of them.

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
    return tokens * vocabulary * bytes_per_logit


@checked
def fits(needed_bytes: NonNegative, capacity_bytes: NonNegative) -> np.ndarray:
    r"""Return True where the needed memory fits the device.

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
        True where it fits; False where a value is missing [-].

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3.

    Examples
    --------
    >>> fits([70e9, 90e9], 80e9).tolist()
    [True, False]
    """
    return np.asarray(needed_bytes <= capacity_bytes)


@checked
def offloaded_update_seconds(
    parameters: NonNegative,
    gradient_bytes: NonNegative,
    weight_bytes: NonNegative,
    state_bytes: NonNegative,
    link: Positive,
    host_memory: Positive,
    drives: Positive = np.inf,
) -> Array:
    r"""Return the time of an update on the CPU: gradients go there and weights return, states are read and written.

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
        Bandwidth from the device to its host, one direction, beta_l [B/s].
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
    states = 2 * state_bytes
    over_link = np.maximum(gradient_bytes, weight_bytes) / link
    in_memory = (gradient_bytes + weight_bytes + states) / host_memory
    slowest = np.maximum(np.maximum(over_link, in_memory), states / drives)
    return np.asarray(parameters * slowest)
