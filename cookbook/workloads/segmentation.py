"""Networks that label every pixel or voxel: U-Net, 3-D U-Net, nnU-Net, V-Net, FCN, DeepLab v3."""

from __future__ import annotations

from collections.abc import Sequence

from cookbook.workloads.blocks import conv_norm
from cookbook.workloads.convnets_mobile import mobilenet_v3_features
from cookbook.workloads.layers import Shape, Trace
from cookbook.workloads.ops import Ops
from cookbook.workloads.resnets import resnet_stage, resnet_stem


# ---- encoder-decoder with skips ----------------------------------------------------------------------------------
def unet(image: int | Sequence[int] = 572, channels: int = 1, classes: int = 2,
         widths: Sequence[int] = (64, 128, 256, 512, 1024), padded: bool = False, norm: str = "",
         bias: bool = True) -> Ops:  # fmt: skip
    """U-Net of 1, 2 or 3 axes (Ronneberger et al., arXiv:1505.04597, Figure 1; Cicek et al., arXiv:1606.06650).

    Parameters
    ----------
    image : int or sequence
        Pixels along each axis; one number means two equal axes.
    widths : sequence of int
        Channels of the levels, from the finest to the coarsest.
    padded : bool
        Whether convolutions keep the size; the paper's lose two pixels.
    norm : str
        Norm after each convolution ("batch", "instance"), none if empty.
    """
    t = Trace()
    x, skips = t.image(channels, *((image, image) if isinstance(image, int) else image)), []
    for level, width in enumerate(widths):
        x = t.pool(x, 2, 2) if level else x
        x = _double_conv(t, x, width, f"down{level}", padded, norm, bias)
        skips.append(x)
    for level in range(len(widths) - 2, -1, -1):
        x = t.conv(x, widths[level], 2, 2, transposed=True, name=f"up{level}")
        skip = skips[level] if padded else x.with_channels(widths[level])  # cropped to the size that came up
        x = _double_conv(t, t.concat([x, skip]), widths[level], f"merge{level}", padded, norm, bias)
    t.loss(t.conv(x, classes, 1, name="out"))
    return t.ops()


def _double_conv(t: Trace, x: Shape, out: int, name: str, padded: bool, norm: str, bias: bool) -> Shape:
    for number in (1, 2):
        x = t.conv(x, out, 3, padding=int(padded), bias=bias, name=f"{name}.conv{number}")
        x = t.act(t.norm(x, norm) if norm else x, "relu")
    return x


def nnunet(image: Sequence[int] = (128, 128, 128), channels: int = 4, classes: int = 4,
           widths: Sequence[int] = (32, 64, 128, 256, 320, 320), deep_supervision: int = 0, bias: bool = False,
           up_bias: bool = False, act: str = "leaky") -> Ops:  # fmt: skip
    """nnU-Net (Isensee et al., arXiv:1809.10486): strided convolutions, instance norm; 2-D or 3-D by the image.

    `deep_supervision` is the number of coarser outputs beside the finest.
    """
    t = Trace()
    x, skips = t.image(channels, *image), []
    for level, width in enumerate(widths):
        x = _instance_conv(t, x, width, 2 if level else 1, bias, act)
        x = _instance_conv(t, x, width, 1, bias, act)
        skips.append(x)
    for level in range(len(widths) - 2, -1, -1):
        x = t.conv(x, widths[level], 2, 2, bias=up_bias, transposed=True, name=f"up{level}")
        x = t.concat([x, skips[level]])
        for _ in (1, 2):
            x = _instance_conv(t, x, widths[level], 1, bias, act)
        if level == 0 or level <= deep_supervision:
            t.loss(t.conv(x, classes, 1, name=f"out{level}"))
    return t.ops()


def _instance_conv(t: Trace, x: Shape, out: int, stride: int, bias: bool, act: str) -> Shape:
    return t.act(t.norm(t.conv(x, out, 3, stride, 1, bias=bias), "instance"), act)


