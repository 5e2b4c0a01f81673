"""Frames, tables and parts of the panel "Which accelerator for this work?", all from one comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.charts import devices as charts
from cookbook.charts.look import MUTED, PALETTE, TIME_PARTS
from cookbook.charts.rows import row_order
from cookbook.panels.shell import MOST_ROWS, Part, Picture
from cookbook.planning import comparison
from cookbook.prediction.roofline import roofline_table

# Picture: the columns of its figure, of its ends, and of the reason where there is none.
COLUMNS = {
    "throughput": ("samples_per_s", "low", "high", "why"),
    "energy": ("joules", "joules_low", "joules_high", "why_joules"),
    "cost": ("usd_per_million", "usd_per_million_low", "usd_per_million_high", "why_usd"),
}
UNIT = {"throughput": "samples/s", "energy": "J a sample", "cost": "USD a million samples"}
# Short words for a reason, by how it is told in full.
SHORT = (("trains nothing", "trains nothing"), ("has no peak", "no such peak"), ("no peak", "no peak known"),
         ("does not train", "format trains not"), ("rated power", "no rated power"),
         ("states a price", "no price"))  # fmt: skip
_HOW = {
    "compute": "Matrix products and convolutions at the fitted share of the peak, or their bytes, whichever is longer",
    "memory traffic": "Bytes of norms, activations and sums over memory bandwidth",
    "launch": "Operations times what starting one takes in this software, as far as arithmetic does not hide it",
    "optimiser": "Bytes that the update of each parameter moves over memory bandwidth",
    "data-parallel communication": "Nothing is exchanged on one device",
}
MOST_PARTS = 8
# Decades between two labels of roofs that can both be read.
_APART = 0.3


@dataclass(frozen=True, eq=False)
class Compared:
    """One comparison, the device looked at and the operation asked for; never change it."""

    model: Any
    title: str
    phase: str
    batch: int
    table: pd.DataFrame
    on: str
    op: str

    @cached_property
    def ranks(self) -> dict[str, pd.DataFrame]:
        """Devices that have the figure of each picture, the best first, with what its sentence needs."""
        found = {}
        for picture, (point, low, high, _) in COLUMNS.items():
            known = self.table.loc[self.table[point].notna(), ["key", "name", "fits", point, low, high]]
            found[picture] = known.sort_values(point, ascending=picture != "throughput", kind="stable")
        return found

    @cached_property
    def looked(self) -> pd.Series:
        """Row of the device looked at."""
        return self.table[self.table["key"] == self.on].iloc[0]

    @cached_property
    def ops(self) -> pd.DataFrame:
        """Operations of one forward pass on the device looked at, those alike together, the longest first."""
        row = self.looked
        if not row["precision"] or not math.isfinite(row["ridge"]):
            raise ValueError(f"{row['name']} has no roofline here: {row['why'] or 'its memory bandwidth is not known'}")
        every = roofline_table(self.model, self.on, self.batch, precision=row["precision"])
        every = every[(every["bytes"] > 0) & (every["kind"] != "optimiser")]
        sizes = [every["kind"], (every["flop"] / every["count"]).round(3), (every["bytes"] / every["count"]).round(3)]
        found = every.groupby(sizes, sort=False).agg(
            name=("name", "first"), kind=("kind", "first"), count=("count", "sum"), flop=("flop", "sum"),
            bytes=("bytes", "sum"), intensity=("intensity", "first"), attainable_flops=("attainable_flops", "first"),
            seconds=("seconds", "sum"), bound_by=("bound_by", "first"))  # fmt: skip
        again = found.groupby("name").cumcount() + 1  # networks repeat a name in every block
        found["name"] = [f"{name} ({n})" if n > 1 else name for name, n in zip(found["name"], again, strict=True)]
        found = found.sort_values("seconds", ascending=False, kind="stable").reset_index(drop=True)
        return found.assign(share=found["seconds"] / found["seconds"].sum())

    @cached_property
    def chosen(self) -> pd.Series:
        """The operation asked for; the longest where none is, or the network has none of that name."""
        named = np.flatnonzero(self.ops["name"] == self.op)
        return self.ops.iloc[named[0] if len(named) else 0]


def figure(value: float) -> str:
    """A figure with three digits.

    Examples
    --------
    >>> figure(1364.7), figure(0.02345), figure(12.34), figure(2.3e6)
    ('1,365', '0.0234', '12.3', '2,300,000')
    """
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def short(why: str) -> str:
    """A reason in two or three words.

    Examples
    --------
    >>> short("no row of data/cloud_prices.csv states a price on demand of k40"), short("something else")
    ('no price', 'no figure')
    """
    return next((words for part, words in SHORT if part in why), "no figure" if why else "not known")


def per_device_frame(view: Compared, picture: str, before: pd.DataFrame | None = None) -> pd.DataFrame:
    """What `charts.per_device` draws, the best first."""
    point, low, high, why = COLUMNS[picture]
    needed = ["key", "name", "precision", "evidence", "fits", "samples_per_s", "share_of_peak", *COLUMNS[picture]]
    table = view.table[list(dict.fromkeys(needed))]
    table = table.sort_values(point, ascending=picture != "throughput", na_position="last", kind="stable")
    pinned = {} if before is None else dict(zip(before["key"], before[point], strict=True))
    known = table[point].notna()
    peak = table["samples_per_s"] / table["share_of_peak"] if picture == "throughput" else table[point] * np.nan
    names = table["name"].str.split(" (", regex=False).str[0]
    names = table["name"].where(names.duplicated(keep=False), names) + _formats(table)
    cells = zip(*(table[name] for name in (point, low, high, why, "fits")), strict=True)
    return pd.DataFrame({
        "row": names, "point": table[point], "low": table[low],
        "high": table[high], "peak": peak,
        "before": [pinned.get(key) for key in table["key"]], "evidence": table["evidence"],
        "text": [_text(*row) for row in cells],
        "looked": (table["key"] == view.on) & known, "control": "on", "value": table["key"],
    }).astype({"before": float})  # fmt: skip


def _formats(table: pd.DataFrame) -> pd.Series:
    """Number format to tell after each name, where devices are compared in several."""
    told = ", " + table["precision"]
    several = table["precision"].replace("", np.nan).nunique() > 1
    return told.where(several & (table["precision"] != ""), "")


def _text(point: float, low: float, high: float, why: str, fits: str) -> str:
    if math.isnan(point):
        return short(why)
    return f"{figure(point)} ({figure(low)}-{figure(high)}){'|does not fit memory' if fits == 'no' else ''}"


def per_device_picture(view: Compared, picture: str, title: str, before: pd.DataFrame | None) -> Picture:
    """One figure a device."""
    frame = per_device_frame(view, picture, before)
    start, end = charts.figure_domain(frame)
    return Picture(picture, frame, title, {"rows": row_order(frame), "start": start, "end": end})


def roofline_picture(view: Compared, title: str) -> Picture:
    """Operations of the network under the roofs of all devices compared."""
    ops = view.ops
    spots = pd.DataFrame({
        "what": "op", "id": ops["name"], "x": ops["intensity"], "y": ops["attainable_flops"], "bound": ops["bound_by"],
        "share": ops["share"], "text": [_alike(op) for op in ops.itertuples()],
        "looked": ops["name"] == view.chosen["name"], "control": "op", "value": ops["name"],
    })  # fmt: skip
    spots = spots[spots["x"] > 0]
    left, right = charts.roofline_domain(spots)[:2]
    lines = comparison.roofs(view.table, left, right)
    roofs = pd.DataFrame({
        "what": "roof", "id": lines["key"], "x": lines["intensity"], "y": lines["attainable_flops"],
        "looked": lines["key"] == view.on, "text": lines["name"].str.split(" (", regex=False).str[0],
    })  # fmt: skip
    frame = pd.concat([roofs, spots, _labels(roofs, right)], ignore_index=True)
    frame["looked"] = frame["looked"].astype(bool)
    ends = charts.roofline_domain(frame)
    return Picture("roofline", frame, title, dict(zip(("left", "right", "bottom", "top"), ends, strict=True)))


def _alike(op: Any) -> str:
    more = op.count - 1
    return f"{op.kind} {op.name}" + (f" and {more:,.0f} alike" if more > 0 else "")


def _labels(roofs: pd.DataFrame, right: float) -> pd.DataFrame:
    """Names of roofs at their right ends: of the device looked at, and of others where there is room."""
    ends = roofs[roofs["x"] == right].sort_values(["looked", "y"], ascending=False, kind="stable")
    taken: list[float] = []
    for at, height in zip(ends.index, np.log10(ends["y"]), strict=True):
        free = all(abs(height - other) > _APART for other in taken)
        taken += [height] if free else []
        ends.loc[at, "what"] = "label" if free else "none"
    return ends[ends["what"] == "label"].assign(x=right * 0.93)


def parts(view: Compared, picture: str) -> tuple[Part, ...]:
    """Place 4: operations by time at the roofline, or the time of a pass by part."""
    return op_parts(view) if picture == "roofline" else time_parts(view)


def time_parts(view: Compared) -> tuple[Part, ...]:
    """Time of one pass on the device looked at."""
    row, found = view.looked, []
    for name, colour in TIME_PARTS.items():
        seconds = float(row.get(f"{name} seconds", math.nan))
        if seconds > 0:
            found.append(Part(name, seconds, units.human(seconds, "s"), colour, f"{_HOW.get(name, name)}."))
    return tuple(found)


def op_parts(view: Compared) -> tuple[Part, ...]:
    """Operations of one forward pass at the roofline, the longest first, the rest together."""
    ops, found = view.ops, []
    for at, op in enumerate(ops.head(MOST_PARTS).to_dict("records")):
        colour = (*PALETTE[:4], "#9467BD", "#2F8F9D", "#A67C00", "#8C564B")[at]
        found.append(Part(str(op["name"]), op["seconds"], units.human(op["seconds"], "s"), colour, formula(view, op)))
    rest = ops.iloc[MOST_PARTS:]
    if len(rest):
        seconds, count = float(rest["seconds"].sum()), int(rest["count"].sum())
        words = f"{count:,} more operations, each the longer of arithmetic and traffic."
        found.append(Part("the rest", seconds, units.human(seconds, "s"), MUTED, words))
    return tuple(found)


def formula(view: Compared, op: Any) -> str:
    """How the time of one operation at the roofline comes about, in numbers."""
    row, times = view.looked, f"{op['count']:,.0f} x " if op["count"] > 1 else ""
    flop, moved = op["flop"] / op["count"], op["bytes"] / op["count"]
    peak, wide = units.human(row["peak_flops"], "FLOP/s"), units.human(row["mem_bandwidth"], "B/s")
    longer = "arithmetic" if op["bound_by"] == "compute" else "memory"
    return (
        f"{op['kind']}: {times}max({units.human(flop, 'FLOP')} / {peak}, {units.human(moved, 'B')} / {wide}) = "
        f"{units.human(op['seconds'], 's')}; {op['intensity']:.3g} FLOP/B against {row['ridge']:.3g} at the ridge, so "
        f"{longer} decides."
    )


def device_table(view: Compared) -> pd.DataFrame:
    """Figures of each device as printed text, the fastest first."""
    table = view.table.sort_values("samples_per_s", ascending=False, na_position="last", kind="stable")
    rows = [_device_row(row) for row in table.to_dict("records")]
    return pd.DataFrame(rows)


def _device_row(row: dict[str, Any]) -> dict[str, str]:
    held, room = units.human(row["memory_bytes"], "iB"), units.human(row["capacity_bytes"], "iB")
    dated = f"{row['price_first'][:7]} to {row['price_last'][:7]}" if row["price_last"] else "no price"
    return {
        "Device": row["name"], "Kind": row["kind"], "Format": row["precision"] or "none",
        "Samples/s": _range(row, "throughput"), "Of peak [%]": _percent(row["share_of_peak"]),
        "J a sample": _range(row, "energy"), "USD a million": _range(row, "cost"), "Prices of": dated,
        "Memory": f"{held} of {room}" if row["fits"] in ("yes", "no") else row["fits"] or "none",
        "Known": row["evidence"] or row["why"], "Effort to program (judgement)": _effort()[row["kind"]],
    }  # fmt: skip


@lru_cache(maxsize=1)
def _effort() -> dict[str, str]:
    rows = catalog.table("programmability")
    return dict(zip(rows["kind"], rows["effort"], strict=True))


def _range(row: dict[str, Any], picture: str) -> str:
    point, low, high, why = COLUMNS[picture]
    if math.isnan(row[point]):
        return short(row[why])
    return f"{figure(row[point])} ({figure(row[low])}-{figure(row[high])})"


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{100 * share:.2g}"


def op_table(view: Compared) -> pd.DataFrame:
    """The longest operations as printed text."""
    rows = view.ops.head(MOST_ROWS).to_dict("records")
    return pd.DataFrame([
        {"Operation": op["name"], "Kind": op["kind"], "Times": f"{op['count']:,.0f}",
         "GFLOP": f"{op['flop'] / 1e9:,.3g}", "MB moved": f"{op['bytes'] / 1e6:,.3g}",
         "FLOP/B": f"{op['intensity']:.3g}", "Time at best [us]": f"{op['seconds'] * 1e6:,.3g}",
         "Share [%]": f"{100 * op['share']:.1f}", "Held back by": op["bound_by"]}
        for op in rows
    ])  # fmt: skip


def data(view: Compared, picture: str) -> pd.DataFrame:
    """The numbers behind the picture, in SI units."""
    if picture == "roofline":
        return view.ops
    return view.table.assign(**{name: view.table[name].str.join(";") for name in ("sources", "price_sources")})


def source_rows(view: Compared) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of each source of devices and prices shown."""
    keys = [key for name in ("sources", "price_sources") for cell in view.table[name] for key in cell]
    rows = catalog.table("sources").set_index("key")
    found = []
    for key in dict.fromkeys(keys):
        row = rows.loc[key]
        seen = "recalled" if str(row["seen"]) == "no" else ""
        found.append((str(row["title"]), str(row["url"]), seen))
    return tuple(found)
