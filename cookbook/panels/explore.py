"""Panel of recipe 07: every measurement, asked any question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from cookbook.calibration import explore, explore_pairs
from cookbook.charts import explore as charts
from cookbook.panels import code
from cookbook.panels import explore_frames as frames
from cookbook.panels import explore_words as words
from cookbook.panels.controls import Choice, Combo, Control, Option, Own, Slider, powers_of_two
from cookbook.panels.shell import Panel, View

# Filters: parameter -> (column, words, heading, "more").
FILTERS = {
    "networks": ("network", "Networks", "Only", False),
    "accelerators": ("accelerator", "Accelerators", "Only", False),
    "frameworks": ("framework", "Frameworks", "Only more", True),
    "precision": ("precision", "Number formats", "Only more", True),
    "years": ("year", "Years", "Only more", True), "publishers": ("publisher", "Publishers", "Only more", True),
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "y": "per_device", "x": "year", "by": "generation", "kind": "training", "networks": [], "accelerators": [],
    "unit": "", "scaling": "", "most_devices": 16384, "frameworks": [], "precision": [], "years": [],
    "publishers": [], "near": "", "aggregate": "all", "several": "no", "predicted": "no",
}  # fmt: skip
_EXAMPLE = {"model": "resnet50", "accelerator": "v100-sxm2-16gb", "devices": 8, "batch_per_device": 64}


def measurements(**state: Any) -> Panel:
    """The panel "What did others measure?", in the state that the arguments say.

    Parameters
    ----------
    **state
        y: "value", "throughput", "time", "per_device", "per_watt", "utilisation", "weak_efficiency" or
        "strong_efficiency".
        x: a column of `cb.measurements`, such as "year", "devices", "framework"; by: another one, or "".
        kind: one kind, or "" for every one. networks, accelerators, frameworks, precision, years, publishers: lists of
        what to keep; empty: all.
        unit: what is counted, such as "images/s"; "": the most frequent, "all": every one.
        scaling: "", "weak" or "strong": runs with the same batch a device, or in all, on several numbers of devices.
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
    title = "What did others measure?"
    return Panel("measurements", title, _controls(), {"explored": charts.explored}, _draw, DEFAULTS, state, pick="near")


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    filters = {name: _filter(name, *about) for name, about in FILTERS.items()}
    shown = [control for control in filters.values() if not control.more]
    more = [control for control in filters.values() if control.more]
    values = tuple((name, about[0], "", "") for name, about in frames.Y.items())
    axes = tuple((name, text, "", "numbers") for name, text in frames.NUMBERS.items())
    names = tuple((name, text, "", "names") for name, text in frames.NAMES.items())
    return (
        Combo("y", "Value", "Question", values, tooltip="What came out of the run"),
        Combo("x", "Against", "Question", axes + names, tooltip="Numbers run across; names stand in rows"),
        Combo("by", "Colour", "Question", (("", "nothing", "", ""), *names, ("year", "year", "", "")),
              tooltip="What colours the marks, five groups and the others; also what small multiples are of"),
        Combo("kind", "Kind", "Only", _kinds(), tooltip="What was measured"),
        *shown,
        Combo("unit", "Counted in", "Only more", _units(), more=True,
              tooltip="Rates of different things cannot be compared: one unit at a time"),
        Choice("scaling", "Scaling", "Only more", (
            ("", "any", "Every run"), ("weak", "weak", "Curves with the same batch a device"),
            ("strong", "strong", "Curves with the same batch in all")), tooltip="Kind of curve", more=True),
        Slider("most_devices", "Devices at most", "Only more", powers_of_two(0, 14), more=True,
               tooltip="At its end, runs without a number of devices are kept too"),
        *more,
        Combo("near", "Like", "Yours", _examples(), own=_own(), more=True, plain=_row_id,
              tooltip="A configuration of yours: rings show what was measured most like it; so does a click on a mark"),
        Choice("aggregate", "Marks", "", (
            ("all", "Every run", "All measurements"), ("best", "Best", "The best run of each place and group"),
            ("median", "Median", "The middle run of each place and group")), place="picture"),
        Choice("several", "Panes", "", (
            ("no", "One picture", "All groups together"), ("yes", "Small multiples", "One pane a group")),
            place="picture"),
        Choice("predicted", "Prediction", "", (
            ("no", "Measured", "Measurements alone"),
            ("yes", "Predicted too", "Our prediction of each, its publisher left out, with its 80 % interval")),
            place="picture"),
    )  # fmt: skip


def _filter(name: str, column: str, label: str, group: str, more: bool) -> Combo:
    rows = explore.everything()
    values = rows[rows[column].notna()][column].map("{:.0f}".format) if column == "year" else rows[column]
    labels = dict(zip(rows["accelerator"], rows["device"], strict=True)) if column == "accelerator" else {}
    counts = values[values != ""].value_counts()
    order = counts.sort_index(ascending=False) if column == "year" else counts
    options: tuple[Option, ...] = tuple(
        (value, labels.get(value, value), "", f"{count:,} measurements") for value, count in order.items()
    )
    plain = (lambda year: f"{year:.0f}" if isinstance(year, (int, float)) else year) if column == "year" else None
    return Combo(name, label, group, options, many=True, limit=4, more=more, plain=plain,
                 tooltip=f"{label}, four at most; empty: all")  # fmt: skip


def _kinds() -> tuple[Option, ...]:
    counts = explore.everything()["kind"].value_counts()
    return (*((name, name, "", f"{count:,}") for name, count in counts.items()), ("", "every kind", "", ""))


