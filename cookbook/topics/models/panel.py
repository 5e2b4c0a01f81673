"""Panel of recipe 01: what does this model need, and which accelerators could give it?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from cookbook import catalog, hardware
from cookbook.catalog.calls import keywords
from cookbook.catalog.fields import Amount, Names
from cookbook.catalog.refusals import Refusal, Refused
from cookbook.charts import models as charts
from cookbook.charts.look import MEMORY_PARTS, row_order
from cookbook.panels.controls import Choice, Combo, Control, Slider, one_two_five, powers_of_two
from cookbook.panels.options import (
    SOME_LAYERS,
    Device,
    Network,
    assumed,
    cited,
    device_of,
    listed_options,
    model_of,
    networks,
    origin,
    own_accelerator,
    own_model,
    peak_column,
    plain_device,
    plain_model,
)
from cookbook.panels.options import accelerators as device_options
from cookbook.panels.shell import Panel, Part, Picture, View, defaults_of, device_text, model_text, panel_call
from cookbook.panels.text import (
    DAY,
    HOUR,
    MINUTE,
    Source,
    counted,
    duration,
    listed,
    memories,
    share_of_peak,
    short_name,
    spoken,
)
from cookbook.prediction.kernels import observed_efficiency
from cookbook.prediction.requirements import Requirements, requirements, sizes_of
from cookbook.units import human
from cookbook.workloads import zoo

if TYPE_CHECKING:
    from cookbook.hardware import Accelerator

TIMES = (
    tuple(MINUTE * m for m in (1, 2, 5, 10, 15, 30))
    + tuple(HOUR * h for h in (1, 2, 4, 8, 12))
    + tuple(DAY * d for d in (1, 2, 4, 7, 14, 30, 60, 90, 180, 365))
)
# Sizes of well-known data sets: MNIST, CIFAR-10, ImageNet-1k, the 14 million images of ImageNet.
DATA_SETS = (60_000, 50_000, 1_281_167, 14_000_000)
PICTURES = {"rate": charts.rate_needed, "memory": charts.memory_bars, "zoo": charts.parameters_vs_flop}
UNITS = {"tokens": "does not read tokens: set Samples", "samples": "reads tokens: set Tokens"}
SCENARIO = ("batch", "seq", "precision", "optimiser", "samples", "epochs", "target_seconds", "recompute")
HOW = {"parameters only": "parameters verified, MAC not verified"}
PRINTED = {"optimiser": "optimiser states", "master": "fp32 copy"}
MAX_TALL_ROWS = 8
# How a verdict in words starts, and the mark that it is drawn with.
MARKS = {
    "cannot tell": "not known",
    "cannot: does not fit": "does not fit",
    "cannot": "too slow at its peak",
    "possible only": "possible under a condition",
    "possible": "possible",
}
CONDITIONS = {"fused": "with fused operations only", "best matmul": "only above the best measured matmul"}
MEMORY, BANDWIDTH, RECALLED = "memory_bytes", "mem_bandwidth", " (recalled)"


def model_zoo(
    model: Network = "llama3_8b",
    batch: Amount = 1,
    precision: str = "bf16",
    samples: Amount = 14_000_000,
    target_seconds: Amount = 2 * DAY,
    accelerators: Device | Sequence[Device] = ("tpu-v4", "rtx-4090", "a100-sxm-80gb", "h100-sxm", "mi300x", "b200-sxm"),
    compare: Names = (),
    seq: float | None = None,
    optimiser: str = "adam",
    epochs: Amount = 1,
    recompute: str = "none",
    tokens: Amount = 1e9,
    picture: str = "rate",
) -> Panel:
    """Return the panel "What does this model need?" in the state that the arguments describe.

    Parameters
    ----------
    model : str, Workload or dict
        Name in the zoo, a network of your own (`cb.layers`, `cb.model`), ``{"layers": [...], "input": [...]}``, or the
        mapping of a Hugging Face configuration.
    batch, precision, samples, target_seconds, seq, optimiser, epochs, recompute
        As for `cb.requirements`; `samples` of networks that do not read tokens.
    tokens : float
        Tokens of one epoch of a language model.
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
    return Panel(
        model_zoo,
        "What does this model need?",
        _controls,
        PICTURES,
        draw,
        locals(),
        {
            "precision": lambda v: _formats_off(tuple(json.dumps(device) for device in v["accelerators"])),
            "seq": _sequence,
            **{name: partial(_data_of, name) for name in UNITS},
        },
    )


