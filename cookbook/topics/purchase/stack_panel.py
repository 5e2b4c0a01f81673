"""Panel of recipe 14: which complete stack for an application, and does one size fit all?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook.catalog.calls import as_python, keywords
from cookbook.catalog.fields import Amount
from cookbook.catalog.prices import BOUGHT
from cookbook.charts import devices
from cookbook.charts.look import row_order
from cookbook.panels.controls import Choice, Combo, Control, Slider, one_two_five, picture_control
from cookbook.panels.options import networks, printed
from cookbook.panels.shell import Off, Panel, Picture, View, panel_call
from cookbook.panels.text import KILO, counted, dollar_range, duration, in_words, percent
from cookbook.topics.costs.cost import UNVALIDATED
from cookbook.topics.purchase import charts
from cookbook.topics.purchase.places import BY_HOUR
from cookbook.topics.purchase.stack import (
    OneSize,
    StackChoice,
    applications_known,
    one_size,
    pick_stack,
    several,
    times,
)
from cookbook.topics.purchase.stack_sizes import SERVE, TASKS, TRAIN, told_time
from cookbook.topics.purchase.where import horizon, overlap, rank
from cookbook.topics.purchase.where_panel import (
    DATA_LOCATIONS,
    DEADLINES,
    UNQUOTED,
    cost_picture,
    costs_over,
    feasible_and_cost,
    figure_sources,
    money_parts,
    own_prices,
    quoted_price,
    quotes,
    whole_numbers,
)
from cookbook.units import dollars, human

USUAL = "usual"
# A stack that costs less than this multiple of the best everywhere nearly fits all: prices are known no more closely.
TIED = 1.05
PICTURES = {"costs": devices.place_costs, "matrix": charts.fit_matrix}
LATENCIES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
DOES = {"train": "training", "fine-tune": "fine-tuning", "serve": "serving"}
# What limits an accelerator, in the terms of every chart.
LIMITS = {
    "products": "matmuls",
    "weights": "reading weights",
    "cache": "reading keys and values",
    "elementwise": "memory traffic",
    "exchange": "communication",
    "weight exchange": "communication",
    "decoding": "decoding on the host",
    "network": "the storage network",
    "storage": "the storage",
    "copying": "copies to the accelerator",
}
SOFTWARE = {
    "eager": "an eager framework",
    "compiled": "a compiled framework",
    "tuned": "tuned software",
    "vllm": "vLLM",
    "megatron-core": "Megatron Core",
}
SHORT = {
    "data would leave": "data would leave",
    "does not fit": "does not fit",
    "too late": "too late",
    "too slow": "too slow",
    "over the budget": "over the budget",
    "its machines are rated": "too much power",
    "its time": "time not stated",
    "it does not stay": "no steady machine",
    "one copy": "too little memory",
    "services": "no such service",
    "no list price": "no list price",
    "no row of": "no price known",
    "one request": "does not fit",
}


def stack(
    application: str = "image",
    task: str = "train",
    runs: Amount | None = None,
    rate: Amount | None = None,
    private: str = "anywhere",
    budget: Amount = 0,
    model: str = USUAL,
    deadline: Amount | None = None,
    latency: Amount | None = None,
    power: Amount = 0,
    years: Amount = 3,
    quoted: str = "cloud-h100",
    hourly: Amount = 0,
    bought: str = "workstation",
    purchase: Amount = 0,
    picture: str = "costs",
) -> Panel:
    """Return the panel "Which stack?" in the state that the arguments describe.

    Parameters
    ----------
    application, task, runs, rate, private, deadline, latency, years
        As for `cb.planning.pick_stack`; those left out are those of its table.
    budget, power : float
        Most that may be spent over the horizon [USD], and most that machines in the house may be rated for [kW]; 0 for
        no limit.
    model : str
        A network of the zoo; "usual" for the one of the table ``applications``.
    quoted, hourly
        A rented stack, and your price of an hour of one of its accelerators [USD]; 0 for list prices.
    bought, purchase
        A stack that is bought, and your quote for one machine of it [USD]; 0 for list prices.
    picture : {"costs", "matrix"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = stack("chat", "serve")
    >>> panel.update(private="in house")
    >>> "Cloud" in panel.answer.split(":")[1]
    False
    """
    return Panel(stack, "Which stack?", _controls, PICTURES, _draw, locals(), OFF)


def _one_alone(values: dict[str, Any]) -> dict[str, str]:
    whole = values.get("picture") == "matrix"
    return {"*": "the chart of all applications uses typical targets"} if whole else {}


def _task_alone(serves: bool, values: dict[str, Any]) -> dict[str, str]:
    """Return the reason why a control of services, or of runs, is not available."""
    if (values.get("task") == SERVE) == serves:
        return _one_alone(values)
    return {"*": f"this applies to {'services' if serves else 'runs'} alone"}


OFF: dict[str, Off] = {
    **dict.fromkeys(("runs", "deadline"), partial(_task_alone, False)),
    **dict.fromkeys(("rate", "latency"), partial(_task_alone, True)),
    "model": _one_alone,
    **UNQUOTED,
}


def _controls() -> tuple[Control, ...]:
    usual = (USUAL, "The typical network", "default", "of the application")
    applications = tuple((name, name.capitalize(), "", "") for name in applications_known())
    return (
        Combo("application", "Application", "Task", applications, ranked=True, tooltip="Field of application"),
        Choice(
            "task",
            "Task",
            "Task",
            tuple((name, name.capitalize(), f"To {name} the network") for name in TASKS),
            tooltip="Task",
        ),
        Slider(
            "runs",
            "Runs per month",
            "Task",
            one_two_five(0.1, 200, also=[4]),
            whole=False,
            optional=True,
            tooltip="Number of runs per month. Empty: typical of the application",
        ),
        Slider(
            "rate",
            "Requests",
            "Task",
            one_two_five(0.1, 100_000),
            whole=False,
            optional=True,
            unit="per second",
            tooltip="Requests per second, day and night. Empty: typical of the application",
        ),
        Choice(
            "private",
            "Data location",
            "Limits",
            DATA_LOCATIONS,
            tooltip="Locations where the data may be stored: a hard limit",
        ),
        Slider(
            "budget",
            "Budget",
            "Limits",
            (0.0, *one_two_five(10, 1e7)),
            unit="$",
            whole=False,
            zero="no limit",
            tooltip="Largest cost over the horizon. 0: no limit",
        ),
        Combo(
            "model",
            group="Task",
            options=(usual, *networks()),
            ranked=True,
            more=True,
            tooltip="Network; one that does not suit the application is refused",
        ),
        Slider(
            "deadline",
            "Deadline of a run",
            "Limits",
            DEADLINES,
            seconds=True,
            whole=False,
            optional=True,
            more=True,
            tooltip="Longest time of one run, including the upload of the data. Empty: typical",
        ),
        Slider(
            "latency",
            "Latency limit",
            "Limits",
            LATENCIES,
            seconds=True,
            whole=False,
            optional=True,
            more=True,
            tooltip="Longest time to an answer (of a chat, to its first token), including the network. Empty: typical",
        ),
        Slider(
            "power",
            "On-premises power",
            "Limits",
            (0.0, *one_two_five(0.1, 1000)),
            unit="kW",
            whole=False,
            more=True,
            zero="no limit",
            tooltip="Largest rated power of machines on the premises. 0: no limit",
        ),
        Slider(
            "years",
            "Horizon",
            "Limits",
            (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
            unit="years",
            whole=False,
            more=True,
            tooltip="Time over which costs are counted",
        ),
        *quotes("stacks"),
        picture_control(
            ("costs", "This application", "Every stack with its interval"),
            ("matrix", "All applications", "Every application and every stack"),
        ),
    )


def _asked(values: dict[str, Any]) -> dict[str, Any]:
    """Keywords of `pick_stack` that a state means."""
    whole = values["picture"] == "matrix"
    names = () if whole else ("runs", "deadline") if values["task"] != SERVE else ("rate", "latency")
    choice = {name: values[name] for name in names if values[name] is not None}
    choice |= {"private": values["private"]} if values["private"] != "anywhere" else {}
    choice |= {"budget": values["budget"]} if values["budget"] else {}
    choice |= {"model": values["model"]} if values["model"] != USUAL and not whole else {}
    choice |= {"power": values["power"] * KILO} if values["power"] else {}
    choice |= {"prices": prices} if (prices := own_prices("stacks", values)) else {}
    return choice | ({"years": values["years"]} if values["years"] != 3 else {})


def _keywords(arguments: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return a state as keywords of a call, with prices as a mapping."""
    return {name: dict(value) if name == "prices" else value for name, value in arguments}


@lru_cache(maxsize=64)
def _found(application: str, task: str, arguments: tuple[tuple[str, Any], ...]) -> StackChoice:
    return pick_stack(application, task, **_keywords(arguments))


_changes = lru_cache(maxsize=64)(StackChoice.changes)
# The frame of answer, chart and table; read-only.
_frame = lru_cache(maxsize=64)(StackChoice.frame)


@lru_cache(maxsize=32)
def _matrix(task: str, arguments: tuple[tuple[str, Any], ...]) -> OneSize:
    return one_size(task, **_keywords(arguments))


def _draw(values: dict[str, Any], _pinned: View | None) -> View:
    arguments = _asked(values)
    choice = _found(values["application"], values["task"], tuple(arguments.items()))
    row = _frame(choice).iloc[0]
    whole = values["picture"] == "matrix"
    sizes = _matrix(values["task"], tuple(arguments.items())) if whole else None
    costs = partial(cost_picture, _frame(choice), choice.best, "stack", _short)
    return View(
        answer=(_of_all(sizes, values["task"], row) if sizes else _answer(choice, values))
        + quoted_price("stacks", values),
        headline={"cheapest stacks": float(len(set(sizes.wins.values())))} if sizes else {"cost": float(row["usd"])},
        chips=_chips(choice),
        picture=_grid(sizes, values["task"]) if sizes else costs(),
        parts=money_parts(choice.where, choice.best),
        parts_title=f"{row['name']}: {costs_over(choice.wanted.years)}",
        table=partial(_matrix_table, sizes) if sizes else partial(_table, choice),
        data=(lambda: sizes.table) if sizes else partial(_frame(choice).reset_index),
        sources=partial(figure_sources, choice.where, {"recalled-typical": "stacks and typical targets"}),
        code=_code(values, arguments),
        stood_for={name: value for name, value in _usual(choice).items() if values[name] in (None, USUAL)},
    )


def _usual(choice: StackChoice) -> dict[str, Any]:
    wanted = choice.wanted
    if wanted.task == SERVE:
        return {"model": wanted.model, "rate": wanted.rate, "latency": choice.limits["latency"]}
    return {"model": wanted.model, "runs": wanted.runs, "deadline": choice.limits["deadline"]}


def _code(values: dict[str, Any], arguments: dict[str, Any]) -> str:
    """The panel's state, then the call behind it."""
    times_ = {name: duration(values[name]) for name in ("deadline", "latency") if values[name] is not None}
    written = {name: as_python(value) for name, value in (whole_numbers(values) | times_).items()}
    panel = panel_call(stack, values, written=written)
    keyword_values = {
        name: times_.get(name, value) for name, value in whole_numbers(_keywords(arguments.items())).items()
    }
    more = f", {keywords(keyword_values)}" if keyword_values else ""
    if values["picture"] == "matrix":
        return f"{panel}\ncb.planning.one_size({as_python(values['task'])}{more}).frame()"
    case = f"{as_python(values['application'])}, {as_python(values['task'])}"
    return f"{panel}\nfound = cb.planning.pick_stack({case}{more})\nfound.frame()\nfound.changes()"


def _answer(choice: StackChoice, values: dict[str, Any]) -> str:
    """Return the answer: the best stack, its certainty, its composition, and what would change it."""
    table = _frame(choice)
    row, count = table.iloc[0], int(table["will_do"].sum())
    among = rank(count, "stack", overlap(table, "usd"))
    network = printed("models", "name", "title", str(choice.wanted.model))
    # Samples of a service draw prices alone.
    serves = choice.wanted.task == SERVE
    samples = "samples of prices, with this number of machines" if serves else "Monte Carlo samples"
    second = "" if count < 2 else f"; second: {table['name'].iloc[1]} at {dollars(table['usd'].iloc[1])}"
    return (
        f"**{dollars(row['usd'])}** over {horizon(choice.wanted.years)}: {row['name']} {among}. "
        f"Interval (80 %): {dollar_range(row['usd_low'], row['usd_high'])}; the cheapest in "
        f"{percent(choice.odds[choice.best])} of {samples}{second}. "
        f"{values['application'].capitalize()}, {DOES[values['task']]}: {network}, {_does(choice, row)}"
        f"{_within(choice)}. "
        f"Stack: {_made_of(choice, row)}. Changes with: {_turns(choice)}."
    )


def _does(choice: StackChoice, row: Any) -> str:
    """Return the performance of the stack and its limit."""
    limit = LIMITS.get(row["limit"], row["limit"])
    limited = f", limited by {limit}" if limit else ""
    if choice.wanted.task == SERVE:
        return f"{choice.wanted.rate:,g} requests/s, an answer in {told_time(row['latency'])}{limited}"
    return f"a run takes {human(row['hours'] * 3600, 's')}{limited}"


def _within(choice: StackChoice) -> str:
    """Limits of money and power that were set."""
    budget, power = (choice.limits[name] for name in ("budget", "power"))
    limits = [
        *([f"{dollars(budget)} in all"] if budget else []),
        *([f"{human(power, 'W')} on the premises"] if power else []),
    ]
    return f", within {' and '.join(limits)}" if limits else ""


def _made_of(choice: StackChoice, row: Any) -> str:
    """Accelerators in a typical machine, with the number of prices behind either, storage, network and software."""
    rows = choice.where.places[choice.best].figures["price"].rows
    device = printed("accelerators", "key", "name", row["accelerator"])
    priced = {0: "", 1: " at a single price"}.get(rows, f" at the median of {rows} prices")
    other = " (the price may be another provider's)" if rows and row["way"] in BY_HOUR else ""
    machine = f" in a machine like {printed('systems', 'key', 'name', row['system'])}" if row["system"] else ""
    storage = printed("storage", "key", "name", row["storage"])
    count = f"{row['machines']:,.0f} machines of " if row["machines"] > 1 else ""
    software = SOFTWARE.get(row["software"], row["software"])
    each = f"{row['devices'] // row['machines']:,} × {device}"
    # What is bought is priced as a machine, what is rented by the accelerator.
    whole = f"{each}{machine}{priced}" if row["way"] == BOUGHT else f"{each}{priced}{machine}{other}"
    return f"{count}{whole}, {storage}, {row['network']}, {software}"


def _turns(choice: StackChoice, most: int = 2) -> str:
    """The nearest changes from which another stack wins."""
    table = _changes(choice)
    if table.empty:
        return "no input alone, up to a hundred times as large or as small"
    phrases = list[str]()
    for row in table.itertuples():
        if any(words.endswith(row.name) for words in phrases):
            continue
        phrases.append(f"{_turned(choice, row)} (then {row.name})")
    return ", or ".join(phrases[:most])


def _turned(choice: StackChoice, row: Any) -> str:
    """Return one change in words: the value from which another stack is cheaper."""
    serves, value = choice.wanted.task == SERVE, row.at
    return {
        "price": f"its price at {times(row.factor)}",
        "use": f"{value:.3g} hours per day" if serves else f"{value:,.3g} runs per month",
        "volume": f"{_digits(value)} {'requests/s' if serves else 'samples'}",
        "years": f"{value:.3g} years",
        "deadline": f"a deadline of {human(value, 's')}",
    }[row.input]


def _digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}" if value < 1e6 else f"{value / 1e6:,.3g} million"


