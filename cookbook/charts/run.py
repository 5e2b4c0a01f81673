"""Charts of a training run: what days cost, and how often to write a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cookbook.charts.engine import alt
from cookbook.charts.look import INK, MUTED, PALETTE
from cookbook.charts.rows import narrow_param, titled
from cookbook.charts.scaling import step_parts

if TYPE_CHECKING:
    import pandas as pd

_CURVE_KEY = "Numbers: devices. Cross: 80 % interval of the days, lowest to highest price."
_HOURS_KEY = "Numbers: devices. Cross: 80 % interval of the days."
_CHECKPOINTS_KEY = "Line: middle of published failure rates; band: the extremes."
_LAYOUTS_KEY = "Right: days of the run, and memory of the fullest device."
_STEPS = (1.0, 2.0, 5.0, 10.0)


def days_usd(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What a run costs over how long it takes, a point for each number of devices.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (curve, here, ghost, deadline or budget), `days`, `cost` [USD], `text` (words beside the
        mark), `devices`; `low`, `high` [days] and `least`, `most` [USD] of what is here.
    title : str, optional
        The takeaway; the cheapest and the fastest by default.

    Returns
    -------
    altair.LayerChart
        Signals: `x_low`, `x_high`, `y_low`, `y_high`, the ends of the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["curve", 20.0, 2e6, "64"], ["curve", 11.0, 2.2e6, "128"]]
    >>> days_usd(pd.DataFrame(rows, columns=["what", "days", "cost", "text"])).title.text
    '128 devices are 1.82 times as fast as 64, for 1.1 times the cost'
    """
    return _curve(frame, "Cost [USD], logarithmic", _CURVE_KEY, title or curve_title(frame))


def days_hours(frame: pd.DataFrame, title: str | None = None) -> Any:
    """The same where no price is known: device-hours over days.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `days_usd`; `cost` in device-hours.
    title : str, optional
        The takeaway; the cheapest and the fastest by default.
    """
    title = title or curve_title(frame, "device-hours")
    return _curve(frame, "Device-hours, logarithmic (no price known)", _HOURS_KEY, title)


def _curve(frame: pd.DataFrame, axis: str, key: str, title: str) -> Any:
    frame = frame.assign(**{name: frame.get(name) for name in ("devices", "low", "high", "least", "most", "text")})
    x = alt.X("days:Q", title="Days from the first to the last token, logarithmic", scale=_log("x"), axis=_ticks())
    y = alt.Y("cost:Q", title=axis, scale=_log("y"), axis=_ticks("~s"))
    tip = [alt.Tooltip("text:N", title="devices"), alt.Tooltip("days:Q", format=",.3~g"),
           alt.Tooltip("cost:Q", title=axis.split(",")[0], format=",.3~s")]  # fmt: skip
    curve, here, ghost, deadline, budget = (_part(each) for each in ("curve", "here", "ghost", "deadline", "budget"))
    words = {"fontSize": 12, "color": INK}
    cross = here.mark_rule(color=PALETTE[1], strokeWidth=2, clip=True)
    limit: dict[str, Any] = {"color": MUTED, "strokeWidth": 2, "strokeDash": [6, 4], "clip": True}
    layers = [
        deadline.mark_rule(**limit).encode(x=x),
        deadline.mark_text(align="left", dx=6, dy=10, **words).encode(x=x, y=alt.value(0), text="text:N"),
        budget.mark_rule(**limit).encode(y=y),
        budget.mark_text(align="right", dx=-6, dy=-8, **words).encode(x=alt.value("width"), y=y, text="text:N"),
        ghost.mark_point(size=110, shape="square", color=MUTED, strokeWidth=2, clip=True).encode(x=x, y=y, tooltip=tip),
        cross.encode(x=alt.X("low:Q", scale=_log("x")), x2="high:Q", y=y),
        cross.encode(x=x, y=alt.Y("least:Q", scale=_log("y")), y2="most:Q"),
        curve.mark_line(color=PALETTE[0], clip=True).encode(x=x, y=y, order="devices:Q"),
        curve.mark_point(filled=True, size=45, opacity=1, color=PALETTE[0], clip=True).encode(x=x, y=y, tooltip=tip),
        curve.mark_text(dy=-12, clip=True, **words).encode(x=x, y=y, text="text:N"),
        here.mark_point(filled=True, size=110, opacity=1, shape="square", color=PALETTE[1], clip=True).encode(
            x=x, y=y, tooltip=tip),
    ]  # fmt: skip
    params = [alt.param(name=name, value=value) for name, value in ends(frame).items()]
    chart = alt.layer(*layers, data=frame).add_params(*params)
    drawn = frame[frame["what"] == "curve"]["text"]
    told = (
        f"A line through {len(drawn)} numbers of devices, from {drawn.iloc[0]} to {drawn.iloc[-1]}: what the run costs "
        "over the days that it takes, both logarithmic. A cross marks the number chosen, with its intervals; dashed "
        "rules are the deadline and the budget."
    )
    return titled(chart, title, key, told)


def _part(name: str) -> Any:
    return alt.Chart().transform_filter(f"datum.what == '{name}'")


def _log(which: str) -> Any:
    low, high = alt.ExprRef(f"{which}_low"), alt.ExprRef(f"{which}_high")
    return alt.Scale(type="log", domainMin=low, domainMax=high, nice=False)


def _ticks(form: str = ",~g") -> Any:
    """Ticks at 1, 2 and 5 times powers of ten."""
    values = [step * 10.0**power for power in range(-4, 12) for step in _STEPS[:3]]
    return alt.Axis(values=values, format=form, labelOverlap="greedy")


