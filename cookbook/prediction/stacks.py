"""Levels of software: from a product or the name of a level to what the formulas know, by kind and device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.catalog import UnknownName
from cookbook.catalog.names import normalise
from cookbook.catalog.reading import nearest
from cookbook.prediction.scenario import Coded, shown, together

USUAL = "usual"
SHORT = {"training_transformer": "transformer", "training_classic": "classic", "inference": "inference"}


@lru_cache(maxsize=8)
def levels(kind: str) -> tuple[str, ...]:
    """Levels of the stack that a kind of prediction knows."""
    rows = catalog.table("software_levels")
    return tuple(dict.fromkeys(rows.loc[rows["kind"] == SHORT[kind], "level"]))


@lru_cache(maxsize=8)
def _products(kind: str) -> dict[str, list[tuple[str, str]]]:
    """Levels of each product, by spelling: the device that a level is for, and the level."""
    rows, found = catalog.table("software"), dict[str, list[tuple[str, str]]]()
    for row in rows[rows["kind"] == kind].itertuples(index=False):
        for name in (row.product, *row.other_names.split(";")):
            if name:
                found.setdefault(normalise(name), []).append((row.device, row.level))
    return found


@lru_cache(maxsize=8)
def _own_compilers(kind: str) -> list[tuple[str, str]]:
    """Makers and kinds of devices with a compiler of their own, and its level: it holds whatever product is named."""
    rows = catalog.table("software")
    rows = rows[(rows["kind"] == kind) & (rows["always"] == "yes")]
    return list(zip(rows["device"], rows["level"], strict=True))


def products(kind: str) -> list[str]:
    """Products that a kind of prediction knows, for lists of choices."""
    rows = catalog.table("software")
    return [name for name in dict.fromkeys(rows.loc[rows["kind"] == kind, "product"]) if name != USUAL]


@lru_cache(maxsize=4096)
def level_of(kind: str, name: str, vendor: str = "", device: str = "") -> str:
    """Level of the stack that a product stands for on a kind of device; of no name, the usual one.

    Parameters
    ----------
    kind, name, vendor, device : str
        Kind of prediction, product or level, maker and kind of the accelerator.

    Raises
    ------
    cookbook.catalog.UnknownName
        A name that is neither a product nor a level of this kind.

    Examples
    --------
    >>> level_of("training_transformer", "", "NVIDIA", "gpu"), level_of("training_transformer", "JAX", "Google", "tpu")
    ('megatron-core', 'xla-tpu')
    """
    if name in levels(kind):
        return name
    known = _products(kind)
    rows = known.get(normalise(name or USUAL))
    own = next((level for wanted, level in _own_compilers(kind) if wanted in (vendor, device)), "")
    if rows is None:
        # A version that nobody listed is the product's: "PyTorch 2.7".
        rows = known.get(normalise(name.strip().rstrip("0123456789.v").strip()))
    if rows is None:
        names = {**{normalise(each): each for each in (*products(kind), *levels(kind))}}
        close = nearest(normalise(name[:60]), list(names), 3)
        raise UnknownName("software", shown(name).strip("'"), [names[each] for each in close])
    return own or next(level for wanted, level in rows if wanted in ("", vendor, device))


def of_rows(kind: str, software: Coded, vendor: Coded, device: Coded) -> Coded:
    """Levels of rows, by product, maker and kind of device."""
    return together(software, vendor, device).map(lambda each: level_of(kind, *each))


def is_usual(software: Coded) -> Any:
    """Rows that name no software."""
    return np.asarray(software.where(lambda each: each == ""))
