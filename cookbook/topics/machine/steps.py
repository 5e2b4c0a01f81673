"""Whole networks: training steps, forward passes, prompts and decoding steps of language models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cookbook.topics.machine import networks
from cookbook.topics.machine.device import Device, captured
from cookbook.topics.machine.timing import Case
from cookbook.units import human
from cookbook.workloads import zoo

# Networks with their batch on a CPU (quick and full) and on a GPU, and their sequence length.
NETWORKS = {
    "resnet50": (1, 4, 128, 0),
    "vgg16": (1, 2, 64, 0),
    "alexnet": (4, 16, 512, 0),
    "eng_acoustic_model": (64, 256, 4096, 0),
    "bert_base": (1, 4, 64, 128),
    "gpt2": (1, 2, 8, 256),
}
QUICK = ("resnet50", "eng_acoustic_model", "gpt2")
# Bytes that training keeps of one parameter: weight, gradient and two moments of 32 bits.
TRAINED_BYTES = 16
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
RANK = 16


class Training(NamedTuple):
    """The options of a training step beside its network: batch, length, format, recomputation, rank of adapters."""

    batch: int
    seq: int = 0
    number_format: str = "fp32"
    recompute: bool = False
    rank: int = 0


def macro(device: Device, quick: bool) -> Iterator[Case]:
    """Yield training step and forward pass of the reference networks, and decoding of a small language model."""
    gpu = device.name != "cpu"
    formats = [device.usual(), *(["tf32"] if device.gpu and not quick else [])]
    for name, (small, usual, large, seq) in NETWORKS.items():
        if quick and name not in QUICK:
            continue
        batch = small if quick else large if gpu else usual
        length = (64 if quick else seq * 4 if gpu and name == "gpt2" else seq) if seq else 0
        for number_format in formats:
            yield training(device, name, Training(batch, length, number_format))
            yield forward(device, name, batch, length, number_format)
    for batch in (1,) if quick else (1, 8):
        yield decode(device, "gpt2", batch, 64 if quick else 512, device.usual())


def language(device: Device, quick: bool) -> Iterator[Case]:
    """Yield prompts and decoding by batch and length, training steps by batch, length and recomputation, adapters."""
    if not device.gpu or quick:
        for batch in (1, 4):
            yield prefill(device, "gpt2", batch, 128, device.usual())
            yield decode(device, "gpt2", batch, 128, device.usual())
        yield training(device, "gpt2", Training(1, 128, device.usual(), recompute=True))
        return
    for name in ("llama3.2_1b", "llama3_8b"):
        for seq in (512, 2048, 8192):
            for batch in (1, 8, 32, 128):
                if batch * seq <= 65_536:
                    yield prefill(device, name, batch, seq, "bf16")
                for method in ("eager", "graph"):
                    yield decode(device, name, batch, seq, "bf16", method)
    for recompute in (False, True):
        for batch, seq in ((4, 1024), (16, 1024), (64, 1024)):
            yield training(device, "gpt2", Training(batch, seq, "bf16", recompute))
        for batch, seq in ((1, 2048), (4, 2048), (8, 2048), (1, 8192), (2, 8192)):
            yield training(device, "llama3.2_1b", Training(batch, seq, "bf16", recompute))
        for batch, seq in ((1, 1024), (4, 1024), (1, 4096)):
            yield training(device, "llama3_8b", Training(batch, seq, "bf16", recompute, RANK))


def made(device: Device, name: str, number_format: str, parameter_bytes: float) -> tuple[Any, zoo.Workload]:
    """Create a network on the device with random weights; ValueError where they do not fit."""
    parameters = zoo.model(name).ops.parameter_count
    device.room(parameters * parameter_bytes, f"{human(parameters)} parameters")
    torch = device.torch
    device.products(number_format)
    before = torch.get_default_dtype()
    torch.set_default_dtype(device.kind(number_format))
    try:
        with torch.device(device.name):
            return networks.network(torch, name)
    finally:
        torch.set_default_dtype(before)


def told(name: str, batch: int, seq: int, number_format: str, method: str = "eager", note: str = "") -> dict[str, Any]:
    """Return the fields of a network's row."""
    return {
        "model": name,
        "batch": batch,
        "seq": seq or None,
        "number_format": number_format,
        "method": method,
        "note": note,
    }


def title(name: str, batch: int, seq: int) -> str:
    """Return the sizes of a case in words."""
    return f"{name}, batch {batch}" + (f", {seq} tokens" if seq else "")


