"""Networks of the zoo as PyTorch modules with random weights, from the zoo's own arguments.

AlexNet, VGG and ResNet (bottlenecks), BERT's encoder, decoders of language models and stacks of fully connected layers.
A test compares their parameters with those of the zoo.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import signature
from itertools import pairwise
from typing import Any

from cookbook.catalog.refusals import refused
from cookbook.workloads import zoo
from cookbook.workloads.builders import convnets, resnets, sequence

# Builders of the zoo that have a module here.
DECODER, ENCODER, DENSE = "transformers.decoder", "transformers.bert", "sequence.dense_stack"
ALEXNET, VGG, RESNET = "convnets.alexnet", "convnets.vgg", "resnets.resnet"
TRANSFORMERS = (DECODER, ENCODER)
KNOWN_DECODER = (
    "vocab",
    "width",
    "depth",
    "heads",
    "hidden",
    "kv_heads",
    "positions",
    "norm",
    "gated",
    "act",
    "bias",
    "tied",
    "dropout",
)
# Widths of a stack of layers where the zoo states none.
DENSE_SIZES = {parameter.name: parameter.default for parameter in signature(sequence.dense_stack).parameters.values()}
ROTARY_BASE = 10_000.0


def network(torch: Any, name: str, **changes: Any) -> tuple[Any, zoo.Workload]:
    """Return the module of a network and its record in the zoo; `changes` are arguments of its builder.

    Raises
    ------
    ValueError
        If the zoo's builder of the network has no module here.
    """
    record = zoo.model(name, **changes)
    arguments = dict(record.arguments)
    makers = {ALEXNET: _alexnet, VGG: _vgg, RESNET: _resnet, ENCODER: _encoder, DECODER: _decoder, DENSE: _dense}
    if record.builder not in makers:
        raise refused("model", name, f"has no module here; take a network built by {', '.join(makers)}")
    return makers[record.builder](torch, arguments), record


def input_shape(record: zoo.Workload, batch: int, seq: int) -> tuple[int, ...]:
    """Return the shape of an input batch: (batch, tokens), (batch, features) or (batch, channels, rows, columns)."""
    if record.builder in TRANSFORMERS:
        return batch, seq
    if record.builder == DENSE:
        return batch, int(record.arguments.get("inputs", DENSE_SIZES["inputs"]))
    size = convnets.alexnet_layers(record.arguments.get("variant", "grouped"))[0] if record.builder == ALEXNET else 224
    return batch, 3, size, size


def sample(torch: Any, record: zoo.Workload, batch: int, seq: int, device: str, kind: Any) -> Any:
    """Return a synthetic input batch: pictures, frames of speech, or tokens."""
    shape = input_shape(record, batch, seq)
    if record.builder in TRANSFORMERS:
        return torch.randint(0, int(record.arguments["vocab"]), shape, device=device)
    return torch.randn(shape, device=device, dtype=kind)


def loss(torch: Any, record: zoo.Workload, module: Any, x: Any) -> Any:
    """Return a batch's loss: next tokens of a decoder, classes of a classifier, squares of a headless encoder."""
    out = module(x)
    if record.builder == ENCODER:
        return out.float().square().mean()
    if record.builder == DECODER:
        return torch.nn.functional.cross_entropy(out[:, :-1].flatten(0, 1).float(), x[:, 1:].flatten())
    target = torch.zeros(out.shape[0], dtype=torch.long, device=out.device)
    return torch.nn.functional.cross_entropy(out.float(), target)


def adapted(torch: Any, module: Any, rank: int) -> Any:
    """Freeze the weights of a decoder, and add low-rank adapters beside every linear layer of its blocks."""
    module.requires_grad_(False)
    for layer in module.layers:
        for name, inner in list(layer.named_children()):
            if isinstance(inner, torch.nn.Linear):
                setattr(layer, name, _parts(torch)["Adapted"](inner, rank))
    return module


def _dense(torch: Any, arguments: Mapping[str, Any]) -> Any:
    nn, sizes = torch.nn, DENSE_SIZES | dict(arguments)
    widths = [sizes["inputs"], *[sizes["hidden"]] * sizes["layers"]]
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], sizes["classes"]))


def _classifier(nn: Any, inputs: int, classes: int = 1000) -> list[Any]:
    return [
        nn.Flatten(),
        nn.Linear(inputs, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, classes),
    ]


