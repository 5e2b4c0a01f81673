"""The panel of recipe 10: figures are those of `cb.serve`, pictures show them, what cannot be is told in words."""

from __future__ import annotations

import ast
from typing import Any

import pandas as pd
import pytest

import cookbook as cb
from cookbook.units import dollars

CALL = {"users": 500, "input_len": 512, "output_len": 256, "ttft": 1, "tpot": 0.05}


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("serving")


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    row = cb.serve("llama3_8b", "h100-sxm", **CALL).table.iloc[0]
    low, usd, high = (dollars(row[f"usd_per_million_output{end}"]) for end in ("_low", "", "_high"))
    assert panel.answer.startswith(f"{row['devices']} H100 SXM5 80GB serve")
    assert f"for {usd} per million output tokens. Cost: {dollars(row['usd_per_hour'])} per hour, " in panel.answer
    assert f", {low} to {high} per million output tokens at the price quartiles" in panel.answer
    low, typical, high = (f"{1e3 * row[f'tpot_p50{end}']:.3g} ms" for end in ("_low80", "", "_high80"))
    assert f"TPOT: p50 is {typical} (80 %: {low} to {high})" in panel.answer
    assert f"p95 {1e3 * row['tpot_p95']:.3g} ms (limit 50 ms)" in panel.answer
    assert f"limited by {row['binds']}." in panel.answer


def test_a_price_of_the_reader_is_the_only_one(panel: Any) -> None:
    """The headline, the chart, the table and the file tell one price; every other accelerator keeps list prices."""
    list_price = {row["accelerator"]: row["usd_per_hour"] / row["devices"] for row in rivals(panel)}
    panel.update(hourly=1.99)
    row = cb.serve("llama3_8b", "h100-sxm", **CALL, hourly=1.99).rows[0]
    assert "at your price of $1.99 per hour" in panel.answer and "quartiles" not in panel.answer
    for own in rivals(panel):
        paid = own["usd_per_hour"] / own["devices"]
        assert paid == pytest.approx(1.99 if own["accelerator"] == "h100-sxm" else list_price[own["accelerator"]])
    panel.update(picture="costs")
    chart = dict(zip(panel.columns["row"], panel.columns["usd"], strict=True))
    assert chart["H100 SXM5 80GB"] == pytest.approx(row["usd_per_hour"], rel=1e-3)
    panel.receive({"do": "open", "what": "table"})
    assert dollars(row["usd_per_hour"]) in str(panel.shown["table"]["rows"])


def rivals(panel: Any) -> list[dict[str, Any]]:
    """Priced rows of the file of the chart of costs."""
    panel.update(picture="costs")
    return [row for row in panel._view.data().to_dict("records") if row.get("usd_per_hour", 0) > 0]


def test_no_cheapest_is_named_inside_the_interval_of_another(panel: Any) -> None:
    panel.update(users=5000, hourly=1.99, picture="costs")
    rows = {row["accelerator"]: row for row in rivals(panel)}
    own, other = (rows[key] for key in ("h100-sxm", "mi300x"))
    assert other["usd_per_hour"] <= own["usd_per_hour"] < 1.5 * other["usd_per_hour"]
    assert "cannot be distinguished" in panel._view.picture.title and "cheapest" not in panel._view.picture.title


def test_think_time_0_is_requests_at_once(panel: Any) -> None:
    panel.update(users=200, think=0, ttft=5000)
    assert panel.values["think"] == 0 and "think=0" in panel.code, panel.answer
    assert "about 200 in service at any time" in panel.answer


def test_more_users_than_can_be_served_wait(panel: Any) -> None:
    panel.update(devices=1, users=20000)
    assert "SLO (TTFT) is missed" in panel.answer and not panel.shown["error"]


def test_users_think_as_long_as_they_do_in_a_call(panel: Any) -> None:
    constants = cb.table("constants").set_index("name")["value"]
    assert panel.values["think"] == float(constants["service-think-time"])


def test_the_bands_reach_the_load_of_clients_whom_a_slow_engine_holds_back(panel: Any) -> None:
    panel.update(users=2000, devices=1)
    frame = panel.view.picture.frame
    for name in ("TTFT p50", "TPOT p50"):
        rates = frame[frame["series"] == name].groupby("what")["rate"].max().astype(float)
        assert rates["band"] == pytest.approx(rates["here"])


def test_the_knee_rises_up_to_capacity_and_marks_the_load(panel: Any) -> None:
    drawn = pd.DataFrame(panel.columns)
    row, end = cb.serve("llama3_8b", "h100-sxm", **CALL).table.iloc[0], drawn[drawn["what"] == "capacity"]
    for name in ("TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95"):
        line = drawn[(drawn["what"] == "line") & (drawn["series"] == name)].astype({"rate": float, "ms": float})
        assert line["ms"].is_monotonic_increasing and line["rate"].max() < float(end["rate"].iloc[0])
        here = drawn[(drawn["what"] == "here") & (drawn["series"] == name)].iloc[0]
        assert here["ms"] == pytest.approx(1e3 * row[name.lower().replace(" ", "_")], rel=1e-5)
    assert float(end["rate"].iloc[0]) == pytest.approx(row["capacity"], rel=1e-5)
    assert set(drawn.loc[drawn["what"] == "limit", "ms"]) == {1000, 50}


