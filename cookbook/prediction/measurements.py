"""Measured runs of the requested case: network, device, engine, configuration, number format, batch and lengths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product, takewhile
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog.tables import raw
from cookbook.prediction.parsing import tables
from cookbook.prediction.parsing.columns import GENERATION
from cookbook.prediction.scenario import Rows
from cookbook.prediction.software import engines
from cookbook.workloads import zoo

# Measured runs of one case that are printed.
MAX_SHOWN = 3
# What a row counts or states of a run, which does not change what is run.
NOT_IDENTIFYING = frozenset(
    (
        "each_device",
        "is_delay",
        "delayed",
        "requests",
        "every_token",
        "items",
        "total",
        "parameters",
        "active_parameters",
        "stated_dp",
        "stated_shard",
        "stated_domain",
        "usual_seq",
        "usual_prompt",
        "usual_answer",
        "usual_length",
    )
)
# What one version of an engine does and the next does otherwise, beside the columns of the tables of engines.
VERSION_FIELDS = frozenset(("slots", "tiled", "kernel", "attention_share", "score_bytes", "fused_norm", "input_bytes"))
# Kinds whose engines differ between versions in what they do.
SERVED = ("training_transformer", "generation")
# Values of questions whose runs cannot be told from the stated lengths: as many at once as fit, and prompts alone.
LEFT_OUT = ("full", "prompt_only")
# Kinds of prediction of which there are tables of measured runs.
MEASURED = ("training_classic", "training_transformer", "inference", "generation")
# Scenarios of one part of a sequence: prompts alone, and tokens after no prompt where a row states none.
PROMPTS_ALONE, ANSWERS_ALONE = "prefill", "decode"


@dataclass(frozen=True)
class Measurement:
    """A measured run of the case that is asked.

    Attributes
    ----------
    row : str
        Its `id` in the table of measurements.
    seconds : float
        Time of what the estimate's `point` is the time of [s].
    rate : float
        The same as a rate, in `unit`, comparable with the estimate's `rate`.
    unit : str
        Unit of `rate`.
    software : str
        Software as the publisher prints it.
    publisher : str
        Who published it, in words.
    date : str
        When it was published, as YYYY or YYYY-MM; "" where that is not known.
    source : str
        Key in the table ``sources``.
    """

    row: str
    seconds: float
    rate: float
    unit: str
    software: str
    publisher: str
    date: str
    source: str

    @property
    def value(self) -> str:
        """Return the rate in words: "127.1 tokens/s"."""
        return units.human(self.rate, "s") if self.unit == "s" else f"{self.rate:,.4g} {self.unit}"

    @property
    def brief(self) -> str:
        """Return the number, the publisher, the engine and the year in few words: "127 (Argonne, vLLM 2024)"."""
        publisher = next((word for word in self.publisher.split() if not word.endswith(".")), self.publisher)
        engine = takewhile(lambda word: not any(map(str.isdecimal, word)) and word[0] != "(", self.software.split())
        named = (publisher, " ".join((*engine, self.date[:4])).strip())
        return f"{units.figure(self.rate)} ({', '.join(filter(None, named))})"

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.value, self.publisher, f"{self.software} {self.date[:4]}".strip())))


def matching(kind: str, rows: Rows, unit: str, terms: Any) -> tuple[tuple[Measurement, ...], ...]:
    """Return the measured runs of exactly the requested case, for each question.

    Every number that the formulas take from a question must equal that of the measured run, bit by bit. Another version
    of the same engine counts as the same case: `Measurement.software` names it.

    Parameters
    ----------
    kind : str
        Kind of prediction, one of `scenario.KINDS`.
    rows : Rows
        Questions, resolved.
    unit : str
        Unit of the kind's rate.
    terms : module
        That of the kind, from `engine.terms_of`.

    Returns
    -------
    tuple of tuple of Measurement
        One entry a question, the newest run first; empty where the case was not measured, and of questions that
        have no answer.
    """
    if kind not in MEASURED or (kind == GENERATION and not _lengths_measured(rows)):
        return ((),) * len(rows)
    names = _names(rows)
    answers: list[tuple[Measurement, ...]] = []
    for at, case in enumerate(_cases(rows, names)):
        frame, seconds, runs = _runs(kind, case[1], unit, terms)
        hits = runs.get(case, ()) if rows.why.ravel()[min(at, rows.why.size - 1)] == "" else ()
        one = rows.take(slice(at, at + 1)) if hits and len(rows) > 1 else rows
        rates = (terms.outcome(one, np.array(seconds[hit])) for hit in hits)
        same = (
            _measurement(frame.iloc[hit], float(seconds[hit]), rate, unit)
            for hit, rate in zip(hits, rates, strict=True)
        )
        answers.append(tuple(sorted(same, key=attrgetter("date"), reverse=True)))
    return tuple(answers)


def stated(runs: Sequence[Measurement], estimate: str, start: Callable[[], Any] | None = None) -> dict[str, str]:
    """Return what was measured, what is estimated and the command that measures it, by label; those that there are.

    Parameters
    ----------
    runs : sequence of Measurement
        Measured runs of exactly the case, the newest first.
    estimate : str
        The estimate with its interval, in words.
    start : callable, optional
        Returns the `cookbook.catalog.commands.Launch` of the case, or raises ValueError where no command starts it.

    Examples
    --------
    >>> stated((), "12 ms (10 ms to 15 ms)")
    {'Estimate': '12 ms (10 ms to 15 ms)'}
    """
    try:
        verify = start().verify if start else ""
    except ValueError:
        verify = ""
    facts = {"Measured": "; ".join(map(str, runs[:MAX_SHOWN])), "Estimate": estimate, "Verify": verify}
    return {name: fact for name, fact in facts.items() if fact}


def _lengths_measured(rows: Rows) -> bool:
    """Return whether any measured run is of a device and of lengths that are asked, as far as its cells state them.

    This reads the file alone, which takes a fraction of the time of reading its runs.
    """
    devices, size = rows.key("accelerator").tolist(), len(rows)
    prompts, answers = (np.broadcast_to(rows.values[name], (size,)).tolist() for name in ("length", "answer"))
    runs, other = _stated_lengths(catalog.data_directory()), any(np.any(rows.values[name]) for name in LEFT_OUT)
    return other or any(
        case in runs
        for device, prompt, answer in dict.fromkeys(zip(devices, prompts, answers, strict=True))
        for case in product((device,), (prompt, None), (answer, None))
    )


@lru_cache(maxsize=8)
def _stated_lengths(directory: Path) -> frozenset[tuple[str, float | None, float | None]]:
    """Return device, tokens of a prompt and tokens of an answer of each row; None where a cell states no number.

    Prompts alone are left out, as are rows that state neither: no answers, or of as many requests at once as fit.
    """
    file = raw(tables.measurements_of(GENERATION), directory)
    devices, ways = file.column("accelerator"), file.column("scenario")
    lengths = ([_tokens(cell) for cell in file.column(name)] for name in ("input_len", "output_len"))
    return frozenset(
        (device, 0.0 if prompt is None and way == ANSWERS_ALONE else prompt, answer or None)
        for device, prompt, answer, way in zip(devices, *lengths, ways, strict=True)
        if way == ANSWERS_ALONE or (way != PROMPTS_ALONE and (prompt is not None or answer))
    )


@lru_cache(maxsize=4096)
def _tokens(cell: str) -> float | None:
    """Return a number of tokens; None of words."""
    return float(cell) if cell.isdecimal() else None


def _measurement(row: Any, seconds: float, rate: Any, unit: str) -> Measurement:
    source = str(row["source"])
    title = str(catalog.table("sources").set_index("key").loc[source, "title"])
    return Measurement(
        str(row["id"]),
        seconds,
        float(np.ravel(rate)[0]),
        unit,
        str(row["software"]),
        title.partition(",")[0].partition(":")[0],
        str(row["date"]),
        source,
    )


def _names(rows: Rows) -> list[str]:
    """Return the names of the numbers that identify a run; those of an engine differ between versions."""
    of_engines = {name for kind in SERVED for engine in engines(kind).values() for name in engine} | VERSION_FIELDS
    return sorted(name for name in rows.values if name not in NOT_IDENTIFYING | of_engines)


def _cases(rows: Rows, names: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the case of each row: engine, accelerator, network and all numbers."""
    size = len(rows)
    table = np.empty((size, len(names)))
    for at, name in enumerate(names):
        table[:, at] = np.asarray(rows.values[name], dtype=float)
    table += 0.0  # -0.0 is 0.0
    table[np.isnan(table)] = np.nan
    engines, devices = (np.broadcast_to(rows.key(name), (size,)) for name in ("engine", "accelerator"))
    index = np.broadcast_to(rows.network_index, (size,)) if rows.networks else np.full(size, -1)
    networks = [_network(*network) for network in rows.networks]
    for at in range(size):
        network = networks[index[at]] if index[at] >= 0 else ()
        yield engine_of(str(engines[at])), str(devices[at]), network, tuple(names), table[at].tobytes()


