"""Intervals: coverage of publishers that had no say, widths that never fall from known to less known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cookbook.calibration.intervals import LARGEST_ERROR, half_width, widths
from cookbook.evidence import COVERAGE_BAND, coverage_band, figures, interval_score, paired, student_t
from cookbook.prediction.constants import ADAPTERS, DATASHEET, EXPERTS, LEVELS, NEW_ENGINE, SEEN, SIBLING, TIERS

CHAIN = (SEEN, SIBLING, NEW_ENGINE, DATASHEET)


def publishers(rng, count, between=0.1, within=(0.05, 0.2), most=60):
    """Errors of publishers that are exchangeable, not alike: each has its own bias, spread and number of rows."""
    errors, group = [], []
    for at in range(count):
        rows = int(rng.integers(3, most))
        bias, spread = rng.normal(0, between), rng.uniform(*within)
        errors.append(rng.normal(bias, spread, rows))
        group.append(np.full(rows, f"p{at:03d}"))
    return np.concatenate(errors), np.concatenate(group)


@pytest.mark.parametrize("level", [0.8, 0.9])
@pytest.mark.parametrize("count", [6, 10, 20])
@pytest.mark.parametrize("between", [0.02, 0.1, 0.15])
def test_coverage_of_a_new_publisher_is_nominal(level, count, between):
    """The spread between publishers is known here, and is in the interval whether it is small or large."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(300):
        errors, group = publishers(rng, count + 1, between)
        new = group == f"p{count:03d}"
        covered.append(np.mean(np.abs(errors[new]) <= half_width(errors[~new], group[~new], level)))
    assert level - 0.04 <= np.mean(covered) <= level + 0.1


def test_rows_taken_for_independent_would_not_cover():
    """Why publishers are the unit: one large publisher alone sets a quantile of rows, and the next is not covered."""
    rng = np.random.default_rng(1)
    by_row, by_publisher = [], []
    for _ in range(300):
        errors, group = publishers(rng, 5)
        large = rng.normal(0, 0.05, 2000)
        pooled = np.concatenate([errors, large]), np.concatenate([group, np.full(2000, "large")])
        new = np.abs(rng.normal(rng.normal(0, 0.1), rng.uniform(0.05, 0.2), 50))
        by_row.append(np.mean(new <= np.quantile(np.abs(pooled[0]), 0.8)))
        by_publisher.append(np.mean(new <= half_width(*pooled, 0.8)))
    assert np.mean(by_row) < 0.55
    assert np.mean(by_publisher) > 0.75


def test_a_large_publisher_weighs_as_much_as_a_small_one():
    small = np.concatenate([np.full(20, 0.1), np.full(20, 0.3)])
    names = np.repeat(["b", "c"], 20)
    few = half_width(np.append(np.full(20, 0.01), small), np.append(np.full(20, "large"), names), 0.8)
    many = half_width(np.append(np.full(1000, 0.01), small), np.append(np.full(1000, "large"), names), 0.8)
    assert few == pytest.approx(many)


def test_one_misread_row_widens_no_more_than_a_wrong_one():
    errors, group = publishers(np.random.default_rng(0), 8)
    wrong, misread = errors.copy(), errors.copy()
    wrong[0], misread[0] = LARGEST_ERROR, 50.0
    assert half_width(misread, group, 0.8) == half_width(wrong, group, 0.8)


@pytest.mark.parametrize(
    ("level", "freedom", "value"),
    [
        (0.8, 1, 3.078),
        (0.8, 2, 1.886),
        (0.8, 3, 1.638),
        (0.8, 4, 1.533),
        (0.8, 5, 1.476),
        (0.8, 8, 1.397),
        (0.8, 9, 1.383),
        (0.8, 30, 1.310),
        (0.9, 1, 6.314),
        (0.9, 2, 2.920),
        (0.9, 3, 2.353),
        (0.9, 4, 2.132),
        (0.9, 5, 2.015),
        (0.9, 9, 1.833),
        (0.9, 10, 1.812),
        (0.9, 30, 1.697),
        (0.9, 1e6, 1.645),
    ],
)
def test_students_t_as_tabulated(level, freedom, value):
    """Two-sided 80 and 90 per cent: Abramowitz & Stegun, Handbook of Mathematical Functions, 1964, table 26.10."""
    assert student_t(level, freedom) == pytest.approx(value, rel=6e-4)


def test_students_t_falls_with_every_degree_of_freedom():
    found = [student_t(0.9, freedom) for freedom in (1, 2, *np.arange(2.01, 8, 0.01))]
    assert np.all(np.diff(found) < 0)


def test_the_interval_score_is_least_at_the_true_quantile():
    errors = np.random.default_rng(0).normal(0, 0.1, 200_000)
    score = {half: interval_score(errors, np.full(len(errors), half), 0.8).mean() for half in (0.09, 0.128, 0.18)}
    assert min(score, key=score.get) == 0.128


