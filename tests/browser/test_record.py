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
CELLS = ("import cookbook as cb\npanel = cb.panels.finetuning()\npanel",
         'cb.panels.record(panel, "Which GPU?", {"Choice": "LoRA"})')  # fmt: skip


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
