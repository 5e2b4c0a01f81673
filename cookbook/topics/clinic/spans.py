"""Readers of profiler output: Chrome traces (PyTorch's Kineto) and exports of Nsight Systems.

Chrome traces are JSON with ``traceEvents``, whose complete events (``ph`` "X") have begin ``ts`` and length ``dur`` in
microseconds (Trace Event Format, Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
PyTorch's profiler sorts its own by ``cat``: cpu_op, kernel, gpu_memcpy, cuda_runtime, user_annotation, where
``ProfilerStep#n`` is a step and ``enumerate(DataLoader)`` the wait for a batch. Nsight Systems exports SQLite with the
tables ``CUPTI_ACTIVITY_KIND_KERNEL``, ``..._MEMCPY``, ``..._RUNTIME``, ``NVTX_EVENTS`` and ``StringIds``, nanoseconds
all (https://docs.nvidia.com/nsight-systems/2021.5/nsys-exporter/exported_data.html), and CSV by ``nsys stats``.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cookbook.topics.clinic.reading import MAX_EVENTS, TERMS, Notes, Reading, Spans, number

# Operations of the processor that multiply matrices or convolve; all others move memory.
MATMUL_NAMES = (
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::addbmm",
    "aten::_convolution",
    "aten::mkldnn_convolution",
    "aten::_slow_conv2d_forward",
    "aten::_slow_conv2d_backward",
    "aten::slow_conv3d_forward",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_transpose2d",
    "aten::convolution_backward",
    "aten::mkldnn_linear",
    "aten::thnn_conv2d",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::mkldnn_rnn_layer",
    "mkldnn::_linear_pointwise",
    "aten::dot",
    "aten::mv",
    "aten::addmv",
    "aten::linear_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
)
# Parts of the names of kernels that multiply: all other kernels move memory.
MATMUL_KERNELS = (
    "gemm",
    "conv",
    "cutlass",
    "xmma",
    "flash",
    "fmha",
    "attention",
    "wgrad",
    "dgrad",
    "mma_",
    "gemv",
    "nvjet",
)
COLLECTIVE_NAMES = (
    "gloo:",
    "nccl",
    "rccl",
    "mpi:",
    "c10d::",
    "record_param_comms",
    "allreduce",
    "all_reduce",
    "allgather",
    "all_gather",
    "reduce_scatter",
    "reducescatter",
)
INPUT_NAMES = ("dataloader", "data_load", "load_batch", "fetch_batch", "get_batch", "next_batch", "input_pipeline")
CHECKPOINT_NAMES = (
    "save_checkpoint",
    "checkpoint_save",
    "write_checkpoint",
    "checkpointing",
    "torch.save",
    "save_state",
    "checkpoint",
)
STEP_NAMES = ("profilerstep#", "train_step", "training_step", "iteration", "step ", "step_", "step#", "iter ")
# An operation of the processor shorter than this is mostly the call itself: PyTorch needs a few microseconds to find
# and start one, and its profiler the same time once more.
SHORT_SECONDS = 20e-6
# A matmul whose smallest dimension is n does at most n / 2 FLOP for each byte of an FP32 operand; processors and
# accelerators need some ten and more to be busy, so one thinner than this waits for memory.
THIN_SIDE = 16
# Longest gap between two operations that counts as work of the host (Python, the framework).
MAX_GAP = 1e-3
# Operations that only call others.
CALLER_NAMES = ("autograd::", "Optimizer.", "torch::", "DistributedDataParallel")
FORMATS = {"double": "fp64", "float": "fp32", "c10::bfloat16": "bf16", "c10::half": "fp16", "bfloat16": "bf16"}
KERNEL_FORMATS = (
    ("dgemm", "fp64"),
    ("f64", "fp64"),
    ("bf16", "bf16"),
    ("bfloat", "bf16"),
    ("hgemm", "fp16"),
    ("half", "fp16"),
    ("fp16", "fp16"),
    ("h884", "fp16"),
    ("h1688", "fp16"),
    ("h16816", "fp16"),
    ("tf32", "tf32"),
    ("s1688", "tf32"),
    ("sgemm", "fp32"),
)
COMPUTE, MEMORY, EXCHANGE, LAUNCH = (
    TERMS.index(term) for term in ("compute", "memory traffic", "communication", "launch")
)


class Event(NamedTuple):
    """One span as a profiler reports it [s]."""

    start: float
    end: float
    name: str
    kind: str
    track: Any
    args: Mapping[str, Any]


def chrome(document: Mapping[str, Any] | Sequence[Any], name: str) -> Reading:
    """Read a Chrome trace, as PyTorch's profiler, JAX or TensorFlow write it."""
    entries = document.get("traceEvents") if isinstance(document, Mapping) else document
    if not isinstance(entries, list):
        raise ValueError(f"{name}: traceEvents must be a list of events; export the trace again")
    if len(entries) > MAX_EVENTS:
        raise ValueError(f"{name} has {len(entries):,} events, at most {MAX_EVENTS:,} are read; record fewer steps")
    notes = Notes()
    events = [event for place, entry in enumerate(entries) if (event := _event(entry, place, notes))]
    rank = _rank(document)
    kind = "PyTorch profiler trace" if isinstance(document, Mapping) and "schemaVersion" in document else "Chrome trace"
    return _reading(events, name, kind, notes, rank)


