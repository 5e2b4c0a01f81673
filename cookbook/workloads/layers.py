"""Layer arithmetic: `Trace` records a network layer by layer and counts the work of each layer.

Shapes are values, plain sizes and lengths that stay symbolic, so branches need nothing special:

>>> t = Trace()
>>> x = t.image(3, 32, 32)
>>> x = t.act(t.norm(t.conv(x, 16, 3, padding=1, bias=False), "batch"), "relu")
>>> y = t.conv(x, 16, 3, padding=1)
>>> x = t.linear(t.flatten(t.global_pool(t.add(x, y))), 10)
>>> t.ops().parameter_count
2954.0

Counting rules: 1 MAC = 2 FLOP; parameters as frameworks count trainable ones (batch norm 2 per channel); an activation
is saved for the backward pass once, even if several layers need it (reference-counted autograd); elementwise work is
separate from matrix work (`Ops.vector_flop`).

Below `Trace` are the blocks that many networks share: attention, MLP; convolutions with norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from cookbook.workloads.ops import Ops, attended_pairs, attention_products, from_rows, mlp_products

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
    """Activation tensor of one sample: channels (features) at every position of `space`.

    Attributes
    ----------
    channels : float
        Features at each position.
    space : tuple
        Positions along each axis: () for a vector, (L,) for a sequence, (H, W), (D, H, W); at most one axis may be
        a symbolic `Length`.
    tensor : hashable
        Identity of the tensor, so that one saved for the backward pass by two layers is counted once.
    """

    channels: float
    space: tuple[Size, ...] = ()
    tensor: Any = field(default_factory=lambda: next(_tensor_ids), compare=False)

    @cached_property
    def positions(self) -> np.ndarray:
        """Return the number of positions as coefficients of (1, s, pairs)."""
        symbolic = [x for x in self.space if isinstance(x, Length)]
        fixed = math.prod(float(x) for x in self.space if not isinstance(x, Length))
        if len(symbolic) > 1:
            raise ValueError(f"space = {self.space}: only one axis may depend on the sequence length")
        if not symbolic:
            return np.array([fixed, 0.0, 0.0])
        return np.array([symbolic[0].const, symbolic[0].per_seq, 0.0]) * fixed

    @cached_property
    def elements(self) -> np.ndarray:
        """Return the number of elements as coefficients of (1, s, pairs)."""
        return self.positions * self.channels

    def with_channels(self, channels: float) -> Shape:
        """Return a new tensor over the same positions."""
        return Shape(channels, self.space)


def per_axis(value: Any, axes: int, name: str) -> tuple[Any, ...]:
    """Return `value` once for each axis; a tuple must have the right length already."""
    if isinstance(value, (tuple, list)):
        if len(value) != axes:
            raise ValueError(f"{name} = {value!r}: give one number, or {axes} numbers for {axes} axes")
        return tuple(value)
    return (value,) * axes


def window_output(size: Size, kernel: int, stride: int, padding: Any, dilation: int = 1, ceil: bool = False) -> Size:
    """Return the positions left along one axis after a sliding window (convolution or pooling).

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
    """Return the positions along one axis after a transposed convolution; padding "same" multiplies by the stride."""
    if padding == "same" or not isinstance(size, (int, float)):
        return size * stride
    return (size - 1) * stride - 2 * padding + kernel


__all__ = ["S", "Shape", "Trace"]

# FLOP per element of one application, by definition of the operation (not measured values).
NORM_FLOP = {"batch": 4, "layer": 7, "rms": 4, "group": 7, "instance": 7, "lrn": 13}
ACT_FLOP = {
    "relu": 1,
    "relu6": 2,
    "leaky": 2,
    "hardswish": 5,
    "hardsigmoid": 3,
    "sigmoid": 4,
    "tanh": 6,
    "silu": 5,
    "swish": 5,
    "gelu": 8,
    "mish": 10,
    "softplus": 4,
    "relu2": 2,
    "prelu": 2,
    "elu": 4,
    "maxout": 1,
}
SOFTMAX_FLOP = 5
KEEPS_OUTPUT = ("relu", "sigmoid", "tanh")
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
# Vectors of the hidden size kept at each step besides input and output: gates, and the cell state of an LSTM.
KEPT_AT_A_STEP = {"rnn": 0, "gru": 4, "lstm": 5}
NORM_STATISTICS_BYTES = {"layer": 8, "rms": 4}  # float32 mean and deviation (or deviation alone) of each position


