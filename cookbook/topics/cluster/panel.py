"""Panel of recipe 13: a cluster that teams share, its GPUs over a week, and who waits while some are idle."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import as_python
from cookbook.catalog.fields import Amount
from cookbook.charts.look import MUTED, TIME_PARTS
from cookbook.panels.controls import Choice, Control, Slider
from cookbook.panels.options import cited
from cookbook.panels.shell import Panel, Part, Picture, View, panel_call
from cookbook.topics.cluster import charts
from cookbook.topics.cluster.study import ClusterRun
from cookbook.topics.cluster.study import cluster as simulate
from cookbook.units import dollars, human

PER_NODE = 8
POLICIES = (
    ("static", "static", "Each team has its own GPUs, which nobody else may use"),
    ("fifo", "FIFO", "One queue for all; nobody overtakes"),
    ("backfill", "backfill", "A job may overtake if it is predicted to delay no other (EASY)"),
    ("fair", "fair share", "The team that uses the fewest GPUs goes first"),
    ("priority", "priority", "Urgent jobs stop others, which write a checkpoint and wait again"),
    ("elastic", "elastic", "Jobs shrink when others wait, and grow when nobody does"),
)
PLACES = (
    ("pack", "packed", "A job uses as few nodes as possible"),
    ("same node", "same node", "A job waits until the smallest number of nodes can take it"),
    ("spread", "spread", "A job is spread over all nodes with free GPUs"),
)
MIXES = (
    ("research", "research", "Many small jobs"),
    ("mixed", "mixed", "Jobs of all sizes"),
    ("large", "large", "More jobs of one or several whole nodes"),
)
NIGHTS = (
    ("day and night", "kept", "The service keeps the GPUs of its peak all day and night"),
    ("by day", "lent", "Training uses the GPUs that the service does not need at night"),
)
PRESETS = (
    ("Each team keeps its own quarter", {"policy": "static"}),
    ("One queue for everybody", {"policy": "fifo"}),
    ("Small jobs may overtake", {"policy": "backfill"}),
    ("A chat service by day, training at night", {"policy": "priority", "service": 24, "night": "by day", "load": 0.6}),
)
SEEDS, LOADS = tuple(range(31)), tuple(round(0.05 * step, 2) for step in range(4, 31))


def cluster(
    policy: str = "static",
    load: Amount = 0.8,
    mix: str = "mixed",
    nodes: Amount = 8,
    hour: Amount = 60,
    teams: Amount = 4,
    skew: Amount = 2,
    place: str = "pack",
    share: Amount = 1,
    service: Amount = 0,
    night: str = "day and night",
    seed: Amount = 0,
) -> Panel:
    """Return the panel "Why is my cluster idle while people wait?" in the state that the arguments describe.

    Parameters
    ----------
    policy, place : str
        Who gets GPUs next, and which: as for `cb.planning.cluster`.
    load, mix : float, str
        GPU time that jobs ask over what there is, and which jobs.
    nodes, teams, skew : int, int, float
        Nodes of eight GPUs; teams, and how many times as many jobs the busiest sends as the quietest.
    hour : int
        Hour of the week in the middle of the chart, from Monday.
    share, service, night : int, int, str
        Small jobs that may share a GPU; GPUs of a service at its peak; "day and night" or "by day".
    seed : int
        Which week is drawn.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = cluster("fifo", load=0.5, nodes=4)
    >>> panel.answer.split(" while ")[1].split(",")[0]
    'jobs wait: FIFO'
    """
    return Panel(
        cluster,
        "Why is my cluster idle while people wait?",
        _controls,
        {"gpus": charts.timeline},
        _draw,
        locals(),
        {"night": lambda v: {"*": "there is no service; set Service above 0"} if v.get("service") == 0 else {}},
        presets=PRESETS,
    )


def _controls() -> tuple[Control, ...]:
    return (
        Choice(
            "policy", "Policy", "Who goes next", POLICIES, tooltip="Rule by which free GPUs are given to waiting jobs"
        ),
        Slider(
            "load", "Load", "Jobs", LOADS, whole=False, tooltip="GPU time that jobs request, relative to the capacity"
        ),
        Choice("mix", "Mix", "Jobs", MIXES, tooltip="Frequencies of the classes of jobs"),
        Slider(
            "nodes", "Nodes", "Cluster", (2, 3, 4, 6, 8, 10, 12, 16), "nodes of 8 GPUs", tooltip="Nodes of eight A100"
        ),
        Slider("hour", "Hour", "Week", tuple(range(169)), "h", tooltip="Hour of the week, from Monday: drag to scrub"),
        Slider("seed", "Week", "Week", SEEDS, tooltip="Another week of jobs drawn from the same distributions"),
        Slider("teams", "Teams", "Jobs", tuple(range(1, 9)), more=True, tooltip="Teams that share the cluster"),
        Slider(
            "skew",
            "Busiest team",
            "Jobs",
            (1, 1.5, 2, 3, 4, 6, 8),
            "× the quietest",
            whole=False,
            more=True,
            tooltip="Jobs of the busiest team, relative to the quietest",
        ),
        Choice("place", "Placement", "Cluster", PLACES, more=True, tooltip="Choice among the free GPUs for a job"),
        Slider(
            "share",
            "Shared GPU",
            "Cluster",
            tuple(range(1, 6)),
            "small jobs",
            more=True,
            tooltip="Largest number of notebooks and tests that share one GPU",
        ),
        Slider(
            "service",
            "Service",
            "Cluster",
            tuple(range(0, 65, 4)),
            "GPUs at its peak",
            more=True,
            zero="none",
            tooltip="GPUs that an interactive service needs in the afternoon",
        ),
        Choice(
            "night",
            "Service at night",
            "Cluster",
            NIGHTS,
            more=True,
            tooltip="Use of the GPUs that the service does not need at night",
        ),
    )


@lru_cache(maxsize=64)
def _run(**arguments: Any) -> tuple[ClusterRun, pd.DataFrame]:
    result = simulate(**arguments, per_node=PER_NODE, progress=False)
    return result, result.drawn()


def _asked(values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the simulation: without the hour, and with the values of words."""
    return {
        **{name: value for name, value in values.items() if name not in ("hour", "night")},
        "beside": values["night"] == "by day",
    }


