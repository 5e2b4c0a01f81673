"""Widest paths and fair shares against exhaustive search, hand calculations and the definition."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cookbook.formulas.topology import max_min_rates, message_latency, widest_bandwidths, widest_paths

rates = st.sampled_from([0, 0, 4e9, 8e9, 16e9, 25e9])


@st.composite
def graphs(draw):
    nodes = draw(st.integers(2, 6))
    links = np.array(draw(st.lists(rates, min_size=nodes**2, max_size=nodes**2))).reshape(nodes, nodes)
    np.fill_diagonal(links, 0)
    return links, np.array(draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)))


def every_path(links, forwards, source, target):
    """All paths without a node twice, with their widths: the exhaustive reference."""
    inner = [node for node in np.flatnonzero(forwards) if node not in (source, target)]
    for length in range(len(inner) + 1):
        for between in itertools.permutations(inner, length):
            path = (source, *between, target)
            width = min(links[a, b] for a, b in itertools.pairwise(path))
            if width > 0:
                yield width, -length, path


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_paths_are_the_widest_and_of_those_the_shortest(graph):
    links, forwards = graph
    width, paths = widest_bandwidths(links, forwards), widest_paths(links, forwards)
    for source, target in itertools.permutations(range(len(links)), 2):
        best = max((found[:2] for found in every_path(links, forwards, source, target)), default=None)
        path = [node for node in paths[source, target] if node >= 0]
        if best is None:
            assert width[source, target] == 0 and path == []
        else:
            assert width[source, target] == best[0]
            assert path[0] == source and path[-1] == target and len(path) == 2 - best[1]
            assert min(links[a, b] for a, b in itertools.pairwise(path)) == best[0]
            assert forwards[path[1:-1]].all()


def test_an_end_does_not_pass_traffic_on():
    """Node 1 has fast links to both others; only if it may forward does their path lead through it."""
    links = np.array([[0, 25.0, 4], [25, 0, 25], [4, 25, 0]])
    assert widest_bandwidths(links, [False, False, False])[0, 2] == 4
    assert widest_bandwidths(links, [False, True, False])[0, 2] == 25


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=1, max_size=3),
    st.lists(st.sampled_from([12, 24, 36]), min_size=3, max_size=3),
    st.lists(st.sampled_from([4, 12, 20, 36]), min_size=3, max_size=3),
)
def test_rates_are_the_best_of_all_on_a_grid(uses, capacities, demands):
    """The fair rates, sorted, are the lexicographic maximum of all feasible rates.

    Capacities are multiples of 12 and demands of 4, so with three flows every fair rate is a multiple of 2: the grid
    holds the optimum.
    """
    uses, wanted = np.array(uses), np.array(demands[: len(uses)], dtype=float)
    grid = np.array(list(itertools.product(np.arange(0, 37, 2), repeat=len(uses))), dtype=float)
    feasible = grid[(grid <= wanted).all(axis=1) & (grid @ uses <= capacities).all(axis=1)]
    best = max(map(tuple, np.sort(feasible, axis=1)))
    assert np.sort(max_min_rates(uses, capacities, wanted)) == pytest.approx(best)


@st.composite
def loads(draw):
    flows, links = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    uses = np.array(draw(st.lists(st.integers(0, 2), min_size=flows * links, max_size=flows * links)))
    capacities = draw(st.lists(st.floats(1e9, 1e12), min_size=links, max_size=links))
    demands = draw(st.lists(st.floats(1e8, 1e12), min_size=flows, max_size=flows))
    return uses.reshape(flows, links), np.array(capacities), np.array(demands)


@settings(deadline=None)
@given(loads())
def test_every_flow_has_what_it_asks_for_or_a_full_link_where_none_is_faster(load):
    """The defining property of max-min fairness (Bertsekas & Gallager), which no other rates have."""
    uses, capacities, demands = load
    found = max_min_rates(uses, capacities, demands)
    used = found @ uses
    assert (used <= capacities * (1 + 1e-6)).all() and (found <= demands * (1 + 1e-6)).all()
    full = used >= capacities * (1 - 1e-6)
    for flow, rate in enumerate(found):
        bottleneck = any(
            full[link] and uses[flow, link] and rate >= found[uses[:, link] > 0].max() * (1 - 1e-6)
            for link in range(len(capacities))
        )
        assert bottleneck or rate >= demands[flow] * (1 - 1e-6)


def test_shares_by_hand():
    """Three flows on a link of 12: one is held to 2 by another link, the others take (12 - 2) / 2 = 5 each."""
    assert max_min_rates([[1, 1], [1, 0], [1, 0]], [12.0, 2.0], np.inf).tolist() == [2, 5, 5]
    assert max_min_rates([[1], [1], [1]], [12.0], [1.0, np.inf, np.inf]).tolist() == [1, 5.5, 5.5]
    assert max_min_rates([[2], [1]], [12.0], np.inf).tolist() == [4, 4]
    assert np.isinf(max_min_rates([[0, 0]], [12.0, 2.0], np.inf)).all()


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"uses has shape \(1, 2\)"):
        max_min_rates([[1, 1]], [1.0], np.inf)
    with pytest.raises(ValueError, match="capacities = 0"):
        max_min_rates([[1]], [0.0], np.inf)
    with pytest.raises(ValueError, match=r"bandwidth has shape \(1, 2\)"):
        widest_bandwidths([[1, 1]], [True, True])


def test_latency_adds_what_each_node_on_the_way_adds():
    assert message_latency(5e-6, []) == 5e-6
    assert message_latency([1e-6, 2e-6], [[1e-7, 2e-7], [0, 0]]) == pytest.approx([1.3e-6, 2e-6])
