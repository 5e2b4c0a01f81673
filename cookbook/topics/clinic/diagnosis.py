"""What holds a step back: the attribution of a trace beside what is usual, or beside the cookbook's prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.fields import Field, checked
from cookbook.prediction.api import MODEL, PLAN, SYSTEMS, columns, train_step
from cookbook.prediction.constants import figure
from cookbook.result import Result
from cookbook.topics.clinic.attribution import Attribution, attribute
from cookbook.topics.clinic.counters import COUNTERS, Counter
from cookbook.topics.clinic.files import read_trace
from cookbook.topics.clinic.reading import Reading
from cookbook.units import human

MOST_FILES, MOST_STRETCHES = 64, 20
# What a step is for; and of a log, of which nothing is known of what it is made of.
WORK = ("compute", "steady")
# A term that was predicted, and stays below this share of a step, holds nothing back, whatever its interval.
LEAST_SHARE = 0.05
# Share of the products in a format from which it is that of the training; share of their time that a narrower one saves
# at least; share of the others' wait that one process must explain; share of a term that a finer cause must explain.
MOSTLY, NARROWER, EXPLAINED = 0.5, 0.5, 0.5
# Forward and backward pass read the weights three times, an optimiser reads and writes them and its states up to nine
# times, so matmuls of a tiny batch are at least a quarter of the traffic.
MATMULS = 0.25
NARROW = ("bf16", "fp16", "fp8")
# How a prediction's parts are called here.
PARTS = {"optimiser": "memory traffic", "bubble": "idle", "waiting": "idle"}
FINER = {
    "input": "input",
    "launch": "host-bound",
    "checkpoint": "checkpoint",
    "slowdown": "throttling",
    "idle": "idle",
    "memory traffic": "memory-bound kernels",
    "communication": "communication",
}
HEADLINES = {
    "input": "Waiting for input holds the step back: it takes **{share}** of the time.",
    "tiny batch": "The batch is too small: **{share}** of the step moves weights for few samples.",
    "memory-bound kernels": "Memory traffic holds the step back: it takes **{share}** of the time.",
    "host-bound": "The host holds the step back: starting small operations takes **{share}** of the time.",
    "fp64": "Products run in double precision: they take **{share}** of the step, at least twice what they need.",
    "fp32": "Products run in single precision although narrower was meant: they take **{share}** of the step.",
    "communication": "Communication holds the step back: **{share}** of the step waits for it.",
    "straggler": "One process is slower than the others, which spend **{share}** of the step in exchanges.",
    "checkpoint": "Saving stalls the training: it takes **{share}** of the time.",
    "throttling": "The machine slowed down: **{share}** of the time is lost to it.",
    "idle": "Nothing was recorded in **{share}** of the time: the trace does not say why.",
    "compute": "Computing takes longer than predicted: **{share}** of the step.",
    "unexplained": "Steps take **{ratio:.2g}×** as long as predicted, and a log does not say why.",
    "healthy": "Nothing holds the step back: **{share}** of the time is {main}.",
}


def usual_share(term: str) -> float:
    """Share of a step that a term may take before it counts as what holds the step back; of work, all of it.

    >>> usual_share("compute"), usual_share("input")
    (1.0, 0.05)
    """
    return 1.0 if term in WORK else figure(f"clinic-usual-{term.replace(' ', '-')}")


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Result):
    """What holds a step back.

    Attributes
    ----------
    cause : str
        A cause of the table ``remedies``, of `COUNTERS`, or "healthy".
    answer : str
        A headline with one number in bold, then labelled facts.
    share, low, high : float
        Share of the time that the cause takes, with the least and the most of its stretches.
    step_seconds : float
        Median time of a step [s]; NaN where no file has steps.
    evidence : tuple of str
        What was seen.
    remedies : tuple of mapping
        The three cheapest: ``remedy``, ``gain``, ``gain_low``, ``gain_high`` (times as fast), ``why``.
    terms : tuple of mapping
        One a term: ``term``, ``seconds`` of a mean step, ``share``, ``low``, ``high``, ``usual`` (share), ``predicted``
        [s], ``gap`` (share beyond what is usual, or beyond the prediction).
    notes : tuple of str
        What was not understood, by file.
    kinds : tuple of str
        What the files are.
    stretches : tuple of (str, mapping of str to float)
        The whole run and its stretches: mean seconds of a step by term.
    """

    cause: str
    answer: str
    share: float
    low: float
    high: float
    step_seconds: float
    evidence: tuple[str, ...] = ()
    remedies: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    terms: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    kinds: tuple[str, ...] = ()
    stretches: tuple[tuple[str, Mapping[str, float]], ...] = field(default=(), repr=False)

    def summary(self) -> str:
        """The headline."""
        return self.answer.split(". ", 1)[0].replace("**", "")

    def frame(self) -> pd.DataFrame:
        """One row a term of the step, in the order of charts."""
        names = ["term", "seconds", "share", "low", "high", "usual", "predicted", "gap"]
        return pd.DataFrame([dict(each) for each in self.terms], columns=names)


@checked(
    path=Field.record(str, Path, Reading, many=True, entries=MOST_FILES, what="file", give="files of one run"),
    model=MODEL,
    accelerator=SYSTEMS,
    precision=Field.named("number_formats"),
    pattern=Field.text(1000),
    stretches=Field.count(high=MOST_STRETCHES),
    **columns("training_transformer", *(name for name in PLAN if name != "fabric")),
)
def diagnose(
    path: str | Path | Reading | Sequence[str | Path | Reading],
    model: Any = None,
    accelerator: Any = None,
    *,
    precision: str | None = None,
    pattern: str = "",
    stretches: int = 5,
    **plan: Any,
) -> Diagnosis:
    """Say what holds a training step back, from what profilers, counters and logs say.

    Parameters
    ----------
    path : str, Path, Reading, or a sequence of them
        Files of one run, or what `read_trace` read of them; several ranks' traces tell a straggler from a slow
        network, counters are evidence beside. The content says which tool wrote a file.
    model, system : optional
        The scenario, as for `cb.train_step`; then each term stands beside its prediction, and the largest gap beyond
        the 80 % interval is the diagnosis.
    precision : str, optional
        The number format that was meant, such as "bf16".
    pattern : str, optional
        For logs in plain text: a line with ``{step}`` and ``{seconds}``, ``{ms}`` or ``{rate}``.
    stretches : int
        Pieces of the run, 1 to 20, over which shares and gains have their intervals.
    **plan
        Fields of the plan, as for `cb.train_step`, such as ``micro_batch`` and ``devices``.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ValueError
        A file cannot be understood: the place and the remedy.
    cookbook.catalog.UnknownName
        The catalogue has no such model or device.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> rows = [f"{step},{2.0 if step % 10 == 0 else 0.5}" for step in range(1, 61)]
    >>> _ = file.write_text("\\n".join(["step,step_time_s", *rows]))
    >>> found = diagnose(file)
    >>> found.cause, round(found.share, 3)
    ('checkpoint', 0.231)
    """
    paths = cast(Any, path)
    if (model is None) != (accelerator is None) or (model is None and plan):
        raise ValueError("a prediction needs both model and system, such as model='resnet50', system='a100-sxm-80gb'")
    readings = [each if isinstance(each, Reading) else read_trace(each, pattern) for each in paths]
    predicted = None if model is None else _predicted(model, accelerator, precision, plan)
    return _diagnosis(readings, predicted, precision, stretches)


def _predicted(model: Any, system: Any, precision: Any, plan: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Point and upper end of the interval of each term [s]."""
    found = train_step(model, system, dict(plan) or None, precision=precision)
    point, high = float(np.ravel(found.point)[0]), float(np.ravel(found.high80)[0])
    if not math.isfinite(point):
        raise ValueError(f"there is no prediction: {np.ravel(found.why)[0]}")
    wide = high / point if math.isfinite(high) else 1.5
    told = {"steady": (point, point * wide)}
    for part, seconds in found.by_part.items():
        term = "communication" if part.endswith("communication") else PARTS.get(part, part)
        own = float(np.ravel(seconds)[0])
        before = told.get(term, (0.0, 0.0))
        told[term] = (before[0] + own, before[1] + own * wide)
    return told


