"""Memory of a configuration by hand: what a layer of Llama 3 8B keeps for its backward pass, and what its loss does."""

import numpy as np
import pytest

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
    """The input of attention is that of adapters; that of the feed-forward layer is where it has adapters, too."""
    lora = {"fine_tuning": "lora", "rank": 16}
    assert kept(target_modules="all linear", **lora) == pytest.approx(FULL)
    assert kept(target_modules="attention", **lora) == pytest.approx(FULL - 2 * H - 2 * F)
    narrow = [kept(target_modules="attention", precision=format, **lora) for format in ("bf16", "fp8")]
    assert narrow[0] == narrow[1], "adapters multiply in 16 bits"


def test_experts_keep_what_is_sent_to_them_in_the_format_of_their_products():
    """Of Mixtral 8x7B the gate keeps the norm's output in 16 bits; each token goes to two experts and back."""
    mixtral = {"model": "mixtral_8x7b", "ep": 8}
    saved = kept(precision="bf16", **mixtral) - kept(precision="fp8", **mixtral)
    before_attention, returned, inner, sent = H, -H, 2 * F, 2 * H
    assert saved == pytest.approx(before_attention + returned + inner + sent)


def test_a_loss_in_16_bits_keeps_logits_and_their_gradients():
    """4 bytes, where PyTorch under FSDP converts logits to single precision: 20. The rest of the memory is the same."""
    foundry, plain = (parts(software=name, recompute="full") for name in ("LLM Foundry", "PyTorch FSDP"))
    assert foundry.pop("transient") == 4 * TOKENS * VOCABULARY
    assert plain.pop("transient") == 20 * TOKENS * VOCABULARY and foundry == plain
