"""Language models from the fields of a configuration, mapped to the arguments of `transformers.decoder`.

The table ``model_families`` contains what a family's models share and their configurations do not state. It follows
the modelling code of the Transformers library; families with published counts are checked against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads.arguments import MAX_LAYERS
from cookbook.workloads.layers import ACT_FLOP
from cookbook.workloads.readers import tables
from cookbook.workloads.readers.fields import Fields
from cookbook.workloads.readers.tables import Family

# Names of the number of experts, and of fields without effect where it is 0 or 1.
NUMBERS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
OF_EXPERTS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_k",
    "moe_topk",
    "moe_intermediate_size",
    "expert_ffn_hidden_size",
    "shared_expert_intermediate_size",
    "n_shared_experts",
    "num_shared_experts",
    "moe_num_shared_experts",
    "moe_layer_freq",
    "moe_layer_interval",
    "moe_layers",
    "moe_layer_start_index",
    "decoder_sparse_step",
    "interleave_moe_layer_step",
)
# Fields whose names suggest that they change counts, and which are read for every family.
READ = frozenset(
    (
        *NUMBERS,
        *OF_EXPERTS,
        "kv_lora_rank",
        "q_lora_rank",
        "index_n_heads",
        "index_head_dim",
        "index_topk",
        "moe_use_aux_free",
        "moe_router_enable_expert_bias",
    )
)
WINDOWED_KINDS = ("sliding_attention", "chunked_attention", "local_attention", "sliding_window")
FULL_KINDS = ("full_attention", "global_attention", "attention")
# Words in field names that must not be ignored in an unknown family.
CHANGING_WORDS = (
    "mamba",
    "ssm",
    "conv",
    "linear_",
    "expert",
    "moe",
    "lora_rank",
    "rwkv",
    "recurrent",
    "hybrid",
    "index_",
    "block_types",
    "layers_block",
    "pattern",
    "compress",
    "altup",
    "laurel",
    "per_layer",
    "loop",
    "cross_",
    "delta",
    "memory",
    "vision",
    "audio",
    "encoder",
    "latent",
    "chunk",
    "engram",
    "hyper",
)


def activation(f: Fields, usual: str, *names: str) -> str:
    """Return this package's name of the file's activation; an unknown one is counted as the usual one, and noted."""
    word = f.word(*names, default=usual) or usual
    operation = tables.operations("transformers").get(word)
    name = operation.meaning if operation else word
    if name in ACT_FLOP:
        return name
    f.assume(f"activation {word[:40]} is counted as {usual}")
    return usual


def decoder_arguments(f: Fields, name: str) -> dict[str, Any]:
    """Return arguments of `transformers.decoder` for the fields of a language model.

    Raises
    ------
    ValueError
        If a field is missing or invalid, or our builder does not support the layers.
    """
    family = tables.families().get(name, Family())
    fixed = family.arguments
    width = f.whole("hidden_size", "n_embd", "d_model", "model_dim")
    depth = f.whole("num_hidden_layers", "n_layer", "n_layers", "num_layers", most=MAX_LAYERS)
    heads = f.whole("num_attention_heads", "n_head", "n_heads", "num_heads")
    sizes: dict[str, Any] = {
        "vocab": f.whole("vocab_size", "padded_vocab_size", "n_vocab"),
        "width": width,
        "depth": depth,
        "heads": heads,
        "hidden": _hidden(f, width, family),
        "kv_heads": _key_heads(f, heads, family),
        "head_dim": f.whole("head_dim", "attention_head_dim", "kv_channels", needed=False),
        "tied": f.flag("tie_word_embeddings", default=family.readings.get("tied", False)),
    }
    if fixed.get("norm") != "layer" or "gated" not in fixed:
        sizes["act"] = activation(f, fixed.get("act", "silu"), "hidden_act", "hidden_activation", "activation_function")
    elif f.given.get("hidden_act") or f.given.get("activation_function"):
        sizes["act"] = activation(f, fixed.get("act", "gelu"), "hidden_act", "activation_function")
    else:
        f.read.update(("activation_function", "hidden_act"))
    sizes |= _biases(f, family) | _experts(f, depth, family, sizes) | _latent(f) | _positions(f, family)
    dropouts = ("resid_pdrop", "hidden_dropout", "dropout", "residual_dropout", "embd_pdrop", "embedding_dropout")
    if any([f.number(name) > 0 for name in dropouts]):
        sizes["dropout"] = True
    arguments = {**fixed, **sizes, **_particulars(f, name, family, {**sizes, **fixed})}
    arguments |= _windows(f, depth, family, arguments)
    return {name: value for name, value in arguments.items() if value is not None}


def _hidden(f: Fields, width: int, family: Family) -> int:
    names: tuple[str, ...] = (
        "intermediate_size",
        "ffn_dim",
        "n_inner",
        "ffn_hidden_size",
        "d_ff",
        "intermediate_size_mlp",
    )
    ratio = f.number("expansion_ratio") if "expansion_ratio" in f.given else 4.0 if family.readings.get("wide") else 0.0
    default = round(ratio * width) if ratio else None
    if f.given.get("intermediate_size_mlp"):  # Llama 4: its dense layers, where the other field is of the experts
        names = ("intermediate_size_mlp",)
    hidden = int(f.whole(*names, default=default))
    return hidden // 2 if family.readings.get("halved") else hidden


def _key_heads(f: Fields, heads: int, family: Family) -> int | None:
    if f.family == "mpt":
        return None
    if f.family == "falcon":
        multi_query, new = f.flag("multi_query", default=True), f.flag("new_decoder_architecture")
        stated = f.whole("num_kv_heads", "n_head_kv", needed=False)
        return stated if new else 1 if multi_query else None
    if family.readings.get("shared_keys"):
        return 1 if f.flag("multi_query", default=True) else None
    stated = f.whole("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", needed=False)
    if stated and heads % stated:
        raise ValueError(f"num_key_value_heads = {stated} must divide num_attention_heads = {heads}")
    return None if stated == heads else stated


def _biases(f: Fields, family: Family) -> dict[str, Any]:
    """Return the biases of attention and of the MLP; those that a family fixes are not read."""
    biases: dict[str, Any] = {}
    if "bias" not in family.arguments and "mlp_bias" not in family.arguments:
        stated = f.flag("attention_bias", default=family.readings.get("biased", False))
        narrow = f.flag("use_qkv_bias", "qkv_bias", default=stated)
        everywhere = f.flag("use_bias", "bias")
        out = f.flag("attention_out_bias") or (stated and family.readings.get("bias_of") != "qkv")
        biases["bias"] = out or everywhere
        if "qkv_bias" not in family.arguments:
            biases["qkv_bias"] = narrow or everywhere
        biases["mlp_bias"] = f.flag("mlp_bias") or everywhere
    if f.given.get("use_bias") is False and "bias" in family.arguments:
        biases["bias"] = f.flag("use_bias")
    if family.readings.get("head_bias"):
        biases["head_bias"] = f.flag("lm_head_bias")
    return biases


def _experts(f: Fields, depth: int, family: Family, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mixture of experts, where there is one."""
    number = f.whole(*NUMBERS, least=0, needed=False)
    if not number or number == 1:
        if any(name in f.given for name in NUMBERS):  # there are none: their sizes have no effect
            f.read.update(OF_EXPERTS)
        return {}
    top = f.whole("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk", most=number)
    own = f.whole("moe_intermediate_size", "expert_ffn_hidden_size", needed=False)
    if own is None:
        own = f.whole("intermediate_size", default=sizes["hidden"])
    shared = f.whole("shared_expert_intermediate_size", "shared_intermediate_size", least=0, needed=False) or 0
    copies = f.whole("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", least=0, needed=False) or 0
    copies = family.readings.get("shared_experts", copies)
    mixture = {
        "number": number,
        "top_k": top,
        "hidden": own,
        "shared": shared or copies * own,
        "shared_gate": family.readings.get("gated_share", False),
        "score_bias": _scored(f, family),
        **dict.fromkeys(("router_bias", "bias"), family.readings.get("expert_bias", False)),
    }
    dense = _dense_layers(f, depth)
    if dense >= depth:
        return {}
    return {"experts": {**mixture, "first_dense": dense}}