def _rank(trace: Any) -> int | None:
    info = trace.get("distributedInfo") if isinstance(trace, Mapping) else None
    rank = number(info.get("rank")) if isinstance(info, Mapping) else math.nan
    return int(rank) if math.isfinite(rank) and 0 <= rank < 1e7 else None


def _event(entry: Any, place: int, notes: Notes) -> Event | None:
    """Return a complete event, or None for anything else, which is noted unless it is known not to concern time."""
    if not isinstance(entry, Mapping):
        notes.add("an event that is no object", f"event {place}")
        return None
    phase = entry.get("ph")
    if phase != "X":
        if phase not in ("M", "i", "I", "s", "t", "f", "C", "R", "n", "N", "D", "O", "c"):
            notes.add(f"events of phase {str(phase)[:10]!r}", f"event {place}")
        return None
    start, length = number(entry.get("ts")), number(entry.get("dur"))
    if not (math.isfinite(start) and math.isfinite(length)):
        notes.add("events without begin or length", f"event {place}, keys ts and dur")
        return None
    if length < 0:
        notes.add("events that end before they begin: the clock goes backwards", f"event {place}")
        return None
    args = entry.get("args")
    return Event(
        start * 1e-6,
        (start + length) * 1e-6,
        str(entry.get("name", ""))[:300],
        str(entry.get("cat", "")),
        (str(entry.get("pid")), str(entry.get("tid"))),
        args if isinstance(args, Mapping) else {},
    )


def _reading(events: list[Event], name: str, kind: str, notes: Notes, rank: int | None) -> Reading:
    if not events:
        raise ValueError(f"{name} has no spans of time in it; record while the model trains, and close the profiler")
    begin = min(event.start for event in events)
    events = [event._replace(start=event.start - begin, end=event.end - begin) for event in events]
    steps, own = _steps(events, notes)
    if not len(steps):
        notes.add("no step is marked, so the whole trace counts as one; call profiler.step() after each step")
        steps = np.array([[0.0, max(event.end for event in events)]])
    return Reading(name, kind, steps, _spans(events, own), rank=rank, notes=notes())


