"""Accelerators, machines and their topology, as records built from catalogue rows."""

from cookbook.hardware.accelerator import Accelerator, Calibrated, accelerator, accelerator_table, formats, peak_flops
from cookbook.hardware.machine import Machine, machine

__all__ = [
    "Accelerator",
    "Calibrated",
    "Machine",
    "accelerator",
    "accelerator_table",
    "formats",
    "machine",
    "peak_flops",
]
