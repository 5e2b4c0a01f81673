"""Panel of recipe 05: how far can a prediction be trusted?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.refusals import Refusal, Refused
from cookbook.charts.look import PALETTE, row_order, spread
from cookbook.evidence import ENOUGH as LEAST
from cookbook.evidence import evaluation, paired
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider
from cookbook.panels.options import network_titles, readable
from cookbook.panels.pasted import keywords
from cookbook.panels.shell import MOST_ROWS, Panel, Part, Picture, View, defaults_of, panel_call
from cookbook.panels.text import capital, counted, figure, sources_by_count
from cookbook.topics.accuracy import charts
from cookbook.topics.accuracy.charts import percent, verdict

BANDS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0)
PICTURES = {"points": charts.points, "errors": charts.errors, "coverage": charts.coverage, "effects": charts.effects}
COLOURS, MOST_GROUPS, ENOUGH = 4, 16, 20
# Decades, across and up, between two numbers in a picture, so that both can be read; and by which runs are spread.
APART, SPREAD = np.array((0.2, 0.13)), 0.16
NO_INTERVALS = "only the full model has intervals"
NO_EFFECT = "choose a prediction without something, or a rule to beat"
OFF = {
    "picture": lambda v: {
        **({} if v.get("model") == evaluation.FULL else {"coverage": NO_INTERVALS}),
        **({"effects": NO_EFFECT} if v.get("model") in (evaluation.FULL, evaluation.ROW_ALONE) else {}),
    }
}
EDGES = (
    (0.1, "within 10 %", PALETTE[2]),
    (0.2, "10 to 20 %", PALETTE[0]),
    (0.5, "20 to 50 %", PALETTE[3]),
    (np.inf, "further off", PALETTE[1]),
)
# What groups the runs, in a sentence.
BY = {"generation": "device", "tier": "evidence", "software_level": "level of software"}
# Changes of a median error that count as one: a tenth of it, and a fiftieth for "no matter".
MUCH, LITTLE = 1.1, 1.02
# Groups in the chart of what a term changes, and changes of a speed that count there.
MOST_EFFECTS, SEEN = 20, 0.005
RUNS = {
    "both": "training runs",
    "transformer": "training runs of transformers",
    "classic": "other training runs",
    "inference": "inference runs",
    "generation": "generation runs",
}
# Groups of predictions in the list.
FULL, FLATTERING, RULE, TERM = "the prediction", "a flattering test", "rule to beat", "term off"


def accuracy(
    kind: str = "both",
    publishers: Any = (),
    accelerators: Any = (),
    model: str = evaluation.FULL,
    by: str = "publisher",
    band: Any = 20,
    picture: str = "points",
    networks: Any = (),
) -> Panel:
    """The panel "How far can you trust a prediction?", in the state that the arguments say.

    Parameters
    ----------
    kind, publishers, accelerators, model, networks
        As for `cb.accuracy`.
    by : str
        What colours and groups: "publisher", "generation", "year", "tier" or "software_level".
    band : float
        Error that still counts as good [%].
    picture : {"points", "errors", "coverage", "effects"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = accuracy(kind="transformer")
    >>> panel.update(model="without magic")
    >>> panel.answer.split(";")[0]
    "Prediction = 'without magic' is not a choice"
    """
    return Panel(accuracy, "How far can you trust a prediction?", _controls, PICTURES, _draw, locals(), OFF)


def _controls() -> tuple[Control, ...]:
    models = tuple((name, name, "", _family(name)) for name in evaluation.models_of())
    return (
        Choice(
            "kind",
            "Runs",
            "Measured runs",
            (
                ("both", "training", "Training of every kind of network"),
                ("transformer", "transformers", "Language models in training, on up to thousands of devices"),
                ("classic", "other networks", "Convolutional, recurrent and other classic networks in training"),
                ("inference", "inference", "Forward passes"),
                ("generation", "generation", "Answers of language models"),
            ),
            tooltip="Kind of measured runs",
        ),
        Combo(
            "networks",
            "Networks",
            "Measured runs",
            _options("model", "models", "name", "title"),
            many=True,
            limit=4,
            ranked=True,
            tooltip="What was run, four at most; empty: all",
        ),
        Combo(
            "accelerators",
            "Accelerators",
            "Measured runs",
            _options("accelerator", "accelerators", "key", "name"),
            many=True,
            limit=4,
            ranked=True,
            tooltip="What the runs used, four at most; empty: all",
        ),
        Combo(
            "model",
            "Prediction",
            "Predicted by",
            models,
            tooltip="The full model, the model without one term (all constants fitted anew), or a rule to beat",
        ),
        Combo(
            "publishers",
            "Publishers",
            "Measured runs",
            _options("publisher"),
            many=True,
            limit=4,
            more=True,
            tooltip="Who published the measurements, four at most; empty: all",
        ),
        Choice(
            "by",
            "Colour and group by",
            "Shown as",
            (
                ("publisher", "publisher", "Who measured"),
                ("generation", "device", "Generation of the accelerator"),
                ("year", "year", "Year of the measurement"),
                ("tier", "evidence", "How well other publishers' measurements cover the run"),
                ("software_level", "software", "Level of the software stack"),
            ),
            tooltip="What the runs are grouped by",
        ),
        Slider("band", "Good means within", "Shown as", BANDS, unit="%", tooltip="Error that still counts as good"),
        Choice(
            "picture",
            "Chart",
            "",
            (
                ("points", "Predicted over measured", "Every run, over the number of its accelerators"),
                ("errors", "Error by group", "Median and middle half of each group"),
                ("coverage", "Coverage", "Share of the runs inside their 80 % interval"),
                ("effects", "With and without", "Each group without a term, and with it"),
            ),
            place="picture",
        ),
    )


def _options(column: str, table: str = "", key: str = "", name: str = "") -> tuple[Option, ...]:
    """Names that judged runs have, most runs first, and of a table those that were never measured.

    A network stands once, however its publishers spell it; a search finds it by each of their spellings.
    """
    spelled = pd.concat([evaluation.chosen(kind)[column] for kind in RUNS if kind != "both"])
    runs = spelled.map(evaluation.network_of) if column == "model" else spelled
    counts = runs[runs != ""].value_counts().to_dict()
    words = catalog.table(table).set_index(key)[name].to_dict() if table else {}
    also = spelled.groupby(runs).agg(lambda names: ";".join(sorted(set(names)))) if column == "model" else {}
    known = counts | {each: 0 for each in words if each not in counts}
    other = readable if column == "model" else str
    return tuple(
        (each, words.get(each) or other(each), also.get(each, ""), counted(count, "run"))
        for each, count in known.items()
    )


def _family(model: str) -> str:
    """Group of a prediction in the list."""
    known = {evaluation.FULL: FULL, evaluation.ROW_ALONE: FLATTERING, **dict.fromkeys(evaluation.RULES.values(), RULE)}
    return known.get(model, TERM)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Judged runs, what predicts them, and what groups them; never change it."""

    rows: pd.DataFrame
    model: str
    by: str
    runs: str = "runs"

    @cached_property
    def known(self) -> pd.DataFrame:
        """The runs that the model says something of, with `ratio` and `predicted`."""
        ratio = self.rows.get(self.model, self.rows[evaluation.FULL] * np.nan).dropna()
        if not len(ratio):
            raise ValueError(f"{self.model} says nothing of these runs: it belongs to another kind; set Runs")
        found = self.rows.loc[ratio.index]
        return found.assign(ratio=np.exp(ratio), predicted=found["measured"] * np.exp(ratio))

    @cached_property
    def error(self) -> np.ndarray:
        """Errors of those runs."""
        return np.abs(self.known["ratio"].to_numpy() - 1)

    @cached_property
    def whole(self) -> dict[str, Any]:
        """Figures of all of them."""
        return dict(evaluation.grouped(self.rows, "all", self.model).iloc[0])

    @property
    def base(self) -> str:
        """What the model is compared with: terms were switched off without correction by neighbours."""
        return evaluation.base_of(self.model)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Figures of each group, the largest first; the smallest are taken together where there are many."""
        return evaluation.grouped(self.rows.assign(group=self.labels(MOST_GROUPS, self.rows)), "group", self.model)

    def labels(self, most: int, rows: pd.DataFrame) -> np.ndarray:
        """Group of each run, the smaller groups called others."""
        names = rows[self.by].astype(str)
        counts = names.value_counts()
        kept = counts.index[: most if len(counts) > most + 1 else most + 1]
        return names.where(names.isin(kept), charts.OTHERS).to_numpy()

    def sorted_by(self, column: str) -> pd.DataFrame:
        """Groups: years in their order, others by the figure shown; those taken together come last."""
        table = self.groups.sort_values("group" if self.by == "year" else column, kind="stable")
        return pd.concat([table[table["group"] != charts.OTHERS], table[table["group"] == charts.OTHERS]])

    @cached_property
    def effects(self) -> pd.DataFrame:
        """Predicted over measured speed in the middle of each group: without what is off, and with it; most helped
        first.
        """
        known = self.known
        faster = np.where(known["unit"].str.contains("/s"), 1, -1)
        speeds = pd.DataFrame({"before": faster * np.log(known["ratio"]), "after": faster * known[self.base]})
        each = speeds.groupby(self.labels(MOST_EFFECTS, known))
        table = each.median().assign(runs=each.size())
        table["gain"] = table["before"].abs() - table["after"].abs()
        table = table.sort_values("gain", ascending=False, kind="stable")
        return table.assign(before=np.exp(table["before"]), after=np.exp(table["after"])).rename_axis("group")

    @cached_property
    def worse(self) -> tuple[float, float, float]:
        """By how many points publishers are predicted worse than by what the model is compared with, and its ends."""
        known = self.known
        found = paired(np.log(known["ratio"].to_numpy()), known[self.base].to_numpy(), known["publisher"].to_numpy())
        return 100 * found[0], 100 * found[1], 100 * found[2]

    @cached_property
    def furthest(self) -> np.ndarray:
        """Places of the runs furthest off, by ratio, the worst first."""
        return np.argsort(-np.abs(np.log(self.known["ratio"].to_numpy())), kind="stable")[:MOST_ROWS]

    @cached_property
    def points(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        """What `charts.points` draws, and its signals; names travel as places in lists."""
        known = self.known
        group = self.labels(COLOURS, known)
        order = [g for g in pd.Series(group).value_counts().index if g != charts.OTHERS]
        known = known.assign(model=known["model"].replace(network_titles()))
        named = {name: pd.factorize(known[name]) for name in ("model", "device", "source", "unit")}
        first = known.iloc[np.unique(named["source"][0], return_index=True)[1]]
        at = known["devices"].to_numpy() * 10 ** (SPREAD * spread(len(known)))
        frame = pd.DataFrame(
            {
                "at": at,
                "ratio": known["ratio"].round(3).to_numpy(),
                "group": group,
                "rank": self._ranks(at),
                "measured": known["measured"].to_numpy(),
                "predicted": known["predicted"].to_numpy(),
                "count": known["devices"].astype(int).to_numpy(),
                **{name: places for name, (places, _) in named.items()},
            }
        )
        low, high = charts.device_domain(frame)
        return frame, {
            "low": low,
            "high": high,
            "groups": [*order, *([charts.OTHERS] if charts.OTHERS in group else [])],
            "publishers": first["publisher"].tolist(),
            "urls": first["url"].tolist(),
            **{f"{name}s": named[name][1].tolist() for name in ("model", "device", "unit")},
        }

    def _ranks(self, at: np.ndarray) -> list[float | None]:
        """Numbers of the runs furthest off; 0 where a number would cover a ring or a worse one's."""
        ranks: list[float | None] = [None] * len(at)
        drawn = np.log10(self.known["ratio"].clip(*charts.RATIOS).to_numpy())
        spots = np.column_stack([np.log10(at), drawn])
        taken: list[int] = []
        for number, run in enumerate(self.furthest, start=1):
            place = spots[run] + np.array([0, np.sign(drawn[run])]) * APART / 2
            near = any((np.abs(spots[run] - spots[other]) < APART).all() for other in taken)
            near |= any((np.abs(place - spots[other]) < 0.4 * APART).all() for other in self.furthest if other != run)
            ranks[run] = 0 if near else number
            taken += [] if near else [run]
        return ranks

    def within(self, band: float) -> float:
        """Share of the runs that are off by no more than this."""
        return float(np.mean(self.error <= band))


@lru_cache(maxsize=8)
def _chosen(kind: str, model: str, by: str, *names: tuple[str, ...]) -> Chosen:
    return Chosen(evaluation.chosen(kind, *names), model, by, RUNS[kind])


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    model, by, picture, band = values["model"], values["by"], values["picture"], values["band"] / 100
    if model not in evaluation.models_of():
        raise ValueError(f"model = {model!r} is not a choice; take one of {', '.join(evaluation.models_of())}")
    if picture == "coverage" and model != evaluation.FULL:
        raise Refused(Refusal(f"{NO_INTERVALS}: choose Prediction full, or another picture", field="model"))
    if picture == "effects" and model in (evaluation.FULL, evaluation.ROW_ALONE):
        raise ValueError(f"nothing is switched off: {NO_EFFECT}")
    filters = (tuple(values[name]) for name in ("publishers", "accelerators", "networks"))
    view = _chosen(values["kind"], model, by, *filters)
    draw, table = {
        "points": (_scatter, _run_table),
        "errors": (_errors_picture, _group_table),
        "coverage": (_coverage_picture, _group_table),
        "effects": (_effects_picture, _effects_table),
    }[picture]
    each = picture == "points"
    return View(
        answer=_answer(view, band, picture),
        headline={"median error": view.whole["median_error"], f"share within {100 * band:.0f} %": view.within(band)},
        chips=_chips(view),
        picture=draw(view, band),
        parts=_parts(view),
        parts_title=f"{counted(view.whole['rows'], 'run')} by error, predicted by {_spoken(model)}",
        table=partial(table, view),
        data=partial(evaluation.as_rows, view.rows, model)
        if each
        else partial(evaluation.grouped, view.rows, by, model),
        sources=partial(sources_by_count, view.known, "run"),
        code=_code(values),
    )


def _code(values: dict[str, Any]) -> str:
    asked = {name: values[name] for name in ("kind", "publishers", "accelerators", "networks", "model")}
    call = {"by": "row" if values["picture"] == "points" else values["by"]}
    call |= {name: value for name, value in asked.items() if value != defaults_of(accuracy)[name]}
    return f"{panel_call(accuracy, values)}\ncb.accuracy({keywords(call)})"


# Pictures, tables and parts.


def _scatter(view: Chosen, band: float) -> Picture:
    """Every run as a point; those furthest off are numbered."""
    frame, signals = view.points
    title = f"{100 * view.within(band):.0f} % of {counted(len(frame), 'run')} are predicted within {100 * band:.0f} %"
    return Picture("points", frame, title, signals)


def _errors_picture(view: Chosen, band: float) -> Picture:
    """Error of each group, beside that of what the model is compared with."""
    table = view.sorted_by("median_error")
    same = view.known.assign(group=view.labels(MOST_GROUPS, view.rows)[view.rows.index.isin(view.known.index)])
    before = evaluation.grouped(same, "group", view.base).set_index("group")["median_error"]
    frame = pd.DataFrame(
        {
            "row": table["group"],
            "median": 100 * table["median_error"],
            "lower": 100 * table["lower_quartile"],
            "upper": 100 * table["upper_quartile"],
            "before": [None if view.model == evaluation.FULL else 100 * before[name] for name in table["group"]],
            "text": [f"{percent(100 * row.median_error)}, {counted(row.rows, 'run')}" for row in table.itertuples()],
        }
    )
    return Picture("errors", frame, charts.errors_title(frame), {"rows": row_order(frame), "band": 100 * band})


def _verdicts(table: pd.DataFrame) -> list[str]:
    return [verdict(row.coverage_80, row.band_low_80, row.band_high_80) for row in table.itertuples()]


def _coverage_picture(view: Chosen, _band: float) -> Picture:
    """Coverage of each group, beside what chance allows."""
    table = view.sorted_by("coverage_80")
    frame = pd.DataFrame(
        {
            "row": table["group"],
            "share": 100 * table["coverage_80"],
            "low": 100 * table["band_low_80"],
            "high": 100 * table["band_high_80"],
            "verdict": _verdicts(table),
            "text": [f"{100 * row.coverage_80:.0f} % of {counted(row.rows, 'run')}" for row in table.itertuples()],
        }
    )
    return Picture("coverage", frame, charts.coverage_title(frame), {"rows": row_order(frame), "promised": 80})


def _effects_picture(view: Chosen, _band: float) -> Picture:
    """Each group without what is off and with it; the title says what that is worth on publishers left out."""
    table = view.effects
    frame = pd.DataFrame(
        {
            "row": [f"{group} ({runs:,})" for group, runs in table["runs"].items()],
            "before": table["before"].clip(*charts.RATIOS),
            "after": table["after"].clip(*charts.RATIOS),
            "verdict": [list(charts.NEARER)[1 - int(gain > SEEN) + int(gain < -SEEN)] for gain in table["gain"]],
            "few": table["runs"] < LEAST,
        }
    ).reset_index(drop=True)
    low, high = charts.effect_domain(frame)
    signals = {"rows": row_order(frame), "low": low, "high": high}
    return Picture("effects", frame, _finding(view).replace("**", ""), signals)


def _effects_table(view: Chosen) -> pd.DataFrame:
    """The same as printed text."""
    table = view.effects
    return pd.DataFrame(
        {
            capital(view.by.replace("_", " ")): table.index,
            "Runs": [f"{runs:,}" for runs in table["runs"]],
            "Predicted / measured speed without it": [f"{value:.2f}" for value in table["before"]],
            "With it": [f"{value:.2f}" for value in table["after"]],
        }
    ).head(MOST_ROWS)


def _parts(view: Chosen) -> tuple[Part, ...]:
    """Place 4: shares of the runs by error."""
    found, below = [], 0
    for edge, name, colour in EDGES:
        count = int(np.sum(view.error <= edge)) - below
        below += count
        share = count / len(view.error)
        text = f"{counted(count, 'run')} whose |predicted / measured - 1| lies there."
        found.append(Part(name, share, f"{100 * share:.0f} %", colour, text))
    return tuple(found)


def _run_table(view: Chosen) -> pd.DataFrame:
    """The runs furthest off, as numbered in the picture, each with its source."""
    known = view.known.iloc[view.furthest]
    ends = zip(known["predicted"], np.exp(known["half_80"]), strict=True)
    full = view.model == evaluation.FULL
    return pd.DataFrame(
        {
            "No.": [str(i) for i in range(1, len(known) + 1)],
            "Network": known["model"].replace(network_titles()),
            "Accelerator": known["device"],
            "Devices": [f"{count:,.0f}" for count in known["devices"]],
            "Measured": [f"{figure(row.measured)} {row.unit}" for row in known.itertuples()],
            "Predicted": [f"{figure(row.predicted)} {row.unit}" for row in known.itertuples()],
            **({"80 % interval": [f"{figure(p / reach)}-{figure(p * reach)}" for p, reach in ends]} if full else {}),
            "Predicted / measured": [f"{ratio:.2f}" for ratio in known["ratio"]],
            "Published by": [(row.publisher, row.url) for row in known.itertuples()],
        }
    )


def _group_table(view: Chosen) -> pd.DataFrame:
    """Figures of each group as printed text."""
    table = view.sorted_by("median_error")
    shares = {name: [percent(100 * value) for value in table[name]] for name in table.select_dtypes("number")}
    found = {
        capital(view.by.replace("_", " ")): table["group"],
        "Runs": [f"{rows:,}" for rows in table["rows"]],
        "Median error": shares["median_error"],
        "Middle half": [
            " to ".join(ends) for ends in zip(*(shares[f"{end}_quartile"] for end in ("lower", "upper")), strict=True)
        ],
        "Within 10 %": shares["within_10"],
        "Within 20 %": shares["within_20"],
    }
    if view.model == evaluation.FULL:
        found["Inside 80 % interval"] = shares["coverage_80"]
        found["Chance allows"] = [
            f"{100 * row.band_low_80:.0f}-{100 * row.band_high_80:.0f} %" for row in table.itertuples()
        ]
        found["Interval reaches"] = [f"{factor:.2f}×" for factor in table["factor_80"]]
    return pd.DataFrame(found)


# Words.


def _spoken(model: str) -> str:
    """A prediction in a sentence."""
    if model == evaluation.ROW_ALONE:
        return "the full model"
    return f"the {model} model" if model == evaluation.FULL else f"the model {model}" if "without" in model else model


def _finding(view: Chosen) -> str:
    """What it costs to do without, on publishers left out."""
    more, low, high = view.worse
    words = capital(view.model) if _family(view.model) == TERM else f"By {view.model}"
    points = f"{abs(more):.1f} points {'worse' if more > 0 else 'better'}"
    told = "neither better nor worse" if low <= 0 <= high else points
    return f"{words}, {view.runs} are **{told}** on publishers left out"


def _moved(view: Chosen) -> str:
    """The interval of that, who gains most by what is switched off, and whether most do."""
    more, low, high = view.worse
    table = view.effects[view.effects["runs"] >= LEAST]
    said = f"Interval (90 %): {more:+.1f} points [{low:.1f}, {high:.1f}]."
    if not len(table):
        return said
    gained, best = int((table["gain"] > SEEN).sum()), table.iloc[0]
    said += f" Groups: {gained} of {len(table)} with {LEAST} runs or more are nearer to what was measured with it."
    if best["gain"] <= SEEN:
        return said
    return f"{said} Most: {best.name}, from {best['before']:.2f}× to {best['after']:.2f}× of the measured speed."


def _answer(view: Chosen, band: float, picture: str) -> str:
    """The sentence in place 1, and what to take from the picture shown."""
    if picture == "effects":
        return f"{_finding(view)}. {_moved(view)}"
    whole, full = view.whole, view.model == evaluation.FULL
    by = "" if full else f"{view.model if _family(view.model) == TERM else f'by {_spoken(view.model)}'}, "
    first = capital(
        f"{by}half of {whole['rows']:,} {view.runs} are predicted within **{percent(100 * whole['median_error'])}**, "
        f"{100 * view.within(band):.0f} % within {100 * band:.0f} %."
    )
    more = {"errors": _groups, "coverage": _coverage}.get(picture, _reach) if full else _beside_full
    return f"{first} {more(view)}"


def _reach(view: Chosen) -> str:
    """What an interval adds to the point."""
    whole = view.whole
    return (
        f"Interval: a factor of {whole['factor_80']:.2f} each way was to hold 80 % and held "
        f"{100 * whole['coverage_80']:.0f} % of the runs, {100 * whole['publishers_covered_80']:.0f} % as the mean of "
        "publishers. Advice: plan with the interval, not with the point."
    )


def _groups(view: Chosen) -> str:
    """Where to trust the point most and least."""
    table = view.groups[view.groups["rows"] >= ENOUGH]
    if len(table) < 2:
        return "Groups: too few of twenty runs to tell where to trust it more."
    best, worst = (table.loc[at] for at in (table["median_error"].idxmin(), table["median_error"].idxmax()))
    return (
        f"Trust most: {best['group']}, median {percent(100 * best['median_error'])}. Trust least: {worst['group']}, "
        f"{percent(100 * worst['median_error'])}, of groups with {ENOUGH} runs or more. Advice: ask which group your "
        "own case resembles."
    )


def _coverage(view: Chosen) -> str:
    """Whether intervals keep their promise, group by group."""
    table, found = view.groups, _verdicts(view.groups)
    low, outside = found.count("too seldom"), len(found) - found.count("within chance")
    held = f"Interval: 80 % intervals held {100 * view.whole['coverage_80']:.0f} % of all runs"
    if len(table) == 1:
        chance = f"{'less' if low else 'more'} than chance allows, were runs independent" if outside else "as promised"
        return f"{held}, {chance}."
    span = f"{100 * table['coverage_80'].min():.0f} to {100 * table['coverage_80'].max():.0f} %"
    held = f"{held}, {span} by {BY.get(view.by, view.by)}"
    if not outside:
        return f"{held}, all as chance allows: the promise is kept here."
    advice = (
        "runs of one publisher are off together, so expect to lie anywhere in that span"
        if view.by == "publisher"
        else "ask which group your own case resembles"
    )
    together = view.rows[view.by].nunique() - len(table) + 1
    groups = f"{len(table)}" + (f" ({together} small ones taken together)" if together > 1 else "")
    return (
        f"{held}. Groups: {outside} of {groups} lie outside what chance allows, {low or 'none'} below it. Advice: "
        f"{advice}."
    )


def _beside_full(view: Chosen) -> str:
    """The figure before and after, on the same runs."""
    now = view.whole["median_error"]
    before = evaluation.grouped(view.known, "all", view.base).iloc[0]["median_error"]
    if view.model == evaluation.ROW_ALONE:
        return (
            f"Compared: with the publisher unseen the same runs are off by {percent(100 * before)}; the difference is "
            "what a familiar publisher flatters."
        )
    term = _family(view.model) == TERM
    other = "Compared: the model with it" if term else "Compared: the full model"
    off = ", neighbours aside," if view.base != evaluation.FULL else ""
    with_it = f"{other}{off} is off by {percent(100 * before)} on the same runs"
    if now > before * MUCH:
        return f"{with_it}: {'the term earns its' if term else 'the formulas earn their'} place here."
    if now > before / LITTLE:
        return f"{with_it}: here, the constants that stay make up for most of it."
    return f"{with_it}: on these runs, less is more."


def _chips(view: Chosen) -> tuple[tuple[str, str], ...]:
    """How the figures are known."""
    unseen = ("publisher unseen", "No run of a publisher went into the constants and intervals that predict it.")
    return (
        ("publisher seen", "Only the run itself was kept from its own prediction.")
        if view.model == evaluation.ROW_ALONE
        else unseen,
        (
            counted(view.known["publisher"].nunique(), "publisher"),
            "Runs of one publisher share machines, software and habits: they are no independent tests.",
        ),
        ("measured, never an input", "What came out of a run is compared with, and is never told to the model."),
    )
