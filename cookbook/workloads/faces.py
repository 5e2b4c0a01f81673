"""Networks that tell faces apart: a network of features and a linear layer of as many classes as there are people."""

from __future__ import annotations

from cookbook.workloads.layers import Shape, Trace, conv_norm
from cookbook.workloads.ops import Ops

# Deng et al., arXiv:1801.07698: blocks of the stages of the improved residual network of 100 layers.
_BLOCKS_100 = (3, 13, 30, 3)
# Chen et al., arXiv:1804.07573, as in deepinsight/insightface: channels, width inside and blocks of each stage.
_MOBILE_FACE = ((64, 128, 4), (128, 256, 6), (128, 512, 2))


def face_resnet(image: int = 112, features: int = 512, classes: int = 85742) -> Ops:
    """Residual network of 100 layers for faces (Deng et al., arXiv:1801.07698), which keeps the first resolution.

    Parameters
    ----------
    image : int
        Side of the picture of a face [pixels].
    features : int
        Numbers that describe a face.
    classes : int
        People, of which the last layer has a row each.
    """
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 64, 3, act="prelu", name="stem")
    for stage, times in enumerate(_BLOCKS_100):
        for number in range(times):
            with t.block(f"stage{stage + 1}"):
                x = _face_block(t, x, 64 * 2**stage, 1 if number else 2)
    x = t.linear(t.flatten(t.dropout(t.norm(x, "batch"))), features, name="features")
    return _people(t, x, classes)


def _face_block(t: Trace, x: Shape, out: int, stride: int) -> Shape:
    """Norm, convolution, norm, activation, convolution, norm; a projected shortcut where the shape changes."""
    y = conv_norm(t, t.norm(x, "batch"), out, 3, act="prelu", name="first")
    y = conv_norm(t, y, out, 3, stride, act="", name="second")
    return t.add(y, conv_norm(t, x, out, 1, stride, act="", name="shortcut") if stride > 1 else x)


def mobile_face(image: int = 112, features: int = 128, classes: int = 85742) -> Ops:
    """MobileFaceNet (Chen et al., arXiv:1804.07573): depthwise convolutions, the last over the whole picture.

    Parameters
    ----------
    image : int
        Side of the picture of a face [pixels].
    features : int
        Numbers that describe a face.
    classes : int
        People, of which the last layer has a row each.
    """
    t = Trace()
    x = conv_norm(t, t.image(3, image, image), 64, 3, 2, act="prelu", name="stem")
    x = conv_norm(t, x, 64, 3, groups=64, act="prelu", name="depthwise")
    for stage, (channels, hidden, times) in enumerate(_MOBILE_FACE, start=1):
        with t.block(f"stage{stage}"):
            x = _narrow(t, x, hidden, channels, 2)
        for _ in range(times):
            with t.block(f"stage{stage}"):
                x = t.add(x, _narrow(t, x, 256 if stage == 3 else hidden, channels, 1))
    x = conv_norm(t, x, 512, 1, act="prelu", name="head")
    # Four halvings leave a sixteenth of the side, which the last kernel covers.
    x = conv_norm(t, x, 512, -(-image // 16), padding=0, groups=512, act="", name="whole")
    return _people(t, t.linear(t.flatten(x), features, name="features"), classes)


def _narrow(t: Trace, x: Shape, hidden: int, out: int, stride: int) -> Shape:
    y = conv_norm(t, x, hidden, 1, act="prelu", name="expand")
    y = conv_norm(t, y, hidden, 3, stride, groups=hidden, act="prelu", name="depthwise")
    return conv_norm(t, y, out, 1, act="", name="project")


def _people(t: Trace, x: Shape, classes: int) -> Ops:
    """Norm of the features and a linear layer without bias, whose softmax is the loss."""
    t.loss(t.linear(t.norm(x, "batch"), classes, bias=False, name="people"))
    return t.ops()
