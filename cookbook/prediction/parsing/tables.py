"""Tables of runs, measured or asked for, as typed scenarios: what was run apart from what came out."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.catalog import UnknownName, tables
from cookbook.catalog.fields import names_of
from cookbook.catalog.refusals import refusal_of
from cookbook.hardware.machine import ring_link
from cookbook.prediction.kinds.constraints import usual_chunks
from cookbook.prediction.parsing import networks, parallelism, words
from cookbook.prediction.parsing.columns import CLASSIC, GENERATION, POLICY, SERVED, TRANSFORMER, Columns, normal
from cookbook.prediction.parsing.vocabulary import meaning, mentions, without
from cookbook.prediction.scenario import NOTHING, Coded, Scenario, fields, together

# What came out of a run: never an input.
OUTCOMES = (
    "value",
    "step_time_s",
    "step_seconds",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "mfu",
    "hfu",
    "tflops_per_device_reported",
    "reported_flops",
    "memory_per_device_gb",
    "memory_bytes",
    "samples_per_s",
    "deviation",
    "accelerator_utilisation",
    "utilisation",
    "read_GBps",
    "read_bandwidth",
    "write_GBps",
    "write_bandwidth",
    "latency_us",
    "latency",
    "iops",
    "outcome",
)
# Columns whose words say of which rows it is clear what was run.
CLEARING_COLUMNS = ("use", "task", "quality")
# Fields whose cells are words as often as numbers, or count only beside others.
READ_SEPARATELY = {"head_dim", "parameters", "active_parameters", "zero", "shard", "rank", "node_network", "domain"}
COUNTS = tuple(name for name in names_of("training_transformer", "count", "number") if name not in READ_SEPARATELY)
FUSED = "fused-softmax"
PORTS = re.compile(r"(\d+)\s*x\D*(?:[A-Za-z]+-?\d*\s+)*?(\d+)\s*g", re.I)
RATE = re.compile(r"(\d+)\s*g", re.I)
REPLICAS = re.compile(r"(?:data parallel over|models? on) (\d+) NeuronCores?", re.I)
EXPERTS = re.compile(r"expert[ -]parallel(?:ism)? (?:over |of |= ?)?(\d+)", re.I)
WORKERS = re.compile(r"(\d+) workers each", re.I)


def read(
    kind: str, frame: pd.DataFrame, why: np.ndarray | None = None, here: hardware.Machine | None = None
) -> Scenario:
    """Return rows of a table as a scenario; outcomes are never read.

    Parameters
    ----------
    kind : str
        "training_transformer", "training_classic" or "inference".
    frame : pandas.DataFrame
        Cells as text, categories or numbers; columns under their names in ``data/schema/scenario.csv`` or other
        spellings there, any may be absent or blank.
    why : numpy.ndarray of str, optional
        What is known to be wrong with single rows.
    here : Machine, optional
        A machine of the reader's own, for rows that have its name in the place of the accelerator, or none.
    """
    cells = Columns(kind, frame)
    own = cells.own_rows("accelerator", here.accelerator.name) if here else None
    columns = {TRANSFORMER: _transformer, CLASSIC: _network, SERVED: _inference}[kind](cells)
    cells.refuse_versions(columns.get("served", False))
    if own is not None:
        machines = columns["accelerator"]
        columns["accelerator"] = Coded(np.where(own, len(machines.levels), machines.codes), (*machines.levels, here))
    columns = {name: column.compact() if isinstance(column, Coded) else column for name, column in columns.items()}
    return Scenario(kind, cells.size, columns, cells.why(why), cells.noted())


def _accelerator(cells: Columns) -> Coded:
    """Return machines by name: accelerator, server or instance; "" where the cell is blank."""
    machines = cells.read("accelerator", machine_of)
    named = together(cells.text("accelerator"), machines)
    cells.note(
        named.map(
            lambda pair: (
                f"accelerator {words.shown(pair[0])} = {pair[1].accelerator.key}"
                if pair[0] and pair[1] and catalog_shares(pair[0])
                else ""
            )
        )
    )
    return machines


@lru_cache(maxsize=4096)
def catalog_shares(cell: str) -> bool:
    """Return whether several accelerators share a name."""
    try:
        hardware.accelerator(cell)
    except UnknownName as problem:
        return bool(getattr(problem, "shared", False))
    except ValueError:
        return False
    return False


@lru_cache(maxsize=65536)
def machine_of(cell: str) -> tuple[Any, str]:
    """Return the machine of a cell, and what is wrong with it."""
    if words.is_blank(cell):
        return "", ""
    try:
        return hardware.machine(cell), ""
    except UnknownName as problem:
        if getattr(problem, "shared", False):
            return hardware.machine(usual_of(problem.nearest)), ""
        return "", refusal_of(problem)
    except ValueError as problem:
        return "", refusal_of(problem)


def usual_of(keys: list[str]) -> str:
    """Return, of several accelerators of one name, the first that came with a fast link, else the first that came."""
    rows = catalog.table("accelerators").set_index("key").loc[list(keys)]
    linked = rows[rows["device_link_kind"] == "fast"]
    return str((linked if len(linked) else rows)["launch_date"].idxmin())


def _precision(cells: Columns, widened: bool = False) -> Coded:
    """Return number formats; of training, the wider one where 8 bits are stated beside 16."""

    def one(cell: str) -> tuple[str, str]:
        name = "" if words.is_blank(cell) else words.precision(without("precision_beside", cell) if widened else cell)
        if name in FORMATS() or words.is_blank(cell):
            return name, ""
        remedy = "write bf16, fp16, tf32, fp32 or fp8"
        return "", f"precision = {words.shown(cell)} is no number format that is known; {remedy}"

    if widened:
        cells_of_precision = cells.text("precision")
        cells.note(
            cells_of_precision.map(
                lambda cell: f"{words.shown(cell)} counted in 16 bits" if mentions("precision_beside", cell) else ""
            )
        )
    return cells.read("precision", one)


@lru_cache(maxsize=1)
def FORMATS() -> tuple[str, ...]:
    """Return the number formats of the catalogue."""
    return tuple(catalog.table("number_formats")["name"])


def _interleave(c: Columns, columns: dict[str, Any]) -> None:
    """Set the chunks of a stage where a report states a pipeline and no chunks: those of its software's recipes."""
    stages, stated = columns.get("pp", NOTHING), columns.get("vp", NOTHING)
    usual = together(c.text("software"), c.text("locator"), columns["pipeline_schedule"]).where(
        lambda row: mentions("interleaved", row[0] or row[1]) and not row[2]
    )
    blank = usual & np.isnan(stated) & (stages > 1)
    if np.any(blank):
        chunks = usual_chunks(columns.get("layers", NOTHING), stages)
        columns["vp"] = np.where(blank, chunks, stated)
        c.note(Coded(np.asarray(blank & (chunks > 1)).astype(int), ("", "vp: as the recipes of this stack cut stages")))


