"""Every recipe in a real browser: run, moved by keyboard from end to end, drawn in both themes, nothing fetched."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from .test_widths import GRAVE

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "screenshots"
RECIPES = sorted(Path(os.environ.get("COOKBOOK_NOTEBOOKS", ROOT / "notebooks")).glob("*.ipynb"))
PRESSES = int(os.environ.get("COOKBOOK_PRESSES", 10))
PICTURES = os.environ.get("COOKBOOK_PICTURES", "") != ""
MOST_BYTES = 2_000_000
ONE = "03-parallelism-trade-offs.ipynb"  # what a change visits; the long run visits all
START = "00-start-here.ipynb"  # shows the panel of another recipe, where every control of it is moved

# The notebook of the address stands in front, not one that the workspace had open, and its kernel is idle.
READY = """() => {
  const named = (path) => decodeURIComponent(path ?? '').split('/').pop();
  const asked = named(new URL(performance.getEntriesByType('navigation')[0].name).pathname);
  const current = window.jupyterapp?.shell?.currentWidget, kernel = current?.sessionContext?.session?.kernel;
  return kernel && kernel.status === 'idle' && kernel.connectionStatus === 'connected'
    && (!asked.endsWith('.ipynb') || named(current.context?.path) === asked)
    && current.node.querySelector('.jp-Notebook .jp-CodeCell');
}"""
# From here on `asked` holds the requests that the kernel has not finished; what it sent before is shown by then.
LISTEN = """() => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  if (window.kernel === kernel) return;
  window.kernel = kernel;
  window.asked = new Set();
  kernel.anyMessage.connect((_, { msg, direction }) => {
    if (direction === 'send' && msg.channel === 'shell') window.asked.add(msg.header.msg_id);
  });
  kernel.iopubMessage.connect((_, msg) => {
    if (msg.header.msg_type === 'status' && msg.content.execution_state === 'idle')
      window.asked.delete(msg.parent_header.msg_id);
  });
}"""
NARROW = """async () => {
  await window.jupyterapp.restored;
  window.jupyterapp.shell.collapseLeft();
}"""
RUN_ALL = """() => {
  window.ran = false;
  window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => { window.ran = true; });
}"""
RAN = "() => window.ran && !window.asked.size && window.kernel.status === 'idle'"
DRAWN = """() => [...document.querySelectorAll('.cookbook-panel .ck-figure')]
  .every(figure => figure.querySelector('svg, canvas, .ck-error'))"""
FIRST_CHART = """() => window.jupyterapp.shell.currentWidget.node
  .querySelector('.vega-embed svg text, .vega-embed canvas')"""
ERRORS = """() => JSON.parse(JSON.stringify(window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON()))
  .cells.flatMap(cell => cell.outputs ?? [])
  .filter(out => out.output_type === 'error' || out.name === 'stderr').map(out => out.evalue ?? out.text)"""
# The panel says settled once the answer has arrived and the chart, be it canvas or SVG, is repainted where it changed.
WATCH = """panel => {
  window.times = []; let since = null;
  panel.addEventListener('keydown', e => { if (/^Arrow|^Enter/.test(e.key)) since = performance.now(); }, true);
  new MutationObserver(() => {
    if (since === null || panel.dataset.settled === 'false') return;
    const start = since; since = null;
    requestAnimationFrame(() => setTimeout(() => window.times.push(performance.now() - start), 0));
  }).observe(panel, {attributes: true, attributeFilter: ['data-settled']});
}"""
FOCUS = """() => {
  const el = document.activeElement, panel = el.closest('.cookbook-panel');
  if (!panel) return null;
  return {kind: el.getAttribute('role') || el.type || el.localName,
          label: el.getAttribute('aria-label') || el.textContent || el.id,
          control: el.closest('[data-control]')?.dataset.control ?? ''};
}"""
# Nothing is asked of the kernel, the panel has drawn what came, and so it stays for three frames.
SETTLED = """(panel, most) => new Promise((done, fail) => {
  const end = performance.now() + most;
  let calm = 0;
  const look = () => {
    const { settled } = panel.dataset, busy = panel.getAttribute('aria-busy'), { status } = window.kernel;
    calm = settled === 'true' && busy !== 'true' && status === 'idle' && !window.asked.size ? calm + 1 : 0;
    if (calm > 3) done();
    else if (performance.now() > end)
      fail(new Error(`not settled in ${most} ms: settled ${settled}, busy ${busy}, kernel ${status}, `
        + `${window.asked.size} requests open`));
    else requestAnimationFrame(() => setTimeout(look, 0));
  };
  look();
})"""
# The picture is the same element at the same place for longer than the panel waits before it draws another size.
STILL = """(panel, most) => new Promise((done, fail) => {
  const end = performance.now() + most;
  let since = performance.now(), before = null;
  const look = () => {
    const picture = panel.querySelector('.ck-figure svg, .ck-figure canvas') ?? panel;
    const now = JSON.stringify(picture.getBoundingClientRect());
    if (picture !== before?.picture || now !== before.now) since = performance.now();
    before = { picture, now };
    if (performance.now() - since > 250) done();
    else if (performance.now() > end) fail(new Error(`the picture still moves after ${most} ms`));
    else requestAnimationFrame(look);
  };
  look();
})"""
NAMES = "panel => [...panel.querySelectorAll('[data-control]')].map(x => x.dataset.control)"
WORDS = """panel => panel.querySelector('.ck-say').textContent
  + panel.querySelector('.ck-code').textContent"""
STATE = """panel => panel.querySelector('.ck-say').textContent + panel.querySelector('.ck-figure').innerHTML
  + (panel.querySelector('.ck-figure canvas')?.toDataURL() ?? '')"""

BROKEN = '{"layers":\n   [oops'
NETWORK = """{"layers": [{"layer": "embedding", "vocab": 1000, "features": 64},
            {"layer": "transformer_block", "heads": 4, "hidden": 256}]}"""


def open_and_run(page: Any, lab: str, recipe: str) -> dict[str, Any]:
    """Open a recipe in a fresh workspace, run all its cells, and time the first chart."""
    page.goto(f"{lab}/lab/workspaces/test-{time.time_ns()}/tree/{recipe}?reset")
    page.wait_for_function(READY)
    page.evaluate(LISTEN)
    page.evaluate(NARROW)
    before, start = page.received[0], time.monotonic()
    page.evaluate(RUN_ALL)
    measured: dict[str, Any] = {}
    if has_chart(recipe):
        page.wait_for_function(FIRST_CHART, polling=20)
        measured["first_chart_seconds"] = round(time.monotonic() - start, 2)
    page.wait_for_function(RAN)
    measured["run_all_seconds"] = round(time.monotonic() - start, 2)
    page.patience = max(page.patience, 4000 * measured["run_all_seconds"])
    page.wait_for_function(DRAWN)
    measured["received_bytes"] = page.received[0] - before
    return measured


def has_chart(recipe: str) -> bool:
    """Whether a recipe draws anything: its committed outputs or its code say so."""
    text = next(path for path in RECIPES if path.name == recipe).read_text(encoding="utf-8")
    return any(word in text for word in ("cb.panels.", "cb.charts.", "image/png"))


def settle(page: Any, panel: Any) -> None:
    """Wait until the kernel has answered and the chart is repainted.

    How long at most follows from what was measured: one answer may take as long as four runs of the whole recipe.
    """
    page.evaluate(LISTEN)
    panel.evaluate(SETTLED, page.patience)


def still(page: Any, panel: Any) -> None:
    """Wait until nothing moves: cells below that still arrive move the page under the pointer."""
    settle(page, panel)
    panel.evaluate(STILL, page.patience)


def tab_through(page: Any, panel: Any) -> list[dict[str, str]]:
    """Everything that Tab reaches inside a panel, in order; "More" is opened on the way."""
    panel.evaluate("panel => { panel.tabIndex = -1; panel.focus(); }")
    reached: list[dict[str, str]] = []
    for _ in range(200):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUS)
        if at is None:
            return reached
        if at["kind"] == "summary" and not page.evaluate("document.activeElement.parentElement.open"):
            page.keyboard.press("Enter")
        reached.append(at)
    raise AssertionError("Tab never leaves the panel: a keyboard trap")


def move_ends(page: Any, panel: Any, control: str) -> None:
    """Move one control by keyboard to both ends of its range and back; both ends must show."""
    box = panel.locator(f"[data-control={control}]")
    if control == "picture":
        box = panel.locator(".ck-views")
    for kind, move in (
        ("input[type=range]", move_range),
        ("[role=radio]", move_choice),
        ("[role=combobox]", move_combo),
    ):
        if box.locator(kind).count() and box.locator(kind).first.is_enabled():
            move(page, panel, box)


def seen(page: Any, panel: Any) -> str:
    settle(page, panel)
    return str(panel.evaluate(STATE))


def move_range(page: Any, panel: Any, box: Any) -> None:
    slider = box.locator("input[type=range]")
    slider.focus()
    at = int(slider.input_value())
    states = []
    for key in ("Home", "End"):
        page.keyboard.press(key)
        states.append(seen(page, panel))
    last = int(slider.input_value())
    for _ in range(last - at):
        page.keyboard.press("ArrowLeft")
    settle(page, panel)
    assert int(slider.input_value()) == at
    assert states[0] != states[1], "both ends look the same"


def move_choice(page: Any, panel: Any, box: Any) -> None:
    chosen = box.locator("[role=radio][aria-checked=true]").first
    value = chosen.get_attribute("data-value")
    chosen.focus()
    states = []
    for key in ("Home", "End"):
        page.keyboard.press(key)
        states.append(seen(page, panel))
    for _ in range(20):
        if page.evaluate("document.activeElement.dataset.value") == value:
            break
        page.keyboard.press("ArrowLeft")
        settle(page, panel)
    assert box.locator("[role=radio][aria-checked=true]").first.get_attribute("data-value") == value
    assert states[0] != states[1], "both ends look the same"


def move_combo(page: Any, panel: Any, box: Any) -> None:
    combo = box.locator("[role=combobox]")
    many = box.locator("[role=listbox][aria-multiselectable]").count() > 0
    before, text, words = seen(page, panel), combo.input_value(), said(panel, box, many)
    for keys in (["ArrowDown", "Home", "ArrowDown", "Enter"], ["ArrowDown", "End", "ArrowUp", "Enter"]):
        combo.focus()
        for key in keys:
            page.keyboard.press(key)
        if not many and combo.input_value() == text:
            # The second or the last but one is what stood there: the next to it.
            for key in ("ArrowDown", keys[1], keys[2], keys[2], "Enter"):
                page.keyboard.press(key)
        assert seen(page, panel) != before, "choosing changed nothing"
        if many:
            page.keyboard.press("Enter")
            settle(page, panel)
        page.keyboard.press("Escape")
    if not many:
        combo.fill(text)
        page.keyboard.press("Enter")
    settle(page, panel)
    assert said(panel, box, many) == words, "the way back is not the same"


def said(panel: Any, box: Any, many: bool) -> Any:
    """Answer and code; of a box with several entries the entries, since one taken out and put back comes last."""
    return sorted(box.locator(".ck-tag").all_inner_texts()) if many else panel.evaluate(WORDS)


def latency(page: Any, panel: Any) -> dict[str, float]:
    """Key press to repaint [ms], over the panel's first slider."""
    slider = panel.locator("input[type=range]:enabled").first
    panel.evaluate(WATCH)
    slider.focus()
    page.keyboard.press("Home")
    settle(page, panel)
    page.evaluate("window.times.length = 0")
    last = int(slider.get_attribute("max"))
    for press in range(PRESSES):
        page.keyboard.press("ArrowRight" if press // last % 2 == 0 else "ArrowLeft")
        settle(page, panel)
    times = sorted(page.evaluate("window.times"))
    assert len(times) > PRESSES / 2, "the panel does not answer"
    return {"p50_ms": round(times[len(times) // 2], 1), "p95_ms": round(times[int(len(times) * 0.95)], 1)}


def kernel_megabytes() -> dict[str, float]:
    """Resident memory of the youngest kernel on this machine, where /proc tells."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if "ipykernel_launcher" in (folder / "cmdline").read_text():
                line = next(x for x in (folder / "status").read_text().splitlines() if x.startswith("VmRSS"))
                found.append((folder.stat().st_mtime, int(line.split()[1]) / 1000))
        except (OSError, StopIteration):
            continue
    return {"kernel_mb": round(max(found)[1])} if found else {}


def photograph(page: Any, name: str) -> None:
    """Every panel and chart drawn light and wide, dark and narrow; screenshots of them where asked for."""
    if PICTURES:
        SHOTS.mkdir(parents=True, exist_ok=True)
    for theme, width in (("Light", 1300), ("Dark", 760)):
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme}'}})")
        page.set_viewport_size({"width": width, "height": 2400})
        for number, drawn in enumerate(page.locator(".cookbook-panel, .cookbook-chart").all()):
            drawn.scroll_into_view_if_needed()
            drawn.evaluate(STILL, page.patience)
            if PICTURES:
                drawn.screenshot(path=SHOTS / f"{name}-{number}-{theme.lower()}-{width}.png")
    page.set_viewport_size({"width": 1300, "height": 1000})


def barriers(page: Any) -> list[str]:
    """What axe-core calls serious or critical in the panels of a notebook, as JupyterLab shows them."""
    found = Axe().run(page, context=".cookbook-panel").response["violations"]
    return [f"{each['id']}: {node['target']}" for each in found if each["impact"] in GRAVE for node in each["nodes"]]


@pytest.mark.parametrize(
    ("recipe", "every"),
    [
        (ONE, "first"),
        *(pytest.param(path.name, "every", marks=pytest.mark.all) for path in RECIPES),
    ],
)
def test_recipe(recipe: str, every: str, lab: str, page: Any, figures: Any) -> None:
    """One visit with a keyboard alone: the first controls of one recipe at a change, all controls in the long run."""
    measured = open_and_run(page, lab, recipe)
    assert page.evaluate(ERRORS) == []
    measured |= kernel_megabytes()
    moved: set[str] = set()
    for panel in page.locator(".cookbook-panel").all():
        panel.scroll_into_view_if_needed()
        kind = panel.get_attribute("aria-label")
        visit(page, panel, every=every == "every" and kind not in moved and recipe != START)
        if kind not in moved:
            measured |= latency(page, panel)
        moved.add(kind)
    for more in MORE.get(recipe, ()) if every == "every" else ():
        panel = page.locator(".cookbook-panel").first
        panel.get_by_role("button", name="Reset").click()
        still(page, panel)
        more(page, panel, figures)
    photograph(page, Path(recipe).stem)
    assert barriers(page) == [], "in JupyterLab's dark theme"
    figures(recipe, measured | {"requests_outside": len(page.outside)})
    assert page.evaluate(ERRORS) == []
    assert page.problems == []
    assert page.outside == []
    assert measured["received_bytes"] < MOST_BYTES


def visit(page: Any, panel: Any, every: bool) -> None:
    """Tab through a panel, then move each of its controls; of a second panel of the same kind, the first alone."""
    reached = tab_through(page, panel)
    names = panel.evaluate(NAMES)
    on = [name for name in names if not panel.locator(f"[data-control={name}].ck-off").count()]
    assert set(on) <= {at["control"] for at in reached}, "Tab does not reach every control"
    for tool in ("Pin", "Reset", "Copy as code", "Table", "CSV", "PNG"):
        assert any(at["label"] == tool for at in reached), f"Tab does not reach {tool}"
    for name in [*names, "picture"] if every else names[:1]:
        move_ends(page, panel, name)
        assert panel.locator(".ck-say").inner_text().strip(), f"{name} leaves no answer"
        if panel.locator(".ck-error").count():  # what was automatic has a value now, which may not fit the others
            panel.get_by_role("button", name="Reset").click()
            settle(page, panel)


def use(page: Any, panel: Any, box: Any, text: str) -> str:
    """Write a text, press "Use this"; what the panel then says."""
    box.locator("textarea").fill(text)
    box.get_by_text("Use this").click()
    settle(page, panel)
    return str(panel.locator(".ck-say").inner_text())


def unfold(panel: Any) -> None:
    """Open "More", unless it is."""
    panel.locator(".ck-more").evaluate("more => { more.open = true; }")


def a_network_of_ones_own(page: Any, panel: Any, figures: Any) -> None:
    """Layers typed by the reader: what is wrong with them is told, and what they need can be set."""
    panel.scroll_into_view_if_needed()
    box = panel.locator("[data-control=model]")
    combo, area = box.locator("[role=combobox]"), box.locator("textarea")
    combo.focus()
    for text in ("custom", "cus"):
        combo.fill(text)
        assert "own network" in box.locator("li.ck-active").inner_text()
    assert not box.get_by_text("nothing matches").count()
    page.keyboard.press("Enter")
    assert area.is_visible(), "Enter did not open the editor"
    assert "not valid JSON" in use(page, panel, box, BROKEN)
    assert area.input_value() == BROKEN
    assert "set Sequence" in use(page, panel, box, NETWORK)
    assert area.input_value() == NETWORK
    sequence = panel.locator("[data-control=seq] .ck-number")
    unfold(panel)
    assert sequence.is_enabled(), "the control that mends it is off"
    sequence.fill("128")
    sequence.press("Enter")
    settle(page, panel)
    assert "of 128 tokens" in panel.locator(".ck-say").inner_text()
    assert area.input_value() == NETWORK
    combo.fill("vgg-1")
    page.keyboard.press("Enter")
    settle(page, panel)
    assert "VGG-1" in combo.input_value(), "Enter takes the first match"
    combo.fill("vgg-19")
    page.keyboard.press("Escape")
    assert "VGG-1" in combo.input_value(), "Escape goes back"
    combo.fill("no such network")
    page.keyboard.press("Tab")
    settle(page, panel)
    assert "No model called 'no such network', and none that is spelt alike" in panel.locator(".ck-say").inner_text()
    assert "ck-dim" in str(panel.get_attribute("class")), "the picture is not dimmed"
    many = panel.locator("[data-control=compare] [role=combobox]")
    for reach in (many.focus, many.click):
        reach()
        page.keyboard.press("ArrowDown")
        first = panel.locator("[data-control=compare] [role=option]").first
        assert "ck-active" in str(first.get_attribute("class")), "the first entry is skipped"
        page.keyboard.press("Escape")


# The panel of all measurements with every one of them in the picture.
CHOICES = {
    "x": ("framework", "devices", "publisher", "year"),
    "by": ("publisher", "framework", "phase", "kind"),
    "y": ("throughput", "stated value"),
}
EVERYTHING = (("kind", "every kind"), ("unit", "all, mixed"), ("y", "stated value"), ("by", "kind"))


def choose(page: Any, panel: Any, control: str, text: str) -> None:
    """Type a choice into a combo box, and take it."""
    box = panel.locator(f"[data-control={control}] [role=combobox]")
    box.focus()
    box.fill(text)
    panel.locator(f"[data-control={control}] li.ck-active").wait_for()
    page.keyboard.press("Enter")
    settle(page, panel)


def times(page: Any) -> list[float]:
    taken = page.evaluate("window.times.splice(0)")
    return [float(each) for each in taken]


def figures_of(taken: list[float]) -> dict[str, float]:
    taken = sorted(taken)
    found = {"p50_ms": taken[len(taken) // 2], "p95_ms": taken[int(len(taken) * 0.95)], "presses": len(taken)}
    return {name: round(value, 1) for name, value in found.items()}


def every_measurement_at_once(page: Any, panel: Any, figures: Any) -> None:
    """Thousands of marks on a canvas answer to keys and to a click."""
    panel.scroll_into_view_if_needed()
    unfold(panel)
    panel.locator("[data-control=networks] .ck-tag").first.click()
    settle(page, panel)
    for control, text in EVERYTHING:
        choose(page, panel, control, text)
    assert int(panel.locator(".ck-say strong").first.inner_text().split()[0].replace(",", "")) > 8000
    assert panel.locator(".ck-figure canvas").count() == 1, "thousands of marks belong on a canvas"
    panel.evaluate(WATCH)
    measured = {}
    for control, texts in CHOICES.items():
        for text in 2 * texts:
            choose(page, panel, control, text)
        measured[control] = times(page)
    panel.locator("input[type=range]:enabled").first.focus()
    for key in 6 * ["ArrowLeft"] + 6 * ["ArrowRight"]:
        page.keyboard.press(key)
        settle(page, panel)
    measured["filter"] = times(page)
    measured["all"] = [each for taken in measured.values() for each in taken]
    figures("explorer", {name: figures_of(taken) for name, taken in measured.items()})
    click_a_mark(page, panel)


def click_a_mark(page: Any, panel: Any) -> None:
    """A click on a mark names its row and shows its source."""
    panel.locator(".ck-figure canvas").scroll_into_view_if_needed()
    still(page, panel)
    box = panel.locator(".ck-figure canvas").bounding_box()
    for step in range(60):
        page.mouse.click(box["x"] + box["width"] * (0.1 + 0.014 * step), box["y"] + box["height"] * 0.5)
        settle(page, panel)
        if panel.locator(".ck-say").inner_text().startswith("Nearest"):
            assert panel.locator(".ck-drawer td a").first.get_attribute("href").startswith("http")
            return
    raise AssertionError("no mark was found to click on")


MARKS = """panel => [...panel.querySelectorAll('.vega-embed svg .mark-symbol.role-mark path')].map(path => {
  const box = path.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })"""


def a_click_on_a_mark_sets_its_control(page: Any, panel: Any, figures: Any) -> None:
    """A device by its mark, then an operation by its own: the sentence tells the numbers of what was clicked."""
    code = panel.locator(".ck-code")
    panel.locator(".ck-figure").evaluate("figure => figure.scrollIntoView({block: 'center'})")
    still(page, panel)
    for place in (0, 1):  # one of two devices is not the one looked at
        page.mouse.click(*panel.evaluate(MARKS)[place])
        settle(page, panel)
        if "on=" in code.inner_text():
            break
    assert "on=" in code.inner_text()
    panel.locator(".ck-views [data-value=roofline]").click()
    panel.locator(".ck-figure").evaluate("figure => figure.scrollIntoView({block: 'center'})")
    still(page, panel)
    before = panel.locator(".ck-say").inner_text()
    page.mouse.click(*panel.evaluate(MARKS)[2])  # the third longest operation: the longest is told
    settle(page, panel)
    assert "op=" in code.inner_text() and panel.locator(".ck-say").inner_text() != before


# What else a reader does in a recipe, on the page that is open.
MORE = {
    "01-model-zoo.ipynb": [a_network_of_ones_own],
    "04-accelerator-comparison.ipynb": [a_click_on_a_mark_sets_its_control],
    "07-explore-measurements.ipynb": [every_measurement_at_once],
}
