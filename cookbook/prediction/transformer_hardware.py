"""What the machine of a transformer training row offers: peaks, memory, links within and between nodes, family."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cookbook import catalog, hardware
from cookbook.hardware.machine import generation

ENGINE = (
    "stream_bytes", "mlp_bytes", "tensor_hidden", "gradients_hidden", "weights_hidden", "flash_kernel", "one_port",
    "gradient_bytes", "gated_kept", "logit_bytes", "logits_sharded", "recomputes_last", "hops_split",
)  # fmt: skip


@dataclass(frozen=True)
class Device:
    """One accelerator as training sees it, in SI.

    Attributes
    ----------
    key, vendor, family : str
        Key, maker and generation; an unknown device has no key and NaN everywhere.
    peak, wide_peak : float
        Peak of the number format of the layers' products, and of what stays in 16 bits [FLOP/s].
    mem_bandwidth, memory : float
        Memory bandwidth [B/s] and size [B].
    link : float
        Nominal rate to the devices of its node, one direction [B/s].
    domain : float
        Devices that the fast link joins [-].
    offered : bool
        Whether the device computes in the number format; False for 8 and 4 bits, and bfloat16 beside half precision,
        where the catalogue has no peak.
    matmul : float
        Best measured product in the number format as a share of the peak, of this device or the nearest measured [-].
    """

    key: str
    vendor: str
    family: str
    peak: float
    wide_peak: float
    mem_bandwidth: float
    memory: float
    link: float
    domain: float
    matmul: float
    offered: bool = True


UNKNOWN = Device("", "", "", *(math.nan,) * 7)


@lru_cache(maxsize=4096)
def device(name: str, number_format: str) -> Device:
    """The device of a row; `UNKNOWN` where the catalogue has none of that name."""
    try:
        found = hardware.accelerator(name)
    except catalog.UnknownName:
        return UNKNOWN
    wide = _wide(found)
    peak = hardware.peak_flops(found, number_format) if number_format else wide
    return Device(
        key=found.key,
        vendor=found.vendor,
        family=found.generation,
        peak=peak if math.isfinite(peak) else wide,
        wide_peak=wide,
        mem_bandwidth=found.mem_bandwidth,
        memory=found.memory_bytes,
        link=hardware.machine(found).link,
        domain=found.scale_up_devices,
        offered=_offered(found, number_format),
        matmul=matmul_share(found.key, "fp8" if number_format in ("fp8", "fp4") else "bf16"),
    )


def _offered(found: hardware.Accelerator, number_format: str) -> bool:
    if number_format not in ("fp8", "fp4", "bf16"):
        return True
    rival = math.isfinite(hardware.peak_flops(found, "fp16")) or number_format != "bf16"
    return math.isfinite(hardware.peak_flops(found, number_format)) or not rival


def _wide(found: hardware.Accelerator) -> float:
    peaks = [hardware.peak_flops(found, name) for name in ("bf16", "fp16", "fp32")]
    return next((peak for peak in peaks if math.isfinite(peak)), math.nan)


def cores_per_device(generation: str | np.ndarray) -> np.ndarray:
    """What layouts count of one device: the two cores of a Trainium; one of everything else.

    >>> cores_per_device(np.array([family("trainium1"), family("h100-sxm")])).tolist()
    [2.0, 1.0]
    """
    return np.where(np.asarray(generation) == family("trainium1"), 2.0, 1.0)


@lru_cache(maxsize=1024)
def family(key: str) -> str:
    """Generation of an accelerator: the catalogue's where it has one, else the start of its key.

    >>> family("h100-sxm") == family("h200-sxm"), family("x9-sxm")
    (True, 'x9')
    """
    found = generation(key)
    if found:
        return found
    start = re.match(r"tpu-v\d+[a-z]?|[a-z]+-?\d*", key)
    return start.group() if start else key


@lru_cache(maxsize=8)
def _matmul(number_format: str) -> dict[str, float]:
    """Best share of the peak that was measured in a number format, by accelerator."""
    rows = catalog.table("matmul")
    rows = rows[(rows["number_format"] == number_format) & (rows["shape_kind"] != "sweep")]
    return {str(key): float(share) for key, share in rows.groupby("accelerator")["efficiency"].max().items()}


@lru_cache(maxsize=1024)
def matmul_share(key: str, number_format: str) -> float:
    """Best measured product over the peak: of the device, else the mean of its generation, its vendor, or all.

    >>> matmul_share("h100-sxm", "bf16"), matmul_share("h100-sxm", "fp8")
    (0.803, 0.709)
    """
    measured, table = _matmul(number_format), catalog.table("accelerators")
    if key in measured:
        return measured[key]
    vendors = dict(zip(table["key"], table["vendor"], strict=True))
    for same in (
        [other for other in measured if family(other) == family(key)],
        [other for other in measured if vendors.get(other) == vendors.get(key)],
        list(measured),
    ):
        if same:
            return sum(measured[other] for other in same) / len(same)
    return math.nan


@lru_cache(maxsize=1)
def _software() -> list[tuple[re.Pattern[str], str]]:
    rows = catalog.table("software_levels")
    rows = rows[rows["kind"] == "transformer"]
    return [(re.compile(words, re.I), level) for words, level in zip(rows["pattern"], rows["level"], strict=True)]


@lru_cache(maxsize=4096)
def software_level(words: str) -> str:
    """Software level of a row from its words, by the patterns of the table; the first that fits.

    >>> software_level("NeMo container 24.07"), software_level("maxtext; tpu-v5e")
    ('megatron-core', 'xla-tpu')
    """
    return next((level for pattern, level in _software() if pattern.search(words)), "")


@lru_cache(maxsize=1)
def engines() -> dict[str, dict[str, float]]:
    """What each software level does, by level and column of transformer_engines."""
    rows = catalog.table("transformer_engines")
    return {str(row["level"]): {name: float(row[name]) for name in ENGINE} for _, row in rows.iterrows()}


def network_rate(key: str) -> float:
    """Usual network rate of one device [B/s], where a row states none."""
    return hardware.machine(hardware.accelerator(key)).network


@lru_cache(maxsize=1)
def _kernels() -> list[tuple[float, str, re.Pattern[str], float]]:
    rows = catalog.table("attention_kernels")
    columns = (rows["kernel"], rows["vendor"], rows["pattern"], rows["efficiency"])
    return [(float(kernel), vendor, re.compile(p, re.I), e) for kernel, vendor, p, e in zip(*columns, strict=True)]


@lru_cache(maxsize=256)
def attention_share(kernel: float, vendor: str, generation: str) -> float:
    """Share of the peak that a fused attention kernel reaches on a device; 1 where there is no such kernel."""
    for number, maker, pattern, share in _kernels():
        if number == kernel and maker in ("", vendor) and pattern.match(generation):
            return float(share)
    return 1.0
