"""Questions whose answers are public figures: read, checked and asked through the doors.

``python tests/published/canonical.py`` asks all of them and writes the tables of docs/questions-you-can-check.md and
data/known_answers.csv; with the name of a kind, such as ``run``, it prints those alone and writes nothing.
"""

from __future__ import annotations

import csv
import hashlib
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import cookbook as cb
from cookbook.prediction.api import Plan

TABLE = Path(__file__).with_name("canonical.csv")
PAGE = Path(__file__).parents[2] / "docs" / "questions-you-can-check.md"
ANSWERS = Path(__file__).parents[2] / "data" / "known_answers.csv"
KINDS = ("one user", "prompt", "saturation", "one pass", "training", "run", "fine-tuning")
HALVES = ("open", "held back")
UNITS = {
    "rate": {"tokens/s": 1.0, "images/s": 1.0, "sequences/s": 1.0},
    "time": {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0},
    "device time": {"device h": 3600.0},
    "bytes": {"GB": 1e9, "GiB": 2.0**30},
}
MEASURED = ("inference", "training_classic", "training_transformer")
Ends = tuple[float, float, float]


class Refused(Exception):
    """A door gave no answer; the text is its reason."""


@dataclass(frozen=True)
class Question:
    """One row of the table; `arguments` is the call, `times` what a reader multiplies the part of the answer by."""

    id: str
    kind: str
    question: str
    door: str
    arguments: Mapping[str, Any]
    part: str
    times: float
    unit: str
    published: float
    source: str
    row: str
    recalled: str
    expected: str
    note: str

    @property
    def half(self) -> str:
        """Held back by the hash of the id alone, so that nobody can choose it."""
        return HALVES[int(hashlib.sha256(self.id.encode()).hexdigest()[0], 16) % 2 == 0]


@dataclass(frozen=True)
class Answer:
    """What a door said, in the unit of the question; or why it said nothing."""

    question: Question
    point: float = math.nan
    low: float = math.nan
    high: float = math.nan
    why: str = ""

    @property
    def error(self) -> float:
        return abs(self.point / self.question.published - 1)

    @property
    def inside(self) -> bool:
        return self.low <= self.question.published <= self.high


def _inverse(amount: float, seconds: Ends) -> Ends:
    low, point, high = seconds
    return amount / high, amount / point, amount / low


def _time(found: Any) -> Ends:
    if found.fits == "no":
        raise Refused("does not fit in device memory")
    return float(found.low80), float(found.point), float(found.high80)


def _rate(found: Any) -> Ends:
    return _inverse(float(found.rate * found.point), _time(found))


def _row(table: Any) -> Any:
    row = table.iloc[0]
    if row["why"] and row.get("fits") != "yes":
        raise Refused(str(row["why"]))
    return row


def _served(found: Any) -> Ends:
    row, name = _row(found.table), "output_tokens_per_second"
    return row[f"{name}_low80"], row[name], row[f"{name}_high80"]


def _days(found: Any, each: float = 86400.0) -> Ends:
    row = _row(found.table)
    return row["days_low"] * each, row["days"] * each, row["days_high"] * each


def _step(found: Any) -> Ends:
    row = _row(found.table)
    return row["step_low"], row["step_seconds"], row["step_high"]


def _tokens(found: Any) -> Ends:
    row = _row(found.table)
    return _inverse(row["tokens_per_second"] * row["step_seconds"], _step(found))


def _memory(found: Any) -> Ends:
    row = found.table.iloc[0]
    return row["memory_low"], row["memory_bytes"], row["memory_high"]


# Parts of the answers of each door: what they measure, and how to read them, with what was asked.
PARTS: dict[tuple[str, str], tuple[str, Callable[[Any, Mapping[str, Any]], Ends]]] = {
    ("generate", "answer rate"): ("rate", lambda found, _: _rate(found)),
    ("generate", "token rate"): ("rate", lambda found, asked: _inverse(asked.get("batch", 1), _time(found))),
    ("generate", "prompt rate"): ("rate", lambda found, asked: _inverse(asked["input_len"], _time(found))),
    ("generate", "first token"): ("time", lambda found, _: _time(found)),
    ("generate", "time"): ("time", lambda found, _: _time(found)),
    ("serve", "answer rate"): ("rate", lambda found, _: _served(found)),
    ("forward_pass", "rate"): ("rate", lambda found, _: _rate(found)),
    ("forward_pass", "time"): ("time", lambda found, _: _time(found)),
    ("train_step", "rate"): ("rate", lambda found, _: _rate(found)),
    ("plan_run", "days"): ("time", lambda found, _: _days(found)),
    ("plan_run", "device hours"): ("device time", lambda found, asked: _days(found, 86400.0 * asked["devices"])),
    ("plan_run", "step"): ("time", lambda found, _: _step(found)),
    ("plan_run", "token rate"): ("rate", lambda found, _: _tokens(found)),
    ("finetune", "token rate"): ("rate", lambda found, _: _tokens(found)),
    ("finetune", "memory"): ("bytes", lambda found, _: _memory(found)),
}
DOORS = tuple(dict.fromkeys(door for door, _ in PARTS))
DELAYS = {"token rate": "token", "prompt rate": "first token", "first token": "first token"}


