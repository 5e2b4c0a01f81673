"""Language models in which some layers keep a state instead of keys and values, for `sequence.hybrid`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads import zoo
from cookbook.workloads.arguments import MAX_LAYERS
from cookbook.workloads.readers.decoders import activation
from cookbook.workloads.readers.fields import Fields

Found = dict[str, Any]
LANGUAGE = {"family": "state_space", "task": "language modelling", "data_kind": "text", "sample": "sequence"}
USUAL_LENGTH = 4096
ATTENTION_KINDS = ("full_attention", "attention")
STATE_KINDS = ("linear_attention", "mamba")


def _sizes(f: Fields) -> Found:
    heads = f.whole("num_attention_heads", needed=False)
    return {
        "vocab": f.whole("vocab_size"),
        "width": f.whole("hidden_size", "d_model"),
        "heads": heads,
        "kv_heads": f.whole("num_key_value_heads", default=heads, needed=False),
        "head_dim": f.whole("head_dim", "attention_head_dim", needed=False),
        "tied": f.flag("tie_word_embeddings"),
        "act": activation(f, "silu", "hidden_act", "mlp_hidden_act"),
    }


def _depth(f: Fields) -> int:
    return int(f.whole("num_hidden_layers", most=MAX_LAYERS))


def _experts(f: Fields, shared: int = 0, gate: bool = False) -> Found | None:
    number = f.whole("num_experts", "num_local_experts", "n_routed_experts", least=0, needed=False)
    if not number:
        return None
    hidden = f.whole("moe_intermediate_size", needed=False) or f.whole("intermediate_size")
    mixture = {
        "number": number,
        "top_k": f.whole("num_experts_per_tok", most=number),
        "hidden": hidden,
        **({"shared": shared} if shared else {}),
    }
    return mixture | ({"shared_gate": 1} if gate else {})


def _attending(f: Fields, depth: int) -> list[bool]:
    """Return the layers that attend, from the kinds of layers that the file lists."""
    kinds = f.members("layer_types", "layers_block_type")
    strange = [kind for kind in kinds if kind not in (*ATTENTION_KINDS, *STATE_KINDS)]
    if strange or len(kinds) < depth:
        fault = f"has {shown(strange[0])}" if strange else f"has {len(kinds)} entries for {depth} layers"
        raise ValueError(
            f"layer_types {fault}; each of the layers must be one of {', '.join((*ATTENTION_KINDS, *STATE_KINDS))}"
        )
    return [kind in ATTENTION_KINDS for kind in kinds[:depth]]


def _network(f: Fields, sizes: Found, pattern: str, **own: Any) -> Found:
    """Return the arguments with the shortest repeating pattern, and only what its letters need."""
    period = next(
        step
        for step in range(1, len(pattern) + 1)
        if len(pattern) % step == 0 and pattern[:step] * (len(pattern) // step) == pattern
    )
    arguments = {**sizes, **own, "pattern": pattern[:period], "repeats": len(pattern) // period}
    unused = [
        name
        for letter, names in (("*", ("heads", "kv_heads", "head_dim")), ("-", ("hidden",)), ("E", ("experts",)))
        if letter not in pattern
        for name in names
    ]
    if "M" not in pattern:
        unused += ["recurrent", "state"]
    arguments = {name: value for name, value in arguments.items() if value is not None and name not in unused}
    longest = f.whole("max_position_embeddings", default=USUAL_LENGTH)
    seq = min(longest, USUAL_LENGTH)
    f.assume(f"sequences of {seq:,} tokens; seq= says otherwise")
    return {"builder": zoo.HYBRID, "arguments": arguments, "seq": seq, "unsplit": zoo.UNEQUAL, **LANGUAGE}


def _jamba(f: Fields) -> Found:
    sizes, depth = _sizes(f), _depth(f)
    period, at = f.whole("attn_layer_period"), f.whole("attn_layer_offset", least=0)
    often, first = f.whole("expert_layer_period"), f.whole("expert_layer_offset", least=0)
    experts = _experts(f)
    is_mixture = experts is not None and experts["number"] > 1
    letters = [
        ("*" if layer % period == at else "M") + ("E" if is_mixture and layer % often == first else "-")
        for layer in range(depth)
    ]
    width = sizes["width"]
    rank = f.raw("mamba_dt_rank")
    state = {
        "state": f.whole("mamba_d_state"),
        "kernel": f.whole("mamba_d_conv"),
        "expand": f.whole("mamba_expand"),
        "norms": 1,
        "rank": f.whole("mamba_dt_rank") if isinstance(rank, int) else -(-width // 16),
    }
    return _network(
        f,
        sizes,
        "".join(letters),
        recurrent="mamba",
        state=state,
        hidden=f.whole("intermediate_size"),
        experts=experts if is_mixture else None,
    )


def _minimax(f: Fields) -> Found:
    sizes, depth = _sizes(f), _depth(f)
    kinds = f.members("attn_type_list")
    attend = [kind == 1 for kind in kinds[:depth]] if kinds else _attending(f, depth)
    if len(attend) < depth:
        raise ValueError(f"attn_type_list has {len(attend)} entries for {depth} layers; give one a layer")
    state = {
        "heads": sizes["heads"],
        "head_dim": sizes["head_dim"] or sizes["width"] // max(sizes["heads"] or 1, 1),
        "chunk": f.whole("block_size"),
    }
    return _network(
        f,
        sizes,
        "".join("*E" if full else "ME" for full in attend),
        recurrent="lightning",
        state=state,
        experts=_experts(f),
    )


def _qwen(f: Fields) -> Found:
    sizes, depth = _sizes(f), _depth(f)
    size = f.whole("linear_value_head_dim")
    if f.whole("linear_key_head_dim", default=size) != size:
        raise ValueError("linear_key_head_dim and linear_value_head_dim differ; only equal ones can be built")
    period = f.whole("full_attention_interval")
    attend = _attending(f, depth) if "layer_types" in f.given else [(layer + 1) % period == 0 for layer in range(depth)]
    state = {
        "heads": f.whole("linear_num_value_heads"),
        "key_heads": f.whole("linear_num_key_heads"),
        "head_dim": size,
        "kernel": f.whole("linear_conv_kernel_dim"),
        "chunk": f.usually("chunk_size"),
    }
    shared = f.whole("shared_expert_intermediate_size", default=0, least=0)
    experts = _experts(f, shared, gate=bool(shared))
    if f.whole("decoder_sparse_step", default=1) != 1 or f.members("mlp_only_layers"):
        raise ValueError("decoder_sparse_step and mlp_only_layers: only experts in every layer can be built")
    predict_ahead = f.whole("num_nextn_predict_layers", "mtp_num_hidden_layers", least=0, needed=False)
    if predict_ahead:
        f.assume(f"{predict_ahead} layer(s) that predict further ahead are left out")
    letter = "E" if experts else "-"
    return _network(
        f,
        sizes,
        "".join(("*" if full else "M") + letter for full in attend),
        recurrent="gated delta",
        state=state,
        qk_norm=True,
        gate=True,
        experts=experts,
        hidden=None if experts else f.whole("intermediate_size"),
    )


def _mamba2_state(f: Fields, width: int) -> Found:
    heads = f.whole("mamba_num_heads", "mamba_n_heads", "num_heads", "n_mamba_heads", needed=False)
    size = f.raw("mamba_head_dim", "mamba_d_head", "head_dim")
    size = f.whole("mamba_head_dim", "mamba_d_head", "head_dim") if isinstance(size, int) else None
    inner, usual = f.whole("expand", "mamba_expand") * width, f.usually("mamba_head_dim", "mamba_d_head")
    if heads is None or size is None:
        heads, size = heads or inner // (size or usual), size or inner // (heads or inner // usual)
    return {
        "heads": heads,
        "head_dim": size,
        "state": f.whole("ssm_state_size", "mamba_d_state", "state_size"),
        "groups": f.whole("n_groups", "mamba_n_groups"),
        "kernel": f.whole("conv_kernel", "mamba_d_conv"),
        "chunk": f.whole("chunk_size", "mamba_chunk_size"),
    }


NEMOTRON = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}


def _nemotron(f: Fields) -> Found:
    sizes, pattern = _sizes(f), f.raw("hybrid_override_pattern")
    kinds = f.members("layers_block_type")
    if pattern is None and all(isinstance(kind, str) and kind in NEMOTRON for kind in kinds):
        pattern = "".join(NEMOTRON[kind] for kind in kinds)
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_LAYERS:
        raise refused("hybrid_override_pattern", pattern, "must be a text of one letter a layer, such as 'M-M*'")
    shared = f.whole("moe_shared_expert_intermediate_size", default=0, least=0)
    copies = f.whole("n_shared_experts", least=0)
    mixture = _experts(f, shared * copies)
    if mixture and f.given.get("moe_latent_size"):
        mixture["latent"] = f.whole("moe_latent_size")
    return _network(
        f,
        sizes,
        pattern,
        recurrent="mamba2",
        state=_mamba2_state(f, sizes["width"]),
        gated=False,
        hidden=f.whole("intermediate_size", needed="-" in pattern),
        experts=mixture,
    )


def _granite(f: Fields) -> Found:
    sizes, depth = _sizes(f), _depth(f)
    attend = _attending(f, depth)
    shared = f.whole("shared_intermediate_size", default=0, least=0)
    experts = _experts(f, shared)
    letter = "E" if experts else "-"
    return _network(
        f,
        sizes,
        "".join(("*" if full else "M") + letter for full in attend),
        recurrent="mamba2",
        state=_mamba2_state(f, sizes["width"]),
        experts=experts,
        hidden=None if experts else shared or f.whole("intermediate_size"),
    )


def _mamba2(f: Fields) -> Found:
    sizes, depth = _sizes(f), f.whole("num_hidden_layers", "n_layer", most=MAX_LAYERS)
    state = _mamba2_state(f, sizes["width"])
    return _network(f, sizes, "M" * depth, recurrent="mamba2", state=state)


READERS: dict[str, Callable[[Fields], Found]] = {
    "jamba": _jamba,
    "minimax": _minimax,
    "qwen3_next": _qwen,
    "nemotron_h": _nemotron,
    "granitemoehybrid": _granite,
    "mamba2": _mamba2,
}
