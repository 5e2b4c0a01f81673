"""Panel of recipe 06: does the host feed its accelerators, and what should be bought first?"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from cookbook import catalog
from cookbook.charts import host as charts
from cookbook.panels import code, host_words
from cookbook.panels import host_frames as frames
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider, powers_of_two
from cookbook.panels.options import data_sets, networks, printed
from cookbook.panels.shell import Panel, View, defaults
from cookbook.planning.host import BOUNDLESS, LOADS, HostSize, size_host

WORKERS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0)
CORES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 24.0, 32.0, 48.0, 64.0)
PICTURES = {"machine": charts.machine, "gets": charts.gets, "cores": charts.over_cores}


def host(
    machine: str = "hgx-h100", traffic: str = "both", load: str = LOADS[0], model: str = "resnet50",
    data: str = "imagenet-1k", workers: Any = 2, batch: Any = 64, cores: Any = None, picture: str = "machine",
) -> Panel:  # fmt: skip
    """The panel "Does the host feed its accelerators?", in the state that the arguments say.

    Parameters
    ----------
    machine : str
        As for `cb.topology`.
    traffic : {"memory", "storage", "gradients", "both"}
        What crosses links: decoded samples from memory, stored samples straight from drives (decoded on accelerators),
        gradients alone, or samples from memory and gradients.
    load : {"needed", "all they can"}
        Whether flows ask for what keeps accelerators busy, or for all that links give.
    model, data : str
        A network of the zoo; a card of the table ``data_sets``.
    workers, batch : int
        Loader processes, and samples of one step, of one accelerator.
    cores : float, optional
        Physical cores of one accelerator; those of the machine in the catalogue by default.
    picture : {"machine", "gets", "cores"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = host(workers=4)
    >>> panel.update(machine="DGX-1 (V100)", model="vgg16")
    >>> "DGX-1 (V100) gives each accelerator" in panel.answer
    True
    """
    return Panel("host", "Does the host feed its accelerators?", _controls(), PICTURES, _draw, DEFAULTS, locals(),
                 {"picture": _pictures})  # fmt: skip


DEFAULTS = defaults(host)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    return (
        Combo("machine", "Machine", "Host", _machines(), tooltip="A server or workstation whose inside is known"),
        Slider("workers", "Workers an accelerator", "Host", WORKERS,
               tooltip="Processes that decode and augment samples for one accelerator"),
        Choice("traffic", "Traffic", "Links", (
            ("both", "both", "Decoded samples from memory, and gradients around rings"),
            ("memory", "input", "Decoded samples from host memory to each accelerator"),
            ("gradients", "gradients", "Gradients alone, as with synthetic data"),
            ("storage", "drives", "Stored samples straight from drives; accelerators decode them")),
            tooltip="What crosses links at the same time"),
        Choice("load", "Flows ask for", "Links", (
            (LOADS[0], "what is needed", "What keeps accelerators busy"),
            (LOADS[1], "all they can", "As much as links give, shared fairly")),
            tooltip="How much every flow asks for"),
        Combo("model", "Model", "Workload", networks(), tooltip="The network to train"),
        Combo("data", "Data set", "Workload", data_sets(), tooltip="What is read, decoded and copied"),
        Slider("batch", "Batch", "Workload", powers_of_two(0, 12), more=True,
               tooltip="Samples of one step of one accelerator; gradients are exchanged once a step"),
        Slider("cores", "Cores an accelerator", "Host", CORES, whole=False, more=True,
               optional=True, tooltip="Physical cores; empty: those of the machine in the catalogue"),
        Choice("picture", "Picture", "", (
            ("machine", "Machine", "The graph of the machine, with the use of each link"),
            ("gets", "Gets and needs", "What each accelerator gets beside what keeps it busy"),
            ("cores", "Cores", "Samples a second over cores")), place="picture"),
    )  # fmt: skip


def _machines() -> tuple[Option, ...]:
    rows = catalog.table("system_topologies")
    return tuple((r.key, r.name, str(r.aliases), r.root) for r in rows.rename(columns={"name": "name"}).itertuples())


def _pictures(values: dict[str, Any]) -> dict[str, str]:
    decoded = values.get("traffic") in ("memory", "both")
    return {} if decoded else {"cores": "this traffic has nothing that cores decode"}


@lru_cache(maxsize=64)
def _sized(
    machine: str, traffic: str, load: str, model: str, data: str, workers: int, batch: int, cores: float | None
) -> HostSize:
    return size_host(machine, model, data, traffic, load=load, batch=batch, workers=workers, cores=cores)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    picture = values["picture"]
    if picture == "cores" and values["traffic"] not in ("memory", "both"):
        raise ValueError("this traffic has nothing that cores decode: set Traffic to input or both")
    size = _sized(**{name: value for name, value in values.items() if name != "picture"})
    drawn, table, data = {
        "machine": (partial(frames.machine_picture, size, host_words.machine_title(size)), frames.link_table,
                    frames.links),
        "gets": (partial(frames.gets_picture, size), frames.gets_table, frames.gets_frame),
        "cores": (partial(frames.cores_picture, size, host_words.cores_title(size)), frames.cores_table,
                  lambda found: found.curve),
    }[picture]  # fmt: skip
    return View(
        answer=host_words.answer(
            size,
            printed("models", "name", "title", values["model"]),
            printed("data_sets", "key", "name", values["data"]),
        ),
        headline={"samples/s of an accelerator": size.rate},
        chips=host_words.chips(size),
        picture=drawn(),
        parts=frames.parts(size),
        parts_title=f"Time of {size.batch:g} samples in each stage; stages overlap, and the longest decides",
        table=partial(table, size),
        data=partial(data, size),
        sources=partial(frames.source_rows, size),
        code=_code(values, size),
    )


def _code(values: dict[str, Any], size: HostSize) -> str:
    """The panel's state, then the calls behind its links and its decoding."""
    changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    lines = [f"cb.panels.host({code.arguments(changed)})", f"box = cb.topology({code.literal(size.machine.key)})"]
    flows, source = size.traffic, {"storage": '"storage"'}.get(values["traffic"], "")
    parts = [f"box.input_flows({source})"] if flows.inputs else []
    parts += ["box.ring_flows()"] if flows.rings else []
    asked = "" if values["load"] != LOADS[0] else ", " + " + ".join(
        f"[{rate:.6g}] * {count}" for rate, count in _asked(size) if count)  # fmt: skip
    lines.append(f"box.traffic({' + '.join(parts)}{asked})")
    if values["traffic"] in ("memory", "both") and size.cores > 0:
        count = len(size.machine.named("accelerator"))
        call = {
            "batch": values["batch"], "accelerators": count, "workers": values["workers"],
            "cores": _whole(size.cores * count), "processor": size.processor,
        }  # fmt: skip
        endless = code.literal({**BOUNDLESS, "read_bandwidth": "1 PB/s"})
        where = f"{size.step:.6g}, {code.literal(size.machine.accelerator)}, {endless}"
        card = code.literal({"card": values["data"], "layout": "shards"})
        lines.append(f"cb.match_storage({where}, {card}, {code.arguments(call)})")
    return "\n".join(lines)


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


def _asked(size: HostSize) -> list[tuple[float, int]]:
    flows = size.traffic
    rest = len(flows.flows) - flows.inputs
    return [(float(flows.asked[0]), flows.inputs), (float(flows.asked[-1]), rest)]