def batched(amount: np.ndarray) -> np.ndarray:
    """Return a column of `Ops` that grows with the batch, from coefficients of (1, s, pairs)."""
    column = np.zeros((2, 3))
    column[1] = amount
    return column


def not_batched(amount: np.ndarray) -> np.ndarray:
    """Return a column of `Ops` that does not grow with the batch, from coefficients of (1, s, pairs)."""
    column = np.zeros((2, 3))
    column[0] = amount
    return column


def constant(value: float) -> np.ndarray:
    """Return the coefficients of an amount that does not depend on the sequence length."""
    return np.array([value, 0.0, 0.0])


def elements(tensors: Iterable[Shape]) -> np.ndarray:
    """Return the elements of several tensors, as coefficients of (1, s, pairs)."""
    return sum((x.elements for x in tensors), np.zeros(3))


class Trace:
    """Recorder of a network: each method adds an operation and returns the shape of its output."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._kept: set[Any] = set()
        self._block, self._times = "", 1.0

    def ops(self) -> Ops:
        """Return the finished table."""
        return from_rows(self.rows)

    # ---- inputs -----------------------------------------------------------------------------------------------
    def image(self, channels: int, *space: int) -> Shape:
        """Return the shape of an image, video clip or volume: channels, then positions along each axis."""
        return Shape(channels, space)

    def tokens(self, length: Size, features: float) -> Shape:
        """Return the shape of a sequence of feature vectors; `length` may be the symbol `S`."""
        return Shape(features, (length,))

    def vector(self, features: float) -> Shape:
        """Return the shape of one feature vector per sample."""
        return Shape(features)

    @contextmanager
    def block(self, name: str, repeat: float = 1) -> Iterator[None]:
        """Put the operations inside into block `name`, `repeat` times (identical blocks, each with its own parameters).

        Recomputation of activations works on blocks. Blocks may nest: names join with "/", repeats multiply.
        """
        outer = self._block, self._times, self._kept
        self._block = f"{self._block}/{name}" if self._block else name
        self._times, self._kept = self._times * repeat, set(self._kept)
        try:
            yield
        finally:
            inner = self._kept
            self._block, self._times, self._kept = outer
            self._kept |= inner

    # ---- matrix-like work -------------------------------------------------------------------------------------
    def conv(
        self,
        x: Shape,
        out: int,
        kernel: Any,
        stride: Any = 1,
        padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        bias: bool = True,
        transposed: bool = False,
        name: str = "conv",
        shared: bool = False,
    ) -> Shape:
        """Write a convolution over 1, 2 or 3 axes: grouped, depthwise (groups = channels), dilated or transposed.

        `padding` is a number (both sides), "same" (ceil(size / stride) positions) or "valid"; `shared` weights add no
        parameters.
        """
        axes = len(x.space)
        if axes not in (1, 2, 3):
            raise ValueError(f"conv {name!r}: input has {axes} axes; it must have 1, 2 or 3")
        if x.channels % groups or out % groups:
            raise ValueError(f"conv {name!r}: groups = {groups} must divide {x.channels:g} inputs, {out} outputs")
        kernels, strides = per_axis(kernel, axes, "kernel"), per_axis(stride, axes, "stride")
        pads, dilations = per_axis(padding, axes, "padding"), per_axis(dilation, axes, "dilation")
        if transposed:
            space = tuple(upsampled(*a) for a in zip(x.space, kernels, strides, pads, strict=True))
        else:
            space = tuple(window_output(*a) for a in zip(x.space, kernels, strides, pads, dilations, strict=True))
        y = Shape(out, space)
        taps = math.prod(kernels)
        weights = taps * x.channels * out / groups
        inner = x.channels / groups * taps
        rows, parameters = (x if transposed else y).positions, 0.0 if shared else None
        self.write_product(
            [x], y, f"conv{axes}d", name, rows, out / groups, inner, weights, out * bias, groups, parameters
        )
        return y

    def linear(self, x: Shape, out: int, bias: bool = True, name: str = "linear", shared: bool = False) -> Shape:
        """Write a fully connected layer at every position; `shared` weights (tied embeddings) add no parameters."""
        y = x.with_channels(out)
        self.write_product(
            [x],
            y,
            "linear",
            name,
            x.positions,
            out,
            x.channels,
            x.channels * out,
            out * bias,
            parameters=0.0 if shared else None,
        )
        return y

    def expert_linear(
        self, x: Shape, out: int, experts: int, top_k: int, name: str = "experts", bias: bool = False, keep: bool = True
    ) -> Shape:
        """Write a mixture of experts: each position passes through `top_k` of `experts` weight matrices.

        The output has the features of all chosen experts side by side (top_k * out). Weights read are those of all
        experts, an upper limit that small batches do not reach. `keep` = False where another matrix has kept the same
        copies of the input.
        """
        rows, inner = x.positions * top_k, x.channels
        y, weights = x.with_channels(top_k * out), inner * out + out * bias
        self.write(
            "linear",
            name,
            macs=batched(rows * inner * out),
            reads=batched(rows * inner),
            writes=batched(y.elements),
            saved=batched(rows * inner * keep),
            m=batched(rows / experts),
            n=not_batched(constant(out)),
            k=not_batched(constant(inner)),
            groups=experts,
            weights=experts * weights,
            parameters=experts * weights,
            active_parameters=top_k * weights,
        )
        return y

    def matmul(self, x: Shape, y: Shape, out: Shape, macs: np.ndarray, name: str = "matmul") -> Shape:
        """Write a product of two activations (no weights); `macs` per sample as coefficients of (1, s, pairs)."""
        self.write(
            "matmul",
            name,
            macs=batched(np.asarray(macs, float)),
            reads=batched(x.elements + y.elements),
            writes=batched(out.elements),
            saved=self.kept(x, y),
        )
        return out

    def attention(
        self,
        x: Shape,
        heads: int,
        kv_heads: int | None = None,
        head_dim: float | None = None,
        causal: bool = False,
        window: float | None = None,
        flash: bool = True,
        memory: Shape | None = None,
        v_dim: float | None = None,
        dropout: bool = False,
        name: str = "attention",
    ) -> Shape:
        """Write the attention core of already projected queries, keys and values: scores, softmax, weighted values.

        Parameters
        ----------
        x : Shape
            Queries, heads * head_dim features at each position.
        heads, kv_heads, head_dim, v_dim : int
            Query heads; key and value heads (grouped-query: fewer; multi-query: 1); width of keys and of values.
        causal, window : bool, float
            Mask; sliding window in tokens.
        flash : bool
            Whether scores stay on chip; if not, they are written, read and saved for the backward pass.
        memory : Shape
            Keys' positions where they are not the queries' (cross-attention).
        dropout : bool
            Dropout of the attention weights; on chip it stores no mask (the random numbers are regenerated).
        """
        kv_heads = kv_heads or heads
        if heads % kv_heads:
            raise ValueError(f"attention {name!r}: kv_heads = {kv_heads} must divide heads = {heads}")
        d = head_dim or x.channels / heads
        dv = v_dim or d
        keys = memory or x
        pairs = _pairs(x, keys, causal, window)
        out = x.with_channels(heads * dv)
        qkv = x.positions * heads * d + keys.positions * kv_heads * (d + dv)
        scores = heads * pairs
        softmax = scores * SOFTMAX_FLOP
        # On chip, one float32 per query and head is kept (log of the softmax sum), else the weights (twice with
        # dropout).
        copies = 0 if flash else 1 + dropout
        mask = x.positions * heads * 4 if flash else scores * dropout
        self._kept.add(out.tensor)
        self.write(
            "attention",
            name,
            macs=batched(scores * (d + dv)),
            vector_flop=batched(softmax),
            reads=batched(qkv + scores * (copies + (not flash))),
            writes=batched(out.elements + scores * (copies + (not flash))),
            saved=batched(qkv + out.elements + scores * copies),
            mask_bytes=batched(mask),
            m=not_batched(x.positions),
            n=not_batched(keys.positions),
            k=not_batched(constant(d)),
            groups=heads,
            causal=causal and memory is None,
            window=np.inf if window is None else window,
        )
        return out

    def recurrent(
        self,
        x: Shape,
        hidden: int,
        cell: str = "lstm",
        layers: int = 1,
        bidirectional: bool = False,
        projection: int | None = None,
        biases: int = 2,
        name: str = "recurrent",
    ) -> Shape:
        """Write an RNN, GRU or LSTM over a sequence: one sequential step per position, in each layer.

        `biases` is the number of bias vectors a gate has (cuDNN and PyTorch 2, TensorFlow 1, some none).
        """
        if cell not in GATES:
            raise ValueError(f"recurrent {name!r}: cell = {cell!r}; take one of {', '.join(GATES)}")
        directions = 2 if bidirectional else 1
        for layer in range(layers):
            state = projection or hidden
            y = x.with_channels(state * directions)
            gates = GATES[cell] * hidden
            weights = directions * (gates * (x.channels + state) + (projection or 0) * hidden)
            saved = y.positions * directions * hidden * (KEPT_AT_A_STEP[cell] + bool(projection))
            self.write(
                "recurrent",
                f"{name}.{layer}",
                macs=batched(x.positions * weights),
                vector_flop=batched(y.positions * directions * gates * 5),
                reads=batched(x.elements + y.positions * directions * gates),
                writes=batched(y.elements),
                saved=self.kept(x, y) + batched(saved),
                m=batched(constant(1.0)),
                n=not_batched(constant(gates)),
                k=not_batched(constant(x.channels + state)),
                weights=weights,
                parameters=weights + directions * gates * biases,
                steps=not_batched(x.positions),
            )
            x = y
        return x

    # ---- vector work ------------------------------------------------------------------------------------------
    def embedding(
        self, length: Size | tuple, vocab: int, features: int, name: str = "embedding", shared: bool = False
    ) -> Shape:
        """Write the look-up of `length` rows of a vocab x features table for each sample."""
        y = Shape(features, length if isinstance(length, tuple) else (length,))
        self.write_embedding(y, name, 0 if shared else vocab * features)
        return y

    def parameter(self, number: float, name: str = "parameter") -> None:
        """Write stand-alone trainable parameters (class token, position table, layer scale)."""
        self.write("elementwise", name, weights=number, parameters=number)

    def norm(
        self, x: Shape, kind: str = "batch", affine: bool = True, bias: bool | None = None, name: str = "norm"
    ) -> Shape:
        """Write a normalisation: batch, layer, group, instance (2 parameters per channel), rms (1) or lrn (none)."""
        _known(kind, NORM_FLOP, "norm", name)
        biased = kind not in ("rms", "lrn") if bias is None else bias
        return self.write_norm(x, kind, name, x.channels * (1 + biased) * affine * (kind != "lrn"))

    def act(self, x: Shape, kind: str = "relu", name: str = "", in_place: bool = True) -> Shape:
        """Write an activation function.

        If the backward pass can invert it from its output, only the output is saved.
        """
        _known(kind, ACT_FLOP, "activation", name)
        return self.write_act(x, x.with_channels(x.channels), kind, name or kind, in_place=in_place)

    def softmax(self, x: Shape, name: str = "softmax") -> Shape:
        """Write a softmax over the features of each position."""
        return self.write_softmax(x, x.with_channels(x.channels), name)

    def dropout(self, x: Shape, name: str = "dropout") -> Shape:
        """Write a dropout, which saves a mask of one byte per element."""
        y = x.with_channels(x.channels)
        self.write(
            "elementwise",
            name,
            vector_flop=batched(x.elements),
            reads=batched(x.elements),
            writes=batched(y.elements),
            mask_bytes=batched(x.elements),
        )
        return y

    def add(self, *xs: Shape, name: str = "add") -> Shape:
        """Write an elementwise sum."""
        return self._combine(xs, name, keep=False)

    def multiply(self, *xs: Shape, name: str = "multiply") -> Shape:
        """Write an elementwise product (gates); both factors are saved for the backward pass."""
        return self._combine(xs, name, keep=True)

    def scale(self, x: Shape, name: str = "scale") -> Shape:
        """Write a trainable factor for each channel."""
        return self.write_vector(x, x.with_channels(x.channels), "elementwise", name, 1, x, x.channels)

    def concat(self, xs: Sequence[Shape], name: str = "concat") -> Shape:
        """Write a concatenation along the channels."""
        y = Shape(sum(x.channels for x in xs), xs[0].space)
        return self.write_elementwise([y], y, name, 0)

    def pool(
        self,
        x: Shape,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        kind: str = "max",
        ceil: bool = False,
        name: str = "pool",
    ) -> Shape:
        """Write max or average pooling; max saves its input and 8-byte indices, the average nothing."""
        axes = len(x.space)
        kernels, strides = per_axis(kernel, axes, "kernel"), per_axis(stride or kernel, axes, "stride")
        pads = per_axis(padding, axes, "padding")
        axis = zip(x.space, kernels, strides, pads, strict=True)
        space = tuple(window_output(*a, 1, ceil) for a in axis)
        y = Shape(x.channels, space)
        return self.write_pool(x, y, math.prod(kernels), kind, name)

    def global_pool(self, x: Shape, name: str = "global_pool") -> Shape:
        """Write the mean over all positions."""
        y = Shape(x.channels)
        self.write("pool", name, vector_flop=batched(x.elements), reads=batched(x.elements), writes=batched(y.elements))
        return y

    def resize(self, x: Shape, factor: float, name: str = "resize") -> Shape:
        """Write nearest or bilinear up-sampling of every axis by `factor`."""
        return self.write_elementwise([x], Shape(x.channels, tuple(s * factor for s in x.space)), name)

    def sample(self, x: Shape, y: Shape, name: str = "sample") -> Shape:
        """Write a gather or interpolation of `x` into another shape (regions of interest, patches)."""
        return self.write_elementwise([y], y, name)

    def scan(self, x: Shape, state: int, name: str = "scan") -> Shape:
        """Write a selective scan of a state-space model: per position and feature, one update of `state` numbers."""
        y = x.with_channels(x.channels)
        self.write(
            "scan",
            name,
            vector_flop=batched(x.elements * state * 9),
            reads=batched(x.elements * 3 + x.positions * 2 * state),
            writes=batched(y.elements),
            saved=batched(x.elements * 3 + x.positions * 2 * state),
        )
        return y

    def loss(self, x: Shape, name: str = "loss") -> Shape:
        """Write the softmax cross-entropy over the features of each position."""
        y = x.with_channels(x.channels)
        return self.write_vector(x, y, "loss", name, 6, y)

    def flatten(self, x: Shape) -> Shape:
        """Return all positions and channels as one vector (no work)."""
        if x.elements[1:].any():
            raise ValueError("flatten: the sequence length is symbolic; give it as a number")
        return Shape(float(x.elements[0]), (), x.tensor)

    def reshape(self, x: Shape, channels: float, *space: Size) -> Shape:
        """Return the same elements as another shape (no work)."""
        y = Shape(channels, space, x.tensor)
        if not np.allclose(x.elements, y.elements):
            raise ValueError(f"reshape: {x} has not as many elements as {y}")
        return y

    # ---- rows of the table: what a layer above, or a graph whose shapes are known, writes -------------------------
    def write(self, kind: str, name: str, **columns: Any) -> None:
        """Append one operation by the columns of `Ops`."""
        columns.setdefault("active_parameters", columns.get("parameters", 0.0))
        self.rows.append({"name": name, "kind": kind, "block": self._block, "count": self._times, **columns})

    def write_product(
        self,
        xs: Sequence[Shape],
        y: Shape,
        kind: str,
        name: str,
        rows: np.ndarray,
        n: float,
        k: float,
        weights: float = 0.0,
        bias: float = 0.0,
        groups: float = 1,
        parameters: float | None = None,
    ) -> None:
        """Write products of rows x k with k x n; `parameters` defaults to weights and biases."""
        self.write(
            kind,
            name,
            macs=batched(rows * n * k * groups),
            vector_flop=batched(y.elements * bool(bias)),
            reads=batched(elements(xs)),
            writes=batched(y.elements),
            saved=self.kept(*xs),
            m=batched(rows),
            n=not_batched(constant(n)),
            k=not_batched(constant(k)),
            groups=groups,
            weights=weights + bias,
            parameters=weights + bias if parameters is None else parameters,
        )

    def write_vector(
        self,
        x: Shape,
        y: Shape,
        kind: str,
        name: str,
        flop: float,
        keep: Shape,
        parameters: float = 0.0,
        **columns: Any,
    ) -> Shape:
        """Write work on each element of x, with the tensor saved for the backward pass."""
        self.write(
            kind,
            name,
            vector_flop=batched(x.elements * flop),
            reads=batched(x.elements),
            writes=batched(y.elements),
            saved=self.kept(keep),
            weights=parameters,
            parameters=parameters,
            **columns,
        )
        return y

    def write_norm(self, x: Shape, kind: str, name: str, parameters: float) -> Shape:
        """Write a normalisation of the channels of each position."""
        mask = batched(x.positions * NORM_STATISTICS_BYTES.get(kind, 0))
        y = x.with_channels(x.channels)
        return self.write_vector(x, y, "norm", name, NORM_FLOP[kind], x, parameters, mask_bytes=mask)

    def write_act(
        self, x: Shape, y: Shape, kind: str, name: str, parameters: float = 0.0, in_place: bool = True
    ) -> Shape:
        """Write an activation function from x to y."""
        keep = y if kind in KEEPS_OUTPUT and in_place else x
        return self.write_vector(x, y, "activation", name, ACT_FLOP[kind], keep, parameters)

    def write_softmax(self, x: Shape, y: Shape, name: str) -> Shape:
        """Write a softmax from x to y."""
        return self.write_vector(x, y, "softmax", name, SOFTMAX_FLOP, y)

    def write_pool(self, x: Shape, y: Shape, taps: float, kind: str, name: str) -> Shape:
        """Write pooling of this number of taps each; "max" saves its input and the position of the largest."""
        largest = kind == "max"
        self.write(
            "pool",
            name,
            vector_flop=batched(y.elements * taps),
            reads=batched(x.elements),
            writes=batched(y.elements),
            saved=self.kept(*[x] * largest),
            mask_bytes=batched(y.elements * 8 * largest),
        )
        return y

    def write_embedding(self, y: Shape, name: str, parameters: float) -> None:
        """Write the look-up of one row of a table at each position."""
        self.write(
            "embedding",
            name,
            reads=batched(y.elements),
            writes=batched(y.elements),
            mask_bytes=batched(y.positions * 8),
            parameters=parameters,
        )

    def write_elementwise(
        self,
        xs: Sequence[Shape],
        y: Shape,
        name: str,
        flop: float = 1,
        keep: Sequence[Shape] = (),
        parameters: float = 0.0,
    ) -> Shape:
        """Write an elementwise operation over the elements written."""
        self.write(
            "elementwise",
            name,
            vector_flop=batched(y.elements * flop),
            reads=batched(elements(xs)),
            writes=batched(y.elements),
            saved=self.kept(*keep),
            weights=parameters,
            parameters=parameters,
        )
        return y

    def kept(self, *tensors: Shape) -> np.ndarray:
        """Return the elements saved for the backward pass that no earlier operation has saved."""
        fresh = {x.tensor: x for x in tensors if x.tensor not in self._kept}
        self._kept |= set(fresh)
        return batched(elements(fresh.values()))

    def _combine(self, xs: Sequence[Shape], name: str, keep: bool) -> Shape:
        largest = max(xs, key=lambda x: x.elements.sum())
        y = Shape(largest.channels, largest.space)
        return self.write_elementwise(xs, y, name, len(xs) - 1, xs if keep else ())


def _known(kind: str, table: dict[str, int], what: str, name: str) -> None:
    if kind not in table:
        raise ValueError(f"{what} {name!r}: kind = {kind!r}; take one of {', '.join(table)}")


def _pairs(x: Shape, keys: Shape, causal: bool, window: float | None) -> np.ndarray:
    """Return the (query, key) pairs per sample as coefficients of (1, s, pairs)."""
    q, kv = x.positions, keys.positions
    if not q[1] or not kv[1]:
        if causal and not q[1] and not kv[1]:
            return np.array([float(attended_pairs(q[0], True, window or np.inf)), 0.0, 0.0])
        limited = np.minimum(kv, window) if window and not kv[1] else kv
        return np.array([q[0] * limited[0], q[1] * limited[0] + q[0] * limited[1], 0.0])
    if q[0] or kv[0]:
        raise ValueError("attention over a symbolic length plus a constant is not supported; use the length alone")
    a, b = q[1], kv[1]
    if not causal:
        return np.array([0.0, 0.0, a * b])
    return np.array([0.0, (a - a * a) / 2, a * a])


def self_attention(
    t: Trace,
    x: Shape,
    heads: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    causal: bool = False,
    window: float | None = None,
    flash: bool = True,
    bias: bool = True,
    qkv_bias: bool | None = None,
    memory: Shape | None = None,
    qk_norm: bool = False,
    dropout: bool = False,
    gate: bool = False,
    name: str = "attention",
) -> Shape:
    """Write projections, attention core and output projection; `memory` makes it cross-attention.

    `bias` is that of the output projection and, unless `qkv_bias` is given, of query, key and value; `dropout`
    is that of the attention weights; `gate` multiplies the heads' outputs by as many values computed from the input.
    """
    kv_heads, d = kv_heads or heads, head_dim or int(x.channels // heads)
    qkv_bias = bias if qkv_bias is None else qkv_bias
    source = memory or x
    query, key, value, out = attention_products(int(x.channels), heads * d, kv_heads * d, heads * d)
    q = t.linear(x, query[1], qkv_bias, f"{name}.q")
    t.linear(source, key[1], qkv_bias, f"{name}.k")
    t.linear(source, value[1], qkv_bias, f"{name}.v")
    if qk_norm:
        t.parameter(2 * d, f"{name}.qk_norm")
    y = t.attention(q, heads, kv_heads, d, causal, window, flash, memory, dropout=dropout, name=f"{name}.core")
    y = t.multiply(y, t.linear(x, query[1], qkv_bias, f"{name}.gate"), name=f"{name}.gated") if gate else y
    return t.linear(y, out[1], bias, f"{name}.out")


def mlp(
    t: Trace,
    x: Shape,
    hidden: int,
    gated: bool = False,
    act: str = "gelu",
    bias: bool = True,
    out: int | None = None,
    name: str = "mlp",
) -> Shape:
    """Write two linear layers with an activation between.

    `gated` adds a third linear layer whose output multiplies the activation (SwiGLU, GeGLU).
    """
    up, gate, down = mlp_products(int(x.channels), hidden)
    y = t.act(t.linear(x, up[1], bias, f"{name}.up"), act, f"{name}.{act}")
    if gated:
        y = t.multiply(y, t.linear(x, gate[1], bias, f"{name}.gate"), name=f"{name}.product")
    return t.linear(y, out or down[1], bias, f"{name}.down")


def attention_branches(
    t: Trace,
    x: Shape,
    heads: int,
    norm: str,
    bias: bool,
    memory: Shape | None,
    dropout: bool,
    norm_bias: bool | None = None,
    **attention: Any,
) -> Shape:
    """Write norm, self-attention, add and, where there is a `memory`, norm, cross-attention on it, add."""
    y = self_attention(t, t.norm(x, norm, bias=norm_bias, name="norm1"), heads, bias=bias, dropout=dropout, **attention)
    x = t.add(x, t.dropout(y) if dropout else y, name="residual1")
    if memory is None:
        return x
    of_cross = {name: value for name, value in attention.items() if name in ("head_dim", "flash")}
    y = t.norm(x, norm, bias=norm_bias, name="norm_cross")
    y = self_attention(t, y, heads, bias=bias, memory=memory, dropout=dropout, name="cross", **of_cross)
    return t.add(x, t.dropout(y) if dropout else y, name="residual_cross")


def transformer_block(
    t: Trace,
    x: Shape,
    heads: int,
    hidden: int,
    norm: str = "layer",
    gated: bool = False,
    act: str = "gelu",
    bias: bool = True,
    memory: Shape | None = None,
    dropout: bool = False,
    norm_bias: bool | None = None,
    **attention: object,
) -> Shape:
    """Write norm, self-attention, add, (norm, cross-attention on `memory`, add,) norm, MLP, add.

    Counts are the same for norms before or after. Further arguments go to `self_attention`.
    """
    x = attention_branches(t, x, heads, norm, bias, memory, dropout, norm_bias, **attention)
    y = mlp(t, t.norm(x, norm, bias=norm_bias, name="norm2"), hidden, gated, act, bias)
    return t.add(x, t.dropout(y) if dropout else y, name="residual2")


def conv_norm(
    t: Trace,
    x: Shape,
    out: int,
    kernel: Any,
    stride: int = 1,
    padding: Any = None,
    groups: int = 1,
    dilation: int = 1,
    act: str = "relu",
    name: str = "conv",
) -> Shape:
    """Write convolution without bias, batch norm, activation (`act` = "" for none).

    `padding` defaults to what keeps the size at stride 1.
    """
    if padding is None:
        kernels = kernel if isinstance(kernel, tuple) else (kernel,) * len(x.space)
        padding = tuple(dilation * (k - 1) // 2 for k in kernels)
    y = t.conv(x, out, kernel, stride, padding, groups, dilation, bias=False, name=name)
    y = t.norm(y, "batch", name=f"{name}.norm")
    return t.act(y, act, name=f"{name}.{act}") if act else y


def squeeze_excite(t: Trace, x: Shape, hidden: int, act: str = "relu", gate: str = "sigmoid") -> Shape:
    """Write a squeeze-and-excitation gate on the channels (Hu et al., arXiv:1709.01507)."""
    s = t.act(t.linear(t.global_pool(x, "se.pool"), hidden, name="se.squeeze"), act, f"se.{act}")
    s = t.act(t.linear(s, int(x.channels), name="se.excite"), gate, f"se.{gate}")
    return t.multiply(x, s, name="se.gate")


def classify(t: Trace, x: Shape, classes: int, dropout: bool = False) -> Ops:
    """Write global mean, linear classifier and loss, and return the finished network."""
    x = t.flatten(t.global_pool(x))
    t.loss(t.linear(t.dropout(x) if dropout else x, classes, name="classifier"))
    return t.ops()


def variant_of(table: Mapping[Any, Any], value: Any, argument: str) -> Any:
    """Return the entry of a table of published variants; ValueError names the others where there is none."""
    if value not in table:
        raise ValueError(f"{argument} = {value!r}; take one of {', '.join(repr(v) for v in table)}")
    return table[value]


def divisible(channels: float, divisor: int = 8) -> int:
    """Return the nearest multiple of `divisor` that is at most 10 % below `channels`."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest
