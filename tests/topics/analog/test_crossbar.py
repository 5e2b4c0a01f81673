"""Crossbars: Kirchhoff's laws solved by hand, a real network on cells, published machines, and bad input refused."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import cookbook as cb
from cookbook.formulas import crossbar as formulas
from cookbook.topics.analog import digits as network_of_digits

IDEAL = {"programming": 0.0, "read": 0.0, "wire_ohms": 0.0}


# Currents, worked out by hand.


def test_currents_without_wires_are_sums_of_products() -> None:
    """I = G^T V: 1 x 0.1 + 3 x 0.2 and 2 x 0.1 + 4 x 0.2 microamperes; more rows of voltages are more products."""
    cells = [[1e-6, 2e-6], [3e-6, 4e-6]]
    np.testing.assert_allclose(formulas.column_currents(cells, [0.1, 0.2]), [7e-7, 1e-6])
    np.testing.assert_allclose(formulas.column_currents(cells, [[1, 0], [0, -1]]), [[1e-6, 2e-6], [-3e-6, -4e-6]])


@pytest.mark.parametrize(
    ("cells", "volts", "ohms", "expected"),
    [
        # One cell of 4 ohm behind two wires of 1 ohm: 1.2 V / 6 ohm.
        ([[0.25]], [1.2], 1.0, [0.2]),
        # A row of two cells of 1 ohm: from the first node 2 ohm beside 3 ohm, behind 1 ohm: 5/11 A, 6/11 V there.
        ([[1.0, 1.0]], [1.0], 1.0, [3 / 11, 2 / 11]),
        # A column of two: 3 a = 1 + 2 b and 5 b = 1 + 2 a for the voltages of its nodes, so b = 5/11 V on 1 ohm.
        ([[1.0], [1.0]], [1.0, 1.0], 1.0, [5 / 11]),
    ],
)
def test_wires_as_worked_out_by_hand(cells: Any, volts: Any, ohms: float, expected: list[float]) -> None:
    np.testing.assert_allclose(formulas.wire_currents(cells, volts, ohms), expected, rtol=1e-12)


def random_tile(rows: int = 16, columns: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.25e-6, 25e-6, (rows, columns)), rng.uniform(0, 0.2, rows)


def test_wires_take_current_and_none_take_none() -> None:
    cells, volts = random_tile()
    ideal = formulas.column_currents(cells, volts)
    np.testing.assert_allclose(formulas.wire_currents(cells, volts, 0), ideal)
    np.testing.assert_allclose(formulas.wire_currents(cells, volts, 1e-6), ideal, rtol=1e-6)
    losses = [1 - formulas.wire_currents(cells, volts, ohms).sum() / ideal.sum() for ohms in (1, 5, 20, 100)]
    assert losses[0] > 0 and losses == sorted(losses)
    # The network is linear in its voltages, and no cell passes more than without wires.
    np.testing.assert_allclose(formulas.wire_currents(cells, 3 * volts, 5), 3 * formulas.wire_currents(cells, volts, 5))
    assert (formulas.wire_currents(cells, volts, 5) < ideal).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shape", [(8, 8), (16, 16), (32, 16), (16, 32), (32, 32)])
@pytest.mark.parametrize(("ohms", "off"), [(1.0, 1e-4), (20.0, 0.01)])
def test_the_fast_form_of_wires_is_near_the_exact_one(
    ohms: float, off: float, shape: tuple[int, int], seed: int
) -> None:
    """Within a hundredth of a per cent with 1 ohm; within one with 20, where wires take up to 18 % of a current."""
    cells, volts = random_tile(*shape, seed)
    exact, ideal = formulas.wire_currents(cells, volts, ohms), formulas.column_currents(cells, volts)
    fast = formulas.column_currents(formulas.wired_conductances(cells, ohms), volts)
    assert np.abs(fast / exact - 1).max() < off
    assert 20 * np.abs(fast - exact).mean() < np.abs(ideal - exact).mean()


# Cells and converters.


def test_a_pair_of_cells_carries_a_signed_weight() -> None:
    """Four levels from 1 to 4: thirds of the range; a third and a half of the largest weight round to 1 and 2 of 3."""
    plus, minus = formulas.conductance_pair([1 / 3, -0.5, 1.0, 0.0], 1.0, 4.0, 4)
    np.testing.assert_allclose(plus, [2, 1, 4, 1])
    np.testing.assert_allclose(minus, [1, 3, 1, 1])


def test_noise_drift_and_rounding_by_hand() -> None:
    np.testing.assert_allclose(formulas.noisy([1.0, 2.0], 0.1, 5.0, [2.0, -9.0]), [2.0, 0.0])
    np.testing.assert_allclose(formulas.drifted(8.0, 10_000, 1, 0.25), 0.8)  # 10^4 to the power of -1/4 is a tenth
    # Two bits over -3 to 3: the levels -3, 0 and 3; three bits: seven, a step of 1 apart; clipped beyond.
    np.testing.assert_allclose(formulas.quantised([-9, -2.4, 0.9, 2.4], 2, 3.0), [-3, -3, 0, 3])
    np.testing.assert_allclose(formulas.quantised([-9, -2.4, 0.9, 2.4], 3, 3.0), [-3, -2, 1, 2])
    for bits in (2, 3, 6):
        told = formulas.quantised(np.linspace(-8, 8, 2001), bits, 3.0)
        assert len(set(told.round(9))) == 2**bits - 1 and np.abs(told).max() == pytest.approx(3)
    np.testing.assert_allclose(formulas.quantised(np.linspace(-1, 1, 9), 24, 1.0), np.linspace(-1, 1, 9), atol=1e-6)


def test_lossless_converters_of_isaac() -> None:
    """128 rows, 1 bit of an input and 2 bits of a cell at a time: 9 bits; its encoding saves one (section V)."""
    assert formulas.shafiee_2016_bits(128, 1, 2) == 9
    # The largest sum that must be told: 128 x 3 of one-bit inputs fits into 9 bits and not into 8.
    assert 2**8 < 128 * 3 < 2**9
    assert formulas.shafiee_2016_bits(128, 2, 2) == 11 and 2**10 < 128 * 9 < 2**11


def test_energy_of_a_conversion_doubles_or_stays() -> None:
    np.testing.assert_allclose(formulas.walden_1999(np.arange(1, 13), 1e-15), 1e-15 * 2.0 ** np.arange(1, 13))
    np.testing.assert_allclose(formulas.rekhi_2019([4, 10, 11.0, 12], 1.0, 10), [1, 1, 4, 16])


def test_mean_square_is_that_of_the_levels() -> None:
    for bits in (1, 2, 3, 8):
        levels = np.arange(2**bits) / (2**bits - 1)
        assert formulas.mean_square_input(bits) == pytest.approx((levels**2).mean())


# A layer on tiles, and a network.


def test_isaac_by_its_own_table() -> None:
    """Products of 128 x 16 weights of 16 bits: 2,048 conversions and 2,048 driven rows; 16 cycles of 100 ns.

    16,128 arrays then give 41.3 TOP/s, and 8 converters draw the 16 mW of the table within a tenth.
    """
    parts = formulas.product_joules(128, 16, 128, 128, 8, 8, 16, 1.0, 100.0, 0.0, 0.0)
    assert float(parts["ADC"]) == 16 * 128 and float(parts["DAC"]) == 100 * 16 * 128
    assert float(formulas.product_joules(128, 16, 128, 128, 8, 8, 16, 0, 0, 1.0, 0)["cells"]) == 16 * 128 * 128
    seconds = formulas.product_seconds(128, 16, 10e-9, 1, 1.28e9)
    assert float(seconds) == pytest.approx(1.6e-6)
    assert 2 * 16_128 * 128 * 16 / float(seconds) == pytest.approx(41.3e12, rel=0.001)
    assert cb.planning.crossbar_tile(adc_bits=8).joules["ADC"] * 8 * 1.28e9 == pytest.approx(16e-3, rel=0.1)


def test_tiles_of_a_layer_by_hand() -> None:
    """300 inputs fill three tiles downward, 100 weights of 8 cells seven across; 14 small groups share one."""
    assert float(formulas.tiles(300, 100, 128, 128, 8)) == 3 * 7
    assert float(formulas.tiles(9, 1, 128, 128, 8, groups=32)) == 3  # 14 fit: 128 / 9 = 14, 128 / 8 = 16
    assert float(formulas.tiles(128, 16, 128, 128, 8)) == 1 and float(formulas.tiles(129, 16, 128, 128, 8)) == 2


def test_a_network_of_the_zoo_on_tiles() -> None:
    """ResNet-50: 25,557,032 parameters, less 53,120 of norms and 1,000 biases, in 4 pairs of cells each; 3.858 GMAC."""
    found = cb.planning.map_to_crossbars("resnet50")
    assert found.cells == 8 * (25_557_032 - 53_120 - 1000)
    assert found.macs == pytest.approx(3.858e9, rel=1e-3) and found.left_macs == 0
    assert found.tiles * 128 * 128 >= found.cells
    layers = found.frame()
    assert layers["tiles"].sum() == found.tiles and layers["joules"].sum() == pytest.approx(sum(found.joules.values()))
    # The first layer slides over 112 x 112 places, one product of 64 x 4 conversions in 8 cycles each.
    first = layers.iloc[0]
    assert (first["inputs"], first["outputs"], first["products"]) == (147, 64, 112 * 112)
    assert first["conversions"] == 112 * 112 * 8 * 2 * 64 * 4  # 147 inputs take two tiles downward


def test_all_that_has_weights_is_on_tiles_and_attention_is_not() -> None:
    found, whole = cb.planning.map_to_crossbars("gpt2"), cb.planning.map_to_crossbars("gpt2", seq=1024)
    assert found.sample == "token" and 1000 * found.macs < whole.macs < 1025 * found.macs
    assert found.left_macs < 0.001 * found.macs and 0.05 < whole.left_macs / whole.macs < 0.1
    # All weights of the layers are read for each token, 2 FLOP a byte; 64 tokens together read them once.
    assert cb.planning.digital_intensity("llama2_7b") == pytest.approx(2)
    assert cb.planning.digital_intensity("llama2_7b", 64) == pytest.approx(128)
    assert cb.planning.digital_intensity("mixtral_8x7b") == pytest.approx(2)  # of experts, those that are asked
    depthwise = cb.planning.map_to_crossbars("mobilenet_v2")
    assert depthwise.mac_joules > 2 * cb.planning.map_to_crossbars("resnet50").mac_joules


def test_groups_on_one_tile_share_its_converter() -> None:
    """MobileNet v2: 32 groups of 9 inputs and 1 output with 4 slices, of which 14 share a tile of 128 by 128.

    56 conversions at 1.28 GHz take 43.75 ns, longer than a pulse, in each of 8 cycles at 112 x 112 places.
    """
    layer = cb.planning.map_to_crossbars("mobilenet_v2").frame().iloc[1]
    assert (layer["inputs"], layer["outputs"], layer["groups"]) == (9, 1, 32)
    assert layer["seconds"] == pytest.approx(8 * 112 * 112 * 56 / 1.28e9) == pytest.approx(4.39e-3, rel=1e-3)


def test_a_token_takes_all_layers_and_the_next_of_its_stream_waits() -> None:
    """Of one stream, a token follows when the one before has passed all layers; only other streams fill a pipeline."""
    found = cb.planning.map_to_crossbars("llama3_8b")
    assert found.latency > 100 * found.seconds  # 32 blocks of seven layers and a head, one behind the other
    human = cb.human
    assert found.pace() == (
        f"{human(found.latency, 's')} per token for one stream; {human(found.seconds, 's')} between "
        "tokens when many streams fill the pipeline"
    )
    assert found.pace() in repr(found)
    assert "from image to image in a full pipeline" in repr(cb.planning.map_to_crossbars("alexnet"))


def test_what_a_bit_costs() -> None:
    """A bit more doubles the energy of the converters and nothing else; half the slices halve their number."""
    eight, nine = (cb.planning.map_to_crossbars("alexnet", cb.planning.crossbar_tile(adc_bits=b)) for b in (8, 9))
    assert nine.joules["ADC"] == pytest.approx(2 * eight.joules["ADC"])
    assert nine.joules["DAC"] == eight.joules["DAC"] and nine.joules["cells"] == eight.joules["cells"]
    wide = cb.planning.map_to_crossbars("alexnet", cb.planning.crossbar_tile(cell_bits=4))
    assert wide.conversions == eight.conversions / 2 and wide.cells == eight.cells / 2
    best = cb.planning.crossbar_tile(converter=lambda bits: cb.crossbar.rekhi_2019(bits, 0.3e-12, 10.5))
    assert best.joules["ADC"] == pytest.approx(0.3e-12)
    # Amdahl: converters for nothing.
    free = cb.planning.map_to_crossbars("alexnet", cb.planning.crossbar_tile(converter=lambda bits: 0.0))
    gain = float(cb.crossbar.amdahl_1967(eight.share("ADC"), np.inf))
    assert free.flop_per_joule / eight.flop_per_joule == pytest.approx(gain)


# Beside what is measured and sold.


def test_published_machines_beside_ours() -> None:
    """ISAAC by hand: a MAC takes one conversion and sum, one drive, 128 readings of 12.6 microsiemens."""
    rows = cb.planning.published_crossbars().set_index("key")
    joules = 1.667e-12 + 0.021e-12 + 0.417e-12 + 128 * 25e-6 * 0.505 * 0.04 * 10e-9 * 0.5
    assert rows.loc["isaac-2016", "ours"] == pytest.approx(2 / joules)
    ratios = rows["ratio"].dropna()
    assert len(ratios) >= 5 and ratios.between(0.25, 4).all()
    measured = rows.loc[rows["evidence"] == "measured", "ratio"].dropna()
    assert len(measured) >= 3 and measured.between(0.5, 2).all()


def test_digital_devices_by_hand() -> None:
    """H100: 1,979 dense INT8 TOP/s or 3.35 TB/s, over 700 W."""
    found = cb.planning.digital_roofs(["h100-sxm"], [10.0, 1e6])["flop_per_joule"]
    np.testing.assert_allclose(found, [33.5e12 / 700, 1979e12 / 700], rtol=1e-3)
    with pytest.raises(KeyError):
        cb.planning.digital_roofs(["h101"], 10)
    with pytest.raises(ValueError, match="intensity"):
        cb.planning.digital_roofs(["h100-sxm"], 0)


# Digits.


def test_the_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits  # here, since it costs every process that collects tests a second

    images, written = cb.planning.digit_images()
    known = load_digits()
    np.testing.assert_array_equal(16 * images, known.data)
    np.testing.assert_array_equal(written, known.target)


def test_our_training_is_as_good_as_that_of_scikit_learn() -> None:
    from sklearn.neural_network import MLPClassifier

    images, written = cb.planning.digit_images()
    theirs = MLPClassifier((32,), max_iter=200, random_state=0).fit(images[:1200], written[:1200])
    assert abs(cb.planning.train_digits().accuracy - theirs.score(images[1200:], written[1200:])) < 0.03


def test_training_takes_seconds(within: Any) -> None:
    with within(15):
        network_of_digits._train.__wrapped__(32, 40, 0)


def test_a_crossbar_without_faults_computes_the_products_of_whole_numbers() -> None:
    """Slices, cycles, pairs and tiles put together give what integers give, up to the steps of 16-bit converters."""
    rng = np.random.default_rng(3)
    weights, values = rng.normal(0, 1, (20, 7)), rng.uniform(0, 1, (5, 20))
    tile = cb.planning.crossbar_tile(8, 32, weight_bits=7, cell_bits=2, input_bits=6, drive_bits=2, adc_bits=16)
    layer = network_of_digits._Programmed(weights, 1.0, tile, {**IDEAL, "days": 0.0}, rng, values)
    most = np.abs(weights).max()
    expected = (np.rint(values * 63) / 63) @ (np.rint(weights / most * 63) / 63 * most)
    np.testing.assert_allclose(layer.product(values), expected, atol=1e-3 * np.abs(expected).max())


def test_without_faults_the_digits_are_read_as_in_floating_point() -> None:
    tile = cb.planning.crossbar_tile(weight_bits=10, input_bits=8, adc_bits=12)
    found = cb.planning.crossbar_accuracy(tile=tile, draws=1, **IDEAL)[0]
    assert abs(found - cb.planning.train_digits().accuracy) < 0.006


@pytest.mark.parametrize(
    ("over", "values", "worst"),
    [
        ("adc_bits", (2, 3, 8), 0.6),
        ("programming", (0.5, 0.2, 0.0), 0.4),
        ("weight_bits", (2, 3, 8), 0.5),
        ("wire_ohms", (300, 100, 0), 0.8),
        ("read", (0.5, 0.2, 0.0), 0.8),
    ],
)
def test_accuracy_rises_as_faults_go(over: str, values: tuple[float, ...], worst: float) -> None:
    """From far below the network to within five points of it."""
    curve = cb.planning.accuracy_curve(over, values, draws=3)["mean"].tolist()
    assert curve[0] < worst and curve == sorted(curve) and curve[-1] > cb.planning.train_digits().accuracy - 0.05


def test_small_tiles_stand_wires_better() -> None:
    curve = cb.planning.accuracy_curve("rows", (16, 64), draws=2, **{**IDEAL, "wire_ohms": 200.0})["mean"]
    assert curve[0] > curve[1] + 0.03


def test_draws_repeat_and_differ() -> None:
    one, again = (cb.planning.crossbar_accuracy(draws=2, seed=4) for _ in range(2))
    assert one.tolist() == again.tolist() and len(set(cb.planning.crossbar_accuracy(draws=4))) > 1


# A memory that is asked by content.


def patterns(count: int, units: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice([-1.0, 1.0], (count, units))


def test_a_tie_in_decimals_leaves_the_unit_as_it_was():
    """0.1 + 0.2 - 0.3 is 0, and 5.6e-17 in floats of one order of addition: the unit stays at -1 in every order."""
    for places in permutations((0.1, 0.2, -0.3)):
        weights = np.zeros((4, 4))
        weights[0, 1:] = weights[1:, 0] = places
        assert formulas.recall(weights, [-1, 1, 1, 1], [0])[-1].tolist() == [-1, 1, 1, 1]


def test_recall_decides_as_whole_numbers_do():
    """Twelve patterns of 60 units: the signs of sums of whole numbers, and ties leave a unit as it was."""
    known, rng = patterns(12, 60, 1), np.random.default_rng(1)
    whole = known.T.astype(int) @ known.astype(int)
    np.fill_diagonal(whole, 0)
    start, order, ties = rng.choice([-1, 1], 60), rng.integers(0, 60, 600), 0
    now = start.copy()
    for unit in order:
        field = int(whole[unit] @ now)
        ties += field == 0
        now[unit] = now[unit] if field == 0 else np.sign(field)
    assert ties > 5, "a case without a tie shows nothing"
    assert formulas.recall(formulas.hebb_1949(known), start.astype(float), order)[-1].tolist() == now.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_energy_of_a_hopfield_network_never_rises(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    weights = formulas.hebb_1949(patterns(12, 60, seed))
    passed = formulas.recall(weights, rng.choice([-1.0, 1.0], 60), rng.integers(0, 60, 400))
    energy = formulas.hopfield_1982_energy(weights, passed)
    assert (np.diff(energy) <= 1e-12).all() and energy[-1] < energy[0]


def test_a_part_recalls_the_whole() -> None:
    known = patterns(5, 100, 1)
    damaged = known[2].copy()
    damaged[:20] *= -1
    passed = formulas.recall(formulas.hebb_1949(known), damaged, np.tile(np.arange(100), 3))
    np.testing.assert_array_equal(passed[-1], known[2])


def overlap(load: float, units: int = 300) -> float:
    """How much of a pattern is left after recall from itself, on the mean of three."""
    known = patterns(round(load * units), units, 7)
    weights, order = formulas.hebb_1949(known), np.tile(np.arange(units), 12)
    return float(np.mean([known[p] @ formulas.recall(weights, known[p], order)[-1] / units for p in range(3)]))


def test_capacity_is_about_0_138_patterns_a_unit() -> None:
    """Amit et al. 1985: up to there 97 % of a pattern is right, overlap 0.94 and more; far beyond, it is lost."""
    assert float(formulas.amit_1985_patterns(1000)) == pytest.approx(138)
    assert overlap(0.05) > 0.99 and overlap(0.10) > 0.94
    assert overlap(0.25) < 0.7


# Units of what tests/formulas/test_dimensions.py cannot draw.


def test_matrices_scale_by_their_units() -> None:
    cells, volts = random_tile(6, 5)
    for given in (formulas.column_currents, lambda g, v: formulas.wire_currents(g, v, 3.0 * 25e-6 / g.max())):
        np.testing.assert_allclose(given(4 * cells, 2 * volts), 8 * given(cells, volts))
    wired = formulas.wired_conductances(cells, 3.0)
    np.testing.assert_allclose(formulas.wired_conductances(4 * cells, 0.75), 4 * wired)
    for first, second in zip(
        formulas.conductance_pair([0.3, -0.7], 2.0, 9.0, 5),
        formulas.conductance_pair([0.3, -0.7], 4.0, 18.0, 5),
        strict=True,
    ):
        np.testing.assert_allclose(2 * first, second)


# What the recipe says of these figures.


def test_15_answers_of_its_questions() -> None:
    """Ten bits lose nothing; five cost at most five points, four cost more; then the converters lead, by far."""
    tile = cb.planning.crossbar_tile()
    assert tile.lossless_bits == 10
    mean = cb.planning.accuracy_curve("adc_bits", [4, 5, 10], tile, programming=0.05)["mean"].tolist()
    assert mean[2] - mean[1] < 0.05 < mean[2] - mean[0]
    mapped = cb.planning.map_to_crossbars("llama3_8b", tile)
    assert mapped.share("ADC") > 0.5 and max(mapped.joules, key=mapped.joules.get) == "ADC"
    six = cb.planning.map_to_crossbars("llama3_8b", cb.planning.crossbar_tile(adc_bits=6))
    assert max(six.joules, key=six.joules.get) == "DAC"


def test_15_a_gpu_and_a_crossbar() -> None:
    """Some 300 times at one token, about equal where the batch is full; 40 per cent of what the cells alone give."""
    mapped = cb.planning.map_to_crossbars("llama3_8b")
    at = [cb.planning.digital_intensity("llama3_8b", batch) for batch in (1, 1024)]
    one, full = cb.planning.digital_roofs(["h100-sxm"], at)["mac_joules"] / mapped.mac_joules
    assert 250 < one < 350 and 0.8 < full < 1.2
    assert full * mapped.mac_joules == pytest.approx(0.7e-12, rel=0.02)  # 700 W over 1,979 TOP/s, two a MAC


def test_15_twice_the_side_of_a_tile_loses_four_times_as_much() -> None:
    lost = []
    for side in (8, 16, 32):
        cells, volts = np.full((side, side), 12.5e-6), np.full(side, 0.2)
        ideal = formulas.column_currents(cells, volts).sum()
        lost.append(1 - formulas.wire_currents(cells, volts, 5.0).sum() / ideal)
    assert 3.4 < lost[1] / lost[0] < 4.1 and 3.4 < lost[2] / lost[1] < 4.1


# What nobody should ask.


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cb.crossbar.column_currents([[-1e-6]], [0.1]), ("conductances = -1e-06", "[0, inf)", "give")),
        (lambda: cb.crossbar.column_currents([[np.nan]], [0.1]), ("conductances", "NaN", "give")),
        (lambda: cb.crossbar.column_currents([[1e-6]], [0.1, 0.2]), ("voltages", "(2,)", "one voltage for each row")),
        (lambda: cb.crossbar.column_currents([], []), ("conductances", "matrix")),
        (lambda: cb.crossbar.wire_currents([[1e-6]], [0.1], -1), ("wire_ohms = -1", "[0, inf)")),
        (
            lambda: cb.crossbar.wire_currents(np.ones((64, 64)), np.ones(64), 1),
            ("64 x 64", "1,024", "wired_conductances"),
        ),
        (lambda: cb.crossbar.conductance_pair([0.5], 0, 1e-6, 0), ("levels = 0", "[2, ", "whole number")),
        (lambda: cb.crossbar.conductance_pair([1.5], 0, 1e-6, 4), ("weights = 1.5", "[-1, 1]", "divide")),
        (lambda: cb.crossbar.conductance_pair([0.5], 1, 1e-6, 4), ("largest = 1e-06", "least = 1", "swap")),
        (lambda: cb.crossbar.noisy([1e-6], float("nan"), 1e-6, [0.0]), ("spread", "NaN", "give")),
        (lambda: cb.crossbar.drifted([1e-6], 0, 1, 0.05), ("seconds = 0", "(0, inf)")),
        (lambda: cb.crossbar.drifted([1e-6], 1, 20, 0.05), ("seconds = 1", "since = 20", "give a time after")),
        (lambda: cb.crossbar.quantised([1.0], 60, 1.0), ("bits = 60", "[2, 24]")),
        (lambda: cb.crossbar.quantised([1.0], 1, 1.0), ("bits = 1", "[2, 24]")),
        (lambda: cb.crossbar.walden_1999(0, 1e-15), ("bits = 0", "[1, 24]")),
        (lambda: cb.crossbar.walden_1999("many", 1e-15), ("bits = 'many'", "not a number")),
        (lambda: cb.crossbar.tiles(10, 10, 0, 128), ("rows = 0", "[1, ", "whole")),
        (lambda: cb.crossbar.amdahl_1967(1.5, 2), ("share = 1.5", "[0, 1]", "fraction")),
        (lambda: cb.crossbar.hebb_1949([[0, 1]]), ("patterns", "-1 and 1", "not 0 and 1")),
        (lambda: cb.crossbar.hebb_1949("ab"), ("patterns = 'ab'", "not a number")),
        (lambda: cb.crossbar.recall("ab", [1], [0]), ("weights = 'ab'", "not a number")),
        (lambda: cb.crossbar.recall([[0, 1], [1, 0]], [1, 1], []), ("order = []", "give the units")),
        (lambda: cb.crossbar.recall([[0, 1], [1, 0]], [1, 1], [2]), ("order", "[0, 1]")),
        (lambda: cb.crossbar.hopfield_1982_energy([[0, 1], [2, 0]], [1, 1]), ("weights", "symmetric")),
        (lambda: cb.crossbar.amit_1985_patterns(0), ("units = 0", "(0, inf)")),
        (lambda: cb.planning.crossbar_tile(4), ("columns = 4", "8 columns or more")),
        (lambda: cb.planning.crossbar_tile(converter=lambda bits: -1.0), ("converter", "[0, inf)", "give an energy")),
    ],
)
def test_bad_input_is_told_in_the_callers_words(call: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError) as told:
        call()
    assert all(word in str(told.value) for word in words), str(told.value)


# The panel.


@pytest.fixture
def panel() -> Any:
    return cb.panels.crossbar()


def test_the_panel_says_what_its_code_gives(panel: Any) -> None:
    for picture in ("adc_bits", "programming"):
        panel.update(picture=picture, adc_bits=5)
        names: dict[str, Any] = {"cb": cb}
        _, made, call = panel.code.splitlines()
        exec(made, names)
        found = eval(call, names)
        assert f"{100 * found.mean():.1f} % of the test digits" in panel.answer
        assert f"Range: {100 * found.min():.1f} to {100 * found.max():.1f} %" in panel.answer
    panel.update(picture="roofline", model="alexnet", rows=128)
    exec(panel.code.splitlines()[1], names)
    mapped = eval(panel.code.splitlines()[2], names)
    assert f"{cb.human(mapped.mac_joules, 'J')} per MAC" in panel.answer
    assert f"Tiles: {mapped.tiles:,.0f} of" in panel.answer


def test_a_claim_is_answered_with_its_batch_its_chips_and_idle_power(panel: Any) -> None:
    """The ratio at one token is never alone: 1 / batch for a device that waits for its memory, by hand."""
    panel.update(
        picture="roofline", model="llama3_8b", accelerators=["h100-sxm"], rows=128, weight_bits=8, input_bits=8
    )
    mapped = cb.planning.map_to_crossbars("llama3_8b")
    one = cb.planning.digital_roofs(["h100-sxm"], 2.0)["mac_joules"][0]
    batch = int(one / (10 * mapped.mac_joules))
    watts = 0.1 * 65.8 * mapped.tiles / 16128
    idle = watts * mapped.latency / mapped.macs
    powered = int((one / 10 - idle) / mapped.mac_joules)
    assert f"up to batch {batch}; with idle power, up to batch {powered}." in panel.answer
    assert f"as many cells as in {math.ceil(mapped.tiles / 16128)} ISAAC chips." in panel.answer
    assert cb.planning.crossbar_gain(idle_share=0.1) == pytest.approx(one / (mapped.mac_joules + idle))
    panel.update(claim=100, batch=64)
    assert "100 times the efficiency of H100" in panel.answer and "with idle power, at no batch." in panel.answer


def test_parts_of_a_mac_add_up(panel: Any) -> None:
    for picture in ("adc_bits", "roofline"):
        panel.update(picture=picture)
        told = panel.answer.split("Energy: ")[1].split(" per MAC")[0]
        assert cb.human(sum(part["value"] for part in panel.shown["parts"]), "J") == told


def test_the_panel_refuses_what_cannot_be(panel: Any, refuses: Any) -> None:
    refuses(panel, {"adc_bits": 60}, ("ADC bits", "60"))
    refuses(panel, {"programming": -1}, ("Programming spread", "-1"))
    refuses(panel, {"rows": 8, "weight_bits": 8, "cell_bits": 1}, ("columns = 8", "14"))
    refuses(panel, {"drive_bits": 8}, ("Bits per cycle = 8", "1 to 4"))
    refuses(panel, {"model": "no_such_network"}, ("no_such_network",))


def test_the_tile_chart_answers_for_the_tile_that_is_chosen(panel: Any) -> None:
    panel.update(picture="rows", rows=512)
    made = cb.planning.crossbar_tile(512, weight_bits=4, input_bits=4)
    found = cb.planning.crossbar_accuracy(tile=made, programming=0.05, wire_ohms=1.0, draws=3)
    assert "512 × 512" in panel.answer and f"{100 * found.mean():.1f} % of the test digits" in panel.answer


def test_every_digital_device_is_named_at_the_end_of_its_roof(panel: Any) -> None:
    panel.update(picture="roofline", accelerators=["h100-sxm", "alveo-u280", "jetson-agx-orin-64gb"])
    frame = panel.view.picture.frame
    names = frame.loc[(frame["what"] == "point") & (frame["kind"] == "digital devices"), "text"]
    roofs = frame[(frame["what"] == "roof") & (frame["kind"] == "digital devices")]
    ends = roofs[roofs["x"] == roofs["x"].max()]
    assert sorted(ends["text"]) == sorted(names) and len(set(names)) == 3
    assert ends.set_index("text")["y"].to_dict() == roofs.groupby("text")["y"].max().to_dict()


def test_the_roofline_tells_the_time_of_a_sample_on_both(panel: Any) -> None:
    """An H100 at one token: 2 FLOP a MAC, 2 FLOP a byte and so 3.35 TB/s of weights of a byte each."""
    panel.update(picture="roofline", model="llama3_8b", accelerators=["h100-sxm"], rows=128)
    mapped = cb.planning.map_to_crossbars("llama3_8b", cb.planning.crossbar_tile(weight_bits=4, input_bits=4))
    assert mapped.pace() in panel.answer
    head, rows, _ = panel.printed(5)
    at = next(place for place, name in enumerate(head) if name.startswith("From token to token"))
    assert [row[at] for row in rows] == [cb.human(mapped.macs / 3.35e12, "s"), cb.human(mapped.seconds, "s")]
