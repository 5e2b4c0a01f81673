"""Words of the panel "What does this model need?": names, marks, the sentence of the answer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from cookbook.panels.controls import duration
from cookbook.prediction.verdicts import ratio
from cookbook.units import human

if TYPE_CHECKING:
    from cookbook.prediction.requirements import Requirements

CAN = ("possible", "possible under a condition")
# Words in a name's brackets that tell how much hardware one row is.
_TELLING = re.compile(r"board|\bone\b|\d+ chips|\d+x ", re.IGNORECASE)
_SEVERAL = re.compile(r"\b(\d+)(?:x | chips)")
_CONDITIONS = {"fused": "only if operations are fused", "best matmul": "only above the best matmul measured"}
_OTHER = "under a condition"


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


def short_name(name: str) -> str:
    """A name without what stands in brackets, unless that tells a board from a chip.

    Examples
    --------
    >>> short_name("Tesla K80 (board, 2x GK210)"), short_name("TPU v2-8 (Cloud TPU device, 4 chips)")
    ('Tesla K80 (board, 2x GK210)', 'TPU v2-8 (4 chips)')
    >>> short_name("GH200 (Hopper GPU, 96GB)")
    'GH200'
    """
    front, bracket, rest = name.partition(" (")
    telling = [piece for piece in rest.rstrip(")").split(", ") if _TELLING.search(piece)] if bracket else []
    return f"{front} ({', '.join(telling)})" if telling else front


def memories(name: str) -> int:
    """How many separate memories the hardware of one row has, as its name says.

    Examples
    --------
    >>> memories("Tesla K80 (board, 2x GK210)"), memories("H100 SXM5 80GB")
    (2, 1)
    """
    found = _SEVERAL.search(name.partition(" (")[2])
    return int(found[1]) if found else 1


def several_note(name: str) -> str:
    """What to know about a row that is several devices in one."""
    count = memories(name)
    return f"{count} separate memories, counted as one" if count > 1 else ""


def device_labels(devices: pd.DataFrame) -> list[str]:
    """Names of the accelerators, made different where two are called the same."""
    short = [short_name(name) for name in devices["name"]]
    names = [s if short.count(s) == 1 else name for s, name in zip(short, devices["name"], strict=True)]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def device_words(row: Any, precision: str) -> str:
    """Two short lines beside an accelerator: what share of its peak is needed, and what that means."""
    if math.isnan(row.peak_flops):
        return f"no {precision} peak known"
    share = f"{percent(row.needed_fraction)} of peak"
    if row.needed_fraction > 1:
        return f"{share}|{row.devices_needed:,.0f} devices at least"
    if row.fits is False or (not row.fits and not math.isnan(row.capacity_bytes)):
        return f"{share}|{fitting(row.largest_batch)}"
    if "fused" in row.verdict:
        return f"{share}|only if fused"
    return f"{share}|{beside_measured(row)}"


def beside_measured(row: Any) -> str:
    """Where the need lies beside the matrix products measured."""
    if math.isnan(row.observed_high):
        return "no measurement"
    if row.needed_fraction < row.observed_low:
        return "needs less than measured"
    return "within what was measured" if row.needed_fraction <= row.observed_best else "above the best measured"


def fitting(largest: float) -> str:
    """The largest batch in words."""
    return f"fits batch {largest:,.0f} at most" if largest else "not even batch 1 fits"


def percent(fraction: float) -> str:
    """A share in percent, two digits at least, never an exponent.

    Examples
    --------
    >>> percent(0.0345), percent(2.114), percent(41.3), percent(3.2e-7)
    ('3.5 %', '211 %', '4,130 %', '0.000032 %')
    """
    value = 100 * fraction
    return f"{ratio(value)} %" if value < 9.95 else f"{value:,.0f} %"


def need_words(need: Requirements, roomy: bool) -> str:
    """Memory and batch beside a network's bar, on two lines where there is room."""
    size = human(need.memory_bytes, "iB")
    return f"{size}|batch {need.batch:,.0f}" if roomy else f"{size}, batch {need.batch:,.0f}"


def capacity_words(row: Any, roomy: bool) -> str:
    """Memory of an accelerator and the largest batch, on two lines where there is room."""
    if math.isnan(row.capacity_bytes):
        return "memory not known"
    count = memories(row.name)
    size = human(row.capacity_bytes, "iB") + (f" in {count} memories" if count > 1 else "")
    if row.fits:
        one_line = size if count > 1 else f"{size}, fits batch {row.largest_batch:,.0f}"
        return f"{size}|{fitting(row.largest_batch)}" if roomy else one_line
    short = f"{size}, short {human(row.needed_bytes - row.capacity_bytes, 'iB')}"
    return f"{short}|{fitting(row.largest_batch)}" if roomy else short


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
    """Which accelerators are not ruled out, each condition after those that it holds for."""
    marks = devices["verdict"].map(verdict_class)
    labels = device_labels(devices)
    groups: dict[str, list[str]] = {}
    for label, mark, verdict in zip(labels, marks, devices["verdict"], strict=True):
        if mark in CAN:
            groups.setdefault(_condition(verdict) if mark == CAN[1] else "", []).append(label)
    total = f"{len(devices)} accelerator" + ("s" if len(devices) != 1 else "")
    unknown = [label for label, mark in zip(labels, marks, strict=True) if mark == "cannot tell"]
    rest = f" Too little is known of {listed(unknown)}." if unknown else ""
    if not groups:
        return _nobody(devices, total, rest)
    count = sum(map(len, groups.values()))
    order = sorted(groups, key=["", *_CONDITIONS.values(), _OTHER].index)
    told = [f"{listed(groups[condition])} {condition}".rstrip() for condition in order]
    return f"{count} of {total} {'is' if count == 1 else 'are'} not ruled out: {'; '.join(told)}.{rest}"


def _condition(verdict: str) -> str:
    return next((words for sign, words in _CONDITIONS.items() if sign in verdict), _OTHER)


def _nobody(devices: pd.DataFrame, total: str, rest: str) -> str:
    nearest = devices["needed_fraction"].idxmin() if devices["needed_fraction"].notna().any() else None
    if nearest is None:
        return f"None of {total} has a known peak in this number format."
    row = devices.loc[nearest]
    if row["needed_fraction"] > 1:
        short = f"even {row['name']} would need x{ratio(row['needed_fraction'])} its peak"
    else:
        why = row["why"] or row["verdict"]
        short = f"{row['name']} is fast enough, but {why[0].lower()}{why[1:]}"
    return f"None of {total} could do it alone: {short}.{rest}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a row, the rest counted.

    Examples
    --------
    >>> listed(["A", "B"]), listed(["A", "B", "C", "D", "E", "F"])
    ('A and B', 'A, B, C, D and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
