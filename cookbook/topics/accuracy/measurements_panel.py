"""Panel of recipe 07: every measurement, asked any question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook.catalog.calls import as_python, keywords
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.evidence import measurements as explore
from cookbook.evidence.measurements import NAMES, NUMBERS, SHARES, Selected, Y
from cookbook.panels.controls import Choice, Combo, Control, Option, Own, Slider, powers_of_two
from cookbook.panels.options import network_titles
from cookbook.panels.shell import MOST_ROWS, Panel, Part, Picture, View, panel_call
from cookbook.panels.text import counted, figure, json_of, percent, sources_by_count
from cookbook.topics.accuracy import charts
from cookbook.topics.accuracy.charts import OTHERS, UNKNOWN, few
from cookbook.units import human, shown

# Filters: parameter -> (column, label, heading, whether it is under More).
FILTERS = {
    "networks": ("network", "Networks", "Filters", False),
    "accelerators": ("accelerator", "Accelerators", "Filters", False),
    "frameworks": ("framework", "Frameworks", "Filters, more", True),
    "precision": ("precision", "Precision", "Filters, more", True),
    "years": ("year", "Years", "Filters, more", True),
    "publishers": ("publisher", "Publishers", "Filters, more", True),
}
DEFAULTS: dict[str, Any] = {
    "y": "per_device",
    "x": "year",
    "by": "generation",
    "kind": "training",
    "networks": [],
    "accelerators": [],
    "unit": "",
    "scaling": "",
    "most_devices": 16384,
    "frameworks": [],
    "precision": [],
    "years": [],
    "publishers": [],
    "near": "",
    "aggregate": "all",
    "several": "no",
    "predicted": "no",
}
CODES = {"model": "network", "device": "device", "source": "publisher"}
EXAMPLE = {"model": "resnet50", "accelerator": "v100-sxm2-16gb", "devices": 8, "batch_per_device": 64}
# Rings; measurements of a group that is compared; predictions up to which they are drawn, as more hide each other.
MAX_RINGS, MIN_ROWS, MAX_PREDICTED = 8, 5, 500


def measurements(**state: Any) -> Panel:
    """Return the panel "What did others measure?" in the state that the arguments describe.

    Parameters
    ----------
    **state
        y: "value", "throughput", "time", "per_device", "per_watt", "utilisation", "weak_efficiency" or
        "strong_efficiency".
        x: a column of `cb.measurements`, such as "year", "devices", "framework"; by: another one, or "".
        kind: one kind, or "" for every one. networks, accelerators, frameworks, precision, years, publishers: lists of
        entries to keep; empty: all.
        unit: the unit, such as "images/s"; "": the most frequent, "all": every one.
        scaling: "", "weak" or "strong": runs on several numbers of devices with the same batch
        per device, or with the same global batch.
        most_devices: largest number of devices; 16384 keeps those without a number too.
        near: a configuration or the id of a row, as for `cb.measurements`.
        aggregate: "all", "best" or "median" run of each place and group.
        several: "yes" for small multiples. predicted: "yes" for our left-out predictions with their intervals.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Raises
    ------
    TypeError
        For a name that no control has.

    Examples
    --------
    >>> panel = measurements(kind="matmul", x="accelerator")
    >>> panel.update(y="time")
    >>> panel.answer.split(":")[0]
    'No measurement matches'
    """
    return Panel(
        measurements,
        "What did others measure?",
        _controls,
        {"explored": charts.explored},
        _draw,
        state,
        pick="near",
        good=DEFAULTS,
    )


def _controls() -> tuple[Control, ...]:
    filters = [_filter(name, *about) for name, about in FILTERS.items()]
    values = tuple((name, about[0], "", "") for name, about in Y.items())
    names = tuple((name, text, "", "names") for name, text in NAMES.items())
    axes = (*((name, text, "", "numbers") for name, text in NUMBERS.items()), *names)
    kinds = explore.everything()["kind"].value_counts().items()
    own = Own(
        "your configuration…",
        f"JSON with some of {', '.join(explore.ASKED)}; or the id of a row",
        json.dumps(EXAMPLE),
        _read,
        _show,
    )
    return (
        Combo("y", "Value", "Question", values, tooltip="Measured quantity"),
        Combo("x", "Against", "Question", axes, tooltip="Horizontal axis for numbers; names are listed in rows"),
        Combo(
            "by",
            "Colour",
            "Question",
            (("", "nothing", "", ""), *names, ("year", "year", "", "")),
            tooltip="Property that colours the marks, five groups and the others, and that separates small multiples",
        ),
        Combo(
            "kind",
            "Kind",
            "Filters",
            (*((name, name, "", f"{count:,}") for name, count in kinds), ("", "every kind", "", "")),
            tooltip="Kind of measurement",
        ),
        *(control for control in filters if not control.more),
        Combo(
            "unit",
            "Counted in",
            "Filters, more",
            _units(),
            more=True,
            tooltip="Unit of the values; rates in different units cannot be compared",
        ),
        Choice(
            "scaling",
            "Scaling",
            "Filters, more",
            (
                ("", "any", "Every run"),
                ("weak", "weak", "Curves with the same batch per device"),
                ("strong", "strong", "Curves with the same global batch"),
            ),
            tooltip="Kind of curve",
            more=True,
        ),
        Slider(
            "most_devices",
            "Devices at most",
            "Filters, more",
            powers_of_two(0, 14),
            more=True,
            tooltip="At the end of the slider, runs without a number of devices are included",
        ),
        *(control for control in filters if control.more),
        Combo(
            "near",
            "Like",
            "Yours",
            _examples(),
            own=own,
            more=True,
            plain=_like,
            tooltip="Your configuration: rings show the most similar measurements; so does a click on a mark",
        ),
        Choice(
            "aggregate",
            "Marks",
            "",
            (
                ("all", "Every run", "All measurements"),
                ("best", "Best", "The best run of each position and group"),
                ("median", "Median", "The median run of each position and group"),
            ),
            place="picture",
        ),
        Choice(
            "several",
            "Panes",
            "",
            (("no", "One chart", "All groups together"), ("yes", "Small multiples", "One pane per group")),
            place="picture",
        ),
        Choice(
            "predicted",
            "Prediction",
            "",
            (
                ("no", "Measured", "Measurements alone"),
                ("yes", "Predicted too", "Our prediction of each, with its publisher held out, and its 80 % interval"),
            ),
            place="picture",
        ),
    )


def _filter(name: str, column: str, label: str, group: str, more: bool) -> Combo:
    rows = explore.everything()
    years = column == "year"
    values = rows.loc[rows[column].notna(), column].map("{:.0f}".format) if years else rows[column]
    counts = values[values != ""].value_counts()
    labels = dict(zip(rows[column], printed(rows, column), strict=True))
    options: tuple[Option, ...] = tuple(
        (value, labels.get(value, value), "", counted(count, "measurement"))
        for value, count in (counts.sort_index(ascending=False) if years else counts).items()
    )
    return Combo(
        name,
        label,
        group,
        options,
        many=True,
        limit=4,
        more=more,
        plain=_year if years else None,
        ranked=True,
        tooltip=f"{label}, four at most; empty: all",
    )


def _year(value: Any) -> str:
    """Return a year as it is listed."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and 1900 <= value <= 2100
    text = f"{value:.0f}" if number else value
    if not (isinstance(text, str) and len(text) == 4 and text.isascii() and text.isdecimal()):
        raise ValueError(f"{shown(value)} is not a year; give one such as 2018")
    return text


