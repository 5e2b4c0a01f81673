"""Six tables of measurements as rows of one shape, in SI, and derived columns of measured rates."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.names import index, normalise
from cookbook.catalog.reading import data_directory
from cookbook.formulas.utilisation import chowdhery_2022
from cookbook.hardware import peak_flops
from cookbook.prediction.parsing import networks
from cookbook.workloads import zoo

# Columns that a table can have; others stay missing.
TEXTS = (
    "id",
    "kind",
    "phase",
    "model",
    "task",
    "accelerator",
    "precision",
    "number_format",
    "software",
    "data",
    "layout",
    "server",
    "processor",
    "link",
    "network_link",
    "date",
    "unit",
    "time_of",
    "source",
    "locator",
    "how",
)
NUMBERS = ("devices", "batch", "throughput", "time", "flop_per_item")
# The first matching word names the framework, so software built on another precedes it.
FRAMEWORKS = (
    "TensorRT-LLM",
    "TensorRT",
    "MXNet",
    "PaddlePaddle",
    "Detectron",
    "LLM Foundry",
    "MaxText",
    "NeMo",
    "Primus",
    "Megatron",
    "DeepSpeed",
    "NeuronX",
    "Neuron",
    "PyTorch",
    "TensorFlow",
    "Torch7",
    "Caffe",
    "JAX",
    "llama.cpp",
    "OpenVINO",
)
# One batch, or one image, is one sample where these are counted; elsewhere a sample holds many.
SAMPLES = ("images/s", "sequences/s", "volumes/s", "samples/s", "molecules/s", "users/s", "inferences/s")
TIMES = {
    "latency ms": "batch",
    "latency ms avg": "batch",
    "latency ms p50": "batch, median",
    "latency ms p90": "batch, 90th percentile",
    "forward latency ms": "forward pass",
    "TTFT ms": "first token",
    "TTFT ms p50": "first token, median",
    "TPOT ms p50": "output token, median",
}


def rows(table: str) -> pd.DataFrame:
    """Return rows of one table of measurements: `TEXTS` and `NUMBERS`, outcomes in SI, NaN or blank where unknown.

    `table`: a key of `READERS`.
    """
    frame = catalog.table(table)
    columns = READERS[table](frame)
    values = {name: columns.get(name, frame.get(name, "")) for name in TEXTS}
    values |= {name: columns.get(name, frame.get(name, np.nan)) for name in NUMBERS}
    return pd.DataFrame(values, index=frame.index)


def _classic(frame: pd.DataFrame) -> dict[str, Any]:
    passes = frame["grad_accum_steps"].fillna(1)
    batch = frame["global_batch"].fillna(frame["batch_per_device"] * frame["devices"] * passes)
    counted = frame["unit"].isin(SAMPLES) & (frame["global_batch"].notna() | frame["batch_per_device"].notna())
    text = _joined(frame, "accelerator_as_printed", "software_notes", "note", "locator", "intra_node_link")
    return {
        "kind": "training",
        "phase": "training",
        "task": frame["task_input"],
        "batch": batch,
        "throughput": frame["value"],
        "time": np.where(counted, batch / frame["value"], np.nan),
        "time_of": np.where(counted, "step", ""),
        "layout": frame["software_notes"],
        "link": frame["intra_node_link"],
        "network_link": frame["inter_node_link"],
        **_servers(frame["accelerator"], text),
    }


def _transformer(frame: pd.DataFrame) -> dict[str, Any]:
    phases = dict(pretrain="pretraining", finetune="fine-tuning", lora="LoRA", qlora="QLoRA", memory="training")
    token_rate = frame["global_batch"] * frame["seq_len"] / frame["step_seconds"]
    weights = frame["active_parameters"].fillna(frame["parameters"])
    flop = chowdhery_2022(weights, frame["layers"], frame["hidden"], frame["seq_len"])
    text = _joined(frame, "accelerator_as_printed", "note", "locator", "intra_node_link")
    return {
        "kind": "training",
        "phase": frame["task"].map(phases),
        "task": _counted(frame["seq_len"], "tokens"),
        "batch": frame["global_batch"],
        "throughput": frame["tokens_per_s"].fillna(token_rate),
        "unit": "tokens/s",
        "time": frame["step_seconds"],
        "time_of": np.where(frame["step_seconds"].notna(), "step", ""),
        "layout": _layout(frame),
        "link": frame["intra_node_link"],
        "network_link": frame["inter_node_link"],
        "flop_per_item": flop,
        **_servers(frame["accelerator"], text),
    }


def _inference(frame: pd.DataFrame) -> dict[str, Any]:
    metric, value = frame["metric"], frame["value"]
    timed, per_gpu = metric.isin(list(TIMES)), metric.str.endswith("/GPU")
    unit = metric.where(~timed, "").str.removesuffix("/GPU")
    rate = (value * np.where(per_gpu, frame["devices"], 1)).mask(timed)
    counted = unit.isin(SAMPLES) & (frame["scenario"] == "static") & frame["batch"].notna()
    tokens = unit.str.contains("tokens/s") & frame["parameters"].notna()
    text = _joined(frame, "accelerator_as_printed", "note", "locator")
    written = _counted(frame["output_len"], "out")
    return {
        "kind": "inference",
        "phase": frame["scenario"],
        "throughput": rate,
        "unit": unit,
        "time": (value / 1000).where(timed, (frame["batch"] / rate).where(counted)),
        "time_of": metric.map(TIMES).where(timed, np.where(counted, "batch", "")),
        "task": frame["input_len"].str.cat(written.where(written == "", ", " + written)),
        "flop_per_item": (2 * frame["active_parameters"].fillna(frame["parameters"])).where(tokens),
        **_servers(frame["accelerator"], text),
    }


def _storage(frame: pd.DataFrame) -> dict[str, Any]:
    rates: dict[str, Any] = {"unit": "", "throughput": np.nan}
    for column, unit in (
        ("iops", "IO/s"),
        ("write_bandwidth", "B/s written"),
        ("read_bandwidth", "B/s read"),
        ("samples_per_s", "samples/s"),
    ):
        stated = frame[column].notna()
        rates = {
            "unit": np.where(stated, unit, rates["unit"]),
            "throughput": frame[column].where(stated, rates["throughput"]),
        }
    decode = frame["kind"] == "decode"
    return {
        "kind": "storage",
        "phase": frame["kind"].str.replace("_", " "),
        "model": frame["workload"],
        "devices": frame["accelerators"],
        "software": frame["framework"],
        "time": frame["latency"],
        "time_of": np.where(frame["latency"].notna(), "operation", ""),
        "server": frame["system"].mask(decode, ""),
        "processor": frame["cpu"].mask(decode, frame["system"]),
        "layout": _counted(frame["workers"], "workers"),
        "task": _counted(frame["sample_bytes"], "B"),
        **rates,
    }


def _collectives(frame: pd.DataFrame) -> dict[str, Any]:
    stated = frame["algorithm_bandwidth"].notna() & frame["payload_bytes"].notna()
    return {
        "id": _numbered("collective", frame),
        "kind": "collectives",
        "phase": frame["collective"].str.replace("_", " "),
        "model": frame["collective"].str.replace("_", " "),
        "task": _counted(frame["payload_bytes"], "B"),
        "devices": frame["ranks"],
        "throughput": frame["bus_bandwidth"],
        "unit": "B/s a rank (bus bandwidth)",
        "time": frame["payload_bytes"] / frame["algorithm_bandwidth"],
        "time_of": np.where(stated, "operation", ""),
        "layout": frame["algorithm"],
        "link": frame["intra_node_link"],
        "network_link": frame["inter_node_link"],
    }


def _matmul(frame: pd.DataFrame) -> dict[str, Any]:
    sizes = (frame[name].map("{:.0f}".format) for name in ("m", "n", "k"))
    first, *others = sizes
    return {
        "id": _numbered("matmul", frame),
        "kind": "matmul",
        "phase": frame["shape_kind"] + " shape",
        "model": "matrix product",
        "task": first.str.cat(others, sep=" x "),
        "devices": frame["device_fraction"],
        "precision": frame["format_as_printed"],
        "throughput": frame["achieved_flops"],
        "unit": "FLOP/s",
        "flop_per_item": 1.0,
    }


READERS = {
    "training_classic": _classic,
    "training_transformer": _transformer,
    "inference": _inference,
    "storage_measured": _storage,
    "collectives": _collectives,
    "matmul": _matmul,
}


@lru_cache(maxsize=4096)
def framework(software: str) -> str:
    """Return the framework of a printed name of software; the name itself where none is known, blank where blank.

    >>> framework("NGC MXNet 20.06"), framework("Torch7 cuDNN 5.1"), framework("turbojpeg")
    ('MXNet', 'Torch7', 'turbojpeg')
    """
    text = software.casefold()
    return next((name for name in FRAMEWORKS if name.casefold() in text), software)


@lru_cache(maxsize=4096)
def network_of(model: str) -> str:
    """Return the zoo's name of a network as its publisher spells it; that spelling where the zoo has none.

    >>> network_of("LLAMA3_70B"), network_of("googlenet (inception_v1)"), network_of("FastSpeech of my own")
    ('llama3_70b', 'googlenet', 'FastSpeech of my own')
    """
    return index("models", data_directory()).get(normalise(model), model)


def _joined(frame: pd.DataFrame, *columns: str) -> pd.Series:
    first, *others = (frame[column].astype(str) for column in columns)
    return first.str.cat(others, sep=" | ")


def _counted(values: pd.Series, words: str) -> pd.Series:
    """Return integers with their unit as text; blank where missing."""
    return values.map(lambda value: f"{value:,.0f} {words}" if np.isfinite(value) else "")


def _numbered(name: str, frame: pd.DataFrame) -> list[str]:
    return [f"{name}-{number:03d}" for number in range(1, len(frame) + 1)]


def _layout(frame: pd.DataFrame) -> list[str]:
    """Return the parallelism configuration in one text; the data-parallel size follows from it and the devices."""
    columns = (
        "tp",
        "pp",
        "vp",
        "cp",
        "ep",
        "zero_stage",
        "sequence_parallel",
        "micro_batch",
        "activation_recompute",
        "recompute_modules",
        "attention_kernel",
        "fused_norm",
        "cpu_offload",
    )
    cells = [frame[name].map("{:g}".format) if frame[name].dtype == float else frame[name] for name in columns]
    named = [name.replace("_", " ") for name in columns]
    return [
        ", ".join(f"{name} {cell}" for name, cell in zip(named, row, strict=True) if cell not in ("", "nan"))
        for row in zip(*cells, strict=True)
    ]


def _servers(accelerators: pd.Series, texts: pd.Series) -> dict[str, list[str]]:
    """Return server and processor of rows that name a catalogue system with that accelerator; else blank."""
    systems = _systems()
    by_text: dict[tuple[str, str], tuple[str, str]] = {}
    matches = []
    for key, text in zip(accelerators, texts, strict=True):
        if (key, text) not in by_text:
            plain = normalise(text) if key in systems else ""
            by_text[key, text] = next((row[1:] for row in systems.get(key, ()) if _spelled(row[0], plain)), ("", ""))
        matches.append(by_text[key, text])
    return {"server": [server for server, _ in matches], "processor": [processor for _, processor in matches]}


def _spelled(name: str, text: str) -> bool:
    """Return True if a text contains a name that no digit follows, which would make it a larger model."""
    return any(not rest[:1].isdigit() for rest in text.split(name)[1:])


def _without_brackets(name: str) -> str:
    head, bracket, rest = name.partition("(")
    inner, end, tail = rest.partition(")")
    return head + _without_brackets(tail) if end else head + bracket + inner


def _systems() -> dict[str, list[tuple[str, str, str]]]:
    """Return (spelling, name, processor) of the systems with each accelerator, the longest spelling first."""
    frame, by_accelerator = catalog.table("systems"), dict[str, list[tuple[str, str, str]]]()
    for row in frame.itertuples(index=False):
        name = _without_brackets(row.name).strip()
        vendor, _, model = name.partition(" ")
        spelling = normalise(model if vendor.casefold() in ("aws", "azure", "gcp") else name)
        for key in filter(None, {row.accelerator_key, *row.accelerator_alternatives.split(";")}):
            # A TPU v3-8 is not named by a v3-8192.
            by_accelerator.setdefault(key, []).append((spelling, row.name, row.cpu))
    return {key: sorted(spellings, key=lambda one: -len(one[0])) for key, spellings in by_accelerator.items()}


# Columns that are equal in all runs of a scaling curve, which differ in devices and batch only.
CURVE_KEYS = (
    "publisher",
    "source",
    "kind",
    "phase",
    "model",
    "task",
    "accelerator",
    "precision",
    "software",
    "data",
    "unit",
)
# Kinds whose rate is one rate of all devices together; a collective's is that of one rank.
ADDITIVE_KINDS = ("training", "inference", "matmul")
# A multiply-add of the forward pass is 2 FLOP, and the backward pass does it twice more.
TRAINING_FLOP_PER_MAC = 6.0


def per_device(rows: pd.DataFrame) -> pd.Series:
    """Return the rate per device [items/s]; missing where rates do not add up or the number is unknown."""
    together = rows["kind"].isin(ADDITIVE_KINDS) | ((rows["kind"] == "storage") & (rows["unit"] == "samples/s"))
    return (rows["throughput"] / rows["devices"]).where(together & (rows["devices"] > 0))


def per_watt(rows: pd.DataFrame) -> pd.Series:
    """Return the rate per watt of the devices' design power (TDP) [items/s/W]; no power was measured."""
    watts = rows["accelerator"].map(catalog.table("accelerators").set_index("key")["tdp_watts"])
    return (rows["throughput"] / (rows["devices"] * watts)).where(rows["kind"].isin(ADDITIVE_KINDS))