def _scored(f: Fields, family: Family) -> bool:
    method = f.word("topk_method")
    return f.flag(
        "use_routing_bias",
        "moe_use_aux_free",
        "moe_router_enable_expert_bias",
        default=method == "noaux_tc" or (not method and bool(family.readings.get("scored"))),
    )


def _dense_layers(f: Fields, depth: int) -> int:
    """Return the number of layers without experts, which our builder writes first.

    Counts do not depend on the order.
    """
    f.read.add("moe_layers")
    first = f.whole("first_k_dense_replace", "moe_layer_start_index", least=0, most=MAX_LAYERS, needed=False) or 0
    alone, spread = f.members("mlp_only_layers"), 1
    frequency = f.raw("moe_layer_freq")
    if isinstance(frequency, list | tuple):
        first, spread = sum(1 for number in list(frequency)[:MAX_LAYERS] if number == 0), 1
    elif frequency is not None:
        spread = f.whole("moe_layer_freq", most=MAX_LAYERS)
    spread = max(
        spread,
        *(
            f.whole(name, default=1, most=MAX_LAYERS)
            for name in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
        ),
    )
    if spread > 1:
        sparse = (depth - first) // spread
        f.assume(
            f"experts in one of {spread} layers, {sparse} of {depth} in all; layers without them are counted first"
        )
        return depth - sparse
    forms = f.members("mlp_layer_types")
    if forms:
        return min(sum(1 for form in forms[:depth] if form == "dense"), depth)
    listed_layers = f.members("moe_layers")
    if listed_layers:
        return depth - min(len(listed_layers), depth)
    return min(first + len(alone), depth)


