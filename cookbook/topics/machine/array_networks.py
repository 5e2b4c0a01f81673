"""Networks that calibrate a machine without PyTorch, in NumPy alone: training steps, forward passes and decoding.

A stack of fully connected layers, AlexNet of one column, ResNet v1, ELECTRA and ALBERT, and GPT-2, of the sizes that
the zoo states. A reader can follow every operation of a step; they are not meant for real training.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cookbook.topics.machine.array_layers import (
    Attention,
    BatchNorm,
    Chain,
    Convolution,
    Dropout,
    Flat,
    Gelu,
    Layer,
    LayerNorm,
    Linear,
    Maker,
    MaxPool,
    MeanPool,
    Parameter,
    Relu,
    Residual,
    Tanh,
    softmax,
)
from cookbook.topics.machine.environment import free_memory
from cookbook.topics.machine.networks import (
    ALEXNET,
    DECODER,
    DENSE,
    DENSE_SIZES,
    ENCODER,
    RESNET,
    TRANSFORMERS,
    input_shape,
)
from cookbook.topics.machine.steps import title, told
from cookbook.topics.machine.timing import Case
from cookbook.units import human
from cookbook.workloads import zoo
from cookbook.workloads.builders import convnets, resnets

# Networks with their batch (quick and in full) and the sequence length of each; one whose batch is 0 is left out.
NETWORKS = {
    "eng_acoustic_model": (32, 64, 0),
    "alexnet_owt": (4, 8, 0),
    "resnet18": (1, 1, 0),
    "resnet50": (0, 1, 0),
    "electra_small": (1, 2, 128),
    "gpt2": (0, 1, 64),
    "albert_base": (0, 1, 128),
}
# The language model whose tokens are timed, and its batches.
DECODED, BATCHES = "gpt2", (1, 16)
# Bytes that training keeps of each parameter: weight and gradient, and the moments of momentum or of Adam.
MOMENTUM_BYTES, ADAM_BYTES, WEIGHT_BYTES = 12, 16, 4
# Learning rate and decay of an update, so small that weights hardly change in a benchmark.
RATE, MOMENTUM, BETA, DECAY, ADAM_EPSILON = 1e-6, 0.9, 0.999, 0.01, 1e-8
# Elements that an update processes at a time, so that they stay in a cache.
UPDATE_BLOCK = 2**14
# Time of a case over that of its arithmetic in products, calls per case, and the time of an update [s/parameter].
STEP_SLOWDOWN, CALLS, UPDATE_S = 2.0, 6.0, 8e-9


class Asked(NamedTuple):
    """One case: network, batch, length, and phase: "training", "forward", "prompt" or "token"."""

    model: str
    batch: int
    seq: int
    phase: str


def network(name: str, kind: Any = np.float32, **changes: Any) -> tuple[Layer, zoo.Workload]:
    """Return the layers of one of the networks here with random weights, and its record in the zoo.

    `changes` are other sizes for its builder.
    """
    record = zoo.model(name, **changes)
    makers = {DENSE: _dense, ALEXNET: _alexnet, RESNET: _resnet, ENCODER: Encoder, DECODER: Decoder}
    return makers[record.builder](Maker(kind), dict(record.arguments)), record


def _dense(make: Maker, arguments: Mapping[str, Any]) -> Layer:
    sizes = DENSE_SIZES | dict(arguments)
    widths = [sizes["inputs"], *[sizes["hidden"]] * sizes["layers"]]
    layers = [layer for a, b in pairwise(widths) for layer in (Linear(make, a, b), Relu())]
    return Chain([*layers, Linear(make, widths[-1], sizes["classes"])])


def _alexnet(make: Maker, arguments: Mapping[str, Any]) -> Layer:
    layers, channels = list[Layer](), 3
    for sizes in convnets.alexnet_layers(arguments["variant"])[1]:
        if len(sizes) == 2:
            layers.append(MaxPool(*sizes))
        else:
            out, kernel, stride, padding, _ = sizes
            layers += [Convolution(make, channels, out, kernel, stride, padding), Relu()]
            channels = out
    return Chain(
        [
            *layers,
            Flat(),
            Linear(make, channels * 36, 4096),
            Relu(),
            Dropout(128),
            Linear(make, 4096, 4096),
            Relu(),
            Dropout(128),
            Linear(make, 4096, 1000),
        ]
    )


def _resnet(make: Maker, arguments: Mapping[str, Any]) -> Layer:
    depth = arguments["depth"]
    layers: list[Layer] = [*_normed(make, 3, 64, 7, 2), Relu(), MaxPool(3, 2, 1)]
    channels, wide = 64, 4 if depth >= 50 else 1
    for stage, blocks in enumerate(resnets.BLOCKS[depth]):
        for block in range(blocks):
            inner, stride = 64 * 2**stage, 2 if stage and not block else 1
            out = inner * wide
            if wide > 1:
                body = [
                    *_normed(make, channels, inner, 1, stride),
                    Relu(),
                    *_normed(make, inner, inner, 3, 1),
                    Relu(),
                    *_normed(make, inner, out, 1, 1),
                ]
            else:
                body = [*_normed(make, channels, out, 3, stride), Relu(), *_normed(make, out, out, 3, 1)]
            cut = Chain(_normed(make, channels, out, 1, stride)) if stride > 1 or channels != out else None
            layers += [Residual(Chain(body), cut), Relu()]
            channels = out
    return Chain([*layers, MeanPool(), Linear(make, channels, 1000)])


def _normed(make: Maker, inputs: int, outputs: int, kernel: int, stride: int) -> list[Layer]:
    return [Convolution(make, inputs, outputs, kernel, stride, kernel // 2, bias=False), BatchNorm(make, outputs)]


class Table(Layer):
    """Rows of a table by token: the gradient is dense, as in frameworks by default."""

    def __init__(self, make: Maker, rows: int, width: int) -> None:
        self.table = make.normal(rows, width)
        self.table.value *= math.sqrt(rows / width)
        self.parameters = (self.table,)

    def forward(self, x: Any, train: bool) -> Any:
        """Return the rows of the tokens."""
        self.kept = x if train else None
        return self.table.value[x]

    def backward(self, dy: Any) -> None:
        """Add the gradient of each row that was looked up."""
        if self.table.gradient is None:
            self.table.gradient = np.zeros_like(self.table.value)
        np.add.at(self.table.gradient, self.kept.reshape(-1), dy.reshape(-1, dy.shape[-1]))


class Encoder(Layer):
    """A text encoder with norms after each part: ELECTRA's discriminator, ALBERT."""

    def __init__(self, make: Maker, s: Mapping[str, Any]) -> None:
        width, narrow = s["width"], s["embedding_width"]
        self.tokens, self.places = Table(make, s["vocab"], narrow), Table(make, s.get("positions", 512), narrow)
        self.types = Table(make, 2, narrow)
        blocks = [_encoder_block(make, width, s["heads"], s["hidden"])]
        while len(blocks) < s["depth"]:
            blocks.append(
                shared(blocks[0]) if s.get("share_layers") else _encoder_block(make, width, s["heads"], s["hidden"])
            )
        self.body = Chain([LayerNorm(make, narrow), Dropout(), Linear(make, narrow, width), *blocks])
        self.pooler = Chain([Linear(make, width, width), Tanh()]) if s.get("pooler", True) else None
        self.parts = tuple(filter(None, (self.tokens, self.places, self.types, self.body, self.pooler)))

    def forward(self, x: Any, train: bool) -> Any:
        """Return the pooler's output for the first token, or all tokens where there is no pooler."""
        y = self.tokens.forward(x, train)
        y += self.places.forward(np.arange(x.shape[1]), train)
        y += self.types.forward(np.zeros_like(x), train)
        y = self.body.forward(y, train)
        self.kept = y.shape
        return self.pooler.forward(y[:, 0], train) if self.pooler else y

    def backward(self, dy: Any) -> None:
        """Add the gradients of all weights."""
        if self.pooler:
            first = self.pooler.backward(dy)
            dy = np.zeros(self.kept, first.dtype)
            dy[:, 0] = first
        dy = self.body.backward(dy)
        self.tokens.backward(dy)
        self.places.backward(dy.sum(0))
        self.types.backward(dy)


