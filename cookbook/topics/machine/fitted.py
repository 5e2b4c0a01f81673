"""Calibration to one machine: its constants from a report, predictions before and after, each model left out in turn.

A record of the device has the best measured rates in place of datasheet peaks. Networks then say what share of them
they reach: factors on peaks, on memory bandwidth and on times of the host, alike for all networks, and in part alike
for all kinds of prediction (each kind has a deviation that is pulled to none). Gauss-Newton steps on logarithms with
normal priors; residuals beyond `KNEE` spreads count linearly. Left out, a model says nothing of the factors that
predict it, which is how well a network is predicted that was never run there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog import UnknownName
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.reading import nearest
from cookbook.evidence import student_t
from cookbook.formulas.networks import winograd_saving
from cookbook.hardware import Accelerator, Calibrated, accelerator, accelerator_table
from cookbook.prediction.api import kind_of
from cookbook.prediction.constants import LEVELS, committed
from cookbook.prediction.engine import terms_of
from cookbook.prediction.kernels import kernel_constant
from cookbook.prediction.kinds import forward, generation, networks, transformer
from cookbook.prediction.kinds.devices import matmul_share, stored_bytes
from cookbook.prediction.kinds.network_arrays import TAPS, TILE
from cookbook.result import Result
from cookbook.topics.machine.comparison import ASKED, NUMPY, measured_device
from cookbook.topics.machine.environment import ONE_THREAD
from cookbook.topics.machine.rates import TIER, Figure, calm, figures, seconds_of
from cookbook.topics.machine.report import Report, of_document, read
from cookbook.units import human, percent, shown
from cookbook.workloads import zoo

# Factors with the spread of their logarithm before any network was measured, and of what a kind differs from others.
FACTORS = {
    "compute": (0.3, 0.15),
    "convolution": (0.25, 0.15),
    "elementwise": (0.7, 0.3),
    "memory": (0.4, 0.2),
    "host": (1.0, 0.3),
    "narrow": (0.3, 0.0),
}
# Kinds of prediction that know a factor; the others are known to all.
OF_KINDS = {
    "convolution": (networks.KIND, forward.KIND),
    "elementwise": (networks.KIND, forward.KIND),
    "narrow": (generation.KIND,),
}
# Spread of logarithmic errors: where the fit starts, and the least that it may find; errors have the tails of Student's
# distribution with so many degrees of freedom, so that a network with a slow operation of its own does not rule.
START, LEAST, FREEDOM = 0.15, 0.03, 2.0
# A spread of normal errors over their median size.
OF_MEDIAN = 1.4826
# Rows of a product up to which it is narrow.
NARROW = 64
# Change of a logarithm that tells a slope, the largest step, steps along slopes, and how often times are made anew.
STEP, LEAP, STEPS, ROUNDS = 0.05, 0.7, 6, 4
FEWEST_MODELS = 2
MOST_REPORTS = 20
COLUMNS = (
    "benchmark",
    "model",
    "batch",
    "seq",
    "number_format",
    "method",
    "kind",
    "measured_s",
    "before_s",
    "after_s",
    "left_out_s",
    "low80_s",
    "high80_s",
    "before_error",
    "after_error",
    "left_out_error",
    "inside80",
    "path",
)
WORDS = {
    "compute": "share of the best measured product that networks reach",
    "convolution": "rate of convolutions beside that of products, over that on other devices",
    "memory": "memory bandwidth over what networks reach of it on other devices",
    "elementwise": "time of small operations over what other devices take",
    "narrow": "rate of products of few rows beside large ones, over that on other devices",
    "host": "time of starting operations, over what other devices take",
}
MAKERS = ("AMD", "Intel", "Apple", "NVIDIA", "IBM", "Ampere")


@dataclass(frozen=True, repr=False)
class Calibration(Result):
    """What a machine was calibrated to.

    Attributes
    ----------
    accelerator : Accelerator
        The calibrated device, for every place where a device is chosen: ``cb.train_step("resnet50", c.accelerator)``.
    before : Accelerator
        What its datasheet says, or that of the nearest device of the catalogue, by share of the cores.
    constants : tuple of Figure
        Constants of the device with 80 % intervals.
    judged : tuple of mapping
        One entry a measured network, with the columns `COLUMNS`.
    left : tuple of str
        Networks that could not be predicted, and why.
    lacks : str
        GPU that the report names and the catalogue lacks: `before` is then the one that is spelt most alike.
    """

    accelerator: Accelerator
    before: Accelerator
    constants: Sequence[Figure] = field(repr=False)
    judged: Sequence[Mapping[str, Any]] = field(repr=False)
    left: Sequence[str] = field(default=(), repr=False)
    lacks: str = field(default="", repr=False)

    def frame(self) -> pd.DataFrame:
        """The constants as a table: constant, number_format, value, low80, high80, unit, rows, says, tier."""
        return pd.DataFrame(self.constants, columns=list(Figure._fields)).assign(tier=TIER)

    def predictions(self) -> pd.DataFrame:
        """Each measured network beside its predictions: by the datasheet, calibrated, and with its model left out.

        Times in seconds; errors are predicted over measured, less 1; `inside80` says whether the measured time lies in
        the 80 % interval around the prediction with its model left out; `path` is the library that ran the network.
        """
        return pd.DataFrame([dict(each) for each in self.judged], columns=list(COLUMNS))

    def errors(self) -> dict[str, float]:
        """Median errors before, after, and with each model left out; the share inside 80 % intervals; models, rows."""
        rows = self.predictions()
        found = {name: float(rows[f"{name}_error"].abs().median()) for name in ("before", "after", "left_out")}
        inside = float(rows["inside80"].astype(float).mean()) if len(rows) else math.nan
        return found | {"inside80": inside, "models": float(rows["model"].nunique()), "rows": float(len(rows))}

    def summary(self) -> str:
        """The calibration in one short line."""
        if not self.judged:
            return f"{self.accelerator.name}: single operations alone, no network was measured"
        found = self.errors()
        of = f" of {self.before.name} (the catalogue has no {self.lacks[:60]}: give like=)" if self.lacks else ""
        return (
            f"{self.accelerator.name}: median error {percent(found['left_out'])} with each of "
            f"{found['models']:.0f} models left out, {percent(found['before'])} by the datasheet{of}"
        )

    def lines(self) -> list[str]:
        """The constants that matter most as sentences for a screen, and the errors."""
        return [*(_line(each) for each in self.constants if each.says != "a row"), self.summary()]


def _line(each: Figure) -> str:
    value, low, high = (
        human(figure, each.unit) if each.unit in ("s", "B/s", "FLOP/s") else f"{figure:.3g} {each.unit}"
        for figure in (each.value, each.low80, each.high80)
    )
    return f"{each.constant} {each.number_format}".strip() + f": {value.strip()} ({low.strip()} to {high.strip()})"


SOURCE = Field.record(
    Report, str, Path, Mapping, what="report", give="what cb.measure.run gave, a file of it, or its JSON object"
)


@checked(
    report=replace(SOURCE, many=True, entries=MOST_REPORTS),
    like=Field.named("accelerators", Accelerator),
    name=Field.text(80),
)
def calibrate(
    report: Report | str | Path | Mapping[str, Any] | Sequence[Any],
    like: str | Accelerator | None = None,
    name: str = "this machine",
) -> Calibration:
    """Constants of a machine from what was measured on it, and a device that predictions take from then on.

    Parameters
    ----------
    report : Report, str, Path, mapping or list of these
        What `run` gave, a file of it, its JSON object; several of one machine count as one.
    like : str or Accelerator, optional
        The device of the catalogue to compare with; by default the one that the report names. Where the catalogue lacks
        it: of processors the newest of the same maker, else the newest; of GPUs the one that is spelt most alike, and
        the summary names it.
    name : str
        Name of the device in print.

    Returns
    -------
    Calibration
        ``accelerator`` is the device; ``frame()`` its constants, ``predictions()`` what they are worth.

    Raises
    ------
    ValueError
        No report, one that is truncated or of another tool, reports of different machines, or one that measured no
        matrix product or no memory bandwidth: what is wrong and what to do.
    cookbook.catalog.UnknownName
        The catalogue has no device `like`.

    Examples
    --------
    >>> calibrate({"traceEvents": []})
    Traceback (most recent call last):
    ValueError: report is a Chrome or PyTorch profiler trace, not a file of `python -m cookbook measure`
    """
    whole = joined(report)
    plain = measured_device(calm(whole), name)
    before, lacks = sheet(whole, like), _lacks(whole, like)
    rows, left = _predictable(whole, plain)
    known = figures(whole)
    measured = np.array([math.log(seconds_of(whole, row)) for row in rows])
    if len({row["model"] for row in rows}) < FEWEST_MODELS:
        left += [f"{row['benchmark']} {row['model']}: calibrating takes {FEWEST_MODELS} networks" for row in rows]
        return Calibration(plain, before, tuple(known), (), tuple(left), lacks)
    fit = _Fit(rows, plain, measured, expected(whole, plain))
    found, covariance = fit.learned(range(len(rows)))
    others = fit.left_out(found)
    missed = others - measured
    models = [row["model"] for row in rows]
    wide = _between(missed, models)
    spreads = tuple((level, math.exp(student_t(level / 100, len(set(models)) - 1) * wide)) for level in LEVELS)
    device = fit.device(found, spreads)
    judged = _judged(rows, whole, before, device, others, dict(spreads)[80])
    return Calibration(device, before, (*fit.figures(found, covariance), *known), judged, tuple(left), lacks)


def joined(report: Any) -> Report:
    """One report of one machine from any form of one or several."""
    several = report if isinstance(report, (list, tuple)) else [report]
    if not 1 <= len(several) <= MOST_REPORTS:
        raise ValueError(f"report = {len(several)} reports: give 1 to {MOST_REPORTS} of one machine")
    read_all = [_report(each) for each in several]
    first = read_all[0]
    for other in read_all[1:]:
        for what in ("processor", "cores", "device_name", "torch", "torch_threads"):
            mine, theirs = first.environment.get(what), other.environment.get(what)
            if mine != theirs and (what in ("processor", "cores") or None not in (mine, theirs)):
                raise ValueError(
                    f"report: one is of {what} = {shown(mine)}, another of {shown(theirs)}; calibrate "
                    "each machine by itself"
                )
    if len({row["path"] for each in read_all for row in each.rows if row["benchmark"] in ASKED}) > 1:
        raise ValueError("report: networks of one ran in NumPy, of another in PyTorch; calibrate each by itself")
    told: dict[str, Any] = {}
    for each in reversed(read_all):
        told |= each.environment
    if any("shared" in each.environment for each in read_all):
        told.setdefault("shared", "one of the reports")
    rows = [row for each in read_all for row in each.rows]
    return replace(first, environment=told, rows=rows) if len(read_all) > 1 else first


def _report(report: Any) -> Report:
    if isinstance(report, Report):
        return report
    if isinstance(report, Mapping):
        return of_document(report, "report")
    if isinstance(report, (str, Path)):
        return read(report)
    raise replace(SOURCE, name="report").refuse(report, "is no report")


def sheet(report: Report, like: str | Accelerator | None = None) -> Accelerator:
    """What a datasheet says of the machine of a report: the device that it names, else the nearest of the catalogue.

    Of a processor, the share of its cores that computed, of its peaks and of its memory bandwidth.
    """
    told = report.environment
    if like is not None:
        found = accelerator(like)
    elif told.get("device_name"):
        found = _named(str(told["device_name"]))
    else:
        found = _processor(str(told.get("processor", "")))
    row = _cores().get(found.like, math.nan)
    used = _used(told)
    share = min(used / row, 1.0) if found.kind == "cpu" else 1.0
    figures: dict[str, Any] = {"memory_bytes": _memory(told)} if math.isnan(found.memory_bytes) else {}
    if share < 1.0:
        figures |= {"mem_bandwidth": found.mem_bandwidth * share}
        figures |= {column: peak * share for column, peak in found.peaks.items() if math.isfinite(peak)}
        return accelerator(f"{found.name}, {used:g} of {row:g} cores"[:80], like=found, **figures)
    return accelerator(like=found, **figures) if figures else found


def _used(told: Mapping[str, Any]) -> float:
    """Cores that computed: as many as threads where those are fewer."""
    threads = told.get("torch_threads") or (1 if told.get("clock") == ONE_THREAD else math.inf)
    return min(float(told.get("cores", math.nan)), float(threads))


def _memory(told: Mapping[str, Any]) -> float:
    return float(told.get("device_memory_bytes") or told.get("memory_bytes") or 1e9)


def _gpu(name: str) -> Accelerator | None:
    """The accelerator that PyTorch calls by a name; none where the catalogue lacks it, or has a processor of it."""
    try:
        found = accelerator(name)
    except UnknownName:
        return None
    return found if found.kind != "cpu" else None


def _named(name: str) -> Accelerator:
    """The accelerator that PyTorch calls by a name, or the GPU that is spelt most alike."""
    if found := _gpu(name):
        return found
    rows = accelerator_table()
    rows = rows[rows["kind"] != "cpu"]
    keys = dict(zip(rows["name"], rows["key"], strict=True))
    return accelerator(keys[nearest(name, list(keys), 1)[0]])


def _lacks(report: Report, like: str | Accelerator | None) -> str:
    """The device that a report names where the catalogue has none of that name; "" elsewhere."""
    name = str(report.environment.get("device_name") or "")
    return name if like is None and name and _gpu(name) is None else ""


@lru_cache(maxsize=1)
def _cores() -> dict[str, float]:
    rows = catalog.table("accelerators")
    return dict(zip(rows["key"], rows["core_count"].astype(float), strict=True))


def _processor(name: str) -> Accelerator:
    """The processor of the catalogue whose model a name states, else the newest of its maker, else the newest."""
    rows = accelerator_table()
    rows = rows[(rows["kind"] == "cpu") & rows["mem_bandwidth"].notna() & rows["peak_fp32"].notna()]
    words = _words(name)
    for key, printed in zip(rows["key"], rows["name"], strict=True):
        model = [word for word in _words(str(printed)) if any(map(str.isdigit, word))]
        if model and max(model, key=len) in words:
            return accelerator(key)
    maker = next((each for each in MAKERS if each.lower() in name.lower()), "")
    same = rows[rows["vendor"] == maker] if maker in set(rows["vendor"]) else rows
    return accelerator(str(same.sort_values("launch_date", kind="stable")["key"].iloc[-1]))


def _words(name: str) -> list[str]:
    return [word.strip("+(),@").lower() for word in name.replace("-", " ").split()]


# ---- the fit --------------------------------------------------------------------------------------------------------
def _predictable(report: Report, device: Accelerator) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Rows of networks that have a prediction for the device, and why others have none."""
    rows: list[Mapping[str, Any]] = []
    left = []
    for row in report.rows:
        if row["benchmark"] not in ASKED:
            continue
        try:
            _kind(row)
            found = ASKED[row["benchmark"]](row, device)
        except (ValueError, UnknownName) as problem:
            left.append(f"{row['benchmark']} {row['model']}: {problem}"[:300])
            continue
        if math.isfinite(float(np.ravel(found.point)[0])):
            rows.append(row)
        else:
            left.append(f"{row['benchmark']} {row['model']}: {np.ravel(found.why)[0]}"[:300])
    return rows, left


