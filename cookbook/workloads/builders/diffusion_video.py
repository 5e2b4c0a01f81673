"""Diffusion transformers for images and videos: one stream with cross-attention on the prompt (Wan, LTX-Video), streams
of video and sound (LTX-2), one stream of image and prompt (CogVideoX, Z-Image), and FLUX.2.

As in `diffusion`, one call of the denoising network; autoencoder and text encoder are frozen and are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from cookbook.workloads.layers import Shape, Trace, mlp, self_attention
from cookbook.workloads.ops import Ops


def _embedded_time(t: Trace, width: int, bias: bool = True, name: str = "time", inputs: int = 256) -> Shape:
    x = t.act(t.linear(t.vector(inputs), width, bias, f"{name}.0"), "silu", f"{name}.silu")
    return t.linear(x, width, bias, f"{name}.2")


def _modulated(t: Trace, x: Shape, name: str, affine: bool = False, kind: str = "layer") -> Shape:
    """Write a norm and the product with a factor that the time step gives."""
    y = t.norm(x, kind, affine=affine, name=name)
    return t.multiply(y, t.vector(x.channels), name=f"{name}.modulate")


def _gated(t: Trace, x: Shape, y: Shape, name: str) -> Shape:
    """Write the end of a branch: a product with a factor that the time step gives, and the residual."""
    return t.add(x, t.multiply(y, t.vector(x.channels), name=f"{name}.gate"), name=f"{name}.residual")


def _attended(
    t: Trace, x: Shape, memory: Shape, heads: int, name: str, inner: int | None = None, out: int | None = None
) -> Shape:
    """Write attention with biases and norms over all heads together; keys and values are those of `memory`."""
    width = inner or int(x.channels)
    q = t.linear(x, width, True, f"{name}.q")
    for part in ("k", "v"):
        t.linear(memory, width, True, f"{name}.{part}")
    t.parameter(2 * width, f"{name}.qk_norm")
    y = t.attention(q, heads, memory=memory.with_channels(width), name=f"{name}.core")
    return t.linear(y, out or int(x.channels), True, f"{name}.out")


def _prompt(t: Trace, tokens: int, context: int, width: int, name: str = "text") -> Shape:
    x = t.act(t.linear(t.tokens(tokens, context), width, name=f"{name}.0"), "gelu", f"{name}.gelu")
    return t.linear(x, width, name=f"{name}.2")


# ---- one stream, the prompt by cross-attention ----------------------------------------------------------------


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
) -> Ops:
    """Build a diffusion transformer that reads the prompt by cross-attention: Wan (Wan Team, arXiv:2503.20314),
    LTX-Video (HaCohen et al., arXiv:2501.00103).

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

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    frames, height, breadth = grid
    x = t.linear(t.tokens(frames * height * breadth, features), width, name="patches")
    text = _prompt(t, tokens, context, width)
    t.linear(t.act(_embedded_time(t, width), "silu", "time.out.silu"), 6 * width, name="time.out")
    with t.block("blocks", repeat=depth):
        t.parameter(6 * width, "factors")
        y = _modulated(t, x, "norm1")
        x = _gated(t, x, _attended(t, y, y, heads, "self"), "self")
        y = t.norm(x, "layer", name="norm2") if cross_norm else x
        x = t.add(x, _attended(t, y, text, heads, "cross"), name="cross.residual")
        x = _gated(t, x, mlp(t, _modulated(t, x, "norm3"), hidden), "mlp")
    t.parameter(2 * width, "final.factors")
    t.linear(_modulated(t, x, "final.norm"), features, name="final.linear")
    return t.ops()


# ---- streams of video and sound -------------------------------------------------------------------------------


