"""What divides what in a layout, and the nearest numbers that do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from cookbook.prediction.layout_checks import even_stages

# How far to look for a number of devices that can be divided, as a share of it.
REACH = 1.0
# From this length on, context parallelism is tried.
LONG = 8192


def divisors(number: int, most: int) -> list[int]:
    """Divisors of a number up to a most.

    >>> divisors(12, 6)
    [1, 2, 3, 4, 6]
    """
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]


def stage_counts(layers: int, most: int) -> list[int]:
    """Numbers of pipeline stages, up to a most, that layers fill evenly."""
    return [each for each in range(1, min(layers, most) + 1) if even_stages(layers, each)]


def context_sizes(seq: float) -> list[int]:
    """Ways to split a sequence that leave each part long enough to be worth it."""
    return [c for c in (1, 2, 4, 8, 16) if c == 1 or (seq >= LONG and seq / c >= LONG / 2 and seq % c == 0)]


def check_layout(layout: Mapping[str, Any], shape: Mapping[str, int], devices: int, batch: int, seq: float) -> None:
    """Whether a layout divides the network, the devices, the batch and the sequence.

    Parameters
    ----------
    layout : mapping of str to int
        Some of tp, pp, vp, cp, ep, dp and micro_batch.
    shape : mapping of str to int
        layers, heads and experts of the network; per_node, the devices that the fast link joins.
    devices, batch : int
        Devices; sequences of one step.
    seq : float
        Tokens of a sequence.

    Raises
    ------
    ValueError
        Which number does not divide which, and the nearest that does.
    """
    axes = {name: int(layout.get(name, 1)) for name in ("tp", "pp", "vp", "cp", "ep", "dp", "micro_batch")}
    for name, size in axes.items():
        if size < 1 or size != layout.get(name, 1):
            raise ValueError(f"{name} = {layout[name]!r} must be a whole number, 1 or more")
    _divides("tp", axes["tp"], shape["heads"], "heads")
    if axes["tp"] > shape["per_node"]:
        raise ValueError(
            f"tp = {axes['tp']:,} is more than the {shape['per_node']:,} devices that the fast link joins; take no "
            "more, or set per_node"
        )
    _fills(shape["layers"], axes["pp"], axes["vp"])
    _divides("cp", axes["cp"], int(seq), "tokens of a sequence")
    if shape["experts"] or axes["ep"] > 1:
        _divides("ep", axes["ep"], max(shape["experts"], 1), "experts")
    _share(layout, axes, devices, batch)


def _share(layout: Mapping[str, Any], axes: Mapping[str, int], devices: int, batch: int) -> None:
    """Whether what is known of a layout divides the devices, and its replicas the batch."""
    names = [name for name in ("tp", "pp", "cp", "dp") if name in layout]
    model = math.prod(axes[name] for name in names)
    if devices % model:
        raise ValueError(
            f"devices = {devices:,} is not a multiple of {' x '.join(names)} = {model:,}; nearest: "
            f"{_near(devices, lambda count: count % model == 0, model)}"
        )
    whole = {"tp", "pp", "cp"} <= set(layout) and "dp" not in layout
    replicas = devices // model if whole else axes["dp"]
    step = replicas * axes["micro_batch"]
    if batch % step:
        raise ValueError(
            f"global_batch = {batch:,} is not a multiple of replicas x micro-batch = {replicas:,} x "
            f"{axes['micro_batch']:,} = {step:,}; nearest: {_near(batch, lambda count: count % step == 0, step)}"
        )


def _fills(layers: int, stages: int, chunks: int) -> None:
    """Whether layers fill stages, and those the chunks of interleaving."""
    if stages > layers or not even_stages(layers, stages):
        near = _near(stages, lambda each: each <= layers and even_stages(layers, each), layers)
        raise ValueError(f"pp = {stages:,} does not divide {layers:,} layers; nearest: {near}")
    if stages * chunks > layers or not even_stages(layers, stages * chunks):
        most = layers // stages
        near = _near(chunks, lambda each: each <= most and even_stages(layers, stages * each), most)
        raise ValueError(f"vp = {chunks:,} does not divide the layers of pp = {stages:,} stages; nearest: {near}")


def _divides(name: str, size: int, whole: int, what: str) -> None:
    if whole % size:
        near = _near(size, lambda each: whole % each == 0)
        raise ValueError(f"{name} = {size:,} does not divide {whole:,} {what}; nearest: {near}")


def _near(number: int, good: Callable[[int], bool], step: int = 1) -> str:
    """Nearest numbers below and above that are good, in words; "" where none is near.

    >>> _near(6, lambda each: 8 % each == 0), _near(9, lambda each: 8 % each == 0)
    ('4 or 8', '8')
    """
    reach = range(1, max(step, int(REACH * number)) + 1)
    below = next((number - far for far in reach if number > far and good(number - far)), None)
    above = next((number + far for far in reach if good(number + far)), None)
    return " or ".join(f"{each:,}" for each in (below, above) if each)


def undivided(devices: int, batch: int, shards: list[int], shape: Mapping[str, int]) -> str:
    """Why devices and batch cannot be divided, with the nearest that can; "" where some layout divides them.

    Parameters
    ----------
    devices, batch : int
        Devices; sequences of one step.
    shards : list of int
        Ways to split the network: every tp x pp x cp that the search tries.
    shape : mapping of str to int
        layers and heads, for the words.
    """

    def good(count: int, sequences: int) -> bool:
        return any(count % each == 0 and sequences % (count // each) == 0 for each in shards)

    if good(devices, batch):
        return ""
    near = _near(devices, lambda count: good(count, batch)), _near(batch, lambda count: good(devices, count))
    found = [f"{near[0]} devices"] * bool(near[0]) + [f"a batch of {near[1]}"] * bool(near[1])
    return (
        f"devices = {devices:,} cannot share {shape['heads']:,} heads, {shape['layers']:,} layers and global_batch = "
        f"{batch:,} evenly; nearest: {', or '.join(found) or 'none'}"
    )
