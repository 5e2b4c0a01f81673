"""Layouts of a language model: what divides its layers, heads, experts, the batch and the devices, as arrays.

And the usual one where the reader states none: the fastest that fits, its stages in chunks as the stack would cut them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook.prediction.scenario import Rows, Scenario, each_row
from cookbook.prediction.terms.layouts import divisors, even_stages

# Sequences from here on are worth splitting [tokens].
LONG = 8192
# Chunks of a pipeline's stage that a search tries; the most that recipes of interleaving stacks cut it into.
CHUNKS, MOST_CHUNKS = (1, 2, 4), 6
# More combinations than this would take minutes.
MOST_COMBINATIONS = 2**26
# Fields of which one that is stated means that the reader has a layout in mind.
LAYOUT = ("tp", "pp", "vp", "cp", "ep", "dp", "zero", "shard")
# What a search fills in, and where it is worth a word.
FILLED = {"tp": 1.0, "pp": 1.0, "vp": 1.0, "cp": 1.0, "ep": 1.0, "zero": 0.0, "micro_batch": 0.0}
# Stacks whose recipes interleave the stages of a pipeline.
INTERLEAVING = ("megatron-core",)
# ZeRO stages to try, micro-batches where the batch is stated, and layouts that are estimated at a time.
ZERO, MICRO_BATCHES, AT_ONCE = (1, 3), (1, 2, 4), 1 << 16
Filled = tuple[tuple[str, np.ndarray, np.ndarray], ...]


def stage_counts(layers: int, most: int) -> list[int]:
    """Numbers of pipeline stages, up to a most, that layers fill evenly."""
    counts = np.arange(1, min(layers, most) + 1)
    return counts[even_stages(layers, counts)].tolist()


def context_sizes(seq: float) -> list[int]:
    """Ways to split a sequence that leave each part long enough to be worth it."""
    return [c for c in (1, 2, 4, 8, 16) if c == 1 or (seq >= LONG and seq / c >= LONG / 2 and seq % c == 0)]


def usual_chunks(layers: Any, stages: Any) -> np.ndarray:
    """Chunks into which recipes of interleaving stacks cut a stage: the most, up to 6, of two layers or more each.

    >>> usual_chunks([96, 80, 126, 61], [8, 4, 16, 16]).tolist()
    [6.0, 5.0, 4.0, 1.0]
    """
    layers, stages = np.asarray(layers, dtype=float), np.maximum(np.nan_to_num(np.asarray(stages, dtype=float)), 1)
    counts = np.arange(2.0, MOST_CHUNKS + 1).reshape(-1, *[1] * np.broadcast(layers, stages).ndim)
    with np.errstate(invalid="ignore"):
        whole = even_stages(layers, stages * counts) & (np.ceil(layers / stages) >= 2 * counts)
    return np.asarray(np.where(whole, counts, 1.0).max(axis=0))


def layout_grid(
    shape: Mapping[str, int], per_node: Mapping[int, int], batch: int, seq: int, axes: Mapping[str, Sequence[Any]]
) -> dict[str, np.ndarray]:
    """All combinations of the axes that divide what they must, as arrays.

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

    Returns
    -------
    dict of str to numpy.ndarray
        devices, tp, pp, vp, cp, ep, micro_batch, zero, recompute and dp, one entry a layout.
    """
    again, zeros = np.array(axes["recompute"]), axes["zero"]
    parts: list[dict[str, np.ndarray]] = []
    for count, node in per_node.items():
        tensor = [t for t in divisors(shape["heads"], node) if count % t == 0]
        stages = [p for p in stage_counts(shape["layers"], count) if count % p == 0]
        experts = divisors(shape["experts"], count) if shape["experts"] else [1]
        tried = (tensor, stages, CHUNKS, context_sizes(seq), experts, axes["micro_batch"], zeros, range(len(again)))
        if math.prod(map(len, tried)) > MOST_COMBINATIONS / len(per_node):
            raise ValueError(f"micro_batch has {len(axes['micro_batch']):,} values: too many combinations; give fewer")
        tp, pp, vp, cp, ep, micro, zero, kind = (axis.ravel() for axis in np.meshgrid(*tried, indexing="ij"))
        model = tp * pp * cp
        fits = (count % model == 0) & ((vp == 1) | ((pp > 1) & even_stages(shape["layers"], pp * vp)))
        dp = np.where(fits, count // model, 1)
        fits &= (batch % (dp * micro) == 0) & ((dp * cp * tp) % ep == 0) & (seq % cp == 0)
        # Gathering weights for every micro-batch of a pipeline defeats both.
        fits &= (zero < 3) | (pp == 1)
        fits &= (zero == min(zeros)) | (dp * cp > 1)  # nothing is shared out among one
        columns = {"devices": np.full(len(tp), count), "tp": tp, "pp": pp, "vp": vp, "cp": cp, "ep": ep,
                   "micro_batch": micro, "zero": zero, "recompute": again[kind], "dp": dp}  # fmt: skip
        parts.append({name: column[fits] for name, column in columns.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def with_usual_layouts(
    scenario: Scenario, rows: Rows, held: Callable[[Rows], np.ndarray], estimated: Callable[[Scenario], Any]
) -> tuple[Scenario, Filled]:
    """A scenario whose blank layouts are filled in.

    Where the plain layout of a number of devices does not fit and the reader states none, it is the fastest of those
    that do fit, by formulas alone, in sequences a second. Pipelines of stacks that interleave have the chunks of their
    recipes, where the micro-batches allow it. Of rows in a grid the layouts are stated, but for the chunks.

    Parameters
    ----------
    scenario : Scenario
        Steps of language models, as asked.
    rows : Rows
        The same, resolved, with plain layouts.
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
    at = _without_layout(scenario, rows)
    at = at[held(rows.take(at) if len(rows) > 1 else rows)[: len(at)] > 0] if len(at) else at
    if len(at):
        columns = _fastest(scenario, rows, at, estimated)
    columns = _with_chunks(scenario, rows, columns)
    filled = tuple((name, column > FILLED[name], column) for name, column in columns.items()
                   if np.any(column > FILLED[name]))  # fmt: skip
    if not columns:
        return scenario, ()
    whole = {name: np.where(np.isnan(column), scenario.number(name), column) for name, column in columns.items()}
    return Scenario(scenario.kind, len(scenario), {**scenario.columns, **whole}, scenario.why, scenario.read), filled


