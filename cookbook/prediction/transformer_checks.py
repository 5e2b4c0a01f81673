"""Rows of transformer training that cannot be predicted, and why: a sentence each, said before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from cookbook.prediction import transformer_text as words

COUNTS = (
    "devices", "tp", "pp", "vp", "cp", "ep", "micro_batch", "seq_len", "per_node", "layers", "hidden", "heads",
    "kv_heads", "ffn_hidden", "vocab",
)  # fmt: skip
# Counts that follow from the others where they are blank.
FOLLOWING = ("dp", "global_batch", "shard_group")
ABOVE_ZERO = ("capacity_factor", "network_bandwidth", "offload_link", "offload_memory", "offload_drives")
PARTS = ("experts", "experts_per_token", "shared_experts", "moe_ffn_hidden", "dense_layers")
# Words of which one at least stands in a cell that means something.
KNOWN = {
    "activation_recompute": (
        r"^(no|off|false|yes|on|true|0|1)\b|none|full|all|every|layer|block|uniform|checkpoint|remat|recomput|select"
        r"|partial|minimal|save|modules|offload|policy|core|mlp|attn|attention|\d\s*%|^0?\.\d",
        "none, selective, full, a share such as 40 %, or selective modules: mlp+layernorm",
    ),
    "attention_kernel": (
        r"flash|fa ?-?\d|fused|softmax|torch|eager|naive|math|plain|standard|vanilla|cudnn|\bte\b|transformer.?engine"
        r"|sdpa|splash|pallas|xformers|efficient|triton|aiter|\bck\b|neuron|nki|ring|flex|auto|default|core|^no|^yes|jax",
        "flash1, flash2, flash3, no flash, or unfused",
    ),
    "zero_fsdp_stage": (
        r"^[0-3]\b|zero-?\s?[0-3]|fsdp|hsdp|ddp|distributed|^no|shard|^yes",
        "0, 1, 2, 3, or FSDP",
    ),
}  # fmt: skip


def unreadable(frame: pd.DataFrame, columns: Iterable[str]) -> np.ndarray:
    """For each row, the first cell that says nothing: text for a number, or a word that no column knows; "" if none.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows.
    columns : iterable of str
        Columns of numbers.
    """
    found = np.full(len(frame), "", dtype=object)
    for column in columns:
        if column in frame.columns and pd.api.types.is_numeric_dtype(frame[column]):
            continue
        good = words.distinct(words.texts(frame, column), lambda cell: words.number(cell) == words.number(cell))
        cells = words.texts(frame, column)
        said = [
            "" if right or words.NOT_STATED.fullmatch(cell) else f"{column} = {cell[:40]!r} is not a number"
            for cell, right in zip(cells, good, strict=True)
        ]
        found = np.where(found == "", np.array(said, dtype=object), found)
    for column in KNOWN:
        said = words.distinct(words.texts(frame, column), partial(_meaningless, column))
        found = np.where(found == "", np.array(said, dtype=object), found)
    return found.astype(str) if len(found) else np.zeros(0, dtype="<U1")


def _meaningless(column: str, cell: str) -> str:
    """What is wrong with a cell of words; "" if it can be understood."""
    pattern, allowed = KNOWN[column]
    if words.NOT_STATED.fullmatch(cell) or re.search(pattern, cell, re.I):
        return ""
    return f"{column} = {cell[:40]!r} means nothing here; write {allowed}"


def refusals(v: Mapping[str, np.ndarray], keys: Mapping[str, np.ndarray], unread: np.ndarray) -> np.ndarray:
    """Why a row cannot be predicted; empty where it can.

    Parameters
    ----------
    v : mapping of str to numpy.ndarray
        All numbers of the rows, blanks filled.
    keys : mapping of str to numpy.ndarray
        ``accelerator`` among others.
    unread : numpy.ndarray of str
        From `unreadable`.
    """
    bad, worse = (
        np.any([~(v[name] >= 1) | ~np.isfinite(v[name]) for name in names], axis=0) for names in (COUNTS, FOLLOWING)
    )
    below = "a count of devices, layers, shards, batch or tokens is missing or below 1"
    odd = np.any([~(v[name] >= 0) | ~np.isfinite(v[name]) for name in PARTS], axis=0)
    odd |= (v["latent"] == 0) & (~(v["head_dim"] >= 1) | ~np.isfinite(v["head_dim"]))
    odd |= (v["experts_per_token"] > v["experts"]) | (v["dense_layers"] > v["layers"])
    options = np.any([v[name] <= 0 for name in ABOVE_ZERO], axis=0) | (v["oversubscription"] < 1) | (v["pod"] < 1)
    layout = v["tp"] * v["pp"] * v["cp"] * v["dp"]
    off = np.abs(layout - v["devices"] * v["cores"]) > 0.01 * layout
    fed = v["global_batch"] < v["dp"] * 0.99
    checks = (
        (keys["accelerator"] == "", 'the accelerator is not in the catalogue: take a key of cb.table("accelerators")'),
        (unread != "", unread),
        (np.isnan(v["layers"] * v["hidden"]), "the model is not in the zoo, and neither its dimensions nor its "
         "parameters are given: fill layers and hidden, or params_b"),
        (bad, below),
        (v["tp"] * v["pp"] * v["cp"] > v["devices"] * v["cores"], "tp x pp x cp is more than the number of devices"),
        (off | (v["dp"] != np.round(v["dp"])), "tp x pp x cp x dp is not the number of devices"),
        (worse, below),
        (v["pp"] > v["layers"], "pp is more than the layers: a stage holds at least one"),
        (v["tp"] > v["heads"], "tp is more than the heads: a shard computes at least one"),
        (v["kv_heads"] > v["heads"], "kv_heads is more than heads"),
        ((v["moe"] == 1) & (v["ep"] > v["experts"]), "ep is more than the experts: a device holds at least one"),
        (v["stated_dp"] & fed, "global_batch is less than dp: every replica needs a sequence"),
        (options, "a capacity factor, a rate or an oversubscription is 0 or less, or less than 1"),
        (odd, "a width or a number of experts is negative, infinite, or larger than what it is a part of"),
        (v["offered"] == 0, "the catalogue knows no arithmetic of this device in that number format: take another"),
        (np.isnan(v["peak"] * v["mem_bandwidth"]), "the catalogue has no peak or no memory bandwidth for this device "
         "and number format"),
    )  # fmt: skip
    return np.select([check for check, _ in checks], [reason for _, reason in checks], "").astype(str)
