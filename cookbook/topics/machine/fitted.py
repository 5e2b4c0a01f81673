"""Calibration to one machine: its constants from a report, predictions before and after, each model held out in turn.

A record of the device has the best measured rates in place of datasheet peaks. Networks then determine which share of
them is reached: factors on peaks, on memory bandwidth and on host times, equal for all networks and partly shared by
all kinds of prediction (each kind has a deviation, shrunk towards zero). The fit takes Gauss-Newton steps on
logarithms with normal priors; residuals beyond `KNEE` spreads count linearly. A held-out model does not affect the
factors that predict it, so its error is that of a network never run on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from cookbook.prediction.kernels import kernel_constant, matmul_share
from cookbook.prediction.kinds import forward, generation, networks, transformer
from cookbook.prediction.kinds.network_arrays import TAPS, TILE
from cookbook.prediction.precision import stored_bytes
from cookbook.prediction.software import engines
from cookbook.result import Result
from cookbook.topics.machine.comparison import NUMPY, PREDICTORS, measured_device
from cookbook.topics.machine.environment import ONE_THREAD
from cookbook.topics.machine.rates import TIER, Figure, calm, figures, seconds_of
from cookbook.topics.machine.report import Report, of_document, read
from cookbook.units import human, percent, shown
from cookbook.workloads import zoo

# Factors with the prior spread of their logarithm, and the prior spread of a kind's deviation.
FACTORS = {
    "compute": (0.3, 0.15),
    "convolution": (0.25, 0.15),
    "elementwise": (0.7, 0.3),
    "memory": (0.4, 0.2),
    "host": (1.0, 0.3),
    "narrow": (0.3, 0.0),
}
# Kinds of prediction to which a factor applies; the other factors apply to all.
KINDS_OF_FACTOR = {
    "convolution": (networks.KIND, forward.KIND),
    "elementwise": (networks.KIND, forward.KIND),
    "narrow": (generation.KIND,),
}
# Spread of logarithmic errors: its start and its lower bound; errors have the tails of Student's t
# distribution with this number of degrees of freedom, so that a network with one slow operation does not dominate.
START_SPREAD, MIN_ERROR_SPREAD, FREEDOM = 0.15, 0.03, 2.0
# A spread of normal errors over their median size.
SPREAD_OF_MEDIAN = 1.4826
# Rows of a product up to which it is narrow.
NARROW_ROWS = 64
# Step of a logarithm for slopes, the largest step, steps along slopes, and the number of times they are recomputed.
STEP, MAX_STEP, STEPS, ROUNDS = 0.05, 0.7, 6, 4
FEWEST_MODELS = 2
MAX_REPORTS = 20
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
FACTOR_WORDS = {
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
    """The constants to which a machine was calibrated.

    Attributes
    ----------
    accelerator : Accelerator
        The calibrated device, for every place where a device is chosen: ``cb.train_step("resnet50", c.accelerator)``.
    before : Accelerator
        Its datasheet's values, or those of the nearest device of the catalogue, by share of the cores.
    constants : tuple of Figure
        Constants of the device with 80 % intervals.
    judged : tuple of mapping
        One entry a measured network, with the columns `COLUMNS`.
    left : tuple of str
        Networks that could not be predicted, with reasons.
    lacks : str
        Name in the report that is no device of the catalogue; `before` then stands in for it, as `calibrate` says.
    """

    accelerator: Accelerator
    before: Accelerator
    constants: Sequence[Figure] = field(repr=False)
    judged: Sequence[Mapping[str, Any]] = field(repr=False)
    left: Sequence[str] = field(default=(), repr=False)
    lacks: str = field(default="", repr=False)

    def frame(self) -> pd.DataFrame:
        """Return the constants as a table: constant, number_format, value, low80, high80, unit, rows, says, tier."""
        return pd.DataFrame(self.constants, columns=list(Figure._fields)).assign(tier=TIER)

    def predictions(self) -> pd.DataFrame:
        """Return each measured network beside its predictions: datasheet, calibrated, and with its model held out.

        Times in seconds; errors are predicted over measured, minus 1; `inside80` is True if the measured time is in
        the 80 % interval around the prediction with its model held out; `path` is the library that ran the network.
        """
        return pd.DataFrame([dict(row) for row in self.judged], columns=list(COLUMNS))

    def errors(self) -> dict[str, float]:
        """Return median errors before, after and with models held out; interval coverage; numbers of models
        and rows.
        """
        rows = self.predictions()
        medians = {name: float(rows[f"{name}_error"].abs().median()) for name in ("before", "after", "left_out")}
        coverage = float(rows["inside80"].astype(float).mean()) if len(rows) else math.nan
        return medians | {"inside80": coverage, "models": float(rows["model"].nunique()), "rows": float(len(rows))}

    def summary(self) -> str:
        """Return the calibration in one short line."""
        if not self.judged:
            return f"{self.accelerator.name}: single operations alone, no network was measured"
        errors = self.errors()
        source = f" of {self.before.name} (the catalogue has no {self.lacks[:60]}: give like=)" if self.lacks else ""
        return (
            f"{self.accelerator.name}: median error {percent(errors['left_out'])} with each of "
            f"{errors['models']:.0f} models left out, {percent(errors['before'])} by the datasheet{source}"
        )

    def lines(self) -> list[str]:
        """Return the constants that matter most as sentences for a screen, and the errors."""
        return [*(_line(constant) for constant in self.constants if constant.says != "a row"), self.summary()]


def _line(constant: Figure) -> str:
    value, low, high = (
        human(figure, constant.unit) if constant.unit in ("s", "B/s", "FLOP/s") else f"{figure:.3g} {constant.unit}"
        for figure in (constant.value, constant.low80, constant.high80)
    )
    return (
        f"{constant.constant} {constant.number_format}".strip() + f": {value.strip()} ({low.strip()} to {high.strip()})"
    )


SOURCE = Field.record(
    Report, str, Path, Mapping, what="report", give="what cb.measure.run gave, a file of it, or its JSON object"
)


@checked(
    report=replace(SOURCE, many=True, entries=MAX_REPORTS),
    like=Field.named("accelerators", Accelerator),
    name=Field.text(80),
)
def calibrate(
    report: Report | str | Path | Mapping[str, Any] | Sequence[Any],
    like: str | Accelerator | None = None,
    name: str = "this machine",
) -> Calibration:
    """Fit constants of a machine to measurements on it, and return them with a device that predictions can use.

    Parameters
    ----------
    report : Report, str, Path, mapping or list of these
        The result of `run`, a file of it, its JSON object; several of one machine count as one.
    like : str or Accelerator, optional
        The device of the catalogue to compare with; by default the one that the report names. Where the catalogue lacks
        it: for processors the newest of the same maker, else the newest; for GPUs the one with the most similar
        spelling, and the summary names it.
    name : str
        Printed name of the device.

    Returns
    -------
    Calibration
        ``accelerator`` is the device, ``frame()`` has its constants, ``predictions()`` their effect on predictions.

    Raises
    ------
    ValueError
        If a report is missing, truncated or of another tool, reports are of different machines, or one measured no
        matrix product or no memory bandwidth; the message has the fault and the remedy.
    cookbook.catalog.UnknownName
        If the catalogue has no device `like`.

    Examples
    --------
    >>> calibrate({"traceEvents": []})
    Traceback (most recent call last):
    ValueError: report is a Chrome or PyTorch profiler trace, not a file of `python -m cookbook measure`
    """
    whole = joined(report)
    plain = measured_device(calm(whole), name)
    before, lacks = sheet(whole, like)
    rows, left = _predictable(whole, plain)
    constants = figures(whole)
    measured = np.array([math.log(seconds_of(whole, row)) for row in rows])
    if len({row["model"] for row in rows}) < FEWEST_MODELS:
        left += [f"{row['benchmark']} {row['model']}: calibrating takes {FEWEST_MODELS} networks" for row in rows]
        return Calibration(plain, before, tuple(constants), (), tuple(left), lacks)
    fit = _Fit(rows, plain, measured, expected(whole, plain))
    factors, covariance = fit.learned()
    others = fit.left_out(factors)
    missed = others - measured
    models = [row["model"] for row in rows]
    wide = _model_spread(missed, models)
    spreads = tuple((level, math.exp(student_t(level / 100, len(set(models)) - 1) * wide)) for level in LEVELS)
    device = fit.device(factors, spreads)
    judged = _evaluated_rows(rows, whole, before, device, others, dict(spreads)[80])
    return Calibration(device, before, (*fit.figures(factors, covariance), *constants), judged, tuple(left), lacks)


def joined(report: Any) -> Report:
    """Return one report of one machine from any form of one or several."""
    sources = report if isinstance(report, (list, tuple)) else [report]
    if not 1 <= len(sources) <= MAX_REPORTS:
        raise ValueError(f"report = {len(sources)} reports: give 1 to {MAX_REPORTS} of one machine")
    read_all = [_report(entry) for entry in sources]
    first = read_all[0]
    for other in read_all[1:]:
        for key in ("processor", "cores", "device_name", "torch", "torch_threads"):
            first_value, other_value = first.environment.get(key), other.environment.get(key)
            if first_value != other_value and (key in ("processor", "cores") or None not in (first_value, other_value)):
                raise ValueError(
                    f"report: one is of {key} = {shown(first_value)}, another of {shown(other_value)}; calibrate "
                    "each machine by itself"
                )
    if len({row["path"] for result in read_all for row in result.rows if row["benchmark"] in PREDICTORS}) > 1:
        raise ValueError("report: networks of one ran in NumPy, of another in PyTorch; calibrate each by itself")
    environment: dict[str, Any] = {}
    for result in reversed(read_all):
        environment |= result.environment
    if any("shared" in result.environment for result in read_all):
        environment.setdefault("shared", "one of the reports")
    rows = [row for result in read_all for row in result.rows]
    return replace(first, environment=environment, rows=rows) if len(read_all) > 1 else first


def _report(report: Any) -> Report:
    if isinstance(report, Report):
        return report
    if isinstance(report, Mapping):
        return of_document(report, "report")
    if isinstance(report, (str, Path)):
        return read(report)
    raise replace(SOURCE, name="report").refuse(report, "is no report")


def sheet(report: Report, like: str | Accelerator | None = None) -> tuple[Accelerator, str]:
    """Return the datasheet device of a report's machine, and its name in the report where the catalogue lacks it.

    Then the device is the nearest of the catalogue. Of a processor, the share of its cores that computed, of its peaks
    and of its memory bandwidth.
    """
    environment = report.environment
    device, lacks = _catalogued(environment) if like is None else (accelerator(like), "")
    row = float(catalog.table("accelerators").set_index("key")["core_count"].get(device.like, math.nan))
    cores = _cores_used(environment)
    share = min(cores / row, 1.0) if device.kind == "cpu" else 1.0
    memory = float(environment.get("device_memory_bytes") or environment.get("memory_bytes") or 1e9)
    figures: dict[str, Any] = {"memory_bytes": memory} if math.isnan(device.memory_bytes) else {}
    if share < 1.0:
        figures |= {"mem_bandwidth": device.mem_bandwidth * share}
        figures |= {column: peak * share for column, peak in device.peaks.items() if math.isfinite(peak)}
        return accelerator(f"{device.name}, {cores:g} of {row:g} cores"[:80], like=device, **figures), lacks
    return accelerator(like=device, **figures) if figures else device, lacks


def _cores_used(environment: Mapping[str, Any]) -> float:
    """Return the cores that computed: the number of threads where it is smaller."""
    threads = environment.get("torch_threads") or (1 if environment.get("clock") == ONE_THREAD else math.inf)
    return min(float(environment.get("cores", math.nan)), float(threads))


def _gpu(name: str) -> Accelerator | None:
    """Return the accelerator with PyTorch's name for it; None where the catalogue lacks it, or it is a processor."""
    try:
        device = accelerator(name)
    except UnknownName:
        return None
    return device if device.kind != "cpu" else None


