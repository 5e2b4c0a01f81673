"""What if the machine were another: an accelerator with some figures changed, larger nodes, a faster network."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cookbook import catalog, hardware, units
from cookbook.catalog import UnknownName
from cookbook.hardware import Accelerator

System = str | Accelerator


def base_of(system: System) -> str:
    """Name that the catalogue has: of an accelerator with some figures changed, the one that it is like."""
    return system.key.rstrip("*") if isinstance(system, Accelerator) else system


def accelerator_of(system: System) -> tuple[Accelerator, str, float]:
    """Accelerator of a machine, the key of the machine and how many it has (1 for an accelerator by itself).

    Raises
    ------
    UnknownName
        Neither an accelerator nor a server.
    ValueError
        A server whose accelerator the catalogue does not name.
    """
    if isinstance(system, Accelerator):
        return system, system.key, 1.0
    try:
        found = hardware.accelerator(system)
        return found, found.key, 1.0
    except UnknownName:
        key = catalog.lookup("systems", system)
    rows = catalog.table("systems")
    row = rows.loc[rows["key"] == key].iloc[0]
    if not row["accelerator_key"]:
        raise ValueError(f"system = {system!r}: the catalogue does not say which accelerator it has")
    return hardware.accelerator(row["accelerator_key"]), key, float(row["devices"])


def network_rate(network: float | str) -> float:
    """Rate of the network for one device, one direction [B/s].

    Raises
    ------
    ValueError
        No rate, or none above 0 and finite.

    Examples
    --------
    >>> network_rate("400 Gbit/s")
    50000000000.0
    """
    rate = float(units.si(network, "B/s"))
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"network = {network!r} must be above 0 and finite, such as '400 Gbit/s' or '50 GB/s'")
    return rate


def altered(scenarios: Any, system: System, network: float | str | None, precision: str) -> Any:
    """Scenarios on a machine with other figures than the catalogue's: those of a changed accelerator, of the network.

    Parameters
    ----------
    scenarios : Scenarios
        Rows of transformer training; not changed.
    system : str or Accelerator
        An accelerator with some figures changed counts, names change nothing.
    network : float or str, optional
        Rate of the network for one device, one direction [B/s].
    precision : str
        What products are computed in.
    """
    new: dict[str, float] = {} if network is None else {"network": network_rate(network)}
    if isinstance(system, Accelerator) and system.changed:
        wide = hardware.peak_flops(system, "bf16")
        wide = wide if math.isfinite(wide) else hardware.peak_flops(system, "fp16")
        peak = hardware.peak_flops(system, precision)
        new |= {"mem_bandwidth": system.mem_bandwidth, "memory": system.memory_bytes, "peak": peak, "wide_peak": wide}
    filled = {name: np.full(len(scenarios), value) for name, value in new.items() if math.isfinite(value)}
    return replace(scenarios, values={**scenarios.values, **filled}) if filled else scenarios
