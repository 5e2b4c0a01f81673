"""Parallelism configurations: what the fullest device holds, and those that cannot be, with the nearest that would do.

Rows of reports are read with patience (`refusals`): they ran, whatever their cells say. What a reader asks for is held
to more (`impossible`): shards divide heads, layers, tokens and devices.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.performance import memory as formulas
from cookbook.performance.parallelism import FILLED
from cookbook.performance.transformer_training import aligned
from cookbook.prediction.constants import Constant, figure
from cookbook.prediction.scenario import RECOMPUTED, Coded, Scenario
from cookbook.workloads.ops import attention_products, latent_products, mlp_products, weights_of

Words = Callable[[int], str]
COUNTS = (
    "devices", "tp", "pp", "vp", "cp", "ep", "micro_batch", "seq_len", "per_node", "layers", "hidden", "heads",
    "kv_heads", "ffn_hidden", "vocab",
)  # fmt: skip
# Counts that follow from the others where they are blank.
FOLLOWING = ("dp", "global_batch", "shard_group")
# Stated parameters beyond so many times those of the stated dimensions, or below their share, mean another model.
CONTRADICTS = 2.5
EXPERTS = ("experts", "experts_per_token", "shared_experts", "moe_ffn_hidden", "dense_layers")
MEMORY_CONSTANTS = (
    Constant("activation_margin", 1.15, 0.9, 1.5),
    Constant("reserved_bytes", 1e9, 3e8, 4e9, "", "B"),
)
# A weight and an activation in 16 bits; master weight, momentum and variance of Adam in 32.
WEIGHT, OPTIMISER = 2.0, 12.0
QUANTISED = figure("quantised-weight")
AGAIN = tuple(f"again_{part}" for part in RECOMPUTED)


def refusals(v: Mapping[str, np.ndarray], accelerator: Coded, why: np.ndarray) -> np.ndarray:
    """Why a row cannot be predicted; empty where it can."""
    found = None
    for bad, reason, *figures in _refused(v, accelerator):
        if bad.any():
            found = told(why if found is None else found, bad, reason, figures)
    return why if found is None else found


def told(why: np.ndarray, bad: Any, reason: str, figures: Sequence[Any]) -> np.ndarray:
    """Reasons with one more, its figures filled in, for bad rows that have none yet."""
    new = (why == "") & bad
    if not new.any():
        return why
    words: Any = reason
    if figures:
        # Of a grid the reasons stay as few as the figures that they tell.
        shape = np.broadcast_shapes(np.shape(bad), *map(np.shape, figures))
        at = np.flatnonzero(new if new.shape == shape else np.broadcast_to(bad, shape))
        rows = zip(*(np.broadcast_to(each, shape).reshape(-1)[at].tolist() for each in figures), strict=True)
        words = np.full(math.prod(shape), "", dtype=object)
        words[at] = [reason.format(*row) for row in rows]
        words = words.reshape(shape)
    return np.where(new, words, why.astype(object))


def _bad(v: Mapping[str, np.ndarray], names: tuple[str, ...], least: float) -> Any:
    bad: Any = False
    for name in names:
        bad = bad | ~((v[name] >= least) & (v[name] < np.inf))
    return bad


def _refused(v: Mapping[str, np.ndarray], accelerator: Coded) -> Iterator[tuple[Any, ...]]:
    below = "a count of devices, layers, shards, batch or tokens is missing or below 1"
    unknown = accelerator.where(lambda key: key == "")
    yield unknown, 'the accelerator is not in the catalogue: take a key of cb.table("accelerators")'
    layer = 4 * v["hidden"] ** 2 + (2 + v["gated"]) * v["hidden"] * v["ffn_hidden"]
    weights = v["layers"] * layer + v["vocab"] * v["hidden"]
    off = (v["moe"] == 0) & (np.abs(np.log(v["params"] / weights)) > np.log(CONTRADICTS))
    yield off, ("parameters (params_b) = {:g} contradict layers, hidden and ffn_hidden, which make about {:g}"
                ), v["params"], weights  # fmt: skip
    yield np.isnan(v["layers"] * v["hidden"]), ("the model is not in the zoo, and neither its dimensions nor its "
          "parameters are given: fill layers and hidden, or parameters")  # fmt: skip
    yield v["offered"] == 0, "precision: the catalogue knows no such arithmetic of this accelerator; take another"
    yield np.isnan(v["peak"] * v["mem_bandwidth"]), ("precision: the catalogue has no peak or no memory bandwidth of "
          "this accelerator in this number format")  # fmt: skip
    yield _bad(v, COUNTS, 1), below
    devices, layout = v["devices"] * v["cores"], v["tp"] * v["pp"] * v["cp"]
    yield layout > devices, "tp x pp x cp = {:g} is more than devices = {:g}", layout, devices
    whole = layout * v["dp"]
    odd = (np.abs(whole - devices) > 0.01 * whole) | (v["dp"] != np.round(v["dp"]))
    yield odd, "tp x pp x cp x dp = {:g} is not devices = {:g}", whole, devices
    yield _bad(v, FOLLOWING, 1), below
    for shards, of, holds in (("pp", "layers", "a stage holds"), ("tp", "heads", "a shard computes")):
        yield v[shards] > v[of], f"{shards} = {{:g}} is more than {of} = {{:g}}: {holds} at least one", v[shards], v[of]
    yield v["kv_heads"] > v["heads"], "kv_heads = {:g} is more than heads = {:g}", v["kv_heads"], v["heads"]
    yield (v["moe"] == 1) & (v["ep"] > v["experts"]), "ep = {:g} is more than experts = {:g}", v["ep"], v["experts"]
    short = v["stated_dp"] & (v["global_batch"] < v["dp"] * 0.99)
    said = "global_batch = {:g} is less than dp = {:g}: every replica needs a sequence"
    yield short, said, v["global_batch"], v["dp"]
    odd = _bad(v, EXPERTS, 0) | ((v["latent"] == 0) & (~(v["head_dim"] >= 1) | (v["head_dim"] == np.inf)))
    odd = odd | (v["experts_per_token"] > v["experts"]) | (v["dense_layers"] > v["layers"])
    yield odd, "a width or a number of experts is negative, infinite, or larger than what it is a part of"


def impossible(s: Any, asked: Scenario) -> np.ndarray:
    """Why each configuration that a reader asks for, made to rows, cannot be; "" where it can, one where all can.

    Rows in a grid are told in the words of any row, since sentences with figures would be as many as rows.
    """
    schedule, why = asked.words("pipeline_schedule").each(str, object), np.array("", dtype=object)
    with np.errstate(all="ignore"):
        if s.in_grid:
            for code, bad, _ in _checks(s, schedule):
                if np.any(bad):
                    why = np.where(bad & (why == ""), reasons()[code], why)
        elif any(bad.any() for _, bad, _ in _checks(s, schedule)):
            why = np.full(len(s), "", dtype=object)
            rows = _View({name: np.broadcast_to(value, len(s)) for name, value in s.values.items()})
            for _, bad, words in _checks(rows, np.broadcast_to(schedule, len(s))):
                for row in np.flatnonzero(bad & (why == "")):
                    why[row] = words(int(row))
    return why


@lru_cache(maxsize=1)
def reasons() -> dict[str, str]:
    """What each code says of any row, from ``data/schema/reasons.csv``."""
    with (catalog.data_directory() / "schema" / "reasons.csv").open(encoding="utf-8", newline="") as file:
        return {row["code"]: row["description"] for row in csv.DictReader(file)}


Check = tuple[str, np.ndarray, Words]


def _checks(s: Any, schedule: np.ndarray) -> list[Check]:
    return [*_splits(s), *_batches(s), *_schedules(s, schedule), *_options(s)]


class _View:
    """Columns as attributes, one entry a row each."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self.__dict__.update(values)