def _steps(events: Iterable[Event], notes: Notes) -> tuple[np.ndarray, Any]:
    """Return begin and end of the steps, and the track that marks them."""
    marked = [event for event in events if _is_step(event)]
    if not marked:
        return np.empty((0, 2)), None
    family = Counter(_family(event.name) for event in marked).most_common(1)[0][0]
    marked = [event for event in marked if _family(event.name) == family]
    tracks = Counter(event.track for event in marked)
    own = tracks.most_common(1)[0][0]
    marked = [event for event in marked if event.track == own and event.end > event.start]
    numbers = [_digits(event.name) for event in marked]
    ordered = [event for _, event in sorted(zip(numbers, marked, strict=True), key=lambda pair: pair[0])]
    steps: list[tuple[float, float]] = []
    for event in ordered if len(set(numbers)) == len(numbers) else sorted(marked):
        if steps and event.start < steps[-1][1] - 1e-6:
            notes.add("steps that begin before the one before has ended: the clock goes backwards", event.name)
            continue
        steps.append((event.start, event.end))
    return np.array(steps).reshape(-1, 2), own


def _is_step(event: Event) -> bool:
    return event.kind in ("user_annotation", "nvtx", "") and event.name.lower().startswith(STEP_NAMES)


def _family(name: str) -> str:
    return "".join(letter for letter in name.lower() if not letter.isdigit())


def _digits(name: str) -> int:
    digits = "".join(letter for letter in name if letter.isdecimal() and letter.isascii())
    return int(digits[:15]) if digits else 0


def _spans(events: list[Event], own: Any) -> Spans:
    """Return spans by their term, with counts."""
    device = [event for event in events if event.kind in ("kernel", "gpu_memcpy", "gpu_memset")]
    spans: list[tuple[float, float, int]] = []
    facts: dict[str, float] = {}
    formats: dict[str, float] = defaultdict(float)
    for event in device:
        term = _kernel(event)
        spans.append((event.start, event.end, term))
        if term == COMPUTE:
            formats[next((format_ for word, format_ in KERNEL_FORMATS if word in event.name.lower()), "")] += _length(
                event
            )
    spans += [(event.start, event.end, mark) for event in events if (mark := _marked(event, own)) is not None]
    host = [event for event in events if event.kind in ("cpu_op", "cuda_runtime", "cuda_driver", "operator")]
    if device:
        spans += [(event.start, event.end, LAUNCH) for event in host if "ynchronize" not in event.name]
        facts["operations"] = float(len(device))
        facts["short"] = float(np.mean([_length(event) < SHORT_SECONDS for event in device]))
    else:
        spans += list(_on_processor(host, facts, formats))
    timed = sum(formats.values())
    facts |= {format_: length / timed for format_, length in formats.items() if format_ and timed}
    table = np.array(sorted(spans), dtype=float).reshape(-1, 3)
    return Spans(table[:, 0], table[:, 1], table[:, 2].astype(int), bool(device), facts)


def _length(event: Event) -> float:
    return event.end - event.start


def _kernel(event: Event) -> int:
    """Return the term of an accelerator's kernel or copy."""
    name = event.name.lower()
    if name.startswith(COLLECTIVE_NAMES) or any(word in name for word in ("nccl", "rccl", "allreduce", "all_reduce")):
        return EXCHANGE
    if event.kind == "gpu_memcpy" and "htod" in name.replace(" ", "").replace("->", "to"):
        return TERMS.index("input")
    return COMPUTE if event.kind == "kernel" and any(word in name for word in MATMUL_KERNELS) else MEMORY


def _marked(event: Event, own: Any) -> int | None:
    """Return the term of a named range; input and checkpoints count on the track where steps are counted."""
    if event.kind not in ("user_annotation", "nvtx", "cpu_op", ""):
        return None
    name = event.name.lower()
    if name.startswith(COLLECTIVE_NAMES):
        return EXCHANGE
    if event.kind == "cpu_op" or (own is not None and event.track != own):
        return None
    if any(word in name for word in INPUT_NAMES):
        return TERMS.index("input")
    return TERMS.index("checkpoint") if name.startswith(CHECKPOINT_NAMES) and "activation" not in name else None


