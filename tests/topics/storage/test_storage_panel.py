"""The panel of recipe 02 without a browser: what it says is what `cb.match_storage` says, and its errors."""

from __future__ import annotations

import ast
import io
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.calibration import judgement
from cookbook.panels import options
from cookbook.panels.text import percent
from cookbook.prediction.kinds import input_pipeline
from cookbook.topics.storage import charts
from cookbook.topics.storage.platforms import SHORT_CHANGES
from cookbook.topics.storage.storage_panel import _cost, _samples
from cookbook.units import dollars

PICTURES = ("chain", "changes", "scaling", "epochs")
BENCHMARK = {"model": "mlperf/unet3d", "data": "benchmark", "storage": "micron-9400-7-68tb-gen4"}


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("storage")


def called(panel: Any) -> Any:
    """What the second line of the code gives."""
    return eval(panel.code.splitlines()[1], {"cb": cb})


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    found = called(panel)
    rate, used = _samples(found.samples_per_s), percent(found.utilisation)
    low, high = (_samples(end) for end in found.samples_range)
    assert f"{rate} samples/s, starved by {found.bottleneck}: {used} utilisation." in panel.answer
    assert f"80 % interval {low}-{high} samples/s" in panel.answer
    assert f"{dollars(found.idle_usd_per_hour)} of " in panel.answer
    assert f"at most {found.largest_accelerators:,.0f} accelerators can be kept 90 % busy" in panel.answer
    assert f"Change first: {found.changes[0].name}; utilisation is then " in panel.answer


def test_a_change_that_changes_nothing_is_no_headline() -> None:
    """With memory for all files the GPUs wait for nothing: a change brings 1.0 times the rate, and waiting costs $0."""
    panel = cb.panels.storage(memory=8192, picture="changes")
    found = called(panel)
    gains = [each.samples_per_s / found.samples_per_s for each in found.changes]
    assert not gains or max(gains) < 1.05
    title = panel.shown["signals"]["live_title"]
    assert "1.0×" not in title and "No change here" in title and "Change first: nothing" in panel.answer
    assert 0 < found.idle_usd_per_hour < 0.005 and "$0.00000" not in panel.answer


def test_the_chain_adds_up(panel: Any) -> None:
    """No stage is slower than what comes out; the slowest is marked, and the parts of an hour are the hour."""
    found, columns = called(panel), panel.columns
    rates = dict(zip(columns["row"], columns["rate"], strict=True))
    slowest = columns["row"][columns["state"].index("slowest stage")]
    through = [rate for row, rate in rates.items() if row not in ("storage", "network") and rate is not None]
    assert rates[slowest] == min(through) == pytest.approx(found.samples_per_s, rel=0.01)
    assert sum(part["value"] for part in panel.shown["parts"]) == pytest.approx(1)
    assert rates["network"] is None  # drives in the host: no limit is no figure, and not 0


def test_checkpoints_take_their_part_of_the_hour(panel: Any) -> None:
    panel.update(model="llama3_8b", data="c4-en-tokens", batch=1, checkpoints=1)
    found = called(panel)
    parts = {part["name"]: part["value"] for part in panel.shown["parts"]}
    assert parts["writing checkpoints"] == pytest.approx(found.checkpoint_stall) and found.checkpoint_stall > 0.1
    assert parts["computing"] + parts["waiting for input"] == pytest.approx(1 - found.checkpoint_stall)
    assert 1 - parts["computing"] == pytest.approx(found.idle_share)
    panel.update(asynchronous="yes")
    assert "asynchronous checkpoints" in panel.answer and called(panel).checkpoint_stall < found.checkpoint_stall


