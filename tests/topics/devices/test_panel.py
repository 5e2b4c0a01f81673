"""The panel of recipe 04 without a browser: what it says, its pictures, its errors, and that its code works."""

from __future__ import annotations

import ast
import re
from typing import Any

import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels.text import figure


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("accelerators")


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    values = panel.values
    how = {name: values[name] for name in ("phase", "batch", "software")}
    table = cb.planning.compare(values["model"], values["accelerators"], **how)
    best = table.loc[table["samples_per_s"].idxmax()]
    assert f"{figure(best['samples_per_s'])} samples/s" in panel.answer and best["name"] in panel.answer
    pd.testing.assert_series_equal(panel.frame["samples_per_s"], table["samples_per_s"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "resnet5O"}, ["resnet5O", "nearest"]),
        ({"batch": 0}, ["Batch = 0", "1 to 1,024"]),
        ({"accelerators": ["t4"]}, ["at least 2"]),
        ({"accelerators": ["t4", "h100-sxn"]}, ["h100-sxn", "nearest"]),
        ({"precision": "fp13"}, ["fp13", "bf16"]),
        ({"phase": "training", "precision": "int8"}, ["int8", "does not train"]),
        ({"way": "stolen"}, ["stolen", "on demand"]),
        ({"phase": "dreaming"}, ["dreaming", "training"]),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


def by_device(panel: Any) -> dict[str, tuple[float | None, str]]:
    """Point and words of each row of the picture."""
    names = ("value", "point", "text")
    return {key: (point, text) for key, point, text in zip(*(panel.columns[name] for name in names), strict=True)}


def test_devices_without_a_figure_stay_with_their_reason(panel: Any) -> None:
    panel.update(phase="training", precision="fp8")
    frame = by_device(panel)
    assert frame["alveo-u250"] == (None, "trains nothing") and frame["v100-sxm2-16gb"] == (None, "no such peak")
    assert re.search(r"No value: .* \((trains nothing|no such peak)\), and \d more\.", panel.answer)
    panel.update(precision="usual", picture="cost")
    frame = by_device(panel)
    assert frame["gaudi2"] == (None, "no price")


def test_energy_says_that_nothing_was_measured(panel: Any) -> None:
    panel.update(picture="energy")
    assert "no power was measured" in panel.answer


def test_a_click_looks_at_the_device(panel: Any) -> None:
    row = panel.columns["value"].index("tpu-v5e")
    panel.receive({"do": "set", "values": {panel.columns["control"][row]: panel.columns["value"][row]}, "seq": 3})
    assert panel.values["on"] == panel.columns["value"][row] and "Selected: TPU v5e," in panel.answer


@pytest.mark.parametrize("picture", ["throughput", "energy", "cost", "roofline"])
def test_a_device_taken_away_moves_the_look_and_says_so(panel: Any, picture: str) -> None:
    panel.update(picture=picture)
    panel.update(accelerators=[key for key in panel.values["accelerators"] if key != "h100-sxm"])
    how = {name: panel.values[name] for name in ("phase", "batch", "software")}
    rates = cb.planning.compare("resnet50", panel.values["accelerators"], **how).set_index("key")["samples_per_s"]
    best = rates.idxmax()
    assert panel.shown["error"] == "" and panel.values["on"] == best
    looked = f"H100 SXM5 80GB is not among the devices compared; {cb.accelerator(best).name} is selected instead."
    assert looked in panel.answer and panel.shown["state"]["on"]["keys"] == [best] and panel.shown["parts"]
    panel.update(batch=64)
    assert panel.shown["error"] == "" and "not among" not in panel.answer
    panel.update(on="a100-sxm-40gb")
    assert panel.shown["error"] == "" and "A100 SXM4 40GB is not among the devices compared" in panel.answer
    assert panel.values["on"] in panel.values["accelerators"]


def test_an_accelerator_of_ones_own_stands_beside_the_others() -> None:
    wide = cb.accelerator("Wide", like="h100-sxm", mem_bandwidth="7 TB/s")
    panel = cb.panels.accelerators("resnet50", ["t4", wide, {"like": "h100-sxm", "peak_bf16": "2 PFLOP/s"}])
    assert panel.shown["error"] == "" and {"Wide", "H100 SXM5 80GB, changed"} <= set(panel.columns["value"])
    panel.update(on="Wide", picture="roofline")
    assert panel.shown["error"] == "" and "7 TB/s" in panel.answer
    lines = panel.code.splitlines()
    again = eval(lines[0], {"cb": cb})
    assert again.answer == panel.answer and again.values["on"] == "Wide"
    assert eval(lines[1], {"cb": cb})["name"].tolist()[0] == "Tesla T4"
    panel.update(picture="cost")
    assert "no price" in by_device(panel)["Wide"][1] or by_device(panel)["Wide"][0] is None
    panel.update(accelerators=["t4", "k40"])
    assert panel.shown["error"] == "" and panel.values["on"] in ("t4", "k40")


