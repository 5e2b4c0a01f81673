"""The page that answers without a kernel, from disk in a real browser: its answers, its address, its keys."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
from base64 import b64decode
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import cookbook as cb
from cookbook import catalog, units
from cookbook.prediction.precision import stored_bytes
from cookbook.publish.answers import LOADS, REQUESTS, WEIGHTS, Choices, answers, every_choice

pytestmark = pytest.mark.browser
FEW = Choices(("rtx-4090", "h100-sxm"), ("llama3_70b",), ("llama3_8b",), ("h100-sxm", "rtx-4090"))
STATES, FEWER_STATES, LARGEST = 1000, 30, 1.5e6
WIDTHS = (320, 400, 800, 1300)
BITS = {"widest": None, "16-bit": 16, "8-bit": 8, "4-bit": 4}
PARTS = ("runs", "need", "cost")
TOO_WIDE = "() => document.scrollingElement.scrollWidth > innerWidth"
BIG, ADDRESS = "#answer .big", "() => location.href"
FIRST_COST = {"model": "llama3_8b", "on": "h100-sxm", "load": "concurrency=64", "weights": "published"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of a page with a few choices."""
    return answers(tmp_path_factory.mktemp("answers"), FEW).as_uri()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with all choices."""
    with ProcessPoolExecutor(2) as executor:
        return answers(tmp_path_factory.mktemp("answers"), executor=executor)


def visit(page: Any, address: str) -> None:
    """Load the page anew at an address, until its first answer is there: the data are unpacked after the load."""
    page.goto("about:blank")
    page.goto(address)
    page.locator("#answer h2").wait_for()


def drawn_states(choices: Choices, count: int, devices: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Return questions with random values of their choices, and of the price on some."""
    draw = random.Random(count)
    found = []
    for at in range(count):
        part = PARTS[at % len(PARTS)]
        state = {
            "runs": {"on": draw.choice(devices), "request": draw.choice([*REQUESTS]), "weights": draw.choice([*BITS])},
            "need": {"model": draw.choice(choices.models), "request": draw.choice(["1024-128", "8192-1024"])},
            "cost": {
                "model": draw.choice(choices.served),
                "on": draw.choice(choices.on),
                "load": draw.choice([*LOADS]),
                "weights": draw.choice([*WEIGHTS]),
                "price": draw.choice(["", "0", f"{10 ** draw.uniform(-2, 2):.2f}", f"{10 ** draw.uniform(-4, 5):.5f}"]),
            },
        }[part]
        found.append((part, state))
    return found


def lengths_of(request: str) -> dict[str, int]:
    return dict(zip(("input_len", "output_len"), REQUESTS[request], strict=True))


def runs_expected(state: dict[str, str]) -> dict[str, Any]:
    found = cb.planning.what_runs(state["on"], **lengths_of(state["request"]))
    table, bits = found.table, BITS[state["weights"]]
    able = table[table["fits"] == "yes"]
    able = able[[bits is None or round(8 * stored_bytes(name)) == bits for name in able["precision"]]]
    able = able.drop_duplicates("name")
    lines = [
        [
            row["title"],
            row["precision"],
            units.human(row["memory_bytes"], "iB"),
            *(units.figure(row[f"tokens_per_s{end}"]) for end in ("", "_low", "_high")),
            row["measured"],
            row["tier"],
        ]
        for row in able.to_dict("records")
    ]
    if bits is None and lines:  # as printed in a terminal
        printed = found.printed
        assert printed["Tokens/s (80 %)"].tolist() == [f"{line[3]} ({line[4]} to {line[5]})" for line in lines]
        assert printed[["Model", "Weights", "Memory"]].to_numpy().tolist() == [line[:3] for line in lines]
    return {"headline": found.summary(), "lines": lines}


def need_expected(state: dict[str, str]) -> dict[str, Any]:
    found = cb.planning.need(state["model"], **lengths_of(state["request"]))
    return {"headline": found.summary(), "lines": found.printed.to_numpy().tolist()}