def _catalogued(environment: Mapping[str, Any]) -> tuple[Accelerator, str]:
    """Return the device that a report names, and ""; or the nearest one, and the name that the catalogue lacks.

    The nearest GPU has the most similar spelling; the nearest processor is the newest of its maker, else the newest.
    """
    table = accelerator_table()
    if name := str(environment.get("device_name") or ""):
        if device := _gpu(name):
            return device, ""
        gpus = table[table["kind"] != "cpu"]
        keys = dict(zip(gpus["name"], gpus["key"], strict=True))
        return accelerator(keys[nearest(name, list(keys), 1)[0]]), name
    name = str(environment.get("processor") or "")
    rows = table[(table["kind"] == "cpu") & table["mem_bandwidth"].notna() & table["peak_fp32"].notna()]
    if key := _listed_processor(name, rows):
        return accelerator(key), ""
    maker = next((vendor for vendor in MAKERS if vendor.lower() in name.lower()), "")
    candidates = rows[rows["vendor"] == maker] if maker in set(rows["vendor"]) else rows
    newest = candidates.sort_values("launch_date", kind="stable")["key"].iloc[-1]
    return accelerator(str(newest)), name or "an unnamed processor"


def _listed_processor(name: str, rows: pd.DataFrame) -> str:
    """Return the key of the catalogue's processor whose model a name states; "" where none is stated."""
    words = _words(name)
    for key, printed in zip(rows["key"], rows["name"], strict=True):
        model = [word for word in _words(str(printed)) if any(map(str.isdigit, word))]
        if model and max(model, key=len) in words:
            return str(key)
    return ""


