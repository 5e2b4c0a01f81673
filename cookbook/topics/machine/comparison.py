"""Predictions beside a file of results: each measured network, and what the cookbook says of the device."""

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

# How networks ran, in the words of the table of software.
SOFTWARE = {"graph": "torch.compile"}
# NumPy makes convolutions into matrix products, as the first frameworks did.
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
    """Each measured network beside what is predicted for it.

    Parameters
    ----------
    report : Report
        From `run` or `read`.
    accelerator : str, Accelerator or Machine
        The device in the catalogue ("h200-sxm"), or a record such as `measured_device` makes.

    Returns
    -------
    pandas.DataFrame
        One row a measured network: measured_s, predicted_s, low80_s, high80_s [s], ratio (predicted over measured),
        inside80, memory of both [B], the tier of evidence, and why there is no prediction where there is none.
        Nothing here was fitted to the report.

    Raises
    ------
    ValueError
        `report` is none.
    cookbook.catalog.UnknownName
        The catalogue has no such device.
    """
    found = machine(accelerator)
    rows = [_beside(row, found) for row in report.rows if row["benchmark"] in ASKED]
    return pd.DataFrame(rows, columns=list(COLUMNS))


@checked(compared=Field.record(pd.DataFrame, what="table", give="what cb.measure.beside gave"))
def summary(compared: pd.DataFrame) -> pd.DataFrame:
    """Median error and share inside the 80 % interval by benchmark, from what `beside` gives.

    Returns
    -------
    pandas.DataFrame
        benchmark, rows, predicted (rows with a prediction), median_error (of \\|ratio - 1\\|), inside80 (share of the
        rows with an interval), median_memory_error.
    """
    lines = []
    for benchmark, each in compared.groupby("benchmark", sort=False):
        ranged = each[each["low80_s"].notna()]
        lines.append(
            {
                "benchmark": benchmark,
                "rows": len(each),
                "predicted": int(each["ratio"].notna().sum()),
                "median_error": (each["ratio"] - 1).abs().median(),
                "inside80": ranged["inside80"].astype(float).mean() if len(ranged) else np.nan,
                "median_memory_error": (each["memory_ratio"] - 1).abs().median(),
            }
        )
    return pd.DataFrame(lines)


NAME = Field.text(80)


@checked(report=REPORT, name=NAME)
def measured_device(report: Report, name: str = "this machine") -> Accelerator:
    """A record of the device with the best rates that the report measured in place of datasheet peaks.

    Predictions expect peaks, of which networks reach a share, so of this record they are rather slow than fast; a
    calibration would fit the shares.

    Parameters
    ----------
    report : Report
        With matrix products and memory bandwidth.
    name : str
        Name in print.

    Raises
    ------
    ValueError
        It measured no matrix product or no memory bandwidth.
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
    told = report.environment
    memory = told.get("device_memory_bytes") or told.get("memory_bytes")
    if not memory:
        raise ValueError("the report does not tell the memory of the device; install psutil and measure again")
    kind = "gpu" if told.get("device_memory_bytes") else "cpu"
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
    # Of networks PyTorch ran each operation by itself, also where the libraries of a maker would compile them.
    alone = _software(row) if _language(row) or row.get("path") == "numpy" else "eager"
    return forward_pass(
        row["model"], system, batch=row["batch"], precision=row.get("number_format"), seq=row.get("seq"), software=alone
    )


def _language(row: Mapping[str, Any]) -> bool:
    return is_language_model(zoo.model(row["model"]))


def _prompt(row: Mapping[str, Any], system: Any) -> Estimate:
    return generate(
        row["model"],
        system,
        input_len=row["seq"],
        output_len=1,
        batch=row["batch"],
        precision=row.get("number_format"),
        kv_format=row.get("number_format"),
        software="PyTorch",
        delay_of="first token",
    )


def _token(row: Mapping[str, Any], system: Any) -> Estimate:
    return generate(
        row["model"],
        system,
        input_len=row["seq"] - 1,
        output_len=2,
        batch=row["batch"],
        precision=row.get("number_format"),
        kv_format=row.get("number_format"),
        delay_of="token",
        software=SOFTWARE.get(row.get("method", ""), "PyTorch"),
    )


# The question of a row, by its benchmark.
ASKED: dict[str, Callable[[Mapping[str, Any], Any], Estimate]] = {
    "training step": _training,
    "forward pass": _forward,
    "prefill": _prompt,
    "decode": _token,
}


def _beside(row: Mapping[str, Any], system: Any) -> dict[str, Any]:
    told = {name: row.get(name) for name in ("benchmark", "model", "batch", "seq", "number_format", "method")}
    told |= {"measured_s": row["median_s"], "measured_bytes": row.get("memory_bytes"), "why": ""}
    try:
        found = ASKED[row["benchmark"]](row, system)
    except (ValueError, UnknownName) as problem:
        return told | {"why": str(problem)}
    point = float(np.ravel(found.point)[0])
    low, high = float(np.ravel(found.low80)[0]), float(np.ravel(found.high80)[0])
    memory = float(np.ravel(found.memory_bytes)[0])
    ratio = memory / row["memory_bytes"] if row.get("memory_bytes") else np.nan
    return told | {
        "predicted_s": point,
        "low80_s": low,
        "high80_s": high,
        "ratio": point / row["median_s"],
        "inside80": low <= row["median_s"] <= high if np.isfinite(low) else None,
        "predicted_bytes": memory,
        "memory_ratio": ratio,
        "tier": str(np.ravel(found.tier)[0]),
        "why": str(np.ravel(found.why)[0]),
    }
