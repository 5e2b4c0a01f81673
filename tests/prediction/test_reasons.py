"""Codes of the reasons why there is no answer: their table, and a scenario for each."""

import csv
import json
import pickle

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.catalog.refusals import NOT_ALLOWED, NOT_READ, Refusal, Refused, code_of
from cookbook.prediction.answer import answer
from cookbook.prediction.constants import Fitted
from cookbook.prediction.engine import estimate, estimate_rows, prepare, terms_of
from cookbook.prediction.kinds import constraints
from cookbook.prediction.parsing import tables
from cookbook.prediction.scenario import scenario

with (catalog.data_directory() / "schema" / "reasons.csv").open(encoding="utf-8", newline="") as file:
    TABLE = {row["code"]: row for row in csv.DictReader(file)}
TRANSFORMER = "training_transformer"
ROW = {
    "training_transformer": {
        "params_b": 13,
        "layers": 40,
        "hidden": 5120,
        "heads": 40,
        "kv_heads": 40,
        "ffn_hidden": 13824,
        "vocab": 32000,
        "seq_len": 4096,
        "gated_mlp": "yes",
        "accelerator": "h100-sxm",
        "devices": 64,
        "per_node": 8,
        "tp": 1,
        "pp": 1,
        "dp": 64,
        "micro_batch": 2,
        "global_batch": 256,
    },
    "training_classic": {"model": "resnet50", "accelerator": "v100", "batch_per_device": 64},
    "inference": {"model": "resnet50", "accelerator": "t4", "batch": 8},
}
# Rows of readers' tables, by what they change of the usual one.
ASKED = [
    ("accelerator-unknown", "training_transformer", {"accelerator": "abacus"}),
    ("accelerator-unknown", "training_classic", {"accelerator": ""}),
    ("precision-not-offered", "training_classic", {"precision": "bf16"}),
    ("precision-not-offered", "training_classic", {"precision": "fp8"}),
    ("precision-not-offered", "training_transformer", {"accelerator": "v100", "precision": "fp8"}),
    (
        "precision-not-offered",
        "inference",
        {"model": "llama2_7b", "accelerator": "a100-sxm-80gb", "precision": "fp4", "input_len": 512},
    ),
    ("device-trains-nothing", "training_classic", {"accelerator": "alveo-u280"}),
    (
        "software-not-for-device",
        "inference",
        {"model": "llama2_7b", "accelerator": "mi300x", "input_len": 512, "software": "TensorRT-LLM"},
    ),
    ("weights-too-large", "inference", {"model": "llama3_70b", "accelerator": "h100-sxm", "input_len": 512}),
    ("network-unknown", "training_classic", {"model": "no such net"}),
    ("network-unknown", "training_classic", {"model": ""}),
    ("network-unknown", "training_transformer", {"params_b": "", "layers": "", "hidden": ""}),
    ("network-not-one-pass", "inference", {"model": "gnmt"}),
    ("network-not-split", "training_transformer", {"model": "jamba_1.5_mini", "params_b": ""}),
    ("dimensions-contradict", "training_transformer", {"params_b": 130}),
    ("dimensions-impossible", "training_transformer", {"kv_heads": 80}),
    ("length-missing", "inference", {"model": "llama2_7b", "metric": "TTFT ms"}),
    ("split-exceeds-devices", "inference", {"model": "llama2_7b", "tp": 8, "devices": 4, "input_len": 512}),
    ("split-not-devices", "training_transformer", {"tp": 8, "pp": 16, "dp": ""}),
    ("split-not-devices", "training_transformer", {"tp": 2}),
    ("stages-exceed-layers", "training_transformer", {"pp": 64, "dp": 1}),
    ("heads-not-divisible", "training_transformer", {"tp": 64, "dp": 1}),
    (
        "experts-not-divisible",
        "training_transformer",
        {
            "model": "mixtral_8x7b",
            "params_b": "",
            "layers": "",
            "hidden": "",
            "heads": "",
            "kv_heads": "",
            "ffn_hidden": "",
            "ep": 16,
        },
    ),
    ("batch-not-divisible", "training_transformer", {"global_batch": 32}),
    ("batch-below-replicas", "training_classic", {"global_batch": 64, "devices": 8}),
    ("value-not-allowed", "training_transformer", {"zero": 7, "micro_batch": -1}),
    ("not-read", "training_transformer", {"attention": "with care"}),
]
# Lists in calls, of which one entry cannot be.
TYPED = [
    ("split-not-devices", "llama2_7b", {"devices": 12, "tp": 8}),
    ("heads-not-divisible", "llama2_7b", {"devices": 3, "tp": 3}),
    ("layers-not-divisible", "llama2_7b", {"devices": 4, "pp": 4, "vp": 3}),
    ("tokens-not-divisible", "llama2_7b", {"devices": 3, "cp": 3}),
    ("no-experts", "llama2_7b", {"devices": 8, "ep": 8}),
    ("no-experts", "llama2_7b", {"devices": 8, "capacity_factor": 2}),
    ("experts-not-divisible", "mixtral_8x7b", {"devices": 8, "ep": 3}),
    ("batch-not-divisible", "llama2_7b", {"devices": 8, "tp": 1, "pp": 1, "global_batch": 12}),
    ("schedule-impossible", "llama2_7b", {"devices": 4, "pp": 4, "vp": 2, "pipeline_schedule": "gpipe"}),
    ("schedule-impossible", "llama2_7b", {"devices": 4, "pp": 4, "vp": 1, "pipeline_schedule": "interleaved"}),
    ("schedule-impossible", "llama2_7b", {"devices": 4, "pp": 4, "pipeline_schedule": "zb-v"}),
    (
        "schedule-impossible",
        "llama2_7b",
        {"devices": 4, "pp": 4, "vp": 2, "pipeline_schedule": "interleaved", "global_batch": 6},
    ),
    ("schedule-impossible", "llama2_7b", {"devices": 4, "pp": 4, "vp": 2, "global_batch": 6}),
    ("shard-not-divisible", "llama2_7b", {"devices": 8, "tp": 1, "pp": 1, "zero": 2, "shard": 3}),
    ("shard-not-divisible", "llama2_7b", {"devices": 8, "tp": 1, "pp": 1, "zero": 0, "shard": 2}),
    ("value-not-allowed", "llama2_7b", {"devices": 0}),
]
# Input pipelines, by what they change of one that can be.
FED = {"step": 0.1, "accelerator": "h100-sxm", "storage": "micron-9400-7-68tb-gen4", "data": "imagenet-1k"}
PIPELINES = [
    ("step-not-known", {"step": None}),
    ("step-not-known", {"step": None, "workload": "mlperf/unet3d", "accelerator": "t4"}),
    ("data-not-known", {"data": None}),
    ("data-not-known", {"data": None, "samples": 5}),
    ("data-not-taken", {"step": None, "workload": "gpt2"}),
    ("data-exceed-storage", {"capacity": 1e9}),
    ("storage-figure-missing", {"storage": None}),
    ("storage-figure-missing", {"storage": None, "read_bandwidth": 1e9}),
    ("burst-below-baseline", {"burst_bandwidth": 1e6}),
    ("hosts-exceed-accelerators", {"hosts": 2}),
    ("checkpoint-size-missing", {"checkpoint_interval": 60}),
    ("accelerator-unknown", {"accelerator": None}),
    ("precision-not-offered", {"step": None, "workload": "resnet50", "accelerator": "t4", "precision": "bf16"}),
    ("value-not-allowed", {"batch": [0]}),
]
OTHERS = {
    "memory-exceeded",
    "failures-too-often",
    "count-missing",
    "length-zero",
    "no-finite-time",
    "weights-too-large",
    "positions-exceeded",
    "cache-too-large",
    "load-above-capacity",
    "fields-apart",
    "engine-cannot",
}


