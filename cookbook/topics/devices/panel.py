"""Panel of recipe 04: which accelerator for this work?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.catalog import calls
from cookbook.catalog.fields import Amount
from cookbook.catalog.prices import BOUGHT, RENT
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.charts import devices as charts
from cookbook.charts.look import MUTED, PALETTE, row_order
from cookbook.hardware import Accelerator
from cookbook.panels import options, shell, text
from cookbook.panels.controls import Choice, Combo, Control, Slider, picture_control, powers_of_two
from cookbook.panels.options import Device, Network
from cookbook.panels.shell import MOST_ROWS, Panel, Part, Picture, View
from cookbook.panels.text import capital, counted, figure, listed, percent, short_name, undecided
from cookbook.prediction.kinds.transformer import answers_tokens
from cookbook.prediction.measurements import Measurement
from cookbook.topics.devices.comparison import PHASES, Lead, compare, lead, measured_runs, operations, roofs
from cookbook.units import ratio

USUAL = "usual"
# Compared by default, one of each kind.
USUAL_DEVICES = [
    "xeon-platinum-8592",
    "v100-sxm2-16gb",
    "h100-sxm",
    "rtx-4090",
    "rtx-4070-laptop",
    "tpu-v5e",
    "gaudi2",
    "inferentia2",
    "jetson-agx-orin-64gb",
    "alveo-u250",
]
PICTURES: dict[str, Callable[[Any], Any]] = {
    "throughput": charts.per_device,
    "energy": partial(charts.per_device, what="energy"),
    "cost": partial(charts.per_device, what="cost"),
    "roofline": charts.roofline,
}
MAX_DEVICES, MAX_PARTS = 12, 5
# Chart: the columns of its value, of its ends, and of the reason where there is none.
COLUMNS = {
    "throughput": ("samples_per_s", "low", "high", "why"),
    "energy": ("joules", "joules_low", "joules_high", "why_joules"),
    "cost": ("usd_per_million", "usd_per_million_low", "usd_per_million_high", "why_usd"),
}
WRITE = {"cost": units.dollars}  # what is not written by `figure`
UNIT = {"throughput": "samples/s", "energy": "J per sample", "cost": "per million samples"}
# What Pin compares: figures of the device looked at.
PINNED = {"samples/s": "samples_per_s", "J per sample": "joules", "cost per sample": "usd_per_million"}
VERB, WHAT = {"training": "train", "inference": "run"}, {"training": "training", "inference": "this pass"}
BEST = {"throughput": "{}s fastest", "energy": "needs least", "cost": "is cheapest"}
ANSWERS = "Generation: for tokens generated one after another, see recipe 10, Serve a model."
PROMPT = "One pass over a prompt of this length; constants come from published prompts and first tokens."


def accelerators(
    model: Network = "resnet50",
    accelerators: Device | Sequence[Device] = (),
    phase: str = "inference",
    batch: Amount = 32,
    precision: str = USUAL,
    on: str = "",
    software: str = "MLPerf",
    way: str = "on demand",
    op: str = "",
    picture: str = "throughput",
) -> Panel:
    """Return the panel "Which accelerator for this work?" in the state that the arguments describe.

    Parameters
    ----------
    model : str, Workload or dict
        A network of the zoo or one of your own: `cb.layers`, `cb.model`, ``{"layers": [...], "input": [...]}``, or what
        stands in a Hugging Face configuration.
    accelerators : sequence of str or Accelerator
        Two to twelve devices, your own included; one of each kind by default.
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
    state = dict(locals())
    own = [accelerators] if isinstance(accelerators, (str, Accelerator)) else list(accelerators)
    chosen = own or [*USUAL_DEVICES, *([on] if on and on not in USUAL_DEVICES else [])]
    usual = DEFAULTS["on"] if DEFAULTS["on"] in chosen else ""
    state |= {"accelerators": chosen, "on": on or usual}
    return Panel(
        "accelerators", "Which accelerator for this work?", _controls, PICTURES, _draw, state, OFF, good=DEFAULTS
    )


