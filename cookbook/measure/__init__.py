"""Benchmarks of this machine: `cb.measure.run()` measures, `read` reads a file of results, `beside` predicts them.

Single operations (matrix products, convolutions, memory, launches, copies, drives, JPEG, all-reduce) and whole networks
(training steps, forward passes, answers of language models, all with random weights and synthetic input). NumPy alone
measures any machine within a minute; PyTorch, where it is installed, adds networks, GPUs and number formats. Results
are one JSON file, and nothing is sent anywhere.

`diagnose` reads what profilers, counters and training logs wrote, and says what holds a step back; `patient` gives the
files of runs with a planted cause, to practise on.
"""

from cookbook.measure.comparison import beside, measured_device, summary
from cookbook.measure.fitted import Calibration, calibrate
from cookbook.measure.report import Report, own_run, read
from cookbook.measure.suite import run
from cookbook.measure.traces import Diagnosis, diagnose, patient
from cookbook.progress_bar import progress_bar as bar

__all__ = [
    "Calibration",
    "Diagnosis",
    "Report",
    "bar",
    "beside",
    "calibrate",
    "diagnose",
    "measured_device",
    "own_run",
    "patient",
    "read",
    "run",
    "summary",
]
