"""Networks of parallel branches: GoogLeNet, Inception v3 and v4, Inception-ResNet v2, Xception.

A branch is written as its steps: (out, kernel) keeps the size, (out, kernel, stride) pads nothing, "average" pools
3x3 at stride 1, "max" at stride 1 and "halve" (max) at stride 2 without padding; a list of steps inside a branch
runs side by side.
"""

from __future__ import annotations

from typing import Any

from .conv_blocks import classify, conv_norm
from .layers import Trace
from .ops import Ops
from .shapes import Shape

Branch = tuple[Any, ...]


def _mixed(t: Trace, x: Shape, *branches: Branch, norm: bool = True) -> Shape:
    ends = []
    for branch in branches:
        y = x
        for step in branch:
            y = _step(t, y, step, norm)
        ends.append(y)
    return t.concat(ends)


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


def _block(t: Trace, x: Shape, name: str, times: int, *branches: Branch, residual: int = 0,
           act: bool = True) -> Shape:  # fmt: skip
    """`times` equal blocks; `residual` projects the branches back to that many channels and adds them to the input."""
    for _ in range(times):
        with t.block(name):
            y = _mixed(t, x, *branches)
            if residual:
                y = t.add(x, t.conv(y, residual, 1, name="project"))
                y = t.act(y, "relu") if act else y
            x = y
    return x


# Szegedy et al., arXiv:1409.4842, Table 1: 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection.
_GOOGLENET = ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64),
              (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
              (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128),
              (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128))  # fmt: skip


def googlenet(batch_norm: bool = False, image: int = 224, classes: int = 1000) -> Ops:
    """GoogLeNet without auxiliary classifiers: as published, or torchvision's (batch norm, 3x3 in place of 5x5)."""
    t = Trace()
    x = t.image(3, image, image)
    stem = conv_norm if batch_norm else _conv_relu
    x = t.pool(stem(t, x, 64, 7, 2, name="conv1"), 3, 2, ceil=True)
    x = x if batch_norm else t.norm(x, "lrn")
    x = stem(t, stem(t, x, 64, 1, name="conv2_reduce"), 192, 3, name="conv2")
    x = t.pool(x if batch_norm else t.norm(x, "lrn"), 3, 2, ceil=True)
    wide = 3 if batch_norm else 5
    for number, (one, three_in, three, five_in, five, pool) in enumerate(_GOOGLENET):
        if number in (2, 7):
            x = t.pool(x, 2 if batch_norm and number == 7 else 3, 2, ceil=True)
        with t.block(f"inception{number + 1}"):
            x = _mixed(t, x, ((one, 1),), ((three_in, 1), (three, 3)), ((five_in, 1), (five, wide)), ("max", (pool, 1)),
                       norm=batch_norm)  # fmt: skip
    classify(t, x, classes, dropout=True)
    return t.ops()


def _conv_relu(t: Trace, x: Shape, out: int, kernel: int, stride: int = 1, name: str = "conv") -> Shape:
    return t.act(t.conv(x, out, kernel, stride, kernel // 2, name=name), "relu")


def inception_v3(image: int = 299, classes: int = 1000) -> Ops:
    """Inception v3 (Szegedy et al., arXiv:1512.00567, Table 1) without the auxiliary classifier."""
    t = Trace()
    x = t.image(3, image, image)
    for step in ((32, 3, 2), (32, 3, 1), (64, 3), "halve", (80, 1), (192, 3, 1), "halve"):
        x = _step(t, x, step, True)
    for pool in (32, 64, 64):
        x = _block(t, x, "mixed35", 1, ((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)),
                   ("average", (pool, 1)))  # fmt: skip
    x = _mixed(t, x, ((384, 3, 2),), ((64, 1), (96, 3), (96, 3, 2)), ("halve",))
    for c in (128, 160, 160, 192):
        x = _block(t, x, "mixed17", 1, ((192, 1),), ((c, 1), (c, (1, 7)), (192, (7, 1))),
                   ((c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))), ("average", (192, 1)))  # fmt: skip
    x = _mixed(t, x, ((192, 1), (320, 3, 2)), ((192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2)), ("halve",))
    split = [(384, (1, 3)), (384, (3, 1))]
    x = _block(t, x, "mixed8", 2, ((320, 1),), ((384, 1), split), ((448, 1), (384, 3), split), ("average", (192, 1)))
    classify(t, x, classes, dropout=True)
    return t.ops()


def inception_v4(image: int = 299, classes: int = 1000) -> Ops:
    """Inception v4 (Szegedy et al., arXiv:1602.07261, Figures 3 to 9)."""
    t = Trace()
    x = t.image(3, image, image)
    for step in ((32, 3, 2), (32, 3, 1), (64, 3)):
        x = _step(t, x, step, True)
    x = _mixed(t, x, ("halve",), ((96, 3, 2),))
    x = _mixed(t, x, ((64, 1), (96, 3, 1)), ((64, 1), (64, (1, 7)), (64, (7, 1)), (96, 3, 1)))
    x = _mixed(t, x, ((192, 3, 2),), ("halve",))
    x = _block(t, x, "mixed35", 4, ((96, 1),), ((64, 1), (96, 3)), ((64, 1), (96, 3), (96, 3)), ("average", (96, 1)))
    x = _mixed(t, x, ((384, 3, 2),), ((192, 1), (224, 3), (256, 3, 2)), ("halve",))
    x = _block(t, x, "mixed17", 7, ((384, 1),), ((192, 1), (224, (1, 7)), (256, (7, 1))),
               ((192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))),
               ("average", (128, 1)))  # fmt: skip
    x = _mixed(t, x, ((192, 1), (192, 3, 2)), ((256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2)), ("halve",))
    split = [(256, (1, 3)), (256, (3, 1))]
    x = _block(t, x, "mixed8", 3, ((256, 1),), ((384, 1), split), ((384, 1), (448, (3, 1)), (512, (1, 3)), split),
               ("average", (256, 1)))  # fmt: skip
    classify(t, x, classes)
    return t.ops()