def _draw(values: dict[str, Any], _pinned: View | None) -> View:
    arguments = _asked(values)
    result, drawn = _run(**arguments)
    measures, name = result.measures, dict((key, label) for key, label, _ in POLICIES)[values["policy"]]
    idle = f"{100 * measures['idle_waiting']:.0f} %"
    sources = {
        **dict.fromkeys(catalog.table("cluster_jobs")["source"], "classes of jobs: assumptions"),
        **dict.fromkeys(catalog.table("cluster_facts")["source"], "published clusters, and the claim"),
    }
    return View(
        answer=_answer(measures, name, idle, result.gpus),
        headline={"idle while jobs wait": measures["idle_waiting"], "mean wait": measures["wait_mean"]},
        chips=(
            ("a simulated week", "Jobs are drawn from stated distributions; another week gives other values."),
            ("speeds predicted", "Speeds on other numbers of GPUs and across nodes are predicted by cb.train_step."),
        ),
        picture=Picture(
            "gpus",
            drawn,
            f"{name}: {idle} of the GPU time is idle while jobs wait",
            {
                "hour": float(values["hour"]),
                "top": float(values["nodes"] * (PER_NODE + 1)),
                "pitch": PER_NODE + 1,
                "teams": [team for team in charts.TEAMS if team in set(drawn["team"].dropna())],
            },
        ),
        parts=_parts(measures),
        parts_title=f"GPU time of the week: {result.gpus} GPUs",
        table=lambda: _table(result),
        data=lambda: result.jobs,
        sources=lambda: cited(sources, "not opened: "),
        code=f"{panel_call(cluster, values)}\ncb.planning.cluster({_arguments(arguments)})",
    )


def _arguments(arguments: dict[str, Any]) -> str:
    plain = {name: value for name, value in arguments.items() if name not in ("policy", "beside") or value is False}
    named = [f"{name}={as_python(value)}" for name, value in plain.items() if arguments["service"] or name != "beside"]
    return ", ".join([as_python(arguments["policy"]), *(each for each in named if each != "service=0")])


def _answer(measures: Any, name: str, idle: str, gpus: int) -> str:
    """Return the share of GPU time that is idle while jobs wait, and the waits."""
    waits = [human(measures[f"wait_{part}"], "s") for part in ("mean", "p50", "p95")]
    served = f", by the service: {100 * measures['service']:.0f} %" if measures["service"] else ""
    return (
        f"**{idle}** of GPU time is idle while jobs wait: {name}, {gpus:,} GPUs, mean wait {waits[0]}. "
        f"Waits: half of the jobs wait {waits[1]} or less, one in twenty more than {waits[2]}. "
        f"In use by jobs: {100 * measures['utilisation']:.0f} %{served}. "
        f"Done: {measures['finished']:,.0f} jobs in the week. "
        f"Fairness between teams: {measures['fairness']:.2f} of 1. "
        f"Cost: {dollars(measures['usd_per_job'])} per job, with all GPUs paid for the whole week."
    )


def _parts(measures: Any) -> tuple[Part, ...]:
    """Return the shares of the GPU time of the week."""
    used, work = measures["utilisation"], min(measures["effective"], measures["utilisation"])
    waiting, rest = measures["idle_waiting"], 1 - used - measures["service"]
    parts = (
        (
            "useful work",
            work,
            TIME_PARTS["compute"],
            "Work, counted at the speed of a packed job that keeps its GPUs busy.",
        ),
        (
            "allocated, not used",
            used - work,
            TIME_PARTS["optimiser"],
            "Allocated without useful work: restarts, lost work, slow placements, GPUs that small jobs use partly.",
        ),
        ("service", measures["service"], MUTED, "GPUs of the interactive service."),
        (
            "idle, jobs wait",
            waiting,
            TIME_PARTS["waiting"],
            "Free GPUs while at least one job waits: too few for it, of another team, or reserved for a larger job.",
        ),
        (
            "idle, nobody waits",
            max(rest - waiting, 0.0),
            TIME_PARTS["data-parallel communication"],
            "Free GPUs, and an empty queue.",
        ),
    )
    return tuple(
        Part(name, share, f"{100 * share:.0f} %", colour, words) for name, share, colour, words in parts if share > 0
    )


def _table(result: ClusterRun) -> pd.DataFrame:
    """Return number, waits and run time of each class of jobs."""
    begin, end = result.window
    each = result.jobs[result.jobs["arrival"].between(begin, end)]
    names = catalog.table("cluster_jobs").set_index("key")["name"]
    rows = []
    for kind, own in each.groupby("kind", sort=False):
        rows.append(
            {
                "Jobs": names[kind],
                "GPUs": f"{own['gpus'].iloc[0]}",
                "Number": f"{len(own):,}",
                "Mean wait": human(own["wait"].mean(), "s"),
                "Longest wait": human(own["wait"].max(), "s"),
                "Mean time, start to end": human((own["end"] - own["start"]).mean(), "s"),
                "GPU time": f"{100 * own['granted'].sum() / each['granted'].sum():.0f} %",
            }
        )
    return pd.DataFrame(rows)
