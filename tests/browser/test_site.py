"""The static pages, read from disk in a real browser, and panels of notebooks that were saved and opened again."""

import shutil
import time
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import cookbook as cb  # noqa: F401 - what the code of a panel starts with

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS, SHOTS = ROOT / "notebooks", ROOT / "build" / "screenshots"


WIDTHS = (320, 760, 1300)
# What is wider than the page, or than the article, and stands in no box that scrolls.
TOO_WIDE = """() => {
  const article = document.querySelector('.bd-article-container');
  const fits = document.scrollingElement.scrollWidth <= innerWidth;
  if (fits && (!article || article.scrollWidth <= article.clientWidth)) return [];
  const scrolls = 'pre, .highlight, .pst-scrollable-table-container, .cell_output, dialog';
  const found = [...document.querySelectorAll('body *')]
    .filter(each => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(scrolls));
  return found.map(each => each.outerHTML.slice(0, 100)).concat('the page');
}"""
COLOURS = "() => ['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])"


@pytest.fixture(scope="module")
def few(tmp_path_factory, front_page, build_site) -> Path:
    """Folder of a site of two recipes, the first with its panel, a guide and one page of the reference."""
    folder = tmp_path_factory.mktemp("few")
    for name in ("notebooks/01-model-zoo.ipynb", "notebooks/08-train-a-transformer.ipynb", "docs/glossary.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    front_page(folder)
    return build_site(folder, folder / "out", strict=False)  # the recipes link to others


@pytest.fixture(scope="module")
def whole(tmp_path_factory, build_site) -> Path:
    """Folder of the cookbook's own site."""
    return build_site(ROOT, tmp_path_factory.mktemp("whole") / "site")


@pytest.fixture(params=["few", pytest.param("whole", marks=pytest.mark.all)])
def site(request) -> Path:
    """Folder of a small site, and of the whole one."""
    return request.getfixturevalue(request.param)


def test_pages_from_disk_ask_nothing_of_the_network_and_fit_a_phone(page, site):
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    for path in sorted(site.rglob("*.html")):
        if {"_modules", "_static"} & {*path.parts}:
            continue
        page.goto(path.as_uri())
        assert page.locator("h1").count() == 1, path
        shown = "images => images.every(image => image.complete && image.naturalWidth > 0 && image.alt)"
        page.locator("img").evaluate_all("images => images.forEach(image => { image.loading = 'eager'; })")
        page.wait_for_function("() => [...document.images].every(image => image.complete)")
        assert page.locator("img").evaluate_all(shown), "a picture is missing or has no alternative text"
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(TOO_WIDE) == [], f"{path} scrolls sideways at {width} px"
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"} and said == []
    assert not page.problems


def test_search_from_disk_finds_a_name_and_a_word_of_the_text(page, few):
    page.goto((few / "notebooks" / "01-model-zoo.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("weight_bytes")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    page.get_by_role("link", name="cookbook.formulas.memory.weight_bytes", exact=True).click()
    page.wait_for_url("**/cookbook.formulas.memory.html*#cookbook.formulas.memory.weight_bytes")
    page.goto((few / "search.html").as_uri() + "?q=bubble")
    page.locator("#search-results li a", has_text="08 Plan a training run").first.wait_for()
    page.goto((few / "search.html").as_uri() + "?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E+zzzz")
    page.locator("#search-results .search-summary", has_text="did not match any documents").wait_for()
    assert not page.outside and not page.problems


def choose(page, theme: str) -> None:
    """Choose a theme in the menu of the header."""
    page.locator(".theme-switch-button:visible").click()
    page.get_by_role("button", name=theme, exact=True).click()
    page.wait_for_function("mode => document.documentElement.dataset.mode === mode", arg=theme.lower())


@pytest.mark.all
def test_both_themes_can_be_read_and_the_chosen_one_stays(own_page, few):
    found, pages = {}, [(few / name).as_uri() for name in ("index.html", "docs/glossary.html")]
    for scheme in ("light", "dark"):
        own_page.emulate_media(color_scheme=scheme)
        own_page.goto(pages[0])
        found[scheme] = own_page.evaluate(COLOURS)
    assert all(contrast(*colours) >= 7 for colours in found.values()) and found["light"] != found["dark"]
    choose(own_page, "Light")
    own_page.goto(pages[1])
    own_page.wait_for_function("() => document.documentElement.dataset.theme === 'light'")
    assert own_page.evaluate(COLOURS) == found["light"]
    choose(own_page, "Dark")
    assert own_page.evaluate(COLOURS) == found["dark"]
    own_page.emulate_media(media="print")
    assert contrast(*own_page.evaluate(COLOURS)) >= 7 and own_page.evaluate(COLOURS)[1] == "rgb(255, 255, 255)"
    assert not own_page.locator(".bd-header").is_visible() and not own_page.locator(".bd-sidebar-primary").is_visible()


@pytest.mark.all
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1300])
def test_axe_finds_nothing(page, whole, theme, width):
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    names = ("index", "notebooks/00-start-here", "notebooks/01-model-zoo", "notebooks/08-train-a-transformer", "README")
    names += (
        "docs/contents/reference",
        "docs/generated/cookbook",
        "docs/generated/cookbook.formulas.memory",
        "docs/accuracy",
        "docs/contents/teaching",
        "notebooks/facilitator/01-model-zoo",
        "slides-half-day-course",
        "search",
    )
    for name in names:
        page.goto((whole / f"{name}.html").as_uri() + ("?q=memory" if name == "search" else ""))
        if name == "notebooks/01-model-zoo":
            page.locator(".ck-live .vega-embed svg").wait_for()
        barriers = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in barriers] == [], name


