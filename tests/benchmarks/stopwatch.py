"""Seconds that a call takes."""

import time

import numpy as np


def seconds(call, repeats=5, of=np.median):
    """The median, or another figure, of a few runs after one to warm up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(of(times))
