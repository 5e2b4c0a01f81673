"""Panel of recipe 11: what a machine does beside what its datasheet says, and what predictions make of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cookbook.catalog.fields import Amount
from cookbook.catalog.refusals import refused
from cookbook.charts import devices as charts
from cookbook.charts.look import row_order
from cookbook.hardware import peak_flops
from cookbook.panels.controls import Choice, Control, Slider, powers_of_two
from cookbook.panels.options import step_parts
from cookbook.panels.shell import Panel, Picture, View, panel_call
from cookbook.panels.text import counted, figure, percent
from cookbook.prediction.engine import Estimate
from cookbook.topics.machine.comparison import PREDICTORS
from cookbook.topics.machine.fitted import Calibration, calibrate
from cookbook.topics.machine.rates import Figure
from cookbook.topics.machine.report import Report, own_run
from cookbook.units import human
from cookbook.workloads import zoo

DEFAULTS: dict[str, Any] = {
    "precision": "fp32",
    "prediction": "left out",
    "phase": "all",
    "batch": 4,
    "picture": "networks",
}
WORDS_OF = {"networks": ("datasheet", "fitted", "held out"), "products": ("measured",), "memory": ("measured",)}
PICTURES = {
    what: partial(charts.per_device, what=what, evidence={word: charts.KNOWS[word] for word in words})
    for what, words in WORDS_OF.items()
}
# How a network is predicted: the columns of times and errors, how a sentence begins, and the word beside a mark.
WAYS = {
    "datasheet": ("before", "By the datasheet", "datasheet"),
    "calibrated": ("after", "With the same runs in the fit", "fitted"),
    "left out": ("left_out", "With each network held out", "held out"),
}
PHASES = {"training": ("training step",), "forward": ("forward pass",), "answers": ("prefill", "decode")}
# What a picture shows: its frame, headline, facts, title, and the figure that Pin compares.
Shown = tuple[pd.DataFrame, str, list[str], str, dict[str, float]]
SHORT = {"training step": "training", "forward pass": "forward", "prefill": "prompt", "decode": "token"}


def this_machine(
    report: str | Path | Report | Calibration | None = None,
    precision: str = DEFAULTS["precision"],
    prediction: str = DEFAULTS["prediction"],
    phase: str = DEFAULTS["phase"],
    batch: Amount = DEFAULTS["batch"],
    picture: str = DEFAULTS["picture"],
) -> Panel:
    """Return the panel "What does this machine do?" in the state that the arguments describe.

    Parameters
    ----------
    report : str, Path, Report or Calibration, optional
        What was measured: a file of `python -m cookbook measure`; by default a run of the cookbook's own.
    precision : str
        Number format of the matrix products.
    prediction : {"datasheet", "calibrated", "left out"}
        How networks are predicted.
    phase : {"all", "training", "forward", "answers"}
        Which measured networks.
    batch : int
        Samples of the step whose time and parts are told.
    picture : {"networks", "products", "memory"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = this_machine(prediction="datasheet")
    >>> panel.answer.split(":")[0]
    'By the datasheet, 19 runs have a median error of 111 %. Largest error'
    """
    calibration = report if isinstance(report, Calibration) else _ours() if report is None else calibrate(report)
    text = "" if report is None else repr(str(report)) if not hasattr(report, "summary") else "report"
    arguments = {"precision": precision, "prediction": prediction, "phase": phase, "batch": batch, "picture": picture}
    if not calibration.judged and picture == DEFAULTS["picture"]:
        arguments["picture"] = _good(calibration)["picture"]
    return Panel(
        "this_machine",
        "What does this machine do?",
        _controls,
        PICTURES,
        partial(_draw, calibration, text),
        arguments,
        OFF,
        good=_good(calibration),
    )


def _good(calibration: Calibration) -> dict[str, Any]:
    """Return a valid state: networks where some were measured."""
    return DEFAULTS if calibration.judged else {**DEFAULTS, "picture": "products"}


@lru_cache(maxsize=1)
def _ours() -> Calibration:
    return calibrate(own_run(), name="AMD EPYC, one thread (a run of ours)")


def _controls() -> tuple[Control, ...]:
    return (
        Choice(
            "prediction",
            "Predicted by",
            "Networks",
            (
                ("datasheet", "datasheet", "The device named in the report, or the nearest of the catalogue"),
                ("calibrated", "fitted", "Factors fitted to all of these networks"),
                ("left out", "held out", "Factors fitted to the other networks alone"),
            ),
            tooltip="Measurements of this machine that the predictions use",
        ),
        Choice(
            "phase",
            "Phase",
            "Networks",
            (
                ("all", "all", "Every measured network"),
                ("training", "training", "Training steps"),
                ("forward", "forward", "Forward passes"),
                ("answers", "answers", "Prompts and tokens of a language model"),
            ),
            tooltip="Measured networks to show",
        ),
        Choice(
            "precision",
            group="Matmuls",
            options=(("fp32", "fp32", "32 bits"), ("bf16", "bf16", "16 bits")),
            tooltip="Precision of the matmuls",
        ),
        Slider(
            "batch",
            group="Step in parts",
            stops=powers_of_two(0, 10),
            tooltip="Samples of the step that is predicted for this machine by part",
        ),
        Choice(
            "picture",
            "Chart",
            "",
            (
                ("networks", "Networks", "Each measured network beside its prediction"),
                ("products", "Matmuls", "Rate by size, beside the datasheet"),
                ("memory", "Memory", "Bandwidth of copies and narrow matmuls"),
            ),
            place="picture",
        ),
    )


OFF: dict[str, Any] = {
    "precision": lambda v: {} if v.get("picture") == "products" else {"*": "only matmuls have a precision"},
    "prediction": lambda v: {} if v.get("picture") == "networks" else {"*": "only networks are predicted"},
    "phase": lambda v: {} if v.get("picture") == "networks" else {"*": "only networks have phases"},
}


def _draw(calibration: Calibration, text: str, values: dict[str, Any], _pinned: View | None) -> View:
    picture, step = values["picture"], _step(calibration, values["batch"])
    if picture == "networks":
        frame, sentence, facts, title, headline = _networks(calibration, values)
    elif picture == "products":
        frame, sentence, facts, title, headline = _products(calibration, values["precision"])
    else:
        frame, sentence, facts, title, headline = _memory(calibration)
    estimate = PREDICTORS[step["benchmark"]](step, calibration.accelerator).one()
    facts = [
        *facts,
        _told(step, estimate, bool(calibration.judged)),
        f"Machine: {calibration.accelerator.name}.",
        _datasheet(calibration),
    ]
    arguments = panel_call(this_machine, values, _good(calibration)).partition("(")[2]
    return View(
        answer=" ".join([sentence, *facts]),
        headline=headline,
        chips=_CHIPS,
        picture=Picture(picture, frame, title, {"rows": row_order(frame), **charts.figure_ends(frame)}),
        parts=step_parts(estimate.by_part),
        parts_title=f"{_title(step['model'])}, {SHORT[step['benchmark']]}, batch {step['batch']:,}, on this machine",
        table=partial(_table, calibration, picture, frame),
        data=partial(_data, calibration, picture, values),
        sources=lambda: _SOURCES,
        code=f"cb.panels.this_machine({text}{', ' if text and arguments != ')' else ''}{arguments}\n"
        f"cb.measure.calibrate({text or 'cb.measure.own_run()'}).predictions()",
    )


_CHIPS = (
    ("measured here", "Every mark comes from a run of this machine; only the datasheet is from elsewhere."),
    (
        "80 % intervals",
        "The middle 80 % of the samples of operations; for predictions, that of held-out networks.",
    ),
)
_SOURCES = (
    ("A run of python -m cookbook measure: data/own_run_epyc.json, or your own file", "", "measured"),
    ("The datasheet: row of the table accelerators, by share of the cores", "", "derived"),
)


def _networks(calibration: Calibration, values: Mapping[str, Any]) -> Shown:
    """Return the rows of measured networks with their predictions, and the interval of held-out networks."""
    rows = _chosen(calibration, values["phase"])
    column, words, mark = WAYS[values["prediction"]]
    reach = math.exp(float(np.log(rows["high80_s"] / rows["left_out_s"]).iloc[0])) if column == "left_out" else math.nan
    point = rows[f"{column}_s"].to_numpy(dtype=float)
    errors = rows[f"{column}_error"].to_numpy(dtype=float)
    middle = float(np.nanmedian(np.abs(errors)))
    measured = rows["measured_s"].to_numpy(dtype=float)
    intervals = {"point": point, "low": point / reach, "high": point * reach}
    frame = _frame(_names(rows), intervals, measured, mark, [_off(each) for each in errors])
    worst = int(np.nanargmax(np.abs(errors)))
    furthest = f"Largest error: {frame['row'][worst]}, {_off(errors[worst])}."
    covered = int(rows["inside80"].sum())
    inside = [f"Inside 80 % intervals: {covered} of {len(rows)}."] if column == "left_out" else []
    sentence = (
        f"{words}, {counted(len(rows), 'run')} {'has' if len(rows) == 1 else 'have'} a median error of "
        f"**{percent(middle)}**."
    )
    title = f"{words}: the median error is {percent(middle)}"
    return frame, sentence, [furthest, *inside], title, {"median error": middle}


def _names(rows: pd.DataFrame) -> list[str]:
    """Return network and phase of each row, with batch and tokens where others have the same name."""
    pairs = zip(rows["model"], rows["benchmark"], strict=True)
    named = [f"{_title(model)}, {SHORT[benchmark]}" for model, benchmark in pairs]
    for more in (
        [f", batch {batch}" for batch in rows["batch"]],
        ["" if pd.isna(seq) else f", {seq:g} tokens" for seq in rows["seq"]],
        [f", {precision}" for precision in rows["number_format"]],
        [f", {method}" for method in rows["method"]],
        [f" ({at})" for at in range(len(rows))],
    ):
        named = [name + words if named.count(name) > 1 else name for name, words in zip(named, more, strict=True)]
    return named


@lru_cache(maxsize=64)
def _title(model: str) -> str:
    return zoo.model(model).title.split(" (")[0]


def _off(error: float) -> str:
    if not math.isfinite(error):
        return "no prediction"
    return "as measured" if abs(error) < 0.005 else f"{percent(abs(error))} too {'slow' if error > 0 else 'fast'}"


def _chosen(calibration: Calibration, phase: str) -> pd.DataFrame:
    rows = calibration.predictions()
    if rows.empty:
        raise refused("picture", "networks", ": the report measured no network; take products or memory")
    rows = rows[rows["benchmark"].isin(PHASES[phase])] if phase in PHASES else rows
    if rows.empty:
        raise refused("phase", phase, ": the report measured none; take all")
    return rows.reset_index(drop=True)


def _singles(calibration: Calibration, starts: str, precision: str = "") -> list[Figure]:
    return [
        each
        for each in calibration.constants
        if each.says == "a row"
        and each.constant.startswith(starts)
        and (not precision or each.number_format == precision)
    ]


def _frame(names: list[str], intervals: Mapping[str, Any], peak: Any, evidence: str, texts: list[str]) -> pd.DataFrame:
    """Return the rows that `per_device` draws; nothing is pinned, selected or set by a click."""
    none = {"before": math.nan, "looked": False, "control": "", "value": ""}
    return pd.DataFrame({"row": names, **intervals, "peak": peak, "evidence": evidence, "text": texts, **none})


def _of_figures(figures: list[Figure], names: list[str], sheet: float, texts: list[str]) -> pd.DataFrame:
    """Return measured values beside that of the datasheet."""
    fields = {"point": "value", "low": "low80", "high": "high80"}
    intervals = {column: [getattr(each, name) for each in figures] for column, name in fields.items()}
    return _frame(names, intervals, sheet, "measured", texts)


def _products(calibration: Calibration, precision: str) -> Shown:
    """Return the rates of matmuls by size beside the peak of the datasheet."""
    figures = _singles(calibration, "matmul of ", precision)
    if not figures:
        raise refused("precision", precision, ": the report measured no matmul in it; take another")
    peak = peak_flops(calibration.before, precision)
    names = [each.constant.removeprefix("matmul of ").replace("x", " × ") for each in figures]
    best, least = (pick(figures, key=lambda each: each.value) for pick in (max, min))
    shares = [
        f"{percent(each.value / peak)} of the peak" if math.isfinite(peak) else figure(each.value) for each in figures
    ]
    frame = _of_figures(figures, names, peak, shares)
    rate, of = human(best.value, "FLOP/s"), (percent(best.value / peak) if math.isfinite(peak) else "")
    sheet = f"{of} of the datasheet" if of else "with no peak in the datasheet"
    facts = [
        f"Fastest: {names[figures.index(best)]}.",
        f"Slowest: {names[figures.index(least)]}, {human(least.value, 'FLOP/s')}.",
    ]
    sentence = f"Matmuls in {precision} reach **{rate}**, {sheet}."
    return frame, sentence, facts, f"Matmuls in {precision} reach {rate}, {sheet}", {"best rate": best.value}


def _memory(calibration: Calibration) -> Shown:
    """Return the memory bandwidth by operation beside the datasheet."""
    figures = _singles(calibration, "memory bandwidth, ")
    sheet = calibration.before.mem_bandwidth
    names = [each.constant.removeprefix("memory bandwidth, ") for each in figures]
    best = max(figures, key=lambda each: each.value)
    times = [f"{figure(each.value / sheet)}× the datasheet" for each in figures]
    frame = _of_figures(figures, names, sheet, times)
    rate, over = human(best.value, "B/s"), f"{figure(best.value / sheet)}× the datasheet"
    facts = [f"Fastest: {names[figures.index(best)]}."]
    title = f"Memory reaches {rate}, {over}"
    return frame, f"Memory reaches **{rate}**, {over}.", facts, title, {"best rate": best.value}


def _step(calibration: Calibration, batch: int) -> dict[str, Any]:
    """Return the first measured training step, else the first measured network, at the reader's batch."""
    rows = [each for each in calibration.judged if each["benchmark"] == "training step"] or list(calibration.judged)
    usual: Mapping[str, Any] = {"benchmark": "training step", "model": "resnet50"}
    names = ("benchmark", "model", "seq", "number_format", "path")
    return {**{name: (rows[0] if rows else usual).get(name) for name in names}, "batch": batch}


def _told(step: Mapping[str, Any], estimate: Estimate, fitted: bool) -> str:
    """Return the time of the step, and which networks are in the fit that it comes from."""
    low, high = human(estimate.low80, "s"), human(estimate.high80, "s")
    of, fit = f"{_title(step['model'])}, batch {step['batch']:,}", " with all networks in the fit" if fitted else ""
    return f"{of}: {human(estimate.point, 's')}{fit} (80 %: {low} to {high})."


def _datasheet(calibration: Calibration) -> str:
    """Return which datasheet was compared, and whether it is that of the device in the report."""
    if not calibration.lacks:
        return f"Datasheet: {calibration.before.name}."
    guessed = f"the report names only {calibration.lacks[:60]}"
    return f"Datasheet (a guess): {calibration.before.name}, because {guessed}."


def _table(calibration: Calibration, picture: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as printed text."""
    unit = {"networks": "s", "products": "FLOP/s", "memory": "B/s"}[picture]
    first, last = ("Predicted", "Measured") if picture == "networks" else ("Measured", "Datasheet")
    columns = {
        name: [human(value, unit) if math.isfinite(value) else "" for value in frame[column]]
        for name, column in ((first, "point"), ("80 % from", "low"), ("to", "high"), (last, "peak"))
    }
    return pd.DataFrame({"Measured run": frame["row"], **columns, "Result": frame["text"]})


def _data(calibration: Calibration, picture: str, values: Mapping[str, Any]) -> pd.DataFrame:
    return _chosen(calibration, values["phase"]) if picture == "networks" else calibration.frame()
