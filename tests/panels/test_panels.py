"""Panels without a browser: what they say, and that no input breaks them."""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pandas as pd
import pytest

import cookbook as cb
from cookbook.catalog import calls
from cookbook.panels import controls, shell
from cookbook.panels.shell import MOST_ROWS, sentence
from cookbook.panels.text import levels
from cookbook.units import dollars

OWN = {
    "input": [3, 32, 32],
    "layers": [
        {"layer": "conv", "out": 8, "kernel": 3, "bias": False},
        {"layer": "flatten"},
        {"layer": "linear", "out": 10},
    ],
}
FOUNDING = {"model": "resnet152", "batch": 32, "target_seconds": 3600.0}


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("model_zoo", **FOUNDING)


def test_a_language_model_is_told_in_tokens() -> None:
    """Six FLOP a parameter and token, and what attention adds; 16 bytes a parameter before the first activation."""
    panel = cb.panels.model_zoo("llama3_8b", tokens=1e9, seq=8192, target_seconds="2 d")
    parameters = cb.model("llama3_8b").ops.parameter_count
    need = panel._view.kept
    assert 1 < need.total_flop / (6 * parameters * 1e9) < 1.1
    assert (
        "1 epoch of 1 billion tokens (" in panel.answer and "in 2 d." in panel.answer and "per token)" in panel.answer
    )
    assert "MAC" not in panel.answer and "sequences" not in panel.answer
    assert need.memory_bytes > 16 * parameters
    assert panel.shown["off"]["tokens"] == {} and "reads tokens" in panel.shown["off"]["samples"]["*"]
    panel.update(compare=["resnet50"])
    assert panel.shown["off"]["samples"] == {} == panel.shown["off"]["tokens"]
    panel.update(model="resnet50")
    assert "does not read tokens" in panel.shown["off"]["tokens"]["*"]


def test_fewer_tokens_than_a_sequence_are_told() -> None:
    panel = cb.panels.model_zoo("llama3_8b", tokens=1e5, seq=2**20)
    assert "Tokens = 100,000 are less than one sequence of 1,048,576" in panel.answer


def test_a_rate_far_beyond_a_peak_is_a_multiple() -> None:
    panel = cb.panels.model_zoo("llama3_8b", tokens=1e12, target_seconds="1 min", accelerators=["rtx-4090"])
    panel.receive({"do": "open", "what": "table"})
    shown = " ".join([*panel.shown["table"]["rows"][0], *panel.columns["text"], panel.answer])
    assert "its peak" in shown and not re.search(r"[\d,]{4,} %", shown)


def test_the_founding_example(panel: Any) -> None:
    assert "ResNet-152" in panel.answer
    assert "14,000,000 images (" in panel.answer and "in 1 h." in panel.answer
    assert "132 TMAC/s; 1 MAC = 2 FLOP" in panel.answer
    assert "263 TFLOP/s" in panel.answer


def test_the_answer_is_the_one_call(panel: Any) -> None:
    values = panel.values
    need = cb.requirements("resnet152", batch=32, accelerators=values["accelerators"])
    assert cb.human(need.needed_flops, "FLOP/s") in panel.answer
    assert cb.human(need.memory_bytes, "iB") in panel.answer
    assert list(panel.frame["key"]) == list(need.devices["key"])


def test_larger_models_fit_only_smaller_batches(panel: Any) -> None:
    panel.update(model="resnet18")
    small = panel.frame.set_index("key")["largest_batch"]
    panel.update(model="vgg19")
    assert (panel.frame.set_index("key")["largest_batch"] < small).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "resnext5O_32x4d!"}, ["resnext5O_32x4d!", "nearest"]),
        ({"batch": -4}, ["Batch = -4", "1 to 65,536"]),
        ({"batch": "many"}, ["batch", "many"]),
        ({"batch": 2.5}, ["whole number"]),
        ({"target_seconds": "0 h"}, ["range", "1 min"]),
        ({"precision": "fp13"}, ["fp13", "bf16"]),
        ({"precision": "int8"}, ["int8"]),
        ({"accelerators": ["h100-sxn"]}, ["h100-sxn", "nearest"]),
        ({"accelerators": []}, ["accelerators"]),
        ({"accelerators": [{"like": "h100-sxm", "mem_bandwith": "4 TB/s"}]}, ["mem_bandwith"]),
        ({"accelerators": ["h100-sxm"] * 9}, ["at most 8"]),
        ({"model": {"custom": "[{"}}, ["not valid JSON"]),
        ({"model": {"input": [3, 8, 8], "layers": [{"layer": "konv"}]}}, ["konv"]),
        ({"epochs": 0}, ["Epochs", "range"]),
        ({"tokens": "many"}, ["Tokens", "many"]),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(panel: Any, change: dict[str, Any], words: list[str]) -> None:
    before, frame = panel.code, panel.frame
    panel.update(**change)
    assert all(word.lower() in panel.answer.lower() for word in words), panel.answer
    assert "\n" not in panel.answer and "Traceback" not in panel.answer and panel.answer.endswith(".")
    assert panel.code == before
    pd.testing.assert_frame_equal(panel.frame, frame)
    assert panel.shown["error"] and panel.columns
    panel.reset()
    assert panel.shown["error"] == "" and panel.code == before


def test_a_panel_that_starts_wrong_says_so_and_can_be_mended() -> None:
    panel = cb.panels.model_zoo(model="resnet5O")
    assert "resnet5O" in panel.answer
    panel.update(model="resnet50")
    assert panel.answer.startswith("ResNet-50")


def test_a_zero_that_is_no_amount_is_shown_as_its_word() -> None:
    price = controls.Slider("p", "Price", "g", (0.0, 1.0, 5.0), unit="$/h", whole=False, zero="list price")
    assert price.show(0)["text"] == "list price" and price.describe()["stops"][0] == [0.0, "list price"]
    assert price.told(0) == price.said(0) == "list price" and price.told(5) == "$5/h"
    budget = controls.Slider("b", "Budget", "g", (0.0, 1.0), unit="million $", whole=False)
    assert (price.told(2.5), budget.told(0.5), budget.told(0.05)) == ("$2.50/h", "$0.50 million", "$0.05 million")
    assert price.read("list price") == price.read(" List Price ") == price.read("0") == price.read("0 $/h") == 0
    with pytest.raises(ValueError, match="is not a number"):
        price.read("list")
    plain = controls.Slider("p", "Price", "g", (0.0, 1.0, 5.0), unit="$/h", whole=False)
    assert plain.show(0)["text"] == "0"
    with pytest.raises(ValueError, match="is not a number"):
        plain.read("list price")


def test_what_a_notebook_keeps_says_that_cells_must_be_run(panel: Any) -> None:
    """Whoever opens a link sees the state that was saved, which is not that of the link."""
    data, _ = panel._repr_mimebundle_()
    assert "Saved view: run all cells" in data["text/html"]


def test_room_that_only_repeats_the_settings_is_none() -> None:
    full = cb.panels.finetuning(accelerator="rtx-4080", method="qlora", model="qwen2.5_14b")
    row = full.frame.query("method == 'qlora' and devices == 1").iloc[0]
    assert row["fits"] == "likely" and row["largest_seq"] == full.values["seq"]
    assert "Memory left: neither sequences twice" in full.answer and "still fit" not in full.answer
    spacious = cb.panels.finetuning(accelerator="h100-sxm", method="qlora")
    row = spacious.frame.query("method == 'qlora' and devices == 1").iloc[0]
    assert row["largest_seq"] > spacious.values["seq"] and f"{row['largest_seq']:,} tokens" in spacious.answer


