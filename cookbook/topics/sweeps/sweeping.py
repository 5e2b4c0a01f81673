"""The named outer product of scenarios as one tidy frame."""

from __future__ import annotations

import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from cookbook import hardware
from cookbook.catalog import UnknownName
from cookbook.catalog.fields import MAX_NUMBER, NUMERIC, Field, checked, fields
from cookbook.catalog.reading import nearest
from cookbook.catalog.refusals import refusal_of, refused
from cookbook.prediction.api import PARALLEL, PLAN, forward_pass, generate, is_plain, kind_of, network_of, train_step
from cookbook.prediction.engine import Estimate, estimate
from cookbook.prediction.kinds.transformer import answers_tokens
from cookbook.prediction.requirements import requirements
from cookbook.prediction.scenario import Coded, Scenario
from cookbook.prediction.scenario import checked as column
from cookbook.progress_bar import progress_bar
from cookbook.topics.sweeps.chunks import EXECUTOR, Parts, spread
from cookbook.units import shown
from cookbook.workloads.zoo import Workload

NEEDS = "needs"
KINDS = {"train_step": "training_transformer", "forward_pass": "inference", "generate": "inference"}
FUNCTIONS: dict[str, Callable[..., Estimate]] = {
    "train_step": train_step,
    "forward_pass": forward_pass,
    "generate": generate,
}
# Arguments of a training step of networks without parallelism configurations.
PLAIN_STEP = ("accelerator", "precision", "software", "seq", *(name for name in PLAN if name not in PARALLEL))
NUMBERS = ("seconds", "low80", "high80", "rate", "tokens_per_s", "memory_bytes")
WORDS = ("fits", "bottleneck", "tier", "why")
TRANSFORMERS = "training_transformer"
# Rows at a time between two looks at the bar, those of a block with a dimension for each axis, the most of one sweep;
# the most rows of what models need, each of them wide, and the most that are worth going through without a table.
BLOCK_ROWS, GRID_ROWS, MAX_ROWS = 1 << 18, 1 << 16, 5_000_000
MAX_NEEDS, MAX_EXPLORED, MAX_VALUES = 1_000_000, 10**12, 1_000_000
TABLE = "several sweeps, or cb.planning.explore, which keeps the best of them and no table"
# Types that no value of an axis may have: values within values, and iterators, perhaps without end.
NO_VALUES = (list, tuple, dict, set, np.ndarray, Iterator)
OUTER = ("model", "seq", "precision", "optimiser", "recompute", "samples", "epochs", "target_seconds")
INNER = ("batch", "accelerator")


@checked(of=Field.choice(NEEDS, *KINDS), progress=Field.flag(), executor=EXECUTOR)
def sweep(of: str = "needs", *, progress: bool = True, executor: Any = None, **axes: Any) -> pd.DataFrame:
    """Return answers to many scenarios: one row for each combination of the values of each axis.

    Parameters
    ----------
    of : str
        Kind of answer: "needs" (as of `cookbook.requirements`), "train_step", "forward_pass" or "generate".
    progress : bool
        Whether to show the progress of a sweep of more than a second on standard error.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Where to compute it, in parts; here where none is given. Not of "needs". The frame is the same.
    **axes
        One value or a list for each. Of "needs" these are the arguments of `requirements`, where `accelerators` is
        `accelerator`; of the others every field of ``data/schema/scenario.csv`` that this kind of question has: model,
        accelerator, precision, software, devices, tp, pp, micro_batch, global_batch, zero, recompute, attention ...

    Returns
    -------
    pandas.DataFrame
        The axes first, the last one fastest. Then of "needs" the columns of `Requirements.devices` and memory by part;
        of the others seconds, low80, high80, rate, tokens_per_s, memory_bytes, fits, bottleneck, tier, why. What cannot
        be has blank numbers, and `why` says why. ``rate`` is in the unit of the question: samples/s, tokens/s of
        "generate", and of training steps of language models the seconds of a step.

    Raises
    ------
    ValueError
        An axis that does not exist or has no values; a value that is not listed or out of range; more combinations than
        a frame should contain, which `cookbook.planning.explore` goes through without one.
    cookbook.catalog.UnknownName
        A name that no table has.

    Examples
    --------
    >>> frame = sweep(model=["resnet50", "vgg16"], batch=[16, 64], accelerator="v100-sxm2-16gb", precision="fp32")
    >>> frame[["model", "batch", "fits"]].values.tolist()
    [['resnet50', 16, True], ['resnet50', 64, True], ['vgg16', 16, True], ['vgg16', 64, True]]
    >>> layout = {"devices": 64, "tp": [1, 2, 4], "global_batch": 512}
    >>> steps = sweep("train_step", model="llama2_7b", accelerator="h100-sxm", **layout)
    >>> len(steps), bool(steps["seconds"].notna().all())
    (3, True)
    """
    if of == NEEDS:
        if executor is not None:
            what = f"goes with {', '.join(KINDS)}: what models need is computed here, at once; leave it out"
            raise refused("executor", executor, what)
        return _needs(axes)
    values = listed_axes(of, axes, MAX_ROWS)
    return _estimated(of, values, math.prod(map(len, values.values())), progress, executor)


