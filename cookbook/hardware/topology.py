"""The inside of a machine as a graph: its links, and the bandwidth of each device with concurrent traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.reading import nearest
from cookbook.catalog.refusals import refused
from cookbook.formulas import topology as formulas
from cookbook.result import Result
from cookbook.units import shown

Flow = tuple[str, str]

# Kinds of node from the top of a drawing to its bottom.
ROWS = ("memory", "socket", "pcie_switch", "storage", "nic", "network", "accelerator", "nvswitch")
FORWARDS = ("socket", "pcie_switch", "nvswitch", "nic")
SOURCES = ("memory", "storage", "network")
KIND_NAMES = {
    "memory": "memory",
    "storage": "drive",
    "socket": "processor",
    "pcie_switch": "PCIe switch",
    "accelerator": "accelerator",
    "nvswitch": "NVSwitch",
    "nic": "adapter",
    "network": "network",
}
# A link with less than this share of its rate left is full.
NEGLIGIBLE_SHARE = 1e-9


@dataclass(frozen=True)
class Node:
    """One node: its name, its kind (one of `ROWS`), how it is known and the source."""

    name: str
    kind: str
    how: str = ""
    source: str = ""


@dataclass(frozen=True)
class Link:
    """One link between two nodes, or several side by side: it carries `bandwidth` [B/s] each way at once."""

    start: str
    end: str
    bandwidth: float
    name: str = ""
    how: str = ""
    source: str = ""


@dataclass(frozen=True, repr=False)
class Topology(Result):
    """The graph of one machine. Its rates are nominal: what links carry in one direction, before protocols.

    Processors, switches and network adapters pass traffic on; accelerators, memories and drives do not. Each flow
    takes one path, the widest and of those the shortest. A flow between accelerators of two processors counts as a
    direct copy; where a machine allows none, it is two copies through host memory, which cost more than is shown here.

    Attributes
    ----------
    key, name, root, note : str
        Key and name in the catalogue, ``single root`` or ``dual root``, and remarks.
    accelerator : str
        Key in accelerators.
    nodes, links : tuple
        Records of type `Node` and `Link`.
    source : tuple of str
        Keys of the sources of the machine as a whole; each node and link has its own.
    system, processor : str
        Keys in systems and processors; blank where the catalogue has none.
    """

    _class_in_repr = False
    key: str
    name: str
    root: str
    accelerator: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    note: str = ""
    source: tuple[str, ...] = ()
    system: str = ""
    processor: str = ""

    def __post_init__(self) -> None:
        """Refuse an invalid graph: nodes of unknown kind or equal names, links without an end or a rate."""
        kinds = {node.name: node.kind for node in self.nodes}
        if len(kinds) != len(self.nodes) or not set(kinds.values()) <= set(ROWS):
            raise refused("nodes", self.nodes, f": give each its own name, and a kind of {', '.join(ROWS)}")
        for link in self.links:
            if link.start not in kinds or link.end not in kinds or link.start == link.end:
                raise ValueError(f"links: {shown(link.start)} to {shown(link.end)} does not join two of the nodes")
            _rate(f"links: bandwidth of {link.start} to {link.end}", link.bandwidth)

    def summary(self) -> str:
        """Return the numbers of its accelerators, roots, nodes and links."""
        count = len(self.named("accelerator"))
        devices = f"{count} accelerator{'s' * (count != 1)}"
        return f"{self.name}: {devices}, {self.root}, {len(self.nodes)} nodes, {len(self.links)} links"

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return no table: nodes and links are those of `frame`."""
        return {}

    def facts(self) -> dict[str, str]:
        """Return the numbers of nodes by kind, and the rates of input and of gradient rings, by label."""
        facts = {"kind": "nodes", **{KIND_NAMES[kind]: str(len(self.named(kind))) for kind in ROWS if self.named(kind)}}
        if self.named("memory"):
            facts["input, all at once"] = f"{self.concurrent(self.input_flows()).min() / 1e9:,.3g} GB/s"
        if self.ring_flows():
            facts["rings of gradients"] = f"{self.ring_bandwidth() / 1e9:,.3g} GB/s"
        return facts

    def named(self, kind: str) -> list[str]:
        """Return the names of the nodes of a `kind`: accelerator, memory, storage, nic, network, socket, pcie_switch,
        nvswitch.
        """
        if not isinstance(kind, str) or kind not in ROWS:
            raise ValueError(f"kind is {shown(kind)}; it must be one of {', '.join(ROWS)}")
        return [node.name for node in self.nodes if node.kind == kind]

    def spoken(self, name: str) -> str:
        """Return the name of a node in a sentence: "accelerator 3"."""
        number = "".join(letter for letter in name if letter.isdigit())
        return f"{KIND_NAMES[self.nodes[self._place(name)].kind]} {number}".strip()

    def path(self, start: str, end: str) -> tuple[str, ...]:
        """Return the nodes on the way from `start` to `end`, both included."""
        between = _paths(self)[self._place(start), self._place(end)]
        if between[0] < 0:
            raise ValueError(f"no path leads from {start} to {end} in {self.name}")
        return tuple(self.nodes[place].name for place in between if place >= 0)

    def bandwidth(self, start: str, end: str) -> float:
        """Return the bandwidth of one flow from `start` to `end` with no other traffic [B/s]."""
        return float(self.concurrent([(start, end)])[0])

    def latency(self, start: str, end: str) -> float:
        """Return the latency of a message from `start` to `end`: its start-up time and the delay of each node [s]."""
        kinds = {node.name: node.kind for node in self.nodes}
        added = [constant(f"forward-{kinds[name].replace('_', '-')}") for name in self.path(start, end)[1:-1]]
        return float(formulas.message_latency(constant("message-start-in-node"), added))

    def concurrent(self, flows: Iterable[Flow], demands: ArrayLike = np.inf) -> np.ndarray:
        """Return the rate of each flow when all run at the same time and share links fairly (max-min).

        Parameters
        ----------
        flows : iterable of (str, str)
            Names of nodes, from and to; one pair may occur several times.
        demands : array_like
            Largest demand of each flow, one for all or one each [B/s]; unlimited if not given.

        Returns
        -------
        numpy.ndarray
            Rate of each flow, in their order [B/s].
        """
        uses, capacities, _ = self._uses(flows)
        return formulas.max_min_rates(uses, capacities, _demands(demands, len(uses)))

    def traffic(self, flows: Iterable[Flow], demands: ArrayLike = np.inf) -> pd.DataFrame:
        """Return the load of every link and direction under concurrent `flows`, each of at most `demands` [B/s].

        Returns
        -------
        pandas.DataFrame
            from, to, bandwidth [B/s], used [B/s], share (used of bandwidth) [-], flows (number that cross it) [-].
        """
        uses, capacities, directed = self._uses(flows)
        carried = formulas.max_min_rates(uses, capacities, _demands(demands, len(uses))) @ uses
        frame = pd.DataFrame(directed, columns=["from", "to"])
        crossing = uses.sum(axis=0).astype(int)
        return frame.assign(bandwidth=capacities, used=carried, share=carried / capacities, flows=crossing)

    def input_flows(self, source: str = "memory") -> list[Flow]:
        """Return one flow from a `source` to each accelerator: memory, storage (direct), network, or a node.

        Each accelerator reads from the node of that kind with the widest path; of equal ones from the nearest, of
        those from the one that the fewest others read from.
        """
        kind = isinstance(source, str) and source in SOURCES
        origins = self.named(source) if kind else [self.nodes[self._place(source)].name]
        if not origins:
            kinds = ", ".join(dict.fromkeys(node.kind for node in self.nodes))
            raise ValueError(f"{self.name} has no {source}; it has {kinds}")
        readers = dict.fromkeys(origins, 0)
        flows = []
        for device in self.named("accelerator"):
            rank = {o: (-self.bandwidth(o, device), len(self.path(o, device)), readers[o]) for o in origins}
            chosen = min(origins, key=lambda origin: rank[origin])
            readers[chosen] += 1
            flows.append((chosen, device))
        return flows

    def rings(self, order: Sequence[str] | None = None) -> list[list[Flow]]:
        """Return the rings of an all-reduce, each accelerator to the next: one in the given `order`, or all that fit.

        Without an order, rings are added one by one, each with the widest possible narrowest pair, until links are
        full. If the first uses links between accelerators only, so do the others, as in communication libraries.
        """
        if order is not None and not (isinstance(order, (list, tuple)) and all(isinstance(a, str) for a in order)):
            raise refused("order", order, "is no order of accelerators; give a list of their names")
        rings = [tuple(order)] if order is not None else _rings(self)
        return [list(pairwise([*ring, ring[0]])) for ring in rings if len(ring) > 1]

    def ring_flows(self, order: Sequence[str] | None = None) -> list[Flow]:
        """Return the flows of all `rings`, in the given `order` or as they fit, in one list."""
        return [flow for ring in self.rings(order) for flow in ring]

    def ring_bandwidth(self, beside: Iterable[Flow] = (), order: Sequence[str] | None = None) -> float:
        """Return the rate of an all-reduce over `rings`, of an `order` if given, while the flows `beside` run [B/s].

        The slowest flow of each ring sets its pace. The result is the bus bandwidth of benchmarks, and the bandwidth in
        the formulas of collectives; NaN for one accelerator, which does not communicate.
        """
        rings, others = self.rings(order), list(beside)
        rates = self.concurrent([*(flow for ring in rings for flow in ring), *others])
        paces = [float(rates[at * len(ring) : (at + 1) * len(ring)].min()) for at, ring in enumerate(rings)]
        return sum(paces) if paces else math.nan

    def frame(self) -> pd.DataFrame:
        """Return nodes and links as one tidy frame, laid out for a drawing: a row for each kind, memory on top.

        Returns
        -------
        pandas.DataFrame
            part (node or link), name, kind, start, end, bandwidth [B/s], x, y, x2, y2 (0 to 1; of a link its two
            ends), how, source. Columns that do not apply are blank or NaN.
        """
        at = _positions(self.nodes)
        rows = [{"part": "node", **vars(node), "x": at[node.name][0], "y": at[node.name][1]} for node in self.nodes]
        for link in self.links:
            (x, y), (x2, y2) = at[link.start], at[link.end]
            rows.append({"part": "link", "kind": "link", **vars(link), "x": x, "y": y, "x2": x2, "y2": y2})
        words = ["start", "end"]
        columns = ["part", "name", "kind", *words, "bandwidth", "x", "y", "x2", "y2", "how", "source"]
        frame = pd.DataFrame(rows, columns=columns)
        return frame.assign(**{word: frame[word].fillna("") for word in words})

    def _place(self, name: str) -> int:
        names = [node.name for node in self.nodes]
        if not isinstance(name, str) or name not in names:
            suggestions = ", ".join(nearest(str(name)[:40], names, 3))
            raise ValueError(f"{self.name} has no node {shown(name)}; nearest: {suggestions}")
        return names.index(name)

    def _uses(self, flows: Iterable[Flow]) -> tuple[np.ndarray, np.ndarray, list[Flow]]:
        """Return the incidence of flows and links, the links' rates, and their ends.

        Each direction is a link of its own.
        """
        rates, flows = _rates(self), _pairs(flows)
        directed = {(int(a), int(b)): i for i, (a, b) in enumerate(np.argwhere(rates > 0))}
        uses = np.zeros((len(flows), len(directed)))
        for flow, (start, end) in enumerate(flows):
            if start == end:
                raise ValueError(f"a flow leads from {start} to itself; give two nodes")
            for pair in pairwise(map(self._place, self.path(start, end))):
                uses[flow, directed[pair]] += 1
        names = [(self.nodes[a].name, self.nodes[b].name) for a, b in directed]
        return uses, rates[rates > 0], names


