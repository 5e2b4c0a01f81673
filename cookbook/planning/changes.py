"""What to change first in an input chain, by what it gains for the money, bought or rented."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cookbook.planning.cost import HOUR, MONTH, YEAR, years_of_use

if TYPE_CHECKING:
    import pandas as pd

    from cookbook.prediction.match import StorageMatch


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
        a purchase) [h], ``basis``.

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

    if np.ndim(found.samples_per_s):
        raise ValueError(f"found holds {np.size(found.samples_per_s):,} scenarios: match one, without lists, to rank")
    frame = pd.DataFrame({
        "change": [c.name for c in found.changes], "gain": [c.gain for c in found.changes],
        "usd": [c.usd for c in found.changes], "per": [c.per for c in found.changes],
        "basis": [c.basis for c in found.changes],
    })  # fmt: skip
    hours = np.where(frame["per"] == "month", MONTH / HOUR, years_of_use()[1] * YEAR / HOUR)
    hourly = frame["usd"] / hours
    after = found.samples_per_s + frame["gain"]
    saved = found.usd_per_hour * frame["gain"] / after
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = frame["gain"] / hourly
        pays = np.where((frame["usd"] > 0) & (frame["per"] == "purchase"), frame["usd"] / saved, np.nan)
    frame = frame.assign(usd_per_hour=hourly, gain_per_usd=worth, saved_per_hour=saved, pays_after=pays)
    group = np.select([frame["usd"] == 0, frame["usd"].notna()], [0, 1], 2)
    order = np.lexsort((-frame["gain"], np.where(group == 1, -worth, 0), group))
    return frame.iloc[order]
