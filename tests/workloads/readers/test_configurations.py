"""Models that people bring as a configuration: counts as published, and what is refused or assumed is said."""

import csv
import json
import re
from pathlib import Path

import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.workloads.readers import decoders, encoders, hybrids, tables

TABLE = Path(__file__).parents[2] / "published" / "configurations.csv"
ROWS = list(csv.DictReader(TABLE.open(encoding="utf-8", newline="")))
LLAMA = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
}


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_configurations_have_as_many_parameters_as_published(row):
    """Dimensions and counts from the sources named in the table, within what is printed there."""
    model = cb.model(json.loads(row["config"]), **json.loads(row["changes"] or "{}"))
    counted = model.ops.parameter_count + int(row["adjustment"])
    assert abs(counted - int(row["parameters"])) <= int(row["rounding"])


def test_the_table_of_configurations_is_wide_and_cited():
    newest = (
        "Qwen3",
        "Llama-4",
        "DeepSeek-V3",
        "gpt-oss",
        "gemma-3",
        "Kimi-K2",
        "GLM-4.5",
        "Mistral-Small",
        "phi-4",
        "OLMo-2",
        "SmolLM3",
        "MiniMax-M2",
        "granite-4",
    )
    assert len(ROWS) >= 40 and len({row["name"] for row in ROWS}) == len(ROWS)
    assert all(any(word in row["name"] for row in ROWS) for word in newest)
    for row in ROWS:
        assert row["dimensions_source"].startswith("https://") and row["parameters_source"].startswith("https://")
        assert row["note"] or (row["adjustment"], row["changes"]) == ("0", "")


def of_decoder(c):
    """A configuration as the Transformers library would write it for a decoder of the zoo."""
    config = {
        "vocab_size": c["vocab"],
        "hidden_size": c["width"],
        "num_hidden_layers": c["depth"],
        "num_attention_heads": c["heads"],
        "intermediate_size": c["hidden"],
        "tie_word_embeddings": c.get("tied", False),
        "num_key_value_heads": c.get("kv_heads") or c["heads"],
        "head_dim": c.get("head_dim"),
        "sliding_window": c.get("window"),
    }
    family = "qwen3" if c.get("qk_norm") else "qwen2" if c.get("qkv_bias") else "llama"
    if c.get("norms") == 4:
        family, config["hidden_activation"] = "gemma3_text" if c.get("qk_norm") else "gemma2", "gelu_pytorch_tanh"
        config["sliding_window_pattern"] = c["full_every"]
    elif c.get("act") == "gelu":
        family, config["hidden_act"] = "gemma", "gelu"
    if c.get("experts"):
        e = c["experts"]
        family = "qwen3_moe" if c.get("qk_norm") else "mixtral"
        config |= {"num_experts": e["number"], "num_experts_per_tok": e["top_k"], "moe_intermediate_size": e["hidden"]}
    if c.get("latent"):
        e, m = c["experts"], c["latent"]
        family = "deepseek_v3" if e.get("score_bias") else "deepseek_v2"
        config |= {
            "q_lora_rank": m["q_rank"],
            "kv_lora_rank": m["kv_rank"],
            "qk_nope_head_dim": m["nope_dim"],
            "qk_rope_head_dim": m["rope_dim"],
            "v_head_dim": m["v_dim"],
            "first_k_dense_replace": e["first_dense"],
            "n_shared_experts": e["shared"] // e["hidden"],
        }
    return {"model_type": family, **config}


DECODERS = (
    "llama2_7b",
    "llama3_70b",
    "llama3.2_1b",
    "mistral_7b",
    "mixtral_8x7b",
    "qwen2.5_7b",
    "qwen2.5_0.5b",
    "qwen3_8b",
    "qwen3_30b_a3b",
    "gemma_2b",
    "gemma_7b",
    "gemma2_9b",
    "gemma3_4b",
    "gemma3_27b",
    "deepseek_v2_lite",
    "deepseek_v2",
    "deepseek_v3",
    "kimi_k2",
    "phi_3_mini",
    "yi_34b",
    "tinyllama_1.1b",
)


