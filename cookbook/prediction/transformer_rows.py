"""Rows of transformer training as arrays: the network, the layout, the machine and the software of each.

Everything that a row leaves blank gets the usual value here, in one place; measured outcomes are never read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.names import index, normalise
from cookbook.prediction import transformer_hardware as machines
from cookbook.prediction import transformer_memory as memory
from cookbook.prediction import transformer_text as words
from cookbook.prediction.constants import figure
from cookbook.prediction.transformer_checks import refusals, unreadable
from cookbook.workloads.zoo import Workload

# Multi-head latent attention where only its name is given: DeepSeek-AI, DeepSeek-V2, arXiv:2405.04434, section 3.1.2.
LATENT = {"q_rank": 1536.0, "kv_rank": 512.0, "nope_dim": 128.0, "rope_dim": 64.0, "v_dim": 128.0}
# Width over depth, where only a number of parameters is known: Kaplan et al., arXiv:2001.08361, 2020, section 3.2.
ASPECT = 100.0
# Active over all parameters of a mixture of experts: DeepSeek-AI, DeepSeek-V3, arXiv:2412.19437, 2024, abstract.
SPARSITY = 37 / 671
# Experts of a token where only a mixture's parameters are known, and what attention leaves of the active ones: eight of
# twelve weights of a layer, counted in squares of its width (Kaplan et al. 2020, table 1).
CHOICES, ROUTED = 8.0, 2 / 3
# Devices of the largest board whose fast link may join boards.
BOARD = 8
NETWORK = (
    "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "experts", "experts_per_token",
    "shared_experts", "moe_ffn_hidden", "dense_layers",
)  # fmt: skip
LAYOUT = ("devices", "tp", "pp", "vp", "dp", "cp", "ep", "micro_batch", "global_batch", "seq_len")
# What may be added to a layout; blank where it does not apply. Rates in B/s, of one device.
OPTIONS = (
    "capacity_factor", "network_bandwidth", "oversubscription", "pod", "offload_link", "offload_memory",
    "offload_drives",
)  # fmt: skip
# Where rows name the schedule of their pipeline.
SCHEDULE = ("pipeline_schedule", "note", "notes")
WORDS = ("zero_fsdp_stage", "attention_kernel", "accelerator", "precision")


@dataclass(frozen=True)
class Scenarios:
    """Rows as arrays, one entry a row; SI, counts as floats, NaN where `why` says what is missing.

    Attributes
    ----------
    values : mapping of str to numpy.ndarray
        All numbers by name.
    why : numpy.ndarray of str
        Empty where the row can be predicted, else a sentence.
    tier_keys : mapping of str to numpy.ndarray
        ``accelerator``, ``vendor``, ``family``, ``engine``, ``scale`` and ``moe``.
    """

    values: dict[str, np.ndarray] = field(repr=False)
    why: np.ndarray
    tier_keys: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.why)

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def take(self, index: Any) -> Scenarios:
        """Some of the rows."""
        values = {name: value[index] for name, value in self.values.items()}
        return Scenarios(values, self.why[index], {name: value[index] for name, value in self.tier_keys.items()})


def scenarios(frame: pd.DataFrame, own: Workload | None = None) -> Scenarios:
    """Rows of a table as arrays.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns of the table ``training_transformer``; any may be absent or blank, cells may be text.
    own : Workload, optional
        A language model of the zoo with changed arguments, for all rows.
    """
    with np.errstate(all="ignore"):
        found = _network(frame, own)
        found |= _layout(frame) | _formats(frame)
        machine, keys = _machine(frame)
        found |= machine
        _complete(found, keys)
        why = refusals(found, keys, unreadable(frame, (*LAYOUT, *NETWORK)))
    return _with_usual_recompute(Scenarios(found, why, keys))


def _with_usual_recompute(rows: Scenarios) -> Scenarios:
    """Where recomputation is not stated, as many layers are computed again as the memory of the device asks for."""
    blank = rows.again_stated == 0
    if not blank.any():
        return rows
    names = [f"again_{part}" for part in words.RECOMPUTED]
    all_again = replace(rows, values=rows.values | {name: np.where(blank, 1.0, rows.values[name]) for name in names})
    needed, least = (memory.memory_bytes(each, memory.usual()) for each in (rows, all_again))
    over = needed - rows.memory / rows.cores
    share = np.clip(over / np.maximum(needed - least, 1.0), 0.0, 1.0)
    again = np.where(blank & (over > 0), share, 0.0)
    return replace(rows, values=rows.values | {name: np.maximum(rows.values[name], again) for name in names})


def _network(frame: pd.DataFrame, own: Workload | None) -> dict[str, np.ndarray]:
    """Dimensions: the row's, else those of the model of that name, else the usual ones for its parameters."""
    found = {name: words.numbers(frame, name) for name in NETWORK}
    names = words.texts(frame, "model")
    if own is None:
        known = words.distinct(names, of_model)
    else:
        known = [_dimensions({**_zoo()[own.name], **own.arguments})] * len(frame)
    for name in (*NETWORK, "usual_seq", "window", "windowed", "gated", "latent", "decoder", *LATENT):
        of_name = np.array([model.get(name, np.nan) for model in known], dtype=float)
        found[name] = np.where(np.isnan(found[name]), of_name, found[name]) if name in found else of_name
    gated = np.array(words.distinct(words.texts(frame, "gated_mlp"), words.truth), dtype=float)
    found["gated"] = np.where(np.isnan(gated), found["gated"], gated)
    latent = np.array(["mla" in cell.casefold() for cell in words.texts(frame, "head_dim")], dtype=bool)
    stated = np.array(words.distinct(words.texts(frame, "latent_attention"), words.truth), dtype=float) == 1
    found["latent"] = np.where(latent | stated | (found["latent"] == 1), 1.0, 0.0)
    found["layers"] = found["layers"] + np.nan_to_num(words.numbers(frame, "decoder_layers"))
    for target, billions, whole in (
        ("params", "params_b", "parameters"),
        ("active", "params_active_b", "active_parameters"),
    ):
        count = words.numbers(frame, whole)
        found[target] = np.where(np.isnan(count), words.numbers(frame, billions) * 1e9, count)
    found["ep"] = words.numbers(frame, "ep")
    found["dimensions_known"] = (~np.isnan(found["layers"] * found["hidden"])).astype(float)
    _usual_dimensions(found)
    return found


