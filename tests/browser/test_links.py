"""A link carries the state of a panel: copied in one tab, opened in another in a fresh kernel; a wrong one is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlparse

import nbformat
import pytest

from .test_combos import Box, opened
from .test_recipes import FIRST_CHART, READY, RUN_ALL, settle

pytestmark = [pytest.mark.browser, pytest.mark.all]

COPIED = "() => navigator.clipboard.readText()"


def stop_kernels(page: Any) -> None:
    """Shut down every session, so that what is opened next starts a kernel of its own."""
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")


def visit(page: Any, address: str) -> Any:
    """Open an address as a reader does, run all cells and wait for the panel."""
    page.goto(address)
    page.wait_for_function(READY)
    page.evaluate(RUN_ALL)
    page.wait_for_function(FIRST_CHART, polling=20)
    panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .cookbook-panel").first
    settle(page, panel)
    page.wait_for_timeout(300)
    settle(page, panel)
    return panel


def told(panel: Any) -> tuple[str, str]:
    return panel.locator(".ck-say").inner_text(), panel.locator(".ck-code").inner_text()


@pytest.fixture
def tuning(lab: str, notebooks: Path, page: Any) -> Box:
    return opened(page, lab, notebooks, "finetuning", "accelerator")


def copied(box: Box) -> str:
    """The address that "Copy link" puts on the clipboard, by keyboard."""
    box.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = box.panel.get_by_role("button", name="Copy link")
    button.focus()
    box.page.keyboard.press("Enter")
    box.panel.get_by_role("button", name="Copied").wait_for()
    return str(box.page.evaluate(COPIED))


def test_a_link_opens_the_state_in_a_fresh_kernel(tuning: Box, browser: Any, patience: float) -> None:
    """In a browser that was never here, and in two tabs of the same one: the second finds its workspace taken."""
    tuning.input.click()
    tuning.type("a100 40")
    tuning.press("Enter")
    tuning.panel.locator("[data-control=method] [data-value=qlora]").click()
    tuning.wait()
    before, address = told(tuning.panel), copied(tuning)
    parts = urlparse(address)
    assert parts.path == "/lab/tree/finetuning.ipynb", "a link is of no workspace"
    assert parse_qs(parts.query)["panel"] == ["finetuning"] and "a100" in parts.query
    stop_kernels(tuning.page)
    fresh = browser.new_context()
    for context in (fresh, tuning.page.context, tuning.page.context):
        other = context.new_page()
        other.set_default_timeout(patience)
        other.patience = patience / 3
        assert told(visit(other, address)) == before
        stop_kernels(other)
    fresh.close()


def test_a_link_that_asks_for_what_is_not_there_says_so(tuning: Box, lab: str, page: Any) -> None:
    stop_kernels(page)
    state = quote(json.dumps({"method": "__import__('os').system('true')"}))
    panel = visit(page, f"{lab}/lab/tree/finetuning.ipynb?panel=finetuning&state={state}")
    said = panel.locator(".ck-headline").inner_text()
    assert said.startswith("The link cannot be used: Method = ") and "full, lora, qlora" in said
    panel.get_by_role("button", name="Go on without the link").click()
    settle(page, panel)
    assert panel.locator(".ck-headline").inner_text().startswith("Llama 3 8B with LoRA") and page.problems == []


def test_a_link_to_the_third_panel_of_a_kind_opens_the_third(lab: str, notebooks: Path, page: Any) -> None:
    """Recipe 01 has several panels of one kind; the link of one must not change another."""
    methods = ("lora", "full", "qlora")
    code = ["import cookbook as cb", *(f"cb.panels.finetuning(method={method!r})" for method in methods)]
    cells = [nbformat.v4.new_code_cell(text, id=f"cell-{at}") for at, text in enumerate(code)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), notebooks / "three.ipynb")
    state = quote(json.dumps({"method": "lora", "rank": 64}))
    visit(page, f"{lab}/lab/workspaces/third/tree/three.ipynb?reset&panel=finetuning&state={state}&cell=cell-3")
    panels = page.locator(".cookbook-panel")
    panels.nth(2).locator(".ck-code", has_text="rank=64").wait_for(state="attached")
    codes = panels.locator(".ck-code").all_text_contents()
    assert [("rank=64" in told, told.split("\n")[0]) for told in codes] == [
        (False, "cb.panels.finetuning()"),
        (False, 'cb.panels.finetuning(method="full")'),
        (True, "cb.panels.finetuning(rank=64)"),
    ]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panels.nth(2).get_by_role("button", name="Copy link").click()
    panels.nth(2).get_by_role("button", name="Copied").wait_for()
    assert parse_qs(urlparse(page.evaluate(COPIED)).query)["cell"] == ["cell-3"] and page.problems == []


def test_a_link_whose_cell_is_gone_says_so_and_opens_elsewhere(lab: str, notebooks: Path, page: Any) -> None:
    """One panel of two speaks, the one of the link's kind, and takes the state when asked to."""
    code = ["import cookbook as cb", "cb.panels.assembly_line()", "cb.panels.finetuning()"]
    cells = [nbformat.v4.new_code_cell(text, id=f"cell-{at}") for at, text in enumerate(code)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), notebooks / "gone.ipynb")
    state = quote(json.dumps({"method": "lora", "rank": 64}))
    visit(page, f"{lab}/lab/workspaces/gone/tree/gone.ipynb?reset&panel=finetuning&state={state}&cell=cell-9")
    told = page.locator(".ck-astray")
    told.wait_for()
    assert told.count() == 1 and "run all cells; if its cell is gone, open its state in this one." in told.inner_text()
    tuned = page.locator(".cookbook-panel", has=told)
    assert "rank=64" not in tuned.locator(".ck-code").text_content()
    told.get_by_role("button", name="Open it in this panel").click()
    tuned = page.locator(".cookbook-panel", has_text="Llama 3 8B with LoRA")
    tuned.locator(".ck-code", has_text="rank=64").wait_for(state="attached")
    assert told.count() == 0 and page.problems == []
