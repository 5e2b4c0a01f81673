"""Corrections by similar measurements: weights by hand, exclusions, and what they must not do."""

import numpy as np
import pytest

from cookbook.prediction import neighbours
from cookbook.prediction.neighbours import DAMPING, Measured, Runs, correction


def runs(network, batch, engine=None):
    size = len(network)
    labels = {"network": np.array(network, dtype=object), "engine": np.array(engine or ["a"] * size, dtype=object)}
    return Runs(labels, {"batch": np.array(batch, dtype=float)})


def library(errors, network=None, batch=None, group=None):
    size = len(errors)
    made = runs(network or ["net"] * size, batch or [64.0] * size)
    names = np.array([f"r{i}" for i in range(size)])
    return Measured(made, np.array(errors, dtype=float), np.array(group or ["p"] * size), names)


def test_two_measurements_by_hand():
    """Errors 0.2 at the same batch and 0.6 at e times the batch, cost 1: weights 1 and e^-1 = 0.36788.

    Mean (0.2 + 0.36788 * 0.6) / (1 + 0.36788 + damping).
    """
    found = correction(runs(["net"], [64]), library([0.2, 0.6], batch=[64, 64 * np.e]), amount_costs={"batch": 1.0})
    shift = (0.2 + np.exp(-1) * 0.6) / (1 + np.exp(-1) + DAMPING)
    assert found.factor[0] == pytest.approx(np.exp(-shift))
    assert found.count[0] == 2 and found.rows[0].tolist() == ["r0", "r1"]


def test_nothing_similar_means_no_correction():
    found = correction(runs(["other"], [64]), library([0.5]), label_costs={"network": 100.0})
    assert found.factor.tolist() == [1] and found.count.tolist() == [0] and len(found.rows[0]) == 0


def test_excluded_groups_and_rows_do_not_speak():
    known = library([0.5, -0.5], group=["p", "q"])
    asked = runs(["net"], [64])
    without_p, without_q = (correction(asked, known, exclude_groups=[name]).factor[0] for name in "pq")
    assert without_p > 1 > without_q
    assert correction(asked, known, exclude_rows=["r0", "r1"]).count[0] == 0


def test_each_run_can_leave_out_itself():
    known = library([0.5, -0.5])
    found = correction(known.runs, known, exclude_rows=known.row)
    assert found.factor[0] > 1 > found.factor[1]
    assert [list(names) for names in found.rows] == [["r1"], ["r0"]]


def test_the_correction_stays_within_the_errors_of_the_neighbours():
    random = np.random.default_rng(1)
    errors = random.normal(0, 0.3, 200)
    network, batch = random.choice(["a", "b", "c"], 200), random.uniform(1, 500, 200)
    known = library(errors, network=network.tolist(), batch=batch.tolist())
    found = correction(known.runs, known)
    assert (np.abs(np.log(found.factor)) <= np.abs(errors).max()).all()


def test_rows_without_an_error_are_ignored_and_order_does_not_matter():
    asked = runs(["net", "net"], [64, 128])
    first = correction(asked, library([0.2, np.nan, 0.4], batch=[64, 64, 128]))
    second = correction(asked, library([0.4, 0.2], batch=[128, 64]))
    np.testing.assert_allclose(first.factor, second.factor)


def test_repeated_runs_get_the_same_correction():
    known = library([0.2, 0.4], batch=[64, 128])
    many = correction(runs(["net"] * 5000, [64.0] * 5000), known)
    assert len(set(many.factor.tolist())) == 1 and set(many.count.tolist()) == {2}
    # Names are for a few runs that somebody reads.
    few = correction(runs(["net"] * 5, [64.0] * 5), known)
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