def _kind(row: Mapping[str, Any]) -> str:
    """Kind of prediction that answers for a row."""
    network = zoo.model(row["model"])
    if row["benchmark"] == "training step":
        return kind_of(network)
    language = kind_of(network) != kind_of(zoo.model("resnet50"))
    return generation.KIND if language or row["benchmark"] in ("prefill", "decode") else forward.KIND


def expected(report: Report, device: Accelerator) -> dict[str, float]:
    """What single operations say of the factors before any network was measured.

    Formulas expect the peak of a datasheet and take a share of it; the record has the best measured product, all of
    which a network is expected to reach.
    """
    vector = device.kind == "cpu"
    found = {f"compute/{transformer.KIND}": matmul_share(device.key, "bf16", "", "") * 0.9}
    for kind in (networks.KIND, forward.KIND):
        found[f"compute/{kind}"] = _constant(kind, "vector_product" if vector else "product_efficiency")
    kernels = {name: kernel_constant("matmul", f"{name}_share").value for name in ("peak", "bandwidth")}
    engine = _constant(generation.KIND, "compute_share") * _constant(generation.KIND, "engine_share")
    found[f"compute/{generation.KIND}"] = kernels["peak"] * engine
    if any(row["benchmark"] == "forward pass" and row["path"] == "numpy" for row in report.rows):
        found[f"compute/{forward.KIND}"] *= forward.does()[NUMPY]["kernels"]
    found = {name: 1 / share for name, share in found.items()}
    usual = next((name for name in ("fp32", "bf16", "fp16") if _products(report, name)), "fp32")
    best = max((row["work"] / seconds_of(report, row) for row in _products(report, usual)), default=math.nan)
    gathered = [_read(row) / seconds_of(report, row) for row in _products(report, usual) if _sides(row)[0] == 1]
    narrow = [row["work"] / seconds_of(report, row) for row in _products(report, usual) if 1 < _sides(row)[0] <= NARROW]
    if gathered:
        reached = float(np.median(gathered)) / device.mem_bandwidth
        found[f"memory/{generation.KIND}"] = reached / kernels["bandwidth"] / _constant(generation.KIND, "device_share")
    if narrow:
        found["narrow"] = float(np.median(narrow)) / best / _constant(generation.KIND, "decode_share")
    if vector:
        found |= _of_convolutions(report, best)
    starts = [seconds_of(report, row) / row["work"] for row in report.rows if row["benchmark"] == "launch"]
    return found | ({"host": min(starts) / _constant(transformer.KIND, "kernel_start")} if starts else {})


