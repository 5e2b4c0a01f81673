"""Fits the few constants of storage and input to measurements; `judgement` judges them by those left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.calibration.intervals import half_width
from cookbook.catalog import tables
from cookbook.formulas import input_pipeline
from cookbook.prediction import storage
from cookbook.prediction.kinds.input_pipeline import LEVELS, loader_rate
from cookbook.prediction.kinds.input_pipeline_arguments import committed
from cookbook.prediction.parsing.storage import DECODE, MLPERF, OBJECT_STORE, read
from cookbook.prediction.parsing.tables import without_outcomes
from cookbook.prediction.storage import ReportRows

# A step must lower the loss by this share of it: less is the rounding of one processor's sums.
LEAST_GAIN = 1e-9
# Where the search starts.
START = {
    "step_overhead": 0.005,
    "buffer": 20.0,
    "room": 0.6,
    "room_hosts": 0.2,
    "room_devices": 0.3,
    "room_host_bound": 0.06,
    "counted_share": 1.0,
    "handover": 0.15,
    "collation": 4.0,
    "collation_two_threads": 0.7,
    "sharpness": 4.0,
    "core_rate": 0.2,
    "usual_speed": 2500.0,
    "usual_download": 1e9,
    "network_share": 0.9,
    "processor_rate": 0.4e9,
    "client_rate": 8e9,
    "network_size": 0.7,
    "network/moderate": 30e6,
    "network/high": 30e6,
    "network/low-to-moderate": 50e6,
}
UNITS = {
    "step_overhead": "s",
    "usual_download": "B/s",
    "processor_rate": "B/s",
    "client_rate": "B/s",
    "core_rate": "Hz",
    **{name: "B/s" for name in START if name.startswith("network/")},
}
SEARCHED = {
    "described": ("step_overhead", "buffer"),
    "undescribed": ("room", "room_hosts", "room_devices", "room_host_bound"),
    "shape": ("handover", "collation", "collation_two_threads", "sharpness"),
    "network": (
        "network_share",
        "processor_rate",
        "client_rate",
        "network_size",
        "network/moderate",
        "network/high",
        "network/low-to-moderate",
    ),
}
NOTES = {
    "step_overhead": "Time of each step beside computation, MLPerf Storage on described drives",
    "buffer": "Prefetched batches over the squared variation of their times",
    "room": "Utilisation above the bar over what is above it, one accelerator on one host, storage not described",
    "room_hosts": "Fall of that with hosts, an exponent: they wait for each other",
    "room_devices": "Fall of that with accelerators of one host, an exponent: more of them leave a smaller rest",
    "room_host_bound": "The same rest for workloads with the lower bar (steps of a few milliseconds)",
    "counted_share": "Samples a second over accelerators x batch x utilisation / step: start and end of epochs",
    "handover": "Handing a sample from a worker to the collecting process, in decodings",
    "collation": "What the collecting process manages, over what one core decodes",
    "collation_two_threads": "The same where two threads share a core, over where they do not",
    "sharpness": "Exponent of the knee between workers and collecting process",
    "core_rate": "JPEGs of ImageNet that a core decodes, a second and point of single-thread speed, mean of decoders",
    "usual_speed": "Single-thread speed that stands in for an unknown processor: mean of those measured",
    "usual_download": "Download that stands in for an unknown network: median of those measured",
    "network_share": "Part of the stated network that parallel downloads reach",
    "processor_rate": "Downloads that one virtual processor handles",
    "client_rate": "Most that one client has downloaded",
    "network_size": "Growth of networks that are stated as a word with virtual processors, an exponent",
}


def start() -> dict[str, float]:
    """Return the start of fits, with the constants that are not fitted."""
    return {**START, **{row["name"]: committed()[row["name"]] for row in _recalled()}}


class Measured:
    """Measured rows with their outcomes and the group by which they are left out.

    `rows`: what was run; `outcome`: utilisation, samples a second or bytes a second, by kind; `samples_per_s`: samples
    a second; `group`: submitter, processor or instance.
    """

    def __init__(self, kind: str) -> None:
        frame = catalog.table("storage_measured")
        chosen = (frame["kind"] == kind).to_numpy()
        self.frame = frame[chosen].reset_index(drop=True)
        self.rows: ReportRows = storage.resolve(read(without_outcomes(as_text(chosen))))
        column = {MLPERF: "utilisation", DECODE: "samples_per_s", OBJECT_STORE: "read_bandwidth"}[kind]
        self.outcome = self.frame[column].to_numpy(dtype=float)
        self.samples_per_s = self.frame["samples_per_s"].to_numpy(dtype=float)
        separator = {MLPERF: ":", DECODE: "\n", OBJECT_STORE: "\n"}[kind]
        self.group = np.array([cell.split(separator)[0] for cell in self.frame["system"]])


def as_text(chosen: np.ndarray) -> pd.DataFrame:
    """Chosen rows of the table ``storage_measured`` as they are written."""
    rows = list(tables.raw("storage_measured", catalog.data_directory()).records())
    return pd.DataFrame(rows)[chosen].reset_index(drop=True)


def search(loss: Callable[[np.ndarray], float], start: np.ndarray, step: float = 0.3, rounds: int = 400) -> np.ndarray:
    """Smallest loss near a start: each unknown moves by its own step, which grows with success and halves without.

    `loss`: from unknowns to a number; `start`: where to begin; `step`: first step; `rounds`: most rounds over all
    unknowns.
    """
    at, best = np.array(start, dtype=float), loss(np.array(start, dtype=float))
    steps = np.full(len(at), step)
    for _ in range(rounds):
        for one in range(len(at)):
            for sign in (1.0, -1.0):
                trial = at.copy()
                trial[one] += sign * steps[one]
                value = loss(trial)
                if value < best - LEAST_GAIN * abs(best):
                    at, best, steps[one] = trial, value, steps[one] * 1.3
                    break
            else:
                steps[one] *= 0.5
        if steps.max() < 1e-6:
            break
    return at


def _equal_weights(group: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Weights under which each group counts the same."""
    names, at, count = np.unique(group[chosen], return_inverse=True, return_counts=True)
    return 1 / count[at] / len(names)


