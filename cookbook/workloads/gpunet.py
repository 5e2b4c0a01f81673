"""GPUNet: convolutional networks found by search for delay on GPUs (Wang et al., arXiv:2205.00841)."""

from __future__ import annotations

from .conv_blocks import classify, conv_norm, divisible, squeeze_excite, variant_of
from .convnets_mobile import inverted_residual
from .layers import Trace
from .ops import Ops
from .shapes import Shape

# NVIDIA/DeepLearningExamples, PyTorch/Classification/GPUNet/configs/batch1/GV100: image, stem, plain convolutions, then
# stages of (fused, blocks, channels, stride of the first, expansion, kernel, activation, squeeze-and-excite).
_GPUNET = {
    "0": (320, 32, 2, ((1, 2, 32, 2, 5, 3, "relu", 0), (1, 3, 64, 2, 5, 3, "relu", 0), (0, 3, 256, 2, 5, 3, "silu", 0),
                       (0, 2, 704, 2, 5, 3, "relu", 1))),
    "1": (288, 24, 1, ((1, 2, 64, 2, 4, 3, "silu", 0), (1, 2, 96, 2, 4, 3, "silu", 0), (0, 1, 160, 2, 2, 3, "silu", 1),
                       (0, 4, 288, 1, 5, 3, "relu", 0), (0, 4, 448, 2, 4, 3, "relu", 1))),
    "2": (384, 32, 3, ((1, 1, 32, 2, 6, 5, "silu", 1), (1, 3, 112, 2, 3, 3, "silu", 0), (0, 6, 144, 2, 6, 3, "silu", 0),
                       (0, 4, 160, 1, 3, 5, "relu", 0), (0, 8, 224, 2, 3, 3, "silu", 1),
                       (0, 7, 832, 1, 2, 5, "relu", 0))),
}  # fmt: skip
# The same folder, 1.25ms-D.json (distilled): channels, stride, expansion, kernel of each block.
_GPUNET_D1 = ((33, 1, 1, 3), (44, 2, 3, 3), (44, 1, 4, 5), (44, 1, 3, 3), (67, 2, 4, 5), (67, 1, 4, 5), (67, 1, 6, 3),
              (67, 1, 3, 5), (134, 2, 6, 7), (134, 1, 6, 5), (134, 1, 3, 3), (134, 1, 4, 5), (190, 1, 6, 3),
              (190, 1, 6, 5), (190, 1, 6, 7), (190, 1, 4, 3), (268, 2, 6, 3), (268, 1, 6, 3), (268, 1, 6, 5),
              (268, 1, 3, 3), (268, 1, 3, 3), (268, 1, 3, 3))  # fmt: skip


def gpunet(variant: str = "0", image: int | None = None, classes: int = 1000) -> Ops:
    """GPUNet-0, 1 or 2: fused inverted residuals, then inverted residuals."""
    side, stem, convolutions, stages = variant_of(_GPUNET, variant, "variant")
    t = Trace()
    x = conv_norm(t, t.image(3, image or side, image or side), stem, 3, 2, act="silu", name="stem")
    for _ in range(convolutions):
        x = conv_norm(t, x, stem, 3)
    for fused, times, out, stride, expansion, kernel, act, squeeze in stages:
        for number in range(times):
            with t.block(f"stage{out}"):
                x = _residual(t, x, bool(fused), out, 1 if number else stride, expansion, kernel, act, bool(squeeze))
    classify(t, conv_norm(t, x, 1280, 1, name="head"), classes, dropout=True)
    return t.ops()


def _residual(t: Trace, x: Shape, fused: bool, out: int, stride: int, expansion: int, kernel: int, act: str,
              squeeze: bool) -> Shape:  # fmt: skip
    hidden = divisible(int(x.channels) * expansion)
    # A quarter of the block's input channels, as the source divides a quarter by the expansion.
    narrow = round(hidden * 0.25 / expansion) if squeeze else 0
    if not fused:
        return inverted_residual(t, x, hidden, out, kernel, stride, act, narrow, squeeze_act=act)
    y = conv_norm(t, x, hidden, kernel, stride, act=act, name="fused")
    y = squeeze_excite(t, y, narrow, act) if narrow else y
    y = conv_norm(t, y, out, 1, act="", name="project")
    return t.add(x, y) if stride == 1 and x.channels == out else y


def gpunet_d1(image: int = 456, classes: int = 1000) -> Ops:
    """GPUNet-D1, trained by distillation; its first block projects to as many channels as it expands from."""
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
