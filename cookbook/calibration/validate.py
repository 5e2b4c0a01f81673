"""Evaluation of predictions by measurements that their constants have not seen, written into `data/`.

Each is evaluated beside its baselines: `judge`, `judge_reference`, `validate`; `calibrate` refits the constants;
`write_table`, `write_calibration` and `write_validation` store them.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.calibration.fit import (
    LEAVE_OUT,
    Fit,
    LeftOut,
    Rows,
    corrects,
    each_row_out,
    fold_labels,
    full_runs,
    left_out,
    left_out_twice,
    log_error,
    measured_rows,
    memory_constants,
    memory_rows,
    minimise,
    without,
)
from cookbook.calibration.intervals import REFERENCES, report, row_table, schema_rows, several_assumed, widths
from cookbook.catalog.files import write_csv
from cookbook.evidence import FIGURES, FULL, NO_NEIGHBOURS, ROW, figures, paired, table_name
from cookbook.prediction.engine import FITTED_AS, TERMS
from cookbook.prediction.kinds import configurations

KINDS = tuple(kind for kind in TERMS if kind not in FITTED_AS)
NO_ENGINES = "without software levels"
PAIRED_COLUMNS = ("worse_by", "worse_by_low", "worse_by_high")
# Columns for a single publisher where a term is switched off; it cannot be resampled, so that it has no interval.
PUBLISHER_COLUMNS = ("rows", "publishers", "median_error", "mean_error", "bias", "worse_by")
COLUMNS = ("key", "kind", "leave_out", "model", "by", "stratum", *FIGURES, *PAIRED_COLUMNS)
PACKAGES = ("formulas", "prediction", "evidence", "calibration", "workloads", "hardware", "catalog")
FILES = ("units.py",)
# These modules read results or take no part in predictions of training.
READER_MODULES = (
    "evaluation.py",
    "measurements.py",
    "measurement_rows.py",
    "commands.py",
    "scaling.py",
    "topology.py",
    "utilisation.py",
    "input_pipeline.py",
    "storage_rates.py",
    "storage.py",
    "drives.py",
    "judgement.py",
    "match.py",
    "prices.py",
    "input_pipeline_arguments.py",
    "serving.py",
)
# Tables that hold results, or that no prediction of training reads.
IGNORED_TABLES = frozenset(
    {
        "training_constants",
        "training_evidence",
        "interval_quantiles",
        "validation",
        "validation_baseline",
        "validation_classic_rows",
        "validation_transformer_rows",
        "validation_storage_rows",
        "validation_inference_rows",
        "validation_generation_rows",
        "storage",
        "storage_measured",
        "storage_workloads",
        "tco",
        "cloud_prices",
        "cloud_price_history",
        "hardware_prices",
        "model_facts",
        "accelerator_provenance",
        "sources",
        "worked_examples",
        "known_answers",
        "system_topologies",
        "system_nodes",
        "system_links",
        "data_sets",
        "processors",
        "cloud_networks",
        "pipeline_constants",
        "training_neighbours",
        "long_runs",
        "api_prices",
        "traces",
        "remedies",
        "engine_flags",
        "cluster_weeks",
    }
)


def state_key() -> str:
    """Return a digest of the code that predicts and evaluates, and of the data that it reads; comments do not count."""
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parents[1]
    modules = [path for room in PACKAGES for path in sorted((package / room).rglob("*.py"))]
    modules = [path for path in modules if path.name not in READER_MODULES]
    for path in [*modules, *(package / name for name in FILES)]:
        digest.update(_bare(path.read_text(encoding="utf-8")).encode())
    folder = catalog.data_directory()
    for name in catalog.table_names():
        if name not in IGNORED_TABLES:
            digest.update((folder / f"{name}.csv").read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:16]


def _bare(source: str) -> str:
    """Return the code without docstrings, comments and blank lines: changes of words alone keep its digest."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and _is_text(body[0].value):
            for at in range(body[0].lineno - 1, body[0].end_lineno or 0):
                lines[at] = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


