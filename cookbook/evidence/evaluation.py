"""Evaluated predictions of measured rows: errors, the ranking of parallelism configurations, and speed-ups.

Reads tables alone: nothing is fitted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.reading import nearest, schema
from cookbook.catalog.refusals import NOT_ALLOWED, Refusal, Refused
from cookbook.evidence import FULL, NO_NEIGHBOURS, ROW, figures, pooled_quantile, table_name
from cookbook.evidence.measurement_rows import network_of
from cookbook.prediction import scaling as engine
from cookbook.prediction.constants import LEVELS
from cookbook.prediction.parsing import networks
from cookbook.prediction.parsing.tables import OUTCOMES, measurements_of
from cookbook.units import shown
from cookbook.workloads.zoo import Workload

# Columns of a row that do not describe its configuration: names, notes and outcomes.
NO_INPUT = (
    "id",
    "locator",
    "note",
    "how",
    "derived_fields",
    "inferred_fields",
    "recalled_fields",
    "use",
    "quality",
    "completeness",
    "flops_convention",
    *OUTCOMES,
)
REPEAT_COLUMNS = {
    "all that the table holds": (),
    "all but source and date": ("source", "date"),
    "all but source, date and software": ("source", "date", "software", "software_notes"),
}
KINDS: dict[str, tuple[str, ...]] = {
    "transformer": ("training_transformer",),
    "classic": ("training_classic",),
    "both": ("training_transformer", "training_classic"),
    "inference": ("inference",),
    "generation": ("generation",),
}
RULES = {
    "constant_utilisation": "constant utilisation",
    "scaled_neighbour": "scaled neighbour",
    "paleo_2017": "Paleo 2017",
    "llm_analysis_2023": "llm-analysis 2023",
    "hpe_2017": "HPE 2017",
}
ROW_ALONE = "full, row alone left out"
GROUPS = ("publisher", "generation", "year", "tier", "software_level", "scale", "accelerator", "model")
ROWS = (
    "kind",
    "id",
    "publisher",
    "source",
    "url",
    "model",
    "accelerator",
    "device",
    "generation",
    "year",
    "devices",
    "precision",
    "software_level",
    "scale",
    "tier",
    "neighbours",
    "measured",
    "unit",
)
BESIDE = {
    "id",
    "software_level",
    "scale",
    "tier",
    "neighbours",
    "measured",
    "unit",
    "how",
    "source",
    *(f"half_{level}" for level in LEVELS),
}


# Kinds of runs, what is put in the place of the full prediction, and names to keep.
KIND, MODEL = Field.choice(*KINDS), Field.choice(of=lambda: (FULL, NO_NEIGHBOURS, *models_of()))
NAMES = Field.text(many=True, blank=True)


@checked(
    by=Field.choice(*GROUPS, "prediction", "all", "row", "repeats", "layouts", "speed-up"),
    kind=KIND,
    model=MODEL,
    publishers=NAMES,
    accelerators=NAMES,
    networks=NAMES,
)
def accuracy(
    by: str = "publisher",
    kind: str = "both",
    model: str = FULL,
    publishers: Sequence[str] = (),
    accelerators: Sequence[str] = (),
    networks: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the errors of predictions of measured runs, each publisher predicted by the others' measurements.

    Parameters
    ----------
    by : str
        Grouping of the runs: "publisher", "generation", "year", "tier", "software_level", "scale",
        "accelerator" or "model" (the network); "prediction": one line for each entry that `model` can be; "all": one
        line; "row": every run with its measured and predicted outcome, its interval and its source; "repeats": runs
        that the tables cannot distinguish, see `repeats`; "layouts": the ranking of configurations of one run.
    kind : str
        Training of a "transformer", of "classic" networks, or "both"; "inference" (forward passes); "generation".
    model : str
        "full"; "without neighbours" or "without …" for a term, the constants fitted anew;
        "constant utilisation" or another baseline; "full, row alone left out".
    publishers, accelerators, networks : sequence of str
        Publishers and accelerators to include; all by default.

    Returns
    -------
    pandas.DataFrame
        One row per group: rows, publishers, median_error, lower and upper quartile of the errors, within_10, within_20,
        bias, mean_of_publishers; for the full model also the share inside the 80 and 90 % intervals and the shares
        that chance alone allows at 80 %. Errors are ``|predicted / measured - 1|``.

    Raises
    ------
    ValueError
        If an argument is not one of its choices, or a choice leaves no run.

    Examples
    --------
    >>> table = accuracy(by="prediction", kind="transformer").set_index("prediction")
    >>> bool(table.loc["full", "median_error"] < table.loc["constant utilisation", "median_error"])
    True
    """
    rows = chosen(kind, publishers, accelerators, networks)
    if by == "row":
        return as_rows(rows, model)
    if by == "prediction":
        return per_prediction(rows)
    if by == "repeats":
        return repeats(rows)
    if by == "layouts":
        return ranked_layouts(as_rows(rows, model))
    if by == "speed-up":
        return judged_pairs(rows["id"])
    return grouped(rows, by, model)


