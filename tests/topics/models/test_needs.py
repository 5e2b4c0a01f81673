"""Models that run on a machine, and machines that hold a model: against the predictions that they are made of."""

import math
import subprocess

import numpy as np
import pytest

import cookbook as cb
from cookbook.catalog import Refused, UnknownName
from cookbook.publish.commands import as_text
from cookbook.topics.machine import environment
from cookbook.topics.models import needs
from cookbook.topics.models.needs import need, what_runs


@pytest.fixture(scope="module")
def running():
    return what_runs("rtx-4090")


def row_of(found, name: str, precision: str) -> dict:
    table = found.table
    return table[(table["name"] == name) & (table["precision"] == precision)].iloc[0].to_dict()


@pytest.mark.parametrize(("name", "precision"), [("llama3_8b", "bf16"), ("qwen3_14b", "int8"), ("gpt_oss_20b", "fp4")])
def test_a_row_is_the_prediction_of_one_call(running, name, precision):
    one, row = cb.generate(name, "rtx-4090", weights_format=precision), row_of(running, name, precision)
    assert row["memory_bytes"] == pytest.approx(one.memory_bytes) and row["fits"] == one.fits == "yes"
    for column, seconds in (("", one.point), ("_low", one.high80), ("_high", one.low80)):
        assert row[f"tokens_per_s{column}"] == pytest.approx(128 / seconds)
    assert row["tier"] == one.tier


def test_what_does_not_fit_has_memory_and_no_speed(running):
    row = row_of(running, "llama3_70b", "bf16")
    assert row["fits"] == "no" and math.isnan(row["tokens_per_s"]) and "weights of" in row["why"]
    assert row["memory_bytes"] > row["capacity_bytes"] and row["memory_bytes"] > 2 * row["parameters"]


def test_a_measured_run_of_exactly_the_case_is_beside_the_estimate(running):
    lengths = {"input_len": 128, "output_len": 128}
    found = what_runs("h100-sxm", models=["llama3_8b", "qwen3_14b"], **lengths)
    row, (run,) = row_of(found, "llama3_8b", "bf16"), cb.generate("llama3_8b", "h100-sxm", **lengths).measured
    assert row["measured_tokens_per_s"] == run.rate and row["measured"] == run.brief
    assert run.brief == f"{run.rate:.0f} (Argonne, vLLM 2024)"
    other = row_of(found, "qwen3_14b", "bf16")
    assert other["measured"] == "" and math.isnan(other["measured_tokens_per_s"])
    printed = found.tables()["Models"]
    assert list(printed) == ["Model", "Weights", "Memory", "Measured", "Tokens/s (80 %)"]
    assert printed["Measured"].tolist() == ["", run.brief]
    assert not running.table["measured"].any() and "Measured" not in running.tables()["Models"]


def test_measured_runs_leave_lines_of_a_hundred_columns():
    lines = as_text(what_runs("h100-sxm", input_len=128, output_len=128)).splitlines()
    assert max(map(len, lines)) <= 100 and any("(Argonne, vLLM 2024)" in line for line in lines)


def test_a_format_that_takes_no_less_is_left_out(running):
    own = running.table[running.table["name"] == "gpt_oss_20b"]
    assert own["precision"].tolist() == ["fp4"], "its weights are published in four bits"
    eight = running.table[running.table["name"] == "llama3_8b"]
    assert eight["precision"].tolist() == ["bf16", "int8", "int4"] and eight["memory_bytes"].is_monotonic_decreasing


def test_the_largest_comes_first_and_the_sentence_counts(running):
    table = running.table
    assert table["parameters"].is_monotonic_decreasing
    able = table[table["fits"] == "yes"]
    assert f"{able['name'].nunique()} of {table['name'].nunique()}" in running.summary()
    assert able.iloc[0]["title"] in running.summary()
    assert len(running.tables()["Models"]) == able["name"].nunique()


def test_models_are_recent_unless_a_year_is_given(running):
    years = cb.table("models").set_index("name")["year"]
    first, newest = int(years[running.table["name"]].min()), int(years.max())
    assert first == newest - needs.RECENT_YEARS
    assert set(what_runs("rtx-4090", since=newest).table["name"]) < set(running.table["name"])


def test_memory_and_bandwidth_are_a_machine_of_ones_own():
    own = what_runs(memory="24 GiB", bandwidth=1008, models=["llama3_8b"])
    named = what_runs("rtx-4090", models=["llama3_8b"])
    assert "RTX 4090" in own.assumed.taken["accelerator"]
    assert own.table["tokens_per_s"].iloc[0] == pytest.approx(named.table["tokens_per_s"].iloc[0])
    assert own.table["tokens_per_s_high"].iloc[0] > named.table["tokens_per_s_high"].iloc[0], "a wider interval"
    slow = what_runs(memory="24 GiB", bandwidth=504, models=["llama3_8b"])
    assert slow.table["tokens_per_s"].iloc[0] < 0.7 * own.table["tokens_per_s"].iloc[0]


def test_a_machine_that_fits_nothing_says_the_least_that_is_needed():
    found = what_runs("rtx-4090", models=["llama3_405b", "llama3_70b"])
    assert "none of 2; Llama 3 70B in int4 needs least, 37.5 GiB" in found.summary()
    assert "weights of" in found.tables()["Models"]["Why"].iloc[0]


def told(monkeypatch, name: str) -> None:
    monkeypatch.setattr(needs, "device_name", lambda: name)