def test_a_download_is_named_after_its_panel_chart_and_case(panel: Any) -> None:
    before = panel.shown["file"]
    assert before.startswith("model-zoo-") and "resnet-152" in before
    panel.update(model="vgg19")
    assert panel.shown["file"] != before and "vgg-19" in panel.shown["file"]


SMI = "timestamp, utilization.gpu [%], power.draw [W]\n" + "2026/01/01 00:00:00.000, 33 %, 100.0 W\n" * 3


def test_the_clinic_takes_files_of_ones_own(tmp_path: Path) -> None:
    """By path, alone or beside another, with the same diagnosis as by call; a file that has changed is read again."""
    trace, smi, log = cb.measure.patient("boris")[0], tmp_path / "smi.csv", tmp_path / "log.csv"
    smi.write_text(SMI, encoding="utf-8")
    panel = cb.panels.clinic([trace, smi])
    assert "GPU busy 33 % of the time" in panel.answer and not panel.shown["error"]
    assert eval(panel.code.splitlines()[1], {"cb": cb}).answer.replace("**", "") == panel.answer
    assert repr(eval(panel.code.splitlines()[0], {"cb": cb})) == repr(panel)
    alone = cb.panels.clinic(str(smi))
    assert alone.answer.startswith("GPU busy 33 % of the time.") and alone.columns["text"] == ["no file has steps"]
    for count, cause in ((60, "nothing"), (120, "saving")):
        rows = [f"{n},{2.0 if cause == 'saving' and n % 10 == 0 else 0.5}" for n in range(count)]
        log.write_text("\n".join(["step,step_time_s", *rows]), encoding="utf-8")
        os.utime(log, (count, count))
        assert cb.panels.clinic(log).answer.lower().startswith(cause)
    many = cb.panels.clinic([str(tmp_path / f"{each}.json") for each in range(65)])
    assert "65 elements has more than 64" in many.answer, "refused before the first is read"
    gone = cb.panels.clinic(str(tmp_path / "gone.json"))
    assert "is no file" in gone.answer and gone.shown["error"]


def test_a_page_sends_the_text_of_a_trace_and_names_no_file() -> None:
    """A visitor of the app may paste or upload, within limits; a path is a name of no patient, and opens nothing."""
    panel = cb.panels.clinic()
    with gzip.open(cb.measure.patient("boris")[0], "rt") as file:
        text = file.read()
    send = lambda raw: panel.receive({"do": "set", "values": {"patient": raw}})  # noqa: E731
    send({"custom": text})
    assert panel.answer == cb.panels.clinic("boris").answer and panel.shown["state"]["patient"]["text"] == "your file"
    assert len(json.dumps(panel.shown)) < 20_000, "the text does not travel back with each answer"
    panel.update(stretches=3)
    assert not panel.shown["error"] and "your-file" in panel.code
    for raw, words in (
        ({"custom": ""}, "is empty"),
        ({"custom": "x" * 4_000_001}, "longer than 4,000,000 letters"),
        ({"custom": "{}"}, "no trace"),
        ("/etc/passwd", "No trace called"),
        (["/etc/passwd"], "is not a choice"),
        ({"paths": ["/etc/passwd"]}, "is no run"),
    ):
        send(raw)
        assert words in panel.shown["error"] and panel.shown["fixes"], raw
        assert "root:" not in json.dumps(panel.shown)


def test_a_misspelt_control_is_named_with_those_there_are(panel: Any) -> None:
    with pytest.raises(ValueError, match="has no control 'bach'; it has model, batch"):
        panel.update(bach=3)


def test_an_accelerator_without_the_number_format_is_marked_not_hidden(panel: Any) -> None:
    panel.update(accelerators=["v100-sxm2-16gb", "h100-sxm"], precision="bf16")
    assert list(panel.frame["key"]) == ["v100-sxm2-16gb", "h100-sxm"]
    assert "no bf16 peak known" in panel.columns["text"]


def test_a_number_format_that_none_has_is_off_with_its_reason(panel: Any) -> None:
    panel.update(accelerators=["v100-sxm2-16gb"], precision="fp16")
    off = panel.shown["off"]["precision"]
    assert "peak" in off["bf16"] and "does not train" in off["int8"] and "fp16" not in off


