"""The tables of measured training runs in the form of scenarios: what was run apart from what came out."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog
from cookbook.catalog import tables

if TYPE_CHECKING:
    import pandas as pd

KINDS = {"training_classic": "classic", "training_transformer": "transformer", "inference": "inference"}
# What came out of a run: never an input.
OUTCOMES = ("value", "step_time_s", "step_seconds", "tokens_per_s", "tokens_per_s_per_device", "mfu", "hfu",
            "tflops_per_device_reported", "reported_flops", "memory_per_device_gb", "memory_bytes",
            "samples_per_s", "deviation", "accelerator_utilisation", "utilisation", "read_GBps", "read_bandwidth",
            "write_GBps", "write_bandwidth", "latency_us", "latency", "iops")  # fmt: skip
# Words of the tables for rows of which it is clear what was run.
CLEAR = {"use": ("core",), "task": ("pretrain",)}
# Columns whose name or unit in the tables differs from that of a scenario: name, and divisor.
RENAMED = {
    "parameters": ("params_b", 1e9),
    "active_parameters": ("params_active_b", 1e9),
    "step_seconds": ("step_time_s", 1.0),
    "memory_bytes": ("memory_per_device_gb", 1.0),
}
# Short words of the tables, as scenarios spell them.
KERNELS = {
    "flash1": "flash_attention v1",
    "flash2": "flash_attention2",
    "flash_te": "flash (TE)",
    "flash_pallas": "flash (Pallas splash)",
    "fused_softmax": "no flash (fused softmax)",
    "unfused": "torch",
    "not_flash": "no flash",
}
KEPT = {
    "all but weight products": "minimal (save all matmul outputs)",
    "all but qkv projections, which are offloaded": "qkv_proj_offloaded",
    "minimal/minimal_flash": "selective (minimal/minimal_flash)",
    "minimal_flash": "selective (minimal_flash)",
    "core_attn": "selective",
}


def module_of(kind: str) -> Any:
    """The module that knows one kind of training.

    Parameters
    ----------
    kind : str
        "training_classic", "training_transformer" or "inference".

    Raises
    ------
    ValueError
        Any other kind.
    """
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r} is not modelled; take one of {', '.join(KINDS)}")
    return import_module(f"cookbook.prediction.{KINDS[kind]}")


def as_scenarios(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table under the column names and words of scenarios; other frames stay as they are.

    Parameters
    ----------
    frame : pandas.DataFrame
        Text cells, as in the file.
    """
    found = frame.copy()
    for name, (wanted, divisor) in RENAMED.items():
        if name in found and wanted not in found:
            found[wanted] = [_scaled(cell, divisor) for cell in found.pop(name)]
    for wanted, needs, join in (
        ("zero_fsdp_stage", ("zero_stage", "shard_group"), _sharding),
        ("layers", ("layers", "decoder_layers"), lambda first, second: f"{first}+{second}" if second else first),
        ("attention_kernel", ("attention_kernel", "fused_norm"), _kernel),
        ("activation_recompute", ("activation_recompute", "recompute_modules"), _recompute),
    ):
        if set(needs) <= set(found):
            pairs = found[list(needs)].itertuples(index=False)
            found = found.drop(columns=list(needs)).assign(**{wanted: [join(str(a), str(b)) for a, b in pairs]})
    return found


def _scaled(cell: str, divisor: float) -> str:
    try:
        return repr(float(cell) / divisor)
    except ValueError:
        return str(cell)


def _sharding(stage: str, group: str) -> str:
    return f"FSDP (shard group {group})" if group and stage == "3" else stage


def _kernel(kernel: str, fused_norm: str) -> str:
    if kernel == "fused_softmax" and fused_norm:
        return "fused" + (" + RMS kernel" if fused_norm == "yes" else "")
    return KERNELS.get(kernel, kernel) + (" + RMS kernel" if fused_norm == "yes" else "")


def _recompute(how: str, modules: str) -> str:
    return KEPT.get(modules, "selective modules: " + modules.replace(";", "+")) if modules else how


def clear_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table of measurements of which it is clear what was run; the others are never fitted."""
    keep = np.ones(len(frame), dtype=bool)
    for name, wanted in CLEAR.items():
        if name in frame:
            keep &= np.isin(frame[name], wanted)
    return frame[keep].reset_index(drop=True)


def without_outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows without what came out of them.

    Parameters
    ----------
    frame : pandas.DataFrame
        Scenarios.
    """
    return frame.drop(columns=[name for name in OUTCOMES if name in frame.columns])


@lru_cache(maxsize=8)
def _read(table: str) -> pd.DataFrame:
    import pandas as pd

    catalog.table(table)
    found = as_scenarios(pd.DataFrame(list(tables.raw(table, catalog.data_directory()).records())))
    sources = catalog.table("sources").set_index("key")["url"]
    pages = [f"{cell} {sources[cell.split(';')[0]]}" for cell in found["source"]]
    return found.assign(locator=[f"{page} {cell}" for page, cell in zip(pages, found["locator"], strict=True)])


def measured_table(table: str) -> pd.DataFrame:
    """A table of measurements as text, under the column names of scenarios.

    Parameters
    ----------
    table : str
        "training_classic", "training_transformer" or "training_out_of_memory".
    """
    return _read(table).copy()


def publishers(frame: pd.DataFrame) -> np.ndarray:
    """Publisher (`source_group`) of each row; that of the first source where there are several.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows with a column ``source``.
    """
    sources = catalog.table("sources")
    group = dict(zip(sources["key"], sources["source_group"], strict=True))
    return np.array([group.get(cell.split(";")[0], cell) for cell in frame["source"]])
