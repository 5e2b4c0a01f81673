"""Shapes that flow through a network while it is written down: plain sizes, and lengths that stay symbolic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

_tensor_ids: Iterator[int] = count()


@dataclass(frozen=True)
class Length:
    """A length a s + c, with s the sequence length that is given only when the table is evaluated.

    Examples
    --------
    >>> S * 0.5 + 1
    Length(per_seq=0.5, const=1.0)
    """

    per_seq: float
    const: float = 0.0

    def __mul__(self, factor: float) -> Length:
        return Length(self.per_seq * factor, self.const * factor)

    def __truediv__(self, divisor: float) -> Length:
        return self * (1 / divisor)

    def __add__(self, constant: float) -> Length:
        return Length(self.per_seq, self.const + constant)

    __rmul__, __radd__ = __mul__, __add__


S = Length(1.0)
"""The sequence length, symbolic."""

Size = int | float | Length


@dataclass(frozen=True)
class Shape:
    """One activation tensor of one sample: channels (features) at every position of `space`.

    Attributes
    ----------
    channels : float
        Features at each position.
    space : tuple
        Positions along each axis: () for a vector, (L,) for a sequence, (H, W), (D, H, W); at most one axis may be
        a symbolic `Length`.
    tensor : int
        Identity, so that a tensor kept for the backward pass by two layers is counted once.
    """

    channels: float
    space: tuple[Size, ...] = ()
    tensor: int = field(default_factory=lambda: next(_tensor_ids), compare=False)

    @cached_property
    def positions(self) -> np.ndarray:
        """Number of positions as coefficients of (1, s, pairs)."""
        symbolic = [x for x in self.space if isinstance(x, Length)]
        fixed = math.prod(float(x) for x in self.space if not isinstance(x, Length))
        if len(symbolic) > 1:
            raise ValueError(f"space = {self.space}: only one axis may depend on the sequence length")
        return np.array([symbolic[0].const, symbolic[0].per_seq, 0.0] if symbolic else [1.0, 0.0, 0.0]) * fixed

    @cached_property
    def elements(self) -> np.ndarray:
        """Number of elements as coefficients of (1, s, pairs)."""
        return self.positions * self.channels

    def with_channels(self, channels: float) -> Shape:
        """A new tensor over the same positions."""
        return Shape(channels, self.space)


def per_axis(value: Any, axes: int, name: str) -> tuple[Any, ...]:
    """`value` once for each axis; a tuple must have the right length already."""
    if isinstance(value, (tuple, list)):
        if len(value) != axes:
            raise ValueError(f"{name} = {value!r}: give one number, or {axes} numbers for {axes} axes")
        return tuple(value)
    return (value,) * axes


def window_output(size: Size, kernel: int, stride: int, padding: Any, dilation: int = 1, ceil: bool = False) -> Size:
    """Positions left along one axis after a sliding window (convolution or pooling).

    A symbolic length shrinks by the stride alone: edge effects of a few positions are left out. Padding "same"
    keeps ceil(size / stride) positions; "valid" pads nothing.

    Examples
    --------
    >>> window_output(224, 7, 2, 3), window_output(227, 11, 4, 0), window_output(15, 3, 2, "same")
    (112, 55, 8)
    """
    if isinstance(size, Length):
        return size / stride
    if padding == "same":
        return math.ceil(size / stride)
    pads = 0 if padding == "valid" else sum(padding) if isinstance(padding, (tuple, list)) else 2 * padding
    span = (size + pads - dilation * (kernel - 1) - 1) / stride
    out = (math.ceil(span) if ceil else math.floor(span)) + 1
    if ceil and (out - 1) * stride >= size + pads / 2:
        out -= 1
    if out < 1:
        raise ValueError(
            f"kernel = {kernel} does not fit an axis of {size} positions with padding {padding} and dilation "
            f"{dilation}; use a smaller kernel or a larger input"
        )
    return out


def upsampled(size: Size, kernel: int, stride: int, padding: Any) -> Size:
    """Positions along one axis after a transposed convolution; padding "same" multiplies by the stride."""
    if padding == "same" or not isinstance(size, (int, float)):
        return size * stride
    return (size - 1) * stride - 2 * padding + kernel
