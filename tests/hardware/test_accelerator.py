"""Accelerators as records: from the catalogue, or made up from one with some figures changed."""

import copy
import dataclasses
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook import catalog
from cookbook.hardware import Accelerator, accelerator, accelerator_table, formats, peak_flops


def test_published_h100_sxm_datasheet_figures():
    """NVIDIA H100 datasheet, SXM5: 80 GB, 3.35 TB/s, 989 TFLOP/s dense in BF16, 700 W."""
    h100 = accelerator("h100-sxm")
    assert (h100.memory_bytes, h100.mem_bandwidth, h100.tdp_watts) == (80 * 2**30, 3.35e12, 700.0)
    assert h100.peaks["peak_bf16"] == 989e12
    assert h100.sources and not h100.changed


def test_published_v100_memory_is_16_gb_not_12():
    """NVIDIA V100 datasheet: 16 or 32 GB, 125 tensor TFLOP/s for SXM2."""
    assert accelerator("V100").memory_bytes == 16 * 2**30
    assert peak_flops("V100", "fp16") == 125e12


def test_geforce_counts_the_rate_with_32_bit_accumulation():
    card = accelerator("rtx-4090")
    assert peak_flops(card, "fp16") == card.peaks["peak_fp16_fp32acc"]
    assert peak_flops(card, "fp16") == pytest.approx(card.peaks["peak_fp16"] / 2, rel=0.002)
    assert peak_flops(card, "fp8") == pytest.approx(2 * peak_flops(card, "fp16"), rel=0.002)
    assert peak_flops("h100-sxm", "fp16") == accelerator("h100-sxm").peaks["peak_fp16"]


def test_a_format_that_the_device_lacks_is_nan():
    assert math.isnan(peak_flops("v100", "bf16"))
    assert math.isnan(peak_flops("k40", "fp16"))
    assert formats("k40") == ["fp32"]
    assert "fp8" in formats("h100-sxm") and "fp4" not in formats("h100-sxm")


@pytest.mark.parametrize("name", ["fp16", "bf16", "int8"])
def test_peaks_of_a_table_are_those_of_its_devices(name):
    table = accelerator_table()
    np.testing.assert_array_equal(peak_flops(table, name), [peak_flops(key, name) for key in table["key"]])


def test_changes_take_text_and_si_alike():
    text = accelerator(like="h100-sxm", mem_bandwidth="4 TB/s", memory_bytes="128 GiB", peak_bf16="1.5 PFLOP/s")
    numbers = accelerator(like="h100-sxm", mem_bandwidth=4e12, memory_bytes=128 * 2**30, peak_bf16=1.5e15)
    assert text == numbers
    assert text.changed == {"mem_bandwidth": 4e12, "memory_bytes": 128 * 2**30, "peak_bf16": 1.5e15}
    assert text.peaks["peak_bf16"] == 1.5e15
    assert text.peaks["peak_fp32"] == accelerator("h100-sxm").peaks["peak_fp32"]


def test_a_change_leaves_the_catalogue_alone_and_can_be_changed_again():
    first = accelerator(like="h100-sxm", mem_bandwidth="4 TB/s")
    second = accelerator("mine", like=first, tdp_watts=350)
    assert accelerator("h100-sxm").mem_bandwidth == 3.35e12
    assert (second.name, second.mem_bandwidth, second.tdp_watts) == ("mine", 4e12, 350.0)
    assert set(second.changed) == {"mem_bandwidth", "tdp_watts"}
    assert first.key == second.key == "h100-sxm*"
    assert accelerator(first) is first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mem_bandwidth": "4 TFLOP/s"}, "wrong unit: expected one like B/s"),
        ({"mem_bandwidth": "4 TB"}, "wrong unit"),
        ({"mem_bandwidth": "4"}, "'4' has no unit of the kind B/s"),
        ({"memory_bytes": "12,5 GB"}, "decimals with a point"),
        ({"peak_bf16": "4 TFLOPs"}, "FLOP for a count"),
        ({"memory_bytes": "lots"}, "cannot read 'lots'"),
        ({"memory_bytes": -80e9}, "is outside its range; give 0.001 to 1e+21 B, such as '80 GB'"),
        ({"memory_bytes": "-80 GB"}, "is outside its range"),
        ({"tdp_watts": None}, "tdp_watts = None is not a number"),
        ({"mem_bandwith": "4 TB/s"}, "nearest: mem_bandwidth"),
        ({"peak_bf17": 1e15}, "nearest: peak_bf16"),
        ({"key": "x"}, "no field 'key'"),
    ],
)
def test_a_change_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        accelerator(like="h100-sxm", **changes)


