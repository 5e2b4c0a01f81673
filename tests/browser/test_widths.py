"""Every panel at the widths of a phone, a split screen and a desk: plots with room, text inside, nothing sideways.

On a bare page, without JupyterLab and kernel, so that all widths and pictures take seconds.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

import cookbook as cb
from cookbook import panels
from cookbook.charts.look import alt
from cookbook.panels.controls import Slider

from .bare import Bare

pytestmark = pytest.mark.all
RECIPES = panels.RECIPES
# 1024 x 768 at 150 % is 683 px wide.
WIDTHS = (320, 480, 683, 800, 1300)
FEW, STATES = 4, 20
# What a picture needs that is not there at first.
NEEDS = {("accuracy", "effects"): {"kind": "transformer", "model": "without overlap"}}
GRAVE = ("serious", "critical")


@pytest.fixture(scope="module")
def bare(browser: Any) -> Any:
    context = browser.new_context(viewport={"width": 1320, "height": 1400})
    page = context.new_page()
    page.set_default_timeout(120_000)
    yield Bare(page)
    context.close()


def pictures(panel: Any) -> list[str]:
    """Names of the pictures that a reader can choose."""
    control = panel._controls.get("picture")
    return [option[0] for option in control.options] if control else [""]


def show(panel: Any, picture: str) -> None:
    """Choose a picture, with what it needs."""
    if picture:
        panel.update(picture=picture, **NEEDS.get((panel.name, picture), {}))
    assert not panel.shown["error"], panel.answer


def clear(bare: Bare, panel: Any) -> None:
    """Nothing of a picture is hidden, cut short or squeezed at any width."""
    for width in WIDTHS:
        bare.draw(panel, width)
        assert bare.faults() == [], f"{panel.name}, {panel.shown['picture']}, {width} px"


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_picture_of_a_panel_is_readable_at_every_width(recipe, bare):
    panel = getattr(panels, recipe)()
    for picture in pictures(panel):
        show(panel, picture)
        clear(bare, panel)


def drawn_change(panel: Any, drawn: random.Random) -> dict[str, Any]:
    """One to four controls and a picture, each at one of its values."""
    made = panel._controls
    values = {
        name: list(control.stops) if isinstance(control, Slider) else [option[0] for option in control.options]
        for name, control in made.items()
    }
    names = drawn.sample(sorted(made), drawn.randint(1, min(4, len(made)))) + [
        name for name in made if name == "picture"
    ]
    return {
        name: drawn.sample(values[name], max(made[name].least, 2))
        if getattr(made[name], "many", False)
        else drawn.choice(values[name])
        for name in names
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_panel_that_changes_stays_readable(recipe, bare):
    """Titles in more lines, longer names, other parts in the legend: repainted in place of what was there."""
    panel, drawn, seen = getattr(panels, recipe)(), random.Random(7), 0
    bare.draw(panel, 1120)
    for _ in range(STATES):
        panel.reset()
        change = drawn_change(panel, drawn)
        panel.update(**change)
        if not panel.shown["error"]:
            bare.change(panel)
            assert bare.faults() == [], change
            seen += 1
    assert seen >= FEW


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_phone_shows_after_a_change_what_it_shows_at_first(recipe, bare):
    """A state that is repainted is as readable as one that is drawn anew."""
    panel, drawn, seen = getattr(panels, recipe)(), random.Random(8), 0
    for _ in range(STATES):
        panel.reset()
        bare.draw(panel, 400)
        change = drawn_change(panel, drawn)
        panel.update(**change)
        if panel.shown["error"]:
            continue
        bare.change(panel)
        repainted = bare.faults()
        bare.draw(panel, 400)
        assert repainted == bare.faults(), change
        assert not [fault for fault in repainted if not fault.startswith("cut short")], change
        seen += 1
        if seen == FEW:
            return
    raise AssertionError(f"only {seen} of {STATES} states can be shown")


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("training_run", {"model": "switch_base_8", "devices": 64, "picture": "layouts"}),
        ("training_run", {"model": "llama3_8b", "devices": 16384, "picture": "layouts"}),
        ("model_zoo", {"model": "deeplabv3_mobilenet_v3_large"}),
        ("model_zoo", {"accelerators": ["rtx-4090", "k80-board"]}),
        ("assembly_line", {"micro_batches": 64}),
        ("cluster", {"nodes": 16}),
        ("clinic", {"stretches": 7}),
    ],
)
def test_what_is_longer_than_before_has_room(recipe, changes, bare):
    """Names of rows, of the legend and of ticks that are longer than those of the first state."""
    panel = getattr(panels, recipe)()
    for width in (700, 1120):
        panel.reset()
        bare.draw(panel, width)
        panel.update(**changes)
        assert not panel.shown["error"], panel.answer
        bare.change(panel)
        assert bare.faults(slack=0.5) == [], width


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("accelerators", {"accelerators": ["v100-sxm2-16gb", "t4"]}),
        ("scaling", {"compare": ["vgg16"]}),
        ("measurements", {"networks": [], "kind": "", "unit": "all", "y": "value"}),
    ],
)
def test_a_narrow_panel_that_changes_stays_readable(recipe, changes, bare):
    """Fewer rows, fewer names in the legend, thousands of marks on a canvas: drawn in place of what was there."""
    panel = getattr(panels, recipe)()
    bare.draw(panel, 320)
    panel.update(**changes)
    assert not panel.shown["error"], panel.answer
    bare.change(panel)
    assert bare.faults() == []


def test_the_charts_of_a_page_are_readable_on_a_phone(bare):
    """A legend beside the plot of a reader's own chart, and the longest words of a legend above one."""
    points = pd.DataFrame({"x": [1, 2, 1, 2], "y": [3, 5, 4, 4], "kind": ["not hidden, as predicted"] * 2 + ["b"] * 2})
    own = alt.Chart(points, title="Computing takes longer").mark_line().encode(x="x:Q", y="y:Q", color="kind:N")
    grown = cb.planning.growth_lines(
        quantities=("flops", "flops_per_usd", "flop_per_joule", "flop_per_byte", "bandwidth")
    )
    charts = [
        cb.charts.LiveChart(own.properties(width="container", height=260), points),
        cb.charts.LiveChart(cb.charts.growth(grown), grown),
    ]
    for chart in charts:
        for width in (284, 683, 1100):
            bare.draw(chart, width)
            assert bare.faults() == [], width


