"""What is asked of engines of a language model, what their iterations take as `cookbook.generate` estimates them, and
how surely."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import hardware
from cookbook.catalog.fields import MAX_TOKENS, Field, Row, checked
from cookbook.catalog.refusals import Refused, refused
from cookbook.formulas.generation import attended_tokens, cache_slots, decode_step_seconds, prefill_seconds
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
    figure,
)
from cookbook.prediction.engine import Prepared, prepare, requested_rows
from cookbook.prediction.kinds import generation, serving_memory
from cookbook.prediction.request_sets import ANSWER, PROMPT
from cookbook.topics.serving.simulation import MOST_REQUESTS, StepCosts
from cookbook.workloads.zoo import Workload

__all__ = ["SHARDS", "Asked", "arrivals", "asked_of", "engine_costs", "granted", "groups", "lengths", "tier", "widths"]
# Shards that are tried; tokens for which there is room where the memory is not known.
SHARDS, ENDLESS = (1, 2, 4, 8, 16, 32, 64), 1e15
# Sequences and tokens up to which costs are drawn, and requests of the shortest trace.
MOST_BATCH, MOST_PASS, LEAST_TRACE = 2.0**13, 2.0**34, 20
# Tokens read at which costs are drawn.
FAR = 1024.0
# Tokens of a prompt and of an answer where nobody states any.
USUAL = {PROMPT: 512, ANSWER: 256}
# What of an engine is told where it is not given.
STACK = ("software", "level of the software", "precision", "weights_format")


# What of an engine is one value of a scenario, and what of it a service checks where it makes engines of it.
ENGINE: dict[str, Field | Row] = {
    "model": MODEL,
    "pp": Field.count(high=64),
    "ep": Field.count(high=1024),
    **{name: Field.row(name, "inference") for name in ("acceptance", "drafted", "prefix_hit")},
    "precision": Field.named("number_formats"),
    **dict.fromkeys(("weights_format", "kv_format", "software"), Field.text()),
    "max_sequences": Field.count(high=8192),
    "chunk": Field.count(high=1 << 17),
    "two_batches": Field.flag(),
}
# What requests are drawn from.
COUNT, SEED = Field.count(high=MOST_REQUESTS), Field.count(0, 1e9)
SPREAD, BURSTINESS, LENGTH = Field.number(0, 10), Field.number(0, 1e4), Field.number(1, 1e8)


@dataclass(frozen=True)
class Asked:
    """What a service is asked for.

    Attributes
    ----------
    rate, clients : float
        Requests that arrive [1/s], or clients of which each asks again after it is answered; the other is NaN.
    think : float
        Mean pause of a client between an answer and its next request [s].
    prompt, answer, prompt_spread, answer_spread, burstiness : float
        Mean tokens, standard deviations over the means, and variance of gaps between arrivals over their squared mean.
    ttft, tpot, kept : float
        Most seconds to the first token and for each further one, and the share of requests that must keep both.
    policy : str
    trace : dict of str to numpy.ndarray
        Of single requests, where those are given: input_len, output_len, arrival.
    """

    rate: float
    clients: float
    think: float
    prompt: float
    answer: float
    prompt_spread: float
    answer_spread: float
    burstiness: float
    ttft: float
    tpot: float
    kept: float
    policy: str
    trace: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def share(self, engines: float) -> Asked:
        """What one of so many engines is asked for."""
        return replace(self, rate=self.rate / engines, clients=self.clients / engines)


@checked(
    **ENGINE,
    accelerator=Field.named("accelerators", hardware.Accelerator, hardware.Machine),
    tp=Field.count(high=1024),
    input_len=LENGTH,
)
def engine_costs(
    model: str | Workload,
    accelerator: Any,
    *,
    tp: int = 1,
    pp: int = 1,
    ep: int | None = None,
    precision: Any = None,
    weights_format: Any = None,
    kv_format: Any = None,
    software: Any = None,
    max_sequences: int | None = None,
    chunk: int | None = None,
    acceptance: float | None = None,
    drafted: int | None = None,
    prefix_hit: float | None = None,
    input_len: float = 512,
    two_batches: bool = False,
) -> StepCosts:
    """What iterations of one engine take, and the keys and values that it holds, as `cookbook.generate` estimates them.

    Parameters
    ----------
    model, accelerator, tp, pp, ep, precision, weights_format, kv_format, software, acceptance, drafted, prefix_hit
        As for `cookbook.generate`. An iteration is counted for each token that it yields of a sequence, and tokens of
        prompts count whether they are kept or not.
    max_sequences, chunk : int, optional
        Most sequences and most tokens of one iteration; those of the software, else of the table ``constants``, by
        default. Where `ep` is more than tp, of each group of tp devices; the costs have the sum of all groups.
    input_len : float
        Mean tokens of a prompt, which one group works on where `ep` is more than tp.
    two_batches : bool
        Whether halves of the requests of each group take turns, so that one computes while the other's tokens are on
        the way to their experts; only where `ep` is more than tp.

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
    stack = {
        "tp": tp,
        "pp": pp,
        "ep": ep,
        "acceptance": acceptance,
        "drafted": drafted,
        "prefix_hit": prefix_hit,
        "precision": precision,
        "weights_format": weights_format,
        "kv_format": kv_format,
        "software": software,
    }
    network, machine = network_of(model), hardware.machine(accelerator)
    apart = groups(stack)
    if two_batches and apart == 1:
        reason = (
            ": halves of a batch take turns where experts are spread over groups; give ep above tp, or leave it out"
        )
        raise refused("two_batches", True, reason)
    found = _engine(network, machine, tuple(stack.items()), float(input_len), bool(two_batches))
    given: dict[str, Any] = {"max_sequences": max_sequences, "chunk": chunk}
    return replace(found, **{name: value * apart for name, value in given.items() if value is not None})


