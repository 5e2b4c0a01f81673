"""Step time of classic training (any network, data parallel): rows with blanks filled in, and the parts of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.refusals import Refusal
from cookbook.formulas import collectives
from cookbook.formulas import networks as formulas
from cookbook.hardware.machine import link_shares
from cookbook.prediction.constants import Constant
from cookbook.prediction.kinds.constraints import BLANK_MODEL, with_reason
from cookbook.prediction.kinds.network_arrays import Pairs, Products, network, products
from cookbook.prediction.neighbours import Runs
from cookbook.prediction.precision import usual_precision
from cookbook.prediction.scenario import BLANK, Coded, Rows, Scenario, together
from cookbook.prediction.scenario import step_seconds as step_seconds
from cookbook.prediction.software import of_machines
from cookbook.workloads import zoo

KIND = "training_classic"
LARGEST_NODE = 16
# Families trained with Adam or one of its kind; the others with momentum.
ADAM = ("transformer", "moe", "encoder", "vision_transformer", "rnn", "speech", "recommender", "diffusion")
SEQUENTIAL = frozenset({"attention", "recurrent", "embedding"})
# Networks whose embedding tables get gradients only where a sample looked.
SPARSE = "recommender"
SHORT = Refusal(
    "global_batch = {:g} is less than batch_per_device x devices = {:g}", "batch-below-replicas", "global_batch"
)
NO_SEQ = Refusal("seq: the network needs a sequence length", "length-missing", "seq")
DEVICE = ("peak", "vector_peak", "mem_bandwidth", "element_bytes", "unit_kind", "lanes", "convolution")
# What a device that was calibrated corrects, by constant.
CALIBRATED = {"launch": "host", "step_overhead": "host", "touch_instructions": "elementwise"}
CONSTANTS = (
    Constant("convolution_efficiency", 0.7, 0.2, 1.0),
    Constant("product_efficiency", 0.7, 0.2, 1.0),
    Constant("tf32_convolution", 0.6, 0.3, 1.3),
    Constant("peak_exponent", 0.15, 0.01, 0.6),
    Constant("deep_convolution", 0.7, 0.1, 1.2),
    Constant("other_instructions", 0.3, 0.05, 1.5),
    Constant("vector_convolution", 0.6, 0.2, 1.0),
    Constant("vector_product", 0.8, 0.2, 1.0),
    Constant("grouped_share", 0.15, 0.02, 1.0),
    Constant("depthwise", 0.09, 0.01, 1.0),
    Constant("memory_efficiency", 0.7, 0.3, 1.0),
    Constant("touch_instructions", 30.0, 1.0, 200.0),
    Constant("launch", 5e-5, 2e-6, 3e-4, "", "s"),
    Constant("fused_share", 0.45, 0.1, 1.0),
    Constant("score_touches", 18.0, 2.0, 60.0),
    Constant("step_overhead", 2.5e-3, 1e-5, 2e-2, "", "s"),
    Constant("node_waiting", 0.05, 0.001, 0.3),
)
# What an ablation may switch off.
TERMS = (
    "products",
    "traffic",
    "fast_algorithms",
    "elementwise",
    "launch",
    "transposes",
    "scores",
    "recurrence",
    "optimiser",
    "exchange",
    "waiting",
)
LINK_LATENCY, NETWORK_LATENCY = constant("message-start-in-node"), constant("message-start-between-nodes")
# Automatic mixed precision keeps weights and their gradients in 32 bits (PyTorch, TensorFlow), single precision too.
GRADIENT_BYTES = 4.0
# Where efficiency is defined; it cancels, as the efficiencies are fitted.
REFERENCE_PEAK = 2e14
BLOCK = 4096
PASSES = 3
R = TypeVar("R", bound=Rows)


class NetworkRows(Rows):
    """Training steps of any network, in data parallelism."""

    # Batch and what is counted.
    batch: np.ndarray  # samples of one device in one pass [-]
    accumulation: np.ndarray  # passes for one update (gradient accumulation) [-]
    total: np.ndarray  # samples of one update of all devices, as stated; NaN where not stated [-]
    least: np.ndarray  # samples or items of one pass of all devices where `total` is less (refused); else NaN [-]
    items: np.ndarray  # counted items of one sample: tokens of a sequence, or 1 [-]
    # Devices and their links.
    devices: np.ndarray  # devices in all [-]
    per_node: np.ndarray  # devices of a node that are used [-]
    nodes: np.ndarray  # nodes in all [-]
    link: np.ndarray  # rate of a device that an all-reduce within its node reaches, one direction [B/s]
    network: np.ndarray  # rate of a device that an all-reduce between nodes reaches, one direction [B/s]
    # Device in the number format of the products.
    peak: np.ndarray  # peak of the units that compute products, matrix or vector units [FLOP/s]
    vector_peak: np.ndarray  # peak of the vector units in single precision; `peak` where there is none [FLOP/s]
    mem_bandwidth: np.ndarray  # memory bandwidth [B/s]
    element_bytes: np.ndarray  # bytes of an element: 2 or 4 [B]
    unit_kind: np.ndarray  # units that compute products: 0 vector units, 1 matrix units in 16 bits, 2 in TF32
    lanes: np.ndarray  # lanes that one scheduler feeds, in widths of an instruction [-]
    convolution: np.ndarray  # measured rate of convolutions over the expected one; 1 where not measured [-]
    # Software.
    launches: np.ndarray  # time in which it starts and finishes an operation, over that of a graph executor [-]
    in_turn: np.ndarray  # devices whose kernels one process starts in turn; 1 where each device has a process [-]
    fused: np.ndarray  # 1 where norms, activations and sums are fused, 0 where each runs by itself
    transposes: np.ndarray  # 1 where convolutions on matrix units reorder tensors with channels first, else 0
    fast_algorithms: np.ndarray  # 1 where convolutions take whole batches, by Winograd if it saves; 0: image by image
    keeps_scores: np.ndarray  # 1 where attention writes its scores to memory, 0 where one kernel does all
    # Update of the weights.
    update_bytes: np.ndarray  # bytes that the optimiser moves for each parameter; 0 without an update [B]
    sparse: np.ndarray  # 1 where tables get gradients only for rows that samples look up (recommenders), else 0


def resolve(scenario: Scenario) -> NetworkRows:
    """Return scenarios with their network, machine and software; blanks filled."""
    s, assumed = scenario, list[Any]()
    resolved = look_up(s, KIND, DEVICE, assumed)
    devices, values, keys = resolved.devices, resolved.values, resolved.keys
    with np.errstate(all="ignore"):
        values |= _counts(s, values | of_devices(devices, ("per_node",)), resolved, assumed)
        values |= _links(s, devices, values)
    lacks = s.words("precision").where(lambda word: word == "")
    used = resolved.pairs.map(lambda pair: pair[1] or usual_precision(pair[0], KIND))
    assumed.append(("precision", lacks, used))
    # One interpreter that starts the kernels of all its devices one after the other.
    values["in_turn"] = np.where(s.number("one_process") == 1, values["per_node"], 1.0)
    moved = _update_bytes()
    update = resolved.families.each(lambda family: moved["adam" if family in ADAM else "momentum"])
    values["update_bytes"] = np.where(s.number("no_update") == 1, 0.0, update)
    values["sparse"] = resolved.families.each(lambda family: family == SPARSE)
    nodes, count = values["nodes"], values["devices"]
    keys["scale"] = Coded(np.where(nodes > 1, 2, np.where(count > 1, 1, 0)), ("1 device", "1 node", "multi-node"))
    return resolved.rows(NetworkRows, s, assumed)


@dataclass(frozen=True, eq=False)
class LookedUp:
    """The meaning of the names of rows: distinct networks, the index of each row's, devices, values, keys."""

    networks: tuple[tuple[Any, str, float | None], ...]
    network_index: np.ndarray
    families: Coded
    why: Coded
    pairs: Coded
    devices: Coded
    values: dict[str, np.ndarray]
    keys: dict[str, Coded]

    def rows(self, kind: type[R], s: Scenario, assumed: list[Any]) -> R:
        """Return the rows of a kind, when all values and keys are known."""
        lacks = self.devices.map(attrgetter("why"))
        refused = refuse(s.why, together(self.why, lacks).map(lambda reasons: reasons[0] or reasons[1]), self.values)
        full = {name: np.broadcast_to(np.asarray(value, dtype=float), (len(s),)) for name, value in self.values.items()}
        return kind(
            full, refused, self.keys, self.networks, np.broadcast_to(self.network_index, (len(s),)), tuple(assumed)
        )


