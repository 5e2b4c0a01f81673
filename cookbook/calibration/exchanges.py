"""What predictions of exchanges are worth: measured collectives, constants fitted without a publisher or a generation.

Rows count whose network is stated or known from the accelerator's systems; where a publisher states no payload, it is
a large one. The rule to beat is the bus bandwidth that is a constant part of the slower of link and network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cookbook import catalog, hardware
from cookbook.calibration.storage import search
from cookbook.prediction import fabrics
from cookbook.prediction.intake import words

RING = ("all_reduce", "all_gather", "reduce_scatter")
LARGE, NODE, NODES = 1e15, 8, 4
# From this payload on bandwidth counts, not starts.
BIG = 1e9
# Where the search starts (what one expects before any row was seen), and how far the logarithm may lie from it.
START = dict(zip(fabrics.CONSTANTS, (0.8, 0.8, 0.8, 5e-6, 15e-6, 1e6), strict=True))
WIDTH, PULL = np.array([0.2, 0.2, 0.2, 0.5, 0.5, 2.0]), 0.002


@dataclass(frozen=True, eq=False)
class Exchanges:
    """Measured rings as arrays, one entry a row, SI; `in_switch` where the switch makes the sums."""

    source: np.ndarray
    family: np.ndarray
    curve: np.ndarray
    passes: np.ndarray
    devices: np.ndarray
    per_node: np.ndarray
    link: np.ndarray
    network: np.ndarray
    in_switch: np.ndarray
    payload: np.ndarray
    seconds: np.ndarray

    def take(self, index: Any) -> Exchanges:
        """Some of the rows."""
        return Exchanges(**{name: getattr(self, name)[index] for name in self.__annotations__})


def measured() -> Exchanges:
    """The rows of ``collectives`` of which link and network are known."""
    table = catalog.table("collectives")
    table = table[table["collective"].isin(RING)]
    found = [row for row in map(_row, table.to_dict("records")) if row]
    return Exchanges(**{name: np.array([row[name] for row in found]) for name in found[0]})


def _row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    key, several = row["accelerator"], row["nodes"] != 1
    network, of_node, _ = words.network(row["inter_node_link"])
    machine = hardware.machine(key) if key else None
    if not key and not np.isfinite(network):
        return None
    per_node = row["per_node"] if row["per_node"] > 0 else (NODE if key else 1)
    network = network / per_node if of_node else network
    if several and not np.isfinite(network):
        network = machine.network if machine else np.nan
    devices = per_node * (row["nodes"] if row["nodes"] > 0 else NODES)
    payload = row["payload_bytes"] if row["payload_bytes"] > 0 else LARGE
    passes = 2 if row["collective"] == "all_reduce" else 1
    said = row["algorithm"].startswith("NVLS") or any(
        word in row["intra_node_link"] + row["inter_node_link"] for word in ("SHARP", "NVLS")
    )
    in_switch = said and not row["algorithm"].startswith("Ring")
    return {
        "source": row["source"], "family": machine.generation if machine else "", "passes": passes,
        "curve": f"{row['source']} {key} {devices} {in_switch}", "devices": devices, "per_node": per_node,
        "link": machine.link if machine else network, "network": network if several else np.inf,
        "in_switch": in_switch, "payload": payload,
        "seconds": passes * (devices - 1) / devices * payload / row["bus_bandwidth"],
    }  # fmt: skip


def predicted(rows: Exchanges, constants: dict[str, float]) -> np.ndarray:
    """Seconds of each row."""
    groups = np.stack([np.ones(len(rows.devices)), rows.per_node], axis=-1)
    network = np.where(np.isfinite(rows.network), rows.network, rows.link)
    rates = np.stack([rows.link, network], axis=-1)
    ring = fabrics.nested_seconds("all_gather", rows.payload, rows.devices, groups, rates, constants)
    switch = fabrics.switch_seconds(rows.payload, rows.per_node, rows.link, constants)
    between = np.isfinite(rows.network)
    # Beyond the node the sums of the node travel on; the slower of both sets the pace.
    return np.where(rows.in_switch, np.where(between, np.maximum(switch, _far(rows, constants)), switch),
                    rows.passes * ring)  # fmt: skip


def _far(rows: Exchanges, constants: dict[str, float]) -> np.ndarray:
    """The part of a ring between nodes alone, all links within a node taken as free."""
    groups = np.stack([np.ones(len(rows.devices)), rows.per_node], axis=-1)
    free = np.stack([np.full(len(rows.devices), LARGE), np.where(np.isfinite(rows.network), rows.network, 1.0)], -1)
    return rows.passes * fabrics.nested_seconds("all_gather", rows.payload, rows.devices, groups, free, constants)


def fit(rows: Exchanges) -> dict[str, float]:
    """Constants with the smallest mean error of logarithms; curves of one machine count by the root of their points."""
    _, at, count = np.unique(rows.curve, return_inverse=True, return_counts=True)
    weight = 1 / np.sqrt(count[at])
    start = np.log(list(START.values()))

    def loss(unknowns: np.ndarray) -> float:
        constants = dict(zip(START, np.exp(unknowns).tolist(), strict=True))
        error = np.abs(np.log(predicted(rows, constants) / rows.seconds))
        return float(weight @ error / weight.sum() + PULL * (((unknowns - start) / WIDTH) ** 2).sum())

    return dict(zip(START, np.exp(search(loss, start, rounds=120)).tolist(), strict=True))


def constant_bandwidth(rows: Exchanges, known: np.ndarray) -> np.ndarray:
    """The rule to beat: a constant share of the slower of link and network, and no starts.

    The share is the median of the known large payloads, one for rings and one for sums in switches.
    """
    nominal = np.minimum(rows.link, rows.network)
    ideal = rows.passes * (rows.devices - 1) / rows.devices * rows.payload / nominal
    share = np.ones(len(ideal))
    for kind in (rows.in_switch, ~rows.in_switch):
        large = kind & known & (rows.payload >= BIG)
        share[kind] = np.median((rows.seconds / ideal)[large]) if large.any() else 1.0
    return ideal * share


def left_out(by: str = "source") -> dict[str, np.ndarray]:
    """Logarithms of predicted over measured, each group of rows by constants that were fitted without it.

    Parameters
    ----------
    by : str
        "source" (publishers) or "family" (generations of accelerators).

    Returns
    -------
    dict of str to numpy.ndarray
        ``model`` and ``constant bandwidth``, with ``group`` and ``payload`` [B].
    """
    rows = measured()
    group = getattr(rows, by)
    model, rule = np.empty(len(group)), np.empty(len(group))
    for name in np.unique(group):
        inside = group == name
        model[inside] = predicted(rows, fit(rows.take(~inside)))[inside]
        rule[inside] = constant_bandwidth(rows, ~inside)[inside]
    errors = {"model": model, "constant bandwidth": rule}
    return {name: np.log(value / rows.seconds) for name, value in errors.items()} | {
        "group": group, "payload": rows.payload,
    }  # fmt: skip


def judgement() -> str:
    """Median errors with publishers and with generations left out, and the constants fitted to all rows, in words."""
    lines = []
    for by, title in (("source", "publishers"), ("family", "generations")):
        found = left_out(by)
        small = found["payload"] < BIG
        for name, at in (("all", small | True), ("below 1 GB", small), ("1 GB and more", ~small)):
            errors = [f"{rule} {_per_cent(found[rule][at])}" for rule in ("model", "constant bandwidth")]
            lines.append(f"{title} left out, {name}, {at.sum()} rows: {', '.join(errors)}")
    fitted = fit(measured())
    return "\n".join([*lines, *(f"{name} {value:.4g}" for name, value in fitted.items())])


def _per_cent(errors: np.ndarray) -> str:
    """Median error, and the one that nine of ten rows stay below."""
    middle, most = np.expm1(np.quantile(np.abs(errors), [0.5, 0.9]))
    return f"{100 * middle:.0f} % (nine of ten below {100 * most:.0f} %)"