@pytest.mark.parametrize(("code", "kind", "changes"), ASKED)
def test_rows_of_tables_get_their_code(code, kind, changes):
    found = answer(pd.DataFrame([{**ROW[kind], **changes}]), kind).iloc[0]
    assert (found["reason"], found["why"] != "", np.isnan(found["predicted"])) == (code, True, True), found["why"]


@pytest.mark.parametrize(("code", "model", "plan"), TYPED)
def test_entries_of_lists_get_their_code(code, model, plan):
    lists = {name: [value, value] for name, value in plan.items()}
    found = cb.train_step(model, "h100-sxm", lists)
    assert found.reason.tolist() == [code, code], found.why[0]
    assert found.frame()["reason"].tolist() == found.to_dict()["reason"] == [code, code]


@pytest.mark.parametrize(("code", "changes"), PIPELINES)
def test_input_pipelines_that_cannot_be_get_their_code(code, changes):
    found = estimate(scenario("input_pipeline", {**FED, **changes}))
    assert found.reason.tolist() == [code], found.why
    assert np.isnan(found.point).all() and np.isnan(found.low80).all()


def test_a_prompt_of_no_token():
    found = cb.generate("llama2_7b", "h100-sxm", input_len=[1024, 0])
    assert found.reason.tolist() == ["", "length-zero"]


def test_a_model_that_is_too_large_or_an_answer_that_is_too_long():
    large = cb.generate("llama3_70b", "h100-sxm", tp=[1, 2])
    assert large.reason.tolist() == ["weights-too-large", ""]
    long = cb.generate("llama3_8b", "h100-sxm", input_len=[1024, 2 * 10**6])
    assert long.reason.tolist() == ["", "cache-too-large"]
    assert cb.generate("gpt2", "h100-sxm", input_len=[512, 1000]).reason.tolist() == ["", "positions-exceeded"]


def test_a_count_that_is_no_count():
    """Tables refuse it cell by cell; this is the last gate before the formulas, for whatever follows from cells."""
    rows = terms_of(TRANSFORMER).resolve(tables.read(TRANSFORMER, pd.DataFrame([ROW[TRANSFORMER]])))
    why = constraints.refusals({**rows.values, "vp": np.array(0.0)}, rows.keys["accelerator"], rows.why)
    assert code_of(why).tolist() == ["count-missing"]


