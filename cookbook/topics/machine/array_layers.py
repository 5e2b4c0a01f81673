"""Layers of the networks that calibrate a machine, in NumPy alone, each with an explicit forward and backward pass.

In training, a layer stores what its backward pass needs, returns the gradient of its input, and adds those of its
weights to `Parameter.gradient`. Convolutions unfold one picture after the other into a matrix for one product, as the
first frameworks did; there is no faster algorithm here. Tests compare every gradient with finite differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# Share of units that dropout leaves out, as a number of 256: masks are made of single random bytes.
DROPOUT_BYTE = 26
EPSILON = 1e-5
# Random weights after which they are repeated, since drawing more takes longer than the step.
MAX_RANDOM = 2**20
# The approximation of GELU with a hyperbolic tangent: Hendrycks & Gimpel, arXiv:1606.08415, section 2.
GELU_SLOPE, GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


class Parameter:
    """Weights with their gradient; the optimiser keeps its moments beside them."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self.gradient: np.ndarray | None = None
        self.moments: list[np.ndarray] = []

    def add(self, gradient: np.ndarray) -> None:
        """Add a gradient to those of other uses of the weights."""
        if self.gradient is None:
            self.gradient = gradient
        else:
            self.gradient += gradient


class Maker:
    """Source of weights: small random ones, of one type, the same in every run."""

    def __init__(self, kind: Any = np.float32) -> None:
        self.kind, self.random = kind, np.random.default_rng(0)

    def normal(self, *shape: int) -> Parameter:
        """Return weights that roughly preserve the scale of their input."""
        block = self.random.standard_normal(min(math.prod(shape), MAX_RANDOM), dtype=np.float32) / math.sqrt(shape[0])
        return Parameter(np.resize(block.astype(self.kind), shape))

    def constant(self, size: int, value: float = 0.0) -> Parameter:
        """Return biases or scales."""
        return Parameter(np.full(size, value, self.kind))


class Layer:
    """The base of all layers: parameters and parts; `forward` stores what `backward` needs only in training."""

    parameters: Sequence[Parameter] = ()
    parts: Sequence[Layer] = ()
    kept: Any = None

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        raise NotImplementedError

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input from that of the output."""
        raise NotImplementedError

    def layers(self) -> Iterator[Layer]:
        """Yield this layer and all inside."""
        yield self
        for part in self.parts:
            yield from part.layers()

    def all_parameters(self) -> list[Parameter]:
        """Return every parameter once, even if several layers share it."""
        return list(dict.fromkeys(parameter for layer in self.layers() for parameter in layer.parameters))


class Chain(Layer):
    """Layers one after the other; a layer may occur several times where its weights are shared."""

    def __init__(self, parts: Sequence[Layer]) -> None:
        self.parts = tuple(parts)

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of the last layer."""
        for part in self.parts:
            x = part.forward(x, train)
        return x

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input of the first layer."""
        for part in reversed(self.parts):
            dy = part.backward(dy)
        return dy


class Residual(Layer):
    """The sum of a branch and a shortcut."""

    def __init__(self, body: Layer, shortcut: Layer | None = None) -> None:
        self.body, self.shortcut = body, shortcut
        self.parts = (body, shortcut) if shortcut else (body,)

    def forward(self, x: Any, train: bool) -> Any:
        """Return the sum of both."""
        y = self.body.forward(x, train)
        y += self.shortcut.forward(x, train) if self.shortcut else x
        return y

    def backward(self, dy: Any) -> Any:
        """Return the sum of the gradients of both."""
        dx = self.body.backward(dy)
        dx = dx + (self.shortcut.backward(dy) if self.shortcut else dy)
        return dx


class Linear(Layer):
    """A product with a matrix of (inputs, outputs), and a bias; of any axes before the last."""

    def __init__(self, make: Maker, inputs: int, outputs: int) -> None:
        self.weight, self.bias = make.normal(inputs, outputs), make.constant(outputs)
        self.parameters = (self.weight, self.bias)

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        flat = x.reshape(-1, x.shape[-1])
        self.kept = flat if train else None
        y = flat @ self.weight.value
        y += self.bias.value
        return y.reshape(*x.shape[:-1], -1)

    def backward(self, dy: Any) -> Any:
        """Return the input's gradient, and add those of weight and bias: two products."""
        flat = dy.reshape(-1, dy.shape[-1])
        self.weight.add(self.kept.T @ flat)
        self.bias.add(flat.sum(0))
        return (flat @ self.weight.value.T).reshape(*dy.shape[:-1], -1)


