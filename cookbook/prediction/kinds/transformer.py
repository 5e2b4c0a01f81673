"""Training of transformers in any parallelism: scenarios with their machine, and what follows from several fields.

Every default of a field that is not given is set here, in one place, and reported in `Rows.assumed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.fields import names_of
from cookbook.formulas.generation import Decoder
from cookbook.formulas.parallelism import FILLED
from cookbook.prediction.constants import ADAPTERS, EXPERTS
from cookbook.prediction.device_rates import Rates
from cookbook.prediction.kinds import configurations
from cookbook.prediction.kinds.constraints import refusals, share_passes
from cookbook.prediction.precision import SIZES, stored_bytes, usual_precision
from cookbook.prediction.scenario import NOTHING, Coded, Rows, Scenario, recomputed, together
from cookbook.prediction.software import attention_share, of_machines
from cookbook.workloads import zoo
from cookbook.workloads.builders.sequence import hybrid_dimensions
from cookbook.workloads.zoo import Workload

KIND = "training_transformer"
# Multi-head latent attention where only its name is given: DeepSeek-AI, DeepSeek-V2, arXiv:2405.04434, section 3.1.2.
LATENT = {"q_rank": 1536.0, "kv_rank": 512.0, "nope_dim": 128.0, "rope_dim": 64.0, "v_dim": 128.0}
# Width over depth, where only a number of parameters is known: Kaplan et al., arXiv:2001.08361, 2020, section 3.2.
USUAL_ASPECT = 100.0
# Active over all parameters of a mixture of experts: DeepSeek-AI, DeepSeek-V3, arXiv:2412.19437, 2024, abstract.
SPARSITY = 37 / 671
# Experts of a token where only a mixture's parameters are known, and what attention leaves of the active ones: eight of
# twelve weights of a layer, counted in squares of its width (Kaplan et al. 2020, table 1).
USUAL_CHOSEN_EXPERTS, ROUTED_SHARE = 8.0, 2 / 3
# Experts of a token where only their number is given: Mixtral, arXiv:2401.04088, 2024, section 2.1.
USUAL_TOP_K = 2.0
# Devices of the largest board whose fast link may join boards; usual tokens of a sequence.
MAX_BOARD_DEVICES, USUAL_SEQ = 8, 2048.0
# Bytes kept for each element of the stream and layer: Korthikanti et al., arXiv:2205.05198, 2022, section 4.1.
STORED_BYTES = 34.0
NETWORK = (
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn_hidden",
    "vocab",
    "experts",
    "experts_per_token",
    "shared_experts",
    "moe_ffn_hidden",
    "dense_layers",
)
KINDS_OF_LAYERS = ("gated_mlp", "latent_attention")
TRAITS = ("usual_seq", "window", "windowed", *KINDS_OF_LAYERS, "decoder")
# Fields of a row that say more of the network than its name.
STATED = frozenset((*NETWORK, *KINDS_OF_LAYERS, "parameters", "active_parameters"))
# Numbers of the schema that say how the network is split and run; those apart are read in ways of their own.
READ_SEPARATELY = {"shard_in_node", "domain", *STATED}
OPTIONS = (*(name for name in names_of(KIND, "count", "number", "flag") if name not in READ_SEPARATELY), "even_passes")
DEVICE = (
    "peak",
    "wide_peak",
    "mem_bandwidth",
    "memory",
    "link",
    "host_link",
    "domain",
    "matmul",
    "clock",
    "offered",
    "cores",
    "shared",
)
# Whose form a decoder has of which only the parameters are known.
USUAL_FORM = "llama2_7b"
# Stacks that split the norms of tensor-parallel ranks along the sequence by default.
SPLIT_NORMS = ("megatron-core", "neuron")
MEMORY_MARGIN = 1 + 1e-6
USUAL_OPTIMISER = "adam"
# Checkpoints in these formats keep the output layer in 16 bits; those of llama.cpp state means over all layers.
WIDE_HEAD, WIDE = ("fp8", "fp4", "int8", "int4"), 2.0
# Generation of a flash kernel (0: none, NaN: that of the software) and bytes moved for each score without one.
FUSED, UNFUSED = constant("score-bytes-fused"), constant("score-bytes-unfused")
ATTENTION = {
    "": (np.nan, np.nan),
    "flash": (np.nan, np.nan),
    "eager": (0.0, UNFUSED),
    "fused-softmax": (0.0, FUSED),
    "flash1": (1.0, 0.0),
    "flash2": (2.0, 0.0),
    "flash3": (3.0, 0.0),
}
KERNEL = {0.0: "none", 1.0: "flash1", 2.0: "flash2", 3.0: "flash3"}
# Share of the stages whose micro-batches a schedule stores (infinite: all), and weight gradients that fill its bubble.
SCHEDULES = {
    "gpipe": (np.inf, 0.0),
    "zero-bubble": (np.nan, FILLED["zero-bubble"]),
    "zb-v": (1.0, FILLED["zb-v"]),
    "v-half": (1 / 2, 0.0),
    "v-min": (1 / 3, 0.0),
}


class TransformerRows(Rows):
    """Training steps of transformers: what is known of each when blanks are filled."""

    # Network.
    layers: np.ndarray  # layers; of an encoder and a decoder together [-]
    hidden: np.ndarray  # width of the network [-]
    heads: np.ndarray  # query heads of a layer [-]
    kv_heads: np.ndarray  # key and value heads of a layer [-]
    head_dim: np.ndarray  # width of a head; NaN of latent attention whose width is not stated [-]
    ffn_hidden: np.ndarray  # inner width of a feed-forward layer without experts [-]
    gated_mlp: np.ndarray  # 1 where feed-forward layers and experts are gated (SwiGLU, GeGLU), else 0
    vocab: np.ndarray  # tokens of the vocabulary [-]
    window: np.ndarray  # tokens in the sliding window, itself included; infinite without one [-]
    windowed: np.ndarray  # share of the layers that attend within the window [-]
    decoder: np.ndarray  # 1 where a decoder stands beside an encoder, else 0; read only to tell measured runs apart
    parameters: np.ndarray  # parameters as stated, not those of the zoo; NaN where not stated [-]
    active_parameters: np.ndarray  # parameters that one token uses, as stated or assumed; NaN where neither [-]
    usual_seq: np.ndarray  # tokens of the usual sequence of the network; NaN where not known [-]
    dimensions_known: np.ndarray  # 1 where layers and width are stated or of the zoo, 0 where parameters give them
    heads_known: np.ndarray  # 1 where heads are stated or of the zoo, 0 where the width gives them
    # Network: experts and latent attention.
    moe: np.ndarray  # 1 for a mixture of experts, else 0
    experts: np.ndarray  # routed experts of a layer; 0 without experts [-]
    experts_per_token: np.ndarray  # routed experts that one token uses; 0 without experts [-]
    shared_experts: np.ndarray  # experts that all tokens use, in widths of a routed one [-]
    dense_layers: np.ndarray  # layers without experts in a mixture; 0 where none is stated [-]
    moe_ffn_hidden: np.ndarray  # inner width of one routed expert; `ffn_hidden` where not stated [-]
    experts_known: np.ndarray  # 0 where experts follow from active parameters, else 1 (also without experts)
    latent_attention: np.ndarray  # 1 where keys and values are compressed (multi-head latent attention), else 0
    q_rank: np.ndarray  # latent attention: rank of queries; 0 where they are not compressed [-]
    kv_rank: np.ndarray  # latent attention: rank of keys and values [-]
    nope_dim: np.ndarray  # latent attention: width of the part of a query head without rotary positions [-]
    rope_dim: np.ndarray  # latent attention: width of the part of a query head with rotary positions [-]
    v_dim: np.ndarray  # latent attention: width of a value head [-]
    # Parallelism configuration.
    devices: np.ndarray  # devices in all; each counts as `cores` in tp, pp, cp, ep and dp [-]
    per_node: np.ndarray  # devices of a node [-]
    nodes: np.ndarray  # nodes in all [-]
    tp: np.ndarray  # tensor parallelism [-]
    pp: np.ndarray  # pipeline parallelism: stages [-]
    vp: np.ndarray  # chunks of layers of a pipeline stage (interleaving) [-]
    cp: np.ndarray  # context parallelism [-]
    ep: np.ndarray  # expert parallelism: ranks that share out the experts of a layer [-]
    dp: np.ndarray  # data parallelism: replicas [-]
    stated_dp: np.ndarray  # True where replicas are stated, False where they follow from the devices
    zero: np.ndarray  # what replicas share out: 0 nothing, 1 optimiser states, 2 also gradients, 3 also weights
    shard: np.ndarray  # ranks, of dp x cp, that share one copy of it; 1 where `zero` is 0 [-]
    stated_shard: np.ndarray  # the same as stated; -1 for those of one node, NaN where not stated [-]
    sequence_parallel: np.ndarray  # 1 where tensor-parallel ranks split norms along the sequence, else 0
    # Batch.
    seq: np.ndarray  # tokens of a sequence [-]
    micro_batch: np.ndarray  # sequences of one replica in one pass [-]
    global_batch: np.ndarray  # sequences of one update of all replicas [-]
    micro_batches: np.ndarray  # passes of a replica for one update, 1 or more; need not be an integer [-]
    even_passes: np.ndarray  # 1 where passes are to share out a batch that is no whole number of them, else NaN
    broken: np.ndarray  # 1 where they do, so that `micro_batch` need not be an integer, else 0
    # Pipeline schedule.
    flushes: np.ndarray  # times that the pipeline runs empty in one update, 1 or more [-]
    held_share: np.ndarray  # micro-batches that the first stage stores over stages; infinite: all, NaN: as 1F1B [-]
    filled: np.ndarray  # weight gradients of a micro-batch that fit into a stage's part of the bubble; 0: none [-]
    # Recomputation (activation checkpointing): shares of the layers.
    recomputed_all: np.ndarray  # share of the layers that are recomputed as a whole [-]
    recomputed_projection: np.ndarray  # the same of projections: products of queries, keys, values and output [-]
    recomputed_core: np.ndarray  # the same of attention scores, softmax and weighted values [-]
    recomputed_mlp: np.ndarray  # the same of products of feed-forward layers and experts [-]
    recomputed_elementwise: np.ndarray  # the same of norms and activation functions [-]
    recomputes_last: np.ndarray  # 1 where software recomputes a layer to its end, 0 without its last product
    # Attention kernel.
    kernel: np.ndarray  # generation of the flash kernel, 1 to 3; 0: none [-]
    score_bytes: np.ndarray  # bytes moved for an attention score written out in a forward pass; 0 for flash kernels [B]
    attention_share: np.ndarray  # share of `wide_peak` that the flash kernel reaches; 1 without one [-]
    # Fine-tuning and optimiser.
    lora: np.ndarray  # 1 where adapters train beside frozen weights (LoRA and QLoRA), else 0
    qlora: np.ndarray  # 1 where the frozen weights have 4 bits, else 0
    rank: np.ndarray  # rank of the adapters [-]
    adapts_mlp: np.ndarray  # 1 where feed-forward layers have adapters, too, 0 for attention alone
    trains_edge: np.ndarray  # 1 where embeddings and the output layer train beside adapters, else 0
    unpacked: np.ndarray  # 1 where weights of 4 bits are widened operation by operation, 0 by one kernel
    optimiser_bytes: np.ndarray  # master weight and optimiser states of one parameter [B]
    update_reads: np.ndarray  # values that the update of one parameter reads: its gradient, else values in 32 bits [-]
    update_writes: np.ndarray  # values in 32 bits that the update of one parameter writes, beside its weight in use [-]
    # Offload.
    offload_optimiser: np.ndarray  # 1 where optimiser states and gradients lie in host memory or on drives, else 0
    offload_weights: np.ndarray  # 1 where weights do, else 0
    offload_activations: np.ndarray  # share of the layers whose activations do [-]
    offloaded_layers: np.ndarray  # those layers as stated; NaN where not stated: all [-]
    offload_link: np.ndarray  # rate from a device to its host, one direction; NaN where not known: no cost [B/s]
    offload_memory: np.ndarray  # host memory bandwidth of one device [B/s]
    offload_drives: np.ndarray  # rate of the host's drives for one device; infinite where states lie in memory [B/s]
    # Experts.
    capacity_factor: np.ndarray  # rows that each expert computes over its even share; NaN: as many as it is sent [-]
    # Device.
    peak: np.ndarray  # peak of a device in the format of the products; `wide_peak` where not known [FLOP/s]
    wide_peak: np.ndarray  # peak in 16 bits, else fp32 (CPU: of the products), of attention and output layer [FLOP/s]
    narrow: np.ndarray  # 1 where products are in 8 or 4 bits (fp8, fp4), else 0
    input_bytes: np.ndarray  # size of one value that a product keeps of its input for the backward pass [B]
    element: np.ndarray  # bytes of an activation and a weight in the products: 2 or 4 [B]
    offered: np.ndarray  # 0 where the device does not compute in the format (fp8, fp4, bf16), else 1
    matmul: np.ndarray  # best measured product over its peak, bf16; else mean of its generation, maker or all [-]
    clock: np.ndarray  # clock that its power sustains, over that of measured devices of its generation; 1 at most [-]
    mem_bandwidth: np.ndarray  # memory bandwidth of a device, nominal or calibrated [B/s]
    memory: np.ndarray  # memory of a device [B]
    cores: np.ndarray  # devices that one counts as in parallelism configurations; usually 1 [-]
    # Links.
    link: np.ndarray  # nominal rate of a device within the fast domain, one direction [B/s]
    network: np.ndarray  # nominal rate of a device beyond it, one direction [B/s]
    network_usual: np.ndarray  # the same of the machine (server, instance, or usual one of the device) [B/s]
    node_network: np.ndarray  # network rate of a node as stated; NaN where not stated [B/s]
    node: np.ndarray  # devices of a node of that machine [-]
    shared: np.ndarray  # 1 where the devices of a node share its network ports, else 0
    domain: np.ndarray  # devices that the fast link joins [-]
    stated_domain: np.ndarray  # the same as stated; NaN where not stated [-]
    pod: np.ndarray  # devices of a pod, above which the network is oversubscribed; else `domain` [-]
    oversubscription: np.ndarray  # network rate of the devices of a pod, over the rate that leaves it [-]
    # Software: a row of the table ``transformer_engines``.
    stream_bytes: np.ndarray  # bytes moved for an element of the stream in a forward pass of a layer, in 16 bits [B]
    mlp_bytes: np.ndarray  # the same for an element of the inner width of a gated layer; half of it without gate [B]
    fused_norm: np.ndarray  # 1 where the norm is stated to be one kernel, 0 where it is not; NaN where not stated
    flash_kernel: np.ndarray  # generation of the kernel that a bare "flash", or no word, means; 0: none [-]
    gradient_bytes: np.ndarray  # bytes of one gradient in memory: 4 where summed in single precision, else 2 [B]
    gated_kept: np.ndarray  # values kept for an inner unit of a gated layer: 3 with a fused activation, else 4 [-]
    logit_bytes: np.ndarray  # bytes held for each logit at the loss [B]
    keeps_narrow: np.ndarray  # 1 where products in 8 or 4 bits keep their inputs in that format, else 0
    logits_sharded: np.ndarray  # 1 where tensor-parallel ranks split the vocabulary up to the loss, else 0
    extra_kernels: np.ndarray  # kernels of a layer and pass beyond those of a fused implementation [-]
    start_share: np.ndarray  # host time of a kernel over its start from an interpreter; 0 where no host starts it [-]
    tensor_hidden: np.ndarray  # share of tensor-parallel communication that computation hides [-]
    gradients_hidden: np.ndarray  # share of exchange of gradients, of experts and of stages that computation hides [-]
    weights_hidden: np.ndarray  # share of gathering sharded weights (ZeRO 3) and scattering gradients that it hides [-]
    one_port: np.ndarray  # 1 where sharded weights are gathered in one ring, by one network port of a node, else 0
    hops_split: np.ndarray  # 1 where tensor-parallel ranks each send their part to the next stage, 0 where all of it


def resolve(scenario: Scenario, memory: Mapping[str, float] | None = None) -> TransformerRows:
    """Return scenarios with their network, machine and software; blanks filled.

    `memory` are constants of device memory, by which recomputation is taken where it is blank; their start by default.
    """
    with np.errstate(all="ignore"):
        v, keys, assumed = _network(scenario), dict[str, Coded](), list[tuple[str, Any, Any]]()
        v |= _options(scenario)
        _machine(scenario, v, keys, assumed)
        _complete(v, keys, assumed)
        why = refusals(v, keys["accelerator"], scenario.why)
        # One number for all rows is a scalar, on which NumPy is several times as fast as on an array of one.
        rows = TransformerRows({name: value[()] for name, value in v.items()}, why, keys)
        return _with_usual_recompute(rows, assumed, configurations.usual() if memory is None else memory)


def _with_usual_recompute(
    rows: TransformerRows, assumed: list[tuple[str, Any, Any]], memory: Mapping[str, float]
) -> TransformerRows:
    """Return rows in which unstated recomputation covers as many layers as the memory of the device requires."""
    blank, v = np.isnan(rows.recomputed_all), rows.values
    if not blank.any():
        return replace(rows, assumed=tuple(assumed))
    v = {**v, **{name: np.where(np.isnan(v[name]), 0.0, v[name])[()] for name in configurations.RECOMPUTED_PARTS}}
    rows = replace(rows, values=v)
    some = rows.masked()
    stage = configurations.Stage(some)
    needed, least = configurations.extremes(some, stage, blank, memory)
    over, spared = needed - some.memory / some.cores, needed - least
    # A little more than enough, so that rounding does not decide whether the rest fits.
    share = np.minimum(np.maximum(MEMORY_MARGIN * over / np.maximum(spared, 1.0), 0.0), 1.0)
    recompute = np.where(blank & (over > 0), share, 0.0)
    assumed.append(("recompute", blank, recompute))
    v = {**v, **{name: np.maximum(v[name], recompute) for name in configurations.RECOMPUTED_PARTS}}
    stage.values = v
    return replace(rows, values=v, assumed=tuple(assumed), stage=stage if some is rows else None)


def _network(s: Scenario) -> dict[str, Any]:
    """Return the dimensions: those stated, else those of the model, else the usual ones for its parameters."""
    model = s.words("model")
    if STATED.isdisjoint(s.columns) and all(map(of_model, model.levels)):
        return {
            **model.figures(_all_dimensions),
            "parameters": NOTHING,
            "active_parameters": NOTHING,
            "ep": s.number("ep"),
        }
    dimensions: dict[str, Any] = {**model.figures(_stated_dimensions), "ep": s.number("ep")}
    for name in (*NETWORK, *KINDS_OF_LAYERS):
        if name in s.columns:
            dimensions[name] = np.where(np.isnan(s.number(name)), dimensions[name], s.number(name))
    dimensions["latent_attention"] = np.where(dimensions["latent_attention"] == 1, 1.0, 0.0)
    for name in ("parameters", "active_parameters"):
        dimensions[name] = s.number(name)
    dimensions["dimensions_known"] = np.where(np.isnan(dimensions["layers"] * dimensions["hidden"]), 0.0, 1.0)
    _usual_dimensions(dimensions)
    return dimensions


@lru_cache(maxsize=4096)
def _stated_dimensions(model: str | Workload) -> dict[str, float]:
    """Return the dimensions of a model, NaN where they are not stated."""
    return dict.fromkeys((*NETWORK, *TRAITS, *LATENT), np.nan) | of_model(model)


@lru_cache(maxsize=4096)
def _all_dimensions(model: str | Workload) -> dict[str, float]:
    """Return all dimensions of a model that states some, the usual ones where it states none."""
    stated = {
        **_stated_dimensions(model),
        "parameters": np.nan,
        "active_parameters": np.nan,
        "ep": np.nan,
        "dimensions_known": 1.0,
    }
    dimensions: dict[str, Any] = {name: np.float64(value) for name, value in stated.items()}
    dimensions["latent_attention"] = np.float64(dimensions["latent_attention"] == 1)
    _usual_dimensions(dimensions)
    return {
        name: float(value)
        for name, value in dimensions.items()
        if name not in ("parameters", "active_parameters", "ep")
    }


@lru_cache(maxsize=1)
def _zoo() -> dict[str, dict[str, Any]]:
    rows = catalog.table("models")
    rows = rows[rows["builder"].isin(zoo.LANGUAGE_MODELS)]
    columns = (rows[name] for name in ("name", "arguments", "builder", "seq"))
    return {
        str(name): {**json.loads(arguments or "{}"), "decoder": builder != "transformers.decoder", "usual_seq": seq}
        for name, arguments, builder, seq in zip(*columns, strict=True)
    }


def is_language_model(network: Workload) -> bool:
    """Return whether a network is a decoder, or an encoder with one: of the zoo, changed, or of the reader's own
    layers."""
    return network.builder in zoo.LANGUAGE_MODELS


def answers_tokens(network: Workload) -> bool:
    """Return whether a network is a language model, also one whose layers keep a state instead of keys and values."""
    return network.builder in zoo.ANSWERING


@lru_cache(maxsize=4096)
def of_model(model: str | Workload) -> dict[str, float]:
    """Return the dimensions of a language model of the zoo, or of the reader's own; empty for anything else."""
    if isinstance(model, str):
        arguments = _zoo().get(model)
    else:
        own = {**model.arguments, "decoder": model.builder != zoo.DECODER, "usual_seq": model.seq}
        arguments = own if is_language_model(model) else None
    return {} if arguments is None else _dimensions(arguments)


