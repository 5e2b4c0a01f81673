"""Accelerators as records: from the catalogue, or made up from one with some figures changed."""

import dataclasses
import math
import re

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
        ({"memory_bytes": -80e9}, "must be above 0 and finite, for example '80 GB'"),
        ({"memory_bytes": "-80 GB"}, "must be above 0"),
        ({"tdp_watts": 0}, "must be above 0"),
        ({"tdp_watts": math.nan}, "must be above 0"),
        ({"tdp_watts": math.inf}, "must be above 0"),
        ({"tdp_watts": None}, "tdp_watts is None"),
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