def _diagnosis(readings: list[Reading], predicted: Any, precision: str | None, stretches: int) -> Diagnosis:
    timed = [reading for reading in readings if len(reading.steps)]
    counted = {key: value for reading in readings for key, value in reading.counters.items()}
    notes = tuple(f"{reading.name}: {note}" for reading in readings for note in reading.notes)
    kinds = tuple(dict.fromkeys(reading.kind for reading in readings))
    if not timed:
        return _of_counters(counted, notes, kinds)
    shared = [attribute(reading)._replace(stretches=stretches) for reading in timed]
    waits = [_share(each, "communication") for each in shared]
    # Of several processes, the one that waits most tells what the others cost it.
    at = int(np.argmax(waits))
    found = shared[at]
    terms = _terms(found, predicted)
    late = _late(shared, at)
    cause, term, seen = _cause(found, terms, late, precision)
    shares = _shares(found, term)
    told = next(each for each in terms if each["term"] == term)
    evidence = (*seen, *_told(counted, above=True))
    # What others wait for a straggler is the part that its remedies shorten; the exchange itself stays.
    waited = min(late[0] / _share(found, term), 1.0) if cause == "straggler" else 1.0
    remedies = () if cause == "healthy" else _remedies(cause, found, waited)
    meant = "" if precision is None else f"Meant: {precision[:20]}; {_formats(found.facts)}."
    answer = _answer(cause, found, told, (evidence, remedies, notes, meant), predicted is not None)
    ends, usual = (float(shares.min()), float(shares.max())), float(np.median(found.steps))
    return Diagnosis(
        cause, answer, told["share"], *ends, usual, evidence, remedies, terms, notes, kinds, _stretches(found)
    )


