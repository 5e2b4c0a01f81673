"""Words of the panel "Which accelerator for this work?"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cookbook.panels.device_frames import COLUMNS, UNIT, figure, formula, short
from cookbook.prediction.terms.transformer import is_language_model
from cookbook.prediction.verdicts import ratio
from cookbook.workloads import zoo

if TYPE_CHECKING:
    from cookbook.panels.device_frames import Compared

VERB = {"training": "train", "inference": "run"}
_PROMPT = "One pass over a prompt of that many tokens. No constant was fitted to passes of language models."
BEST = {"energy": "the least energy", "cost": "the lowest price"}


def answer(view: Compared, picture: str) -> str:
    """The sentence in place 1, and what to take from the picture shown."""
    if picture == "roofline":
        return f"{_under_the_roof(view)} {_operation(view)}"
    return f"{_best(view, picture)} {_looked(view, picture)} {_missing(view, picture)}".strip()


def title(view: Compared, picture: str) -> str:
    """Takeaway of the picture."""
    if picture == "roofline":
        ops = view.ops
        slow = 100 * float(ops.loc[ops["bound_by"] == "memory", "share"].sum())
        return f"{view.looked['name']}: memory holds back {slow:.0f} % of the time of a forward pass, unfused"
    known = view.ranks[picture]
    if known.empty:
        return f"None of these {len(view.table)} devices has this figure"
    point, first, last = COLUMNS[picture][0], known.iloc[0], known.iloc[-1]
    said = f"{first['name']}: {figure(first[point])} {UNIT[picture]}"
    if len(known) == 1:
        return said
    if picture == "throughput":
        return f"{said}, {ratio(first[point] / last[point])} times {last['name']}"
    return f"{said}, {last['name']} x{ratio(last[point] / first[point])}"


def _best(view: Compared, picture: str) -> str:
    known = view.ranks[picture]
    if known.empty:
        return f"None of these {len(view.table)} devices has this figure for {view.title}."
    point, low, high, _ = COLUMNS[picture]
    first, rest = known.iloc[0], known.iloc[1:]
    start = (
        f"For {view.title} at batch {view.batch:,}, **{first['name']}** takes {BEST[picture]} per sample"
        if picture == "energy" else
        f"For a million samples of {view.title} at batch {view.batch:,}, **{first['name']}** asks {BEST[picture]}"
        if picture == "cost" else
        f"**{first['name']}** {VERB[view.phase]}s {view.title} fastest of these at batch {view.batch:,}"
    )  # fmt: skip
    said = f"{start}: **{figure(first[point])}** {UNIT[picture]} (80 % interval {_ends(first, low, high)})"
    if picture != "throughput":
        said = said.replace("80 % interval", "range")
    if first["fits"] == "no":
        said = f"{said}, which its memory does not hold"
    near = rest[rest[high] > first[low]] if picture == "throughput" else rest[rest[low] < first[high]]
    if near.empty:
        return f"{said}, clear of all others."
    names = ", ".join(near["name"].head(2)) + (f" and {len(near) - 2} more" if len(near) > 2 else "")
    ends = "interval" if picture == "throughput" else "range"
    return f"{said}; its {ends} overlaps that of {names}, so the order of these is open."


def _ends(row: Any, low: str, high: str) -> str:
    return f"{figure(row[low])}-{figure(row[high])}"


def _looked(view: Compared, picture: str) -> str:
    row, point = view.looked, COLUMNS[picture][0]
    if math.isnan(row[point]):
        why = row[COLUMNS[picture][3]]
        return f"No figure for {row['name']}: {why.removeprefix(row['name']).strip()}." if why else ""
    if picture == "throughput":
        share = row["share_of_peak"]
        fits = "; it does not fit its memory" if row["fits"] == "no" else ""
        leads = row["key"] == view.ranks[picture].iloc[0]["key"]
        start = "It does so" if leads else f"{row['name']}: {figure(row[point])}"
        return (
            f"{start} in {row['precision']}, at {100 * share:.2g} % of what its peak of "
            f"{figure(row['peak_flops'] / 1e12)} TFLOP/s could{fits}; {_each(row, 'energy')}, {_each(row, 'cost')}."
        )
    if picture == "energy":
        return (
            f"{row['name']}: {figure(row[point])} J at about {row['watts']:,.0f} of {row['tdp_watts']:,.0f} W rated, "
            "its host left out; no power was measured."
        )
    hour = f"{row['usd_per_hour']:.2f} USD/h, the median of {row['price_rows']} prices"
    return (
        f"{row['name']}: {figure(row[point])} USD at {hour} from "
        f"{row['price_first'][:7] or 'no date'} to {row['price_last'][:7] or 'no date'}."
    )


def _each(row: Any, picture: str) -> str:
    """A figure with its unit, or in short why there is none."""
    point, _, _, why = COLUMNS[picture]
    return f"{figure(row[point])} {UNIT[picture]}" if math.isfinite(row[point]) else short(row[why])


def _missing(view: Compared, picture: str) -> str:
    """Devices without the figure, in one sentence."""
    point, why = COLUMNS[picture][0], COLUMNS[picture][3]
    lacks = view.table[view.table[point].isna() & (view.table["key"] != view.on)]
    if lacks.empty:
        return ""
    first = lacks.iloc[0]
    more = f" (and {len(lacks) - 1} more have none)" if len(lacks) > 1 else ""
    return f"No figure: {first[why] or first['name']}{more}."


def _under_the_roof(view: Compared) -> str:
    row, ops = view.looked, view.ops
    bound = 100 * float(ops.loc[ops["bound_by"] == "memory", "share"].sum())
    best = view.batch / float(ops["seconds"].sum())
    rate = row["samples_per_s"]
    fused = ", as software that fuses operations moves less" if rate > best else ""
    what = "training" if view.phase == "training" else "this pass"
    beside = f" Predicted for {what}: {figure(rate)} samples/s{fused}."
    return (
        f"One operation at a time, a forward pass of {view.title} on **{row['name']}** in {row['precision']} makes "
        f"at best **{figure(best)}** samples/s, memory being the limit of **{bound:.0f} %** of its time."
        f"{beside if math.isfinite(rate) else ''}"
    )


def _operation(view: Compared) -> str:
    op = view.chosen
    lost = "" if not view.op or view.op == op["name"] else f"{view.title} has no operation {view.op!r}; the longest: "
    return f"{lost}{op['name']}, {formula(view, op)}"


def chips(view: Compared) -> tuple[tuple[str, str], ...]:
    """How the figures are known."""
    row = view.looked
    counts = view.table["evidence"].value_counts()
    here = int(counts.get("measured here", 0))
    known = row["evidence"] or "no prediction"
    prompt = view.phase == "inference" and is_language_model(zoo.model(view.model))
    return (
        (f"{row['name']}: {known}",
         "Measured here: runs of this device went into the constants. Sibling: of its maker, or with other software."),
        (f"{here} of {len(view.table)} devices measured",
         "Devices of which the tables hold measured runs; intervals of the others are wider."),
        ("flexibility is a judgement", "What can be programmed, and how easily, stands in the table programmability."),
        *((("a prompt, not an answer", _PROMPT),) if prompt else ()),
    )  # fmt: skip