def look_up(s: Scenario, kind: str, names: tuple[str, ...], assumed: list[Any]) -> LookedUp:
    """Return what names mean; `names` are those of the rates of devices that are used.

    Where no software is named, the usual one is used, and `assumed` reports it.
    """
    pairs = together(s.words("accelerator"), s.words("precision"))
    devices, keys, values = of_machines(pairs, s.words("software"), kind, assumed)
    return LookedUp(*of_networks(s), pairs, devices, of_devices(devices, names) | values, keys | {"special": BLANK})


def of_networks(s: Scenario) -> tuple[tuple[tuple[Any, str, float | None], ...], np.ndarray, Coded, Coded]:
    """Return distinct networks of a scenario, the index of each row's (-1: none), their families, and why one is
    invalid."""
    lengths = s.number("seq")
    if lengths.ndim:
        distinct, codes = np.unique(lengths, return_inverse=True)
        seq = Coded(codes, tuple(distinct.tolist()))
    else:
        seq = Coded(np.array(0), (float(lengths),))
    named = together(s.words("model"), s.words("network_arguments"), seq)
    index_of: dict[tuple[Any, str, float | None], int] = {}
    indices, families, whys = list[int](), list[str](), list[str]()
    for model, arguments, length in named.levels:
        network = zoo.model(model) if isinstance(model, str) and model else model
        if network == "":
            indices.append(-1)
            families.append("")
            whys.append(BLANK_MODEL)
            continue
        own = not isinstance(model, str)
        tokens = network.seq if math.isnan(length) else length
        tokens = tokens if network.ops.needs_seq else None
        lacks = network.ops.needs_seq and not tokens
        whys.append(NO_SEQ if lacks else "")
        key = (model, arguments, None if tokens is None else float(tokens))
        indices.append(-1 if lacks else index_of.setdefault(key, len(index_of)))
        sequential = own and not SEQUENTIAL.isdisjoint(network.ops.kind.tolist())
        families.append(ADAM[0] if sequential else network.family)
    codes = np.array(indices, dtype=int)[named.codes]
    return tuple(index_of), codes, Coded(named.codes, tuple(families)), Coded(named.codes, tuple(whys))