DEFAULTS = {**shell.defaults_of(accelerators), "accelerators": USUAL_DEVICES, "on": "h100-sxm"}


def _controls() -> tuple[Control, ...]:
    formats = catalog.table("number_formats")["name"]
    return (
        options.model_control("The network", options.networks(), options.SOME_LAYERS),
        Choice(
            "phase",
            "Phase",
            "Workload",
            (
                ("training", "training", "A step: forward, backward, update"),
                ("inference", "inference", "One forward pass of a batch"),
            ),
            tooltip="Training or inference",
        ),
        Slider("batch", group="Workload", stops=powers_of_two(0, 10), tooltip="Samples of one pass"),
        Combo(
            "software",
            group="Workload",
            options=_software(),
            tooltip="Software that runs the network on GPUs; other devices have their own compilers",
        ),
        Combo(
            "accelerators",
            "Accelerators",
            "Hardware",
            options.accelerators(),
            many=True,
            least=2,
            limit=MAX_DEVICES,
            own=options.own_accelerator(),
            plain=options.plain_device,
            short=short_name,
            tooltip="Two to twelve devices, one of each; custom… takes a device like another with changed values",
        ),
        Choice(
            "precision",
            group="Hardware",
            options=(
                (USUAL, "usual", "For each device, the first that it supports of bf16, fp16, fp32 and so on"),
                *((str(name), str(name), "") for name in formats),
            ),
            tooltip="Precision of the matmuls",
        ),
        Combo(
            "on",
            "Selected device",
            "Hardware",
            options.accelerators(),
            more=True,
            tooltip="Device of the answer, the parts and the roofline; click a mark to select it",
        ),
        Combo(
            "way",
            "Pay",
            "Money",
            tuple((way, way, "", "") for way in (*RENT, BOUGHT)),
            more=True,
            tooltip="Rented from a cloud, or bought and written off over its years of use",
        ),
        Combo(
            "op",
            "Operation",
            "Roofline",
            (("", "the longest", "", ""),),
            more=True,
            tooltip="Operation of the table; click its mark to select it",
        ),
        picture_control(
            ("throughput", "Throughput", "Samples per second, with intervals"),
            ("energy", "Energy", "Joules per sample"),
            ("cost", "Cost", "Dollars per million samples"),
            ("roofline", "Roofline", "Every operation under the rooflines of these devices"),
        ),
    )


def _software() -> tuple[tuple[str, str, str, str], ...]:
    """Products of the table, the usual one of each device among them."""
    rows = catalog.table("software")
    products = rows[rows["product"] != "usual"].drop_duplicates("product")
    listed = zip(products["product"], products["other_names"], strict=True)
    return (("", "the default of each device", "pytorch eager", ""), *((name, name, also, "") for name, also in listed))


def _formats(values: dict[str, Any]) -> dict[str, str]:
    """Formats that cannot be chosen, with the reason."""
    rows = catalog.table("number_formats")
    trains = values.get("phase", PHASES[0]) == "training"
    return {name: f"{name} does not train a network" for name in rows.loc[rows["trains"] != "yes", "name"] if trains}


OFF: dict[str, Any] = {
    "precision": _formats,
    "op": lambda v: {} if v.get("picture") == "roofline" else {"*": "only the roofline shows operations"},
}


