"""Comparison of a report with predictions: each measured network beside the cookbook's prediction for the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from cookbook.catalog import UnknownName
from cookbook.catalog.fields import Field, checked
from cookbook.hardware import Accelerator, Machine, accelerator, machine
from cookbook.prediction.api import forward_pass, generate, train_step
from cookbook.prediction.engine import Estimate
from cookbook.prediction.kinds.transformer import is_language_model
from cookbook.topics.machine.report import Report
from cookbook.topics.machine.steps import RANK
from cookbook.workloads import zoo

# Methods of a report, in the words of the table of software.
SOFTWARE = {"graph": "torch.compile"}
# Convolutions in NumPy are matrix products, as in the first frameworks.
NUMPY = "native"
COLUMNS = (
    "benchmark",
    "model",
    "batch",
    "seq",
    "number_format",
    "method",
    "measured_s",
    "predicted_s",
    "low80_s",
    "high80_s",
    "ratio",
    "inside80",
    "measured_bytes",
    "predicted_bytes",
    "memory_ratio",
    "tier",
    "why",
)


REPORT = Field.record(Report, what="report", give="what cb.measure.run or cb.measure.read gave")


@checked(report=REPORT, accelerator=Field.named("accelerators", Accelerator, Machine))
def beside(report: Report, accelerator: str | Accelerator | Machine) -> pd.DataFrame:
    """Return each measured network beside its prediction.

    Parameters
    ----------
    report : Report
        From `run` or `read`.
    accelerator : str, Accelerator or Machine
        The device in the catalogue ("h200-sxm"), or a record such as `measured_device` makes.

    Returns
    -------
    pandas.DataFrame
        One row per measured network: measured_s, predicted_s, low80_s, high80_s [s], ratio (predicted over measured),
        inside80, memory of both [B], the evidence level, and the reason where there is no prediction.
        Nothing here was fitted to the report.

    Raises
    ------
    ValueError
        If `report` is not a report.
    cookbook.catalog.UnknownName
        If the catalogue has no such device.
    """
    device = machine(accelerator)
    rows = [_compared_row(row, device) for row in report.rows if row["benchmark"] in PREDICTORS]
    return pd.DataFrame(rows, columns=list(COLUMNS))


@checked(compared=Field.record(pd.DataFrame, what="table", give="what cb.measure.beside gave"))
def summary(compared: pd.DataFrame) -> pd.DataFrame:
    """Return median error and share inside the 80 % interval by benchmark, from the result of `beside`.

    Returns
    -------
    pandas.DataFrame
        benchmark, rows, predicted (rows with a prediction), median_error (of \\|ratio - 1\\|), inside80 (share of the
        rows with an interval), median_memory_error.
    """
    lines = []
    for benchmark, rows in compared.groupby("benchmark", sort=False):
        ranged = rows[rows["low80_s"].notna()]
        lines.append(
            {
                "benchmark": benchmark,
                "rows": len(rows),
                "predicted": int(rows["ratio"].notna().sum()),
                "median_error": (rows["ratio"] - 1).abs().median(),
                "inside80": ranged["inside80"].astype(float).mean() if len(ranged) else np.nan,
                "median_memory_error": (rows["memory_ratio"] - 1).abs().median(),
            }
        )
    return pd.DataFrame(lines)


NAME = Field.text(80)


@checked(report=REPORT, name=NAME)
def measured_device(report: Report, name: str = "this machine") -> Accelerator:
    """Return a record of the device with the best rates that the report measured in place of datasheet peaks.

    Predictions expect peaks, of which networks reach a share, so with this record they tend to be too slow; a
    calibration would fit the shares.

    Parameters
    ----------
    report : Report
        The measurements, with matrix products and memory bandwidth.
    name : str
        Name in print.

    Raises
    ------
    ValueError
        If the report has no matrix product or no memory bandwidth.
    """
    rows = [row for row in report.rows if row["path"] in ("numpy", "torch")]
    peaks: dict[str, float] = {}
    for row in rows:
        if row["benchmark"] == "matmul" and row.get("number_format") not in (None, "fp64"):
            field = f"peak_{row['number_format']}"
            peaks[field] = max(peaks.get(field, 0.0), row["value"])
    bandwidth = max((row["value"] for row in rows if row["benchmark"] == "memory"), default=0.0)
    if not peaks or not bandwidth:
        raise ValueError("the report has no matrix product or no memory bandwidth; measure the suite micro")
    facts = report.environment
    memory = facts.get("device_memory_bytes") or facts.get("memory_bytes")
    if not memory:
        raise ValueError("the report does not tell the memory of the device; install psutil and measure again")
    kind = "gpu" if facts.get("device_memory_bytes") else "cpu"
    figures: dict[str, Any] = {"memory_bytes": float(memory), "mem_bandwidth": bandwidth, **peaks}
    return accelerator(name, kind=kind, **figures)


def _training(row: Mapping[str, Any], system: Any) -> Estimate:
    method = row.get("method", "")
    plan: dict[str, Any] = {"micro_batch": row["batch"]}
    if "recompute" in method:
        plan["recompute"] = "full"
    if "lora" in method:
        plan |= {"fine_tuning": "lora", "target_modules": "all linear", "rank": RANK}
    return train_step(
        row["model"], system, plan, seq=row.get("seq"), precision=row.get("number_format"), software=_software(row)
    )


def _software(row: Mapping[str, Any]) -> str:
    return NUMPY if row.get("path") == "numpy" and not _language(row) else "PyTorch"


def _forward(row: Mapping[str, Any], system: Any) -> Estimate:
    # PyTorch ran each operation of a network by itself, also where the maker's libraries would compile them.
    alone = _software(row) if _language(row) or row.get("path") == "numpy" else "eager"
    return forward_pass(
        row["model"], system, batch=row["batch"], precision=row.get("number_format"), seq=row.get("seq"), software=alone
    )


def _language(row: Mapping[str, Any]) -> bool:
    return is_language_model(zoo.model(row["model"]))


def _answer(row: Mapping[str, Any], system: Any) -> Estimate:
    """Return the prediction of a prompt, which gives the first token, or of a decoding step."""
    token = row["benchmark"] == "decode"
    prompt, answer = (row["seq"] - 1, 2) if token else (row["seq"], 1)
    return generate(
        row["model"],
        system,
        input_len=prompt,
        output_len=answer,
        batch=row["batch"],
        precision=row.get("number_format"),
        kv_format=row.get("number_format"),
        delay_of="token" if token else "first token",
        software=SOFTWARE.get(row.get("method", ""), "PyTorch") if token else "PyTorch",
    )


# The prediction function of a row, by its benchmark.
PREDICTORS: dict[str, Callable[[Mapping[str, Any], Any], Estimate]] = {
    "training step": _training,
    "forward pass": _forward,
    "prefill": _answer,
    "decode": _answer,
}


def _compared_row(row: Mapping[str, Any], system: Any) -> dict[str, Any]:
    fields = {name: row.get(name) for name in ("benchmark", "model", "batch", "seq", "number_format", "method")}
    fields |= {"measured_s": row["median_s"], "measured_bytes": row.get("memory_bytes"), "why": ""}
    try:
        estimate = PREDICTORS[row["benchmark"]](row, system)
    except (ValueError, UnknownName) as problem:
        return fields | {"why": str(problem)}
    point = float(np.ravel(estimate.point)[0])
    low, high = float(np.ravel(estimate.low80)[0]), float(np.ravel(estimate.high80)[0])
    memory = float(np.ravel(estimate.memory_bytes)[0])
    ratio = memory / row["memory_bytes"] if row.get("memory_bytes") else np.nan
    return fields | {
        "predicted_s": point,
        "low80_s": low,
        "high80_s": high,
        "ratio": point / row["median_s"],
        "inside80": low <= row["median_s"] <= high if np.isfinite(low) else None,
        "predicted_bytes": memory,
        "memory_ratio": ratio,
        "tier": str(np.ravel(estimate.tier)[0]),
        "why": str(np.ravel(estimate.why)[0]),
    }
