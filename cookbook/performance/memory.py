"""Bytes of device memory that a model needs, part by part.

Sizes of one element come from the number format and states from the optimiser; all are arguments here.
"""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, fraction, non_negative, positive


def weight_bytes(parameters: ArrayLike, bytes_per_weight: ArrayLike) -> Array:
    r"""Memory of the weights that the arithmetic reads.

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
    return non_negative("parameters", parameters) * non_negative("bytes_per_weight", bytes_per_weight)


def gradient_bytes(parameters: ArrayLike, bytes_per_gradient: ArrayLike) -> Array:
    r"""Memory of the gradients of all weights.

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
    return non_negative("parameters", parameters) * non_negative("bytes_per_gradient", bytes_per_gradient)


def master_bytes(parameters: ArrayLike, bytes_per_master: ArrayLike) -> Array:
    r"""Memory of the full-precision copy kept beside low-precision weights.

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
    return non_negative("parameters", parameters) * non_negative("bytes_per_master", bytes_per_master)


def optimiser_bytes(parameters: ArrayLike, state_elements: ArrayLike, bytes_per_state: ArrayLike) -> Array:
    r"""Memory of the optimiser's states (momentum, variance).

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
    elements = non_negative("parameters", parameters) * non_negative("state_elements", state_elements)
    return elements * non_negative("bytes_per_state", bytes_per_state)


def update_bytes(
    parameters: ArrayLike,
    update_reads: ArrayLike,
    update_writes: ArrayLike,
    bytes_per_state: ArrayLike,
    bytes_per_gradient: ArrayLike,
    bytes_per_copy: ArrayLike = 0,
) -> Array:
    r"""Traffic of one optimiser step: gradient, weights and states read, weights and states written.

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
    others = non_negative("update_reads", update_reads) - 1 + non_negative("update_writes", update_writes)
    states = np.maximum(others, 0) * non_negative("bytes_per_state", bytes_per_state)
    gradient = non_negative("bytes_per_gradient", bytes_per_gradient)
    return non_negative("parameters", parameters) * (
        states + gradient + non_negative("bytes_per_copy", bytes_per_copy)
    )


def activation_bytes(
    saved_bytes: ArrayLike,
    block_input_bytes: ArrayLike,
    largest_block_bytes: ArrayLike,
    recompute: ArrayLike = 0,
) -> Array:
    r"""Memory of the activations kept for the backward pass.

    Without recomputation everything saved in the forward pass stays. With full recomputation only the input
    of each block stays, and one block at a time is saved again; shares between the two are interpolated.
    Where keeping everything is cheaper (a single block), everything is kept.

    .. math:: M_a = (1 - r) A + r \min(A, I + L)

    Parameters
    ----------
    saved_bytes : array_like
        All that the forward pass saves, A [B].
    block_input_bytes : array_like
        Inputs of all blocks and whatever is saved outside blocks, I [B].
    largest_block_bytes : array_like
        What the block that saves most saves, L [B].
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
    kept = non_negative("saved_bytes", saved_bytes)
    again = non_negative("block_input_bytes", block_input_bytes) + non_negative(
        "largest_block_bytes", largest_block_bytes
    )
    share = fraction("recompute", recompute)
    return np.asarray((1 - share) * kept + share * np.minimum(kept, again))


def workspace_bytes(buffer_bytes: ArrayLike, runtime_bytes: ArrayLike) -> Array:
    r"""Memory in flight: the tensors of the operation at work, and what the runtime itself holds.

    .. math:: M_t = B + R

    Parameters
    ----------
    buffer_bytes : array_like
        Tensors of the largest operation that nothing else counts: gradients of its input and output, B [B].
    runtime_bytes : array_like
        Held by driver, kernels and libraries before the first tensor, R [B].

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
    return non_negative("buffer_bytes", buffer_bytes) + non_negative("runtime_bytes", runtime_bytes)


def training_bytes(
    parameters: ArrayLike,
    activations: ArrayLike,
    workspace: ArrayLike,
    bytes_per_weight: ArrayLike,
    bytes_per_gradient: ArrayLike,
    bytes_per_master: ArrayLike,
    state_elements: ArrayLike,
    bytes_per_state: ArrayLike,
) -> dict[str, Array]:
    r"""Memory of training by part, on one device that holds the whole model.

    .. math:: M = N (w + g + c + k s) + M_a + M_t

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N [-].
    activations : array_like
        Activations kept for the backward pass, M_a [B].
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
        "activations": non_negative("activations", activations),
        "workspace": non_negative("workspace", workspace),
    }


def inference_bytes(
    parameters: ArrayLike, bytes_per_weight: ArrayLike, cache: ArrayLike, workspace: ArrayLike
) -> dict[str, Array]:
    r"""Memory of inference by part: no gradients, no states, nothing saved.

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
    return {
        "weights": weight_bytes(parameters, bytes_per_weight),
        "cache": non_negative("cache", cache),
        "workspace": non_negative("workspace", workspace),
    }


def largest_batch(capacity_bytes: ArrayLike, fixed_bytes: ArrayLike, bytes_per_sample: ArrayLike) -> Array:
    r"""Largest batch whose memory, linear in the batch, fits the device.

    .. math:: b = \max\left(0, \left\lfloor \frac{C - M_0}{m} \right\rfloor\right)

    Parameters
    ----------
    capacity_bytes : array_like
        Memory of the device, C [B].
    fixed_bytes : array_like
        Memory needed whatever the batch, M_0 [B].
    bytes_per_sample : array_like
        Memory added by each sample of the batch, m > 0 [B].

    Returns
    -------
    numpy.ndarray
        Whole samples [-], 0 where not even one fits, NaN where a figure is missing.

    References
    ----------
    Rajbhandari, Rasley, Ruwase & He, ZeRO, SC20, 2020, section 3 (states fixed, activations per sample).

    Examples
    --------
    >>> largest_batch([16e9, 80e9, 1e9], 2e9, 0.5e9)
    array([ 28., 156.,   0.])
    """
    capacity, fixed = non_negative("capacity_bytes", capacity_bytes), non_negative("fixed_bytes", fixed_bytes)
    sample = positive("bytes_per_sample", bytes_per_sample)
    batch = np.floor((capacity - fixed) / sample)
    # A quotient rounded across a whole number would be off by one sample.
    batch = batch - (fixed + batch * sample > capacity)
    batch = batch + (fixed + (batch + 1) * sample <= capacity)
    return np.maximum(batch, 0)