def test_ranked_changes_are_those_of_the_call(panel: Any) -> None:
    panel.update(picture="changes", price=79)
    found = called(panel)
    panel.receive({"do": "open", "what": "table"})
    table = pd.DataFrame(panel.shown["table"]["rows"], columns=panel.shown["table"]["columns"])
    ranked = cb.planning.rank_changes(found)
    assert table["Change"].tolist() == ranked["change"].tolist()
    drive = table[table["Change"].str.startswith("twice the drives")].iloc[0]
    assert drive["Cost"] == "$79"
    worth = [float(text.replace(",", "")) for text in table["Gain per $/h [1/s]"]]
    assert worth == pytest.approx(ranked["gain_per_usd"].tolist(), rel=0.01)
    panel.update(price=0)
    panel.receive({"do": "open", "what": "table"})
    table = pd.DataFrame(panel.shown["table"]["rows"], columns=panel.shown["table"]["columns"])
    assert table.iloc[-1]["Cost"] == "not known"  # never 0


def test_each_change_has_a_short_name_that_fits() -> None:
    figures = {"hosts": np.ones(1), "drives": np.ones(1), "network": np.ones(1), "stored": np.ones(1)}
    names = (
        "memory",
        "small_files",
        "workers",
        "cores",
        "work",
        "samples",
        "decoded",
        "prefetch",
        "pinned",
        "link",
        "copy_efficiency",
        "capacity",
        "local",
    )
    figures |= {name: np.ones(1) for name in names}
    tier = {"price_usd_per_tb": np.nan, "price_date": "", "price_per": "purchase"}
    known = {"memory_for_cache": 0.7, "pageable_share": 0.5}
    found = {name for name, *_ in input_pipeline._candidates(figures, tier, known)}
    assert set(SHORT_CHANGES) <= found and max(len(SHORT_CHANGES.get(name, name)) for name in found) <= 20


def test_the_curve_over_accelerators_is_that_of_single_calls(panel: Any) -> None:
    panel.update(picture="scaling")
    frame = pd.DataFrame(panel.columns)
    later = frame[frame["line"] == "later epochs"].set_index("count")["utilisation"]
    assert (later.diff().dropna() <= 1e-6).all() and panel.shown["signals"]["now"] == 8
    for count in (1, 4, 32):
        panel.update(accelerators=count)
        assert later[count] == pytest.approx(100 * called(panel).utilisation, abs=0.02)
    most = called(panel).largest_accelerators
    assert f"from {most + 1:,.0f} accelerator" in repr(panel)


def test_titles_agree_with_what_is_there(panel: Any) -> None:
    panel.update(picture="epochs", memory=8, storage="samsung-pm9a3-7-68tb")
    assert "takes as long as a later one" in repr(panel)
    panel.update(picture="scaling", data="kinetics-400", cores=1, workers=1)
    assert "not even one accelerator" in panel.answer
    assert "Not even one accelerator reaches a utilisation of 90 %" in repr(panel)


def test_the_page_cache_speeds_later_epochs_alone(panel: Any) -> None:
    panel.update(picture="epochs", memory=256)
    frame = pd.DataFrame(panel.columns)
    ends = frame.groupby("row", sort=False)["end"].max()
    found = called(panel)
    assert ends["first epoch"] == pytest.approx(found.first_epoch_seconds, rel=1e-3)
    assert ends["each later epoch"] == pytest.approx(found.later_epoch_seconds, rel=1e-3)
    assert ends["each later epoch"] < ends["first epoch"] / 2
    assert "serves 100 % of later reads" in repr(panel)


def test_a_price_that_nobody_states_is_missing(panel: Any) -> None:
    assert not (catalog.table("cloud_prices")["accelerator_key"] == "titan-v").any()
    panel.update(system="titan-v")
    assert "not known" in panel.answer and "no price" in repr(panel)
    assert "$" not in "".join(part["text"] for part in panel.shown["parts"])


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=() if place % 8 == 0 else pytest.mark.all)
        for place, (key, *_) in enumerate(options.storages())
    ],
)
def test_every_storage_answers_or_says_why_not(key: str) -> None:
    panel = cb.panels.storage(storage=key, layout="shards", model=0.1)
    assert panel.shown["error"] == "" or "larger than storage" in panel.answer or "read bandwidth" in panel.answer


