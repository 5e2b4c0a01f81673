"""Charts of a shared cluster: every GPU over time, which can be scrubbed, and the gains of policies."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MUTED, PALETTE, alt

# Teams in the order of their letters, and what people use; nothing is drawn where a GPU is idle.
TEAMS = {
    **dict(zip("ABCD", (PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[3]), strict=True)),
    "E": "#8C6A00",
    "F": "#A170C6",
    "G": "#2F8F9D",
    "H": "#8C564B",
    "service": MUTED,
}
HOURS_AROUND = 24  # that are drawn on either side of the hour chosen
_DAYS = "['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']"
_CLOCK = f"{_DAYS}[floor((datum.value + 168) / 24) % 7] + ' ' + format((datum.value + 168) % 24, '02d') + ':00'"
_KEY = "Each line is one GPU; a gap is idle time. The rule is the chosen hour, with its use and waiting jobs above."
_GAINS_KEY = "Points are means over weeks, lines 90 % intervals. The dashed line is the claimed gain."


def timeline(frame: pd.DataFrame, title: str | None = None, slider: bool = False) -> Any:
    """Return a chart of every GPU's job over time, two days around an hour that can be moved.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows. Where `what` is "stay": `node` and `low`, `high` (lanes, with one free between two nodes), `start`,
        `end` [h], `team` (a key of `TEAMS`, or any name), `kind`, `gpus`. Where it is "hour": `start` [h], `text`, and
        how many are `waiting` and `idle`.
    title : str, optional
        The takeaway; the worst hour by default.
    slider : bool
        Whether a slider under the chart moves the hour, from the worst on, with no kernel needed; else it is a signal.

    Returns
    -------
    altair.LayerChart
        Signals: `hour` in the middle; `top`, the end of the vertical axis; `pitch`, lanes from node to node.

    Examples
    --------
    >>> stay = {"what": "stay", "node": 0, "low": 0, "high": 8, "start": 0.0, "end": 5.0, "team": "A"}
    >>> hour = {"what": "hour", "start": 2.0, "text": "8 of 8 GPUs in use", "waiting": 1, "idle": 0}
    >>> timeline(pd.DataFrame([{**stay, "kind": "language", "gpus": 8}, hour])).title.text
    'At the worst hour 1 job waits beside 0 idle GPUs'
    """
    x = alt.X(
        "start:Q",
        title=None,
        scale=alt.Scale(
            domainMin=alt.ExprRef(f"hour - {HOURS_AROUND}"), domainMax=alt.ExprRef(f"hour + {HOURS_AROUND}"), nice=False
        ),
        axis=alt.Axis(labelExpr=_CLOCK, values=list(range(-48, 24 * 54, 12)), labelOverlap=True),
    )
    names = alt.Axis(
        labelExpr="'node ' + (1 + floor(datum.value / pitch))",
        grid=False,
        ticks=False,
        values=alt.ExprRef("sequence((pitch - 1) / 2, top, pitch)"),
        labelOverlap=True,
    )
    y = alt.Y(
        "low:Q",
        title=None,
        axis=names,
        scale=alt.Scale(domainMin=0, domainMax=alt.ExprRef("top"), nice=False, reverse=True),
    )
    tip = [
        alt.Tooltip("team:N"),
        alt.Tooltip("kind:N", title="job"),
        alt.Tooltip("gpus:Q", title="GPUs"),
        *look.number_tips(",.4~g", "start", "end"),
    ]
    colours = _colours(frame)
    teams = [team for team in colours if team in set(frame["team"].dropna())]
    colour = look.coloured(
        "team", colours, look.top_legend(symbolType="square", columns=5, values=alt.ExprRef("teams"))
    )
    in_view = f"datum.end > hour - {HOURS_AROUND} && datum.start < hour + {HOURS_AROUND}"
    stays = look.rows_of("stay").transform_filter(in_view).mark_rect(stroke="#ffffff", strokeWidth=0.5, clip=True)
    now = look.rows_of("hour").transform_filter("datum.start == hour")
    layers = [
        stays.encode(x=x, x2="end:Q", y=y, y2="high:Q", color=colour, tooltip=tip),
        now.mark_rule(color=INK, strokeDash=[4, 3]).encode(x=x),
        now.mark_text(fontSize=12, dy=-8, clip=False, color=INK).encode(x=x, y=alt.value(0), text="text:N"),
    ]
    nodes, pitch = int(frame.loc[frame["what"] == "stay", "node"].max()) + 1, 9
    hours = frame[frame["what"] == "hour"].reset_index(drop=True)
    worst = hours.loc[hours[["waiting", "idle"]].min(axis=1).idxmax()]
    wait = f"{worst['waiting']:.0f} {'job waits' if worst['waiting'] == 1 else 'jobs wait'}"
    headline = f"At the worst hour {wait} beside {worst['idle']:.0f} idle GPUs"
    words = (
        "Every GPU of the cluster as a line over two days around an hour, coloured by the team whose job has it; "
        "a gap where it is idle. A dashed rule marks the hour."
    )
    chart = look.finished(
        frame,
        layers,
        title or headline,
        _KEY,
        words,
        top=float(nodes * pitch),
        pitch=pitch,
        teams=teams,
        **({} if slider else {"hour": float(worst["start"])}),
    )
    if not slider:
        return chart
    ends = (float(hours["start"].min()), float(hours["start"].max()))
    bound = alt.binding_range(min=ends[0], max=ends[1], step=1, name="Hour ")
    return chart.add_params(alt.param(name="hour", value=float(worst["start"]), bind=bound))


def _colours(frame: pd.DataFrame) -> dict[str, str]:
    """Return colours of all teams: names that are not in `TEAMS` get the remaining ones, in alphabetical order."""
    present = set(frame["team"].dropna())
    fixed = {name: colour for name, colour in TEAMS.items() if name in present or name == "service"}
    spare = [colour for name, colour in TEAMS.items() if name not in fixed]
    others = sorted(present - set(TEAMS))
    if not others:
        return TEAMS
    return {**dict(zip(others, itertools.cycle(spare or PALETTE), strict=False)), **fixed}


def gains(frame: pd.DataFrame, of: str, title: str | None = None, claim: float | None = None) -> Any:
    """Return a chart of the gains of policies over another on the same weeks, by load.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `load`, `policy` (five at most), and under the name of the measure the gain as a share, with its
        interval under that name and "_low" and "_high".
    of : str
        That name.
    title : str, optional
        The takeaway; the largest gain by default.
    claim : float, optional
        The claim, as a share: a dashed line.

    Returns
    -------
    altair.LayerChart
        A line for each policy, with its interval.

    Examples
    --------
    >>> rows = [{"load": 0.5, "policy": "fifo", "finished": 0.01, "finished_low": 0.0, "finished_high": 0.02}]
    >>> gains(pd.DataFrame(rows), "finished", claim=0.2).title.text
    'The largest gain is 1 %, with fifo at a load of 0.5'
    """
    colours = dict(zip(dict.fromkeys(frame["policy"]), PALETTE, strict=False))
    low, high = f"{of}_low", f"{of}_high"
    best = frame.loc[frame[of].idxmax()]
    x = alt.X(
        "load:Q",
        title="Load: requested GPU time over capacity",
        scale=alt.Scale(zero=False, nice=False, padding=12),
        axis=alt.Axis(values=sorted(set(frame["load"])), format="~g"),
    )
    ends = [min(0.0, float(frame[low].min())), 1.08 * max(float(frame[high].max()), claim or 0.0)]
    y = alt.Y(
        f"{of}:Q",
        title="Gain [%]",
        scale=alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(labelExpr="format(100 * datum.value, '~g')"),
    )
    colour = look.coloured("policy", colours, look.top_legend(symbolType="square", columns=5))
    shapes = alt.Scale(domain=list(colours), range=list(look.SHAPES[: len(colours)]))
    shape = alt.Shape("policy:N", scale=shapes, legend=None)
    tip = [alt.Tooltip("policy:N"), *look.number_tips(",.3~g", "load", of, low, high)]
    point = alt.Chart().mark_point(filled=True, size=60, opacity=1)
    layers = [
        alt.Chart().mark_rule().encode(x=x, y=alt.Y(f"{low}:Q", title="Gain [%]"), y2=f"{high}:Q", color=colour),
        alt.Chart().mark_line().encode(x=x, y=y, color=colour),
        point.encode(x=x, y=y, color=colour, shape=shape, tooltip=tip),
    ]
    if claim is not None:
        layers.append(look.one_row(claimed=str(claim)).mark_rule(color=MUTED, strokeDash=[6, 4]).encode(y="claimed:Q"))
    headline = f"The largest gain is {100 * best[of]:.0f} %, with {best['policy']} at a load of {best['load']:g}"
    loads = f"{frame['load'].min():g} to {frame['load'].max():g}"
    words = f"Lines of what {len(colours)} policies gain over loads from {loads}, with intervals."
    return look.finished(frame, layers, title or headline, _GAINS_KEY, words)
