"""Words of the panel "How far can you trust a prediction?"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cookbook.calibration import judged
from cookbook.charts.accuracy import percent, verdict

if TYPE_CHECKING:
    from cookbook.panels.trust_frames import Chosen

_ENOUGH = 20
# What groups the runs, in a sentence.
BY = {"generation": "device", "tier": "evidence", "software_level": "level of software"}
# Changes of a median error that count as one: a tenth of it, and a fiftieth for "no matter".
_MUCH, _LITTLE = 1.1, 1.02


def family_of(model: str) -> str:
    """Group of a prediction in the list.

    Examples
    --------
    >>> family_of("without launch"), family_of("constant utilisation")
    ('term off', 'rule to beat')
    """
    if model == judged.FULL:
        return "the prediction"
    if model == judged.ROW_ALONE:
        return "a flattering test"
    return "rule to beat" if model in judged.RULES.values() else "term off"


def spoken(model: str) -> str:
    """A prediction in a sentence."""
    if model == judged.ROW_ALONE:
        return "the full model"
    return f"the {model} model" if model == judged.FULL else f"the model {model}" if "without" in model else model


def answer(view: Chosen, band: float, picture: str) -> str:
    """The sentence in place 1, and what to take from the picture shown."""
    whole = view.whole
    fold = "its own publisher seen" if view.model == judged.ROW_ALONE else "each publisher unseen"
    named = spoken(view.model)
    first = (
        f"{named[0].upper()}{named[1:]}, {fold}, predicts half of {whole['rows']:,} measured training runs within "
        f"**{percent(100 * whole['median_error'])}**, and **{100 * view.within(band):.0f} %** of all within "
        f"{100 * band:.0f} %."
    )
    if view.model != judged.FULL:
        return f"{first} {_beside_full(view)}"
    lesson = {"errors": _groups, "coverage": _coverage}.get(picture, _reach)
    return f"{first} {lesson(view)}"


def _reach(view: Chosen) -> str:
    """What an interval adds to the point."""
    whole = view.whole
    return (
        "Plan with the interval, not with the point: the 80 % interval, here a factor of "
        f"{whole['factor_80']:.2f} each way, held {100 * whole['coverage_80']:.0f} % of the runs, "
        f"{100 * whole['publishers_covered_80']:.0f} % as the mean of publishers."
    )


def _groups(view: Chosen) -> str:
    """Where to trust the point most and least."""
    table = view.groups[view.groups["rows"] >= _ENOUGH]
    if len(table) < 2:
        return "There are too few groups of twenty runs to tell where to trust it more."
    best, worst = (table.loc[at] for at in (table["median_error"].idxmin(), table["median_error"].idxmax()))
    return (
        f"Of groups with {_ENOUGH} runs or more, trust it most for {best['group']} (median "
        f"{percent(100 * best['median_error'])}) and least for {worst['group']} "
        f"({percent(100 * worst['median_error'])}): ask which group your own case resembles."
    )


def _coverage(view: Chosen) -> str:
    """Whether intervals keep their promise, group by group."""
    table = view.groups
    found = [verdict(r.coverage_80, r.band_low_80, r.band_high_80) for r in table.itertuples()]
    low, outside = found.count("too seldom"), len(found) - found.count("within chance")
    held = f"80 % intervals held {100 * view.whole['coverage_80']:.0f} % of all runs"
    if len(table) == 1:
        chance = f"{'less' if low else 'more'} than chance allows, were runs independent" if outside else "as promised"
        return f"{held}, {chance}."
    span = f"{100 * table['coverage_80'].min():.0f} to {100 * table['coverage_80'].max():.0f} %"
    held = f"{held}, {span} by {BY.get(view.by, view.by)}"
    if not outside:
        return f"{held}, all as chance allows: the promise is kept here."
    advice = (
        "runs of one publisher are off together, so expect to lie anywhere in that span" if view.by == "publisher"
        else "ask which group your own case resembles"
    )  # fmt: skip
    return f"{held}; {outside} of {_count(view)} lie outside what chance allows, {low or 'none'} below it: {advice}."


def _count(view: Chosen) -> str:
    """Number of groups, and what the last of them holds."""
    table, together = view.groups, view.rows[view.by].nunique() - len(view.groups) + 1
    return f"{len(table)} groups" + (f" ({together} small ones taken together)" if together > 1 else "")


def _beside_full(view: Chosen) -> str:
    """The figure before and after."""
    now, before = view.whole["median_error"], view.before["median_error"]
    if view.model == judged.ROW_ALONE:
        return (
            f"With the publisher unseen the same runs are off by **{percent(100 * before)}**: the difference is what a "
            "familiar publisher flatters."
        )
    term = family_of(view.model) == "term off"
    other = "The model with it" if term else "The full model"
    off = ", neighbours aside," if view.base != judged.FULL else ""
    with_it = f"{other}{off} is off by **{percent(100 * before)}** on the same runs"
    if now > before * _MUCH:
        return f"{with_it}: {'the term earns its' if term else 'the formulas earn their'} place here."
    if now > before / _LITTLE:
        return f"{with_it}: here, the constants that stay make up for most of it."
    return f"{with_it}: on these runs, less is more."


def chips(view: Chosen) -> tuple[tuple[str, str], ...]:
    """How the figures are known."""
    publishers = view.known["publisher"].nunique()
    unseen = view.model != judged.ROW_ALONE
    return (
        ("publisher unseen", "No run of a publisher went into the constants and intervals that predict it.") if unseen
        else ("publisher seen", "Only the run itself was kept from its own prediction."),
        (f"{publishers} publisher{'s' if publishers > 1 else ''}",
         "Runs of one publisher share machines, software and habits: they are no independent tests."),
        ("measured, never an input", "What came out of a run is compared with, and is never told to the model."),
    )  # fmt: skip
