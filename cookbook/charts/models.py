"""Charts of a network's needs beside the capacities of accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cookbook.charts import look
from cookbook.charts.look import INK, MEMORY_PARTS, MUTED, PALETTE, PAPER, SHAPES, VERDICTS, alt

# Thirteen families in five groups, the number that colour and shape can distinguish.
FAMILY_GROUPS = {
    "convolution": ("cnn", "detection", "segmentation"),
    "transformer": ("transformer", "encoder", "vision_transformer"),
    "mixture of experts": ("moe",),
    "recurrent, speech, scan": ("rnn", "speech", "state_space"),
    "other": ("diffusion", "recommender", "mlp", "custom"),
}
_GIBI = 2**30  # memory is sold in powers of two
_ROW_AND_NOTE = "datum.note ? datum.row + ': ' + datum.note : datum.row"
_SEARCHES = (
    "!isValid(datum.high) ? 'none' : datum.measured > 1 ? format(datum.low, '.3~s') + ' to ' + "
    "format(datum.high, '.3~s') + ' (n = ' + datum.measured + ')' : format(datum.high, '.3~s') + "
    "', best of one search (n = 1)'"
)
_DASHES = {"compared": [6, 4], "pinned": [2, 3]}
_RATE_KEY = "Marks are peaks, ticks the best matmul of one search, bands the 10th to 90th percentile of several."
_MEMORY_KEY = "Filled bars are the required memory by part; outlined bars are capacity, dashed where it is too small."
_METHOD_KEY = "The dashed line marks the memory of one GPU; the others are 80 % intervals."
_ZOO_KEY = "Filled marks agree with published values. On the dashed line, each parameter is used once."


def group_of(family: str) -> str:
    """Return the group with which a family of networks is drawn.

    Examples
    --------
    >>> group_of("detection"), group_of("something new")
    ('convolution', 'other')
    """
    return next((group for group, members in FAMILY_GROUPS.items() if family in members), "other")


def _verdict(channel: Any) -> Any:
    looks = [pair[channel is alt.Shape] for pair in VERDICTS.values()]
    return channel("verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=looks), legend=None)


def _when(role: str, yes: Any, no: Any) -> Any:
    return alt.condition(f"datum.role == '{role}'", alt.value(yes), alt.value(no))


def _need_rows(base: Any) -> Any:
    return base.transform_filter("datum.role != 'device'")


def _device_rows(base: Any, column: str) -> Any:
    rows = base.transform_filter(f"datum.role == 'device' && isValid(datum.{column})")
    return rows.transform_calculate(whose=_ROW_AND_NOTE, seen=_SEARCHES)


def rate_needed(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of the sustained rate that each network needs, beside the peak of each accelerator.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `role` ("need", "compared", "pinned" or "device"), `rate`
        (needed rate or peak [FLOP/s]), `low` and `high` (observed rates, 10th to 90th percentile [FLOP/s], missing
        where none), `measured` (number of searches behind them; a band is drawn from two on), `verdict` (a key of
        `look.VERDICTS`; devices only), `text` (words at the right, `|` breaks), `note` (optional, for the tooltip).
    title : str, optional
        The takeaway; counted from the verdicts by default.

    Returns
    -------
    altair.LayerChart
        Signals: `x_low` and `x_high`, the ends of the logarithmic axis [FLOP/s]; `rows`, the order of the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["A needs", "need", 2e14, None, None, None, ""],
    ...         ["B", "device", 3e14, 1e14, 2.5e14, "possible", "67 %"]]
    >>> names = ["row", "role", "rate", "low", "high", "verdict", "text"]
    >>> rate_needed(pd.DataFrame(rows, columns=names)).title.text
    '1 of 1 accelerator is not ruled out'
    """
    scale = alt.Scale(type="log", domainMin=alt.ExprRef("x_low"), domainMax=alt.ExprRef("x_high"))
    x = alt.X("rate:Q", title="Sustained rate [FLOP/s], logarithmic", scale=scale, axis=look.decade_axis())
    layers = [*look.row_text(alt.Chart()), *_peaks(x), *_needed_rates(x), _peak_marks(x)]
    words = (
        "Vertical rule: the rate that the first network needs. One row for each accelerator: a mark at its peak, a "
        "tick at the best matmul of one search on it, or a band (10th to 90th percentile) of several. Marks to "
        "the left of the rule cannot meet it."
    )
    return look.finished(frame, layers, title or rate_title(frame), _RATE_KEY, words, **rate_ends(frame))


