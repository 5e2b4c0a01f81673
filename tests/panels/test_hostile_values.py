"""Every control of every panel, given what nobody should give it: told in one sentence, and nothing else changes."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.units import shown

DEEP: list[Any] = []
for _ in range(40):
    DEEP = [DEEP]
HOSTILE: list[Any] = [
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    -1,
    0,
    1e308,
    -1e308,
    5e-324,
    10**400,
    -(10**400),
    10**5000,
    "",
    " ",
    "abc",
    "1e999",
    "1e99999999",
    "nan",
    "-0",
    "٣",
    "a\0b",
    "\n",
    "x" * 50_000,
    "9" * 50_000,
    "a," * 5_000,
    [],
    {},
    (),
    object(),
    True,
    False,
    [[1], [2]],
    [None],
    [object()],
    [{}],
    DEEP,
    {"custom": ""},
    {"custom": "{"},
    {"custom": "[" * 20_000},
    {"custom": "9" * 30_000},
    {"custom": None},
    {"like": "h100-sxm"},
    {"like": object()},
    {"layers": []},
    {"layers": object()},
    {"layers": [{"layer": "conv", "out": 1e308}]},
    {object(): 1},
    b"bytes",
    1j,
    np.zeros((2, 3)),
    np.float64("nan"),
    np.int64(-5),
    pd.DataFrame({"a": [1]}),
    pd.NA,
    Exception,
    lambda: 0,
    set(),
]
# Values for each control, and mixtures of several: a change tries few, the long run many.
FEW, SOME, FEW_ROUNDS, ROUNDS = 1, 12, 3, 20
few_and_many = pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.all)], ids=["few", "many"])


@pytest.fixture(params=cb.panels.RECIPES)
def panel(request: Any, made_once: Any) -> Any:
    """One panel a recipe, put back between the values."""
    return made_once(request.param)


@few_and_many
def test_no_value_breaks_a_panel(panel: Any, many: bool, within: Any) -> None:
    """Values for each control alone: a usable value is drawn, any other refused in one short sentence."""
    seeded, first = random.Random(7), repr(panel)
    for name in panel.values:
        for value in seeded.sample(HOSTILE, SOME)[: SOME if many else FEW]:
            check(panel, {name: value}, within)
    panel.reset()
    assert repr(panel) == first


@few_and_many
def test_no_mixture_of_values_breaks_a_panel(panel: Any, many: bool, within: Any) -> None:
    seeded = random.Random(11)
    first, names = repr(panel), list(panel.values)
    for _ in range(ROUNDS if many else FEW_ROUNDS):
        some = seeded.sample(names, seeded.randint(2, min(4, len(names))))
        check(panel, {name: seeded.choice(HOSTILE) for name in some}, within)
    panel.reset()
    assert repr(panel) == first


def check(panel: Any, values: dict[str, Any], within: Any) -> None:
    panel.reset()
    code, columns = panel.code, panel.columns
    with within(30):
        panel.update(**values)
    what = f"{panel.name}: { ({name: shown(value) for name, value in values.items()}) }: {panel.answer[:400]}"
    json.dumps(panel.shown, allow_nan=False)
    if not panel.shown["error"]:
        return
    assert panel.code == code and panel.columns is columns, what
    assert panel.shown["chips"] == [], what
    assert "\n" not in panel.answer and panel.answer.endswith((".", "?", "!")) and len(panel.answer) <= 420, what
    raw = (
        "Traceback",
        "NoneType",
        "object has no",
        "unsupported operand",
        "cannot convert",
        "could not convert",
        "not subscriptable",
        "out of range for",
        "unhashable",
        "division by zero",
        "has no attribute",
        "got an",
        "expected string",
        "must be str",
        "ambiguous",
        "broadcast",
        "invalid literal",
        "not iterable",
    )
    assert not any(words.lower() in panel.answer.lower() for words in raw), what