@pytest.mark.parametrize("key", [option[0] for option in [*options.data_sets(), ("benchmark",)]])
def test_every_card_answers_or_says_why_not(key: str) -> None:
    panel = cb.panels.storage(data=key, storage="samsung-pm9a3-7-68tb", model="mlperf/resnet50")
    assert panel.shown["error"] == "" and "mlperf" not in panel.answer


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"accelerators": 0}, ["Accelerators = 0", "1 to 1,024"]),
        ({"cores": 0}, ["Cores of a host = 0", "1 to 512"]),
        ({"hosts": 16}, ["Hosts = 16", "8 accelerators"]),
        ({"storage": "floppy"}, ["no storage called 'floppy'", "nearest"]),
        ({"storage": "sata-iii-link-limit"}, ["read operations a second", "shards"]),
        ({"data": "kinetics-400", "storage": "mnist"}, ["no storage called"]),
        ({"data": "c4-en-tokens", "storage": "intel-ssd-750-1-2tb-2015", "price": -1}, ["Price = -1", "0 to 1,000"]),
        ({"data": "criteo-1tb", "storage": "samsung-990-pro-1tb-consumer", "drives": 1, "model": "no_net"}, ["no_net"]),
        ({"data": "benchmark"}, ["Data set = benchmark", "MLPerf"]),
        ({**BENCHMARK, "system": "b200-sxm"}, ["no step for it", "A100"]),
        ({**BENCHMARK, "checkpoints": 10}, ["Checkpoint every = 10", "set it to 0"]),
        ({"data": -5}, ["Data set = -5", "outside its range"]),
        ({"layout": "zip"}, ["zip", "shards"]),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, told: list[str]) -> None:
    refuses(panel, change, told)


def test_data_larger_than_the_drives_is_told(panel: Any) -> None:
    panel.update(data="c4-en-tokens", drives=1, storage="samsung-990-pro-1tb-consumer", model=0.1)
    assert panel.shown["error"] == ""
    big = cb.panels.storage(data=2e9, model=0.1)
    assert "larger than storage" in big.answer and "more drives" in big.answer
    big.update(storage="micron-6500-ion-30-72tb-gen4", drives=128)
    assert big.shown["error"] == ""


@pytest.mark.parametrize("typed", [("data", "250 kB"), ("model", "120 ms")])
def test_figures_of_ones_own_can_be_typed(panel: Any, typed: tuple[str, str]) -> None:
    name, text = typed
    panel.update(**{name: {"custom": text}})
    assert panel.shown["error"] == "" and text.replace("kB", "KB").split()[0] in panel.answer
    panel.update(**{name: {"custom": "much"}})
    assert panel.shown["error"]


