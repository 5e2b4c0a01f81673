"""Panel of recipe 02: will the accelerators starve, of what, and what should change first?"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from cookbook import catalog, units
from cookbook.charts import storage as charts
from cookbook.panels import code
from cookbook.panels import match_frames as frames
from cookbook.panels import match_words as words
from cookbook.panels.controls import Choice, Combo, Control, Option, Own, Slider, one_two_five, powers_of_two
from cookbook.panels.options import networks
from cookbook.panels.shell import Panel, View, defaults
from cookbook.prediction.terms.feed_arguments import BENCHMARK

PICTURES = {"chain": charts.chain, "changes": charts.changes, "scaling": charts.scaling, "epochs": charts.epochs}
MINUTES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0)
LINKS = (1.0, 10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0)


def storage(
    data: Any = "imagenet-1k", model: Any = "resnet50", system: str = "h100-sxm", accelerators: Any = 8,
    storage: str = "samsung-860-evo-1tb", memory: Any = 128, batch: Any = 256, layout: str = "as is",
    workers: Any = 8, cores: Any = 64, hosts: Any = 1, drives: Any = 1, network: Any = 25, price: Any = 0,
    epochs: Any = 10, checkpoints: Any = 0, asynchronous: str = "no", picture: str = "chain",
) -> Panel:  # fmt: skip
    """The panel "Will my GPUs starve?", in the state that the arguments say.

    Parameters
    ----------
    data : str or float
        A card of the table ``data_sets``, "benchmark" for the data of an MLPerf Storage workload, or bytes of a sample.
    model : str or float
        A network of the zoo, "mlperf/" and a storage benchmark, or the seconds of one step.
    system, accelerators, storage, batch, workers, cores, hosts, epochs
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
    return Panel("storage", "Will my GPUs starve?", _controls(), PICTURES, _draw, DEFAULTS, locals(),
                 {"batch": _batch, "layout": _layout, "network": _network, "asynchronous": _asynchronous})  # fmt: skip


DEFAULTS = defaults(storage)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    own_data = Own("custom…: bytes of one sample", "One stored sample, with its unit.", "250 kB",
                   read=partial(units.si, unit="B"), show=lambda value: (f"{value:g} B", units.human(value, "B")))
    own_step = Own("custom…: time of one step", "One step of one accelerator, with its unit.", "120 ms",
                   read=partial(units.si, unit="s"), show=lambda value: (f"{value:g} s", units.human(value, "s")))
    return (
        Combo("data", "Data set", "Workload", _data_options(), own=own_data, tooltip="What an epoch reads"),
        Combo("model", "Network", "Workload", _model_options(), own=own_step,
              tooltip="What trains: its predicted step is the demand"),
        Combo("system", "Accelerator", "Hardware", _device_options(), tooltip="What computes the steps"),
        Slider("accelerators", "Accelerators", "Hardware", powers_of_two(0, 10), tooltip="In all hosts together"),
        Combo("storage", "Storage", "Hardware", _storage_options(), tooltip="Where the data set lies"),
        Slider("memory", "Memory of a host", "Hardware", powers_of_two(3, 13), unit="GB",
               tooltip="Most of it may hold files already read: the page cache"),
        Slider("batch", "Batch", "Workload", powers_of_two(0, 16), more=True, tooltip="Samples of one accelerator"),
        Choice("layout", "Files", "Workload", (
            ("as is", "as is", "As the card of the data set says"),
            ("shards", "packed", "Packed in large files that are read from end to end")), more=True,
               tooltip="How samples lie in files"),
        Slider("workers", "Loader processes", "Host", powers_of_two(0, 7), unit="for each accelerator", more=True,
               tooltip="Processes that read and decode"),
        Slider("cores", "Cores of a host", "Host", powers_of_two(0, 9), more=True, tooltip="Physical cores"),
        Slider("hosts", "Hosts", "Host", powers_of_two(0, 8), more=True, tooltip="They share the accelerators evenly"),
        Slider("drives", "Drives or nodes", "Storage", powers_of_two(0, 8), more=True,
               tooltip="Of this storage; local drives stand in every host"),
        Slider("network", "Network of a host", "Storage", LINKS, unit="Gbit/s", more=True,
               tooltip="On the way to shared storage"),
        Slider("price", "Price", "Storage", (0.0, *one_two_five(5, 1000)), unit="USD/TB", more=True,
               tooltip="Of this storage; 0: as the table has it, where it may be missing"),
        Slider("epochs", "Epochs", "Training", one_two_five(1, 1000), more=True, tooltip="Passes over the data set"),
        Slider("checkpoints", "Checkpoint every", "Training", MINUTES, unit="min", more=True,
               tooltip="0: none is written"),
        Choice("asynchronous", "Behind the training", "Training", (
            ("no", "no", "Training waits for the write"), ("yes", "yes", "A copy is written while training goes on")),
               more=True, tooltip="How checkpoints are written"),
        Choice("picture", "Picture", "", (
            ("chain", "Chain", "What each stage could deliver"),
            ("changes", "What to change first", "What each change alone would give"),
            ("scaling", "More accelerators", "Utilisation on the same storage"),
            ("epochs", "Epochs", "The first and a later one")), place="picture"),
    )  # fmt: skip


