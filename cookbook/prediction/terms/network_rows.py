"""Training of networks layer by layer, data parallel: scenarios with their machine, and what is blank filled in."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.prediction.constants import is_usual, levels_of_rows
from cookbook.prediction.scenario import Coded, Rows, Scenario, together
from cookbook.prediction.terms.devices import Device, of_network, usual_precision
from cookbook.prediction.terms.layouts import told
from cookbook.workloads import zoo

KIND = "training_classic"
LARGEST_NODE = 16
# Families trained with Adam or one of its kind; the others with momentum.
ADAM = ("transformer", "moe", "encoder", "vision_transformer", "rnn", "speech", "recommender", "diffusion")
SEQUENTIAL = frozenset({"attention", "recurrent", "embedding"})
# Networks whose embedding tables get gradients only where a sample looked.
SPARSE = "recommender"
SHORT = "global_batch = {:g} is less than batch_per_device x devices = {:g}"
DEVICE = ("peak", "vector_peak", "mem_bandwidth", "element_bytes", "unit_kind", "lanes")
DOES = ("launches", "fused", "transposes", "fast_algorithms")


def resolve(scenario: Scenario) -> Rows:
    """Scenarios with their network, machine and software; blanks filled.

    Parameters
    ----------
    scenario : Scenario
        Of the kind "training_classic".
    """
    s, size = scenario, len(scenario)
    networks, index, families, why = of_networks(s)
    pairs = together(s.words("accelerator"), s.words("precision"))
    devices = [of_network(*level) for level in pairs.levels]
    values = of_devices(devices, pairs, DEVICE)
    assumed: list[Any] = []
    keys = keys_of(KIND, s, devices, pairs, assumed)
    traits = keys["engine"].map(lambda level: does()[level])
    for name in DOES:
        values[name] = traits.part(name)
    with np.errstate(all="ignore"):
        values |= _counts(s, values | of_devices(devices, pairs, ("per_node",)), assumed)
        values |= _links(s, devices, pairs, values)
    lacks = s.words("precision").where(lambda word: word == "")
    assumed.append(("precision", lacks, pairs.map(lambda pair: pair[1] or usual_precision(pair[0]))))
    # One interpreter that starts the kernels of all its devices one after the other.
    values["in_turn"] = np.where(s.number("one_process") == 1, values["per_node"], 1.0)
    moved = _update_bytes()
    update = families.each(lambda family: moved["adam" if family in ADAM else "momentum"])
    values["update_bytes"] = np.where(s.number("no_update") == 1, 0.0, update)
    values["sparse"] = families.each(lambda family: family == SPARSE)
    nodes, count = values["nodes"], values["devices"]
    keys["scale"] = Coded(np.where(nodes > 1, 2, np.where(count > 1, 1, 0)), ("1 device", "1 node", "multi-node"))
    lacks = Coded(pairs.codes, tuple(each.why for each in devices))
    said = together(why, lacks).map(lambda each: each[0] or each[1])
    refused = refuse(s.why, said, values)
    full = {name: np.broadcast_to(np.asarray(value, dtype=float), (size,)) for name, value in values.items()}
    return Rows(full, refused, keys, networks, np.broadcast_to(index, (size,)), tuple(assumed))


def of_networks(s: Scenario) -> tuple[tuple[tuple[Any, str, float | None], ...], np.ndarray, Coded, Coded]:
    """Distinct networks of a scenario, which each row has (-1: none), their families, and why one cannot be."""
    lengths = s.number("seq")
    if lengths.ndim:
        distinct, codes = np.unique(lengths, return_inverse=True)
        seq = Coded(codes, tuple(distinct.tolist()))
    else:
        seq = Coded(np.array(0), (float(lengths),))
    named = together(s.words("model"), s.words("network_arguments"), seq)
    found: dict[tuple[Any, str, float | None], int] = {}
    places, families, whys = [], [], []
    for model, arguments, length in named.levels:
        network = zoo.model(model) if isinstance(model, str) and model else model
        if network == "":
            places.append(-1)
            families.append("")
            whys.append("model is blank: name a network of the zoo")
            continue
        own = not isinstance(model, str)
        tokens = length if length == length else network.seq
        tokens = tokens if network.ops.needs_seq else None
        lacks = network.ops.needs_seq and not tokens
        whys.append("seq: the network needs a sequence length" if lacks else "")
        place = (model, arguments, None if tokens is None else float(tokens))
        places.append(-1 if lacks else found.setdefault(place, len(found)))
        sequential = own and not SEQUENTIAL.isdisjoint(network.ops.kind.tolist())
        families.append(ADAM[0] if sequential else network.family)
    codes = np.array(places, dtype=int)[named.codes]
    return tuple(found), codes, Coded(named.codes, tuple(families)), Coded(named.codes, tuple(whys))


def of_devices(devices: list[Device], pairs: Coded, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Figures of the devices of rows."""
    figures = attrgetter(*names)
    found = np.array([figures(each) for each in devices], dtype=float).reshape(len(devices), len(names))
    return dict(zip(names, found.T[:, pairs.codes], strict=True))


