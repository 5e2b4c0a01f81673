"""The decision record in a browser: filled by the panel, by keyboard, saved as files that open without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from .test_links import visit
from .test_recipes import settle

pytestmark = [pytest.mark.browser, pytest.mark.all]

HOSTILE = "Buy it. <img src=x onerror=alert(1)><script>document.title='taken'</script>"
CELLS = (
    "import cookbook as cb\npanel = cb.panels.finetuning()\npanel",
    'cb.panels.record(panel, "Which GPU?", {"Choice": "LoRA"})',
)


def test_a_record_by_keyboard(lab: str, notebooks: Path, page: Any, tmp_path: Path) -> None:
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), notebooks / "record.ipynb")
    panel = visit(page, f"{lab}/lab/workspaces/record/tree/record.ipynb?reset")
    form = page.locator(".cookbook-record")
    form.wait_for()
    assert form.locator("input").first.input_value() == "Which GPU?" and "GeForce RTX 4090" in form.inner_text()
    names = page.locator("[id^=ck-]").evaluate_all("found => found.map(each => each.id)")
    assert len(names) > 10 and len(set(names)) == len(names), "two controls of a notebook have one name"
    form.locator("summary").click()
    assert "2,048 tokens" in form.inner_text()
    panel.get_by_role("radio", name="QLoRA").click()
    settle(page, panel)
    headline = panel.locator(".ck-headline").inner_text()
    assert "QLoRA" in headline and headline in form.inner_text(), "the record does not follow"
    form.locator("textarea").focus()
    page.keyboard.type(HOSTILE)
    names = {}
    for _ in range(6):
        page.keyboard.press("Tab")
        text = page.evaluate("() => document.activeElement.textContent")
        if text.startswith("Save as"):
            with page.expect_download() as waiting:
                page.keyboard.press("Enter")
            names[waiting.value.suggested_filename] = tmp_path / waiting.value.suggested_filename
            waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
    assert list(names) == ["decision-finetuning.md", "decision-finetuning.html"], "not reached by Tab"
    assert form.locator("[role=status]").inner_text() == "Saved as decision-finetuning.html."
    assert "\\<img src=x" in names["decision-finetuning.md"].read_text() and page.problems == []
    context = page.context.browser.new_context(offline=True)
    saved, asked = context.new_page(), list[str]()
    saved.on("request", lambda request: asked.append(request.url))
    saved.goto(names["decision-finetuning.html"].as_uri())
    assert HOSTILE in saved.locator("body").inner_text() and saved.title() == "Which GPU?"
    assert headline in saved.locator("body").inner_text() and not saved.locator("img, script").count()
    assert len(asked) == 1, "the page asks for more than itself"
    context.close()


def test_a_report_has_the_chart_of_the_decision(lab: str, notebooks: Path, page: Any, tmp_path: Path) -> None:
    """Saved while another tab is open; the page asks for nothing and its button works under its own policy."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    source = (
        'import cookbook as cb\npanel = cb.panels.training_run("gpt2", 1, devices=8)\npanel',
        'cb.panels.record(panel, "Which run?")',
    )
    cells = [nbformat.v4.new_code_cell(each) for each in source]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), notebooks / "report.ipynb")
    panel = visit(page, f"{lab}/lab/workspaces/report/tree/report.ipynb?reset")
    form = page.locator(".cookbook-record")
    form.wait_for()
    title = panel.locator("[role=figure] .ck-words").inner_text().partition(". ")[0]
    panel.get_by_role("radio", name="Memory").click()
    settle(page, panel)
    with page.expect_download() as waiting:
        form.get_by_role("button", name="Report with chart and table").click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    context = page.context.browser.new_context(offline=True)
    saved, problems = context.new_page(), list[str]()
    saved.on("console", lambda message: problems.append(message.text))
    saved.goto(path.as_uri())
    image = saved.locator("img")
    assert image.evaluate("image => image.naturalWidth") > 1000
    assert "days" in image.get_attribute("alt") and image.get_attribute("alt").split(";")[0] in title
    assert page.locator(".ck-figure").count() == 1 and page.problems == [], "the sheet it was drawn on is left"
    saved.evaluate("window.print = () => { document.title = 'printed'; }")
    saved.get_by_role("button", name="Print or save as PDF").click()
    assert saved.title() == "printed" and problems == []
    image.screenshot(path=str(tmp_path / "chart.png"))
    context.close()
