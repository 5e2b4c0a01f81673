"""A small real network, trained here in about a second, and its accuracy on digits when crossbars compute it.

The digits are the test set of UCI's Optical Recognition of Handwritten Digits: 1,797 images of 8 x 8 pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.catalog import constant
from cookbook.catalog.fields import Field, checked
from cookbook.formulas import crossbar as formulas
from cookbook.topics.analog.crossbar import TILE, Tile, crossbar_tile

PIXEL_LETTERS = "0123456789abcdefg"
SIDE, CLASSES, TRAINED_ON = 8, 10, 1200
# Parameters of a curve: a field of the tile, or a property of cells and wires.
CELLS = {
    "programming": "crossbar-programming-spread",
    "read": "crossbar-read-spread",
    "wire_ohms": "crossbar-wire-ohms",
}
VARIED = ("adc_bits", "rows", "weight_bits", "cell_bits", "input_bits", *CELLS, "days")
MAX_DRAWS, MAX_VALUES, DAY = 100, 100, 86400.0


@dataclass(frozen=True, eq=False)
class DigitNetwork:
    """A trained network of one hidden layer.

    Attributes
    ----------
    weights, biases : tuple of numpy.ndarray
        Weights (inputs by outputs) and biases of both layers.
    accuracy : float
        Share of the test digits that it classifies correctly in floating point.
    full_scales : tuple of float
        Largest input of each layer over the training images.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    accuracy: float
    full_scales: tuple[float, ...]

    def __repr__(self) -> str:
        sizes = " to ".join(str(len(w)) for w in self.weights)
        return f"<Digit network {sizes} to {CLASSES}: {100 * self.accuracy:.1f} % of the test digits right>"


@lru_cache(maxsize=1)
def digit_images() -> tuple[np.ndarray, np.ndarray]:
    """Return images, 1,797 by 64 pixels from 0 to 1, and the digits written.

    Examples
    --------
    >>> images, written = digit_images()
    >>> images.shape, written[:4].tolist()
    ((1797, 64), [0, 1, 2, 3])
    """
    rows = catalog.table("digits")
    images = np.array([[PIXEL_LETTERS.index(letter) for letter in row] for row in rows["pixels"]]) / (
        len(PIXEL_LETTERS) - 1
    )
    written = rows["digit"].to_numpy().astype(int)
    for array in (images, written):
        array.setflags(write=False)
    return images, written


SEED = Field.count(0, 2**32 - 1)


@checked(hidden=Field.count(high=256), epochs=Field.count(high=200), seed=SEED)
def train_digits(hidden: int = 32, epochs: int = 40, seed: int = 0) -> DigitNetwork:
    """Train a network on the first 1,200 digits; the other 597 are its test.

    Parameters
    ----------
    hidden : int
        Units of the hidden layer, 1 to 256.
    epochs : int
        Epochs, 1 to 200.
    seed : int
        Seed of the initial weights and of the order of the images.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Examples
    --------
    >>> train_digits().accuracy > 0.9
    True
    """
    return _train(*map(int, (hidden, epochs, seed)))


@lru_cache(maxsize=16)
def _train(hidden: int, epochs: int, seed: int) -> DigitNetwork:
    """Train by Adam on the mean cross-entropy, fifty images at a time."""
    images, written = (array[:TRAINED_ON] for array in digit_images())
    rng = np.random.default_rng(seed)
    sizes = (SIDE * SIDE, hidden, CLASSES)
    state = [rng.normal(0, np.sqrt(2 / a), (a, b)) for a, b in pairwise(sizes)]
    state += [np.zeros(b) for b in sizes[1:]]
    moments = [(np.zeros_like(weights), np.zeros_like(weights)) for weights in state]
    step = 0
    for _ in range(epochs):
        for batch in rng.permutation(TRAINED_ON).reshape(-1, 50):
            step += 1
            for value, slope, (mean, square) in zip(
                state, _slopes(state, images[batch], written[batch]), moments, strict=True
            ):
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope**2 - square)
                rate = 3e-3 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                value -= rate * mean / (np.sqrt(square) + 1e-8)
    inner = np.maximum(images @ state[0] + state[2], 0)
    network = DigitNetwork((state[0], state[1]), (state[2], state[3]), 0.0, (1.0, float(inner.max())))
    tests, answers = (array[TRAINED_ON:] for array in digit_images())
    return replace(network, accuracy=float(np.mean(_exact(network, tests) == answers)))


def _slopes(state: Sequence[np.ndarray], images: np.ndarray, written: np.ndarray) -> list[np.ndarray]:
    """Return the gradients of the mean cross-entropy, by back-propagation, with a small weight decay."""
    inner = np.maximum(images @ state[0] + state[2], 0)
    scores = inner @ state[1] + state[3]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(written)), written] -= 1
    shares /= len(written)
    back = (shares @ state[1].T) * (inner > 0)
    decay = 1e-3
    return [images.T @ back + decay * state[0], inner.T @ shares + decay * state[1], back.sum(0), shares.sum(0)]