def efficiencies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return weak and strong scaling efficiency, and the kind of curve that a row belongs to.

    A curve contains runs of one publisher that are equal in all of `CURVE_KEYS` and in the training configuration, and
    in batch a device (weak) or in global batch (strong). The base is the median rate per device on its fewest devices;
    those runs have no efficiency of their own.

    `rows`: columns of `CURVE_KEYS`, `layout`, `devices`, `batch`, `batch_per_device` and `throughput`. Gives
    ``weak_efficiency``, ``strong_efficiency`` (NaN without fewer devices to compare with), ``scaling`` (weak, strong,
    weak and strong, or blank).
    """
    run = rows[rows["kind"].isin(("training", "inference")) & rows["throughput"].notna() & rows["batch"].notna()]
    layout = run["layout"].where(run["kind"] == "training", "")
    per_device_rate = run["throughput"] / run["devices"]
    result, member = rows[[]].copy(), {}
    for name, fixed in (("weak", "batch_per_device"), ("strong", "batch")):
        keys = [run[column] for column in CURVE_KEYS] + [layout, run[fixed]]
        fewest = run["devices"].groupby(keys, dropna=False).transform("min")
        base = per_device_rate.where(run["devices"] == fewest).groupby(keys, dropna=False).transform("median")
        result[f"{name}_efficiency"] = (per_device_rate / base).where(run["devices"] > fewest)
        grows = run["devices"].groupby(keys, dropna=False).transform("max") > fewest
        member[name] = rows.index.isin(run.index[grows])
    both = [member["weak"] & member["strong"], member["weak"], member["strong"]]
    return result.reindex(rows.index).assign(scaling=np.select(both, ["weak and strong", "weak", "strong"], ""))


def utilisation(rows: pd.DataFrame, flop_per_item: Any) -> pd.Series:
    """Return the share of the devices' dense peak, in the row's number format, of the network's own FLOP.

    `rows`: `throughput`, `devices`, `accelerator`, `number_format`; `flop_per_item`: FLOP of one item that `throughput`
    counts.
    """
    names = rows[["accelerator", "number_format"]].drop_duplicates()
    peaks = {(key, name): peak_flops(key, name) if key and name else np.nan for key, name in names.to_numpy()}
    peak = [peaks[pair] for pair in zip(rows["accelerator"], rows["number_format"], strict=True)]
    return rows["throughput"] * flop_per_item / (rows["devices"] * np.asarray(peak))


@lru_cache(maxsize=1)
def classic_flop() -> dict[str, float]:
    """Return the FLOP of training one counted item, by id of training_classic, layer by layer; slow, computed once."""
    frame = catalog.table("training_classic")
    by_network: dict[tuple[str, ...], float] = {}
    by_id = {}
    for row in frame[["id", "model", "task_input", "unit"]].itertuples(index=False):
        item = (row.model, row.task_input, row.unit)
        if item not in by_network:
            by_network[item] = _flop(networks.trained(*item))
        by_id[row.id] = by_network[item]
    return by_id


def _flop(trained: networks.Input) -> float:
    if not trained.name or trained.why:
        return float("nan")
    work = zoo.model(str(trained.name), **json.loads(trained.arguments or "{}"))
    return (
        TRAINING_FLOP_PER_MAC
        * float(work.ops.total("macs", 1, (work.seq if np.isnan(trained.seq) else trained.seq) or 1))
        / trained.items
    )
