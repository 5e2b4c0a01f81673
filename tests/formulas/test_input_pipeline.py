"""Input and storage formulas: bounds, monotony, hand calculations, and simulations that do not know the formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.formulas import input_pipeline as pipe
from cookbook.formulas import storage_rates as bursts
from cookbook.formulas import storage_rates as rates

positive = st.floats(1e-3, 1e6)
share = st.floats(0, 1)


def simulated_hits(samples, kept, epochs=40, seed=1):
    """Hits of a least-recently-used cache of `kept` samples under a new random order in each epoch, by replaying it."""
    from collections import OrderedDict

    rng, cache, hits = np.random.default_rng(seed), OrderedDict(), 0
    for epoch in range(epochs):
        for sample in rng.permutation(samples).tolist():
            if sample in cache:
                cache.move_to_end(sample)
                hits += epoch > 0
            else:
                cache[sample] = None
                if len(cache) > kept:
                    cache.popitem(last=False)
    return hits / samples / (epochs - 1)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.8, 0.95])
def test_the_page_cache_hits_what_a_replayed_one_hits(part):
    samples = 2000
    assert float(pipe.cache_hit_rate(samples, part * samples)) == pytest.approx(
        simulated_hits(samples, int(part * samples)), abs=0.01
    )


def test_a_small_cache_keeps_its_digits():
    """For little c = C / D, c + (1 - c) ln(1 - c) is c^2 / 2 + c^3 / 6 + ..."""
    assert float(pipe.cache_hit_rate(1e9, 10.0)) == pytest.approx(0.5e-16, rel=1e-6)
    assert float(pipe.cache_hit_rate(1000, 1)) == pytest.approx(0.5e-6 + 1e-9 / 6, rel=1e-5)


@given(data=positive, cache=st.floats(0, 1e6), more=st.floats(1, 3), shuffled=share)
def test_a_larger_cache_never_hits_less(data, cache, more, shuffled):
    one, two = (float(pipe.cache_hit_rate(data, size, shuffled)) for size in (cache, cache * more))
    assert 0 <= one <= two <= 1
    assert one <= min(cache / data, 1) + 1e-12, "no cache hits more than the part that it holds"


def simulated_rate(supply, demand, depth, batches=200_000, seed=2):
    """Two stages with exponential times and room for `depth` batches between them, batch by batch."""
    rng = np.random.default_rng(seed)
    make, take = rng.exponential(1 / supply, batches), rng.exponential(1 / demand, batches)
    made, taken = np.zeros(batches), np.zeros(batches)
    for at in range(batches):
        # A batch may be made once the one `depth` before it has been taken from the buffer to be worked on.
        free = taken[at - depth] - take[at - depth] if at >= depth else 0.0
        start = max(made[at - 1] if at else 0.0, free)
        made[at] = max(start + make[at], free)
        taken[at] = max(made[at], taken[at - 1] if at else 0.0) + take[at]
    return batches / taken[-1]


@pytest.mark.parametrize(("supply", "demand", "depth"), [(1, 1, 1), (1, 1, 4), (1.5, 1, 2), (1, 2, 3)])
def test_a_buffer_gives_what_a_simulated_one_gives(supply, demand, depth):
    expected = simulated_rate(supply, demand, depth)
    assert float(pipe.pipelined_rate(supply, demand, depth, 1)) == pytest.approx(expected, rel=0.02)


@given(supply=positive, demand=positive, depth=st.floats(0, 100), variation=st.floats(0.05, 3))
def test_a_pipeline_lies_between_taking_turns_and_the_slower_stage(supply, demand, depth, variation):
    found = float(pipe.pipelined_rate(supply, demand, depth, variation))
    turns = 1 / (1 / supply + 1 / demand)
    assert turns * (1 - 1e-9) <= found <= min(supply, demand) * (1 + 1e-9)
    assert found <= float(pipe.pipelined_rate(supply, demand, depth + 1, variation)) * (1 + 1e-9)
    assert found == pytest.approx(float(pipe.pipelined_rate(demand, supply, depth, variation)), rel=1e-9)


@given(
    workers=st.integers(1, 64),
    single=positive,
    reference=positive,
    handover=st.floats(0, 2),
    collation=st.floats(0.1, 20),
    sharpness=st.floats(1, 10),
)
def test_decoding_grows_with_workers_below_both_limits(workers, single, reference, handover, collation, sharpness):
    one, two = (
        float(pipe.decode_rate(n, single, reference, handover, collation, sharpness)) for n in (workers, workers + 1)
    )
    assert one <= two * (1 + 1e-9)
    assert one <= min(workers * single, collation * reference) * (1 + 1e-9)


def test_storage_by_hand():
    # 32 requests of 4 KiB in flight, 100 us each: 32 * 4096 / 1e-4 = 1.31072e9 B/s; the drive gives 1e6 * 4096 = 4.1e9.
    assert float(rates.tier_rate(4096, 7e9, 1e6, 32, 100e-6)) == pytest.approx(1.31072e9)
    # Without waiting the operations decide, with large requests the bandwidth times its efficiency.
    assert float(rates.tier_rate(4096, 7e9, 1e6, 32, 0)) == pytest.approx(4.096e9)
    assert float(rates.tier_rate(1 << 20, 7e9, 1e6, 32, 0, 0.9)) == pytest.approx(6.3e9)
    # A disk seeks for 1/170 s and then reads 2 MB for 7.4 ms: 13.3 ms in all.
    assert float(rates.tier_rate(2e6, 270e6, 170, 64, 0, 1, 1)) == pytest.approx(2e6 / (1 / 170 + 2e6 / 270e6))


def test_utilisation_by_hand():
    # U-Net 3D on H100: 7 samples in 0.323 s. With 10 samples a second 7 take 0.7 s: 0.323 / 0.7 with a deep buffer.
    assert float(pipe.accelerator_utilisation(0.323, 7, 10, 0, 1e6, 1)) == pytest.approx(0.323 / 0.7, rel=1e-4)
    # With all the input one could wish, the overhead alone is left: 0.323 / (0.323 + 0.01).
    assert float(pipe.accelerator_utilisation(0.323, 7, 1e9, 0.01, 8, 1)) == pytest.approx(0.323 / 0.333, rel=1e-6)


def test_scaling_collapses_when_accelerators_outgrow_storage():
    """The founding paper: nearly linear, 95 % and more, while storage keeps up; then more accelerators add nothing."""
    count = np.arange(1, 29)
    assert pipe.pipelined_rate(35 / count, 1.0, 8, 0.5).min() > 0.95
    many = np.array([35.0, 70.0, 140.0])
    total = many * pipe.pipelined_rate(35.0 / many, 1.0, 8, 0.5)
    assert total == pytest.approx([34, 35, 35], rel=0.05)


def test_the_largest_number_by_hand():
    # 7 GB/s over 0.9 x 3.1771 GB/s is 2.448; over 0.9 x 0.20475 is 37.99.
    assert pipe.largest_accelerators(7e9, [3.1771e9, 0.20475e9], 0.9).tolist() == [2, 37]


def test_checkpoints_by_hand():
    # 60 GB at 1 GB/s every 540 s of training: 60 of 600 s.
    assert float(rates.checkpoint_stall_share(60e9, 1e9, 540)) == pytest.approx(0.1)
    # Behind the training the copy alone stops it, 60 / 30 = 2 s, unless writing takes longer than the interval.
    assert float(rates.checkpoint_stall_share(60e9, 1e9, 540, 1, 30e9)) == pytest.approx(2 / 542)
    assert float(rates.checkpoint_stall_share(60e9, 0.1e9, 540, 1, 30e9)) == pytest.approx(62 / 602)


@given(size=st.floats(0, 1e13), write=positive, interval=positive, behind=share)
def test_stalls_and_what_is_left_for_reading_are_parts(size, write, interval, behind):
    assert 0 <= float(rates.checkpoint_stall_share(size, write * 1e6, interval, behind, 1e10)) < 1
    assert 0.5 <= float(rates.read_share_beside_writes(size, write * 1e6, interval, behind)) <= 1


def test_reading_wears_nothing():
    assert float(rates.drive_life_years(rates.drive_writes_per_day(0, 1, 1e12), 1, 5)) == np.inf
    # A terabyte a day on a drive of 1 TB bought for 0.3 writes a day lasts 0.3 of its five years.
    assert float(rates.drive_life_years(rates.drive_writes_per_day(1e12, 1, 1e12), 0.3, 5)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pipe.working_threads(8, 0, 0.3), "cores"),
        (lambda: rates.concurrency_rate(4096, 8, -1e-6), "latency"),
        (lambda: rates.clients_rate(1e9, 0, 1e9, 8, 1e8), "clients"),
        (lambda: pipe.cache_hit_rate(0, 1), "data_bytes"),
        (lambda: pipe.largest_accelerators(1e9, 1e9, 0), "utilisation"),
        (lambda: pipe.epochs_seconds(100, 10, 10, 0), "epochs"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call, name):
    with pytest.raises(ValueError, match=f"{name} = .* outside"):
        call()


def test_a_missing_figure_stays_missing():
    assert np.isnan(rates.tier_rate(4096, 7e9, np.nan, 8, 0))


def bucket_seconds(volume, burst, baseline, credit, steps=20_000):
    """A volume read from a bucket of credits, in small steps of time: never faster than the burst or the credits."""
    read, have, step = 0.0, credit, volume / baseline / steps
    for at in range(steps + 1):
        if read >= volume:
            return at * step
        taken = min(burst * step, have + baseline * step)
        have, read = min(have + baseline * step - taken, credit), read + taken
    return steps * step


@pytest.mark.parametrize("credit", [0.0, 100.0, 700.0, 5000.0])
@pytest.mark.parametrize(("burst", "baseline"), [(2.0, 1.0), (10.0, 0.7), (1.2, 1.0)])
def test_a_volume_bursts_as_a_bucket_in_small_steps_does(credit, burst, baseline):
    lasting = bursts.credit_seconds(credit, burst, baseline)
    found = float(bursts.bursting_seconds(1000.0, burst, baseline, lasting))
    assert found == pytest.approx(bucket_seconds(1000.0, burst, baseline, credit), rel=2e-3)
    assert found == pytest.approx(max(1000.0 / burst, (1000.0 - credit) / baseline), rel=1e-9)


@given(credit=positive, draw=positive, refill=positive, part=share)
def test_credits_last_until_none_are_left(credit, draw, refill, part):
    lasting = float(bursts.credit_seconds(credit, draw, refill))
    assert np.isinf(lasting) == (draw <= refill)
    time = part * lasting if np.isfinite(lasting) else part * 1e6
    left = float(bursts.credit_left(credit, draw, refill, time))
    expected = credit if np.isinf(lasting) else credit * (1 - part)
    assert left == pytest.approx(expected, rel=1e-6, abs=1e-6 * credit)
