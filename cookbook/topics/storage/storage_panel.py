"""Panel of recipe 02: will the accelerators starve, of what, and what should change first?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog import calls
from cookbook.catalog.fields import Amount
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.charts.look import nice_ceiling, row_order
from cookbook.panels import options, shell
from cookbook.panels.controls import Choice, Combo, Control, Slider, one_two_five, picture_control, powers_of_two
from cookbook.panels.options import Device, Network
from cookbook.panels.shell import Panel, Part, Picture, View
from cookbook.panels.text import Source, capital, counted, in_words, percent, short_name
from cookbook.prediction.kinds.input_pipeline import Change
from cookbook.prediction.kinds.input_pipeline_arguments import catalogued
from cookbook.prediction.match import StorageMatch, match_storage
from cookbook.prediction.scenario import BENCHMARK
from cookbook.topics.storage import charts
from cookbook.topics.storage.platforms import chain_figures, epoch_parts, rank_changes
from cookbook.units import dollars, human, ratio

PICTURES = {"chain": charts.chain, "changes": charts.changes, "scaling": charts.scaling, "epochs": charts.epochs}
MINUTES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0)
LINKS = (1.0, 10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0)
CLOCK = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
OWN_DATA = "benchmark"
AS_THE_BENCHMARK = (OWN_DATA, "as the benchmark has it", "", "benchmark")
# Rates beyond so many times the demand are cut: what is plenty need not be told apart.
_BEYOND, _POINTS, _KEPT, CENT = 1.2, 33, 0.005, 0.01
# Stages in the order of the picture: what its row is called, and how it is computed.
STAGES = {
    "storage": (
        "storage",
        "Least of bandwidth, operations per second × file size, and requests over latency.",
    ),
    "network": ("network", "Network of all hosts combined; drives in the hosts need none."),
    "reading": (
        "storage and cache",
        "Later epochs: part of the files is in the page cache, the rest in storage.",
    ),
    "decoding": ("decoding", "Decoding rate of all loader processes on the available cores."),
    "copying": ("copying to devices", "Copies from pinned memory over the host link of each accelerator."),
    "accelerators": ("accelerators", "The demand: batch over the time of a step, for all accelerators."),
}
PARTS = {
    "computing": "Utilisation × the time without checkpoints.",
    "waiting for input": "The rest of the time without checkpoints.",
    "writing checkpoints": "Time of a write over the sum of itself and the interval between writes.",
}


def storage(
    data: str | float = "imagenet-1k",
    model: Network | float = "resnet50",
    system: Device = "h100-sxm",
    accelerators: Amount = 8,
    storage: str = "samsung-860-evo-1tb",
    memory: Amount = 128,
    batch: Amount = 256,
    layout: str = "as is",
    workers: Amount = 8,
    cores: Amount = 64,
    hosts: Amount = 1,
    drives: Amount = 1,
    network: Amount = 25,
    price: Amount = 0,
    epochs: Amount = 10,
    checkpoints: Amount = 0,
    asynchronous: str = "no",
    picture: str = "chain",
) -> Panel:
    """Return the panel "Will my GPUs starve?" in the state that the arguments describe.

    Parameters
    ----------
    data : str or float
        A card of the table ``data_sets``, "benchmark" for the data of an MLPerf Storage workload, or bytes of a sample.
    model : str, Workload, dict or float
        A network of the zoo or one of your own (`cb.layers`, `cb.model`, ``{"layers": [...], "input": [...]}``, or what
        stands in a Hugging Face configuration), "mlperf/" and a storage benchmark, or the seconds of one step.
    system : str, Accelerator or dict
        An accelerator, or ``{"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}``.
    accelerators, storage, batch, workers, cores, hosts, epochs
        As for `cb.match_storage`; `storage` is a key of the table ``storage``.
    memory : float
        Memory of one host [GB].
    layout : {"as is", "shards"}
        Files as the card says, or packed in large ones.
    drives : int
        Drives or nodes of the storage.
    network : float
        Network of one host on the way to shared storage [Gbit/s].
    price : float
        USD for a terabyte of this storage; 0: as in the table, where it may be missing.
    checkpoints : float
        Minutes between checkpoints; 0: none.
    asynchronous : {"no", "yes"}
        Whether they are written behind the training.
    picture : {"chain", "changes", "scaling", "epochs"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = storage("benchmark", "mlperf/unet3d", accelerators=2, storage="micron-9400-7-68tb-gen4")
    >>> panel.update(accelerators=0)
    >>> panel.answer
    'Accelerators = 0 is outside its range; give a number from 1 to 1,024.'
    """
    return Panel("storage", "Will my GPUs starve?", _controls, PICTURES, _draw, locals(), OFF, good=DEFAULTS)


DEFAULTS = shell.defaults_of(storage)


def _controls() -> tuple[Control, ...]:
    return (
        Combo(
            "data",
            group="Workload",
            options=(*options.data_sets(), AS_THE_BENCHMARK),
            own=options.OWN_BYTES,
            tooltip="Data set of an epoch",
        ),
        options.work_control(),
        options.device_control("system", "Accelerator", options.accelerators(), "Accelerator that computes the steps"),
        Slider("accelerators", group="Hardware", stops=powers_of_two(0, 10), tooltip="Total number in all hosts"),
        Combo("storage", group="Hardware", options=options.storages(), tooltip="Storage of the data set"),
        Slider(
            "memory",
            "Memory of a host",
            "Hardware",
            powers_of_two(3, 13),
            unit="GB",
            tooltip="Most of it is available as page cache for files already read",
        ),
        Slider("batch", group="Workload", stops=powers_of_two(0, 16), more=True, phase="input_pipeline"),
        Choice(
            "layout",
            "Files",
            "Workload",
            (
                ("as is", "as is", "As described in the data set"),
                ("shards", "packed", "Packed in large files that are read sequentially"),
            ),
            more=True,
        ),
        Slider("workers", "Loader processes", "Host", powers_of_two(0, 7), unit="per accelerator", more=True),
        Slider("cores", "Cores of a host", "Host", powers_of_two(0, 9), more=True),
        Slider("hosts", group="Host", stops=powers_of_two(0, 8), more=True),
        Slider("drives", "Drives or nodes", "Storage", powers_of_two(0, 8), more=True),
        Slider("network", "Network of a host", "Storage", LINKS, unit="Gbit/s", more=True, phase="input_pipeline"),
        Slider(
            "price",
            "Price",
            "Storage",
            (0.0, *one_two_five(5, 1000)),
            unit="$/TB",
            more=True,
            zero="list price",
            tooltip="Price of this storage; the list price is from the table, where there is one",
        ),
        Slider("epochs", group="Training", stops=one_two_five(1, 1000), more=True),
        Slider(
            "checkpoints",
            "Checkpoint every",
            "Training",
            MINUTES,
            unit="min",
            more=True,
            zero="never",
            tooltip="Interval between checkpoints of the training state; never by default",
        ),
        Choice(
            "asynchronous",
            group="Training",
            options=(
                ("no", "no", "Training waits for the write"),
                ("yes", "yes", "A copy is written while training continues"),
            ),
            more=True,
            tooltip="Whether training waits for the write",
        ),
        picture_control(
            ("chain", "Chain", "Rate of each stage"),
            ("changes", "What to change first", "Rate after each change alone"),
            ("scaling", "More accelerators", "Utilisation on the same storage"),
            ("epochs", "Epochs", "The first epoch and a later one"),
        ),
    )


def _is_benchmark(model: Any) -> bool:
    """Return True for a workload of MLPerf Storage, which states step, batch and data."""
    return isinstance(model, str) and model.startswith(BENCHMARK)


@lru_cache(maxsize=256)
def _local(storage: str) -> bool:
    """Return True if a row of the table ``storage`` is in the hosts."""
    return bool(catalogued(catalog.lookup("storage", storage))[0]["local"])


OFF = {
    "batch": lambda v: {"*": "the benchmark has its own batch"} if _is_benchmark(v["model"]) else {},
    "layout": lambda v: (
        {"*": "the files of these data are not known"}
        if v["data"] == OWN_DATA or not isinstance(v["data"], str)
        else {}
    ),
    "network": lambda v: {"*": "these drives are in the hosts"} if _local(v["storage"]) else {},
    "asynchronous": lambda v: {} if v["checkpoints"] else {"*": "no checkpoint is written"},
}


@dataclass(frozen=True, eq=False)
class Scene:
    """One state of the controls with the result of `cb.match_storage`.

    Attributes
    ----------
    values : mapping
        Values of the controls.
    names : tuple
        Workload, system, storage and data as `cb.match_storage` takes them.
    given : mapping
        Its other arguments.
    """

    values: Mapping[str, Any]
    names: tuple[Any, Any, Any, Any]
    given: Mapping[str, Any]
    found: StorageMatch

    @property
    def shown(self) -> str:
        """Row of the picture that is the slowest; storage and cache together read where part is cached."""
        name = str(self.found.bottleneck)
        return "reading" if name in ("storage", "network") and self.found.hit_rate > 0 else name

    def over(self, **changed: Any) -> StorageMatch:
        """The same with arrays in place of some numbers."""
        return match_storage(*self.names, **{**self.given, **changed})

    @cached_property
    def ranked(self) -> list[tuple[Change, Any]]:
        """Changes, best first, each with its row of `cb.planning.rank_changes`."""
        return [(self.found.changes[row.Index], row) for row in rank_changes(self.found).itertuples()]

    @cached_property
    def first(self) -> tuple[Change, Any] | None:
        """The first change whose gain is visible in the printed ratio, as "1.1×" and not as "1.0×"."""
        now = self.found.samples_per_s
        return next((each for each in self.ranked if _times(each[0].samples_per_s / now) != _times(1.0)), None)

    @cached_property
    def scaled(self) -> tuple[np.ndarray, StorageMatch]:
        """Numbers of accelerators, and the result for each on the same hosts and storage."""
        low, high = float(self.given["hosts"]), 4.0 * max(self.given["accelerators"], 8)
        most = self.found.largest_accelerators
        high = max(high, min(2 * most, 4096.0)) if np.isfinite(most) else high
        grid = np.round(np.geomspace(low, 2 ** np.ceil(np.log2(high)), _POINTS))
        counts = np.unique(np.append(grid, self.given["accelerators"]))
        return counts, self.over(accelerators=counts)


@lru_cache(maxsize=64)
def _scene(**v: Any) -> Scene:
    """The scene of the controls but for the picture; ValueError where a choice cannot be."""
    benchmark = _is_benchmark(v["model"])
    if v["hosts"] > v["accelerators"]:
        raise refused("hosts", v["hosts"], f"is more than {v['accelerators']:,} accelerators; give at most that")
    if v["data"] == OWN_DATA and not benchmark:
        reason = "data = benchmark goes with a network of MLPerf Storage; choose a data set, or such a network"
        raise Refused(Refusal(reason, field="data"))
    if v["checkpoints"] and (benchmark or options.is_time(v["model"])):
        reason = "needs a network, whose parameters give the size of a checkpoint; set it to 0, or choose a network"
        raise refused("checkpoints", v["checkpoints"], reason)
    drives = {"storage": v["storage"], "drives": v["drives"]} | ({"price_usd_per_tb": v["price"]} if v["price"] else {})
    data = None if v["data"] == OWN_DATA else v["data"]
    if v["layout"] != "as is" and isinstance(data, str):
        data = {"card": data, "layout": v["layout"]}
    names = (v["model"], v["system"], drives if len(drives) > 2 or v["drives"] > 1 else v["storage"], data)
    arguments: dict[str, Any] = {} if benchmark else {"batch": v["batch"]}
    arguments |= {name: v[name] for name in ("accelerators", "hosts", "workers", "cores")}
    arguments |= {"memory": f"{v['memory']} GB", "epochs": v["epochs"]}
    if not _local(v["storage"]):
        arguments["network"] = f"{v['network']} Gb/s"
    if v["checkpoints"]:
        arguments |= {"checkpoint_interval": 60 * v["checkpoints"], "asynchronous": int(v["asynchronous"] == "yes")}
    return Scene(MappingProxyType(v), names, MappingProxyType(arguments), match_storage(*names, **arguments))


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    records = {
        "model": values["model"] if options.is_time(values["model"]) else options.named_model(values["model"]),
        "system": options.named_device(values["system"]),
    }
    scene = _scene(**{name: value for name, value in {**values, **records}.items() if name != "picture"})
    drawn, table = {
        "chain": (_chain_picture, _stage_table),
        "changes": (_changes_picture, _change_table),
        "scaling": (_scaling_picture, _scaling_table),
        "epochs": (_epochs_picture, _epoch_table),
    }[values["picture"]]
    result = scene.found
    usd = result.usd_per_hour
    shares = epoch_parts(result).set_index(["epoch", "part"])["share"]["each later epoch"]
    return View(
        answer=f"{_answer(scene)} {options.assumed(values['model'])}".rstrip(),
        headline={"samples per second": result.samples_per_s, "utilisation": result.utilisation},
        chips=_chips(scene),
        picture=drawn(scene, pinned.kept if pinned else None),
        parts=tuple(
            Part(
                name,
                share,
                percent(share) + ("" if math.isnan(usd) else f", {dollars(share * usd)}"),
                charts.TIMES[name],
                PARTS[name],
            )
            for name, share in shares.items()
        ),
        parts_title=f"An hour of the accelerators ({'no price known' if math.isnan(usd) else dollars(usd)}), "
        "by activity",
        table=partial(table, scene),
        data=partial(chain_figures, result),
        sources=partial(_sources, scene),
        code=_code(values, scene),
        kept=scene,
    )


def _code(values: dict[str, Any], scene: Scene) -> str:
    what = [shell.model_text(values["model"]), shell.device_text(values["system"])]
    what += map(calls.as_python, scene.names[2:])
    call = f"cb.match_storage({', '.join(what)}, {calls.keywords(scene.given)})"
    return f"{shell.panel_call(storage, values)}\n{call}"


def _chain_picture(scene: Scene, ghost: Scene | None) -> Picture:
    rates = scene.found.stages
    demand, before = rates["accelerators"], ghost.found.stages if ghost else {}
    rows: list[tuple[Any, ...]] = []
    for stage, (label, _) in STAGES.items():
        rate = rates[stage]
        text = f"{_samples(rate)}/s" + f"|{_times(rate / demand)} the demand" * (stage != "accelerators")
        text = text if math.isfinite(rate) else "no limit"
        ends = scene.found.samples_range if stage == scene.shown else (math.nan, math.nan)
        rows.append((label, rate, *ends, _state(scene, stage), before.get(stage, math.nan), text))
    frame = pd.DataFrame(rows, columns=["row", "rate", "low", "high", "state", "before", "text"])
    cache = ", including the page cache," if scene.shown == "reading" else ""
    share = percent(rates[scene.shown] / demand)
    title = f"{capital(scene.found.bottleneck)}{cache} delivers {share} of the rate that the accelerators could process"
    if scene.found.bottleneck == "accelerators":
        title = f"The input keeps up: accelerators compute {percent(scene.found.utilisation)} of the time"
    return Picture("chain", frame.replace(math.inf, math.nan), title, _rate_signals(frame, demand))


def _state(scene: Scene, stage: str) -> str:
    """Return the state of a stage in the chart."""
    rates = scene.found.stages
    if stage == scene.shown:
        return "slowest stage"
    if stage == "accelerators":
        return "the demand"
    return "keeps up" if rates[stage] >= rates["accelerators"] else "below the demand"


def _rate_signals(frame: pd.DataFrame, demand: float) -> dict[str, Any]:
    return {"rows": row_order(frame), "most": nice_ceiling(_BEYOND * demand), "demand": demand}


def _changes_picture(scene: Scene, _: Scene | None) -> Picture:
    now = scene.found.samples_per_s
    lines = [("as it is", now, *scene.found.samples_range, "as it is", f"{_samples(now)}/s")]
    for change, row in scene.ranked:
        priced = "no price known" if math.isnan(change.usd) else "free" if change.usd == 0 else "has a price"
        text = f"{_times(change.samples_per_s / now)}|{_paid(change)}"
        lines.append((row.short, change.samples_per_s, math.nan, math.nan, priced, text))
    frame = pd.DataFrame(lines, columns=["row", "rate", "low", "high", "state", "text"])
    title = (
        "No change here increases the rate by 5 %"
        if scene.first is None
        else (f"First: {scene.first[0].name}, {_times(scene.first[0].samples_per_s / now)} the rate")
    )
    return Picture("changes", frame, title, _rate_signals(frame, scene.found.stages["accelerators"]))


def _scaling_picture(scene: Scene, ghost: Scene | None) -> Picture:
    counts, result = scene.scaled
    names, no = ("count", "utilisation", "low", "high", "line"), np.nan
    lines = [
        (counts, result.utilisation, *result.utilisation_range, "later epochs"),
        (counts, result.first_utilisation, no, no, "first epoch"),
    ]
    lines += [(ghost.scaled[0], ghost.scaled[1].utilisation, no, no, "pinned")] if ghost else []
    frame = pd.concat([pd.DataFrame(dict(zip(names, each, strict=True))) for each in lines])
    frame = frame.assign(**{name: 100 * frame[name].round(4) for name in names[1:4]})
    most, bar = scene.found.largest_accelerators, percent(scene.found.bar)
    title = (
        f"This storage keeps any number of accelerators above {bar}"
        if math.isinf(most)
        else f"Not even one accelerator reaches a utilisation of {bar}"
        if most < 1
        else f"Utilisation falls below {bar} from {counted(int(most + 1), 'accelerator')} on"
    )
    signals = {
        "most": float(counts.max()),
        "now": float(scene.given["accelerators"]),
        "here": 100 * scene.found.utilisation,
        "bar": 100 * scene.found.bar,
    }
    return Picture("scaling", frame[frame["count"] <= counts.max()], title, signals)


def _epochs_picture(scene: Scene, _: Scene | None) -> Picture:
    result = scene.found
    frame = epoch_parts(result).rename(columns={"epoch": "row"}).drop(columns="share")
    texts = {name: f"{human(seconds, 's')}|{percent(used)} computing" for name, seconds, used in _epochs(scene)}
    frame = frame.assign(
        text=[
            texts[row] if part == "computing" else None for row, part in zip(frame["row"], frame["part"], strict=True)
        ]
    )
    longest, longer = frame["end"].max(), result.first_epoch_seconds / result.later_epoch_seconds
    unit, clock = next(pair for pair in CLOCK if longest >= pair[0] or pair[0] == 1)
    signals = {"rows": row_order(frame), "most": unit * nice_ceiling(longest / unit), "unit": unit, "clock": clock}
    hits = f"the page cache serves {percent(result.hit_rate)} of later reads"
    title = (
        f"The first epoch takes {longer:.2f}× as long as a later one: {hits}"
        if longer >= 1 + _KEPT
        else f"The first epoch takes as long as a later one: {hits}"
    )
    return Picture("epochs", frame, title, signals)


def _epochs(scene: Scene) -> list[tuple[str, float, float]]:
    result = scene.found
    return [
        ("first epoch", result.first_epoch_seconds, result.first_utilisation),
        ("each later epoch", result.later_epoch_seconds, result.utilisation),
    ]


def _stage_table(scene: Scene) -> pd.DataFrame:
    result, demand = scene.found, scene.found.stages["accelerators"]
    return pd.DataFrame(
        {
            "Stage": [label for label, _ in STAGES.values()],
            "Samples per second": [_samples(result.stages[name]) for name in STAGES],
            "Relative to the demand": [_times(result.stages[name] / demand) for name in STAGES],
            "Time per sample (accelerators: per step)": [human(result.latency[name], "s") for name in STAGES],
            "Limit": [how for _, how in STAGES.values()],
        }
    )


def _change_table(scene: Scene) -> pd.DataFrame:
    rows: list[tuple[str, ...]] = []
    for change, row in scene.ranked:
        month = " per month" if change.per == "month" else ""
        paid = (f"{dollars(change.usd)}{month}", dollars(row.usd_per_hour), _samples(row.gain_per_usd))
        after = human(3600 * row.pays_after, "s") if row.pays_after > 0 else ""
        if change.usd == 0 or math.isnan(change.usd):
            paid, after = (
                (("$0", "$0", "costs nothing"), "at once") if change.usd == 0 else (("not known",) * 3, "not known")
            )
        rows.append(
            (
                str(len(rows) + 1),
                change.name,
                _samples(change.samples_per_s),
                f"+{_samples(change.gain)}",
                percent(change.utilisation),
                *paid,
                dollars(row.saved_per_hour),
                after,
                change.basis,
            )
        )
    columns = [
        "No.",
        "Change",
        "Samples per second",
        "Gain",
        "Utilisation",
        "Cost",
        "Cost per hour",
        "Gain per $/h [1/s]",
        "Savings per hour",
        "Pays back after",
        "Source of the price",
    ]
    return pd.DataFrame(rows, columns=columns)


def _scaling_table(scene: Scene) -> pd.DataFrame:
    """Powers of two of the picture, as printed text."""
    counts = [2**power for power in range(13) if scene.given["hosts"] <= 2**power <= scene.scaled[0].max()]
    result = scene.over(accelerators=np.array(counts, dtype=float))
    return pd.DataFrame(
        {
            "Accelerators": [f"{count:,}" for count in counts],
            "Samples per second": map(_samples, result.samples_per_s),
            "Utilisation": map(percent, result.utilisation),
            "First epoch": map(percent, result.first_utilisation),
            "Slowest stage": map(str, result.bottleneck),
            "Cost of waiting per hour": map(dollars, result.idle_usd_per_hour),
        }
    )


def _epoch_table(scene: Scene) -> pd.DataFrame:
    rows = [(name, human(seconds, "s"), percent(used)) for name, seconds, used in _epochs(scene)]
    rows += [
        ("until the first batch", human(scene.found.warm_up_seconds, "s"), ""),
        ("all epochs", human(scene.found.total_seconds, "s"), ""),
    ]
    return pd.DataFrame(rows, columns=["Period", "Time", "Utilisation"])


def _sources(scene: Scene) -> tuple[Source, ...]:
    """Sources of the data set, the storage, the demand and the prices."""
    model, system = scene.names[0], options.device_of(scene.names[1]).key
    wanted = [
        ("storage", "key", scene.values["storage"], "storage"),
        ("accelerators", "key", system.rstrip("*"), "accelerator"),
        ("data_sets", "key", scene.values["data"], "data set"),
        ("storage_workloads", "workload", str(model).removeprefix(BENCHMARK), "benchmark"),
        ("cloud_prices", "accelerator_key", system, "price per hour"),
        ("tco", "category", "part_price", "price of memory"),
        ("pipeline_constants", "fitted", "yes", "constants of the input pipeline"),
    ]
    uses: dict[str, dict[str, None]] = {}
    for table, column, value, use in wanted:
        rows = catalog.table(table)
        for cell in dict.fromkeys(rows.loc[rows[column] == value, "source"].dropna()):
            for source in str(cell).split(";"):
                uses.setdefault(source, {})[use] = None
    return options.cited({source: ", ".join(use) for source, use in uses.items()})


def _answer(scene: Scene) -> str:
    """Return the headline and the facts below it."""
    result = scene.found
    state = "not starved" if result.bottleneck == "accelerators" else f"starved by {result.bottleneck}"
    device = short_name(options.device_of(scene.names[1]).name)
    count = scene.given["accelerators"]
    headline = (
        f"{count:,} × {device} process{'es' * (count == 1)} **{_samples(result.samples_per_s)} samples/s**, {state}: "
        f"{percent(result.utilisation)} utilisation."
    )
    return " ".join((headline, _interval(scene), _cost(scene), _training(scene), _first_change(scene)))


def _interval(scene: Scene) -> str:
    """Return the workload, with the interval where there is one."""
    result = scene.found
    (least, most), (low, high) = result.samples_range, result.utilisation_range
    reach = "" if math.isnan(low) or high - low < _KEPT else f", {100 * low:.0f}-{100 * high:.0f} % utilisation"
    ends = f"{_samples(least)}-{_samples(most)}"
    range_ = "" if _samples(least) == _samples(most) else f"; 80 % interval {ends} samples/s"
    return f"Workload: {_work(scene)}, {_files(scene)}{range_}{reach}."


def _work(scene: Scene) -> str:
    model = scene.names[0]
    if options.is_time(model):
        return f"{human(model, 's')} per step"
    return f"MLPerf Storage {model.removeprefix(BENCHMARK)}" if _is_benchmark(model) else options.title_of(model)


def _files(scene: Scene) -> str:
    values = scene.values
    drives, price, data = (values[name] for name in ("drives", "price", "data"))
    where = f"{f'{drives} × ' * (drives > 1)}{options.printed('storage', 'key', 'name', values['storage'])}" + (
        f" at {dollars(price)}/TB" if price else ""
    )
    if data == OWN_DATA:
        return f"its own data on {where}"
    if not isinstance(data, str):
        return f"samples of {human(data, 'B')} on {where}"
    name, layout = (options.printed("data_sets", "key", column, data) for column in ("name", "layout"))
    layout = layout if values["layout"] == "as is" else values["layout"]
    return f"{name.partition(' (')[0].partition(',')[0]} in {layout} on {where}"


def _cost(scene: Scene) -> str:
    """Return the cost of waiting, where a price is known, and the number of accelerators that can be supplied."""
    result, bar, many = scene.found, percent(scene.found.bar), scene.found.largest_accelerators
    idle = "less than a cent" if 0 < result.idle_usd_per_hour < CENT else dollars(result.idle_usd_per_hour)
    usd = (
        f"{idle} of the {dollars(result.usd_per_hour)} per hour pays for waiting"
        if math.isfinite(result.usd_per_hour)
        else "the cost of waiting is not known, since no cloud lists this accelerator"
    )
    number = "any number of" if math.isinf(many) else "not even one" if many < 1 else f"at most {many:,.0f}"
    return f"Cost: {usd}; {number} {'accelerator' if many <= 1 else 'accelerators'} can be kept {bar} busy."


def _training(scene: Scene) -> str:
    result, epochs = scene.found, scene.given["epochs"]
    total = f"Time: {counted(epochs, 'epoch')} take{'s' * (epochs == 1)} {human(result.total_seconds, 's')}"
    first = (
        f", the first at {percent(result.first_utilisation)} utilisation"
        if abs(result.first_utilisation - result.utilisation) >= _KEPT
        else ""
    )
    return f"{total}{first}{_stall(scene)}{_credits(scene)}."


def _credits(scene: Scene) -> str:
    """Return the duration of burst credits; the answer is for the time after them."""
    result = scene.found
    if math.isinf(result.credit_seconds):
        return ""
    lasting = human(result.credit_seconds, "s")
    if result.credit_seconds >= result.total_seconds:
        return f"; that is without burst credits, which last {lasting}, longer than the training"
    return f"; burst credits last {lasting}, and the rates are those after them"


def _stall(scene: Scene) -> str:
    result = scene.found
    if "checkpoint_interval" not in scene.given:
        return ""
    how, share = "asynchronous" if scene.given["asynchronous"] else "synchronous", percent(result.checkpoint_stall)
    size, gap = human(result.checkpoint_bytes, "B"), human(scene.given["checkpoint_interval"], "s")
    return f"; {how} checkpoints of {size} every {gap} stop the training for {share} of the time"


def _first_change(scene: Scene) -> str:
    """The first change, with what it gains and costs."""
    if scene.first is None:
        return "Change first: nothing; no change here would increase the rate by as much as 5 %."
    change, row = scene.first
    soon = f", which pays for itself in {human(3600 * row.pays_after, 's')}" if row.pays_after > 0 else ""
    return f"Change first: {change.name}; utilisation is then {percent(change.utilisation)}, {_cost_of(change)}{soon}."


def _cost_of(change: Change) -> str:
    """Return the cost of a change, at the end of a sentence."""
    if math.isnan(change.usd):
        return "at an unknown price"
    return "at no cost" if change.usd == 0 else f"for {dollars(change.usd)}{' per month' * (change.per == 'month')}"


def _paid(change: Change) -> str:
    if math.isnan(change.usd):
        return "no price known"
    return "free" if change.usd == 0 else f"{dollars(change.usd)}{'/month' * (change.per == 'month')}"


def _chips(scene: Scene) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the values are known."""
    result, model = scene.found, scene.names[0]
    step = (
        ("step of the benchmark", "The emulated step that MLPerf Storage states.")
        if _is_benchmark(model)
        else (
            ("your step time", "The time of a step is your own.")
            if options.is_time(model)
            else (
                "step predicted",
                "Predicted for one accelerator; gradient communication would lower the demand. Intervals "
                "are 80 % for step, decoding and storage combined.",
            )
        )
    )
    price = (
        "no price" if math.isnan(result.usd_per_hour) else result.price_basis.rpartition(": ")[2],
        result.price_basis,
    )
    assumed = [each for each in (*result.assumed.told(), result.remark) if each]
    return step, price, (counted(len(assumed), "assumption"), in_words(assumed) or "Nothing was assumed.")


def _samples(value: float) -> str:
    """Return samples per second with three digits.

    Examples
    --------
    >>> _samples(18912.4), _samples(47.75), _samples(float("inf"))
    ('18,900', '47.8', 'no limit')
    """
    return human(value) if math.isfinite(value) else "no limit"


def _times(value: float) -> str:
    return f"{ratio(value)}×" if math.isfinite(value) else "no limit"
