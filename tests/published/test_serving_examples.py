"""Serving: bytes of keys and values as others worked them out, and services that others published."""

import json
import re
from pathlib import Path

import pytest

import cookbook as cb
from cookbook import units

EXAMPLES = cb.table("worked_examples").set_index(["example", "quantity"])
SIZES = [key for key in EXAMPLES.index if key[0].startswith("kv-") and EXAMPLES.role[key] == "outcome"]
SERVICES = [name for name, quantity in EXAMPLES.index if quantity == "tp"]
DAY = "deepseek online day"
ENDS = ("_low80", "", "_high80")


def has(example, quantity):
    return (example, quantity) in EXAMPLES.index


def given(example, quantity):
    assert EXAMPLES.role[example, quantity] == "input"
    return float(EXAMPLES.value[example, quantity])


def published(example, quantity):
    assert EXAMPLES.role[example, quantity] == "outcome"
    return float(EXAMPLES.value[example, quantity])


def kept_bytes(model, tokens, shards=1):
    """Keys and values of one sequence, over so many shards of each layer or else over stages."""
    layout = {"tp": shards} if shards > 1 else {"pp": 16}
    length = max(tokens, 2)  # the shortest request: one token of a prompt, and one of an answer
    found = cb.generate(
        model,
        "h100-sxm",
        input_len=length - 1,
        output_len=1,
        batch=1,
        delay_of="token",
        weights_format="int4",
        kv_format="fp16",
        **layout,
    ).memory["cache"]
    return float(found) * max(shards, 16) * tokens / length


@pytest.mark.parametrize("example, quantity", SIZES)
def test_bytes_to_the_published_digit(example, quantity):
    """Of one token or of a sequence, within half of the last printed digit."""
    tokens = 1 if quantity == "a token" else given(example, "tokens")
    shards = int(given(example, "shards")) if has(example, "shards") else 1
    printed = f"{published(example, quantity):.12g}".partition(".")[2]
    windows = {name: int(given(example, name)) for name in ("window", "full_every") if has(example, name)}
    ours = kept_bytes(cb.model(example.split("-")[1], **windows), tokens, shards)
    ours /= units.si(f"1 {EXAMPLES.unit[example, quantity]}")
    assert ours == pytest.approx(published(example, quantity), abs=0.5 * 10 ** -len(printed) * (1 + 1e-6))


def test_sizes_come_from_five_publishers_that_were_read():
    assert len({EXAMPLES.source[key] for key in SIZES}) >= 5
    assert {EXAMPLES.how[key] for key in SIZES} <= {"seen", "derived"}


@pytest.fixture(scope="module")
def words():
    """Return what recipe 10 and the page on accuracy say, on one line."""
    root = Path(__file__).parents[2]
    cells = json.loads((root / "notebooks" / "10-serve-a-model.ipynb").read_text(encoding="utf-8"))["cells"]
    told = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return " ".join(" ".join([*told, (root / "docs" / "accuracy.md").read_text(encoding="utf-8")]).split())


def test_what_has_left_a_window_is_not_kept_and_the_page_says_so(words):
    window = "kv window mistral_7b"
    tokens, saving = given(window, "tokens"), published(window, "saving")
    kept = kept_bytes("mistral_7b", tokens)
    assert kept_bytes("mistral_7b_v0.2", tokens) / kept == pytest.approx(saving)
    assert kept == pytest.approx(kept_bytes("mistral_7b", given(window, "window")))
    assert f"{saving:.0f} times as large for Mistral 7B at {tokens:,.0f} tokens" in words


def engine(name):
    """Devices of one copy of the weights."""
    return max(given(name, "tp"), given(name, "ep") if has(name, "ep") else 1)


def served(name, **changes):
    model, accelerator, software = name.split()[:3]
    kept = given(name, "prefix_hit") if has(name, "prefix_hit") else None
    bits = given(name, "kv_bits") if has(name, "kv_bits") else 16
    asked = {
        "prefix_hit": kept,
        "concurrency": given(name, "concurrency"),
        "devices": engine(name),
        "ep": given(name, "ep") if has(name, "ep") else None,
        "kv_format": f"fp{bits:.0f}",
    }
    return cb.serve(
        model,
        accelerator,
        tp=given(name, "tp"),
        input_len=given(name, "input_len"),
        input_spread=0,
        output_len=given(name, "output_len"),
        output_spread=0,
        software=software,
        precision="fp8",
        **asked | changes,
    ).table.iloc[0]


def rates(name, **changes):
    """Ours at both ends of the interval and between them, as the published rate counts [tokens/s]."""
    each = given(name, "devices") / engine(name) * given(name, "counted") / given(name, "output_len")
    found = served(name, **changes)
    return [float(found[f"output_tokens_per_second{end}"]) * each for end in ENDS]


