"""Every range in the signature of a formula: values outside are refused by name, those within and NaN are floats."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syntax import tree_of

from cookbook.formulas import _arguments
from cookbook.formulas._arguments import AtLeastOne, Fraction, NonNegative, Positive, checked

FORMULAS = Path(_arguments.__file__).parent
MODULES = [path.stem for path in sorted(FORMULAS.glob("*.py")) if not path.stem.startswith("_")]
# Values outside each range by a little and by much, its ends and values within it; and the range as messages write it.
OUTSIDE = {"Positive": (0.0, -0.0, -5e-324, -1.0, -math.inf), "NonNegative": (-5e-324, -1.0, -math.inf)}
OUTSIDE |= {"AtLeastOne": (1 - 2**-53, 0.0, -1.0), "Fraction": (-5e-324, 1 + 2**-52, math.inf)}
WITHIN = {"Positive": (5e-324, 1.0, math.inf), "NonNegative": (0.0, -0.0, 5e-324, math.inf)}
WITHIN |= {"AtLeastOne": (1.0, 1.5, math.inf), "Fraction": (0.0, -0.0, 0.5, 1.0)}
CHECKS = {"Positive": "positive", "NonNegative": "non_negative", "AtLeastOne": "at_least_one", "Fraction": "fraction"}
WORDS = {"Positive": "(0, inf)", "NonNegative": "[0, inf)", "AtLeastOne": "[1, inf)", "Fraction": "[0, 1]"}


# Arguments that a body checks, and why no range of a signature says it.
IN_THE_BODY = {
    "crossbar._finite": "NaN and infinity are refused, too",
    "crossbar.drifted": "finite numbers alone",
    "crossbar.product_seconds": "finite numbers alone",
    "crossbar.quantised": "finite numbers alone",
    "input_pipeline.largest_accelerators": "a fraction above 0",
    "parallelism.bubble_share": "of one schedule alone",
    "serving.bulk_queue": "sizes of which some are 0",
    "sharing.drf_tasks": "lists of finite numbers",
    "sharing.erlang_wait_seconds": "whole or finite numbers",
    "sharing.jain_index": "a list",
    "sharing.max_min_rates": "a list",
}


def formulas() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function that a module of formulas defines, by its name with that of the module."""
    for module in MODULES:
        for name, formula in vars(importlib.import_module(f"cookbook.formulas.{module}")).items():
            if inspect.isfunction(formula) and formula.__module__ == f"cookbook.formulas.{module}":
                yield f"{module}.{name}", formula


def ranges(formula: Callable[..., Any]) -> dict[str, str]:
    """Range of each argument that has one."""
    return {argument: hint for argument, hint in formula.__annotations__.items() if hint in WORDS}


RANGED = {name: formula for name, formula in formulas() if ranges(formula)}


@checked
def echo(a: Positive, b: NonNegative = 0, *, c: AtLeastOne = 1, d: Fraction = 0.5, e: Any = None) -> tuple[Any, ...]:
    """Return what the body of a formula gets."""
    return a, b, c, d, e


def shapes() -> dict[str, Callable[[float], Any]]:
    """The ways in which a caller may give a number."""
    return {
        "float": float,
        "NumPy number": np.float64,
        "array of none": np.array,
        "list": lambda value: [value, math.nan],
        "array": lambda value: np.array([math.nan, value]),
    }


@pytest.mark.parametrize("name", RANGED)
def test_values_outside_are_refused_by_name(name):
    formula = RANGED[name]
    others = dict.fromkeys(inspect.signature(formula).parameters, 1.0)
    for argument, allowed in ranges(formula).items():
        for value, make in itertools.product(OUTSIDE[allowed], shapes().values()):
            with pytest.raises(ValueError) as problem:
                formula(**{**others, argument: make(value)})
            assert str(problem.value).startswith(f"{argument} = {value:g} is outside {WORDS[allowed]}: give ")


def test_all_formulas_are_asked():
    assert len(RANGED) > 100 and sum(len(ranges(formula)) for formula in RANGED.values()) > 400


@pytest.mark.parametrize("name", RANGED)
def test_defaults_are_within_their_ranges(name):
    parameters = inspect.signature(RANGED[name]).parameters
    for argument, allowed in ranges(RANGED[name]).items():
        default = parameters[argument].default
        if default is not inspect.Parameter.empty:
            np.testing.assert_array_equal(getattr(_arguments, CHECKS[allowed])(argument, default), default)


def test_the_body_gets_floats_within_its_ranges_however_they_are_given():
    for make in shapes().values():
        for numbers in itertools.zip_longest(*WITHIN.values(), fillvalue=1.0):
            given = [make(value) for value in numbers]
            for got in (echo(*given[:2], c=given[2], d=given[3]), echo(a=given[0], b=given[1], c=given[2], d=given[3])):
                for value, wanted in zip(got[:4], given, strict=True):
                    assert np.asarray(value).dtype == float
                    np.testing.assert_array_equal(value, np.asarray(wanted, dtype=float))


def test_a_missing_figure_passes_and_what_is_not_given_or_has_no_range_is_left_alone():
    assert np.isnan(echo(math.nan, np.nan)[:2]).all()
    assert echo(1)[1:] == (0, 1, 0.5, None) and echo(1, e="x")[-1] == "x"


@pytest.mark.parametrize(
    ("given", "words"), [("1e9 B", "'1e9 B'"), ([1, "x"], "[1, 'x']"), ({}, "{}"), (object(), "a object")]
)
def test_what_is_no_number_is_quoted_or_its_type_is(given, words):
    with pytest.raises(ValueError, match=re.escape(f"a = {words} is not a number: give one, or an array of numbers")):
        echo(given)


@pytest.mark.parametrize("wrong", [lambda: echo(), lambda: echo(1, 2, 3), lambda: echo(1, x=2), lambda: echo(1, a=1)])
def test_calls_that_python_refuses_name_the_formula(wrong):
    with pytest.raises(TypeError, match="echo"):
        wrong()


def test_bodies_check_only_what_no_signature_can_state():
    found = set()
    for path in (FORMULAS / f"{module}.py" for module in MODULES):
        for function in ast.walk(tree_of(path)):
            if isinstance(function, ast.FunctionDef):
                calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
                found |= {
                    f"{path.stem}.{function.name}"
                    for call in calls
                    if isinstance(call.func, ast.Name) and call.func.id in CHECKS.values()
                }
    assert found == set(IN_THE_BODY)


def test_a_formula_without_the_text_of_a_range_is_refused():
    def formula(a: float) -> float:
        return a

    with pytest.raises(TypeError, match="formula states no range"):
        checked(formula)
