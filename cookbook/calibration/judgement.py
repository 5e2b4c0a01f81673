"""Evaluation of predictions of storage, input and communication: each from constants fitted without its group.

- Storage and input, together (`judgement`) and row by row (`judged_rows`).
- Exchanges (`exchange_judgement`): measured collectives, constants fitted without a publisher or a generation. Rows
  count whose network is stated or known from the accelerator's systems; where a publisher states no payload, it is a
  large one. The rule to beat is the bus bandwidth that is a constant part of the slower of link and network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.calibration.intervals import half_width
from cookbook.calibration.storage import (
    Measured,
    as_text,
    fit_decode,
    fit_real,
    folds,
    in_samples,
    left_out,
    real_pairs,
    reported,
    search,
    single_rates,
)
from cookbook.formulas import input_pipeline
from cookbook.prediction import fabrics, storage
from cookbook.prediction.kinds.input_pipeline import LEVELS, loader_rate
from cookbook.prediction.kinds.input_pipeline_arguments import committed
from cookbook.prediction.parsing import words
from cookbook.prediction.parsing.storage import CHAINS, DECODE, MLPERF, OBJECT_STORE
from cookbook.prediction.parsing.tables import without_outcomes

TABLE, SOURCE, HOW = "validation_storage_rows", "dl-cookbook-judge-storage", "derived"


def utilised() -> tuple[Measured, np.ndarray, np.ndarray]:
    """MLPerf Storage: rows, utilisation with submitters left out, and the constant that is best for the others."""
    data = Measured(MLPERF)
    found, _ = left_out(data, MLPERF, data.group)
    constant = np.empty(len(found))
    for name in set(data.group.tolist()):
        rest = data.outcome[data.group != name]
        tried = np.linspace(0.6, 1, 401)
        constant[data.group == name] = tried[np.argmin([np.median(np.abs(rest - value)) for value in tried])]
    return data, found, constant


def utilisation() -> dict[str, Any]:
    """Absolute errors of the utilisation in MLPerf Storage with submitters left out, beside rules to beat."""
    data, found, constant = utilised()
    described = storage.predict_rows(data.rows)["described"]
    rules = {"left out": found, "best constant, left out": constant, "at the required bar": data.rows.required}
    by_workload = {name: data.frame["workload"].to_numpy() == name for name in ("unet3d", "resnet50", "cosmoflow")}
    strata = {"all": described | True, "described drive": described, "not described": ~described, **by_workload}
    return {
        stratum: {"rows": int(at.sum())}
        | {
            name: (
                round(float(np.median(np.abs(rule - data.outcome)[at])), 4),
                round(float(np.mean(np.abs(rule - data.outcome)[at])), 4),
            )
            for name, rule in rules.items()
        }
        for stratum, at in strata.items()
    }


def single_drives() -> list[dict[str, Any]]:
    """Largest sustained accelerators of single drives from the datasheet's bandwidth alone, beside those submitted.

    Nothing is fitted: bandwidth over bar x demand. Rows of host-bound workloads are named as such.
    """
    data = Measured(MLPERF)
    rows, found = data.rows, []
    demand = rows.batch / rows.step * rows.sample_bytes
    for at in np.flatnonzero(np.isfinite(rows.drive) & (rows.hosts == 1)):
        most = int(input_pipeline.largest_accelerators(rows.drive[at], demand[at], rows.required[at]))
        found.append(
            {
                "system": data.frame["system"][at].split(": ")[1].split("/")[0],
                "workload": data.frame["workload"][at],
                "accelerator": data.frame["accelerator"][at],
                "submitted": int(rows.accelerators[at]),
                "predicted": most,
                "host_bound": bool(rows.required[at] < storage.STORAGE_BOUND),
                "id": data.frame["id"][at],
            }
        )
    return found


def decoded() -> tuple[Measured, np.ndarray, np.ndarray, np.ndarray]:
    """JPEG decoding: rows, rates from the name of a processor left out, those from its own single rate, and that."""
    data = Measured(DECODE)
    whole, _ = left_out(data, DECODE, data.group)
    one = (data.frame["workload"] == "jpeg_loader").to_numpy() & (data.rows.workers == 0)
    first, shape = single_rates(data, one), np.full(len(whole), np.nan)
    for name in sorted(set(data.group.tolist())):
        known, own = fit_decode(data, data.group != name), data.group == name
        core = np.full(len(whole), np.exp(np.mean(np.log(data.outcome[one & own]))))
        shape[own] = loader_rate(data.rows.workers, first, core, data.rows.threads, known)[own]
    return data, whole, shape, first


def decoding() -> dict[str, Any]:
    """Mean absolute error of decoding with processors left out.

    "shape" takes what the processor decodes alone as known, and judges how that grows with workers; "from the name"
    takes nothing but the processor's name.
    """
    data, whole, shape, _ = decoded()
    many, loader = data.rows.workers > 0, (data.frame["workload"] == "jpeg_loader").to_numpy()
    errors = {
        "shape, 2 to 8 workers": (shape, many),
        "from the name, 0 to 8 workers": (whole, loader),
        "from the name, one thread": (whole, ~loader),
    }
    return {
        name: {"all": _percent(value[at], data.outcome[at])}
        | {
            group: _percent(value[at & (data.group == group)], data.outcome[at & (data.group == group)])
            for group in sorted(set(data.group.tolist()))
        }
        for name, (value, at) in errors.items()
    }


def downloads() -> dict[str, Any]:
    """Errors of parallel downloads with single instances, and with whole families of instances, left out."""
    data = Measured(OBJECT_STORE)
    found = {}
    for name, group in (("instance", data.group), ("family", folds(data, OBJECT_STORE))):
        predicted, _ = left_out(data, OBJECT_STORE, group)
        good = np.isfinite(predicted)
        error = np.abs(predicted[good] / data.outcome[good] - 1)
        found[f"{name} left out"] = {
            "rows": int(good.sum()),
            "median %": round(100 * float(np.median(error)), 1),
            "mean %": round(100 * float(np.mean(error)), 1),
            "not answered": int((~good).sum()),
        }
    middle = np.median(data.outcome)
    found["the median of all"] = {"median %": round(100 * float(np.median(np.abs(middle / data.outcome - 1))), 1)}
    return found


def coverage() -> dict[str, Any]:
    """Share of rows inside intervals, by kind, and the committed factor.

    Of each row both the point and the width come from constants and errors of the other groups.
    """
    known = committed()
    found: dict[str, Any] = {}
    for kind in (MLPERF, DECODE, OBJECT_STORE):
        data = Measured(kind)
        group = folds(data, kind)
        predicted, _ = left_out(data, kind, group)
        error = np.abs(np.log(in_samples(data, kind, predicted) / reported(data, kind)))
        good = np.isfinite(error)
        found[kind] = {}
        for level in LEVELS:
            inside = np.zeros(len(group), dtype=bool)
            for name in set(group.tolist()):
                rest = good & (group != name)
                inside |= (group == name) & (np.log(half_factor(error[rest], group[rest], level)) >= error)
            found[kind][level] = (round(float(np.mean(inside[good])), 3), round(known[f"interval/{kind}/{level}"], 3))
    return found


def real_beside_synthetic() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Pairs of runs, the rate on real data with networks left out, and that of one capacity of the host."""
    pairs = real_pairs()
    models = pairs["model"].to_numpy()
    real, synthetic = (pairs[name].to_numpy(dtype=float) for name in ("r", "s"))
    serial, slower = np.empty(len(pairs)), np.empty(len(pairs))
    for name in sorted(set(models.tolist())):
        rest = models != name
        serial[~rest] = input_pipeline.partly_serial_rate(synthetic, fit_real(pairs, rest))[~rest]
        tried = np.sort(real[rest])
        loss = [np.mean(np.abs(np.log(np.minimum(synthetic, most) / real))[rest]) for most in tried]
        slower[~rest] = np.minimum(synthetic, tried[int(np.argmin(loss))])[~rest]
    return pairs, serial, slower


