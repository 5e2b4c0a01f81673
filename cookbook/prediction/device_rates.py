"""The rates of a device: one look-up of what a machine offers a kind of prediction in a number format."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, hardware
from cookbook.catalog import constant
from cookbook.catalog.refusals import Refusal
from cookbook.hardware import Accelerator
from cookbook.hardware.accelerator import catalogue_row
from cookbook.prediction.kernels import clock_share, kernel_families, matmul_share
from cookbook.prediction.precision import (
    NO_PEAK,
    NOT_OFFERED,
    SIZES,
    TRAINING_FORMATS,
    WIDER_FORMATS,
    trains,
    usual_precision,
)

# Generations that the table does not list: schedulers with cycles to spare.
UNLISTED_LANES = 0.5
VECTOR, HALF, TF32, BYTE = 0.0, 1.0, 2.0, 3.0
MATRIX = {"fp16": ("fp16",), "bf16": ("bf16", "fp16"), "tf32": ("tf32",), "fp32": ()}
GPUS = ("gpu", "edge")
# Keys of rows, and the attributes of `Rates` that they are.
RATE_KEYS = (
    ("accelerator", "key"),
    ("vendor", "vendor"),
    ("family", "family"),
    ("untimed", "untimed"),
    ("calibrated", "calibrated"),
)


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of one accelerator for a kind of prediction, in SI; NaN where the catalogue has no value.

    Attributes
    ----------
    key, vendor, family, kind : str
        Key, maker, generation and kind; an unknown device has no key.
    untimed : str
        The generation where none of its kernels was timed; "" of others.
    peak, wide_peak, vector_peak : float
        Peak of the number format of the products; of what stays in 16 bits; of vector units [FLOP/s].
    mem_bandwidth, memory : float
        Memory bandwidth [B/s] and size [B].
    link, ring_link, network, ring_network : float
        Nominal rate to the devices of its node and what an all-reduce reaches of it; the same between nodes [B/s].
    host_link : float
        Rate of copies from the host to the device, one direction [B/s].
    shared : float
        1 where the devices of a node share its network ports, else 0.
    per_node, domain, cores : float
        Devices of a node, and that the fast link joins; devices that one counts as, in parallelism configurations of
        training or for software of inference [-].
    matmul : float
        Best measured product in the number format as a share of the peak, of this device or the nearest measured [-].
    clock : float
        Clock that its power sustains, as a share of that of the device of its generation of which `matmul` is [-].
    offered : float
        Whether the device computes in the number format [1 or 0].
    element_bytes, unit_kind, lanes, cache : float
        Bytes of an element; the units that compute (vector, matrix in 16 bits, TF32, 8 bits and less); lanes that a
        scheduler feeds, as a share of an instruction; the last cache before memory, or memory on the chip that software
        manages [B].
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
    untimed: str = ""
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
    host_link: float = math.nan
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


NO_NAME = Rates(why=Refusal("accelerator is blank: name one of the catalogue", "accelerator-unknown", "accelerator"))
NO_RATE = Refusal("{} has no known peak in {}, or no known memory bandwidth", NOT_OFFERED, "precision")
FORMAT_TOO_NARROW = Refusal(
    "precision {!r}: networks of this kind are not predicted in 8 or 4 bits", NOT_OFFERED, "precision"
)
FORMAT_NOT_OFFERED = Refusal("precision {!r}: {} has {}", NOT_OFFERED, "precision")


@lru_cache(maxsize=8192)
def rates(machine: Any, precision: str, kind: str) -> Rates:
    """Return what a machine offers a kind of prediction in a number format, corrected by measurements of that device.

    Parameters
    ----------
    machine : Machine or str
        A machine, or "" of a row without one.
    precision : str
        A row of the table ``number_formats``; the usual one of the machine where it is "".
    kind : str
        Kind of prediction: ``training_transformer``, ``training_classic``, ``inference`` or ``generation``.

    Returns
    -------
    Rates
        With the reason in `Rates.why` where nothing can be predicted.

    Examples
    --------
    >>> offered = rates(hardware.machine("h100-sxm"), "bf16", "training_classic")
    >>> offered.peak, offered.element_bytes, offered.why
    (989000000000000.0, 2.0, '')
    """
    if machine == "":
        return NO_NAME
    return _calibrated(OFFERS[kind](machine, precision, _common(machine, kind)), kind)


def _common(machine: Any, kind: str) -> dict[str, Any]:
    """Return the attributes that are the same in all number formats."""
    device, family = machine.accelerator, machine.generation or machine.accelerator.key
    return {
        "key": device.key,
        "vendor": device.vendor,
        "family": family,
        "untimed": "" if family in kernel_families() else family,
        "kind": device.kind,
        "mem_bandwidth": device.mem_bandwidth,
        "memory": device.memory_bytes,
        "link": machine.link,
        "ring_link": machine.ring_link,
        "network": machine.network,
        "ring_network": machine.ring_network,
        "host_link": machine.host_link,
        "shared": float(machine.network_shared),
        "per_node": float(machine.per_node),
        "domain": machine.domain,
        "cores": machine.cores if trains(kind) else constant(f"cores-{device.key}", 1.0),
        "lanes": _lanes().get(machine.generation, UNLISTED_LANES),
        "cache": float(np.nan_to_num(catalogue_row(device).get("cache_bytes", 0.0))),
        "calibrated": device.calibrated,
    }


def _calibrated(offered: Rates, kind: str) -> Rates:
    """Return rates with peaks and memory bandwidth corrected by measurements, for one kind of prediction."""
    measured = offered.calibrated
    if measured is None:
        return offered
    compute, memory = measured.of("compute", kind), measured.of("memory", kind)
    return replace(
        offered,
        peak=offered.peak * compute,
        wide_peak=offered.wide_peak * compute,
        vector_peak=offered.vector_peak * compute,
        mem_bandwidth=offered.mem_bandwidth * memory,
        convolution=measured.of("convolution", kind),
    )


def _of_transformer(machine: Any, precision: str, common: dict[str, Any]) -> Rates:
    """Return what a machine offers training of transformers."""
    device = machine.accelerator
    wide = next((p for p in (_peak(device, name) for name in ("bf16", "fp16", "fp32")) if math.isfinite(p)), math.nan)
    peak = _peak(device, precision) if precision else wide
    # Processors compute heads and attention in the format of everything else: no matrix unit is spared for them.
    wide = peak if device.kind == "cpu" and math.isfinite(peak) else wide
    offered = True
    if precision in ("fp8", "fp4", "bf16"):
        rival = precision != "bf16" or math.isfinite(_peak(device, "fp16"))
        offered = math.isfinite(peak) or not rival
    return Rates(
        **common,
        peak=peak if math.isfinite(peak) else wide,
        wide_peak=wide,
        offered=float(offered),
        matmul=matmul_share(device.key, "bf16", machine.generation, device.vendor),
        clock=clock_share(device.key, machine.generation, device.tdp_watts / wide),
    )


def _of_network(machine: Any, precision: str, common: dict[str, Any]) -> Rates:
    """Return what a machine offers training layer by layer."""
    device, precision = machine.accelerator, precision or usual_precision(machine, "training_classic")
    if not precision:
        return Rates(**common, why=NO_PEAK.filled(device.name, ", ".join(TRAINING_FORMATS)))
    if precision not in MATRIX:
        return Rates(**common, why=FORMAT_TOO_NARROW.filled(precision))
    if precision == "bf16" and not math.isfinite(_peak(device, "bf16")) and math.isfinite(_peak(device, "fp16")):
        return Rates(
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
    return Rates(
        **common,
        peak=peak,
        vector_peak=plain if math.isfinite(plain) else peak,
        element_bytes=2.0 if half else 4.0,
        unit_kind=kind,
        why=NO_RATE.filled(device.name, precision) if lacks else "",
    )


def _of_pass(machine: Any, precision: str, common: dict[str, Any]) -> Rates:
    """Return what a machine offers a forward pass in its number format, or in the nearest one that it has."""
    device = machine.accelerator
    offered = hardware.formats(device)
    stated = precision or usual_precision(machine, "inference")
    used = next((name for name in (stated, *WIDER_FORMATS.get(stated, ())) if name in offered), "")
    if not used or not math.isfinite(device.mem_bandwidth):
        return Rates(**common, why=NO_RATE.filled(device.name, stated))
    peak, plain = _peak(device, used), device.peaks["peak_fp32"]
    wide = next((p for p in (_peak(device, name) for name in ("bf16", "fp16")) if math.isfinite(p)), math.nan)
    vector = float(np.nanmax([device.peaks["peak_fp16_vector"], plain, 0.0]))
    kind = {"fp32": VECTOR, "tf32": TF32, "fp16": HALF, "bf16": HALF}.get(used, BYTE)
    if kind in (HALF, TF32) and peak <= vector:
        # Matrix units count unless vector units are as fast.
        kind, peak = VECTOR, vector if kind == HALF else plain
    limited = device.kind in GPUS and math.isfinite(device.tdp_watts) and math.isfinite(device.process_nm)
    share = constant("module-power-share") if device.kind == "edge" else 1.0
    return Rates(
        **common,
        peak=peak,
        wide_peak=wide if math.isfinite(wide) else peak,
        vector_peak=plain if math.isfinite(plain) else peak,
        unit_kind=kind,
        element_bytes=SIZES[stated],
        watts=device.tdp_watts * share if limited else math.inf,
        process_nm=device.process_nm if limited else 1.0,
    )


OFFERS = {
    "training_transformer": _of_transformer,
    "training_classic": _of_network,
    "inference": _of_pass,
    "generation": _of_pass,
}


def _peak(device: Accelerator, precision: str) -> float:
    """Return the peak of a device in a number format [FLOP/s]."""
    return float(hardware.peak_flops(device, precision))


@lru_cache(maxsize=1)
def _lanes() -> dict[str, float]:
    """Return the lanes that one scheduler feeds, as a share of the width of an instruction, by generation."""
    rows = catalog.table("generations")
    return dict(zip(rows["generation"], rows["lanes"].astype(float), strict=True))