def chosen(
    kind: str = "both",
    publishers: Sequence[str] = (),
    accelerators: Sequence[str] = (),
    networks: Sequence[str] = (),
) -> pd.DataFrame:
    """Return evaluated runs of a kind, of some publishers on some accelerators; ratios are logarithms."""
    kind = KIND.read(kind, "kind")
    rows, masks = _evaluated_rows(kind), dict[str, Any]()
    for column, names in (("publisher", publishers), ("accelerator", accelerators), ("model", networks)):
        wanted = list(NAMES.read(names, f"{column}s"))
        if column == "model":
            wanted = [network_of(name) for name in wanted]
        for name in wanted:
            if name not in (names_known := _names(column)):
                suggestions = ", ".join(nearest(name, sorted(names_known), 3, letters=len(name)))
                reason = f"no run by {column} {shown(name)} was evaluated; nearest names: {suggestions}"
                raise Refused(Refusal(reason, NOT_ALLOWED, f"{column}s".replace("model", "network")))
        if wanted:
            names = rows[column].map(network_of) if column == "model" else rows[column]
            masks[f"{column}s".replace("model", "network")] = names.isin(wanted).to_numpy()
    selected = rows[np.logical_and.reduce(list(masks.values()))] if masks else rows
    if not len(selected):
        others = {name: np.logical_and.reduce([masks[other] for other in masks if other != name]) for name in masks}
        counts = [f"{np.sum(mask & np.ones(len(rows), bool)):,} of all {name}" for name, mask in others.items()]
        counts_shown = f" ({', '.join(counts)})" if len(masks) > 1 else ""
        remedy = "choose another kind, or fewer publishers, accelerators, networks"
        raise Refused(Refusal(f"No such run was measured{counts_shown}: {remedy}", field="kind"))
    return selected


@lru_cache(maxsize=3)
def _names(column: str) -> frozenset[str]:
    """Return names by which runs can be chosen: those measured, and for hardware and networks all catalogue names."""
    measured = {
        network_of(name) if column == "model" else name for kind in KINDS for name in _evaluated_rows(kind)[column]
    }
    table, key = {"accelerator": ("accelerators", "key"), "model": ("models", "name")}.get(column, ("", ""))
    return frozenset(measured | set(catalog.table(table)[key] if table else ()))


def models_of() -> tuple[str, ...]:
    """Return the alternatives to the full prediction of any kind, in the order of the tables.

    >>> models_of()[:2], models_of()[-1]
    (('full', 'without neighbours'), 'full, row alone left out')
    """
    names = dict.fromkeys(name for tables in KINDS.values() for table in tables for name in _ratios(table_name(table)))
    return tuple(dict.fromkeys([*(name for name in names if name not in _rule_names()), *_rule_names()]))


def base_of(model: str) -> str:
    """Return the fair baseline of a model: terms are switched off in the model without neighbours.

    >>> base_of("without launch"), base_of("without neighbours"), base_of("constant utilisation")
    ('without neighbours', 'full', 'full')
    """
    return NO_NEIGHBOURS if model.startswith("without ") and model != NO_NEIGHBOURS else FULL


def _rule_names() -> tuple[str, ...]:
    return (*RULES.values(), ROW_ALONE)


