"""Encoders of images: for text and image together (CLIP, SigLIP), for segmentation (SAM, SAM 2), and the detector DETR.

Each works on one image, with its text where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cookbook.workloads.builders.resnets import resnet_stage, resnet_stem
from cookbook.workloads.layers import Shape, Trace, mlp, self_attention, transformer_block
from cookbook.workloads.ops import Ops


def contrastive(
    image: int = 224,
    patch: int = 14,
    width: int = 1024,
    depth: int = 24,
    heads: int = 16,
    hidden: int = 4096,
    vocab: int = 49408,
    tokens: int = 77,
    text_width: int = 768,
    text_depth: int = 12,
    text_heads: int = 12,
    text_hidden: int = 3072,
    joint: int = 768,
    pooled_by_attention: bool = False,
) -> Ops:
    """Build towers for image and text whose outputs are compared: CLIP (Radford et al., arXiv:2103.00020), SigLIP
    (Zhai et al., arXiv:2303.15343).

    Parameters
    ----------
    image, patch, width, depth, heads, hidden : int
        Side of the image and of a patch [pixels]; width, layers, heads, hidden units of the tower for images.
    vocab, tokens : int
        Rows of the embedding table; tokens of a text.
    text_width, text_depth, text_heads, text_hidden : int
        Width, layers, heads, hidden units of the tower for texts.
    joint : int
        Features of the common space.
    pooled_by_attention : bool
        Whether attention of one trained query pools the image (SigLIP), not a class token and a projection (CLIP).

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    side, clip = image // patch, not pooled_by_attention
    patches = t.conv(t.image(3, image, image), width, patch, stride=patch, bias=not clip, name="patches")
    x = Shape(width, (side * side + clip,), patches.tensor)
    t.parameter((side * side + clip + clip) * width, "positions_and_class")
    if clip:
        x = t.norm(x, "layer", name="first_norm")
    with t.block("image", repeat=depth):
        x = transformer_block(t, x, heads, hidden)
    x = t.norm(x, "layer", name="final_norm")
    if clip:
        t.linear(Shape(width), joint, False, "image.out")
    else:
        _pooled(t, x, heads, hidden)
    y = t.add(t.embedding(tokens, vocab, text_width), t.embedding(tokens, tokens, text_width, "positions"), name="add")
    with t.block("text", repeat=text_depth):
        y = transformer_block(t, y, text_heads, text_hidden, causal=clip)
    t.norm(y, "layer", name="text.final_norm")
    t.linear(Shape(text_width), joint, not clip, "text.out")
    t.parameter(1 if clip else 2, "temperature")
    return t.ops()


