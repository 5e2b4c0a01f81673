"""Panel of recipe 05: how far can a prediction be trusted?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import keywords
from cookbook.catalog.fields import Amount, Names
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.charts.look import PALETTE, row_order, spread
from cookbook.evidence import ENOUGH as LEAST
from cookbook.evidence import evaluation, paired
from cookbook.evidence.measurement_rows import network_of
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider
from cookbook.panels.options import readable
from cookbook.panels.shell import MOST_ROWS, Panel, Part, Picture, View, defaults_of, panel_call
from cookbook.panels.text import capital, counted, figure, sources_by_count
from cookbook.topics.accuracy import charts
from cookbook.topics.accuracy.charts import percent, verdict
from cookbook.topics.accuracy.measurements_panel import titled

BANDS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0)
PICTURES = {"points": charts.points, "errors": charts.errors, "coverage": charts.coverage, "effects": charts.effects}
MAX_COLOURS, MAX_GROUPS, MIN_RUNS = 4, 16, 20
# Decades, across and up, between two numbers in a chart, so that both can be read; and by which runs are jittered.
APART, SPREAD = np.array((0.2, 0.13)), 0.16
NO_INTERVALS = "intervals are known of the full model alone"
NO_EFFECT = "choose a prediction without one of its parts, or a baseline"
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
    (np.inf, "above 50 %", PALETTE[1]),
)
# Names of what groups the runs, in a sentence.
BY = {"generation": "device", "tier": "evidence", "software_level": "software level"}
# Ratios of median errors from which a change is reported as one, and up to which it is reported as none.
CLEARLY_WORSE, ABOUT_EQUAL = 1.1, 1.02
# Groups in the chart of what a part changes, and the smallest logarithmic change of a speed that counts there.
MAX_EFFECTS, MIN_GAIN = 20, 0.005
RUNS = {
    "both": "training runs",
    "transformer": "training runs of transformers",
    "classic": "other training runs",
    "inference": "inference runs",
    "generation": "generation runs",
}
# Groups of predictions in the list.
FULL, FLATTERING, RULE, TERM = "the prediction", "an easier test", "baseline", "one part left out"


def accuracy(
    kind: str = "both",
    publishers: Names = (),
    accelerators: Names = (),
    model: str = evaluation.FULL,
    by: str = "publisher",
    band: Amount = 20,
    picture: str = "points",
    networks: Names = (),
) -> Panel:
    """Return the panel "How far can you trust a prediction?" in the state that the arguments describe.

    Parameters
    ----------
    kind, publishers, accelerators, model, networks
        As for `cb.accuracy`.
    by : str
        Property that colours and groups the runs: "publisher", "generation", "year", "tier" or "software_level".
    band : float
        Largest error that counts as acceptable [%].
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
                ("generation", "generation", "Token generation by language models"),
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
            tooltip="Networks to include, four at most; empty: all",
        ),
        Combo(
            "accelerators",
            "Accelerators",
            "Measured runs",
            _options("accelerator", "accelerators", "key", "name"),
            many=True,
            limit=4,
            ranked=True,
            tooltip="Accelerators to include, four at most; empty: all",
        ),
        Combo(
            "model",
            "Prediction",
            "Predicted by",
            models,
            tooltip="The full model, the model without one of its parts (all constants fitted anew), or a baseline",
        ),
        Combo(
            "publishers",
            "Publishers",
            "Measured runs",
            _options("publisher"),
            many=True,
            limit=4,
            more=True,
            tooltip="Publishers to include, four at most; empty: all",
        ),
        Choice(
            "by",
            "Colour and group by",
            "Shown as",
            (
                ("publisher", "publisher", "Organisation that published the run"),
                ("generation", "device", "Generation of the accelerator"),
                ("year", "year", "Year of the measurement"),
                ("tier", "evidence", "Coverage of the run by measurements of other publishers"),
                ("software_level", "software", "Level of the software stack"),
            ),
            tooltip="Property that groups the runs",
        ),
        Slider(
            "band", "Acceptable error", "Shown as", BANDS, unit="%", tooltip="Largest error that counts as acceptable"
        ),
        Choice(
            "picture",
            "Chart",
            "",
            (
                ("points", "Predicted over measured", "Every run, over the number of its accelerators"),
                ("errors", "Error by group", "Median and middle half of each group"),
                ("coverage", "Coverage", "Share of the runs inside their 80 % interval"),
                ("effects", "With and without", "Each group without one part of the model, and with it"),
            ),
            place="picture",
        ),
    )


