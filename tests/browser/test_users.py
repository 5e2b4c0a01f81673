"""Ten users with a task in their own words, each at a screen, a tablet and a phone: the answer, in at most eight steps.

A step is a click or a key other than the letters of a search or number; a number counts once its box is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest

from .test_links import copied, told, visit
from .test_recipes import NARROW, settle
from .test_tasks import Reader

pytestmark = [pytest.mark.browser, pytest.mark.all]

MOST_STEPS = 8
SIZES = {"screen": (1300, 1000), "tablet": (800, 1000), "phone": (400, 850)}
CONFIGURATION = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
TRACE = Path(__file__).parents[1] / "topics" / "clinic" / "patients"


class User(Reader):
    """A reader who leaves a number box by the next click."""

    def write(self, control: str, typed: str) -> None:
        """Click on the number of a slider and write another."""
        box = self.of(control).locator(".ck-number")
        self.click(box)
        box.select_text()
        self.type(typed)

    def pick(self, control: str, value: str) -> None:
        self.click(self.of(control).locator(f"[data-value='{value}']"))

    def leave(self) -> None:
        self.strike("Tab")

    def tool(self, name: str) -> None:
        self.click(self.panel.get_by_role("button", name=name))

    def reads(self, *words: str) -> str:
        """Return the answer, which contains these words, no error, and took few steps."""
        self.wait()
        said, drawn = self.said(), self.panel.locator(".ck-figure").text_content() or ""
        assert self.panel.locator(".ck-error").count() == 0, said
        assert all(word in said + drawn for word in words), (words, said, drawn[:400])
        assert self.moves <= MOST_STEPS, f"{self.moves} steps"
        assert self.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth + 1"), "scrolls sideways"
        return said


@pytest.fixture(params=SIZES.values(), ids=SIZES)
def open_panel(lab: str, notebooks: Path, page: Any, request: Any) -> Callable[..., User]:
    """Return what opens cells of a reader's notebook at one size."""
    width, height = request.param

    def opened(*cells: str) -> User:
        page.set_viewport_size({"width": width, "height": height})
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        code = [
            nbformat.v4.new_code_cell(f"import cookbook as cb\n{cells[0]}"),
            *map(nbformat.v4.new_code_cell, cells[1:]),
        ]
        name = f"user-{width}-{request.node.originalname}.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=code, metadata=kernel), notebooks / name)
        visit(page, f"{lab}/lab/workspaces/user-{width}/tree/{name}?reset")
        page.evaluate(NARROW)
        user = User(page)
        user.wait()
        return user

    return opened


