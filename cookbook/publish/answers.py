"""A page that answers three questions without a kernel: what runs on a machine, what a model needs, what it costs.

Answers are those of `cookbook.planning.what_runs`, `need` and `serve` for every state of a few choices, stored when the
page is built (`offline.packed`) in the digits in which it shows them. Only costs are computed on the page, from what
they would be at one dollar per device-hour: they follow from a price that its reader can change.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from gzip import compress
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader

from cookbook import catalog, hardware, units
from cookbook.catalog.commands import engines_for, launch, model_id
from cookbook.catalog.files import write_text
from cookbook.catalog.names import BRANDS, bare, normalise, spellings
from cookbook.catalog.prices import Price, hourly_usd, times
from cookbook.catalog.reading import folder_of
from cookbook.prediction.measurements import stated
from cookbook.prediction.precision import stored_bytes
from cookbook.publish.offline import HERE, as_json, packed, script
from cookbook.topics.models.needs import need, what_runs
from cookbook.topics.serving.service import serve
from cookbook.workloads import zoo

# Lengths of a request: tokens of the prompt and of the answer. The first are the defaults of the functions.
REQUESTS: Mapping[str, tuple[int, int]] = {"1024-128": (1024, 128), "128-128": (128, 128), "8192-1024": (8192, 1024)}
NEEDED = ("1024-128", "8192-1024")
# Loads of a service, as arguments of `serve` and in words.
LOADS: Mapping[str, tuple[dict[str, Any], str]] = {
    "concurrency=64": ({"concurrency": 64}, "64 requests at once"),
    "concurrency=8": ({"concurrency": 8}, "8 requests at once"),
    "rate=10": ({"rate": 10}, "10 requests per second"),
}
WEIGHTS: Mapping[str, str | None] = {"published": None, "int4": "int4"}
SERVED = [
    *("llama3_8b", "llama3_70b", "qwen3_8b", "qwen3_32b", "qwen3_30b_a3b", "qwen2.5_72b"),
    *("gpt_oss_20b", "gpt_oss_120b", "gemma3_27b", "mistral_small_24b", "phi_4", "deepseek_v3"),
]
SERVED_ON = [
    *(
        "h100-sxm",
        "h100-pcie",
        "h200-sxm",
        "b200-sxm",
        "b300-sxm",
        "a100-sxm-80gb",
        "a100-sxm-40gb",
        "l40s",
        "l4",
        "t4",
    ),
    *("rtx-pro-6000-server", "rtx-6000-ada", "rtx-5090", "rtx-4090", "rtx-3090", "mi300x"),
]
# Models are listed below the first word of their names, without versions and sizes.
FAMILY = re.compile(r"[A-Za-z]+(-[a-z]+)?|.*")
# Kinds of devices for which no engine of language models is known.
WITHOUT_ENGINES = ("fpga", "xeon-phi")
FIRST = {"device": "rtx-4090", "model": "llama3_70b", "served": "llama3_8b", "on": "h100-sxm"}
# An estimate and the ends of its 80 % interval, in columns of speeds and of services.
SPEEDS, ENDS = {"speed": "", "low": "_low", "high": "_high"}, ("", "_low80", "_high80")


@dataclass(frozen=True)
class Choices:
    """Values of the choices of a page; each first one is what it opens with.

    Attributes
    ----------
    devices : tuple of str
        Accelerators of which it says what runs on them, if anything does.
    models : tuple of str
        Language models of which it says what they need.
    served, on : tuple of str
        Models and accelerators of which it says what serving costs.
    """

    devices: tuple[str, ...]
    models: tuple[str, ...]
    served: tuple[str, ...]
    on: tuple[str, ...]


def every_choice() -> Choices:
    """Return all choices of the page: devices whose memory and bandwidth are known, and recent language models."""
    table = hardware.accelerator_table()
    table = table[(table["memory_bytes"] > 0) & (table["mem_bandwidth"] > 0) & ~table["kind"].isin(WITHOUT_ENGINES)]
    table = table.sort_values("launch_date", ascending=False, kind="stable")  # a list shows the newest first
    models = dict.fromkeys(what_runs(FIRST["device"]).table["name"])
    return Choices(
        _first(FIRST["device"], table["key"]),
        _first(FIRST["model"], models),
        _first(FIRST["served"], SERVED),
        _first(FIRST["on"], SERVED_ON),
    )


def _first(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return names without doubles, one of them first."""
    return tuple(dict.fromkeys([name, *names]))