def allowed(door: str) -> set[str]:
    """Names of the arguments of a door."""
    names = {
        name
        for name, each in inspect.signature(getattr(cb, door)).parameters.items()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    }
    return names | {*Plan.__annotations__} if door == "train_step" else names


def read(path: Path = TABLE) -> tuple[Question, ...]:
    """The questions; ValueError names the first row and cell that cannot be."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file, strict=True)
        columns = [each.name for each in fields(Question)]
        if set(lines.fieldnames or ()) != set(columns):
            raise ValueError(f"columns {lines.fieldnames} are not {columns}")
        found = [_question(line) for line in lines]
    for number, each in enumerate(found):
        if each.id in {other.id for other in found[:number]}:
            raise ValueError(f"{each.id}: id is there twice")
    return tuple(found)


def _question(line: Mapping[str, Any]) -> Question:
    name = line["id"]

    def wrong(column: str, why: str) -> ValueError:
        return ValueError(f"{name}: {column} = {line[column]!r} {why}")

    if None in line or None in line.values() or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise ValueError(f"{name}: a cell too many or too few, or an id with other signs than a-z, 0-9 and -")
    if line["kind"] not in KINDS:
        raise wrong("kind", f"is not one of {', '.join(KINDS)}")
    if line["door"] not in DOORS:
        raise wrong("door", f"is not one of {', '.join(DOORS)}")
    if (line["door"], line["part"]) not in PARTS:
        raise wrong("part", f"is none of cb.{line['door']}: {', '.join(p for d, p in PARTS if d == line['door'])}")
    try:
        arguments = json.loads(line["arguments"])
    except ValueError as problem:
        raise wrong("arguments", f"is not JSON: {problem}") from None
    if not isinstance(arguments, dict):
        raise wrong("arguments", "is no JSON object")
    if unknown := sorted(set(arguments) - allowed(line["door"])):
        raise wrong("arguments", f"has {', '.join(unknown)}, which cb.{line['door']} does not take")
    if line["door"] == "generate" and arguments.get("delay_of") != DELAYS.get(line["part"]):
        raise wrong("arguments", f"needs delay_of = {DELAYS.get(line['part'])!r} for {line['part']}")
    what = PARTS[line["door"], line["part"]][0]
    if line["unit"] not in UNITS[what]:
        raise wrong("unit", f"is no unit of a {what}: {', '.join(UNITS[what])}")
    for column in ("times", "published"):
        try:
            good = 0 < float(line[column]) < math.inf
        except ValueError:
            good = False
        if not good:
            raise wrong(column, "is no number above 0")
    if line["recalled"] not in ("yes", "no"):
        raise wrong("recalled", "is neither yes nor no")
    for column in ("question", "source", *(("note",) if float(line["times"]) != 1 else ())):
        if not line[column].strip():
            raise wrong(column, "is empty")
    if not line["source"].startswith("https://") and line["source"] not in _keys():
        raise wrong("source", "is neither an address nor a key of data/sources.csv")
    if line["row"] and line["row"] not in _measured():
        raise wrong("row", f"is none of {', '.join(MEASURED)}")
    return Question(
        **{**line, "arguments": arguments, "times": float(line["times"]), "published": float(line["published"])}
    )


@lru_cache(maxsize=1)
def _keys() -> frozenset[str]:
    return frozenset(cb.table("sources")["key"])


@lru_cache(maxsize=1)
def _measured() -> Mapping[str, Mapping[str, Any]]:
    """Rows of the measured tables by id."""
    return {row["id"]: row for name in MEASURED for row in cb.table(name).to_dict("records")}


def measured(question: Question) -> Mapping[str, Any]:
    """The row of our own tables that holds the figure."""
    return _measured()[question.row]


def ask(question: Question) -> Answer:
    """The part of the door's answer that the question is about, in its unit."""
    what, read_part = PARTS[question.door, question.part]
    try:
        found = getattr(cb, question.door)(**question.arguments)
        low, point, high = (float(each) for each in read_part(found, question.arguments))
    except (ValueError, KeyError, Refused) as problem:
        return Answer(question, why=str(problem.args[0]) if problem.args else repr(problem))
    if not (0 < point < math.inf and 0 < low <= point <= high):
        return Answer(question, why=f"no number: {point} ({low} to {high})")
    factor = question.times / UNITS[what][question.unit]
    return Answer(question, point * factor, low * factor, high * factor)


