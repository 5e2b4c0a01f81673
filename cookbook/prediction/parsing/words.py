"""Meanings of people's words: numbers with units, number formats, recomputation, sharding, attention kernels, networks.

Each reader gives the typed value and, where the words say nothing that is known, what is wrong with them.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from cookbook import catalog, units
from cookbook.catalog.refusals import NOT_ALLOWED, Refusal, refused
from cookbook.prediction import request_sets
from cookbook.prediction.parsing.vocabulary import meaning, mentions, without
from cookbook.prediction.scenario import FALSE, MODULES, TRUE, Field, fields
from cookbook.prediction.software import is_product
from cookbook.units import shown

# Cells that say that nothing is known.
BLANK = frozenset({"", "nan", "none", "null", "na", "n/a", "-", "--", "?", "unknown", "not stated", "<na>"})
NOT_STATED = re.compile(r"|-|nan|n/?a(?: \(.*\))?|unknown|mla|not stated.*", re.I)
NUMBER = re.compile(r"[+-]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.A)
SUM = re.compile(r"\d+(?:\s*\+\s*\d+)+", re.A)
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
# Behind a number: a multiple, then words that say what is counted. A second number or a node is not allowed there.
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
INFINITE = ("inf", "infinite", "infinity")
# Lengths in tokens, of which k is 1,024.
LENGTHS = ("seq", "input_len", "output_len")
PIPELINE = "input_pipeline"
SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%|(?<![\d.])(0?\.\d+)(?![\d.])")
COUNT = re.compile(r"(\d+)\s*(?:of|/)\s*(\d+)")
# A share of layers, however precisely it is written.
SHARE_FORMS = re.compile(r"\d\s*%|^0?\.\d|\d+\s*(?:of|/)\s*\d+", re.I)
# Ports of a node that are one for each device; Gb/s of a port that a device may have of its own: above which a single
# rate is that of a node, as no port is as fast, and up to which it is a node's only port.
PORTS_OF_NODE, FASTEST_PORT, SLOWEST_OWN = 8, 400, 100
THOUSANDS, NEXT_NETWORK = re.compile(r"(?<=\d),(?=\d{3})"), re.compile(r"[,;]| and ")
PORTS = re.compile(r"\b(\d+)\s*x(?=\s*[a-z\d])")
RATE = re.compile(r"(\d+)(?:/\d+)?\s*g(?:b|bps|bit|be)?(?:/s)?\b")
BYTES = re.compile(
    r"(\d+(?:\.\d+)?)\s*([kMGT])i?B(?:ytes)?\s*/\s*s|(\d+(?:\.\d+)?)\s*([kMT])(?:b|bit|bps)(?:it)?(?:s|/s)?\b"
)


def is_blank(cell: str) -> bool:
    """Return whether a cell says that nothing is known."""
    return cell.casefold() in BLANK or bool(NOT_STATED.fullmatch(cell))


def number(cell: str, declared: Field, scale: float = 1.0) -> tuple[float, str, str]:
    """Return the number in a cell, what is wrong with it, and what reading it assumed.

    Parameters
    ----------
    cell : str
        The cell.
    declared : Field
        What the column may contain.
    scale : float
        What one of the column's own unit is (1e9 for a column in billions).
    """
    if is_blank(cell) or mentions("number", cell.strip()):
        return math.nan, "", ""
    if declared.high == math.inf and cell.strip().casefold() in INFINITE:
        return math.inf, "", ""
    if SUM.fullmatch(cell) and PIPELINE not in declared.phases:  # of a network's parts, never of machines
        value, assumed = math.fsum(float(part) for part in cell.split("+")), ""
    else:
        match = NUMBER.match(cell)
        if not match or ("," in match[0] and not GROUPED.fullmatch(match[0])):
            return requests(cell, declared)
        value, rest, assumed = float(match[0].replace(",", "")), cell[match.end() :], ""
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
    return (*in_range(value * scale, cell, declared), assumed)


def requests(cell: str, declared: Field) -> tuple[float, str, str]:
    """Return the tokens of the data set of requests that a cell names, where the field is a length of such.

    >>> requests("MLPerf OpenOrca", Field("input_len", "count", "", "", "", "", 0, 1e8, {}))[::2]
    (222.0, 'input_len = 222, the mean of openorca')
    """
    data_set = request_sets.within(cell) if declared.name in request_sets.COLUMNS else None
    if data_set is None or math.isnan(data_set.tokens(declared.name)):
        return math.nan, not_allowed(declared, cell, "is not a number"), ""
    return data_set.tokens(declared.name), "", data_set.told(declared.name)


def length(cell: str, data_set: str) -> str:
    """Return the cell with the length of a prompt: its own, else that of a known data set of requests.

    >>> length("512", "ShareGPT"), length("", "ShareGPT"), length("", "ours")
    ('512', 'ShareGPT', '')
    """
    return cell if not is_blank(cell) or request_sets.within(data_set) is None else data_set


def answer_of(cell: str) -> tuple[float, str]:
    """Return the tokens of the answers of a data set that is named as a prompt's length, and a note about them.

    >>> answer_of("OpenOrca"), answer_of("512")
    ((294.0, 'output_len = 294, the mean of openorca'), (nan, ''))
    """
    data_set = None if cell[:1].isdigit() else request_sets.within(cell)
    return (data_set.answer, data_set.told(request_sets.ANSWER)) if data_set else (math.nan, "")


def in_range(value: float, cell: Any, declared: Field) -> tuple[float, str]:
    """Return a number if it is in its range, else what is wrong with it."""
    whole = declared.type != "count" or value == math.floor(value) if math.isfinite(value) else False
    if not (declared.low <= value <= declared.high):
        return math.nan, not_allowed(declared, cell, "is outside its range")
    return (value, "") if whole else (math.nan, not_allowed(declared, cell, "is not whole"))


def not_allowed(declared: Field, cell: Any, what: str) -> Refusal:
    """Return what is wrong with a number of a cell, and what the field allows."""
    return refused(declared.name, cell, f"{what}; give {declared.allowed}", NOT_ALLOWED).refusal


def _with_unit(cell: str, declared: Field) -> tuple[float, str, str]:
    """Return a number with a unit in the unit of its field, and what is wrong with it."""
    try:
        return *in_range(float(units.si(cell, declared.unit)), cell, declared), ""
    except (ValueError, TypeError) as problem:
        return math.nan, f"{declared.name} = {shown(cell)}: {str(problem)[:100]}", ""


def truth(cell: str) -> float | None:
    """Return 1 for yes, 0 for no, NaN where not stated, None where the words say neither."""
    if is_blank(cell):
        return math.nan
    # Yes and no in a column of numbers with blanks: 1.0 and 0.0.
    cell = cell.strip().removesuffix(".0")
    truths = {
        word in TRUE for word in re.split(r"[\s,;()/]+", cell.strip().casefold()) if word in TRUE or word in FALSE
    }
    first = re.split(r"[\s,;(]+", cell.strip().casefold())[0]
    return float(first in TRUE) if len(truths) == 1 and (first in TRUE or first in FALSE) else None


def gated(cell: str) -> float | None:
    """Return the same for a gated feed-forward layer, whose activation may be named."""
    word = meaning("gated_mlp", cell)
    return float(word == "yes") if word else truth(cell)


def precision(cell: str) -> str:
    """Return the number format of the matrix products, as in ``number_formats``; "" where the words name none.

    >>> [precision(cell) for cell in ("mxfp8", "bf16 (not stated)", "nvfp4", "single", "bananas")]
    ['fp8', 'bf16', 'fp4', 'fp32', '']
    """
    return meaning("precision", cell)


def recompute(cell: str, modules: str = "") -> tuple[str, str]:
    """Return activation recomputation in its typed spelling, and what is wrong with the words.

    >>> recompute("full (every layer)"), recompute("selective"), recompute("16 of 40 layers"), recompute("partial")
    (('full', ''), ('selective', ''), ('0.4', ''), ('', ''))
    """
    if modules:
        word = meaning("recompute_modules", modules)
        return (word, "") if word else _modules(modules)
    text = cell.casefold().strip()
    stated = meaning("recompute", text)
    if not text or NOT_STATED.fullmatch(text) or stated == "unstated":
        return "", ""
    if stated:
        return stated, ""
    if "modules" in text:
        return _modules(text.split("modules", 1)[1].strip(": "))
    word = meaning("recompute_kept", text) or ("full" if SHARE_FORMS.search(text) else "")
    if not word:
        return "", f"recompute = {shown(cell)} is not known; write none, selective, full, or a share such as 40 %"
    share = _share(text)
    if share is None and mentions("recompute_share", text):
        return "", ""
    if share in (None, 1.0):
        return word, ""
    return (repr(share) if word == "full" else f"{share!r}*{word}"), ""


def _modules(text: str) -> tuple[str, str]:
    """Return recomputed modules in their typed spelling, and what is wrong with the words."""
    named = [name for name in re.split(r"[+,;\s]+", text.casefold()) if name]
    unknown = [name for name in named if name not in MODULES]
    if unknown or not named:
        return "", f"recompute modules {shown(text)}: take of {', '.join(MODULES)}"
    return "+".join(named), ""


def _share(text: str) -> float | None:
    """Return the share of layers that a text names: 40 %, 0.4 or 16 of 40 layers; None where it names none."""
    share, count = SHARE.search(text), COUNT.search(text)
    if count and float(count[2]) > 0:
        return min(float(count[1]) / float(count[2]), 1.0)
    return min(float(share[1]) / 100 if share[1] else float(share[2]), 1.0) if share else None


def zero_stage(cell: str) -> tuple[float, float, str]:
    """Return ZeRO stage, the devices that share one copy (NaN: all replicas; -1: those of one node), and the problem.

    >>> zero_stage("FSDP FULL_SHARD (ZeRO-3)"), zero_stage("FSDP (shard group 64)"), zero_stage("zero 3")
    ((3.0, nan, ''), (3.0, 64.0, ''), (3.0, nan, ''))
    """
    text = cell.casefold().strip()
    if is_blank(text):
        return (math.nan, math.nan, "")
    word = meaning("zero", text)
    if word == "fsdp":
        group = re.search(r"shard group (\d+)|fsdp (\d+)", text)
        inner = -1.0 if mentions("shard", text) else math.nan
        size = float(group[1] or group[2]) if group else inner
        stage = float(meaning("zero_of_fsdp", text) or 3)
        return (0.0, math.nan, "") if size == 1 else (stage, size, "")
    match = re.search(r"zero[\s_-]*(?:stage[\s_-]*)?(\d)|stage[\s_-]*(\d)|^(\d)(?:\.0*$|(?![\d.]*\d))", text)
    stage = float(next(filter(None, match.groups()))) if match else math.nan
    if stage in (0, 1, 2, 3):
        return stage, math.nan, ""
    if word:
        return float(word), math.nan, ""
    return math.nan, math.nan, f"zero = {shown(cell)} is not known; write 0, 1, 2, 3, or FSDP"


def attention(cell: str) -> tuple[str, float, str]:
    """Return the attention kernel in its typed word, whether norms are one kernel, and what is wrong with the words.

    >>> attention("flash_attention2 + RMS kernel")[:2], attention("no flash (fused softmax)")[0], attention("torch")[0]
    (('flash2', 1.0), 'fused-softmax', 'eager')
    """
    text = re.sub(r"[^a-z0-9]+", " ", cell.casefold()).strip()
    if is_blank(text) or is_blank(cell) or cell.strip().isdigit():
        return "", math.nan, ""
    norm = 1.0 if mentions("fused_norm", text) else math.nan
    bare = without("attention_aside", text).strip()
    word = meaning("attention", re.sub(r"\battn\b", "attention", text))
    word = "eager" if meaning("attention", bare) == "eager" else word
    spelt = "write flash1, flash2, flash3, fused-softmax or eager"
    if word == "contradiction":
        return "", math.nan, f"attention = {shown(cell)} says two things; {spelt}"
    return word, norm if word else math.nan, "" if word else f"attention = {shown(cell)} is not known; {spelt}"


def adapted(cell: str, model: str) -> str:
    """Return adapters that the name of a model states, "" where it states none or the cell says what is trained itself.

    >>> adapted("finetune", "Llama 2 7B (QLoRA)"), adapted("full", "Llama 2 7B (LoRA)"), adapted("", "Flora")
    ('qlora', '', '')
    """
    return "" if mentions("fine_tuning_stated", cell) else meaning("model_adapters", model)


def adapters(cell: str, notes: str = "") -> tuple[float, str]:
    """Return the rank of low-rank adapters (NaN where not stated), and the matrices that they adapt ("" likewise).

    >>> adapters("q_proj,v_proj", "LoRA, r=8"), adapters("", "rank 64 on all linear layers")
    ((8.0, 'attention'), (64.0, 'all linear'))
    """
    text = f"{cell}; {notes}".casefold()
    rank = re.search(r"\brank\s*(?:of|=|:)?\s*(\d+)|\blora_r(?:ank)?\s*[=:]\s*(\d+)|\br\s*=\s*(\d+)", text)
    number = float(next(filter(None, rank.groups()))) if rank else math.nan
    noted, listed = meaning("target_modules_noted", text), meaning("target_modules", cell)
    # The first of them is the most that either says.
    return number, noted if noted.startswith("all linear") else listed or noted


def optimiser(cell: str) -> tuple[str, str]:
    """Return the optimiser in its typed word, and what was assumed where the words name no known one.

    >>> optimiser("paged AdamW 8bit")[0], optimiser("AdamW (fused)")[0], optimiser("Muon")
    ('adam-8bit', 'adam', ('', 'optimiser = Muon counts as adam'))
    """
    word = meaning("optimiser", cell)
    return word, "" if word or is_blank(cell) else f"optimiser = {cell[:60]} counts as adam"


def schedule(cell: str, notes: str = "") -> tuple[str, str]:
    """Return the pipeline schedule in its typed word ("" where none is named), and what is wrong with the words.

    >>> schedule("", "PP schedule v-half")[0], schedule("zbv")[0], schedule("1f1b-interleaved")[0]
    ('v-half', 'zb-v', '1f1b')
    """
    word = meaning("pipeline_schedule_noted", f"{cell}; {notes}") or meaning("pipeline_schedule", cell)
    if word or is_blank(cell):
        return word, ""
    return "", f"pipeline_schedule = {shown(cell)} is not known; write gpipe, 1f1b, interleaved, zero-bubble or zb-v"


def offload(cell: str) -> tuple[tuple[str, float], str]:
    """Return what is in host memory, in its typed word and the layers of which (NaN: all), and what is wrong with the
    words.

    >>> offload("activations of 40 layers"), offload("optimizer + params")
    ((('activations', 40.0), ''), (('optimiser and weights', nan), ''))
    """
    word = "none" if is_blank(cell) else meaning("offload", cell)
    if not word:
        choices = "no, optimiser, optimiser to drives, optimiser and weights, weights or activations"
        return ("", math.nan), f"offload = {shown(cell)} does not say what; write {choices}"
    if word != "activations" or not re.search(r"\d", cell):
        return (word, math.nan), ""
    layers = re.search(r"(?<![\d.,/])([1-9]\d*)(?: of \d+)?(?: \w+)? layers?\b", cell)
    if layers:
        return (word, float(layers[1])), ""
    return ("", math.nan), f"offload = {shown(cell)} does not say of how many layers; write activations of 40 layers"


def network(cell: str) -> tuple[float, bool, str]:
    """Return the network rate of a text [B/s], whether it is a node's (else one device's), and what is wrong with it.

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
    rates = [_one_network(part) for part in parts if not mentions("network_aside", part)] or [
        _one_network(part) for part in parts
    ]
    positive = [(rate if of_node else PORTS_OF_NODE * rate, rate, of_node) for rate, of_node in rates if rate > 0]
    if positive:
        _, rate, of_node = max(positive)
        return rate, of_node, ""
    if any(rate == 0 for rate, _ in rates):
        return math.nan, False, f"network = {shown(cell)} must be above 0"
    if re.match(r"\s*-", text) or not mentions("network_named", text):
        return math.nan, False, f"network = {shown(cell)} states no rate; write it as 200 Gb/s or 25 GB/s"
    return math.nan, False, ""


