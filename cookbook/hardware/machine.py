"""Machines: the resources of an accelerator, a server or a cloud instance, from one look-up for every question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from cookbook import catalog, units
from cookbook.catalog import UnknownName, constant
from cookbook.catalog.calls import as_python
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.names import normalise
from cookbook.catalog.reading import likeness
from cookbook.catalog.refusals import refused
from cookbook.hardware.accelerator import (
    LONGEST_NAME,
    MAX_COUNT,
    Accelerator,
    ByFigures,
    accelerator,
    catalogue,
    catalogue_row,
    found_key,
    interconnects,
)
from cookbook.units import shown

# Devices per node where neither a server nor the caller states them.
DEFAULT_NODE = 8
# Devices of the largest single machine; racks and pods print the network of a part.
LARGEST_NODE = 16
# Rows of link_shares by kind of link; of other links no share is known.
SHARES = {"fast": "nvlink", "bus": "pcie"}
DEFAULT_BUS = "pcie-3-0-x16"
# Mark of an offer in the list of cloud prices that is not an instance.
NO_INSTANCE = "(per chip)"


@dataclass(frozen=True, eq=False)
class Machine(ByFigures):
    """The machine that a job runs on, in SI; read-only, hashable, and equal to another with the same values.

    Attributes
    ----------
    accelerator : Accelerator
        Accelerator of the machine.
    name : str
        As printed.
    server, instance : str
        Key in systems, name of the cloud instance; blank where there is none.
    per_node : int
        Devices of a node [-].
    link : float
        Nominal rate of a device to the others of its node, one direction [B/s].
    ring_link : float
        Rate of an all-reduce in the node over the links between its devices [B/s].
    domain : float
        Devices that the fast link joins [-]; NaN where not stated.
    network : float
        Nominal network rate of one device, one direction [B/s].
    network_stated : bool
        True if the server states it; else it is the usual one of such devices.
    network_shared : bool
        True if the devices of a node share its ports, so that each of fewer devices gets more.
    ring_network : float
        Rate of an all-reduce between nodes [B/s].
    host_link : float
        Rate that copies from the host to one device reach [B/s]; NaN where the link is not known.
    generation : str
        Generation of the devices; blank for an accelerator of the reader's own that states none.
    cores : float
        Number of devices that one accelerator counts as in parallelism configurations [-].
    sources : tuple of str
        Keys of the sources.
    """

    accelerator: Accelerator
    name: str
    server: str
    instance: str
    per_node: int
    link: float
    ring_link: float
    domain: float
    network: float
    network_stated: bool
    network_shared: bool
    ring_network: float
    host_link: float
    generation: str
    cores: float
    sources: tuple[str, ...] = field(repr=False)

    @property
    def priced(self) -> str | Accelerator:
        """The server, else the accelerator: what prices are stated for."""
        return self.server or self.accelerator

    def python(self) -> str:
        """Return Python that gives this machine: its server, its instance or its accelerator, and devices of a node."""
        named = self.server or self.instance
        text = as_python(named) if named else self.accelerator.python()
        usual = machine(named or self.accelerator).per_node
        return text if not text or usual == self.per_node else f"cb.machine({text}, per_node={self.per_node})"

    def __repr__(self) -> str:
        rates = f"link {units.human(self.link, 'B/s')}, network {units.human(self.network, 'B/s')} a device"
        return f"Machine({self.name}: {self.per_node} × {self.accelerator.name} a node, {rates})"


@checked(
    what=Field.named(
        "accelerators",
        Accelerator,
        Machine,
        what="machine",
        give="the name of an accelerator, a server or a cloud instance, or cb.accelerator(...)",
    ),
    per_node=Field.count(high=MAX_COUNT),
)
def machine(what: str | Accelerator | Machine, *, per_node: int | None = None) -> Machine:
    """Return the machine of a name or a record.

    Parameters
    ----------
    what : str, Accelerator or Machine
        Accelerator by key, name or alias; server of the table ``systems``; cloud instance of the table
        ``cloud_prices``; or a record, the reader's own included.
    per_node : int, optional
        Devices of a node that the job uses; those of the server or instance, else 8, if not given.

    Raises
    ------
    UnknownName
        If nothing has that name (a KeyError; names the nearest three of all three tables).
    ValueError
        If `what` is neither a name nor a record, an instance has part of an accelerator or one that the catalogue does
        not name, or `per_node` is not an integer or exceeds the server's devices.

    Examples
    --------
    >>> machine("DGX H100")
    Machine(DGX H100: 8 × H100 SXM5 80GB a node, link 450 GB/s, network 50 GB/s a device)
    >>> machine("p4d.24xlarge").server, machine("h100-sxm").network_stated
    ('aws-p4d-24xlarge', False)
    """
    known = _of_record(what) if isinstance(what, Accelerator) else what
    found = _by_name(known) if isinstance(known, str) else known
    return found if per_node is None or per_node == found.per_node else _resize(found, per_node)


def _resize(base: Machine, count: int) -> Machine:
    """Return the machine with another number of devices per node; for a server, no more than it has."""
    if count > base.per_node and (base.server or base.instance):
        remedy = f"give that or fewer, or name the accelerator, {base.accelerator.name}"
        raise refused("per_node", count, f": {base.name} has {base.per_node} accelerators; {remedy}")
    more = base.per_node / count if base.network_shared else 1.0
    return replace(base, per_node=count, network=base.network * more, ring_network=base.ring_network * more)


@lru_cache(maxsize=4096)
def _by_name(name: str) -> Machine:
    unknown, spelling = [], normalise(name) if len(name) <= LONGEST_NAME else ""
    # The key of a server means the server, even if an accelerator has that name.
    if spelling in _server_keys():
        return _server(_server_keys()[spelling])
    for table, build in (("accelerators", lambda key: _of_record(accelerator(key))), ("systems", _server)):
        try:
            key = found_key(table, name)
        except UnknownName as error:
            if getattr(error, "shared", False):
                raise
            unknown.append(error)
        else:
            return build(key)
    row = _instances().get(spelling)
    if row is None:
        raise _unknown_machine(name, [key for error in unknown for key in error.nearest])
    return _instance(row)


def _unknown_machine(name: str, near: list[str]) -> UnknownName:
    """Return the error for a name that no table has, with the three nearest of all tables."""
    normalised = normalise(name[:LONGEST_NAME])

    def score(candidate: str) -> float:
        spelling = normalise(candidate)
        return likeness(normalised, spelling) + (len(normalised) > 1 and spelling.startswith(normalised))

    candidates = dict.fromkeys([*near, *(row["instance"] for row in _instances().values())])
    nearest = sorted(candidates, key=score, reverse=True)[:3]
    error = UnknownName("accelerators", name[: LONGEST_NAME + 1], nearest)
    error.message = (
        f"no accelerator, server or cloud instance is called {shown(name)}; nearest names: {', '.join(nearest)}. Write "
        'one of them, or list all with cb.table("accelerators"), "systems" or "cloud_prices"'
    )
    error.args = (error.message,)
    return error


@cache
def _instances() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of cloud_prices by spelling of the instance, alone and after its provider."""
    rows: dict[str, Mapping[str, Any]] = {}
    for row in catalog.table("cloud_prices").to_dict("records"):
        if row["instance"] not in ("", NO_INSTANCE):
            for spelling in (row["instance"], f"{row['provider']} {row['instance']}"):
                rows.setdefault(normalise(spelling), row)
    return MappingProxyType(rows)


