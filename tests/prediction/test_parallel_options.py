"""Schedules, shard groups, offload, capacity and networks of a plan: what they change, conserve and refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.catalog import UnknownName
from cookbook.formulas.memory import offloaded_update_seconds
from cookbook.formulas.parallelism import FILLED, SCHEDULES, bubble_share
from cookbook.hardware import machine
from cookbook.prediction.constants import committed
from cookbook.prediction.engine import Estimate
from cookbook.prediction.fabrics import fabric
from cookbook.prediction.kinds import configurations
from cookbook.prediction.kinds import transformer_step as transformer
from cookbook.prediction.kinds.constraints import around, divisors, multiples
from cookbook.prediction.kinds.transformer import resolve
from cookbook.prediction.kinds.transformer_step import MEMORY_EFFICIENCY
from cookbook.prediction.parsing.tables import measured_table, read, without_outcomes
from cookbook.prediction.scenario import Rows

PIPED = {"devices": 64, "tp": 4, "pp": 4, "batch": 1, "global_batch": 128, "seq": 4096}
START = {constant.name: constant.start for constant in transformer.CONSTANTS}
ALONE = {"tp": 1, "pp": 1}
SHARDED = ALONE | {"devices": 64, "zero": 3, "batch": 1, "seq": 4096}
EXPERTS = ALONE | {"devices": 64, "ep": 64, "batch": 1, "seq": 4096, "recompute": "full"}


def step(model: str = "llama2_7b", accelerator: str = "h100-sxm", **plan: Any) -> Estimate:
    return cb.train_step(model, accelerator, neighbours=False, **plan)


def rows_of(frame: Any) -> Rows:
    """Rows of a table of measurements as the engine takes them."""
    return resolve(read("training_transformer", frame))


# What is left out changes nothing.


def test_options_that_say_the_usual_leave_every_row_as_it_is() -> None:
    """A sample of measured rows, with the new columns blank or spelt out."""
    frame = without_outcomes(measured_table("training_transformer")).iloc[::7].reset_index(drop=True)
    plain = rows_of(frame)
    said = rows_of(
        frame.assign(capacity_factor="", network_bandwidth="", oversubscription="1", pod="", offload_link="")
    )
    before, after = (transformer.parts(rows, START) for rows in (plain, said))
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    held = (configurations.memory_bytes(rows, configurations.usual()) for rows in (plain, said))
    np.testing.assert_array_equal(*held)
    assert np.isfinite(transformer.step_seconds(before)).sum() > 100


@pytest.mark.parametrize("plan", [PIPED, PIPED | {"vp": 2}, SHARDED, SHARDED | {"zero": 1}])
def test_the_usual_of_each_option_is_the_plan_without_it(plan: dict[str, Any]) -> None:
    plain = step(**plan)
    usual = {"pipeline_schedule": "interleaved" if plan.get("pp") else "1f1b", "oversubscription": 1, "offload": ""}
    said = step(**plan, **usual, shard=64 // (plan.get("tp", 1) * plan.get("pp", 1)))
    assert plain.point == said.point and plain.memory == said.memory and plain.parts == said.parts


# Pipeline schedules.


def test_each_schedule_has_its_bubble_and_its_memory() -> None:
    found = {
        name: step(**PIPED, pipeline_schedule=name, vp=2 if name in ("interleaved", "zb-v") else 1)
        for name in (*SCHEDULES, "zb-v")
    }
    bubble = {name: each.parts["bubble"] for name, each in found.items()}
    assert bubble["gpipe"] == bubble["1f1b"] == 2 * bubble["interleaved"]
    assert bubble["zb-v"] < bubble["zero-bubble"] < bubble["1f1b"]
    kept = {name: each.memory["activations"] for name, each in found.items()}
    assert kept["gpipe"] == pytest.approx(kept["1f1b"] * 32 / 4)  # all micro-batches, not one for each stage
    assert kept["zero-bubble"] == kept["zb-v"] == kept["1f1b"] < kept["interleaved"]
    # The two ends of a V are on one device: it has embedding, head and logits.
    assert found["zb-v"].memory["weights"] > found["zero-bubble"].memory["weights"]


def test_what_fills_the_bubble_is_the_products_for_weight_gradients() -> None:
    """One third of the products, less what nobody computes again; none in low-rank adaptation."""
    plain, filled = (step(**PIPED, pipeline_schedule=name) for name in ("1f1b", "zero-bubble"))
    m = 32
    left_over = ("head", "pipeline_exchange", "bubble", "gradient_exchange", "optimiser", "stragglers")
    chunk = sum(value for name, value in plain.parts.items() if name not in left_over) / m
    share = plain.parts["products"] / m / 3 / chunk
    gap = filled.parts["bubble"] / plain.parts["bubble"]
    assert gap == pytest.approx(1 - 2 * share)
    assert gap == pytest.approx(float(bubble_share("zero-bubble", 4, m, 1, share) / bubble_share("1f1b", 4, m)))


def test_published_gains_of_schedules_over_one_forward_one_backward() -> None:
    """Two models on MI300X by one publisher, batch not stated: each gain within 4 %, half of them within 2 %."""
    table = catalog.table("training_transformer")
    rows = table[(table["source"] == "amd-primus") & table["note"].str.contains("PP schedule")]
    name = rows["note"].str.extract(r"PP schedule ([\w-]+)")[0]
    rows = rows[~name.str.startswith("v-")].assign(pipeline_schedule=name)
    frame = without_outcomes(measured_table("training_transformer").loc[rows.index])
    frame = frame.assign(pipeline_schedule=rows["pipeline_schedule"]).reset_index(drop=True)
    constants = {constant.name: constant.start for constant in transformer.CONSTANTS}
    seconds = transformer.step_seconds(transformer.parts(rows_of(frame), constants))
    rate, depth = rows["tokens_per_s"].to_numpy(), rows["pp"].to_numpy()
    first = [int(np.flatnonzero((depth == p) & (rows["pipeline_schedule"] == "1f1b"))[0]) for p in depth]
    errors = np.abs(np.log(seconds[first] / seconds) - np.log(rate / rate[first]))
    errors = errors[np.arange(len(rate)) != first]
    assert len(errors) == 7 and errors.max() < 0.04 and np.median(errors) < 0.02


def test_a_bubble_is_never_below_nothing() -> None:
    for kind in FILLED:
        assert bubble_share(kind, 8, 16, 1, 0.5) == 0


# Offload.


def test_offload_frees_memory_and_takes_time() -> None:
    plans = [step(**SHARDED | {"zero": 1}, offload=to) for to in ("", "optimiser", "optimiser to drives")]
    memory, seconds = ([getattr(each, name) for each in plans] for name in ("memory_bytes", "point"))
    assert memory[0] > memory[1] == memory[2] and seconds[0] < seconds[1] < seconds[2]
    assert plans[1].memory["optimiser"] == 0 and plans[1].memory["weights"] == plans[0].memory["weights"]
    others = [name for name in plans[0].parts if name not in ("optimiser", "stragglers")]
    assert all(plans[0].parts[name] == plans[2].parts[name] for name in others)


def test_the_update_on_the_host_by_hand() -> None:
    """The 32nd part of a stage's weights: states over host memory are slower than gradients over PCIe."""
    found = step(**SHARDED | {"zero": 1}, offload="optimiser")
    # A step counts the layers and one table; device memory also the second table.
    trained = found.memory["weights"] / 2 - 32000 * 4096
    by_hand = float(offloaded_update_seconds(trained / 64, 2, 2, 12, machine("h100-sxm").host_link, 40e9))
    assert found.parts["optimiser"] == pytest.approx(by_hand, rel=1e-3)
    on_device = step(**SHARDED | {"zero": 1}).parts["optimiser"]
    assert on_device == pytest.approx(trained / 64 * 30 / (3.35e12 * MEMORY_EFFICIENCY), rel=0.1)


