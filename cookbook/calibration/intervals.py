"""Interval widths from the errors of publishers that were left out: publisher-wise split conformal prediction.

Publishers are exchangeable, rows are not: rows of one publisher share machine, code and habits. So errors are pooled
with every publisher weighing one, and the pooled quantile is stretched until publishers that had no say in it are
covered at the nominal level on average (each left out in turn).

References: Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005; Dunn, Wasserman & Ramdas,
Distribution-free prediction sets for two-layer hierarchical models, JASA 118, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cookbook.calibration.fit import FEW
from cookbook.prediction.constants import DATASHEET, EXPERTS, NEW_ENGINE, SEEN, SIBLING
from cookbook.prediction.widths import LEVELS, SCALES

ENOUGH = 5
# Beyond what was seen anywhere, by this much in the logarithm, where a tier has no measurement at all.
UNKNOWN = 2.0
# A device that only its datasheet describes: wider than a known generation by this much, until enough publishers speak.
FOREIGN = 1.5
CHAIN = (SEEN, SIBLING, NEW_ENGINE, DATASHEET)


@dataclass(frozen=True)
class Width:
    """Interval of one tier and scale.

    Attributes
    ----------
    tier, scale : str
        Where it holds; the scale is "" for all of the tier.
    half : tuple of float
        Half-width in the logarithm for each of `LEVELS`.
    publishers, rows : int
        What it rests on.
    remark : str
        "few sources" or "no measurements" where it does not rest on enough.
    """

    tier: str
    scale: str
    half: tuple[float, ...]
    publishers: int
    rows: int
    remark: str = ""


def pooled_quantile(errors: np.ndarray, group: np.ndarray, level: float) -> float:
    """Smallest error that a share `level` of the rows stays below, every publisher weighing one.

    A publisher with fewer than `fit.FEW` rows weighs in proportion.

    Parameters
    ----------
    errors : numpy.ndarray
        Absolute errors.
    group : numpy.ndarray of str
        Publisher of each.
    level : float
        Share of the weight, 0 to 1.

    Examples
    --------
    >>> pooled_quantile(np.arange(1.0, 41), np.array(["a"] * 30 + ["b"] * 10), 0.5)
    30.0
    """
    _, codes = np.unique(group, return_inverse=True)
    weights = 1 / np.maximum(np.bincount(codes), FEW)[codes]
    order = np.argsort(errors, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    return float(errors[order][min(int(np.searchsorted(share, level - 1e-12)), len(errors) - 1)])


def half_width(errors: np.ndarray, group: np.ndarray, level: float) -> float:
    """Half-width that covers a publisher not among these at the given level, on average.

    Parameters
    ----------
    errors, group, level
        As for `pooled_quantile`.
    """
    pooled = pooled_quantile(errors, group, level)
    names = np.unique(group)
    if len(names) < 2:
        return pooled
    ratio = np.empty(len(errors))
    for name in names:
        own = group == name
        ratio[own] = errors[own] / max(pooled_quantile(errors[~own], group[~own], level), 1e-9)
    return pooled * max(1.0, pooled_quantile(ratio, group, level))


def widths(errors: np.ndarray, group: np.ndarray, tier: np.ndarray, scale: np.ndarray) -> list[Width]:
    """Widths of all tiers, never falling from a better known tier to a lesser known one.

    A tier with fewer than `ENOUGH` publishers is widened by the next one: their errors are pooled. A scale gets
    widths of its own where enough publishers measured it.

    Parameters
    ----------
    errors : numpy.ndarray
        Absolute logarithmic errors of left-out rows.
    group, tier, scale : numpy.ndarray of str
        Publisher, tier and scale of each.
    """
    whole = _chain(errors, group, tier, [""] * len(CHAIN), {})
    found = [*whole, _experts(errors, group, tier, whole)]
    known = {width.tier: width for width in found}
    for at in SCALES:
        chosen = scale == at
        found += _chain(errors[chosen], group[chosen], tier[chosen], [at] * len(CHAIN), known)
        found.append(replace(known[EXPERTS], scale=at))
    return found


def _blocks(group: np.ndarray, tier: np.ndarray) -> list[list[str]]:
    """Neighbouring tiers, joined until each block has enough publishers; tiers without rows stand in none."""
    blocks: list[list[str]] = []
    for name in CHAIN:
        if not np.any(tier == name):
            continue
        if blocks and len(np.unique(group[np.isin(tier, blocks[-1])])) < ENOUGH:
            blocks[-1].append(name)
        else:
            blocks.append([name])
    if len(blocks) > 1 and len(np.unique(group[np.isin(tier, blocks[-1])])) < ENOUGH:
        last = blocks.pop()
        blocks[-1] += last
    return blocks


def _chain(
    errors: np.ndarray, group: np.ndarray, tier: np.ndarray, scales: Sequence[str], known: Mapping[str, Width]
) -> list[Width]:
    """Widths of the tiers in the order of the chain; `known` stands in where there are too few publishers."""
    own = dict[str, np.ndarray]()
    for block in _blocks(group, tier):
        chosen = np.isin(tier, block)
        if not known or len(np.unique(group[chosen])) >= ENOUGH:
            half = np.array([half_width(errors[chosen], group[chosen], level / 100) for level in LEVELS])
            own |= dict.fromkeys(block, half)
    found, reached = list[Width](), np.zeros(len(LEVELS))
    for at, (name, scale) in enumerate(zip(CHAIN, scales, strict=True)):
        later = [own[other] for other in CHAIN[at:] if other in own]
        default = np.array(known[name].half) if known else later[0] if later else reached * UNKNOWN
        few = len(np.unique(group[tier == name])) < ENOUGH
        floor = found[-1].half * np.array(FOREIGN) if name == DATASHEET and few else reached
        reached = np.maximum.accumulate(np.maximum(floor, own.get(name, default)))
        found.append(_width(name, scale, reached, group[tier == name]))
    return found


def _experts(errors: np.ndarray, group: np.ndarray, tier: np.ndarray, chain: Sequence[Width]) -> Width:
    """Width of mixtures of experts: their own, not below the best known tier; without any, the widest and more."""
    own = tier == EXPERTS
    if own.any():
        half = np.array([half_width(errors[own], group[own], level / 100) for level in LEVELS])
    else:
        half = np.array(chain[-1].half) * UNKNOWN
    few = len(np.unique(group[own])) < ENOUGH
    half = np.maximum.accumulate(np.maximum(half, chain[1 if few else 0].half))
    return _width(EXPERTS, "", half, group[own])


def _width(tier: str, scale: str, half: np.ndarray, group: np.ndarray) -> Width:
    publishers = len(np.unique(group))
    remark = "" if publishers >= ENOUGH else "few sources" if publishers else "no measurements"
    return Width(tier, scale, tuple(half.tolist()), publishers, len(group), remark)


def coverage_band(rows: int, level: float, sure: float = 0.95) -> tuple[float, float]:
    """Shares of covered rows that chance alone allows, were the rows independent (Wilson score interval).

    Parameters
    ----------
    rows : int
        Rows of the publisher.
    level : float
        Nominal coverage, 0 to 1.
    sure : float
        0.95 or 0.9.

    Examples
    --------
    >>> tuple(round(edge, 2) for edge in coverage_band(50, 0.8))
    (0.67, 0.89)
    """
    z = {0.95: 1.959964, 0.9: 1.644854}[sure]
    centre = (level + z**2 / (2 * rows)) / (1 + z**2 / rows)
    reach = z * np.sqrt(level * (1 - level) / rows + z**2 / (4 * rows**2)) / (1 + z**2 / rows)
    return float(centre - reach), float(min(centre + reach, 1.0))