@dataclass(frozen=True)
class Score:
    """Questions of one group that were answered."""

    questions: int
    answered: int
    error: float
    inside: float


def score(answers: Iterable[Answer]) -> Score:
    """Median error and share inside the 80 % interval, of those answered."""
    all_of = list(answers)
    known = [each for each in all_of if not each.why]
    if not known:
        return Score(len(all_of), 0, math.nan, math.nan)
    return Score(
        len(all_of),
        len(known),
        float(np.median([each.error for each in known])),
        sum(each.inside for each in known) / len(known),
    )


def groups(answers: list[Answer]) -> dict[str, Score]:
    """Scores of all, of both halves, of figures that our tables hold or not, and of each kind."""
    chosen: dict[str, Callable[[Question], bool]] = {"all": lambda _: True}
    chosen |= {half: lambda each, half=half: each.half == half for half in HALVES}
    chosen["also a row of our tables"] = lambda each: bool(each.row)
    chosen["no row of our tables"] = lambda each: not each.row
    chosen |= {kind: lambda each, kind=kind: each.kind == kind for kind in KINDS}
    return {name: score(one for one in answers if takes(one.question)) for name, takes in chosen.items()}


def _shown(number: float) -> str:
    """Three digits, and no more zeros than that."""
    if not number:
        return "0"
    rounded = round(number, 2 - math.floor(math.log10(abs(number))))
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def _lines(head: list[str], rows: Iterable[list[str]]) -> str:
    table = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in table) + "\n"


def scores(answers: list[Answer]) -> str:
    """Scores by group, as Markdown."""
    head = ["questions", "asked", "answered", "median error", "80 % interval contains"]
    return _lines(
        head,
        (
            [name, f"{each.questions}", f"{each.answered}", f"{100 * each.error:.0f} %", f"{100 * each.inside:.0f} %"]
            for name, each in groups(answers).items()
        ),
    )


def answered(answers: list[Answer], kind: str) -> str:
    """Every question of a kind beside its answer, as Markdown."""
    rows = list[list[str]]()
    for each in (one for one in answers if one.question.kind == kind):
        asked = each.question
        mark = " (recalled)" if asked.recalled == "yes" else ""
        if each.why:
            told = [f"no answer: …{asked.expected}…", "", ""]
        else:
            ends = f"{_shown(each.low)} to {_shown(each.high)}"
            told = [_shown(each.point), ends, "yes" if each.inside else "no"]
        source = f"[page]({asked.source})" if asked.source.startswith("https://") else asked.source
        rows.append([asked.question, f"{_shown(asked.published)} {asked.unit}{mark}", *told, asked.half, source])
    return _lines(["question", "published", "predicted", "80 % interval", "inside", "half", "source"], rows)


def parts_of_page(answers: list[Answer]) -> dict[str, str]:
    """What stands between the marks of the page, by mark."""
    return {"scores": scores(answers)} | {kind.replace(" ", "-"): answered(answers, kind) for kind in KINDS}


def rows_of(answers: list[Answer]) -> list[dict[str, Any]]:
    """Rows of the table ``known_answers``: questions and what was answered, to four digits."""
    rows = []
    for each in answers:
        asked = each.question
        ends = {"predicted": each.point, "low_80": each.low, "high_80": each.high}
        rows.append(
            {
                "question": asked.question,
                "kind": asked.kind,
                "half": asked.half,
                "published": asked.published,
                "unit": asked.unit,
                **{name: "" if each.why else float(f"{end:.4g}") for name, end in ends.items()},
                "why": each.why and f"…{asked.expected}…",
                "recalled": asked.recalled,
                "page": asked.source,
                "how": "derived",
                "source": "dl-cookbook-validation",
            }
        )
    return rows


def between(name: str) -> re.Pattern[str]:
    """What stands between the two marks of a name."""
    return re.compile(rf"(?s)(?<=<!-- {name}: start -->\n).*?(?=<!-- {name}: end -->)")


def main(words: list[str]) -> None:
    """Ask, and write the page or print a kind."""
    asked = [ask(each) for each in read() if not words or each.kind in words]
    if words:
        for word in words:
            print(answered(asked, word))
        return
    text = PAGE.read_text(encoding="utf-8")
    for name, table in parts_of_page(asked).items():
        text = between(name).sub(lambda _, table=table: table, text)
    PAGE.write_text(text, encoding="utf-8")
    with ANSWERS.open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, rows_of(asked)[0], lineterminator="\n")
        lines.writeheader()
        lines.writerows(rows_of(asked))
    print(scores(asked))


if __name__ == "__main__":
    main(sys.argv[1:])
