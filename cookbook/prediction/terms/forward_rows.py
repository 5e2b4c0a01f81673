"""Rows of one-shot inference as arrays: network, batch, number format, device and engine; outcomes are never read."""

from __future__ import annotations

import math
import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, hardware
from cookbook.prediction import transformer_hardware as machines
from cookbook.prediction import transformer_text as words
from cookbook.prediction.classic_networks import network
from cookbook.prediction.classic_rows import SPARE, Input, Scenarios, each_row, lanes, own_input, square_image
from cookbook.prediction.constants import figure
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

    from cookbook.workloads.zoo import Workload

LATENCY = re.compile(r"latency|\bms\b", re.I)
EACH_DEVICE = re.compile(r"/\s*(?:gpu|device|chip|accelerator)", re.I)
SERVED = re.compile(r"output tokens|prefill|ttft|tpot", re.I)
REPLICAS = re.compile(r"data parallel over (\d+) NeuronCores", re.I)
TWO_A_CHIP = re.compile(r"tpu-?v[23][.-](\d+)", re.I)
SIZE = re.compile(r"^\s*(\d+)\s*x\s*(\d+)\s*$")
ONE_A_SAMPLE = re.compile(r"^(?:images|samples|sequences|inferences|volumes|queries|utterances|items|frames)\s*/\s*s")
LANGUAGE_MODELS = ("transformers.decoder", "encoders.encoder_decoder")
# Formats to take where a device lacks the stated one, the nearest first: arithmetic is then done in the wider one.
INSTEAD = {"fp4": ("fp8", "bf16", "fp16", "fp32"), "fp8": ("bf16", "fp16", "fp32"), "int8": ("fp16", "bf16", "fp32"),
           "bf16": ("fp16", "fp32"), "fp16": ("bf16", "fp32"), "tf32": ("fp32",), "fp32": ("bf16", "fp16")}  # fmt: skip
VECTOR, HALF, TF32, BYTE = 0.0, 1.0, 2.0, 3.0
DOES = ("launches", "drains", "kernels", "fused", "transposes", "fast_algorithms")
DEVICE = ("peak", "vector_peak", "mem_bandwidth", "element_bytes", "unit_kind", "lanes", "memory_bytes", "watts",
          "process_nm")  # fmt: skip
GPUS, NO_LIMIT = ("gpu", "edge"), {"watts": math.inf, "process_nm": 1.0}
SERVED_TOKENS = (
    "a language model answers token by token, not in one pass; static batches of them are answered by "
    "python -m cookbook predict --kind inference"
)


def scenarios(frame: pd.DataFrame, own: Workload | None = None, served: bool = False) -> Scenarios:
    """Rows of a table as arrays; `batch` is that of one replica, `peak` and `mem_bandwidth` what one replica has.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns of the table ``inference``; any may be absent or blank, cells may be text.
    own : Workload, optional
        A network that is not in the zoo, for all rows.
    served : bool
        Whether to take rows of language models too, as one pass over ``input_len`` tokens.
    """
    reader = read_input if own is None else partial(_own, own)
    inputs = each_row(frame, ("model", "input_len", "metric", "scenario"), reader)
    devices = each_row(frame, ("accelerator", "number_format", "precision"), device)
    engines = each_row(frame, ("software", "note", "accelerator", "scenario"), engine)
    known: dict[tuple[str | Workload, str, float | None], int] = {}
    index = [known.setdefault((i.name, i.arguments, i.seq), len(known)) if i.name else -1 for i in inputs]
    values = {name: np.array([each[name] for each in devices], dtype=float) for name in DEVICE}
    values |= {name: np.array([each[1][name] for each in engines], dtype=float) for name in DOES}
    values |= _counts(frame, [each["accelerator"] for each in devices], inputs)
    for name in ("peak", "vector_peak", "mem_bandwidth", "memory_bytes", "watts"):
        values[name] = values[name] / values["cores"]
    values["items"] = np.array([each.items for each in inputs], dtype=float)
    queued = np.array([each == "server" for each in words.texts(frame, "scenario")], dtype=bool)
    values["items"] = values["items"] * np.where(queued, figure("server-share"), 1.0)
    metrics = words.texts(frame, "metric")
    values["is_delay"] = np.array([bool(LATENCY.search(each)) for each in metrics], dtype=float)
    values["each_device"] = np.array([bool(EACH_DEVICE.search(each)) for each in metrics], dtype=float)
    keys = {
        name: np.array([each[name] for each in devices], dtype=object) for name in ("accelerator", "vendor", "family")
    }
    keys["engine"] = np.array([each[0] for each in engines], dtype=object)
    keys["scale"] = np.where(values["replicas"] > 1, "1 node", "1 device")
    keys["moe"] = np.zeros(len(frame), dtype=bool)
    why = _refusals(frame, inputs, devices, values, served)
    for name in ("batch", "replicas", "items", "peak", "mem_bandwidth"):
        values[name] = np.where(why == "", values[name], np.nan)
    return Scenarios(values, np.array(index, dtype=int), tuple(known), why, keys)


