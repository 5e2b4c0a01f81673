"""Layer arithmetic against counts made by hand, and the laws that counting must obey."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook.workloads import zoo
from cookbook.workloads.layers import Length, S, Shape, Trace, window_output


def one_conv(image: tuple[int, ...], out: int, kernel: int | tuple[int, ...], channels: int = 3, **arguments) -> tuple:
    """Shape, MAC and parameters of a single convolution."""
    t = Trace()
    y = t.conv(t.image(channels, *image), out, kernel, **arguments)
    ops = t.ops()
    return y.space, float(ops.total("macs")), ops.parameter_count


# ---- convolutions -------------------------------------------------------------------------------------------------
def test_first_convolution_of_alexnet() -> None:
    # (227 - 11) / 4 + 1 = 55 positions; each of 96 x 55^2 outputs multiplies 3 x 11 x 11 = 363 inputs
    assert one_conv((227, 227), 96, 11, stride=4) == ((55, 55), 96 * 55**2 * 363, 96 * 363 + 96)


def test_first_convolution_of_resnet_has_no_bias() -> None:
    # (224 + 2 x 3 - 7) // 2 + 1 = 112
    assert one_conv((224, 224), 64, 7, stride=2, padding=3, bias=False) == ((112, 112), 64 * 112**2 * 147, 64 * 147)


def test_grouped_convolution() -> None:
    # two groups: every output sees 96 / 2 = 48 channels
    assert one_conv((27, 27), 256, 5, 96, padding=2, groups=2) == ((27, 27), 256 * 27**2 * 48 * 25, 256 * 48 * 25 + 256)


def test_depthwise_convolution() -> None:
    # as many groups as channels: every output sees one channel
    assert one_conv((56, 56), 32, 3, 32, padding=1, groups=32, bias=False) == ((56, 56), 32 * 56**2 * 9, 32 * 9)


def test_dilated_convolution() -> None:
    # holes widen the window to 6 x (3 - 1) + 1 = 13 without adding taps: 19 + 12 - 13 + 1 = 19
    assert one_conv((19, 19), 1024, 3, 512, padding=6, dilation=6)[:2] == ((19, 19), 1024 * 19**2 * 512 * 9)


def test_transposed_convolution() -> None:
    # (28 - 1) x 2 + 2 = 56; each of 28^2 x 128 inputs is multiplied into 2 x 2 x 64 outputs
    counts = one_conv((28, 28), 64, 2, 128, stride=2, transposed=True)
    assert counts == ((56, 56), 28**2 * 128 * 4 * 64, 4 * 128 * 64 + 64)


def test_same_padding_rounds_up() -> None:
    # ceil(15 / 2) = 8
    assert one_conv((15, 15), 8, 3, stride=2, padding="same")[:2] == ((8, 8), 8 * 8**2 * 27)


def test_kernel_and_stride_for_each_axis() -> None:
    # rows: 17 + 2 x 3 - 7 + 1 = 17; columns: 17 - 1 + 1 = 17
    counts = one_conv((17, 17), 192, (7, 1), 128, padding=(3, 0), bias=False)
    assert counts == ((17, 17), 192 * 17**2 * 128 * 7, 192 * 128 * 7)


def test_one_and_three_axes() -> None:
    assert one_conv((100,), 16, 5, 8, padding=2)[:2] == ((100,), 16 * 100 * 8 * 5)
    assert one_conv((8, 16, 16), 4, 3, 2, padding=1)[:2] == ((8, 16, 16), 4 * 8 * 16 * 16 * 2 * 27)


def test_shared_weights_are_counted_once() -> None:
    t = Trace()
    x = t.image(16, 8, 8)
    t.conv(x, 16, 3, padding=1)
    t.conv(x, 16, 3, padding=1, shared=True)
    ops = t.ops()
    assert ops.parameter_count == 16 * 16 * 9 + 16
    assert float(ops.total("macs")) == 2 * 64 * 16 * 16 * 9


def test_matmul_shape_of_a_convolution() -> None:
    # as a product of matrices: batch x positions rows, out / groups columns, taps x channels / groups inner
    t = Trace()
    t.conv(t.image(64, 14, 14), 128, 3, padding=1, groups=4)
    ops = t.ops()
    m, n, k = (float(ops.column(c, batch=8)[0]) for c in "mnk")
    assert (m, n, k, ops.groups[0]) == (8 * 196, 32, 9 * 16, 4)
    assert m * n * k * 4 == float(ops.total("macs", batch=8))


# ---- pooling, linear, norms ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "ceil", "expected"),
    [
        (112, 3, 2, 0, False, 55),  # (112 - 3) // 2 + 1
        (112, 3, 2, 0, True, 56),  # ceil(109 / 2) + 1
        (75, 2, 2, 0, True, 38),  # ceil(73 / 2) + 1
        (56, 3, 2, 1, False, 28),  # (56 + 2 - 3) // 2 + 1
        (4, 2, 3, 1, True, 2),  # ceil(4 / 3) + 1 = 3, but the third would start at 6 >= 4 + 1, past the edge
    ],
)
def test_pooled_size(size: int, kernel: int, stride: int, padding: int, ceil: bool, expected: int) -> None:
    assert window_output(size, kernel, stride, padding, 1, ceil) == expected


def test_linear_counts_every_position() -> None:
    t = Trace()
    t.linear(t.tokens(128, 768), 3072)
    ops = t.ops()
    assert float(ops.total("macs")) == 128 * 768 * 3072
    assert ops.parameter_count == 768 * 3072 + 3072


NORM_PARAMETERS = {"batch": 2, "layer": 2, "group": 2, "instance": 2, "rms": 1, "lrn": 0}


@pytest.mark.parametrize(("kind", "parameters"), NORM_PARAMETERS.items())
def test_parameters_of_norms(kind: str, parameters: int) -> None:
    t = Trace()
    t.norm(t.image(64, 7, 7), kind)
    assert t.ops().parameter_count == 64 * parameters
    assert float(t.ops().total("macs")) == 0


def test_small_network_by_hand() -> None:
    # convolution 16 x 32^2 x 27 and 16 x 32^2 x 144, linear 16 x 10
    t = Trace()
    x = t.image(3, 32, 32)
    x = t.act(t.norm(t.conv(x, 16, 3, padding=1, bias=False), "batch"), "relu")
    x = t.linear(t.flatten(t.global_pool(t.add(x, t.conv(x, 16, 3, padding=1)))), 10)
    ops = t.ops()
    assert float(ops.total("macs")) == 16 * 1024 * 27 + 16 * 1024 * 144 + 160
    assert ops.parameter_count == 16 * 27 + 32 + (16 * 144 + 16) + 170
    assert float(ops.total("flop")) == 2 * float(ops.total("macs"))


# ---- what the backward pass keeps ---------------------------------------------------------------------------------
def test_a_tensor_that_two_layers_need_is_kept_once() -> None:
    t = Trace()
    x = t.image(8, 4, 4)
    t.conv(x, 8, 1)
    t.conv(x, 8, 1)
    assert float(t.ops().total("saved")) == 8 * 16


def test_relu_keeps_its_output_which_the_next_convolution_shares() -> None:
    t = Trace()
    x = t.image(8, 4, 4)  # kept by the first convolution: 128
    x = t.act(t.conv(x, 8, 1), "relu")  # output kept: 128
    t.conv(x, 8, 1)  # needs that output, already kept
    assert float(t.ops().total("saved")) == 2 * 128


def test_a_block_does_not_keep_again_what_came_in_kept() -> None:
    def chain(blocks: bool) -> float:
        t = Trace()
        x = t.image(8, 4, 4)
        for _ in range(3):
            if blocks:
                with t.block("b"):
                    x = t.act(t.conv(x, 8, 1), "relu")
            else:
                x = t.act(t.conv(x, 8, 1), "relu")
        return float(t.ops().total("saved"))

    assert chain(True) == chain(False) == 128 + 3 * 128


def test_max_pool_keeps_indices_and_average_pool_nothing() -> None:
    def saved(kind: str) -> tuple[float, float]:
        t = Trace()
        t.pool(t.image(8, 4, 4), 2, kind=kind)
        return float(t.ops().total("saved")), float(t.ops().total("mask_bytes"))

    assert saved("max") == (128, 8 * 4 * 8)  # 8 x 2 x 2 outputs, 8 bytes each
    assert saved("average") == (0, 0)


# ---- errors ---------------------------------------------------------------------------------------------------------
def test_errors_name_the_layer_and_the_remedy() -> None:
    t = Trace()
    with pytest.raises(ValueError, match=r"conv 'c': groups = 3 must divide 8 inputs"):
        t.conv(t.image(8, 4, 4), 8, 1, groups=3, name="c")
    with pytest.raises(ValueError, match="does not fit an axis of 4 positions"):
        t.conv(t.image(8, 4, 4), 8, 5)
    with pytest.raises(ValueError, match=r"kernel = \(3, 3, 3\): give one number, or 2 numbers for 2 axes"):
        t.conv(t.image(8, 4, 4), 8, (3, 3, 3))
    with pytest.raises(ValueError, match="kind = 'batches'; take one of batch"):
        t.norm(t.image(8, 4, 4), "batches")
    with pytest.raises(ValueError, match="the sequence length is symbolic"):
        t.flatten(t.tokens(S, 8))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("vgg16", {"depth": 17}, "depth = 17; take one of 11, 13, 16, 19"),
        ("resnet50", {"stride_on": "2x2"}, "stride_on = '2x2'; take '1x1'"),
        ("efficientnet_b0", {"size": "b9"}, "size = 'b9'; take one of 'b0', 'b1'"),
        ("resnet50", {"image": 0}, "image = 0 is outside its range; give a whole number from 1"),
        ("resnet50", {"colour": 3}, "resnet50 has no argument 'colour'"),
    ],
)
def test_wrong_arguments_of_a_network(name: str, change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        zoo.model(name, **change)


# ---- laws ---------------------------------------------------------------------------------------------------
SIZES = st.integers(1, 40)


@given(
    width=st.sampled_from([12, 24, 48]),
    groups=st.sampled_from([1, 2, 3, 4, 6, 12]),
    kernel=st.integers(1, 5),
    size=st.integers(5, 40),
)
def test_groups_divide_the_work(width: int, groups: int, kernel: int, size: int) -> None:
    _, whole, weights = one_conv((size, size), width, kernel, width, bias=False)
    _, split, fewer = one_conv((size, size), width, kernel, width, bias=False, groups=groups)
    assert split * groups == whole
    assert fewer * groups == weights


@given(batch=st.integers(0, 10**6), size=SIZES, width=SIZES)
def test_work_is_linear_in_the_batch_and_parameters_do_not_depend_on_it(batch: int, size: int, width: int) -> None:
    t = Trace()
    t.linear(t.act(t.conv(t.image(3, size, size), width, 1), "relu"), 7)
    ops = t.ops()
    for quantity in ("macs", "vector_flop", "reads", "writes", "saved"):
        assert float(ops.total(quantity, batch)) == pytest.approx(batch * float(ops.total(quantity)))
    assert float(ops.total("parameters", batch)) == ops.parameter_count


@given(times=st.integers(1, 50), size=SIZES)
def test_a_repeated_block_scales_everything(times: int, size: int) -> None:
    def block(repeat: int) -> Trace:
        t = Trace()
        x = t.act(t.image(4, size, size), "relu")
        with t.block("b", repeat=repeat):
            t.act(t.norm(t.conv(x, 4, 3, padding=1), "batch"), "relu")
        return t

    once, many = block(1).ops(), block(times).ops()
    inside = once.block == "b"
    for quantity in ("macs", "saved", "writes", "parameters"):
        outside = float(once.column(quantity)[~inside].sum())
        repeated = float(once.column(quantity)[inside].sum())
        assert float(many.total(quantity)) == pytest.approx(outside + times * repeated)


@given(size=st.integers(1, 300), kernel=st.integers(1, 7), stride=st.integers(1, 4))
def test_windows_stay_inside_the_axis(size: int, kernel: int, stride: int) -> None:
    if kernel > size:
        return
    floor, up = window_output(size, kernel, stride, 0), window_output(size, kernel, stride, 0, 1, True)
    assert (floor - 1) * stride + kernel <= size
    assert floor <= up <= floor + 1
    assert (up - 1) * stride < size
    assert window_output(size, kernel, stride, "same") == math.ceil(size / stride)


@given(scale=st.sampled_from([0.5, 1.0, 2.0]), seq=st.integers(1, 4096))
def test_symbolic_length_equals_the_number(scale: float, seq: int) -> None:
    def tower(length: Length | float) -> Trace:
        t = Trace()
        t.softmax(t.linear(t.act(t.linear(t.tokens(length, 8), 32), "gelu"), 8))
        return t

    symbolic, fixed = tower(S * scale).ops(), tower(seq * scale).ops()
    for quantity in ("macs", "reads", "saved"):
        assert float(symbolic.total(quantity, 3, seq)) == pytest.approx(float(fixed.total(quantity, 3)))


def test_two_symbolic_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="only one axis may depend on the sequence length"):
        _ = Shape(8, (S, S)).positions
