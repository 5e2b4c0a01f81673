"""Writes what was fitted and what was found into tables of `data/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.calibration.fit import Fit, Rows, fold_labels, full_runs, left_out, log_error, measured_rows, minimise
from cookbook.calibration.intervals import schema_rows, table_name, widths
from cookbook.calibration.memory import memory_constants, memory_rows
from cookbook.calibration.references import REFERENCES
from cookbook.calibration.validate import KINDS
from cookbook.catalog.writing import write_csv
from cookbook.prediction.terms import layouts

if TYPE_CHECKING:
    import pandas as pd

HOW = "derived"
VALIDATION_SOURCE = "dl-cookbook-validation"


def calibrate(kinds: Sequence[str] = KINDS) -> dict[str, list[dict[str, Any]]]:
    """Fit the constants and interval widths of kinds to all their measurements.

    Parameters
    ----------
    kinds : sequence of str
        Kinds of training.

    Returns
    -------
    dict
        Rows of the tables training_constants, training_evidence, training_neighbours and interval_quantiles.
    """
    tables: dict[str, list[dict[str, Any]]] = {}
    for kind in kinds:
        rows, frame = measured_rows(kind)
        whole = minimise(rows, rows.usable)
        sources = np.array([cell.split(";")[0] for cell in frame["source"]])
        tables.setdefault("training_constants", []).extend(_constants(kind, rows, whole, sources))
        if kind == "training_transformer":
            tables["training_constants"].extend(_memory_constants(kind, sources))
        tables.setdefault("training_evidence", []).extend(_evidence(kind, rows, sources))
        tables.setdefault("training_neighbours", []).extend(_neighbours(kind, rows, whole, frame["id"]))
        tables.setdefault("interval_quantiles", []).extend(_quantiles(kind, rows, whole, sources))
    return tables


def _constants(kind: str, rows: Rows, whole: Fit, sources: np.ndarray) -> list[dict[str, Any]]:
    found = []
    for (constant, level), spread in zip(whole.names, whole.spread.tolist(), strict=True):
        name, value = constant.name, whole.fitted.values[constant.name][level]
        used = rows.usable & (True if not constant.by else rows.keys[constant.by] == level)
        found.append({
            "key": "/".join(filter(None, (kind, name, level))), "kind": kind, "constant": name, "level": level,
            "by": constant.by or "all", "vendors": ";".join(sorted(whole.fitted.vendors.get(level, ()))),
            "value": f"{value:.6g}", "unit": constant.unit, "spread": f"{spread:.3g}",
            "publishers": len(set(rows.group[used])), "rows": int(used.sum()), "how": HOW,
            "source": ";".join(sorted(set(sources[used]))),
        })  # fmt: skip
    return found


def _memory_constants(kind: str, sources: np.ndarray) -> list[dict[str, Any]]:
    rows = memory_rows()
    used = rows.labelled | (np.isfinite(rows.stated) & (rows.scenarios.why == ""))
    named = np.concatenate([sources, np.full(len(used) - len(sources), "")])[used]
    units = {constant.name: constant.unit for constant in layouts.MEMORY_CONSTANTS}
    return [
        {
            "key": f"{kind}/{name}", "kind": kind, "constant": name, "by": "all", "value": f"{levels['']:.6g}",
            "unit": units[name], "publishers": len(set(rows.group[used])), "rows": int(used.sum()), "how": HOW,
            "source": ";".join(sorted(set(named.tolist()) - {""})),
        } for name, levels in memory_constants().values.items()
    ]  # fmt: skip


def _evidence(kind: str, rows: Rows, sources: np.ndarray) -> list[dict[str, Any]]:
    found = []
    device, engine = rows.keys["accelerator"], rows.keys["engine"]
    for name, level in sorted(set(zip(device[rows.usable].tolist(), engine[rows.usable].tolist(), strict=True))):
        used = rows.usable & (device == name) & (engine == level)
        found.append({
            "kind": kind, "accelerator": name, "engine": level, "publishers": len(set(rows.group[used])),
            "rows": int(used.sum()), "how": HOW, "source": ";".join(sorted(set(sources[used]))),
        })  # fmt: skip
    return found


def _neighbours(kind: str, rows: Rows, whole: Fit, names: Iterable[str]) -> list[dict[str, Any]]:
    """What was run and how far the formulas miss it, of every row that was fitted."""
    error, runs = log_error(rows, whole.fitted), full_runs(rows)
    labels = {name: cells.each(str, object).tolist() for name, cells in runs.labels.items()}
    amounts = {name: np.asarray(cells, dtype=float).tolist() for name, cells in runs.amounts.items()}
    return [
        {
            "kind": kind, "row": name, "publisher": rows.group[at], "ratio": f"{np.exp(error[at]):.6g}",
            "labels": json.dumps({label: cells[at] for label, cells in labels.items()}),
            "amounts": json.dumps({amount: cells[at] for amount, cells in amounts.items()}),
            "how": HOW, "source": VALIDATION_SOURCE,
        } for at, name in enumerate(names) if rows.usable[at] and np.isfinite(error[at])
    ]  # fmt: skip


def _quantiles(kind: str, rows: Rows, whole: Fit, sources: np.ndarray) -> list[dict[str, Any]]:
    folds = left_out(rows, fold_labels(rows, "source"), warm=whole, rounds=2)
    known = np.isfinite(folds.error) & rows.usable
    every = ";".join(sorted(set(sources[known])))
    scale = np.asarray(rows.keys["scale"])[known]
    found = []
    for width in widths(np.abs(folds.error[known]), rows.group[known], np.asarray(folds.tier)[known], scale):
        low, high = (f"{np.exp(half):.4g}" for half in width.half)
        found.append({
            "kind": kind, "tier": width.tier, "scale": width.scale, "factor_80": low, "factor_90": high,
            "publishers": width.publishers, "rows": width.rows, "remark": width.remark, "how": HOW, "source": every,
        })  # fmt: skip
    return found


def write_table(name: str, rows: Iterable[Mapping[str, Any]], directory: Path | None = None) -> Path:
    """Write a table in the column order of its schema.

    Parameters
    ----------
    name : str
        Table with a schema.
    rows : iterable of dict
        Cells by column; a column that a row lacks stays blank.
    directory : Path, optional
        Another data directory.
    """
    from cookbook.catalog.schema import schema

    folder = directory or catalog.data_directory()
    columns = [column.name for column in schema(name, folder).columns]
    path = folder / f"{name}.csv"
    return write_csv(path, columns, ({key: _cell(value) for key, value in row.items()} for row in rows))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.4g}"
    return str(value)


def write_calibration(kinds: Sequence[str] = KINDS) -> list[Path]:
    """Refit and write the tables of constants and intervals.

    Parameters
    ----------
    kinds : sequence of str
        Kinds of training; the tables then hold these alone.
    """
    return [write_table(name, rows) for name, rows in calibrate(kinds).items()]


def write_validation(report: pd.DataFrame, tables: Mapping[str, pd.DataFrame], baseline: bool = False) -> list[Path]:
    """Write the table ``validation`` and those of single rows; on request the baseline of later reports.

    Parameters
    ----------
    report, tables
        From `validate.validate`.
    baseline : bool
        Whether to set the baseline anew.
    """
    written = []
    for name, table in {"validation": report, **tables}.items():
        rows = table.assign(how=HOW, source=VALIDATION_SOURCE).to_dict("records")
        written.append(write_table(name, rows))
    if baseline:
        kept = report[report["model"] == "full"].assign(how=HOW, source=VALIDATION_SOURCE).to_dict("records")
        names = ("kind", "leave_out", "by", "stratum", "rows", "median_error", "noise", "how", "source")
        lines = ({name: row[name] for name in names} for row in (row | {"noise": noise(row)} for row in kept))
        written.append(write_table("validation_baseline", lines))
    return written


def write_row_schemas(kinds: Sequence[str] = KINDS, directory: Path | None = None) -> list[Path]:
    """Write the schemas of the tables of single rows: their columns follow the terms of each kind.

    Parameters
    ----------
    kinds : sequence of str
        Kinds of training.
    directory : Path, optional
        Another data directory.
    """
    from cookbook.catalog.schema import FIELDS, schema

    written = []
    for kind in kinds:
        terms = tuple(getattr(measured_rows(kind)[0].module, "TERMS", ()))
        path = (directory or catalog.data_directory()) / "schema" / f"{table_name(kind)}.csv"
        written.append(write_csv(path, FIELDS, schema_rows(kind, terms, tuple(REFERENCES))))
    schema.cache_clear()
    return written


def noise(row: Mapping[str, Any]) -> float:
    """How far a median error may rise before a test objects: itself over the root of its rows, at least 0.005."""
    return max(0.005, float(row["median_error"]) / float(row["rows"]) ** 0.5)


def worse_than(report: pd.DataFrame, baseline: pd.DataFrame) -> list[str]:
    """Strata whose median error rose above the baseline by more than noise, in words.

    Parameters
    ----------
    report, baseline : pandas.DataFrame
        Rows like those of the tables ``validation`` and ``validation_baseline``.
    """
    place = ["kind", "leave_out", "by", "stratum"]
    full = report[report["model"] == "full"]
    both = full.merge(baseline, on=place, suffixes=("", "_before"))
    worse = both[both["median_error"] > both["median_error_before"] + both["noise"]]
    return [
        f"{row.kind}, leaving out one {row.leave_out}, {row.by} {row.stratum}: median error {row.median_error:.3f}, "
        f"was {row.median_error_before:.3f} and may rise by {row.noise:.3f}"
        for row in worse.itertuples(index=False)
    ]
