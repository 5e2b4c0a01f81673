"""Options and names from tables of the catalogue, and the parts of a training step, for all panels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from itertools import groupby
from numbers import Real
from typing import Any

import pandas as pd

from cookbook import catalog, hardware, units
from cookbook.catalog.parts import part_groups
from cookbook.charts.look import MUTED
from cookbook.panels.controls import Combo, Option, Own
from cookbook.panels.shell import Part
from cookbook.panels.text import Source, json_of
from cookbook.prediction.scenario import BENCHMARK
from cookbook.units import human, shown
from cookbook.workloads.zoo import ANSWERING, LANGUAGE_MODELS, Workload, layers, model

# What a panel takes: the name of a network or an accelerator, or one of the reader's own, as a record or a mapping.
Network = str | Workload | Mapping[str, Any]
Device = str | hardware.Accelerator | Mapping[str, Any]
ONE_LIKE_ANOTHER = "like=h100-sxm, mem_bandwidth=4 TB/s"
CONFIGURED = {"model_type", "architectures", "architecture", "_class_name", "class_name"}  # one tells a configuration
A_CONFIGURATION = """{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 8192}"""
SOME_LAYERS = """{"input": [3, 224, 224],
 "layers": [
  {"layer": "conv", "out": 64, "kernel": 7, "stride": 2, "padding": 3}, {"layer": "act", "kind": "relu"},
  {"layer": "global_pool"}, {"layer": "flatten"}, {"layer": "linear", "out": 1000}]}"""
LONGEST_TITLE = 8  # words of a network in a headline
OWN_BYTES = Own(
    "custom…: bytes of one sample",
    "One stored sample, with its unit.",
    "250 kB",
    read=partial(units.si, unit="B"),
    show=lambda value: (f"{value:g} B", human(value, "B")),
)


def networks(language: bool | None = None, serving: bool = False) -> tuple[Option, ...]:
    """Networks of the zoo by family, variants side by side: all, language models only (True) or all others (False).

    Hybrids are among language models where those are served; no layout splits them to train.
    """
    rows = catalog.table("models")
    if language is not None:
        rows = rows[rows["builder"].isin(ANSWERING if serving else LANGUAGE_MODELS) == language]
    columns = zip(rows["name"], rows["title"], rows["aliases"], rows["family"], strict=True)
    options = ((name, title, also, family.replace("_", " ")) for name, title, also, family in columns)
    return tuple(
        sorted(
            options,
            key=lambda one: [
                "".join(letters).zfill(6) if number else "".join(letters)
                for number, letters in groupby(one[1].casefold(), str.isdigit)
            ],
        )
    )


@lru_cache(maxsize=1)
def network_titles() -> dict[str, str]:
    """Title of each network of the zoo, by its key and by those other names that are no words to print either."""
    rows = catalog.table("models")
    spelled = zip(rows["title"], rows["aliases"], strict=True)
    named = {alias: title for title, aliases in spelled for alias in aliases.split(";") if alias.islower()}
    return named | dict(zip(rows["name"], rows["title"], strict=True))


def readable(name: str) -> str:
    """A name that no row of the catalogue bears, in words.

    Examples
    --------
    >>> readable("Nemotron_3_Super"), readable("overfeat_fast"), readable("GPT 529.6B")
    ('Nemotron 3 Super', 'Overfeat fast', 'GPT 529.6B')
    """
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:] if name.islower() and "_" in name else words


def listed_options(table: str, also: str = "", group: str = "", key: str = "key", name: str = "name") -> Any:
    """Rows of a table as options: column of the value, of its words, of other words to search, and of the group."""
    rows = catalog.table(table)
    blank = [""] * len(rows)
    columns = (rows[column].astype(str) if column else blank for column in (key, name, also, group))
    return tuple(zip(*columns, strict=True))


def accelerators() -> tuple[Option, ...]:
    """Accelerators by vendor."""
    return listed_options("accelerators", "aliases", "vendor")


def machines() -> tuple[Option, ...]:
    """Accelerators by vendor, then servers whose accelerator is known."""
    servers = catalog.table("systems")
    servers = servers[servers["accelerator_key"].fillna("") != ""]
    named = ((key, name, "", "servers") for key, name in zip(servers["key"], servers["name"], strict=True))
    return (*accelerators(), *named)


def data_sets() -> tuple[Option, ...]:
    """Cards of data sets by kind of sample."""
    return listed_options("data_sets", group="data_type")


def _benchmarks() -> tuple[Option, ...]:
    """Networks of MLPerf Storage whose step an accelerator of today was emulated with."""
    steps = catalog.table("storage_workloads").query("step_seconds > 0 and accelerator_as_printed in ['A100', 'H100']")
    names = dict.fromkeys(steps["workload"])
    return tuple((f"{BENCHMARK}{name}", f"{name} (MLPerf Storage)", "benchmark", "storage benchmark") for name in names)


def storages() -> tuple[Option, ...]:
    """Rows of the table ``storage`` that a read rate is known of, by category."""
    rows = catalog.table("storage")
    rows = rows[rows["read_bandwidth"].notna() | ((rows["category"] == "object store") & rows["read_iops"].notna())]
    return tuple(zip(rows["key"], rows["name"], rows["interface"], rows["category"], strict=True))


def cited(notes: Mapping[str, str], unseen: str = "") -> tuple[Source, ...]:
    """(title, link, note) of sources by their key; a key that the table does not have is its own title.

    `unseen` stands before the note of a source that nobody opened.
    """
    by_key = catalog.table("sources").set_index("key")[["title", "url", "seen"]].to_dict("index")
    rows = {key: by_key.get(key, {"title": key, "url": "", "seen": ""}) for key in notes if key}
    return tuple(
        (row["title"], row["url"], f"{unseen if row['seen'] == 'no' else ''}{notes[key]}") for key, row in rows.items()
    )


@lru_cache(maxsize=256)
def printed(table: str, key: str, column: str, name: str) -> str:
    """Return the cell of a table in one column, in the row whose `key` is the name, as `catalog.lookup` finds it."""
    rows = catalog.table(table).set_index(key)
    return str(rows.loc[catalog.lookup(table, name), column])


def own_model(example: str = "") -> Own:
    """A network of the reader's: the configuration that is published with its weights, or its layers."""
    start, written = (
        example or A_CONFIGURATION,
        "A config.json of Hugging Face, or a JSON object with input and layers.",
    )
    return Own("custom…: your own network", written, start, _read_model, partial(_show_model, start), ".json")


