"""Power of a GPU while memory, and then arithmetic, sets the pace of matrix products: run on a machine with PyTorch.

``python tests/topics/analog/gpu_power.py`` prints one line of JSON per batch. A graph replays the matrix products of a
decoder of 8 billion parameters in bf16, so that the host takes no time; nvidia-smi is read ten times a second.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable

import torch

LAYERS, WIDTH, HIDDEN = 32, 4096, 14336
BATCHES = (1, 16, 64, 256, 1024, 4096)
SECONDS, WARM_SHARE = 12, 1 / 3


def watts() -> float:
    asked = ["nvidia-smi", "--query-gpu=power.draw.instant", "--format=csv,noheader,nounits"]
    return float(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


def matrices() -> list[torch.Tensor]:
    shapes = [(WIDTH, WIDTH + 2048), (WIDTH, WIDTH), (WIDTH, 2 * HIDDEN), (HIDDEN, WIDTH)]
    made = [torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS) for shape in shapes]
    return [matrix * 0.02 for matrix in made]


def step(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    for i in range(0, len(weights), 4):
        mixed = (x @ weights[i])[:, :WIDTH] @ weights[i + 1]
        x = (mixed @ weights[i + 2])[:, :HIDDEN] @ weights[i + 3]
        x = x / (x.float().pow(2).mean(-1, keepdim=True).sqrt() + 1e-3).to(x.dtype)
    return x


def graph_of(batch: int, weights: list[torch.Tensor]) -> Callable[[], None]:
    x = torch.randn(batch, WIDTH, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x, weights)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(x, weights)
    return graph.replay


def measured(run: Callable[[], None]) -> tuple[float, float]:
    """Return mean power [W] and the time of a step [s]."""
    seen, over = list[float](), threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            seen.append(watts())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        for _ in range(10):
            run()
        torch.cuda.synchronize()
        steps += 10
    seconds = (time.perf_counter() - start) / steps
    over.set()
    watcher.join()
    warm = seen[int(len(seen) * WARM_SHARE) :]
    return sum(warm) / len(warm), seconds


if __name__ == "__main__":
    weights = matrices()
    size = sum(matrix.numel() * matrix.element_size() for matrix in weights)
    for batch in BATCHES:
        power, seconds = measured(graph_of(batch, weights))
        row = {"device": torch.cuda.get_device_name(), "batch": batch, "watts": power, "bytes_per_s": size / seconds}
        print(json.dumps(row))