@lru_cache(maxsize=1024)
def _network(model: Any, arguments: str, seq: float | None) -> tuple[Any, ...]:
    """Return a network of the zoo by its builder and all arguments, stated or not; any other as it is."""
    workload = zoo.model(model, **json.loads(arguments or "{}")) if isinstance(model, str) else model
    if not workload.builder:
        return model, arguments, seq
    return workload.builder, json.dumps(zoo.all_arguments(workload), sort_keys=True, default=str), seq


def engine_of(level: str) -> str:
    """Return an engine without its year.

    Parameters
    ----------
    level : str
        Key of an engine.

    Returns
    -------
    str
        The same of all its versions.

    Examples
    --------
    >>> engine_of("vllm-2024"), engine_of("vllm"), engine_of("torch-3d")
    ('vllm', 'vllm', 'torch-3d')
    """
    name, _, year = level.rpartition("-")
    return name if name and year.isdecimal() and len(year) == 4 else level


@lru_cache(maxsize=1024)
def _runs(
    kind: str, accelerator: str, unit: str, terms: Any
) -> tuple[Any, np.ndarray, dict[tuple[Any, ...], list[int]]]:
    """Return measured runs of a kind on a device: the table, seconds of each, and the positions of the runs of each
    case."""
    table = tables.measurements_of(kind)
    frame = tables.measured_table(table)
    machines = {cell: tables.machine_of(cell)[0] for cell in frame["accelerator"].unique()}
    here = [cell for cell, machine in machines.items() if machine and machine.accelerator.key == accelerator]
    frame = frame[frame["accelerator"].isin(here)].reset_index(drop=True)
    cases: dict[tuple[Any, ...], list[int]] = {}
    if frame.empty:
        return frame, np.empty(0), cases
    scenario = tables.read(table, tables.without_outcomes(frame))
    if table != kind or kind == "inference":
        parts = [(at, part) for at, part in tables.split(scenario) if part.kind == kind]
        if not parts:
            return frame, np.empty(0), cases
        ((at, scenario),) = parts
        frame = frame.iloc[at].reset_index(drop=True)
    rows, values = terms.resolve(scenario), tables.measured(kind, frame)
    with np.errstate(all="ignore"):
        # Outcomes are times, or rates that fall as 1 / seconds.
        seconds = values if unit == "s" else np.asarray(terms.outcome(rows, np.ones(len(frame)))) / values
    good = np.isfinite(seconds) & (rows.why == "")
    for position, case in enumerate(_cases(rows, _names(rows))):
        if good[position]:
            cases.setdefault(case, []).append(position)
    return frame, seconds, cases