TO_HOST = ("optimiser", "optimiser to drives", "optimiser and weights", "weights", "activations")


@pytest.mark.parametrize("zero", [1, 3])
@pytest.mark.parametrize("to", TO_HOST)
def test_whatever_lies_in_host_memory_frees_memory_and_takes_time(to: str, zero: int) -> None:
    there, here = (step(**SHARDED | {"zero": zero}, offload=where) for where in (to, "none"))
    assert there.memory_bytes < here.memory_bytes and there.point > here.point
    assert step(**SHARDED | {"zero": zero}, offload=[to, "none"]).point.tolist() == [there.point, here.point]


def test_activations_in_host_memory_by_hand() -> None:
    """Out in the forward pass, a third of the computation; back in the other two; two layers stay."""
    here, there = (step(**SHARDED | {"zero": 1}, offload=to) for to in ("", "activations"))
    stored = here.memory["activations"] / committed("training_transformer").values["activation_margin"][""]
    body = sum(here.parts[name] for name in ("products", "attention", "elementwise", "launch"))
    copy = stored / machine("h100-sxm").host_link
    by_hand = max(copy - body / 3, 0) + max(copy - body * 2 / 3, 0)
    assert by_hand > 0 and there.parts["offload"] == pytest.approx(by_hand)
    assert there.memory["activations"] == pytest.approx(here.memory["activations"] * 2 / 32)


