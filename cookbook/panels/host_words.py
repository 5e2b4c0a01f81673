"""Words of the panel "Does the host feed its accelerators?"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cookbook.panels.host_frames import percent_text, spoken

if TYPE_CHECKING:
    from cookbook.planning.host import HostSize

# Room that still counts as tight, and a gain that is worth a sentence.
_TIGHT, _WORTH = 1.2, 1.01


def answer(size: HostSize, network: str, samples: str) -> str:
    """Place 1: what each accelerator gets, what limits, and what to buy first."""
    return f"{_rate(size, network, samples)} {advice(size)} {_links(size)}"


def _rate(size: HostSize, network: str, samples: str) -> str:
    low, high = _interval(size)
    range_ = "" if math.isinf(high) else f" (80 % interval {figure(low)}-{figure(high)})"
    can, ends = size.stages["computing"], size.computing_range
    short = samples.split(" (")[0].split(",")[0]
    start = (
        f"{size.machine.name} gives each accelerator at best **{figure(size.rate)}** samples/s of {short} for "
        f"{network}{range_}"
    )
    if size.limit == "computing":
        return f"{start}: all that it can take."
    stage = "decoding" if size.limit == "decoding" else "links"
    verb = "holds" if stage == "decoding" else "hold"
    sure = "" if (size.rate if math.isinf(high) else high) < ends[0] else ", probably"
    could = f"{figure(can)} ({figure(ends[0])}-{figure(ends[1])})"
    return f"{start} of the {could} that it can take: **{stage}** {verb} it back{sure}."


def _interval(size: HostSize) -> tuple[float, float]:
    if size.limit == "links":
        return math.nan, math.inf
    return size.computing_range if size.limit == "computing" else size.decoding_range


def figure(value: float) -> str:
    """A rate of samples.

    Examples
    --------
    >>> figure(1364.7), figure(0.2345)
    ('1,365', '0.234')
    """
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def advice(size: HostSize) -> str:
    """What to change or buy first."""
    if math.isnan(size.stages["decoding"]):
        return "Cores of this machine are not in the catalogue, so that decoding is left out; set Cores under More."
    if size.limit == "links":
        return _wider_links(size)
    return _more_cores(size) if size.limit == "decoding" else _nothing(size)


def _nothing(size: HostSize) -> str:
    room = size.stages["decoding"] / size.stages["computing"]
    if math.isinf(room):
        return "No core decodes here: cores are not what to buy."
    full = _all_cores(size) / size.stages["computing"]
    if full < _TIGHT:
        return f"Its cores could decode x{full:.2f} of that: the host is right, and a faster accelerator will starve."
    if room < _TIGHT:
        return (
            f"Buy nothing for the host: {size.workers:g} workers decode x{room:.2f} of that, a worker on each of its "
            f"{size.cores:g} cores would x{full:.1f}. Raise Workers when accelerators get faster."
        )
    need = f"{size.cores_needed:g} of its {size.cores:g} cores an accelerator would do"
    return f"Buy nothing for the host: decoding has x{room:.1f} of that, and {need}."


def _all_cores(size: HostSize) -> float:
    """Samples a second with a worker on each core that there is."""
    here = size.curve[size.curve["cores"] <= size.cores]
    return float(here["rate"].max()) if len(here) else size.stages["decoding"]


def _more_cores(size: HostSize) -> str:
    if math.isfinite(size.workers_needed):
        then = "; then links hold it back" if size.stages["links"] < size.stages["computing"] else ""
        few = f"**{size.workers_needed:.0f} workers** an accelerator instead of {size.workers:g}"
        return f"Buy nothing yet: {few} would do on its {size.cores:g} cores{then}."
    if math.isfinite(size.cores_needed):
        gain = size.changes["twice the cores"]
        return (
            f"Buy cores first: **{size.cores_needed:g}** an accelerator would do, it has {size.cores:g}; twice as "
            f"many, with workers, give x{gain:.2f}."
        )
    best = float(size.curve["rate"].max())
    return (
        f"No number of cores does it: the process that collects batches stops at {figure(best)} samples/s. Run several "
        "loaders, store samples decoded, or decode on the accelerator."
    )


def _wider_links(size: HostSize) -> str:
    gain = size.changes["links twice as wide"]
    worth = f"twice the width gives x{gain:.2f}" if gain > _WORTH else "twice the width gives little"
    if size.stages["decoding"] < size.stages["computing"]:
        return f"Buy wider links first ({worth}); decoding is the next to hold it back."
    return f"Buy wider links first, or another layout: {worth}; a larger batch exchanges gradients less often."


def _links(size: HostSize) -> str:
    start, end, share = size.busiest
    names = f"{spoken(size.machine, start)} to {spoken(size.machine, end)}"
    if share > 1:
        return f"At full speed the link from {names} would have to carry {share:.3g} times its rate."
    return f"At full speed the busiest link, {names}, is used at {percent_text(share)} of its nominal rate."


def chips(size: HostSize) -> tuple[tuple[str, str], ...]:
    """How the answer is known."""
    cores = "cores not known" if math.isnan(size.cores) else f"{size.cores:g} cores an accelerator"
    found = [
        (cores, f"Physical cores, {size.processor or 'a usual processor'}; of the catalogue unless you set them."),
        (size.machine.root, "Whether all accelerators hang below one processor."),
    ]
    if not math.isnan(size.cacheable):
        fits = size.stored <= size.cacheable
        found.append((
            "data fit in memory" if fits else "data exceed memory",
            f"The data set has {size.stored / 1e9:,.3g} GB; {size.cacheable / 1e9:,.0f} GB of memory may cache it. "
            + ("Later epochs read no storage." if fits else "Every epoch reads storage again."),
        ))  # fmt: skip
    found.append(("at best", "Stages overlap perfectly and the slowest decides; storage is not part of this picture."))
    return tuple(found)


def machine_title(size: HostSize) -> str:
    """Takeaway of the graph, under the load shown."""
    use = size.traffic.use
    full = int((use["share"] >= 1 - 1e-6).sum())
    if full:
        worst = use.loc[use["share"].idxmax()]
        names = f"{spoken(size.machine, worst['from'])} to {spoken(size.machine, worst['to'])}"
        return f"{full} link direction{'s are' if full > 1 else ' is'} full, first {names}"
    worst = use.loc[use["share"].idxmax()]
    names = f"{spoken(size.machine, worst['from'])} to {spoken(size.machine, worst['to'])}"
    return f"No link is full; the busiest, {names}, is used at {percent_text(worst['share'])}"


def cores_title(size: HostSize) -> str:
    """Takeaway of the curve over cores."""
    if math.isinf(size.cores_needed):
        return "No number of cores behind one loader meets the demand"
    word = "core" if size.cores_needed == 1 else "cores"
    rule = "more than the rule of 1-2" if size.cores_needed > 2 else "within the rule of 1-2"
    return f"{size.cores_needed:g} {word} an accelerator meet the demand: {rule}"