def _examples() -> tuple[Option, ...]:
    """Return a run of each kind, to start from."""
    rows = explore.everything().query("device != ''").drop_duplicates("kind")
    titles = network_titles()
    options = (
        (row.id, f"{titles.get(row.network, row.network)} on {row.device}", row.id, row.kind)
        for row in rows.itertuples()
    )
    return (("", "nothing", "", ""), *options)


def _units() -> tuple[Option, ...]:
    rows = explore.everything()
    options = [("", "the most frequent", "", ""), ("all", "all, mixed", "", "")]
    for column, what in (("unit", "rate"), ("time_of", "time of"), ("counted", "stated value")):
        counts = rows[rows[column] != ""][column].value_counts()
        listed = {value for value, *_ in options}
        options += [(value, value, "", f"{what}, {count:,}") for value, count in counts.items() if value not in listed]
    return tuple(options)


def _read(text: str) -> Any:
    """Return the configuration, or the id of a row, that a reader types."""
    if not text.strip().startswith("{"):
        return text.strip()
    return _like(json_of(text, "your configuration"))


def _like(value: Any) -> Any:
    """Return the value of a control for a configuration: a mapping, or the id of a row, also from its number."""
    ids = explore.everything()["id"]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(ids):
        return ids.iloc[value]
    pairs = value.items() if isinstance(value, dict) else ()
    plain = isinstance(value, dict) and all(isinstance(each, (str, int, float)) for pair in pairs for each in pair)
    if not (plain or isinstance(value, str)):
        raise ValueError(f"{shown(value)} is not a configuration; write it as {EXAMPLE}, or give a row's id")
    return value