# Jacobians of the fit of a fold: the one of the whole fit, and one more; without a second where a term is switched off.
FOLD_ROUNDS, QUICK_ROUNDS = 2, 1


@lru_cache(maxsize=4)
def whole_fit(kind: str) -> Fit:
    """Return the constants fitted to all rows of a kind: the start of the fits of the folds."""
    rows = measured_rows(kind)[0]
    return minimise(rows, rows.usable)


def judge(
    kind: str,
    leave_out: str = "source",
    neighbours: bool = True,
    engine_levels: bool = True,
    terms: Mapping[str, bool] | None = None,
    only: Sequence[str] | None = None,
) -> tuple[Rows, pd.DataFrame, LeftOut]:
    """Predict every measured row by constants that were fitted without its fold.

    `kind`: "training_classic" or "training_transformer"; `leave_out`: "source", "accelerator" or "family"; see
    `fit.fold_labels`; `neighbours`, `engine_levels`: whether similar measurements correct predictions; whether software
    levels may differ; `terms`: terms to switch off; `only`: some of the folds.
    """
    rows, frame = measured_rows(kind)
    changed = without(rows, terms, engine_levels)
    plain = engine_levels and not terms
    warm = whole_fit(kind) if plain else minimise(changed, changed.usable, whole_fit(kind), FOLD_ROUNDS)
    rounds = FOLD_ROUNDS if plain else QUICK_ROUNDS
    return changed, frame, left_out(changed, fold_labels(changed, leave_out), neighbours, warm, only, rounds)


def judge_reference(kind: str, name: str, leave_out: str = "source") -> LeftOut:
    """Evaluate one of the `REFERENCES` in the same way.

    `kind`, `leave_out`: as for `judge`; `name`: name of the baseline.
    """
    rows, _ = measured_rows(kind)
    labels = fold_labels(rows, leave_out)
    error = np.full(len(labels), np.nan)
    for fold in sorted(set(labels[rows.usable].tolist())):
        out = labels == fold
        error[out] = REFERENCES[name](rows, rows.usable & ~out, out)[out]
    nothing = np.zeros(len(labels), dtype=int)
    return LeftOut(np.where(rows.usable, error, np.nan), np.full(len(labels), ""), nothing, labels)


