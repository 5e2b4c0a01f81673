"""Accelerators as one frame of columns, so that one array expression serves them all, and what was measured on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.catalog.fields import Field

# Shortest side of a product that fills an accelerator.
MIN_SIDE = 1024
# Arguments that rows of tables stand for.
ACCELERATORS = Field.named(
    "accelerators", hardware.Accelerator, name="accelerators", many=True, entries=10_000, optional=True
)
FORMAT, OPTIMISER = Field.named("number_formats"), Field.named("optimisers")


def format_row(precision: str) -> pd.Series:
    """Return the row of the table ``number_formats``; an unknown name raises `catalog.UnknownName`."""
    return _row("number_formats", FORMAT.read(precision, "precision"))


def optimiser_row(optimiser: str) -> pd.Series:
    """Return the row of the table ``optimisers``; an unknown name raises `catalog.UnknownName`."""
    return _row("optimisers", OPTIMISER.read(optimiser, "optimiser"))


def device_table(accelerators: Iterable[Any] | None) -> pd.DataFrame:
    """Return one row for each accelerator in SI units: key, name, kind, memory_bytes, mem_bandwidth, peak_*, sources.

    Parameters
    ----------
    accelerators : iterable of str or Accelerator, optional
        Names of the table or records of the reader's own; all of the table by default.

    Raises
    ------
    cookbook.catalog.UnknownName
        A name that the table does not have.
    ValueError
        No accelerator at all.
    """
    if accelerators is None:
        return hardware.accelerator_table()
    return hardware.accelerator_table(list(ACCELERATORS.read(accelerators)))


def peaks(devices: pd.DataFrame, precision: str) -> np.ndarray:
    """Return the peak of each accelerator in one number format, whose row names the columns, the best first
    [FLOP/s]."""
    peak = np.full(len(devices), np.nan)
    for column in format_row(precision)["peak_columns"].split(";"):
        peak = np.where(np.isnan(peak), devices[column].to_numpy(dtype=float), peak)
    return peak


def formats_that_train(devices: pd.DataFrame) -> list[str]:
    """Return, for each accelerator, the number formats that train and for which it has a peak, as one text."""
    rows = catalog.table("number_formats")
    names = [str(name) for name in rows.loc[rows["trains"] == "yes", "name"]]
    has = np.array([~np.isnan(peaks(devices, name)) for name in names])
    return [", ".join(name for name, there in zip(names, column, strict=True) if there) for column in has.T]


@lru_cache(maxsize=64)
def _row(table: str, name: str) -> pd.Series:
    rows = catalog.table(table)
    return rows.loc[rows["name"] == catalog.lookup(table, name)].iloc[0]


def observed_efficiency(matmul: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the share of the peak that measured matrix products reached, by accelerator and number format.

    Most rows of the table are the best shape of a search, so the values are those of the best kernels,
    not what a network reaches. Products too small to fill an accelerator (a side below `MIN_SIDE`) do not count.
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
    matmul = matmul[~(matmul[["m", "n", "k"]] < MIN_SIDE).any(axis=1)]
    parts = []
    for precision, group in matmul.groupby("number_format", sort=False):
        peak = dict(zip(devices["key"], peaks(devices, str(precision)), strict=True))
        ran = group["accelerator"].map(peak).to_numpy() * group["device_fraction"].to_numpy()
        parts.append(group.assign(share=group["achieved_flops"].to_numpy() / ran))
    return _percentiles(parts)


def _percentiles(parts: list[pd.DataFrame]) -> pd.DataFrame:
    rows = pd.concat(parts).dropna(subset=["share"])
    grouped = rows.groupby(["accelerator", "number_format"], sort=False)
    return grouped.agg(
        measured=("share", "size"),
        observed_low=("share", lambda share: share.quantile(0.1)),
        observed_high=("share", lambda share: share.quantile(0.9)),
        observed_best=("share", "max"),
        observed_sources=("source", lambda source: ";".join(dict.fromkeys(source))),
    ).reset_index(names=["key", "number_format"])
