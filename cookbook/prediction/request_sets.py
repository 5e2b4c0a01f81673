"""Data sets of requests in the place of lengths: mean tokens of a prompt and of an answer, by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog import UnknownName
from cookbook.catalog.names import index, normalise
from cookbook.catalog.refusals import refused
from cookbook.prediction.assumptions import Assumptions

TABLE = "request_sets"
# Fields that a name may stand in, and the column of the table that each takes; tokens of an answer of a call without.
PROMPT, ANSWER, USUAL_ANSWER = "input_len", "output_len", 128
COLUMNS = {PROMPT: "prompt_tokens", ANSWER: "answer_tokens"}
# A name within other words is no chance from so many letters on.
LONG = 8


@dataclass(frozen=True)
class RequestSet:
    """Mean lengths of the requests of one data set; NaN where nobody states them.

    Attributes
    ----------
    key, name : str
    prompt, answer : float
        Whole tokens.
    sources : tuple of str
    """

    key: str
    name: str
    prompt: float
    answer: float
    sources: tuple[str, ...] = ()

    def tokens(self, field: str) -> float:
        """Tokens that the name stands for in a field."""
        return self.prompt if field == PROMPT else self.answer

    def told(self, field: str) -> Assumptions:
        """What is assumed where the name stands in a field."""
        if math.isnan(self.tokens(field)):
            return Assumptions({f"{field} is the usual one, as nobody states that of {self.key}": ""})
        return Assumptions({field: f"{self.tokens(field):g}, the mean of {self.key}"})


@lru_cache(maxsize=1)
def _sets() -> dict[str, RequestSet]:
    return {
        row["key"]: RequestSet(
            row["key"],
            row["name"],
            float(np.rint(row["prompt_tokens"])),
            float(np.rint(row["answer_tokens"])),
            tuple(row["source"].split(";")),
        )
        for row in catalog.table(TABLE).to_dict("records")
    }


@lru_cache(maxsize=4096)
def within(words: str) -> RequestSet | None:
    """The data set that words name, alone or among others; None where they name none.

    A version or a number behind a name makes it that of another data set.

    >>> within("Open-Orca").key, within("MLPerf OpenOrca dataset").key, within("1024"), within("LongBench v2")
    ('openorca', 'openorca', None, None)
    """
    known, wanted = index(TABLE, catalog.data_directory()), normalise(words[:200])
    if wanted in known:
        return _sets()[known[wanted]]
    named = [
        spelling
        for spelling in known
        if len(spelling) >= LONG
        and spelling in wanted
        and not wanted.partition(spelling)[2].removeprefix("v")[:1].isdigit()
    ]
    return _sets()[known[max(named, key=len)]] if named else None


def mean_tokens(field: str, name: str) -> float:
    """Tokens that the name of a data set stands for in a field; ValueError where it is none, or has none."""
    try:
        found = _sets()[catalog.lookup(TABLE, name)]
    except UnknownName as unknown:
        raise refused(
            field,
            name,
            f"is neither a number nor a data set of the table {TABLE!r}; nearest: "
            f"{', '.join(unknown.nearest)}; give tokens, 0 to 1e+08, or one of these",
        ) from None
    if math.isnan(found.tokens(field)):
        raise refused(field, name, ": nobody states how long its answers are; give output_len in tokens")
    return found.tokens(field)


def is_name(value: Any) -> bool:
    """Whether an argument is text that is no number, and so means a data set.

    >>> is_name("sharegpt"), is_name("512"), is_name(512)
    (True, False, False)
    """
    if not isinstance(value, str):
        return False
    try:
        units.si(value, "")
    except ValueError:
        return True
    return False


def stands_in(values: Any) -> Iterator[RequestSet]:
    """Data sets that stand in an argument, alone or in a list; text that is a number, or no name, is left alone."""
    for each in values if isinstance(values, (list, tuple)) else [values]:
        if is_name(each):
            try:
                yield _sets()[catalog.lookup(TABLE, each)]
            except UnknownName:
                continue


def answers_of(prompts: Any, answers: Any, usual: Any = USUAL_ANSWER) -> Any:
    """Tokens of answers: as given, else those of the data sets that stand in the place of prompts, else the usual ones.

    >>> answers_of("sharegpt", None), answers_of(["sharegpt", 512], None), answers_of("sharegpt", 64)
    (203.0, [203.0, 128], 64)
    """
    if answers is not None:
        return answers
    if isinstance(prompts, (list, tuple)):
        found = [answers_of(each, None, usual) for each in prompts]
        return usual if all(each == usual for each in found) else found
    known = next(stands_in(prompts), None)
    return usual if known is None or math.isnan(known.answer) else known.answer


def told(prompts: Any, answers: Any) -> Assumptions | list[Assumptions]:
    """What is assumed of lengths for which data sets stand, of each entry where there are lists; "" where none does.

    `answers`: as the caller gives them, None where they follow from the prompts.

    >>> told("ShareGPT", None), told(512, 128)
    ('input_len = 230, the mean of sharegpt; output_len = 203, the mean of sharegpt', '')
    >>> told(["alpaca", 512], 64)
    ['input_len = 19, the mean of alpaca', '']
    """
    if next(stands_in(prompts), None) is None and next(stands_in(answers), None) is None:
        return Assumptions()
    lists = [each for each in (prompts, answers) if isinstance(each, (list, tuple)) and len(each) > 1]
    if lists:
        entries = ([entry(each, at) for each in (prompts, answers)] for at in range(len(lists[0])))
        return [_one(told(*entry)) for entry in entries]
    asked, answered = (next(stands_in(each), None) for each in (prompts, answers))
    answered = asked if answers is None and asked else answered
    said = (each.told(field).taken for each, field in ((asked, PROMPT), (answered, ANSWER)) if each)
    return Assumptions({name: value for each in said for name, value in each.items()})


def _one(said: Assumptions | list[Assumptions]) -> Assumptions:
    """What is told of one entry, which holds no list."""
    return said if isinstance(said, Assumptions) else said[0]


def entry(values: Any, at: int) -> Any:
    """One entry of an argument; a list of one stands for all."""
    return values if not isinstance(values, (list, tuple)) else values[at if len(values) > 1 else 0]


def sources_of(*values: Any) -> list[str]:
    """Sources of the data sets that stand in arguments."""
    return [source for each in values for known in stands_in(each) for source in known.sources]
