"""Readers of counters: nvidia-smi, DCGM, NCCL tests, fio, iostat, and the metrics of engines that serve models.

Output of each tool: ``nvidia-smi dmon`` has two header lines that begin with #, ``--query-gpu=... --format=csv`` one
with units in brackets (man page nvidia-smi(1), https://manpages.ubuntu.com/manpages/plucky/man1/nvidia-smi.1.html);
``dcgmi dmon`` one that begins with #Entity, dcgm-exporter and engines such as vLLM the text format of Prometheus
(https://docs.vllm.ai/en/stable/usage/metrics/); NCCL tests a table of sizes with algbw and busbw in GB/s
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md); ``fio --output-format=json`` a list of jobs with
bw_bytes, iops and clat_ns; ``iostat -x`` a table of devices after a line of avg-cpu.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cookbook.topics.clinic.reading import Notes, Reading, number


class Counter(NamedTuple):
    """A counter: its unit, the limit beyond which it is a finding (below, if negative), the cause, and its words."""

    unit: str
    limit: float
    cause: str
    words: str


# Limits are rules of thumb, stated so that they can be doubted: a device that works nine tenths of the time has little
# left to give; a clock a tenth lower costs a tenth; a drive that is busy nine tenths of the time queues requests.
COUNTERS = {
    "gpu busy": Counter("share", -0.9, "idle accelerator", "GPU busy {} of the time"),
    "tensor cores busy": Counter("share", math.nan, "", "tensor cores busy {} of the time"),
    "memory busy": Counter("share", 0.8, "memory-bound kernels", "GPU memory busy {} of the time"),
    "clock lost": Counter("share", 0.1, "slowdown", "the GPU's clock falls {} below its highest"),
    "throttled": Counter("share", 0.1, "slowdown", "power or heat holds the clock down {} of the time"),
    "drive busy": Counter("share", 0.9, "input", "the busiest drive works {} of the time"),
    "cpu waits for drives": Counter("share", 0.1, "input", "processors wait for drives {} of the time"),
    "cache of keys and values full": Counter("share", 0.9, "memory of the service", "cache of keys and values {} full"),
    "requests waiting": Counter("requests", 1.0, "overload", "{} wait for a place"),
    "requests running": Counter("requests", math.nan, "", "{} run"),
    "preemptions": Counter("times", 1.0, "memory of the service", "requests lost their place {}"),
    "time to first token": Counter("s", math.nan, "", "mean time to first token: {}"),
    "time per output token": Counter("s", math.nan, "", "mean time per output token: {}"),
    "bus bandwidth": Counter("B/s", math.nan, "", "largest bus bandwidth of the collective: {}"),
    "start of an exchange": Counter("s", math.nan, "", "time of the smallest message: {}"),
    "read rate": Counter("B/s", math.nan, "", "the drives deliver {}"),
    "write rate": Counter("B/s", math.nan, "", "the drives take {}"),
    "read latency": Counter("s", math.nan, "", "mean latency of a read: {}"),
    "power": Counter("W", math.nan, "", "mean power of an accelerator: {}"),
}
Series = dict[str, list[float]]


def dmon(lines: list[str], name: str) -> Reading:
    """Read ``nvidia-smi dmon`` or ``dcgmi dmon``: the names of the columns are in lines that begin with #."""
    notes, columns = Notes(), defaultdict(list)
    head: list[str] = []
    for line, text in enumerate(lines, start=1):
        cells = text.replace("#", " ").split()
        if text.lstrip().startswith("#"):
            head = head if cells and cells[0].lower() in ("idx", "id") else [cell.lower() for cell in cells]
        elif cells and head:
            cells = _one_entity(cells)
            if len(cells) != len(head):
                notes.add("lines with another number of columns than the header", f"line {line}")
                continue
            for key, cell in zip(head, cells, strict=True):
                columns[key].append(number(cell))
    dcgm = bool(head) and head[0] == "entity"
    series = _counter_series(columns, DCGM_COLUMNS if dcgm else DMON_COLUMNS, notes)
    return _device(series, name, "DCGM counters (dcgmi dmon)" if dcgm else "nvidia-smi dmon", notes)


