"""Frames, tables and parts of the panel "What does it take to train a transformer?", all from one planned run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.charts import models as memory_charts
from cookbook.charts import run as charts
from cookbook.charts import scaling as step_charts
from cookbook.charts.look import TIME_PARTS
from cookbook.charts.rows import row_order
from cookbook.hardware import Accelerator
from cookbook.panels.shell import Part, Picture
from cookbook.planning.layouts import accelerator_of
from cookbook.planning.run import TrainingRun, layout_words
from cookbook.units import human
from cookbook.workloads import zoo

MILLION, PERCENT, MINUTE = 1e6, 100.0, 60.0
SHOWN = 8
AGAIN = {"selective": ", recomputes some", "full": ", recomputes all"}
MEMORY = {
    "weights": ("weights", "gathered"), "gradients": ("gradients",), "optimiser states": ("optimiser",),
    "activations": ("activations", "transient"), "workspace": ("reserved",),
}  # fmt: skip
FORMULAS = {
    "compute": "Products of matrices and attention: FLOP over the rate that the device reaches.",
    "memory traffic": "Operations between products: bytes over memory bandwidth.",
    "launch": "Time to start operations, whatever their size.",
    "tensor-parallel communication": "What is not hidden of sums over the devices that share each product.",
    "pipeline-parallel communication": "Activations passed from stage to stage.",
    "data-parallel communication": "What the backward pass cannot hide of the exchange of gradients and weights.",
    "optimiser": "Weights, gradients and states read and written once a step.",
    "bubble": "Stages that wait while the pipeline fills and drains.",
    "waiting": "All wait for the slowest device.",
}


@dataclass(frozen=True, eq=False)
class Planned:
    """A run with what the reader chose; never change it.

    Attributes
    ----------
    values : mapping
        State of the controls.
    run : TrainingRun
        All numbers of devices drawn.
    title : str
        The model, as printed.
    device : Accelerator
    pinned : Planned or None
    """

    values: Mapping[str, Any]
    run: TrainingRun
    title: str
    device: Accelerator
    pinned: Planned | None

    @classmethod
    def of(cls, values: Mapping[str, Any], run: TrainingRun, pinned: Planned | None) -> Planned:
        """The run of a state of the controls."""
        device = accelerator_of(as_system(values["system"]))[0]
        return cls(dict(values), run, zoo.model(values["model"]).title, device, pinned)

    @cached_property
    def own(self) -> pd.Series:
        """Row of the number of devices chosen."""
        return self.run.table.set_index("devices", drop=False).loc[self.values["devices"]]

    @cached_property
    def priced(self) -> bool:
        """Whether an hour of the device has a price."""
        return bool(np.isfinite(self.run.price.median))

    @cached_property
    def layouts(self) -> pd.DataFrame:
        """Layouts of this number of devices, the fastest of each tensor, pipeline and context split."""
        assert self.run.layouts is not None
        table = self.run.layouts.table.assign(row=self.run.layouts.rows)
        table = table[table["devices"] == self.values["devices"]]
        for name in ("tp", "pp"):
            table = table if self.values[name] is None else table[table[name] == self.values[name]]
        best = table.drop_duplicates(["tp", "pp", "cp", "ep"]).reset_index(drop=True)
        days = self.own["days"] * best["step_seconds"] / self.own["step_seconds"]
        return best.assign(words=[layout_words(row) for _, row in best.iterrows()], days=days)

    def part_seconds(self, rows: Iterable[int]) -> pd.DataFrame:
        """Step by part [s] of some rows of the prediction."""
        assert self.run.layouts is not None
        at = np.asarray(list(rows), dtype=int)
        return pd.DataFrame({name: np.asarray(part)[at] for name, part in self.run.layouts.prediction.by_part.items()})


def as_system(value: Any) -> Any:
    """A name as it stands; the accelerator that a reader made up."""
    return hardware.accelerator(**value) if isinstance(value, Mapping) else value


def curve_picture(view: Planned) -> Picture:
    """Days and USD of every number of devices; device-hours where no price is known."""
    cost, ends = ("usd", ("usd_low", "usd_high")) if view.priced else ("device_hours", ())
    table = view.run.table[view.run.table["days"].notna()]
    rows: list[dict[str, Any]] = [
        {"what": "curve", "days": row["days"], "cost": row[cost], "text": f"{row['devices']:,}",
         "devices": int(row["devices"])}
        for _, row in table.iterrows()
    ]
    own, limits = view.own, dict(zip(("least", "most"), ends, strict=False))
    rows.append({"what": "here", "days": own["days"], "cost": own[cost], "text": f"{own['devices']:,}",
                 "low": own["days_low"], "high": own["days_high"],
                 **{name: own[end] for name, end in limits.items()}})  # fmt: skip
    if view.pinned is not None:
        then = view.pinned.own
        rows.append({"what": "ghost", "days": then["days"], "cost": then[cost], "text": f"{then['devices']:,}, pinned"})
    if view.values["deadline"]:
        rows.append({"what": "deadline", "days": view.values["deadline"],
                     "text": f"deadline {view.values['deadline']:g} days"})  # fmt: skip
    if view.values["budget"] and view.priced:
        budget = view.values["budget"]
        rows.append({"what": "budget", "cost": budget * MILLION, "text": f"budget {budget:g} M USD"})
    columns = ["what", "days", "cost", "text", "devices", "low", "high", "least", "most"]
    frame = _plain(pd.DataFrame(rows, columns=columns), [name for name in columns if name not in ("what", "text")])
    picture, what = ("curve", "cost") if view.priced else ("hours", "device-hours")
    return Picture(picture, frame, charts.curve_title(frame, what), charts.ends(frame))


def layouts_picture(view: Planned) -> Picture:
    """What a step is made of, in the fastest layouts."""
    best = view.layouts.head(SHOWN)
    parts = view.part_seconds(best["row"])
    frame = pd.DataFrame([
        {"row": row["words"], "part": part, "value": float(f"{parts[part].iloc[at]:.5g}"),
         "text": f"{figure(row['days'])} days, {_binary(row['memory_bytes'])}" if part == "compute" else None}
        for at, (_, row) in enumerate(best.iterrows()) for part in parts if np.isfinite(parts[part].iloc[at])
    ])  # fmt: skip
    longest = best["step_seconds"].iloc[-1] / best["step_seconds"].iloc[0]
    title = f"{best['words'].iloc[0]} is fastest of those tried" + (
        f"; the last shown: x{longest:.2f}" if len(best) > 1 else "")  # fmt: skip
    return Picture("layouts", frame, title, {"rows": row_order(frame), "most": step_charts.longest(frame)})


def memory_picture(view: Planned) -> Picture:
    """What the fullest device holds, by part, in the fastest layouts."""
    assert view.run.layouts is not None
    best, held = view.layouts.head(SHOWN - 1), view.run.layouts.prediction.memory
    capacity, rows = float(best["memory_bytes"].iloc[0] + best["headroom_bytes"].iloc[0]), []
    for at, (_, row) in enumerate(best.iterrows()):
        sizes = {name: sum(float(np.asarray(held[part])[row["row"]]) for part in parts) for name, parts in
                 MEMORY.items()}  # fmt: skip
        for name, size in sizes.items():
            rows.append({"row": row["words"], "role": "compared" if at else "need", "part": name, "bytes": size,
                         "verdict": None, "text": None})  # fmt: skip
        rows[-1]["text"] = f"{_binary(row['memory_bytes'])}{AGAIN.get(row['recompute'], '')}"
    rows.append({"row": view.device.name, "role": "device", "part": "capacity", "bytes": capacity, "verdict": "fits",
                 "text": _binary(capacity)})  # fmt: skip
    frame = pd.DataFrame(rows)
    first = frame[frame["role"] == "need"]
    most = first.loc[first["bytes"].idxmax()]
    share = most["bytes"] / first["bytes"].sum()
    title = f"{str(most['part']).capitalize()} take {PERCENT * share:.0f} % of the memory used in the fastest layout"
    return Picture("memory", frame, title, {"rows": row_order(frame), "x_high": memory_charts.memory_domain(frame)})


def checkpoints_picture(view: Planned) -> Picture:
    """Useful share of the time over the interval between checkpoints."""
    own, found = view.own, view.run.over_intervals(view.values["devices"])
    curve = found["by"] == "curve"
    frame = pd.DataFrame({
        "what": np.where(curve, "curve", "mark"), "minutes": found["interval_seconds"] / MINUTE,
        "useful": PERCENT * found["goodput"], "low": PERCENT * found["goodput_low"].where(curve),
        "high": PERCENT * found["goodput_high"].where(curve), "text": found["by"].where(~curve, None),
    })  # fmt: skip
    frame = _plain(frame, ["minutes", "useful", "low", "high"])
    every = human(float(own["checkpoint_interval_seconds"]), "s")
    title = f"A checkpoint every {every} keeps {own['goodput']:.1%} of the time useful"
    return Picture("checkpoints", frame, title, charts.checkpoint_ends(frame))


PICTURES = {
    "curve": curve_picture, "layouts": layouts_picture, "memory": memory_picture, "checkpoints": checkpoints_picture,
}  # fmt: skip


def _plain(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Missing numbers as None, numbers to six digits."""
    numbers = frame[columns].astype(float).map(lambda value: float(f"{value:.6g}"))
    return frame.assign(**numbers.astype(object).where(numbers.notna(), None))


