"""Panels without a browser: what they say, and that no input breaks them."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from typing import Any

import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels import controls
from cookbook.panels.shell import MOST_ROWS, sentence

OWN = {"input": [3, 32, 32], "layers": [{"layer": "conv", "out": 8, "kernel": 3, "bias": False}, {"layer": "flatten"},
                                        {"layer": "linear", "out": 10}]}  # fmt: skip


@pytest.fixture
def panel() -> Any:
    return cb.panels.model_zoo()


def test_the_founding_example_is_what_the_panel_opens_with(panel: Any) -> None:
    assert "ResNet-152" in panel.answer
    assert "14,000,000 images in 1 h" in panel.answer
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


def test_a_misspelt_control_is_a_programming_error(panel: Any) -> None:
    with pytest.raises(TypeError, match="batch"):
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
    panel = cb.panels.model_zoo(**state)
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


def test_reset_goes_back_to_the_state_it_was_made_with() -> None:
    panel = cb.panels.model_zoo(model="vgg16", batch=8)
    before = repr(panel)
    panel.update(batch=512, model="alexnet", picture="memory", accelerators=["t4"])
    panel.reset()
    assert repr(panel) == before


def test_pin_compares_and_lets_go(panel: Any) -> None:
    panel.pin()
    panel.update(target_seconds="2 h", batch=64)
    assert "rate needed x0.5" in panel.answer
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
    assert text.startswith("# ResNet-152")
    read = pd.read_csv(io.StringIO(text), comment="#")
    assert list(read["key"]) == panel.values["accelerators"]
    assert read["peak_flops"].max() > 1e14


def test_every_source_has_a_title(panel: Any) -> None:
    panel.receive({"do": "open", "what": "sources"})
    items = panel.shown["sources"]["items"]
    assert len(items) > 3 and all(title for title, _, _ in items)
    assert any("recalled" in note for _, _, note in items)


def test_two_runs_print_the_same() -> None:
    assert repr(cb.panels.model_zoo()) == repr(cb.panels.model_zoo())


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


def test_one_message_holds_a_small_update(panel: Any) -> None:
    assert len(json.dumps(panel.shown)) < 12_000


def test_all_that_is_shown_is_plain_json(panel: Any) -> None:
    for picture in ("rate", "memory", "zoo"):
        panel.update(picture=picture)
        json.dumps(panel.shown, allow_nan=False)


def test_a_png_only_where_outputs_are_published(panel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COOKBOOK_STATIC", "1")
    data, _ = panel._repr_mimebundle_()
    assert data["text/plain"] == repr(panel) and len(data["image/png"]) > 10_000


@pytest.mark.parametrize("control", [c for c in cb.panels.model_zoo()._controls.values()], ids=lambda c: c.name)
def test_every_control_is_named_and_explained(control: Any) -> None:
    described = control.describe()
    assert described["label"] and (described["tooltip"] or described["place"] == "picture")
    json.dumps(described, allow_nan=False)


def test_at_most_six_controls_are_visible_at_first(panel: Any) -> None:
    first = [c for c in panel.shape["controls"] if not c["more"] and c["place"] == "controls"]
    assert len(first) <= 6


def test_a_slider_reads_what_people_type() -> None:
    time = controls.Slider("t", "Time", "g", (60.0, 3600.0, 86400.0), whole=False, seconds=True)
    assert [time.read(text) for text in ("90 min", "1 d", 7200)] == [5400.0, 86400.0, 7200.0]
    size = controls.Slider("n", "Samples", "g", controls.one_two_five(1, 1e9), unit="images")
    assert [size.read(text) for text in ("14 M", "14,000,000", "1e3", "5 images")] == [14_000_000, 14_000_000, 1000, 5]
    assert size.show(3)["index"] == 1 and size.show(10**9)["index"] == len(size.stops) - 1


def test_a_sentence_is_one_line() -> None:
    assert sentence(KeyError("no such\n thing")) == "No such thing."
    assert sentence(ValueError()) == "ValueError."

SEQUENCE = {"layers": [{"layer": "embedding", "vocab": 1000, "features": 64},
                       {"layer": "transformer_block", "heads": 4, "hidden": 256, "bias": False}]}  # fmt: skip
FOUR = ["a100-sxm-80gb", "h100-sxm", "mi300x", "b200-sxm"]


def test_a_network_of_ones_own_that_needs_a_sequence_can_be_given_one(panel: Any) -> None:
    panel.receive({"do": "set", "values": {"model": {"custom": json.dumps(SEQUENCE)}}, "seq": 1})
    assert "set Sequence (under More)" in panel.answer and "seq =" not in panel.answer.lower()
    assert panel.shown["off"]["seq"] == {}, "the control that mends it must not be off"
    panel.receive({"do": "set", "values": {"seq": "128"}, "seq": 2})
    assert panel.shown["error"] == "" and "sequences of 128 tokens" in panel.answer
    panel.receive({"do": "set", "values": {"model": "resnet50"}, "seq": 3})
    assert "*" in panel.shown["off"]["seq"]


def test_a_bad_batch_does_not_hide_what_another_control_may_do(panel: Any) -> None:
    panel.update(batch="lots", model="bert_base", accelerators=["v100-sxm2-16gb"])
    assert panel.shown["error"] and panel.shown["off"]["seq"] == {}
    assert "peak" in panel.shown["off"]["precision"]["bf16"]


@pytest.mark.parametrize(("name", "before", "good"), [
    ("model", '{"layers": [oops', json.dumps(OWN, indent=2)),
    ("accelerators", "like h100-sxm", "like=h100-sxm,  mem_bandwidth = 4 TB/s"),
])  # fmt: skip
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
    "batch": [64, "1,024"], "precision": ["fp16"], "samples": ["14 M"], "target_seconds": ["90 min", 5400],
    "accelerators": ["h100-sxm", "t4, h100-sxm", [cb.accelerator(like="h100-sxm", mem_bandwidth="4 TB/s")],
                     [{"like": "t4", "name": "Mine", "peak_fp16": "100 TFLOP/s"}], cb.accelerator("t4")],
    "compare": ["alexnet", ["alexnet", "vgg19"], []], "seq": [None, 256], "optimiser": ["sgd"], "epochs": [90],
    "recompute": ["full"], "picture": ["memory", "zoo"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in EVERY.items() for value in values])
def test_the_copied_code_is_python_for_every_control(name: str, value: Any) -> None:
    assert set(EVERY) == set(cb.panels.model_zoo().values)
    extra = {"seq": 64} if isinstance(value, dict) and value.get("title") else {}
    panel = cb.panels.model_zoo(**{name: value, **extra})
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
    panel = cb.panels.model_zoo(accelerators=FOUR)
    only = "A100 SXM4 80GB and H100 SXM5 80GB only if operations are fused"
    assert f"4 of 4 accelerators are not ruled out: Instinct MI300X and B200 SXM 180GB; {only}." in panel.answer
    assert "could do it alone" not in panel.answer
    assert panel._view.picture.title == "4 of 4 accelerators are not ruled out, 2 of them under a condition"
    panel.update(target_seconds="1 min")
    assert "None of 4 accelerators could do it alone: even B200 SXM 180GB would need x7.0 its peak." in panel.answer


def test_what_is_not_known_is_not_called_ruled_out() -> None:
    panel = cb.panels.model_zoo(accelerators=["b200-sxm", "v100-sxm2-16gb"])
    assert "Too little is known of Tesla V100 SXM2 16GB." in panel.answer
    assert "too little is known of 1" in panel._view.picture.title


def test_at_least_is_arithmetic_alone(panel: Any) -> None:
    panel.receive({"do": "open", "what": "table"})
    table = pd.DataFrame(panel.shown["table"]["rows"], columns=panel.shown["table"]["columns"])
    frame = panel.frame
    assert list(table["One epoch, at least"]) == [cb.human(s, "s") for s in frame["bound_seconds"]]
    assert list(table["Unfused, overlapped"]) == [cb.human(s, "s") for s in frame["unfused_overlap_seconds"]]
    assert frame["bound_seconds"].to_numpy() == pytest.approx(3600 * frame["needed_fraction"].to_numpy())
    assert all(words in panel._view.chips[0][1] for words in ("at peak", "Winograd", "No efficiency"))
    assert "nothing can beat" not in panel._view.chips[0][1]


def test_how_many_measurements_is_said(panel: Any) -> None:
    panel.receive({"do": "open", "what": "table"})
    table = panel.shown["table"]
    cells = {row[0]: row[table["columns"].index("Measured matmul [% of peak]")] for row in table["rows"]}
    assert cells["H100 SXM5 80GB"].endswith("(n = 1)") and cells["Instinct MI300X"].endswith("(n = 2)")
    assert cells["TPU v4"] == "none"
    assert "12 % of peak|needs less than measured" in panel.columns["text"]


def test_more_than_the_peak_is_told_as_a_multiple(panel: Any) -> None:
    panel.update(model="llama3_8b", accelerators=["t4", "h100-sxm"], precision="fp16")
    for text, fraction in zip(panel.columns["text"][1:], panel.frame["needed_fraction"], strict=True):
        assert fraction > 1 and text.startswith("x") and " its peak|" in text and "%" not in text


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
    assert "of the networks here" in panel._view.picture.title and "for one sample" in panel._view.picture.title
    zoo = cb.models().set_index("name")
    panel.update(model=zoo.index[zoo["how"] == "parameters only"][0])
    assert panel._view.chips[1][0] == "parameters verified, MAC not"


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
    assert not both._error and both.values["accelerators"] == [{"like": "t4", "name": "Tesla T4, changed",
                                                                "memory_bytes": 32e9}]  # fmt: skip


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
    assert items[-1] == ["Your own figures for H100 SXM5 80GB, changed", "", "mem_bandwidth"]
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
        ("accuracy", {"publishers": ["nvida-nemo"]}, "'nvida-nemo' was judged; nearest names: nvidia-nemo"),
        ("host", {"machine": "hgx-h10"}, "No system topology called 'hgx-h10'; nearest names: hgx-h100"),
        ("scaling", {"compare": ["vgg16", "vgg19", "resnet18", "alexnet"]}, "has 4 entries; choose at most 3"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_told_with_the_nearest(make: str, change: dict[str, Any], words: str) -> None:
    panel = getattr(cb.panels, make)()
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
