"""Object detectors: SSD, SSDlite, RetinaNet, Faster and Mask R-CNN on feature pyramids; and those of Detectron
and Detectron2: region proposals, Fast, Faster, Mask and Keypoint R-CNN on three kinds of backbone.

In Detectron a training image sends 512 regions to the box head and at most a quarter of them, its share of objects, to
the mask or keypoint head (Detectron2, configs/Base-RCNN-*.yaml and defaults).

And networks that label every pixel or voxel: U-Net, 3-D U-Net, nnU-Net, V-Net, FCN, DeepLab v3; and the encoders of
images of SAM and SAM 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from cookbook.workloads.builders.convnets import vgg_features
from cookbook.workloads.builders.resnets import mobilenet_v1_features, mobilenet_v3_features, resnet_stage, resnet_stem
from cookbook.workloads.layers import Shape, Trace, conv_norm, mlp, self_attention, transformer_block, variant_of
from cookbook.workloads.ops import Ops


def _heads(
    t: Trace,
    maps: Sequence[Shape],
    anchors: Sequence[int],
    outputs: Sequence[int],
    kernel: int = 3,
    strides: Sequence[int] = (1,) * 6,
) -> None:
    """Write a convolution for each map and each kind of output (classes, boxes)."""
    for out in outputs:
        for number, (x, boxes, stride) in enumerate(zip(maps, anchors, strides, strict=True)):
            t.conv(x, boxes * out, kernel, stride, kernel // 2, name=f"head{number + 1}")


def _tower(t: Trace, maps: Sequence[Shape], out: int, name: str) -> None:
    """Write four 3x3 convolutions with ReLU and one to `out` channels; the maps share all weights."""
    for layer, width in enumerate((256, 256, 256, 256, out)):
        for number, x in enumerate(maps):
            y = x.with_channels(x.channels)
            y = t.conv(y, width, 3, padding=1, name=f"{name}{layer}", shared=number > 0)
            if layer < 4:
                t.act(y, "relu")
        maps = [x.with_channels(width) for x in maps]


# ---- SSD -------------------------------------------------------------------------------------------------------
_SSD_ANCHORS = (4, 6, 6, 6, 4, 4)


def ssd300_vgg16(image: int = 300, classes: int = 91) -> Ops:
    """Build SSD300 on VGG-16 (Liu et al., arXiv:1512.02325, Figure 2; torchvision's form)."""
    t = Trace()
    x = vgg_features(t, t.image(3, image, image), 16, stages=4, ceil=True)
    maps = [t.norm(x, "rms", name="l2_norm")]
    x = t.pool(x, 2, 2)
    for number in (1, 2, 3):
        x = t.act(t.conv(x, 512, 3, padding=1, name=f"conv5_{number}"), "relu")
    x = t.act(t.conv(t.pool(x, 3, 1, 1), 1024, 3, padding=6, dilation=6, name="fc6"), "relu")
    maps.append(t.act(t.conv(x, 1024, 1, name="fc7"), "relu"))
    for inner, out, stride, padding in ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)):
        y = t.act(t.conv(maps[-1], inner, 1, name="extra.reduce"), "relu")
        maps.append(t.act(t.conv(y, out, 3, stride, padding, name="extra"), "relu"))
    _heads(t, maps, _SSD_ANCHORS, (classes, 4))
    return t.ops()


# Channels of the six maps; the third stage keeps its resolution (NVIDIA's and MLPerf's form of SSD300).
_SSD_RESNET = {34: (256, 512, 512, 256, 256, 256), 50: (1024, 512, 512, 256, 256, 256)}


