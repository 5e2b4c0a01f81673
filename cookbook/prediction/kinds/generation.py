"""Language models that answer token by token: batches that run to their end, and requests that come and go.

The formulas are those of `cookbook.formulas.generation`; here rows get their model, devices and engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from cookbook import hardware
from cookbook.catalog import constant
from cookbook.catalog.refusals import Refusal
from cookbook.formulas.generation import (
    Decoder,
    Engine,
    Group,
    Steady,
    accepted_tokens,
    attended_tokens,
    cache_slots,
    decode_parts,
    open_service,
    prefill_parts,
    steady_service,
)
from cookbook.prediction.constants import (
    EXPERTS,
    FIRST_TOKEN,
    IN_FLIGHT,
    LOADED,
    Constant,
)
from cookbook.prediction.device_rates import RATE_KEYS, rates
from cookbook.prediction.kernels import IDEAL_KERNELS, of_kernels
from cookbook.prediction.kinds import serving_memory
from cookbook.prediction.kinds.constraints import with_reason
from cookbook.prediction.kinds.transformer import own_decoder, sizes
from cookbook.prediction.scenario import AT_ONCE, BEYOND, Coded, Rows, Scenario, step_seconds, together
from cookbook.prediction.software import assumed_software, engines, levels_of_rows, tiled, usual_formats
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

KIND = "generation"
CONSTANTS = (
    Constant("device_share", 0.85, 0.3, 1.2, "untimed", "", 0.15),
    Constant("compute_share", 0.6, 0.1, 1.0, "untimed", "", 0.4),
    Constant("engine_share", 0.85, 0.3, 1.0, "engine", "", 0.3),
    # Physics and micro-benchmarks say these: fitting them made publishers that were left out no better predicted.
    Constant("start_factor", 1.3, 0.3, 8.0, pull=0.0),
    Constant("narrow_share", 0.9, 0.4, 1.0, pull=0.0),
    # Of products in a step of decoding over those of a prompt; machines that were measured here have their own.
    Constant("decode_share", 0.95, 0.3, 1.0, pull=0.0),
    Constant("router_time", 2e-5, 2e-6, 2e-4, "", "s", pull=0.0),
    Constant("touches", 12.0, 3.0, 60.0, pull=0.0),
    Constant("engine_time", 1.0, 0.1, 10.0, pull=0.0),
)
CALIBRATED = {"engine_time": "host", "decode_share": "narrow"}
# Of the ideal, which starts no kernel and reads keys and values once; whatever else is a share of 1.
IDEAL = dict.fromkeys(("touches", "engine_time", "router_time", "start_factor"), 0.0)
TERMS = ("host", "cache", "queries", "experts", "attention", "exchange")
MEMORY_CONSTANTS: tuple[Constant, ...] = ()
DEVICE = ("peak", "wide_peak", "mem_bandwidth", "memory", "ring_link", "ring_network", "per_node", "cores")
# Requests come and go: the batch is how many are there at once.
QUEUED, OFFLINE = ("server",), ("offline",)
RATE_TOO_HIGH = Refusal(
    "request_rate = {:.3g} requests/s is above the capacity, {:.3g} requests/s: the queue grows without "
    "end; give fewer, or more devices",
    "load-above-capacity",
    "request_rate",
)
PREFILL_FIRST = "prefill first"
# Layers that keep a state have no constants of their own.
UNMEASURED = "read and written as fast as keys and values, worked on as fast as attention: no constants of their own"
# Formats of weights that products are in, too; those that not all devices have.
COMPUTED, BYTES = ("fp32", "bf16", "fp8", "int8"), ("fp8", "int8", "fp4")


class GenerationRows(Rows):
    """Answers of language models: prompts, and tokens one after the other."""

    # Network: what it stores and multiplies.
    weight_bytes: np.ndarray  # weights that every pass reads, the output layer among them [B]
    expert_bytes: np.ndarray  # weights of all routed experts; 0 without experts [B]
    embedded_bytes: np.ndarray  # weights that are looked up by row, not read as a whole [B]
    active: np.ndarray  # weights that one token is multiplied with, without the output layer [-]
    head: np.ndarray  # weights of the output layer [-]
    layers: np.ndarray  # layers, each of two branches; NaN: no language model whose layers are known [-]
    hidden: np.ndarray  # width of the network [-]
    heads: np.ndarray  # query heads of a layer [-]
    head_dim: np.ndarray  # width of a head; of latent attention the mean of keys and values [-]
    experts: np.ndarray  # experts of a layer; 1 without experts [-]
    experts_per_token: np.ndarray  # experts that one token uses; 1 without experts [-]
    cache_bytes: np.ndarray  # keys and values of one token in all layers [B]
    cache_heads: np.ndarray  # heads over which keys and values can be sharded; 1 for a latent cache [-]
    queries: np.ndarray  # query heads that read one such head separately; 1 for a latent cache [-]
    window: np.ndarray  # tokens in the sliding window; infinite without one [-]
    windowed: np.ndarray  # share of the layers that attend within the window; of unlike layers by their cache [-]
    windowed_scores: np.ndarray  # the same share by work on a score of attention; `windowed` where layers are alike [-]
    attending: np.ndarray  # share of the layers that attend; the others keep a state of fixed size [-]
    state_bytes: np.ndarray  # state of one sequence in all layers that keep one, whatever its length [B]
    state_flop: np.ndarray  # operations on that state for one token of a prompt [FLOP]
    positions: np.ndarray  # most tokens that learned positions allow; infinite where positions are computed [-]
    usual_length: np.ndarray  # tokens of the usual sequence of the network; infinite where not known [-]
    narrow: np.ndarray  # 1 where weights are stored in fewer bytes than the format of the products, else 0
    # Requests: lengths, how many there are, and drafts.
    length: np.ndarray  # tokens of a prompt; 0 where none is stated and requests are not served [-]
    answer: np.ndarray  # tokens of an answer [-]
    usual_prompt: np.ndarray  # tokens of a prompt of served requests that state none [-]
    usual_answer: np.ndarray  # tokens of an answer of served requests that state none [-]
    lacks: np.ndarray  # 1 where the tokens of a prompt are neither stated nor assumed, else 0
    batch: np.ndarray  # sequences of one copy of the weights at once, those that wait for a place included [-]
    request_rate: np.ndarray  # requests that arrive in all; infinite: all are there at once, NaN: not stated [1/s]
    cached: np.ndarray  # share of the tokens of prompts whose keys and values are kept from earlier requests [-]
    drafted: np.ndarray  # tokens that are drafted for a step, beside the one that it yields anyway [-]
    acceptance: np.ndarray  # share of drafted tokens that is taken; 0 without drafts [-]
    gained: np.ndarray  # mean tokens that one step yields for a sequence, 1 to `drafted` + 1 [-]
    # Requests: how they arrive.
    served: np.ndarray  # 1 where requests come and go (server, offline or a rate), 0 where a batch runs to its end
    queued: np.ndarray  # 1 for requests to a server, or at a rate, that is not `full`: all copies share them; else 0
    full: np.ndarray  # 1 where all places are taken: offline, all requests at once, or a server at its limit; else 0
    # Requests: what is asked for.
    first: np.ndarray  # 1 where the time to the first token is asked for, else 0
    token: np.ndarray  # 1 where the time of each further token, or decoding alone, is asked for, else 0
    prompt_only: np.ndarray  # 1 where prompts alone are read, or their tokens counted, else 0
    delayed: np.ndarray  # 1 where a delay is asked for, 0 for a rate
    requests: np.ndarray  # 1 where a rate counts requests, else 0
    every_token: np.ndarray  # 1 where a rate counts tokens of prompts and answers, else 0
    each_device: np.ndarray  # 1 where the rate is that of one device, 0 for all devices
    # Devices and their links.
    devices: np.ndarray  # devices in all [-]
    per_node: np.ndarray  # devices of a node [-]
    cores: np.ndarray  # cores of a device that are sharded over as devices of their own; usually 1 [-]
    peak: np.ndarray  # peak of a device in the format of the products [FLOP/s]
    wide_peak: np.ndarray  # peak of a device in 16 bits, in which attention is computed [FLOP/s]
    mem_bandwidth: np.ndarray  # memory bandwidth of a device [B/s]
    memory: np.ndarray  # memory of a device [B]
    ring_link: np.ndarray  # rate of a device that an all-reduce within its node reaches, one direction [B/s]
    ring_network: np.ndarray  # rate of a device that an all-reduce between nodes reaches, one direction [B/s]
    # Split of the network, in devices, or in cores where these are sharded over.
    given: np.ndarray  # stated shards times stated stages, 1 for what is not stated [-]
    shards: np.ndarray  # devices that share every layer (tensor parallelism) [-]
    stages: np.ndarray  # stages of the pipeline [-]
    spread: np.ndarray  # devices that whole experts are spread over (expert parallelism); 1: shards split each [-]
    replicas: np.ndarray  # groups of `shards` in one copy that attend to sequences of their own [-]
    groups: np.ndarray  # copies of the weights: devices in all over `shards` x `replicas` x `stages` [-]
    # Room for sequences in one copy of the weights.
    kept: np.ndarray  # tokens of a sequence that are cached, mean of the layers; of served ones on average in time [-]
    fitting: np.ndarray  # sequences whose cache fits beside the weights, not rounded; 0 where weights do not fit [-]
    most_sequences: np.ndarray  # limit of the engine in sequences at once, of all replicas; infinite without one [-]
    slots: np.ndarray  # sequences at once at most, by memory and engine; infinite where neither limits them [-]
    # Software.
    chunk: np.ndarray  # tokens of prompts that one pass takes at most, of all replicas; infinite without a limit [-]
    prefill_first: np.ndarray  # 1 where waiting prompts go before the next step, 0 where steps take chunks along
    piece: np.ndarray  # tokens of a prompt that stages of a pipeline pass on together; infinite: whole prompts [-]
    loaded: np.ndarray  # 1 for engines whose server is loaded to its limit where nobody states its load, else 0
    layer_time: np.ndarray  # time of the host for a layer of a step or pass, whose kernels it starts one by one [s]
    prompt_time: np.ndarray  # time of the host for a layer of a pass over prompts; shows where longer than the work [s]
    step_time: np.ndarray  # time of the host for a step [s]
    sequence_time: np.ndarray  # time of the host for each sequence of a step [s]
    request_time: np.ndarray  # time of a request before and after the engine: HTTP, tokeniser [s]
    query_cost: np.ndarray  # extra reading of keys and values for each further query head that shares them [-]
    score_bytes: np.ndarray  # bytes moved for each attention score of a prompt; 0 for fused kernels [B]
    tiled: np.ndarray  # 1 where experts multiply a few tokens in tiles, 0 row by row (engines for one user)
    # Kernels of the device.
    timed: np.ndarray  # 1 where kernels of the generation of the device were timed, else 0
    weight_share: np.ndarray  # share of the memory bandwidth at which products read weights [-]
    product_share: np.ndarray  # share of the peak that products reach [-]
    cache_share: np.ndarray  # share of the memory bandwidth at which keys and values are read [-]
    attention_share: np.ndarray  # share of `wide_peak` that attention over long prompts reaches [-]
    attention_ramp: np.ndarray  # tokens times heads of prompts at which attention reaches half of that share [-]
    layer_start: np.ndarray  # time in which the kernels of a layer start on the device [s]
    latent_start: np.ndarray  # further time of starts in a layer with latent attention [s]
    expert_start: np.ndarray  # further time of starts in a layer with experts [s]
    expert_pace: np.ndarray  # time of products of experts over that of other products [-]
    expert_reading: np.ndarray  # time in which weights of experts are read over that of other weights [-]
    expert_tile: np.ndarray  # tokens in a tile of the kernel of experts [-]
    expert_passes: np.ndarray  # times that rows of experts are read or written outside their products [-]
    sum_start: np.ndarray  # latency of one all-reduce over shards, without the part of each rank [s]
    sum_rank: np.ndarray  # latency that each shard beyond the first adds to it [s]
    sum_link: np.ndarray  # rate that an all-reduce of the engine reaches over `ring_link`; 1 without a fast link [-]


def resolve(scenario: Scenario) -> GenerationRows:
    """Return scenarios with their network, machine and engine; blanks filled."""
    s, size, assumed = _with_own_networks(scenario), len(scenario), list[tuple[str, Any, Any]]()
    makers = s.words("accelerator").map(lambda machine: machine.accelerator if machine else None)
    vendor, kind = (
        makers.map(lambda maker: getattr(maker, "vendor", "")),
        makers.map(lambda maker: getattr(maker, "kind", "")),
    )
    software = s.words("software")
    engine = levels_of_rows(KIND, software, vendor, kind)
    assumed += assumed_software(KIND, software, engine)
    published, usual, cache = _number_formats(s, engine)
    precision = usual.map(lambda formats: formats[0])
    assumed.append(("precision", s.words("precision").where(lambda word: word == ""), precision))
    assumed.append(("weights_format", published.where(bool), published.map(lambda word: f"{word}, as published")))
    pairs = together(s.words("accelerator"), precision)
    devices = Coded(pairs.codes, tuple(rates(*level, KIND) for level in pairs.levels))
    keys = {name: devices.map(attrgetter(field)) for name, field in RATE_KEYS} | {"engine": engine}
    v: dict[str, Any] = devices.figures(lambda device: {name: getattr(device, name) for name in DEVICE})
    v |= engine.figures(engines(KIND).__getitem__)
    v["tiled"] = engine.each(tiled().__getitem__)
    v |= together(s.words("model"), usual, cache).figures(lambda row: sizes(row[0], *row[1], row[2]))
    v |= together(s.words("accelerator"), precision, cache).figures(of_kernels)
    v["timed"] = keys["untimed"].where(lambda word: word == "")
    v |= together(s.words("model"), engine).figures(lambda row: _lengths(*row))
    v |= _requests(s, assumed, v)
    v |= _policy(s, v, assumed)
    # Of rotary models the zoo knows the length of a sample of training; learned positions end.
    longest, at = np.unique(v["usual_length"], return_inverse=True)
    words = Coded(
        at.reshape(np.shape(v["usual_length"])),
        tuple(f"more than the {length:,.0f} tokens of the table models" for length in longest.tolist()),
    )
    assumed.append((BEYOND, v["length"] + v["answer"] > v["usual_length"], words))
    assumed.append(("states", v["state_bytes"] > 0, Coded(np.array(0), (UNMEASURED,))))
    _configuration(s, v, assumed)
    # What runs in waves is not as many at once as was asked for.
    waves = np.isfinite(v["most_sequences"]) & (v["batch"] > v["slots"]) & ~v["served"]
    assumed.append((AT_ONCE, waves, np.floor(v["slots"])))
    queued, late = v["first"] & v["served"] & (v["batch"] > 1), v["first"] | v["prompt_only"]
    flight = v["served"] | v["token"] & v["delayed"]
    special = np.select([queued, late, v["experts"] > 1, flight], [1, 2, 3, 4], 0)
    keys["special"] = Coded(special, ("", LOADED, FIRST_TOKEN, EXPERTS, IN_FLIGHT))
    nodes = np.where(v["devices"] > v["per_node"], 2, np.where(v["devices"] > 1, 1, 0))
    keys["scale"] = Coded(nodes, ("1 device", "1 node", "multi-node"))
    why = serving_memory.unserved(s, v, devices, s.words("model").each(_title, object))
    full = {name: np.broadcast_to(np.asarray(value, dtype=float), (size,)) for name, value in v.items()}
    return GenerationRows(full, why, keys, assumed=tuple(assumed))


def number_formats(scenario: Scenario, engine: Coded) -> tuple[str, str, str]:
    """Return the number formats of matrix products, stored weights and the cache of one row, blanks filled."""
    _, usual, cache = _number_formats(scenario, engine)
    products, weights = usual.levels[0]
    return products, weights or products, cache.levels[0] or (products if products == "bf16" else "fp16")


def _number_formats(s: Scenario, engine: Coded) -> tuple[Coded, Coded, Coded]:
    """Return formats of published weights, of products with stored weights, and of the cache."""
    published = (
        together(s.words("model"), s.words("precision"), s.words("weights_format"), engine).map(_published).compact()
    )
    usual = (
        together(s.words("precision"), s.words("weights_format"), engine, s.words("accelerator"), published)
        .map(_formats)
        .compact()
    )
    return (
        published,
        usual,
        together(s.words("kv_format"), engine).map(lambda row: row[0] or usual_formats()[row[1]][2]),
    )


def _network_of(model: str | Workload) -> Workload | None:
    """Return a network by its name, or as it is."""
    return model if isinstance(model, Workload) else zoo.model(model) if model else None


def _title(model: str | Workload) -> str:
    return getattr(_network_of(model), "title", "")


def _published(row: tuple[Any, str, str, str]) -> str:
    """Return the format of the published weights, where no format is stated and the engine has none of its own."""
    model, precision, weights, engine = row
    if weights or precision or usual_formats()[engine][1]:
        return ""
    return zoo.published_formats().get(model if isinstance(model, str) else model.name, "")


def _formats(row: tuple[str, str, str, Any, str]) -> tuple[str, str]:
    """Return the formats of products and of weights; those that an engine usually takes where none is stated.

    Weights in a format that devices compute in are multiplied in it; others, and those of a device that lacks it, are
    widened before.
    """
    precision, stated, engine, machine, published = row
    usual, stored, _ = usual_formats()[engine]
    weights = stated or published
    offered = hardware.formats(machine.accelerator) if machine else ()
    common = next((name for name in usual.split(";") if name in offered), "fp16")
    wanted = common if not weights else weights if weights in COMPUTED else "fp16"
    half = "bf16" if "bf16" in offered and "fp16" not in offered else "fp16"
    usual_product = half if wanted == "fp16" or (wanted in BYTES and wanted not in offered) else wanted
    return precision or usual_product, weights or ("" if precision else stored)


def _with_own_networks(s: Scenario) -> Scenario:
    """Return the same with networks built from their parameters, where the zoo has none of that name."""
    named, total, active = s.words("model"), s.number("parameters"), s.number("active_parameters")
    if not np.any(named.where(lambda name: name == "") & ~np.isnan(total)):
        return s

    def column(numbers: np.ndarray) -> Coded:
        levels, codes = np.unique(numbers, return_inverse=True)
        return Coded(codes.reshape(np.shape(numbers)), tuple(levels.tolist()))

    both = together(named, column(total), column(active))
    model = both.map(lambda row: own_decoder(row[1], row[2]) if row[0] == "" and not math.isnan(row[1]) else row[0])
    return replace(s, columns={**s.columns, "model": model})


def _lengths(model: str | Workload, engine: str) -> dict[str, float]:
    """Return the tokens of served requests where they are not stated: those of a benchmark, else the usual ones."""
    name = model if isinstance(model, str) else ""
    return {
        f"usual_{part}": constant(f"{engine}-{part}-tokens-{name}", constant(f"usual-{part}-tokens"))
        for part in ("prompt", "answer")
    }


def _requests(s: Scenario, assumed: list[tuple[str, Any, Any]], v: Mapping[str, Any]) -> dict[str, Any]:
    """Return lengths, batch and what is counted."""
    length, answer, rate = (s.number(field) for field in ("input_len", "output_len", "request_rate"))
    way, delay, counts = s.words("scenario"), s.words("delay_of"), s.words("counts")
    # At an infinite rate all requests are there at once: offline, or as many at a time as are let in.
    comes, endless = ~np.isnan(rate), np.isinf(rate) & np.isnan(s.number("batch"))
    # A server of which neither requests at once nor their rate are stated is one that submitters load to its limit.
    loaded = way.where(lambda word: word in QUEUED) & np.isnan(s.number("batch")) & ~comes & (v["loaded"] > 0)
    full = way.where(lambda word: word in OFFLINE) | endless | loaded
    first = delay.where(lambda word: word == "first token")
    prompt_only = counts.where(lambda word: word == "prompt tokens") | way.where(lambda word: word == "prefill")
    token = (delay.where(lambda word: word == "token") | way.where(lambda word: word == "decode")) & ~prompt_only
    served = way.where(lambda word: word in (*QUEUED, *OFFLINE)) | comes
    # Requests have the usual lengths where they are not stated; a batch that runs to its end, one token.
    short = np.isnan(answer) | (answer < 1)
    usual = np.where(served, v["usual_answer"], 1.0)
    assumed.append(("output_len", np.isnan(answer) & ~(first & ~served | prompt_only), usual))
    assumed.append(("input_len", np.isnan(length) & served, v["usual_prompt"]))
    lacks = np.isnan(length) & ~served
    return {
        "length": np.where(np.isnan(length), np.where(served, v["usual_prompt"], 0.0), length),
        "answer": np.where(short, usual, answer),
        "lacks": lacks,
        "batch": s.number("batch"),
        "prompt_only": prompt_only,
        "token": token & ~first,
        "first": first,
        "served": served,
        "full": full,
        "queued": (way.where(lambda word: word in QUEUED) | comes) & ~full,
        "delayed": delay.where(bool),
        "each_device": np.nan_to_num(s.number("each_device")),
        "requests": counts.where(lambda word: word == "samples"),
        "every_token": counts.where(lambda word: word == "all tokens"),
    }


def _policy(s: Scenario, v: dict[str, Any], assumed: list[tuple[str, Any, Any]]) -> dict[str, Any]:
    """Return the policy of the engine, and what drafts and cached prompts save it."""
    stated = {name: s.number(name) for name in ("acceptance", "drafted", "prefix_hit", "chunk")}
    schedule, rate = s.words("schedule"), s.number("request_rate")
    acceptance, drafted, cached, chunk = (np.nan_to_num(values) for values in stated.values())
    assumed.append(("seconds of drafting", drafted > 0, np.array(0.0)))
    return {
        "drafted": drafted,
        "acceptance": acceptance,
        "gained": accepted_tokens(acceptance, drafted),
        "cached": cached,
        "chunk": np.where(np.isnan(stated["chunk"]), v["chunk"], chunk),
        "request_rate": rate,
        "prefill_first": np.where(
            schedule.where(lambda word: word == ""),
            v["prefill_first"],
            schedule.where(lambda word: word == PREFILL_FIRST),
        ),
    }


def _configuration(s: Scenario, v: dict[str, Any], assumed: list[tuple[str, Any, Any]]) -> None:
    """Set the devices of one copy of the weights, and sequences of it at once."""
    devices, shards, stages = s.number("devices"), s.number("tp"), s.number("pp")
    blank, alone = np.isnan(devices), np.isnan(shards)
    v["given"] = np.where(alone, 1.0, shards) * np.where(np.isnan(stages), 1.0, stages)
    v["stages"] = np.where(np.isnan(stages), 1.0, stages)
    engine = np.fmax(v["given"], s.number("ep") * v["stages"])
    v["devices"] = np.where(blank, np.maximum(np.ceil(engine / v["cores"]), 1.0), devices)
    assumed.append(("devices", blank, v["devices"]))
    every = np.maximum(v["devices"] * v["cores"], 1.0)
    least = (v["weight_bytes"] + v["expert_bytes"]) * v["cores"] / (constant("memory-served") * v["memory"])
    # Nobody shards further than it takes to leave keys and values their part.
    enough = np.maximum(least / v["stages"] / (1 - constant("memory-for-cache")), 1.0)
    fewest = np.minimum(2 ** np.ceil(np.log2(enough)), every / v["stages"])
    # Each shard would store a whole latent cache: where many requests are answered, each device attends to its own.
    latent = (v["cache_heads"] == 1) & (v["experts"] > 1) & v["full"] & alone & np.isnan(s.number("ep")) & (fewest > 1)
    apart = np.where(
        latent, np.maximum(fewest, np.minimum(every / v["stages"], v["per_node"] * v["cores"])), s.number("ep")
    )
    assumed.append(("ep", latent, apart))
    fewest = np.where(latent, 1.0, fewest)
    # Where experts are spread further, groups of those shards share the devices out evenly.
    even = np.gcd(*(np.nan_to_num(sizes, nan=1.0).astype(int) for sizes in (fewest, apart)))
    fewest = np.where(apart > fewest, even, fewest)
    v["shards"] = np.maximum(np.where(alone, fewest, shards), 1.0)
    assumed.append(("tp", alone & (v["shards"] > 1), v["shards"]))
    # A mixture that does not fit the stated shards spreads its experts over all devices.
    most = np.maximum(every / v["stages"], v["shards"])
    wide = (v["expert_bytes"] > 0) & (least > v["given"]) & ~alone & np.isnan(apart)
    assumed.append(("ep", wide & (most > v["shards"]), most))
    v["spread"] = np.where(v["experts"] > 1, np.minimum(np.where(wide, most, np.fmax(apart, 1.0)), most), 1.0)
    v["replicas"] = np.maximum(np.where(v["spread"] > v["shards"], v["spread"] / v["shards"], 1.0), 1.0)
    v["groups"] = np.maximum(most / (v["shards"] * v["replicas"]), 1.0)
    # Each replica has a scheduler of its own, with the limits of one.
    v |= {name: v[name] * v["replicas"] for name in ("chunk", "most_sequences")}
    rows = GenerationRows(
        {name: np.asarray(value, dtype=float) for name, value in v.items()}, np.zeros(1, dtype="<U1"), {}
    )
    # Requests that come and go are halfway through their answers on average; a batch ends together.
    held, span = v["length"] + v["answer"] * np.where(v["served"], 0.5, 1.0), np.where(v["served"], v["answer"], 0.0)
    v["kept"] = attended_tokens(held, v["window"], v["windowed"], span)
    fitting = cache_slots(
        held, decoder=decoder_of(rows), group=group_of(rows), memory_share=constant("memory-served"), span=span
    )
    # A run whose weights should not fit ran nonetheless: memory says nothing of it.
    v["fitting"] = fitting
    v["slots"] = np.minimum(np.where(fitting > 0, np.maximum(fitting, 1.0), np.inf), v["most_sequences"])
    lacks = np.isnan(v["batch"])
    # As many as fit, where there is always more to do, and where those that are let in at once have no limit.
    comes = np.isfinite(v["request_rate"])
    usual = np.where(v["full"] | comes, np.floor(np.where(np.isfinite(v["slots"]), v["slots"], 1.0)), 1.0)
    usual = np.where(comes, usual * v["groups"], usual)
    assumed.append(("batch", lacks, usual))
    batch = np.where(lacks, usual, v["batch"])
    v["batch"] = np.where(v["queued"], np.maximum(batch / v["groups"], 1.0), batch)


def decoder_of(rows: GenerationRows) -> Decoder:
    """Return the model of each row."""
    return Decoder(**{name: rows.values[name] for name in Decoder._fields})


def group_of(rows: GenerationRows) -> Group:
    """Return the devices of one copy of the weights of each row; of chips with several cores a shard is a core."""
    cores = rows.cores
    nodes = np.ceil(rows.shards * rows.replicas / (rows.per_node * cores))
    # Between nodes each device of a node carries its part of the sum.
    far = np.where(np.isfinite(rows.ring_network), rows.ring_network, rows.ring_link)
    within = rows.shards <= rows.per_node * cores
    near = rows.ring_link * rows.sum_link
    link = np.where(within, near, np.minimum(near, far * rows.per_node))
    return Group(
        rows.shards,
        rows.stages,
        rows.mem_bandwidth / cores,
        rows.memory / cores,
        rows.peak / cores,
        rows.wide_peak / cores,
        link / cores,
        rows.replicas,
        rows.spread,
        nodes,
        far / cores,
    )


def engine_of(rows: GenerationRows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None) -> Engine:
    """Return what the engine of each row reaches of its devices."""
    on, c = {name: bool((terms or {}).get(name, True)) for name in TERMS}, constants
    timed, mixture = rows.timed > 0, rows.experts > 1
    bandwidth, compute, starts = (
        np.where(timed, 1.0, c[name]) for name in ("device_share", "compute_share", "start_factor")
    )
    narrow = np.where(rows.narrow > 0, c["narrow_share"], 1.0)
    products = rows.product_share * compute * c["engine_share"]
    host = on["host"] * c["engine_time"]
    nodes = np.where(rows.shards * rows.replicas > rows.per_node * rows.cores, 2.0, 1.0)
    latent = (rows.cache_heads == 1) & (rows.queries == 1) & (rows.heads > 1)
    layer = rows.layer_start + np.where(latent, rows.latent_start, 0.0)
    layer = layer + np.where(mixture & on["experts"], rows.expert_start + c["router_time"], 0.0)
    return Engine(
        weight_share=np.minimum(rows.weight_share * bandwidth * narrow, 1.0),
        cache_share=np.minimum(rows.cache_share * bandwidth, 1.0),
        decode_share=products * c["decode_share"],
        prompt_share=products,
        attention_share=rows.attention_share * compute * c["engine_share"] if on["attention"] else np.inf,
        query_cost=rows.query_cost * on["queries"],
        touches=c["touches"],
        layer_seconds=layer * starts * on["host"] + rows.layer_time * host,
        step_seconds=rows.step_time * host,
        sequence_seconds=rows.sequence_time * host,
        start_seconds=rows.sum_start * nodes * on["exchange"],
        rank_seconds=rows.sum_rank * nodes * on["exchange"],
        piece=rows.piece,
        score_bytes=rows.score_bytes * on["attention"],
        attention_ramp=rows.attention_ramp * on["attention"],
        prompt_seconds=rows.prompt_time * host,
        request_seconds=rows.request_time * on["host"],
        expert_pace=rows.expert_pace,
        expert_reading=rows.expert_reading,
        expert_tile=rows.expert_tile * rows.tiled * on["experts"],
        expert_passes=rows.expert_passes * on["experts"],
    )


def parts(
    rows: GenerationRows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None
) -> dict[str, np.ndarray]:
    """Return seconds by part: of a batch, of one request of many, or of a delay."""
    decoder, engine = decoder_of(rows), engine_of(rows, constants, terms)
    if terms and not terms.get("cache", True):
        decoder = decoder._replace(cache_bytes=decoder.cache_bytes * 0)
    if terms and not terms.get("experts", True):
        decoder = decoder._replace(experts_per_token=decoder.experts)
    shared: dict[str, Any] = {"decoder": decoder, "group": group_of(rows), "engine": engine}
    tokens, context = np.maximum(rows.length, 1.0), rows.length + rows.answer / 2
    inside = np.where(np.isfinite(rows.most_sequences), np.minimum(rows.batch, rows.slots), rows.batch)
    waves, served = rows.batch / inside, rows.served > 0
    new = tokens * (1 - rows.cached)
    passes = np.clip(inside * new / rows.chunk, 1.0, np.maximum(inside, 1.0))
    # First tokens of a batch whose prompts take several passes come one pass after the other.
    prompts, decoding, total = inside.copy(), inside.copy(), np.full(len(rows), np.nan)
    prefills = np.where(rows.token > 0, 0.0, np.where(rows.first > 0, (1 + 1 / passes) / 2, 1.0))
    once = (rows.first > 0) | (rows.prompt_only > 0)
    steps = np.where(once, 0.0, np.where(rows.token > 0, 1.0, np.maximum(rows.answer - 1, 0)) / rows.gained)
    # Prompts that do not fit at once are read wave after wave, like answers of a batch; all of them are counted.
    late = ((rows.delayed > 0) & ~once & (rows.token == 0)) | (rows.prompt_only > 0)
    prefills, steps = (np.where(late, numbers * waves, numbers) for numbers in (prefills, steps))
    at = np.flatnonzero(served)
    if len(at):
        # Requests that come and go: the time for one of them, or the delay that is asked for.
        some = rows.take(at)
        service = _service(some, {name: _some(columns, at) for name, columns in shared.items()})
        first, single, slow = some.first > 0, some.token > 0, some.delayed > 0
        delay = np.select(
            [first, single], [service.first_token_seconds, service.token_seconds], service.request_seconds
        )
        lost = np.isnan(service.first_token_seconds)
        total[at] = np.where(slow, delay, np.where(lost, np.nan, 1 / service.requests_per_second))
        full = np.minimum(some.chunk / np.maximum(new[at], 1.0), inside[at])
        prompts[at] = np.where(slow, 1.0, np.maximum(1.0, full))
        prefills[at] = np.where(slow, ~single, 1 / prompts[at])
        decoding[at] = service.decoding
        many = np.select([once[at], single], [0.0, 1.0], some.answer - 1)
        steps[at] = np.where(slow, many, some.answer / service.decoding) / some.gained
    prompt = prefill_parts(tokens, **shared, prompts=prompts, cached=rows.cached)
    step = decode_parts(decoding, context, **shared, drafted=rows.drafted, span=rows.answer)
    both = {name: prompt.get(name, 0.0) * prefills + step.get(name, 0.0) * steps for name in {**prompt, **step}}
    plain = np.asarray(sum(both.values()))
    # What is left of a delay, or of the time for one request of many, is waiting for others.
    over = np.where(np.isfinite(total), np.minimum(total / plain, 1.0), 1.0)
    both = {name: np.asarray(part * over) for name, part in both.items()}
    return {**both, "waiting": np.where(np.isfinite(total), np.maximum(total - plain, 0.0), 0.0)}


def _service(rows: GenerationRows, shared: Mapping[str, Any]) -> Steady:
    """Return requests that come and go: a number at once, or at a rate, where that is stated."""
    comes, same = (
        np.isfinite(rows.request_rate),
        {
            **shared,
            "chunk": rows.chunk,
            "prefill_first": rows.prefill_first > 0,
            "cached": rows.cached,
            "drafted": rows.drafted,
            "acceptance": rows.acceptance,
        },
    )
    length = np.maximum(rows.length, 1.0)
    steady = steady_service(rows.batch, length, rows.answer, **same, slots=rows.slots)
    if not comes.any():
        return steady
    opened = open_service(
        np.where(comes, rows.request_rate / rows.groups, 1.0),
        length,
        rows.answer,
        **same,
        slots=np.minimum(rows.slots, rows.batch),
    )
    return Steady(*(np.where(comes, *columns) for columns in zip(opened, steady, strict=True)))


def unanswered(rows: GenerationRows, constants: Mapping[str, Any]) -> np.ndarray:
    """Return why rows have no finite time: more requests arrive than are answered; "" of others."""
    shared = {"decoder": decoder_of(rows), "group": group_of(rows), "engine": engine_of(rows, constants)}
    service = _service(rows, shared)
    lost = np.isfinite(rows.request_rate) & np.isnan(service.first_token_seconds)
    return with_reason(
        np.full(len(rows), "", object),
        lost,
        RATE_TOO_HIGH,
        [rows.request_rate, service.requests_per_second * rows.groups],
    )


def _some(columns: Any, at: np.ndarray) -> Any:
    """Return some entries of each column of a model, group or engine."""
    return type(columns)(*(value[at] if np.ndim(value) else value for value in columns))


def impossible(rows: GenerationRows, s: Scenario) -> np.ndarray:
    """Return why weights, or one request, do not fit, with what would do; "" where they do, one "" where all do."""
    models = _with_own_networks(s).words("model")
    return serving_memory.refused(
        rows, decoder_of(rows), group_of(rows), lambda at: models.take(at).each(_network_of, object)
    )


def outcome(rows: GenerationRows, step_seconds: np.ndarray) -> np.ndarray:
    """Return the rate of what is counted, of all devices or of one; for delays, answers (or tokens) per second."""
    shared = np.where(rows.each_device > 0, rows.devices, 1.0)
    return np.asarray(np.where(rows.delayed > 0, 1.0, tokens(rows) / shared) / step_seconds)


def tokens(rows: GenerationRows) -> np.ndarray:
    """Return the count of one batch, or of one request of many, of all copies of the weights."""
    inside = np.where(np.isfinite(rows.most_sequences), np.minimum(rows.batch, rows.slots), rows.batch)
    inside = np.select([rows.served > 0, rows.prompt_only > 0], [1.0, rows.batch], inside)
    per_request = np.select(
        [rows.requests > 0, rows.prompt_only > 0, (rows.token > 0) & (rows.served == 0), rows.every_token > 0],
        [np.ones(len(rows)), rows.length, np.ones(len(rows)), rows.length + rows.answer],
        rows.answer,
    )
    # A delay of requests that arrive at a rate is that of one: their tokens are no throughput.
    one = np.isfinite(rows.request_rate) & (rows.delayed > 0)
    return np.asarray(np.where(one, np.nan, inside * per_request * rows.groups))


def memory_parts(rows: GenerationRows, constants: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return device memory by part [B]: weights, keys and values, any states, the runtime; and that of a shard."""
    shards = rows.shards * rows.stages * rows.replicas
    inside = np.where(np.isfinite(rows.most_sequences), np.minimum(rows.batch, rows.slots), rows.batch)
    copies = np.maximum(rows.shards / rows.cache_heads, 1.0)
    runtime = constant("runtime-memory") / rows.cores
    cache = inside * rows.kept * rows.cache_bytes * copies
    alike = (rows.weight_bytes + rows.embedded_bytes) * rows.replicas
    states = {"states": inside * rows.state_bytes / shards} if np.any(rows.state_bytes > 0) else {}
    return {
        "weights": (alike + rows.expert_bytes) / shards,
        "cache": cache / shards,
        **states,
        "workspace": np.broadcast_to(runtime, (len(rows),)),
    }, rows.memory / rows.cores


def seconds_at_peak(rows: GenerationRows) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds of the products of each row at the peak, and of its data at the memory's bandwidth."""
    ideal = {constant.name: IDEAL.get(constant.name, 1.0) for constant in CONSTANTS}
    seconds = []
    for unlimited in ("mem_bandwidth", "peak"):
        values = {**rows.values, unlimited: np.full(len(rows), 1e30)}
        values |= {name: np.full(len(rows), value) for name, value in IDEAL_KERNELS.items()}
        values |= {"wide_peak": values["peak"]} if unlimited == "peak" else {}
        seconds.append(step_seconds(parts(replace(rows, values=values), ideal)))
    return seconds[0], seconds[1]


def strata(rows: GenerationRows) -> np.ndarray:
    """Return the question of each row, in words: rows of one question are evaluated together."""
    v = {name: value > 0 for name, value in rows.values.items()}
    return np.select(
        [v["first"], v["prompt_only"], v["token"] & v["delayed"], v["served"], v["token"], v["delayed"]],
        ["first token", "prompt", "time per token", "requests that come and go", "decoding alone", "whole answer"],
        "static batch",
    )
