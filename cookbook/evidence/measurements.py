"""All measurements of the tables in one frame, for any query, each beside the ones nearest to it.

Reads tables alone: nothing is fitted here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.reading import check_names, nearest
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.evidence import measurement_rows, table_name
from cookbook.prediction.neighbours import LABEL_COSTS, MAX_DISTANCE, Runs, distances
from cookbook.units import shown

# Distance of a factor of e in samples per device, and in devices, when searching for the most similar run.
AMOUNT_COSTS = {"batch": 1.2, "devices": 1.2}
# Upper bound of measured values.
MAX_VALUE = 1e30

COLUMNS = (
    "id",
    "kind",
    "phase",
    "model",
    "network",
    "task",
    "accelerator",
    "device",
    "generation",
    "devices",
    "batch",
    "batch_per_device",
    "precision",
    "number_format",
    "framework",
    "software",
    "software_level",
    "data",
    "layout",
    "server",
    "processor",
    "link",
    "network_link",
    "date",
    "year",
    "value",
    "counted",
    "unit",
    "throughput",
    "time",
    "time_of",
    "per_device",
    "per_watt",
    "utilisation",
    "weak_efficiency",
    "strong_efficiency",
    "scaling",
    "predicted",
    "low80",
    "high80",
    "tier",
    "publisher",
    "source",
    "url",
    "locator",
    "how",
)
# Kinds whose software is a framework; elsewhere it is the benchmark.
RUN_KINDS = ("training", "inference", "storage")
# Measured tables with held-out predictions of their outcomes.
EVALUATED_TABLES = ("training_classic", "training_transformer")


# Columns that can be compared, and what goes with each: a device implies its generation, a framework its version.
COMPARABLE = {
    "framework": (),
    "software": (),
    "software_level": (),
    "publisher": (),
    "server": (),
    "processor": (),
    "link": (),
    "data": ("data",),
    "precision": ("precision",),
    "accelerator": ("accelerator",),
    "generation": ("accelerator",),
}
VERSUS = Field.choice(*COMPARABLE)


@checked(
    near=Field.record(
        str, Mapping, what="configuration", give="the id of a row, or a dict such as {'model': 'resnet50'}"
    ),
    versus=VERSUS,
    classic_flop=Field.flag(),
    **{name: Field.text(many=True, blank=True, later=True) for name in COLUMNS},
)
def measurements(
    near: str | Mapping[str, Any] | None = None, versus: str = "", classic_flop: bool = False, **where: Any
) -> pd.DataFrame:
    """Return all measurements used to develop the predictions, one row each, in SI and with their sources.

    Parameters
    ----------
    near : str or mapping, optional
        A configuration, ``{"model": "resnet50", "accelerator": "v100-sxm2-16gb", "devices": 8, ...}``, or the ``id``
        of a row: the most similar measurements, nearest first, with their ``distance``.
    versus : str, optional
        A column, such as "framework": compare the best rates of its values where all other deciding columns
        are equal; see `beside`.
    classic_flop : bool
        Count the arithmetic of classic networks layer by layer too, so that ``utilisation`` is known for them; this
        takes some seconds, once.
    **where
        Column and condition: a value, a list of values, or for numbers (lowest, highest). Names of accelerators
        and networks may have any usual spelling.

    Returns
    -------
    pandas.DataFrame
        The configuration: id, kind (training, inference, storage, collectives, matmul), phase, model (as printed),
        network (its name in the zoo, if it is there), task, accelerator, device, generation, devices, batch (samples of
        one update or request, of all devices), batch_per_device, precision, number_format, framework, software,
        software_level, data, layout, server, processor, link, network_link, date, year. The outcome: value
        (throughput, or time where only that is stated; `counted` is which), throughput [as `unit` states], time [s] of
        `time_of`, per_device, per_watt [per W of TDP: no power was measured], utilisation (share of the dense peak),
        weak_efficiency and strong_efficiency with scaling, the kind of curve. Its prediction from the other publishers'
        measurements: predicted, low80, high80 [as throughput], tier. Its origin: publisher, source, url, locator, how.
        Unknown values are NaN or blank, never 0.

    Raises
    ------
    ValueError
        If a column or value does not exist (the message names the nearest), or a choice leaves no measurement.

    Examples
    --------
    >>> rows = measurements(network="resnet50", accelerator="V100 SXM2 16GB", devices=1)
    >>> rows["unit"].unique().tolist(), bool((rows["throughput"] > 0).any())
    (['images/s'], True)
    """
    rows = _with_classic() if classic_flop else everything()
    for column, wanted in where.items():
        rows = _matching(rows, column, wanted)
    if not len(rows):
        raise ValueError(f"no measurement matches {_filter_words(where)}: loosen one of them")
    if near is not None:
        rows = nearest_rows(rows, configuration(near), str(near))
    return beside(rows, versus) if versus else rows.copy()


@lru_cache(maxsize=1)
def everything() -> pd.DataFrame:
    """Return the frame of all rows, cached; never change it."""
    rows = pd.concat(
        [measurement_rows.rows(name).assign(table=name) for name in measurement_rows.READERS], ignore_index=True
    )
    rows = _with_names(rows)
    rows = rows.assign(
        batch_per_device=rows["batch"] / rows["devices"],
        per_device=measurement_rows.per_device(rows),
        per_watt=measurement_rows.per_watt(rows),
        utilisation=measurement_rows.utilisation(rows, rows["flop_per_item"]),
    )
    rows = rows.join(measurement_rows.efficiencies(rows)).assign(
        value=rows["throughput"].fillna(rows["time"]),
        counted=rows["unit"].where(rows["throughput"].notna(), "s a " + rows["time_of"]),
    )
    return _with_predictions(rows)[list(COLUMNS)]


@lru_cache(maxsize=1)
def _with_classic() -> pd.DataFrame:
    rows = everything()
    flop = rows["id"].str.removeprefix("training_classic:").map(measurement_rows.classic_flop())
    flop = flop.where(rows["id"].str.startswith("training_classic:") | ~rows["id"].str.contains(":"))
    return rows.assign(utilisation=rows["utilisation"].fillna(measurement_rows.utilisation(rows, flop)))


def _with_names(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the names from other tables: of devices, publishers, pages, frameworks and networks."""
    sources = catalog.table("sources").set_index("key")
    devices = catalog.table("accelerators").set_index("key")
    first = rows["source"].str.partition(";")[0]
    return rows.assign(
        source=first.map(sources["title"]).fillna(first),
        url=first.map(sources["url"]).fillna(""),
        publisher=first.map(sources["source_group"]).fillna(first),
        device=rows["accelerator"].map(devices["name"]).fillna(""),
        generation=rows["accelerator"].map(devices["vendor"] + " " + devices["generation"]).fillna(""),
        year=rows["date"].str.extract(r"((?:19|20)\d\d)")[0].astype(float),
        framework=rows["software"].map(measurement_rows.framework).where(rows["kind"].isin(RUN_KINDS), ""),
        network=rows["model"].map(measurement_rows.network_of),
    )


