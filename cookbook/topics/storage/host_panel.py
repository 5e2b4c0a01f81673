"""Panel of recipe 06: does the host feed its accelerators, and what should be bought first?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import as_python, keywords
from cookbook.catalog.fields import Amount
from cookbook.catalog.refusals import Refusal, Refused
from cookbook.charts.look import TIME_PARTS, row_order
from cookbook.panels.controls import Choice, Combo, Control, Slider, picture_control, powers_of_two
from cookbook.panels.options import (
    Network,
    assumed,
    cited,
    data_sets,
    listed_options,
    model_control,
    named_model,
    networks,
    printed,
    title_of,
)
from cookbook.panels.shell import Panel, Part, Picture, View, panel_call
from cookbook.panels.text import Source, counted, figure
from cookbook.topics.storage import charts
from cookbook.topics.storage.host import BOUNDLESS, DECODED, LOADS, HostSize, size_host
from cookbook.units import human

WORKERS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0)
CORES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 24.0, 32.0, 48.0, 64.0)
PICTURES = {"machine": charts.machine, "gets": charts.gets, "cores": charts.over_cores}
OFF = {
    "picture": lambda v: {} if v.get("traffic") in DECODED else {"cores": "cores decode nothing of this traffic"}
} | dict.fromkeys(("workers", "cores"), lambda v: {} if _decodes(v) else {"*": "this input is not decoded"})
LEAF = "leaf"
ROWS = {
    "memory": "memory",
    "storage": "drives",
    "socket": "processors",
    "pcie_switch": "PCIe switches",
    LEAF: "further switches",
    "accelerator": "accelerators",
    "nvswitch": "NVSwitch",
}
PARTS = {
    "computing": ("compute", "Predicted step of one accelerator without waiting."),
    "decoding": (
        "input",
        "Workers decode on the available cores, and one process collects their samples into batches.",
    ),
    "links": (
        "data-parallel communication",
        "The busiest link carries the traffic of one step, at the share of its nominal rate that copies reach.",
    ),
}
# Spare factor up to which a stage counts as tight, and the smallest gain that is reported.
_TIGHT, _MIN_GAIN = 1.2, 1.01


def host(
    machine: str = "supermicro-4029gp-trt3",
    traffic: str = "both",
    load: str = LOADS[0],
    model: Network = "gpt2",
    data: str = "c4-en-tokens",
    workers: Amount = 8,
    batch: Amount = 1,
    cores: Amount | None = None,
    picture: str = "machine",
) -> Panel:
    """Return the panel "Does the host feed its accelerators?" in the state that the arguments describe.

    Parameters
    ----------
    machine : str
        As for `cb.topology`.
    traffic : {"memory", "storage", "gradients", "both"}
        What crosses links: decoded samples from memory, stored samples straight from drives (decoded on accelerators),
        gradients alone, or samples from memory and gradients.
    load : {"needed", "all they can"}
        Whether flows ask for what keeps accelerators busy, or for all that links give.
    model : str, Workload or dict
        A network of the zoo or one of your own: `cb.layers`, `cb.model`, ``{"layers": [...], "input": [...]}``, or what
        stands in a Hugging Face configuration.
    data : str
        A card of the table ``data_sets``.
    workers, batch : int
        Loader processes, and samples of one step, of one accelerator.
    cores : float, optional
        Physical cores of one accelerator; those of the machine in the catalogue by default.
    picture : {"machine", "gets", "cores"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = host(model="vgg16", data="imagenet-1k", batch=32)
    >>> panel.update(machine="DGX-1 (V100)")
    >>> "on DGX-1 (V100)" in panel.answer
    True
    """
    return Panel(host, "Does the host feed its accelerators?", _controls, PICTURES, _draw, locals(), OFF)


def _controls() -> tuple[Control, ...]:
    return (
        Combo(
            "machine",
            "Machine",
            "Host",
            listed_options("system_topologies", also="aliases", group="root"),
            tooltip="Server or workstation with known internal links",
        ),
        Slider(
            "workers",
            "Workers per accelerator",
            "Host",
            WORKERS,
            tooltip="Processes that decode and augment samples for one accelerator",
        ),
        Choice(
            "traffic",
            "Traffic",
            "Links",
            (
                ("both", "both", "Decoded samples from memory, and gradients around rings"),
                ("memory", "input", "Decoded samples from host memory to each accelerator"),
                ("gradients", "gradients", "Gradients alone, as with synthetic data"),
                ("storage", "drives", "Stored samples directly from drives; accelerators decode them"),
            ),
            tooltip="Traffic that shares the links",
        ),
        Choice(
            "load",
            "Requested rate",
            "Links",
            (
                (LOADS[0], "what is needed", "The rates that keep accelerators busy"),
                (LOADS[1], "all they can", "The full rates of the links, shared fairly"),
            ),
            tooltip="Rate that every flow requests",
        ),
        model_control("The network to train", networks()),
        Combo("data", group="Workload", options=data_sets(), tooltip="Data set that is read, decoded and copied"),
        Slider(
            "batch",
            group="Workload",
            stops=powers_of_two(0, 12),
            more=True,
            tooltip="Per-accelerator batch; gradients are communicated once per step",
        ),
        Slider(
            "cores",
            "Cores per accelerator",
            "Host",
            CORES,
            whole=False,
            more=True,
            optional=True,
            tooltip="Physical cores; empty: as in the catalogue",
        ),
        picture_control(
            ("machine", "Machine", "The graph of the machine, with the use of each link"),
            (
                "gets",
                "Actual and required rates",
                "Rate of each flow beside the rate that it requires",
            ),
            ("cores", "Cores", "Samples per second over cores"),
        ),
    )


def _decodes(values: Mapping[str, Any]) -> bool:
    """Return True if cores decode the data; tokens, for example, are used as they are stored."""
    work = dict(catalog.table("data_sets")[["key", "decode_work"]].itertuples(index=False))
    return values.get("traffic") in DECODED and work.get(values.get("data"), 1.0) > 0


_sized = lru_cache(maxsize=64)(size_host)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    picture = values["picture"]
    if picture == "cores" and values["traffic"] not in DECODED:
        raise Refused(Refusal("cores decode nothing of this traffic: set Traffic to input or both", field="traffic"))
    size = _sized(
        **{name: value for name, value in values.items() if name != "picture"} | {"model": named_model(values["model"])}
    )
    drawn, table, data = {
        "machine": (_machine_picture, _link_table, HostSize.links),
        "gets": (_gets_picture, _gets_table, HostSize.flows),
        "cores": (_cores_picture, _cores_table, lambda found: found.curve),
    }[picture]
    network, samples = title_of(values["model"]), printed("data_sets", "key", "name", values["data"])
    return View(
        answer=f"{_rate(size, network, samples)} {_advice(size)} {_links(size)} {assumed(values['model'])}".rstrip(),
        headline={"samples/s per accelerator": size.rate},
        chips=_chips(size),
        picture=drawn(size),
        parts=tuple(_part(size, name) for name in size.stages),
        parts_title=f"Time of {counted(int(size.batch), 'sample')} in each stage; stages overlap, and the longest "
        "decides",
        table=partial(table, size),
        data=partial(data, size),
        sources=partial(_sources, size),
        code=_code(values, size),
        stood_for={} if math.isnan(size.cores) else {"cores": size.cores},
    )


def _code(values: dict[str, Any], size: HostSize) -> str:
    """The panel's state, then the calls behind its links and its decoding."""
    lines = [panel_call(host, values), f"box = cb.topology({as_python(size.machine.key)})"]
    flows, source = size.traffic, '"storage"' if values["traffic"] == "storage" else ""
    parts = [f"box.input_flows({source})"] * bool(flows.inputs) + ["box.ring_flows()"] * bool(flows.rings)
    counts = (flows.inputs, len(flows.flows) - flows.inputs)
    requests = [f"[{rate:.6g}] * {count}" for rate, count in zip(flows.asked[[0, -1]], counts, strict=True) if count]
    limits = f", {' + '.join(requests)}" if values["load"] == LOADS[0] else ""
    lines.append(f"box.traffic({' + '.join(parts)}{limits})")
    if values["traffic"] in DECODED and size.cores > 0:
        count = len(size.machine.named("accelerator"))
        cores = size.cores * count
        call = {
            "batch": values["batch"],
            "accelerators": count,
            "workers": values["workers"],
            "cores": int(cores) if cores == int(cores) else cores,
            "processor": size.processor,
        }
        endless = as_python({**BOUNDLESS, "read_bandwidth": "1 PB/s"})
        where = f"{size.step:.6g}, {as_python(size.machine.accelerator)}, {endless}"
        card = as_python({"card": values["data"], "layout": "shards"})
        lines.append(f"cb.match_storage({where}, {card}, {keywords(call)})")
    return "\n".join(lines)


def _machine_picture(size: HostSize) -> Picture:
    """Return the chart of the machine: from memory, or from drives where they are read directly; without a network."""
    nodes, rows = _layout(size)
    links = size.links()
    links = links[links["start"].isin(nodes.index) & links["end"].isin(nodes.index)]
    text = [_percent(share) for share in links["share"]]
    tips = [
        f"{_between(size, link['start'], link['end'])}: {link['name']}; {_bytes(link['used'])} of "
        f"{_bytes(link['bandwidth'])}, {_percent(link['share'])}"
        for link in links.to_dict("records")
    ]
    use = size.traffic.use
    full, worst = int((use["share"] >= 1 - 1e-6).sum()), use.loc[use["share"].round(9).idxmax()]
    names = _between(size, worst["from"], worst["to"])
    title = (
        f"{full} link direction{'s are' if full > 1 else ' is'} fully used, first {names}"
        if full
        else f"No link is fully used{', decoding is the limit' * (size.limit == 'decoding')}; the busiest, "
        f"{names}, is used at {_percent(worst['share'])}"
    )
    return Picture("machine", charts.drawing(nodes, links.assign(text=text, tip=tips), rows), title)


def _between(size: HostSize, start: str, end: str) -> str:
    return f"{size.machine.spoken(start)} to {size.machine.spoken(end)}"


def _layout(size: HostSize) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return the positions of nodes in rows by kind, and the height of each row by its name."""
    box, frame = size.machine, size.machine.frame()
    used = {node for flow in size.traffic.flows[: size.traffic.inputs] for node in flow}
    unseen = "memory" if used & set(box.named("storage")) else "storage"
    ends = [pair for link in box.links for pair in ((link.start, link.end), (link.end, link.start))]
    above = {a for a, b in ends if b in box.named("socket")}
    leaves = [name for name in box.named("pcie_switch") if name not in above]
    kinds = {
        kind: leaves if kind == LEAF else [name for name in box.named(kind) if name not in leaves]
        for kind in ROWS
        if kind != unseen
    }
    kinds = {kind: names for kind, names in kinds.items() if names}
    across = dict(zip(frame["name"], frame["x"], strict=True))
    below = {
        a: [across[link.end] for link in box.links if link.start == a and link.end in box.named("accelerator")]
        for a in box.named("pcie_switch")
    }
    rows = {ROWS[kind]: 1 - level / max(len(kinds) - 1, 1) for level, kind in enumerate(kinds)}
    positions = {}
    for kind, names in kinds.items():
        for place, name in enumerate(names):
            x = float(np.mean(below[name])) if below.get(name) else (place + 0.5) / len(names)
            spoken = box.spoken(name)
            positions[name] = (
                x,
                rows[ROWS[kind]],
                ROWS[kind],
                spoken.rpartition(" ")[2] if name[-1:].isdigit() else "all",
                spoken,
            )
    return pd.DataFrame.from_dict(positions, orient="index", columns=["x", "y", "row", "text", "tip"]), rows


def _gets_picture(size: HostSize) -> Picture:
    flows = size.flows()
    ratios = flows["got"] / flows["need"]
    frame = pd.DataFrame(
        {
            "row": flows["flow"],
            "got": flows["got"] / 1e9,
            "need": flows["need"] / 1e9,
            "text": [_of_need(ratio) for ratio in ratios],
        }
    )
    enough = int((ratios >= charts.FULL).sum())
    flow = counted(len(flows), "flow")
    they = "has its required rate" if len(flows) == 1 else "have their required rates"
    title = {
        "decoding": f"Decoding limits the accelerators, although {enough} of {flow} {they}",
        "links": f"Links limit the accelerators: {enough} of {flow} {they}",
    }.get(size.limit, f"{enough} of {flow} {they}")
    return Picture("gets", frame, title, {"rows": row_order(frame), **charts.rate_ends(frame)})


def _of_need(ratio: float) -> str:
    if charts.FULL <= ratio <= 2 - charts.FULL:
        return "the required rate"
    return f"{ratio:.3g}× the required rate" if ratio > 1 else f"{100 * ratio:.0f} % of the required rate"


def _cores_picture(size: HostSize) -> Picture:
    """Samples a second over cores, with demand and machine."""
    demand, has_decoding = size.stages["computing"], not math.isnan(size.stages["decoding"])
    reach = size.decoding_range[1] / size.stages["decoding"] if has_decoding else 1.0
    thin = size.curve.iloc[[*range(0, min(32, len(size.curve))), *range(32, len(size.curve), 4)]]
    curve = thin.assign(what="curve", low=thin["rate"] / reach, high=thin["rate"] * reach, text="")
    marks = [{"what": "demand", "cores": 1.0, "rate": demand, "text": f"accelerator demand {demand:,.0f}/s"}]
    if has_decoding:
        here = min(max(size.cores, 0.5), 64.0)
        marks.append(
            {
                "what": "here",
                "cores": here,
                "rate": size.stages["decoding"],
                "text": f"{_cores(size.cores)}, {counted(int(size.workers), 'worker')}",
            }
        )
    columns = ["what", "cores", "rate", "low", "high", "chosen", "text"]
    frame = pd.concat([curve, pd.DataFrame(marks)], ignore_index=True)[columns]
    return Picture("cores", frame, _cores_title(size), {"top": charts.top_of(frame)})


def _cores_title(size: HostSize) -> str:
    if math.isinf(size.cores_needed):
        return "No number of cores behind one loader meets the demand"
    if size.limit == "decoding" and size.cores_needed <= size.cores:
        few = counted(int(size.workers), "worker")
        return f"{_cores(size.cores_needed)} with a worker each would meet the demand; {few} cannot"
    if size.limit == "links":
        return f"Links are the limit, not cores: {_cores(size.cores_needed)} per accelerator would meet the demand"
    rule = "more than the usual 1-2" if size.cores_needed > 2 else "within the usual 1-2"
    return f"{_cores(size.cores_needed)} per accelerator meet the demand, {rule}"


def _cores(count: float) -> str:
    return f"{count:g} core{'s' * (count != 1)}"


def _part(size: HostSize, name: str) -> Part:
    """Return the time of one batch of one accelerator in a stage."""
    rate, (colour, how) = size.stages[name], PARTS[name]
    seconds = size.batch / rate if math.isfinite(rate) else 0.0
    text = "not known" if math.isnan(rate) else "none" if math.isinf(rate) else human(seconds, "s")
    return Part(name, seconds, text, TIME_PARTS[colour], how)


def _link_table(size: HostSize) -> pd.DataFrame:
    """Links by use, the busiest first, as printed text."""
    rows = size.links().sort_values("share", ascending=False, kind="stable")
    recalled = np.where(rows["how"] == "recalled", " (recalled)", "")
    return pd.DataFrame(
        {
            "From": rows["start"].map(size.machine.spoken),
            "To": rows["end"].map(size.machine.spoken),
            "Rate": rows["bandwidth"].map(_bytes),
            "Used": rows["used"].map(_bytes),
            "Share": rows["share"].map(_percent),
            "Other direction": rows["back"].map(_bytes),
            "Flows": rows["flows"].map("{:.0f}".format),
            "Link": rows["name"] + recalled,
        }
    )


def _gets_table(size: HostSize) -> pd.DataFrame:
    rows = size.flows()
    return pd.DataFrame(
        {
            "Flow": rows["flow"],
            "Actual rate": rows["got"].map(_bytes),
            "Required rate": rows["need"].map(_bytes),
            "Comparison": (rows["got"] / rows["need"]).map(_of_need),
        }
    )


def _cores_table(size: HostSize) -> pd.DataFrame:
    rows = size.curve[size.curve["cores"].isin([0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])]
    return pd.DataFrame(
        {
            "Cores per accelerator": rows["cores"].map("{:g}".format),
            "One worker per core [samples/s]": rows["rate"].map("{:,.0f}".format),
            "Chosen workers [samples/s]": rows["chosen"].map("{:,.0f}".format),
            "Meets the demand": np.where(rows["rate"] >= size.stages["computing"], "yes", "no"),
        }
    )


def _sources(size: HostSize) -> tuple[Source, ...]:
    """Sources of nodes and links, recalled ones marked."""
    machine = size.machine
    parts: list[Any] = [*machine.nodes, *machine.links]
    counts = Counter(key for part in parts for key in part.source.split(";"))
    counts.update(dict.fromkeys(machine.source, 0))
    return cited(
        {
            key: "(recalled, not opened) " * key.startswith("recalled")
            + (f"{count} nodes and links" if count else "the machine as a whole")
            for key, count in counts.items()
        }
    )


def _bytes(value: float) -> str:
    """A rate of bytes; nothing is 0."""
    if not value:
        return "0"
    return f"{value / 1e9:,.0f} GB/s" if value >= 99.5e9 else f"{value / 1e9:.3g} GB/s"


def _percent(share: float) -> str:
    return "< 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _rate(size: HostSize, network: str, samples: str) -> str:
    can, ends, limit = size.stages["computing"], size.computing_range, size.limit
    low, high = {"computing": ends, "decoding": size.decoding_range}.get(limit, (math.nan, math.inf))
    work = f"{samples.partition(' (')[0].partition(',')[0]} for {network} on {size.machine.name}"
    ranges = [] if math.isinf(high) else [f"{figure(low)}-{figure(high)} samples/s"]
    if limit == "computing":
        headline = f"**{figure(size.rate)} samples/s** at best: the host supplies each accelerator at its full rate."
    else:
        sure = "" if (size.rate if math.isinf(high) else high) < ends[0] else ", probably"
        headline = (
            f"**{figure(size.rate)} samples/s** of the {figure(can)} that each accelerator could process: "
            f"{limit} {'is' if limit == 'decoding' else 'are'} the limit{sure}."
        )
        ranges.append(f"each accelerator could process {figure(ends[0])}-{figure(ends[1])}")
    return f"{headline} Workload: {work}. Interval (80 %): {'; '.join(ranges)}."


def _advice(size: HostSize) -> str:
    """Return what to change or buy first."""
    if math.isnan(size.stages["decoding"]):
        return (
            "Buy first: the cores of this machine are not in the catalogue, so decoding is left out; set Cores "
            "under More."
        )
    return f"Buy first: { ({'links': _wider_links, 'decoding': _more_cores, 'computing': _nothing}[size.limit](size)) }"


def _nothing(size: HostSize) -> str:
    room = size.stages["decoding"] / size.stages["computing"]
    if math.isinf(room):
        return "nothing; no core decodes here."
    here = size.curve[size.curve["cores"] <= size.cores]["rate"]
    full = (float(here.max()) if len(here) else size.stages["decoding"]) / size.stages["computing"]
    if full < _TIGHT:
        return f"nothing; its cores could decode at only {full:.2f}× that rate, so a faster accelerator would starve."
    if room < _TIGHT:
        return (
            f"nothing; {counted(int(size.workers), 'worker')} decode at {room:.2f}× that rate; one on each of its "
            f"{size.cores:g} cores would reach {full:.1f}×."
        )
    return (
        f"nothing; decoding could run at {figure(room)}× that rate, and {size.cores_needed:g} of the {size.cores:g} "
        "cores per accelerator would suffice."
    )


def _more_cores(size: HostSize) -> str:
    if math.isfinite(size.workers_needed):
        then = "; then links are the limit" if size.stages["links"] < size.stages["computing"] else ""
        return (
            f"nothing yet; {size.workers_needed:.0f} workers per accelerator instead of {size.workers:g} would suffice "
            f"on its {size.cores:g} cores{then}."
        )
    if math.isfinite(size.cores_needed):
        return (
            f"cores; each accelerator needs {size.cores_needed:g} but has {size.cores:g}; twice as many would give "
            f"{size.changes['twice the cores']:.2f}× the rate."
        )
    return (
        f"no cores; the process that collects batches handles at most {figure(size.curve['rate'].max())} samples/s; "
        "run several loaders, store decoded samples, or decode on the accelerator."
    )


def _wider_links(size: HostSize) -> str:
    gain = size.changes["links twice as wide"]
    worth = f"twice the width gives {gain:.2f}×" if gain > _MIN_GAIN else "twice the width gives little"
    if size.stages["decoding"] < size.stages["computing"]:
        return f"wider links ({worth}); decoding is the next limit."
    return f"wider links ({worth}), or another topology; a larger batch communicates gradients less often."


def _links(size: HostSize) -> str:
    start, end, share = size.busiest
    names = _between(size, start, end)
    if share > 1:
        return f"Busiest link: from {names}; at full speed it would need {figure(share)} times its rate."
    return f"Busiest link: from {names}; at full speed it carries {_percent(share)} of its nominal rate."


def _chips(size: HostSize) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the answer is known."""
    cores = "cores not known" if math.isnan(size.cores) else f"{_cores(size.cores)} per accelerator"
    about = f"Physical cores, {size.processor or 'a usual processor'}; from the catalogue unless you set them."
    badges = [(cores, about), (size.machine.root, "Single root: all accelerators are connected below one processor.")]
    if not math.isnan(size.cacheable):
        fits = size.stored <= size.cacheable
        badges.append(
            (
                "data fit in memory" if fits else "data exceed memory",
                f"The data set takes {size.stored / 1e9:,.3g} GB; the memory can cache {size.cacheable / 1e9:,.0f} GB. "
                + ("Later epochs do not read storage." if fits else "Every epoch reads from storage."),
            )
        )
    badges.append(("at best", "Stages overlap perfectly and the slowest is the limit; storage is not included."))
    return tuple(badges)
