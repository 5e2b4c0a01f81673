"""Step time of classic training (any network of the zoo, data parallel): the parts of a step from the formulas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.performance import collectives
from cookbook.performance import network_training as formulas
from cookbook.prediction.constants import Constant, figure
from cookbook.prediction.neighbours import Runs
from cookbook.prediction.scenario import Coded, Rows
from cookbook.prediction.terms.network_arrays import Pairs, Products, products
from cookbook.prediction.terms.network_rows import resolve

__all__ = ["CONSTANTS", "TERMS", "outcome", "parts", "resolve", "runs", "step_seconds", "tokens"]

CONSTANTS = (
    Constant("convolution_efficiency", 0.7, 0.2, 1.0),
    Constant("product_efficiency", 0.7, 0.2, 1.0),
    Constant("tf32_convolution", 0.6, 0.3, 1.3),
    Constant("tf32_product", 1.0, 0.3, 1.3),
    Constant("peak_exponent", 0.15, 0.01, 0.6),
    Constant("deep_convolution", 0.7, 0.1, 1.2),
    Constant("other_instructions", 0.3, 0.05, 1.5),
    Constant("vector_convolution", 0.6, 0.2, 1.0),
    Constant("vector_product", 0.8, 0.2, 1.0),
    Constant("grouped_share", 0.15, 0.02, 1.0),
    Constant("depthwise", 0.09, 0.01, 1.0),
    Constant("memory_efficiency", 0.7, 0.3, 1.0),
    Constant("stream_efficiency", 0.85, 0.4, 1.0),
    Constant("touch_instructions", 30.0, 1.0, 200.0),
    Constant("launch", 5e-5, 2e-6, 3e-4, "engine", "s"),
    Constant("fused_share", 0.45, 0.1, 1.0),
    Constant("score_touches", 18.0, 2.0, 60.0),
    Constant("recurrent_step", 3e-5, 1e-6, 3e-4, "", "s"),
    Constant("step_overhead", 2.5e-3, 1e-5, 2e-2, "", "s"),
    Constant("update_share", 2.5, 0.5, 6.0),
    Constant("node_waiting", 0.05, 0.001, 0.3),
)
# What an ablation may switch off.
TERMS = (
    "products", "traffic", "fast_algorithms", "elementwise", "launch", "transposes", "scores", "recurrence",
    "optimiser", "exchange", "waiting",
)  # fmt: skip
LINK_LATENCY, NETWORK_LATENCY = figure("message-start-in-node"), figure("message-start-between-nodes")
# Where efficiency is defined; it cancels, as the efficiencies are fitted.
REFERENCE_PEAK = 2e14
BLOCK = 4096
PASSES = 3


def outcome(scenarios: Rows, step_seconds: np.ndarray) -> np.ndarray:
    """Rate of the whole system in the unit of the row: samples, or what is counted in them, per second."""
    with np.errstate(divide="ignore", invalid="ignore"):
        samples = scenarios.batch * scenarios.accumulation * scenarios.devices
        return np.asarray(samples * scenarios.items / step_seconds)


def runs(rows: Rows) -> Runs:
    """The rows as what similar measurements are found by."""
    names = [str(getattr(name, "name", name)) for name, _, _ in rows.networks] + [""]
    kinds = _families()
    labels: dict[str, Any] = {name: rows.keys[name] for name in ("engine", "vendor", "family", "accelerator")}
    place = np.where(rows.place < 0, len(names) - 1, rows.place)
    labels["network"] = Coded(place, tuple(names))
    labels["workload"] = Coded(place, tuple(kinds.get(name, "") for name in names))
    labels["format"] = np.nan_to_num(rows.unit_kind, nan=-1.0).astype(int)
    return Runs(labels, {})


@lru_cache(maxsize=1)
def _families() -> dict[str, str]:
    return dict(catalog.table("models")[["name", "family"]].itertuples(index=False))


def tokens(rows: Rows) -> np.ndarray:
    """Tokens of one step of all devices; networks of this kind count samples."""
    return np.array(np.nan)


def step_seconds(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of a step: the parts are exposed time, so they add up."""
    return np.asarray(sum(parts.values()))


def parts(
    scenarios: Rows, constants: Mapping[str, Any], terms: Mapping[str, bool] | None = None
) -> dict[str, np.ndarray]:
    """Exposed seconds of a step by part; NaN where `scenarios.why` says why not.

    Parameters
    ----------
    scenarios : Scenarios
        The rows.
    constants : mapping of str to float or numpy.ndarray
        Value of each of `CONSTANTS`: one, or one a row where it has levels.
    terms : mapping of str to bool, optional
        Terms to switch off, ``{"exchange": False}``; all are on if not given.
    """
    on = {name: bool((terms or {}).get(name, True)) for name in TERMS}
    values = {c.name: np.asarray(constants[c.name], dtype=float) for c in CONSTANTS}
    table = products(scenarios.networks)
    shares = product_shares(table, values, on)
    size = len(scenarios)
    found = {name: np.full(size, np.nan) for name in ("products", "elementwise", "launch", "recurrence")}
    order = np.flatnonzero(scenarios.why == "")
    order = order[np.argsort(scenarios.place[order], kind="stable")]
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        some = {name: each[block] if each.ndim else each for name, each in values.items()}
        for name, seconds in _passes(table, shares, scenarios, block, some, on).items():
            found[name][block] = seconds
    return _step(scenarios, found, table, values, on)