def _words(name: str) -> list[str]:
    return [word.strip("+(),@").lower() for word in name.replace("-", " ").split()]


# ---- the fit --------------------------------------------------------------------------------------------------------
def _predictable(report: Report, device: Accelerator) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return rows of networks that have a prediction for the device, and the reasons why others have none."""
    rows: list[Mapping[str, Any]] = []
    left = []
    for row in report.rows:
        if row["benchmark"] not in PREDICTORS:
            continue
        try:
            _kind(row)
            estimate = PREDICTORS[row["benchmark"]](row, device)
        except (ValueError, UnknownName) as problem:
            left.append(f"{row['benchmark']} {row['model']}: {problem}"[:300])
            continue
        if math.isfinite(float(np.ravel(estimate.point)[0])):
            rows.append(row)
        else:
            left.append(f"{row['benchmark']} {row['model']}: {np.ravel(estimate.why)[0]}"[:300])
    return rows, left


def _kind(row: Mapping[str, Any]) -> str:
    """Return the kind of prediction for a row."""
    network = zoo.model(row["model"])
    if row["benchmark"] == "training step":
        return kind_of(network)
    language = kind_of(network) != kind_of(zoo.model("resnet50"))
    return generation.KIND if language or row["benchmark"] in ("prefill", "decode") else forward.KIND


def expected(report: Report, device: Accelerator) -> dict[str, float]:
    """Return the factors that single operations imply before any network was measured.

    Formulas expect the peak of a datasheet and take a share of it; the record has the best measured product, all of
    which a network is expected to reach.
    """
    vector = device.kind == "cpu"
    factors = {f"compute/{transformer.KIND}": matmul_share(device.key, "bf16", "", "") * 0.9}
    for kind in (networks.KIND, forward.KIND):
        factors[f"compute/{kind}"] = _constant(kind, "vector_product" if vector else "product_efficiency")
    kernels = {name: kernel_constant("matmul", f"{name}_share").value for name in ("peak", "bandwidth")}
    engine = _constant(generation.KIND, "compute_share") * _constant(generation.KIND, "engine_share")
    factors[f"compute/{generation.KIND}"] = kernels["peak"] * engine
    if any(row["benchmark"] == "forward pass" and row["path"] == "numpy" for row in report.rows):
        factors[f"compute/{forward.KIND}"] *= engines(forward.KIND)[NUMPY]["kernels"]
    factors = {name: 1 / share for name, share in factors.items()}
    usual = next((name for name in ("fp32", "bf16", "fp16") if _products(report, name)), "fp32")
    best = max((row["work"] / seconds_of(report, row) for row in _products(report, usual)), default=math.nan)
    gathered = [  # bytes of the larger factor over the time
        math.prod(_sides(row)[1:]) * stored_bytes(usual) / seconds_of(report, row)
        for row in _products(report, usual)
        if _sides(row)[0] == 1
    ]
    narrow = [
        row["work"] / seconds_of(report, row) for row in _products(report, usual) if 1 < _sides(row)[0] <= NARROW_ROWS
    ]
    if gathered:
        reached = float(np.median(gathered)) / device.mem_bandwidth
        factors[f"memory/{generation.KIND}"] = (
            reached / kernels["bandwidth"] / _constant(generation.KIND, "device_share")
        )
    if narrow:
        factors["narrow"] = float(np.median(narrow)) / best / _constant(generation.KIND, "decode_share")
    if vector:
        factors |= _of_convolutions(report, best)
    starts = [seconds_of(report, row) / row["work"] for row in report.rows if row["benchmark"] == "launch"]
    return factors | ({"host": min(starts) / _constant(transformer.KIND, "kernel_start")} if starts else {})


def _products(report: Report, number_format: str) -> list[Mapping[str, Any]]:
    return [row for row in report.rows if row["benchmark"] == "matmul" and row.get("number_format") == number_format]


def _of_convolutions(report: Report, best: float) -> dict[str, float]:
    """Return the rate of convolutions relative to the best product, over the formulas' assumption; of PyTorch alone."""
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
    """Return the value of a constant for a device and an engine without measured rows."""
    start = next(constant.start for constant in terms_of(kind).CONSTANTS if constant.name == name)
    return committed(kind).values.get(name, {}).get("", start)