def test_no_control_changes_another(panel: Any) -> None:
    before = panel.values
    panel.update(precision="fp16")
    panel.update(model="vgg16")
    assert panel.values == {**before, "precision": "fp16", "model": "vgg16"}


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"model": "vgg16", "batch": 128, "target_seconds": "90 min", "picture": "memory"},
        {"model": OWN, "samples": 60_000},
        {"accelerators": ["h100-sxm", {"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}], "compare": ["alexnet"]},
        {"optimiser": "sgd", "recompute": "full", "epochs": 90, "picture": "zoo"},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.model_zoo(**FOUNDING | state)
    assert panel.shown["error"] == ""
    first, second = panel.code.splitlines()
    again = eval(first, {"cb": cb})
    assert repr(again) == repr(panel)
    need = eval(second, {"cb": cb})
    assert need.needed_flops == pytest.approx(cb.requirements(**_plain(panel.values)).needed_flops)
    assert cb.human(need.needed_flops, "FLOP/s") in panel.answer
    ast.parse(panel.code)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    model = values["model"]
    own = cb.layers(model["layers"], input=model["input"]) if isinstance(model, dict) else model
    names = ("batch", "precision", "optimiser", "samples", "epochs", "target_seconds", "recompute")
    return {"model": own, **{name: values[name] for name in names}}


def test_pin_compares_and_lets_go(panel: Any) -> None:
    panel.pin()
    panel.update(target_seconds="2 h", batch=64)
    assert "rate needed 0.50×" in panel.answer
    assert "Pinned needs" in panel.columns["row"]
    assert [part["name"] for part in panel.shown["ghost"]] == [part["name"] for part in panel.shown["parts"]]
    panel.pin()
    assert "pinned" not in panel.answer.lower() and panel.shown["ghost"] == []


def test_the_parts_add_up(panel: Any) -> None:
    total = sum(part["value"] for part in panel.shown["parts"])
    assert total == pytest.approx(cb.requirements("resnet152", batch=32).memory_bytes)
    assert all(part["formula"] for part in panel.shown["parts"])


def test_the_table_is_short_and_printed(panel: Any) -> None:
    panel.receive({"do": "open", "what": "table"})
    table = panel.shown["table"]
    assert 0 < len(table["rows"]) <= MOST_ROWS
    assert any("[TFLOP/s]" in column for column in table["columns"])
    assert "nan" not in json.dumps(table).lower()
    panel.update(picture="zoo")
    assert len(panel.shown["table"]["rows"]) == MOST_ROWS
    assert panel.shown["table"]["rows"][0][0].startswith("ResNet-152")


def test_the_csv_is_what_is_shown(panel: Any) -> None:
    text = panel.csv()
    read = pd.read_csv(io.StringIO(text))
    assert list(read["key"]) == panel.values["accelerators"]
    assert read["peak_flops"].max() > 1e14


def test_every_source_has_a_title(panel: Any) -> None:
    panel.receive({"do": "open", "what": "sources"})
    items = panel.shown["sources"]["items"]
    assert len(items) > 3 and all(title for title, _, _ in items)
    assert any("recalled" in note for _, _, note in items)


def test_the_messages_of_the_browser(panel: Any) -> None:
    panel.receive({"do": "set", "values": {"batch": "1,024", "target_seconds": "2 h"}, "seq": 7})
    assert (panel.values["batch"], panel.values["target_seconds"], panel.shown["seq"]) == (1024, 7200.0, 7)
    panel.receive({"do": "set", "values": {"batch": "lots"}, "seq": 8})
    assert panel.shown["state"]["batch"]["text"] == "lots" and panel.shown["error"]
    panel.receive({"do": "set", "values": {"batch": 64}, "seq": 9})
    assert panel.shown["state"]["batch"] == {"text": "64", "index": 6} and not panel.shown["error"]
    own = {"custom": "like=h100-sxm, mem_bandwidth=4 TB/s\nlike=a100-sxm-80gb, memory_bytes=40 GB"}
    panel.receive({"do": "set", "values": {"accelerators": ["t4", own]}, "seq": 10})
    assert list(panel.frame["mem_bandwidth"])[1] == 4e12
    assert panel.shown["state"]["accelerators"]["own"] == own["custom"]
    panel.receive({"do": "reset"})
    assert "pinned" not in panel.answer


def test_a_message_that_changes_nothing_is_answered_too(panel: Any) -> None:
    """Of two pages that show one panel, each waits for an answer to its own message of a number."""
    panel.receive({"do": "set", "values": {"batch": 64}, "seq": 1})
    answers: list[Any] = []
    panel.observe(answers.append, "shown")
    panel.receive({"do": "set", "values": {"batch": 64}, "seq": 1})
    assert len(answers) == 1


def test_one_message_holds_a_small_update(panel: Any) -> None:
    assert len(json.dumps(panel.shown)) < 12_000


def test_a_png_only_where_outputs_are_published(panel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COOKBOOK_STATIC", "1")
    data, _ = panel._repr_mimebundle_()
    assert data["text/plain"] == repr(panel) and len(data["image/png"]) > 10_000


def test_a_slider_reads_what_people_type() -> None:
    time = controls.Slider("t", "Time", "g", (60.0, 3600.0, 86400.0), whole=False, seconds=True)
    assert [time.read(text) for text in ("90 min", "1 d", 7200)] == [5400.0, 86400.0, 7200.0]
    size = controls.Slider("n", "Samples", "g", controls.one_two_five(1, 1e9), unit="images")
    assert [size.read(text) for text in ("14 M", "14,000,000", "1e3", "5 images")] == [14_000_000, 14_000_000, 1000, 5]
    assert size.show(3)["index"] == 1 and size.show(10**9)["index"] == len(size.stops) - 1


def test_a_sentence_is_one_line() -> None:
    assert sentence(KeyError("no such\n thing")) == "No such thing."
    assert sentence(ValueError()) == "ValueError."


SEQUENCE = {
    "layers": [
        {"layer": "embedding", "vocab": 1000, "features": 64},
        {"layer": "transformer_block", "heads": 4, "hidden": 256, "bias": False},
    ]
}
FOUR = ["a100-sxm-80gb", "h100-sxm", "mi300x", "b200-sxm"]


def test_a_network_of_ones_own_that_needs_a_sequence_can_be_given_one(panel: Any) -> None:
    panel.receive({"do": "set", "values": {"model": {"custom": json.dumps(SEQUENCE)}}, "seq": 1})
    assert "set Sequence (under More)" in panel.answer and "seq =" not in panel.answer.lower()
    assert panel.shown["off"]["seq"] == {}, "the control that mends it must not be off"
    panel.receive({"do": "set", "values": {"seq": "128"}, "seq": 2})
    assert panel.shown["error"] == "" and "of 128 tokens" in panel.answer
    panel.receive({"do": "set", "values": {"model": "resnet50"}, "seq": 3})
    assert "*" in panel.shown["off"]["seq"]


def test_a_bad_batch_does_not_hide_what_another_control_may_do(panel: Any) -> None:
    panel.update(batch="lots", model="bert_base", accelerators=["v100-sxm2-16gb"])
    assert panel.shown["error"] and panel.shown["off"]["seq"] == {}
    assert "peak" in panel.shown["off"]["precision"]["bf16"]


@pytest.mark.parametrize(
    ("name", "before", "good"),
    [
        ("model", '{"layers": [oops', json.dumps(OWN, indent=2)),
        ("accelerators", "like h100-sxm", "like=h100-sxm,  mem_bandwidth = 4 TB/s"),
    ],
)
def test_what_was_typed_stays_letter_by_letter(panel: Any, name: str, before: str, good: str) -> None:
    for text, wrong in ((before, True), (f"{before} again", True), (good, False)):
        raw = {"custom": text}
        panel.receive({"do": "set", "values": {name: ["t4", raw] if name == "accelerators" else raw}, "seq": 1})
        assert panel.shown["state"][name]["own"] == text
        assert bool(panel.shown["error"]) is wrong
    panel.update(batch=64)
    assert panel.shown["state"][name]["own"] == good
    panel.update(**{name: "t4" if name == "accelerators" else "resnet50"})
    assert panel.shown["state"][name]["own"] == ""


EVERY = {
    "model": ["resnet50", OWN, {**SEQUENCE, "title": 'Mine "é"'}, cb.model("vgg16"), cb.model("resnet50", image=448)],
    "batch": [64, "1,024"],
    "precision": ["fp16"],
    "samples": ["14 M"],
    "target_seconds": ["90 min", 5400],
    "accelerators": [
        "h100-sxm",
        "t4, h100-sxm",
        [cb.accelerator(like="h100-sxm", mem_bandwidth="4 TB/s")],
        [{"like": "t4", "name": "Mine", "peak_fp16": "100 TFLOP/s"}],
        cb.accelerator("t4"),
    ],
    "compare": ["alexnet", ["alexnet", "vgg19"], []],
    "seq": [None, 256],
    "optimiser": ["sgd"],
    "epochs": [90],
    "recompute": ["full"],
    "tokens": ["5 G"],
    "picture": ["memory", "zoo"],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, marks=() if place == 0 or isinstance(value, dict) else pytest.mark.all)
        for name, values in EVERY.items()
        for place, value in enumerate(values)
    ],
)
def test_the_copied_code_is_python_for_every_control(name: str, value: Any) -> None:
    assert set(EVERY) == set(cb.panels.model_zoo().values)
    extra = {"seq": 64} if isinstance(value, dict) and value.get("title") else {}
    panel = cb.panels.model_zoo(**FOUNDING | {name: value} | extra)
    assert panel.shown["error"] == ""
    first, second = panel.code.splitlines()
    again, need = eval(first, {"cb": cb}), eval(second, {"cb": cb})
    assert repr(again) == repr(panel) and again.values.keys() == panel.values.keys()
    theirs, ours = (n.devices["needed_fraction"].to_numpy() for n in (need, panel._view.kept))
    assert theirs == pytest.approx(ours, nan_ok=True)
    assert need.memory_bytes == pytest.approx(panel._view.kept.memory_bytes)


def test_a_network_that_only_the_reader_has_is_named_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = cb.layers(OWN["layers"], input=OWN["input"], title="Mine")
    panel = cb.panels.model_zoo(mine)
    assert panel.code.startswith("# my_model is the network that you gave this panel: Mine\n")
    space = {"cb": cb, "my_model": mine}
    exec(panel.code, space)
    monkeypatch.setattr(sys.modules["__main__"], "tiny", mine, raising=False)
    panel.update(batch=8)
    assert "model=tiny" in panel.code and "#" not in panel.code


def test_no_exponents_in_the_answer(panel: Any) -> None:
    panel.pin()
    panel.update(target_seconds="1 min", model="gpt3_175b", accelerators=["t4"], precision="fp16")
    assert "its peak" in panel.answer and "e+" not in panel.answer
    panel.update(target_seconds="365 d", model="lenet", samples=1000)
    panel.receive({"do": "open", "what": "table"})
    shown = panel.answer + json.dumps(panel.shown["table"]) + json.dumps(panel.columns["text"])
    assert not re.search(r"\de[-+]\d", shown)


def test_the_answer_names_the_condition_after_those_it_holds_for() -> None:
    panel = cb.panels.model_zoo(**FOUNDING, accelerators=FOUR)
    only = "A100 SXM4 80GB and H100 SXM5 80GB with fused operations only"
    assert f"4 of 4 are not ruled out: Instinct MI300X and B200 SXM 180GB; {only}." in panel.answer
    assert "could meet the target on its own" not in panel.answer
    assert panel._view.picture.title == "4 of 4 accelerators are not ruled out, 2 of them under a condition"
    panel.update(target_seconds="1 min")
    assert (
        "none of the 4 could meet the target on its own: even B200 SXM 180GB would need 7.0× its peak." in panel.answer
    )


def test_what_is_not_known_is_not_called_ruled_out() -> None:
    panel = cb.panels.model_zoo(accelerators=["b200-sxm", "v100-sxm2-16gb"])
    assert "Unknown: Tesla V100 SXM2 16GB, of which too little is known." in panel.answer
    assert "too little is known of 1" in panel._view.picture.title


def test_at_least_is_arithmetic_alone(panel: Any) -> None:
    panel.receive({"do": "open", "what": "table"})
    table = pd.DataFrame(panel.shown["table"]["rows"], columns=panel.shown["table"]["columns"])
    frame = panel.frame
    assert list(table["One epoch, at least"]) == [cb.human(s, "s") for s in frame["bound_seconds"]]
    assert list(table["Unfused, overlapped"]) == [cb.human(s, "s") for s in frame["unfused_overlap_seconds"]]
    assert frame["bound_seconds"].to_numpy() == pytest.approx(3600 * frame["needed_fraction"].to_numpy())
    assert all(words in panel._view.chips[0][1] for words in ("at the peak rate", "Winograd", "no efficiency"))
    assert "nothing can beat" not in panel._view.chips[0][1]


def test_how_many_measurements_is_said(panel: Any) -> None:
    panel.receive({"do": "open", "what": "table"})
    table = panel.shown["table"]
    cells = {row[0]: row[table["columns"].index("Measured matmul [% of peak]")] for row in table["rows"]}
    assert cells["H100 SXM5 80GB"].endswith("(n = 1)") and cells["Instinct MI300X"].endswith("(n = 2)")
    assert cells["TPU v4"] == "none"
    assert "12 % of peak|below the measured rates" in panel.columns["text"]


def test_more_than_the_peak_is_told_as_a_multiple(panel: Any) -> None:
    panel.update(model="llama3_8b", accelerators=["t4", "h100-sxm"], precision="fp16")
    for text, fraction in zip(panel.columns["text"][1:], panel.frame["needed_fraction"], strict=True):
        assert fraction > 1 and "× its peak|" in text and "%" not in text


def test_an_empty_sequence_shows_what_it_stands_for(panel: Any) -> None:
    panel.update(model="llama3_8b")
    assert panel.values["seq"] is None and "of 8,192 tokens" in panel.answer
    assert panel.shown["state"]["seq"]["text"] == "8,192"
    panel.update(seq="1,024")
    assert panel.shown["state"]["seq"]["text"] == "1,024"
    panel.update(seq="")
    assert panel.values["seq"] is None and panel.shown["state"]["seq"]["text"] == "8,192"
    panel.update(model="resnet50")
    assert panel.shown["state"]["seq"]["text"] == ""


def test_an_error_keeps_no_badge(panel: Any) -> None:
    assert panel.shown["chips"]
    panel.update(batch=0)
    assert panel.shown["chips"] == [] and "[" not in repr(panel).splitlines()[0]
    panel.update(batch=32)
    assert panel.shown["chips"]


def test_many_rows_keep_their_memory_sizes(panel: Any) -> None:
    panel.update(picture="memory", model="resnet50", batch=64, compare=["alexnet", "vgg16"])
    words = [text for text in panel.columns["text"] if text]
    assert len(words) == 9 and not any("|" in text for text in words)
    assert words[0].endswith(" GiB, batch 64") and all("iB" in text for text in words)
    assert any(re.fullmatch(r"80 GiB, fits batch [\d,]+", text) for text in words)


def test_the_zoo_speaks_of_the_networks_here() -> None:
    panel = cb.panels.model_zoo(picture="zoo")
    assert "of the networks here" in panel._view.picture.title and "per sample" in panel._view.picture.title
    zoo = cb.models().set_index("name")
    panel.update(model=zoo.index[zoo["how"] == "parameters only"][0])
    assert panel._view.chips[1][0] == "parameters verified, MAC not verified"


@pytest.mark.parametrize(
    ("change", "said", "unsaid"),
    [
        ({"batch": "abc"}, "Batch = 'abc' is not a number; give one from 1 to 65,536.", "TFLOP"),
        ({"batch": "8 h"}, "Batch = '8 h' is not a number", "28"),
        ({"target_seconds": "8"}, "Time to train = '8' has no unit; write 8 h", "target_seconds"),
        ({"target_seconds": "abc"}, "Time to train = 'abc' is not a time; write it as 90 min, 8 h or 3 d.", "GHz"),
        ({"target_seconds": 1}, "Time to train = 1 is outside its range; give a time from 1 min to 365 d.", "number"),
        ({"model": "no such"}, 'cb.table("models")', "catalog"),
        ({"precision": "int8"}, "Precision = 'int8'", "precision ="),
        ({"accelerators": []}, "Accelerators is empty; choose at least 1.", "[]"),
    ],
)
def test_messages_speak_of_what_stands_on_the_panel(panel: Any, change: Any, said: str, unsaid: str) -> None:
    panel.update(**change)
    assert said in panel.answer and unsaid not in panel.answer


def test_names_may_come_in_one_text() -> None:
    one = cb.panels.model_zoo(accelerators="h100-sxm", compare="alexnet")
    assert one.values["accelerators"] == ["h100-sxm"] and one.values["compare"] == ["alexnet"] and not one._error
    both = cb.panels.model_zoo(accelerators="Tesla K80 (board, 2x GK210), t4", compare="BERT base, pre-training")
    assert len(both.frame) == 2 and not both._error
    both.update(accelerators=cb.accelerator(like="t4", memory_bytes="32 GB"))
    assert not both._error and both.values["accelerators"] == [
        {"like": "t4", "name": "Tesla T4, changed", "memory_bytes": 32e9}
    ]


def test_a_board_does_not_look_like_one_memory() -> None:
    panel = cb.panels.model_zoo(accelerators="k80-board, k80-die, tpu-v2-8", precision="fp32", picture="memory")
    state, columns = panel.shown["state"]["accelerators"], panel.columns
    labels = ["Tesla K80 (board, 2x GK210)", "Tesla K80 (one GK210)", "TPU v2-8 (4 chips)"]
    assert state["labels"] == labels == columns["row"][-3:]
    assert "24 GiB in 2 memories" in columns["text"][-3] and "memories" not in columns["text"][-2]
    assert columns["note"][-3:] == ["2 separate memories, counted as one", "", "4 separate memories, counted as one"]
    assert "tpu-v2-8" not in cb.panels.model_zoo().values["accelerators"]


def test_sources_are_those_of_the_figures_used() -> None:
    panel = cb.panels.model_zoo(accelerators=["a30", {"like": "h100-sxm", "mem_bandwidth": "4 TB/s"}])
    panel.receive({"do": "open", "what": "sources"})
    items = panel.shown["sources"]["items"]
    for column in ("memory_bytes", "mem_bandwidth", "peak_bf16"):
        stated = cb.provenance("a30", column)
        titles = [cb.table("sources").set_index("key").loc[key, "title"] for key in stated.source.split(";")]
        notes = [note for title, _, note in items if title in titles]
        assert len(notes) == len(titles) and all("A30" in note for note in notes)
        assert all(("A30 (recalled)" in note) == (stated.how == "recalled") for note in notes), column
    assert not any("bandwidth of" in note and "H100" in note.partition("bandwidth of")[2] for _, _, note in items)
    assert items[-1] == ["Your own values for H100 SXM5 80GB, changed", "", "mem_bandwidth"]
    titles = dict(zip(cb.table("sources")["title"], cb.table("sources")["key"], strict=True))
    shown = {titles[title] for title, _, _ in items[:-1]}
    devices = {key for name in ("a30", "h100-sxm") for key in cb.accelerator(name).sources}
    assert "mlperf-training-v4.0" in devices - shown, "a source of other columns is not listed"
    panel.receive({"do": "open", "what": "table"})
    cells = dict(zip(panel.shown["table"]["columns"], panel.shown["table"]["rows"][0], strict=True))
    assert cells["Peak bf16 [TFLOP/s]"] == "165 (recalled)" and cells["Memory [GiB]"] == "24"


@pytest.mark.parametrize(
    ("make", "change", "words"),
    [
        ("model_zoo", {"compare": ["vgg16", "vgg19", "alexnet", "vgg20"]}, "'vgg20' is not a choice; nearest names:"),
        ("scaling", {"exchange": "rings"}, "All-reduce = 'rings' is not a choice; nearest names: flat ring"),
        ("accuracy", {"model": "without exchang"}, "is not a choice; nearest names: without exchange"),
        ("accuracy", {"publishers": ["nvida-nemo"]}, "'nvida-nemo' was evaluated; nearest names: nvidia-nemo"),
        ("host", {"machine": "hgx-h10"}, "No system topology called 'hgx-h10'; nearest names: hgx-h100"),
        ("scaling", {"compare": ["vgg16", "vgg19", "resnet18", "alexnet"]}, "has 4 entries; choose at most 3"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(
    make: str, change: dict[str, Any], words: str, made_once: Any
) -> None:
    panel = made_once(make)
    before = panel.columns
    panel.update(**change)
    assert words in panel.answer and panel.shown["error"]
    assert panel.columns == before  # the picture keeps its last valid state


def test_one_bad_control_leaves_the_others_as_they_are(panel: Any) -> None:
    panel.receive({"do": "set", "values": {"batch": "many"}})
    panel.receive({"do": "set", "values": {"epochs": "5"}})
    assert "Batch = 'many'" in panel.answer
    assert panel.shown["state"]["batch"] == {"text": "many", "index": 0}
    assert panel.shown["state"]["epochs"] == cb.panels.model_zoo(epochs=5).shown["state"]["epochs"]


@pytest.fixture
def tuning(made_once: Any) -> Any:
    return made_once("finetuning")


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("full", "with full fine-tuning does not fit 1 × GeForce RTX 4090: 123 of 24 GiB."),
        ("lora", "with LoRA likely fits 1 × GeForce RTX 4090: 18.7 of 24 GiB."),
        ("qlora", "with QLoRA fits 1 × GeForce RTX 4090: 9.11 of 24 GiB."),
    ],
)
def test_llama_3_8b_on_one_rtx_4090(tuning: Any, method: str, words: str) -> None:
    tuning.update(method=method)
    assert tuning.answer.startswith(f"Llama 3 8B {words}")
    assert len(words.split()) + 3 <= 20
    assert ("QLoRA (9.11 GiB)" in tuning.answer) == (method == "full") != ("one million tokens take" in tuning.answer)


def test_fine_tuning_by_part_adds_up_to_what_is_told(tuning: Any) -> None:
    table = cb.finetune("llama3_8b", "rtx-4090", 20e6, method=["full", "lora", "qlora"]).table.set_index("method")
    columns = pd.DataFrame(tuning.columns)
    drawn = columns[columns["role"] == "need"].groupby("row", sort=False)["bytes"].sum()
    assert list(drawn.index) == ["Full fine-tuning", "LoRA needs", "QLoRA"]
    assert drawn.to_numpy() == pytest.approx(table["memory_bytes"].to_numpy(), rel=1e-5)
    assert sum(part["value"] for part in tuning.shown["parts"]) == pytest.approx(table["memory_bytes"]["lora"])
    hours, usd = table["hours"]["lora"] / 20, table["usd"]["lora"] / 20
    assert f"and cost {dollars(usd)} (" in tuning.answer and f"take {cb.human(3600 * hours, 's')} " in tuning.answer


@pytest.mark.parametrize(
    "name, ends",
    [
        ("devices", (1, 8)),
        pytest.param("seq", (32, 2**17), marks=pytest.mark.all),
        pytest.param("micro_batch", (1, 256), marks=pytest.mark.all),
        pytest.param("rank", (1, 1024), marks=pytest.mark.all),
        pytest.param("optimiser", ("adam", "galore"), marks=pytest.mark.all),
        pytest.param("recompute", ("none", "full"), marks=pytest.mark.all),
        ("method", ("full", "qlora")),
        pytest.param("tokens", (0.1, 1e6), marks=pytest.mark.all),
        pytest.param("model", ("llama3_70b", "qwen3_32b"), marks=pytest.mark.all),
        pytest.param("accelerator", ("t4", "h200-sxm"), marks=pytest.mark.all),
    ],
)
def test_both_ends_of_a_control_of_fine_tuning_show_and_its_code_is_the_call(tuning: Any, name: str, ends: Any) -> None:
    assert {each.name for each in tuning._controls.values()} == set(tuning.values)
    answers = set()
    for end in ends:
        tuning.update(**{name: end})
        assert tuning.shown["error"] == ""
        first, second = tuning.code.splitlines()
        answers.add(tuning.answer)
        assert repr(eval(first, {"cb": cb})) == repr(tuning)
        table = eval(second, {"cb": cb}).table
        assert table["memory_bytes"].to_numpy() == pytest.approx(tuning.frame["memory_bytes"].to_numpy())
    assert len(answers) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "resnet50"}, ["Model", "resnet50"]),
        ({"devices": 9}, ["GPUs = 9", "1 to 8"]),
        ({"rank": 0}, ["Rank = 0"]),
        ({"method": "prefix"}, ["Method", "qlora"]),
        ({"seq": 1}, ["Sequence = 1", "32"]),
        ({"accelerator": "rtx-4091"}, ["rtx-4091", "nearest"]),
        ({"micro_batch": 1.5}, ["Micro-batch", "whole"]),
        ({"tokens": -1}, ["Tokens = -1"]),
        ({"accelerator": "epyc-7601"}, ["No memory size", "EPYC 7601"]),
    ],
)
def test_what_fine_tuning_cannot_use_is_told(tuning: Any, change: dict[str, Any], words: list[str]) -> None:
    tuning.update(**change)
    assert tuning.shown["error"] and all(word in tuning.answer for word in words), tuning.answer


