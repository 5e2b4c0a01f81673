"""Static batches of language models from forward passes: one over the prompt, then one a token with a longer cache.

No constant is fitted to runs of language models: the passes are those of `inference`, and what they lack (cache,
exchange between devices) comes from figures of the table ``constants``. Queues are not modelled.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.performance import inference as formulas
from cookbook.prediction import classic_rows, inference, inference_rows
from cookbook.prediction import transformer_text as words
from cookbook.prediction.constants import NEW_ENGINE, SEEN, SIBLING, figure
from cookbook.prediction.step import Prepared, prepare
from cookbook.workloads import zoo

KIND = "inference"
# What is counted: time to the first token, of one token, of a prompt; else tokens of the whole answer.
FIRST, EACH, PROMPT = re.compile(r"ttft|first token", re.I), re.compile(r"tpot|per output token", re.I), "prefill"


def answers(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Point and intervals of each row in its metric; NaN where `why` says what is missing.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of the table ``inference`` about language models.
    """
    length, answer = words.numbers(frame, "input_len"), words.numbers(frame, "output_len")
    metric, scenario = words.texts(frame, "metric"), words.texts(frame, "scenario")
    first = np.array([bool(FIRST.search(each)) for each in metric], dtype=bool)
    prompt_only = np.array([PROMPT in each for each in map(" ".join, zip(metric, scenario, strict=True))], dtype=bool)
    one_token = np.array([bool(EACH.search(each)) for each in metric]) | np.isin(scenario, ("decode",))
    answer = np.where(np.isnan(answer) | (answer < 1), 1.0, answer)
    length = np.where(np.isnan(length), 0.0, length)
    prompt, why, prepared, shards = _pass(frame, np.maximum(length, 1))
    step, *_ = _pass(frame, np.ones(len(frame)))
    batch = prepared.scenarios.batch
    step = step + _cache_seconds(frame, prepared, batch * (length + answer / 2), shards)
    steps = np.select([first | prompt_only, one_token], [0.0, 1.0], np.maximum(answer - 1, 0))
    with_prompt = np.where(one_token & ~first, 0.0, 1.0)
    seconds = formulas.generation_seconds(prompt, step, steps, with_prompt)
    tokens = np.select([prompt_only, one_token], [batch * length, batch], batch * answer)
    devices = prepared.scenarios.devices
    # Stages of a pipeline take turns where there is one batch; they hold more, and are no faster.
    stages = np.maximum(np.nan_to_num(words.numbers(frame, "pp"), nan=1.0), 1.0)
    groups = np.maximum(devices * prepared.scenarios.cores / (shards * stages), 1.0)
    each_device = np.array([bool(inference_rows.EACH_DEVICE.search(each)) for each in metric], dtype=bool)
    shared = np.where(each_device, devices, 1.0)
    scale = np.array([inference.seconds_of(each) for each in metric], dtype=float)
    delay = np.isfinite(scale) | first | one_token & np.array(["ms" in each for each in metric])
    rate = tokens * groups / seconds / shared
    point = np.where(delay, seconds / np.nan_to_num(scale, nan=1e-3), rate)
    found = {"predicted": point}
    for level in (80, 90):
        factor = figure(f"generation-interval-{level}")
        found |= {f"low{level}": point / factor, f"high{level}": point * factor}
    bad = ~np.isfinite(point) | (why != "")
    found = {name: np.where(bad, np.nan, value) for name, value in found.items()}
    why = np.where(bad & (why == ""), "the formulas give no finite time for this row: check its sizes", why)
    # Engines were measured on other networks only.
    tier = np.where(np.isin(prepared.tier, (SEEN, SIBLING)), NEW_ENGINE, prepared.tier)
    return found | {"tier": np.where(bad, "", tier), "why": why}


def _pass(frame: pd.DataFrame, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, Prepared, np.ndarray]:
    """Seconds of one pass over that many tokens of each sequence, on all shards of a replica together."""
    asked = frame.assign(input_len=[f"{each:.0f}" for each in tokens], metric="samples/s", scenario="static")
    parts = [each.split("/") for each in words.texts(frame, "precision")]
    # Factors are multiplied in the format of the activations, whatever the weights are stored in.
    wider = [cells[1] if len(cells) > 1 else cells[0] for cells in parts]
    asked = asked.assign(precision=wider, number_format="")
    made = inference_rows.scenarios(asked, served=True)
    weights = np.array([_weight_bytes(cells[0]) for cells in parts])
    shards = np.maximum(np.nan_to_num(words.numbers(frame, "tp"), nan=1.0), 1.0)
    made.values["element_bytes"] = np.where(np.isnan(weights), made.element_bytes, weights)
    for name in ("peak", "vector_peak", "mem_bandwidth", "watts", "memory_bytes"):
        made.values[name] = made.values[name] * shards
    prepared = prepare(KIND, made)
    found = inference.parts(made, prepared.constants)
    seconds = np.asarray(sum(part for name, part in found.items() if name != "waiting"))
    layers, width = np.array([_sizes(each)[:2] for each in words.texts(frame, "model")], dtype=float).T
    moved = 2 * made.batch * tokens * width
    links = np.array([_link(key) for key in made.tier_keys["accelerator"]], dtype=float)
    exchange = formulas.shard_exchange_seconds(2 * layers, moved, shards, links, figure("message-start-shards"))
    return seconds + exchange, np.asarray(made.why, dtype=object), prepared, shards


def _cache_seconds(frame: pd.DataFrame, prepared: Prepared, tokens: np.ndarray, shards: np.ndarray) -> np.ndarray:
    """Seconds to read the keys and values of all tokens so far."""
    kept = np.array([_sizes(each)[2] for each in words.texts(frame, "model")], dtype=float)
    cells = [each.split("/") for each in words.texts(frame, "precision")]
    size = np.array([_weight_bytes(each[2]) if len(each) > 2 else 2.0 for each in cells])
    moved = tokens * kept * np.nan_to_num(size, nan=2.0)
    return moved / (prepared.scenarios.mem_bandwidth * prepared.constants["memory_efficiency"])


@lru_cache(maxsize=256)
def _weight_bytes(cell: str) -> float:
    """Bytes of one stored number; NaN where the words do not say."""
    text = cell.strip().casefold().replace("-", "_")
    rows = catalog.table("constants").set_index("name")["value"]
    if f"bytes-{text}" in rows:
        return float(rows[f"bytes-{text}"])
    digits = re.search(r"(4|8|16|32)", text)
    return int(digits.group(1)) / 8 if digits else float("nan")


@lru_cache(maxsize=512)
def _sizes(model: str) -> tuple[float, float, float]:
    """Layers, width, and elements of keys and values that a decoder of the zoo keeps for one token."""
    try:
        name = zoo.model(model).name
    except KeyError:
        return (np.nan,) * 3
    given = catalog.table("models").set_index("name").loc[name, "arguments"]
    sizes: dict[str, Any] = json.loads(given or "{}") if isinstance(given, str) else dict(given or {})
    layers, width, heads = (float(sizes.get(each, np.nan)) for each in ("depth", "width", "heads"))
    head = float(sizes.get("head_dim", width / heads))
    return layers, width, 2 * layers * float(sizes.get("kv_heads", heads)) * head


@lru_cache(maxsize=256)
def _link(key: str) -> float:
    return classic_rows.node_link(key, "") if key else np.nan
