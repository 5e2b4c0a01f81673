"""Panel of recipe 03: a pipeline as an assembly line, who works on what when, and who waits."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from cookbook.catalog.calls import as_python
from cookbook.catalog.fields import Amount
from cookbook.catalog.refusals import refused
from cookbook.charts.look import MUTED
from cookbook.panels.controls import Choice, Control, Slider
from cookbook.panels.shell import Panel, Part, Picture, View, panel_call
from cookbook.panels.text import MILLI
from cookbook.topics.runs import charts
from cookbook.topics.runs.pipelines import AssemblyLine
from cookbook.topics.runs.pipelines import assembly_line as run
from cookbook.units import human

SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved 1F1B", "zero-bubble": "Zero-bubble"}


def assembly_line(schedule: str = "gpipe", stages: Amount = 4, micro_batches: Amount = 8, follow: Amount = 0) -> Panel:
    """Return the panel "Who waits in a pipeline?" in the state that the arguments describe.

    Parameters
    ----------
    schedule : {"gpipe", "1f1b", "interleaved", "zero-bubble"}
        Who works on which micro-batch when.
    stages, micro_batches : int
        Devices in line, and what passes them between two updates. A forward pass of a stage takes 1 ms.
    follow : int
        Micro-batch whose passes, a dependency group, stand out; 0: none.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = assembly_line("1f1b")
    >>> panel.answer.split(".")[0]
    'Devices wait 27 % of the time with 1F1B, 4 stages and 8 micro-batches'
    """
    return Panel(assembly_line, "Who waits in a pipeline?", _controls, {"line": charts.assembly_line}, _draw, locals())


def _controls() -> tuple[Control, ...]:
    return (
        Choice(
            "schedule",
            "Schedule",
            "Order",
            (
                ("gpipe", "GPipe", "All forward passes, then all backward passes"),
                ("1f1b", "1F1B", "Forward and backward passes alternate"),
                ("interleaved", "interleaved", "1F1B with two chunks of layers on each device"),
                ("zero-bubble", "zero-bubble", "1F1B in which weight gradients fill the bubble"),
            ),
            tooltip="Order of the passes of micro-batches",
        ),
        Slider(
            "stages",
            "Stages",
            "Pipeline",
            tuple(range(2, 17)),
            tooltip="Devices, each with its own layers",
        ),
        Slider(
            "micro_batches",
            "Micro-batches",
            "Pipeline",
            tuple(range(1, 65)),
            tooltip="Micro-batches between two updates: independent pieces of the batch",
        ),
        Slider(
            "follow",
            "Follow micro-batch",
            "Pipeline",
            tuple(range(65)),
            zero="none",
            tooltip="Micro-batch to highlight; its passes depend on one another, in order",
        ),
    )


def _draw(values: dict[str, Any], _pinned: View | None) -> View:
    stages, fed, schedule, follow = (values[name] for name in ("stages", "micro_batches", "schedule", "follow"))
    if schedule == "interleaved" and fed % stages:
        near = max(round(fed / stages), 1) * stages
        reason = f"is no multiple of {stages} stages, which interleaving needs; take {near}"
        raise refused("micro_batches", fed, reason, nearest=(near,))
    if follow > fed:
        raise refused("follow", follow, f"is more than the micro-batches; take one of 0 to {fed}")
    line = run(schedule, stages, fed, MILLI)
    return View(
        answer=_answer(values, line),
        headline={"waiting share": line.waiting, "micro-batches kept": line.kept},
        chips=_CHIPS,
        picture=_line(line, SCHEDULES[schedule], follow),
        parts=_parts(line),
        parts_title=f"Time of {stages} devices between two updates",
        table=partial(_table, line),
        data=line.frame,
        sources=lambda: _SOURCES,
        code=_code(values),
    )


_CHIPS = (
    ("a schedule, no interval", "Every pass starts when its device is free and its input has arrived."),
    ("backward = 2 x forward", "Gradients of inputs and of weights, each as much work as the forward pass."),
    ("equal stages", "All stages take the same time, and communication between them takes none."),
)
_SOURCES = (
    ("Huang et al., GPipe, NeurIPS 2019", "https://arxiv.org/abs/1811.06965", "recalled"),
    (
        "Narayanan et al., Efficient large-scale language model training on GPU clusters, SC21",
        "https://arxiv.org/abs/2104.04473",
        "1F1B, interleaved; recalled",
    ),
    (
        "Qi, Wan, Huang & Lin, Zero bubble pipeline parallelism, ICLR 2024",
        "https://arxiv.org/abs/2401.10241",
        "zero-bubble, the form that keeps the memory of 1F1B; recalled",
    ),
)
_LESSONS = {
    "gpipe": "GPipe keeps all activations until the first backward pass; 1F1B waits just as long but keeps fewer.",
    "1f1b": "1F1B keeps at most one per stage, so more micro-batches shorten the wait and cost no memory.",
    "interleaved": "two chunks per device halve the time to fill it; micro-batches cross twice as many stages.",
    "zero-bubble": "no other pass waits for weight gradients, so they fill the bubble.",
}


def _answer(values: dict[str, Any], line: AssemblyLine) -> str:
    """Return the answer: the waiting time, the activations kept, and the reason."""
    few = values["micro_batches"] < values["stages"]
    lesson = "there are fewer micro-batches than stages, so some device is always idle."
    return (
        f"Devices wait **{100 * line.waiting:.0f} %** of the time with {SCHEDULES[values['schedule']]}, "
        f"{values['stages']} stages and {_batches(values['micro_batches'])}. Memory: one device "
        f"keeps the activations of up to {_batches(line.kept)}. Why: "
        f"{lesson if few else _LESSONS[values['schedule']]}{_followed(values['follow'], line)}"
    )


def _batches(count: float) -> str:
    return f"{count:g} micro-batch{'' if count == 1 else 'es'}"


def _followed(micro_batch: int, line: AssemblyLine) -> str:
    """Return the time of one micro-batch in the pipeline, and the part of it that is computation."""
    if not micro_batch:
        return ""
    own = line.passes[line.passes["micro_batch"] == micro_batch - 1]
    stay, work = own["end"].max() - own["start"].min(), (own["end"] - own["start"]).sum()
    return f" Micro-batch {micro_batch}: {human(stay, 's')} in the pipeline, {human(work, 's')} of it computation."


def _code(values: dict[str, Any]) -> str:
    call = f"{as_python(values['schedule'])}, {values['stages']}, {values['micro_batches']}, 1e-3"
    return f"{panel_call(assembly_line, values)}\ncb.planning.assembly_line({call}).passes"


def _line(line: AssemblyLine, schedule: str, follow: int = 0) -> Picture:
    """Return the chart of every pass on its device; one micro-batch may be highlighted."""
    passes = line.passes
    frame = pd.DataFrame(
        {
            "row": [f"device {device + 1}" for device in passes["device"]],
            "start": (passes["start"] / MILLI).round(4),
            "end": (passes["end"] / MILLI).round(4),
            "phase": passes["phase"],
            "micro_batch": passes["micro_batch"] + 1,
            "faded": (passes["micro_batch"] != follow - 1) & (follow > 0),
        }
    )
    rows = [f"device {device + 1}" for device in sorted(set(passes["device"]))]
    title = f"{schedule}: devices wait {100 * line.waiting:.0f} % of the time and keep up to {_batches(line.kept)}"
    return Picture("line", frame, title, {"rows": rows, "most": float(frame["end"].max())})


def _parts(line: AssemblyLine) -> tuple[Part, ...]:
    """Return the shares of the devices' time."""
    words = "Pipeline bubble: waiting for the first micro-batch at the start, and after the last at the end."
    return tuple(
        Part(
            name,
            share,
            f"{100 * share:.0f} %",
            charts.PHASES.get(name, MUTED),
            words if name == "waiting" else f"All {name} passes of all micro-batches.",
        )
        for name, share in line.shares.items()
    )


def _table(line: AssemblyLine) -> pd.DataFrame:
    """Return start, end and waiting time of each device."""
    each = line.devices
    return pd.DataFrame(
        {
            "Device": (each["device"] + 1).astype(str),
            "First pass starts": [human(at, "s") for at in each["start"]],
            "Last pass ends": [human(at, "s") for at in each["end"]],
            "Passes": each["passes"].map("{:,}".format),
            "Waiting": (100 * each["waiting"]).map("{:.0f} %".format),
        }
    )
