"""The named outer product of scenarios as one tidy frame."""

from __future__ import annotations

import itertools
import math
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import hardware
from cookbook.catalog import UnknownName
from cookbook.catalog.reading import nearest
from cookbook.prediction.asked import choices, shown
from cookbook.prediction.doors import kind_of, network_of
from cookbook.prediction.engine import Estimate, estimate
from cookbook.prediction.requirements import requirements
from cookbook.prediction.scenario import Coded, Scenario, checked, fields, outer
from cookbook.prediction.terms.transformer import is_language_model
from cookbook.workloads.zoo import Workload

if TYPE_CHECKING:
    import pandas as pd

NEEDS = "needs"
KINDS = {"train_step": "training_transformer", "forward_pass": "inference", "generate": "inference"}
NUMBERS = ("seconds", "low80", "high80", "rate", "tokens_per_s", "memory_bytes")
WORDS = ("fits", "bottleneck", "tier", "why")
# Rows at a time between two looks at the bar; the most of one sweep.
STRIDE, MOST = 1 << 18, 20_000_000
OUTER = ("model", "seq", "precision", "optimiser", "recompute", "samples", "epochs", "target_seconds")
INNER = ("batch", "accelerator")


def sweep(of: str = "needs", *, progress: bool = True, **axes: Any) -> pd.DataFrame:
    """Many scenarios at once: one row for each combination of the values of each axis.

    Parameters
    ----------
    of : str
        What to tell of each: "needs" (what `cookbook.requirements` tells), "train_step", "forward_pass" or "generate".
    progress : bool
        Whether to show on standard error how far a sweep of more than a second is.
    **axes
        One value or a list for each. Of "needs" these are the arguments of `requirements`, where `accelerators` is
        `accelerator`; of the others every field of ``data/schema/scenario.csv`` that this kind of question has: model,
        accelerator, precision, software, devices, tp, pp, micro_batch, global_batch, zero, recompute, attention ...

    Returns
    -------
    pandas.DataFrame
        The axes first, the last one fastest. Then of "needs" the columns of `Requirements.devices` and memory by part;
        of the others seconds, low80, high80, rate, tokens_per_s, memory_bytes, fits, bottleneck, tier, why. What cannot
        be has blank numbers, and `why` says why.

    Raises
    ------
    ValueError
        An axis that does not exist or has no values; a value that is not listed or out of range.
    cookbook.catalog.UnknownName
        A name that no table has.

    Examples
    --------
    >>> frame = sweep(model=["resnet50", "vgg16"], batch=[16, 64], accelerator="v100-sxm2-16gb", precision="fp32")
    >>> frame[["model", "batch", "fits"]].values.tolist()
    [['resnet50', 16.0, True], ['resnet50', 64.0, True], ['vgg16', 16.0, True], ['vgg16', 64.0, True]]
    >>> layout = {"devices": 64, "tp": [1, 2, 4], "global_batch": 512}
    >>> steps = sweep("train_step", model="llama2_7b", accelerator="h100-sxm", **layout)
    >>> len(steps), bool(steps["seconds"].notna().all())
    (3, True)
    """
    (of,) = choices("of", [of], (NEEDS, *KINDS), ())
    if of == NEEDS:
        return _needs(axes)
    if "model" not in axes or "accelerator" not in axes:
        raise ValueError("a sweep needs the axes model and accelerator; give at least one name of each")
    values = {_field(of, name): _listed(name, value) for name, value in axes.items()}
    rows = math.prod(map(len, values.values()))
    if rows > MOST:
        raise ValueError(
            f"the axes make {rows:,} combinations, more than {MOST:,}: give fewer values, or several sweeps"
        )
    return _estimated(of, values, rows, progress)


def _field(of: str, name: str) -> str:
    """The field that an axis stands for, by its name or another spelling."""
    kind = KINDS[of]
    declared = [field for field in fields().values() if kind in field.phases]
    for field in declared:
        if name == field.name:
            return name
    for field in declared:
        if name in field.spellings:
            return field.name
    close = ", ".join(nearest(name[:60], [field.name for field in declared], 3))
    raise ValueError(f"unknown axis {shown(name)} of {of}; nearest: {close}")


def _estimated(of: str, values: dict[str, list[Any]], rows: int, progress: bool) -> pd.DataFrame:
    import pandas as pd

    at, _ = outer(values)
    kinds = np.array([_kind(of, each) for each in values["model"]], dtype=object)
    places = [np.flatnonzero((kinds == kind)[at["model"]]) for kind in dict.fromkeys(kinds.tolist())]
    frame = {name: _axis(name, given, at[name]) for name, given in values.items()}
    found = {name: np.full(rows, np.nan) for name in NUMBERS} | {
        name: np.full(rows, "", dtype=object) for name in WORDS
    }
    begun, done = time.monotonic(), 0
    for kind, place in zip(dict.fromkeys(kinds.tolist()), places, strict=True):
        for start in range(0, rows, STRIDE) if len(places) == 1 else range(0, len(place), STRIDE):
            some = place[start : start + STRIDE]
            columns = {name: Coded(at[name][some], tuple(given)) for name, given in values.items() if _is_words(name)}
            columns |= {name: np.array([np.nan if each is None else _one(name, each) for each in given])[at[name][some]]
                        for name, given in values.items() if not _is_words(name)}  # fmt: skip
            told = estimate(_typed(kind, columns, len(some)), neighbours=False)
            for name, value in _told(told).items():
                found[name][some] = value
            done += len(some)
            if progress and time.monotonic() - begun > 1:
                _show(done, rows)
    return pd.DataFrame(frame | found)


