"""One run of the benchmarks: the selection and order of cases, until done, cancelled or out of time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cookbook.catalog.fields import Field, checked
from cookbook.catalog.refusals import refused
from cookbook.topics.machine import array_networks, exchange, host, steps
from cookbook.topics.machine import device as torched
from cookbook.topics.machine.device import DEVICES, Device, device_named
from cookbook.topics.machine.environment import (
    ONE_THREAD,
    THREADS,
    absent,
    clock,
    clocks,
    cores,
    environment,
    free_memory,
    load,
)
from cookbook.topics.machine.report import Report, row
from cookbook.topics.machine.timing import Case, Stopped, Watch, timed
from cookbook.units import percent
from cookbook.workloads import zoo

SUITES = ("micro", "macro", "language")
# Seconds of a run where none are given: by NumPy alone, with PyTorch, and of the suite of language models.
NUMPY_SECONDS, QUICK_SECONDS, TORCH_SECONDS, LANGUAGE_SECONDS = 55.0, 60.0, 600.0, 1200.0
SCRATCH = {True: 2**25, False: 2**28}
# A processor that ends slower than it began by this share is reported as throttled or shared.
THROTTLED_SHARE = 0.1
MAX_ROUNDS = 20
# Rows of the product whose rate predicts the times of networks and reveals a slowing processor.
REFERENCE = 384
Progress = Callable[[int, int, str], Any]


SECONDS = Field.number(high=86_400, unit="s", optional=True)


@checked(
    device=Field.choice("numpy", *DEVICES, optional=True),  # a device of AMD has the name of one of NVIDIA
    quick=Field.flag(),
    suites=Field.choice(*SUITES, many=True),
    seconds=SECONDS,
    folder=Field.record(str, Path, what="folder", give="one on the drive to measure", optional=True),
    rounds=Field.count(high=MAX_ROUNDS),
    progress=Field.function("one of a number, the number of all and a name"),
    cancelled=Field.function("one without arguments that says whether to stop"),
)
def run(
    device: str | None = "numpy",
    *,
    quick: bool = False,
    suites: Sequence[str] = ("micro", "macro"),
    seconds: float | None = None,
    folder: str | Path | None = None,
    rounds: int = 1,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Report:
    """Measure this machine; nothing is sent anywhere.

    Parameters
    ----------
    device : str
        "numpy" (the processor by NumPy alone, within a minute), or "cpu", "cuda" or "mps" by PyTorch; None: the
        fastest that PyTorch sees, or NumPy where PyTorch is not installed.
    quick : bool
        Fewer and smaller cases.
    suites : sequence of str
        "micro" (single operations), "macro" (networks) and "language" (language models at many batches and lengths);
        the last two need PyTorch.
    seconds : float
        Time after which the run stops, between two samples [s]; by default 55 s of NumPy, 1 to 20 min of PyTorch.
    folder : str or Path
        Folder of the scratch file for the drive, which is removed; the system's temporary folder by default.
    rounds : int
        Number of times to run all cases, 1 to 20: samples of a case are then taken at different times, so that a
        temporary disturbance of the machine does not affect all of them.
    progress : callable
        Called before each case with its number, the number of all and its name.
    cancelled : callable
        Called between samples; True ends the run and keeps the results so far, as does an interrupt from the keyboard.

    Returns
    -------
    Report
        ``write`` writes it to a file, ``frame`` gives a table.

    Raises
    ------
    ValueError
        If there is no such device or suite, or PyTorch is needed and not installed; the message has the remedy.

    Examples
    --------
    >>> run("gpu")
    Traceback (most recent call last):
    cookbook.catalog.Refused: device = 'gpu' is not a choice; take one of numpy, cpu, cuda, mps; nearest: cpu
    """
    chosen = tuple(name for name in SUITES if name in suites)
    if folder is not None and not Path(folder).is_dir():
        raise refused("folder", str(folder), "is no folder; give one on the drive to measure")
    if device is None and absent("torch"):
        device = "numpy"
    used = None if device == "numpy" else device_named(device)
    if seconds is None:
        seconds = _usual_seconds(used, quick, chosen)
    options = {
        "device": used.name if used else "numpy",
        "quick": bool(quick),
        "suites": list(chosen),
        "seconds": float(seconds),
        "rounds": int(rounds),
    }
    watch = Watch(float(seconds), cancelled, samples=5 if quick else 9, case_s=0.5 if quick else 1.5)
    return _Run(used, watch, bool(quick), progress).whole(chosen, folder, options)


def _usual_seconds(used: Device | None, quick: bool, chosen: Sequence[str]) -> float:
    if used is None:
        return NUMPY_SECONDS
    return QUICK_SECONDS if quick else LANGUAGE_SECONDS if "language" in chosen else TORCH_SECONDS


class _Run:
    """The state of one run: rows so far, skipped cases, and the reference product of its beginning."""

    def __init__(self, device: Device | None, watch: Watch, quick: bool, progress: Progress | None) -> None:
        self.device, self.watch, self.quick = device, watch, quick
        self.progress = progress or (lambda number, count, name: None)
        self.rows: list[dict[str, Any]] = []
        self.skipped: list[dict[str, str]] = []
        self.clocks: list[tuple[float, int]] = []
        self.scratch: Path | None = None
        self.kept: dict[int, tuple[int, list[float]]] = {}
        self.alone = one_thread(device)
        self.rate = math.inf

    def whole(self, suites: Sequence[str], folder: str | Path | None, options: dict[str, Any]) -> Report:
        """Run all cases, and return the report."""
        state, begun, began = "complete", load(), self._reference()
        self.rate = 2.0 * REFERENCE**3 / began
        with ExitStack() as files:
            try:
                cases = list(self._cases(suites, folder, files)) * int(options["rounds"])
                for number, case in enumerate(cases, start=1):
                    self.progress(number, len(cases), f"{case.benchmark} {case.case}")
                    self.watch.check()
                    self._one(case)
                self._rest(suites)
            except Stopped as stop:
                state = stop.state
            except KeyboardInterrupt:
                state = "cancelled"
        facts = environment(self.device) | ({"clock": ONE_THREAD} if self.alone else {})
        facts |= {"load_before": begun} | clocks(self.clocks) | _shared(begun)
        if self.device is None or self.device.name == "cpu":  # of a GPU, its clocks tell
            facts |= _slowed(began, self._reference())
        ended = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        plain = {name: value for name, value in facts.items() if value is not None}
        return Report(state, ended, options, plain, self.rows, self.skipped)

    def _reference(self) -> float:
        """Return the fastest time of a few products of moderate size [s], to compare the end with the beginning."""
        a = host.generator().random((REFERENCE, REFERENCE)).astype(np.float32)
        now, times = time.process_time if self.alone else time.perf_counter, []
        for _ in range(12):
            begin = now()
            a @ a
            times.append(max(now() - begin, 1e-9))
        return min(times)

    def _cases(self, suites: Sequence[str], folder: str | Path | None, files: ExitStack) -> Iterator[Case]:
        device, quick = self.device, self.quick
        if "micro" in suites:
            yield from self._micro(quick)
            yield from self._files(folder, files)
        for suite, cases in (("macro", steps.macro), ("language", steps.language)):
            if suite in suites and device is None:
                yield from array_networks.cases(suite, quick, self.rate)
            elif suite in suites and device is not None:
                yield from cases(device, quick)

    def _micro(self, quick: bool) -> Iterator[Case]:
        device = self.device
        if device is None:
            yield from host.products(quick)
            yield host.convolution(1 if quick else 4, 64, 64, 28 if quick else 56)
            yield from host.streams(quick)
            yield host.launch()
            self._skip("host copy", "all", "the processor has no memory of its own to copy to")
            return
        yield from torched.products(device, quick, layers_of("llama3_8b"))
        yield from torched.convolutions(device, quick)
        yield from torched.streams(device, quick)
        yield from torched.launches(device)
        yield from torched.host_copies(device, quick)

    def _files(self, folder: str | Path | None, files: ExitStack) -> Iterator[Case]:
        size = int(min(SCRATCH[self.quick], free_memory() / 4)) // 2**22 * 2**22
        try:
            self.scratch = files.enter_context(host.scratch(folder, size))
            yield from host.drive(self.scratch, size, files)
        except OSError as error:
            self._skip("disk sequential", "all", f"no scratch file could be written: {error.strerror}")
        if reason := absent("PIL"):
            self._skip("jpeg decode", "all", reason)
        else:
            yield from host.pictures()

    def _one(self, case: Case) -> None:
        if any(entry["case"] == case.case and entry["benchmark"] == case.benchmark for entry in self.skipped):
            return
        if case.seconds > self.watch.left():
            reason = (
                f"it would take about {case.seconds:.0f} s, and {self.watch.left():.0f} s are left: give more seconds"
            )
            self._skip(case.benchmark, case.case, reason)
            return
        used = self.device if case.path == "torch" else None
        # Drives and workers are timed by the clock: CPU time covers only what one thread computes.
        alone = self.alone and case.path not in ("files", "fio") and "workers" not in case.told.get("method", "")
        self.watch.timer = time.process_time if alone else self.watch.clock
        try:
            if self.device:
                self.device.forget()
            times, calls = timed(case.prepare(), self.watch, *((used.wait, used.count_peak) if used else ()))
            clock_read = clock(bool(self.device and self.device.gpu))
            self.clocks += [clock_read] if clock_read else []
            peak = used.peak() if used else None
        except (ValueError, RuntimeError, MemoryError, OSError) as error:
            self._skip(case.benchmark, case.case, torched.failure(error))
            return
        name = used.name if used else "cpu"
        self._keep(case, times, calls, path=case.path, device=name, memory_bytes=peak)

    def _keep(self, case: Case, times: list[float], calls: int, **fields: Any) -> None:
        """Add the row of a case, or replace its row of an earlier round, with the samples of all rounds."""
        at, samples = self.kept.setdefault(id(case), (len(self.rows), []))
        samples += times
        new_row = row(case.benchmark, case.work, samples, calls, case=case.case, **fields, **case.told)
        self.rows[at : at + 1] = [new_row]

    def _rest(self, suites: Sequence[str]) -> None:
        """Run reads by fio and the all-reduce, which need processes of their own."""
        if "micro" not in suites:
            return
        if self.scratch and not self.quick:
            try:
                self.rows += host.by_fio(self.scratch, self.watch)
            except (ValueError, OSError) as error:
                self._skip("disk random", "many requests at once", torched.failure(error))
        if self.device is None:
            self._skip("all-reduce", "all", absent("torch") or "NumPy was asked for; give device = 'cpu' or 'cuda'")
            return
        try:
            self.rows += exchange.exchanged(self.device, self.watch, self.quick)
        except (ValueError, OSError) as error:
            self._skip("all-reduce", "all", torched.failure(error))

    def _skip(self, benchmark: str, case: str, why: str) -> None:
        self.skipped.append({"benchmark": benchmark, "case": case, "why": why})


def one_thread(device: Device | None) -> bool:
    """Return True if the processor computes with one thread, as set by its environment or PyTorch."""
    if device is None:
        return cores() == 1 or any(os.environ.get(name) == "1" for name in THREADS)
    return device.name == "cpu" and device.torch.get_num_threads() == 1


def layers_of(name: str) -> list[tuple[int, int]]:
    """Return inputs and outputs of the matrix products of a gated language model's block, fused as engines do."""
    sizes = zoo.model(name).arguments
    width, hidden = int(sizes["width"]), int(sizes["hidden"])
    heads = int(sizes.get("kv_heads") or sizes["heads"])
    values = width // int(sizes["heads"]) * heads
    return [(width, width + 2 * values), (width, width), (width, 2 * hidden), (hidden, width)]


def _shared(begun: float | None) -> dict[str, str]:
    """Return a note where other programs kept the cores busy before the run."""
    if begun is None or begun < cores() / 2:
        return {}
    busy = f"an average of {begun:g} processes were running or waiting on {cores()} cores before the run"
    return {"shared": f"{busy}, so medians may be too slow"}


def _slowed(began: float, ended: float) -> dict[str, Any]:
    ratio = round(began / ended, 3)
    fields = {"speed_at_end": ratio}
    if ratio < 1 - THROTTLED_SHARE:
        note = f"the processor ended at {percent(ratio)} of its initial speed: it was throttled or shared with others"
        return {**fields, "throttling": note}
    return fields
