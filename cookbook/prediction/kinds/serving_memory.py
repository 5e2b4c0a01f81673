"""Reasons why a language model cannot be served, such as memory of devices, and what would do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.catalog import constant
from cookbook.catalog.refusals import Refusal
from cookbook.formulas.generation import Decoder, Group, cache_slots
from cookbook.prediction.kinds.constraints import BLANK_MODEL, with_reason
from cookbook.prediction.precision import stored_bytes
from cookbook.prediction.scenario import Coded, Scenario
from cookbook.units import human

if TYPE_CHECKING:
    from cookbook.prediction.kinds.generation import GenerationRows

WEIGHTS = "weights-too-large"
REQUEST_TOO_LONG = Refusal(
    "a request of {:,.0f} tokens is more than the keys and values that fit, {:,.0f} tokens; take tp = "
    "{:g} or a smaller kv_format",
    "cache-too-large",
    "tp",
)
NO_MEMORY_LEFT = Refusal(
    "weights of {} do not fit beside keys and values; give a larger tp, or a smaller weights_format", WEIGHTS, "tp"
)
NO_LENGTH = Refusal("input_len is blank: give the tokens of a prompt", "length-missing", "input_len")
NO_PROMPT = Refusal("input_len = 0: a prompt has 1 token or more", "length-zero", "input_len")
NO_ANSWER = Refusal("output_len = 0: an answer has 1 token or more", "length-zero", "output_len")
NO_LAYERS = Refusal(
    "the model is no language model whose layers are known: give its parameters", "network-unknown", "model"
)
TOO_MANY_SHARDS = Refusal("tp x pp = {:g} is more than devices = {:g}", "split-exceeds-devices", "tp")
TOO_FEW_CORES = Refusal(
    "tp x pp = {:g} is more than the {:g} cores of devices = {:g}, each of which is a shard",
    "split-exceeds-devices",
    "tp",
)
NO_EXPERTS = Refusal("ep = {:g}: the model has no experts; leave ep out", "no-experts", "ep")
TOO_FEW_EXPERTS = Refusal("ep = {:g} is more than experts = {:g}; give at most as many", "experts-not-divisible", "ep")
EP_NOT_MULTIPLE = Refusal(
    "ep = {:g} is no multiple of tp = {:g}, and tp none of ep: give one that is", "experts-not-divisible", "ep"
)
DEVICES_NOT_MULTIPLE = Refusal("devices = {:g} is not a multiple of ep x pp = {:g}", "split-not-devices", "devices")
CORES_NOT_MULTIPLE = Refusal(
    "the {:g} cores of devices = {:g} are not a multiple of ep x pp = {:g}", "split-not-devices", "devices"
)
NO_ACCEPTANCE = Refusal(
    "drafted = {:g} without acceptance: give the share of drafted tokens that is taken, 0 to 1",
    "fields-apart",
    "acceptance",
)
NO_DRAFT = Refusal(
    "acceptance = {:g} without drafted: give the tokens that are drafted for a step", "fields-apart", "drafted"
)
NO_QUEUE = Refusal(
    "request_rate = {:g}: requests that arrive are scenario = 'server'; leave one of both out",
    "fields-apart",
    "request_rate",
)
TOO_LONG = Refusal(
    "input_len + output_len = {:,.0f} tokens, but {} has positions for {:,.0f}; give fewer",
    "positions-exceeded",
    "input_len",
)
WITHOUT_ARRIVALS = ("offline", "decode", "prefill")
# Formats to try where weights do not fit.
SMALLER_FORMATS = ("fp8", "int4")


def refused(rows: GenerationRows, decoder: Decoder, group: Group, networks: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Return why weights, or one request, do not fit; "" where they do. `networks` gives those of some rows."""
    # A pass over prompts alone keeps nothing of them.
    over = (rows.fitting < 1) & (rows.fitting > 0) & (rows.prompt_only == 0)
    if not (over | (rows.fitting == 0)).any():
        return np.array("", dtype=object)
    share, why = constant("memory-served"), np.full(len(rows), "", dtype=object)
    if over.any():
        most = _longest(rows, decoder, group, share)
        why = with_reason(why, over, REQUEST_TOO_LONG, [rows.length + rows.answer, most, 2 * rows.shards])
    memory, have = share * rows.memory / rows.cores, rows.shards * rows.stages * rows.replicas
    weights = (rows.weight_bytes + rows.embedded_bytes) * rows.replicas + rows.expert_bytes
    large = np.flatnonzero(weights > memory * have)
    if not len(large):
        return why
    for at, network in zip(large, np.broadcast_to(networks(large), len(large)), strict=True):
        least = 2 ** math.ceil(math.log2(weights[at] / memory[at]))
        stored = network.ops.parameter_count * np.array([stored_bytes(name) for name in SMALLER_FORMATS])
        able = [name for name, size in zip(SMALLER_FORMATS, stored, strict=True) if size <= memory[at] * have[at]]
        smaller = f", or weights_format = {' or '.join(map(repr, able))}" if able else ""
        name = "ep" if rows.replicas[at] > 1 else "tp"
        words = (
            f"weights of {human(weights[at], 'B')} do not fit {have[at]:,.0f} × {human(memory[at], 'B')}; "
            f"give {name} = {least} or more{smaller}"
        )
        why[at] = Refusal(words, WEIGHTS, name, [least])
    return why


