"""Valid configurations of a language model, as constraints that all public functions share, and the grid of them.

Rows of reports are read with patience (`REPORTED`): they ran, whatever their cells say. What a reader asks for is held
to more (`REQUESTED`): shards divide heads, layers, tokens and devices. And the usual configuration where the
reader states none: the fastest that fits, with chunks of its stages as in recipes of the software.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cookbook import catalog
from cookbook.catalog.refusals import Refusal
from cookbook.prediction.scenario import Coded, Scenario, each_row

if TYPE_CHECKING:
    from cookbook.prediction.kinds.transformer import TransformerRows

# Sequences from here on are worth splitting [tokens].
MIN_SPLIT_TOKENS = 8192
# Chunks of a pipeline's stage that a search tries; the most that recipes of interleaving stacks cut it into.
CHUNKS, MAX_CHUNKS = (1, 2, 4), 6
# More combinations than this would take minutes.
MAX_COMBINATIONS = 2**26
# Fields of which any one, if stated, means that the reader has a configuration in mind.
CONFIGURATION = ("tp", "pp", "vp", "cp", "ep", "dp", "zero", "shard")
# What a search fills in, and where it is worth a word.
PLAIN_VALUES = {"tp": 1.0, "pp": 1.0, "vp": 1.0, "cp": 1.0, "ep": 1.0, "zero": 0.0, "micro_batch": 0.0}
# Stacks whose recipes interleave the stages of a pipeline.
INTERLEAVING = ("megatron-core",)
# ZeRO stages to try, micro-batches where the batch is stated, and configurations that are estimated at a time.
ZERO_STAGES, MICRO_BATCHES, BLOCK_CONFIGURATIONS = (1, 3), (1, 2, 4), 1 << 16
Filled = tuple[tuple[str, np.ndarray, np.ndarray], ...]
COUNTS = (
    "devices",
    "tp",
    "pp",
    "vp",
    "cp",
    "ep",
    "micro_batch",
    "seq",
    "per_node",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "ffn_hidden",
    "vocab",
)
# Counts that follow from the others where they are blank.
DERIVED_COUNTS = ("dp", "global_batch", "shard")
# Stated parameters beyond this multiple of those of the stated dimensions, or below their share, mean another model.
MAX_CONTRADICTION = 2.5
BLANK_MODEL = Refusal("model is blank: name a network of the zoo", "network-unknown", "model")
EXPERTS = ("experts", "experts_per_token", "shared_experts", "moe_ffn_hidden", "dense_layers")
# Schedules of one chunk a stage; the others take several, the usual one any number.
ONE_CHUNK = ("gpipe", "1f1b", "zero-bubble")


# ---- numbers that divide --------------------------------------------------------------------------------------------
def divisors(number: float, most: int | None = None) -> list[int]:
    """Return the divisors of an integer up to a most.

    >>> divisors(12, 6), divisors(7)
    ([1, 2, 3, 4, 6], [1, 7])
    """
    whole = int(number)
    low = np.arange(1, math.isqrt(whole) + 1)
    low = low[whole % low == 0]
    return [divisor for divisor in sorted({*low.tolist(), *(whole // low).tolist()}) if divisor <= (most or whole)]


def multiples(number: float, of: float) -> list[float]:
    """Return the multiples of a number around another, above 0.

    >>> multiples(64, 5), multiples(3, 8)
    ([60, 65], [8])
    """
    return [multiple for multiple in (number // of * of, (number // of + 1) * of) if multiple]


def around(value: float, good: Iterable[float]) -> list[float]:
    """Return the nearest good numbers below and above a value; empty where there is none.

    >>> around(3, divisors(32)), around(100, divisors(32)), around(64, multiples(64, 5))
    ([2, 4], [32], [60, 65])
    """
    numbers = list(good)
    below, above = [number for number in numbers if number < value], [number for number in numbers if number > value]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def alternatives(values: Iterable[float], form: str = "g") -> str:
    """Return numbers of which one would do, in words.

    >>> alternatives([2, 4]), alternatives([1024], ",")
    ('2 or 4', '1,024')
    """
    return " or ".join(f"{value:{form}}" for value in values)


def nearly_whole(numbers: Any) -> np.ndarray:
    """Return the same numbers, rounded where only the last digits of a float keep them from being integers.

    >>> nearly_whole([3.0000000000000004, 3.1]).tolist()
    [3.0, 3.1]
    """
    numbers = np.asarray(numbers, dtype=float)
    whole = np.round(numbers)
    return np.where(np.abs(numbers - whole) <= 1e-12 * whole, whole, numbers)


def even_stages(layers: Any, stages: Any) -> Any:
    """Return whether layers fill stages evenly, or a power of two of them where embedding and head count as layers.

    >>> even_stages(80, [16, 41]).tolist(), even_stages(126, [16, 9, 41]).tolist()
    ([True, False], [True, True, False])
    """
    layers, stages = np.asarray(layers), np.asarray(stages).astype(int)
    return (layers % stages == 0) | (((layers + 2) % stages == 0) & (stages & (stages - 1) == 0))


def stage_counts(layers: int, most: int) -> list[int]:
    """Return the numbers of pipeline stages, up to a most, that layers fill evenly."""
    counts = np.arange(1, min(layers, most) + 1)
    return counts[even_stages(layers, counts)].tolist()


def chunk_counts(layers: int, stages: int) -> list[int]:
    """Return the numbers of chunks of a stage that layers fill evenly.

    >>> chunk_counts(32, 4), chunk_counts(126, 16)
    ([1, 2, 4, 8], [1, 2, 4])
    """
    counts = np.arange(1, layers // stages + 1)
    return counts[even_stages(layers, stages * counts)].tolist()


# ---- constraints ----------------------------------------------------------------------------------------------------
class Constraint(NamedTuple):
    """A rule of parallelism configurations; `s` has their columns as attributes, of arrays or of one configuration.

    Attributes
    ----------
    code : str
        Of the table ``data/schema/reasons.csv``.
    broken : callable
        Which configurations of `s` break it.
    message : str
        What is wrong, with places for the figures and for the remedy.
    figures : callable
        Values of `s` in the message.
    remedy : callable, optional
        Numbers that would do in the place of one configuration's, or other words for them.
    """

    code: str
    broken: Callable[[Any], Any]
    message: str
    figures: Callable[[Any], tuple[Any, ...]] = lambda s: ()
    remedy: Callable[[Any], Sequence[float] | str] | None = None

    @property
    def general(self) -> Refusal:
        """Return the reason with placeholders for its values; the field at fault is the one that the message begins
        with."""
        field, equals, _ = self.message.partition(" = ")
        return Refusal(self.message, self.code, field if equals and field.isidentifier() else "")

    def refusal(self, s: Any) -> Refusal:
        """Return why one configuration is impossible, and what would do."""
        if self.remedy is None:
            return self.general.filled(*self.figures(s))
        near, form = self.remedy(s), "," if "{:,}" in self.message else "g"
        words = near if isinstance(near, str) else alternatives(near, form)
        filled = self.general.filled(*self.figures(s), words)
        return Refusal(filled, filled.code, filled.field, () if isinstance(near, str) else map(float, near))


def _model(s: Any) -> Any:
    """Return the devices that share one copy of the model."""
    return s.tp * s.pp * s.cp


def _cores_each(s: Any) -> np.ndarray:
    """Return what messages add to a number of devices: the cores of each, where these count as devices."""
    levels, codes = np.unique(s.cores, return_inverse=True)
    words = np.array(["" if level == 1 else f" with {level:g} cores each" for level in levels], dtype=object)
    return np.asarray(words[codes], dtype=object).reshape(np.shape(s.cores))


def _sharers(s: Any) -> Any:
    """Return the devices that share the experts of a stage."""
    return s.dp * s.cp * s.tp


def _fed(s: Any) -> Any:
    return s.micro_batches / s.flushes


def _weights(s: Any) -> Any:
    """Return the number of weights with the stated dimensions."""
    layer = 4 * s.hidden**2 + (2 + s.gated_mlp) * s.hidden * s.ffn_hidden
    return s.layers * layer + s.vocab * s.hidden


def _below(s: Any, names: tuple[str, ...], least: float) -> Any:
    """Return whether a count is missing, infinite or below a least."""
    bad: Any = False
    for name in names:
        bad = bad | ~((getattr(s, name) >= least) & (getattr(s, name) < np.inf))
    return bad


def _misses_devices(s: Any) -> Any:
    whole = _model(s) * s.dp
    return (np.abs(whole - s.devices * s.cores) > 0.01 * whole) | (s.dp != np.round(s.dp))


def _odd_widths(s: Any) -> Any:
    odd = _below(s, EXPERTS, 0) | ((s.latent_attention == 0) & (~(s.head_dim >= 1) | (s.head_dim == np.inf)))
    return odd | (s.experts_per_token > s.experts) | (s.dense_layers > s.layers)


def _more_stages_than_layers(s: Any) -> Any:
    return s.pp > s.layers


def _cuts_heads(s: Any) -> Any:
    return s.heads % s.tp > 0


def _cuts_tokens(s: Any) -> Any:
    return s.seq % s.cp > 0


def _cuts_experts(s: Any) -> Any:
    return s.experts % s.ep > 0


def _cuts_batch(s: Any) -> Any:
    count = nearly_whole(s.global_batch / (s.dp * s.micro_batch))
    return (count - np.floor(count) > 0) & (s.broken == 0)


def _known_mixture(s: Any) -> Any:
    return (s.moe == 1) & (s.experts_known == 1)


def _scheduled(s: Any, *schedules: str) -> Any:
    """Return pipelines of several stages with one of these schedules."""
    named: Any = False
    for schedule in schedules:
        named = named | (s.pipeline_schedule == schedule)
    return (s.pp > 1) & named


def _interleaves(s: Any) -> Any:
    """Return pipelines whose stages have chunks that take turns: said so, or with chunks and no schedule named."""
    return _scheduled(s, "interleaved") | (_scheduled(s, "") & (s.vp > 1))


MISSING = "a count of devices, layers, shards, batch or tokens is missing or below 1"
# What no row of a report can be: `unnamed` says whether its accelerator is unknown.
REPORTED = (
    Constraint(
        "accelerator-unknown",
        lambda s: s.unnamed,
        'the accelerator is not in the catalogue: take a key of cb.table("accelerators")',
    ),
    Constraint(
        "dimensions-contradict",
        lambda s: (s.moe == 0) & (np.abs(np.log(s.parameters / _weights(s))) > np.log(MAX_CONTRADICTION)),
        "parameters (params_b) = {:g} contradict layers, hidden and ffn_hidden, which make about {:g}",
        lambda s: (s.parameters, _weights(s)),
    ),
    Constraint(
        "network-unknown",
        lambda s: np.isnan(s.layers * s.hidden),
        "the model is not in the zoo, and neither its dimensions nor its parameters are given: fill layers and "
        "hidden, or parameters",
    ),
    Constraint(
        "precision-not-offered",
        lambda s: s.offered == 0,
        "precision: the catalogue knows no such arithmetic of this accelerator; take another",
    ),
    Constraint(
        "precision-not-offered",
        lambda s: np.isnan(s.peak * s.mem_bandwidth),
        "precision: the catalogue has no peak or no memory bandwidth of this accelerator in this number format",
    ),
    Constraint("count-missing", lambda s: _below(s, COUNTS, 1), MISSING),
    Constraint(
        "split-exceeds-devices",
        lambda s: _model(s) > s.devices * s.cores,
        "tp x pp x cp = {:g} is more than devices = {:g}{}",
        lambda s: (_model(s), s.devices, _cores_each(s)),
    ),
    Constraint(
        "split-not-devices",
        _misses_devices,
        "tp x pp x cp x dp = {:g} is not devices = {:g}{}",
        lambda s: (_model(s) * s.dp, s.devices, _cores_each(s)),
    ),
    Constraint("count-missing", lambda s: _below(s, DERIVED_COUNTS, 1), MISSING),
    Constraint(
        "stages-exceed-layers",
        _more_stages_than_layers,
        "pp = {:g} is more than layers = {:g}: a stage holds at least one",
        lambda s: (s.pp, s.layers),
    ),
    Constraint(
        "heads-not-divisible",
        lambda s: s.tp > s.heads,
        "tp = {:g} is more than heads = {:g}: a shard computes at least one",
        lambda s: (s.tp, s.heads),
    ),
    Constraint(
        "dimensions-impossible",
        lambda s: s.kv_heads > s.heads,
        "kv_heads = {:g} is more than heads = {:g}",
        lambda s: (s.kv_heads, s.heads),
    ),
    Constraint(
        "experts-not-divisible",
        lambda s: (s.moe == 1) & (s.ep > s.experts),
        "ep = {:g} is more than experts = {:g}",
        lambda s: (s.ep, s.experts),
    ),
    Constraint(
        "batch-below-replicas",
        lambda s: s.stated_dp & (s.global_batch < s.dp * 0.99),
        "global_batch = {:g} is less than dp = {:g}: every replica needs a sequence",
        lambda s: (s.global_batch, s.dp),
    ),
    Constraint(
        "dimensions-impossible",
        _odd_widths,
        "a width or a number of experts is negative, infinite, or larger than what it is a part of",
    ),
    Constraint(
        "dimensions-impossible",
        lambda s: s.offloaded_layers > s.layers,
        "offloaded_layers = {:g} is more than layers = {:g}",
        lambda s: (s.offloaded_layers, s.layers),
    ),
    Constraint(
        "dimensions-impossible",
        lambda s: (s.offloaded_layers > 0) & (s.offload_activations == 0),
        "offloaded_layers = {:g}: no activations lie in host memory; take offload = activations, or leave it out",
        lambda s: (s.offloaded_layers,),
    ),
)
# What a requested configuration keeps to beside: how the network and the devices are split,
SPLITS = (
    Constraint(
        "split-not-devices",
        lambda s: s.devices * s.cores % _model(s) > 0,
        "devices = {:g}{} is not a multiple of tp x pp x cp = {:g}: take {} devices, or other shards",
        lambda s: (s.devices, _cores_each(s), _model(s)),
        lambda s: around(s.devices, multiples(s.devices, _model(s) / (s.cores if _model(s) % s.cores == 0 else 1))),
    ),
    Constraint(
        "heads-not-divisible",
        lambda s: (s.heads_known == 1) & _cuts_heads(s),
        "tp = {:g} does not divide the {:g} attention heads: take {}",
        lambda s: (s.tp, s.heads),
        lambda s: around(s.tp, divisors(s.heads)),
    ),
    Constraint(
        "stages-exceed-layers",
        _more_stages_than_layers,
        "pp = {:g} is more than the {:g} layers: a stage holds at least one; take {}",
        lambda s: (s.pp, s.layers),
        lambda s: around(s.pp, divisors(s.layers)),
    ),
    Constraint(
        "layers-not-divisible",
        lambda s: (s.vp > 1) & ~even_stages(s.layers, s.pp * s.vp),
        "vp = {:g}: {:g} layers on pp = {:g} stages are not a whole number of layers for each chunk; take {}",
        lambda s: (s.vp, s.layers, s.pp),
        lambda s: around(s.vp, chunk_counts(s.layers, s.pp)) or "another pp",
    ),
    Constraint(
        "tokens-not-divisible",
        _cuts_tokens,
        "cp = {:g} does not divide the {:g} tokens of a sequence (seq): take {}",
        lambda s: (s.cp, s.seq),
        lambda s: around(s.cp, divisors(s.seq)),
    ),
    Constraint(
        "no-experts",
        lambda s: (s.ep > 1) & (s.moe == 0),
        "ep = {:g}: the model has no experts; take ep = 1",
        lambda s: (s.ep,),
    ),
    Constraint(
        "experts-not-divisible",
        lambda s: _known_mixture(s) & _cuts_experts(s),
        "ep = {:g} does not divide the {:g} experts: take {}",
        lambda s: (s.ep, s.experts),
        lambda s: around(s.ep, divisors(s.experts)),
    ),
    Constraint(
        "experts-not-divisible",
        lambda s: _known_mixture(s) & (_sharers(s) % s.ep > 0),
        "ep = {:g} does not divide dp x cp x tp = {:g}, the devices that share the experts: take {}",
        lambda s: (s.ep, _sharers(s)),
        lambda s: around(s.ep, divisors(math.gcd(int(_sharers(s)), int(s.experts)))),
    ),
    Constraint(
        "batch-not-divisible",
        _cuts_batch,
        "global_batch = {:g} is no multiple of dp x micro-batch = {:g} x {:g}: take {}, or a smaller batch of a device",
        lambda s: (s.global_batch, s.dp, s.micro_batch),
        lambda s: around(s.global_batch, multiples(s.global_batch, s.dp * s.micro_batch)),
    ),
)
# What an interleaved pipeline takes: rounds of as many micro-batches as it has stages.
ROUNDS = Constraint(
    "schedule-impossible",
    lambda s: _interleaves(s) & (_fed(s) % s.pp > 0),
    "global_batch = {:g} gives {:g} micro-batches, and an interleaved pipeline takes a multiple of "
    "pp = {:g}; take global_batch = {:g}",
    lambda s: (s.global_batch, _fed(s), s.pp, np.ceil(_fed(s) / s.pp) * s.pp * s.dp * s.micro_batch),
)
# what a schedule takes of chunks and micro-batches,
SCHEDULES = (
    Constraint(
        "schedule-impossible",
        lambda s: _scheduled(s, *ONE_CHUNK) & (s.vp != 1),
        "vp = {:g}: {} has one chunk a stage; take vp = 1, or pipeline_schedule = 'interleaved'",
        lambda s: (s.vp, s.pipeline_schedule),
    ),
    Constraint(
        "schedule-impossible",
        lambda s: _scheduled(s, "interleaved") & (s.vp < 2),
        "vp = {:g}: an interleaved pipeline has two chunks a stage or more; take vp = {}",
        lambda s: (s.vp,),
        lambda s: divisors(s.layers / s.pp)[1:3] or "1 and 1f1b",
    ),
    ROUNDS,
    Constraint(
        "schedule-impossible",
        lambda s: _scheduled(s, "zb-v") & (s.vp != 2),
        "vp = {:g}: zb-v has two chunks a stage; take vp = 2",
        lambda s: (s.vp,),
    ),
)
# and among how many replicas states are shared out.
SHARDS = (
    Constraint(
        "shard-not-divisible",
        lambda s: (s.stated_shard >= 1) & (s.dp * s.cp % s.stated_shard > 0),
        "shard = {:g} does not divide dp x cp = {:g}: take {}",
        lambda s: (s.stated_shard, s.dp * s.cp),
        lambda s: around(s.stated_shard, divisors(s.dp * s.cp)),
    ),
    Constraint(
        "shard-not-divisible",
        lambda s: (s.zero == 0) & (s.stated_shard > 1),
        "shard = {:g}: zero = 0 shares nothing out; take zero = 1, 2 or 3",
        lambda s: (s.stated_shard,),
    ),
)
REQUESTED = (
    *SPLITS,
    *SCHEDULES,
    *SHARDS,
    Constraint(
        "no-experts",
        lambda s: ~np.isnan(s.capacity_factor) & (s.moe == 0),
        "capacity_factor = {:g}: the model has no experts; leave it out",
        lambda s: (s.capacity_factor,),
    ),
)
# Axes that are fixed while the others are searched: of one configuration; `split` names those of `model`.
HELD = (
    Constraint(
        "heads-not-divisible",
        _cuts_heads,
        "tp = {:,} does not divide {:,} heads; nearest: {}",
        lambda s: (s.tp, s.heads),
        lambda s: around(s.tp, divisors(s.heads)),
    ),
    Constraint(
        "split-exceeds-devices",
        lambda s: s.tp > s.per_node,
        "tp = {:,} is more than the {:,} devices that the fast link joins; take no more, or set per_node",
        lambda s: (s.tp, s.per_node),
    ),
    Constraint(
        "layers-not-divisible",
        lambda s: _more_stages_than_layers(s) or not even_stages(s.layers, s.pp),
        "pp = {:,} does not divide {:,} layers; nearest: {}",
        lambda s: (s.pp, s.layers),
        lambda s: around(s.pp, stage_counts(s.layers, s.layers)),
    ),
    Constraint(
        "layers-not-divisible",
        lambda s: s.vp not in chunk_counts(s.layers, s.pp),
        "vp = {:,} does not divide the layers of pp = {:,} stages; nearest: {}",
        lambda s: (s.vp, s.pp),
        lambda s: around(s.vp, chunk_counts(s.layers, s.pp)) or "another pp",
    ),
    Constraint(
        "tokens-not-divisible",
        _cuts_tokens,
        "cp = {:,} does not divide {:,} tokens of a sequence; nearest: {}",
        lambda s: (s.cp, s.seq),
        lambda s: around(s.cp, divisors(s.seq)),
    ),
    Constraint(
        "experts-not-divisible",
        _cuts_experts,
        "ep = {:,} does not divide {:,} experts; nearest: {}",
        lambda s: (s.ep, s.experts),
        lambda s: around(s.ep, divisors(s.experts)),
    ),
    Constraint(
        "split-not-devices",
        lambda s: s.devices % s.model > 0,
        "devices = {:,} is not a multiple of {} = {:,}; nearest: {}",
        lambda s: (s.devices, s.split, s.model),
        lambda s: around(s.devices, multiples(s.devices, s.model)),
    ),
    Constraint(
        "batch-not-divisible",
        _cuts_batch,
        "global_batch = {:,} is not a multiple of replicas x micro-batch = {:,} x {:,} = {:,}; nearest: {}",
        lambda s: (s.global_batch, s.dp, s.micro_batch, s.dp * s.micro_batch),
        lambda s: around(s.global_batch, multiples(s.global_batch, s.dp * s.micro_batch)),
    ),
)


def refusals(v: Mapping[str, np.ndarray], accelerator: Coded, why: np.ndarray) -> np.ndarray:
    """Return why each row cannot be predicted; "" where it can."""
    s, reasons_of = SimpleNamespace(**v, unnamed=accelerator.where(lambda key: key == "")), None
    for constraint in REPORTED:
        bad = constraint.broken(s)
        if bad.any():
            reasons_of = with_reason(
                why if reasons_of is None else reasons_of, bad, constraint.general, constraint.figures(s)
            )
    return why if reasons_of is None else reasons_of


def with_reason(why: np.ndarray, bad: Any, reason: Refusal | np.ndarray, figures: Sequence[Any]) -> np.ndarray:
    """Return refusals with one more, its values filled in, for bad rows without one so far."""
    new = (why == "") & bad
    if not new.any():
        return why
    words: Any = reason.cell if isinstance(reason, Refusal) else reason
    if figures and isinstance(reason, Refusal):
        # Of a grid there are as few reasons as distinct values in them.
        shape = np.broadcast_shapes(np.shape(bad), *map(np.shape, figures))
        at = np.flatnonzero(new if new.shape == shape else np.broadcast_to(bad, shape))
        rows = zip(*(np.broadcast_to(values, shape).reshape(-1)[at].tolist() for values in figures), strict=True)
        words = np.full(math.prod(shape), "", dtype=object)
        words[at] = [reason.filled(*row) for row in rows]
        words = words.reshape(shape)
    return np.where(new, words, why.astype(object))


def impossible(s: TransformerRows, scenario: Scenario) -> np.ndarray:
    """Return why each requested configuration, made to rows, is impossible; "" where it is not, one "" where none is.

    Reasons of rows in a grid contain no values, since otherwise there would be one sentence for each row.
    """
    columns = {**s.values, "pipeline_schedule": scenario.words("pipeline_schedule").each(str, object)}
    with np.errstate(all="ignore"):
        configurations, why = SimpleNamespace(**columns), np.array("", dtype=object)
        if s.in_grid:
            for constraint in REQUESTED:
                if np.any(bad := constraint.broken(configurations)):
                    why = np.where(bad & (why == ""), Refusal(reasons()[constraint.code], constraint.code).cell, why)
            return why
        if possible(configurations, REQUESTED).all():
            return why
        why = np.full(len(s), "", dtype=object)
        columns = {name: np.broadcast_to(value, len(s)) for name, value in columns.items()}
        configurations = SimpleNamespace(**columns)
        for constraint in REQUESTED:
            for row in np.flatnonzero(constraint.broken(configurations) & (why == "")):
                one = SimpleNamespace(**{name: column[row] for name, column in columns.items()})
                why[row] = constraint.refusal(one)
    return why


@lru_cache(maxsize=1)
def reasons() -> dict[str, str]:
    """Return the sentence of each code for any row, from ``data/schema/reasons.csv``."""
    with (catalog.data_directory() / "schema" / "reasons.csv").open(encoding="utf-8", newline="") as file:
        return {row["code"]: row["description"] for row in csv.DictReader(file)}


def possible(s: Any, constraints: Sequence[Constraint]) -> np.ndarray:
    """Return which configurations meet all constraints."""
    met: Any = np.array(True)
    for constraint in constraints:
        met = met & ~np.asarray(constraint.broken(s), dtype=bool)
    return np.asarray(met)


def share_passes(v: dict[str, np.ndarray], assumed: list[Any]) -> None:
    """Set the micro-batches of a step; where a table's batch is no integer number of passes, these share it out evenly.

    A pass has one sample at least: with fewer, some replicas wait in the last one.
    """
    once, batch, replicas = v["micro_batch"], v["global_batch"], v["dp"]
    with np.errstate(divide="ignore", invalid="ignore"):
        count = nearly_whole(batch / (replicas * once))
        broken = (v["even_passes"] == 1) & (count - np.floor(count) > 0) & (batch >= replicas)
        passes = np.where(broken, np.ceil(count), count)
        v["micro_batch"] = np.where(broken, np.maximum(batch / (replicas * passes), np.minimum(once, 1.0)), once)
    v["micro_batches"], v["broken"] = np.maximum(passes, 1.0), np.asarray(broken, dtype=float)
    assumed.append(("micro_batch of passes that share the batch out evenly", broken, v["micro_batch"]))


# ---- grids ----------------------------------------------------------------------------------------------------------
def context_sizes(seq: float) -> list[int]:
    """Return ways to split a sequence into parts that are long enough to be worth it."""
    return [
        c
        for c in (1, 2, 4, 8, 16)
        if c == 1 or (seq >= MIN_SPLIT_TOKENS and seq / c >= MIN_SPLIT_TOKENS / 2 and seq % c == 0)
    ]


def usual_chunks(layers: Any, stages: Any) -> np.ndarray:
    """Return the chunks of a stage in recipes of interleaving software: the most, up to 6, of two layers or more each.

    >>> usual_chunks([96, 80, 126, 61], [8, 4, 16, 16]).tolist()
    [6.0, 5.0, 4.0, 1.0]
    """
    layers, stages = np.asarray(layers, dtype=float), np.maximum(np.nan_to_num(np.asarray(stages, dtype=float)), 1)
    counts = np.arange(2.0, MAX_CHUNKS + 1).reshape(-1, *[1] * np.broadcast(layers, stages).ndim)
    with np.errstate(invalid="ignore"):
        whole = even_stages(layers, stages * counts) & (np.ceil(layers / stages) >= 2 * counts)
    return np.asarray(np.where(whole, counts, 1.0).max(axis=0))


def configuration_grid(
    shape: Mapping[str, int],
    per_node: Mapping[int, int],
    batch: int,
    seq: int,
    axes: Mapping[str, Sequence[Any]],
    rules: Sequence[Constraint] = (*SPLITS, ROUNDS),
) -> dict[str, np.ndarray]:
    """Return all valid combinations of the axes, as arrays.

    Parameters
    ----------
    shape : mapping of str to int
        Layers, heads and experts of the model.
    per_node : mapping of int to int
        Of each number of devices to try, how many of them the fast link joins.
    batch, seq : int
        Sequences of one step; tokens of each.
    axes : mapping of str to sequence
        micro_batch, zero and recompute to try.
    rules : sequence of Constraint
        What configurations meet; by default they also fill whole rounds of an interleaved pipeline.

    Returns
    -------
    dict of str to numpy.ndarray
        devices, tp, pp, vp, cp, ep, micro_batch, zero, recompute and dp, one entry for each configuration.
    """
    recompute, zeros = np.array(axes["recompute"]), axes["zero"]
    parts: list[dict[str, np.ndarray]] = []
    for count, node in per_node.items():
        tensor = [t for t in divisors(shape["heads"], node) if count % t == 0]
        stages = [p for p in stage_counts(shape["layers"], count) if count % p == 0]
        experts = divisors(shape["experts"], count) if shape["experts"] else [1]
        tried = (tensor, stages, CHUNKS, context_sizes(seq), experts, axes["micro_batch"], zeros, range(len(recompute)))
        if math.prod(map(len, tried)) > MAX_COMBINATIONS / len(per_node):
            raise ValueError(f"micro_batch has {len(axes['micro_batch']):,} values: too many combinations; give fewer")
        tp, pp, vp, cp, ep, micro, zero, kind = (axis.ravel() for axis in np.meshgrid(*tried, indexing="ij"))
        dp = np.maximum(count // (tp * pp * cp), 1)
        fits = possible(
            SimpleNamespace(
                devices=count,
                cores=1,
                tp=tp,
                pp=pp,
                vp=vp,
                cp=cp,
                ep=ep,
                dp=dp,
                micro_batch=micro,
                micro_batches=batch // (dp * micro),
                flushes=1,
                pipeline_schedule="",
                global_batch=batch,
                seq=seq,
                **shape,
                moe=int(shape["experts"] > 0),
                heads_known=1,
                experts_known=1,
                broken=0,
            ),
            rules,
        )
        fits &= (vp == 1) | (pp > 1)  # one stage has no chunks
        # Gathering weights for every micro-batch of a pipeline defeats both.
        fits &= (zero < 3) | (pp == 1)
        fits &= (zero == min(zeros)) | (dp * cp > 1)  # nothing is shared out among one
        columns = {
            "devices": np.full(len(tp), count),
            "tp": tp,
            "pp": pp,
            "vp": vp,
            "cp": cp,
            "ep": ep,
            "micro_batch": micro,
            "zero": zero,
            "recompute": recompute[kind],
            "dp": dp,
        }
        parts.append({name: column[fits] for name, column in columns.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def with_usual_configurations(
    scenario: Scenario,
    rows: TransformerRows,
    held: Callable[[TransformerRows], np.ndarray],
    estimated: Callable[[Scenario], Any],
) -> tuple[Scenario, Filled]:
    """Return a scenario whose blank configurations are filled in.

    Where the plain configuration of a number of devices does not fit and the reader states none, it is the fastest of
    those that do fit, by formulas alone, in sequences per second. Pipelines of software that interleaves have the
    chunks of its recipes, where the micro-batches allow it. Of rows in a grid all but the chunks is stated.

    Parameters
    ----------
    scenario : Scenario
        Steps of language models, as asked.
    rows : TransformerRows
        The same, resolved, with plain configurations.
    held : callable
        Bytes by which rows are larger than the memory of a device.
    estimated : callable
        Estimates of a scenario.

    Returns
    -------
    Scenario
        The same one where nothing is filled in.
    tuple of (str, numpy.ndarray of bool, numpy.ndarray)
        Fields that were filled in: in which rows, and with what.
    """
    columns: dict[str, np.ndarray] = {}
    at = _without_configuration(scenario, rows)
    at = at[held(rows.take(at) if len(rows) > 1 else rows)[: len(at)] > 0] if len(at) else at
    if len(at):
        columns = _fastest(scenario, rows, at, estimated)
    columns = _with_chunks(scenario, rows, columns)
    filled = tuple(
        (name, column > PLAIN_VALUES[name], column)
        for name, column in columns.items()
        if np.any(column > PLAIN_VALUES[name])
    )
    if not columns:
        return scenario, ()
    whole = {name: np.where(np.isnan(column), scenario.number(name), column) for name, column in columns.items()}
    return Scenario(scenario.kind, len(scenario), {**scenario.columns, **whole}, scenario.why, scenario.read), filled


def _without_configuration(scenario: Scenario, rows: TransformerRows) -> np.ndarray:
    """Return rows of several devices for which the reader states no configuration."""
    blank = np.asarray(rows.why == "") & (rows.devices * rows.cores > 1) & ~np.isnan(scenario.number("devices"))
    for name in CONFIGURATION:
        blank = blank & np.isnan(scenario.number(name))
    return np.flatnonzero(np.broadcast_to(blank, (len(scenario),))) if np.any(blank) else np.empty(0, dtype=int)


def _fastest(
    scenario: Scenario, rows: TransformerRows, at: np.ndarray, estimated: Callable[[Scenario], Any]
) -> dict[str, np.ndarray]:
    """Return the fastest configuration that fits of each of some rows; NaN where none fits."""
    names = ("layers", "heads", "experts", "moe", "devices", "cores", "per_node", "seq")
    numbers = {name: each_row(np.asarray(getattr(rows, name), dtype=float), len(rows))[at] for name in names}
    batch, micro = (
        np.broadcast_to(scenario.number(name), (len(scenario),))[at] for name in ("global_batch", "micro_batch")
    )
    grids = [
        _grid(
            int(layers),
            int(heads),
            int(experts if moe else 0),
            int(devices * cores),
            int(node),
            int(seq),
            0 if np.isnan(total) else int(total),
            0 if np.isnan(samples) else int(samples),
        )
        for layers, heads, experts, moe, devices, cores, node, seq, total, samples in zip(
            *numbers.values(), batch, micro, strict=True
        )
    ]
    columns = {name: np.full(len(scenario), np.nan) for name in PLAIN_VALUES}
    sizes = np.array([len(grid["tp"]) for grid in grids])
    start = 0
    while start < len(at):
        some = max(int(np.searchsorted(np.cumsum(sizes[start:]), BLOCK_CONFIGURATIONS, side="right")), 1)
        part = slice(start, start + some)
        start += some
        if not sizes[part].sum():
            continue
        repeated = np.repeat(at[part], sizes[part])
        tried = {name: np.concatenate([grid[name] for grid in grids[part]]) for name in PLAIN_VALUES}
        selected = scenario.take(repeated)
        candidates = Scenario(selected.kind, len(selected), {**selected.columns, **tried}, selected.why, selected.read)
        steps = estimated(candidates)
        able = (steps.fits == "yes") & np.isfinite(steps.point)
        rate = np.where(able, steps.rows.global_batch / steps.point, 0.0)
        # Rates alike to five digits are the same, whatever the processor; the first of the grid is taken.
        rate = np.array([float(f"{value:.5g}") for value in rate.tolist()])
        ends = np.cumsum(sizes[part])
        for row, end, size in zip(at[part].tolist(), ends.tolist(), sizes[part].tolist(), strict=True):
            best = end - size + int(np.argmax(rate[end - size : end])) if size else 0
            if size and rate[best] > 0:
                for name, values in tried.items():
                    columns[name][row] = values[best]
    # A micro-batch that is stated is not filled in; nor is anything where no configuration fits.
    columns["micro_batch"] = np.where(np.isnan(scenario.number("micro_batch")), columns["micro_batch"], np.nan)
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}


@lru_cache(maxsize=4096)
def _grid(
    layers: int, heads: int, experts: int, devices: int, node: int, seq: int, batch: int, micro: int
) -> Mapping[str, np.ndarray]:
    """Return the configurations of one question; a batch or micro-batch of 0 is not stated."""
    shape = {"layers": layers, "heads": heads, "experts": experts}
    small = (micro,) if micro else MICRO_BATCHES if batch else (1,)
    axes = {"micro_batch": small, "zero": ZERO_STAGES, "recompute": ("",)}
    grid = configuration_grid(shape, {devices: min(node, devices)}, batch or devices * small[0], seq, axes)
    return {name: grid[name].astype(float) for name in PLAIN_VALUES}


def interleaved(scenario: Scenario, rows: TransformerRows) -> np.ndarray:
    """Return the chunks of a stage of interleaved pipelines, where they are not stated; NaN of all others.

    They say so, or their software does where nothing is stated. An interleaved pipeline takes an integer number of
    rounds of micro-batches. `scenario` and `rows` may be in a grid.
    """
    blank = np.isnan(scenario.number("vp")) & (rows.pp > 1) & np.asarray(rows.why == "")
    if not np.any(blank):
        return np.array(np.nan)
    schedule, chunks = scenario.words("pipeline_schedule"), usual_chunks(rows.layers, rows.pp)
    usual = schedule.where(lambda word: not word) & rows.keys["engine"].where(lambda level: level in INTERLEAVING)
    blank = blank & (usual | schedule.where(lambda word: word == "interleaved")) & (chunks > 1)
    blank = blank & (np.mod(np.rint(rows.micro_batches), np.maximum(rows.pp, 1)) == 0)
    return np.where(blank, chunks, np.nan)


def _with_chunks(scenario: Scenario, rows: TransformerRows, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return also the chunks of a stage of interleaved pipelines; those of a chosen configuration are unchanged."""
    chunks = interleaved(scenario, rows)
    if "vp" in columns:
        chunks = np.where(np.isnan(columns["vp"]), chunks, columns["vp"])
    return columns if np.isnan(chunks).all() else {**columns, "vp": chunks}