def test_costs_are_those_of_sizing_each_kind(panel: Any) -> None:
    panel.update(picture="costs")
    rows = panel.frame.set_index("accelerator")
    for kind in ("h100-sxm", "h200-sxm"):
        alone = cb.serve("llama3_8b", kind, **CALL).table.iloc[0]
        assert rows.loc[kind, "usd_per_million_output"] == pytest.approx(alone["usd_per_million_output"])
        assert rows.loc[kind, "devices"] == alone["devices"]
    drawn = pd.DataFrame(panel.columns)
    best, title = drawn.loc[drawn["verdict"] == "cheapest feasible", "row"], panel.shown["signals"]["live_title"]
    hourly = rows.loc[rows["meets"].astype(bool), "usd_per_hour"]
    cheapest = rows.loc[hourly.idxmin(), "name"]
    # One whose interval overlaps with others' is named first, but not as the winner.
    first = best.iloc[0] if len(best) else title.partition(",")[0]
    assert title.startswith(first) and cheapest.startswith(first)
    assert (len(best) == 1) != ("cannot be distinguished" in title)


def test_memory_holds_weights_and_what_is_left(panel: Any) -> None:
    panel.update(picture="memory")
    drawn = pd.DataFrame(panel.columns).astype({"value": float})
    whole = drawn.groupby("row", sort=False)["value"].sum()
    assert whole.to_numpy() == pytest.approx(cb.accelerator("h100-sxm").memory_bytes / 2**30)
    weights = drawn[drawn["part"] == "weights"].set_index("row")["value"]
    two_bytes = 2 * cb.model("llama3_8b").ops.parameter_count / 2**30
    assert weights.iloc[0] == pytest.approx(two_bytes, rel=0.01)
    assert weights["TP 2"] == pytest.approx(two_bytes / 2, rel=0.01)
    assert weights["weights in int4"] < weights["weights in fp8"] < weights.iloc[0]


def test_memory_holds_more_requests_of_layers_with_a_window() -> None:
    """16,384 tokens of a request: all are kept in each layer of version 0.2, and 4,096 of version 0.1."""
    held = []
    for model in ("mistral_7b_v0.2", "mistral_7b"):
        panel = cb.panels.serving(model, prompt=15_384, answer=1_000, users=10, ttft=30_000, tpot=500)
        panel.update(picture="memory")
        text = next(each for each in pd.DataFrame(panel.columns)["text"] if isinstance(each, str) and each)
        held.append(float(text.split()[0].replace(",", "")))
    assert held[1] == pytest.approx(4 * held[0], rel=0.05)


def test_more_users_take_more_devices_and_a_tighter_limit_costs_more(panel: Any) -> None:
    panel.update(users=5000)
    loose = panel.frame.iloc[0]
    panel.update(tpot=20)
    tight = panel.frame.iloc[0]
    assert tight["devices"] > loose["devices"] > 1
    assert tight["usd_per_million_output"] > loose["usd_per_million_output"]


def test_limits_that_are_missed_are_said(panel: Any) -> None:
    panel.update(devices=1, users=500, tpot=10)
    assert "the SLO (TPOT) is missed" in panel.answer and not panel.frame["meets"].iloc[0]
    panel.update(devices="", tpot=50)
    assert "is missed" not in panel.answer


def test_a_missing_price_is_said_and_can_be_given(panel: Any) -> None:
    panel.update(accelerator="gb200")
    assert "at an unknown price" in panel.answer and "[no price]" in repr(panel)
    panel.update(hourly=10)
    assert " per million output tokens" in panel.answer and "[your price]" in repr(panel)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tpot": 1}, ["TPOT limit = 0.001 s: an idle engine of", "give"]),
        ({"ttft": 10}, ["TTFT limit = 0.01 s: an idle engine of"]),
        (
            {"model": "gpt2", "prompt": 900, "answer": 400},
            ["Prompt + answer = 1,300 tokens, but GPT-2 has positions for 1,024", "give fewer"],
        ),
        ({"model": "resnet50"}, ["resnet50"]),
        ({"accelerator": "h100-sxn"}, ["h100-sxn", "nearest"]),
        ({"precision": "fp8", "accelerator": "a100-sxm-80gb"}, ["fp8"]),
        ({"users": 0.5}, ["Users", "from 1 to"]),
        ({"policy": "first come"}, ["first come"]),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"think": 10, "policy": "prefill first", "precision": "fp8", "kv": "fp8", "picture": "memory"},
        {"accelerator": {"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}, "hourly": 3, "ttft": None, "think": 60},
        {"model": "llama3_70b", "users": 100, "devices": 8, "prompt": 2048},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.serving(**state)
    assert panel.shown["error"] == "", panel.answer
    ast.parse(panel.code)
    first, second = panel.code.splitlines()
    assert repr(eval(first, {"cb": cb})) == repr(panel)
    row = eval(second, {"cb": cb}).table.iloc[0]
    assert panel.answer.startswith(f"{row['devices']:,} ") and row["ttft_p95"] == panel.frame["ttft_p95"].iloc[0]


def test_formats_that_the_accelerator_lacks_say_so(panel: Any) -> None:
    panel.update(accelerator="a100-sxm-80gb")
    assert "fp8" in panel.shown["off"]["precision"] and "int4" not in panel.shown["off"]["precision"]


def test_a_decode_step_is_of_one_request_at_least(panel: Any) -> None:
    """Few users, who think: an engine answers less than one request on average, but a step has one."""
    panel.update(users=1, think=60)
    assert 0 < panel.frame["batch"].iloc[0] < 0.5
    assert panel.shown["parts_title"] == "One decode step at batch 1 per engine, without prompts"
