"""Measured runs beside a prediction: exactly the case that is asked, and no other."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.prediction import measurements
from cookbook.prediction.engine import terms_of
from cookbook.prediction.measurements import engine_of
from cookbook.prediction.parsing import tables

INFERENCE, CLASSIC = (catalog.table(name).set_index("id") for name in ("inference", "training_classic"))
LLAMA = {"input_len": 512, "output_len": 512, "batch": 1, "software": "vllm"}


def test_the_run_of_one_user_is_beside_the_prediction():
    """The first question that an expert asks: its row as the publisher prints it."""
    asked = cb.generate("llama3_8b", "h100-sxm", **LLAMA)
    (run,) = asked.measured
    row = INFERENCE.loc[run.row]
    assert (row["batch"], row["input_len"], row["output_len"]) == (1, "512", 512)
    assert "Llama-3-8B" in row["model"] and row["accelerator"] == "h100-sxm" and run.source == row["source"]
    assert run.unit == asked.unit == "tokens/s"
    assert "127.1 tokens/s" in repr(asked) and "127.1 tokens/s" in asked._repr_html_()
    assert asked.to_dict()["measured"][0]["row"] == run.row
    facts = asked.facts()
    assert list(facts)[:2] == ["measured", "estimate"] and facts["measured"] == str(run)
    low, high = (asked.rate * asked.point / seconds for seconds in (asked.high80, asked.low80))
    assert facts["estimate"] == f"{asked.rate:.0f} tokens/s ({low:.1f} to {high:.0f}, 80 %)"


def test_without_a_measured_run_facts_begin_with_the_interval():
    assert next(iter(cb.generate("llama3_8b", "h100-sxm", input_len=511).facts())) == "80 % interval"


def test_what_is_measured_in_seconds_is_beside_an_estimate_in_seconds(monkeypatch):
    run = measurements.Measurement("a", 9.0, 9.0, "s", "torchtune", "Somebody", "2025", "b")
    step = cb.train_step("llama3_8b", "h100-sxm", devices=8, zero=3)
    monkeypatch.setattr(type(step), "measured", property(lambda step: (run,)))
    facts = step.facts()
    assert facts["measured"] == str(run) and facts["estimate"].startswith(cb.human(step.point, "s") + " (")


def test_a_training_run_states_what_the_publisher_measured():
    asked = cb.train_step("resnet50_v1.5", "v100-sxm2-16gb", micro_batch=256, precision="fp16", software="tensorflow")
    without = cb.train_step("resnet50", "v100-sxm2-16gb", micro_batch=256, precision="fp16", software="tensorflow")
    for step in (asked, without):
        for run in step.measured:
            row = CLASSIC.loc[run.row]
            assert run.rate == pytest.approx(float(row["value"]), rel=1e-9)
            assert 256 / run.seconds == pytest.approx(run.rate, rel=1e-9)
    # Strides in other places make another network, though its name is as good as the same.
    assert not {run.row for run in asked.measured} & {run.row for run in without.measured}


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 2},
        {"input_len": 513},
        {"output_len": 511},
        {"precision": "fp8"},
        {"software": "tensorrt-llm"},
        {"devices": 2, "tp": 2},
    ],
)
def test_another_case_is_not_the_same(change):
    """One field changed: the run of the unchanged case is not among those found."""
    same = {run.row for run in cb.generate("llama3_8b", "h100-sxm", **LLAMA).measured}
    other = {run.row for run in cb.generate("llama3_8b", "h100-sxm", **LLAMA | change).measured}
    assert same and not same & other


def test_several_scenarios_have_a_tuple_each_and_what_cannot_be_has_none():
    several = cb.generate("llama3_8b", "h100-sxm", **LLAMA | {"batch": [1, 3, 16]})
    assert [bool(runs) for runs in several.measured] == [True, False, True]
    assert several.one(2).measured == several.measured[2]
    # Seventy billion parameters do not fit one device of 80 GB.
    too_large = cb.generate("llama3_70b", ["h100-sxm", "h200-sxm"], **LLAMA)
    assert too_large.why[0] and too_large.measured[0] == ()


def test_every_row_of_a_publisher_is_its_own_case():
    """Rows asked again as a reader asks them: each is among the runs of its own case."""
    rows = INFERENCE[
        (INFERENCE["source"] == "llm-inference-bench")
        & (INFERENCE["use"] == "core")
        & INFERENCE["software"].str.startswith("vLLM")
        & (INFERENCE["accelerator"] == "h100-sxm")
        & (INFERENCE["model"] == "Meta-Llama-3-8B")
        & (INFERENCE["metric"] == "output tokens/s")
    ]
    picked = rows.iloc[:: max(1, len(rows) // 12)]
    assert len(picked) >= 8
    missed = []
    for row in picked.itertuples():
        devices = 1 if np.isnan(row.devices) else int(row.devices)
        asked = cb.generate(
            "llama3_8b",
            "h100-sxm",
            input_len=int(row.input_len),
            output_len=row.output_len,
            batch=row.batch,
            devices=devices,
            tp=devices,
            software="vllm",
        )
        missed += [row.Index] * (row.Index not in {run.row for run in asked.measured})
    assert not missed, missed


def test_an_engine_without_its_year():
    for level, name in (
        ("vllm-2024", "vllm"),
        ("vllm", "vllm"),
        ("tensorrt-llm-2024", "tensorrt-llm"),
        ("megatron-2021", "megatron"),
        ("torch-3d", "torch-3d"),
        ("2024", "2024"),
    ):
        assert engine_of(level) == name
    assert all(engine_of(a) != engine_of(b) for a, b in itertools.combinations(("vllm", "sglang", "tensorrt"), 2))


def test_a_run_in_few_words():
    run = measurements.Measurement("a", 1.0, 126.5, "tokens/s", "vLLM (mid-2024)", "Argonne Laboratory", "2024", "b")
    assert run.brief == "126 (Argonne, vLLM 2024)"
    long = replace(run, rate=1018.2, software="TensorRT-LLM 0.9.0", publisher="A. Author", date="2024-04")
    assert long.brief == "1,018 (Author, TensorRT-LLM 2024)"
    assert replace(run, software="", publisher="NVIDIA", date="").brief == "126 (NVIDIA)"


@pytest.mark.all
def test_lengths_that_cells_state_are_those_of_the_runs():
    """What lets a question be answered from the cells alone where no run has its lengths."""
    frame = tables.measured_table("inference")
    scenario = tables.read("inference", tables.without_outcomes(frame))
    ((at, answered),) = [part for part in tables.split(scenario) if part[1].kind == "generation"]
    rows = terms_of("generation").resolve(answered)
    values = {name: np.broadcast_to(value, len(at)) for name, value in rows.values.items()}
    way, good = frame["scenario"].iloc[at].to_numpy(), np.broadcast_to(rows.why == "", len(at))
    prompts, given = (
        np.array([measurements._tokens(cell) for cell in frame[name].iloc[at]], dtype=float)
        for name in ("input_len", "output_len")
    )
    prompts = np.where(np.isnan(prompts) & (way == measurements.ANSWERS_ALONE), 0.0, prompts)
    alone = way == measurements.PROMPTS_ALONE
    assert alone.any() and values["prompt_only"][alone].all()
    for stated, name in ((prompts, "length"), (np.where(given == 0, np.nan, given), "answer")):
        known = np.isfinite(stated) & good & ~alone
        assert known.sum() > 3000
        np.testing.assert_array_equal(stated[known], values[name][known])
    neither = np.isnan(prompts) & ~(given > 0) & ~alone
    assert neither.any() and values["full"][neither].all()


def test_questions_whose_lengths_nobody_measured_read_no_runs(monkeypatch):
    monkeypatch.setattr(measurements, "_runs", None)
    assert cb.generate("llama3_8b", "h100-sxm", input_len=[511, 513], output_len=77).measured == ((), ())
