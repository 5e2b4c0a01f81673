"""The panel of recipe 05 without a browser: what it says, that figures are those of `cb.accuracy`, and its errors."""

from __future__ import annotations

import ast
import io
import json
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels.shell import MOST_ROWS
from cookbook.topics.accuracy.accuracy_panel import Chosen, _effects_picture
from cookbook.topics.accuracy.charts import percent


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("accuracy")


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    whole = cb.accuracy(by="all").iloc[0]
    half = f"Half of {whole['rows']:,} training runs are predicted within {percent(100 * whole['median_error'])}, "
    assert panel.answer.startswith(f"{half}{100 * whole['within_20']:.0f} % within 20 %.")
    assert len(panel.columns["ratio"]) == len(panel.frame) == whole["rows"]


def test_every_picture_says_what_to_take_from_it(panel: Any) -> None:
    said = set()
    for picture in ("points", "errors", "coverage"):
        panel.update(picture=picture)
        said.add(panel.answer)
    assert len(said) == 3


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        pytest.param(kind, by, marks=() if across == down else pytest.mark.all)
        for across, kind in enumerate(["transformer", "classic", "both", "inference", "generation"])
        for down, by in enumerate(["publisher", "generation", "year", "tier", "software_level"])
    ],
)
def test_every_grouping_of_every_kind_can_be_drawn(panel: Any, kind: str, by: str) -> None:
    for picture in ("points", "errors", "coverage"):
        panel.update(kind=kind, by=by, picture=picture)
        assert panel.shown["error"] == "" and panel.columns
        panel.receive({"do": "open", "what": "table"})
        assert 0 < len(panel.shown["table"]["rows"]) <= MOST_ROWS
        panel.receive({"do": "open", "what": ""})
    assert len(set(panel.columns["row"])) == len(panel.columns["row"]) <= 17


def test_a_term_off_shows_before_and_after(panel: Any) -> None:
    panel.update(kind="transformer", model="without attention", picture="errors")
    lines = cb.accuracy(by="prediction", kind="transformer").set_index("prediction")
    after, before = lines.loc["without attention", "median_error"], lines.loc["without neighbours", "median_error"]
    assert percent(100 * after) in panel.answer and percent(100 * before) in panel.answer and after > before
    assert "this part improves predictions" in panel.answer
    frame = dict(zip(panel.columns["row"], panel.columns["before"], strict=True))
    own = cb.accuracy(kind="transformer", model="without neighbours").set_index("publisher")["median_error"]
    assert frame["mosaicml"] == pytest.approx(100 * own["mosaicml"], rel=1e-4)
    panel.update(model="full")
    assert all(value is None for value in panel.columns["before"])


def test_a_rule_is_compared_with_the_full_model(panel: Any) -> None:
    panel.update(model="constant utilisation")
    whole = cb.accuracy(by="all").iloc[0]
    assert (
        f"the full model has a median error of {percent(100 * whole['median_error'])} on the same runs" in panel.answer
    )


def test_each_publisher_is_shown_without_a_term_and_with_it(panel: Any) -> None:
    panel.update(kind="transformer", model="without attention", picture="effects")
    assert panel.shown["error"] == ""
    marks = pd.DataFrame({name: panel.columns[name] for name in ("row", "before", "after", "few")})
    marks["publisher"] = marks["row"].str.split(" ").str[0]
    for end, model in (("before", "without attention"), ("after", "without neighbours")):
        each = cb.accuracy(kind="transformer", model=model).set_index("publisher")
        assert set(marks["publisher"]) == set(each.index)
        # Times of a step that are predicted too long are speeds that are predicted too low.
        told = 1 / (1 + each.loc[marks["publisher"], "bias"].to_numpy())
        assert marks[end].to_numpy() == pytest.approx(told, rel=1e-3)
    assert list(marks["few"]) == [each.loc[name, "rows"] < 5 for name in marks["publisher"]]
    gain = np.abs(np.log(marks["before"])) - np.abs(np.log(marks["after"]))
    assert (gain.diff().dropna() < 1e-4).all(), "those that gain most come first"
    table = cb.table("validation").query("kind == 'training_transformer' and by == 'all' and leave_out == 'source'")
    line = table.set_index("model").loc["without attention"]
    words = r"Without attention, training runs .* are predicted (.*) points worse .*: \+\1 points \[(.*), (.*)\]\."
    told = [float(number) for number in re.match(words, panel.answer).groups()]
    assert told == pytest.approx(100 * line[["worse_by", "worse_by_low", "worse_by_high"]].to_numpy(float), abs=0.15)