def test_titles_leave_out_what_stands_in_brackets() -> None:
    panel = cb.panels.accelerators("vit_l_16", ["h100-sxm", "v100-sxm2-16gb", "xeon-platinum-8592"], phase="training")
    for picture in ("throughput", "energy", "cost", "roofline"):
        panel.update(picture=picture)
        title = panel.shown["signals"]["live_title"]
        assert "(" not in title and len(title) <= 100, title


def test_a_language_model_is_told_in_tokens_a_second_too() -> None:
    panel = cb.panels.accelerators("gpt2", ["h100-sxm", "t4"], phase="training", batch=8)
    row = panel.frame.set_index("key").loc["h100-sxm"]
    assert row["tokens_per_s"] == pytest.approx(1024 * row["samples_per_s"])
    assert f"{figure(row['tokens_per_s'])} tokens/s" in panel.answer
    panel.receive({"do": "open", "what": "table"})
    assert "Tokens/s" in panel.shown["table"]["columns"]


def test_an_operation_tells_its_numbers_and_formula() -> None:
    panel = cb.panels.accelerators("vgg16", ["v100-sxm2-16gb", "h100-sxm"], on="v100-sxm2-16gb", picture="roofline")
    ops = cb.roofline_table("vgg16", "v100-sxm2-16gb", 32, precision="fp16")
    named = [at for at, what in enumerate(panel.columns["what"]) if what == "op"]
    name = panel.columns["value"][named[3]]
    panel.receive({"do": "set", "values": {"op": name}, "seq": 4})
    assert panel.values["op"] == name and f"{name}, " in panel.answer and "max(" in panel.answer
    row = ops[ops["name"] == name.split(" (")[0]].iloc[0]
    assert cb.human(row["flop"] / row["count"], "FLOP") in panel.answer
    assert cb.human(row["bytes"] / row["count"], "B") in panel.answer
    assert sum(part["value"] for part in panel.shown["parts"]) == pytest.approx(
        ops.loc[(ops["bytes"] > 0), "seconds"].sum()
    )
    panel.update(op="no such layer")
    assert "has no operation 'no such layer'; the longest" in panel.answer


def test_a_device_without_a_roofline_says_why(panel: Any) -> None:
    panel.update(phase="training", on="alveo-u250", picture="roofline")
    assert "Alveo U250 has no roofline here" in panel.answer and panel.shown["error"]


def test_a_device_without_a_peak_in_the_format_says_so() -> None:
    panel = cb.panels.accelerators(
        accelerators=["xeon-e5-2698-v4", "apple-m2-max"], precision="fp16", on="apple-m2-max"
    )
    assert "in fp16, for which no peak is known;" in panel.answer and "nan" not in panel.answer
    panel.update(picture="roofline")
    assert "has no roofline here: its peak in fp16 is not known." in panel.answer


def test_a_part_of_a_board_is_not_told_as_the_board() -> None:
    panel = cb.panels.accelerators(accelerators=["k80-die", "v100-sxm3-32gb"], on="v100-sxm3-32gb", picture="cost")
    for words in (panel.answer, panel.shown["signals"]["live_title"]):
        assert words.startswith("Tesla K80 (one GK210) is cheapest: ")


def test_pin_compares_and_leaves_a_ghost(panel: Any) -> None:
    assert all(value is None for value in panel.columns["before"])
    before = dict(zip(panel.columns["value"], panel.columns["point"], strict=True))
    panel.pin()
    panel.update(batch=256)
    assert "pinned" in panel.answer and re.search(r"Against the pinned scenario: samples/s [\d.,]+×", panel.answer)
    assert dict(zip(panel.columns["value"], panel.columns["before"], strict=True)) == before


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"model": "bert_base", "phase": "training", "batch": 8, "on": "tpu-v5e"},
        {"accelerators": ["t4", "k40"], "precision": "fp32", "picture": "cost", "way": "spot"},
        {"picture": "roofline", "on": "k40"},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.accelerators(**state)
    assert panel.shown["error"] == ""
    ast.parse(panel.code)
    lines = panel.code.splitlines()
    assert repr(eval(lines[0], {"cb": cb})) == repr(panel)
    table = eval(lines[1], {"cb": cb})
    if panel.values["picture"] != "roofline":
        pd.testing.assert_series_equal(table["samples_per_s"], panel.frame["samples_per_s"])
    else:
        assert eval(lines[2], {"cb": cb})["seconds"].sum() >= panel.frame["seconds"].sum() * 0.999