def vnet(image: Sequence[int] = (64, 128, 128), channels: int = 1, classes: int = 2) -> Ops:
    """V-Net (Milletari et al., arXiv:1606.04797, Figure 2): residual stages of 5x5x5 convolutions."""
    t = Trace()
    x, skips = t.image(channels, *image), []
    for level, times in enumerate((1, 2, 3, 3, 3)):
        width = 16 * 2**level
        x = t.act(t.norm(t.conv(x, width, 2, 2, name=f"down{level}"), "batch"), "prelu") if level else x
        x = _vnet_stage(t, x, x, width, times)
        skips.append(x)
    for level, times in ((3, 3), (2, 3), (1, 2), (0, 1)):
        skip = skips[level]
        width = 2 * int(skip.channels)
        up = t.act(t.norm(t.conv(x, width // 2, 2, 2, transposed=True, name=f"up{level}"), "batch"), "prelu")
        x = t.concat([up, skip])
        x = _vnet_stage(t, x, x, width, times)
    t.loss(t.conv(x, classes, 1, name="out"))
    return t.ops()


def _vnet_stage(t: Trace, x: Shape, shortcut: Shape, width: int, times: int) -> Shape:
    y = x
    for number in range(times):
        y = t.act(t.norm(t.conv(y, width, 5, padding=2, name=f"conv{number + 1}"), "batch"), "prelu")
    return t.add(y, shortcut.with_channels(width))


# ---- dilated ResNets ----------------------------------------------------------------------------------------------
def _dilated_resnet(t: Trace, image: int, depth: int) -> list[Shape]:
    """Outputs of the last two stages of a ResNet that keeps an eighth of the resolution."""
    x = resnet_stem(t, t.image(3, image, image))
    x = resnet_stage(t, resnet_stage(t, x, depth, 0, 1), depth, 1, 2)
    third = resnet_stage(t, x, depth, 2, 1, dilation=2, first_dilation=1)
    return [third, resnet_stage(t, third, depth, 3, 1, dilation=4, first_dilation=2)]


def _fcn_head(t: Trace, x: Shape, classes: int, name: str) -> Shape:
    y = conv_norm(t, x, int(x.channels) // 4, 3, name=name)
    return t.resize(t.conv(t.dropout(y), classes, 1, name=f"{name}.out"), 8)


def fcn(depth: int = 50, image: int = 520, classes: int = 21) -> Ops:
    """FCN on a dilated ResNet with an auxiliary head (Long et al., arXiv:1411.4038; torchvision's form)."""
    t = Trace()
    third, last = _dilated_resnet(t, image, depth)
    t.loss(_fcn_head(t, last, classes, "head"))
    t.loss(_fcn_head(t, third, classes, "auxiliary"))
    return t.ops()


def deeplabv3(depth: int = 50, image: int = 520, classes: int = 21) -> Ops:
    """DeepLab v3 on a dilated ResNet with an auxiliary head (Chen et al., arXiv:1706.05587)."""
    t = Trace()
    third, last = _dilated_resnet(t, image, depth)
    t.loss(_atrous_head(t, last, classes, 8))
    t.loss(_fcn_head(t, third, classes, "auxiliary"))
    return t.ops()


def _atrous_head(t: Trace, x: Shape, classes: int, up: int) -> Shape:
    branches = [conv_norm(t, x, 256, 1, name="aspp1")]
    branches += [conv_norm(t, x, 256, 3, dilation=rate, name=f"aspp{rate}") for rate in (12, 24, 36)]
    pooled = conv_norm(t, t.reshape(t.global_pool(x), x.channels, 1, 1), 256, 1, name="aspp.pool")
    branches.append(t.sample(pooled, branches[0].with_channels(256), "aspp.broadcast"))
    y = t.dropout(conv_norm(t, t.concat(branches), 256, 1, name="project"))
    return t.resize(t.conv(conv_norm(t, y, 256, 3, name="head"), classes, 1, name="out"), up)


def deeplabv3_mobilenet(image: int = 520, classes: int = 21) -> Ops:
    """DeepLab v3 on a dilated MobileNet v3 large with an auxiliary head (torchvision)."""
    t = Trace()
    tap, x = mobilenet_v3_features(t, t.image(3, image, image), "large", dilated=True, taps=(3,))
    x = conv_norm(t, x, 960, 1, act="hardswish", name="last")
    t.loss(_atrous_head(t, x, classes, 16))
    t.loss(_fcn_head(t, tap, classes, "auxiliary"))
    return t.ops()


def lraspp(image: int = 520, classes: int = 21) -> Ops:
    """LR-ASPP on a dilated MobileNet v3 large (Howard et al., arXiv:1905.02244, section 6.4)."""
    t = Trace()
    low, x = mobilenet_v3_features(t, t.image(3, image, image), "large", dilated=True, taps=(3,))
    x = conv_norm(t, x, 960, 1, act="hardswish", name="last")
    y = conv_norm(t, x, 128, 1, name="cbr")
    gate = t.act(t.conv(t.reshape(t.global_pool(x), x.channels, 1, 1), 128, 1, bias=False, name="scale"), "sigmoid")
    y = t.sample(t.multiply(y, gate), Shape(128, low.space), "upsample")
    t.loss(t.resize(t.add(t.conv(low, classes, 1, name="low"), t.conv(y, classes, 1, name="high")), 8))
    return t.ops()
