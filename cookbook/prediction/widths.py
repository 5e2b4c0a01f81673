"""Intervals: how far measurements of publishers that were left out lay from predictions of the same kind and tier."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.prediction.constants import TIERS

LEVELS = (80, 90)
SCALES = ("1 device", "1 node", "multi-node")


def factors(kind: str, tier: Any, scale: Any) -> dict[int, np.ndarray]:
    """For each level in per cent, the factor that the interval reaches up and down from the point.

    Parameters
    ----------
    kind : str
        Kind of prediction.
    tier, scale : numpy.ndarray of str
        Tier and scale of each row; a scale that has no figure of its own takes that of its tier.
    """
    table = committed(kind)
    pairs, none = zip(tier, scale, strict=True), (np.nan,) * len(LEVELS)
    each = np.array([table.get(pair, table.get((pair[0], ""), none)) for pair in pairs]).reshape(-1, len(LEVELS))
    return {level: each[:, at] for at, level in enumerate(LEVELS)}


@lru_cache(maxsize=8)
def committed(kind: str) -> dict[tuple[str, ...], tuple[float, ...]]:
    """Factors by tier and scale from the table ``interval_quantiles``; none for a kind without them."""
    rows = catalog.table("interval_quantiles")
    rows = rows[rows["kind"] == kind]
    return {(row.tier, row.scale): (row.factor_80, row.factor_90) for row in rows.itertuples(index=False)}


def remark(kind: str, tier: str, scale: str = "") -> str:
    """What to mind about the interval of a tier: "few sources" and the like, or "".

    Parameters
    ----------
    kind, tier, scale : str
        As in the table ``interval_quantiles``.
    """
    if tier not in TIERS:
        raise ValueError(f"tier = {tier!r} is not one of {', '.join(TIERS)}")
    known = _remarks(kind)
    return known.get((tier, scale), known.get((tier, ""), "no interval"))


@lru_cache(maxsize=8)
def _remarks(kind: str) -> dict[tuple[str, str], str]:
    rows = catalog.table("interval_quantiles")
    rows = rows[rows["kind"] == kind]
    return {(row.tier, row.scale): row.remark for row in rows.itertuples(index=False)}
