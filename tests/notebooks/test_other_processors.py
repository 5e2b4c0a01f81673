"""Recipes print the same bytes on other processors: other kernels of linear algebra, vector units, threads and seeds.

A sample of recipes and of tests of formulas here; the weekly workflow runs the whole suite in four such settings.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from strict import without_pictures

from cookbook.publish.notebook import normalise, run_with

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
# Recipes whose figures rest on linear algebra, fits, draws or ties.
SAMPLE = ("05-can-you-trust-it", "11-benchmark-this-machine", "13-share-a-cluster", "15-beyond-digital")
FORMULAS = (
    "formulas/test_collectives.py",
    "prediction/test_generation.py",
    "calibration/test_intervals.py",
    "formulas/test_topology.py",
)
# OpenBLAS takes the kernels of the processor named, NumPy leaves the vector units named unused.
SETTINGS = {
    "oldest": {
        "OPENBLAS_CORETYPE": "Prescott",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "1",
        "TZ": "UTC-14",
        "LC_ALL": "C",
    },
    "another": {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "2", "TZ": "UTC+3:30"},
}
PROCESSOR = FOLDER.parent / "tests" / "processor.py"


def reported() -> dict[str, list]:
    """Kernels, threads and vector units of a new interpreter, which fails where settings have no effect."""
    done = subprocess.run([sys.executable, str(PROCESSOR)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=list(SETTINGS))
def processor(request):
    """Settings of another processor, for every process that a test starts; it is checked that they have effect.

    The other one is this processor's own where the environment names one, else its neighbour.
    """
    usual, settings = reported(), dict(SETTINGS[request.param])
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("OPENBLAS_CORETYPE", raising=False)
        if request.param == "oldest":
            settings["NPY_DISABLE_CPU_FEATURES"] = " ".join(usual["units"])
        elif (own := reported()["kernels"]) == usual["kernels"]:
            settings["OPENBLAS_CORETYPE"] = "Haswell" if own != ["haswell"] else "Nehalem"
        for name, value in settings.items():
            environment.setenv(name, value)
        other = reported()
        assert other["kernels"] != usual["kernels"], f"{settings} did not change the kernels of linear algebra"
        assert request.param != "oldest" or not other["units"], f"{settings} left {other['units']} in use"
        yield request.param


@pytest.mark.parametrize("setting", ["OPENBLAS_CORETYPE=pentium9", "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=2"])
def test_settings_without_effect_are_refused(setting):
    """OpenBLAS passes over a name that it does not know; tests as on that processor would be those of this one."""
    environment = os.environ | dict(each.split("=") for each in setting.split())
    done = subprocess.run([sys.executable, str(PROCESSOR)], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and setting.split()[0] in done.stderr


@pytest.mark.all
@pytest.mark.parametrize("name", SAMPLE)
def test_recipes_print_the_same_on_another_processor(name, processor, tmp_path):
    path, again = FOLDER / f"{name}.ipynb", tmp_path / f"{name}.ipynb"
    nbformat.write(run_with(path), again)
    assert without_pictures(normalise(again)) == without_pictures(path), f"{name} differs on the processor: {processor}"


@pytest.mark.all
def test_formulas_hold_on_another_processor(processor):
    files = [str(FOLDER.parent / "tests" / name) for name in FORMULAS]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COOKBOOK_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env=plain,
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
