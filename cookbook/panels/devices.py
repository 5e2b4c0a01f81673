"""Panel of recipe 04: which accelerator for this work?"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from cookbook import catalog
from cookbook.charts import devices as charts
from cookbook.panels import code, device_words
from cookbook.panels import device_frames as frames
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider, powers_of_two
from cookbook.panels.options import networks
from cookbook.panels.shell import Off, Panel, View
from cookbook.planning.comparison import FORMATS, PHASES, compare
from cookbook.planning.cost import BOUGHT, RENT
from cookbook.workloads import zoo

USUAL = "usual"
DEFAULTS: dict[str, Any] = {
    "model": "resnet50", "phase": "inference", "batch": 32,
    "accelerators": ["xeon-platinum-8592", "v100-sxm2-16gb", "h100-sxm", "rtx-4090", "rtx-4070-laptop",
                     "tpu-v5e", "gaudi2", "inferentia2", "jetson-agx-orin-64gb", "alveo-u250"],
    "precision": USUAL, "on": "h100-sxm", "software": "MLPerf", "way": "on demand", "op": "",
    "picture": "throughput",
}  # fmt: skip
PICTURES: dict[str, Callable[[Any], Any]] = {
    "throughput": charts.per_device, "energy": partial(charts.per_device, what="energy"),
    "cost": partial(charts.per_device, what="cost"), "roofline": charts.roofline,
}  # fmt: skip
MOST = 12


def accelerators(
    model: Any = DEFAULTS["model"],
    accelerators: Any = (),
    phase: str = DEFAULTS["phase"],
    batch: Any = DEFAULTS["batch"],
    precision: str = USUAL,
    on: str = "",
    software: str = DEFAULTS["software"],
    way: str = DEFAULTS["way"],
    op: str = "",
    picture: str = DEFAULTS["picture"],
) -> Panel:
    """The panel "Which accelerator for this work?", in the state that the arguments say.

    Parameters
    ----------
    model : str
        A network of the zoo.
    accelerators : sequence of str
        Two to twelve devices; one of each kind by default.
    phase, batch, software, way
        As for `cb.planning.compare`.
    precision : str
        A format for all devices, or "usual": each device its own.
    on : str
        Device looked at, one of those compared.
    op : str
        Operation whose numbers are told under the roofline; the longest by default.
    picture : {"throughput", "energy", "cost", "roofline"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = accelerators(phase="inference", accelerators=["h100-sxm", "t4"])
    >>> panel.update(batch=0)
    >>> panel.answer.split(";")[0]
    'Batch = 0 is outside its range'
    """
    own = list(accelerators)
    chosen = own or [*DEFAULTS["accelerators"], *([on] if on and on not in DEFAULTS["accelerators"] else [])]
    given = {
        "model": model, "phase": phase, "batch": batch, "accelerators": chosen, "precision": precision,
        "on": on or (DEFAULTS["on"] if DEFAULTS["on"] in chosen else chosen[0]), "software": software, "way": way,
        "op": op, "picture": picture,
    }  # fmt: skip
    title = "Which accelerator for this work?"
    off: dict[str, Off] = {"precision": _formats, "op": _operations}
    return Panel("accelerators", title, _controls(), PICTURES, _draw, DEFAULTS, given, off)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    formats = catalog.table("number_formats")["name"]
    return (
        Combo("model", "Model", "Workload", networks(), tooltip="The network"),
        Choice("phase", "Phase", "Workload", (
            ("training", "training", "A step: forward, backward, update"),
            ("inference", "inference", "One forward pass of a batch")), tooltip="What is done with it"),
        Slider("batch", "Batch", "Workload", powers_of_two(0, 10), tooltip="Samples of one pass"),
        Combo("software", "Software", "Workload", _software(),
              tooltip="What runs the network on GPUs; others have compilers of their own. Type any: PyTorch 2.4"),
        Combo("accelerators", "Accelerators", "Hardware", _devices(), many=True, least=2, limit=MOST, short=_short,
              tooltip="Two to twelve devices, one of each"),
        Choice("precision", "Precision", "Hardware", (
            (USUAL, "usual", "Each device: the first that it has of bf16, fp16, fp32 and so on"),
            *((str(name), str(name), "") for name in formats)), tooltip="In what numbers are multiplied"),
        Combo("on", "Look at", "Hardware", _devices(), more=True,
              tooltip="The device of the sentence, the parts and the roofline; a click on its mark chooses it too"),
        Combo("way", "Pay", "Money", tuple((way, way, "", "") for way in (*RENT, BOUGHT)), more=True,
              tooltip="Rented from a cloud, or bought and used up over its years"),
        Combo("op", "Operation", "Roofline", (("", "the longest", "", ""),), more=True,
              tooltip="Name of an operation in the table; a click on its mark chooses it too"),
        Choice("picture", "Picture", "", (
            ("throughput", "Throughput", "Samples a second, with intervals"),
            ("energy", "Energy", "Joules a sample"), ("cost", "Cost", "USD for a million samples"),
            ("roofline", "Roofline", "Every operation under the roofs of these devices")), place="picture"),
    )  # fmt: skip


def _devices() -> tuple[Option, ...]:
    rows = catalog.table("accelerators")
    columns = zip(rows["key"], rows["name"], rows["aliases"], rows["kind"], strict=True)
    return tuple((key, name, f"{key} {also}", kind) for key, name, also, kind in columns)


def _short(name: str) -> str:
    return name.split(" (")[0]


def _software() -> tuple[Option, ...]:
    names = ("ONNX Runtime 1.17", "NGC 23.05", "TensorFlow 1.15", "Caffe 1.0")
    usual = (("MLPerf", "tuned as for MLPerf", "tensorrt compiled", ""), ("", "PyTorch, module by module", "eager", ""))
    return (*usual, *((name, name, "", "") for name in names))


def _operations(values: dict[str, Any]) -> dict[str, str]:
    return {} if values.get("picture") == "roofline" else {"*": "only the roofline shows operations"}


def _formats(values: dict[str, Any]) -> dict[str, str]:
    """Formats that cannot be chosen, with the reason."""
    trains = values.get("phase", PHASES[0]) == "training"
    return {name: f"{name} does not train a network" for name in _unfit()} if trains else {}


@lru_cache(maxsize=1)
def _unfit() -> tuple[str, ...]:
    rows = catalog.table("number_formats")
    return tuple(str(name) for name in rows.loc[rows["trains"] != "yes", "name"])


@lru_cache(maxsize=64)
def _compared(model: Any, devices: tuple[str, ...], phase: str, batch: int, name: str, software: str, way: str) -> Any:
    precision = "" if name == USUAL else name
    return compare(model, devices, phase=phase, batch=batch, precision=precision, software=software, way=way)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    keys = tuple(dict.fromkeys(catalog.lookup("accelerators", name) for name in values["accelerators"]))
    on, picture = catalog.lookup("accelerators", values["on"]), values["picture"]
    if on not in keys:
        raise ValueError(f"Look at = {values['on']!r} is not among the devices compared; take one of {', '.join(keys)}")
    precision, phase = values["precision"], values["phase"]
    if precision in _formats(values):
        able = ", ".join(FORMATS[phase])
        raise ValueError(f"precision = {precision!r} does not train a network; take {able}")
    found = _compared(values["model"], keys, phase, values["batch"], precision, values["software"], values["way"])
    title = _title(values["model"])
    view = frames.Compared(values["model"], title, phase, values["batch"], found, on, values["op"])
    words = device_words.title(view, picture)
    drawn = (
        frames.roofline_picture(view, words) if picture == "roofline"
        else frames.per_device_picture(view, picture, words, None if pinned is None else pinned.kept)
    )  # fmt: skip
    roof = picture == "roofline"
    return View(
        answer=device_words.answer(view, picture),
        headline=_headline(view),
        chips=device_words.chips(view),
        picture=drawn,
        parts=frames.parts(view, picture),
        parts_title=(
            f"Forward pass on {view.looked['name']} at the roofline, by operation" if roof
            else f"Time of one pass on {view.looked['name']}, by part"
        ),
        table=partial(frames.op_table if roof else frames.device_table, view),
        data=partial(frames.data, view, picture),
        sources=partial(frames.source_rows, view),
        code=_code(values, keys, str(view.looked["precision"])),
        kept=found,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _title(model: str) -> str:
    """Title of a network, with the tokens of a sample where it takes a sequence."""
    network = zoo.model(model)
    tokens = f" ({network.seq:,.0f} tokens)" if network.ops.needs_seq and network.seq else ""
    return f"{network.title}{tokens}"


def _headline(view: frames.Compared) -> dict[str, float]:
    """What Pin compares: the figures of the device looked at, as far as there are any."""
    names = {"samples/s": "samples_per_s", "J a sample": "joules", "USD a million": "usd_per_million"}
    found = {words: float(view.looked[column]) for words, column in names.items()}
    return {words: value for words, value in found.items() if value == value}


def _code(values: dict[str, Any], keys: tuple[str, ...], precision: str) -> str:
    changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    call = {"phase": values["phase"], "batch": values["batch"]}
    call |= {} if values["precision"] == USUAL else {"precision": values["precision"]}
    call |= {"software": values["software"]} if values["software"] else {}
    call |= {"way": values["way"]} if values["way"] != DEFAULTS["way"] else {}
    lines = [f"cb.panels.accelerators({code.arguments(changed)})"]
    where = f"{code.literal(values['model'])}, {code.literal(list(keys))}"
    lines.append(f"cb.planning.compare({where}, {code.arguments(call)})")
    if values["picture"] == "roofline":
        name = f", precision={code.literal(precision)}"
        where = f"{code.literal(values['model'])}, {code.literal(values['on'])}, {values['batch']}"
        lines.append(f"cb.roofline_table({where}{name})")
    return "\n".join(lines)