def planted(helped: float, noise: float = 0.0) -> Chosen:
    """Ten publishers whose rates a term moves from so far off to half of it, and one of two runs that it does not."""
    rng = np.random.default_rng(0)
    count = {**{f"p{at}": 20 for at in range(10)}, "few": 2}
    group = np.repeat(list(count), list(count.values()))
    rows = pd.DataFrame({"publisher": group, "kind": "classic", "unit": "images/s", "measured": 100.0})
    off = np.where(rows["publisher"] == "few", 0.3, 0.2)
    less = np.where(rows["publisher"] == "few", 0.3, 0.2 - helped)
    return Chosen(
        rows.assign(
            **{
                "full": less,
                "without neighbours": less + rng.normal(0, noise + 1e-9, len(rows)),
                "without launch": off + rng.normal(0, noise + 1e-9, len(rows)),
            }
        ),
        "without launch",
        "publisher",
    )


def test_a_planted_effect_is_found_and_none_is_not() -> None:
    found = planted(0.1)
    table = found.effects
    assert table.loc["p3", "before"] == pytest.approx(np.exp(0.2)) and table.index[-1] == "few"
    assert table.loc["p3", "after"] == pytest.approx(np.exp(0.1))
    picture = _effects_picture(found, 0.2)
    verdicts = picture.frame.set_index("row")["verdict"]
    assert verdicts["p3 (20)"] == "more accurate" and verdicts["few (2)"] == "as accurate"
    assert picture.frame.set_index("row")["few"].to_dict()["few (2)"]
    worse = 100 * (np.expm1(0.2) - np.expm1(0.1)) * 10 / 10.2
    assert found.worse[0] == pytest.approx(worse, rel=1e-3) and found.worse[1] > 0
    assert picture.title == f"Without launch, runs are predicted {worse:.1f} points worse for held-out publishers"
    assert "better" in _effects_picture(planted(-0.1), 0.2).title
    assert "neither better nor worse" in _effects_picture(planted(0.0, noise=0.1), 0.2).title


def test_without_something_switched_off_there_is_no_effect(panel: Any) -> None:
    for model in ("full", "full, row alone left out"):
        panel.update(kind="classic", model=model, picture="points")
        assert "effects" in panel.shown["off"]["picture"]
        panel.update(picture="effects")
        assert "nothing is switched off" in panel.answer.lower()
    panel.update(model="without products")
    assert panel.shown["error"] == "" and panel.shown["picture"] == "effects"
    panel.receive({"do": "open", "what": "table"})
    assert "With it" in panel.shown["table"]["columns"]


def test_the_band_changes_what_counts_and_sends_no_points(panel: Any) -> None:
    before = panel.columns
    panel.update(band=10)
    assert panel.columns is before
    assert f"{100 * cb.accuracy(by='all').iloc[0]['within_10']:.0f} % within 10 %" in panel.answer