def test_weights_in_host_memory_come_in_for_both_passes_of_each_micro_batch() -> None:
    """Of replicas whole, under ZeRO 3 one part; many micro-batches of few tokens hide little of it."""
    short = {"devices": 8, "seq": 128, "batch": 1, **ALONE}
    for zero, share in ((1, 1), (3, 8)):
        here, there, more = (
            step(**short, zero=zero, global_batch=batch, offload=to)
            for batch, to in ((64, "none"), (64, "weights"), (128, "weights"))
        )
        weights = here.memory["weights"]
        assert weights == pytest.approx(2 * 6.738e9 / share, rel=0.001) and there.memory["weights"] == 0
        body = sum(here.parts[name] for name in ("products", "attention", "elementwise", "launch")) / 8
        copy = weights / machine("h100-sxm").host_link
        by_hand = 8 * (max(copy - body / 3, 0) + max(copy - body * 2 / 3, 0))
        assert there.parts["offload"] == pytest.approx(by_hand) and more.parts["offload"] == pytest.approx(2 * by_hand)
        # What the optimiser made of them returns once a step.
        back = there.parts["optimiser"] - here.parts["optimiser"]
        assert back == pytest.approx(weights / machine("h100-sxm").host_link, rel=0.03)
        # The layer that is computed and the next are on the device.
        assert there.memory["gathered"] == pytest.approx(2 * 2 * 12.95e9 / 2 / 32, rel=0.01)


def test_a_slow_link_is_waited_for_and_a_fast_one_is_hidden_behind_computation() -> None:
    tables = [
        measured_table("training_transformer").head(1).assign(cpu_offload="activations", offload_link=rate)
        for rate in ("1 GB/s", "2 GB/s", "900 TB/s")
    ]
    parts = [transformer.parts(rows_of(without_outcomes(table)), START) for table in tables]
    slow, twice, fast = (float(part["offload"][0]) for part in parts)
    assert slow > twice > fast == 0


def test_some_layers_of_activations_in_host_memory_are_read_from_the_words_of_a_report() -> None:
    """40 of 80 layers leave the others on the device; a report of more than there are, or of none, is refused."""
    frame = measured_table("training_transformer")
    row = without_outcomes(frame[frame["cpu_offload"] == "activations of 40 layers"].head(1))
    some, every, none = (rows_of(row.assign(cpu_offload=to)) for to in (*row["cpu_offload"], "activations", "no"))
    assert [np.max(rows.offload_activations) for rows in (some, every, none)] == [0.5, 1, 0]
    held = [
        configurations.memory_parts(rows, configurations.usual())["activations"].item() for rows in (some, every, none)
    ]
    assert held[1] < held[0] < held[2] and held[0] == pytest.approx(held[2] / 2 + held[1])
    assert "offloaded_layers = 81 is more" in rows_of(row.assign(cpu_offload="activations of 81 layers")).why.item()
    other = rows_of(row.assign(cpu_offload="optimizer", offloaded_layers="8"))
    assert "offloaded_layers = 8: no activations lie in host memory" in other.why.item()