def _own(own: Workload, _model: str, length: str, metric: str, _scenario: str) -> Input:
    return own_input(own, "", f"seq_len {length}", metric)


@lru_cache(maxsize=4096)
def read_input(model: str, length: str, metric: str, scenario: str = "") -> Input:
    """The network of a row, and how many of the counted items one sample has.

    >>> read_input("BERT-Large", "384", "samples/s").seq, read_input("ssd-resnet34", "1200x1200", "samples/s").name
    (384.0, 'ssd1200_resnet34')
    """
    if not model:
        return Input(why="model is blank: name a network of the zoo")
    row = input_row(model, length, scenario)
    if row.get("care") == "refused":
        return Input(why=f"{model}: {row['note']}")
    found = _known(str(row.get("model") or model))
    if isinstance(found, str):
        return Input(why=found)
    arguments, seq = str(row.get("arguments") or ""), row.get("seq", math.nan)
    stated = words.number(length) if length and not SIZE.match(length) else math.nan
    if found.ops.needs_seq and not math.isfinite(seq):
        seq = stated if math.isfinite(stated) and stated >= 1 else found.seq or math.nan
    size = SIZE.match(length)
    if size and not arguments and size.group(1) == size.group(2):
        arguments = square_image(found.name, int(size.group(1)))
    items = row.get("items", math.nan)
    if not math.isfinite(items):
        counted = ONE_A_SAMPLE.match(metric) or LATENCY.search(metric) or not metric
        items = 1.0 if counted else seq
    why = "" if math.isfinite(items) and items > 0 else f"metric {metric!r} cannot be counted for {found.title}"
    return Input(found.name, arguments, seq if math.isfinite(seq) else None, items, False, found.family, why)


@lru_cache(maxsize=1024)
def _known(model: str) -> Workload | str:
    """A network of the zoo, or why there is none of that name."""
    try:
        return zoo.model(model)
    except KeyError as unknown:
        return str(unknown.args[0] if unknown.args else unknown)


@lru_cache(maxsize=1)
def _input_rows() -> list[dict[str, Any]]:
    rows = catalog.table("inference_inputs").to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


@lru_cache(maxsize=4096)
def input_row(model: str, length: str, scenario: str = "") -> dict[str, Any]:
    """Row of ``inference_inputs`` that says more about a printed name than the zoo does; empty without one."""
    text = f"{model}; {length}; {scenario}"
    return next((row for row in _input_rows() if re.search(row["pattern"], text, re.I)), {})


@lru_cache(maxsize=4096)
def engine(software: str, note: str, accelerator: str, scenario: str) -> tuple[str, dict[str, float]]:
    """Level of the engine of a row, and what that level does with operations.

    >>> engine("TensorRT 8.6", "", "l4", "offline")[0], engine("PyTorch 2.9 Neuron 2.27.0", "", "inferentia2", "")[0]
    ('tensorrt', 'neuron')
    """
    text = f"{software}; {note}; {accelerator}; {scenario}"
    patterns, does = _engines()
    level = next((level for pattern, level in patterns if re.search(pattern, text, re.I)), "")
    return level, does[level]


@lru_cache(maxsize=1)
def _engines() -> tuple[list[tuple[str, str]], dict[str, dict[str, float]]]:
    """Patterns with their levels, and what each level does; without a level, what most do."""
    levels, rows = catalog.table("software_levels"), catalog.table("inference_engines").set_index("level")
    levels = levels[levels["kind"] == "inference"]
    does = {str(level): {name: float(row[name]) for name in DOES} for level, row in rows.iterrows()}
    does[""] = {name: float(value) for name, value in rows[list(DOES)].median().items()}
    return list(zip(levels["pattern"], levels["level"], strict=True)), does