def _encoder_block(make: Maker, width: int, heads: int, hidden: int) -> Layer:
    attend = Chain([Attention(make, width, heads, False), Dropout()])
    feed = Chain([Linear(make, width, hidden), Gelu(), Linear(make, hidden, width), Dropout()])
    return Chain([Residual(attend), LayerNorm(make, width), Residual(feed), LayerNorm(make, width)])


class Decoder(Layer):
    """A language model with trained positions, norms before each part and a head that is its table: GPT-2."""

    def __init__(self, make: Maker, s: Mapping[str, Any]) -> None:
        width = s["width"]
        self.tokens, self.places = Table(make, s["vocab"], width), Table(make, s["positions"], width)
        blocks = [_decoder_block(make, width, s["heads"], s["hidden"]) for _ in range(s["depth"])]
        self.body = Chain([Dropout(), *blocks, LayerNorm(make, width)])
        self.head = self.tokens.table
        self.parts = (self.tokens, self.places, self.body)
        self.last = False

    def forward(self, x: Any, train: bool) -> Any:
        """Return the logits of each token, or of the last one alone where `last` is set."""
        first = next(
            (attention.cache[0].shape[2] for attention in self.attentions() if attention.cache is not None), x.shape[1]
        )
        places = np.arange(first - x.shape[1], first) % len(self.places.table.value)
        y = self.tokens.forward(x, train)
        y += self.places.forward(places, train)
        y = self.body.forward(y, train)
        y = y[:, -1:] if self.last else y
        self.kept = y if train else None
        return y @ self.head.value.T

    def backward(self, dy: Any) -> None:
        """Add the gradients of all weights."""
        y = self.kept
        self.head.add(dy.reshape(-1, dy.shape[-1]).T @ y.reshape(-1, y.shape[-1]))
        dx = self.body.backward(dy @ self.head.value)
        self.tokens.backward(dx)
        self.places.backward(dx.sum(0))

    def attentions(self) -> list[Attention]:
        """Return the attention of each block."""
        return [layer for layer in self.layers() if isinstance(layer, Attention)]