def test_an_unknown_link_matters_where_something_is_offloaded_over_it() -> None:
    """Entry by entry: activations of the one accelerator, and nothing of the other."""
    both = cb.train_step("llama2_7b", ["h100-sxm", "tpu-v5p"], neighbours=False, offload=["activations", "none"])
    assert both.point.tolist() == [
        step(offload="activations").point,
        step(accelerator="tpu-v5p").point,
    ]


def test_weights_on_few_layers_of_a_stage_are_never_more_than_the_stage() -> None:
    """One layer on each of 32 stages: it is on the device as a whole, and what is beside it is gone."""
    deep = {"devices": 32, "tp": 1, "pp": 32, "batch": 1, "seq": 512}
    here, there = (step(**deep, offload=to) for to in ("none", "weights"))
    layer = 2 * 12.95e9 / 2 / 32
    assert there.memory["gathered"] == pytest.approx(layer, rel=0.01)
    assert there.memory_bytes < here.memory_bytes


def test_tables_pay_for_drives_as_plans_do() -> None:
    row = without_outcomes(measured_table("training_transformer").query("accelerator == 'h100-sxm'").head(1))
    seconds = {
        to: transformer.parts(rows_of(row.assign(cpu_offload=to)), START)["optimiser"].item()
        for to in ("no", "optimizer", "optimiser to drives", "optimizer states on NVMe")
    }
    assert seconds["no"] < seconds["optimizer"] < seconds["optimiser to drives"]
    assert seconds["optimizer states on NVMe"] == seconds["optimiser to drives"]


def test_of_a_device_whose_host_link_is_not_known_a_table_counts_no_copies_and_says_no_rate() -> None:
    frame = measured_table("training_transformer")
    row = without_outcomes(frame[(frame["accelerator"] == "tpu-v5e") & (frame["cpu_offload"] == "activations")].head(1))
    rows = rows_of(row)
    told = [name for name, where, _ in rows.assumed if np.any(where)]
    assert np.isnan(rows.offload_link).all() and told == ["sequence_parallel"]
    assert transformer.parts(rows, START)["offload"].item() == 0


# Devices of several cores.


def test_devices_follow_from_shards_where_each_core_of_a_device_is_one() -> None:
    row = measured_table("training_transformer").query("accelerator == 'trainium1'").head(1)
    row = without_outcomes(row).assign(devices="", per_node="", tp="2", pp="1", cp="1", dp="16", global_batch="16")
    rows = rows_of(row)
    assert rows.why.item() == "" and [np.max(rows.values[name]) for name in ("devices", "cores", "dp")] == [16, 2, 16]
    why = rows_of(row.assign(devices="4")).why.item()
    assert "tp x pp x cp x dp = 32 is not devices = 4 with 2 cores each" in why
    assert step(accelerator="trainium1", tp=8).assumed.taken["devices"] == "4"
    with pytest.raises(ValueError, match=r"devices = 2 with 2 cores each is not a multiple of .* = 8: take 4 devices"):
        step(accelerator="trainium1", tp=8, devices=2)
    with pytest.raises(ValueError, match="tp x pp = 8 is more than the 4 cores of devices = 2"):
        cb.generate("llama3_8b", "inferentia2", tp=8, devices=2)
    with pytest.raises(ValueError, match=r"tp x pp = 8 is more than devices = 2$"):
        cb.generate("llama3_8b", "h100-sxm", tp=8, devices=2)


# Shard groups and networks.


