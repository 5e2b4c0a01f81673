"""Single operations on the processor by NumPy alone, drives by the standard library, JPEG by Pillow."""

from __future__ import annotations

import io
import json
import mmap
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cookbook.topics.machine.array_layers import Convolution, Maker
from cookbook.topics.machine.environment import cores, free_memory, optional
from cookbook.topics.machine.report import row
from cookbook.topics.machine.timing import Case, Watch, run_program

FORMATS = {"fp32": np.float32, "fp64": np.float64}
# Rows of products such as a language model makes for each token: one sequence, and a batch.
FEW_ROWS = (1, 16)
# Bytes that one element of each operation of STREAM reads and writes, in elements (McCalpin, 1995).
STREAM = {"copy": 2, "scale": 2, "add": 3}
SEQUENTIAL_BLOCK, RANDOM_BLOCK = 2**20, 4096
CACHED = "one request at a time; the drive's own cache may hold the file, which was just written"
# Reads by fio: its name of the pattern, bytes of a request, and requests at once.
FIO = {"disk sequential": ("read", SEQUENTIAL_BLOCK, 8), "disk random": ("randread", RANDOM_BLOCK, 32)}
# A picture representative of ImageNet: the usual size in pixels, and a quality that gives about the usual bytes.
PICTURE, QUALITY, PICTURES = (500, 375), 85, 16


def generator() -> np.random.Generator:
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(0)


def products(quick: bool) -> Iterator[Case]:
    """Yield square matrix products of several sizes and both formats of NumPy, and those of one row and of a few."""
    for name, kind in FORMATS.items():
        for size in (256, 1024) if quick else (128, 256, 512, 1024, 2048):
            yield product(size, size, size, name, kind)
    for rows in FEW_ROWS:
        yield product(rows, 4096, 1024 if quick else 4096, "fp32", np.float32)


def product(m: int, n: int, k: int, number_format: str, kind: Any) -> Case:
    """Return the case of a matrix product of m x k by k x n: 2 m n k FLOP."""

    def prepare() -> Callable[[], Any]:
        rng = generator()
        a, b = rng.random((m, k)).astype(kind), rng.random((k, n)).astype(kind)
        out = np.empty((m, n), kind)
        return lambda: np.matmul(a, b, out=out)

    return Case("matmul", f"{m}x{n}x{k}", 2.0 * m * n * k, prepare, {"number_format": number_format})


def convolution(batch: int, channels: int, out: int, size: int, kernel: int = 3) -> Case:
    """Return a convolution as the networks in NumPy do it: windows are copied into a matrix, then one product."""

    def prepare() -> Callable[[], Any]:
        sides = size + kernel - 1
        pictures = generator().random((batch, channels, sides, sides)).astype(np.float32)
        layer = Convolution(Maker(), channels, out, kernel, bias=False)
        return lambda: layer.forward(pictures, False)

    flop = 2.0 * batch * size * size * channels * kernel * kernel * out
    note = "windows copied into a matrix, then one product a picture; frameworks have kernels without the copy"
    case = f"{kernel}x{kernel} {channels}-{out} on {size}x{size}"
    return Case("convolution", case, flop, prepare, {"number_format": "fp32", "batch": batch, "note": note})


def streams(quick: bool) -> Iterator[Case]:
    """Yield copy, scale and add over arrays beyond the caches, by one core, and the copy by all cores."""
    elements = int(min(2**22 if quick else 2**24, free_memory() / 64))
    for name, arrays in STREAM.items():
        yield _stream(name, elements, arrays, 1)
    if cores() > 1:
        yield _stream("copy", elements, STREAM["copy"], cores())


def _stream(name: str, elements: int, moved: int, workers: int) -> Case:
    def prepare() -> Callable[[], Any]:
        a, b, c = (np.full(elements, value, np.float64) for value in (1.0, 2.0, 3.0))
        if workers > 1:
            return _in_threads(
                lambda x, y: np.copyto(x, y),
                list(zip(np.array_split(a, workers), np.array_split(b, workers), strict=True)),
            )
        return {
            "copy": lambda: np.copyto(a, b),
            "scale": lambda: np.multiply(b, 3.0, out=a),
            "add": lambda: np.add(b, c, out=a),
        }[name]

    fields = {
        "number_format": "fp64",
        "method": f"{workers} {'core' if workers == 1 else 'cores'}",
        "note": "bytes read and written by the operation; what the caches load besides is not counted",
    }
    return Case("memory", f"{name} {elements * 8 // 2**20} MiB", 8.0 * moved * elements, prepare, fields)


def _in_threads(work: Callable[..., Any], pieces: list[tuple]) -> Callable[[], Any]:
    pool = ThreadPoolExecutor(len(pieces))
    return lambda: list(pool.map(lambda piece: work(*piece), pieces))


def launch() -> Case:
    """Return the case of starting one operation of NumPy: an addition of a single element."""

    def prepare() -> Callable[[], Any]:
        x = np.zeros(1, np.float32)
        return lambda: np.add(x, x, out=x)

    return Case("launch", "addition of one element", 1.0, prepare, {"number_format": "fp32"})


