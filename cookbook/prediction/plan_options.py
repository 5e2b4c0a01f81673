"""What a plan may add to a layout (schedule, shard group, offload, capacity, network) as cells of a row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import hardware
from cookbook.hardware.machine import host_rate
from cookbook.performance.pipeline import FILLED, SCHEDULES
from cookbook.prediction.constants import figure
from cookbook.prediction.fabrics import Fabric, fabric

OFFLOADS = ("", "optimiser", "optimiser to drives")
NAMES = {"pipeline_schedule": ("", *dict.fromkeys([*SCHEDULES, *FILLED])), "offload": OFFLOADS}
# Fields of a plan that are cells of a row as they stand.
CELLS = {"pipeline_schedule": "pipeline_schedule", "shard": "shard_group", "capacity_factor": "capacity_factor",
         "oversubscription": "oversubscription"}  # fmt: skip
USUAL = {"pipeline_schedule": "", "shard": None, "capacity_factor": None, "oversubscription": 1, "offload": "",
         "fabric": ""}  # fmt: skip
FIELDS = tuple(USUAL)


def networks(names: Any) -> list[Fabric | None]:
    """The networks that a plan names, one or a list; None where it names none. A torus is refused."""
    found = [fabric(name) if name else None for name in np.ravel(np.asarray(names, dtype=object)).tolist()]
    for known in found:
        if known is not None and known.kind == "torus":
            raise ValueError(
                f"fabric = {known.key!r} is a torus: its links join the whole slice, which the prediction for its "
                "accelerator counts already; leave fabric out"
            )
    return found


def per_node(plan: Any, usual: float) -> Any:
    """Devices of a node: what the plan says, else the domain of its network, else the usual; no more than there are."""
    if plan.per_node is not None:
        return plan.per_node
    domains = np.array([usual if known is None else known.domain for known in networks(plan.fabric)])
    return np.minimum(np.asarray(plan.devices, dtype=float), domains if np.ndim(plan.fabric) else domains[0])


def cells(plan: Any, accelerator: str) -> dict[str, Any]:
    """Cells of a row for the fields of a plan that are not as usual.

    Parameters
    ----------
    plan : Plan
        The layout.
    accelerator : str
        Key of the device, whose link to the host counts where states are offloaded.

    Raises
    ------
    ValueError
        A schedule or an offload of another name, a torus as network, a device whose link to the host is not known.
    """
    for field, known in NAMES.items():
        for value in np.ravel(np.asarray(getattr(plan, field), dtype=object)).tolist():
            if value not in known:
                offered = ", ".join(map(repr, known[1:]))
                raise ValueError(f"{field} = {value!r} is not one of {offered}; leave it out for the usual")
    row = {column: getattr(plan, field) for field, column in CELLS.items() if _given(plan, field)}
    found = networks(plan.fabric)
    if any(found):
        row |= _network(plan, found)
    if _given(plan, "offload"):
        row |= _offload(plan, accelerator)
    return row


def _given(plan: Any, field: str) -> bool:
    """Whether a plan has a field otherwise than usual, in one entry at least."""
    return any(cell != USUAL[field] for cell in np.ravel(np.asarray(getattr(plan, field), dtype=object)).tolist())


def _network(plan: Any, found: list[Fabric | None]) -> dict[str, Any]:
    read = {
        "network_bandwidth": lambda known: known.network_bandwidth,
        "pod": lambda known: known.group,
        "oversubscription": lambda known: known.oversubscription,
    }
    columns = {name: [None if each is None else cell(each) for each in found] for name, cell in read.items()}
    row: dict[str, Any] = columns if np.ndim(plan.fabric) else {name: column[0] for name, column in columns.items()}
    return row | ({"oversubscription": plan.oversubscription} if _given(plan, "oversubscription") else {})


def _offload(plan: Any, accelerator: str) -> dict[str, Any]:
    link = host_link(accelerator)
    if not np.isfinite(link):
        raise ValueError(f"offload = {plan.offload!r}: the catalogue does not know the host link of {accelerator}")
    rates = {"offload_link": link, "offload_memory": figure("host-memory-of-device"),
             "offload_drives": figure("drives-of-device")}  # fmt: skip

    def cell(name: str, place: str) -> Any:
        return None if not place or (name == "offload_drives" and place != OFFLOADS[2]) else rates[name]

    places = np.ravel(np.asarray(plan.offload, dtype=object)).tolist()
    row: dict[str, Any] = {name: [cell(name, place) for place in places] for name in rates}
    row["cpu_offload"] = ["optimizer" if place else "" for place in places]
    return row if np.ndim(plan.offload) else {name: value[0] for name, value in row.items()}


@lru_cache(maxsize=256)
def host_link(accelerator: str) -> float:
    """Achieved rate from a device to its host, one direction [B/s]; NaN where the catalogue does not know the link.

    >>> round(host_link("a100-sxm-80gb") / 1e9, 1), round(host_link("h100-sxm") / 1e9, 1)
    (25.2, 54.2)
    """
    return host_rate(hardware.accelerator(accelerator))