class _Fit:
    """The fit of one machine's factors: unknowns, measured rows, and prior expectations."""

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
        self.pairs = [
            (factor, kind)
            for factor in FACTORS
            for kind in self.kinds
            if kind in KINDS_OF_FACTOR.get(factor, self.kinds)
        ]
        shared = [factor for factor in FACTORS if any(factor == pair[0] for pair in self.pairs)]
        self.names = [*shared, *("/".join(pair) for pair in self.pairs if FACTORS[pair[0]][1])]
        self.prior = np.array([FACTORS[name.partition("/")[0]]["/" in name] for name in self.names])
        self.expected = np.array([math.log(expected.get(name, 1.0)) for name in self.names])

    def device(self, logs: np.ndarray, spreads: tuple[tuple[int, float], ...] = ()) -> Accelerator:
        """Return the device with factors of these logarithms."""
        factors = tuple(zip(self.names, np.exp(logs).tolist(), strict=True))
        return replace(self.plain, calibrated=Calibrated(factors, spreads, tuple(self.kinds)))

    def predicted(self, logs: np.ndarray) -> np.ndarray:
        """Return logarithms of predicted times of all rows, one set for each row of `logs`: (sets, rows)."""
        devices = [self.device(row_logs) for row_logs in logs]
        return np.array([np.log(PREDICTORS[row["benchmark"]](row, devices).point) for row in self.rows]).T

    def slopes(self, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return logarithms of predicted times, and their derivatives by those of the factors: (rows, factors)."""
        sets = self.predicted(np.stack([logs, *(logs + move for move in STEP * np.eye(len(logs)))]))
        return sets[0], (sets[1:] - sets[0]).T / STEP

    def fitted(
        self, logs: np.ndarray, missed: np.ndarray, rows: np.ndarray, slopes: np.ndarray, first: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return factors fitted to some rows by linearised times, and the precision of their logarithms.

        The spread of errors is that of the round before; the `first` round has none before it, and takes
        `START_SPREAD`.
        """
        share, precision, begun = self.shares(rows), np.eye(len(logs)), logs
        spread = START_SPREAD if first else max(SPREAD_OF_MEDIAN * float(np.median(np.abs(missed))), MIN_ERROR_SPREAD)
        for _ in range(STEPS):
            left = missed - slopes @ (logs - begun)
            weight = share * (FREEDOM + 1) / (FREEDOM + (left / spread) ** 2) / spread**2
            precision = slopes.T @ (weight[:, None] * slopes) + np.diag(self.prior**-2.0)
            move = np.linalg.solve(precision, slopes.T @ (weight * left) - (logs - self.expected) / self.prior**2)
            logs = logs + np.clip(move, -MAX_STEP, MAX_STEP)
        return logs, precision

    def shares(self, rows: np.ndarray) -> np.ndarray:
        """Return the weight of each row: rows of one model together count as the root of their number."""
        models = self.models[rows].tolist()
        return np.array([1 / math.sqrt(models.count(model)) for model in models])

    def learned(self) -> tuple[np.ndarray, np.ndarray]:
        """Return factors of all rows, weighted by their errors, and the covariance of their logarithms."""
        logs, precision, rows = self.expected, np.eye(len(self.names)), np.arange(len(self.rows))
        for number in range(ROUNDS):
            times, slopes = self.slopes(logs)
            logs, precision = self.fitted(logs, self.measured - times, rows, slopes, not number)
        return logs, np.linalg.inv(precision)

    def left_out(self, near: np.ndarray) -> np.ndarray:
        """Return the logarithm of each row's predicted time by factors of the other models alone.

        Slopes are taken `near` and only guide the steps: results are evaluated by times that are predicted anew, in
        each round for all models at once.
        """
        _, slopes = self.slopes(near)
        models = list(dict.fromkeys(self.models.tolist()))
        logs = np.tile(self.expected, (len(models), 1))
        for number in range(ROUNDS):
            missed = self.measured - self.predicted(logs)
            for at, model in enumerate(models):
                others = np.flatnonzero(self.models != model)
                logs[at], _ = self.fitted(logs[at], missed[at, others], others, slopes[others], not number)
        own = [models.index(model) for model in self.models.tolist()]
        return np.array(self.predicted(logs)[own, np.arange(len(self.rows))])

    def figures(self, logs: np.ndarray, covariance: np.ndarray) -> list[Figure]:
        """Return each factor in each kind of prediction, with its interval."""
        constants = []
        freedom = max(len(set(self.models.tolist())) - 1, 1)
        for factor, kind in self.pairs:
            at = [self.names.index(name) for name in (factor, f"{factor}/{kind}") if name in self.names]
            # For peaks: without the share of a datasheet's peak that the formulas assume.
            value = float(np.exp(logs[at].sum() - (self.expected[at].sum() if factor == "compute" else 0.0)))
            reach = math.exp(student_t(0.8, freedom) * math.sqrt(covariance[np.ix_(at, at)].sum()))
            count = sum(_kind(row) == kind for row in self.rows)
            constants.append(
                Figure(
                    f"{factor}, {kind.replace('_', ' ')}",
                    "",
                    value,
                    value / reach,
                    value * reach,
                    "",
                    count,
                    FACTOR_WORDS[factor],
                )
            )
        return constants


def _model_spread(missed: np.ndarray, models: Sequence[str]) -> float:
    """Return the spread of logarithmic errors, each model counting as one."""
    model_names = np.array(models)
    return math.sqrt(float(np.mean([np.mean(missed[model_names == model] ** 2) for model in dict.fromkeys(models)])))


def _evaluated_rows(
    rows: Sequence[Mapping[str, Any]],
    report: Report,
    before: Accelerator,
    device: Accelerator,
    others: np.ndarray,
    reach: float,
) -> tuple[Mapping[str, Any], ...]:
    rows_judged = []
    for row, log in zip(rows, others.tolist(), strict=True):
        measured, left_out = seconds_of(report, row), math.exp(log)
        times = {"before": _seconds(row, before), "after": _seconds(row, device), "left_out": left_out}
        rows_judged.append(
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
    return tuple(rows_judged)


def _seconds(row: Mapping[str, Any], device: Accelerator) -> float:
    try:
        return float(np.ravel(PREDICTORS[row["benchmark"]](row, device).point)[0])
    except (ValueError, UnknownName):
        return math.nan
