"""The comparison with other tools: questions, exchange and scores on a tool of our own, and the stored tables.

No other tool is needed here; ``make peers`` asks them.
"""

import importlib
import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import peer_exchange
import peer_questions
import peer_run
import peer_scores
import pytest
from peer_exchange import BATCH, DECODE, FIRST_TOKEN, NEXT_TOKEN, STEP, UNITS, Refused

from cookbook.publish.refresh import marks

TOOLS = peer_scores.read(peer_scores.TOOLS)
STORED = peer_scores.read(peer_scores.SCORES)
ADAPTERS = sorted({row["adapter"] for row in TOOLS if row["adapter"]})
TOLD = {row["tool"]: row for row in TOOLS}
ASKED = [row["tool"] for row in TOOLS if row["adapter"]]
REMEDY = "run python tests/benchmarks/peers/peer_run.py --score"
# A tool that prints beside its answers, refuses, fails, and answers nonsense.
FAKE = """
from peer_exchange import Refused, exchange

def answer(question):
    print("noise on standard output")
    if question["devices"] > 1:
        raise Refused("takes one device only")
    if question["batch"] == 2:
        raise MemoryError("the model needs more memory than there is")
    return question["batch"] - 3 if question["batch"] < 4 else 10 * question["batch"]

exchange(answer)
"""


