"""Residual networks: ResNet v1, v1.5, v2 and its wide, grouped and squeezed relatives, NFNet, RegNet, ConvNeXt."""

from __future__ import annotations

import math

from cookbook.workloads.blocks import classify, conv_norm, divisible, squeeze_excite, variant_of
from cookbook.workloads.layers import Shape, Trace
from cookbook.workloads.ops import Ops

# Blocks of the four stages. 18 to 152: He et al., arXiv:1512.03385, Table 1; 200: He et al., arXiv:1603.05027; 269: HPE
# Deep Learning Benchmarking Suite, models/resnet269.
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3),
           200: (3, 24, 36, 3), 269: (3, 30, 48, 8)}  # fmt: skip


def resnet(depth: int = 50, image: int = 224, classes: int = 1000, stride_on: str = "3x3", groups: int = 1,
           group_width: int = 64, squeeze: bool = False, deep_stem: bool = False,
           project_first: bool = False) -> Ops:  # fmt: skip
    """ResNet of 18 to 269 layers.

    Parameters
    ----------
    stride_on : str
        Where a bottleneck halves the resolution: "1x1" (v1, the paper) or "3x3" (v1.5).
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
        x = resnet_stage(t, x, depth, stage, 1 if stage == 0 else 2, stride_on, groups, group_width, squeeze, deep_stem,
                         project_first=project_first)  # fmt: skip
    classify(t, x, classes)
    return t.ops()


def resnet_stem(t: Trace, x: Shape, deep: bool = False) -> Shape:
    """7x7 convolution (or three 3x3) at stride 2, and a max pool at stride 2."""
    if deep:
        for number, width in enumerate((32, 32, 64)):
            x = conv_norm(t, x, width, 3, 1 if number else 2, name=f"stem{number + 1}")
    else:
        x = conv_norm(t, x, 64, 7, 2, name="conv1")
    return t.pool(x, 3, 2, 1, name="stem.pool")


def resnet_stage(t: Trace, x: Shape, depth: int, stage: int, stride: int, stride_on: str = "3x3", groups: int = 1,
                 group_width: int = 64, squeeze: bool = False, pooled: bool = False, dilation: int = 1,
                 first_dilation: int | None = None, project_first: bool = False,
                 blocks: int | None = None) -> Shape:  # fmt: skip
    """One of the four stages; a stage of dilated convolutions keeps its resolution (`stride` = 1)."""
    out = 64 * 2**stage * (4 if depth >= 50 else 1)
    inner = groups * group_width * 2**stage
    for block in range(blocks or variant_of(_BLOCKS, depth, "depth")[stage]):
        step, hole = (stride, first_dilation or dilation) if block == 0 else (1, dilation)
        with t.block(f"stage{stage + 1}"):
            y = _bottleneck(t, x, inner, out, step, groups, stride_on, hole) if depth >= 50 else _basic(t, x, out, step)
            y = squeeze_excite(t, y, out // 16) if squeeze else y
            reshaped = step > 1 or x.channels != out or project_first
            shortcut = _shortcut(t, x, out, step, pooled) if block == 0 and reshaped else x
            x = t.act(t.add(y, shortcut), "relu")
    return x


def _bottleneck(t: Trace, x: Shape, inner: int, out: int, stride: int = 1, groups: int = 1, stride_on: str = "3x3",
                dilation: int = 1) -> Shape:  # fmt: skip
    if stride_on not in ("1x1", "3x3"):
        raise ValueError(f"stride_on = {stride_on!r}; take '1x1' (ResNet v1) or '3x3' (v1.5)")
    first, second = (stride, 1) if stride_on == "1x1" else (1, stride)
    y = conv_norm(t, x, inner, 1, first, name="reduce")
    y = conv_norm(t, y, inner, 3, second, groups=groups, dilation=dilation, name="conv")
    return conv_norm(t, y, out, 1, act="", name="expand")


def _basic(t: Trace, x: Shape, out: int, stride: int = 1) -> Shape:
    return conv_norm(t, conv_norm(t, x, out, 3, stride), out, 3, act="")


def basic_block(t: Trace, x: Shape, out: int) -> Shape:
    """Two 3x3 convolutions and a shortcut at equal shape."""
    return t.act(t.add(_basic(t, x, out), x), "relu")


def bottleneck_block(t: Trace, x: Shape, inner: int, out: int) -> Shape:
    """1x1, 3x3, 1x1 convolutions and a shortcut, projected where the width changes."""
    shortcut = x if x.channels == out else _shortcut(t, x, out, 1, False)
    return t.act(t.add(_bottleneck(t, x, inner, out), shortcut), "relu")


def _shortcut(t: Trace, x: Shape, out: int, stride: int, pooled: bool) -> Shape:
    if pooled and stride > 1:
        x, stride = t.pool(x, 2, 2, kind="average", ceil=True), 1
    return conv_norm(t, x, out, 1, stride, act="", name="shortcut")


def resnet_v2(depth: int = 50, image: int = 224, classes: int = 1000) -> Ops:
    """ResNet of bottlenecks with norm and ReLU before each convolution (He et al., arXiv:1603.05027)."""
    t = Trace()
    x = t.pool(t.conv(t.image(3, image, image), 64, 7, 2, 3, bias=False, name="stem"), 3, 2, 1)
    for stage, times in enumerate(variant_of(_BLOCKS, depth, "depth")):
        inner, out = 64 * 2**stage, 256 * 2**stage
        for number in range(times):
            stride = 2 if stage and not number else 1
            with t.block(f"stage{stage + 1}"):
                y = t.act(t.norm(x, "batch"), "relu")
                shortcut = x if number else t.conv(y, out, 1, stride, bias=False, name="shortcut")
                y = t.act(t.norm(t.conv(y, inner, 1, bias=False, name="reduce"), "batch"), "relu")
                y = t.act(t.norm(t.conv(y, inner, 3, stride, 1, bias=False), "batch"), "relu")
                x = t.add(t.conv(y, out, 1, bias=False, name="expand"), shortcut)
    classify(t, t.act(t.norm(x, "batch"), "relu"), classes)
    return t.ops()


# Brock et al., arXiv:2102.06171, Table 1 (F0, GELU form of pytorch-image-models): width and blocks of the stages.
_NFNET_F0 = ((256, 1), (512, 2), (1536, 6), (1536, 3))


def nfnet_f0(image: int = 192, classes: int = 1000) -> Ops:
    """NFNet-F0: no norms; weights are standardised and have a gain for each output channel."""
    t = Trace()
    x = t.image(3, image, image)
    for number, width in enumerate((16, 32, 64, 128)):
        x = _gained_conv(t, x, width, 3, 2 if number in (0, 3) else 1)
        x = t.act(x, "gelu") if number < 3 else x
    for stage, (width, times) in enumerate(_NFNET_F0):
        for number in range(times):
            with t.block(f"stage{stage + 1}"):
                x = _norm_free_block(t, x, width, 2 if stage and not number else 1)
    classify(t, t.act(_gained_conv(t, x, 3072, 1), "gelu"), classes)
    return t.ops()


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
    "y_400mf": (16, 48, 27.89, 2.09, 8), "y_800mf": (14, 56, 38.84, 2.4, 16), "y_1.6gf": (27, 48, 20.71, 2.65, 24),
    "y_3.2gf": (21, 80, 42.63, 2.66, 24), "y_8gf": (17, 192, 76.82, 2.19, 56), "y_16gf": (18, 200, 106.23, 2.48, 112),
    "y_32gf": (20, 232, 115.89, 2.53, 232), "y_128gf": (27, 456, 160.83, 2.52, 264),
    "x_400mf": (22, 24, 24.48, 2.54, 16), "x_800mf": (16, 56, 35.73, 2.28, 16), "x_1.6gf": (18, 80, 34.01, 2.25, 24),
    "x_3.2gf": (25, 88, 26.31, 2.25, 48), "x_8gf": (23, 80, 49.56, 2.88, 120), "x_16gf": (22, 216, 55.59, 2.1, 128),
    "x_32gf": (23, 320, 69.86, 2.0, 168),
}  # fmt: skip


def regnet(variant: str = "y_3.2gf", image: int = 224, classes: int = 1000) -> Ops:
    """RegNet X, or Y with squeeze-and-excitation, by its published parameters."""
    settings = variant_of(_REGNET, variant, "variant")
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 32, 3, 2, name="stem")
    previous = 0
    for width, group in _regnet_widths(*settings):
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
    classify(t, x, classes)
    return t.ops()


def _regnet_widths(depth: int, first: int, slope: float, step: float, group: int) -> list[tuple[int, int]]:
    """Width and group width of each block: a line quantised to powers of `step`, then to whole groups."""
    capacity = [round(math.log((first + slope * i) / first) / math.log(step)) for i in range(depth)]
    widths = [round(first * step**c / 8) * 8 for c in capacity]
    groups = [min(group, w) for w in widths]
    return [(divisible(w, g), g) for w, g in zip(widths, groups, strict=True)]


# Liu et al., arXiv:2201.03545, section 3: channels and blocks of the four stages.
_CONVNEXT = {"tiny": ((96, 192, 384, 768), (3, 3, 9, 3)), "small": ((96, 192, 384, 768), (3, 3, 27, 3)),
             "base": ((128, 256, 512, 1024), (3, 3, 27, 3)), "large": ((192, 384, 768, 1536), (3, 3, 27, 3)),
             "xlarge": ((256, 512, 1024, 2048), (3, 3, 27, 3))}  # fmt: skip


def convnext(size: str = "tiny", image: int = 224, classes: int = 1000) -> Ops:
    """ConvNeXt tiny, small, base, large or xlarge."""
    t = Trace()
    x = t.image(3, image, image)
    for stage, (width, times) in enumerate(zip(*variant_of(_CONVNEXT, size, "size"), strict=True)):
        if stage == 0:
            x = t.norm(t.conv(x, width, 4, 4, name="stem"), "layer")
        else:
            x = t.conv(t.norm(x, "layer"), width, 2, 2, name=f"down{stage}")
        with t.block(f"stage{stage + 1}", repeat=times):
            y = t.norm(t.conv(x, width, 7, padding=3, groups=width, name="depthwise"), "layer")
            y = t.linear(t.act(t.linear(y, 4 * width, name="expand"), "gelu"), width, name="project")
            x = t.add(x, t.scale(y, "layer_scale"))
    x = t.norm(t.flatten(t.global_pool(x)), "layer")
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()