def _peaks(x: Any) -> list[Any]:
    """Return a thin line up to each peak; measured values as a band, or as a tick where there is one search only."""
    device = _device_rows(alt.Chart(), "rate")
    line = device.transform_calculate(x_from="x_low").mark_bar(height=2, color=MUTED, opacity=0.5, clip=True)
    measured = device.transform_filter("isValid(datum.high)")
    band = measured.transform_filter("datum.measured > 1").mark_bar(height=12, opacity=0.45, strokeWidth=2, clip=True)
    tick = measured.transform_filter("!(datum.measured > 1)").mark_tick(height=16, thickness=3, clip=True)
    return [
        line.encode(y=look.rows_axis(), x=x, x2="x_from:Q"),
        band.encode(y=look.rows_axis(), x="low:Q", x2="high:Q", color=_verdict(alt.Color), stroke=_verdict(alt.Stroke)),
        tick.encode(y=look.rows_axis(), x="high:Q", color=_verdict(alt.Color), tooltip=_device_tip()),
    ]


def _needed_rates(x: Any) -> list[Any]:
    """Return a rule from top to bottom for each need, and a mark in its own row."""
    need = _need_rows(alt.Chart())
    shade = _when("need", INK, MUTED)
    dashes = [{"test": f"datum.role == '{role}'", "value": dash} for role, dash in _DASHES.items()]
    tip = [alt.Tooltip("row:N", title="row"), alt.Tooltip("rate:Q", title="FLOP/s", format=".3~s")]
    return [
        need.mark_rule(strokeWidth=2, clip=True, opacity=look.THROUGH).encode(
            x=x, color=shade, strokeDash={"condition": dashes, "value": [1, 0]}
        ),
        need.mark_point(filled=True, size=90, shape="triangle-down", opacity=1, clip=True).encode(
            x=x, y=look.rows_axis(), color=shade, tooltip=tip
        ),
    ]


def _peak_marks(x: Any) -> Any:
    marks = _device_rows(alt.Chart(), "rate").mark_point(filled=True, size=110, opacity=1, clip=True)
    looks = {"color": _verdict(alt.Color), "shape": _verdict(alt.Shape), "tooltip": _device_tip()}
    return marks.encode(x=x, y=look.rows_axis(), **looks)


def _device_tip() -> list[Any]:
    return [
        alt.Tooltip("whose:N", title="accelerator"),
        alt.Tooltip("rate:Q", title="peak FLOP/s", format=".3~s"),
        alt.Tooltip("seen:N", title="measured matmul, FLOP/s"),
        "verdict:N",
    ]


