"""Rows: scenarios as the formulas take them, networks, machines and software looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cookbook.prediction.scenario import Coded, together

KEYS = ("accelerator", "vendor", "family", "engine", "scale", "moe")


def each_row(value: Any, size: int) -> np.ndarray:
    """One value a row."""
    value = np.asarray(value)
    return value if value.ndim else value.reshape(1) if size == 1 else np.broadcast_to(value, (size,))


@dataclass(frozen=True, eq=False)
class Rows:
    """Numbers of rows in SI, counts as floats; one number may stand for all rows.

    Attributes
    ----------
    values : mapping of str to numpy.ndarray
        All numbers by name, each one number or one a row; they are attributes too (``rows.devices``).
    why : numpy.ndarray of str
        Why a row cannot be predicted; "" where it can.
    keys : mapping of str to Coded
        ``accelerator``, ``vendor``, ``family``, ``engine``, ``scale`` and ``moe``.
    networks : tuple
        Name (or the reader's own network), changed arguments and sequence length of each distinct network, where the
        kind reads networks layer by layer; ``place`` is that of each row in it, -1 for none.
    place : numpy.ndarray of int
    assumed : tuple of (str, numpy.ndarray, numpy.ndarray or Coded)
        Fields that rows do not give: name, which rows lack it, and the value taken.
    inner : tuple of Rows
        Rows of the passes that a composed kind is made of.
    """

    values: Mapping[str, np.ndarray] = field(repr=False)
    why: np.ndarray
    keys: Mapping[str, Coded] = field(repr=False)
    networks: tuple[tuple[Any, str, float | None], ...] = ()
    place: np.ndarray = field(default_factory=lambda: np.array(0), repr=False)
    assumed: tuple[tuple[str, Any, Any], ...] = field(default=(), repr=False)
    inner: tuple[Rows, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.why)

    def __post_init__(self) -> None:
        self.__dict__.update(self.values)

    def __getattr__(self, name: str) -> np.ndarray:
        raise AttributeError(name)

    def take(self, at: Any) -> Rows:
        """Some of the rows."""
        values = {name: value[at] if value.ndim else value for name, value in self.values.items()}
        keys = {name: key.take(at) for name, key in self.keys.items()}
        place = self.place[at] if self.place.ndim else self.place
        assumed = tuple((name, _cut(lacks, at), _cut(value, at)) for name, lacks, value in self.assumed)
        return Rows(
            values, self.why[at], keys, self.networks, place, assumed, tuple(each.take(at) for each in self.inner)
        )

    def blanked(self) -> Rows:
        """The same rows, those that cannot be predicted without any number; formulas let them pass."""
        bad = self.why != ""
        if not bad.any():
            return self
        values = {name: np.where(bad, np.nan, each) if each.dtype.kind == "f" else each
                  for name, each in self.values.items()}  # fmt: skip
        return replace(self, values=values, why=np.zeros((1,) * bad.ndim, dtype="<U1"))

    def key(self, name: str) -> np.ndarray:
        """One key of every row, as text."""
        return np.broadcast_to(self.keys[name].each(str, object), len(self))

    def assumptions(self) -> np.ndarray:
        """Fields that each row does not give, with the value taken: "zero = 1; attention = flash2"."""
        columns = []
        for name, lacks, value in self.assumed:
            if not np.any(lacks):
                continue
            if not isinstance(value, Coded):
                array = np.asarray(value, dtype=float)
                distinct, codes = np.unique(array, return_inverse=True)
                value = Coded(codes.reshape(array.shape), tuple(f"{each:.6g}" for each in distinct.tolist()))
            words = Coded(value.codes, tuple(f"{name} = {level}" for level in value.levels))
            columns.append(together(words, Coded(np.asarray(lacks).astype(int), (False, True))))
        if not columns:
            return np.full(len(self), "", dtype=object)
        joined = together(*(column.map(lambda pair: pair[0] if pair[1] else "") for column in columns))
        found = joined.each(lambda words: "; ".join(filter(None, words)), object)
        return np.array(np.broadcast_to(found, len(self)))


def _cut(value: Any, at: Any) -> Any:
    if isinstance(value, Coded):
        return value.take(at)
    return value[at] if np.ndim(value) else value
