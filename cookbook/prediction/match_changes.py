"""What to change first in an input chain: each change computed by the same chain, ranked by what it gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cookbook.prediction.match_chain import chain
from cookbook.prediction.match_words import memory_price

LEAST_GAIN = 0.005


@dataclass(frozen=True, eq=False)
class Change:
    """One change and what it brings.

    Attributes
    ----------
    name : str
        What changes, in words.
    samples_per_s, gain : float or numpy.ndarray
        Samples a second after it, and what it adds [1/s].
    utilisation : float or numpy.ndarray
        Utilisation after it.
    usd : float or numpy.ndarray
        What it costs: 0 where nothing has to be bought, NaN where no price is known.
    gain_per_usd : float or numpy.ndarray
        Gain over cost [1/s/USD]: infinite for what is free, NaN where no price is known, which ranks by gain alone.
    per : str
        What `usd` pays for: a purchase or a month; blank where it is free or not known.
    basis : str
        What the price rests on.
    """

    name: str
    samples_per_s: Any
    gain: Any
    utilisation: Any
    usd: Any
    gain_per_usd: Any
    per: str
    basis: str


def changes_of(
    figures: Mapping[str, np.ndarray], found: Mapping[str, Any], tier: Mapping[str, Any], known: Mapping[str, float]
) -> tuple[Change, ...]:
    """Changes that gain at least half a per cent, best first: free ones, then by gain per USD, then without a price.

    Parameters
    ----------
    figures, known
        As for `cookbook.prediction.match_chain.chain`.
    found : mapping
        What the chain gave.
    tier : mapping
        The storage tier with its price.

    A purchase and a month cannot be compared here: `cookbook.planning.rank_changes` does.
    """
    changes = []
    for name, other, usd, per, basis in _candidates(figures, tier, known):
        after = chain({**figures, **other}, known)
        gain = after["later"] - found["later"]
        cost = np.broadcast_to(np.asarray(usd, dtype=float), gain.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = gain / cost
        change = Change(name, after["later"], gain, after["utilisation"], cost, worth, per, basis)
        if np.nanmax(gain / found["later"], initial=0) >= LEAST_GAIN:
            changes.append(_plain(change))
    return tuple(sorted(changes, key=_rank))


def _candidates(figures: Mapping[str, np.ndarray], tier: Mapping[str, Any], known: Mapping[str, float]) -> list[Any]:
    hosts, double = figures["hosts"], 2.0
    drives = figures["drives"] * np.where(figures["local"] > 0, hosts, 1)
    usd = tier["price_usd_per_tb"] * figures["capacity"] / 1e12 * drives
    dates = " and ".join(sorted({str(date) for date in np.ravel(tier["price_date"]).tolist() if date}))
    dated = f"price of a terabyte, {dates}" if np.any(np.isfinite(usd)) else "no price is known"
    all_of_it = figures["stored"] / hosts / known["memory_for_cache"]
    chips, chips_basis = memory_price()
    more = np.maximum(all_of_it - figures["memory"], 0) * hosts
    free, none = ("", "nothing to buy"), ("", "no price is known")
    rent = (tier["price_per"] if np.any(np.isfinite(usd)) else "", dated)
    return [
        ("twice the drives or nodes of the storage", {"drives": double * figures["drives"]}, usd, *rent),
        ("twice the network", {"network": double * figures["network"]}, np.nan, *none),
        ("memory that holds the data set", {"memory": np.maximum(all_of_it, figures["memory"])}, more * chips,
         "purchase", chips_basis),
        ("shards instead of small files", {"small_files": 0 * figures["small_files"]}, 0, *free),
        ("twice the workers", {"workers": double * np.maximum(figures["workers"], 1)}, 0, *free),
        ("twice the cores and workers", {
            "workers": double * np.maximum(figures["workers"], 1), "cores": double * figures["cores"]}, np.nan, *none),
        ("decoded once and stored ready to use", {
            "work": 0 * figures["work"], "stored": figures["samples"] * figures["decoded"]}, 0, *free),
        ("four times the prefetched batches", {"prefetch": 4 * np.maximum(figures["prefetch"], 1)}, 0, *free),
        ("pinned memory", {"pinned": np.ones_like(hosts), "copy_efficiency": np.where(
            figures["pinned"] > 0, 1, 1 / known["pageable_share"]) * figures["copy_efficiency"]}, 0, *free),
        ("twice the host link", {"link": double * figures["link"]}, np.nan, *none),
        ("checkpoints behind the training", {"asynchronous": np.ones_like(hosts)}, 0, *free),
    ]  # fmt: skip


def _rank(change: Change) -> tuple[int, float]:
    gain, cost = float(np.nanmean(change.gain)), float(np.mean(change.usd))
    if np.isnan(cost):
        return 2, -gain
    return (0, -gain) if cost == 0 else (1, -gain / cost)


def _plain(change: Change) -> Change:
    """Numbers instead of arrays of one."""
    if np.size(change.gain) != 1:
        return change
    names = ("samples_per_s", "gain", "utilisation", "usd", "gain_per_usd")
    numbers: dict[str, Any] = {name: float(np.ravel(getattr(change, name))[0]) for name in names}
    return replace(change, **numbers)