def format_of(number_format: str, precision: str) -> str:
    """Number format of the products of a row, from the format column or else from the printed precision.

    >>> format_of("", "FP32/Matmult-BF16"), format_of("", "int8,fp16"), format_of("", "FP32 + Int8"), format_of("", "")
    ('bf16', 'int8', 'int8', '')
    """
    text = precision.casefold()
    if re.search(r"int8|w8a8", text):
        return "int8"
    if number_format:
        return words.number_format(number_format) or number_format
    return words.number_format(text)


@lru_cache(maxsize=4096)
def device(name: str, number_format: str, precision: str) -> dict[str, Any]:
    """Peaks and memory of a row's device in its number format, or in the nearest format that it has."""
    known = {**dict.fromkeys(DEVICE, math.nan), "accelerator": "", "vendor": "", "family": "", "why": ""}
    if not name:
        return {**known, "why": "accelerator is blank: name one of the catalogue"}
    try:
        found = hardware.accelerator(name)
    except (KeyError, ValueError) as unknown:
        return {**known, "why": str(unknown.args[0] if unknown.args else unknown)}
    known |= {"accelerator": found.key, "vendor": found.vendor, "family": machines.family(found.key)}
    offered = hardware.formats(found)
    if not format_of(number_format, precision) and re.search(r"\d", precision):
        return {**known, "why": f"precision {precision!r} is not one of fp32, tf32, fp16, bf16, fp8, fp4, int8"}
    # Without a word about it, the smallest that engines take without being told.
    stated = format_of(number_format, precision) or next((n for n in ("int8", "fp16", "fp32") if n in offered), "fp32")
    used = next((each for each in (stated, *INSTEAD.get(stated, ())) if each in offered), "")
    if not used or not math.isfinite(found.mem_bandwidth):
        return {**known, "why": f"{found.name} has no known peak in {stated}, or no known memory bandwidth"}
    return {**known, **_arithmetic(found, used), "mem_bandwidth": found.mem_bandwidth, "memory_bytes":
            found.memory_bytes, "element_bytes": element_bytes(stated),
            "lanes": lanes().get(machines.family(found.key), SPARE), **_power(found)}  # fmt: skip


def _power(found: hardware.Accelerator) -> dict[str, float]:
    """Design power and process of a GPU; other chips, and those of which it is not known, get no limit."""
    table = catalog.table("accelerators")
    process = table.loc[table["key"] == found.key.rstrip("*"), "process_nm"]
    known = found.kind in GPUS and math.isfinite(found.tdp_watts) and len(process) and math.isfinite(process.iloc[0])
    share = figure("module-power-share") if found.kind == "edge" else 1.0
    return {"watts": found.tdp_watts * share, "process_nm": float(process.iloc[0])} if known else NO_LIMIT


def _arithmetic(found: hardware.Accelerator, used: str) -> dict[str, float]:
    """Peak that counts and the units that have it: matrix units, unless vector units are as fast."""
    peak, plain = hardware.peak_flops(found, used), found.peaks["peak_fp32"]
    vector = np.nanmax([found.peaks["peak_fp16_vector"], plain, 0.0])
    kind = {"fp32": VECTOR, "tf32": TF32, "fp16": HALF, "bf16": HALF}.get(used, BYTE)
    if kind in (HALF, TF32) and peak <= vector:
        kind, peak = VECTOR, vector if kind == HALF else plain
    return {"peak": peak, "unit_kind": kind, "vector_peak": plain if math.isfinite(plain) else peak}


@lru_cache(maxsize=32)
def element_bytes(number_format: str) -> float:
    """Size of one element as engines store it for inference [B].

    >>> element_bytes("fp8"), element_bytes("tf32"), element_bytes("bf16")
    (1.0, 4.0, 2.0)
    """
    if number_format == "tf32":
        return 4.0
    return int(re.sub(r"\D", "", number_format)) / 8


@lru_cache(maxsize=64)
def cores_of(key: str) -> float:
    """Cores of a chip that software sees as devices of their own."""
    names = catalog.table("constants")["name"].tolist()
    return figure(f"cores-{key}") if f"cores-{key}" in names else 1.0


