"""Panel of recipe 05: how far can a prediction be trusted?"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from cookbook.calibration import judged
from cookbook.charts import accuracy as charts
from cookbook.panels import code
from cookbook.panels import trust_frames as frames
from cookbook.panels import trust_words as words
from cookbook.panels.controls import Choice, Combo, Control, Option, Slider
from cookbook.panels.shell import Panel, View, defaults

BANDS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0)
PICTURES = {
    "points": charts.points, "ratios": charts.ratios, "errors": charts.errors, "coverage": charts.coverage,
}  # fmt: skip


def accuracy(
    kind: str = "both", publishers: Any = (), accelerators: Any = (), model: str = judged.FULL,
    by: str = "publisher", band: Any = 20, picture: str = "points",
) -> Panel:  # fmt: skip
    """The panel "How far can you trust a prediction?", in the state that the arguments say.

    Parameters
    ----------
    kind, publishers, accelerators, model
        As for `cb.accuracy`.
    by : str
        What colours and groups: "publisher", "generation", "year", "tier" or "software_level".
    band : float
        Error that still counts as good [%].
    picture : {"points", "ratios", "errors", "coverage"}
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
    return Panel("accuracy", "How far can you trust a prediction?", _controls(), PICTURES, _draw, DEFAULTS, locals(),
                 {"picture": _pictures})  # fmt: skip


DEFAULTS = defaults(accuracy)


@lru_cache(maxsize=1)
def _controls() -> tuple[Control, ...]:
    return (
        Choice("kind", "Training of", "Measured runs", (
            ("both", "both", "Every kind of network"),
            ("transformer", "transformers", "Language models in training, on up to thousands of devices"),
            ("classic", "other networks", "Convolutional, recurrent and other classic networks")),
            tooltip="Kind of training runs"),
        Combo("publishers", "Publishers", "Measured runs", _publisher_options(), many=True, limit=4,
              tooltip="Who published the measurements, four at most; empty: all"),
        Combo("accelerators", "Accelerators", "Measured runs", _device_options(), many=True, limit=4,
              tooltip="What the runs used, four at most; empty: all"),
        Combo("model", "Prediction", "Predicted by", _model_options(),
              tooltip="The full model, the model without one term (all constants fitted anew), or a rule to beat"),
        Choice("by", "Colour and group by", "Shown as", (
            ("publisher", "publisher", "Who measured"), ("generation", "device", "Generation of the accelerator"),
            ("year", "year", "Year of the measurement"),
            ("tier", "evidence", "How well other publishers' measurements cover the run"),
            ("software_level", "software", "Level of the software stack")),
            tooltip="What the runs are grouped by"),
        Slider("band", "Good means within", "Shown as", BANDS, unit="%", tooltip="Error that still counts as good"),
        Choice("picture", "Picture", "", (
            ("points", "Predicted over measured", "Every run, logarithmic"),
            ("ratios", "Ratio", "Predicted over measured as a ratio: where 10 % can be seen"),
            ("errors", "Error by group", "Median and middle half of each group"),
            ("coverage", "Coverage", "Share of the runs inside their 80 % interval")), place="picture"),
    )  # fmt: skip


def _publisher_options() -> tuple[Option, ...]:
    rows = judged.chosen()["publisher"].value_counts().reset_index(name="runs")
    return tuple((row.publisher, row.publisher, "", f"{row.runs:,} runs") for row in rows.itertuples(index=False))


def _device_options() -> tuple[Option, ...]:
    rows = judged.chosen()
    rows = rows[rows["accelerator"] != ""][["accelerator", "device"]].value_counts().reset_index(name="runs")
    return tuple((row.accelerator, row.device, "", f"{row.runs:,} runs") for row in rows.itertuples(index=False))


def _model_options() -> tuple[Option, ...]:
    return tuple((name, name, "", words.family_of(name)) for name in judged.models_of())


def _pictures(values: dict[str, Any]) -> dict[str, str]:
    return {} if values.get("model") == judged.FULL else {"coverage": "only the full model has intervals"}


@lru_cache(maxsize=8)
def _chosen(
    kind: str, publishers: tuple[str, ...], accelerators: tuple[str, ...], model: str, by: str
) -> frames.Chosen:
    return frames.Chosen(judged.chosen(kind, publishers, accelerators), model, by)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    model, by, picture = values["model"], values["by"], values["picture"]
    band = values["band"] / 100
    if model not in judged.models_of():
        raise ValueError(f"model = {model!r} is not a choice; take one of {', '.join(judged.models_of())}")
    if picture == "coverage" and model != judged.FULL:
        raise ValueError("only the full model has intervals: choose Prediction full, or another picture")
    view = _chosen(values["kind"], tuple(values["publishers"]), tuple(values["accelerators"]), model, by)
    rows = view.rows
    drawn = {
        "points": partial(frames.scatter, view, "points", band),
        "ratios": partial(frames.scatter, view, "ratios", band),
        "errors": partial(frames.errors_picture, view, band), "coverage": partial(frames.coverage_picture, view),
    }[picture]()  # fmt: skip
    several = picture in ("errors", "coverage")
    return View(
        answer=words.answer(view, band, picture),
        headline={"median error": view.whole["median_error"], f"share within {100 * band:.0f} %": view.within(band)},
        chips=words.chips(view),
        picture=drawn,
        parts=frames.parts(view),
        parts_title=f"{view.whole['rows']:,} runs by error, predicted by {words.spoken(model)}",
        table=partial(frames.group_table if several else frames.run_table, view),
        data=partial(judged.grouped, rows, by, model) if several else partial(judged.as_rows, rows, model),
        sources=partial(frames.source_rows, view),
        code=_code(values),
    )


def _code(values: dict[str, Any]) -> str:
    changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    names = ("kind", "model", "publishers", "accelerators")
    plain = {name: values[name] for name in names if values[name] != DEFAULTS[name]}
    by = values["by"] if values["picture"] in ("errors", "coverage") else "row"
    return f"cb.panels.accuracy({code.arguments(changed)})\ncb.accuracy({code.arguments({'by': by, **plain})})"
