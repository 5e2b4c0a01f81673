"""Rows of classic training as arrays: network, batch, machine and software; measured outcomes are never read."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.prediction import transformer_hardware as machines
from cookbook.prediction import transformer_text as words
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

GIGA = 1e9
LENGTH = re.compile(r"seq(?:uence)?[ _]?len(?:gth)?\D{0,3}(\d+)", re.I)
SQUARE = re.compile(r"^\s*(\d+)\s*x\s*(\d+)\s*x\s*3\b", re.I)
PORTS = re.compile(r"(\d+)\s*x\D*(?:[A-Za-z]+-?\d*\s+)*?(\d+)\s*g", re.I)
RATE = re.compile(r"(\d+)\s*g", re.I)
WITHOUT_UPDATE = re.compile(r"no optimi[sz]er|forward\s*\+\s*backward|optimi[sz]er step not", re.I)
ONE_PROCESS = re.compile(r"nn\.DataParallel|single.process", re.I)
BUS = re.compile(r"pcie\D{0,4}(\d)", re.I)
LARGEST_NODE = 16
ONE_A_SAMPLE = ("images/s", "sequences/s", "volumes/s", "samples/s", "molecules/s", "items/s", "users/s")
# Families trained with Adam or one of its kind; the others with momentum.
ADAM = ("transformer", "moe", "encoder", "vision_transformer", "rnn", "speech", "recommender", "diffusion")
FORMATS = {"fp16": ("fp16",), "bf16": ("bf16", "fp16"), "tf32": ("tf32",), "fp32": ()}
DEVICE = ("peak", "vector_peak", "mem_bandwidth", "element_bytes", "unit_kind", "lanes")
DOES = ("launches", "fused", "transposes", "fast_algorithms")
# Networks whose embedding tables get gradients only where a sample looked.
SPARSE = "recommender"
# Generations that the table does not list: schedulers with cycles to spare.
SPARE = 0.5
FIGURES = (
    "batch", "accumulation", "devices", "per_node", "nodes", "peak", "vector_peak", "mem_bandwidth", "link", "network",
    "element_bytes", "update_bytes", "sparse", "in_turn", "items", *DOES,
)  # fmt: skip


@dataclass(frozen=True)
class Scenarios:
    """Rows as arrays, one entry a row; SI, counts as floats, NaN where `why` says what is missing.

    Attributes
    ----------
    values : mapping of str to numpy.ndarray
        All numbers by name; ``unit_kind`` is 0 for vector units, 1 for matrix units in 16 bits, 2 in TF32.
    network : numpy.ndarray of int
        Row of `networks`, -1 for none.
    networks : tuple of tuple
        Name (or the reader's own network), changed arguments and sequence length of each distinct network.
    why : numpy.ndarray of str
        Empty where the row can be predicted, else a sentence.
    tier_keys : mapping of str to numpy.ndarray
        ``accelerator``, ``vendor``, ``family``, ``engine``, ``scale`` and ``moe``.
    """

    values: dict[str, np.ndarray] = field(repr=False)
    network: np.ndarray
    networks: tuple[tuple[str | Workload, str, float | None], ...]
    why: np.ndarray
    tier_keys: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.why)

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def take(self, index: Any) -> Scenarios:
        """Some of the rows."""
        values, keys = ({k: v[index] for k, v in part.items()} for part in (self.values, self.tier_keys))
        return Scenarios(values, self.network[index], self.networks, self.why[index], keys)


@dataclass(frozen=True)
class Input:
    """What the words about model, input and unit of a row mean."""

    name: str | Workload = ""
    arguments: str = ""
    seq: float | None = None
    items: float = 1.0
    batch_in_items: bool = False
    family: str = ""
    why: str = ""


def scenarios(frame: pd.DataFrame, own: Workload | None = None) -> Scenarios:
    """Rows of a table as arrays.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns of the table ``training_classic``; any may be absent or blank, cells may be text.
    own : Workload, optional
        A network that is not in the zoo, for all rows; they count samples.
    """
    reader = read_input if own is None else partial(own_input, own)
    inputs = each_row(frame, ("model", "task_input", "unit"), reader)
    softwares = each_row(frame, ("software", "software_notes", "accelerator"), software)
    devices = each_row(frame, ("accelerator", "precision"), device)
    known: dict[tuple[str | Workload, str, float | None], int] = {}
    index = [known.setdefault((i.name, i.arguments, i.seq), len(known)) if i.name else -1 for i in inputs]
    values = _counts(frame, inputs)
    for name in DEVICE:
        values[name] = np.array([each[name] for each in devices], dtype=float)
    for name in DOES:
        values[name] = np.array([each[1][name] for each in softwares], dtype=float)
    alone = words.distinct(words.texts(frame, "software_notes"), lambda text: bool(ONE_PROCESS.search(text)))
    # One interpreter that starts the kernels of all its devices one after the other.
    values["in_turn"] = np.where(np.array(alone, dtype=bool), values["per_node"], 1.0)
    values |= _links(frame, devices, values)
    values["update_bytes"] = _updates(frame, inputs)
    values["sparse"] = np.array([each.family == SPARSE for each in inputs], dtype=float)
    keys = {
        name: np.array([each[name] for each in devices], dtype=object) for name in ("accelerator", "vendor", "family")
    }
    keys["engine"] = np.array([each[0] for each in softwares], dtype=object)
    keys["scale"] = np.select([values["nodes"] > 1, values["devices"] > 1], ["multi-node", "1 node"], "1 device")
    keys["moe"] = np.zeros(len(frame), dtype=bool)
    why = _refusals(inputs, devices, values)
    for name in FIGURES:
        values[name] = np.where(why == "", values[name], np.nan)
    return Scenarios(values, np.array(index, dtype=int), tuple(known), why, keys)


def each_row(frame: pd.DataFrame, columns: tuple[str, ...], reader: Any) -> list[Any]:
    """`reader` of some cells of every row, run once for each distinct combination."""
    cells = list(zip(*(words.texts(frame, column) for column in columns), strict=True))
    known: dict[tuple[str, ...], Any] = {}
    return [known[row] if row in known else known.setdefault(row, reader(*row)) for row in cells]


@lru_cache(maxsize=4096)
def read_input(model: str, task_input: str, unit: str) -> Input:
    """The network of a row, and how many of the counted items one sample has.

    >>> read_input("BERT large pretrain phase1", "seq_len 128", "tokens/s").items
    128.0
    """
    if not model:
        return Input(why="model is blank: name a network of the zoo")
    try:
        found = zoo.model(model)
    except KeyError as unknown:
        return Input(why=str(unknown))
    row = _input_row(found.name, task_input)
    arguments, seq = str(row.get("arguments", "") or ""), row.get("seq", math.nan)
    length, square = LENGTH.search(task_input), SQUARE.search(task_input)
    if not math.isfinite(seq):
        seq = float(length.group(1)) if length else found.seq if found.seq else math.nan
    if not arguments and square and square.group(1) == square.group(2):
        arguments = square_image(found.name, int(square.group(1)))
    positions = seq if math.isfinite(seq) else math.nan
    items = _items(row, positions, unit)
    why = "" if math.isfinite(items) and items > 0 else f"unit {unit!r} cannot be counted for {found.title}"
    if math.isfinite(seq) and seq < 1:
        why = f"sequence length {seq:g} in {task_input!r} must be 1 or more"
    return Input(found.name, arguments, seq if math.isfinite(seq) else None, items,
                 row.get("batch_in_items") == "yes", found.family, why)  # fmt: skip


def own_input(own: Workload, _model: str, task_input: str, _unit: str) -> Input:
    """The same for a network of the reader's own."""
    length = LENGTH.search(task_input)
    seq = float(length.group(1)) if length else own.seq
    sequential = not {"attention", "recurrent", "embedding"}.isdisjoint(own.ops.kind.tolist())
    why = "seq: the network needs a sequence length" if own.ops.needs_seq and not seq else ""
    family = ADAM[0] if sequential else own.family
    return Input(own, seq=seq, family=family, why=why)


def _items(row: dict[str, Any], positions: float, unit: str) -> float:
    if unit in ONE_A_SAMPLE or not unit:
        return 1.0
    fixed, each = row.get("items", math.nan), row.get("items_per_position", math.nan)
    return fixed if math.isfinite(fixed) else positions * (each if math.isfinite(each) else 1.0)


def _input_row(name: str, task_input: str) -> dict[str, Any]:
    rows = catalog.table("classic_inputs")
    for row in rows[rows["model"] == name].to_dict("records"):
        if re.search(row["pattern"], task_input, re.I):
            return row
    return {}


@lru_cache(maxsize=1024)
def square_image(name: str, side: int) -> str:
    """Changed arguments that give a network square images of that side; none where it takes no such images."""
    kinds = set(zoo.model(name).ops.kind.tolist())
    for value in (side, [side, side]):
        try:
            # Images would turn a network of volumes into another one.
            if side > 0 and set(zoo.model(name, image=value).ops.kind.tolist()) == kinds:
                return json.dumps({"image": value})
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            continue
    return ""


@lru_cache(maxsize=4096)
def software(name: str, notes: str, accelerator: str) -> tuple[str, dict[str, float]]:
    """Software level of a row, and what that level does with operations.

    >>> software("TensorFlow 2.3.0", "no XLA", "v100")[0]
    'graph'
    """
    text = f"{name}; {notes}; {accelerator}"
    levels = catalog.table("software_levels")
    levels = levels[levels["kind"] == "classic"]
    pairs = zip(levels["pattern"], levels["level"], strict=True)
    level = next((str(level) for pattern, level in pairs if re.search(pattern, text, re.I)), "")
    rows = catalog.table("classic_engines").set_index("level")
    # Without a pattern that fits, what most levels do.
    row = rows.loc[level] if level else rows[list(DOES)].median()
    return level, {name: float(row[name]) for name in DOES}


@lru_cache(maxsize=4096)
def device(name: str, precision: str) -> dict[str, Any]:
    """Peaks and memory of a row's device in its number format; NaN where it has none."""
    blank = dict.fromkeys(DEVICE, math.nan)
    known = {**blank, "accelerator": "", "vendor": "", "family": "", "why": ""}
    number_format = words.number_format(precision.replace("fp32_or_", ""))
    if not name:
        return {**known, "why": "accelerator is blank: name one of the catalogue"}
    if not number_format:
        return {**known, "why": f"precision {precision!r} is not one of fp32, tf32, fp16, amp_fp16, bf16"}
    try:
        found = hardware.accelerator(name)
    except (KeyError, ValueError) as unknown:
        return {**known, "why": str(unknown)}
    known |= {"accelerator": found.key, "vendor": found.vendor, "family": machines.family(found.key)}
    if number_format in ("fp8", "fp4"):
        return {**known, "why": f"precision {precision!r}: networks of this kind are not predicted in 8 or 4 bits"}
    lacks = number_format == "bf16" and not math.isfinite(hardware.peak_flops(found, "bf16"))
    if lacks and math.isfinite(hardware.peak_flops(found, "fp16")):
        return {**known, "why": f"precision {precision!r}: {found.name} has {', '.join(hardware.formats(found))}"}
    half = number_format not in ("fp32", "tf32")
    plain = found.peaks["peak_fp32"]
    matrix = [hardware.peak_flops(found, each) for each in FORMATS.get(number_format, ("bf16", "fp16"))]
    # Vector units keep sums in single precision, and so does a device whose matrix units would not be faster.
    matrix = [value for value in matrix if not value <= found.peaks["peak_fp16_vector"]]
    # Devices without single precision on vector units run it on matrix units.
    matrix += [hardware.peak_flops(found, each) for each in ("bf16", "fp16")] if not math.isfinite(plain) else []
    peak = next((value for value in matrix if math.isfinite(value)), math.nan)
    kind = 0.0 if not math.isfinite(peak) else 1.0 if half else 2.0
    peak = peak if math.isfinite(peak) else plain
    if not math.isfinite(peak * found.mem_bandwidth):
        known["why"] = f"{found.name} has no known peak in {number_format}, or no known memory bandwidth"
    return {
        **known,
        "peak": peak,
        "vector_peak": plain if math.isfinite(plain) else peak,
        "mem_bandwidth": found.mem_bandwidth,
        "element_bytes": 2.0 if half else 4.0,
        "unit_kind": kind,
        "lanes": lanes().get(machines.family(found.key), SPARE),
    }


@lru_cache(maxsize=1)
def lanes() -> dict[str, float]:
    """Lanes that one scheduler feeds, as a share of the width of an instruction, by generation."""
    rows = catalog.table("generations")
    return dict(zip(rows["generation"], rows["lanes"].astype(float), strict=True))


def _counts(frame: pd.DataFrame, inputs: list[Input]) -> dict[str, np.ndarray]:
    """Batch, accumulation, devices and nodes; what is blank follows from the rest."""
    batch, total = words.numbers(frame, "batch_per_device"), words.numbers(frame, "global_batch")
    accumulation, devices = words.numbers(frame, "grad_accum_steps"), words.numbers(frame, "devices")
    devices = np.where(np.isnan(devices) & _blank(frame, "devices"), 1.0, devices)
    per_node = words.numbers(frame, "per_node")
    per_node = np.where(per_node >= 1, per_node, np.minimum(devices, LARGEST_NODE / 2))
    per_node = np.minimum(per_node, devices)
    with np.errstate(divide="ignore", invalid="ignore"):
        short = total < 0.99 * batch * devices
        passes = np.maximum(np.round(total / (batch * devices)), 1)
        accumulation = np.where(accumulation >= 1, accumulation, np.where(np.isfinite(passes), passes, 1.0))
        batch = np.where(np.isnan(batch), total / (devices * accumulation), batch)
        nodes = np.ceil(devices / per_node)
    items = np.array([each.items for each in inputs], dtype=float)
    in_items = np.array([each.batch_in_items for each in inputs], dtype=bool)
    samples = np.where(in_items, batch / np.array([each.seq or 1.0 for each in inputs]), batch)
    return {"batch": samples, "accumulation": accumulation, "devices": devices, "per_node": per_node, "nodes": nodes,
            "items": items, "short": short}  # fmt: skip


def _blank(frame: pd.DataFrame, column: str) -> np.ndarray:
    return np.array([cell == "" for cell in words.texts(frame, column)], dtype=bool)


def _links(frame: pd.DataFrame, devices: list[Any], values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rate of a device's links within and between nodes that sums of gradients reach [B/s]."""
    names = [each["accelerator"] for each in devices]
    inner = words.texts(frame, "intra_node_link")
    outer = words.texts(frame, "inter_node_link")
    link = [node_link(*pair) if pair[0] else math.nan for pair in zip(names, inner, strict=True)]
    rows = zip(names, outer, values["per_node"].tolist(), strict=True)
    network = [network_link(*row) if row[0] else math.nan for row in rows]
    return {"link": np.array(link, dtype=float), "network": np.array(network, dtype=float)}


@lru_cache(maxsize=1)
def _shares() -> list[tuple[str, re.Pattern[str], float]]:
    rows = catalog.table("link_shares")
    return [(row["link"], re.compile(row["pattern"], re.I), float(row["share"])) for row in rows.to_dict("records")]


def _share(text: str) -> float:
    return next((share for _, pattern, share in _shares() if pattern.search(text)), 1.0)


@lru_cache(maxsize=4096)
def node_link(key: str, text: str) -> float:
    """Rate of one device within its node that an all-reduce reaches, one direction [B/s].

    >>> node_link("a100-sxm-80gb", ""), node_link("gtx-1080-ti", "")
    (225000000000.0, 4725000000.0)
    """
    if not text:
        return hardware.machine(hardware.accelerator(key)).ring_link
    table = catalog.table("accelerators")
    row = table.loc[table["key"] == key].iloc[0]
    fast, printed = row["device_link_bandwidth"], row["device_link"] or ""
    # A bridge joins two cards; sums over more devices cross the slower bus.
    bridged = re.search(r"bridge|pair", f"{printed} {text}", re.I) or not printed
    if math.isfinite(fast) and not bridged and not re.search(r"pcie", text, re.I):
        return float(fast) / 2 * _share(printed)
    generation = BUS.search(text) or BUS.search(row["host_link"] or "")
    card = "geforce" if row["name"].lower().startswith(("geforce", "titan")) else ""
    return _bus(generation.group(1) if generation else "3") * _share(f"pcie {card}")


@lru_cache(maxsize=16)
def _bus(generation: str) -> float:
    links = catalog.table("interconnects")
    found = links.loc[links["key"] == f"pcie-{generation}-0-x16", "bandwidth"]
    return float(found.iloc[0]) if len(found) else float(links.loc[links["key"] == "pcie-3-0-x16", "bandwidth"].iloc[0])


@lru_cache(maxsize=4096)
def network_link(key: str, text: str, per_node: float) -> float:
    """Rate of one device in the network between nodes that an all-reduce reaches [B/s]."""
    ports, rate = PORTS.search(text), RATE.search(text)
    nominal = math.nan
    if ports and float(ports.group(1)) * float(ports.group(2)) > 0:
        nominal = float(ports.group(1)) * float(ports.group(2)) / 8 * GIGA / max(per_node, 1)
    elif rate and "dgx" not in text.lower() and float(rate.group(1)) > 0:
        nominal = float(rate.group(1)) / 8 * GIGA / max(per_node, 1)
    return (nominal if math.isfinite(nominal) else machines.network_rate(key)) * _share("network")


def network_share() -> float:
    """Share of the rate of a network that sums of gradients reach."""
    return _share("network")


def _updates(frame: pd.DataFrame, inputs: list[Input]) -> np.ndarray:
    """Bytes that the optimiser moves for each parameter; 0 where the timed loop has no update."""
    table = catalog.table("optimisers").set_index("name")
    moved = 4.0 * (table["update_reads"] + table["update_writes"])
    notes = words.distinct(words.texts(frame, "software_notes"), lambda text: bool(WITHOUT_UPDATE.search(text)))
    names = ["adam" if each.family in ADAM else "momentum" for each in inputs]
    return np.array([0.0 if none else moved[name] for none, name in zip(notes, names, strict=True)], dtype=float)


def _refusals(inputs: list[Input], devices: list[Any], values: dict[str, np.ndarray]) -> np.ndarray:
    """Why a row cannot be predicted, the first reason that applies."""
    why = np.array([i.why or d["why"] for i, d in zip(inputs, devices, strict=True)], dtype=object)
    count, batch = values["devices"], values["batch"]
    whole = (count >= 1) & np.isfinite(count) & (count == np.round(count))
    checks = (
        (~whole, "devices must be a whole number, 1 or more"),
        (~((batch > 0) & np.isfinite(batch)), "batch_per_device is blank or not above 0, and global_batch gives none"),
        (values["short"], "global_batch is less than batch_per_device x devices"),
        (~np.isfinite(values["accumulation"]), "grad_accum_steps must be a number, 1 or more"),
    )
    for bad, reason in checks:
        why[(why == "") & bad] = reason
    return why.astype(str) if len(why) else np.zeros(0, dtype="<U1")