def training(device: Device, name: str, request: Training) -> Case:
    """Return the case of one update: forward, backward and optimiser.

    Weights and optimiser are 32 bits wide and 16-bit products are made by autocast; adapters are beside frozen
    weights of 16 bits. Transformers are updated by AdamW, others by SGD with momentum.
    """

    def prepare() -> Callable[[], Any]:
        torch, wide = device.torch, "fp32" if request.number_format in ("bf16", "fp16") else request.number_format
        weight_format = request.number_format if request.rank else wide
        module, record = made(device, name, weight_format, BYTES[weight_format] if request.rank else TRAINED_BYTES)
        device.products(request.number_format)
        module = networks.adapted(torch, module, request.rank) if request.rank else module
        module.train()
        if request.recompute:
            module.recompute = True
        weights = [parameter for parameter in module.parameters() if parameter.requires_grad]
        adam = record.builder in networks.TRANSFORMERS
        optimiser = torch.optim.AdamW(weights, 1e-6, fused=device.gpu) if adam else torch.optim.SGD(weights, 1e-6, 0.9)
        x = networks.sample(torch, record, request.batch, request.seq, device.name, device.kind(weight_format))

        def call() -> None:
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast(
                device.name, device.kind(request.number_format), request.number_format in ("bf16", "fp16")
            ):
                loss = networks.loss(torch, record, module, x)
            loss.backward()
            optimiser.step()

        return call

    method = "+".join(word for word, on in (("lora", request.rank), ("recompute", request.recompute)) if on) or "eager"
    note = f"adapters of rank {request.rank} beside all linear layers" if request.rank else ""
    fields = told(name, request.batch, request.seq, request.number_format, method, note)
    return Case(
        "training step", title(name, request.batch, request.seq), float(request.batch), prepare, fields, "torch"
    )


def _one_pass(device: Device, name: str, batch: int, seq: int, number_format: str) -> Callable[[], Callable[[], Any]]:
    """Return what prepares one pass without gradients; of a decoder, for the last token's logits."""

    def prepare() -> Callable[[], Any]:
        module, record = made(device, name, number_format, BYTES[number_format])
        module.eval()
        x = networks.sample(device.torch, record, batch, seq, device.name, device.kind(number_format))
        last = {"last": True} if record.builder == networks.DECODER else {}
        passes: Callable[[], Any] = device.torch.no_grad()(lambda: module(x, **last))
        return passes

    return prepare


def forward(device: Device, name: str, batch: int, seq: int, number_format: str) -> Case:
    """Return the case of one forward pass without gradients; of a decoder, for the last token's logits."""
    prepare, fields = _one_pass(device, name, batch, seq, number_format), told(name, batch, seq, number_format)
    return Case("forward pass", title(name, batch, seq), float(batch), prepare, fields, "torch")


def prefill(device: Device, name: str, batch: int, seq: int, number_format: str) -> Case:
    """Return the case of the pass of a decoder over a prompt, which gives the first token."""
    prepare = _one_pass(device, name, batch, seq, number_format)
    fields = told(name, batch, seq, number_format, note="keys and values are not kept")
    return Case("prefill", title(name, batch, seq), float(batch * seq), prepare, fields, "torch")


def decode(device: Device, name: str, batch: int, seq: int, number_format: str, method: str = "eager") -> Case:
    """Return the case of one token per sequence, with keys and values of `seq` tokens in the cache."""

    def prepare() -> Callable[[], Any]:
        torch = device.torch
        module, record = made(device, name, number_format, BYTES[number_format])
        module.eval()
        heads = int(record.arguments.get("kv_heads") or record.arguments["heads"])
        shape = (2, batch, heads, seq, module.size)
        bytes_of_layer = 2.0 * batch * heads * seq * module.size * BYTES[number_format]
        device.room(bytes_of_layer * len(module.layers), "keys and values")
        kind = {"device": device.name, "dtype": device.kind(number_format)}
        caches = [torch.randn(shape, **kind) for _ in module.layers]
        x = networks.sample(torch, record, batch, 1, device.name, device.kind(number_format))
        call = torch.no_grad()(lambda: module(x, caches))
        return captured(device, call) if method == "graph" else call

    note = "host starts every kernel" if method == "eager" else "kernels replayed from a CUDA graph"
    fields = told(name, batch, seq, number_format, method, note)
    return Case("decode", title(name, batch, seq), float(batch), prepare, fields, "torch")
