"""Panel of recipe 03: where does scaling stop, and why?"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from cookbook import catalog
from cookbook.charts import scaling as charts
from cookbook.panels import code
from cookbook.panels import parallel_frames as frames
from cookbook.panels import parallel_words as words
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider, powers_of_two
from cookbook.panels.options import networks
from cookbook.panels.shell import Panel, View, defaults
from cookbook.prediction.scaling import EXCHANGES, formats_of
from cookbook.prediction.train import PRECISIONS

OWN, MEASURED = "own", "measured"
PICTURES = {"speedups": charts.speedups, "efficiency": charts.efficiencies, "parts": charts.step_parts}
FRAMES = {"speedups": frames.speedups, "efficiency": frames.efficiencies, "parts": frames.step_parts}
EXPLAINED = {
    "hierarchical": "A ring in the node, trees between nodes: what measured stacks do",
    "flat ring": "One ring through all devices",
    "halving-doubling": "A ring in the node, recursive halving and doubling between nodes",
    "in-network": "Switches between nodes do the sums",
    "parameter server": "All nodes send to one of them",
    "HPE 2017": "The founding formula, 2 w log2(p) / beta, between nodes",
}


def scaling(
    model: str = "alexnet", compare: Any = ("resnet50", "vgg16", "eng_acoustic_model"), batch: Any = 64,
    system: str = "hpe-apollo-6500-gen9-xl270d", link: str = OWN, devices: Any = 1024, mode: str = "weak",
    exchange: str = "hierarchical", buckets: str = MEASURED, precision: str = "fp32",
    picture: str = "speedups",
) -> Panel:  # fmt: skip
    """The panel "Where does scaling stop, and why?", in the state that the arguments say.

    Parameters
    ----------
    model : str
        A network of the zoo, but no language model.
    compare : str or sequence of str
        Further networks to draw beside the first, three at most.
    batch, system, devices, mode, exchange, precision
        As for `cb.scaling`.
    link, buckets : str
        As for `cb.scaling`; "own" is the machine's own network, "measured" what measured stacks hide.
    picture : {"speedups", "efficiency", "parts"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = scaling("resnet50", system="dgx-1-v100")
    >>> panel.update(mode="strong")
    >>> panel.answer.split(" train ")[0], panel.answer.split(". ")[-1]
    ('64 devices', 'More devices cannot share a batch of 64.')
    """
    return Panel("scaling", "Where does scaling stop, and why?", _controls(), PICTURES, _draw, DEFAULTS, locals(),
                 {"precision": _formats})  # fmt: skip


DEFAULTS = defaults(scaling)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    return (
        Combo("model", "Network", "Workload", networks(language=False), tooltip="The network to train"),
        Slider("batch", "Batch", "Workload", powers_of_two(0, 16),
               tooltip="Samples: of each device in weak scaling, of all together in strong scaling"),
        Choice("mode", "Scaling", "Workload", (
            ("weak", "weak", "Each further device brings a batch of its own"),
            ("strong", "strong", "One batch is split over ever more devices")), tooltip="What grows with the devices"),
        Combo("system", "Machine", "Hardware", _machines(), tooltip="A server, or a device in nodes of eight"),
        Combo("link", "Between nodes", "Hardware", _links(),
              tooltip="The machine's own network, or one port of another link for each device"),
        Combo("exchange", "Exchange", "Hardware", tuple((name, name, EXPLAINED[name], "") for name in EXCHANGES),
              tooltip="How the gradients of all devices are summed"),
        Combo("compare", "Compare with", "Workload", networks(language=False), many=True, limit=3, more=True,
              tooltip="Further networks in the same picture, three at most"),
        Slider("devices", "Devices up to", "Hardware", powers_of_two(1, 10), more=True, tooltip="End of the axis"),
        Choice("buckets", "Buckets", "Hardware", (
            (MEASURED, "measured", "As much of the exchange is hidden as measured stacks hide"),
            ("1", "1", "Nothing is hidden: the exchange starts after the backward pass"),
            ("4", "4", "Four parts, each sent while the backward pass goes on"),
            ("25", "25", "Twenty-five parts")), more=True, tooltip="Parts in which gradients are sent"),
        Choice("precision", "Precision", "Hardware", (
            (OWN, "best", "The first of bf16, fp16, tf32 and fp32 that the device has"),
            *((name, name, f"Products in {name}") for name in ("bf16", "fp16", "tf32", "fp32"))), more=True,
               tooltip="What matrix products are computed in"),
        Choice("picture", "Picture", "", (
            ("speedups", "Speed-up", "Over devices, beside the ideal and what was measured"),
            ("efficiency", "Efficiency", "The same as a share of the ideal, where small losses can be seen"),
            ("parts", "Parts", "What a step is made of, over devices")), place="picture"),
    )  # fmt: skip


def _machines() -> tuple[Option, ...]:
    servers, devices = catalog.table("systems"), catalog.table("accelerators")
    servers = servers[servers["accelerator_key"].fillna("") != ""]
    return (
        *((key, name, "", "servers") for key, name in zip(servers["key"], servers["name"], strict=True)),
        *((key, name, "", vendor) for key, name, vendor in zip(
            devices["key"], devices["name"], devices["vendor"], strict=True)),
    )  # fmt: skip


def _links() -> tuple[Option, ...]:
    rows = catalog.table("interconnects")
    rows = rows[rows["kind"].isin(["network", "host", "device"])].sort_values("kind", ascending=False, kind="stable")
    return ((OWN, "the machine's own", "", ""), *zip(
        rows["key"], rows["name"], [""] * len(rows), rows["kind"], strict=True))  # fmt: skip


def _formats(values: dict[str, Any]) -> dict[str, str]:
    """Why a number format cannot be chosen."""
    offered = formats_of(values["system"])
    return {name: f"the machine has {', '.join(offered)}" for name in PRECISIONS if name not in offered}


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    view = frames.Scaled.of(values["model"], values["compare"], _arguments(values))
    own = view.own.iloc[-1]
    return View(
        answer=words.answer(view),
        headline={"speed-up": float(own["speed_up"]), "samples/s": float(own["samples_per_second"])},
        chips=words.chips(view),
        picture=FRAMES[values["picture"]](view, pinned.kept if pinned else None),
        parts=frames.parts(view),
        parts_title=f"A step of {view.title} on {own['devices']:,} devices",
        table=partial(frames.table, view),
        data=lambda: view.whole,
        sources=partial(frames.sources, view),
        code=_code(values),
        kept=view,
    )


def _arguments(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `cb.scaling` beyond the network."""
    given = {name: values[name] for name in ("system", "devices", "batch", "mode", "exchange")}
    given["buckets"] = None if values["buckets"] == MEASURED else int(values["buckets"])
    given |= {name: "" if values[name] == OWN else values[name] for name in ("link", "precision")}
    return given


def _code(values: dict[str, Any]) -> str:
    changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    usual = {"mode": "weak", "exchange": "hierarchical", "buckets": None, "link": "", "precision": ""}
    given = {name: value for name, value in _arguments(values).items() if name not in usual or value != usual[name]}
    call = f"cb.scaling({code.arguments({'workload': values['model'], **given})})"
    return f"cb.panels.scaling({code.arguments(changed)})\n{call}"