def _controls() -> tuple[Control, ...]:
    return (
        Combo(
            "model",
            "Model",
            "Workload",
            networks(),
            own=own_model(SOME_LAYERS),
            plain=plain_model,
            tooltip="The network to train",
        ),
        Slider(
            "batch",
            group="Workload",
            stops=powers_of_two(0, 16),
            tooltip="Samples that one accelerator processes at a time",
        ),
        Choice(
            "precision",
            group="Workload",
            options=tuple((name, name, title) for name, title, *_ in _choices("number_formats")),
            more=True,
            tooltip="Precision of the matmuls",
        ),
        Slider(
            "tokens",
            "Tokens",
            "Data",
            one_two_five(1, 1e14, (1.5e13,)),
            tooltip="Tokens in one epoch of a language model",
        ),
        Slider(
            "samples",
            group="Data",
            stops=one_two_five(1, 1e14, DATA_SETS),
            tooltip="Images or other samples in one epoch",
        ),
        Slider(
            "target_seconds",
            "Time to train",
            "Data",
            TIMES,
            whole=False,
            seconds=True,
            tooltip="Target for all epochs, such as 90 min, 8 h or 3 d",
        ),
        Combo(
            "accelerators",
            "Accelerators",
            "Hardware",
            device_options(),
            many=True,
            least=1,
            limit=8,
            own=own_accelerator(),
            plain=plain_device,
            short=short_name,
            tooltip="Accelerators to compare with, eight at most",
        ),
        Combo(
            "compare",
            "Compare with models",
            "Workload",
            networks(),
            many=True,
            limit=3,
            more=True,
            plain=plain_model,
            tooltip="Further networks in the same chart, three at most",
        ),
        Slider("seq", group="Workload", stops=powers_of_two(5, 20), unit="tokens", more=True, optional=True),
        Combo(
            "optimiser",
            group="Workload",
            options=_choices("optimisers"),
            more=True,
            tooltip="Optimiser; it determines the number of states per parameter",
        ),
        Slider("epochs", group="Data", stops=one_two_five(1, 1000, (3, 90, 300)), more=True),
        Choice(
            "recompute",
            "Recompute activations",
            "Memory",
            (
                ("none", "no", "Keep every activation for the backward pass"),
                ("full", "yes", "Keep the inputs of blocks, recompute the rest"),
            ),
            more=True,
            tooltip="Activation recomputation trades memory for compute",
        ),
        Choice(
            "picture",
            "Chart",
            "",
            (
                ("rate", "Required rate", "Required rate against each accelerator's peak"),
                ("memory", "Memory", "Memory by part against each accelerator's capacity"),
                ("zoo", "All models", "Parameters against FLOP of every network"),
            ),
            place="picture",
        ),
    )


_choices = partial(listed_options, key="name", name="title")


def _need(values: dict[str, Any], workload: zoo.Workload, devices: list[Accelerator]) -> Requirements:
    seq = values["seq"] if workload.ops.needs_seq else None
    if seq is None and workload.ops.needs_seq and workload.seq is None:
        reason = f"{workload.title} has no sequence length of its own: set Sequence (under More)"
        raise Refused(Refusal(reason, field="seq"))
    return requirements(workload, accelerators=devices, **_scenario(values, workload) | {"seq": seq})


def _reads_tokens(workload: zoo.Workload) -> bool:
    return workload.ops.needs_seq and workload.sample in ("", "sequence")


