"""Ten tasks of a new reader, each done in the panel of its recipe by clicks and key strokes, which are counted."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from .test_combos import Box
from .test_links import copied, stop_kernels, told, visit
from .test_recipes import settle, unfold

pytestmark = [pytest.mark.browser, pytest.mark.all]

DONE: dict[str, tuple[int, int, str]] = {}  # task -> clicks and keys other than letters, letters typed, headline


class Reader(Box):
    """A reader at a panel; each click, each key and each text counts."""

    def __init__(self, page: Any) -> None:
        super().__init__(page, "")
        self.moves = self.letters = 0

    def choose(self, control: str, typed: str, *keys: str) -> None:
        """Click into a box, type a search, and take what stands first."""
        self.click(self.of(control).locator("[role=combobox]"))
        self.type(typed)
        self.letters += len(typed)
        self.strike(*(keys or ("Enter",)))

    def number(self, control: str, typed: str) -> None:
        """Click on the number beside a slider, write another, Enter."""
        box = self.of(control).locator(".ck-number")
        self.click(box)
        box.select_text()
        self.type(typed)
        self.letters += len(typed)
        self.strike("Enter")

    def click(self, what: Any) -> None:
        what.click()
        self.moves += 1
        self.wait()

    def strike(self, *keys: str) -> None:
        self.moves += len(keys)
        self.press(*keys)

    def of(self, control: str) -> Any:
        return self.panel.locator(f"[data-control={control}]")

    def more(self) -> None:
        """Open "More", where the panel hides what few ask for."""
        unfold(self.panel)
        self.moves += 1

    def answered(self, task: str, *words: str, refused: bool = False) -> str:
        """The answer, which holds these words; an error where the truthful answer is that there is none."""
        self.wait()
        assert self.panel.locator(".ck-error").count() == refused, self.said()
        headline, said = self.panel.locator(".ck-headline").inner_text(), self.said()
        DONE[task] = self.moves, self.letters, headline
        assert all(word in said for word in words), said
        return said


@pytest.fixture
def reader(lab: str, notebooks: Path, page: Any, request: Any) -> Reader:
    """At the panel of a recipe: run are imports, parameters, the cell of the panel, and cells that this one needs."""
    recipe, cell = request.param
    source = nbformat.read(next(notebooks.glob(f"{recipe}-*.ipynb")), 4)
    code = [each for each in source.cells if each.cell_type == "code"]
    panel = next(each for each in code if f"cb.panels.{cell}(" in each.source)
    first = [
        each
        for each in code[: code.index(panel)]
        if "import cookbook" in each.source
        or "parameters" in each.metadata.get("tags", [])
        or names(each, ast.Store) & names(panel, ast.Load)
    ]
    kept = [nbformat.v4.new_code_cell(each.source) for each in (*first, panel)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=kept, metadata=kernel), notebooks / f"task-{recipe}.ipynb")
    visit(page, f"{lab}/lab/workspaces/tasks-{recipe}/tree/task-{recipe}.ipynb?reset")
    return Reader(page)


def names(cell: Any, context: type[ast.expr_context]) -> set[str]:
    """Names that a cell sets, as variables or functions, or uses."""
    nodes = list(ast.walk(ast.parse(cell.source)))
    variables = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and context is ast.Store}
    return variables | functions


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    print("\n| task | clicks and keys | letters | headline |\n|---|---|---|---|")
    for task, (moves, letters, headline) in DONE.items():
        print(f"| {task} | {moves} | {letters} | {headline} |")


def at(recipe: str, panel: str) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("reader", [(recipe, panel)], indirect=True, ids=[panel])


@at("01", "finetuning")
def test_memory_to_fine_tune_llama_3_8b_on_a_4090(reader: Reader) -> None:
    assert "of 24 GiB" in reader.answered("memory, as it opens", "Llama 3 8B", "RTX 4090", "GiB")
    reader.click(reader.of("method").locator("[data-value=full]"))
    reader.answered("memory to fine-tune Llama 3 8B on an RTX 4090", "Llama 3 8B", "full", "of 24 GiB")


@at("02", "storage")
def test_eight_h100_on_an_nfs_filer_with_imagenet(reader: Reader) -> None:
    reader.choose("storage", "nfs")
    reader.answered("8 H100 on an NFS filer with ImageNet", "8 × H100", "NFS", "ImageNet", "utilisation")


@at("08", "training_run")
def test_gpus_for_70b_in_30_days(reader: Reader) -> None:
    reader.choose("model", "llama 3 70b")
    reader.number("tokens", "2000")
    reader.number("deadline", "30")
    reader.number("devices", "1024")
    reader.answered("GPUs for 70B in 30 days", "Llama 3 70B", "meet the 30-day deadline", "2 trillion tokens")


@at("04", "accelerators")
def test_a100_l40s_and_mi300x_for_vit_l(reader: Reader) -> None:
    reader.choose("model", "vit-l")
    reader.click(reader.of("accelerators").get_by_role("button", name="Remove all"))
    for typed in ("a100", "l40s", "mi300x"):
        reader.choose("accelerators", typed)
    reader.answered("A100, L40S or MI300X for ViT-L", "ViT-L", "cannot be distinguished")
    names = " ".join(reader.of("accelerators").locator(".ck-tag").all_inner_texts())
    assert all(name in names for name in ("A100", "L40S", "MI300X")), names


@at("08", "training_run")
def test_a_layout_for_gpt_3_on_512_a100(reader: Reader) -> None:
    reader.choose("model", "gpt-3 175b")
    reader.choose("accelerator", "a100 80")
    reader.number("devices", "512")
    reader.answered("a layout for GPT-3 on 512 A100", "GPT-3 175B", "512 × A100", "TP ", "PP ", "DP ")


@at("09", "where_to_run")
def test_rent_or_buy_for_a_year_at_half_use(reader: Reader) -> None:
    reader.number("years", "1")
    reader.number("utilisation", "50")
    reader.answered("rent or buy for a year at 50 % use", "over 1 year:", "Own or rent: On premises, 8 × H100")


@at("07", "measurements")
def test_what_was_measured_for_resnet_50_on_v100(reader: Reader) -> None:
    reader.click(reader.of("networks").locator("[role=combobox]"))
    reader.strike("Backspace")
    reader.choose("networks", "resnet-50")
    reader.choose("accelerators", "v100", "Enter")
    reader.answered("what was measured for ResNet-50 on V100", "measurements", "images/s")
    assert "V100" in " ".join(reader.of("accelerators").locator(".ck-tag").all_inner_texts())


@at("05", "accuracy")
def test_how_wrong_for_bert_on_tpu(reader: Reader) -> None:
    reader.click(reader.of("kind").locator("[data-value='both']"))
    reader.choose("networks", "bert")
    reader.choose("accelerators", "tpu")
    said = reader.answered("how wrong for BERT on TPU", "No such run was measured", "of all networks", refused=True)
    assert "of all accelerators" in said, "what was measured of each is not told"
    reader.strike("Backspace")
    reader.answered("how wrong for BERT at all", "runs are predicted within")


@at("04", "accelerators")
def test_an_accelerator_of_ones_own_with_twice_the_bandwidth(reader: Reader) -> None:
    reader.choose("accelerators", "custom")
    area = reader.of("accelerators").locator("textarea")
    area.select_text()
    text = "like=h100-sxm, mem_bandwidth=6.7 TB/s"
    reader.type(text)
    reader.letters += len(text)
    reader.click(reader.of("accelerators").get_by_role("button", name="Use this"))
    reader.answered("an own accelerator with twice the bandwidth", "cannot be distinguished")
    tags, drawn = reader.of("accelerators").locator(".ck-tag").all_inner_texts(), reader.panel.locator(".ck-figure")
    assert any("like h100-sxm" in tag for tag in tags), tags
    assert "changed" in (drawn.text_content() or "")


@at("10", "serving")
def test_share_a_state(reader: Reader, browser: Any, patience: float) -> None:
    reader.choose("accelerator", "mi300x")
    before, address = told(reader.panel), copied(reader)
    reader.moves += 1
    reader.answered("share a state", "MI300X")
    stop_kernels(reader.page)
    context = browser.new_context()
    other = context.new_page()
    other.set_default_timeout(patience)
    other.patience = patience / 3
    panel = visit(other, address)
    settle(other, panel)
    assert told(panel) == before
    context.close()