def _one_entity(cells: list[str]) -> list[str]:
    """Return the cells with "GPU 0" as one cell."""
    return [" ".join(cells[:2]), *cells[2:]] if cells[0].upper() in ("GPU", "GPU-I", "GPU-CI") else cells


# Columns by counter and factor to its unit.
DMON_COLUMNS = {"sm": ("gpu busy", 0.01), "mem": ("memory busy", 0.01), "pwr": ("power", 1.0), "pclk": ("clock", 1e6)}
DCGM_COLUMNS = {
    "gract": ("gpu busy", 1.0),
    "gputl": ("gpu busy", 0.01),
    "tenso": ("tensor cores busy", 1.0),
    "drama": ("memory busy", 1.0),
    "power": ("power", 1.0),
    "smclk": ("clock", 1e6),
    "dvccl": ("clock", 1e6),
}
QUERY_COLUMNS = {
    "utilization.gpu": ("gpu busy", 0.01),
    "utilization.memory": ("memory busy", 0.01),
    "power.draw": ("power", 1.0),
    "power.draw.average": ("power", 1.0),
    "clocks.sm": ("clock", 1e6),
    "clocks.current.sm": ("clock", 1e6),
    "clocks.gr": ("clock", 1e6),
}
IGNORED = {
    "gpu",
    "idx",
    "entity",
    "gtemp",
    "mtemp",
    "enc",
    "dec",
    "jpg",
    "ofa",
    "mclk",
    "index",
    "timestamp",
    "name",
    "uuid",
    "pci.bus_id",
    "temperature.gpu",
    "memory.used",
    "memory.total",
    "memory.free",
    "clocks.mem",
    "clocks.max.sm",
    "pviol",
    "tviol",
    "date",
    "time",
    "fb",
    "bar1",
    "ccpm",
    "rxpci",
    "txpci",
}


def _counter_series(cells: Mapping[str, list[float]], columns: Mapping[str, tuple[str, float]], notes: Notes) -> Series:
    series: Series = {}
    for key, values in cells.items():
        if key in columns and any(math.isfinite(value) for value in values):
            counter, factor = columns[key]
            series.setdefault(counter, [value * factor for value in values])
        elif key not in columns and key not in IGNORED:
            notes.add("columns that are not read", key)
    return series


def _device(series: Series, name: str, kind: str, notes: Notes, throttled: float = math.nan) -> Reading:
    """Return the means of an accelerator's counters; its clock counts only under load."""
    counters = {key: _mean(values) for key, values in series.items() if key in COUNTERS}
    clock = np.array(series.get("clock", []), dtype=float)
    busy = np.array(series.get("gpu busy", []), dtype=float)
    if len(clock):
        at_work = clock[(busy >= 0.5) & np.isfinite(clock)] if len(busy) == len(clock) else clock[np.isfinite(clock)]
        if len(at_work):
            counters["clock lost"] = float(1 - at_work.mean() / at_work.max()) if at_work.max() > 0 else 0.0
    if math.isfinite(throttled):
        counters["throttled"] = throttled
    return _counted(
        name,
        kind,
        counters,
        notes,
        f"looks like {kind}, and tells neither use nor clock nor power in any line; record it while the model trains",
    )


def _counted(name: str, kind: str, counters: dict[str, float], notes: Notes, nothing: str) -> Reading:
    """Return a reading of counters alone; refuse a file in which there are none, for which `nothing` is the reason."""
    if not counters:
        raise ValueError(f"{name} {nothing}")
    return Reading(name, kind, counters=counters, notes=notes())