@lru_cache(maxsize=64)
def _compared(
    model: Any, devices: tuple[str | Accelerator, ...], names: tuple[str, ...], precision: str, **how: Any
) -> pd.DataFrame:
    table = compare(model, devices, precision="" if precision == USUAL else precision, **how)
    own = [isinstance(device, Accelerator) for device in devices]
    return table.assign(
        key=list(names),
        name=[name if mine else printed for name, printed, mine in zip(names, table["name"], own, strict=True)],
    )


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison with the selected device and operation; read-only."""

    model: Any
    title: str
    phase: str
    batch: int
    table: pd.DataFrame
    on: str
    device: str | Accelerator
    op: str
    told: tuple[str, ...] = ()  # facts that come last
    software: str = ""

    def measured(self, row: Mapping[str, Any]) -> tuple[Measurement, ...]:
        """Measured runs of this network, batch and format on the device of a row; none where it has no prediction."""
        if row["fits"] == "no" or row["why"]:
            return ()
        return measured_runs(self.model, row["key"], self.phase, self.batch, row["precision"], self.software)

    @cached_property
    def ranks(self) -> dict[str, pd.DataFrame]:
        """All devices for each picture, the best first, then those that do not hold the model or have no figure."""
        best = {
            name: self.table.sort_values(point, ascending=name != "throughput", kind="stable")
            for name, (point, *_) in COLUMNS.items()
        }
        return {name: rows.loc[(rows["fits"] == "no").sort_values(kind="stable").index] for name, rows in best.items()}

    def known(self, picture: str) -> pd.DataFrame:
        """Return the devices that fit the model and have the value of a chart, the best first."""
        rows = self.ranks[picture]
        return rows[rows[COLUMNS[picture][0]].notna() & (rows["fits"] != "no")]

    def lead(self, picture: str) -> Lead | None:
        """Return the best of the devices with a value, and whether it may be called so."""
        point, low, high, _ = COLUMNS[picture]
        rows = self.known(picture)
        return lead(rows[point], rows[low], rows[high], evidence=rows["evidence"], most=picture == "throughput")

    @property
    def nothing(self) -> str:
        """Return the start of a sentence where no device can be ranked."""
        full = int((self.table["fits"] == "no").sum())
        if full == len(self.table):
            return f"None of these {full} devices has the memory for"
        return f"None of these {len(self.table)} devices {'can be compared' if full else 'has this value'} for"

    @cached_property
    def looked(self) -> pd.Series:
        """Return the row of the selected device."""
        return self.table[self.table["key"] == self.on].iloc[0]

    @cached_property
    def ops(self) -> pd.DataFrame:
        """Return the operations of one forward pass on the selected device."""
        row = self.looked
        if not row["precision"] or not math.isfinite(row["ridge"]):
            missing = "memory bandwidth" if math.isfinite(row["peak_flops"]) else f"peak in {row['precision']}"
            reason = row["why"] or f"its {missing} is not known"
            raise Refused(Refusal(f"{row['name']} has no roofline here: {reason}", field="on"))
        return operations(self.model, self.device, self.batch, precision=row["precision"])

    @cached_property
    def chosen(self) -> pd.Series:
        """Return the selected operation; the longest where none is, or the network has none of that name."""
        named = np.flatnonzero(self.ops["name"] == self.op)
        return self.ops.iloc[named[0] if len(named) else 0]


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    pairs = dict(zip(options.keys_of(values["accelerators"]), values["accelerators"], strict=True))
    devices = tuple(options.device_of(value) if isinstance(value, dict) else key for key, value in pairs.items())
    precision, phase, picture = values["precision"], values["phase"], values["picture"]
    if precision in _formats(values):
        raise refused("precision", precision, "does not train a network; take one that does, or inference")
    model = options.named_model(values["model"])
    how = {name: values[name] for name in ("phase", "batch", "software", "way")}
    found = _compared(model, devices, tuple(pairs), precision, **how)
    # A device that was taken away cannot be looked at: the state moves to the best one, and the answer says so.
    values["on"], moved = _looked_at(values["on"], list(pairs), found)
    notes = tuple(filter(None, (moved, options.assumed(values["model"]), _prompt(model, phase))))
    view = Compared(
        model,
        options.title_of(model, tokens=True),
        phase,
        values["batch"],
        found,
        values["on"],
        devices[list(pairs).index(values["on"])],
        values["op"],
        notes[:2],
        values["software"],
    )
    roof = picture == "roofline"
    words = _picture_title(view, picture)
    return View(
        answer=" ".join((_under_the_roof(view) if roof else _answer(view, picture), *view.told)),
        headline={words: float(view.looked[name]) for words, name in PINNED.items() if view.looked[name] > 0},
        chips=_chips(view),
        picture=_roofline(view, words) if roof else _per_device(view, picture, words, pinned),
        parts=_op_parts(view) if roof else _time_parts(view),
        parts_title=(
            f"Forward pass on {view.looked['name']} at the roofline, by operation"
            if roof
            else f"Time of one pass on {view.looked['name']}, by part"
        ),
        table=partial(_op_table if roof else _device_table, view),
        data=partial(_data, view, picture),
        sources=partial(_source_rows, view),
        code=_code(values, view),
        kept=found,
        stood_for={"precision": f"{view.looked['precision']} on {view.looked['name']}"} if precision == USUAL else {},
    )


def _looked_at(on: str, keys: list[str], table: pd.DataFrame) -> tuple[str, str]:
    """Return the selected device, and a sentence where it is not the requested one."""
    able = table["samples_per_s"].where(table["fits"] != "no", 0.0)
    at = int(np.nanargmax(able)) if able.notna().any() else 0
    try:
        key = on if on in keys else catalog.lookup("accelerators", on) if on else keys[at]
    except (KeyError, ValueError):
        key = on
    if key in keys:
        return key, ""
    names = catalog.table("accelerators").set_index("key")["name"]
    requested, selected = names.get(key, key), table["name"][at]
    return keys[at], f"Selected: {requested} is not among the devices compared; {selected} is selected instead."


def _prompt(model: Any, phase: str) -> str:
    """Return a pointer to the recipe about answers, if this is one pass over a prompt."""
    return ANSWERS if phase == "inference" and answers_tokens(options.model_of(model)) else ""


def _code(values: dict[str, Any], view: Compared) -> str:
    devices = shell.device_text(values["accelerators"])
    call = {"phase": values["phase"], "batch": values["batch"]}
    call |= {} if values["precision"] == USUAL else {"precision": values["precision"]}
    call |= {"software": values["software"]} if values["software"] else {}
    call |= {"way": values["way"]} if values["way"] != DEFAULTS["way"] else {}
    lines = [shell.panel_call(accelerators, values, DEFAULTS, {"accelerators": devices})]
    lines.append(f"cb.planning.compare({shell.model_text(values['model'])}, {devices}, {calls.keywords(call)})")
    if values["picture"] == "roofline":
        on = dict(zip(options.keys_of(values["accelerators"]), values["accelerators"], strict=True))[values["on"]]
        where = f"{shell.model_text(values['model'])}, {shell.device_text(on)}, {values['batch']}"
        lines.append(f"cb.roofline_table({where}, precision={calls.as_python(view.looked['precision'])})")
    return "\n".join(lines)


def _range(row: Any, picture: str, alone: bool = False) -> str:
    """Return a value with its ends, or `alone` with its unit; or a short reason why there is none."""
    point, low, high, why = COLUMNS[picture]
    if not math.isfinite(row[point]):
        return text.short(row[why])
    write = WRITE.get(picture, figure)
    return f"{write(row[point])} " + (UNIT[picture] if alone else f"({write(row[low])}-{write(row[high])})")


def _picture_title(view: Compared, picture: str) -> str:
    """Return the takeaway of the chart."""
    if picture == "roofline":
        slow = float(view.ops.loc[view.ops["bound_by"] == "memory", "share"].sum())
        return (
            f"{short_name(view.looked['name'])}: memory limits {percent(slow)} of the time of a forward pass, unfused"
        )
    rows, ahead = view.known(picture), view.lead(picture)
    if ahead is None:
        return f"{view.nothing} {view.title.partition(' (')[0]}"
    if not ahead.named:
        return undecided(rows["name"].map(short_name).tolist(), ahead)
    point, first, last = COLUMNS[picture][0], rows.iloc[0], rows.iloc[-1]
    best = BEST[picture].format(VERB[view.phase])
    takeaway = f"{short_name(first['name'])} {best}: {WRITE.get(picture, figure)(first[point])} {UNIT[picture]}"
    if len(rows) == 1:
        return takeaway
    if picture == "throughput":
        return f"{takeaway}, {ratio(first[point] / last[point])} times as fast as {short_name(last['name'])}"
    return f"{takeaway}; {short_name(last['name'])} needs {ratio(last[point] / first[point])} times as much"


def _answer(view: Compared, picture: str) -> str:
    """Return the answer: the best device where there is one, the selected one, those without a value."""
    rows, ahead, work = view.known(picture), view.lead(picture), f"{view.title} at batch {view.batch:,}"
    if ahead is None:
        head, rest = view.nothing.split(" devices ")
        return f"**{head} devices** {rest} {work}. {_looked(view, picture)}{_lacking(view, picture)}"
    point, low, high, _ = COLUMNS[picture]
    write, fast = WRITE.get(picture, figure), picture == "throughput"
    first, tied = rows.iloc[0], rows.iloc[[*ahead.tied]]
    ends = f"{write(first[low])}-{write(first[high])}"
    tokens = f", {figure(first['tokens_per_s'])} tokens/s" if fast and first["tokens_per_s"] > 0 else ""
    head, interval = (
        undecided(rows["name"].map(short_name).tolist(), ahead, "**"),
        "interval (80 %)" if fast else "range",
    )
    if ahead.named:
        does = f"{short_name(first['name'])} {BEST[picture].format(VERB[view.phase])}"
        head = (
            f"{does}: **{write(first[point])} {UNIT[picture]}** for {work}{tokens}. {capital(interval)}: {ends}; "
            "no other interval overlaps it."
        )
    else:
        head += (
            f". Range: {write(tied[low].min())}-{write(tied[high].max())} {UNIT[picture]} for {work}; "
            f"{short_name(first['name'])} {write(first[point])} {UNIT[picture]}{tokens} ({ends})."
        )
    return f"{head} {_looked(view, picture)}{_full(view)}{_lacking(view, picture)}"


def _full(view: Compared) -> str:
    """Devices whose memory is too small, which are not ranked."""
    full = view.table.loc[view.table["fits"] == "no", "name"].map(short_name).tolist()
    return f" Memory: it does not fit {listed(full, 2)}." if full else ""


def _lacking(view: Compared, picture: str) -> str:
    """Return the devices without the value, and the reason for the first of them."""
    lacks = view.ranks[picture][view.ranks[picture][COLUMNS[picture][0]].isna()]
    if lacks.empty or len(view.told) + bool(_full(view)) > 2:  # five facts are enough
        return ""
    row = lacks.iloc[0]
    more = f", and {len(lacks) - 1} more" if len(lacks) > 1 else ""
    return f" No value: {short_name(row['name'])} ({text.short(row[COLUMNS[picture][3]])}){more}."


def _looked(view: Compared, picture: str) -> str:
    row, point = view.looked, COLUMNS[picture][0]
    if math.isnan(row[point]):
        return f"Selected: {row['name']}, {text.short(row[COLUMNS[picture][3]])}."
    start = f"Selected: {row['name']}, {_range(row, picture, True)}"
    if picture == "throughput":
        fits = ", and does not fit its memory" if row["fits"] == "no" else ""
        reached = (
            f"{percent(row['share_of_peak'])} of the peak of {figure(row['peak_flops'] / 1e12)} TFLOP/s"
            if row["peak_flops"] > 0
            else "for which no peak is known"
        )
        return (
            f"{start} in {row['precision']}, {reached}{fits}; {_range(row, 'energy', True)}, "
            f"{_range(row, 'cost', True)}."
        )
    if picture == "energy":
        return (
            f"{start} at about {row['watts']:,.0f} of {row['tdp_watts']:,.0f} W rated, without its host; no power was "
            "measured."
        )
    return (
        f"{start} at {units.dollars(row['usd_per_hour'])}/h, the median of {counted(row['price_rows'], 'price')} from "
        f"{row['price_first'][:7] or 'no date'} to {row['price_last'][:7] or 'no date'}."
    )


def _under_the_roof(view: Compared) -> str:
    row, ops, op = view.looked, view.ops, view.chosen
    lost = "" if not view.op or view.op == op["name"] else f"{view.title} has no operation {view.op!r}; the longest: "
    bound = float(ops.loc[ops["bound_by"] == "memory", "share"].sum())
    best, rate = view.batch / float(ops["seconds"].sum()), row["samples_per_s"]
    why = ", since software that fuses operations moves less data" if rate > best else ""
    ends = f" (80 %: {figure(row['low'])} to {figure(row['high'])})" if math.isfinite(row["high"]) else ""
    beside = f" Predicted: {figure(rate)} samples/s{ends} for {WHAT[view.phase]}{why}." if math.isfinite(rate) else ""
    return (
        f"Memory limits **{percent(bound)}** of a forward pass of {view.title} on {short_name(row['name'])}, unfused. "
        f"Ceiling: at most {figure(best)} samples/s in {row['precision']} without fusion.{beside} Operation: "
        f"{lost}{op['name']}, {_formula(view, op)}"
    )


def _formula(view: Compared, op: Any) -> str:
    """Return the time of one operation at the roofline as a formula in numbers."""
    row, times = view.looked, f"{op['count']:,.0f} × " if op["count"] > 1 else ""
    flop, moved = op["flop"] / op["count"], op["bytes"] / op["count"]
    peak, wide = units.human(row["peak_flops"], "FLOP/s"), units.human(row["mem_bandwidth"], "B/s")
    longer = "arithmetic" if op["bound_by"] == "compute" else "memory"
    return (
        f"{op['kind']}: {times}max({units.human(flop, 'FLOP')} / {peak}, {units.human(moved, 'B')} / {wide}) = "
        f"{units.human(op['seconds'], 's')}; {figure(op['intensity'])} FLOP/B against {figure(row['ridge'])} at the "
        f"ridge, so {longer} is the limit."
    )


def _chips(view: Compared) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the values are known."""
    row, here = view.looked, int((view.table["evidence"] == "measured here").sum())
    return (
        (
            f"{row['name']}: {row['evidence'] or 'no prediction'}",
            "Measured here: runs of this device were used for the constants. Sibling: same maker, or other software.",
        ),
        *text.measured_badges(view.measured(row)),
        (
            f"{here} of {len(view.table)} devices measured",
            "Devices with measured runs in the tables; intervals of the others are wider.",
        ),
        (
            "flexibility is our judgement",
            "The effort to program each kind of device is our judgement; see the table programmability.",
        ),
        *((("a prompt, not an answer", PROMPT),) if _prompt(view.model, view.phase) else ()),
    )