def _of_all(sizes: OneSize, task: str, row: Any) -> str:
    """Return the answer to whether one size fits all."""
    different, cases = len(set(sizes.wins.values())), len(sizes.wins)
    name = printed("stacks", "key", "name", sizes.size)
    tied = different > 1 and sizes.does == cases and sizes.worst < TIED
    fits = "one size fits all" if different == 1 else "one size nearly fits all" if tied else "no one size fits all"
    won = pd.Series(list(sizes.wins.values())).value_counts()
    winners = ", ".join(f"{printed('stacks', 'key', 'name', key)} ({count})" for key, count in won.items())
    alone = f"at {times(sizes.penalty)} the best cost as a geometric mean and {times(sizes.worst)} at most"
    alone = f"within {100 * (sizes.worst - 1):.1f} % of the best cost everywhere" if tied else alone
    alone = f"feasible for {sizes.does} of {cases}, {'each at the least cost' if sizes.worst < 1.001 else alone}"
    left = f" Left out: {counted(sizes.left, 'application')} without a feasible stack within the limits." * bool(
        sizes.left
    )
    return (
        f"**{counted(different, 'stack')}** {_least(different, cases, task)}: {fits}. Cases: {winners}. "
        f"One size: {name}; {alone}.{left} Your application: {row['name']}, {dollars(row['usd'])}."
    )


