"""Panel of recipe 15: can a crossbar of memory cells compute a network, and what do its converters cost?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.calls import as_python, keywords
from cookbook.catalog.fields import Amount
from cookbook.catalog.refusals import refused
from cookbook.panels.controls import Choice, Combo, Control, Slider, powers_of_two
from cookbook.panels.options import Device, Network, accelerators, cited, network_titles, networks, printed, rounded
from cookbook.panels.shell import Off, Panel, Part, Picture, View, panel_call
from cookbook.panels.text import counted, figure, listed, percent
from cookbook.topics.analog import charts
from cookbook.topics.analog.crossbar import (
    MAX_BATCH,
    Mapped,
    Tile,
    crossbar_gain,
    crossbar_tile,
    digital_intensity,
    digital_roofs,
    largest_crossbar_batch,
    map_to_crossbars,
    published_crossbars,
)
from cookbook.topics.analog.digits import accuracy_curve, train_digits
from cookbook.units import human
from cookbook.workloads.zoo import layers

# What a curve goes over, and the settings that are tried beside the one chosen.
CURVES = {
    "adc_bits": (2, 3, 4, 5, 6, 8),
    "weight_bits": (2, 3, 4, 5, 6, 8),
    "programming": (0, 2, 5, 10, 15, 20, 30),
    "rows": (8, 16, 32, 64),
}
PICTURES = {name: partial(charts.accuracy, over=name) for name in CURVES} | {
    "roofline": charts.energy_roofline,
    "published": charts.beside,
}
# Draws of the cells, rows that the digits fill, and the factor that counts as near.
DRAWS, LARGEST, NEAR = 3, 64, 2.0
WORDS = {
    "ADC": "Conversions of column currents: one for all rows, times slices and cycles.",
    "DAC": "Drivers of the rows, cycle by cycle; each further bit of a driver doubles its energy.",
    "cells": "Heat in the cells: conductance × voltage squared × length of a pulse.",
    "digital sums": "Shifting and adding the converted values.",
}
_READS = ("programming", "wire_ohms", "days")


def crossbar(
    adc_bits: Amount = 8,
    rows: Amount = 64,
    weight_bits: Amount = 4,
    programming: Amount = 5,
    model: Network = "llama3_8b",
    accelerators: Device | Sequence[Device] = ("h100-sxm", "t4", "jetson-agx-orin-64gb"),
    cell_bits: Amount = 2,
    input_bits: Amount = 4,
    drive_bits: Amount = 1,
    wire_ohms: Amount = 1,
    days: Amount = 0,
    batch: Amount = 1,
    claim: Amount = 10,
    picture: str = "adc_bits",
) -> Panel:
    """Return the panel "What do the converters leave?" in the state that the arguments describe.

    Parameters
    ----------
    adc_bits, weight_bits, cell_bits, input_bits, drive_bits : int
        As for `cb.planning.crossbar_tile`.
    rows : int
        Rows of a tile, which has as many columns.
    programming : float
        Standard deviation of programming in per cent of the largest conductance.
    model, accelerators, batch
        Network on the tiles in the roofline, digital devices beside it, and samples that these compute together.
    claim : float
        Claimed energy efficiency of the crossbar over that of a digital device; the roofline finds its largest batch.
    wire_ohms : float
        Resistance of the wire between two cells [ohm].
    days : float
        Since the cells were programmed.
    picture : {"adc_bits", "weight_bits", "programming", "rows", "roofline", "published"}
        The chart to start with.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = crossbar(picture="published")
    >>> "machines" in panel.answer
    True
    """
    return Panel(crossbar, "What do the converters leave?", _controls, PICTURES, _draw, locals(), OFF)


OFF: dict[str, Off] = {
    **dict.fromkeys(_READS, lambda v: {} if v.get("picture") in CURVES else {"*": "this chart shows no digits"}),
    **dict.fromkeys(
        ("model", "accelerators", "batch", "claim"),
        lambda v: {} if v.get("picture") == "roofline" else {"*": "used by the roofline alone"},
    ),
}


def _controls() -> tuple[Control, ...]:
    bits = tuple(range(1, 9))
    with_peak = set(catalog.table("accelerators").dropna(subset=["peak_int8", "mem_bandwidth", "tdp_watts"])["key"])
    return (
        Slider(
            "adc_bits",
            "ADC bits",
            "Converters",
            tuple(range(2, 13)),
            tooltip="Resolution of the converters of column currents, sign included",
        ),
        Slider(
            "rows",
            "Rows of a tile",
            "Tile",
            powers_of_two(3, 9),
            tooltip="Rows that one column sums, and number of columns; the cells of a weight are side by side",
        ),
        Slider(
            "weight_bits",
            "Weight bits",
            "Tile",
            tuple(range(2, 9)),
            tooltip="Bits of a weight, sign included; a pair of cells represents the sign",
        ),
        Slider(
            "programming",
            "Programming spread",
            "Cells",
            (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50),
            unit="%",
            whole=False,
            tooltip="Standard deviation of programmed conductances, relative to the largest",
        ),
        Combo("model", "Model", "Roofline", networks(), tooltip="Network whose weights are mapped to tiles"),
        Combo(
            "accelerators",
            "Digital devices",
            "Roofline",
            tuple(each for each in accelerators() if each[0] in with_peak),
            many=True,
            least=1,
            limit=4,
            tooltip="Devices with an INT8 peak, a bandwidth and a design power",
        ),
        Slider(
            "cell_bits",
            "Cell bits",
            "Tile",
            (1, 2, 3, 4),
            more=True,
            tooltip="Bits of one cell; fewer bits need more slices per weight",
        ),
        Slider("input_bits", "Input bits", "Converters", bits, more=True, tooltip="Bits of an input"),
        Slider(
            "drive_bits",
            "Bits per cycle",
            "Converters",
            (1, 2, 4, 8),
            more=True,
            tooltip="Bits of an input applied to a row at once; fewer bits need more cycles",
        ),
        Slider(
            "wire_ohms",
            "Wire",
            "Cells",
            (0, 0.5, 1, 2, 5, 10, 20, 50, 100),
            unit="ohm",
            whole=False,
            more=True,
            tooltip="Resistance of the wire between two cells",
        ),
        Slider(
            "days",
            "Days since programming",
            "Cells",
            (0, 1, 7, 30, 365, 3650),
            unit="days",
            whole=False,
            more=True,
            zero="as programmed",
            tooltip="Cells of phase-change memory lose conductance with time",
        ),
        Slider(
            "batch",
            group="Roofline",
            stops=powers_of_two(0, 10),
            more=True,
            tooltip="Samples, or tokens of a language model, per batch of the digital devices",
        ),
        Slider(
            "claim",
            "Claim",
            "Roofline",
            (1, 2, 3, 5, 10, 20, 50, 100),
            unit="×",
            more=True,
            tooltip="Energy efficiency that a vendor claims, over that of the best digital device",
        ),
        Choice(
            "picture",
            "Chart",
            "",
            (
                ("adc_bits", "ADC", "Accuracy over the resolution of the converters"),
                ("weight_bits", "Weights", "Accuracy over the bits of a weight"),
                ("programming", "Noise", "Accuracy over the spread of programming"),
                ("rows", "Tile", "Accuracy over the size of a tile"),
                ("roofline", "Roofline", "Operations per joule, conversion included, compared with digital devices"),
                ("published", "Published", "Operations per joule of published machines, compared with our values"),
            ),
            place="picture",
        ),
    )


def _tile(values: dict[str, Any]) -> Tile:
    names = ("adc_bits", "rows", "weight_bits", "cell_bits", "input_bits", "drive_bits")
    if values["drive_bits"] > values["input_bits"]:
        what = f"is more than the bits of an input; take one of 1 to {values['input_bits']}"
        raise refused("drive_bits", values["drive_bits"], what)
    return crossbar_tile(**{name: values[name] for name in names})


@lru_cache(maxsize=1024)
def _point(over: str, value: float, tile: tuple[tuple[str, Any], ...], **noise: Any) -> tuple[float, float, float]:
    """Return mean, least and largest accuracy at one point of a curve; the other points stay in the cache."""
    curve = accuracy_curve(over, (value,), crossbar_tile(**dict(tile)), draws=DRAWS, **noise)
    mean, least, most = curve[["mean", "least", "most"]].iloc[0]
    return mean, least, most


def _key(tile: Tile) -> tuple[tuple[str, Any], ...]:
    """Return the arguments of a tile as a key of caches; a panel takes no other converter."""
    return tuple((name, value) for name, value in tile.arguments.items() if name != "converter")


@lru_cache(maxsize=1)
def _digit_layers() -> Any:
    first, second = train_digits().weights
    return layers(
        [{"layer": "linear", "out": first.shape[1]}, {"layer": "linear", "out": second.shape[1]}],
        input=(first.shape[0],),
        title="Digit network",
    )


@lru_cache(maxsize=256)
def _mapped(model: Any, tile: tuple[tuple[str, Any], ...]) -> Mapped:
    return map_to_crossbars(_digit_layers() if model is None else model, crossbar_tile(**dict(tile)))


def _draw(values: dict[str, Any], _pinned: View | None) -> View:
    picture, tile = values["picture"], _tile(values)
    for table, names in (("models", [values["model"]]), ("accelerators", values["accelerators"])):
        for name in names:
            catalog.lookup(table, name)
    mapped = _mapped(values["model"] if picture == "roofline" else None, _key(tile))
    return {"roofline": _roofline, "published": _beside}.get(picture, _accuracy)(values, tile, mapped)


def _accuracy(values: dict[str, Any], tile: Tile, mapped: Mapped) -> View:
    """Return the view of the accuracy over one setting, with the chosen one."""
    over = values["picture"]
    chosen = values[over]
    least = 2 * tile.slices if over == "rows" else 0
    tried = tuple(sorted({each for each in CURVES[over] if each >= least} | {chosen}))
    noise = {"programming": values["programming"] / 100, "wire_ohms": values["wire_ohms"], "days": values["days"]}
    others = {name: value for name, value in noise.items() if name != over}
    drawn = [
        _point(over, each / 100 if over == "programming" else each, _key(_tile({**values, over: each})), **others)
        for each in tried
    ]
    curve = pd.DataFrame(drawn, columns=["mean", "least", "most"])
    exact = train_digits().accuracy
    frame = pd.DataFrame(
        {
            "label": [f"{each:g}" for each in tried],
            **(100 * curve).round(4),
            "exact": round(100 * exact, 4),
            "here": [each == chosen for each in tried],
        }
    )
    here = frame[frame["here"]].iloc[0]
    share, lost = f"{here['mean']:.1f} %", 100 * exact - here["mean"]
    points = f"{abs(lost):.1f} point{'s' * (f'{abs(lost):.1f}' != '1.0')}"
    against = f"{points} {'less' if lost > 0 else 'more'} than" if round(lost, 1) else "as much as"
    return View(
        answer=f"**{share}** of the test digits are recognised correctly on crossbars, {against} in floating point. "
        f"Range: {here['least']:.1f} to {here['most']:.1f} % over {DRAWS} rounds of programming all cells. "
        f"{_converters(tile)} {_energy(mapped)} {_tiles(mapped)}",
        headline={"digits recognised [%]": float(here["mean"])},
        chips=_CHIPS[over != "rows" :] if values["rows"] <= LARGEST else _CHIPS,
        picture=Picture(
            over,
            frame,
            f"{share} of the test digits are recognised with {_setting(over, chosen)}",
            {"labels": list(frame["label"])},
        ),
        parts=_parts(mapped),
        parts_title="Energy of one MAC of the digit network",
        table=lambda: _curve_table(frame, over),
        data=lambda: frame,
        sources=lambda: _sources(),
        code=_code(values, tile, f"cb.planning.crossbar_accuracy(tile=tile, {keywords({**noise, 'draws': DRAWS})})"),
    )


def _setting(over: str, value: float) -> str:
    return {
        "adc_bits": f"ADCs of {counted(int(value), 'bit')}",
        "weight_bits": f"weights of {value:g} bits",
        "programming": f"a spread of programming of {value:g} %",
        "rows": f"tiles of {value:g} rows",
    }[over]


def _roofline(values: dict[str, Any], tile: Tile, mapped: Mapped) -> View:
    """Return the view of the crossbar's level lines beside the rooflines of digital devices."""
    at = digital_intensity(values["model"], values["batch"])
    ends = (min(1.0, at), max(1e4, at))
    corners = [ends[0] * (ends[1] / ends[0]) ** (step / 60) for step in range(61)]
    digital = digital_roofs(values["accelerators"], [*corners, at])
    names = {"cells alone": ("cells",), "cells and drivers": ("cells", "DAC"), "with ADCs and sums": charts.PARTS}
    rows: list[tuple[Any, ...]] = [
        ("roof", row.key, "digital devices", row.intensity, row.flop_per_joule, row.name)
        for row in digital.sort_values("intensity", kind="stable").itertuples()
    ]
    for kind, parts in names.items():
        level = 2 * mapped.macs / sum(mapped.joules[part] for part in parts)
        rows += [("roof", kind, kind, x, level, kind) for x in ends]
    beside = digital[digital["intensity"] == at]
    rows += [("point", row.key, "digital devices", at, row.flop_per_joule, row.name) for row in beside.itertuples()]
    ours = mapped.flop_per_joule
    rows.append(("point", "crossbar", "with ADCs and sums", at, ours, "the crossbar"))
    best = beside.loc[beside["flop_per_joule"].idxmax()]
    frame = rounded(pd.DataFrame(rows, columns=["what", "id", "kind", "x", "y", "text"]), ("x", "y"))
    share, device = mapped.share("ADC"), str(best["name"]).split(" (")[0]
    network = network_titles().get(values["model"], mapped.title) if isinstance(values["model"], str) else mapped.title
    rate = _per_joule(ours)
    return View(
        answer=f"{_claimed(values, tile, best['key'], device)} Network: {network}. {_energy(mapped)[:-1]}; with free "
        f"ADCs at most {1 / (1 - share):.2f}× better, by Amdahl's law. {_tiles(mapped)[:-1]}; as many cells as in "
        f"{counted(math.ceil(mapped.chips), 'ISAAC chip')}. Time: {mapped.pace()}.",
        headline={"operations per joule": ours},
        chips=(*_CHIPS[1:], _DIGITAL),
        picture=Picture(
            "roofline",
            frame,
            f"{_claimed(values, tile, best['key'], device).partition(';')[0].replace('**', '')} if idle tiles draw "
            f"nothing; at batch {values['batch']:,}, {rate} against {_per_joule(best['flop_per_joule'])}",
            charts.roofline_ends(frame),
        ),
        parts=_parts(mapped),
        parts_title="Energy of one MAC",
        table=lambda: _device_table(digital, mapped, at, values["batch"]),
        data=lambda: frame,
        sources=lambda: _sources(values["accelerators"]),
        code=_code(values, tile, f"cb.planning.map_to_crossbars({as_python(values['model'])}, tile)"),
    )