@lru_cache(maxsize=2048)
def sizes(model: str | Workload, precision: str = "fp16", weights: str = "", cache: str = "") -> dict[str, float]:
    """Return what a decoder stores and multiplies, under the names of `Decoder`; NaN for anything else.

    The embedding is looked up, not read through; keys and values of latent attention are one vector for all heads.
    States have the bytes that the network says, whatever the format of keys and values.

    >>> found = sizes("llama3_8b")
    >>> round((found["weight_bytes"] + found["embedded_bytes"]) / 1e9, 2), found["cache_bytes"]
    (16.06, 131072.0)
    """
    network, dimensions = (
        zoo.model(model) if model and isinstance(model, str) else model,
        of_model(model) if model else {},
    )
    names = (*Decoder._fields, "narrow", "positions", "usual_length")
    if isinstance(network, Workload) and network.builder == zoo.HYBRID:
        dimensions = hybrid_dimensions(network.arguments, network.ops)
    if not dimensions or isinstance(network, str):
        return dict.fromkeys(names, np.nan)
    stored = weights or precision
    weight, total = stored_bytes(stored), float(network.ops.parameter_count)
    layers, width, table = dimensions["layers"], dimensions["hidden"], dimensions["vocab"] * dimensions["hidden"]
    expert, chosen = dimensions.get("experts", 1.0), dimensions.get("experts_per_token", 1.0)
    routed = (layers - dimensions.get("dense_layers", 0.0)) * expert * (2 + dimensions["gated_mlp"]) * width
    routed *= dimensions.get("moe_ffn_hidden", 0.0)
    tied, looked_up = bool(network.arguments.get("tied")), dimensions.get("looked_up", 0.0)
    body = total - routed - table * (1 if tied else 2) - looked_up
    head = max(weight, WIDE) if stored in WIDE_HEAD else weight
    latent, one = dimensions.get("latent_attention", 0.0) > 0, stored_bytes(cache or "fp16")
    pairs = dimensions["kv_heads"]
    cached = dimensions["kv_rank"] + dimensions["rope_dim"] if latent else 2 * pairs * dimensions["head_dim"]
    cached = dimensions.get("cached", layers * dimensions.get("attending", 1.0) * cached)
    return {
        "weight_bytes": body * weight + table * head,
        "expert_bytes": routed * weight,
        "embedded_bytes": (0.0 if tied else table * head) + looked_up * weight,
        "experts": expert,
        "experts_per_token": chosen,
        "active": body + routed * chosen / expert,
        "head": table,
        "layers": layers,
        "hidden": width,
        "heads": dimensions["heads"],
        "head_dim": (dimensions["nope_dim"] + dimensions["rope_dim"] + dimensions["v_dim"]) / 2
        if latent
        else dimensions["head_dim"],
        "cache_bytes": cached * one,
        "cache_heads": 1.0 if latent else pairs,
        "queries": dimensions.get("queries", 1.0 if latent else dimensions["heads"] / pairs),
        "window": dimensions.get("window", np.inf),
        "windowed": dimensions["windowed"],
        "windowed_scores": dimensions.get("windowed_scores", dimensions["windowed"]),
        "attending": dimensions.get("attending", 1.0),
        "state_bytes": dimensions.get("state_bytes", 0.0),
        "state_flop": dimensions.get("state_flop", 0.0),
        "narrow": float(weight < stored_bytes(precision)),
        "positions": float(network.arguments.get("positions") or np.inf),
        "usual_length": float(network.seq or np.inf) if network.sources else np.inf,
    }