def test_this_machine_is_found_by_the_name_that_its_driver_has(monkeypatch):
    told(monkeypatch, "NVIDIA GeForce RTX 4090")
    assert what_runs(models=["llama3_8b"]).assumed.taken["accelerator"] == "rtx-4090, of this machine"


def test_a_machine_that_nobody_knows_asks_for_memory_and_bandwidth(monkeypatch):
    told(monkeypatch, "Some GPU 9000")
    with pytest.raises(Refused, match=r"^accelerator = 'Some GPU 9000' is not in the catalogue.*memory .* bandwidth"):
        what_runs(models=["llama3_8b"])
    with pytest.raises(Refused, match="its memory is not known; give memory"):
        what_runs("epyc-9654")
    assert what_runs("epyc-9654", memory=256, bandwidth=400, models=["llama3_8b"]).table["fits"].iloc[0] == "yes"


def test_the_name_of_a_device_is_the_driver_s_else_the_processor_s(monkeypatch):
    listed = subprocess.CompletedProcess([], 0, stdout="NVIDIA L40S\nNVIDIA L40S\n")
    monkeypatch.setattr(environment, "which", lambda name: name)
    monkeypatch.setattr(environment.subprocess, "run", lambda *_, **__: listed)
    monkeypatch.setattr(environment, "processor", lambda: "AMD EPYC 9654 96-Core Processor")
    assert environment.device_name() == "NVIDIA L40S"

    def late(*_, **__):
        raise subprocess.TimeoutExpired("nvidia-smi", 10)  # as of a driver that hangs

    monkeypatch.setattr(environment.subprocess, "run", late)
    assert environment.device_name() == "AMD EPYC 9654"
    monkeypatch.setattr(environment, "which", lambda name: None)
    monkeypatch.setattr(environment, "processor", lambda: "Apple M2 Max")
    assert environment.device_name() == "Apple M2 Max"


@pytest.fixture(scope="module")
def needed():
    return need("llama3_70b")


def test_the_smallest_device_holds_it_and_no_smaller_one_does(needed):
    devices = cb.table("accelerators").set_index("key")
    gpus = devices[(devices["kind"] == "gpu") & (devices["memory_bytes"] > 0)]
    for row in needed.table[needed.table["use"] == "serve"].to_dict("records"):
        assert row["devices"] == 1
        fits = {key: cb.generate("llama3_70b", [key], weights_format=row["precision"]).fits[0] for key in gpus.index}
        able = [key for key, answer in fits.items() if answer == "yes"]
        assert row["device"] in able
        assert row["capacity_bytes"] == gpus.loc[able, "memory_bytes"].min()


def test_fine_tuning_takes_what_finetune_says(needed):
    row = needed.table[needed.table["method"] == "qlora"].iloc[0]
    one = cb.finetune("llama3_70b", row["device"], method="qlora", zero=3, recompute="full", seq=2048).table.iloc[0]
    assert one["fits"] == "yes" and row["devices"] == 1
    assert row["memory_bytes"] == pytest.approx(one["memory_bytes"], rel=0.02)
    assert row["memory_low"] < row["memory_bytes"] < row["memory_high"] <= row["capacity_bytes"]


def test_several_devices_share_out_states_and_are_linked(needed):
    row = needed.table[needed.table["use"] == "train"].iloc[0]
    device = cb.accelerator(row["device"])
    assert row["devices"] > 1 and device.device_link_kind == "fast"
    assert row["device_bytes"] <= row["capacity_bytes"] < row["memory_bytes"]
    step = cb.train_step(
        "llama3_70b", device, devices=int(row["devices"]), zero=3, micro_batch=1, recompute="full", seq=2048, tp=1, pp=1
    )
    assert step.fits == "yes"


def test_ones_own_devices_are_the_ones_to_choose_from():
    mine = cb.accelerator("mine", like="rtx-4090", memory_bytes="10 GB")
    table = need("llama3_8b", accelerators=[mine, "h100-sxm"]).table
    assert table[table["use"] == "serve"]["device"].tolist() == ["h100-sxm", "h100-sxm", mine.key]
    assert set(table["device"]) <= {mine.key, "h100-sxm"}


def test_what_cannot_be_split_says_so_and_is_served_all_the_same():
    table = need("nemotron_h_8b").table
    assert table["use"].tolist() == ["serve", "serve", "serve", "train"]
    assert "keep a state" in table["why"].iloc[-1] and np.isnan(table["memory_bytes"].iloc[-1])


def test_a_model_beyond_all_devices_has_a_reason():
    table = need("kimi_k2", accelerators=["t4"]).table
    full = table[table["method"] == "full"].iloc[0]
    assert full["device"] == "" and "1,024" in full["why"] and "smaller model" in full["why"]


def test_other_networks_and_unknown_names_are_refused():
    with pytest.raises(Refused, match=r"is no language model; cb\.requirements"):
        need("resnet50")
    with pytest.raises(Refused, match="is no language model"):
        what_runs("rtx-4090", models=["resnet50"])
    with pytest.raises(UnknownName, match=r"rtx-4090.*give memory \[GB\] and bandwidth \[GB/s\]"):
        what_runs("rtx-4909")


def test_what_cannot_be_said_has_its_reason():
    """A prompt that is longer than the model's positions: no speed, and no claim that nothing holds the model."""
    found = cb.planning.what_runs("rtx-4090", models=["gpt2"], input_len=2000)
    assert len(found.table) and (found.table["why"].str.len() > 0).all() and "none of 0" not in found.summary()
    with pytest.raises(Refused, match="input_len"):
        cb.planning.need("gpt2", input_len=2000)
