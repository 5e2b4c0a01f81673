"""Memory: published values, then properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.formulas import memory

sizes = st.floats(0, 1e13)
shares = st.floats(0, 1)


def test_zero_2020_section_3_1_adam_mixed_precision_takes_16_bytes_a_parameter():
    """1.5 billion parameters of GPT-2: weights 3 GB, model states at least 24 GB."""
    parts = memory.training_bytes(1.5e9, 0, 0, 2, 2, 4, 2, 4)
    assert parts["weights"] == 3e9
    assert sum(parts.values()) / 1.5e9 == 16
    assert sum(parts.values()) == 24e9


def test_zero_2020_section_3_1_optimiser_multiplier_is_12():
    """K = 12: the single-precision copy, momentum and variance."""
    parts = memory.training_bytes(1.0, 0, 0, 2, 2, 4, 2, 4)
    assert parts["master"] + parts["optimiser"] == 12


def test_korthikanti_2023_full_recomputation_keeps_2sbhl():
    """Section 5: the inputs of the layers, 2 s b h L bytes; here GPT-3's 96 layers of 12,288, s = 2,048, b = 1."""
    s, b, h, layers, heads = 2048, 1, 12288, 96, 96
    per_layer = s * b * h * (34 + 5 * heads * s / h)
    kept = memory.activation_bytes(layers * per_layer, 2 * s * b * h * layers, per_layer, recompute=1)
    assert kept - per_layer == pytest.approx(2 * s * b * h * layers)


def test_chen_2016_square_root_of_layers_is_the_best_segment():
    """n equal layers in k segments keep k + n / k, least at k = sqrt(n)."""
    n = 144
    segments = np.array([k for k in range(1, n + 1) if n % k == 0])
    kept = memory.activation_bytes(n, segments, n / segments, recompute=1)
    assert segments[np.argmin(kept)] == 12
    assert kept.min() == 24


@pytest.mark.parametrize(("reads", "writes", "published"), [(3, 2, 20), (4, 3, 28)])
def test_update_traffic_in_single_precision(reads, writes, published):
    """Momentum moves 20 B a parameter, Adam 28."""
    assert memory.update_bytes(1, reads, writes, 4, 4) == published


@given(st.floats(0, 1e12), sizes, sizes)
def test_parts_add_up(parameters, activations, workspace):
    parts = memory.training_bytes(parameters, activations, workspace, 2, 2, 4, 2, 4)
    assert sum(parts.values()) == pytest.approx(16 * parameters + activations + workspace)


@given(sizes, sizes, sizes, shares, shares)
def test_more_recomputation_never_keeps_more(saved, inputs, block, a, b):
    few, many = sorted((a, b))
    kept = memory.activation_bytes(saved, inputs, block, [few, many])
    assert kept[1] <= kept[0] * (1 + 1e-12)
    assert kept[0] <= saved * (1 + 1e-12)


@given(st.floats(1e6, 1e13), st.floats(0, 1e13), st.floats(1, 1e11))
def test_largest_batch_fits_and_one_more_does_not(capacity, fixed, sample):
    batch = memory.largest_batch(capacity, fixed, sample)
    assert batch == np.floor(batch) >= 0
    assert fixed + (batch + 1) * sample > capacity
    assert batch == 0 or fixed + batch * sample <= capacity


@given(st.floats(1e9, 1e12), st.floats(0, 1e9), st.floats(1e3, 1e9), st.floats(1, 100))
def test_more_memory_never_means_a_smaller_batch(capacity, fixed, sample, more):
    assert memory.largest_batch(capacity * more, fixed, sample) >= memory.largest_batch(capacity, fixed, sample)


def test_larger_models_fit_only_smaller_batches():
    batches = memory.largest_batch(80e9, 16.0 * np.array([1e8, 1e9, 4e9, 6e9]), 1e8)
    assert (np.diff(batches) < 0).all()
    assert batches[-1] == 0


def test_scalar_is_the_first_of_an_array():
    many = memory.activation_bytes(np.array([1e9, 2e9]), 1e7, 1e8, np.array([[0.0], [1.0]]))
    assert many.shape == (2, 2)
    assert many[0, 0] == memory.activation_bytes(1e9, 1e7, 1e8, 0)


def test_inference_keeps_no_gradients():
    assert list(memory.inference_bytes(7e9, 2, 1e9, 1e8)) == ["weights", "cache", "workspace"]


def test_missing_figures_stay_missing():
    assert np.isnan(memory.largest_batch([np.nan, 1e9], 1e6, 1e6)).tolist() == [True, False]
    assert np.isnan(memory.activation_bytes(np.nan, 1, 1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: memory.weight_bytes(-1, 2), ["parameters = -1", "[0, inf)"]),
        (lambda: memory.activation_bytes(1, 1, 1, 40), ["recompute = 40", "[0, 1]", "not a percentage"]),
        (lambda: memory.largest_batch(1e9, 0, 0), ["bytes_per_sample = 0", "(0, inf)"]),
        (lambda: memory.workspace_bytes(-1, 0), ["buffer_bytes = -1"]),
    ],
)
def test_bad_arguments_say_which_what_and_allowed(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in words), error.value
