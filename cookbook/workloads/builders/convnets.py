"""Convolutional networks but for the residual and the small ones: plain (AlexNet, OverFeat, VGG, SqueezeNet, DenseNet,
DarkNet, small nets of one column), of parallel branches (GoogLeNet, Inception v3 and v4, Inception-ResNet v2, Xception)
and of several streams (HRNet's resolutions, DPN's residual and dense paths).

Each function builds one family; layer widths are beside the citation they come from. A branch is written as its
steps: (out, kernel) keeps the size, (out, kernel, stride) pads nothing, "average" pools 3x3 at stride 1, "max" at
stride 1 and "halve" (max) at stride 2 without padding; a list of steps inside a branch runs side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cookbook.workloads.builders.resnets import basic_block, bottleneck_block, resnet_stage
from cookbook.workloads.layers import Shape, Trace, classify, conv_norm, variant_of
from cookbook.workloads.ops import Ops

# A local response norm, and a max pool of AlexNet as (kernel, stride).
LRN, POOL = ("lrn",), (3, 2)


def _column(t: Trace, x: Shape, layers: Sequence[tuple]) -> Shape:
    """Write convolutions with ReLU as (out, kernel, stride, padding, groups); max pools as (kernel, stride)."""
    for number, layer in enumerate(layers, start=1):
        if len(layer) == 2:
            x = t.pool(x, layer[0], layer[1], kind="max", name=f"pool{number}")
        elif layer == LRN:
            x = t.norm(x, "lrn", name=f"lrn{number}")
        else:
            out, kernel, stride, padding, groups = layer
            x = t.act(t.conv(x, out, kernel, stride, padding, groups, name=f"conv{number}"), "relu")
    return x


def _fully_connected(t: Trace, x: Shape, widths: Sequence[int], classes: int, dropout: bool = True) -> Ops:
    x = t.flatten(x)
    for number, width in enumerate(widths, start=1):
        x = t.act(t.linear(x, width, name=f"fc{number}"), "relu")
        x = t.dropout(x) if dropout else x
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()


# Krizhevsky, Sutskever, Hinton, NIPS 2012 (two groups in layers 2, 4, 5), as in Caffe's bvlc_alexnet; "one_column":
# Krizhevsky, arXiv:1404.5997; "tf": tf_cnn_benchmarks' alexnet_model (VALID padding in layer 1, SAME after).
# Image; the first two convolutions; what follows each of them; channels and groups of the last three.
ALEXNET: dict[str, tuple] = {
    "grouped": (227, (96, 11, 4, 0, 1), (256, 5, 1, 2, 2), (LRN, POOL), (384, 384, 256), (1, 2, 2)),
    "ungrouped": (227, (96, 11, 4, 0, 1), (256, 5, 1, 2, 1), (LRN, POOL), (384, 384, 256), (1, 1, 1)),
    "pool_first": (227, (96, 11, 4, 0, 1), (256, 5, 1, 2, 2), (POOL, LRN), (384, 384, 256), (1, 2, 2)),
    "one_column": (224, (64, 11, 4, 2, 1), (192, 5, 1, 2, 1), (POOL,), (384, 256, 256), (1, 1, 1)),
    "tf": (224, (64, 11, 4, 0, 1), (192, 5, 1, 2, 1), (POOL,), (384, 384, 256), (1, 1, 1)),
}


def alexnet_layers(variant: str = "grouped") -> tuple[int, list[tuple]]:
    """Return the side of an image, and convolutions and pools as `_column` takes them."""
    size, first, second, between, widths, groups = variant_of(ALEXNET, variant, "variant")
    last = [(width, 3, 1, 1, group) for width, group in zip(widths, groups, strict=True)]
    return size, [first, *between, second, *between, *last, POOL]


def alexnet(variant: str = "grouped", image: int | None = None, classes: int = 1000) -> Ops:
    """Build AlexNet: grouped (2012), ungrouped, pool_first (CaffeNet), one_column (2014) or tf."""
    size, layers = alexnet_layers(variant)
    t = Trace()
    x = _column(t, t.image(3, image or size, image or size), layers)
    return _fully_connected(t, x, (4096, 4096), classes)


def overfeat(image: int = 231, classes: int = 1000) -> Ops:
    """Build OverFeat, fast model (Sermanet et al., arXiv:1312.6229, Table 1)."""
    t = Trace()
    layers = [
        (96, 11, 4, 0, 1),
        (2, 2),
        (256, 5, 1, 0, 1),
        (2, 2),
        (512, 3, 1, 1, 1),
        (1024, 3, 1, 1, 1),
        (1024, 3, 1, 1, 1),
        (2, 2),
    ]
    return _fully_connected(t, _column(t, t.image(3, image, image), layers), (3072, 4096), classes)


# Simonyan & Zisserman, arXiv:1409.1556, Table 1: convolutions of 64, 128, 256, 512, 512 channels.
VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
VGG_WIDTHS = (64, 128, 256, 512, 512)


def vgg(depth: int = 16, batch_norm: bool = False, image: int = 224, classes: int = 1000) -> Ops:
    """Build VGG of 11, 13, 16 or 19 layers, with or without batch norm."""
    t = Trace()
    x = vgg_features(t, t.image(3, image, image), depth, batch_norm)
    return _fully_connected(t, t.pool(x, 2, 2), (4096, 4096), classes)


def vgg_features(
    t: Trace, x: Shape, depth: int, batch_norm: bool = False, ceil: bool = False, stages: int = 5
) -> Shape:
    """Write the convolutions of the first `stages` stages of a VGG, without the pool that follows."""
    times_and_widths = list(zip(variant_of(VGG, depth, "depth"), VGG_WIDTHS, strict=True))
    for stage, (times, width) in enumerate(times_and_widths[:stages], start=1):
        x = t.pool(x, 2, 2, ceil=ceil, name=f"pool{stage - 1}") if stage > 1 else x
        for number in range(1, times + 1):
            x = t.conv(x, width, 3, padding=1, name=f"conv{stage}_{number}")
            x = t.act(t.norm(x, "batch") if batch_norm else x, "relu")
    return x


# Iandola et al., arXiv:1602.07360, Table 1 (squeeze, expand), and the authors' version 1.1; "pool" marks max pools.
_SQUEEZENET: dict[str, tuple[int, int, list]] = {
    "1.0": (
        96,
        7,
        [(16, 64), (16, 64), (32, 128), "pool", (32, 128), (48, 192), (48, 192), (64, 256), "pool", (64, 256)],
    ),
    "1.1": (
        64,
        3,
        [(16, 64), (16, 64), "pool", (32, 128), (32, 128), "pool", (48, 192), (48, 192), (64, 256), (64, 256)],
    ),
}


def squeezenet(version: str = "1.0", image: int = 224, classes: int = 1000) -> Ops:
    """Build SqueezeNet 1.0 or 1.1."""
    width, kernel, layers = variant_of(_SQUEEZENET, version, "version")
    t = Trace()
    x = t.act(t.conv(t.image(3, image, image), width, kernel, 2, name="conv1"), "relu")
    x = t.pool(x, 3, 2, ceil=True)
    for layer in layers:
        if layer == "pool":
            x = t.pool(x, 3, 2, ceil=True)
            continue
        squeeze, expand = layer
        x = t.act(t.conv(x, int(squeeze), 1, name="squeeze"), "relu")
        wide = [t.act(t.conv(x, int(expand), k, padding=k // 2, name=f"expand{k}x{k}"), "relu") for k in (1, 3)]
        x = t.concat(wide)
    x = t.act(t.conv(t.dropout(x), classes, 1, name="classifier"), "relu")
    t.loss(t.global_pool(x))
    return t.ops()


# Huang et al., arXiv:1608.06993, Table 1: (stem, growth, layers of the four blocks).
_DENSENET = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def densenet(depth: int = 121, image: int = 224, classes: int = 1000) -> Ops:
    """Build DenseNet-BC of 121, 161, 169 or 201 layers."""
    stem, growth, stages = variant_of(_DENSENET, depth, "depth")
    t = Trace()
    x = t.pool(conv_norm(t, t.image(3, image, image), stem, 7, 2, name="stem"), 3, 2, 1)
    for stage, times in enumerate(stages):
        if stage:
            x = t.act(t.norm(x, "batch"), "relu")
            x = t.pool(t.conv(x, int(x.channels) // 2, 1, bias=False, name=f"transition{stage}"), 2, 2, kind="average")
        for _ in range(times):
            with t.block(f"dense{stage + 1}"):
                y = conv_norm(t, t.act(t.norm(x, "batch"), "relu"), 4 * growth, 1)
                x = t.concat([x, t.conv(y, growth, 3, padding=1, bias=False)])
    return classify(t, t.act(t.norm(x, "batch"), "relu"), classes)


def darknet53(image: int = 256, classes: int = 1000) -> Ops:
    """Build DarkNet-53 (Redmon & Farhadi, YOLOv3, arXiv:1804.02767, Table 1)."""
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 32, 3, act="leaky", name="stem")
    for stage, (width, times) in enumerate(((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)), start=1):
        x = conv_norm(t, x, width, 3, 2, act="leaky", name=f"down{stage}")
        for _ in range(times):
            with t.block(f"stage{stage}"):
                y = conv_norm(t, x, width // 2, 1, act="leaky")
                x = t.add(x, conv_norm(t, y, width, 3, act="leaky"))
    return classify(t, x, classes)


def cspdarknet53(image: int = 256, classes: int = 1000) -> Ops:
    """Build CSPDarkNet-53 (Wang et al., arXiv:1911.11929; backbone of YOLOv4, arXiv:2004.10934)."""
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 32, 3, act="leaky", name="stem")
    for stage, (width, times) in enumerate(((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)), start=1):
        x = conv_norm(t, x, width, 3, 2, act="leaky", name=f"down{stage}")
        inner, half = (width, 64) if stage == 1 else (width, width // 2)
        both = conv_norm(t, x, 2 * half, 1, act="leaky", name=f"split{stage}")
        y = both.with_channels(half)
        for _ in range(times):
            with t.block(f"stage{stage}"):
                z = conv_norm(t, y, inner // 2 if stage == 1 else half, 1, act="leaky")
                y = t.add(y, conv_norm(t, z, half, 3, act="leaky"))
        y = conv_norm(t, y, half, 1, act="leaky", name=f"end{stage}")
        x = conv_norm(t, t.concat([y, both.with_channels(half)]), width, 1, act="leaky", name=f"merge{stage}")
    return classify(t, x, classes)


def perceptron(inputs: int, hidden: Sequence[int], classes: int) -> Ops:
    """Build fully connected ReLU layers and a classifier (DeepMNIST, SensorNet, acoustic models)."""
    t = Trace()
    return _fully_connected(t, t.vector(inputs), hidden, classes, dropout=False)


def text_cnn(
    length: int = 59, features: int = 128, kernels: Sequence[int] = (1, 3, 5), width: int = 128, classes: int = 10
) -> Ops:
    """Build a sentence classifier of convolutions of several widths (Kim, arXiv:1408.5882), on word vectors."""
    t = Trace()
    x = t.tokens(length, features)
    x = t.act(t.concat([t.conv(x, width, k, padding=k // 2, name=f"conv{k}") for k in kernels]), "relu")
    x = t.flatten(t.pool(x, length, kind="max"))
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()


Branch = tuple[Any, ...]


def _mixed(t: Trace, x: Shape, *branches: Branch, norm: bool = True) -> Shape:
    return t.concat([_steps(t, x, branch, norm) for branch in branches])


def _steps(t: Trace, x: Shape, steps: Branch, norm: bool = True) -> Shape:
    for step in steps:
        x = _step(t, x, step, norm)
    return x


def _step(t: Trace, x: Shape, step: Any, norm: bool) -> Shape:
    if step == "average":
        return t.pool(x, 3, 1, 1, "average")
    if step in ("max", "halve"):
        return t.pool(x, 3, 1, 1) if step == "max" else t.pool(x, 3, 2)
    if isinstance(step, list):
        return t.concat([_step(t, x, side, norm) for side in step])
    out, kernel, stride = step if len(step) == 3 else (*step, 0)
    kernels = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    padding = (0, 0) if stride else tuple(k // 2 for k in kernels)
    if norm:
        return conv_norm(t, x, out, kernels, stride or 1, padding)
    return t.act(t.conv(x, out, kernels, stride or 1, padding), "relu")


def _block(t: Trace, x: Shape, name: str, times: int, *branches: Branch, residual: int = 0, act: bool = True) -> Shape:
    """Write `times` equal blocks; `residual` projects the branches back to that width and adds them to the input."""
    for _ in range(times):
        with t.block(name):
            y = _mixed(t, x, *branches)
            if residual:
                y = t.add(x, t.conv(y, residual, 1, name="project"))
                y = t.act(y, "relu") if act else y
            x = y
    return x


# Szegedy et al., arXiv:1409.4842, Table 1: 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection.
_GOOGLENET = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)


def googlenet(batch_norm: bool = False, image: int = 224, classes: int = 1000) -> Ops:
    """Build GoogLeNet without auxiliary classifiers: as published, or torchvision's (batch norm, 3x3 in
    place of 5x5).
    """
    t = Trace()
    x = t.image(3, image, image)
    stem = conv_norm if batch_norm else _conv_relu
    x = t.pool(stem(t, x, 64, 7, 2, name="conv1"), 3, 2, ceil=True)
    x = x if batch_norm else t.norm(x, "lrn")
    x = stem(t, stem(t, x, 64, 1, name="conv2_reduce"), 192, 3, name="conv2")
    x = t.pool(x if batch_norm else t.norm(x, "lrn"), 3, 2, ceil=True)
    wide = 3 if batch_norm else 5
    for number, (one_by_one, three_in, three, five_in, five, pool) in enumerate(_GOOGLENET):
        if number in (2, 7):
            x = t.pool(x, 2 if batch_norm and number == 7 else 3, 2, ceil=True)
        with t.block(f"inception{number + 1}"):
            x = _mixed(
                t,
                x,
                ((one_by_one, 1),),
                ((three_in, 1), (three, 3)),
                ((five_in, 1), (five, wide)),
                ("max", (pool, 1)),
                norm=batch_norm,
            )
    return classify(t, x, classes, dropout=True)


def _conv_relu(t: Trace, x: Shape, out: int, kernel: int, stride: int = 1, name: str = "conv") -> Shape:
    return t.act(t.conv(x, out, kernel, stride, kernel // 2, name=name), "relu")


# Stem of Inception v3 and of Inception-ResNet v2; that of Inception v4 begins with the same three convolutions.
INCEPTION_STEM = ((32, 3, 2), (32, 3, 1), (64, 3), "halve", (80, 1), (192, 3, 1), "halve")


def inception_v3(image: int = 299, classes: int = 1000) -> Ops:
    """Build Inception v3 (Szegedy et al., arXiv:1512.00567, Table 1) without the auxiliary classifier."""
    t = Trace()
    x = _steps(t, t.image(3, image, image), INCEPTION_STEM)
    for pool in (32, 64, 64):
        x = _block(
            t, x, "mixed35", 1, ((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)), ("average", (pool, 1))
        )
    x = _mixed(t, x, ((384, 3, 2),), ((64, 1), (96, 3), (96, 3, 2)), ("halve",))
    for c in (128, 160, 160, 192):
        x = _block(
            t,
            x,
            "mixed17",
            1,
            ((192, 1),),
            ((c, 1), (c, (1, 7)), (192, (7, 1))),
            ((c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))),
            ("average", (192, 1)),
        )
    x = _mixed(t, x, ((192, 1), (320, 3, 2)), ((192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2)), ("halve",))
    split = [(384, (1, 3)), (384, (3, 1))]
    x = _block(t, x, "mixed8", 2, ((320, 1),), ((384, 1), split), ((448, 1), (384, 3), split), ("average", (192, 1)))
    return classify(t, x, classes, dropout=True)


def inception_v4(image: int = 299, classes: int = 1000) -> Ops:
    """Build Inception v4 (Szegedy et al., arXiv:1602.07261, Figures 3 to 9)."""
    t = Trace()
    x = _steps(t, t.image(3, image, image), INCEPTION_STEM[:3])
    x = _mixed(t, x, ("halve",), ((96, 3, 2),))
    x = _mixed(t, x, ((64, 1), (96, 3, 1)), ((64, 1), (64, (1, 7)), (64, (7, 1)), (96, 3, 1)))
    x = _mixed(t, x, ((192, 3, 2),), ("halve",))
    x = _block(t, x, "mixed35", 4, ((96, 1),), ((64, 1), (96, 3)), ((64, 1), (96, 3), (96, 3)), ("average", (96, 1)))
    x = _mixed(t, x, ((384, 3, 2),), ((192, 1), (224, 3), (256, 3, 2)), ("halve",))
    x = _block(
        t,
        x,
        "mixed17",
        7,
        ((384, 1),),
        ((192, 1), (224, (1, 7)), (256, (7, 1))),
        ((192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))),
        ("average", (128, 1)),
    )
    x = _mixed(t, x, ((192, 1), (192, 3, 2)), ((256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2)), ("halve",))
    split = [(256, (1, 3)), (256, (3, 1))]
    x = _block(
        t,
        x,
        "mixed8",
        3,
        ((256, 1),),
        ((384, 1), split),
        ((384, 1), (448, (3, 1)), (512, (1, 3)), split),
        ("average", (256, 1)),
    )
    return classify(t, x, classes)


def inception_resnet_v2(image: int = 299, classes: int = 1000) -> Ops:
    """Build Inception-ResNet v2 (Szegedy et al., arXiv:1602.07261, section 3.2, as the authors released it)."""
    t = Trace()
    x = _steps(t, t.image(3, image, image), INCEPTION_STEM)
    x = _mixed(t, x, ((96, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)), ("average", (64, 1)))
    x = _block(t, x, "block35", 10, ((32, 1),), ((32, 1), (32, 3)), ((32, 1), (48, 3), (64, 3)), residual=320)
    x = _mixed(t, x, ((384, 3, 2),), ((256, 1), (256, 3), (384, 3, 2)), ("halve",))
    x = _block(t, x, "block17", 20, ((192, 1),), ((128, 1), (160, (1, 7)), (192, (7, 1))), residual=1088)
    x = _mixed(t, x, ((256, 1), (384, 3, 2)), ((256, 1), (288, 3, 2)), ((256, 1), (288, 3), (320, 3, 2)), ("halve",))
    tail = ((192, 1),), ((192, 1), (224, (1, 3)), (256, (3, 1)))
    x = _block(t, x, "block8", 9, *tail, residual=2080)
    x = _block(t, x, "block8", 1, *tail, residual=2080, act=False)
    return classify(t, conv_norm(t, x, 1536, 1), classes)


# Chollet, arXiv:1610.02357, Figure 5: widths of the separable convolutions of each block; a block with stride 2 has
# a projected shortcut.
_XCEPTION = ((128, 128), (256, 256), (728, 728), *((728, 728, 728),) * 8, (728, 1024))


def xception(image: int = 299, classes: int = 1000) -> Ops:
    """Build Xception."""
    t = Trace()
    x = _steps(t, t.image(3, image, image), ((32, 3, 2), (64, 3, 1)))
    for number, widths in enumerate(_XCEPTION):
        down = len(widths) == 2
        with t.block(f"block{number + 1}"):
            y = x
            for place, width in enumerate(widths):
                y = t.act(y, "relu") if number or place else y
                y = t.norm(_separable(t, y, width), "batch")
            y = t.pool(y, 3, 2, 1) if down else y
            x = t.add(conv_norm(t, x, widths[-1], 1, 2, act="", name="shortcut") if down else x, y)
    for width in (1536, 2048):
        x = t.act(t.norm(_separable(t, x, width), "batch"), "relu")
    return classify(t, x, classes)


def _separable(t: Trace, x: Shape, out: int) -> Shape:
    x = t.conv(x, int(x.channels), 3, padding=1, groups=int(x.channels), bias=False, name="depthwise")
    return t.conv(x, out, 1, bias=False, name="pointwise")


# Chen et al., arXiv:1802.02611, Figure 4 (aligned Xception), with 8 middle blocks: widths and stride of each block.
_XCEPTION41 = (((128,) * 3, 2), ((256,) * 3, 2), ((728,) * 3, 2), *(((728,) * 3, 1),) * 8, ((728, 1024, 1024), 2))


def xception41(image: int = 299, classes: int = 1000) -> Ops:
    """Build aligned Xception of 41 layers: strided separable convolutions instead of pools."""
    t = Trace()
    x = conv_norm(t, conv_norm(t, t.image(3, image, image), 32, 3, 2), 64, 3)
    for number, (widths, stride) in enumerate(_XCEPTION41):
        with t.block(f"block{number + 1}"):
            y = x
            for place, width in enumerate(widths):
                inner, step = int(y.channels), stride if place == 2 else 1
                y = conv_norm(t, t.act(y, "relu"), inner, 3, step, groups=inner, act="")
                y = conv_norm(t, y, width, 1, act="")
            x = t.add(conv_norm(t, x, widths[-1], 1, stride, act="") if stride > 1 else x, y)
    for width in (1536, 1536, 2048):
        x = conv_norm(t, conv_norm(t, x, int(x.channels), 3, groups=int(x.channels)), width, 1)
    return classify(t, x, classes)


# ---- HRNet (Wang et al., arXiv:1908.07919, Table 1): 1, 4 and 3 modules of 2, 3 and 4 branches --------------------
def hrnet(width: int = 32, image: int = 224, classes: int = 1000) -> Ops:
    """Build HRNet as an image classifier: up to four resolutions side by side, mixed after every module."""
    t = Trace()
    x = conv_norm(t, conv_norm(t, t.image(3, image, image), 64, 3, 2, name="stem1"), 64, 3, 2, name="stem2")
    branches = [resnet_stage(t, x, 50, 0, 1, blocks=4)]
    for modules in (1, 4, 3):
        branches = _grow(t, branches, width)
        for _ in range(modules):
            branches = _hr_module(t, branches)
    return classify(t, _hr_head(t, branches), classes)


def _grow(t: Trace, branches: list[Shape], width: int) -> list[Shape]:
    """Write one more branch at half the coarsest resolution; the first time the finest changes its width too."""
    first = branches if branches[0].channels == width else [conv_norm(t, branches[0], width, 3, name="transition")]
    return [*first, conv_norm(t, branches[-1], width * 2 ** len(branches), 3, 2, name="transition.down")]


def _hr_module(t: Trace, branches: list[Shape]) -> list[Shape]:
    with t.block(f"branches{len(branches)}"):
        ends = []
        for x in branches:
            for _ in range(4):
                x = basic_block(t, x, int(x.channels))
            ends.append(x)
        return [t.act(t.add(*[_hr_exchange(t, x, y) for x in ends]), "relu") for y in ends]


def _hr_exchange(t: Trace, x: Shape, target: Shape) -> Shape:
    """Return `x` at the resolution and width of `target`."""
    out = int(target.channels)
    if x.channels == out:
        return x
    if x.channels > out:
        return t.sample(conv_norm(t, x, out, 1, act="", name="fuse.up"), target.with_channels(out), "upsample")
    for _ in range(_halvings(x, target) - 1):
        x = conv_norm(t, x, int(x.channels), 3, 2, name="fuse.down")
    return conv_norm(t, x, out, 3, 2, act="", name="fuse.down")


def _halvings(x: Shape, target: Shape) -> int:
    """Return the number of times `x` is halved to reach the width of `target`, which doubles with each halving."""
    return int(target.channels // x.channels).bit_length() - 1


def _hr_head(t: Trace, branches: list[Shape]) -> Shape:
    y = None
    for level, x in enumerate(branches):
        wide = bottleneck_block(t, x, 32 * 2**level, 128 * 2**level)
        if y is not None:
            down = t.conv(y, 128 * 2**level, 3, 2, 1, name="head.down")
            wide = t.add(wide, t.act(t.norm(down, "batch"), "relu"))
        y = wide
    assert y is not None
    return t.act(t.norm(t.conv(y, 2048, 1, name="head"), "batch"), "relu")


# ---- DPN (Chen et al., arXiv:1707.01629, Table 2) -----------------------------------------------------------------
_DPN92 = ((256, 3, 16), (512, 4, 32), (1024, 20, 24), (2048, 3, 128))


def dpn92(image: int = 224, classes: int = 1000) -> Ops:
    """Build DPN-92: every block adds to a residual path and appends to a dense path."""
    t = Trace()
    x = t.pool(conv_norm(t, t.image(3, image, image), 64, 7, 2, name="stem"), 3, 2, 1)
    for stage, (residual, times, step) in enumerate(_DPN92):
        for number in range(times):
            with t.block(f"stage{stage + 1}"):
                x = _dual_path(t, x, 96 * 2**stage, residual, step, 2 if stage and not number else 1, not number)
    x = t.act(t.norm(x, "batch"), "elu")
    return classify(t, x, classes)


def _dual_path(t: Trace, x: Shape, inner: int, residual: int, step: int, stride: int, project: bool) -> Shape:
    carried = _norm_conv(t, x, residual + 2 * step, 1, stride) if project else x
    y = _norm_conv(t, _norm_conv(t, x, inner, 1), inner, 3, stride, 32)
    y = _norm_conv(t, y, residual + step, 1)
    total = t.add(carried.with_channels(residual), y.with_channels(residual))
    return t.concat([total, carried.with_channels(carried.channels - residual), y.with_channels(step)])


def _norm_conv(t: Trace, x: Shape, out: int, kernel: int, stride: int = 1, groups: int = 1) -> Shape:
    x = t.act(t.norm(x, "batch"), "relu")
    return t.conv(x, out, kernel, stride, kernel // 2, groups, bias=False)
