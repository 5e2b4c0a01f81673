"""Plain words for what the numbers of one accelerator mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cookbook import units

if TYPE_CHECKING:
    import pandas as pd


def why_not(devices: pd.DataFrame, precision: str) -> list[str]:
    """Reason why a row's numbers are missing or the model does not fit; "" where all is well.

    Parameters
    ----------
    devices : pandas.DataFrame
        Columns batch, capacity_bytes, needed_bytes, peak_flops, mem_bandwidth, fits, largest_batch, and formats
        (those that the accelerator has).
    precision : str
        The number format asked for.
    """
    return [_reason(row, precision) for row in devices.itertuples(index=False)]


def verdicts(devices: pd.DataFrame, epochs: float, target_seconds: float) -> list[str]:
    """Whether each accelerator, alone, could meet the target, in plain words.

    Parameters
    ----------
    devices : pandas.DataFrame
        Columns as for `why_not`, and needed_fraction, observed_best, unfused_overlap_seconds.
    epochs, target_seconds : float
        Epochs to train, and the time for all of them [s].
    """
    return [_verdict(row, epochs, target_seconds) for row in devices.itertuples(index=False)]


def _reason(row: Any, precision: str) -> str:
    if math.isnan(row.batch):
        return "the batch is not a whole number of 1 or more"
    reasons = []
    if math.isnan(row.peak_flops):
        reasons.append(f"no {precision} peak is known for it; those known are {row.formats or 'none that train'}")
    if math.isnan(row.mem_bandwidth):
        reasons.append("its memory bandwidth is not known")
    if math.isnan(row.capacity_bytes):
        reasons.append("its memory size is not known")
    elif not row.fits:
        short = units.human(row.needed_bytes - row.capacity_bytes, "iB")
        reasons.append(f"does not fit by {short} at batch {row.batch:,.0f}; {_largest(row.largest_batch)}")
    return "; ".join(reasons)


def _largest(batch: float) -> str:
    return f"largest batch is {batch:,.0f}" if batch else "not even batch 1 fits"


def _verdict(row: Any, epochs: float, target_seconds: float) -> str:
    needed = row.needed_fraction
    if math.isnan(needed) or math.isnan(row.batch):
        return "cannot tell"
    if needed > 1:
        return f"cannot: needs {ratio(needed)}x its peak"
    if math.isnan(row.capacity_bytes):
        return f"cannot tell whether it fits: needs {ratio(100 * needed)} % of peak"
    if not row.fits:
        return f"cannot: does not fit at batch {row.batch:,.0f}"
    if needed > row.observed_best:
        best = ratio(100 * row.observed_best)
        return f"possible only above the best matmul seen, {best} %"
    moving = row.unfused_overlap_seconds * epochs / target_seconds
    if moving > 1:
        return f"possible only if fused: data take {ratio(moving)}x as long"
    return f"possible: needs {ratio(100 * needed)} % of peak"


def ratio(value: float) -> str:
    """Two significant digits without an exponent.

    >>> ratio(1.94), ratio(0.0345), ratio(1234.0)
    ('1.9', '0.035', '1,200')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(abs(rounded))))}f}"