@cache
def _servers() -> Mapping[str, Mapping[str, Any]]:
    return MappingProxyType({row["key"]: row for row in catalog.table("systems").to_dict("records")})


@cache
def _server_keys() -> Mapping[str, str]:
    """Return the keys of servers by spelling, without those that are also keys of accelerators."""
    accelerators = {normalise(key) for key in catalogue()}
    return MappingProxyType({normalise(key): key for key in _servers() if normalise(key) not in accelerators})


@lru_cache(maxsize=1024)
def _of_record(device: Accelerator) -> Machine:
    return _build(device, device.name, DEFAULT_NODE, device.sources)


def _server(key: str) -> Machine:
    row = _servers()[key]
    if not row["accelerator_key"]:
        raise ValueError(f"machine = {key!r}: the catalogue does not say for certain which accelerator it has")
    device = accelerator(row["accelerator_key"])
    sources = tuple(dict.fromkeys([*device.sources, *row["source"].split(";")]))
    return replace(_build(device, row["name"], int(row["devices"]), sources, row), server=key)


def _instance(row: Mapping[str, Any]) -> Machine:
    name, printed, count = row["instance"], row["accelerator_as_printed"], row["devices"]
    if not row["accelerator_key"]:
        raise ValueError(f"machine = {name!r}: the catalogue does not say for certain which accelerator {printed!r} is")
    if count != int(count):
        raise ValueError(f"machine = {name!r} has {count:g} of a device ({printed}); name one with whole accelerators")
    device = accelerator(row["accelerator_key"])
    try:
        server = _server(found_key("systems", f"{row['provider']} {name}"))
    except UnknownName:
        server = None
    if server is not None and (server.accelerator, server.per_node) == (device, int(count)):
        return replace(server, instance=name)
    sources = tuple(dict.fromkeys([*device.sources, *row["source"].split(";")]))
    return replace(_build(device, name, int(count), sources), instance=name)


