"""A hundred million training steps on two processes: ``python tests/benchmarks/explore_all.py [workers] [checkpoint]``.

Prints seconds, scenarios a second, and the memory of this process and of the largest worker.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import cookbook as cb

AXES: dict[str, list[Any]] = {
    "model": ["llama2_7b", "llama2_70b"],
    "precision": ["bf16", "fp8"],
    "accelerator": ["a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x"],
    "devices": [8 * each for each in range(1, 26)],
    "tp": [1, 2, 4, 8],
    "pp": [1, 2, 4, 8, 16],
    "zero": [0, 1, 2, 3],
    "recompute": ["none", "full"],
    "micro_batch": [1, 2, 4, 8, 16],
    "seq": [2048, 4096, 8192, 16384, 32768],
    "global_batch": [64 * each for each in range(1, 51)],
}


def main() -> None:
    """Measure once."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    rows, begun = math.prod(map(len, AXES.values())), time.monotonic()
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        found = cb.planning.explore(
            "train_step",
            executor=pool,
            best={"tokens_per_s": "most"},
            front={"tokens_per_s": "most", "devices": "least"},
            quantiles=("seconds", "memory_bytes", "tokens_per_s"),
            checkpoint=sys.argv[2] if len(sys.argv) > 2 else None,
            **AXES,
        )
    seconds = time.monotonic() - begun
    most = {
        name: resource.getrusage(who).ru_maxrss * 1024 / 1e6
        for name, who in (("here_mb", resource.RUSAGE_SELF), ("worker_mb", resource.RUSAGE_CHILDREN))
    }
    assert found.rows == rows
    told = {
        "rows": rows,
        "answered": found.answered,
        "fitting": found.fitting,
        "front": len(found.front),
        "seconds": round(seconds, 1),
        "rows_per_s": round(rows / seconds),
        **most,
    }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
