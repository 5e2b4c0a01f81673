"""What the text cells of a transformer training row mean: recomputation, sharding, attention kernel, number format.

Cells are words that people wrote, so each reader takes the first pattern that fits and says nothing about the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.performance.pipeline import FILLED
from cookbook.prediction.constants import figure

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%|(?<![\d.])(0\.\d+)(?![\d.])")
COUNT = re.compile(r"(\d+)\s*(?:of|/)\s*(\d+)")
# Words that stand for a blank, and a head size that is given by name.
NOT_STATED = re.compile(r"|-|nan|none|n/?a|unknown|mla|not stated.*", re.I)
# What a named module adds to the parts that are computed again.
MODULES = {
    "core_attn": ("core",),
    "mla_up_proj": ("projection",),
    "mlp": ("mlp",),
    "moe_act": ("elementwise",),
    "layernorm": ("elementwise",),
    "moe": ("mlp", "elementwise"),
}
# Bytes moved for each attention score: softmax in one kernel, and operation by operation.
FUSED, UNFUSED = figure("score-bytes-fused"), figure("score-bytes-unfused")
# Networks that rows name without a rate.
NETWORKS = {
    "xdr": "infiniband-xdr-4x-800-gb-s", "ndr": "infiniband-ndr-4x-400-gb-s", "hdr": "infiniband-hdr-4x-200-gb-s",
    "edr": "infiniband-edr-4x-100-gb-s", "fdr": "infiniband-fdr-4x-56-gb-s", "omni-path": "omni-path-100",
}  # fmt: skip
RECOMPUTED = ("projection", "core", "mlp", "elementwise", "all")


def distinct(column: Iterable[str], reader: Callable[[str], Any]) -> list[Any]:
    """`reader` of every cell, run once for each distinct text."""
    known: dict[str, Any] = {}
    return [known[cell] if cell in known else known.setdefault(cell, reader(cell)) for cell in column]


def texts(frame: pd.DataFrame, column: str) -> list[str]:
    """Cells of a column as stripped text, empty where blank or absent."""
    if column not in frame.columns:
        return [""] * len(frame)
    return ["" if cell is None or cell != cell else str(cell).strip() for cell in frame[column].tolist()]


def number(cell: str) -> float:
    """The number of a cell whose text starts with one; encoder and decoder layers (24+24) are added.

    >>> number("24+24"), number("65536 (misconfigured lower)"), number("MLA")
    (48.0, 65536.0, nan)
    """
    cell = cell.replace(",", "")
    if re.fullmatch(r"\d+\+\d+", cell):
        return float(sum(int(part) for part in cell.split("+")))
    found = NUMBER.match(cell)
    return float(found.group()) if found else float("nan")


def numbers(frame: pd.DataFrame, column: str) -> np.ndarray:
    """A column as numbers, NaN where none is stated; text that merely contains words is NaN too."""
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    if pd.api.types.is_numeric_dtype(frame[column]):
        return frame[column].to_numpy(dtype=float, copy=True)
    return np.array(distinct(texts(frame, column), number), dtype=float).reshape(len(frame))


def recompute_share(cell: str) -> float:
    """The share of layers that a text names: 40 %, 0.4 or 16 of 40 layers; 1 where it names none."""
    share, count = SHARE.search(cell), COUNT.search(cell)
    if count and float(count.group(2)) > 0:
        return min(float(count.group(1)) / float(count.group(2)), 1.0)
    if share:
        return min(float(share.group(1)) / 100 if share.group(1) else float(share.group(2)), 1.0)
    return 1.0


def recomputed(cell: str) -> tuple[float, ...]:
    """Shares of the layers' parts that are computed again, in the order of RECOMPUTED; NaN where not stated.

    >>> recomputed("full (every layer)"), recomputed("selective")
    ((1.0, 1.0, 1.0, 1.0, 1.0), (0.0, 1.0, 0.0, 0.0, 0.0))
    """
    text = cell.casefold()
    if not text or text.startswith(("not stated", "unknown")):
        return (float("nan"),) * len(RECOMPUTED)
    share, parts = recompute_share(text), set[str]()
    if text.startswith(("none", "no", "off", "false")):
        share = 0.0
    elif "minimal" in text or "save_dot" in text or "weight products" in text:
        parts = {"elementwise"} if "flash" in text and "/" not in text else {"core", "elementwise"}
    elif "modules" in text:
        named = re.split(r"[+,;\s]+", text.split("modules", 1)[1].strip(": "))
        parts = {part for name in named for part in MODULES.get(name, ())}
    elif "offload" in text and "full" not in text:
        parts = {"core", "mlp", "elementwise"}
    elif text.startswith("select"):
        parts = {"core"}
    else:
        parts = set(RECOMPUTED)
    return tuple(share * (part in parts) for part in RECOMPUTED)


def zero_stage(cell: str) -> tuple[float, float]:
    """ZeRO stage and the devices that share one copy (NaN: all data-parallel ranks; -1: those of one node).

    >>> zero_stage("FSDP FULL_SHARD (ZeRO-3)"), zero_stage("FSDP (shard group 64)"), zero_stage("1 (assumed)")
    ((3.0, nan), (3.0, 64.0), (1.0, nan))
    """
    text = cell.casefold()
    if "fsdp" in text or "hsdp" in text:
        group = re.search(r"shard group (\d+)|fsdp (\d+)", text)
        inner = -1.0 if "within" in text or "hybrid" in text or "hsdp" in text else float("nan")
        size = float(group.group(1) or group.group(2)) if group else inner
        stage = 2.0 if "grad_op" in text or "zero-2" in text else 3.0
        return (0.0, float("nan")) if size == 1 else (stage, size)
    found = re.search(r"zero-?(\d)|^(\d)", text)
    if found:
        return float(found.group(1) or found.group(2)), float("nan")
    return (1.0 if "distributed" in text else float("nan")), float("nan")


def held_share(cell: str) -> float:
    """Share of the stages whose micro-batches a V-shaped pipeline schedule holds; NaN where none is named.

    >>> held_share("PP schedule v-half"), held_share("zb-v"), held_share("1f1b-interleaved")
    (0.5, 1.0, nan)
    """
    named = re.search(r"\bv-(half|min)\b|\bzb-?v\b|\bv-zb\b", cell.casefold())
    return {"half": 1 / 2, "min": 1 / 3}.get(named.group(1), 1.0) if named else float("nan")


def filled(cell: str) -> tuple[float, bool]:
    """Weight gradients that fill the bubble of a stage under a pipeline schedule, and whether it is GPipe's.

    >>> filled("zero-bubble"), filled("zbv"), filled("GPipe"), filled("1f1b")
    ((2.0, False), (3.0, False), (0.0, True), (0.0, False))
    """
    text = cell.casefold()
    if re.search(r"\bzb-?v\b|\bv-zb\b", text):
        return FILLED["zb-v"], False
    return FILLED["zero-bubble"] if re.search(r"zero.?bubble|\bzb", text) else 0.0, "gpipe" in text


def truth(cell: str) -> float:
    """1 for yes, 0 for no, 0.5 for yes if tensor-parallel, NaN where not stated."""
    text = cell.casefold()
    if not text:
        return float("nan")
    return 1.0 if text.startswith(("yes", "true", "1")) else 0.0


def number_format(cell: str) -> str:
    """Name of the number format of the matrix products, as in number_formats; empty where not stated.

    >>> number_format("mxfp8"), number_format("bf16 (not stated)"), number_format("fp8 hybrid"), number_format("nvfp4")
    ('fp8', 'bf16', 'fp8', 'fp4')
    """
    text = cell.casefold()
    for word, name in (("fp4", "fp4"), ("fp8", "fp8"), ("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16"),
                       ("float16", "fp16"), ("half", "fp16"), ("tf32", "tf32"), ("fp32", "fp32")):  # fmt: skip
        if word in text:
            return name
    return ""


def attention(cell: str) -> tuple[float, float, float]:
    """Generation of a flash kernel (0: none, NaN: not stated), bytes moved for each score without one (NaN: not
    stated), and whether norms are said to be one kernel.

    >>> attention("flash_attention2 + RMS kernel"), attention("no flash (fused softmax)"), attention("torch")
    ((2.0, 0.0, 1.0), (0.0, 11.0, 0.0), (0.0, 24.0, 0.0))
    """
    text = re.sub(r"[^a-z0-9]+", " ", cell.casefold())
    norm = float("rms" in text or "norm kernel" in text)
    if text.strip() in ("torch", "eager", "naive", "math", "unfused"):
        return 0.0, UNFUSED, norm
    if re.search(r"no flash|not flash|fused softmax|^fused$", text):
        return 0.0, FUSED, norm
    if re.search(r"\bte\b|cudnn|attention 3|flash ?3|attention3|fa3", text):
        return 3.0, 0.0, norm
    if re.search(r"attention ?2|flash ?2|fa2|pallas|splash|sdpa|attention v2", text):
        return 2.0, 0.0, norm
    if re.search(r"attentionv1|attention ?1|flash ?1|fa1|attention v1", text):
        return 1.0, 0.0, norm
    return float("nan"), float("nan"), norm


def network_bytes(cell: str) -> tuple[float, bool]:
    """Network rate that a text states [B/s], and whether it is a node's (else one device's); NaN where none is.

    >>> network_bytes("8x HDR InfiniBand 200Gb/s per node"), network_bytes("1600 Gbps/node RoCE")
    ((25000000000.0, False), (200000000000.0, True))
    """
    text = cell.casefold().replace(",", "")
    ports = re.search(r"(\d+)\s*x\s*(?:[a-z]+\s+)*(\d+)\s*g", text)
    if ports:
        total = float(ports.group(1)) * float(ports.group(2)) / 8 * 1e9
        return (total / float(ports.group(1)), False) if ports.group(1) == "8" else (total, True)
    rate = re.search(r"(\d+)(?:/\d+)?\s*g(?:b|bps|bit|be)?(?:/s)?\b", text)
    if rate:
        return float(rate.group(1)) / 8 * 1e9, "node" in text or float(rate.group(1)) > 400
    for word, key in NETWORKS.items():
        if word in text:
            return _network(key), word in ("edr", "fdr", "omni-path")
    return float("nan"), False


@lru_cache(maxsize=16)
def _network(key: str) -> float:
    rows = catalog.table("interconnects").set_index("key")
    return float(rows.loc[key, "bandwidth"])


def domain_size(cell: str) -> float:
    """Devices that the fast link joins, where the text says more than one node; else NaN.

    >>> domain_size("NVLink5 NVL72 domain (72 GPUs)"), domain_size("NVLink4/NVSwitch")
    (72.0, nan)
    """
    found = re.search(r"nvl(\d+)|\((\d+) gpus\)", cell.casefold())
    return float(found.group(1) or found.group(2)) if found else float("nan")
