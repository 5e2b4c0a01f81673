"""Panel of recipe 09: where should it run, and what does that cost?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import as_python, keywords
from cookbook.catalog.fields import Amount
from cookbook.catalog.prices import BOUGHT, RENT
from cookbook.catalog.refusals import NOT_ALLOWED, refused
from cookbook.charts import devices as charts
from cookbook.charts.look import MONEY_PARTS, row_order
from cookbook.panels.controls import Choice, Combo, Control, Slider, one_two_five, picture_control, powers_of_two
from cookbook.panels.options import (
    SOME_LAYERS,
    Network,
    assumed,
    cited,
    data_sets,
    few,
    listed_options,
    model_control,
    named_model,
    networks,
    printed,
    rounded,
    title_of,
)
from cookbook.panels.shell import Panel, Part, Picture, View, model_text, panel_call
from cookbook.panels.text import DAY, KILO, Source, at_your_price, counted, dollar_range, duration, percent
from cookbook.topics.costs.cost import MONTHS, UNVALIDATED
from cookbook.topics.purchase.where import (
    UNTIMED,
    BreakEven,
    WhereToRun,
    break_even,
    cumulative,
    horizon,
    overlap,
    rank,
)
from cookbook.topics.purchase.where import where_to_run as compare
from cookbook.units import dollars, human

PICTURES = {"costs": charts.place_costs, "paid": charts.paid, "tornado": charts.tornado}
DEADLINES = (3600.0, 7200.0, 14400.0, 28800.0, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 60 * DAY, 90 * DAY)
SHARES = (0.0, 1.0, 2.0, 5.0, 10.0, 15.0, *(float(share) for share in range(20, 101, 10)))
# Inputs shown in the tornado, and the share of the widest bar below which a bar cannot be seen.
MAX_INPUTS, MIN_SWING = 10, 0.01
POINTS = 13
HOW = {
    "hardware": "Purchase price, spread over the years of use with the cost of money, for the horizon.",
    "network": "Switches and cables as a share of the hardware.",
    "storage": "Shared storage as a share of the hardware.",
    "maintenance": "Support and repair per year as a share of all hardware.",
    "electricity": "Idle power at all times and more while computing, times the tariff; not validated.",
    "cooling": "Electricity times (power usage effectiveness - 1).",
    "staff": "Share of an administrator.",
    "space": "Rent of space and power feed per rated kW; electricity is billed separately.",
    "rent": "Hours used, or all hours of the term, times the price; or tokens times the price.",
    "data": "Data stored with the provider, and egress of each run's result and finally of the data.",
}
# Names of inputs in a chart.
FIGURES = {
    "price": "price",
    "step": "step time",
    "tariff": "electricity price",
    "pue": "cooling (PUE)",
    "rated": "rated power",
    "idle": "idle power",
    "full": "full power",
    "life": "years of use",
    "money": "cost of money",
    "maintenance": "maintenance",
    "staff": "staff",
    "network": "network",
    "storage": "storage",
    "space": "space",
    "interruption": "time between interruptions",
    "restart": "restart",
    "checkpoint": "checkpoint",
    "egress": "egress price",
    "keep": "cloud storage",
    "carbon": "carbon intensity",
}
SHORT = {
    "data would leave": "data would leave",
    "does not fit": "does not fit",
    "too late": "too late",
    "its time": "time not stated",
    "no row": "no price",
    "services fine-tune": "trains no such network",
    "the catalogue": "no electricity price",
}
DATA_LOCATIONS = (
    ("anywhere", "anywhere", "Also with a provider"),
    ("own machines", "own machines", "Also on your machines in another building"),
    ("in house", "in house", "In your building alone"),
)
# Controls of the reader's own prices.
MONEY = ("quoted", "hourly", "bought", "purchase")
RULES = {"anywhere": "anywhere", "own machines": "on your machines", "in house": "on the premises"}


def where_to_run(
    model: Network = "resnet152",
    data: str = "imagenet-21k",
    runs: Amount = 4,
    deadline: Amount = 7 * DAY,
    private: str = "anywhere",
    region: str = "us",
    epochs: Amount = 30,
    years: Amount = 3,
    batch: Amount | None = None,
    seq: Amount | None = None,
    uplink: Amount = 1,
    utilisation: Amount = 0,
    quoted: str = "cloud-h100",
    hourly: Amount = 0,
    bought: str = "on-premises-h100",
    purchase: Amount = 0,
    picture: str = "costs",
) -> Panel:
    """Return the panel "Where should it run?" in the state that the arguments describe.

    Parameters
    ----------
    model : str, Workload or dict
        A network of the zoo or one of your own: `cb.layers`, `cb.model`, ``{"layers": [...], "input": [...]}``, or what
        stands in a Hugging Face configuration.
    data, runs, private, region, epochs, years, batch, seq
        As for `cb.planning.where_to_run`.
    deadline : float or str
        Longest time of one run, such as "7 d" [s].
    uplink : float
        Rate at which data leave the house [Gb/s].
    utilisation : float
        Share of hours in which what is bought or reserved is busy, other work included [%]; 0: this task alone uses
        it, and pays for whole machines.
    quoted, hourly
        A rented place, and your price of an hour of one of its accelerators [USD]; 0 for list prices.
    bought, purchase
        A place that is bought, and your quote for its machine [USD]; 0 for list prices.
    picture : {"costs", "paid", "tornado"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = where_to_run("resnet50", "imagenet-1k")
    >>> panel.update(private="in house")
    >>> "Cloud" in panel.answer
    False
    """
    return Panel(
        where_to_run,
        "Where should it run?",
        _controls,
        PICTURES,
        _draw,
        locals(),
        {"picture": _pictures, **UNQUOTED},
    )


def _controls() -> tuple[Control, ...]:
    return (
        model_control("The network to train", networks(), SOME_LAYERS),
        Combo("data", group="Workload", options=data_sets(), tooltip="Samples of an epoch, and bytes to upload"),
        Slider(
            "runs",
            "Runs per month",
            "Workload",
            one_two_five(0.1, 200, also=[4]),
            whole=False,
            tooltip="Number of complete training runs per month",
        ),
        Slider(
            "deadline",
            "Deadline of a run",
            "Rules",
            DEADLINES,
            seconds=True,
            whole=False,
            tooltip="Longest time of one run, including the upload of the data",
        ),
        Slider(
            "years",
            "Horizon",
            "Money",
            (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
            unit="years",
            whole=False,
            tooltip="Time over which costs are counted",
        ),
        Slider(
            "utilisation",
            "Utilisation",
            "Money",
            SHARES,
            unit="% of hours",
            whole=False,
            zero="from this task alone",
            tooltip="Hours in which purchased or reserved machines are busy, other work included, which pays its "
            "share. 0: this task alone pays for whole machines",
        ),
        Choice(
            "private",
            "Data location",
            "Rules",
            DATA_LOCATIONS,
            more=True,
            tooltip="Locations where the data may be stored: a hard filter",
        ),
        Combo(
            "region",
            "Region",
            "Money",
            listed_options("regions", "aliases"),
            more=True,
            tooltip="Electricity price and carbon intensity",
        ),
        Slider(
            "epochs",
            group="Workload",
            stops=one_two_five(1, 1000, also=[3, 30, 90]),
            more=True,
            tooltip="Passes over the data in one run",
        ),
        Slider(
            "batch",
            group="Workload",
            stops=powers_of_two(0, 12),
            optional=True,
            more=True,
            tooltip="Samples on each accelerator in one step. Empty: the fastest batch of each option",
        ),
        Slider(
            "seq",
            group="Workload",
            stops=powers_of_two(7, 17),
            optional=True,
            more=True,
            unit="tokens",
            tooltip="Tokens of a sample of a language model. Empty: the context of the model",
        ),
        Slider(
            "uplink",
            "Uplink",
            "Rules",
            one_two_five(0.01, 100),
            unit="Gb/s",
            whole=False,
            more=True,
            tooltip="Upload bandwidth of your site",
        ),
        *quotes("places"),
        picture_control(
            ("costs", "Cost by option", "Every option with its interval"),
            ("paid", "Payments by month", "Owning against renting, up to the break-even"),
            ("tornado", "Sensitivity", "Each input of the cheapest option from its low to its high end"),
        ),
    )


def quotes(table: str) -> tuple[Control, ...]:
    """Return the controls of the reader's own prices, each with the row to which it applies.

    One price is per accelerator-hour of a rented row, the other of the machine of a row that is bought.

    Parameters
    ----------
    table : str
        ``places`` or ``stacks``.
    """
    rows, tooltip = listed_options(table), "Row to which your {} applies; the others keep list prices"
    hours, machines = (tuple(row for row in rows if row[0] in paid(table, ways)) for ways in (tuple(RENT), (BOUGHT,)))
    return (
        Slider(
            "hourly",
            "Your price",
            "Money",
            (0.0, 0.2, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20),
            whole=False,
            unit="$ per hour",
            zero="list price",
            more=True,
            tooltip="Your price per accelerator-hour; 0: list prices of the last 12 months",
        ),
        Combo("quoted", "Your price applies to", "Money", hours, more=True, tooltip=tooltip.format("price")),
        Slider(
            "purchase",
            "Your quote",
            "Money",
            (0.0, *one_two_five(500, 1e6)),
            whole=False,
            unit="$",
            zero="list price",
            more=True,
            tooltip="Your quote for a machine that you buy; 0: list prices",
        ),
        Combo("bought", "Your quote applies to", "Money", machines, more=True, tooltip=tooltip.format("quote")),
    )


def _unset(price: str, words: str, values: dict[str, Any]) -> dict[str, str]:
    """Return the reason why no row can be chosen without a price of the reader."""
    return {} if values.get(price) else {"*": f"set your {words} first"}


UNQUOTED = {"quoted": partial(_unset, "hourly", "price"), "bought": partial(_unset, "purchase", "quote")}


@lru_cache(maxsize=8)
def paid(table: str, ways: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of ``places`` or ``stacks`` that are paid in one of some ways."""
    way = catalog.table("places").set_index("key")["way"]
    rows = catalog.table(table).to_dict("records")
    return tuple(row["key"] for row in rows if way.get(row.get("place", row["key"])) in ways)


def own_prices(table: str, values: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return the reader's prices as pairs for the argument ``prices``; none where list prices hold."""
    pairs = []
    for row, price, ways, how in (
        ("quoted", "hourly", tuple(RENT), "rented by the hour"),
        ("bought", "purchase", (BOUGHT,), "bought"),
    ):
        keys = paid(table, ways)
        if values[row] not in keys:
            raise refused(row, values[row], f"is not {how}; take one of {', '.join(keys)}", NOT_ALLOWED)
        pairs += [(values[row], float(values[price]))] if values[price] else []
    return tuple(pairs)


def quoted_price(table: str, values: Mapping[str, Any]) -> str:
    """Return the sentence that says which rows count at the reader's prices; "" where all have list prices."""
    quote = f"at your quote of {dollars(float(values['purchase']))}"
    said = [
        f"{printed(table, 'key', 'name', values[row])} is {how}"
        for row, price, how in (
            ("quoted", "hourly", at_your_price(float(values["hourly"]))),
            ("bought", "purchase", quote),
        )
        if values[price]
    ]
    return f" Price: {', '.join(said)}, all others at list prices." if said else ""


def _pictures(values: dict[str, Any]) -> dict[str, str]:
    comparison = _of(values)
    off = {} if _even(comparison)[0] else {"paid": "owning or renting is not feasible, so there is nothing to compare"}
    return off if comparison.best else {**off, "tornado": "no option is feasible"}


def _of(values: dict[str, Any]) -> WhereToRun:
    """Return the comparison for the values of the controls; it does not depend on the chart."""
    arguments = {name: value for name, value in values.items() if name not in ("picture", *MONEY)}
    return _found(own_prices("places", values), **arguments | {"model": named_model(values["model"])})


@lru_cache(maxsize=64)
def _found(prices: tuple[tuple[str, float], ...], uplink: float, utilisation: float, **values: Any) -> WhereToRun:
    return compare(uplink=uplink * 1e9 / 8, utilisation=utilisation / 100 or None, prices=dict(prices), **values)


@lru_cache(maxsize=8)
def _even(comparison: WhereToRun) -> tuple[BreakEven | None, str]:
    try:
        return break_even(comparison), ""
    except ValueError as problem:
        return None, str(problem)


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    comparison = _of(values)
    even, reason = _even(comparison)
    shown, table, data = _shown(values["picture"], comparison, even, reason)
    best = comparison.best
    answer = _answer(comparison, even, reason, title_of(values["model"]))
    price, unstated = quoted_price("places", values), assumed(values["model"])
    laptop = "" if price and unstated else _laptop(comparison)  # five facts are enough; the table shows it
    return View(
        answer=f"{answer}{laptop}{price} {unstated}".rstrip(),
        headline={"cost": float(_frame(comparison).loc[best, "usd"])} if best else {},
        chips=_chips(comparison),
        picture=shown,
        parts=money_parts(comparison, best),
        parts_title=f"{comparison.places[best].name}: {costs_over(comparison.task.years)}"
        if best
        else "No option is feasible, so there are no parts",
        table=table,
        data=data,
        sources=partial(figure_sources, comparison, {}),
        code=_code(values),
        stood_for={"batch": int(_frame(comparison).loc[best, "batch"]) or None} if best else {},
    )


def costs_over(years: float) -> str:
    """Return what the parts of a cost are, for their title."""
    return f"cost over {horizon(years)} by part, inputs at their medians"


# The frame of answer, chart and table; read-only.
_frame = lru_cache(maxsize=16)(WhereToRun.frame)


def _shown(
    picture: str, comparison: WhereToRun, even: BreakEven | None, reason: str
) -> tuple[Picture, Callable[[], pd.DataFrame], Callable[[], pd.DataFrame]]:
    """The chart chosen, its table and its data."""
    if picture == "costs":
        return _costs(comparison), partial(_place_table, comparison), partial(_frame(comparison).reset_index)
    if picture == "tornado":
        return _tornado(comparison), partial(_tornado_table, comparison), comparison.tornado
    if even is None:
        raise ValueError(reason)
    data = partial(cumulative, comparison, [even.own, even.rent])
    return _paid(comparison, even), partial(_paid_table, comparison, even), data


def whole_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as code writes them: whole numbers without a point."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in values.items()
    }


def _code(values: dict[str, Any]) -> str:
    """The panel's state, then the call behind it."""
    plain = whole_numbers(values) | {"deadline": duration(values["deadline"])}
    call = {name: value for name, value in plain.items() if name not in ("model", "data", "picture")}
    call |= {"uplink": f"{values['uplink']:g} Gb/s"}
    call |= {"utilisation": values["utilisation"] / 100 or None}
    call |= {"prices": dict(own_prices("places", values)) or None}
    call = {name: value for name, value in call.items() if value is not None and name not in MONEY}
    arguments = f"{model_text(values['model'])}, {as_python(values['data'])}, {keywords(call)}"
    panel = panel_call(where_to_run, values, written={name: as_python(plain[name]) for name in plain})
    lines = [panel, f"found = cb.planning.where_to_run({arguments})"]
    last = {"costs": "found.frame()", "paid": "cb.planning.break_even(found)", "tornado": "found.tornado()"}
    return "\n".join([*lines, last[values["picture"]]])


def _answer(comparison: WhereToRun, even: BreakEven | None, reason: str, network: str) -> str:
    """Return the answer: the cheapest feasible option, its certainty, and when another would be cheaper."""
    best, frame = comparison.best, _frame(comparison)
    if best is None:
        timed = frame[frame["hours"].notna() & frame["why"].str.startswith("too")]
        row = timed.loc[timed["hours"].idxmin()] if len(timed) else frame.iloc[0]
        return (
            f"**None of {counted(len(frame), 'option')}** is feasible. Workload: {network}. Nearest: {row['name']}, "
            f"{row['why']}."
        )
    row, count = frame.loc[best], int(frame["will_do"].sum())
    several = f" for {row['units']:.0f} machines" if row["units"] > 1 else ""
    band = dollar_range(row["usd_low"], row["usd_high"])
    bought = f"; {dollars(row['usd_to_buy'])} to buy, counted by use" if row["way"] == BOUGHT else ""
    after = f" after {human(row['upload_hours'] * 3600, 's')} of upload" if row["upload_hours"] > 0 else ""
    among = rank(count, "option", overlap(frame, "usd"))
    return (
        f"**{dollars(row['usd'])}** over {horizon(comparison.task.years)}: {row['name']} {among}. Interval (80 %): "
        f"{band}{several}; the cheapest in {percent(comparison.odds[best])} of Monte Carlo samples. Run: "
        f"{dollars(row['usd_per_run'])} and {human(row['hours'] * 3600, 's')} for {network}{after}{bought}. "
        f"Own or rent: {_meets(comparison, even, reason)}"
    )


def _meets(comparison: WhereToRun, even: BreakEven | None, reason: str) -> str:
    """Return the use above which owning costs less than renting."""
    if even is None:
        return f"{reason}."
    own, rent = comparison.places[even.own].name, comparison.places[even.rent].name
    low, middle, high = even.runs
    if math.isinf(middle) or even.use[1] > 1:
        always = f"{own} costs more than {rent} even when always in use"
        if even.use[0] > 1:
            return f"{always}."
        less = f"at the low end of the 80 % interval, it costs less above a utilisation of {percent(even.use[0])}"
        return f"by the medians, {always}; {less}."
    if middle == 0:
        return f"{own} costs less than {rent} even unused, since {rent} is paid for all hours."
    ends = [percent(use) if use <= 1 else "never" for use in even.use]
    if comparison.task.utilisation is not None:
        return f"{own} costs less than {rent} above a utilisation of {ends[1]} (80 %: {ends[0]} to {ends[2]})."
    share = f"a utilisation of {ends[1]}"
    return f"{own} costs less than {rent} above {_runs(middle)} runs per month ({_runs(low)}-{_runs(high)}), {share}."


def _runs(value: float) -> str:
    """A number of runs with two significant digits."""
    return "never" if math.isinf(value) else f"{float(f'{value:.2g}'):,g}"


def _laptop(comparison: WhereToRun) -> str:
    """Return the share of the data that a laptop processes, where it is too slow for all of it."""
    frame = _frame(comparison)
    rows = frame[(frame["kind"] == "laptop") & frame["why"].str.startswith("too") & (frame["part"] < 1)]
    if rows.empty or not rows["part"].iloc[0] > 0:
        return ""
    return f" Laptop: it processes {percent(rows['part'].iloc[0])} of the data by the deadline."


def _chips(comparison: WhereToRun) -> tuple[tuple[str, str], ...]:
    """Return the badges: how the answer is known."""
    row = _frame(comparison).loc[comparison.best or _frame(comparison).index[0]]
    dated = row["priced"].partition(";")[0] or "price undated"
    price = f"priced {dated}" if dated[:1].isdigit() else dated
    own = "Purchases are spread over years of use." if row["way"] == BOUGHT else "Rent includes power and staff."
    price_range = f"{row['name']}: {dollars(row['price_low'])} to {human(row['price_high'], row['price_unit'])}"
    batch = f"batch {row['batch']:,.0f}" if row["batch"] else "batch not stated"
    return (
        (price, f"{price_range}, {row['priced']}. Prices change: set your own under More. {own}"),
        (row["tier"] or "time not predicted", "Coverage of the predicted time of a step by measurements."),
        (batch, "Per-accelerator batch; where none is set, each option uses the fastest that fits."),
        ("power unvalidated", UNVALIDATED),
        (
            "10th to 90th percentile of 2,000 samples",
            "Every input is drawn from its range, whose ends are its 10th and 90th percentile.",
        ),
    )


def _costs(comparison: WhereToRun) -> Picture:
    """Every place, the cheapest on top, those without a cost at the end."""
    where = f"data {RULES[comparison.task.private]} and {human(comparison.task.deadline, 's')} per run"
    rows = _frame(comparison).sort_values("usd", kind="stable")
    nothing = f"No option is feasible with {where}"
    return cost_picture(rows, comparison.best, "option", _short, nothing)


def cost_picture(
    rows: pd.DataFrame,
    best: str | None,
    noun: str,
    beside: Callable[[Any], str],
    nothing: str = "",
) -> Picture:
    """Return the chart of the cost of each row, in this order, with the words `beside` it.

    Parameters
    ----------
    rows : pandas.DataFrame
        Frame of a comparison, in the order of the chart.
    best : str or None
        Key of the cheapest feasible row; None where there is none.
    noun : str
        What a row is called.
    beside : callable
        From a row to its words.
    nothing : str
        The takeaway where no row is feasible.
    """
    first = rows.loc[best or rows.index[0]]
    open_ = overlap(rows, "usd")
    costs = rows.set_axis(range(len(rows)))[["name", "usd", "usd_low", "usd_high"]]
    frame = rounded(costs.set_axis(["row", "usd", "low", "high"], axis=1), ("usd", "low", "high")).assign(
        verdict=[_verdict(row, None if open_ else best) for _, row in rows.iterrows()],
        text=[beside(row) for _, row in rows.iterrows()],
    )
    count, usd = counted(int(rows["will_do"].sum()), f"feasible {noun}"), dollars(first["usd"])
    leads = f"leads {count} at {usd}, {open_}" if open_ else f"is the cheapest of {count} at {usd}"
    title = f"{first['name']} {leads}" if best else nothing
    return Picture("costs", frame, title, {"rows": row_order(frame), **charts.cost_ends(frame)})


def _verdict(row: Any, best: str | None) -> str:
    """Word for a place, a key of the chart's verdicts."""
    if row["why"] == UNTIMED:
        return "not known"
    return "cheapest feasible" if row.name == best else "feasible" if row["will_do"] else "not feasible"


def _short(row: Any) -> str:
    """Cost, or the reason against a place, beside its row."""
    if row["why"]:
        cost = f"{dollars(row['usd'])}, " if row["why"] == UNTIMED else ""
        reason = (words for start, words in SHORT.items() if row["why"].startswith(start))
        return cost + next(reason, "a value is missing")
    return dollars(row["usd"]) + (f", {row['units']:.0f} machines" if row["units"] > 1 else "")


def _tornado(comparison: WhereToRun) -> Picture:
    """The cheapest place's figures, the one that matters most on top."""
    place, table = comparison.place(), comparison.tornado().head(MAX_INPUTS)
    table = table[table["swing"] >= MIN_SWING * table["swing"].max()]
    centre = float(np.sum([float(np.ravel(part)[0]) for part in comparison.points[place.key]["parts"].values()]))
    frame = pd.DataFrame(
        {
            "row": [FIGURES[name] for name in table["figure"]],
            "start": table["usd_low"].round(2),
            "end": table["usd_high"].round(2),
            "centre": round(centre, 2),
            "text": [_ends(row) for row in table.itertuples()],
        }
    )
    top = table.iloc[0]
    ends = dollar_range(*sorted((top["usd_low"], top["usd_high"])))
    title = f"{place.name}: the cost depends most on {FIGURES[top['figure']]}, {ends}"
    return Picture("tornado", frame, title, {"rows": row_order(frame), **charts.tornado_ends(frame)})


def _ends(row: Any) -> str:
    low, high, unit = row.low, row.high, row.unit
    if unit.startswith("fraction"):
        return f"{100 * low:.3g} to {100 * high:.3g} %" + (" per year" if unit.endswith("year") else "")
    money, _, per = unit.partition("/")
    if money == "USD":
        return dollar_range(low, high) + (f" per {per}" if per else "")
    if unit in ("s", "W"):
        return f"{human(low, unit)} to {human(high, unit)}"
    return f"{low:.3g} to {high:.3g} {'' if unit == 'ratio' else unit}".rstrip()


def _paid(comparison: WhereToRun, even: BreakEven) -> Picture:
    """Owning beside renting, month by month; at the end what is bought counts with the share that was used."""
    rows = cumulative(comparison, [even.own, even.rent], POINTS)
    last = float(rows["month"].max())
    ends = rows[rows["month"] == last]
    at_end = ends.assign(**{name: ends[name.replace("usd", "counted")] for name in ("usd", "usd_low", "usd_high")})
    rows = pd.concat([rows.assign(counted=None), at_end], ignore_index=True)
    frame = pd.DataFrame(
        {
            "what": ["owned" if key == even.own else "rented" for key in rows["place"]],
            "month": rows["month"].round(2),
            **{
                new: rows[old].astype(float).map(lambda usd: float(f"{usd:.6g}"))
                for new, old in (("usd", "usd"), ("low", "usd_low"), ("high", "usd_high"))
            },
            "text": rows["name"],
            "counted": rows["counted"],
            "meets": even.months[1] if even.months[1] <= last else None,
        }
    )
    return Picture("paid", frame, _paid_title(comparison, even), {"top": charts.paid_top(frame), "last": last})


def _paid_title(comparison: WhereToRun, even: BreakEven) -> str:
    """Takeaway of what has been paid: who costs less, and when a purchase has paid for itself."""
    frame, months = _frame(comparison), even.months[1]
    less, more = sorted((even.own, even.rent), key=lambda key: frame.loc[key, "usd"])
    costs = f"{dollars(frame.loc[less, 'usd'])} against {dollars(frame.loc[more, 'usd'])}"
    when = "is never paid back" if math.isinf(months) else f"is paid back after {months:.0f} months"
    beyond = ", beyond the horizon" if MONTHS * comparison.task.years < months < math.inf else ""
    own = "it" if less == even.own else "buying"
    return f"{frame.loc[less, 'name']} costs less over {horizon(comparison.task.years)}, {costs}; {own} {when}{beyond}"


def money_parts(comparison: WhereToRun, key: str | None) -> tuple[Part, ...]:
    """Return the parts of the cost of an option, at the medians; none where no option is named."""
    if key is None:
        return ()
    each = {name: float(np.ravel(value)[0]) for name, value in comparison.points[key]["parts"].items()}
    return few(
        (
            Part(name, each[name], dollars(each[name]), colour, HOW[name])
            for name, colour in MONEY_PARTS.items()
            if each.get(name)
        ),
        told=dollars,
    )


def feasible_and_cost(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return whether each row is feasible, or why not, and its cost with the interval, as printed."""
    return {
        "Feasible": ["yes" if not why else f"no: {why}" for why in rows["why"]],
        "Cost over the horizon": [
            "not known" if math.isnan(row.usd) else f"{dollars(row.usd)} ({dollar_range(row.usd_low, row.usd_high)})"
            for row in rows.itertuples()
        ],
    }


def _place_table(comparison: WhereToRun) -> pd.DataFrame:
    """Every place as printed text."""
    rows = _frame(comparison)
    return pd.DataFrame(
        {
            "Option": rows["name"],
            **feasible_and_cost(rows),
            "Cost per run": [dollars(value) for value in rows["usd_per_run"]],
            "Hours per run": [_number(value) for value in rows["hours"]],
            "Batch": [f"{size:,.0f}" if size else "not stated" for size in rows["batch"]],
            "Utilisation": [_in_use(row) for row in rows.itertuples()],
            "Energy": [_number(kwh / KILO, " MWh") for kwh in rows["kwh"]],
            "CO2e": [_number(kg / KILO, " t") for kg in rows["kgco2e"]],
            "Data processed by the deadline": [_number(100 * part, " %") for part in rows["part"]],
            "Price": [human(row.price, row.price_unit) for row in rows.itertuples()],
            "Priced": rows["priced"].replace("", "undated"),
        }
    )


def _in_use(row: Any) -> str:
    if math.isnan(row.use):
        return "not known"
    if row.use > row.units:
        return f"{row.use:,.1f} at a time"
    return f"{100 * row.use / row.units:.0f} %" + (f" of {row.units:,.0f}" if row.units > 1 else "")


def _number(value: float, unit: str = "") -> str:
    return "not known" if math.isnan(value) else (f"{value:,.0f}" if value >= 100 else f"{value:.3g}") + unit


def _tornado_table(comparison: WhereToRun) -> pd.DataFrame:
    """Return the effect of each input as printed text."""
    table = comparison.tornado()
    return pd.DataFrame(
        {
            "Input": [FIGURES[name] for name in table["figure"]],
            "Range": [_ends(row) for row in table.itertuples()],
            "Cost at the low end": [dollars(value) for value in table["usd_low"]],
            "Cost at the high end": [dollars(value) for value in table["usd_high"]],
            "Difference": [dollars(value) for value in table["swing"]],
        }
    )


def _paid_table(comparison: WhereToRun, even: BreakEven) -> pd.DataFrame:
    """Return the payments as printed text, and below them the costs that the answer compares."""
    rows = cumulative(comparison, [even.own, even.rent], 7)
    wide = rows.pivot(index="month", columns="name", values="usd")
    counts = rows.drop_duplicates("name").set_index("name")["counted"]
    return pd.DataFrame(
        {
            "Month": [*(f"{month:.0f}" for month in wide.index), "counted at the share of use"],
            **{name: [*map(dollars, [*wide[name], counts[name]])] for name in wide},
        }
    )


def figure_sources(comparison: WhereToRun, also: Mapping[str, str]) -> tuple[Source, ...]:
    """(title, link, what for) of every source of prices and figures, and of those of `also`; recalled ones marked."""
    used = {key: {what} for key, what in also.items()}
    for place in comparison.places.values():
        for name, figure in place.figures.items():
            for key in figure.source if name != "step" else ():
                used.setdefault(key, set()).add(FIGURES[name])
    return cited({key: ", ".join(sorted(names)) for key, names in used.items()}, "(recalled, not opened) ")
