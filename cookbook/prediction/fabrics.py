"""Named networks of the catalogue, and the time of exchanges among some of their devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.refusals import refused
from cookbook.formulas import collectives as formulas

EXCHANGES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CONSTANTS = (
    "exchange-share-in-node",
    "exchange-share-between-nodes",
    "exchange-share-in-switch",
    "exchange-start-in-node",
    "exchange-start-between-nodes",
    "exchange-half-payload",
)


@dataclass(frozen=True)
class Fabric:
    """A network that joins devices, nominal rates of one direction in SI; what does not apply is NaN.

    Attributes
    ----------
    key, name, kind : str
        As in the table ``fabrics``.
    links, link_bandwidth : float
        Fast links of a device [-], one of them [B/s].
    domain : float
        Devices that they join [-].
    network_bandwidth : float
        Network of one device [B/s].
    group, oversubscription, groups : float
        Devices that exchange at full rate [-], how much less leaves such a group [-], groups of a dragonfly [-].
    axes, closes_from, largest : float
        Axes of a torus, the length from which they close, devices of the largest job [-].
    sources : tuple of str
        Keys of the sources.
    """

    key: str
    name: str
    kind: str
    links: float
    link_bandwidth: float
    domain: float
    network_bandwidth: float
    group: float
    oversubscription: float
    groups: float
    axes: float
    closes_from: float
    largest: float
    sources: tuple[str, ...] = ()

    def levels(self, devices: float, partners: str = "all") -> tuple[list[float], list[float]]:
        """Return the sizes of the groups that each level joins, and the nominal rate of a device out of them [B/s].

        Parameters
        ----------
        devices : float
            Devices of the job, spread evenly over as few groups as fit them.
        partners : str
            "all" where each group sends to all others, "next" where it sends to one, as a ring does.
        """
        sizes, rates = [1.0, self.domain], [self.links * self.link_bandwidth, self.network_bandwidth]
        out = self.network_bandwidth / self.oversubscription
        if self.kind == "dragonfly":
            used = math.ceil(devices / self.group)
            towards = max(used - 1, 1) if partners == "all" else 1
            share_of_rate = 1 / self.oversubscription
            out = float(formulas.dragonfly_bandwidth(self.network_bandwidth, share_of_rate, towards, used, self.groups))
        return ([*sizes, self.group], [*rates, out]) if math.isfinite(self.group) else (sizes, rates)

    def shape(self, devices: int) -> tuple[int, ...]:
        """Return the axes of the most cubic torus of this number of devices."""
        return _cubic(int(devices), int(self.axes))

    def bisection_bandwidth(self, devices: int) -> float:
        """Return the nominal rate between two halves of a job, one direction [B/s]."""
        if self.kind == "torus":
            shape = self.shape(devices)
            return float(formulas.torus_bisection_bandwidth(shape, self.link_bandwidth, self._closed(shape)))
        return float(formulas.nested_bisection_bandwidth(devices, *self.levels(devices)))

    def _closed(self, shape: tuple[int, ...]) -> bool:
        """Return whether the axes of a torus close to rings."""
        return min(shape) >= self.closes_from


@lru_cache(maxsize=64)
def fabric(name: str) -> Fabric:
    """Return a network of the table ``fabrics`` by any of its names.

    Parameters
    ----------
    name : str
        Key, name or alias.

    Raises
    ------
    cookbook.catalog.UnknownName
        With the three nearest names.

    Examples
    --------
    >>> fabric("NVL72").domain
    72.0
    """
    table = catalog.table("fabrics").set_index("key")
    row = table.loc[catalog.lookup("fabrics", name)]
    numbers = {column: float(row[column]) for column in Fabric.__annotations__ if column not in _WORDS}
    return Fabric(str(row.name), row["name"], row["kind"], **numbers, sources=tuple(row["source"].split(";")))


_WORDS = ("key", "name", "kind", "sources")


def figures() -> dict[str, float]:
    """Return the fitted constants of communication, in SI."""
    return {name: constant(name) for name in CONSTANTS}


def exchange_seconds(kind: str, payload_bytes: float, devices: int, network: Fabric) -> float:
    """Return the time of one collective or transfer among the first devices of a network.

    Parameters
    ----------
    kind : str
        One of `EXCHANGES`.
    payload_bytes : float
        Vector held by each device, or the whole that is gathered [B].
    devices : int
        Devices that take part.
    network : Fabric
        From `fabric`.

    Returns
    -------
    float
        Time [s]. Rates of all-to-alls and of tori were not measured: they take the constants of rings.

    Raises
    ------
    ValueError
        An unknown exchange, or more devices than the network has.

    Examples
    --------
    >>> near, far = (exchange_seconds("all_to_all", 64e6, 72, fabric(name)) for name in ("NVL72", "SuperPOD H100"))
    >>> near < far / 10
    True
    """
    if kind not in EXCHANGES:
        raise ValueError(f"kind = {kind!r} is no exchange; take one of {', '.join(EXCHANGES)}")
    if devices < 1 or devices != int(devices) or devices > network.largest:
        most = f"{network.largest:,.0f}" if math.isfinite(network.largest) else "any number"
        raise refused("devices", devices, f": {network.name} has 1 to {most}, whole numbers")
    fitted = figures()
    if network.kind == "torus":
        return _on_torus(kind, payload_bytes, devices, network, fitted)
    groups, rates = network.levels(devices, "all" if kind == "all_to_all" else "next")
    return float(nested_seconds(kind, payload_bytes, devices, groups, rates, fitted))


def nested_seconds(
    kind: str, payload_bytes: Any, devices: Any, groups: Any, bandwidths: Any, constants: dict[str, float]
) -> np.ndarray:
    """Return the time of collectives on nested groups of nominal rates, with shares, starts and saturation applied."""
    rates, depth = np.asarray(bandwidths, dtype=float), np.shape(bandwidths)[-1]
    shares = _each_level(constants["exchange-share-in-node"], constants["exchange-share-between-nodes"], depth)
    starts = _each_level(constants["exchange-start-in-node"], constants["exchange-start-between-nodes"], depth)
    moved = _stretched(payload_bytes, constants)
    formula = {
        "all_reduce": formulas.nested_all_reduce_seconds,
        "all_to_all": formulas.nested_all_to_all_seconds,
    }.get(kind, formulas.nested_all_gather_seconds)
    return formula(moved, devices, groups, rates * shares, starts)


def switch_seconds(payload_bytes: Any, devices: Any, bandwidth: Any, constants: dict[str, float]) -> np.ndarray:
    """Return the time of all-reduces summed in the switch of a node, from the nominal rate of a device [B/s]."""
    start = constants["exchange-start-in-node"] * np.log2(devices)
    moved, rate = _stretched(payload_bytes, constants), constants["exchange-share-in-switch"] * np.asarray(bandwidth)
    return formulas.switch_all_reduce_seconds(moved, devices, rate, start)


def _stretched(payload_bytes: Any, constants: dict[str, float]) -> np.ndarray:
    """Return the bytes that would take as long at full bandwidth as the payload takes at the one that it reaches."""
    payload = np.asarray(payload_bytes, dtype=float)
    return payload / formulas.saturating_bandwidth(payload, 1.0, constants["exchange-half-payload"])


def _each_level(first: float, others: float, depth: int) -> np.ndarray:
    """Return the first level's value, then that of the others."""
    return np.array([first] + [others] * (depth - 1))


