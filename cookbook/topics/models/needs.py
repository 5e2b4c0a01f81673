"""Language models and machines: the models that run on a machine, and the machines that a model needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware, units
from cookbook.catalog.fields import MAX_TOKENS, Field, checked
from cookbook.catalog.refusals import Refused, refused
from cookbook.hardware import Accelerator, Machine, System
from cookbook.prediction.api import ACCELERATORS, MODEL, USUAL_PROMPT, named_network, network_of, train_step
from cookbook.prediction.assumptions import Assumptions
from cookbook.prediction.engine import Estimate, estimate
from cookbook.prediction.kinds.generation import KIND
from cookbook.prediction.kinds.transformer import answers_tokens
from cookbook.prediction.parsing.tables import machine_of
from cookbook.prediction.request_sets import USUAL_ANSWER
from cookbook.prediction.scenario import scenario
from cookbook.result import Result
from cookbook.topics.machine.environment import device_name
from cookbook.topics.runs.finetuning import finetune
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

# Formats narrower than the published one that are tried, the widest first; the published one where no row states it.
NARROWER, PUBLISHED = ("int8", "int4"), "bf16"
PHASE, RECENT_YEARS = "inference", 2
# Memory into which everything fits [B], and the numbers of devices that are tried.
UNBOUNDED, COUNTS = 1e18, tuple(2**power for power in range(11))
METHODS, SHARED, FOUR_BITS = ("full", "lora", "qlora"), 3, "4 bits"
TOO_LARGE = "weights-too-large"
SYSTEM = Field.named(
    "accelerators", Accelerator, Machine, what="machine", give="a name such as 'rtx-4090', or memory and bandwidth"
)
REQUESTS = {name: Field.row(name, PHASE, low=1) for name in ("input_len", "output_len", "batch")}


@dataclass(frozen=True, eq=False, repr=False)
class Fitting(Result):
    """Language models beside the machines that hold them; read-only.

    Attributes
    ----------
    headline : str
        The answer in one sentence.
    table : pandas.DataFrame
        One row per model and precision, or per use of a model, in SI units.
    printed : pandas.DataFrame
        The rows to read.
    assumed : Assumptions
        What was not given, and what was taken.
    """

    _class_in_repr = False
    headline: str
    table: pd.DataFrame
    printed: pd.DataFrame = field(repr=False)
    assumed: Assumptions

    def summary(self) -> str:
        """Return the answer in one sentence."""
        return self.headline

    def frame(self) -> pd.DataFrame:
        """Return the table, in SI units."""
        return self.table

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the rows as printed, by title."""
        return {"Models": self.printed}