def nearly_whole(numbers: Any) -> np.ndarray:
    """The same numbers, rounded where only the last digits of a float keep them from being whole.

    >>> nearly_whole([3.0000000000000004, 3.1]).tolist()
    [3.0, 3.1]
    """
    numbers = np.asarray(numbers, dtype=float)
    whole = np.round(numbers)
    return np.where(np.abs(numbers - whole) <= 1e-12 * whole, whole, numbers)


def share_passes(v: dict[str, np.ndarray], assumed: list[Any]) -> None:
    """Micro-batches of a step; of rows of tables whose batch is no whole number of passes, these share it out evenly.

    A pass has one sample at least: with fewer, some replicas wait in the last one.
    """
    once, batch, replicas = v["micro_batch"], v["global_batch"], v["dp"]
    with np.errstate(divide="ignore", invalid="ignore"):
        count = nearly_whole(batch / (replicas * once))
        broken = (v["even_passes"] == 1) & (count - np.floor(count) > 0) & (batch >= replicas)
        taken = np.where(broken, np.ceil(count), count)
        v["micro_batch"] = np.where(broken, np.maximum(batch / (replicas * taken), np.minimum(once, 1.0)), once)
    v["micro_batches"], v["broken"] = np.maximum(taken, 1.0), np.asarray(broken, dtype=float)
    assumed.append(("micro_batch of passes that share the batch out evenly", broken, v["micro_batch"]))


