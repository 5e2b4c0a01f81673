"""Timing of a call: warm-up, samples of several calls where one is short, and a stop between samples."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# Seconds after which a started program is terminated.
LONGEST_S = 120.0


class Stopped(Exception):
    """Exception of a run that was cancelled or ran out of time, as `state` says."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(state)


@dataclass(frozen=True)
class Case:
    """One case to measure.

    Attributes
    ----------
    benchmark, case : str
        Name in `report.UNITS`, and its sizes in words.
    work : float
        Work of one call: FLOP, B, samples, tokens or calls.
    prepare : callable
        Called to make the input; returns the call to time.
    told : dict
        Further fields of the row: model, batch, seq, number_format, method, note.
    path : str
        Library that runs it.
    seconds : float
        Approximate total time of its calls [s], where known in advance: a case that does not fit is left out.
    """

    benchmark: str
    case: str
    work: float
    prepare: Callable[[], Callable[[], Any]]
    told: dict[str, Any] = field(default_factory=dict)
    path: str = "numpy"
    seconds: float = 0.0


@dataclass
class Watch:
    """The stop condition: a number of seconds from now, and a callback between samples.

    Attributes
    ----------
    seconds : float
        Time for all cases together [s].
    cancelled : callable
        True once the run is to stop.
    samples, sample_s, case_s : int, float, float
        Samples of a case, minimum time of a sample [s], and the time after which a case takes no more samples [s].
    timer : callable
        Clock of the samples: by default that of the run, or `time.process_time` for work of one thread, which does not
        count what other programs take of the core.
    """

    seconds: float
    cancelled: Callable[[], bool]
    samples: int = 9
    sample_s: float = 0.02
    case_s: float = 2.0
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        self.end = self.clock() + self.seconds
        self.timer = self.clock

    def left(self) -> float:
        """Return the remaining time [s]."""
        return self.end - self.clock()

    def check(self) -> None:
        """Raise Stopped where the run is cancelled or out of time."""
        if self.cancelled():
            raise Stopped("cancelled")
        if self.clock() > self.end:
            raise Stopped("out of time")


def timed(
    call: Callable[[], Any],
    watch: Watch,
    wait: Callable[[], Any] = lambda: None,
    warm: Callable[[], Any] = lambda: None,
) -> tuple[list[float], int]:
    """Return times of one call [s] in each sample, and calls in a sample; `wait` returns once the device is idle.

    The first call is not counted, and `warm` is called after it. The second determines the calls per sample, and is
    a sample itself where one does; three samples are taken at least.
    """
    call()
    wait()
    warm()
    watch.check()
    once = _seconds(call, 1, watch, wait)
    calls = max(1, min(10_000, round(watch.sample_s / max(once, 1e-9))))
    if calls > 1:  # a single call has the time of waiting in it
        calls = max(1, min(10_000, round(calls * watch.sample_s / max(_seconds(call, calls, watch, wait), 1e-9))))
    times = [once] if calls == 1 else []
    begin = watch.clock() - sum(times)
    while len(times) < 3 or (len(times) < watch.samples and watch.clock() - begin < watch.case_s):
        watch.check()
        times.append(_seconds(call, calls, watch, wait) / calls)
    return times, calls


def _seconds(call: Callable[[], Any], calls: int, watch: Watch, wait: Callable[[], Any]) -> float:
    begin = watch.timer()
    for _ in range(calls):
        call()
    wait()
    return max(watch.timer() - begin, 1e-9)


def run_program(command: list[str], watch: Watch) -> None:
    """Run a program to its end, or end it where the run is cancelled or the program takes too long."""
    begin = watch.clock()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            watch.check()
            if watch.clock() - begin > LONGEST_S:
                return
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(10)