def _rate(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < 1e308:
        raise refused(name, value, "is outside (0, inf): give a rate above zero [B/s]")
    return float(value)


def _pairs(flows: Any) -> list[Flow]:
    pairs: list[Any] = list(flows) if isinstance(flows, Iterable) and not isinstance(flows, (str, Mapping)) else [None]
    if not all(isinstance(flow, (list, tuple)) and len(flow) == 2 for flow in pairs):
        raise refused("flows", flows, "are no pairs of nodes; give a list such as [('memory0', 'gpu0')]")
    return pairs


def _demands(demands: Any, count: int) -> np.ndarray:
    """Return the largest demand of each flow; NaN, text and negative rates are refused."""
    allowed = f"give one rate of zero or more for all flows, or {count} of them [B/s]"
    try:
        rates = np.asarray(demands, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise refused("demands", demands, f"are no rates: {allowed}") from None
    if rates.shape not in ((), (count,)) or not (rates >= 0).all():
        raise refused("demands", demands, f"is outside [0, inf): {allowed}")
    return rates


@lru_cache(maxsize=64)
def _rates(machine: Topology) -> np.ndarray:
    """Return the rate from each node to each other [B/s]; links between the same two nodes add up."""
    places = {node.name: place for place, node in enumerate(machine.nodes)}
    rates = np.zeros((len(places), len(places)))
    for link in machine.links:
        for a, b in ((link.start, link.end), (link.end, link.start)):
            rates[places[a], places[b]] += link.bandwidth
    return rates


@lru_cache(maxsize=64)
def _paths(machine: Topology) -> np.ndarray:
    return formulas.widest_paths(_rates(machine), [node.kind in FORWARDS for node in machine.nodes])


@lru_cache(maxsize=64)
def _rings(machine: Topology) -> tuple[tuple[str, ...], ...]:
    """Return rings of all accelerators, each with its reverse, the widest that the remaining link bandwidth allows."""
    left, passes = _rates(machine).copy(), np.array([node.kind in FORWARDS for node in machine.nodes])
    devices = [place for place, node in enumerate(machine.nodes) if node.kind == "accelerator"]
    tours: list[list[int]] = []
    while len(devices) > 1 and (ring := _widest_ring(formulas.widest_bandwidths(left, passes), devices)):
        for tour in (ring, [ring[0], *ring[:0:-1]]):
            uses = _crossed(tour, formulas.widest_paths(left, passes))
            if uses is not None:
                passes = passes & (uses.sum(axis=0) > 0)
                left = np.maximum(left - uses * (left[uses > 0] / uses[uses > 0]).min(), 0)
                left[left < NEGLIGIBLE_SHARE * _rates(machine)] = 0
                tours.append(tour)
    return tuple(tuple(machine.nodes[place].name for place in ring) for ring in tours)


def _crossed(ring: Sequence[int], paths: np.ndarray) -> np.ndarray | None:
    """Return the number of times a ring crosses each link; None if some pair of it has no path."""
    uses = np.zeros(paths.shape[:2])
    for start, end in pairwise([*ring, ring[0]]):
        if paths[start, end, 0] < 0:
            return None
        for pair in pairwise(place for place in paths[start, end] if place >= 0):
            uses[pair] += 1
    return uses


def _widest_ring(width: np.ndarray, devices: list[int]) -> list[int]:
    """Return the ring of all devices whose narrowest pair is widest, the first in their order; empty if none."""
    for least in np.unique(width[np.ix_(devices, devices)])[::-1]:
        joined = {a: [b for b in devices if b != a and width[a, b] >= least] for a in devices}
        ring = _ring(joined, devices[:1], len(devices)) if 0 < least < np.inf else []
        if ring:
            return ring
    return []


def _ring(joined: Mapping[int, list[int]], begun: list[int], length: int) -> list[int]:
    """Return the first closed tour that starts with `begun`; empty if there is none."""
    if len(begun) == length:
        return begun if begun[0] in joined[begun[-1]] else []
    tours = (_ring(joined, [*begun, other], length) for other in joined[begun[-1]] if other not in begun)
    return next(filter(None, tours), [])


def _positions(nodes: Sequence[Node]) -> dict[str, tuple[float, float]]:
    """Return the drawing position of each node: kinds in rows, evenly spaced in the order of the nodes."""
    rows = [[node.name for node in nodes if node.kind == kind] for kind in ROWS]
    filled = [row for row in rows if row]
    height = max(len(filled) - 1, 1)
    return {
        name: ((place + 0.5) / len(row), 1 - level / height)
        for level, row in enumerate(filled)
        for place, name in enumerate(row)
    }


@checked(
    name=Field.named(
        "system_topologies", Topology, what="machine", give="a key of the table system_topologies or a Topology"
    )
)
def topology(name: str | Topology) -> Topology:
    """Return the graph of a machine's inside: its nodes, its links, and the rates of flows alone and concurrently.

    Parameters
    ----------
    name : str
        Key, name or alias in the table ``system_topologies``; a Topology is returned unchanged.

    Raises
    ------
    UnknownName
        If no such machine is drawn (a KeyError; names the nearest three).
    ValueError
        If it is neither text nor a Topology.

    Examples
    --------
    >>> box = topology("DGX-1 (V100)")
    >>> box.bandwidth("gpu0", "gpu3"), box.bandwidth("gpu0", "gpu5")
    (50000000000.0, 15750000000.0)
    >>> box.concurrent(box.input_flows())[:2].tolist()
    [7875000000.0, 7875000000.0]
    """
    return name if isinstance(name, Topology) else _machine(catalog.lookup("system_topologies", name))


@cache
def _machine(key: str) -> Topology:
    description = catalog.table("system_topologies").set_index("key").loc[key]
    nodes, links = (_rows(f"system_{part}", key) for part in ("nodes", "links"))
    kinds = catalog.table("interconnects").set_index("key")
    return Topology(
        key=key,
        name=description["name"],
        root=description["root"],
        accelerator=description["accelerator"],
        nodes=tuple(Node(row["node"], row["kind"], row["how"], row["source"]) for row in nodes),
        links=tuple(_link(row, kinds) for row in links),
        note=description["note"],
        source=tuple(description["source"].split(";")),
        system=description["system"],
        processor=description["processor"],
    )


def _rows(table: str, key: str) -> list[dict[str, Any]]:
    frame = catalog.table(table)
    return frame[frame["system"] == key].to_dict("records")


def _link(row: Mapping[str, Any], kinds: pd.DataFrame) -> Link:
    """Return a link with the total rate of its parallel lanes; recalled if its wiring or its rate is."""
    count, kind = int(row["count"]), kinds.loc[row["link"]] if row["link"] else None
    if kind is None:
        return Link(row["from"], row["to"], count * row["bandwidth"], row["note"], row["how"], row["source"])
    recalled = {"bandwidth", "all"} & set(kind["recalled_fields"].split(";"))
    name = f"{count} × {kind['name']}" if count > 1 else kind["name"]
    sources = dict.fromkeys([*row["source"].split(";"), *kind["source"].split(";")])
    how = "recalled" if recalled else row["how"]
    return Link(row["from"], row["to"], count * float(kind["bandwidth"]), name, how, ";".join(sources))