def _splits(s: Any) -> list[Check]:
    ranks = s.dp * s.cp * s.tp

    def divides(code: str, name: str, what: str, wanted: str) -> Check:
        value, whole = getattr(s, name), getattr(s, what)
        return (
            code,
            whole % value > 0,
            lambda row: (
                f"{name} = {value[row]:g} does not divide the {whole[row]:g} {wanted}: "
                f"take {nearest_divisors(value[row], whole[row])}"
            ),
        )

    layers, model, mixture = s.layers / s.pp, s.tp * s.pp * s.cp, (s.moe == 1) & (s.experts_known == 1)
    return [
        ("split-not-devices", s.devices * s.cores % model > 0, lambda row: (
            f"devices = {s.devices[row]:g} is not a multiple of tp x pp x cp = {model[row]:g}: take "
            f"{nearest_multiples(s.devices[row], model[row] / s.cores[row])} devices, or other shards")),
        ("heads-not-divisible", (s.heads_known == 1) & (s.heads % s.tp > 0),
         divides("", "tp", "heads", "attention heads")[2]),
        ("stages-exceed-layers", s.pp > s.layers, lambda row: (
            f"pp = {s.pp[row]:g} is more than the {s.layers[row]:g} layers: a stage holds at least one; take "
            f"{nearest_divisors(s.pp[row], s.layers[row])}")),
        ("layers-not-divisible", (s.vp > 1) & ~even_stages(s.layers, s.pp * s.vp), lambda row: (
            f"vp = {s.vp[row]:g}: {s.layers[row]:g} layers on pp = {s.pp[row]:g} stages are not a whole number of "
            f"layers for each chunk; take {nearest_divisors(s.vp[row], layers[row])}")),
        divides("tokens-not-divisible", "cp", "seq_len", "tokens of a sequence (seq)"),
        ("no-experts", (s.ep > 1) & (s.moe == 0), lambda row: (
            f"ep = {s.ep[row]:g}: the model has no experts; take ep = 1")),
        ("experts-not-divisible", mixture & (s.experts % s.ep > 0), divides("", "ep", "experts", "experts")[2]),
        ("experts-not-divisible", mixture & (ranks % s.ep > 0), lambda row: (
            f"ep = {s.ep[row]:g} does not divide dp x cp x tp = {ranks[row]:g}, the devices that share the experts: "
            f"take {nearest_divisors(s.ep[row], np.gcd(int(ranks[row]), int(s.experts[row])))}")),
    ]  # fmt: skip


