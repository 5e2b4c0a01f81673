"""Specs of charts: they depend on the chart's name alone, and those that the build writes spare a panel Altair."""

import json
import random
import subprocess
import sys
from contextlib import suppress

import pytest

import cookbook as cb
from cookbook.charts import live
from cookbook.panels import RECIPES, specs
from cookbook.panels.controls import PROBLEMS, Combo, Slider

# Signals that the page sets by itself, from the width that it has.
LAID_OUT = {"narrow", "over"}
FEW = ("assembly_line", "finetuning", "host")
ALONE = """
import sys
from pathlib import Path
import cookbook as cb
from cookbook.panels import specs
specs.FILE = Path(sys.argv[1])
for name in sys.argv[2].split():
    panel = getattr(cb.panels, name)()
    for picture in panel._charts if "picture" in panel.values else ():
        panel.update(picture=picture)
    panel.receive({"do": "set", "values": {next(iter(panel.values)): next(iter(panel.values.values()))}})
    assert len(str(panel.specs)) > 1000
print("altair" in sys.modules)
"""
# A network far smaller than those of the catalogue: nothing on an axis stays where it was.
TINY = {"layers": [{"layer": "linear", "out": 8}], "input": [8]}


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Write the specs of some panels elsewhere than where the build writes them."""
    monkeypatch.setattr(specs, "FILE", tmp_path / "specs.json")
    specs._built.cache_clear()
    yield specs.write
    specs._built.cache_clear()


def refused(frame):
    raise AssertionError("Altair was asked")


def imports_altair(*names):
    command = [sys.executable, "-c", ALONE, str(specs.FILE), " ".join(names)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "True"


def test_a_built_spec_is_what_altair_writes(built):
    built(["host"])
    panel = cb.panels.host()
    for picture, make in panel._charts.items():
        panel.update(picture=picture)
        written = live.live_spec(make(panel.view.picture.frame))[0]
        assert specs.spec_of(f"host {picture}", refused, None) == json.loads(json.dumps(written))
        assert panel.specs[picture] == panel.chart["spec"] == json.loads(json.dumps(written))


def test_another_chart_other_code_and_a_broken_file_are_drawn_anew(built, monkeypatch):
    built(["assembly_line"])
    with pytest.raises(AssertionError, match="was asked"):
        specs.spec_of("assembly_line other", refused, None)
    assert specs.spec_of("assembly_line line", refused, None)
    text = specs.FILE.read_text()
    for broken in ("", text[:-9], text.replace(specs._code(), "other code")):
        specs.FILE.write_text(broken)
        specs._built.cache_clear()
        with pytest.raises(AssertionError, match="was asked"):
            specs.spec_of("assembly_line line", refused, None)
    specs.FILE.unlink()
    specs._built.cache_clear()
    assert cb.panels.assembly_line().specs["line"]["layer"]


def test_a_change_of_the_code_is_noticed(monkeypatch, tmp_path):
    chart = tmp_path / "topics" / "runs" / "charts.py"
    chart.parent.mkdir(parents=True)
    chart.write_text("colour = 1")
    monkeypatch.setattr(specs, "_PACKAGE", tmp_path)
    before = specs._code.__wrapped__()
    chart.write_text("colour = 2")
    assert specs._code.__wrapped__() != before


def test_a_chart_that_no_state_shows_stops_the_build(monkeypatch):
    monkeypatch.setattr(specs, "_STATES", {})
    with pytest.raises(ValueError, match="accuracy effects is not shown by its name alone"):
        dict(specs.drawn(["accuracy"]))


def test_a_panel_made_and_moved_imports_no_altair(built):
    assert imports_altair("assembly_line")
    built(FEW)
    assert not imports_altair(*FEW)


@pytest.mark.all
def test_no_picture_of_any_panel_imports_altair(built):
    built()
    assert not imports_altair(*RECIPES)


def other(control, now, chance):
    """Some value of a control; now and then what a reader wrote, where it takes that."""
    if isinstance(control, Slider):
        return chance.choice(control.stops)
    values, own = [value for value, *_ in control.options], []
    if isinstance(control, Combo) and control.own and chance.random() < 0.4:
        own = [{"custom": control.own.example}]
    if isinstance(now, list):
        return [*chance.sample(values, min(len(values), 2)), *own]
    return chance.choice(own or values or [now])


def views(name, states):
    """Every picture of a panel in some states, now and then with a pin; those without an answer are left out."""
    chance, panel = random.Random(name), getattr(cb.panels, name)()
    controls = sorted(set(panel._controls) - {"picture"})
    for at in range(states):
        changed = chance.sample(controls, min(1 + at % 2, len(controls)))
        state = {each: other(panel._controls[each], panel.values[each], chance) for each in changed}
        for picture in [{"picture": each} for each in panel._charts] if "picture" in panel.values else [{}]:
            with suppress(*PROBLEMS):
                values = panel._read({**panel.values, **state, **picture})
                yield panel, panel._draw(values, panel.view if at % 3 else None)


def without_values(spec):
    """A spec without the first values of its signals, and those."""
    spec = json.loads(json.dumps(spec))
    return spec, {each["name"]: each.pop("value", None) for each in spec["params"]}


@pytest.mark.parametrize("name", [*FEW, *(pytest.param(x, marks=pytest.mark.all) for x in RECIPES if x not in FEW)])
def test_a_spec_depends_on_the_name_of_its_chart_alone(name):
    """Words for those who do not see the chart, and its key, included; what else changes is sent as a signal."""
    first, seen = {chart.removeprefix(f"{name} "): without_values(spec) for chart, spec in specs.drawn([name])}, 0
    for panel, view in views(name, 8):
        spec, values = without_values(live.live_spec(panel._charts[view.picture.name](view.picture.frame))[0])
        same, before = first[view.picture.name]
        assert spec == same, view.code
        assert {each for each in values if each not in panel._signals(view)} <= LAID_OUT, view.code
        assert values.keys() == before.keys()
        seen += 1
    assert seen > 3


def test_the_axes_of_the_zoo_reach_a_network_far_smaller_than_the_others():
    panel = cb.panels.model_zoo(picture="zoo")
    before = panel.shown["signals"]
    panel.update(model=TINY)
    after = panel.shown["signals"]
    assert after["left"] < min(panel.columns["parameters"]) < before["left"] < after["right"] == before["right"]
    assert after["bottom"] < min(panel.columns["flop"]) < before["bottom"]