def _one_network(part: str) -> tuple[float, bool]:
    """Return the rate of one network [B/s], NaN where none is stated, and whether it is a node's."""
    text = part.casefold()
    byte, rate = BYTES.search(part), RATE.search(text)
    ports = PORTS.search(text, 0, rate.end() if rate else len(text))
    count = float(ports[1]) if ports else 0.0
    owner = meaning("network_of", text)
    of_node = owner == "node"
    if byte:
        big = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
        return (float(byte[1]) * big[byte[2]] if byte[1] else float(byte[3]) * big[byte[4]] / 8), True
    if rate:
        port_rate = float(rate[1]) / 8 * 1e9
        of_node = of_node or not SLOWEST_OWN < float(rate[1]) <= FASTEST_PORT
    else:
        key, _, port = meaning("network", text).partition("/")
        if not key:
            return math.nan, False
        port_rate, of_node = _network(key), port == "node"
    if owner == "device":
        return port_rate, False
    if count:
        return (port_rate, False) if count == PORTS_OF_NODE else (count * port_rate, True)
    return port_rate, of_node


@lru_cache(maxsize=16)
def _network(key: str) -> float:
    """Return the rate of a link of the table ``interconnects`` [B/s]."""
    rows = catalog.table("interconnects").set_index("key")
    return float(rows.loc[key, "bandwidth"])


