"""What every panel must do, asked once of all: any state is sent, copied, linked, pinned, downloaded and mended.

A change tries each picture and a few states of every panel; the long run each option, both ends of each number, and
more mixtures. What one panel alone must say stands in the tests of its topic.
"""

from __future__ import annotations

import ast
import io
import json
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels import controls
from cookbook.panels.shell import MOST_ROWS
from cookbook.units import ratio

PANELS = tuple(cb.panels.RECIPES)
# Pictures that the state a panel opens with does not have.
REFUSED = {("accuracy", "effects")}
NAN = re.compile(r"\bnan\b", re.I)
FEW, MANY, MOST_VISIBLE, MOST_WORDS = 2, 12, 6, 20
each_panel = pytest.mark.parametrize("name", PANELS)
few_and_all = pytest.mark.parametrize(
    "everything", [False, pytest.param(True, marks=pytest.mark.all)], ids=["few", "all"]
)

Values = dict[str, Any]


def choices(control: Any) -> list[Any]:
    """Values that a control offers: the ends of a number and, where it may be, none; each option of a choice."""
    if isinstance(control, controls.Slider):
        return [control.stops[0], control.stops[-1], *([None] if control.optional else [])]
    options = [option[0] for option in control.options]
    if isinstance(control, controls.Choice):
        return options
    ends = [options[0], options[-1]]
    return (
        [options[at : at + max(control.least, 1)] for at in (0, -max(control.least, 1) - 1)] if control.many else ends
    )


def mixture(panel: Any, drawn: random.Random) -> Values:
    """Three controls, each set to a value that it offers: a stop of a number, not its ends alone."""
    found = dict[str, Any]()
    for control in drawn.sample(list(panel._controls.values()), min(3, len(panel._controls))):
        found[control.name] = drawn.choice([*getattr(control, "stops", ()), *choices(control)])
    return found


def states(panel: Any, everything: bool) -> Iterator[Values]:
    """The state it opens with, pictures, then mixtures; with `everything` also each value that each control offers."""
    drawn = random.Random(panel.name)
    yield {}
    for name, control in panel._controls.items():
        if everything or name == "picture":
            yield from ({name: value} for value in choices(control))
    for _ in range(MANY if everything else FEW):
        yield mixture(panel, drawn)


def walk(panel: Any, everything: bool) -> Iterator[Values]:
    """Put a panel into one state after the other, those that have no answer too."""
    for values in states(panel, everything):
        panel.reset()
        panel._open = ""
        panel.update(**values)
        yield values


@few_and_all
@each_panel
def test_every_state_is_sent_whole_and_every_error_can_be_mended(name: str, everything: bool, made_once: Any) -> None:
    """Plain JSON without NaN, a short headline, a title, at most fifteen printed rows, sources with titles, all rows.

    Where there is no answer, the reason names the control at fault, changes nothing else, and ends with values that can
    be used.
    """
    panel, titles = made_once(name), dict[str, str]()
    first, refused = panel.code, set()
    for values in walk(panel, everything):
        wrong = panel.error
        if wrong:
            if not values or set(values) == {"picture"}:
                refused.add((name, values.get("picture")))
            assert "\n" not in panel.answer and panel.answer.endswith((".", "?", "!")), (values, panel.answer)
            assert panel.code == first, values
            assert panel.shown["faulty"] in panel.values and panel.shown["fixes"], (values, panel.error)
            panel.receive({"do": "mend", "index": len(panel.shown["fixes"]) - 1})
        assert not panel.error and panel.shown["fixes"] == [] and panel.shown["faulty"] == "", values
        headline = panel.shown["headline"]
        assert len(headline.split()) <= MOST_WORDS and "**" in headline, (values, headline)
        if wrong:
            continue
        picture = panel.view.picture
        assert picture.title and panel.columns and panel.shown["picture"] == picture.name, values
        if set(values) == {"picture"}:
            assert picture.name == values["picture"] and titles.setdefault(picture.title, picture.name) == picture.name
        for what in ("table", "sources"):
            panel.receive({"do": "open", "what": what})
            json.dumps([panel.shown, panel.columns, panel.specs[picture.name]], allow_nan=False)
            opened = panel.shown[what]
            if what == "table":
                assert 0 < len(opened["rows"]) <= MOST_ROWS and not NAN.search(json.dumps(opened["rows"])), values
            else:
                assert opened["items"] and all(title for title, _, _ in opened["items"]), values
                assert all(url == "" or url.startswith("http") for _, url, _ in opened["items"]), values
        read = pd.read_csv(io.StringIO(panel.csv()))
        assert len(read) == len(panel.frame) > 0 and list(read.columns) == [str(each) for each in panel.frame], values
        assert all(part["name"] and part["text"] and part["formula"] for part in panel.shown["parts"]), values
    assert refused == {each for each in REFUSED if each[0] == name}