@lru_cache(maxsize=4096)
def _zoo() -> dict[str, dict[str, Any]]:
    rows = catalog.table("models")
    rows = rows[rows["builder"].isin(["transformers.decoder", "encoders.encoder_decoder"])]
    columns = (rows[name] for name in ("name", "arguments", "builder", "seq"))
    return {
        str(name): {**json.loads(arguments or "{}"), "decoder": builder != "transformers.decoder", "usual_seq": seq}
        for name, arguments, builder, seq in zip(*columns, strict=True)
    }


@lru_cache(maxsize=4096)
def of_model(name: str) -> dict[str, float]:
    """Dimensions of a model of the zoo by any of its names; empty if it has none of that name."""
    # Most unknown names here are meant for nobody: no nearest names are looked for.
    given = _zoo().get(index("models", catalog.data_directory()).get(normalise(name), ""))
    return {} if given is None else _dimensions(given)


def _dimensions(given: Mapping[str, Any]) -> dict[str, float]:
    """Dimensions from the arguments of a builder; an encoder and a decoder count their layers together."""
    expert, latent = given.get("experts") or {}, given.get("latent") or {}
    depth, heads = given["depth"], given["heads"]
    found: dict[str, Any] = {
        "layers": depth * (2 if given["decoder"] else 1), "hidden": given["width"], "heads": heads,
        "kv_heads": given.get("kv_heads") or heads, "head_dim": given.get("head_dim") or given["width"] / heads,
        "ffn_hidden": given["hidden"], "vocab": given["vocab"], "gated": float(given.get("gated", True)),
        "usual_seq": given.get("usual_seq"),
        "window": given.get("window"), "latent": float(bool(latent)), "decoder": float(given["decoder"]),
        "windowed": 1 - 1 / given["full_every"] if given.get("full_every") else 1.0 if given.get("window") else 0.0,
    }  # fmt: skip
    if expert:
        found |= {
            "experts": expert["number"], "experts_per_token": expert["top_k"], "moe_ffn_hidden": expert["hidden"],
            "shared_experts": expert.get("shared", 0) / expert["hidden"], "dense_layers": expert.get("first_dense", 0),
        }  # fmt: skip
    found |= {key: latent[key] for key in LATENT if latent.get(key)}
    return {key: float(value) for key, value in found.items() if value is not None}


