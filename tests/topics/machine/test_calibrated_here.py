"""The whole way on whatever processor this is: networks measured in NumPy, constants, and each network left out."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import cookbook as cb
from cookbook.topics.machine.report import of_document

MODELS = {"eng_acoustic_model", "alexnet_owt", "resnet18", "electra_small"}
# The tokens of GPT-2 are left out, and said to be, where less than 1 GB is free.
LARGE = "gpt2"
pytestmark = pytest.mark.all  # a real measurement; what is stored of one is calibrated in test_fitted.py
# A median error that no calibration has, but a machine busy beyond measure might: left out it is 3 to 10 per cent here.
MOST, TRIES = 0.4, 3
MEASURE = """
import sys
import cookbook as cb
print(__import__("json").dumps(cb.measure.run("numpy", quick=True, seconds=600, folder=sys.argv[1]).document()))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Calibrations of up to three runs, in a process of one thread whose own clock is read, until one is quiet."""
    folder = tmp_path_factory.mktemp("drive")
    one = os.environ | {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    found = []
    for _ in range(TRIES):
        said = subprocess.run([sys.executable, "-c", MEASURE, str(folder)], env=one, capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        found.append(cb.measure.calibrate(of_document(json.loads(said.stdout), "the run")))
        if found[-1].errors()["left_out"] <= MOST:
            break
    return found


def test_networks_of_every_kind_are_measured_and_predicted(runs):
    rows = runs[-1].predictions()
    assert set(rows["model"]) - {LARGE} == MODELS and not runs[-1].left
    assert set(rows.loc[rows["model"] != LARGE, "benchmark"]) == {"training step", "forward pass"}
    assert set(rows.loc[rows["model"] == LARGE, "benchmark"]) <= {"decode"} and set(rows["path"]) == {"numpy"}
    assert np.isfinite(rows[["measured_s", "before_s", "after_s", "left_out_s"]]).all(axis=None)
    assert (rows["measured_s"] > 0).all()


def test_a_training_step_takes_longer_than_a_forward_pass(runs):
    """Three times the products, and the update of the weights."""
    times = (
        runs[-1]
        .predictions()
        .pivot_table(index="model", columns="benchmark", values="measured_s")
        .dropna(subset=["training step", "forward pass"])
    )
    assert len(times) == 4 and (times["training step"] > times["forward pass"]).all()


def test_networks_that_were_left_out_are_predicted(runs):
    best = min(runs, key=lambda each: each.errors()["left_out"]).errors()
    assert best["left_out"] <= MOST and best["after"] <= best["left_out"], best


def test_every_door_takes_this_machine(runs):
    device = runs[-1].accelerator
    step = cb.train_step("resnet50", device, micro_batch=1, precision="fp32", software="native")
    assert step.tier == "measured here" and step.low80 < step.point < step.high80
    answer = cb.generate("gpt2", device, input_len=32, output_len=4, precision="fp32")
    assert (answer.tier == "measured here") is (LARGE in set(runs[-1].predictions()["model"]))