class Relu(Layer):
    """Rectified linear units."""

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        y = np.maximum(x, 0)
        self.kept = y if train else None
        return y

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input."""
        return dy * (self.kept > 0)


class Gelu(Layer):
    """Gaussian error linear units by a hyperbolic tangent, as in GPT-2."""

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        bent = np.tanh(GELU_SLOPE * x * (1 + GELU_CUBE * x * x))
        self.kept = (x, bent) if train else None
        return 0.5 * x * (1 + bent)

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input."""
        x, bent = self.kept
        slope = (1 - bent * bent) * (GELU_SLOPE * (1 + 3 * GELU_CUBE * x * x))
        return dy * (0.5 * (1 + bent + x * slope))


class Tanh(Layer):
    """Hyperbolic tangent."""

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        self.kept = np.tanh(x)
        return self.kept

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input."""
        return dy * (1 - self.kept * self.kept)


class Dropout(Layer):
    """Dropout of `dropped` of 256 units in training, by random bytes."""

    def __init__(self, dropped: int = DROPOUT_BYTE) -> None:
        self.dropped, self.random = dropped, np.random.default_rng(0)

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch: the surviving units, scaled so that the mean is preserved."""
        if not train or not self.dropped:
            self.kept = None
            return x
        stay = np.frombuffer(self.random.bytes(x.size), np.uint8).reshape(x.shape) >= self.dropped
        self.kept = stay * x.dtype.type(256 / (256 - self.dropped))
        return x * self.kept

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input."""
        return dy if self.kept is None else dy * self.kept


class LayerNorm(Layer):
    """Layer normalisation: mean 0 and deviation 1 over the last axis, then a scale and a shift."""

    def __init__(self, make: Maker, width: int) -> None:
        self.scale, self.shift = make.constant(width, 1.0), make.constant(width)
        self.parameters = (self.scale, self.shift)

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        even = x - x.mean(-1, keepdims=True)
        inverse = 1 / np.sqrt(np.mean(even * even, -1, keepdims=True) + EPSILON)
        even *= inverse
        self.kept = (even, inverse) if train else None
        y = even * self.scale.value
        y += self.shift.value
        return y

    def backward(self, dy: Any) -> Any:
        """Return the input's gradient, and add those of scale and shift."""
        even, inverse = self.kept
        self.scale.add((dy * even).reshape(-1, dy.shape[-1]).sum(0))
        self.shift.add(dy.reshape(-1, dy.shape[-1]).sum(0))
        dx = dy * self.scale.value
        mean = dx.mean(-1, keepdims=True)
        along = (dx * even).mean(-1, keepdims=True)
        dx -= mean
        dx -= even * along
        dx *= inverse
        return dx


class BatchNorm(Layer):
    """Batch normalisation: mean 0 and deviation 1 of each channel over batch and picture, then a scale and a shift."""

    def __init__(self, make: Maker, channels: int) -> None:
        self.scale, self.shift = make.constant(channels, 1.0), make.constant(channels)
        self.parameters = (self.scale, self.shift)
        self.mean, self.variance = (make.constant(channels, value).value for value in (0.0, 1.0))

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch: in training by its own mean and variance, else by the running ones."""
        flat = x.reshape(*x.shape[:2], -1)
        if not train:
            factor = self.scale.value / np.sqrt(self.variance + EPSILON)
            y = flat * factor[:, None]
            y += (self.shift.value - self.mean * factor)[:, None]
            return y.reshape(x.shape)
        even = flat - flat.mean((0, 2), keepdims=True)
        inverse = 1 / np.sqrt(np.mean(even * even, (0, 2), keepdims=True) + EPSILON)
        even *= inverse
        self.kept = (even, inverse)
        y = even * self.scale.value[:, None]
        y += self.shift.value[:, None]
        return y.reshape(x.shape)

    def backward(self, dy: Any) -> Any:
        """Return the input's gradient, and add those of scale and shift."""
        even, inverse = self.kept
        flat = dy.reshape(even.shape)
        along, total = (flat * even).sum((0, 2)), flat.sum((0, 2))
        self.scale.add(along)
        self.shift.add(total)
        count = even.shape[0] * even.shape[2]
        dx = even * (along / -count)[:, None]
        dx += flat
        dx -= (total / count)[:, None]
        dx *= self.scale.value[:, None] * inverse
        return dx.reshape(dy.shape)


