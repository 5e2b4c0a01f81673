"""Frames, tables and parts of the panel "How far can you trust a prediction?", all from one choice of judged runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cookbook.calibration import judged
from cookbook.charts import accuracy as charts
from cookbook.charts.look import PALETTE
from cookbook.charts.rows import row_order
from cookbook.panels.shell import MOST_ROWS, Part, Picture

COLOURS, MOST_GROUPS = 4, 16
# Decades, across and up, between two numbers in a picture, so that both can be read.
_APART = {"predicted": (0.45, 0.9), "ratio": (0.45, 0.13)}
EDGES = ((0.1, "within 10 %", PALETTE[2]), (0.2, "10 to 20 %", PALETTE[0]), (0.5, "20 to 50 %", PALETTE[3]),
         (np.inf, "further off", PALETTE[1]))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Chosen:
    """Judged runs, what predicts them, and what groups them; never change it."""

    rows: pd.DataFrame
    model: str
    by: str

    @cached_property
    def known(self) -> pd.DataFrame:
        """The runs that the model says something of, with `ratio` and `predicted`."""
        ratio = self.rows.get(self.model, self.rows[judged.FULL] * np.nan).dropna()
        if not len(ratio):
            raise ValueError(f"{self.model} says nothing of these runs: it belongs to the other kind; set Training of")
        found = self.rows.loc[ratio.index]
        return found.assign(ratio=np.exp(ratio), predicted=found["measured"] * np.exp(ratio))

    @cached_property
    def error(self) -> np.ndarray:
        """Errors of those runs."""
        return np.abs(self.known["ratio"].to_numpy() - 1)

    @cached_property
    def whole(self) -> dict[str, Any]:
        """Figures of all of them."""
        return dict(judged.grouped(self.rows, "all", self.model).iloc[0])

    @property
    def base(self) -> str:
        """What the model is compared with: terms were switched off without correction by neighbours."""
        return judged.base_of(self.model)

    @cached_property
    def before(self) -> dict[str, Any]:
        """The same figures of what it is compared with, on the same runs."""
        return dict(judged.grouped(self.known, "all", self.base).iloc[0])

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Figures of each group, the largest first; the smallest are taken together where there are many."""
        return judged.grouped(self.rows.assign(group=self.labels(MOST_GROUPS, self.rows)), "group", self.model)

    def labels(self, most: int, rows: pd.DataFrame) -> np.ndarray:
        """Group of each run, the smaller groups called others."""
        names = rows[self.by].astype(str)
        counts = names.value_counts()
        kept = counts.index[: most if len(counts) > most + 1 else most + 1]
        return names.where(names.isin(kept), charts.OTHERS).to_numpy()

    @cached_property
    def ratios(self) -> pd.DataFrame:
        """What `charts.ratios` draws: the same points, numbered where there is room on that axis."""
        return self.points[0].assign(rank=_ranks(self, "ratio"))

    @cached_property
    def points(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        """What `charts.points` draws, and its signals; names travel as places in lists."""
        known = self.known
        group = self.labels(COLOURS, known)
        order = [g for g in pd.Series(group).value_counts().index if g != charts.OTHERS]
        models, devices, source = (pd.factorize(known[column]) for column in ("model", "device", "source"))
        first = known.iloc[np.unique(source[0], return_index=True)[1]]
        frame = pd.DataFrame({
            "measured": known["measured"].to_numpy(), "predicted": known["predicted"].to_numpy(),
            "ratio": known["ratio"].round(3).to_numpy(), "group": group, "rank": _ranks(self, "predicted"),
            "source": source[0], "count": known["devices"].astype(int).to_numpy(), "model": models[0],
            "device": devices[0],
        })  # fmt: skip
        low, high = charts.outcome_domain(frame)
        return frame, {
            "low": low, "high": high, "groups": [*order, *([charts.OTHERS] if charts.OTHERS in group else [])],
            "publishers": first["publisher"].tolist(), "urls": first["url"].tolist(),
            "models": models[1].tolist(), "devices": devices[1].tolist(),
        }  # fmt: skip

    def within(self, band: float) -> float:
        """Share of the runs that are off by no more than this."""
        return float(np.mean(self.error <= band))


def scatter(view: Chosen, name: str, band: float) -> Picture:
    """Every run as a point; those furthest off are numbered."""
    frame, signals = view.points
    title = f"{100 * view.within(band):.0f} % of {len(frame):,} runs are predicted within {100 * band:.0f} %"
    return Picture(name, view.ratios if name == "ratios" else frame, title, signals)


def furthest(view: Chosen) -> np.ndarray:
    """Places of the runs furthest off, by ratio, the worst first."""
    return np.argsort(-np.abs(np.log(view.known["ratio"].to_numpy())), kind="stable")[:MOST_ROWS]


def _ranks(view: Chosen, column: str) -> list[float | None]:
    """Numbers of the runs furthest off, drawn at `column`; 0 where a number would cover a ring or a worse one's."""
    ranks: list[float | None] = [None] * len(view.known)
    known = view.known.assign(ratio=view.known["ratio"].clip(*charts.RATIOS))
    spots = np.log10(known[["measured", column]].to_numpy())
    apart, rings = np.array(_APART[column]), furthest(view)
    taken: list[int] = []
    for number, at in enumerate(rings, start=1):
        place = spots[at] + np.array([0, np.sign(np.log(known["ratio"].iloc[at]))]) * apart / 2
        near = any((np.abs(spots[at] - spots[other]) < apart).all() for other in taken)
        near |= any((np.abs(place - spots[other]) < 0.4 * apart).all() for other in rings if other != at)
        ranks[at] = 0 if near else number
        taken += [] if near else [at]
    return ranks


def errors_picture(view: Chosen, band: float) -> Picture:
    """Error of each group, beside that of what the model is compared with."""
    table = _sorted(view, "median_error")
    full = view.model == judged.FULL
    same = view.known.assign(group=view.labels(MOST_GROUPS, view.rows)[view.rows.index.isin(view.known.index)])
    before = judged.grouped(same, "group", view.base)
    earlier = dict(zip(before["group"], before["median_error"], strict=True))
    frame = pd.DataFrame({
        "row": table["group"], "median": 100 * table["median_error"], "lower": 100 * table["lower_quartile"],
        "upper": 100 * table["upper_quartile"],
        "before": [None if full else 100 * earlier[name] for name in table["group"]],
        "text": [f"{charts.percent(100 * row.median_error)}, {row.rows:,} runs" for row in table.itertuples()],
    })  # fmt: skip
    return Picture("errors", frame, charts.errors_title(frame), {"rows": row_order(frame), "band": 100 * band})


def coverage_picture(view: Chosen) -> Picture:
    """Coverage of each group, beside what chance allows."""
    table = _sorted(view, "coverage_80")
    frame = pd.DataFrame({
        "row": table["group"], "share": 100 * table["coverage_80"], "low": 100 * table["band_low_80"],
        "high": 100 * table["band_high_80"],
        "verdict": [charts.verdict(r.coverage_80, r.band_low_80, r.band_high_80) for r in table.itertuples()],
        "text": [f"{100 * row.coverage_80:.0f} % of {row.rows:,} runs" for row in table.itertuples()],
    })  # fmt: skip
    return Picture("coverage", frame, charts.coverage_title(frame), {"rows": row_order(frame), "promised": 80})


def _sorted(view: Chosen, column: str) -> pd.DataFrame:
    """Years in their order, other groups by the figure shown; those taken together come last."""
    table = view.groups.sort_values("group" if view.by == "year" else column, kind="stable")
    return pd.concat([table[table["group"] != charts.OTHERS], table[table["group"] == charts.OTHERS]])


def parts(view: Chosen) -> tuple[Part, ...]:
    """Place 4: shares of the runs by error."""
    found, below = [], 0.0
    for edge, name, colour in EDGES:
        share, count = view.within(edge) - below, int(np.sum(view.error <= edge)) - round(below * len(view.error))
        below += share
        text = f"{count:,} runs whose |predicted / measured - 1| lies there."
        found.append(Part(name, share, f"{100 * share:.0f} %", colour, text))
    return tuple(found)


def run_table(view: Chosen) -> pd.DataFrame:
    """The runs furthest off, as numbered in the picture, each with its source."""
    known = view.known.iloc[furthest(view)]
    ends = zip(known["predicted"], np.exp(known["half_80"]), strict=True)
    full = view.model == judged.FULL
    return pd.DataFrame({
        "No.": [str(i) for i in range(1, len(known) + 1)],
        "Network": known["model"], "Accelerator": known["device"],
        "Devices": [f"{count:,.0f}" for count in known["devices"]],
        "Measured": [f"{_figure(row.measured)} {row.unit}" for row in known.itertuples()],
        "Predicted": [f"{_figure(row.predicted)} {row.unit}" for row in known.itertuples()],
        **({"80 % interval": [f"{_figure(p / reach)}-{_figure(p * reach)}" for p, reach in ends]} if full else {}),
        "Predicted / measured": [f"{ratio:.2f}" for ratio in known["ratio"]],
        "Published by": [(row.publisher, row.url) for row in known.itertuples()],
    })  # fmt: skip


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def group_table(view: Chosen) -> pd.DataFrame:
    """Figures of each group as printed text."""
    table = _sorted(view, "median_error")
    found = {
        view.by.replace("_", " ").capitalize(): table["group"], "Runs": [f"{rows:,}" for rows in table["rows"]],
        "Median error": _shares(table["median_error"]),
        "Middle half": [f"{charts.percent(100 * row.lower_quartile)} to {charts.percent(100 * row.upper_quartile)}"
                        for row in table.itertuples()],
        "Within 10 %": _shares(table["within_10"]), "Within 20 %": _shares(table["within_20"]),
    }  # fmt: skip
    if view.model == judged.FULL:
        found["Inside 80 % interval"] = _shares(table["coverage_80"])
        found["Chance allows"] = [
            f"{100 * row.band_low_80:.0f}-{100 * row.band_high_80:.0f} %" for row in table.itertuples()
        ]
        found["Interval reaches"] = [f"x{factor:.2f}" for factor in table["factor_80"]]
    return pd.DataFrame(found)


def _shares(values: pd.Series) -> list[str]:
    return [charts.percent(100 * value) for value in values]


def source_rows(view: Chosen) -> tuple[tuple[str, str, str], ...]:
    """(title, link, runs) of each source of the runs shown, those with most runs first."""
    counts = view.known[["source", "url", "publisher"]].value_counts().reset_index(name="runs")
    return tuple((row.source, row.url, f"{row.publisher}: {row.runs:,} runs") for row in counts.itertuples(index=False))
