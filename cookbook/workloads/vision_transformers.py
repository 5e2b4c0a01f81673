"""Transformers and multilayer perceptrons on image patches: ViT, DeiT, BEiT, Swin, Mixer, ResMLP."""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import mlp, self_attention
from .layers import Trace
from .ops import Ops
from .shapes import Shape

POSITION_HIDDEN = 512
"""Hidden units between relative coordinates and the bias of each head (Liu et al., arXiv:2111.09883, section 3.3)."""


def vit(image: int = 224, patch: int = 16, width: int = 768, depth: int = 12, heads: int = 12, hidden: int = 3072,
        tokens: int = 1, positions: bool = True, qkv_bias: str = "all", relative_positions: bool = False,
        layer_scale: bool = False, mean_pool: bool = False, heads_out: int = 1, classes: int = 1000, act: str = "gelu",
        dropout: bool = False, flash: bool = True) -> Ops:  # fmt: skip
    """Vision transformer on non-overlapping patches: ViT, DeiT, BEiT.

    Parameters
    ----------
    image, patch, width, depth, heads, hidden : int
        Side of the image and of a patch [pixels]; width, layers, heads, hidden units of the MLP.
    tokens : int
        Extra trained tokens: class token (1), class and distillation token (2), none (0).
    positions, relative_positions : bool
        Trained position table; bias table for each layer and head over relative positions (BEiT: 3 more entries for
        the class token).
    qkv_bias : str
        "all", "query and value" (BEiT) or "none".
    layer_scale, mean_pool : bool
        Trained factor for each channel at the end of each branch; mean of the patches, then a norm, instead of the
        class token.
    heads_out, classes : int
        Classifiers (DeiT distilled: 2) and classes.
    act, dropout, flash : str, bool, bool
        Activation; dropout as in training; whether attention scores stay on chip.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    if qkv_bias not in ("all", "query and value", "none"):
        raise ValueError(f"qkv_bias = {qkv_bias!r}; take all, query and value, or none")
    t = Trace()
    side = image // patch
    patches = t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches")
    x = Shape(width, (side * side + tokens,), patches.tensor)
    if tokens:
        t.parameter(tokens * width, "tokens")
    if positions:
        t.parameter((side * side + tokens) * width, "positions")
        x = t.add(x, name="positions.add")
    with t.block("layer", repeat=depth):
        if relative_positions:
            t.parameter(((2 * side - 1) ** 2 + 3 * tokens) * heads, "attention.relative_positions")
        y = t.norm(x, "layer", name="norm1")
        if qkv_bias == "query and value":
            t.parameter(2 * width, "attention.bias")
        y = self_attention(t, y, heads, flash=flash, qkv_bias=qkv_bias == "all", dropout=dropout)
        x = _branch(t, x, y, layer_scale, dropout, "residual1")
        y = mlp(t, t.norm(x, "layer", name="norm2"), hidden, act=act)
        x = _branch(t, x, y, layer_scale, dropout, "residual2")
    if mean_pool:
        y = t.norm(t.global_pool(x), "layer", name="final_norm")
    else:
        t.norm(x, "layer", name="final_norm")
        y = Shape(width)
    for number in range(heads_out):
        t.loss(t.linear(y, classes, True, f"head{number or ''}"), "loss")
    return t.ops()


def _branch(t: Trace, x: Shape, y: Shape, layer_scale: bool, dropout: bool, name: str) -> Shape:
    """End of a residual branch."""
    if dropout:
        y = t.dropout(y)
    return t.add(x, t.scale(y, "layer_scale") if layer_scale else y, name=name)


def swin(image: int = 224, patch: int = 4, width: int = 96, depths: Sequence[int] = (2, 2, 6, 2),
         heads: Sequence[int] = (3, 6, 12, 24), window: int = 7, version: int = 1, key_bias: bool = True,
         classes: int = 1000) -> Ops:  # fmt: skip
    """Swin transformer: attention inside (shifted) windows, patches merged between stages.

    Parameters
    ----------
    image, patch, width : int
        Side of the image and of a patch [pixels]; width of the first stage, doubled at each merging.
    depths, heads : sequence of int
        Layers and heads of each stage.
    window : int
        Side of a window [patches]; attention is full inside it, and a stage smaller than it is one window.
    version : int
        1, or 2 (cosine attention, position bias from a small network, norms after each branch). The network runs once
        a batch on relative coordinates, whatever the images: its parameters are counted, its work is not.
    key_bias : bool
        Whether a bias of the keys is counted (torchvision holds one, timm does not for version 2).
    classes : int
        Classes.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    x = t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches")
    x = t.norm(x, "layer", name="patches.norm")
    for stage, (depth, stage_heads) in enumerate(zip(depths, heads, strict=True)):
        if stage:
            x = _merged(t, x, version, f"merge{stage}")
        side = min(window, int(x.space[0]))  # type: ignore[arg-type]
        with t.block(f"stage{stage + 1}", repeat=depth):
            x = _swin_layer(t, x, stage_heads, side, window, version, key_bias)
    y = t.global_pool(t.norm(x, "layer", name="final_norm"))
    t.loss(t.linear(y, classes, True, "head"), "loss")
    return t.ops()


