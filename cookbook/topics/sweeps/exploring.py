"""Hundreds of millions of scenarios, of which only the best, the front and the distribution are kept."""

from __future__ import annotations

import inspect
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.fields import NUMERIC, Field, checked, fields
from cookbook.catalog.files import check_target, write_text
from cookbook.catalog.refusals import refused
from cookbook.progress_bar import progress_bar
from cookbook.topics.sweeps.chunks import EXECUTOR, spread
from cookbook.topics.sweeps.sweeping import KINDS, NUMBERS, WORDS, is_timed, listed_axes, named, part_answers, parts_of
from cookbook.units import shown

Columns = dict[str, np.ndarray]
Measure = str | Callable[[Columns], Any]
# Rows of a part, rows of a front at most, seconds between two writings of a checkpoint.
PART_ROWS, MAX_FRONT, CHECKPOINT_SECONDS = 1 << 18, 20_000, 5.0
# Relative error of a quantile, and the ratio of the bounds of a class that keeps it (Masson, Rim and Lee 2019, sec. 2).
QUANTILE_ERROR = 0.005
CLASS_RATIO = (1 + QUANTILE_ERROR) / (1 - QUANTILE_ERROR)
SHARES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
DIGEST = ', "digest": "'  # what follows reveals a damaged checkpoint
MINIMISE, MAXIMISE = "least", "most"


@dataclass(frozen=True)
class Explored:
    """Results of an exploration: the best rows, the front and quantiles.

    Attributes
    ----------
    rows, answered, fitting : int
        Combinations; those that have an answer; those of them that are not known to be too large for the memory.
    best : pandas.DataFrame
        The best rows in their order: number of the row, its axes, and the columns of `cookbook.sweep`.
    front : pandas.DataFrame
        The rows that no other is better than in every measure of the front (Pareto), in the order of their numbers.
    quantiles : pandas.DataFrame
        For each measure the value that such a share of the rows is not above; 0 and 1 are exact.
    error : float
        Relative error of the other quantiles at most [-].
    """

    rows: int
    answered: int
    fitting: int
    best: pd.DataFrame
    front: pd.DataFrame
    quantiles: pd.DataFrame
    error: float = QUANTILE_ERROR


@dataclass(frozen=True)
class _Question:
    """The question of every part, which is sent to the workers."""

    of: str
    values: dict[str, list[Any]]
    best: tuple[Measure, str]
    front: tuple[tuple[Measure, str], ...]
    quantiles: tuple[str, ...]
    keep: int
    fitting: bool
    size: int


MEASURES = Field.record(Mapping, what="dict", give='measures such as {"seconds": "least"}')


