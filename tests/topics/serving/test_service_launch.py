"""Commands that start services: every quantity of a stack is said or noted, in the engines' own flags."""

import math

import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.catalog.commands import engines_for
from cookbook.topics.serving.replicas import load_settings

FLAGS = catalog.table("engine_flags")
ENGINES = engines_for("serve")


@pytest.fixture(scope="module")
def chat():
    return cb.serve("llama3_8b", "h100-sxm", rate=20, ttft="500 ms", tpot="30 ms")


def rows_of(engine, command):
    return FLAGS[(FLAGS["engine"] == engine) & (FLAGS["command"] == command)]


def options(line):
    return [word for word in line.split() if word.startswith("-")]


@pytest.mark.parametrize("engine", ENGINES)
def test_each_flag_is_in_the_table(chat, engine):
    told = chat.launch(engine)
    for line, command in ((told.command, "serve"), (told.verify, "verify")):
        known = {word for flag in rows_of(engine, command)["flag"] for word in flag.split()}
        assert options(line) and set(options(line)) <= known


@pytest.mark.parametrize("engine", ENGINES)
def test_each_quantity_is_in_the_command_or_a_note_or_a_default(chat, engine):
    told, own = chat.launch(engine), rows_of(engine, "serve")
    settings = {name: value for name, value in chat.settings[0].items() if value is not None and name != "network"}
    assert not [note for note in told.notes if note.startswith("No flag of")]
    for quantity in settings:
        rows = own[own["quantity"] == quantity]
        said = [flag for flag in rows["flag"] if flag and flag in told.command]
        noted = [note for note in rows["note"] if note and note.split("{value}")[0] in " ".join(told.notes)]
        positional = (rows["kind"] == "flag").any() and (rows["flag"] == "").all()
        assert said or noted or positional or (rows["kind"] == "default").any(), quantity


def test_numbers_are_those_of_the_stack():
    stack = cb.serve(
        "llama3_70b",
        "h100-sxm",
        rate=4,
        devices=8,
        tp=4,
        pp=2,
        precision="bf16",
        kv_format="fp8",
        max_sequences=96,
        chunk=4096,
        context=16384,
    )
    line = stack.launch("vllm").command
    for words in (
        "--dtype bfloat16",
        "--kv-cache-dtype fp8",
        "--tensor-parallel-size 4",
        "--pipeline-parallel-size 2",
        "--max-num-seqs 96",
        "--max-num-batched-tokens 4096",
        "--max-model-len 16384",
        "--enable-chunked-prefill",
    ):
        assert words in line
    with pytest.raises(catalog.Refused, match=r"two_ways|rows or by layers"):
        cb.serve("llama3_70b", "h100-sxm", rate=1, devices=8, tp=4, pp=2).launch("llama.cpp")


def test_groups_of_experts_are_data_parallel():
    stack = cb.serve("deepseek_v3", "h200", rate=8, devices=16, tp=1, ep=16, precision="fp8")
    assert "--data-parallel-size 16" in stack.launch("vllm").command
    sglang = stack.launch("sglang")
    assert "--tp-size 16 --attn-dp-size 16" in sglang.command and "--ep-size 16" in sglang.command
    assert any("2 nodes" in note for note in sglang.notes)


def test_copies_are_noted_and_the_check_takes_the_share_of_one():
    stack = cb.serve("llama3_8b", "h100-sxm", rate=20, devices=4, tp=1)
    told = stack.launch()
    assert any("each of the 4 copies" in note for note in told.notes) and "--request-rate 5 " in told.verify + " "
    closed = cb.serve("llama3_8b", "h100-sxm", concurrency=64, devices=4, tp=1).launch()
    assert "--max-concurrency 16" in closed.verify and "--request-rate" not in closed.verify


def test_users_who_pause_are_a_rate_and_a_note():
    stack = cb.serve("llama3_8b", "h100-sxm", users=60, think=20, devices=1)
    told = stack.launch()
    assert "--max-concurrency" not in told.verify and any("no pause of 20 s" in note for note in told.notes)
    rate = float(told.verify.partition("--request-rate ")[2].split()[0])
    assert math.isclose(rate, stack.rows[0]["requests_per_second"], rel_tol=1e-3)


def test_gaps_of_the_load_are_the_shape_of_the_benchmark(chat):
    bursty = cb.serve("llama3_8b", "h100-sxm", rate=2, devices=1, burstiness=4)
    assert "--burstiness 0.25" in bursty.launch().verify
    assert load_settings(chat.load, chat.limits, chat.rows[0])["slo"] == "ttft:500 tpot:30"


def test_the_best_row_is_launched_and_a_row_without_a_stack_is_refused():
    several = cb.serve("llama3_70b", ["rtx-4090", "h100-sxm"], rate=1, devices=[1, 8])
    able = [number for number, row in enumerate(several.rows) if not row["why"]]
    assert several.launch().command == several.launch(row=several.rows.index(several.best)).command
    with pytest.raises(catalog.Refused, match="no stack to start") as problem:
        several.launch(row=next(number for number in range(4) if number not in able))
    assert list(problem.value.refusal.nearest) == able


def test_a_changed_network_is_a_placeholder():
    shallow = cb.serve(cb.model("llama2_7b", depth=16), "h100-sxm", rate=1, devices=1)
    assert "vllm serve MODEL " in shallow.launch().command


def test_the_card_says_what_was_measured_then_the_estimate_then_how_to_verify():
    own = {"concurrency": 4, "input_len": 512, "output_len": 256, "devices": 1}
    stack = cb.serve("qwen3_4b", "rtx-3090", **own)
    facts, (run,) = stack.facts(), stack.measured
    assert list(facts) == ["Measured", "Estimate", "Verify", "Assumed"]
    row = catalog.table("inference").set_index("id").loc[run.row]
    assert (row["batch"], row["input_len"], row["output_len"], row["scenario"]) == (4, "512", 256, "server")
    assert run.rate == pytest.approx(row["value"]) and facts["Measured"] == str(run)
    assert facts["Estimate"].startswith(f"{stack.best['output_tokens_per_second']:,.0f} tokens/s (")
    assert facts["Verify"] == stack.launch("vllm").verify
    assert not cb.serve("qwen3_4b", "rtx-3090", **own | {"concurrency": 5}).measured


def test_other_loads_have_no_measured_run(chat):
    facts = chat.facts()
    assert "Measured" not in facts and chat.measured == ()
    assert facts["Estimate"].startswith("TTFT p50 ") and ", TPOT p50 " in facts["Estimate"]
    thinking = cb.serve("qwen3_4b", "rtx-3090", users=4, input_len=512, output_len=256, devices=1)
    assert thinking.measured == () and "Verify" in thinking.facts()


def test_the_command_that_verifies_is_of_the_engine_that_was_asked():
    asked = {"rate": 1, "devices": 1}
    assert "sglang" in cb.serve("llama3_8b", "h100-sxm", software="sglang", **asked).facts()["Verify"]
    other = cb.serve("llama3_8b", "h100-sxm", software="transformers", **asked).facts()
    assert "Verify" not in other and "Estimate" in other, "no flags of it are in the table"


def test_no_stack_has_no_estimate():
    none = cb.serve("llama3_70b", ["rtx-4090", "rtx-3090"], rate=1, devices=1)
    assert none.measured == () and set(none.facts()) == {"Assumed"}
