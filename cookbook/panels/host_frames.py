"""Frames, tables and parts of the panel "Does the host feed its accelerators?", all from one sized host."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.charts import host as charts
from cookbook.charts.look import TIME_PARTS
from cookbook.charts.rows import row_order
from cookbook.panels.shell import Part, Picture
from cookbook.planning.host import HostSize

Spot = tuple[float, float, str]
LEAF = "leaf"
ROWS = {
    "memory": "memory", "storage": "drives", "socket": "processors", "pcie_switch": "PCIe switches",
    LEAF: "further switches", "accelerator": "accelerators", "nvswitch": "NVSwitch",
}  # fmt: skip
ONE = {"memory": "memory", "storage": "drive", "socket": "processor", "pcie_switch": "PCIe switch",
       "accelerator": "accelerator", "nvswitch": "NVSwitch", "nic": "adapter", "network": "network"}  # fmt: skip
PARTS = {"computing": "compute", "decoding": "input", "links": "data-parallel communication"}
_LEFT, _BENDS = -0.19, np.linspace(0, 1, 13)
# Two labels nearer than this would cover one another.
_WIDE, _HIGH = 0.075, 0.06
_COLUMNS = ["what", "id", "x", "y", "text", "order", "level", "tip"]
_HOW = {
    "computing": "Predicted step of one accelerator that never waits.",
    "decoding": "Workers decode on the cores there are, and one process collects their samples into batches.",
    "links": "The busiest link, at the part of its nominal rate that copies reach, carries what one step asks of it.",
}


def rate_text(value: float) -> str:
    """A rate of bytes.

    Examples
    --------
    >>> rate_text(1.575e10), rate_text(2.4e8)
    ('15.8 GB/s', '0.24 GB/s')
    """
    return f"{value / 1e9:,.0f} GB/s" if value >= 99.5e9 else f"{value / 1e9:.3g} GB/s"


def percent_text(share: float) -> str:
    """A share as a label.

    Examples
    --------
    >>> percent_text(0.004), percent_text(0.336)
    ('< 1 %', '34 %')
    """
    return "< 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def spoken(machine: Any, name: str) -> str:
    """A node in a sentence: "accelerator 3"."""
    kind = next(node.kind for node in machine.nodes if node.name == name)
    return f"{ONE[kind]} {_number(name)}".strip()


def _number(name: str) -> str:
    return "".join(letter for letter in name if letter.isdigit())


def links(size: HostSize) -> pd.DataFrame:
    """Each link once: its ends, name and rate, and use in its busier direction."""
    use = {(way["from"], way["to"]): way for way in size.traffic.use.to_dict("records")}
    frame = size.machine.frame()
    found = frame[frame["part"] == "link"].drop(columns=["part", "kind", "y", "y2"])
    both = [(use[a, b], use[b, a]) for a, b in zip(found["start"], found["end"], strict=True)]
    busier = [max(pair, key=lambda way: way["share"]) for pair in both]
    return found.assign(
        share=[way["share"] for way in busier], used=[way["used"] for way in busier],
        flows=[way["flows"] for way in busier], back=[min(way["used"] for way in pair) for pair in both],
    )  # fmt: skip


def machine_picture(size: HostSize, title: str) -> Picture:
    """The graph: from memory, or from drives where they are read straight; the network plays no part here."""
    at, names = _layout(size)
    rows = [*_paths(size, at), *_node_rows(size, at)]
    rows += [("row", -1, _LEFT, y, name, 0, "", "") for y, name in names]
    return Picture("machine", pd.DataFrame(rows, columns=_COLUMNS), title)


def _layout(size: HostSize) -> tuple[dict[str, Spot], list[tuple[float, str]]]:
    """Where each node stands and of which kind it is; height and name of each row."""
    frame = size.machine.frame()
    used = {node for flow in size.traffic.flows[: size.traffic.inputs] for node in flow}
    straight = any(name in used for name in size.machine.named("storage"))
    ends = list(zip(frame["start"], frame["end"], strict=True))
    leaves = _leaves(size, ends)
    kinds = [kind for kind in ROWS if kind != ("memory" if straight else "storage") and kind != LEAF]
    rows = {kind: [name for name in size.machine.named(kind) if name not in leaves] for kind in kinds}
    rows = {kind: rows.get(kind, leaves) for kind in ROWS if rows.get(kind, leaves if kind == LEAF else [])}
    x = dict(zip(frame["name"], frame["x"], strict=True))
    at = {}
    for level, (kind, row) in enumerate(rows.items()):
        for place, name in enumerate(row):
            below = [x[b] for a, b in ends if a == name and b in size.machine.named("accelerator")]
            even = (place + 0.5) / len(row)
            own = kind in ("pcie_switch", LEAF) and below
            at[name] = (float(np.mean(below)) if own else even, 1 - level / max(len(rows) - 1, 1), kind)
    return at, [(1 - level / max(len(rows) - 1, 1), ROWS[kind]) for level, kind in enumerate(rows)]


def _leaves(size: HostSize, ends: list[tuple[str, str]]) -> list[str]:
    """Switches below other switches."""
    switches, sockets = size.machine.named("pcie_switch"), size.machine.named("socket")
    above = {name for a, b in ends for name, other in ((a, b), (b, a)) if other in sockets}
    return [name for name in switches if name not in above]


def _node_rows(size: HostSize, at: dict[str, Spot]) -> Iterable[tuple[Any, ...]]:
    for name, (x, y, _) in at.items():
        yield "node", -1, x, y, _number(name) or "all", 0, "", spoken(size.machine, name)


def _paths(size: HostSize, at: dict[str, Spot]) -> list[tuple[Any, ...]]:
    """Points of all links drawn, and the share on one of each that are alike."""
    rows: list[tuple[Any, ...]] = []
    labels: list[tuple[float, float]] = []
    done = set()
    drawn = links(size)
    for place, link in enumerate(drawn[drawn["start"].isin(at) & drawn["end"].isin(at)].itertuples()):
        x, y = _points(at[link.start], at[link.end])
        word = charts.level(link.share)
        tip = (f"{spoken(size.machine, link.start)} to {spoken(size.machine, link.end)}: {link.name}; "
               f"{rate_text(link.used)} of {rate_text(link.bandwidth)}, {percent_text(link.share)}")  # fmt: skip
        rows += [("path", place, a, b, "", order, word, tip) for order, (a, b) in enumerate(zip(x, y, strict=True))]
        spot = _spot(x), _spot(y)
        alike = (at[link.start][2], at[link.end][2], percent_text(link.share))
        free = all(abs(spot[0] - a) > _WIDE or abs(spot[1] - b) > _HIGH for a, b in labels)
        if link.share > 0 and alike not in done and free:
            done.add(alike)
            labels.append(spot)
            rows.append(("share", -1, *spot, percent_text(link.share), 0, "", ""))
    return rows


def _spot(ends: list[float]) -> float:
    """Where a label stands: in the middle of an arc, beyond that of a line, where lines have parted."""
    return ends[len(ends) // 2] if len(ends) > 2 else 0.4 * ends[0] + 0.6 * ends[1]


def _points(start: Spot, end: Spot) -> tuple[list[float], list[float]]:
    """A straight link, or an arc below a row for two nodes of the same."""
    (x, y, kind), (x2, y2, _) = start, end
    if y != y2 or kind == "socket":
        return [x, x2], [y, y2]
    depth = 0.04 + 0.36 * abs(x2 - x)
    return (x + (x2 - x) * _BENDS).tolist(), (y - depth * 4 * _BENDS * (1 - _BENDS)).tolist()


def gets_frame(size: HostSize) -> pd.DataFrame:
    """What each accelerator gets of the input, and the rings of gradients, beside what keeps accelerators busy."""
    flows, rows = size.traffic, []
    for place in range(flows.inputs):
        rows.append((f"{spoken(size.machine, flows.flows[place][1])}", float(flows.got[place]), size.input_needed))
    if flows.rings:
        rows.append(("gradients, all rings", flows.ring_got, size.exchange_needed))
    frame = pd.DataFrame(rows, columns=["row", "got", "need"])
    words = [_share_of_need(got / need) for got, need in zip(frame["got"], frame["need"], strict=True)]
    return frame.assign(text=words, got=frame["got"] / 1e9, need=frame["need"] / 1e9)


def _share_of_need(ratio: float) -> str:
    if charts.FULL <= ratio <= 2 - charts.FULL:
        return "all that it needs"
    return f"x{ratio:.3g} its need" if ratio > 1 else f"{100 * ratio:.0f} % of its need"


def gets_picture(size: HostSize) -> Picture:
    """The same as a picture."""
    frame = gets_frame(size)
    low, high = charts.rate_domain(frame)
    return Picture("gets", frame, charts.gets_title(frame), {"rows": row_order(frame), "low": low, "high": high})


def cores_picture(size: HostSize, title: str) -> Picture:
    """Samples a second over cores, with demand and machine."""
    demand, reach = size.stages["computing"], size.decoding_range[1] / size.stages["decoding"]
    known = not math.isnan(size.cores)
    reach = reach if known else 1.0
    thin = size.curve.iloc[[*range(0, min(32, len(size.curve))), *range(32, len(size.curve), 4)]]
    curve = thin.assign(what="curve", low=thin["rate"] / reach, high=thin["rate"] * reach, text="")
    marks = [{"what": "demand", "cores": 1.0, "rate": demand, "text": f"accelerator takes {demand:,.0f}/s"}]
    if known and not math.isnan(size.stages["decoding"]):
        words = f"{size.cores:g} cores, {size.workers:g} worker{'s' if size.workers != 1 else ''}"
        here = min(max(size.cores, 0.5), 64.0)
        marks.append({"what": "here", "cores": here, "rate": size.stages["decoding"], "text": words})
    columns = ["what", "cores", "rate", "low", "high", "chosen", "text"]
    frame = pd.concat([curve, pd.DataFrame(marks)], ignore_index=True)[columns]
    return Picture("cores", frame, title, {"top": charts.top_of(frame)})


def parts(size: HostSize) -> tuple[Part, ...]:
    """Place 4: time of one batch of one accelerator in each stage."""
    found = []
    for name, rate in size.stages.items():
        seconds = 0.0 if math.isinf(rate) or math.isnan(rate) else size.batch / rate
        text = "not known" if math.isnan(rate) else "none" if math.isinf(rate) else f"{1e3 * seconds:.3g} ms"
        found.append(Part(name, seconds, text, TIME_PARTS[PARTS[name]], _HOW[name]))
    return tuple(found)


def link_table(size: HostSize) -> pd.DataFrame:
    """Links by use, the busiest first, as printed text."""
    rows = links(size).sort_values("share", ascending=False, kind="stable")
    return pd.DataFrame({
        "From": [spoken(size.machine, name) for name in rows["start"]],
        "To": [spoken(size.machine, name) for name in rows["end"]],
        "Rate": [rate_text(value) for value in rows["bandwidth"]],
        "Used": [rate_text(value) if value else "0" for value in rows["used"]],
        "Share": [percent_text(share) for share in rows["share"]],
        "Other way": [rate_text(value) if value else "0" for value in rows["back"]],
        "Flows": [f"{flows:.0f}" for flows in rows["flows"]],
        "Link": [f"{row.name_}{' (recalled)' if row.how == 'recalled' else ''}"
                 for row in rows.rename(columns={"name": "name_"}).itertuples()],
    })  # fmt: skip


def gets_table(size: HostSize) -> pd.DataFrame:
    """What flows get, as printed text."""
    rows = gets_frame(size)
    return pd.DataFrame({
        "Flow": rows["row"], "Gets": [rate_text(1e9 * value) for value in rows["got"]],
        "Needs": [rate_text(1e9 * value) for value in rows["need"]], "In words": rows["text"],
    })  # fmt: skip


def cores_table(size: HostSize) -> pd.DataFrame:
    """Samples a second over cores, as printed text."""
    rows = size.curve[size.curve["cores"].isin([0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])]
    demand = size.stages["computing"]
    return pd.DataFrame({
        "Cores an accelerator": [f"{cores:g}" for cores in rows["cores"]],
        "As many workers [samples/s]": [f"{rate:,.0f}" for rate in rows["rate"]],
        "Workers chosen [samples/s]": [f"{rate:,.0f}" for rate in rows["chosen"]],
        "Meets the demand": ["yes" if rate >= demand else "no" for rate in rows["rate"]],
    })  # fmt: skip


def source_rows(size: HostSize) -> tuple[tuple[str, str, str], ...]:
    """(title, link, what for) of the sources of nodes and links, recalled ones marked."""
    keys: dict[str, int] = {}
    parts: list[Any] = [*size.machine.nodes, *size.machine.links]
    for part in parts:
        for key in filter(None, part.source.split(";")):
            keys[key] = keys.get(key, 0) + 1
    for key in size.machine.source:
        keys.setdefault(key, 0)
    return tuple(_source(key, count) for key, count in keys.items())


def _source(key: str, count: int) -> tuple[str, str, str]:
    row = _sources().get(key, {"title": key, "url": ""})
    what = f"{count} nodes and links" if count else "the machine as a whole"
    return row["title"], row["url"], f"(recalled, not opened) {what}" if key.startswith("recalled") else what


@lru_cache(maxsize=1)
def _sources() -> dict[str, dict[str, str]]:
    rows = catalog.table("sources")[["key", "title", "url"]].fillna("").astype(str)
    return {row["key"]: row for row in rows.to_dict("records")}