@pytest.mark.parametrize("method, off", [("dpo", {"group", "prompt", "answer", "steps"}), ("grpo", {"seq", "tokens"})])
def test_dpo_and_grpo_show_the_phases_of_a_step(tuning: Any, method: str, off: set[str]) -> None:
    """Parts, table, code and file are those of the call; of GPUs that hold none of the ways the reason is told."""
    tuning.update(method=method, accelerator="h100-sxm", devices=8)
    first, second = tuning.code.splitlines()
    found = eval(second, {"cb": cb})
    own = found.table.iloc[0]
    assert tuning.answer.startswith(f"Llama 3 8B with {method.upper()} of all weights fits 8 × H100 SXM5 80GB: ")
    assert repr(eval(first, {"cb": cb})) == repr(tuning) and tuning.shown["picture"] == "phases"
    parts = {part["name"]: part["value"] for part in tuning.shown["parts"]}
    assert sum(parts.values()) == pytest.approx(own["step_seconds"]) and parts["training"] == own["training_seconds"]
    assert f"take {cb.human(3600 * own['hours'], 's')} and cost {dollars(own['usd'])} (" in tuning.answer
    assert tuning.shown["chips"][0][0] == "composed, not measured"
    assert {name for name, reasons in tuning.shown["off"].items() if reasons} == off
    tuning.update(model="llama3_70b", accelerator="rtx-4090", devices=1)
    assert tuning.shown["faulty"] == "devices" and "of 24 GiB a device" in tuning.answer
    tuning.update(model="llama3_8b", accelerator="h100-sxm", method="lora")
    assert tuning.shown["picture"] == "memory" and not tuning.shown["error"]


