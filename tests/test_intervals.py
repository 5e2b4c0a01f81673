"""Intervals: coverage of publishers that had no say, widths that never fall from known to less known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cookbook.calibration.intervals import ENOUGH, coverage_band, half_width, pooled_quantile, widths
from cookbook.prediction.constants import DATASHEET, EXPERTS, LEVELS, NEW_ENGINE, SCALES, SEEN, SIBLING, TIERS


def publishers(rng, count, most=60):
    """Errors of publishers that are exchangeable, not alike: each has its own bias, spread and number of rows."""
    errors, group = [], []
    for at in range(count):
        rows = int(rng.integers(3, most))
        bias, spread = rng.normal(0, 0.15), rng.uniform(0.05, 0.2)
        errors.append(np.abs(rng.normal(bias, spread, rows)))
        group.append(np.full(rows, f"p{at:03d}"))
    return np.concatenate(errors), np.concatenate(group)


@pytest.mark.parametrize("level", [0.8, 0.9])
@pytest.mark.parametrize("count", [6, 10, 20])
def test_coverage_of_a_new_publisher_is_nominal(level, count):
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(300):
        errors, group = publishers(rng, count + 1)
        new = group == f"p{count:03d}"
        covered.append(np.mean(errors[new] <= half_width(errors[~new], group[~new], level)))
    assert level - 0.04 <= np.mean(covered) <= level + 0.08


def test_rows_taken_for_independent_would_not_cover():
    """Why publishers are the unit: one large publisher alone sets a quantile of rows, and the next is not covered."""
    rng = np.random.default_rng(1)
    by_row, by_publisher = [], []
    for _ in range(300):
        errors, group = publishers(rng, 5)
        large = np.abs(rng.normal(0, 0.05, 2000))
        pooled = np.concatenate([errors, large]), np.concatenate([group, np.full(2000, "large")])
        new = np.abs(rng.normal(rng.normal(0, 0.15), rng.uniform(0.05, 0.2), 50))
        by_row.append(np.mean(new <= np.quantile(pooled[0], 0.8)))
        by_publisher.append(np.mean(new <= half_width(*pooled, 0.8)))
    assert np.mean(by_row) < 0.5
    assert np.mean(by_publisher) > 0.72


def test_a_large_publisher_weighs_as_much_as_a_small_one():
    errors = np.concatenate([np.full(1000, 0.01), np.full(20, 1.0), np.full(20, 2.0)])
    group = np.repeat(["large", "b", "c"], [1000, 20, 20])
    assert pooled_quantile(errors, group, 0.5) == 1.0


def made(tiers, seed=0):
    """Errors for each tier: (publishers, scale of the errors)."""
    rng = np.random.default_rng(seed)
    parts = [publishers(rng, count) for count, _ in tiers.values()]
    errors = np.concatenate([e * size for (e, _), (_, size) in zip(parts, tiers.values(), strict=True)])
    tier = np.concatenate([np.full(len(e), name) for (e, _), name in zip(parts, tiers, strict=True)])
    return errors, np.concatenate([g for _, g in parts]), tier


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.floats(0.1, 5)), min_size=5, max_size=5), st.integers(0, 1000))
def test_widths_never_fall_from_known_to_less_known(sizes, seed):
    tiers = {name: size for name, size in zip(TIERS, sizes, strict=True) if size[0]}
    if not tiers:
        return
    errors, group, tier = made(tiers, seed)
    scale = np.random.default_rng(seed).choice(SCALES, len(errors))
    found = {(width.tier, width.scale): width.half for width in widths(errors, group, tier, scale)}
    assert len(found) == len(TIERS) * (1 + len(SCALES))
    for at in ("", *SCALES):
        chain = np.array([found[name, at] for name in (SEEN, SIBLING, NEW_ENGINE, DATASHEET)])
        assert np.all(np.diff(chain, axis=0) >= 0) and np.all(np.isfinite(chain))
        assert np.all(np.diff([found[name, at] for name in TIERS], axis=1) >= 0)
    assert np.all(np.array(found[EXPERTS, ""]) >= found[SEEN, ""])


def test_few_sources_say_so_and_are_widened_by_the_next_tier():
    errors, group, tier = made({SEEN: (2, 0.1), SIBLING: (9, 1.0)})
    alone = half_width(errors[tier == SEEN], group[tier == SEEN], 0.8)
    found = {width.tier: width for width in widths(errors, group, tier, np.full(len(errors), "x")) if not width.scale}
    assert found[SEEN].remark == "few sources" and found[SEEN].publishers == 2
    assert found[SEEN].half == found[SIBLING].half and found[SEEN].half[0] > 2 * alone
    assert found[SIBLING].remark == ""
    assert found[DATASHEET].remark == "no measurements"
    assert found[DATASHEET].half[0] > found[SIBLING].half[0]


def test_a_scale_with_enough_publishers_has_its_own_width():
    errors, group, tier = made({SEEN: (2 * ENOUGH, 1.0)})
    wild = np.isin(group, np.unique(group)[:ENOUGH])
    errors[wild] *= 4
    scale = np.where(wild, "multi-node", "1 device")
    found = {width.scale: width.half[0] for width in widths(errors, group, tier, scale) if width.tier == SEEN}
    assert found["multi-node"] > found[""] > found["1 device"]
    assert found["1 node"] == found[""]


def test_both_levels_are_reported():
    assert LEVELS == (80, 90)


def test_bands_narrow_with_rows():
    few, many = coverage_band(20, 0.8), coverage_band(2000, 0.8)
    assert few[0] < many[0] < 0.8 < many[1] < few[1]