SAID, TITLE = ".ck-live .ck-headline", ".ck-live .vega-embed svg .role-title-text"
# A walk through the choices by keys alone: a choice, and which of its buttons; the chart at the end.
WALK = (
    ("model", 6),
    ("batch", 2),
    ("precision", 0),
    ("target_seconds", 2),
    ("optimiser", 1),
    ("recompute", 1),
    ("model", 3),
    ("precision", 2),
    ("batch", 0),
    ("target_seconds", 0),
)


def opened(page, few, query: str = "") -> None:
    """The page whose panel answers, with its chart drawn."""
    page.goto((few / "notebooks" / "01-model-zoo.html").as_uri() + query)
    page.locator(".ck-live .vega-embed svg").wait_for()


def go(page, choice: str, to: int) -> None:
    """Choose the button at a place of a group by arrow keys."""
    group = page.locator(f".ck-live [data-control={choice}] [role=radiogroup]")
    group.locator("[tabindex='0']").focus()
    page.keyboard.press("Home")
    for _ in range(to):
        page.keyboard.press("ArrowRight")


def says(page, panel) -> None:
    """The page's headline, facts and title of the chart are those of the package's own panel."""
    shown = panel.shown
    headline = shown["headline"].replace("**", "")
    page.wait_for_function("([at, said]) => document.querySelector(at).textContent === said", arg=[SAID, headline])
    assert page.locator(".ck-live .ck-facts li").all_text_contents() == shown["facts"]
    title = " ".join(page.locator(TITLE).first.text_content().split())
    assert title.replace(" ", "") == shown["signals"]["live_title"].replace(" ", "")


def code_of(page) -> str:
    return page.locator(".ck-live .ck-code").text_content()


def test_a_panel_answers_on_the_page_by_keys_and_says_what_the_package_says(page, few):
    opened(page, few)
    assert page.locator(".ck-card").first.is_visible() is False
    says(page, eval(code_of(page)))
    for choice, to in WALK:
        go(page, choice, to)
        says(page, eval(code_of(page)))
    page.locator(".ck-live .ck-views [aria-checked='true']").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => document.querySelector('{TITLE}')?.textContent.includes('takes')")
    memory = eval(code_of(page))
    memory.update(picture="memory")
    says(page, memory)
    page.get_by_role("button", name="Where do these numbers come from?").click()
    assert page.locator(".ck-live .ck-drawer a").count() > 3
    assert not page.outside and not page.problems