def granted(costs: StepCosts, drafted: int | None) -> dict[str, None]:
    """What is taken for granted of an engine, in words."""
    said = {
        "drafting takes no time": drafted,
        f"states {generation.UNMEASURED}": costs.state_seconds,
        "memory, which the catalogue does not know, is large enough": costs.kv_tokens >= ENDLESS,
    }
    return {words: None for words, holds in said.items() if holds}


def groups(stack: Mapping[str, Any]) -> int:
    """Groups of tp devices of one engine that each attend to requests of their own."""
    return max((stack["ep"] or 1) // stack["tp"], 1)


@lru_cache(maxsize=256)
def _prepared(network: Workload, machine: Any, stack: tuple[tuple[str, Any], ...]) -> Prepared:
    """An engine with its constants, tier and interval."""
    rows = requested_rows(answers(network, machine, input_len=1, output_len=2, **dict(stack)))
    if rows.why[0]:
        raise Refused(rows.why[0])
    return prepare(generation.KIND, rows)


def tier(network: Workload, machine: Any, stack: tuple[tuple[str, Any], ...]) -> str:
    """Return how well measurements cover an engine, as `Estimate.tier`."""
    return str(_prepared(network, machine, stack).tier[0])


def stack_taken(network: Workload, machine: Any, stack: tuple[tuple[str, Any], ...]) -> dict[str, None]:
    """Software and number formats that an engine takes where they are not given, as `Estimate.assumed` tells them."""
    taken = _prepared(network, machine, stack).rows.assumptions()[0].taken
    return dict.fromkeys(Assumptions({name: taken[name] for name in STACK if name in taken}).told())


def widths(network: Workload, machine: Any, stack: tuple[tuple[str, Any], ...]) -> tuple[float, float, float]:
    """Factors of 80 % intervals: first tokens of one request, those of many at once, and further tokens and rates."""
    found = _prepared(network, machine, stack)
    several = int(found.rows.assumed_count().max() >= MANY_ASSUMED)
    unseen, special = found.tier[0] == DATASHEET, found.tier[0] in (DATASHEET, EXPERTS)
    tiers = (DATASHEET if unseen else FIRST_TOKEN, LOADED, found.tier[0] if special else IN_FLIGHT)
    alone, loaded, other = factors(generation.KIND, tiers)[80][:, several].tolist()
    return float(alone), float(loaded), float(other)


@lru_cache(maxsize=256)
def _engine(
    network: Workload, machine: Any, stack: tuple[tuple[str, Any], ...], prompt: float = 1.0, in_turn: bool = False
) -> StepCosts:
    """Costs of an engine."""
    found = _prepared(network, machine, stack)
    rows, known = found.rows, found.constants
    decoder = generation.decoder_of(rows)
    # What windows leave is worked out from the lengths of requests: costs are drawn over what is read.
    parts: dict[str, Any] = {
        "decoder": decoder._replace(windowed=0.0),
        "group": generation.group_of(rows),
        "engine": generation.engine_of(rows, known)._replace(in_turn=float(in_turn)),
    }
    # Room is counted in tokens with keys and values in all layers that attend; where none does, in states.
    states, copies = float(decoder.state_bytes[0]), max(float(rows.shards[0] / decoder.cache_heads[0]), 1.0)
    each = float(decoder.cache_bytes[0]) * copies or states
    one = parts["decoder"]._replace(cache_bytes=each / copies, state_bytes=0.0)
    held = cache_slots(1.0, decoder=one, group=parts["group"], memory_share=figure("memory-served"))
    # Memory that the catalogue does not know, such as a host's, is taken as large enough.
    kept, alone = float(np.nan_to_num(np.ravel(held)[0], nan=ENDLESS)), each == states
    if kept < 1:
        raise Refused(serving_memory.NO_MEMORY_LEFT.filled(network.title))
    most, chunk = (float(rows.values[name][0]) for name in ("most_sequences", "chunk"))

    drafted, gained, kept_before, apart = (
        float(rows.values[name][0]) for name in ("drafted", "gained", "cached", "replicas")
    )

    def decode(batch: Any, seen: Any) -> Any:
        seconds = decode_step_seconds(batch, seen, **parts, drafted=drafted) / gained
        return seconds.reshape(np.broadcast_shapes(np.shape(batch), np.shape(seen)))

    def prefill(tokens: Any, seen: Any) -> Any:
        # Each new token looks at half of the new ones, and at what is kept; new are the last ones of a prompt. Of kept
        # prompts that outgrow a window that is too much, by the share kept at most.
        # Each prompt is worked on by one group: as many are, as there are prompts.
        prompts = np.maximum(np.asarray(tokens) / prompt, 1.0) if apart > 1 else 1.0
        new = np.asarray(tokens) / prompts * (1 - kept_before)
        length = np.asarray(seen) * (1 + kept_before) + new / 2
        kept = 1 - new / np.maximum(length, 1e-9)
        return prefill_seconds(length, cached=kept, prompts=prompts, **parts).reshape(np.shape(length))

    def second() -> float:
        """What one state adds to a step, which takes longer with each of them alike."""
        without = {**parts, "decoder": parts["decoder"]._replace(state_bytes=0.0)}
        two = (decode_step_seconds(MOST_BATCH, 0.0, **each, drafted=drafted) / gained for each in (parts, without))
        return float(np.ravel(next(two) - next(two))[0]) / MOST_BATCH

    reach = float(attended_tokens(prompt / 2, decoder.window[0], 0.0 if alone else decoder.windowed[0], prompt))
    return StepCosts(
        # What hides something, as prompts hide their host, is no straight line: it is drawn to the tokens read.
        _drawn(decode, MOST_BATCH * apart, 1.0, prompt if in_turn else FAR),
        _drawn(prefill, MOST_PASS, prompt, reach),
        kept,
        int(most if math.isfinite(most) else figure("service-sequences") * apart),
        int(chunk if math.isfinite(chunk) else figure("service-iteration-tokens") * apart),
        window=1.0 if alone else float(decoder.window[0]),
        windowed=1.0 if alone else float(decoder.windowed[0]),
        state=0.0 if alone else states / each,
        state_seconds=second(),
    )


def _drawn(
    cost: Callable[[Any, Any], Any], most: float, usual: float = 1.0, far: float = FAR
) -> Callable[[Any, Any], Any]:
    """A cost as straight lines between counts 3 % apart, of which the usual is one: the formula is asked once."""
    few = np.arange(1.0, 65.0)
    counts = np.append(few, np.geomspace(few[-1], most, int(24 * math.log2(most / few[-1])))[1:])
    counts = np.union1d(counts, usual)
    flat = cost(counts, 0.0)
    slope = (cost(counts, far) - flat) / far
    return lambda count, seen: np.interp(count, counts, flat) + np.interp(count, counts, slope) * seen


@checked(rate=Field.number(high=1e24), count=COUNT, burstiness=BURSTINESS, seed=SEED)
def arrivals(rate: float, count: int, burstiness: float = 1.0, seed: int = 0) -> np.ndarray:
    """Times of arrival with independent gaps of a gamma distribution [s].

    Parameters
    ----------
    rate : float
        Requests per second.
    count : int
        Requests.
    burstiness : float
        Variance of the gaps over their squared mean: 1 is a Poisson process, 0 a clock, more is bursty.
    seed : int
        Of the random numbers.

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
    """Lengths of a log-normal distribution with a mean, as whole tokens of 1 or more.

    Parameters
    ----------
    mean : float
        Tokens.
    count : int
        Requests.
    spread : float
        Standard deviation over the mean; 0 for one fixed length.
    seed : int
        Of the random numbers.
    most : float
        What longer ones are cut to.

    Examples
    --------
    >>> lengths(300, 3).tolist()
    [300, 300, 300]
    """
    scale = math.sqrt(math.log1p(spread**2))
    drawn = mean * np.exp(scale * np.random.default_rng(seed).standard_normal(count) - scale**2 / 2)
    return np.clip(np.rint(drawn), 1, min(most, MAX_TOKENS)).astype(int)


def asked_of(given: dict[str, Any]) -> tuple[Asked, dict[str, None]]:
    """The load and the limits, checked; and what was not given."""
    given, said = _named(given)
    given, trace = _traced(given)
    loads = {name: given[name] for name in ("rate", "users", "concurrency") if given[name] is not None}
    if len(loads) != 1:
        raise ValueError(
            f"{' and '.join(loads) or 'no load'} given: give one of rate (requests/s), users, concurrency, arrival"
        )
    ((name, load),) = loads.items()
    tokens = {each: LENGTH.read(given[each], each) for each in ("input_len", "output_len")}
    pause = figure("service-think-time") if given["think"] is None else given["think"]
    limit = {each: math.inf if given[each] is None else given[each] for each in ("ttft", "tpot")}
    rate, clients = (load, math.nan) if name == "rate" else (math.nan, load)
    asked = Asked(
        rate,
        clients,
        pause if name == "users" else 0.0,
        tokens["input_len"],
        tokens["output_len"],
        given["input_spread"],
        given["output_spread"],
        given["burstiness"],
        limit["ttft"],
        limit["tpot"],
        given["kept"],
        given["policy"],
        trace,
    )
    waits = {f"think = {pause:g} s": None} if name == "users" and given["think"] is None else {}
    return asked, {**said, **waits}


def _named(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, None]]:
    """Arguments with lengths where data sets stand for them or none are given; and what is assumed."""
    named = {name: given[name] for name in request_sets.COLUMNS}
    if not all(each is None or isinstance(each, (str, float, int)) for each in named.values()):
        usual = {name: USUAL[name] for name, each in named.items() if each is None}
        return {**given, **usual}, dict.fromkeys(f"{name} = {value}" for name, value in usual.items())
    lengths = {name: request_sets.mean_tokens(name, each) for name, each in named.items() if request_sets.is_name(each)}
    set_of = {ANSWER: request_sets.answers_of(named[PROMPT], named[ANSWER], USUAL[ANSWER])} if lengths else {}
    usual = {name: USUAL[name] for name, each in named.items() if each is None and name not in set_of}
    said = [str(request_sets.told(named[PROMPT], named[ANSWER]))] if lengths else []
    said += [f"{name} = {value}" for name, value in usual.items()]
    return {**given, **usual, **set_of, **lengths}, dict.fromkeys(said)


def _traced(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments with means and spreads of a trace in its place; and the trace."""
    trace, given = dict[str, Any](), dict(given)
    listed_ones = [
        each
        for each in ("input_len", "output_len", "arrival")
        if isinstance(given[each], (list, tuple)) or np.ndim(given[each]) > 0
    ]
    if given["arrival"] is not None and "arrival" not in listed_ones:
        raise refused("arrival", given["arrival"], ": give one time for each request")
    if not listed_ones:
        return given, trace
    for name in listed_ones:
        trace[name] = Field.array(0, missing=False).read(given[name], name)
        if trace[name].ndim != 1 or trace[name].size < LEAST_TRACE:
            raise ValueError(
                f"{name} is a trace of {trace[name].size:,} requests: give {LEAST_TRACE} or more in a list, or one mean"
            )
    size = len(trace[listed_ones[0]])
    if any(len(each) != size for each in trace.values()):
        told = " and ".join(f"{name} {len(each):,}" for name, each in trace.items())
        raise ValueError(f"a trace has one of each for every request: {told}; give lists of one length")
    if ("input_len" in trace) != ("output_len" in trace):
        (alone,) = {"input_len", "output_len"} & set(trace)
        raise ValueError(f"{alone} is a list: give input_len and output_len as lists of one length, or both as means")
    for name in ("input_len", "output_len"):
        if name in trace:
            bad = trace[name][~((trace[name] >= 1) & (trace[name] == np.floor(trace[name])))]
            if bad.size:
                raise ValueError(f"{name} = {bad[0]:g}: a length is a whole number of tokens, 1 or more")
            mean = float(trace[name].mean())
            given |= {name: mean, name.replace("len", "spread"): float(trace[name].std()) / mean}
    if "arrival" in trace:
        gaps = np.diff(trace["arrival"])
        if not np.all(gaps >= 0) or not trace["arrival"][0] >= 0 or not 0 < gaps.sum() < math.inf:
            raise ValueError("arrival must be one time for each request, from 0 s and in order")
        if others := [each for each in ("rate", "users", "concurrency") if given[each] is not None]:
            raise ValueError(
                f"{others[0]} and arrival given: give one of rate (requests/s), users, concurrency, arrival"
            )
        mean = float(gaps.mean())
        given |= {"rate": 1 / mean, "burstiness": float(gaps.var()) / mean**2}
    return given, trace
