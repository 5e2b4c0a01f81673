"""Speeds that a reader feels; `make bench` prints them. In `make test` each runs once, untimed."""

import subprocess
import sys

import cookbook as cb


def test_import(benchmark):
    """A fresh process that imports the package and does nothing else."""
    benchmark.pedantic(subprocess.run, ([sys.executable, "-c", "import cookbook"],), {"check": True}, rounds=5)


def test_empty_process(benchmark):
    """What `test_import` costs without the package: Python itself."""
    benchmark.pedantic(subprocess.run, ([sys.executable, "-c", ""],), {"check": True}, rounds=5)


def test_panel_of_all_measured_runs(benchmark):
    """One tick of recipe 05 that moves every point: another prediction of three thousand runs."""
    panel, names = cb.panels.accuracy(), ["constant utilisation", "scaled neighbour"]
    benchmark(lambda: (names.reverse(), panel.update(model=names[0])))
    assert panel.shown["error"] == ""


def test_requirements_of_all_accelerators(benchmark):
    """The call behind each tick of recipe 01."""
    assert len(benchmark(cb.requirements, "resnet152").devices) > 1