def test_a_deadline_near_the_edge_is_named_inside_the_chart(bare):
    """Its rule is drawn near the right edge by a change, where words after it have no room."""
    panel = panels.training_run()
    for width in WIDTHS:
        panel.reset()
        bare.draw(panel, width)
        panel.update(deadline=1000)
        bare.change(panel)
        texts = bare.page.locator(".vega-embed svg text").all_text_contents()
        assert "deadline 1,000 d" in texts and bare.faults(slack=0.5) == [], width


def violations(bare: Bare) -> list[str]:
    """What axe-core calls serious or critical, with the elements concerned."""
    found = Axe().run(bare.page).response["violations"]
    return [f"{each['id']}: {node['target']}" for each in found if each["impact"] in GRAVE for node in each["nodes"]]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_panel_and_its_errors_have_no_serious_barrier(recipe, bare):
    """By the rules of axe-core, at the first state and with an error shown."""
    panel = getattr(panels, recipe)()
    bare.draw(panel, 1000)
    assert violations(bare) == []
    control = next(name for name in panel._controls if name != "picture")
    panel.update(**{control: "no such thing"})
    assert panel.shown["error"] and panel.shown["faulty"] == control
    bare.draw(panel, 1000)
    assert violations(bare) == []


NAMES = """names => [...document.querySelectorAll('.vega-embed svg text')]
  .filter(text => names.includes(text.textContent)
  && text.getAttribute('stroke-width') === null).map(text => { const { top, bottom } = text.getBoundingClientRect();
  return [text.textContent, top, bottom]; })"""


@pytest.mark.parametrize(
    ("recipe", "picture", "names"),
    [
        ("scaling", "efficiency", ["AlexNet (two groups)", "ResNet-50 (v1)", "VGG-16", "Eng Acoustic Model"]),
        ("scaling", "speedups", ["AlexNet (two groups)", "ResNet-50 (v1)", "VGG-16", "Eng Acoustic Model"]),
        ("serving", "knee", ["TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95"]),
        ("storage", "scaling", ["later epochs", "first epoch"]),
        ("where_to_run", "paid", ["owned", "rented"]),
        ("crossbar", "roofline", ["H100 SXM5 80GB", "Jetson AGX Orin 64GB"]),
    ],
)
def test_every_line_is_named_where_it_ends_and_no_name_covers_another(recipe, picture, names, bare):
    panel = getattr(panels, recipe)(picture=picture)
    for width in (320, 1300):
        bare.draw(panel, width)
        found = sorted(bare.page.evaluate(NAMES, names), key=lambda each: each[1])
        assert sorted(name for name, *_ in found) == sorted(names)
        for (upper, _, bottom), (lower, top, _) in itertools.pairwise(found):
            assert top > bottom - 4, f"{upper} covers {lower}"