@checked(
    accelerator=SYSTEM,
    memory=Field.number(1e-3, 1e9, unit="GB", in_unit=True),
    bandwidth=Field.number(1e-3, 1e9, unit="GB/s", in_unit=True),
    models=Field.named("models", Workload, many=True, entries=1000),
    since=Field.count(1950, 2100, give="a year such as 2025"),
    weights_format=Field.row("weights_format", PHASE, many=True),
    software=Field.text(),
    **REQUESTS,
)
def what_runs(
    accelerator: System | None = None,
    *,
    memory: float | str | None = None,
    bandwidth: float | str | None = None,
    models: Sequence[str | Workload] | None = None,
    since: int | None = None,
    weights_format: str | Sequence[str] | None = None,
    input_len: int = USUAL_PROMPT,
    output_len: int = USUAL_ANSWER,
    batch: int = 1,
    software: str | None = None,
) -> Fitting:
    """Return the language models that run on one device: memory and tokens per second, with their 80 % interval.

    Parameters
    ----------
    accelerator : str, Accelerator or Machine, optional
        The device; that of this machine by default, where its driver names one of the catalogue.
    memory : float or str, optional
        Device memory [GB], in place of the catalogue's. With `bandwidth` and without an accelerator the device is one
        of your own, which computes as fast as the device of the catalogue that is nearest in both.
    bandwidth : float or str, optional
        Memory bandwidth [GB/s], likewise.
    models : sequence of str or Workload, optional
        Language models; those of the zoo by default, from `since` on.
    since : int, optional
        First year of the models; by default the last two before the newest, and that one.
    weights_format : str or sequence of str, optional
        Number formats in which weights are stored, such as "int4" or "q4_k_m"; by default the published one of each
        model, then int8 and int4 where they take less.
    input_len : int
        Tokens of a prompt.
    output_len : int
        Tokens of an answer.
    batch : int
        Answers at once.
    software : str, optional
        A product or a level of the table ``software``, such as "llama.cpp"; the usual one of the device by default.

    Returns
    -------
    Fitting
        Its `table` has one row per model and precision, the largest model first: name, title, parameters, precision (of
        weights), memory_bytes, capacity_bytes, fits ("yes", "no", or "not known"); tokens_per_s of whole answers, the
        time of the prompt included, with tokens_per_s_low and tokens_per_s_high (80 %), NaN where it does not fit; tier
        of the evidence, and why, where there is no speed; measured_tokens_per_s of the newest measured run of exactly
        this case, NaN where there is none, and measured, the same in words with publisher, engine and year. Where a
        printed row has such a run, `printed` has it in the place of the evidence.

    Raises
    ------
    cookbook.catalog.UnknownName
        A device, a model or software that the catalogue does not have.
    ValueError
        An invalid argument, or a machine whose memory and bandwidth are not known: give them.

    Examples
    --------
    >>> found = what_runs("rtx-4090", models=["llama3_8b", "llama3_70b"], weights_format="int4")
    >>> found.table["fits"].tolist(), bool(found.table["tokens_per_s"].iloc[1] > 50)
    (['no', 'yes'], True)
    """
    device, assumed = _device(accelerator, memory, bandwidth)
    networks = [network_of(model) for model in (_recent(since) if models is None else models)]
    for network in networks:
        _check_language(network)
    networks.sort(key=lambda network: (-network.ops.parameter_count, network.name))
    pairs = [(network, name) for network in networks for name in _formats(network, weights_format)]
    asked = {"input_len": input_len, "output_len": output_len, "batch": batch, "software": software or None}
    found, unbounded = (_answers(pairs, each, asked) for each in (device, _unbounded(device.accelerator)))
    table = _speeds(pairs, found, unbounded.memory_bytes, device.accelerator.memory_bytes)
    if weights_format is None:
        least = table.groupby("name")["memory_bytes"].cummin()
        before = least.groupby(table["name"]).shift(fill_value=math.inf)
        table = table[~(least >= before)].reset_index(drop=True)  # one that cannot be said stays, with its reason
    own = found.assumed[0].taken if pairs else {}
    assumed |= {"software": own["software"]} if "software" in own else {}
    return Fitting(_running(table, device), table, _printed_speeds(table), Assumptions(assumed))


def _device(accelerator: Any, memory: Any, bandwidth: Any) -> tuple[Machine, dict[str, str]]:
    """Return the machine of some arguments, and what was assumed of it."""
    stated = {"memory_bytes": memory, "mem_bandwidth": bandwidth}
    own = {name: value * units.scale("GB") for name, value in stated.items() if value is not None}
    assumed: dict[str, str] = {}
    if accelerator is None and len(own) == len(stated):
        base = _similar_gpu(**own)
        assumed = {"accelerator": f"one that computes as {base.name}, the nearest in memory and bandwidth"}
        return hardware.machine(hardware.accelerator("your machine", like=base, **own)), assumed
    if accelerator is None:
        accelerator = _detected()
        assumed = {"accelerator": f"{accelerator.accelerator.key}, of this machine"}
    try:
        machine = hardware.machine(accelerator)
    except catalog.UnknownName as problem:
        remedy = f"{problem.message}; of a machine that is not there, give memory [GB] and bandwidth [GB/s]"
        raise catalog.UnknownName(problem.kind, problem.name, problem.nearest, remedy) from None
    machine = hardware.machine(hardware.accelerator(like=machine.accelerator, **own)) if own else machine
    if not (machine.accelerator.memory_bytes > 0 and machine.accelerator.mem_bandwidth > 0):
        what = ": its memory is not known; give memory [GB] and bandwidth [GB/s]"
        raise refused("accelerator", machine.accelerator.key, what)
    return machine, assumed


def _detected() -> Machine:
    """Return the machine that runs this, by the name that its driver or system reports."""
    name = device_name()
    machine, why = machine_of(name)
    if why or not machine:
        what = "is not in the catalogue; give accelerator, or memory [GB] and bandwidth [GB/s]"
        raise refused("accelerator", name, what, "accelerator-unknown")
    return machine


