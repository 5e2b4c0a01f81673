"""A scenario: typed columns, one row a case, and its rows as formulas take them, networks and machines looked up.

Fields are declared once, in ``data/schema/scenario.csv``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from cookbook import catalog, hardware
from cookbook.catalog import Refused, UnknownName
from cookbook.catalog.fields import NUMERIC, TABLES, Field, fields, of_numpy
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refusal_of, refused
from cookbook.prediction import request_sets
from cookbook.prediction.assumptions import Assumptions
from cookbook.units import size_within

KINDS = ("training_transformer", "training_classic", "inference", "generation", "input_pipeline")
# Answers of language models are asked for in the fields of inference.
SCHEMA_KINDS = {"generation": "inference"}
TRUE, FALSE = ("yes", "true", "on", "1", "y", "enabled", "t"), ("no", "false", "off", "0", "n", "disabled", "f")
# What a share or a set of modules in `recompute` computes again, by part of a layer.
RECOMPUTED = ("projection", "core", "mlp", "elementwise", "all")
MODULES = {
    "core_attn": ("core",),
    "mla_up_proj": ("projection",),
    "mlp": ("mlp",),
    "moe_act": ("elementwise",),
    "layernorm": ("elementwise",),
    "moe": ("mlp", "elementwise"),
    "offload": ("core", "mlp", "elementwise"),
}
# By which rows are distinguished.
KEYS = ("accelerator", "vendor", "family", "untimed", "engine", "special")
# What is told of a batch of which fewer are answered at once, and of more tokens than a model is made for: no field is
# left to be assumed.
REMARKS = AT_ONCE, BEYOND, LEVEL = "answered at a time", "context", "level of the software"
# What a mapping may hold that stands for a storage tier or a data set; `Field.phases` says it of a field.
GROUPS = ("storage_tier", "data_set")
# Workloads of storage benchmarks begin with their suite.
BENCHMARK = "mlperf/"


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of few distinct values: which of `levels` each row has; one code stands for all rows."""

    codes: np.ndarray
    levels: tuple[Any, ...]

    def each(self, reader: Callable[[Any], Any], dtype: Any = float) -> np.ndarray:
        """Return `reader` of every row, which runs once for each level."""
        values = np.empty(len(self.levels), dtype=dtype)
        for at, level in enumerate(self.levels):
            values[at] = reader(level)
        # Objects stay what they are where one stands for all rows: an array of one, not the object alone.
        return values[self.codes, ...] if dtype is object else values[self.codes]

    def part(self, key: Any) -> np.ndarray:
        """Return one entry (by position or name) of the level of every row."""
        return self.each(itemgetter(key))

    def figures(self, reader: Callable[[Any], Mapping[str, float]]) -> dict[str, np.ndarray]:
        """Return several numbers of every row, by name; `reader` gives the same names for each level."""
        records = [reader(level) for level in self.levels]
        columns = np.array([[record[name] for name in records[0]] for record in records], dtype=float).T[:, self.codes]
        return dict(zip(records[0], columns, strict=True))

    def figure(self, name: str) -> np.ndarray:
        """Return one attribute of the level of every row."""
        return self.each(attrgetter(name))

    def take(self, rows: Any) -> Coded:
        """Return some of the rows."""
        return self if not self.codes.ndim else Coded(self.codes[rows], self.levels)

    def map(self, reader: Callable[[Any], Any]) -> Coded:
        """Return the same rows with other levels."""
        return Coded(self.codes, tuple(map(reader, self.levels)))

    def compact(self) -> Coded:
        """Return the same rows, each level once."""
        codes = {level: at for at, level in enumerate(dict.fromkeys(self.levels))}
        if len(codes) == len(self.levels):
            return self
        return Coded(np.array([codes[level] for level in self.levels])[self.codes], tuple(codes))

    def where(self, condition: Any) -> np.ndarray:
        """Return the rows whose level meets a condition."""
        return self.each(condition, bool)


BLANK = Coded(np.array(0), ("",))


