"""Frames, tables and parts of the panel "Where does scaling stop, and why?"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.calibration import speedups as speed
from cookbook.charts import scaling as charts
from cookbook.charts.look import TIME_PARTS
from cookbook.charts.rows import row_order
from cookbook.panels.shell import Part, Picture
from cookbook.prediction.scaling import device_of
from cookbook.units import human
from cookbook.workloads import zoo

MILLI = 1e-3
FORMULAS = {
    "compute": "Products of matrices: FLOP over the rate that the device reaches.",
    "memory traffic": "Operations between products: bytes over memory bandwidth.",
    "launch": "Time to start operations, whatever their size.",
    "data-parallel communication": "What the backward pass cannot hide of the sum of gradients over all devices.",
    "optimiser": "Weights, gradients and states read and written once a step.",
    "waiting": "Devices of a node share its host and wait for the slowest.",
}


@dataclass(frozen=True, eq=False)
class Scaled:
    """Networks over devices; never change it.

    Attributes
    ----------
    name, title : str
        The first network, by key and as printed.
    whole : pandas.DataFrame
        `cb.scaling` of all networks, one after the other, with `network`.
    measured : pandas.DataFrame
        Measured speed-ups of the first network on this device.
    work : float
        MAC of a step for each parameter, on the fullest device of the last row.
    """

    name: str
    title: str
    whole: pd.DataFrame
    measured: pd.DataFrame
    work: float
    device: str
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, model: str, compare: Sequence[str], arguments: Mapping[str, Any]) -> Scaled:
        """Networks with the same arguments of `cb.scaling`."""
        names = list(dict.fromkeys([model, *compare]))
        tables = [_scaled(name, tuple(arguments.items())) for name in names]
        networks = [zoo.model(name) for name in names]
        whole = pd.concat([t.assign(network=n.title) for t, n in zip(tables, networks, strict=True)], ignore_index=True)
        device, ops = device_of(arguments["system"]), networks[0].ops
        per_sample = float(ops.total("macs", 1, networks[0].seq)) / ops.parameter_count
        known = speed.pairs()
        measured = known[(known["network"] == networks[0].name) & (known["accelerator"] == device)]
        measured = measured[measured["devices"] <= tables[0]["devices"].max()]
        measured = measured if arguments["mode"] == "weak" else measured[:0]
        work = per_sample * float(tables[0]["batch"].iloc[-1])
        return cls(networks[0].name, networks[0].title, whole, measured, work, device, arguments)

    @cached_property
    def own(self) -> pd.DataFrame:
        """Rows of the first network."""
        return self.whole[self.whole["network"] == self.title]

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Device time of one sample by part [s], one row a number of devices."""
        samples = self.own["samples_per_second"] / self.own["devices"]
        parts = self.own[[f"{name} [s]" for name in TIME_PARTS if f"{name} [s]" in self.own]]
        parts = parts.rename(columns=lambda name: name.removesuffix(" [s]"))
        return parts.div(samples * self.own["step_seconds"], axis=0)


@lru_cache(maxsize=256)
def _scaled(name: str, arguments: tuple[tuple[str, Any], ...]) -> pd.DataFrame:
    return speed.scaling(name, **dict(arguments))


def speedups(view: Scaled, ghost: Scaled | None) -> Picture:
    """Predicted lines, the band of the first network, what was measured of it, and the first of a pinned scenario."""
    lines = pd.DataFrame({
        "devices": view.whole["devices"], "speed_up": view.whole["speed_up"], "network": view.whole["network"],
        "low": view.whole["low80"].where(view.whole["network"] == view.title),
        "high": view.whole["high80"].where(view.whole["network"] == view.title), "measured": False, "url": "",
        "pinned": False,
    })  # fmt: skip
    points = pd.DataFrame({
        "devices": view.measured["devices"].astype(int), "speed_up": view.measured["measured_speed_up"],
        "network": view.title, "measured": True, "url": view.measured["url"], "pinned": False,
    })  # fmt: skip
    kept = (ghost.own if ghost else view.own[:0])[["devices", "speed_up"]]
    kept = kept.assign(network="pinned", measured=False, url="", pinned=True)
    frame = pd.concat([rows for rows in (lines, points, kept) if len(rows)], ignore_index=True)
    signals = {"most": int(lines["devices"].max()), "least": charts.least(frame),
               "networks": row_order(lines.assign(row=lines["network"]))}  # fmt: skip
    return Picture("speedups", _plain(frame), charts.speedups_title(frame), signals)