def _similar_gpu(memory_bytes: float, mem_bandwidth: float) -> Accelerator:
    """Return the GPU of the catalogue whose memory and bandwidth are nearest, as factors."""
    table = hardware.accelerator_table()
    table = table[table["kind"].str.endswith("gpu") & (table["memory_bytes"] > 0) & (table["mem_bandwidth"] > 0)]
    away = np.log(table["memory_bytes"] / memory_bytes) ** 2 + np.log(table["mem_bandwidth"] / mem_bandwidth) ** 2
    return hardware.accelerator(str(table.loc[away.idxmin(), "key"]))


def _recent(since: int | None) -> list[str]:
    """Return the names of the language models of the zoo from a year on."""
    rows = catalog.table("models")
    first = rows["year"].max() - RECENT_YEARS if since is None else since
    return [str(name) for name in rows.loc[rows["builder"].isin(zoo.ANSWERING) & (rows["year"] >= first), "name"]]


def _check_language(network: Workload) -> None:
    if not answers_tokens(network):
        raise refused("model", network.title, "is no language model; cb.requirements answers for it")


def _unbounded(device: Accelerator) -> Machine:
    """Return a machine with a device like another whose memory has no end."""
    return hardware.machine(hardware.accelerator(like=device, memory_bytes=UNBOUNDED))


def _answers(pairs: Sequence[tuple[Workload, str]], machines: Any, asked: Mapping[str, Any]) -> Estimate:
    """Return batches of answers of networks in formats of their weights, on one machine or one for each pair."""
    named = [named_network(network) for network, _ in pairs]
    how = {"scenario": "static", "counts": "output tokens", **asked}
    return estimate(
        scenario(KIND, {"model": named, "weights_format": [name for _, name in pairs], "accelerator": machines, **how})
    )


def _speeds(pairs: Sequence[tuple[Workload, str]], found: Estimate, memory: Any, capacity: float) -> pd.DataFrame:
    """Return one row per network and format: memory, whether it fits, and tokens per second where it does."""
    fits = np.where(found.reason == TOO_LARGE, "no", np.where(found.fits == "", "not known", found.fits))
    tokens = np.where(fits == "yes", found.tokens, np.nan)
    runs = found.measured if pairs else ()
    return pd.DataFrame(
        {
            "name": [network.name for network, _ in pairs],
            "title": [network.title for network, _ in pairs],
            "parameters": [network.ops.parameter_count for network, _ in pairs],
            "precision": [name for _, name in pairs],
            "memory_bytes": memory,
            "capacity_bytes": capacity,
            "fits": fits,
            "tokens_per_s": tokens / found.point,
            "tokens_per_s_low": tokens / found.high80,
            "tokens_per_s_high": tokens / found.low80,
            "tier": found.tier,
            "why": found.why,
            "measured_tokens_per_s": [own[0].rate if own else math.nan for own in runs],
            "measured": [own[0].brief if own else "" for own in runs],
        }
    )


def _running(table: pd.DataFrame, device: Machine) -> str:
    """Return what runs on a device in one sentence; where nothing does, the least that would."""
    where = f"{device.accelerator.name} ({units.human(device.accelerator.memory_bytes, 'iB')})"
    able, number = table[table["fits"] == "yes"], table["name"].nunique()
    head = f"Language models that run on {where}: "
    if able.empty:
        least = table.loc[table["memory_bytes"].idxmin()] if table["memory_bytes"].notna().any() else None
        needs = "" if least is None else f"; {_words(least)} needs least, {units.human(least['memory_bytes'], 'iB')}"
        return f"{head}none of {number}{needs}"
    largest = able.iloc[0]
    return (
        f"{head}{able['name'].nunique()} of {number}; {_words(largest)} is the largest, at {_range(largest)} tokens/s"
    )


def _words(row: Any) -> str:
    return f"{row['title']} in {row['precision']}"


def _range(row: Any) -> str:
    """Return tokens per second with their interval."""
    point, low, high = (units.figure(row[f"tokens_per_s{end}"]) for end in ("", "_low", "_high"))
    return f"{point} ({low} to {high})"