@few_and_all
@each_panel
def test_code_and_link_give_every_state_again(name: str, everything: bool, made_once: Any) -> None:
    """Copied code is Python, and makes the same panel; so does the link, whatever stood there before."""
    panel, other = made_once(name), getattr(cb.panels, name)()
    assert repr(other) == repr(panel), "two runs print the same"
    drawn = random.Random(8)
    for values in [*states(panel, everything)][0 if everything else -FEW :]:
        panel.reset()
        panel.update(**values)
        if panel.error:
            panel.reset()
        panel.update()  # a fact that a control corrected itself belongs to the last change alone
        ast.parse(panel.code)
        again = eval(panel.code.splitlines()[0], {"cb": cb})
        assert repr(again) == repr(panel) and again.values == panel.values, values
        assert panel.link.startswith(f"panel={name}&state=") and panel.link == panel.shown["link"]
        other.update(**mixture(other, drawn))  # nothing of what stood there is left
        other.receive({"do": "link", "state": parse_qs(panel.link)["state"][0]})
        assert (other.values, other.code, other.error) == (panel.values, panel.code, ""), values
        assert other.shown["headline"] == panel.shown["headline"] and other.columns == panel.columns, values
    again.update(**mixture(again, drawn))
    again.reset()
    assert repr(again) == repr(panel), "reset goes back to the state that it was made with"


@few_and_all
@each_panel
def test_both_ends_of_every_number_are_answered_or_refused(name: str, everything: bool, made_once: Any) -> None:
    """Beyond an end a reason tells the range; what may be empty can be emptied again."""
    panel = made_once(name)
    numbers = [control for control in panel._controls.values() if isinstance(control, controls.Slider)]
    for control in numbers if everything else numbers[:1]:
        for end, beyond in ((control.stops[0], -1e300), (control.stops[-1], 1e300)):
            panel.reset()
            panel.update(**{control.name: end})
            assert panel.shown["state"][control.name]["text"] and (not panel.error or panel.shown["fixes"]), control
            panel.update(**{control.name: beyond})
            assert f"{control.label} = " in panel.error and "range" in panel.error, (control, panel.error)
            assert panel.shown["faulty"] == control.name
        panel.reset()
        before = panel.answer
        panel.update(**{control.name: " "})
        if control.optional:
            assert panel.values[control.name] is None and (panel.error or panel.answer), control
        else:
            assert "is empty" in panel.error, control
        panel.reset()
        assert panel.answer == before


@each_panel
def test_a_pinned_state_is_compared_and_let_go(name: str, made_once: Any) -> None:
    panel = made_once(name)
    before, compared = repr(panel), panel.view.headline
    panel.pin()
    assert panel.shown["pinned"] and [part["name"] for part in panel.shown["ghost"]] == [
        p.name for p in panel.view.parts
    ]
    changed = next(
        values for values in walk(panel, everything=True) if not panel.error and "picture" not in values and values
    )
    said = panel.answer.partition(" Against the pinned scenario: ")[2]
    for what, now in panel.view.headline.items():
        assert not compared.get(what) or f"{what} {ratio(now / compared[what])}×" in said, (changed, panel.answer)
    panel.reset()
    panel.pin()
    assert repr(panel) == before and panel.shown["ghost"] == [] and not panel.shown["pinned"]


@each_panel
def test_what_a_reader_changes_in_the_frame_stays_theirs(name: str) -> None:
    """Answers are kept for the next panel that asks the same."""
    made = getattr(cb.panels, name)
    choices = {"finetuning": [{}, {"method": "dpo"}]}.get(name, [{}])
    for values in choices:
        panel = made(**values)
        before, frame = repr(panel), panel.frame
        kept = frame.copy()
        for column in frame.select_dtypes("number"):
            frame[column] = -1
        again = made(**values)
        assert repr(again) == before
        pd.testing.assert_frame_equal(again.frame, kept)


@each_panel
def test_presets_are_states_of_their_own(name: str, made_once: Any) -> None:
    panel = made_once(name)
    for index, label in enumerate(panel.shape["presets"]):
        panel.update(**mixture(panel, random.Random(index)))
        panel.receive({"do": "preset", "index": index})
        assert not panel.error and panel.values == panel._read(panel._presets[index][1]), label
        assert eval(panel.code.splitlines()[0], {"cb": cb}).values == panel.values, label
    panel.reset()


@each_panel
def test_at_most_six_controls_are_visible_each_named_and_explained(name: str, made_once: Any) -> None:
    shown = made_once(name).shape["controls"]
    json.dumps(shown, allow_nan=False)
    assert sum(not control["more"] and control["place"] == "controls" for control in shown) <= MOST_VISIBLE
    assert all(control["label"] and (control["tooltip"] or control["place"] == "picture") for control in shown)
