"""Diagnosis of a step's bottleneck: the attribution of a trace beside usual shares, or beside a prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.parts import part_groups
from cookbook.hardware import System
from cookbook.prediction.api import MODEL, PLAN_FIELDS, SYSTEMS, Plan, train_step
from cookbook.result import Result
from cookbook.topics.clinic.attribution import Attribution, attribute
from cookbook.topics.clinic.counters import COUNTERS, Counter
from cookbook.topics.clinic.files import read_trace
from cookbook.topics.clinic.reading import Reading
from cookbook.units import human, percent
from cookbook.workloads.zoo import Workload

MAX_FILES, MAX_STRETCHES = 64, 20
# The useful work of a step; for a log, whose parts are not known, its steady time.
WORK_TERMS = ("compute", "steady")
# A predicted term below this share of a step is not a bottleneck, whatever its interval.
MIN_SHARE = 0.05
# Share of the products in a format from which it is that of the training; share of their time that a narrower one saves
# at least; share of the others' wait that one process must explain; share of a term that a finer cause must explain.
MOSTLY, NARROWER, EXPLAINED = 0.5, 0.5, 0.5
# Forward and backward pass read the weights three times, an optimiser reads and writes them and its states up to nine
# times, so matmuls of a tiny batch are at least a quarter of the traffic.
MATMUL_SHARE = 0.25
NARROW_FORMATS = ("bf16", "fp16", "fp8")
CAUSE_OF_TERM = {
    "input": "input",
    "launch": "host-bound",
    "checkpoint": "checkpoint",
    "slowdown": "slowdown",
    "idle": "idle",
    "memory traffic": "memory-bound kernels",
    "communication": "communication",
}
HEADLINES = {
    "input": "Waiting for input holds the step back: it takes **{share}** of the time.",
    "tiny batch": "The batch is too small: **{share}** of the step moves weights for few samples.",
    "memory-bound kernels": "Memory traffic holds the step back: it takes **{share}** of the time.",
    "host-bound": "The host holds the step back: launching small operations takes **{share}** of the time.",
    "fp64": "The matmuls run in double precision: they take **{share}** of the step, at least twice as long as needed.",
    "fp32": "The matmuls run in single precision although narrower was meant: they take **{share}** of the step.",
    "communication": "Communication holds the step back: **{share}** of the step waits for it.",
    "straggler": "One process is slower than the others, which spend **{share}** of the step waiting in communication.",
    "checkpoint": "Saving stalls the training: it takes **{share}** of the time.",
    "slowdown": "The machine slowed down: **{share}** of the time is lost to it.",
    "idle": "Nothing was recorded in **{share}** of the time: the trace does not say why.",
    "compute": "Computing takes longer than predicted: **{share}** of the step.",
    "unexplained": "Steps take **{ratio:.2g}×** as long as predicted, and a log does not say why.",
    "healthy": "Nothing holds the step back: **{share}** of the time is {main}.",
}


def usual_share(term: str) -> float:
    """Return the share of a step that a term may take before it counts as the bottleneck; of work, all of it.

    >>> usual_share("compute"), usual_share("input")
    (1.0, 0.05)
    """
    return 1.0 if term in WORK_TERMS else constant(f"clinic-usual-{term.replace(' ', '-')}")


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Result):
    """The bottleneck of a training step.

    Attributes
    ----------
    cause : str
        A cause of the table ``remedies``, of `COUNTERS`, or "healthy".
    answer : str
        A headline with one number in bold, then labelled facts.
    share, low, high : float
        Share of the time that the cause takes, with the smallest and the largest of its stretches.
    step_seconds : float
        Median time of a step [s]; NaN where no file has steps.
    evidence : tuple of str
        The evidence, in words.
    remedies : tuple of mapping
        The three cheapest: ``remedy``, ``gain``, ``gain_low``, ``gain_high`` (times as fast), ``why``.
    terms : tuple of mapping
        One row per term: ``term``, ``seconds`` of a mean step, ``share``, ``low``, ``high``, ``usual`` (share),
        ``predicted`` [s], ``gap`` (share beyond what is usual, or beyond the prediction).
    notes : tuple of str
        Content that was not understood, by file.
    kinds : tuple of str
        The kinds of the files.
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
        """Return the headline."""
        return self.answer.split(". ", 1)[0].replace("**", "")

    def facts(self) -> dict[str, str]:
        """Return the evidence and the cheapest remedies, as sentences by label."""
        remedies = [f"{row['remedy']} ({row['gain']:.2g}× as fast)" for row in self.remedies]
        named = {"Evidence": self.evidence, "Remedies": remedies, "Not understood": self.notes}
        return {name: "; ".join(words) for name, words in named.items() if words}

    def frame(self) -> pd.DataFrame:
        """Return one row per term of the step, in the order of charts."""
        names = ["term", "seconds", "share", "low", "high", "usual", "predicted", "gap"]
        return pd.DataFrame([dict(term) for term in self.terms], columns=names)