@lru_cache(maxsize=1)
def _own_ports() -> frozenset[str]:
    """Return generations of devices whose links are ports of Ethernet, which also leave the node."""
    rows = catalog.table("accelerators")
    return frozenset(rows.loc[rows["device_link"].fillna("").str.contains("RoCE"), "generation"])


def _networks_of(c: Columns, stated: Any) -> dict[str, Any]:
    """Return the networks of a device and of a node, and the number of devices that the fast link joins."""
    rates = c.values(
        c.text("node_network"),
        lambda cell: (words.network(cell)[:2], words.network(cell)[2].replace("network =", "node_network =")),
        "node_network",
    )
    rate, of_node = rates.part(0), rates.part(1)
    link = c.text("intra_node_link").each(words.domain)
    # Boards whose devices have ports of their own exchange over those; what a report states is the host's adapter.
    own = c.read("accelerator", machine_of).where(lambda machine: machine != "" and machine.generation in _own_ports())
    rate = np.where(own, np.nan, rate)
    return {
        "node_network": np.where(of_node == 1, rate, np.nan),
        "network": np.where(np.isnan(stated) & (of_node == 0), rate, stated),
        "domain": np.where(np.isnan(c.number("domain")), link, c.number("domain")),
    }


def _transformer(c: Columns) -> dict[str, Any]:
    """Return the typed columns of training of transformers."""
    columns: dict[str, Any] = {name: c.number(name) for name in COUNTS if name in c}
    parallelism.of_cells(c, columns)
    named = c.text("model").map(networks.spoken)
    counted = together(named, c.text("parameters"), c.text("params_b"))
    columns["model"] = c.values(counted, lambda row: networks.divided(row[0], any(row[1:])))
    c.note(counted.map(lambda row: networks.BY_PARAMETERS * (any(row[1:]) and bool(networks.divided(row[0])[1]))))
    # The size in a name counts where no cell states another.
    nameless = named.map(lambda name: name if not name.key else networks.NamedNetwork())
    bare = np.isnan(columns.get("layers", NOTHING))
    for name, billions, spoken in (
        ("parameters", "params_b", nameless.each(lambda model: model.parameters)),
        ("active_parameters", "params_active_b", nameless.each(lambda model: model.active)),
    ):
        stated = c.number(name)
        stated = np.where(np.isnan(stated), c.number(billions, 1e9, name), stated)
        columns[name] = np.where(bare & np.isnan(stated), spoken, stated)
        bare = bare & np.isnan(stated)
    c.note(named.map(lambda model: model.assumed))
    if "decoder_layers" in c:
        columns["layers"] = columns.get("layers", NOTHING) + np.nan_to_num(c.number("decoder_layers", field="layers"))
    latent = c.text("head_dim").where(partial(mentions, "latent_attention"))
    columns["head_dim"] = c.number("head_dim")
    columns["latent_attention"] = np.where(latent, 1.0, c.flag("latent_attention"))
    columns["gated_mlp"] = c.flag("gated_mlp", reader=words.gated)
    columns["accelerator"], columns["precision"] = _accelerator(c), _precision(c)
    zero = together(c.text("zero"), c.text("parallelism")).map(lambda cells: cells[0] or parallelism.stage(cells[1]))
    stage = c.values(zero, lambda cell: (words.zero_stage(cell)[:2], words.zero_stage(cell)[2]), "zero")
    columns["zero"], group = stage.part(0), stage.part(1)
    stated = c.number("shard")
    columns["shard"] = np.where(np.isnan(stated), np.where(group > 0, group, np.nan), stated)
    columns["shard_in_node"] = np.where(group < 0, 1.0, c.flag("shard_in_node"))
    parallelism.sequences(c, columns)
    columns["recompute"] = c.values(
        together(c.text("recompute"), c.text("recompute_modules")), lambda pair: words.recompute(*pair), "recompute"
    )
    kernel = c.read("attention", lambda cell: (words.attention(cell)[:2], words.attention(cell)[2]))
    columns["attention"] = kernel.map(lambda pair: pair[0])
    norm = c.flag("fused_norm")
    columns["fused_norm"] = np.where(np.isnan(norm), kernel.each(lambda pair: pair[1]), norm)
    _adapters(c, columns)
    notes = together(c.text("pipeline_schedule"), c.text("note"))
    columns["pipeline_schedule"] = c.values(notes, lambda pair: words.schedule(*pair))
    offload = c.read("offload", words.offload)
    columns["offload"] = offload.map(lambda pair: pair[0])
    stated = c.number("offloaded_layers")
    columns["offloaded_layers"] = np.where(np.isnan(stated), offload.each(lambda pair: pair[1]), stated)
    columns |= _networks_of(c, columns.get("network", NOTHING))
    _interleave(c, columns)
    # A stack that says which norms it fuses is none of 2021.
    # Nor does a kernel in the word of the schema name software; the words of a report do.
    kernel = together(columns["attention"], c.text("fused_norm"), c.text("attention")).map(
        lambda row: "fused" if row[0] == FUSED and (row[1] or row[2].casefold() == FUSED) else row[0]
    )
    hints = together(*map(c.text, ("software", "locator", "zero")), kernel, *map(c.text, ("precision", "accelerator")))
    # The page that a row comes from speaks where the row does not name its software; a device alone does not.
    columns["software"] = hints.map(
        lambda e: words.stack("transformer", e[0] or e[1], "; ".join(e[2:] if e[0] or e[1] else e[2:5]))
    )
    return columns


