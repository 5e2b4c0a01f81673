"""Records the traces of the clinic: real runs on a processor, each with one cause planted by its design.

``python tests/topics/clinic/patients/record.py FOLDER [first|second]`` with PyTorch and NumPy (the cookbook needs
neither PyTorch nor this file). "first" makes the patients that the package ships in ``data/traces``; "second" makes
the same causes anew with other sizes, networks and tools, none of which was looked at while the thresholds of the
clinic were set. A profiler's file is kept as it was exported, compressed, less the path it was written to, names of
the machine, arrows between events and arguments that say nothing of shapes.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset

Step = Callable[[], None]
# What is kept of the arguments of an event, so that files stay small.
KEPT = ("name", "labels", "sort_index", "Input type", "Input Dims")


class Compressed(Dataset):  # type: ignore[type-arg]
    """Samples that are decompressed and scaled one by one, as decoded pictures are."""

    def __init__(self, count: int, width: int, rounds: int) -> None:
        rng = np.random.default_rng(0)
        self.raw = [zlib.compress(rng.integers(0, 16, width * 64, dtype=np.uint8).tobytes()) for _ in range(32)]
        self.count, self.width, self.rounds = count, width, rounds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> Any:
        for _ in range(self.rounds):
            whole = np.frombuffer(zlib.decompress(self.raw[at % 32]), dtype=np.uint8)
        return torch.from_numpy(whole.reshape(64, self.width).astype(np.float32).mean(0) / 255), at % 10


def perceptron(*widths: int) -> nn.Module:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for one, other in pairwise(widths):
        layers += [nn.Linear(one, other), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convolutional() -> nn.Module:
    """Three convolutions and a classifier, for pictures of 32 pixels."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128 * 64, 10),
    )


def update(model: nn.Module, optimiser: Any, x: torch.Tensor, y: torch.Tensor, more: Step | None = None) -> None:
    """One training step; `more` runs between backward pass and update."""
    optimiser.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(x), y).backward()
    if more:
        more()
    optimiser.step()


def plain(model: nn.Module, x: torch.Tensor, optimiser: Any = None) -> Step:
    """Steps on a batch that is there already."""
    optimiser = optimiser or torch.optim.SGD(model.parameters(), 1e-3)
    y = torch.zeros(len(x), dtype=torch.long)
    return lambda: update(model, optimiser, x, y)


def traced(target: Path, step: Step, steps: int = 6, warm: int = 3) -> None:
    """Profile some steps after a warm-up and keep the trace."""
    for _ in range(warm):
        step()
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
        on_trace_ready=lambda found: kept(found, target),
    ) as profiler:
        for _ in range(steps + 1):
            step()
            profiler.step()


def kept(profiler: Any, target: Path) -> None:
    """Write what the profiler exports, compressed, without the path and the names of the machine."""
    raw = target.with_suffix(".raw")
    profiler.export_chrome_trace(str(raw))
    found = json.loads(raw.read_text(encoding="utf-8"))
    raw.unlink()
    for key in ("traceName", "host_name", "trace_id"):
        found.pop(key, None)
    found["traceEvents"] = [each for each in found["traceEvents"] if each["ph"] in ("X", "M")]
    for each in found["traceEvents"]:
        each["args"] = {key: value for key, value in each.get("args", {}).items() if key in KEPT}
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(json.dumps(found, separators=(",", ":")).encode())


def loaded(workers: int, batch: int, width: int, rounds: int, steps: int = 6) -> Step:
    """Steps whose batches come from a loader with `workers` processes."""
    data = Compressed(batch * (steps + 8), width, rounds)
    model = perceptron(width, 512, 10)
    optimiser = torch.optim.SGD(model.parameters(), 1e-3)
    batches = iter(DataLoader(data, batch, num_workers=workers))

    def step() -> None:
        x, y = next(batches)
        update(model, optimiser, x, y)

    return step