def _stretches(found: Attribution) -> tuple[tuple[str, dict[str, float]], ...]:
    """Mean step of the whole run and of each stretch by term, with the numbers of its steps."""
    count = len(found.steps)
    parts = [("whole run", found.seconds)]
    for places in np.array_split(np.arange(count), min(found.stretches, count)):
        steps = f"{places[0] + 1}" if len(places) == 1 else f"{places[0] + 1} to {places[-1] + 1}"
        parts.append((f"step{'s' * (len(places) > 1)} {steps}", found.seconds[places]))
    return tuple((label, dict(zip(found.terms, map(float, rows.mean(axis=0)), strict=True))) for label, rows in parts)


def _shares(found: Attribution, term: str) -> np.ndarray:
    """Share that a term takes in each stretch of the run, or in each step where there are fewer."""
    pieces = min(found.stretches, len(found.steps))
    own = np.array_split(found.seconds[:, found.terms.index(term)], pieces)
    whole = np.array_split(found.steps, pieces)
    return np.array([one.sum() / all_.sum() if all_.sum() > 0 else 0.0 for one, all_ in zip(own, whole, strict=True)])


def _share(found: Attribution, term: str) -> float:
    whole = float(found.steps.sum())
    if term not in found.terms or whole <= 0:
        return 0.0
    return float(found.seconds[:, found.terms.index(term)].sum()) / whole


def _terms(found: Attribution, predicted: Any) -> tuple[dict[str, Any], ...]:
    mean = float(found.steps.mean())
    told = []
    for term in found.terms:
        share, shares = _share(found, term), _shares(found, term)
        usual, point = usual_share(term), math.nan
        if predicted is not None:
            point, high = predicted.get(term, (0.0, 0.0))
            usual = max(high / mean, 0.0 if term in WORK else min(usual_share(term), LEAST_SHARE))
        told.append(
            {
                "term": term,
                "seconds": share * mean,
                "share": share,
                "low": float(shares.min()),
                "high": float(shares.max()),
                "usual": usual,
                "predicted": point,
                "gap": share - usual,
            }
        )
    return tuple(told)


def _late(shared: list[Attribution], at: int) -> tuple[float, float]:
    """How much more work the slowest process has than the one that waits [share of a step], and how often so."""
    if len(shared) < 2 or not all("communication" in each.terms for each in shared):
        return 0.0, math.nan
    count = min(len(each.steps) for each in shared)
    work = [each.steps[:count] - each.seconds[:count, each.terms.index("communication")] for each in shared]
    slow = max(range(len(work)), key=lambda place: float(np.sum(work[place])))
    more = work[slow] - work[at]
    return float(np.sum(more) / np.sum(shared[at].steps[:count])), float(np.mean(more > 0))