def _tuned(cell: str) -> tuple[str, str]:
    """Return the way of fine-tuning in its typed word, and what is wrong with the words."""
    word = "" if words.is_blank(cell) else meaning("fine_tuning", cell)
    return word, "" if word or words.is_blank(
        cell
    ) else f"fine_tuning = {words.shown(cell)} is not known; write pretrain, full or lora"


def _adapters(c: Columns, columns: dict[str, Any]) -> None:
    """Set the way of fine-tuning, rank and modules of adapters, which notes may state, and the optimiser."""
    named = together(c.text("fine_tuning"), c.text("model")).map(lambda pair: words.adapted(*pair))
    tuned = together(named, c.text("fine_tuning")).map(lambda pair: pair[0] or pair[1])
    columns["fine_tuning"] = c.values(tuned, _tuned, "fine_tuning")
    c.note(named.map(lambda way: way and f"fine_tuning = {way}, as its model says"))
    # GPTQ's integers are widened by plain operations; kernels of their own widen other 4-bit formats.
    columns["widening"] = c.text("precision").map(partial(meaning, "widening"))
    notes = together(columns["fine_tuning"], c.text("target_modules"), c.text("note"))
    stated_adapters = notes.map(lambda row: words.adapters(*row[1:]) if "lora" in row[0] else (np.nan, ""))
    stated = c.number("rank")
    columns["rank"] = np.where(np.isnan(stated), stated_adapters.part(0), stated)
    columns["target_modules"] = stated_adapters.map(lambda pair: pair[1])
    kinds = c.text("optimiser").map(words.optimiser)
    columns["optimiser"] = kinds.map(lambda pair: pair[0])
    c.note(kinds.map(lambda pair: pair[1]))