def _claimed(values: dict[str, Any], tile: Tile, key: str, device: str) -> str:
    """Return the batches up to which a claim holds, and the gain at the chosen one: without and with idle power."""
    idle, gains = constant("crossbar-idle-share"), []
    for share in (0.0, idle):
        limit = _largest(values["model"], key, _key(tile), float(values["claim"]), share)
        last = _largest(values["model"], key, _key(tile), 1.0, share)
        gain = crossbar_gain(values["model"], key, crossbar_tile(**dict(_key(tile))), values["batch"], share)
        gains.append((_up_to(limit), f"{figure(gain)}×", _up_to(last).replace("**", "")))
    (free, now, equal), (powered, now_powered, equal_powered) = gains
    return (
        f"{figure(values['claim'])} times the efficiency of {device} {free}; with idle power, "
        f"{powered.replace('**', '')}. At batch {values['batch']:,} and design power: {now}, or {now_powered} if idle "
        f"tiles draw {percent(idle)} of full power; a gain {equal}, or {equal_powered}."
    )


def _up_to(batch: int) -> str:
    """Return the batches up to which a gain holds, in words; the search ends at `MAX_BATCH`."""
    if batch in (0, MAX_BATCH):
        return "at **every batch**" if batch else "at **no batch**"
    return f"up to batch **{batch:,}**"


