"""Detectors as Detectron and Detectron2 train them: region proposals, Fast, Faster, Mask and Keypoint R-CNN on three
kinds of backbone, and the single-shot detector with a feature pyramid.

A training image brings 512 regions to the box head and at most a quarter of them, its share of objects, to the mask or
keypoint head (Detectron2, configs/Base-RCNN-*.yaml and defaults).
"""

from __future__ import annotations

from collections.abc import Sequence

from .conv_blocks import conv_norm, variant_of
from .detection import mask_head, pyramid
from .layers import Trace
from .ops import Ops
from .resnets import resnet_stage, resnet_stem
from .shapes import Shape

PARTS = {"rpn": (), "fast": ("box",), "faster": ("box",), "mask": ("box", "mask"), "keypoint": ("box", "keypoint")}


def rcnn(parts: str = "faster", backbone: str = "fpn", depth: int = 50, groups: int = 1, group_width: int = 64,
         image: Sequence[int] = (800, 1088), classes: int = 81, regions: int = 512) -> Ops:  # fmt: skip
    """Region-based detector in training.

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
        _box_head(t, maps[0], regions, 2 if "keypoint" in heads else classes)
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


def _box_head(t: Trace, level: Shape, regions: int, classes: int) -> None:
    x = t.sample(level, Shape(level.channels * 7 * 7, (regions,)), "roi_align")
    for number in (1, 2):
        x = t.act(t.linear(x, 1024, name=f"box.fc{number}"), "relu")
    _predict(t, x, classes)


def _predict(t: Trace, x: Shape, classes: int) -> None:
    t.linear(x, classes, name="box.classes")
    t.linear(x, 4 * (classes - 1), name="box.boxes")


def _late_stage(t: Trace, level: Shape, depth: int, stride_on: str, regions: int, classes: int, masks: bool) -> None:
    """The fourth stage on 14 x 14 cells of each region, then a mean; masks start from its 7 x 7 cells."""
    x = t.sample(level, Shape(level.channels, (regions * 14, 14)), "roi_align")
    x = resnet_stage(t, x, depth, 3, 2, stride_on)
    _predict(t, t.pool(x, 7, 7, kind="average").with_channels(x.channels), classes)
    if masks:
        y = t.conv(Shape(x.channels, (regions // 4 * 7, 7)), 256, 2, 2, transposed=True, name="mask.up")
        t.conv(t.act(y, "relu"), classes - 1, 1, name="mask.out")


def _keypoint_head(t: Trace, level: Shape, regions: int, points: int = 17) -> None:
    """Eight 3x3 convolutions of 512 channels, then heat maps of 56 x 56."""
    x = t.sample(level, Shape(256, (regions * 14, 14)), "keypoint.roi_align")
    for number in range(1, 9):
        x = t.act(t.conv(x, 512, 3, padding=1, name=f"keypoint.conv{number}"), "relu")
    t.resize(t.conv(x, points, 4, 2, 1, transposed=True, name="keypoint.up"), 2)


def ssd_fpn(image: int = 320, classes: int = 90, anchors: int = 6, depth: int = 4, width: int = 256) -> Ops:
    """SSD on a ResNet-50 pyramid P3 to P7 with heads that all maps share, in TensorFlow's form.

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