def rate_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the axis of `rate_needed` [FLOP/s]: whole decades around all rates, observed ones too."""
    return dict(zip(("x_low", "x_high"), look.decades([*frame["rate"], *frame["low"].dropna()]), strict=True))


def rate_title(frame: pd.DataFrame) -> str:
    """Return the takeaway of `rate_needed`, counted from the verdicts of its devices."""
    verdicts = frame.loc[frame["role"] == "device", "verdict"]
    sure, maybe = (int((verdicts == name).sum()) for name in list(VERDICTS)[:2])
    under = f", {maybe} of them under a condition" if maybe else ""
    unknown = int((verdicts == "not known").sum())
    rest = f"; too little is known of {unknown}" if unknown else ""
    total = f"{len(verdicts)} accelerator{'' if len(verdicts) == 1 else 's'}"
    if not sure + maybe:
        none = "No accelerator" if len(verdicts) == 1 else f"None of the {total}"
        return f"{none} could meet the target on its own{rest}"
    return f"{sure + maybe} of {total} {'is' if sure + maybe == 1 else 'are'} not ruled out{under}{rest}"


def memory_bars(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of the memory that training needs, by part, above the capacity of each accelerator.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `role` ("need", "compared", "pinned" or "device"), `part`
        (a key of `look.MEMORY_PARTS`; "capacity" for devices), `bytes` [B], `verdict` ("fits" or "does not fit"),
        `text` (words at the right, on one row of each label, `|` breaks), `note` (optional, for the tooltip).
    title : str, optional
        The takeaway; counted from the verdicts by default.

    Returns
    -------
    altair.LayerChart
        Signals: `x_high`, the end of the axis [GiB]; `rows`, the order of the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["A needs", "need", "weights", 2e9, None, "2 GiB"], ["B", "device", "capacity", 8e9, "fits", "fits"]]
    >>> memory_bars(pd.DataFrame(rows, columns=["row", "role", "part", "bytes", "verdict", "text"])).title.text
    'It fits 1 of 1 accelerators'
    """
    x = alt.X(
        "gib:Q",
        title="Memory of one accelerator [GiB]",
        stack="zero",
        scale=look.linear_scale("x_high"),
        axis=alt.Axis(tickCount=6),
    )
    layers = [*look.row_text(alt.Chart()), _stacks(x), _capacities(x), _total()]
    words = (
        "Stacked bars: memory that training needs, by part (weights, gradients, optimiser states, activations, "
        "workspace). Below, outlined bars: the memory of each accelerator; a dashed outline means that it is too "
        "small. The vertical rule is the first network's total."
    )
    return look.finished(frame, layers, title or memory_title(frame), _MEMORY_KEY, words, x_high=memory_domain(frame))


def _gibibytes() -> Any:
    return alt.Chart().transform_calculate(gib=f"datum.bytes / {_GIBI}")


def _byte_tips(*columns: Any) -> list[Any]:
    """Return the tooltip of a bar of memory: these columns, and its size."""
    return [*columns, alt.Tooltip("gib:Q", title="GiB", format=".3~r")]


def _stacks(x: Any, parts: Mapping[str, str] = MEMORY_PARTS) -> Any:
    """Return the needed memory, by part in the cookbook's order."""
    part = look.coloured("part", parts, look.top_legend(columns=6, symbolType="square"))
    need = _need_rows(_gibibytes()).transform_calculate(place=f"indexof({list(MEMORY_PARTS)}, datum.part)")
    bars = need.mark_bar(height={"band": 0.72}, clip=True, stroke=PAPER, strokeWidth=1)
    return bars.encode(
        x=x,
        y=look.rows_axis(),
        color=part,
        order=alt.Order("place:Q"),
        opacity=_when("pinned", 0.45, 1),
        tooltip=_byte_tips(alt.Tooltip("row:N", title="row"), alt.Tooltip("part:N")),
    )


def _capacities(x: Any) -> Any:
    """Return each accelerator's capacity: an outline, dashed where it is too small."""
    fits = "datum.verdict == 'fits'"
    bars = _device_rows(_gibibytes(), "bytes").mark_bar(
        height={"band": 0.5}, fill="transparent", strokeWidth=2, clip=True
    )
    return bars.encode(
        x=x,
        y=look.rows_axis(),
        tooltip=_byte_tips(alt.Tooltip("whose:N", title="accelerator"), alt.Tooltip("verdict:N")),
        stroke=alt.condition(fits, alt.value(PALETTE[2]), alt.value(PALETTE[1])),
        strokeDash=alt.condition(fits, alt.value([1, 0]), alt.value([5, 3])),
    )


def _total() -> Any:
    """Return a rule at the first network's total, down through the capacities."""
    total = alt.Chart().transform_filter("datum.role == 'need'").transform_aggregate(all="sum(bytes)")
    total = total.transform_calculate(gib=f"datum.all / {_GIBI}")
    return total.mark_rule(strokeWidth=2, color=INK, clip=True, opacity=look.THROUGH).encode(x="gib:Q")