def domain(cell: str) -> float:
    """Return the devices that the fast link joins, where the text states more than one node; else NaN.

    >>> domain("NVLink5 NVL72 domain (72 GPUs)"), domain("NVLink4/NVSwitch")
    (72.0, nan)
    """
    match = re.search(r"nvl(\d+)|\((\d+) gpus\)", cell.casefold())
    return float(match[1] or match[2]) if match else math.nan


def way(cell: str) -> tuple[str, str]:
    """Return the way in which requests arrive, in its typed word, and what is wrong with the words.

    >>> way("MLPerf Offline (v3.0, closed)"), way("")
    (('offline', ''), ('', ''))
    """
    if is_blank(cell):
        return "", ""
    declared = fields()["scenario"]
    text = re.sub(r"[\s-]+", "_", cell.strip().casefold())
    word = declared.choices.get(text) or meaning("scenario", text)
    return word, "" if word else f"scenario = {shown(cell)} is not known; write one of {declared.allowed}"


@lru_cache(maxsize=8)
def _patterns(kind: str) -> tuple[list[tuple[re.Pattern[str], str]], str]:
    """Return the patterns of software with their levels, and the level of software that is named but not listed."""
    rows = catalog.table("software_levels")
    rows = rows[rows["kind"] == kind]
    pairs = list(zip(rows["pattern"], rows["level"], strict=True))
    return [(re.compile(p, re.I), level) for p, level in pairs if p != ".*"], dict(pairs).get(".*", "")


@lru_cache(maxsize=65536)
def stack(kind: str, named: str, hints: str) -> str:
    """Return the level of the software stack that words name; "" where neither software nor other cells name any.

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
    """Return the product of the table ``software`` in the first cell; else the level at which all cells hint.

    `kind`: of prediction, as in the table ``software``; `cells`: the software, the notes, the way a model is asked,
    and the device.
    """
    named, notes, way, device = cells
    if is_product(kind, named) or not stack(kind, named, f"{notes}; {way}"):  # a device alone names no software
        return named if is_product(kind, named) else ""
    return stack(kind, named, f"{notes}; {device}; {way}")
