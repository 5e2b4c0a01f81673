"""Matching storage as a record: read-only, short, shown as a table; what cannot be is refused in the caller's words."""

import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import cookbook as cb

CALL = {"workload": 0.1, "system": "h100-sxm", "storage": "micron-9400-7-68tb-gen4", "data": "imagenet-1k"}
NAMES = (
    "batch",
    "accelerators",
    "hosts",
    "workers",
    "cores",
    "memory",
    "processor",
    "network",
    "link",
    "sharers",
    "pinned",
    "remote",
    "prefetch",
    "variation",
    "serial",
    "shuffled",
    "epochs",
    "checkpoint_interval",
    "checkpoint_bytes",
    "asynchronous",
    "bar",
    "precision",
    "software",
    *CALL,
)
HOSTILE = (
    None,
    float("nan"),
    float("inf"),
    -1,
    0,
    1e308,
    1e-308,
    10**400,
    10**5000,
    "",
    "abc",
    [],
    {},
    object(),
    True,
    [[1, 2], [3]],
    np.ones((2, 2)),
    np.array([]),
    np.array(3),
    np.array([1.0, np.nan]),
    "x" * 50000,
    "٣",
    "1e99999999 B",
    b"5",
    1 + 2j,
    [1, "a"],
    (),
    [None],
    0.5,
    "5 bananas",
    [1, 1, 1],
    {1, 2},
    [{}],
    "5\0",
)
FIELDS = {
    "storage": (
        "storage",
        "read_bandwidth",
        "read_iops",
        "latency",
        "capacity",
        "endurance_dwpd",
        "price_usd_per_tb",
        "local",
        "drives",
        "burst_bandwidth",
        "burst_credit",
        "nothing",
    ),
    "data": ("card", "samples", "stored_bytes", "decoded_bytes", "decode_work", "images", "layout"),
}
STARTS = {"storage": {"storage": CALL["storage"]}, "data": {"card": "imagenet-1k"}}


def match(**changes):
    return cb.match_storage(**{**CALL, "batch": 256, "accelerators": 8, **changes})


@pytest.mark.parametrize(("name", "near"), [("hostz", "hosts"), ("read_bandwidth", "batch")])
def test_a_run_takes_its_own_fields_and_not_those_of_the_storage(name, near):
    with pytest.raises(ValueError, match=f"match_storage has no argument '{name}'; nearest: {near}, "):
        match(**{name: 1})