def answers(
    out: str | Path = "build/site/answers", choices: Choices | None = None, executor: Executor | None = None
) -> Path:
    """Write the page, ``index.html``, into the folder `out`; it needs no other file and asks nothing of the network.

    Parameters
    ----------
    out : str or Path
        The folder.
    choices : Choices, optional
        What can be chosen; all of `every_choice` by default.
    executor : concurrent.futures.Executor, optional
        Computes the answers, a device or a model at a time; this process by default.

    Returns
    -------
    Path
        The page.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    own = script("answers")
    template = Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True).get_template(
        "answers.html"
    )
    text = template.render(
        style=(HERE / "answers.css").read_text(encoding="utf-8"),
        script=own,
        digest=b64encode(sha256(own.encode()).digest()).decode(),
        data=b64encode(compress(as_json(content(choices or every_choice(), executor)).encode(), mtime=0)).decode(),
    )
    return write_text(out / "index.html", text)


def content(choices: Choices, executor: Executor | None = None) -> dict[str, Any]:
    """Return what a page of these `choices` contains: a table per question, and devices, models and sources.

    The `executor` computes the answers; this process does where there is none.
    """
    run = executor.map if executor else map
    runs = dict(zip(choices.devices, run(running, choices.devices), strict=True))
    runs = {name: found for name, found in runs.items() if any(map(_answered, found[0]))}
    needs = list(run(needed, choices.models))
    costs = list(run(partial(served, on=choices.on), choices.served))
    devices = {name: _device(name, ends) for name, (_, ends) in runs.items()}
    devices |= {name: _device(name, ()) for name in choices.on if name not in devices}
    models = {name: _model(name) for name in dict.fromkeys([*choices.models, *choices.served, *_names(runs)])}
    keys = dict.fromkeys(key for device in devices.values() for key in device["sources"])
    engines = dict.fromkeys(state["software"] for states, _ in runs.values() for state in states)
    return {
        "runs": _table({"on": [*runs], "request": [*REQUESTS]}, (one for states, _ in runs.values() for one in states)),
        "need": _table({"model": choices.models, "request": NEEDED}, (one for states in needs for one in states)),
        "cost": _table(
            {"model": choices.served, "on": choices.on, "load": [*LOADS], "weights": [*WEIGHTS]},
            (one for states in costs for one in states),
        ),
        "devices": devices,
        "models": models,
        "rows": _rows(runs, models),
        "verify": {software: {name: _verify(software, *REQUESTS[name]) for name in REQUESTS} for software in engines},
        "loads": {name: words for name, (_, words) in LOADS.items()},
        "sources": _sources(keys),
        "brands": BRANDS,
    }


def _table(axes: Mapping[str, Sequence[str]], states: Iterator[Any]) -> dict[str, Any]:
    """Return one question's answers: axes, as of the table of a panel, and all states."""
    named = [[name, list(values), 0] for name, values in axes.items()]
    return {"axes": named, **packed(states, [len(values) for values in axes.values()])}