def real_training() -> dict[str, Any]:
    """Mean absolute error % of training on real data from that on synthetic data, networks left out.

    Beside it: no loss at all, and the slower of the step and one capacity of the host.
    """
    pairs, serial, slower = real_beside_synthetic()
    real, synthetic = (pairs[name].to_numpy(dtype=float) for name in ("r", "s"))
    rules = {"partly serial": serial, "the slower of step and host": slower, "no loss": synthetic}
    return {"rows": len(pairs)} | {name: _percent(found, real) for name, found in rules.items()}


def chained() -> pd.DataFrame:
    """Loaders, runs on real data and weights: measured beside predicted with its intervals, in the same unit.

    Nothing is fitted to them: constants are those of other publishers, datasheets and what is recalled.
    """
    table = as_text(catalog.table("storage_measured")["kind"].isin(CHAINS).to_numpy())
    found = storage.storage_table(without_outcomes(table))
    groups = catalog.table("sources").set_index("key")["source_group"]
    columns = found["unit"].map({"samples/s": "samples_per_s", "GB/s": "read_bandwidth", "us": "latency"})
    measured = [float(row[name]) for row, name in zip(table.to_dict("records"), columns, strict=True)]
    kinds = table["kind"].replace("model_load", "weights").where(found["unit"] != "us", "engine start")
    return found.assign(
        measured=measured,
        kind=kinds,
        group=table["source"].map(groups),
        **{name: table[name] for name in ("id", "workload", "accelerator", "accelerators", "workers")},
    )


