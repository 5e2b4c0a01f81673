"""What the panels of training steps share: machines to choose from, words for the parts of a step, money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.charts.look import TIME_PARTS
from cookbook.panels.controls import Option
from cookbook.panels.options import accelerators
from cookbook.panels.shell import Part
from cookbook.panels.text import figure
from cookbook.units import human

FORMULAS = {
    "compute": "Matmuls and attention: FLOP over the rate that the accelerator reaches.",
    "memory traffic": "Operations between matmuls: bytes over memory bandwidth.",
    "launch": "Time to launch kernels, whatever their size.",
    "tensor-parallel communication": "All-reduces of the devices that share each matmul, where nothing hides them.",
    "pipeline-parallel communication": "Activations sent from stage to stage.",
    "data-parallel communication": "The part of the gradient (and weight) communication that nothing hides.",
    "optimiser": "Weights, gradients and optimiser states are read and written once a step.",
    "bubble": "Stages wait while the pipeline fills and drains.",
    "waiting": "Stragglers and synchronisation: every device waits for the slowest.",
}


def machines() -> tuple[Option, ...]:
    """Accelerators by vendor, then servers whose accelerator is known."""
    servers = catalog.table("systems")
    servers = servers[servers["accelerator_key"].fillna("") != ""]
    named = ((key, name, "", "servers") for key, name in zip(servers["key"], servers["name"], strict=True))
    return (*accelerators(), *named)


def step_parts(seconds: Mapping[str, Any]) -> tuple[Part, ...]:
    """Place 4: the parts of a step [s], in the order and colours of every chart."""
    known = {name: float(seconds[name]) for name in TIME_PARTS if name in seconds}
    return tuple(Part(name, each, human(each, "s"), TIME_PARTS[name], FORMULAS[name]) for name, each in known.items())


def plain(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """Missing numbers as None, numbers to six digits."""
    numbers = frame[list(columns)].astype(float).map(lambda value: float(f"{value:.6g}"))
    return frame.assign(**numbers.astype(object).where(numbers.notna(), None))


def money(usd: float) -> str:
    """USD to two or three digits.

    >>> money(2033840), money(644358), money(9830)
    ('2.03 M', '644 k', '9,830')
    """
    if usd >= 1e4:
        size, name = (1e9, "bn") if usd >= 0.9995e9 else (1e6, "M") if usd >= 0.9995e6 else (1e3, "k")
        return f"{figure(usd / size)} {name}"
    return f"{usd:,.0f}"