def test_a_pinned_method_stays_as_a_ghost_and_what_does_not_fit_has_no_time(tuning: Any) -> None:
    tuning.pin()
    tuning.update(method="qlora")
    assert "Pinned needs" in tuning.columns["row"] and "memory 0.49×, time 1.1×" in tuning.answer
    tuning.update(method="full")
    assert "time " not in tuning.answer.partition("Against")[2] and "memory 6.6×" in tuning.answer
    tuning.receive({"do": "open", "what": "table"})
    assert [row[0] for row in tuning.shown["table"]["rows"]] == ["full fine-tuning", "LoRA", "QLoRA"]
    assert "nan" not in json.dumps(tuning.shown["table"]).lower()


@pytest.mark.parametrize(
    ("answer", "headline", "facts"),
    [
        ("All is well.", "All is well.", ()),
        (
            "A (v1) takes **2.5 h**. Interval: 1 to 3 h. Cost: $9.",
            "A (v1) takes **2.5 h**.",
            ("Interval: 1 to 3 h.", "Cost: $9."),
        ),
        ("**$9 an hour** vs. none. 8 × H100: 4 GB.", "**$9 an hour** vs. none.", ("8 × H100: 4 GB.",)),
    ],
)
def test_an_answer_has_two_levels(answer: str, headline: str, facts: tuple[str, ...]) -> None:
    assert levels(answer) == (headline, facts)


