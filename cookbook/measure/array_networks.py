"""Networks of the zoo in NumPy alone, from the zoo's own arguments: training steps, forward passes and decoding.

Stacks of fully connected layers, AlexNet, VGG, ResNet, text encoders (BERT and its relatives) and decoders such as
GPT-2. They are there so that a machine without PyTorch can be calibrated by whole networks, and so that a reader can
follow every operation of a step; nobody should train with them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cookbook.measure.array_layers import (
    Attention,
    BatchNorm,
    Chain,
    ChannelNorm,
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
from cookbook.measure.environment import free_memory
from cookbook.measure.networks import ALEXNET, DECODER, DENSE, DENSE_SIZES, ENCODER, RESNET, VGG
from cookbook.measure.timing import Case
from cookbook.units import human, shown
from cookbook.workloads import convnets, resnets, zoo

# Networks with their batch (quick and in full) and the sequence length of each; one whose batch is 0 is left out.
NETWORKS = {
    "eng_acoustic_model": (32, 64, 0), "alexnet_owt": (4, 8, 0), "resnet18": (1, 1, 0), "resnet50": (0, 1, 0),
    "electra_small": (1, 2, 128), "gpt2": (0, 1, 64), "albert_base": (0, 1, 128),
}  # fmt: skip
# The language model whose tokens are timed, and its batches.
DECODED, BATCHES = "gpt2", (1, 16)
# Bytes that training holds for each parameter: weight and gradient, and the moments of momentum or of Adam.
MOMENTUM_BYTES, ADAM_BYTES, WEIGHT_BYTES = 12, 16, 4
# Rate and decay of an update; so small that weights stay where they are in a benchmark.
RATE, MOMENTUM, BETA, DECAY, SMALL = 1e-6, 0.9, 0.999, 0.01, 1e-8
# Elements of which an update works at once, so that they stay in a cache.
BLOCK = 2**14
# Dimensions of a decoder that is understood here; others of the zoo's must be absent or off.
KNOWN_DECODER = ("vocab", "width", "depth", "heads", "hidden", "positions", "norm", "act", "bias", "tied", "dropout")
KNOWN_ENCODER = ("vocab", "width", "depth", "heads", "hidden", "positions", "types", "embedding_width", "share_layers",
                 "pooler", "dropout")  # fmt: skip
KNOWN_RESNET, KNOWN_ALEXNET = ("depth", "stride_on"), ("variant",)
ACTS: dict[str, type[Layer]] = {"gelu": Gelu, "relu": Relu}
# Times of a case over its arithmetic at the rate of a product, calls of a case, and what an update takes [s/parameter].
SLOWER, CALLS, UPDATE_S = 2.0, 6.0, 8e-9


class Asked(NamedTuple):
    """One case: network, batch, length, and what is done with it: "training", "forward", "prompt" or "token"."""

    model: str
    batch: int
    seq: int
    phase: str


def network(name: str, kind: Any = np.float32, **changes: Any) -> tuple[Layer, zoo.Workload]:
    """Layers of a network with random weights, and its record in the zoo; `changes` are arguments of its builder.

    Raises
    ------
    ValueError
        The zoo builds it in a way that NumPy's layers here do not know: what is not known, and what is.
    """
    record = zoo.model(name, **changes)
    makers = {DENSE: _dense, ALEXNET: _alexnet, VGG: _vgg, RESNET: _resnet, ENCODER: Encoder, DECODER: Decoder}
    if record.builder not in makers:
        raise ValueError(f"model = {shown(name)} has no layers in NumPy; take a network built by {', '.join(makers)}")
    return makers[record.builder](Maker(kind), dict(record.arguments)), record


def _check(arguments: Mapping[str, Any], known: tuple[str, ...], like: str) -> None:
    unknown = [name for name in arguments if name not in known and arguments[name]]
    if unknown:
        raise ValueError(f"{unknown[0]} = {shown(arguments[unknown[0]])} has no layers in NumPy; take a network like "
                         f"{like}, or measure it with PyTorch")  # fmt: skip


def _dense(make: Maker, arguments: Mapping[str, Any]) -> Layer:
    sizes = DENSE_SIZES | dict(arguments)
    widths = [sizes["inputs"], *[sizes["hidden"]] * sizes["layers"]]
    layers: list[Layer] = []
    for a, b in pairwise(widths):
        layers += [Linear(make, a, b), Relu()]
    return Chain([*layers, Linear(make, widths[-1], sizes["classes"])])


def _classifier(make: Maker, inputs: int) -> list[Layer]:
    return [Flat(), Linear(make, inputs, 4096), Relu(), Dropout(128), Linear(make, 4096, 4096), Relu(), Dropout(128),
            Linear(make, 4096, 1000)]  # fmt: skip


def _alexnet(make: Maker, arguments: Mapping[str, Any]) -> Layer:
    _check(arguments, KNOWN_ALEXNET, "alexnet_owt")
    layers, channels = list[Layer](), 3
    for each in convnets._ALEXNET[arguments.get("variant", "grouped")][1]:
        if each == ("lrn",):
            layers.append(ChannelNorm())
        elif len(each) == 2:
            layers.append(MaxPool(*each))
        else:
            layers += [Convolution(make, channels, *each), Relu()]
            channels = each[0]
    return Chain([*layers, *_classifier(make, channels * 36)])


def _vgg(make: Maker, arguments: Mapping[str, Any]) -> Layer:
    _check(arguments, ("depth",), "vgg11")
    layers, channels = list[Layer](), 3
    for times, width in zip(convnets._VGG[arguments["depth"]], convnets._VGG_WIDTHS, strict=True):
        for _ in range(times):
            layers += [Convolution(make, channels, width, 3, 1, 1), Relu()]
            channels = width
        layers.append(MaxPool(2, 2))
    return Chain([*layers, *_classifier(make, channels * 49)])


def _resnet(make: Maker, arguments: Mapping[str, Any]) -> Layer:
    _check(arguments, KNOWN_RESNET, "resnet50")
    depth, first = arguments.get("depth", 50), arguments.get("stride_on", "3x3") == "1x1"
    layers: list[Layer] = [*_normed(make, 3, 64, 7, 2), Relu(), MaxPool(3, 2, 1)]
    channels, wide = 64, 4 if depth >= 50 else 1
    for stage, blocks in enumerate(resnets.BLOCKS[depth]):
        for block in range(blocks):
            inner, stride = 64 * 2**stage, 2 if stage and not block else 1
            out = inner * wide
            if wide > 1:
                body = [*_normed(make, channels, inner, 1, stride if first else 1), Relu(),
                        *_normed(make, inner, inner, 3, 1 if first else stride), Relu(),
                        *_normed(make, inner, out, 1, 1)]  # fmt: skip
            else:
                body = [*_normed(make, channels, out, 3, stride), Relu(), *_normed(make, out, out, 3, 1)]
            cut = Chain(_normed(make, channels, out, 1, stride)) if stride > 1 or channels != out else None
            layers += [Residual(Chain(body), cut), Relu()]
            channels = out
    return Chain([*layers, MeanPool(), Linear(make, channels, 1000)])


def _normed(make: Maker, inputs: int, outputs: int, kernel: int, stride: int) -> list[Layer]:
    return [Convolution(make, inputs, outputs, kernel, stride, kernel // 2, bias=False), BatchNorm(make, outputs)]


class Table(Layer):
    """Rows of a table by token: the gradient is dense, as frameworks keep it unless told otherwise."""

    def __init__(self, make: Maker, rows: int, width: int) -> None:
        self.table = make.normal(rows, width)
        self.table.value *= math.sqrt(rows / width)
        self.parameters = (self.table,)

    def forward(self, x: Any, train: bool) -> Any:
        """Rows of the tokens."""
        self.kept = x if train else None
        return self.table.value[x]

    def backward(self, dy: Any) -> None:
        """Adds the gradient of each row that was looked up."""
        if self.table.gradient is None:
            self.table.gradient = np.zeros_like(self.table.value)
        np.add.at(self.table.gradient, self.kept.reshape(-1), dy.reshape(-1, dy.shape[-1]))


class Encoder(Layer):
    """A text encoder with norms after each part: BERT, ELECTRA's discriminator, ALBERT."""

    def __init__(self, make: Maker, s: Mapping[str, Any]) -> None:
        _check(s, KNOWN_ENCODER, "bert_base")
        width, narrow = s["width"], s.get("embedding_width") or s["width"]
        self.tokens, self.places = Table(make, s["vocab"], narrow), Table(make, s.get("positions", 512), narrow)
        self.types = Table(make, s.get("types", 2), narrow) if s.get("types", 2) else None
        blocks = [_encoder_block(make, width, s["heads"], s["hidden"])]
        while len(blocks) < s["depth"]:
            blocks.append(shared(blocks[0]) if s.get("share_layers") else
                          _encoder_block(make, width, s["heads"], s["hidden"]))  # fmt: skip
        project = [Linear(make, narrow, width)] if narrow != width else []
        self.body = Chain([LayerNorm(make, narrow), Dropout(), *project, *blocks])
        self.pooler = Chain([Linear(make, width, width), Tanh()]) if s.get("pooler", True) else None
        self.parts = tuple(filter(None, (self.tokens, self.places, self.types, self.body, self.pooler)))

    def forward(self, x: Any, train: bool) -> Any:
        """What the pooler makes of the first token, or all tokens where there is none."""
        y = self.tokens.forward(x, train)
        y += self.places.forward(np.arange(x.shape[1]), train)
        if self.types:
            y += self.types.forward(np.zeros_like(x), train)
        y = self.body.forward(y, train)
        self.kept = y.shape
        return self.pooler.forward(y[:, 0], train) if self.pooler else y

    def backward(self, dy: Any) -> None:
        """Gradients of all weights."""
        if self.pooler:
            first = self.pooler.backward(dy)
            dy = np.zeros(self.kept, first.dtype)
            dy[:, 0] = first
        dy = self.body.backward(dy)
        self.tokens.backward(dy)
        self.places.backward(dy.sum(0))
        if self.types:
            self.types.backward(dy)


