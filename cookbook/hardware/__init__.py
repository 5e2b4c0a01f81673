"""What a job runs on: accelerators and the machines that they stand in, as records built from catalogue rows."""

from cookbook.hardware.accelerator import (
    COLUMNS,
    PEAK,
    PEAK_UNIT,
    PLAUSIBLE,
    QUANTITIES,
    Accelerator,
    accelerator,
    accelerator_table,
    formats,
    peak_flops,
)

__all__ = [
    "COLUMNS", "PEAK", "PEAK_UNIT", "PLAUSIBLE", "QUANTITIES", "Accelerator", "accelerator", "accelerator_table",
    "formats", "peak_flops",
]  # fmt: skip
