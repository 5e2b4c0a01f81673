"""Panel of recipe 12: a patient, where the time of its steps goes, and what holds them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import as_python
from cookbook.catalog.fields import Amount
from cookbook.panels.controls import LONGEST, Choice, Combo, Control, Own, Slider
from cookbook.panels.options import cited, few
from cookbook.panels.shell import Panel, Part, Picture, View, panel_call
from cookbook.panels.text import MILLI
from cookbook.topics.clinic import charts
from cookbook.topics.clinic.diagnosis import MAX_FILES, Diagnosis, diagnose
from cookbook.topics.clinic.files import patient as files_of
from cookbook.topics.clinic.files import read_text, read_trace
from cookbook.units import human, shown

WORDS = {
    "compute": "Matmuls and convolutions, unless they are too thin to be limited by arithmetic.",
    "memory traffic": "All other long operations, and matmuls with a side below 16, which are limited by memory.",
    "launch": "Operations shorter than 20 µs, and the framework and Python between them.",
    "communication": "Communication while nothing computes; communication hidden behind computation is not counted.",
    "input": "The training process waits for its loader.",
    "checkpoint": "Ranges of this name, or slow steps at equal intervals.",
    "slowdown": "Extra time of steps after the run became slower, until its end.",
    "idle": "Time in which nothing was recorded, or single slow steps.",
    "steady": "A typical step of a log, which does not state its parts.",
}
NOT_MEANT = "not stated"
MOST_LETTERS = 4_000_000  # of a text that a page sends: a trace of some steps; larger files are read by their path
STEPS = "step,step_time_s\n1,0.52\n2,0.50\n3,0.51\n4,0.52"


@dataclass(frozen=True)
class Given:
    """The reader's own files: their paths where the kernel runs, or the text of one."""

    paths: tuple[str, ...] = ()
    text: str = field(default="", repr=False)

    @property
    def written(self) -> str:
        """Python that names the files; a text has no file, so the reader is asked for one."""
        paths = list(self.paths) or ["your-file"]
        return as_python(paths[0] if len(paths) == 1 else paths)

    @property
    def stamps(self) -> tuple[int, ...]:
        """Return the times at which the files were last written [ns], so that a changed file is read anew."""
        files = [path for path in map(Path, self.paths) if path.is_file()]
        return tuple(path.stat().st_mtime_ns for path in files)

    @property
    def label(self) -> str:
        """Printed name."""
        names = [Path(path).name for path in self.paths] or ["your file"]
        return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"[:LONGEST]


def clinic(
    patient: str | Path | Sequence[str | Path] = "dmitri",
    precision: str = NOT_MEANT,
    stretches: Amount = 5,
    files: str = "all",
) -> Panel:
    """Return the panel "What holds the step back?" in the state that the arguments describe.

    Parameters
    ----------
    patient : str, Path or a sequence of them
        A run of the table ``traces``, or files of a run of your own: traces, counters, logs, as for
        `cb.measure.diagnose`.
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
    patient = _own(patient)
    return Panel(clinic, "What holds the step back?", _controls, {"run": charts.attribution}, _draw, locals(), OFF)


def _own(patient: Any) -> Any:
    """Return a patient's name unchanged, and paths as files of the caller; only Python code may name files."""
    paths = [patient] if isinstance(patient, (str, Path)) else patient
    if isinstance(patient, str) and ("." not in patient or patient in set(catalog.table("traces")["patient"])):
        return patient
    fine = isinstance(paths, (list, tuple)) and paths and all(isinstance(each, (str, Path)) for each in paths)
    return Given(tuple(map(str, paths))) if fine else patient


def _checked(patient: Any) -> Any:
    if isinstance(patient, (str, Given)):
        return patient
    raise ValueError(f"{shown(patient)} is no run; give the name of a patient, or a path")


def _alone(values: dict[str, Any]) -> dict[str, str]:
    """Return the reason why files cannot be chosen."""
    patient, rows = values.get("patient"), catalog.table("traces").set_index("patient")["files"]
    several = len(patient.paths) > 1 if isinstance(patient, Given) else ";" in rows.get(patient, ";")
    return {} if several else {"*": "this run had one process"}


OFF = {"files": _alone}


def _controls() -> tuple[Control, ...]:
    rows = catalog.table("traces")
    people = tuple(
        (name, name.capitalize(), "", tool.split(" of ")[0].split(" in ")[0])
        for name, tool in zip(rows["patient"], rows["tool"], strict=True)
    )
    return (
        Combo(
            "patient",
            "Patient",
            "Run",
            people,
            plain=_checked,
            own=Own(
                "custom…: your own trace, log or counters",
                "A Chrome or PyTorch trace, a CSV of nvidia-smi, a training log: paste its text, or load it from a "
                f'file of at most {MOST_LETTERS / 1e6:.0f} MB. Larger ones: cb.panels.clinic("trace.json").',
                STEPS,
                lambda text: Given(text=text),
                lambda own: (own.text, own.label),
                ".json,.jsonl,.csv,.log,.txt,.out,.gz",
                MOST_LETTERS,
            ),
            tooltip="A recorded run with a planted cause, or a run of your own",
        ),
        Choice(
            "precision",
            "Intended precision",
            "Run",
            (
                (NOT_MEANT, "not stated", "FP64 counts as an accident, FP32 does not"),
                ("fp64", "FP64", "Double precision on purpose"),
                ("fp32", "FP32", "Single precision on purpose"),
                ("bf16", "BF16", "Mixed precision was meant"),
            ),
            tooltip="Precision that the training was meant to use",
        ),
        Slider(
            "stretches",
            "Stretches",
            "Run",
            tuple(range(1, 13)),
            tooltip="Sections of the run in the chart, over which the intervals of shares and gains are computed",
        ),
        Choice(
            "files",
            "Files",
            "Run",
            (
                ("all", "all processes", "Traces of all processes side by side"),
                ("first", "first alone", "The trace of the first process alone"),
            ),
            tooltip="Traces read from a run of several processes",
        ),
    )