def test_groups_of_replicas_trade_memory_for_traffic() -> None:
    """Eight of a node share: weights are gathered over NVLink; gradients then cross between groups."""
    plans = {shard: step(**SHARDED, shard=shard) for shard in (1, 8, 32, 64)}
    memory = [plan.memory_bytes for plan in plans.values()]
    assert memory == sorted(memory, reverse=True) and len(set(memory)) == 4
    states = plans[8].memory["weights"]
    assert states == pytest.approx(8 * plans[64].memory["weights"]) == pytest.approx(plans[1].memory["weights"] / 8)
    assert plans[64].parts["gradient_exchange"] == 0 < plans[8].parts["gradient_exchange"]
    # Four pairs of a node sum up over NVLink first: the network carries no more than for groups of eight.
    ports = [step(**SHARDED, shard=shard).parts["gradient_exchange"] for shard in (2, 8)]
    assert ports[1] < ports[0] < 2 * ports[1]
    slow = {shard: step(**SHARDED, shard=shard, oversubscription=8).parts["weight_exchange"] for shard in (8, 64)}
    assert slow[8] == plans[8].parts["weight_exchange"] and slow[64] > plans[64].parts["weight_exchange"]


@pytest.mark.parametrize("plan", [SHARDED, PIPED, SHARDED | {"zero": 1}])
def test_less_network_never_hastens(plan: dict[str, Any]) -> None:
    seconds = [step(**plan, oversubscription=o).point for o in (1, 1.5, 4, 16)]
    assert seconds == sorted(seconds) and seconds[-1] > seconds[0]
    assert step(**plan | {"devices": 64}, per_node=64, oversubscription=16).point == step(**plan, per_node=64).point


def test_pods_hide_their_oversubscription_from_rings_but_not_from_experts() -> None:
    """Beyond 3,072 devices of Meta's pods a ring enters a pod once; an all-to-all of 64 stays within one."""
    plan = {"devices": 6144, "batch": 1, "seq": 4096, "zero": 3}
    wide, meta = (step(**plan, fabric=name) for name in ("dgx-superpod-h100", "meta-24k-roce"))
    assert meta.parts["weight_exchange"] == wide.parts["weight_exchange"]
    inside = EXPERTS | {"devices": 512}
    found = [step("deepseek_v3", **inside, oversubscription=o).parts["expert_exchange"] for o in (1, 8)]
    assert found[1] > found[0]


def test_a_rack_of_72_brings_its_domain() -> None:
    """Experts over 64 devices of one rack exchange over NVLink; over eight nodes of 8, over the network."""
    plan = EXPERTS | {"devices": 72 * 8, "ep": 64}
    rack = step("deepseek_v3", "gb200", **plan, fabric="NVL72")
    nodes = step("deepseek_v3", "b200-sxm", **plan)
    assert rack.parts["expert_exchange"] < nodes.parts["expert_exchange"] / 4
    same = step("deepseek_v3", "gb200", **plan, per_node=72)
    assert rack.parts["expert_exchange"] == same.parts["expert_exchange"]
    assert fabric("NVL72").domain == 72


def test_capacity_scales_what_experts_compute_and_are_sent() -> None:
    one, two, free = (step("mixtral_8x7b", devices=64, ep=8, batch=1, capacity_factor=c) for c in (1, 2, None))
    # Reading the weights of the experts does not grow with the rows.
    assert 1.7 < two.parts["experts"] / one.parts["experts"] < 2 and one.parts["experts"] < free.parts["experts"]
    assert two.memory["activations"] > one.memory["activations"] == free.memory["activations"]
    assert two.parts["expert_exchange"] > one.parts["expert_exchange"]


# Conservation.


@pytest.mark.parametrize(("tp", "zero", "dp"), [(1, 0, 64), (2, 0, 32), (8, 0, 8), (1, 3, 64), (4, 3, 16), (8, 3, 8)])
def test_shards_of_weights_add_up(tp: int, zero: int, dp: int) -> None:
    """All devices together hold one copy, or one for each replica."""
    parts = step(devices=64, tp=tp, zero=zero, batch=1, sequence_parallel=tp > 1).memory
    whole = step(devices=1, zero=0, batch=1, recompute="full").memory
    copies = 1 if zero == 3 else dp
    for name in ("weights", "gradients", "optimiser"):
        assert 64 * parts[name] == pytest.approx(copies * whole[name])