def _per_device(view: Compared, picture: str, title: str, pinned: View | None) -> Picture:
    """Return the chart of one value per device, the best first."""
    point, low, high, _ = COLUMNS[picture]
    table = view.ranks[picture]
    before = {} if pinned is None else dict(zip(pinned.kept["key"], pinned.kept[point], strict=True))
    cells = [
        "does not fit memory" if row["fits"] == "no" and row[point] > 0 else _range(row, picture)
        for row in table.to_dict("records")
    ]
    several = table["precision"].replace("", np.nan).nunique() > 1
    names = table["name"].map(short_name).mask(table["name"].map(short_name).duplicated(keep=False), table["name"])
    frame = pd.DataFrame(
        {
            "row": names + (", " + table["precision"]).where(several & (table["precision"] != ""), ""),
            "point": table[point],
            "low": table[low],
            "high": table[high],
            "peak": table["samples_per_s"] / table["share_of_peak"]
            if picture == "throughput"
            else table[point] * np.nan,
            "before": [before.get(key) for key in table["key"]],
            "evidence": table["evidence"],
            "text": cells,
            "looked": (table["key"] == view.on) & table[point].notna(),
            "control": "on",
            "value": table["key"],
        }
    ).astype({"before": float})
    return Picture(picture, frame, title, {"rows": row_order(frame), **charts.figure_ends(frame)})


