"""Where marks, gridlines and labels stand in one picture or in small multiples: whole steps of `SIDE` a pane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cookbook.charts.explore import GAP, SIDE, nothing, ticks
from cookbook.charts.rows import nice_ceiling
from cookbook.panels.explore_words import tick_text

# Pixels at the left for names of rows, and for values.
ROOM, NARROW_ROOM = 184, 52
GOLDEN = 0.6180339887
MARGIN, SPREAD = 0.03, 0.55


@dataclass(frozen=True, eq=False)
class Axis:
    """Places from 0 to 1 on one axis: of the marks, and of ticks with their text.

    Attributes
    ----------
    at : numpy.ndarray
        Place of each mark.
    ticks : list of (float, str)
        Place and text.
    ends : tuple of float
        Values at 0 and 1; none for names.
    log : bool
    """

    at: np.ndarray
    ticks: list[tuple[float, str]]
    ends: tuple[float, float] = (0.0, 1.0)
    log: bool = False

    def place(self, values: Any) -> np.ndarray:
        """Places of other values on the same axis, held inside it."""
        low, high = self.ends
        with np.errstate(invalid="ignore", divide="ignore"):
            way = np.log(values / low) / np.log(high / low) if self.log else (values - low) / (high - low)
        return np.clip(way, 0, 1)


def number_axis(values: pd.Series, log: bool, most: int) -> Axis:
    """Axis over amounts (logarithmic) or years, at which marks are spread; a margin keeps them off its ends."""
    low, high = float(values.min()), float(values.max())
    if not log:
        return _axis(values + SPREAD * _spread(len(values)), (low - 0.6, high + 0.6), False, most, whole=True)
    span = max(np.log10(high / low), 0.3)
    return _axis(values, (low * 10 ** (-MARGIN * span), high * 10 ** (MARGIN * span)), True, most)


def value_axis(values: pd.Series, log: bool, most: int, beside: np.ndarray) -> Axis:
    """Axis over outcomes: logarithmic, or from 0 for shares, with room for what is drawn `beside` them."""
    known = np.concatenate([values.to_numpy(), beside[np.isfinite(beside)]])
    ends = number_axis(pd.Series(known), True, most).ends if log else (0.0, nice_ceiling(float(known.max())))
    return _axis(values, ends, log, most)


def _axis(values: pd.Series, ends: tuple[float, float], log: bool, most: int, whole: bool = False) -> Axis:
    bare = Axis(np.zeros(0), [], ends, log)
    marks = [value for value in ticks(*ends, log, most) if not whole or float(value).is_integer()]
    texts = [(float(bare.place(value)), tick_text(value, whole)) for value in marks]
    return Axis(bare.place(values.to_numpy(dtype=float)), texts, ends, log)


def _spread(count: int) -> np.ndarray:
    """Numbers from -0.5 to 0.5, neighbours far apart."""
    return np.asarray(np.arange(count) * GOLDEN % 1 - 0.5)


def name_axis(names: pd.Series, values: pd.Series, least: bool) -> Axis:
    """Axis over names, one row each, the best median at the top; marks are spread a little within their row."""
    middle = values.groupby(names).median().sort_values(ascending=not least)
    order = {name: at for at, name in enumerate(middle.index)}
    spread = SPREAD * _spread(len(names)) * (len(names) > len(order))
    at = (names.map(order).to_numpy(dtype=float) + 0.5 + spread) / len(order)
    counts = names.value_counts()
    return Axis(at, [((place + 0.5) / len(order), f"{name} ({counts[name]:,})") for name, place in order.items()])


@dataclass(frozen=True)
class Places:
    """Panes in columns and rows; `named`: names stand in rows at the left, and values run along the bottom."""

    panes: tuple[int, int]
    named: bool

    @property
    def across(self) -> int:
        """Right end of the last pane."""
        return self.panes[0] * SIDE + (self.panes[0] - 1) * self._gap

    @property
    def down(self) -> int:
        """Upper end of the first pane, with room for titles where there are several."""
        several = self.panes != (1, 1)
        return self.panes[1] * SIDE + (self.panes[1] - 1) * 2 * self._gap + (self._gap if several else 0)

    @property
    def left(self) -> int:
        """Pixels for what stands at the left."""
        return ROOM if self.named else NARROW_ROOM

    @property
    def _gap(self) -> int:
        return GAP

    def most_names(self) -> int:
        """How many names there is room for."""
        return 16 if self.panes[1] == 1 else 5

    def most_ticks(self, across: bool) -> int:
        """How many values there is room for, along the bottom or upwards."""
        return (9, 6, 4)[self.panes[0] - 1] if across else (7, 4)[self.panes[1] - 1]

    def _corner(self, pane: Any) -> tuple[Any, Any]:
        """Lower left corner of panes, counted from the upper left."""
        column, row = pane % self.panes[0], pane // self.panes[0]
        return column * (SIDE + self._gap), (self.panes[1] - 1 - row) * (SIDE + 2 * self._gap)

    def points(self, pane: np.ndarray, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Places across and up of marks, (2, n): names run upwards, numbers across."""
        across, up = (values, x) if self.named else (x, values)
        left, below = self._corner(pane)
        return np.array([left + np.round(across * SIDE), below + np.round(up * SIDE)]).astype(int)

    def grid(self, x: Axis, values: Axis) -> dict[str, dict[str, list[Any]]]:
        """Gridlines of every pane, values under the lowest panes, labels left of the first ones."""
        across, up = (values, x) if self.named else (x, values)
        count = self.panes[0] * self.panes[1]
        grid, under, beside = nothing("grid"), nothing("ticks"), nothing("labels")
        for pane in range(count):
            left, below = self._corner(pane)
            for place, _ in across.ticks:
                _add(grid, x=left + place * SIDE, y=below, x2=left + place * SIDE, y2=below + SIDE)
            for place, _ in up.ticks:
                _add(grid, x=left, y=below + place * SIDE, x2=left + SIDE, y2=below + place * SIDE)
            for place, text in across.ticks if pane + self.panes[0] >= count else ():
                _add(under, x=left + place * SIDE, y=below, text=text)
            for place, text in up.ticks if pane % self.panes[0] == 0 else ():
                _add(beside, x=left, y=below + place * SIDE, text=text)
        return {"grid": grid, "ticks": under, "labels": beside}

    def titles(self, names: list[str]) -> dict[str, list[Any]]:
        """Names of panes, above each."""
        found = nothing("titles")
        for pane, name in enumerate(names):
            left, below = self._corner(pane)
            _add(found, x=left, y=below + SIDE, text=name)
        return found

    def intervals(
        self, pane: np.ndarray, x: np.ndarray, beside: np.ndarray, values: Axis
    ) -> dict[str, dict[str, list[Any]]]:
        """Predicted values and their intervals, (n, 3) `beside`: point, low, high; none where none is known."""
        known, reach = np.isfinite(beside[:, 0]), np.isfinite(beside[:, 1])
        at = self.points(pane[known], x[known], values.place(beside[known, 0]))
        low, high = (self.points(pane[reach], x[reach], values.place(beside[reach, end])) for end in (1, 2))
        names = ("x", "y", "x2", "y2")
        return {
            "predictions": dict(zip(("x", "y"), at.tolist(), strict=True)),
            "intervals": dict(zip(names, [*low.tolist(), *high.tolist()], strict=True)),
        }


def joined(along: np.ndarray, group: np.ndarray) -> dict[str, list[Any]]:
    """Lines from each mark of a group to the next one to the right."""
    order = np.lexsort((along[0], group))
    start, end = order[:-1], order[1:]
    same = group[start] == group[end]
    start, end = start[same], end[same]
    ends = [*along[:, start].tolist(), *along[:, end].tolist(), group[start].tolist()]
    return dict(zip(("x", "y", "x2", "y2", "group"), ends, strict=True))


def _add(lists: dict[str, list[Any]], **cells: Any) -> None:
    for name, cell in cells.items():
        lists[name].append(cell if isinstance(cell, str) else round(cell))
