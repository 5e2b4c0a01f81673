"""The fitter: it recovers constants that are known, weighs publishers equally, and never looks at what is left out."""

from dataclasses import replace

import numpy as np
import pytest

import cookbook as cb
from cookbook.calibration.fit import Rows, fit, left_out, minimise, publisher_weights
from cookbook.prediction.constants import (
    ADAPTERS,
    DATASHEET,
    EXPERTS,
    NEW_ENGINE,
    SEEN,
    SIBLING,
    Constant,
    Fitted,
    committed,
    of_rows,
    tiers_of_rows,
    value_at,
)
from cookbook.prediction.scenario import Rows as Scenarios
from cookbook.prediction.scenario import coded, together

FAMILIES = {"old": ("maker", 0.3), "new": ("maker", 0.6), "other": ("rival", 0.45)}
OVERHEAD = 2e-4


class LineKind:
    """A kind with physics that anyone can check: step = work / (peak efficiency) + overhead."""

    CONSTANTS = (
        Constant("efficiency", 0.5, 0.05, 1.0, "family"),
        Constant("overhead", 1e-4, 1e-6, 1e-2, "", "s"),
    )

    def parts(self, scenarios, constants, terms=None):
        terms = terms or {}
        work = scenarios.work / (scenarios.peak * constants["efficiency"])
        overhead = np.full(len(work), constants["overhead"])
        return {"compute": work, "overhead": overhead * terms.get("overhead", True)}

    def step_seconds(self, parts):
        return sum(parts.values())

    def outcome(self, scenarios, seconds):
        return scenarios.batch / seconds


def made_up(publishers=8, each=40, noise=0.0, bias=0.0, seed=0, overhead=OVERHEAD) -> Rows:
    """Rows whose constants are known; each publisher may have a habit of its own (`bias`)."""
    rng = np.random.default_rng(seed)
    count = publishers * each
    group = np.repeat([f"publisher-{at}" for at in range(publishers)], each)
    family = rng.choice(list(FAMILIES), count)
    habit = np.repeat(rng.normal(0, bias, publishers), each)
    values = {
        "work": 10 ** rng.uniform(8, 11, count),
        "peak": np.full(count, 1e13),
        "batch": rng.integers(1, 256, count) * 1.0,
    }
    keys = {
        "accelerator": np.char.add(family, "-card"),
        "family": family,
        "vendor": np.array([FAMILIES[name][0] for name in family]),
        "engine": rng.choice(["eager", "compiled"], count),
        "scale": np.full(count, "1 device"),
        "special": np.full(count, ""),
    }
    scenarios = Scenarios(values, np.full(count, "", dtype=object), {name: coded(key) for name, key in keys.items()})
    true = {"efficiency": np.array([FAMILIES[name][1] for name in family]), "overhead": overhead}
    kind = LineKind()
    seconds = kind.step_seconds(kind.parts(scenarios, true)) * np.exp(habit + rng.normal(0, noise, count))
    return Rows(kind, scenarios, scenarios.batch / seconds, group)


def with_pull(monkeypatch, pull):
    monkeypatch.setattr(LineKind, "CONSTANTS", tuple(replace(each, pull=pull) for each in LineKind.CONSTANTS))


def test_known_constants_are_found(monkeypatch):
    with_pull(monkeypatch, 1e3)
    found = fit(made_up())
    assert found.values["overhead"][""] == pytest.approx(OVERHEAD, rel=1e-3)
    for name, (_, efficiency) in FAMILIES.items():
        assert found.values["efficiency"][name] == pytest.approx(efficiency, rel=1e-3)


def test_a_narrow_pull_keeps_constants_at_their_start(monkeypatch):
    with_pull(monkeypatch, 1e-4)
    found = fit(made_up())
    for constant in LineKind.CONSTANTS:
        for value in found.values[constant.name].values():
            assert value == pytest.approx(constant.start, rel=1e-2)


def test_a_constant_without_a_pull_is_not_fitted(monkeypatch):
    """It stays at its start, has no level and no spread, and the others are found beside it."""
    efficiency, overhead = LineKind.CONSTANTS
    monkeypatch.setattr(LineKind, "CONSTANTS", (efficiency, replace(overhead, start=OVERHEAD, pull=0.0)))
    rows = made_up(publishers=10, each=200)
    found = fit(rows)
    assert set(found.values) == set(found.spreads) == {"efficiency"}
    assert of_rows(found, rows.constants, rows.keys)["overhead"] == OVERHEAD
    assert found.values["efficiency"]["new"] == pytest.approx(FAMILIES["new"][1], rel=0.02)


