"""Plain convolutional networks: AlexNet, OverFeat, VGG, SqueezeNet, DenseNet, DarkNet; and small nets of one column.

Each function builds one family; layer widths stand beside the citation they come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from .conv_blocks import classify, conv_norm, variant_of
from .layers import Trace
from .ops import Ops
from .shapes import Shape


def _column(t: Trace, x: Shape, layers: Sequence[tuple]) -> Shape:
    """Convolutions with ReLU as (out, kernel, stride, padding, groups); max pools as (kernel, stride)."""
    for number, layer in enumerate(layers, start=1):
        if len(layer) == 2:
            x = t.pool(x, layer[0], layer[1], kind="max", name=f"pool{number}")
        elif layer == ("lrn",):
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
_ALEXNET: dict[str, tuple[int, list[tuple]]] = {
    "grouped": (227, [(96, 11, 4, 0, 1), ("lrn",), (3, 2), (256, 5, 1, 2, 2), ("lrn",), (3, 2), (384, 3, 1, 1, 1),
                      (384, 3, 1, 1, 2), (256, 3, 1, 1, 2), (3, 2)]),
    "ungrouped": (227, [(96, 11, 4, 0, 1), ("lrn",), (3, 2), (256, 5, 1, 2, 1), ("lrn",), (3, 2), (384, 3, 1, 1, 1),
                        (384, 3, 1, 1, 1), (256, 3, 1, 1, 1), (3, 2)]),
    "pool_first": (227, [(96, 11, 4, 0, 1), (3, 2), ("lrn",), (256, 5, 1, 2, 2), (3, 2), ("lrn",), (384, 3, 1, 1, 1),
                         (384, 3, 1, 1, 2), (256, 3, 1, 1, 2), (3, 2)]),
    "one_column": (224, [(64, 11, 4, 2, 1), (3, 2), (192, 5, 1, 2, 1), (3, 2), (384, 3, 1, 1, 1), (256, 3, 1, 1, 1),
                         (256, 3, 1, 1, 1), (3, 2)]),
    "tf": (224, [(64, 11, 4, 0, 1), (3, 2), (192, 5, 1, 2, 1), (3, 2), (384, 3, 1, 1, 1), (384, 3, 1, 1, 1),
                 (256, 3, 1, 1, 1), (3, 2)]),
}  # fmt: skip


def alexnet(variant: str = "grouped", image: int | None = None, classes: int = 1000) -> Ops:
    """AlexNet: grouped (2012), ungrouped, pool_first (CaffeNet), one_column (2014) or tf."""
    size, layers = variant_of(_ALEXNET, variant, "variant")
    t = Trace()
    x = _column(t, t.image(3, image or size, image or size), layers)
    return _fully_connected(t, x, (4096, 4096), classes)


def overfeat(image: int = 231, classes: int = 1000) -> Ops:
    """OverFeat, fast model (Sermanet et al., arXiv:1312.6229, Table 1)."""
    t = Trace()
    layers = [(96, 11, 4, 0, 1), (2, 2), (256, 5, 1, 0, 1), (2, 2), (512, 3, 1, 1, 1), (1024, 3, 1, 1, 1),
              (1024, 3, 1, 1, 1), (2, 2)]  # fmt: skip
    return _fully_connected(t, _column(t, t.image(3, image, image), layers), (3072, 4096), classes)


# Simonyan & Zisserman, arXiv:1409.1556, Table 1: convolutions of 64, 128, 256, 512, 512 channels.
_VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_VGG_WIDTHS = (64, 128, 256, 512, 512)


def vgg(depth: int = 16, batch_norm: bool = False, image: int = 224, classes: int = 1000) -> Ops:
    """VGG of 11, 13, 16 or 19 layers, with or without batch norm."""
    t = Trace()
    x = vgg_features(t, t.image(3, image, image), depth, batch_norm)
    return _fully_connected(t, t.pool(x, 2, 2), (4096, 4096), classes)


def vgg_features(t: Trace, x: Shape, depth: int, batch_norm: bool = False, ceil: bool = False,
                 stages: int = 5) -> Shape:  # fmt: skip
    """Convolutions of the first `stages` stages of a VGG, without the pool that follows."""
    times_and_widths = list(zip(variant_of(_VGG, depth, "depth"), _VGG_WIDTHS, strict=True))
    for stage, (times, width) in enumerate(times_and_widths[:stages], start=1):
        x = t.pool(x, 2, 2, ceil=ceil, name=f"pool{stage - 1}") if stage > 1 else x
        for number in range(1, times + 1):
            x = t.conv(x, width, 3, padding=1, name=f"conv{stage}_{number}")
            x = t.act(t.norm(x, "batch") if batch_norm else x, "relu")
    return x


# Iandola et al., arXiv:1602.07360, Table 1 (squeeze, expand), and the authors' version 1.1; "pool" marks max pools.
_SQUEEZENET: dict[str, tuple[int, int, list]] = {
    "1.0": (96, 7, [(16, 64), (16, 64), (32, 128), "pool", (32, 128), (48, 192), (48, 192), (64, 256), "pool",
                    (64, 256)]),
    "1.1": (64, 3, [(16, 64), (16, 64), "pool", (32, 128), (32, 128), "pool", (48, 192), (48, 192), (64, 256),
                    (64, 256)]),
}  # fmt: skip


def squeezenet(version: str = "1.0", image: int = 224, classes: int = 1000) -> Ops:
    """SqueezeNet 1.0 or 1.1."""
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
_DENSENET = {121: (64, 32, (6, 12, 24, 16)), 161: (96, 48, (6, 12, 36, 24)), 169: (64, 32, (6, 12, 32, 32)),
             201: (64, 32, (6, 12, 48, 32))}  # fmt: skip


def densenet(depth: int = 121, image: int = 224, classes: int = 1000) -> Ops:
    """DenseNet-BC of 121, 161, 169 or 201 layers."""
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
    classify(t, t.act(t.norm(x, "batch"), "relu"), classes)
    return t.ops()


def darknet53(image: int = 256, classes: int = 1000) -> Ops:
    """DarkNet-53 (Redmon & Farhadi, YOLOv3, arXiv:1804.02767, Table 1)."""
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 32, 3, act="leaky", name="stem")
    for stage, (width, times) in enumerate(((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)), start=1):
        x = conv_norm(t, x, width, 3, 2, act="leaky", name=f"down{stage}")
        for _ in range(times):
            with t.block(f"stage{stage}"):
                y = conv_norm(t, x, width // 2, 1, act="leaky")
                x = t.add(x, conv_norm(t, y, width, 3, act="leaky"))
    classify(t, x, classes)
    return t.ops()


def cspdarknet53(image: int = 256, classes: int = 1000) -> Ops:
    """CSPDarkNet-53 (Wang et al., arXiv:1911.11929; backbone of YOLOv4, arXiv:2004.10934)."""
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
    classify(t, x, classes)
    return t.ops()


def perceptron(inputs: int, hidden: Sequence[int], classes: int) -> Ops:
    """Fully connected ReLU layers and a classifier (DeepMNIST, SensorNet, acoustic models)."""
    t = Trace()
    return _fully_connected(t, t.vector(inputs), hidden, classes, dropout=False)


def text_cnn(length: int = 59, features: int = 128, kernels: Sequence[int] = (1, 3, 5), width: int = 128,
             classes: int = 10) -> Ops:  # fmt: skip
    """Sentence classification by convolutions of several widths (Kim, arXiv:1408.5882), on word vectors."""
    t = Trace()
    x = t.tokens(length, features)
    x = t.act(t.concat([t.conv(x, width, k, padding=k // 2, name=f"conv{k}") for k in kernels]), "relu")
    x = t.flatten(t.pool(x, length, kind="max"))
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()
