"""Load, limits and options of a service, what iterations of its engines cost, and how well measurements cover them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from cookbook import hardware
from cookbook.catalog import constant
from cookbook.catalog.fields import MAX_TOKENS, Field, Row, checked, of_numpy
from cookbook.catalog.refusals import Refused, refused
from cookbook.formulas.generation import attended_tokens, cache_slots, decode_step_seconds, prefill_seconds
from cookbook.hardware import System
from cookbook.prediction import request_sets
from cookbook.prediction.api import MODEL, answers, network_of
from cookbook.prediction.assumptions import Assumptions
from cookbook.prediction.constants import (
    DATASHEET,
    EXPERTS,
    FIRST_TOKEN,
    IN_FLIGHT,
    LOADED,
    MANY_ASSUMED,
    factors,
)
from cookbook.prediction.engine import Prepared, estimate, prepare, requested_rows
from cookbook.prediction.kinds import generation, serving_memory
from cookbook.prediction.kinds.generation import GenerationRows
from cookbook.prediction.measurements import Measurement, engine_of
from cookbook.prediction.request_sets import ANSWER, PROMPT
from cookbook.prediction.scenario import Scenario
from cookbook.topics.serving.simulation import CHUNKED, MAX_REQUESTS, StepCosts
from cookbook.workloads.zoo import Workload

__all__ = [
    "SHARDS",
    "Batching",
    "EngineOptions",
    "Limits",
    "Load",
    "LoadArguments",
    "arrivals",
    "assumed_options",
    "assumed_terms",
    "costs_of",
    "engine_costs",
    "engine_formats",
    "engine_name",
    "interval_factors",
    "lengths",
    "load_of",
    "measured_runs",
    "tier",
]
# Shards that are tried, and tokens that fit where the memory is not known.
SHARDS, UNKNOWN_MEMORY_TOKENS = (1, 2, 4, 8, 16, 32, 64), 1e15
# Largest batch and pass of which costs are interpolated, and requests of the shortest trace.
MAX_BATCH, MAX_PASS_TOKENS, MIN_TRACE = 2.0**13, 2.0**34, 20
# Attended tokens at which slopes of costs are computed.
SLOPE_TOKENS = 1024.0
# Tokens of a prompt and of an answer where none are given.
USUAL_LENGTHS = {PROMPT: 512, ANSWER: 256}
# Options of an engine that `Service.assumed` reports where they are not given.
REPORTED_OPTIONS = ("software", "level of the software", "precision", "weights_format")
# Arguments that state a load.
LOADS = ("rate", "users", "concurrency")

# Arguments of engines: one value each.
ENGINE: dict[str, Field | Row] = {
    "model": MODEL,
    "pp": Field.count(high=64),
    "ep": Field.count(high=1024),
    **{name: Field.row(name, "inference") for name in ("acceptance", "drafted", "prefix_hit")},
    "precision": Field.named("number_formats", blank=True),
    **dict.fromkeys(("weights_format", "kv_format", "software"), Field.text()),
    "max_sequences": Field.count(high=8192),
    "chunk": Field.count(high=1 << 17),
    "two_batches": Field.flag(),
}
# Samples of arrivals and lengths.
COUNT, SEED = Field.count(high=MAX_REQUESTS), Field.count(0, 1e9)
SPREAD, BURSTINESS, LENGTH = Field.number(0, 10), Field.number(0, 1e4), Field.number(1, 1e8)


@dataclass(frozen=True)
class LoadArguments:
    """Arguments of `cookbook.serve` that describe requests, as they are given."""

    rate: Any
    users: Any
    concurrency: Any
    arrival: Any
    think: Any
    input_len: Any
    output_len: Any
    input_spread: float
    output_spread: float
    burstiness: float

    def stated(self) -> dict[str, float]:
        """Return the loads that are given, by the name of the argument."""
        return {name: getattr(self, name) for name in LOADS if getattr(self, name) is not None}


@dataclass(frozen=True)
class Load:
    """Requests of a service.

    Attributes
    ----------
    rate, clients : float
        Requests that arrive [1/s], or clients, each of which sends its next request after its last answer; the other is
        NaN.
    think : float
        Mean pause of a client between an answer and its next request [s].
    prompt, answer : float
        Mean lengths [tokens].
    prompt_spread, answer_spread : float
        Standard deviations of lengths over their means.
    burstiness : float
        Variance of the gaps between arrivals over their squared mean.
    trace : dict of str to numpy.ndarray
        Single requests, where they are given: input_len and output_len [tokens], arrival [s].
    """

    rate: float
    clients: float
    think: float
    prompt: float
    answer: float
    prompt_spread: float
    answer_spread: float
    burstiness: float
    trace: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def closed(self) -> bool:
        """True where clients are given in the place of a rate: a closed loop."""
        return math.isnan(self.rate)

    @property
    def longest(self) -> float:
        """Tokens of the longest request that is known: of means, or of a trace."""
        mean = self.prompt + self.answer
        if "input_len" not in self.trace:
            return mean
        return max(mean, float(np.max(self.trace["input_len"] + self.trace["output_len"])))

    def share(self, engines: float) -> Load:
        """Return the load of one engine of `engines`."""
        return replace(self, rate=self.rate / engines, clients=self.clients / engines)

    def in_units(self, seconds: float) -> Load:
        """Return the same requests with time counted in units of so many seconds."""
        return replace(self, rate=self.rate * seconds, think=self.think / seconds)

    def at_rate(self, rate: float) -> Load:
        """Return the same requests, arriving at a rate [1/s]."""
        return replace(self, rate=rate, clients=math.nan, think=0.0)


@dataclass(frozen=True)
class Limits:
    """Latencies that a service promises.

    Attributes
    ----------
    ttft, tpot : float
        Longest time to the first token, and for each further one [s]; infinite where none is promised.
    kept : float
        Share of the requests that must keep each limit.
    """

    ttft: float = math.inf
    tpot: float = math.inf
    kept: float = 0.95

    @classmethod
    def of(cls, ttft: Any, tpot: Any, kept: float) -> Limits:
        """Return limits of arguments, of which each latency may be None."""
        return cls(math.inf if ttft is None else ttft, math.inf if tpot is None else tpot, kept)

    @property
    def absent(self) -> bool:
        """True where no latency is promised."""
        return math.isinf(self.ttft) and math.isinf(self.tpot)


@dataclass(frozen=True)
class EngineOptions:
    """Parallelism, number formats, software and speculation of one engine, as `cookbook.generate` takes them.

    Attributes
    ----------
    tp : int, optional
        Shards of each layer; None where they are to be chosen.
    pp : int
        Pipeline stages.
    ep : int, optional
        Devices that experts are spread over.
    precision, weights_format, kv_format, software
        Names, or None for the usual ones.
    acceptance, drafted, prefix_hit
        Speculative decoding, and the cached share of prompts.
    """

    tp: int | None
    pp: int
    ep: int | None
    precision: Any
    weights_format: Any
    kv_format: Any
    software: Any
    acceptance: float | None
    drafted: int | None
    prefix_hit: float | None

    @property
    def groups(self) -> int:
        """Groups of tp devices of one engine, each of which attends to requests of its own."""
        return max((self.ep or 1) // (self.tp or 1), 1)


@dataclass(frozen=True)
class Batching:
    """Requests that iterations of an engine take, and their order.

    Attributes
    ----------
    max_sequences, chunk : int, optional
        Most sequences and most tokens of one iteration, of each group; None for those of the software.
    two_batches : bool
        Two halves of a batch take turns, so that communication of one hides behind the other.
    policy : str
        One of `cookbook.topics.serving.simulation.POLICIES`.
    prefill_engines : int
        Disaggregated: engines for prompts, per engine that decodes.
    """

    max_sequences: int | None = None
    chunk: int | None = None
    two_batches: bool = False
    policy: str = CHUNKED
    prefill_engines: int = 1


@checked(
    **ENGINE,
    accelerator=Field.named("accelerators", hardware.Accelerator, hardware.Machine),
    tp=Field.count(high=1024),
    input_len=LENGTH,
)
def engine_costs(
    model: str | Workload,
    accelerator: System,
    *,
    tp: int = 1,
    pp: int = 1,
    ep: int | None = None,
    precision: str | None = None,
    weights_format: str | None = None,
    kv_format: str | None = None,
    software: str | None = None,
    max_sequences: int | None = None,
    chunk: int | None = None,
    acceptance: float | None = None,
    drafted: int | None = None,
    prefix_hit: float | None = None,
    input_len: float = 512,
    two_batches: bool = False,
) -> StepCosts:
    """Return costs of iterations of one engine, and its memory for keys and values, as `cookbook.generate` has them.

    Parameters
    ----------
    model, accelerator, tp, pp, ep, precision, weights_format, kv_format, software, acceptance, drafted, prefix_hit
        As for `cookbook.generate`. An iteration is counted for each token that it yields of a sequence, and tokens of
        prompts count whether they are cached or not.
    max_sequences, chunk : int, optional
        Most sequences and most tokens of one iteration; those of the software, else of the table ``constants``, by
        default. Where `ep` is more than tp, of each group of tp devices; the costs have the sum of all groups.
    input_len : float
        Mean tokens of a prompt, which one group works on where `ep` is more than tp.
    two_batches : bool
        Halves of the requests of each group take turns, so that one computes while the other's tokens are on the way
        to their experts; only where `ep` is more than tp.

    Returns
    -------
    StepCosts

    Raises
    ------
    ValueError
        The weights do not fit, or the device lacks the format: what does.

    Examples
    --------
    >>> costs = engine_costs("llama3_8b", "h100-sxm")
    >>> bool(costs.decode(1, 1000) < costs.decode(64, 1000) < costs.prefill(8192, 4096)), costs.kv_tokens > 1e5
    (True, True)
    """
    options = EngineOptions(tp, pp, ep, precision, weights_format, kv_format, software, acceptance, drafted, prefix_hit)
    return costs_of(
        network_of(model),
        hardware.machine(accelerator),
        options,
        Batching(max_sequences, chunk, two_batches),
        input_len,
    )


def costs_of(network: Workload, machine: Any, options: EngineOptions, batching: Batching, prompt: float) -> StepCosts:
    """Return the costs of iterations of one engine, for prompts of a mean length [tokens].

    Raises
    ------
    ValueError
        As for `engine_costs`.
    """
    if batching.two_batches and options.groups == 1:
        reason = (
            ": halves of a batch take turns where experts are spread over groups; give ep above tp, or leave it out"
        )
        raise refused("two_batches", True, reason)
    costs = _engine(network, machine, options, float(prompt), bool(batching.two_batches))
    limits: dict[str, Any] = {"max_sequences": batching.max_sequences, "chunk": batching.chunk}
    return replace(costs, **{name: limit * options.groups for name, limit in limits.items() if limit is not None})


def assumed_terms(costs: StepCosts, drafted: int | None) -> list[str]:
    """Return what is assumed of an engine that nobody measured, in sentences."""
    sentences = {
        "drafting takes no time": drafted,
        f"states {generation.UNMEASURED}": costs.state_seconds,
        "memory, which the catalogue does not know, is large enough": costs.kv_tokens >= UNKNOWN_MEMORY_TOKENS,
    }
    return [sentence for sentence, applies in sentences.items() if applies]


def _scenario(network: Workload, machine: Any, options: EngineOptions) -> Scenario:
    """Return the shortest request of an engine: what is known of the engine alone follows from it."""
    return answers(network, machine, input_len=1, output_len=2, **vars(options))


@lru_cache(maxsize=256)
def _prepared(network: Workload, machine: Any, options: EngineOptions) -> Prepared:
    """Return an engine with its constants, tier and interval."""
    rows = requested_rows(_scenario(network, machine, options))
    if rows.why[0]:
        raise Refused(rows.why[0])
    return prepare(generation.KIND, rows)


def tier(network: Workload, machine: Any, options: EngineOptions) -> str:
    """Return how well measurements cover an engine, as `Estimate.tier`."""
    return str(_prepared(network, machine, options).tier[0])


def engine_name(network: Workload, machine: Any, options: EngineOptions) -> str:
    """Return the software of an engine without its version.

    >>> engine_name(network_of("llama3_8b"), hardware.machine("h100-sxm"), EngineOptions(1, 1, *[None] * 8))
    'vllm'
    """
    return engine_of(str(_prepared(network, machine, options).rows.key("engine")[0]))


def measured_runs(network: Workload, machine: Any, options: EngineOptions, load: Load) -> tuple[Measurement, ...]:
    """Return measured runs of one engine that always serves a number of requests of these mean lengths.

    None where requests arrive at a rate, or clients pause: those loads have no exact counterpart.
    """
    counts = {"input_len": load.prompt, "output_len": load.answer, "batch": load.clients}
    if not load.closed or load.think or not all(count.is_integer() for count in map(float, counts.values())):
        return ()
    runs: tuple[Measurement, ...] = (
        estimate(answers(network, machine, **counts, scenario="server", **vars(options))).one().measured
    )
    return runs


def assumed_options(network: Workload, machine: Any, options: EngineOptions) -> list[str]:
    """Return the software and number formats that are assumed where none are given, as in `Estimate.assumed`."""
    defaults = _prepared(network, machine, options).rows.assumptions()[0].taken
    return Assumptions({name: defaults[name] for name in REPORTED_OPTIONS if name in defaults}).told()


def engine_formats(network: Workload, machine: Any, options: EngineOptions) -> dict[str, str]:
    """Return the software and number formats of an engine, those that are assumed included.

    >>> options = EngineOptions(1, 1, *[None] * 8)
    >>> formats = engine_formats(network_of("llama3_8b"), hardware.machine("h100-sxm"), options)
    >>> formats["precision"], formats["kv_format"]
    ('fp16', 'fp16')
    """
    rows = _prepared(network, machine, options).rows
    return {
        "software": str(rows.assumptions()[0].taken.get("software", options.software)),
        **dict(
            zip(
                ("precision", "weights_format", "kv_format"),
                generation.number_formats(_scenario(network, machine, options), rows.keys["engine"]),
                strict=True,
            )
        ),
    }


def interval_factors(network: Workload, machine: Any, options: EngineOptions) -> tuple[float, float, float]:
    """Return factors of 80 % intervals: first tokens of one request, those of several at once, and all other values."""
    engine = _prepared(network, machine, options)
    several = int(engine.rows.assumed_count().max() >= MANY_ASSUMED)
    unseen, special = engine.tier[0] == DATASHEET, engine.tier[0] in (DATASHEET, EXPERTS)
    tiers = (DATASHEET if unseen else FIRST_TOKEN, LOADED, engine.tier[0] if special else IN_FLIGHT)
    alone, loaded, other = factors(generation.KIND, tiers)[80][:, several].tolist()
    return float(alone), float(loaded), float(other)


class _Engine:
    """One engine of which costs are computed: its parts of an estimate, and its prompts.

    Memory is counted in tokens with keys and values in all layers that attend; where no layer attends, in states.
    """

    def __init__(
        self, network: Workload, machine: Any, options: EngineOptions, prompt: float, two_batches: bool
    ) -> None:
        engine = _prepared(network, machine, options)
        self.rows, self.network = cast(GenerationRows, engine.rows), network
        self.prompt, self.two_batches = prompt, two_batches
        self.decoder = generation.decoder_of(self.rows)
        # Which tokens windows leave follows from the lengths of requests: costs are functions of tokens attended.
        self.parts: dict[str, Any] = {
            "decoder": self.decoder._replace(windowed=0.0, windowed_scores=0.0),
            "group": generation.group_of(self.rows),
            "engine": generation.engine_of(self.rows, engine.constants)._replace(in_turn=float(two_batches)),
        }
        self.drafted, self.tokens_per_step, self.cached, self.groups = (
            self._value(name) for name in ("drafted", "gained", "cached", "replicas")
        )
        self.copies = max(float(self.rows.shards[0] / self.decoder.cache_heads[0]), 1.0)
        self.state_bytes = float(self.decoder.state_bytes[0])
        self.token_bytes = float(self.decoder.cache_bytes[0]) * self.copies or self.state_bytes
        self.only_states = self.token_bytes == self.state_bytes

    def _value(self, name: str) -> float:
        return float(self.rows.values[name][0])

    def kv_tokens(self) -> float:
        """Return the tokens that fit; memory that the catalogue does not know, such as a host's, is large enough."""
        decoder = self.parts["decoder"]._replace(cache_bytes=self.token_bytes / self.copies, state_bytes=0.0)
        slots = cache_slots(1.0, decoder=decoder, group=self.parts["group"], memory_share=constant("memory-served"))
        tokens = float(np.nan_to_num(np.ravel(slots)[0], nan=UNKNOWN_MEMORY_TOKENS))
        if tokens < 1:
            raise Refused(serving_memory.NO_MEMORY_LEFT.filled(self.network.title))
        return tokens

    def decode(self, batch: Any, attended: Any) -> Any:
        """Return the time of an iteration that decodes a batch [s per token of a sequence]."""
        seconds = decode_step_seconds(batch, attended, **self.parts, drafted=self.drafted) / self.tokens_per_step
        return seconds.reshape(np.broadcast_shapes(np.shape(batch), np.shape(attended)))

    def prefill(self, tokens: Any, attended: Any) -> Any:
        """Return the time of a pass over tokens of prompts [s].

        A new token attends to half of the new ones and to all cached ones; new are the last tokens of a prompt. Of
        cached prompts that outgrow a window that is too much, by the cached share at most. One group works on each
        prompt, and the number of groups that work is that of the prompts.
        """
        prompts = np.maximum(np.asarray(tokens) / self.prompt, 1.0) if self.groups > 1 else 1.0
        new = np.asarray(tokens) / prompts * (1 - self.cached)
        length = np.asarray(attended) * (1 + self.cached) + new / 2
        cached = 1 - new / np.maximum(length, 1e-9)
        return prefill_seconds(length, cached=cached, prompts=prompts, **self.parts).reshape(np.shape(length))

    def state_seconds(self) -> float:
        """Return the time that one state adds to an iteration, the same for each [s]."""
        stateless = {**self.parts, "decoder": self.parts["decoder"]._replace(state_bytes=0.0)}
        with_states, without = (
            decode_step_seconds(MAX_BATCH, 0.0, **parts, drafted=self.drafted) / self.tokens_per_step
            for parts in (self.parts, stateless)
        )
        return float(np.ravel(with_states - without)[0]) / MAX_BATCH

    def costs(self) -> StepCosts:
        """Return the costs, with slopes computed where requests of this length are."""
        window, windowed, near = (
            (1.0, 1.0, 0.0)
            if self.only_states
            else (float(part[0]) for part in (self.decoder.window, self.decoder.windowed, self.decoder.windowed_scores))
        )
        reach = attended_tokens(self.prompt / 2, self.decoder.window[0], near, self.prompt)
        sequences, chunk = self._value("most_sequences"), self._value("chunk")
        return StepCosts(
            # Where one thing hides another, as prompts hide their host, a cost is no straight line.
            _interpolated(self.decode, MAX_BATCH * self.groups, 1.0, self.prompt if self.two_batches else SLOPE_TOKENS),
            _interpolated(self.prefill, MAX_PASS_TOKENS, self.prompt, float(reach)),
            self.kv_tokens(),
            int(sequences if math.isfinite(sequences) else constant("service-sequences") * self.groups),
            int(chunk if math.isfinite(chunk) else constant("service-iteration-tokens") * self.groups),
            window=window,
            windowed=windowed,
            windowed_scores=None if self.only_states else near,
            state=0.0 if self.only_states else self.state_bytes / self.token_bytes,
            state_seconds=self.state_seconds(),
        )


