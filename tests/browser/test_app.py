"""The app in a real browser: from the first page to an answer by keyboard, a link of a state, a process that stops."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_app import running

from .test_site import TOO_WIDE

pytestmark = pytest.mark.browser

DRAWN = ".cookbook-panel .ck-figure svg, .cookbook-panel .ck-figure canvas"
SETTLED = "() => document.querySelector('.cookbook-panel')?.dataset.settled === 'true'"
CHANGED = "before => document.querySelector('.ck-code').textContent !== before"
KERNEL = "() => JSON.parse(document.getElementById('jupyter-config-data').textContent).kernelId"


@pytest.fixture(scope="module")
def app() -> Iterator[str]:
    """Address of an app with one spare process."""
    with running("--spare", "1") as (host, _):
        yield f"http://{host}/"


def panel_of(page: Any, address: str) -> Any:
    """The panel at an address, once it is drawn."""
    page.goto(address)
    page.locator(DRAWN).first.wait_for()
    return page.locator(".cookbook-panel")


def process_of(page: Any) -> int:
    """The process behind a page."""
    command = ["pgrep", "-f", f"kernel-{page.evaluate(KERNEL)}"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])


def test_from_a_decision_to_an_answer_with_nothing_from_elsewhere(app: str, page: Any) -> None:
    page.goto(app)
    for width in (1300, 400, 320):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(TOO_WIDE) == [], f"the first page scrolls sideways at {width} px"
    page.set_viewport_size({"width": 1300, "height": 900})
    page.locator("#decisions a", has_text="Who waits in a pipeline?").click()
    page.locator(DRAWN).first.wait_for()
    panel = page.locator(".cookbook-panel")
    before = panel.locator(".ck-code").inner_text()
    assert before.startswith("cb.panels.assembly_line()")
    panel.locator("[data-control=stages] input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(CHANGED, arg=before)
    page.wait_for_function(SETTLED)
    assert panel.locator(".ck-code").inner_text().startswith("cb.panels.assembly_line(stages=")
    assert not page.outside and not page.problems
    process = process_of(page)
    page.get_by_role("link", name="All questions").click()
    page.get_by_role("heading", name="What must you decide?").wait_for()
    end = time.monotonic() + page.patience / 1000
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < end, "a page that was left keeps its process"
        time.sleep(0.1)


@pytest.mark.all
def test_a_link_opens_the_state_for_somebody_else(app: str, page: Any, browser: Any, patience: float) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel = panel_of(page, f"{app}?panel=finetuning&token=not-for-others")
    before = panel.locator(".ck-code").inner_text()
    panel.locator("[data-control=method] [data-value=qlora]").click()
    page.wait_for_function(CHANGED, arg=before)
    page.wait_for_function(SETTLED)
    panel.get_by_role("button", name="Copy link").click()
    panel.get_by_role("button", name="Copied").wait_for()
    link, told = page.evaluate("() => navigator.clipboard.readText()"), panel.locator(".ck-code").inner_text()
    assert link == f"{app}?panel=finetuning&state=%7B%22method%22%3A%22qlora%22%7D"
    context = browser.new_context()
    other = context.new_page()
    other.set_default_timeout(patience)
    opened = panel_of(other, link)
    opened.locator(".ck-code", has_text='method="qlora"').wait_for()
    assert opened.locator(".ck-code").inner_text() == told
    context.close()


@pytest.mark.all
def test_a_process_that_stops_is_told(app: str, page: Any) -> None:
    panel = panel_of(page, f"{app}?panel=assembly_line")
    os.kill(process_of(page), signal.SIGKILL)
    panel.locator(".ck-say", has_text="The process of this page has stopped").wait_for()
    assert "reload the page" in panel.locator(".ck-say").inner_text()
    page.reload()
    page.locator(DRAWN).first.wait_for()
    assert "stopped" not in panel.locator(".ck-say").inner_text() and not page.outside


GONE = """id => fetch(`/api/kernels/${id}`, {
  method: "DELETE", headers: {"X-XSRFToken": document.cookie.match(/_xsrf=([^;]+)/)[1]},
}).then((answer) => answer.status)"""


@pytest.mark.all
@pytest.mark.parametrize("way", ["the process alone", "the whole app"])
def test_a_page_whose_process_was_ended_takes_no_input_in_vain(way: str, page: Any) -> None:
    """As the app ends a process that nobody was connected to for long, and as a restart ends all of them."""
    with running("--spare", "1") as (host, server):
        panel = panel_of(page, f"http://{host}/?panel=assembly_line")
        if way == "the process alone":
            assert page.evaluate(GONE, page.evaluate(KERNEL)) == 204
        else:
            server.terminate()
            server.wait()
        panel.locator("[data-control=stages] input[type=range]").focus()
        page.keyboard.press("ArrowRight")
        panel.locator(".ck-say", has_text="The process of this page has stopped").wait_for()
        assert panel.locator("fieldset").first.is_disabled() and panel.get_attribute("aria-busy") == "false"
        assert "reload the page" in panel.locator(".ck-say").inner_text()
