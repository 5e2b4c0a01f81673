"""Panel of recipe 12: a patient, where the time of its steps goes, and what holds them back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.charts import clinic as charts
from cookbook.measure.traces import Diagnosis, diagnose
from cookbook.measure.traces import patient as files_of
from cookbook.panels.controls import Choice, Combo, Control, Slider
from cookbook.panels.options import cited, few
from cookbook.panels.shell import Panel, Part, Picture, View, as_python, panel_call
from cookbook.units import human

MILLI = 1e-3
WORDS = {
    "compute": "Matmuls and convolutions, unless they are too thin to be limited by arithmetic.",
    "memory traffic": "All other long operations, and matmuls with a side below 16: they wait for memory.",
    "launch": "Operations shorter than 20 µs, and the framework and Python between them.",
    "communication": "Exchanges while nothing computes: what hides behind computing is not counted.",
    "input": "The training process waits for its loader.",
    "checkpoint": "Ranges named so, or slow steps that return in equal distances.",
    "slowdown": "What steps take more after the run has become slower, to its end.",
    "idle": "Nothing was recorded, or single steps that were slow.",
    "steady": "The usual step of a log, which does not say what it is made of.",
}
NOT_MEANT = "not stated"


def clinic(patient: str = "dmitri", precision: str = NOT_MEANT, stretches: Any = 5, files: str = "all") -> Panel:
    """The panel "What holds the step back?", in the state that the arguments say.

    Parameters
    ----------
    patient : str
        A run of the table ``traces``; for files of your own call `cb.measure.diagnose`.
    precision : {"not stated", "fp64", "fp32", "bf16"}
        Number format that was meant.
    stretches : int
        Pieces into which the run is cut.
    files : {"all", "first"}
        Files of all processes of a run, or of the first alone.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = clinic("boris")
    >>> panel.answer.split(":")[0]
    'Waiting for input holds the step back'
    """
    return Panel(clinic, "What holds the step back?", _controls, {"run": charts.attribution}, _draw, locals(), OFF)


def _alone(values: dict[str, Any]) -> dict[str, str]:
    """Why there is no choice of files."""
    rows = catalog.table("traces").set_index("patient")["files"]
    return {} if ";" in rows.get(values.get("patient"), ";") else {"*": "this run was one process"}


OFF = {"files": _alone}


def _controls() -> tuple[Control, ...]:
    rows = catalog.table("traces")
    people = tuple((name, name.capitalize(), "", tool.split(" of ")[0].split(" in ")[0])
                   for name, tool in zip(rows["patient"], rows["tool"], strict=True))  # fmt: skip
    return (
        Combo("patient", "Patient", "Run", people, tooltip="A run that was recorded; its cause was planted"),
        Choice("precision", "Precision meant", "Run", (
            (NOT_MEANT, "not stated", "FP64 counts as an accident, FP32 does not"),
            ("fp64", "FP64", "Double precision on purpose"),
            ("fp32", "FP32", "Single precision on purpose"),
            ("bf16", "BF16", "Mixed precision was meant")), tooltip="Number format that the training should have had"),
        Slider("stretches", "Stretches", "Run", tuple(range(1, 13)),
               tooltip="Pieces of the run in the chart; shares and gains have their intervals over them"),
        Choice("files", "Files", "Run", (
            ("all", "all processes", "Traces of all processes side by side"),
            ("first", "first alone", "As somebody sees it who looks at one process")),
            tooltip="What is read of a run of several processes"),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _found(patient: str, precision: str, files: str, stretches: int) -> Diagnosis:
    paths = files_of(patient)[: 1 if files == "first" else None]
    return diagnose(paths, precision=None if precision == NOT_MEANT else precision, stretches=stretches)


def _draw(values: dict[str, Any], _pinned: View | None) -> View:
    patient, precision, files = values["patient"], values["precision"], values["files"]
    found = _found(patient, precision, files, values["stretches"])
    rows = catalog.table("traces").set_index("patient")
    some = "[:1]" if files == "first" else ""
    meant = "" if precision == NOT_MEANT else f", precision={as_python(precision)}"
    meant += "" if values["stretches"] == 5 else f", stretches={values['stretches']}"
    return View(
        answer=found.answer,
        headline={"share of the time": found.share},
        chips=(("own run", f"Recorded {rows['recorded'][patient]} by a {rows['tool'][patient]}."),
               (found.kinds[0], "What the file is, told by its content and not by its name.")),
        picture=_picture(patient, found),
        parts=few([Part(each["term"], each["seconds"], human(each["seconds"], "s"), charts.TERMS[each["term"]],
                        WORDS[each["term"]]) for each in found.terms], lambda seconds: human(seconds, "s")),
        parts_title="A mean step of the run",
        table=lambda: _table(found),
        data=found.frame,
        sources=lambda: cited({"dl-cookbook-clinic": "the run and its reading",
                               **dict.fromkeys(catalog.table("remedies")["source"], "runs, remedies: judgements")}),
        code=f"{panel_call(clinic, values)}\n"
             f"cb.measure.diagnose(cb.measure.patient({as_python(patient)}){some}{meant})",
    )  # fmt: skip


def _picture(patient: str, found: Diagnosis) -> Picture:
    """Mean step of the run and of its stretches, part by part."""
    lines = []
    for label, seconds in found.stretches:
        at, last = 0.0, list(seconds)[-1]
        for term, length in seconds.items():
            text = human(sum(seconds.values()), "s") if term == last else None
            lines.append([label, term, round(at / MILLI, 4), round((at + length) / MILLI, 4), text])
            at += length
    frame = pd.DataFrame(lines, columns=["row", "part", "start", "end", "text"])
    title = f"{patient.capitalize()}: {found.answer.split('. ')[0].replace('**', '')}"
    return Picture("run", frame, title.removesuffix("."),
                   {"rows": list(dict.fromkeys(frame["row"])), "most": float(frame["end"].max()),
                    "parts": charts.drawn(frame)})  # fmt: skip


def _table(found: Diagnosis) -> pd.DataFrame:
    """Terms beside what is usual."""
    return pd.DataFrame({
        "Part": [each["term"] for each in found.terms],
        "Mean step": [human(each["seconds"], "s") for each in found.terms],
        "Share": [f"{100 * each['share']:.0f} %" for each in found.terms],
        "Over the run": [f"{100 * each['low']:.0f} to {100 * each['high']:.0f} %" for each in found.terms],
        "Usual, up to": [f"{100 * each['usual']:.0f} %" for each in found.terms],
    })  # fmt: skip