@lru_cache(maxsize=256)
def _engine(
    network: Workload, machine: Any, options: EngineOptions, prompt: float = 1.0, two_batches: bool = False
) -> StepCosts:
    """Return the costs of an engine."""
    return _Engine(network, machine, options, prompt, two_batches).costs()


def _interpolated(
    cost: Callable[[Any, Any], Any], largest: float, usual: float = 1.0, attended: float = SLOPE_TOKENS
) -> Callable[[Any, Any], Any]:
    """Return a cost as straight lines between counts 3 % apart, one of which is the usual count.

    The formula is computed once, and calls of the result interpolate; in attended tokens it is one straight line.
    """
    small = np.arange(1.0, 65.0)
    counts = np.append(small, np.geomspace(small[-1], largest, int(24 * math.log2(largest / small[-1])))[1:])
    counts = np.union1d(counts, usual)
    flat = cost(counts, 0.0)
    slope = (cost(counts, attended) - flat) / attended
    return lambda count, seen: np.interp(count, counts, flat) + np.interp(count, counts, slope) * seen


@checked(rate=Field.number(high=1e24), count=COUNT, burstiness=BURSTINESS, seed=SEED)
def arrivals(rate: float, count: int, burstiness: float = 1.0, seed: int = 0) -> np.ndarray:
    """Return times of arrival with independent gaps of a gamma distribution [s].

    Parameters
    ----------
    rate : float
        Requests per second.
    count : int
        Requests.
    burstiness : float
        Variance of the gaps over their squared mean: 1 is a Poisson process, 0 a clock, more is bursty.
    seed : int
        Seed of the random numbers.

    Examples
    --------
    >>> arrivals(2.0, 4, burstiness=0).tolist()
    [0.5, 1.0, 1.5, 2.0]
    """
    if burstiness == 0:
        return np.arange(1, count + 1) / rate
    gaps = np.random.default_rng(seed).gamma(1 / burstiness, burstiness / rate, count)
    return np.cumsum(gaps)