@lru_cache(maxsize=256)
def _largest(model: Any, key: str, tile: tuple[tuple[str, Any], ...], gain: float, idle: float) -> int:
    return largest_crossbar_batch(model, key, crossbar_tile(**dict(tile)), gain, idle)


def _beside(values: dict[str, Any], tile: Tile, mapped: Mapped) -> View:
    """Return the view of published machines beside our values for them."""
    rows = published_crossbars().sort_values("efficiency", ascending=False, na_position="last", kind="stable")
    marks: list[tuple[Any, ...]] = []
    for row in rows.to_dict("records"):
        label = f"{row['name']}, {row['year']:.0f}"
        has_both = not math.isnan(row["ratio"])
        text = f"ours {row['ratio']:.2g}×" if has_both else "tile not stated" if row["efficiency"] > 0 else "not stated"
        marks += [
            (label, whose, row[column], row[other], text if whose == "ours" else None)
            for whose, column, other in (("ours", "ours", "efficiency"), ("published", "efficiency", "ours"))
        ]
    frame = rounded(pd.DataFrame(marks, columns=["row", "whose", "value", "other", "text"]), ("value", "other"))
    comparable = rows.dropna(subset=["ratio"])
    left = listed(list(rows[rows["ratio"].isna()]["name"]))
    near = comparable[(comparable["ratio"] <= NEAR) & (comparable["ratio"] >= 1 / NEAR)]
    fraction = f"{len(near)} of {len(comparable)}"
    ends = f"{comparable['ratio'].min():.2g} to {comparable['ratio'].max():.2g}×"
    return View(
        answer=f"**{fraction}** machines are within a factor of two of our value, which uses only ISAAC's energies. "
        f"Ratio: our value is {ends} the published one. Left out: {left}, which do not state their tile or energy. "
        f"Largest: {rows['name'].iloc[0]}, {rows['evidence'].iloc[0]}. {_energy(mapped)}",
        headline={"machines within a factor of two": float(len(near))},
        chips=(("published peaks", "Each value includes what its authors included; see the table."), *_CHIPS[2:]),
        picture=Picture(
            "published",
            frame,
            f"{fraction} machines are within a factor of two of our value",
            {"rows": list(dict.fromkeys(frame["row"])), **charts.beside_ends(frame)},
        ),
        parts=_parts(mapped),
        parts_title="Energy of one MAC of the digit network on the chosen tile",
        table=lambda: _machine_table(rows),
        data=lambda: rows.drop(columns=["note"]),
        sources=lambda: cited(dict.fromkeys(";".join(rows["source"]).split(";"), "published machines")),
        code=_code(values, tile, "cb.planning.published_crossbars()"),
    )


