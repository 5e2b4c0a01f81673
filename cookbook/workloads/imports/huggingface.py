"""A model from its `config.json`, as Hugging Face's libraries write it: no download, and no code of others is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cookbook.catalog import UnknownName
from cookbook.units import shown
from cookbook.workloads.imports import decoders, encoders, hybrids
from cookbook.workloads.imports.fields import Fields, built, listed
from cookbook.workloads.zoo import DECODER, Workload

USUAL_LENGTH = 4096
# Parts of a larger model, of which the language model is the one that is counted.
LANGUAGE_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "language_model")
OTHER_PARTS = ("vision_config", "audio_config", "vit_config", "speech_config", "vision_tower")
DEPTH = 4
# Fields that change no count: tokens, training, saving, precision, positions that take no parameters.
SILENT = frozenset("""
_name_or_path _remove_final_layer_norm activation activation_dropout alibi apply_query_key_layer_scaling
apply_residual_connection_post_layernorm architectures attention_dropout attention_method attention_multiplier
attention_probs_dropout_prob attn_implementation attn_logit_softcapping attn_pdrop attn_scale attn_temperature_tuning
auto_map aux_loss_alpha begin_suppress_tokens bf16 boi_token_index cache_implementation chunk_size_feed_forward
classifier_dropout classifier_proj_size cross_attention_hidden_size decoder_layerdrop decoder_start_token_id do_sample
dropout dtype dual_chunk_attention_config emb_pdrop embd_pdrop embedding_fraction embedding_multiplier
encoder_layerdrop eos_token_ids eos_token_index ep_size expert_dropout final_logit_softcapping finetuning_task
floor_scale for_llm_class fp16 fp32 gradient_checkpointing hidden_act_param hidden_dropout_prob id2label image_size
image_token_index init_device init_std initializer_factor initializer_range input_jitter_noise is_causal is_decoder
is_encoder_decoder kv_channels label2id layer_norm_elementwise_affine layer_norm_eps layer_norm_epsilon layerdrop
layernorm_epsilon learned_pos_emb logit_scale logits_scaling mask_feature_length mask_feature_min_masks
mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob max_length max_position_embeddings max_seq_len
max_sequence_length median_filter_width min_length mm_tokens_per_image model_type moe_capacity moe_gate
moe_layer_end_index moe_norm_min moe_use_aux_free mscale mtp_num_layers multimodal_projector_bias n_ctx n_group
n_head_kv_default n_positions no_bias norm_eps norm_epsilon norm_topk_prob norm_type num_beams num_channels num_labels
original_max_position_embeddings out_features output_router_logits partial_rotary_factor position_embedding_type
prefix pretraining_tp problem_type projector_hidden_act pruned_heads qk_head_dim qk_norm_type qkv_proj_dim
quantization_config query_pre_attn_scalar reorder_and_upcast_attn resid_pdrop residual_multiplier return_dict
rms_norm_eps rope_ratio rotary_dim rotary_emb_base rotary_pct routed_scaling_factor router_aux_loss_coef
router_jitter_noise scale_attn_by_inverse_layer_idx scale_attn_weights scale_depth scale_emb scale_embedding
scoring_func seq_aux seq_length slow_but_exact softmax_scale spatial_merge_size stage_names suppress_tokens
swiglu_alpha swiglu_limit task_specific_params temperature tokenizer_class top_k top_p topk_group torch_dtype
torchscript transformers_version use_bfloat16 use_cache use_dynamic_ntk use_flash_attn use_logn_attn use_mla use_mtp
use_weighted_layer_sum vision_feature_layer
""".split())  # noqa: SIM905
# Fields that sound as if they counted and do not, as the classes of the Transformers library and the publishers' code
# read them: training losses, the arithmetic of the router, kernels, and layers that predict further ahead.
REVIEWED = frozenset("""
compression_config enable_moe_fp32_combine expert_dtype expert_gating_func expert_group_count expert_group_used_count
expert_selection_fn expert_tensor_parallel_size expert_weights_norm expert_weights_scale mamba_ssm_cache_dtype
mamba_ssm_dtype moe_all_to_all_dropout moe_apply_router_weight_on_input moe_aux_loss_alpha moe_aux_loss_coeff
moe_aux_loss_lambda moe_dropout_prob moe_eval_capacity_token_fraction moe_gate_act moe_group moe_grouped_gemm
moe_orthogonal_loss_lambda moe_permute_fusion moe_reverse_token_drop moe_routed_scaling_factor
moe_router_activation_func moe_router_bias_update_rate moe_router_dtype moe_router_load_balancing_type
moe_router_logit_softcapping moe_router_pre_softmax moe_router_scaling_factor moe_router_score_function
moe_router_topk_scaling_factor moe_shared_expert_overlap moe_token_dispatcher_type moe_token_drop_policy
moe_token_dropout moe_use_hard_gate moe_use_size_all2all moe_z_loss_coeff normalize_expert_weights
normalize_router_prob_before_dropping router_dtype router_ignore_padding_tokens
router_logit_softcapping router_scaling_factor second_expert_policy shared_moe_mode ssm_cache_dtype use_mamba_kernels
use_mambapy
""".split())  # noqa: SIM905
AHEAD = ("mtp_", "num_mtp", "nextn_")
# Words in the names of fields that change counts, at the beginning of one of their parts, and what they may change.
COUNTING = (
    (("latent", "lora"), "the width at which experts or attention work"),
    (("expert", "moe", "router"), "the number of experts or their size"),
    (("spars", "indexer", "compress", "dsa", "nsa"), "the tokens that attention reads, and what chooses them"),
    (("hybrid", "mamba", "ssm", "rwkv", "recurrent", "kda", "gdn"), "which layers keep a state in place of attention"),
    (("hyper", "mhc", "hc", "engram", "altup", "laurel"), "the connections between layers"),
    (("global",), "the heads of some of the layers"),
)
BEGINNING = {"index_": COUNTING[2][1], "linear_": COUNTING[3][1],
             **dict.fromkeys(("attention_k_eq_v", "num_kv_shared"), "the keys and values of some of the layers"),
             "use_double_wide": "the width of some of the layers"}
SILENT_ENDS = ("_token_id", "_token_ids", "_token_index", "_dropout", "_dropout_prob", "_eps", "_theta", "_std",
               "_coef", "_loss_weight")
SILENT_STARTS = ("rope", "rotary", "output_", "summary_", "initializer", "_", "torch", "mtp_loss")


def read(config: Mapping[str, Any], changes: Mapping[str, Any], title: str = "") -> Workload:
    """A network from the fields of a configuration.

    Parameters
    ----------
    config : mapping
        What `config.json` holds.
    changes : mapping
        Arguments of our builder to change; ``title``, ``seq``.
    title : str
        Name in print where the file has none.

    Returns
    -------
    Workload
        Its `assumed` names what was not stated and each field that was not read.

    Raises
    ------
    ValueError
        A field that is missing or cannot be, or a kind of model that cannot be built, with the fields in the way.
    """
    whole, outer, assumed = config, _family_of(config), list[str]()
    for _ in range(DEPTH):
        part = next((name for name in LANGUAGE_PARTS if isinstance(config.get(name), Mapping)), "")
        if not part:
            break
        others = [name for name in OTHER_PARTS if isinstance(config.get(name), Mapping)]
        assumed.append(f"the language model alone, of {part}" + (f"; {listed(others)} left out" if others else ""))
        config = {**{name: config[name] for name in ("tie_word_embeddings",) if name in config}, **config[part]}
    readers = encoders.READERS | hybrids.READERS
    stated = _family_of(config) or outer
    family = next((name for name in (stated, f"{stated}_text") if name in decoders.FAMILIES or name in readers), stated)
    title = title or _name_in(whole) or family or _architecture(whole)
    f = Fields(config, family or "a model of no stated type", family)
    f.assumed += assumed
    try:
        if family in readers:
            return _by_reader(f, readers[family](f, config), changes, title)
        return _language_model(f, family, changes, title)
    except (ArithmeticError, TypeError, IndexError, KeyError, AttributeError) as problem:
        if isinstance(problem, UnknownName):
            raise
        raise ValueError(f"no network can be built of this configuration of {f.family}; check its sizes") from None


def _name_in(config: Mapping[str, Any]) -> str:
    """The name of its repository that a file may give; paths on somebody's machine are none."""
    name = config.get("_name_or_path")
    return name if isinstance(name, str) and 0 < len(name) <= 100 and not name.startswith(("/", ".")) else ""