def cost_expected(state: dict[str, str]) -> dict[str, Any]:
    own = {"hourly": float(state["price"])} if state["price"] else {}
    load, weights = LOADS[state["load"]][0], WEIGHTS[state["weights"]]
    try:
        found = cb.serve(state["model"], state["on"], weights_format=weights, **load, **own)
    except ValueError as problem:
        return {"why": str(problem)}
    row = found.rows[0]

    def usd(name: str) -> list[str]:
        ends = (row[f"usd_per_million_{name}{end}"] for end in ("", "_low80", "_high80"))
        return [units.dollars(end) if math.isfinite(end) else "not known" for end in ends]

    return {
        "output": usd("output"),
        "input": usd("input"),
        "ends": None if own else [units.dollars(row[f"usd_per_million_output_{end}"]) for end in ("low", "high")],
        "hour": units.dollars(row["usd_per_hour"]),
        "devices": row["devices"],
        "tokens": [units.figure(row[f"output_tokens_per_second{end}"]) for end in ("", "_low80", "_high80")],
        "ttft": [units.human(row[f"ttft_p50{end}"], "s") for end in ("", "_low80", "_high80")],
        "verify": found.launch(found.engines[0][0]).verify,
    }


# What the page says in a state, by the names of what is expected of it.
SAID = """states => states.map(([part, state]) => {
  const found = globalThis.cookbook.answer(part, state);
  const lines = (rows, names) => rows.map(row => names.map(name => row[name] ?? ""));
  if (part === "runs") return { headline: found.headline,
    lines: lines(found.lines, ["title", "precision", "memory", "speed", "low", "high", "measured", "tier"]) };
  if (part === "need") return { headline: found.headline,
    lines: lines(found.rows, ["to", "precision", "memory", "interval", "held"]) };
  if (found.why) return { why: found.why };
  const { output, input, hour, devices, tokens, ttft, verify } = found;
  return { output, input, ends: found.ends ?? null, hour, devices, tokens, ttft, verify };
})"""
EXPECTED = {"runs": runs_expected, "need": need_expected, "cost": cost_expected}


def compare(page: Any, states: list[tuple[str, dict[str, str]]]) -> None:
    """Compare what the page says in all states, in one call, with the answers of the package."""
    for (part, state), said in zip(states, page.evaluate(SAID, states), strict=True):
        assert said == EXPECTED[part](state), (part, state)


def test_thirty_states_are_those_of_the_package(page, small):
    visit(page, small)
    compare(page, drawn_states(FEW, FEWER_STATES, [*FEW.devices]))
    assert not page.problems and not page.outside


def test_an_answer_is_there_at_once_and_the_address_restores_any_other(page, small):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    visit(page, small)
    expected = runs_expected({"on": "rtx-4090", "request": "1024-128", "weights": "widest"})
    assert page.locator(BIG).inner_text() in expected["headline"]
    page.get_by_role("combobox", name="Device").focus()
    page.keyboard.type("h100")
    page.keyboard.press("Enter")
    page.get_by_role("radio", name="128 + 128").focus()
    page.keyboard.press("Space")
    assert page.evaluate(ADDRESS).endswith("#q=runs&on=h100-sxm&request=128-128")
    page.get_by_role("button", name="Show all").click()
    page.locator("summary", has_text="Llama 3 8B").focus()
    page.keyboard.press("Enter")
    expect(page.locator("details[open] .evidence")).to_be_visible()
    words = page.locator("details[open] .evidence").inner_text().splitlines()
    assert words[0].startswith("✓ 129 tokens/s measured (Argonne, vLLM 2024)")
    assert words[1].startswith("Estimate 132 tokens/s (") and "vllm bench serve" in words[2]
    page.get_by_role("tab", name="What runs").focus()
    page.keyboard.press("End")
    page.get_by_label("USD per device-hour").fill("2.5")
    expected = cost_expected(FIRST_COST | {"price": "2.5"})
    expect(page.locator(BIG)).to_have_text(f"{expected['output'][0]} per million output tokens")
    command = "cookbook serve llama3_8b h100-sxm --concurrency 64 --hourly 2.5"
    expect(page.locator(".command code")).to_have_text(command)
    address = page.evaluate(ADDRESS)
    page.go_back()
    expect(page.get_by_role("radio", name="128 + 128", exact=True)).to_be_checked()
    expect(page.get_by_role("combobox", name="Device")).to_have_value("H100 SXM5 80GB")
    page.go_back()
    expect(page.get_by_role("radio", name="1,024 + 128")).to_be_checked()
    visit(page, address)
    expect(page.locator(BIG)).to_have_text(f"{expected['output'][0]} per million output tokens")
    expect(page.get_by_label("USD per device-hour")).to_have_value("2.5")
    assert {url.partition("#")[0] for url in asked} == {small} and not page.problems


