"""A device of PyTorch (processor, CUDA and ROCm GPUs, MPS), and single operations on it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cookbook.catalog.refusals import refused
from cookbook.topics.machine.environment import free_memory, nvidia, optional, without_names
from cookbook.topics.machine.timing import Case
from cookbook.units import human

DEVICES = ("cpu", "cuda", "mps")
# Products beside square ones: layers of Llama 3 8B as the zoo has it, by tokens of a pass.
LAYER_TOKENS = (1, 16, 128, 2048)
# Rows up to which `torch._int_mm` refuses a product on a GPU.
MOST_ROWS_WITHOUT_INT8 = 16
CONVOLUTIONS = ((64, 64, 56, 1), (128, 128, 28, 3), (256, 256, 14, 3), (3, 64, 224, 7), (512, 2048, 7, 1))


@dataclass(frozen=True)
class Device:
    """One device and the calls that differ between kinds of devices.

    Attributes
    ----------
    torch : module
        PyTorch.
    name : str
        "cpu", "cuda" or "mps"; GPUs of AMD are "cuda" too.
    """

    torch: Any
    name: str

    @property
    def gpu(self) -> bool:
        """Return True for CUDA or ROCm, whose memory and streams can be queried."""
        return self.name == "cuda"

    def wait(self) -> None:
        """Wait until the device has done all submitted work."""
        if self.name != "cpu":
            getattr(self.torch, self.name).synchronize()

    def forget(self) -> None:
        """Release memory of earlier cases."""
        gc.collect()
        if self.name != "cpu":
            getattr(self.torch, self.name).empty_cache()

    def count_peak(self) -> None:
        """Reset the peak of memory to what is allocated now."""
        self.wait()
        if self.gpu:
            self.torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int | None:
        """Return the peak of allocated memory since `count_peak`, where the device counts it [B]."""
        return int(self.torch.cuda.max_memory_allocated()) if self.gpu else None

    def free(self) -> float:
        """Return the memory that a case may use [B]."""
        return float(self.torch.cuda.mem_get_info()[0]) if self.gpu else free_memory()

    def room(self, size: float, what: str) -> None:
        """Refuse a case that does not fit: `what` takes `size` bytes."""
        if size > self.free():
            raise ValueError(f"{what} take {human(size, 'iB')}, and {human(self.free(), 'iB')} are free")

    def kind(self, number_format: str) -> Any:
        """Return the type of a tensor in a number format."""
        names = {
            "fp32": "float32",
            "tf32": "float32",
            "fp64": "float64",
            "bf16": "bfloat16",
            "fp16": "float16",
            "fp8": "float8_e4m3fn",
            "int8": "int8",
        }
        return getattr(self.torch, names[number_format])

    def products(self, number_format: str) -> None:
        """Set whether 32-bit products may round their factors to TF32."""
        self.torch.backends.cuda.matmul.allow_tf32 = number_format == "tf32"
        self.torch.backends.cudnn.allow_tf32 = number_format == "tf32"

    def formats(self) -> list[str]:
        """Return the number formats whose products are measured."""
        if self.name == "mps":
            return ["fp32", "fp16"]
        if not self.gpu:
            return ["fp32", "bf16"]
        newer = self.torch.version.hip or self.torch.cuda.get_device_capability() >= (8, 9)
        return ["fp32", "tf32", "bf16", "fp16", *(["fp8", "int8"] if newer else [])]

    def usual(self) -> str:
        """Return the number format in which networks run."""
        return {"cpu": "fp32", "mps": "fp16"}.get(self.name, "bf16")

    def described(self) -> dict[str, Any]:
        """Return name, memory and software of the device."""
        torch = self.torch
        fields: dict[str, Any] = {"torch": str(torch.__version__), "torch_threads": torch.get_num_threads()}
        if self.gpu:
            facts = torch.cuda.get_device_properties(0)
            fields |= {
                "device_name": facts.name,
                "device_memory_bytes": facts.total_memory,
                "multiprocessors": facts.multi_processor_count,
                "devices": torch.cuda.device_count(),
                "cuda": torch.version.cuda or "",
                "rocm": torch.version.hip or "",
            }
            fields |= {} if torch.version.hip else nvidia()
        return fields


def device_named(name: str | None) -> Device:
    """Return the requested device, or the fastest that PyTorch sees.

    Raises
    ------
    ValueError
        If PyTorch is not installed, or has no such device here; the message gives the remedy.
    """
    if name is not None and name not in DEVICES:
        raise refused("device", name, f"must be one of {', '.join(DEVICES)}; a GPU of AMD is cuda")
    torch = optional("torch")
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name is None:
        name = next(kind for kind in ("cuda", "mps", "cpu") if available[kind])
    if not available[name]:
        raise ValueError(
            f"device = {name!r}: PyTorch {torch.__version__} sees no such device; install its build for it"
            f", or take one of {', '.join(kind for kind in DEVICES if available[kind])}"
        )
    return Device(torch, name)


def products(device: Device, quick: bool, layers: list[tuple[int, int]]) -> Iterator[Case]:
    """Yield matrix products by size and number format: square ones, and `layers` as (inputs, outputs)."""
    largest = (512 if quick else 2048) if device.name == "cpu" else (2048 if quick else 16384)
    for number_format in device.formats():
        size = 256
        while size <= largest:
            yield product(device, size, size, size, number_format)
            size *= 2
    most = LAYER_TOKENS[:2] if device.name == "cpu" or quick else (*LAYER_TOKENS, 8192)
    for number_format in device.formats() if device.gpu and not quick else [device.usual()]:
        for tokens in most:
            for inputs, outputs in layers:
                yield product(device, tokens, outputs, inputs, number_format)


def product(device: Device, m: int, n: int, k: int, number_format: str) -> Case:
    """Return the case of a matrix product of m x k by k x n: 2 m n k FLOP."""

    def prepare() -> Callable[[], Any]:
        torch = device.torch
        device.room(4.0 * (m * k + k * n + m * n), "the matrices")
        device.products(number_format)
        if number_format in ("fp8", "int8"):
            return _narrow(device, m, n, k, number_format)
        make = {"device": device.name, "dtype": device.kind(number_format)}
        a, b = torch.randn(m, k, **make), torch.randn(k, n, **make)
        out = torch.empty(m, n, **make)
        return lambda: torch.matmul(a, b, out=out)

    fields = {"number_format": number_format}
    return Case("matmul", f"{m}x{n}x{k}", 2.0 * m * n * k, prepare, fields, "torch")


def _narrow(device: Device, m: int, n: int, k: int, number_format: str) -> Callable[[], Any]:
    torch = device.torch
    if number_format == "int8":
        if m <= MOST_ROWS_WITHOUT_INT8:
            raise ValueError(f"PyTorch multiplies int8 from {MOST_ROWS_WITHOUT_INT8 + 1} rows on; this product has {m}")
        a, b = (torch.randint(-100, 100, shape, device=device.name, dtype=torch.int8) for shape in ((m, k), (n, k)))
        return lambda: torch._int_mm(a, b.t())
    a, b = (torch.randn(shape, device=device.name).to(device.kind("fp8")) for shape in ((m, k), (n, k)))
    scalar = torch.ones((), device=device.name)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=scalar, scale_b=scalar, out_dtype=torch.bfloat16)


def convolutions(device: Device, quick: bool) -> Iterator[Case]:
    """Yield convolutions of ResNet-50: inputs, outputs, pixels and kernel of `CONVOLUTIONS`."""
    batch = (2 if quick else 8) if device.name == "cpu" else 64
    for inputs, outputs, pixels, kernel in CONVOLUTIONS[:2] if quick else CONVOLUTIONS:
        yield _convolution(device, batch, inputs, outputs, pixels, kernel)


def _convolution(device: Device, batch: int, inputs: int, outputs: int, pixels: int, kernel: int) -> Case:
    stride, number_format = 2 if kernel == 7 else 1, device.usual()

    def prepare() -> Callable[[], Any]:
        torch = device.torch
        device.products(number_format)
        layer = torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        layer = layer.to(device.name, device.kind(number_format), memory_format=torch.channels_last)
        x = torch.randn(batch, inputs, pixels, pixels, device=device.name, dtype=device.kind(number_format))
        x = x.to(memory_format=torch.channels_last)

        def call() -> Any:
            with torch.no_grad():
                return layer(x)

        return call

    out = pixels // stride
    flop = 2.0 * batch * out * out * inputs * kernel * kernel * outputs
    fields = {"number_format": number_format, "batch": batch, "method": "channels last"}
    case = f"{kernel}x{kernel} {inputs}-{outputs} on {pixels}x{pixels}, stride {stride}"
    return Case("convolution", case, flop, prepare, fields, "torch")


def streams(device: Device, quick: bool) -> Iterator[Case]:
    """Yield copy, scale and add over arrays beyond the caches."""
    largest = (2**22 if quick else 2**24) if device.name == "cpu" else (2**26 if quick else 2**28)
    elements = int(min(largest, device.free() / 32))
    for name, arrays in {"copy": 2, "scale": 2, "add": 3}.items():
        yield Case(
            "memory",
            f"{name} {elements * 4 // 2**20} MiB",
            4.0 * arrays * elements,
            _stream(device, name, elements),
            {"number_format": "fp32"},
            "torch",
        )


def _stream(device: Device, name: str, elements: int) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        torch = device.torch
        a, b, c = (torch.randn(elements, device=device.name) for _ in range(3))
        return {
            "copy": lambda: a.copy_(b),
            "scale": lambda: torch.mul(b, 3.0, out=a),
            "add": lambda: torch.add(b, c, out=a),
        }[name]

    return prepare


def launches(device: Device) -> Iterator[Case]:
    """Yield launches of one small kernel, submitted by the host one after another, and replayed from a graph."""

    def eager() -> Callable[[], Any]:
        x = device.torch.zeros(1, device=device.name)
        return lambda: x.add_(1.0)

    yield Case("launch", "addition of one element", 1.0, eager, {"number_format": "fp32", "method": "eager"}, "torch")
    if device.gpu:

        def replayed() -> Callable[[], Any]:
            x = device.torch.zeros(1, device=device.name)
            return captured(device, lambda: [x.add_(1.0) for _ in range(100)])

        yield Case(
            "launch",
            "addition of one element, in a graph",
            100.0,
            replayed,
            {"number_format": "fp32", "method": "graph", "note": "100 kernels in one graph"},
            "torch",
        )


def captured(device: Device, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a CUDA graph that replays a call; what the call refers to lives as long as the replay."""
    torch = device.torch
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay(owner: Callable[[], Any] = call) -> None:
        graph.replay()

    return replay


def host_copies(device: Device, quick: bool) -> Iterator[Case]:
    """Yield copies from host to device, from pinned and from pageable memory."""
    if device.name == "cpu":
        return
    size = 2**26 if quick else 2**28
    for method in ("pinned", "pageable") if device.gpu else ("pageable",):
        yield Case(
            "host copy", f"{size // 2**20} MiB", float(size), _copy(device, size, method), {"method": method}, "torch"
        )


def _copy(device: Device, size: int, method: str) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        torch = device.torch
        source = torch.ones(size, dtype=torch.uint8, pin_memory=method == "pinned")
        target = torch.empty(size, dtype=torch.uint8, device=device.name)
        return lambda: target.copy_(source, non_blocking=method == "pinned")

    return prepare


def failure(error: Exception) -> str:
    """Return the reason why a case failed, as one sentence."""
    first = without_names(str(error)) or type(error).__name__
    return f"out of device memory: {first}" if "out of memory" in first.lower() else first