@pytest.mark.parametrize(
    ("make", "change", "faulty", "fixes"),
    [
        ("model_zoo", {"batch": -4}, "batch", ["Batch: 1", "Batch: 2", "Batch: 4"]),
        ("model_zoo", {"model": "resnext5O_32x4d"}, "model", ["Model: ResNeXt-50 32x4d"]),
        ("model_zoo", {"accelerators": ["h100-sxn", "t4"]}, "accelerators", ["Accelerators: H100 SXM5 80GB"]),
        ("model_zoo", {"precision": "fp13"}, "precision", ["Precision: bf16"]),
        ("training_run", {"devices": 1000}, "devices", ["Devices: 640", "Devices: 1,024"]),
        ("training_run", {"tp": 6}, "tp", ["TP degree: 4", "TP degree: 8"]),
        ("accuracy", {"picture": "effects"}, "picture", ["Chart: Predicted over measured"]),
        ("scaling", {"compare": ["foo"]}, "compare", []),
        ("model_zoo", {"compare": ["zz"]}, "compare", []),
        ("serving", {"model": "llama2_70b", "devices": 7}, "model", ["Model: Llama 2 7B"]),
        ("serving", {"model": "gpt2", "prompt": 4096}, "prompt", ["Prompt: 256 tokens"]),
    ],
)
def test_the_control_at_fault_is_told_with_values_that_can_be_used(
    make: str, change: dict[str, Any], faulty: str, fixes: list[str], made_once: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "PATIENCE", 60.0)
    panel = made_once(make)
    panel.update(**change)
    found = panel.shown["fixes"]
    assert panel.shown["faulty"] == faulty and found[: len(fixes)] == fixes and len(found) <= shell.FIXES + 1
    for index in range(len(found)):
        panel.reset()
        panel.update(**change)
        panel.receive({"do": "mend", "index": index})
        assert not panel.shown["error"] and panel.shown["chips"], found[index]


def test_other_charts_of_the_last_valid_state_can_be_looked_at(panel: Any) -> None:
    panel.update(batch="many")
    panel.update(picture="memory")
    assert "Batch = 'many'" in panel.answer and panel.shown["picture"] == "memory" and panel.shown["faulty"] == "batch"
    assert panel.columns["part"] and panel.values["batch"] == "many"
    panel.update(batch=32)
    assert not panel.shown["error"] and panel.shown["picture"] == "memory"


def test_options_of_a_box_stand_group_by_group() -> None:
    groups = [group for *_, group in cb.panels.model_zoo().shape["controls"][0]["options"]]
    assert [g for g, before in zip(groups, ["", *groups], strict=False) if g != before] == list(dict.fromkeys(groups))
    names = [label for _, label, _, _ in cb.panels.model_zoo().shape["controls"][0]["options"]]
    at = names.index("ResNet-50 (v1)")
    assert "ResNet-50 v1.5" in names[at : at + 5] and names.index("ResNet-34") < at < names.index("ResNet-152 (v1)")