def _within(values: dict[str, list[Any]], most: int, remedy: str) -> None:
    """Raise ValueError with a `remedy` where `values` make more combinations than `most`."""
    rows = math.prod(map(len, values.values()))
    if rows > most:
        what = f"{rows:,}" if rows < 10**24 else f"{float(min(rows, 10**300)):.0e}"
        raise ValueError(f"the axes make {what} combinations, more than {most:,}: give fewer values, {remedy}")


def listed_axes(of: str, axes: dict[str, Any], most: int = MAX_EXPLORED) -> dict[str, list[Any]]:
    """Return fields and values of the `axes` of a question `of` this kind, each value checked.

    More combinations than `most` are refused before.

    Raises
    ------
    ValueError
        As of `sweep`.
    cookbook.catalog.UnknownName
        A name that no table has.
    """
    if "model" not in axes or "accelerator" not in axes:
        raise ValueError("a sweep needs the axes model and accelerator; give at least one name of each")
    values = {_field(of, name): _listed(name, value) for name, value in axes.items()}
    _within(values, most, TABLE if most == MAX_ROWS else "or explore one part of them after another")
    for model in values["model"]:
        _in_grid(of, network_of(model))
    for name, entries in values.items():
        _levels(name, entries)
    return values


def _field(of: str, name: str) -> str:
    """Return the field of an axis, by its name or another spelling."""
    kind = KINDS[of]
    accepted = {"model", "accelerator", *inspect.signature(FUNCTIONS[of]).parameters}
    declared = [
        field
        for field in fields().values()
        if kind in field.phases and (kind == TRANSFORMERS or field.name in accepted)
    ]
    for field in declared:
        if name == field.name:
            return name
    for field in declared:
        if name in field.spellings:
            return field.name
    close = ", ".join(nearest(name[:60], [field.name for field in declared], 3))
    raise ValueError(f"unknown axis {shown(name)} of {of}; nearest: {close}")


def _estimated(of: str, values: dict[str, list[Any]], rows: int, progress: bool, executor: Any = None) -> pd.DataFrame:
    columns = {name: np.empty(rows) for name in NUMBERS} | {name: np.empty(rows, dtype=object) for name in WORDS}
    begun, done = time.monotonic(), 0
    for at, answer in _anywhere(of, values, executor):
        for name, value in answer.items():
            columns[name][at] = value
        done += len(answer["seconds"])
        if progress:
            progress_bar(done, rows, since=begun)
    sizes = [len(entries) for entries in values.values()]
    frame = {name: _axis(entries, at, sizes) for at, (name, entries) in enumerate(values.items())}
    return pd.DataFrame(frame | columns, copy=False)


def _anywhere(of: str, values: dict[str, list[Any]], executor: Any) -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """Yield rows and their answers, computed here or by the workers of an executor."""
    if executor is None:
        yield from answers(of, values)
        return
    for _, blocks in spread(_part, (of, values), range(len(parts_of(values, BLOCK_ROWS))), executor):
        yield from blocks


def _part(question: tuple[str, dict[str, list[Any]]], number: int) -> list[tuple[Any, dict[str, np.ndarray]]]:
    """Return one part of a sweep: rows of the whole, and their answers."""
    of, values = question
    return list(part_answers(of, values, number, BLOCK_ROWS))


