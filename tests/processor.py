"""Print with which kernels, threads and vector units NumPy computes; fail where the environment asks for others.

OPENBLAS_CORETYPE, OMP_NUM_THREADS and NPY_DISABLE_CPU_FEATURES ask. Libraries pass over a name that they do not know,
and tests as on another processor would then be those of this one.
"""

import json
import os
import sys
from collections.abc import Mapping

import numpy as np
from threadpoolctl import threadpool_info

# Kernels under whose name a build answers that lacks those asked for.
NEAREST = {"prescott": "katmai", "zen": "haswell"}


def used() -> dict[str, list]:
    """Kernels and threads of linear algebra, after one product, and vector units of NumPy."""
    np.ones((256, 256)) @ np.ones((256, 256))
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    units = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "kernels": [pool["architecture"].lower() for pool in pools],
        "threads": [pool["num_threads"] for pool in pools],
        "units": units.get("found", []),
        "unused": units.get("not found", []),
    }


def without_effect(asked: Mapping[str, str], used: Mapping[str, list]) -> list[str]:
    """Settings of the environment that changed nothing, a sentence each."""
    core, threads = asked.get("OPENBLAS_CORETYPE", "").lower(), asked.get("OMP_NUM_THREADS", "")
    most = min(int(threads), os.cpu_count() or 1) if threads else 0
    return [
        *[
            f"OPENBLAS_CORETYPE={core}, but kernels are of {name}: give a name that OpenBLAS knows"
            for name in used["kernels"]
            if core and name not in (core, NEAREST.get(core))
        ],
        *[
            f"OMP_NUM_THREADS={threads}, but {count} compute: unset OPENBLAS_NUM_THREADS"
            for count in used["threads"]
            if most and count != most
        ],
        *[
            f"NPY_DISABLE_CPU_FEATURES={unit}, but NumPy has no such unit, or uses it: give names of {used['units']}"
            for unit in asked.get("NPY_DISABLE_CPU_FEATURES", "").split()
            if unit not in used["unused"]
        ],
        *([] if used["kernels"] else ["no linear algebra was seen: install a NumPy that has OpenBLAS"]),
    ]


if __name__ == "__main__":
    report = used()
    print(json.dumps(report))
    sys.exit("\n".join(without_effect(os.environ, report)) or 0)