def _cause(
    found: Attribution, terms: Sequence[Mapping[str, Any]], late: tuple[float, float], precision: str | None
) -> tuple[str, str, tuple[str, ...]]:
    """The largest gap: its cause, its term, and what was seen."""
    facts = found.facts
    gaps = {each["term"]: each["gap"] for each in terms}
    format_, wide = _wide(facts, precision)
    if wide:
        gaps["compute"] = max(gaps.get("compute", 0.0), NARROWER * _share(found, "compute"))
    term = max(gaps, key=lambda each: gaps[each])
    if gaps[term] <= 0 or (term in WORK and not wide and gaps[term] < usual_share("idle")):
        main = max(found.terms, key=lambda each: _share(found, each))
        return "healthy", main, _seen(found, main)
    if term in ("compute", "steady"):
        told = (_formats(facts),) if wide and precision is None else ()
        return format_ or {"compute": "compute"}.get(term, "unexplained"), term, (*told, *_seen(found, term))
    cause = FINER[term]
    thin = facts.get("thin seconds", 0.0) >= MATMULS * _share(found, "memory traffic") * float(found.steps.sum())
    if term == "memory traffic" and facts.get("thin", 0.0) >= EXPLAINED and thin:
        cause = "tiny batch"
    if term == "communication" and late[0] >= EXPLAINED * _share(found, "communication"):
        cause = "straggler"
    seen = _seen(found, term)
    if cause in ("communication", "straggler"):
        seen = (*seen, _told_late(late))
    return cause, term, seen


def _wide(facts: Mapping[str, float], precision: str | None) -> tuple[str, float]:
    """A number format that is wider than it was meant to be, and the share of the products that have it."""
    for each in ("fp64", "fp32"):
        meant = precision != "fp64" if each == "fp64" else precision in NARROW
        if meant and facts.get(each, 0.0) >= MOSTLY:
            return each, facts[each]
    return "", 0.0


def _formats(facts: Mapping[str, float]) -> str:
    """What matmuls ran in, as far as the files tell."""
    known = {each: facts[each] for each in ("fp64", "fp32", "tf32", "bf16", "fp16") if facts.get(each)}
    if not known:
        return "the files do not tell the formats of matmuls"
    most = max(known, key=lambda each: known[each])
    return f"{100 * known[most]:.0f} % of the time of matmuls is in {most}"


def _told_late(late: tuple[float, float]) -> str:
    if math.isnan(late[1]):
        return "one process alone: give the traces of the others too, to tell a slow network from a slow process"
    return (
        f"the slowest process works {human(100 * late[0])} % of a step longer than the one that waits most, in "
        f"{human(100 * late[1])} % of the steps"
    )


def _seen(found: Attribution, term: str) -> tuple[str, ...]:
    """What was counted that bears on a term."""
    facts, told = found.facts, []
    if term in ("launch", "compute", "memory traffic") and facts.get("operations"):
        told.append(
            f"{human(round(facts['operations']))} operations a step, {100 * facts.get('short', 0):.0f} % of "
            "them shorter than 20 µs"
        )
    if term == "memory traffic" and "thin" in facts:
        told.append(f"{100 * facts['thin']:.0f} % of the time of matmuls is in some with a side below 16")
    if facts.get("every") and term == "checkpoint":
        told.append(f"a slow step returns every {facts['every']:.0f} steps, as checkpoints do, or evaluation")
    if facts.get("times slower") and term == "slowdown":
        told.append(f"steps from number {facts['slower from']:.0f} on take {facts['times slower']:.2f}× as long")
    if "spread" in facts and not told:
        told.append(f"the middle 80 % of the steps differ by {100 * facts['spread']:.0f} % of a usual step")
    return tuple(told)


def _remedies(cause: str, found: Attribution, part: float) -> tuple[dict[str, Any], ...]:
    """The three cheapest, each with the gain in speed and an interval; they act on a part of their term."""
    table = catalog.table("remedies")
    rows = table[table["cause"] == cause].sort_values("rank", kind="stable")
    told = []
    for row in rows.to_dict("records"):
        share, shares = part * _share(found, row["term"]), part * _shares(found, row["term"])
        low, high = row["least"] * float(shares.min()), row["most"] * float(shares.max())
        middle = (row["least"] + row["most"]) / 2 * share
        gains = [1 / (1 - min(each, 0.99)) for each in (middle, low, high)]
        told.append(
            {"remedy": row["remedy"], "gain": gains[0], "gain_low": gains[1], "gain_high": gains[2], "why": row["why"]}
        )
    return tuple(told)