def validate(
    kinds: Sequence[str] = KINDS, leave_out: Sequence[str] = LEAVE_OUT
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return the whole report, and the predictions of single rows behind it.

    Parameters
    ----------
    kinds : sequence of str
        Kinds of training.
    leave_out : sequence of str
        The groups to hold out.

    Returns
    -------
    pandas.DataFrame
        Every stratum of the full model, and in one line each the ablations and the baselines: columns `COLUMNS`;
        errors are shares.
    dict of str to pandas.DataFrame
        By name of the table, what `intervals.row_table` gives; only where publishers are held out.
    """
    with ProcessPoolExecutor(max_workers=min(len(kinds), os.cpu_count() or 1)) as pool:
        judged = list(pool.map(partial(_validated, ways=tuple(leave_out)), kinds))
    whole = pd.concat([report for reports, _ in judged for report in reports], ignore_index=True)
    whole = whole.assign(key=state_key()).reindex(columns=list(COLUMNS))
    rounded = {name: [_rounded(value) for value in whole[name]] for name in (*FIGURES, *PAIRED_COLUMNS)}
    return whole.assign(**rounded), {name: table for _, tables in judged for name, table in tables.items()}


def _validated(kind: str, ways: Sequence[str]) -> tuple[list[pd.DataFrame], dict[str, pd.DataFrame]]:
    """Return the strata of every model of one kind, and by name the table of its rows."""
    reports, tables = [], dict[str, "pd.DataFrame"]()
    all_rows = measured_rows(kind)[0]
    alone = {ROW: each_row_out(all_rows, whole_fit(kind))} if corrects(all_rows) else {}
    for way in ways:
        rows, frame, folds = judge(kind, way)
        others, nested = _others(kind, way, folds), way == "source"
        inner = left_out_twice(rows, folds.fold) if nested else None
        # Where a term is off, folds are fitted in fewer rounds; so is their base.
        base_folds = left_out(rows, folds.fold, False, whole_fit(kind), None, QUICK_ROUNDS) if nested else folds
        reports.append(report(rows, frame, folds, inner).assign(kind=kind, leave_out=way, model=FULL))
        for name, other in others.items():
            off = name.startswith("without ")
            base = base_folds if off and name != NO_NEIGHBOURS else folds
            reports.append(_lines(kind, way, name, rows, other, base, off and nested))
        if nested:
            tables[table_name(kind)] = row_table(rows, frame, {FULL: folds, **others, **alone}, inner)
    return reports + [
        _lines(kind, ROW, FULL, all_rows, folds_alone, folds_alone) for folds_alone in alone.values()
    ], tables


def _rounded(value: float) -> float:
    """Return a value rounded to four digits, as the table stores it."""
    return float(f"{value:.4g}")


def _others(kind: str, way: str, full: LeftOut) -> dict[str, LeftOut]:
    """Return the model with something switched off, and the baselines; terms only where publishers are held out."""
    corrected = corrects(measured_rows(kind)[0])
    others = {NO_NEIGHBOURS: judge(kind, way, neighbours=False)[2] if corrected else full}
    if way == "source":
        if _has_levels(kind):
            others[NO_ENGINES] = judge(kind, way, neighbours=False, engine_levels=False)[2]
        for term in terms_of(kind):
            others[f"without {term}"] = judge(kind, way, neighbours=False, terms={term: False})[2]
    return others | {name: judge_reference(kind, name, way) for name in REFERENCES}


def _has_levels(kind: str) -> bool:
    """Return True if a constant of a kind differs by level of software."""
    return any(constant.by == "engine" for constant in measured_rows(kind)[0].constants)


def terms_of(kind: str) -> tuple[str, ...]:
    """Return the terms that can be switched off."""
    return tuple(measured_rows(kind)[0].module.TERMS)


def _lines(
    kind: str, way: str, name: str, rows: Rows, folds: LeftOut, base: LeftOut, by_publisher: bool = False
) -> pd.DataFrame:
    """Return the error statistics of a model beside its base: of all rows, and on request of each publisher."""
    common = np.isfinite(folds.error) & np.isfinite(base.error) & rows.usable
    lines: list[dict[str, Any]] = []
    for by, stratum in [
        ("all", "all"),
        *(("publisher", publisher) for publisher in np.unique(rows.group[common]) if by_publisher),
    ]:
        at = common & ((rows.group == stratum) | (by == "all"))
        numbers = figures(folds.error[at], rows.group[at])
        numbers |= dict(zip(PAIRED_COLUMNS, paired(folds.error[at], base.error[at], rows.group[at]), strict=True))
        if by != "all":
            numbers = {name: numbers[name] for name in PUBLISHER_COLUMNS}
        lines.append({"kind": kind, "leave_out": way, "model": name, "by": by, "stratum": stratum, **numbers})
    return pd.DataFrame(lines)


def as_markdown(table: pd.DataFrame) -> str:
    """Return a report as Markdown tables, shares in per cent.

    `table`: from `validate`.
    """
    parts = []
    for (kind, way), group in table.groupby(["kind", "leave_out"], sort=False):
        parts += [f"## {kind}, leaving out one {way} at a time", "", *_markdown_rows(group), ""]
    return "\n".join(parts)


HEADINGS = {
    "rows": "rows",
    "publishers": "publishers",
    "median_error": "median error",
    "mean_error": "mean error",
    "mean_of_publishers": "mean of publishers",
    "within_10": "within 10 %",
    "within_20": "within 20 %",
    "bias": "bias",
    "coverage_80": "80 % covers",
    "coverage_90": "90 % covers",
    "factor_80": "80 % width",
    "factor_90": "90 % width",
}


def _markdown_rows(group: pd.DataFrame) -> list[str]:
    names = ["model", "by", "stratum", *HEADINGS]
    lines = ["| model | by | stratum | " + " | ".join(HEADINGS.values()) + " |", "|---" * len(names) + "|"]
    lines += ["| " + " | ".join(_shown(name, row[name]) for name in names) + " |" for row in group.to_dict("records")]
    return lines


def _shown(name: str, value: Any) -> str:
    if name in ("model", "by", "stratum"):
        return str(value)
    if value is None or np.isnan(value):
        return ""
    if name in ("rows", "publishers"):
        return f"{int(value)}"
    return f"{value:.2f}×" if name.startswith("factor") else f"{100 * value:.1f} %"


def as_json(table: pd.DataFrame) -> str:
    """Return a report as JSON, one object per stratum.

    `table`: from `validate`.
    """
    return json.dumps(json.loads(table.to_json(orient="records", double_precision=6)), indent=1)


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
        if corrects(rows):
            tables.setdefault("training_neighbours", []).extend(_neighbours(kind, rows, whole, frame["id"]))
        tables.setdefault("interval_quantiles", []).extend(_quantiles(kind, rows, whole, sources))
    return tables


def _constants(kind: str, rows: Rows, whole: Fit, sources: np.ndarray) -> list[dict[str, Any]]:
    lines = []
    for (constant, level), spread in zip(whole.names, whole.spread.tolist(), strict=True):
        name, value = constant.name, whole.fitted.values[constant.name][level]
        selected = rows.usable & (True if not constant.by else rows.keys[constant.by] == level)
        lines.append(
            {
                "key": "/".join(filter(None, (kind, name, level))),
                "kind": kind,
                "constant": name,
                "level": level,
                "by": constant.by or "all",
                "vendors": ";".join(sorted(whole.fitted.vendors.get(level, ()))),
                "value": f"{value:.6g}",
                "unit": constant.unit,
                "spread": f"{spread:.3g}",
                "publishers": len(set(rows.group[selected])),
                "rows": int(selected.sum()),
                "how": HOW,
                "source": ";".join(sorted(set(sources[selected]))),
            }
        )
    return lines


def _memory_constants(kind: str, sources: np.ndarray) -> list[dict[str, Any]]:
    rows = memory_rows()
    selected = rows.labelled | (np.isfinite(rows.stated) & (rows.scenarios.why == ""))
    row_sources = np.concatenate([sources, np.full(len(selected) - len(sources), "")])[selected]
    units = {constant.name: constant.unit for constant in configurations.MEMORY_CONSTANTS}
    return [
        {
            "key": f"{kind}/{name}",
            "kind": kind,
            "constant": name,
            "by": "all",
            "value": f"{levels['']:.6g}",
            "unit": units[name],
            "publishers": len(set(rows.group[selected])),
            "rows": int(selected.sum()),
            "how": HOW,
            "source": ";".join(sorted(set(row_sources.tolist()) - {""})),
        }
        for name, levels in memory_constants().values.items()
    ]


def _evidence(kind: str, rows: Rows, sources: np.ndarray) -> list[dict[str, Any]]:
    lines = []
    device, engine = rows.keys["accelerator"], rows.keys["engine"]
    for name, level in sorted(set(zip(device[rows.usable].tolist(), engine[rows.usable].tolist(), strict=True))):
        selected = rows.usable & (device == name) & (engine == level)
        lines.append(
            {
                "kind": kind,
                "accelerator": name,
                "engine": level,
                "publishers": len(set(rows.group[selected])),
                "rows": int(selected.sum()),
                "how": HOW,
                "source": ";".join(sorted(set(sources[selected]))),
            }
        )
    return lines


def _neighbours(kind: str, rows: Rows, whole: Fit, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the run and the formulas' error of every row that was fitted."""
    error, runs = log_error(rows, whole.fitted), full_runs(rows)
    labels = {name: cells.each(str, object).tolist() for name, cells in runs.labels.items()}
    return [
        {
            "kind": kind,
            "row": name,
            "publisher": rows.group[at],
            "ratio": f"{np.exp(error[at]):.6g}",
            "labels": json.dumps({label: cells[at] for label, cells in labels.items()}),
            "how": HOW,
            "source": VALIDATION_SOURCE,
        }
        for at, name in enumerate(names)
        if rows.usable[at] and np.isfinite(error[at])
    ]


def _quantiles(kind: str, rows: Rows, whole: Fit, sources: np.ndarray) -> list[dict[str, Any]]:
    folds = left_out(rows, fold_labels(rows, "source"), warm=whole, rounds=2)
    predicted = np.isfinite(folds.error) & rows.usable
    all_sources = ";".join(sorted(set(sources[predicted])))
    several = several_assumed(rows)[predicted]
    lines = []
    for width in widths(folds.error[predicted], rows.group[predicted], np.asarray(folds.tier)[predicted], several):
        low, high = (f"{np.exp(half):.4g}" for half in width.half)
        lines.append(
            {
                "kind": kind,
                "tier": width.tier,
                "assumed": "several" if width.several else "few",
                "factor_80": low,
                "factor_90": high,
                "publishers": width.publishers,
                "rows": width.rows,
                "remark": width.remark,
                "how": HOW,
                "source": all_sources,
            }
        )
    return lines


def write_table(name: str, rows: Iterable[Mapping[str, Any]], directory: Path | None = None) -> Path:
    """Write a table in the column order of its schema.

    `name`: table with a schema; `rows`: cells by column; a column that a row lacks stays blank; `directory`: another
    data directory.
    """
    from cookbook.catalog.reading import schema

    folder = directory or catalog.data_directory()
    columns = [column.name for column in schema(name, folder).columns]
    path = folder / f"{name}.csv"
    return write_csv(path, columns, ({key: _cell(value) for key, value in row.items()} for row in rows))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.4g}"
    return str(value)