def _data_options() -> tuple[Option, ...]:
    rows = catalog.table("data_sets")
    cards = zip(rows["key"], rows["name"], rows["format"], rows["data_type"], strict=True)
    return (*cards, (words.OWN_DATA, "as the benchmark has it", "MLPerf Storage", "benchmark"))


def _model_options() -> tuple[Option, ...]:
    steps = catalog.table("storage_workloads").query("step_seconds > 0 and accelerator_as_printed in ['A100', 'H100']")
    names = dict.fromkeys(steps["workload"])
    emulated = [(f"{BENCHMARK}{name}", f"{name} (MLPerf Storage)", "benchmark", "storage benchmark") for name in names]
    return (*networks(), *emulated)


def _device_options() -> tuple[Option, ...]:
    rows = catalog.table("accelerators")
    return tuple(zip(rows["key"], rows["name"], rows["generation"].astype(str), rows["vendor"], strict=True))


def _storage_options() -> tuple[Option, ...]:
    rows = catalog.table("storage")
    rows = rows[rows["read_bandwidth"].notna() | ((rows["category"] == "object store") & rows["read_iops"].notna())]
    return tuple(zip(rows["key"], rows["name"], rows["interface"], rows["category"], strict=True))


def _batch(values: dict[str, Any]) -> dict[str, str]:
    return {"*": "the benchmark states its own"} if words.is_benchmark(values["model"]) else {}


def _layout(values: dict[str, Any]) -> dict[str, str]:
    own = not isinstance(values["data"], str) or values["data"] == words.OWN_DATA
    return {"*": "only cards say how their files lie"} if own else {}


def _network(values: dict[str, Any]) -> dict[str, str]:
    return {"*": "these drives stand in the hosts"} if frames.local(values["storage"]) else {}


def _asynchronous(values: dict[str, Any]) -> dict[str, str]:
    return {} if values["checkpoints"] else {"*": "no checkpoint is written"}


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    scene = frames.scene(*(values[name] for name in frames.SCENE))
    ghost, picture = pinned.kept if pinned else None, values["picture"]
    drawn = {
        "chain": partial(frames.chain_picture, scene, ghost), "changes": partial(frames.changes_picture, scene),
        "scaling": partial(frames.scaling_picture, scene, ghost), "epochs": partial(frames.epochs_picture, scene),
    }[picture]()  # fmt: skip
    table = {"chain": frames.stage_table, "changes": frames.change_table, "scaling": frames.scaling_table,
             "epochs": frames.epoch_table}[picture]  # fmt: skip
    found = scene.found
    return View(
        answer=words.answer(scene),
        headline={"samples a second": found.samples_per_s, "utilisation": found.utilisation},
        chips=words.chips(scene),
        picture=drawn,
        parts=frames.parts(scene),
        parts_title=f"An hour of the accelerators{words.hour(scene)}, by what they do in it",
        table=partial(table, scene),
        data=partial(frames.data, scene),
        sources=partial(frames.source_rows, scene),
        code=_code(values, scene),
        kept=scene,
    )


def _code(values: dict[str, Any], scene: frames.Scene) -> str:
    changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    workload, system, storage, data = scene.names
    positional = ", ".join(code.literal(value) for value in (workload, system, storage, data))
    panel = f"cb.panels.storage({code.arguments(changed)})"
    return f"{panel}\ncb.match_storage({positional}, {code.arguments(scene.given)})"
