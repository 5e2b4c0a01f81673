"""Static batches of language models from forward passes: one over the prompt, then one a token with a longer cache.

No constant is fitted to runs of language models: the passes are those of `forward`, and what they lack (cache, exchange
between devices) comes from figures of the table ``constants``. Queues are not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.performance import networks as formulas
from cookbook.prediction.constants import figure
from cookbook.prediction.neighbours import Runs
from cookbook.prediction.scenario import Coded, Rows, Scenario, together
from cookbook.prediction.terms import forward
from cookbook.prediction.terms.devices import SIZES
from cookbook.prediction.terms.layouts import told
from cookbook.prediction.terms.transformer import of_model, own_decoder
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

__all__ = ["CONSTANTS", "MEMORY_CONSTANTS", "TERMS", "memory_parts", "outcome", "parts", "resolve", "runs",
           "step_seconds", "tokens"]  # fmt: skip
CONSTANTS, MEMORY_CONSTANTS, TERMS = forward.CONSTANTS, forward.MEMORY_CONSTANTS, forward.TERMS
FASTER = ("peak", "vector_peak", "mem_bandwidth", "watts", "memory_bytes")
MORE = "tp x pp = {:g} is more than devices = {:g}"
NO_LENGTH = "input_len is blank: give the tokens of a prompt"


def resolve(scenario: Scenario) -> Rows:
    """Scenarios with their network, machine and engine, and the two passes that an answer is made of."""
    s, size = _known(scenario), len(scenario)
    length, answer = s.number("input_len"), s.number("output_len")
    way, delay = s.words("scenario"), s.words("delay_of")
    first = delay.where(lambda word: word == "first token")
    prompt_only = s.words("counts").where(lambda word: word == "prompt tokens") | way.where(lambda w: w == "prefill")
    one_token = delay.where(lambda word: word == "token") | way.where(lambda word: word == "decode")
    lacks = np.isnan(length)
    length = np.where(lacks, 0.0, length)
    answer = np.where(np.isnan(answer) | (answer < 1), 1.0, answer)
    each = together(s.words("model"), s.words("kv_format"))
    known = each.map(lambda pair: sizes(pair[0]))
    layers, width, kept, weights = (known.part(at) for at in range(4))
    kept = kept * each.each(lambda pair: stored_bytes(pair[1]) if pair[1] else 2.0)
    prompt, crowd = _pass(s, np.maximum(length, 1)), tuple[Any, ...]()
    full = way.where(lambda word: word in forward.FULL) & np.isnan(s.number("batch"))
    if np.any(full):
        batch = _in_flight(prompt, s.number("pp"), (length + answer) * kept, weights)
        s = replace(s, columns={**s.columns, "batch": np.where(full, batch, s.number("batch"))})
        prompt, crowd = _pass(s, np.maximum(length, 1)), (("batch", full, batch),)
    step = _pass(s, np.array(1.0))
    shards = np.where(np.isnan(s.number("tp")), 1.0, s.number("tp"))
    stages = np.where(np.isnan(s.number("pp")), 1.0, s.number("pp"))
    v = {
        "batch": prompt.batch, "devices": prompt.devices, "length": length, "answer": answer, "shards": shards,
        "steps": np.select([first | prompt_only, one_token], [0.0, 1.0], np.maximum(answer - 1, 0)),
        "with_prompt": np.where(one_token & ~first, 0.0, 1.0), "layers": layers, "width": width, "kept": kept,
        # Stages of a pipeline take turns where there is one batch; they hold more, and are no faster.
        "groups": np.maximum(prompt.devices * prompt.cores / (shards * stages), 1.0),
        "is_delay": delay.where(bool), "each_device": np.nan_to_num(s.number("each_device")),
        "link": prompt.ring_link,
    }  # fmt: skip
    per_request = s.words("counts").where(lambda word: word == "samples")
    v["counted"] = np.select([per_request, prompt_only, one_token],
                             [prompt.batch, prompt.batch * length, prompt.batch], prompt.batch * answer)  # fmt: skip
    why = prompt.why
    for bad, reason, *figures in (
        ((s.number("input_len") < 1) & ~one_token, "input_len = 0: a prompt has 1 token or more"),
        ((s.number("output_len") < 1) & ~(first | prompt_only), "output_len = 0: an answer has 1 token or more"),
        (shards * stages > prompt.devices * prompt.cores, MORE, shards * stages, prompt.devices),
        ((first | prompt_only) & (length < 1), NO_LENGTH),
        (np.isnan(kept * layers), "the model is no language model whose layers are known: give its parameters"),
    ):
        if np.any(bad):
            why = told(why, bad, reason, figures)
    full = {name: np.broadcast_to(np.asarray(value, dtype=float), (size,)) for name, value in v.items()}
    untold = np.isnan(s.number("output_len")) & ~(first | prompt_only)
    assumed = (*prompt.assumed, *crowd, ("output_len", untold, np.array(1.0)))
    return replace(prompt, values=full, why=why, assumed=assumed, inner=(prompt, step))


def _in_flight(prompt: Rows, stages: np.ndarray, kept: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Sequences of one replica at once where nobody states them and all that fit are there: what its memory keeps."""
    memory = prompt.memory_bytes * np.where(np.isnan(stages), 1.0, stages) / prompt.cores
    room = figure("memory-served") * memory - parameters * prompt.element_bytes
    return np.clip(np.floor(room / kept), 1.0, figure("sequences-in-flight"))