# ---- drives ---------------------------------------------------------------------------------------------------------
@contextmanager
def scratch(folder: str | Path | None, size: int) -> Iterator[Path]:
    """Create a file of random bytes on the drive, removed at the end."""
    handle, name = tempfile.mkstemp(prefix="cookbook-measure-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            block = generator().bytes(2**22)
            for _ in range(size // len(block)):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def opened(path: Path) -> tuple[int, str]:
    """Return a file open for reading past the page cache where possible, and the state of the cache."""
    direct = getattr(os, "O_DIRECT", 0)
    if direct:
        try:
            file = os.open(path, os.O_RDONLY | direct)
        except OSError:
            direct = 0
        else:
            return file, "O_DIRECT, page cache bypassed"
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return file, "page cache dropped before, O_DIRECT refused"
    return file, "page cache not controlled"


def drive(path: Path, size: int, files: ExitStack) -> Iterator[Case]:
    """Yield reads of a scratch file of `size` bytes: sequential in blocks of 1 MiB, and of 4 KiB in random order.

    `files` closes the file at its end.
    """
    file, state = opened(path)
    files.callback(os.close, file)
    for benchmark, block in (("disk sequential", SEQUENTIAL_BLOCK), ("disk random", RANDOM_BLOCK)):
        places = [place * block for place in range(size // block)]
        if benchmark == "disk random":
            random.Random(0).shuffle(places)
        reads = 16 if benchmark == "disk sequential" else 64
        work = float(reads * block if benchmark == "disk sequential" else reads)
        fields = {"method": state, "note": CACHED if "O_DIRECT, " in state else "one request at a time"}
        case = f"{block // 1024} KiB blocks of {size // 2**20} MiB"
        yield Case(benchmark, case, work, _reads(file, block, places, reads), fields, "files")


def _reads(file: int, block: int, places: list[int], reads: int) -> Callable[[], Any]:
    def prepare() -> Callable[[], Any]:
        at, buffer = 0, mmap.mmap(-1, block)  # pages of its own: O_DIRECT wants an aligned buffer

        def call() -> None:
            nonlocal at
            for _ in range(reads):
                place = places[at % len(places)]
                if hasattr(os, "preadv"):
                    os.preadv(file, [buffer], place)
                else:
                    os.lseek(file, place, os.SEEK_SET)
                    os.read(file, block)
                at += 1

        return call

    return prepare


def by_fio(path: Path, watch: Watch) -> list[dict[str, Any]]:
    """Return rows of reads with many requests at once, by fio, past the page cache: three runs of a second each.

    Raises
    ------
    ValueError
        If fio is not installed, or could not read past the cache.
    Stopped
        If the run was cancelled or is out of time.
    """
    program = shutil.which("fio")
    if not program:
        raise ValueError("fio is not installed, so reads with many requests at once are left out")
    return [_row_of_fio(program, path, benchmark, watch) for benchmark in FIO]


def _row_of_fio(program: str, path: Path, benchmark: str, watch: Watch) -> dict[str, Any]:
    pattern, block, depth = FIO[benchmark]
    engine = "libaio" if sys.platform == "linux" else "posixaio"
    times, calls = [], 0
    with tempfile.TemporaryDirectory(prefix="cookbook-measure-") as folder:
        for _ in range(3):
            output = Path(folder) / "fio.json"
            run_program(
                [
                    program,
                    "--name=reads",
                    f"--filename={path}",
                    "--readonly",
                    f"--rw={pattern}",
                    f"--bs={block}",
                    f"--iodepth={depth}",
                    f"--ioengine={engine}",
                    "--direct=1",
                    "--runtime=1",
                    "--time_based",
                    "--output-format=json",
                    f"--output={output}",
                ],
                watch,
            )
            rate, calls = read_fio(output.read_text(encoding="utf-8") if output.exists() else "")
            times.append(1.0 / rate)
    size, work = path.stat().st_size, float(block if benchmark == "disk sequential" else 1)
    return row(
        benchmark,
        work,
        times,
        calls,
        case=f"{block // 1024} KiB blocks of {size // 2**20} MiB",
        path="fio",
        device="cpu",
        method="O_DIRECT, page cache bypassed",
        note=f"{depth} requests at once",
    )


def read_fio(text: str) -> tuple[float, int]:
    """Return reads per second and reads in all, from fio's JSON.

    Raises
    ------
    ValueError
        If it is not fio's JSON, or nothing was read.
    """
    try:
        result = json.loads(text[text.find("{") :])["jobs"][0]["read"]
        rate, reads = float(result["iops"]), int(result["total_ios"])
    except (ValueError, KeyError, IndexError, TypeError):
        rate, reads = 0.0, 0
    if not rate > 0 or reads < 1:
        raise ValueError("fio could not read the scratch file past the page cache")
    return rate, reads


# ---- pictures -------------------------------------------------------------------------------------------------------
def pictures() -> Iterator[Case]:
    """Yield decoding of JPEG to RGB by one core, and by one worker per core.

    Raises
    ------
    ValueError
        If Pillow is not installed; the message has the line that installs it.
    """
    optional("PIL")
    for workers in sorted({1, cores()}):
        fields = {
            "method": f"{workers} {'core' if workers == 1 else 'workers'}",
            "batch": PICTURES,
            "note": f"smooth picture with noise, quality {QUALITY}",
        }
        yield Case("jpeg decode", f"{PICTURE[0]}x{PICTURE[1]}", float(PICTURES), _decoding(workers), fields, "pillow")


def _decoding(workers: int) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        image = optional("PIL.Image")
        data = encoded(image)

        def decode(count: int) -> None:
            for _ in range(count):
                image.open(io.BytesIO(data)).convert("RGB").load()

        if workers == 1:
            return lambda: decode(PICTURES)
        return _in_threads(decode, [(len(part),) for part in np.array_split(np.arange(PICTURES), workers)])

    return prepare


def encoded(image: Any) -> bytes:
    """Return the picture as JPEG: gradients of colour with noise, which compresses about like photographs."""
    width, height = PICTURE
    slopes = np.linspace(0, 200, width)[None, :, None] + np.linspace(0, 40, height)[:, None, None]
    noise = generator().normal(0, 8, (height, width, 3))
    file = io.BytesIO()
    image.fromarray(np.clip(slopes + noise, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