def _least(different: int, cases: int, task: str) -> str:
    """Return what the cheapest stacks of all cases do, in words: intervals are not compared."""
    verb = "costs" if different == 1 else "cost"
    return f"{verb} least by the medians in the {counted(cases, f'{DOES[task]} application')}"


def _chips(choice: StackChoice) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the answer is known."""
    row = _frame(choice).iloc[0]
    names = {
        f"model = {choice.wanted.model}": ("models", "name", "title", choice.wanted.model),
        f"data = {choice.wanted.data}": ("data_sets", "key", "name", choice.wanted.data),
    }
    assumptions = in_words(
        f"{each.partition(' = ')[0]} = {printed(*names[each])}" if each in names else each for each in choice.assumed
    )
    return (
        (
            f"priced {row['priced']}" if row["priced"] else "price undated",
            "Prices are dated and have a range; set your own under More.",
        ),
        (row["tier"] or "time not predicted", "Coverage of the predicted time by measurements."),
        ("typical targets", f"Values used where nothing is set: {assumptions}."),
        ("power unvalidated", UNVALIDATED),
        (
            "10th to 90th percentile of 2,000 samples",
            "Every input is drawn from its range; a service takes the machines that either end of its speed needs. The "
            "share of samples in which it is cheapest is counted with the present number of machines.",
        ),
    )


def _short(row: Any) -> str:
    """Cost, or the reason against a stack, beside its row."""
    if row["why"]:
        return next((words for start, words in SHORT.items() if row["why"].startswith(start)), "not possible")
    return dollars(row["usd"]) + (f", {row['machines']:,.0f} machines" if several(row) else "")


def _grid(sizes: OneSize, task: str) -> Picture:
    """Every application beside every stack, the stacks that do most on top."""
    table = sizes.table
    able = table[table["will_do"]].groupby("stack")["ratio"]
    order = pd.DataFrame({"does": able.count(), "mean": able.apply(lambda each: float(np.log(each).mean()))})
    order = order.sort_values(["does", "mean"], ascending=[False, True], kind="stable").index
    keys = [*order, *(key for key in dict.fromkeys(table["stack"]) if key not in set(order))]
    rows = table.assign(at=table["stack"].map({key: at for at, key in enumerate(keys)})).sort_values(
        ["at"], kind="stable"
    )
    frame = pd.DataFrame(
        {
            "row": rows["name"],
            "case": rows["application"],
            "ratio": [None if math.isnan(value) else float(f"{value:.5g}") for value in rows["ratio"]],
            "text": ["" if math.isnan(value) else _times_short(value) for value in rows["ratio"]],
            "why": [why or "feasible" for why in rows["why"]],
        }
    ).reset_index(drop=True)
    different, cases = len(set(sizes.wins.values())), len(sizes.wins)
    title = f"{counted(different, 'stack')} {_least(different, cases, task)}"
    order = list(dict.fromkeys(sizes.table["application"]))
    return Picture("matrix", frame, title, {"rows": row_order(frame), "cases": order})


def _times_short(value: float) -> str:
    """A ratio in three letters."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}" if value < 1000 else f"{value / KILO:.0f}k"


