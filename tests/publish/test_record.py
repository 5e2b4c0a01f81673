"""Decision records: filled from a panel, and the reader's words stay words in Markdown and in HTML."""

from __future__ import annotations

from datetime import date
from html.parser import HTMLParser
from typing import Any

import pytest

import cookbook as cb

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)> [go](javascript:alert(1)) </p>\n# Big\n`code` &amp;'


@pytest.fixture(scope="module")
def panel() -> Any:
    return cb.panels.finetuning()


class Read(HTMLParser):
    """What a page says, and the names of its elements and of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.names, self.addresses, self.text = set[str](), set[str](), list[str](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_it_holds_what_the_panel_says(panel: Any) -> None:
    record = cb.panels.record(panel, "Which GPU?", {"Choice": "qlora", "Cost": 12})
    page, text = Read(record.html()), record.markdown()
    for said in (
        panel.answer.split(".")[0],
        "GeForce RTX 4090",
        "Llama 3 8B",
        "80 % interval",
        "Which GPU?",
        "qlora",
        "2,048 tokens",
        cb.__version__,
        date.today().isoformat(),
        panel.sources[0][0],
    ):
        assert said in page.text, said
        assert said.replace("-", "") in text.replace("\\", "").replace("-", ""), said
    assert panel.code in page.text and panel.sources[0][1] in page.addresses
    largest = max(panel.shown["parts"], key=lambda part: part["value"])["name"]
    assert f"Largest part: {largest}" in page.text and "Cost: 12" in page.text
    assert all(f"{label}: {value}" in page.text for label, value in panel.inputs)


def test_it_follows_the_panel_and_keeps_the_last_valid_state() -> None:
    panel = cb.panels.finetuning()
    record = cb.panels.record(panel)
    assert record.question == panel.shape["title"]
    panel.update(accelerator="h100-sxm", method="full")
    said = record.markdown()
    assert "H100 SXM5 80GB" in said and str(record.said).count("H100 SXM5 80GB") and 'method="full"' in said
    panel.update(devices=99)
    assert panel.shown["error"] and record.markdown() == said


def test_hostile_words_stay_words(panel: Any) -> None:
    record = cb.panels.record(panel, HOSTILE, {"<b>Choice</b>": HOSTILE}, HOSTILE)
    page = Read(record.html())
    assert not page.tags & {"script", "img", "b", "iframe", "style2"} and "onerror" not in page.names
    assert page.text.count('<script>alert("x")</script><img src=x onerror=alert(1)>') == 4  # title, h1, row, note
    assert all(each.startswith(("https://", "http://")) for each in page.addresses)
    assert "default-src 'none'" in record.html()
    text = record.markdown()
    assert "<script" not in text.replace("\\<", "") and "[go]" not in text and "\n# Big" not in text
    assert "\\[go\\](javascript:alert(1))" in text and "\\`code\\`" in text and "\\&amp;" in text
    data, _ = record._repr_mimebundle_()
    assert not Read(data["text/html"]).tags & {"script", "img", "b"}


def test_a_page_needs_nothing_else(panel: Any) -> None:
    page = Read(cb.panels.record(panel).html())
    assert not page.tags & {"link", "script", "img", "iframe", "object"} and "src" not in page.names


def test_what_stays_in_a_notebook_is_the_same_tomorrow(panel: Any) -> None:
    record = cb.panels.record(panel)
    before, (data, _) = repr(record), record._repr_mimebundle_()
    record.date = "2031-01-31"
    assert repr(record) == before and data["text/plain"] == before and "2031" not in before
    assert "2031-01-31" in record.markdown() and date.today().isoformat() not in data["text/html"]
    assert f"{len(panel.sources)} sources" in data["text/html"]


def test_the_browser_gets_files_with_names(panel: Any) -> None:
    record, sent = cb.panels.record(panel), list[dict[str, Any]]()
    record.send = sent.append
    for kind in ("md", "html", "exe", None):
        record.receive({"save": kind})
    assert [each["file"] for each in sent] == ["decision-finetuning.md", "decision-finetuning.html"]
    assert sent[0]["text"] == record.markdown() and sent[1]["text"] == record.html()
    record.note = "x" * 10_001
    record.receive({"save": "md"})
    assert sent[-1] == {"problem": "The note has 10,001 letters; write at most 10,000."}
    record.note, record.date = "", "<b>"
    record.receive({"save": "md"})
    assert sent[-1]["problem"] == "Date = '<b>' is no date; write it as 2026-01-31."


def test_a_record_without_a_panel_is_of_the_decision_alone() -> None:
    record, sent = cb.panels.record(question="Which GPU?", decided={"Choice": "open: A or B"}), list[dict[str, Any]]()
    assert [heading for heading, _ in record.sections()] == ["Decision", "Made with"]
    record.send, record.note = sent.append, "measure first"
    for message in ({"save": "md"}, {"do": "draw"}):
        record.receive(message)
    assert [each["file"] for each in sent] == ["decision.md", "report.html"]
    assert all("open: A or B" in each["text"] and "measure first" in each["text"] for each in sent)
    assert "sources" not in record.markdown().lower()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((5,), "panel = 5 is not a panel"),
        ((None,), "without a panel, a record is of a question and what is decided; give both"),
        ((None, "Why?"), "give both"),
        (("panel", "Why?", ["a"]), "decided = ['a'] is not a mapping"),
        (("panel", 5), "give text"),
        (("panel", "x" * 301), "question has 301 letters; write at most 300"),
        (("panel", "", None, "x" * 10_001), "note has 10,001 letters"),
    ],
)
def test_bad_arguments_are_told(panel: Any, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError) as told:
        cb.panels.record(*(panel if each == "panel" else each for each in arguments))
    assert words in str(told.value)


@pytest.mark.parametrize(
    "name",
    [
        "accelerators",
        "accuracy",
        "assembly_line",
        "clinic",
        "cluster",
        "crossbar",
        "finetuning",
        "host",
        "measurements",
        "model_zoo",
        "scaling",
        "serving",
        "stack",
        "storage",
        "this_machine",
        "training_run",
        "where_to_run",
    ],
)
def test_every_panel_gives_a_record(name: str) -> None:
    panel = getattr(cb.panels, name)()
    record = cb.panels.record(panel)
    headings = [heading for heading, _ in record.sections()]
    assert {"Answer", f"Inputs: {panel.shape['title']}", "Sources", "Made with"} <= set(headings)
    assert len(repr(record)) < 12_000 and "**" not in str(record.said)


@pytest.mark.parametrize(
    ("name", "state", "label", "words"),
    [
        ("training_run", {"model": "gpt2", "tokens": 1, "devices": 8}, "Precision", "best: bf16"),
        ("training_run", {"model": "gpt2", "tokens": 1, "devices": 8, "precision": "fp8"}, "Precision", "fp8"),
        ("serving", {"accelerator": "a100-sxm-80gb"}, "Precision", "best: fp16"),
        ("serving", {"precision": "int4"}, "Precision", "int4 (AWQ, GPTQ)"),
        ("scaling", {"precision": "own", "accelerator": "dgx-h100"}, "Precision", "best: bf16"),
        ("accelerators", {}, "Precision", "usual: fp16 on H100 SXM5 80GB"),
        ("finetuning", {"method": "qlora"}, "Checkpointing", "if needed: yes"),
        ("stack", {}, "Network", "The typical network: ResNet-50 (v1)"),
        ("stack", {}, "Runs per month", "automatic: 4"),
        ("where_to_run", {}, "Batch", "automatic: 512"),
        ("where_to_run", {"batch": 64}, "Batch", "64"),
    ],
)
def test_what_was_left_open_is_said_with_what_was_taken(
    name: str, state: dict[str, Any], label: str, words: str
) -> None:
    assert dict(getattr(cb.panels, name)(**state).inputs)[label] == words


@pytest.mark.parametrize("name", ["training_run", "serving", "stack", "storage", "finetuning", "where_to_run"])
def test_assumptions_are_words_and_no_names_of_arguments(name: str) -> None:
    sections = dict(cb.panels.record(getattr(cb.panels, name)()).sections())
    for label, text, _ in sections["How this is known"]:
        assert not any(sign in text for sign in (" = ", "_", "=.")), (label, text)


def test_a_zero_that_stands_for_something_else_is_said_in_words() -> None:
    """A service on as many devices as it needs is not one on 0 devices, nor one at 0 dollars."""
    inputs = dict(cb.panels.serving().inputs)
    assert (inputs["Devices"], inputs["Price"]) == ("chosen automatically: 1", "list price")
    assert dict(cb.panels.serving(devices=8).inputs)["Devices"] == "8"
    inputs = dict(cb.panels.storage().inputs)
    assert (inputs["Price"], inputs["Checkpoint every"]) == ("list price", "never")
    assert dict(cb.panels.where_to_run().inputs)["Utilisation"] == "from this task alone"
