"""The formulas of a training step, against arithmetic done by hand and against properties they must have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.performance import collectives
from cookbook.performance import network_training as formulas

positive = st.floats(1e-3, 1e3)


def test_one_convolution_by_hand():
    """64 to 64 channels, 3 x 3, 56 x 56 pixels, batch 32, on 10 TFLOP/s and 500 GB/s in single precision.

    MAC: 56 * 56 * 64 * 64 * 9 = 115,605,504 a sample; FLOP of the batch: 2 * 32 * 115,605,504 = 7.3988e9, 0.73988 ms.
    Elements: 2 * 56 * 56 * 64 * 32 = 12,845,056 and 36,864 weights, 4 B each: 51.5277 MB, 0.10306 ms.
    Together sqrt(0.73988^2 + 0.10306^2) = 0.74702 ms, three passes 2.24106 ms.
    """
    macs, elements = 56 * 56 * 64 * 64 * 9, 2 * 56 * 56 * 64 * 32 + 36864
    seconds = formulas.layer_seconds(2 * 32 * macs, 4 * elements, 10e12, 500e9)
    assert seconds == pytest.approx(2.24106e-3, rel=1e-5)


def test_narrow_product_by_hand():
    """64 columns beside 32, inner size 576 beside 64: 1 / (1 + 1/2 + 1/9) = 0.62069 of 0.5 of 100 TFLOP/s."""
    assert formulas.matrix_unit_rate(100e12, 0.5, 64, 576, 32, 64, 1e12, 0) == pytest.approx(31.0345e12, rel=1e-5)


def test_a_peak_sixteen_times_the_reference_halves_the_share_at_a_quarter():
    assert formulas.matrix_unit_rate(16e12, 1, 1, 1, 0, 0, 1e12, 0.25) == pytest.approx(8e12)


def test_winograd_savings_of_the_paper():
    """Lavin & Gray 2016: F(2x2, 3x3) saves 2.25, F(4x4, 3x3) saves 4."""
    assert formulas.winograd_saving(2, 3) == 2.25
    assert formulas.winograd_saving(4, 3) == 4


def test_gradients_of_eight_devices_by_hand():
    """100 MB over 8 ranks at 10 GB/s: 2 * 7/8 * 100 MB / 10 GB/s = 17.5 ms; a pass of 30 ms hides 0.7 * 20 = 14 ms."""
    exchange = collectives.ring_all_reduce_seconds(100e6, 8, 10e9, 0)
    assert exchange == pytest.approx(17.5e-3)
    assert formulas.exchange_exposed_seconds(exchange, 30e-3, 0.7, 0.1) == pytest.approx(3.5e-3)
    assert formulas.exchange_exposed_seconds(exchange, 300e-3, 0.7, 0.1) == pytest.approx(1.75e-3)


def test_waiting_by_hand():
    """5 % in the node, and 1 % for each of two doublings: 7 % of 200 ms."""
    assert formulas.waiting_seconds(0.2, 8, 4, 0.05, 0.01) == pytest.approx(14e-3)


def test_one_device_waits_for_nobody_and_exchanges_nothing():
    assert formulas.waiting_seconds(1.0, 1, 1, 0.3, 0.3) == 0
    alone = collectives.hierarchical_all_reduce_seconds(1e9, 1, 1, 1e9, 1e9, 1e-5, 1e-5)
    assert formulas.exchange_exposed_seconds(alone, 0.0, 0.5, 0.1) == 0


@given(positive, positive, positive, positive, st.floats(1, 10))
def test_a_layer_lies_between_its_bounds_and_falls_with_either_rate(flop, moved, rate, bandwidth, faster):
    seconds = formulas.layer_seconds(flop, moved, rate, bandwidth, 1)
    compute, memory = flop / rate, moved / bandwidth
    assert max(compute, memory) * (1 - 1e-12) <= seconds <= (compute + memory) * (1 + 1e-12)
    assert formulas.layer_seconds(flop, moved, rate * faster, bandwidth, 1) <= seconds * (1 + 1e-12)
    assert formulas.layer_seconds(flop, moved, rate, bandwidth * faster, 1) <= seconds * (1 + 1e-12)
    assert formulas.layer_seconds(2 * flop, moved, 2 * rate, bandwidth, 1) == pytest.approx(seconds)


@given(positive, positive, st.floats(0, 1), st.floats(0, 1))
def test_what_stays_visible_is_part_of_the_exchange(exchange, compute, hidden, least):
    visible = formulas.exchange_exposed_seconds(exchange, compute, hidden, least)
    assert least * exchange * (1 - 1e-12) <= visible <= exchange * (1 + 1e-12)


def test_formulas_broadcast_and_refuse_what_cannot_be():
    grid = formulas.layer_seconds(np.ones((3, 1)), np.ones(4), 1.0, 1.0)
    assert grid.shape == (3, 4)
    with pytest.raises(ValueError, match="rate"):
        formulas.layer_seconds(1, 1, 0, 1)
    with pytest.raises(ValueError, match="kept"):
        formulas.stream_seconds(1, 1, 1.5)
