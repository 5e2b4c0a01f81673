"""Reports: one page of a panel that opens without a network, with inputs, interval, chart, table and sources."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import cookbook as cb
from cookbook.__main__ import main
from cookbook.panels.decision import LONGEST_PICTURE, PICTURE
from cookbook.publish import report as reports
from cookbook.publish.report import made, printed, read_state, report

from .test_record import HOSTILE, Read

PIXEL = PICTURE + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
# Three buyers: data in the house and a budget; a chat in a cloud or at home; an answer within 10 ms.
BUYERS = {
    "radiology": {"application": "image", "task": "fine-tune", "private": "in house", "budget": 20000},
    "start-up": {"application": "chat", "task": "serve", "rate": 10},
    "factory": {"application": "sensor", "task": "serve"},
}


each_buyer = pytest.mark.parametrize(
    "who", ["radiology", *(pytest.param(who, marks=pytest.mark.all) for who in BUYERS if who != "radiology")]
)


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The report of a buyer, made once."""
    folder = tmp_path_factory.mktemp("reports")
    return cache(lambda who: report("stack", folder / f"{who}.html", BUYERS[who], f"What does {who} buy?", HOSTILE)[0])


@each_buyer
def test_a_report_holds_what_a_manager_asks_for(who: str, page_of: Callable[[str], Path]) -> None:
    panel, page = made("stack", BUYERS[who]), Read(page_of(who).read_text(encoding="utf-8"))
    text = " ".join(page.text.split())
    headline, *facts = panel.answer.replace("**", "").split(". ")
    for said in (
        headline,
        facts[0],
        "Interval (80 %): $",
        "Changes with:",
        f"What does {who} buy?",
        cb.__version__,
        "Python",
        "Date",
        panel.code.splitlines()[0],
        panel.sources[0][0],
    ):
        assert " ".join(said.split()) in text, said
    assert all(f"{label}: {value}" in text for label, value in panel.inputs)
    assert {url for _, url, _ in panel.sources if url} <= set(page.addresses)
    assert "(recalled, not opened)" in text
    head, rows, _ = panel.printed(15)
    assert len(rows) == 15 and all(name in text for name in head) and all(row[0] in text for row in rows)


@each_buyer
def test_a_report_needs_nothing_else(who: str, page_of: Callable[[str], Path]) -> None:
    source = page_of(who).read_text(encoding="utf-8")
    page = Read(source)
    assert not page.tags & {"link", "iframe", "object", "form", "video"} and "onerror" not in page.names
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" in source
    assert source.count("<script") == 1 and source.index("<script") < source.index("<h1>")
    pictures = [each for each in page.addresses if each.startswith("data:")]
    assert len(pictures) == 1 and base64.b64decode(pictures[0].removeprefix(PICTURE)).startswith(b"\x89PNG")
    assert all(each.startswith(("https://", "http://", PICTURE)) for each in page.addresses)
    assert page.text.count("<script>alert") == 1  # the note, as words
    assert 20_000 < len(source) < 1_000_000