@pytest.mark.all
def test_the_panel_of_a_page_fits_a_phone_in_both_themes_and_follows_a_link(page, few):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, few)
    go(page, "model", 6)
    go(page, "batch", 3)
    before = code_of(page)
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    page.get_by_role("button", name="Copy link").click()
    link = page.evaluate("() => window.copied")
    page.set_viewport_size({"width": 320, "height": 900})
    page.goto("about:blank")
    opened(page, few, "?" + link.partition("?")[2])
    page.wait_for_function("said => document.querySelector('.ck-live .ck-code').textContent === said", arg=before)
    inks = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        if inks:
            page.wait_for_function(
                "([where, ink]) => getComputedStyle(document.querySelector(where + ' text')).fill !== ink",
                arg=[TITLE, inks[-1]],
            )
        assert page.evaluate(TOO_WIDE) == []
        barriers = Axe().run(page, context=".ck-live").response["violations"]
        assert [each["id"] for each in barriers] == []
        inks.append(page.locator(TITLE).first.locator("text").first.evaluate("text => getComputedStyle(text).fill"))
    assert len(set(inks)) == 2
    page.goto("about:blank")
    opened(page, few, "?panel=model_zoo&state=%7B%22model%22%3A%22unet%22%7D")
    page.wait_for_function("where => document.querySelector(where).textContent.includes('no model')", arg=SAID)
    page.get_by_role("button", name="Go on without the link").click()
    says(page, eval(code_of(page)))
    assert not page.problems


def contrast(*colours: str) -> float:
    """Ratio of luminances by WCAG 2, of two colours such as rgb(1, 2, 3)."""
    light = []
    for colour in colours:
        parts = [int(part) / 255 for part in colour.strip("rgb()").split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(light) / min(light)


OPENED = """() => {
  const kernel = window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.status === 'idle' && kernel.connectionStatus === 'connected' && document.querySelector('.jp-CodeCell');
}"""
RUN = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"
STOP = "() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
LOADED = 3500  # ms; a card gives a widget three seconds to load


CHART = """import cookbook as cb
import pandas as pd

parts = pd.DataFrame([["a", "compute", 2.0, "2 s"]], columns=["row", "part", "value", "text"])
cb.charts.LiveChart(cb.charts.step_parts(parts), parts)"""


@pytest.mark.all
@pytest.mark.parametrize(
    "source",
    [
        "import cookbook as cb\n\ncb.panels.assembly_line()",
        pytest.param(CHART, marks=pytest.mark.all),
    ],
    ids=["panel", "chart"],
)
def test_what_is_saved_shows_its_card_and_no_error_when_it_is_opened_again(source, page, lab, notebooks):
    path = notebooks / "saved.ipynb"
    code, live = new_code_cell(source), ".cookbook-panel, .cookbook-chart"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Saved"), code], metadata=kernel), path)
    for again in ("", "opened again", "of another hand"):
        if again == "of another hand":  # what is changed outside is not trusted, and loses styles and widgets
            kept = nbformat.read(path, as_version=4)
            kept.cells[0].source = "# Another"
            nbformat.write(kept, path)
        page.goto(f"{lab}/lab/workspaces/saved-{time.time_ns()}/tree/{path.name}?reset")
        page.wait_for_function(OPENED)
        if not again:
            page.evaluate(RUN)
        page.locator(".ck-card" if again else ".vega-embed svg").first.wait_for()
        page.wait_for_timeout(LOADED)
        assert page.locator(".ck-card").is_visible() is bool(again)
        assert page.locator(live).count() == (not again)
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"saved {again}.png")
        for said in ("Error displaying widget", "Loading widget"):
            assert not any(each.is_visible() for each in page.get_by_text(said).all()), said
        page.evaluate(SAVE)
        page.evaluate(STOP)
    views = [set(output.data) for output in nbformat.read(path, as_version=4).cells[-1].outputs]
    assert views == [{"application/vnd.jupyter.widget-view+json"}, {"text/plain", "text/html"}]
