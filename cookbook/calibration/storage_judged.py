"""The judged rows of storage and input one by one: what was measured, what was predicted, what a simpler rule says."""

from __future__ import annotations

from typing import Any

from cookbook.calibration import storage_judgement as judgement
from cookbook.prediction import storage

TABLE, SOURCE, HOW = "validation_storage_rows", "dl-cookbook-judge-storage", "derived"


def judged_rows() -> list[dict[str, Any]]:
    """Rows of the table ``validation_storage_rows``; the group of each was left out of the fit that predicts it."""
    rows = [*_utilisation(), *_drives(), *_decoding(), *_real()]
    return [row | _errors(row) | {"how": HOW, "source": SOURCE} for row in rows]


def _errors(row: dict[str, Any]) -> dict[str, float]:
    """Of shares absolute, of everything else relative."""
    unit = 1.0 if row["kind"] == "utilisation" else row["measured"]
    named = {"error": "predicted", "rule_error": "rule"}
    return {name: abs(row[key] - row["measured"]) / unit for name, key in named.items() if key in row}


def _utilisation() -> list[dict[str, Any]]:
    data, found, constant = judgement.utilised()
    described = storage.predict_rows(data.rows).described
    frame = data.frame
    return [
        {"kind": "utilisation", "id": frame["id"][at], "group": data.group[at], "workload": frame["workload"][at],
         "accelerator": frame["accelerator"][at], "count": int(data.rows.accelerators[at]),
         "remark": "drive described" if described[at] else "drive not described",
         "measured": float(data.outcome[at]), "predicted": float(found[at]), "rule": float(constant[at])}
        for at in range(len(frame))
    ]  # fmt: skip


def _drives() -> list[dict[str, Any]]:
    return [
        {"kind": "accelerators", "id": row["id"], "group": row["system"].replace("_", " "), "workload": row["workload"],
         "accelerator": row["accelerator"], "count": 1, "remark": "host-bound" if row["host_bound"] else "",
         "measured": row["submitted"], "predicted": row["predicted"]}
        for row in judgement.single_drives()
    ]  # fmt: skip


def _decoding() -> list[dict[str, Any]]:
    """The rule: each worker decodes as fast as the main process alone."""
    data, whole, _, first = judgement.decoded()
    frame, rows = data.frame, data.rows
    return [
        {"kind": "decoding", "id": frame["id"][at], "group": data.group[at], "workload": frame["workload"][at],
         "count": int(rows.workers[at]), "remark": str(rows.decoder[at]), "measured": float(data.outcome[at]),
         "predicted": float(whole[at]), "rule": float(first[at] * max(rows.workers[at], 1))}
        for at in range(len(frame)) if frame["workload"][at] == "jpeg_loader"
    ]  # fmt: skip


def _real() -> list[dict[str, Any]]:
    """The rule: nothing is lost against synthetic data."""
    pairs, serial, _ = judgement.real_beside_synthetic()
    return [
        {"kind": "real data", "group": row.model, "workload": row.model, "accelerator": row.accelerator,
         "count": int(row.devices), "remark": f"{row.precision}, batch {row.batch_per_device:.0f} each",
         "measured": float(row.r), "predicted": float(serial[at]), "rule": float(row.s)}
        for at, row in enumerate(pairs.itertuples(index=False))
    ]  # fmt: skip
