"""Which network, input and count the words of a row mean: spoken names of models, inputs, units and metrics."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cookbook import catalog
from cookbook.catalog.names import index, normalise, stems
from cookbook.catalog.refusals import Refusal, refused
from cookbook.prediction.kinds.constraints import BLANK_MODEL
from cookbook.prediction.parsing import words
from cookbook.prediction.parsing.vocabulary import alternatives, meaning, mentions, without
from cookbook.prediction.scenario import fields
from cookbook.units import shown
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

LENGTH = re.compile(r"seq(?:uence)?[ _]?len(?:gth)?\D{0,3}(\d+)", re.I)
SQUARE = re.compile(r"^\s*(\d+)\s*x\s*(\d+)\s*x\s*3\b", re.I)
SIZE = re.compile(r"^\s*(\d+)\s*x\s*(\d+)\s*$")
MAX_SPELLINGS = 64
# Formats that the name of a checkpoint states for its weights, and for keys and values.
STORED = re.compile(
    r"(?<![a-z0-9])(awq|gptq|marlin|nf4|int[48]|[48][\s_-]?bit|w[48]a(?:4|8|16)|nvfp4|mxfp4|fp4|fp8|f16|fp16|bf16|fp32"
    r"|i?q\d(?:[_-](?:0|1|k|s|m|l|xs|nl|xxs))+)(?![a-z0-9])",
    re.I,
)
CACHED = re.compile(r"(?<![a-z0-9])(?:(fp8|int8|int4|fp4)[\s_-]?kv|kv[\s_-]?(fp8|int8|int4|fp4))(?![a-z0-9])", re.I)
BILLIONS = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)\s*b(?![a-z0-9])", re.I)
MIXTURE = re.compile(r"(\d+)\s*x\s*(\d+(?:\.\d+)?)\s*b(?![a-z0-9])", re.I)
ACTIVE = re.compile(r"(?<![a-z0-9])a(\d+(?:\.\d+)?)b(?![a-z0-9])", re.I)
# Experts that a token uses in mixtures named by number times size: Mixtral, arXiv:2401.04088, section 2.
EXPERTS_PER_TOKEN = 2
# What only rates of language models that answer count.
ANSWER_COUNTS = ("output tokens", "prompt tokens", "all tokens")


@dataclass(frozen=True)
class Input:
    """The meaning of the words about model, input and unit of a row."""

    name: str | Workload = ""
    arguments: str = ""
    seq: float = math.nan
    items: float = 1.0
    in_items: float = 0.0
    served: bool = False
    why: str = ""
    assumed: str = ""
    length: float = math.nan
    answer: float = math.nan
    answered: str = ""
    parameters: float = math.nan
    active_parameters: float = math.nan
    lost: str = ""
    weights: str = ""
    cache: str = ""


# Of a network with states in a table that states its parameters, too.
BY_PARAMETERS = "layers that keep a state are taken as attention, in a decoder with the stated parameters"


@dataclass(frozen=True)
class NamedNetwork:
    """A network by a spoken name: its key, or the parameters that the name states."""

    key: str = ""
    parameters: float = math.nan
    active: float = math.nan
    assumed: str = ""
    why: str = ""


HYBRID = Refusal(
    "{} has layers that differ (some keep a state, or attend otherwise), which no tp, pp or ep is estimated for; "
    "kind = training_classic answers with data parallelism",
    "network-not-split",
    "model",
)


@lru_cache(maxsize=1)
def builders() -> dict[str, str]:
    """Return the builder of each network of the zoo."""
    return dict(catalog.table("models")[["name", "builder"]].itertuples(index=False))


def divided(name: NamedNetwork, counted: bool = False) -> tuple[str, str]:
    """Return a language model that parallelism configurations split, "" for other networks; and why a hybrid is none.

    `counted`: whether the parameters are stated beside the name; then a hybrid is taken as a decoder with this number.
    """
    builder = builders().get(name.key, "")
    why = HYBRID.filled(name.key) if builder == zoo.HYBRID and not counted else ""
    return name.key if builder in zoo.LANGUAGE_MODELS else "", why


@lru_cache(maxsize=65536)
def spoken(cell: str) -> NamedNetwork:
    """Return a network by any name that people use.

    >>> spoken("vgg_a (vgg11)").key, spoken("Llama 2 7B chat").key, spoken("Foo-72B-Instruct").parameters
    ('vgg11', 'llama2_7b', 72000000000.0)
    """
    if words.is_blank(cell):
        return NamedNetwork(why=BLANK_MODEL)
    keys = index("models", catalog.data_directory())
    text = cell[:200]
    tried = _spellings(text)
    for at, name in enumerate(tried):
        key = keys.get(normalise(name))
        if key:
            return NamedNetwork(key, assumed="" if not at else f"model {shown(cell)} = {key}")
    mixture, billions, active = MIXTURE.search(text), BILLIONS.search(text), ACTIVE.search(text)
    if mixture:
        number, size = float(mixture[1]), float(mixture[2]) * 1e9
        # Experts are most of each such model; attention, a third of a dense layer, is shared.
        total, used = size * (1 + (number - 1) * 2 / 3), size * (1 + (EXPERTS_PER_TOKEN - 1) * 2 / 3)
        return NamedNetwork("", total, used, f"model {shown(cell)} = a mixture of {total / 1e9:.3g} B parameters")
    if billions:
        total = float(billions[1]) * 1e9
        used = float(active[1]) * 1e9 if active else math.nan
        return NamedNetwork("", total, used, f"model {shown(cell)} = {total / 1e9:.3g} B parameters")
    try:
        catalog.lookup("models", text)
    except catalog.UnknownName as unknown:
        return NamedNetwork(why=unknown.refusal)
    return NamedNetwork(why=Refusal(f"model {shown(cell)} is not known", "network-unknown", "model"))


def _spellings(text: str) -> list[str]:
    """Return a name as written, then without owner, brackets and suffixes; the contents of brackets last."""
    plain = text.strip()
    tried, inside = stems(plain), re.findall(r"\(([^()]+)\)", plain)
    for name in tried:  # which grows by what is left of each
        cut = _suffixes().sub("", name).strip(" _-.:/")
        if cut and len(tried) < MAX_SPELLINGS:
            tried += [name for name in stems(cut) if name not in tried]
    return list(dict.fromkeys([*tried, *inside]))


@lru_cache(maxsize=1)
def _suffixes() -> re.Pattern[str]:
    """Return the pattern of the words behind a name."""
    return re.compile(rf"[\s_\-.:/]*(?:{alternatives('model_suffix')})$", re.I)


@lru_cache(maxsize=4096)
def unit_of(unit: str) -> tuple[str, str]:
    """Return what a rate counts, "samples" or "parts" of them, and what is wrong with the unit.

    >>> unit_of("seq/s"), unit_of("tokens/sec"), unit_of("images per second")[0]
    (('samples', ''), ('parts', ''), 'samples')
    """
    text = unit.strip().casefold()
    text = meaning("rate_short", text) or text
    text = re.sub(r"\s*(/|per)\s*(s|sec|secs|second|seconds)\b.*$", "/s", text)
    if not text:
        return "samples", ""
    counted = meaning("unit", text[:-2].strip().replace(" ", "_")) if text.endswith("/s") else ""
    if counted:
        return counted, ""
    return "", f"unit = {shown(unit)} is not known; write samples/s, images/s, sequences/s or tokens/s"


@lru_cache(maxsize=65536)
def trained(model: str, task_input: str, unit: str) -> Input:
    """Return the network of a row of classic training, and the number of counted items in one sample.

    >>> trained("BERT large pretrain phase1", "seq_len 128", "tokens/s").items
    128.0
    """
    named = spoken(model)
    if not named.key:
        what = "is no network of the zoo; training_transformer takes parameters alone"
        return Input(why=named.why or refused("model", model, what, "network-unknown").refusal)
    network = zoo.model(named.key)
    row = _input_row(network.name, task_input)
    arguments, seq = str(row.get("arguments", "") or ""), row.get("seq", math.nan)
    length, square = LENGTH.search(task_input), SQUARE.search(task_input)
    if not math.isfinite(seq):
        seq = float(length[1]) if length else network.seq if network.seq else math.nan
    if not arguments and square and square[1] == square[2]:
        arguments = square_image(network.name, int(square[1]))
    counted, why = unit_of(unit)
    if unit.strip().casefold() == "frames/s":
        counted = "parts"
    fixed, per_position = row.get("items", math.nan), row.get("items_per_position", math.nan)
    parts = fixed if math.isfinite(fixed) else seq * (per_position if math.isfinite(per_position) else 1.0)
    items = 1.0 if counted == "samples" else parts
    if not why and not (math.isfinite(items) and items > 0):
        why = f"unit {shown(unit)} cannot be counted for {network.title}"
    if math.isfinite(seq) and seq < 1:
        why = f"sequence length {seq:g} in {shown(task_input)} must be 1 or more"
    seq = seq if network.ops.needs_seq or math.isfinite(seq) else math.nan
    return Input(
        network.name, arguments, seq, items, float(row.get("batch_in_items") == "yes"), False, why, named.assumed
    )


def _input_row(name: str, task_input: str) -> dict[str, Any]:
    """Return the row of ``classic_inputs`` whose pattern fits an input; empty without one."""
    rows = catalog.table("classic_inputs")
    for row in rows[rows["model"] == name].to_dict("records"):
        if re.search(row["pattern"], task_input, re.I):
            return row
    return {}


@lru_cache(maxsize=1024)
def square_image(name: str, side: int) -> str:
    """Return changed arguments that give a network square images of that side; none where it takes no such images."""
    kinds = set(zoo.model(name).ops.kind.tolist())
    for value in (side, [side, side]):
        try:
            # Images would turn a network of volumes into another one.
            if 0 < side <= 16384 and set(zoo.model(name, image=value).ops.kind.tolist()) == kinds:
                return json.dumps({"image": value})
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            continue
    return ""


@dataclass(frozen=True)
class Metric:
    """The meaning of the metric of a row of inference.

    Attributes
    ----------
    counts : str
        "samples", "tokens", "output tokens", "prompt tokens" or "all tokens" (of prompts and answers) of a rate; "" for
        a delay.
    delay : str
        "pass", "first token" or "token"; "" for a rate.
    seconds : float
        Seconds in the unit of a delay [s]; NaN for a rate.
    each_device : bool
        Whether the rate is that of one device.
    why : str
        What is wrong with the words.
    """

    counts: str = ""
    delay: str = ""
    seconds: float = math.nan
    each_device: bool = False
    why: str = ""


@lru_cache(maxsize=4096)
def metric_of(metric: str) -> Metric:
    """Return what the words of a metric ask for.

    >>> metric_of("TTFT s").seconds, metric_of("ITL ms").delay, metric_of("output tokens/s/GPU").counts
    (1.0, 'token', 'output tokens')
    """
    text = metric.strip().casefold()
    text = meaning("rate_short", text) or text
    each_device = mentions("rate_of", text)
    if "/s" in text or "per sec" in text or "/ s" in text:
        plain = without("rate_of", text)
        tokens = meaning("rate", plain)
        if tokens:
            return Metric(tokens, each_device=each_device)
        counted, why = unit_of(without("rate_head", plain))
        return Metric(
            "tokens" if counted == "parts" else counted, each_device=each_device, why=why.replace("unit", "metric", 1)
        )
    delay = meaning("delay", text) or ("pass" if mentions("seconds", text) else "")
    if delay:
        named = [float(second) for word in re.findall(r"[a-zµμ]+", text) if (second := meaning("seconds", word))]
        return Metric("", delay, named[-1] if named else 1.0, each_device)
    if not text:
        return Metric("samples")
    return Metric(
        why=f"metric = {shown(metric)} is not known; write images/s, samples/s, tokens/s, latency ms, TTFT ms ..."
    )


def stored(cell: str, field: str = "weights_format") -> str:
    """Return the format of stored numbers that a cell states, in the word of the schema; "" where it states none.

    >>> stored("AWQ"), stored("Q4-K-M"), stored("int8,fp16"), stored("auto")
    ('int4', 'q4_k_m', 'int8', '')
    """
    formats = fields()[field].choices
    text = cell.strip().casefold()
    parts = [text, *re.split(r"[\s,;+/()]+", text)]
    spelt = (part.replace("-", joint) for part in parts for joint in ("_", ""))
    return next((formats[part] for part in spelt if part in formats), "")


@lru_cache(maxsize=65536)
def checkpoint(model: str) -> tuple[str, str]:
    """Return the formats of weights and of keys and values that the name of a checkpoint states.

    >>> checkpoint("Qwen2.5-72B-Instruct-AWQ"), checkpoint("Llama-3.1-70B-Instruct-FP8-KV"), checkpoint("Llama 3 8B")
    (('int4', ''), ('fp8', 'fp8'), ('', ''))
    """
    weights, cache = STORED.search(model), CACHED.search(model)
    cached = (cache[1] or cache[2]).casefold() if cache else ""
    return stored(re.sub(r"[\s]", "", weights[1])) if weights else cached, cached


@lru_cache(maxsize=65536)
def served(model: str, length: str, metric: str, scenario: str = "") -> Input:
    """Return the network of a row of inference, and the number of counted items in one sample.

    >>> served("BERT-Large", "384", "samples/s").seq, served("ssd-resnet34", "1200x1200", "samples/s").name
    (384.0, 'ssd1200_resnet34')
    """
    row = input_row(model, length, scenario)
    if row.get("care") == "refused":
        return Input(why=Refusal(f"{shown(model)}: {row['note']}", "network-not-one-pass", "model"))
    spoken_name, quantity = spoken(str(row.get("model") or model)), metric_of(metric)
    image = SIZE.match(length)
    stated, problem, note = (math.nan, "", "") if image else words.number(length, fields()["input_len"])
    answer, answered = words.answer_of(length)
    weights, cache = checkpoint(model)
    if not spoken_name.key:
        named = math.isfinite(spoken_name.parameters)
        if not (named or quantity.counts in (*ANSWER_COUNTS, "tokens") or quantity.delay in ("first token", "token")):
            return Input(why=spoken_name.why)
        return Input(
            served=True,
            why=quantity.why or problem,
            assumed="; ".join(filter(None, [spoken_name.assumed if named else "", note])),
            length=stated,
            answer=answer,
            answered=answered,
            parameters=spoken_name.parameters,
            active_parameters=spoken_name.active,
            lost="" if named else spoken_name.why,
            weights=weights,
            cache=cache,
        )
    network = zoo.model(spoken_name.key)
    language = builders().get(network.name, "") in zoo.ANSWERING
    tokens = quantity.counts in ANSWER_COUNTS or quantity.delay in ("first token", "token")
    arguments, seq = str(row.get("arguments") or ""), row.get("seq", math.nan)
    if network.ops.needs_seq and not math.isfinite(seq):
        seq = stated if stated >= 1 else network.seq or math.nan
    if image and not arguments and image[1] == image[2]:
        arguments = square_image(network.name, int(image[1]))
    items = row.get("items", math.nan)
    if not math.isfinite(items):
        items = 1.0 if quantity.counts in ("samples", "") else seq
    problem = problem if network.ops.needs_seq else ""
    if language and image:
        problem = (
            f"input_len = {shown(length)} is no number of tokens, which model = {network.name} takes; give 0 to 1e+08"
        )
    result = Input(
        network.name,
        arguments,
        seq,
        items,
        0.0,
        language or tokens,
        quantity.why or problem,
        "; ".join(filter(None, [spoken_name.assumed, note])),
        stated,
        answer,
        answered,
        weights=weights,
        cache=cache,
    )
    if not quantity.why and not result.served and not (math.isfinite(items) and items > 0):
        return replace(result, why=f"metric {shown(metric)} cannot be counted for {network.title}")
    if tokens and not language:
        return replace(result, why=f"metric {shown(metric)}: {network.title} does not answer token by token")
    return result


@lru_cache(maxsize=1)
def _input_rows() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    rows = catalog.table("inference_inputs").to_dict("records")
    return [(re.compile(row["pattern"], re.I), {str(name): value for name, value in row.items()}) for row in rows]


@lru_cache(maxsize=65536)
def input_row(model: str, length: str, scenario: str = "") -> dict[str, Any]:
    """Return the row of ``inference_inputs`` that adds to the zoo about a printed name; empty without one."""
    text = f"{model[:200]}; {length[:50]}; {scenario[:50]}"
    return next((row for pattern, row in _input_rows() if pattern.search(text)), {})