def test_changes_without_like_and_nothing_at_all_are_refused():
    with pytest.raises(ValueError, match="needs like="):
        accelerator("h100-sxm", mem_bandwidth="4 TB/s")
    with pytest.raises(ValueError, match="needs a name"):
        accelerator()
    with pytest.raises(KeyError, match="nearest names: h100-sxm"):
        accelerator("h100-smx")
    with pytest.raises(KeyError, match="nearest names"):
        accelerator(like="h100-smx", mem_bandwidth=1)
    with pytest.raises(KeyError, match="nearest names"):
        peak_flops("h100-sxm", "fp17")


@given(st.floats(min_value=1.0, max_value=1e18), st.sampled_from(["memory_bytes", "mem_bandwidth", "peak_fp8"]))
def test_any_positive_figure_is_kept_exactly(value, field):
    changed = accelerator(like="a100-sxm-80gb", **{field: value})
    assert changed.changed == {field: value}


def test_a_record_cannot_be_changed_in_place_and_can_be_a_dictionary_key():
    card = accelerator("l4")
    with pytest.raises(dataclasses.FrozenInstanceError):
        card.tdp_watts = 1
    assert {card: 1}[accelerator("L4")] == 1


def test_the_table_has_one_row_an_accelerator_and_agrees_with_the_records():
    everything = accelerator_table()
    assert len(everything) == len(catalog.table("accelerators"))
    mine = accelerator("mine", like="h100-sxm", mem_bandwidth="4 TB/s")
    some = accelerator_table(["v100", mine, "l4"])
    assert some["key"].tolist() == ["v100-sxm2-16gb", "h100-sxm*", "l4"]
    assert some["mem_bandwidth"].tolist()[1] == 4e12
    assert list(some.columns) == list(everything.columns)
    assert some["peak_bf16"].isna().tolist() == [True, False, False]
    assert isinstance(some["sources"][0], tuple)


def test_every_accelerator_makes_a_record_with_a_figure_to_work_with():
    for key in catalog.table("accelerators")["key"]:
        card = accelerator(key)
        assert isinstance(card, Accelerator)
        assert card.peaks and all(math.isnan(peak) or peak > 0 for peak in card.peaks.values())


def test_no_accelerators_makes_an_empty_table_with_all_columns():
    assert list(accelerator_table([]).columns) == list(accelerator_table().columns)
    assert accelerator_table([]).empty


OWN = {"memory_bytes": "64 GB", "mem_bandwidth": "2 TB/s", "peak_bf16": "300 TFLOP/s"}


def test_figures_alone_make_an_accelerator_of_ones_own():
    mine = accelerator("My chip", **OWN, tdp_watts="400 W", generation="hopper", process_nm=5, scale_up_devices=64)
    assert (mine.key, mine.name, mine.vendor, mine.generation) == ("own: My chip", "My chip", "", "hopper")
    assert (mine.memory_bytes, mine.mem_bandwidth, mine.tdp_watts) == (64e9, 2e12, 400.0)
    assert (mine.process_nm, mine.scale_up_devices, mine.like) == (5.0, 64.0, "")
    assert formats(mine) == ["bf16"] and peak_flops(mine, "bf16") == 300e12
    assert math.isnan(mine.peaks["peak_fp32"]) and math.isnan(mine.device_link) and math.isnan(mine.host_link)
    assert set(mine.changed) == {*OWN, "tdp_watts", "generation", "process_nm", "scale_up_devices"}
    assert accelerator("My chip", **OWN).generation == ""
    assert accelerator_table([mine, "l4"])["key"].tolist() == ["own: My chip", "l4"]
    wider = accelerator(like=mine, mem_bandwidth="3 TB/s")
    assert (wider.key, wider.name, wider.mem_bandwidth) == ("own: My chip", "My chip", 3e12)
    assert accelerator("Next chip", like=mine, tdp_watts=500).key == "own: Next chip"


def test_keys_of_ones_own_never_meet_the_catalogue():
    for key in catalog.table("accelerators")["key"]:
        assert not key.startswith("own") and " " not in key
        assert accelerator(key).like == key
    assert accelerator(like="l4", tdp_watts=80).like == "l4"