def same(imported, zoo, seq=None, rel=0.01):
    assert imported.ops.parameter_count == zoo.ops.parameter_count
    ours, theirs = (float(each.ops.total("macs", 1, seq)) for each in (imported, zoo))
    assert ours == pytest.approx(theirs, rel=rel)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_of_the_zoo_is_the_same_imported(name):
    zoo = cb.model(name)
    config = of_decoder({**zoo.arguments})
    imported = cb.model(config)
    same(imported, zoo, 8192)
    assert imported.builder == zoo.builder and dict(imported.arguments)["width"] == zoo.arguments["width"]


OTHERS = {
    "gpt2": {
        "model_type": "gpt2",
        "vocab_size": 50257,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "activation_function": "gelu_new",
        "resid_pdrop": 0.1,
    },
    "opt_125m": {
        "model_type": "opt",
        "vocab_size": 50272,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "ffn_dim": 3072,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": 768,
        "do_layer_norm_before": True,
        "activation_function": "relu",
    },
    "opt_350m": {
        "model_type": "opt",
        "vocab_size": 50272,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "ffn_dim": 4096,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": 512,
        "do_layer_norm_before": False,
    },
    "bloom_7b": {"model_type": "bloom", "vocab_size": 250880, "hidden_size": 4096, "n_layer": 30, "n_head": 32},
    "gpt_j_6b": {
        "model_type": "gptj",
        "vocab_size": 50400,
        "n_embd": 4096,
        "n_layer": 28,
        "n_head": 16,
        "rotary_dim": 64,
    },
    "pythia_12b": {
        "model_type": "gpt_neox",
        "vocab_size": 50688,
        "hidden_size": 5120,
        "num_hidden_layers": 36,
        "num_attention_heads": 40,
        "intermediate_size": 20480,
        "use_parallel_residual": True,
        "hidden_act": "gelu",
    },
    "mpt_7b_released": {
        "model_type": "mpt",
        "vocab_size": 50432,
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "expansion_ratio": 4,
        "no_bias": True,
        "attn_config": {"alibi": True},
        "max_seq_len": 2048,
    },
    "falcon_180b": {
        "model_type": "falcon",
        "vocab_size": 65024,
        "hidden_size": 14848,
        "num_hidden_layers": 80,
        "num_attention_heads": 232,
        "num_kv_heads": 8,
        "new_decoder_architecture": True,
        "bias": False,
    },
    "qwen_7b": {
        "model_type": "qwen",
        "vocab_size": 151936,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 22016,
        "kv_channels": 128,
        "no_bias": True,
    },
    "gpt_oss_20b": {
        "model_type": "gpt_oss",
        "vocab_size": 201088,
        "hidden_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2880,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "attention_bias": True,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "bert_base": {
        "model_type": "bert",
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    },
    "roberta_base": {
        "model_type": "roberta",
        "vocab_size": 50265,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
    },
    "albert_base": {
        "model_type": "albert",
        "vocab_size": 30000,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "embedding_size": 128,
        "hidden_dropout_prob": 0,
    },
    "bert_large_squad": {
        "model_type": "bert",
        "vocab_size": 30522,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "architectures": ["BertForQuestionAnswering"],
    },
    "t5_base": {
        "model_type": "t5",
        "vocab_size": 32128,
        "d_model": 768,
        "num_layers": 12,
        "num_heads": 12,
        "d_ff": 3072,
        "d_kv": 64,
    },
    "t5_v1.1_xl": {
        "model_type": "t5",
        "vocab_size": 32128,
        "d_model": 2048,
        "num_layers": 24,
        "num_heads": 32,
        "d_ff": 5120,
        "d_kv": 64,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
    },
    "bart_large": {
        "model_type": "bart",
        "vocab_size": 50265,
        "d_model": 1024,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "encoder_attention_heads": 16,
        "decoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
        "decoder_ffn_dim": 4096,
    },
    "whisper_turbo": {
        "model_type": "whisper",
        "d_model": 1280,
        "encoder_layers": 32,
        "encoder_attention_heads": 20,
        "decoder_layers": 4,
        "num_mel_bins": 128,
        "vocab_size": 51866,
        "encoder_ffn_dim": 5120,
    },
    "vit_b_16": {"model_type": "vit", "num_labels": 1000},
    "vit_h_14": {
        "model_type": "vit",
        "patch_size": 14,
        "hidden_size": 1280,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "intermediate_size": 5120,
        "num_labels": 1000,
    },
    "beit_base_patch16_224": {"model_type": "beit", "use_relative_position_bias": True, "num_labels": 1000},
    "swin_t": {"model_type": "swin", "num_labels": 1000, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24]},
    "resnet50_v1.5": {
        "model_type": "resnet",
        "depths": [3, 4, 6, 3],
        "hidden_sizes": [256, 512, 1024, 2048],
        "num_labels": 1000,
    },
    "resnet18": {
        "model_type": "resnet",
        "depths": [2, 2, 2, 2],
        "hidden_sizes": [64, 128, 256, 512],
        "layer_type": "basic",
        "id2label": {str(n): str(n) for n in range(1000)},
    },
    "convnext_base": {
        "model_type": "convnext",
        "depths": [3, 3, 27, 3],
        "hidden_sizes": [128, 256, 512, 1024],
        "num_labels": 1000,
    },
    "mamba_1_4b": {"model_type": "mamba", "vocab_size": 50280, "hidden_size": 2048, "num_hidden_layers": 48},
    "jamba_1.5_mini": {
        "model_type": "jamba",
        "vocab_size": 65536,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
    },
    "minimax_text_01": {
        "model_type": "minimax_text_01",
        "vocab_size": 200064,
        "hidden_size": 6144,
        "intermediate_size": 9216,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attn_type_list": ([0] * 7 + [1]) * 10,
        "num_local_experts": 32,
        "num_experts_per_tok": 2,
    },
    "qwen3_next_80b_a3b": {
        "model_type": "qwen3_next",
        "vocab_size": 151936,
        "hidden_size": 2048,
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_value_heads": 32,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    "nemotron_h_8b": {
        "model_type": "nemotron_h",
        "vocab_size": 131072,
        "hidden_size": 4096,
        "intermediate_size": 21504,
        "num_hidden_layers": 52,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "attention_head_dim": 128,
        "hybrid_override_pattern": "M-M-M-M*-" + 3 * "M-M-M-M-M*-" + "M-M-M-M-M-",
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "mlp_hidden_act": "relu2",
    },
    "granite_4.0_h_tiny": {
        "model_type": "granitemoehybrid",
        "vocab_size": 100352,
        "hidden_size": 1536,
        "intermediate_size": 512,
        "shared_intermediate_size": 1024,
        "num_hidden_layers": 40,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "num_local_experts": 64,
        "num_experts_per_tok": 6,
        "mamba_n_heads": 48,
        "layer_types": 4 * (5 * ["mamba"] + ["attention"] + 4 * ["mamba"]),
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "tie_word_embeddings": True,
    },
    "mamba2_2.7b": {
        "model_type": "mamba2",
        "vocab_size": 50288,
        "hidden_size": 2560,
        "num_hidden_layers": 64,
        "num_heads": 80,
        "head_dim": 64,
        "state_size": 128,
        "n_groups": 1,
        "tie_word_embeddings": True,
    },
    "dit_xl_2": {
        "_class_name": "DiTTransformer2DModel",
        "num_attention_heads": 16,
        "attention_head_dim": 72,
        "num_layers": 28,
        "sample_size": 32,
        "patch_size": 2,
        "num_embeds_ada_norm": 1000,
    },
    "stable_diffusion_1_5": {
        "_class_name": "UNet2DConditionModel",
        "block_out_channels": [320, 640, 1280, 1280],
        "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
        "attention_head_dim": 8,
        "cross_attention_dim": 768,
        "sample_size": 64,
        "layers_per_block": 2,
    },
    "stable_diffusion_xl": {
        "_class_name": "UNet2DConditionModel",
        "block_out_channels": [320, 640, 1280],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "attention_head_dim": [5, 10, 20],
        "cross_attention_dim": 2048,
        "sample_size": 128,
        "transformer_layers_per_block": [1, 2, 10],
        "use_linear_projection": True,
        "projection_class_embeddings_input_dim": 2816,
    },
    "flux_1_dev": {
        "_class_name": "FluxTransformer2DModel",
        "num_layers": 19,
        "num_single_layers": 38,
        "guidance_embeds": True,
    },
    "densenet121": {"architecture": "densenet121", "pretrained_cfg": {"tag": "tv_in1k"}},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_network_of_the_zoo_is_the_same_imported(name):
    zoo = cb.model(name)
    changes = {"target": zoo.arguments["target"]} if "target" in zoo.arguments else {}
    same(cb.model(OTHERS[name], **changes), zoo, 512 if zoo.ops.needs_seq else None)