def memory_domain(frame: pd.DataFrame) -> float:
    """Return the end of the axis of `memory_bars` [GiB], beyond the total need and every capacity."""
    need = frame[frame["role"] != "device"].groupby("row")["bytes"].sum()
    capacity = frame.loc[frame["role"] == "device", "bytes"]
    return look.nice_ceiling(max([*need, *capacity.dropna()], default=0.0) * 1.02 / _GIBI)


def memory_title(frame: pd.DataFrame) -> str:
    """Return the takeaway of `memory_bars`, counted from the verdicts of its devices."""
    verdicts = frame.loc[frame["role"] == "device", "verdict"]
    fitting = int((verdicts == "fits").sum())
    return f"It fits {fitting or 'none'} of {len(verdicts)} accelerators"


def method_memory(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of the memory that each fine-tuning method needs, by part with its interval, against the device's.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `row` (label, in order from the top), `role` ("need", "pinned", or "device": one row, drawn as a
        rule), `part` (a key of `look.MEMORY_PARTS`), `bytes` [B], `low` and `high` (ends of the interval [B]) and
        `text` (words at the right, `|` breaks), both on one row of each label.
    title : str, optional
        The takeaway.

    Returns
    -------
    altair.LayerChart
        Signals: `x_high`, the end of the axis [GiB]; `rows`, the order of the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [["LoRA", "need", "weights", 2e9, 1e9, 3e9, "fits"], ["GPU", "device", "capacity", 8e9, *3 * [None]]]
    >>> names = ["row", "role", "part", "bytes", "low", "high", "text"]
    >>> method_memory(pd.DataFrame(rows, columns=names), "It fits").title.text
    'It fits'
    """
    x = alt.X(
        "gib:Q",
        title="Memory of one GPU [GiB]",
        stack="zero",
        scale=look.linear_scale("x_high"),
        axis=alt.Axis(tickCount=6),
    )
    ends = (
        alt.Chart()
        .transform_filter("isValid(datum.high)")
        .transform_calculate(gib=f"datum.low / {_GIBI}", to=f"datum.high / {_GIBI}")
    )
    whisker = ends.mark_rule(strokeWidth=2, color=INK, clip=True).encode(x="gib:Q", x2="to:Q", y=look.rows_axis())
    room = _gibibytes().transform_filter("datum.role == 'device'")
    limit = room.mark_rule(strokeWidth=2, color=INK, strokeDash=[6, 4], clip=True, opacity=look.THROUGH).encode(
        x="gib:Q", tooltip=_byte_tips(alt.Tooltip("row:N", title="GPU"))
    )
    label = (
        room.transform_calculate(text="format(datum.gib, '.3~r') + ' GiB'")
        .mark_text(dy=-8)
        .encode(x="gib:Q", y=alt.value(0), text="text:N")
    )
    parts = {name: colour for name, colour in MEMORY_PARTS.items() if name in set(frame["part"])}
    words = (
        "Stacked bars, one per method of fine-tuning: weights, gradients, optimiser states, activations, workspace, "
        "with the 80 % interval of the sum. The dashed line marks the memory of one GPU; a bar beyond it does not fit."
    )
    layers = [*look.row_text(alt.Chart()), _stacks(x, parts), whisker, limit, label]
    return look.finished(frame, layers, title or "Memory by method", _METHOD_KEY, words, **method_ends(frame))


def method_ends(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the signals of `method_memory`: the end of the axis [GiB], and the rows from the top."""
    most = max(memory_domain(frame), look.nice_ceiling(frame["high"].dropna().astype(float).max() * 1.02 / _GIBI))
    return {"x_high": most, "rows": look.row_order(frame[frame["role"] != "device"])}