def _mean(values: Iterable[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.nan


def is_query(cells: list[str]) -> bool:
    """Return True if a header is one of ``nvidia-smi --query-gpu``."""
    return any(cell.split(" [")[0].strip() in QUERY_COLUMNS for cell in cells)


def query(rows: list[list[str]], name: str) -> Reading:
    """Read ``nvidia-smi --query-gpu=... --format=csv``."""
    head, notes, columns = [cell.split(" [")[0] for cell in rows[0]], Notes(), defaultdict(list)
    throttled = []
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(head):
            if any(row):
                notes.add("lines with another number of columns than the header", f"line {line}")
            continue
        for key, cell in zip(head, row, strict=True):
            if "throttle_reasons" in key or "event_reasons" in key:
                if any(word in key for word in ("power_cap", "slowdown", "thermal", "power_brake")):
                    throttled.append((line, cell.strip() == "Active"))
            else:
                columns[key].append(number(cell))
    series = _counter_series(columns, QUERY_COLUMNS, notes)
    lines = {line for line, _ in throttled}
    share = len({line for line, on in throttled if on}) / len(lines) if lines else math.nan
    return _device(series, name, "nvidia-smi table (CSV)", notes, share)


def nccl(lines: list[str], name: str) -> Reading:
    """Read the output of NCCL tests: the largest bus bandwidth, and the time of the smallest message."""
    notes, rates, times, wrong = Notes(), [], [], 0.0
    for line, text in enumerate(lines, start=1):
        cells = text.split()
        if not cells or text.lstrip().startswith("#"):
            continue
        figures = [number(cell) for cell in cells]
        # size, count, then words and perhaps a root; time, algbw, busbw, wrong out of place and in place
        tail = figures[-8:] if len(cells) >= 12 else figures[-4:] if len(cells) >= 8 else []
        if len(tail) < 3 or not all(math.isfinite(figure) for figure in (figures[0], *tail[:3])) or tail[0] <= 0:
            notes.add("lines that are no row of results", f"line {line}")
            continue
        rates.append(tail[2] * 1e9)
        times.append((figures[0], tail[0] * 1e-6))
        wrong += 0 if math.isnan(tail[3]) else tail[3]
    if not rates:
        raise ValueError(f"{name} looks like output of NCCL tests, and has no row of results; it was cut or failed")
    if wrong:
        notes.add(f"{wrong:,.0f} results were wrong: the network or a device corrupts data")
    counters = {"bus bandwidth": max(rates), "start of an exchange": min(times)[1]}
    return Reading(name, "output of NCCL tests", counters=counters, notes=notes())


def fio(document: Mapping[str, Any], name: str) -> Reading:
    """Read ``fio --output-format=json``."""
    jobs, notes, rates = document.get("jobs"), Notes(), defaultdict[str, float](float)
    if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
        raise ValueError(f"{name}: jobs must be a list of objects, as fio writes it")
    latencies = []
    for place, job in enumerate(jobs[:10_000]):
        for side in ("read", "write"):
            result = job.get(side)
            rate = (
                number(result.get("bw_bytes", number(result.get("bw")) * 1024))
                if isinstance(result, Mapping)
                else math.nan
            )
            if not math.isfinite(rate):
                notes.add(f"jobs without {side}.bw_bytes", f"jobs[{place}]")
                continue
            rates[f"{side} rate"] += rate
            latency = result.get("clat_ns")
            if side == "read" and isinstance(latency, Mapping) and number(latency.get("mean")) > 0:
                latencies.append(number(latency.get("mean")) * 1e-9)
    counters = {key: rate for key, rate in rates.items() if rate > 0}
    if latencies:
        counters["read latency"] = float(np.mean(latencies))
    return _counted(
        name,
        "result of fio",
        counters,
        notes,
        "is output of fio in which nothing was read or written; look at its error",
    )


def iostat(lines: list[str], name: str) -> Reading:
    """Read ``iostat -x``: the first report covers the time since boot, and is left out where others follow."""
    notes, waits = Notes(), []
    reports: list[list[Mapping[str, float]]] = []
    head: list[str] = []
    after_cpu = False
    for line, text in enumerate(lines, start=1):
        cells = text.split()
        if not cells:
            head = []
        elif cells[0] == "avg-cpu:":
            after_cpu, head = True, cells[1:]
        elif cells[0].rstrip(":") == "Device":
            head, after_cpu = ["device", *cells[1:]], False
            reports.append([])
        elif after_cpu and head:
            waits.append(dict(zip(head, map(number, cells), strict=False)).get("%iowait", math.nan) / 100)
        elif head and reports:
            if len(cells) != len(head):
                notes.add("lines with another number of columns than the header", f"line {line}")
                continue
            reports[-1].append(dict(zip(head[1:], map(number, cells[1:]), strict=True)))
    later = reports[1:] if len(reports) > 1 else reports
    busy = [max((row.get("%util", math.nan) for row in report), default=math.nan) / 100 for report in later]
    read = [sum(row.get("rkB/s", row.get("rMB/s", math.nan) * 1024) * 1024 for row in report) for report in later]
    counters = {
        "drive busy": _mean(busy),
        "cpu waits for drives": _mean(waits[1:] if len(waits) > 1 else waits),
        "read rate": _mean(read),
    }
    counters = {key: value for key, value in counters.items() if math.isfinite(value)}
    return _counted(
        name,
        "output of iostat",
        counters,
        notes,
        "looks like output of iostat, and has neither %util nor %iowait; run iostat -x 1",
    )


# Name, labels and value of one line; a time may follow.
_METRIC = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]{0,120})(?:\{([^{}]{0,2000})\})? {1,4}([^ ]{1,40})(?: {1,4}\d{1,20})?$")
METRICS = {
    "vllm:num_requests_running": "requests running",
    "vllm:num_requests_waiting": "requests waiting",
    "vllm:gpu_cache_usage_perc": "cache of keys and values full",
    "vllm:kv_cache_usage_perc": "cache of keys and values full",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:num_preemptions": "preemptions",
    "sglang:num_running_reqs": "requests running",
    "sglang:num_queue_reqs": "requests waiting",
    "sglang:token_usage": "cache of keys and values full",
}
DCGM_METRICS = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu busy", 0.01),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gpu busy", 1.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor cores busy", 1.0),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory busy", 0.01),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("memory busy", 1.0),
    "DCGM_FI_DEV_POWER_USAGE": ("power", 1.0),
}
MEANS = {
    "time_to_first_token_seconds": "time to first token",
    "time_per_output_token_seconds": "time per output token",
    "inter_token_latency_seconds": "time per output token",
}