def _per_joule(rate: float) -> str:
    return f"{human(rate, 'OP')}/J"


_CHIPS = (
    ("64 inputs", "The digits have 64 inputs; further rows stay empty."),
    ("tiles alone", "Cells, wires and converters by formulas; buffers, routers and activations are not counted."),
    (
        "energies of ISAAC",
        "Energies of converters as in ISAAC (2016, 32 nm); published values differ by a factor of 10.",
    ),
)


_DIGITAL = (
    "INT8 at design power",
    "Digital devices multiply 8-bit integers at their peak, or as fast as memory delivers "
    "weights, which a batch reads once; activations stay on the chip.",
)


def _converters(tile: Tile) -> str:
    need = tile.lossless_bits
    return f"Converters: {counted(tile.adc_bits, 'bit')}; {need} would distinguish every sum of a full column."


def _energy(mapped: Mapped) -> str:
    return f"Energy: {human(mapped.mac_joules, 'J')} per MAC, {percent(mapped.share('ADC'))} of it in ADCs."


def _tiles(mapped: Mapped) -> str:
    tile = mapped.tile
    return (
        f"Tiles: {int(mapped.tiles):,} of {tile.rows} × {tile.columns}; a weight takes "
        f"{counted(2 * tile.slices, 'cell')} and {counted(tile.cycles, 'cycle')}."
    )