def _searched(
    part: str,
    known: dict[str, float],
    error: Callable[[Mapping[str, float]], np.ndarray],
    weights: np.ndarray,
    chosen: np.ndarray,
) -> None:
    """Fit the constants of a part, in logarithms, to the weighted mean of absolute errors of chosen rows."""
    names = SEARCHED[part]

    def loss(unknowns: np.ndarray) -> float:
        errors = error({**known, **dict(zip(names, np.exp(unknowns).tolist(), strict=True))})
        return float(weights @ np.abs(errors[chosen]))

    found = search(loss, np.log([START[name] for name in names]))
    known.update(zip(names, np.exp(found).tolist(), strict=True))


def fit_mlperf(data: Measured, train: np.ndarray) -> dict[str, float]:
    """Constants of MLPerf Storage from chosen rows.

    `data`: rows of the kind; `train`: which of them may be used.
    """
    # The most that a drive reads bounds what is predicted; the constants are those of the chain below that.
    known, unbounded = start(), {"drive_most": np.full(len(data.rows), np.inf)}
    rows = replace(data.rows, values={**data.rows.values, **unbounded})
    described = storage.predict_rows(rows, known)["described"]

    def error(constants: Mapping[str, float]) -> np.ndarray:
        return storage.predict_rows(rows, constants)["utilisation"] - data.outcome

    for part, chosen in (("described", train & described), ("undescribed", train & ~described)):
        if chosen.any():
            _searched(part, known, error, _equal_weights(data.group, chosen), chosen)
    known["counted_share"] = float(np.median((data.samples_per_s / _ideal(data))[train]))
    return known