def test_known_constants_are_found_through_noise():
    found = fit(made_up(publishers=10, each=200, noise=0.1))
    for name, (_, efficiency) in FAMILIES.items():
        assert found.values["efficiency"][name] == pytest.approx(efficiency, rel=0.05)


def test_a_fit_is_repeatable_to_the_last_digit():
    assert fit(made_up(noise=0.1)).values == fit(made_up(noise=0.1)).values


def test_a_warm_start_changes_nothing_that_matters():
    rows = made_up(noise=0.1, bias=0.1)
    cold = fit(rows)
    warm = fit(rows, warm=minimise(rows, rows.group == "publisher-0"))
    for name, levels in cold.values.items():
        for level, value in levels.items():
            assert warm.values[name][level] == pytest.approx(value, rel=1e-4)


def test_a_few_absurd_rows_do_not_rule():
    rows = made_up(each=100, noise=0.05)
    rows.measured[::50] *= 30
    assert fit(rows).values["efficiency"]["new"] == pytest.approx(0.6, rel=0.1)


def test_bounds_hold():
    rows = made_up()
    rows.measured[:] *= 100
    assert max(fit(rows).values["efficiency"].values()) <= 1.0 + 1e-12


def test_rows_without_outcome_or_reason_are_never_used():
    rows = made_up()
    rows.measured[::2] = np.nan
    rows.scenarios.why[1::4] = "no such device"
    assert rows.usable.sum() == len(rows.measured) // 4
    assert fit(rows).values["efficiency"]["old"] == pytest.approx(0.3, rel=0.05)


def test_publishers_weigh_the_same_however_many_rows_they_have():
    group = np.repeat(["large", "small"], [990, 10])
    weights = publisher_weights(group, np.ones(1000, bool))
    assert weights[group == "large"].sum() == pytest.approx(1)
    assert weights[group == "small"].sum() == pytest.approx(1)
    one = publisher_weights(np.array(["large"] * 20 + ["single"]), np.ones(21, bool))
    assert one[-1] == pytest.approx(0.1), "a single row is no habit"


def test_copies_of_a_publishers_rows_hardly_count():
    """The same rows of one publisher fifty times are one habit: they move a constant by less than the habit says."""
    rows = made_up(publishers=6, noise=0.05, bias=0.0)
    own = rows.group == "publisher-0"
    rows.measured[own] /= 1.5
    again = np.concatenate([np.arange(len(own)), *[np.flatnonzero(own)] * 49])
    often = Rows(rows.module, rows.scenarios.take(again), rows.measured[again], rows.group[again])
    for level, value in fit(rows).values["efficiency"].items():
        moved = abs(np.log(fit(often).values["efficiency"][level] / value))
        assert moved < np.log(1.5) / 4, "taken row by row, nine tenths of it would be followed"


def test_spreads_within_and_between_publishers_are_found():
    found = minimise(made_up(publishers=40, each=60, noise=0.1, bias=0.2), np.ones(2400, bool)).spreads
    assert found == pytest.approx((0.1, 0.2), rel=0.3)
    alike = minimise(made_up(publishers=40, each=60, noise=0.1, bias=0.0), np.ones(2400, bool)).spreads
    assert alike[0] == pytest.approx(0.1, rel=0.1) and alike[1] < 0.04


def test_a_planted_habit_does_not_leak():
    """A publisher whose runs are all twice as slow is left out: what the others say of it misses by that factor."""
    rows = made_up(publishers=8, noise=0.05)
    own = rows.group == "publisher-5"
    rows.measured[own] /= 2
    error = left_out(rows, rows.group, neighbours=False).error
    assert np.median(error[own]) == pytest.approx(np.log(2), abs=0.05)
    assert abs(np.median(error[~own])) < 0.08, "nor does it pull the others far"


def test_what_is_left_out_has_no_say():
    """Outcomes of the publisher left out may be anything: the constants stay, digit for digit."""
    rows = made_up(noise=0.1, bias=0.2)
    before = fit(rows, rows.usable & (rows.group != "publisher-3"))
    rows.measured[rows.group == "publisher-3"] *= np.linspace(0.01, 50, 40)
    after = fit(rows, rows.usable & (rows.group != "publisher-3"))
    assert before == after


