"""Matrix-vector products by Ohm's and Kirchhoff's laws: cells, wires, converters, and the cost of one product.

A crossbar holds a matrix as conductances. Voltages on its rows give currents in its columns that are the products'
sums, all at once; converters turn numbers into voltages and currents into numbers. 1 MAC is 2 FLOP.

A Hopfield network, a content-addressable memory, is such a matrix that is applied repeatedly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cookbook.formulas._arguments import Array, Positive, checked, floats, non_negative, positive, written

MAX_BITS, MAX_SOLVED = 24, 1024


def column_currents(conductances: ArrayLike, voltages: ArrayLike) -> Array:
    r"""Return the currents of the columns of a crossbar whose wires have no resistance.

    .. math:: I_j = \sum_i G_{ij} V_i

    Parameters
    ----------
    conductances : array_like
        Conductance of each cell, rows by columns, G >= 0 [S].
    voltages : array_like
        Voltage on each row; each vector of the leading axes is one more product, V [V].

    Returns
    -------
    numpy.ndarray
        Current of each column [A].

    References
    ----------
    Hu et al., Dot-product engine for neuromorphic computing, DAC 2016; Hu et al., Adv. Mater. 30(9), 2018.

    Examples
    --------
    >>> column_currents([[1e-6, 2e-6], [3e-6, 4e-6]], [0.1, 0.2]).round(9).tolist()
    [7e-07, 1e-06]
    """
    cells, driven = _cells(conductances), _rows(voltages, conductances)
    return np.asarray(driven @ cells)


def wire_currents(conductances: ArrayLike, voltages: ArrayLike, wire_ohms: float) -> Array:
    r"""Return the column currents where wires have a resistance: Kirchhoff's law at every crossing, solved exactly.

    Rows are driven at column 0; columns end in a virtual ground below the last row. One piece of wire is between two
    neighbours, before the first cell of a row and below the last of a column.

    .. math:: \sum_n (u_n - u) / r + G_{ij} (d_{ij} - u_{ij}) = 0

    Parameters
    ----------
    conductances : array_like
        Conductance of each cell, rows by columns, at most 1,024 cells, G >= 0 [S].
    voltages : array_like
        Voltage on each row, V [V].
    wire_ohms : float
        Resistance of one piece of wire, r >= 0 [V/A].

    Returns
    -------
    numpy.ndarray
        Current of each column [A].

    References
    ----------
    A. Chen, A comprehensive crossbar array model with solutions for line resistance, IEEE Trans. Electron Devices
    60(4), 2013.

    Examples
    --------
    One cell in series with two pieces of wire:

    >>> wire_currents([[0.25]], [1.2], 1.0).round(12).tolist()
    [0.2]
    """
    cells, driven = _cells(conductances), _rows(voltages, conductances)
    ohms = float(_finite("wire_ohms", wire_ohms))
    if ohms == 0:
        return column_currents(cells, driven)
    rows, columns = cells.shape
    if cells.size > MAX_SOLVED:
        raise ValueError(
            f"conductances has {rows:,} x {columns:,} cells, outside [1, {MAX_SOLVED:,}]: solve a smaller tile, or "
            "use wired_conductances"
        )
    above = np.arange(cells.size).reshape(rows, columns)
    below, link = above + cells.size, np.full(cells.shape, 1 / ohms)
    system = np.zeros((2 * cells.size, 2 * cells.size))
    for one, other, value in (
        (above, below, cells),
        (above[:, :-1], above[:, 1:], link[:, 1:]),
        (below[:-1], below[1:], link[1:]),
    ):
        for a, b in ((one, other), (other, one)):
            np.add.at(system, (a.ravel(), a.ravel()), value.ravel())
            system[a.ravel(), b.ravel()] -= value.ravel()
    for ends in (above[:, 0], below[-1]):
        system[ends, ends] += 1 / ohms
    sources = np.zeros(2 * cells.size)
    sources[above[:, 0]] = driven / ohms
    return np.asarray(np.linalg.solve(system, sources)[below[-1]] / ohms)


def wired_conductances(conductances: ArrayLike, wire_ohms: float) -> Array:
    r"""Return the effective conductances of cells behind their wires: a fast approximation of `wire_currents`.

    Each cell loses what its own row and its own column drop if all rows have one voltage and all cells carry what they
    would without wires. Currents are linear in voltages, so that holds for the mean of many inputs too.

    .. math:: G' = G / (1 + r (A + B)),
              \quad A_{ij} = \sum_{j'} (1 + \min(j, j')) G_{ij'},
              \quad B_{ij} = \sum_{i'} (n - \max(i, i')) G_{i'j}

    Parameters
    ----------
    conductances : array_like
        Conductance of each cell, rows by columns, G >= 0 [S].
    wire_ohms : float
        Resistance of one piece of wire, r >= 0 [V/A].

    Returns
    -------
    numpy.ndarray
        Conductances to be used in `column_currents` [S].

    References
    ----------
    First order of the equations of A. Chen, IEEE Trans. Electron Devices 60(4), 2013, kept positive.

    Examples
    --------
    >>> wired_conductances([[0.25]], 1.0).round(6).tolist(), wire_currents([[0.25]], [1.0], 1.0).round(6).tolist()
    ([[0.166667]], [0.166667])
    """
    cells, ohms = _cells(conductances), float(_finite("wire_ohms", wire_ohms))
    # The drop at a place sums, over the pieces of wire up to it, the current that passes each piece.
    along = np.cumsum(np.cumsum(cells[:, ::-1], axis=1)[:, ::-1], axis=1)
    down = np.cumsum(np.cumsum(cells, axis=0)[::-1], axis=0)[::-1]
    return np.asarray(cells / (1 + ohms * (along + down)))


def conductance_pair(weights: ArrayLike, least: float, largest: float, levels: ArrayLike) -> tuple[Array, Array]:
    r"""Return two cells whose difference is a signed weight.

    One cell has the weight's magnitude, the other the smallest conductance.

    .. math:: G^\pm = G_0 + (G_1 - G_0) \, \mathrm{round}((L - 1) \max(\pm w, 0)) / (L - 1)

    Parameters
    ----------
    weights : array_like
        Weight as a share of the largest one, from -1 up to 1, w [-].
    least, largest : float
        Conductances that a cell can have, 0 <= G_0 < G_1 [S].
    levels : array_like
        Distinguishable conductances, L >= 2, an integer [-].

    Returns
    -------
    tuple of numpy.ndarray
        Conductances of the positive and of the negative cell [S].

    References
    ----------
    Hu et al., Adv. Mater. 30(9), 2018; Joshi et al., Nature Communications 11:2473, 2020 (pairs).

    Examples
    --------
    >>> plus, minus = conductance_pair([0.5, -1.0], 0, 6e-6, 4)
    >>> plus.tolist(), minus.tolist()
    ([4e-06, 0.0], [0.0, 6e-06])
    """
    shares = _finite("weights", weights, signed=True)
    if np.any(beyond := np.abs(shares) > 1):
        raise ValueError(f"weights = {shares[beyond][0]:g} is outside [-1, 1]: divide by the largest weight")
    low, high = _finite("least", least), _finite("largest", largest)
    if not np.all(low < high):
        raise ValueError(f"largest = {float(high):g} is outside (least, inf), least = {float(low):g}: swap the two")
    steps = _integer("levels", levels, 2, 2**MAX_BITS) - 1
    up, down = (np.rint(steps * np.maximum(sign * shares, 0)) / steps for sign in (1, -1))
    return low + (high - low) * up, low + (high - low) * down


def noisy(conductances: ArrayLike, spread: ArrayLike, largest: ArrayLike, draws: ArrayLike) -> Array:
    r"""Return conductances with additive Gaussian noise, independent of them: of programming, or of one reading.

    .. math:: G' = \max(G + \sigma G_1 z, 0)

    Parameters
    ----------
    conductances : array_like
        Conductance of each cell, G >= 0 [S].
    spread : array_like
        Standard deviation as a share of the largest conductance, sigma >= 0 [-].
    largest : array_like
        Largest conductance, G_1 [S].
    draws : array_like
        Draws from the standard normal distribution, z [-].

    Returns
    -------
    numpy.ndarray
        Conductances, never negative [S].

    References
    ----------
    Joshi et al., Nature Communications 11:2473, 2020, with one spread for all states.

    Examples
    --------
    >>> noisy([1e-6, 1e-6], 0.5, 4e-6, [1.0, -1.0]).tolist()
    [3e-06, 0.0]
    """
    amount = _finite("spread", spread) * _finite("largest", largest)
    drawn = _finite("draws", draws, signed=True)
    return np.maximum(_finite("conductances", conductances) + amount * drawn, 0)


def drifted(conductances: ArrayLike, seconds: ArrayLike, since: ArrayLike, exponent: ArrayLike) -> Array:
    r"""Return conductances after they have drifted since programming.

    .. math:: G(t) = G(t_0) (t / t_0)^{-\nu}

    Parameters
    ----------
    conductances : array_like
        Conductance of each cell at the first time, G >= 0 [S].
    seconds : array_like
        Time since programming, t >= t_0 [s].
    since : array_like
        Time at which the conductances were measured, t_0 > 0 [s].
    exponent : array_like
        Drift exponent, nu >= 0: about 0.05 in phase-change memory, 0 without drift [-].

    Returns
    -------
    numpy.ndarray
        Conductances [S].

    References
    ----------
    Le Gallo et al., Adv. Electron. Mater. 4(9), 2018.

    Examples
    --------
    >>> round(float(drifted(1.0, 86400, 20, 0.05)), 3)
    0.658
    """
    later, first = positive("seconds", _finite("seconds", seconds)), positive("since", _finite("since", since))
    if np.any(later < first):
        raise ValueError(
            f"seconds = {np.min(later):g} is outside [since, inf), since = {np.max(first):g}: "
            "give a time after the one at which the conductances were as given"
        )
    times = later / first
    return _finite("conductances", conductances) * times ** -_finite("exponent", exponent)


def quantised(values: ArrayLike, bits: ArrayLike, full_scale: ArrayLike) -> Array:
    r"""Return the nearest converter level of values of either sign, clipped to full scale.

    Levels are on both sides of 0, so that one of the 2^b codes is unused: two bits tell -f, 0 and f.

    .. math:: q = s \, \mathrm{round}(\mathrm{clip}(x, -f, f) / s), \quad s = f / (2^{b-1} - 1)

    Parameters
    ----------
    values : array_like
        Values to convert, x [A].
    bits : array_like
        Resolution, sign included, b, an integer from 2 to 24 [-].
    full_scale : array_like
        Full scale: the largest magnitude that is not clipped, f > 0 [A].

    Returns
    -------
    numpy.ndarray
        Converted values [A].

    References
    ----------
    R. H. Walden, Analog-to-digital converter survey and analysis, IEEE J. Sel. Areas Commun. 17(4), 1999.

    Examples
    --------
    Seven levels, from -3 to 3:

    >>> quantised([0.2, 0.9, -5.0], 3, 3.0).tolist()
    [0.0, 1.0, -3.0]
    """
    ends, count = positive("full_scale", _finite("full_scale", full_scale)), _integer("bits", bits, 2, MAX_BITS)
    step = ends / (2 ** (count - 1) - 1)
    return step * np.rint(np.clip(_finite("values", values, signed=True), -ends, ends) / step)


def shafiee_2016_bits(rows: ArrayLike, input_bits: ArrayLike, cell_bits: ArrayLike) -> Array:
    r"""Return the number of bits that a converter needs to represent a column's sum exactly.

    .. math:: b = \lceil \log_2 R \rceil + v + w \;(- 1 \text{ if } v = 1 \text{ or } w = 1)

    Parameters
    ----------
    rows : array_like
        Rows read at the same time, R, an integer [-].
    input_bits : array_like
        Bits of an input that are applied at once, v, an integer [-].
    cell_bits : array_like
        Bits of one cell, w, an integer [-].

    Returns
    -------
    numpy.ndarray
        Bits, before any saving by an encoding [-].

    References
    ----------
    Shafiee et al., ISAAC, ISCA 2016, section V.

    Examples
    --------
    ISAAC's arrays; its encoding of weights saves one of the nine:

    >>> int(shafiee_2016_bits(128, 1, 2))
    9
    """
    count, drive, cell = _integer("rows", rows, 1), _bits("input_bits", input_bits), _bits("cell_bits", cell_bits)
    return np.ceil(np.log2(count)) + drive + cell - ((drive == 1) | (cell == 1))


def walden_1999(bits: ArrayLike, step_joules: ArrayLike) -> Array:
    r"""Return the energy of one conversion at a constant cost per level: it doubles with every bit.

    .. math:: E = F \, 2^b

    Parameters
    ----------
    bits : array_like
        Resolution of the converter, b, an integer from 1 to 24 [-].
    step_joules : array_like
        Figure of merit: energy for each level, F >= 0 [J].

    Returns
    -------
    numpy.ndarray
        Energy of one conversion [J].

    References
    ----------
    R. H. Walden, IEEE J. Sel. Areas Commun. 17(4), 1999.

    Examples
    --------
    >>> f"{walden_1999(8, 6.5e-15):.3g}"
    '1.66e-12'
    """
    return _finite("step_joules", step_joules) * 2 ** _integer("bits", bits, 1, MAX_BITS)


def rekhi_2019(bits: ArrayLike, floor_joules: ArrayLike, corner_bits: ArrayLike) -> Array:
    r"""Return the energy per conversion of the best published converters: flat, then limited by thermal noise.

    .. math:: E = E_0 \, 4^{\max(b - c, 0)}

    Parameters
    ----------
    bits : array_like
        Resolution of the converter, b, an integer from 1 to 24 [-].
    floor_joules : array_like
        Energy below the corner, E_0 >= 0: about 0.3 pJ [J].
    corner_bits : array_like
        Resolution above which thermal noise dominates, c: about 10.5 [-].

    Returns
    -------
    numpy.ndarray
        Energy of one conversion [J].

    References
    ----------
    Rekhi et al., Analog/mixed-signal hardware error modeling for deep learning inference, DAC 2019 (recalled).

    Examples
    --------
    >>> f"{rekhi_2019(8, 0.3e-12, 10.5):.2g}", f"{rekhi_2019(12, 0.3e-12, 10.5):.2g}"
    ('3e-13', '2.4e-12')
    """
    beyond = np.maximum(_integer("bits", bits, 1, MAX_BITS) - _finite("corner_bits", corner_bits), 0)
    return _finite("floor_joules", floor_joules) * 4.0**beyond


def cell_joules(conductance: ArrayLike, volts: ArrayLike, seconds: ArrayLike, mean_square: ArrayLike = 1.0) -> Array:
    r"""Return the energy dissipated in one cell during a read.

    .. math:: E = G V^2 t \, \overline{v^2}

    Parameters
    ----------
    conductance : array_like
        Mean conductance of the cells, G >= 0 [S].
    volts : array_like
        Largest voltage of a row, V >= 0 [V].
    seconds : array_like
        Length of a read pulse, t >= 0 [s].
    mean_square : array_like
        Mean square of the voltages as a share of the largest one's, 0 to 1 [-].

    Returns
    -------
    numpy.ndarray
        Energy [J].

    References
    ----------
    Joule's law; Hu et al., DAC 2016.

    Examples
    --------
    >>> f"{cell_joules(25e-6, 0.2, 10e-9):.2g}"
    '1e-14'
    """
    heat = _finite("conductance", conductance) * _finite("volts", volts) ** 2 * _finite("seconds", seconds)
    return heat * _finite("mean_square", mean_square)


def mean_square_input(bits: ArrayLike) -> Array:
    r"""Return the mean square of inputs whose levels are equally frequent, as a share of the largest input's square.

    .. math:: \overline{v^2} = (2 L - 1) / (6 (L - 1)), \quad L = 2^b

    Parameters
    ----------
    bits : array_like
        Bits that are applied at once, b, an integer from 1 to 24 [-].

    Returns
    -------
    numpy.ndarray
        Mean square: 1/2 for single bits, approaching 1/3 for many [-].

    References
    ----------
    Sum of squares of 0 to L - 1; assumption of ISAAC's accounting, Shafiee et al., ISCA 2016.

    Examples
    --------
    >>> float(mean_square_input(1)), round(float(mean_square_input(8)), 3)
    (0.5, 0.334)
    """
    count = 2.0 ** _integer("bits", bits, 1, MAX_BITS)
    return (2 * count - 1) / (6 * (count - 1))


def slices(bits: ArrayLike, each: ArrayLike) -> Array:
    r"""Return the number of pieces of a number: cells of a weight, or cycles in which an input is applied.

    .. math:: s = \lceil b / e \rceil

    Parameters
    ----------
    bits : array_like
        Bits of the number, b, an integer [-].
    each : array_like
        Bits of one piece, e, an integer [-].

    Returns
    -------
    numpy.ndarray
        Pieces [-].

    References
    ----------
    Shafiee et al., ISAAC, ISCA 2016, section III.

    Examples
    --------
    >>> int(slices(16, 2)), int(slices(7, 2))
    (8, 4)
    """
    return np.ceil(_bits("bits", bits, 64) / _bits("each", each, 64))


def tiles(
    inputs: ArrayLike,
    outputs: ArrayLike,
    rows: ArrayLike,
    columns: ArrayLike,
    cells: ArrayLike = 1,
    groups: ArrayLike = 1,
) -> Array:
    r"""Return the number of tiles that hold the weights of a layer; independent groups share a tile along its diagonal.

    .. math:: T = \lceil m / R \rceil \lceil n c / C \rceil \lceil g / p \rceil, \quad
              p = \max(1, \min(\lfloor R / m \rfloor, \lfloor C / n c \rfloor))

    Parameters
    ----------
    inputs : array_like
        Inputs of one group, m, an integer [-].
    outputs : array_like
        Outputs of one group, n, an integer [-].
    rows : array_like
        Rows of a tile, R, an integer [-].
    columns : array_like
        Columns of a tile, C, an integer [-].
    cells : array_like
        Cells of one weight side by side, c, an integer [-].
    groups : array_like
        Independent products of that size, as in grouped convolutions, g, an integer [-].

    Returns
    -------
    numpy.ndarray
        Tiles [-].

    References
    ----------
    Shafiee et al., ISAAC, ISCA 2016, section VI (without its replication of early layers).

    Examples
    --------
    >>> float(tiles(300, 100, 128, 128, 8)), float(tiles(9, 1, 128, 128, 8, groups=32))
    (21.0, 3.0)
    """
    high, wide = _integer("rows", rows, 1), _integer("columns", columns, 1)
    down, across = _integer("inputs", inputs, 1), _integer("outputs", outputs, 1) * _integer("cells", cells, 1)
    packed = np.maximum(np.minimum(np.floor(high / down), np.floor(wide / across)), 1)
    return np.ceil(down / high) * np.ceil(across / wide) * np.ceil(_integer("groups", groups, 1) / packed)


def product_joules(
    inputs: ArrayLike,
    outputs: ArrayLike,
    rows: ArrayLike,
    columns: ArrayLike,
    cells: ArrayLike,
    conversions: ArrayLike,
    cycles: ArrayLike,
    adc_joules: ArrayLike,
    dac_joules: ArrayLike,
    cell_joules: ArrayLike,
    add_joules: ArrayLike,
) -> dict[str, Array]:
    r"""Return the energy of one matrix-vector product by component.

    .. math:: E = k \left( \lceil m / R \rceil n s (E_{ADC} + E_{+}) + m \lceil n c / C \rceil E_{DAC}
              + m n c E_{cell} \right)

    Parameters
    ----------
    inputs : array_like
        Rows of the matrix, m, an integer [-].
    outputs : array_like
        Columns of the matrix, n, an integer [-].
    rows : array_like
        Rows of a tile, R, an integer [-].
    columns : array_like
        Columns of a tile, C, an integer [-].
    cells : array_like
        Cells of one weight, c, an integer [-].
    conversions : array_like
        Conversions per weight, fewer than its cells if their currents are summed first, s, an integer [-].
    cycles : array_like
        Cycles in which an input is applied piece by piece, k, an integer [-].
    adc_joules : array_like
        Energy of one conversion of a current [J].
    dac_joules : array_like
        Energy of driving one row once [J].
    cell_joules : array_like
        Energy dissipated in one cell during a read [J].
    add_joules : array_like
        Energy of shifting and adding one converted number [J].

    Returns
    -------
    dict of str to numpy.ndarray
        ``ADC``, ``DAC``, ``cells``, ``digital sums`` [J].

    References
    ----------
    Shafiee et al., ISAAC, ISCA 2016, table I (what is counted).

    Examples
    --------
    >>> parts = product_joules(128, 16, 128, 128, 8, 8, 16, 1.6e-12, 0.4e-12, 1e-15, 0.02e-12)
    >>> max(parts, key=parts.get), f"{sum(parts.values()) / (128 * 16):.3g}"
    ('ADC', '2.15e-12')
    """
    down, across = _integer("inputs", inputs, 1), _integer("outputs", outputs, 1)
    cells_per_weight, pieces = _integer("cells", cells, 1), _integer("cycles", cycles, 1)
    converted = pieces * np.ceil(down / _integer("rows", rows, 1)) * across * _integer("conversions", conversions, 1)
    driven = pieces * down * np.ceil(across * cells_per_weight / _integer("columns", columns, 1))
    return {
        "ADC": converted * _finite("adc_joules", adc_joules),
        "DAC": driven * _finite("dac_joules", dac_joules),
        "cells": pieces * down * across * cells_per_weight * _finite("cell_joules", cell_joules),
        "digital sums": converted * _finite("add_joules", add_joules),
    }


def product_seconds(
    converted: ArrayLike, cycles: ArrayLike, pulse_seconds: ArrayLike, adcs: ArrayLike, adc_rate: ArrayLike
) -> Array:
    r"""Return the time of one matrix-vector product: the slower of pulse and conversions, cycle by cycle, pipelined.

    .. math:: t = k \max(t_p, n_c / (a f))

    Parameters
    ----------
    converted : array_like
        Columns of a tile that are converted, n_c, an integer [-].
    cycles : array_like
        Cycles in which an input is applied, k, an integer [-].
    pulse_seconds : array_like
        Length of a read pulse, t_p [s].
    adcs : array_like
        Converters of a tile, a, an integer [-].
    adc_rate : array_like
        Conversion rate of one of them, f > 0 [1/s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Shafiee et al., ISAAC, ISCA 2016, section VI: 128 columns in 100 ns by one converter.

    Examples
    --------
    >>> float(product_seconds(128, 16, 10e-9, 1, 1.28e9).round(12))
    1.6e-06
    """
    rate = _integer("adcs", adcs, 1) * positive("adc_rate", _finite("adc_rate", adc_rate))
    busy = np.maximum(_finite("pulse_seconds", pulse_seconds), _integer("converted", converted, 1) / rate)
    return _integer("cycles", cycles, 1) * busy


@checked
def amdahl_1967(share: ArrayLike, factor: Positive) -> Array:
    r"""Return the overall improvement if one part improves by a factor.

    .. math:: g = 1 / (1 - s + s / f)

    Parameters
    ----------
    share : array_like
        Share of the whole that the part takes, s, 0 to 1 [-].
    factor : array_like
        Factor by which that part improves, f > 0; infinite where it vanishes [-].

    Returns
    -------
    numpy.ndarray
        Times [-].

    References
    ----------
    G. M. Amdahl, AFIPS 1967.

    Examples
    --------
    >>> float(amdahl_1967(0.75, 3)), float(amdahl_1967(0.75, float("inf")))
    (2.0, 4.0)
    """
    part = _finite("share", share)
    if np.any(part > 1):
        raise ValueError(f"share = {float(np.max(part)):g} is outside [0, 1]: give a fraction, not a percentage")
    return np.asarray(1 / (1 - part + part / factor))


def hebb_1949(patterns: ArrayLike) -> Array:
    r"""Return the weights that make patterns the network's fixed points: units that agree are connected.

    .. math:: W_{ij} = \frac{1}{N} \sum_p x_i^p x_j^p, \quad W_{ii} = 0

    Parameters
    ----------
    patterns : array_like
        Patterns by units, of -1 and 1, x [-].

    Returns
    -------
    numpy.ndarray
        Symmetric weights, units by units [-].

    References
    ----------
    D. O. Hebb, The organization of behavior, 1949; J. J. Hopfield, Proc. Natl. Acad. Sci. 79(8), 1982.

    Examples
    --------
    >>> hebb_1949([[1, 1, -1]]).round(3).tolist()
    [[0.0, 0.333, -0.333], [0.333, 0.0, -0.333], [-0.333, -0.333, 0.0]]
    """
    signs = _signs("patterns", patterns, 2)
    weights = signs.T @ signs / signs.shape[1]
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)


def hopfield_1982_energy(weights: ArrayLike, states: ArrayLike) -> Array:
    r"""Return the energy of states, which no update raises.

    .. math:: E = -\frac{1}{2} x^T W x

    Parameters
    ----------
    weights : array_like
        Symmetric weights with an empty diagonal, W [-].
    states : array_like
        State of each unit, -1 or 1; each vector of the leading axes is one more state, x [-].

    Returns
    -------
    numpy.ndarray
        Energy of each state [-].

    References
    ----------
    J. J. Hopfield, Proc. Natl. Acad. Sci. 79(8), 1982.

    Examples
    --------
    >>> float(hopfield_1982_energy([[0, 2], [2, 0]], [1, -1]))
    2.0
    """
    joined, now = _symmetric(weights), _signs("states", states, 1)
    return np.asarray(-0.5 * np.einsum("...i,ij,...j->...", now, joined, now))


def recall(weights: ArrayLike, state: ArrayLike, order: ArrayLike) -> Array:
    r"""Return the states of a network whose units are updated one by one to the sign of their input.

    .. math:: x_i \leftarrow \mathrm{sign} \sum_j W_{ij} x_j, \quad \text{as it was where the sum is } 0

    A sum within the rounding error of its terms counts as 0: there the order of addition decides its sign, and that
    order differs from processor to processor.

    Parameters
    ----------
    weights : array_like
        Symmetric weights with an empty diagonal, W [-].
    state : array_like
        Initial state, of -1 and 1 [-].
    order : array_like
        Units in the order of their updates [-].

    Returns
    -------
    numpy.ndarray
        The initial state and the state after each update, updates + 1 by units [-].

    References
    ----------
    J. J. Hopfield, Proc. Natl. Acad. Sci. 79(8), 1982.

    Examples
    --------
    >>> recall(hebb_1949([[1, 1, -1]]), [1, -1, -1], [0, 1, 2])[-1].tolist()
    [1.0, 1.0, -1.0]
    """
    joined, now = _symmetric(weights), _signs("state", state, 1).copy()
    if now.ndim != 1 or len(now) != len(joined):
        raise ValueError(f"state has the shape {now.shape}, outside ({len(joined)},): give one sign for each unit")
    sequence = np.asarray(order)
    if not sequence.size:
        raise ValueError("order = [] is outside one unit or more: give the units in the order of their updates")
    if sequence.dtype.kind not in "iu" or np.any((sequence < 0) | (sequence >= len(now))):
        raise ValueError(f"order holds a unit outside [0, {len(now) - 1}]: give places of units, whole numbers")
    passed = np.empty((sequence.size + 1, len(now)))
    passed[0] = now
    rounding = len(now) * np.finfo(float).eps * np.abs(joined).sum(axis=1)
    for step, unit in enumerate(sequence.ravel()):
        field = joined[unit] @ now
        if abs(field) > rounding[unit]:
            now[unit] = np.sign(field)
        passed[step + 1] = now
    return passed


def amit_1985_patterns(units: ArrayLike) -> Array:
    r"""Return the capacity of a network: the number of random patterns beyond which recall breaks down.

    .. math:: P = 0.138 \, N

    Parameters
    ----------
    units : array_like
        Units of the network, N > 0 [-].

    Returns
    -------
    numpy.ndarray
        Number of patterns above which recall breaks down [-].

    References
    ----------
    Amit, Gutfreund & Sompolinsky, Phys. Rev. Lett. 55(14), 1985.

    Examples
    --------
    >>> round(float(amit_1985_patterns(200)), 1)
    27.6
    """
    count = np.asarray(units, dtype=float)
    if not np.all(count > 0):
        raise ValueError(f"units = {written(units)} is outside (0, inf): give the number of units")
    return 0.138 * count


def _integer(name: str, value: Any, low: int, high: float = 1e12) -> Array:
    """Return integers in a range, as floats."""
    values = _finite(name, value, signed=True)
    bad = (values < low) | (values > high) | (values != np.rint(values))
    if np.any(bad):
        first = float(np.extract(bad, values)[0])
        raise ValueError(f"{name} = {first:g} is outside the whole numbers of [{low:g}, {high:g}]: give one of those")
    return values


def _bits(name: str, value: ArrayLike, most: int = MAX_BITS) -> Array:
    return _integer(name, value, 1, most)


def _finite(name: str, value: Any, signed: bool = False) -> Array:
    """Return finite numbers, non-negative unless `signed`: missing noise or conductances would give no answer."""
    values = floats(name, value)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} holds NaN or infinity, outside the finite numbers: give every figure")
    return values if signed else non_negative(name, values)


def _cells(conductances: ArrayLike) -> Array:
    values = _finite("conductances", conductances)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"conductances has the shape {values.shape}, outside rows by columns: give a matrix of cells")
    return values


def _rows(voltages: ArrayLike, conductances: ArrayLike) -> Array:
    values, rows = _finite("voltages", voltages, signed=True), np.shape(conductances)[0]
    if not values.ndim or values.shape[-1] != rows:
        raise ValueError(f"voltages has the shape {values.shape}, outside (..., {rows}): give one voltage for each row")
    return values


def _signs(name: str, values: ArrayLike, least: int) -> Array:
    signs = _finite(name, values, signed=True)
    if signs.ndim < least or not signs.size or not np.all(np.abs(signs) == 1):
        expected = "a table of patterns by units" if least > 1 else "a row of units"
        raise ValueError(f"{name} must be {expected} that holds -1 and 1 alone: give signs, not 0 and 1")
    return signs


def _symmetric(weights: Any) -> Array:
    square = _finite("weights", weights, signed=True)
    if square.ndim != 2 or square.shape[0] != square.shape[1] or not np.array_equal(square, square.T):
        raise ValueError(
            f"weights has the shape {square.shape} and must be square and symmetric: give W = W transposed"
        )
    if np.any(np.diagonal(square)):
        raise ValueError("weights has a diagonal that is not 0: a unit must not tell itself; set it to 0")
    return square