@pytest.mark.all
def test_it_opens_in_a_browser_without_a_network(page_of: Callable[[str], Path], chromium: str | None) -> None:
    if chromium is None:
        pytest.skip("no Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for path in map(page_of, BUYERS):
            context = browser.new_context(offline=True)
            opened, asked, problems = context.new_page(), list[str](), list[str]()
            opened.on("request", lambda request, asked=asked: asked.append(request.url))
            opened.on("pageerror", lambda error, problems=problems: problems.append(str(error)))
            opened.goto(path.as_uri())
            assert opened.evaluate("document.images[0].naturalWidth") > 300 and problems == []
            opened.evaluate("window.print = () => { document.title = 'printed'; }")
            opened.get_by_role("button", name="Print or save as PDF").click()
            assert opened.title() == "printed"
            opened.emulate_media(media="print")
            assert not opened.get_by_role("button", name="Print or save as PDF").is_visible()
            assert [each for each in asked if not each.startswith("data:")] == [path.as_uri()]
            assert "Interval (80 %)" in opened.locator("body").inner_text()
            context.close()
        browser.close()


def test_it_is_printed_to_pdf(tmp_path: Path, chromium: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    page.write_text("<h1>Hello</h1>", encoding="utf-8")
    if chromium is not None:
        monkeypatch.setenv("CHROMIUM", chromium)
        assert reports.printed(page).read_bytes().startswith(b"%PDF")
    monkeypatch.setenv("CHROMIUM", "")
    monkeypatch.setattr(reports, "BROWSERS", ("no-such-browser",))
    with pytest.raises(OSError, match="no Chromium was found to print with: install one"):
        reports.printed(page)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["measure_here"], "'measure_here' is no panel; take one of accelerators"),
        (["nothing"], "'nothing' is no panel; take one of accelerators"),
        (["stack", "--set", "colour=red"], "stack has no control 'colour'; it has application"),
        (["stack", "--set", "budget=1"], "No stack meets budget = $1.00: "),
        (["stack", "--set", "budget"], "is not NAME=VALUE; write one such as task=serve"),
        (["stack", "--set", "application=tea"], "Application = 'tea' is not a choice; nearest names"),
    ],
)
def test_what_cannot_be_reported_is_told_in_a_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as told:
        main(["report", *arguments, "--out", str(tmp_path / "x.html")])
    assert words in str(told.value) and not (tmp_path / "x.html").exists()


@pytest.mark.skipif(os.name == "nt", reason="a script of the shell stands for the browser")
@pytest.mark.parametrize(("script", "words"), [("exit 0", "printed nothing"), ("exec sleep 30", "took longer than")])
def test_a_browser_that_fails_leaves_no_page_of_an_earlier_run(
    script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, page, old = tmp_path / "browser", tmp_path / "page.html", tmp_path / "page.pdf"
    browser.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    browser.chmod(0o755)
    page.write_text("<h1>Hello</h1>", encoding="utf-8")
    old.write_bytes(b"%PDF of last week")
    monkeypatch.setenv("CHROMIUM", str(browser))
    monkeypatch.setattr(reports, "LONGEST_PRINT", 1 if "sleep" in script else 60)
    with pytest.raises(OSError, match=words):
        reports.printed(page)
    assert not old.exists()


@pytest.mark.skipif(os.name == "nt", reason="a script of the shell stands for the browser")
def test_a_pdf_takes_the_place_of_the_old_one_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser writes under another name: whenever it is killed, the old file stands whole."""
    browser, page, seen = tmp_path / "browser", tmp_path / "page.html", tmp_path / "seen"
    browser.write_text(
        f"""#!/bin/sh
        for each; do case "$each" in --print-to-pdf=*) printf '%%PDF new' > "${{each#*=}}";; esac; done
        cp {tmp_path / "page.pdf"} {seen}""",
        encoding="utf-8",
    )
    browser.chmod(0o755)
    page.write_text("<h1>Hello</h1>", encoding="utf-8")
    (tmp_path / "page.pdf").write_bytes(b"%PDF of last week")
    monkeypatch.setenv("CHROMIUM", str(browser))
    assert reports.printed(page).read_bytes() == b"%PDF new" and seen.read_bytes() == b"%PDF of last week"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["browser", "page.html", "page.pdf", "seen"]


def test_a_report_is_a_page_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x.pdf is a page; give a name that ends in .html, and pdf=True"):
        report("stack", tmp_path / "x.pdf")
    assert not (tmp_path / "x.pdf").exists()


def test_states_are_read_from_a_command_line() -> None:
    assert read_state(["a=1", "b=2.5", "c=x y", 'd=["t4"]', "e=null", "f="]) == {
        "a": 1,
        "b": 2.5,
        "c": "x y",
        "d": ["t4"],
        "e": None,
        "f": "",
    }


@pytest.mark.parametrize("name", ["accelerators", "serving", "clinic", "stack"])
def test_the_form_of_every_recipe_gives_the_same_report(name: str) -> None:
    record, sent = cb.panels.record(getattr(cb.panels, name)(), "Buy it?", {"Choice": "A"}, HOSTILE), list[Any]()
    record.send = sent.append
    record.receive({"save": "report", "picture": PIXEL})
    page = Read(sent[0]["text"])
    assert sent[0]["file"] == f"report-{name}.html" and PIXEL in page.addresses and "table" in page.tags
    assert "iframe" not in page.tags and "onerror" not in page.names and sent[0]["text"].count("<script") == 1
    assert "Choice: A" in page.text
    order = [page.text.index(word) for word in ("Choice: A", "Answer", "Inputs: ", "Table", "Sources", "Made with")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("name", "state", "other"),
    [
        ("training_run", {"model": "gpt2", "tokens": 1, "devices": 8}, "layouts"),
        ("stack", {}, "matrix"),
        ("where_to_run", {"picture": "tornado"}, "costs"),
        ("serving", {"users": 50}, "memory"),
    ],
)
def test_a_report_is_of_the_chart_that_the_panel_was_made_with(name: str, state: dict[str, Any], other: str) -> None:
    """Whichever tab is open: chart, answer, table and code; the reader's tab stays open, also with an error."""
    panel, sent = getattr(cb.panels, name)(**state), list[Any]()
    record = cb.panels.record(panel)
    record.send = sent.append
    record.receive({"do": "draw"})
    record.receive({"save": "report", "picture": PIXEL})
    title = panel.view.picture.title
    for changes in ({"picture": other}, {"picture": panel.view.picture.name, "model": "no such model"}):
        panel.update(**changes)
        before = panel.shown, panel.values, panel.answer, panel.code
        record.receive({"do": "draw"})
        record.receive({"save": "report", "picture": PIXEL})
        assert sent[-2:] == sent[:2], changes
        assert before == (panel.shown, panel.values, panel.answer, panel.code)
    assert sent[0]["chart"]["signals"]["live_title"] == title and sent[0]["chart"]["spec"]["layer"]
    assert f'alt="{html.escape(title)}"' in sent[1]["text"]


