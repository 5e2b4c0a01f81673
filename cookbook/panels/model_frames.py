"""Frames of the pictures and parts of the panel "What does this model need?", all from one `Requirements`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from cookbook import catalog
from cookbook.charts.look import MEMORY_PARTS
from cookbook.charts.models import group_of, memory_domain, memory_title, rate_domain, rate_title, zoo_title
from cookbook.charts.rows import row_order
from cookbook.panels.model_words import (
    capacity_words,
    device_labels,
    device_words,
    need_words,
    plural,
    several_note,
    verdict_class,
)
from cookbook.panels.shell import Part, Picture
from cookbook.units import human
from cookbook.workloads import zoo

if TYPE_CHECKING:
    from cookbook.prediction.requirements import Requirements

PRINTED = {"optimiser": "optimiser states", "master": "fp32 copy"}
PUBLISHED = ("verified",)
MOST_TALL_ROWS = 8


def needs_rows(needs: Sequence[Requirements], pinned: Requirements | None) -> list[tuple[str, str, Requirements]]:
    """(label, role, requirements) of the rows above the accelerators."""
    rows = [(f"{need.workload.title} needs", "compared" if i else "need", need) for i, need in enumerate(needs)]
    return rows + ([("Pinned needs", "pinned", pinned)] if pinned is not None else [])


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
                "high": row.peak_flops * row.observed_high, "measured": row.measured,
                "verdict": verdict_class(row.verdict), "note": several_note(row.name),
                "text": device_words(row, first.precision),
            }
        )  # fmt: skip
    columns = ["row", "role", "rate", "low", "high", "measured", "verdict", "note", "text"]
    frame = pd.DataFrame(rows, columns=columns)
    if len(frame) > MOST_TALL_ROWS:
        frame["text"] = [text.split("|")[0] for text in frame["text"]]
    low, high = rate_domain(frame)
    return Picture("rate", frame, rate_title(frame), {"x_low": low, "x_high": high, "rows": row_order(frame)})


def memory_picture(needs: Sequence[Requirements], pinned: Requirements | None) -> Picture:
    """Memory by part above the capacity of each accelerator."""
    first, above = needs[0], needs_rows(needs, pinned)
    roomy = len(above) + len(first.devices) <= MOST_TALL_ROWS
    rows: list[dict[str, Any]] = []
    for label, role, need in above:
        for i, (name, value) in enumerate(ordered_parts(need)):
            words = None if i else need_words(need, roomy)
            rows.append({"row": label, "role": role, "part": name, "bytes": value, "text": words})
    for label, row in zip(device_labels(first.devices), first.devices.itertuples(index=False), strict=True):
        rows.append(
            {
                "row": label, "role": "device", "part": "capacity", "bytes": row.capacity_bytes,
                "verdict": "fits" if row.fits else "does not fit", "text": capacity_words(row, roomy),
                "note": several_note(row.name),
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows, columns=["row", "role", "part", "bytes", "verdict", "note", "text"])
    title = f"{first.workload.title} at batch {first.batch:,.0f} takes {human(first.memory_bytes, 'iB')}"
    signals = {"x_high": memory_domain(frame), "rows": row_order(frame)}
    return Picture("memory", frame, f"{title}: {_small(memory_title(frame))}", signals)


def _small(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"


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
def _sizes(precision: str, optimiser: str) -> tuple[Any, float]:
    formats = catalog.table("number_formats").set_index("name").loc[precision]
    return formats, catalog.table("optimisers").set_index("name").loc[optimiser, "state_elements"]


def memory_formulas(need: Requirements) -> dict[str, str]:
    """How each part is computed, in words."""
    formats, states = _sizes(need.precision, need.optimiser)
    count = f"{need.parameters:,.0f} parameters"
    return {
        "weights": f"{count} x {formats['weight_bytes']:g} B ({need.precision}).",
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