@lru_cache(maxsize=4)
def _ratios(table: str) -> dict[str, str]:
    """Return name and column of each model in a table of evaluated rows."""
    columns = [column.name for column in schema(table, catalog.data_directory()).columns if column.name not in BESIDE]
    return {RULES.get(name, ROW_ALONE if name == ROW else name.replace("_", " ")): name for name in columns}


@lru_cache(maxsize=5)
def _evaluated_rows(kind: str) -> pd.DataFrame:
    """Return evaluated rows joined with measured tables and sources; never change it."""
    return pd.concat([_of_table(table) for table in KINDS[kind]], ignore_index=True)


@lru_cache(maxsize=4)
def _of_table(table: str) -> pd.DataFrame:
    judged = catalog.table(table_name(table)).drop(columns=["how", "source"])
    names = {column: name for name, column in _ratios(table_name(table)).items()}
    columns = ["id", "source", "model", "accelerator", "devices", "precision", "date"]
    measured = catalog.table(measurements_of(table))[columns]
    rows = judged.rename(columns=names).merge(measured, on="id", how="left", validate="one_to_one")
    first = rows["source"].str.partition(";")[0]
    sources = catalog.table("sources").set_index("key")
    devices = catalog.table("accelerators").set_index("key")
    device = rows["accelerator"].map(devices["name"])
    generation = rows["accelerator"].map(devices["vendor"] + " " + devices["generation"])
    year = rows["date"].str.extract(r"((?:19|20)\d\d)")[0]
    return rows.assign(
        kind=table.removeprefix("training_"),
        source=first.map(sources["title"]),
        url=first.map(sources["url"]),
        publisher=first.map(sources["source_group"]),
        device=device.fillna("not named"),
        generation=generation.fillna("not named"),
        year=year.fillna("not stated"),
    )


def as_rows(rows: pd.DataFrame, model: str = FULL) -> pd.DataFrame:
    """Return each run with a model's prediction of it; the intervals belong to the full model."""
    ratio = _ratios_of(rows, model)
    predictions = rows.loc[ratio.index, list(ROWS)].assign(
        predicted=rows["measured"] * np.exp(ratio), ratio=np.exp(ratio)
    )
    for level in LEVELS if model == FULL else ():
        reach = np.exp(rows[f"half_{level}"])
        predictions[f"low_{level}"], predictions[f"high_{level}"] = (
            predictions["predicted"] / reach,
            predictions["predicted"] * reach,
        )
    return predictions.reset_index(drop=True)


def _ratios_of(rows: pd.DataFrame, model: str) -> pd.Series:
    """Return the logarithmic ratios of a model, of the rows that it predicts."""
    model = MODEL.read(model, "model")
    ratios = rows[model].dropna() if model in rows else rows[FULL].iloc[:0]
    if not len(ratios):
        reason = f"nothing is predicted {shown(model)} for these runs: choose another kind of runs"
        raise Refused(Refusal(reason, field="model"))
    return ratios


