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
from cookbook.topics.sweeps.sweeping import KINDS, NUMBERS, WORDS, is_timed, listed_axes, part_answers, parts_of
from cookbook.units import shown

Columns = dict[str, np.ndarray]
Measure = str | Callable[[Columns], Any]
# Rows of a part, rows of a front at most, seconds between two writings of a checkpoint.
PART, MOST_FRONT, EVERY = 1 << 18, 20_000, 5.0
# Relative error of a quantile, and the ratio of the bounds of a class that keeps it (Masson, Rim and Lee 2019, sec. 2).
ERROR = 0.005
RATIO = (1 + ERROR) / (1 - ERROR)
SHARES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
DIGEST = ', "digest": "'  # what follows tells a checkpoint that was damaged
LEAST, MOST = "least", "most"


@dataclass(frozen=True)
class Explored:
    """What is left of an exploration.

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
    error: float = ERROR


@dataclass(frozen=True)
class _Question:
    """What every part is asked; travels to the workers."""

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
    size: int = PART,
    progress: bool = True,
    **axes: Any,
) -> Explored:
    """Go through every combination of the values of each axis, and keep the best, the front and the distribution.

    A sweep that holds no table, so that hundreds of millions of combinations need no more memory than one part of them.
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
        Columns or axes of numbers of which to tell how they are distributed.
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
        Whether to show on standard error how far it is.
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
    ranked = _measures("best", {"seconds": LEAST} if best is None else best, of, values)
    if len(ranked) != 1:
        raise ValueError(f"best has {len(ranked)} measures: give one; several go into front")
    spreads = tuple(_column("quantiles", each, of, values) for each in quantiles)
    fronts = _measures("front", {} if front is None else front, of, values)
    question = _Question(of, values, ranked[0], fronts, spreads, keep, fitting, size)
    return _explored(question, executor, None if checkpoint is None else _file(checkpoint), progress)


def _measures(
    what: str, given: Mapping[Measure, str], of: str, values: dict[str, list[Any]]
) -> tuple[tuple[Measure, str], ...]:
    for measure, direction in given.items():
        if not isinstance(direction, str) or direction not in (LEAST, MOST):
            raise refused(what, direction, f"for {shown(measure)}: give 'least' or 'most'")
    return tuple((each if callable(each) else _column(what, each, of, values), way) for each, way in given.items())


def _column(what: str, name: str, of: str, values: dict[str, list[Any]]) -> str:
    """A measure by its name: a column of numbers, or an axis of numbers."""
    known = [*NUMBERS, *(axis for axis in values if fields()[axis].type in NUMERIC)]
    if not isinstance(name, str) or name not in known:
        raise refused(what, name, f"is no measure; there are {', '.join(known)}")
    if name == "rate" and any(is_timed(of, each) for each in values["model"]):
        raise ValueError(
            f"{what} = 'rate' is the seconds of a step where a language model is trained, and samples a "
            "second of other networks: give tokens_per_s or seconds"
        )
    return name


def _explored(question: _Question, executor: Any, path: Path | None, progress: bool) -> Explored:
    parts = parts_of(question.values, question.size)
    rows = math.prod(len(each) for each in question.values.values())
    mark = _fingerprint(question) if path else ""
    found, done = _load(path, mark, len(parts)) if path and path.exists() else (_nothing(), set[int]())
    if path and not path.exists():
        _save(path, mark, found, done)  # so that a folder that is not there is told now
    begun = saved = time.monotonic()
    for number, part in spread(_reduced, question, (at for at in range(len(parts)) if at not in done), executor):
        found = _merged(question, [found, part])
        done.add(number)
        now = time.monotonic()
        if path and now - saved >= EVERY:
            _save(path, mark, found, done)
            saved = time.monotonic()
        if progress:
            progress_bar(found["rows"], rows, since=begun)
    if path:
        _save(path, mark, found, done)
    return Explored(
        found["rows"],
        found["answered"],
        found["fitting"],
        _table(question.values, found["best"]),
        _table(question.values, found["front"]),
        _quantiles(question, found["classes"]),
    )


# A part, and how two of them become one.


def _nothing() -> dict[str, Any]:
    return {"rows": 0, "answered": 0, "fitting": 0, "best": {}, "front": {}, "classes": {}}