def chains() -> dict[str, Any]:
    """Of each kind and publisher: rows, those answered, median absolute error % and part inside the intervals."""
    found: dict[str, Any] = {}
    for (kind, group), rows in chained().groupby(["kind", "group"]):
        inside = {
            f"within {level} %": round(
                float(rows["measured"].between(rows[f"low{level}"], rows[f"high{level}"]).mean()), 3
            )
            for level in LEVELS
        }
        error = (rows["predicted"] / rows["measured"] - 1).abs()
        found[f"{kind}, {group}"] = {
            "rows": len(rows),
            "answered": int(rows["predicted"].notna().sum()),
            "median %": round(100 * float(error.median()), 1),
            **inside,
        }
    return found


def half_factor(error: np.ndarray, group: np.ndarray, level: int) -> float:
    """Factor by which an interval reaches, from errors of other groups.

    `error`: absolute logarithmic errors; `group`: group of each; `level`: nominal coverage in per cent.
    """
    return float(np.exp(half_width(error, group, level / 100)))


def _percent(found: np.ndarray, outcome: np.ndarray) -> float:
    good = np.isfinite(found)
    return round(100 * float(np.mean(np.abs(found[good] / outcome[good] - 1))), 1)


def judgement() -> str:
    """All judgements as text."""
    lines = ["Utilisation, MLPerf Storage (median, mean absolute error), submitters left out"]
    lines += [f"  {name}: {row}" for name, row in utilisation().items()]
    lines += ["Single drives: accelerators submitted and from the datasheet's bandwidth"]
    lines += [f"  {row}" for row in single_drives()]
    lines += ["JPEG decoding, mean absolute error %, processors left out"]
    lines += [f"  {name}: {row}" for name, row in decoding().items()]
    lines += ["Parallel downloads"] + [f"  {name}: {row}" for name, row in downloads().items()]
    lines += [f"Real beside synthetic data, mean absolute error %: {real_training()}"]
    lines += ["Loaders, runs on real data, weights and engine starts, by publisher; nothing is fitted to them"]
    lines += [f"  {name}: {row}" for name, row in chains().items()]
    lines += ["Coverage of intervals from the other groups, and factor committed"]
    lines += [f"  {name}: {row}" for name, row in coverage().items()]
    return "\n".join(lines)


def judged_rows() -> list[dict[str, Any]]:
    """Rows of the table ``validation_storage_rows``; the group of each was left out of the fit that predicts it."""
    rows = [*_utilised_rows(), *_drive_rows(), *_decoded_rows(), *_real_rows(), *_chained_rows()]
    return [row | _errors(row) | {"how": HOW, "source": SOURCE} for row in rows]


def _errors(row: dict[str, Any]) -> dict[str, float]:
    """Of shares absolute, of everything else relative."""
    unit = 1.0 if row["kind"] == "utilisation" else row["measured"]
    named = {"error": "predicted", "rule_error": "rule"}
    return {name: abs(row[key] - row["measured"]) / unit for name, key in named.items() if key in row}


def _utilised_rows() -> list[dict[str, Any]]:
    data, found, constant = utilised()
    described = storage.predict_rows(data.rows)["described"]
    frame = data.frame
    return [
        {
            "kind": "utilisation",
            "id": frame["id"][at],
            "group": data.group[at],
            "workload": frame["workload"][at],
            "accelerator": frame["accelerator"][at],
            "count": int(data.rows.accelerators[at]),
            "remark": "drive described" if described[at] else "drive not described",
            "measured": float(data.outcome[at]),
            "predicted": float(found[at]),
            "rule": float(constant[at]),
        }
        for at in range(len(frame))
    ]


def _drive_rows() -> list[dict[str, Any]]:
    return [
        {
            "kind": "accelerators",
            "id": row["id"],
            "group": row["system"].replace("_", " "),
            "workload": row["workload"],
            "accelerator": row["accelerator"],
            "count": 1,
            "remark": "host-bound" if row["host_bound"] else "",
            "measured": row["submitted"],
            "predicted": row["predicted"],
        }
        for row in single_drives()
    ]