def state_of(link: str) -> str:
    """What the browser sends of an address."""
    return parse_qs(link)["state"][0]


OWN_DEVICE = {"custom": "like=h100-sxm, mem_bandwidth=6.7 TB/s"}


def test_a_link_carries_entries_of_ones_own_as_they_were_typed(panel: Any) -> None:
    layers = json.dumps({"layers": [{"layer": "flatten"}, {"layer": "linear", "out": 10}], "input": [8, 8]})
    panel.update(accelerators=["t4", OWN_DEVICE], model={"custom": layers})
    other = cb.panels.model_zoo()
    other.follow(state_of(panel.link))
    assert other.answer == panel.answer and other.code == panel.code and list(other.frame["mem_bandwidth"])[1] == 6.7e12


def test_what_is_of_one_session_alone_has_no_link(panel: Any) -> None:
    mine = cb.layers([{"layer": "flatten"}, {"layer": "linear", "out": 10}], input=(8, 8))
    panel.update(model=mine)
    assert panel.link == panel.shown["link"] == "" and not panel.shown["error"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ('{"colour": "red"}', ["no control 'colour'", "model, accelerator"]),
        ("{\"method\": \"__import__('os').system('true')\"}", ["Method =", "not a choice", "full, lora, qlora"]),
        ('{"model": "resnext5O_32x4d"}', ["Model = 'resnext5O_32x4d'", "not a choice", "nearest names"]),
        ('{"model": ["llama3_8b"]}', ["Model", "not one name"]),
        ('{"model": {"custom": "x", "more": 1}}', ["Model", "not a choice"]),
        ('{"accelerator": {"custom": "h100"}}', ["cannot read 'h100'"]),
        ('{"devices": "2"}', ["GPUs = '2'", "not a number"]),
        ('{"devices": true}', ["GPUs = True"]),
        ('{"devices": 9}', ["GPUs = 9", "from 1 to 8"]),
        ('{"devices": NaN}', ["GPUs = nan"]),
        ('{"devices": ' + "9" * 3000 + "}", ["GPUs"]),
        ("[" * 3000, ["The state in the link is"]),  # too deep for some versions of Python, not valid JSON for others
        ("[1]", ["not a list of controls"]),
        ("{", ["not valid JSON"]),
        ("x" * 4001, ["longer than 4,000 letters"]),
        (None, ["link"]),
    ],
    ids=range(16),
)
def test_a_link_is_read_strictly(state: Any, words: list[str], tuning: Any) -> None:
    panel = tuning
    before = panel.code
    panel.receive({"do": "link", "state": state})
    assert panel.shown["error"] and all(word in panel.answer for word in words), panel.answer
    assert panel.code == before and "\n" not in panel.answer and len(panel.answer) < 500
    panel.receive({"do": "mend", "index": 0})
    assert not panel.shown["error"] and panel.code == before


