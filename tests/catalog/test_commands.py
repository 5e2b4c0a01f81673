"""Command lines of engines: flags of the table, values in the engines' words, notes and refusals."""

import re

import pandas as pd
import pytest

from cookbook import catalog
from cookbook.catalog import commands
from cookbook.catalog.commands import engines_for, launch, model_id

FLAGS = catalog.table("engine_flags")
NETWORK = ("llama2_7b", "Llama 2 7B")


def written(settings, engine="vllm", command="serve", check=None):
    return launch(command, engine, {"network": NETWORK, **settings}, check or {})


@pytest.fixture
def changed(monkeypatch):
    """A function that puts a changed copy of the table in the place of the table."""

    def change(edit):
        copy = FLAGS.copy(deep=True)
        tables = {"engine_flags": edit(copy), "models": catalog.table("models")}
        monkeypatch.setattr(commands, "table", tables.__getitem__)
        monkeypatch.setattr(commands, "records", lambda name, _: tables[name].to_dict("records"))

    return change


def test_rows_are_of_one_engine_version_and_their_kind():
    assert (FLAGS.groupby("engine")["version"].nunique() == 1).all()
    flags, others = FLAGS[FLAGS["kind"] == "flag"], FLAGS[FLAGS["kind"] != "flag"]
    assert (flags["form"] != "").all() and (others["flag"] + others["form"] == "").all()
    assert (FLAGS.loc[FLAGS["kind"].isin(["note", "refused"]), "note"] != "").all()
    assert set(flags["how"]) == {"seen"} and set(others["how"]) == {"derived"}
    for form in flags["form"]:
        assert form.format(flag="--flag", value="1", model="m")
    for note in FLAGS["note"]:
        assert "{" not in note.format(value="1") and not note.endswith((",", ";", ":"))


@pytest.mark.parametrize("column", ["engine", "command", "quantity"])
def test_names_are_plain_words(column):
    assert FLAGS[column].map(lambda name: bool(re.fullmatch(r"[a-z][a-z0-9_.\-]*", name))).all()


def test_a_value_has_one_meaning_in_each_row_and_one_kind_in_a_quantity():
    for key, rows in FLAGS.groupby(["engine", "command", "quantity"]):
        kinds = [(word, row["kind"]) for row in rows.to_dict("records") for word in commands._values(row)]
        by_word = pd.DataFrame(kinds, columns=["word", "kind"]).groupby("word")["kind"].nunique()
        assert (by_word == 1).all(), key


@pytest.mark.parametrize("command", ["serve", "train", "finetune"])
def test_engines_of_a_command_have_rows_for_the_same_quantities_or_a_note_says_so(command):
    quantities = set(FLAGS.loc[FLAGS["command"] == command, "quantity"]) - {"program", "model"}
    for engine in engines_for(command):
        own = FLAGS[(FLAGS["engine"] == engine) & (FLAGS["command"] == command)]
        missing = quantities - set(own["quantity"])
        assert not missing - {"per_node", "program"}, f"{engine}: {missing}"


def test_values_are_in_the_words_of_the_engine():
    line = written({"kv_format": "int8", "tp": 4.0, "ep": 8, "prefix_hit": 0}).command
    assert "--kv-cache-dtype int8_per_token_head" in line and "--tensor-parallel-size 4" in line
    assert "--enable-expert-parallel" in line and "--no-enable-prefix-caching" in line
    assert "--enable-expert-parallel" not in written({"ep": 1}).command


def test_a_quantity_without_a_row_is_in_a_note():
    assert "No flag of vllm sets colour = blue." in written({"colour": "blue"}).notes
    assert "No flag of vllm sets pace = 3." in written({}, check={"pace": 3}).notes


def test_nothing_is_said_of_what_was_not_chosen():
    assert written({"tp": None, "context": None}).command == written({}).command


def test_a_model_without_a_name_is_a_placeholder():
    told = launch("serve", "vllm", {"network": ("gpt3_175b", "GPT-3 175B")}, {})
    assert told.command == "vllm serve MODEL" and told.notes[0].startswith("MODEL stands for")
    assert model_id("llama3_8b", "another title") == "" == model_id("no such network", "")


def test_a_check_of_a_framework_repeats_the_command_with_few_steps():
    told = written({"tp": 2, "steps": 10_000}, "megatron-lm", "train", {"steps": "check", "log_steps": 1})
    assert "--train-iters 10000" in told.command and "--train-iters" in told.verify
    assert "10000" not in told.verify and "--tensor-model-parallel-size 2" in told.verify


@pytest.mark.parametrize(
    ("engine", "settings", "field"),
    [
        ("llama.cpp", {"weights_format": "fp8"}, "weights_format"),
        ("llama.cpp", {"two_ways": True}, "two_ways"),
        ("vllm", {"weights_format": "q4_k_m"}, "weights_format"),
        ("vllm", {"expert_shards": 2}, "expert_shards"),
        ("tensorrt-llm", {"kv_format": "int4"}, "kv_format"),
        ("sglang", {"policy": "disaggregated"}, "policy"),
    ],
)
def test_what_an_engine_cannot_run_is_refused_with_a_remedy(engine, settings, field):
    with pytest.raises(catalog.Refused, match=r"give|leave") as problem:
        written(settings, engine)
    assert problem.value.refusal.code == "engine-cannot" and problem.value.refusal.field == field


def test_an_unknown_engine_gets_those_that_can():
    with pytest.raises(ValueError, match=r"vllm, sglang, tensorrt-llm, llama\.cpp"):
        written({}, "vlm")
    with pytest.raises(ValueError, match="megatron-lm"):
        written({}, "vllm", "train")


def test_a_changed_flag_changes_the_command(changed):
    changed(lambda flags: flags.assign(flag=flags["flag"].replace("--tensor-parallel-size", "--shards")))
    assert "--shards 2" in written({"tp": 2}).command


def test_a_lost_row_becomes_a_note(changed):
    changed(lambda flags: flags[flags["quantity"] != "tp"])
    told = written({"tp": 2})
    assert "tensor" not in told.command and "No flag of vllm sets tp = 2." in told.notes


def test_a_lost_value_becomes_a_refusal(changed):
    lost = FLAGS["quantity"] == "kv_format"
    changed(lambda flags: flags.assign(values=flags["values"].mask(lost, "fp16=auto")))
    with pytest.raises(catalog.Refused, match="give one of fp16"):
        written({"kv_format": "fp8"})


def test_text_is_commands_and_comments():
    told = written({"tp": 2, "software": "vllm"}, check={"rate": 2.0})
    lines = str(told).splitlines()
    assert lines[0] == told.command and lines[-1] == told.verify and lines[-2] == "# verify:"
    assert all(line.startswith("# ") for line in lines[1:-1])
    assert told.to_dict()["source"] == ["vllm-0.33.0-arguments", "vllm-0.33.0-bench"]
    assert told.version == "0.33.0" and "--request-rate 2" in told._repr_html_()