def _usual_dimensions(found: dict[str, np.ndarray]) -> None:
    """Fill what neither the row nor the zoo knows; needs the parameters where the dimensions are missing."""

    def fill(name: str, value: Any) -> None:
        found[name] = np.where(np.isnan(found[name]), value, found[name])

    # Expert parallelism without a word on experts: a mixture of the usual sparsity.
    sparse = np.isnan(found["active"]) & np.isnan(found["experts"]) & np.isnan(found["layers"]) & (found["ep"] > 1)
    found["active"] = np.where(sparse, SPARSITY * found["params"], found["active"])
    body = np.where(np.isnan(found["active"]), found["params"], found["active"])
    fill("layers", np.maximum(np.rint((body / (12 * ASPECT**2)) ** (1 / 3)), 1))
    fill("hidden", np.sqrt(body / (12 * found["layers"])))
    _usual_experts(found)
    # Four times the width is what feed-forward layers without a gate have; mixtures are gated throughout.
    plain = ~(found["experts"] > 1) & ~(np.abs(found["ffn_hidden"] / found["hidden"] - 4) > 0.01)
    fill("gated", np.where(plain, 0.0, 1.0))
    fill("heads", np.maximum(np.rint(found["hidden"] / 128), 1))
    fill("kv_heads", found["heads"])
    fill("head_dim", np.where(found["latent"] == 1, np.nan, found["hidden"] / found["heads"]))
    fill("ffn_hidden", np.where(found["gated"] == 1, 8 / 3, 4) * found["hidden"])
    fill("vocab", figure("usual-vocabulary"))
    for name in ("experts", "experts_per_token", "shared_experts", "dense_layers", "windowed", "decoder"):
        fill(name, 0.0)
    fill("window", np.inf)
    fill("moe_ffn_hidden", found["ffn_hidden"])
    for rank, usual in LATENT.items():
        fill(rank, usual)
    found["moe"] = ((found["experts"] > 1) & (found["experts_per_token"] > 0)).astype(float)


def _usual_experts(found: dict[str, np.ndarray]) -> None:
    """Experts that only show in a count of active parameters: what is stored beyond what a token uses."""
    hidden = (found["active"] < 0.8 * found["params"]) & ~(found["experts"] > 1)
    routed = ROUTED * found["active"]
    width = routed / (CHOICES * 3 * found["layers"] * found["hidden"])
    number = np.rint(CHOICES * (found["params"] - found["active"] + routed) / routed)
    for name, value in (("experts_per_token", CHOICES), ("experts", number), ("moe_ffn_hidden", width), ("gated", 1.0)):
        found[name] = np.where(hidden, value, found[name])