def write_calibration(kinds: Sequence[str] = KINDS) -> list[Path]:
    """Refit the constants, and write the tables of constants and intervals.

    `kinds`: kinds of training; the tables then hold these alone.
    """
    return [write_table(name, rows) for name, rows in calibrate(kinds).items()]


def write_validation(report: pd.DataFrame, tables: Mapping[str, pd.DataFrame], baseline: bool = False) -> list[Path]:
    """Write the table ``validation`` and those of single rows; on request the baseline of later reports.

    `report`, `tables`: from `validate.validate`; `baseline`: whether to set the baseline anew.
    """
    written = []
    for name, table in {"validation": report, **tables}.items():
        rows = table.assign(how=HOW, source=VALIDATION_SOURCE).to_dict("records")
        written.append(write_table(name, rows))
    if baseline:
        full = report[report["model"] == "full"].assign(how=HOW, source=VALIDATION_SOURCE).to_dict("records")
        names = ("kind", "leave_out", "by", "stratum", "rows", "median_error", "noise", "how", "source")
        lines = ({name: row[name] for name in names} for row in (row | {"noise": noise(row)} for row in full))
        written.append(write_table("validation_baseline", lines))
    return written


def write_row_schemas(kinds: Sequence[str] = KINDS, directory: Path | None = None) -> list[Path]:
    """Write the schemas of the tables of single rows: their columns follow the terms of each kind.

    `kinds`: kinds of training; `directory`: another data directory.
    """
    from cookbook.catalog.reading import SCHEMA_COLUMNS, schema

    written = []
    for kind in kinds:
        levels = (NO_ENGINES.removeprefix("without "),) if _has_levels(kind) else ()
        terms = (*levels, *terms_of(kind))
        path = (directory or catalog.data_directory()) / "schema" / f"{table_name(kind)}.csv"
        written.append(write_csv(path, SCHEMA_COLUMNS, schema_rows(kind, terms, tuple(REFERENCES))))
    schema.cache_clear()
    return written


def noise(row: Mapping[str, Any]) -> float:
    """Return the allowed rise of a median error: itself over the root of its rows, at least 0.005."""
    return max(0.005, float(row["median_error"]) / float(row["rows"]) ** 0.5)