def _scenario(values: dict[str, Any], workload: zoo.Workload) -> dict[str, Any]:
    """Return the arguments of `cb.requirements`, with tokens as a number of sequences."""
    scenario, length = {name: values[name] for name in SCENARIO}, values["seq"] or workload.seq or 1
    if not _reads_tokens(workload):
        return scenario
    if values["tokens"] < length:
        reason = f"tokens = {values['tokens']:,} are less than one sequence of {length:,.0f}; give more tokens"
        raise Refused(Refusal(reason, field="tokens"))
    return scenario | {"samples": values["tokens"] / length}


def draw(values: dict[str, Any], pinned: View | None) -> View:
    """Return the view for the values of the controls.

    Raises
    ------
    ValueError, KeyError
        For values without an answer.
    """
    workloads = [model_of(name) for name in (values["model"], *values["compare"])]
    devices = [device_of(device) for device in values["accelerators"]]
    needs = [_need(values, workload, devices) for workload in workloads]
    need, ghost = needs[0], pinned.kept if pinned else None
    picture = DRAWN[values["picture"]](needs, ghost)
    everything = picture.name == "zoo"
    table: Callable[[], pd.DataFrame] = partial(_model_table, picture.frame)
    return View(
        answer=_answer(need),
        headline={"rate needed": need.needed_flops, "memory": need.memory_bytes},
        chips=_chips(need),
        picture=picture,
        parts=_parts(need),
        parts_title=f"Memory by part, {need.workload.title} at batch {need.batch:,.0f}: "
        f"{human(need.memory_bytes, 'iB')}",
        table=table if everything else partial(_device_table, need, devices),
        data=(lambda: picture.frame) if everything else partial(_data, need),
        sources=partial(_sources, needs, devices),
        code=_code(values),
        kept=need,
        stood_for={"seq": need.seq},
    )


def _data(need: Requirements) -> pd.DataFrame:
    front = {"model": need.workload.name, "precision": need.precision, "needed_flops": need.needed_flops}
    return need.devices.assign(**front)[[*front, *need.devices.columns]]


def _chips(need: Requirements) -> tuple[tuple[str, str], ...]:
    measured = int(need.devices["observed_high"].notna().sum())
    return (
        (
            "bounds only",
            "The arithmetic by definition, at the peak rate. Fast algorithms such as Winograd's can do less. "
            "These are not predictions, and no efficiency is assumed.",
        ),
        (
            HOW.get(need.workload.how, f"model {need.workload.how}"),
            "Comparison of our parameters and MAC with published values.",
        ),
        (
            f"matmul measured on {measured} of {len(need.devices)}",
            "Accelerators with measured matmuls in this precision; most are the best shape of one search.",
        ),
    )


def _sequence(values: dict[str, Any]) -> dict[str, str]:
    workload = model_of(values["model"])
    return {} if workload.ops.needs_seq else {"*": f"{workload.title} has inputs of fixed size"}


def _data_of(name: str, values: dict[str, Any]) -> dict[str, str]:
    """Return the reason why a network has no tokens, or no samples."""
    workloads = [model_of(each) for each in (values["model"], *values["compare"])]
    counted_so = any(_reads_tokens(each) == (name == "tokens") for each in workloads)
    return {} if counted_so else {"*": f"{workloads[0].title} {UNITS[name]}"}


@lru_cache(maxsize=64)
def _formats_off(devices: tuple[str, ...]) -> dict[str, str]:
    able = {name for device in devices for name in hardware.formats(device_of(json.loads(device)))}
    table = catalog.table("number_formats")
    reasons = {name: "no chosen accelerator has a peak in this precision" for name in table["name"] if name not in able}
    return reasons | {name: "does not train a network" for name in table.loc[table["trains"] != "yes", "name"]}


def _code(values: dict[str, Any]) -> str:
    workload = model_of(values["model"])
    plain = {name: value for name, value in _scenario(values, workload).items() if value is not None}
    if "seq" in plain and not workload.ops.needs_seq:
        del plain["seq"]
    model, devices = model_text(values["model"]), device_text(values["accelerators"])
    return (
        f"{panel_call(model_zoo, values, {**defaults_of(model_zoo), 'model': None})}\n"
        f"cb.requirements(model={model}, {keywords(plain)}, accelerators={devices})"
    )