def _inputs(c: Columns, columns: dict[str, Any], inputs: Coded) -> None:
    """Set network, changed arguments, length and counted items of rows."""
    c.problems.append(inputs.map(lambda item: item.why))
    c.note(inputs.map(lambda item: item.assumed))
    columns["model"] = inputs.map(lambda item: item.name)
    columns["network_arguments"] = inputs.map(lambda item: item.arguments)
    for name, field in (("seq", "seq"), ("items", "items"), ("batch_in_items", "in_items")):
        columns[name] = inputs.figure(field)


def _network(c: Columns) -> dict[str, Any]:
    """Return the typed columns of classic training."""
    columns: dict[str, Any] = {}
    named = together(c.text("model"), c.text("task_input"), c.text("unit"))
    if "seq" in c:
        length = c.number("seq")
        columns["stated"] = length
    _inputs(c, columns, named.map(lambda row: networks.trained(*row)))
    if "stated" in columns:
        stated = columns.pop("stated")
        columns["seq"] = np.where(np.isnan(stated), columns["seq"], stated)
    for name in ("batch", "global_batch", "accumulation", "devices", "per_node"):
        columns[name] = c.number(name)
    columns["accelerator"], columns["precision"] = _accelerator(c), _precision(c, widened=True)
    notes = c.text("software_notes")
    columns["one_process"] = notes.where(partial(mentions, "one_process")).astype(float)
    columns["no_update"] = notes.where(partial(mentions, "no_update")).astype(float)
    hints = together(c.text("software"), notes, c.text("accelerator"))
    # Where nothing is said about software, the usual one of the device is taken, and reported.
    columns["software"] = hints.map(lambda e: words.stack("classic", e[0], "; ".join(e[1:])) if e[0] or e[1] else "")
    inner = together(columns["accelerator"], c.text("intra_node_link"))
    columns["link"] = inner.each(lambda pair: node_link(*pair))
    columns["node_network"] = c.values(c.text("inter_node_link"), _node_network).each(float)
    return columns


