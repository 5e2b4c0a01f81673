"""One workload on many devices: equal to single calls, missing as missing; the founding table; growth by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.catalog import UnknownName
from cookbook.topics.costs import cost
from cookbook.topics.devices import comparison

DEVICES = ["h100-sxm", "k40", "tpu-v5e", "xeon-platinum-8592", "jetson-agx-orin-64gb"]
# The founding deck's table of hardware, as quoted from its slide: device, field, figure, unit.
DECK = [
    ("k40", "peak_fp32", 4.29, "TFLOP/s"),
    ("k40", "memory_bytes", 12, "GiB"),
    ("k80-board", "peak_fp32", 5.6, "TFLOP/s"),
    ("k80-board", "peak_fp32", 8.74, "TFLOP/s"),
    ("k80-board", "memory_bytes", 24, "GiB"),
    ("p100-sxm2-16gb", "peak_fp32", 10.6, "TFLOP/s"),
    ("p100-sxm2-16gb", "memory_bytes", 16, "GiB"),
    ("v100-sxm2-16gb", "peak_fp32", 15, "TFLOP/s"),
    ("v100-sxm2-16gb", "peak_fp16_vector", 30, "TFLOP/s"),
    ("v100-sxm2-16gb", "peak_fp16", 120, "TFLOP/s"),
    ("v100-sxm2-16gb", "memory_bytes", 12, "GiB"),
    ("tpu-v2-8", "peak_bf16", 180, "TFLOP/s"),
    ("xeon-phi-7120p", "peak_fp32", 2.4, "TFLOP/s"),
]


@pytest.fixture(scope="module")
def inference():
    return cb.planning.compare("resnet50", phase="inference", batch=8, precision="int8")


@pytest.mark.parametrize("name", ["resnet50", "gpt2"])
def test_training_is_that_of_single_calls(name: str) -> None:
    table = cb.planning.compare(name, DEVICES[:3], phase="training", batch=8, software="PyTorch NGC")
    for row in table.to_dict("records"):
        one = cb.train_step(name, row["key"], batch=8, precision=row["precision"], software="PyTorch NGC")
        assert row["samples_per_s"] == pytest.approx(8 / one.point)
        assert (row["low"], row["high"]) == pytest.approx((8 / one.high80, 8 / one.low80))
        assert row["tier"] == one.tier
        kwh = cost.power_watts(
            row["tdp_watts"], cost.active_seconds(one) / one.point, cost.shares()[0].low, cost.shares()[1].low
        )
        assert row["joules_low"] == pytest.approx(kwh * one.low80 / 8)


def test_inference_is_that_of_single_calls() -> None:
    table = cb.planning.compare("resnet50", DEVICES, phase="inference", batch=16, software="TensorRT")
    for row in table.to_dict("records"):
        one = cb.forward_pass("resnet50", row["key"], batch=16, precision=row["precision"], software="TensorRT")
        assert row["samples_per_s"] == pytest.approx(16 / one.point)
        assert (row["low"], row["high"]) == pytest.approx((16 / one.high80, 16 / one.low80))


def test_cost_is_the_price_over_the_rate() -> None:
    row = cb.planning.compare("resnet50", ["h100-sxm"], phase="training", way="spot", since=2025).iloc[0]
    price = cb.planning.hourly_usd("h100-sxm", "spot", 2025)
    assert row["usd_per_million"] == pytest.approx(price.median / 3600 / row["samples_per_s"] * 1e6)
    assert row["usd_per_million_low"] == pytest.approx(price.low / 3600 / row["high"] * 1e6)
    assert row["usd_per_million_high"] == pytest.approx(price.high / 3600 / row["low"] * 1e6)
    assert (row["price_first"], row["price_last"], row["price_rows"]) == (price.first, price.last, price.rows)


def test_missing_is_missing_with_a_reason_and_never_zero(inference) -> None:
    for figure, why in (("samples_per_s", "why"), ("usd_per_million", "why_usd"), ("joules", "why_joules")):
        lacks = inference[figure].isna()
        assert lacks.any() and (~lacks).any()
        assert (inference.loc[lacks, why] != "").all() and (inference.loc[~lacks, why] == "").all()
        assert (inference[figure].dropna() > 0).all()
    assert (inference["low"].dropna() < inference["high"].dropna()).all()
    assert set(inference["fits"]) <= {"yes", "no", "not known", ""}


def test_a_device_without_the_format_says_which_it_has() -> None:
    why = cb.planning.compare("resnet50", ["k40"], phase="inference", precision="fp8")["why"][0]
    assert why == "precision = 'fp8': Tesla K40 has fp32; take one of these"


def test_what_runs_trained_networks_alone_does_not_train() -> None:
    table = cb.planning.compare("resnet50", ["alveo-u250", "inferentia2", "tpu-v1", "coral-edge-tpu"], phase="training")
    assert table["samples_per_s"].isna().all() and table["why"].str.contains("choose inference").all()


def test_a_format_that_does_not_train_is_no_figure() -> None:
    table = cb.planning.compare("resnet50", ["t4"], phase="training", precision="int8")
    assert "'int8': networks of this kind are not predicted in 8 or 4 bits" in table["why"][0]


def test_prompts_beyond_the_memory_are_read_wave_after_wave() -> None:
    """However many prompts are asked for, none comes faster than when memory is full, nor beyond the peak."""
    devices = ["h100-sxm", "rtx-4090", "mi300x"]
    rates = {batch: cb.planning.compare("llama3_8b", devices, phase="inference", batch=batch) for batch in (512, 1024)}
    assert (rates[1024]["share_of_peak"] < 1).all()
    np.testing.assert_allclose(rates[1024]["samples_per_s"], rates[512]["samples_per_s"], rtol=1e-3)
    once, twice = (cb.forward_pass("llama3_8b", "h100-sxm", batch=batch) for batch in (512, 1024))
    assert twice.point == pytest.approx(2 * once.point, rel=1e-3) and twice.rate == pytest.approx(once.rate, rel=1e-3)


def test_a_network_too_large_does_not_fit() -> None:
    table = cb.planning.compare("vgg16", ["rtx-4070-laptop", "h100-sxm"], phase="training", batch=128)
    assert table["fits"].tolist() == ["no", "yes"]
    small = cb.planning.compare("vgg16", ["rtx-4070-laptop"], phase="inference", batch=1)
    assert small["fits"].tolist() == ["yes"] and small["memory_bytes"][0] > 138e6 * 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"seq": 128}, "seq"),
    ],
)
def test_bad_input_is_told_in_plain_words(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cb.planning.compare(**{"model": "resnet50", "accelerators": ["t4"], **wrong})


@pytest.mark.parametrize("wrong", [{"model": "resnet5O"}, {"accelerators": ["h100-sxn"]}, {"precision": "fp13"}])
def test_unknown_names_are_told_with_the_nearest(wrong: dict[str, object]) -> None:
    with pytest.raises(UnknownName):
        cb.planning.compare(**{"model": "resnet50", "accelerators": ["t4"], **wrong})


def test_an_accelerator_of_ones_own_has_a_row_like_any_other() -> None:
    """Its facts are its own; what the engine predicts of it is that of a single call, or the reason stands there."""
    wide = cb.accelerator(like="h100-sxm", mem_bandwidth="7 TB/s")
    row = cb.planning.compare("resnet50", ["t4", wide], batch=8).set_index("key").loc["h100-sxm*"]
    assert row["mem_bandwidth"] == 7e12 and row["ridge"] == pytest.approx(989e12 / 7e12) and row["fits"] == "yes"
    assert math.isnan(row["usd_per_million"]) and row["why_usd"]
    try:
        one = cb.train_step("resnet50", wide, batch=8)
    except (ValueError, KeyError):
        assert row["why"] and math.isnan(row["samples_per_s"])
    else:
        assert row["samples_per_s"] == pytest.approx(8 / one.point) and "no price is known" in row["why_usd"]


def test_networks_that_read_sequences_have_tokens_a_second() -> None:
    table = cb.planning.compare("gpt2", ["h100-sxm"], batch=4, seq=512).iloc[0]
    assert table["tokens_per_s"] == pytest.approx(512 * table["samples_per_s"])
    assert table["tokens_per_s_low"] < table["tokens_per_s"] < table["tokens_per_s_high"]
    assert cb.planning.compare("resnet50", ["h100-sxm"])["tokens_per_s"].isna().all()


def test_one_name_of_a_quantity_is_not_its_letters() -> None:
    one = comparison.growth_lines(quantities="flops")
    assert set(one["words"].str.split(":").str[0]) == {"FLOP/s"}
    for wrong in (5, None, ["colour"], [[]]):
        with pytest.raises(ValueError, match=r"take one of|take flops"):
            comparison.growth_lines(quantities=wrong)
    with pytest.raises(ValueError, match="level"):
        comparison.growth_rates(level="abc")


def test_every_kind_of_device_can_be_compared_and_is_judged(inference) -> None:
    kinds = set(inference["kind"])
    judged = cb.table("programmability").set_index("kind")
    assert set(judged.index) == kinds and (judged["how"] == "judgement").all()
    usual = cb.planning.compare("resnet50", phase="inference")
    assert set(usual.loc[usual["samples_per_s"].notna(), "kind"]) == kinds


def test_roofs_bend_at_the_ridge() -> None:
    table = cb.planning.compare("resnet50", ["v100-sxm2-16gb"], precision="fp16")
    low, bend, high = comparison.roofs(table, 1, 1000)["attainable_flops"]
    assert (low, bend, high) == pytest.approx((897e9, 125e12, 125e12))
    assert table["ridge"][0] == pytest.approx(125e12 / 897e9)


@pytest.mark.parametrize(("key", "field", "value", "unit"), DECK)
def test_each_figure_of_the_founding_table_is_sourced_and_its_trap_flagged(
    key: str, field: str, value: float, unit: str
) -> None:
    ours = cb.provenance(key, field)
    deck = [s for s in (*ours.alternatives, *ours.rejected) if s.source == "hpe-dl-cookbook"]
    figure = cb.si(f"{value} {unit}")
    (said,) = (s for s in deck if s.value == pytest.approx(figure))
    assert ours.source and ours.source != "hpe-dl-cookbook" and catalog.cite(ours.source)
    assert cb.accelerator(key).peaks.get(field, cb.accelerator(key).memory_bytes) == ours.value
    if abs(figure / ours.value - 1) > 0.01:
        assert any(trap in said.note for trap in ("clock", "board, not die", "wrong memory")), said.note


def test_the_founding_table_has_thirteen_figures_of_six_devices() -> None:
    rows = cb.table("accelerator_provenance").query("source == 'hpe-dl-cookbook'")
    assert len(rows) == len(DECK) == 13 and rows["accelerator"].nunique() == 6


def test_the_traps_of_the_founding_table_are_clocks_dies_and_memory() -> None:
    k40, phi = cb.provenance("k40", "peak_fp32"), cb.provenance("xeon-phi-7120p", "peak_fp32")
    assert 4.29e12 / k40.value == pytest.approx(745 / 876, rel=0.005)
    assert 2.4e12 / phi.value == pytest.approx(1238 / 1333, rel=0.01)
    board, die = (cb.accelerator(key).memory_bytes for key in ("k80-board", "k80-die"))
    assert board == 2 * die
    shipped = {cb.accelerator(f"v100-sxm2-{size}gb").memory_bytes / 2**30 for size in (16, 32)}
    assert shipped == {16, 32} and 12 not in shipped


def test_growth_of_points_on_a_line_is_exact() -> None:
    fit = comparison.least_squares_growth([2014, 2016, 2018, 2024], 3.0 * 1.5 ** np.array([0, 2, 4, 10]))
    assert (fit.per_year, fit.low, fit.high) == pytest.approx((1.5, 1.5, 1.5))
    assert fit.doubling_years == pytest.approx(math.log(2) / math.log(1.5))
    assert float(fit.line(2014)) == pytest.approx(3.0) and fit.scatter == pytest.approx(1)


def test_growth_of_three_points_by_hand() -> None:
    """ln v = 0, 1, 1: slope 1/2, residuals -1/6, 1/3, -1/6, so s^2 = 1/6 with one degree of freedom."""
    fit = comparison.least_squares_growth([2000, 2001, 2002], np.exp([0, 1, 1]))
    reach = math.tan(math.pi * 0.4) * math.sqrt(1 / 6) / math.sqrt(2)
    assert fit.per_year == pytest.approx(math.exp(0.5))
    assert (fit.low, fit.high) == pytest.approx((math.exp(0.5 - reach), math.exp(0.5 + reach)))


@pytest.mark.parametrize(
    ("years", "values", "words"),
    [
        ([2014, 2016], [1, 2], "three dates"),
        ([2014, 2014, 2014], [1, 2, 3], "more than one date"),
        ([2014, 2016, 2018], [1, 0, 2], "above 0"),
        ([2014, 2016, 2018], [1, float("nan"), 2], "above 0"),
    ],
)
def test_growth_of_too_little_is_refused(years: list[float], values: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        comparison.least_squares_growth(years, values)


def test_growth_that_two_devices_state_is_missing_with_a_reason() -> None:
    rates = cb.planning.growth_rates(["k40", "v100-sxm2-16gb"]).set_index("quantity")
    assert rates["per_year"].isna().all() and rates["why"].str.contains("three dates").all()
    assert "flops" in set(cb.planning.milestones(["k40"])["quantity"])


def test_ratios_grow_as_their_parts() -> None:
    """The slope of a logarithm of a ratio is the difference of slopes where both are stated of the same devices."""
    rates = cb.planning.growth_rates(["k40", "p100-sxm2-16gb", "v100-sxm2-16gb", "h100-sxm"]).set_index("quantity")
    per_year = rates["per_year"]
    assert per_year["flop_per_byte"] == pytest.approx(per_year["flops"] / per_year["bandwidth"])


def test_lines_of_growth_need_three_devices() -> None:
    with pytest.raises(ValueError, match="at least three devices"):
        comparison.growth_lines(["k40"])


@pytest.mark.parametrize("device", ["gaudi3", "h100-sxm", "rtx-4090", "v100-sxm2-32gb"])
def test_prompts_of_a_comparison_are_those_of_an_answer(device: str) -> None:
    """Nobody names a format: both doors take one of 16 bits, and of two the faster."""
    table = cb.compare("llama3_8b", [device], phase="inference", batch=1)
    first = cb.generate(
        "llama3_8b", device, input_len=cb.model("llama3_8b").seq, output_len=1, batch=1, tp=1, delay_of="first token"
    )
    assert table["tokens_per_s"].iloc[0] == pytest.approx(cb.model("llama3_8b").seq / first.point, rel=1e-3)
    each = [
        cb.generate("llama3_8b", device, tp=1, precision=name, delay_of="first token").point
        for name in ("fp16", "bf16")
        if name in table["formats"].iloc[0].split(", ")
    ]
    assert cb.generate("llama3_8b", device, tp=1, delay_of="first token").point == min(each)
