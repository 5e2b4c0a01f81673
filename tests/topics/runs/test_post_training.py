"""Post-training by DPO and GRPO: phases by hand, memory of the reference, orders, limits, and what is refused."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import cookbook as cb
from cookbook.__main__ import main
from cookbook.catalog import constant
from cookbook.publish.assistant import call
from cookbook.topics.runs.post_training import PHASES

# A tiny decoder: two layers of width 512 with an inner width of 1,024, and 1,000 words.
LAYERS, H, F, WORDS = 2, 512, 1024, 1000
PRODUCTS = LAYERS * (4 * H * H + 3 * H * F)
PARAMETERS = PRODUCTS + 2 * WORDS * H + (2 * LAYERS + 1) * H
PROMPT, ANSWER, GROUP, PROMPTS = 32, 64, 4, 8
SEQ, SEQUENCES = PROMPT + ANSWER, GROUP * PROMPTS
# Products of a token, the head, and scores and sums over the tokens up to its own.
MACS = PRODUCTS + WORDS * H + LAYERS * 2 * H * (SEQ + 1) / 2
GRPO = {
    "method": "grpo",
    "fine_tuning": "full",
    "input_len": PROMPT,
    "output_len": ANSWER,
    "group": GROUP,
    "global_batch": PROMPTS,
    "recompute": "none",
}
NEAR, FAR = constant("message-start-in-node"), constant("message-start-between-nodes")


@pytest.fixture(scope="module")
def tiny():
    return cb.model("llama2_7b", depth=LAYERS, width=H, hidden=F, heads=8, vocab=WORDS)


def row(model, **changes):
    """The only row of a table."""
    (only,) = cb.finetune(model, "h100-sxm", **{**GRPO, **changes}).table.to_dict("records")
    return only


def training(model, **changes):
    """A training step, what its own call takes as defaults written out."""
    given = {"devices": 2, "zero": 3, "global_batch": SEQUENCES, "micro_batch": 1, "seq": SEQ}
    given |= {"fine_tuning": "full", "recompute": "none", "tp": 1, "pp": 1, "software": "torchtune"}
    return cb.train_step(model, "h100-sxm", **{**given, **changes})


def test_tokens_and_flop_by_hand(tiny):
    """Six FLOP per MAC and trained token, two in a forward pass; a prompt is processed once for its group."""
    found = cb.finetune(tiny, "h100-sxm", **{**GRPO, "fine_tuning": ["full", "lora"]}, devices=2, zero=3).phases
    assert tiny.ops.parameter_count == PARAMETERS
    full, lora = (found[found["fine_tuning"] == name].set_index("phase") for name in ("full", "lora"))
    trained, made = SEQUENCES * SEQ, PROMPTS * PROMPT + SEQUENCES * ANSWER
    assert full["tokens"].tolist() == [made, trained, trained, trained, 0]
    assert full["flop"].tolist() == pytest.approx([2 * MACS * n for n in (made, trained, trained, 3 * trained, 0)])
    assert lora.loc["training", "flop"] == pytest.approx(4 * MACS * trained)  # frozen weights have no gradients
    assert found.groupby("fine_tuning")["share"].sum().tolist() == pytest.approx([1, 1])


def test_seconds_of_each_phase_by_hand(tiny):
    own = row(tiny, devices=2, zero=3)
    step = training(tiny)
    assert own["training_seconds"] == pytest.approx(step.point)
    # One of three passes, without what only a backward pass and the optimiser do.
    once = ("gradient_exchange", "optimiser", "stragglers", "bubble")
    forward = sum(seconds for name, seconds in step.parts.items() if name not in once) / 3
    assert own["reference_seconds"] == own["old_policy_seconds"] == pytest.approx(forward)
    half = cb.generate(
        tiny,
        "h100-sxm",
        input_len=PROMPT,
        output_len=ANSWER,
        batch=SEQUENCES / 2,
        tp=1,
        prefix_hit=1 - 1 / GROUP,
    )
    assert (own["tp"], own["at_once"]) == (1, SEQUENCES / 2)
    assert own["generation_seconds"] == pytest.approx(half.point)
    # ZeRO-3 has half of the 16-bit weights on each of two devices; the other half comes over the link between them.
    half_weights = 2 * PARAMETERS / 2
    assert own["update_bytes"] == pytest.approx(half_weights)
    assert own["update_seconds"] == pytest.approx(NEAR + half_weights / cb.machine("h100-sxm").ring_link)
    for end, step_end, half_end in (("low", step.low80, half.low80), ("high", step.high80, half.high80)):
        summed = step_end + 2 * forward * step_end / step.point + half_end + own["update_seconds"]
        assert own[f"step_{end}"] == pytest.approx(summed)
    assert own["step_seconds"] == pytest.approx(sum(own[f"{name}_seconds"] for name in PHASES))


@pytest.mark.parametrize("generators, first, rate", [(1, NEAR, "link"), (8, FAR, "network")])
def test_weights_go_to_generators_over_the_link_between_them(tiny, generators, first, rate):
    """Within a node of eight over its fast link, else over the network of each device."""
    own = row(tiny, devices=1, generators=generators)
    shard = 2 * PARAMETERS / own["tp"]
    seconds = first + shard / getattr(cb.machine("h100-sxm"), rate)
    assert (own["update_bytes"], own["update_seconds"]) == (pytest.approx(shard), pytest.approx(seconds))
    adapters = row(tiny, devices=1, generators=generators, fine_tuning="lora")
    assert adapters["update_bytes"] == 2 * adapters["trained"] < shard


def test_devices_that_have_all_weights_send_none(tiny):
    own = row(tiny, devices=2, zero=0)
    assert own["update_bytes"] == own["update_seconds"] == 0 and own["generators"] == 0


def test_states_that_leave_for_the_host_cross_its_link_twice():
    """Weights, the optimiser's 12 bytes per parameter and the reference leave; gradients and activations are freed."""
    own = row("llama3_8b", devices=2, zero=2, input_len=1024, output_len=1024, global_batch=64, recompute="full")
    assert own["offload"] == "yes"
    parameters = own["trained"]
    resident = (2 + 12 / 2 + 2) * parameters
    assert own["update_seconds"] == pytest.approx(2 * resident / cb.machine("h100-sxm").host_link)
    share = constant("memory-served") * own["capacity_bytes"]
    assert own["rollout_bytes"] <= share < own["rollout_bytes"] + resident