def _decoder_block(make: Maker, width: int, heads: int, hidden: int) -> Layer:
    attend = [LayerNorm(make, width), Attention(make, width, heads, True), Dropout()]
    feed = [LayerNorm(make, width), Linear(make, width, hidden), Gelu(), Linear(make, hidden, width), Dropout()]
    return Chain([Residual(Chain(attend)), Residual(Chain(feed))])


def shared(layer: Layer) -> Layer:
    """Return a copy of the layer that shares its weights, but not the values that a pass stores."""
    return copy.deepcopy(layer, {id(parameter): parameter for parameter in layer.all_parameters()})


# ---- a step ---------------------------------------------------------------------------------------------------------
def sample(record: zoo.Workload, batch: int, seq: int, kind: Any = np.float32) -> Any:
    """Return a synthetic input batch: pictures, frames of speech, or tokens."""
    random, shape = np.random.default_rng(1), input_shape(record, batch, seq)
    if record.builder in TRANSFORMERS:
        return random.integers(0, int(record.arguments["vocab"]), shape)
    return random.standard_normal(shape, np.float32).astype(kind)


def learned(record: zoo.Workload, layer: Layer, x: Any) -> float:
    """Compute the gradients of all weights, and return the loss of a batch.

    The loss of a decoder is that of its next tokens, of a classifier that of its classes, of an encoder without a head
    the mean square of its output.
    """
    for parameter in layer.all_parameters():
        parameter.gradient = None
    out = layer.forward(x, True)
    if record.builder == ENCODER:
        layer.backward(out * out.dtype.type(2 / out.size))
        return float(np.mean(np.square(out, dtype=np.float64)))
    targets = x[:, 1:] if record.builder == DECODER else np.zeros(len(x), int)
    places = out[:, :-1] if record.builder == DECODER else out
    flat = softmax(places.reshape(-1, out.shape[-1]))
    at = (np.arange(len(flat)), targets.reshape(-1))
    loss = float(-np.mean(np.log(flat[at])))
    flat[at] -= 1
    flat *= flat.dtype.type(1 / len(flat))
    dy = flat
    if record.builder == DECODER:
        dy = np.zeros_like(out)
        dy[:, :-1] = flat.reshape(places.shape)
    layer.backward(dy)
    return loss


def update(parameters: list[Parameter], adam: bool) -> None:
    """Update all weights once by SGD with momentum or by AdamW, block by block."""
    for parameter in parameters:
        assert parameter.gradient is not None, "every weight has a gradient after a backward pass"
        while len(parameter.moments) < (2 if adam else 1):
            parameter.moments.append(np.zeros_like(parameter.value))
        flat = [part.reshape(-1) for part in (parameter.value, parameter.gradient, *parameter.moments)]
        for start in range(0, parameter.value.size, UPDATE_BLOCK):
            (_adam if adam else _momentum)(*(part[start : start + UPDATE_BLOCK] for part in flat))


def _momentum(weight: Any, gradient: Any, moment: Any) -> None:
    moment *= MOMENTUM
    moment += gradient
    weight -= RATE * moment