def _table(choice: StackChoice) -> pd.DataFrame:
    """Every stack as printed text."""
    rows, serves = _frame(choice), choice.wanted.task == SERVE
    took = (
        {"Answer": [told_time(value) for value in rows["latency"]]}
        if serves
        else {"Hours per run": [_range(row, "hours") for _, row in rows.iterrows()]}
    )
    return pd.DataFrame(
        {
            "Stack": rows["name"],
            **feasible_and_cost(rows),
            **took,
            "Accelerators": [
                f"{row['devices']:,} × {row['accelerator']}" if row["accelerator"] else "the provider's"
                for _, row in rows.iterrows()
            ],
            "Storage": [printed("storage", "key", "name", key) if key else "the provider's" for key in rows["storage"]],
            "Limited by": [LIMITS.get(each, each) or "not known" for each in rows["limit"]],
            "Energy": [_range(row, "kwh", " MWh", KILO) for _, row in rows.iterrows()],
            "CO2e": ["not known" if math.isnan(kg) else f"{kg / KILO:.3g} t" for kg in rows["kgco2e"]],
            "Priced": rows["priced"].replace("", "undated"),
        }
    )


def _range(row: Any, name: str, unit: str = "", scale: float = 1.0) -> str:
    low, value, high = (row[f"{name}{end}"] / scale for end in ("_low", "", "_high"))
    return "not known" if math.isnan(value) else f"{_digits(value)}{unit} ({_digits(low)} to {_digits(high)})"


def _matrix_table(sizes: OneSize) -> pd.DataFrame:
    """Times the best of each application, as printed text."""
    text = [times(value) if value == value else "not feasible" for value in sizes.table["ratio"]]
    wide = sizes.table.assign(text=text)
    wide = wide.pivot(index="name", columns="application", values="text")
    order = list(dict.fromkeys(_grid(sizes, TRAIN).frame["row"]))
    wide = wide.loc[order, list(dict.fromkeys(sizes.table["application"]))].reset_index()
    return wide.rename(
        columns={name: "Stack" if name == "name" else f"{name.capitalize()} [times the best]" for name in wide.columns}
    ).rename_axis(columns=None)
