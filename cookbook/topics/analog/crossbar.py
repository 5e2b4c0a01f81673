"""Networks on crossbars: their tiles, the energy of one product, and published machines.

Values of cells and converters are rows of the table ``constants``, published machines rows of ``crossbars``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.refusals import refused
from cookbook.formulas import crossbar as formulas
from cookbook.hardware import Accelerator
from cookbook.hardware import accelerator as device_named
from cookbook.prediction.api import MODEL, network_of
from cookbook.result import Result
from cookbook.units import human
from cookbook.workloads.ops import MATMUL_KINDS
from cookbook.workloads.zoo import Workload

PARTS = ("ADC", "DAC", "cells", "digital sums")
FLOP_PER_MAC = 2
PEAK, FORMAT = "peak_int8", "INT8"
# Columns that must be published before our formulas can predict a machine.
REQUIRED_COLUMNS = ("rows", "columns", "cells", "conversions", "weight_bits", "input_bits", "drive_bits", "adc_bits")
MAX_BATCH = 2**16
_SIDES, _BITS = (1, 4096), (1, 16)


@dataclass(frozen=True, eq=False)
class Tile:
    """A checked crossbar with its converters, made by `crossbar_tile`.

    Attributes
    ----------
    rows, columns, weight_bits, cell_bits, input_bits, drive_bits, adc_bits : int
        As given.
    slices, cycles : int
        Pairs of cells of one weight, and cycles of one input.
    joules : mapping of str to float
        ``ADC`` (a conversion), ``DAC`` (driving a row once), ``cells`` (a cell read once), ``digital sums`` (adding one
        converted number) [J].
    arguments : mapping
        The arguments from which it was made.
    """

    rows: int
    columns: int
    weight_bits: int
    cell_bits: int
    input_bits: int
    drive_bits: int
    adc_bits: int
    slices: int
    cycles: int
    joules: Mapping[str, float]
    arguments: Mapping[str, Any]

    @property
    def lossless_bits(self) -> int:
        """Return the bits of a converter that distinguishes every sum of a full column.

        One of them is for the signs of pairs.
        """
        return int(formulas.shafiee_2016_bits(self.rows, self.drive_bits, self.cell_bits)) + 1

    def __repr__(self) -> str:
        return (
            f"<Tile {self.rows} x {self.columns}: weights of {self.weight_bits} bits in {self.slices} pairs of cells, "
            f"inputs of {self.input_bits} bits in {self.cycles} cycles, ADC of {self.adc_bits} bits>"
        )


SIDE, SEQ = Field.count(*_SIDES), Field.number(1, 1e8)


@checked(
    rows=SIDE,
    columns=SIDE,
    weight_bits=Field.count(2, _BITS[1]),
    cell_bits=Field.count(1, 8),
    input_bits=Field.count(*_BITS),
    drive_bits=Field.count(1, 8),
    adc_bits=Field.count(2, _BITS[1]),
    converter=Field.function("one from bits to joules"),
)
def crossbar_tile(
    rows: int = 128,
    columns: int | None = None,
    *,
    weight_bits: int = 8,
    cell_bits: int = 2,
    input_bits: int = 8,
    drive_bits: int = 1,
    adc_bits: int = 8,
    converter: Callable[[int], Any] | None = None,
) -> Tile:
    """Return a crossbar with its slices and its converters.

    Parameters
    ----------
    rows, columns : int
        Size of the tile, 1 to 4,096; columns default to the number of rows.
    weight_bits, input_bits : int
        Bits of a weight, sign included (2 to 16), and of an input (1 to 16).
    cell_bits, drive_bits : int
        Bits that one cell stores, and bits applied to a row in one cycle: 1 to 8 each.
    adc_bits : int
        Resolution of the converters, sign included, 2 to 16.
    converter : callable
        Called with bits; returns the energy of one conversion [J]. Default: `cb.crossbar.walden_1999` at the energy
        of ISAAC's converter.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Examples
    --------
    >>> crossbar_tile(weight_bits=8, cell_bits=2)
    <Tile 128 x 128: weights of 8 bits in 4 pairs of cells, inputs of 8 bits in 8 cycles, ADC of 8 bits>
    """
    sizes = {
        "rows": rows,
        "columns": rows if columns is None else columns,
        "weight_bits": weight_bits,
        "cell_bits": cell_bits,
        "input_bits": input_bits,
        "drive_bits": drive_bits,
        "adc_bits": adc_bits,
    }
    slices = int(formulas.slices(sizes["weight_bits"] - 1, sizes["cell_bits"]))
    cycles = int(formulas.slices(sizes["input_bits"], sizes["drive_bits"]))
    if sizes["columns"] < 2 * slices:
        reason = (
            f"is outside [{2 * slices}, {_SIDES[1]}]: one weight takes {2 * slices} cells side by side, so give "
            f"{2 * slices} columns or more, or cells of more bits"
        )
        raise refused("columns", sizes["columns"], reason)
    joules = _joules(sizes["adc_bits"], sizes["drive_bits"], True, constant("crossbar-pulse"), converter)
    return Tile(**sizes, slices=slices, cycles=cycles, joules=joules, arguments={**sizes, "converter": converter})


def _joules(
    adc_bits: int, drive_bits: int, paired: bool, pulse: float, converter: Callable[[int], Any] | None = None
) -> dict[str, float]:
    """Return the energy of one conversion, one drive, reading of a cell and one addition [J]."""
    step = constant("crossbar-adc-energy") / 2 ** constant("crossbar-adc-bits")
    adc = formulas.walden_1999(adc_bits, step) if converter is None else _conversion_joules(converter, adc_bits)
    # Levels are assumed equally frequent, and one cell of each pair has the smallest conductance.
    least, largest = constant("crossbar-least-share"), constant("crossbar-largest-conductance")
    mean = largest * (least + (1 - least) * (0.25 if paired else 0.5))
    heat = formulas.cell_joules(mean, constant("crossbar-read-volts"), pulse, formulas.mean_square_input(drive_bits))
    drive = formulas.walden_1999(drive_bits, constant("crossbar-dac-energy") / 2)
    energies = (float(adc), float(drive), float(heat), constant("crossbar-add-energy"))
    return dict(zip(PARTS, energies, strict=True))


def _conversion_joules(converter: Callable[[int], Any], bits: int) -> float:
    """Return the energy of one conversion by a formula of the reader's [J]."""
    try:
        joules = float(converter(bits))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"converter gives no number for {bits} bits: give a function from bits to joules") from None
    if not np.isfinite(joules) or joules < 0:
        raise ValueError(f"converter gives {joules:g} J for {bits} bits, outside [0, inf): give an energy")
    return joules