def _build(
    device: Accelerator, name: str, per_node: int, sources: tuple[str, ...], server: Mapping[str, Any] | None = None
) -> Machine:
    """Return a machine from its device and, where there is one, the row of its server."""
    of_node = server["network_bandwidth"] if server else math.nan
    stated, ports = math.isfinite(of_node), server["network_ports"] if server else math.nan
    network = of_node / per_node if stated else network_rate(device)
    domain = server["scale_up_devices"] if server else math.nan
    return Machine(
        accelerator=device,
        name=name,
        server="",
        instance="",
        per_node=per_node,
        link=device.device_link if math.isfinite(device.device_link) else constant("link-where-unknown") / 2,
        ring_link=ring_link(device, server["node_link_kind"], server["bus_key"]) if server else ring_link(device),
        domain=float(domain if math.isfinite(domain) else device.scale_up_devices),
        network=network,
        network_stated=stated,
        # A device that has ports of its own keeps them, however many of its node a job uses.
        network_shared=stated and ports % per_node != 0,
        ring_network=network * link_shares()["network"],
        host_link=host_rate(device),
        generation=device.generation,
        cores=cores_per_device(device),
        sources=sources,
    )


@cache
def link_shares() -> Mapping[str, float]:
    """Return the share of the nominal rate of a link that an all-reduce reaches, by kind of link."""
    table = catalog.table("link_shares")
    return MappingProxyType(dict(zip(table["link"], table["share"].astype(float), strict=True)))


def ring_link(device: Accelerator, node_link_kind: str = "", bus_key: str = "") -> float:
    """Return the rate per device within its node that an all-reduce reaches, one direction [B/s].

    Parameters
    ----------
    device : Accelerator
        The devices.
    node_link_kind : str
        The link between devices in a server where it differs: "bridge" or "bus".
    bus_key : str
        The slot of that server, a key of interconnects.

    Examples
    --------
    >>> ring_link(accelerator("a100-sxm-80gb")), ring_link(accelerator("gtx-1080-ti"))
    (225000000000.0, 4725000000.0)
    """
    kind, shares = device.device_link_kind, link_shares()
    # A bridge joins two cards; sums over more devices cross the slower bus.
    if kind not in ("", "bridge") and math.isfinite(device.device_link) and node_link_kind not in ("bridge", "bus"):
        return device.device_link * (shares[SHARES[kind]] if kind in SHARES else 1.0)
    row = catalogue_row(device)
    share = shares["pcie-geforce" if row.get("peer_copies") == "no" else "pcie"]
    if not bus_key and math.isfinite(device.host_link) and (not row or "host_link" in device.changed):
        return device.host_link * share
    return float(interconnects()[bus_key or row.get("bus_key") or DEFAULT_BUS]["bandwidth"]) * share


def host_rate(device: Accelerator) -> float:
    """Return the rate of copies from the host to one device, one direction [B/s]; NaN where its link is not known.

    >>> round(host_rate(accelerator("a100-sxm-80gb")) / 1e9, 1), round(host_rate(accelerator("h100-sxm")) / 1e9, 1)
    (25.2, 54.2)
    """
    key = "" if "host_link" in device.changed else catalogue_row(device).get("host_link_key", "")
    share = interconnects()[key]["efficiency"] if key else math.nan
    return device.host_link * float(share if math.isfinite(share) else constant("copy-bandwidth-share"))


def generation(key: str) -> str:
    """Return the generation of a catalogue accelerator by its key, also where some values are changed; else blank.

    >>> generation("h100-sxm") == generation("h200-sxm*"), generation("x9-sxm")
    (True, '')
    """
    row = catalogue().get(key.removesuffix("*"))
    return str(row["generation"]) if row else ""


def cores_per_device(device: Accelerator) -> float:
    """Return the number of cores per device that are programmed as devices of their own, else 1 [-].

    >>> cores_per_device(accelerator("trainium1")), cores_per_device(accelerator("h100-sxm"))
    (2.0, 1.0)
    """
    cores = catalogue_row(device).get("layout_cores", math.nan)
    return float(cores) if cores > 1 else 1.0


@cache
def _networks() -> Mapping[str, float]:
    """Return the median network rate of one device in the systems of the catalogue, by accelerator [B/s]."""
    rates: dict[str, list[float]] = {}
    for row in _servers().values():
        key, count = row["accelerator_key"], row["devices"]
        if key and row["network_ports"] > 0 and 1 < count <= LARGEST_NODE:
            rates.setdefault(key, []).append(float(row["network_bandwidth"]) / count)
    return MappingProxyType({key: sorted(values)[len(values) // 2] for key, values in rates.items()})


def network_rate(device: Accelerator) -> float:
    """Return the usual network rate of one device [B/s], where nothing states one.

    The rate is that of its systems, else of its generation, else of the vendor's device nearest in age; for one of the
    reader's own that of its generation, else of the device nearest in memory bandwidth.
    """
    rates, row = _networks(), catalogue_row(device)
    if device.like in rates:
        return rates[device.like]
    records = catalogue()
    comparable = [other for other in rates if device.generation and records[other]["generation"] == device.generation]
    comparable = (
        comparable or [other for other in rates if row and records[other]["vendor"] == device.vendor] or list(rates)
    )

    def far(other: str) -> float:
        if row:
            return abs(_year(other) - _year(device.like))
        return abs(math.log(records[other]["mem_bandwidth"] / device.mem_bandwidth))

    return rates[min(comparable, key=far)]


def _year(key: str) -> int:
    return int(catalogue()[key]["launch_date"][:4] or 0)
