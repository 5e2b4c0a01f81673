"""What the panel of all measurements shows for one question: rows, places of marks, tables and parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cookbook.calibration import explore
from cookbook.charts import explore as charts
from cookbook.panels.explore_places import Axis, Places, joined, name_axis, number_axis, value_axis
from cookbook.panels.shell import MOST_ROWS, Part, Picture
from cookbook.units import human

OTHERS, UNKNOWN = "others", "not stated"
MOST_GROUPS = charts.MOST_PANES - 1
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
    "precision": "number format", "data": "data location", "processor": "processor", "server": "server",
    "link": "link in the node", "network_link": "link between nodes", "publisher": "publisher",
}  # fmt: skip
RINGS = 8
# More predictions than that hide each other, and the measurements.
MOST_PREDICTED = 400
_CODES = {"model": "network", "device": "device", "source": "publisher"}


@dataclass(frozen=True, eq=False)
class Asked:
    """One question to the measurements; never change it.

    Attributes
    ----------
    rows : pandas.DataFrame
        Measurements that pass the filters.
    y, x, by : str
        Columns; `by` may be blank.
    unit : str
        What is counted: a value of the column that says so, blank for the most frequent, "all" for every one.
    aggregate : {"all", "best", "median"}
    several, predicted : bool
        Small multiples; predictions beside.
    near : tuple of str
        Rows most like a configuration, nearest first.
    """

    rows: pd.DataFrame
    y: str
    x: str
    by: str
    unit: str
    aggregate: str
    several: bool
    predicted: bool
    near: tuple[str, ...] = ()
    most_predicted: int = MOST_PREDICTED

    @property
    def unit_column(self) -> str:
        """Column that says what is counted; blank for shares."""
        return Y[self.y][1]

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
            why = _WHY.get(self.y, "")
            raise ValueError(f"no measurement matches: {len(self.rows):,} pass the filters, but none states "
                             f"{Y[self.y][0]}{why}; choose another value, or loosen a filter")  # fmt: skip
        return found

    @cached_property
    def of_unit(self) -> pd.DataFrame:
        """Those of them that count the same, whether or not they say where on the other axis they stand."""
        column = Y[self.y][1]
        same = self.stated
        return same if not column or self.counted == "all" else _those(same, same[column] == self.counted)

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
        least = self.y == "time"
        keys = [found[self.x], *([found[self.by]] if self.by else [])]
        order = found[[self.y]].assign(at=found.groupby(keys, dropna=False).ngroup())
        order = order.sort_values(["at", self.y], ascending=[True, self.aggregate == "median" or least], kind="stable")
        count = order.groupby("at")[self.y].transform("size")
        place = order.groupby("at").cumcount()
        return order.index[place == ((count - 1) // 2 if self.aggregate == "median" else 0)]

    @property
    def words_x(self) -> str:
        """Name of the horizontal axis."""
        return {**NUMBERS, **NAMES}[self.x]

    @cached_property
    def labels(self) -> pd.Series:
        """Group of each row shown; the smaller ones are called others."""
        if not self.by:
            return pd.Series("measured", index=self.shown.index)
        return _few(self.shown[self.by], MOST_GROUPS)

    @cached_property
    def groups(self) -> list[str]:
        """Groups with most rows first, others last."""
        names = list(self.labels.value_counts().index)
        return sorted(names, key=lambda name: name == OTHERS)

    @cached_property
    def picture(self) -> Picture:
        """Places of everything that is drawn."""
        shown, across_panes = self.shown, self.several and len(self.groups) > 1
        group = self.labels.map({name: at for at, name in enumerate(self.groups)}).to_numpy()
        places = Places(charts.panes(len(self.groups) if across_panes else 1), self.x in NAMES)
        values = value_axis(shown[self.y], self.y not in SHARES, places.most_ticks(across=places.named), self.drawn)
        x_axis = self._x_axis(places)
        pane = group if across_panes else np.zeros(len(shown), dtype=int)
        along = places.points(pane, x_axis.at, values.at)
        beside = {name: charts.nothing(name) for name in charts.BESIDE} | places.grid(x_axis, values)
        if across_panes:
            beside["titles"] = places.titles(self.groups)
        if len(self.drawn):
            beside |= places.intervals(pane, x_axis.at, self.drawn, values)
        if self.aggregate != "all" and self.x in NUMBERS:
            named = np.array(self.groups)[group] != OTHERS
            beside["lines"] = joined(along[:, named], group[named])
        if self.near:
            at = np.flatnonzero(self.shown["id"].isin(self.near[:RINGS]).to_numpy())
            beside["rings"] = {"x": along[0][at].tolist(), "y": along[1][at].tolist()}
        return Picture("explored", self._marks(group, along), self.title, self._signals(places) | beside)

    def _x_axis(self, places: Places) -> Axis:
        if self.x in NAMES:
            return name_axis(_few(self._named_x(), places.most_names()), self.shown[self.y], self.y == "time")
        return number_axis(self.shown[self.x], self.x != "year", places.most_ticks(across=True))

    def _named_x(self) -> pd.Series:
        column = "device" if self.x == "accelerator" else self.x
        return self.shown[column].mask(self.shown[column] == "", UNKNOWN)

    def _marks(self, group: np.ndarray, along: np.ndarray) -> pd.DataFrame:
        shown = self.shown
        found = {name: pd.factorize(shown[column])[0] for name, column in _CODES.items()}
        return pd.DataFrame({
            **found, "x": along[0], "y": along[1], "group": group,
            "count": shown["devices"].fillna(-1).astype(int).to_numpy(),
            "value": _digits(shown[self.y].to_numpy()), "key": shown.index.to_numpy(),
        })[list(charts.COLUMNS)]  # fmt: skip

    @property
    def drawn(self) -> np.ndarray:
        """What of `beside` is drawn: nothing where it was not asked for, or is too much."""
        return self.beside if self.predicted and len(self.shown) <= self.most_predicted else np.empty((0, 3))

    @cached_property
    def beside(self) -> np.ndarray:
        """Predicted value, low and high end of its 80 % interval for each row shown; NaN where none is known."""
        shown = self.shown
        if self.y in ("weak_efficiency", "strong_efficiency"):
            return np.full((len(shown), 3), np.nan)
        ratio = shown[["predicted", "low80", "high80"]].to_numpy() / shown[["throughput"]].to_numpy()
        value = shown[[self.y]].to_numpy()
        return (value / ratio)[:, [0, 2, 1]] if self.y == "time" else value * ratio

    def _signals(self, places: Places) -> dict[str, Any]:
        count = len(self.shown)
        suffix = "" if self.y in SHARES else f" {self.unit_words}"
        names = {f"{name}s".replace("source", "publisher"): list(pd.unique(self.shown[column]))
                 for name, column in _CODES.items()}  # fmt: skip
        return {
            "groups": self.groups, "across": places.across, "down": places.down, "left": places.left,
            "size": 26 if count > 400 else 60, "opacity": 0.45 if count > 1500 else 0.7 if count > 200 else 0.9,
            "unit": suffix, **names,
        }  # fmt: skip

    @property
    def unit_words(self) -> str:
        """Unit of the values shown."""
        if self.y == "time":
            return "s" if self.counted == "all" else f"s a {self.counted}"
        base = "in mixed units" if self.counted == "all" else self.counted
        return base + {"per_device": " a device", "per_watt": " per W"}.get(self.y, "")

    @property
    def title(self) -> str:
        """The takeaway above the picture: what is on its axes."""
        name = Y[self.y][0]
        name = name if self.aggregate == "all" else f"{self.aggregate} {name}"
        head = f"{name[0].upper()}{name[1:]}" + ("" if self.y in SHARES else f" [{self.unit_words}]")
        scale = "" if self.y in SHARES else ", logarithmic"
        place = "along the bottom" if self.x in NAMES else "upwards"
        return f"{head}{scale} ({place}) by {self.words_x}"

    def printed(self, value: float) -> str:
        """A value with its unit."""
        if self.y in SHARES:
            return f"{100 * value:.3g} %"
        if self.y == "time":
            return f"{human(value, 's')} a {self.counted}" if self.counted != "all" else human(value, "s")
        return f"{figure(value)} {self.unit_words}"

    @cached_property
    def listed(self) -> pd.DataFrame:
        """Rows as the table has them: the nearest first, else the best first."""
        if self.near:
            order = {name: at for at, name in enumerate(self.near)}
            found = self.rows[self.rows["id"].isin(order)]
            return found.iloc[np.argsort(found["id"].map(order).to_numpy(), kind="stable")]
        return self.shown.sort_values(self.y, ascending=self.y == "time", kind="stable")


_WHY = {
    "weak_efficiency": ": it needs the same run on fewer devices", "utilisation": ": FLOP or peak are not known",
    "strong_efficiency": ": it needs the same batch on fewer devices", "per_watt": ": design power is not known",
}  # fmt: skip


def _those(rows: pd.DataFrame, wanted: pd.Series) -> pd.DataFrame:
    """Rows that are wanted; the frame itself where all are, since copying it takes longest."""
    return rows if wanted.all() else rows[wanted]


def _few(names: pd.Series, most: int) -> pd.Series:
    """Names with the rarer ones called others, unless there is but one of those; blank is not stated."""
    names = names.where(names.notna(), "").astype(str) if names.dtype != float else names.map("{:g}".format)
    names = names.mask(names.isin(["", "nan"]), UNKNOWN)
    counts = names.value_counts()
    return names.where(names.isin(counts.index[: most if len(counts) > most + 1 else most + 1]), OTHERS)


def _digits(values: np.ndarray) -> np.ndarray:
    """Four significant digits."""
    with np.errstate(divide="ignore"):
        scale = 10.0 ** (3 - np.floor(np.log10(np.abs(values))))
    return np.where(values == 0, 0, np.round(values * scale) / scale)


def figure(value: float) -> str:
    """A number as it is printed.

    Examples
    --------
    >>> figure(12345.6), figure(1.2345), figure(6.19e14)
    ('12,346', '1.23', '619 T')
    """
    if abs(value) >= 1e7:
        return human(value, "").strip()
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(asked: Asked) -> pd.DataFrame:
    """The first rows as printed text, each with its source."""
    rows = asked.listed.head(MOST_ROWS)
    ends = zip(rows["predicted"], rows["low80"], rows["high80"], strict=True)
    return pd.DataFrame({
        "Measured": [_outcome(row) for row in rows.itertuples()], "Network or operation": rows["network"],
        "On": [_machine(row) for row in rows.itertuples()],
        "Batch a device": [_known(each) for each in rows["batch_per_device"]],
        "Format": rows["precision"], "Software": rows["software"], "Date": rows["date"],
        "Predicted (80 %)": ["" if p != p else figure(p) + (f" ({figure(a)}-{figure(b)})" if a == a else "")
                             for p, a, b in ends],
        "Published by": [(row.publisher, row.url) for row in rows.itertuples()], "Row": rows["id"],
    })  # fmt: skip


def _outcome(row: Any) -> str:
    if row.throughput == row.throughput:
        return f"{figure(row.throughput)} {row.unit}"
    return f"{human(row.time, 's')} a {row.time_of}"


def _machine(row: Any) -> str:
    name = row.device or row.processor or row.server or UNKNOWN
    return name if row.devices != row.devices else f"{_known(row.devices)} x {name}"


def _known(value: float) -> str:
    return "" if value != value else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def parts(asked: Asked) -> tuple[Part, ...]:
    """Place 4: how many of the measurements shown each group holds, and its middle."""
    values = asked.shown[asked.y].groupby(asked.labels)
    counts, middle = values.size(), values.median()
    return tuple(
        Part(name, float(counts[name]), f"{counts[name]:,}", charts.COLOURS[at],
             f"Their median is {asked.printed(middle[name])}.")
        for at, name in enumerate(asked.groups)
    )  # fmt: skip


def source_rows(asked: Asked) -> tuple[tuple[str, str, str], ...]:
    """(title, link, rows) of each source of the measurements shown, those with most rows first."""
    counts = asked.shown[["source", "url", "publisher"]].value_counts().reset_index(name="count")
    return tuple((row.source, row.url, f"{row.publisher}: {row.count:,} measurements")
                 for row in counts.itertuples(index=False))  # fmt: skip


def columns_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns of `cb.measurements`, for the CSV."""
    return rows[[name for name in explore.COLUMNS if name in rows]]