@pytest.mark.parametrize("pp", [1, 2, 4, 8])
def test_stages_of_a_pipeline_hold_the_layers_once(pp: int) -> None:
    """Stages besides their tables: embedding on the first, head on the last."""
    table = 2 * 32000 * 4096
    stage = step(devices=pp, pp=pp, zero=0, batch=1, global_batch=pp).memory["weights"] - table * (1 + (pp == 1))
    whole = step(devices=1, zero=0, batch=1).memory["weights"] - 2 * table
    assert pp * stage == pytest.approx(whole)


@pytest.mark.parametrize(("tp", "cp"), [(2, 1), (8, 1), (1, 4), (2, 4)])
def test_shards_of_activations_and_of_work_add_up(tp: int, cp: int) -> None:
    """With a split sequence no activation is held twice; tokens of a sequence are computed once."""
    plan = {"batch": 1, "seq": 8192, "zero": 0, "recompute": "none"}
    whole = step(devices=1, **plan)
    part = step(devices=tp * cp, tp=tp, cp=cp, sequence_parallel=tp > 1, **plan)
    assert tp * cp * part.memory["activations"] == pytest.approx(whole.memory["activations"])
    # Blocks of a sequence go round in a ring, which costs the kernel some of its speed.
    ring = committed("training_transformer").values["ring_attention"][""] if cp > 1 else 1.0
    assert tp * cp * part.parts["attention"] == pytest.approx(ring * whole.parts["attention"], rel=1e-6)


def test_what_fits_by_tensor_context_and_expert_parallelism() -> None:
    job = dict(devices=64, batch=1, seq=8192, global_batch=512, recompute="none", pp=1, zero=1)
    tp8 = dict(tp=8, sequence_parallel=True)
    large = [job | tp8, job | dict(tp=1, pp=8), job | dict(tp=1, zero=3), job | dict(tp=1, zero=3, recompute="full")]
    assert [step("llama3_70b", "dgx-h100", **how).fits for how in large] == ["yes", "no", "no", "yes"]
    long = job | tp8 | dict(seq=131072, global_batch=64)
    assert [step("llama3_8b", "dgx-h100", **long, cp=cp).fits for cp in (1, 2)] == ["no", "yes"]
    experts = job | dict(tp=1, seq=None)
    assert [step("mixtral_8x7b", "dgx-h100", **experts, ep=ep).fits for ep in (1, 8)] == ["no", "yes"]


@pytest.mark.parametrize("zero", [1, 3])
def test_memory_falls_with_recomputation_and_with_the_stage(zero: int) -> None:
    needed = [step(**SHARDED | {"zero": zero}, recompute=how).memory_bytes for how in ("none", "selective", "full")]
    assert needed[0] >= needed[1] >= needed[2] and needed[0] > needed[2]
    stages = [step(**SHARDED | {"zero": z}, recompute="full").memory_bytes for z in (0, 1, 2, 3)]
    assert stages == sorted(stages, reverse=True)
    offloaded = step(**SHARDED | {"zero": zero}, recompute="full", offload="optimiser").memory_bytes
    assert offloaded < stages[zero]


