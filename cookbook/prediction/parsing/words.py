"""What people's words mean: numbers with units, number formats, recomputation, sharding, attention kernels, networks.

Each reader gives the typed value and, where the words say nothing that is known, what is wrong with them.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog.refusals import NOT_ALLOWED, Refusal, refused
from cookbook.prediction import request_sets
from cookbook.prediction.constants import is_product
from cookbook.prediction.scenario import FALSE, MODULES, TRUE, Field, fields, shown

# Cells that say that nothing is known.
BLANK = frozenset({"", "nan", "none", "null", "na", "n/a", "-", "--", "?", "unknown", "not stated", "<na>"})
NOT_STATED = re.compile(r"|-|nan|n/?a(?: \(.*\))?|unknown|mla|not stated.*", re.I)
# Words of somebody who took the best number, or as many as there was room for, and does not say which.
CHOSEN = re.compile(
    r"((submitter|auto|self)?[\s-]*(tuned|chosen|selected)|max(imum)?\b\D*|auto|dynamic|\D*not stated\D*)\s*", re.I
)
NUMBER = re.compile(r"[+-]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.A)
SUM = re.compile(r"\d+(?:\s*\+\s*\d+)+", re.A)
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
# Behind a number: a multiple, then words that say what is counted. A second figure or a node may not stand there.
MULTIPLE = re.compile(r"\s*(k|m|b|g|t|thousand|million|billion|trillion)(?![a-z0-9])", re.I)
MULTIPLES = {
    "k": 1e3,
    "m": 1e6,
    "b": 1e9,
    "g": 1e9,
    "t": 1e12,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
}
DOUBTFUL = re.compile(r"\d|\b(?:nodes?|hosts?|servers?|per|or|to)\b|^\s*[-/x*~+]|%", re.I)
ENDLESS = ("inf", "infinite", "infinity")
# Lengths in tokens, of which k is 1,024.
LENGTHS = ("seq", "input_len", "output_len")
PIPELINE = "input_pipeline"
SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%|(?<![\d.])(0\.\d+)(?![\d.])")
COUNT = re.compile(r"(\d+)\s*(?:of|/)\s*(\d+)")
RECOMPUTE = re.compile(
    r"none|full|all|every|layer|block|uniform|checkpoint|remat|recomput|select|minimal|save|modules|offload|policy|core"
    r"|mlp|attn|attention|\d\s*%|^0?\.\d|\d+\s*(?:of|/)\s*\d+",
    re.I,
)
# Words for which products are kept and the rest computed again.
KEPT = {
    "all but weight products": "core_attn+layernorm",
    "all but qkv projections, which are offloaded": "offload",
    "minimal/minimal_flash": "core_attn+layernorm",
    "minimal_flash": "layernorm",
    "core_attn": "selective",
    "every second product": "0.5",
    "every second layer": "0.5",  # torchtitan
}
EVERY_SECOND = re.compile(r"selective[\s_-]*\(?[\s_-]*(op|layer)s?\b")
ATTENTION = re.compile(
    r"flash|fa ?-?\d|fused|softmax|torch|eager|naive|math|plain|standard|vanilla|cudnn|\bte\b|transformer.?engine|sdpa"
    r"|splash|pallas|xformers|efficient|triton|aiter|\bck\b|neuron|nki|ring|flex|\bauto\b|\bdefault\b|core",
    re.I,
)
FORMATS = (
    ("fp64", re.compile(r"fp64|float64|double|\bf64", re.I)),
    ("fp4", re.compile(r"fp4|float4|e2m1", re.I)),
    ("fp8", re.compile(r"fp8|float8|e4m3|e5m2|\bf8\b", re.I)),
    ("bf16", re.compile(r"(?<![a-z0-9])bf16(?![a-z0-9])|bfloat", re.I)),
    ("fp16", re.compile(r"(?<![a-z0-9])fp16(?![a-z0-9])|float16|\bf16|half|\bamp\b|\bmixed\b", re.I)),
    ("tf32", re.compile(r"(?<![a-z0-9])tf32(?![a-z0-9])|tensorfloat", re.I)),
    ("fp32", re.compile(r"(?<![a-z0-9])fp32(?![a-z0-9])|float32|\bf32|\bsingle\b|\bfloat\b", re.I)),
    ("int8", re.compile(r"(?<![a-z0-9])(?:int8|w8a8)(?![a-z0-9])", re.I)),
)
# How requests arrive, as reports put it ("MLPerf Offline (v3.0, closed)", "static batch 1, decode"): the first to fit.
WAYS = tuple(
    (way, re.compile(pattern))
    for way, pattern in (
        ("single_stream", "single_?stream"),
        ("multi_stream", "multi_?stream"),
        ("decode", r"(?<![a-z])decod(e|ing)(?![a-z])"),
        ("prefill", "prefill|prompt_processing"),
        ("real_time", "real_?time"),
        ("server", "server|concurren|online"),
        ("offline", "offline|max_throughput|infinite|burst"),
        ("batch", "static_batch_batch"),
        ("forward", "forward"),
        ("static", "static|fixed_batch|^batch(ed)?_"),
    )
)
# Networks that people name without a rate, and those whose port is a node's.
NETWORKS = {
    "xdr": "infiniband-xdr-4x-800-gb-s",
    "ndr": "infiniband-ndr-4x-400-gb-s",
    "hdr": "infiniband-hdr-4x-200-gb-s",
    "edr": "infiniband-edr-4x-100-gb-s",
    "fdr": "infiniband-fdr-4x-56-gb-s",
    "omni-path": "omni-path-100",
    "connectx-7": "infiniband-ndr-4x-400-gb-s",
    "connectx-6": "infiniband-hdr-4x-200-gb-s",
    "connectx-5": "infiniband-edr-4x-100-gb-s",
}
# Ports of a node that are one for each device; Gb/s of a port that a device may have of its own: above which a single
# rate is that of a node, as no port is as fast, and up to which it is a node's only port.
NODE, FASTEST_PORT, SLOWEST_OWN = 8, 400, 100
THOUSANDS, NEXT_NETWORK = re.compile(r"(?<=\d),(?=\d{3})"), re.compile(r"[,;]| and ")
ASIDE = re.compile(r"storage|management|\bns\b", re.I)
PORTS = re.compile(r"\b(\d+)\s*x(?=\s*[a-z\d])")
RATE = re.compile(r"(\d+)(?:/\d+)?\s*g(?:b|bps|bit|be)?(?:/s)?\b")
BYTES = re.compile(
    r"(\d+(?:\.\d+)?)\s*([kMGT])i?B(?:ytes)?\s*/\s*s|(\d+(?:\.\d+)?)\s*([kMT])(?:b|bit|bps)(?:it)?(?:s|/s)?\b"
)
NETWORK_WORDS = re.compile(
    r"infiniband|\bib\b|roce|ethernet|\befa|\bdcn\b|slingshot|\bici\b|neuronlink|tcp|nic\b|rdma|nvlink|nvl\d|nvswitch|omni|[xnhef]dr\b"
    r"|fabric|switch|aries|gemini|bluefield|connectx|mellanox|g(?:i?g)?a?b?e\b|gbps|gigabit|\blan\b|cloud|pcie|single|torus|storage|dgx|pod|"
    r"network|tree|topology|rail",
    re.I,
)


def is_blank(cell: str) -> bool:
    """Whether a cell says that nothing is known."""
    return cell.casefold() in BLANK or bool(NOT_STATED.fullmatch(cell))


def number(cell: str, declared: Field, scale: float = 1.0) -> tuple[float, str, str]:
    """A cell of a column of numbers: its value, what is wrong with it, and what reading it assumed.

    Parameters
    ----------
    cell : str
        The cell.
    declared : Field
        What the column may hold.
    scale : float
        What one of the column's own unit is (1e9 for a column in billions).
    """
    if is_blank(cell) or CHOSEN.fullmatch(cell.strip()):
        return math.nan, "", ""
    wanted = f"is not {declared.allowed}"
    if declared.high == math.inf and cell.strip().casefold() in ENDLESS:
        return math.inf, "", ""
    if SUM.fullmatch(cell) and PIPELINE not in declared.phases:  # of a network's parts, never of machines
        value, assumed = math.fsum(float(part) for part in cell.split("+")), ""
    else:
        found = NUMBER.match(cell)
        if not found or ("," in found[0] and not GROUPED.fullmatch(found[0])):
            return requests(cell, declared)
        value, rest, assumed = float(found[0].replace(",", "")), cell[found.end() :], ""
        if declared.unit and rest.strip():
            return _with_unit(cell, declared)
        multiple = MULTIPLE.match(rest)
        if multiple:
            # A column in billions may say so again: 7B.
            times = 1.0 if multiple[1] in "bB" and scale == 1e9 else MULTIPLES[multiple[1].casefold()]
            if times == 1e3 and declared.name in LENGTHS:
                times = 1024.0
            value, rest, assumed = (
                value * times,
                rest[multiple.end() :],
                f"{declared.name} {cell} = {value * times:,.0f}",
            )
        if rest[:1].isalnum() or DOUBTFUL.search(re.sub(r"\(.*?\)", "", rest)):
            return math.nan, not_allowed(declared, cell, "is not one number"), ""
    return (*in_range(value * scale, cell, declared, wanted), assumed)


def requests(cell: str, declared: Field) -> tuple[float, str, str]:
    """A cell that is no number: tokens of the data set of requests that it names, where the field is a length of such.

    >>> requests("MLPerf OpenOrca", Field("input_len", "count", "", "", "", "", 0, 1e8, {}))[::2]
    (222.0, 'input_len = 222, the mean of openorca')
    """
    known = request_sets.within(cell) if declared.name in request_sets.COLUMNS else None
    if known is None or math.isnan(known.tokens(declared.name)):
        return math.nan, not_allowed(declared, cell, "is not a number"), ""
    return known.tokens(declared.name), "", known.told(declared.name)


def length(cell: str, data_set: str) -> str:
    """The cell that tells the length of a prompt: its own, else that of a data set of requests that is known.

    >>> length("512", "ShareGPT"), length("", "ShareGPT"), length("", "ours")
    ('512', 'ShareGPT', '')
    """
    return cell if not is_blank(cell) or request_sets.within(data_set) is None else data_set


def answer_of(cell: str) -> tuple[float, str]:
    """Tokens of the answers of a data set that stands in the place of a prompt's length, and what is told of them.

    >>> answer_of("OpenOrca"), answer_of("512")
    ((294.0, 'output_len = 294, the mean of openorca'), (nan, ''))
    """
    known = None if cell[:1].isdigit() else request_sets.within(cell)
    return (known.answer, known.told(request_sets.ANSWER)) if known else (math.nan, "")


def in_range(value: float, cell: Any, declared: Field, wanted: str = "") -> tuple[float, str]:
    """A number if it is in its range, else what is wrong with it."""
    whole = declared.type != "count" or value == math.floor(value) if math.isfinite(value) else False
    if not (declared.low <= value <= declared.high):
        return math.nan, not_allowed(declared, cell, "is outside its range")
    return (value, "") if whole else (math.nan, not_allowed(declared, cell, "is not whole"))


def not_allowed(declared: Field, cell: Any, what: str) -> Refusal:
    """What is wrong with a number of a cell, and what the field allows."""
    return refused(declared.name, cell, f"{what}; give {declared.allowed}", NOT_ALLOWED).refusal


def _with_unit(cell: str, declared: Field) -> tuple[float, str, str]:
    try:
        return *in_range(float(units.si(cell, declared.unit)), cell, declared), ""
    except (ValueError, TypeError) as problem:
        return math.nan, f"{declared.name} = {shown(cell)}: {str(problem)[:100]}", ""


def truth(cell: str) -> float | None:
    """1 for yes, 0 for no, NaN where not stated, None where the words say neither."""
    if is_blank(cell):
        return math.nan
    # Yes and no as a column of numbers with blanks holds them: 1.0 and 0.0.
    cell = cell.strip().removesuffix(".0")
    found = {word in TRUE for word in re.split(r"[\s,;()/]+", cell.strip().casefold()) if word in TRUE or word in FALSE}
    first = re.split(r"[\s,;(]+", cell.strip().casefold())[0]
    return float(first in TRUE) if len(found) == 1 and (first in TRUE or first in FALSE) else None


def gated(cell: str) -> float | None:
    """The same for a gated feed-forward layer, whose activation may be named."""
    if re.search(r"swiglu|geglu|reglu|\bglu\b|gated", cell, re.I) and not re.search(
        r"\b(no|not|without)\b", cell, re.I
    ):
        return 1.0
    return 0.0 if re.fullmatch(r"(gelu|relu|silu|mlp)", cell, re.I) else truth(cell)


@lru_cache(maxsize=4096)
def precision(cell: str) -> str:
    """Name of the number format of the matrix products, as in ``number_formats``; "" where the words name none.

    >>> [precision(cell) for cell in ("mxfp8", "bf16 (not stated)", "nvfp4", "single", "bananas")]
    ['fp8', 'bf16', 'fp4', 'fp32', '']
    """
    text = cell.casefold().replace("fp32_or_tf32", "tf32").replace("fp32optimizer", "")
    return next((name for name, pattern in FORMATS if pattern.search(text)), "")


def recompute(cell: str, modules: str = "") -> tuple[str, str]:
    """Activation checkpointing in its typed spelling, and what is wrong with the words.

    >>> recompute("full (every layer)"), recompute("selective"), recompute("16 of 40 layers"), recompute("partial")
    (('full', ''), ('selective', ''), ('0.4', ''), ('', ''))
    """
    if modules:
        if modules in KEPT:
            return KEPT[modules], ""
        return _modules(modules)
    text = cell.casefold().strip()
    if not text or NOT_STATED.fullmatch(text) or re.match(r"custom\b", text):
        return "", ""
    if EVERY_SECOND.match(text):
        return "0.5", ""
    if re.match(r"(none|no|off|false|0|0\.0|disabled)\b", text) or text in ("0 %", "0%"):
        return "none", ""
    if re.match(r"(yes|on|true|1|enabled|full)$", text):
        return "full", ""
    if "modules" in text:
        return _modules(text.split("modules", 1)[1].strip(": "))
    if not RECOMPUTE.search(text) and "partial" not in text:
        return "", f"recompute = {shown(cell)} is not known; write none, selective, full, or a share such as 40 %"
    share = _share(text)
    if "partial" in text and share is None:
        return "", ""
    if "minimal" in text or "save_dot" in text or "weight products" in text:
        word = "layernorm" if "flash" in text and "/" not in text else "core_attn+layernorm"
    elif "offload" in text and "full" not in text:
        word = "offload"
    else:
        word = "selective" if text.startswith("select") else "full"
    if share in (None, 1.0):
        return word, ""
    return (repr(share) if word == "full" else f"{share!r}*{word}"), ""


def _modules(text: str) -> tuple[str, str]:
    named = [name for name in re.split(r"[+,;\s]+", text.casefold()) if name]
    unknown = [name for name in named if name not in MODULES]
    if unknown or not named:
        return "", f"recompute modules {shown(text)}: take of {', '.join(MODULES)}"
    return "+".join(named), ""


def _share(text: str) -> float | None:
    """The share of layers that a text names: 40 %, 0.4 or 16 of 40 layers; None where it names none."""
    share, count = SHARE.search(text), COUNT.search(text)
    if count and float(count[2]) > 0:
        return min(float(count[1]) / float(count[2]), 1.0)
    return min(float(share[1]) / 100 if share[1] else float(share[2]), 1.0) if share else None


def zero_stage(cell: str) -> tuple[float, float, str]:
    """ZeRO stage, the devices that share one copy (NaN: all replicas; -1: those of one node), and what is wrong.

    >>> zero_stage("FSDP FULL_SHARD (ZeRO-3)"), zero_stage("FSDP (shard group 64)"), zero_stage("zero 3")
    ((3.0, nan, ''), (3.0, 64.0, ''), (3.0, nan, ''))
    """
    text = cell.casefold().strip()
    if is_blank(text):
        return (math.nan, math.nan, "")
    if "fsdp" in text or "hsdp" in text or "full_shard" in text:
        group = re.search(r"shard group (\d+)|fsdp (\d+)", text)
        inner = -1.0 if "within" in text or "hybrid" in text or "hsdp" in text else math.nan
        size = float(group[1] or group[2]) if group else inner
        stage = 2.0 if "grad_op" in text or re.search(r"zero.?2", text) else 3.0
        return (0.0, math.nan, "") if size == 1 else (stage, size, "")
    found = re.search(r"zero[\s_-]*(?:stage[\s_-]*)?(\d)|stage[\s_-]*(\d)|^(\d)(?:\.0*$|(?![\d.]*\d))", text)
    stage = float(next(filter(None, found.groups()))) if found else math.nan
    if stage in (0, 1, 2, 3):
        return stage, math.nan, ""
    if re.match(r"(no|none|off|false|ddp)\b", text):
        return 0.0, math.nan, ""
    if "distributed" in text:
        return 1.0, math.nan, ""
    return math.nan, math.nan, f"zero = {shown(cell)} is not known; write 0, 1, 2, 3, or FSDP"


def attention(cell: str) -> tuple[str, float, str]:
    """Attention kernel in its typed word, whether norms are said to be one kernel, and what is wrong with the words.

    >>> attention("flash_attention2 + RMS kernel")[:2], attention("no flash (fused softmax)")[0], attention("torch")[0]
    (('flash2', 1.0), 'fused-softmax', 'eager')
    """
    text = re.sub(r"[^a-z0-9]+", " ", cell.casefold()).strip()
    if is_blank(text) or is_blank(cell) or cell.strip().isdigit():
        return "", math.nan, ""
    norm = 1.0 if "rms" in text or "norm kernel" in text else math.nan
    bare = re.sub(r"\s*\b(rms|norm) kernel\b", "", text).strip()
    if bare in ("torch", "eager", "naive", "math", "unfused", "plain", "vanilla", "standard"):
        return "eager", norm, ""
    text = re.sub(r"\battn\b", "attention", text)
    if re.search(r"\b(no|not|without|non)\b.{0,6}flash", text) and re.search(
        r"flash ?(attention ?)?v?[1-4]|\bbut\b", text
    ):
        return (
            "",
            np.nan,
            f"attention = {shown(cell)} says two things; write flash1, flash2, flash3, fused-softmax or eager",
        )
    if re.search(r"\b(no|not|without|non)\b.{0,6}flash|fused softmax|^fused$", text):
        return "fused-softmax", norm, ""
    if re.search(r"\bte\b|cudnn|attention 3|flash ?3|attention3|fa ?3|transformer engine", text):
        return "flash3", norm, ""
    if re.search(r"attention ?2|flash ?2|fa ?2|pallas|splash|sdpa|attention v2", text):
        return "flash2", norm, ""
    if re.search(r"attentionv1|attention ?1|flash ?1|fa ?1|attention v1", text):
        return "flash1", norm, ""
    if ATTENTION.search(text) or re.match(r"(yes|true|on)\b", text):
        return "flash", norm, ""
    if re.match(r"(no|none|off|false)\b", text):
        return "fused-softmax", norm, ""
    return "", math.nan, f"attention = {shown(cell)} is not known; write flash1, flash2, flash3, fused-softmax or eager"


def adapted(cell: str, model: str) -> str:
    """Adapters that the name of a model states, "" where it states none or the cell says what is trained itself.

    >>> adapted("finetune", "Llama 2 7B (QLoRA)"), adapted("full", "Llama 2 7B (LoRA)"), adapted("", "Flora")
    ('qlora', '', '')
    """
    said = re.search(r"(?<=[\s_(\-+,])(q?lora)(?![a-z])", model, re.I)
    own = re.search(r"lora|peft|adapter|full|pre-?train|scratch", cell, re.I)
    return said[1].casefold() if said and not own else ""


def adapters(cell: str, notes: str = "") -> tuple[float, str]:
    """Rank of low-rank adapters (NaN where it is not stated), and which matrices they stand beside ("" likewise).

    >>> adapters("q_proj,v_proj", "LoRA, r=8"), adapters("", "rank 64 on all linear layers")
    ((8.0, 'attention'), (64.0, 'all linear'))
    """
    text = f"{cell}; {notes}".casefold()
    rank = re.search(r"\brank\s*(?:of|=|:)?\s*(\d+)|\blora_r(?:ank)?\s*[=:]\s*(\d+)|\br\s*=\s*(\d+)", text)
    number = float(next(filter(None, rank.groups()))) if rank else math.nan
    if re.search(r"lora (?:with|and) embedding|embed_tokens|\blm_head|linear and embedding", text):
        return number, "all linear and embeddings"
    if re.search(r"all.linear", text) or re.search(r"gate|up_proj|down_proj|mlp|\bfc[12]|\bw[123]\b", cell.casefold()):
        return number, "all linear"
    listed = re.search(r"attention|attn|[qkvo]_?proj|qkv|query", cell.casefold())
    return number, "attention" if listed or re.search(r"rank \d+ on attention", text) else ""


def optimiser(cell: str) -> tuple[str, str]:
    """Optimiser in its typed word, and what was assumed where the words name none that is known.

    >>> optimiser("paged AdamW 8bit")[0], optimiser("AdamW (fused)")[0], optimiser("Muon")
    ('adam-8bit', 'adam', ('', 'optimiser = Muon counts as adam'))
    """
    text = cell.casefold()
    for pattern, word in (
        (r"adam.*8.?bit|8.?bit.*adam", "adam-8bit"),
        ("galore", "galore"),
        ("adafactor", "adafactor"),
        ("adam", "adam"),
        ("lamb", "lamb"),
        ("moment", "momentum"),
        (r"\bsgd", "sgd"),
    ):
        if re.search(pattern, text):
            return word, ""
    return "", "" if is_blank(cell) else f"optimiser = {cell[:60]} counts as adam"


def schedule(cell: str, notes: str = "") -> tuple[str, str]:
    """Pipeline schedule in its typed word ("" where none is named), and what is wrong with the words.

    >>> schedule("", "PP schedule v-half")[0], schedule("zbv")[0], schedule("1f1b-interleaved")[0]
    ('v-half', 'zb-v', '1f1b')
    """
    word = _schedule(cell, notes)
    if word or is_blank(cell):
        return word, ""
    return "", f"pipeline_schedule = {shown(cell)} is not known; write gpipe, 1f1b, interleaved, zero-bubble or zb-v"


def _schedule(cell: str, notes: str) -> str:
    text = cell.casefold()
    named = re.search(r"\bv-(half|min)\b|\bzb-?v\b|\bv-zb\b", f"{text}; {notes.casefold()}")
    if named:
        return f"v-{named[1]}" if named[1] else "zb-v"
    if "gpipe" in text:
        return "gpipe"
    if re.search(r"zero.?bubble|\bzb", text):
        return "zero-bubble"
    return "1f1b" if "1f1b" in text else "interleaved" if "interleav" in text else ""


def offload(cell: str) -> tuple[str, str]:
    """What lies in host memory, in its typed word, and what is wrong with the words."""
    text = cell.casefold()
    if is_blank(text) or re.match(r"(no|none|off|false|0|possibly)\b", text):
        return "none", ""
    optimiser, weights, kept = "optimi" in text, "param" in text or "weight" in text, "activation" in text
    if optimiser:
        return ("optimiser and weights" if weights else "optimiser"), ""
    if weights or kept:
        return ("weights" if weights else "activations"), ""
    return "", f"offload = {shown(cell)} does not say what; write no, optimiser, optimiser and weights, or activations"


def network(cell: str) -> tuple[float, bool, str]:
    """Network rate that a text states [B/s], whether it is a node's (else one device's), and what is wrong with it.

    Of several networks the fastest counts, ports for storage and management apart; eight ports are one for each device.

    >>> network("8x HDR InfiniBand 200Gb/s per node")[:2], network("1600 Gbps/node RoCE")[:2], network("10 MB/s")[:2]
    ((25000000000.0, False), (200000000000.0, True), (10000000.0, True))
    >>> network("Storage: 1x DPU 100Gb/s, Compute: 4x Omni-Path 100Gb/s")[:2]
    (50000000000.0, True)
    """
    if is_blank(cell):
        return math.nan, False, ""
    text = THOUSANDS.sub("", cell)
    if re.match(r"\s*-\s*\d", text):
        return math.nan, False, f"network = {shown(cell)} must be above 0; write it as 200 Gb/s or 25 GB/s"
    parts = NEXT_NETWORK.split(text)
    found = [_one_network(part) for part in parts if not ASIDE.search(part)] or [_one_network(part) for part in parts]
    known = [(rate if of_node else NODE * rate, rate, of_node) for rate, of_node in found if rate > 0]
    if known:
        _, rate, of_node = max(known)
        return rate, of_node, ""
    if any(rate == 0 for rate, _ in found):
        return math.nan, False, f"network = {shown(cell)} must be above 0"
    if re.match(r"\s*-", text) or not NETWORK_WORDS.search(text):
        return math.nan, False, f"network = {shown(cell)} states no rate; write it as 200 Gb/s or 25 GB/s"
    return math.nan, False, ""


def _one_network(part: str) -> tuple[float, bool]:
    """Rate of one network [B/s], NaN where none is stated, and whether it is a node's."""
    text = part.casefold()
    byte, rate = BYTES.search(part), RATE.search(text)
    ports = PORTS.search(text, 0, rate.end() if rate else len(text))
    count = float(ports[1]) if ports else 0.0
    of_node = "node" in text
    if byte:
        big = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
        return (float(byte[1]) * big[byte[2]] if byte[1] else float(byte[3]) * big[byte[4]] / 8), True
    if rate:
        each = float(rate[1]) / 8 * 1e9
        of_node = of_node or not SLOWEST_OWN < float(rate[1]) <= FASTEST_PORT
    else:
        word = next((word for word in NETWORKS if word in text), "")
        if not word:
            return math.nan, False
        each, of_node = _network(NETWORKS[word]), word in ("edr", "fdr", "omni-path")
    if "per gpu" in text:
        return each, False
    if count:
        return (each, False) if count == NODE else (count * each, True)
    return each, of_node