def _decoded_rows() -> list[dict[str, Any]]:
    """The rule: each worker decodes as fast as the main process alone."""
    data, whole, _, first = decoded()
    frame, rows = data.frame, data.rows
    return [
        {
            "kind": "decoding",
            "id": frame["id"][at],
            "group": data.group[at],
            "workload": frame["workload"][at],
            "count": int(rows.workers[at]),
            "remark": str(rows.key("decoder")[at]),
            "measured": float(data.outcome[at]),
            "predicted": float(whole[at]),
            "rule": float(first[at] * max(rows.workers[at], 1)),
        }
        for at in range(len(frame))
        if frame["workload"][at] == "jpeg_loader"
    ]


def _real_rows() -> list[dict[str, Any]]:
    """The rule: nothing is lost against synthetic data."""
    pairs, serial, _ = real_beside_synthetic()
    return [
        {
            "kind": "real data",
            "group": row.model,
            "workload": row.model,
            "accelerator": row.accelerator,
            "count": int(row.devices),
            "remark": f"{row.precision}, batch {row.batch_per_device:.0f} each",
            "measured": float(row.r),
            "predicted": float(serial[at]),
            "rule": float(row.s),
        }
        for at, row in enumerate(pairs.itertuples(index=False))
    ]


def _chained_rows() -> list[dict[str, Any]]:
    return [
        {
            "kind": row.kind,
            "id": row.id,
            "group": row.group,
            "workload": row.workload,
            "accelerator": row.accelerator,
            "count": int(row.accelerators or 1),
            "remark": f"{row.unit}; {row.tier}",
            "measured": row.measured,
            "predicted": row.predicted,
        }
        for row in chained().itertuples(index=False)
        if row.predicted > 0
    ]


RING = ("all_reduce", "all_gather", "reduce_scatter")
LARGE_PAYLOAD, NODE, NODES = 1e15, 8, 4
# From this payload on bandwidth counts, not starts.
BIG = 1e9
# Where the search starts (what one expects before any row was seen), and how far the logarithm may lie from it.
START = dict(zip(fabrics.CONSTANTS, (0.8, 0.8, 0.8, 5e-6, 15e-6, 1e6), strict=True))
WIDTH, PULL = np.array([0.2, 0.2, 0.2, 0.5, 0.5, 2.0]), 0.002


@dataclass(frozen=True, eq=False)
class Exchanges:
    """Measured rings as arrays, one entry a row, SI; `in_switch` where the switch makes the sums."""

    source: np.ndarray
    family: np.ndarray
    curve: np.ndarray
    passes: np.ndarray
    devices: np.ndarray
    per_node: np.ndarray
    link: np.ndarray
    network: np.ndarray
    in_switch: np.ndarray
    payload: np.ndarray
    seconds: np.ndarray

    def take(self, index: Any) -> Exchanges:
        """Some of the rows."""
        return Exchanges(**{name: getattr(self, name)[index] for name in self.__annotations__})


def measured_exchanges() -> Exchanges:
    """The rows of ``collectives`` of which link and network are known."""
    table = catalog.table("collectives")
    table = table[table["collective"].isin(RING)]
    found = [row for row in map(_row, table.to_dict("records")) if row]
    return Exchanges(**{name: np.array([row[name] for row in found]) for name in found[0]})


def _row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    key, several = row["accelerator"], row["nodes"] != 1
    network, of_node, _ = words.network(row["inter_node_link"])
    machine = hardware.machine(key) if key else None
    if not key and not np.isfinite(network):
        return None
    per_node = row["per_node"] if row["per_node"] > 0 else (NODE if key else 1)
    network = network / per_node if of_node else network
    if several and not np.isfinite(network):
        network = machine.network if machine else np.nan
    devices = per_node * (row["nodes"] if row["nodes"] > 0 else NODES)
    payload = row["payload_bytes"] if row["payload_bytes"] > 0 else LARGE_PAYLOAD
    passes = 2 if row["collective"] == "all_reduce" else 1
    said = row["algorithm"].startswith("NVLS") or any(
        word in row["intra_node_link"] + row["inter_node_link"] for word in ("SHARP", "NVLS")
    )
    in_switch = said and not row["algorithm"].startswith("Ring")
    return {
        "source": row["source"],
        "family": machine.generation if machine else "",
        "passes": passes,
        "curve": f"{row['source']} {key} {devices} {in_switch}",
        "devices": devices,
        "per_node": per_node,
        "link": machine.link if machine else network,
        "network": network if several else np.inf,
        "in_switch": in_switch,
        "payload": payload,
        "seconds": passes * (devices - 1) / devices * payload / row["bus_bandwidth"],
    }