def efficiencies(view: Scaled, ghost: Scaled | None) -> Picture:
    """The same as shares of the ideal."""
    drawn = speedups(view, ghost)
    devices = drawn.frame["devices"]
    shares = {new: [None if value is None else float(f"{100 * value / count:.5g}") for value, count in zip(
        drawn.frame[old], devices, strict=True)] for new, old in
        {"share": "speed_up", "low": "low", "high": "high"}.items()}  # fmt: skip
    frame = drawn.frame.drop(columns="speed_up").assign(**shares)
    return Picture("efficiency", frame, charts.efficiencies_title(frame), drawn.signals)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Missing numbers as None, numbers to six digits."""
    number = frame[["speed_up", "low", "high"]].astype(float)
    number = number.map(lambda value: float(f"{value:.6g}"))
    return frame.assign(**number.astype(object).where(number.notna(), None))


def step_parts(view: Scaled, _ghost: Scaled | None) -> Picture:
    """Device time of one sample by part, over devices."""
    shares = view.shares / MILLI
    labels = [f"{count:,} device{'s' if count > 1 else ''}" for count in view.own["devices"]]
    left = [f"{100 * share:.0f} % of the ideal" for share in view.own["efficiency"]]
    frame = pd.DataFrame([
        {"row": label, "part": part, "value": float(f"{row[part]:.5g}"), "text": text if part == "compute" else None}
        for label, text, (_, row) in zip(labels, left, shares.iterrows(), strict=True) for part in shares
    ])  # fmt: skip
    title = f"On {labels[-1]}, {left[-1]}: what grows is {growth(view)[0]}"
    return Picture("parts", frame, title, {"rows": row_order(frame), "most": charts.longest(frame)})


def growth(view: Scaled) -> tuple[str, float]:
    """Part that a sample costs most more of on the last row than on one device, and its share of all that is added."""
    shares = view.shares
    more = shares.iloc[-1] - shares.iloc[0]
    added = float(more.clip(lower=0).sum())
    return str(more.idxmax()), float(more.max()) / added if added > 0 else 0.0


def parts(view: Scaled) -> tuple[Part, ...]:
    """Place 4: the step on most devices."""
    last = view.own.iloc[-1]
    return tuple(
        Part(name, float(last[f"{name} [s]"]), human(float(last[f"{name} [s]"]), "s"), colour, FORMULAS[name])
        for name, colour in TIME_PARTS.items() if f"{name} [s]" in last
    )  # fmt: skip


def table(view: Scaled) -> pd.DataFrame:
    """Rows of the first network as printed text."""
    own = view.own
    known = own["low80"].notna()
    ends = [f"{low:,.3g}-{high:,.3g}" for low, high in zip(own["low80"], own["high80"], strict=True)]
    return pd.DataFrame({
        "Devices": [f"{count:,}" for count in own["devices"]], "Nodes": [f"{count:,}" for count in own["nodes"]],
        "Batch a device": [f"{batch:,.0f}" for batch in own["batch"]],
        "Step": [human(step, "s") for step in own["step_seconds"]],
        "Samples/s": [f"{rate:,.0f}" for rate in own["samples_per_second"]],
        "Speed-up": [f"{times:,.1f}" for times in own["speed_up"]],
        **({"80 % interval": ends} if known.all() else {}),
        "Of the ideal": [f"{100 * share:.0f} %" for share in own["efficiency"]],
        "Exchange in a step": [f"{100 * share:.0f} %" for share in own["data-parallel communication [s]"]
                               / own["step_seconds"]],
    })  # fmt: skip


def sources(view: Scaled) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of the network, the device, the link, and the measured speed-ups drawn."""
    rows = catalog.table("sources").set_index("key")
    devices = catalog.table("accelerators").set_index("key")
    keys = {key: "layers of the network" for key in zoo.model(view.name).sources}
    keys |= {key: "figures of the device" for key in devices.loc[view.device, "source"].split(";")}
    if view.arguments["link"]:
        links = catalog.table("interconnects").set_index("key")
        keys |= {key: "figures of the link" for key in links.loc[view.arguments["link"], "source"].split(";")}
    found = [(rows.loc[key, "title"], _text(rows.loc[key, "url"]), note) for key, note in keys.items()]
    runs = view.measured[["source", "url"]].value_counts().reset_index(name="runs")
    drawn = [(row.source, row.url, f"{row.runs:,} measured speed-ups") for row in runs.itertuples(index=False)]
    return (*found, *drawn)


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else ""
