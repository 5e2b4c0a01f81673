"""All-reduce by torch.distributed: Gloo between processes on a processor, NCCL between GPUs.

Several processes are started by PyTorch's own launcher. Over several nodes start it yourself, on each of them:
``torchrun --nnodes 2 --nproc_per_node 8 ... -m cookbook.topics.machine.exchange FILE.jsonl``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cookbook.topics.machine.device import Device
from cookbook.topics.machine.environment import cores, optional
from cookbook.topics.machine.report import row
from cookbook.topics.machine.timing import Watch, run_program
from cookbook.units import human

SIZES = (2**12, 2**20, 2**24, 2**28)
WARM_UP, SAMPLES = 3, 9


def main(arguments: list[str]) -> None:
    """Run one process of the all-reduce: time each size and, at rank 0, write the rows to the given file."""
    target, most = Path(arguments[0]), int(arguments[1]) if len(arguments) > 1 else SIZES[-1]
    torch = optional("torch")
    gpus = torch.cuda.is_available() and torch.cuda.device_count() > 1
    distributed = torch.distributed
    if gpus:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl" if gpus else "gloo")
    device = Device(torch, "cuda" if gpus else "cpu")
    rows = [_measured(device, distributed, size) for size in SIZES if size <= most]
    if distributed.get_rank() == 0:
        target.write_text("".join(json.dumps(result) + "\n" for result in rows), encoding="utf-8")
    distributed.destroy_process_group()


def _measured(device: Device, distributed: Any, size: int) -> dict[str, Any]:
    x = device.torch.ones(size // 4, device=device.name)
    times = []
    for number in range(WARM_UP + SAMPLES):
        distributed.barrier()
        device.wait()
        begin = time.perf_counter()
        distributed.all_reduce(x)
        device.wait()
        if number >= WARM_UP:
            times.append(max(time.perf_counter() - begin, 1e-9))
        x.fill_(1.0)
    ranks = distributed.get_world_size()
    method = "NCCL" if device.gpu else "Gloo"
    return row(
        "all-reduce",
        float(size),
        times,
        1,
        case=f"{human(size, 'iB')} over {ranks} ranks",
        path="torch",
        device=device.name,
        number_format="fp32",
        method=method,
        batch=ranks,
        note="batch is the number of ranks; bytes of the message over its time",
    )


def exchanged(device: Device, watch: Watch, quick: bool) -> list[dict[str, Any]]:
    """Return rows of an all-reduce over the GPUs of this node, or over two processes on its cores.

    Raises
    ------
    ValueError
        If there are fewer than two cores or GPUs, or the launcher failed.
    Stopped
        If the run was cancelled.
    """
    optional("torch")
    ranks = device.torch.cuda.device_count() if device.gpu else min(cores(), 2)
    if ranks < 2:
        raise ValueError(f"an all-reduce needs two {'GPUs' if device.gpu else 'cores'}; there is one")
    with tempfile.TemporaryDirectory(prefix="cookbook-measure-") as folder:
        target = Path(folder) / "rows.jsonl"
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={ranks}",
            "-m",
            "cookbook.topics.machine.exchange",
            str(target),
            str(SIZES[1] if quick else SIZES[-1]),
        ]
        run_program(command, watch)
        if not target.exists():
            raise ValueError("the processes of the all-reduce did not finish")
        return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main(sys.argv[1:])