def fit_decode(data: Measured, train: np.ndarray) -> dict[str, float]:
    """Constants of decoding from chosen rows; see `fit_mlperf`."""
    known, rows, decoder = start(), data.rows, data.rows.key("decoder")
    one = np.array([workload == "jpeg_loader" for workload in data.frame["workload"]]) & (rows.workers == 0)
    both = sorted(set(decoder[one].tolist()))
    core = {name: _mean(data.outcome[one & (data.group == name)]) for name in set(data.group[train].tolist())}
    speeds = {name: rows.speed[data.group == name][0] for name in core}
    known["core_rate"] = _mean(np.array([core[name] / speeds[name] for name in core]))
    known["usual_speed"] = _mean(np.array(list(speeds.values())))
    single = rows.workers == 0
    own = np.array([core.get(name, np.nan) for name in data.group])
    for name in sorted(set(decoder.tolist())):
        at = single & train & (decoder == name) & (one if name in both else True)
        known[f"decoder/{name}"] = _mean(data.outcome[at] / own[at])
    chosen = train & (rows.workers > 0)
    first = single_rates(data, one)

    def error(constants: Mapping[str, float]) -> np.ndarray:
        bounded = {**constants, "sharpness": max(constants["sharpness"], 1.0)}
        return np.log(loader_rate(rows.workers, first, own, rows.threads, bounded) / data.outcome)

    _searched("shape", known, error, _equal_weights(data.group, chosen), chosen)
    return known


def single_rates(data: Measured, one: np.ndarray) -> np.ndarray:
    """For each row, what the main process alone decoded with that processor and decoder."""
    decoder = data.rows.key("decoder")
    pairs = dict(zip(zip(data.group[one], decoder[one], strict=True), data.outcome[one], strict=True))
    return np.array([pairs.get(pair, np.nan) for pair in zip(data.group, decoder, strict=True)])


def _mean(values: np.ndarray) -> float:
    return float(np.exp(np.mean(np.log(values))))


def fit_network(data: Measured, train: np.ndarray) -> dict[str, float]:
    """Constants of object stores from chosen rows; see `fit_mlperf`."""
    known = start() | {"usual_download": float(np.median(data.outcome[train]))}
    known_rows = train & (~data.rows.estimated)

    # Nothing but the network limits a download, so the rest of the chain is left out.
    def error(constants: Mapping[str, float]) -> np.ndarray:
        return np.log(storage.instance_network(data.rows, constants) / data.outcome)

    _searched("network", known, error, np.full(known_rows.sum(), 1 / known_rows.sum()), known_rows)
    return known


def real_pairs() -> pd.DataFrame:
    """Training rates with real data (``r``) beside those with synthetic data (``s``) of the same run otherwise."""
    rows = catalog.table("training_classic")
    same = ["source", "model", "accelerator", "devices", "precision", "batch_per_device", "software"]
    rows = rows[rows["data"].isin(["real", "synthetic"])].assign(data=rows["data"].str[0])
    pairs = rows.groupby([*same, "data"], dropna=False)["value"].median().unstack("data").dropna()
    return pairs.reset_index()


def fit_real(pairs: pd.DataFrame, train: np.ndarray) -> float:
    """Host work beside the step for one sample [s], from chosen pairs.

    `pairs`: from `real_pairs`; `train`: which of them may be used.
    """
    real, synthetic = (pairs[name].to_numpy(dtype=float)[train] for name in ("r", "s"))

    def loss(unknowns: np.ndarray) -> float:
        found = input_pipeline.partly_serial_rate(synthetic, np.exp(unknowns[0]))
        return float(np.mean(np.abs(np.log(found / real))))

    return float(np.exp(search(loss, np.log([20e-6]))[0]))


FITS: dict[str, Callable[[Measured, np.ndarray], dict[str, float]]] = {
    MLPERF: fit_mlperf,
    DECODE: fit_decode,
    OBJECT_STORE: fit_network,
}


def left_out(data: Measured, kind: str, group: np.ndarray) -> tuple[np.ndarray, list[dict[str, float]]]:
    """Return the predictions of each row from constants fitted without its group, and those constants.

    `data`: rows of the kind; `kind`: mlperf, decode or object_store; `group`: group of each row.
    """
    found, every = np.full(len(group), np.nan), []
    for name in sorted(set(group.tolist())):
        known = FITS[kind](data, group != name)
        answer = storage.predict_rows(data.rows, known)
        value = answer[{MLPERF: "utilisation", DECODE: "samples_per_s", OBJECT_STORE: "read_rate"}[kind]]
        found[group == name] = value[group == name]
        every.append(known)
    return found, every


def in_samples(data: Measured, kind: str, predicted: np.ndarray) -> np.ndarray:
    """The figure that an answer leads with: of MLPerf Storage the samples a second that go with a utilisation."""
    rows = data.rows
    each = rows.accelerators * rows.batch / rows.step * np.median(data.samples_per_s / _ideal(data))
    return predicted * each if kind == MLPERF else predicted


