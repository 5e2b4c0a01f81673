"""Words of the panel "Where does scaling stop, and why?"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cookbook.panels.parallel_frames import growth

if TYPE_CHECKING:
    from cookbook.panels.parallel_frames import Scaled

# Efficiency from which on a further device counts as worth its place.
WORTH = 0.8
REASONS = {
    "data-parallel communication": "the sum of gradients, of which the backward pass can hide only so much",
    "waiting": "waiting for the slowest device of a node, which no faster link shortens",
    "launch": "starting operations: small batches cost as many starts as large ones",
    "optimiser": "the update, which every device repeats for all weights",
    "compute": "products that small batches leave too little to do",
    "memory traffic": "operations between products, which small batches do not shorten alike",
}


def answer(view: Scaled) -> str:
    """The sentence in place 1, and where and why scaling stops."""
    own, last = view.own, view.own.iloc[-1]
    known = last["low80"] == last["low80"]
    interval = f" ({_times(last['low80'])}-{_times(last['high80'])})" if known else ""
    first = (
        f"{last['devices']:,} devices train {view.title} **{_times(last['speed_up'])}x** as fast as one{interval}, "
        f"**{100 * last['efficiency']:.0f} %** of the ideal."
    )
    full = f" More devices cannot share a batch of {view.arguments['batch']:,}." if _full(view) else ""
    return f"{first} {_stop(own)}; {_why(view)}{full}"


def _full(view: Scaled) -> bool:
    """Whether one batch has no sample left for a further device."""
    asked = view.arguments
    return bool(asked["mode"] == "strong" and view.own["devices"].iloc[-1] < asked["devices"])


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _stop(own: Any) -> str:
    """Where scaling stops."""
    peak = own.loc[own["speed_up"].idxmax()]
    if peak["devices"] < own["devices"].iloc[-1]:
        return f"Beyond {peak['devices']:,} devices more make it slower"
    worth = own.loc[own["efficiency"] >= WORTH, "devices"].max()
    if worth == own["devices"].iloc[-1]:
        return f"It stays above {100 * WORTH:.0f} % all the way"
    if worth == 1:
        return f"The second device already leaves less than {100 * WORTH:.0f} %"
    return f"It stays above {100 * WORTH:.0f} % up to {worth:,} devices"


def _why(view: Scaled) -> str:
    """What takes most of the loss, and the ratio that decides."""
    part, share = growth(view)
    if share == 0:
        return "nothing is lost."
    compute = f"A step computes {view.work:,.0f} MAC for each parameter whose gradient is exchanged."
    return f"{100 * share:.0f} % of what is lost is {REASONS[part]}. {compute}"


def chips(view: Scaled) -> tuple[tuple[str, str], ...]:
    """How the figures are known."""
    known = view.own["low80"].notna().all()
    runs = len(view.measured)
    return (
        ("interval from measured speed-ups", "What speed-ups predicted with their publisher unseen were off by: "
         "further down beyond one node, where few were measured.") if known
        else ("a formula, no interval", "No measured run says that it used this: none tells how far it is off."),
        (f"{runs} measured" if runs else "none measured", "Measured speed-ups of this network on this device."),
        (str(view.own["tier"].iloc[-1]), "How well measurements cover the time of a step here."),
    )  # fmt: skip
