"""The next stop of a slider, and the one before, show while the kernel has not answered yet."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from .test_combos import opened

pytestmark = [pytest.mark.browser, pytest.mark.all]

PROCESS = """async () => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const asked = kernel.requestExecute({ code: 'import os; print(os.getpid())', store_history: false, silent: false });
  let said = '';
  asked.onIOPub = (msg) => { said += msg.content.text ?? ''; };
  await asked.done;
  return Number(said);
}"""
# Counts what the kernel draws ahead.
LISTEN = """() => {
  window.ahead = 0;
  window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.anyMessage.connect((_, { msg, direction }) => {
    if (direction === 'recv' && msg.content.data?.state?.coming) window.ahead += 1;
  });
}"""
SAYS = "panel => panel.querySelector('.ck-headline').textContent + panel.querySelector('.ck-code').textContent"
SETTLED = f"([panel, first, same]) => (({SAYS})(panel) === first) === same && panel.dataset.settled === 'true'"
DRAWN = "panel => panel.querySelector('.ck-figure').innerHTML"


def test_a_slider_moves_on_while_the_kernel_is_busy(lab: str, notebooks: Path, page: Any) -> None:
    box = opened(page, lab, notebooks, "model_zoo", "batch")
    panel, slider = box.panel, box.field.locator("input[type=range]")
    page.evaluate(LISTEN)
    kernel = page.evaluate(PROCESS)
    slider.focus()
    box.press("Home", "ArrowRight")
    page.wait_for_function("window.ahead > 0")
    first = panel.evaluate(SAYS)
    os.kill(kernel, signal.SIGSTOP)
    try:
        page.keyboard.press("ArrowRight")
        page.wait_for_function(SETTLED, arg=[panel.element_handle(), first, False])
        ahead, picture = panel.evaluate(SAYS), panel.evaluate(DRAWN)
    finally:
        os.kill(kernel, signal.SIGCONT)
    box.wait()
    assert (panel.evaluate(SAYS), panel.evaluate(DRAWN)) == (ahead, picture), "the kernel answers something else"
    os.kill(kernel, signal.SIGSTOP)
    try:
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(SETTLED, arg=[panel.element_handle(), first, True])
    finally:
        os.kill(kernel, signal.SIGCONT)
    box.wait()
    assert panel.evaluate(SAYS) == first and page.problems == []
