"""What an input chain costs and what to change first: changes by what they gain for the money, and epochs by part."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from cookbook.planning.cost import HOUR, MONTH, YEAR, years_of_use
from cookbook.prediction.match import StorageMatch
from cookbook.units import shown

if TYPE_CHECKING:
    import pandas as pd

SHORT = MappingProxyType({
    "twice the drives or nodes of the storage": "twice the drives",
    "memory that holds the data set": "memory for all of it",
    "shards instead of small files": "packed files", "twice the workers": "twice the loaders",
    "twice the cores and workers": "twice the cores", "decoded once and stored ready to use": "stored decoded",
    "four times the prefetched batches": "more prefetching", "checkpoints behind the training": "checkpoints behind",
})  # fmt: skip
PARTS = ("computing", "waiting for input", "writing checkpoints")


def rank_changes(found: StorageMatch) -> pd.DataFrame:
    """Changes that speed up training, best first: free ones, then by gain for the money, then those without a price.

    To set what is bought beside what is rented, a purchase is spread over the years of use in the table ``tco`` (the
    median), every hour of them, and a month is a twelfth of a year.

    Parameters
    ----------
    found : StorageMatch
        What `cookbook.match_storage` gave for one scenario.

    Returns
    -------
    pandas.DataFrame
        By place in `found.changes`: ``change``, ``gain`` [samples/s], ``usd`` (0 is free, NaN not known), ``per``
        ("purchase", "month" or ""), ``usd_per_hour``, ``gain_per_usd`` [samples/s for each USD/h], ``saved_per_hour``
        (what the same training then costs less in an hour of the accelerators as they are) [USD/h], ``pays_after`` (of
        a purchase) [h], ``basis``, ``short`` (the change in at most 20 letters).

    Raises
    ------
    ValueError
        If `found` holds several scenarios.

    Examples
    --------
    >>> import cookbook as cb
    >>> tier = {"storage": "samsung-860-evo-1tb", "price_usd_per_tb": 79}
    >>> frame = rank_changes(cb.match_storage(0.05, "h100-sxm", tier, "imagenet-1k", batch=256, accelerators=8))
    >>> frame["change"].iloc[0], frame["per"].iloc[0]
    ('twice the drives or nodes of the storage', 'purchase')
    """
    import pandas as pd

    _one(found)
    columns = {"change": "name", "gain": "gain", "usd": "usd", "per": "per", "basis": "basis"}
    frame = pd.DataFrame({column: [getattr(c, name) for c in found.changes] for column, name in columns.items()})
    hours = np.where(frame["per"] == "month", MONTH / HOUR, years_of_use()[1] * YEAR / HOUR)
    hourly = frame["usd"] / hours
    saved = found.usd_per_hour * frame["gain"] / (found.samples_per_s + frame["gain"])
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = frame["gain"] / hourly
        pays = np.where((frame["usd"] > 0) & (frame["per"] == "purchase"), frame["usd"] / saved, np.nan)
    frame = frame.assign(usd_per_hour=hourly, gain_per_usd=worth, saved_per_hour=saved, pays_after=pays,
                         short=[SHORT.get(name, name) for name in frame["change"]])  # fmt: skip
    group = np.select([frame["usd"] == 0, frame["usd"].notna()], [0, 1], 2)
    order = np.lexsort((-frame["gain"], np.where(group == 1, -worth, 0), group))
    return frame.iloc[order]


def epoch_parts(found: StorageMatch) -> pd.DataFrame:
    """Time of the first and of a later epoch by what accelerators do in it.

    Parameters
    ----------
    found : StorageMatch
        What `cookbook.match_storage` gave for one scenario.

    Returns
    -------
    pandas.DataFrame
        ``epoch`` ("first epoch", "each later epoch"), ``part`` (one of `PARTS`), ``start``, ``end`` [s], ``share`` of
        the epoch.

    Raises
    ------
    ValueError
        If `found` holds several scenarios.

    Examples
    --------
    >>> import cookbook as cb
    >>> parts = epoch_parts(cb.match_storage(0.05, "h100-sxm", "samsung-860-evo-1tb", "imagenet-1k", batch=256))
    >>> round(float(parts.groupby("epoch")["share"].sum().min()), 9)
    1.0
    """
    import pandas as pd

    _one(found)
    rows = []
    for name, seconds, used in (
        ("first epoch", found.first_epoch_seconds, found.first_utilisation),
        ("each later epoch", found.later_epoch_seconds, found.utilisation),
    ):
        running = 1 - found.checkpoint_stall
        shares = np.array([used * running, (1 - used) * running, found.checkpoint_stall])
        ends = seconds * np.cumsum([0, *shares])
        rows += [(name, *row) for row in zip(PARTS, ends, ends[1:], shares, strict=False)]
    return pd.DataFrame(rows, columns=["epoch", "part", "start", "end", "share"])


def chain_figures(found: StorageMatch) -> pd.DataFrame:
    """Stages, the whole chain and each change as plain numbers.

    Parameters
    ----------
    found : StorageMatch
        What `cookbook.match_storage` gave for one scenario.

    Returns
    -------
    pandas.DataFrame
        ``kind`` (stage, whole or change), ``name``, ``samples_per_s`` and ``gain`` [1/s], ``utilisation``, ``usd``.

    Raises
    ------
    ValueError
        If `found` holds several scenarios.

    Examples
    --------
    >>> import cookbook as cb
    >>> frame = chain_figures(cb.match_storage(0.05, "h100-sxm", "samsung-860-evo-1tb", "imagenet-1k", batch=256))
    >>> sorted(set(frame["kind"]))
    ['change', 'stage', 'whole']
    """
    import pandas as pd

    _one(found)
    nan = np.nan
    rows = [("stage", name, rate, nan, nan, nan) for name, rate in found.stages.items()]
    rows += [("whole", "later epochs", found.samples_per_s, nan, found.utilisation, nan),
             ("whole", "first epoch", found.first_samples_per_s, nan, found.first_utilisation, nan)]  # fmt: skip
    rows += [("change", c.name, c.samples_per_s, c.gain, c.utilisation, c.usd) for c in found.changes]
    return pd.DataFrame(rows, columns=["kind", "name", "samples_per_s", "gain", "utilisation", "usd"])


def _one(found: StorageMatch) -> None:
    if not isinstance(found, StorageMatch):
        raise TypeError(f"found = {shown(found)} is not what cookbook.match_storage gave; match storage first")
    if np.ndim(found.samples_per_s):
        raise ValueError(f"found holds {np.size(found.samples_per_s):,} scenarios: match one, without lists, to rank")
