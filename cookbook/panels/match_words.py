"""Words of the panel "Will my GPUs starve?"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cookbook import catalog
from cookbook.prediction.terms.feed_arguments import BENCHMARK
from cookbook.units import human

if TYPE_CHECKING:
    from cookbook.panels.match_frames import Scene
    from cookbook.prediction.terms.feed import Change

OWN_DATA = "benchmark"
SHORT = {
    "twice the drives or nodes of the storage": "twice the drives", "twice the network": "twice the network",
    "memory that holds the data set": "memory for all of it", "shards instead of small files": "packed files",
    "twice the workers": "twice the loaders", "twice the cores and workers": "twice the cores",
    "decoded once and stored ready to use": "stored decoded", "four times the prefetched batches": "more prefetching",
    "pinned memory": "pinned memory", "twice the host link": "twice the host link",
    "checkpoints behind the training": "checkpoints behind",
}  # fmt: skip
STAGE_WORDS = {
    "storage": "Least of bandwidth, operations a second x file size, and requests in flight over latency.",
    "network": "Network of all hosts together; drives in the hosts need none.",
    "reading": "Later epochs: part of the files comes from the page cache, the rest from storage.",
    "decoding": "What the loader processes decode together, on the cores that there are.",
    "copying": "Copies from pinned memory over the host link of each accelerator.",
    "accelerators": "The demand: batch over the time of a step, for all accelerators.",
}
PART_WORDS = {
    "computing": "Utilisation x the rest after checkpoints.",
    "waiting for input": "The rest of the time that no checkpoint takes.",
    "writing checkpoints": "Time of a write over itself and the interval between writes.",
}
_KEPT, _FIRST = 0.005, 3


def is_benchmark(model: Any) -> bool:
    """Whether a workload is one of MLPerf Storage, which states step, batch and data."""
    return isinstance(model, str) and model.startswith(BENCHMARK)


def answer(scene: Scene) -> str:
    """The sentence in place 1."""
    found = scene.found
    first = (f"{scene.count:,} × {_named('accelerators', scene.names[1])}, {_work(scene)}, {_files(scene)}: "
             f"**{rate(found.samples_per_s)} samples/s**{_range(scene)} at "
             f"**{share(found.utilisation)}** utilisation{_reach(scene)}, {_held(scene)}.")  # fmt: skip
    return " ".join(filter(None, [first, _money(scene), _most(scene), _epochs(scene), _credits(scene),
                                  _stall(scene), _changes(scene)]))  # fmt: skip


def _work(scene: Scene) -> str:
    model = scene.names[0]
    if is_benchmark(model):
        return f"MLPerf Storage {model.removeprefix(BENCHMARK)}"
    if not isinstance(model, str):
        return f"{human(model, 's')} a step"
    return _title(model)


def _files(scene: Scene) -> str:
    tier, data = scene.names[2:]
    key = tier["storage"] if isinstance(tier, Mapping) else tier
    drives = int(tier.get("drives", 1)) if isinstance(tier, Mapping) else 1
    where = (f"{drives} × " if drives > 1 else "") + _named("storage", key)
    if data is None:
        return f"its own data on {where}"
    if not isinstance(data, (str, Mapping)):
        return f"samples of {human(data, 'B')} on {where}"
    card = data["card"] if isinstance(data, Mapping) else data
    rows = catalog.table("data_sets").set_index("key")
    layout = data["layout"] if isinstance(data, Mapping) else rows.loc[card, "layout"]
    named = _named("data_sets", card).split(" (")[0].split(",")[0]
    return f"{named} in {layout} on {where}"


def _named(table: str, key: str) -> str:
    rows = catalog.table(table).set_index("key")["name"]
    return str(rows.get(catalog.lookup(table, key), key))


def _title(model: str) -> str:
    rows = catalog.table("models").set_index("name")["title"]
    return str(rows.get(catalog.lookup("models", model), model))


def _reach(scene: Scene) -> str:
    low, high = scene.found.utilisation_range
    if math.isnan(low) or high - low < _KEPT:
        return ""
    return f" ({100 * low:.0f}-{100 * high:.0f} %)"


def _range(scene: Scene) -> str:
    low, high = (rate(end) for end in scene.found.samples_range)
    return "" if low == high else f" (80 % interval {low}-{high})"


def shown_stage(scene: Scene) -> str:
    """Row of the picture that is the slowest; storage and cache together read where part is cached."""
    name = scene.found.bottleneck
    return "reading" if name in ("storage", "network") and scene.found.hit_rate > 0 else str(name)


def state(scene: Scene, stage: str) -> str:
    """What the picture says of a stage."""
    rates = scene.found.stages
    if stage == shown_stage(scene):
        return "slowest stage"
    if stage == "accelerators":
        return "the demand"
    return "keeps up" if rates[stage] >= rates["accelerators"] else "below the demand"


def _held(scene: Scene) -> str:
    name = scene.found.bottleneck
    return "not starved" if name == "accelerators" else f"starved by **{name}**"


def _money(scene: Scene) -> str:
    """What waiting costs; a price that nobody states is not a price of nothing."""
    found = scene.found
    if math.isnan(found.usd_per_hour):
        return "What waiting costs is not known: no cloud here lists this accelerator."
    return f"Of {money(found.usd_per_hour)} USD an hour, {money(found.idle_usd_per_hour)} pay for waiting."


def _most(scene: Scene) -> str:
    found = scene.found
    many = found.largest_accelerators
    if math.isinf(many):
        return f"Any number of them stays at {100 * found.bar:.0f} %."
    kept = f"stays at {100 * found.bar:.0f} %" if many <= 1 else f"stay at {100 * found.bar:.0f} %"
    return f"Not even one {kept}." if many < 1 else f"On this storage at most {many:,.0f} {kept}."


def _epochs(scene: Scene) -> str:
    found = scene.found
    total = f"{scene.given['epochs']:,} epochs take {human(found.total_seconds, 's')}"
    if abs(found.first_utilisation - found.utilisation) < _KEPT:
        return f"{total}."
    return f"The first epoch runs at {share(found.first_utilisation)}; {total}."


def _credits(scene: Scene) -> str:
    """How long storage lends speed; the answer is what holds after that."""
    found = scene.found
    if math.isinf(found.credit_seconds):
        return ""
    if found.credit_seconds >= found.total_seconds:
        return f"That is without burst credits: they last {human(found.credit_seconds, 's')}, longer than the training."
    return f"Burst credits last {human(found.credit_seconds, 's')}; the rates are those after them."


def _stall(scene: Scene) -> str:
    found = scene.found
    if "checkpoint_interval" not in scene.given:
        return ""
    how = "behind" if scene.given["asynchronous"] else "in front of"
    size = human(found.checkpoint_bytes, "B")
    gap = human(scene.given["checkpoint_interval"], "s")
    stall = share(found.checkpoint_stall)
    return f"Checkpoints of {size} every {gap}, {how} the training, stop it for {stall} of the time."


def _changes(scene: Scene) -> str:
    """The first few changes, with what they gain and cost."""
    best = scene.ranked[:_FIRST]
    if not best:
        return "No change here brings half a per cent."
    told = [f"({at}) {change.name} (to {share(change.utilisation)}, {_paid(change)}{_soon(row)})"
            for at, (change, row) in enumerate(best, start=1)]  # fmt: skip
    return f"Change first: {'; '.join(told)}."


def _paid(change: Change) -> str:
    if math.isnan(change.usd):
        return "no price known"
    return "free" if change.usd == 0 else f"{money(change.usd)} USD{'/month' * (change.per == 'month')}"


def _soon(row: Any) -> str:
    return f", paid after {human(3600 * row.pays_after, 's')}" if row.pays_after > 0 else ""


def chips(scene: Scene) -> tuple[tuple[str, str], ...]:
    """How the figures are known."""
    found, model = scene.found, scene.names[0]
    step = ("step of the benchmark", "The emulated step that MLPerf Storage states.") if is_benchmark(model) else (
        ("step given", "The time of a step is your own.") if not isinstance(model, str) else
        ("step predicted", "On one accelerator; the exchange of gradients would lower the demand. Brackets: "
         "80 % intervals of step, decoding and storage together."))  # fmt: skip
    price = ("no price", found.price_basis) if math.isnan(found.usd_per_hour) else ("price dated", found.price_basis)
    count = len(found.remarks)
    assumed = (f"{count} assumption{'s' * (count != 1)}", "; ".join(found.remarks) or "Nothing had to stand in.")
    return step, price, assumed


def stage_text(name: str, value: float, demand: float) -> str:
    """Words at the right of a stage."""
    if not math.isfinite(value):
        return "no limit"
    return f"{rate(value)}/s" if name == "accelerators" else f"{rate(value)}/s|{times(value / demand)} the demand"


def chain_title(scene: Scene) -> str:
    """Takeaway of the chain."""
    found = scene.found
    if found.bottleneck == "accelerators":
        return f"The input keeps up: accelerators compute {share(found.utilisation)} of the time"
    short = found.stages["reading" if found.bottleneck in ("storage", "network") else found.bottleneck]
    name = found.bottleneck[0].upper() + found.bottleneck[1:]
    cache = ", page cache included," if shown_stage(scene) == "reading" else ""
    return f"{name}{cache} delivers {share(short / found.stages['accelerators'])} of what the accelerators could take"


def changes_title(scene: Scene) -> str:
    """Takeaway of the changes."""
    best = scene.ranked
    return f"First: {best[0][0].name}" if best else "No change here brings half a per cent"


def scaling_title(scene: Scene) -> str:
    """Takeaway of the scaling."""
    most, bar = scene.found.largest_accelerators, f"{100 * scene.found.bar:.0f} %"
    if math.isinf(most):
        return f"This storage keeps any number of accelerators above {bar}"
    return f"From {most + 1:,.0f} accelerators on, utilisation falls below {bar}"


def epochs_title(scene: Scene) -> str:
    """Takeaway of the epochs."""
    found = scene.found
    longer = found.first_epoch_seconds / found.later_epoch_seconds
    hits = f"the page cache serves {share(found.hit_rate)} of later reads"
    return f"The first epoch takes {longer:.2f} times as long as a later one: {hits}"


def epoch_text(seconds: float, used: float) -> str:
    """Words at the right of an epoch."""
    return f"{human(seconds, 's')}|{share(used)} computing"


def gain_text(scene: Scene, change: Change) -> str:
    """Words at the right of a change."""
    return f"{times(change.samples_per_s / scene.found.samples_per_s)}|{_paid(change)}"


def priced(change: Change) -> str:
    """Which price a change has."""
    return "no price known" if math.isnan(change.usd) else "free" if change.usd == 0 else "has a price"


def short(name: str) -> str:
    """Label of a change."""
    return SHORT.get(name, name)


def cost(change: Change) -> str:
    """Cost as it is printed."""
    month = " a month" if change.per == "month" else ""
    return "not known" if math.isnan(change.usd) else "0" if change.usd == 0 else f"{money(change.usd)}{month}"


def hourly(value: float) -> str:
    """Cost of an hour as it is printed."""
    return "not known" if math.isnan(value) else f"{value:.2g}"


def worth(value: float) -> str:
    """Gain for what an hour costs."""
    if math.isnan(value):
        return "not known"
    return "costs nothing" if math.isinf(value) else rate(value)


def after(row: Any) -> str:
    """When a purchase has paid for itself."""
    if row.usd == 0:
        return "at once"
    return human(3600 * row.pays_after, "s") if row.pays_after > 0 else "" if row.usd > 0 else "not known"


def rate(value: float) -> str:
    """Samples a second with three digits.

    Examples
    --------
    >>> rate(18912.4), rate(47.75), rate(2.77e6)
    ('18,900', '47.8', '2,770,000')
    """
    if not math.isfinite(value):
        return "no limit"
    digits = float(f"{value:.3g}")
    return f"{digits:,.0f}" if digits >= 100 else f"{digits:.3g}"


def times(value: float) -> str:
    """A ratio.

    Examples
    --------
    >>> times(0.2519), times(147.2), times(355395)
    ('x0.25', 'x147', 'x355,000')
    """
    if not math.isfinite(value):
        return "no limit"
    if value >= 1000:
        return f"x{float(f'{value:.3g}'):,.0f}"
    return f"x{value:.0f}" if value >= 100 else f"x{value:.3g}" if value >= 1 else f"x{value:.2g}"


def share(value: float) -> str:
    """A share in per cent.

    Examples
    --------
    >>> share(0.364), share(0.00412)
    ('36 %', '0.41 %')
    """
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %" if percent >= 0.01 or not percent else "< 0.01 %"


def money(value: float) -> str:
    """US dollars.

    Examples
    --------
    >>> money(31.12), money(1234.5), money(float("nan"))
    ('31.12', '1,234', 'not known')
    """
    if math.isnan(value):
        return "not known"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def share_of(value: float, hour: float) -> str:
    """A part of an hour and what it costs."""
    return share(value) if math.isnan(hour) else f"{share(value)}, {money(value * hour)} USD"


def hour(scene: Scene) -> str:
    """What an hour of all accelerators costs."""
    usd = scene.found.usd_per_hour
    return " (no price known)" if math.isnan(usd) else f" ({money(usd)} USD)"