# Frames of the pictures, and the parts.


def _above(needs: Sequence[Requirements], pinned: Requirements | None) -> list[tuple[str, str, Requirements]]:
    """(label, role, requirements) of the rows above the accelerators."""
    rows = [(f"{need.workload.title} needs", "compared" if i else "need", need) for i, need in enumerate(needs)]
    return rows + ([("Pinned needs", "pinned", pinned)] if pinned is not None else [])


@lru_cache(maxsize=4)
def _labelled(need: Requirements) -> tuple[tuple[str, Any], ...]:
    """(label, row) of each accelerator; labels differ where two are called the same. Several parts of a view ask."""
    rows = tuple(need.devices.itertuples(index=False))
    short = [short_name(row.name) for row in rows]
    names = [name if short.count(name) == 1 else row.name for name, row in zip(short, rows, strict=True)]
    labels = [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
    return tuple(zip(labels, rows, strict=True))


def _note(name: str) -> str:
    """Return a note about a row that is several devices in one."""
    count = memories(name)
    return f"{count} separate memories, counted as one" if count > 1 else ""


def _rate_picture(needs: Sequence[Requirements], pinned: Requirements | None) -> Picture:
    """Needed rate against the peak of each accelerator."""
    rows: list[dict[str, Any]] = [
        {"row": label, "role": role, "rate": need.needed_flops, "text": human(need.needed_flops, "FLOP/s")}
        for label, role, need in _above(needs, pinned)
    ]
    rows += [
        {
            "row": label,
            "role": "device",
            "rate": row.peak_flops,
            "low": row.peak_flops * row.observed_low,
            "high": row.peak_flops * row.observed_high,
            "measured": row.measured,
            "verdict": _mark(row.verdict),
            "note": _note(row.name),
            "text": _share_words(row, needs[0].precision),
        }
        for label, row in _labelled(needs[0])
    ]
    columns = ["row", "role", "rate", "low", "high", "measured", "verdict", "note", "text"]
    frame = pd.DataFrame(rows, columns=columns)
    if len(frame) > MAX_TALL_ROWS:
        frame["text"] = [text.split("|")[0] for text in frame["text"]]
    signals = {**charts.rate_ends(frame), "rows": row_order(frame)}
    return Picture("rate", frame, charts.rate_title(frame), signals)


def _memory_picture(needs: Sequence[Requirements], pinned: Requirements | None) -> Picture:
    """Memory by part above the capacity of each accelerator."""
    first, above, devices = needs[0], _above(needs, pinned), _labelled(needs[0])
    roomy = len(above) + len(devices) <= MAX_TALL_ROWS
    separator = "|" if roomy else ", "
    rows: list[dict[str, Any]] = [
        {
            "row": label,
            "role": role,
            "part": name,
            "bytes": value,
            "text": None if i else f"{human(need.memory_bytes, 'iB')}{separator}batch {need.batch:,.0f}",
        }
        for label, role, need in above
        for i, (name, value) in enumerate(_ordered(need))
    ]
    rows += [
        {
            "row": label,
            "role": "device",
            "part": "capacity",
            "bytes": row.capacity_bytes,
            "note": _note(row.name),
            "verdict": "fits" if row.fits else "does not fit",
            "text": _capacity_words(row, roomy),
        }
        for label, row in devices
    ]
    frame = pd.DataFrame(rows, columns=["row", "role", "part", "bytes", "verdict", "note", "text"])
    takes = f"{first.workload.title} at batch {first.batch:,.0f} takes {human(first.memory_bytes, 'iB')}"
    fits = charts.memory_title(frame)
    signals = {"x_high": charts.memory_domain(frame), "rows": row_order(frame)}
    return Picture("memory", frame, f"{takes}: {fits[0].lower()}{fits[1:]}", signals)


def _ordered(need: Requirements) -> list[tuple[str, float]]:
    """Memory parts under their printed names, in the order of the cookbook."""
    named = {PRINTED.get(name, name): float(value) for name, value in need.memory.items()}
    return [(name, named.pop(name)) for name in MEMORY_PARTS if name in named] + list(named.items())


@lru_cache(maxsize=1)
def _zoo_frame() -> pd.DataFrame:
    """Return the zoo as `parameters_vs_flop` draws it; every network is built once."""
    models = zoo.models()
    return pd.DataFrame(
        {
            "name": models["name"],
            "title": models["title"],
            "group": models["family"].map(charts.group_of),
            "parameters": models["parameters"],
            "flop": 2 * models["macs"],
            "status": models["how"].map({"verified": "published"}).fillna("unverified"),
        }
    )


def _zoo_picture(needs: Sequence[Requirements], _pinned: Requirements | None) -> Picture:
    """Every network, with those that were chosen labelled."""
    table = _zoo_frame()
    own = [
        {
            "name": w.name,
            "title": w.title,
            "group": charts.group_of(w.family),
            "parameters": need.parameters,
            "flop": need.forward_flop_per_sample,
            "status": "unverified",
        }
        for need in needs
        if (w := need.workload).name not in set(table["name"])
    ]
    frame = pd.concat([table, pd.DataFrame(own)], ignore_index=True) if own else table
    picked = frame["name"].isin([need.workload.name for need in needs])
    frame = frame.assign(label=frame["title"].where(picked, ""), selected=picked)
    frame = frame[(frame["parameters"] > 0) & (frame["flop"] > 0)].drop(columns="name")
    return Picture("zoo", frame, charts.zoo_title(frame), charts.zoo_ends(frame))


# Charts of the requirements of one or several networks, and of pinned ones.
DRAWN: dict[str, Callable[[Sequence[Requirements], Requirements | None], Picture]] = {
    "rate": _rate_picture,
    "memory": _memory_picture,
    "zoo": _zoo_picture,
}


def _parts(need: Requirements) -> tuple[Part, ...]:
    """Return the memory by part, each with its formula in words."""
    formats = catalog.row("number_formats", need.precision)
    states = catalog.row("optimisers", need.optimiser)["state_elements"]
    count = f"{need.parameters:,.0f} parameters"
    samples = counted(int(need.batch), need.workload.sample or "sample")
    words = {
        "weights": f"{count} × {formats['weight_bytes']:g} B ({need.precision}).",
        "fp32 copy": f"{count} × {formats['master_bytes']:g} B: full-precision weights that the optimiser updates.",
        "gradients": f"{count} × {formats['gradient_bytes']:g} B, one for each weight.",
        "optimiser states": f"{count} × {states:g} states of {need.optimiser} × 4 B.",
        "activations": f"Values that the forward pass of {samples} keeps for the backward pass, "
        f"{formats['activation_bytes']:g} B per element.",
        "workspace": "The largest buffer in flight, and the memory of driver and libraries on the device.",
    }
    return tuple(
        Part(name, value, human(value, "iB"), MEMORY_PARTS.get(name, "#616161"), words.get(name, ""))
        for name, value in _ordered(need)
    )


# Tables and sources.


def _device_table(need: Requirements, devices: Sequence[Accelerator]) -> pd.DataFrame:
    """The accelerators as printed text, units in the headings; a figure from memory says so beside it."""
    rows = zip(_labelled(need), devices, strict=True)
    return pd.DataFrame([_device_row(label, device, row, need.precision) for (label, row), device in rows])


def _device_row(label: str, device: Accelerator, row: Any, precision: str) -> dict[str, str]:
    def stated(value: float, column: str) -> str:
        return _printed(value) + (RECALLED if origin(device, column)[1] else "")

    return {
        "Accelerator": label,
        f"Peak {precision} [TFLOP/s]": stated(row.peak_flops / 1e12, peak_column(device, precision)),
        "Required rate": share_of_peak(row.needed_fraction),
        "Measured matmul [% of peak]": _measured(row),
        "Memory [GiB]": stated(row.capacity_bytes / 2**30, MEMORY),
        "Bandwidth [TB/s]": stated(row.mem_bandwidth / 1e12, BANDWIDTH),
        "Largest batch": _printed(row.largest_batch),
        "One epoch, at least": _seconds(row.bound_seconds),
        "Unfused, overlapped": _seconds(row.unfused_overlap_seconds),
        "Devices, at least": _printed(row.devices_needed),
        "Verdict": row.verdict + (f" ({row.why})" if row.why else ""),
    }


def _model_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The networks as printed text, the chosen ones first, then the largest."""
    rows = frame.sort_values(["selected", "parameters"], ascending=False)
    sizes = {
        "Parameters [million]": rows["parameters"] / 1e6,
        "Forward [GMAC]": rows["flop"] / 2e9,
        "Forward [GFLOP]": rows["flop"] / 1e9,
    }
    printed = {head: values.map("{:,.4g}".format) for head, values in sizes.items()}
    return pd.DataFrame({"Network": rows["title"], "Kind": rows["group"], **printed, "Counts": rows["status"]})


def _sources(needs: Sequence[Requirements], devices: Sequence[Accelerator]) -> tuple[Source, ...]:
    """(title, link, what for) of each source of a figure that is used; recalled figures are marked."""
    need = needs[0]
    uses: dict[str, dict[str, list[str]]] = {}

    def use(keys: Sequence[str], what: str, whose: str) -> None:
        for key in filter(None, keys):
            names = uses.setdefault(key, {}).setdefault(what, [])
            names.extend([whose] if whose not in names else [])

    for one in needs:
        use(one.workload.sources, "layers of", one.workload.title)
    _, precision, optimiser, keys = sizes_of(need.precision, need.optimiser)
    use(keys, "bytes of", f"{precision}, {optimiser} and the runtime")
    labelled = [(label, device) for (label, _), device in zip(_labelled(need), devices, strict=True)]
    for label, device in labelled:
        columns = {"memory of": MEMORY, "bandwidth of": BANDWIDTH, "peak of": peak_column(device, need.precision)}
        for what, column in columns.items():
            stated, recalled = origin(device, column)
            use(stated, what, label + (RECALLED if recalled else ""))
        use(_measured_sources(device.key, need.precision), "matmul measured on", label)
    sources = cited(
        {
            key: "(recalled, not opened) " * key.startswith("recalled")
            + "; ".join(f"{what} {', '.join(names)}" for what, names in used.items())
            for key, used in uses.items()
        }
    )
    own = [(f"Your own values for {label}", "", ", ".join(d.changed)) for label, d in labelled if d.changed]
    return (*sources, *own)


@lru_cache(maxsize=256)
def _measured_sources(key: str, precision: str) -> tuple[str, ...]:
    efficiencies = observed_efficiency()
    cells = efficiencies.loc[
        (efficiencies["key"] == key) & (efficiencies["number_format"] == precision), "observed_sources"
    ]
    return tuple(dict.fromkeys(";".join(cells).split(";")))


def _printed(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.3g}"


def _seconds(value: float) -> str:
    return "" if math.isnan(value) else human(value, "s")


def _measured(row: Any) -> str:
    if math.isnan(row.observed_high):
        return "none"
    low, high = f"{100 * row.observed_low:.0f}", f"{100 * row.observed_high:.0f}"
    return f"{low if low == high else f'{low}-{high}'} (n = {row.measured:.0f})"


# Words.


def _mark(verdict: str) -> str:
    """Mark that a verdict in words is drawn with."""
    return next((mark for start, mark in MARKS.items() if verdict.startswith(start)), "not known")


def _share_words(row: Any, precision: str) -> str:
    """Return two short lines beside an accelerator: the required share of its peak, and its meaning."""
    if math.isnan(row.peak_flops):
        return f"no {precision} peak known"
    share = share_of_peak(row.needed_fraction)
    if row.needed_fraction > 1 and (row.fits or row.largest_batch):
        return f"{share}|{spoken(row.devices_needed)} devices at least"
    if not row.fits and not math.isnan(row.capacity_bytes):
        return f"{share}|{_fitting(row.largest_batch)}"
    return f"{share}|{'only if fused' if 'fused' in row.verdict else _beside_measured(row)}"


def _beside_measured(row: Any) -> str:
    """Return the position of the required rate relative to the measured matmuls."""
    if math.isnan(row.observed_high):
        return "not measured"
    if row.needed_fraction < row.observed_low:
        return "below the measured rates"
    return "within the measured rates" if row.needed_fraction <= row.observed_best else "above the best measured"


def _fitting(largest: float) -> str:
    return f"fits batch {largest:,.0f} at most" if largest else "not even batch 1 fits"


def _capacity_words(row: Any, roomy: bool) -> str:
    """Memory of an accelerator and the largest batch, on two lines where they fit."""
    if math.isnan(row.capacity_bytes):
        return "memory not known"
    count = memories(row.name)
    size = human(row.capacity_bytes, "iB") + (f" in {count} memories" if count > 1 else "")
    if not row.fits:
        size = f"{size}, short {human(row.needed_bytes - row.capacity_bytes, 'iB')}"
    if roomy:
        return f"{size}|{_fitting(row.largest_batch)}"
    return f"{size}, fits batch {row.largest_batch:,.0f}" if row.fits and count == 1 else size


def _answer(need: Requirements) -> str:
    """Return the headline and the facts below it."""
    epochs = "1 epoch" if need.epochs == 1 else f"{need.epochs:,g} epochs"
    at = "" if need.seq is None else f" of {need.seq:,.0f} tokens"
    work, data = f"{human(need.needed_macs, 'MAC/s')}; 1 MAC = 2 FLOP", f"{need.samples:,.0f} {need.workload.sample}s"
    if need.seq is not None and _reads_tokens(need.workload):
        data = f"{spoken(need.samples * need.seq)} tokens"
        work = f"{human(need.training_flop_per_sample / need.seq, 'FLOP')} per token"
    return (
        f"{need.workload.title} needs **{human(need.needed_flops, 'FLOP/s')}** sustained to train in "
        f"{duration(need.target_seconds)}. Accelerators: {_who_can(need)} Memory: "
        f"{human(need.memory_bytes, 'iB')} at batch {need.batch:,.0f}{at}. Work: {epochs} of {data} ({work}). "
        f"{assumed(need.workload)}"
    ).strip()


def _who_can(need: Requirements) -> str:
    """Return the accelerators that are not ruled out, each with its condition."""
    groups: dict[str, list[str]] = {"": [], **{words: [] for words in CONDITIONS.values()}, "under a condition": []}
    unknown: list[str] = []
    for label, row in _labelled(need):
        mark = _mark(row.verdict)
        if mark == "not known":
            unknown.append(label)
        elif mark.startswith("possible"):
            words = next((words for sign, words in CONDITIONS.items() if sign in row.verdict), "under a condition")
            groups["" if mark == "possible" else words].append(label)
    total, count = f"{len(need.devices):,}", sum(map(len, groups.values()))
    rest = f" Unknown: {listed(unknown)}, of which too little is known." if unknown else ""
    if not count:
        return _nobody(need.devices, rest)
    phrases = [f"{listed(labels)} {condition}".rstrip() for condition, labels in groups.items() if labels]
    return f"{count} of {total} {'is' if count == 1 else 'are'} not ruled out: {'; '.join(phrases)}.{rest}"


def _nobody(devices: pd.DataFrame, rest: str) -> str:
    none = "none" if len(devices) == 1 else f"none of the {len(devices):,}"
    if devices["needed_fraction"].isna().all():
        return f"{none} has a known peak in this precision."
    row = devices.loc[devices["needed_fraction"].idxmin()]
    if row["needed_fraction"] > 1:
        short = f"even {row['name']} would need {share_of_peak(row['needed_fraction'])}"
    else:
        why = row["why"] or row["verdict"]
        short = f"{row['name']} is fast enough, but {why[0].lower()}{why[1:]}"
    return f"{none} could meet the target on its own: {short}.{rest}"