def test_64_h100_for_a_trillion_tokens_in_30_days_and_a_report(open_panel: Any, tmp_path: Path) -> None:
    user = open_panel('panel = cb.panels.training_run("llama3_70b")\npanel', 'cb.panels.record(panel, "In 30 days?")')
    user.choose("model", "llama 3 8b")
    user.write("tokens", "1000")
    user.write("devices", "64")
    user.leave()
    said = user.reads("Llama 3 8B", "64 × H100", "meet the 30-day deadline with", "1 trillion tokens")
    form = user.page.locator(".cookbook-record")
    with user.page.expect_download() as waiting:
        user.click(form.get_by_role("button", name="Report with chart and table"))
    waiting.value.save_as(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "In 30 days?" in page and said.split(".")[0].split(" train ")[0] in page and user.moves <= MOST_STEPS


def test_the_cheapest_gpu_for_a_32b_model_in_4_bits_and_200_at_once(open_panel: Any) -> None:
    user = open_panel('cb.panels.serving(picture="costs")')
    user.choose("model", "qwen2.5-32b")
    user.write("users", "200")
    user.more()
    user.write("think", "0")
    user.pick("precision", "int4")
    user.reads("Qwen2.5 32B", "200", "per hour", "per million output tokens")


def test_a_configuration_of_ones_own(open_panel: Any) -> None:
    user = open_panel("cb.panels.serving()")
    user.choose("model", "custom")
    area = user.of("model").locator("textarea")
    area.fill(json.dumps(CONFIGURATION))
    user.click(user.of("model").get_by_role("button", name="Use this"))
    user.reads("H100", "per million output tokens")


def test_8_a100_with_two_sata_drives(open_panel: Any) -> None:
    user = open_panel("cb.panels.storage()")
    user.choose("system", "a100 40")
    user.choose("storage", "sata")
    user.more()
    user.write("drives", "2")
    user.leave()
    user.reads("8 × A100", "2 ×", "utilisation")


def test_qlora_on_a_4090_and_on_16_gb(open_panel: Any) -> None:
    user = open_panel("cb.panels.finetuning()")
    user.pick("method", "qlora")
    user.reads("QLoRA", "RTX 4090", "of 24 GiB")
    user.choose("accelerator", "4060 ti")
    user.reads("RTX 4060 Ti", "of 16 GiB")


def test_four_accelerators_of_which_one_lacks_the_memory(open_panel: Any) -> None:
    user = open_panel('cb.panels.accelerators("llama3_8b", batch=1, software="")')
    user.choose("model", "llama 3 70b")
    user.of("accelerators").get_by_role("button", name="Remove all").click()
    user.moves += 1
    user.click(user.of("accelerators").locator("[role=combobox]"))
    for name in ("mi300x", "h200 sxm", "b200", "gaudi3"):
        user.type(name)
        user.strike("Enter")
    said = user.reads("Memory: it does not fit Gaudi3.")
    assert "Gaudi3" not in said.split(".")[0]


@pytest.mark.parametrize("panel", ["training_run", "serving", "where_to_run", "stack"])
def test_a_price_of_ones_own(open_panel: Any, panel: str) -> None:
    user = open_panel(f"cb.panels.{panel}()")
    before = user.said()
    user.more()
    user.write("hourly", "1.99")
    user.leave()
    assert "your price" in user.reads("your price") and before != user.said()


def test_a_teacher_hands_on_a_state(open_panel: Any, browser: Any, patience: float) -> None:
    user = open_panel("cb.panels.serving()")
    user.choose("accelerator", "mi300x")
    state, address = told(user.panel), copied(user)
    user.moves += 1
    user.reads("MI300X")
    context = browser.new_context()
    other = context.new_page()
    other.set_default_timeout(patience)
    other.patience = patience / 3
    # On a server of their own, the reader finds no other notebook open.
    panel = visit(other, address.replace("/lab/tree/", "/lab/workspaces/another-reader/tree/") + "&reset")
    settle(other, panel)
    assert told(panel) == state
    context.close()


def test_a_trace_of_ones_own(open_panel: Any) -> None:
    user = open_panel("cb.panels.clinic()")
    before = user.said()
    user.choose("patient", "custom")
    with user.page.expect_file_chooser() as waiting:
        user.click(user.of("patient").get_by_role("button", name="From a file"))
    waiting.value.set_files(next(TRACE.glob("**/*.json*")))
    user.wait()
    use = user.of("patient").get_by_role("button", name="Use this")
    if use.count() and use.is_visible():
        user.click(use)
    assert user.reads("Step:") != before


def test_what_was_measured_of_a_network_over_the_years_as_a_table(open_panel: Any, tmp_path: Path) -> None:
    user = open_panel("cb.panels.measurements()")
    user.choose("networks", "resnet-50")
    user.click(user.of("accelerators").locator("[role=combobox]"))
    for name in ("v100 sxm2 16", "v100 sxm2 32", "v100 sxm3"):
        user.type(name)
        user.strike("Enter")
    user.reads("measurements", "V100")
    with user.page.expect_download() as waiting:
        user.tool("CSV")
    waiting.value.save_as(tmp_path / "rows.csv")
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert len(rows) > 10 and rows["accelerator"].str.contains("v100").all()
    assert rows["accelerator"].nunique() > 1 and rows["year"].nunique() > 1 and user.moves <= MOST_STEPS