def _longest(rows: GenerationRows, decoder: Decoder, group: Group, share: float) -> np.ndarray:
    """Return the tokens of one request that fit beside the weights and the state that layers keep of it."""
    plain, copies = decoder._replace(windowed=0.0, state_bytes=0.0), np.maximum(rows.shards / rows.cache_heads, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # without a layer that attends, any number of tokens fits
        slots = cache_slots(1.0, decoder=plain, group=group, memory_share=share)
        slots = np.maximum(slots - rows.state_bytes / (rows.cache_bytes * copies), 0.0)
    more = np.maximum(slots - np.where(np.isfinite(rows.window), rows.window, 0.0), 0.0)
    return np.where(slots < rows.window, slots, rows.window + more / np.maximum(1 - rows.windowed, 1e-9))


def unserved(s: Scenario, v: Mapping[str, Any], devices: Coded, titles: np.ndarray) -> np.ndarray:
    """Return why rows cannot be answered, before memory is considered; `titles` are those of the models."""
    why = np.broadcast_to(np.asarray(s.why, dtype=object), (len(s),))
    why = np.where(why == "", np.broadcast_to(devices.each(lambda device: device.why, object), (len(s),)), why)
    prompt_only = v["first"] | v["prompt_only"]
    answer_tokens = np.where(v["prompt_only"], 0.0, v["answer"])
    more = v["given"] > v["devices"] * v["cores"]
    for bad, reason, *figures in (
        (s.words("model").where(lambda name: name == ""), BLANK_MODEL),
        ((s.number("input_len") < 1) & ~v["token"], NO_PROMPT),
        ((s.number("output_len") < 1) & ~prompt_only, NO_ANSWER),
        (more & (v["cores"] == 1), TOO_MANY_SHARDS, v["given"], v["devices"]),
        (more, TOO_FEW_CORES, v["given"], v["devices"] * v["cores"], v["devices"]),
        *_refused_experts(s.number("ep"), v),
        (prompt_only & v["lacks"], NO_LENGTH),
        ((v["drafted"] > 0) & np.isnan(s.number("acceptance")), NO_ACCEPTANCE, v["drafted"]),
        (~np.isnan(s.number("acceptance")) & ~(v["drafted"] > 0), NO_DRAFT, v["acceptance"]),
        (
            np.isfinite(v["request_rate"]) & s.words("scenario").where(lambda word: word in WITHOUT_ARRIVALS),
            NO_QUEUE,
            v["request_rate"],
        ),
        (v["length"] + answer_tokens > v["positions"], TOO_LONG, v["length"] + answer_tokens, titles, v["positions"]),
        (np.isnan(v["layers"]), NO_LAYERS),
    ):
        if np.any(bad):
            why = with_reason(why, bad, reason, figures)
    return why


def _refused_experts(ep: np.ndarray, v: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield where experts cannot be spread as stated, the reason, and its values."""
    apart = np.where(np.isnan(ep), 1.0, ep)
    wide, tall = np.maximum(apart, v["shards"]), np.minimum(apart, v["shards"])
    engine, have = wide * v["stages"], v["devices"] * v["cores"]
    yield (apart > 1) & (v["experts"] <= 1), NO_EXPERTS, apart
    yield (apart > 1) & (apart > v["experts"]), TOO_FEW_EXPERTS, apart, v["experts"]
    yield (apart > 1) & (wide % tall > 0), EP_NOT_MULTIPLE, apart, v["shards"]
    odd = (apart > v["shards"]) & ((engine > have) | (have % engine > 0))
    yield odd & (v["cores"] == 1), DEVICES_NOT_MULTIPLE, have, engine
    yield odd, CORES_NOT_MULTIPLE, have, v["devices"], engine