def _batches(s: Any) -> list[Check]:
    once = s.dp * s.micro_batch

    def words(row: int) -> str:
        count = max(int(s.global_batch[row] // once[row]), 1)
        near = sorted({count * once[row], (count + (s.global_batch[row] >= once[row])) * once[row]})
        return (
            f"global_batch = {s.global_batch[row]:g} is no multiple of dp x micro-batch = {s.dp[row]:g} x "
            f"{s.micro_batch[row]:g}: take {_or(near)}, or a smaller batch of a device"
        )

    count = nearly_whole(s.global_batch / once)
    return [("batch-not-divisible", (count - np.floor(count) > 0) & (s.broken == 0), words)]


def _schedules(s: Any, schedule: np.ndarray) -> list[Check]:
    piped = s.pp > 1
    fed = s.micro_batches / s.flushes
    whole = (schedule == "gpipe") | (schedule == "1f1b") | (schedule == "zero-bubble")
    return [
        ("schedule-impossible", piped & whole & (s.vp != 1), lambda row: (
            f"vp = {s.vp[row]:g}: {schedule[row]} has one chunk a stage; take vp = 1, or "
            "pipeline_schedule = 'interleaved'")),
        ("schedule-impossible", piped & (schedule == "interleaved") & (s.vp < 2), lambda row: (
            f"vp = {s.vp[row]:g}: an interleaved pipeline has two chunks a stage or more; take "
            f"vp = {_or(divisors(int(s.layers[row] / s.pp[row]))[1:3]) or '1 and 1f1b'}")),
        ("schedule-impossible", piped & (schedule == "interleaved") & (fed % s.pp > 0), lambda row: (
            f"global_batch = {s.global_batch[row]:g} gives {fed[row]:g} micro-batches, and an interleaved pipeline "
            f"takes a multiple of pp = {s.pp[row]:g}; take global_batch = "
            f"{np.ceil(fed[row] / s.pp[row]) * s.pp[row] * s.dp[row] * s.micro_batch[row]:g}")),
        ("schedule-impossible", piped & (schedule == "zb-v") & (s.vp != 2), lambda row: (
            f"vp = {s.vp[row]:g}: zb-v has two chunks a stage; take vp = 2")),
    ]  # fmt: skip


def _options(s: Any) -> list[Check]:
    ranks, factor, shard = s.dp * s.cp, s.capacity_factor, s.stated_shard
    return [
        ("shard-not-divisible", (shard >= 1) & (ranks % shard > 0), lambda row: (
            f"shard = {shard[row]:g} does not divide dp x cp = {ranks[row]:g}: "
            f"take {nearest_divisors(shard[row], ranks[row])}")),
        ("shard-not-divisible", (s.zero == 0) & (shard > 1), lambda row: (
            f"shard = {shard[row]:g}: zero = 0 shares nothing out; take zero = 1, 2 or 3")),
        ("no-experts", ~np.isnan(factor) & (s.moe == 0), lambda row: (
            f"capacity_factor = {factor[row]:g}: the model has no experts; leave it out")),
    ]  # fmt: skip


def even_stages(layers: Any, stages: Any) -> Any:
    """Whether layers fill stages evenly, or a power of two of them where embedding and head count as a layer each.

    >>> even_stages(80, [16, 41]).tolist(), even_stages(126, [16, 9, 41]).tolist()
    ([True, False], [True, True, False])
    """
    layers, stages = np.asarray(layers), np.asarray(stages).astype(int)
    return (layers % stages == 0) | (((layers + 2) % stages == 0) & (stages & (stages - 1) == 0))


def divisors(number: int, most: int | None = None) -> list[int]:
    """Divisors of a number up to a most.

    >>> divisors(12, 6), divisors(7)
    ([1, 2, 3, 4, 6], [1, 7])
    """
    low = np.arange(1, math.isqrt(number) + 1)
    low = low[number % low == 0]
    return [each for each in sorted({*low.tolist(), *(number // low).tolist()}) if each <= (most or number)]


def nearest_divisors(value: float, whole: float) -> str:
    """The divisors of a number that lie around a value, in words.

    >>> nearest_divisors(3, 32), nearest_divisors(100, 32), nearest_divisors(5, 7)
    ('2 or 4', '32', '1 or 7')
    """
    known = divisors(int(whole)) or [1]
    below, above = [each for each in known if each <= value], [each for each in known if each > value]
    return _or([*below[-1:], *above[:1]])


def nearest_multiples(value: float, of: float) -> str:
    """The multiples of a number that lie around a value, in words.

    >>> nearest_multiples(64, 5), nearest_multiples(3, 8)
    ('60 or 65', '8')
    """
    below = np.floor(value / of) * of
    return _or([each for each in (below, below + of) if each > 0])


def _or(values: Any) -> str:
    return " or ".join(f"{value:g}" for value in values)


def usual() -> dict[str, float]:
    """The constants of memory where nothing else is given: their start."""
    return {constant.name: constant.start for constant in MEMORY_CONSTANTS}


def memory_parts(s: Any, constants: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Bytes by part on the fullest device: the first stage, with most micro-batches, or the last, with logits."""
    if s.in_grid or (s.why == "").all():
        known = s.stage is not None and s.stage.values is s.values
        return (s.stage if known else Stage(s)).parts(constants, s)
    at, found = np.flatnonzero(s.why == ""), {}
    some = s.take(at)
    for name, part in Stage(some).parts(constants, some).items():
        found[name] = np.full(len(s), np.nan)
        found[name][at] = part
    return found


def extremes(
    s: Any, stage: Stage, blank: np.ndarray, constants: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Bytes on the fullest device as rows stand, and where rows that `blank` marks compute all layers again."""
    whole = SimpleNamespace(**{name: np.where(blank, 1.0, getattr(s, name))[()] for name in AGAIN})
    needed, least = (sum(stage.parts(constants, again).values()) for again in (s, whole))
    return np.asarray(needed), np.asarray(least)


def memory_bytes(s: Any, constants: Mapping[str, Any]) -> np.ndarray:
    """Memory needed on the fullest device [B]; NaN where the row cannot be predicted."""
    return np.asarray(sum(memory_parts(s, constants).values()))


def fits(s: Any, constants: Mapping[str, Any]) -> np.ndarray:
    """Whether each row fits the memory of its device; False where that cannot be said."""
    return formulas.fits(memory_bytes(s, constants), s.memory / s.cores)


class Stage:
    """What a stage holds, apart from what is computed again; the first and the last differ in batches and logits."""

    def __init__(self, s: Any) -> None:
        self.values = s.values
        layers = np.ceil(s.layers / s.pp - 1e-9)
        sparse = np.minimum(layers, s.layers - s.dense_layers) * s.moe
        shard = Shard(s)
        dense = layers * shard.attention + (layers - sparse) * shard.mlp + sparse * shard.shared
        adapters = shard.adapters(s, layers, sparse)
        # One device has both ends of the model where there is one stage, or where stages lie in the form of a V.
        both = (s.pp == 1) | (s.filled == FILLED["zb-v"])
        edge = s.vocab * s.hidden / s.tp * np.where(both, 2, 1)
        experts = sparse * shard.expert * s.experts / s.ep
        stored = dense + experts + edge
        # Experts are already spread over the ranks of `ep`; what is shared out further is the rest.
        ranks = np.maximum(s.shard_group / np.where(experts > dense, s.ep, 1), 1)
        # Embeddings that train do so in place; adapters are weights of their own beside frozen ones.
        trained = np.where(s.lora == 1, adapters + edge * s.trains_edge, stored)
        size = np.where(s.qlora == 1, QUANTISED, WEIGHT)
        weights = size * (dense + experts) + WEIGHT * (edge + adapters)
        held = formulas.sharded_state_bytes(1, s.zero, ranks, weights, 0, 0)
        states = formulas.sharded_state_bytes(trained, s.zero, ranks, 0, s.gradient_bytes, s.optimiser_bytes)
        # A product with weights of 4 bits has them widened before.
        widened = s.qlora * WEIGHT * s.hidden * shard.inner
        self.states = {
            "weights": held["weights"] * (1 - s.offload_weights),
            "gradients": states["gradients"] * (1 - s.offload_optimiser),
            "optimiser": states["optimiser"] * (1 - s.offload_optimiser),
            "gathered": np.where(s.zero >= 3, 2 * size * (stored - edge) / layers, 0.0) + widened,
        }
        tokens = s.micro_batch * s.seq_len / s.cp
        self.trained = trained
        self.layers, self.stays = layers, 1 - s.offload_activations
        self.held = held_micro_batches(s)
        self.logits = formulas.logits_bytes(tokens, s.vocab / np.where(s.logits_sharded == 1, s.tp, 1), s.logit_bytes)
        self.both, self.single = both, bool(np.all(s.pp == 1))
        self.kept, self.entry = layer_activations(s, shard, tokens)

    def parts(self, c: Mapping[str, Any], s: Any) -> dict[str, np.ndarray]:
        """Bytes by part where `s` says what share of a layer is computed again."""
        kept, again = self._kept_and_again(s)
        margin, layers = c["activation_margin"], self.layers * kept * self.stays
        activations = margin * self.held * layers
        # The logits are gone before the first layer is computed again.
        transient = np.maximum(np.where(self.both, self.logits, 0.0), margin * again)
        if not self.single:
            last, loss = margin * layers, np.maximum(self.logits, margin * again)
            heavier = activations + transient >= last + loss
            activations, transient = np.where(heavier, activations, last), np.where(heavier, transient, loss)
        reserved = np.asarray(c["reserved_bytes"])
        return {**self.states, "activations": activations, "transient": transient, "reserved": reserved}

    def _kept_and_again(self, s: Any) -> tuple[np.ndarray, np.ndarray]:
        """Bytes that a layer keeps, and those of one layer that exist again while it is recomputed."""
        share = s.again_all
        # The activation function counts as a small operation: computed again, it frees half of the feed-forward layer.
        shares = {
            "stream": np.maximum(s.again_elementwise, share), "attention": np.maximum(s.again_projection, share),
            "mlp": np.maximum(np.maximum(s.again_mlp, share), 0.5 * s.again_elementwise),
            "scores": np.maximum(s.again_core, share),
        }  # fmt: skip
        whole = sum(self.kept.values())
        if not any(np.any(each) for each in shares.values()):
            return np.asarray(whole), np.zeros(np.shape(whole))
        left = sum(
            formulas.recomputed_bytes(part, self.entry if name == "stream" else 0.0, shares[name])
            for name, part in self.kept.items()
        )
        return np.asarray(left), np.maximum(whole - left, 0)


def held_micro_batches(s: Any) -> np.ndarray:
    """Micro-batches whose activations the first stage holds at once."""
    return formulas.micro_batches_held(s.pp, s.vp, np.maximum(s.micro_batches / s.flushes, 1), s.held_share)


class Shard:
    """Widths and weights of one layer on one shard: the layer of the network with its part of heads and inner width."""

    def __init__(self, s: Any, head_tile: float = 0.0, tile: float = 0.0) -> None:
        """`head_tile` and `tile` are what widths of heads and of the feed-forward layer are rounded up to, if any."""
        latent = s.latent == 1
        query = s.heads * np.where(latent, s.nope_dim + s.rope_dim, s.head_dim) / s.tp
        self.query = aligned(query, head_tile) if head_tile else query
        self.values = s.heads * np.where(latent, s.v_dim, s.head_dim) / s.tp
        # A shard has one head of keys and values at least.
        keys = np.maximum(s.kv_heads / s.tp, 1) * np.where(latent, 0.0, s.head_dim)
        self.pairs = np.where(latent, self.query + self.values, 2 * keys)
        attention = weights_of(attention_products(s.hidden, self.query, keys, self.values))
        if np.any(latent):
            expanded = s.heads * (s.nope_dim + s.v_dim) / s.tp
            low = latent_products(s.hidden, self.query, expanded, self.values, s.q_rank, s.kv_rank, s.rope_dim)
            attention = np.where(latent, weights_of(low), attention)
        inner = s.ffn_hidden / s.tp
        self.inner = aligned(inner, tile) if tile else inner
        self.attention = attention
        self.mlp = weights_of(mlp_products(s.hidden, self.inner, s.gated))
        self.expert = weights_of(mlp_products(s.hidden, s.moe_ffn_hidden, s.gated))
        self.shared = self.expert * s.shared_experts / s.tp

    def adapters(self, s: Any, layers: Any, sparse: Any) -> Any:
        """Weights of low-rank adapters: rank times inputs and outputs of each product (Hu et al., 2022, section 4)."""
        beside = layers * (4 * s.hidden + self.query + self.pairs + self.values)
        routed = s.shared_experts / s.tp + s.experts / s.ep
        inner = (layers - sparse) * (s.hidden + self.inner) + sparse * routed * (s.hidden + s.moe_ffn_hidden)
        return s.lora * s.rank * (beside + s.adapts_mlp * (2 + s.gated) * inner)


def layer_activations(s: Any, shard: Shard, tokens: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Bytes that a layer keeps by where they arise, and those of its inputs."""
    t = s.tp
    shards = np.where(s.sequence_parallel == 1, t, 1)
    query, pairs = shard.query, np.where(s.latent == 1, 2 * shard.query, shard.pairs)
    # A norm that runs operation by operation keeps single-precision copies: 8 more values in 16 bits.
    plain = (s.stream_bytes > 20) & (s.gated == 1)
    stream = s.hidden / shards * (4 + 8 * plain)
    chosen = s.experts_per_token * np.where(np.isnan(s.capacity_factor), 1.0, s.capacity_factor)
    routed = (chosen + s.shared_experts) * s.moe_ffn_hidden
    inner = np.where(s.moe == 1, routed, s.ffn_hidden) / t
    inner = np.where(s.gated == 1, s.gated_kept, 2) * inner + s.moe * chosen * s.hidden * 2 / t
    scores = np.where(s.kernel == 0, s.micro_batch * s.seq_len**2 / s.cp * s.heads / t, 0.0)
    kept = formulas.layer_activation_bytes(tokens, stream, 2 * query + pairs, inner, scores, s.element, 1)
    return kept, tokens * s.hidden * s.element / shards
