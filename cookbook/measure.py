"""Benchmarks of this machine: `cb.measure.run()` measures, `read` reads a file of results, `beside` predicts them.

Single operations (matrix products, convolutions, memory, launches, copies, drives, JPEG, all-reduce) and whole networks
(training steps, forward passes, answers of language models, all with random weights and synthetic input). NumPy alone
measures any machine within a minute; PyTorch, where it is installed, adds networks, GPUs and number formats. Results
are one JSON file, and nothing is sent anywhere.

`diagnose` reads what profilers, counters and training logs wrote, and says what holds a step back; `patient` gives the
files of runs with a planted cause, to practise on.
"""

from __future__ import annotations

from cookbook.namespace import lazy

_HOMES = {
    "Calibration": "topics.machine.fitted",
    "Diagnosis": "topics.clinic.diagnosis",
    "Report": "topics.machine.report",
    "beside": "topics.machine.comparison",
    "calibrate": "topics.machine.fitted",
    "diagnose": "topics.clinic.diagnosis",
    "measured_device": "topics.machine.comparison",
    "own_run": "topics.machine.report",
    "patient": "topics.clinic.files",
    "progress_bar": "progress_bar",
    "read": "topics.machine.report",
    "run": "topics.machine.suite",
    "summary": "topics.machine.comparison",
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