def coded(values: Any) -> Coded:
    """Return a column as levels and codes; one value stands for all rows."""
    if isinstance(values, Coded):
        return values
    if not isinstance(values, (list, tuple, np.ndarray)) or np.ndim(values) == 0:
        return Coded(np.array(0), (values if not isinstance(values, np.ndarray) else values.item(),))
    code_of: dict[Any, int] = {}
    codes = [
        code_of.setdefault(value, len(code_of))
        for value in (values.tolist() if isinstance(values, np.ndarray) else values)
    ]
    return Coded(np.array(codes, dtype=np.int64), tuple(code_of))


def together(*columns: Coded) -> Coded:
    """Return several columns as one, whose levels are the combinations that occur."""
    sizes: dict[int, int] = {}
    for column in columns:
        # Columns that follow from one, such as a device's maker and family, have its codes.
        sizes[id(column.codes)] = max(len(column.levels), sizes.get(id(column.codes), 0))
    codes = {id(column.codes): column.codes for column in columns}
    total, code = math.prod(sizes.values()), np.array(0)
    if total >= 1 << 62 and len(columns) > 2:  # more combinations than an integer counts: of fewer columns first
        half = len(columns) // 2
        return together(together(*columns[:half]), together(*columns[half:])).map(lambda pair: (*pair[0], *pair[1]))
    for name, size in sizes.items():
        code = code * size + codes[name]
    if code.ndim == 0:
        return Coded(np.array(0), (tuple(column.levels[int(column.codes)] for column in columns),))
    if total <= 1 << 16:
        present = np.flatnonzero(np.bincount(code.reshape(-1), minlength=total))
        index = np.empty(total, dtype=np.int64)
        index[present] = np.arange(len(present))
        back = index[code]
    else:
        present, back = np.unique(code, return_inverse=True)
        back = back.reshape(code.shape)
    at: dict[int, list[int]] = {}
    for name, size in reversed(sizes.items()):
        present, own = np.divmod(present, size)
        at[name] = own.tolist()
    parts = [[column.levels[one] for one in at[id(column.codes)]] for column in columns]
    return Coded(back, tuple(zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Scenario:
    """Typed columns of one kind of prediction; scalars stand for all rows.

    Rows may be in an open grid, of two axes or more: then each column has as many entries along an axis as it
    depends on, `why` too, and what follows from few axes is computed once for each combination of those.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    size : int
        Rows.
    columns : mapping of str to numpy.ndarray or Coded
        Numbers in SI (NaN where a row states none; 1 and 0 for yes and no), words as `Coded` ("" where none).
    why : numpy.ndarray of str
        Why a row cannot be read as meant; "" where it can.
    read : Coded
        What reading assumed beyond the columns, by row; "" where nothing.
    """

    kind: str
    size: int
    columns: Mapping[str, Any] = field(repr=False)
    why: np.ndarray = field(repr=False)
    read: Coded = BLANK

    def __len__(self) -> int:
        return self.size

    @property
    def in_grid(self) -> bool:
        """Return whether rows are in an open grid."""
        return self.why.ndim > 1

    @property
    def several(self) -> bool:
        """Return whether any column has a value for each row, not one for all."""
        return any((column.codes if isinstance(column, Coded) else column).ndim for column in self.columns.values())

    def number(self, name: str) -> np.ndarray:
        """Return a column of numbers; NaN where nothing is stated."""
        return self.columns.get(name, NOTHING)

    def words(self, name: str) -> Coded:
        """Return a column of words; "" where nothing is stated."""
        return self.columns.get(name, BLANK)

    def take(self, rows: slice | np.ndarray) -> Scenario:
        """Return some of the rows."""
        why = self.why[rows]
        columns = {name: _cut(column, rows) for name, column in self.columns.items()}
        return Scenario(self.kind, len(why), columns, why, self.read.take(rows))


NOTHING = np.array(np.nan)


def scenario(kind: str, arguments: Mapping[str, Any], called: Mapping[str, str] = MappingProxyType({})) -> Scenario:
    """Return typed arguments as a scenario: listed choices, numbers in range; nothing is guessed.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    arguments : mapping
        Values by field; None where a field is not given. Lists are taken together, entry by entry; a list of one
        entry stands for all.
    called : mapping of str to str
        Fields that the caller knows under another name, for messages.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, device, number format or software that no table has.
    ValueError
        An argument that cannot be: its name, its value, what is allowed.
    """
    if kind not in KINDS:
        raise refused("kind", kind, f"is not modelled; take one of {', '.join(KINDS)}")
    by_name, columns, size = fields(SCHEMA_KINDS.get(kind, kind)), dict[str, Any](), None
    why: np.ndarray | None = None
    check_names([name for name, value in arguments.items() if value is not None], list(by_name), kind, "field")
    for name, value in arguments.items():
        if value is None:
            continue
        word = called.get(name, name)
        column, problems = _entries(replace(by_name[name], name=word), value)
        shape = np.shape(column.codes if isinstance(column, Coded) else column)
        if shape and shape[0] != 1 and size not in (None, 1, shape[0]):
            raise ValueError(f"{word} has {shape[0]} entries, others have {size}: give lists of one length")
        size, columns[name] = max(shape[0], size or 1) if shape else size, column
        if problems is not None:
            why = problems if why is None else np.where(why == "", problems, why)
    rows = 1 if size is None else size
    if rows > 1:
        columns = {name: _for_all(column) for name, column in columns.items()}
    none = np.zeros(rows, dtype="<U1") if why is None else np.broadcast_to(why, (rows,))
    return Scenario(kind, rows, MappingProxyType(columns), none)


def _for_all(column: Any) -> Any:
    """Return a column of one entry as one that stands for all rows."""
    if isinstance(column, Coded):
        return Coded(column.codes.reshape(()), column.levels) if column.codes.shape == (1,) else column
    return column.reshape(()) if column.shape == (1,) else column


def _entries(declared: Field, value: Any) -> tuple[Any, np.ndarray | None]:
    """Return one argument as a column, and why entries of a list of numbers are invalid: a bad one spoils no other."""
    if hasattr(value, "to_numpy") or isinstance(value, range):
        size_within(declared.name, value)
        value = np.asarray(value)
    try:
        return checked(declared, value), None
    except ValueError:
        if declared.type not in NUMERIC or not isinstance(value, (list, tuple, np.ndarray)):
            raise
        if (isinstance(value, np.ndarray) and value.ndim != 1) or not len(value):
            raise
        if not all(entry is None or _is_number(entry) for entry in value):
            raise
    numbers, why = np.full(len(value), np.nan), np.full(len(value), "", dtype=object)
    for at, entry in enumerate(value):
        try:
            numbers[at] = np.nan if entry is None else _number(declared, entry)
        except ValueError as problem:
            why[at] = refusal_of(problem)
    return numbers, why


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, or text that reads as one."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def checked(declared: Field, value: Any) -> Any:
    """Return one argument as a column: an array of floats or `Coded`; ValueError where it is not allowed."""
    try:
        if declared.type in (*NUMERIC, "flag"):
            return _numbers(declared, value)
        if isinstance(value, Coded):
            return value.map(lambda one: _word(declared, one))
        if hasattr(value, "to_numpy"):
            value = value.to_numpy()
        if not isinstance(value, (list, tuple, np.ndarray)) or (isinstance(value, np.ndarray) and not value.ndim):
            return Coded(np.array(0), (_word(declared, value.item() if isinstance(value, np.ndarray) else value),))
        if any(isinstance(entry, (list, tuple, dict, set, np.ndarray)) for entry in value):
            raise TypeError
        column = coded(list(value))
    except UnknownName:
        raise
    except TypeError:
        raise declared.refuse(value, "is not allowed") from None
    if not len(column.codes):
        raise refused(declared.name, value, ": give one value, or a flat list of them")
    return column.map(lambda one: "" if one is None else _word(declared, one))


def _numbers(declared: Field, value: Any) -> np.ndarray:
    """Return numbers of a field as floats, each in its range; None is NaN."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        nested = not isinstance(value, np.ndarray) and any(
            isinstance(entry, (list, tuple, np.ndarray)) for entry in value
        )
        array = value if isinstance(value, np.ndarray) else np.array([None] if nested else value, dtype=object)
        if nested or array.ndim > 1 or not array.size:
            raise refused(declared.name, value, ": give one number, or a flat list of them")
        if array.dtype.kind in "iuf":
            numbers = array.astype(float)
            bad = ~((numbers >= declared.low) & (numbers <= declared.high))
            if declared.type == "count":
                bad |= numbers != np.floor(numbers)
            if bad.any():
                _number(declared, array[bad][0].item())
            return numbers
        return np.array([np.nan if one is None else _number(declared, one) for one in array.tolist()], dtype=float)
    return np.array(_number(declared, value))


def _number(declared: Field, value: Any) -> float:
    if declared.type == "flag":
        return _truth(declared, of_numpy(value))
    if isinstance(value, str) and declared.name in request_sets.COLUMNS:
        try:
            return declared.to_number(value)
        except Refused:
            return request_sets.mean_tokens(declared.name, value)
    return declared.to_number(value)


def _truth(declared: Field, value: Any) -> float:
    """Return 1 for true and 0 for false, however it is written."""
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return float(value)
    word = str(value).strip().casefold() if isinstance(value, str) else None
    if word in TRUE or word in FALSE:
        return float(word in TRUE)
    raise refused(declared.name, value, "says neither yes nor no; give True or False")


def _word(declared: Field, value: Any) -> Any:
    """Return one word of a field in the spelling of the tables."""
    if value == "" and isinstance(value, str):
        return ""
    if declared.type in ("model", "workload") and not isinstance(value, str):
        return value
    if declared.type == "accelerator" and isinstance(value, (str, hardware.Accelerator, hardware.Machine)):
        return hardware.machine(value)
    if not isinstance(value, str) and not (declared.type == "recompute" and isinstance(value, (int, float))):
        raise declared.refuse(value, "is not allowed")
    if declared.type == "recompute":
        return _recompute(declared.name, value)
    value = str(value)
    if declared.type in TABLES:
        suite = declared.type == "workload" and value.startswith(BENCHMARK)
        return value if suite else catalog.lookup(TABLES[declared.type], value)
    if declared.type == "choice":
        return declared.read(value)
    return value


def _recompute(name: str, value: str | float) -> str:
    """Return activation recomputation in its one spelling: none, selective, full, a share, or modules joined by +."""
    allowed = f"take none, selective, full, a share from 0 to 1, or modules of {', '.join(MODULES)} joined by +"
    if not isinstance(value, str):
        if isinstance(value, bool) or not 0 <= value <= 1:
            raise refused(name, value, f"is not allowed; {allowed}")
        return "none" if value == 0 else "full" if value == 1 else repr(float(value))
    word = value.strip().casefold()
    if word in ("none", "selective", "full") or (word and set(word.split("+")) <= set(MODULES)):
        return word
    try:
        return _recompute(name, float(word))
    except ValueError:
        raise refused(name, value, f"is not listed; {allowed}") from None


def step_seconds(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the seconds of a step, a pass or an answer: the parts are exposed time, so they add up."""
    return np.asarray(sum(parts.values()))


@lru_cache(maxsize=4096)
def recomputed(word: str) -> tuple[float, ...]:
    """Return the shares of a layer's parts that are recomputed, in the order of `RECOMPUTED`; NaN where not stated.

    >>> recomputed("selective"), recomputed("0.4")
    ((0.0, 1.0, 0.0, 0.0, 0.0), (0.4, 0.4, 0.4, 0.4, 0.4))
    """
    if not word:
        return (math.nan,) * len(RECOMPUTED)
    share, _, modules = word.partition("*") if "*" in word else ("1", "", word)
    if modules in ("none", "full") or modules[0].isdigit():
        value = 0.0 if modules == "none" else 1.0 if modules == "full" else float(modules)
        return (value,) * len(RECOMPUTED)
    parts = {"core"} if modules == "selective" else {p for name in modules.split("+") for p in MODULES[name]}
    return tuple(float(share) * (part in parts) for part in RECOMPUTED)


def each_row(value: Any, size: int | tuple[int, ...]) -> np.ndarray:
    """Return one value for each row; `size` is the number of rows, or the shape of their grid."""
    value = np.asarray(value)
    return value if value.ndim else value.reshape(1) if size == 1 else np.broadcast_to(value, size)


@dataclass(frozen=True, eq=False)
class Rows:
    """Numbers of rows in SI, counts as floats; one number may stand for all rows. Of an open grid as in `Scenario`.

    Attributes
    ----------
    values : mapping of str to numpy.ndarray
        All numbers by name, each one number or one a row; they are attributes too (``rows.devices``).
    why : numpy.ndarray of str
        Why a row cannot be predicted; "" where it can.
    keys : mapping of str to Coded
        ``accelerator``, ``vendor``, ``family``, ``engine``, ``scale``, and ``special``: the tier of what is run in a
        special way, "" for anything else.
    networks : tuple
        Name (or the reader's own network), changed arguments and sequence length of each distinct network, where the
        kind reads networks layer by layer; ``network_index`` is that of each row in it, -1 for none.
    assumed : tuple of (str, numpy.ndarray, numpy.ndarray or Coded)
        Fields that rows do not give: name, which rows lack it, and the value taken.
    stage : object, optional
        What the kind worked out of `values` on the way and needs again.
    """

    values: Mapping[str, np.ndarray] = field(repr=False)
    why: np.ndarray
    keys: Mapping[str, Coded] = field(repr=False)
    networks: tuple[tuple[Any, str, float | None], ...] = ()
    network_index: np.ndarray = field(default_factory=lambda: np.array(0), repr=False)
    assumed: tuple[tuple[str, Any, Any], ...] = field(default=(), repr=False)
    stage: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.why)

    @property
    def in_grid(self) -> bool:
        """Return whether rows are in an open grid."""
        return self.why.ndim > 1

    def __post_init__(self) -> None:
        self.__dict__.update(self.values)

    def take(self, at: Any) -> Self:
        """Return some of the rows."""
        values = {name: _cut(value, at) for name, value in self.values.items()}
        keys = {name: key.take(at) for name, key in self.keys.items()}
        assumed = tuple((name, _cut(lacks, at), _cut(value, at)) for name, lacks, value in self.assumed)
        return type(self)(values, self.why[at], keys, self.networks, _cut(self.network_index, at), assumed)

    def masked(self) -> Self:
        """Return the same rows, with the numbers masked of those that cannot be predicted; formulas let them pass."""
        bad = self.why != ""
        if not bad.any():
            return self
        values = {
            name: np.where(bad, np.nan, value) if value.dtype.kind == "f" else value
            for name, value in self.values.items()
        }
        return replace(self, values=values, why=np.zeros((1,) * bad.ndim, dtype="<U1"))

    def key(self, name: str) -> np.ndarray:
        """Return one key of every row, as text."""
        return np.broadcast_to(self.keys[name].each(str, object), len(self))

    def assumed_count(self) -> np.ndarray:
        """Return the number of fields that each row leaves to be assumed; one number may stand for all rows."""
        lacking = (np.asarray(lacks, dtype=int) for name, lacks, _ in self.assumed if name not in REMARKS)
        return np.asarray(sum(lacking, np.zeros((), dtype=int)))

    def assumptions(self) -> np.ndarray:
        """Return the fields that each row does not state, with their values: "zero = 1; attention = flash2"."""
        columns = []
        for name, lacks, value in self.assumed:
            if not np.any(lacks):
                continue
            if not isinstance(value, Coded):
                array = np.asarray(value, dtype=float)
                distinct, codes = np.unique(array, return_inverse=True)
                value = Coded(codes.reshape(array.shape), tuple(f"{number:.6g}" for number in distinct.tolist()))
            pairs = Coded(value.codes, tuple((name, str(level)) for level in value.levels))
            columns.append(together(pairs, Coded(np.asarray(lacks).astype(int), (False, True))))
        if not columns:
            return np.array([Assumptions()] * len(self), dtype=object)
        joined = together(*(column.map(lambda entry: entry[0] if entry[1] else None) for column in columns))
        assumptions = joined.each(lambda pairs: Assumptions(dict(filter(None, pairs))), object)
        return np.array(np.broadcast_to(assumptions, len(self)))


def _cut(value: Any, at: Any) -> Any:
    """Return some of the rows of a column; a value that all share as it is."""
    if isinstance(value, Coded):
        return value.take(at)
    return value[at] if np.ndim(value) else value
