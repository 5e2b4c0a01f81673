"""The panel of recipe 07 without a browser: its code gives its rows, marks lie where values say, clicks find rows."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.charts import live
from cookbook.evidence.measurements import NAMES
from cookbook.panels.shell import MOST_ROWS
from cookbook.panels.text import percent
from cookbook.topics.accuracy import charts
from cookbook.topics.accuracy.charts import number_axis
from cookbook.topics.accuracy.measurements_panel import Asked


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("measurements", networks=["resnet50"])


def called(panel: Any) -> Any:
    """What the second line of the code gives."""
    return eval(panel.code.splitlines()[1], {"cb": cb})


STATES: list[dict[str, Any]] = [
    {},
    {"x": "devices"},
    {"y": "time", "networks": []},
    {"kind": "inference", "networks": [], "y": "throughput"},
    {"years": ["2018", "2020"]},
    {"most_devices": 4},
    {"scaling": "weak"},
    {"y": "weak_efficiency", "x": "link"},
    {"kind": "", "networks": [], "y": "value", "unit": "all"},
    {"near": "dle-0124", "networks": []},
]


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_code_gives_the_rows_shown(panel: Any, state: dict[str, Any]) -> None:
    panel.update(**state)
    assert panel.shown["error"] == ""
    pd.testing.assert_frame_equal(panel.frame, called(panel))
    again = eval(panel.code.splitlines()[0], {"cb": cb})
    assert again.answer == panel.answer and len(panel.columns["x"]) == len(panel.frame)


@pytest.mark.parametrize("y", ["per_device", "time"])
@pytest.mark.parametrize("aggregate", ["best", "median"])
def test_an_aggregate_is_that_of_plain_pandas(panel: Any, y: str, aggregate: str) -> None:
    panel.update(x="devices", by="accelerator", aggregate=aggregate, y=y, networks=[])
    plain, own = called(panel), panel.frame.set_index(["devices", "accelerator"])[y]
    assert own.index.is_unique
    pd.testing.assert_series_equal(own.sort_index(), plain.sort_index())


@pytest.mark.parametrize(
    "by",
    [pytest.param(by, marks=() if at < 2 else pytest.mark.all) for at, by in enumerate(["", *NAMES, "year"])],
)
def test_every_axis_and_colour_can_be_drawn(panel: Any, by: str) -> None:
    for x in (by or "year", "devices", "framework"):
        for several in ("no", "yes"):
            panel.update(x=x, by=by, several=several)
            assert panel.shown["error"] == ""
            signals = panel.shown["signals"]
            assert 0 <= min(panel.columns["x"]) <= max(panel.columns["x"]) <= signals["across"]
            assert 0 <= min(panel.columns["y"]) <= max(panel.columns["y"]) <= signals["down"]
            assert len(signals["groups"]) <= charts.MOST_PANES
            json.dumps([panel.shown, panel.columns], allow_nan=False)


def test_marks_lie_where_their_values_say(panel: Any) -> None:
    panel.update(x="batch_per_device", by="accelerator")
    columns, rows = panel.columns, panel.frame
    for place, value in (("x", "batch_per_device"), ("y", "per_device")):
        slope, start = np.polyfit(np.log(rows[value]), columns[place], 1)
        np.testing.assert_allclose(columns[place], slope * np.log(rows[value]) + start, atol=1.5)
        assert slope > 0
    labels = panel.shown["signals"]["labels"]
    slope, start = np.polyfit(np.log(rows["per_device"]), columns["y"], 1)
    for text, at in zip(labels["text"], labels["y"], strict=True):
        assert slope * np.log(float(text.replace(",", ""))) + start == pytest.approx(at, abs=2)


def test_small_multiples_hold_one_group_each(panel: Any) -> None:
    panel.update(several="yes")
    pane = np.array(panel.columns["x"]) // (charts.SIDE + charts.GAP)
    row = np.array(panel.columns["y"]) // (charts.SIDE + 2 * charts.GAP)
    where = pd.DataFrame({"pane": pane, "row": row, "group": panel.columns["group"]})
    assert len(where.drop_duplicates()) == where["group"].nunique() == len(panel.shown["signals"]["titles"]["text"])


def test_predictions_are_in_the_unit_of_the_value(panel: Any) -> None:
    for y, wanted in (
        ("per_device", lambda r: r["predicted"] / r["devices"]),
        ("time", lambda r: r["batch"] / r["predicted"]),
    ):
        panel.update(y=y, predicted="yes")
        asked = Asked(panel.frame, y, "year", "", "", "all", False, True)
        np.testing.assert_allclose(asked.beside[:, 0], wanted(panel.frame))
        known = asked.beside[np.isfinite(asked.beside[:, 1])]
        assert (known[:, 1] < known[:, 0]).all() and (known[:, 0] < known[:, 2]).all()
        assert len(panel.shown["signals"]["intervals"]["x"]) == len(known)
    inside = panel.frame.dropna(subset=["low80"])
    share = inside["throughput"].between(inside["low80"], inside["high80"]).mean()
    assert f"80 % intervals contain {percent(share)}" in panel.answer
    panel.update(y="weak_efficiency")
    assert not panel.shown["signals"]["predictions"]["x"] and "Predicted: none of them" in panel.answer
    panel.update(y="per_device", networks=[])
    assert not panel.shown["signals"]["predictions"]["x"] and "too many to draw" in panel.answer


def test_a_click_tells_the_row_and_opens_its_source(panel: Any) -> None:
    key = panel.columns["key"][7]
    wanted = panel.frame.iloc[7]
    panel.receive({"do": "pick", "key": key})
    assert panel.values["near"] == wanted["id"] and "Nearest measurement" in panel.answer
    assert wanted["id"] not in panel.answer and f"by {wanted['publisher']}" in panel.answer
    table = panel.shown["table"]
    first = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert first["Row"] == wanted["id"] and first["Published by"]["url"] == wanted["url"]
    rings = panel.shown["signals"]["rings"]
    assert (panel.columns["x"][7], panel.columns["y"][7]) in zip(rings["x"], rings["y"], strict=True)


def test_a_configuration_of_ones_own(panel: Any) -> None:
    panel.update(near={"custom": '{"model": "resnet50", "devices": 4}'})
    assert panel.shown["error"] == "" and "Nearest" in panel.answer
    near = eval(panel.code.splitlines()[2], {"cb": cb})
    panel.receive({"do": "open", "what": "table"})
    assert [row[-1] for row in panel.shown["table"]["rows"]] == near["id"].tolist()
    for text, words in (("{oops", "not valid JSON"), ('{"gpu": 1}', "it has kind"), ("abc", "no measurement has id")):
        panel.update(near={"custom": text})
        assert words in panel.answer.replace("No m", "no m")


def test_one_unit_at_a_time_unless_asked(panel: Any) -> None:
    panel.update(networks=[])
    most = cb.measurements(kind="training").query("per_device > 0")["unit"].value_counts().index[0]
    assert set(panel.frame["unit"]) == {most} and "in other units" in panel.answer
    panel.update(unit="all")
    assert panel.frame["unit"].nunique() > 5 and "compare only values in the same unit" in panel.answer


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"unit": "tokens/s"}, "No measurement matches: none of these counts 'tokens/s', but images/s"),
        ({"kind": "matmul", "networks": [], "y": "time"}, "none states time; choose another value, or loosen a filter"),
        (
            {"kind": "matmul", "networks": [], "y": "throughput"},
            "none of 30 states its year; choose another horizontal",
        ),
        ({"kind": "storage"}, "No measurement matches kind = storage, network = resnet50"),
        ({"years": ["2014"]}, "No measurement matches in 2014: loosen Years"),  # before that network
        ({"y": "speed"}, "Value = 'speed' is not a choice; nearest names: "),
        ({"x": "colour"}, "Against = 'colour' is not a choice"),
        ({"most_devices": 0}, "Devices at most = 0 is outside its range"),
    ],
)
def test_an_empty_state_says_what_to_loosen(panel: Any, state: dict[str, Any], words: str) -> None:
    if "unit" not in state:
        state = {**state, "unit": ""}
    before = panel.columns
    panel.update(**state)
    if state.get("kind") == "storage":  # storage has a workload of that name
        assert panel.shown["error"] or set(panel.frame["kind"]) == {"storage"}
        return
    assert words in panel.answer and panel.columns is before


def test_variants_of_a_network_stand_together(panel: Any) -> None:
    """ResNet-50 v1.5 is drawn with ResNet-50, and can be had alone; MobileNet v2 is another network than v1."""
    both, own = panel.frame["network"].value_counts(), {"resnet50", "resnet50_v1.5"}
    assert set(both.index) == own and both.min() > 50
    panel.update(networks=["resnet50_v1.5"])
    assert set(panel.frame["network"]) == {"resnet50_v1.5"} and len(panel.frame) == both["resnet50_v1.5"]
    panel.update(networks=["mobilenet_v1"], kind="inference", y="throughput")
    assert set(panel.frame["network"]) == {"mobilenet_v1"}


def test_names_are_those_in_print(panel: Any) -> None:
    panel.update(networks=["alexnet", "googlenet"], by="accelerator", x="network")
    signals = panel.shown["signals"]
    devices = set(cb.table("accelerators")["name"])
    assert set(signals["groups"]) - {"others", "not stated"} <= devices
    assert any(text.startswith("AlexNet") for text in signals["labels"]["text"])
    assert panel.shown["state"]["networks"]["labels"][1].startswith("GoogLeNet")
    assert "rtx-" not in panel.answer and "alexnet" not in panel.answer


def test_all_points_travel_as_numbers(panel: Any) -> None:
    panel.update(y="value", kind="", networks=[], unit="all", x="kind")
    sent = live.packed(panel.columns)
    assert len(panel.columns["x"]) > 8000
    for name, values in panel.columns.items():
        np.testing.assert_allclose(np.frombuffer(sent[name], "<f4"), values, rtol=1e-6)


def test_what_is_downloaded_has_every_column(panel: Any) -> None:
    read = pd.read_csv(io.StringIO(panel.csv()))
    assert len(read) == len(panel.frame) > MOST_ROWS and {"url", "low80", "per_watt", "counted"} <= set(read.columns)
    panel.receive({"do": "open", "what": "table"})
    assert len(panel.shown["table"]["rows"]) == MOST_ROWS
    assert panel.shown["table"]["caption"] == f"first {MOST_ROWS} of {len(panel.frame):,}; the CSV has all"
    panel.receive({"do": "open", "what": "sources"})
    assert len(panel.shown["sources"]["items"]) == panel.frame[["source", "publisher"]].drop_duplicates().shape[0]


def test_an_axis_holds_its_ends() -> None:
    axis = number_axis(pd.Series([1.0, 10.0, 100.0]), True, 7)
    assert axis.at[1] == pytest.approx(0.5) and 0 < axis.at[0] < axis.at[2] < 1
    assert axis.place(np.array([1e-9, 1e9])).tolist() == [0, 1]
    alone = number_axis(pd.Series([7.0, 7.0]), True, 7)
    assert alone.at.tolist() == pytest.approx([0.5, 0.5], abs=0.5) and alone.ends[0] < 7 < alone.ends[1]


def test_entries_that_add_nothing_and_variants_counted_too_are_said(panel: Any) -> None:
    assert "Included too: ResNet-50 v1.5." in panel.answer and "no such run" not in panel.answer
    panel.update(networks=["resnet50", "llama3_8b"], years=["2018"])
    assert "Filters: no such run was measured on or with Llama 3 8B." in panel.answer
    panel.update(networks=["resnet50", "resnet50_v1.5"], years=[])
    assert "Counted too" not in panel.answer and "no such run" not in panel.answer