def test_a_left_out_generation_takes_its_siblings_and_never_another_vendor():
    rows = made_up()
    family = rows.keys["family"]
    without_new, without_other = (fit(rows, rows.usable & (family != name)) for name in ("new", "other"))
    efficiency = rows.constants[0]
    assert value_at(without_new, efficiency, "new", "maker") == without_new.values["efficiency"]["old"]
    assert value_at(without_other, efficiency, "other", "rival") == efficiency.start


def test_siblings_are_averaged_as_logarithms():
    vendors = {"a": frozenset("N"), "b": frozenset("N"), "c": frozenset("T")}
    known = Fitted({"e": {"a": 0.2, "b": 0.8, "c": 0.9}}, vendors)
    assert value_at(known, Constant("e", 0.5, 0.1, 1, "family"), "d", "N") == pytest.approx(0.4)


def test_a_level_that_its_rows_say_nothing_of_has_no_say_in_others():
    """Its spread is that of the pull: the sibling that was measured stands in alone; two silent ones count alike."""
    vendors, efficiency = dict.fromkeys("abc", frozenset("N")), Constant("e", 0.5, 0.1, 1, "family", pull=0.4)
    values = {"e": {"a": 0.5, "b": 0.8}}
    for spreads, value in ({"a": 0.4, "b": 0.1}, 0.8), ({"a": 0.4, "b": 0.4}, 0.4**0.5), ({}, 0.4**0.5):
        known = Fitted(values, vendors, spreads={"e": spreads})
        assert value_at(known, efficiency, "c", "N") == pytest.approx(value, rel=1e-3)
    # Nor is its own value worth more than that of a sibling that was measured.
    known = Fitted(values, vendors, spreads={"e": {"a": 0.4, "b": 0.1}})
    assert [value_at(known, efficiency, level, "N") for level in "ab"] == pytest.approx([0.8, 0.8])


def test_of_rows_gives_arrays_for_levels_and_numbers_for_the_rest():
    rows = made_up()
    values = of_rows(fit(rows), rows.constants, rows.keys)
    assert np.shape(values["overhead"]) == ()
    assert values["efficiency"].shape == rows.measured.shape
    assert len(np.unique(values["efficiency"])) == len(FAMILIES)


def test_tiers_say_what_was_measured():
    rows = made_up()
    known = fit(rows, rows.usable & (rows.keys["engine"] == "eager") & (rows.keys["family"] != "other"))
    keys = {
        "accelerator": np.array(["old-card", "odd-card", "old-card", "other-card", "old-card", "other-card"]),
        "vendor": np.array(["maker", "maker", "maker", "rival", "maker", "rival"]),
        "engine": np.array(["eager", "eager", "compiled", "eager", "eager", "eager"]),
        "special": np.array(["", "", "", "", EXPERTS, ADAPTERS]),
    }
    assert tiers_of_rows(known, keys).tolist() == [SEEN, SIBLING, NEW_ENGINE, DATASHEET, EXPERTS, DATASHEET]
    assert tiers_of_rows(known, keys | {"special": np.full(6, ADAPTERS)}).tolist()[:2] == [ADAPTERS, ADAPTERS]


def test_coded_is_the_same_as_pairs():
    rng = np.random.default_rng(1)
    columns = [rng.choice(["a", "b", "c"], 100), rng.choice(["x", "y"], 100)]
    joined = together(*(coded(column) for column in columns))
    assert [joined.levels[code] for code in joined.codes] == list(zip(*columns, strict=True))


def test_the_spread_says_how_sure_a_constant_is():
    few, many = (minimise(made_up(publishers=n, noise=0.1), np.ones(n * 40, bool)).spread for n in (3, 30))
    assert np.all(many < few)


@pytest.mark.parametrize("kind", ["training_classic", "training_transformer", "inference", "generation"])
def test_what_was_measured_is_said_to_be_measured(kind):
    """Each pair of device and software that the constants were fitted on has the best tier, whatever has levels."""
    seen = cb.table("training_evidence").query("kind == @kind")
    makers = cb.table("accelerators").set_index("key")["vendor"]
    assert len(seen) > 10
    keys = {
        "accelerator": seen["accelerator"].tolist(),
        "vendor": seen["accelerator"].map(makers).tolist(),
        "engine": seen["engine"].tolist(),
        "special": [""] * len(seen),
    }
    assert set(tiers_of_rows(committed(kind), keys)) == {"device and engine measured"}
