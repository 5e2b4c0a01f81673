"""Accelerators as records, built from catalogue rows or made up from one with some figures changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from cookbook import catalog, units
from cookbook.catalog.reading import nearest

if TYPE_CHECKING:
    import pandas as pd

# Fields that may be changed, with the unit that text must be in.
QUANTITIES = {"memory_bytes": "B", "mem_bandwidth": "B/s", "tdp_watts": "W"}
PEAK = "peak_"
PEAK_UNIT = "FLOP/s"
# Examples for error messages only.
PLAUSIBLE = {"B": 80e9, "B/s": 3e12, "W": 300.0, "FLOP/s": 300e12}
COLUMNS = ("key", "name", "vendor", "kind", "memory_bytes", "mem_bandwidth", "tdp_watts", "launch_date")


@dataclass(frozen=True)
class Accelerator:
    """One accelerator, in SI.

    Attributes
    ----------
    key, name, vendor, kind : str
        As in the catalogue; a changed accelerator has the key of its model with ``*`` behind it.
    memory_bytes, mem_bandwidth, tdp_watts : float
        Device memory [B], its bandwidth [B/s], design power [W]; NaN where no figure is known.
    peaks : mapping of str to float
        Dense peaks by catalogue column, ``peak_fp32`` and so on [FLOP/s]; NaN where it has none.
    launch_date : str
    sources : tuple of str
        Keys of the sources that the row rests on.
    changed : mapping of str to float
        What was changed, in SI; empty for a catalogue row.
    """

    key: str
    name: str
    vendor: str
    kind: str
    memory_bytes: float
    mem_bandwidth: float
    peaks: Mapping[str, float] = field(repr=False, hash=False)
    tdp_watts: float
    launch_date: str
    sources: tuple[str, ...] = field(repr=False)
    changed: Mapping[str, float] = field(default_factory=dict, hash=False)


def accelerator(
    name: str | Accelerator | None = None, *, like: str | Accelerator | None = None, **changes: Any
) -> Accelerator:
    """An accelerator of the catalogue, or one like it with some figures changed.

    Parameters
    ----------
    name : str
        Key, name or alias. Beside `like`, the name to give the changed accelerator.
    like : str
        The accelerator to start from.
    **changes : str or float
        ``memory_bytes``, ``mem_bandwidth``, ``tdp_watts`` or any ``peak_...``: text with a unit, or a number in SI.

    Raises
    ------
    UnknownName
        If no such accelerator is known (a KeyError; names the nearest three).
    ValueError
        If a field is unknown, or a figure is negative, not finite, or in the wrong unit.

    Examples
    --------
    >>> accelerator("H100 SXM5").mem_bandwidth
    3350000000000.0
    >>> accelerator(like="h100-sxm", mem_bandwidth="4 TB/s").changed
    {'mem_bandwidth': 4000000000000.0}
    """
    if like is not None:
        return _changed(_known(like), None if name is None else str(name), changes)
    if name is None:
        raise ValueError('accelerator needs a name, or like= and what differs: accelerator(like="h100-sxm", ...)')
    if changes:
        raise ValueError(f"{next(iter(changes))}= needs like=: write accelerator(like={name!r}, ...)")
    return _known(name)


def _known(name: str | Accelerator) -> Accelerator:
    if isinstance(name, Accelerator):
        return name
    return _row(catalog.lookup("accelerators", name))


@cache
def _row(key: str) -> Accelerator:
    frame = catalog.table("accelerators")
    row = frame.loc[frame["key"] == key].iloc[0]
    return Accelerator(
        key=key,
        name=row["name"],
        vendor=row["vendor"],
        kind=row["kind"],
        memory_bytes=float(row["memory_bytes"]),
        mem_bandwidth=float(row["mem_bandwidth"]),
        peaks={column: float(row[column]) for column in frame.columns if column.startswith(PEAK)},
        tdp_watts=float(row["tdp_watts"]),
        launch_date=row["launch_date"],
        sources=tuple(row["source"].split(";")),
    )


def _changed(base: Accelerator, name: str | None, changes: Mapping[str, Any]) -> Accelerator:
    allowed = [*QUANTITIES, *base.peaks]
    for changed_field in changes:
        if changed_field not in allowed:
            close = ", ".join(nearest(changed_field, allowed, 3))
            raise ValueError(f"accelerator has no field {changed_field!r} to change; nearest: {close}")
    values = {changed_field: _quantity(changed_field, value) for changed_field, value in changes.items()}
    plain: dict[str, Any] = {column: value for column, value in values.items() if column in QUANTITIES}
    peaks = {column: values.get(column, peak) for column, peak in base.peaks.items()}
    return replace(
        base,
        key=base.key if base.changed or not values else f"{base.key}*",
        name=name or (base.name if base.changed or not values else f"{base.name}, changed"),
        peaks=peaks,
        changed={**base.changed, **values},
        **plain,
    )


def _quantity(changed_field: str, value: Any) -> float:
    """A changed figure in SI, refused if it cannot be one."""
    unit = QUANTITIES.get(changed_field, PEAK_UNIT)
    example = units.human(PLAUSIBLE[unit], unit)
    try:
        number = float(units.si(value, unit))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{changed_field} is {value!r}: {error}. Write for example {example!r}") from None
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"{changed_field} is {value!r}; it must be above 0 and finite, for example {example!r}")
    return number


def peak_flops(device: str | Accelerator, number_format: str) -> float:
    """Dense peak of a device in a number format [FLOP/s]; NaN if it lacks the format.

    The number format says which columns count: FP16 training counts the rate with 32-bit accumulation, which on
    GeForce cards is half of the advertised one.

    >>> peak_flops("rtx-4090", "fp16"), peak_flops("h100-sxm", "bf16")
    (165200000000000.0, 989000000000000.0)

    Raises
    ------
    UnknownName
        If the device or the number format is not known.
    """
    peaks = _known(device).peaks
    return _peak(peaks, catalog.lookup("number_formats", number_format))


def _peak(peaks: Mapping[str, float], number_format: str) -> float:
    found = (peaks[column] for column in _peak_columns()[number_format])
    return next((peak for peak in found if not math.isnan(peak)), math.nan)


@lru_cache(maxsize=1)
def _peak_columns() -> dict[str, list[str]]:
    frame = catalog.table("number_formats")
    return {name: columns.split(";") for name, columns in zip(frame["name"], frame["peak_columns"], strict=True)}


def formats(device: str | Accelerator) -> list[str]:
    """Number formats that a device has a peak for.

    >>> formats("v100")
    ['fp32', 'fp16']
    """
    peaks = _known(device).peaks
    return [name for name in _peak_columns() if not math.isnan(_peak(peaks, name))]


def accelerator_table(keys: Sequence[str | Accelerator] | None = None) -> pd.DataFrame:
    """Accelerators as a table in SI, one row each, for work on many at once.

    Parameters
    ----------
    keys : sequence of str or Accelerator, optional
        Which ones, in this order, custom ones included; all of the catalogue if not given.

    Returns
    -------
    pandas.DataFrame
        Columns key, name, vendor, kind, memory_bytes, mem_bandwidth, tdp_watts, launch_date, sources and the peaks.
    """
    import pandas as pd

    frame = catalog.table("accelerators")
    peaks = [column for column in frame.columns if column.startswith(PEAK)]
    columns = [*COLUMNS, *peaks, "sources"]
    if keys is None:
        frame["sources"] = [tuple(source.split(";")) for source in frame["source"]]
        return frame[columns]
    devices = [_known(key) for key in keys]
    rows = [{**{column: getattr(device, column) for column in COLUMNS}, **device.peaks} for device in devices]
    table = pd.DataFrame(rows, columns=columns[:-1])
    table["sources"] = [device.sources for device in devices]
    return table