def inside(low, high, value):
    return low <= value <= high


@pytest.fixture(scope="module")
def compared():
    return {name: (published(name, "rate"), *rates(name)) for name in SERVICES}


def test_the_page_says_how_many_rates_are_inside(words, compared):
    hits = {name for name, (rate, low, _, high) in compared.items() if inside(low, high, rate)}
    assert f"Of {len(compared)} rates, {len(hits)} are inside our interval" in words
    dense = {name for name in compared if name.startswith("llama")}
    off = max(abs(ours / rate - 1) for name, (rate, _, ours, _) in compared.items() if name in dense)
    assert f"All {len(dense)} rates of Llama 3 70B are inside, within {100 * off:.0f} % of the measured ones" in words
    assert dense <= hits and set(compared) - hits == {"deepseek_v3 h100-sxm sglang prompts"}


@pytest.fixture(scope="module")
def hidden():
    """The same of services whose experts are spread, where two batches in turn hide what is sent."""
    return {name: (published(name, "rate"), *rates(name, two_batches=True)) for name in SERVICES if has(name, "ep")}


def shares(compared, kind):
    found = sorted(ours / rate for name, (rate, _, ours, _) in compared.items() if name.endswith(f"sglang {kind}"))
    assert len(found) == 2
    return f"{100 * found[0]:.0f} to {100 * found[1]:.0f} %"


def test_the_page_says_what_it_gives_of_experts_across_nodes(words, compared):
    assert f"gives {shares(compared, 'prompts')} of their prompts and {shares(compared, 'answers')} of their" in words
    assert "all are inside but the prompts on H100, which are above the interval" in words
    most = max(rate / ours for rate, _, ours, _ in compared.values())
    assert f"are above it, by up to a factor of {most:.0f};" in words


def test_two_batches_in_turn_close_the_gap_and_the_page_says_how_far(words, hidden):
    """Published rates are of engines that hide one batch's tokens behind the other's work; ours hides all of them."""
    assert len(hidden) == 4 and all(inside(low, high, rate) for rate, low, _, high in hidden.values())
    assert f"gives {shares(hidden, 'prompts')} of their prompts and {shares(hidden, 'answers')} of their" in words


def test_delays_of_clients(words):
    """All latencies are inside; the page names first tokens of many clients, which are twice what we say."""
    told = re.sub(r"(?<=\d),(?=\d)", "", words)
    for name in SERVICES:
        for part, what in (("ttft", "first token"), ("tpot", "further token")):
            if has(name, what):
                low, ours, high = (1e3 * served(name)[f"{part}_p50{end}"] for end in ENDS)
                value = published(name, what)
                assert inside(low, high, value), (name, what, value, low, high)
                if value > 1.5 * ours:
                    assert part == "ttft" and f"{value:.0f} ms" in told and f"{ours:.0f} ms" in told, (name, ours)
    assert "all latencies are inside" in words


def test_keys_and_values_of_16_bits_would_leave_one_rate_outside(words):
    over = {}
    for name in SERVICES:
        if has(name, "kv_bits"):
            low, _, high = rates(name, kv_format="fp16")
            value = published(name, "rate")
            if not inside(low, high, value):
                over[name] = value / high
    ((name, above),) = over.items()
    assert f"with 16, the rate of {name.split()[-2]} clients would be {100 * (above - 1):.0f} % above" in words


def test_nodes_of_a_day(words):
    """Lengths follow from the printed totals and from what is kept at a token of an answer."""
    ratio = given(DAY, "tokens of prompts") / given(DAY, "tokens of answers")
    answer = given(DAY, "tokens kept") / (ratio + 0.5)
    name = "deepseek_v3 h800-sxm sglang answers"
    assert (answer, answer * ratio) == pytest.approx((given(name, "output_len"), given(name, "input_len")), rel=1e-3)
    rate = given(DAY, "tokens of answers") / units.si("1 d") / answer
    asked = {
        "concurrency": None,
        "devices": None,
        "rate": rate,
        "prefix_hit": given(DAY, "hits"),
        "kept": 0.5,
        "tpot": 1 / given(DAY, "rate of a user"),
        "policy": "disaggregated",
    }
    one, two = (
        served(name, **asked, two_batches=each)["devices"] / 8 / published(DAY, "nodes") for each in (False, True)
    )
    assert (
        f"on {published(DAY, 'nodes'):.0f} nodes, we would plan for {one:.1f} times as many, or {two:.1f} times "
        "with two batches in turn" in words
    )