@checked(
    path=Field.record(str, Path, Reading, many=True, entries=MAX_FILES, what="file", give="files of one run"),
    model=MODEL,
    accelerator=SYSTEMS,
    precision=Field.named("number_formats", blank=True),
    pattern=Field.text(1000),
    stretches=Field.count(high=MAX_STRETCHES),
    **PLAN_FIELDS,
)
def diagnose(
    path: str | Path | Reading | Sequence[str | Path | Reading],
    model: str | Workload | None = None,
    accelerator: System | None = None,
    *,
    precision: str | None = None,
    pattern: str = "",
    stretches: int = 5,
    **plan: Unpack[Plan],
) -> Diagnosis:
    """Find the bottleneck of a training step in the files of profilers, counters and logs.

    Parameters
    ----------
    path : str, Path, Reading, or a sequence of them
        Files of one run, or results of `read_trace`; several ranks' traces distinguish a straggler from a slow
        network, counters are further evidence. The content determines which tool wrote a file.
    model, accelerator : optional
        The scenario, as in `cb.train_step`; then each term is shown beside its prediction, and the largest gap beyond
        the 80 % interval is the diagnosis.
    precision : str, optional
        The intended number format, such as "bf16".
    pattern : str, optional
        Form of a line in a plain-text log, with ``{step}`` and ``{seconds}``, ``{ms}`` or ``{rate}``.
    stretches : int
        Pieces of the run, 1 to 20, over which shares and gains have their intervals.
    **plan
        Fields of the plan, as in `cb.train_step`, such as ``micro_batch`` and ``devices``.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ValueError
        If a file is not understood; the message has the location and the remedy.
    cookbook.catalog.UnknownName
        If the catalogue has no such model or device.

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
        raise ValueError(
            "a prediction needs both model and accelerator, such as model='resnet50', accelerator='a100-sxm-80gb'"
        )
    readings = [path if isinstance(path, Reading) else read_trace(path, pattern) for path in paths]
    predicted = None if model is None else _predicted(model, accelerator, precision, plan)
    return _diagnose_readings(readings, predicted, precision, stretches)


def _predicted(model: Any, system: Any, precision: Any, plan: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the point and upper interval end of each term [s]."""
    estimate = train_step(model, system, dict(plan) or None, precision=precision)
    point, high = float(np.ravel(estimate.point)[0]), float(np.ravel(estimate.high80)[0])
    if not math.isfinite(point):
        raise ValueError(f"there is no prediction: {np.ravel(estimate.why)[0]}")
    wide = high / point if math.isfinite(high) else 1.5
    by_term = {"steady": (point, point * wide)}
    for part, seconds in estimate.by_part.items():
        term = part_groups()[part].term
        own = float(np.ravel(seconds)[0])
        before = by_term.get(term, (0.0, 0.0))
        by_term[term] = (before[0] + own, before[1] + own * wide)
    return by_term


