"""All measurements of the tables in one frame, to be asked any question. Reads tables alone: nothing is fitted here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, units
from cookbook.calibration import explore_pairs, explore_rates, explore_rows
from cookbook.catalog.reading import nearest
from cookbook.prediction.asked import listed, text
from cookbook.prediction.doors import flag

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "id", "kind", "phase", "model", "network", "task", "accelerator", "device", "generation", "devices", "batch",
    "batch_per_device", "precision", "number_format", "framework", "software", "software_level", "data", "layout",
    "server", "processor", "link", "network_link", "date", "year", "value", "counted", "unit", "throughput", "time",
    "time_of", "per_device", "per_watt", "utilisation", "weak_efficiency", "strong_efficiency", "scaling",
    "predicted", "low80", "high80", "tier", "publisher", "source", "url", "locator", "how",
)  # fmt: skip
# Kinds whose software is a framework; elsewhere it is the benchmark.
RUN = ("training", "inference", "storage")
# Judged tables: measured table -> table of left-out predictions.
JUDGED = {"training_classic": "validation_classic_rows", "training_transformer": "validation_transformer_rows"}


def measurements(
    near: str | Mapping[str, Any] | None = None, versus: str = "", classic_flop: bool = False, **where: Any
) -> pd.DataFrame:
    """All measurements that the predictions were developed with, one row each, in SI and with their sources.

    Parameters
    ----------
    near : str or mapping, optional
        A configuration, ``{"model": "resnet50", "accelerator": "v100-sxm2-16gb", "devices": 8, ...}``, or the ``id``
        of a row: the most similar measurements, nearest first, with their ``distance``.
    versus : str, optional
        A column, such as "framework": the best rate of each of its values beside the others', where all else that
        decides is equal; see `explore_pairs.versus`.
    classic_flop : bool
        Count the arithmetic of classic networks layer by layer too, so that ``utilisation`` is known for them; this
        takes some seconds, once.
    **where
        Column and what it must be: a value, a list of values, or for numbers (lowest, highest). Names of accelerators
        and networks may be written as one likes.

    Returns
    -------
    pandas.DataFrame
        What was run: id, kind (training, inference, storage, collectives, matmul), phase, model (as printed), network
        (its name in the zoo, if it is there), task, accelerator, device, generation, devices, batch (samples of one
        update or request, of all devices), batch_per_device, precision, number_format, framework, software,
        software_level, data, layout, server, processor, link, network_link, date, year. What came out: value
        (throughput, or time where only that is stated; `counted` says what), throughput [as `unit` says], time [s] of
        what time_of says, per_device, per_watt [per W of TDP: no power was measured], utilisation (share of the
        dense peak), weak_efficiency and strong_efficiency with scaling, the kind of curve. Predicted for it by what
        other publishers measured: predicted, low80, high80 [as throughput], tier. Where it stands: publisher, source,
        url, locator, how. What is not known is NaN or blank, never 0.

    Raises
    ------
    ValueError
        A column or value that is not there, with the nearest; a choice that leaves no measurement.

    Examples
    --------
    >>> rows = measurements(network="resnet50", accelerator="V100 SXM2 16GB", devices=1)
    >>> rows["unit"].unique().tolist(), bool((rows["throughput"] > 0).any())
    (['images/s'], True)
    """
    rows = _with_classic() if flag("classic_flop", classic_flop) else everything()
    versus = text("versus", versus)
    for column, wanted in where.items():
        rows = _kept(rows, column, wanted)
    if not len(rows):
        raise ValueError(f"no measurement matches {_words(where)}: loosen one of them")
    if near is not None and not isinstance(near, (str, Mapping)):
        raise ValueError(f"near = {units.shown(near)} must be the id of a row, or a dict such as {{'model': 'resnet50'}}")
    if near is not None:
        rows = explore_pairs.nearest_rows(rows, configuration(near), str(near))
    return explore_pairs.versus(rows, versus) if versus else rows.copy()


@lru_cache(maxsize=1)
def everything() -> pd.DataFrame:
    """The frame of all rows, cached; never change it."""
    import pandas as pd

    rows = pd.concat([explore_rows.rows(name).assign(table=name) for name in explore_rows.READERS], ignore_index=True)
    rows = _named(rows)
    rows = rows.assign(
        batch_per_device=rows["batch"] / rows["devices"], per_device=explore_rates.per_device(rows),
        per_watt=explore_rates.per_watt(rows), utilisation=explore_rates.utilisation(rows, rows["flop_per_item"]),
    )  # fmt: skip
    rows = rows.join(explore_rates.efficiencies(rows)).assign(
        value=rows["throughput"].fillna(rows["time"]),
        counted=rows["unit"].where(rows["throughput"].notna(), "s a " + rows["time_of"]),
    )
    return _predicted(rows)[list(COLUMNS)]


@lru_cache(maxsize=1)
def _with_classic() -> pd.DataFrame:
    rows = everything()
    flop = rows["id"].str.removeprefix("training_classic:").map(explore_rates.classic_flop())
    flop = flop.where(rows["id"].str.startswith("training_classic:") | ~rows["id"].str.contains(":"))
    return rows.assign(utilisation=rows["utilisation"].fillna(explore_rates.utilisation(rows, flop)))


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the names that other tables give: of devices, publishers, pages, frameworks and networks."""
    sources = catalog.table("sources").set_index("key")
    devices = catalog.table("accelerators").set_index("key")
    first = rows["source"].str.partition(";")[0]
    return rows.assign(
        source=first.map(sources["title"]).fillna(first), url=first.map(sources["url"]).fillna(""),
        publisher=first.map(sources["source_group"]).fillna(first),
        device=rows["accelerator"].map(devices["name"]).fillna(""),
        generation=rows["accelerator"].map(devices["vendor"] + " " + devices["generation"]).fillna(""),
        year=rows["date"].str.extract(r"((?:19|20)\d\d)")[0].astype(float),
        framework=_each(rows["software"], explore_rows.framework).where(rows["kind"].isin(RUN), ""),
        network=_each(rows["model"], explore_rows.network),
    )  # fmt: skip