def ssd300_resnet(depth: int = 50, image: int = 300, classes: int = 81, head_strides: Sequence[int] = (1,) * 6) -> Ops:
    """Build SSD300 on the first three stages of ResNet-34 (MLPerf Training) or ResNet-50 (NVIDIA).

    MLPerf Inference gives it images of 1200 pixels, and heads that stride over the large maps.
    """
    t = Trace()
    x = resnet_stem(t, t.image(3, image, image))
    for stage, stride in enumerate((1, 2, 1)):
        x = resnet_stage(t, x, depth, stage, stride)
    maps, norm = [x], depth == 50
    steps = zip(variant_of(_SSD_RESNET, depth, "depth")[1:], (256, 256, 128, 128, 128), (2, 2, 2, 1, 1), strict=True)
    for out, inner, stride in steps:
        y = _conv_relu(t, maps[-1], inner, 1, norm=norm)
        maps.append(_conv_relu(t, y, out, 3, stride, 1 if stride == 2 else 0, norm))
    _heads(t, maps, _SSD_ANCHORS, (4, classes), strides=head_strides)
    return t.ops()


def _conv_relu(
    t: Trace, x: Shape, out: int, kernel: int, stride: int = 1, padding: int = 0, norm: bool = False
) -> Shape:
    if norm:
        return conv_norm(t, x, out, kernel, stride, padding, name="extra")
    return t.act(t.conv(x, out, kernel, stride, padding, name="extra"), "relu")


def ssd_mobilenet_v1(image: int = 300, classes: int = 91) -> Ops:
    """Build SSD on MobileNet v1 (Huang et al., arXiv:1611.10012; TensorFlow's object detection, MLPerf Inference)."""
    t = Trace()
    maps = mobilenet_v1_features(t, t.image(3, image, image), taps=(11, 13))
    for inner, out in ((256, 512), (128, 256), (128, 256), (64, 128)):
        y = conv_norm(t, maps[-1], inner, 1, act="relu6", name="extra.reduce")
        maps.append(conv_norm(t, y, out, 3, 2, act="relu6", name="extra"))
    _heads(t, maps, (3, 6, 6, 6, 6, 6), (classes, 4), kernel=1)
    return t.ops()