def _diagnose_readings(readings: list[Reading], predicted: Any, precision: str | None, stretches: int) -> Diagnosis:
    timed = [reading for reading in readings if len(reading.steps)]
    counted = {key: value for reading in readings for key, value in reading.counters.items()}
    notes = tuple(f"{reading.name}: {note}" for reading in readings for note in reading.notes)
    kinds = tuple(dict.fromkeys(reading.kind for reading in readings))
    if not timed:
        return _diagnose_counters(counted, notes, kinds)
    shared = [attribute(reading)._replace(stretches=stretches) for reading in timed]
    waits = [_share(attribution, "communication") for attribution in shared]
    # Of several processes, the one that waits most shows the cost of waiting.
    at = int(np.argmax(waits))
    waiting = shared[at]
    terms = _terms(waiting, predicted)
    late = _straggling(shared, at)
    cause, term, observations = _cause(waiting, terms, late, precision)
    if cause == "communication":
        # A slow network costs what the process that waits least spends in it; the others also wait for that process.
        waiting = shared[min((wait, place) for place, wait in enumerate(waits) if wait > 0)[1]]
        terms = _terms(waiting, predicted)
    main = next(row for row in terms if row["term"] == term)
    evidence = (*observations, *_counter_words(counted, above=True))
    # The remedies of a straggler shorten the others' wait; the communication itself remains.
    waited = min(late[0] / main["share"], 1.0) if cause == "straggler" else 1.0
    remedies = () if cause == "healthy" else _remedies(cause, waiting, waited)
    meant = "" if precision is None else f"Meant: {precision[:20]}; {_formats(waiting.facts)}."
    answer = _answer(cause, waiting, main, (evidence, remedies, notes, meant), predicted is not None)
    ends, usual = (main["low"], main["high"]), float(np.median(waiting.steps))
    return Diagnosis(
        cause, answer, main["share"], *ends, usual, evidence, remedies, terms, notes, kinds, _stretches(waiting)
    )


def _stretches(attribution: Attribution) -> tuple[tuple[str, dict[str, float]], ...]:
    """Return the mean step of the whole run and of each stretch by term, with the numbers of its steps."""
    count = len(attribution.steps)
    parts = [("whole run", attribution.seconds)]
    for places in np.array_split(np.arange(count), min(attribution.stretches, count)):
        steps = f"{places[0] + 1}" if len(places) == 1 else f"{places[0] + 1} to {places[-1] + 1}"
        parts.append((f"step{'s' * (len(places) > 1)} {steps}", attribution.seconds[places]))
    return tuple(
        (label, dict(zip(attribution.terms, map(float, rows.mean(axis=0)), strict=True))) for label, rows in parts
    )


def _shares(attribution: Attribution, term: str) -> np.ndarray:
    """Return a term's share of each stretch of the run, or of each step where there are fewer."""
    pieces = min(attribution.stretches, len(attribution.steps))
    own = np.array_split(attribution.seconds[:, attribution.terms.index(term)], pieces)
    whole = np.array_split(attribution.steps, pieces)
    return np.array(
        [seconds.sum() / total.sum() if total.sum() > 0 else 0.0 for seconds, total in zip(own, whole, strict=True)]
    )


def _share(attribution: Attribution, term: str) -> float:
    whole = float(attribution.steps.sum())
    if term not in attribution.terms or whole <= 0:
        return 0.0
    return float(attribution.seconds[:, attribution.terms.index(term)].sum()) / whole