def test_a_device_without_a_row_gets_the_question_the_nearest_rows_and_the_command(page, small):
    visit(page, small)
    page.get_by_role("combobox", name="Device").fill("Voodoo 3")
    page.keyboard.press("Enter")
    assert "no row for “Voodoo 3”" in page.locator("#answer h2").inner_text()
    page.get_by_label("Memory [GB]").fill("24")
    page.get_by_label("Bandwidth [GB/s]").fill("900")
    page.keyboard.press("Tab")
    assert page.locator(".command code").inner_text() == "cookbook what-runs --memory 24 --bandwidth 900"
    page.get_by_role("button", name="GeForce RTX 4090").click()
    assert "RTX 4090" in page.locator("#answer h2").inner_text()
    visit(page, f"{small}#q=cost&on=voodoo&price=many")
    assert "no device “voodoo”" in page.get_by_role("alert").inner_text()
    assert "is no price" in page.locator("#price-note").inner_text()


@pytest.mark.all
def test_the_browser_s_own_device_is_only_suggested(page, small):
    gpu = "{ requestAdapter: async () => ({ info: { description: '%s' } }) }"
    named = f"Object.defineProperty(navigator, 'gpu', {{ value: {gpu} }})"
    for text, shown in (("NVIDIA H100 SXM5 80GB", True), ("A device that nobody lists", False)):
        other = page.context.new_page()
        other.add_init_script(named % text)
        visit(other, small)
        chip = other.get_by_role("button", name="This browser reports")
        if shown:
            chip.click()
            assert "H100" in other.locator("#answer h2").inner_text()
        assert chip.count() == 0 or not chip.is_visible()
        other.close()


@pytest.mark.all
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_question_fits_a_phone_and_has_no_barrier(page, small, scheme):
    page.emulate_media(color_scheme=scheme)
    for part in (*PARTS, "runs&on=voodoo"):
        visit(page, f"{small}#q={part}")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 850})
            assert not page.evaluate(TOO_WIDE), f"{part} scrolls sideways at {width} px"
        page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert Axe().run(page).response["violations"] == [], part
    visit(page, f"{small}?embed=1#q=cost")
    assert not page.locator("h1").is_visible() and page.locator(BIG).is_visible()
    assert Axe().run(page, context="#card").response["violations"] == []


@pytest.mark.all
def test_what_is_shown_is_what_is_saved_and_copied(page, small):
    visit(page, small)
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    page.get_by_label("Find a model").fill("llama 3")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download CSV").click()
    rows = list(csv.DictReader(Path(saved.value.path()).read_text(encoding="utf-8").splitlines()))
    shown = page.locator(".rows .name").all_inner_texts()
    assert [row["model"] for row in rows] == [
        text.splitlines()[0].removesuffix(row["weights"]).strip() for text, row in zip(shown, rows, strict=True)
    ]
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function("() => window.copied")
    assert page.evaluate("() => window.copied") == page.evaluate(ADDRESS)
    assert "find=llama+3" in page.evaluate(ADDRESS)


@pytest.mark.all
def test_a_thousand_states_of_the_whole_page_are_those_of_the_package(page, whole):
    assert whole.stat().st_size <= LARGEST, f"{whole.stat().st_size:,} bytes"
    choices = every_choice()
    visit(page, whole.as_uri())
    stored = page.evaluate("() => document.getElementById('data').textContent")
    devices = json.loads(gzip.decompress(b64decode(stored)))["runs"]["axes"][0][1]
    left_out = set(choices.devices) - set(devices)
    assert len(devices) > 150 and left_out < set(catalog.table("accelerators")["key"])
    compare(page, drawn_states(choices, STATES, devices))
    assert not page.problems and not page.outside
