"""Attention, experts, activation memory and compute of transformers against published formulas and counts."""

import numpy as np
import pytest

from cookbook import catalog
from cookbook.workloads.builders.blocks import latent_attention, moe
from cookbook.workloads.builders.transformers import bert, decoder, electra, encoder_decoder, swin, vit
from cookbook.workloads.layers import S, Trace, self_attention, transformer_block
from cookbook.workloads.ops import Ops
from cookbook.workloads.zoo import model

SEQ, HEADS, DIM = 1000, 8, 64
WIDTH = HEADS * DIM


def core(**arguments) -> Ops:
    t = Trace()
    t.attention(t.tokens(S, WIDTH), HEADS, head_dim=DIM, **arguments)
    return t.ops()


def attention_macs_at(ops: Ops, seq: float) -> float:
    return float(ops.column("macs", 1, seq)[ops.kind == "attention"].sum())


# ---- attention by hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "pairs"),
    [
        ({}, SEQ**2),
        ({"causal": True}, SEQ * (SEQ + 1) / 2),
        ({"causal": True, "window": 100}, 100 * 101 / 2 + 900 * 100),
        ({"window": 100}, SEQ * 100),
        ({"causal": True, "window": 5000}, SEQ * (SEQ + 1) / 2),
        ({"causal": True, "kv_heads": 2}, SEQ * (SEQ + 1) / 2),
        ({"causal": True, "kv_heads": 1}, SEQ * (SEQ + 1) / 2),
    ],
)
@pytest.mark.parametrize("flash", [True, False])
def test_attention_core_is_two_products_over_the_attended_pairs(arguments, pairs, flash):
    assert core(**arguments, flash=flash).total("macs", 3, SEQ) == pytest.approx(3 * 2 * pairs * WIDTH, rel=1e-12)


def test_attention_core_with_other_value_width_and_with_a_memory():
    ops = core(causal=True, v_dim=2 * DIM)
    assert ops.total("macs", 1, SEQ) == pytest.approx(SEQ * (SEQ + 1) / 2 * HEADS * 3 * DIM)
    t = Trace()
    t.attention(t.tokens(S, WIDTH), HEADS, memory=t.tokens(S * 0.5, WIDTH))
    assert t.ops().total("macs", 1, SEQ) == pytest.approx(SEQ * SEQ / 2 * 2 * WIDTH)


@pytest.mark.parametrize("kv_heads", [8, 2, 1])
def test_grouped_and_multi_query_attention_shrink_keys_and_values_only(kv_heads):
    t = Trace()
    self_attention(t, t.tokens(S, WIDTH), HEADS, kv_heads, DIM, causal=True, bias=False)
    ops = t.ops()
    assert ops.parameter_count == 2 * WIDTH**2 + 2 * WIDTH * kv_heads * DIM
    assert attention_macs_at(ops, SEQ) == pytest.approx(2 * WIDTH * SEQ * (SEQ + 1) / 2)


def test_flash_keeps_no_scores():
    scores = HEADS * SEQ**2
    flash, stored, dropped = core(), core(flash=False), core(flash=False, dropout=True)
    tensors = 4 * SEQ * WIDTH
    assert flash.total("saved", 1, SEQ) == tensors and flash.total("mask_bytes", 1, SEQ) == 4 * SEQ * HEADS
    assert stored.total("saved", 1, SEQ) == tensors + scores and stored.total("mask_bytes", 1, SEQ) == 0
    assert dropped.total("saved", 1, SEQ) == tensors + 2 * scores and dropped.total("mask_bytes", 1, SEQ) == scores
    assert flash.total("reads", 1, SEQ) + 2 * scores == stored.total("reads", 1, SEQ)