def test_answers_that_do_not_fit_at_once_come_in_waves():
    own = row("llama3_8b", devices=1, fine_tuning="lora", input_len=1024, output_len=1024, global_batch=128)
    assert own["at_once"] < 128 * GROUP == own["sequences"]
    batch = cb.generate(
        "llama3_8b", "h100-sxm", input_len=1024, output_len=1024, batch=own["at_once"], prefix_hit=1 - 1 / GROUP
    )
    assert own["generation_seconds"] == pytest.approx(batch.point * own["sequences"] / own["at_once"])


def test_dpo_trains_both_answers_and_asks_the_reference_once(tiny):
    own = row(tiny, **dict.fromkeys(("input_len", "output_len", "group")), method="dpo", seq=SEQ, devices=2, zero=0)
    pairs = training(tiny, zero=0, global_batch=2 * PROMPTS, micro_batch=2)
    assert own["sequences"] == 2 * PROMPTS and own["tokens"] == 2 * PROMPTS * SEQ
    assert own["training_seconds"] == pytest.approx(pairs.point)
    assert 0.2 < own["reference_seconds"] / own["training_seconds"] < 1 / 3
    assert own["generation_seconds"] == own["old_policy_seconds"] == own["update_seconds"] == 0


def test_hours_and_usd_by_hand(tiny):
    tuned = cb.finetune(tiny, "h100-sxm", **GRPO, devices=2, generators=2, steps=500, hourly=3.0)
    own = tuned.table.iloc[0]
    assert own["hours"] == pytest.approx(500 * own["step_seconds"] / 3600)
    assert own["usd"] == pytest.approx(own["hours"] * 4 * 3.0)
    pairs = cb.finetune(tiny, "h100-sxm", 1e6, method="dpo", fine_tuning="full", seq=500, global_batch=100, epochs=2)
    assert pairs.table["hours"][0] == pytest.approx(20 * pairs.table["step_seconds"][0] / 3600)  # 200 sequences a step


def test_the_reference_takes_memory_unless_adapters_can_be_left_out():
    """Two bytes per parameter, or their share with ZeRO-3; LoRA asks the frozen weights, which are there."""
    alone = cb.finetune("llama3_8b", "h200-sxm", method=["full", "lora"], recompute="full", micro_batch=2).memory
    both = cb.finetune("llama3_8b", "h200-sxm", method="dpo", fine_tuning=["full", "lora"], recompute="full").table
    needed = alone.drop(columns=["method", "devices"]).sum(axis=1).to_numpy()
    added = both["memory_bytes"].to_numpy() - needed
    assert added == pytest.approx([2 * both["trained"][0], 0.0])
    shared, free = (row("llama3_8b", devices=8, zero=3, reference=asked) for asked in (True, False))
    assert shared["memory_bytes"] - free["memory_bytes"] == pytest.approx(2 * shared["trained"] / 8)
    assert free["reference_bytes"] == free["reference_seconds"] == 0 < shared["reference_seconds"]


