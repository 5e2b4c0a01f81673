"""Frames, tables and parts of the panel "Where should it run?", all from one comparison of places."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.charts import places as charts
from cookbook.charts.look import MONEY_PARTS
from cookbook.charts.rows import row_order
from cookbook.panels import place_words as words
from cookbook.panels.shell import Part, Picture
from cookbook.planning.crossing import BreakEven, cumulative
from cookbook.units import human

if TYPE_CHECKING:
    from cookbook.planning.where import WhereToRun

MOST_FIGURES = 10
# Bars below this part of the widest cannot be seen.
LEAST = 0.01
POINTS = 13
KILO = 1e3
HOW = {
    "hardware": "Price of purchase, spread over years of use with the cost of money, times the horizon.",
    "network": "Switches and cables as a share of the hardware.",
    "storage": "Shared storage as a share of the hardware.",
    "maintenance": "Support and repair of a year as a share of all hardware.",
    "electricity": "Idle power all the time and more while it computes, times the tariff. Unvalidated.",
    "cooling": "Electricity times (power usage effectiveness - 1).",
    "staff": "Part of an administrator.",
    "space": "Rent of space and power feed for each rated kW; electricity is billed beside it.",
    "rent": "Hours used, or all hours of the term, times the price; or tokens times the price.",
    "data": "Data kept with the provider, each run's result and at the end the data brought home.",
}


def costs_picture(found: WhereToRun) -> Picture:
    """Every place, the cheapest on top, those without a cost at the end."""
    rows = found.frame.sort_values("usd", kind="stable")
    frame = pd.DataFrame({
        "row": rows["name"], "usd": _rounded(rows["usd"]), "low": _rounded(rows["usd_low"]),
        "high": _rounded(rows["usd_high"]),
        "verdict": [words.verdict(row, found.best) for _, row in rows.iterrows()],
        "text": [words.short(row) for _, row in rows.iterrows()],
    }).reset_index(drop=True)  # fmt: skip
    low, high = charts.cost_domain(frame)
    signals = {"rows": row_order(frame), "low": low, "high": high}
    return Picture("costs", frame, words.title_of(found), signals)


def _rounded(values: pd.Series) -> list[float | None]:
    return [None if math.isnan(value) else float(f"{value:.4g}") for value in values]


def tornado_picture(found: WhereToRun) -> Picture:
    """The cheapest place's figures, the one that matters most on top."""
    place = found.place()
    table = found.tornado().head(MOST_FIGURES)
    table = table[table["swing"] >= LEAST * table["swing"].max()]
    centre = float(np.asarray(_centre(found, place.key)))
    frame = pd.DataFrame({
        "row": [words.FIGURES[name] for name in table["figure"]], "start": (table["usd_low"] / KILO).round(4),
        "end": (table["usd_high"] / KILO).round(4), "centre": round(centre / KILO, 4),
        "text": [_ends(row) for row in table.itertuples()],
    })  # fmt: skip
    low, high = charts.tornado_domain(frame)
    top = table.iloc[0]
    title = words.tornado_title(place.name, words.FIGURES[top["figure"]], top["usd_low"], top["usd_high"])
    return Picture("tornado", frame, title, {"rows": row_order(frame), "low": low, "high": high})


def _centre(found: WhereToRun, key: str) -> float:
    return float(np.sum([float(np.ravel(part)[0]) for part in found.points[key]["parts"].values()]))


def _ends(row: object) -> str:
    low, high, unit = (getattr(row, name) for name in ("low", "high", "unit"))
    if unit.startswith("fraction"):
        return f"{100 * low:.3g} to {100 * high:.3g} %" + (" a year" if unit.endswith("year") else "")
    if unit == "USD":
        return words.usd_range(low, high)
    if unit in ("s", "W"):
        return f"{human(low, unit)} to {human(high, unit)}"
    return f"{low:.3g} to {high:.3g} {'' if unit == 'ratio' else unit}".rstrip()


def paid_picture(found: WhereToRun, even: BreakEven) -> Picture:
    """Owning beside renting, month by month."""
    rows = cumulative(found, [even.own, even.rent], POINTS)
    last = float(rows["month"].max())
    meets = even.months[1] if even.months[1] <= last else None
    frame = pd.DataFrame({
        "what": ["owned" if key == even.own else "rented" for key in rows["place"]], "month": rows["month"].round(2),
        "usd": (rows["usd"] / KILO).round(3), "low": (rows["usd_low"] / KILO).round(3),
        "high": (rows["usd_high"] / KILO).round(3), "text": rows["name"], "meets": meets,
    })  # fmt: skip
    top = charts.paid_top(frame)
    return Picture("paid", frame, words.paid_title(found, even), {"top": top, "last": last})