# A tile of the reader's own, and intensities at which rooflines are drawn.
TILE = Field.record(Tile, what="tile", give="one of cb.planning.crossbar_tile")
POSITIVE = Field.array(0, above=True, missing=False, give="operations for each byte, more than 0: one number or a list")


@dataclass(frozen=True, eq=False, repr=False)
class Mapped(Result):
    """A network on tiles; 1 MAC is 2 FLOP.

    Attributes
    ----------
    title, sample : str
        The network, and what one sample of it is called.
    tile : Tile
        The tile on which the product is computed.
    tiles, cells, conversions : float
        Tiles and cells that store its weights once; conversions of one sample.
    macs, left_macs : float
        Multiply-accumulates of one sample on crossbars, and those of operations without weights (attention), which
        stay digital and are not counted further.
    joules : mapping of str to float
        Energy of one sample by part [J].
    latency, seconds : float
        Time of one sample through all layers, and between two samples of a full pipeline: that of the slowest layer,
        whose weights are there once [s].
    """

    _class_in_repr = False
    title: str
    sample: str = field(repr=False)
    tile: Tile = field(repr=False)
    tiles: float
    cells: float
    conversions: float
    macs: float
    left_macs: float
    joules: Mapping[str, float]
    latency: float
    seconds: float
    layers: pd.DataFrame = field(repr=False)

    @property
    def mac_joules(self) -> float:
        """Return the energy of one MAC, converters included [J]."""
        return sum(self.joules.values()) / self.macs

    @property
    def flop_per_joule(self) -> float:
        """Return the operations per joule [OP/J]."""
        return FLOP_PER_MAC / self.mac_joules

    @property
    def chips(self) -> float:
        """Return the number of chips of ISAAC with as many cells as these tiles.

        >>> 200 < map_to_crossbars("llama3_8b").chips < 300
        True
        """
        return self.tiles * self.tile.rows * self.tile.columns / constant("crossbar-chip-cells")

    def share(self, part: str) -> float:
        """Return a part's share of the energy.

        >>> map_to_crossbars("alexnet").share("ADC") > 0.4
        True
        """
        return self.joules[part] / sum(self.joules.values())

    def frame(self) -> pd.DataFrame:
        """Return the layers with their tiles, conversions, energy and time."""
        return self.layers.copy()

    def summary(self) -> str:
        """Return tiles, energy per MAC and pace in one line."""
        return (
            f"{self.title}: {self.tiles:,.0f} tiles of {self.tile.rows} x {self.tile.columns}, "
            f"{human(self.mac_joules, 'J')} per MAC, {100 * self.share('ADC'):.0f} % of it in ADCs, "
            f"{self.pace()}"
        )

    def pace(self) -> str:
        """Return the time of a sample, and the time until the next one follows, in words."""
        if self.sample != "token":
            return f"{human(self.seconds, 's')} from {self.sample} to {self.sample} in a full pipeline"
        return (
            f"{human(self.latency, 's')} per token for one stream; {human(self.seconds, 's')} between tokens when many "
            "streams fill the pipeline"
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the eight layers of the most energy as printed, by title."""
        top = self.layers.nlargest(8, "joules")
        rows = pd.DataFrame(
            {
                "Layer": top["layer"],
                "Tiles": top["tiles"].map("{:,.0f}".format),
                "Energy": top["joules"].map(lambda value: human(value, "J")),
                "Time": top["seconds"].map(lambda value: human(value, "s")),
            }
        )
        return {"Layers": rows}


@checked(model=MODEL, tile=TILE, seq=SEQ)
def map_to_crossbars(model: str | Workload = "resnet50", tile: Tile | None = None, seq: float | None = None) -> Mapped:
    """Map a network's weights to tiles, and count conversions, energy and time of one sample.

    Parameters
    ----------
    model : str or Workload
        A network of the zoo, or one of your own.
    tile : Tile
        `crossbar_tile()` by default.
    seq : float
        Tokens of a sample; by default one, a step of decoding, where the network reads tokens.

    Raises
    ------
    ValueError
        If the network has no layers with weights.

    Examples
    --------
    >>> map_to_crossbars("alexnet").tiles > 20_000
    True
    """
    tile = tile or crossbar_tile()
    network, length = _network_and_length(model, seq)
    layers = _layers(network, length)
    inputs, outputs, groups, times = (layers[name].to_numpy() for name in ("inputs", "outputs", "groups", "products"))
    cells_per_weight = 2 * tile.slices
    parts = formulas.product_joules(
        inputs,
        outputs,
        tile.rows,
        tile.columns,
        cells_per_weight,
        tile.slices,
        tile.cycles,
        *(tile.joules[part] for part in PARTS),
    )
    count = layers["count"].to_numpy()
    all_times = times * groups * count
    # Groups on one tile share its converter.
    packed = np.minimum(np.minimum(tile.rows // inputs, tile.columns // (outputs * cells_per_weight)), groups)
    wide = np.maximum(np.minimum(outputs * tile.slices * np.maximum(packed, 1), tile.columns // 2), 1)
    product_seconds = formulas.product_seconds(
        wide, tile.cycles, constant("crossbar-pulse"), 1, constant("crossbar-adc-rate")
    )
    converted = tile.cycles * np.ceil(inputs / tile.rows) * outputs * tile.slices * all_times
    layers["tiles"] = formulas.tiles(inputs, outputs, tile.rows, tile.columns, cells_per_weight, groups) * count
    layers["cells"] = inputs * outputs * groups * cells_per_weight * count
    layers["macs"], layers["conversions"] = inputs * outputs * all_times, converted
    layers["joules"] = sum(parts.values()) * all_times
    layers["seconds"] = product_seconds * times
    return Mapped(
        network.title,
        "token" if length == 1 else network.sample,
        tile,
        float(layers["tiles"].sum()),
        float(layers["cells"].sum()),
        float(converted.sum()),
        float(layers["macs"].sum()),
        max(float(network.ops.total("macs", 1, length)) - float(layers["macs"].sum()), 0.0),
        {name: float((part * all_times).sum()) for name, part in parts.items()},
        float((layers["seconds"] * count).sum()),
        float(layers["seconds"].max()),
        layers,
    )


def _layers(network: Workload, seq: float | None) -> pd.DataFrame:
    """Return the layers with weights: sizes of the product of one group, groups, and products of one sample."""
    ops = network.ops
    n, k, macs = (ops.column(name, 1, seq) for name in ("n", "k", "macs"))
    stored = np.isin(ops.kind, MATMUL_KINDS) & (ops.weights > 0) & (n > 0) & (k > 0) & (macs > 0)
    n, k, count, groups = n[stored], k[stored], ops.count[stored], ops.groups[stored]
    # A layer of several products of one shape with different weights (experts, recurrent gates) has more groups.
    matrices = np.maximum(np.rint(ops.weights[stored] / (n * k)), groups)
    if not stored.any():
        raise refused("model", network.title, "has no layer with weights to store: take another network")
    return pd.DataFrame(
        {
            "layer": ops.name[stored],
            "inputs": k,
            "outputs": n,
            "groups": matrices,
            "count": count,
            "products": macs[stored] / (n * k * matrices * count),
        }
    )


@lru_cache(maxsize=1)
def _published_rows() -> pd.DataFrame:
    rows = catalog.table("crossbars")
    predictions = []
    for row in rows.to_dict("records"):
        if any(np.isnan(row[name]) for name in REQUIRED_COLUMNS):
            predictions.append((np.nan, np.nan))
            continue
        pulse = constant("crossbar-pulse") if np.isnan(row["pulse"]) else row["pulse"]
        joules = _joules(int(row["adc_bits"]), int(row["drive_bits"]), row["cells"] > row["conversions"], pulse)
        outputs = row["columns"] / row["conversions"]
        cycles = formulas.slices(row["input_bits"], row["drive_bits"])
        parts = formulas.product_joules(
            row["rows"],
            outputs,
            row["rows"],
            outputs * row["cells"],
            row["cells"],
            row["conversions"],
            cycles,
            *(joules[part] for part in PARTS),
        )
        total = float(sum(parts.values()))
        predictions.append((FLOP_PER_MAC * row["rows"] * outputs / total, float(parts["ADC"]) / total))
    rows["ours"], rows["adc_share"] = zip(*predictions, strict=True)
    return rows.assign(ratio=rows["ours"] / rows["efficiency"])


def published_crossbars() -> pd.DataFrame:
    """Return published machines, and our formulas' values for a full tile of theirs.

    Our value uses their tile, bits and pulse, and the energies of ISAAC's converters; nothing is fitted to them.

    Returns
    -------
    pandas.DataFrame
        The table ``crossbars`` with `ours` [OP/J], `adc_share` of it, and `ratio` of ours to what was published;
        missing where a machine's tile or energy is not stated.

    Examples
    --------
    >>> int(published_crossbars()["ratio"].notna().sum()) >= 3
    True
    """
    return _published_rows().copy()


@checked(devices=Field.named("accelerators", Accelerator, many=True), intensity=POSITIVE)
def digital_roofs(devices: Iterable[str | Accelerator], intensity: Any) -> pd.DataFrame:
    """Return the best operations per joule of digital devices: INT8 peak or memory, divided by the design power.

    Parameters
    ----------
    devices : iterable of str or Accelerator
        Names in the catalogue; devices without an INT8 peak, bandwidth or power are left out.
    intensity : array_like
        Arithmetic for each byte moved [FLOP/B].

    Returns
    -------
    pandas.DataFrame
        `key`, `name`, `intensity`, `flop_per_joule` and `mac_joules`, one row per device and intensity.

    Raises
    ------
    cookbook.catalog.UnknownName
        If the catalogue does not have a name.
    ValueError
        If `devices` is not a list of names, or an intensity is invalid.

    Examples
    --------
    >>> round(float(digital_roofs(["h100-sxm"], 1e9)["flop_per_joule"][0] / 1e12), 2)
    2.83
    """
    at = np.atleast_1d(intensity)
    if at.ndim > 1:
        raise replace(POSITIVE, name="intensity").refuse(intensity, f"has shape {at.shape}")
    rows: list[tuple[Any, ...]] = []
    for entry in devices:
        device = entry if isinstance(entry, Accelerator) else device_named(entry)
        peak = device.peaks.get(PEAK, np.nan)
        rate = device.mem_bandwidth * np.minimum(peak / device.mem_bandwidth, at) / device.tdp_watts
        rows += [(device.key, device.name, x, y, FLOP_PER_MAC / y) for x, y in zip(at, rate, strict=True) if y > 0]
    return pd.DataFrame(rows, columns=["key", "name", "intensity", "flop_per_joule", "mac_joules"])


# A network on crossbars against a digital device, with a share of the chips' power that tiles draw while they wait.
AGAINST = {
    "model": MODEL,
    "device": Field.named("accelerators", Accelerator),
    "tile": TILE,
    "idle_share": Field.number(low=0, high=1),
    "seq": SEQ,
}


@checked(**AGAINST, batch=Field.count(high=1e6))
def crossbar_gain(
    model: str | Workload = "llama3_8b",
    device: str | Accelerator = "h100-sxm",
    tile: Tile | None = None,
    batch: int = 1,
    idle_share: float = 0.0,
    seq: float | None = None,
) -> float:
    """Return the energy per MAC of a digital device over that of a crossbar: how many times better the crossbar is.

    Parameters
    ----------
    model, tile, seq
        As in `map_to_crossbars`.
    device : str or Accelerator
        A digital device with an INT8 peak, a bandwidth and a design power, which it draws.
    batch : int
        Samples that the device computes together, and that are in the crossbar's pipeline at the same time.
    idle_share : float
        Power that the chips with the tiles draw all the time, as a share of the power of ISAAC's chips at full load.

    Raises
    ------
    ValueError
        If the device has no INT8 peak, bandwidth or design power, or the network has no layers with weights.

    Examples
    --------
    >>> crossbar_gain(batch=1) > 10 * crossbar_gain(batch=64) > 10
    True
    """
    return _gain(map_to_crossbars(model, tile, seq), model, device, batch, idle_share, seq)


def _gain(
    mapped: Mapped, model: str | Workload, device: str | Accelerator, batch: int, idle_share: float, seq: float | None
) -> float:
    roofs = digital_roofs([device], digital_intensity(model, batch, seq))
    if roofs.empty:
        raise refused("device", str(device), "has no INT8 peak, bandwidth or design power: take another device")
    watts = idle_share * constant("crossbar-chip-watts") * mapped.chips
    idle = watts * max(mapped.latency / batch, mapped.seconds) / mapped.macs
    return float(roofs["mac_joules"][0] / (mapped.mac_joules + idle))


@checked(**AGAINST, gain=Field.number(low=0, high=1e6))
def largest_crossbar_batch(
    model: str | Workload = "llama3_8b",
    device: str | Accelerator = "h100-sxm",
    tile: Tile | None = None,
    gain: float = 10.0,
    idle_share: float = 0.0,
    seq: float | None = None,
) -> int:
    """Return the largest batch up to 65,536 at which a crossbar is at least `gain` times better per joule; 0 for none.

    With idle power the gain may rise once more beyond the device's ridge, where only the crossbar still improves; the
    batch is then one on the rising side, and smaller ones may fall short.

    Parameters
    ----------
    model, device, tile, idle_share, seq
        As in `crossbar_gain`.
    gain : float
        Energy per MAC of the device over that of the crossbar, such as a vendor's claim.

    Examples
    --------
    >>> largest_crossbar_batch() > largest_crossbar_batch(idle_share=0.1) > 0
    True
    """
    mapped, low, high = map_to_crossbars(model, tile, seq), 0, MAX_BATCH
    if _gain(mapped, model, device, high, idle_share, seq) >= gain:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        reached = _gain(mapped, model, device, middle, idle_share, seq) >= gain
        low, high = (middle, high) if reached else (low, middle)
    return low


@checked(model=MODEL, batch=Field.count(high=1e6), seq=SEQ)
def digital_intensity(model: str | Workload, batch: int = 1, seq: float | None = None) -> float:
    """Return the FLOP per byte of weights of a digital device that reads one-byte weights once per batch [FLOP/B].

    Activations are left out, as for a crossbar: they are assumed to stay on the chip.

    Parameters
    ----------
    workload, seq
        As in `map_to_crossbars`.
    batch : int
        Samples computed together.

    Examples
    --------
    >>> round(digital_intensity("alexnet")), round(digital_intensity("alexnet", 100))
    (24, 2377)
    """
    layers = _layers(*_network_and_length(model, seq))
    weights = layers["inputs"] * layers["outputs"] * layers["groups"] * layers["count"]
    used = batch * layers["products"]
    # Of experts, a small batch reads those that it uses.
    return FLOP_PER_MAC * float((weights * used).sum() / (weights * np.minimum(used, 1)).sum())


def _network_and_length(workload: str | Workload, seq: float | None) -> tuple[Workload, float | None]:
    """Return the network, and tokens of a sample: one, a decoding step, where it reads tokens and none are given."""
    network = network_of(workload)
    if seq is not None:
        return network, float(seq)
    return network, 1.0 if network.ops.needs_seq else None
