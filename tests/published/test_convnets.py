"""Convolutional networks: the founding table, and the exact differences between ways of counting."""

from __future__ import annotations

import numpy as np
import pytest

from cookbook import catalog
from cookbook.workloads import zoo

MODELS = catalog.table("models").set_index("name")

# HPE Deep Learning Cookbook, table of reference models: parameters and forward "GFLOPs" (really GMAC, one decimal).
FOUNDING = {
    "alexnet": (60_965_224, 0.7, 0.05),
    "googlenet": (6_998_552, 1.6, 0.05),
    "vgg16": (138_357_544, 15.5, 0.05),
    "vgg19": (143_667_240, 19.6, 0.05),
    "resnet50": (25_610_269, 3.9, 0.05),
    "resnet101": (44_654_608, 7.6, 0.05),
    "resnet152": (60_344_387, 11.3, 0.05),
    "text_cnn": (151_690, 0.009, 0.0005),
}
CAFFE_RESNETS = ("resnet18_caffe", "resnet34_caffe", "resnet50", "resnet101", "resnet152", "resnet200", "resnet269")


def norm_rows(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Channels, elements read and occurrences of every norm that has parameters."""
    ops = zoo.model(name).ops
    rows = (ops.kind == "norm") & (ops.parameters > 0)
    return ops.parameters[rows] / 2, ops.reads[rows, 1, 0], ops.count[rows]


@pytest.mark.parametrize("name", FOUNDING)
def test_founding_table(name: str) -> None:
    parameters, gmac, half_digit = FOUNDING[name]
    ops = zoo.model(name).ops
    adjustment = MODELS.loc[name, "parameters_adjustment"]
    assert ops.parameter_count + (0 if np.isnan(adjustment) else adjustment) == parameters
    assert float(ops.total("macs")) / 1e9 == pytest.approx(gmac, abs=half_digit)


@pytest.mark.parametrize("name", CAFFE_RESNETS)
def test_caffe_counts_mean_variance_and_one_factor_for_each_norm(name: str) -> None:
    channels, _, count = norm_rows(name)
    statistics = float((2 * channels * count).sum() + count.sum())
    biases_of_conv1 = 64 if name == "resnet50" else 0
    assert MODELS.loc[name, "parameters_adjustment"] == statistics + biases_of_conv1


@pytest.mark.parametrize(("name", "printed"), [("inception_v3", 23_869_094), ("inception_v4", 42_743_133)])
def test_caffe_counts_of_inceptions(name: str, printed: int) -> None:
    channels, _, count = norm_rows(name)
    assert zoo.model(name).ops.parameter_count + float((2 * channels * count).sum() + count.sum()) == printed


def test_caffe_resnet50_by_hand() -> None:
    # 26,560 norm channels: 64 + stages 3 (2 x 64 + 256) + 256, 4 (2 x 128 + 512) + 512, 6 (2 x 256 + 1024) + 1024,
    # 3 (2 x 512 + 2048) + 2048; 53 norms; 64 biases.
    channels = 64 + 3 * 384 + 256 + 4 * 768 + 512 + 6 * 1536 + 1024 + 3 * 3072 + 2048
    assert channels == 26_560
    assert 25_557_032 + 2 * channels + 53 + 64 == 25_610_269


@pytest.mark.parametrize("name", [n for n, r in MODELS.iterrows() if "element that a batch norm reads" in r["note"]])
def test_fvcore_adds_two_operations_for_each_batch_norm_element(name: str) -> None:
    _, elements, count = norm_rows(name)
    assert MODELS.loc[name, "macs_adjustment"] == 2 * float((elements * count).sum())


def test_fvcore_adds_five_operations_for_each_layer_norm_element() -> None:
    _, elements, count = norm_rows("convnext_xlarge")
    assert MODELS.loc["convnext_xlarge", "macs_adjustment"] == 5 * float((elements * count).sum())


def test_fvcore_adds_five_operations_for_each_standardised_weight() -> None:
    ops = zoo.model("nfnet_f0").ops
    conv = ops.kind == "conv2d"
    biases = ops.n[conv, 0, 0] * ops.groups[conv]
    weights = (ops.weights[conv] - biases) * ops.count[conv]
    assert MODELS.loc["nfnet_f0", "macs_adjustment"] == 5 * float(weights.sum())


def test_auxiliary_classifier_of_inception_v3() -> None:
    # 1x1 convolution 768 -> 128 with norm, 5x5 convolution 128 -> 768 with norm, linear 768 -> 1000 with bias
    by_hand = 768 * 128 + 2 * 128 + 25 * 128 * 768 + 2 * 768 + 768 * 1000 + 1000
    assert MODELS.loc["inception_v3", "parameters_adjustment"] == by_hand == 3_326_696


@pytest.mark.parametrize("name", ["retinanet_resnet50_fpn", "faster_rcnn_r50_fpn", "mask_rcnn_r50_fpn"])
def test_frozen_batch_norms_are_not_published_as_parameters(name: str) -> None:
    channels, _, count = norm_rows(name)
    assert MODELS.loc[name, "parameters_adjustment"] == -2 * float((channels * count).sum())


def test_mask_head_by_hand() -> None:
    # 100 regions of 14 x 14: four 3x3 convolutions 256 -> 256, an up-convolution 2x2, 91 outputs at 28 x 28
    by_hand = 100 * (4 * 14 * 14 * 9 * 256 * 256 + 14 * 14 * 4 * 256 * 256 + 28 * 28 * 256 * 91)
    published, rounding = MODELS.loc["mask_rcnn_r50_fpn", ["published_macs", "macs_rounding"]]
    ours = float(zoo.model("mask_rcnn_r50_fpn").ops.total("macs"))
    assert ours - by_hand == pytest.approx(published, abs=rounding)
    assert MODELS.loc["mask_rcnn_r50_fpn", "how"] == "parameters only"


def test_stride_on_the_3x3_convolution_costs_231_mmac() -> None:
    # v1 halves the resolution in the 1x1, v1.5 in the 3x3 convolution; in stages 2 to 4 the first 1x1 then runs on
    # four times the positions: (56^2 - 28^2) 256 x 128 + (28^2 - 14^2) 512 x 256 + (14^2 - 7^2) 1024 x 512.
    more = (56**2 - 28**2) * 256 * 128 + (28**2 - 14**2) * 512 * 256 + (14**2 - 7**2) * 1024 * 512
    v1, v15 = (float(zoo.model(n).ops.total("macs")) for n in ("resnet50", "resnet50_v1.5"))
    assert v15 - v1 == more
    assert zoo.model("resnet50").ops.parameter_count == zoo.model("resnet50_v1.5").ops.parameter_count


@pytest.mark.parametrize(
    ("name", "parameters", "flop", "people"),
    [
        ("face_resnet100", 65.131e6, 24.209e9, 85742),
        ("face_resnet100_glint360k", 65.131e6, 24.209e9, 360232),
        ("mobile_face", 0.993e6, 0.449e9, 85742),
    ],
)
def test_networks_of_faces_without_their_last_layer(name: str, parameters: float, flop: float, people: int) -> None:
    """Open Model Zoo, models/public/face-recognition-*: without the layer of people; FLOP count activations too."""
    network = zoo.model(name)
    features = 512 if "resnet" in name else 128
    assert network.ops.parameter_count - features * people == pytest.approx(parameters, rel=0.005)
    macs = float(network.ops.total("macs", 1, None)) - features * people
    assert 2 * macs == pytest.approx(flop, rel=0.02) and 2 * macs < flop
