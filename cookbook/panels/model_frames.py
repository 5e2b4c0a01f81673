"""Frames, tables and words of the panel "What does this model need?", all from one `Requirements`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from cookbook import catalog
from cookbook.charts.look import MEMORY_PARTS
from cookbook.charts.models import group_of, memory_domain, memory_title, rate_domain, rate_title, zoo_title
from cookbook.charts.rows import row_order
from cookbook.panels.controls import duration
from cookbook.panels.shell import Part, Picture
from cookbook.units import human
from cookbook.workloads import zoo

if TYPE_CHECKING:
    from cookbook.prediction.requirements import Requirements

PRINTED = {"optimiser": "optimiser states", "master": "fp32 copy"}
PUBLISHED = ("verified",)
MOST_TALL_ROWS = 8


def verdict_class(verdict: str) -> str:
    """Mark that a verdict in words is drawn with.

    Examples
    --------
    >>> verdict_class("cannot: needs 2.1x its peak")
    'cannot at its peak'
    """
    starts = {
        "cannot tell": "cannot tell",
        "cannot: does not fit": "does not fit",
        "cannot": "cannot at its peak",
        "possible only": "possible under a condition",
        "possible": "possible",
    }
    return next((mark for start, mark in starts.items() if verdict.startswith(start)), "cannot tell")


def device_words(row: Any, number_format: str) -> str:
    """Two short lines beside an accelerator: what share of its peak is needed, and what that means."""
    if math.isnan(row.peak_flops):
        return f"no {number_format} peak known"
    share = f"{percent(row.needed_fraction)} of peak"
    if row.needed_fraction > 1:
        return f"{share}|{row.devices_needed:,.0f} devices at least"
    if row.fits is False or (not row.fits and not math.isnan(row.capacity_bytes)):
        return f"{share}|{_fitting(row.largest_batch)}"
    if "fused" in row.verdict:
        return f"{share}|only if fused"
    return f"{share}|{_beside_measured(row)}"


def _beside_measured(row: Any) -> str:
    if math.isnan(row.observed_high):
        return "no measurement"
    if row.needed_fraction < row.observed_low:
        return "below measured"
    return "within measured" if row.needed_fraction <= row.observed_high else "above measured"


def _fitting(largest: float) -> str:
    return f"fits batch {largest:,.0f} at most" if largest else "not even batch 1 fits"


def percent(fraction: float) -> str:
    """A share in percent, two digits at least.

    Examples
    --------
    >>> percent(0.0345), percent(2.114), percent(41.3)
    ('3.5 %', '211 %', '4,130 %')
    """
    value = 100 * fraction
    return f"{value:.2g} %" if value < 10 else f"{value:,.0f} %"


def needs_rows(needs: Sequence[Requirements], pinned: Requirements | None) -> list[tuple[str, str, Requirements]]:
    """(label, role, requirements) of the rows above the accelerators."""
    rows = [(f"{need.workload.title} needs", "compared" if i else "need", need) for i, need in enumerate(needs)]
    return rows + ([("Pinned needs", "pinned", pinned)] if pinned is not None else [])


def device_labels(devices: pd.DataFrame) -> list[str]:
    """Names of the accelerators, made different where two are called the same."""
    short = [name.split(" (")[0] for name in devices["name"]]
    names = [s if short.count(s) == 1 else name for s, name in zip(short, devices["name"], strict=True)]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def rate_picture(needs: Sequence[Requirements], pinned: Requirements | None) -> Picture:
    """Needed rate against the peak of each accelerator."""
    first = needs[0]
    rows: list[dict[str, Any]] = [
        {"row": label, "role": role, "rate": need.needed_flops, "text": human(need.needed_flops, "FLOP/s")}
        for label, role, need in needs_rows(needs, pinned)
    ]
    for label, row in zip(device_labels(first.devices), first.devices.itertuples(index=False), strict=True):
        rows.append(
            {
                "row": label, "role": "device", "rate": row.peak_flops, "low": row.peak_flops * row.observed_low,
                "high": row.peak_flops * row.observed_high, "verdict": verdict_class(row.verdict),
                "text": device_words(row, first.number_format),
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows, columns=["row", "role", "rate", "low", "high", "verdict", "text"])
    frame["text"] = _roomy(frame["text"], len(frame), keep=0)
    low, high = rate_domain(frame)
    return Picture("rate", frame, rate_title(frame), {"x_low": low, "x_high": high, "rows": row_order(frame)})


def memory_picture(needs: Sequence[Requirements], pinned: Requirements | None) -> Picture:
    """Memory by part above the capacity of each accelerator."""
    first = needs[0]
    rows: list[dict[str, Any]] = []
    for label, role, need in needs_rows(needs, pinned):
        words = f"{human(need.memory_bytes, 'iB')}|batch {need.batch:,.0f}"
        for name, value in ordered_parts(need):
            rows.append({"row": label, "role": role, "part": name, "bytes": value, "text": words})
            words = None  # type: ignore[assignment]
    for label, row in zip(device_labels(first.devices), first.devices.itertuples(index=False), strict=True):
        rows.append(
            {
                "row": label, "role": "device", "part": "capacity", "bytes": row.capacity_bytes,
                "verdict": "fits" if row.fits else "does not fit", "text": capacity_words(row),
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows, columns=["row", "role", "part", "bytes", "verdict", "text"])
    frame["text"] = _roomy(frame["text"], frame["row"].nunique(), keep=-1)
    title = f"{first.workload.title} at batch {first.batch:,.0f} takes {human(first.memory_bytes, 'iB')}"
    signals = {"x_high": memory_domain(frame), "rows": row_order(frame)}
    return Picture("memory", frame, f"{title}: {_small(memory_title(frame))}", signals)


def _roomy(texts: pd.Series, rows: int, keep: int) -> pd.Series:
    """Two lines beside each row where there is room for them, else the one that says more."""
    return texts if rows <= MOST_TALL_ROWS else texts.map(lambda t: t.split("|")[keep] if isinstance(t, str) else t)


def _small(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"


def capacity_words(row: Any) -> str:
    """Two short lines beside an accelerator: its memory, and the largest batch."""
    if math.isnan(row.capacity_bytes):
        return "memory not known"
    size = human(row.capacity_bytes, "iB")
    if row.fits:
        return f"{size}|fits batch {row.largest_batch:,.0f} at most"
    return f"{size}, short {human(row.needed_bytes - row.capacity_bytes, 'iB')}|{_fitting(row.largest_batch)}"


def ordered_parts(need: Requirements) -> list[tuple[str, float]]:
    """Memory parts under their printed names, in the order of the cookbook."""
    named = {PRINTED.get(name, name): float(value) for name, value in need.memory.items()}
    return [(name, named.pop(name)) for name in MEMORY_PARTS if name in named] + list(named.items())


@lru_cache(maxsize=1)
def zoo_table() -> pd.DataFrame:
    """The zoo as `parameters_vs_flop` draws it (builds every network once)."""
    models = zoo.models()
    return pd.DataFrame(
        {
            "name": models["name"],
            "title": models["title"],
            "group": [group_of(family) for family in models["family"]],
            "parameters": models["parameters"],
            "flop": 2 * models["macs"],
            "status": ["published" if how in PUBLISHED else "unverified" for how in models["how"]],
        }
    )


def zoo_picture(needs: Sequence[Requirements]) -> Picture:
    """Every network, with those that were chosen labelled."""
    table = zoo_table()
    chosen = {need.workload.name: need for need in needs}
    own = [
        {"name": w.name, "title": w.title, "group": group_of(w.family), "parameters": need.parameters,
         "flop": need.forward_flop_per_sample, "status": "unverified"}
        for need in needs if (w := need.workload).name not in set(table["name"])
    ]  # fmt: skip
    frame = pd.concat([table, pd.DataFrame(own)], ignore_index=True) if own else table
    picked = frame["name"].isin(chosen)
    frame = frame.assign(label=frame["title"].where(picked, ""), selected=picked)
    frame = frame[(frame["parameters"] > 0) & (frame["flop"] > 0)].drop(columns="name")
    return Picture("zoo", frame, zoo_title(frame))


@lru_cache(maxsize=64)
def _sizes(number_format: str, optimiser: str) -> tuple[Any, float]:
    formats = catalog.table("number_formats").set_index("name").loc[number_format]
    return formats, catalog.table("optimisers").set_index("name").loc[optimiser, "state_elements"]


def memory_formulas(need: Requirements) -> dict[str, str]:
    """How each part is computed, in words."""
    formats, states = _sizes(need.number_format, need.optimiser)
    count = f"{need.parameters:,.0f} parameters"
    return {
        "weights": f"{count} x {formats['weight_bytes']:g} B ({need.number_format}).",
        "fp32 copy": f"{count} x {formats['master_bytes']:g} B: full-precision weights that the optimiser updates.",
        "gradients": f"{count} x {formats['gradient_bytes']:g} B, one for each weight.",
        "optimiser states": f"{count} x {states:g} states of {need.optimiser} x 4 B.",
        "activations": f"What the forward pass of {need.batch:,.0f} {plural(need)} keeps for the backward pass, "
        f"{formats['activation_bytes']:g} B an element.",
        "workspace": "The largest buffer in flight, and what driver and libraries hold on the device.",
    }


def memory_parts(need: Requirements) -> tuple[Part, ...]:
    """Place 4: memory by part."""
    words = memory_formulas(need)
    return tuple(
        Part(name, value, human(value, "iB"), MEMORY_PARTS.get(name, "#616161"), words.get(name, ""))
        for name, value in ordered_parts(need)
    )


def plural(need: Requirements) -> str:
    """What the samples are called: "images", "sequences"."""
    return f"{need.workload.sample or 'sample'}s"


def answer(need: Requirements) -> str:
    """The sentence in place 1."""
    epochs = "1 epoch" if need.epochs == 1 else f"{need.epochs:,g} epochs"
    at = "" if need.seq is None else f" of {need.seq:,.0f} tokens"
    return (
        f"{need.workload.title} needs **{human(need.needed_flops, 'FLOP/s')}** sustained to train {epochs} of "
        f"{need.samples:,.0f} {plural(need)}{at} in {duration(need.target_seconds)} "
        f"({human(need.needed_macs, 'MAC/s')}; 1 MAC = 2 FLOP), and **{human(need.memory_bytes, 'iB')}** at batch "
        f"{need.batch:,.0f}. {who_can(need.devices)}"
    )


def who_can(devices: pd.DataFrame) -> str:
    """Which accelerators could meet the target alone, in one sentence."""
    marks = devices["verdict"].map(verdict_class)
    names = pd.Series(device_labels(devices))
    can = list(names[marks.isin(["possible", "possible under a condition"]).to_numpy()])
    total = f"{len(devices)} accelerator" + ("s" if len(devices) != 1 else "")
    if can:
        conditions = int((marks == "possible under a condition").sum())
        only = f", {conditions} of them under a condition" if conditions else ""
        return f"{len(can)} of {total} could do it alone{only}: {listed(can)}."
    nearest = devices["needed_fraction"].idxmin() if devices["needed_fraction"].notna().any() else None
    if nearest is None:
        return f"None of {total} has a known peak in this number format."
    row = devices.loc[nearest]
    if row["needed_fraction"] > 1:
        short = f"even {row['name']} would need x{row['needed_fraction']:,.2g} its peak"
    else:
        short = f"{row['name']} is fast enough, but {_small(row['why'] or row['verdict'])}"
    return f"None of {total} could do it alone: {short}."


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a row, the rest counted.

    Examples
    --------
    >>> listed(["A", "B", "C", "D", "E"])
    'A, B, C and 2 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def device_table(need: Requirements) -> pd.DataFrame:
    """The accelerators as printed text, units in the headings."""
    rows = [
        {
            "Accelerator": label,
            f"Peak {need.number_format} [TFLOP/s]": _printed(row.peak_flops / 1e12),
            "Needed [% of peak]": _printed(100 * row.needed_fraction),
            "Measured matmul [% of peak]": _range(100 * row.observed_low, 100 * row.observed_high),
            "Memory [GiB]": _printed(row.capacity_bytes / 2**30),
            "Largest batch": _printed(row.largest_batch),
            "One epoch, at least": _seconds(row.bound_overlap_seconds),
            "Devices, at least": _printed(row.devices_needed),
            "Verdict": row.verdict + (f" ({row.why})" if row.why else ""),
        }
        for label, row in zip(device_labels(need.devices), need.devices.itertuples(index=False), strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


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


def _printed(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.3g}"


def _seconds(value: float) -> str:
    return "" if math.isnan(value) else human(value, "s")


def _range(low: float, high: float) -> str:
    if math.isnan(low):
        return "none"
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f}-{high:.0f}"


def source_rows(keys: Iterable[str]) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of each source; recalled figures are marked."""
    table = catalog.table("sources").set_index("key")
    found = []
    for key in dict.fromkeys(keys):
        if key in table.index:
            row = table.loc[key]
            note = "(recalled, not seen)" if key.startswith("recalled") else str(row["note"] or "")
            found.append((str(row["title"]), str(row["url"] or ""), note))
    return tuple(found)
