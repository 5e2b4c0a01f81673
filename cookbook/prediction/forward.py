"""The front door for inference: one forward pass of any network on any device of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware
from cookbook.prediction import inference
from cookbook.prediction.cells import impossible
from cookbook.prediction.constants import NEW_ENGINE, SEEN, SIBLING, figure
from cookbook.prediction.inference_rows import LANGUAGE_MODELS
from cookbook.prediction.record import Prediction
from cookbook.prediction.step import predict_scenarios
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

# From the format that a reader most likely means.
USUAL = ("fp16", "bf16", "tf32", "fp32", "int8", "fp8")
KIND = "inference"


def forward_pass(
    workload: str | Workload,
    accelerator: Any,
    *,
    batch: Any = 1,
    precision: Any = "",
    software: Any = "",
    devices: Any = 1,
    seq: float | None = None,
    neighbours: bool = True,
) -> Prediction:
    """Time of one forward pass, with its interval, parts, memory, rate and what it rests on.

    Arguments may be lists; they are taken together entry by entry, and give one prediction each.

    Parameters
    ----------
    workload : str or Workload
        A network of the zoo, such a network with changes, or one of the reader's own. Of a language model this is one
        pass over a prompt of ``seq`` tokens that keeps no cache, not an answer; its interval is that of such answers.
    accelerator : str
        A device of the catalogue: GPU, TPU, processor, FPGA, edge module ...
    batch : float
        Samples of one pass on one device; on one core where the cores of a chip hold a network each.
    precision : str
        "fp32", "tf32", "fp16", "bf16", "fp8", "fp4" or "int8"; by default the first of `USUAL` that the device has.
    software : str
        Engine and version in words, "TensorRT 8.6", "PyTorch eager"; its level follows from patterns.
    devices : int
        Devices that each run batches of their own.
    seq : float, optional
        Sequence length, where the network has one.
    neighbours : bool
        Whether similar measurements correct the point.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, device or number format that the catalogue does not have.
    ValueError
        One scenario that cannot be: the argument, its value and the remedy. Among several it gets NaN and a reason.

    Examples
    --------
    >>> one = forward_pass("resnet50", "t4", batch=128, precision="int8", software="TensorRT 7.2")
    >>> bool(one.low80 < one.point < one.high80), one.fits, 2000 < one.rate < 10000
    (True, 'yes', True)
    >>> forward_pass("resnet50", "v100", precision="fp8")
    Traceback (most recent call last):
    ValueError: precision = 'fp8': Tesla V100 SXM2 16GB has fp32, fp16; take one of these
    """
    network = zoo.model(workload) if isinstance(workload, str) else workload
    if not isinstance(network, Workload):
        raise ValueError(f"workload = {workload!r} is no network; give a name such as 'resnet50', or cb.layers([...])")
    if seq and not network.ops.needs_seq:
        raise ValueError(f"seq = {seq!r}: {network.title} has no sequence length; leave seq out")
    given = {"accelerator": accelerator, "batch": batch, "precision": precision, "software": software,
             "devices": devices}  # fmt: skip
    frame, lacks = _rows(given, network, seq)
    own = network.ops is not zoo.model(network.name).ops if _is_named(network) else True
    scenarios = inference.scenarios(frame, own=network if own else None, served=True)
    prompt = is_language_model(network)
    found = predict_scenarios(KIND, scenarios, neighbours and not prompt)
    found = _unmeasured(found) if prompt else found
    reasons = zip(lacks, impossible(frame, formats=False), found.why.tolist(), strict=True)
    why = np.array([next(filter(None, each), "") for each in reasons], dtype=object)
    found = replace(_blank(found, why != ""), why=why, sources=_sources(network, frame["accelerator"].tolist()))
    if any(np.ndim(value) for value in given.values()):
        return found
    if why[0]:
        raise ValueError(str(why[0]))
    return found.one()


def _is_named(network: Workload) -> bool:
    return bool((catalog.table("models")["name"] == network.name).any())


def is_language_model(network: Workload) -> bool:
    """Whether the zoo builds it as a decoder, or as an encoder with one, so that a forward pass is only its prompt.

    Parameters
    ----------
    network : Workload
    """
    rows = catalog.table("models")
    return bool(rows.loc[rows["name"] == network.name, "builder"].isin(LANGUAGE_MODELS).any())


def _unmeasured(found: Prediction) -> Prediction:
    """A pass over a prompt: no engine was fitted to language models, so intervals are at least those of answers."""
    ends: dict[str, Any] = {}
    for level in (80, 90):
        reach = np.fmax(getattr(found, f"high{level}") / found.point, figure(f"generation-interval-{level}"))
        ends |= {f"low{level}": found.point / reach, f"high{level}": found.point * reach}
    tier = np.where(np.isin(found.tier, (SEEN, SIBLING)), NEW_ENGINE, found.tier)
    return replace(found, tier=tier, **ends)


def _rows(given: Mapping[str, Any], network: Workload, seq: float | None) -> tuple[pd.DataFrame, list[str]]:
    """One row a scenario as the engine reads it, and for each what its device lacks."""
    shapes = {name: np.shape(value) for name, value in given.items() if np.ndim(value)}
    if len(set(shapes.values())) > 1 or any(len(shape) > 1 for shape in shapes.values()):
        shown = ", ".join(f"{name} has {' x '.join(map(str, shape))}" for name, shape in shapes.items())
        raise ValueError(f"lists are taken together entry by entry, but {shown}: give lists of one length")
    for name in ("batch", "devices"):
        if not np.issubdtype(np.asarray(given[name]).dtype, np.number):
            raise ValueError(f"{name} = {given[name]!r} is not a number")
    columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(value, dtype=object)) for value in given.values()))
    rows = [dict(zip(given, row, strict=True)) for row in zip(*columns, strict=True)]
    lacks = [_settle(row) for row in rows]
    length = seq or network.seq
    shared = {"model": network.name, "input_len": f"{length:.0f}" if length else "", "metric": "samples/s",
              "scenario": "static"}  # fmt: skip
    return pd.DataFrame([{name: str(cell) for name, cell in (row | shared).items()} for row in rows]), lacks


def _settle(row: dict[str, Any]) -> str:
    """Put key and number format in a row; what is wrong with the format, in words."""
    device = hardware.accelerator(str(row["accelerator"]))
    row["accelerator"] = device.key
    offered, asked = hardware.formats(device), str(row["precision"] or "")
    chosen = catalog.lookup("number_formats", asked) if asked else next((n for n in USUAL if n in offered), "")
    row["precision"] = chosen
    if not offered:
        return f"accelerator = {device.key!r}: no peak of {device.name} is known in any number format"
    lacking = chosen not in offered
    has = ", ".join(offered)
    return f"precision = {asked!r}: {device.name} has {has}; take one of these" if lacking else ""


def _blank(found: Prediction, bad: np.ndarray) -> Prediction:
    names = ("point", "low80", "high80", "low90", "high90", "rate", "memory_bytes")
    parts = {name: np.where(bad, np.nan, part) for name, part in found.parts.items()}
    changed: dict[str, Any] = {name: np.where(bad, np.nan, getattr(found, name)) for name in names}
    return replace(found, parts=parts, fits=np.where(bad, "", found.fits), **changed)


def _sources(network: Workload, keys: list[str]) -> tuple[str, ...]:
    devices = catalog.table("accelerators").set_index("key")["source"]
    return tuple(dict.fromkeys([*network.sources, *(name for key in keys for name in devices[key].split(";"))]))
