"""Memory of a configuration by hand: what layers keep for their backward pass, and what the loss keeps of logits."""

import numpy as np
import pytest

import cookbook as cb
from cookbook.prediction.kinds import configurations
from cookbook.prediction.kinds.transformer import KIND, resolve
from cookbook.prediction.scenario import scenario

# Llama 3 8B: 32 layers of width 4,096 with 8 of 32 heads of keys and values, 14,336 inner units, 128,256 tokens.
H, KV, F, LAYERS, VOCABULARY, TOKENS = 4096, 1024, 14336, 32, 128256, 8192
USUAL = configurations.usual()
# Inputs and outputs of two norms, queries, keys, values and their sum, and both inner values with their product.
FULL = 2 * (4 * H) + 2 * (2 * H + 2 * KV) + 2 * (3 * F)


def parts(**changes) -> dict[str, float]:
    given = {"model": "llama3_8b", "accelerator": "b200-sxm", "software": "Megatron Core", "recompute": "none"}
    given |= {"devices": 8, "tp": 1, "pp": 1, "zero": 3, "seq": TOKENS, "micro_batch": 1}
    rows = resolve(scenario(KIND, given | changes))
    assert rows.why[0] == ""
    return {name: float(np.ravel(part)[0]) for name, part in configurations.memory_parts(rows, USUAL).items()}


def kept(**changes) -> float:
    """Bytes that a layer keeps of a token."""
    return parts(**changes)["activations"] / (USUAL["activation_margin"] * LAYERS * TOKENS)


@pytest.mark.parametrize(("precision", "size"), [("fp8", 1.0), ("fp4", 0.5)])
def test_inputs_of_products_are_kept_in_their_format(precision, size):
    """The norms' outputs and the product of inner values; what attention returns is kept twice, for its kernel too."""
    narrow = 2 * (2 * H) + size * (2 * H) + 2 * (2 * H + 2 * KV) + size * H + 2 * (2 * F) + size * F
    assert kept(precision="bf16") == pytest.approx(FULL) and kept(precision=precision) == pytest.approx(narrow)
    assert kept(precision=precision, software="torchtitan") == kept(precision="bf16", software="torchtitan")


def test_products_with_frozen_weights_keep_no_input():
    """Adapters of attention keep its input, and those of the feed-forward layer, where it has any, its own."""
    for way in ("lora", "qlora"):
        lora = {"fine_tuning": way, "rank": 16}
        assert kept(target_modules="all linear", **lora) == pytest.approx(FULL)
        assert kept(target_modules="attention", **lora) == pytest.approx(FULL - 2 * H - 2 * F)
    narrow = [kept(target_modules="attention", precision=each, **lora) for each in ("bf16", "fp8")]
    assert narrow[0] == narrow[1], "adapters multiply in 16 bits"


@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        ({}, 2 * H + 2 * (2 * H + 2 * KV) + 2 * (2 * F)),
        ({"precision": "fp8"}, 2 * H + 2 * (2 * H + 2 * KV) + H + 2 * (2 * F)),
        ({"fine_tuning": "lora", "target_modules": "attention"}, 2 * H + 2 * (2 * H + 2 * KV) + 2 * (2 * F)),
    ],
)
def test_what_is_computed_from_both_inner_values_is_not_kept_where_it_is_recomputed(changes, stays):
    """Nor are the norms: of the stream a layer keeps its input."""
    assert kept(**{"precision": "bf16", "recompute": "moe_act"} | changes) == pytest.approx(stays)


def test_a_layer_without_gate_keeps_two_values_of_which_one_is_narrow():
    """MPT 7B: width 4,096 and 16,384 inner units, all heads with keys and values of their own."""
    width, inner, layers = 4096, 16384, 32
    mpt = [parts(model="mpt_7b", precision=each)["activations"] for each in ("bf16", "fp8")]
    full, narrow = (each / (USUAL["activation_margin"] * layers * TOKENS) for each in mpt)
    assert full == pytest.approx(2 * 8 * width + 2 * 2 * inner)
    assert full - narrow == pytest.approx(2 * width - width + inner)


def test_experts_keep_what_is_sent_to_them_in_the_format_of_their_products():
    """Of Mixtral 8x7B the gate keeps the norm's output in 16 bits; each token goes to two experts and back."""
    mixtral = {"model": "mixtral_8x7b", "ep": 8}
    saved = kept(precision="bf16", **mixtral) - kept(precision="fp8", **mixtral)
    before_attention, returned, inner, sent = H, -H, 2 * F, 2 * H
    assert saved == pytest.approx(before_attention + returned + inner + sent)
    lora = {"fine_tuning": "lora", "target_modules": "attention", **mixtral}
    assert kept(**lora) == pytest.approx(kept(precision="bf16", **mixtral) - 2 * (H + 2 * F + 2 * H))


def test_a_shared_expert_keeps_a_copy_of_its_own():
    """DeepSeek-V3: width 7,168, 128 heads with 128 values each, and 9 of 257 experts with 2,048 inner units a token."""
    width, values, inner, layers = 7168, 128 * 128, 9 * 2048, 61
    stored = [parts(model="deepseek_v3", ep=8, precision=each)["activations"] for each in ("bf16", "fp8")]
    saved = (stored[0] - stored[1]) / (USUAL["activation_margin"] * layers * TOKENS)
    before_attention, copy, sent = width, -width, 8 * width
    assert saved == pytest.approx(before_attention + copy - values + inner + sent)


def test_a_loss_in_16_bits_keeps_logits_and_their_gradients():
    """4 bytes, where PyTorch under FSDP converts logits to single precision: 20. The rest of the memory is the same."""
    foundry, plain = (parts(software=name, recompute="full") for name in ("LLM Foundry", "PyTorch FSDP"))
    assert foundry.pop("transient") == 4 * TOKENS * VOCABULARY
    assert plain.pop("transient") == 20 * TOKENS * VOCABULARY and foundry == plain


def test_runs_of_llm_foundry_count_as_measured_for_pytorch_under_fsdp():
    """In 8 bits, too, where products of Transformer Engine keep narrow inputs, and those of PyTorch do not."""
    run = {"devices": 8, "micro_batch": 10, "global_batch": 480, "seq": 2048, "precision": "fp8", "zero": 3}
    for name in ("LLM Foundry", "PyTorch FSDP"):
        step = cb.train_step("mpt_3b", "h100-sxm", software=name, recompute="none", **run)
        assert [each.publisher for each in step.measured] == ["MosaicML"], name
