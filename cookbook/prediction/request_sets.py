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
# Fields that take such a name, and the column of the table that each takes; tokens of an answer of a call without.
PROMPT, ANSWER, USUAL_ANSWER = "input_len", "output_len", 128
COLUMNS = {PROMPT: "prompt_tokens", ANSWER: "answer_tokens"}
# A name within other words is no coincidence from this number of letters on.
MIN_LETTERS = 8


@dataclass(frozen=True)
class RequestSet:
    """Mean lengths of the requests of one data set; NaN where they are not stated.

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
        """Return the tokens that the name means in a field."""
        return self.prompt if field == PROMPT else self.answer

    def told(self, field: str) -> Assumptions:
        """Return what is assumed where a field contains the name."""
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
    """Return the data set that words name, alone or among others; None where they name none.

    A version or a number behind a name makes it that of another data set.

    >>> within("Open-Orca").key, within("MLPerf OpenOrca dataset").key, within("1024"), within("LongBench v2")
    ('openorca', 'openorca', None, None)
    """
    names, wanted = index(TABLE, catalog.data_directory()), normalise(words[:200])
    if wanted in names:
        return _sets()[names[wanted]]
    named = [
        spelling
        for spelling in names
        if len(spelling) >= MIN_LETTERS
        and spelling in wanted
        and not wanted.partition(spelling)[2].removeprefix("v")[:1].isdigit()
    ]
    return _sets()[names[max(named, key=len)]] if named else None


def mean_tokens(field: str, name: str) -> float:
    """Return the tokens of a data set's name in a field; ValueError where it is none, or states none."""
    try:
        requests = _sets()[catalog.lookup(TABLE, name)]
    except UnknownName as unknown:
        raise refused(
            field,
            name,
            f"is neither a number nor a data set of the table {TABLE!r}; nearest: "
            f"{', '.join(unknown.nearest)}; give tokens, 0 to 1e+08, or one of these",
        ) from None
    if math.isnan(requests.tokens(field)):
        raise refused(field, name, ": nobody states how long its answers are; give output_len in tokens")
    return requests.tokens(field)


def is_name(value: Any) -> bool:
    """Return whether an argument is text that is no number, and so names a data set.

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
    """Yield the data sets in an argument, alone or in a list; text that is a number, or no name, is skipped."""
    for value in values if isinstance(values, (list, tuple)) else [values]:
        if is_name(value):
            try:
                yield _sets()[catalog.lookup(TABLE, value)]
            except UnknownName:
                continue


def answers_of(prompts: Any, answers: Any, usual: Any = USUAL_ANSWER) -> Any:
    """Return tokens of answers: as stated, else those of the data sets named as prompts, else the usual ones.

    >>> answers_of("sharegpt", None), answers_of(["sharegpt", 512], None), answers_of("sharegpt", 64)
    (203.0, [203.0, 128], 64)
    """
    if answers is not None:
        return answers
    if isinstance(prompts, (list, tuple)):
        lengths = [answers_of(prompt, None, usual) for prompt in prompts]
        return usual if all(length == usual for length in lengths) else lengths
    requests = next(stands_in(prompts), None)
    return usual if requests is None or math.isnan(requests.answer) else requests.answer


def told(prompts: Any, answers: Any) -> Assumptions | list[Assumptions]:
    """Return what is assumed of lengths for which data sets are named, of each entry of lists; "" where none is.

    `answers`: as the caller gives them, None where they follow from the prompts.

    >>> told("ShareGPT", None), told(512, 128)
    ('input_len = 230, the mean of sharegpt; output_len = 203, the mean of sharegpt', '')
    >>> told(["alpaca", 512], 64)
    ['input_len = 19, the mean of alpaca', '']
    """
    if next(stands_in(prompts), None) is None and next(stands_in(answers), None) is None:
        return Assumptions()
    lists = [lengths for lengths in (prompts, answers) if isinstance(lengths, (list, tuple)) and len(lengths) > 1]
    if lists:
        entries = ([entry(lengths, at) for lengths in (prompts, answers)] for at in range(len(lists[0])))
        return [_one(told(*entry)) for entry in entries]
    prompted, answered = (next(stands_in(lengths), None) for lengths in (prompts, answers))
    answered = prompted if answers is None and prompted else answered
    assumptions = (
        requests.told(field).taken for requests, field in ((prompted, PROMPT), (answered, ANSWER)) if requests
    )
    return Assumptions({name: value for values in assumptions for name, value in values.items()})


def _one(assumptions: Assumptions | list[Assumptions]) -> Assumptions:
    """Return what is assumed of one entry, which is no list."""
    return assumptions if isinstance(assumptions, Assumptions) else assumptions[0]


def entry(values: Any, at: int) -> Any:
    """Return one entry of an argument; a list of one stands for all."""
    return values if not isinstance(values, (list, tuple)) else values[at if len(values) > 1 else 0]


def sources_of(*values: Any) -> list[str]:
    """Return the sources of the data sets that are named in arguments."""
    return [source for value in values for requests in stands_in(value) for source in requests.sources]