def model_control(tooltip: str, options: tuple[Option, ...], example: str = "", label: str = "Model") -> Combo:
    """Return the control of the network: one of the options, or the reader's own, written like the `example`."""
    return Combo("model", label, "Workload", options, own=own_model(example), plain=plain_model, tooltip=tooltip)


def _own_work() -> Own:
    """A network of the reader's, or the time of one step of it."""
    written = "A config.json of Hugging Face, a JSON object with input and layers, or one step with its unit (120 ms)."
    label = "custom…: your own network, or time of a step"
    return Own(
        label,
        written,
        SOME_LAYERS,
        read=lambda text: _read_model(text) if text.lstrip()[:1] in ("{", "[") else units.si(text, "s"),
        show=lambda v: (f"{v:g} s", human(v, "s")) if is_time(v) else _show_model(SOME_LAYERS, v),
        files=".json",
    )


def _plain_work(value: Any) -> Any:
    """Return the value of a control for a network, or for the seconds of one step."""
    return value if is_time(value) else plain_model(value)


def is_time(value: Any) -> bool:
    """Return True if the value of a control is the seconds of one step and not a network."""
    return isinstance(value, Real) and not isinstance(value, bool)


def plain_model(value: Any) -> Any:
    """Return the value of a control for a network: its name, its record, a table of layers, or a configuration."""
    listed = isinstance(value, dict) and "layers" in value and not set(value) - {"layers", "input", "title"}
    if not (listed or _configured(value) or isinstance(value, (str, Workload))):
        raise ValueError(f"{shown(value)} is not a network; give a name, cb.layers(...) or a config.json as a dict")
    return value


def _configured(value: Any) -> bool:
    """Return True if a value is the content of a Hugging Face configuration."""
    return isinstance(value, dict) and not CONFIGURED.isdisjoint(value)


def _read_model(text: str) -> Any:
    value = json_of(text, "your own network")
    if not (isinstance(value, list) or _configured(value) or (isinstance(value, dict) and "layers" in value)):
        raise ValueError(
            'your own network must be {"input": [channels, height, width], "layers": [...]}, or a config.json, which '
            "tells its model_type"
        )
    return plain_model({"layers": value} if isinstance(value, list) else value)


