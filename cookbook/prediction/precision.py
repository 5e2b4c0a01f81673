"""Number formats of predictions: which a device offers, the usual one, a substitute for one it lacks, and its bytes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from cookbook import catalog, hardware
from cookbook.catalog import constant
from cookbook.catalog.refusals import Refusal, refused
from cookbook.hardware import Accelerator

# Number formats of training from the one that a reader most likely means.
TRAINING_FORMATS = ("bf16", "fp16", "tf32", "fp32")
# Formats of a forward pass from the one that a reader most likely means; of the two of 16 bits the faster.
PASS_FORMATS = ("fp16", "bf16", "tf32", "fp32", "int8", "fp8", "fp4")
HALVES = ("fp16", "bf16")
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
SIZES = {"fp4": 0.5, "fp8": 1.0, "int8": 1.0, "fp16": 2.0, "bf16": 2.0, "tf32": 4.0, "fp32": 4.0}
NOT_OFFERED = "precision-not-offered"
NO_PEAK = Refusal("no peak of {} is known in {}", NOT_OFFERED, "accelerator")


def trains(kind: str) -> bool:
    """Return whether a kind of prediction is of training."""
    return kind.startswith("training")


@lru_cache(maxsize=4096)
def training_formats(machine: Any) -> tuple[str, ...]:
    """Return the number formats in which a machine trains, the usual one first.

    Parameters
    ----------
    machine : Machine or str
        A machine, or "" of a row without one, which has no formats.

    Examples
    --------
    >>> training_formats(hardware.machine("v100")), training_formats("")
    (('fp16', 'fp32'), ())
    """
    offered = hardware.formats(machine.accelerator) if machine != "" else []
    return tuple(name for name in TRAINING_FORMATS if name in offered)


@lru_cache(maxsize=8192)
def usual_precision(machine: Any, kind: str) -> str:
    """Return the number format that a machine usually computes in where none is stated; "" where no peak is known.

    Parameters
    ----------
    machine : Machine or str
        As for `training_formats`.
    kind : str
        Kind of prediction: training of any kind takes the first of `TRAINING_FORMATS`, a forward pass the faster of
        both 16-bit formats, else the first of `PASS_FORMATS`.

    Examples
    --------
    >>> [usual_precision(hardware.machine("h100-sxm"), kind) for kind in ("training_classic", "inference")]
    ['bf16', 'fp16']
    """
    if trains(kind):
        return next(iter(training_formats(machine)), "")
    offered = hardware.formats(machine.accelerator) if machine != "" else []
    both = [name for name in HALVES if name in offered]
    if both:
        return max(both, key=lambda name: hardware.peak_flops(machine.accelerator, name))
    return next((name for name in PASS_FORMATS if name in offered), "")


def not_offered(device: Accelerator, precision: str, kind: str) -> str:
    """Return why a device computes nothing of a kind of prediction in a number format; "" where it does.

    Parameters
    ----------
    device : Accelerator
        The device.
    precision : str
        A row of the table ``number_formats``; "" where none is stated.
    kind : str
        Kind of prediction.
    """
    offered = hardware.formats(device)
    if trains(kind) and (device.kind in _only_run()[0] or device.key in _only_run()[1]):
        words = f"{device.name} trains nothing: devices of its kind run trained networks alone; choose inference"
        return Refusal(words, "device-trains-nothing", "accelerator")
    if not [name for name in offered if name in TRAINING_FORMATS or not trains(kind)]:
        return NO_PEAK.filled(device.name, ", ".join(TRAINING_FORMATS) if offered else "any number format")
    # Numbers of 16 bits are widened where there is nothing but single precision, as fast as that.
    if precision and precision not in offered and (precision not in HALVES or not {*HALVES}.isdisjoint(offered)):
        what = f": {device.name} has {', '.join(offered)}; take one of these"
        return refused("precision", precision, what, NOT_OFFERED, offered).refusal
    return ""


@lru_cache(maxsize=1)
def _only_run() -> tuple[frozenset[str], frozenset[str]]:
    """Return kinds of devices, and keys of others, that run trained networks alone."""
    rows = catalog.table("programmability")
    return (
        frozenset(rows.loc[rows["trains"] == "no", "kind"]),
        frozenset(key for cell in rows["inference_only"] for key in cell.split(";") if key),
    )


@lru_cache(maxsize=256)
def stored_bytes(name: str) -> float:
    """Return the bytes of one stored number by the name of its format; NaN where none is known.

    >>> stored_bytes("fp8"), stored_bytes("int4")
    (1.0, 0.5)
    """
    if name in SIZES:
        return SIZES[name]
    digits = "".join(letter if letter.isdigit() else " " for letter in name).split()
    bits = next((float(digit) for digit in digits if digit in ("4", "8", "16", "32")), math.nan)
    return constant(f"bytes-{name}", bits / 8)
