"""Words of the panel "What does it take to train a transformer?"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cookbook.panels.run_frames import MILLION, figure, money
from cookbook.planning.run import layout_words
from cookbook.units import human

if TYPE_CHECKING:
    from cookbook.panels.run_frames import Planned

LEFT = {
    "tensor-parallel communication": "sums over the devices that share each product",
    "pipeline-parallel communication": "activations passed between stages",
    "data-parallel communication": "the exchange of gradients and weights",
    "bubble": "the bubble of the pipeline",
    "memory traffic": "operations between products, which wait for memory",
    "waiting": "waiting for the slowest device",
    "optimiser": "the update",
    "launch": "starting operations",
}


def answer(view: Planned) -> str:
    """Place 1: days and USD, the layout and what holds it back, failures, deadline and budget."""
    return " ".join(part for part in (_first(view), _layout(view), _failures(view), _goal(view)) if part)


def _first(view: Planned) -> str:
    own = view.own
    days = f"**{figure(own['days'])} days** (80 %: {figure(own['days_low'])}-{figure(own['days_high'])})"
    cost = (
        f"for **{money(own['usd'])} USD** ({money(own['usd_low'])}-{money(own['usd_high'])} from the lowest price to "
        "the highest)" if view.priced else f"of {money(own['device_hours'])} device-hours, whose price is not known"
    )  # fmt: skip
    tokens = human(view.run.tokens).replace(" G", " billion ").replace(" T", " trillion ").strip()
    return f"{own['devices']:,} {view.device.name} train {view.title} on {tokens} tokens in {days} {cost}."


def _layout(view: Planned) -> str:
    own, parts = view.own, view.run.parts.loc[view.values["devices"]].drop("compute")
    step = float(view.run.parts.loc[view.values["devices"]].sum())
    most = str(parts.idxmax())
    hardware = f", HFU {own['hfu']:.0%}" if own["hfu"] > own["mfu"] * 1.005 else ""
    return (
        f"Best layout of those tried: {layout_words(own)}, MFU {own['mfu']:.0%}{hardware}; after computing, "
        f"the largest part of a step is {LEFT.get(most, most)} ({parts[most] / step:.0%})."
    )


def _failures(view: Planned) -> str:
    own = view.own
    return (
        f"A failure stops it every {human(float(own['mtbf_seconds']), 's')}; with a checkpoint every "
        f"{human(float(own['checkpoint_interval_seconds']), 's')}, **{own['goodput']:.1%}** of the time is useful."
    )


def _goal(view: Planned) -> str:
    """Deadline and budget, where the reader set them."""
    deadline, budget, own, said = view.values["deadline"], view.values["budget"], view.own, []
    if deadline:
        table = view.run.table
        enough = table.loc[table["days"] <= deadline, "devices"]
        if own["days"] > deadline:
            need = f"{enough.min():,} devices would do" if len(enough) else "no number of devices drawn would do"
            said.append(f"That misses the deadline of {deadline:g} days; {need}.")
        elif enough.min() < own["devices"]:
            said.append(f"{enough.min():,} devices would also meet the deadline of {deadline:g} days.")
        else:
            doubt = own["days_high"] > deadline
            said.append(f"The deadline of {deadline:g} days is met" + (", though not for certain." if doubt else "."))
    if budget and view.priced:
        tokens = float(view.run.tokens_possible(budget * MILLION)[view.values["devices"]])
        said.append(f"{budget:g} M USD pay for {figure(tokens / 1e9)} billion tokens.")
    return " ".join(said)


def chips(view: Planned) -> tuple[tuple[str, str], ...]:
    """How the figures are known."""
    assert view.run.layouts is not None
    found, price = view.run.layouts.prediction, view.run.price
    tier = str(np.asarray(found.tier)[int(view.own["row"])])
    chips = [(tier, "How well measurements of other runs cover the time of a step here.")]
    if price.rows:
        years = "-".join(dict.fromkeys((price.first[:4], price.last[:4])))
        chips.append((f"{price.rows} prices, {years}", "By list, on demand; old ones count too."))
    else:
        chips.append(("price given" if view.priced else "no price", price.why or "Set under More."))
    given = view.values["mtbf"] is not None
    chips.append(("failures given", "Set under More.") if given else
                 ("failures published", "Median of what a few long runs and clusters report; the others set the band."))
    return tuple(chips)