def node_link(machine: Any, cell: str) -> float:
    """Return the rate of a device within its node that an all-reduce reaches, where the words change it; else NaN
    [B/s]."""
    if machine == "" or not cell:
        return np.nan
    device, text = machine.accelerator, cell.casefold()
    link, bus = meaning("link", text), re.search(r"pcie\D{0,4}(\d)", text)
    if not link:
        return np.nan
    key = f"pcie-{bus[1]}-0-x16" if bus else ""
    links = catalog.table("interconnects")["key"].tolist()
    return ring_link(device, link, key if key in links else "")


def _node_network(cell: str) -> tuple[float, str]:
    """Return the network rate of a node that a text states [B/s], and what is wrong with it."""
    ports, rate = PORTS.search(cell), RATE.search(cell)
    if ports and float(ports[1]) * float(ports[2]) > 0:
        return float(ports[1]) * float(ports[2]) / 8 * 1e9, ""
    if rate and not mentions("network_of_machine", cell) and float(rate[1]) > 0:
        return float(rate[1]) / 8 * 1e9, ""
    value, _, problem = words.network(cell)
    return (value if words.BYTES.search(cell) else np.nan), problem


def _inference(c: Columns) -> dict[str, Any]:
    """Return the typed columns of inference."""
    columns: dict[str, Any] = {}
    metric = c.text("metric") if "metric" in c else c.text("unit")
    way = columns["scenario"] = c.read("scenario", words.way)
    lengths = together(c.text("input_len"), c.text("data_set")).map(lambda pair: words.length(*pair))
    named = together(c.text("model"), lengths, metric, way)
    inputs = named.map(lambda row: networks.served(*row))
    _inputs(c, columns, inputs)
    columns["input_len"] = inputs.each(lambda item: item.length)
    for name, billions in (("parameters", "params_b"), ("active_parameters", "params_active_b")):
        stated = c.number(name)
        stated = np.where(np.isnan(stated), c.number(billions, 1e9, name), stated)
        columns[name] = np.where(np.isnan(stated), inputs.figure(name), stated)
    unnamed = np.isnan(columns["parameters"]) & inputs.where(lambda item: bool(item.lost))
    c.problems.append(
        Coded(np.where(unnamed, inputs.codes, len(inputs.levels)), (*(i.lost for i in inputs.levels), ""))
    )
    metrics = metric.map(networks.metric_of)
    columns["counts"], columns["delay_of"] = (
        metrics.map(lambda quantity: quantity.counts),
        metrics.map(lambda quantity: quantity.delay),
    )
    c.problems.append(metrics.map(lambda quantity: quantity.why))
    columns["delay"], columns["each_device"] = (
        metrics.each(lambda e: bool(e.delay)),
        metrics.each(lambda e: e.each_device),
    )
    for name in ("batch", "tp", "pp", "ep", "output_len", *POLICY):
        columns[name] = c.number(name)
    # A data set that is named for the prompts counts for the answers, too.
    blank = np.isnan(columns["output_len"])
    columns["output_len"] = np.where(blank, inputs.figure("answer"), columns["output_len"])
    c.note(Coded(np.where(blank, inputs.codes, len(inputs.levels)), (*(item.answered for item in inputs.levels), "")))
    columns["schedule"] = c.choice("schedule")
    if mentions("column_of_concurrency", normal(c.headers.get("batch", ""))):
        columns["scenario"] = way.map(lambda word: word or "server")
    devices, printed, notes = c.number("devices"), c.text("accelerator_as_printed"), c.text("note")
    chips = printed.each(lambda cell: 0.5 if mentions("chip", cell) else 1.0)
    columns["devices"] = np.where(devices > 1, devices * chips, devices)
    for name, pattern in (("replicas", REPLICAS), ("in_flight", WORKERS), ("ep", EXPERTS)):
        noted = notes.map(pattern.search).each(lambda match: float(match[1]) if match else np.nan)
        columns[name] = np.where(np.isnan(stated := columns.get(name, NOTHING)), noted, stated)
    columns["accelerator"] = _accelerator(c)
    formats = together(c.text("number_format"), c.text("precision_text"))
    columns["precision"] = c.values(formats, lambda pair: _stored(*pair))
    # Weights, activations and cache of a language model, as in fp8/bf16/fp16; else what the name of a checkpoint says.
    cells = formats.map(lambda pair: (pair[1] or pair[0]).split("/"))
    stated_formats = together(cells, inputs, c.text("weights_format"), c.text("kv_format"))
    stored_formats = stated_formats.map(lambda row: _stored_formats(*row))
    columns["weights_format"], columns["kv_format"] = (
        stored_formats.map(lambda row: row[0]),
        stored_formats.map(lambda row: row[1]),
    )
    c.problems.append(stored_formats.map(lambda row: row[2]))
    c.note(stored_formats.map(lambda row: row[3]))
    columns["activations"] = cells.map(lambda parts: _stored("", parts[1] if len(parts) > 1 else parts[0])[0])
    hints = together(c.text("software"), notes.map(partial(without, "host_note")), way, c.text("accelerator"))
    for name, kind in (("software", "inference"), ("engine", "generation")):
        columns[name] = hints.map(partial(words.software, kind))
    columns["served"] = named.where(lambda row: networks.served(*row).served)
    if way.levels != ("",):
        columns["served"] = columns["served"] | way.where(lambda cell: cell.casefold() in ("decode", "prefill"))
    return columns