def running(device: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return what runs on a `device` for each of the requests, as the page shows it, and the keys of the sources.

    Examples
    --------
    >>> states, _ = running("rtx-4090")
    >>> states[0]["rows"]["llama3_8b bf16"]["memory"]
    '16.4 GiB'
    """
    states = []
    for prompt, answer in REQUESTS.values():
        found = what_runs(device, input_len=prompt, output_len=answer)
        rows = {f"{row['name']} {row['precision']}": _speed(row) for row in found.table.to_dict("records")}
        states.append({"headline": found.summary(), "software": found.assumed.taken.get("software", ""), "rows": rows})
    return states, found.sources


def _answered(state: Mapping[str, Any]) -> bool:
    """Return whether any model runs in a state."""
    return any("speed" in row for row in state["rows"].values())


def _speed(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one model in one format: memory, and its speed where it fits, or why neither is known."""
    memory = {"memory": units.human(row["memory_bytes"], "iB")} if row["memory_bytes"] > 0 else {}
    if row["fits"] == "no":
        return memory
    if not row["tokens_per_s"] > 0:
        return {**memory, "why": str(row["why"])}
    speeds = {name: units.figure(row[f"tokens_per_s{end}"]) for name, end in SPEEDS.items()}
    measured = {"measured": row["measured"]} if row["measured"] else {}
    return {**memory, **speeds, "tier": row["tier"], **measured}


def needed(model: str) -> list[dict[str, Any]]:
    """Return what a `model` needs for each of the requests, as the page shows it.

    Examples
    --------
    >>> needed("llama3_8b")[0]["rows"][2]["held"]
    '1 × Radeon RX 7600'
    """
    states = []
    for prompt, answer in map(REQUESTS.__getitem__, NEEDED):
        found = need(model, input_len=prompt, output_len=answer)
        rows = zip(found.printed.to_dict("records"), found.table.to_dict("records"), strict=True)
        states.append({"headline": found.summary(), "rows": [_use(*row) for row in rows]})
    return states


def _use(printed: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, str]:
    """Return one use of a model: as printed, with the price of the devices that hold it."""
    to, precision, memory, interval, held = printed.values()
    use = {"to": to, "precision": precision, "memory": memory, "interval": interval, "held": held}
    if row["device"]:
        use |= {"device": row["device"], "price": _in_words(times(hourly_usd(row["device"]), row["devices"], "USD/h"))}
    return {name: text for name, text in use.items() if text}


def served(model: str, on: Sequence[str]) -> list[dict[str, Any]]:
    """Return what serving a `model` takes `on` each device, at one dollar per device-hour, for each load and format.

    Examples
    --------
    >>> served("llama3_8b", ["h100-sxm"])[0]["devices"]
    1
    """
    return [_service(model, *state) for state in product(on, LOADS, WEIGHTS)]


def _service(model: str, device: str, load: str, weights: str) -> dict[str, Any]:
    """Return devices, latencies, throughput and dollars per million tokens of one service, or why there is none."""
    try:
        found = serve(model, device, hourly=1, weights_format=WEIGHTS[weights], **LOADS[load][0])
    except ValueError as problem:
        return {"why": str(problem)}
    row, engine = found.rows[0], found.engines[0][0]
    try:
        launched = found.launch(engine) if engine in engines_for("serve") else None
    except ValueError:  # an engine that cannot run it
        launched = None
    return {
        "devices": row["devices"],
        "fewest": [_count(row[f"devices_{end}"]) for end in ("fast", "slow")],
        "tp": row["tp"],
        "tier": row["tier"],
        "tokens": [units.figure(row[f"output_tokens_per_second{end}"]) for end in ENDS],
        **{name: [units.human(row[f"{name}_p50{end}"], "s") for end in ENDS] for name in ("ttft", "tpot")},
        **{name: [_usd(row[f"usd_per_million_{name}{end}"]) for end in ENDS] for name in ("output", "input")},
        "assumed": "; ".join(found.assumed),
        **{name.lower(): runs for name, runs in stated(found.measured, "").items()},
        **({"start": launched.command, "verify": launched.verify} if launched else {}),
    }


def _usd(value: float) -> float | None:
    """Return dollars in more digits than are shown; None where they have no end."""
    return float(f"{value:.12g}") if np.isfinite(value) else None


def _count(value: float) -> int | None:
    return int(value) if np.isfinite(value) else None


def _device(name: str, sources: Sequence[str]) -> dict[str, Any]:
    """Return a device as the page shows it: what it is, its spellings, its price and its sources."""
    device, price = hardware.accelerator(name), hourly_usd(name)
    row = catalog.table("accelerators").set_index("key").loc[name]
    folder = folder_of(None)
    names = [spelling for _, spelling, key in spellings("accelerators", folder) if key == name]
    return {
        "name": device.name,
        "group": row["vendor"],
        "words": " ".join(names).casefold(),
        "same": sorted({bare("accelerators", normalise(spelling), folder) for spelling in names}),
        "memory": units.human(device.memory_bytes, "iB"),
        "gigabytes": device.memory_bytes / units.scale("GB"),
        "bandwidth": units.human(device.mem_bandwidth, "B/s"),
        "rate": device.mem_bandwidth / units.scale("GB/s"),
        "launched": str(row["launch_date"])[:4],
        "price": _in_words(price),
        "usd": [_usd(end) for end in (price.median, price.low, price.high)],
        "dates": price.dates,
        "sources": [*dict.fromkeys([*sources, *price.source])],
    }


def _in_words(price: Price) -> str:
    """Return a price with its range and dates; blank where no row states it."""
    return price.summary() if price.rows else ""


def _model(name: str) -> dict[str, Any]:
    """Return a model as the page shows it."""
    network = zoo.model(name)
    row = catalog.table("models").set_index("name").loc[name]
    return {
        "name": network.title,
        "group": FAMILY.match(network.title)[0],  # type: ignore[index]
        "words": f"{name} {network.title} {row['aliases']}".casefold(),
        "parameters": units.large(network.ops.parameter_count),
        "id": model_id(name, network.title),
    }


def _names(runs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the models of all answers."""
    return (key.rpartition(" ")[0] for states, _ in runs.values() for state in states for key in state["rows"])


def _rows(runs: Mapping[str, Any], models: Mapping[str, Any]) -> list[list[Any]]:
    """Return model, format and its bits of all rows, in the order of the answers: the largest model first."""
    keys = dict.fromkeys(key for states, _ in runs.values() for state in states for key in state["rows"])
    sizes = {name: zoo.model(name).ops.parameter_count for name in models}
    rows = [
        [name, precision, round(8 * stored_bytes(precision))]
        for name, _, precision in (key.rpartition(" ") for key in keys)
    ]
    return sorted(rows, key=lambda row: (-sizes[row[0]], row[0], -row[2]))


def _verify(software: str, prompt: int, answer: int) -> str:
    """Return the command that measures one answer of MODEL; blank where no flags of the software are known."""
    engine = software.partition(" (")[0]
    if engine not in engines_for("serve"):
        return ""
    check = {"input_len": prompt, "output_len": answer, "concurrency": 1, "in_flight": 1, "kv_needed": prompt + answer}
    return launch("serve", engine, {"network": ("", "")}, check).verify


def _sources(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return title and address of sources."""
    rows = catalog.table("sources").set_index("key")
    return {key: [rows.loc[key, "title"], rows.loc[key, "url"]] for key in keys if key in rows.index}