@lru_cache(maxsize=16)
def _network(key: str) -> float:
    rows = catalog.table("interconnects").set_index("key")
    return float(rows.loc[key, "bandwidth"])


def domain(cell: str) -> float:
    """Devices that the fast link joins, where the text says more than one node; else NaN.

    >>> domain("NVLink5 NVL72 domain (72 GPUs)"), domain("NVLink4/NVSwitch")
    (72.0, nan)
    """
    found = re.search(r"nvl(\d+)|\((\d+) gpus\)", cell.casefold())
    return float(found[1] or found[2]) if found else math.nan


def way(cell: str) -> tuple[str, str]:
    """How requests arrive, in its typed word, and what is wrong with the words.

    >>> way("MLPerf Offline (v3.0, closed)"), way("")
    (('offline', ''), ('', ''))
    """
    if is_blank(cell):
        return "", ""
    declared = fields()["scenario"]
    text = re.sub(r"[\s-]+", "_", cell.strip().casefold())
    word = declared.choices.get(text) or next((way for way, pattern in WAYS if pattern.search(text)), "")
    return word, "" if word else f"scenario = {shown(cell)} is not known; write one of {declared.allowed}"


@lru_cache(maxsize=8)
def _patterns(kind: str) -> tuple[list[tuple[re.Pattern[str], str]], str]:
    """Patterns of software with their levels, and the level where the software is named but not known."""
    rows = catalog.table("software_levels")
    rows = rows[rows["kind"] == kind]
    pairs = list(zip(rows["pattern"], rows["level"], strict=True))
    return [(re.compile(p, re.I), level) for p, level in pairs if p != ".*"], dict(pairs).get(".*", "")


