"""Image classifiers of inverted residuals and attention in one network: CoAtNet and MaxViT.

In CoAtNet two stages of convolutions come before two of attention over all positions; a block of MaxViT has one
convolution, then attention inside windows, then attention among positions that are a window apart.
"""

from __future__ import annotations

from cookbook.workloads.layers import Shape, Trace, mlp, squeeze_excite, variant_of
from cookbook.workloads.ops import Ops

# Width of the stem and of the four stages; blocks of the stages. Dai et al., arXiv:2106.04803, Table 3, and Tu et al.,
# arXiv:2204.01697, Table 1, in the form of pytorch-image-models.
_WIDTHS = {
    "64": (64, 64, 128, 256, 512),
    "96": (64, 96, 192, 384, 768),
    "128": (128, 128, 256, 512, 1024),
    "192": (192, 192, 384, 768, 1536),
}
_COATNET = {
    "0": ("96", (2, 3, 5, 2)),
    "1": ("96", (2, 6, 14, 2)),
    "2": ("128", (2, 6, 14, 2)),
    "3": ("192", (2, 6, 14, 2)),
    "4": ("192", (2, 12, 28, 2)),
}
_MAXVIT = {
    "tiny": ("64", (2, 2, 5, 2)),
    "small": ("96", (2, 2, 5, 2)),
    "base": ("96", (2, 6, 14, 2)),
    "large": ("128", (2, 6, 14, 2)),
}
_HEAD = 32  # channels of a head of attention


def coatnet(size: str = "0", image: int = 224, classes: int = 1000) -> Ops:
    """Build CoAtNet 0 to 4."""
    widths, depths = variant_of(_COATNET, size, "size")
    t = Trace()
    x = _stem(t, image, _WIDTHS[widths][0], bias=False)
    for stage, (width, depth) in enumerate(zip(_WIDTHS[widths][1:], depths, strict=True)):
        for number in range(depth):
            with t.block(f"stage{stage + 1}"):
                block = _convolution if stage < 2 else _attention
                x = block(t, x, width, 1 if number else 2)
    return _classified(t, x, classes)


def maxvit(size: str = "tiny", image: int = 224, classes: int = 1000) -> Ops:
    """Build MaxViT tiny, small, base or large; windows and grids are a 32nd of the image's side."""
    widths, depths = variant_of(_MAXVIT, size, "size")
    t = Trace()
    x = _stem(t, image, _WIDTHS[widths][0], bias=True)
    for stage, (width, depth) in enumerate(zip(_WIDTHS[widths][1:], depths, strict=True)):
        for number in range(depth):
            with t.block(f"stage{stage + 1}"):
                x = _convolution(t, x, width, 1 if number else 2)
                for _ in ("block", "grid"):
                    y = _attended(t, t.norm(x, "layer"), width, image // 32)
                    x = _fed_forward(t, t.add(x, y))
    return _classified(t, x, classes)


def _stem(t: Trace, image: int, width: int, bias: bool) -> Shape:
    x = t.conv(t.image(3, image, image), width, 3, 2, 1, bias=bias, name="stem1")
    return t.conv(t.act(t.norm(x, "batch"), "gelu"), width, 3, 1, 1, bias=bias, name="stem2")


def _classified(t: Trace, x: Shape, classes: int) -> Ops:
    y = t.flatten(t.norm(t.global_pool(x), "layer"))
    y = t.act(t.linear(y, int(x.channels), name="features"), "tanh")
    t.loss(t.linear(y, classes, name="classifier"))
    return t.ops()


def _shortcut(t: Trace, x: Shape, out: int, stride: int) -> Shape:
    if stride > 1:
        x = t.pool(x, 2, 2, kind="average")
    return x if x.channels == out else t.conv(x, out, 1, name="shortcut")


def _convolution(t: Trace, x: Shape, out: int, stride: int) -> Shape:
    """Write an inverted residual with a norm before it, four times as wide inside as its output."""
    y = t.conv(t.norm(x, "batch"), 4 * out, 1, bias=False, name="expand")
    y = t.act(t.norm(y, "batch"), "gelu")
    y = t.conv(y, 4 * out, 3, stride, 1, groups=4 * out, bias=False, name="depthwise")
    y = squeeze_excite(t, t.act(t.norm(y, "batch"), "gelu"), out // 4, "silu")
    return t.add(_shortcut(t, x, out, stride), t.conv(y, out, 1, name="project"))


def _attention(t: Trace, x: Shape, out: int, stride: int) -> Shape:
    y = t.norm(x, "layer")
    y = t.pool(y, 2, 2, kind="average") if stride > 1 else y
    side = round(float(y.positions[0]) ** 0.5)
    return _fed_forward(t, t.add(_shortcut(t, x, out, stride), _attended(t, y, out, side)))


def _attended(t: Trace, x: Shape, out: int, side: int) -> Shape:
    """Write attention in windows of `side` x `side` positions, with a trained bias for each offset between two."""
    heads = out // _HEAD
    t.parameter((2 * side - 1) ** 2 * heads, "attention.relative_positions")
    q = t.linear(x, out, name="attention.q")
    for name in ("k", "v"):
        t.linear(x, out, name=f"attention.{name}")
    y = t.attention(q, heads, window=side * side, flash=False, name="attention.core")
    return t.linear(y, out, name="attention.out")


def _fed_forward(t: Trace, x: Shape) -> Shape:
    return t.add(x, mlp(t, t.norm(x, "layer"), 4 * int(x.channels)))