def _products(report: Report, number_format: str) -> list[Mapping[str, Any]]:
    return [row for row in report.rows if row["benchmark"] == "matmul" and row.get("number_format") == number_format]


def _read(row: Mapping[str, Any]) -> float:
    """Bytes of the larger factor of a product."""
    return float(_sides(row)[1] * _sides(row)[2] * stored_bytes(str(row["number_format"])))


def _of_convolutions(report: Report, best: float) -> dict[str, float]:
    """What convolutions reached beside the best product, over what the formulas take for them; of PyTorch alone."""
    shares = []
    for row in report.rows:
        if row["benchmark"] == "convolution" and row["path"] == "torch":
            taps, plain = int(row["case"].partition("x")[0]), row["case"].endswith("stride 1")
            saving = float(winograd_saving(TILE, taps)) if plain and taps in TAPS else 1.0
            shares.append(row["work"] / seconds_of(report, row) / best / saving)
    if not shares:
        return {}
    return {
        f"convolution/{kind}": float(np.median(shares))
        * _constant(kind, "vector_product")
        / _constant(kind, "vector_convolution")
        for kind in (networks.KIND, forward.KIND)
    }


def _sides(row: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(side) for side in row["case"].split("x"))


def _constant(kind: str, name: str) -> float:
    """Value of a constant for a device and an engine of which no row was measured."""
    start = next(each.start for each in terms_of(kind).CONSTANTS if each.name == name)
    return committed(kind).values.get(name, {}).get("", start)


