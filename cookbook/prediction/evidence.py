"""What has been measured on the accelerator at hand, read from the tables."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from cookbook import catalog
from cookbook.prediction.devices import device_table, peaks

if TYPE_CHECKING:
    import pandas as pd


LARGE = 1024


def observed_efficiency(matmul: pd.DataFrame | None = None) -> pd.DataFrame:
    """Share of the peak that measured matrix products reached, by accelerator and number format.

    Most rows of the table are the best shape of a search, so the figures tell what the best kernels reach,
    not what a network reaches. Products too small to fill an accelerator (a side below `LARGE`) do not count.
    The share is of the peak in the table of accelerators, whatever peak the source took.

    Parameters
    ----------
    matmul : pandas.DataFrame, optional
        Rows like those of the table ``matmul``, which is the default.

    Returns
    -------
    pandas.DataFrame
        One row an accelerator and number format: key, number_format, measured (rows), observed_low and
        observed_high (10th and 90th percentile; equal where there is one row), observed_best,
        observed_sources. An accelerator without measurements has no row.
    """
    return _of_the_table().copy() if matmul is None else _observed(matmul)


@lru_cache(maxsize=1)
def _of_the_table() -> pd.DataFrame:
    return _observed(catalog.table("matmul"))


def _observed(matmul: pd.DataFrame) -> pd.DataFrame:
    devices = device_table(None)
    matmul = matmul[~(matmul[["m", "n", "k"]] < LARGE).any(axis=1)]
    parts = []
    for precision, group in matmul.groupby("number_format", sort=False):
        peak = dict(zip(devices["key"], peaks(devices, str(precision)), strict=True))
        ran = group["accelerator"].map(peak).to_numpy() * group["device_fraction"].to_numpy()
        parts.append(group.assign(share=group["achieved_flops"].to_numpy() / ran))
    return _percentiles(parts)


def _percentiles(parts: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    rows = pd.concat(parts).dropna(subset=["share"])
    grouped = rows.groupby(["accelerator", "number_format"], sort=False)
    return grouped.agg(
        measured=("share", "size"),
        observed_low=("share", lambda share: share.quantile(0.1)),
        observed_high=("share", lambda share: share.quantile(0.9)),
        observed_best=("share", "max"),
        observed_sources=("source", lambda source: ";".join(dict.fromkeys(source))),
    ).reset_index(names=["key", "number_format"])