def recurrent(steps: int, width: int, batch: int) -> Step:
    """A cell written out in Python: a dozen small operations for each of many time steps."""
    cell, head = nn.GRUCell(width, width), nn.Linear(width, 10)
    optimiser = torch.optim.SGD([*cell.parameters(), *head.parameters()], 1e-3)
    x, y = torch.randn(steps, batch, width), torch.zeros(batch, dtype=torch.long)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        state = torch.zeros(batch, width)
        for each in x:
            state = torch.tanh(cell(each, state)) * 0.9 + state * 0.1
        nn.functional.cross_entropy(head(state), y).backward()
        optimiser.step()

    return step


def many_small(count: int) -> Step:
    """A hundred small layers, updated one tensor at a time."""
    model = perceptron(*[24] * count, 10)
    return plain(model, torch.randn(8, 24), torch.optim.Adam(model.parameters(), 1e-3, foreach=False))


def spin(core: int) -> None:
    """A neighbour that uses one core for ever."""
    os.sched_setaffinity(0, {core})
    while True:
        pass


def halting(pid: int) -> None:
    """What cpulimit does: stop a process for two thirds of each tenth of a second."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.066)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.034)


def worker(rank: int, folder: str, name: str, case: dict[str, Any]) -> None:
    """One of two processes that sum their gradients by gloo; each keeps its own trace."""
    torch.set_num_threads(1)
    if case.get("pinned"):
        os.sched_setaffinity(0, {rank})
    neighbours = []
    if rank == 1:
        neighbours = [mp.Process(target=spin, args=(1,), daemon=True) for _ in range(case.get("neighbours", 0))]
    for each in neighbours:
        each.start()
    dist.init_process_group("gloo", f"file://{folder}/{name}.meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = perceptron(*case["widths"])
    batch = case["batch"] * (case.get("larger", 1) if rank else 1)
    x, y = torch.randn(batch, case["widths"][0]), torch.zeros(batch, dtype=torch.long)
    optimiser = torch.optim.SGD(model.parameters(), 1e-3)
    if case.get("ddp"):
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1000)

    def gather() -> None:
        for each in [] if case.get("ddp") else model.parameters():
            dist.all_reduce(each.grad)

    traced(Path(folder) / f"{name}-rank{rank}.json.gz", lambda: update(model, optimiser, x, y, gather))
    dist.destroy_process_group()
    for each in neighbours:
        each.kill()


def pair(folder: Path, name: str, **case: Any) -> None:
    """Run two processes."""
    mp.spawn(worker, (str(folder), name, case), nprocs=2)
    (folder / f"{name}.meet").unlink(missing_ok=True)


def timed(step: Step, steps: int, at: dict[int, Step] | None = None, every: int = 0, extra: Step | None = None) -> Any:
    """Number and seconds of each step; `at` runs before a step, `extra` inside each `every`-th one."""
    for _ in range(5):
        step()
    for number in range(1, steps + 1):
        ((at or {}).get(number) or (lambda: None))()
        start = time.perf_counter()
        step()
        if every and number % every == 0 and extra:
            extra()
        yield number, time.perf_counter() - start


def saving(path: Path, megabytes: int) -> Step:
    """Write a checkpoint and wait until the drive has it."""
    state = {"weights": torch.randn(megabytes * 250_000)}

    def save() -> None:
        with path.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()

    return save


def table(target: Path, rows: Iterator[tuple[int, float]]) -> None:
    with target.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["step", "step_time_s"])
        out.writerows((number, f"{seconds:.5f}") for number, seconds in rows)


def jsonl(target: Path, rows: Iterator[tuple[int, float]]) -> None:
    lines = [json.dumps({"step": number, "step_time_ms": round(1e3 * seconds, 3)}) for number, seconds in rows]
    target.write_text("\n".join(lines) + "\n")


def prose(target: Path, rows: Iterator[tuple[int, float]]) -> None:
    target.write_text(
        "".join(f"[train] step {number}/120 | loss 2.30 | {1e3 * seconds:.2f} ms/step\n" for number, seconds in rows)
    )


def slowed(start: Callable[[], list[Any]], at: int, make: Callable[[Any], None], target: Path, steps: int) -> None:
    """A log of which every step after one is slower, since something else takes the core."""
    own, running = os.sched_getaffinity(0), []
    os.sched_setaffinity(0, {0})
    step = plain(perceptron(512, 1024, 512, 10), torch.randn(256, 512))
    make(target, timed(step, steps, {at: lambda: running.extend(start())}))  # type: ignore[call-arg]
    for each in running:
        each.kill()
    os.sched_setaffinity(0, own)


def started(target: Any, *args: Any, count: int = 1) -> list[Any]:
    found = [mp.Process(target=target, args=args, daemon=True) for _ in range(count)]
    for each in found:
        each.start()
    return found


def first(folder: Path) -> None:
    """The patients that the package ships."""
    wide, x = perceptron(512, 1024, 512, 10), torch.randn(256, 512)
    traced(folder / "anna.json.gz", plain(wide, x))
    traced(folder / "boris.json.gz", loaded(0, 32, 256, 2))
    traced(folder / "clara.json.gz", plain(perceptron(2048, 2048, 2048, 10), torch.randn(1, 2048)))
    traced(folder / "dmitri.json.gz", recurrent(12, 16, 4), 3)
    traced(folder / "edith.json.gz", plain(perceptron(512, 1024, 512, 10).double(), x.double()))
    pair(folder, "farid", widths=(1024, 4096, 1024, 10), batch=4, pinned=True)
    pair(folder, "greta", widths=(512, 512, 512, 10), batch=256, pinned=True, larger=4)
    step = plain(perceptron(512, 1024, 512, 10), torch.randn(128, 512))
    jsonl(folder / "hiro.jsonl", timed(step, 120, None, 20, saving(folder / "state.pt", 100)))
    slowed(lambda: started(spin, 0, count=1), 61, table, folder / "ines.csv", 120)
    table(folder / "jonas.csv", timed(step, 120))


def second(folder: Path) -> None:
    """The same causes in other runs."""
    traced(folder / "healthy.json.gz", plain(convolutional(), torch.randn(32, 3, 32, 32)))
    traced(folder / "loader.json.gz", loaded(1, 64, 512, 2))
    model = perceptron(1024, 4096, 1024, 10)
    traced(folder / "tiny.json.gz", plain(model, torch.randn(2, 1024), torch.optim.AdamW(model.parameters(), 1e-3)))
    traced(folder / "host.json.gz", many_small(60), 3)
    traced(folder / "fp64.json.gz", plain(convolutional().double(), torch.randn(16, 3, 32, 32).double()))
    traced(folder / "fp32.json.gz", plain(perceptron(1024, 1024, 1024, 10), torch.randn(512, 1024)))
    pair(folder, "slow", widths=(512, 4096, 512, 10), batch=4, ddp=True)
    pair(folder, "straggler", widths=(256, 256, 256, 10), batch=4096, pinned=True, neighbours=1)
    step = plain(convolutional(), torch.randn(16, 3, 32, 32))
    prose(folder / "checkpoint.log", timed(step, 120, None, 25, saving(folder / "state.pt", 150)))
    own = os.getpid()
    slowed(lambda: started(halting, own), 41, jsonl, folder / "throttled.jsonl", 120)
    prose(folder / "healthy.log", timed(step, 120))
    stalled(folder / "saved.json.gz", step, saving(folder / "state.pt", 20))


def stalled(target: Path, step: Step, save: Step) -> None:
    """A trace in which a checkpoint is written inside one step."""
    count = iter(range(100))

    def whole() -> None:
        step()
        if next(count) % 3 == 0:
            with record_function("save_checkpoint"):
                save()

    traced(target, whole)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    {"first": first, "second": second}[sys.argv[2] if len(sys.argv) > 2 else "first"](target)