def of_devices(devices: Coded, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return values of the devices of rows."""
    return devices.figures(lambda device: {name: getattr(device, name) for name in names})


@lru_cache(maxsize=1)
def _update_bytes() -> dict[str, float]:
    """Return the bytes that an optimiser moves for each parameter in 32 bits."""
    table = catalog.table("optimisers").set_index("name")
    return dict(4.0 * (table["update_reads"] + table["update_writes"]))


@lru_cache(maxsize=1024)
def usual_batch(name: Any, arguments: str, seq: float | None) -> float:
    """Return the samples of a device in a pass where they are not stated: a power of two with enough work for any
    device."""
    counted = network(name, arguments, seq)
    return float(2.0 ** max(math.floor(math.log2(constant("training-macs") / float(counted.macs @ counted.count))), 0))


def _counts(
    s: Scenario, values: dict[str, np.ndarray], resolved: LookedUp, assumed: list[Any]
) -> dict[str, np.ndarray]:
    """Return batch, accumulation, devices and nodes; blanks follow from the rest."""
    batch, total = s.number("batch"), s.number("global_batch")
    unstated = np.isnan(batch) & np.isnan(total) & (resolved.network_index >= 0)
    if np.any(unstated):
        usual = np.array([*(usual_batch(*arguments) for arguments in resolved.networks), 1.0])[resolved.network_index]
        assumed.append(("batch", unstated, usual))
        batch = np.where(unstated, usual, batch)
    devices = np.where(np.isnan(s.number("devices")), 1.0, s.number("devices"))
    assumed.append(("devices", np.isnan(s.number("devices")), devices))
    per_node = s.number("per_node")
    usual = np.minimum(devices, np.where(values["per_node"] > 0, values["per_node"], LARGEST_NODE / 2))
    assumed.append(("per_node", np.isnan(per_node) & (devices > 1), usual))
    per_node = np.minimum(np.where(np.isnan(per_node), usual, per_node), devices)
    short = total < 0.99 * batch * devices
    accumulation = s.number("accumulation")
    passes = np.maximum(np.round(total / (batch * devices)), 1)
    accumulation = np.where(np.isnan(accumulation), np.where(np.isfinite(passes), passes, 1.0), accumulation)
    batch = np.where(np.isnan(batch), total / (devices * accumulation), batch)
    lengths = np.where(np.isnan(s.number("seq")), 1.0, s.number("seq"))
    samples = np.where(s.number("batch_in_items") == 1, batch / lengths, batch)
    items = np.where(np.isnan(s.number("items")), 1.0, s.number("items"))
    return {
        "batch": samples,
        "accumulation": accumulation,
        "devices": devices,
        "per_node": per_node,
        "nodes": np.ceil(devices / per_node),
        "items": items,
        "least": np.where(short, batch * devices, np.nan),
        "total": total,
    }


def _links(s: Scenario, devices: Coded, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the rates of a device's links within and between nodes that all-reduces of gradients reach [B/s]."""
    of = of_devices(devices, ("ring_link", "ring_network", "shared", "per_node"))
    share = link_shares()["network"]
    more = np.where(of["shared"] == 1, of["per_node"] / values["per_node"], 1.0)
    network = np.where(np.isnan(s.number("network")), of["ring_network"] * more, s.number("network") * share)
    of_node = s.number("node_network") / np.maximum(values["per_node"], 1) * share
    link = s.number("link")
    return {
        "link": np.where(np.isnan(link), of["ring_link"], link),
        "network": np.where(np.isnan(of_node), network, of_node),
    }


def refuse(why: np.ndarray, reasons: Coded, values: dict[str, np.ndarray]) -> np.ndarray:
    """Return why a row cannot be predicted, the first reason that applies."""
    words = reasons.each(lambda reason: reason, object)
    why = np.where(why == "", words, why.astype(object)) if np.any(words != "") else why
    if "least" in values and not np.all(lacks := np.isnan(values["least"])):
        why = with_reason(why, ~lacks, SHORT, (values["total"], values["least"]))
    return why


def outcome(scenarios: NetworkRows, step_seconds: np.ndarray) -> np.ndarray:
    """Return the rate of the whole system in the unit of the row: samples, or what is counted in them, per second."""
    with np.errstate(divide="ignore", invalid="ignore"):
        samples = scenarios.batch * scenarios.accumulation * scenarios.devices
        return np.asarray(samples * scenarios.items / step_seconds)


def runs(rows: Rows) -> Runs:
    """Return the rows in the form in which similar measurements are compared."""
    names = [str(getattr(name, "name", name)) for name, _, _ in rows.networks] + [""]
    kinds = _families()
    labels: dict[str, Any] = {name: rows.keys[name] for name in ("engine", "vendor", "family", "accelerator")}
    index = np.where(rows.network_index < 0, len(names) - 1, rows.network_index)
    labels["network"] = Coded(index, tuple(names))
    labels["workload"] = Coded(index, tuple(kinds.get(name, "") for name in names))
    labels["format"] = np.nan_to_num(rows.values["unit_kind"], nan=-1.0).astype(int)
    return Runs(labels)


@lru_cache(maxsize=1)
def _families() -> dict[str, str]:
    return dict(catalog.table("models")[["name", "family"]].itertuples(index=False))


def tokens(rows: Rows) -> np.ndarray:
    """Return the tokens of one step of all devices; networks of this kind count samples."""
    return np.array(np.nan)


def parts(
    scenarios: NetworkRows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None
) -> dict[str, np.ndarray]:
    """Return exposed seconds of a step by part; NaN where `scenarios.why` says why not; `terms` switches some off."""
    on = {name: bool((terms or {}).get(name, True)) for name in TERMS}
    values = {c.name: np.asarray(constants[c.name], dtype=float) for c in CONSTANTS}
    table = products(scenarios.networks)
    shares = product_shares(table, values, on)
    names = ("products", "elementwise", "launch", "recurrence")
    passes = in_blocks(scenarios, values, names, lambda at, some: _passes(table, shares, scenarios, at, some, on))
    return _step(scenarios, passes, table, values, on)


def in_blocks(
    rows: Rows,
    values: Mapping[str, np.ndarray],
    names: tuple[str, ...],
    seconds: Callable[[np.ndarray, dict[str, np.ndarray]], Mapping[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Return seconds by part of the rows that can be predicted, NaN of the others; rows of one network side by side."""
    by_part = {name: np.full(len(rows), np.nan) for name in names}
    order = np.flatnonzero(rows.why == "")
    order = order[np.argsort(rows.network_index[order], kind="stable")]
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        some = {name: value[block] if value.ndim else value for name, value in values.items()}
        for name, part in seconds(block, some).items():
            by_part[name][block] = part
    return by_part


def _passes(
    table: Products,
    shares: np.ndarray,
    scenarios: NetworkRows,
    at: np.ndarray,
    values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
) -> dict[str, np.ndarray]:
    """Return seconds of one forward and backward pass by part."""
    rows, net = {name: column[at] for name, column in scenarios.values.items()}, scenarios.network_index[at]
    bandwidth = rows["mem_bandwidth"] * values["memory_efficiency"]
    batch, size = rows["batch"], rows["element_bytes"]
    layers = product_seconds(table.of(net), shares, rows, bandwidth, values, on)
    unfused = np.where(rows["fused"] > 0, values["fused_share"], 1.0)
    touched = table.streamed[net] * on["elementwise"]
    touched = touched + table.scores[net] * values["score_touches"] * on["scores"] * (rows["keeps_scores"] > 0)
    reordered = table.convolved[net] * (PASSES * on["transposes"]) * rows["transposes"] * (rows["unit_kind"] == 1)
    # Without fast algorithms each image is unfolded and multiplied by itself.
    relaunched = table.convolutions[net] * np.where(rows["fast_algorithms"] > 0, 0.0, np.maximum(batch - 1, 0))
    started = PASSES * (table.started[net] + relaunched) + table.others[net] * unfused
    return {
        "products": layers + formulas.stream_seconds(reordered * batch, size, bandwidth),
        "elementwise": formulas.stream_seconds(
            touched * batch,
            size,
            rows["mem_bandwidth"],
            values["touch_instructions"],
            formulas.issue_rate(rows["vector_peak"], rows["lanes"]),
            unfused,
        ),
        "launch": formulas.dispatch_seconds(
            started * rows["in_turn"] * on["launch"], values["launch"] * rows["launches"]
        ),
        "recurrence": formulas.recurrence_seconds(table.positions[net] * on["recurrence"], values["launch"], PASSES),
    }


def product_seconds(
    pairs: Pairs,
    shares: np.ndarray,
    rows: Mapping[str, np.ndarray],
    bandwidth: np.ndarray,
    values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
    passes: int = PASSES,
) -> np.ndarray:
    """Return seconds of the products of one forward and backward pass, or of the requested number of passes.

    Parameters
    ----------
    pairs : Pairs
        Rows and the products of their networks.
    shares : numpy.ndarray
        From `product_shares`.
    rows, values : mapping of str to numpy.ndarray
        Scenarios and constants, one entry a row or one for all.
    bandwidth : numpy.ndarray
        Memory bandwidth that products reach on each row's device [B/s].
    on : mapping of str to bool
        Terms; those named "products" and "traffic" count here.
    passes : int
        1 for inference, 3 for training.
    """
    kind = rows["unit_kind"].astype(int)
    peak = rows["peak"]
    slower = formulas.matrix_unit_rate(peak, 1.0, REFERENCE_PEAK, values["peak_exponent"])
    fed = formulas.issued_share(rows["lanes"], values["other_instructions"])
    peak = np.where(kind > 0, slower, peak * fed)
    variant = kind + 1 - ((kind == 0) & ~(rows["fast_algorithms"] > 0))
    rate = pairs.row(peak) * pairs.shared(shares, variant)
    if np.any(rows["convolution"] != 1):
        rate = rate * np.where(pairs.convolution, pairs.row(rows["convolution"]), 1.0)
    if pairs.depthwise.any():
        # Their operands are hardly used again: the rate follows the bytes loaded, and is stated for 16 bits.
        loaded = rows["vector_peak"] * fed * 2 / rows["element_bytes"]
        slow = formulas.vector_unit_rate(loaded, values["depthwise"])
        rate = np.where(pairs.depthwise, pairs.row(slow), rate)
    samples = pairs.row(rows["batch"])
    moved = (samples * pairs.moved + pairs.weights) * pairs.row(rows["element_bytes"] * on["traffic"])
    flop = samples * (pairs.macs * (2.0 * on["products"]))
    return pairs.sum(formulas.layer_seconds(flop, moved, rate, pairs.row(bandwidth), passes))


def product_shares(table: Products, values: Mapping[str, np.ndarray], on: Mapping[str, bool]) -> np.ndarray:
    """Return the share of the peak of each product: direct and fast on vector units, in 16 bits and TF32 on matrix
    units."""
    one = {name: float(value) for name, value in values.items() if not np.ndim(value)}
    vector = np.where(table.convolution, one["vector_convolution"], one["vector_product"])
    fast = vector * (table.saving if on["fast_algorithms"] else 1.0)
    matrix = np.where(table.convolution, one["convolution_efficiency"], one["product_efficiency"])
    matrix = (
        matrix * np.where(table.deep, one["deep_convolution"], 1.0) * np.where(table.grouped, one["grouped_share"], 1.0)
    )
    tf32 = matrix * np.where(table.convolution, one["tf32_convolution"], one.get("tf32_product", 1.0))
    return np.stack([vector, fast, matrix, tf32])


def _step(
    scenarios: NetworkRows,
    passes: dict[str, np.ndarray],
    table: Products,
    values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
) -> dict[str, np.ndarray]:
    """Return a step from its passes: accumulation, update, communication, waiting."""
    rows = scenarios.values
    net = scenarios.network_index
    looked_up = np.where(rows["sparse"] > 0, rows["batch"] * table.looked_up[net], np.inf)
    weights = table.parameters[net] + np.minimum(table.tables[net], looked_up)
    weights = np.where(scenarios.why == "", weights, np.nan)
    one_pass = np.asarray(sum(passes.values()))
    step = {name: seconds * rows["accumulation"] for name, seconds in passes.items()}
    bandwidth = rows["mem_bandwidth"] * values["memory_efficiency"]
    communication = collectives.hierarchical_all_reduce_seconds(
        weights * GRADIENT_BYTES,
        rows["per_node"],
        rows["nodes"],
        rows["link"],
        rows["network"],
        LINK_LATENCY,
        NETWORK_LATENCY,
    )
    step["optimiser"] = weights * rows["update_bytes"] * on["optimiser"] / bandwidth
    step["overhead"] = values["step_overhead"] * rows["launches"] * on["launch"]
    hidden, visible = constant("exchange-hidden"), constant("exchange-visible")
    step["exchange"] = formulas.exchange_exposed_seconds(communication, one_pass, hidden, visible) * on["exchange"]
    step["waiting"] = on["waiting"] * formulas.waiting_seconds(
        one_pass * rows["accumulation"], rows["per_node"], values["node_waiting"]
    )
    return step