def ssdlite320(image: int = 320, classes: int = 91) -> Ops:
    """Build SSDlite320 on a reduced MobileNet v3 large (torchvision)."""
    t = Trace()
    tap, x = mobilenet_v3_features(t, t.image(3, image, image), "large", reduced=True, taps=(11,))
    maps = [tap.with_channels(672), conv_norm(t, x, 480, 1, act="hardswish", name="head")]
    for out in (512, 256, 256, 128):
        y = conv_norm(t, maps[-1], out // 2, 1, act="relu6", name="extra.reduce")
        y = conv_norm(t, y, out // 2, 3, 2, groups=out // 2, act="relu6", name="extra.depthwise")
        maps.append(conv_norm(t, y, out, 1, act="relu6", name="extra.project"))
    for outputs in (classes, 4):
        for x in maps:
            y = conv_norm(t, x, int(x.channels), 3, groups=int(x.channels), act="relu6", name="predict.depthwise")
            t.conv(y, 6 * outputs, 1, name="predict")
    return t.ops()


# ---- feature pyramids (Lin et al., arXiv:1612.03144) -------------------------------------------------------------
def pyramid(
    t: Trace, image: Sequence[int], depth: int, groups: int, group_width: int, first: int, stride_on: str = "3x3"
) -> list[Shape]:
    """Write ResNet stages from number `first` on, projected to 256 channels from the top down."""
    x, stages = resnet_stem(t, t.image(3, *image)), []
    for stage in range(4):
        x = resnet_stage(t, x, depth, stage, 1 if stage == 0 else 2, stride_on, groups, group_width)
        stages += [x] if stage >= first else []
    levels: list[Shape] = []
    for x in reversed(stages):
        side = t.conv(x, 256, 1, name="lateral")
        top = t.add(t.sample(levels[0], side.with_channels(256), "upsample"), side) if levels else side
        levels.insert(0, top)
    return [t.conv(x, 256, 3, padding=1, name="smooth") for x in levels]


def _size(image: int | Sequence[int]) -> tuple[int, int]:
    height, width = (image, image) if isinstance(image, int) else image
    return int(height), int(width)


def retinanet(
    depth: int = 50, groups: int = 1, group_width: int = 64, image: int | Sequence[int] = 800, classes: int = 91
) -> Ops:
    """Build RetinaNet on a ResNet or ResNeXt pyramid P3 to P7 (Lin et al., arXiv:1708.02002)."""
    t = Trace()
    maps = pyramid(t, _size(image), depth, groups, group_width, first=1)
    maps.append(t.conv(maps[-1], 256, 3, 2, 1, name="p6"))
    maps.append(t.conv(t.act(maps[-1], "relu"), 256, 3, 2, 1, name="p7"))
    _tower(t, maps, 9 * classes, "classes")
    _tower(t, maps, 9 * 4, "boxes")
    return t.ops()


def faster_rcnn(
    depth: int = 50,
    groups: int = 1,
    group_width: int = 64,
    image: int | Sequence[int] = 800,
    classes: int = 91,
    proposals: int = 1000,
    masks: int = 0,
) -> Ops:
    """Build Faster R-CNN on a pyramid (Ren et al., arXiv:1506.01497); with `masks` regions, Mask R-CNN
    (arXiv:1703.06870).

    Parameters
    ----------
    proposals : int
        Regions that the box head classifies for each image.
    masks : int
        Regions that the mask head draws for each image; 0 leaves the mask head out.
    """
    t = Trace()
    levels = pyramid(t, _size(image), depth, groups, group_width, first=0)
    levels.append(t.pool(levels[-1], 1, 2, name="p6"))
    _proposals(t, levels, _ANCHORS["fpn"])
    x = _box_features(t, levels[0], proposals)
    t.linear(x, classes, name="box.classes")
    t.linear(x, 4 * classes, name="box.boxes")
    if masks:
        mask_head(t, levels[0], masks, classes)
    return t.ops()


def mask_head(t: Trace, level: Shape, masks: int, classes: int) -> None:
    """Write the mask branch of Mask R-CNN (He et al., arXiv:1703.06870) on `masks` regions of 14 x 14."""
    x = t.sample(level, Shape(256, (masks * 14, 14)), "mask.roi_align")
    for number in range(1, 5):
        x = t.act(t.conv(x, 256, 3, padding=1, name=f"mask.conv{number}"), "relu")
    x = t.act(t.conv(x, 256, 2, 2, transposed=True, name="mask.up"), "relu")
    t.conv(x, classes, 1, name="mask.out")


PARTS = {"rpn": (), "fast": ("box",), "faster": ("box",), "mask": ("box", "mask"), "keypoint": ("box", "keypoint")}


def rcnn(
    parts: str = "faster",
    backbone: str = "fpn",
    depth: int = 50,
    groups: int = 1,
    group_width: int = 64,
    image: Sequence[int] = (800, 1088),
    classes: int = 81,
    regions: int = 512,
) -> Ops:
    """Build a region-based detector in training.

    Parameters
    ----------
    parts : str
        "rpn" (proposals only), "fast" (box head on given proposals), "faster" (both), "mask" or "keypoint" (a third
        head besides).
    backbone : str
        "fpn" (pyramid of four stages), "c4" (three stages, the fourth runs on each region) or "dc5" (four stages, the
        last dilated).
    image : sequence of int
        Height and width; a photo of 480 x 640 scaled to a short side of 800 and padded to 32.
    regions : int
        Regions of one image in the box head; a quarter of them in the mask or keypoint head.
    """
    heads = variant_of(PARTS, parts, "parts")
    variant_of(_ANCHORS, backbone, "backbone")
    t = Trace()
    stride_on = "1x1" if groups == 1 else "3x3"
    if backbone == "fpn":
        maps = pyramid(t, image, depth, groups, group_width, 0, stride_on)
        maps.append(t.pool(maps[-1], 1, 2, name="p6"))
    else:
        maps = [_plain_backbone(t, image, depth, backbone, stride_on)]
    if parts != "fast":
        _proposals(t, maps, _ANCHORS[backbone])
    if heads and backbone == "c4":
        _late_stage(t, maps[0], depth, stride_on, regions, classes, "mask" in heads)
    elif heads:
        _predict(t, _box_features(t, maps[0], regions), 2 if "keypoint" in heads else classes)
        if "mask" in heads:
            mask_head(t, maps[0], regions // 4, classes)
        if "keypoint" in heads:
            _keypoint_head(t, maps[0], regions // 4)
    return t.ops()


# Anchors of each position: three shapes, and five sizes where there is one map only.
_ANCHORS = {"fpn": 3, "c4": 15, "dc5": 15}


def _plain_backbone(t: Trace, image: Sequence[int], depth: int, backbone: str, stride_on: str) -> Shape:
    x = resnet_stem(t, t.image(3, *image))
    for stage in range(3):
        x = resnet_stage(t, x, depth, stage, 1 if stage == 0 else 2, stride_on)
    return resnet_stage(t, x, depth, 3, 1, stride_on, dilation=2) if backbone == "dc5" else x


def _proposals(t: Trace, maps: Sequence[Shape], anchors: int) -> None:
    for number, x in enumerate(maps):
        y = t.act(t.conv(x, int(x.channels), 3, padding=1, name="rpn", shared=number > 0), "relu")
        t.conv(y, 5 * anchors, 1, name="rpn.out", shared=number > 0)


def _box_features(t: Trace, level: Shape, regions: int) -> Shape:
    x = t.sample(level, Shape(level.channels * 7 * 7, (regions,)), "roi_align")
    for number in (1, 2):
        x = t.act(t.linear(x, 1024, name=f"box.fc{number}"), "relu")
    return x


def _predict(t: Trace, x: Shape, classes: int) -> None:
    t.linear(x, classes, name="box.classes")
    t.linear(x, 4 * (classes - 1), name="box.boxes")


def _late_stage(t: Trace, level: Shape, depth: int, stride_on: str, regions: int, classes: int, masks: bool) -> None:
    """Write the fourth stage on 14 x 14 cells of each region, then a mean; masks start from its 7 x 7 cells."""
    x = t.sample(level, Shape(level.channels, (regions * 14, 14)), "roi_align")
    x = resnet_stage(t, x, depth, 3, 2, stride_on)
    _predict(t, t.pool(x, 7, 7, kind="average").with_channels(x.channels), classes)
    if masks:
        y = t.conv(Shape(x.channels, (regions // 4 * 7, 7)), 256, 2, 2, transposed=True, name="mask.up")
        t.conv(t.act(y, "relu"), classes - 1, 1, name="mask.out")


def _keypoint_head(t: Trace, level: Shape, regions: int) -> None:
    """Write eight 3x3 convolutions of 512 channels, then heat maps of 56 x 56 for 17 points."""
    x = t.sample(level, Shape(256, (regions * 14, 14)), "keypoint.roi_align")
    for number in range(1, 9):
        x = t.act(t.conv(x, 512, 3, padding=1, name=f"keypoint.conv{number}"), "relu")
    t.resize(t.conv(x, 17, 4, 2, 1, transposed=True, name="keypoint.up"), 2)


def ssd_fpn(image: int = 320, classes: int = 90, anchors: int = 6, depth: int = 4, width: int = 256) -> Ops:
    """Build SSD on a ResNet-50 pyramid P3 to P7 with heads that all maps share, in TensorFlow's form.

    The maps share the weights of the convolutions; each map has norms of its own.
    """
    t = Trace()
    maps = pyramid(t, (image, image), 50, 1, 64, first=1)
    for name in ("p6", "p7"):
        maps.append(conv_norm(t, maps[-1], width, 3, 2, act="relu6", name=name))
    for kind, out in (("boxes", 4), ("classes", classes)):
        for number, x in enumerate(maps):
            for layer in range(depth):
                x = t.conv(x, width, 3, padding=1, bias=False, name=f"{kind}{layer}", shared=number > 0)
                x = t.act(t.norm(x, "batch"), "relu6")
            t.conv(x, anchors * out, 3, padding=1, name=f"{kind}.out", shared=number > 0)
    return t.ops()


# ---- encoder-decoder with skips ----------------------------------------------------------------------------------
def unet(
    image: int | Sequence[int] = 572,
    channels: int = 1,
    classes: int = 2,
    widths: Sequence[int] = (64, 128, 256, 512, 1024),
    padded: bool = False,
    norm: str = "",
    bias: bool = True,
) -> Ops:
    """Build a U-Net of 1, 2 or 3 axes (Ronneberger et al., arXiv:1505.04597, Figure 1; Cicek et al., arXiv:1606.06650).

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


def nnunet(
    image: Sequence[int] = (128, 128, 128),
    channels: int = 4,
    classes: int = 4,
    widths: Sequence[int] = (32, 64, 128, 256, 320, 320),
    deep_supervision: int = 0,
    bias: bool = False,
    up_bias: bool = False,
    act: str = "leaky",
) -> Ops:
    """Build nnU-Net (Isensee et al., arXiv:1809.10486): strided convolutions, instance norm; 2-D or 3-D by the image.

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
    """Build V-Net (Milletari et al., arXiv:1606.04797, Figure 2): residual stages of 5x5x5 convolutions."""
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
    """Return the outputs of the last two stages of a ResNet that keeps an eighth of the resolution."""
    x = resnet_stem(t, t.image(3, image, image))
    x = resnet_stage(t, resnet_stage(t, x, depth, 0, 1), depth, 1, 2)
    third = resnet_stage(t, x, depth, 2, 1, dilation=2, first_dilation=1)
    return [third, resnet_stage(t, third, depth, 3, 1, dilation=4, first_dilation=2)]


def _fcn_head(t: Trace, x: Shape, classes: int, name: str) -> Shape:
    y = conv_norm(t, x, int(x.channels) // 4, 3, name=name)
    return t.resize(t.conv(t.dropout(y), classes, 1, name=f"{name}.out"), 8)


def fcn(depth: int = 50, image: int = 520, classes: int = 21) -> Ops:
    """Build FCN on a dilated ResNet with an auxiliary head (Long et al., arXiv:1411.4038; torchvision's form)."""
    t = Trace()
    third, last = _dilated_resnet(t, image, depth)
    t.loss(_fcn_head(t, last, classes, "head"))
    t.loss(_fcn_head(t, third, classes, "auxiliary"))
    return t.ops()


def deeplabv3(depth: int = 50, image: int = 520, classes: int = 21) -> Ops:
    """Build DeepLab v3 on a dilated ResNet with an auxiliary head (Chen et al., arXiv:1706.05587)."""
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
    """Build DeepLab v3 on a dilated MobileNet v3 large with an auxiliary head (torchvision)."""
    t = Trace()
    tap, x = mobilenet_v3_features(t, t.image(3, image, image), "large", dilated=True, taps=(3,))
    x = conv_norm(t, x, 960, 1, act="hardswish", name="last")
    t.loss(_atrous_head(t, x, classes, 16))
    t.loss(_fcn_head(t, tap, classes, "auxiliary"))
    return t.ops()


def lraspp(image: int = 520, classes: int = 21) -> Ops:
    """Build LR-ASPP on a dilated MobileNet v3 large (Howard et al., arXiv:1905.02244, section 6.4)."""
    t = Trace()
    low, x = mobilenet_v3_features(t, t.image(3, image, image), "large", dilated=True, taps=(3,))
    x = conv_norm(t, x, 960, 1, act="hardswish", name="last")
    y = conv_norm(t, x, 128, 1, name="cbr")
    gate = t.act(t.conv(t.reshape(t.global_pool(x), x.channels, 1, 1), 128, 1, bias=False, name="scale"), "sigmoid")
    y = t.sample(t.multiply(y, gate), Shape(128, low.space), "upsample")
    t.loss(t.resize(t.add(t.conv(low, classes, 1, name="low"), t.conv(y, classes, 1, name="high")), 8))
    return t.ops()


# ---- transformers ---------------------------------------------------------------------------------------------


def sam_encoder(
    image: int = 1024,
    patch: int = 16,
    width: int = 1280,
    depth: int = 32,
    heads: int = 16,
    hidden: int = 5120,
    window: int = 14,
    full: int = 4,
    out: int = 256,
) -> Ops:
    """Build the image encoder of SAM (Kirillov et al., arXiv:2304.02643): a vision transformer with windows.

    Parameters
    ----------
    image, patch, width, depth, heads, hidden : int
        Side of the image and of a patch [pixels]; width, layers, heads, hidden units of the MLP.
    window, full : int
        Side of a window [patches], to which an image is padded; layers that attend to all patches.
    out : int
        Channels of the result.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t, side, size = Trace(), image // patch, width // heads
    x = t.reshape(t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches"), width, side * side)
    t.parameter(side * side * width, "positions")
    for name, count, reach in (("window", depth - full, window), ("full", full, side)):
        with t.block(name, repeat=count):
            t.parameter(2 * (2 * reach - 1) * size, "attention.relative_positions")
            padded = Shape(width, ((-(-side // reach) * reach) ** 2,), t.norm(x, "layer", name="norm1").tensor)
            y = self_attention(t, padded, heads, window=reach * reach, flash=False)
            x = t.add(x, Shape(width, x.space, y.tensor), name="residual1")
            x = t.add(x, mlp(t, t.norm(x, "layer", name="norm2"), hidden), name="residual2")
    y = t.norm(t.conv(t.reshape(x, width, side, side), out, 1, bias=False, name="neck1"), "layer", name="neck1.norm")
    t.norm(t.conv(y, out, 3, padding=1, bias=False, name="neck2"), "layer", name="neck2.norm")
    return t.ops()


def hiera(
    image: int = 1024,
    width: int = 144,
    depths: Sequence[int] = (2, 6, 36, 4),
    heads: int = 2,
    windows: Sequence[int] = (8, 4, 16, 8),
    full: int = 3,
    positions: int = 7,
    out: int = 256,
) -> Ops:
    """Build the image encoder of SAM 2 (Ravi et al., arXiv:2408.00714): Hiera (Ryali et al., arXiv:2306.00989) with a
    pyramid of its stages.

    Parameters
    ----------
    image, width, heads : int
        Side of the image [pixels]; width and heads of the first stage, doubled from stage to stage.
    depths, windows : sequence of int
        Layers of each stage; side of its windows [positions].
    full : int
        Layers of the third stage that attend to all positions.
    positions, out : int
        Side of the table of positions; channels of the pyramid.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t, side = Trace(), image // 4
    x = t.conv(t.image(3, image, image), width, 7, stride=4, padding=3, name="patches")
    t.parameter((positions**2 + windows[0] ** 2) * width, "positions")
    x = t.reshape(x, width, side * side)
    for stage, depth in enumerate(depths):
        width, reach = width * (1 + bool(stage)), windows[stage]
        if stage:
            x, side = _pooling_layer(t, x, side, heads * 2**stage, windows[stage - 1], stage), side // 2
        wide = full if stage == 2 else 0
        for name, count, near in (("window", depth - bool(stage) - wide, reach), ("full", wide, side))[
            : 1 + bool(wide)
        ]:
            with t.block(f"stage{stage + 1}.{name}", repeat=count):
                x = transformer_block(t, x, heads * 2**stage, 4 * width, window=near * near, flash=False)
        t.conv(t.reshape(x, width, side, side), out, 1, name=f"pyramid{stage}")
        x = t.reshape(x, width, side * side)
    return t.ops()


def _pooling_layer(t: Trace, x: Shape, side: int, heads: int, reach: int, stage: int) -> Shape:
    """Write the first layer of a stage: twice as wide, with queries that are pooled 2 x 2."""
    width, y = 2 * int(x.channels), t.norm(x, "layer", name=f"pool{stage}.norm1")
    t.linear(y, width, name=f"pool{stage}.shortcut")
    t.linear(y, 3 * width, name=f"pool{stage}.qkv")
    q = Shape(width, ((side // 2) ** 2,), y.tensor)
    z = t.attention(q, heads, window=reach * reach, flash=False, name=f"pool{stage}.attention")
    x = t.linear(z, width, name=f"pool{stage}.out")
    y = mlp(t, t.norm(x, "layer", name=f"pool{stage}.norm2"), 4 * width, name=f"pool{stage}.mlp")
    return t.add(x, y, name=f"pool{stage}.residual2")