def test_more_answers_per_prompt_are_never_faster(tiny):
    for model, more in ((tiny, {}), ("llama3_8b", {"devices": 8, "recompute": ["none", "full"]})):
        seconds = [row(model, **more, group=group)["step_seconds"] for group in (2, 4, 8, 16, 64)]
        assert seconds == sorted(seconds) and len(set(seconds)) == 5


def test_longer_answers_are_never_faster():
    lengths = (1, 2, 16, 256, 1024)
    found = [row("llama3_8b", devices=8, output_len=length) for length in lengths]
    for name in ("generation_seconds", "training_seconds", "step_seconds"):
        seconds = [own[name] for own in found]
        assert seconds == sorted(seconds)


def test_one_token_per_answer_is_a_prompt_and_a_pass():
    """The limit: nothing is left of decoding, and forward passes outweigh it."""
    own = row("llama3_8b", devices=8, output_len=1, input_len=1024, global_batch=64)
    first = cb.generate("llama3_8b", "h100-sxm", input_len=1024, output_len=1, batch=32, prefix_hit=1 - 1 / GROUP)
    assert 0 < own["generation_seconds"] <= first.point * (1 + 1e-9)
    assert own["generation_seconds"] < own["reference_seconds"] and own["bound"] == "training"


def test_a_step_waits_for_its_longest_answer():
    usual = {"devices": 8, "input_len": 128, "output_len": 256, "global_batch": 8}
    equal, uneven = row("llama3_8b", **usual), row("llama3_8b", **usual, longest_output=8192)
    last = cb.generate("llama3_8b", "h100-sxm", input_len=128, output_len=8192, tp=uneven["tp"], prefix_hit=0.75)
    assert uneven["generation_seconds"] == pytest.approx(last.point) and last.point > equal["generation_seconds"]
    assert uneven["tokens"] == equal["tokens"]
    needs = [row("llama3_8b", **usual, zero=3, longest_output=longest)["memory_bytes"] for longest in (256, 512, 8192)]
    assert needs == sorted(needs) and len(set(needs)) == 3


def test_more_devices_share_the_rollouts_and_the_training():
    seconds = [row("llama3_8b", devices=count, global_batch=64)["step_seconds"] for count in (2, 4, 8, 16)]
    assert seconds == sorted(seconds, reverse=True)