def audio_video(
    width: int = 4096,
    audio_width: int = 2048,
    depth: int = 48,
    heads: int = 32,
    features: int = 128,
    grid: Sequence[int] = (16, 16, 24),
    audio_tokens: int = 126,
    tokens: int = 1024,
    context: int = 3840,
) -> Ops:
    """Build LTX-2 (Lightricks): streams of video and of sound that read the prompt and each other by cross-attention.

    Parameters
    ----------
    width, audio_width, depth, heads : int
        Features of both streams, blocks, attention heads of each stream.
    features : int
        Numbers of either latent in one patch.
    grid, audio_tokens : sequence of int, int
        Patches of the video in time, height and width; patches of the sound.
    tokens, context : int
        Number and width of the prompt's token embeddings.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    frames, height, breadth = grid
    sizes = {"video": width, "audio": audio_width}
    counts = {"video": frames * height * breadth, "audio": audio_tokens}
    x = {s: t.linear(t.tokens(counts[s], features), sizes[s], name=f"{s}.patches") for s in sizes}
    text = {s: _prompt(t, tokens, context, sizes[s], f"{s}.text") for s in sizes}
    for s, size in sizes.items():
        for part, number in (("time", 6), ("shift", 4), ("gate", 1)):
            name = f"{s}.{part}"
            t.linear(
                t.act(_embedded_time(t, size, name=name), "silu", f"{name}.silu"), number * size, name=f"{name}.out"
            )
    with t.block("blocks", repeat=depth):
        for s, size in sizes.items():
            t.parameter(11 * size, f"{s}.factors")
            y = _modulated(t, x[s], f"{s}.norm1")
            x[s] = _gated(t, x[s], _attended(t, y, y, heads, f"{s}.self"), f"{s}.self")
            y = t.norm(x[s], "rms", affine=False, name=f"{s}.norm2")
            x[s] = t.add(x[s], _attended(t, y, text[s], heads, f"{s}.cross"), name=f"{s}.cross.residual")
        y = {s: _modulated(t, x[s], f"{s}.norm3", kind="rms") for s in sizes}
        for s, other in (("video", "audio"), ("audio", "video")):
            read = _attended(t, y[s], y[other], heads, f"{other}_to_{s}", inner=audio_width)
            x[s] = _gated(t, x[s], read, f"{other}_to_{s}")
        for s, size in sizes.items():
            x[s] = _gated(t, x[s], mlp(t, _modulated(t, x[s], f"{s}.norm4"), 4 * size, name=f"{s}.mlp"), f"{s}.mlp")
    for s, size in sizes.items():
        t.parameter(2 * size, f"{s}.final.factors")
        t.linear(_modulated(t, x[s], f"{s}.final.norm"), features, name=f"{s}.final.linear")
    return t.ops()


# ---- one stream of image and prompt ---------------------------------------------------------------------------


def cogvideox(
    width: int = 3072,
    depth: int = 42,
    heads: int = 48,
    time: int = 512,
    grid: Sequence[int] = (13, 30, 45),
    tokens: int = 226,
    context: int = 4096,
) -> Ops:
    """Build CogVideoX (Yang et al., arXiv:2408.06072): attention over video and prompt together, norms for each.

    Parameters
    ----------
    width, depth, heads, time : int
        Features, blocks, attention heads; features of the time step.
    grid : sequence of int
        Patches in time, height and width.
    tokens, context : int
        Number and width of the prompt's token embeddings.

    Returns
    -------
    Ops
        Fixed input, so only the batch is symbolic.
    """
    t = Trace()
    frames, height, breadth = grid
    patches = frames * height * breadth
    t.linear(t.tokens(patches, 64), width, name="patches")
    t.linear(t.tokens(tokens, context), width, name="text.in")
    condition = _embedded_time(t, time, inputs=width)
    x = t.tokens(patches + tokens, width)
    with t.block("blocks", repeat=depth):
        for part in ("attention", "mlp"):
            t.linear(t.act(condition, "silu", f"{part}.silu"), 6 * width, name=f"{part}.adaln")
            y = _modulated(t, x, f"{part}.norm", affine=True)
            if part == "attention":
                t.parameter(4 * (width // heads), "qk_norm")
                y = self_attention(t, y, heads)
            else:
                y = mlp(t, y, 4 * width)
            x = _gated(t, x, y, part)
    x = t.norm(t.norm(x, "layer", name="norm"), "layer", name="final.norm").with_channels(width)
    t.linear(t.act(condition, "silu", "final.silu"), 2 * width, name="final.adaln")
    t.linear(t.tokens(patches, width), 64, name="final.linear")
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
    t = Trace()
    pixels = (image // 16) ** 2
    x = t.linear(t.tokens(pixels, 64), width, name="patches")
    text = t.linear(t.norm(t.tokens(tokens, context), "rms", name="text.norm"), width, name="text.in")
    t.parameter(2 * width, "padding")
    condition = t.linear(t.act(t.linear(t.vector(256), 1024, name="time.0"), "silu"), time, name="time.2")

    def block(x: Shape, modulated: bool) -> Shape:
        if modulated:
            t.linear(condition, 4 * width, name="adaln")
        for part in ("attention", "mlp"):
            y = t.norm(x, "rms", name=f"{part}.norm1")
            if part == "attention":
                y = self_attention(t, y, heads, bias=False, qk_norm=True)
            else:
                y = mlp(t, y, hidden, True, "silu", bias=False)
            y = t.norm(y, "rms", name=f"{part}.norm2")
            x = _gated(t, x, y, part) if modulated else t.add(x, y, name=f"{part}.residual")
        return x

    for name, start, modulated in (("image", x, True), ("text", text, False)):
        with t.block(f"{name}.blocks", repeat=refiners):
            block(start, modulated)
    x = t.tokens(pixels + tokens, width)
    with t.block("blocks", repeat=depth):
        x = block(x, True)
    t.linear(condition, width, name="final.adaln")
    t.linear(_modulated(t, t.tokens(pixels, width), "final.norm"), 64, name="final.linear")
    return t.ops()


# ---- FLUX.2 ---------------------------------------------------------------------------------------------------


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
    t = Trace()
    pixels, hidden, size = (image // 16) ** 2, 3 * width, width // heads
    x = t.linear(t.tokens(pixels, 128), width, False, "image.in")
    text = t.linear(t.tokens(tokens, context), width, False, "text.in")
    for name in ("time", "guidance")[: 1 + guidance]:
        condition = _embedded_time(t, width, False, name)
    for name, parts in (("image.adaln", 6), ("text.adaln", 6), ("single.adaln", 3), ("final.adaln", 2)):
        t.linear(t.act(condition, "silu", f"{name}.silu"), parts * width, False, name)
    with t.block("double", repeat=double):
        for name, stream in (("image", x), ("text", text)):
            t.linear(_modulated(t, stream, f"{name}.norm1"), 3 * width, False, f"{name}.qkv")
        t.parameter(4 * size, "qk_norm")
        t.attention(t.tokens(pixels + tokens, width), heads)
        for name, stream in (("image", x), ("text", text)):
            y = _gated(t, stream, t.linear(stream, width, False, f"{name}.out"), f"{name}.attention")
            z = mlp(t, _modulated(t, y, f"{name}.norm2"), hidden, True, "silu", bias=False, name=f"{name}.mlp")
            _gated(t, y, z, f"{name}.mlp")
    x = t.tokens(pixels + tokens, width)
    with t.block("single", repeat=single):
        y = t.linear(_modulated(t, x, "norm"), 3 * width + 2 * hidden, False, "qkv_and_up")
        t.parameter(2 * size, "qk_norm")
        z = t.attention(y.with_channels(width), heads)
        up = t.multiply(t.act(y.with_channels(hidden), "silu"), y.with_channels(hidden), name="product")
        x = _gated(t, x, t.linear(t.concat([z, up]), width, False, "out_and_down"), "single")
    t.linear(_modulated(t, t.tokens(pixels, width), "final.norm"), 128, False, "final.linear")
    return t.ops()
