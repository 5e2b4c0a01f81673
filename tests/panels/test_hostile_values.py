"""Every control of every panel, given what nobody should give it: told in one sentence, and nothing else changes."""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import pytest
from hostile import HOSTILE, raw_words

import cookbook as cb

# The long run tries SOME values for each control and ROUNDS mixtures of several; a change tries one value for each
# EVERYth control and FEW_ROUNDS mixtures.
EVERY, SOME, FEW_ROUNDS, ROUNDS = 4, 12, 3, 20
few_and_many = pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.all)], ids=["few", "many"])


@pytest.fixture(params=cb.panels.RECIPES)
def panel(request: Any, made_once: Any) -> Any:
    """One panel a recipe, put back between the values."""
    return made_once(request.param)


@few_and_many
def test_no_value_breaks_a_panel(panel: Any, many: bool, within: Any) -> None:
    """Values for each control alone: a usable value is drawn, any other refused in one short sentence."""
    seeded, first = random.Random(7), repr(panel)
    for name in list(panel.values)[:: 1 if many else EVERY]:
        for value in seeded.sample(list(HOSTILE), SOME if many else 1):
            check(panel, {name: value}, within)
    panel.reset()
    assert repr(panel) == first


@few_and_many
def test_no_mixture_of_values_breaks_a_panel(panel: Any, many: bool, within: Any) -> None:
    seeded = random.Random(11)
    first, names = repr(panel), list(panel.values)
    for _ in range(ROUNDS if many else FEW_ROUNDS):
        some = seeded.sample(names, seeded.randint(2, min(4, len(names))))
        check(panel, {name: seeded.choice(list(HOSTILE)) for name in some}, within)
    panel.reset()
    assert repr(panel) == first


def check(panel: Any, chosen: dict[str, str], within: Any) -> None:
    """Set controls to values by their names."""
    panel.reset()
    assert not panel.shown["error"], f"a reset does not bring {panel.name} back"
    code, columns = panel.code, panel.columns
    with within(30), warnings.catch_warnings():
        warnings.simplefilter("error")
        panel.update(**{name: HOSTILE[value]() for name, value in chosen.items()})
    what = f"{panel.name}: {chosen}: {panel.answer[:400]}"
    json.dumps(panel.shown, allow_nan=False)
    if not panel.shown["error"]:
        return
    assert panel.code == code and panel.columns is columns, what
    assert panel.shown["chips"] == [], what
    assert len(panel.answer.split()) >= 3, what
    assert "\n" not in panel.answer and panel.answer.endswith((".", "?", "!")) and len(panel.answer) <= 420, what
    assert not raw_words(panel.answer), what