def _encoder_block(make: Maker, width: int, heads: int, hidden: int) -> Layer:
    attend = Chain([Attention(make, width, heads, True, False), Dropout()])
    feed = Chain([Linear(make, width, hidden), Gelu(), Linear(make, hidden, width), Dropout()])
    return Chain([Residual(attend), LayerNorm(make, width), Residual(feed), LayerNorm(make, width)])


class Decoder(Layer):
    """A language model with trained positions and norms before each part: GPT-2, OPT."""

    def __init__(self, make: Maker, s: Mapping[str, Any]) -> None:
        _check({**s, "norm": s.get("norm", "rms")}, KNOWN_DECODER, "gpt2")
        if s.get("norm") != "layer" or s.get("gated", True) or not s.get("positions") or s.get("act") not in ACTS:
            raise ValueError("a decoder without trained positions, layer norms and a plain feed-forward has no layers "
                             "in NumPy; take one like gpt2, or measure it with PyTorch")  # fmt: skip
        width, drop = s["width"], bool(s.get("dropout"))
        self.tokens, self.places = Table(make, s["vocab"], width), Table(make, s["positions"], width)
        blocks = [_decoder_block(make, s, drop) for _ in range(s["depth"])]
        self.body = Chain([*([Dropout()] if drop else []), *blocks, LayerNorm(make, width)])
        self.head = self.tokens.table if s.get("tied") else Table(make, s["vocab"], width).table
        self.parts, self.parameters = (self.tokens, self.places, self.body), (self.head,)
        self.last = False

    def forward(self, x: Any, train: bool) -> Any:
        """Logits of each token, or of the last one alone where `last` is set."""
        first = next((each.cache[0].shape[2] for each in self.attentions() if each.cache is not None), x.shape[1])
        places = np.arange(first - x.shape[1], first) % len(self.places.table.value)
        y = self.tokens.forward(x, train)
        y += self.places.forward(places, train)
        y = self.body.forward(y, train)
        y = y[:, -1:] if self.last else y
        self.kept = y if train else None
        return y @ self.head.value.T

    def backward(self, dy: Any) -> None:
        """Gradients of all weights."""
        y = self.kept
        self.head.add(dy.reshape(-1, dy.shape[-1]).T @ y.reshape(-1, y.shape[-1]))
        dx = self.body.backward(dy @ self.head.value)
        self.tokens.backward(dx)
        self.places.backward(dx.sum(0))

    def attentions(self) -> list[Attention]:
        """Attention of each block."""
        return [each for each in self.layers() if isinstance(each, Attention)]


