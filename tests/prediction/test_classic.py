"""Rows of classic training: what their words mean, what a step takes, and what hostile rows do."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cookbook import catalog, hardware
from cookbook.prediction import device_rates
from cookbook.prediction.kinds import network_arrays as networks
from cookbook.prediction.kinds import networks as classic
from cookbook.prediction.parsing import networks as spoken
from cookbook.prediction.parsing import tables, words
from cookbook.prediction.scenario import Rows
from cookbook.prediction.software import level_of
from cookbook.workloads import zoo

STARTS = {constant.name: constant.start for constant in classic.CONSTANTS}
ROW = {
    "model": "ResNet-50 v1.5",
    "task_input": "224x224x3",
    "software": "PyTorch NGC 21.03",
    "accelerator": "a100-sxm-80gb",
    "devices": "8",
    "per_node": "8",
    "precision": "amp_fp16",
    "batch_per_device": "256",
    "unit": "images/s",
}


def rows(*changes):
    return pd.DataFrame([{**ROW, **change} for change in changes])


def scenarios(frame) -> Rows:
    return classic.resolve(tables.read("training_classic", frame))


def rates(*changes, constants=None, **terms):
    found = scenarios(rows(*changes))
    parts = classic.parts(found, {**STARTS, **(constants or {})}, terms)
    return classic.outcome(found, classic.step_seconds(parts))


def test_a_network_of_two_layers_by_hand():
    """Convolution 3 -> 8, 3 x 3 on 32 x 32 pixels, then 8,192 -> 10; MAC 221,184 and 81,920.

    Elements moved for one sample: 3,072 + 8,192 and 8,192 + 10; weights with bias 224 and 81,930.
    """
    first = {"layer": "conv", "out": 8, "kernel": 3, "padding": 1}
    table = [first, {"layer": "flatten"}, {"layer": "linear", "out": 10}]
    found = networks.arrays(zoo.layers(table, input=(3, 32, 32)).ops, None)
    assert sorted(found.macs) == [81920, 221184]
    assert sorted(found.moved) == [8202, 11264]
    assert sorted(found.weights) == [224, 81930]
    assert found.convolution.sum() == 1 and found.parameters == 82154 and found.tables == 0


def test_fast_algorithms_are_found_by_kernel_and_stride():
    """VGG-16 has 13 convolutions of 3 x 3; all but the first, of three channels, save 2.25; strided ones nothing."""
    vgg = networks.network("vgg16", "", None)
    assert vgg.count[vgg.saving == 2.25].sum() == 12
    resnet = networks.network("resnet50_v1.5", "", None)
    assert resnet.count[resnet.saving > 1].sum() == 13


def test_products_that_are_alike_are_joined_and_nothing_is_lost():
    ops = zoo.model("resnet50").ops
    found = networks.arrays(ops, None)
    assert found.macs @ found.count == pytest.approx(float(ops.total("macs", 1)))
    assert found.count.sum() == 54 and len(found.macs) < 30


def test_mixed_networks_and_one_network_give_the_same():
    """The grid of one network and the list of many are two layouts of one formula."""
    together = rates(
        {}, {"model": "vgg16"}, {"model": "bert_large_squad", "task_input": "seq_len 384", "unit": "sequences/s"}
    )
    alone = [rates({})[0], rates({"model": "vgg16"})[0]]
    np.testing.assert_allclose(together[:2], alone, rtol=1e-12)


def test_units_count_what_they_say():
    """A GNMT pair has 27 source and 27 target tokens; a BERT sequence of 128 tokens has 128."""
    assert spoken.trained("gnmt_v2", "WMT16 en-de", "tokens/s").items == 54
    assert spoken.trained("bert_large", "seq_len 128", "tokens/s").items == 128
    assert spoken.trained("bert_large", "seq_len 128", "sequences/s").items == 1
    assert spoken.trained("efficientnet_b4", "380x380x3", "images/s").arguments == '{"image": 380}'


def test_one_device_has_no_exchange_and_no_waiting():
    found = scenarios(rows({"devices": "1", "per_node": "1"}))
    parts = classic.parts(found, STARTS)
    assert parts["exchange"][0] == 0 and parts["waiting"][0] == 0
    assert found.key("scale")[0] == "1 device"


def test_more_devices_never_exceed_linear_scaling():
    counts = [1, 2, 4, 8, 16, 64, 512]
    rate = rates(*({"devices": str(n), "per_node": str(min(n, 8))} for n in counts))
    assert (np.diff(rate / counts) <= 1e-9).all()
    assert (np.diff(rate) > 0).all()


def test_monotone_in_peak_and_bandwidth():
    found = scenarios(rows({}))
    base = classic.step_seconds(classic.parts(found, STARTS))
    for name in ("peak", "mem_bandwidth", "link"):
        values = {**found.values, name: found.values[name] * 2}
        better = replace(found, values=values)
        assert (classic.step_seconds(classic.parts(better, STARTS)) <= base).all(), name


def test_half_precision_without_fast_half_units_is_computed_in_single():
    """A GTX 1080 Ti prints 1/64 of its single-precision rate for half precision; frameworks do not use it."""
    card = hardware.machine("gtx-1080-ti")
    half, single = (device_rates.rates(card, each, classic.KIND) for each in ("fp16", "fp32"))
    assert half.peak == single.peak and half.unit_kind == 0 and half.element_bytes == 2
    assert device_rates.rates(hardware.machine("v100"), "fp16", classic.KIND).unit_kind == 1


def launch(**change):
    found = scenarios(rows({"accelerator": "v100", "precision": "fp32", "devices": "1", **change}))
    return classic.parts(found, STARTS)["launch"][0]


def test_one_interpreter_starts_the_kernels_of_all_its_devices():
    four = {"devices": "4", "per_node": "4"}
    assert launch(**four, software_notes="nn.DataParallel (single process)") == pytest.approx(4 * launch(**four))


def test_without_cudnn_each_image_is_convolved_by_itself():
    """VGG-16 has 13 convolutions: 31 images more add 13 * 31 products in each of three passes."""
    one, many = (launch(model="vgg16", software="Caffe (native kernels)", batch_per_device=b) for b in ("1", "32"))
    level = catalog.table("classic_engines").set_index("level")["launches"]
    assert many - one == pytest.approx(3 * 13 * 31 * STARTS["launch"] * level["native"])
    assert launch(software="MXNet 1.0", batch_per_device="1") == launch(software="MXNet 1.0", batch_per_device="64")


def test_transformer_xl_without_the_adaptive_softmax_has_the_weights_that_its_logs_print():
    """Lambda's logs: adaptive=False; n_all_param 191948759, and 519963095 with 256 tokens and div_val=1.

    All 267,735 words in place of 19,997 frequent ones and three clusters, at 512 features, for 192 tokens.
    """
    said = {"base": "WikiText-103, full softmax", "large": "WikiText-103, full softmax, segments of 256"}
    asked = [spoken.trained(f"transformer_xl_{name}", words, "tokens/s") for name, words in said.items()]
    base, large = (networks.network(each.name, each.arguments, None) for each in asked)
    assert base.parameters + base.tables == 191948759 and large.parameters + large.tables == 519963095
    assert [each.items for each in asked] == [192, 256]
    usual = networks.network("transformer_xl_base", "", None)
    assert base.macs @ base.count - usual.macs @ usual.count == 192 * 512 * (267735 - 20000)
    assert spoken.trained("transformer_xl_base", "WikiText-103", "tokens/s").arguments == ""


def test_gradients_travel_in_32_bits_whatever_the_products_are_computed_in():
    """A ring of two moves each parameter once, 4 B at 1 MB/s; 0.7 of the backward two thirds of the pass hide it."""
    found = scenarios(rows({"devices": "2", "per_node": "2", "model": "resnet50"}))
    found = replace(found, values={**found.values, "link": np.array([1e6])})
    parts = classic.parts(found, STARTS)
    one_pass = sum(parts[name] for name in ("products", "elementwise", "launch", "recurrence"))
    alone = 4 * networks.network("resnet50", "", None).parameters / 1e6
    np.testing.assert_allclose(parts["exchange"], alone - 0.7 * 2 / 3 * one_pass, rtol=1e-3)


def test_a_position_of_a_recurrent_layer_costs_one_kernel_a_pass():
    """GNMT has 8 layers of 27 positions, of the bidirectional one both directions at once: 216 positions, 3 passes."""
    found = scenarios(rows({"model": "gnmt_v2", "unit": "tokens/s"}))
    positions = networks.network("gnmt_v2", "", 27.0)
    assert positions.positions @ positions.count == 8 * 27
    np.testing.assert_allclose(classic.parts(found, STARTS)["recurrence"], 3 * 8 * 27 * STARTS["launch"])


def test_a_tuned_stack_keeps_no_attention_scores():
    """Attention of a submission to MLPerf runs in one kernel; module by module its scores are written and read."""
    change = {"model": "bert_large", "task_input": "seq_len 512", "unit": "sequences/s", "batch_per_device": "64"}
    found = scenarios(rows({**change, "software": "MLPerf"}))
    on, off = (classic.parts(found, STARTS, {"scores": kept})["elementwise"] for kept in (True, False))
    np.testing.assert_array_equal(on, off)
    eager = scenarios(rows(change))
    on, off = (classic.parts(eager, STARTS, {"scores": kept})["elementwise"] for kept in (True, False))
    assert on[0] > off[0]


def test_tables_of_recommenders_are_updated_where_samples_looked():
    """26 tables of rows of 128 numbers: a sample touches at most 3,328 of billions of parameters."""
    net = networks.network("dlrm_small", "", None)
    assert net.looked_up == 26 * 128 and net.tables > 1e9
    change = {"model": "dlrm_small", "unit": "samples/s", "devices": "1", "batch_per_device": "1024"}
    found = scenarios(rows(change))
    updated = net.parameters + 1024 * net.looked_up
    bandwidth = found.mem_bandwidth * STARTS["memory_efficiency"]
    expected = updated * found.update_bytes / bandwidth
    np.testing.assert_allclose(classic.parts(found, STARTS)["optimiser"], expected)


@pytest.mark.parametrize("term", classic.TERMS)
def test_switching_a_term_off_changes_the_result(term):
    cases = (
        {},
        {"precision": "fp32", "model": "vgg16"},
        {"model": "gnmt_v2", "unit": "tokens/s"},
        {"model": "mask_rcnn_r50_fpn"},
        {"software": "TensorFlow 1.15"},
        {"model": "bert_large", "task_input": "seq_len 512", "unit": "sequences/s", "batch_per_device": "4"},
    )
    change = rates(*cases, **{term: False}) / rates(*cases) - 1
    # Without fast algorithms a step takes longer; without anything else it takes less.
    assert np.any((-change if term == "fast_algorithms" else change) > 1e-9)


def test_every_constant_matters():
    cases = (
        {},
        {"devices": "64"},
        {"precision": "fp32", "model": "resnext101_32x4d"},
        {"precision": "tf32"},
        {"model": "resnext101_32x4d"},
        {"model": "mobilenet_v2"},
        {"model": "gnmt_v2", "unit": "tokens/s"},
        {"precision": "tf32", "model": "bert_large", "unit": "sequences/s"},
        {"model": "mask_rcnn_r50_fpn"},
        {"precision": "fp32", "model": "bert_large", "unit": "sequences/s"},
        {"model": "unet3d"},
        {"software": "TensorFlow XLA"},
        {"precision": "fp32", "model": "vgg16", "accelerator": "k80-die"},
    )
    base = rates(*cases)
    for name, start in STARTS.items():
        assert np.any(rates(*cases, constants={name: start * 1.5}) != base), name


HOSTILE = (
    ({"model": "no_such_net"}, "no_such_net"),
    ({"model": ""}, "model is blank"),
    ({"accelerator": "warp-9"}, "warp-9"),
    ({"accelerator": ""}, "accelerator is blank"),
    ({"devices": "0"}, "devices"),
    ({"devices": "-3"}, "devices"),
    ({"devices": "many"}, "devices"),
    ({"devices": "2.5"}, "devices"),
    ({"devices": "inf"}, "devices"),
    ({"batch_per_device": "0"}, "batch"),
    ({"batch_per_device": "-1"}, "batch"),
    ({"precision": "int3"}, "precision"),
    ({"precision": ""}, None),
    ({"model": "gnmt_v2", "task_input": "seq_len 0", "unit": "tokens/s"}, ""),
    ({"unit": "parsecs"}, "unit"),
    ({"task_input": "0x0x3"}, None),
    ({"per_node": "0"}, "per_node"),
    ({"task_input": "1x1x3"}, None),
    ({"software": "(((", "intra_node_link": "0x 0 Gb"}, None),
    ({"inter_node_link": "0x HDR 0Gb/s", "devices": "64"}, "network"),
    ({"grad_accum_steps": "nan"}, None),
)


@pytest.mark.parametrize("change, reason", HOSTILE)
def test_hostile_rows_give_a_reason_and_never_raise(change, reason):
    found = scenarios(rows(change, {}))
    rate = classic.outcome(found, classic.step_seconds(classic.parts(found, STARTS)))
    if reason is None:
        assert found.why[0] == "" and rate[0] > 0
    else:
        assert reason in found.why[0] and found.why[0] and np.isnan(rate[0])
    assert found.why[1] == "" and rate[1] > 0


def test_missing_columns_and_no_rows_are_fine():
    found = scenarios(pd.DataFrame({"model": ["resnet50"]}))
    assert "accelerator" in found.why[0]
    empty = scenarios(pd.DataFrame({"model": []}))
    assert len(classic.step_seconds(classic.parts(empty, STARTS))) == 0


def test_outcomes_are_never_inputs():
    first, second = (scenarios(rows({"value": value})) for value in ("1", "9e9"))
    for name, values in first.values.items():
        np.testing.assert_array_equal(values, second.values[name])


def test_the_rate_of_a_hundred_thousand_scenarios_rises_with_the_batch():
    one = scenarios(rows({}))
    many = one.take(np.zeros(100_000, dtype=int))
    many = replace(many, values={**many.values, "batch": np.linspace(1, 512, 100_000)})
    classic.parts(many.take(np.arange(10)), STARTS)
    rate = classic.outcome(many, classic.step_seconds(classic.parts(many, STARTS)))
    assert (np.diff(rate) > 0).all()


def test_every_software_pattern_is_sound_and_leads_to_a_level():
    table = catalog.table("software_levels")
    classic_rows = table[table["kind"] == "classic"]
    assert set(classic_rows["level"]) == set(catalog.table("classic_engines")["level"])
    assert all(re.compile(pattern) for pattern in classic_rows["pattern"])
    assert classic_rows["pattern"].iloc[-1] == ".*"
    assert words.stack("classic", "", "") == "" and level_of("training_classic", "") == "eager"


def test_every_accelerator_has_a_generation_of_one_vendor():
    table = catalog.table("accelerators")
    assert (table["generation"] != "").all()
    gpus = table[table["kind"] == "gpu"]
    assert (gpus.groupby("generation")["vendor"].nunique() == 1).all()
    assert set(catalog.table("generations")["generation"]) <= set(table["generation"])
    known = table.set_index("key")["generation"]
    assert known[["k80-die", "v100-sxm2-16gb", "h100-sxm"]].tolist() == ["kepler", "volta", "hopper"]


@pytest.mark.parametrize(
    ("stated", "least"), [({"batch_per_device": "2048", "batch_in_items": "yes"}, 16384), ({}, 32)]
)
def test_a_batch_below_one_pass_is_refused_in_what_the_row_counts(stated, least):
    """Of a row that counts tokens, 2,048 on each of eight devices: the message counts them, not sequences."""
    row = {"model": "BERT-large", "task_input": "512", "unit": "tokens/s" if stated else "sequences/s"}
    row |= {"batch_per_device": "4", "seq": "512", "global_batch": "16"} | stated
    (why,) = scenarios(rows(row)).why
    assert why == f"global_batch = 16 is less than batch_per_device x devices = {least}"