def _printed_speeds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the widest format of each model that fits, as printed; where none does, every row with the reason."""
    able = table[table["fits"] == "yes"].drop_duplicates("name")
    return pd.DataFrame(
        [
            {
                "Model": row["title"],
                "Weights": row["precision"],
                "Memory": units.human(row["memory_bytes"], "iB"),
                **({"Why": row["why"]} if able.empty else _printed_speed(row, bool(able["measured"].any()))),
            }
            for row in (table if able.empty else able).to_dict("records")
        ]
    )


def _printed_speed(row: Mapping[str, Any], measured: bool) -> dict[str, str]:
    """Return measured and estimated tokens per second as printed; the evidence instead where no row is measured."""
    estimated = {"Tokens/s (80 %)": _range(row)}
    return {"Measured": row["measured"], **estimated} if measured else {**estimated, "Evidence": row["tier"]}


@checked(model=MODEL, accelerators=ACCELERATORS, **REQUESTS, seq=Field.count(high=MAX_TOKENS))
def need(
    model: str | Workload,
    *,
    accelerators: Sequence[str | Accelerator] | None = None,
    input_len: int = USUAL_PROMPT,
    output_len: int = USUAL_ANSWER,
    batch: int = 1,
    seq: int = 2048,
) -> Fitting:
    """Return what a language model needs to be served, fine-tuned and trained: memory, and the devices that hold it.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo, or one of your own.
    accelerators : sequence of str or Accelerator, optional
        Devices to choose from; the GPUs of the catalogue by default.
    input_len, output_len, batch : int
        Served: tokens of a prompt and of an answer, and answers at once.
    seq : int
        Fine-tuned and trained: tokens of a sequence, one at a time on each device.

    Returns
    -------
    Fitting
        Its `table` has one row per use: use ("serve", "fine-tune" or "train"), method ("full", "lora" or "qlora"),
        precision (of weights); memory_bytes that one device would need, with memory_low and memory_high (80 %, of
        fine-tuning); devices, the fewest (a power of two) that hold it, and of these device and device_name, the one
        with the least memory, of equal ones the newest; device_bytes that each of them needs, and capacity_bytes; why,
        where none does. Several devices are joined by a fast link, where there are such. Fine-tuning and training
        recompute activations and, on several devices, share out all states (ZeRO-3); a device holds the upper end of
        the interval.

    Raises
    ------
    cookbook.catalog.UnknownName
        A model or a device that the catalogue does not have.
    ValueError
        A network that is no language model, or an invalid argument.

    Examples
    --------
    >>> table = need("llama3_8b", accelerators=["rtx-4090", "h100-sxm"]).table
    >>> table.loc[table["use"] == "serve", ["precision", "devices", "device"]].values.tolist()
    [['bf16', 1, 'rtx-4090'], ['int8', 1, 'rtx-4090'], ['int4', 1, 'rtx-4090']]
    """
    network = network_of(model)
    _check_language(network)
    devices = _candidates(accelerators)
    asked = {"input_len": input_len, "output_len": output_len, "batch": batch}
    device = _unbounded(max(devices, key=_speed))
    table = pd.DataFrame(
        [*_served(network, device, devices, asked), *_trained(network, device.accelerator, devices, seq)]
    )
    assumed = Assumptions({name: f"{value:,.0f}" for name, value in {**asked, "seq": seq}.items()})
    return Fitting(_needing(network, table), table, _printed_needs(table), assumed)


def _candidates(accelerators: Sequence[str | Accelerator] | None) -> list[Accelerator]:
    """Return devices by memory, of equal ones the newest first; the GPUs of the catalogue where none are given."""
    table = hardware.accelerator_table()
    keys = table.loc[table["kind"] == "gpu", "key"] if accelerators is None else accelerators
    devices = [device for device in map(hardware.accelerator, keys) if device.memory_bytes > 0]
    if not devices:
        raise refused("accelerators", accelerators, ": the memory of none of them is known; give other devices")
    devices.sort(key=lambda device: device.launch_date, reverse=True)
    return sorted(devices, key=lambda device: device.memory_bytes)


def _speed(device: Accelerator) -> float:
    """Return the peak of a device in 16 bits [FLOP/s]; 0 where it has none."""
    return float(np.nan_to_num(hardware.peak_flops(device, PUBLISHED)))


def _formats(network: Workload, chosen: Sequence[str] | None = None) -> Sequence[str]:
    """Return the formats of weights to try: those chosen, else the published one and narrower ones."""
    return chosen or (zoo.published_formats().get(network.name) or PUBLISHED, *NARROWER)


def _served(
    network: Workload, unbounded: Machine, devices: list[Accelerator], asked: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return one row per format of the weights that takes less than the one before."""
    rows: list[dict[str, Any]] = []
    machines = [hardware.machine(device) for device in devices]
    formats = _formats(network)
    found = _answers([(network, name) for name in formats], unbounded, asked)
    if found.why[0]:
        raise Refused(found.why[0])
    for name, total in zip(formats, np.ravel(found.memory_bytes).tolist(), strict=True):

        def at(count: int, name: str = name) -> tuple[Any, Any]:
            found = _answers([(network, name)] * len(machines), machines, {**asked, "tp": count})
            return found.memory_bytes, found.fits == "yes"

        if not rows or total < rows[-1]["memory_bytes"]:
            rows.append(_row("serve", "", name, (total, math.nan, math.nan), _fewest(devices, at)))
    return rows