def _swin_layer(t: Trace, x: Shape, heads: int, side: int, window: int, version: int, key_bias: bool) -> Shape:
    width = int(x.channels)
    y = t.norm(x, "layer", name="norm1") if version == 1 else x
    if version == 1:
        t.parameter((2 * window - 1) ** 2 * heads, "attention.relative_positions")
    else:
        t.parameter(heads, "attention.temperature")
        t.parameter(POSITION_HIDDEN * (3 + heads), "attention.position_network")
    qkv_bias = version == 1 or key_bias
    if not qkv_bias:
        t.parameter(2 * width, "attention.bias")
    y = self_attention(t, y, heads, window=side * side, flash=False, qkv_bias=qkv_bias)
    if version == 2:
        y = t.norm(y, "layer", name="norm1")
    x = t.add(x, y, name="residual1")
    y = mlp(t, t.norm(x, "layer", name="norm2") if version == 1 else x, 4 * width)
    if version == 2:
        y = t.norm(y, "layer", name="norm2")
    return t.add(x, y, name="residual2")


def _merged(t: Trace, x: Shape, version: int, name: str) -> Shape:
    """2 x 2 neighbours side by side, then half as many channels."""
    height, breadth = (int(side) // 2 for side in x.space)  # type: ignore[arg-type]
    y = t.reshape(x, 4 * x.channels, height, breadth)
    if version == 1:
        return t.linear(t.norm(y, "layer", name=f"{name}.norm"), int(2 * x.channels), False, name)
    return t.norm(t.linear(y, int(2 * x.channels), False, name), "layer", name=f"{name}.norm")


def mixer(image: int = 224, patch: int = 16, width: int = 768, depth: int = 12, token_hidden: int | None = 384,
          hidden: int = 3072, norm: str = "layer", layer_scale: bool = False, classes: int = 1000) -> Ops:  # fmt: skip
    """Patches mixed by multilayer perceptrons alone: MLP-Mixer, ResMLP.

    Parameters
    ----------
    image, patch, width, depth, hidden : int
        Side of the image and of a patch [pixels]; width, layers, hidden units of the channel MLP.
    token_hidden : int or None
        Hidden units of the MLP across positions; None: one linear layer (ResMLP).
    norm : str
        "layer", or "affine" (a trained factor and offset for each channel, ResMLP).
    layer_scale : bool
        Trained factor for each channel at the end of each branch.
    classes : int
        Classes.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    patches = (image // patch) ** 2
    x = t.conv(t.image(3, image, image), width, patch, stride=patch, name="patches")
    x = t.reshape(x, width, patches)
    with t.block("layer", repeat=depth):
        y = _normed(t, x, norm, "norm1")
        y = t.reshape(y, patches, width)
        y = t.linear(y, patches, True, "tokens") if token_hidden is None else mlp(t, y, token_hidden, name="tokens")
        x = _branch(t, x, t.reshape(y, width, patches), layer_scale, False, "residual1")
        y = mlp(t, _normed(t, x, norm, "norm2"), hidden, name="channels")
        x = _branch(t, x, y, layer_scale, False, "residual2")
    y = t.global_pool(_normed(t, x, norm, "final_norm"))
    t.loss(t.linear(y, classes, True, "head"), "loss")
    return t.ops()


def _normed(t: Trace, x: Shape, norm: str, name: str) -> Shape:
    if norm == "layer":
        return t.norm(x, "layer", name=name)
    if norm != "affine":
        raise ValueError(f"norm = {norm!r}; take layer or affine")
    t.parameter(x.channels, f"{name}.offset")
    return t.scale(x, name)
