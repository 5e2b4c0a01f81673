"""Blocks that many convolutional networks share, written with `Trace`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .layers import Trace
from .shapes import Shape


def conv_norm(t: Trace, x: Shape, out: int, kernel: Any, stride: int = 1, padding: Any = None, groups: int = 1,
              dilation: int = 1, act: str = "relu", name: str = "conv") -> Shape:  # fmt: skip
    """Convolution without bias, batch norm, activation (`act` = "" for none).

    `padding` defaults to what keeps the size at stride 1.
    """
    if padding is None:
        kernels = kernel if isinstance(kernel, tuple) else (kernel,) * len(x.space)
        padding = tuple(dilation * (k - 1) // 2 for k in kernels)
    y = t.conv(x, out, kernel, stride, padding, groups, dilation, bias=False, name=name)
    y = t.norm(y, "batch", name=f"{name}.norm")
    return t.act(y, act, name=f"{name}.{act}") if act else y


def squeeze_excite(t: Trace, x: Shape, hidden: int, act: str = "relu", gate: str = "sigmoid",
                   name: str = "se") -> Shape:  # fmt: skip
    """Squeeze-and-excitation gate on the channels (Hu et al., arXiv:1709.01507)."""
    s = t.act(t.linear(t.global_pool(x, f"{name}.pool"), hidden, name=f"{name}.squeeze"), act, f"{name}.{act}")
    s = t.act(t.linear(s, int(x.channels), name=f"{name}.excite"), gate, f"{name}.{gate}")
    return t.multiply(x, s, name=f"{name}.gate")


def classify(t: Trace, x: Shape, classes: int, dropout: bool = False) -> None:
    """Global mean, linear classifier, loss."""
    x = t.flatten(t.global_pool(x))
    t.loss(t.linear(t.dropout(x) if dropout else x, classes, name="classifier"))


def variant_of(table: Mapping[Any, Any], value: Any, argument: str) -> Any:
    """The entry of a table of published variants; ValueError names the others where there is none."""
    if value not in table:
        raise ValueError(f"{argument} = {value!r}; take one of {', '.join(repr(v) for v in table)}")
    return table[value]


def divisible(channels: float, divisor: int = 8) -> int:
    """Nearest multiple of `divisor` that is not more than 10 % below `channels`."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest
