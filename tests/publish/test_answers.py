"""The page that answers without a kernel: tables of the package's answers, in one file that fetches nothing."""

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path

import pytest

import cookbook as cb
from cookbook.catalog.commands import launch, model_id
from cookbook.publish import answers
from cookbook.publish.offline import DIGITS, packed

FEW = answers.Choices(("rtx-4090", "apple-m2"), ("llama3_8b",), ("llama3_8b",), ("h100-sxm",))


@pytest.fixture(scope="module")
def content():
    return answers.content(FEW)


def test_a_table_stores_each_value_once_and_all_states(content):
    cost = content["cost"]
    assert [name for name, _, _ in cost["axes"]] == ["model", "on", "load", "weights"]
    assert len(cost["pool"]) == len({json.dumps(value) for value in cost["pool"]})
    for path, axes, width, values, codes in cost["fields"]:
        states = 1
        for axis in axes:
            states *= len(cost["axes"][axis][1])
        assert len(codes) == width * states, path
        assert set(codes) <= set(DIGITS) and all(value < len(cost["pool"]) for value in values)


def test_many_values_are_positions_in_the_pool_themselves():
    found = packed(({"a": at, "b": at % 2} for at in range(200)), [200])
    (_, axes, width, values, codes), (_, _, narrow, two, _) = found["fields"]
    assert (axes, width, values, narrow, two) == ([0], 2, [], 1, [1, 2])
    at = 150
    position = DIGITS.index(codes[2 * at]) * len(DIGITS) + DIGITS.index(codes[2 * at + 1])
    assert found["pool"][position] == at


def test_a_check_of_the_page_is_the_command_that_the_engine_table_writes(content):
    software = cb.planning.what_runs("rtx-4090", models=["llama3_8b"]).assumed.taken["software"]
    engine, (prompt, answer) = software.partition(" (")[0], answers.REQUESTS["128-128"]
    check = {"input_len": prompt, "output_len": answer, "concurrency": 1, "in_flight": 1, "kv_needed": prompt + answer}
    named = launch("serve", engine, {"network": ("llama3_8b", "Llama 3 8B")}, check).verify
    assert content["verify"][software]["128-128"].replace("MODEL", model_id("llama3_8b", "Llama 3 8B")) == named


def test_every_source_has_a_title_and_every_price_its_dates(content):
    for device in content["devices"].values():
        assert device["sources"] and all(content["sources"][key][0] for key in device["sources"])
        assert bool(device["price"]) == bool(device["dates"]) == (device["usd"][0] is not None)


def test_every_choice_can_be_answered():
    choices, numbers = answers.every_choice(), {2: "two", 3: "three"}
    assert choices.devices[0] == "rtx-4090" and len(choices.devices) == len(set(choices.devices)) > 100
    page = (Path(__file__).parents[2] / "docs" / "without-a-kernel.md").read_text(encoding="utf-8")
    assert f"| {len(choices.models)} language models, {numbers[len(answers.NEEDED)]} lengths" in page
    loads, formats = numbers[len(answers.LOADS)], numbers[len(answers.WEIGHTS)]
    assert f"| {len(choices.served)} models, {len(choices.on)} devices, {loads} loads, {formats} formats" in page
    assert all(cb.planning.hourly_usd(name).rows for name in choices.on), "costs need a dated price"


def test_a_device_on_which_nothing_runs_is_left_out():
    nothing = answers.Choices(("rtx-4090", "cerebras-wse3"), (), (), ())
    running = answers.content(nothing)["runs"]
    assert running["axes"][0][1] == ["rtx-4090"]


def test_the_page_is_one_file_whose_policy_allows_its_own_script_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "content", lambda choices, executor: {"text": "</script><b>"})
    page = answers.answers(tmp_path / "deep" / "answers", FEW)
    text = page.read_text(encoding="utf-8")
    assert [path.name for path in page.parent.iterdir()] == ["index.html"]
    assert "default-src 'none'" in text and len(re.findall(r"'sha256-[\w+/=]{44}'", text)) == 1
    assert not re.search(r"\b(src|href|action)=\"?https?:|@import|url\(", text)
    assert text.count("</script>") == 2
    packed = re.search(r'<script type="text/plain" id="data">([\w+/=]+)</script>', text)
    assert packed and json.loads(gzip.decompress(b64decode(packed[1]))) == {"text": "</script><b>"}
