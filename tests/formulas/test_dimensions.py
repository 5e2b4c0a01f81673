"""Dimensions: every physics function, with its units scaled at random, scales by the unit it declares.

Functions and units are read from the package itself, so that a new formula is covered by existing.
"""

import importlib
import inspect
import pkgutil
import re
from fractions import Fraction

import numpy as np
import pint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cookbook.formulas

BASES = ("FLOP", "B", "s", "W", "USD", "V")
registry = pint.UnitRegistry(None)
for base in BASES:
    registry.define(f"{base} = [{base}]")
registry.define("J = W * s")
registry.define("A = W / V")
registry.define("S = A / V")
registry.define("MAC = 2 FLOP")

UNIT = re.compile(r"\[([^\[\]]+)\]")
PARAMETER = re.compile(r"^(\w+) : ", re.MULTILINE)


def physics():
    """(name, function) of every public function of every formula module."""
    for module in pkgutil.iter_modules(cookbook.formulas.__path__):
        if not module.name.startswith("_"):
            found = importlib.import_module(f"cookbook.formulas.{module.name}")
            for name, function in inspect.getmembers(found, inspect.isfunction):
                if not name.startswith("_") and function.__module__ == found.__name__:
                    yield f"{module.name}.{name}", function


# They take a name and lists, matrices, functions, models as a whole, or refuse most numbers drawn at random; they are
# scaled in test_parallelism.py beside this file, prediction/test_generation.py, and the tests of serving, the cluster
# and crossbars in topics.
APART = {
    "parallelism.bubble_share",
    "parallelism.schedule",
    "parallelism.replicated_seconds",
    "serving.service_latencies",
    "generation.decode_step_seconds",
    "generation.decode_parts",
    "generation.prefill_seconds",
    "generation.prefill_parts",
    "generation.cache_slots",
    "generation.steady_service",
    "generation.open_service",
    "sharing.drf_tasks",
    "sharing.max_min_rates",
    "crossbar.column_currents",
    "crossbar.wire_currents",
    "crossbar.wired_conductances",
    "crossbar.conductance_pair",
    "crossbar.hebb_1949",
    "crossbar.hopfield_1982_energy",
    "crossbar.recall",
}
FUNCTIONS = {name: function for name, function in physics() if name not in APART}


def sections(function):
    """Text of each parameter and of the result, from the docstring."""
    doc = inspect.getdoc(function)
    heads = re.split(r"^(Parameters|Returns|References)\n-+\n", doc, flags=re.MULTILINE)
    parts = dict(zip(heads[1::2], heads[2::2], strict=True))
    names = PARAMETER.split(parts["Parameters"])
    return dict(zip(names[1::2], names[2::2], strict=True)), parts["Returns"]


def powers(text):
    """Powers of the base units in the first [unit] of a text."""
    unit = UNIT.search(text)
    assert unit, f"no [unit] in {text!r}"
    written = unit.group(1)
    quantity = registry.Quantity(1, "dimensionless" if written in ("-", "1") else written)
    return {base: Fraction(quantity.dimensionality.get(f"[{base}]", 0)) for base in BASES}


def factor(text, scales):
    return float(np.prod([scales[base] ** float(power) for base, power in powers(text).items()]))


def in_range(text, draw):
    """A value of 0 to 1 mapped to the range that the description states."""
    if "0 to 1" in text:
        return draw
    if ">= t_0" in text:  # no sooner than another time, which is 10 at most
        return 10 + 9 * draw
    if "an integer from 2 to" in text:
        return round(2 + 8 * draw)
    return round(1 + 9 * draw) if "an integer" in text else 1 + 9 * draw


def results(value):
    """The result as a list of arrays, whether it is an array, a dict of parts or a tuple."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return [np.asarray(part) for part in parts]


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_result_scales_by_its_declared_unit(name, data):
    function = FUNCTIONS[name]
    parameters, result = sections(function)
    assert list(parameters) == list(inspect.signature(function).parameters)
    unit_interval = st.floats(0.05, 1)
    values = {key: in_range(text, data.draw(unit_interval, label=key)) for key, text in parameters.items()}
    # Powers of two scale floats exactly, so that a floor or an arg-max does not move by rounding.
    scales = {base: 2.0 ** data.draw(st.integers(-20, 20), label=base) for base in BASES}
    scaled = {key: values[key] * factor(parameters[key], scales) for key in values}
    for before, after in zip(results(function(**values)), results(function(**scaled)), strict=True):
        if before.dtype.kind in "US":
            assert before.tolist() == after.tolist()
        else:
            np.testing.assert_allclose(after, before * factor(result, scales), rtol=1e-9)


def test_formula_modules_are_found():
    assert {"arithmetic.op_seconds", "memory.largest_batch"} <= set(FUNCTIONS)


def test_a_wrong_unit_would_be_noticed():
    """The check has teeth: the same function with a false unit in its docstring fails."""

    def wrong(flop):
        """Time.

        Parameters
        ----------
        flop : array_like
            Work [FLOP].

        Returns
        -------
        numpy.ndarray
            Time [s].

        References
        ----------
        None.
        """
        return flop

    parameters, result = sections(wrong)
    scales = {**dict.fromkeys(BASES, 1.0), "FLOP": 8.0}
    assert factor(parameters["flop"], scales) != factor(result, scales)