def question(name, **changes):
    """Return a question for the tool of our own."""
    return {"id": name, "kind": DECODE, "devices": 1, "batch": 4, **changes}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A tool of our own, as `peer_run` asks one: its adapter in a folder, this interpreter in place of another."""
    (tmp_path / "ask_fake.py").write_text(FAKE, encoding="utf-8")
    monkeypatch.setattr(peer_run, "FOLDER", tmp_path)
    monkeypatch.setattr(peer_run, "install", lambda tool: (sys.executable, tmp_path))
    monkeypatch.setitem(peer_run.OFFLINE, "PYTHONPATH", os.path.dirname(peer_exchange.__file__))
    return {"tool": "fake", "adapter": "ask_fake.py", "version": "1", "licence": "MIT", "settings": "none", "url": ""}


def test_a_tool_is_asked_in_an_interpreter_of_its_own(fake):
    questions = [question("a"), question("b", devices=2), question("c", batch=2), question("d", batch=3)]
    records = peer_run.ask(fake, [json.dumps(one) for one in questions])
    assert [record["id"] for record in records] == ["a", "b", "c", "d"]
    assert (records[0]["value"], records[0]["unit"]) == (40, "tokens/s")
    reasons = [record.get("refused") for record in records]
    assert reasons == [None, "takes one device only", "does not fit by its count of memory", "answers 0.0"]
    assert all(0 <= record["seconds"] < 5 for record in records)


def test_refusals_are_counted_with_their_reasons(fake):
    questions = [question("a"), question("b", devices=2), question("c", devices=2), question("d", batch=2)]
    records = peer_run.ask(fake, [json.dumps(one) for one in questions])
    noted = peer_run.notes(fake, records, pd.DataFrame({"kind": [DECODE] * 4}))
    assert noted["fake", DECODE]["reasons"] == ("takes one device only (2); does not fit by its count of memory (1)")
    assert noted["fake", DECODE]["us_per_answer"] > 0 and noted["fake", STEP]["us_per_answer"] == ""


def test_a_tool_that_cannot_be_installed_or_stops_leaves_its_answers(fake, monkeypatch, capsys):
    def fails(tool):
        raise subprocess.CalledProcessError(1, "uv")

    (peer_run.FOLDER / "ask_fake.py").write_text("raise SystemExit(3)", encoding="utf-8")
    assert peer_run.ask(fake, ["{}"]) is None
    monkeypatch.setattr(peer_run, "install", fails)
    assert peer_run.ask(fake, ["{}"]) is None
    assert "stopped with 3" in (told := capsys.readouterr().out) and "not installed" in told


def test_an_unknown_tool_is_refused_with_those_that_can_be_asked():
    with pytest.raises(SystemExit, match=r"no adapter of abacus; choose from .*llmfit"):
        peer_run.main(["abacus"])


def table_of(**columns):
    """Return a table of answers to four questions, two of each publisher, measured 100 and predicted 110 by us."""
    names = {"id": list("abcd"), "kind": DECODE, "publisher": ["one", "one", "two", "two"], "unit": "tokens/s"}
    return pd.DataFrame({**names, "measured": 100.0, peer_scores.OURS: 110.0, **columns})


def test_scores_are_those_computed_by_hand():
    line = peer_scores.score(table_of(fake=[100.0, 150.0, 120.0, np.nan]), "fake", DECODE)
    assert (line["asked"], line["answered"], line["publishers"]) == (4, 3, 2)
    assert line["median_error"] == pytest.approx(0.2) and line["within_25"] == pytest.approx(2 / 3)
    assert line["median_ratio"] == pytest.approx(1.2) and line["nearer"] == pytest.approx(1 / 3)
    assert line["our_median_error"] == pytest.approx(0.1) and line["our_within_25"] == 1
    # Means of publishers are 25 and 20 %, of which the first counts twice: it has two rows, the second one.
    assert line["worse_by"] == pytest.approx((2 * 0.25 + 0.2) / 3 - 0.1)


def test_a_tool_without_an_answer_is_scored_as_refusing_all():
    line = peer_scores.score(table_of(fake=np.nan), "fake", DECODE)
    assert line == {"tool": "fake", "kind": DECODE, "asked": 4, "answered": 0, "publishers": 0}
    assert peer_scores.score(table_of(), "fake", STEP)["asked"] == 0


def test_losses_are_named_and_only_those():
    lines = peer_scores.scores(table_of(better=100.0, worse=200.0), {})
    cells = [{name: str(peer_scores._cell(line.get(name, ""))) for name in peer_scores.COLUMNS} for line in lines]
    enough = [{**row, "answered": "9"} if row["answered"] == "4" else row for row in cells]
    assert "**decode, better**" in (told := peer_scores.losses(enough)) and "worse**" not in told
    assert peer_scores.losses(cells).startswith("On these questions, no other tool")


def test_time_of_a_batch_and_context_are_those_computed_by_hand():
    asked = {"batch": 8, "input_tokens": 100, "output_tokens": 11}
    assert peer_exchange.batch_rate(asked, 1.0, 0.1) == pytest.approx(8 * 11 / 2)
    assert peer_exchange.middle_context(asked) == 105


def test_latencies_of_evaluated_rows_turn_over():
    """The tables of evaluated rows contain rates, so a rate that is predicted too high is a latency too low."""
    outcome = {"full": math.log(2)}
    assert peer_questions._outcome(50.0, "TTFT ms p50", outcome) == pytest.approx((0.05, 0.025))
    assert peer_questions._outcome(50.0, "output tokens/s", outcome) == pytest.approx((50, 100))


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_loads_without_its_tool_and_refuses_what_it_does_not_predict(name):
    adapter = importlib.import_module(name.removesuffix(".py"))
    assert adapter.__doc__
    with pytest.raises(Refused, match="predicts no poem"):
        adapter.answer({"id": "a", "kind": "poem"})


def test_the_tools_are_pinned_and_nine_are_asked():
    assert len(ASKED) == 9 and len({row["tool"] for row in TOOLS}) == len(TOOLS)
    for row in TOOLS:
        assert bool(row["adapter"]) != bool(row["not_asked"]), row["tool"]
        assert row["url"].startswith("https://"), row["tool"]
        for requirement in row["requirements"].split():
            assert re.fullmatch(r"[\w-]+==[\w.]+|git\+https://\S+@[0-9a-f]{40}", requirement), requirement
        if row["adapter"]:
            assert (peer_scores.FOLDER / row["adapter"]).exists() and row["settings"] and row["licence"]


def test_the_stored_scores_have_all_tools_and_kinds():
    assert list(STORED[0]) == list(peer_scores.COLUMNS)
    pairs = [(row["tool"], row["kind"]) for row in STORED]
    assert pairs == [(tool, kind) for tool in [peer_scores.OURS, *sorted(ASKED)] for kind in UNITS]
    for row in STORED:
        told = f"{row['tool']}, {row['kind']}"
        assert 0 <= int(row["answered"]) <= int(row["asked"]) and int(row["asked"]) > 0, told
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["date"]) and row["version"] and row["settings"], told
        assert bool(row["reasons"]) == (int(row["answered"]) < int(row["asked"])), told
        own = TOLD.get(row["tool"], row)
        assert all(row[name] == own[name] for name in ("version", "licence", "settings", "url")), f"{told}: {REMEDY}"
        refusals = sum(int(count) for count in re.findall(r"(?:^|; )(\d+) ", row["reasons"]))
        assert refusals <= int(row["asked"]) - int(row["answered"]), told
        for name in ("median_error", "within_25", "median_ratio", "us_per_answer"):
            assert bool(row[name]) == (int(row["answered"]) > 0), (told, name)


def test_the_stored_scores_are_those_of_the_stored_answers():
    """Numbers as computed from answers.csv, whose numbers have four digits."""
    recorded = peer_scores.recorded_before()
    for row, line in zip(STORED, peer_scores.scores(peer_scores.answers(), recorded), strict=True):
        for name in peer_scores.COLUMNS:
            value, told = line.get(name, ""), f"{row['tool']}, {row['kind']}, {name}: {REMEDY}"
            if isinstance(value, float):
                assert float(row[name]) == pytest.approx(value, rel=1e-3, abs=1e-3), told
            else:
                assert row[name] == str(value), told


def test_the_page_shows_the_stored_scores():
    page = peer_scores.PAGE.read_text(encoding="utf-8")
    for part, text in peer_scores.parts_of_page(STORED, TOOLS).items():
        start, end = marks(part)
        assert page.partition(start)[2].partition(end)[0] == f"\n{text}", f"{part}: {REMEDY}"


@pytest.mark.all
def test_stored_outcomes_and_our_predictions_are_those_of_the_tables():
    stored = peer_scores.answers()
    current = peer_run.with_current_outcomes(stored)
    assert current["id"].tolist() == stored["id"].tolist(), REMEDY
    for name in ("measured", peer_scores.OURS):
        assert current[name].to_numpy() == pytest.approx(stored[name].to_numpy(), rel=1e-3), f"{name}: {REMEDY}"


@pytest.mark.all
def test_questions_are_complete_and_contain_no_outcome():
    rows = peer_questions.questions()
    assert set(rows["kind"]) == set(UNITS) and rows["id"].is_unique
    assert rows.groupby(["kind", "publisher"]).size().max() <= peer_questions.PER_PUBLISHER
    for row in rows.itertuples():
        asked = json.loads(row.question)
        served = row.kind in (DECODE, BATCH, FIRST_TOKEN, NEXT_TOKEN)
        needed = {"batch", "input_tokens", "output_tokens", "weights", "cache", "tp"} if served else {"global_batch"}
        assert needed < set(asked) and not {"measured", "predicted", "publisher"} & set(asked), row.id
        assert (asked["id"], asked["kind"], asked["unit"]) == (row.id, row.kind, UNITS[row.kind])
        assert 1e7 < asked["model"]["parameters"] < 5e12 and asked["model"]["names"], row.id
        assert 1e9 < asked["device"]["memory"] < 1e12 and 1e10 < asked["device"]["memory_bandwidth"] < 1e14, row.id
        assert row.measured > 0 and row.predicted > 0, row.id
