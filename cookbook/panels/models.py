"""Panel of recipe 01: what does this model need, and which accelerators could give it?"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from cookbook import catalog, hardware
from cookbook.charts import models as charts
from cookbook.panels import code, model_frames, model_tables, model_words
from cookbook.panels.controls import Choice, Combo, Control, Option, Own, Slider, one_two_five, powers_of_two
from cookbook.panels.options import networks
from cookbook.panels.shell import Panel, View, defaults
from cookbook.prediction.requirements import Requirements, requirements
from cookbook.units import human
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
TIMES = tuple(MINUTE * m for m in (1, 2, 5, 10, 15, 30)) + tuple(HOUR * h for h in (1, 2, 4, 8, 12)) + tuple(
    DAY * d for d in (1, 2, 4, 7, 14, 30, 60, 90, 180, 365))  # fmt: skip
# Sizes of well-known data sets: MNIST, CIFAR-10, ImageNet-1k, the 14 million images of ImageNet.
DATA_SETS = (60_000, 50_000, 1_281_167, 14_000_000)
PICTURES = {"rate": charts.rate_needed, "memory": charts.memory_bars, "zoo": charts.parameters_vs_flop}

_LAYERS = """{"input": [3, 224, 224],
 "layers": [
  {"layer": "conv", "out": 64, "kernel": 7, "stride": 2, "padding": 3},
  {"layer": "act", "kind": "relu"},
  {"layer": "global_pool"},
  {"layer": "flatten"},
  {"layer": "linear", "out": 1000}]}"""
HOW = {"parameters only": "parameters verified, MAC not"}
ONE_LIKE_ANOTHER = "like=h100-sxm, mem_bandwidth=4 TB/s"


def model_zoo(
    model: Any = "resnet152", batch: Any = 32, precision: str = "bf16", samples: Any = 14_000_000,
    target_seconds: Any = 3600.0,
    accelerators: Any = ("tpu-v4", "rtx-4090", "a100-sxm-80gb", "h100-sxm", "mi300x", "b200-sxm"),
    compare: Any = (), seq: float | None = None, optimiser: str = "adam", epochs: Any = 1, recompute: str = "none",
    picture: str = "rate",
) -> Panel:  # fmt: skip
    """The panel "What does this model need?", in the state that the arguments say.

    Parameters
    ----------
    model : str, Workload or dict
        Name in the zoo, a network of your own (`cb.layers`), or ``{"layers": [...], "input": [...]}``.
    batch, precision, samples, target_seconds, seq, optimiser, epochs, recompute
        As for `cb.requirements`.
    accelerators : str, Accelerator or dict, or a sequence of them
        Names (in one text, commas between them), or ``{"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}``.
    compare : str or sequence of str
        Further networks to draw beside the first, three at most.
    picture : {"rate", "memory", "zoo"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = model_zoo(model="resnet50", batch=64)
    >>> panel.update(batch=-4)
    >>> panel.answer
    'Batch = -4 is outside its range; give a number from 1 to 65,536.'
    """
    return Panel("model_zoo", "What does this model need?", _controls(), PICTURES, _draw, DEFAULTS, locals(),
                 {"precision": _formats, "seq": _sequence})  # fmt: skip


DEFAULTS = defaults(model_zoo)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    own_model = Own(
        "custom…: your own layers", "One JSON object, as for cb.layers.",
        _LAYERS, read=_read_layers, show=_show_layers)  # fmt: skip
    own_device = Own(
        "custom…: one like another", "One a line: like=, then what differs (memory_bytes, mem_bandwidth, peak_fp16 …).",
        ONE_LIKE_ANOTHER, read=read_devices, show=show_device)  # fmt: skip
    return (
        Combo("model", "Model", "Workload", networks(), own=own_model, tooltip="The network to train"),
        Slider("batch", "Batch", "Workload", powers_of_two(0, 16),
               tooltip="Samples that one accelerator holds at a time"),
        Choice("precision", "Precision", "Workload", _choices("number_formats"),
               tooltip="What the matrix products are computed in"),
        Slider("samples", "Samples", "Data", one_two_five(1e3, 1e11, DATA_SETS),
               tooltip="Samples that one epoch sees"),
        Slider("target_seconds", "Time to train", "Data", TIMES, whole=False, seconds=True,
               tooltip="Target for all epochs; type 90 min, 8 h, 3 d"),
        Combo("accelerators", "Accelerators", "Hardware", _device_options(), many=True, least=1, limit=8,
              own=own_device, plain=plain_device, short=model_words.short_name,
              tooltip="Accelerators to compare with, eight at most"),
        Combo("compare", "Compare with models", "Workload", networks(), many=True, limit=3, more=True,
              tooltip="Further networks in the same picture, three at most"),
        Slider("seq", "Sequence", "Workload", powers_of_two(5, 20), unit="tokens", more=True,
               tooltip="Tokens of one sample"),
        Choice("optimiser", "Optimiser", "Workload", _choices("optimisers"), more=True,
               tooltip="Decides how many states each parameter needs"),
        Slider("epochs", "Epochs", "Data", one_two_five(1, 1000, (3, 90, 300)), more=True,
               tooltip="Passes over the data set"),
        Choice("recompute", "Recompute activations", "Memory", (
            ("none", "no", "Keep every activation for the backward pass"),
            ("full", "yes", "Keep the inputs of blocks, compute the rest once more")), more=True,
               tooltip="Memory against arithmetic"),
        Choice("picture", "Picture", "", (
            ("rate", "Rate needed", "Needed rate against each accelerator's peak"),
            ("memory", "Memory", "Memory by part against each accelerator's capacity"),
            ("zoo", "All models", "Parameters against FLOP of every network")), place="picture"),
    )  # fmt: skip


def _device_options() -> tuple[Option, ...]:
    table = catalog.table("accelerators")
    return tuple(zip(table["key"], table["name"], table["aliases"], table["vendor"], strict=True))


def _choices(table: str) -> tuple[tuple[str, str, str], ...]:
    rows = catalog.table(table)
    return tuple((name, name, title) for name, title in zip(rows["name"], rows["title"], strict=True))


def _read_layers(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ValueError(f"the layer table is not valid JSON: {problem}") from None
    value = {"layers": value} if isinstance(value, list) else value
    if not isinstance(value, dict) or "layers" not in value or set(value) - {"layers", "input", "title"}:
        raise ValueError('your own network must be {"input": [channels, height, width], "layers": [...]}')
    return value


def _show_layers(value: Any) -> tuple[str, str]:
    if isinstance(value, zoo.Workload):
        return _LAYERS, value.title
    return json.dumps(value), str(value.get("title", "Your network"))


def read_devices(text: str) -> list[dict[str, str]]:
    """Accelerators like others, one a line: like=, then what differs."""
    lines = [line for line in text.splitlines() if line.strip()]
    devices = []
    for line in lines:
        pairs = [piece.partition("=") for piece in line.split(",")]
        if not all(sign for _, sign, _ in pairs):
            raise ValueError(f"cannot read {line!r}; write it like {ONE_LIKE_ANOTHER!r}")
        devices.append({name.strip(): value.strip() for name, _, value in pairs})
    return devices


def show_device(value: dict[str, Any]) -> tuple[str, str]:
    """Such an accelerator as (text to edit, label)."""
    label = value.get("name") or f"like {value.get('like', '?')}"
    return ", ".join(f"{name}={figure}" for name, figure in value.items()), str(label)


def plain_device(device: Any) -> Any:
    """What a control keeps of an accelerator: its name, or what differs from another."""
    if isinstance(device, hardware.Accelerator):
        return {"like": device.key.rstrip("*"), "name": device.name, **device.changed} if device.changed else device.key
    return device


def _device(value: Any) -> hardware.Accelerator:
    return hardware.accelerator(**value) if isinstance(value, dict) else _named_device(value)


@lru_cache(maxsize=256)
def _named_device(name: str) -> hardware.Accelerator:
    return hardware.accelerator(name)


def _workload(value: Any) -> zoo.Workload:
    if isinstance(value, dict):
        changes = {name: value[name] for name in ("input", "title") if name in value}
        return zoo.layers(value["layers"], **changes)
    return zoo.model(value) if isinstance(value, str) else value


def _need(values: dict[str, Any], workload: zoo.Workload, devices: list[hardware.Accelerator]) -> Requirements:
    names = ("batch", "precision", "optimiser", "samples", "epochs", "target_seconds", "recompute")
    seq = values["seq"] if workload.ops.needs_seq else None
    if seq is None and workload.ops.needs_seq and workload.seq is None:
        raise ValueError(f"{workload.title} has no sequence length of its own: set Sequence (under More)")
    return requirements(workload, seq=seq, accelerators=devices, **{name: values[name] for name in names})


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    workloads = [_workload(name) for name in (values["model"], *values["compare"])]
    devices = [_device(device) for device in values["accelerators"]]
    needs = [_need(values, workload, devices) for workload in workloads]
    need, ghost = needs[0], pinned.kept if pinned else None
    picture = {
        "rate": partial(model_frames.rate_picture, needs, ghost),
        "memory": partial(model_frames.memory_picture, needs, ghost),
        "zoo": partial(model_frames.zoo_picture, needs),
    }[values["picture"]]()
    if picture.name == "zoo":
        table: Callable[[], pd.DataFrame] = partial(model_tables.model_table, picture.frame)
        data: Callable[[], pd.DataFrame] = lambda: picture.frame  # noqa: E731
    else:
        table = partial(model_tables.device_table, need, devices)
        data = partial(_data, need)
    return View(
        answer=model_words.answer(need),
        headline={"rate needed": need.needed_flops, "memory": need.memory_bytes},
        chips=_chips(need),
        picture=picture,
        parts=model_frames.memory_parts(need),
        parts_title=f"Memory by part, {need.workload.title} at batch {need.batch:,.0f}: "
        f"{human(need.memory_bytes, 'iB')}",
        table=table,
        data=data,
        sources=partial(model_tables.source_rows, needs, devices),
        code=_code(values),
        kept=need,
    )


def _data(need: Requirements) -> pd.DataFrame:
    front = {"model": need.workload.name, "precision": need.precision, "needed_flops": need.needed_flops}
    return need.devices.assign(**front)[[*front, *need.devices.columns]]


def _chips(need: Requirements) -> tuple[tuple[str, str], ...]:
    measured = int(need.devices["observed_high"].notna().sum())
    return (
        ("bounds only", "The arithmetic as defined, done at peak. Fast algorithms such as Winograd's can do less "
         "arithmetic. No efficiency is assumed, nothing is predicted."),
        (HOW.get(need.workload.how, f"model {need.workload.how}"),
         "Whether our parameters and MAC equal figures in print."),
        (f"matmul measured on {measured} of {len(need.devices)}", "Accelerators with measured matrix products in "
         "this number format; most are the best shape of one search."),
    )  # fmt: skip


def _formats(values: dict[str, Any]) -> dict[str, str]:
    return _formats_off(tuple(json.dumps(device) for device in values["accelerators"]))


def _sequence(values: dict[str, Any]) -> dict[str, str]:
    workload = _workload(values["model"])
    return {} if workload.ops.needs_seq else {"*": f"{workload.title} takes inputs of one size"}


@lru_cache(maxsize=64)
def _formats_off(devices: tuple[str, ...]) -> dict[str, str]:
    able = {name for device in devices for name in hardware.formats(_device(json.loads(device)))}
    table = catalog.table("number_formats")
    reasons = {name: "no chosen accelerator has a peak in it" for name in table["name"] if name not in able}
    return reasons | {name: "does not train a network" for name in table.loc[table["trains"] != "yes", "name"]}


def _code(values: dict[str, Any]) -> str:
    changed = {name: value for name, value in values.items() if name == "model" or value != DEFAULTS[name]}
    names = ("batch", "seq", "precision", "optimiser", "samples", "epochs", "target_seconds", "recompute")
    plain = {name: values[name] for name in names if values[name] is not None}
    if "seq" in plain and not _workload(values["model"]).ops.needs_seq:
        del plain["seq"]
    model, devices = code.model_text(values["model"]), code.devices_text(values["accelerators"])
    return (
        f"{code.preamble(values)}cb.panels.model_zoo({code.arguments(changed)})\n"
        f"cb.requirements(model={model}, {code.arguments(plain)}, accelerators={devices})"
    )