def test_latent_attention_of_deepseek_v3_by_hand():
    """arXiv:2412.19437, section 4.2: width 7168, 128 heads of 128 + 64 (rotary) and 128, ranks 1536 and 512."""
    t = Trace()
    latent_attention(t, t.tokens(S, 7168), 128, 1536, 512, 128, 64, 128)
    ops = t.ops()
    matrices = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    assert ops.parameter_count == matrices + 1536 + 512
    pairs = SEQ * (SEQ + 1) / 2
    assert ops.total("macs", 1, SEQ) == pytest.approx(matrices * SEQ + 128 * pairs * (192 + 128))


def test_cross_attention_block_by_hand():
    t = Trace()
    memory = t.tokens(S, 512)
    transformer_block(t, t.tokens(S * 0.5, 512), 8, 2048, memory=memory, causal=True)
    d, s, half = 512, 1000, 500
    projections = 4 * d * d * half + 2 * d * d * half + 2 * d * d * s
    cores = 2 * d * (half * (half + 1) / 2) + 2 * d * half * s
    assert t.ops().total("macs", 1, s) == pytest.approx(projections + cores + 2 * d * 2048 * half)


# ---- compute of language models ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "layers", "width", "seq", "tolerance"),
    [
        ("gpt3_175b", 96, 12288, 2048, 0.005),
        ("megatron_1t", 128, 25600, 2048, 0.005),
        ("llama3_405b", 126, 16384, 2048, 0.01),
    ],
)
def test_kaplan_2020_forward_flop_of_a_token(name, layers, width, seq, tolerance):
    """Kaplan et al., arXiv:2001.08361, eq. 2.2: 2 N + 2 n_layer n_ctx d_attn; N without embeddings, mask not used."""
    ops = model(name).ops
    tables = ops.parameters[(ops.kind == "embedding") | (ops.name == "head")].sum()
    per_token = ops.column("flop", 1, seq)[ops.name != "head"].sum() / seq
    non_embedding = ops.parameter_count - tables
    exact = 2 * (non_embedding - _vectors(ops)) + 2 * layers * width * (seq + 1)
    assert per_token == pytest.approx(exact, rel=1e-12)
    assert per_token == pytest.approx(2 * non_embedding + 2 * layers * seq * width, rel=tolerance)
    assert per_token == pytest.approx(2 * non_embedding, rel=0.05)


def _vectors(ops: Ops) -> float:
    """Parameters that enter no matrix product: norms and biases."""
    matmul = ops.kind == "linear"
    matrices = (ops.n[:, 0, 0] * ops.k[:, 0, 0] * ops.count)[matmul & (ops.name != "head")].sum()
    tables = ops.parameters[(ops.kind == "embedding") | (ops.name == "head")].sum()
    return ops.parameter_count - tables - matrices


def test_narayanan_2021_equation_3_for_every_row_of_its_table_1():
    """arXiv:2104.04473, eq. 3: F = 96 B s l h^2 (1 + s / 6h + V / 16lh) with recomputation, mask not used."""
    rows = [n for n in catalog.table("models")["name"] if n.startswith("megatron_") and "gpt2" not in n]
    assert len(rows) == 11
    for name in rows:
        a = model(name).arguments
        s, layers, h, v = 2048, a["depth"], a["width"], a["vocab"]
        ops = model(name).ops
        head = float(ops.column("flop", 1, s)[ops.name == "head"].sum())
        forward = float(ops.total("flop", 1, s)) + attention_macs_at(ops, s) * 2 * (2 * s / (s + 1) - 1)
        four_passes = 4 * forward - head
        equation_3 = 96 * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
        assert four_passes == pytest.approx(equation_3, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "gmac", "with_head", "products"),
    [
        ("llama_7b", 850.00, True, 2),
        ("llama2_7b", 850.00, True, 2),
        ("qwen_7b", 912.88, True, 2),
        ("baichuan_7b", 866.78, True, 2),
        ("bloom_7b", 775.11, False, 1),
        ("pythia_12b", 1455.59, False, 2),
    ],
)
def test_calflops_table_at_128_tokens(name, gmac, with_head, products):
    """calflops README: forward multiply-accumulates at 128 tokens.

    It counts scores that the mask hides; two networks were counted without their output matrix; BLOOM's scores are
    a fused product (baddbmm) that it does not see.
    """
    ops = model(name).ops
    macs = ops.column("macs", 1, 128)
    without_mask = attention_macs_at(ops, 128) * 2 * 128 / 129
    total = macs[ops.kind != "attention"].sum() + without_mask * products / 2
    total -= 0 if with_head else macs[ops.name == "head"].sum()
    assert total / 1e9 == pytest.approx(gmac, abs=0.005)


