"""Which measurements answer a question: those that state a value, in one unit, with a place on another axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Column of an outcome -> words, and the column that says what is counted (none: a plain share).
Y = {
    "value": ("stated value", "counted"), "throughput": ("throughput", "unit"), "time": ("time", "time_of"),
    "per_device": ("rate of one device", "unit"), "per_watt": ("rate per watt of design power", "unit"),
    "weak_efficiency": ("weak scaling efficiency", ""), "strong_efficiency": ("strong scaling efficiency", ""),
    "utilisation": ("share of the peak FLOP/s", ""),
}  # fmt: skip
SHARES = ("utilisation", "weak_efficiency", "strong_efficiency")
NUMBERS = {"year": "year", "devices": "devices", "batch": "batch of all devices", "batch_per_device": "batch a device"}
NAMES = {
    "accelerator": "accelerator", "generation": "generation", "framework": "framework", "software": "software",
    "software_level": "software level", "network": "network", "kind": "kind", "phase": "phase",
    "precision": "precision", "data": "data location", "processor": "processor", "server": "server",
    "link": "link in the node", "network_link": "link between nodes", "publisher": "publisher",
}  # fmt: skip
# Why a value may not be stated.
WHY = {
    "weak_efficiency": ": it needs the same run on fewer devices", "utilisation": ": FLOP or peak are not known",
    "strong_efficiency": ": it needs the same batch on fewer devices", "per_watt": ": design power is not known",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Selected:
    """The measurements that answer one question; never change it.

    Attributes
    ----------
    rows : pandas.DataFrame
        Measurements that pass the filters.
    y, x, by : str
        Columns: what came out (a key of `Y`), where it stands, and what groups it (may be blank).
    unit : str
        What is counted: a value of the column that says so, blank for the most frequent, "all" for every one.
    aggregate : {"all", "best", "median"}
        Every run, or one of each place and group.
    """

    rows: pd.DataFrame
    y: str
    x: str
    by: str
    unit: str
    aggregate: str

    @cached_property
    def counted(self) -> str:
        """What the shown rows count: "images/s", or "all"; blank for shares."""
        column = Y[self.y][1]
        if not column or self.unit == "all":
            return self.unit if column else ""
        known = self.stated[column].value_counts()
        if self.unit and self.unit not in known:
            there = ", ".join(known.index[:4])
            raise ValueError(f"no measurement matches: none of these counts {self.unit!r}, but {there}; "
                             "choose one of them under Counted in")  # fmt: skip
        return self.unit or str(known.index[0])

    @cached_property
    def stated(self) -> pd.DataFrame:
        """Rows that state the value asked for."""
        found = _those(self.rows, self.rows[self.y] > 0)
        if not len(found):
            what = f"{Y[self.y][0]}{WHY.get(self.y, '')}"
            raise ValueError(f"no measurement matches: {len(self.rows):,} pass the filters, but none states {what}; "
                             "choose another value, or loosen a filter")  # fmt: skip
        return found

    @cached_property
    def of_unit(self) -> pd.DataFrame:
        """Those of them that count the same, whether or not they say where on the other axis they stand."""
        column = Y[self.y][1]
        same = self.stated
        return same if not column or self.counted == "all" else _those(same, same[column] == self.counted)

    def alike(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Of other measurements, those that could be shown too."""
        fits = rows[self.y] > 0
        if self.counted not in ("", "all"):
            fits &= rows[Y[self.y][1]] == self.counted
        return rows[fits & (rows[self.x] > 0)] if self.x in NUMBERS else rows[fits]

    @cached_property
    def shown(self) -> pd.DataFrame:
        """Rows in the picture: with a place on both axes, each group reduced to its best or middle run if asked."""
        found = self.of_unit
        if self.x in NUMBERS:
            found = _those(found, found[self.x] > 0)
        if not len(found):
            raise ValueError(f"no measurement matches: none of {len(self.of_unit):,} states its {self.words_x}; "
                             "choose another horizontal axis, or loosen a filter")  # fmt: skip
        return found if self.aggregate == "all" else found.loc[self._chosen(found)]

    def _chosen(self, found: pd.DataFrame) -> pd.Index:
        """One run for each place and group: the best, or the middle one, so that each mark keeps its source."""
        keys = [found[self.x], *([found[self.by]] if self.by else [])]
        order = found[[self.y]].assign(at=found.groupby(keys, dropna=False).ngroup())
        rising = self.aggregate == "median" or self.y == "time"
        order = order.sort_values(["at", self.y], ascending=[True, rising], kind="stable")
        count = order.groupby("at")[self.y].transform("size")
        place = order.groupby("at").cumcount()
        return order.index[place == ((count - 1) // 2 if self.aggregate == "median" else 0)]

    @property
    def words_x(self) -> str:
        """Name of the horizontal axis."""
        return {**NUMBERS, **NAMES}[self.x]

    @property
    def unit_words(self) -> str:
        """Unit of the values shown."""
        if self.y == "time":
            return "s" if self.counted == "all" else f"s a {self.counted}"
        base = "in mixed units" if self.counted == "all" else self.counted
        return base + {"per_device": " a device", "per_watt": " per W"}.get(self.y, "")

    @cached_property
    def beside(self) -> np.ndarray:
        """Predicted value, low and high end of its 80 % interval for each row shown; NaN where none is known."""
        shown = self.shown
        if self.y in ("weak_efficiency", "strong_efficiency"):
            return np.full((len(shown), 3), np.nan)
        ratio = shown[["predicted", "low80", "high80"]].to_numpy() / shown[["throughput"]].to_numpy()
        value = shown[[self.y]].to_numpy()
        return (value / ratio)[:, [0, 2, 1]] if self.y == "time" else value * ratio


def _those(rows: pd.DataFrame, wanted: pd.Series) -> pd.DataFrame:
    """Rows that are wanted; the frame itself where all are, since copying it takes longest."""
    return rows if wanted.all() else rows[wanted]
