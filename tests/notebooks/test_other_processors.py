"""Recipes print the same bytes on other processors: other kernels of linear algebra, vector units, threads and seeds.

A sample of recipes here; the weekly workflow runs the whole suite in each of these settings.
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
# OpenBLAS takes the kernels of the processor named, NumPy leaves the vector units named unused.
SETTINGS = {
    "oldest": {"OPENBLAS_CORETYPE": "Prescott", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "1"},
    "another": {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "2"},
}
TOLD = """
import json, numpy, threadpoolctl
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
blas = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
print(json.dumps({"kernels": [pool["architecture"].lower() for pool in blas],
                  "units": [unit for unit in __cpu_dispatch__ if __cpu_features__.get(unit)]}))
"""


def reported(settings: dict[str, str]) -> dict[str, list[str]]:
    """Kernels and vector units that a new interpreter uses under these settings."""
    done = subprocess.run([sys.executable, "-c", TOLD], env=os.environ | settings, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(params=list(SETTINGS))
def processor(request, monkeypatch):
    """Settings of another processor, for every kernel that a notebook starts; it is checked that they have effect."""
    usual, settings = reported({}), dict(SETTINGS[request.param])
    if request.param == "oldest":
        settings["NPY_DISABLE_CPU_FEATURES"] = " ".join(usual["units"])
    else:
        settings["OPENBLAS_CORETYPE"] = "Haswell" if usual["kernels"] != ["haswell"] else "Nehalem"
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    other = reported({})
    assert other["kernels"] != usual["kernels"], f"{settings} did not change the kernels of linear algebra"
    assert request.param != "oldest" or not other["units"], f"{settings} left the vector units {other['units']} in use"
    return request.param


@pytest.mark.all
@pytest.mark.parametrize("name", SAMPLE)
def test_recipes_print_the_same_on_another_processor(name, processor, tmp_path):
    path, again = FOLDER / f"{name}.ipynb", tmp_path / f"{name}.ipynb"
    nbformat.write(run_with(path), again)
    assert without_pictures(normalise(again)) == without_pictures(path), f"{name} differs on the processor: {processor}"