@lru_cache(maxsize=256)
def _found(patient: str, precision: str, files: str, stretches: int) -> Diagnosis:
    return _diagnosed(_read(patient, (), files), precision, stretches)


@lru_cache(maxsize=4)  # each holds on to a text of some MB
def _found_of(own: Given, stamps: tuple[int, ...], precision: str, files: str, stretches: int) -> Diagnosis:
    return _diagnosed(_read(own, stamps, files), precision, stretches)


@lru_cache(maxsize=2)  # each holds on to a run of some MB
def _read(patient: str | Given, _stamps: tuple[int, ...], files: str) -> list[Any]:
    """Return the readings of the files of a run; they are cached for any division into stretches."""
    if isinstance(patient, Given) and not patient.paths:
        return [read_text(patient.text, "your text")]
    paths = [*(patient.paths if isinstance(patient, Given) else files_of(patient))][: 1 if files == "first" else None]
    return [read_trace(path) for path in paths] if len(paths) <= MAX_FILES else paths  # so many are refused unread


def _diagnosed(run: list[Any], precision: str, stretches: int) -> Diagnosis:
    return diagnose(run, precision=None if precision == NOT_MEANT else precision, stretches=stretches)


def _draw(values: dict[str, Any], _pinned: View | None) -> View:
    patient, precision, files = values["patient"], values["precision"], values["files"]
    own = patient if isinstance(patient, Given) else None
    how = (precision, files, values["stretches"])
    diagnosis = _found_of(own, own.stamps, *how) if own else _found(patient, *how)
    rows = catalog.table("traces").set_index("patient")
    run = own.written if own else f"cb.measure.patient({as_python(patient)})"
    some = "" if files == "all" else "[:1]" if own is None or len(own.paths) > 1 else ""
    meant = "" if precision == NOT_MEANT else f", precision={as_python(precision)}"
    meant += "" if values["stretches"] == 5 else f", stretches={values['stretches']}"
    first = (
        ("your file", f"Read on this machine: {own.label}.")
        if own
        else ("own run", f"Recorded {rows['recorded'][patient]} by a {rows['tool'][patient]}.")
    )
    cited_for = {} if own else {"dl-cookbook-clinic": "the run and its trace"}
    call = panel_call(clinic, values, written={"patient": own.written} if own else None)
    saved = "# your-file is what you gave this panel: save it beside the notebook\n" if own and own.text else ""
    return View(
        answer=diagnosis.answer,
        headline={"share of the time": diagnosis.share} if diagnosis.share > 0 else {},
        chips=(first, (diagnosis.kinds[0], "Kind of the file, recognised by its content and not by its name.")),
        picture=_picture(own.label if own else patient.capitalize(), diagnosis),
        parts=few(
            [
                Part(
                    each["term"],
                    each["seconds"],
                    human(each["seconds"], "s"),
                    charts.TERMS[each["term"]],
                    WORDS[each["term"]],
                )
                for each in diagnosis.terms
            ],
            lambda seconds: human(seconds, "s"),
        ),
        parts_title="Mean step of the run",
        table=lambda: _table(diagnosis),
        data=diagnosis.frame,
        sources=lambda: cited(
            {**cited_for, **dict.fromkeys(catalog.table("remedies")["source"], "runs, remedies: judgements")}
        ),
        code=f"{saved}{call}\ncb.measure.diagnose({run}{some}{meant})",
    )


def _picture(name: str, diagnosis: Diagnosis) -> Picture:
    """Return the chart of the mean step of the run and of its stretches by part; of counters alone, an empty one."""
    lines: list[list[Any]] = [] if diagnosis.stretches else [["no steps", "idle", 0.0, 0.0, "no file has steps"]]
    for label, seconds in diagnosis.stretches:
        at, last = 0.0, list(seconds)[-1]
        for term, length in seconds.items():
            text = human(sum(seconds.values()), "s") if term == last else None
            lines.append([label, term, round(at / MILLI, 4), round((at + length) / MILLI, 4), text])
            at += length
    frame = pd.DataFrame(lines, columns=["row", "part", "start", "end", "text"])
    title = f"{name}: {diagnosis.answer.split('. ')[0].replace('**', '')}"
    return Picture(
        "run",
        frame,
        title.removesuffix("."),
        {
            "rows": list(dict.fromkeys(frame["row"])),
            "most": float(frame["end"].max()) or 1.0,
            "parts": charts.drawn(frame) or ["idle"],
        },
    )


def _table(diagnosis: Diagnosis) -> pd.DataFrame:
    """Return the parts of a step beside their usual shares."""
    return pd.DataFrame(
        {
            "Part": [each["term"] for each in diagnosis.terms],
            "Mean step": [human(each["seconds"], "s") for each in diagnosis.terms],
            "Share": [f"{100 * each['share']:.0f} %" for each in diagnosis.terms],
            "Over the run": [f"{100 * each['low']:.0f} to {100 * each['high']:.0f} %" for each in diagnosis.terms],
            "Usual, at most": [f"{100 * each['usual']:.0f} %" for each in diagnosis.terms],
        }
    )