def test_llm_foundry_printed_throughput_and_rate_agree_with_our_count():
    """LLM Foundry's table, MPT-70B on 512 H100: 1007 tokens/s and 408 TFLOP/s a device; its formula has no mask."""
    ops = model("mpt_70b").ops
    hidden_by_mask = 2 * attention_macs_at(ops, 2048) * (2 * 2048 / 2049 - 1)
    training = 3 * (float(ops.total("flop", 1, 2048)) + hidden_by_mask) / 2048
    assert training * 1007 / 1e12 == pytest.approx(408, abs=0.7)


# ---- mixtures of experts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "active", "half_width", "without_table"),
    [
        ("mixtral_8x7b", 12.9e9, 0.05e9, False),
        ("mixtral_8x22b", 39e9, 0.5e9, False),
        ("qwen3_30b_a3b", 3.3e9, 0.1e9, False),
        ("qwen3_235b_a22b", 22e9, 0.5e9, False),
        ("deepseek_v3", 37e9, 0.5e9, True),
        ("deepseek_v2", 21e9, 0.5e9, False),
        ("gpt_oss_20b", 3.61e9, 0.005e9, True),
        ("gpt_oss_120b", 5.13e9, 0.005e9, True),
    ],
)
def test_published_active_parameters(name, active, half_width, without_table):
    """As the publishers print them; some leave the embedding table out (a token reads one row of it)."""
    ops = model(name).ops
    table = ops.parameters[ops.kind == "embedding"].sum() if without_table else 0
    assert ops.active_parameter_count - table == pytest.approx(active, abs=half_width)
    assert ops.active_parameter_count < 0.5 * ops.parameter_count


def test_experts_by_hand():
    t = Trace()
    moe(t, t.tokens(S, 256), experts=16, top_k=4, hidden=512, shared=1024)
    ops = t.ops()
    expert = 3 * 256 * 512
    assert ops.parameter_count == 256 * 16 + 16 * expert + 3 * 256 * 1024
    assert ops.active_parameter_count == 256 * 16 + 4 * expert + 3 * 256 * 1024
    assert ops.total("macs", 2, 10) == 20 * (256 * 16 + 4 * expert + 3 * 256 * 1024)


# ---- activation memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("h", "a"), [(6144, 64), (12288, 96), (20480, 128), (25600, 160)])
def test_korthikanti_2022_activations_of_a_layer(h, a, s=2048):
    """arXiv:2205.05198, eq. 1: s b h (34 + 5 a s / h) bytes; networks of its table 3.

    Equal to the byte when attention is full, but for mean and variance of each position that the two norms keep and
    the paper leaves out as small (8 bytes each); the causal mask saves 5 a s (s - 1) / 2 bytes of scores.
    """

    def layer_bytes(causal: bool, flash: bool) -> float:
        t = Trace()
        x = t.tokens(S, h)
        with t.block("layer"):
            transformer_block(t, x, a, 4 * h, dropout=True, causal=causal, flash=flash)
        ops = t.ops()
        return float(2 * ops.total("saved", 1, s) + ops.total("mask_bytes", 1, s))

    statistics = 2 * 8 * s
    expected = s * h * (34 + 5 * a * s / h) + statistics
    assert layer_bytes(causal=False, flash=False) == pytest.approx(expected, rel=1e-14)
    assert layer_bytes(causal=True, flash=False) == pytest.approx(expected - 5 * a * s * (s - 1) / 2, rel=1e-14)
    assert layer_bytes(causal=True, flash=True) == 34 * s * h + 4 * a * s + statistics