def figure(value: float) -> str:
    """A number to three digits, thousands apart.

    >>> figure(21.274), figure(1597.8), figure(float("nan"))
    ('21.3', '1,598', 'not known')
    """
    if value != value:
        return "not known"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def money(usd: float) -> str:
    """USD to two or three digits.

    >>> money(2033840), money(644358), money(9830)
    ('2.03 M', '644 k', '9,830')
    """
    if usd >= 1e4:
        size, name = (1e9, "bn") if usd >= 0.9995e9 else (1e6, "M") if usd >= 0.9995e6 else (1e3, "k")
        return f"{figure(usd / size)} {name}"
    return f"{usd:,.0f}"


def _binary(size: float) -> str:
    return human(size, "iB")


def parts(view: Planned) -> tuple[Part, ...]:
    """Place 4: the step of the fastest layout."""
    own = view.run.parts.loc[view.values["devices"]]
    return tuple(
        Part(name, float(own[name]), human(float(own[name]), "s"), colour, FORMULAS[name])
        for name, colour in TIME_PARTS.items() if name in own
    )  # fmt: skip


def device_table(view: Planned) -> pd.DataFrame:
    """Every number of devices with its fastest layout, as printed."""
    rows = []
    for _, row in view.run.table.iterrows():
        head = {"Devices": f"{row['devices']:,}"}
        if row["why"]:
            rows.append({**head, "Fastest layout": "none: " + str(row["why"]).partition(": ")[2]})
            continue
        cost = {"Cost [USD]": f"{money(row['usd'])} ({money(row['usd_low'])}-{money(row['usd_high'])})"}
        rows.append({
            **head, "Fastest layout": layout_words(row), "Step": human(row["step_seconds"], "s"),
            "MFU, HFU": f"{row['mfu']:.0%}, {row['hfu']:.0%}",
            "Days (80 %)": f"{figure(row['days'])} ({figure(row['days_low'])}-{figure(row['days_high'])})",
            "Device-hours": money(row["device_hours"]), **(cost if view.priced else {}),
            "A failure every": human(row["mtbf_seconds"], "s"),
            "Checkpoint every": human(row["checkpoint_interval_seconds"], "s"), "Goodput": f"{row['goodput']:.1%}",
        })  # fmt: skip
    return pd.DataFrame(rows).fillna("")