def _kind(of: str, model: Any) -> str:
    network = network_of(model)
    if of == "generate" and not is_language_model(network):
        raise ValueError(f"model = {network.title!r} is no language model; sweep forward_pass")
    return kind_of(network) if of == "train_step" else "generation" if of == "generate" else KINDS[of]


def _is_words(name: str) -> bool:
    return fields()[name].type not in ("number", "flag")


def _one(name: str, value: Any) -> float:
    return float(checked(fields()[name], value))


def _typed(kind: str, columns: dict[str, Any], rows: int) -> Scenario:
    """Columns whose values were checked once, as a scenario; one value stands for all rows."""
    ready = {}
    for name, column in columns.items():
        if isinstance(column, Coded):
            column = Coded(
                column.codes,
                tuple(checked(fields()[name], "" if each is None else each).levels[0] for each in column.levels),
            )
            ready[name] = Coded(np.array(0), column.levels) if len(column.levels) == 1 else column
        else:
            same = len(column) and bool(np.all(column == column[0]))
            ready[name] = column[0] if same else column
    return Scenario(kind, rows, ready, np.zeros(rows, dtype="<U1"))


def _axis(name: str, given: list[Any], at: np.ndarray) -> Any:
    """An axis as a column: numbers as they are, words as categories."""
    import pandas as pd

    if all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in given):
        return np.array(given)[at]
    texts = [getattr(each, "title", None) or getattr(each, "name", None) or str(each) for each in map(_titled, given)]
    distinct = list(dict.fromkeys(texts))
    return pd.Categorical.from_codes(np.array([distinct.index(each) for each in texts])[at], distinct)


def _titled(value: Any) -> Any:
    return _Text(value) if isinstance(value, str) else value


class _Text:
    """A word whose title is itself."""

    def __init__(self, word: str) -> None:
        self.title = word


def _told(found: Estimate) -> dict[str, np.ndarray]:
    return {
        "seconds": found.point, "low80": found.low80, "high80": found.high80, "rate": found.rate,
        "tokens_per_s": found.tokens_per_s, "memory_bytes": found.memory_bytes, "fits": found.fits,
        "bottleneck": found.bottleneck, "tier": found.tier, "why": found.why,
    }  # fmt: skip


def _show(done: int, rows: int) -> None:
    """A bar on standard error, where somebody looks at it."""
    if sys.stderr.isatty():
        filled = 30 * done // rows
        print(
            f"\r[{'#' * filled}{' ' * (30 - filled)}] {done:,} of {rows:,}",
            end="\n" if done == rows else "",
            file=sys.stderr,
        )


def _needs(axes: dict[str, Any]) -> pd.DataFrame:
    """What every combination of the arguments of `requirements` needs."""
    import pandas as pd

    if {"accelerators", "accelerator"} <= set(axes):
        raise ValueError("accelerator and accelerators are one axis; give one of the two")
    axes = {"accelerator" if axis == "accelerators" else axis: value for axis, value in axes.items()}
    unknown = [axis for axis in axes if axis not in OUTER + INNER]
    if unknown:
        raise ValueError(f"unknown axis {unknown[0]!r}; take some of {', '.join(OUTER + INNER)}")
    values = {axis: _listed(axis, value) for axis, value in axes.items()}
    for each in values.get("accelerator", []):
        hardware.accelerator(each)
    devices = values.pop("accelerator", [None])
    inner = {"batch": values.pop("batch", [32]), "accelerators": None if devices == [None] else devices}
    scenarios = (dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))
    return pd.concat([_frame(scenario, inner) for scenario in scenarios], ignore_index=True)


def _listed(axis: str, value: Any) -> list[Any]:
    values = (
        list(value)
        if isinstance(value, (list, tuple, set, range, np.ndarray))
        and not (isinstance(value, np.ndarray) and not value.ndim)
        else [value]
    )
    if not values or any(isinstance(each, (list, tuple, dict, set, np.ndarray)) for each in values):
        raise ValueError(f"{axis} = {shown(value)}: give one value, or a flat list of them, or leave it out")
    return values


def _frame(outer: dict[str, Any], inner: dict[str, Any]) -> pd.DataFrame:
    named = {axis: value.title if isinstance(value, Workload) else value for axis, value in outer.items()}
    try:
        need = requirements(**{"model": "resnet50", **outer}, **inner)
    except UnknownName:
        raise
    except ValueError as problem:
        return _failed(named, inner, str(problem))
    repeats = len(need.devices) // len(inner["batch"])
    parts = {part: np.tile(np.atleast_1d(size), repeats) for part, size in need.memory.items()}
    line = {"fixed_bytes": need.fixed_bytes, "bytes_per_sample": need.bytes_per_sample}
    return _beside(named, need.devices.assign(**parts, **line))


def _beside(named: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    """The axes before the rest; memory of an axis' name (that of the optimiser's state) is told apart by _bytes."""
    rows = rows.rename(columns={axis: f"{axis}_bytes" for axis in named})
    for place, (axis, value) in enumerate(named.items()):
        rows.insert(place, axis, value)
    return rows


def _failed(named: dict[str, Any], inner: dict[str, Any], why: str) -> pd.DataFrame:
    """What a combination that cannot be computed leaves: its axes, every accelerator and batch, and the reason."""
    good = _frame({}, inner | {"batch": [1]})
    rows = good.loc[good.index.repeat(len(inner["batch"]))].reset_index(drop=True)
    numbers = rows.select_dtypes("number").columns
    rows = rows.assign(**dict.fromkeys(numbers, np.nan), fits=False, verdict="cannot tell", why=why)
    rows["batch"] = np.tile(inner["batch"], len(good))
    return _beside(named, rows)