def test_a_step_names_five_parts_and_other(bare):
    panel = panels.training_run(picture="layouts")
    bare.draw(panel, 683)
    legend = bare.page.locator(".role-legend-label text").all_text_contents()
    assert len(legend) == 6 and legend[-1] == "other"


def test_names_of_rows_and_panes_are_in_full(bare):
    """Row and pane of the longest names of recipe 07: a framework of thirty letters, a link of twenty-six."""
    rows = panels.measurements(x="framework", by="accelerator", networks=["alexnet", "googlenet"])
    panes = panels.measurements(y="weak_efficiency", x="devices", by="link", aggregate="median", several="yes")
    for panel, name in ((rows, "MindSpore 2.5.0 graph mode (1)"), (panes, "NVLink2 (hybrid cube mesh)")):
        for width in (868, 1250):
            bare.draw(panel, width)
            found = bare.page.locator(".vega-embed svg text").all_text_contents()
            assert name in found and not [text for text in found if "…" in text]


def test_there_is_room_for_all_controls_that_always_show(bare):
    """Ten devices make a tall column beside a chart of usual height."""
    panel = panels.accelerators(
        accelerators=[
            "b200-sxm",
            "h200-sxm",
            "h100-sxm",
            "mi300x",
            "gaudi3",
            "a100-sxm-80gb",
            "l40s",
            "rtx-5090",
            "rtx-4090",
            "jetson-agx-orin-64gb",
        ]
    )
    for width in (868, 1000, 1250):
        bare.draw(panel, width)
        column = bare.page.locator(".ck-controls")
        assert column.evaluate("column => column.scrollHeight - column.clientHeight") <= 1


def test_a_zero_that_is_no_amount_is_a_word_for_eye_and_ear(bare):
    """The word is in full beside its label, without a unit, and the slider says it to a screen reader."""
    panel = panels.storage(price=0)
    for width in (320, 800, 1300):
        bare.draw(panel, width)
        field = bare.page.locator("[data-control=price]")
        field.evaluate("el => { el.closest('details').open = true; }")
        number, unit, slider = (field.locator(each) for each in (".ck-number", ".ck-unit", ".ck-range"))
        assert number.input_value() == slider.get_attribute("aria-valuetext") == "list price" and unit.is_hidden()
        assert number.evaluate("el => el.scrollWidth <= el.clientWidth")
    slider.fill("1")
    assert slider.get_attribute("aria-valuetext") == "5 $/TB" and number.input_value() == "5" and unit.is_visible()


def test_controls_of_a_panel_flow_with_the_page(bare):
    """No box scrolls by itself at any width, also with everything under More in sight."""
    panel = panels.stack()
    for width in (320, 400, 683, 800, 1300):
        bare.draw(panel, width)
        column = bare.page.locator(".ck-controls")
        column.locator(".ck-more").evaluate("el => { el.open = true; }")
        style = "column => [getComputedStyle(column).overflowY, column.scrollHeight - column.clientHeight]"
        assert column.evaluate(style) == ["visible", 0]
        bottoms = [each.bounding_box() for each in column.locator(".ck-control").all()]
        frame, main = column.bounding_box(), bare.page.locator(".ck-main").bounding_box()
        assert all(
            frame["y"] <= each["y"] and each["y"] + each["height"] <= frame["y"] + frame["height"] + 1
            for each in bottoms
        )
        assert width > 700 or main["y"] >= frame["y"] + frame["height"] - 1


LIVE = """panel => ['.ck-controls :is(input, button, textarea)', '.ck-views button', '.ck-presets button']
  .flatMap(each => [...panel.querySelectorAll(each)]).filter(el => !el.matches(':disabled')).length"""


@pytest.mark.parametrize("recipe", ["training_run", "accelerators"])
def test_after_the_kernel_has_died_controls_take_no_input(recipe, bare):
    panel = getattr(panels, recipe)()
    bare.draw(panel, 1000)
    root = bare.page.locator(".cookbook-panel")
    before = root.evaluate(LIVE)
    assert before > 5
    bare.kernel(False)
    assert root.evaluate(LIVE) == 0 and "controls do nothing" in root.locator(".ck-headline").inner_text()
    assert "run all cells" in root.locator(".ck-headline").inner_text()
    assert root.locator("fieldset[aria-disabled=true]").count() == root.locator("fieldset").count()
    fades = root.locator(".ck-controls fieldset").first.evaluate("el => getComputedStyle(el).opacity")
    assert float(fades) < 1
    link, pin = (root.get_by_role("button", name=name) for name in ("Copy link", "Pin"))
    assert link.is_enabled() and pin.is_disabled()
    bare.kernel(True)
    assert root.evaluate(LIVE) == before and "stopped" not in root.locator(".ck-headline").inner_text()