@pytest.mark.parametrize(
    ("name", "figures", "message"),
    [
        ("My chip", {"mem_bandwidth": 2e12}, "needs memory_bytes, a peak such as peak_bf16 too"),
        ("My chip", {"memory_bytes": 64e9, "mem_bandwidth": 2e12}, "needs a peak"),
        ("h100-smx", {"mem_bandwidth": 2e12}, "write accelerator(like='h100-sxm'"),
        ("H100 SXM5", OWN, "needs like=, as the catalogue has h100-sxm"),
        ("", OWN, "must be text of 1 to 80 letters"),
        ("  ", OWN, "must be text of 1 to 80 letters"),
        ("x" * 1000, OWN, "must be text of 1 to 80 letters"),
        ("two\nlines", OWN, "must be text of 1 to 80 letters"),
        (5, OWN, "name = 5 is no name"),
        ("My chip", {**OWN, "generation": "hoper"}, "nearest: hopper"),
        ("My chip", {**OWN, "generation": 5}, "generation = 5 is not in the table"),
        ("My chip", {**OWN, "kind": "toaster"}, "kind = 'toaster' is not in the table"),
        ("My chip", {**OWN, "scale_up_devices": 2.5}, "is not whole; give a whole number from 1"),
        ("My chip", {**OWN, "device_link": "900"}, "has no unit of the kind B/s"),
        ("My chip", {**OWN, "vendor": "Me"}, "has no field 'vendor'"),
    ],
)
def test_an_accelerator_of_ones_own_says_what_it_lacks(name, figures, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        accelerator(name, **figures)
    assert len(str(refused.value)) <= 300


HOSTILE = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    1e308,
    1e-300,
    10**400,
    10**5000,
    "",
    "abc",
    [],
    {},
    object(),
    True,
    [[1, [2]]],
    np.ones(3),
    np.ones((2, 2)),
    np.array(5.0),
    "9" * 100_000,
    "x" * 100_000,
    b"5",
    1j,
    {1: 2},
    set(range(1000)),
    list(range(100_000)),
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["memory_bytes", "peak_fp8", "scale_up_devices", "generation", "process_nm"])
def test_hostile_figures_are_refused_in_words(name, value, within):
    for call in (
        lambda: accelerator(like="h100-sxm", **{name: value}),
        lambda: accelerator("My chip", **{**OWN, name: value}),
    ):
        with within(3), pytest.raises(ValueError) as refused:
            call()
        assert name in str(refused.value) and len(str(refused.value)) <= 300


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_hostile_names_are_refused_in_words(value, within):
    for call in (
        lambda: accelerator(value),
        lambda: accelerator("mine", like=value, tdp_watts=100) if value is not None else accelerator(None),
        lambda: peak_flops(value, "bf16"),
        lambda: peak_flops("h100-sxm", value),
        lambda: formats(value),
        lambda: accelerator_table([value]),
    ):
        with within(6), pytest.raises((ValueError, KeyError)) as refused:
            call()
        assert type(refused.value) in (ValueError, catalog.Refused, catalog.UnknownName)
        assert len(str(refused.value)) <= 300


def test_no_mapping_of_a_record_can_be_changed_in_place():
    card = accelerator(like="l4", tdp_watts=60)
    with pytest.raises(TypeError):
        card.peaks["peak_fp32"] = 1.0
    with pytest.raises(TypeError):
        card.changed["tdp_watts"] = 1.0
    assert accelerator("l4").tdp_watts == 72


def test_equal_figures_make_equal_records_and_travel_between_processes():
    for card in (accelerator("v100"), accelerator(like="l4", tdp_watts=60), accelerator("My chip", **OWN)):
        for other in (pickle.loads(pickle.dumps(card)), copy.deepcopy(card)):
            assert other == card and hash(other) == hash(card)
    assert accelerator("My chip", **OWN) == accelerator("My chip", **dict(reversed(OWN.items())))
    assert accelerator("My chip", **OWN) != accelerator("My chip", **{**OWN, "mem_bandwidth": 1e12})
    assert accelerator("l4") != "l4"


def test_published_links_of_devices_in_one_direction():
    """NVIDIA states both directions: H100 NVLink 900 GB/s; a GH200 half of it to its host; PCIe 4.0 x16 31.5 GB/s."""
    assert accelerator("h100-sxm").device_link == 450e9
    assert accelerator("gh200-96gb").host_link == 450e9
    assert accelerator("gb200").host_link == 225e9
    assert accelerator("a100-sxm-80gb").host_link == pytest.approx(31.5e9)
    assert accelerator("gb200").scale_up_devices == 72
    assert accelerator("rtx-4090").device_link_kind == "" and math.isnan(accelerator("rtx-4090").device_link)
    assert accelerator("rtx-3090").device_link_kind == "bridge"


@pytest.mark.parametrize(
    "name, key",
    [
        ("Ascend 910B", "ascend-910b"),
        ("Strix Halo", "strix-halo"),
        ("DGX Spark", "gb10-dgx-spark"),
        ("MI250", "mi250"),
        ("Tenstorrent Wormhole", "wormhole-n300"),
        ("Blackhole", "blackhole-p150"),
        ("RX 7900 XT", "radeon-rx-7900-xt"),
    ],
)
def test_devices_of_the_released_measurements_by_their_spoken_names(name, key):
    assert accelerator(name).key == key
