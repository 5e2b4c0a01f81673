"""Corrections by similar measurements: weights by hand, exclusions, and what they must not do."""

import numpy as np
import pytest

from cookbook.prediction import neighbours
from cookbook.prediction.neighbours import DAMPING, Measured, Runs, correction, distances


def runs(network, engine=None):
    labels = {"network": network, "engine": engine or ["a"] * len(network)}
    return Runs({name: np.array(values, dtype=object) for name, values in labels.items()})


def library(errors, network=None, engine=None):
    size = len(errors)
    names = np.array([f"r{i}" for i in range(size)])
    return Measured(runs(network or ["net"] * size, engine), np.array(errors, dtype=float), names)


def test_two_measurements_by_hand():
    """Errors 0.2 with the same engine and 0.6 with another one, cost 3: weights 1 and e^-3 = 0.04979.

    Mean (0.2 + 0.04979 * 0.6) / (1 + 0.04979 + damping).
    """
    found = correction(runs(["net"]), library([0.2, 0.6], engine=["a", "b"]), 1)
    shift = (0.2 + np.exp(-3) * 0.6) / (1 + np.exp(-3) + DAMPING)
    assert found.factor[0] == pytest.approx(np.exp(-shift))
    assert found.count[0] == 2 and found.rows[0].tolist() == ["r0", "r1"]


def test_distances_of_labels_and_amounts_add_up():
    """A factor of e in the batch costs 1, another network 4; an amount that is not known is far away."""
    asked, known = (
        Runs({"network": np.array(names)}, {"batch": np.array(batch)})
        for names, batch in ((["a"], [64.0]), (["a", "b", "a"], [64 * np.e, 64 * np.e, np.nan]))
    )
    found = distances(asked, known, {"network": 4.0}, {"batch": 1.0})
    assert found.tolist() == [[pytest.approx(1), pytest.approx(5), neighbours.MAX_DISTANCE]]


def test_nothing_similar_means_no_correction():
    asked, known = (Runs({"vendor": np.array([name])}) for name in "AB")
    found = correction(asked, Measured(known, np.array([0.5]), np.array(["r0"])), 1)
    assert found.factor.tolist() == [1] and found.count.tolist() == [0] and len(found.rows[0]) == 0


def test_each_run_can_leave_out_itself():
    known = library([0.5, -0.5])
    found = correction(known.runs, known, 2, own=known.row)
    assert found.factor[0] > 1 > found.factor[1]
    assert [list(names) for names in found.rows] == [["r1"], ["r0"]]


def test_the_correction_stays_within_the_errors_of_the_neighbours():
    random = np.random.default_rng(1)
    errors = random.normal(0, 0.3, 200)
    known = library(errors, random.choice(["a", "b", "c"], 200).tolist(), random.choice(["a", "b"], 200).tolist())
    found = correction(known.runs, known, 200)
    assert (np.abs(np.log(found.factor)) <= np.abs(errors).max()).all()


def test_rows_without_an_error_are_ignored_and_order_does_not_matter():
    asked = runs(["net", "net"], ["a", "b"])
    first = correction(asked, library([0.2, np.nan, 0.4], engine=["a", "a", "b"]), 2)
    second = correction(asked, library([0.4, 0.2], engine=["b", "a"]), 2)
    np.testing.assert_allclose(first.factor, second.factor)


def test_repeated_runs_get_the_same_correction():
    known = library([0.2, 0.4], engine=["a", "b"])
    many = correction(runs(["net"] * 5000), known, 5000)
    assert len(set(many.factor.tolist())) == 1 and set(many.count.tolist()) == {2}
    # Names are for a few runs that somebody reads.
    few = correction(runs(["net"] * 5), known, 5)
    assert few.factor.tolist() == many.factor[:5].tolist() and [len(each) for each in few.rows] == [2] * 5


def test_default_costs_name_what_runs_have():
    names = {"vendor", "network", "workload", "format", "engine", "family", "accelerator"}
    assert set(neighbours.LABEL_COSTS) == names
    # Never across makers: out of reach even where all else is equal.
    assert neighbours.LABEL_COSTS["vendor"] > neighbours.MAX_DISTANCE


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("training_classic", "training_classic"),
        ("inference", "inference"),
    ],
)
def test_many_runs_are_corrected_as_each_is(kind, table):
    from cookbook.prediction.engine import terms_of
    from cookbook.prediction.parsing import tables

    asked = tables.read(kind, tables.without_outcomes(tables.measured_table(table)).iloc[::5].reset_index(drop=True))
    asked = next(part for _, part in tables.split(asked)) if kind == "inference" else asked
    module = terms_of(kind)
    rows = module.resolve(asked)
    runs, known = module.runs(rows), neighbours.known_errors(kind)
    many, each = neighbours.correct(kind, runs, len(rows)), neighbours.correction(runs, known, len(rows), named=0)
    assert np.array_equal(many.count, each.count) and many.count.max() > 3
    np.testing.assert_allclose(many.factor, each.factor, rtol=1e-12)