def _answer(cause: str, found: Attribution, told: Mapping[str, Any], more: Any, beside: bool) -> str:
    evidence, remedies, notes, meant = more
    share = _percent(told["share"])
    main = {"compute": "computing", "steady": "the usual step", "memory traffic": "moving memory"}
    ratio = told["seconds"] / told["predicted"] if told["predicted"] > 0 else math.nan
    lines = [HEADLINES[cause].format(share=share, main=main.get(told["term"], told["term"]), ratio=ratio)]
    count = len(found.steps)
    median = human(float(np.median(found.steps)), "s")
    lines.append(
        f"Step: {median} (median of {count:,} step{'s' * (count != 1)}); the share is "
        f"{_percent(told['low'])} to {_percent(told['high'])} over the run."
    )
    if beside:
        lines.append(f"Prediction: {human(told['predicted'], 's')} for it, {human(told['seconds'], 's')} measured.")
    if evidence:
        lines.append(f"Evidence: {'; '.join(evidence)}.")
    if meant:
        lines.append(meant)
    if remedies:
        first = remedies[0]
        lines.append(
            f"First remedy: {first['remedy']}; {first['gain']:.2g}× as fast ({first['gain_low']:.2g} to "
            f"{first['gain_high']:.2g}×)."
        )
    if notes:
        lines.append(f"Not understood: {'; '.join(notes[:2])}{f'; {len(notes) - 2} more' if len(notes) > 2 else ''}.")
    return " ".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _of_counters(counted: Mapping[str, float], notes: tuple[str, ...], kinds: tuple[str, ...]) -> Diagnosis:
    """Counters alone: which of them is furthest beyond its limit."""
    over = {key: _beyond(COUNTERS[key], value) for key, value in counted.items()}
    worst = max(over, key=lambda key: over[key])
    found = over[worst] > 0
    first = worst if found else next(iter(counted))
    told = COUNTERS[first]
    share = counted[first] if told.unit == "share" else math.nan
    said = told.words.format(f"**{_value(told, counted[first])}**")
    ends = f"{'at least' if told.limit < 0 else 'at most'} {_value(told, abs(told.limit))}"
    answer = f"{said[0].upper()}{said[1:]}. Rule of thumb: {ends}." if found else f"No counter stands out: {said}."
    rest = _told({key: value for key, value in counted.items() if key != first})
    lines = [
        answer,
        *([f"Beside: {'; '.join(rest)}."] if rest else []),
        "Missing: no file has steps, so their time cannot be shared out.",
    ]
    if notes:
        lines.append(f"Not understood: {'; '.join(notes[:2])}{f'; {len(notes) - 2} more' if len(notes) > 2 else ''}.")
    return Diagnosis(
        told.cause if found else "healthy",
        " ".join(lines),
        share,
        math.nan,
        math.nan,
        math.nan,
        _told(counted),
        notes=notes,
        kinds=kinds,
    )


def _beyond(counter: Counter, value: float) -> float:
    """How far a counter is beyond its limit, as a ratio less 1; nothing where it has none."""
    if math.isnan(counter.limit) or math.isnan(value):
        return -math.inf
    if counter.limit < 0:
        return -counter.limit / max(value, 1e-6) - 1
    return value / counter.limit - 1


def _value(counter: Counter, value: float) -> str:
    if counter.unit == "share":
        return _percent(value)
    if counter.unit in ("s", "B/s", "W"):
        return human(value, counter.unit)
    return f"{human(value)} {counter.unit}"


def _told(counted: Mapping[str, float], above: bool = False) -> tuple[str, ...]:
    """Counters in words; `above` keeps those beyond their limits."""
    return tuple(
        COUNTERS[key].words.format(_value(COUNTERS[key], value))
        for key, value in counted.items()
        if math.isfinite(value) and (not above or _beyond(COUNTERS[key], value) > 0)
    )