def per_prediction(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one line per model and baseline, over the rows that it predicts.

    `compared_with` names the model that it is fairly compared with, `compared_error` its median error on the same rows.
    """
    lines = []
    for name in models_of():
        if name in rows and rows[name].notna().any():
            before = grouped(rows[rows[name].notna()], "all", base_of(name))["median_error"]
            line = grouped(rows, "all", name).rename(columns={"all": "prediction"})
            lines.append(line.assign(prediction=name, compared_with=base_of(name), compared_error=before))
    return pd.concat(lines, ignore_index=True)


def grouped(rows: pd.DataFrame, by: str, model: str = FULL) -> pd.DataFrame:
    """Return the error statistics of each group, the groups in the order of their names.

    `rows`: from `chosen`; `by`, `model`: as for `accuracy`.
    """
    ratio = _ratios_of(rows, model)
    selected = rows.loc[ratio.index]
    labels = np.full(len(selected), "all") if by == "all" else selected[by].to_numpy(dtype=str)
    errors, group = ratio.to_numpy(), selected["publisher"].to_numpy(dtype=str)
    half = {level: selected[f"half_{level}"].to_numpy() for level in LEVELS}
    names, codes = np.unique(labels, return_inverse=True)
    lines = [
        _line(errors[at], group[at], {level: reach[at] for level, reach in half.items()} if model == FULL else None)
        for at in (codes == i for i in range(len(names)))
    ]
    return pd.DataFrame([{by: name, **line} for name, line in zip(names, lines, strict=True)])


def repeats(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the noise floor: the deviation of runs from the median of runs that agree in every column.

    `rows`: from `chosen`. Gives one line for each reading of "the same": what is the same, configurations measured more
    than once, their runs, publishers, and the median and the ninetieth percentile of |outcome / median of the same -
    1|.
    """
    lines = [_repeats(rows, words, aside) for words, aside in REPEAT_COLUMNS.items()]
    return pd.DataFrame([line for line in lines if line["configurations"]])


def _repeats(rows: pd.DataFrame, words: str, aside: tuple[str, ...]) -> dict[str, Any]:
    away, runs, publishers, count = [], 0, set[str](), 0
    for kind in rows["kind"].unique():
        table = catalog.table(f"training_{kind}").merge(rows[["id", "measured", "publisher"]], on="id")
        equal_columns = [name for name in table if name not in (*NO_INPUT, *aside, "measured", "publisher")]
        repeated = table.groupby(equal_columns, dropna=False)["measured"]
        is_repeat = repeated.transform("size") > 1
        away.append((table["measured"] / repeated.transform("median") - 1)[is_repeat].abs())
        runs, count = runs + int(is_repeat.sum()), count + int((repeated.size() > 1).sum())
        publishers |= set(table.loc[is_repeat, "publisher"])
    off = pd.concat(away)
    return {
        "same": words,
        "configurations": count,
        "rows": runs,
        "publishers": len(publishers),
        "median_difference": off.median(),
        "p90_difference": off.quantile(0.9),
    }


def _line(errors: np.ndarray, group: np.ndarray, half: dict[int, np.ndarray] | None) -> dict[str, Any]:
    low, high = np.quantile(np.abs(np.expm1(errors)), (0.25, 0.75))
    values = figures(errors, group, half)
    first = {name: values.pop(name) for name in ("rows", "publishers", "median_error")}
    return {**first, "lower_quartile": low, "upper_quartile": high, **values}


MIN_RUNS = 5
SAME_RUN = (
    "publisher",
    "model",
    "accelerator",
    "devices",
    "seq_len",
    "global_batch",
    "precision",
    "software",
    "attention_kernel",
    "fused_norm",
)
CONFIGURATION_COLUMNS = ("publisher", "model", "devices", "seq_len", "attention_kernel", "fused_norm")
LAYOUT = ("tp", "pp", "vp", "cp", "ep", "dp", "zero_stage", "sequence_parallel", "micro_batch", "activation_recompute")


def ranked_layouts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rank of the configuration predicted to be fastest, of those that a publisher measured for one run.

    `rows`: evaluated runs with predicted and measured step times, as of `cookbook.accuracy(by="row")`. Gives one
    line per run of which at least five configurations were measured: publisher, model, devices, seq_len,
    attention_kernel, fused_norm, layouts; rank_correlation (Spearman) of measured and predicted; and over the fastest
    measured one: chosen (the one predicted fastest), median and slowest, 1 where it is the fastest.
    """
    table = catalog.table("training_transformer")
    inputs = ["id", *(name for name in (*SAME_RUN, *LAYOUT) if name not in rows)]
    runs = rows.merge(table[inputs], on="id")
    lines: list[dict[str, Any]] = []
    for _, group in runs.groupby(list(SAME_RUN), dropna=False):
        if len(group) < MIN_RUNS:  # it cannot have more configurations than runs
            continue
        steps = group.groupby(list(LAYOUT), dropna=False)[["measured", "predicted"]].median().reset_index()
        if len(steps) < MIN_RUNS:
            continue
        over = steps["measured"] / steps["measured"].min()
        first = group.iloc[0]
        lines.append(
            {
                **{name: first[name] for name in CONFIGURATION_COLUMNS},
                "layouts": len(steps),
                "rank_correlation": steps["measured"].rank().corr(steps["predicted"].rank()),
                "chosen": over[steps["predicted"].idxmin()],
                "median": over.median(),
                "slowest": over.max(),
            }
        )
    return pd.DataFrame(
        lines, columns=[*CONFIGURATION_COLUMNS, "layouts", "rank_correlation", "chosen", "median", "slowest"]
    )


# Two runs differ only in the number of devices where these columns agree.
SAME_BUT_DEVICES = (
    "publisher",
    "source",
    "model",
    "accelerator",
    "precision",
    "task_input",
    "software",
    "software_notes",
    "batch_per_device",
    "grad_accum_steps",
    "data",
    "unit",
)
COVERED_SHARE = 0.8


@checked(**engine.FIELDS)
def scaling(
    model: str | Workload,
    accelerator: str,
    devices: int | Sequence[int] = 1024,
    batch: float = 64,
    *,
    mode: str = "weak",
    exchange: str | engine.Exchange = engine.MEASURED,
    buckets: int | None = None,
    link: str = "",
    per_node: int | None = None,
    software: str = "",
    precision: str = "",
    seq: float | None = None,
) -> pd.DataFrame:
    """Return data-parallel training from one device to many: step, speed-up with its interval, and the parts of a step.

    Parameters
    ----------
    model : str or Workload
        A network, but no language model.
    accelerator : str
        An accelerator or a server of the catalogue.
    devices : int or sequence of int
        Numbers of devices; a single number means the powers of two up to it, in strong scaling at most the number
        of samples.
    batch : float
        Samples per device (weak scaling), or in total (strong scaling), where the fullest device sets the pace.
    mode : str
        "weak" or "strong".
    exchange : str or callable
        Algorithm of the gradient all-reduce: "hierarchical" (as measured stacks do), "flat ring", "halving-doubling",
        "in-network", "parameter server" (one), "HPE 2017" (2 w log2(p) / beta); or your own function of payload [B],
        ranks, bandwidth [B/s] and latency [s], used between nodes, and within the node where there is only one.
    buckets : int, optional
        Parts in which gradients are sent while the backward pass goes on; 1 hides nothing. By default what measured
        stacks hide.
    link : str
        A link of the catalogue between nodes, one port per device, in place of the machine's own.
    per_node : int, optional
        Devices of a node; those of the server, or 8.
    software, precision, seq
        As in `cookbook.train_step`.

    Returns
    -------
    pandas.DataFrame
        One row per number of devices: nodes, batch (of a device), step_seconds, samples_per_second, speed_up (over one
        device), low80 and high80 (of the speed-up, from measured ones; NaN where the algorithm is not as measured
        stacks do it), efficiency, and seconds of each part.

    Raises
    ------
    cookbook.catalog.UnknownName
        If the catalogue does not have the network, device, link or number format.
    ValueError
        If another argument is invalid; the message has its name, its value and the remedy.

    Examples
    --------
    >>> table = scaling("vgg16", "dgx-1-p100", 8, 32, precision="fp32")
    >>> table["devices"].tolist(), bool(table["efficiency"].iloc[-1] < 1)
    ([1, 2, 4, 8], True)
    """
    table = engine.scaled(
        model,
        accelerator,
        devices,
        batch,
        mode=mode,
        exchange=exchange,
        buckets=buckets,
        link=link,
        per_node=per_node,
        software=software,
        precision=precision,
        seq=seq,
    )
    as_measured = exchange == engine.MEASURED and buckets is None
    low, high = reach(table["devices"], table["nodes"]) if as_measured else np.full((2, len(table)), np.nan)
    at = table.columns.get_loc("speed_up") + 1
    table.insert(at, "low80", table["speed_up"] * low)
    table.insert(at + 1, "high80", table["speed_up"] * high)
    return table


@lru_cache(maxsize=1)
def pairs() -> pd.DataFrame:
    """Return measured runs on several devices with a twin on one, and held-out predictions of the speed-up.

    Columns as in `cookbook.accuracy` by row, and measured_speed_up, predicted_speed_up, ratio (predicted over
    measured), network (of the zoo), nodes, low_80 and high_80: from the errors of the other publishers' speed-ups.
    """

    rows = as_rows(chosen("classic"), NO_NEIGHBOURS)
    more = catalog.table("training_classic").set_index("id")
    columns = [*(name for name in SAME_BUT_DEVICES if name not in rows), "per_node"]
    rows = rows[rows["unit"].str.endswith("/s")].join(more[columns], on="id")
    keys = list(SAME_BUT_DEVICES)
    single = (
        rows[rows["devices"] == 1].groupby(keys, dropna=False)[["measured", "predicted"]].median().add_suffix("_one")
    )
    scaled = rows[rows["devices"] > 1].join(single, on=keys, how="inner")
    twins = scaled.assign(
        measured_speed_up=scaled["measured"] / scaled["measured_one"],
        predicted_speed_up=scaled["predicted"] / scaled["predicted_one"],
        network=[networks.spoken(name).key for name in scaled["model"]],
        nodes=np.ceil(scaled["devices"] / scaled["per_node"].fillna(scaled["devices"].clip(upper=8))),
    )
    twins = twins.assign(ratio=twins["predicted_speed_up"] / twins["measured_speed_up"]).reset_index(drop=True)
    ends = np.ones((2, len(twins)))
    for publisher in twins["publisher"].unique():
        own = (twins["publisher"] == publisher).to_numpy()
        ends[:, own] = _reach(twins[~own], twins.loc[own, "devices"], twins.loc[own, "nodes"])
    low, high = twins["predicted_speed_up"].to_numpy() * ends
    return twins.assign(low_80=low, high_80=high).drop(columns=["measured_one", "predicted_one"])


def judged_pairs(ids: Any) -> pd.DataFrame:
    """Return speed-ups of some runs by publisher, on one node and on several.

    Columns: publisher, nodes, runs; medians of measured and predicted efficiency, of the error of the predicted
    speed-up and of the error of assuming the ideal; inside_80: share inside the interval from the errors of the other
    publishers.

    ValueError: none of the runs has a twin on one device.
    """
    twins = pairs()
    twins = twins[twins["id"].isin(ids)]
    if not len(twins):
        raise ValueError("none of these runs has a twin on one device: take kind = classic, or other publishers")
    measured = twins["measured_speed_up"]
    by_publisher = twins.assign(
        nodes=np.where(twins["nodes"] > 1, "several", "one"),
        runs=1,
        measured=measured / twins["devices"],
        predicted=twins["predicted_speed_up"] / twins["devices"],
        error=np.abs(twins["ratio"] - 1),
        error_of_ideal=np.abs(twins["devices"] / measured - 1),
        inside_80=(twins["low_80"] <= measured) & (measured <= twins["high_80"]),
    ).groupby(["publisher", "nodes"])
    middle = by_publisher[["measured", "predicted", "error", "error_of_ideal"]].median()
    return by_publisher[["runs"]].sum().join(middle).join(by_publisher[["inside_80"]].mean()).reset_index()


def reach(devices: Any, nodes: Any) -> np.ndarray:
    """Return the ends of the 80 per cent interval of a speed-up over the predicted one, (2, ...): 1 for one device."""
    return _reach(pairs(), devices, nodes)


def _reach(speed_ups: pd.DataFrame, devices: Any, nodes: Any) -> np.ndarray:
    """Return the ends from the errors of known speed-ups.

    Between nodes, which can only add time, the low end is farther away.
    """
    error, publisher = np.abs(np.log(speed_ups["ratio"].to_numpy())), speed_ups["publisher"].to_numpy()
    one_node = speed_ups["nodes"].to_numpy() == 1
    near = pooled_quantile(error[one_node], publisher[one_node], COVERED_SHARE)
    far = (
        max(near, pooled_quantile(error[~one_node], publisher[~one_node], COVERED_SHARE)) if (~one_node).any() else near
    )
    alone, multi_node = np.asarray(devices) <= 1, np.asarray(nodes) > 1
    low, high = np.where(multi_node, far, near), np.full(multi_node.shape, near)
    return np.where(alone, 1.0, np.exp([-low, high]))