# What cannot be.


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"devices": 64, "tp": 5}, ["devices = 64", "multiple of tp x pp x cp = 5", "60 or 65"]),
        ({"devices": 48, "tp": 3}, ["tp = 3", "32 attention heads", "2 or 4"]),
        ({"devices": 64, "pp": 64}, ["pp = 64", "32 layers", "take 32"]),
        ({"devices": 4, "pp": 4, "vp": 3}, ["vp = 3", "32 layers", "2 or 4"]),
        ({"devices": 8, "cp": 8, "seq": 4100}, ["cp = 8", "4100 tokens", "5 or 10"]),
        ({"devices": 8, "ep": 4}, ["ep = 4", "no experts"]),
        ({"model": "mixtral_8x7b", "devices": 9, "ep": 3}, ["ep = 3", "8 experts", "2 or 4"]),
        ({"model": "mixtral_8x7b", "devices": 12, "ep": 8}, ["ep = 8", "dp x cp x tp = 12", "4"]),
        ({"devices": 8, "global_batch": 4}, ["global_batch = 4", "8 x 1", "take 8"]),
        ({"devices": 8, "global_batch": 20, "batch": 2}, ["global_batch = 20", "8 x 2", "16 or 32"]),
        ({"devices": 64, "zero": 3, "shard": 48}, ["shard = 48", "64", "32 or 64"]),
        ({"devices": 64, "zero": 3, "shard": 128}, ["shard = 128", "take 64"]),
        ({"devices": 8, "zero": 0, "shard": 8}, ["shard = 8", "zero = 0"]),
        ({"capacity_factor": 1.25}, ["capacity_factor = 1.25", "no experts"]),
        ({"model": "mixtral_8x7b", "capacity_factor": -1}, ["capacity_factor = -1", "0.001 to 1000"]),
        ({"oversubscription": 0.5}, ["oversubscription = 0.5", "1"]),
        ({"pipeline_schedule": "2f2b"}, ["2f2b", "zero-bubble", "zb-v"]),
        ({"offload": "disk"}, ["disk", "optimiser to drives"]),
        ({"fabric": "tpu-v4-pod"}, ["tpu-v4-pod", "torus"]),
        ({"accelerator": "tpu-v5p", "offload": "optimiser"}, ["offload = 'optimiser'", "tpu-v5p"]),
        ({"accelerator": "tpu-v5p", "offload": ["none", "weights"]}, ["offload = 'weights'", "tpu-v5p"]),
        ({"devices": 4, "pp": 4, "pipeline_schedule": "zb-v"}, ["vp = 1", "zb-v", "vp = 2"]),
        ({"devices": 4, "pp": 4, "vp": 1, "pipeline_schedule": "interleaved"}, ["vp = 1", "2 or 4"]),
        ({"devices": 4, "pp": 4, "vp": 2, "pipeline_schedule": "1f1b"}, ["vp = 2", "1f1b"]),
        (
            {"devices": 4, "pp": 4, "vp": 2, "global_batch": 6, "pipeline_schedule": "interleaved"},
            ["global_batch = 6", "multiple of pp = 4", "global_batch = 8"],
        ),
        ({"shard": "many"}, ["shard = 'many'"]),
        ({"model": "resnet50", "offload": "optimiser"}, ["offload", "data parallelism alone"]),
    ],
)
def test_impossible_layouts_name_argument_value_and_the_nearest(plan: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as problem:
        step(**{"model": "llama2_7b", **ALONE, **plan})
    assert all(word in str(problem.value) for word in words), problem.value


def test_what_is_said_to_be_nearest_can_be() -> None:
    """The remedies of some refusals, tried."""
    assert around(3, divisors(32)) == [2, 4] and around(64, multiples(64, 5)) == [60, 65]
    for tp in (2, 4):
        assert step(devices=48, tp=tp).why == ""
    for batch in (16, 32):
        assert step(devices=8, batch=2, global_batch=batch).why == ""
    assert step(devices=4, pp=4, vp=2, global_batch=8, pipeline_schedule="interleaved").why == ""


def test_lists_of_options_are_taken_entry_by_entry() -> None:
    names = ["1f1b", "zero-bubble", "zb-v", "1f1b"]
    many = step(**PIPED, pipeline_schedule=names, vp=[1, 1, 2, 2], offload=["", "optimiser", "", ""])
    assert np.isfinite(many.point).tolist() == [True, True, True, False] and "1f1b" in many.why[3]
    for row, (name, vp, to) in enumerate(zip(names[:3], (1, 1, 2), ("", "optimiser", ""), strict=True)):
        assert many.point[row] == step(**PIPED, pipeline_schedule=name, vp=vp, offload=to).point
    racks = [step("llama2_70b", "gb200", devices=144, zero=3, fabric=name) for name in ("", "NVL72")]
    both = step("llama2_70b", "gb200", devices=144, zero=3, fabric=["", "NVL72"])
    assert both.point.tolist() == [each.point for each in racks]
    two = step(**SHARDED, fabric=["", "meta-24k-roce"], shard=[8, None])
    assert two.point[0] == step(**SHARDED, shard=8).point and two.point[1] == step(**SHARDED, fabric="Meta RoCE").point


def test_a_network_of_another_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match="nvl72"):
        step(fabric="nvl27")