def test_what_does_not_fit_says_the_least_that_would():
    tuned = cb.finetune("llama3_70b", "h100-sxm", method="grpo", fine_tuning="full", devices=8)
    why = tuned.table["why"][0]
    assert tuned.table["fits"][0] == "no" and "does not fit" in repr(tuned)
    assert "with its reference needs" in why and "LoRA on 8 devices" in why
    assert (why.code, why.field) == ("memory-exceeded", "devices")
    (least,) = why.nearest
    fits = cb.finetune("llama3_70b", "h100-sxm", method="grpo", fine_tuning="full", devices=[least // 2, least])
    assert fits.table["fits"].isin(["yes", "likely"]).tolist() == [False, True]


def test_a_generator_too_small_for_the_weights_says_how_many_are_enough():
    why = cb.finetune("llama3_70b", "h100-sxm", **{**GRPO, "global_batch": 64}, devices=64, zero=3, generators=1).table[
        "why"
    ][0]
    assert "to generate" in why and "64 devices and 2 that generate" in why


REFUSED = [
    ({"group": 1}, "group", ["1", "from 2"]),
    ({"output_len": 0}, "output_len", ["from 1"]),
    ({"input_len": 2**28}, "input_len", ["33,554,432"]),
    ({"model": "resnet50"}, "model", ["resnet50", "not a language model"]),
    ({"tokens": 1e9}, "tokens", ["give steps"]),
    ({"seq": 512}, "seq", ["input_len"]),
    ({"epochs": 2}, "epochs", ["give steps"]),
    ({"longest_output": 8}, "longest_output", ["1,024", "at least"]),
    ({"global_batch": 3, "devices": 16}, "global_batch", ["take 2"]),
    ({"method": ["grpo", "lora"]}, "method", ["alone"]),
    ({"method": "lora", "group": 4}, "group", ["method = 'grpo'"]),
    ({"method": "dpo", "steps": 10}, "steps", ["method = 'grpo'"]),
    ({"method": "dpo", "reference": False}, "reference", ["'grpo' alone"]),
    ({"method": "sft", "fine_tuning": "lora"}, "fine_tuning", ["method = 'lora'"]),
    ({"method": "grop"}, "method", ["nearest: grpo"]),
]


@pytest.mark.parametrize("given, field, words", REFUSED, ids=[" ".join(given) for given, *_ in REFUSED])
def test_refusals_name_the_argument_and_the_remedy(given, field, words):
    with pytest.raises(ValueError) as problem:
        cb.finetune(**{"model": "llama3_8b", "accelerator": "h100-sxm", "method": "grpo", **given})
    assert problem.value.refusal.field == field
    assert all(word in str(problem.value) for word in words), problem.value


def test_sft_compares_all_ways():
    table = cb.finetune("llama3_8b", "rtx-4090", method="sft").table
    assert table["method"].tolist() == ["full", "lora", "qlora"]
    assert table.equals(cb.finetune("llama3_8b", "rtx-4090", method=["full", "lora", "qlora"]).table)


def test_no_engine_has_flags_for_it_yet():
    tuned = cb.finetune("llama3_8b", "h100-sxm", method="dpo", fine_tuning="lora")
    with pytest.raises(ValueError, match="torchtune cannot run it") as problem:
        tuned.launch()
    assert problem.value.refusal.field == "method" and "lora" in problem.value.refusal.nearest


def test_card_and_facts_show_the_split(tiny):
    tuned = cb.finetune(tiny, "h100-sxm", **GRPO, devices=2, zero=3, steps=10)
    facts = tuned.facts()
    assert "composed, not measured" in facts["Evidence"] and facts["Phases"].endswith("generation takes longest")
    assert "as if all answers were equal" in facts["Assumed"] and "rollouts: software" in facts["Assumed"]
    (printed,) = tuned.tables()["Ways"].to_dict("records")
    shares = [int(printed[f"{title.capitalize()} [%]"]) for title in PHASES.values()]
    assert abs(sum(shares) - 100) <= 2
    assert tuned.to_dict()["phases"][0]["phase"] == "generation" and "<table>" in tuned._repr_html_()


def test_the_shell_and_an_assistant_answer_alike(capsys):
    words = "--method grpo --fine-tuning lora --devices 8 --group 4 --output-len 256 --no-reference --steps 100"
    main(shlex.split(f"finetune llama3_8b h100-sxm {words} --json"))
    shell = json.loads(capsys.readouterr().out)
    given = {"fine_tuning": "lora", "devices": 8, "group": 4, "output_len": 256, "reference": False, "steps": 100}
    told = call("finetune", {"model": "llama3_8b", "accelerator": "h100-sxm", "method": "grpo", **given})
    assert not told["is_error"] and told["structured_content"] == shell
    assert np.isclose(sum(each["share"] for each in shell["phases"]), 1) and shell["ways"][0]["hours"] > 0


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "post-training.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def of_page():
    """The example of the page, and what it prints."""
    code, printed = "\n".join(re.findall(r"^    (.+)$", PAGE, flags=re.M)).split('print(step.facts()["Phases"])\n')
    names: dict = {}
    exec(code, names)
    return names["step"], printed


def test_the_example_of_the_page_prints_what_it_says(of_page):
    step, printed = of_page
    assert step.facts()["Phases"] == printed


def test_the_numbers_of_the_page_are_those_of_a_pocket_calculator(of_page):
    """Llama 3 8B: 8.03 billion parameters, and 32 layers with 8 heads of 128 keys and values in 16 bits."""
    own = of_page[0].table.iloc[0]
    device, weights, sequences = cb.accelerator("h100-sxm"), 8.03e9, 64 * 8
    assert (own["tp"], own["at_once"], own["tokens"]) == (2, 128, sequences * 2048)
    kept = 2 * 32 * 8 * 128 * 2
    read = 2 * weights / 2 + 128 / 2 * (1024 + 1024 / 2) * kept
    flop = 2 * weights * sequences * 2048
    forward = flop / (8 * device.peaks["peak_bf16"])
    bounds = {
        "generation": 1024 * read / device.mem_bandwidth,
        "reference": forward,
        "training": 3 * forward,
        "update": 2 * weights / 2 / cb.machine("h100-sxm").network,
    }
    lines = re.findall(r"^\| [a-z, ]+ \| .+ \| ([\d.]+) \| ([\d.]+) \|$", PAGE, flags=re.M)
    for (bound, estimate), (name, seconds) in zip(lines, bounds.items(), strict=True):
        told = [f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in (seconds, own[f"{name}_seconds"])]
        assert [bound, estimate] == told and seconds <= own[f"{name}_seconds"] * 1.001, name
    assert f"{kept:,} B = {128 / 2 * 1536 * kept / 1e9:.1f} GB" in PAGE and f"{flop / 1e15:.1f} PFLOP" in PAGE
    assert f"= {own['step_seconds']:.1f} s" in PAGE and f"{own['hours']:.1f} hours of 16 GPUs" in PAGE
    parts = [own[f"{name}_seconds"] for name in ("generation", "reference", "reference", "training", "update")]
    assert own["step_seconds"] == pytest.approx(sum(parts), rel=1e-9)
    rounded = [f"{part:.1f}" for part in parts]
    assert f"{' + '.join(rounded)} = {own['step_seconds']:.1f} s before rounding" in PAGE