@lru_cache(maxsize=4096)
def _stored(number_format: str, precision: str) -> tuple[str, str]:
    """Return the number format of the products of a row, from the format column or else from the printed precision.

    >>> _stored("", "FP32/Matmult-BF16")[0], _stored("", "int8,fp16")[0], _stored("", "")[0], _stored("", "single")[0]
    ('bf16', 'int8', '', 'fp32')
    """
    word = meaning("precision_printed", precision)
    if word:
        return word, ""
    for cell in filter(None, (number_format, precision)):
        if words.is_blank(cell):
            continue
        name = words.precision(cell) if cell.casefold() != "int8" else "int8"
        if name in FORMATS():
            return name, ""
        if mentions("weights_alone", cell):
            unlisted = re.search(r"q\d", cell, re.I) and not networks.stored(cell.split("/")[0])
            return "", f"weights_format = {words.shown(cell)} is not known" if unlisted else ""
        problem = f"precision = {words.shown(cell)} is no known number format; write fp32, fp16, bf16, fp8, fp4 or int8"
        return "", problem
    return "", ""


def _stored_formats(cells: list[str], named: networks.Input, weights: str, cache: str) -> tuple[str, str, str, str]:
    """Return the formats of weights and of keys and values, what is wrong with them, and what was assumed."""
    assumed, problems = [], []
    by_field = {"weights_format": "", "kv_format": ""}
    for field, column, cell, name in (
        ("weights_format", weights, cells[0], named.weights),
        ("kv_format", cache, cells[2] if len(cells) > 2 else "", named.cache),
    ):
        whole = len(cells) > 1 or not name
        word = networks.stored(column, field) or (networks.stored(cell, field) if whole else "") or name
        if not words.is_blank(column) and not networks.stored(column, field):
            problems.append(f"{field} = {words.shown(column)} is not known; take one of {fields()[field].allowed}")
        if name and word == name and words.is_blank(column) and not (whole and networks.stored(cell, field)):
            assumed.append(f"{field} = {name}")
        by_field[field] = word
    return by_field["weights_format"], by_field["kv_format"], "; ".join(problems), "; ".join(assumed)


def split(scenario: Scenario) -> list[tuple[np.ndarray, Scenario]]:
    """Return rows of inference by what answers them: one forward pass, or the answer of a language model.

    Returns
    -------
    list of (numpy.ndarray of int, Scenario)
        Places of the rows, and the rows.
    """
    served = np.broadcast_to(scenario.columns["served"], (len(scenario),))
    parts = []
    for kind, at in ((SERVED, np.flatnonzero(~served)), (GENERATION, np.flatnonzero(served))):
        if len(at):
            rows = scenario.take(at)
            columns = dict(rows.columns)
            if kind != SERVED:
                columns["precision"], columns["software"] = columns["activations"], columns["engine"]
            parts.append((at, replace(rows, kind=kind, columns=columns)))
    return parts