@pytest.mark.parametrize(
    "picture",
    [
        "",
        None,
        5,
        "https://example.org/x.png",
        "data:text/html,<script>",
        PICTURE + "!!",
        PICTURE + "AAAA",
        PIXEL + '" onerror="alert(1)',
        "javascript:alert(1)",
        PICTURE + "A" * LONGEST_PICTURE,
    ],
)
def test_only_a_picture_that_is_one_stands_in_a_report(picture: Any) -> None:
    record, sent = cb.panels.record(cb.panels.assembly_line()), list[Any]()
    record.send = sent.append
    record.receive({"save": "report", "picture": picture})
    assert "img" not in Read(sent[0]["text"]).tags and "onerror" not in sent[0]["text"]


@pytest.mark.all
@pytest.mark.parametrize("name", ["training_run", "serving", "where_to_run", "stack", "storage"])
def test_what_is_decided_fills_one_printed_page(name: str, tmp_path: Path, chromium: str | None) -> None:
    """Answer, chart and inputs; table, assumptions, code and sources are folded, and printed where they are opened."""
    if chromium is None:
        pytest.skip("no Chromium")
    source, folded = report(name, tmp_path / "page.html", question="What do we buy?", pdf=True)
    assert pages(folded) == 1
    text = source.read_text(encoding="utf-8")
    opened = tmp_path / "opened.html"
    opened.write_text(text.replace("<details>", "<details open>"), encoding="utf-8")
    assert text.index("<img") < text.index("<h2>Inputs") < text.index("<details>") < text.index("<h2>Sources")
    assert pages(printed(opened)) > 1


def pages(path: Path) -> int:
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type\s*/Page[^s]", path.read_bytes()))