def test_points_furthest_off_are_the_rows_of_the_table(panel: Any) -> None:
    panel.receive({"do": "open", "what": "table"})
    table = pd.DataFrame(panel.shown["table"]["rows"], columns=panel.shown["table"]["columns"])
    ratios = {rank: ratio for rank, ratio in zip(panel.columns["rank"], panel.columns["ratio"], strict=True) if rank}
    assert len(ratios) >= 3
    printed = table.set_index("No.")["Predicted / measured"]
    for rank, ratio in ratios.items():
        assert float(printed[f"{rank:.0f}"]) == pytest.approx(ratio, abs=0.006)
    assert sum(rank is not None for rank in panel.columns["rank"]) == MOST_ROWS
    numbered = [abs(math.log(ratios[rank])) for rank in sorted(ratios)]
    assert numbered == sorted(numbered, reverse=True)
    assert all(cell["url"].startswith("http") for cell in table["Published by"])
    assert {"Network", "Accelerator", "Devices", "Measured", "Predicted", "80 % interval"} <= set(table.columns)


def test_points_lead_to_their_sources(panel: Any) -> None:
    panel.update(kind="transformer")
    signals, columns, rows = panel.shown["signals"], panel.columns, cb.accuracy(by="row", kind="transformer")
    assert [signals["urls"][at] for at in columns["source"]] == list(rows["url"])
    assert [signals["publishers"][at] for at in columns["source"]] == list(rows["publisher"])
    assert [signals["models"][at] for at in columns["model"]] == list(rows["model"])


def test_coverage_is_known_for_the_full_model_alone(panel: Any) -> None:
    panel.update(model="Paleo 2017")
    assert "intervals" in panel.shown["off"]["picture"]["coverage"]
    panel.update(picture="coverage")
    assert "intervals are known of the full model alone" in panel.answer.lower() and panel.shown["error"]
    panel.update(model="full")
    assert panel.shown["error"] == "" and panel.shown["picture"] == "coverage"


def test_coverage_marks_are_those_of_the_call(panel: Any) -> None:
    panel.update(kind="transformer", picture="coverage")
    each = cb.accuracy(kind="transformer").set_index("publisher")
    few = [name for name in each.index if name not in panel.columns["row"]]
    together = cb.accuracy(by="all", kind="transformer", publishers=few).set_index("all")
    own = pd.concat([each, together.rename(index={"all": "others"})])
    assert len(few) > 1 and "others" in panel.columns["row"]
    for row, share, word in zip(*(panel.columns[name] for name in ("row", "share", "verdict")), strict=True):
        line = own.loc[row]
        assert share == pytest.approx(100 * line["coverage_80"], rel=1e-4)
        assert (word == "less than chance") == (line["coverage_80"] < line["band_low_80"])


def test_coverage_is_told_as_the_picture_shows_it(panel: Any) -> None:
    for by, words in (("publisher", "errors of one publisher's runs"), ("generation", "find the group")):
        panel.update(by=by, picture="coverage")
        share, verdicts = panel.columns["share"], panel.columns["verdict"]
        assert f"{min(share):.0f} to {max(share):.0f} % by" in panel.answer and words in panel.answer
        outside = sum(verdict != "within chance" for verdict in verdicts)
        assert f"Groups: {outside} of {len(share)}" in panel.answer
        assert f"{verdicts.count('less than chance') or 'none'} below it" in panel.answer


def test_runs_of_different_units_share_no_axis(panel: Any) -> None:
    """Seconds of a step and images a second have no scale in common: the axes are a number of devices and a ratio."""
    rows, columns, signals = cb.accuracy(by="row"), panel.columns, panel.shown["signals"]
    assert rows["unit"].nunique() > 3
    assert [signals["units"][at] for at in columns["unit"]] == list(rows["unit"])
    assert columns["ratio"] == pytest.approx(list(rows["predicted"] / rows["measured"]), abs=6e-4)
    assert columns["at"] == pytest.approx(list(rows["devices"]), rel=0.21)
    assert signals["low"] < min(columns["at"]) and max(columns["at"]) < signals["high"]
    written = json.dumps(panel.specs["points"])
    assert '"measured:Q"' not in written and '"field": "measured"' not in written