def _roofline(view: Compared, title: str) -> Picture:
    """Return the chart of the operations of the network under the rooflines of all devices compared."""
    frame = charts.under_roofs(view.ops, partial(roofs, view.table), view.chosen["name"], view.on)
    return Picture("roofline", frame, title, charts.roofline_ends(frame))


def _time_parts(view: Compared) -> tuple[Part, ...]:
    """Return the time of one pass on the selected device by part."""
    times = view.looked.filter(regex=" seconds$").rename(lambda name: name.removesuffix(" seconds"))
    return options.step_parts(times[times > 0], alone=True)


def _op_parts(view: Compared) -> tuple[Part, ...]:
    """Operations of one forward pass at the roofline, the longest first, the rest together."""
    colours = (*PALETTE[:4], "#A170C6")
    parts = [
        Part(str(op["name"]), op["seconds"], units.human(op["seconds"], "s"), colour, _formula(view, op))
        for op, colour in zip(view.ops.head(MAX_PARTS).to_dict("records"), colours, strict=False)
    ]
    rest = view.ops.iloc[MAX_PARTS:]
    words = (
        f"{rest['count'].sum():,.0f} more operations, each limited by arithmetic or by traffic, whichever takes longer."
    )
    seconds = float(rest["seconds"].sum())
    return (*parts, *([Part("other", seconds, units.human(seconds, "s"), MUTED, words)] if len(rest) else []))


