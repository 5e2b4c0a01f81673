"""The panel of recipe 06 and its tables: figures are those of `Topology` and `match_storage`, errors are words."""

from __future__ import annotations

import ast
import io
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels.shell import MOST_ROWS
from cookbook.topics.storage.charts import level

MACHINES = list(cb.table("system_topologies")["key"])
IMAGES = {"machine": "hgx-h100", "model": "resnet50", "data": "imagenet-1k", "batch": 64, "workers": 2}
# More gradients than a cascade of switches carries in the time of a step.
HELD_BACK = {"machine": "supermicro-4029gp-trt3", "model": "gpt2", "data": "c4-en-tokens", "batch": 1, "workers": 8}


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("host", **IMAGES)


def test_the_answer_is_that_of_the_call(panel: Any) -> None:
    found = cb.planning.size_host("hgx-h100", "resnet50", "imagenet-1k")
    can = f"of the {found.stages['computing']:,.0f} that each accelerator could process: decoding is the limit"
    assert panel.answer.startswith(f"{found.rate:,.0f} samples/s {can}") and "ImageNet-1k for ResNet-50" in panel.answer
    low, high = (f"{end:,.0f}" for end in found.computing_range)
    assert f"each accelerator could process {low}-{high}." in panel.answer
    assert (f"{can}, probably" in panel.answer) == (found.decoding_range[1] >= found.computing_range[0])
    assert f"{found.workers_needed:.0f} workers per accelerator instead of 2 would suffice" in panel.answer


def test_demand_and_decoding_are_those_of_the_engine() -> None:
    found = cb.planning.size_host("hgx-h100", "resnet50", "imagenet-1k", batch=128, workers=3)
    step = cb.train_step("resnet50", "h100-sxm", batch=128)
    assert found.stages["computing"] == pytest.approx(128 / step.point)
    card = {"card": "imagenet-1k", "layout": "shards"}
    fed = cb.match_storage(
        step.point, "dgx-h100", {"read_bandwidth": 1e15, "local": 1}, card, batch=128, accelerators=8, workers=3
    )
    assert found.stages["decoding"] == pytest.approx(fed.stages["decoding"] / 8)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("traffic", ["memory", "both"])
def test_the_use_of_links_is_that_of_the_graph(machine: str, traffic: str) -> None:
    box, found = cb.topology(machine), cb.planning.size_host(machine, "alexnet", "imagenet-1k", traffic)
    flows = box.input_flows() + (box.ring_flows() if traffic == "both" else [])
    pd.testing.assert_frame_equal(found.traffic.use, box.traffic(flows, found.traffic.asked))
    most = cb.planning.size_host(machine, "alexnet", "imagenet-1k", traffic, load="all they can")
    np.testing.assert_allclose(most.traffic.got, box.concurrent(flows))
    if traffic == "both" and len(box.named("accelerator")) > 1:
        assert most.traffic.ring_got == pytest.approx(box.ring_bandwidth(beside=box.input_flows()))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_links_stage_is_where_the_first_link_fills(machine: str) -> None:
    """Up to that rate every flow gets what it asks for, beyond it some flow does not."""
    found = cb.planning.size_host(machine, "alexnet", "imagenet-1k")
    box, ratio = found.machine, found.stages["links"] / found.stages["computing"]
    for factor, enough in ((0.999, True), (1.001, False)):
        asked = found.traffic.asked * ratio * factor
        assert np.allclose(box.concurrent(found.traffic.flows, asked), asked, rtol=1e-6) == enough
    assert found.busiest[2] == pytest.approx(1 / ratio)


def test_a_ring_sends_twice_all_but_one_part_of_the_gradients() -> None:
    found = cb.planning.size_host("dgx-1-v100", "resnet50", "imagenet-1k", "gradients", precision="fp32")
    assert found.exchange_bytes == pytest.approx(2 * 7 / 8 * 4 * cb.model("resnet50").ops.parameter_count)
    half = cb.planning.size_host("dgx-1-v100", "resnet50", "imagenet-1k", "gradients", precision="fp16")
    assert half.exchange_bytes == pytest.approx(found.exchange_bytes / 2)


def test_the_slowest_stage_limits_and_twice_of_it_helps() -> None:
    for machine, model, workers in (("hgx-h100", "resnet50", 2), ("inspur-sr-ai", "alexnet_owt", 2)):
        found = cb.planning.size_host(machine, model, "imagenet-1k", workers=workers, batch=16)
        assert found.rate == np.nanmin(list(found.stages.values())) == found.stages[found.limit]
        assert min(found.changes.values()) >= 1 and max(found.changes.values()) <= 2 + 1e-9
        assert found.limit == "computing" or max(found.changes.values()) > 1