@lru_cache(maxsize=256)
def own_decoder(total: float, active: float = np.nan) -> Workload:
    """Return a decoder of the usual form with this number of parameters, of which a token uses `active` where fewer.

    >>> round(own_decoder(72e9).ops.parameter_count / 1e9)
    72
    """
    body = active if active < 0.8 * total else total
    vocabulary = int(constant("usual-vocabulary"))
    depth = int(max(np.rint((body / (12 * USUAL_ASPECT**2)) ** (1 / 3)), 1))
    heads = int(max(np.rint(np.sqrt(body / (12 * depth)) / 128), 1))
    # Larger decoders share keys and values between heads in eight groups.
    heads = 8 * round(heads / 8) if heads > 8 else heads
    width, pairs = 128 * heads, min(heads, 8)
    attention = 2 * width * (width + 128 * pairs)
    inner = max((body - 2 * vocabulary * width) / depth - attention, width) / (3 * width)
    arguments: dict[str, Any] = {
        "vocab": vocabulary,
        "width": width,
        "depth": depth,
        "heads": heads,
        "kv_heads": pairs,
        "hidden": int(np.rint(inner)),
    }
    if active < 0.8 * total:
        chosen = max(int(np.rint(inner / USUAL_CHOSEN_EXPERTS)), 1)
        number = int(np.rint(USUAL_CHOSEN_EXPERTS + (total - active) / (3 * width * chosen * depth)))
        arguments["experts"] = {"number": number, "top_k": int(USUAL_CHOSEN_EXPERTS), "hidden": chosen}
    return replace(zoo.model(USUAL_FORM, **arguments), title=f"{total / 1e9:.3g} B parameters", sources=())