def parts(found: WhereToRun, key: str | None) -> tuple[Part, ...]:
    """Place 4: what the cost of a place is made of, at the medians."""
    if key is None:
        return ()
    each = {name: float(np.ravel(usd)[0]) for name, usd in found.points[key]["parts"].items()}
    return tuple(
        Part(name, each[name], words.usd(each[name]), colour, HOW[name])
        for name, colour in MONEY_PARTS.items() if each.get(name)
    )  # fmt: skip


def place_table(found: WhereToRun) -> pd.DataFrame:
    """Every place as printed text."""
    rows = found.frame
    return pd.DataFrame({
        "Place": rows["name"],
        "Will do": ["yes" if fine else f"no: {why}" for fine, why in zip(rows["will_do"], rows["why"], strict=True)],
        "Cost over the horizon": [_band(row) for _, row in rows.iterrows()],
        "A run": [words.usd(value) for value in rows["usd_per_run"]],
        "Hours a run": [_number(value) for value in rows["hours"]],
        "In use": [_in_use(row) for _, row in rows.iterrows()],
        "Energy": ["not known" if math.isnan(kwh) else f"{_number(kwh / KILO)} MWh" for kwh in rows["kwh"]],
        "CO2e": ["not known" if math.isnan(kg) else f"{_number(kg / KILO)} t" for kg in rows["kgco2e"]],
        "Data done by the deadline": ["not known" if math.isnan(part) else f"{100 * part:.0f} %"
                                      for part in rows["part"]],
        "Price": [_price(row) for _, row in rows.iterrows()], "Priced": rows["priced"].replace("", "undated"),
    })  # fmt: skip


def _band(row: pd.Series) -> str:
    known = not math.isnan(row["usd"])
    return f"{words.usd(row['usd'])} ({words.usd_range(row['usd_low'], row['usd_high'])})" if known else "not known"


def _in_use(row: pd.Series) -> str:
    if math.isnan(row["use"]):
        return "not known"
    if row["use"] > row["units"]:
        return f"{row['use']:,.1f} at a time"
    of = f" of {row['units']:,.0f}" if row["units"] > 1 else ""
    return f"{100 * row['use'] / row['units']:.0f} %{of}"


def _number(value: float) -> str:
    return "not known" if math.isnan(value) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _price(row: pd.Series) -> str:
    return "not known" if math.isnan(row["price"]) else f"{_number(row['price'])} {row['price_unit']}"


def tornado_table(found: WhereToRun) -> pd.DataFrame:
    """What each figure does, as printed text."""
    table = found.tornado()
    return pd.DataFrame({
        "Figure": [words.FIGURES[name] for name in table["figure"]],
        "From ... to": [_ends(row) for row in table.itertuples()],
        "Cost at the low end": [words.usd(value) for value in table["usd_low"]],
        "Cost at the high end": [words.usd(value) for value in table["usd_high"]],
        "Moves it by": [words.usd(value) for value in table["swing"]],
    })  # fmt: skip


def paid_table(found: WhereToRun, even: BreakEven) -> pd.DataFrame:
    """What has been paid, as printed text."""
    rows = cumulative(found, [even.own, even.rent], 7)
    wide = rows.pivot(index="month", columns="name", values="usd")
    return pd.DataFrame({"Month": [f"{month:.0f}" for month in wide.index],
                         **{name: [words.usd(value) for value in wide[name]] for name in wide}})  # fmt: skip


def source_rows(found: WhereToRun) -> tuple[tuple[str, str, str], ...]:
    """(title, link, what for) of every source of prices and figures, recalled ones marked."""
    used: dict[str, list[str]] = {}
    for place in found.places.values():
        for name, figure in place.figures.items():
            for key in figure.source if name != "step" else ():
                used.setdefault(key, []).append(words.FIGURES[name])
    return tuple(_source(key, sorted(set(names))) for key, names in used.items())


def _source(key: str, names: list[str]) -> tuple[str, str, str]:
    row = _sources().get(key, {"title": key, "url": "", "seen": ""})
    recalled = "(recalled, not opened) " if row["seen"] == "no" else ""
    return row["title"], row["url"], f"{recalled}{', '.join(names)}"


@lru_cache(maxsize=1)
def _sources() -> dict[str, dict[str, str]]:
    rows = catalog.table("sources")[["key", "title", "url", "seen"]].fillna("").astype(str)
    return {row["key"]: row for row in rows.to_dict("records")}