def _each(values: pd.Series, function: Any) -> pd.Series:
    return values.map({value: function(value) for value in values.unique()})


def _predicted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with what was predicted of them, their publisher left out; a predicted time becomes a rate.

    An id that two tables share gets the name of its table before it.
    """
    import pandas as pd

    parts = []
    for table, name in JUDGED.items():
        judged = catalog.table(name)[["id", "software_level", "tier", "full", "half_80"]]
        parts.append(judged.assign(table=table, full=judged["full"] * (1 if table == "training_classic" else -1)))
    found = rows.merge(pd.concat(parts), on=["table", "id"], how="left", validate="one_to_one")
    predicted, reach = found["throughput"] * np.exp(found["full"]), np.exp(found["half_80"])
    decoded = catalog.table("validation_storage_rows").query("kind == 'decoding'").set_index("id")["predicted"]
    shared = found["id"].duplicated(keep=False)
    return found.assign(
        id=found["id"].mask(shared, found["table"] + ":" + found["id"]),
        predicted=predicted.fillna(found["id"].map(decoded)), low80=predicted / reach, high80=predicted * reach,
        software_level=found["software_level"].fillna(""), tier=found["tier"].fillna(""),
    )  # fmt: skip


def _kept(rows: pd.DataFrame, column: str, wanted: Any) -> pd.DataFrame:
    """Rows whose column is what is wanted."""
    whole = everything()
    if column not in whole:
        close = ", ".join(nearest(column, list(COLUMNS), 3))
        raise ValueError(f"measurements have no column {column!r}; nearest: {close}")
    if whole[column].dtype == float:
        return rows[_between(rows[column], column, wanted)]
    if isinstance(wanted, (list, tuple)) and not wanted:
        return rows
    names = [text(column, name) for name in listed(column, wanted)]
    known = set(whole[column])
    names = [name if name in known else _spelled(column, name, known) for name in names]
    return rows[rows[column].isin(names)] if names else rows


def _between(values: pd.Series, column: str, wanted: Any) -> pd.Series:
    numbers = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted, wanted]
    low, high = (*numbers, None)[:2] if len(numbers) == 2 else (None, None)
    if len(numbers) != 2 or not all(n is None or isinstance(n, (int, float)) for n in numbers):
        raise ValueError(f"{column} = {units.shown(wanted)} is not a number; give one, or (lowest, highest)")
    if low is not None and high is not None and low > high:
        raise ValueError(f"{column} = {units.shown(wanted)} holds nothing: give the lowest first, ({high}, {low})")
    return values.between(-np.inf if low is None else low, np.inf if high is None else high)


def _spelled(column: str, name: Any, known: set[str]) -> str:
    """A value as the frame spells it."""
    if column in ("accelerator", "network") and isinstance(name, str):
        try:
            found = catalog.lookup("accelerators" if column == "accelerator" else "models", name)
        except catalog.UnknownName:
            found = ""
        if found and found in known:
            return found
    close = ", ".join(nearest(str(name), sorted(known - {""}), 3))
    raise ValueError(f"no measurement has {column} = {name!r}; nearest: {close}")


def configuration(near: str | Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a mapping; that of a row where its id is given."""
    if isinstance(near, str):
        found = everything().query("id == @near")
        if not len(found):
            close = ", ".join(nearest(near, everything()["id"].tolist(), 3))
            raise ValueError(f"no measurement has id = {near!r}; nearest: {close}")
        return {name: found.iloc[0][name] for name in explore_pairs.ASKED}
    unknown = [name for name in near if name not in explore_pairs.ASKED]
    if unknown:
        raise ValueError(f"near has no {unknown[0]!r}; it takes {', '.join(explore_pairs.ASKED)}")
    given = dict(near)
    known = everything()
    for name, kind in (("accelerator", "accelerators"), ("model", "models")):
        if given.get(name) and not ((known[name] == given[name]) | (known["network"] == given[name])).any():
            given[name] = catalog.lookup(kind, str(given[name]))
    return given


def _words(where: Mapping[str, Any]) -> str:
    def said(wanted: Any) -> str:
        several = isinstance(wanted, Sequence) and not isinstance(wanted, str)
        if several and not all(isinstance(each, str) for each in wanted):
            return " to ".join(end if n is None else str(n) for n, end in zip(wanted, ("least", "most"), strict=False))
        return " or ".join(wanted) if several else str(wanted)

    return ", ".join(f"{column} = {said(wanted)}" for column, wanted in where.items()) or "anything"
