"""Combo boxes with real key strokes: searches, second searches, Escape, Tab, and names that nothing bears."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

import cookbook as cb

from .test_recipes import FIRST_CHART, READY, RUN_ALL, settle

pytestmark = [pytest.mark.browser, pytest.mark.all]

SELECTED = """input => [input.value, input.value.slice(input.selectionStart, input.selectionEnd)]"""
FIRST = "list => [...list.querySelectorAll('[role=option]')].slice(0, 3).map(x => x.textContent)"


class Box:
    """One combo box of a panel, and what a reader sees of it."""

    def __init__(self, page: Any, control: str) -> None:
        self.page, self.panel = page, page.locator(".cookbook-panel").first
        self.field = self.panel.locator(f"[data-control={control}]")
        self.input = self.field.locator("[role=combobox]")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.wait()

    def type(self, text: str) -> None:
        self.page.keyboard.type(text, delay=8)

    def wait(self) -> None:
        settle(self.page, self.panel)
        self.page.wait_for_timeout(150)
        settle(self.page, self.panel)

    def text(self) -> str:
        return str(self.input.input_value())

    def all_selected(self) -> bool:
        value, selected = self.input.evaluate(SELECTED)
        return bool(value == selected)

    def listed(self) -> list[str]:
        return list(self.field.locator("[role=listbox]").evaluate(FIRST))

    def tags(self) -> list[str]:
        return list(self.field.locator(".ck-tag span:first-child").all_inner_texts())

    def said(self) -> str:
        return str(self.panel.locator(".ck-say").inner_text())


def opened(page: Any, lab: str, notebooks: Path, recipe: str, control: str) -> Box:
    """A box of a panel that stands alone in a notebook."""
    cell = nbformat.v4.new_code_cell(f"import cookbook as cb\ncb.panels.{recipe}()")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), notebooks / f"{recipe}.ipynb")
    page.goto(f"{lab}/lab/workspaces/combos-{time.time_ns()}/tree/{recipe}.ipynb?reset")
    page.wait_for_function(READY)
    page.wait_for_timeout(500)
    page.evaluate(RUN_ALL)
    page.wait_for_function(FIRST_CHART, polling=20)
    box = Box(page, control)
    box.wait()
    return box


@pytest.fixture
def models(lab: str, notebooks: Path, page: Any) -> Box:
    """Where recipe 01 asks for a network."""
    return opened(page, lab, notebooks, "model_zoo", "model")


def test_search_after_search(models: Box) -> None:
    """A click selects what stands there, so that typing replaces it: after Enter, after Escape and after Tab."""
    box = models
    box.input.click()
    assert box.all_selected()
    box.type("llama 3 8b")
    box.press("Enter")
    assert box.text() == "Llama 3 8B" and box.said().startswith("Llama 3 8B") and box.all_selected()
    box.input.click()
    assert box.all_selected()
    box.type("vit-l")
    assert "ViT-L" in box.listed()[0]
    box.press("Enter")
    assert "ViT-L" in box.text() and box.said().startswith(box.text())
    before = box.text()
    box.type("resnet")  # still in the box: what stands there is selected
    assert box.text() == "resnet"
    box.press("Escape")
    assert box.text() == before and box.all_selected() and box.said().startswith(before)
    box.type("vgg-1")
    box.press("ArrowDown", "Enter")  # the first entry, which was marked
    assert "VGG-1" in box.text() and box.said().startswith(box.text())
    before = box.text()
    box.input.click()
    box.type("densen")
    box.press("Tab")
    assert box.text() == before and box.said().startswith(before), "a search that was left changes nothing"
    box.press("Shift+Tab")
    assert box.all_selected()
    box.type("resnet-50")
    box.press("Tab")
    assert box.text() == "ResNet-50 (v1)" and box.said().startswith("ResNet-50 (v1)"), "a full name is taken"
    assert box.page.problems == [] and box.page.outside == []


def test_spellings_vendors_and_groups(models: Box) -> None:
    box = models
    for typed, first in (
        ("resnet-50", "ResNet-50 (v1)"),
        ("ResNet 50 v1.5", "ResNet-50 v1.5"),
        ("rn50", "ResNet-50 v1.5"),
        ("resnet", "ResNet-50"),
        ("llama3-8b", "Llama 3 8B"),
        ("llama 3 8b", "Llama 3 8B"),
        ("llama-3-8b", "Llama 3 8B"),
        ("bert large", "BERT"),
        ("vision transformer", "ViT"),
    ):
        box.input.click()
        box.type(typed)
        assert box.listed()[0].startswith(first), (typed, box.listed())
        box.press("Escape")
    devices = Box(box.page, "accelerators")
    for typed, vendor in (("nvidia", "NVIDIA"), ("amd", "AMD"), ("google", "Google")):
        devices.input.click()
        devices.type(typed)
        found = devices.listed()
        assert len(found) == 3 and all(text.endswith(vendor) for text in found), (typed, found)
        devices.press("Escape")
    for typed, first in (("rtx4090", "GeForce RTX 4090"), ("h100", "H100 SXM5 80GB"), ("a100 pcie", "A100 PCIe")):
        devices.input.click()
        devices.type(typed)
        assert devices.listed()[0].startswith(first), (typed, devices.listed())
        devices.press("Escape")
    assert devices.text() == ""


def test_the_whole_list_is_grouped_and_nothing_clips_it(models: Box) -> None:
    box = models
    box.input.click()
    heads = box.field.locator("[role=listbox] .ck-more-options").all_inner_texts()
    assert len(heads) > 5 and len(set(heads)) == len(heads) and "transformer" in heads
    box.page.set_viewport_size({"width": 700, "height": 420})
    box.page.wait_for_timeout(300)
    inside = """list => { const box = list.getBoundingClientRect(), at = list.matches(':popover-open');
      return at && box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth; }"""
    box.type("vit-l")
    assert box.field.locator("[role=listbox]").evaluate(inside)
    box.press("Enter")
    assert "ViT-L" in box.text()


def test_several_devices_one_after_the_other(models: Box) -> None:
    box = Box(models.page, "accelerators")
    before = box.tags()
    box.input.click()
    for typed, name in (("t4", "Tesla T4"), ("a100 40", "A100")):
        box.type(typed)
        box.press("Enter")
        assert box.text() == "" and box.tags()[-1].startswith(name)
    assert len(box.tags()) == len(before) + 2
    box.press("Escape", "Backspace", "Backspace")
    assert box.tags() == before
    for typed, more in (("v100", 1), ("v100", 1), ("a100 sxm4 4", 2), ("a100 sxm4 4", 2)):
        box.input.click()
        box.type(typed)
        box.press("Enter")
        assert box.tags()[: len(before)] == before and len(box.tags()) == len(before) + more, typed
    box.press("ArrowUp", "ArrowDown", "Enter")
    assert len(box.tags()) == len(before) + 1, "what an arrow key went to is taken away"


def test_a_name_that_nothing_bears(models: Box) -> None:
    """It is refused with the nearest names, the picture stays, and the next search mends it."""
    box = models
    code = box.panel.locator(".ck-code").inner_text()
    for leave in ("Enter", "Tab"):
        box.input.click()
        box.type("resnext5O_32x4d!")
        box.press(leave)
        assert "No model called 'resnext5O_32x4d!'; nearest names: " in box.said()
        assert box.panel.locator(".ck-code").inner_text() == code and box.text() == "resnext5O_32x4d!"
        assert "ck-dim" in str(box.panel.get_attribute("class")) and not box.panel.locator(".ck-chip").count()
    box.input.click()
    assert box.all_selected()
    box.type("alexnet")
    box.press("Enter")
    assert box.said().startswith("AlexNet") and box.panel.locator(".ck-chip").count()


def test_storage_by_its_kind(lab: str, notebooks: Path, page: Any) -> None:
    box = opened(page, lab, notebooks, "storage", "storage")
    for typed, words in (("nas", "NAS"), ("nfs", "NFS server")):
        box.input.click()
        box.type(typed)
        assert words in box.listed()[0], (typed, box.listed())
        box.press("Enter")
        assert not box.panel.locator(".ck-error").count(), box.said()
    assert "NFS" in box.text() and "NFS" in box.said()


def test_a_network_from_a_file(models: Box, tmp_path: Path) -> None:
    """A configuration is chosen as a file, stands in the box to be read, and counts only when it is taken."""
    known = {
        "model_type": "llama",
        "vocab_size": 32000,
        "hidden_size": 2048,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "intermediate_size": 5632,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(known), encoding="utf-8")
    box = models
    before = box.said()
    box.input.click()
    box.type("custom")
    box.press("Enter")
    pick = box.field.locator("button", has_text="From a file")
    with box.page.expect_file_chooser() as chooser:
        pick.focus()
        box.page.keyboard.press("Enter")
    chooser.value.set_files(tmp_path / "config.json")
    area = box.field.locator("textarea").element_handle()
    box.page.wait_for_function("area => area.value.includes('llama')", arg=area)
    box.wait()
    assert box.said() == before
    box.press("Enter")  # on "Use this", where the focus went
    assert box.said().startswith("llama needs")


@pytest.mark.all
def test_a_trace_of_ones_own_from_a_packed_file(lab: str, notebooks: Path, page: Any) -> None:
    """A trace too long for a form is named there, unpacked in the page, and diagnosed when it is taken."""
    box = opened(page, lab, notebooks, "clinic", "patient")
    box.input.click()
    box.type("custom")
    box.press("Enter")
    with page.expect_file_chooser() as chooser:
        box.field.locator("button", has_text="From a file").click()
    chooser.value.set_files(cb.measure.patient("boris")[0])
    area = box.field.locator("textarea")
    page.wait_for_function("area => area.value.includes('boris.json.gz')", arg=area.element_handle())
    assert len(area.input_value()) < 100
    box.field.get_by_role("button", name="Use this").click()
    box.wait()
    assert box.said().startswith("Waiting for input holds the step back") and box.text() == "your file"
    assert page.problems == []