def _latent(f: Fields) -> dict[str, Any]:
    rank = f.whole("kv_lora_rank", needed=False)
    if rank is None:
        return {}
    nope, rope, value = (f.whole(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    f.read.update(("qk_head_dim", "num_key_value_heads", "head_dim"))
    heads = f.whole("index_n_heads", needed=False)
    index = {"heads": heads, "dim": f.whole("index_head_dim"), "top": f.whole("index_topk")} if heads else None
    latent = {
        "q_rank": f.whole("q_lora_rank", needed=False),
        "kv_rank": rank,
        "nope_dim": nope,
        "rope_dim": rope,
        "v_dim": value,
    }
    return {"index": index, "latent": latent, "kv_heads": None, "head_dim": None}


def _positions(f: Fields, family: Family) -> dict[str, Any]:
    name = family.readings.get("positions", "")
    if not name or (f.family == "mpt" and f.part("attn_config").get("alibi") is True):
        return {}
    rows = f.whole(name, "max_position_embeddings", "n_ctx")
    return {"positions": rows + family.readings.get("positions_besides", 0)}


def _particulars(f: Fields, name: str, family: Family, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that only one family has."""
    if name == "opt":
        narrow = f.whole("word_embed_proj_dim", default=sizes["width"])
        return {
            "embedding_width": None if narrow == sizes["width"] else narrow,
            "final_norm": f.flag("do_layer_norm_before", default=True),
            "bias": f.flag("enable_bias", default=True),
        }
    if name == "falcon":
        parallel, new = f.flag("parallel_attn", default=True), f.flag("new_decoder_architecture")
        two = f.whole("num_ln_in_parallel_attn", default=2 if new else 1)
        return {"norms": two if parallel else 2, "parallel": parallel}
    if name == "mpt":
        group = f.part("attn_config")
        stated = group.get("kv_n_heads")
        free = f.flag("no_bias", default=True)
        return {"bias": not free, "norm_bias": not free, "kv_heads": stated if isinstance(stated, int) else None}
    flags = {"parallel": ("use_parallel_residual",), "qk_norm": ("use_qk_norm", "qk_layernorm")}
    return {
        argument: f.flag(*fields, default=family.readings[argument])
        for argument, fields in flags.items()
        if argument in family.readings
    }


def _windows(f: Fields, depth: int, family: Family, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sliding window, and the layers that attend to all tokens."""
    if any(number != 1 for number in f.members("attn_type_list")):
        raise refused(
            "attn_type_list",
            f.given["attn_type_list"],
            "has layers of other kinds than 1, which "
            f"attends to all tokens; {f.family} can be built of those alone. Give its layers (cb.layers)",
        )
    size = f.whole("sliding_window", "attention_chunk_size", "sliding_window_size", least=0, needed=False)
    used = f.flag("use_sliding_window", default=family.readings.get("window", True))
    kinds = f.members("layer_types")
    f.read.update(("max_window_layers", "sliding_window_pattern", "no_rope_layers", "no_rope_layer_interval"))
    if kinds:
        strange = [kind for kind in kinds if kind not in (*WINDOWED_KINDS, *FULL_KINDS)]
        if strange:
            raise ValueError(
                f"layer_types has {shown(strange[0])}: {f.family} mixes kinds of layers that cannot be "
                "read; "
                "give it layer by layer (cb.layers)"
            )
        full = sum(1 for kind in kinds[:depth] if kind in FULL_KINDS)
        if len(kinds) < depth:
            raise ValueError(f"layer_types has {len(kinds)} entries for num_hidden_layers = {depth}; give one a layer")
    elif not used or not size:
        return {}
    elif f.given.get("use_sliding_window") and f.given.get("max_window_layers") is not None:
        full = min(f.whole("max_window_layers", least=0, most=MAX_LAYERS), depth)
    elif f.family == "llama4_text":
        full = depth // (f.whole("no_rope_layer_interval", most=MAX_LAYERS))
    else:
        period = f.whole("sliding_window_pattern", default=family.readings.get("every"), needed=False, most=MAX_LAYERS)
        full = depth // period if period else 0
    if full == depth or not size:
        return {}
    return {"window": size, "full_every": _every(f, depth, full, arguments)}


def _every(f: Fields, depth: int, full: int, arguments: Mapping[str, Any]) -> int | None:
    """Return n where every n-th layer attends to all tokens, for `full` of them or the nearest possible number."""
    if not full:
        return None
    period = min(range(1, depth + 1), key=lambda step: (abs(depth // step - full), step))
    dense = (arguments.get("experts") or {}).get("first_dense", 0)
    if dense + depth // period > depth:
        raise ValueError(
            f"{dense} layers without experts and {full} without a window leave none of {depth}; give it "
            "layer by "
            "layer (cb.layers)"
        )
    if depth // period != full:
        f.assume(f"{depth // period} of {depth} layers attend without a window, where the file has {full}")
    return period
