"""Words of the panel of all measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from cookbook.panels.explore_frames import Asked

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))
_ENOUGH = 5


def tick_text(value: float, whole: bool = False) -> str:
    """A value of an axis.

    Examples
    --------
    >>> tick_text(2016, True), tick_text(0.001), tick_text(5000), tick_text(2e6), tick_text(1e-5)
    ('2016', '0.001', '5,000', '2 M', '10 µ')
    """
    if whole:
        return f"{value:.0f}"
    for size, prefix in _PREFIXES:
        if value >= size:
            return f"{value / (size if size != 1e4 else 1e3):g} {prefix}"
    if 0 < value < 0.999e-3:
        return f"{value * 1e6:g} µ" if value > 0.999e-6 else f"{value * 1e9:g} n"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def answer(asked: Asked) -> str:
    """The sentence in place 1."""
    said = [_near(asked) if asked.near else _span(asked)]
    if not asked.near:
        said.append("" if asked.counted == "all" else _groups(asked) or _best(asked))
    if asked.predicted:
        said.append(_predicted(asked))
    said.append(_aside(asked))
    return " ".join(filter(None, said))


def _span(asked: Asked) -> str:
    values, count = asked.shown[asked.y], len(asked.shown)
    what = {"all": "measurement", "best": "best measurement", "median": "median measurement"}[asked.aggregate]
    publishers = asked.shown["publisher"].nunique()
    by = f"{publishers} publisher{'s' if publishers > 1 else ''}"
    if asked.counted == "all":
        units = asked.shown[asked.unit_column].nunique()
        return f"**{count:,} {what}s** by {by}, counted in {units} ways: compare only what counts the same."
    if count == 1:
        return f"**1 {what}** by {by}: {asked.printed(float(values.iloc[0]))}."
    return (
        f"**{count:,} {what}s** by {by}: half of them lie between {_from(asked, values.quantile(0.25))} and "
        f"**{asked.printed(values.quantile(0.75))}**."
    )


def _from(asked: Asked, value: float) -> str:
    """A value without its unit where that follows."""
    printed = asked.printed(value)
    return printed.removesuffix(f" {asked.unit_words}") if asked.y != "time" else printed


def _best(asked: Asked) -> str:
    row = asked.shown.loc[asked.shown[asked.y].idxmin() if asked.y == "time" else asked.shown[asked.y].idxmax()]
    when = "" if row["year"] != row["year"] else f", {row['year']:.0f}"
    verb = "Shortest" if asked.y == "time" else "Highest"
    return f"{verb}: {asked.printed(row[asked.y])}, {row['network']} on {_on(row)} ({row['publisher']}{when})."


def _on(row: Any) -> str:
    name = row["device"] or row["processor"] or row["server"] or "a machine that is not named"
    return name if row["devices"] != row["devices"] else f"{row['devices']:,.4g} x {name}"


def _groups(asked: Asked) -> str:
    """Which group has the highest middle, where groups hold enough measurements to say so."""
    if not asked.by:
        return ""
    values = asked.shown[asked.y].groupby(asked.labels)
    middle = values.median()[values.size() >= _ENOUGH].drop("others", errors="ignore").sort_values()
    if len(middle) < 2:
        return ""
    least, most = middle.index[0], middle.index[-1]
    return (
        f"By median, {most} lies highest ({asked.printed(middle.iloc[-1])}), {least} lowest "
        f"({asked.printed(middle.iloc[0])}): groups also differ in what else was run."
    )


def _predicted(asked: Asked) -> str:
    """How many of the intervals hold what was measured."""
    point, low, high = asked.beside.T
    known, value = np.isfinite(point), asked.shown[asked.y].to_numpy()
    reach = known & np.isfinite(low)
    if not known.any():
        return "None of them was predicted: only training on known settings, and JPEG decoding, are."
    drawn = "diamonds" if len(value) <= asked.most_predicted else "too many to draw: filter"
    words = f"{int(known.sum()):,} of them were predicted with their publisher left out ({drawn})"
    if not reach.any():
        return f"{words}, without an interval."
    share = np.mean((low[reach] <= value[reach]) & (value[reach] <= high[reach]))
    return f"{words}; their 80 % intervals hold **{100 * share:.0f} %**."


def _near(asked: Asked) -> str:
    row = asked.listed.iloc[0]
    when = f", {row['date']}" if row["date"] else ""
    each = row["batch_per_device"]
    batch = "" if each != each else f", batch {each:,.4g} a device"
    value = row[asked.y]
    stated = f"**{asked.printed(value)}**" if value == value else f"it states no {asked.y.replace('_', ' ')}"
    shown = int(asked.shown["id"].isin(asked.near).sum())
    return (
        f"Nearest ({row['id']}): {row['network']} on {_on(row)}{batch}, {row['precision'] or 'format not stated'}, "
        f"{row['software'] or 'software not stated'}, by {row['publisher']}{when}: {stated}. Table lists it and "
        f"the next {min(len(asked.near), 15) - 1}, each with its source; {min(shown, 8)} are ringed here."
    )


def _aside(asked: Asked) -> str:
    """What matches and is not in the picture."""
    said = []
    other = len(asked.stated) - len(asked.of_unit)
    if other:
        said.append(f"{other:,} more count something else (Counted in)")
    lost = len(asked.of_unit) - len(asked.shown) if asked.aggregate == "all" else 0
    if lost:
        said.append(f"{lost:,} do not state their {asked.words_x}")
    silent = len(asked.rows) - len(asked.stated)
    if silent:
        said.append(f"{silent:,} state no such value")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def chips(asked: Asked) -> tuple[tuple[str, str], ...]:
    """How the figures are known."""
    found = [
        ("measured by others", "Published measurements, each with its source; none was made for this book."),
        ("development set", "The predictions were developed with these measurements; none of them is hidden."),
    ]
    if asked.y == "per_watt":
        found.append(("TDP, not power", "Design power of the devices: no power was measured, hosts are left out."))
    if asked.y == "utilisation":
        found.append(("counted by us", "FLOP of the network's own layers over the dense peak in the number format."))
    if asked.y in ("weak_efficiency", "strong_efficiency"):
        found.append(("same publisher, fewer devices", "Against the fewest devices of the same publisher, network, "
                      "software, number format and batch (a device: weak; in all: strong)."))  # fmt: skip
    return tuple(found)