def _without_layout(scenario: Scenario, rows: Rows) -> np.ndarray:
    """Rows of several devices for which the reader states no layout."""
    blank = np.asarray(rows.why == "") & (rows.devices * rows.cores > 1) & ~np.isnan(scenario.number("devices"))
    for name in LAYOUT:
        blank = blank & np.isnan(scenario.number(name))
    return np.flatnonzero(np.broadcast_to(blank, (len(scenario),))) if np.any(blank) else np.empty(0, dtype=int)


def _fastest(
    scenario: Scenario, rows: Rows, at: np.ndarray, estimated: Callable[[Scenario], Any]
) -> dict[str, np.ndarray]:
    """The fastest layout that fits of each of some rows; NaN where none fits."""
    names = ("layers", "heads", "experts", "moe", "devices", "cores", "per_node", "seq_len")
    numbers = {name: each_row(np.asarray(getattr(rows, name), dtype=float), len(rows))[at] for name in names}
    batch, micro = (np.broadcast_to(scenario.number(name), (len(scenario),))[at]
                    for name in ("global_batch", "micro_batch"))  # fmt: skip
    grids = [
        _grid(int(layers), int(heads), int(experts if moe else 0), int(devices * cores), int(node), int(seq),
              0 if np.isnan(total) else int(total), 0 if np.isnan(each) else int(each))
        for layers, heads, experts, moe, devices, cores, node, seq, total, each
        in zip(*numbers.values(), batch, micro, strict=True)
    ]  # fmt: skip
    columns = {name: np.full(len(scenario), np.nan) for name in FILLED}
    sizes = np.array([len(grid["tp"]) for grid in grids])
    start = 0
    while start < len(at):
        some = max(int(np.searchsorted(np.cumsum(sizes[start:]), AT_ONCE, side="right")), 1)
        part = slice(start, start + some)
        start += some
        if not sizes[part].sum():
            continue
        places = np.repeat(at[part], sizes[part])
        tried = {name: np.concatenate([grid[name] for grid in grids[part]]) for name in FILLED}
        taken = scenario.take(places)
        asked = Scenario(taken.kind, len(taken), {**taken.columns, **tried}, taken.why, taken.read)
        steps = estimated(asked)
        able = (steps.fits == "yes") & np.isfinite(steps.point)
        rate = np.where(able, steps.rows.global_batch / steps.point, 0.0)
        # Rates alike to five digits are the same, whatever the processor; the first of the grid is taken.
        rate = np.array([float(f"{each:.5g}") for each in rate.tolist()])
        ends = np.cumsum(sizes[part])
        for row, end, size in zip(at[part].tolist(), ends.tolist(), sizes[part].tolist(), strict=True):
            best = end - size + int(np.argmax(rate[end - size : end])) if size else 0
            if size and rate[best] > 0:
                for name, values in tried.items():
                    columns[name][row] = values[best]
    # A micro-batch that is stated is not filled in; nor is anything where no layout fits.
    columns["micro_batch"] = np.where(np.isnan(scenario.number("micro_batch")), columns["micro_batch"], np.nan)
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}