def _on_processor(
    host: list[Event], facts: dict[str, float], formats: dict[str, float]
) -> Iterator[tuple[float, float, int]]:
    """Yield operations of the processor.

    Long operations are work; short ones and those that only call others are overhead.
    """
    lengths, thin, products = [], 0.0, 0.0
    tracks: dict[Any, list[Event]] = defaultdict(list)
    for event in host:
        if not event.name.lower().startswith(COLLECTIVE_NAMES):
            tracks[event.track].append(event)
    for track in tracks.values():
        busy = -math.inf
        for event, own, leaf in _own_times(sorted(track, key=lambda event: (event.start, -event.end))):
            if 0 < event.start - busy < MAX_GAP:
                yield busy, event.start, LAUNCH
            busy = max(busy, event.end)
            product = event.name in MATMUL_NAMES
            term = (
                LAUNCH if own < SHORT_SECONDS or event.name.startswith(CALLER_NAMES) else COMPUTE if product else MEMORY
            )
            if leaf or product:
                lengths.append(own)
            if product:
                formats[_format(event.args)] += own
                narrow = _smallest(event) < THIN_SIDE
                thin, products = thin + own * narrow, products + own
                term = MEMORY if term == COMPUTE and narrow else term
            yield event.start, event.end, term
    facts["operations"] = float(len(lengths))
    facts["short"] = float(np.mean(np.array(lengths) < SHORT_SECONDS)) if lengths else 0.0
    facts["thin"] = thin / products if products else 0.0
    facts["thin seconds"] = thin


def _own_times(ordered: list[Event]) -> list[tuple[Event, float, bool]]:
    """Return each operation of a thread with its own time, and True where no operation is inside it."""
    inner, stack = [0.0] * len(ordered), list[int]()
    leaf = [True] * len(ordered)
    for place, event in enumerate(ordered):
        while stack and ordered[stack[-1]].end <= event.start:
            stack.pop()
        if stack:
            inner[stack[-1]] += min(event.end, ordered[stack[-1]].end) - event.start
            leaf[stack[-1]] = False
        stack.append(place)
    return [(event, _length(event) - within, none) for event, within, none in zip(ordered, inner, leaf, strict=True)]


def _format(args: Mapping[str, Any]) -> str:
    """Return the number format of a product: that of its last matrix."""
    types = args.get("Input type")
    formats = (
        [FORMATS[str(name).lower()] for name in types if str(name).lower() in FORMATS]
        if isinstance(types, list)
        else []
    )
    return formats[-1] if formats else ""


def _smallest(event: Event) -> float:
    """Return the smallest dimension of a product of two matrices; infinite where there is none."""
    dims = event.args.get("Input Dims")
    if event.name not in ("aten::mm", "aten::addmm") or not isinstance(dims, list):
        return math.inf
    matrices = [dim for dim in dims if isinstance(dim, list) and len(dim) == 2]
    sides = [number(side) for matrix in matrices[-2:] for side in matrix]
    # Rows and columns of the result, and the inner dimension; a bias or a mask is neither.
    return min(sides) if len(sides) == 4 and all(math.isfinite(side) and side > 0 for side in sides) else math.inf


TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernel",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "gpu_memcpy",
    "CUPTI_ACTIVITY_KIND_MEMSET": "gpu_memset",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "cuda_runtime",
    "NVTX_EVENTS": "nvtx",
}
# Meaning of a copy's copyKind (CUpti_ActivityMemcpyKind): 1 is from the host to the device.
COPIES = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD"}
MAX_SQLITE_STEPS = 400_000_000