def made(tiers, seed=0):
    """Errors for each tier: (publishers, scale of the errors)."""
    rng = np.random.default_rng(seed)
    parts = [publishers(rng, count) for count, _ in tiers.values()]
    errors = np.concatenate([e * size for (e, _), (_, size) in zip(parts, tiers.values(), strict=True)])
    tier = np.concatenate([np.full(len(e), name) for (e, _), name in zip(parts, tiers, strict=True)])
    return errors, np.concatenate([g for _, g in parts]), tier


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.floats(0.1, 5)), min_size=len(TIERS), max_size=len(TIERS)),
    st.integers(0, 1000),
)
def test_widths_never_fall_from_known_to_less_known(sizes, seed):
    tiers = {name: size for name, size in zip(TIERS, sizes, strict=True) if size[0]}
    if not tiers:
        return
    errors, group, tier = made(tiers, seed)
    several = np.random.default_rng(seed).choice([False, True], len(errors))
    found = {(width.tier, width.several): width.half for width in widths(errors, group, tier, several)}
    assert len(found) == len(TIERS) * 2
    for many in (False, True):
        chain = np.array([found[name, many] for name in CHAIN])
        assert np.all(np.diff(chain, axis=0) >= 0) and np.all(np.isfinite(chain))
        assert np.all(np.diff([found[name, many] for name in TIERS], axis=1) > 0)
    for name in TIERS:
        assert np.all(np.array(found[name, True]) >= found[name, False])


def test_few_sources_say_so_and_lean_on_all():
    errors, group, tier = made({SEEN: (2, 0.1), SIBLING: (9, 1.0)})
    alone = half_width(errors[tier == SEEN], group[tier == SEEN], 0.8)
    found = {
        width.tier: width for width in widths(errors, group, tier, np.zeros(len(errors), bool)) if not width.several
    }
    assert found[SEEN].remark == "few sources" and found[SEEN].publishers == 2
    assert alone < found[SEEN].half[0] < found[SIBLING].half[0]
    assert found[SIBLING].remark == ""
    assert found[DATASHEET].remark == "no measurements"
    assert found[DATASHEET].half[0] >= found[SIBLING].half[0]


def test_what_is_run_in_a_special_way_has_an_interval_of_its_own():
    errors, group, tier = made({SEEN: (9, 0.5), ADAPTERS: (6, 1.0), EXPERTS: (6, 2.0)})
    found = {width.tier: width.half[0] for width in widths(errors, group, tier, np.zeros(len(errors), bool))}
    assert found[SEEN] < found[ADAPTERS] < found[EXPERTS]


def test_what_is_run_in_a_special_way_does_not_widen_the_rest():
    """Mixtures four times as uncertain, their errors cut at `LARGEST_ERROR`: the others keep their nominal share."""
    sizes = {SEEN: (14, 1.0), EXPERTS: (14, 4.0)}
    errors, group, tier = made(sizes)
    found = {width.tier: width.half[0] for width in widths(errors, group, tier, np.zeros(len(errors), bool))}
    held = [
        np.mean(
            [
                np.mean(np.abs(errors[(group == name) & (tier == kind)]) <= found[kind])
                for name in np.unique(group[tier == kind])
            ]
        )
        for kind in sizes
    ]
    assert held == pytest.approx([0.8, 0.8], abs=0.1) and found[EXPERTS] > 2 * found[SEEN]


def test_assumed_fields_widen_an_interval():
    errors, group, tier = made({SEEN: (12, 1.0)})
    several = np.isin(group, np.unique(group)[:6])
    told = widths(np.where(several, errors * 2, errors), group, tier, several)
    found = {width.several: width.half[0] for width in told if width.tier == SEEN}
    assert found[True] > 1.2 * found[False]


def test_both_levels_are_reported():
    assert LEVELS == (80, 90)


def test_bands_narrow_with_rows():
    few, many = coverage_band(20, 0.8), coverage_band(2000, 0.8)
    assert few[0] < many[0] < 0.8 < many[1] < few[1]


def test_coverage_is_judged_by_publisher():
    """One publisher held wholly, one as it should be, one hardly: one of three is in the band, by hand."""
    errors = np.repeat([0.0, 0.0, 0.5, 0.5, 0.0], [20, 16, 4, 18, 2])
    group = np.repeat(["all", "right", "hardly"], 20)
    found = figures(errors, group, {level: np.full(60, 0.2) for level in LEVELS})
    assert found["publishers_in_band"] == pytest.approx(1 / 3) and COVERAGE_BAND == (0.6, 0.95)
    assert found["publishers_covered_80"] == pytest.approx((1 + 0.8 + 0.1) / 3)
    assert found["mean_of_medians"] == pytest.approx((0 + 0 + np.expm1(0.5)) / 3)


def test_a_model_is_compared_publisher_by_publisher():
    """Ten of a hundred worse at each of six publishers: found, and surely; noise that is the same for both cancels."""
    rng = np.random.default_rng(0)
    base, group = rng.normal(0.3, 0.02, 600), np.repeat([f"p{at}" for at in range(6)], 100)
    worse, low, high = paired(np.log1p(np.expm1(base) + 0.1), base, group)
    assert worse == pytest.approx(0.1) and 0 < low <= worse <= high
    mixed = np.where(group < "p3", 0.1, -0.1)
    none, low, high = paired(np.log1p(np.expm1(base) + mixed), base, group)
    assert none == pytest.approx(0, abs=1e-9) and low < 0 < high, "half better, half worse: nothing is shown"