LARGE = ["b200-sxm", "h200-sxm", "mi300x", "gaudi3"]
PICTURES = ("throughput", "energy", "cost")


def test_a_device_that_does_not_hold_the_model_is_no_winner() -> None:
    """Gaudi 3 would be fastest for 70 billion parameters in 16 bits, which take more than its 128 GiB."""
    panel = cb.panels.accelerators("llama3_70b", LARGE, batch=1, software="")
    table = panel.frame.set_index("key")
    assert not table.loc["gaudi3", "samples_per_s"] > 0 and table.loc["gaudi3", "fits"] == "no"
    for picture in PICTURES:
        panel.update(picture=picture)
        headline, title = panel.shown["headline"], panel.shown["signals"]["live_title"]
        assert "Gaudi3" not in headline + title and "Memory: it does not fit Gaudi3." in panel.answer
        assert panel.columns["value"][-1] == "gaudi3" and "|" not in "".join(panel.columns["text"])
    none = cb.panels.accelerators("gpt3_175b", ["k40", "h100-sxm"], phase="training", batch=1)
    for picture in PICTURES:
        none.update(picture=picture)
        assert none.shown["headline"].startswith("**None of these 2 devices** has the memory for GPT-3 175B")


def test_no_winner_is_named_on_datasheets_alone() -> None:
    panel = cb.panels.accelerators("llama3_8b", ["gaudi3", "gaudi2", "tpu-v6e"], batch=1, software="")
    assert set(panel.frame["evidence"]) == {"datasheet only"}
    for picture in PICTURES:
        panel.update(picture=picture)
        headline, title = panel.shown["headline"], panel.shown["signals"]["live_title"]
        unsure = "leads by its datasheet alone" if picture == "cost" else "cannot be distinguished"  # one has a price
        assert unsure in headline and unsure.removeprefix("leads ") in title and "fastest" not in headline
        assert headline.endswith((": none was measured.", ": neither was measured.", ": it was not measured."))
    alone = cb.panels.accelerators("llama3_8b", ["gaudi3", "tpu-v5p"], batch=1, software="")
    rows = alone.frame.set_index("key")
    assert rows.loc["gaudi3", "low"] > rows.loc["tpu-v5p", "high"]  # clear, and yet nobody has measured it
    assert "**Gaudi3** leads by its datasheet alone" in alone.shown["headline"]


def test_a_winner_is_measured_and_clear_of_its_rivals(panel: Any) -> None:
    """The H100 is measured; beside a device whose interval meets its own, neither is the fastest."""
    assert "H100 SXM5 80GB runs fastest" in panel.answer and "no other interval overlaps it" in panel.answer
    panel.update(accelerators=["h100-sxm", "h200-sxm"])
    rows = panel.frame.set_index("key")
    assert rows.loc["h100-sxm", "high"] > rows.loc["h200-sxm", "low"]
    assert "cannot be distinguished" in panel.shown["headline"] and "fastest" not in panel.answer


def test_a_prompt_says_where_answers_are_the_subject() -> None:
    panel = cb.panels.accelerators("llama3_8b", LARGE, batch=1)
    assert "recipe 10" in panel.answer
    panel.update(phase="training")
    assert "recipe 10" not in panel.answer


def test_names_carry_the_format_where_devices_differ_in_it(panel: Any) -> None:
    panel.update(accelerators=["h100-sxm", "alveo-u250"], precision="usual", phase="inference")
    assert set(panel.columns["row"]) == {"H100 SXM5 80GB, fp16", "Alveo U250, int8"}
    panel.update(precision="int8")
    assert set(panel.columns["row"]) == {"H100 SXM5 80GB", "Alveo U250"}


def test_a_language_model_is_told_as_a_prompt_of_so_many_tokens() -> None:
    panel = cb.panels.accelerators("llama2_7b", ["h100-sxm", "t4"], batch=1)
    assert "(4,096 tokens)" in panel.answer and "a prompt, not an answer" in repr(panel)


def test_devices_without_a_prediction_have_rows_without_measured_runs() -> None:
    """26 GB of weights on 24 GB, or a board without a peak in 16 bits: the table is written all the same."""
    panel = cb.panels.accelerators("llama2_13b", batch=1, software="")
    rows = panel.view.table().set_index("Device")
    lacking = rows[rows["Samples/s"].isin(["does not fit memory", "no value"])]
    assert {"GeForce RTX 4090", "Alveo U250"} <= set(lacking.index) and len(rows) > len(lacking)
    assert (lacking["Measured"] == "no such run").all()