def _on_torus(kind: str, payload_bytes: float, devices: int, network: Fabric, fitted: dict[str, float]) -> float:
    """Return the time of one collective or transfer on a torus [s]."""
    shape = network.shape(devices)
    formula = {
        "all_reduce": formulas.torus_all_reduce_seconds,
        "all_to_all": formulas.torus_all_to_all_seconds,
    }.get(kind, formulas.torus_all_gather_seconds)
    rate = fitted["exchange-share-in-node"] * network.link_bandwidth
    start, closed = fitted["exchange-start-in-node"], network._closed(shape)
    # A start for each exchange, as in a tree; single hops take no software.
    steps = math.log2(devices) * start * (2 if kind == "all_reduce" else 1) if kind != "all_to_all" else start
    return float(formula(_stretched(payload_bytes, fitted), shape, rate, 0, closed)) + steps * (devices > 1)


@lru_cache(maxsize=1024)
def _cubic(devices: int, axes: int) -> tuple[int, ...]:
    """Return the factors of a number that are closest together, smallest first.

    >>> _cubic(512, 3), _cubic(32, 2), _cubic(6144, 3)
    ((8, 8, 8), (4, 8), (16, 16, 24))
    """
    if axes == 1:
        return (devices,)
    tried = [(k, *_cubic(devices // k, axes - 1)) for k in range(1, devices + 1) if devices % k == 0]
    return min((tuple(sorted(shape)) for shape in tried), key=lambda shape: (shape[-1], -shape[0]))