@checked(
    of=Field.choice(*KINDS),
    best=MEASURES,
    front=MEASURES,
    quantiles=Field.text(many=True, blank=True),
    keep=Field.count(high=100_000),
    fitting=Field.flag(),
    executor=EXECUTOR,
    checkpoint=Field.record(str, Path, what="path", give="the name of a file"),
    size=Field.count(1_000, 10_000_000),
    progress=Field.flag(),
)
def explore(
    of: str,
    *,
    best: Mapping[Measure, str] | None = None,
    front: Mapping[Measure, str] | None = None,
    quantiles: Sequence[str] = ("seconds", "memory_bytes"),
    keep: int = 20,
    fitting: bool = True,
    executor: Any = None,
    checkpoint: str | Path | None = None,
    size: int = PART_ROWS,
    progress: bool = True,
    **axes: Any,
) -> Explored:
    """Go through every combination of the values of each axis, and keep the best, the front and the distribution.

    A sweep without a table, so that hundreds of millions of combinations need no more memory than one part of them.
    What is found does not depend on where and in which order the parts are computed.

    Parameters
    ----------
    of : str
        "train_step", "forward_pass" or "generate".
    best : dict, optional
        One measure and "least" or "most": what rows are ranked by. A measure is a column of `cookbook.sweep`, an axis
        of numbers, or a function from such columns to one; {"seconds": "least"} if None. A row of which it is no
        number is not among the best. Not "rate" where a language model is trained: there it is the seconds of a step.
    front : dict, optional
        Measures, each with "least" or "most": no front if None.
    quantiles : sequence of str
        Columns or axes of numbers whose quantiles are computed.
    keep : int
        Rows to keep of the best, 1 to 100,000.
    fitting : bool
        Whether rows that are known not to fit in memory are left out.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Where to compute; here, one part after another, if None. Dask computes again what a dead worker had; a pool
        ends with its first dead worker, and a checkpoint is where the same call goes on with a new pool.
    checkpoint : path, optional
        File that keeps what is found so far; the same call goes on from it after the process died. Measures that are
        functions must then have a name at the top of a module, in a file or in a notebook; a changed text is another
        measure.
    size : int
        Rows of a part at most, 1,000 to 10 million: less needs less memory.
    progress : bool
        Whether to show the progress on standard error.
    **axes
        As of `cookbook.sweep`.

    Returns
    -------
    Explored
        Rows in all, best, front, quantiles with their error.

    Raises
    ------
    ValueError
        An argument out of its range; a checkpoint of another exploration; a front without end.
    RuntimeError
        A worker of a pool died.
    cookbook.catalog.UnknownName
        A name that no table has.

    References
    ----------
    Quantiles: Masson, Rim and Lee, "DDSketch", PVLDB 12(12), 2019, section 2: classes whose bounds grow by a ratio.

    Examples
    --------
    >>> found = explore("train_step", model="llama2_7b", accelerator="h100-sxm", devices=[8, 16, 32, 64],
    ...                 tp=[1, 2, 4, 8], global_batch=512, best={"tokens_per_s": "most"}, keep=2)
    >>> found.rows, len(found.best), bool(found.best["tokens_per_s"].is_monotonic_decreasing)
    (16, 2, True)
    """
    values = listed_axes(of, axes)
    ranked = _measures("best", {"seconds": MINIMISE} if best is None else best, of, values)
    if len(ranked) != 1:
        raise ValueError(f"best has {len(ranked)} measures: give one; several go into front")
    spreads = tuple(_column("quantiles", name, of, values) for name in quantiles)
    fronts = _measures("front", {} if front is None else front, of, values)
    question = _Question(of, values, ranked[0], fronts, spreads, keep, fitting, size)
    return _explored(question, executor, None if checkpoint is None else _file(checkpoint), progress)


def _measures(
    what: str, directions: Mapping[Measure, str], of: str, values: dict[str, list[Any]]
) -> tuple[tuple[Measure, str], ...]:
    for measure, direction in directions.items():
        if not isinstance(direction, str) or direction not in (MINIMISE, MAXIMISE):
            raise refused(what, direction, f"for {shown(measure)}: give 'least' or 'most'")
    return tuple(
        (measure if callable(measure) else _column(what, measure, of, values), way)
        for measure, way in directions.items()
    )


def _column(what: str, name: str, of: str, values: dict[str, list[Any]]) -> str:
    """Return a measure by its name: a column of numbers, or an axis of numbers."""
    names = [*NUMBERS, *(axis for axis in values if fields()[axis].type in NUMERIC)]
    if not isinstance(name, str) or name not in names:
        raise refused(what, name, f"is no measure; there are {', '.join(names)}")
    if name == "rate" and any(is_timed(of, model) for model in values["model"]):
        raise ValueError(
            f"{what} = 'rate' is the seconds of a step where a language model is trained, and samples a "
            "second of other networks: give tokens_per_s or seconds"
        )
    return name


def _explored(question: _Question, executor: Any, path: Path | None, progress: bool) -> Explored:
    parts = parts_of(question.values, question.size)
    rows = math.prod(len(entries) for entries in question.values.values())
    mark = _fingerprint(question) if path else ""
    result, done = _load(path, mark, len(parts)) if path and path.exists() else (_nothing(), set[int]())
    if path and not path.exists():
        _save(path, mark, result, done)  # so that a missing folder is reported now
    begun = saved = time.monotonic()
    for number, part in spread(_reduced, question, (at for at in range(len(parts)) if at not in done), executor):
        result = _merged(question, [result, part])
        done.add(number)
        now = time.monotonic()
        if path and now - saved >= CHECKPOINT_SECONDS:
            _save(path, mark, result, done)
            saved = time.monotonic()
        if progress:
            progress_bar(result["rows"], rows, since=begun)
    if path:
        _save(path, mark, result, done)
    return Explored(
        result["rows"],
        result["answered"],
        result["fitting"],
        _table(question.values, result["best"]),
        _table(question.values, result["front"]),
        _quantiles(question, result["classes"]),
    )


