"""The front door for one training step, or many: names in, an answer with interval, bounds and reasons out."""

import inspect

import numpy as np
import pytest

from cookbook.catalog import UnknownName
from cookbook.prediction.api import Plan, train_step
from cookbook.workloads import zoo

CLASSIC = {"batch": 128, "precision": "fp16", "software": "PyTorch NGC 21.03"}
LAYOUT = Plan(devices=64, tp=4, pp=2, micro_batch=1, global_batch=256, sequence_parallel=True)


@pytest.mark.parametrize(
    "name, system, extra",
    [
        ("resnet50", "a100-sxm-80gb", CLASSIC),
        ("bert_large", "v100-sxm2-16gb", {"batch": 8, "seq": 384}),
        ("llama2_7b", "h100-sxm", {"plan": LAYOUT, "seq": 4096}),
        ("vgg16", "gtx-1080-ti", {"batch": 32}),
    ],
)
def test_an_answer_is_whole(name, system, extra):
    step = train_step(name, system, **extra, neighbours=False)
    assert 0 < step.low90 <= step.low80 < step.point < step.high80 <= step.high90
    assert step.bound_low <= step.point <= step.bound_high * (1 + 1e-9)
    assert step.bound_high == pytest.approx(sum(step.parts.values()))
    assert step.parts[step.bottleneck] == pytest.approx(step.bound_low)
    assert step.sources and step.tier and step.why == "" and "80 %" in repr(step)


def test_a_list_gives_the_same_as_single_calls():
    batches = [8, 64, 256]
    many = train_step("resnet50", "a100-sxm-80gb", **CLASSIC | {"batch": batches})
    single = [train_step("resnet50", "a100-sxm-80gb", **CLASSIC | {"batch": batch}).point for batch in batches]
    np.testing.assert_allclose(many.point, single, rtol=1e-12)
    assert len(many.frame()) == 3


def test_more_work_takes_longer_and_a_faster_device_less():
    steps = train_step("resnet50", "a100-sxm-80gb", **CLASSIC | {"batch": [16, 32, 64, 128]}, neighbours=False)
    assert np.all(np.diff(steps.point) > 0)
    slow, fast = (train_step("resnet50", device, **CLASSIC, neighbours=False) for device in ("t4", "h100-sxm"))
    assert fast.point < slow.point


def test_a_server_of_the_catalogue_brings_its_devices_and_links():
    step = train_step("resnet50", "DGX A100 (80GB)", **CLASSIC, devices=16)
    assert step.point > train_step("resnet50", "DGX A100 (80GB)", **CLASSIC, devices=1).point


def test_similar_measurements_are_counted_named_and_can_be_switched_off():
    step = train_step("resnet50", "a100-sxm-80gb", **CLASSIC)
    assert step.neighbours > 0 and step.similar and f"corrected by {step.neighbours}" in step.corrected
    plain = train_step("resnet50", "a100-sxm-80gb", **CLASSIC, neighbours=False)
    assert plain.neighbours == 0 and plain.similar == () and plain.corrected == "not corrected"
    assert plain.point != step.point


def test_memory_stands_beside_the_time_of_a_transformer():
    small = train_step("llama2_7b", "h100-sxm", devices=8, tp=8, batch=1, seq=2048)
    large = train_step("llama2_7b", "h100-sxm", devices=1, batch=64, seq=4096)
    assert small.fits == "yes" and large.fits == "no"
    assert small.memory_bytes == pytest.approx(sum(small.memory.values()))