def _reduced(question: _Question, number: int) -> dict[str, Any]:
    """What is left of one part."""
    found = [_nothing()]
    for rows, told in part_answers(question.of, question.values, number, question.size):
        good = np.isfinite(told["seconds"])
        fits = good & (told["fits"] != "no")
        at = np.flatnonzero(fits if question.fitting else good)
        known = {name: told[name][at] for name in (*NUMBERS, *WORDS)}
        seen = _Seen(known, question.values, rows[at])
        one = {
            "rows": len(rows),
            "answered": int(good.sum()),
            "fitting": int(fits.sum()),
            "best": {},
            "front": {},
            "classes": {name: _classes(seen[name]) for name in question.quantiles},
        }
        for what, measures in (("best", (question.best,)), ("front", question.front)):
            if measures and len(at):
                scores = np.column_stack([_score(seen, *each) for each in measures])
                kept = _kept(what, scores, rows[at], question.keep)
                one[what] = {"row": rows[at][kept], "score": scores[kept]} | {n: known[n][kept] for n in known}
        found.append(one)
    return _merged(question, found)


class _Seen(dict[str, np.ndarray]):
    """Columns of some rows; an axis becomes a column when it is asked for."""

    def __init__(self, known: Columns, values: dict[str, list[Any]], rows: np.ndarray) -> None:
        super().__init__(known)
        self._values, self._rows = values, rows

    def __missing__(self, name: str) -> np.ndarray:
        if name not in self._values:
            raise ValueError(f"a measure asks for {shown(name)}, which is no axis and no column")
        given = self._values[name]
        inner = math.prod(len(each) for each in list(self._values.values())[list(self._values).index(name) + 1 :])
        levels = np.array([np.nan if each is None else each for each in given])
        self[name] = levels[self._rows // inner % len(given)]
        return self[name]


def _score(seen: _Seen, measure: Measure, way: str) -> np.ndarray:
    """The less, the better; what is no number is worse than any."""
    value = np.broadcast_to(
        np.asarray(measure(seen) if callable(measure) else seen[measure], dtype=float), seen["seconds"].shape
    )
    return np.where(np.isnan(value), np.inf, -value if way == MOST else value)


def _kept(what: str, scores: np.ndarray, rows: np.ndarray, keep: int) -> np.ndarray:
    """Places of the best, or of the front."""
    return _best(scores, rows, keep) if what == "best" else pareto_front(scores, rows, MOST_FRONT)


def _best(scores: np.ndarray, rows: np.ndarray, keep: int) -> np.ndarray:
    """Places of the best; of equals, the first rows; what has no number is not among them."""
    score = scores[:, 0]
    some = np.flatnonzero(np.isfinite(score))
    if len(some) > keep:
        some = some[score[some] <= np.partition(score[some], keep - 1)[keep - 1]]
    return some[np.lexsort((rows[some], score[some]))][:keep]


def pareto_front(scores: np.ndarray, rows: np.ndarray, most: float = math.inf) -> np.ndarray:
    """Places of the points that no other point is at least as good as; of equal points, the first row.

    Parameters
    ----------
    scores : numpy.ndarray
        One row a point, one column a measure: the less, the better. What is not finite is on no front.
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
        kept = order[np.r_[True, last[1:] < np.minimum.accumulate(last)[:-1]] if points.shape[1] == 2 else [0]]
        return kept[np.argsort(rows[kept], kind="stable")]
    found = []
    while len(points):  # the first is not beaten by any that follows: it comes first in the order of measures
        found.append(order[0])
        left = (points < points[0]).any(axis=1)
        order, points = order[left], points[left]
        if len(found) > most:
            raise ValueError(f"the front has more than {most:,} points: give fewer measures, or coarser ones")
    kept = np.array(found, dtype=int)
    return kept[np.argsort(rows[kept], kind="stable")]


def _classes(values: np.ndarray) -> dict[str, Any]:
    """How many values are in each class, each bound `RATIO` times the one before; least and most of them.

    Classes have numbers and no array: over all positive floats there are 142,000, of which a few hundred occur.
    """
    good = values[np.isfinite(values)]
    above = good[good > 0]
    places, counts = np.unique(np.ceil(np.log(above) / math.log(RATIO)).astype(int), return_counts=True)
    found = dict(zip(places.tolist(), counts.tolist(), strict=True))
    ends = {"least": float(good.min()), "most": float(good.max())} if len(good) else {}
    return {"not_above_0": len(good) - len(above), "counts": found, **ends}


def _merged(question: _Question, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several parts as one; in any order, and any grouping."""
    one = {name: sum(each[name] for each in found) for name in ("rows", "answered", "fitting")}
    for what in ("best", "front"):
        some = [each[what] for each in found if len(each[what].get("row", ()))]  # none where no score is a number
        one[what] = {name: np.concatenate([each[name] for each in some]) for name in some[0]} if some else {}
        if len(some) > 1:
            scores, rows = one[what]["score"], one[what]["row"]
            kept = _kept(what, scores, rows, question.keep)
            one[what] = {name: column[kept] for name, column in one[what].items()}
    one["classes"] = {
        name: _summed([each["classes"][name] for each in found if each["classes"]]) for name in question.quantiles
    }
    return one


def _summed(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    counts = Counter[int]()
    for each in found:
        counts.update(each["counts"])
    ends = {
        name: of(each[name] for each in found if name in each)
        for name, of in (("least", min), ("most", max))
        if any(name in each for each in found)
    }
    return {"not_above_0": sum(each["not_above_0"] for each in found), "counts": counts, **ends}


# Tables of what was found.


def _table(values: dict[str, list[Any]], kept: Columns) -> pd.DataFrame:
    if not kept:
        return pd.DataFrame(columns=["row", *values, *NUMBERS, *WORDS])
    columns, inner = {"row": kept["row"]}, math.prod(len(each) for each in values.values())
    for name, given in values.items():
        inner //= len(given)
        columns[name] = [_named(given[at]) for at in kept["row"] // inner % len(given)]  # type: ignore[assignment]
    return pd.DataFrame(columns | {name: kept[name] for name in (*NUMBERS, *WORDS)})


def _named(value: Any) -> Any:
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return getattr(value, "title", None) or getattr(value, "name", None) or str(value)


def _quantiles(question: _Question, classes: Mapping[str, Any]) -> pd.DataFrame:
    told = {
        name: [_quantile(classes.get(name) or _classes(np.empty(0)), share) for share in SHARES]
        for name in question.quantiles
    }
    return pd.DataFrame(told, index=pd.Index(SHARES, name="share"))


def _quantile(found: Mapping[str, Any], share: float) -> float:
    """The value of rank ceil(share × count), at least 1: the middle of its class."""
    if "least" not in found:
        return math.nan
    if share in (0.0, 1.0):
        return float(found["most" if share else "least"])
    places = sorted(found["counts"])
    seen = np.cumsum([found["not_above_0"], *(found["counts"][place] for place in places)])
    at = int(np.searchsorted(seen, max(math.ceil(share * int(seen[-1])), 1)))
    if not at:
        return min(0.0, float(found["least"]))
    middle = 2 * RATIO ** places[at - 1] / (RATIO + 1)
    return float(min(max(middle, found["least"]), found["most"]))


# The file from which an exploration goes on.


def _fingerprint(question: _Question) -> str:
    """What the question and the tables are, in short."""

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
    asked = {name: each for name, each in vars(question).items() if name not in ("best", "front")}
    measures = [[measure, way] for measure, way in (question.best, *question.front)]
    text = json.dumps([sys.modules["cookbook"].__version__, asked, measures, tables], default=told, sort_keys=True)
    return sha256(text.encode()).hexdigest()


def _file(checkpoint: Any) -> Path:
    """The file of a checkpoint, where one can be written."""
    if not str(checkpoint).strip("\0 "):
        raise refused("checkpoint", checkpoint, "is no path; give the name of a file")
    try:
        return check_target(checkpoint)
    except (ValueError, OSError) as problem:
        why = "" if isinstance(problem, OSError) or "null byte" in str(problem) else f" ({problem})"
        raise refused("checkpoint", checkpoint, f"cannot be written{why}; give another") from None


def _save(path: Path, mark: str, found: Mapping[str, Any], done: set[int]) -> None:
    """Write it whole or not at all: a process that dies here leaves the old one or the new one."""
    text = json.dumps({"question": mark, "done": sorted(done), "found": found}, default=lambda column: column.tolist())
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
    """What was found before, and the parts it rests on."""
    try:
        text, _, digest = path.read_text(encoding="utf-8").rpartition(DIGEST)
        if digest != f'{_digest(f"{text}}}")}"}}':
            raise ValueError("it is not as it was written")
        kept = json.loads(f"{text}}}")
        question, done, found = kept["question"], {int(each) for each in kept["done"]}, kept["found"]
        for what in ("best", "front"):
            found[what] = {
                name: np.array(column, dtype=object if name in WORDS else int if name == "row" else float)
                for name, column in found[what].items()
            }
        for each in found["classes"].values():
            each["counts"] = {int(place): count for place, count in each["counts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"checkpoint = {str(path)!r} is no checkpoint, or it was damaged: give another file, or delete it"
        ) from None
    if question != mark or not done <= set(range(parts)):
        raise ValueError(
            f"checkpoint = {str(path)!r} is of another exploration, or of other tables: give the "
            "arguments of that one, another file, or delete it"
        )
    return found, done