def keys_of(kind: str, s: Scenario, devices: list[Device], pairs: Coded, assumed: list[Any]) -> dict[str, Coded]:
    """Keys by which rows are told apart; what is usual stands in where no software is named."""
    keys = {
        name: Coded(pairs.codes, tuple(getattr(each, field) for each in devices))
        for name, field in (("accelerator", "key"), ("vendor", "vendor"), ("family", "family"))
    }
    software = s.words("software")
    kinds = Coded(pairs.codes, tuple(each.kind for each in devices))
    keys["engine"] = levels_of_rows(kind, software, keys["vendor"], kinds)
    assumed.append(("software", is_usual(software), keys["engine"]))
    keys["moe"] = Coded(np.array(0), (False,))
    return keys


@lru_cache(maxsize=1)
def does() -> dict[str, dict[str, float]]:
    """What each level of software does with operations."""
    rows = catalog.table("classic_engines").set_index("level")
    return {str(level): {name: float(row[name]) for name in DOES} for level, row in rows.iterrows()}


@lru_cache(maxsize=1)
def _update_bytes() -> dict[str, float]:
    """Bytes that an optimiser moves for each parameter in 32 bits."""
    table = catalog.table("optimisers").set_index("name")
    return dict(4.0 * (table["update_reads"] + table["update_writes"]))


def _counts(s: Scenario, known: dict[str, np.ndarray], assumed: list[Any]) -> dict[str, np.ndarray]:
    """Batch, accumulation, devices and nodes; what is blank follows from the rest."""
    batch, total = s.number("batch"), s.number("global_batch")
    devices = np.where(np.isnan(s.number("devices")), 1.0, s.number("devices"))
    assumed.append(("devices", np.isnan(s.number("devices")), devices))
    per_node = s.number("per_node")
    usual = np.minimum(devices, np.where(known["per_node"] > 0, known["per_node"], LARGEST_NODE / 2))
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
    return {"batch": samples, "accumulation": accumulation, "devices": devices, "per_node": per_node,
            "nodes": np.ceil(devices / per_node), "items": items, "short": short, "total": total}  # fmt: skip


def _links(s: Scenario, devices: list[Device], pairs: Coded, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rate of a device's links within and between nodes that sums of gradients reach [B/s]."""
    of = of_devices(devices, pairs, ("ring_link", "ring_network", "shared", "per_node"))
    share = network_share()
    more = np.where(of["shared"] == 1, of["per_node"] / values["per_node"], 1.0)
    network = np.where(np.isnan(s.number("network")), of["ring_network"] * more, s.number("network") * share)
    of_node = s.number("node_network") / np.maximum(values["per_node"], 1) * share
    link = s.number("link")
    return {"link": np.where(np.isnan(link), of["ring_link"], link),
            "network": np.where(np.isnan(of_node), network, of_node)}  # fmt: skip


@lru_cache(maxsize=1)
def network_share() -> float:
    """Share of the rate of a network that sums of gradients reach."""
    rows = catalog.table("link_shares").set_index("link")
    return float(rows.loc["network", "share"])


def refuse(why: np.ndarray, said: Coded, values: dict[str, np.ndarray]) -> np.ndarray:
    """Why a row cannot be predicted, the first reason that applies."""
    batch, words = values["batch"], said.each(str, object)
    why = np.where(why == "", words, why.astype(object)) if np.any(words != "") else why
    for bad, reason, *figures in (
        (~((batch > 0) & np.isfinite(batch)), "batch is blank or not above 0, and global_batch gives none"),
        (values.get("short", False), SHORT, values.get("total", 0.0), batch * values["devices"]),
    ):
        if np.any(bad):
            why = told(why, bad, reason, figures)
    return why