def inception_resnet_v2(image: int = 299, classes: int = 1000) -> Ops:
    """Inception-ResNet v2 (Szegedy et al., arXiv:1602.07261, section 3.2, as the authors released it)."""
    t = Trace()
    x = t.image(3, image, image)
    for step in ((32, 3, 2), (32, 3, 1), (64, 3), "halve", (80, 1), (192, 3, 1), "halve"):
        x = _step(t, x, step, True)
    x = _mixed(t, x, ((96, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)), ("average", (64, 1)))
    x = _block(t, x, "block35", 10, ((32, 1),), ((32, 1), (32, 3)), ((32, 1), (48, 3), (64, 3)), residual=320)
    x = _mixed(t, x, ((384, 3, 2),), ((256, 1), (256, 3), (384, 3, 2)), ("halve",))
    x = _block(t, x, "block17", 20, ((192, 1),), ((128, 1), (160, (1, 7)), (192, (7, 1))), residual=1088)
    x = _mixed(t, x, ((256, 1), (384, 3, 2)), ((256, 1), (288, 3, 2)), ((256, 1), (288, 3), (320, 3, 2)), ("halve",))
    tail = ((192, 1),), ((192, 1), (224, (1, 3)), (256, (3, 1)))
    x = _block(t, x, "block8", 9, *tail, residual=2080)
    x = _block(t, x, "block8", 1, *tail, residual=2080, act=False)
    classify(t, conv_norm(t, x, 1536, 1), classes)
    return t.ops()


# Chollet, arXiv:1610.02357, Figure 5: widths of the separable convolutions of each block; a block with stride 2 has
# a projected shortcut.
_XCEPTION = ((128, 128), (256, 256), (728, 728), *((728, 728, 728),) * 8, (728, 1024))


def xception(image: int = 299, classes: int = 1000) -> Ops:
    """Xception."""
    t = Trace()
    x = _step(t, _step(t, t.image(3, image, image), (32, 3, 2), True), (64, 3, 1), True)
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
    classify(t, x, classes)
    return t.ops()


def _separable(t: Trace, x: Shape, out: int) -> Shape:
    x = t.conv(x, int(x.channels), 3, padding=1, groups=int(x.channels), bias=False, name="depthwise")
    return t.conv(x, out, 1, bias=False, name="pointwise")


# Chen et al., arXiv:1802.02611, Figure 4 (aligned Xception), with 8 middle blocks: widths and stride of each block.
_XCEPTION41 = (((128,) * 3, 2), ((256,) * 3, 2), ((728,) * 3, 2), *(((728,) * 3, 1),) * 8, ((728, 1024, 1024), 2))


def xception41(image: int = 299, classes: int = 1000) -> Ops:
    """Aligned Xception of 41 layers: strided separable convolutions instead of pools."""
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
    classify(t, x, classes)
    return t.ops()