def _decoder_block(make: Maker, s: Mapping[str, Any], drop: bool) -> Layer:
    width, bias, ends = s["width"], bool(s.get("bias")), [Dropout()] if drop else []
    attend = [LayerNorm(make, width), Attention(make, width, s["heads"], bias, True), *ends]
    feed = [LayerNorm(make, width), Linear(make, width, s["hidden"], bias), ACTS[s["act"]](),
            Linear(make, s["hidden"], width, bias), *([Dropout()] if drop else [])]  # fmt: skip
    return Chain([Residual(Chain(attend)), Residual(Chain(feed))])


def shared(layer: Layer) -> Layer:
    """The same layer once more: the weights are shared, what a pass keeps is not."""
    return copy.deepcopy(layer, {id(each): each for each in layer.all_parameters()})


# ---- a step ---------------------------------------------------------------------------------------------------------
def sample(record: zoo.Workload, batch: int, seq: int, kind: Any = np.float32) -> Any:
    """Synthetic input of a batch: pictures, frames of speech, or tokens."""
    random = np.random.default_rng(1)
    if record.builder in (DECODER, ENCODER):
        return random.integers(0, int(record.arguments["vocab"]), (batch, seq))
    if record.builder == DENSE:
        return random.standard_normal((batch, int(record.arguments.get("inputs", DENSE_SIZES["inputs"])))).astype(kind)
    size = 224 if record.builder != ALEXNET else convnets._ALEXNET[record.arguments.get("variant", "grouped")][0]
    return random.standard_normal((batch, 3, size, size), np.float32).astype(kind)