def _device_table(view: Compared) -> pd.DataFrame:
    """Figures of each device as printed text, the fastest first."""
    effort = catalog.table("programmability").set_index("kind")["effort"]
    speaks = view.table["tokens_per_s"].notna().any()
    return pd.DataFrame(
        [
            {
                "Device": row["name"],
                "Kind": row["kind"],
                "Precision": row["precision"] or "none",
                "Samples/s": _range(row, "throughput"),
                **({"Tokens/s": figure(row["tokens_per_s"]) if row["tokens_per_s"] > 0 else "none"} if speaks else {}),
                "Of peak [%]": "none" if math.isnan(row["share_of_peak"]) else f"{100 * row['share_of_peak']:.2g}",
                "J per sample": _range(row, "energy"),
                "$ per million samples": _range(row, "cost"),
                "Prices dated": f"{row['price_first'][:7]} to {row['price_last'][:7]}"
                if row["price_last"]
                else "no price",
                "Memory": f"{units.human(row['memory_bytes'], 'iB')} of {units.human(row['capacity_bytes'], 'iB')}"
                if row["fits"] in ("yes", "no")
                else row["fits"] or "none",
                "Evidence": row["evidence"] or row["why"],
                "Measured": next(map(str, view.measured(row)), "no such run"),
                "Effort to program (judgement)": effort[row["kind"]],
            }
            for row in view.ranks["throughput"].to_dict("records")
        ]
    )