def _show_model(example: str, value: Any) -> tuple[str, str]:
    """Text to write a network again, and its title, also where it cannot be built."""
    if isinstance(value, Workload):
        return example, value.title
    return json.dumps(value), str(value.get("title") or value.get("model_type") or "Your network")


def named_model(value: Any) -> Any:
    """A name as it is, and of everything else the network."""
    return value if isinstance(value, str) else model_of(value)


def model_of(value: Any) -> Workload:
    """The network that a control says."""
    if isinstance(value, dict):
        return _built(json.dumps(value))
    return model(value) if isinstance(value, str) else value


def title_of(value: Any, tokens: bool = False) -> str:
    """Title of the network that a control says, as long as a headline has room for; `tokens` adds those of a sample."""
    if tokens:
        return _with_tokens(value, title_of(value))
    if isinstance(value, str):
        return printed("models", "name", "title", value)
    words = model_of(value).title.split()
    return " ".join(words) if len(words) < LONGEST_TITLE else f"{' '.join(words[: LONGEST_TITLE - 1])}…"


@lru_cache(maxsize=64)
def _with_tokens(model: Any, title: str) -> str:
    """Title of a network, with the tokens of a sample where it takes a sequence."""
    network = model_of(model)
    tokens = f"{network.seq:,.0f} tokens" if network.ops.needs_seq and network.seq else ""
    if tokens in title:
        return title
    whole = f"{title} ({tokens})"  # what stands in brackets is left out where the headline would be too long
    return whole if len(whole.split()) <= LONGEST_TITLE else f"{title.partition(' (')[0]} ({tokens})"


@lru_cache(maxsize=16)
def _built(text: str) -> Workload:
    from cookbook.workloads.readers.door import model as read  # readers of files are loaded where one is read

    value = json.loads(text)
    if _configured(value):
        return read(value)
    return layers(value["layers"], **{name: value[name] for name in ("input", "title") if name in value})


def assumed(value: Any) -> str:
    """Return the assumptions about the reader's own network as a fact; "" for a name or a time.

    The whole list stands where the network is printed.
    """
    if not isinstance(value, (dict, Workload)):
        return ""
    workload = model_of(value)
    first, more = "; ".join(workload.assumed[:2]), len(workload.assumed) - 2
    return f"Assumed: {first}{f'; and {more} more' if more > 0 else ''}." if first else ""


def own_accelerator(alone: str = "") -> Own:
    """Accelerators like others, in the reader's own words; one of them for a control that takes it `alone`."""
    start, peak = ("", "bf16") if alone else ("One a line: ", "fp16")
    return Own(
        "custom…: a device like another",
        f"{start}like=, then what differs (memory_bytes, mem_bandwidth, peak_{peak} …).",
        ONE_LIKE_ANOTHER,
        read=partial(_read_devices, alone),
        show=_show_device,
    )


def work_control() -> Combo:
    """Return the control of what a host feeds: a network, a storage benchmark, or the reader's own time of a step."""
    return Combo(
        "model",
        group="Workload",
        options=(*networks(), *_benchmarks()),
        own=_own_work(),
        plain=_plain_work,
        tooltip="Network to train; its predicted step sets the demand",
    )


def device_control(name: str, label: str, options: tuple[Option, ...], tooltip: str) -> Combo:
    """Return the control of a device or a machine: one of the options, or the reader's own."""
    return Combo(name, label, "Hardware", options, own=own_accelerator(label), plain=plain_device, tooltip=tooltip)


def _read_devices(alone: str, text: str) -> Any:
    devices = []
    for line in filter(str.strip, text.splitlines()):
        pairs = [piece.partition("=") for piece in line.split(",")]
        if not all(sign for _, sign, _ in pairs):
            raise ValueError(f"cannot read {shown(line)}; write it like {ONE_LIKE_ANOTHER!r}")
        devices.append({name.strip(): value.strip() for name, _, value in pairs})
    if alone and len(devices) != 1:
        raise ValueError(f"{alone} takes one entry of your own, not {len(devices)}; write {ONE_LIKE_ANOTHER!r}")
    return devices[0] if alone else devices