def learned(record: zoo.Workload, layer: Layer, x: Any, train: bool = True) -> float:
    """Loss of a batch, after the gradients of all weights were worked out.

    That of a decoder is of its next tokens, that of a classifier of its classes; of an encoder without a head it is the
    mean square of what it gives.
    """
    for each in layer.all_parameters():
        each.gradient = None
    out = layer.forward(x, train)
    if record.builder == ENCODER:
        layer.backward(out * out.dtype.type(2 / out.size))
        return float(np.mean(np.square(out, dtype=np.float64)))
    targets = x[:, 1:] if record.builder == DECODER else np.zeros(len(x), int)
    places = out[:, :-1] if record.builder == DECODER else out
    flat = softmax(places.reshape(-1, out.shape[-1]))
    at = (np.arange(len(flat)), targets.reshape(-1))
    found = float(-np.mean(np.log(flat[at])))
    flat[at] -= 1
    flat *= flat.dtype.type(1 / len(flat))
    dy = flat
    if record.builder == DECODER:
        dy = np.zeros_like(out)
        dy[:, :-1] = flat.reshape(places.shape)
    layer.backward(dy)
    return found


def update(parameters: list[Parameter], adam: bool) -> None:
    """One update of all weights by SGD with momentum or by AdamW, block after block."""
    for each in parameters:
        assert each.gradient is not None, "every weight has a gradient after a backward pass"
        while len(each.moments) < (2 if adam else 1):
            each.moments.append(np.zeros_like(each.value))
        flat = [part.reshape(-1) for part in (each.value, each.gradient, *each.moments)]
        for start in range(0, each.value.size, BLOCK):
            (_adam if adam else _momentum)(*(part[start : start + BLOCK] for part in flat))


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
    spread += SMALL
    weight *= 1 - RATE * DECAY
    weight -= RATE * first / spread