@lru_cache(maxsize=65536)
def stack(kind: str, named: str, hints: str) -> str:
    """Level of the stack that words name; "" where no software is named and the other cells give no hint.

    Parameters
    ----------
    kind : str
        "transformer", "classic" or "inference".
    named, hints : str
        The software cell, or the page that a row comes from, and other cells that show it.

    Examples
    --------
    >>> stack("transformer", "NeMo container 24.07", ""), stack("transformer", "", "FSDP FULL_SHARD; flash2")
    ('megatron-core', 'torch-fsdp')
    """
    patterns, other = _patterns(kind)
    text = f"{named}; {hints}"
    return next((level for pattern, level in patterns if pattern.search(text)), other if named else "")


def software(kind: str, cells: tuple[str, str, str, str]) -> str:
    """Product that the first cell names as the table ``software`` does; else the level that all of them hint at.

    `kind`: of prediction, as in the table ``software``; `cells`: the software, the notes, the way a model is asked,
    and the device.
    """
    named, notes, way, device = cells
    if is_product(kind, named) or not stack(kind, named, f"{notes}; {way}"):  # a device alone names no software
        return named if is_product(kind, named) else ""
    return stack(kind, named, f"{notes}; {device}; {way}")


def floats(values: Any) -> np.ndarray:
    """Values as an array of floats."""
    return np.array(values, dtype=float)
