"""Panel of recipe 08: what does it take to train a transformer?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.catalog.calls import keywords
from cookbook.catalog.fields import Amount
from cookbook.catalog.parts import part_groups
from cookbook.catalog.refusals import Refused
from cookbook.charts import models as memory_charts
from cookbook.charts.look import row_order
from cookbook.hardware import Accelerator
from cookbook.panels.controls import (
    Choice,
    Control,
    Slider,
    one_two_five,
    picture_control,
    powers_of_two,
    price_control,
)
from cookbook.panels.options import (
    Device,
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
)
from cookbook.panels.shell import Panel, Picture, View, device_text, model_text, panel_call, sources_of_case
from cookbook.panels.text import (
    DAY,
    MILLION,
    MINUTE,
    at_your_price,
    dollar_range,
    figure,
    in_words,
    large,
    measured_badges,
    percent,
    price_badge,
    short_name,
    sources_of_price,
)
from cookbook.topics.runs import charts
from cookbook.topics.runs.search import layout_words, machine_of
from cookbook.topics.runs.training_run import TrainingRun, plan_run
from cookbook.units import dollars, human

BILLION, GIGABIT, GIGA, HOURS_A_YEAR = 1e9, 1e9 / 8, 1e9, 8766.0
CHARTS: dict[str, Any] = {
    "curve": charts.days_usd,
    "hours": charts.days_hours,
    "layouts": charts.layout_parts,
    "memory": memory_charts.memory_bars,
    "checkpoints": charts.checkpoints,
}
# Numbers of devices of the curve, and largest number of bars of a chart.
CURVE_DEVICES, MAX_BARS = tuple(2**power for power in range(3, 15)), 8
FORMATS = ("bf16", "fp16", "tf32", "fp32", "fp8")
RECOMPUTATION = {"selective": ", partial recomputation", "full": ", full recomputation"}
MEMORY = {
    "weights": ("weights", "gathered"),
    "gradients": ("gradients",),
    "optimiser states": ("optimiser",),
    "activations": ("activations", "transient"),
    "workspace": ("reserved",),
}

PRESETS = (
    (
        "GPT-2 on 8 A100 in a week",
        {"model": "gpt2", "tokens": 300, "batch": 512, "accelerator": "a100-sxm-80gb", "devices": 8, "deadline": 7},
    ),
    ("Llama 3 8B on a trillion tokens", {"model": "llama3_8b", "tokens": 1000, "devices": 256}),
    ("GPT-3 175B in a month", {"model": "gpt3_175b", "tokens": 300, "batch": 1536, "accelerator": "a100-sxm-80gb"}),
)


def training_run(
    model: str = "llama2_70b",
    tokens: Amount = 2000,
    batch: Amount = 1024,
    accelerator: Device = "h100-sxm",
    devices: Amount = 1024,
    deadline: Amount = 30,
    seq: Amount | None = None,
    precision: str = "own",
    per_node: Amount | None = None,
    network: Amount | None = None,
    tp: Amount | None = None,
    pp: Amount | None = None,
    hourly: Amount | None = None,
    budget: Amount | None = None,
    mtbf: Amount | None = None,
    storage: Amount | None = None,
    picture: str = "curve",
) -> Panel:
    """Return the panel "What does it take to train a transformer?" in the state that the arguments describe.

    Parameters
    ----------
    model : str
        A language model of the zoo.
    tokens : float
        Tokens to train on [billions].
    batch, seq : int
        Global batch [sequences]; tokens of a sequence, the model's by default.
    accelerator : str, Accelerator or dict
        A server, an accelerator, or ``{"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}``.
    devices : int
        Accelerators.
    deadline, budget : float, optional
        Days until the last token; USD [millions].
    precision : {"own", "bf16", "fp16", "tf32", "fp32", "fp8"}
        "own" is the first of the others that the accelerator has, fp8 apart.
    per_node, network : float, optional
        Devices of an NVLink (scale-up) domain; network of one device [Gbit/s]. Those of the machine by default.
    tp, pp : int, optional
        TP and PP degree to hold; the best of those tried by default.
    hourly, mtbf, storage : float, optional
        An hour of a device [USD]; MTBF of a device [years]; checkpoint write bandwidth [GB/s]. Dated prices and
        published failures by default.
    picture : {"curve", "layouts", "memory", "checkpoints"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = training_run("llama2_7b", devices=64)
    >>> panel.update(tp=6)
    >>> panel.answer
    'TP degree = 6 does not divide 32 heads; nearest: 4 or 8.'
    """
    return Panel(
        training_run,
        "What does it take to train a transformer?",
        _controls,
        CHARTS,
        _draw,
        locals(),
        {"precision": _unavailable},
        presets=PRESETS,
    )


def _controls() -> tuple[Control, ...]:
    more = partial(Slider, more=True, optional=True, whole=False)
    return (
        model_control("The language model to train", networks(language=True)),
        Slider(
            "tokens",
            "Tokens",
            "Workload",
            one_two_five(1, 1e5, (300, 1400, 15600)),
            unit="billion",
            whole=False,
            tooltip="Tokens to train on",
        ),
        Slider(
            "batch",
            group="Workload",
            stops=powers_of_two(3, 16),
            unit="sequences",
            argument="global_batch",
            tooltip="Sequences per update, over all devices",
        ),
        device_control("accelerator", "Machine", machines(), "An accelerator (in nodes of eight) or a server"),
        Slider(
            "devices", group="Hardware", stops=tuple(map(float, CURVE_DEVICES)), tooltip="Total number of accelerators"
        ),
        Slider(
            "deadline",
            "Deadline",
            "Goal",
            (1, 2, 5, 7, 10, 14, 20, 30, 45, 60, 90, 120, 180, 365, 1000),
            unit="days",
            whole=False,
            optional=True,
            tooltip="Longest time for the whole run; empty: no deadline",
        ),
        more(
            "budget",
            "Budget",
            "Goal",
            one_two_five(0.01, 10_000),
            unit="million $",
            tooltip="Largest cost of the run; empty: no limit",
        ),
        more(
            "seq",
            group="Workload",
            stops=powers_of_two(9, 20),
            unit="tokens",
            whole=True,
            tooltip="Tokens per sequence; empty: as in the model. The global batch counts sequences, so tokens change",
        ),
        Choice(
            "precision",
            group="Hardware",
            options=(
                ("own", "best", "bf16 where the accelerator has it, else fp16, tf32 or fp32"),
                *((name, name, f"Matmuls in {name}") for name in FORMATS),
            ),
            more=True,
            tooltip="Precision of the matmuls",
        ),
        more(
            "per_node",
            "NVLink domain",
            "Hardware",
            (1, 2, 4, 8, 16, 32, 64, 72, 144, 256, 576),
            unit="devices",
            whole=True,
            tooltip="Devices per NVLink (scale-up) domain; empty: as the machine",
        ),
        more(
            "network",
            group="Hardware",
            stops=(10, 25, 50, 100, 200, 400, 800, 1600, 3200),
            unit="Gbit/s per device",
            tooltip="Network bandwidth per device; empty: as the machine",
        ),
        more(
            "tp",
            "TP degree",
            "Parallelism",
            powers_of_two(0, 7),
            whole=True,
            tooltip="Tensor parallelism: devices that share each matmul; empty: the best of those tried",
        ),
        more(
            "pp",
            "PP degree",
            "Parallelism",
            powers_of_two(0, 7),
            whole=True,
            tooltip="Pipeline parallelism: stages that layers are split into; empty: the best of those tried",
        ),
        price_control(),
        more(
            "mtbf",
            "MTBF per GPU",
            "Failures",
            (0.2, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50),
            unit="years",
            argument="mtbf_hours",
            tooltip="Mean time between failures, including the share of host and network; empty: as published",
        ),
        more(
            "storage",
            "Checkpoint write bandwidth",
            "Failures",
            (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000),
            unit="GB/s",
            argument="checkpoint_bandwidth",
            tooltip="Write bandwidth of the storage; empty: as published, per device",
        ),
        picture_control(
            ("curve", "Days and cost", "Every number of devices, each with its fastest configuration"),
            (
                "layouts",
                "Configurations",
                "Parts of a step in the fastest configurations of these devices",
            ),
            ("memory", "Memory", "Memory of the fullest device in these configurations"),
            ("checkpoints", "Checkpoints", "Useful share of the time over the checkpoint interval"),
        ),
    )


def _unavailable(values: dict[str, Any]) -> dict[str, str]:
    """Return the reasons why precisions cannot be chosen."""
    offered = hardware.formats(machine_of(named_device(values["accelerator"])).accelerator)
    return {name: f"the machine has {', '.join(offered)}" for name in FORMATS if name not in offered}


@dataclass(frozen=True, eq=False)
class Planned:
    """A run with what the reader chose: all that the panel shows."""

    values: Mapping[str, Any]
    run: TrainingRun
    title: str
    device: Accelerator
    pinned: Planned | None

    @cached_property
    def own(self) -> pd.Series:
        """Row of the number of devices chosen."""
        return self.run.table.set_index("devices", drop=False).loc[self.values["devices"]]

    @cached_property
    def seconds(self) -> pd.Series:
        """Step of that row by part [s]."""
        return self.run.parts.loc[self.values["devices"]]

    @cached_property
    def priced(self) -> bool:
        """Return True if the price of a device-hour is known."""
        return bool(np.isfinite(self.run.price.median))

    @cached_property
    def layouts(self) -> pd.DataFrame:
        """Layouts of this number of devices, the fastest of each tensor, pipeline, context and expert split."""
        table = self.run.layouts.table.assign(row=self.run.layouts.rows)
        table = table[table["devices"] == self.values["devices"]]
        for name in ("tp", "pp"):
            table = table if self.values[name] is None else table[table[name] == self.values[name]]
        best = table.drop_duplicates(["tp", "pp", "cp", "ep"]).reset_index(drop=True)
        days = self.own["days"] * best["step_seconds"] / self.own["step_seconds"]
        return best.assign(words=[layout_words(row) for _, row in best.iterrows()], days=days)

    @cached_property
    def verdict(self) -> str:
        """Return the margin to the deadline of the chosen number, and of the nearest with the other outcome."""
        deadline, days = self.values["deadline"], self.run.table.set_index("devices")["days"].dropna()
        if not deadline:
            return ""
        here, chosen = float(self.own["days"]), self.values["devices"]
        met, words, term = here <= deadline, ("miss", "meet"), _days(deadline).rstrip("s").replace(" ", "-")
        first = f"{chosen:,} devices {words[met]} the {term} deadline{_margin(deadline - here)}"
        first += ", though not certainly" if met and self.own["days_high"] > deadline else ""
        other = days[(days <= deadline) != met]
        least = days[days <= deadline].index.min()
        if met and least < chosen:
            first += f"; {least:,} devices meet it{_margin(deadline - days[least])}"
        if other.empty:
            return first if met else f"{first}; none of the numbers tried meets it"
        near = other.index[0] if not met else (other - deadline).idxmin()
        return f"{first}; {near:,} devices {words[not met]} it{_margin(deadline - other[near])}"

    def of_rows(self, columns: Mapping[str, Any], count: int | None = None) -> pd.DataFrame:
        """Columns of the prediction for the fastest layouts."""
        at = self.layouts["row"].to_numpy()[:count]
        return pd.DataFrame({name: np.asarray(each)[at] for name, each in columns.items()})


def _days(days: float) -> str:
    """Return a number of days with its noun; below one day, hours, and below one hour, minutes."""
    per_day = {"day": 1, "hour": 24, "minute": 24 * 60}
    unit = next((unit for unit, count in per_day.items() if days * count >= 1), "minute")
    value = figure(days * per_day[unit])
    return f"{value} {unit}{'' if value == '1' else 's'}"


def _margin(days: float) -> str:
    """Return by how much a deadline is met, if days remain, or missed."""
    return f" with {_days(days)} to spare" if days >= 0 else f" by {_days(-days)}"


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    device = machine_of(named_device(values["accelerator"])).accelerator
    model = model_of(values["model"])
    view = Planned(MappingProxyType(dict(values)), _run(values), model.title, device, pinned.kept if pinned else None)
    picture = values["picture"]
    layouts = picture in ("layouts", "memory")
    figures = {"days": float(view.own["days"]), "cost": float(view.own["usd"])}
    facts = [fact(view) for fact in (_headline, _interval, _goal, _layout, _failures)]
    return View(
        answer=" ".join(filter(None, [*facts, assumed(model)])),
        headline={name: value for name, value in figures.items() if value == value},
        chips=_chips(view),
        picture=PICTURES[picture](view),
        parts=step_parts(view.seconds),
        parts_title=f"One step of {view.run.tokens_per_step:,.0f} tokens in the fastest configuration",
        table=partial(_layout_table, view) if layouts else lambda: view.run.tables()["Numbers of devices"],
        data=lambda: view.layouts if layouts else view.run.frame(),
        sources=partial(_sources, view),
        code=_code(values),
        kept=view,
        stood_for={"precision": view.run.precision},
    )


def _run(values: dict[str, Any]) -> TrainingRun:
    """Return the run on the numbers of the curve and on the chosen one, whose refusal is raised."""
    arguments, chosen, system = _arguments(values), values["devices"], named_device(values["accelerator"])
    try:
        run = plan_run(named_model(values["model"]), system, sorted({*CURVE_DEVICES, chosen}), **arguments)
    except ValueError:
        run = plan_run(named_model(values["model"]), system, chosen, **arguments)
    if why := run.table.set_index("devices").loc[chosen, "why"]:
        raise Refused(why)
    return run


def _arguments(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `cb.planning.plan_run` beyond model, machine and devices."""
    arguments: dict[str, Any] = {"tokens": values["tokens"] * BILLION, "global_batch": values["batch"]}
    arguments |= {name: values[name] for name in ("seq", "per_node", "hourly") if values[name] is not None}
    scales = {
        "network": ("network", GIGABIT),
        "storage": ("checkpoint_bandwidth", GIGA),
        "mtbf": ("mtbf_hours", HOURS_A_YEAR),
    }
    arguments |= {new: values[name] * scale for name, (new, scale) in scales.items() if values[name] is not None}
    fixed = {name: values[name] for name in ("tp", "pp") if values[name] is not None}
    arguments |= {"layout": fixed} if fixed else {}
    return arguments | ({} if values["precision"] == "own" else {"precision": values["precision"]})


def _code(values: dict[str, Any]) -> str:
    first = f"{model_text(values['model'])}, {device_text(values['accelerator'])}, {values['devices']}"
    return f"{panel_call(training_run, values)}\ncb.planning.plan_run({first}, {keywords(_arguments(values))})"


def _headline(view: Planned) -> str:
    """Days and cost."""
    own = view.own
    usd, hours = dollars(own["usd"]), large(own["device_hours"])
    cost = f"for {usd}" if view.priced else f"with {hours} device-hours"
    return f"{own['devices']:,} × {short_name(view.device.name)} train {view.title} in **{_days(own['days'])}** {cost}."


def _interval(view: Planned) -> str:
    own = view.own
    ends = dollar_range(own["usd_low"], own["usd_high"])
    rows, hourly = view.run.price.rows, view.values["hourly"]
    by = at_your_price(hourly) if hourly else "at the price quartiles" if rows > 1 else "at the only price"
    cost = f"{ends} {by}" if view.priced else "price not known"
    tokens = human(view.run.tokens).replace(" G", " billion").replace(" T", " trillion").strip()
    low, high = _days(own["days_low"]).split(), _days(own["days_high"])
    start = low[0] if high.split()[1].startswith(low[1].rstrip("s")) else " ".join(low)
    return f"Interval (80 %): {start} to {high} for {tokens} tokens; {cost}."


def _layout(view: Planned) -> str:
    """The best layout, utilisation, and the largest part besides compute."""
    own, parts = view.own, view.seconds.drop("compute")
    most = str(parts.idxmax())
    hfu = f", HFU {percent(own['hfu'])}" if own["hfu"] > own["mfu"] * 1.005 else ""
    share = percent(parts[most] / view.seconds.sum())
    return (
        f"Bottleneck: besides compute, the largest part is {part_groups()[most].title} ({share} of a "
        f"step) with {layout_words(own)}, the fastest configuration tried (MFU {percent(own['mfu'])} by PaLM's "
        f"convention{hfu})."
    )


def _failures(view: Planned) -> str:
    own = view.own
    return (
        f"Failures: one every {_days(float(own['mtbf_seconds']) / DAY)} on average; with a checkpoint every "
        f"{human(float(own['checkpoint_interval_seconds']), 's')}, goodput is {100 * own['goodput']:.1f} %."
    )


def _goal(view: Planned) -> str:
    """Deadline and budget, where the reader set them."""
    budget, goals = view.values["budget"], [view.verdict] if view.verdict else []
    if budget and view.priced:
        tokens = float(view.run.tokens_possible(budget * MILLION)[view.values["devices"]])
        goals.append(f"{dollars(budget * MILLION)} pays for {figure(tokens / BILLION)} billion tokens")
    return f"Goal: {'; '.join(goals)}." if goals else ""


def _chips(view: Planned) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the values are known, and the assumptions."""
    price = view.run.price
    step = view.run.layouts.prediction.one(int(view.own["row"]))
    return (
        (step.tier, "Coverage of the time of a step by measurements of other runs."),
        *measured_badges(step.measured),
        price_badge(price),
        ("your failure rate", "Set under More.") if view.values["mtbf"] is not None else _failure_badge(),
        (f"{len(view.run.assumed)} assumed", f"Values used where nothing is set: {in_words(view.run.assumed)}."),
    )


def _failure_badge() -> tuple[str, str]:
    """Badge of the published rates of failures: how many were read at their source, and how many recalled."""
    how = catalog.table("long_runs")["how"]
    recalled = int((how == "recalled").sum())
    return (
        f"failures: {len(how) - recalled} read, {recalled} recalled",
        "Median of the rates that a few long runs and clusters report, with their range; a recalled rate was not "
        "checked at its source.",
    )


def _curve(view: Planned) -> Picture:
    """Days and cost of every number of devices; device-hours where no price is known."""
    cost, ends = ("usd", ("usd_low", "usd_high")) if view.priced else ("device_hours", ())
    table = view.run.table[view.run.table["days"].notna()]
    rows: list[dict[str, Any]] = [
        {
            "what": "curve",
            "days": row["days"],
            "cost": row[cost],
            "text": f"{row['devices']:,}",
            "devices": int(row["devices"]),
        }
        for _, row in table.iterrows()
    ]
    own, limits = view.own, dict(zip(("least", "most"), ends, strict=False))
    rows.append(
        {
            "what": "here",
            "days": own["days"],
            "cost": own[cost],
            "text": f"{own['devices']:,}",
            "low": own["days_low"],
            "high": own["days_high"],
            **{name: own[end] for name, end in limits.items()},
        }
    )
    if view.pinned is not None:
        then = view.pinned.own
        rows.append({"what": "ghost", "days": then["days"], "cost": then[cost], "text": f"{then['devices']:,}, pinned"})
    if deadline := view.values["deadline"]:
        rows.append({"what": "deadline", "days": deadline, "text": f"deadline {deadline:,g} d"})
    if (budget := view.values["budget"]) and view.priced:
        rows.append({"what": "budget", "cost": budget * MILLION, "text": f"budget {dollars(budget * MILLION)}"})
    numbers = ("days", "cost", "devices", "low", "high", "least", "most")
    frame = rounded(pd.DataFrame(rows, columns=["what", "text", *numbers]), numbers)
    return Picture(
        "curve" if view.priced else "hours", frame, view.verdict or _beside(view, table, cost), charts.ends(frame)
    )


def _beside(view: Planned, table: pd.DataFrame, cost: str) -> str:
    """The number chosen beside the next larger one that was drawn, or the next smaller."""
    larger = table[table["devices"] > view.values["devices"]]
    rest = larger.head(1) if len(larger) else table[table["devices"] < view.values["devices"]].tail(1)
    paid = dollars if view.priced else lambda hours: f"{large(hours)} device-hours"
    phrases = [
        f"{row['devices']:,} {'devices ' * (not at)}take {_days(row['days'])} for {paid(row[cost])}"
        for at, (_, row) in enumerate([(0, view.own), *rest.iterrows()])
    ]
    return "; ".join(phrases)


def _layouts(view: Planned) -> Picture:
    """Return the chart of the parts of a step in the fastest configurations."""
    best = view.layouts.head(MAX_BARS)
    parts = view.of_rows(view.run.layouts.prediction.by_part, MAX_BARS)
    beside = [
        {"low": low, "high": high, "text": f"{_days(days)}, {human(size, 'iB')}"}
        for low, high, days, size in best[["low80", "high80", "days", "memory_bytes"]].itertuples(index=False)
    ]
    frame = charts.part_rows(best["words"], parts, beside)
    longest = best["step_seconds"].iloc[-1] / best["step_seconds"].iloc[0]
    title = f"{best['words'].iloc[0]} is the fastest configuration tried" + (
        f"; the slowest shown takes {longest:.2f}× as long" if len(best) > 1 else ""
    )
    return Picture("layouts", frame, title, {"rows": row_order(frame), **charts.part_ends(frame)})


def _memory(view: Planned) -> Picture:
    """Return the chart of the memory of the fullest device by part, in the fastest configurations."""
    best, memory = view.layouts.head(MAX_BARS - 1), view.of_rows(view.run.layouts.prediction.memory)
    capacity = float(best["memory_bytes"].iloc[0] + best["headroom_bytes"].iloc[0])
    rows: list[dict[str, Any]] = []
    for at, row in enumerate(best.to_dict("records")):
        bar = {"row": row["words"], "role": "compared" if at else "need"}
        rows += [
            {**bar, "part": name, "bytes": float(sum(memory[part].iloc[at] for part in parts))}
            for name, parts in MEMORY.items()
        ]
        rows[-1]["text"] = f"{human(row['memory_bytes'], 'iB')}{RECOMPUTATION.get(row['recompute'], '')}"
    device = {"row": view.device.name, "role": "device", "part": "capacity", "bytes": capacity}
    rows.append({**device, "verdict": "fits", "text": human(capacity, "iB")})
    frame = pd.DataFrame(rows, columns=["row", "role", "part", "bytes", "verdict", "text"])
    first = frame[frame["role"] == "need"]
    most = first.loc[first["bytes"].idxmax()]
    share = most["bytes"] / first["bytes"].sum()
    title = f"{str(most['part']).capitalize()} take {100 * share:.0f} % of the memory in the fastest configuration"
    return Picture("memory", frame, title, {"rows": row_order(frame), "x_high": memory_charts.memory_domain(frame)})


def _checkpoints(view: Planned) -> Picture:
    """Useful share of the time over the interval between checkpoints."""
    own, intervals = view.own, view.run.over_intervals(view.values["devices"])
    curve = intervals["by"] == "curve"
    frame = pd.DataFrame(
        {
            "what": np.where(curve, "curve", "mark"),
            "minutes": intervals["interval_seconds"] / MINUTE,
            "useful": 100 * intervals["goodput"],
            "low": 100 * intervals["goodput_low"].where(curve),
            "high": 100 * intervals["goodput_high"].where(curve),
            "text": intervals["by"].where(~curve, None),
        }
    )
    frame = rounded(frame, ("minutes", "useful", "low", "high"))
    every = human(float(own["checkpoint_interval_seconds"]), "s")
    title = f"A checkpoint every {every} keeps goodput at {100 * own['goodput']:.1f} %"
    return Picture("checkpoints", frame, title, charts.checkpoint_ends(frame))


PICTURES = {"curve": _curve, "layouts": _layouts, "memory": _memory, "checkpoints": _checkpoints}


def _layout_table(view: Planned) -> pd.DataFrame:
    """Layouts of this number of devices as printed, with their days."""
    table = view.run.layouts.printed(view.layouts, view.layouts["row"].to_numpy()).drop(columns="Devices")
    table.insert(list(table).index("Memory"), "Days", view.layouts["days"].map(figure))
    return table


def _sources(view: Planned) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of the model, the device, prices and failures."""
    failures = dict.fromkeys(view.run.failures.source, "failures, checkpoint write bandwidth, restarts")
    case = sources_of_case(model_of(view.values["model"]), view.device)
    return cited({**case, **sources_of_price(view.run.price), **failures})