# ---- cases ----------------------------------------------------------------------------------------------------------
def cases(suite: str, quick: bool, rate: float) -> Iterator[Case]:
    """Cases of a suite, "macro" or "language", with the time that each is expected to take at `rate` [FLOP/s]."""
    asked: list[Asked] = []
    for name, (small, usual, seq) in NETWORKS.items():
        batch, seq = (small, seq // 2) if quick else (usual, seq)
        if batch and suite == "macro":
            asked += [Asked(name, batch, seq, "training"), Asked(name, batch, seq, "forward")]
    if suite == "macro":
        asked += [Asked(DECODED, batch, 64 if quick else 128, "token") for batch in BATCHES]
    else:
        lengths = ((1, 32),) if quick else ((1, 64), (1, 256), (16, 64))
        asked += [Asked(DECODED, batch, seq, phase) for batch, seq in lengths for phase in ("prompt", "token")]
        asked += [] if quick else [Asked(DECODED, 1, 128, "training")]
    held: dict[str, Any] = {}
    for each in asked:
        yield _case(each, held, rate)


def _case(asked: Asked, held: dict[str, Any], rate: float) -> Case:
    """One case; `held` keeps the network of the case before, where it is the same."""
    name, batch, seq, phase = asked
    benchmark = {"training": "training step", "forward": "forward pass", "prompt": "prefill", "token": "decode"}[phase]
    work = float(batch * seq if phase == "prompt" else batch)
    title = f"{name}, batch {batch}" + (f", {seq} tokens" if seq else "")
    told = {"model": name, "batch": batch, "seq": seq or None, "number_format": "fp32", "method": "eager"}

    def prepare() -> Callable[[], Any]:
        layer, record = _held(asked, held)
        x = sample(record, batch, 1 if phase == "token" else seq)
        if phase == "training":
            return _training(layer, record, x)
        if phase == "token":
            size = (batch, layer.attentions()[0].heads, seq, layer.attentions()[0].size)
            for each in layer.attentions():
                each.cache = (np.full(size, 0.1, np.float32), np.full(size, 0.1, np.float32))
        return lambda: layer.forward(x, False)

    return Case(benchmark, title, work, prepare, told, seconds=expected_seconds(asked, rate))


def _training(layer: Layer, record: zoo.Workload, x: Any) -> Callable[[], Any]:
    parameters, adam = layer.all_parameters(), record.builder in (DECODER, ENCODER)

    def call() -> None:
        learned(record, layer, x)
        update(parameters, adam)

    return call


def _held(asked: Asked, held: dict[str, Any]) -> tuple[Any, zoo.Workload]:
    """Layers of a case: those of the case before where it is of the same network, else new ones."""
    if asked.model not in held:
        held.clear()
    record = zoo.model(asked.model)
    adam = record.builder in (DECODER, ENCODER)
    each = WEIGHT_BYTES if asked.phase != "training" else ADAM_BYTES if adam else MOMENTUM_BYTES
    needed = each * record.ops.parameter_count * (asked.model not in held or asked.phase == "training")
    if needed > free_memory() / 2:
        raise ValueError(f"weights and what training keeps beside them take {human(needed, 'iB')}, more than half of "
                         f"the {human(free_memory(), 'iB')} that are free")  # fmt: skip
    if asked.model not in held:
        held[asked.model] = network(asked.model)
    layer = held[asked.model][0]
    for parameter in layer.all_parameters():
        parameter.gradient, parameter.moments = None, []
    if isinstance(layer, Decoder):
        layer.last = asked.phase != "training"
        for attention in layer.attentions():
            attention.cache = None
    return held[asked.model]


def expected_seconds(asked: Asked, rate: float) -> float:
    """About what all calls of a case take together [s], where a product runs at `rate` [FLOP/s]."""
    record = zoo.model(asked.model)
    tokens = 1 if asked.phase == "token" else asked.seq
    flop = 2.0 * float(record.ops.total("macs", asked.batch, tokens if record.ops.needs_seq else None))
    weights = record.ops.parameter_count
    once = flop * (3 if asked.phase == "training" else 1) * SLOWER / rate
    return CALLS * (once + weights * UPDATE_S * (1.0 if asked.phase == "training" else 0.1)) + weights * UPDATE_S