def _with_predictions(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with their predictions, their publisher held out; a predicted time becomes a rate.

    An id that two tables share gets the name of its table before it.
    """
    parts = []
    for table in EVALUATED_TABLES:
        judged = catalog.table(table_name(table))[["id", "software_level", "tier", "full", "half_80"]]
        parts.append(judged.assign(table=table, full=judged["full"] * (1 if table == "training_classic" else -1)))
    joined = rows.merge(pd.concat(parts), on=["table", "id"], how="left", validate="one_to_one")
    predicted, reach = joined["throughput"] * np.exp(joined["full"]), np.exp(joined["half_80"])
    decoded = catalog.table("validation_storage_rows").query("kind == 'decoding'").set_index("id")["predicted"]
    shared = joined["id"].duplicated(keep=False)
    return joined.assign(
        id=joined["id"].mask(shared, joined["table"] + ":" + joined["id"]),
        predicted=predicted.fillna(joined["id"].map(decoded)),
        low80=predicted / reach,
        high80=predicted * reach,
        software_level=joined["software_level"].fillna(""),
        tier=joined["tier"].fillna(""),
    )


def _matching(rows: pd.DataFrame, column: str, wanted: Any) -> pd.DataFrame:
    """Return the rows whose column matches `wanted`."""
    whole = everything()
    check_names([column], list(whole), "the frame of measurements", "column")
    if whole[column].dtype == float:
        return rows[_between(rows[column], column, wanted)]
    if isinstance(wanted, (list, tuple)) and not wanted:
        return rows
    names = list(Field.text(many=True).read(wanted, column))
    values = _values(column)
    names = [name if name in values else _spelled(column, name, values) for name in names]
    return rows[rows[column].isin(names)] if names else rows


@lru_cache(maxsize=64)
def _values(column: str) -> frozenset[str]:
    """Return the entries of a column of words."""
    return frozenset(everything()[column].unique())


def _between(values: pd.Series, column: str, wanted: Any) -> pd.Series:
    numbers = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted, wanted]
    low, high = (*numbers, None)[:2] if len(numbers) == 2 else (None, None)
    if len(numbers) != 2 or not all(n is None or (isinstance(n, (int, float)) and abs(n) < MAX_VALUE) for n in numbers):
        raise refused(column, wanted, "is not a number; give one, or (lowest, highest)")
    if low is not None and high is not None and low > high:
        raise refused(column, wanted, f"holds nothing: give the lowest first, ({high}, {low})")
    return values.between(-np.inf if low is None else low, np.inf if high is None else high)


def _spelled(column: str, name: Any, values: frozenset[str]) -> str:
    """Return a value as the frame spells it."""
    if column in ("accelerator", "network") and isinstance(name, str):
        try:
            key = catalog.lookup("accelerators" if column == "accelerator" else "models", name)
        except catalog.UnknownName:
            key = ""
        if key and key in values:
            return key
    suggestions = ", ".join(nearest(str(name), sorted(values - {""}), 3))
    raise ValueError(f"no measurement has {column} = {shown(name)}; nearest: {suggestions}")


def configuration(near: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration as a mapping; that of a row where its id is given."""
    if isinstance(near, str):
        match = everything().query("id == @near")
        if not len(match):
            suggestions = ", ".join(nearest(near, everything()["id"].tolist(), 3))
            raise Refused(Refusal(f"no measurement has id = {shown(near)}; nearest: {suggestions}", field="near"))
        return {name: match.iloc[0][name] for name in ASKED}
    check_names(near, ASKED, "near", "field")
    fields = dict(near)
    all_rows = everything()
    for name, kind in (("accelerator", "accelerators"), ("model", "models")):
        if fields.get(name) and not ((all_rows[name] == fields[name]) | (all_rows["network"] == fields[name])).any():
            fields[name] = catalog.lookup(kind, str(fields[name]))
    return fields


def _filter_words(where: Mapping[str, Any]) -> str:
    def said(wanted: Any) -> str:
        is_list = isinstance(wanted, Sequence) and not isinstance(wanted, str)
        if is_list and not all(isinstance(entry, str) for entry in wanted):
            return " to ".join(end if n is None else str(n) for n, end in zip(wanted, ("least", "most"), strict=False))
        return " or ".join(wanted) if is_list else str(wanted)

    return ", ".join(f"{column} = {said(wanted)}" for column, wanted in where.items()) or "anything"


# Fields of a configuration; missing ones are ignored.
ASKED = (
    "kind",
    "phase",
    "model",
    "accelerator",
    "devices",
    "batch_per_device",
    "precision",
    "framework",
)
# Columns that determine a rate beside the compared one.
DECIDING_COLUMNS = (
    "kind",
    "phase",
    "network",
    "task",
    "accelerator",
    "devices",
    "batch_per_device",
    "precision",
    "data",
    "unit",
)


def nearest_rows(rows: pd.DataFrame, asked: Mapping[str, Any], itself: str = "") -> pd.DataFrame:
    """Return rows by their distance from a configuration, nearest first; none beyond the reach of corrections.

    Distances are those by which similar runs correct predictions, with devices counted like the batch.

    Parameters
    ----------
    rows : pandas.DataFrame
        Measurements.
    asked : mapping
        Some of `ASKED`.
    itself : str
        Row that precedes others at the same distance.

    Raises
    ------
    ValueError
        If nothing similar was measured.
    """
    matches = [rows[name] == asked[name] for name in ("kind", "phase") if asked.get(name)]
    rows = rows[np.logical_and.reduce(matches)] if matches else rows
    far = distances(_runs(_frame(asked)), _runs(rows), LABEL_COSTS, AMOUNT_COSTS)
    neighbours = rows.assign(distance=far[0], other=rows["id"] != itself)[far[0] <= MAX_DISTANCE]
    neighbours = neighbours.sort_values(["distance", "other"], kind="stable").drop(columns="other")
    if not len(neighbours):
        description = ", ".join(f"{name} = {value}" for name, value in asked.items())
        raise ValueError(
            f"nothing like {description} was measured: another maker's devices are out of reach; name less"
        )
    return neighbours


def _frame(fields: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row with the requested fields alone."""
    stated = {name: value for name, value in fields.items() if value not in ("", None) and not _is_nan(value)}
    for name in ("devices", "batch_per_device"):
        if name in stated and not (isinstance(stated[name], (int, float)) and stated[name] > 0):
            raise refused(name, stated[name], "is not possible; give a number above 0")
    return pd.DataFrame([stated])


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _runs(rows: pd.DataFrame) -> Runs:
    """Return measurements as runs, by which similarity is computed."""
    devices = catalog.table("accelerators").set_index("key")
    labels, amounts = {}, {}
    if "model" in rows:
        models = catalog.table("models").set_index("name")["family"]
        network = rows["model"].map(measurement_rows.network_of)
        labels["network"], labels["workload"] = network, network.map(models).fillna("")
    if "accelerator" in rows:
        labels["accelerator"] = rows["accelerator"]
        labels["vendor"] = rows["accelerator"].map(devices["vendor"]).fillna("")
        labels["family"] = rows["accelerator"].map(devices["generation"]).fillna("")
    for name, column in (("format", "precision"), ("engine", "framework")):
        if column in rows:
            labels[name] = rows[column]
    for name, column in (("batch", "batch_per_device"), ("devices", "devices")):
        if column in rows:
            amounts[name] = rows[column].to_numpy(dtype=float)
    if not labels:
        raise ValueError(f"near names nothing to compare: give some of {', '.join(ASKED)}")
    return Runs({name: np.asarray(values, dtype=str) for name, values in labels.items()}, amounts)


def beside(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return the effect of one column: the best rate of each of its values, everything else relevant being equal.

    Parameters
    ----------
    rows : pandas.DataFrame
        Measurements.
    what : str
        A key of `COMPARABLE`.

    Returns
    -------
    pandas.DataFrame
        One row for each value in each setting in which two values or more were measured: `setting` (a number),
        `values` (their number), the columns of `DECIDING_COLUMNS` that are equal, `what`, its best `throughput`,
        `publisher`, `year`, `software`, `url` and `id`, and `times` (rate over that of the slowest value of the
        setting), the settings with the largest ratio first.

    Raises
    ------
    ValueError
        If the column is not comparable, or no setting has two measured values.
    """
    what = VERSUS.read(what, "versus")
    rows = rows[(rows[what] != "") & rows["throughput"].notna() & rows["batch_per_device"].notna()]
    equal_columns = [name for name in DECIDING_COLUMNS if name not in COMPARABLE[what]]
    best = rows.sort_values("throughput", kind="stable").groupby([*equal_columns, what], dropna=False).tail(1)
    by = best.groupby(equal_columns, dropna=False)
    times = best["throughput"] / by["throughput"].transform("min")
    best = best.assign(setting=by.ngroup(), values=by[what].transform("size"), times=times)
    best = best[best["values"] > 1]
    if not len(best):
        raise ValueError(f"no two values of {what} were measured with all else equal: loosen the choice")
    most = best.groupby("setting")["times"].transform("max")
    order = best.assign(most=most).sort_values(["most", "setting", "times"], ascending=[False, True, False])
    columns = [
        "setting",
        "values",
        *equal_columns,
        what,
        "throughput",
        "times",
        "publisher",
        "year",
        "software",
        "url",
        "id",
    ]
    return order[list(dict.fromkeys(columns))].assign(setting=order["setting"].rank(method="dense").astype(int))


# Column of an outcome -> words, and the column with its unit (none: a plain share).
Y = {
    "value": ("stated value", "counted"),
    "throughput": ("throughput", "unit"),
    "time": ("time", "time_of"),
    "per_device": ("throughput per device", "unit"),
    "per_watt": ("throughput per watt of design power", "unit"),
    "weak_efficiency": ("weak scaling efficiency", ""),
    "strong_efficiency": ("strong scaling efficiency", ""),
    "utilisation": ("share of the peak FLOP/s", ""),
}
SHARES = ("utilisation", "weak_efficiency", "strong_efficiency")
NUMBERS = {"year": "year", "devices": "devices", "batch": "global batch", "batch_per_device": "batch per device"}
NAMES = {
    "accelerator": "accelerator",
    "generation": "generation",
    "framework": "framework",
    "software": "software",
    "software_level": "software level",
    "network": "network",
    "kind": "kind",
    "phase": "phase",
    "precision": "precision",
    "data": "data location",
    "processor": "processor",
    "server": "server",
    "link": "link in the node",
    "network_link": "link between nodes",
    "publisher": "publisher",
}
# Reasons why a value may be missing.
MISSING_REASONS = {
    "weak_efficiency": ": it needs the same run on fewer devices",
    "utilisation": ": FLOP or peak are not known",
    "strong_efficiency": ": it needs the same batch on fewer devices",
    "per_watt": ": design power is not known",
}


@dataclass(frozen=True, eq=False)
class Selected:
    """The measurements that answer one question; never change it.

    Attributes
    ----------
    rows : pandas.DataFrame
        Measurements that pass the filters.
    y, x, by : str
        Columns: the outcome (a key of `Y`), the horizontal axis, and the grouping (may be blank).
    unit : str
        The counted unit: a value of its column, blank for the most frequent, "all" for every one.
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
        """Return the unit of the shown rows: "images/s", or "all"; blank for shares."""
        column = Y[self.y][1]
        if not column or self.unit == "all":
            return self.unit if column else ""
        counts = self.stated[column].value_counts()
        if self.unit and self.unit not in counts:
            offered = ", ".join(counts.index[:4])
            reason = f"no measurement matches: none of these counts {self.unit!r}, but {offered}"
            raise Refused(Refusal(f"{reason}; choose one of them under Counted in", field="unit"))
        return self.unit or str(counts.index[0])

    @cached_property
    def stated(self) -> pd.DataFrame:
        """Return the rows that state the requested value."""
        rows = _filtered(self.rows, self.rows[self.y] > 0)
        if not len(rows):
            quantity = f"{Y[self.y][0]}{MISSING_REASONS.get(self.y, '')}"
            reason = f"no measurement matches: {len(self.rows):,} pass the filters, but none states {quantity}"
            raise Refused(Refusal(f"{reason}; choose another value, or loosen a filter", field="y"))
        return rows

    @cached_property
    def of_unit(self) -> pd.DataFrame:
        """Return those with the same unit, whether or not they state the other axis."""
        column = Y[self.y][1]
        selected = self.stated
        return (
            selected if not column or self.counted == "all" else _filtered(selected, selected[column] == self.counted)
        )

    def alike(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of other measurements that could be shown too."""
        fits = rows[self.y] > 0
        if self.counted not in ("", "all"):
            fits &= rows[Y[self.y][1]] == self.counted
        return rows[fits & (rows[self.x] > 0)] if self.x in NUMBERS else rows[fits]

    @cached_property
    def shown(self) -> pd.DataFrame:
        """Return the rows with a value on both axes, on request reduced to the best or middle run of each group."""
        rows = self.of_unit
        if self.x in NUMBERS:
            rows = _filtered(rows, rows[self.x] > 0)
        if not len(rows):
            reason = f"no measurement matches: none of {len(self.of_unit):,} states its {self.words_x}"
            raise Refused(Refusal(f"{reason}; choose another horizontal axis, or loosen a filter", field="x"))
        return rows if self.aggregate == "all" else rows.loc[self._chosen(rows)]

    def _chosen(self, rows: pd.DataFrame) -> pd.Index:
        """Return one run per position and group: the best, or the middle one, so that each mark keeps its source."""
        keys = [rows[self.x], *([rows[self.by]] if self.by else [])]
        order = rows[[self.y]].assign(at=rows.groupby(keys, dropna=False).ngroup())
        rising = self.aggregate == "median" or self.y == "time"
        order = order.sort_values(["at", self.y], ascending=[True, rising], kind="stable")
        count = order.groupby("at")[self.y].transform("size")
        place = order.groupby("at").cumcount()
        return order.index[place == ((count - 1) // 2 if self.aggregate == "median" else 0)]

    @property
    def words_x(self) -> str:
        """Return the name of the horizontal axis."""
        return {**NUMBERS, **NAMES}[self.x]

    @property
    def unit_words(self) -> str:
        """Return the unit of the values shown."""
        if self.y == "time":
            return "s" if self.counted == "all" else f"s per {self.counted}"
        base = "in mixed units" if self.counted == "all" else self.counted
        return base + {"per_device": " per device", "per_watt": " per W"}.get(self.y, "")

    @cached_property
    def beside(self) -> np.ndarray:
        """Return predicted value, low and high end of its 80 % interval for each row shown; NaN where none is known."""
        shown = self.shown
        if self.y in ("weak_efficiency", "strong_efficiency"):
            return np.full((len(shown), 3), np.nan)
        ratio = shown[["predicted", "low80", "high80"]].to_numpy() / shown[["throughput"]].to_numpy()
        value = shown[[self.y]].to_numpy()
        return (value / ratio)[:, [0, 2, 1]] if self.y == "time" else value * ratio


def _filtered(rows: pd.DataFrame, wanted: pd.Series) -> pd.DataFrame:
    """Return the rows where `wanted`; the frame itself where all are, since copying is slow."""
    return rows if wanted.all() else rows[wanted]