def test_gated_layer_keeps_four_hidden_vectors():
    """SwiGLU without dropout: norms 2h, qkv input h, q, k, v, attention output, two inputs h, 4 f."""
    t = Trace()
    with t.block("layer"):
        transformer_block(t, t.tokens(S, 4096), 32, 11008, norm="rms", gated=True, act="silu", bias=False, causal=True)
    assert t.ops().total("saved", 1, 10) == 10 * (2 * 4096 + 4096 + 3 * 4096 + 4096 + 4096 + 4 * 11008)


# ---- parameters -------------------------------------------------------------------------------------------------


def test_tied_output_matrix_adds_no_parameters_but_the_same_work():
    tied, free = model("llama3.2_1b").ops, model("llama3.2_1b", tied=False).ops
    assert free.parameter_count - tied.parameter_count == 128256 * 2048
    assert free.total("macs", 1, 100) == tied.total("macs", 1, 100)
    assert tied.parameter_count == catalog.row("models", "llama3.2_1b")["published_parameters"]


def test_albert_shares_its_layers_and_electra_its_embeddings():
    shared = bert(30000, 768, 12, 12, 3072, embedding_width=128, share_layers=True)
    own = bert(30000, 768, 12, 12, 3072, embedding_width=128)
    layer = own.parameters[own.block == "layer"].sum()
    assert own.parameter_count - shared.parameter_count == 11 * layer
    assert own.total("macs", 2, 64) == shared.total("macs", 2, 64)
    pair = electra(30522, 768, 12, 12, 3072, generator_width=256, generator_heads=4, generator_depth=12)
    tables = pair.parameters[pair.kind == "embedding"].sum()
    assert tables == (30522 + 512 + 2) * 768


def test_length_of_the_target_changes_only_the_decoder():
    sizes = {"vocab": 100, "width": 64, "depth": 2, "heads": 4, "hidden": 128}
    whole, short = encoder_decoder(**sizes), encoder_decoder(**sizes, target=0.25)
    encoder = whole.block == "encoder.layer"
    assert np.array_equal(whole.column("macs", 1, 80)[encoder], short.column("macs", 1, 80)[encoder])
    assert short.total("macs", 1, 80) < whole.total("macs", 1, 80)
    assert short.parameter_count == whole.parameter_count


@pytest.mark.parametrize("name", ["llama3_8b", "deepseek_v3", "bert_large", "t5_base", "gemma2_9b", "swin_t"])
def test_work_is_linear_in_the_batch_and_blocks_are_labelled(name):
    ops = model(name).ops
    one, three = ops.total("macs", 1, 512), ops.total("macs", 3, 512)
    assert three == pytest.approx(3 * one, rel=1e-12) and one > 0
    assert any(ops.block != "")


@pytest.mark.parametrize("window", [7, 14])
def test_swin_attends_inside_windows_only(window):
    """Liu et al., arXiv:2103.14030, eq. 2: 4 h w C^2 + 2 M^2 h w C for each layer's attention."""
    ops = swin(window=window, depths=(1, 1, 1, 1))
    stages = [(56, 96), (28, 192), (14, 384), (7, 768)]
    expected = sum(2 * min(window, side) ** 2 * side**2 * width for side, width in stages)
    assert attention_macs_at(ops, 0) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: decoder(10, 8, 1, 2, 16, experts={"number": 4, "topk": 2, "hidden": 8}), "topk"),
        (lambda: decoder(10, 8, 1, 2, 16, latent={"rank": 4}), "rank"),
        (lambda: bert(10, 8, 1, 2, 16, head="nothing"), "nothing"),
        (lambda: decoder(10, 8, 1, 4, 16, kv_heads=3), "kv_heads"),
        (lambda: vit(qkv_bias="some"), "qkv_bias"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
