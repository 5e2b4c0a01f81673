"""Scaling formulas and pipeline schedules: founding figures, hand calculations, orders, and schedules as they run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.formulas import collectives, parallelism

POSITIVE = st.floats(1e-3, 1e3)


def test_founding_bandwidths_of_distributed_products():
    """The deck prints 30 GB/s for p = 1 and 300 for p = 10; one device needs nothing, and ten form no square grid."""
    assert (parallelism.hpe_2017_summa_bandwidth(2000, [1, 10], 15e12) / 1e9).round().tolist() == [30, 300]
    needed = parallelism.summa_required_bandwidth(2000, [1, 2, 10], 15e12) / 1e9
    assert needed.tolist() == pytest.approx([0, 30, 270])
    assert parallelism.summa_seconds(2000, 1, 15e12, 1e9)["data"] == 0
    assert parallelism.replicated_seconds(2000, 1, 1, 15e12, 1e9)["data"] == 0
    for call in (parallelism.summa_required_bandwidth, lambda *size: parallelism.summa_seconds(*size, 1e9)):
        with pytest.raises(ValueError, match=r"grid = 3\.16228"):
            call(2000, np.sqrt(10), 15e12)


def test_each_device_of_a_grid_receives_what_it_does_not_have():
    """Counted block by block: the row of one input and the column of the other, but its own."""
    n, p, element = 120, 4, 4
    blocks = {(kind, *at) for kind in "ab" for at in np.ndindex(p, p)}
    needs = {("a", 1, k) for k in range(p)} | {("b", k, 2) for k in range(p)}
    held = {("a", 1, 2), ("b", 1, 2)}
    assert needs <= blocks
    received = len(needs - held) * (n / p) ** 2 * element
    assert parallelism.summa_seconds(n, p, 1e12, 1.0, element)["data"] == pytest.approx(received)


def test_at_the_required_bandwidth_data_takes_as_long_as_computation():
    needed = parallelism.summa_required_bandwidth(3000, 4, 1e13)
    parts = parallelism.summa_seconds(3000, 4, 1e13, needed)
    assert parts["compute"] == pytest.approx(parts["data"])
    # 2 x 3000^3 FLOP over 16 devices of 1e13 FLOP/s.
    assert parts["compute"] == pytest.approx(2 * 2.7e10 / 16 / 1e13)


@given(st.integers(1, 30), POSITIVE)
def test_a_stack_of_one_layer_is_the_flat_grid(grid, bandwidth):
    flat = parallelism.summa_seconds(5000, grid, 1e13, bandwidth * 1e9)
    stacked = parallelism.replicated_seconds(5000, grid**2, 1, 1e13, bandwidth * 1e9)
    assert stacked["data"] == pytest.approx(flat["data"]) and stacked["compute"] == pytest.approx(flat["compute"])


def test_stacked_products_scale_with_rate_and_size_of_an_element():
    once = parallelism.replicated_seconds(1e4, 64, 4, 1e13, 1e10, 2)
    fast = parallelism.replicated_seconds(1e4, 64, 4, 2e13, 1e10, 4)
    assert fast["compute"] == pytest.approx(once["compute"] / 2) and fast["data"] == pytest.approx(once["data"] * 2)


def test_more_layers_pay_on_many_devices_and_are_refused_on_few():
    data = [parallelism.replicated_seconds(1e5, 4096, c, 1e13, 1e10)["data"] for c in (1, 4, 16)]
    # 2 / 64, 2 / 128 + 9 / 4096 and 2 / 256 + 45 / 4096 of the matrix, less 2 / 4096
    # of each: copying costs what the last layers save.
    assert data[0] > data[2] > data[1]
    with pytest.raises(ValueError, match="copies = 4"):
        parallelism.replicated_seconds(1e5, 16, 4, 1e13, 1e10)


def test_the_best_number_of_workers_is_where_the_step_is_shortest():
    problem = {"model_flop": 3e13, "weight_bytes": 2.4e8, "flops": 4e12, "bandwidth": 16e9}
    best = float(parallelism.hpe_2017_best_workers(**problem))
    steps = [
        sum(parallelism.hpe_2017_data_parallel_seconds(workers=p, **problem).values())
        for p in (0.99, 1, 1.01)
        for p in [best * p]
    ]
    assert steps[1] == min(steps)


@given(st.integers(1, 10), POSITIVE, POSITIVE)
def test_halving_and_doubling_moves_what_a_ring_moves(doublings, payload, bandwidth):
    ranks = 2**doublings
    ring = collectives.ring_all_reduce_seconds(payload, ranks, bandwidth, 0.0)
    assert parallelism.halving_doubling_seconds(payload, ranks, bandwidth, 0.0) == pytest.approx(float(ring))
    assert parallelism.in_network_seconds(payload, ranks, bandwidth, 0.0) <= ring * (1 + 1e-12)


@given(POSITIVE, st.integers(1, 64), st.integers(1, 64))
def test_as_many_servers_as_workers_are_never_the_bottleneck(payload, workers, servers):
    many = parallelism.parameter_server_seconds(payload, workers, workers, 1e9, 1e9)
    assert many <= parallelism.parameter_server_seconds(payload, workers, min(servers, workers), 1e9, 1e9)


@given(POSITIVE, POSITIVE, st.integers(1, 100))
def test_buckets_hide_no_more_than_the_backward_pass(exchange, backward, buckets):
    shown = float(parallelism.bucketed_exposed_seconds(exchange, backward, buckets))
    assert max(exchange - backward, 0) - 1e-9 <= shown <= exchange * (1 + 1e-12)
    assert parallelism.bucketed_exposed_seconds(exchange, backward, 1) == pytest.approx(exchange)


@given(st.integers(1, 1000), st.floats(0, 1))
def test_speed_ups_lie_between_one_and_linear(workers, serial):
    fixed, grown = parallelism.amdahl_speedup(workers, serial), parallelism.gustafson_speedup(workers, serial)
    assert 1 - 1e-9 <= fixed <= grown * (1 + 1e-9) <= workers * (1 + 1e-9)


def test_the_slowest_of_many_agrees_with_drawing_lots():
    rng = np.random.default_rng(7)
    for workers in (2, 8, 64):
        drawn = rng.normal(1, 0.05, (20_000, workers)).max(axis=1).mean()
        assert parallelism.slowest_seconds(1, 0.05, workers) == pytest.approx(drawn, abs=0.002)


def test_twice_the_samples_at_the_critical_batch():
    assert parallelism.samples_to_target(1e6, 512, 512) == 2e6


SIZES = pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 2), (4, 8), (8, 8), (6, 18)])


def run(kind, stages, micro_batches, **more):
    chunks = 2 if kind == "interleaved" else 1
    return parallelism.schedule(kind, [1.0] * stages, [2.0] * stages, micro_batches, chunks, **more)


@SIZES
@pytest.mark.parametrize("kind", parallelism.SCHEDULES)
def test_schedules_of_equal_stages_have_the_published_bubble(kind, stages, micro_batches):
    end = run(kind, stages, micro_batches)["end"].max()
    share = parallelism.bubble_share(kind, stages, micro_batches, 2, 1 / 3)
    assert end == pytest.approx(3 * micro_batches * (1 + float(share)))


@SIZES
@pytest.mark.parametrize("kind", parallelism.SCHEDULES)
def test_schedules_run_every_pass_once_in_an_order_that_can_be(kind, stages, micro_batches):
    passes = run(kind, stages, micro_batches)
    chunks = 2 if kind == "interleaved" else 1
    phases = 3 if kind == "zero-bubble" else 2
    keys = set(zip(*(passes[name].tolist() for name in ("device", "micro_batch", "chunk", "phase")), strict=True))
    assert len(keys) == len(passes["end"]) == stages * micro_batches * chunks * phases
    for device in range(stages):
        own = passes["device"] == device
        assert (passes["start"][own][1:] >= passes["end"][own][:-1] - 1e-9).all()
    done = {key: end for key, end in zip(_keys(passes, stages), passes["end"], strict=True)}
    for (phase, micro, stage), start in zip(_keys(passes, stages), passes["start"], strict=True):
        if phase == parallelism.FORWARD and stage:
            assert start >= done[parallelism.FORWARD, micro, stage - 1] - 1e-9
        if phase == parallelism.BACKWARD and stage < stages * chunks - 1:
            assert start >= done[parallelism.BACKWARD, micro, stage + 1] - 1e-9


def _keys(passes, stages):
    whole = passes["chunk"] * stages + passes["device"]
    return [tuple(map(int, key)) for key in zip(passes["phase"], passes["micro_batch"], whole, strict=True)]


@pytest.mark.parametrize("kind", parallelism.SCHEDULES)
def test_schedules_scale_with_the_time_of_a_pass(kind):
    chunks = 2 if kind == "interleaved" else 1
    once, thrice = (parallelism.schedule(kind, [t] * 4, [2 * t] * 4, 8, chunks) for t in (1.0, 3.0))
    np.testing.assert_allclose(thrice["start"], 3 * once["start"])
    np.testing.assert_allclose(thrice["end"], 3 * once["end"])


def test_one_forward_one_backward_keeps_few_activations_and_gpipe_all():
    def most(kind):
        passes = run(kind, 4, 12)
        first = passes["device"] == 0
        moves = np.select([passes["phase"][first] == 0, passes["phase"][first] == 1], [1, -1], 0)
        return int(np.cumsum(moves).max())

    assert most("gpipe") == 12 and most("1f1b") == 4 and most("zero-bubble") <= 4


@given(st.lists(st.floats(0.1, 2), min_size=1, max_size=6), st.integers(1, 12))
def test_uneven_stages_take_at_least_their_slowest(stages, micro_batches):
    time = parallelism.flush_seconds(stages, micro_batches)
    assert time >= micro_batches * max(stages) - 1e-9
    assert parallelism.flush_seconds(stages, 1) == pytest.approx(sum(stages))
    ran = parallelism.schedule("gpipe", stages, [0.0] * len(stages), micro_batches)["end"].max()
    assert ran == pytest.approx(float(time))


@pytest.mark.parametrize(
    "call, named",
    [
        (lambda: parallelism.schedule("2f2b", [1], [1], 1), "2f2b"),
        (lambda: parallelism.schedule("1f1b", [1, 1], [1], 1), "backward_seconds"),
        (lambda: parallelism.schedule("interleaved", [1, 1], [1, 1], 3, 2), "micro_batches"),
        (lambda: parallelism.schedule("1f1b", [1], [1], 0), "micro_batches = 0"),
        (lambda: parallelism.schedule("1f1b", [1], [1], 1, 2), "interleave = 2"),
        (lambda: parallelism.bubble_share("x", 1, 1), "'x'"),
        (lambda: parallelism.amdahl_speedup(0, 0.1), "workers"),
    ],
)
def test_bad_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()


@given(st.floats(1, 100), st.floats(1e4, 1e7))
def test_dalys_interval_keeps_the_most_work(write, mtbf):
    best = float(parallelism.daly_2006_interval_seconds(write, mtbf))
    useful = [float(parallelism.useful_share(best * factor, write, 60.0, mtbf)) for factor in (0.7, 1, 1.4)]
    assert useful[1] >= max(useful) - 1e-9 and 0 < useful[1] < 1
    assert best == pytest.approx(float(parallelism.young_1974_interval_seconds(write, mtbf)), rel=0.1)