class InCell:
    """Stands in for IPython, in a kernel that runs a cell."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.kernel = self
        self.parent = {"metadata": metadata}

    def get_parent(self) -> dict[str, Any]:
        return self.parent


@pytest.mark.parametrize(
    ("metadata", "end"),
    [
        ({"cellId": "third & last"}, "&cell=third%20%26%20last"),
        ({}, ""),
        ({"cellId": 7}, ""),
        ({"cellId": "x" * 999}, ""),
    ],
)
def test_a_link_names_the_cell_that_made_the_panel(
    metadata: dict[str, Any], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cookbook.panels.controls.get_ipython", lambda: InCell(metadata))
    assert cb.panels.assembly_line().link == f"panel=assembly_line&state=%7B%7D{end}"


@pytest.mark.parametrize(
    ("host", "asked", "told"),
    [
        ("https://mybinder.org/", "v2/gh/owner/name/v1", "https://mybinder.org/v2/gh/owner/name/v1"),
        ("", "", ""),
        ("http://mybinder.org/", "v2/gh/owner/name/v1", ""),
        ("https://mybinder.org/", "", ""),
    ],
)
def test_a_link_of_a_binder_starts_a_binder(host: str, asked: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDER_LAUNCH_HOST", host)
    monkeypatch.setenv("BINDER_REQUEST", asked)
    assert cb.panels.assembly_line().shape["binder"] == told


TINY = {
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


def test_a_pasted_configuration_is_a_network() -> None:
    """TinyLlama 1.1B (arXiv 2401.02385), 1,100,048,384 parameters: two FLOP forward, four backward, and attention."""
    panel = cb.panels.model_zoo(tokens=1e12)
    panel.update(model={"custom": json.dumps(TINY)})
    assert panel.answer.startswith("llama needs ")
    work = float(re.search(r"\(([\d.]+) GFLOP per token\)", panel.answer)[1])  # 12 x layers x width x length / 2 added
    assert work == pytest.approx(6 * (1.100048384 - 0.065536) + 6 * 22 * 2048 * 2048 / 1e9, rel=0.01)
    call = panel.code.splitlines()[-1]
    assert 'cb.model({"model_type": "llama"' in call and "False" in call
    assert eval(call, {"cb": cb}).workload.ops.parameter_count == 1_100_048_384
    again = cb.panels.model_zoo(model=TINY, tokens=1e12)
    assert again.answer == panel.answer and again.values["model"] == TINY


def test_what_a_configuration_leaves_out_is_told() -> None:
    panel = cb.panels.model_zoo(model={"model_type": "llama"})
    assert "Assumed: hidden_size = 4096, which llama has unless" in panel.answer and "; and 4 more." in panel.answer
    assert "Assumed" not in cb.panels.model_zoo().answer


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"a": 1}, "config.json"),
        ({"model_type": "foo"}, "'foo'"),
        (TINY | {"hidden_size": -3}, "hidden_size = -3"),
    ],
)
def test_a_configuration_that_cannot_be_is_told(wrong: Any, word: str, refuses: Any) -> None:
    refuses(cb.panels.model_zoo(), {"model": {"custom": json.dumps(wrong)}}, [word])


@pytest.mark.parametrize("name", ["finetuning", "serving", "training_run"])
def test_a_configuration_is_answered_as_the_network_of_the_zoo(name: str) -> None:
    """Llama 3 8B by the fields of its model card: the same figures, another title, and what was assumed."""
    llama = TINY | {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "max_position_embeddings": 8192,
    }
    more = {} if name == "serving" else {"seq": 4096}
    zoo, own = getattr(cb.panels, name)(model="llama3_8b", **more), getattr(cb.panels, name)(**more)
    own.update(model={"custom": json.dumps(llama)})
    assert not own.shown["error"] and " Assumed: " in own.answer
    assert own.answer.partition(" Assumed: ")[0] == zoo.answer.replace("Llama 3 8B", "llama")
    call = zoo.code.splitlines()[-1].replace('"llama3_8b"', f"cb.model({calls.as_python(llama)})")
    assert own.code.splitlines()[-1] == call
    own.update(model={"custom": '{"a": 1}'})
    assert own.shown["error"] and "config.json" in own.answer


RESNET = {
    "model_type": "resnet",
    "depths": [3, 4, 6, 3],
    "hidden_sizes": [256, 512, 1024, 2048],
    "layer_type": "bottleneck",
}
TAKES_OWN = ("storage", "scaling", "accelerators", "host", "where_to_run")


def with_own(name: str, text: str) -> Any:
    """A panel whose network was pasted, on data that it takes."""
    panel = getattr(cb.panels, name)(**({"data": "imagenet-1k"} if name == "host" else {}))
    panel.update(model={"custom": text})
    return panel


@pytest.mark.parametrize("name", TAKES_OWN)
def test_a_network_of_ones_own_is_answered_in_each_panel(name: str) -> None:
    """Its answer says what was assumed; link and code give the same state, and the call names the configuration."""
    panel = with_own(name, json.dumps(RESNET))
    assert not panel.shown["error"] and panel.answer.endswith("Assumed: 1,000 classes, since the file names no labels.")
    assert panel.shown["state"]["model"]["text"] == "resnet" and len(panel.shown["facts"]) <= 5
    other = getattr(cb.panels, name)()
    other.follow(state_of(panel.link))
    again = eval(panel.code.splitlines()[0], {"cb": cb})
    assert other.answer == again.answer == panel.answer and other.code == again.code == panel.code
    if name != "host":  # whose calls have the time of a step
        assert 'cb.model({"model_type": "resnet", "depths": [3, 4, 6, 3]' in panel.code
    record = cb.panels.record(panel).markdown()
    assert "Assumed: 1,000 classes" in record and "resnet" in record
    given = getattr(cb.panels, name)(**{**panel.values, "model": cb.model(RESNET)})
    assert given.answer == panel.answer and given.link == ""
    for picture, *_ in next(each for each in panel._controls.values() if each.name == "picture").options:
        panel.update(picture=picture)
        assert panel.sources and len(panel._view.table()) and len(panel.frame), picture


@pytest.mark.parametrize("name", TAKES_OWN)
def test_what_is_no_network_is_told_in_each_panel(name: str, refuses: Any, made_once: Any) -> None:
    layers = {"layers": [{"layer": "flatten"}, {"layer": "linear", "out": 0}], "input": [8, 8]}
    for text, word in (("{", "JSON"), ('{"a": 1}', "config.json"), (json.dumps(layers), "out"), ("[]", "layer table")):
        refuses(made_once(name), {"model": {"custom": text}}, [word])


def test_a_network_of_ones_own_scales_as_that_of_the_zoo() -> None:
    """ResNet-50 v1.5 by its configuration: the same answer; no measured run is of a network that the reader brought."""
    zoo, own = (
        cb.panels.scaling("resnet50_v1.5", accelerator="dgx-1-v100"),
        cb.panels.scaling(RESNET, accelerator="dgx-1-v100"),
    )
    assert own.answer.partition(" Assumed: ")[0] == zoo.answer.replace("ResNet-50 v1.5", "resnet")
    assert own.columns["measured"].count(True) == 0
    own.update(mode="strong")
    assert " Batch: 64 samples" in own.answer and len(own.shown["facts"]) == 5


def test_two_networks_of_one_title_stay_apart() -> None:
    mine = {"title": "VGG-16", "layers": [{"layer": "flatten"}, {"layer": "linear", "out": 9}], "input": [3, 224, 224]}
    panel = cb.panels.scaling(mine, compare=["vgg16"])
    assert "VGG-16 (yours)" in panel.answer
    drawn = pd.DataFrame(panel.columns)
    assert set(drawn["network"]) == {"VGG-16", "VGG-16 (yours)"}


def test_a_title_without_end_is_cut() -> None:
    mine = {"title": "word " * 30, "layers": [{"layer": "flatten"}, {"layer": "linear", "out": 10}], "input": [3, 8, 8]}
    for name in TAKES_OWN:
        panel = with_own(name, json.dumps(mine))
        assert "word…" in panel.answer and len(panel.shown["headline"].split()) <= 20, panel.answer


@pytest.mark.parametrize(("name", "control"), [("storage", "system"), ("scaling", "accelerator")])
def test_an_accelerator_of_ones_own_is_answered(name: str, control: str) -> None:
    """One like another is predicted like it; neighbours, which only the one of the catalogue has, move a per cent."""
    known = getattr(cb.panels, name)(**{control: "h100-sxm"})
    own = getattr(cb.panels, name)()
    own.update(**{control: {"custom": "like=h100-sxm, memory_bytes=200 GB"}})
    assert own.shown["headline"].split("**")[1] == known.shown["headline"].split("**")[1]
    assert 'cb.accelerator(like="h100-sxm", memory_bytes="200 GB")' in own.code and own.sources
    other = getattr(cb.panels, name)()
    other.follow(state_of(own.link))
    assert other.answer == own.answer and not own.shown["error"]
    own.update(**{control: {"custom": "h100"}})
    assert own.shown["error"] and "Cannot read 'h100'" in own.answer


@pytest.mark.parametrize("name", ["storage", "host"])
def test_data_must_be_what_ones_own_network_takes(name: str, refuses: Any) -> None:
    refuses(
        getattr(cb.panels, name)(data="imagenet-1k", model="resnet50"),
        {"model": {"custom": json.dumps(TINY)}},
        ["imagenet-1k", "llama takes text", "c4-en-tokens"],
    )


def test_a_language_model_of_ones_own_does_not_scale_by_data_alone(refuses: Any) -> None:
    refuses(cb.panels.scaling(), {"model": {"custom": json.dumps(TINY)}}, ["Network = llama", "language model"])


# Controls that are no narrower than the field of the schema, and why.
WIDER = {
    ("host", "cores"): "cores of one accelerator, of which several may share one",
    ("serving", "devices"): "0 stands for the fewest that keep the limits",
}


@pytest.mark.parametrize("name", cb.panels.RECIPES)
def test_controls_of_fields_keep_within_the_schema(name: str, made_once: Any) -> None:
    """Range, unit, label and help are those of the schema, or the control says narrower ones."""
    for control in made_once(name)._controls.values():
        declared = control.declared
        if declared is not None:
            assert control.label and control.tooltip
        if declared is None or not isinstance(control, controls.Slider) or (name, control.name) in WIDER:
            continue
        unit = "s" if control.seconds else (control.unit.split() or [""])[0] if declared.unit else ""
        low, high = (cb.si(f"{control.stops[end]} {unit}".rstrip(), declared.unit) for end in (0, -1))
        assert declared.low <= low < high <= declared.high, (control, declared)


def test_a_control_takes_from_the_schema_what_it_does_not_say() -> None:
    plain = controls.Slider("devices", group="Hardware")
    assert (plain.label, plain.tooltip[:14], plain.stops[0]) == ("Devices", "Devices in all", 1) and plain.stops[
        -1
    ] > 4e6
    left = controls.Slider("seq", group="Workload", optional=True)
    assert left.label == "Sequence" and left.tooltip == "Tokens of one sequence; empty: that of the model, else 2,048"
    host = controls.Slider("network", "Network of a host", "g", (1.0, 8.0), unit="Gbit/s", phase="input_pipeline")
    assert (host.label, host.unit) == ("Network of a host", "Gbit/s") and "one host" in host.tooltip
    assert controls.Combo("devices", "Devices", "g", tooltip="x").declared is None, "names are no number"
    assert controls.Slider("unheard_of", "Own", "g", (1.0, 2.0)).tooltip == ""