def _adam(weight: Any, gradient: Any, first: Any, second: Any) -> None:
    first *= MOMENTUM
    first += (1 - MOMENTUM) * gradient
    second *= BETA
    second += (1 - BETA) * (gradient * gradient)
    spread = np.sqrt(second)
    spread += ADAM_EPSILON
    weight *= 1 - RATE * DECAY
    weight -= RATE * first / spread


# ---- cases ----------------------------------------------------------------------------------------------------------
def cases(suite: str, quick: bool, rate: float) -> Iterator[Case]:
    """Yield the cases of a suite, "macro" or "language", with the expected time of each at `rate` [FLOP/s]."""
    requests: list[Asked] = []
    for name, (small, usual, seq) in NETWORKS.items():
        batch, seq = (small, seq // 2) if quick else (usual, seq)
        if batch and suite == "macro":
            requests += [Asked(name, batch, seq, "training"), Asked(name, batch, seq, "forward")]
    if suite == "macro":
        requests += [Asked(DECODED, batch, 64 if quick else 128, "token") for batch in BATCHES]
    else:
        lengths = ((1, 32),) if quick else ((1, 64), (1, 256), (16, 64))
        requests += [Asked(DECODED, batch, seq, phase) for batch, seq in lengths for phase in ("prompt", "token")]
        requests += [] if quick else [Asked(DECODED, 1, 128, "training")]
    cache: dict[str, Any] = {}
    for request in requests:
        yield _case(request, cache, rate)


def _case(request: Asked, held: dict[str, Any], rate: float) -> Case:
    """Return one case; `held` stores the network of the case before, for reuse where it is the same."""
    name, batch, seq, phase = request
    benchmark = {"training": "training step", "forward": "forward pass", "prompt": "prefill", "token": "decode"}[phase]
    work = float(batch * seq if phase == "prompt" else batch)

    def prepare() -> Callable[[], Any]:
        layer, record = _held(request, held)
        x = sample(record, batch, 1 if phase == "token" else seq)
        if phase == "training":
            return _training(layer, record, x)
        if phase == "token":
            size = (batch, layer.attentions()[0].heads, seq, layer.attentions()[0].size)
            for attention in layer.attentions():
                attention.cache = (np.full(size, 0.1, np.float32), np.full(size, 0.1, np.float32))
        return lambda: layer.forward(x, False)

    return Case(
        benchmark,
        title(name, batch, seq),
        work,
        prepare,
        told(name, batch, seq, "fp32"),
        seconds=expected_seconds(request, rate),
    )


def _training(layer: Layer, record: zoo.Workload, x: Any) -> Callable[[], Any]:
    parameters, adam = layer.all_parameters(), record.builder in TRANSFORMERS

    def call() -> None:
        learned(record, layer, x)
        update(parameters, adam)

    return call


def _held(request: Asked, held: dict[str, Any]) -> tuple[Any, zoo.Workload]:
    """Return the layers of a case: those of the case before where it is of the same network, else new ones."""
    if request.model not in held:
        held.clear()
    record = zoo.model(request.model)
    adam = record.builder in TRANSFORMERS
    weight_bytes = WEIGHT_BYTES if request.phase != "training" else ADAM_BYTES if adam else MOMENTUM_BYTES
    needed = weight_bytes * record.ops.parameter_count * (request.model not in held or request.phase == "training")
    if needed > free_memory() / 2:
        raise ValueError(
            f"weights and what training keeps beside them take {human(needed, 'iB')}, more than half of "
            f"the {human(free_memory(), 'iB')} that are free"
        )
    if request.model not in held:
        held[request.model] = network(request.model)
    layer = held[request.model][0]
    for parameter in layer.all_parameters():
        parameter.gradient, parameter.moments = None, []
    if isinstance(layer, Decoder):
        layer.last = request.phase != "training"
        for attention in layer.attentions():
            attention.cache = None
    return held[request.model]


def expected_seconds(request: Asked, rate: float) -> float:
    """Return the approximate total time of all calls of a case [s], where a product runs at `rate` [FLOP/s]."""
    record = zoo.model(request.model)
    tokens = 1 if request.phase == "token" else request.seq
    flop = 2.0 * float(record.ops.total("macs", request.batch, tokens if record.ops.needs_seq else None))
    weights = record.ops.parameter_count
    once = flop * (3 if request.phase == "training" else 1) * STEP_SLOWDOWN / rate
    return CALLS * (once + weights * UPDATE_S * (1.0 if request.phase == "training" else 0.1)) + weights * UPDATE_S
