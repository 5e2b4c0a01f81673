"""Results: one base, one card, one way to plain values, and what these three do."""

import ast
import json
import math
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from syntax import package_trees

import cookbook as cb
from cookbook.catalog.calls import as_python
from cookbook.catalog.prices import Price
from cookbook.hardware.topology import topology
from cookbook.result import MOST_ROWS, Result, card, html_text, plain

PACKAGE = Path(cb.__file__).parent
# Aids of lessons print text of their own and have no figures.
WITHOUT_FIGURES = {"lesson.py"}


def functions(*names: str) -> list[str]:
    """Modules that define a function or method of one of these names, once for each."""
    return [
        path
        for path, tree in package_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]


@pytest.mark.parametrize("names", [("card", "_card"), ("plain", "_plain")])
def test_one_function_draws_cards_and_one_makes_plain_values(names):
    assert functions(*names) == ["result.py"]


def test_every_result_stands_on_one_base():
    """Whatever shows itself as HTML with figures takes repr, card, table and plain values from `Result`."""
    bare = set()
    for path, tree in package_trees().items():
        for node in (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)):
            own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            bases = {each.id for each in node.bases if isinstance(each, ast.Name)}
            if own & {"_repr_html_", "to_dict"} and "Result" not in bases and node.name != "Result":
                bare.add(path)
            assert "Result" not in bases or not own & {"__repr__", "_repr_html_"}, f"{path}: {node.name} writes its own"
    assert bare <= WITHOUT_FIGURES


@dataclass(frozen=True)
class Link:
    start: str
    rates: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Box(Result):
    """A result with one of everything."""

    name: str
    most: float
    missing: float
    links: tuple[Link, ...]
    rows: pd.DataFrame = field(repr=False)


BOX = Box("a < $b", math.inf, math.nan, (Link("x", (1.0, math.nan)),), pd.DataFrame({"a": [1, 2], "b": [math.nan, 3]}))


def test_plain_values_are_what_json_takes():
    assert BOX.to_dict() == {
        "name": "a < $b",
        "most": None,
        "missing": None,
        "links": [{"start": "x", "rates": [1.0, None]}],
    }
    assert plain({1: BOX}) == {"1": BOX.to_dict()}
    assert plain(BOX.rows) == [{"a": 1, "b": None}, {"a": 2, "b": 3.0}]
    mixed = np.array([np.float64(1.5), "a", None, (np.int64(2),)], dtype=object)
    assert json.dumps(plain([mixed, np.array(-np.inf), np.bool_(True)]), allow_nan=False) == (
        '[[1.5, "a", null, [2]], null, true]'
    )


def test_tables_and_sentences_keep_what_json_cannot_say():
    table = BOX.frame()
    assert len(table) == 1 and table["most"].iloc[0] == math.inf and math.isnan(table["missing"].iloc[0])
    assert repr(BOX) == f"<Box: {BOX.summary()}>" and "most=inf, missing=not known" in repr(BOX)


def test_cards_escape_text_and_say_what_they_leave_out():
    html = BOX._repr_html_()
    assert "a &lt; <span>$</span>b" in html and "not known" in html and "--jp-" in html
    rows = pd.DataFrame({"n": range(MOST_ROWS + 3)})
    assert f">{MOST_ROWS - 1}<" in card("n", rows) and f">{MOST_ROWS}<" not in card("n", rows)
    assert "3 more rows in .frame()." in card("n", rows) and "<table>" not in card("n", notes=["<why>"])
    assert "&lt;why&gt;" in card("n", notes=["<why>"]) and 'scope="row"' in card("n", {"fact": 1})


@pytest.fixture(scope="module")
def step():
    return cb.train_step("resnet50", "h100-sxm", micro_batch=[16, 32])


