"""Rates of devices: one look-up for every kind of prediction, and the number format that it takes."""

import math
from dataclasses import replace

import pytest

from cookbook import hardware
from cookbook.hardware import Calibrated, accelerator, machine
from cookbook.prediction.device_rates import OFFERS, rates
from cookbook.prediction.precision import not_offered, stored_bytes, training_formats, usual_precision
from cookbook.prediction.software import TABLE_KINDS, engines, levels

KINDS = tuple(OFFERS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_is_looked_up_once(kind):
    h100 = machine("h100-sxm")
    offered = rates(h100, "bf16", kind)
    assert offered is rates(machine("H100 SXM5"), "bf16", kind)
    assert (offered.key, offered.peak, offered.memory) == ("h100-sxm", 989e12, h100.accelerator.memory_bytes)
    assert rates("", "bf16", kind).why.code == "accelerator-unknown"


@pytest.mark.parametrize("kind", KINDS)
def test_measurements_of_a_device_correct_its_rates(kind):
    plain = rates(machine("h100-sxm"), "bf16", kind)
    measured = Calibrated((("compute", 0.5), ("memory", 0.8), (f"compute/{kind}", 1.5)))
    mine = replace(accelerator("h100-sxm"), calibrated=measured)
    found = rates(machine(mine), "bf16", kind)
    assert found.peak == pytest.approx(0.75 * plain.peak)
    assert found.mem_bandwidth == pytest.approx(0.8 * plain.mem_bandwidth)


def test_formats_that_a_device_lacks_are_refused_or_widened():
    v100 = machine("v100")
    assert training_formats(v100) == ("fp16", "fp32")
    assert [usual_precision(v100, kind) for kind in KINDS] == ["fp16"] * 4
    assert rates(v100, "fp8", "inference").peak == hardware.peak_flops("v100", "fp16")
    assert rates(v100, "fp8", "training_classic").why.code == "precision-not-offered"
    assert not_offered(v100.accelerator, "fp8", "inference").code == "precision-not-offered"
    assert not_offered(accelerator("alveo-u280"), "", "training_classic").code == "device-trains-nothing"
    assert not_offered(v100.accelerator, "fp16", "inference") == ""


def test_stored_numbers_have_the_bytes_of_their_table_or_their_name():
    assert [stored_bytes(name) for name in ("fp16", "int4", "q4_k_m")] == [2.0, 0.5, 0.61]
    assert math.isnan(stored_bytes("words"))


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_each_level_of_software_says_what_it_does(kind):
    does = engines(kind)
    assert set(does) >= set(levels(kind))
    assert not any(math.isnan(number) for row in does.values() for number in row.values())