def _alexnet(torch: Any, arguments: Mapping[str, Any]) -> Any:
    nn, layers, channels = torch.nn, [], 3
    for layer in convnets.alexnet_layers(arguments.get("variant", "grouped"))[1]:
        if layer == convnets.LRN:
            layers.append(nn.LocalResponseNorm(5))
        elif len(layer) == 2:
            layers.append(nn.MaxPool2d(*layer))
        else:
            out, kernel, stride, padding, groups = layer
            layers += [nn.Conv2d(channels, out, kernel, stride, padding, groups=groups), nn.ReLU()]
            channels = out
    return nn.Sequential(*layers, *_classifier(nn, channels * 36))


def _vgg(torch: Any, arguments: Mapping[str, Any]) -> Any:
    nn, layers, channels = torch.nn, [], 3
    for times, width in zip(convnets.VGG[arguments["depth"]], convnets.VGG_WIDTHS, strict=True):
        for _ in range(times):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *_classifier(nn, channels * 49))


def _resnet(torch: Any, arguments: Mapping[str, Any]) -> Any:
    nn = torch.nn
    layers = [*_conv_norm(nn, 3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels, first = 64, arguments.get("stride_on", "3x3") == "1x1"
    for stage, blocks in enumerate(resnets.BLOCKS[arguments.get("depth", 50)]):
        for block in range(blocks):
            inner, stride = 64 * 2**stage, 2 if stage and not block else 1
            body = [
                *_conv_norm(nn, channels, inner, 1, stride if first else 1),
                nn.ReLU(),
                *_conv_norm(nn, inner, inner, 3, 1 if first else stride),
                nn.ReLU(),
                *_conv_norm(nn, inner, 4 * inner, 1, 1),
            ]
            cut = _conv_norm(nn, channels, 4 * inner, 1, stride) if block == 0 else [nn.Identity()]
            layers.append(_parts(torch)["Residual"](nn.Sequential(*body), nn.Sequential(*cut)))
            channels = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def _conv_norm(nn: Any, inputs: int, outputs: int, kernel: int, stride: int) -> list[Any]:
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


def _encoder(torch: Any, arguments: Mapping[str, Any]) -> Any:
    return _parts(torch)["Encoder"](arguments)


def _decoder(torch: Any, arguments: Mapping[str, Any]) -> Any:
    unknown = [name for name in arguments if name not in KNOWN_DECODER and arguments[name]]
    if unknown:
        raise ValueError(f"a decoder with {unknown[0]} has no module here; take one like gpt2 or llama3.2_1b")
    return _parts(torch)["Decoder"](arguments)


@cache
def _parts(torch: Any) -> dict[str, Any]:
    """Return classes of modules, created once PyTorch is imported."""
    nn, F = torch.nn, torch.nn.functional
    Module: Any = nn.Module

    class Residual(Module):
        def __init__(self, body: Any, shortcut: Any) -> None:
            super().__init__()
            self.body, self.shortcut = body, shortcut

        def forward(self, x: Any) -> Any:
            return F.relu(self.body(x) + self.shortcut(x))

    class Adapted(Module):
        def __init__(self, base: Any, rank: int) -> None:
            super().__init__()
            made = {"device": base.weight.device, "dtype": base.weight.dtype, "bias": False}
            self.base = base
            self.low = nn.Linear(base.in_features, rank, **made)
            self.high = nn.Linear(rank, base.out_features, **made)

        def forward(self, x: Any) -> Any:
            return self.base(x) + self.high(self.low(x))

    parts = {"Residual": Residual, "Adapted": Adapted, **_encoder_parts(torch)}
    return parts | {"Decoder": _decoder_part(torch, _block_part(torch))}


def _encoder_parts(torch: Any) -> dict[str, Any]:
    nn, F = torch.nn, torch.nn.functional
    Module: Any = nn.Module

    class Layer(Module):
        def __init__(self, width: int, heads: int, hidden: int) -> None:
            super().__init__()
            self.heads = heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
            self.norm1, self.norm2, self.drop = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            batch, seq, width = x.shape
            q, k, v = self.qkv(x).view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, width)
            x = self.norm1(x + self.drop(self.out(y)))
            return self.norm2(x + self.drop(self.down(F.gelu(self.up(x)))))

    class Encoder(Module):
        def __init__(self, sizes: Mapping[str, Any]) -> None:
            super().__init__()
            width = sizes["width"]
            self.tokens, self.places = nn.Embedding(sizes["vocab"], width), nn.Embedding(512, width)
            self.types, self.norm, self.drop = nn.Embedding(2, width), nn.LayerNorm(width), nn.Dropout(0.1)
            layers = [Layer(width, sizes["heads"], sizes["hidden"]) for _ in range(sizes["depth"])]
            self.layers, self.pooler = nn.Sequential(*layers), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            y = self.tokens(x) + self.places.weight[: x.shape[1]] + self.types.weight[0]
            return self.pooler(self.layers(self.drop(self.norm(y)))[:, 0]).tanh()

    return {"Encoder": Encoder}


def _block_part(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional
    Module: Any = nn.Module

    class Layer(Module):
        """A block of causal attention and feed-forward; `cache` holds keys and values of earlier tokens."""

        def __init__(self, s: Mapping[str, Any]) -> None:
            super().__init__()
            width, bias = s["width"], s.get("bias", False)
            self.heads, self.kv = s["heads"], s.get("kv_heads") or s["heads"]
            self.size, self.rotary, self.gated = width // s["heads"], not s.get("positions"), s.get("gated", True)
            self.qkv = nn.Linear(width, (self.heads + 2 * self.kv) * self.size, bias)
            self.out = nn.Linear(width, width, bias)
            norm = nn.LayerNorm if s.get("norm", "rms") == "layer" else nn.RMSNorm
            self.norm1, self.norm2 = norm(width), norm(width)
            self.up = nn.Linear(width, s["hidden"] * (2 if self.gated else 1), bias)
            self.down, self.drop = nn.Linear(s["hidden"], width, bias), nn.Dropout(0.1 if s.get("dropout") else 0.0)

        def forward(self, x: Any, turns: Any, cache: Any = None) -> Any:
            x = x + self.drop(self.attend(self.norm1(x), turns, cache))
            y = self.up(self.norm2(x))
            if self.gated:
                gate, y = y.chunk(2, -1)
                y = F.silu(gate) * y
            else:
                y = F.gelu(y)
            return x + self.drop(self.down(y))

        def attend(self, x: Any, turns: Any, cache: Any) -> Any:
            batch, seq, _ = x.shape
            q, k, v = self.qkv(x).split([self.heads * self.size, self.kv * self.size, self.kv * self.size], -1)
            q, k, v = (projected.view(batch, seq, -1, self.size).transpose(1, 2) for projected in (q, k, v))
            if self.rotary:
                q, k = _turned(torch, q, turns), _turned(torch, k, turns)
            if cache is not None:
                place = cache.shape[3] - seq
                cache[0, :, :, place:], cache[1, :, :, place:] = k, v
                k, v = cache[0], cache[1]
            y = F.scaled_dot_product_attention(
                q, k, v, is_causal=seq > 1 and cache is None, enable_gqa=self.kv != self.heads
            )
            return self.out(y.transpose(1, 2).reshape(batch, seq, -1))

    return Layer


def _decoder_part(torch: Any, block: Any) -> Any:
    nn = torch.nn
    Module: Any = nn.Module

    class Decoder(Module):
        """A language model; with `recompute` only the inputs of blocks are stored."""

        def __init__(self, s: Mapping[str, Any]) -> None:
            super().__init__()
            self.tokens = nn.Embedding(s["vocab"], s["width"])
            self.places = nn.Embedding(s["positions"], s["width"]) if s.get("positions") else None
            self.layers = nn.ModuleList(block(s) for _ in range(s["depth"]))
            self.norm = (nn.LayerNorm if s.get("norm", "rms") == "layer" else nn.RMSNorm)(s["width"])
            self.head = nn.Linear(s["width"], s["vocab"], False)
            if s.get("tied"):
                self.head.weight = self.tokens.weight
            self.size, self.recompute = s["width"] // s["heads"], False

        def forward(self, x: Any, caches: Any = None, last: bool = False) -> Any:
            first = caches[0].shape[3] - x.shape[1] if caches is not None else 0
            places = torch.arange(first, first + x.shape[1], device=x.device)
            y = self.tokens(x)
            if self.places is not None:
                y = y + self.places(places.clamp(max=self.places.num_embeddings - 1))
            turns = _turns(torch, places, self.size)
            for number, layer in enumerate(self.layers):
                if self.recompute and self.training:
                    y = torch.utils.checkpoint.checkpoint(layer, y, turns, use_reentrant=False)
                else:
                    y = layer(y, turns, None if caches is None else caches[number])
            return self.head(self.norm(y[:, -1:] if last else y))

    return Decoder


def _turns(torch: Any, places: Any, size: int) -> tuple[Any, Any]:
    """Return cosines and sines of rotary positions."""
    rates = ROTARY_BASE ** (-torch.arange(0, size, 2, device=places.device).float() / size)
    angles = torch.outer(places.float(), rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def _turned(torch: Any, x: Any, turns: tuple[Any, Any]) -> Any:
    a, b = x.chunk(2, -1)
    return x * turns[0].to(x.dtype) + torch.cat((-b, a), -1) * turns[1].to(x.dtype)