PAIRS = [("resnet50", "imagenet-1k"), ("wav2vec2_base", "librispeech-960h"), ("gpt2", "c4-en-tokens")]


@pytest.mark.parametrize(("network", "data"), PAIRS)
def test_the_cores_needed_meet_the_demand_and_a_quarter_less_does_not(network: str, data: str) -> None:
    found = cb.planning.size_host("hgx-a100", network, data)
    curve = found.curve.set_index("cores")["rate"]
    assert (np.diff(curve) >= -1e-9).all() or data == "c4-en-tokens"
    assert curve[found.cores_needed] >= found.stages["computing"]
    assert found.cores_needed <= 0.25 or curve[found.cores_needed - 0.25] < found.stages["computing"]
    assert found.cores_needed == cb.planning.cores_needed(network, "dgx-a100-80gb", data)


def test_the_rule_of_thumb_is_conditional() -> None:
    """More samples a second, or more work for one, need more cores; text needs next to none."""
    servers = ["dgx-1-p100", "dgx-1-v100", "dgx-a100-80gb", "dgx-h100"]
    cores = [cb.planning.cores_needed("resnet50", server, "imagenet-1k") for server in servers]
    assert cores == sorted(cores) and cores[0] < 1 and cores[-1] > 2
    heavy = cb.planning.cores_needed("resnet50", "dgx-h100", "imagenet-1k", work=3)
    assert 2.5 < heavy / cores[-1] < 3.5
    assert cb.planning.cores_needed("gpt2", "dgx-h100", "c4-en-tokens", 8) < 1


def test_machines_are_those_of_the_graphs() -> None:
    table, box = cb.planning.machines(["dgx-1-v100", "gh200"]), cb.topology("dgx-1-v100")
    assert table.loc[box.name, "input, all"] == box.concurrent(box.input_flows()).min()
    assert table.loc[box.name, "gradients"] == box.ring_bandwidth()
    assert math.isnan(table.loc["GH200 (one superchip)", "gradients"])


def test_measured_all_reduces_stay_below_the_graphs() -> None:
    found = cb.planning.measured_links()
    assert len(found) >= 3 and found["share"].between(0.6, 1).all()


def test_rented_cores_are_half_the_virtual_processors() -> None:
    found = cb.planning.rented(["aws-p3-16xlarge"], "resnet50", "imagenet-1k")
    assert found.loc["aws-p3-16xlarge", "cores"] == 64 / 2 / 8
    with pytest.raises(ValueError, match="virtual processors"):
        cb.planning.rented(["dgx-h100"], "resnet50", "imagenet-1k")


@pytest.mark.parametrize(
    "machine",
    [pytest.param(machine, marks=() if place % 4 == 0 else pytest.mark.all) for place, machine in enumerate(MACHINES)],
)
@pytest.mark.parametrize("picture", ["machine", "gets", "cores"])
def test_every_machine_can_be_drawn(panel: Any, machine: str, picture: str) -> None:
    for traffic in ("both", "storage") if picture != "cores" else ("both",):
        panel.update(machine=machine, traffic=traffic, picture=picture)
        assert panel.shown["error"] == "" and panel.columns, panel.answer
        json.dumps([panel.shown, panel.columns], allow_nan=False)
        panel.receive({"do": "open", "what": "table"})
        assert 0 < len(panel.shown["table"]["rows"]) <= MOST_ROWS
        panel.receive({"do": "open", "what": ""})


@pytest.mark.parametrize("load", ["needed", "all they can"])
def test_links_are_drawn_as_full_as_they_are(panel: Any, load: str) -> None:
    panel.update(**HELD_BACK, load=load)
    box, frame = cb.topology("supermicro-4029gp-trt3"), pd.DataFrame(panel.columns)
    use = cb.planning.size_host(box, "gpt2", "c4-en-tokens", load=load, batch=1, workers=8).traffic.use
    busier = {frozenset((r["from"], r["to"])): 0.0 for _, r in use.iterrows()}
    for _, r in use.iterrows():
        busier[frozenset((r["from"], r["to"]))] = max(busier[frozenset((r["from"], r["to"]))], r["share"])
    hidden = set(box.named("storage") + box.named("nic") + box.named("network"))
    expected = sorted(level(share) for ends, share in busier.items() if not ends & hidden)
    drawn = frame[frame["what"] == "path"].drop_duplicates("id")
    assert sorted(drawn["level"]) == expected and "full" in expected
    nodes = frame[frame["what"] == "node"]
    assert len(nodes) == len(box.nodes) - len(hidden)
    assert not nodes.duplicated(["x", "y"]).any()