@checked(mean=Field.number(1, 1e9), count=COUNT, spread=Field.number(0, 100), seed=SEED, most=Field.number(1, math.inf))
def lengths(mean: float, count: int, spread: float = 0.0, seed: int = 0, most: float = math.inf) -> np.ndarray:
    """Return lengths of a log-normal distribution with a mean, as whole tokens of 1 or more.

    Parameters
    ----------
    mean : float
        Tokens.
    count : int
        Requests.
    spread : float
        Standard deviation over the mean; 0 for one fixed length.
    seed : int
        Seed of the random numbers.
    most : float
        Length that longer ones are cut to.

    Examples
    --------
    >>> lengths(300, 3).tolist()
    [300, 300, 300]
    """
    scale = math.sqrt(math.log1p(spread**2))
    drawn = mean * np.exp(scale * np.random.default_rng(seed).standard_normal(count) - scale**2 / 2)
    return np.clip(np.rint(drawn), 1, min(most, MAX_TOKENS)).astype(int)


def load_of(arguments: LoadArguments) -> tuple[Load, list[str]]:
    """Return the load, checked, and what is assumed where nothing is given.

    Raises
    ------
    ValueError
        No load or several, or a trace that is not one.
    """
    arguments, assumed = _with_lengths(arguments)
    arguments, trace = _with_trace(arguments)
    loads = arguments.stated()
    if len(loads) != 1:
        raise ValueError(
            f"{' and '.join(loads) or 'no load'} given: give one of rate (requests/s), users, concurrency, arrival"
        )
    ((name, amount),) = loads.items()
    prompt, answer = LENGTH.read(arguments.input_len, PROMPT), LENGTH.read(arguments.output_len, ANSWER)
    pause = 0.0
    if name == "users":
        pause = constant("service-think-time") if arguments.think is None else arguments.think
        assumed += [f"think = {pause:g} s"] if arguments.think is None else []
    load = Load(
        rate=amount if name == "rate" else math.nan,
        clients=math.nan if name == "rate" else amount,
        think=pause,
        prompt=prompt,
        answer=answer,
        prompt_spread=arguments.input_spread,
        answer_spread=arguments.output_spread,
        burstiness=arguments.burstiness,
        trace=trace,
    )
    return load, assumed