def _show_device(value: dict[str, Any]) -> tuple[str, str]:
    """Such an accelerator as (text to edit, label)."""
    label = value.get("name") or f"like {value.get('like', '?')}"
    return ", ".join(f"{name}={figure}" for name, figure in value.items()), str(label)


def plain_device(device: Any) -> Any:
    """Return the value of a control for an accelerator: its name, or the differences to another.

    Raises
    ------
    ValueError
        For what is neither a name, nor a record, nor such a mapping.
    """
    if isinstance(device, hardware.Accelerator):
        return {"like": device.key.rstrip("*"), "name": device.name, **device.changed} if device.changed else device.key
    if isinstance(device, dict) and "like" in device and all(isinstance(name, str) for name in device):
        return device
    if not isinstance(device, str):
        raise ValueError(f"{shown(device)} is not an accelerator; give a name, or {{'like': 'h100-sxm', ...}}")
    return device


def device_of(value: Any) -> hardware.Accelerator:
    """The record of what such a control keeps, or the record itself."""
    if isinstance(value, hardware.Accelerator):
        return value
    return hardware.accelerator(**value) if isinstance(value, dict) else _named(value)


def named_device(value: Any) -> Any:
    """A name as it is, also that of a server; of everything else the accelerator."""
    return value if isinstance(value, str) else device_of(value)


def keys_of(devices: list[Any]) -> list[str]:
    """Return what a click, the state and the picture call each device: its key, or the name of one's own."""
    keys: list[str] = []
    for value in devices:
        name = device_of(value).name if isinstance(value, dict) else ""
        again = sum(each == name or each.startswith(f"{name} (") for each in keys) if name else 0
        keys.append((f"{name} ({again + 1})" if again else name) or catalog.lookup("accelerators", value))
    return keys


_named = lru_cache(maxsize=256)(hardware.accelerator)


def origin(device: hardware.Accelerator, column: str) -> tuple[tuple[str, ...], bool]:
    """Sources of one figure of an accelerator, and whether it is recalled; nothing where it is the reader's own."""
    return ((), False) if not column or column in device.changed else _stated(device.key.rstrip("*"), column)


@lru_cache(maxsize=1024)
def _stated(key: str, column: str) -> tuple[tuple[str, ...], bool]:
    try:
        stated = catalog.provenance(key, column)
    except ValueError:
        return (), False
    return tuple(stated.source.split(";")), stated.how == "recalled"


def peak_column(device: hardware.Accelerator, precision: str) -> str:
    """Column of the peak that counts for a precision; "" where the accelerator has none."""
    columns = (c for c in _peak_columns(precision) if not math.isnan(device.peaks.get(c, math.nan)))
    return next(columns, "")


@lru_cache(maxsize=32)
def _peak_columns(precision: str) -> tuple[str, ...]:
    rows = catalog.table("number_formats").set_index("name")
    return tuple(rows.loc[precision, "peak_columns"].split(";"))


def step_parts(seconds: Mapping[str, Any], alone: bool = False) -> tuple[Part, ...]:
    """Return the parts of a step [s], in the order and colours of every chart; with words for one device `alone`."""
    groups = [(float(seconds[name]), group) for name, group in part_groups().items() if name in seconds]
    parts = (
        Part(
            group.name,
            value,
            human(value, "s"),
            group.colour,
            (alone and group.one_device) or group.explanation,
        )
        for value, group in groups
    )
    return few(parts, told=partial(human, unit="s"))


def few(parts: Iterable[Part], told: Callable[[float], str], most: int = 5) -> tuple[Part, ...]:
    """The largest parts in their order; smaller ones stand together at the end."""
    nonzero = [part for part in parts if part.value]
    large = sorted(nonzero, key=lambda part: -part.value)[: most if len(nonzero) > most + 1 else most + 1]
    small = [part for part in nonzero if part not in large]
    value = sum(part.value for part in small)
    words = "; ".join(f"{part.name} {part.text}" for part in small)
    other = [Part("other", value, told(value), MUTED, f"{words}.")] if small else []
    return (*(part for part in nonzero if part in large), *other)


def rounded(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """Missing numbers as None, numbers to six digits."""
    numbers = frame[list(columns)].astype(float).map(lambda value: float(f"{value:.6g}"))
    return frame.assign(**numbers.astype(object).where(numbers.notna(), None))