def _known(s: Scenario) -> Scenario:
    """The same with networks built from their parameters, where the zoo has none of that name."""
    named, total, active = s.words("model"), s.number("parameters"), s.number("active_parameters")
    if not np.any(named.where(lambda each: each == "") & ~np.isnan(total)):
        return s

    def column(numbers: np.ndarray) -> Coded:
        levels, codes = np.unique(numbers, return_inverse=True)
        return Coded(codes.reshape(np.shape(numbers)), tuple(levels.tolist()))

    both = together(named, column(total), column(active))
    model = both.map(lambda each: own_decoder(each[1], each[2]) if each[0] == "" and each[1] == each[1] else each[0])
    return replace(s, columns={**s.columns, "model": model})


def _pass(s: Scenario, tokens: np.ndarray) -> Rows:
    """One pass over that many tokens of each sequence, on all shards of a replica together."""
    asked = {**s.columns, "seq": tokens, "items": np.array(1.0), "delay": np.array(0.0),
             "scenario": s.words("scenario").map(lambda _: "static")}  # fmt: skip
    rows = forward.resolve(replace(s, kind=forward.KIND, columns=asked))
    # Weights may be stored in another format than factors are multiplied in.
    weights = s.words("weights_format").each(lambda word: stored_bytes(word) if word else np.nan)
    shards = np.where(np.isnan(s.number("tp")), 1.0, s.number("tp"))
    values = dict(rows.values)
    values["element_bytes"] = np.broadcast_to(np.where(np.isnan(weights), rows.element_bytes, weights), len(rows))
    sparse = s.words("model").map(experts)
    if any(each[0] > 0 for each in sparse.levels):
        # Of the experts only those are read that one of the tokens is sent to.
        part, chosen = sparse.part(0), sparse.part(1)
        idle = (1 - chosen) ** np.maximum(rows.batch * tokens, 1)
        values["element_bytes"] = values["element_bytes"] * (1 - part * idle)
    for name in FASTER:
        values[name] = values[name] * shards
    return replace(rows, values=values)