def test_titles_agree_with_the_answer(panel: Any) -> None:
    """Links that give all that is needed are no success where decoding holds the accelerators back."""
    panel.update(picture="gets")
    assert "decoding is the limit" in panel.answer and "Decoding limits the accelerators" in repr(panel)
    panel.update(picture="cores")
    assert "would meet the demand; 2 workers cannot" in repr(panel)
    panel.update(workers=8)
    assert "decoding is the limit" not in panel.answer and "meet the demand, more than the usual" in repr(panel)


def test_the_panel_opens_where_something_matters() -> None:
    panel = cb.panels.host()
    assert "links are the limit" in panel.answer and "fully used, first" in repr(panel)


def test_a_sized_host_is_read_only_and_prints_itself() -> None:
    found = cb.planning.size_host("hgx-h100", "resnet50", "imagenet-1k")
    for change in (
        lambda: found.stages.update(links=0),
        lambda: found.traffic.got.fill(0),
        lambda: found.changes.clear(),
        lambda: found.tried["rate"].fill(0),
    ):
        with pytest.raises((AttributeError, ValueError)):
            change()
    assert found.traffic.use is not found.traffic.use and found.curve is not found.curve
    assert len(repr(found)) < 160 and "decoding" in repr(found)
    assert found._repr_html_().count("<tr>") == 4 and "--jp-" in found._repr_html_()
    assert found.frame().loc["decoding", "samples_per_s"] == found.to_dict()["stages"]["decoding"] == found.rate
    json.dumps(found.to_dict())


def test_own_networks_and_other_accelerators_are_sized() -> None:
    own = cb.planning.size_host("hgx-h100", cb.model("resnet50"), "imagenet-1k")
    assert own.rate == cb.planning.size_host("hgx-h100", "resnet50", "imagenet-1k").rate
    needed = cb.planning.cores_needed("resnet50", "h100-sxm", "imagenet-1k")
    assert needed == cb.planning.cores_needed(cb.model("resnet50"), "h100-sxm", "imagenet-1k")
    record = cb.accelerator(like="h100-sxm", mem_bandwidth="8 TB/s", peak_fp16="2 PFLOP/s", peak_bf16="2 PFLOP/s")
    assert cb.planning.cores_needed("resnet50", record, "imagenet-1k") > needed
    faster = cb.planning.size_host("dgx-1-v100", "resnet50", "imagenet-1k", accelerator="h100-sxm")
    plain = cb.planning.size_host("dgx-1-v100", "resnet50", "imagenet-1k")
    assert faster.stages["computing"] > plain.stages["computing"] and faster.stages["links"] > plain.stages["links"] / 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: cb.planning.machines([]),
        lambda: cb.planning.lane_budget(None),
        lambda: cb.planning.rented(5, "vgg16", 1.0),
        lambda: cb.planning.size_platform("hgx-h100", "resnet50", "imagenet-1k", 2.5),
        lambda: cb.planning.nodes_needed("many", "imagenet-1k"),
        lambda: cb.planning.nodes_needed(math.nan, "imagenet-1k"),
        lambda: cb.planning.cores_needed("resnet50", "dgx-h100", "imagenet-1k", [1, 2]),
        lambda: cb.planning.cores_needed("resnet50", "dgx-h100", "imagenet-1k", work="much"),
        lambda: cb.planning.epoch_parts(3),
        lambda: cb.planning.rank_changes("abc"),
    ],
)
def test_tables_refuse_what_they_cannot_count(call: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=" = "):
        call()


def test_gets_and_needs_are_printed_as_they_are(panel: Any) -> None:
    panel.update(machine="workstation-single-root", model="alexnet", load="all they can", picture="gets")
    box = cb.topology("workstation-single-root")
    rates = box.concurrent(box.input_flows() + box.ring_flows())[:4] / 1e9
    np.testing.assert_allclose(panel.columns["got"][:4], rates, rtol=1e-5)
    panel.update(load="needed", **HELD_BACK)
    got, need = (np.array(panel.columns[name]) for name in ("got", "need"))
    short = got < 0.99 * need
    assert short.any() and all("% of the required rate" in word for word in np.array(panel.columns["text"])[short])