@lru_cache(maxsize=4096)
def _grid(
    layers: int, heads: int, experts: int, devices: int, node: int, seq: int, batch: int, micro: int
) -> Mapping[str, np.ndarray]:
    """Layouts of one question; a batch or micro-batch of 0 is not stated."""
    shape = {"layers": layers, "heads": heads, "experts": experts}
    small = (micro,) if micro else MICRO_BATCHES if batch else (1,)
    axes = {"micro_batch": small, "zero": ZERO, "recompute": ("",)}
    grid = layout_grid(shape, {devices: min(node, devices)}, batch or devices * small[0], seq, axes)
    return {name: grid[name].astype(float) for name in FILLED}


def interleaved(scenario: Scenario, rows: Rows) -> np.ndarray:
    """Chunks of a stage of pipelines that interleave, where nobody states them; NaN of all others.

    They say so, or their stack does where nothing is said. An interleaved pipeline takes a whole number of rounds of
    micro-batches. `scenario` and `rows` may stand in a grid.
    """
    blank = np.isnan(scenario.number("vp")) & (rows.pp > 1) & np.asarray(rows.why == "")
    if not np.any(blank):
        return np.array(np.nan)
    schedule, chunks = scenario.words("pipeline_schedule"), usual_chunks(rows.layers, rows.pp)
    usual = schedule.where(lambda word: not word) & rows.keys["engine"].where(lambda level: level in INTERLEAVING)
    blank = blank & (usual | schedule.where(lambda word: word == "interleaved")) & (chunks > 1)
    blank = blank & (np.mod(np.rint(rows.micro_batches), np.maximum(rows.pp, 1)) == 0)
    return np.where(blank, chunks, np.nan)


def _with_chunks(scenario: Scenario, rows: Rows, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Chunks of a stage as well, of pipelines that interleave; those of a layout that was chosen stay as they are."""
    chunks = interleaved(scenario, rows)
    if "vp" in columns:
        chunks = np.where(np.isnan(columns["vp"]), chunks, columns["vp"])
    return columns if np.isnan(chunks).all() else {**columns, "vp": chunks}