def _examples() -> tuple[Option, ...]:
    """A run of each kind, to start from."""
    rows = explore.everything().query("device != ''").drop_duplicates("kind")
    found = ((row.id, f"{row.network} on {row.device}", row.id, row.kind) for row in rows.itertuples())
    return (("", "nothing", "", ""), *found)


def _units() -> tuple[Option, ...]:
    rows = explore.everything()
    found = [("", "the most frequent", "", ""), ("all", "all, mixed", "", "")]
    for column, what in (("unit", "rate"), ("time_of", "time of"), ("counted", "stated value")):
        counts = rows[rows[column] != ""][column].value_counts()
        known = {value for value, *_ in found}
        found += [(value, value, "", f"{what}, {count:,}") for value, count in counts.items() if value not in known]
    return tuple(found)


def _own() -> Own:
    return Own(
        label="your configuration…",
        help=f"JSON with some of {', '.join(explore_pairs.ASKED)}; or the id of a row",
        example=json.dumps(_EXAMPLE), read=_read, show=_show,
    )  # fmt: skip


def _read(text: str) -> Any:
    """A configuration, or the id of a row, as a reader types it."""
    if not text.strip().startswith("{"):
        return text.strip()
    try:
        return json.loads(text)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"your configuration is not valid JSON ({wrong.msg}); write it as {_EXAMPLE}") from None


def _row_id(value: Any) -> Any:
    """The id of a row where a click on a mark tells its number."""
    return explore.everything()["id"].iloc[value] if isinstance(value, int) else value


def _show(value: Any) -> tuple[str, str]:
    return json.dumps(value), " ".join(str(part) for part in value.values()) or "your configuration"


def _where(values: Mapping[str, Any]) -> dict[str, Any]:
    """Filters as `cb.measurements` takes them."""
    where = {"kind": values["kind"]} if values["kind"] else {}
    where |= {column: values[name] for name, (column, *_) in FILTERS.items() if values[name] and column != "year"}
    if values["scaling"]:
        where["scaling"] = [values["scaling"], "weak and strong"]
    if values["most_devices"] < DEFAULTS["most_devices"]:
        where["devices"] = (0, values["most_devices"])
    return where


@lru_cache(maxsize=4)
def _kept(classic_flop: bool, where: str, years: tuple[str, ...]) -> Any:
    rows = explore.measurements(classic_flop=classic_flop, **json.loads(where))
    rows = rows[rows["year"].isin([float(year) for year in years])] if years else rows
    if not len(rows):
        raise ValueError(f"no measurement matches in {' or '.join(years)}: loosen Years or another filter")
    return rows


@lru_cache(maxsize=8)
def _asked(key: str) -> frames.Asked:
    """One question, kept: what changes nothing that is drawn sends nothing."""
    values = json.loads(key)
    rows = _kept(values["y"] == "utilisation", json.dumps(_where(values)), tuple(values["years"]))
    near: tuple[str, ...] = ()
    if values["near"]:
        like = explore_pairs.nearest_rows(rows, explore.configuration(values["near"]), str(values["near"]))
        near = tuple(like["id"].head(15))
    names = ("y", "x", "by", "unit", "aggregate")
    yes = {name: values[name] == "yes" for name in ("several", "predicted")}
    return frames.Asked(rows, **{name: values[name] for name in names}, **yes, near=near)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    axes = [*frames.NUMBERS, *frames.NAMES]
    for name, known in (("y", [*frames.Y]), ("x", axes), ("by", ["", "year", *frames.NAMES])):
        if values[name] not in known:
            raise ValueError(f"{name} = {values[name]!r} is not a choice; take one of {', '.join(filter(None, known))}")
    asked = _asked(json.dumps(values))
    shown = asked.shown
    return View(
        answer=words.answer(asked),
        headline={"median": float(shown[asked.y].median()), "measurements": len(shown)},
        chips=words.chips(asked),
        picture=asked.picture,
        parts=frames.parts(asked),
        parts_title=f"{len(shown):,} measurements by {frames.NAMES.get(asked.by, asked.by) or 'nothing'}",
        table=partial(frames.table, asked),
        data=partial(frames.columns_of, shown),
        sources=partial(frames.source_rows, asked),
        code=_code(values, asked),
    )


def _code(values: dict[str, Any], asked: frames.Asked) -> str:
    changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    where = _where(values)
    if asked.counted not in ("", "all"):
        where[frames.Y[asked.y][1]] = asked.counted
    if asked.y == "utilisation":
        where["classic_flop"] = True
    stated = [f"{name} > 0" for name in (asked.y, asked.x) if name in {**frames.Y, **frames.NUMBERS}]
    stated += [f"year in [{', '.join(values['years'])}]"] if values["years"] else []
    call = f"cb.measurements({code.arguments(where)}).query({code.literal(' and '.join(stated))})"
    if asked.aggregate != "all":
        keys = list(dict.fromkeys(filter(None, (asked.x, asked.by))))
        how = {"median": 'quantile(0.5, interpolation="lower")', "best": "min()" if asked.y == "time" else "max()"}
        call += f'.groupby({code.literal(keys)})["{asked.y}"].{how[asked.aggregate]}'
    lines = [f"cb.panels.measurements({code.arguments(changed)})", call]
    if values["near"]:
        lines.append(f"cb.measurements({code.arguments({'near': values['near'], **where})}).head(15)")
    return "\n".join(lines)