def is_prometheus(lines: list[str]) -> bool:
    """Return True if the first lines are metrics in the text format of Prometheus."""
    some = [line for line in lines[:400] if line.strip()]
    if any(line.startswith(("# TYPE ", "# HELP ")) for line in some):
        return True
    matches = [_METRIC.match(line[:3000]) for line in some[:5]]
    return bool(matches) and all(match and _is_value(match[3]) for match in matches)


def _is_value(text: str) -> bool:
    """Return True for a number of a metric; Prometheus writes NaN and +Inf too."""
    return math.isfinite(number(text)) or text.lower().strip("+-") in ("nan", "inf")


def prometheus(lines: list[str], name: str) -> Reading:
    """Read metrics of vLLM, SGLang or dcgm-exporter, scraped once: gauges as they are, means of what was counted."""
    notes, samples, unknown = Notes(), defaultdict(list), 0
    for line, text in enumerate(lines, start=1):
        if not text.strip() or text.startswith("#"):
            continue
        match = _METRIC.match(text)
        value = number(match[3]) if match else math.nan
        if not match:
            notes.add("lines that are no metric", f"line {line}")
        elif math.isfinite(value):
            samples[match[1]].append(value)
    counters: dict[str, float] = {}
    for key, values in samples.items():
        if key in METRICS:
            whole = sum(values) if "requests" in METRICS[key] or "preempt" in METRICS[key] else max(values)
            counters.setdefault(METRICS[key], float(whole))
        elif key in DCGM_METRICS:
            counter, factor = DCGM_METRICS[key]
            counters[counter] = _mean(values) * factor
        else:
            unknown += 1
    for ending, counter in MEANS.items():
        for engine in ("vllm:", "sglang:"):
            count = sum(samples.get(f"{engine}{ending}_count", []))
            if count > 0:
                counters[counter] = sum(samples.get(f"{engine}{ending}_sum", [])) / count
    if unknown:
        notes.add(f"{unknown} names of metrics are not read")
    return _counted(
        name,
        "metrics of a service (Prometheus)",
        counters,
        notes,
        f"is metrics of something else: none of its {len(samples)} names is of vLLM, SGLang or DCGM",
    )