def _parts(mapped: Mapped) -> tuple[Part, ...]:
    return tuple(
        Part(name, value / mapped.macs, human(value / mapped.macs, "J"), charts.PARTS[name], WORDS[name])
        for name, value in mapped.joules.items()
        if value
    )


def _code(values: dict[str, Any], tile: Tile, call: str) -> str:
    arguments = {name: value for name, value in tile.arguments.items() if name not in ("columns", "converter")}
    return f"{panel_call(crossbar, values)}\ntile = cb.planning.crossbar_tile({keywords(arguments)})\n{call}"


def _curve_table(frame: pd.DataFrame, over: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            charts.AXES[over]: frame["label"],
            **{
                name: frame[column].map("{:.1f} %".format)
                for name, column in (("Mean", "mean"), ("Worst draw", "least"), ("Best draw", "most"))
            },
        }
    )


def _device_table(digital: pd.DataFrame, mapped: Mapped, at: float, batch: int) -> pd.DataFrame:
    here = digital[digital["intensity"] == at]
    watts = catalog.table("accelerators").set_index("key")["tdp_watts"]
    each = [2 * mapped.macs / (row.flop_per_joule * watts[row.key]) for row in here.itertuples()]
    peak = digital.groupby("key")["flop_per_joule"].max()
    return pd.DataFrame(
        {
            "On": [*here["name"], "crossbar"],
            "Energy per MAC here": [
                *here["mac_joules"].map(lambda each: human(each, "J")),
                human(mapped.mac_joules, "J"),
            ],
            "Operations per joule here": [*here["flop_per_joule"].map(_per_joule), _per_joule(mapped.flop_per_joule)],
            f"From {mapped.sample} to {mapped.sample}, full": [human(value, "s") for value in (*each, mapped.seconds)],
            f"One {mapped.sample} alone or in its batch": [
                human(value, "s") for value in (*(batch * value for value in each), mapped.latency)
            ],
            "At its peak": [*(_per_joule(peak[key]) for key in here["key"]), _per_joule(mapped.flop_per_joule)],
        }
    )


def _machine_table(rows: pd.DataFrame) -> pd.DataFrame:
    def told(column: str) -> list[str]:
        return ["not stated" if math.isnan(each) else _per_joule(each) for each in rows[column]]

    return pd.DataFrame(
        {
            "Machine": rows["name"],
            "Year": rows["year"].map("{:.0f}".format),
            "Evidence": rows["evidence"],
            "Published": told("efficiency"),
            "Ours": told("ours"),
            "Ratio": ["" if math.isnan(each) else f"{each:.2g}×" for each in rows["ratio"]],
            "Counts": rows["covers"],
        }
    )


def _sources(devices: Any = ()) -> tuple[tuple[str, str, str], ...]:
    rows = catalog.table("constants")
    rows = rows[rows["name"].str.startswith("crossbar-")]
    notes = dict.fromkeys(";".join(rows["source"]).split(";"), "cells and converters")
    sources = cited({**notes, "uci-optdigits": "the digits"})
    named = [printed("accelerators", "key", "name", each) for each in devices if isinstance(each, str)]
    return (*sources, *((each, "", "INT8 peak, bandwidth and power of its row of accelerators") for each in named))