@pytest.mark.parametrize(
    "state",
    [
        {},
        BENCHMARK,
        {
            "storage": "fsx-for-lustre-persistent-2-ssd-1000-mb-s-tib",
            "data": "imagenet-1k-tfrecord",
            "drives": 16,
            "network": 100,
            "hosts": 2,
            "picture": "scaling",
        },
        {"model": "llama3_8b", "data": "c4-en-tokens", "batch": 1, "checkpoints": 30, "asynchronous": "yes"},
        {"data": "imagenet-1k", "layout": "shards", "price": 50, "picture": "changes"},
        {"model": 0.05, "data": 2e5, "picture": "epochs"},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.storage(**state)
    assert panel.shown["error"] == ""
    ast.parse(panel.code)
    assert repr(eval(panel.code.splitlines()[0], {"cb": cb})) == repr(panel)
    assert f"{_samples(called(panel).samples_per_s)} samples/s" in panel.answer


def test_controls_that_do_nothing_are_off(panel: Any) -> None:
    assert set(panel.shown["off"]["network"]) == set(panel.shown["off"]["asynchronous"]) == {"*"}
    panel.update(storage="netapp-aff-c190", checkpoints=10)
    assert panel.shown["off"]["network"] == panel.shown["off"]["asynchronous"] == {}
    panel.update(**{**BENCHMARK, "checkpoints": 0})
    assert panel.shown["off"]["batch"] and panel.shown["off"]["layout"]


def test_pin_compares(panel: Any) -> None:
    panel.pin()
    panel.update(storage="samsung-pm9a3-7-68tb")
    assert re.search(r"Against the pinned scenario: samples per second [\d.,]+×", panel.answer)
    assert any(panel.columns["before"])
    panel.update(picture="scaling")
    assert "pinned" in panel.columns["line"]


def test_the_csv_is_in_si(panel: Any) -> None:
    read = pd.read_csv(io.StringIO(panel.csv()))
    found = called(panel)
    stage = read[read["kind"] == "stage"].set_index("name")["samples_per_s"]
    assert stage["decoding"] == pytest.approx(found.stages["decoding"])
    assert len(read[read["kind"] == "change"]) == len(found.changes)


def test_sources_name_what_they_gave(panel: Any) -> None:
    panel.receive({"do": "open", "what": "sources"})
    notes = " ".join(note for _, _, note in panel.shown["sources"]["items"])
    assert all(word in notes for word in ("storage", "data set", "accelerator", "price per hour", "constants"))


@pytest.mark.parametrize("picture", PICTURES)
def test_charts_describe_themselves(panel: Any, picture: str) -> None:
    panel.update(picture=picture)
    frame = pd.DataFrame(panel.columns)
    chart = getattr(charts, picture)(frame)
    spec = chart.to_dict()
    assert spec["title"]["text"] and len(spec["description"]) > 60


def test_committed_rows_of_judgement_are_those_that_judging_gives() -> None:
    kept = catalog.table(judgement.TABLE)
    again = pd.DataFrame(judgement.judged_rows())
    assert kept[["kind", "group", "workload"]].equals(again[["kind", "group", "workload"]])
    for name in ("measured", "predicted", "rule", "error", "rule_error"):
        np.testing.assert_allclose(kept[name], again[name].astype(float), rtol=2e-3, atol=2e-3, err_msg=name)
    measured = catalog.table("storage_measured").set_index("id")
    at = kept[kept["kind"] == "utilisation"]
    np.testing.assert_allclose(at["measured"], measured.loc[at["id"], "utilisation"])


def test_predictions_left_out_beat_their_rules() -> None:
    kept = catalog.table(judgement.TABLE)
    kept = kept[kept["rule"].notna()].groupby("kind")[["error", "rule_error"]]
    assert (kept.median()["error"] < kept.median()["rule_error"]).all()
    assert (kept.mean()["error"] < kept.mean()["rule_error"] / 2).all()


def test_burst_credits_are_said_with_what_holds_after_them(panel: Any) -> None:
    panel.update(storage="amazon-ebs-gp2-200-gib", data="imagenet-1k-tfrecord", epochs=100)
    found = called(panel)
    assert found.credit_seconds < found.total_seconds and "rates are those after them" in panel.answer
    panel.update(epochs=1)
    assert "longer than the training" in panel.answer
    panel.update(storage="micron-7500-7-68tb")
    assert "redits" not in panel.answer


@pytest.mark.parametrize(("usd", "told"), [(0.0, "$0"), (0.0009, "less than a cent"), (0.01, "$0.01"), (12.4, "$12.4")])
def test_waiting_costs_no_parts_of_a_cent(usd: float, told: str) -> None:
    found = SimpleNamespace(bar=0.9, largest_accelerators=8, idle_usd_per_hour=usd, usd_per_hour=47.8)
    assert _cost(SimpleNamespace(found=found)).startswith(f"Cost: {told} of the $47.8 per hour pays for waiting; ")