def _trained(network: Workload, unbounded: Accelerator, devices: list[Accelerator], seq: int) -> list[dict[str, Any]]:
    """Return one row per method of fine-tuning, and one of training; of a network that cannot be split the reason."""
    how: dict[str, Any] = {"recompute": "full", "seq": seq}
    try:
        tuned = finetune(network, unbounded, method=METHODS, devices=COUNTS, zero=SHARED, **how).table
        states = [SHARED if count > 1 else 0 for count in COUNTS]
        step = train_step(network, unbounded, devices=COUNTS, zero=states, micro_batch=1, precision=PUBLISHED, **how)
    except Refused as problem:
        return [_row("train", "", PUBLISHED, (math.nan,) * 3, {"why": str(problem)})]
    ends = ("memory_bytes", "memory_low", "memory_high")
    needs = {method: tuned.loc[tuned["method"] == method, [*ends]].to_numpy() for method in METHODS}
    needs[""] = np.stack([np.ravel(step.memory_bytes), *[np.full(len(COUNTS), math.nan)] * 2], axis=1)
    capacity = np.array([device.memory_bytes for device in devices])
    rows = []
    for method, ranges in needs.items():
        upper = dict(zip(COUNTS, np.fmax(ranges[:, 0], ranges[:, 2]), strict=True))

        def at(count: int, upper: Mapping[int, float] = upper) -> tuple[Any, Any]:
            return np.full(len(capacity), upper[count]), capacity >= upper[count]

        use, precision = ("fine-tune" if method else "train"), FOUR_BITS if method == METHODS[-1] else PUBLISHED
        rows.append(_row(use, method, precision, ranges[0].tolist(), _fewest(devices, at)))
    return rows


def _row(use: str, method: str, precision: str, memory: Sequence[float], held: Mapping[str, Any]) -> dict[str, Any]:
    """Return one use of a model as a row."""
    named = dict(zip(("memory_bytes", "memory_low", "memory_high"), memory, strict=True))
    none = {
        "devices": math.nan,
        "device": "",
        "device_name": "",
        "device_bytes": math.nan,
        "capacity_bytes": math.nan,
        "why": "",
    }
    return {"use": use, "method": method, "precision": precision, **named, **none, **held}


def _fewest(devices: list[Accelerator], at: Callable[[int], tuple[Any, Any]]) -> dict[str, Any]:
    """Return the fewest devices that hold something, and of these the first; `at` gives bytes and whether it fits.

    Several are of those with a fast link between them, where there are such.
    """
    linked = np.array([device.device_link_kind == "fast" for device in devices])
    for count in COUNTS:
        needed, holds = at(count)
        holds = holds & linked if count > 1 and linked.any() else holds
        if holds.any():
            first = int(holds.argmax())
            device = devices[first]
            held = {"device_bytes": float(needed[first]), "capacity_bytes": device.memory_bytes}
            return {"devices": count, "device": device.key, "device_name": device.name, **held}
    return {"why": f"not even {COUNTS[-1]:,} of the devices hold it; give others, or a smaller model"}


def _needing(network: Workload, table: pd.DataFrame) -> str:
    """Return what serving takes at least, in one sentence."""
    row = table[table["use"] == "serve"].iloc[-1]
    held = f"{_held(row)} at least" if row["device"] else row["why"]
    return (
        f"{network.title}, {units.large(network.ops.parameter_count)} parameters: served in {row['precision']} "
        f"it takes {units.human(row['memory_bytes'], 'iB')}: {held}"
    )


def _held(row: Any) -> str:
    """Return devices as printed."""
    return f"{row['devices']:,.0f} × {row['device_name']}"


def _printed_needs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the uses of a model as printed."""
    return pd.DataFrame(
        [
            {
                "To": f"{row['use']} {row['method']}".strip(),
                "Precision": row["precision"],
                "Memory": units.human(row["memory_bytes"], "iB"),
                "80 %": f"{units.human(row['memory_low'], 'iB')} to {units.human(row['memory_high'], 'iB')}"
                if row["memory_low"] > 0
                else "",
                "Smallest that holds it": _held(row) if row["device"] else row["why"],
            }
            for row in table.to_dict("records")
        ]
    )