def _terms(attribution: Attribution, predicted: Any) -> tuple[dict[str, Any], ...]:
    mean = float(attribution.steps.mean())
    rows = []
    for term in attribution.terms:
        share, shares = _share(attribution, term), _shares(attribution, term)
        usual, point = usual_share(term), math.nan
        if predicted is not None:
            point, high = predicted.get(term, (0.0, 0.0))
            usual = max(high / mean, 0.0 if term in WORK_TERMS else min(usual_share(term), MIN_SHARE))
        rows.append(
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
    return tuple(rows)


def _straggling(shared: list[Attribution], at: int) -> tuple[float, float]:
    """Return the extra work of the slowest process over the waiting one, as a share of a step, and its frequency."""
    if len(shared) < 2 or not all("communication" in attribution.terms for attribution in shared):
        return 0.0, math.nan
    count = min(len(attribution.steps) for attribution in shared)
    work = [
        attribution.steps[:count] - attribution.seconds[:count, attribution.terms.index("communication")]
        for attribution in shared
    ]
    slow = max(range(len(work)), key=lambda place: float(np.sum(work[place])))
    more = work[slow] - work[at]
    return float(np.sum(more) / np.sum(shared[at].steps[:count])), float(np.mean(more > 0))


def _cause(
    attribution: Attribution, terms: Sequence[Mapping[str, Any]], late: tuple[float, float], precision: str | None
) -> tuple[str, str, tuple[str, ...]]:
    """Return the cause of the largest gap, its term, and the evidence."""
    facts = attribution.facts
    gaps = {row["term"]: row["gap"] for row in terms}
    format_, wide = _wide_format(facts, precision)
    if wide:
        gaps["compute"] = max(gaps.get("compute", 0.0), NARROWER * _share(attribution, "compute"))
    term = max(gaps, key=lambda name: gaps[name])
    if gaps[term] <= 0 or (term in WORK_TERMS and not wide and gaps[term] < usual_share("idle")):
        main = max(attribution.terms, key=lambda name: _share(attribution, name))
        return "healthy", main, _evidence(attribution, main)
    if term in ("compute", "steady"):
        formats = (_formats(facts),) if wide and precision is None else ()
        return (
            format_ or {"compute": "compute"}.get(term, "unexplained"),
            term,
            (*formats, *_evidence(attribution, term)),
        )
    cause = CAUSE_OF_TERM[term]
    thin = facts.get("thin seconds", 0.0) >= MATMUL_SHARE * _share(attribution, "memory traffic") * float(
        attribution.steps.sum()
    )
    if term == "memory traffic" and facts.get("thin", 0.0) >= EXPLAINED and thin:
        cause = "tiny batch"
    if term == "communication" and late[0] >= EXPLAINED * _share(attribution, "communication"):
        cause = "straggler"
    observations = _evidence(attribution, term)
    if cause in ("communication", "straggler"):
        observations = (*observations, _straggler_words(late))
    return cause, term, observations


def _wide_format(facts: Mapping[str, float], precision: str | None) -> tuple[str, float]:
    """Return a number format wider than intended, and the share of the products that use it."""
    for format_ in ("fp64", "fp32"):
        meant = precision != "fp64" if format_ == "fp64" else precision in NARROW_FORMATS
        if meant and facts.get(format_, 0.0) >= MOSTLY:
            return format_, facts[format_]
    return "", 0.0


def _formats(facts: Mapping[str, float]) -> str:
    """Return the number formats of matmuls in words, as far as the files report them."""
    shares = {name: facts[name] for name in ("fp64", "fp32", "tf32", "bf16", "fp16") if facts.get(name)}
    if not shares:
        return "the files do not state the formats of matmuls"
    most = max(shares, key=lambda name: shares[name])
    return f"{100 * shares[most]:.0f} % of the matmul time is in {most}"


def _straggler_words(late: tuple[float, float]) -> str:
    if math.isnan(late[1]):
        return "one process alone: give the traces of the others too, to tell a slow network from a slow process"
    return (
        f"the slowest process works {human(100 * late[0])} % of a step longer than the one that waits most, in "
        f"{human(100 * late[1])} % of the steps"
    )


def _evidence(attribution: Attribution, term: str) -> tuple[str, ...]:
    """Return the counts that bear on a term, in words."""
    facts, words = attribution.facts, []
    if term in ("launch", "compute", "memory traffic") and facts.get("operations"):
        words.append(
            f"{human(round(facts['operations']))} operations per step, {100 * facts.get('short', 0):.0f} % of "
            "them shorter than 20 µs"
        )
    if term == "memory traffic" and "thin" in facts:
        words.append(f"{100 * facts['thin']:.0f} % of the matmul time is in matmuls with a side below 16")
    if facts.get("every") and term == "checkpoint":
        words.append(f"a slow step returns every {facts['every']:.0f} steps, as checkpoints do, or evaluation")
    if facts.get("times slower") and term == "slowdown":
        words.append(f"steps from number {facts['slower from']:.0f} on take {facts['times slower']:.2f}× as long")
    if "spread" in facts and not words:
        words.append(f"the middle 80 % of the steps differ by {100 * facts['spread']:.0f} % of a usual step")
    return tuple(words)


def _remedies(cause: str, attribution: Attribution, part: float) -> tuple[dict[str, Any], ...]:
    """Return the three cheapest remedies, each with its speed-up and an interval; they act on a part of their term."""
    table = catalog.table("remedies")
    rows = table[table["cause"] == cause].sort_values("rank", kind="stable")
    remedies = []
    for row in rows.to_dict("records"):
        share, shares = part * _share(attribution, row["term"]), part * _shares(attribution, row["term"])
        low, high = row["least"] * float(shares.min()), row["most"] * float(shares.max())
        middle = (row["least"] + row["most"]) / 2 * share
        gains = [1 / (1 - min(saving, 0.99)) for saving in (middle, low, high)]
        remedies.append(
            {"remedy": row["remedy"], "gain": gains[0], "gain_low": gains[1], "gain_high": gains[2], "why": row["why"]}
        )
    return tuple(remedies)


def _answer(cause: str, attribution: Attribution, row: Mapping[str, Any], more: Any, beside: bool) -> str:
    evidence, remedies, notes, meant = more
    share = percent(row["share"])
    names = {"compute": "computing", "steady": "the usual step", "memory traffic": "moving memory"}
    ratio = row["seconds"] / row["predicted"] if row["predicted"] > 0 else math.nan
    lines = [HEADLINES[cause].format(share=share, main=names.get(row["term"], row["term"]), ratio=ratio)]
    count = len(attribution.steps)
    median = human(float(np.median(attribution.steps)), "s")
    lines.append(
        f"Step: {median} (median of {count:,} step{'s' * (count != 1)}); the share is "
        f"{percent(row['low'])} to {percent(row['high'])} over the run."
    )
    if beside:
        lines.append(f"Prediction: {human(row['predicted'], 's')} for it, {human(row['seconds'], 's')} measured.")
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
    return " ".join([*lines, *_unread(notes)])


def _unread(notes: Sequence[str]) -> list[str]:
    """Return what was not understood as a sentence; none where there is nothing."""
    more = f"; {len(notes) - 2} more" if len(notes) > 2 else ""
    return [f"Not understood: {'; '.join(notes[:2])}{more}."] if notes else []


def _diagnose_counters(counted: Mapping[str, float], notes: tuple[str, ...], kinds: tuple[str, ...]) -> Diagnosis:
    """Diagnose by counters alone: the cause is the counter that exceeds its limit the most."""
    over = {key: _excess(COUNTERS[key], value) for key, value in counted.items()}
    worst = max(over, key=lambda key: over[key])
    exceeded = over[worst] > 0
    first = worst if exceeded else next(iter(counted))
    counter = COUNTERS[first]
    share = counted[first] if counter.unit == "share" else math.nan
    words = counter.words.format(f"**{_value(counter, counted[first])}**")
    ends = f"{'at least' if counter.limit < 0 else 'at most'} {_value(counter, abs(counter.limit))}"
    answer = (
        f"{words[0].upper()}{words[1:]}. Rule of thumb: {ends}." if exceeded else f"No counter stands out: {words}."
    )
    rest = _counter_words({key: value for key, value in counted.items() if key != first})
    lines = [
        answer,
        *([f"Beside: {'; '.join(rest)}."] if rest else []),
        "Missing: no file has steps, so their time cannot be shared out.",
        *_unread(notes),
    ]
    return Diagnosis(
        counter.cause if exceeded else "healthy",
        " ".join(lines),
        share,
        math.nan,
        math.nan,
        math.nan,
        _counter_words(counted),
        notes=notes,
        kinds=kinds,
    )


def _excess(counter: Counter, value: float) -> float:
    """Return the excess of a counter over its limit, as a ratio minus 1; -inf where it has no limit."""
    if math.isnan(counter.limit) or math.isnan(value):
        return -math.inf
    if counter.limit < 0:
        return -counter.limit / max(value, 1e-6) - 1
    return value / counter.limit - 1


def _value(counter: Counter, value: float) -> str:
    if counter.unit == "share":
        return percent(value)
    if counter.unit in ("s", "B/s", "W"):
        return human(value, counter.unit)
    return f"{human(value)} {counter.unit}"


def _counter_words(counted: Mapping[str, float], above: bool = False) -> tuple[str, ...]:
    """Return counters in words; `above` selects those beyond their limits."""
    return tuple(
        COUNTERS[key].words.format(_value(COUNTERS[key], value))
        for key, value in counted.items()
        if math.isfinite(value) and (not above or _excess(COUNTERS[key], value) > 0)
    )