@pytest.mark.parametrize(
    "make",
    [
        lambda step: step,
        lambda step: step.one(),
        lambda step: cb.match_storage("mlperf/unet3d", "h100-sxm", "micron-9400-7-68tb-gen4"),
        lambda step: cb.requirements("resnet50", accelerators=["h100-sxm"]),
        lambda step: topology("dgx-h100"),
        lambda step: cb.planning.assembly_line("1f1b", 2, 4),
        lambda step: cb.planning.map_to_crossbars("alexnet"),
        lambda step: Price(math.nan, math.nan, math.nan, "USD/h", why="no row states one"),
    ],
    ids=["steps", "step", "storage", "requirements", "topology", "line", "crossbars", "price"],
)
def test_results_of_every_room_give_json_and_a_card(make, step):
    found = make(step)
    assert isinstance(found, Result) and found.summary() in repr(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()
    assert found._repr_html_().startswith(card("").partition("<strong>")[0]) and len(found.frame()) >= 1


def test_no_estimate_says_why_in_its_card(step):
    none = replace(step.one(), why="of <this>")
    assert repr(none) == "<no estimate: of <this>>" and "of &lt;this&gt;" in none._repr_html_()


CHANGED = cb.accelerator(like="h100-sxm", mem_bandwidth="4 TB/s")
OWN = {"memory_bytes": 24e9, "mem_bandwidth": 1e12, "peak_fp16": 1e14}
ASKED = {
    "serve": lambda: cb.serve("llama3_8b", "h100-sxm", users=500),
    "generate": lambda: cb.generate("llama3_8b", CHANGED, input_len=512, output_len=128),
    "train_step": lambda: cb.train_step(cb.model("resnet50", image=448), "dgx-h100", micro_batch=[16, 32]),
    "forward_pass": lambda: cb.forward_pass("resnet50", cb.machine("dgx-h100"), batch=np.array([1, 8])),
    "fewer of a node": lambda: cb.forward_pass("resnet50", cb.machine("dgx-h100", per_node=4), batch=8),
    "range": lambda: cb.finetune("llama3_8b", "h100-sxm", devices=range(1, 3)),
    "plan_run": lambda: cb.plan_run("llama3_8b", "h100-sxm", tokens="1 T", devices=64),
    "search": lambda: cb.search("llama3_8b", "dgx-h100", devices=16, global_batch=64),
    "finetune": lambda: cb.finetune("llama3_8b", cb.accelerator("mine", **OWN), method=("lora", "qlora"), tokens=2e7),
    "match_storage": lambda: cb.match_storage("mlperf/unet3d", "h100-sxm", "micron-9400-7-68tb-gen4"),
    "requirements": lambda: cb.requirements("resnet50", accelerators=["h100-sxm"], batch=64),
    "topology": lambda: cb.topology("dgx-h100"),
    "price": lambda: cb.planning.hourly_usd("h100-sxm"),
    "assembly_line": lambda: cb.planning.assembly_line("1f1b", 2, 4),
}

# Results that rest on no figure of an accelerator.
WITHOUT_DEVICE = (Price, type(cb.topology("dgx-h100")))


@pytest.mark.parametrize("make", ASKED.values(), ids=ASKED)
def test_a_result_says_the_call_that_gives_it_again(make):
    found = make()
    text = found.call()
    assert text.startswith("cb.") and eval(text, {"cb": cb}).to_dict() == found.to_dict(), text


@pytest.mark.parametrize("make", ASKED.values(), ids=ASKED)
def test_a_result_names_sources_that_the_table_has(make):
    found = make()
    known = set(cb.table("sources")["key"])
    assert set(found.sources) <= known and "" not in found.sources
    if "h100" in found.call() and not isinstance(found, WITHOUT_DEVICE):
        assert set(cb.accelerator("h100-sxm").sources) <= set(found.sources)


@pytest.mark.parametrize("make", ASKED.values(), ids=ASKED)
def test_a_card_shows_the_facts_and_the_first_table(make):
    """Both are text that people read: no field name, no number of more digits than are known."""
    found = make()
    page, tables, facts = found._repr_html_(), found.tables(), found.facts()
    assert all(html_text(str(fact)) in page and html_text(str(label)) in page for label, fact in facts.items())
    for table in list(tables.values())[:1]:
        assert all(html_text(str(column)) in page for column in table.columns)
    assert (tables or facts) and not any(isinstance(fact, float) for fact in facts.values())


def test_a_record_keeps_its_call_when_another_gives_the_same_one():
    price = cb.planning.hourly_usd("h100-sxm")
    other = cb.planning.device_usd("h100-sxm")
    assert "hourly_usd" in price.call() and "device_usd" in other.call() and price == other


def test_functions_of_the_reader_are_names():
    assert as_python(lambda: 1) == "my_function" and as_python({}.keys()) == "my_dict_keys"


def test_a_record_without_a_name_is_the_readers_variable(monkeypatch):
    price = Price(1.0, 2.0, 3.0, "USD/h")
    assert as_python({"hourly": price}) == '{"hourly": cb.planning.Price(low=1.0, median=2.0, high=3.0, unit="USD/h")}'
    own = object()
    assert as_python(own) == "my_object"
    monkeypatch.setattr(sys.modules["__main__"], "desk", own, raising=False)
    assert as_python([own]) == "[desk]"
    assert price.call() == "", "nobody called for it"