def ends(frame: pd.DataFrame) -> dict[str, float]:
    """Ends of the axes, which move by steps of 1, 2 and 5."""
    days = [*frame["days"], *frame.get("low", []), *frame.get("high", [])]
    cost = [*frame["cost"], *frame.get("least", []), *frame.get("most", [])]
    (x_low, x_high), (y_low, y_high) = _around(days), _around(cost)
    return {"x_low": x_low, "x_high": x_high, "y_low": y_low, "y_high": y_high}


def _around(values: Iterable[Any]) -> tuple[float, float]:
    """Steps of 1, 2 and 5 around positive numbers; what is missing does not count.

    >>> _around([3.0, None, 70.0])
    (2.0, 100.0)
    """
    known = [float(value) for value in values if value is not None and math.isfinite(value) and value > 0]
    if not known:
        return 1.0, 10.0
    low, high = min(known) / 1.1, max(known) * 1.1
    steps = [step * 10.0**power for power in range(-6, 14) for step in _STEPS[:3]]
    return max(each for each in steps if each <= low), min(each for each in steps if each >= high)


def curve_title(frame: pd.DataFrame, what: str = "cost") -> str:
    """Takeaway of `days_usd`; of `days_hours` with what = "device-hours"."""
    curve = frame[frame["what"] == "curve"].astype({"days": float, "cost": float})
    cheap, fast = (curve.loc[curve[name].idxmin()] for name in ("cost", "days"))
    if cheap["text"] == fast["text"]:
        return f"{cheap['text']} devices are done first, at the least {what}"
    faster, dearer = cheap["days"] / fast["days"], fast["cost"] / cheap["cost"]
    gain = f"{fast['text']} devices are {faster:.3g} times as fast as {cheap['text']}"
    return f"{gain}, for {dearer:.3g} times the {what}"


def layout_parts(frame: pd.DataFrame, title: str | None = None) -> Any:
    """What a step is made of, one bar a layout, as `step_parts` draws it.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `cookbook.charts.step_parts`, in seconds.
    title : str, optional
        The takeaway; longest and shortest bar by default.
    """
    columns = alt.ExprRef("narrow ? 2 : 3")
    return step_parts(frame, title, "Step [s]", _LAYOUTS_KEY, columns).add_params(narrow_param())


def checkpoints(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Useful share of the time over the work between two checkpoints.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `what` (curve or mark), `minutes` of work between checkpoints, `useful` [%] with `low` and `high`
        of the curve, `text` of the marks.
    title : str, optional
        The takeaway; the best share by default.

    Returns
    -------
    altair.LayerChart
        Signals: `x_low`, `x_high`, `y_low`, the ends of the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["curve", 10.0, 90.0, 80.0, 95.0, None], ["curve", 30.0, 97.0, 90.0, 98.0, None]]
    >>> checkpoints(pd.DataFrame(rows, columns=["what", "minutes", "useful", "low", "high", "text"])).title.text
    'At best 97.0 % of the time is useful'
    """
    x = alt.X("minutes:Q", title="Work between checkpoints [min], logarithmic", scale=_log("x"), axis=_ticks())
    scale = alt.Scale(domainMin=alt.ExprRef("y_low"), domainMax=100, nice=False)
    y = alt.Y("useful:Q", title="Useful share of the time, goodput [%]", scale=scale, axis=alt.Axis(tickCount=6))
    tip = [alt.Tooltip("minutes:Q", format=",.3~g"), alt.Tooltip("useful:Q", title="useful [%]", format=".3~f"),
           alt.Tooltip("text:N", title="by")]  # fmt: skip
    curve, mark = _part("curve"), _part("mark")
    names, legend = ["Young 1974", "Daly 2006"], alt.Legend(orient="top", title=None)
    colour = alt.Color("text:N", scale=alt.Scale(domain=names, range=[PALETTE[2], PALETTE[1]]), legend=legend)
    shape = alt.Shape("text:N", scale=alt.Scale(domain=names, range=["triangle-up", "square"]), legend=legend)
    size = alt.condition(f"datum.text == '{names[0]}'", alt.value(300), alt.value(60))
    points = mark.mark_point(opacity=1, strokeWidth=2, clip=True).encode(
        x=x, y=y, tooltip=tip, size=size, color=colour, shape=shape)  # fmt: skip
    band = curve.mark_area(color=PALETTE[0], opacity=0.2, clip=True)
    layers = [
        band.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        curve.mark_line(color=PALETTE[0], clip=True).encode(x=x, y=y, tooltip=tip), points,
    ]  # fmt: skip
    params = [alt.param(name=name, value=value) for name, value in checkpoint_ends(frame).items()]
    chart = alt.layer(*layers, data=frame).add_params(*params)
    words = (
        f"A curve over {int((frame['what'] == 'curve').sum())} intervals between checkpoints, logarithmic: the share "
        "of the time that goes into work that is kept, which rises, peaks and falls; a band for other published "
        "failure rates, and marks at the intervals by Young and by Daly."
    )
    told = f"At best {frame['useful'].max():.1f} % of the time is useful"
    return titled(chart, title or told, _CHECKPOINTS_KEY, words)


def checkpoint_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Ends of the axes of `checkpoints`."""
    x_low, x_high = _around(frame["minutes"])
    best = float(frame["useful"].max())
    worst = next((low for low in (98.0, 95.0, 90.0, 80.0, 60.0) if 100 - low > 3 * (100 - best)), 0.0)
    return {"x_low": x_low, "x_high": x_high, "y_low": worst}