def _dimensions(arguments: Mapping[str, Any]) -> dict[str, float]:
    """Return dimensions from the arguments of a builder; layers of an encoder and a decoder are counted in one sum."""
    expert, latent = arguments.get("experts") or {}, arguments.get("latent") or {}
    depth, heads = arguments["depth"], arguments["heads"]
    if isinstance(expert, int):  # of an encoder with a decoder: one expert for each token, in every n-th layer of each
        sparse = 2 * (depth // arguments.get("experts_every", 2))
        expert = {"number": expert, "top_k": 1, "hidden": arguments["hidden"], "first_dense": 2 * depth - sparse}
    dimensions: dict[str, Any] = {
        "layers": depth * (2 if arguments["decoder"] else 1),
        "hidden": arguments["width"],
        "heads": heads,
        "kv_heads": arguments.get("kv_heads") or heads,
        "head_dim": arguments.get("head_dim") or arguments["width"] / heads,
        "ffn_hidden": arguments["hidden"],
        "vocab": arguments["vocab"],
        "gated_mlp": float(arguments.get("gated", True)),
        "usual_seq": arguments.get("usual_seq"),
        "window": arguments.get("window"),
        "latent_attention": float(bool(latent)),
        "decoder": float(arguments["decoder"]),
        "windowed": 1 - depth // (arguments.get("full_every") or 2 * depth) / depth if arguments.get("window") else 0.0,
    }
    if expert:
        dimensions |= {
            "experts": expert["number"],
            "experts_per_token": expert["top_k"],
            "moe_ffn_hidden": expert["hidden"],
            "shared_experts": expert.get("shared", 0) / expert["hidden"],
            "dense_layers": expert.get("first_dense", 0),
        }
    if latent:
        dimensions |= {**latent, "q_rank": latent.get("q_rank") or 0}
    return {key: float(value) for key, value in dimensions.items() if value is not None}


def _usual_dimensions(dimensions: dict[str, np.ndarray]) -> None:
    """Set the dimensions that neither the row nor the zoo states, from the parameters where needed."""

    def fill(name: str, value: Any) -> None:
        lacks = np.isnan(dimensions[name])
        if lacks.any():
            dimensions[name] = np.where(lacks, value, dimensions[name])

    if not dimensions["dimensions_known"].all():
        # Expert parallelism without a word on experts: a mixture of the usual sparsity.
        sparse = (
            np.isnan(dimensions["active_parameters"])
            & np.isnan(dimensions["experts"])
            & np.isnan(dimensions["layers"])
            & (dimensions["ep"] > 1)
        )
        dimensions["active_parameters"] = np.where(
            sparse, SPARSITY * dimensions["parameters"], dimensions["active_parameters"]
        )
        body = np.where(
            np.isnan(dimensions["active_parameters"]), dimensions["parameters"], dimensions["active_parameters"]
        )
        fill("layers", np.maximum(np.rint((body / (12 * USUAL_ASPECT**2)) ** (1 / 3)), 1))
        fill("hidden", np.sqrt(body / (12 * dimensions["layers"])))
    # Counts that are guessed from others divide nothing.
    dimensions["heads_known"] = np.where(np.isnan(dimensions["heads"]), 0.0, 1.0)
    dimensions["experts_known"] = np.array(1.0)
    _usual_experts(dimensions)
    # Four times the width is what feed-forward layers without a gate have; mixtures are gated throughout.
    if np.isnan(dimensions["gated_mlp"]).any():
        plain = ~(dimensions["experts"] > 1) & ~(np.abs(dimensions["ffn_hidden"] / dimensions["hidden"] - 4) > 0.01)
        fill("gated_mlp", np.where(plain, 0.0, 1.0))
    fill("heads", np.maximum(np.rint(dimensions["hidden"] / 128), 1))
    fill("kv_heads", dimensions["heads"])
    fill("head_dim", np.where(dimensions["latent_attention"] == 1, np.nan, dimensions["hidden"] / dimensions["heads"]))
    fill("ffn_hidden", np.where(dimensions["gated_mlp"] == 1, 8 / 3, 4) * dimensions["hidden"])
    fill("vocab", constant("usual-vocabulary"))
    fill("experts_per_token", np.where(dimensions["experts"] > 1, USUAL_TOP_K, 0.0))
    for name in ("experts", "shared_experts", "dense_layers", "windowed", "decoder"):
        fill(name, 0.0)
    fill("window", np.inf)
    fill("moe_ffn_hidden", dimensions["ffn_hidden"])
    for rank, usual in LATENT.items():
        fill(rank, usual)
    dimensions["moe"] = np.where((dimensions["experts"] > 1) & (dimensions["experts_per_token"] > 0), 1.0, 0.0)


def _usual_experts(dimensions: dict[str, np.ndarray]) -> None:
    """Set experts that only show in a count of active parameters: what is stored beyond what a token uses."""
    hidden = (dimensions["active_parameters"] < 0.8 * dimensions["parameters"]) & ~(dimensions["experts"] > 1)
    if not hidden.any():
        return
    routed = ROUTED_SHARE * dimensions["active_parameters"]
    width = routed / (USUAL_CHOSEN_EXPERTS * 3 * dimensions["layers"] * dimensions["hidden"])
    number = np.rint(
        USUAL_CHOSEN_EXPERTS * (dimensions["parameters"] - dimensions["active_parameters"] + routed) / routed
    )
    for name, value in (
        ("experts_per_token", USUAL_CHOSEN_EXPERTS),
        ("experts", number),
        ("moe_ffn_hidden", width),
        ("gated_mlp", 1.0),
    ):
        dimensions[name] = np.where(hidden, value, dimensions[name])
    dimensions["experts_known"] = np.where(hidden, 0.0, 1.0)


def _options(s: Scenario) -> dict[str, np.ndarray]:
    """Return the parallelism configuration and the other stated options of training."""
    options = {name: s.number(name) for name in OPTIONS}
    options["shard"] = np.where(s.number("shard_in_node") == 1, -1.0, options["shard"])
    recompute = s.words("recompute")
    options |= recompute.figures(lambda word: dict(zip(configurations.RECOMPUTED_PARTS, recomputed(word), strict=True)))
    tuned = s.words("fine_tuning")
    options["lora"] = tuned.each(lambda word: word in ("lora", "qlora"))
    options["qlora"] = tuned.each(lambda word: word == "qlora")
    options["unpacked"] = s.words("widening").each(lambda word: word == "plain")
    modules = s.words("target_modules")
    options["adapts_mlp"] = modules.each(lambda word: np.nan if not word else word != "attention")
    options["trains_edge"] = modules.each(lambda word: "embeddings" in word)
    options |= s.words("optimiser").figures(_update)
    schedule = s.words("pipeline_schedule")
    kinds = schedule.map(lambda word: SCHEDULES.get(word, (np.nan, 0.0)))
    options["held_share"], options["filled"] = kinds.part(0), kinds.part(1)
    offload = s.words("offload")
    options["offload_optimiser"] = offload.each(lambda word: "optimi" in word)
    options["offload_weights"] = offload.each(lambda word: "weights" in word)
    options["offload_activations"] = offload.each(lambda word: "activations" in word)
    in_memory = offload.each(lambda word: np.nan if "drives" in word else np.inf)
    options["offload_drives"] = np.where(np.isnan(options["offload_drives"]), in_memory, options["offload_drives"])
    kernels = s.words("attention").map(lambda word: ATTENTION[word])
    options["kernel"], options["score_bytes"] = kernels.part(0), kernels.part(1)
    options["stated_domain"] = s.number("domain")
    return options


@lru_cache(maxsize=64)
def _update(optimiser: str) -> dict[str, float]:
    """Return the bytes of master weight and states of one parameter, and what its update reads and writes."""
    row, size = catalog.row("optimisers", optimiser or USUAL_OPTIMISER), SIZES["fp32"]
    return {
        "optimiser_bytes": size * (1 + float(row["state_elements"])),
        "update_reads": float(row["update_reads"]),
        "update_writes": float(row["update_writes"]),
    }


def _machine(s: Scenario, v: dict[str, np.ndarray], keys: dict[str, Coded], assumed: list[Any]) -> None:
    pairs = together(s.words("accelerator"), s.words("precision")).map(
        lambda pair: (pair[0], pair[1] or usual_precision(pair[0], KIND))
    )
    v["element"] = pairs.each(lambda pair: 4.0 if pair[1] in ("fp32", "tf32") else 2.0)
    v["narrow"] = pairs.each(lambda pair: pair[1] in ("fp8", "fp4"))
    devices, named, of_engine = of_machines(pairs, s.words("software"), KIND, assumed)
    keys |= named
    v |= devices.figures(_offers) | of_engine
    sizes = pairs.each(lambda pair: SIZES.get(pair[1], np.nan))
    v["input_bytes"] = np.where((v["narrow"] == 1) & (v["keeps_narrow"] == 1), sizes, v["element"])
    lacks = s.words("precision").where(lambda word: word == "")
    assumed.append(("precision", lacks, pairs.map(lambda pair: pair[1])))


@lru_cache(maxsize=4096)
def _offers(device: Rates) -> dict[str, float]:
    """Return values of a device under the names of `Rows.values`."""
    values = {name: getattr(device, name) for name in DEVICE}
    return values | {"network_usual": device.network, "node": device.per_node}


def _complete(v: dict[str, np.ndarray], keys: dict[str, Coded], assumed: list[Any]) -> None:
    """Set defaults of the parallelism configuration, and what follows from several fields."""

    def fill(name: str, value: Any, noted: bool = True) -> None:
        lacks = np.isnan(v[name])
        if lacks.any():
            v[name] = np.where(lacks, value, v[name])
            if noted:
                assumed.append((name, lacks, v[name]))

    fill("vp", 1.0, False)
    fill("cp", 1.0, False)
    stated = ~np.isnan(v["dp"])
    _usual_split(v, assumed)
    model = v["tp"] * v["pp"] * v["cp"]
    shards = np.where(stated, model * v["dp"], model)
    # As few as the shards fill evenly, where each core of a device takes one.
    fill("devices", shards / np.gcd(np.nan_to_num(shards, posinf=0).astype(int), v["cores"].astype(int)))
    fill("dp", v["devices"] * v["cores"] / model, False)
    fill("per_node", np.minimum(v["devices"], v["node"]))
    fill("ep", 1.0, False)
    fill("seq", np.where(np.isnan(v["usual_seq"]), USUAL_SEQ, v["usual_seq"]))
    _usual_micro_batch(v, fill)
    # A pipeline is fed with many micro-batches; where the batch is not stated, four for each stage.
    fill("global_batch", v["micro_batch"] * v["dp"] * np.where(v["pp"] > 1, 4 * v["pp"], 1))
    v["stated_dp"] = stated
    share_passes(v, assumed)
    v["flushes"] = np.fmax(v["micro_batches"] / v.pop("micro_batches_per_flush"), 1.0)
    fill("zero", np.where(v["dp"] > 1, 1.0, 0.0))
    whole = v["dp"] * v["cp"]
    v["stated_shard"] = v["shard"]
    v["shard"] = np.where(v["shard"] < 0, np.minimum(v["per_node"], whole), v["shard"])
    fill("shard", whole, False)
    v["shard"] = np.where(v["zero"] == 0, 1.0, np.minimum(v["shard"], whole))
    lacks = np.isnan(v["sequence_parallel"])
    if lacks.any():
        splits = keys["engine"].each(lambda level: level in SPLIT_NORMS)
        v["sequence_parallel"] = np.where(lacks, splits, v["sequence_parallel"])
        words = Coded(np.asarray(v["sequence_parallel"] == 1).astype(int), ("no", "yes"))
        assumed.append(("sequence_parallel", lacks & (v["tp"] > 1), words))
    # Layer norm is one kernel everywhere; the root-mean-square norm of gated networks is where somebody wrote one.
    one_kernel = (v["fused_norm"] == 1) | (v["gated_mlp"] == 0)
    v["stream_bytes"] = np.where(one_kernel, np.minimum(v["stream_bytes"], 20.0), v["stream_bytes"])
    _links(v, assumed)
    _adapters(v, assumed)
    # Where no pod is stated, the network is oversubscribed above the fast domain.
    fill("oversubscription", 1.0, False)
    fill("pod", v["domain"], False)
    _host_rates(v, assumed)
    _kernels(v, keys, assumed)
    v["nodes"] = np.maximum(np.ceil(v["devices"] / v["per_node"]), 1.0)
    scale = np.where(v["devices"] <= 1, 0, np.where(v["nodes"] <= 1, 1, 2))
    keys["scale"] = Coded(scale, ("1 device", "1 node", "multi-node"))
    special = np.where(v["moe"] > 0, 2, np.where(v["lora"] > 0, 1, 0))
    keys["special"] = Coded(special, ("", ADAPTERS, EXPERTS))


def _links(v: dict[str, np.ndarray], assumed: list[Any]) -> None:
    """Set the network of a device and the devices that fast links join, where they are not stated."""
    per_device = np.where(np.isnan(v["node_network"]), v["network"], v["node_network"] / v["per_node"])
    v["network"] = np.where(np.isnan(v["network"]), per_device, v["network"])
    beyond = v["devices"] > v["per_node"]
    usual = v["network_usual"] * np.where(v["shared"] == 1, v["node"] / v["per_node"], 1.0)
    assumed.append(("network [B/s]", np.isnan(v["network"]) & beyond, usual))
    v["network"] = np.where(np.isnan(v["network"]), usual, v["network"])
    # Links that join more than a node count where the row's nodes are boards; a slice or a large node is one domain.
    v["domain"] = np.where(np.isnan(v["stated_domain"]), v["domain"], v["stated_domain"])
    larger = (v["domain"] > v["per_node"]) & (v["per_node"] <= MAX_BOARD_DEVICES)
    v["domain"] = np.where(larger, v["domain"], v["per_node"])


def _host_rates(v: dict[str, np.ndarray], assumed: list[Any]) -> None:
    """Set the share of layers that are offloaded, and rates of host memory, its link and drives that are not stated."""
    some = v["offloaded_layers"]
    v["offload_activations"] = v["offload_activations"] * np.where(np.isnan(some), 1.0, some / v["layers"])
    to_host = v["offload_optimiser"] + v["offload_weights"] + v["offload_activations"] > 0
    usual: dict[str, tuple[Any, np.ndarray]] = {
        "offload_link": (v.pop("host_link"), to_host),
        "offload_memory": (constant("host-memory-of-device"), v["offload_optimiser"] == 1),
        "offload_drives": (constant("drives-of-device"), v["offload_optimiser"] == 1),
    }
    for name, (rate, used) in usual.items():
        lacks = np.isnan(v[name])
        v[name] = np.where(lacks, rate, v[name])
        assumed.append((f"{name} [B/s]", lacks & used & ~np.isnan(v[name]), v[name]))


def _adapters(v: dict[str, np.ndarray], assumed: list[Any]) -> None:
    """Set rank and modules of adapters that are not stated: plain modules all have one, fused ones those of
    attention."""
    lacks = np.isnan(v["rank"])
    v["rank"] = np.where(lacks, constant("adapter-rank"), v["rank"])
    assumed.append(("rank", lacks & (v["lora"] == 1), v["rank"]))
    lacks = np.isnan(v["adapts_mlp"])
    v["adapts_mlp"] = np.where(lacks, v["extra_kernels"] > 0, v["adapts_mlp"])
    words = Coded(np.asarray(v["adapts_mlp"] == 1).astype(int), ("attention", "all linear"))
    assumed.append(("target_modules", lacks & (v["lora"] == 1), words))


def _kernels(v: dict[str, np.ndarray], keys: dict[str, Coded], assumed: list[Any]) -> None:
    """Set a kernel that is only called flash, or not stated, to the usual one of its software."""
    usual = np.isnan(v["kernel"])
    v["kernel"] = np.where(usual, v["flash_kernel"], v["kernel"])
    numbers = sorted(KERNEL)
    codes = np.minimum(np.fmax(v["kernel"], 0), len(numbers) - 1).astype(int)
    kernel = Coded(codes, tuple(numbers))
    assumed.append(("attention", usual, kernel.map(lambda number: KERNEL[number])))
    scores = np.where(np.isnan(v["score_bytes"]), FUSED, v["score_bytes"])
    v["score_bytes"] = np.where(v["kernel"] > 0, 0.0, scores)
    share = together(kernel, keys["vendor"], keys["family"])
    v["attention_share"] = share.each(lambda level: attention_share(*level))


def _usual_micro_batch(v: dict[str, np.ndarray], fill: Any) -> None:
    """Set without a pipeline as many sequences as a quarter of the memory keeps without recomputation, a power of
    two."""
    stored = STORED_BYTES * v["layers"] * v["hidden"] * v["seq"] / (v["tp"] * v["cp"])
    share = np.fmax(v["global_batch"] / v["dp"], 1.0)
    fitting = np.where((v["pp"] > 1) | np.isnan(v["global_batch"]), 1.0, np.clip(v["memory"] / 4 / stored, 1.0, share))
    fill("micro_batch", 2.0 ** np.floor(np.log2(np.where(fitting >= 1, fitting, 1.0))))


def _usual_split(v: dict[str, np.ndarray], assumed: list[Any]) -> None:
    """Set tensor and pipeline shards where a row states neither: the fewest that the batch and the memory allow.

    No more replicas than sequences in the batch, and weights, gradients and sharded states in half the memory; no more
    shards than devices, where their number is given.
    """
    blank = np.isnan(v["tp"]) & np.isnan(v["pp"])
    if blank.any():
        weights = np.where(np.isnan(v["parameters"]), 12 * v["layers"] * v["hidden"] ** 2, v["parameters"])
        share = np.where(v["zero"] >= 3, 1.0, 8 * weights / (0.5 * v["memory"]))
        batch = np.where(np.isnan(v["global_batch"]), np.inf, v["global_batch"])
        need = np.maximum(np.maximum(share, v["devices"] / v["cp"] / batch), 1.0)
        shards = 2.0 ** np.ceil(np.log2(np.where(blank & np.isfinite(need), need, 1.0)) - 1e-9)
        most = np.maximum(v["devices"] * v["cores"] / v["cp"], 1.0)
        shards = np.where(shards > most, 2.0 ** np.floor(np.log2(np.maximum(most, 1.0)) + 1e-9), shards)
        tensor = np.minimum(shards, 8.0)
        stated = [("tp", tensor), ("pp", shards / tensor)]
        for name, value in stated:
            v[name] = np.where(blank, value, v[name])
            assumed.append((name, blank & (shards > 1), v[name]))
    for name in ("tp", "pp"):
        v[name] = np.where(np.isnan(v[name]), 1.0, v[name])
