"""Classifiers that carry several streams: HRNet (resolutions) and DPN (a residual and a dense path)."""

from __future__ import annotations

from .conv_blocks import classify, conv_norm
from .layers import Trace
from .ops import Ops
from .resnets import basic_block, bottleneck_block, resnet_stage
from .shapes import Shape


# ---- HRNet (Wang et al., arXiv:1908.07919, Table 1): 1, 4 and 3 modules of 2, 3 and 4 branches --------------------
def hrnet(width: int = 32, image: int = 224, classes: int = 1000) -> Ops:
    """HRNet as an image classifier: up to four resolutions side by side, mixed after every module."""
    t = Trace()
    x = conv_norm(t, conv_norm(t, t.image(3, image, image), 64, 3, 2, name="stem1"), 64, 3, 2, name="stem2")
    branches = [resnet_stage(t, x, 50, 0, 1, blocks=4)]
    for modules in (1, 4, 3):
        branches = _grow(t, branches, width)
        for _ in range(modules):
            branches = _hr_module(t, branches)
    classify(t, _hr_head(t, branches), classes)
    return t.ops()


def _grow(t: Trace, branches: list[Shape], width: int) -> list[Shape]:
    """One more branch at half the coarsest resolution; the first time the finest changes its width too."""
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
    """`x` at the resolution and width of `target`."""
    out = int(target.channels)
    if x.channels == out:
        return x
    if x.channels > out:
        return t.sample(conv_norm(t, x, out, 1, act="", name="fuse.up"), target.with_channels(out), "upsample")
    for _ in range(_halvings(x, target) - 1):
        x = conv_norm(t, x, int(x.channels), 3, 2, name="fuse.down")
    return conv_norm(t, x, out, 3, 2, act="", name="fuse.down")


def _halvings(x: Shape, target: Shape) -> int:
    """How often `x` must be halved to reach the width of `target`, which doubles with each halving."""
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
    """DPN-92: every block adds to a residual path and appends to a dense path."""
    t = Trace()
    x = t.pool(conv_norm(t, t.image(3, image, image), 64, 7, 2, name="stem"), 3, 2, 1)
    for stage, (residual, times, step) in enumerate(_DPN92):
        for number in range(times):
            with t.block(f"stage{stage + 1}"):
                x = _dual_path(t, x, 96 * 2**stage, residual, step, 2 if stage and not number else 1, not number)
    x = t.act(t.norm(x, "batch"), "elu")
    classify(t, x, classes)
    return t.ops()


def _dual_path(t: Trace, x: Shape, inner: int, residual: int, step: int, stride: int, project: bool) -> Shape:
    carried = _norm_conv(t, x, residual + 2 * step, 1, stride) if project else x
    y = _norm_conv(t, _norm_conv(t, x, inner, 1), inner, 3, stride, 32)
    y = _norm_conv(t, y, residual + step, 1)
    total = t.add(carried.with_channels(residual), y.with_channels(residual))
    return t.concat([total, carried.with_channels(carried.channels - residual), y.with_channels(step)])


def _norm_conv(t: Trace, x: Shape, out: int, kernel: int, stride: int = 1, groups: int = 1) -> Shape:
    x = t.act(t.norm(x, "batch"), "relu")
    return t.conv(x, out, kernel, stride, kernel // 2, groups, bias=False)