def _options(column: str, table: str = "", key: str = "", name: str = "") -> tuple[Option, ...]:
    """Return the names in evaluated runs, most runs first, then those of a table that were never measured.

    A network is listed once, however its publishers spell it; a search finds it by each of their spellings.
    """
    spelled = pd.concat([evaluation.chosen(kind)[column] for kind in RUNS if kind != "both"])
    runs = spelled.map(network_of) if column == "model" else spelled
    counts = runs[runs != ""].value_counts().to_dict()
    words = catalog.table(table).set_index(key)[name].to_dict() if table else {}
    also = spelled.groupby(runs).agg(lambda names: ";".join(sorted(set(names)))) if column == "model" else {}
    all_counts = counts | {each: 0 for each in words if each not in counts}
    other = readable if column == "model" else str
    return tuple(
        (each, words.get(each) or other(each), also.get(each, ""), counted(count, "run"))
        for each, count in all_counts.items()
    )


def _family(model: str) -> str:
    """Return the group of a prediction in the list."""
    families = {
        evaluation.FULL: FULL,
        evaluation.ROW_ALONE: FLATTERING,
        **dict.fromkeys(evaluation.RULES.values(), RULE),
    }
    return families.get(model, TERM)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Evaluated runs with the model that predicts them and the property that groups them; read-only."""

    rows: pd.DataFrame
    model: str
    by: str
    runs: str = "runs"

    @cached_property
    def known(self) -> pd.DataFrame:
        """Return the runs that the model predicts, with `ratio` and `predicted`."""
        ratio = self.rows.get(self.model, self.rows[evaluation.FULL] * np.nan).dropna()
        if not len(ratio):
            raise Refused(
                Refusal(f"{self.model} does not predict runs of this kind; set Runs to another", field="kind")
            )
        rows = self.rows.loc[ratio.index]
        return rows.assign(ratio=np.exp(ratio), predicted=rows["measured"] * np.exp(ratio))

    @cached_property
    def error(self) -> np.ndarray:
        """Return the errors of those runs."""
        return np.abs(self.known["ratio"].to_numpy() - 1)

    @cached_property
    def whole(self) -> dict[str, Any]:
        """Return the summary of all runs."""
        return dict(evaluation.grouped(self.rows, "all", self.model).iloc[0])

    @property
    def base(self) -> str:
        """Return the model to compare with: parts were switched off without correction by neighbours."""
        return evaluation.base_of(self.model)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Return the summary of each group, the largest first; where there are many, the smallest are combined."""
        return evaluation.grouped(self.rows.assign(group=self.labels(MAX_GROUPS, self.rows)), "group", self.model)

    def labels(self, most: int, rows: pd.DataFrame) -> np.ndarray:
        """Return the group of each run; the smaller groups are called others."""
        return charts.few(rows[self.by], most).to_numpy()

    def sorted_by(self, column: str) -> pd.DataFrame:
        """Return the groups, years in their order and others by the value shown; combined ones come last."""
        table = self.groups.sort_values("group" if self.by == "year" else column, kind="stable")
        return pd.concat([table[table["group"] != charts.OTHERS], table[table["group"] == charts.OTHERS]])

    @cached_property
    def effects(self) -> pd.DataFrame:
        """Return the median ratio of predicted to measured speed of each group, without the part that is off and with
        it, the largest gain first.
        """
        rows = self.known
        faster = np.where(rows["unit"].str.contains("/s"), 1, -1)
        speeds = pd.DataFrame({"before": faster * np.log(rows["ratio"]), "after": faster * rows[self.base]})
        each = speeds.groupby(self.labels(MAX_EFFECTS, rows))
        table = each.median().assign(runs=each.size())
        table["gain"] = table["before"].abs() - table["after"].abs()
        table = table.sort_values("gain", ascending=False, kind="stable")
        return table.assign(before=np.exp(table["before"]), after=np.exp(table["after"])).rename_axis("group")

    @cached_property
    def worse(self) -> tuple[float, float, float]:
        """Return the points by which publishers are predicted worse than by the base model, with the interval."""
        rows = self.known
        difference = paired(np.log(rows["ratio"].to_numpy()), rows[self.base].to_numpy(), rows["publisher"].to_numpy())
        return 100 * difference[0], 100 * difference[1], 100 * difference[2]

    @cached_property
    def furthest(self) -> np.ndarray:
        """Return the positions of the runs with the largest errors, by ratio, the worst first."""
        return np.argsort(-np.abs(np.log(self.known["ratio"].to_numpy())), kind="stable")[:MOST_ROWS]

    @cached_property
    def points(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return the frame of `charts.points` and its signals; names are sent as positions in lists."""
        rows = self.known
        group = self.labels(MAX_COLOURS, rows)
        order = [g for g in pd.Series(group).value_counts().index if g != charts.OTHERS]
        rows = rows.assign(model=titled(rows["model"]))
        named = {name: pd.factorize(rows[name]) for name in ("model", "device", "source", "unit")}
        first = rows.iloc[np.unique(named["source"][0], return_index=True)[1]]
        at = rows["devices"].to_numpy() * 10 ** (SPREAD * spread(len(rows)))
        frame = pd.DataFrame(
            {
                "at": at,
                "ratio": rows["ratio"].round(3).to_numpy(),
                "group": group,
                "rank": self._ranks(at),
                "measured": rows["measured"].to_numpy(),
                "predicted": rows["predicted"].to_numpy(),
                "count": rows["devices"].astype(int).to_numpy(),
                **{name: places for name, (places, _) in named.items()},
            }
        )
        return frame, {
            **charts.device_ends(frame),
            "groups": [*order, *([charts.OTHERS] if charts.OTHERS in group else [])],
            "publishers": first["publisher"].tolist(),
            "urls": first["url"].tolist(),
            **{f"{name}s": named[name][1].tolist() for name in ("model", "device", "unit")},
        }

    def _ranks(self, at: np.ndarray) -> list[float | None]:
        """Return the ranks of the largest errors; 0 where a number would cover a ring or the number of a worse one."""
        ranks: list[float | None] = [None] * len(at)
        drawn = np.log10(self.known["ratio"].clip(*charts.RATIOS).to_numpy())
        spots = np.column_stack([np.log10(at), drawn])
        numbered: list[int] = []
        for number, run in enumerate(self.furthest, start=1):
            place = spots[run] + np.array([0, np.sign(drawn[run])]) * APART / 2
            near = any((np.abs(spots[run] - spots[other]) < APART).all() for other in numbered)
            near |= any((np.abs(place - spots[other]) < 0.4 * APART).all() for other in self.furthest if other != run)
            ranks[run] = 0 if near else number
            numbered += [] if near else [run]
        return ranks

    def within(self, band: float) -> float:
        """Return the share of the runs whose error is at most `band`."""
        return float(np.mean(self.error <= band))


@lru_cache(maxsize=8)
def _chosen(kind: str, model: str, by: str, *names: tuple[str, ...]) -> Chosen:
    return Chosen(evaluation.chosen(kind, *names), model, by, RUNS[kind])


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    model, by, picture, band = values["model"], values["by"], values["picture"], values["band"] / 100
    if model not in evaluation.models_of():
        raise refused("model", model, f"is not a choice; take one of {', '.join(evaluation.models_of())}")
    if picture == "coverage" and model != evaluation.FULL:
        raise Refused(Refusal(f"{NO_INTERVALS}: choose Prediction full, or another chart", field="model"))
    if picture == "effects" and model in (evaluation.FULL, evaluation.ROW_ALONE):
        raise Refused(Refusal(f"nothing is switched off: {NO_EFFECT}", field="picture"))
    filters = (tuple(values[name]) for name in ("publishers", "accelerators", "networks"))
    view = _chosen(values["kind"], model, by, *filters)
    draw, table = {
        "points": (_scatter, _run_table),
        "errors": (_errors_picture, _group_table),
        "coverage": (_coverage_picture, _group_table),
        "effects": (_effects_picture, _effects_table),
    }[picture]
    return View(
        answer=_answer(view, band, picture),
        headline={"median error": view.whole["median_error"], f"share within {100 * band:.0f} %": view.within(band)},
        chips=_chips(view),
        picture=draw(view, band),
        parts=_parts(view),
        parts_title=f"{counted(view.whole['rows'], 'run')} by error, predicted by {_spoken(model)}",
        table=partial(table, view),
        data=partial(evaluation.as_rows, view.rows, model)
        if picture == "points"
        else partial(evaluation.grouped, view.rows, by, model),
        sources=partial(sources_by_count, view.known, "run"),
        code=_code(values),
    )


def _code(values: dict[str, Any]) -> str:
    filters = {name: values[name] for name in ("kind", "publishers", "accelerators", "networks", "model")}
    call = {"by": "row" if values["picture"] == "points" else values["by"]}
    call |= {name: value for name, value in filters.items() if value != defaults_of(accuracy)[name]}
    return f"{panel_call(accuracy, values)}\ncb.accuracy({keywords(call)})"


# Pictures, tables and parts.


def _scatter(view: Chosen, band: float) -> Picture:
    """Return the chart of every run as a point; the largest errors are numbered."""
    frame, signals = view.points
    title = f"{100 * view.within(band):.0f} % of {counted(len(frame), 'run')} are predicted within {100 * band:.0f} %"
    return Picture("points", frame, title, signals)


def _errors_picture(view: Chosen, band: float) -> Picture:
    """Return the chart of the error of each group, beside that of the base model."""
    table = view.sorted_by("median_error")
    same = view.known.assign(group=view.labels(MAX_GROUPS, view.rows)[view.rows.index.isin(view.known.index)])
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
    """Return the chart of the coverage of each group, beside the range expected by chance."""
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
    """Return the chart of each group without one part and with it; its title is the effect on held-out publishers."""
    table = view.effects
    frame = pd.DataFrame(
        {
            "row": [f"{group} ({runs:,})" for group, runs in table["runs"].items()],
            "before": table["before"].clip(*charts.RATIOS),
            "after": table["after"].clip(*charts.RATIOS),
            "verdict": [
                list(charts.NEARER)[1 - int(gain > MIN_GAIN) + int(gain < -MIN_GAIN)] for gain in table["gain"]
            ],
            "few": table["runs"] < LEAST,
        }
    ).reset_index(drop=True)
    return Picture(
        "effects", frame, _finding(view).replace("**", ""), {"rows": row_order(frame), **charts.effect_ends(frame)}
    )


def _effects_table(view: Chosen) -> pd.DataFrame:
    """Return the same as printed text."""
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
    """Return the shares of the runs by error."""
    parts, below = [], 0
    for edge, name, colour in EDGES:
        count = int(np.sum(view.error <= edge)) - below
        below += count
        share = count / len(view.error)
        text = f"{counted(count, 'run')} whose |predicted / measured - 1| is in this range."
        parts.append(Part(name, share, f"{100 * share:.0f} %", colour, text))
    return tuple(parts)


def _run_table(view: Chosen) -> pd.DataFrame:
    """Return the runs with the largest errors, as numbered in the chart, each with its source."""
    rows = view.known.iloc[view.furthest]
    ends = zip(rows["predicted"], np.exp(rows["half_80"]), strict=True)
    full = view.model == evaluation.FULL
    return pd.DataFrame(
        {
            "No.": [str(i) for i in range(1, len(rows) + 1)],
            "Network": titled(rows["model"]),
            "Accelerator": rows["device"],
            "Devices": [f"{count:,.0f}" for count in rows["devices"]],
            "Measured": [f"{figure(row.measured)} {row.unit}" for row in rows.itertuples()],
            "Predicted": [f"{figure(row.predicted)} {row.unit}" for row in rows.itertuples()],
            **({"80 % interval": [f"{figure(p / reach)}-{figure(p * reach)}" for p, reach in ends]} if full else {}),
            "Predicted / measured": [f"{ratio:.2f}" for ratio in rows["ratio"]],
            "Published by": [(row.publisher, row.url) for row in rows.itertuples()],
        }
    )


def _group_table(view: Chosen) -> pd.DataFrame:
    """Return the summary of each group as printed text."""
    table = view.sorted_by("median_error")
    shares = {name: [percent(100 * value) for value in table[name]] for name in table.select_dtypes("number")}
    columns = {
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
        columns["Inside 80 % interval"] = shares["coverage_80"]
        columns["Expected by chance"] = [
            f"{100 * row.band_low_80:.0f}-{100 * row.band_high_80:.0f} %" for row in table.itertuples()
        ]
        columns["Interval factor"] = [f"{factor:.2f}×" for factor in table["factor_80"]]
    return pd.DataFrame(columns)


# Words.


def _spoken(model: str) -> str:
    """Return the words for a prediction in a sentence."""
    if model == evaluation.ROW_ALONE:
        return "the full model"
    return f"the {model} model" if model == evaluation.FULL else f"the model {model}" if "without" in model else model


def _finding(view: Chosen) -> str:
    """Return the effect of a part, or of a baseline, on held-out publishers."""
    more, low, high = view.worse
    words = capital(view.model) if _family(view.model) == TERM else f"By {view.model}"
    points = f"{abs(more):.1f} points {'worse' if more > 0 else 'better'}"
    change = "neither better nor worse" if low <= 0 <= high else points
    return f"{words}, {view.runs} are predicted **{change}** for held-out publishers"


def _moved(view: Chosen) -> str:
    """Return the interval of that effect, the number of groups that gain, and the group that gains most."""
    more, low, high = view.worse
    table = view.effects[view.effects["runs"] >= LEAST]
    sentences = f"Interval (90 %): {more:+.1f} points [{low:.1f}, {high:.1f}]."
    if not len(table):
        return sentences
    gained, best = int((table["gain"] > MIN_GAIN).sum()), table.iloc[0]
    sentences += (
        f" Groups: with it, predictions are more accurate in {gained} of {len(table)} with at least {LEAST} runs."
    )
    if best["gain"] <= MIN_GAIN:
        return sentences
    return (
        f"{sentences} Largest gain: {best.name}, from {best['before']:.2f}× to {best['after']:.2f}× the measured speed."
    )


def _answer(view: Chosen, band: float, picture: str) -> str:
    """Return the headline, and the facts of the chart shown."""
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
    """Return the width and the coverage of the intervals."""
    whole = view.whole
    return (
        f"Interval: a factor of {whole['factor_80']:.2f} in each direction should contain 80 % of the runs; it "
        f"contains {100 * whole['coverage_80']:.0f} %, or {100 * whole['publishers_covered_80']:.0f} % as the mean "
        "over publishers. Advice: plan by the interval, not the point estimate."
    )


def _groups(view: Chosen) -> str:
    """Return the groups with the smallest and the largest error."""
    table = view.groups[view.groups["rows"] >= MIN_RUNS]
    if len(table) < 2:
        return f"Groups: too few with at least {MIN_RUNS} runs to compare."
    best, worst = (table.loc[at] for at in (table["median_error"].idxmin(), table["median_error"].idxmax()))
    return (
        f"Most accurate: {best['group']}, median error {percent(100 * best['median_error'])}. Least accurate: "
        f"{worst['group']}, {percent(100 * worst['median_error'])}, among groups with at least {MIN_RUNS} runs. "
        "Advice: find the group that your own case resembles."
    )


def _coverage(view: Chosen) -> str:
    """Return the coverage of the intervals, group by group."""
    table, verdicts = view.groups, _verdicts(view.groups)
    low, outside = verdicts.count("less than chance"), len(verdicts) - verdicts.count("within chance")
    sentence = f"Interval: 80 % intervals contain {100 * view.whole['coverage_80']:.0f} % of all runs"
    if len(table) == 1:
        few = "fewer" if low else "more"
        chance = f"{few} than chance would allow if runs were independent" if outside else "as they should"
        return f"{sentence}, {chance}."
    span = f"{100 * table['coverage_80'].min():.0f} to {100 * table['coverage_80'].max():.0f} %"
    sentence = f"{sentence}, {span} by {BY.get(view.by, view.by)}"
    if not outside:
        return f"{sentence}, all within the range of chance."
    advice = (
        "errors of one publisher's runs are correlated, so expect any coverage in that range"
        if view.by == "publisher"
        else "find the group that your own case resembles"
    )
    together = view.rows[view.by].nunique() - len(table) + 1
    groups = f"{len(table)}" + (f" ({together} small ones combined)" if together > 1 else "")
    return (
        f"{sentence}. Groups: {outside} of {groups} are outside the range of chance, {low or 'none'} below it. Advice: "
        f"{advice}."
    )


def _beside_full(view: Chosen) -> str:
    """Return the median error of the base model on the same runs."""
    now = view.whole["median_error"]
    before = evaluation.grouped(view.known, "all", view.base).iloc[0]["median_error"]
    if view.model == evaluation.ROW_ALONE:
        return (
            f"Compared: with publishers held out, the median error of the same runs is {percent(100 * before)}; runs "
            "of the same publisher make the test that much easier."
        )
    term = _family(view.model) == TERM
    other = "Compared: the model with it" if term else "Compared: the full model"
    off = ", without neighbours," if view.base != evaluation.FULL else ""
    with_it = f"{other}{off} has a median error of {percent(100 * before)} on the same runs"
    if now > before * CLEARLY_WORSE:
        return f"{with_it}: {'this part improves' if term else 'the formulas improve'} predictions here."
    if now > before / ABOUT_EQUAL:
        return f"{with_it}: here the remaining constants compensate for most of it."
    return f"{with_it}: on these runs the simpler model is no less accurate."


def _chips(view: Chosen) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the values are known."""
    return (
        ("publishers not held out", "Only the run itself was left out of its own prediction.")
        if view.model == evaluation.ROW_ALONE
        else (
            "held-out publishers",
            "Leave-one-publisher-out cross-validation: no run of a publisher was used to predict its own runs.",
        ),
        (
            counted(view.known["publisher"].nunique(), "publisher"),
            "Runs of one publisher share machines, software and settings, so they are not independent tests.",
        ),
        ("measured, never an input", "Measured results are compared with predictions; they are never an input."),
    )