def _passes(
    table: Products, shares: np.ndarray, scenarios: Rows, at: np.ndarray, values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Seconds of one forward and backward pass by part."""
    rows, net = {name: column[at] for name, column in scenarios.values.items()}, scenarios.place[at]
    bandwidth = rows["mem_bandwidth"] * values["memory_efficiency"]
    batch, size = rows["batch"], rows["element_bytes"]
    layers = product_seconds(table.of(net), shares, rows, bandwidth, values, on)
    kept = np.where(rows["fused"] > 0, values["fused_share"], 1.0)
    touched = table.streamed[net] * on["elementwise"] + table.scores[net] * values["score_touches"] * on["scores"]
    reordered = table.convolved[net] * (PASSES * on["transposes"]) * rows["transposes"] * (rows["unit_kind"] == 1)
    # Without fast algorithms each image is unfolded and multiplied by itself.
    again = table.convolutions[net] * np.where(rows["fast_algorithms"] > 0, 0.0, np.maximum(batch - 1, 0))
    started = PASSES * (table.started[net] + again) + table.others[net] * kept
    return {
        "products": layers + formulas.stream_seconds(reordered * batch, size, bandwidth),
        "elementwise": formulas.stream_seconds(
            touched * batch,
            size,
            rows["mem_bandwidth"] * values["stream_efficiency"],
            values["touch_instructions"],
            formulas.issue_rate(rows["vector_peak"], rows["lanes"]),
            kept,
        ),
        "launch": formulas.dispatch_seconds(
            started * rows["in_turn"] * on["launch"], values["launch"] * rows["launches"]
        ),
        "recurrence": formulas.recurrence_seconds(
            table.positions[net] * on["recurrence"], values["recurrent_step"], PASSES
        ),
    }


def product_seconds(
    pairs: Pairs, shares: np.ndarray, rows: Mapping[str, np.ndarray], bandwidth: np.ndarray,
    values: Mapping[str, np.ndarray], on: Mapping[str, bool], passes: int = PASSES,
) -> np.ndarray:  # fmt: skip
    """Seconds of the products of one forward and backward pass, or of as many passes as are asked for.

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
    """Share of the peak of each product: direct and fast on vector units, in 16 bits and TF32 on matrix units.

    Parameters
    ----------
    table : Products
        The products.
    values : mapping of str to numpy.ndarray
        Constants.
    on : mapping of str to bool
        Terms; that named "fast_algorithms" counts here.
    """
    one = {name: float(value) for name, value in values.items() if not np.ndim(value)}
    vector = np.where(table.convolution, one["vector_convolution"], one["vector_product"])
    fast = vector * (table.saving if on["fast_algorithms"] else 1.0)
    matrix = np.where(table.convolution, one["convolution_efficiency"], one["product_efficiency"])
    matrix = (
        matrix
        * np.where(table.deep, one["deep_convolution"], 1.0)
        * np.where(table.grouped, one["grouped_share"], 1.0)
    )
    tf32 = matrix * np.where(table.convolution, one["tf32_convolution"], one["tf32_product"])
    return np.stack([vector, fast, matrix, tf32])


def _step(
    scenarios: Rows, found: dict[str, np.ndarray], table: Products, values: Mapping[str, np.ndarray],
    on: Mapping[str, bool],
) -> dict[str, np.ndarray]:  # fmt: skip
    """A step out of its passes: accumulation, update, exchange, waiting."""
    rows = scenarios.values
    net = scenarios.place
    looked_up = np.where(rows["sparse"] > 0, rows["batch"] * table.looked_up[net], np.inf)
    weights = table.parameters[net] + np.minimum(table.tables[net], looked_up)
    weights = np.where(scenarios.why == "", weights, np.nan)
    one_pass = np.asarray(sum(found.values()))
    step = {name: seconds * rows["accumulation"] for name, seconds in found.items()}
    bandwidth = rows["mem_bandwidth"] * values["memory_efficiency"]
    exchange = collectives.hierarchical_all_reduce_seconds(
        weights * rows["element_bytes"], rows["per_node"], rows["nodes"], rows["link"], rows["network"],
        LINK_LATENCY, NETWORK_LATENCY,
    )  # fmt: skip
    step["optimiser"] = weights * rows["update_bytes"] * values["update_share"] * on["optimiser"] / bandwidth
    step["overhead"] = values["step_overhead"] * rows["launches"] * on["launch"]
    hidden, visible = figure("exchange-hidden"), figure("exchange-visible")
    step["exchange"] = formulas.exchange_exposed_seconds(exchange, one_pass, hidden, visible) * on["exchange"]
    step["waiting"] = on["waiting"] * formulas.waiting_seconds(
        one_pass * rows["accumulation"], rows["per_node"], values["node_waiting"]
    )
    return step