class _Fit:
    """Factors of one machine: what is fitted, what the rows say of it, and what is expected before."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        device: Accelerator,
        measured: np.ndarray,
        expected: Mapping[str, float],
    ) -> None:
        self.rows, self.plain, self.measured = rows, device, measured
        self.kinds = list(dict.fromkeys(map(_kind, rows)))
        self.models = np.array([row["model"] for row in rows])
        self.pairs = [(each, kind) for each in FACTORS for kind in self.kinds if kind in OF_KINDS.get(each, self.kinds)]
        alike = [each for each in FACTORS if any(each == pair[0] for pair in self.pairs)]
        self.names = [*alike, *("/".join(pair) for pair in self.pairs if FACTORS[pair[0]][1])]
        self.prior = np.array([FACTORS[name.partition("/")[0]]["/" in name] for name in self.names])
        self.expected = np.array([math.log(expected.get(name, 1.0)) for name in self.names])

    def device(self, logs: np.ndarray, spreads: tuple[tuple[int, float], ...] = ()) -> Accelerator:
        """The device with factors of these logarithms."""
        factors = tuple(zip(self.names, np.exp(logs).tolist(), strict=True))
        return replace(self.plain, calibrated=Calibrated(factors, spreads, tuple(self.kinds)))

    def predicted(self, logs: np.ndarray, rows: Sequence[int]) -> np.ndarray:
        """Logarithms of predicted times, of as many sets of factors as `logs` has rows: (sets, rows)."""
        devices = [self.device(each) for each in logs]
        return np.array([np.log(ASKED[self.rows[at]["benchmark"]](self.rows[at], devices).point) for at in rows]).T

    def slopes(self, logs: np.ndarray, rows: Sequence[int]) -> np.ndarray:
        """How the logarithms of predicted times change with those of the factors: (rows, factors)."""
        sets = self.predicted(np.stack([logs, *(logs + move for move in STEP * np.eye(len(logs)))]), rows)
        return (sets[1:] - sets[0]).T / STEP

    def fitted(
        self, logs: np.ndarray, missed: np.ndarray, rows: Sequence[int], spread: float, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Factors that suit some of the rows as far as times are straight, and the precision of their logarithms."""
        share, precision, begun = self.shares(rows), np.eye(len(logs)), logs
        for _ in range(STEPS):
            left = missed - slopes @ (logs - begun)
            weight = share * (FREEDOM + 1) / (FREEDOM + (left / spread) ** 2) / spread**2
            precision = slopes.T @ (weight[:, None] * slopes) + np.diag(self.prior**-2.0)
            move = np.linalg.solve(precision, slopes.T @ (weight * left) - (logs - self.expected) / self.prior**2)
            logs = logs + np.clip(move, -LEAP, LEAP)
        return logs, precision

    def shares(self, rows: Sequence[int]) -> np.ndarray:
        """Weight of each row: rows of one model count together as the root of their number."""
        models = self.models[list(rows)].tolist()
        return np.array([1 / math.sqrt(models.count(each)) for each in models])

    def learned(self, rows: Sequence[int], slopes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Factors of some of the rows, whose errors say how far each counts, and the covariance of their logarithms.

        Slopes that are given show the way alone: what is reached is judged by times that are predicted anew.
        """
        logs, spread, precision = self.expected, START, np.eye(len(self.names))
        for number in range(ROUNDS):
            missed = self.measured[list(rows)] - self.predicted(logs[None], rows)[0]
            if number:
                spread = max(OF_MEDIAN * float(np.median(np.abs(missed))), LEAST)
            near = self.slopes(logs, rows) if slopes is None else slopes[list(rows)]
            logs, precision = self.fitted(logs, missed, rows, spread, near)
        return logs, np.linalg.inv(precision)

    def left_out(self, near: np.ndarray) -> np.ndarray:
        """Logarithm of the predicted time of each row by factors of the other models alone; slopes are taken `near`."""
        slopes = self.slopes(near, range(len(self.rows)))
        found = np.full(len(self.rows), np.nan)
        for model in dict.fromkeys(self.models.tolist()):
            out = np.flatnonzero(self.models == model)
            logs, _ = self.learned(np.flatnonzero(self.models != model).tolist(), slopes)
            found[out] = self.predicted(logs[None], out.tolist())[0]
        return found

    def figures(self, logs: np.ndarray, covariance: np.ndarray) -> list[Figure]:
        """Each factor in each kind of prediction, with its interval."""
        found = []
        freedom = max(len(set(self.models.tolist())) - 1, 1)
        for each, kind in self.pairs:
            at = [self.names.index(name) for name in (each, f"{each}/{kind}") if name in self.names]
            # Of peaks, what is left once the share that formulas take of a datasheet's peak is taken back.
            value = float(np.exp(logs[at].sum() - (self.expected[at].sum() if each == "compute" else 0.0)))
            reach = math.exp(student_t(0.8, freedom) * math.sqrt(covariance[np.ix_(at, at)].sum()))
            count = sum(_kind(row) == kind for row in self.rows)
            found.append(
                Figure(
                    f"{each}, {kind.replace('_', ' ')}", "", value, value / reach, value * reach, "", count, WORDS[each]
                )
            )
        return found


def _between(missed: np.ndarray, models: Sequence[str]) -> float:
    """Spread of logarithmic errors, each model counting as one."""
    named = np.array(models)
    return math.sqrt(float(np.mean([np.mean(missed[named == model] ** 2) for model in dict.fromkeys(models)])))


def _judged(
    rows: Sequence[Mapping[str, Any]],
    report: Report,
    before: Accelerator,
    device: Accelerator,
    others: np.ndarray,
    reach: float,
) -> tuple[Mapping[str, Any], ...]:
    found = []
    for row, log in zip(rows, others.tolist(), strict=True):
        measured, left_out = seconds_of(report, row), math.exp(log)
        times = {"before": _seconds(row, before), "after": _seconds(row, device), "left_out": left_out}
        found.append(
            {
                **{name: row.get(name) for name in COLUMNS[:6]},
                "kind": _kind(row),
                "measured_s": measured,
                **{f"{name}_s": value for name, value in times.items()},
                "low80_s": left_out / reach,
                "high80_s": left_out * reach,
                **{f"{name}_error": value / measured - 1 for name, value in times.items()},
                "inside80": left_out / reach <= measured <= left_out * reach,
                "path": row["path"],
            }
        )
    return tuple(found)


def _seconds(row: Mapping[str, Any], device: Accelerator) -> float:
    try:
        return float(np.ravel(ASKED[row["benchmark"]](row, device).point)[0])
    except (ValueError, UnknownName):
        return math.nan