def clear_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table of measurements of which it is clear what was run; the others are never fitted."""
    keep = np.ones(len(frame), dtype=bool)
    for name in CLEARING_COLUMNS:
        if name in frame:
            keep &= [mentions(f"measured_{name}", str(cell)) for cell in frame[name]]
    return frame[keep].reset_index(drop=True)


def without_outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same rows without their outcomes."""
    return frame.drop(columns=[name for name in OUTCOMES if name in frame.columns])


@lru_cache(maxsize=8)
def _read(table: str) -> pd.DataFrame:
    catalog.table(table)
    cells = pd.DataFrame(list(tables.raw(table, catalog.data_directory()).records()))
    sources = catalog.table("sources").set_index("key")["url"]
    pages = [f"{cell} {sources[cell.split(';')[0]]}" for cell in cells["source"]]
    return cells.assign(locator=[f"{page} {cell}" for page, cell in zip(pages, cells["locator"], strict=True)])


def measurements_of(kind: str) -> str:
    """Return the table of the measurements of a kind: those of language models are among the rows of inference."""
    return SERVED if kind == GENERATION else kind


def measured_table(kind: str) -> pd.DataFrame:
    """Return the measurements of a kind as text.

    Parameters
    ----------
    kind : str
        "training_classic", "training_transformer", "training_out_of_memory", "inference" (all of them) or "generation"
        (those of language models that answer token by token).
    """
    cells = _read(measurements_of(kind)).copy()
    if kind != GENERATION:
        return cells
    served = np.broadcast_to(read(SERVED, without_outcomes(cells)).columns["served"], (len(cells),))
    return cells[served].reset_index(drop=True)


def measured(kind: str, frame: pd.DataFrame) -> np.ndarray:
    """Return the outcomes of measured rows: seconds of a step of transformers, else a rate; NaN where none is
    stated."""
    names = ("step_time_s", "step_seconds") if kind == TRANSFORMER else ("value",)
    name = next((column for column in names if column in frame), "")
    if not name:
        return np.full(len(frame), np.nan)
    values = frame[name].tolist()
    outcomes = np.array([float(v) if str(v).strip() not in ("", "nan") else np.nan for v in values], dtype=float)
    if measurements_of(kind) != SERVED:
        return outcomes
    seconds = np.array([networks.metric_of(str(metric)).seconds for metric in frame["metric"]], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isfinite(seconds), 1 / (outcomes * seconds), outcomes)


def needs_care(frame: pd.DataFrame) -> np.ndarray:
    """Return rows of inference of which it is not clear what was run, or that are several passes; never fitted."""

    def texts(name: str) -> list[str]:
        return frame[name].astype(str).tolist() if name in frame else [""] * len(frame)

    rows = zip(texts("model"), texts("input_len"), texts("scenario"), strict=True)
    care = np.array([networks.input_row(*row).get("care") == "yes" for row in rows], dtype=bool)
    variants = np.array([mentions("variant", note) for note in texts("note")], dtype=bool)
    queued = np.array([way == "server" for way in texts("scenario")], dtype=bool)
    counts = (networks.metric_of(metric) for metric in texts("metric"))
    tokens = [m.counts in networks.ANSWER_COUNTS or m.delay in ("first token", "token") for m in counts]
    return care | variants | queued | np.array(tokens, dtype=bool)


def publishers(frame: pd.DataFrame) -> np.ndarray:
    """Return the publisher (`source_group`) of each row; that of the first source where there are several."""
    sources = catalog.table("sources")
    group = dict(zip(sources["key"], sources["source_group"], strict=True))
    return np.array([group.get(cell.split(";")[0], cell) for cell in frame["source"]])