def parts(rows: Rows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None) -> dict[str, np.ndarray]:
    """Seconds of what is asked for (an answer, its first token, one token) by part."""
    prompt, step = (forward.parts(each, constants, terms) for each in rows.inner)
    seconds = [np.asarray(sum(part for name, part in each.items() if name != "waiting")) for each in (prompt, step)]
    moved = 2 * rows.batch * rows.width
    start = figure("message-start-shards")
    exchange = [
        formulas.shard_exchange_seconds(2 * rows.layers, moved * tokens, rows.shards, rows.link, start)
        for tokens in (np.maximum(rows.length, 1), 1.0)
    ]
    cached = rows.batch * (rows.length + rows.answer / 2) * rows.kept
    cache = cached / (rows.inner[0].mem_bandwidth * constants["memory_efficiency"])
    steps, once = rows.steps, rows.with_prompt
    return {"prompt": seconds[0] * once, "decode": seconds[1] * steps, "cache": cache * steps,
            "tensor_exchange": exchange[0] * once + exchange[1] * steps}  # fmt: skip


def step_seconds(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of what is asked for: the parts come one after the other."""
    return np.asarray(sum(parts.values()))


def outcome(rows: Rows, step_seconds: np.ndarray) -> np.ndarray:
    """Rate of what is counted, of all devices or of one; for delays, answers (or tokens) per second."""
    shared = np.where(rows.each_device > 0, rows.devices, 1.0)
    rate = rows.counted * rows.groups / step_seconds / shared
    return np.asarray(np.where(rows.is_delay > 0, 1 / step_seconds, rate))


def tokens(rows: Rows) -> np.ndarray:
    """Tokens counted in one answer of all replicas."""
    return np.asarray(rows.counted * rows.groups)


def runs(rows: Rows) -> Runs:
    """No measurements correct answers: engines were measured on other networks."""
    return forward.runs(rows.inner[0])


def memory_parts(rows: Rows, constants: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Device memory by part [B]: those of the pass over the prompt, and keys and values; and what a device has."""
    found, capacity = forward.memory_parts(rows.inner[0], constants)
    held = rows.batch * (rows.length + rows.answer) * rows.kept
    parts = {**found, "cache": held}
    return {name: part / rows.shards for name, part in parts.items()}, capacity / rows.shards


@lru_cache(maxsize=256)
def stored_bytes(name: str) -> float:
    """Bytes of one stored number by the name of its format; NaN where none is known.

    >>> stored_bytes("fp8"), stored_bytes("int4")
    (1.0, 0.5)
    """
    if name in SIZES:
        return SIZES[name]
    rows = catalog.table("constants").set_index("name")["value"]
    key = f"bytes-{name}"
    if key in rows:
        return float(rows[key])
    digits = "".join(each if each.isdigit() else " " for each in name).split()
    bits = next((float(each) for each in digits if each in ("4", "8", "16", "32")), float("nan"))
    return bits / 8


@lru_cache(maxsize=512)
def experts(model: str | Workload) -> tuple[float, float]:
    """Part of a decoder's parameters that its experts hold, and part of the experts that one token is sent to."""
    known = of_model(model) if model else {}
    if not known.get("experts_per_token"):
        return 0.0, 1.0
    each = (2 + known["gated"]) * known["hidden"] * known["moe_ffn_hidden"]
    held = (known["layers"] - known["dense_layers"]) * known["experts"] * each
    return min(held / sizes(model)[3], 1.0), known["experts_per_token"] / known["experts"]


@lru_cache(maxsize=512)
def sizes(model: str | Workload) -> tuple[float, float, float, float]:
    """Layers, width, elements of keys and values that a decoder keeps for one token, and parameters."""
    network = zoo.model(model) if isinstance(model, str) and model else model
    if network == "":
        return (np.nan,) * 4
    given = network.arguments
    if not of_model(network if not isinstance(model, str) else model):
        return (np.nan,) * 4
    layers, width, heads = (float(given.get(each, np.nan)) for each in ("depth", "width", "heads"))
    head = float(given.get("head_dim") or width / heads)
    pairs = float(given.get("kv_heads") or heads)
    return layers, width, 2 * layers * pairs * head, float(network.ops.parameter_count)