def parameters_vs_flop(frame: pd.DataFrame, title: str | None = None) -> Any:
    """Return a chart of every network of the zoo: parameters against FLOP.

    Parameters
    ----------
    frame : pandas.DataFrame
        Tidy rows: `title`, `group` (one of `FAMILY_GROUPS`, see `group_of`), `parameters` [-], `flop` (forward pass
        of one sample [FLOP]), `status` ("published" where both counts agree with print, else "unverified"),
        `label` (text beside the mark, empty for none), `selected` (bool).
    title : str, optional
        The takeaway; the range of FLOP per parameter by default.

    Returns
    -------
    altair.LayerChart
        Filled marks agree with published counts, hollow ones are unverified. Signals: `left`, `right`, `bottom`,
        `top`, the ends of the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"title": "A", "group": "other", "parameters": 1e6, "flop": 2e8, "status": "published", "label": "A",
    ...        "selected": True}
    >>> parameters_vs_flop(pd.DataFrame([row])).title.text
    'Size does not determine the work: 80 % of the networks here compute 200 to 200 FLOP per parameter per sample'
    """
    x, y = look.log_plane("parameters", "Parameters", "flop", "Forward FLOP per sample", look.decade_axis())
    layers = [_used_once(x, y), *_networks(x, y), *_names(x, y)]
    words = (
        "Scatter of networks, parameters against FLOP of one forward pass, both logarithmic, colour and shape by "
        "family. Filled marks agree with published values; hollow ones are unverified. The dashed line is two FLOP "
        "for each parameter: every parameter used once."
    )
    return look.finished(frame, layers, title or zoo_title(frame), _ZOO_KEY, words, **zoo_ends(frame))


def zoo_ends(frame: pd.DataFrame) -> dict[str, float]:
    """Return the ends of both axes of `parameters_vs_flop`: whole decades around its networks."""
    (left, right), (bottom, top) = (look.decades(frame[name]) for name in ("parameters", "flop"))
    return {"left": left, "right": right, "bottom": bottom, "top": top}


def _used_once(x: Any, y: Any) -> Any:
    """Return the line of two FLOP per parameter."""
    line = look.one_row(ends="[left, right]").transform_flatten(["ends"], ["parameters"])
    line = line.transform_calculate(flop="2 * datum.parameters")
    return line.mark_line(color=MUTED, strokeDash=[4, 4], clip=True).encode(x=x, y=y)


def _networks(x: Any, y: Any) -> list[Any]:
    groups = {group: pair for group, pair in zip(FAMILY_GROUPS, zip(PALETTE, SHAPES, strict=True), strict=True)}
    looks = look.looks("group", groups, look.top_legend(columns=5))
    tip = [
        alt.Tooltip("title:N", title="network"),
        alt.Tooltip("group:N", title="kind"),
        alt.Tooltip("parameters:Q", format=".4~s"),
        alt.Tooltip("flop:Q", title="forward FLOP", format=".4~s"),
        alt.Tooltip("status:N", title="parameters and MAC"),
    ]
    marks = (
        alt.Chart()
        .mark_point(size=70, strokeWidth=1.5)
        .encode(
            x=x,
            y=y,
            tooltip=tip,
            fill=alt.Fill("group:N", scale=looks["color"]["scale"], legend=None),
            **looks,
            fillOpacity=alt.condition("datum.status == 'published'", alt.value(0.75), alt.value(0)),
        )
    )
    ring = (
        alt.Chart()
        .transform_filter("datum.selected")
        .mark_point(size=260, strokeWidth=2.5, color=INK, shape="circle", filled=False)
    )
    return [marks, ring.encode(x=x, y=y, tooltip=tip)]


def _names(x: Any, y: Any) -> list[Any]:
    """Return the labels of the chosen networks, on a halo that keeps them legible."""
    labelled = alt.Chart().transform_filter("datum.label != ''")
    place: dict[str, Any] = {**look.inward(14), "dy": -8, "fontSize": 12}
    halo = labelled.mark_text(**place, stroke=PAPER, strokeWidth=4)
    return [mark.encode(x=x, y=y, text="label:N") for mark in (halo, labelled.mark_text(**place, color=INK))]


def zoo_title(frame: pd.DataFrame) -> str:
    """Return the takeaway of `parameters_vs_flop`."""
    ratio = (frame["flop"] / frame["parameters"]).dropna()
    low, high = (float(f"{ratio.quantile(share):.2g}") for share in (0.1, 0.9))
    span = f"{low:,.{0 if low >= 10 else 1}f} to {high:,.0f} FLOP per parameter"
    return f"Size does not determine the work: 80 % of the networks here compute {span} per sample"
