"""How much arithmetic training asks for, whatever runs it. 1 MAC = 2 FLOP."""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, non_negative, positive

FLOP_PER_MAC = 2


def training_flop(
    forward_macs: ArrayLike, samples: ArrayLike = 1, backward: ArrayLike = 2, recomputed: ArrayLike = 0
) -> Array:
    r"""Arithmetic of training on a number of samples.

    Each matrix product of the forward pass has two in the backward pass, the gradient of its input and that of its
    weights.

    .. math:: F = 2 (1 + \rho + r) A S

    Parameters
    ----------
    forward_macs : array_like
        Multiply-accumulates of the forward pass of one sample, A [MAC].
    samples : array_like
        Samples, epochs included, S [-].
    backward : array_like
        Backward pass in forward passes, rho [-].
    recomputed : array_like
        Share of the forward pass that is computed again to save memory, r [-].

    Returns
    -------
    numpy.ndarray
        Arithmetic, two operations for each multiply-accumulate [FLOP].

    References
    ----------
    Kaplan et al., Scaling laws for neural language models, arXiv:2001.08361, 2020, section 2.1.

    Examples
    --------
    >>> f"{training_flop(11.3e9, 14e6):.3g}"
    '9.49e+17'
    """
    passes = 1 + non_negative("backward", backward) + non_negative("recomputed", recomputed)
    return FLOP_PER_MAC * passes * non_negative("forward_macs", forward_macs) * non_negative("samples", samples)


def sustained_rate(flop: ArrayLike, seconds: ArrayLike) -> Array:
    r"""Rate that must be held to finish in time.

    .. math:: R = F / t

    Parameters
    ----------
    flop : array_like
        Arithmetic to do, F [FLOP].
    seconds : array_like
        Time allowed, t > 0 [s].

    Returns
    -------
    numpy.ndarray
        Rate [FLOP/s].

    References
    ----------
    The founding example: 3 x 11.3e9 x 14e6 / 3600 s, in MAC/s; Hewlett Packard Labs, Deep Learning Cookbook, 2017.

    Examples
    --------
    >>> f"{sustained_rate(training_flop(11.3e9, 14e6), 3600):.3g}"
    '2.64e+14'
    """
    return np.asarray(non_negative("flop", flop) / positive("seconds", seconds))