# A part, and how two of them become one.


def _nothing() -> dict[str, Any]:
    return {"rows": 0, "answered": 0, "fitting": 0, "best": {}, "front": {}, "classes": {}}


def _reduced(question: _Question, number: int) -> dict[str, Any]:
    """Return the results of one part."""
    parts = [_nothing()]
    for rows, answer in part_answers(question.of, question.values, number, question.size):
        good = np.isfinite(answer["seconds"])
        fits = good & (answer["fits"] != "no")
        at = np.flatnonzero(fits if question.fitting else good)
        columns = {name: answer[name][at] for name in (*NUMBERS, *WORDS)}
        seen = _Seen(columns, question.values, rows[at])
        part = {
            "rows": len(rows),
            "answered": int(good.sum()),
            "fitting": int(fits.sum()),
            "best": {},
            "front": {},
            "classes": {name: _classes(seen[name]) for name in question.quantiles},
        }
        for what, measures in (("best", (question.best,)), ("front", question.front)):
            if measures and len(at):
                scores = np.column_stack([_score(seen, *measure) for measure in measures])
                selected = _kept(what, scores, rows[at], question.keep)
                part[what] = {"row": rows[at][selected], "score": scores[selected]} | {
                    n: columns[n][selected] for n in columns
                }
        parts.append(part)
    return _merged(question, parts)