def reported(data: Measured, kind: str) -> np.ndarray:
    """Return the measured value of the figure that an answer leads with."""
    return data.samples_per_s if kind == MLPERF else data.outcome


def _ideal(data: Measured) -> np.ndarray:
    """Samples a second by utilisation and step alone."""
    return data.rows.accelerators * data.rows.batch / data.rows.step * data.outcome


def constants() -> list[dict[str, Any]]:
    """Rows of the table ``pipeline_constants``: fitted to all measurements; spread: change when a group is left out."""
    found: list[dict[str, Any]] = []
    sources = {MLPERF: "mlperf-storage-v1.0", DECODE: "ternaus-imread", OBJECT_STORE: "s3-benchmark"}
    for kind, fitting in FITS.items():
        data = Measured(kind)
        group = folds(data, kind)
        known = fitting(data, np.ones(len(group), dtype=bool))
        predicted, every = left_out(data, kind, group)
        names = _names(kind, known)
        same = {"groups": len(set(group.tolist())), "rows": len(group), "source": sources[kind], "how": "derived"}
        for name in names:
            moved = max(abs(other.get(name, known[name]) / known[name] - 1) for other in every)
            decoder = f"{name.partition('/')[2]}: rate over the mean of decoders" if kind == DECODE else ""
            note = NOTES.get(name) or decoder or "Network of the word, for one virtual processor"
            found.append(
                {
                    "name": name,
                    "value": f"{known[name]:.8g}",
                    "unit": UNITS.get(name, ""),
                    "fitted": "yes",
                    "spread": f"{moved:.3g}",
                    "note": note,
                    **same,
                }
            )
        errors = np.abs(np.log(in_samples(data, kind, predicted) / reported(data, kind)))
        good = np.isfinite(errors)
        for level in LEVELS:
            reach = float(np.exp(half_width(errors[good], group[good], level / 100)))
            found.append(
                {
                    "name": f"interval/{kind}/{level}",
                    "value": f"{reach:.6g}",
                    "fitted": "yes",
                    "note": f"The {level} % interval reaches from the point over this to the point times this: "
                    "errors of groups that were left out",
                    **same,
                }
            )
    return [*found, _host_work(), *_recalled()]


def _host_work() -> dict[str, Any]:
    """The row of what the host does beside the step."""
    pairs = real_pairs()
    models = pairs["model"].to_numpy()
    value = fit_real(pairs, np.ones(len(pairs), dtype=bool))
    others = [fit_real(pairs, models != name) for name in sorted(set(models.tolist()))]
    return {
        "name": "host_seconds",
        "value": f"{value:.8g}",
        "unit": "s",
        "fitted": "yes",
        "how": "derived",
        "spread": f"{max(abs(other / value - 1) for other in others):.3g}",
        "groups": len(others),
        "rows": len(pairs),
        "source": ";".join(sorted(set(pairs["source"]))),
        "note": "Work of the host for one image beside the step: real beside synthetic data",
    }


def _recalled() -> list[dict[str, Any]]:
    """Rows of the table that are not fitted: they stay as they are."""
    rows = tables.raw("pipeline_constants", catalog.data_directory()).records()
    return [row for row in rows if row["fitted"] == "no"]


def _names(kind: str, known: Mapping[str, float]) -> list[str]:
    parts = {MLPERF: ("described", "undescribed"), DECODE: ("shape",), OBJECT_STORE: ("network",)}[kind]
    names = [name for part in parts for name in SEARCHED[part]]
    if kind == MLPERF:
        names.append("counted_share")
    if kind == OBJECT_STORE:
        names.append("usual_download")
    if kind == DECODE:
        names += ["core_rate", "usual_speed", *(name for name in known if name.startswith("decoder/"))]
    return names


def folds(data: Measured, kind: str) -> np.ndarray:
    """Groups to leave out: submitters, processors, and families of instances."""
    if kind != OBJECT_STORE:
        return data.group
    return np.array([cell.rsplit(" ", 1)[-1].split(".")[0] for cell in data.frame["system"]])
