"""Rows that a report adds to the tables of measured runs, and each measured network beside its prediction, in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from cookbook.catalog import data_directory
from cookbook.catalog.files import write_csv
from cookbook.catalog.reading import read, read_columns, schema
from cookbook.catalog.refusals import refused
from cookbook.catalog.tables import keys
from cookbook.hardware import Accelerator, Machine, machine
from cookbook.prediction.kinds.transformer import is_language_model
from cookbook.prediction.parsing.tables import machine_of
from cookbook.topics.machine.environment import absent, device_name, processor
from cookbook.topics.machine.report import Report
from cookbook.topics.machine.steps import RANK
from cookbook.units import human
from cookbook.workloads import zoo

# The key of a source that is still to be written, milliseconds of a second, and what ran the networks of the rows.
SOURCE, MILLI, PATH = "your-source", 1e-3, "torch"
# Table of the rows of a benchmark; training steps of language models are those of a table of their own.
TABLES = {
    "training step": "training_classic",
    "forward pass": "inference",
    "prefill": "inference",
    "decode": "inference",
}
LANGUAGE = "training_transformer"
EAGER, COMPILED = "eager", "torch.compile"


def lines(compared: pd.DataFrame) -> list[str]:
    """Return each measured network beside its prediction as a sentence, from the result of `beside`."""
    return [_line(row) for row in compared.to_dict("records")]


def _line(row: Mapping[str, Any]) -> str:
    case = [row["benchmark"], row["model"], f"batch {row['batch']:.0f}"]
    case += [f"{row['seq']:.0f} tokens"] * bool(row["seq"] and row["seq"] == row["seq"])
    head = f"{', '.join(case)}: measured {human(row['measured_s'], 's')}"
    if row["why"]:
        return f"{head}; no prediction: {row['why']}"
    low, high = human(row["low80_s"], "s"), human(row["high80_s"], "s")
    where = {True: "inside", False: "outside", None: "no interval"}[row["inside80"]]
    return f"{head}; predicted {human(row['predicted_s'], 's')} ({low} to {high}, 80 %): {where}"


def rows_to_share(report: Report, accelerator: str | Accelerator | Machine) -> dict[str, list[dict[str, str]]]:
    """Return the networks that a report measured in PyTorch as rows of the tables of measured runs, by table.

    Parameters
    ----------
    report : Report
        From `run` or `read`.
    accelerator : str, Accelerator or Machine
        The device in the catalogue.
    """
    tables: dict[str, list[dict[str, str]]] = {}
    for row in report.rows:
        if row["benchmark"] in TABLES and row["path"] == PATH:
            network = zoo.model(row["model"])
            trained = row["benchmark"] == "training step"
            table = LANGUAGE if trained and is_language_model(network) else TABLES[row["benchmark"]]
            cells = CELLS[table](row, report)
            number = len(tables.setdefault(table, [])) + 1
            shared = {"id": f"{SOURCE}-{number:03}", "source": SOURCE, "model": network.title, "devices": 1}
            shared |= {"accelerator": machine(accelerator).accelerator.key, "date": report.created[:10]}
            shared |= {"number_format": row["number_format"], "how": "measured", **cells}
            tables[table].append({name: str(cell) for name, cell in shared.items() if cell is not None})
    return tables


def _software(row: Mapping[str, Any], report: Report) -> str:
    method = COMPILED if row.get("method") == "graph" else EAGER
    return f"PyTorch {report.environment.get('torch', '')} ({method})"


def _served(row: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return the cells of a forward pass, a prompt or a decoding step."""
    seq, name = row.get("seq"), row["benchmark"]
    scenario, metric, prompt, answer = {
        "forward pass": ("forward", "forward latency ms", seq, None),
        "prefill": ("static", "TTFT ms p50", seq, 1),
        "decode": ("static", "TPOT ms p50", (seq or 1) - 1, 2),
    }[name]
    return {
        "tp": 1,
        "pp": 1,
        "precision": "/".join([row["number_format"]] * (2 if name == "forward pass" else 3)),
        "input_len": prompt,
        "output_len": answer,
        "batch": row["batch"],
        "software": _software(row, report),
        "scenario": scenario,
        "metric": metric,
        "value": f"{row['median_s'] / MILLI:.6g}",
        "use": "core",
    }


def _trained(row: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return the cells of a training step of a network that is no language model."""
    return {
        "task_input": f"{row['seq']} tokens" if row.get("seq") else None,
        "software": _software(row, report),
        "per_node": 1,
        "precision": row["number_format"],
        "batch_per_device": row["batch"],
        "global_batch": row["batch"],
        "data": "synthetic",
        "value": f"{row['value']:.6g}",
        "unit": row["unit"],
        "use": "core",
    }


def _language_trained(row: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return the cells of a training step of a language model."""
    method = row.get("method", "")
    return {
        "seq_len": row["seq"],
        "task": "lora" if "lora" in method else "pretrain",
        "software": _software(row, report),
        "precision": row["number_format"],
        "per_node": 1,
        **dict.fromkeys(("tp", "pp", "dp"), 1),
        "micro_batch": row["batch"],
        "global_batch": row["batch"],
        "activation_recompute": "full" if "recompute" in method else "none",
        "step_seconds": row["median_s"],
        "quality": "A",
        "completeness": "full",
        "note": f"rank {RANK} on all linear layers" if "lora" in method else None,
    }


# The cells of a row of each table.
CELLS = {"inference": _served, "training_classic": _trained, LANGUAGE: _language_trained}


def machine_here(device: str | None) -> Machine:
    """Return the machine of the catalogue that `run` measures, by the name that its driver or system reports.

    Parameters
    ----------
    device : str, optional
        As for `run`.

    Raises
    ------
    ValueError
        If the catalogue has no device of this name.
    """
    on_processor = device in ("numpy", "cpu") or (device is None and bool(absent("torch")))
    name = processor() if on_processor else device_name()
    found, why = machine_of(name)
    if why or not found:
        raise refused(
            "beside", name, "is not in the catalogue; give a device of it with --beside", "accelerator-unknown"
        )
    return found


def write_rows(report: Report, accelerator: str | Accelerator | Machine, path: str | Path) -> list[Path]:
    """Write the rows that a report adds to each table of measured runs, checked against its schema.

    Parameters
    ----------
    report : Report
        From `run` or `read`.
    accelerator : str, Accelerator or Machine
        The device in the catalogue.
    path : str or Path
        The file of the report; those of the rows are next to it, such as ``measured-inference.csv``.

    Returns
    -------
    list of Path
        One file for each table; none where no network was measured in PyTorch.

    Raises
    ------
    ValueError
        If a row has an invalid cell, such as a device that the catalogue does not have.
    """
    directory, files = data_directory(), list[Path]()
    for table, rows in rows_to_share(report, accelerator).items():
        columns = schema(table, directory)
        file = Path(path).with_name(f"{Path(path).stem}-{table}.csv")
        write_csv(file, [column.name for column in columns.columns], rows)
        known = {name: keys(name, directory) for column in columns.columns if (name := column.refers_to)}
        _, errors = read_columns(read(file), columns, known | {"sources": known["sources"] | {SOURCE}})
        if errors:
            file.unlink()
            raise ValueError(f"{file.name}: {errors[0]}")
        files.append(file)
    return files