def layout_table(view: Planned) -> pd.DataFrame:
    """Layouts of this number of devices, and the part of a step that makes each slower than the fastest."""
    best = view.layouts
    parts_of = view.part_seconds(best["row"])
    change = parts_of - parts_of.iloc[0]
    most = change.idxmax(axis=1)
    rows = []
    for at, (_, row) in enumerate(best.iterrows()):
        slower = human(float(change[most.iloc[at]].iloc[at]), "s")
        why = f"{most.iloc[at]} +{slower}" if at else "fastest of those tried"
        rows.append({
            "Layout": row["words"], "Chunks": f"{row['vp']}", "Micro-batch": f"{row['micro_batch']}",
            "ZeRO": f"{row['zero']}", "Recompute": row["recompute"], "Step": human(row["step_seconds"], "s"),
            "Days": figure(row["days"]), "Memory": _binary(row["memory_bytes"]),
            "Left": _binary(row["headroom_bytes"]), "Loses by": why,
        })  # fmt: skip
    return pd.DataFrame(rows)


def sources(view: Planned) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of the model, the device, prices and failures."""
    rows = catalog.table("sources").set_index("key")
    keys = dict.fromkeys(zoo.model(view.values["model"]).sources, "layers of the model")
    keys |= dict.fromkeys(view.device.sources, "figures of the device")
    price = view.run.price
    dated = f"{price.rows} prices, {price.first[:4]} to {price.last[:4]}"
    keys |= dict.fromkeys(price.source, dated)
    keys |= dict.fromkeys(view.run.failures.source, "failures, storage of checkpoints, restarts")
    return tuple((rows.loc[key, "title"], _text(rows.loc[key, "url"]), note) for key, note in keys.items())


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else ""