def _architecture(config: Mapping[str, Any]) -> str:
    """The class that the file names."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else ""
    return name[:60] if isinstance(name, str) and name.strip() else "Your model"


def _by_reader(f: Fields, found: Mapping[str, Any], changes: Mapping[str, Any], title: str) -> Workload:
    """The network that the reader of a family has found."""
    _tell_unread(f, known=True)
    record = {name: value for name, value in found.items() if name not in ("builder", "arguments")}
    return built(found["builder"], found["arguments"], changes, title=title or found["builder"], assumed=f.assumed,
                 **record)


def _family_of(config: Mapping[str, Any]) -> str:
    """What the file calls its kind of model: of the Transformers, Diffusers or timm library."""
    for name in ("model_type", "_class_name", "architecture"):
        stated = config.get(name)
        if isinstance(stated, str) and 0 < len(stated) <= 60:
            return stated
    return ""


def _language_model(f: Fields, family: str, changes: Mapping[str, Any], title: str) -> Workload:
    known = family in decoders.FAMILIES
    if not known and not _looks_like_a_decoder(f.given):
        fields = listed([str(name)[:40] for name in f.given]) or "none"
        raise ValueError(f"model_type = {shown(family)} is not known here, and its fields ({fields}) are not those "
                         "of a language "
                         "model; give its layers (cb.layers) or an ONNX file")  # fmt: skip
    strange = [] if known else [name for name in _strange(f) if name not in decoders.READ]
    try:
        arguments = decoders.decoder_arguments(f, family)
    except ValueError as problem:
        more = f"; and these of its fields are not understood here: {listed(strange)}; give its layers (cb.layers)"
        raise ValueError(str(problem) + (more if strange else "")) from None
    ahead = f.whole("num_nextn_predict_layers", "num_mtp_modules", least=0, needed=False)
    if ahead:
        f.assume(f"{ahead} layer(s) that predict further ahead are left out; predict_ahead={ahead} counts them")
    if not known:
        f.assume(f"model_type {family or '(none)'} is not known here: counted as a model of Llama's kind (norm "
                 "before attention "
                 "and gated MLP, no other parameters)")  # fmt: skip
    _tell_unread(f, known)
    if isinstance(f.given.get("quantization_config"), Mapping):
        f.assume("weights are quantised in the file; counts are of the network, and precision= says in what it runs")
    longest = f.whole("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", needed=False,
                      default=USUAL_LENGTH)
    seq = float(min(longest, USUAL_LENGTH))
    if "seq" not in changes:
        f.assume(f"sequences of {seq:,.0f} tokens, of {longest:,} at most; seq= says otherwise")
    kind = "moe" if arguments.get("experts") else "transformer"
    return built(DECODER, arguments, changes, title=title, assumed=f.assumed, seq=seq, family=kind,
                 task="language modelling",
                 data_kind="text", sample="sequence")  # fmt: skip


def _looks_like_a_decoder(config: Mapping[str, Any]) -> bool:
    needed = (("hidden_size", "n_embd", "d_model"), ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
              ("num_attention_heads", "n_head", "n_heads", "num_heads"),
              ("vocab_size", "padded_vocab_size"))  # fmt: skip
    return all(any(name in config for name in names) for names in needed) and not config.get("is_encoder_decoder")


def _tell_unread(f: Fields, known: bool) -> None:
    """Say which fields were not read; refuse where they tell of parts that nobody here knows."""
    unread = [name for name in f.unread() if _says(name)]
    telling = [name for name in unread if any(word in name for word in decoders.TELLING) and name not in REVIEWED]
    telling = list(dict.fromkeys([*telling, *_strange(f)]))
    if telling and not known:
        raise ValueError(f"model_type = {shown(f.family)} is not known here, and these of its fields are not "
                         "understood: "
                         f"{listed(telling)}; give its layers (cb.layers), or a model of the zoo that is alike")
    _refuse_counting(f)
    if unread:
        f.assume(f"fields not read, as if they changed no count: {listed(unread)}")


def _says(name: str) -> bool:
    """Whether a field may say anything about counts."""
    return name not in SILENT and not name.endswith(SILENT_ENDS) and not name.startswith(SILENT_STARTS)


def _strange(f: Fields) -> list[str]:
    """Fields that nobody asked for, that are stated, and whose names say that they change counts."""
    return [str(name)[:60] for name, value in f.given.items() if name not in f.read and _says(str(name))
            and may_change(str(name)) and value not in (None, False, 0, "", [], {})]  # fmt: skip


def _refuse_counting(f: Fields) -> None:
    """Refuse a field that was not read and whose name says that it changes counts, alone or in a group of fields."""
    stated = [(str(name), value) for name, value in f.given.items() if name not in f.read and _says(str(name))]
    groups = [(f"{name}.{inner}", each) for name, value in stated if isinstance(value, Mapping)
              and name not in (*OTHER_PARTS, "quantization")
              for inner, each in value.items() if _says(str(inner))]  # fmt: skip
    for name, value in (*stated, *groups):
        what = may_change(name.rpartition(".")[2])
        if what and value is not None and value not in (False, 0, "", [], {}):
            raise ValueError(f"{name[:60]} = {shown(value)} is not known here, and it may change {what}: counts "
                             "without it could be wrong several times over. Give the network's layers (cb.layers) or "
                             "an ONNX file; if the field changes neither parameters nor work, set it to null")


def may_change(name: str) -> str:
    """What a field of this name may change, "" where nothing that is counted."""
    lower = name.lower()
    if lower in REVIEWED or lower.startswith(AHEAD):
        return ""
    parts = lower.replace(".", "_").split("_")
    for words, what in COUNTING:
        if any(part.startswith(word) if len(word) > 3 or word == "moe" else part == word
               for part in parts for word in words):  # fmt: skip
            return what
    if "index" in parts[:-1]:  # at the end it is a place, such as that of a token
        return BEGINNING["index_"]
    return next((what for begin, what in BEGINNING.items() if lower.startswith(begin)), "")