def _show(value: Any) -> tuple[str, str]:
    return json.dumps(value), " ".join(str(part) for part in value.values()) or "your configuration"


def titled(networks: pd.Series) -> pd.Series:
    """Return the titles of networks; what the zoo does not have stays as it was written."""
    return networks.map(network_titles()).fillna(networks)


def printed(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return a column as printed names; those of accelerators and networks are not their keys."""
    if column == "network":
        return titled(rows["network"])
    return rows["device" if column == "accelerator" else column]


def _where(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters as arguments of `cb.measurements`."""
    where = {"kind": values["kind"]} if values["kind"] else {}
    where |= {column: values[name] for name, (column, *_) in FILTERS.items() if values[name] and column != "year"}
    if values["networks"]:
        where["network"] = [*values["networks"], *_variants(tuple(values["networks"]))]
    if values["scaling"]:
        where["scaling"] = [values["scaling"], "weak and strong"]
    if values["most_devices"] < DEFAULTS["most_devices"]:
        where["devices"] = (0, values["most_devices"])
    return where


@lru_cache(maxsize=32)
def _variants(networks: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variants of networks, such as version 1.5 beside version 1."""
    parts = ((name, *name.rpartition("_v")) for name in explore.everything()["network"].unique())
    return tuple(name for name, front, _, back in parts if front in networks and "." in back and name not in networks)


@lru_cache(maxsize=4)
def _kept(classic_flop: bool, where: str, years: tuple[str, ...]) -> Any:
    rows = explore.measurements(classic_flop=classic_flop, **json.loads(where))
    rows = rows[rows["year"].map("{:.0f}".format).isin(years)] if years else rows
    if not len(rows):
        words = f"no measurement matches in {' or '.join(years)}: loosen Years or another filter"
        raise Refused(Refusal(words, field="years"))
    return rows


@lru_cache(maxsize=8)
def _asked(key: str) -> Asked:
    """Return the selected measurements, cached, so that an unchanged chart is not sent again."""
    values = json.loads(key)
    flop, where, years = values["y"] == "utilisation", _where(values), tuple(values["years"])
    rows = _kept(flop, json.dumps(where), years)
    near: tuple[str, ...] = ()
    if values["near"]:
        like = explore.nearest_rows(rows, explore.configuration(values["near"]), str(values["near"]))
        near = tuple(like["id"].head(15))
    names = ("y", "x", "by", "unit", "aggregate")
    yes = {name: values[name] == "yes" for name in ("several", "predicted")}
    wanted = {column: tuple(values[name]) for name, (column, *_) in FILTERS.items()}
    return Asked(rows, **{name: values[name] for name in names}, **yes, near=near, wanted=wanted)


@dataclass(frozen=True, eq=False)
class Asked(Selected):
    """Selected measurements and how they are drawn.

    Attributes
    ----------
    several, predicted : bool
        Small multiples; predictions beside.
    near : tuple of str
        Rows most like a configuration, nearest first.
    wanted : mapping
        By column, the entries of its filter.
    """

    several: bool = False
    predicted: bool = False
    near: tuple[str, ...] = ()
    wanted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def labels(self) -> pd.Series:
        """Return the group of each row shown; the smaller ones are called others."""
        if not self.by:
            return pd.Series("measured", index=self.shown.index)
        return few(printed(self.shown, self.by), charts.MOST_PANES - 1)

    @cached_property
    def groups(self) -> list[str]:
        """Return the groups, those with most rows first and others last."""
        return sorted(self.labels.value_counts().index, key=lambda name: name == OTHERS)

    @cached_property
    def picture(self) -> Picture:
        """Return the chart: positions of everything that is drawn."""
        shown = self.shown
        group = self.labels.map({name: at for at, name in enumerate(self.groups)}).to_numpy()
        x = shown[self.x] if self.x in NUMBERS else printed(shown, self.x).replace("", UNKNOWN)
        along, beside = charts.placed(
            shown[self.y],
            x,
            group,
            self.groups,
            self.drawn,
            log=self.y not in SHARES,
            least=self.y == "time",
            several=self.several,
            lines=self.aggregate != "all",
            ringed=np.flatnonzero(shown["id"].isin(self.near[:MAX_RINGS]).to_numpy()),
        )
        codes = {name: pd.factorize(printed(shown, column)) for name, column in CODES.items()}
        marks = pd.DataFrame(
            {
                **{name: places for name, (places, _) in codes.items()},
                "x": along[0],
                "y": along[1],
                "group": group,
                "count": shown["devices"].fillna(-1).astype(int).to_numpy(),
                "value": _digits(shown[self.y].to_numpy()),
                "key": shown.index.to_numpy(),
            }
        )[list(charts.COLUMNS)]
        count = len(shown)
        lists = {f"{name}s".replace("source", "publisher"): list(names) for name, (_, names) in codes.items()}
        return Picture(
            "explored",
            marks,
            self.title,
            {
                "groups": self.groups,
                "size": 26 if count > 400 else 60,
                **lists,
                **beside,
                "opacity": 0.45 if count > 1500 else 0.7 if count > 200 else 0.9,
                "unit": "" if self.y in SHARES else f" {self.unit_words}",
            },
        )

    @property
    def drawn(self) -> np.ndarray:
        """Return the predictions that are drawn: none unless requested, and none of too many."""
        return self.beside if self.predicted and len(self.shown) <= MAX_PREDICTED else np.empty((0, 3))

    @property
    def title(self) -> str:
        """Return the takeaway, the group with the highest median or the median of all, with the axes in brackets."""
        name = Y[self.y][0] if self.aggregate == "all" else f"{self.aggregate} {Y[self.y][0]}"
        scale = "" if self.y in SHARES else ", logarithmic"
        axes = f"({'horizontal' if self.x in NAMES else 'vertical'}: {name}{scale}; by {self.words_x})"
        if self.counted == "all":
            return f"{counted(len(self.shown), 'measurement')} in several units {axes}"
        medians = self.group_medians
        if len(medians) < 2:
            return f"The median is {self.printed(float(self.shown[self.y].median()))} {axes}"
        return f"{medians.index[-1]} has the highest median, {self.printed(medians.iloc[-1])} {axes}"

    @cached_property
    def group_medians(self) -> pd.Series:
        """Return the medians of the groups with enough measurements to compare them, ascending."""
        if not self.by:
            return pd.Series(dtype=float)
        values = self.shown[self.y].groupby(self.labels)
        return values.median()[values.size() >= MIN_ROWS].drop(OTHERS, errors="ignore").sort_values(kind="stable")

    def printed(self, value: float) -> str:
        """Return a value with its unit."""
        if self.y in SHARES:
            return f"{100 * value:.3g} %"
        if self.y == "time":
            return f"{human(value, 's')} per {self.counted}" if self.counted != "all" else human(value, "s")
        return f"{figure(value)} {self.unit_words}"

    @cached_property
    def listed(self) -> pd.DataFrame:
        """Return the rows of the table: the nearest first, else the best first."""
        if self.near:
            order = {name: at for at, name in enumerate(self.near)}
            rows = self.rows[self.rows["id"].isin(order)]
            return rows.iloc[np.argsort(rows["id"].map(order).to_numpy(), kind="stable")]
        return self.shown.sort_values(self.y, ascending=self.y == "time", kind="stable")


def _digits(values: np.ndarray) -> np.ndarray:
    """Return values with four significant digits."""
    with np.errstate(divide="ignore"):
        scale = 10.0 ** (3 - np.floor(np.log10(np.abs(values))))
    return np.where(values == 0, 0, np.round(values * scale) / scale)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    for name, choices in (("y", [*Y]), ("x", [*NUMBERS, *NAMES]), ("by", ["", "year", *NAMES])):
        if values[name] not in choices:
            raise refused(name, values[name], f"is not a choice; take one of {', '.join(filter(None, choices))}")
    selection = _asked(json.dumps(values))
    shown, values_by = selection.shown, selection.shown[selection.y].groupby(selection.labels)
    counts, middle = values_by.size(), values_by.median()
    return View(
        answer=_answer(selection),
        headline={"median": float(shown[selection.y].median()), "measurements": len(shown)},
        chips=_chips(selection),
        picture=selection.picture,
        parts=tuple(
            Part(
                name,
                float(counts[name]),
                f"{counts[name]:,}",
                charts.COLOURS[at],
                f"Their median is {selection.printed(middle[name])}.",
            )
            for at, name in enumerate(selection.groups)
        ),
        parts_title=f"{counted(len(shown), 'measurement')} by {NAMES.get(selection.by, selection.by) or 'nothing'}",
        table=partial(_table, selection),
        data=lambda: shown[[name for name in explore.COLUMNS if name in shown]],
        sources=partial(sources_by_count, shown, "measurement"),
        code=_code(values, selection),
    )


def _code(values: dict[str, Any], selection: Asked) -> str:
    where = _where(values)
    if selection.counted not in ("", "all"):
        where[Y[selection.y][1]] = selection.counted
    if selection.y == "utilisation":
        where["classic_flop"] = True
    stated = [f"{name} > 0" for name in (selection.y, selection.x) if name in {**Y, **NUMBERS}]
    stated += [f"year in [{', '.join(values['years'])}]"] if values["years"] else []
    call = f"cb.measurements({keywords(where)}).query({as_python(' and '.join(stated))})"
    if selection.aggregate != "all":
        keys = list(dict.fromkeys(filter(None, (selection.x, selection.by))))
        how = {"median": 'quantile(0.5, interpolation="lower")', "best": "min()" if selection.y == "time" else "max()"}
        call += f'.groupby({as_python(keys)})["{selection.y}"].{how[selection.aggregate]}'
    lines = [panel_call(measurements, values, DEFAULTS), call]
    if values["near"]:
        lines.append(f"cb.measurements({keywords({'near': values['near'], **where})}).head(15)")
    return "\n".join(lines)


# The table.


def _table(selection: Asked) -> pd.DataFrame:
    """Return the first rows as printed text, each with its source."""
    rows = selection.listed.head(MOST_ROWS)
    ends = zip(rows["predicted"], rows["low80"], rows["high80"], strict=True)
    table = pd.DataFrame(
        {
            "Measured": [_outcome(row) for row in rows.itertuples()],
            "Network or operation": printed(rows, "network"),
            "Hardware": [_machine(row, UNKNOWN) for row in rows.itertuples()],
            "Batch per device": [_known(each) for each in rows["batch_per_device"]],
            "Precision": rows["precision"],
            "Software": rows["software"],
            "Date": rows["date"],
            "Predicted (80 %)": [
                "" if p != p else figure(p) + (f" ({figure(a)}-{figure(b)})" if a == a else "") for p, a, b in ends
            ],
            "Published by": [(row.publisher, row.url) for row in rows.itertuples()],
            "Row": rows["id"],
        }
    )
    table.attrs["rows"] = len(selection.listed)
    return table


def _outcome(row: Any) -> str:
    if row.throughput == row.throughput:
        return f"{figure(row.throughput)} {row.unit}"
    return f"{human(row.time, 's')} per {row.time_of}"


def _machine(row: Any, unknown: str = "a machine that is not named") -> str:
    name = row.device or row.processor or row.server or unknown
    return name if row.devices != row.devices else f"{_known(row.devices)} × {name}"


def _known(value: float) -> str:
    return "" if value != value else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


# Words.


def _answer(selection: Asked) -> str:
    """Return the headline and the facts below it."""
    facts = [_near(selection)] if selection.near else [_span(selection)]
    if not selection.near and selection.counted != "all":
        facts.append(_groups(selection) or _best(selection))
    if selection.predicted:
        facts.append(_predicted(selection))
    facts.append(_chosen(selection))
    return " ".join(filter(None, [*facts, _aside(selection)]))


def _span(selection: Asked) -> str:
    values, count = selection.shown[selection.y], len(selection.shown)
    what = "measurement" if selection.aggregate == "all" else f"{selection.aggregate} measurement"
    by = f"Publishers: {selection.shown['publisher'].nunique():,}"
    if selection.counted == "all":
        units = selection.shown[Y[selection.y][1]].nunique()
        return f"**{counted(count, what)}**, in {units} units: compare only values in the same unit. {by}."
    if count == 1:
        return f"One {what} states **{selection.printed(float(values.iloc[0]))}**. {by}."
    low, high = (selection.printed(values.quantile(share)) for share in (0.25, 0.75))
    low = low.removesuffix(f" {selection.unit_words}") if selection.y != "time" else low
    middle = selection.printed(float(values.median()))
    half = f"half of the values are between {low} and {high}"
    return f"The median of {counted(count, what)} is **{middle}**. {by}; {half}."


def _chosen(selection: Asked) -> str:
    """Return the variants drawn with the chosen networks, and the filter entries of which nothing is drawn."""
    variants = [
        name for name in _variants(selection.wanted.get("network", ())) if (selection.shown["network"] == name).any()
    ]
    included = f"Included too: {', '.join(network_titles().get(name, name) for name in variants)}." if variants else ""
    none = [
        name
        for column, names in selection.wanted.items()
        for name in names
        if not (_entries(selection.shown, column) == name).any()
    ]
    if not none:
        return included
    devices = dict(zip(explore.everything()["accelerator"], explore.everything()["device"], strict=True))
    named = ", ".join(network_titles().get(name) or devices.get(name) or name for name in none)
    return " ".join(filter(None, [included, f"Filters: no such run was measured on or with {named}."]))


def _entries(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return a column as the entries of its filter."""
    return rows[column].map("{:.0f}".format) if column == "year" else rows[column]


def _network(row: Any) -> str:
    return network_titles().get(row["network"], row["network"])


def _best(selection: Asked) -> str:
    row = selection.shown.loc[
        selection.shown[selection.y].idxmin() if selection.y == "time" else selection.shown[selection.y].idxmax()
    ]
    when = "" if row["year"] != row["year"] else f", {row['year']:.0f}"
    verb = "Shortest" if selection.y == "time" else "Highest"
    return (
        f"{verb}: {selection.printed(row[selection.y])}, {_network(row)} on {_machine(row)} ({row['publisher']}{when})."
    )


def _groups(selection: Asked) -> str:
    """Return the groups with the highest and the lowest median, where there are enough measurements."""
    medians = selection.group_medians
    if len(medians) < 2:
        return ""
    least, most = medians.index[0], medians.index[-1]
    return (
        f"Groups: {most} has the highest median ({selection.printed(medians.iloc[-1])}), {least} the lowest "
        f"({selection.printed(medians.iloc[0])}); the groups also differ in other respects."
    )


def _predicted(selection: Asked) -> str:
    """Return the share of intervals that contain the measured value."""
    point, low, high = selection.beside.T
    has_prediction, value = np.isfinite(point), selection.shown[selection.y].to_numpy()
    reach = has_prediction & np.isfinite(low)
    if not has_prediction.any():
        return "Predicted: none of them; only training with known settings and JPEG decoding are predicted."
    drawn = "diamonds" if len(value) <= MAX_PREDICTED else "too many to draw; filter them"
    words = f"Predicted: {int(has_prediction.sum()):,} of them, with their publisher held out ({drawn})"
    if not reach.any():
        return f"{words}, without an interval."
    share = np.mean((low[reach] <= value[reach]) & (value[reach] <= high[reach]))
    return f"{words}; their 80 % intervals contain {percent(share)}."


def _near(selection: Asked) -> str:
    row = selection.listed.iloc[0]
    when = f", {row['date']}" if row["date"] else ""
    each, value = row["batch_per_device"], row[selection.y]
    batch = "" if each != each else f", batch {each:,.4g} per device"
    alike = selection.counted in ("", row[Y[selection.y][1]]) if Y[selection.y][1] else True
    result = selection.printed(value) if alike else _outcome(row)
    stated = f"**{result}**" if value == value else f"it **states no {Y[selection.y][0]}**"
    shown = int(selection.shown["id"].isin(selection.near).sum())
    precision = row["precision"] or "precision not stated"
    return (
        f"Nearest measurement: {stated}, {_network(row)}. Measured: on {_machine(row)}{batch}, {precision}, "
        f"{row['software'] or 'software not stated'}, by {row['publisher']}{when}. Table: this one and the next "
        f"{min(len(selection.near), 15) - 1}, each with its source; {min(shown, MAX_RINGS)} are ringed here."
    )


def _aside(selection: Asked) -> str:
    """Return the number of measurements that match and are not drawn, with the reasons."""
    other, silent = len(selection.stated) - len(selection.of_unit), len(selection.rows) - len(selection.stated)
    lost = len(selection.of_unit) - len(selection.shown) if selection.aggregate == "all" else 0
    reasons = [
        f"{other:,} in other units (Counted in)" if other else "",
        f"{lost:,} without {selection.words_x}" if lost else "",
        f"{silent:,} without this value" if silent else "",
    ]
    text = "; ".join(filter(None, reasons))
    return f"Left out: {text}." if text else ""


def _chips(selection: Asked) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the values are known."""
    curve = (
        "same publisher, fewer devices",
        "Against the fewest devices of the same publisher, network, software, "
        "precision and batch (per device for weak scaling, global for strong scaling).",
    )
    own = {
        "per_watt": ("TDP, not power", "Design power of the devices; no power was measured, and hosts are excluded."),
        "utilisation": ("counted by us", "FLOP of the network's own layers, over the dense peak in the precision."),
        "weak_efficiency": curve,
        "strong_efficiency": curve,
    }
    return (
        ("measured by others", "Published measurements, each with its source; none was made for this cookbook."),
        ("development set", "The predictions were developed with these measurements; none of them is held back."),
        *([own[selection.y]] if selection.y in own else []),
    )
