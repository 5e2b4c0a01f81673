"""Panels without a browser: what they say, and that no input breaks them."""

from __future__ import annotations

import ast
import io
import json
from typing import Any

import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels import controls
from cookbook.panels.shell import MOST_ROWS, sentence

OWN = {"input": [3, 32, 32], "layers": [{"layer": "conv", "out": 8, "kernel": 3}, {"layer": "flatten"},
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
        ({"number_format": "fp13"}, ["fp13", "bf16"]),
        ({"number_format": "int8"}, ["int8"]),
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
    assert panel.shown["error"] and panel.shown["columns"]
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
    panel.update(accelerators=["v100-sxm2-16gb", "h100-sxm"], number_format="bf16")
    assert list(panel.frame["key"]) == ["v100-sxm2-16gb", "h100-sxm"]
    assert "no bf16 peak known" in panel.shown["columns"]["text"]


def test_a_number_format_that_none_has_is_off_with_its_reason(panel: Any) -> None:
    panel.update(accelerators=["v100-sxm2-16gb"], number_format="fp16")
    off = panel.shown["off"]["number_format"]
    assert "peak" in off["bf16"] and "does not train" in off["int8"] and "fp16" not in off


def test_no_control_changes_another(panel: Any) -> None:
    before = panel.values
    panel.update(number_format="fp16")
    panel.update(model="vgg16")
    assert panel.values == {**before, "number_format": "fp16", "model": "vgg16"}


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
    names = ("batch", "number_format", "optimiser", "samples", "epochs", "target_seconds", "recompute")
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
    assert "Pinned needs" in panel.shown["columns"]["row"]
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