def parts_of(values: dict[str, list[Any]], most: int) -> Parts:
    """Return the outer product of `values` in parts of at most `most` rows."""
    return Parts([len(entries) for entries in values.values()], most)


def part_answers(
    of: str, values: dict[str, list[Any]], number: int, most: int
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yield the answers `of` part `number` of `values` by blocks: rows of the whole, and columns; `most` as above."""
    start, cuts = parts_of(values, most)[number]
    some = {name: entries[cut] for (name, entries), cut in zip(values.items(), cuts, strict=True)}
    for at, answer in answers(of, some):
        yield start + (np.arange(at.start, at.stop) if isinstance(at, slice) else at), answer


def answers(of: str, values: dict[str, list[Any]]) -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """Yield answers to a question `of` this kind on the outer product of `values`, by blocks: rows, and columns."""
    networks = [network_of(model) for model in values["model"]]
    # Configurations that the reader leaves open are chosen row by row; chunks of a stage follow from the others.
    stated = all(None not in values.get(name, [None]) for name in ("tp", "pp"))
    stated = stated and len({degree is None for degree in values.get("vp", [None])}) == 1
    grids = np.array([_in_grid(of, network) and stated for network in networks])
    parts: list[tuple[np.ndarray, Workload | None]] = [(grids, None)] if grids.any() else []
    parts += [(np.arange(len(networks)) == at, networks[at]) for at in np.flatnonzero(~grids)]
    for wanted, network in parts:
        some = values | {"model": [model for model, its in zip(values["model"], wanted, strict=True) if its]}
        place = _places(values, wanted)
        for start, answer in _grids(TRANSFORMERS, some) if network is None else _blocks(of, network, some):
            size = len(answer["seconds"])
            yield slice(start, start + size) if place is None else place[start : start + size], answer


def _places(values: dict[str, list[Any]], wanted: np.ndarray) -> np.ndarray | None:
    """Return rows of some models; None where those are all."""
    if wanted.all():
        return None
    sizes = [len(entries) for entries in values.values()]
    return np.flatnonzero(np.broadcast_to(_along(wanted, list(values).index("model"), len(sizes)), sizes))


def _along(values: np.ndarray, axis: int, axes: int) -> np.ndarray:
    """Return values along one of `axes` axes."""
    return values.reshape([-1 if other == axis else 1 for other in range(axes)])


def _blocks(of: str, network: Workload, values: dict[str, list[Any]]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yield answers about one network, `BLOCK_ROWS` at a time: the first row, and the columns."""
    axes = {name: entries for name, entries in values.items() if name != "model"}
    sizes = [len(entries) for entries in axes.values()]
    rows = math.prod(sizes)
    at = dict(zip(axes, np.unravel_index(np.arange(rows), sizes), strict=True))
    unasked = {
        name: np.array([_unasked(of, network, name, entry) for entry in entries], dtype=object)
        for name, entries in axes.items()
    }
    whole = of != "train_step" or kind_of(network) == TRANSFORMERS
    passed = {name: entries for name, entries in axes.items() if whole or name in PLAIN_STEP}
    for start in range(0, rows, BLOCK_ROWS):
        codes = {name: column[start : start + BLOCK_ROWS] for name, column in at.items()}
        why = np.full(min(BLOCK_ROWS, rows - start), "", dtype=object)
        for name, reasons in unasked.items():
            why = np.where(why == "", reasons[codes[name]], why)
        block = (
            {name: np.full(len(why), np.nan) for name in NUMBERS}
            | {name: np.full(len(why), "", dtype=object) for name in WORDS}
            | {"why": why}
        )
        good = np.flatnonzero(why == "")
        rest = {name: [entries[code] for code in codes[name][good]] for name, entries in passed.items()}
        arguments = {
            name: column[0] if len(passed[name]) == 1 else column
            for name, column in rest.items()
            if any(value is not None for value in column)
        }
        if len(good):
            try:
                answer = FUNCTIONS[of](network, arguments.pop("accelerator", None), **arguments)
            except ValueError as refused:
                block["why"][good] = refusal_of(refused)
            else:
                for name, value in _told(answer).items():
                    block[name][good] = value
        yield start, block


def _unasked(of: str, network: Workload, name: str, value: Any) -> str:
    """Return why a public function does not take a value for a network; "" where it does."""
    if value is None:
        return ""
    if name == "seq" and not network.ops.needs_seq:
        return f"seq = {shown(value)}: {network.title} has no sequence length; leave seq out"
    if of != "train_step" or kind_of(network) == TRANSFORMERS:
        return ""
    if name in PLAIN_STEP and (name != "zero" or value in (0, 1)):
        return ""
    if name in PARALLEL and is_plain(name, value):
        return ""
    return f"{name} = {shown(value)}: of {network.title} data parallelism alone is estimated; leave {name} out"


def _levels(name: str, entries: list[Any]) -> tuple[Any, ...] | np.ndarray:
    """Return the values of an axis as a scenario takes them: words and machines, or an array of numbers."""
    declared = fields()[name]
    if declared.type in (*NUMERIC, "flag"):
        return np.array([np.nan if entry is None else float(column(declared, entry)) for entry in entries])
    return tuple(column(declared, "" if entry is None else entry).levels[0] for entry in entries)


def _grids(kind: str, values: dict[str, list[Any]]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Return estimates of training steps, block by block: a block has a dimension for each axis that varies in it.

    What depends on few axes is computed once for each combination of those, and only the last product is as large as
    the block: far less work than one number a row from the beginning.
    """
    columns = {name: _levels(name, entries) for name, entries in values.items()}
    sizes = [len(column) for column in columns.values()]
    parts = Parts(sizes, GRID_ROWS)
    for start, cuts in map(parts.__getitem__, range(len(parts))):
        shape = [cut.stop - cut.start for cut in cuts]
        # The longest axis last, for the sake of long inner loops; two axes at least make a grid.
        order = sorted(range(len(shape)), key=lambda at: shape[at])
        order = order[-max(sum(size > 1 for size in shape), 2) :]
        cells: dict[str, Any] = {}
        for at, ((name, levels), cut) in enumerate(zip(columns.items(), cuts, strict=True)):
            codes = np.arange(shape[at]).reshape([shape[at] if axis == at else 1 for axis in order])
            cells[name] = levels[cut][codes] if isinstance(levels, np.ndarray) else Coded(codes, levels[cut])
        request = Scenario(kind, math.prod(shape), cells, np.zeros([1] * len(order), dtype="<U1"))
        whole, back = [shape[at] for at in order], np.argsort(order, kind="stable")
        outcome = _told(estimate(request)).items()
        yield (
            start,
            {
                name: np.broadcast_to(value.astype(object, copy=False) if name in WORDS else value, whole)
                .transpose(back)
                .reshape(-1)
                for name, value in outcome
            },
        )


def _in_grid(of: str, network: Workload) -> bool:
    """Return whether a block of the question is one product of its axes: steps of language models."""
    if of == "generate" and not answers_tokens(network):
        raise ValueError(f"model = {network.title!r} is no language model; sweep forward_pass")
    return of == "train_step" and kind_of(network) == TRANSFORMERS


def is_timed(of: str, model: Any) -> bool:
    """Return whether ``rate`` is seconds per step in answers to a question `of` this kind about such a `model`."""
    return _in_grid(of, network_of(model))


def _axis(entries: list[Any], at: int, sizes: list[int]) -> Any:
    """Return an axis as a column: numbers as they are, words as categories."""

    def spread(levels: np.ndarray) -> np.ndarray:
        return np.broadcast_to(_along(levels, at, len(sizes)), sizes).reshape(-1)

    if all(isinstance(entry, (int, float)) and not isinstance(entry, bool) for entry in entries):
        return spread(np.array(entries))
    texts = [str(named(entry)) for entry in entries]
    distinct = list(dict.fromkeys(texts))
    codes = np.array([distinct.index(text) for text in texts], dtype=np.min_scalar_type(-len(distinct)))
    return pd.Categorical.from_codes(spread(codes), distinct)


def named(value: Any) -> Any:
    """Return text, a number or None as it is, and the title or name of what else an axis holds."""
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return getattr(value, "title", None) or getattr(value, "name", None) or str(value)


def _told(answer: Estimate) -> dict[str, np.ndarray]:
    """Return the columns of an answer."""
    return {name: getattr(answer, "point" if name == "seconds" else name) for name in (*NUMBERS, *WORDS)}


def _needs(axes: dict[str, Any]) -> pd.DataFrame:
    """Return the requirements of every combination of arguments."""
    if {"accelerators", "accelerator"} <= set(axes):
        raise ValueError("accelerator and accelerators are one axis; give one of the two")
    axes = {"accelerator" if axis == "accelerators" else axis: value for axis, value in axes.items()}
    unknown = [axis for axis in axes if axis not in OUTER + INNER]
    if unknown:
        raise ValueError(f"unknown axis {shown(unknown[0])}; take some of {', '.join(OUTER + INNER)}")
    values = {axis: _listed(axis, value) for axis, value in axes.items()}
    for axis, entry in ((axis, entry) for axis, entries in values.items() for entry in entries):
        if isinstance(entry, int) and abs(entry) > MAX_NUMBER:  # pandas cannot print it
            raise refused(axis, entry, "is outside its range; give a number that a float can hold")
    _within(values, MAX_NEEDS, "or several sweeps")
    for device in values.get("accelerator", []):
        hardware.accelerator(device)
    devices = values.pop("accelerator", [None])
    batches = values.pop("batch", [32])
    inner = {"batch": batches, "accelerators": None if devices == [None] else devices}
    scenarios = (dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))
    table = pd.concat([_frame(scenario, inner) for scenario in scenarios], ignore_index=True)
    whole = all(isinstance(batch, int) and abs(batch) < 1 << 53 for batch in batches)
    whole = whole and bool(table["batch"].notna().all())
    return table.astype({"batch": int}) if whole else table


def _listed(axis: str, value: Any) -> list[Any]:
    """Return the values of an axis; what has no end, or is no flat list, is refused before it is read."""
    if hasattr(value, "to_numpy"):  # a column of a table
        value = value.to_numpy()
    several = isinstance(value, (list, tuple, set, range)) or (isinstance(value, np.ndarray) and value.ndim > 0)
    size = -(-(value.stop - value.start) // value.step) if isinstance(value, range) else len(value) if several else 1
    if size > MAX_VALUES:
        raise ValueError(f"{axis} has {size:,} values, more than {MAX_VALUES:,}: give fewer values")
    values = list(value) if several else [value]
    if not values or any(isinstance(entry, NO_VALUES) for entry in values):
        raise refused(axis, value, ": give one value, or a flat list of them, or leave it out")
    return values


def _frame(outer: dict[str, Any], inner: dict[str, Any]) -> pd.DataFrame:
    named = {axis: value.title if isinstance(value, Workload) else value for axis, value in outer.items()}
    try:
        need = requirements(**{"model": "resnet50", **outer}, **inner)
    except UnknownName:
        raise
    except ValueError as problem:
        return _failed(named, inner, refusal_of(problem))
    repeats = len(need.devices) // len(inner["batch"])
    parts = {part: np.tile(np.atleast_1d(size), repeats) for part, size in need.memory.items()}
    line = {"fixed_bytes": need.fixed_bytes, "bytes_per_sample": need.bytes_per_sample}
    return _beside(named, need.devices.assign(**parts, **line))


def _beside(named: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the axes before other columns; a part of memory with the name of an axis gets the ending _bytes."""
    rows = rows.rename(columns={axis: f"{axis}_bytes" for axis in named})
    for place, (axis, value) in enumerate(named.items()):
        rows.insert(place, axis, value)
    return rows


def _failed(named: dict[str, Any], inner: dict[str, Any], why: str) -> pd.DataFrame:
    """Return the rows of a combination that is impossible: its axes, every accelerator and batch, and the reason."""
    good = _frame({}, inner | {"batch": [1]})
    rows = good.loc[good.index.repeat(len(inner["batch"]))].reset_index(drop=True)
    rows = rows.assign(
        **dict.fromkeys(rows.select_dtypes("number").columns, np.nan), fits=False, verdict="cannot tell", why=why
    )
    rows["batch"] = np.tile(inner["batch"], len(good))
    return _beside(named, rows)
