"""Matching storage that lends speed, one client's limit, workers on the wrong socket, intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cookbook as cb

DATA = {"samples": 1e5, "stored_bytes": 1e10}
LENT = {"read_bandwidth": "20 MB/s", "burst_bandwidth": "100 MB/s", "burst_credit": "12 GB"}


def replayed(epochs, demand, burst, baseline, credit, steps=40_000):
    """Seconds of each epoch: samples read one after another from a bucket of credits, in small steps of time."""
    ends, read, have, time = [], 0.0, credit, 0.0
    step = epochs * DATA["stored_bytes"] / baseline / steps
    while len(ends) < epochs:
        taken = min(min(burst, demand) * step, have + baseline * step)
        have = min(have + baseline * step - taken, credit)
        read, time = read + taken, time + step
        if read >= (len(ends) + 1) * DATA["stored_bytes"]:
            ends.append(time)
    return np.diff([0.0, *ends])


def matched(storage, epochs=10, step=1e-6, **more):
    """One accelerator, batches of one, so many batches waiting that the slower stage alone decides."""
    return cb.match_storage(step, "h100-sxm", storage, DATA, workers=64, prefetch=1e6, epochs=epochs, **more)


@pytest.mark.parametrize("epochs", [1, 2, 4])
@pytest.mark.parametrize("credit", [2e9, 12e9, 25e9])
def test_epochs_take_what_a_replayed_bucket_takes(epochs, credit):
    found = matched({**LENT, "burst_credit": credit}, epochs)
    seconds = replayed(epochs, 1e12, 100e6, 20e6, credit)
    assert found.first_epoch_seconds == pytest.approx(seconds[0], rel=5e-3)
    assert found.total_seconds == pytest.approx(seconds.sum(), rel=5e-3)
    assert found.credit_seconds == pytest.approx(credit / 80e6, rel=1e-6)


def test_what_stays_is_the_baseline_and_below_it_credits_last():
    plain = matched({"read_bandwidth": "20 MB/s"})
    assert matched(LENT).samples_per_s == pytest.approx(plain.samples_per_s)
    assert matched(LENT).stages["storage"] == pytest.approx(200)
    assert plain.credit_seconds == np.inf
    slow = matched(LENT, step=1 / 150)
    assert slow.credit_seconds == np.inf
    assert slow.stages["storage"] == pytest.approx(1000), "an accelerator of 150 samples/s never uses credits up"


def test_operations_run_out_for_small_files_alone():
    volume = {"read_bandwidth": "1 GB/s", "read_iops": 100, "burst_iops": 3000, "burst_operations": 87000}
    files = cb.match_storage(1e-6, "h100-sxm", volume, {**DATA, "layout": "small files"}, workers=64, prefetch=1e6)
    assert files.credit_seconds == pytest.approx(87000 / (3000 - 100))
    assert files.samples_per_s == pytest.approx(100, rel=1e-3)
    assert matched(volume).credit_seconds == np.inf


@settings(max_examples=30, deadline=None)
@given(burst=st.floats(21e6, 1e9), credit=st.floats(1e6, 1e12), epochs=st.integers(1, 20), step=st.floats(1e-4, 1e-1))
def test_bursts_never_slow_training(burst, credit, epochs, step):
    lent = matched({**LENT, "burst_bandwidth": burst, "burst_credit": credit}, epochs, step)
    plain, fast = (matched({"read_bandwidth": rate}, epochs, step) for rate in (20e6, burst))
    for name, sign in (("samples_per_s", 1), ("first_samples_per_s", 1), ("total_seconds", -1)):
        low, mid, high = (sign * getattr(one, name) for one in (plain, lent, fast))
        assert low - 1e-6 * abs(low) <= mid <= high + 1e-6 * abs(high)


def test_rows_of_the_table_burst_and_unknown_credits_do_not():
    efs = cb.match_storage(1e-3, "h100-sxm", "amazon-efs-bursting-1-tib", "imagenet-1k-tfrecord", accelerators=8)
    assert efs.first_samples_per_s > 1.9 * efs.samples_per_s
    assert efs.credit_seconds > efs.first_epoch_seconds
    fsx = cb.match_storage(1e-3, "h100-sxm", "fsx-for-lustre-persistent-2-ssd-125-mb-s-tib", 1e6)
    assert fsx.first_samples_per_s == pytest.approx(fsx.samples_per_s)
    assert "burst_credit = 0" in fsx.assumed and "burst_credit" not in efs.assumed


def test_one_client_reads_no_more_than_its_limit():
    one, four = (
        cb.match_storage(
            1e-6, "h100-sxm", "amazon-efs-elastic", "imagenet-1k-tfrecord", workers=64, accelerators=hosts, hosts=hosts
        ).stages["network"]
        for hosts in (1, 4)
    )
    card = cb.table("data_sets").set_index("key").loc["imagenet-1k-tfrecord"]
    assert one * card["stored_bytes"] / card["samples"] == pytest.approx(1500 * 2**20, rel=1e-3)
    assert four == pytest.approx(4 * one)


@settings(max_examples=20, deadline=None)
@given(workers=st.integers(1, 64), cores=st.integers(1, 64), away=st.floats(0, 1))
def test_workers_on_the_wrong_socket_decode_less_but_never_lose_more_than_their_part(workers, cores, away):
    near, far = (
        cb.match_storage(
            1e-3, "h100-sxm", "micron-7500-7-68tb", "imagenet-1k", workers=workers, cores=cores, remote=share
        ).stages["decoding"]
        for share in (0, away)
    )
    lost = cb.table("pipeline_constants").set_index("name").value["remote_loss"]
    assert near * (1 - away * lost) * (1 - 1e-9) <= far <= near * (1 + 1e-9)


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ({"read_bandwidth": "1 GB/s", "burst_bandwidth": "0.5 GB/s"}, "a burst is faster"),
        ({"read_bandwidth": "1 GB/s", "burst_credit": "-1 GB"}, "burst_credit = '-1 GB' is outside its range"),
    ],
)
def test_bursts_that_cannot_be_are_refused(storage, says):
    with pytest.raises(ValueError, match=says):
        matched(storage)


def test_a_share_of_workers_is_a_share():
    with pytest.raises(ValueError, match=r"remote = 1\.5 is outside its range; give 0 to 1"):
        matched(LENT, remote=1.5)


@settings(max_examples=20, deadline=None)
@given(cores=st.integers(1, 128), accelerators=st.sampled_from([1, 2, 8, 16]))
def test_intervals_contain_the_prediction_and_are_those_of_what_decides(cores, accelerators):
    step = cb.train_step("resnet50", "h100-sxm", batch=256)
    run = {"batch": 256, "accelerators": accelerators, "cores": cores, "workers": cores}
    found = cb.match_storage(step, "h100-sxm", "micron-7500-7-68tb", "imagenet-1k-tfrecord", **run)
    ends = (found.samples_range, found.utilisation_range)
    for point, (low, high) in zip((found.samples_per_s, found.utilisation), ends, strict=True):
        assert low <= point <= high
    assert found.utilisation_range[1] <= 1
    bound = cb.match_storage(1e-9, "h100-sxm", {"read_bandwidth": "0.1 GB/s"}, 1e6, prefetch=1e6)
    known = cb.table("pipeline_constants").set_index("name").value
    assert bound.samples_range[1] / bound.samples_per_s == pytest.approx(known["interval/mlperf/80"], rel=1e-3)
    free = cb.match_storage(step, "h100-sxm", {"read_bandwidth": "1 PB/s"}, 1.0, batch=256)
    assert free.samples_range[0] == pytest.approx(256 / step.high80, rel=1e-3)


def test_clips_are_so_many_images_of_a_network_and_other_pairs_are_refused():
    run = {"accelerators": 8, "cores": 64, "workers": 16}
    clips = cb.match_storage("resnet50", "h100-sxm", "micron-7500-7-68tb", "kinetics-400", batch=8, **run)
    step = cb.train_step("resnet50", "h100-sxm", batch=8 * 32).point
    assert clips.stages["accelerators"] == pytest.approx(8 * 8 / step)
    for network, data in (("resnet50", "criteo-1tb"), ("gpt2", "imagenet-1k"), ("dlrm", {"card": "kits19"})):
        with pytest.raises(ValueError, match="takes"):
            cb.match_storage(network, "h100-sxm", "micron-7500-7-68tb", data)
    cb.match_storage(step, "h100-sxm", "micron-7500-7-68tb", "criteo-1tb")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"memory": float("nan")}, "memory"),
        ({"data": {"card": "imagenet-1k", "layout": "zip"}}, "small files, shards"),
        ({"batch": 0}, "batch = 0"),
        ({"checkpoint_interval": 0, "checkpoint_bytes": 1}, "checkpoint_interval = 0 is outside its range"),
    ],
)
def test_what_is_missing_or_unknown_is_never_taken_for_something(more, says):
    run = {"data": "imagenet-1k", **more}
    with pytest.raises(ValueError, match=says):
        cb.match_storage("resnet50", "h100-sxm", "micron-7500-7-68tb", **run)