def _exact(network: DigitNetwork, images: np.ndarray) -> np.ndarray:
    inner = np.maximum(images @ network.weights[0] + network.biases[0], 0)
    return np.argmax(inner @ network.weights[1] + network.biases[1], axis=1)


# What of the cells spreads, and what is drawn anew.
CELL_FIELDS = {
    "programming": Field.number(0, 1),
    "read": Field.number(0, 1),
    "wire_ohms": Field.number(0, 1e4),
    "days": Field.number(0, 36525),
    "draws": Field.count(high=MAX_DRAWS),
    "seed": SEED,
}
NETWORK = Field.record(DigitNetwork, what="trained network", give="one of cb.planning.train_digits")


@checked(network=NETWORK, tile=TILE, **CELL_FIELDS)
def crossbar_accuracy(
    network: DigitNetwork | None = None,
    tile: Tile | None = None,
    *,
    programming: float | None = None,
    read: float | None = None,
    wire_ohms: float | None = None,
    days: float = 0.0,
    draws: int = 5,
    seed: int = 0,
) -> np.ndarray:
    """Return the share of test digits that a network reads correctly on crossbars, once per draw of its cells.

    Weights are cut into slices and stored in pairs of cells, inputs are applied piece by piece, the currents of each
    tile are converted, shifted and added. Converters are set to the largest current among 200 images of the training.

    Parameters
    ----------
    network : DigitNetwork
        `train_digits()` by default.
    tile : Tile
        `crossbar_tile()` by default.
    programming, read : float
        Standard deviation of programming and of one reading as shares of the largest conductance; those of the table
        ``constants`` by default.
    wire_ohms : float
        Resistance of the wire between two cells [ohm].
    days : float
        Days since programming, in which cells of phase-change memory drift; 0 for no drift.
    draws : int
        Number of times all cells are programmed, 1 to 100.
    seed : int
        Seed of the noise.

    Raises
    ------
    ValueError
        If a spread, resistance or number is outside its range or NaN.

    Examples
    --------
    >>> float(crossbar_accuracy(tile=crossbar_tile(adc_bits=10), programming=0, read=0, wire_ohms=0, draws=1)[0]) > 0.9
    True
    """
    network, tile = network or train_digits(), tile or crossbar_tile()
    stated = {"programming": programming, "read": read, "wire_ohms": wire_ohms}
    spreads = {name: constant(CELLS[name]) if value is None else value for name, value in stated.items()} | {
        "days": days
    }
    images, written = (part[TRAINED_ON:] for part in digit_images())
    sample = digit_images()[0][:TRAINED_ON:6]
    shares = []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        values, tuned = images, sample
        for layer, (weights, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            array = _Programmed(weights, network.full_scales[layer], tile, spreads, rng, tuned)
            values = array.product(values) + bias
            if layer < len(network.weights) - 1:
                values, tuned = np.maximum(values, 0), np.maximum(array.product(tuned) + bias, 0)
        shares.append(np.mean(np.argmax(values, axis=1) == written))
    return np.array(shares)


class _Programmed:
    """One layer as cells programmed once, and its outputs for inputs."""

    def __init__(
        self,
        weights: np.ndarray,
        full_scale: float,
        tile: Tile,
        spreads: Mapping[str, float],
        rng: np.random.Generator,
        sample: np.ndarray,
    ) -> None:
        self.tile, self.full_scale, self.rng, self.read = tile, full_scale, rng, spreads["read"]
        self.most = float(np.abs(weights).max()) or 1.0
        self.outputs, self.levels = weights.shape[1], 2**tile.cell_bits
        amounts = np.rint(np.abs(weights) / self.most * (2 ** (tile.weight_bits - 1) - 1)).astype(int)
        pieces = [amounts // self.levels**place % self.levels for place in range(tile.slices)]
        shares = np.stack(pieces, axis=2) * np.sign(weights)[:, :, None] / (self.levels - 1)
        self.tops = [np.inf] * int(np.ceil(len(weights) / tile.rows))
        self.cells = self._cells(shares.reshape(len(weights), -1), spreads).astype(np.float32)
        # Full scales of the converters: the largest currents of a sample without read noise.
        self.read, quiet = 0.0, self.read
        self.tops = [float(np.abs(sums).max()) or 1.0 for sums in self._sums(self._applied(sample))]
        self.read = quiet

    def _cells(self, shares: np.ndarray, spreads: Mapping[str, float]) -> np.ndarray:
        """Return the difference of each pair of cells after noise, drift and wires, in levels."""
        tile, low, high = self.tile, constant("crossbar-least-share"), 1.0
        pair = np.stack(formulas.conductance_pair(shares, low, high, self.levels), axis=2)
        cells = formulas.noisy(pair, spreads["programming"], high, self.rng.standard_normal(pair.shape))
        if spreads["days"] > 0:
            since = constant("crossbar-drift-since")
            powers = np.maximum(
                self.rng.normal(constant("crossbar-drift-exponent"), constant("crossbar-drift-spread"), pair.shape), 0
            )
            cells = formulas.drifted(cells, since + DAY * spreads["days"], since, powers)
        cells = cells.reshape(len(shares), -1)
        if spreads["wire_ohms"] > 0:
            ohms = spreads["wire_ohms"] * constant("crossbar-largest-conductance")
            for top in range(0, len(cells), tile.rows):
                for left in range(0, cells.shape[1], tile.columns):
                    block = np.s_[top : top + tile.rows, left : left + tile.columns]
                    cells[block] = formulas.wired_conductances(cells[block], ohms)
        pairs = cells.reshape(len(shares), -1, 2)
        return (pairs[:, :, 0] - pairs[:, :, 1]) * (self.levels - 1) / (high - low)

    def _applied(self, values: np.ndarray) -> np.ndarray:
        """Return inputs cut into pieces, lowest first: cycles by samples by rows, integers."""
        whole = np.rint(np.clip(values / self.full_scale, 0, 1) * (2**self.tile.input_bits - 1)).astype(np.int32)
        applied = np.empty((self.tile.cycles, *whole.shape), dtype=np.float32)
        for cycle in range(self.tile.cycles):
            applied[cycle] = whole >> cycle * self.tile.drive_bits & 2**self.tile.drive_bits - 1
        return applied

    def _sums(self, applied: np.ndarray) -> list[np.ndarray]:
        """Return the column sums of each tile, before conversion: one array for each block of rows."""
        blocks = []
        for top in range(0, self.cells.shape[0], self.tile.rows):
            rows = applied[:, :, top : top + self.tile.rows]
            sums = rows @ self.cells[top : top + self.tile.rows]
            if self.read:
                noise = self.read * (self.levels - 1) * np.sqrt(2 * np.einsum("csr,csr->cs", rows, rows))
                sums += noise[:, :, None] * self.rng.standard_normal(sums.shape, dtype=np.float32)
            blocks.append(sums)
        return blocks

    def product(self, values: np.ndarray) -> np.ndarray:
        """Return inputs times weights, as the crossbar computes it."""
        tile, total = self.tile, np.zeros(1)
        for top, sums in zip(self.tops, self._sums(self._applied(values)), strict=True):
            step = np.float32(top / (2 ** (tile.adc_bits - 1) - 1))
            np.clip(sums, -top, top, out=sums)
            np.rint(np.divide(sums, step, out=sums), out=sums)
            total = total + step * sums
        cycles = float(2**tile.drive_bits) ** np.arange(tile.cycles)
        pieces = np.tensordot(cycles, total, 1).reshape(len(values), self.outputs, tile.slices)
        scale = self.most / (2 ** (tile.weight_bits - 1) - 1) * self.full_scale / (2**tile.input_bits - 1)
        return np.asarray(pieces @ (float(self.levels) ** np.arange(tile.slices)) * scale)


VALUES = Field.number(-1e300, many=True, entries=MAX_VALUES, give="values to set it to, numbers")


@checked(over=Field.choice(*VARIED), values=VALUES, tile=TILE, network=NETWORK, **CELL_FIELDS)
def accuracy_curve(
    over: str, values: Sequence[float], tile: Tile | None = None, network: DigitNetwork | None = None, **more: Any
) -> pd.DataFrame:
    """Return accuracy on crossbars over one parameter: mean, least and most over draws of the cells.

    Parameters
    ----------
    over : str
        ``adc_bits``, ``rows``, ``weight_bits``, ``cell_bits`` or ``input_bits`` of the tile; ``programming``,
        ``read``, ``wire_ohms`` or ``days`` of `crossbar_accuracy`.
    values : sequence of float
        Its values.
    tile, network
        As in `crossbar_accuracy`, whose other arguments are accepted too.

    Raises
    ------
    ValueError
        If the parameter is another one, there are no values, or one is outside its range.

    Examples
    --------
    >>> curve = accuracy_curve("adc_bits", [2, 8], draws=1)
    >>> bool(curve["mean"][0] < curve["mean"][1])
    True
    """
    tile, rows = tile or crossbar_tile(), []
    for value in (int(number) if float(number).is_integer() else number for number in values):
        if over in tile.arguments:
            changes = {"rows": value, "columns": value} if over == "rows" else {over: value}
            shares = crossbar_accuracy(network, crossbar_tile(**{**tile.arguments, **changes}), **more)
        else:
            shares = crossbar_accuracy(network, tile, **{**more, over: value})
        rows.append((value, shares.mean(), shares.min(), shares.max()))
    return pd.DataFrame(rows, columns=[over, "mean", "least", "most"])
