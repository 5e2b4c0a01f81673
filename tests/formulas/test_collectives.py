"""Exchanges between devices: limits, orders and hand calculations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.formulas import collectives as c

payloads, ranks = st.floats(0, 1e12), st.integers(1, 4096)
rates, starts = st.floats(1e8, 1e12), st.floats(0, 1e-3)
ONE_LEVEL = (c.ring_all_gather_seconds, c.ring_all_reduce_seconds, c.tree_all_reduce_seconds)


@pytest.mark.parametrize("formula", ONE_LEVEL)
@given(payload=payloads, rate=rates, start=starts)
def test_one_rank_exchanges_nothing(formula, payload, rate, start):
    assert formula(payload, 1, rate, start) == 0


@given(payloads, rates, starts)
def test_one_rank_of_one_node_exchanges_nothing(payload, rate, start):
    assert c.hierarchical_all_reduce_seconds(payload, 1, 1, rate, rate, start, start) == 0
    assert c.hierarchical_all_gather_seconds(payload, 1, 1, rate, rate, start) == 0
    assert c.all_to_all_seconds(payload, 1, 1, rate, rate, start) == 0


@pytest.mark.parametrize("formula", ONE_LEVEL)
@given(payload=payloads, count=ranks, rate=rates, start=starts, more=st.floats(1, 100))
def test_more_bandwidth_never_takes_longer(formula, payload, count, rate, start, more):
    assert formula(payload, count, rate * more, start) <= formula(payload, count, rate, start)


@given(payloads, ranks, rates)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather_of_the_same_time(payload, count, rate):
    whole = c.ring_all_reduce_seconds(payload, count, rate, 1e-6)
    assert whole == 2 * c.ring_all_gather_seconds(payload, count, rate, 1e-6)


@given(payloads, st.integers(2, 64), rates, starts)
def test_one_node_is_a_ring_and_one_rank_a_node_is_a_tree(payload, count, rate, start):
    inside = c.hierarchical_all_reduce_seconds(payload, count, 1, rate, 1e8, start, 1.0)
    assert inside == pytest.approx(c.ring_all_reduce_seconds(payload, count, rate, start))
    between = c.hierarchical_all_reduce_seconds(payload, 1, count, 1e8, rate, 1.0, start)
    assert between == pytest.approx(c.tree_all_reduce_seconds(payload, count, rate, start))


@given(payloads, st.integers(1, 16), st.integers(1, 64), rates)
def test_two_levels_of_equal_rate_move_at_least_what_one_ring_moves(payload, inner, outer, rate):
    two = c.hierarchical_all_gather_seconds(payload, inner, outer, rate, rate, 1e-6)
    assert two == pytest.approx(c.ring_all_gather_seconds(payload, inner * outer, rate, 1e-6))


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
def test_exposed_time_lies_between_nothing_and_the_whole_exchange(exchange, compute, hidden):
    exposed = c.exposed_seconds(exchange, compute, hidden)
    assert 0 <= exposed <= exchange
    assert c.exposed_seconds(exchange, compute, 0) == exchange


def test_ring_all_reduce_of_one_gigabyte_by_hand():
    """1 GB on 8 ranks of 234 GB/s: 7/8 of it leaves each rank twice, 2 x 0.875 / 234 = 7.479 ms, and 14 starts."""
    assert c.ring_all_reduce_seconds(1e9, 8, 234e9, 5e-6) == pytest.approx(2 * 0.875 / 234 + 14 * 5e-6)


def test_two_levels_by_hand():
    """100 MB, 4 x 8: 2 x 7/8 x 100 MB / 200 GB/s = 0.875 ms within, 2 x 3/4 x 12.5 MB / 20 GB/s = 0.9375 between."""
    seconds = c.hierarchical_all_reduce_seconds(100e6, 8, 4, 200e9, 20e9, 0, 0)
    assert seconds == pytest.approx(0.875e-3 + 0.9375e-3)


def test_measured_all_reduce_on_eight_a100_at_16_gib_is_the_bus_bandwidth():
    """stas00, network/README.md: 234.89 GB/s bus bandwidth; the formula inverts its definition, 2 (n - 1) / n M / t."""
    payload = 16 * 2**30
    seconds = c.ring_all_reduce_seconds(payload, 8, 234.89e9, 0)
    assert 2 * 7 / 8 * payload / seconds == pytest.approx(234.89e9)


def test_scalar_is_the_first_of_an_array():
    many = c.all_to_all_seconds(np.array([1e6, 2e6]), 8, [[1], [4]], 2e11, 2e10, 0)
    assert many.shape == (2, 2)
    assert many[1, 0] == c.all_to_all_seconds(1e6, 8, 4, 2e11, 2e10, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: c.ring_all_reduce_seconds(-1, 8, 1e9, 0), "payload_bytes = -1"),
        (lambda: c.ring_all_reduce_seconds(1, 0, 1e9, 0), "ranks = 0"),
        (lambda: c.point_to_point_seconds(1, 0, 0), "bandwidth = 0"),
        (lambda: c.exposed_seconds(1, 1, 2), "hidden = 2"),
    ],
)
def test_bad_arguments_say_which_and_what(call, words):
    with pytest.raises(ValueError, match=words):
        call()
