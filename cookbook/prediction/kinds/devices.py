"""Figures of a device for each kind of prediction: peaks of a number format, units, links, kernels, power."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, hardware
from cookbook.catalog.refusals import Refusal, refused
from cookbook.prediction.constants import TABLE_KINDS, figure, level_of, makers_of, name_of
from cookbook.prediction.kernels import kernel_families
from cookbook.prediction.scenario import Scenario, together

ENGINE = (
    "stream_bytes",
    "mlp_bytes",
    "tensor_hidden",
    "gradients_hidden",
    "weights_hidden",
    "flash_kernel",
    "one_port",
    "gradient_bytes",
    "gated_kept",
    "logit_bytes",
    "logits_sharded",
    "recomputes_last",
    "hops_split",
    "start_share",
    "extra_kernels",
)
# Generations that the table does not list: schedulers with cycles to spare.
UNLISTED_LANES = 0.5
VECTOR, HALF, TF32, BYTE = 0.0, 1.0, 2.0, 3.0
# Formats to take where a device lacks the stated one, the nearest first: arithmetic is then done in the wider one.
WIDER_FORMATS = {
    "fp4": ("fp8", "bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32"),
    "int8": ("fp16", "bf16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "fp16": ("bf16", "fp32"),
    "tf32": ("fp32",),
    "fp32": ("bf16", "fp16"),
}
# Formats of a forward pass from the one that a reader most likely means; of the two of 16 bits the faster.
USUAL = ("fp16", "bf16", "tf32", "fp32", "int8", "fp8", "fp4")
MATRIX = {"fp16": ("fp16",), "bf16": ("bf16", "fp16"), "tf32": ("tf32",), "fp32": ()}
SIZES = {"fp4": 0.5, "fp8": 1.0, "int8": 1.0, "fp16": 2.0, "bf16": 2.0, "tf32": 4.0, "fp32": 4.0}
GPUS = ("gpu", "edge")
# Keys of rows, and the attributes of a device that they are.
KEYS_OF_DEVICES = (
    ("accelerator", "key"),
    ("vendor", "vendor"),
    ("family", "family"),
    ("untimed", "untimed"),
    ("calibrated", "calibrated"),
)


@dataclass(frozen=True, eq=False)
class Device:
    """One accelerator as a kind of prediction sees it, in SI; NaN where the catalogue has no figure.

    Attributes
    ----------
    key, vendor, family, kind : str
        Key, maker, generation and kind; an unknown device has no key.
    peak, wide_peak, vector_peak : float
        Peak of the number format of the products; of what stays in 16 bits; of vector units [FLOP/s].
    mem_bandwidth, memory : float
        Memory bandwidth [B/s] and size [B].
    link, ring_link, network, ring_network : float
        Nominal rate to the devices of its node and what an all-reduce reaches of it; the same between nodes [B/s].
    shared : float
        1 where the devices of a node share its network ports, else 0.
    per_node, domain, cores : float
        Devices of a node, and that the fast link joins; what parallelism configurations count of one device [-].
    matmul : float
        Best measured product in the number format as a share of the peak, of this device or the nearest measured [-].
    clock : float
        Clock that its power sustains, as a share of that of the device of its generation of which `matmul` is [-].
    offered : float
        Whether the device computes in the number format [1 or 0].
    element_bytes, unit_kind, lanes, cache : float
        Bytes of an element; the units that compute (vector, matrix in 16 bits, TF32, 8 bits and less); lanes that a
        scheduler feeds, as a share of an instruction; the last
        cache before memory, or memory on the chip that software manages [B].
    watts, process_nm : float
        Power that limits the clock [W] (infinite for none), and the process [nm].
    why : str
        Why it cannot be predicted in this number format; "" where it can.
    convolution : float
        What convolutions reach over what is expected of them beside matrix products, where it was measured [-].
    calibrated : hardware.Calibrated, optional
        What was measured on this very device; peaks and memory bandwidth are corrected by it.
    """

    key: str = ""
    vendor: str = ""
    family: str = ""
    kind: str = ""
    peak: float = math.nan
    wide_peak: float = math.nan
    vector_peak: float = math.nan
    mem_bandwidth: float = math.nan
    memory: float = math.nan
    link: float = math.nan
    ring_link: float = math.nan
    network: float = math.nan
    ring_network: float = math.nan
    shared: float = 0.0
    per_node: float = 8.0
    domain: float = math.nan
    cores: float = 1.0
    matmul: float = math.nan
    clock: float = 1.0
    offered: float = 1.0
    element_bytes: float = math.nan
    unit_kind: float = math.nan
    lanes: float = UNLISTED_LANES
    cache: float = 0.0
    watts: float = math.inf
    process_nm: float = 1.0
    why: str = ""
    convolution: float = 1.0
    calibrated: Any = None

    @property
    def untimed(self) -> str:
        """Return the generation of a device of which no kernel was timed; "" of others."""
        return "" if self.family in kernel_families() else self.family


BLANK_MODEL = Refusal("model is blank: name a network of the zoo", "network-unknown", "model")
NOT_OFFERED = "precision-not-offered"
UNKNOWN = Device(
    why=Refusal(
        'the accelerator is not in the catalogue: take a key of cb.table("accelerators")',
        "accelerator-unknown",
        "accelerator",
    )
)
NO_NAME = Device(why=Refusal("accelerator is blank: name one of the catalogue", "accelerator-unknown", "accelerator"))
NO_PEAK = Refusal("no peak of {} is known in {}", NOT_OFFERED, "accelerator")
NO_RATE = Refusal("{} has no known peak in {}, or no known memory bandwidth", NOT_OFFERED, "precision")
FORMAT_TOO_NARROW = Refusal(
    "precision {!r}: networks of this kind are not predicted in 8 or 4 bits", NOT_OFFERED, "precision"
)
FORMAT_NOT_OFFERED = Refusal("precision {!r}: {} has {}", NOT_OFFERED, "precision")


# Number formats of training from the one that a reader most likely means.
TRAINING = ("bf16", "fp16", "tf32", "fp32")
HALVES = ("fp16", "bf16")
NOTHING_LACKS = np.array("", dtype=object)


@lru_cache(maxsize=4096)
def usual_precision(machine: Any) -> str:
    """Return the number format in which a device usually trains: its first of `TRAINING`; "" where it has none."""
    offered = hardware.formats(machine.accelerator) if machine != "" else []
    return next((name for name in TRAINING if name in offered), "")


def _common(machine: Any) -> dict[str, Any]:
    """Return the attributes of a device that all kinds of prediction need."""
    device = machine.accelerator
    return {
        "key": device.key,
        "vendor": device.vendor,
        "family": machine.generation or device.key,
        "kind": device.kind,
        "mem_bandwidth": device.mem_bandwidth,
        "memory": device.memory_bytes,
        "link": machine.link,
        "ring_link": machine.ring_link,
        "network": machine.network,
        "ring_network": machine.ring_network,
        "shared": float(machine.network_shared),
        "per_node": float(machine.per_node),
        "domain": machine.domain,
        "cores": machine.cores,
        "lanes": lanes().get(machine.generation, UNLISTED_LANES),
        "cache": cache_of(device.like),
        "calibrated": device.calibrated,
    }


def calibrated(device: Device, kind: str) -> Device:
    """Return the device with peaks and memory bandwidth corrected by its measurements, for one kind of prediction."""
    measured = device.calibrated
    if measured is None:
        return device
    compute, memory = measured.of("compute", kind), measured.of("memory", kind)
    return replace(
        device,
        peak=device.peak * compute,
        wide_peak=device.wide_peak * compute,
        vector_peak=device.vector_peak * compute,
        mem_bandwidth=device.mem_bandwidth * memory,
        convolution=measured.of("convolution", kind),
    )


@lru_cache(maxsize=1)
def _caches() -> dict[str, float]:
    rows = catalog.table("accelerators")
    return dict(zip(rows["key"], rows["cache_bytes"].fillna(0.0).astype(float), strict=True))


def cache_of(key: str) -> float:
    """Return the bytes of the last cache of a device of the catalogue; 0 where none is known."""
    return _caches().get(key, 0.0)


@lru_cache(maxsize=1)
def _memory_types() -> dict[str, str]:
    rows = catalog.table("accelerators")
    return dict(zip(rows["key"], rows["memory_type"].fillna("").astype(str), strict=True))


def memory_type(key: str) -> str:
    """Return the kind of memory of a device of the catalogue, such as HBM3e; "" where none is known."""
    return _memory_types().get(key, "")


@lru_cache(maxsize=8192)
def of_transformer(machine: Any, precision: str) -> Device:
    """Return the device of a row of transformer training; `UNKNOWN` where there is none."""
    if machine == "":
        return UNKNOWN
    device = machine.accelerator
    wide = next((p for p in (_peak(device, name) for name in ("bf16", "fp16", "fp32")) if math.isfinite(p)), math.nan)
    peak = _peak(device, precision) if precision else wide
    # Processors compute heads and attention in the format of everything else: no matrix unit is spared for them.
    wide = peak if device.kind == "cpu" and math.isfinite(peak) else wide
    offered = True
    if precision in ("fp8", "fp4", "bf16"):
        rival = precision != "bf16" or math.isfinite(_peak(device, "fp16"))
        offered = math.isfinite(peak) or not rival
    return Device(
        **_common(machine),
        peak=peak if math.isfinite(peak) else wide,
        wide_peak=wide,
        offered=float(offered),
        matmul=matmul_share(device.key, "bf16", machine.generation, device.vendor),
        clock=clock_share(device.key, machine.generation, device.tdp_watts / wide),
    )


@lru_cache(maxsize=8192)
def of_network(machine: Any, precision: str) -> Device:
    """Return the device of a row of training layer by layer; `Device.why` where it cannot be predicted."""
    if machine == "":
        return NO_NAME
    device, common, precision = machine.accelerator, _common(machine), precision or usual_precision(machine)
    if not precision:
        return Device(**common, why=NO_PEAK.filled(device.name, ", ".join(TRAINING)))
    if precision not in MATRIX:
        return Device(**common, why=FORMAT_TOO_NARROW.filled(precision))
    if precision == "bf16" and not math.isfinite(_peak(device, "bf16")) and math.isfinite(_peak(device, "fp16")):
        return Device(
            **common, why=FORMAT_NOT_OFFERED.filled(precision, device.name, ", ".join(hardware.formats(device)))
        )
    half, plain = precision not in ("fp32", "tf32"), device.peaks["peak_fp32"]
    matrix = [_peak(device, name) for name in MATRIX[precision]]
    # Vector units keep sums in single precision, and so does a device whose matrix units would not be faster.
    matrix = [value for value in matrix if not value <= device.peaks["peak_fp16_vector"]]
    # Devices without single precision on vector units run it on matrix units.
    matrix += [_peak(device, name) for name in ("bf16", "fp16")] if not math.isfinite(plain) else []
    peak = next((value for value in matrix if math.isfinite(value)), math.nan)
    kind = VECTOR if not math.isfinite(peak) else HALF if half else TF32
    peak = peak if math.isfinite(peak) else plain
    lacks = not math.isfinite(peak * device.mem_bandwidth)
    return Device(
        **common,
        peak=peak,
        vector_peak=plain if math.isfinite(plain) else peak,
        element_bytes=2.0 if half else 4.0,
        unit_kind=kind,
        why=NO_RATE.filled(device.name, precision) if lacks else "",
    )


@lru_cache(maxsize=8192)
def usual_format(machine: Any) -> str:
    """Return the number format of a forward pass where none is stated; "" where no peak is known."""
    offered = hardware.formats(machine.accelerator) if machine != "" else []
    both = [name for name in HALVES if name in offered]
    if both:
        return max(both, key=lambda name: hardware.peak_flops(machine.accelerator, name))
    return next((name for name in USUAL if name in offered), "")


def lacking(s: Scenario) -> np.ndarray:
    """Return why devices offer nothing in the stated number format or software, by row; "" where they do.

    One "" for all rows where all do. Of measured rows this is not asked: they ran, whatever their cells say.
    """
    stated = together(s.words("accelerator"), s.words("precision"), s.words("software"))
    reasons = stated.map(lambda row: _lacks(s.kind, *row))
    return np.atleast_1d(reasons.each(lambda reason: reason, object)) if any(reasons.levels) else NOTHING_LACKS


@lru_cache(maxsize=8192)
def _lacks(kind: str, machine: Any, precision: str, software: str) -> str:
    """Return why a device cannot run a number format or software; "" where it can."""
    if machine == "" or kind not in TABLE_KINDS:
        return ""
    device, offered = machine.accelerator, hardware.formats(machine.accelerator)
    if kind.startswith("training") and (device.kind in _only_run()[0] or device.key in _only_run()[1]):
        words = f"{device.name} trains nothing: devices of its kind run trained networks alone; choose inference"
        return Refusal(words, "device-trains-nothing", "accelerator")
    able = [name for name in offered if name in TRAINING or not kind.startswith("training")]
    if not able:
        return NO_PEAK.filled(device.name, ", ".join(TRAINING) if offered else "any number format")
    # Numbers of 16 bits are widened where there is nothing but single precision, as fast as that.
    if precision and precision not in offered and (precision not in HALVES or not {*HALVES}.isdisjoint(offered)):
        what = f": {device.name} has {', '.join(offered)}; take one of these"
        return refused("precision", precision, what, NOT_OFFERED, offered).refusal
    makers = makers_of(kind, software, device.vendor, device.kind)
    if makers:
        usual = name_of(kind, level_of(kind, "", device.vendor, device.kind))
        what = (
            f"runs on devices of {' and '.join(makers)} alone, which {device.name} is not; take {usual}, or another "
            "product of the table 'software'"
        )
        return refused("software", name_of(kind, software), what, "software-not-for-device", [usual]).refusal
    return ""


@lru_cache(maxsize=1)
def _only_run() -> tuple[frozenset[str], frozenset[str]]:
    """Return kinds of devices, and keys of others, that run trained networks alone."""
    rows = catalog.table("programmability")
    return (
        frozenset(rows.loc[rows["trains"] == "no", "kind"]),
        frozenset(key for cell in rows["inference_only"] for key in cell.split(";") if key),
    )


def of_inference(machine: Any, precision: str) -> Device:
    """Return the device of a row of inference in its number format, or in the nearest format that it has."""
    if machine == "":
        return NO_NAME
    device, common = machine.accelerator, _common(machine)
    offered = hardware.formats(device)
    stated = precision or usual_format(machine)
    used = next((name for name in (stated, *WIDER_FORMATS.get(stated, ())) if name in offered), "")
    if not used or not math.isfinite(device.mem_bandwidth):
        return Device(**common, why=NO_RATE.filled(device.name, stated))
    peak, plain = _peak(device, used), device.peaks["peak_fp32"]
    wide = next((p for p in (_peak(device, name) for name in ("bf16", "fp16")) if math.isfinite(p)), math.nan)
    vector = float(np.nanmax([device.peaks["peak_fp16_vector"], plain, 0.0]))
    kind = {"fp32": VECTOR, "tf32": TF32, "fp16": HALF, "bf16": HALF}.get(used, BYTE)
    if kind in (HALF, TF32) and peak <= vector:
        # Matrix units count unless vector units are as fast.
        kind, peak = VECTOR, vector if kind == HALF else plain
    limited = device.kind in GPUS and math.isfinite(device.tdp_watts) and math.isfinite(device.process_nm)
    share = figure("module-power-share") if device.kind == "edge" else 1.0
    return Device(
        **common,
        peak=peak,
        wide_peak=wide if math.isfinite(wide) else peak,
        vector_peak=plain if math.isfinite(plain) else peak,
        unit_kind=kind,
        element_bytes=SIZES[stated],
        watts=device.tdp_watts * share if limited else math.inf,
        process_nm=device.process_nm if limited else 1.0,
    )


def _peak(device: Any, precision: str) -> float:
    """Return the peak of a device in a number format [FLOP/s]."""
    return hardware.peak_flops(device, precision)


@lru_cache(maxsize=1)
def lanes() -> dict[str, float]:
    """Return the lanes that one scheduler feeds, as a share of the width of an instruction, by generation."""
    rows = catalog.table("generations")
    return dict(zip(rows["generation"], rows["lanes"].astype(float), strict=True))


@lru_cache(maxsize=4096)
def cores_of(key: str) -> float:
    """Return the cores of a chip that software of inference sees as devices of their own."""
    names = catalog.table("constants")["name"].tolist()
    return figure(f"cores-{key}") if f"cores-{key}" in names else 1.0


@lru_cache(maxsize=8)
def _matmul(precision: str) -> dict[str, float]:
    """Return the best share of the peak that was measured in a number format, by accelerator."""
    rows = catalog.table("matmul")
    rows = rows[(rows["number_format"] == precision) & (rows["shape_kind"] != "sweep")]
    return {str(key): float(share) for key, share in rows.groupby("accelerator")["efficiency"].max().items()}


@lru_cache(maxsize=1024)
def matmul_share(key: str, precision: str, generation: str, vendor: str) -> float:
    """Return the best measured product over the peak: of the device, else the mean of its generation, vendor, or all.

    >>> matmul_share("h100-sxm", "bf16", "", ""), matmul_share("h100-sxm", "fp8", "", "")
    (0.803, 0.709)
    """
    measured, table = _matmul(precision), catalog.table("accelerators")
    if key in measured:
        return measured[key]
    vendors, families = (dict(zip(table["key"], table[name], strict=True)) for name in ("vendor", "generation"))
    for same in (
        [other for other in measured if generation and families.get(other) == generation],
        [other for other in measured if vendors.get(other) == vendor],
        list(measured),
    ):
        if same:
            return sum(measured[other] for other in same) / len(same)
    return math.nan


@lru_cache(maxsize=1024)
def clock_share(key: str, generation: str, watts_per_flops: float) -> float:
    """Return the clock that a device's power sustains, relative to measured devices of its generation; at most 1.

    Power grows with the cube of the clock, as voltage follows it: Horowitz et al., Low-power digital design, IEEE
    Symposium on Low Power Electronics, 1994.

    Parameters
    ----------
    key, generation : str
        The device.
    watts_per_flops : float
        Its power over its peak in 16 bits [W s].
    """
    measured, table = _matmul("bf16"), catalog.table("accelerators")
    rows = table[table["key"].isin(measured) & (table["generation"] == generation)]
    watts = (rows["tdp_watts"] / rows["peak_bf16"]).dropna()
    if not generation or key in measured or not math.isfinite(watts_per_flops) or watts.empty:
        return 1.0
    return min(1.0, float(watts_per_flops / watts.min()) ** (1 / 3))


@lru_cache(maxsize=1)
def engines() -> dict[str, dict[str, float]]:
    """Return what each software level of transformer training does, by level and column of transformer_engines."""
    rows = catalog.table("transformer_engines")
    return {str(row["level"]): {name: float(row[name]) for name in ENGINE} for _, row in rows.iterrows()}


@lru_cache(maxsize=1)
def _kernels() -> list[tuple[float, str, tuple[str, ...], float]]:
    rows = catalog.table("attention_kernels")
    columns = (rows["kernel"], rows["vendor"], rows["generations"], rows["efficiency"])
    return [
        (float(k), vendor, tuple(filter(None, g.split(";"))), float(e))
        for k, vendor, g, e in zip(*columns, strict=True)
    ]


@lru_cache(maxsize=256)
def attention_share(kernel: float, vendor: str, generation: str) -> float:
    """Return the share of the peak that a fused attention kernel reaches on a device; 1 where there is no such
    kernel."""
    for number, maker, generations, share in _kernels():
        if number == kernel and maker in ("", vendor) and (not generations or generation in generations):
            return share
    return 1.0


@lru_cache(maxsize=256)
def stored_bytes(name: str) -> float:
    """Return the bytes of one stored number by the name of its format; NaN where none is known.

    >>> stored_bytes("fp8"), stored_bytes("int4")
    (1.0, 0.5)
    """
    if name in SIZES:
        return SIZES[name]
    rows = catalog.table("constants").set_index("name")["value"]
    key = f"bytes-{name}"
    if key in rows:
        return float(rows[key])
    digits = "".join(letter if letter.isdigit() else " " for letter in name).split()
    bits = next((float(digit) for digit in digits if digit in ("4", "8", "16", "32")), float("nan"))
    return bits / 8
