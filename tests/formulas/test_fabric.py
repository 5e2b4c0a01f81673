"""Exchanges on nested networks and tori: limits, cuts, and flows that share the links of small graphs fairly."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cookbook.formulas import collectives
from cookbook.formulas.topology import max_min_rates

LINK, PORT = 400e9, 50e9
sizes = st.sampled_from([1, 2, 4, 8, 32, 64, 256, 1024])
payloads = st.floats(1e3, 1e10)
EXCHANGES = (
    collectives.nested_all_gather_seconds,
    collectives.nested_all_reduce_seconds,
    collectives.nested_all_to_all_seconds,
)


def fair_seconds(flows, capacities, payload, devices):
    """Time of an all-to-all whose parts are flows, each a list of the links that it crosses with its share."""
    links = sorted({link for flow in flows for link in flow})
    uses = np.array([[flow.get(link, 0.0) for link in links] for flow in flows])
    rates = max_min_rates(uses, [capacities(link) for link in links], np.inf)
    return payload / devices / rates.min()


# Nested groups: fat trees and NVLink domains.


@pytest.mark.parametrize("exchange", EXCHANGES)
@settings(max_examples=40, deadline=None)
@given(payload=payloads, devices=sizes)
def test_without_oversubscription_the_spine_is_not_there(exchange, payload, devices):
    """Non-blocking: a level above that offers the same rate changes nothing, at any size of its groups."""
    plain = exchange(payload, devices, [1, 8], [LINK, PORT], 0)
    for pod in (16, 64, 256):
        assert exchange(payload, devices, [1, 8, pod], [LINK, PORT, PORT], 0) == pytest.approx(float(plain))


@pytest.mark.parametrize("exchange", EXCHANGES)
@settings(max_examples=40, deadline=None)
@given(payload=payloads, devices=sizes)
def test_a_domain_as_large_as_the_job_is_one_node(exchange, payload, devices):
    one = exchange(payload, devices, [1], [LINK], 5e-6)
    assert exchange(payload, devices, [1, max(devices, 72)], [LINK, PORT], [5e-6, 15e-6]) == pytest.approx(float(one))


@settings(max_examples=40, deadline=None)
@given(payload=payloads, devices=sizes, taper=st.floats(1, 16))
def test_oversubscription_slows_an_all_to_all_and_never_hastens(payload, devices, taper):
    levels = [1, 8, 32], [LINK, PORT, PORT / taper]
    full = collectives.nested_all_to_all_seconds(payload, devices, [1, 8, 32], [LINK, PORT, PORT], 0)
    less = collectives.nested_all_to_all_seconds(payload, devices, *levels, 0)
    if devices > 64:  # at 64 each pod keeps half, and its nodes send 7/8 to others
        assert less / full >= taper * (1 - 32 / devices) / (1 - 8 / devices) * (1 - 1e-9)
    assert less >= full
    # A ring enters a pod once, on one port of each rail: four nodes of a pod may share it.
    if taper <= 4:
        rings = [
            collectives.nested_all_reduce_seconds(payload, devices, [1, 8, 32], [LINK, PORT, PORT / o], 0)
            for o in (1, taper)
        ]
        assert rings[1] == pytest.approx(float(rings[0]))


@settings(max_examples=40, deadline=None)
@given(payload=payloads, devices=sizes)
def test_one_level_is_the_ring_and_the_pairwise_exchange(payload, devices):
    ring = collectives.ring_all_reduce_seconds(payload, devices, LINK, 0)
    assert collectives.nested_all_reduce_seconds(payload, devices, [1], [LINK], 0) == pytest.approx(float(ring))
    pairs = collectives.all_to_all_seconds(payload, devices, 1, LINK, PORT, 0)
    assert collectives.nested_all_to_all_seconds(payload, devices, [1], [LINK], 0) == pytest.approx(float(pairs))


@settings(max_examples=40, deadline=None)
@given(payload=payloads, nodes=st.integers(1, 64))
def test_two_levels_equal_the_all_to_all_of_nodes(payload, nodes):
    known = collectives.all_to_all_seconds(payload, 8, nodes, 8 * PORT, PORT, 0)
    found = collectives.nested_all_to_all_seconds(payload, 8 * nodes, [1, 8], [8 * PORT, PORT], 0)
    # The pairwise exchange counts the data within the node on its links, the levels all data that leave a device.
    assert known <= found * (1 + 1e-9) and (
        nodes == 1 or found == pytest.approx(max(float(known), payload * (8 * nodes - 1) / (8 * nodes) / (8 * PORT)))
    )


@pytest.mark.parametrize("oversubscription", [1, 2, 3, 8])
@pytest.mark.parametrize(("node", "pod", "devices"), [(2, 4, 8), (2, 4, 16), (2, 6, 12), (4, 8, 16), (3, 6, 18)])
def test_all_to_all_on_a_small_fat_tree_is_that_of_fair_flows(node, pod, devices, oversubscription):
    rate = {"link": 8.0, "port": 1.0 * node, "spine": 1.0 * pod / oversubscription}

    def flow(a, b):
        crossed = {("link", a, "up"): 1.0, ("link", b, "down"): 1.0}
        for level, size in (("port", node), ("spine", pod)):
            if a // size != b // size:
                crossed |= {(level, a // size, "up"): 1.0, (level, b // size, "down"): 1.0}
        return crossed

    flows = [flow(a, b) for a, b in itertools.permutations(range(devices), 2)]
    fair = fair_seconds(flows, lambda link: rate[link[0]], 1.0, devices)
    found = collectives.nested_all_to_all_seconds(1.0, devices, [1, node, pod], [8, 1, 1 / oversubscription], 0)
    assert found == pytest.approx(fair)


@pytest.mark.parametrize(("groups", "used"), [(4, 4), (5, 5), (7, 7), (7, 4), (9, 3), (3, 3)])
@pytest.mark.parametrize("ring", [True, False])
def test_dragonfly_rates_are_those_of_fair_flows_over_all_detours(groups, used, ring):
    """Each group sends to the next (or all others), by the direct link and by one detour through every third group."""
    pairs = [(a, (a + 1) % used) for a in range(used)] if ring else list(itertools.permutations(range(used), 2))
    partners = 1 if ring else used - 1
    ways = []
    for a, b in pairs:
        ways.append((a, [(a, b)]))
        if ring or used < groups:
            third = [c for c in range(groups) if c not in (a, b) and (ring or c >= used)]
            ways += [(a, [(a, c), (c, b)]) for c in third]
    links = sorted({link for _, way in ways for link in way})
    uses = np.array([[float(link in way) for link in links] for _, way in ways])
    rates = max_min_rates(uses, np.ones(len(links)), np.inf)
    out = Counter()
    for (source, _), rate in zip(ways, rates, strict=True):
        out[source] += rate
    found = collectives.dragonfly_bandwidth(1.0, 1.0, partners, used, groups) * (groups - 1)
    assert min(out.values()) == pytest.approx(float(found))


def test_a_job_that_fills_no_group_is_spread_evenly():
    """Twelve devices in pods of 8 are two pods of 6: as if the pods were of that size."""
    for exchange in EXCHANGES:
        uneven = exchange(1.0, 12, [1, 2, 8], [8, 1, 0.5], [5e-6, 1e-5, 2e-5])
        assert uneven == pytest.approx(float(exchange(1.0, 12, [1, 2, 6], [8, 1, 0.5], [5e-6, 1e-5, 2e-5])))


def test_rails_without_a_spine_carry_what_a_spine_would():
    """Forwarding over NVLink makes a rail network as fast as a non-blocking one, as long as NVLink is the faster."""
    spine = collectives.nested_all_to_all_seconds(1e9, 1024, [1, 8], [LINK, PORT], 0)
    assert collectives.rail_all_to_all_seconds(1e9, 1024, 8, LINK, PORT) == pytest.approx(float(spine))
    assert collectives.rail_all_to_all_seconds(1e9, 1024, 8, PORT / 2, PORT) > spine
    assert collectives.rail_all_to_all_seconds(1e9, 1, 8, LINK, PORT) == 0


def test_larger_domains_hasten_an_all_to_all_most():
    """72 instead of 8 devices in a domain: an all-to-all of 72 leaves the network altogether."""
    seconds = [float(collectives.nested_all_to_all_seconds(1e9, 72, [1, d], [LINK, PORT], 0)) for d in (8, 72)]
    assert seconds[0] / seconds[1] == pytest.approx(64 / 71 * LINK / PORT)


@settings(max_examples=30, deadline=None)
@given(payload=payloads, bandwidth=st.floats(1e9, 1e12), half=st.floats(0, 1e9))
def test_bandwidth_saturates(payload, bandwidth, half):
    found = collectives.saturating_bandwidth([payload, 2 * payload, 1e30], bandwidth, half)
    assert (np.diff(found) >= 0).all() and found[-1] == pytest.approx(bandwidth)
    assert collectives.saturating_bandwidth(half + 1, bandwidth, half + 1) == pytest.approx(bandwidth / 2)


# Tori.


def torus_flows(shape, wraps):
    """Flows of an all-to-all routed axis by axis, halves both ways where those are equally far."""
    nodes = list(itertools.product(*map(range, shape)))
    flows = []
    for a, b in itertools.permutations(nodes, 2):
        crossed: Counter = Counter()
        at = list(a)
        for axis, k in enumerate(shape):
            ahead = (b[axis] - at[axis]) % k if wraps else b[axis] - at[axis]
            ways = [(ahead, 1.0)]
            if wraps:
                ways = (
                    [(ahead, 1.0)]
                    if 2 * ahead < k
                    else [(ahead - k, 1.0)]
                    if 2 * ahead > k
                    else ([(ahead, 0.5), (ahead - k, 0.5)] if ahead else [])
                )
            for steps, share in ways:
                for hop in range(abs(steps)):
                    from_ = (at[axis] + np.sign(steps) * hop) % k
                    crossed[(*at[:axis], from_, *at[axis + 1 :], axis, int(np.sign(steps)))] += share
            at[axis] = b[axis]
        flows.append(dict(crossed))
    return flows


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (4, 2), (4, 4), (5, 3), (6, 2), (2, 2, 3), (4, 2, 2)])
@pytest.mark.parametrize("wraps", [True, False])
def test_all_to_all_on_a_small_torus_is_that_of_fair_flows(shape, wraps):
    fair = fair_seconds(torus_flows(shape, wraps), lambda _: 1.0, 1.0, int(np.prod(shape)))
    assert collectives.torus_all_to_all_seconds(1.0, shape, 1.0, 0, wraps) == pytest.approx(fair)


@settings(max_examples=40, deadline=None)
@given(shape=st.lists(st.integers(1, 12), min_size=2, max_size=3), wraps=st.booleans())
def test_the_bisection_of_a_torus_limits_its_all_to_all(shape, wraps):
    """Half of the devices send half of their data to the others: n M / 4 through the middle; exact for even axes."""
    devices = int(np.prod(shape))
    seconds = collectives.torus_all_to_all_seconds(1.0, shape, 1.0, 0, wraps)
    if devices == 1:
        assert seconds == 0
    else:
        k = max(shape)
        crossing = devices * (k // 2) * (k - k // 2) / k**2
        assert seconds == pytest.approx(crossing / collectives.torus_bisection_bandwidth(shape, 1.0, wraps))


@settings(max_examples=40, deadline=None)
@given(shape=st.lists(st.integers(1, 12), min_size=2, max_size=3))
def test_a_closed_torus_is_never_slower_than_a_mesh_and_no_order_of_axes_matters(shape):
    names = ("torus_all_gather_seconds", "torus_all_reduce_seconds", "torus_all_to_all_seconds")
    for exchange in (getattr(collectives, name) for name in names):
        closed, mesh = (exchange(1e9, shape, 50e9, 1e-6, wraps) for wraps in (1, 0))
        assert closed <= mesh
        assert exchange(1e9, shape[::-1], 50e9, 1e-6, 1) == pytest.approx(float(closed))


def test_an_all_gather_on_a_torus_fills_all_links_of_a_device():
    """What each device must receive, over its six links."""
    seconds = collectives.torus_all_gather_seconds(1e9, [8, 8, 8], 100e9, 0)
    assert seconds == pytest.approx(1e9 * 511 / 512 / 600e9)
    ring = collectives.ring_all_gather_seconds(1e9, 16, 2 * 50e9, 0)
    assert collectives.torus_all_gather_seconds(1e9, [16], 50e9, 0) == pytest.approx(float(ring))


# Bisections.


def test_bisections_by_hand():
    """64 nodes of 8 in pods of 256: 256 ports cross the middle, a quarter of their rate at 4 : 1."""
    for oversubscription in (1, 4):
        found = collectives.nested_bisection_bandwidth(512, [1, 8, 256], [LINK, PORT, PORT / oversubscription])
        assert found == pytest.approx(256 * PORT / oversubscription)
    assert collectives.nested_bisection_bandwidth(72, [1, 72], [LINK, PORT]) == 36 * LINK
    assert collectives.torus_bisection_bandwidth([16, 16, 24], 100e9) == 2 * 256 * 100e9


def brute_bisection(links):
    """Fewest bytes a second between two halves, over all halves."""
    nodes, best = len(links), np.inf
    for half in itertools.combinations(range(1, nodes), nodes // 2 - 1):
        side = np.zeros(nodes, dtype=bool)
        side[[0, *half]] = True
        best = min(best, links[np.ix_(side, ~side)].sum())
    return best


@pytest.mark.parametrize("shape", [(4,), (6,), (8,), (4, 4), (4, 2), (6, 2), (2, 2, 2), (4, 2, 2)])
def test_the_bisection_of_a_torus_is_the_least_cut_of_all_halves(shape):
    nodes = list(itertools.product(*map(range, shape)))
    at = {node: place for place, node in enumerate(nodes)}
    links = np.zeros((len(nodes),) * 2)
    for node in nodes:
        for axis, k in enumerate(shape):
            for step in (1, -1):
                links[at[node], at[(*node[:axis], (node[axis] + step) % k, *node[axis + 1 :])]] += 1.0
    assert brute_bisection(links) == collectives.torus_bisection_bandwidth(shape, 1.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: collectives.nested_all_gather_seconds(1, 8, [8, 1], [1, 1], 0), ["groups", "ascend"]),
        (lambda: collectives.nested_all_to_all_seconds(1, 0, [1], [1], 0), ["devices = 0"]),
        (lambda: collectives.nested_all_to_all_seconds(1, 8, [1], [0], 0), ["bandwidths = 0"]),
        (lambda: collectives.dragonfly_bandwidth(1, 57, 1, 2, 2), ["taper = 57", "fraction"]),
        (lambda: collectives.torus_all_to_all_seconds(1, [0, 4], 1, 0), ["shape = 0"]),
    ],
)
def test_bad_figures_are_told(call, words):
    with pytest.raises(ValueError) as problem:
        call()
    assert all(word in str(problem.value) for word in words), problem.value
