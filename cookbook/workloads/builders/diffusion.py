"""Diffusion networks: U-Nets (DDPM, Stable Diffusion) and transformers for images and videos (DiT, Stable Diffusion 3,
FLUX.1 and 2, Qwen-Image, HunyuanVideo, Wan, LTX-Video, LTX-2, Z-Image).

One call of the denoising network, as a training step computes it. The autoencoder and the text encoders that turn
images and prompts into its inputs are frozen and are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cookbook.workloads.layers import Shape, Trace, mlp, self_attention, transformer_block
from cookbook.workloads.ops import Ops

Attention = Callable[[Shape, str], Shape]


def _embed_scalar(t: Trace, inputs: int | Shape, width: int, name: str, bias: bool = True) -> Shape:
    """Write two linear layers on a vector: embedding of the time step, of the guidance or of a pooled prompt."""
    x = inputs if isinstance(inputs, Shape) else t.vector(inputs)
    x = t.act(t.linear(x, width, bias, f"{name}.0"), "silu", f"{name}.silu")
    return t.linear(x, width, bias, f"{name}.2")


def _modulation(t: Trace, condition: Shape, width: int, parts: int, name: str) -> Shape:
    """Write shifts, scales and gates computed from the condition; return one of them."""
    t.linear(t.act(condition, "silu", f"{name}.silu"), parts * width, name=name)
    return t.vector(width)


def _modulated_norm(t: Trace, x: Shape, factor: Shape | None, name: str) -> Shape:
    """Write a norm and the product with a factor; None: one that all blocks compute from the time step in one place."""
    return t.multiply(
        t.norm(x, "layer", affine=False, name=name), factor or t.vector(x.channels), name=f"{name}.modulate"
    )


# ---- DiT ------------------------------------------------------------------------------------------------------


def dit(
    depth: int = 28, width: int = 1152, heads: int = 16, patch: int = 2, image: int = 256, classes: int = 1000
) -> Ops:
    """Build DiT (Peebles & Xie, arXiv:2212.09748) on the 8x smaller latent of an image, adaLN-Zero blocks, learned
    sigma.
    """
    t = Trace()
    side = image // 8
    x = t.conv(t.image(4, side, side), width, patch, patch, name="patches")
    x = t.reshape(x, width, (side // patch) ** 2)
    condition = _embed_scalar(t, 256, width, "time")
    t.embedding(1, classes + 1, width, name="label")
    with t.block("blocks", repeat=depth):
        factor = _modulation(t, condition, width, 6, "adaln")
        y = self_attention(t, _modulated_norm(t, x, factor, "norm1"), heads)
        x = t.add(x, t.multiply(y, factor, name="gate1"), name="residual1")
        y = mlp(t, _modulated_norm(t, x, factor, "norm2"), 4 * width)
        x = t.add(x, t.multiply(y, factor, name="gate2"), name="residual2")
    x = _modulated_norm(t, x, _modulation(t, condition, width, 2, "final.adaln"), "final.norm")
    t.linear(x, patch * patch * 8, name="final.linear")
    return t.ops()


# ---- U-Nets ---------------------------------------------------------------------------------------------------


def _res_block(t: Trace, x: Shape, channels: int, time: Shape, name: str) -> Shape:
    y = t.act(t.norm(x, "group", name=f"{name}.norm1"), "silu")
    y = t.conv(y, channels, 3, padding=1, name=f"{name}.conv1")
    shift = t.linear(t.act(time, "silu", f"{name}.time.silu"), channels, name=f"{name}.time")
    y = t.add(y, shift, name=f"{name}.add_time")
    y = t.act(t.norm(y, "group", name=f"{name}.norm2"), "silu")
    y = t.conv(y, channels, 3, padding=1, name=f"{name}.conv2")
    if x.channels != channels:
        x = t.conv(x, channels, 1, name=f"{name}.skip")
    return t.add(x, y, name=f"{name}.residual")


def _text_transformer(t: Trace, x: Shape, heads: int, depth: int, context: Shape, linear: bool, name: str) -> Shape:
    """Write blocks of self-attention, cross-attention on the prompt and a gated MLP, over all pixels."""
    height, width = x.space
    channels = int(x.channels)
    y = t.norm(x, "group", name=f"{name}.norm")
    y = t.linear(y, channels, name=f"{name}.in") if linear else t.conv(y, channels, 1, name=f"{name}.in")
    y = t.reshape(y, channels, height * width)  # type: ignore[operator]
    with t.block(name, repeat=depth):
        for kind, memory in (("self", None), ("cross", context)):
            z = self_attention(
                t, t.norm(y, "layer", name=f"norm_{kind}"), heads, bias=True, qkv_bias=False, memory=memory, name=kind
            )
            y = t.add(y, z, name=f"residual_{kind}")
        z = mlp(t, t.norm(y, "layer", name="norm_mlp"), 4 * channels, gated=True)
        y = t.add(y, z, name="residual_mlp")
    y = t.reshape(y, channels, height, width)
    y = t.linear(y, channels, name=f"{name}.out") if linear else t.conv(y, channels, 1, name=f"{name}.out")
    return t.add(x, y, name=f"{name}.residual")


def _pixel_attention(t: Trace, x: Shape, name: str) -> Shape:
    """Write self-attention of one head over all pixels (DDPM)."""
    height, width = x.space
    y = t.reshape(t.norm(x, "group", name=f"{name}.norm"), x.channels, height * width)  # type: ignore[operator]
    y = self_attention(t, y, 1, flash=False, name=name)
    return t.add(x, t.reshape(y, x.channels, height, width), name=f"{name}.residual")


def _unet(
    t: Trace,
    x: Shape,
    out: int,
    channels: int,
    multipliers: Sequence[int],
    res_blocks: int,
    time: Shape,
    attend: dict[int, Attention],
    middle: Attention,
) -> None:
    """Write a U-Net of residual blocks; `attend` maps a level to the attention that follows its residual blocks."""

    def step(x: Shape, width: int, attention: Attention | None, name: str) -> Shape:
        x = _res_block(t, x, width, time, f"{name}.res")
        return attention(x, f"{name}.attention") if attention else x

    x = t.conv(x, channels, 3, padding=1, name="in")
    skips = [x]
    last = len(multipliers) - 1
    for level, multiplier in enumerate(multipliers):
        for i in range(res_blocks):
            x = step(x, channels * multiplier, attend.get(level), f"down{level}.{i}")
            skips.append(x)
        if level < last:
            x = t.conv(x, int(x.channels), 3, 2, 1, name=f"down{level}.sample")
            skips.append(x)
    x = _res_block(t, step(x, int(x.channels), middle, "middle.0"), int(x.channels), time, "middle.1")
    for level, multiplier in reversed(list(enumerate(multipliers))):
        for i in range(res_blocks + 1):
            x = step(t.concat([x, skips.pop()]), channels * multiplier, attend.get(level), f"up{level}.{i}")
        if level:
            x = t.conv(t.resize(x, 2), int(x.channels), 3, padding=1, name=f"up{level}.sample")
    t.conv(t.act(t.norm(x, "group", name="out.norm"), "silu"), out, 3, padding=1, name="out")


def ddpm_unet(
    image: int = 32,
    channels: int = 128,
    multipliers: Sequence[int] = (1, 2, 2, 2),
    attend_at: int = 16,
    res_blocks: int = 2,
) -> Ops:
    """Build the U-Net of DDPM (Ho, Jain & Abbeel, arXiv:2006.11239, appendix B): one attention head at 16 x
    16 pixels.
    """
    t = Trace()
    time = _embed_scalar(t, channels, 4 * channels, "time")
    attention = partial(_pixel_attention, t)
    levels = [level for level in range(len(multipliers)) if image // 2**level == attend_at]
    attend: dict[int, Attention] = dict.fromkeys(levels, attention)
    _unet(t, t.image(3, image, image), 3, channels, multipliers, res_blocks, time, attend, attention)
    return t.ops()


def stable_diffusion_unet(
    image: int = 512,
    channels: int = 320,
    multipliers: Sequence[int] = (1, 2, 4, 4),
    depths: Sequence[int] = (1, 1, 1, 0),
    middle_depth: int = 1,
    context: int = 768,
    heads: int | None = 8,
    linear: bool = False,
    pooled: int = 0,
    tokens: int = 77,
) -> Ops:
    """Build the U-Net of Stable Diffusion (Rombach et al., arXiv:2112.10752; SDXL, Podell et al., arXiv:2307.01952).

    Parameters
    ----------
    image : int
        Pixels a side; the U-Net works on an 8x smaller latent with 4 channels.
    channels, multipliers : int
        Width of the first level; factors of all levels.
    depths, middle_depth : int
        Transformer blocks after each residual block of a level (0: none), and in the middle.
    context, tokens : int
        Width and number of the prompt's token embeddings.
    heads : int or None
        Attention heads; None for heads of 64 features.
    linear : bool
        Whether linear layers (not 1 x 1 convolutions) lead in and out of the transformers.
    pooled : int
        Width of the vector of pooled prompt and image sizes (SDXL), else 0.
    """
    t = Trace()
    time = _embed_scalar(t, channels, 4 * channels, "time")
    if pooled:
        time = t.add(time, _embed_scalar(t, pooled, 4 * channels, "label"), name="add_label")
    prompt = t.tokens(tokens, context)

    def attention(depth: int) -> Attention:
        def attend(x: Shape, name: str) -> Shape:
            return _text_transformer(t, x, heads or int(x.channels // 64), depth, prompt, linear, name)

        return attend

    attend = {level: attention(depth) for level, depth in enumerate(depths) if depth}
    latent = t.image(4, image // 8, image // 8)
    _unet(t, latent, 4, channels, multipliers, 2, time, attend, attention(middle_depth))
    return t.ops()


# ---- two-stream transformers ----------------------------------------------------------------------------------


def _stream_in(t: Trace, x: Shape, factor: Shape, inner: int, name: str) -> None:
    y = _modulated_norm(t, x, factor, f"{name}.norm1")
    for part in ("q", "k", "v"):
        t.linear(y, inner, name=f"{name}.{part}")


def _stream_out(t: Trace, x: Shape, y: Shape, factor: Shape, name: str) -> Shape:
    width = int(x.channels)
    y = t.multiply(t.linear(y, width, name=f"{name}.out"), factor, name=f"{name}.gate1")
    x = t.add(x, y, name=f"{name}.residual1")
    z = mlp(t, _modulated_norm(t, x, factor, f"{name}.norm2"), 4 * width, name=f"{name}.mlp")
    return t.add(x, t.multiply(z, factor, name=f"{name}.gate2"), name=f"{name}.residual2")


def _double_block(
    t: Trace, image: Shape, text: Shape, condition: Shape, heads: int, qk_norm: int, text_ends: bool = False
) -> tuple[Shape, Shape]:
    """Write image and text streams with separate weights and joint attention; `text_ends`: no output for the text."""
    width = int(image.channels)
    factor = _modulation(t, condition, width, 6, "image.adaln")
    text_factor = _modulation(t, condition, width, 2 if text_ends else 6, "text.adaln")
    _stream_in(t, image, factor, width, "image")
    _stream_in(t, text, text_factor, width, "text")
    if qk_norm:
        t.parameter(2 * 2 * qk_norm, "qk_norm")
    t.attention(t.tokens(image.space[0] + text.space[0], width), heads)  # type: ignore[operator]
    image = _stream_out(t, image, image.with_channels(width), factor, "image")
    return image, text if text_ends else _stream_out(t, text, text.with_channels(width), text_factor, "text")


def sd3(
    depth: int = 24,
    image: int = 1024,
    tokens: int = 333,
    context: int = 4096,
    pooled: int = 2048,
    qk_norm: bool = False,
) -> Ops:
    """Build the MM-DiT of Stable Diffusion 3 (Esser et al., arXiv:2403.03206): 64 * depth features, depth heads."""
    t = Trace()
    width, side = 64 * depth, image // 16
    x = t.reshape(t.conv(t.image(16, image // 8, image // 8), width, 2, 2, name="patches"), width, side * side)
    text = t.linear(t.tokens(tokens, context), width, name="text.in")
    condition = t.add(_embed_scalar(t, 256, width, "time"), _embed_scalar(t, pooled, width, "pooled"), name="condition")
    with t.block("blocks", repeat=depth - 1):
        x, text = _double_block(t, x, text, condition, depth, 64 * qk_norm)
    with t.block("last"):
        x, _ = _double_block(t, x, text, condition, depth, 64 * qk_norm, text_ends=True)
    x = _modulated_norm(t, x, _modulation(t, condition, width, 2, "final.adaln"), "final.norm")
    t.linear(x, 64, name="final.linear")
    return t.ops()


def flux(
    double: int = 19,
    single: int = 38,
    width: int = 3072,
    heads: int = 24,
    image: Any = 1024,
    tokens: int = 512,
    guidance: bool = True,
    context: int = 4096,
    pooled: int = 768,
    text_norm: bool = False,
    refiners: int = 0,
    frames: int = 1,
) -> Ops:
    """Build FLUX.1 (Black Forest Labs) and its relatives: blocks with two streams, then blocks with attention and MLP
    side by side.

    Parameters
    ----------
    double, single : int
        Blocks with two streams, and blocks with one (Qwen-Image: none).
    width, heads : int
        Features of both streams, and attention heads.
    image, frames : int or sequence of int, int
        Pixels a side, or height and width; frames of the latent, one for each four of a video after the first.
    tokens, context, pooled : int
        Number and width of the prompt's token embeddings; width of its pooled vector (0: none).
    guidance, text_norm : bool
        Whether the strength of guidance is an input; whether a norm leads the prompt in.
    refiners : int
        Blocks on the prompt alone (HunyuanVideo).
    """
    t = Trace()
    height, breadth = image if isinstance(image, list | tuple) else (image, image)
    pixels = frames * (height // 16) * (breadth // 16)
    x = t.linear(t.tokens(pixels, 64), width, name="image.in")
    prompt = t.tokens(tokens, context)
    text = t.linear(t.norm(prompt, "rms", name="text.norm") if text_norm else prompt, width, name="text.in")
    if refiners:
        for part, number in (("time", 256), ("mean", context)):
            gate = _embed_scalar(t, number, width, f"refiner.{part}")
        with t.block("refiner", repeat=refiners):
            _modulation(t, gate, width, 2, "adaln")
            text = transformer_block(t, text, heads, 4 * width, act="silu")
    inputs = [("time", 256)] + [("pooled", pooled)] * bool(pooled) + [("guidance", 256)] * guidance
    condition = t.add(*(_embed_scalar(t, n, width, name) for name, n in inputs), name="condition")
    with t.block("double", repeat=double):
        x, text = _double_block(t, x, text, condition, heads, width // heads)
    if single:
        x = t.tokens(pixels + tokens, width)
        with t.block("single", repeat=single):
            factor = _modulation(t, condition, width, 3, "adaln")
            y = _modulated_norm(t, x, factor, "norm")
            qkv_up = t.linear(y, 7 * width, name="qkv_and_up")
            t.parameter(2 * width // heads, "qk_norm")
            z = t.attention(qkv_up.with_channels(width), heads)
            up = t.act(qkv_up.with_channels(4 * width), "gelu")
            y = t.linear(t.concat([z, up]), width, name="out_and_down")
            x = t.add(x, t.multiply(y, factor, name="gate"), name="residual")
    x = _modulated_norm(t, x.with_channels(width), _modulation(t, condition, width, 2, "final.adaln"), "final.norm")
    t.linear(x, 64, name="final.linear")
    return t.ops()


# ---- newer transformers ---------------------------------------------------------------------------------------


def _gated(t: Trace, x: Shape, y: Shape, name: str) -> Shape:
    """Write the end of a branch: a product with a factor that the time step gives, and the residual."""
    return t.add(x, t.multiply(y, t.vector(x.channels), name=f"{name}.gate"), name=f"{name}.residual")


def _attended(t: Trace, x: Shape, memory: Shape, heads: int, name: str, inner: int | None = None) -> Shape:
    """Write attention with biases and norms over all heads together; keys and values are those of `memory`."""
    width = inner or int(x.channels)
    q, k, _ = (t.linear(of, width, True, f"{name}.{part}") for part, of in (("q", x), ("k", memory), ("v", memory)))
    t.parameter(2 * width, f"{name}.qk_norm")
    return t.linear(t.attention(q, heads, memory=k, name=f"{name}.core"), int(x.channels), True, f"{name}.out")


def text_to_video(
    width: int = 5120,
    depth: int = 40,
    heads: int = 40,
    hidden: int = 13824,
    features: int = 64,
    grid: Sequence[int] = (21, 30, 52),
    tokens: int = 512,
    context: int = 4096,
    cross_norm: bool = True,
    audio_width: int = 0,
    audio_tokens: int = 0,
) -> Ops:
    """Build a diffusion transformer that reads the prompt by cross-attention: Wan (Wan Team, arXiv:2503.20314),
    LTX-Video (HaCohen et al., arXiv:2501.00103); and LTX-2, whose stream of sound and the video read each other.

    Parameters
    ----------
    width, depth, heads, hidden : int
        Features, blocks, attention heads, and hidden units of the MLP.
    features : int
        Numbers of the latent in one patch.
    grid : sequence of int
        Patches in time, height and width.
    tokens, context : int
        Number and width of the prompt's token embeddings.
    cross_norm : bool
        Whether the norm before cross-attention has parameters (LTX-Video: there is none).
    audio_width, audio_tokens : int
        Features and patches of the stream of sound (0: none).

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t, x, text = Trace(), dict[str, Shape](), dict[str, Shape]()
    sizes = {"video": width, "audio": audio_width} if audio_width else {"video": width}
    for s, size in sizes.items():
        patches = t.tokens(audio_tokens if s == "audio" else math.prod(grid), features)
        x[s], text[s] = (
            t.linear(patches, size, name=f"{s}.patches"),
            _embed_scalar(t, t.tokens(tokens, context), size, f"{s}.text"),
        )
        for part, number in (("time", 6), ("shift", 4), ("gate", 1))[: 3 if audio_width else 1]:
            _modulation(t, _embed_scalar(t, 256, size, f"{s}.{part}"), size, number, f"{s}.{part}.out")
    with t.block("blocks", repeat=depth):
        for s, size in sizes.items():
            t.parameter((11 if audio_width else 6) * size, f"{s}.factors")
            y = _modulated_norm(t, x[s], None, f"{s}.norm1")
            z = _gated(t, x[s], _attended(t, y, y, heads, f"{s}.self"), f"{s}.self")
            y = t.norm(z, "layer", name=f"{s}.norm2") if cross_norm else z
            x[s] = t.add(z, _attended(t, y, text[s], heads, f"{s}.cross"), name=f"{s}.cross.residual")
        for s, other in (("video", "audio"), ("audio", "video"))[: 2 * bool(audio_width)]:
            y, z = (_modulated_norm(t, x[name], None, f"{name}.to_{s}.norm") for name in (s, other))
            x[s] = _gated(t, x[s], _attended(t, y, z, heads, f"{other}.to_{s}", audio_width), f"{other}.to_{s}")
        for s, size in sizes.items():
            y = _modulated_norm(t, x[s], None, f"{s}.norm3")
            x[s] = _gated(t, x[s], mlp(t, y, hidden * size // width, name=f"{s}.mlp"), f"{s}.mlp")
    for s, size in sizes.items():
        t.parameter(2 * size, f"{s}.final.factors")
        t.linear(_modulated_norm(t, x[s], None, f"{s}.final.norm"), features, name=f"{s}.final.linear")
    return t.ops()


def z_image(
    width: int = 3840,
    depth: int = 30,
    refiners: int = 2,
    heads: int = 30,
    hidden: int = 10240,
    time: int = 256,
    image: int = 1024,
    tokens: int = 512,
    context: int = 2560,
) -> Ops:
    """Build Z-Image (Tongyi-MAI): blocks on image and prompt together, after a few on each alone.

    Parameters
    ----------
    width, depth, refiners, heads, hidden : int
        Features, blocks on both, blocks on each alone, attention heads, hidden units of the gated MLP.
    time, image : int
        Features of the time step; pixels a side.
    tokens, context : int
        Number and width of the prompt's token embeddings.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t, pixels = Trace(), (image // 16) ** 2
    x = t.linear(t.tokens(pixels, 64), width, name="patches")
    text = t.linear(t.norm(t.tokens(tokens, context), "rms", name="text.norm"), width, name="text.in")
    t.parameter(2 * width, "padding")
    condition = t.linear(t.act(t.linear(t.vector(256), 1024, name="time.0"), "silu"), time, name="time.2")
    both = t.tokens(pixels + tokens, width)
    for name, count, start in (("image", refiners, x), ("text", refiners, text), ("both", depth, both)):
        with t.block(name, repeat=count):
            if name != "text":
                t.linear(condition, 4 * width, name="adaln")
            y = self_attention(t, t.norm(start, "rms", name="norm1"), heads, bias=False, qk_norm=True)
            z = _gated(t, start, t.norm(y, "rms", name="norm1.after"), "attention")
            y = mlp(t, t.norm(z, "rms", name="norm2"), hidden, True, "silu", bias=False)
            _gated(t, z, t.norm(y, "rms", name="norm2.after"), "mlp")
    t.linear(condition, width, name="final.adaln")
    t.linear(_modulated_norm(t, t.tokens(pixels, width), None, "final.norm"), 64, name="final.linear")
    return t.ops()


def flux2(
    double: int = 8,
    single: int = 48,
    width: int = 6144,
    heads: int = 48,
    image: int = 1024,
    tokens: int = 512,
    context: int = 15360,
    guidance: bool = True,
) -> Ops:
    """Build FLUX.2 (Black Forest Labs): as FLUX.1 without biases, gated MLPs, factors that all blocks share.

    Parameters
    ----------
    double, single, width, heads : int
        Blocks with two streams and with one, features, attention heads.
    image : int
        Pixels a side; one token stands for 16 x 16.
    tokens, context : int
        Number and width of the prompt's token embeddings.
    guidance : bool
        Whether the strength of guidance is an input.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t, pixels, hidden, size = Trace(), (image // 16) ** 2, 3 * width, width // heads
    inputs = (("image", pixels, 128), ("text", tokens, context))
    streams = {name: t.linear(t.tokens(n, features), width, False, f"{name}.in") for name, n, features in inputs}
    times = [_embed_scalar(t, 256, width, name, False) for name in ("time", "guidance")[: 1 + guidance]]
    for name, parts in (("image", 6), ("text", 6), ("single", 3), ("final", 2)):
        t.linear(t.act(times[0], "silu", f"{name}.silu"), parts * width, False, f"{name}.adaln")
    x = t.tokens(pixels + tokens, width)
    with t.block("double", repeat=double):
        t.parameter(4 * size, "qk_norm")
        t.attention(x, heads)
        for name, stream in streams.items():
            t.linear(_modulated_norm(t, stream, None, f"{name}.norm1"), 3 * width, False, f"{name}.qkv")
            y = _gated(t, stream, t.linear(stream, width, False, f"{name}.out"), f"{name}.attention")
            z = mlp(
                t, _modulated_norm(t, y, None, f"{name}.norm2"), hidden, True, "silu", bias=False, name=f"{name}.mlp"
            )
            _gated(t, y, z, f"{name}.mlp")
    with t.block("single", repeat=single):
        y = t.linear(_modulated_norm(t, x, None, "norm"), 3 * width + 2 * hidden, False, "qkv_and_up")
        t.parameter(2 * size, "qk_norm")
        up = t.multiply(t.act(y.with_channels(hidden), "silu"), y.with_channels(hidden), name="product")
        z = t.concat([t.attention(y.with_channels(width), heads), up])
        x = _gated(t, x, t.linear(z, width, False, "out_and_down"), "single")
    t.linear(_modulated_norm(t, t.tokens(pixels, width), None, "final.norm"), 128, False, "final.linear")
    return t.ops()
