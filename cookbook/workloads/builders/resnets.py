"""Residual networks: ResNet v1, v1.5, v2 and its wide, grouped and squeezed relatives, NFNet, RegNet, ConvNeXt.

And networks for small devices, made of depthwise convolutions: MobileNet v1 to v3, MNASNet, EfficientNet v1 and v2,
ShuffleNet v2, GhostNet; GPUNet, from a search for low latency on GPUs (Wang et al., arXiv:2205.00841); and face
recognition, with a linear layer of one class per person.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cookbook.workloads.layers import Shape, Trace, classify, conv_norm, divisible, squeeze_excite, variant_of
from cookbook.workloads.ops import Ops

# Blocks of the four stages. 18 to 152: He et al., arXiv:1512.03385, Table 1; 200: He et al., arXiv:1603.05027; 269: HPE
# Deep Learning Benchmarking Suite, models/resnet269.
BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}


def resnet(
    depth: int = 50,
    image: int = 224,
    classes: int = 1000,
    stride_on: str = "3x3",
    groups: int = 1,
    group_width: int = 64,
    squeeze: bool = False,
    deep_stem: bool = False,
    project_first: bool = False,
) -> Ops:
    """Build a ResNet of 18 to 269 layers.

    Parameters
    ----------
    stride_on : str
        The convolution at which a bottleneck halves the resolution: "1x1" (v1, the paper) or "3x3" (v1.5).
    groups, group_width : int
        Groups of the 3x3 convolution and their width in the first stage (ResNeXt 32 x 4; wide ResNet 1 x 128).
    squeeze : bool
        Squeeze-and-excitation, reduction 16.
    deep_stem : bool
        Three 3x3 convolutions instead of one 7x7, and pooled shortcuts (ResNet-D, arXiv:1812.01187).
    project_first : bool
        Project the first shortcut even where shapes agree (Caffe's ResNet-18 and 34).
    """
    t = Trace()
    x = resnet_stem(t, t.image(3, image, image), deep_stem)
    for stage in range(4):
        x = resnet_stage(
            t,
            x,
            depth,
            stage,
            1 if stage == 0 else 2,
            stride_on,
            groups,
            group_width,
            squeeze,
            deep_stem,
            project_first=project_first,
        )
    return classify(t, x, classes)


def resnet_stem(t: Trace, x: Shape, deep: bool = False) -> Shape:
    """Write a 7x7 convolution (or three 3x3) at stride 2, and a max pool at stride 2."""
    if deep:
        for number, width in enumerate((32, 32, 64)):
            x = conv_norm(t, x, width, 3, 1 if number else 2, name=f"stem{number + 1}")
    else:
        x = conv_norm(t, x, 64, 7, 2, name="conv1")
    return t.pool(x, 3, 2, 1, name="stem.pool")


def resnet_stage(
    t: Trace,
    x: Shape,
    depth: int,
    stage: int,
    stride: int,
    stride_on: str = "3x3",
    groups: int = 1,
    group_width: int = 64,
    squeeze: bool = False,
    pooled: bool = False,
    dilation: int = 1,
    first_dilation: int | None = None,
    project_first: bool = False,
    blocks: int | None = None,
) -> Shape:
    """Write one of the four stages; a stage of dilated convolutions keeps its resolution (`stride` = 1)."""
    out = 64 * 2**stage * (4 if depth >= 50 else 1)
    inner = groups * group_width * 2**stage
    for block in range(blocks or variant_of(BLOCKS, depth, "depth")[stage]):
        step, hole = (stride, first_dilation or dilation) if block == 0 else (1, dilation)
        with t.block(f"stage{stage + 1}"):
            y = _bottleneck(t, x, inner, out, step, groups, stride_on, hole) if depth >= 50 else _basic(t, x, out, step)
            y = squeeze_excite(t, y, out // 16) if squeeze else y
            reshaped = step > 1 or x.channels != out or project_first
            shortcut = _shortcut(t, x, out, step, pooled) if block == 0 and reshaped else x
            x = t.act(t.add(y, shortcut), "relu")
    return x


def _bottleneck(
    t: Trace,
    x: Shape,
    inner: int,
    out: int,
    stride: int = 1,
    groups: int = 1,
    stride_on: str = "3x3",
    dilation: int = 1,
) -> Shape:
    if stride_on not in ("1x1", "3x3"):
        raise ValueError(f"stride_on = {stride_on!r}; take '1x1' (ResNet v1) or '3x3' (v1.5)")
    first, second = (stride, 1) if stride_on == "1x1" else (1, stride)
    y = conv_norm(t, x, inner, 1, first, name="reduce")
    y = conv_norm(t, y, inner, 3, second, groups=groups, dilation=dilation, name="conv")
    return conv_norm(t, y, out, 1, act="", name="expand")


def _basic(t: Trace, x: Shape, out: int, stride: int = 1) -> Shape:
    return conv_norm(t, conv_norm(t, x, out, 3, stride), out, 3, act="")


def basic_block(t: Trace, x: Shape, out: int) -> Shape:
    """Write two 3x3 convolutions and a shortcut at equal shape."""
    return t.act(t.add(_basic(t, x, out), x), "relu")


def bottleneck_block(t: Trace, x: Shape, inner: int, out: int) -> Shape:
    """Write 1x1, 3x3, 1x1 convolutions and a shortcut, projected where the width changes."""
    shortcut = x if x.channels == out else _shortcut(t, x, out, 1, False)
    return t.act(t.add(_bottleneck(t, x, inner, out), shortcut), "relu")


def _shortcut(t: Trace, x: Shape, out: int, stride: int, pooled: bool) -> Shape:
    if pooled and stride > 1:
        x, stride = t.pool(x, 2, 2, kind="average", ceil=True), 1
    return conv_norm(t, x, out, 1, stride, act="", name="shortcut")


def resnet_v2(depth: int = 50, image: int = 224, classes: int = 1000) -> Ops:
    """Build a ResNet of bottlenecks with norm and ReLU before each convolution (He et al., arXiv:1603.05027)."""
    t = Trace()
    x = t.pool(t.conv(t.image(3, image, image), 64, 7, 2, 3, bias=False, name="stem"), 3, 2, 1)
    for stage, times in enumerate(variant_of(BLOCKS, depth, "depth")):
        inner, out = 64 * 2**stage, 256 * 2**stage
        for number in range(times):
            stride = 2 if stage and not number else 1
            with t.block(f"stage{stage + 1}"):
                y = t.act(t.norm(x, "batch"), "relu")
                shortcut = x if number else t.conv(y, out, 1, stride, bias=False, name="shortcut")
                y = t.act(t.norm(t.conv(y, inner, 1, bias=False, name="reduce"), "batch"), "relu")
                y = t.act(t.norm(t.conv(y, inner, 3, stride, 1, bias=False), "batch"), "relu")
                x = t.add(t.conv(y, out, 1, bias=False, name="expand"), shortcut)
    return classify(t, t.act(t.norm(x, "batch"), "relu"), classes)


# Brock et al., arXiv:2102.06171, Table 1 (F0, GELU form of pytorch-image-models): width and blocks of the stages.
_NFNET_F0 = ((256, 1), (512, 2), (1536, 6), (1536, 3))


def nfnet_f0(image: int = 192, classes: int = 1000) -> Ops:
    """Build NFNet-F0: no norms; weights are standardised and have a gain for each output channel."""
    t = Trace()
    x = t.image(3, image, image)
    for number, width in enumerate((16, 32, 64, 128)):
        x = _gained_conv(t, x, width, 3, 2 if number in (0, 3) else 1)
        x = t.act(x, "gelu") if number < 3 else x
    for stage, (width, times) in enumerate(_NFNET_F0):
        for number in range(times):
            with t.block(f"stage{stage + 1}"):
                x = _norm_free_block(t, x, width, 2 if stage and not number else 1)
    return classify(t, t.act(_gained_conv(t, x, 3072, 1), "gelu"), classes)


def _gained_conv(t: Trace, x: Shape, out: int, kernel: int, stride: int = 1, groups: int = 1) -> Shape:
    t.parameter(out, "gain")
    return t.conv(x, out, kernel, stride, kernel // 2, groups)


def _norm_free_block(t: Trace, x: Shape, out: int, stride: int) -> Shape:
    inner = out // 2
    y = t.act(x, "gelu", in_place=False)
    shortcut = x
    if stride > 1 or x.channels != out:
        shortcut = _gained_conv(t, t.pool(y, 2, 2, kind="average", ceil=True) if stride > 1 else y, out, 1)
    y = t.act(_gained_conv(t, y, inner, 1), "gelu")
    for step in (stride, 1):
        y = t.act(_gained_conv(t, y, inner, 3, step, inner // 128), "gelu")
    return t.add(squeeze_excite(t, _gained_conv(t, y, out, 1), out // 2), shortcut)


# Radosavovic et al., arXiv:2003.13678 (pycls): depth, initial width, slope, width step, group width.
_REGNET = {
    "y_200mf": (13, 24, 36.44, 2.49, 8),
    "y_600mf": (15, 48, 32.54, 2.32, 16),
    "y_4gf": (22, 96, 31.41, 2.24, 64),
    "y_6.4gf": (25, 112, 33.22, 2.27, 72),
    "y_12gf": (19, 168, 73.36, 2.37, 112),
    "x_200mf": (13, 24, 36.44, 2.49, 8),
    "x_600mf": (16, 48, 36.97, 2.24, 24),
    "x_4gf": (23, 96, 38.65, 2.43, 40),
    "x_6.4gf": (17, 184, 60.83, 2.07, 56),
    "x_12gf": (19, 168, 73.36, 2.37, 112),
    "y_400mf": (16, 48, 27.89, 2.09, 8),
    "y_800mf": (14, 56, 38.84, 2.4, 16),
    "y_1.6gf": (27, 48, 20.71, 2.65, 24),
    "y_3.2gf": (21, 80, 42.63, 2.66, 24),
    "y_8gf": (17, 192, 76.82, 2.19, 56),
    "y_16gf": (18, 200, 106.23, 2.48, 112),
    "y_32gf": (20, 232, 115.89, 2.53, 232),
    "y_128gf": (27, 456, 160.83, 2.52, 264),
    "x_400mf": (22, 24, 24.48, 2.54, 16),
    "x_800mf": (16, 56, 35.73, 2.28, 16),
    "x_1.6gf": (18, 80, 34.01, 2.25, 24),
    "x_3.2gf": (25, 88, 26.31, 2.25, 48),
    "x_8gf": (23, 80, 49.56, 2.88, 120),
    "x_16gf": (22, 216, 55.59, 2.1, 128),
    "x_32gf": (23, 320, 69.86, 2.0, 168),
}


def regnet(variant: str = "y_3.2gf", image: int = 224, classes: int = 1000, nearest: bool = False) -> Ops:
    """Build RegNet X, or Y with squeeze-and-excitation, by its published parameters.

    `nearest` rounds widths to the nearest whole groups, as the paper's code does; torchvision loses no tenth by that.
    """
    settings = variant_of(_REGNET, variant, "variant")
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 32, 3, 2, name="stem")
    previous = 0
    for width, group in _regnet_widths(settings, nearest):
        stride = 2 if width != previous else 1
        previous = width
        with t.block(f"width{width}"):
            squeeze = round(x.channels / 4) if variant.startswith("y") else 0
            y = conv_norm(t, x, width, 1, name="reduce")
            y = conv_norm(t, y, width, 3, stride, groups=width // group)
            y = squeeze_excite(t, y, squeeze) if squeeze else y
            y = conv_norm(t, y, width, 1, act="", name="expand")
            skip = conv_norm(t, x, width, 1, stride, act="", name="shortcut") if stride == 2 else x
            x = t.act(t.add(skip, y), "relu")
    return classify(t, x, classes)


def _regnet_widths(settings: tuple[int, int, float, float, int], nearest: bool) -> list[tuple[int, int]]:
    """Return width and group width of each block: a line quantised to powers of `step`, then to full groups."""
    depth, first, slope, step, group = settings
    capacity = [round(math.log((first + slope * i) / first) / math.log(step)) for i in range(depth)]
    widths = [round(first * step**c / 8) * 8 for c in capacity]
    groups = [min(group, w) for w in widths]
    if nearest:
        return [(round(w / g) * g, g) for w, g in zip(widths, groups, strict=True)]
    return [(divisible(w, g), g) for w, g in zip(widths, groups, strict=True)]


# Liu et al., arXiv:2201.03545, section 3: channels and blocks of the four stages.
CONVNEXT = {
    "tiny": ((96, 192, 384, 768), (3, 3, 9, 3)),
    "small": ((96, 192, 384, 768), (3, 3, 27, 3)),
    "base": ((128, 256, 512, 1024), (3, 3, 27, 3)),
    "large": ((192, 384, 768, 1536), (3, 3, 27, 3)),
    "xlarge": ((256, 512, 1024, 2048), (3, 3, 27, 3)),
}


def convnext(size: str = "tiny", image: int = 224, classes: int = 1000, version: int = 1) -> Ops:
    """Build ConvNeXt tiny, small, base, large or xlarge; version 2 has a global response norm (arXiv:2301.00808)."""
    t = Trace()
    x = t.image(3, image, image)
    for stage, (width, times) in enumerate(zip(*variant_of(CONVNEXT, size, "size"), strict=True)):
        if stage == 0:
            x = t.norm(t.conv(x, width, 4, 4, name="stem"), "layer")
        else:
            x = t.conv(t.norm(x, "layer"), width, 2, 2, name=f"down{stage}")
        with t.block(f"stage{stage + 1}", repeat=times):
            y = t.norm(t.conv(x, width, 7, padding=3, groups=width, name="depthwise"), "layer")
            y = t.act(t.linear(y, 4 * width, name="expand"), "gelu")
            y = t.norm(y, "instance", name="response") if version == 2 else y
            y = t.linear(y, width, name="project")
            x = t.add(x, y if version == 2 else t.scale(y, "layer_scale"))
    x = t.norm(t.flatten(t.global_pool(x)), "layer")
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()


def inverted_residual(
    t: Trace,
    x: Shape,
    hidden: int,
    out: int,
    kernel: int,
    stride: int,
    act: str = "relu",
    squeeze: int = 0,
    gate: str = "sigmoid",
    dilation: int = 1,
    squeeze_act: str = "relu",
) -> Shape:
    """Write an expansion to `hidden` channels, depthwise convolution, squeeze-and-excitation, projection and a
    shortcut.
    """
    y = conv_norm(t, x, hidden, 1, act=act, name="expand") if hidden != x.channels else x
    y = conv_norm(t, y, hidden, kernel, stride, groups=hidden, dilation=dilation, act=act, name="depthwise")
    y = squeeze_excite(t, y, squeeze, squeeze_act, gate) if squeeze else y
    y = conv_norm(t, y, out, 1, act="", name="project")
    return t.add(x, y) if stride == 1 and x.channels == out else y


# Howard et al., arXiv:1704.04861, Table 1: channels and stride of the separable convolutions.
_MOBILENET_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))


def mobilenet_v1(width: float = 1.0, image: int = 224, classes: int = 1000) -> Ops:
    """Build MobileNet v1: depthwise and pointwise convolutions in turn."""
    t = Trace()
    return classify(t, mobilenet_v1_features(t, t.image(3, image, image), width)[0], classes)


def mobilenet_v1_features(t: Trace, x: Shape, width: float = 1.0, taps: Sequence[int] = (13,)) -> list[Shape]:
    """Write the convolutions of MobileNet v1; return the outputs of the separable convolutions numbered in `taps`."""
    x, tapped = conv_norm(t, x, divisible(32 * width), 3, 2, act="relu6", name="stem"), []
    for number, (channels, stride) in enumerate(_MOBILENET_V1, start=1):
        x = conv_norm(t, x, int(x.channels), 3, stride, groups=int(x.channels), act="relu6", name="depthwise")
        x = conv_norm(t, x, divisible(channels * width), 1, act="relu6", name="pointwise")
        tapped += [x] if number in taps else []
    return tapped


# Sandler et al., arXiv:1801.04381, Table 2: expansion, channels, repeats, stride.
_MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(width: float = 1.0, image: int = 224, classes: int = 1000) -> Ops:
    """Build MobileNet v2."""
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), divisible(32 * width), 3, 2, act="relu6", name="stem")
    for expansion, channels, times, stride in _MOBILENET_V2:
        for number in range(times):
            with t.block(f"stage{channels}"):
                hidden = expansion * int(x.channels)
                x = inverted_residual(t, x, hidden, divisible(channels * width), 3, 1 if number else stride, "relu6")
    x = conv_norm(t, x, divisible(1280 * max(1.0, width)), 1, act="relu6", name="head")
    return classify(t, x, classes, dropout=True)


# Howard et al., arXiv:1905.02244, Tables 1 and 2: kernel, hidden, channels, squeeze, hard-swish, stride.
_MOBILENET_V3 = {
    "large": (
        (3, 16, 16, 0, 0, 1),
        (3, 64, 24, 0, 0, 2),
        (3, 72, 24, 0, 0, 1),
        (5, 72, 40, 1, 0, 2),
        (5, 120, 40, 1, 0, 1),
        (5, 120, 40, 1, 0, 1),
        (3, 240, 80, 0, 1, 2),
        (3, 200, 80, 0, 1, 1),
        (3, 184, 80, 0, 1, 1),
        (3, 184, 80, 0, 1, 1),
        (3, 480, 112, 1, 1, 1),
        (3, 672, 112, 1, 1, 1),
        (5, 672, 160, 1, 1, 2),
        (5, 960, 160, 1, 1, 1),
        (5, 960, 160, 1, 1, 1),
    ),
    "small": (
        (3, 16, 16, 1, 0, 2),
        (3, 72, 24, 0, 0, 2),
        (3, 88, 24, 0, 0, 1),
        (5, 96, 40, 1, 1, 2),
        (5, 240, 40, 1, 1, 1),
        (5, 240, 40, 1, 1, 1),
        (5, 120, 48, 1, 1, 1),
        (5, 144, 48, 1, 1, 1),
        (5, 288, 96, 1, 1, 2),
        (5, 576, 96, 1, 1, 1),
        (5, 576, 96, 1, 1, 1),
    ),
}
_MOBILENET_V3_HEAD = {"large": 1280, "small": 1024}


def mobilenet_v3(size: str = "large", image: int = 224, classes: int = 1000) -> Ops:
    """Build MobileNet v3 large or small."""
    t = Trace()
    x = mobilenet_v3_features(t, t.image(3, image, image), size)[-1]
    x = t.flatten(t.global_pool(conv_norm(t, x, 6 * int(x.channels), 1, act="hardswish", name="head")))
    x = t.act(t.linear(x, _MOBILENET_V3_HEAD[size], name="fc"), "hardswish")
    t.loss(t.linear(t.dropout(x), classes, name="classifier"))
    return t.ops()


def mobilenet_v3_features(
    t: Trace, x: Shape, size: str = "large", dilated: bool = False, reduced: bool = False, taps: Sequence[int] = ()
) -> list[Shape]:
    """Return the outputs of the blocks numbered in `taps` and of the last; `reduced` halves the last three blocks."""
    x = conv_norm(t, x, 16, 3, 2, act="hardswish", name="stem")
    tapped, blocks = [], variant_of(_MOBILENET_V3, size, "size")
    for number, (kernel, hidden, out, squeeze, hard, stride) in enumerate(blocks):
        late = number >= len(blocks) - 3
        if reduced and late:
            out, hidden = out // 2, hidden if number == len(blocks) - 3 else hidden // 2
        hole = 2 if dilated and late else 1
        with t.block(f"block{number + 1}"):
            x = inverted_residual(
                t,
                x,
                hidden,
                out,
                kernel,
                1 if hole > 1 else stride,
                "hardswish" if hard else "relu",
                divisible(hidden // 4) if squeeze else 0,
                "hardsigmoid",
                hole,
            )
        tapped += [x] if number in taps else []
    return [*tapped, x]


# Tan et al., arXiv:1807.11626, Figure 7 (variant B1): kernel, stride, expansion, channels, repeats.
_MNASNET = (
    (3, 2, 3, 24, 3),
    (5, 2, 3, 40, 3),
    (5, 2, 6, 80, 3),
    (3, 1, 6, 96, 2),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


def mnasnet(width: float = 1.0, image: int = 224, classes: int = 1000) -> Ops:
    """Build MNASNet B1 of a width multiplier."""
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), divisible(32 * width), 3, 2, name="stem")
    x = conv_norm(t, x, int(x.channels), 3, groups=int(x.channels), name="depthwise")
    x = conv_norm(t, x, divisible(16 * width), 1, act="", name="project")
    for kernel, stride, expansion, channels, times in _MNASNET:
        for number in range(times):
            with t.block(f"stage{channels}"):
                hidden = expansion * int(x.channels)
                x = inverted_residual(t, x, hidden, divisible(channels * width), kernel, 1 if number else stride)
    return classify(t, conv_norm(t, x, 1280, 1, name="head"), classes, dropout=True)


# Tan & Le, arXiv:1905.11946, Table 1: expansion, kernel, stride, channels, repeats; scaled by (width, depth, image).
_EFFICIENTNET = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
_EFFICIENTNET_SCALE = {
    "b0": (1.0, 1.0, 224),
    "b1": (1.0, 1.1, 240),
    "b2": (1.1, 1.2, 260),
    "b3": (1.2, 1.4, 300),
    "b4": (1.4, 1.8, 380),
    "b5": (1.6, 2.2, 456),
    "b6": (1.8, 2.6, 528),
    "b7": (2.0, 3.1, 600),
}


def efficientnet(size: str = "b0", image: int | None = None, classes: int = 1000, wide_squeeze: bool = False) -> Ops:
    """Build EfficientNet b0 to b7; `wide_squeeze` takes a quarter of the hidden, not of the input channels."""
    width, depth, default = variant_of(_EFFICIENTNET_SCALE, size, "size")
    t = Trace()
    side = image or default
    x = conv_norm(t, t.image(3, side, side), divisible(32 * width), 3, 2, act="silu", name="stem")
    for expansion, kernel, stride, channels, times in _EFFICIENTNET:
        for number in range(math.ceil(times * depth)):
            x = _mbconv(t, x, expansion, kernel, 1 if number else stride, divisible(channels * width), wide_squeeze)
    return classify(t, conv_norm(t, x, divisible(1280 * width), 1, act="silu", name="head"), classes, dropout=True)


def _mbconv(
    t: Trace, x: Shape, expansion: int, kernel: int, stride: int, out: int, wide_squeeze: bool = False
) -> Shape:
    hidden = expansion * int(x.channels)
    squeeze = max(1, (hidden if wide_squeeze else int(x.channels)) // 4)
    with t.block(f"stage{out}"):
        return inverted_residual(t, x, hidden, out, kernel, stride, "silu", squeeze, squeeze_act="silu")


# Tan & Le, arXiv:2104.00298, Table 4: fused, expansion, stride, channels, repeats; input size of torchvision's weights.
_EFFICIENTNET_V2 = {
    "s": (
        24,
        384,
        (
            (1, 1, 1, 24, 2),
            (1, 4, 2, 48, 4),
            (1, 4, 2, 64, 4),
            (0, 4, 2, 128, 6),
            (0, 6, 1, 160, 9),
            (0, 6, 2, 256, 15),
        ),
    ),
    "m": (
        24,
        480,
        (
            (1, 1, 1, 24, 3),
            (1, 4, 2, 48, 5),
            (1, 4, 2, 80, 5),
            (0, 4, 2, 160, 7),
            (0, 6, 1, 176, 14),
            (0, 6, 2, 304, 18),
            (0, 6, 1, 512, 5),
        ),
    ),
    "l": (
        32,
        480,
        (
            (1, 1, 1, 32, 4),
            (1, 4, 2, 64, 7),
            (1, 4, 2, 96, 7),
            (0, 4, 2, 192, 10),
            (0, 6, 1, 224, 19),
            (0, 6, 2, 384, 25),
            (0, 6, 1, 640, 7),
        ),
    ),
}


def efficientnet_v2(size: str = "s", image: int | None = None, classes: int = 1000) -> Ops:
    """Build EfficientNet v2 s, m or l."""
    stem, default, stages = variant_of(_EFFICIENTNET_V2, size, "size")
    t = Trace()
    side = image or default
    x = conv_norm(t, t.image(3, side, side), stem, 3, 2, act="silu", name="stem")
    for fused, expansion, stride, channels, times in stages:
        for number in range(times):
            step = 1 if number else stride
            block = _fused_mbconv if fused else _mbconv
            x = block(t, x, expansion, 3, step, channels)
    return classify(t, conv_norm(t, x, 1280, 1, act="silu", name="head"), classes, dropout=True)


def _fused_mbconv(t: Trace, x: Shape, expansion: int, kernel: int, stride: int, out: int) -> Shape:
    with t.block(f"fused{out}"):
        if expansion > 1:
            return _fused_residual(t, x, expansion * int(x.channels), out, kernel, stride, "silu")
        y = conv_norm(t, x, out, kernel, stride, act="silu")
        return t.add(x, y) if stride == 1 and x.channels == out else y


def _fused_residual(
    t: Trace, x: Shape, hidden: int, out: int, kernel: int, stride: int, act: str, squeeze: int = 0
) -> Shape:
    """Write an inverted residual with one convolution in place of expansion and depthwise convolution."""
    y = conv_norm(t, x, hidden, kernel, stride, act=act, name="fused")
    y = squeeze_excite(t, y, squeeze, act) if squeeze else y
    y = conv_norm(t, y, out, 1, act="", name="project")
    return t.add(x, y) if stride == 1 and x.channels == out else y


# Ma et al., arXiv:1807.11164, Table 5: channels of the three stages and of the last convolution.
_SHUFFLENET = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}


def shufflenet_v2(width: float = 1.0, image: int = 224, classes: int = 1000) -> Ops:
    """Build ShuffleNet v2 of width 0.5, 1.0, 1.5 or 2.0."""
    *stages, last = variant_of(_SHUFFLENET, width, "width")
    t = Trace()
    x = t.pool(conv_norm(t, t.image(3, image, image), 24, 3, 2, name="stem"), 3, 2, 1)
    for channels, times in zip(stages, (4, 8, 4), strict=True):
        for number in range(times):
            with t.block(f"stage{channels}"):
                x = _shuffle_unit(t, x, channels, 1 if number else 2)
    return classify(t, conv_norm(t, x, last, 1, name="head"), classes)


def _shuffle_unit(t: Trace, x: Shape, out: int, stride: int) -> Shape:
    half, left, right = out // 2, x.with_channels(out // 2), x.with_channels(out // 2)
    if stride > 1:
        left = conv_norm(t, x, int(x.channels), 3, stride, groups=int(x.channels), act="", name="left.depthwise")
        left, right = conv_norm(t, left, half, 1, name="left"), x
    y = conv_norm(t, right, half, 1, name="expand")
    y = conv_norm(t, y, half, 3, stride, groups=half, act="", name="depthwise")
    return t.concat([left, conv_norm(t, y, half, 1, name="project")], name="shuffle")


# Han et al., arXiv:1911.11907, Table 1: kernel, hidden, channels, squeeze, stride.
_GHOSTNET = (
    (3, 16, 16, 0, 1),
    (3, 48, 24, 0, 2),
    (3, 72, 24, 0, 1),
    (5, 72, 40, 1, 2),
    (5, 120, 40, 1, 1),
    (3, 240, 80, 0, 2),
    (3, 200, 80, 0, 1),
    (3, 184, 80, 0, 1),
    (3, 184, 80, 0, 1),
    (3, 480, 112, 1, 1),
    (3, 672, 112, 1, 1),
    (5, 672, 160, 1, 2),
    (5, 960, 160, 0, 1),
    (5, 960, 160, 1, 1),
    (5, 960, 160, 0, 1),
    (5, 960, 160, 1, 1),
)


def ghostnet(image: int = 224, classes: int = 1000) -> Ops:
    """Build GhostNet 1.0x."""
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 16, 3, 2, name="stem")
    for number, (kernel, hidden, out, squeeze, stride) in enumerate(_GHOSTNET):
        with t.block(f"ghost{number + 1}"):
            y = _ghost(t, x, hidden, "relu")
            if stride > 1:
                y = conv_norm(t, y, hidden, kernel, stride, groups=hidden, act="", name="depthwise")
            y = squeeze_excite(t, y, divisible(hidden / 4, 4), gate="hardsigmoid") if squeeze else y
            x = t.add(_ghost(t, y, out, ""), _ghost_shortcut(t, x, out, kernel, stride))
    x = t.global_pool(conv_norm(t, x, 960, 1, name="head"))
    t.loss(t.linear(t.dropout(t.act(t.linear(x, 1280, name="fc"), "relu")), classes, name="classifier"))
    return t.ops()


def _ghost(t: Trace, x: Shape, out: int, act: str) -> Shape:
    half = math.ceil(out / 2)
    y = conv_norm(t, x, half, 1, act=act, name="primary")
    return t.concat([y, conv_norm(t, y, half, 3, groups=half, act=act, name="cheap")])


def _ghost_shortcut(t: Trace, x: Shape, out: int, kernel: int, stride: int) -> Shape:
    if stride == 1 and x.channels == out:
        return x
    y = conv_norm(t, x, int(x.channels), kernel, stride, groups=int(x.channels), act="", name="shortcut.depthwise")
    return conv_norm(t, y, out, 1, act="", name="shortcut")


# NVIDIA/DeepLearningExamples, PyTorch/Classification/GPUNet/configs/batch1/GV100: image, stem, plain convolutions, then
# stages of (fused, blocks, channels, stride of the first, expansion, kernel, activation, squeeze-and-excite).
_GPUNET = {
    "0": (
        320,
        32,
        2,
        (
            (1, 2, 32, 2, 5, 3, "relu", 0),
            (1, 3, 64, 2, 5, 3, "relu", 0),
            (0, 3, 256, 2, 5, 3, "silu", 0),
            (0, 2, 704, 2, 5, 3, "relu", 1),
        ),
    ),
    "1": (
        288,
        24,
        1,
        (
            (1, 2, 64, 2, 4, 3, "silu", 0),
            (1, 2, 96, 2, 4, 3, "silu", 0),
            (0, 1, 160, 2, 2, 3, "silu", 1),
            (0, 4, 288, 1, 5, 3, "relu", 0),
            (0, 4, 448, 2, 4, 3, "relu", 1),
        ),
    ),
    "2": (
        384,
        32,
        3,
        (
            (1, 1, 32, 2, 6, 5, "silu", 1),
            (1, 3, 112, 2, 3, 3, "silu", 0),
            (0, 6, 144, 2, 6, 3, "silu", 0),
            (0, 4, 160, 1, 3, 5, "relu", 0),
            (0, 8, 224, 2, 3, 3, "silu", 1),
            (0, 7, 832, 1, 2, 5, "relu", 0),
        ),
    ),
}
# The same folder, 1.25ms-D.json (distilled): channels, stride, expansion, kernel of each block.
_GPUNET_D1 = (
    (33, 1, 1, 3),
    (44, 2, 3, 3),
    (44, 1, 4, 5),
    (44, 1, 3, 3),
    (67, 2, 4, 5),
    (67, 1, 4, 5),
    (67, 1, 6, 3),
    (67, 1, 3, 5),
    (134, 2, 6, 7),
    (134, 1, 6, 5),
    (134, 1, 3, 3),
    (134, 1, 4, 5),
    (190, 1, 6, 3),
    (190, 1, 6, 5),
    (190, 1, 6, 7),
    (190, 1, 4, 3),
    (268, 2, 6, 3),
    (268, 1, 6, 3),
    (268, 1, 6, 5),
    (268, 1, 3, 3),
    (268, 1, 3, 3),
    (268, 1, 3, 3),
)


def gpunet(variant: str = "0", image: int | None = None, classes: int = 1000) -> Ops:
    """Build GPUNet-0, 1 or 2: fused inverted residuals, then inverted residuals."""
    side, stem, convolutions, stages = variant_of(_GPUNET, variant, "variant")
    t = Trace()
    x = conv_norm(t, t.image(3, image or side, image or side), stem, 3, 2, act="silu", name="stem")
    for _ in range(convolutions):
        x = conv_norm(t, x, stem, 3)
    for fused, times, out, stride, expansion, kernel, act, squeeze in stages:
        for number in range(times):
            hidden, step = divisible(int(x.channels) * expansion), 1 if number else stride
            # A quarter of the block's input channels, as the source divides a quarter by the expansion.
            narrow = round(hidden * 0.25 / expansion) if squeeze else 0
            with t.block(f"stage{out}"):
                if fused:
                    x = _fused_residual(t, x, hidden, out, kernel, step, act, narrow)
                else:
                    x = inverted_residual(t, x, hidden, out, kernel, step, act, narrow, squeeze_act=act)
    return classify(t, conv_norm(t, x, 1280, 1, name="head"), classes, dropout=True)


def gpunet_d1(image: int = 456, classes: int = 1000) -> Ops:
    """Build GPUNet-D1, trained by distillation; its first block has equal input and output channels."""
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 33, 3, 2, name="stem")
    for out, stride, expansion, kernel in _GPUNET_D1:
        with t.block(f"stage{out}"):
            hidden = int(x.channels) * expansion
            y = conv_norm(t, x, hidden, 1, name="expand")
            y = conv_norm(t, y, hidden, kernel, stride, groups=hidden, name="depthwise")
            y = conv_norm(t, y, out, 1, act="", name="project")
            x = t.add(x, y) if stride == 1 and x.channels == out else y
    x = t.global_pool(conv_norm(t, x, 1152, 1, name="head"))
    x = t.act(t.linear(x, 1984, bias=False, name="fc"), "relu")
    t.loss(t.linear(t.dropout(x), classes, name="classifier"))
    return t.ops()


def face(network: str = "resnet100", image: int = 112, classes: int = 85742) -> Ops:
    """Build a face recognition network: features, and a linear layer with one class per person.

    `network`: "resnet100" (Deng et al., arXiv:1801.07698) or "mobile" (Chen et al., arXiv:1804.07573).
    """
    t = Trace()
    features = variant_of({"resnet100": _face_resnet, "mobile": _mobile_face}, network, "network")
    x = features(t, t.image(3, image, image))
    t.loss(t.linear(t.norm(x, "batch"), classes, bias=False, name="people"))
    return t.ops()


def _face_resnet(t: Trace, x: Shape) -> Shape:
    x = conv_norm(t, x, 64, 3, act="prelu", name="stem")
    for stage, times in enumerate((3, 13, 30, 3)):
        for number in range(times):
            with t.block(f"stage{stage + 1}"):
                out, y = 64 * 2**stage, conv_norm(t, t.norm(x, "batch"), 64 * 2**stage, 3, act="prelu")
                y = conv_norm(t, y, out, 3, 1 if number else 2, act="")
                x = t.add(y, x if number else _shortcut(t, x, out, 2, False))
    return t.linear(t.flatten(t.dropout(t.norm(x, "batch"))), 512, name="features")


def _mobile_face(t: Trace, x: Shape) -> Shape:
    x = conv_norm(t, x, 64, 3, 2, act="prelu", name="stem")
    x = conv_norm(t, x, 64, 3, groups=64, act="prelu", name="depthwise")
    for out, first, hidden, times in ((64, 128, 128, 4), (128, 256, 256, 6), (128, 512, 256, 2)):
        for number in range(times + 1):
            with t.block(f"stage{first}"):
                x = inverted_residual(t, x, hidden if number else first, out, 3, 1 if number else 2, "prelu")
    x = conv_norm(t, conv_norm(t, x, 512, 1, act="prelu"), 512, 7, padding=0, groups=512, act="", name="whole")
    return t.linear(t.flatten(x), 128, name="features")
