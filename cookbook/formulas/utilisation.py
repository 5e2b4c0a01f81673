"""FLOP per trained token under the conventions in which utilisation is reported. 1 MAC = 2 FLOP."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import Array, NonNegative, Positive, checked


@checked
def kaplan_2020(parameters: NonNegative, recomputed: NonNegative = 0) -> Array:
    r"""Return the FLOP of the parameters alone: 2 each forward, 4 backward, 2 more if recomputed.

    .. math:: F = (6 + 2 r) N

    Parameters
    ----------
    parameters : array_like
        Parameters that a token passes, N [-].
    recomputed : array_like
        Share of the forward pass that is recomputed, r [-].

    Returns
    -------
    numpy.ndarray
        Operations of one token [-].

    References
    ----------
    Kaplan et al., Scaling laws for neural language models, arXiv:2001.08361, 2020, section 2.1.

    Examples
    --------
    >>> float(kaplan_2020(1e9)), float(kaplan_2020(1e9, recomputed=1))
    (6000000000.0, 8000000000.0)
    """
    return np.asarray((6 + 2 * recomputed) * parameters)


@checked
def chowdhery_2022(parameters: ArrayLike, layers: NonNegative, hidden: NonNegative, seq_len: NonNegative) -> Array:
    r"""Return model FLOP as in PaLM: parameters and the whole attention matrix, its masked half too; no recomputation.

    .. math:: F = 6 N + 12 l h s

    Parameters
    ----------
    parameters : array_like
        Parameters, N [-].
    layers : array_like
        Layers, l [-].
    hidden : array_like
        Width, h [-].
    seq_len : array_like
        Tokens of a sequence, s [-].

    Returns
    -------
    numpy.ndarray
        Operations of one token [-].

    References
    ----------
    Chowdhery et al., PaLM: scaling language modeling with pathways, arXiv:2204.02311, 2022, appendix B.

    Examples
    --------
    >>> f"{chowdhery_2022(13e9, 40, 5120, 2048):.3g}"
    '8.3e+10'
    """
    return np.asarray(kaplan_2020(parameters) + 12 * layers * hidden * seq_len)


@checked
def repeated_forward(
    parameters: ArrayLike,
    layers: ArrayLike,
    hidden: ArrayLike,
    seq_len: ArrayLike,
    products: NonNegative,
    attention: NonNegative,
) -> Array:
    r"""Return the FLOP that recomputation adds to those of `chowdhery_2022`: the hardware FLOP are the sum of both.

    .. math:: F = 2 r N + 4 r_a l h s

    Parameters
    ----------
    parameters : array_like
        Parameters that a token passes, N [-].
    layers : array_like
        Layers, l [-].
    hidden : array_like
        Width, h [-].
    seq_len : array_like
        Tokens of a sequence, s [-].
    products : array_like
        Share of the products with weights that is recomputed, r: 1 with full recomputation [-].
    attention : array_like
        Share of the attention matrix that is recomputed, r_a: 1 with full or selective recomputation [-].

    Returns
    -------
    numpy.ndarray
        Operations of one token [-].

    References
    ----------
    Korthikanti et al., Reducing activation recomputation in large transformer models, arXiv:2205.05198, 2022,
    appendix A; Chowdhery et al., PaLM, arXiv:2204.02311, 2022, appendix B.

    Examples
    --------
    Full recomputation adds a third:

    >>> sizes = (13e9, 40, 5120, 2048)
    >>> round(float(repeated_forward(*sizes, 1, 1) / chowdhery_2022(*sizes)), 4)
    0.3333
    """
    forward = chowdhery_2022(0, layers, hidden, seq_len) / 3
    weights = products * kaplan_2020(parameters) / 3
    return np.asarray(weights + attention * forward)


def korthikanti_2022(layers: ArrayLike, hidden: ArrayLike, seq_len: ArrayLike, vocabulary: ArrayLike) -> Array:
    r"""Return model FLOP from the widths of a plain transformer whose MLP is four times as wide.

    .. math:: F = 72 l h^2 (1 + s / 6 h + V / 12 l h)

    Parameters
    ----------
    layers : array_like
        Layers, l > 0 [-].
    hidden : array_like
        Width, h > 0 [-].
    seq_len : array_like
        Tokens of a sequence, s [-].
    vocabulary : array_like
        Tokens of the vocabulary, V [-].

    Returns
    -------
    numpy.ndarray
        Operations of one token [-].

    References
    ----------
    Korthikanti et al., Reducing activation recomputation in large transformer models, arXiv:2205.05198, 2022,
    appendix A.

    Examples
    --------
    >>> f"{korthikanti_2022(96, 12288, 2048, 51200):.3g}"
    '1.08e+12'
    """
    return _widths(72, 12, layers, hidden, seq_len, vocabulary)


def narayanan_2021(layers: ArrayLike, hidden: ArrayLike, seq_len: ArrayLike, vocabulary: ArrayLike) -> Array:
    r"""Return hardware FLOP with the forward pass computed twice, whether or not the run did so.

    .. math:: F = 96 l h^2 (1 + s / 6 h + V / 16 l h)

    Parameters
    ----------
    layers : array_like
        Layers, l > 0 [-].
    hidden : array_like
        Width, h > 0 [-].
    seq_len : array_like
        Tokens of a sequence, s [-].
    vocabulary : array_like
        Tokens of the vocabulary, V [-].

    Returns
    -------
    numpy.ndarray
        Operations of one token [-].

    References
    ----------
    Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC21, 2021,
    section 5.1.

    Examples
    --------
    >>> f"{narayanan_2021(96, 12288, 2048, 51200):.3g}"
    '1.43e+12'
    """
    return _widths(96, 16, layers, hidden, seq_len, vocabulary)


@checked
def _widths(
    products: int, head: int, layers: Positive, hidden: Positive, seq_len: NonNegative, vocabulary: NonNegative
) -> Array:
    words = vocabulary / (head * layers * hidden)
    return np.asarray(products * layers * hidden**2 * (1 + seq_len / (6 * hidden) + words))