@pytest.mark.parametrize(
    "constraint", [*constraints.REPORTED, *constraints.REQUESTED, *constraints.HELD], ids=lambda each: each.message
)
def test_a_constraint_of_layouts_has_a_code_of_the_table(constraint):
    assert constraint.code in TABLE
    assert "{" not in constraint.general.field


def test_a_layout_that_cannot_be_tells_the_argument_and_what_would_do():
    found = cb.train_step("llama2_7b", "h100-sxm", {"devices": [3, 8], "tp": [3, 8]})
    why = found.why[0]
    assert (why.code, why.field, why.nearest) == ("heads-not-divisible", "tp", (2, 4)) and "take 2 or 4" in why
    with pytest.raises(Refused) as caught:
        cb.plan_run("llama2_7b", "h100-sxm", 64, 1e9, layout={"tp": 6})
    why = caught.value.refusal
    assert (why.code, why.field, why.nearest) == ("heads-not-divisible", "tp", (4, 8))


def test_runs_that_do_not_fit_or_never_end():
    with pytest.raises(Refused, match="no layout fits the memory") as caught:
        cb.plan_run("llama2_70b", "rtx-4090", 8, 1e9, global_batch=64)
    assert (caught.value.refusal.code, caught.value.refusal.field) == ("memory-exceeded", "devices")
    with pytest.raises(Refused, match="a failure every") as caught:
        cb.plan_run("llama2_7b", "h100-sxm", 64, 1e9, global_batch=64, mtbf_hours=0.5)
    assert caught.value.refusal.code == "failures-too-often"


@pytest.mark.parametrize("kind", ["training_transformer", "training_classic", "inference", "storage"])
def test_a_table_without_rows_has_an_answer_without_rows(kind):
    found = answer(pd.DataFrame({"model": pd.Series([], dtype=object)}), kind)
    assert len(found) == 0 and {"predicted", "why", "assumed"} <= set(found)


def test_formulas_that_give_no_number():
    rows = terms_of(TRANSFORMER).resolve(tables.read(TRANSFORMER, pd.DataFrame([ROW[TRANSFORMER]])))
    found = estimate_rows(prepare(TRANSFORMER, rows, Fitted({"kernel_start": {"": np.nan}})))
    assert found.reason.tolist() == ["no-finite-time"] and np.isnan(found.point).all()


def test_an_estimate_has_no_reason():
    step = cb.train_step("resnet50", "v100", micro_batch=64)
    assert step.reason == step.why == step.to_dict()["reason"] == "" and step.frame()["reason"].tolist() == [""]
    assert answer(pd.DataFrame([ROW["inference"]]), "inference")["reason"].tolist() == [""]


def test_every_code_of_the_table_is_given():
    assert {code for code, *_ in (*ASKED, *TYPED, *PIPELINES)} | OTHERS == set(TABLE)


def test_the_table_is_well_formed():
    for code, row in TABLE.items():
        assert code == code.lower() and code.replace("-", "").isalpha() and row["description"]
    assert list(TABLE)[-1] == NOT_READ and NOT_ALLOWED in TABLE


def test_refusals_carry_the_argument_and_what_would_do():
    with pytest.raises(Refused) as caught:
        cb.train_step("resnet50", "v100", micro_batch=64, precision="fp8")
    why = caught.value.refusal
    assert (why.code, why.field, why.nearest) == ("precision-not-offered", "precision", ("fp32", "fp16"))
    with pytest.raises(Refused) as caught:
        cb.train_step("llama2_7b", "h100-sxm", pipeline_schedule="1f2b")
    assert caught.value.refusal.field == "pipeline_schedule" and "1f1b" in caught.value.refusal.nearest
    with pytest.raises(catalog.UnknownName) as unknown:
        cb.train_step("resnet5", "v100")
    assert (unknown.value.refusal.code, unknown.value.refusal.field) == ("network-unknown", "model")
    assert "resnet50" in unknown.value.refusal.nearest


def test_refusals_stay_what_they_are_in_arrays_in_files_and_between_processes():
    found = cb.generate("llama3_70b", "h100-sxm", tp=[1, 2]).why[0]
    assert (found.code, found.field, found.nearest) == ("weights-too-large", "tp", (2,))
    again = pickle.loads(pickle.dumps(found))
    assert again == found and (again.code, again.nearest) == (found.code, found.nearest)
    assert Refusal.joined(["", found, "and more"]) == f"{found}; and more" and Refusal.joined([""]).code == ""
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("table", ["training_transformer", "training_classic", "inference"])
def test_what_the_engine_refuses_has_a_code_of_its_own(table):
    """Only what could not be read may have the code of that."""
    asked = tables.read(table, tables.without_outcomes(tables.measured_table(table)))
    found = estimate(asked, False)
    codes = code_of(np.asarray(found.why, dtype=object))
    assert ((codes == "") == (found.why == "")).all()
    assert (asked.why[codes == "not-read"] != "").all()