def nsight_sqlite(path: Path, name: str) -> Reading:
    """Read an export of Nsight Systems as SQLite, opened read-only; nothing in it is executed but our own queries."""
    notes, events = Notes(), list[Event]()
    try:
        base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise ValueError(f"{name} cannot be opened as SQLite: {error}; export it again") from None
    try:
        base.text_factory = lambda raw: raw.decode("utf-8", "replace")
        base.execute("PRAGMA trusted_schema = OFF")
        budget = iter(range(MAX_SQLITE_STEPS // 100_000))
        base.set_progress_handler(lambda: next(budget, None) is None, 100_000)
        names = {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not names & set(TABLES):
            raise ValueError(
                f"{name} is a SQLite database of something else: none of its {len(names)} tables is one "
                "of Nsight Systems; give what `nsys export --type sqlite` wrote"
            )
        strings = f"SELECT id, value FROM StringIds LIMIT {MAX_EVENTS}"
        texts = dict(base.execute(strings)) if "StringIds" in names else {}
        for table, kind in TABLES.items():
            if table in names:
                events += _rows(base, table, kind, texts, notes, MAX_EVENTS + 1 - len(events))
        if len(events) > MAX_EVENTS:
            raise ValueError(f"{name} has more than {MAX_EVENTS:,} events; record fewer steps")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is broken as a database: the name of a table is no text; export it again") from None
    except sqlite3.Error as error:
        raise ValueError(f"{name} is broken as a database ({error}); it may be truncated: export it again") from None
    finally:
        base.close()
    return _reading(events, name, "Nsight Systems trace (SQLite)", notes, None)


def _rows(
    base: sqlite3.Connection, table: str, kind: str, texts: Mapping[Any, str], notes: Notes, most: int
) -> Iterator[Event]:
    """Yield rows of one table as events, `most` of them; columns that a version does not have are blank."""
    have = {row[1] for row in base.execute(f"PRAGMA table_info({table})")}
    if not {"start", "end"} <= have:
        notes.add(f"table {table} has no columns start and end")
        return
    columns = [
        column if column in have else "NULL"
        for column in ("shortName", "nameId", "textId", "text", "copyKind", "globalTid")
    ]
    query = f'SELECT start, "end", {", ".join(columns)} FROM {table} LIMIT {most}'
    for start, end, *words, copy, thread in base.execute(query):
        begin, close = number(start), number(end)
        if not (math.isfinite(begin) and math.isfinite(close)):
            notes.add(f"rows of {table} without begin or end")
        elif close < begin:
            notes.add(f"rows of {table} that end before they begin: the clock goes backwards")
        else:
            label = next((texts.get(word, word) for word in words if word is not None), COPIES.get(copy, ""))
            track = ("gpu", "") if kind in ("kernel", "gpu_memcpy", "gpu_memset") else ("host", str(thread))
            yield Event(begin * 1e-9, close * 1e-9, str(label)[:300], kind, track, {})


def nsight_csv(rows: list[list[str]], header: int, name: str) -> Reading:
    """Read ``nsys stats --format csv`` of cuda_gpu_trace (each kernel) or of cuda_gpu_kern_sum (their sums)."""
    head = [cell.lower() for cell in rows[header]]
    scale = next(
        (
            factor
            for unit, factor in (("(ns)", 1e-9), ("(us)", 1e-6), ("(ms)", 1e-3), ("(s)", 1.0))
            if any(cell.endswith(unit) for cell in head)
        ),
        1e-9,
    )
    column = {cell.split(" (")[0]: place for place, cell in enumerate(head)}
    notes = Notes()
    summed = "start" not in column
    length_at = column.get("total time" if summed else "duration")
    if length_at is None or "name" not in column:
        raise ValueError(
            f"{name}, line {header + 1}: no columns of duration and name; export cuda_gpu_trace or cuda_gpu_kern_sum"
        )
    events, at = [], 0.0
    for line, row in enumerate(rows[header + 1 :], start=header + 2):
        if not any(row):
            continue
        if len(row) != len(head):
            notes.add("lines with another number of columns than the header", f"line {line}")
            continue
        length = number(row[length_at]) * scale
        start = at if summed else number(row[column["start"]]) * scale
        if not (math.isfinite(length) and math.isfinite(start)) or length < 0:
            notes.add("lines without a duration", f"line {line}")
            continue
        at += length
        label = row[column["name"]]
        kind = "gpu_memcpy" if "memcpy" in label.lower() else "kernel"
        events.append(Event(start, start + length, label[:300], kind, ("gpu", ""), {}))
    if summed:
        notes.add("sums of kernels tell no gaps between them; export cuda_gpu_trace too")
    return _reading(events, name, "Nsight Systems table (CSV)", notes, None)