def told(call):
    """The refusal of a call, or nothing; an answer has numbers that can be, or says why it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = cb.match_storage(**call)
            rates, used, why = (np.atleast_1d(value) for value in (found.samples_per_s, found.utilisation, found.why))
            good = why == ""
            assert np.isfinite(rates[good].astype(float)).all() and (rates[good] > 0).all()
            assert ((used[good] >= 0) & (used[good] <= 1 + 1e-9)).all()
            found._repr_html_(), found.frame(), found.to_dict()
            text = repr(found)
        except (ValueError, KeyError) as problem:
            text = str(problem)
    for raw in ("NoneType", "unhashable", "broadcast", "attribute", "ufunc", "inhomogeneous", "subscriptable"):
        assert raw not in text, text
    assert 0 < len(text) <= 330, text[:200]
    return text


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_argument_is_refused_in_the_callers_words(name, within):
    for value in HOSTILE:
        with within(15):
            told({**CALL, "checkpoint_interval": 600, "checkpoint_bytes": 1e9, name: value})


@pytest.mark.parametrize(("argument", "name"), [(argument, name) for argument in FIELDS for name in FIELDS[argument]])
def test_a_hostile_figure_of_a_tier_or_card_is_refused(argument, name, within):
    for value in HOSTILE:
        with within(15):
            told({**CALL, argument: {**STARTS[argument], name: value}})


def test_a_thousand_hostile_combinations(within):
    rng = np.random.default_rng(2)
    usual = (1, 2, 8, "1 GB", [1, 2], [1, 2, 3], 64, True)
    for _ in range(1000):
        names = rng.choice(NAMES[:-4], 4, replace=False)
        values = [*HOSTILE, *usual]
        with within(15):
            told({**CALL, **{name: values[rng.integers(len(values))] for name in names}})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bar": 90}, "bar = 90 is outside"),
        ({"bar": [0.9, 0.8]}, "bar"),
        ({"pinned": -5}, "pinned = -5"),
        ({"pinned": 0.5}, "True or False"),
        ({"accelerators": float("inf")}, "accelerators = inf"),
        ({"accelerators": 1.5}, "not whole"),
        ({"accelerators": 1e12}, "accelerators = 1000000000000.0 is outside"),
        ({"hosts": 16}, "hosts = 16 are more than accelerators = 8"),
        ({"shuffled": 2}, "shuffled = 2"),
        ({"asynchronous": -1}, "asynchronous = -1"),
        ({"storage": None}, "storage = None"),
        ({"system": 5}, "system = 5"),
        ({"workload": None}, "workload = None"),
        ({"accelerators": [1, 2], "workers": [1, 2, 3]}, "one length"),
        ({"workers": True}, "workers = True"),
        ({"processor": 5}, "processor = 5"),
        ({"precision": 16}, "precision = 16"),
        ({"memory": "١٠ GB"}, "cannot read"),
        ({"storage": {"read_bandwidth": True}}, "read_bandwidth"),
    ],
)
def test_what_was_taken_in_silence_is_refused(change, says):
    with pytest.raises(ValueError, match=says.replace("[", r"\[")):
        match(**change)


def test_among_several_too_many_hosts_leave_the_others_their_numbers():
    found = match(accelerators=[4, 8, 16], hosts=8)
    assert np.isfinite(found.samples_per_s).tolist() == [False, True, True]
    assert "more than accelerators = 4" in found.why[0] and found.fits.tolist()[0] is False


def test_fewer_readers_than_hosts_are_no_error():
    """The search for the largest number of accelerators tried fewer than hosts, and stopped on its own arguments."""
    found = match(storage={"read_bandwidth": "1 MB/s", "read_iops": 10}, accelerators=64, hosts=8, workers=0)
    assert found.largest_accelerators == 0 and found.samples_per_s > 0


def test_a_record_cannot_be_changed():
    one, many = match(), match(accelerators=[1, 8])
    with pytest.raises(FrozenInstanceError):
        one.bar = 0.5
    for record in (one, many):
        with pytest.raises(TypeError):
            record.stages["storage"] = 1
    for values in (many.samples_per_s, many.stages["storage"], many.why, many.samples_range[0]):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = values[1]


def test_a_record_says_whether_it_keeps_the_bar():
    assert match(storage={"read_bandwidth": 1e12, "read_iops": 1e9, "local": 1}, workers=64).fits is True
    slow = match(storage={"read_bandwidth": 1e8, "read_iops": 1e4})
    assert slow.fits is False and "not kept" in slow._repr_html_()
    assert match(bar=0.01).fits is True
    many = match(accelerators=[1, 1000])
    assert many.fits.tolist() == [used >= many.bar for used in many.utilisation]
    assert repr(many) == f"<2 matches of storage, {int(many.fits.sum())} of them keep 90 % utilisation>"


def test_pages_frames_and_dictionaries_hold_the_same_figures():
    found = match(processor="<b>AMD EPYC 9654</b>", storage={"read_bandwidth": 1e9, "read_iops": 1e5})
    page = found._repr_html_()
    assert "--jp-ui-font-color1" in page and "inherit" in page and f"{found.samples_per_s:,.0f}" in page
    assert len(repr(found)) < 200
    frame, plain = found.frame(), found.to_dict()
    assert len(frame) == 1 and frame["samples_per_s"].iloc[0] == found.samples_per_s == plain["samples_per_s"]
    assert frame["storage_per_s"].iloc[0] == found.stages["storage"] == plain["stages"]["storage"]
    assert plain["changes"][0]["name"] == found.changes[0].name and plain["fits"] is found.fits
    many = match(accelerators=[1, 8, 64])
    frame, plain = many.frame(), many.to_dict()
    assert frame["utilisation"].tolist() == many.utilisation.tolist() == plain["utilisation"]
    assert frame["samples_low80"].le(frame["samples_per_s"]).all() and "<table" in many._repr_html_()


def test_a_bad_entry_of_a_list_spoils_no_other_and_lists_may_hold_names():
    found = match(batch=[64, -1, 64], system=["h100-sxm", "t4", "dgx-1-v100"])
    assert np.isfinite(found.samples_per_s).tolist() == [True, False, True] and "batch = -1" in found.why[1]
    assert found.usd_per_hour[2] == match(batch=64, system="dgx-1-v100").usd_per_hour
    for at, network in enumerate(names := ["resnet50", "vgg16"]):
        assert match(workload=names, batch=8).samples_per_s[at] == pytest.approx(
            match(workload=network, batch=8).samples_per_s
        )


def test_what_is_not_given_is_told_with_the_value_taken():
    told = match().assumed.split("; ")
    assert {"cores = inf", "memory = 0", "workers = 8", "prefetch = 2", "hosts = 1", "epochs = 10"} <= set(told)
    given = match(cores=64, memory="512 GB", workers=16, processor="AMD EPYC 9654", network="25 Gb/s")
    assert not {each.partition(" ")[0] for each in given.assumed.split("; ")} & {
        "cores",
        "memory",
        "workers",
        "processor",
        "network",
        "batch",
        "accelerators",
        "step",
    }
    predicted = match(workload="resnet50", batch=[8, 16])
    assert ["step = predicted (" in each for each in predicted.assumed] == [True, True]
    assert "do not divide evenly" in match(hosts=3).remark and match(hosts=2).remark == ""


def test_a_batch_left_out_is_one_clip_however_many_images_it_has():
    run = {"workload": "resnet50", "data": "kinetics-400", "workers": 64}
    assert match(**run, batch=None).samples_per_s == pytest.approx(match(**run, batch=1).samples_per_s)


def test_a_step_in_words_is_a_step():
    assert match(workload="100 ms").samples_per_s == pytest.approx(match(workload=0.1).samples_per_s)


def test_a_record_of_ones_own_and_a_cloud_instance_are_systems():
    like = cb.accelerator(like="h100-sxm", mem_bandwidth="4 TB/s")
    same, changed = match(), match(system=like)
    assert changed.samples_per_s == pytest.approx(same.samples_per_s) and changed.price_basis == "no price is known"
    own = cb.accelerator(
        "Mine", memory_bytes="64 GB", mem_bandwidth="2 TB/s", peak_bf16="300 TFLOP/s", host_link="32 GB/s"
    )
    found = match(system=own)
    known = cb.table("pipeline_constants").set_index("name").value["copy_share"]
    assert found.stages["copying"] == pytest.approx(8 * 32e9 * known / 150528)
    predicted = match(system=own, workload="resnet50", batch=64)
    assert predicted.samples_per_s > 0
    rented = match(system="p4d.24xlarge")
    assert rented.usd_per_hour == match(system="a100-sxm-40gb").usd_per_hour > 0