def _pooled(t: Trace, x: Shape, heads: int, hidden: int) -> Shape:
    """Write the attention of one trained query to all patches, and an MLP."""
    width = int(x.channels)
    t.parameter(width, "pool.query")
    y = self_attention(t, Shape(width, (1,)), heads, memory=x, name="pool")
    return t.add(y, mlp(t, t.norm(y, "layer", name="pool.norm"), hidden, name="pool.mlp"), name="pool.add")


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
    t = Trace()
    side, size = image // patch, width // heads
    padded = -(-side // window) * window
    x = t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches")
    t.parameter(side * side * width, "positions")
    x = t.reshape(x, width, side * side)
    for name, count, reach, length in (("window", depth - full, window, padded), ("full", full, side, side)):
        with t.block(name, repeat=count):
            t.parameter(2 * (2 * reach - 1) * size, "attention.relative_positions")
            y = Shape(width, (length * length,), t.norm(x, "layer", name="norm1").tensor)
            y = self_attention(t, y, heads, window=reach * reach, flash=False)
            x = t.add(x, Shape(width, (side * side,), y.tensor), name="residual1")
            x = t.add(x, mlp(t, t.norm(x, "layer", name="norm2"), hidden), name="residual2")
    y = t.reshape(x, width, side, side)
    y = t.norm(t.conv(y, out, 1, bias=False, name="neck1"), "layer", name="neck1.norm")
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
    t = Trace()
    x = t.conv(t.image(3, image, image), width, 7, stride=4, padding=3, name="patches")
    t.parameter((positions**2 + windows[0] ** 2) * width, "positions")
    side, levels = image // 4, list[Shape]()
    x = t.reshape(x, width, side * side)
    for stage, depth in enumerate(depths):
        if stage:
            x = _pooling_layer(t, x, side, heads * 2**stage, windows[stage - 1], stage)
            side //= 2
        rest, wide = depth - bool(stage), full if stage == 2 else 0
        for name, count, reach in (("window", rest - wide, windows[stage]), ("full", wide, side)):
            if count:
                with t.block(f"stage{stage + 1}.{name}", repeat=count):
                    x = _hiera_layer(t, x, heads * 2**stage, reach)
        levels.append(t.reshape(x, int(x.channels), side, side))
    for stage, level in enumerate(levels):
        t.conv(level, out, 1, name=f"pyramid{stage}")
    return t.ops()


def _hiera_layer(t: Trace, x: Shape, heads: int, reach: int) -> Shape:
    y = self_attention(t, t.norm(x, "layer", name="norm1"), heads, window=reach * reach, flash=False)
    x = t.add(x, y, name="residual1")
    return t.add(x, mlp(t, t.norm(x, "layer", name="norm2"), 4 * int(x.channels)), name="residual2")


def _pooling_layer(t: Trace, x: Shape, side: int, heads: int, reach: int, stage: int) -> Shape:
    """Write the first layer of a stage: twice as wide, with queries that are pooled 2 x 2."""
    width, fewer = 2 * int(x.channels), (side // 2) ** 2
    y = t.norm(x, "layer", name=f"pool{stage}.norm1")
    t.linear(y, width, name=f"pool{stage}.shortcut")
    t.linear(y, 3 * width, name=f"pool{stage}.qkv")
    q = Shape(width, (fewer,), y.tensor)
    z = t.attention(q, heads, window=reach * reach, flash=False, name=f"pool{stage}.attention")
    x = t.linear(z, width, name=f"pool{stage}.out")
    y = mlp(t, t.norm(x, "layer", name=f"pool{stage}.norm2"), 4 * width, name=f"pool{stage}.mlp")
    return t.add(x, y, name=f"pool{stage}.residual2")


def detr(
    image: Any = (800, 1066),
    depth: int = 50,
    width: int = 256,
    layers: int = 6,
    heads: int = 8,
    hidden: int = 2048,
    queries: int = 100,
    classes: int = 91,
) -> Ops:
    """Build DETR (Carion et al., arXiv:2005.12872): a ResNet, then a transformer of which each query finds one object.

    Parameters
    ----------
    image : sequence of int, int
        Height and width [pixels].
    depth : int
        Layers of the ResNet.
    width, layers, heads, hidden, queries : int
        Features, layers of encoder and decoder each, heads, hidden units of the MLP; objects looked for.
    classes : int
        Classes, beside "no object".

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    x = resnet_stem(t, t.image(3, *image))
    for stage in range(4):
        x = resnet_stage(t, x, depth, stage, 2 if stage else 1)
    x = t.conv(x, width, 1, name="input")
    height, breadth = x.space
    x = t.reshape(x, width, height * breadth)  # type: ignore[operator]
    with t.block("encoder", repeat=layers):
        x = transformer_block(t, x, heads, hidden, act="relu")
    t.parameter(queries * width, "queries")
    y = t.tokens(queries, width)
    with t.block("decoder", repeat=layers):
        y = transformer_block(t, y, heads, hidden, act="relu", memory=x)
    y = t.norm(y, "layer", name="decoder.norm")
    t.linear(y, classes + 1, name="classes")
    for name, features in (("box1", width), ("box2", width), ("box3", 4)):
        y = t.linear(y, features, name=name)
    return t.ops()
