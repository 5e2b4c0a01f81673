"""Plans of training runs: by hand arithmetic, monotone where they must be, inverse questions invert, errors help."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

import cookbook as cb
from cookbook.catalog import UnknownName
from cookbook.prediction.kinds.constraints import even_stages
from cookbook.topics.runs.search import layout_words
from cookbook.topics.runs.training_run import TrainingRun, known_failures, plan_run

COUNTS = [32, 64, 128]
SAME: dict[str, Any] = {
    "model": "llama2_7b",
    "accelerator": "h100-sxm",
    "tokens": 1e12,
    "global_batch": 512,
    "seq": 4096,
}


@pytest.fixture(scope="module")
def run() -> TrainingRun:
    return plan_run(devices=COUNTS, **SAME)


def test_days_hours_and_usd_by_hand(run: TrainingRun) -> None:
    price = cb.planning.hourly_usd("h100-sxm")
    for _, row in run.table.iterrows():
        days = 1e12 / (512 * 4096) * row["step_seconds"] / row["goodput"] / 86400
        assert row["days"] == pytest.approx(days)
        assert row["device_hours"] == pytest.approx(days * 24 * row["devices"])
        assert row["usd"] == pytest.approx(days * 24 * row["devices"] * price.median)
        assert row["usd_low"] == pytest.approx(row["days_low"] * 24 * row["devices"] * price.low)
        assert row["usd_high"] == pytest.approx(row["days_high"] * 24 * row["devices"] * price.high)
        assert row["energy_kwh"] == pytest.approx(row["device_hours"] * 0.7)  # 700 W
        assert row["days_low"] < row["days"] < row["days_high"]


def test_the_layout_is_the_best_of_the_search(run: TrainingRun) -> None:
    for count in COUNTS:
        best = cb.planning.search("llama2_7b", "h100-sxm", count, 512, seq=4096).table.iloc[0]
        row = run.table.set_index("devices").loc[count]
        assert row["step_seconds"] == pytest.approx(best["step_seconds"])
        assert row["memory_bytes"] + row["headroom_bytes"] == pytest.approx(80 * 2**30)
        assert run.parts.loc[count].sum() == pytest.approx(row["step_seconds"])
        assert run.memory.loc[count].sum() == pytest.approx(row["memory_bytes"])


def test_a_step_costs_what_hourly_usd_says(run: TrainingRun) -> None:
    assert run.layouts is not None
    table = run.layouts.table
    hour = cb.planning.hourly_usd("h100-sxm").median
    np.testing.assert_allclose(table["step_usd"], table["devices"] * table["step_seconds"] * hour / 3600)
    assert cb.planning.search("gpt2", "gb200", 8, 8).table["step_usd"].isna().all()


def test_utilisation_by_hand() -> None:
    layout = {"tp": 8, "pp": 1, "recompute": "full"}
    row = plan_run(devices=32, layout=layout, **SAME).table.iloc[0]
    parameters = cb.model("llama2_7b").ops.parameter_count
    flop = (6 * parameters + 12 * 32 * 4096 * 4096) * row["tokens_per_second"]
    assert row["mfu"] == pytest.approx(flop / (32 * 989.4e12), rel=1e-3)
    assert row["hfu"] / row["mfu"] == pytest.approx(4 / 3)
    assert row["mfu_high"] / row["mfu_low"] == pytest.approx(row["step_high"] / row["step_low"])
    none = plan_run(devices=32, layout={**layout, "recompute": "none"}, **SAME).table.iloc[0]
    assert none["hfu"] == none["mfu"] > row["mfu"]


def test_failures_by_hand(run: TrainingRun) -> None:
    given = {"mtbf_hours": 40_000.0, "checkpoint_bandwidth": "10 GB/s", "restart": "10 min"}
    plan = plan_run(devices=COUNTS, **SAME, **given)
    size = 14 * cb.model("llama2_7b").ops.parameter_count
    assert plan.checkpoint_bytes == pytest.approx(size)
    for _, row in plan.table.iterrows():
        between, write = 40_000 * 3600 / row["devices"], size / 1e10
        best = float(cb.parallelism.daly_2006_interval_seconds(write, between))
        assert row["checkpoint_interval_seconds"] == pytest.approx(best)
        lost = write / best + (best / 2 + 600) / between
        assert row["goodput"] == pytest.approx(1 - lost, abs=1e-3)
        assert row["goodput_low"] == row["goodput"] == row["goodput_high"]
        assert row["failures"] == pytest.approx(row["days"] * 86400 / between)
    young = plan_run(devices=COUNTS, **SAME, **given, interval=cb.parallelism.young_1974_interval_seconds)
    assert (young.table["goodput"] <= plan.table["goodput"] + 1e-9).all()
    assert (run.table["goodput_low"] < run.table["goodput"]).all()


def test_published_failures_are_those_of_the_table() -> None:
    rows = cb.table("long_runs")
    years = rows["devices"] * rows["duration"] / rows["interruptions"]
    assert known_failures().mtbf_seconds == pytest.approx((years.min(), years.median(), years.max()))
    llama = rows[rows["name"].str.startswith("Llama 3")].iloc[0]
    alone = known_failures(float(llama["devices"] * 54 * 24 / 419), restart=0.0)
    assert alone.mtbf_seconds[0] / 16_384 == pytest.approx(3.093 * 3600, rel=1e-3)


def test_the_curve_over_intervals_peaks_at_the_best(run: TrainingRun) -> None:
    curve = run.over_intervals(64)
    best = curve.loc[curve["goodput"].idxmax()]
    row = run.table.set_index("devices").loc[64]
    assert best["goodput"] == pytest.approx(row["goodput"], rel=1e-3)
    assert curve.loc[curve["by"] == "Daly 2006", "interval_seconds"].item() == row["checkpoint_interval_seconds"]


def test_more_devices_are_faster_and_fail_more(run: TrainingRun) -> None:
    table = run.table
    assert table["days"].is_monotonic_decreasing and table["mfu"].is_monotonic_decreasing
    assert table["goodput"].is_monotonic_decreasing
    twice = plan_run(devices=COUNTS, **{**SAME, "tokens": "2 T"})
    np.testing.assert_allclose(twice.table["usd"], 2 * table["usd"])


def test_inverse_questions_invert(run: TrainingRun) -> None:
    tokens = run.tokens_possible(250_000)
    for count, possible in tokens.items():
        again = plan_run(devices=int(count), **{**SAME, "tokens": float(possible)})
        assert again.table["usd"].item() == pytest.approx(250_000)
    for _, row in run.table.iterrows():
        assert run.devices_needed(row["days"])["devices"] == row["devices"]
        assert run.devices_needed(row["days"] * 1.001)["devices"] == row["devices"]
    with pytest.raises(ValueError, match=r"days = 0\.5: the fastest of those tried, 128 devices, takes"):
        run.devices_needed(0.5)
    for bad in (0, -1, "soon"):
        with pytest.raises(ValueError, match=r"is (?:outside its range|not a number); give a number more than 0"):
            run.devices_needed(bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"is (?:outside its range|not a number); give a number more than 0"):
            run.tokens_possible(bad)  # type: ignore[arg-type]


def test_prices_given_and_missing(run: TrainingRun) -> None:
    given = plan_run(devices=COUNTS, **SAME, hourly=2.0).table
    np.testing.assert_allclose(given["usd"], given["device_hours"] * 2)
    np.testing.assert_allclose(given["usd_high"] / given["usd_low"], given["days_high"] / given["days_low"])
    spot = plan_run(devices=COUNTS, **SAME, way="spot")
    assert spot.price == cb.planning.hourly_usd("h100-sxm", "spot")
    missing = plan_run(devices=64, **{**SAME, "accelerator": "gb200"})
    assert missing.table["usd"].isna().all() and missing.price.why and missing.table["days"].notna().all()
    assert missing.tokens_possible(1e6).isna().all()
    server = plan_run(devices=COUNTS, **{**SAME, "accelerator": "dgx-h100"}).table
    np.testing.assert_allclose(server["usd"], run.table["usd"])


def test_what_if_the_machine_were_another(run: TrainingRun) -> None:
    days = run.table.set_index("devices").loc[64, "days"]

    def of(**changes: Any) -> float:
        return float(plan_run(devices=64, **{**SAME, **changes}).table["days"].item())

    assert of(accelerator=cb.accelerator(like="h100-sxm", mem_bandwidth="6.7 TB/s")) < days
    assert of(accelerator=cb.accelerator(like="h100-sxm", peak_bf16="2 PFLOP/s")) < days
    assert of(precision="fp8") < days
    assert of(network="25 Gbit/s") > days
    assert of(per_node=2) > days
    small = cb.accelerator(like="h100-sxm", memory_bytes="12 GB")
    held = plan_run(devices=64, **{**SAME, "accelerator": small}).table.iloc[0]
    assert held["memory_bytes"] <= 12e9 and held["days"] >= days
    long = plan_run(devices=64, **{**SAME, "seq": 131_072, "global_batch": 2}).table.iloc[0]
    assert long["cp"] > 1 and long["days"] > days
    wide = cb.planning.search("llama2_7b", "h100-sxm", 64, 512, seq=4096, per_node=32)
    assert wide.table["tp"].max() == 32
    assert cb.accelerator("h100-sxm").memory_bytes > 12e9  # the catalogue is not changed


def test_edge_stages_may_have_a_layer_less() -> None:
    assert even_stages(126, 16) and not even_stages(126, 5)
    run = plan_run("llama3_405b", "h100-sxm", 512, 1e12, seq=8192, layout={"tp": 8, "pp": 16})
    assert run.table["pp"].item() == 16


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layout": {"tp": 6}}, "tp = 6 does not divide 32 heads; nearest: 4 or 8"),
        ({"layout": {"tp": 16}}, "tp = 16 is more than the 8 devices that the fast link joins"),
        ({"layout": {"pp": 3}}, "pp = 3 does not divide 32 layers; nearest: 2 or 4"),
        ({"layout": {"pp": 4, "vp": 3}}, "vp = 3 does not divide the layers of pp = 4 stages; nearest: 2 or 4"),
        ({"layout": {"cp": 3}}, "cp = 3 does not divide 4,096 tokens of a sequence; nearest: 2 or 4"),
        ({"layout": {"ep": 2}}, "ep = 2 does not divide 1 experts; nearest: 1"),
        ({"devices": 100, "layout": {"tp": 8}}, "devices = 100 is not a multiple of tp = 8; nearest: 96 or 104"),
        (
            {"global_batch": 8, "layout": {"tp": 1, "pp": 1}},
            "global_batch = 8 is not a multiple of replicas x micro-batch = 64 x 1 = 64; nearest: 64",
        ),
        (
            {"layout": {"dp": 64, "micro_batch": 3}},
            "512 is not a multiple of replicas x micro-batch = 64 x 3 = 192; nearest: 384 or 576",
        ),
        ({"devices": 37}, "cannot share 32 heads, 32 layers and global_batch = 512 evenly; nearest: 32 or 64 devices"),
        ({"layout": {"tp": 1, "pp": 1, "zero": 0}}, "of the layouts that fit none has tp = 1, pp = 1, zero = 0"),
        ({"layout": {"size": 4}}, "layout has no axis 'size'; it has tp, pp"),
        ({"layout": {"recompute": "some"}}, "recompute = 'some' is not a choice"),
        ({"model": "llama2_70b", "devices": 4}, "no layout fits the memory; the smallest of those tried needs"),
        ({"checkpoint_bandwidth": "0 GB/s"}, "checkpoint_bandwidth"),
        ({"network": "-1 Gbit/s"}, "network"),
        ({"model": "resnet50"}, "resnet50"),
        ({"devices": "64"}, "devices = '64' is not a number; give a whole number from 1 to 1,048,576"),
        ({"mtbf_hours": 1e-3}, "devices = 64: a failure every 56.2 ms"),
        ({"interval": lambda write, between: -write}, "interval must be a function of the times"),
    ],
)
def test_errors_name_what_and_the_nearest(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as problem:
        plan_run(**{**SAME, "devices": 64, **changes})
    assert words in str(problem.value)


def test_unknown_names_get_the_nearest() -> None:
    for changes in ({"model": "llama2_7"}, {"accelerator": "h100-sxn"}):
        with pytest.raises(UnknownName):
            plan_run(**{**SAME, "devices": 64, **changes})


def test_among_several_those_without_a_layout_say_why() -> None:
    run = plan_run("llama2_70b", "h100-sxm", [4, 37, 64], 1e12, seq=4096)
    table = run.table.set_index("devices")
    assert "needs" in table.loc[4, "why"] and "cannot share" in table.loc[37, "why"] and table.loc[64, "why"] == ""
    assert table["days"].isna().tolist() == [True, True, False]
    assert run.parts.loc[37].isna().all() and layout_words(table.loc[37]) == "none"
    assert run.devices_needed(1e6)["devices"] == 64


def test_among_several_those_that_fail_too_often_say_why() -> None:
    run = plan_run(devices=[64, 8192], **{**SAME, "global_batch": 8192}, mtbf_hours=90)
    table = run.table.set_index("devices")
    assert table.loc[64, "why"] == "" and "a failure every 39.6 s" in table.loc[8192, "why"]
    assert np.isnan(table.loc[8192, "days"]) and np.isnan(table.loc[8192, "usd"]) and "64 devices" in repr(run)


def test_a_million_devices_that_nothing_divides_are_told_soon() -> None:
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"devices = 999,983 cannot share"):
        plan_run(devices=999_983, **SAME)
    assert time.monotonic() - start < 5


def test_the_run_tells_what_was_assumed_and_reads_well(run: TrainingRun) -> None:
    names = {each.split(" = ")[0] for each in run.assumed}
    assert {"precision", "software", "attention", "way", "mtbf_hours", "restart", "sequence_parallel"} <= names
    assert not {"seq", "global_batch"} & names  # they were given
    best = run.table.iloc[-1]
    assert f"{best['tokens_per_second']:,.0f} tokens/s" in repr(run) and len(repr(run)) < 300
    page = run._repr_html_()
    assert "--jp-ui-font-color1" in page and "6 N D" in page and "megatron-core" in page
    assert run.training_flop == pytest.approx(6 * cb.model("llama2_7b").ops.parameter_count * 1e12)
    json.dumps(run.to_dict(), allow_nan=False)
    assert len(run.to_dict()["runs"]) == len(run.frame()) == len(COUNTS)
    changed = run.table
    changed["days"] = 0.0
    assert (run.table["days"] > 0).all()


def test_devices_needed_for_certain_are_more(run: TrainingRun) -> None:
    """The upper end of the interval is in time, too."""
    days = float(run.table["days"].iloc[0]) * 1.001
    usual, certain = run.devices_needed(days), run.devices_needed(days, certain=True)
    assert certain["devices"] > usual["devices"] and certain["days_high"] <= days < usual["days_high"]


def test_what_is_assumed_is_told_once() -> None:
    run = cb.plan_run("llama2_7b", "h100-sxm", 16, tokens=1e9, global_batch=64)
    names = [each.partition(" = ")[0] for each in run.assumed]
    assert len(names) == len(set(names)), names
