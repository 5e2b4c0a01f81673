"""What divides what in a layout, and the nearest numbers that do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cookbook.prediction.asked import MOST_DEVICES, MOST_SEQUENCES, MOST_TOKENS, whole
from cookbook.prediction.terms.layouts import even_stages

# How far to look for a number that can be divided, as a multiple of the number asked for.
REACH = 2
# From this length on, context parallelism is tried.
LONG = 8192
SIZES = ("tp", "pp", "vp", "cp", "ep", "dp", "micro_batch")


def divisors(number: int, most: int | None = None) -> list[int]:
    """Divisors of a number up to a most.

    >>> divisors(12, 6), divisors(7)
    ([1, 2, 3, 4, 6], [1, 7])
    """
    low = np.arange(1, math.isqrt(number) + 1)
    low = low[number % low == 0]
    return [each for each in sorted({*low.tolist(), *(number // low).tolist()}) if each <= (most or number)]


def stage_counts(layers: int, most: int) -> list[int]:
    """Numbers of pipeline stages, up to a most, that layers fill evenly."""
    return [each for each in range(1, min(layers, most) + 1) if even_stages(layers, each)]


def context_sizes(seq: float) -> list[int]:
    """Ways to split a sequence that leave each part long enough to be worth it."""
    return [c for c in (1, 2, 4, 8, 16) if c == 1 or (seq >= LONG and seq / c >= LONG / 2 and seq % c == 0)]


def check_layout(layout: Mapping[str, Any], shape: Mapping[str, int], devices: int, batch: int, seq: float) -> None:
    """Refuse a layout (some of `SIZES`) that does not divide the network (`shape`), devices, batch and sequence.

    Raises
    ------
    ValueError
        Which number does not divide which, and the nearest that does.
    """
    most = {"micro_batch": MOST_SEQUENCES, "cp": MOST_TOKENS}
    axes = {name: whole(name, layout.get(name, 1), most.get(name, MOST_DEVICES)) for name in SIZES}
    layers, node, stages = shape["layers"], shape["per_node"], axes["pp"]
    _divides("tp", axes["tp"], shape["heads"], "heads")
    if axes["tp"] > node:
        raise ValueError(
            f"tp = {axes['tp']:,} is more than the {node:,} devices that the fast link joins; take no more, or set "
            "per_node"
        )
    if not even_stages(layers, stages) or stages > layers:
        raise ValueError(f"pp = {stages:,} does not divide {layers:,} layers; nearest: "
                         f"{around(stages, stage_counts(layers, layers))}")  # fmt: skip
    chunks = [each for each in range(1, layers // stages + 1) if even_stages(layers, stages * each)]
    if axes["vp"] not in chunks:
        raise ValueError(f"vp = {axes['vp']:,} does not divide the layers of pp = {stages:,} stages; nearest: "
                         f"{around(axes['vp'], chunks)}")  # fmt: skip
    _divides("cp", axes["cp"], int(seq), "tokens of a sequence")
    if shape["experts"] or axes["ep"] > 1:
        _divides("ep", axes["ep"], max(shape["experts"], 1), "experts")
    names = [name for name in ("tp", "pp", "cp", "dp") if name in layout]
    _multiple("devices", devices, " x ".join(names), math.prod(axes[name] for name in names))
    fixed = {"tp", "pp", "cp"} <= set(layout) and "dp" not in layout
    replicas = devices // math.prod(axes[name] for name in names) if fixed else axes["dp"]
    words = f"replicas x micro-batch = {replicas:,} x {axes['micro_batch']:,}"
    _multiple("global_batch", batch, words, replicas * axes["micro_batch"])


def _divides(name: str, size: int, total: int, what: str) -> None:
    if total % size:
        near = around(size, divisors(total))
        raise ValueError(f"{name} = {size:,} does not divide {total:,} {what}; nearest: {near}")


def _multiple(name: str, number: int, words: str, of: int) -> None:
    if number % of:
        near = around(number, multiples(number, of))
        raise ValueError(f"{name} = {number:,} is not a multiple of {words} = {of:,}; nearest: {near}")


def multiples(number: int, of: int) -> list[int]:
    """Multiples of a number around another."""
    return [below for below in (number // of * of, (number // of + 1) * of) if below]


def around(number: int, good: Iterable[int]) -> str:
    """The nearest good numbers below and above, in words; "" where there is none.

    >>> around(6, [1, 2, 4, 8]), around(9, [1, 2, 4, 8])
    ('4 or 8', '8')
    """
    known = list(good)
    below, above = [each for each in known if each < number], [each for each in known if each > number]
    ends = ([max(below)] if below else []) + ([min(above)] if above else [])
    return " or ".join(f"{each:,}" for each in ends)


def undivided(devices: int, batch: int, shards: list[int], shape: Mapping[str, int]) -> str:
    """Why devices and batch cannot be divided, with the nearest that can; "" where some layout divides them.

    `shards` are the ways to split the network: every tp x pp x cp that the search tries.
    """
    replicas = [devices // each for each in shards if devices % each == 0]
    if any(batch % each == 0 for each in replicas):
        return ""
    counts = {each * share for each in shards for share in divisors(batch)}
    near = (
        around(devices, (each for each in counts if each <= REACH * devices)),
        around(batch, (each for share in replicas for each in multiples(batch, share) if each <= REACH * batch)),
    )
    found = [f"{near[0]} devices"] * bool(near[0]) + [f"a batch of {near[1]}"] * bool(near[1])
    return (
        f"devices = {devices:,} cannot share {shape['heads']:,} heads, {shape['layers']:,} layers and global_batch = "
        f"{batch:,} evenly; nearest: {', or '.join(found) or 'none'}"
    )