def test_unknown_cores_are_said_and_can_be_set(panel: Any) -> None:
    panel.update(machine="inspur-sr-ai")
    assert "set Cores under More" in panel.answer and "[cores not known]" in repr(panel)
    panel.update(cores=2)
    assert "set Cores" not in panel.answer and "2 cores per accelerator" in repr(panel)


def test_advice_follows_the_limit(panel: Any) -> None:
    panel.update(workers=8)
    assert "Buy first: nothing; " in panel.answer
    panel.update(cores=1)
    assert "Buy first: cores; " in panel.answer
    panel.update(cores=None, model="alexnet", batch=256)
    assert "Buy first: no cores; " in panel.answer
    panel.update(traffic="gradients", **HELD_BACK)
    assert "Buy first: wider links" in panel.answer and "times its rate" in panel.answer


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": "hgx-h1000"}, ["hgx-h1000", "hgx-h100"]),
        ({"model": "resnet51"}, ["resnet51", "resnet50"]),
        ({"data": "imagenet"}, ["imagenet", "imagenet-1k"]),
        ({"workers": 0}, ["Workers", "1 to 64"]),
        ({"workers": 2.5}, ["whole number"]),
        ({"cores": -1}, ["Cores", "0.5 to 64"]),
        ({"batch": 0}, ["Batch", "1 to 4,096"]),
        ({"traffic": "post"}, ["post", "gradients"]),
        ({"load": "some"}, ["some", "all they can"]),
        ({"machine": "gh200", "traffic": "gradients"}, ["one accelerator", "input"]),
        ({"traffic": "gradients", "picture": "cores"}, ["decode nothing of this traffic"]),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


@pytest.mark.parametrize(
    "state",
    [
        {},
        IMAGES,
        {**IMAGES, "machine": "dgx-1-v100", "model": "vgg16", "load": "all they can", "picture": "gets", "workers": 5},
        {**IMAGES, "machine": "hgx-a100", "traffic": "storage", "data": "coco-2017"},
        {**IMAGES, "machine": "apollo-6500-gen9-8to1", "traffic": "gradients", "batch": 8},
        {**IMAGES, "machine": "gh200", "traffic": "memory", "cores": 16, "picture": "cores"},
    ],
)
def test_the_code_reproduces_the_state(state: dict[str, Any]) -> None:
    panel = cb.panels.host(**state)
    assert panel.shown["error"] == ""
    ast.parse(panel.code)
    lines, names = panel.code.splitlines(), {"cb": cb}
    assert repr(eval(lines[0], names)) == repr(panel)
    exec(lines[1], names)
    state = panel.values
    wanted = {name: state[name] for name in ("traffic", "load", "batch", "workers", "cores")}
    found = cb.planning.size_host(state["machine"], state["model"], state["data"], **wanted)
    use = eval(lines[2], names)
    np.testing.assert_allclose(use["used"], found.traffic.use["used"], rtol=1e-4)
    if len(lines) > 3:
        count = len(found.machine.named("accelerator"))
        fed = eval(lines[3], names)
        assert fed.stages["decoding"] / count == pytest.approx(found.stages["decoding"], rel=1e-4)


def test_the_csv_is_what_is_shown(panel: Any) -> None:
    read = pd.read_csv(io.StringIO(panel.csv()))
    assert {"start", "end", "bandwidth", "share", "used"} <= set(read.columns)
    panel.update(picture="cores")
    assert {"cores", "rate", "chosen"} <= set(pd.read_csv(io.StringIO(panel.csv())).columns)


def test_sources_are_those_of_the_machine(panel: Any) -> None:
    panel.receive({"do": "open", "what": "sources"})
    items = panel.shown["sources"]["items"]
    assert items and all(title and ("nodes and links" in note or "as a whole" in note) for title, _, note in items)


def test_parts_are_times_of_one_batch(panel: Any) -> None:
    found = cb.planning.size_host("hgx-h100", "resnet50", "imagenet-1k")
    parts = {part["name"]: part["value"] for part in panel.shown["parts"]}
    assert parts["computing"] == pytest.approx(found.step)
    assert max(parts, key=parts.__getitem__) == found.limit


def test_idle_cores_are_never_called_right() -> None:
    """Two of five cores decode just enough: the workers are tight, not the host."""
    panel = cb.panels.host(**{**IMAGES, "machine": "dgx-1-v100"})
    found = cb.planning.size_host("dgx-1-v100", "resnet50", "imagenet-1k", workers=2)
    assert found.limit == "computing" and found.workers < found.cores
    assert "the host is right" not in panel.answer and "Buy first: nothing; " in panel.answer