class _Seen(dict[str, np.ndarray]):
    """Columns of some rows; an axis becomes a column when it is first used."""

    def __init__(self, columns: Columns, values: dict[str, list[Any]], rows: np.ndarray) -> None:
        super().__init__(columns)
        self._values, self._rows = values, rows

    def __missing__(self, name: str) -> np.ndarray:
        if name not in self._values:
            raise ValueError(f"a measure asks for {shown(name)}, which is no axis and no column")
        entries = self._values[name]
        inner = math.prod(len(other) for other in list(self._values.values())[list(self._values).index(name) + 1 :])
        levels = np.array([np.nan if entry is None else entry for entry in entries])
        self[name] = levels[self._rows // inner % len(entries)]
        return self[name]


def _score(seen: _Seen, measure: Measure, way: str) -> np.ndarray:
    """Return scores, of which less is better; what is no number is worse than any."""
    value = np.broadcast_to(
        np.asarray(measure(seen) if callable(measure) else seen[measure], dtype=float), seen["seconds"].shape
    )
    return np.where(np.isnan(value), np.inf, -value if way == MAXIMISE else value)


def _kept(what: str, scores: np.ndarray, rows: np.ndarray, keep: int) -> np.ndarray:
    """Return positions of the best rows, or of the front."""
    return _best(scores, rows, keep) if what == "best" else pareto_front(scores, rows, MAX_FRONT)


def _best(scores: np.ndarray, rows: np.ndarray, keep: int) -> np.ndarray:
    """Return positions of the best rows; of equals the first ones; rows without a number are not among them."""
    score = scores[:, 0]
    some = np.flatnonzero(np.isfinite(score))
    if len(some) > keep:
        some = some[score[some] <= np.partition(score[some], keep - 1)[keep - 1]]
    return some[np.lexsort((rows[some], score[some]))][:keep]


def pareto_front(scores: np.ndarray, rows: np.ndarray, most: float = math.inf) -> np.ndarray:
    """Return positions of the points that no other point is at least as good as; of equal points, the first row.

    Parameters
    ----------
    scores : numpy.ndarray
        One row per point, one column per measure: the less, the better. What is not finite is on no front.
    rows : numpy.ndarray of int
        Number of each point; the front comes in the order of these.
    most : float
        Points that a front may have.

    Raises
    ------
    ValueError
        For a front of more points.

    Examples
    --------
    >>> pareto_front(np.array([[1.0, 5.0], [2.0, 2.0], [2.0, 3.0], [4.0, 1.0]]), np.arange(4)).tolist()
    [0, 1, 3]
    """
    order = np.lexsort((rows, *scores.T[::-1]))
    points = scores[order]
    fresh = np.r_[True, (points[1:] != points[:-1]).any(axis=1)] & np.isfinite(points).all(axis=1)
    order, points = order[fresh], points[fresh]
    if points.shape[1] <= 2 and len(points):
        last = points[:, -1]
        selected = order[np.r_[True, last[1:] < np.minimum.accumulate(last)[:-1]] if points.shape[1] == 2 else [0]]
        return selected[np.argsort(rows[selected], kind="stable")]
    front = []
    while len(points):  # the first is not beaten by any that follows: it comes first in the order of measures
        front.append(order[0])
        left = (points < points[0]).any(axis=1)
        order, points = order[left], points[left]
        if len(front) > most:
            raise ValueError(f"the front has more than {most:,} points: give fewer measures, or coarser ones")
    selected = np.array(front, dtype=int)
    return selected[np.argsort(rows[selected], kind="stable")]


def _classes(values: np.ndarray) -> dict[str, Any]:
    """Return the number of values in each class, each bound `CLASS_RATIO` times the last one, and their least and most.

    Classes have numbers and no array: over all positive floats there are 142,000, of which a few hundred occur.
    """
    good = values[np.isfinite(values)]
    above = good[good > 0]
    places, counts = np.unique(np.ceil(np.log(above) / math.log(CLASS_RATIO)).astype(int), return_counts=True)
    by_class = dict(zip(places.tolist(), counts.tolist(), strict=True))
    ends = {"least": float(good.min()), "most": float(good.max())} if len(good) else {}
    return {"not_above_0": len(good) - len(above), "counts": by_class, **ends}


def _merged(question: _Question, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return several parts as one; in any order, and any grouping."""
    merged = {name: sum(part[name] for part in parts) for name in ("rows", "answered", "fitting")}
    for what in ("best", "front"):
        some = [part[what] for part in parts if len(part[what].get("row", ()))]  # none where no score is a number
        merged[what] = {name: np.concatenate([part[name] for part in some]) for name in some[0]} if some else {}
        if len(some) > 1:
            scores, rows = merged[what]["score"], merged[what]["row"]
            selected = _kept(what, scores, rows, question.keep)
            merged[what] = {name: column[selected] for name, column in merged[what].items()}
    merged["classes"] = {
        name: _summed([part["classes"][name] for part in parts if part["classes"]]) for name in question.quantiles
    }
    return merged


def _summed(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    counts = Counter[int]()
    for part in parts:
        counts.update(part["counts"])
    ends = {
        name: of(part[name] for part in parts if name in part)
        for name, of in (("least", min), ("most", max))
        if any(name in part for part in parts)
    }
    return {"not_above_0": sum(part["not_above_0"] for part in parts), "counts": counts, **ends}


# Tables of what was found.


def _table(values: dict[str, list[Any]], selected: Columns) -> pd.DataFrame:
    if not selected:
        return pd.DataFrame(columns=["row", *values, *NUMBERS, *WORDS])
    columns, inner = {"row": selected["row"]}, math.prod(len(entries) for entries in values.values())
    for name, entries in values.items():
        inner //= len(entries)
        columns[name] = [named(entries[at]) for at in selected["row"] // inner % len(entries)]  # type: ignore[assignment]
    return pd.DataFrame(columns | {name: selected[name] for name in (*NUMBERS, *WORDS)})


def _quantiles(question: _Question, classes: Mapping[str, Any]) -> pd.DataFrame:
    columns = {
        name: [_quantile(classes.get(name) or _classes(np.empty(0)), share) for share in SHARES]
        for name in question.quantiles
    }
    return pd.DataFrame(columns, index=pd.Index(SHARES, name="share"))


def _quantile(classes: Mapping[str, Any], share: float) -> float:
    """Return the value of rank ceil(share × count), at least 1: the middle of its class."""
    if "least" not in classes:
        return math.nan
    if share in (0.0, 1.0):
        return float(classes["most" if share else "least"])
    places = sorted(classes["counts"])
    seen = np.cumsum([classes["not_above_0"], *(classes["counts"][place] for place in places)])
    at = int(np.searchsorted(seen, max(math.ceil(share * int(seen[-1])), 1)))
    if not at:
        return min(0.0, float(classes["least"]))
    middle = 2 * CLASS_RATIO ** places[at - 1] / (CLASS_RATIO + 1)
    return float(min(max(middle, classes["least"]), classes["most"]))


# The file from which an exploration goes on.


def _fingerprint(question: _Question) -> str:
    """Return a digest of the question and the tables."""

    def told(value: Any) -> Any:
        if not callable(value):
            raise ValueError(f"{shown(value)} cannot be kept in a checkpoint: give names, numbers and dicts")
        if not isinstance(value, FunctionType) or "<" in value.__qualname__ or "." in value.__qualname__:
            raise ValueError(
                "a checkpoint takes measures that are columns, or functions with a name at the top of a "
                f"module; {shown(value)} is neither"
            )
        try:
            return [value.__module__, value.__qualname__, inspect.getsource(value)]
        except OSError:
            raise ValueError(
                "a checkpoint tells a measure by its text, which Python does not know for "
                f"{shown(value)}: define it in a file or in a cell of a notebook"
            ) from None

    tables = sorted(
        (path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in catalog.data_directory().glob("*.csv")
    )
    request = {name: each for name, each in vars(question).items() if name not in ("best", "front")}
    measures = [[measure, way] for measure, way in (question.best, *question.front)]
    text = json.dumps([sys.modules["cookbook"].__version__, request, measures, tables], default=told, sort_keys=True)
    return sha256(text.encode()).hexdigest()


def _file(checkpoint: Any) -> Path:
    """Return the file of a checkpoint, where one can be written."""
    if not str(checkpoint).strip("\0 "):
        raise refused("checkpoint", checkpoint, "is no path; give the name of a file")
    try:
        return check_target(checkpoint)
    except (ValueError, OSError) as problem:
        why = "" if isinstance(problem, OSError) or "null byte" in str(problem) else f" ({problem})"
        raise refused("checkpoint", checkpoint, f"cannot be written{why}; give another") from None


def _save(path: Path, mark: str, result: Mapping[str, Any], done: set[int]) -> None:
    """Write it whole or not at all: a process that dies here leaves the old one or the new one."""
    text = json.dumps({"question": mark, "done": sorted(done), "found": result}, default=lambda column: column.tolist())
    try:
        write_text(path, f'{text[:-1]}{DIGEST}{_digest(text)}"}}')
    except OSError as problem:
        raise ValueError(
            f"checkpoint = {str(path)!r} cannot be written ({problem.strerror}); make room or give "
            "another. What it held before is whole; the same call goes on from it"
        ) from None


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _load(path: Path, mark: str, parts: int) -> tuple[dict[str, Any], set[int]]:
    """Return the results of an earlier run, and the parts that they rest on."""
    try:
        text, _, digest = path.read_text(encoding="utf-8").rpartition(DIGEST)
        if digest != f'{_digest(f"{text}}}")}"}}':
            raise ValueError("it is not as it was written")
        document = json.loads(f"{text}}}")
        question, done, result = document["question"], {int(part) for part in document["done"]}, document["found"]
        for what in ("best", "front"):
            result[what] = {
                name: np.array(column, dtype=object if name in WORDS else int if name == "row" else float)
                for name, column in result[what].items()
            }
        for classes in result["classes"].values():
            classes["counts"] = {int(place): count for place, count in classes["counts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"checkpoint = {str(path)!r} is no checkpoint, or it was damaged: give another file, or delete it"
        ) from None
    if question != mark or not done <= set(range(parts)):
        raise ValueError(
            f"checkpoint = {str(path)!r} is of another exploration, or of other tables: give the "
            "arguments of that one, another file, or delete it"
        )
    return result, done
