"""The formulas of a training step, against arithmetic done by hand and against properties they must have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.formulas import collectives
from cookbook.formulas import networks as formulas

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


def test_a_peak_sixteen_times_the_reference_halves_the_share_at_a_quarter():
    assert formulas.matrix_unit_rate(16e12, 1, 1e12, 0.25) == pytest.approx(8e12)


def test_schedulers_by_hand():
    """48 lanes for a width of 32 with a third of other instructions: 1 / (1.5 * 4/3) = 0.5; 16 lanes lose nothing.

    64 lanes at 1.5 GHz for four schedulers: 192 GFLOP/s, and 4 * 32 * 1.5e9 = 192e9 instructions times lanes.
    """
    assert formulas.issued_share([1.5, 0.5], 1 / 3).tolist() == pytest.approx([0.5, 1])
    assert formulas.issue_rate(2 * 64 * 1.5e9, 0.5) == pytest.approx(4 * 32 * 1.5e9)


def test_a_stream_by_hand():
    """1e9 half-precision elements at 500 GB/s take 4 ms; 30 instructions each at 10e12 take 3 ms: 5 ms together."""
    assert formulas.stream_seconds(1e9, 2, 500e9, 30, 10e12) == pytest.approx(5e-3)
    assert formulas.stream_seconds(1e9, 2, 500e9, 30, 10e12, 0.5) == pytest.approx(2.5e-3)
    assert formulas.stream_seconds(1e9, 2, 500e9) == pytest.approx(4e-3)


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


def test_one_device_waits_for_nobody_and_exchanges_nothing():
    """Of 200 ms, 5 % in a node of eight are 10 ms."""
    assert formulas.waiting_seconds(0.2, [8, 1], 0.05).tolist() == pytest.approx([10e-3, 0])
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
        formulas.stream_seconds(1, 1, 1, kept=1.5)
