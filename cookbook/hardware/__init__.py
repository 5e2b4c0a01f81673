"""Accelerators, machines and their topology, as records built from catalogue rows."""

from collections.abc import Iterable

from cookbook.hardware.accelerator import Accelerator, Calibrated, accelerator, accelerator_table, formats, peak_flops
from cookbook.hardware.machine import Machine, machine

# What computes: a name of the catalogue or the reader's own record; one or several of them.
System = str | Accelerator | Machine
Systems = System | Iterable[System]

__all__ = [
    "Accelerator",
    "Calibrated",
    "Machine",
    "System",
    "Systems",
    "accelerator",
    "accelerator_table",
    "formats",
    "machine",
    "peak_flops",
]
