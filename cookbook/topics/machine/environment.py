"""The environment of a run, without host or user names and without paths."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np

# Purpose of each optional library.
LIBRARY_USES = {
    "torch": "networks, GPUs and number formats beside fp32 and fp64",
    "PIL": "JPEG decoding",
    "psutil": "clocks and memory",
}
PACKAGES = {"PIL": "pillow"}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# A report's note on its clock where one thread computed.
ONE_THREAD = "processor time of one thread, without what other programs take of the core"


def absent(library: str) -> str:
    """Return the message for an optional library that is not installed; empty where it is.

    >>> absent("numpy")
    ''
    """
    if find_spec(library):
        return ""
    name, use = PACKAGES.get(library, library), LIBRARY_USES.get(library, "this")
    return f"{name} is not installed, so {use} cannot be measured: python -m pip install 'dl-cookbook[measure]'"


def optional(library: str) -> Any:
    """Import an optional library.

    Raises
    ------
    ValueError
        If it is not installed; the message has its purpose and the line that installs it.
    """
    if sentence := absent(library):
        raise ValueError(sentence)
    return import_module(library)


def environment(device: Any = None) -> dict[str, Any]:
    """Return processor, memory, clocks, load and software, and of a `device` its name, memory and driver."""
    facts: dict[str, Any] = {
        "processor": processor(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": cores(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        "load": load(),
    }
    facts |= _by_psutil()
    if device is not None:
        facts |= device.described()
    return {name: value for name, value in facts.items() if value not in (None, "", {})}


def processor() -> str:
    """Return the maker's name of the processor, as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model_names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        model_names = []
    if not model_names and sys.platform == "darwin":
        result = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=5)
        model_names = [result.stdout.strip()]
    return (model_names[0] if model_names and model_names[0] else platform.processor() or platform.machine())[:200]


def device_name() -> str:
    """Return the name of the device of this machine: its first NVIDIA GPU as the driver has it, else the processor."""
    command, listed = [which("nvidia-smi") or "", "--query-gpu=name", "--format=csv,noheader"], ""
    if command[0]:
        with suppress(OSError, subprocess.SubprocessError):  # a driver that does not answer names nothing
            listed = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    model = processor()
    # EPYC and Ryzen name their cores behind the model: "AMD EPYC 9654 96-Core Processor".
    model = model.partition("-Core")[0].rpartition(" ")[0] if "-Core" in model else model
    return (listed.strip() or model).partition("\n")[0].strip()


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float | None:
    """Return the processes that ran or waited in the last minute, including this one, where the system reports it."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _blas() -> str:
    config = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {}) if isinstance(config, Mapping) else {}
    return f"{blas.get('name', '')} {blas.get('version', '')}".strip()[:100]


def _by_psutil() -> dict[str, Any]:
    if absent("psutil"):
        return {"clock_note": absent("psutil")}
    psutil = import_module("psutil")
    return {
        "memory_bytes": psutil.virtual_memory().total,
        "memory_free_bytes": psutil.virtual_memory().available,
        "physical_cores": psutil.cpu_count(logical=False),
    }


def free_memory() -> float:
    """Return the available memory [B]; 1 GB where it is not reported."""
    return float(_by_psutil().get("memory_free_bytes") or 1e9)


def nvidia() -> dict[str, Any]:
    """Return driver, limits and temperature of the first GPU of NVIDIA, where nvidia-ml-py is installed."""
    if not find_spec("pynvml"):
        return {"gpu_clock_note": "nvidia-ml-py is not installed, so clocks and throttling were not read"}
    ml = import_module("pynvml")
    try:
        ml.nvmlInit()
        handle = ml.nvmlDeviceGetHandleByIndex(0)
        return {
            "driver": str(ml.nvmlSystemGetDriverVersion()),
            "gpu_clock_limit_hz": ml.nvmlDeviceGetMaxClockInfo(handle, ml.NVML_CLOCK_SM) * 1e6,
            "gpu_power_limit_w": ml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
            "gpu_temperature_c": ml.nvmlDeviceGetTemperature(handle, ml.NVML_TEMPERATURE_GPU),
        }
    except ml.NVMLError as error:
        return {"gpu_clock_note": without_names(f"limits could not be read: {error}")}


def clock(gpu: bool) -> tuple[float, int] | None:
    """Return the current clock [Hz] and the throttling bits of an NVIDIA GPU; None where unreadable."""
    library = "pynvml" if gpu else "psutil"
    if not find_spec(library):
        return None
    read = import_module(library)
    if not gpu:
        try:
            now = read.cpu_freq()
        except (OSError, NotImplementedError):
            now = None
        return (now.current * 1e6, 0) if now else None
    try:
        read.nvmlInit()
        handle = read.nvmlDeviceGetHandleByIndex(0)
        newer = getattr(read, "nvmlDeviceGetCurrentClocksEventReasons", None)
        reasons = (newer or read.nvmlDeviceGetCurrentClocksThrottleReasons)(handle)
        return read.nvmlDeviceGetClockInfo(handle, read.NVML_CLOCK_SM) * 1e6, int(reasons)
    except read.NVMLError:
        return None


def clocks(seen: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Return the slowest and fastest clock read right after each case, and every reason that throttled a GPU."""
    if not seen:
        return {}
    bits = 0
    for _, reasons in seen:
        bits |= reasons
    speeds = [speed for speed, _ in seen]
    fields: dict[str, Any] = {"clock_low_hz": min(speeds), "clock_high_hz": max(speeds)}
    return fields | ({"gpu_throttle_reasons": hex(bits)} if bits else {})


def without_names(sentence: str) -> str:
    """Return a library's message on one line, cut, and without this machine's folders, host and user."""
    first = " ".join(sentence.split())[:300]
    secret = [str(Path.home()), str(Path.cwd()), platform.node(), os.environ.get("USER", "")]
    for word in sorted(filter(lambda text: len(text) > 2, secret), key=len, reverse=True):
        first = first.replace(word, "...")
    return first