class Convolution(Layer):
    """A convolution of pictures (batch, channels, rows, columns), one picture unfolded after the other."""

    def __init__(
        self, make: Maker, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0, bias: bool = True
    ) -> None:
        self.weight = make.normal(inputs * kernel * kernel, outputs)
        self.weight.value = np.ascontiguousarray(self.weight.value.T)
        self.bias = make.constant(outputs) if bias else None
        self.parameters = (self.weight, self.bias) if self.bias else (self.weight,)
        self.kernel, self.stride, self.padding = kernel, stride, padding

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        padded = _padded(x, self.padding)
        rows, columns = (taken(size, self.kernel, self.stride) for size in padded.shape[2:])
        self.kept = (padded, rows, columns) if train else None
        y = np.empty((len(x), len(self.weight.value), rows * columns), x.dtype)
        for number, picture in enumerate(padded):
            np.matmul(self.weight.value, self._unfolded(picture, rows, columns), out=y[number])
        y = y.reshape(len(x), -1, rows, columns)
        if self.bias:
            y += self.bias.value[:, None, None]
        return y

    def _unfolded(self, picture: Any, rows: int, columns: int) -> Any:
        """Return the matrix of (channels times taps, positions): each tap is a shifted copy of the picture."""
        k, s, channels = self.kernel, self.stride, len(picture)
        if k == 1:
            return picture[:, ::s, ::s].reshape(channels, -1)
        whole = np.empty((channels, k * k, rows, columns), picture.dtype)
        for tap in range(k * k):
            whole[:, tap] = _window(picture, tap, k, s, rows, columns)
        return whole.reshape(channels * k * k, -1)

    def backward(self, dy: Any) -> Any:
        """Return the input's gradient, and add those of weight and bias.

        Pictures are unfolded again, the gradient folded back.
        """
        padded, rows, columns = self.kept
        k, s, pad = self.kernel, self.stride, self.padding
        if self.bias:
            self.bias.add(dy.sum((0, 2, 3)))
        weight = np.zeros_like(self.weight.value)
        dx = np.zeros_like(padded)
        for number, picture in enumerate(padded):
            out = dy[number].reshape(-1, rows * columns)
            weight += out @ self._unfolded(picture, rows, columns).T
            whole = (self.weight.value.T @ out).reshape(len(picture), k * k, rows, columns)
            for tap in range(k * k):
                _window(dx[number], tap, k, s, rows, columns)[...] += whole[:, tap]
        self.weight.add(weight)
        return dx[:, :, pad : dx.shape[2] - pad, pad : dx.shape[3] - pad] if pad else dx


def _padded(x: Any, pad: int, value: float = 0.0) -> Any:
    if not pad:
        return x
    whole = np.full((*x.shape[:2], x.shape[2] + 2 * pad, x.shape[3] + 2 * pad), value, x.dtype)
    whole[:, :, pad:-pad, pad:-pad] = x
    return whole


def taken(size: int, kernel: int, stride: int) -> int:
    """Return the number of positions of a window along one axis."""
    return (size - kernel) // stride + 1


def _window(x: Any, tap: int, kernel: int, stride: int, rows: int, columns: int) -> Any:
    """Return the values under one tap of a window along the last two axes, at all positions."""
    top, left = divmod(tap, kernel)
    return x[..., top : top + stride * (rows - 1) + 1 : stride, left : left + stride * (columns - 1) + 1 : stride]