def _with_lengths(arguments: LoadArguments) -> tuple[LoadArguments, list[str]]:
    """Return arguments with tokens in the place of data sets and of lengths that are not given, and what is assumed."""
    stated = {name: of_numpy(getattr(arguments, name)) for name in request_sets.COLUMNS}
    if not all(length is None or isinstance(length, (str, float, int)) for length in stated.values()):
        usual = {name: USUAL_LENGTHS[name] for name, length in stated.items() if length is None}
        return replace(arguments, **{**stated, **usual}), [f"{name} = {length}" for name, length in usual.items()]
    means = {
        name: request_sets.mean_tokens(name, length) for name, length in stated.items() if request_sets.is_name(length)
    }
    answer = {ANSWER: request_sets.answers_of(stated[PROMPT], stated[ANSWER], USUAL_LENGTHS[ANSWER])} if means else {}
    usual = {name: USUAL_LENGTHS[name] for name, length in stated.items() if length is None and name not in answer}
    assumed = [str(request_sets.told(stated[PROMPT], stated[ANSWER]))] if means else []
    assumed += [f"{name} = {length}" for name, length in usual.items()]
    return replace(arguments, **{**usual, **answer, **means}), assumed


def _with_trace(arguments: LoadArguments) -> tuple[LoadArguments, dict[str, Any]]:
    """Return arguments with the means and spreads of a trace in its place, and the trace."""
    trace = _trace(arguments)
    changes = dict[str, float]()
    for name, spread in ((PROMPT, "input_spread"), (ANSWER, "output_spread")):
        if name in trace:
            bad = trace[name][~((trace[name] >= 1) & (trace[name] == np.floor(trace[name])))]
            if bad.size:
                raise ValueError(f"{name} = {bad[0]:g}: a length is a whole number of tokens, 1 or more")
            mean = float(trace[name].mean())
            changes |= {name: mean, spread: float(trace[name].std()) / mean}
    if "arrival" in trace:
        gaps = np.diff(trace["arrival"])
        if not np.all(gaps >= 0) or not trace["arrival"][0] >= 0 or not 0 < gaps.sum() < math.inf:
            raise ValueError("arrival must be one time for each request, from 0 s and in order")
        if others := list(arguments.stated()):
            raise ValueError(
                f"{others[0]} and arrival given: give one of rate (requests/s), users, concurrency, arrival"
            )
        mean = float(gaps.mean())
        changes |= {"rate": 1 / mean, "burstiness": float(gaps.var()) / mean**2}
    return replace(arguments, **changes), trace