@pytest.mark.parametrize(
    "change, named",
    [
        ({"devices": 0}, "devices"),
        ({"batch": -1}, "batch"),
        ({"bach": 3}, "bach"),
        ({"devices": 2.5}, "devices"),
        ({"precision": "fp3"}, "fp3"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change, named):
    with pytest.raises((ValueError, UnknownName), match=named):
        train_step("resnet50", "a100-sxm-80gb", **CLASSIC | change)


def test_a_layout_that_does_not_fill_the_devices_is_refused():
    with pytest.raises(ValueError):
        train_step("llama2_7b", "h100-sxm", devices=16, tp=3)


def test_one_bad_scenario_among_many_spoils_none():
    steps = train_step("resnet50", "a100-sxm-80gb", **CLASSIC | {"batch": [64, -1, 128]})
    assert np.isfinite(steps.point).tolist() == [True, False, True]
    assert steps.why[1] and not steps.why[0]


def test_unknown_names_get_the_nearest():
    with pytest.raises(UnknownName, match="resnet50"):
        train_step("resnet50x", "a100-sxm-80gb")
    with pytest.raises(UnknownName):
        train_step("resnet50", "gtx-9999")


def test_a_changed_network_is_predicted_as_changed():
    plain, same, large = (
        train_step(zoo.model("resnet50", **change), "a100-sxm-80gb", **CLASSIC, neighbours=False).point
        for change in ({}, {"image": 224}, {"image": 448})
    )
    assert same == plain
    # Four times the positions; launches and the update stay.
    assert 3 < large / plain < 4.2


def test_a_changed_language_model_takes_the_layouts_of_one():
    steps = [train_step(zoo.model("llama2_7b", depth=d), "h100-sxm", plan=LAYOUT, neighbours=False) for d in (32, 64)]
    assert steps[0].point == train_step("llama2_7b", "h100-sxm", plan=LAYOUT, neighbours=False).point
    assert 1.7 < steps[1].point / steps[0].point < 2.1
    assert 1.6 < steps[1].memory_bytes / steps[0].memory_bytes < 2.1


OWN = [
    {"layer": "conv", "out": 64, "kernel": 3, "padding": 1, "repeat": 8},
    {"layer": "global_pool"},
    {"layer": "flatten"},
    {"layer": "linear", "out": 10},
]
TOKENS = [
    {"layer": "embedding", "vocab": 32000, "features": 512},
    {"layer": "transformer_block", "heads": 8, "hidden": 2048, "repeat": 6},
    {"layer": "linear", "out": 32000},
]


def test_networks_of_the_readers_own_are_predicted():
    own = zoo.layers(OWN, input=(3, 224, 224))
    steps = train_step(own, "a100-sxm-80gb", **CLASSIC | {"devices": [1, 8], "batch": 64})
    assert np.all(steps.low80 > 0) and steps.point[1] > steps.point[0] and steps.frame()["tier"].notna().all()
    tokens = [train_step(zoo.layers(TOKENS), "a100-sxm-80gb", batch=32, seq=seq).point for seq in (256, 512, 2048)]
    assert 1.5 < tokens[1] / tokens[0] < 2.5 and tokens[2] / tokens[1] > 4


@pytest.mark.parametrize(
    "network, change, named",
    [
        ("resnet50", {"devices": 8, "tp": 8}, "tp = 8"),
        ("resnet50", {"zero": 3, "devices": 8}, "zero = 3"),
        ("resnet50", {"recompute": "full"}, "recompute"),
        ("resnet50", {"seq": 384}, "seq = 384"),
        ("resnet50", {"kind": "training_transformer"}, "kind"),
        (zoo.layers(TOKENS), {}, "seq"),
        (zoo.layers(TOKENS), {"seq": 512, "pp": 2, "devices": 2}, "pp = 2"),
    ],
)
def test_what_a_network_cannot_do_is_never_left_out_silently(network, change, named):
    with pytest.raises(ValueError, match=named):
        train_step(network, "a100-sxm-80gb", **change)


@pytest.mark.parametrize(
    "call, named",
    [
        (lambda: train_step(5, "h100-sxm"), "model = 5"),
        (lambda: train_step("resnet50", "h100-sxm", plan=[1, 2]), "plan = "),
        (lambda: train_step("resnet50", "h100-sxm", devices=[1, 2], batch=[1, 2, 3]), "one length"),
        (lambda: train_step("resnet50", "h100-sxm", devices=[8, "x"]), "devices"),
        (lambda: train_step("llama2_7b", "h100-sxm", seq="long"), "seq = 'long'"),
        (lambda: train_step("llama2_7b", "h100-sxm", seq=0), "seq = 0"),
        (lambda: train_step("llama2_7b", "h100-sxm", tp=0), "tp = 0"),
        (lambda: train_step("llama2_7b", "h100-sxm", devices=64, tp=5), "multiple of tp"),
        (lambda: train_step("llama2_7b", "h100-sxm", devices=64, tp=64), "heads"),
        (lambda: train_step("llama2_7b", "h100-sxm", devices=64, pp=64), "layers"),
        (lambda: train_step("llama2_7b", "h100-sxm", devices=8, tp=8, recompute="bananas"), "bananas"),
        (lambda: train_step("llama2_7b", "h100-sxm", devices=8, tp=8, attention="bananas"), "bananas"),
        (lambda: train_step("llama2_7b", "h100-sxm", devices=8, tp=8, zero=7), "zero = 7"),
        (lambda: train_step("llama2_7b", "a100-sxm-80gb", devices=8, tp=8, precision="fp8"), "fp8"),
        (lambda: train_step("resnet50", "v100", precision="bf16"), "bf16"),
        (lambda: train_step("resnet50", "h100-sxm", precision="fp8"), "8 or 4 bits"),
    ],
)
def test_errors_name_the_argument_and_the_value(call, named):
    with pytest.raises(ValueError, match=named):
        call()


@pytest.mark.parametrize("name, batch", [("gnmt", 128), ("transformer_xl_base", 32), ("unet3d", 2), ("resnet50", 256)])
def test_more_devices_never_shorten_a_step_of_the_same_batch_each(name, batch):
    steps = train_step(name, "a100-sxm-40gb", batch=batch, devices=[1, 8, 16, 64, 512])
    assert steps.neighbours.max() > 0 and np.all(np.diff(steps.point) > -1e-12)


def test_intervals_widen_where_less_is_known_and_say_so():
    known, foreign = (train_step("llama2_7b", name, devices=64, tp=8) for name in ("h100-sxm", "mi300x"))
    reach = [np.log(step.high80 / step.point) for step in (known, foreign)]
    assert reach[1] > 1.4 * reach[0]
    assert foreign.remark and foreign.remark in repr(foreign)


def test_a_model_by_name_has_its_own_length():
    assert train_step("llama3_8b", "h100-sxm", devices=8, tp=8).point == pytest.approx(
        train_step("llama3_8b", "h100-sxm", devices=8, tp=8, seq=zoo.model("llama3_8b").seq).point
    )


@pytest.mark.parametrize("software", ["PyTorch FSDP", "Megatron-LM"])
def test_stages_in_several_nodes_wait_for_a_slow_network(software: str) -> None:
    """Software hides an exchange behind computation for as long as there is computation, and no longer."""
    plan = {"devices": 16, "pp": 8, "zero": 1, "global_batch": 64, "software": software, "neighbours": False}
    near, far = (train_step("llama2_7b", "h100-sxm", **plan, network=rate) for rate in (50e9, 1e7))
    sent = 4096 * 4096 * 2  # bytes of one micro-batch between stages
    assert far.point - near.point > 2 * sent / 1e7 / 7


@pytest.mark.parametrize("model", ["switch_base_8", "t5_base"])
def test_an_encoder_with_a_decoder_is_predicted_with_experts_and_without(model):
    found = train_step(model, "h100-sxm", global_batch=8)
    assert found.point > 0 and (found.tier == "mixture of experts") == (model == "switch_base_8")


def test_fields_of_a_plan_are_arguments_that_an_editor_can_list():
    parameters = inspect.signature(train_step).parameters
    assert {*Plan.__annotations__} <= set(parameters)
    assert all(parameters[name].kind == inspect.Parameter.KEYWORD_ONLY for name in ("tp", "pp", "recompute"))
