"""Roofline: published examples, then properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.formulas import arithmetic as roofline

amounts = st.floats(1e3, 1e18)
rates = st.floats(1e6, 1e16)
scales = st.floats(1e-3, 1e3)


def test_nvidia_deep_learning_guide_ridge_of_v100():
    """ "GPU performance background" guide: 125 TFLOP/s over 900 GB/s is 139 FLOP/B; over 3.1 TB/s of L2 it is 40."""
    assert round(float(roofline.ridge_point(125e12, 900e9))) == 139
    assert round(float(roofline.ridge_point(125e12, 3.1e12))) == 40


@pytest.mark.parametrize(("batch", "published"), [(512, 315), (1, 1)])
def test_nvidia_deep_learning_guide_linear_layer(batch, published):
    """The same guide, table of arithmetic intensity: linear layer 1,024 -> 4,096 in 16 bits."""
    flop = 2 * batch * 1024 * 4096
    moved = 2 * (batch * 1024 + 1024 * 4096 + batch * 4096)
    assert round(float(roofline.arithmetic_intensity(flop, moved))) == published


def test_williams_2009_figure_1_opteron_x2():
    """17.6 GFLOP/s and 15 GB/s: memory bound at 0.25 FLOP/B, at the roof from 17.6/15 on."""
    intensity = np.array([0.25, 0.5, 2, 16])
    expected = [3.75e9, 7.5e9, 17.6e9, 17.6e9]
    np.testing.assert_allclose(roofline.attainable_flops(intensity, 17.6e9, 15e9), expected)


def test_jouppi_2017_tpu_ridge_in_mac_is_half_of_that_in_flop():
    """TPU v1 paper, section 4: 92 TOP/s over 34 GB/s has its ridge at 1,350 multiply-accumulates a byte."""
    assert float(roofline.ridge_point(92e12, 34e9)) / 2 == pytest.approx(1350, rel=0.01)


@given(amounts, amounts, rates, rates, st.floats(0, 1))
def test_bounds_hold(flop, moved, peak, bandwidth, launch):
    parts = [flop / peak, moved / bandwidth, launch]
    low, high = roofline.perfect_overlap_seconds(parts), roofline.no_overlap_seconds(parts)
    time = roofline.op_seconds(flop, moved, peak, bandwidth, launch)
    assert low * (1 - 1e-12) <= time <= high * (1 + 1e-12)


@given(amounts, amounts, st.floats(1, 20), st.floats(0, 20))
def test_smooth_maximum_falls_with_its_exponent(a, b, power, more):
    soft, hard = roofline.smooth_max(a, b, power), roofline.smooth_max(a, b, power + more)
    assert max(a, b) * (1 - 1e-9) <= hard <= soft * (1 + 1e-9)
    assert soft <= (a + b) * (1 + 1e-9)


@given(amounts, amounts, rates, rates, st.floats(1, 100))
def test_more_bandwidth_or_peak_is_never_slower(flop, moved, peak, bandwidth, more):
    time = roofline.op_seconds(flop, moved, peak, bandwidth) * (1 + 1e-12)
    assert roofline.op_seconds(flop, moved, peak * more, bandwidth) <= time
    assert roofline.op_seconds(flop, moved, peak, bandwidth * more) <= time


@given(amounts, amounts, rates, rates, scales)
def test_twice_the_work_on_twice_the_machine_takes_as_long(flop, moved, peak, bandwidth, k):
    once = roofline.op_seconds(flop, moved, peak, bandwidth)
    assert roofline.op_seconds(k * flop, k * moved, k * peak, k * bandwidth) == pytest.approx(once)


@given(amounts, amounts, rates, rates)
def test_scalar_is_the_first_of_an_array(flop, moved, peak, bandwidth):
    many = roofline.op_seconds(np.array([flop, 2 * flop]), moved, np.array([[peak], [2 * peak]]), bandwidth)
    assert many.shape == (2, 2)
    # Vector units may round the last bit another way.
    assert many[0, 0] == pytest.approx(roofline.op_seconds(flop, moved, peak, bandwidth), rel=1e-14)


@given(amounts, amounts, rates, rates)
def test_bound_by_names_the_side_of_the_ridge(flop, moved, peak, bandwidth):
    compute = roofline.arithmetic_intensity(flop, moved) >= roofline.ridge_point(peak, bandwidth)
    if not np.isclose(flop / peak, moved / bandwidth):
        assert str(roofline.bound_by(flop, moved, peak, bandwidth)) == ("compute" if compute else "memory")


def test_bound_by_launch_and_unknown():
    found = roofline.bound_by(1e6, 1e3, [1e12, np.nan], 1e12, launch_seconds=1e-3)
    assert found.tolist() == ["launch", "unknown"]


def test_missing_figures_stay_missing():
    assert np.isnan(roofline.op_seconds(1e9, 1e6, [np.nan, 1e12], 1e12)).tolist() == [True, False]
    assert np.isnan(roofline.perfect_overlap_seconds([1.0, np.nan]))


def test_equal_times_overlap_by_the_exponent():
    assert roofline.op_seconds(3e12, 6e12, 1e12, 2e12, 0.5) == pytest.approx(3 * 2**0.5 + 0.5)
    assert roofline.op_seconds(3e12, 6e12, 1e12, 2e12, smoothness=np.inf) == 3


def test_no_work_takes_no_time():
    assert roofline.op_seconds(0, 0, 1e12, 1e12) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: roofline.op_seconds(-1, 1, 1e12, 1e12), ["flop = -1", "[0, inf)", "SI units"]),
        (lambda: roofline.op_seconds(1, 1, 0, 1e12), ["peak_flops = 0", "(0, inf)"]),
        (lambda: roofline.op_seconds(1, 1, [1e12, -5], 1e12), ["peak_flops = -5"]),
        (lambda: roofline.smooth_max(1, 1, 0.5), ["smoothness = 0.5", "[1, inf)"]),
        (lambda: roofline.ridge_point(1e12, 0), ["mem_bandwidth = 0"]),
    ],
)
def test_bad_arguments_say_which_what_and_allowed(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in words), error.value