def _trace(arguments: LoadArguments) -> dict[str, Any]:
    """Return the lists among arguments, one value per request and of one length; none where there are none."""
    names = [
        name
        for name in (PROMPT, ANSWER, "arrival")
        if isinstance(getattr(arguments, name), (list, tuple)) or np.ndim(getattr(arguments, name)) > 0
    ]
    if arguments.arrival is not None and "arrival" not in names:
        raise refused("arrival", arguments.arrival, ": give one time for each request")
    trace = {name: _listed(name, getattr(arguments, name)) for name in names}
    if len({values.size for values in trace.values()}) > 1:
        sizes = " and ".join(f"{name} {len(values):,}" for name, values in trace.items())
        raise ValueError(f"a trace has one of each for every request: {sizes}; give lists of one length")
    lists = {PROMPT, ANSWER} & set(trace)
    if len(lists) == 1:
        (alone,) = lists
        raise ValueError(f"{alone} is a list: give input_len and output_len as lists of one length, or both as means")
    return trace


def _listed(name: str, values: Any) -> np.ndarray:
    """Return one list of a trace as an array."""
    array = Field.array(0, missing=False).read(values, name)
    if array.ndim != 1 or array.size < MIN_TRACE:
        raise ValueError(
            f"{name} is a trace of {array.size:,} requests: give {MIN_TRACE} or more in a list, or one mean"
        )
    return array
