"""Benchmarks of this machine: `cb.measure.run()` measures, `read` reads a file of results, `beside` predicts them.

Single operations (matrix products, convolutions, memory, launches, copies, drives, JPEG, all-reduce) and whole networks
(training steps, forward passes, answers of language models, all with random weights and synthetic input). NumPy alone
measures any machine within a minute; PyTorch, where it is installed, adds networks, GPUs and number formats. Results
are one JSON file, and nothing is sent anywhere.
"""

from cookbook.measure.comparison import beside, measured_device, summary
from cookbook.measure.fitted import Calibration, calibrate
from cookbook.measure.report import Report, own_run, read
from cookbook.measure.suite import bar, run

__all__ = ["Calibration", "Report", "bar", "beside", "calibrate", "measured_device", "own_run", "read", "run",
           "summary"]  # fmt: skip