def test_what_is_assumed_is_printed_with_the_model():
    shown = repr(cb.model(LLAMA | {"max_position_embeddings": 4096, "colour": "blue"}))
    first = shown.splitlines()[0]
    assert first.startswith("<llama: 6,738,415,616 parameters") and first.endswith("unverified>")
    assert "  assumed: fields not read, as if they changed no count: colour" in shown
    assert "  assumed: sequences of 4,096 tokens, of 4,096 at most; seq= says otherwise" in shown
    assert "sequences of" not in repr(cb.model(LLAMA, seq=2048)) and cb.model(LLAMA, seq=2048).seq == 2048
    assert "assumed" not in repr(cb.model("llama2_7b"))


def test_an_unknown_family_that_looks_like_llama_says_that_it_was_taken_for_one():
    model = cb.model(LLAMA | {"model_type": "newcomer"})
    assert model.ops.parameter_count == 6_738_415_616
    assert any("newcomer is not known here: counted as a model of Llama's kind" in each for each in model.assumed)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            LLAMA | {"model_type": "newcomer", "mamba_d_state": 16, "moe_every": 2},
            "mamba_d_state, moe_every; give its layers",
        ),
        ({"model_type": "newcomer", "colour": 1}, "its fields (model_type, colour) are not those of a language model"),
        ({}, "model_type = '' is not known here, and its fields (none)"),
        (LLAMA | {"num_hidden_layers": "many"}, "num_hidden_layers = 'many' is not a number; give a whole number"),
        (
            LLAMA | {"num_hidden_layers": 10**7},
            "num_hidden_layers = 10000000 is outside its range; give a whole number from 1 to 1,000",
        ),
        (LLAMA | {"vocab_size": -1}, "vocab_size = -1 is outside its range; give a whole number from 1"),
        (LLAMA | {"hidden_size": 4097}, "heads = 32 must divide width = 4097"),
        (LLAMA | {"num_key_value_heads": 7}, "num_key_value_heads = 7 must divide num_attention_heads = 32"),
        (LLAMA | {"tie_word_embeddings": "no"}, "tie_word_embeddings = 'no' must be true or false"),
        (
            LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9},
            "give a whole number from 1 to 8",
        ),
        (LLAMA | {"layer_types": ["mamba"] * 32}, "layer_types has 'mamba'"),
        (LLAMA | {"layer_types": ["full_attention"]}, "layer_types has 1 entries for num_hidden_layers = 32"),
        (
            {
                "model_type": "mixtral",
                "vocab_size": 9,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 8,
            },
            "the configuration of mixtral has no hidden_size or n_embd or d_model; add it",
        ),
        ({"model_type": "resnet", "depths": [9, 9], "hidden_sizes": [1, 2]}, "none of the published ResNets"),
        ({"model_type": "bert"}, "the configuration of bert has no hidden_size or dim; add it"),
        ({"model_type": "swin", "depths": [2, 2], "num_heads": [3]}, "give one a stage"),
        (
            {
                "model_type": "whisper",
                "d_model": 8,
                "encoder_layers": 1,
                "encoder_attention_heads": 2,
                "encoder_ffn_dim": 9,
            },
            "encoder_ffn_dim = 9 must be 4 x d_model = 32",
        ),
    ],
)
def test_configurations_that_cannot_be_are_refused_by_name(config, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        cb.model(config)


NEMOTRON = {
    "model_type": "nemotron_h",
    "vocab_size": 131072,
    "hidden_size": 4096,
    "intermediate_size": 2688,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hybrid_override_pattern": "ME*E",
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "mlp_hidden_act": "relu2",
    "n_routed_experts": 512,
    "num_experts_per_tok": 22,
    "n_shared_experts": 1,
    "moe_intermediate_size": 2688,
    "moe_shared_expert_intermediate_size": 5376,
}
QWEN = {
    "model_type": "qwen3_moe",
    "vocab_size": 32000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 160,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}


@pytest.mark.parametrize(
    ("config", "field", "what"),
    [
        (QWEN | {"moe_latent_size": 1024}, "moe_latent_size = 1024", "the width at which experts or attention work"),
        (QWEN | {"zero_expert_num": 4}, "zero_expert_num = 4", "the number of experts or their size"),
        (QWEN | {"router_hidden_size": 256}, "router_hidden_size = 256", "the number of experts or their size"),
        (LLAMA | {"num_experts_per_tok": 2}, "num_experts_per_tok = 2", "the number of experts or their size"),
        (LLAMA | {"o_lora_rank": 64}, "o_lora_rank = 64", "the width at which experts or attention work"),
        (LLAMA | {"index_topk": 2048, "index_n_heads": 64}, "index_topk = 2048", "the tokens that attention reads"),
        (LLAMA | {"use_sparse_attention": True}, "use_sparse_attention = True", "the tokens that attention reads"),
        (LLAMA | {"compress_ratios": [4, 128]}, "compress_ratios = [4, 128]", "the tokens that attention reads"),
        (LLAMA | {"is_hybrid": True}, "is_hybrid = True", "which layers keep a state"),
        (LLAMA | {"mamba_d_state": 16}, "mamba_d_state = 16", "which layers keep a state"),
        (LLAMA | {"linear_attn_config": {"num_heads": 32}}, "linear_attn_config", "which layers keep a state"),
        (LLAMA | {"ffn_config": {"moe_num_experts": 16}}, "ffn_config.moe_num_experts = 16", "the number of experts"),
        (QWEN | {"model_type": "minimax_m2", "attn_type_list": [0, 1]}, "attn_type_list = [0, 1]", "other kinds"),
    ],
)
def test_a_field_that_may_change_counts_is_never_passed_over(config, field, what):
    """Of families known here; a field that one family has is refused in another."""
    with pytest.raises(ValueError, match=re.escape(field)) as refused:
        cb.model(config)
    assert what in str(refused.value) and "cb.layers" in str(refused.value)


# Newer families as their publishers' files state them, of which no builder here has the layers; shortened.
DEEPSEEK_V4 = {
    "model_type": "deepseek_v4",
    "compress_ratios": [0, 0, 4, 128],
    "hc_mult": 4,
    "head_dim": 512,
    "hidden_size": 4096,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 512,
    "vocab_size": 129280,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "num_attention_heads": 64,
    "num_hidden_layers": 4,
    "num_key_value_heads": 1,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "num_hash_layers": 3,
}
KIMI_K3 = {
    "model_type": "kimi_linear",
    "hidden_size": 7168,
    "intermediate_size": 33792,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_experts": 896,
    "linear_attn_config": {"full_attn_layers": [4], "head_dim": 128, "num_heads": 96},
    "num_hidden_layers": 4,
    "num_attention_heads": 96,
    "num_experts_per_token": 16,
    "num_shared_experts": 2,
    "vocab_size": 163840,
    "moe_intermediate_size": 3072,
    "routed_expert_hidden_size": 3584,
    "attn_res_block_size": 12,
}
MINIMAX_M3 = {
    "model_type": "minimax_m3_vl_text",
    "hidden_size": 6144,
    "intermediate_size": 3072,
    "vocab_size": 200064,
    "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "moe_layer_freq": [0, 0, 0, 1],
}
GEMMA_4 = {
    "model_type": "gemma4_text",
    "attention_k_eq_v": True,
    "global_head_dim": 512,
    "head_dim": 256,
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "num_attention_heads": 32,
    "num_global_key_value_heads": 4,
    "num_hidden_layers": 6,
    "num_key_value_heads": 16,
    "sliding_window": 1024,
    "vocab_size": 262144,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        (DEEPSEEK_V4, ("compress_ratios", "hc_mult", "o_lora_rank")),
        (DEEPSEEK_V4 | {"intermediate_size": 2048}, ("compress_ratios", "hc_mult", "o_lora_rank")),
        (DEEPSEEK_V4 | {"intermediate_size": 1, "layer_types": ["compressed_sparse_attention"] * 4}, ("layer_types",)),
        ({"model_type": "kimi_k3", "text_config": KIMI_K3}, ("linear_attn_config", "routed_expert_hidden_size")),
        (MINIMAX_M3 | {"sparse_attention_config": {"sparse_topk_blocks": 16}}, ("sparse_attention_config",)),
        (MINIMAX_M3 | {"layer_types": ["full_attention"] * 3 + ["minimax_m3_sparse"]}, ("layer_types",)),
        ({"model_type": "gemma4", "text_config": GEMMA_4}, ("attention_k_eq_v",)),
        (GEMMA_4 | {"attention_k_eq_v": False}, ("global_head_dim",)),
        (GEMMA_4 | {"attention_k_eq_v": False, "global_head_dim": None}, ("num_global_key_value_heads",)),
        (GEMMA_4 | {"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}, ("top_k_experts",)),
        (GEMMA_4 | {"hidden_size_per_layer_input": 256}, ("hidden_size_per_layer_input",)),
        (LLAMA | {"num_kv_shared_layers": 20}, ("num_kv_shared_layers",)),
        (LLAMA | {"latent_moe_use_norm": True}, ("latent_moe_use_norm",)),
        (LLAMA | {"index_topk_blocks": 16}, ("index_topk_blocks",)),
        (LLAMA | {"num_index_heads": 4}, ("num_index_heads",)),
    ],
)
def test_families_that_no_builder_has_are_refused_by_the_names_of_their_fields(config, fields):
    with pytest.raises(ValueError) as refused:
        cb.model(config)
    assert all(field in str(refused.value) for field in fields) and "cb.layers" in str(refused.value)


def test_experts_of_a_smaller_width_are_counted():
    """Nemotron 3 Super: experts of 1,024 features have a quarter of the parameters, and two projections lead there."""
    whole, small = cb.model(NEMOTRON), cb.model(NEMOTRON | {"moe_latent_size": 1024})
    experts = 2 * 512 * 2688
    assert whole.ops.parameter_count - small.ops.parameter_count == 2 * (experts * (4096 - 1024) - 2 * 4096 * 1024)


def test_an_indexer_of_sparse_attention_is_counted():
    """DeepSeek-V3.2: queries of 64 small heads, one key with a norm, one weight a head, in each layer."""
    dense = {
        "model_type": "deepseek_v3",
        "vocab_size": 1000,
        "hidden_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "q_lora_rank": 96,
        "kv_lora_rank": 64,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 32,
    }
    sparse = dense | {"model_type": "deepseek_v32", "index_n_heads": 8, "index_head_dim": 16, "index_topk": 32}
    before, after = cb.model(dense, seq=1024), cb.model(sparse, seq=1024)
    index = 96 * 8 * 16 + 512 * 16 + 2 * 16 + 512 * 8
    assert after.ops.parameter_count - before.ops.parameter_count == 3 * index
    assert after.ops.total("macs", 1, 32768) < before.ops.total("macs", 1, 32768)


IDLE = (None, False, 0, "", [], {})


@pytest.mark.parametrize(
    ("config", "more"),
    [
        *((NEMOTRON, {"moe_latent_size": nothing}) for nothing in IDLE),
        (
            NEMOTRON,
            {
                "moe_shared_expert_overlap": True,
                "mtp_hybrid_override_pattern": "*E",
                "num_nextn_predict_layers": 1,
                "use_mamba_kernels": True,
                "mamba_ssm_cache_dtype": "float32",
                "norm_topk_prob": True,
            },
        ),
        (
            QWEN,
            {
                "norm_topk_prob": True,
                "router_aux_loss_coef": 0.001,
                "output_router_logits": True,
                "router_z_loss_coef": 0.1,
                "moe_router_dtype": "float32",
                "decoder_sparse_step": 1,
                "mlp_only_layers": [],
            },
        ),
        (
            QWEN | {"model_type": "minimax_m2"},
            {
                "attn_type_list": [1, 1],
                "shared_moe_mode": "sigmoid",
                "use_mtp": True,
                "use_routing_bias": True,
                "mtp_transformer_layers": 1,
            },
        ),
        (
            QWEN | {"model_type": "mixtral"},
            {
                "router_jitter_noise": 0.01,
                "quantization_config": {"moe_bits": 4},
                "quantization": {"model.layers.0.experts": {"bits": 4}},
            },
        ),
        (
            LLAMA,
            {
                "num_local_experts": 0,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 7,
                "image_token_index": 9,
                "ignore_index": -100,
            },
        ),
    ],
)
def test_fields_of_experts_that_change_no_count_are_not_refused(config, more):
    """As the publishers' files have them: losses, the arithmetic of the router, kernels, layers that predict ahead."""
    assert cb.model(config | more).ops.parameter_count == cb.model(config).ops.parameter_count


def test_changes_are_checked_as_those_of_the_zoo():
    assert cb.model(LLAMA, depth=40).ops.parameter_count > cb.model(LLAMA).ops.parameter_count
    with pytest.raises(ValueError, match="this model has no argument 'vocabulary'; nearest: vocab, "):
        cb.model(LLAMA, vocabulary=9)
    with pytest.raises(ValueError, match="depth = 0 is outside its range; give a whole number from 1"):
        cb.model(LLAMA, depth=0)
    with pytest.raises(ValueError, match="title = ''"):
        cb.model(LLAMA, title="")


def test_a_timm_network_that_the_zoo_lacks_is_named():
    with pytest.raises(catalog.UnknownName, match="no_such_net"):
        cb.model({"architecture": "no_such_net", "pretrained_cfg": {}})


def test_imported_language_models_go_through_the_doors():
    """The same answer as for the network of the zoo with the same dimensions."""
    mine, zoo = cb.model(of_decoder({**cb.model("llama2_7b").arguments})), cb.model("llama2_7b")
    plan = {"devices": 8, "tp": 2, "global_batch": 16, "seq": 4096}
    ours, theirs = (cb.train_step(each, "h100-sxm", **plan).point for each in (mine, zoo))
    assert ours == pytest.approx(theirs)
    assert "layouts fit" in repr(cb.search(mine, "h100-sxm", devices=8, global_batch=16))


def test_what_files_leave_out_stands_in_a_table_with_its_source():
    """Each field once for each kind of model that is read here; no figure of a publisher's code stands in Python."""
    rows = cb.table("configuration_defaults")
    pairs = [(kind, row.field) for row in rows.itertuples() for kind in row.families.split(";")]
    kinds = tables.families().keys()
    assert len(set(pairs)) == len(pairs) and {kind for kind, _ in pairs} <= kinds
    for module in (decoders, encoders, hybrids):
        text = Path(module.__file__).read_text(encoding="utf-8")
        stated = re.findall(r"default=([2-9]|\d{2,}|0\.\d+)\b(?! \*)", text)
        # but two norms beside each other
        assert stated in ([], ["2"]), f"{module.__name__}: a figure belongs in the table"


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("llama", 6_738_415_616),  # Llama 2 7B, total of its safetensors
        ("vit", 86_567_656),  # ViT-B/16, timm's vit_base_patch16_224: 86.57 M
    ],
)
def test_a_file_that_states_nothing_is_the_model_of_its_defaults(kind, parameters):
    assert cb.model({"model_type": kind}).ops.parameter_count == parameters