def _op_table(view: Compared) -> pd.DataFrame:
    """The longest operations as printed text."""
    return pd.DataFrame(
        [
            {
                "Operation": op["name"],
                "Kind": op["kind"],
                "Times": f"{op['count']:,.0f}",
                "GFLOP": f"{op['flop'] / 1e9:,.3g}",
                "MB moved": f"{op['bytes'] / 1e6:,.3g}",
                "FLOP/B": figure(op["intensity"]),
                "Time at the roofline [µs]": f"{op['seconds'] * 1e6:,.3g}",
                "Share [%]": f"{100 * op['share']:.1f}",
                "Limited by": op["bound_by"],
            }
            for op in view.ops.head(MOST_ROWS).to_dict("records")
        ]
    )


def _data(view: Compared, picture: str) -> pd.DataFrame:
    """The numbers behind the picture, in SI units."""
    if picture == "roofline":
        return view.ops
    return view.table.assign(**{name: view.table[name].str.join(";") for name in ("sources", "price_sources")})


def _source_rows(view: Compared) -> tuple[tuple[str, str, str], ...]:
    """(title, link, note) of each source of devices and prices shown."""
    keys = dict.fromkeys(key for name in ("sources", "price_sources") for cell in view.table[name] for key in cell)
    return options.cited(dict.fromkeys(keys, ""), "recalled")
