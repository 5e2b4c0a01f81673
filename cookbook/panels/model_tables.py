"""Tables and sources of the panel "What does this model need?"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from cookbook import catalog, hardware
from cookbook.panels.model_words import device_labels
from cookbook.prediction.evidence import observed_efficiency
from cookbook.prediction.requirements import sizes_of
from cookbook.prediction.verdicts import ratio
from cookbook.units import human

if TYPE_CHECKING:
    from cookbook.prediction.requirements import Requirements

Source = tuple[str, str, str]
MEMORY, BANDWIDTH = "memory_bytes", "mem_bandwidth"
_RECALLED = " (recalled)"


def device_table(need: Requirements, devices: Sequence[hardware.Accelerator]) -> pd.DataFrame:
    """The accelerators as printed text, units in the headings; a figure from memory says so beside it."""
    rows = zip(device_labels(need.devices), devices, need.devices.itertuples(index=False), strict=True)
    return pd.DataFrame([_device_row(label, device, row, need.precision) for label, device, row in rows])


def _device_row(label: str, device: hardware.Accelerator, row: Any, precision: str) -> dict[str, str]:
    peak = _peak_column(device, precision)
    return {
        "Accelerator": label,
        f"Peak {precision} [TFLOP/s]": _marked(row.peak_flops / 1e12, device, peak),
        "Needed [% of peak]": _printed(100 * row.needed_fraction),
        "Measured matmul [% of peak]": _measured(row),
        "Memory [GiB]": _marked(row.capacity_bytes / 2**30, device, MEMORY),
        "Bandwidth [TB/s]": _marked(row.mem_bandwidth / 1e12, device, BANDWIDTH),
        "Largest batch": _printed(row.largest_batch),
        "One epoch, at least": _seconds(row.bound_seconds),
        "Unfused, overlapped": _seconds(row.unfused_overlap_seconds),
        "Devices, at least": _printed(row.devices_needed),
        "Verdict": row.verdict + (f" ({row.why})" if row.why else ""),
    }


def model_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The networks as printed text, the chosen ones first, then the largest."""
    rows = frame.sort_values(["selected", "parameters"], ascending=False)
    return pd.DataFrame(
        {
            "Network": rows["title"],
            "Kind": rows["group"],
            "Parameters [million]": [f"{value / 1e6:,.4g}" for value in rows["parameters"]],
            "Forward [GMAC]": [f"{value / 2e9:,.4g}" for value in rows["flop"]],
            "Forward [GFLOP]": [f"{value / 1e9:,.4g}" for value in rows["flop"]],
            "Figures": rows["status"],
        }
    )


def source_rows(needs: Sequence[Requirements], devices: Sequence[hardware.Accelerator]) -> tuple[Source, ...]:
    """(title, link, what for) of each source of a figure that is used; recalled figures are marked."""
    need = needs[0]
    uses: dict[str, dict[str, list[str]]] = {}

    def use(keys: Sequence[str], what: str, whose: str) -> None:
        for key in filter(None, keys):
            names = uses.setdefault(key, {}).setdefault(what, [])
            names.extend([whose] if whose not in names else [])

    for one in needs:
        use(one.workload.sources, "layers of", one.workload.title)
    _, precision, optimiser, keys = sizes_of(need.precision, need.optimiser)
    use(keys, "bytes of", f"{precision}, {optimiser} and the runtime")
    labels = device_labels(need.devices)
    for label, device in zip(labels, devices, strict=True):
        for column, what in ((MEMORY, "memory of"), (BANDWIDTH, "bandwidth of"), (None, "peak of")):
            stated, recalled = _origin(device, column or _peak_column(device, need.precision))
            use(stated, what, label + (_RECALLED if recalled else ""))
        use(_measured_sources(device.key, need.precision), "matmul measured on", label)
    found = tuple(_source(key, "; ".join(f"{w} {', '.join(n)}" for w, n in uses[key].items())) for key in uses)
    return found + tuple(
        (f"Your own figures for {label}", "", ", ".join(device.changed))
        for label, device in zip(labels, devices, strict=True) if device.changed
    )  # fmt: skip


def _source(key: str, what_for: str) -> Source:
    row = _sources().get(key, {"title": key, "url": "", "seen": "no"})
    marks = ["(recalled, not opened)"] if key.startswith("recalled") else []
    return row["title"], row["url"], " ".join([*marks, what_for])


@lru_cache(maxsize=1)
def _sources() -> dict[str, dict[str, str]]:
    rows = catalog.table("sources")[["key", "title", "url", "seen"]].fillna("").astype(str)
    return {row["key"]: row for row in rows.to_dict("records")}


def _origin(device: hardware.Accelerator, column: str) -> tuple[tuple[str, ...], bool]:
    """Sources of one figure of an accelerator, and whether it is recalled; nothing where it is the reader's own."""
    return ((), False) if not column or column in device.changed else _stated(device.key.rstrip("*"), column)


@lru_cache(maxsize=1024)
def _stated(key: str, column: str) -> tuple[tuple[str, ...], bool]:
    try:
        stated = catalog.provenance(key, column)
    except ValueError:
        return (), False
    return tuple(stated.source.split(";")), stated.how == "recalled"


def _peak_column(device: hardware.Accelerator, precision: str) -> str:
    """Column of the peak that counts for a number format; "" where the accelerator has none."""
    known = (c for c in _peak_columns(precision) if not math.isnan(device.peaks.get(c, math.nan)))
    return next(known, "")


@lru_cache(maxsize=32)
def _peak_columns(precision: str) -> tuple[str, ...]:
    rows = catalog.table("number_formats").set_index("name")
    return tuple(rows.loc[precision, "peak_columns"].split(";"))


@lru_cache(maxsize=256)
def _measured_sources(key: str, precision: str) -> tuple[str, ...]:
    seen = observed_efficiency()
    cells = seen.loc[(seen["key"] == key) & (seen["number_format"] == precision), "observed_sources"]
    return tuple(dict.fromkeys(";".join(cells).split(";")))


def _marked(value: float, device: hardware.Accelerator, column: str) -> str:
    return _printed(value) + (_RECALLED if _origin(device, column)[1] else "")


def _printed(value: float) -> str:
    if math.isnan(value):
        return ""
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else ratio(value)


def _seconds(value: float) -> str:
    return "" if math.isnan(value) else human(value, "s")


def _measured(row: Any) -> str:
    if math.isnan(row.observed_high):
        return "none"
    low, high = f"{100 * row.observed_low:.0f}", f"{100 * row.observed_high:.0f}"
    return f"{low if low == high else f'{low}-{high}'} (n = {row.measured:.0f})"
