"""Panel of recipe 08: what does it take to train a transformer?"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from cookbook import catalog, hardware
from cookbook.charts import models as memory_charts
from cookbook.charts import run as charts
from cookbook.panels import code
from cookbook.panels import run_frames as frames
from cookbook.panels import run_words as words
from cookbook.panels.controls import Choice, Combo, Control, Option, Own, Slider, one_two_five, powers_of_two
from cookbook.panels.options import ONE_LIKE_ANOTHER, networks, plain_device, read_devices, show_device
from cookbook.panels.shell import Panel, View, defaults
from cookbook.planning.altered import accelerator_of
from cookbook.planning.training_run import TrainingRun, plan_run

BILLION, GIGABIT, GIGA, HOURS_A_YEAR = 1e9, 1e9 / 8, 1e9, 8766.0
PICTURES: dict[str, Any] = {
    "curve": charts.days_usd, "hours": charts.days_hours, "layouts": charts.layout_parts,
    "memory": memory_charts.memory_bars, "checkpoints": charts.checkpoints,
}  # fmt: skip
# Numbers of devices that the curve is drawn through.
DRAWN = tuple(2**power for power in range(3, 15))
FORMATS = ("bf16", "fp16", "tf32", "fp32", "fp8")


def training_run(
    model: str = "llama2_70b",
    tokens: Any = 2000,
    batch: Any = 1024,
    system: Any = "h100-sxm",
    devices: Any = 1024,
    deadline: Any = 30,
    seq: Any = None,
    precision: str = "own",
    per_node: Any = None,
    network: Any = None,
    tp: Any = None,
    pp: Any = None,
    hourly: Any = None,
    budget: Any = None,
    mtbf: Any = None,
    storage: Any = None,
    picture: str = "curve",
) -> Panel:
    """The panel "What does it take to train a transformer?", in the state that the arguments say.

    Parameters
    ----------
    model : str
        A language model of the zoo.
    tokens : float
        Tokens to train on [billions].
    batch, seq : int
        Sequences of one step; tokens of a sequence, the model's by default.
    system : str, Accelerator or dict
        A server, an accelerator, or ``{"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}``.
    devices : int
        Accelerators.
    deadline, budget : float, optional
        Days until the last token; USD [millions].
    precision : {"own", "bf16", "fp16", "tf32", "fp32", "fp8"}
        "own" is the first of the others that the device has, fp8 apart.
    per_node, network : float, optional
        Devices that the fast link joins; network of one device [Gbit/s]. Those of the machine by default.
    tp, pp : int, optional
        Tensor and pipeline parallelism to hold; the best of those tried by default.
    hourly, mtbf, storage : float, optional
        An hour of a device [USD]; time between failures of a device [years]; rate at which storage takes checkpoints
        [GB/s]. Dated prices and published failures by default.
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
    'Tensor = 6 does not divide 32 heads; nearest: 4 or 8.'
    """
    return Panel("training_run", "What does it take to train a transformer?", _controls(), PICTURES, _draw, DEFAULTS,
                 locals(), {"precision": _formats})  # fmt: skip


DEFAULTS = defaults(training_run)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    own = Own("custom…: one like another", "like=, then what differs (memory_bytes, mem_bandwidth, peak_bf16 …).",
              ONE_LIKE_ANOTHER, read=_one_device, show=show_device)  # fmt: skip
    return (
        Combo("model", "Model", "Workload", networks(language=True), tooltip="The language model to train"),
        Slider("tokens", "Tokens", "Workload", one_two_five(1, 1e5, (300, 1400, 15600)), unit="billion", whole=False,
               tooltip="Tokens to train on"),
        Slider("batch", "Batch", "Workload", powers_of_two(3, 16), unit="sequences",
               tooltip="Sequences of one update of all devices"),
        Combo("system", "Machine", "Hardware", _machines(), own=own, plain=plain_device,
              tooltip="An accelerator (in nodes of eight) or a server"),
        Slider("devices", "Devices", "Hardware", tuple(map(float, DRAWN)), tooltip="Accelerators in all"),
        Slider("deadline", "Deadline", "Goal", (1, 2, 5, 7, 10, 14, 20, 30, 45, 60, 90, 120, 180, 365, 1000),
               unit="days", whole=False, optional=True, tooltip="Days until the last token; empty: none"),
        Slider("budget", "Budget", "Goal", one_two_five(0.01, 10_000), unit="million USD", whole=False, more=True,
               optional=True, tooltip="What the run may cost; empty: no matter"),
        Slider("seq", "Sequence", "Workload", powers_of_two(9, 20), unit="tokens", more=True, optional=True,
               tooltip="Tokens of a sequence; empty: the model's. Same batch in sequences, so more tokens a step"),
        Choice("precision", "Precision", "Hardware", (
            ("own", "best", "bf16 where the device has it, else fp16, tf32 or fp32"),
            *((name, name, f"Products in {name}") for name in FORMATS)), more=True,
               tooltip="What matrix products are computed in"),
        Slider("per_node", "Fast link joins", "Hardware", (1, 2, 4, 8, 16, 32, 64, 72, 144, 256, 576), unit="devices",
               more=True, optional=True,
               tooltip="Devices of a NVLink domain or its like; empty: those of the machine"),
        Slider("network", "Network", "Hardware", (10, 25, 50, 100, 200, 400, 800, 1600, 3200), unit="Gbit/s a device",
               whole=False, more=True, optional=True,
               tooltip="Rate of the network for one device; empty: the machine's"),
        Slider("tp", "Tensor", "Layout", powers_of_two(0, 7), more=True,
               optional=True, tooltip="Devices that share each product; empty: the best of those tried"),
        Slider("pp", "Pipeline", "Layout", powers_of_two(0, 7), more=True,
               optional=True, tooltip="Stages that layers are split into; empty: the best of those tried"),
        Slider("hourly", "Price", "Money", (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20), unit="USD an hour",
               whole=False, more=True, optional=True,
               tooltip="An hour of one device; empty: the range of dated prices"),
        Slider("mtbf", "A device fails every", "Failures", (0.2, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50), unit="years",
               whole=False, more=True, optional=True,
               tooltip="Its share of host and network included; empty: as published"),
        Slider("storage", "Checkpoints to", "Failures", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000), unit="GB/s",
               whole=False, more=True, optional=True,
               tooltip="Rate of the storage; empty: so much a device as published"),
        Choice("picture", "Picture", "", (
            ("curve", "Days and USD", "Every number of devices, each in its fastest layout"),
            ("layouts", "Layouts", "What a step is made of, in the fastest layouts of this number of devices"),
            ("memory", "Memory", "What the fullest device holds in them"),
            ("checkpoints", "Checkpoints", "Useful share of the time over the interval")), place="picture"),
    )  # fmt: skip


def _machines() -> tuple[Option, ...]:
    servers, devices = catalog.table("systems"), catalog.table("accelerators")
    servers = servers[servers["accelerator_key"].fillna("") != ""]
    return (
        *((row.key, row.name, str(row.aliases), row.vendor) for row in devices[["key", "name", "aliases", "vendor"]]
          .itertuples(index=False)),
        *((key, name, "", "servers") for key, name in zip(servers["key"], servers["name"], strict=True)),
    )  # fmt: skip


def _one_device(text: str) -> Any:
    """One accelerator like another, from what the reader typed."""
    found = read_devices(text)
    if len(found) != 1:
        raise ValueError(f"Machine takes one entry of your own, not {len(found)}; write {ONE_LIKE_ANOTHER!r}")
    return found[0]


def _formats(values: dict[str, Any]) -> dict[str, str]:
    """Why a number format cannot be chosen."""
    offered = hardware.formats(accelerator_of(frames.as_system(values["system"]))[0])
    return {name: f"the machine has {', '.join(offered)}" for name in FORMATS if name not in offered}


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    view = frames.Planned.of(values, _run(values), pinned.kept if pinned else None)
    picture = values["picture"]
    layouts = picture in ("layouts", "memory")
    return View(
        answer=words.answer(view),
        headline={name: value for name, value in
                  {"days": float(view.own["days"]), "USD": float(view.own["usd"])}.items() if value == value},
        chips=words.chips(view),
        picture=frames.PICTURES[picture](view),
        parts=frames.parts(view),
        parts_title=f"One step, {view.run.tokens_per_step:,.0f} tokens, in the fastest layout",
        table=partial(frames.layout_table if layouts else frames.device_table, view),
        data=lambda: view.layouts if layouts else view.run.table.drop(columns="row"),
        sources=partial(frames.sources, view),
        code=_code(values),
        kept=view,
    )  # fmt: skip


def _run(values: dict[str, Any]) -> TrainingRun:
    """The run on the numbers drawn and on the chosen one; what is wrong with the chosen one is told."""
    arguments, chosen, system = _arguments(values), values["devices"], frames.as_system(values["system"])
    try:
        try:
            run = plan_run(values["model"], system, sorted({*DRAWN, chosen}), **arguments)
        except ValueError:
            run = plan_run(values["model"], system, chosen, **arguments)
        why = run.table.set_index("devices").loc[chosen, "why"]
        if why:
            raise ValueError(why)
    except ValueError as problem:
        told = str(problem).replace("global_batch", "batch").replace("set per_node", "let Fast link join more")
        raise ValueError(told) from None
    return run


def _arguments(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `cb.planning.plan_run` beyond model, machine and devices."""
    given: dict[str, Any] = {"tokens": values["tokens"] * BILLION, "global_batch": values["batch"]}
    given |= {name: values[name] for name in ("seq", "per_node", "hourly") if values[name] is not None}
    scales = {"network": ("network", GIGABIT), "storage": ("checkpoint_bandwidth", GIGA),
              "mtbf": ("mtbf_hours", HOURS_A_YEAR)}  # fmt: skip
    given |= {new: values[name] * scale for name, (new, scale) in scales.items() if values[name] is not None}
    held = {name: values[name] for name in ("tp", "pp") if values[name] is not None}
    given |= {"layout": held} if held else {}
    return given | ({} if values["precision"] == "own" else {"precision": values["precision"]})


def _code(values: dict[str, Any]) -> str:
    changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    first = f"{code.literal(values['model'])}, {code.device_text(values['system'])}, {values['devices']}"
    return (
        f"cb.panels.training_run({code.arguments(changed)})\n"
        f"cb.planning.plan_run({first}, {code.arguments(_arguments(values))})"
    )