class MaxPool(Layer):
    """Max pooling: the largest value of each window."""

    def __init__(self, kernel: int, stride: int, padding: int = 0) -> None:
        self.kernel, self.stride, self.padding = kernel, stride, padding

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        padded = _padded(x, self.padding, -np.inf)
        rows, columns = (taken(size, self.kernel, self.stride) for size in padded.shape[2:])
        y = _window(padded, 0, self.kernel, self.stride, rows, columns).copy()
        for tap in range(1, self.kernel**2):
            np.maximum(y, _window(padded, tap, self.kernel, self.stride, rows, columns), out=y)
        self.kept = (padded, y) if train else None
        return y

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input: the first largest entry of a window gets it."""
        padded, y = self.kept
        dx, left, pad = np.zeros_like(padded), dy.copy(), self.padding
        for tap in range(self.kernel**2):
            window = (self.kernel, self.stride, *y.shape[2:])
            share = left * (_window(padded, tap, *window) == y)
            _window(dx, tap, *window)[...] += share
            left -= share
        return dx[:, :, pad : dx.shape[2] - pad, pad : dx.shape[3] - pad] if pad else dx


class MeanPool(Layer):
    """Global pooling: the mean of each channel."""

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        self.kept = x.shape
        return x.mean((2, 3))

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input."""
        return np.broadcast_to(dy[:, :, None, None] / math.prod(self.kept[2:]), self.kept).astype(dy.dtype)


class Flat(Layer):
    """Flattening: all values of a picture in one row."""

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch."""
        self.kept = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input."""
        return dy.reshape(self.kept)


class Attention(Layer):
    """Attention of several heads, causal or of all tokens; `cache` holds keys and values of earlier tokens."""

    def __init__(self, make: Maker, width: int, heads: int, causal: bool) -> None:
        self.heads, self.size, self.causal = heads, width // heads, causal
        self.mix, self.out = Linear(make, width, 3 * width), Linear(make, width, width)
        self.parts = (self.mix, self.out)
        self.cache: Any = None

    def forward(self, x: Any, train: bool) -> Any:
        """Return the output of a batch of sequences (batch, tokens, width)."""
        batch, tokens, width = x.shape
        q, k, v = self._heads(self.mix.forward(x, train), batch, tokens)
        if self.cache is not None:
            self.cache[0][:, :, -tokens:], self.cache[1][:, :, -tokens:] = k, v
            k, v = self.cache
        scores = q @ k.swapaxes(2, 3)
        scores *= 1 / math.sqrt(self.size)
        if self.causal and self.cache is None and tokens > 1:
            scores += np.triu(np.full((tokens, tokens), -np.inf, x.dtype), 1)
        share = softmax(scores)
        self.kept = (q, k, v, share) if train else None
        return self.out.forward((share @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, width), train)

    def _heads(self, mixed: Any, batch: int, tokens: int) -> Any:
        """Return queries, keys and values as (batch, heads, tokens, size)."""
        return mixed.reshape(batch, tokens, 3, self.heads, self.size).transpose(2, 0, 3, 1, 4)

    def backward(self, dy: Any) -> Any:
        """Return the gradient of the input."""
        q, k, v, share = self.kept
        batch, _, tokens, _ = q.shape
        dy = self.out.backward(dy).reshape(batch, tokens, self.heads, self.size).transpose(0, 2, 1, 3)
        dqkv = np.empty((batch, tokens, 3, self.heads, self.size), dy.dtype)
        dq, dk, dv = dqkv.transpose(2, 0, 3, 1, 4)
        dv[...] = share.swapaxes(2, 3) @ dy
        ds = dy @ v.swapaxes(2, 3)
        ds -= (ds * share).sum(-1, keepdims=True)
        ds *= share
        ds *= 1 / math.sqrt(self.size)
        dq[...], dk[...] = ds @ k, ds.swapaxes(2, 3) @ q
        return self.mix.backward(dqkv.reshape(batch, tokens, -1))


def softmax(x: Any) -> Any:
    """Return the softmax along the last axis, computed in place."""
    x -= x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x