@lru_cache(maxsize=512)
def offline_batch(name: str | Workload, arguments: str, seq: float | None) -> float:
    """Samples of one pass where a submitter does not state them: as many as fill any device."""
    found = network(name, arguments, seq)
    return max(1.0, math.ceil(figure("offline-macs") / float(found.macs @ found.count)))


def _counts(frame: pd.DataFrame, keys: list[str], inputs: list[Input]) -> dict[str, np.ndarray]:
    """Batch of a replica, replicas, cores of a chip; what is blank follows from the scenario."""
    batch, devices = words.numbers(frame, "batch"), words.numbers(frame, "devices")
    blank = np.array([cell == "" for cell in words.texts(frame, "devices")], dtype=bool)
    devices = np.where(blank, 1.0, devices)
    scenario = np.array(words.texts(frame, "scenario"), dtype=object)
    none = np.array([cell == "" for cell in words.texts(frame, "batch")], dtype=bool)
    enough = np.array([offline_batch(i.name, i.arguments, i.seq) if i.name else 1.0 for i in inputs], dtype=float)
    usual = np.where(np.isin(scenario, ("offline", "server")), enough, 1.0)
    printed = words.texts(frame, "accelerator_as_printed")
    chips = np.array([0.5 if TWO_A_CHIP.search(each) else 1.0 for each in printed])
    devices = np.where(devices > 1, devices * chips, devices)
    cores = np.array([cores_of(key) for key in keys], dtype=float)
    notes = [REPLICAS.search(each) for each in words.texts(frame, "note")]
    replicas = np.array([float(each.group(1)) if each else math.nan for each in notes])
    replicas = np.where(np.isnan(replicas), devices * cores, replicas)
    # One stream keeps one device busy, however many there are.
    replicas = np.where(scenario == "single_stream", 1.0, replicas)
    return {"batch": np.where(none, usual, batch), "devices": devices, "cores": cores, "replicas": replicas,
            "accumulation": np.ones(len(cores)), "passes": np.ones(len(cores)), "nodes": np.ones(len(cores)),
            "link": np.full(len(cores), np.inf), "network": np.full(len(cores), np.inf)}  # fmt: skip


def _refusals(
    frame: pd.DataFrame, inputs: list[Input], devices: list[Any], values: dict[str, np.ndarray], allowed: bool
) -> np.ndarray:
    """Why a row cannot be predicted, the first reason that applies."""
    builders = dict(catalog.table("models")[["name", "builder"]].itertuples(index=False))
    served = np.array([builders.get(i.name, "") in LANGUAGE_MODELS for i in inputs], dtype=bool)
    metric, scenario = words.texts(frame, "metric"), words.texts(frame, "scenario")
    served |= np.array([bool(SERVED.search(each)) for each in metric], dtype=bool)
    served |= np.isin(scenario, ("decode", "prefill"))
    why = np.where(served & (not allowed), SERVED_TOKENS, "").astype(object)
    known = np.array([i.why or d["why"] for i, d in zip(inputs, devices, strict=True)], dtype=object)
    why = np.where(why == "", known, why)
    count, batch = values["devices"], values["batch"]
    for bad, reason in (
        (~((count >= 1) & np.isfinite(count)), "devices must be a whole number, 1 or more"),
        (~((batch > 0) & np.isfinite(batch)), "batch must be a number above 0"),
    ):
        why[(why == "") & bad] = reason
    return why.astype(str) if len(why) else np.zeros(0, dtype="<U1")


def needs_care(frame: pd.DataFrame) -> np.ndarray:
    """Rows of which it is not clear what was run, or that are more than one pass; they are never fitted.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns of the table ``inference``.
    """
    rows = each_row(frame, ("model", "input_len", "scenario"), input_row)
    care = np.array([row.get("care") == "yes" for row in rows], dtype=bool)
    variants = np.array([bool(re.search(r"variant \d+ of", each)) for each in words.texts(frame, "note")], dtype=bool)
    queued = np.array([each == "server" for each in words.texts(frame, "scenario")], dtype=bool)
    tokens = np.array([bool(SERVED.search(each)) for each in words.texts(frame, "metric")], dtype=bool)
    return care | variants | queued | tokens


__all__ = ["Scenarios", "device", "engine", "needs_care", "read_input", "scenarios"]
