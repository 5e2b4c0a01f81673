"""Panel of recipe 03: where does scaling stop, and why?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import keywords
from cookbook.catalog.fields import Amount, Names
from cookbook.catalog.parts import part_groups
from cookbook.catalog.refusals import Refusal, Refused
from cookbook.charts.look import TIME_PARTS, row_order
from cookbook.evidence import evaluation
from cookbook.hardware import machine
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider, picture_control, powers_of_two
from cookbook.panels.options import (
    SOME_LAYERS,
    Device,
    Network,
    assumed,
    cited,
    device_control,
    machines,
    model_control,
    model_of,
    named_device,
    named_model,
    networks,
    rounded,
    step_parts,
    title_of,
)
from cookbook.panels.shell import Panel, Picture, View, device_text, model_text, panel_call
from cookbook.panels.text import MILLI, counted, figure, percent
from cookbook.prediction.kinds.transformer import is_language_model
from cookbook.prediction.precision import TRAINING_FORMATS, usual_precision
from cookbook.prediction.scaling import EXCHANGES, device_of, formats_of
from cookbook.topics.runs import charts
from cookbook.units import human
from cookbook.workloads import zoo

OWN, MEASURED = "own", "measured"
# Efficiency from which on a further device counts as worth its place.
WORTH = 0.8
CHARTS: dict[str, Callable[[Any], Any]] = {
    "efficiency": charts.efficiencies,
    "speedups": charts.speedups,
    "parts": charts.step_parts,
}
EXPLAINED = {
    "hierarchical": "A ring in the node, trees between nodes, as measured software does",
    "flat ring": "One ring through all devices",
    "halving-doubling": "A ring in the node, recursive halving and doubling between nodes",
    "in-network": "In-network reduction (SHARP): the switches between nodes add the gradients",
    "parameter server": "All nodes send their gradients to one of them",
    "HPE 2017": "The founding formula, 2 w log2(p) / beta, between nodes",
}


def scaling(
    model: Network = "alexnet",
    compare: Names = ("resnet50", "vgg16", "eng_acoustic_model"),
    batch: Amount = 64,
    accelerator: Device = "hpe-apollo-6500-gen9-xl270d",
    link: str = OWN,
    devices: Amount = 1024,
    mode: str = "weak",
    exchange: str = "hierarchical",
    buckets: str = MEASURED,
    precision: str = "fp32",
    picture: str = "efficiency",
) -> Panel:
    """Return the panel "Where does scaling stop, and why?" in the state that the arguments describe.

    Parameters
    ----------
    model : str, Workload or dict
        A network of the zoo or one of your own (`cb.layers`, `cb.model`, ``{"layers": [...], "input": [...]}``, or what
        stands in a Hugging Face configuration), but no language model.
    compare : str or sequence of str
        Further networks to draw beside the first, three at most.
    accelerator : str, Accelerator or dict
        A server, an accelerator, or ``{"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}``.
    batch, devices, mode, exchange, precision
        As for `cb.scaling`.
    link, buckets : str
        As for `cb.scaling`; "own" is the machine's own network, "measured" what measured stacks hide.
    picture : {"speedups", "efficiency", "parts"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = scaling("resnet50", accelerator="dgx-1-v100")
    >>> panel.update(mode="strong")
    >>> panel.answer.split(" train ")[0], panel.answer.split(". ")[-1]
    ('64 devices', 'Batch: 64 samples cannot be split over more devices.')
    """
    return Panel(
        scaling, "Where does scaling stop, and why?", _controls, CHARTS, _draw, locals(), {"precision": _unavailable}
    )


def _controls() -> tuple[Control, ...]:
    return (
        model_control("The network to train", networks(language=False), SOME_LAYERS, label=""),
        Slider(
            "batch",
            group="Workload",
            stops=powers_of_two(0, 16),
            tooltip="Samples: the per-GPU batch in weak scaling, the global batch in strong scaling",
        ),
        Choice(
            "mode",
            "Scaling",
            "Workload",
            (
                ("weak", "weak", "Each further device adds its own batch"),
                ("strong", "strong", "One global batch is split over more devices"),
            ),
            tooltip="Quantity that grows with the number of devices",
        ),
        device_control("accelerator", "Machine", machines(), "A server, or an accelerator in nodes of eight"),
        Combo(
            "link",
            "Between nodes",
            "Hardware",
            _links(),
            tooltip="The machine's own network, or one port of another link per device",
        ),
        Combo(
            "exchange",
            "All-reduce",
            "Hardware",
            tuple((name, name, EXPLAINED[name], "") for name in EXCHANGES),
            tooltip="Algorithm that sums the gradients of all devices",
        ),
        Combo(
            "compare",
            "Compare with",
            "Workload",
            networks(language=False),
            many=True,
            limit=3,
            more=True,
            tooltip="Further networks in the same chart, three at most",
        ),
        Slider(
            "devices", "Devices up to", "Hardware", powers_of_two(1, 10), more=True, tooltip="Largest number of devices"
        ),
        Choice(
            "buckets",
            "Buckets",
            "Hardware",
            (
                (MEASURED, "measured", "The all-reduce is hidden to the extent that was measured"),
                ("1", "1", "The all-reduce starts after the backward pass, so nothing is hidden"),
                ("4", "4", "Four buckets, each sent while the backward pass goes on"),
                ("25", "25", "Twenty-five buckets"),
            ),
            more=True,
            tooltip="Number of buckets in which gradients are sent",
        ),
        Choice(
            "precision",
            group="Hardware",
            options=(
                (OWN, "best", "The first of bf16, fp16, tf32 and fp32 that the accelerator has"),
                *((name, name, f"Matmuls in {name}") for name in TRAINING_FORMATS),
            ),
            more=True,
            tooltip="Precision of the matmuls",
        ),
        picture_control(
            ("efficiency", "Efficiency", "Share of the ideal speed-up, which shows small losses"),
            ("speedups", "Speed-up", "Speed-up over devices, beside the ideal and measurements"),
            ("parts", "Parts", "Parts of a step, over devices"),
        ),
    )


def _links() -> tuple[Option, ...]:
    rows = catalog.table("interconnects")
    rows = rows[rows["kind"].isin(["network", "host", "device"])].sort_values("kind", ascending=False, kind="stable")
    return (
        (OWN, "the machine's own", "", ""),
        *zip(rows["key"], rows["name"], [""] * len(rows), rows["kind"], strict=True),
    )


def _unavailable(values: dict[str, Any]) -> dict[str, str]:
    """Return the reasons why precisions cannot be chosen."""
    offered = formats_of(named_device(values["accelerator"]))
    return {name: f"the machine has {', '.join(offered)}" for name in TRAINING_FORMATS if name not in offered}


@dataclass(frozen=True, eq=False)
class Scaled:
    """Networks over devices: all that the panel shows.

    Attributes
    ----------
    network : Workload
        The first network.
    title : str
        Its name as printed; no other network drawn has it.
    told : str
        What was assumed of it.
    whole : pandas.DataFrame
        `cb.scaling` of all networks, one after the other, with `network`.
    measured : pandas.DataFrame
        Measured speed-ups of the first network on this accelerator.
    work : float
        MAC of a step for each parameter, on the fullest device of the last row.
    """

    network: zoo.Workload
    title: str
    told: str
    whole: pd.DataFrame
    measured: pd.DataFrame
    work: float
    device: str
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, model: Any, compare: Sequence[str], arguments: Mapping[str, Any]) -> Scaled:
        """Networks with the same arguments of `cb.scaling`."""
        names = list(dict.fromkeys([named_model(model), *compare]))
        first, *others = [model_of(name) for name in names]
        if not isinstance(model, str) and is_language_model(first):
            reason = (
                f"Network = {first.title} is a language model, which is split in more ways than data parallel; recipe "
                "08 plans its training, here take a network of another kind"
            )
            raise Refused(Refusal(reason, field="model"))
        tables = [_scaled(name, tuple(arguments.items())) for name in names]
        titles, title = [each.title for each in others], title_of(model)
        title += " (yours)" * (title in titles)
        whole = pd.concat(
            [table.assign(network=each) for table, each in zip(tables, [title, *titles], strict=True)],
            ignore_index=True,
        )
        device, pairs = device_of(arguments["accelerator"]), evaluation.pairs()
        name = first.name if isinstance(names[0], str) else ""  # nothing was measured of the reader's own
        pairs = pairs[(pairs["network"] == name) & (pairs["accelerator"] == device)]
        pairs = pairs[pairs["devices"] <= tables[0]["devices"].max()]
        pairs = pairs if arguments["mode"] == "weak" else pairs[:0]
        work = float(first.ops.total("macs", 1, first.seq)) / first.ops.parameter_count
        work *= float(tables[0]["batch"].iloc[-1])
        return cls(first, title, assumed(model), whole, pairs, work, device, MappingProxyType(dict(arguments)))

    @cached_property
    def own(self) -> pd.DataFrame:
        """Rows of the first network."""
        return self.whole[self.whole["network"] == self.title]

    @cached_property
    def seconds(self) -> pd.DataFrame:
        """Return the step by part [s], one row per number of devices."""
        parts = self.own[[f"{name} [s]" for name in TIME_PARTS if f"{name} [s]" in self.own]]
        return parts.rename(columns=lambda name: name.removesuffix(" [s]"))

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Device time of one sample by part [s]."""
        samples = self.own["samples_per_second"] / self.own["devices"]
        return self.seconds.div(samples * self.own["step_seconds"], axis=0)

    @cached_property
    def growth(self) -> tuple[str, float]:
        """Return the part that grows most per sample from the first to the last row, and its share of the growth."""
        more = self.shares.iloc[-1] - self.shares.iloc[0]
        added = float(more.clip(lower=0).sum())
        return str(more.idxmax()), float(more.max()) / added if added > 0 else 0.0


@lru_cache(maxsize=256)
def _scaled(name: str | zoo.Workload, arguments: tuple[tuple[str, Any], ...]) -> pd.DataFrame:
    return evaluation.scaling(name, **dict(arguments))


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    view = Scaled.of(values["model"], values["compare"], _arguments(values))
    own = view.own.iloc[-1]
    return View(
        answer=_answer(view),
        headline={"speed-up": float(own["speed_up"]), "samples/s": float(own["samples_per_second"])},
        chips=_chips(view),
        picture=PICTURES[values["picture"]](view, pinned.kept if pinned else None),
        parts=step_parts(view.seconds.iloc[-1]),
        parts_title=f"A step of {view.title} on {own['devices']:,} devices",
        table=partial(_table, view),
        data=lambda: view.whole,
        sources=partial(_sources, view),
        code=_code(values),
        kept=view,
        stood_for={"precision": usual_precision(machine(view.arguments["accelerator"]), "training")},
    )


def _arguments(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `cb.scaling` beyond the network."""
    arguments = {"accelerator": named_device(values["accelerator"])}
    arguments |= {name: values[name] for name in ("devices", "batch", "mode", "exchange")}
    arguments["buckets"] = None if values["buckets"] == MEASURED else int(values["buckets"])
    return arguments | {name: "" if values[name] == OWN else values[name] for name in ("link", "precision")}


def _code(values: dict[str, Any]) -> str:
    usual = {"mode": "weak", "exchange": "hierarchical", "buckets": None, "link": "", "precision": ""}
    arguments = {name: value for name, value in _arguments(values).items() if name not in usual or value != usual[name]}
    del arguments["accelerator"]
    what = f"model={model_text(values['model'])}, accelerator={device_text(values['accelerator'])}"
    return f"{panel_call(scaling, values)}\ncb.scaling({what}, {keywords(arguments)})"


def _answer(view: Scaled) -> str:
    """Return the answer: the speed-up, the limit of scaling and its reason."""
    last, arguments = view.own.iloc[-1], view.arguments
    has_interval = last["low80"] == last["low80"]
    interval = f" Interval (80 %): {figure(last['low80'])}-{figure(last['high80'])}×." if has_interval else ""
    full = arguments["mode"] == "strong" and last["devices"] < arguments["devices"]
    more = f" Batch: {arguments['batch']:,} samples cannot be split over more devices." if full else ""
    return (
        f"{counted(last['devices'], 'device')} train {view.title} **{figure(last['speed_up'])}×** as fast as one, "
        f"{percent(last['efficiency'])} of the ideal.{interval} {_stop(view.own)} {_why(view, bool(more))}{more} "
        f"{view.told}"
    ).rstrip()


def _stop(own: pd.DataFrame) -> str:
    """Return the number of devices at which scaling stops being worthwhile."""
    peak = own.loc[own["speed_up"].idxmax()]
    if peak["devices"] < own["devices"].iloc[-1]:
        return f"Limit: beyond {counted(peak['devices'], 'device')}, further ones make it slower."
    worth = own.loc[own["efficiency"] >= WORTH, "devices"].max()
    if worth == own["devices"].iloc[-1]:
        return f"Limit: none up to here; efficiency is still above {100 * WORTH:.0f} %."
    if worth == 1:
        return f"Limit: efficiency is below {100 * WORTH:.0f} % from the second device on."
    return f"Limit: efficiency stays above {100 * WORTH:.0f} % up to {worth:,} devices."


def _why(view: Scaled, crowded: bool) -> str:
    """Return the largest part of the loss, and the intensity unless the facts are `crowded`."""
    part, share = view.growth
    if share == 0:
        return "Bottleneck: none, since nothing is lost."
    bottleneck = f"Bottleneck: {100 * share:.0f} % of the loss is {part_groups()[part].scaling}."
    if crowded and view.told:
        return bottleneck
    return f"{bottleneck} Intensity: {view.work:,.0f} MAC per step for each parameter whose gradient is communicated."


def _chips(view: Scaled) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the values are known."""
    runs = len(view.measured)
    return (
        (
            "interval from measured speed-ups",
            "Errors of measured speed-ups whose publisher was held out; the interval is wider "
            "downwards beyond one node, where few were measured.",
        )
        if view.own["low80"].notna().all()
        else ("a formula, no interval", "No measured run uses this setting, so its error is not known."),
        (f"{runs} measured" if runs else "none measured", "Measured speed-ups of this network on this accelerator."),
        (str(view.own["tier"].iloc[-1]), "Coverage of the time of a step by measurements."),
    )


def _speedups(view: Scaled, ghost: Scaled | None) -> Picture:
    """Predicted lines with their bands, what was measured of the first network, and the first of a pinned scenario."""
    lines = view.whole[["devices", "speed_up", "network"]].assign(
        low=view.whole["low80"], high=view.whole["high80"], measured=False, url="", pinned=False
    )
    points = pd.DataFrame(
        {
            "devices": view.measured["devices"].astype(int),
            "speed_up": view.measured["measured_speed_up"],
            "network": view.title,
            "measured": True,
            "url": view.measured["url"],
            "pinned": False,
        }
    )
    pinned_rows = (ghost.own if ghost else view.own[:0])[["devices", "speed_up"]]
    pinned_rows = pinned_rows.assign(network="pinned", measured=False, url="", pinned=True)
    frame = pd.concat([rows for rows in (lines, points, pinned_rows) if len(rows)], ignore_index=True)
    signals = {
        "most": int(lines["devices"].max()),
        "least": charts.least(frame),
        "networks": row_order(lines.assign(row=lines["network"])),
    }
    frame = rounded(frame, ("speed_up", "low", "high"))
    last, best = view.own.iloc[-1], view.own.loc[view.own["speed_up"].idxmax()]
    title = (
        f"{view.title} is fastest on {counted(best['devices'], 'device')}; further ones make it slower"
        if best["devices"] < last["devices"]
        else f"{counted(last['devices'], 'device')} train {view.title} {figure(last['speed_up'])}× as fast as one"
    )
    return Picture("speedups", frame, title, signals)


def _efficiencies(view: Scaled, ghost: Scaled | None) -> Picture:
    """The same as shares of the ideal."""
    drawn = _speedups(view, ghost)
    frame = drawn.frame.rename(columns={"speed_up": "share"})
    ideal = frame["devices"] / 100
    frame = rounded(
        frame.assign(**{name: frame[name].astype(float) / ideal for name in ("share", "low", "high")}),
        ("share", "low", "high"),
    )
    ends = view.whole[view.whole["devices"] == view.whole["devices"].max()].set_index("network")["efficiency"]
    others = ends.drop(view.title).sort_values(kind="stable")
    beside = f"; {others.index[-1]} keeps {percent(others.iloc[-1])}" if len(others) else ""
    count = counted(int(view.whole["devices"].max()), "device")
    title = f"{view.title} keeps {percent(ends[view.title])} of the ideal on {count}"
    return Picture("efficiency", frame, title + beside, drawn.signals)


def _parts(view: Scaled, _ghost: Scaled | None) -> Picture:
    """Device time of one sample by part, over devices."""
    labels = [f"{count:,} device{'s' if count > 1 else ''}" for count in view.own["devices"]]
    left = [f"{percent(share)} of the ideal" for share in view.own["efficiency"]]
    frame = charts.part_rows(labels, view.shares / MILLI, [{"text": text} for text in left])
    title = f"On {labels[-1]}, {left[-1]}: {view.growth[0]} grows most"
    return Picture("parts", frame, title, {"rows": row_order(frame), **charts.part_ends(frame)})


PICTURES = {"speedups": _speedups, "efficiency": _efficiencies, "parts": _parts}


def _table(view: Scaled) -> pd.DataFrame:
    """Rows of the first network as printed text."""
    own = view.own
    ends = [f"{low:,.3g}-{high:,.3g}" for low, high in zip(own["low80"], own["high80"], strict=True)]
    share = view.seconds["data-parallel communication"] / own["step_seconds"]
    return pd.DataFrame(
        {
            "Devices": own["devices"].map("{:,}".format),
            "Nodes": own["nodes"].map("{:,}".format),
            "Per-GPU batch": own["batch"].map("{:,.0f}".format),
            "Step": [human(step, "s") for step in own["step_seconds"]],
            "Throughput [samples/s]": own["samples_per_second"].map("{:,.0f}".format),
            "Speed-up": own["speed_up"].map("{:,.1f}".format),
            **({"80 % interval": ends} if own["low80"].notna().all() else {}),
            "Share of the ideal": own["efficiency"].map(percent),
            "Communication": (100 * share).map("{:.0f} % of a step".format),
        }
    )


def _sources(view: Scaled) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of the network, the accelerator, the link, and the measured speed-ups drawn."""
    devices, links = (catalog.table(name).set_index("key")["source"] for name in ("accelerators", "interconnects"))
    keys = dict.fromkeys(view.network.sources, "layers of the network")
    keys |= dict.fromkeys(devices[view.device.rstrip("*")].split(";"), "datasheet of the device")
    if view.arguments["link"]:
        keys |= dict.fromkeys(links[view.arguments["link"]].split(";"), "datasheet of the link")
    runs = view.measured[["source", "url"]].value_counts().reset_index(name="runs")
    drawn = [(row.source, row.url, f"{row.runs:,} measured speed-ups") for row in runs.itertuples(index=False)]
    return (*cited(keys), *drawn)