def _layout(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    found = {name: words.numbers(frame, name) for name in (*LAYOUT, "per_node")}
    found["micro_batches_per_flush"] = words.numbers(frame, "micro_batches_per_flush")
    stages = words.distinct(words.texts(frame, "zero_fsdp_stage"), words.zero_stage)
    found["zero"], found["shard_group"] = np.array(stages, dtype=float).reshape(len(frame), 2).T
    for target, column in (("zero", "zero_stage"), ("shard_group", "shard_group")):
        stated = words.numbers(frame, column)
        found[target] = np.where(np.isnan(stated), found[target], stated)
    found["sequence_parallel"] = np.array(words.distinct(words.texts(frame, "sequence_parallel"), words.truth))
    again = zip(words.texts(frame, "activation_recompute"), words.texts(frame, "recompute_modules"), strict=True)
    shares = words.distinct([f"{how} modules: {which}" if which else how for how, which in again], words.recomputed)
    again_shares = np.array(shares, dtype=float).reshape(len(frame), len(words.RECOMPUTED)).T
    found |= {f"again_{part}": share for part, share in zip(words.RECOMPUTED, again_shares, strict=True)}
    tasks = [cell.casefold() for cell in words.texts(frame, "task")]
    found["lora"] = np.array(["lora" in task or "peft" in task for task in tasks], dtype=float)
    schedules = zip(*(words.texts(frame, column) for column in SCHEDULE), strict=True)
    held = np.array(words.distinct(["; ".join(cells) for cells in schedules], words.held_share), dtype=float)
    filled = words.distinct(words.texts(frame, "pipeline_schedule"), words.filled)
    found["filled"], all_held = np.array(filled, dtype=float).reshape(len(frame), 2).T
    found["held_share"] = np.where(all_held == 1, np.inf, held)
    found |= {name: words.numbers(frame, name) for name in OPTIONS}
    offload = [cell.casefold() for cell in words.texts(frame, "cpu_offload")]
    found["offload_optimiser"] = np.array(["optimi" in cell for cell in offload], dtype=float)
    found["offload_weights"] = np.array(["param" in cell for cell in offload], dtype=float)
    found["offload_activations"] = np.array(["activation" in cell for cell in offload], dtype=float)
    return found


def _formats(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    names = words.distinct(words.texts(frame, "precision"), words.number_format)
    size = np.array([4.0 if name in ("fp32", "tf32") else 2.0 for name in names])
    narrow = np.array([name in ("fp8", "fp4") for name in names], dtype=float)
    attention = words.distinct(words.texts(frame, "attention_kernel"), words.attention)
    kinds = np.array(attention, dtype=float).reshape(len(frame), 3).T
    norm = np.array(words.distinct(words.texts(frame, "fused_norm"), words.truth), dtype=float)
    norm = np.where(np.isnan(norm), kinds[2], norm)
    return {"element": size, "narrow": narrow, "kernel": kinds[0], "score_bytes": kinds[1], "norm_kernel": norm}


def _machine(frame: pd.DataFrame) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    names, formats = words.texts(frame, "accelerator"), words.texts(frame, "precision")
    devices = [machines.device(name, words.number_format(cell)) for name, cell in zip(names, formats, strict=True)]
    found = {
        name: np.array([getattr(device, name) for device in devices], dtype=float)
        for name in ("peak", "wide_peak", "mem_bandwidth", "memory", "link", "domain", "matmul", "offered")
    }
    rates = words.distinct(words.texts(frame, "inter_node_link"), words.network_bytes)
    found["network"], found["network_of_node"] = np.array(rates, dtype=float).reshape(len(frame), 2).T
    usual = [machines.network_rate(device.key) if device.key else np.nan for device in devices]
    found["network_usual"] = np.array(usual, dtype=float)
    stated = np.array(words.distinct(words.texts(frame, "intra_node_link"), words.domain_size), dtype=float)
    found["domain"] = np.where(np.isnan(stated), found["domain"], stated)
    # The page that a row comes from speaks where the row does not name its software.
    stacks, pages = words.texts(frame, "software"), words.texts(frame, "locator")
    named = [stack or page for stack, page in zip(stacks, pages, strict=True)]
    cells = zip(named, *(words.texts(frame, column) for column in WORDS), strict=True)
    levels = np.array([machines.software_level("; ".join(row)) for row in cells], dtype=str)
    for column in machines.ENGINE:
        found[column] = np.array([machines.engines()[level][column] for level in levels.tolist()], dtype=float)
    keys = {name: np.array([getattr(device, name) for device in devices], dtype=str) for name in ("vendor", "family")}
    return found, {"accelerator": np.array([device.key for device in devices], dtype=str), **keys, "engine": levels}


def _complete(v: dict[str, np.ndarray], keys: dict[str, np.ndarray]) -> None:
    """Layout defaults, and what follows from several cells together."""

    def fill(name: str, value: Any) -> None:
        v[name] = np.where(np.isnan(v[name]), value, v[name])

    fill("vp", 1.0)
    fill("cp", 1.0)
    stated = ~np.isnan(v["dp"])
    _usual_split(v)
    model = v["tp"] * v["pp"] * v["cp"]
    v["cores"] = machines.cores_per_device(keys["family"])
    fill("devices", model * v["dp"])
    fill("dp", v["devices"] * v["cores"] / model)
    fill("per_node", np.minimum(v["devices"], 8))
    fill("ep", 1.0)
    fill("seq_len", np.where(np.isnan(v["usual_seq"]), 2048.0, v["usual_seq"]))
    fill("micro_batch", 1.0)
    # A pipeline is fed with many micro-batches; where the batch is not stated, four for each stage.
    fill("global_batch", v["micro_batch"] * v["dp"] * np.where(v["pp"] > 1, 4 * v["pp"], 1))
    v["stated_dp"] = stated
    v["micro_batches"] = np.maximum(v["global_batch"] / (v["dp"] * v["micro_batch"]), 1.0)
    v["flushes"] = np.maximum(np.nan_to_num(v["micro_batches"] / v["micro_batches_per_flush"], nan=1.0), 1.0)
    fill("zero", np.where(v["dp"] > 1, 1.0, 0.0))
    whole = v["dp"] * v["cp"]
    node = np.minimum(v["per_node"], whole)
    v["shard_group"] = np.where(v["shard_group"] < 0, node, v["shard_group"])
    fill("shard_group", whole)
    v["shard_group"] = np.where(v["zero"] == 0, 1.0, np.minimum(v["shard_group"], whole))
    core = np.isin(keys["engine"], ["megatron-core", "neuron"])
    fill("sequence_parallel", core.astype(float))
    v["again_stated"] = (~np.isnan(v["again_all"])).astype(float)
    for name in words.RECOMPUTED:
        fill(f"again_{name}", 0.0)
    # Layer norm is one kernel everywhere; the root-mean-square norm of gated networks is where somebody wrote one.
    one_kernel = (v["norm_kernel"] == 1) | (v["gated"] == 0)
    v["stream_bytes"] = np.where(one_kernel, np.minimum(v["stream_bytes"], 20.0), v["stream_bytes"])
    per_device = np.where(v["network_of_node"] == 1, v["network"] / v["per_node"], v["network"])
    per_device = np.where(np.isnan(v["network_bandwidth"]), per_device, v["network_bandwidth"])
    v["network"] = np.where(np.isnan(per_device), v["network_usual"], per_device)
    # Links that join more than a node count where the row's nodes are boards; a slice or a large node is one domain.
    larger = (v["domain"] > v["per_node"]) & (v["per_node"] <= BOARD)
    v["domain"] = np.where(larger, v["domain"], v["per_node"])
    # Where no pod is stated, the network is oversubscribed above the fast domain.
    fill("oversubscription", 1.0)
    fill("pod", v["domain"])
    fill("offload_drives", np.inf)
    # A kernel that is only called flash, or not stated, is the usual one of its software.
    usual = np.isnan(v["kernel"])
    v["kernel"] = np.where(usual, v["flash_kernel"], v["kernel"])
    scores = np.where(np.isnan(v["score_bytes"]), words.FUSED, v["score_bytes"])
    v["score_bytes"] = np.where(v["kernel"] > 0, 0.0, scores)
    kernels = zip(v["kernel"].tolist(), keys["vendor"].tolist(), keys["family"].tolist(), strict=True)
    v["attention_share"] = np.array([machines.attention_share(*kernel) for kernel in kernels], dtype=float)
    v["nodes"] = np.maximum(np.ceil(v["devices"] / v["per_node"]), 1.0)
    keys["scale"] = np.select([v["devices"] <= 1, v["nodes"] <= 1], ["1 device", "1 node"], "multi-node")
    keys["moe"] = v["moe"] > 0


def _usual_split(v: dict[str, np.ndarray]) -> None:
    """Tensor and pipeline shards where a row states neither: the fewest that the batch and the memory allow.

    No more replicas than sequences in the batch, and weights, gradients and sharded states in half the memory.
    """
    blank = np.isnan(v["tp"]) & np.isnan(v["pp"])
    weights = np.where(np.isnan(v["params"]), 12 * v["layers"] * v["hidden"] ** 2, v["params"])
    share = np.where(v["zero"] >= 3, 1.0, 8 * weights / (0.5 * v["memory"]))
    batch = np.where(np.isnan(v["global_batch"]), np.inf, v["global_batch"])
    need = np.maximum(np.maximum(share, v["devices"] / v["cp"] / batch), 1.0)
    shards = 2.0 ** np.ceil(np.log2(np.where(blank & np.isfinite(need), need, 1.0)) - 1e-9)
    tensor = np.minimum(shards, 8.0)
    v["tp"] = np.where(blank, tensor, np.where(np.isnan(v["tp"]), 1.0, v["tp"]))
    v["pp"] = np.where(blank, shards / tensor, np.where(np.isnan(v["pp"]), 1.0, v["pp"]))