def test_parts_are_shares_of_the_runs(panel: Any) -> None:
    parts = {part["name"]: part for part in panel.shown["parts"]}
    assert sum(part["value"] for part in parts.values()) == pytest.approx(1)
    assert parts["within 10 %"]["value"] == pytest.approx(cb.accuracy(by="all").iloc[0]["within_10"])
    counted = sum(int(part["formula"].split()[0].replace(",", "")) for part in parts.values())
    assert counted == len(panel.frame)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "vision"}, ["vision", "transformer"]),
        ({"model": "without magic"}, ["without magic", "without launch"]),
        ({"kind": "classic", "model": "without bubble"}, ["another kind"]),
        ({"publishers": ["nobody"]}, ["nobody", "lambda"]),
        ({"kind": "transformer", "publishers": ["lambda"]}, ["no such run was measured"]),
        ({"accelerators": ["h100"]}, ["h100", "h100-sxm"]),
        ({"networks": ["gpt3_175b"], "accelerators": ["rtx-4070-laptop"]}, ["no such run was measured"]),
        ({"band": 0}, ["Acceptable error", "1 to 50"]),
        ({"by": "colour"}, ["colour", "publisher"]),
        ({"publishers": ["lambda"] * 5}, ["at most 4"]),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"kind": "transformer", "by": "tier", "picture": "errors", "band": 10},
        {"publishers": ["lambda", "huggingface"], "model": "constant utilisation"},
        {"accelerators": ["a100-sxm-80gb"], "picture": "coverage"},
        {"kind": "classic", "model": "full, row alone left out"},
        {"kind": "inference", "networks": ["resnet50"]},
        {"kind": "generation", "model": "without cache", "picture": "errors"},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.accuracy(**state)
    assert panel.shown["error"] == ""
    first, second = panel.code.splitlines()
    assert repr(eval(first, {"cb": cb})) == repr(panel)
    ast.parse(panel.code)
    found = eval(second, {"cb": cb})
    rows = found["rows"].sum() if "rows" in found else len(found)
    assert f"alf of {rows:,} " in panel.answer


def test_the_csv_is_what_is_shown(panel: Any) -> None:
    read = pd.read_csv(io.StringIO(panel.csv()))
    assert {"publisher", "url", "measured", "predicted", "low_80", "high_80"} <= set(read.columns)
    panel.update(picture="errors", by="year")
    assert "median_error" in pd.read_csv(io.StringIO(panel.csv()))


def test_sources_are_those_of_the_runs(panel: Any) -> None:
    panel.update(publishers=["mosaicml"])
    panel.receive({"do": "open", "what": "sources"})
    items = panel.shown["sources"]["items"]
    assert all(title and url.startswith("http") and "mosaicml" in note for title, url, note in items)


def test_familiar_publishers_flatter(panel: Any) -> None:
    panel.update(kind="classic", model="full, row alone left out")
    assert "publishers not held out" in repr(panel) and "that much easier" in panel.answer


def test_a_network_stands_once_in_the_list_in_words() -> None:
    """Publishers spell names in many ways: 225 runs of "ResNet-50 v1.5" are of the network of 289 "resnet50_v1.5"."""
    control = next(one for one in cb.panels.accuracy().shape["controls"] if one["name"] == "networks")
    labels = [label for _, label, _, _ in control["options"]]
    assert len(set(labels)) == len(labels) and not [label for label in labels if "_" in label and " " not in label]
    found = {key: (label, also) for key, label, also, _ in control["options"]}
    assert found["llama3_70b"][0] == "Llama 3 70B" and "LLAMA3_70B" in found["llama3_70b"][1].split(";")
    assert found["MaxText 32B"][0] == "MaxText 32B", "no row of the catalogue bears it"


@pytest.mark.parametrize("asked", ["vgg16", "VGG-16"])
def test_every_spelling_of_a_network_chooses_all_of_its_runs(asked: str) -> None:
    rows = cb.accuracy(by="row", kind="inference")
    spelled = rows["model"].isin(["vgg16", "VGG-16"])
    assert set(rows.loc[spelled, "model"]) == {"vgg16", "VGG-16"}
    assert list(cb.accuracy(by="row", kind="inference", networks=[asked])["id"]) == list(rows.loc[spelled, "id"])