def predicted_exchanges(rows: Exchanges, constants: dict[str, float]) -> np.ndarray:
    """Seconds of each row."""
    groups = np.stack([np.ones(len(rows.devices)), rows.per_node], axis=-1)
    network = np.where(np.isfinite(rows.network), rows.network, rows.link)
    rates = np.stack([rows.link, network], axis=-1)
    ring = fabrics.nested_seconds("all_gather", rows.payload, rows.devices, groups, rates, constants)
    switch = fabrics.switch_seconds(rows.payload, rows.per_node, rows.link, constants)
    between = np.isfinite(rows.network)
    # Beyond the node the sums of the node travel on; the slower of both sets the pace.
    return np.where(
        rows.in_switch, np.where(between, np.maximum(switch, _far(rows, constants)), switch), rows.passes * ring
    )


def _far(rows: Exchanges, constants: dict[str, float]) -> np.ndarray:
    """The part of a ring between nodes alone, all links within a node taken as free."""
    groups = np.stack([np.ones(len(rows.devices)), rows.per_node], axis=-1)
    free = np.stack(
        [np.full(len(rows.devices), LARGE_PAYLOAD), np.where(np.isfinite(rows.network), rows.network, 1.0)], -1
    )
    return rows.passes * fabrics.nested_seconds("all_gather", rows.payload, rows.devices, groups, free, constants)


def fit_exchanges(rows: Exchanges) -> dict[str, float]:
    """Constants with the smallest mean error of logarithms; curves of one machine count by the root of their points."""
    _, at, count = np.unique(rows.curve, return_inverse=True, return_counts=True)
    weight = 1 / np.sqrt(count[at])
    start = np.log(list(START.values()))

    def loss(unknowns: np.ndarray) -> float:
        constants = dict(zip(START, np.exp(unknowns).tolist(), strict=True))
        error = np.abs(np.log(predicted_exchanges(rows, constants) / rows.seconds))
        return float(weight @ error / weight.sum() + PULL * (((unknowns - start) / WIDTH) ** 2).sum())

    return dict(zip(START, np.exp(search(loss, start, rounds=120)).tolist(), strict=True))


def constant_bandwidth(rows: Exchanges, known: np.ndarray) -> np.ndarray:
    """The rule to beat: a constant share of the slower of link and network, and no starts.

    The share is the median of the known large payloads, one for rings and one for sums in switches.
    """
    nominal = np.minimum(rows.link, rows.network)
    ideal = rows.passes * (rows.devices - 1) / rows.devices * rows.payload / nominal
    share = np.ones(len(ideal))
    for kind in (rows.in_switch, ~rows.in_switch):
        large = kind & known & (rows.payload >= BIG)
        share[kind] = np.median((rows.seconds / ideal)[large]) if large.any() else 1.0
    return ideal * share


def exchanges_left_out(by: str = "source") -> dict[str, np.ndarray]:
    """Logarithms of predicted over measured, each group of rows by constants that were fitted without it.

    `by`: "source" (publishers) or "family" (generations of accelerators). Gives ``model`` and ``constant bandwidth``,
    with ``group`` and ``payload`` [B].
    """
    rows = measured_exchanges()
    group = getattr(rows, by)
    model, rule = np.empty(len(group)), np.empty(len(group))
    for name in np.unique(group):
        inside = group == name
        model[inside] = predicted_exchanges(rows, fit_exchanges(rows.take(~inside)))[inside]
        rule[inside] = constant_bandwidth(rows, ~inside)[inside]
    errors = {"model": model, "constant bandwidth": rule}
    return {name: np.log(value / rows.seconds) for name, value in errors.items()} | {
        "group": group,
        "payload": rows.payload,
    }


def exchange_judgement() -> str:
    """Median errors with publishers and with generations left out, and the constants fitted to all rows, in words."""
    lines = []
    for by, title in (("source", "publishers"), ("family", "generations")):
        found = exchanges_left_out(by)
        small = found["payload"] < BIG
        for name, at in (("all", small | True), ("below 1 GB", small), ("1 GB and more", ~small)):
            errors = [f"{rule} {_per_cent(found[rule][at])}" for rule in ("model", "constant bandwidth")]
            lines.append(f"{title} left out, {name}, {at.sum()} rows: {', '.join(errors)}")
    fitted = fit_exchanges(measured_exchanges())
    return "\n".join([*lines, *(f"{name} {value:.4g}" for name, value in fitted.items())])


def _per_cent(errors: np.ndarray) -> str:
    """Median error, and the one that nine of ten rows stay below."""
    middle, most = np.expm1(np.quantile(np.abs(errors), [0.5, 0.9]))
    return f"{100 * middle:.0f} % (nine of ten below {100 * most:.0f} %)"
