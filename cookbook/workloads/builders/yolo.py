"""One-stage YOLO detectors: v5, v7 to 12, 26 and X, each a table of sizes and of the blocks at its positions.

All have one plan: a backbone of four stages behind a stem, a pool of several windows, a neck that leads the coarse maps
up to the fine ones and back down, and heads on three maps. Blocks are written as `block(t, x, out)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from cookbook.workloads.layers import Shape, Trace, conv_norm, variant_of
from cookbook.workloads.ops import Ops

Inner = Callable[[Trace, Shape], Shape]
Block = Callable[[Trace, Shape, int], Shape]

# Depth, width, widest stage. Ultralytics, cfg/models: yolov5.yaml, yolov8.yaml, v10/yolov10*.yaml, yolo11.yaml,
# yolo12.yaml, yolo26.yaml; YOLOX: Ge et al., arXiv:2107.08430, exps/default (images of 416 pixels for nano and tiny).
_GROWN = {
    "n": (0.5, 0.25, 1024),
    "s": (0.5, 0.5, 1024),
    "m": (0.5, 1.0, 512),
    "l": (1.0, 1.0, 512),
    "x": (1.0, 1.5, 512),
}
_SIZES: dict[str, dict[str, tuple[float, float, int]]] = {
    "5": {
        "n": (0.33, 0.25, 1024),
        "s": (0.33, 0.5, 1024),
        "m": (0.67, 0.75, 1024),
        "l": (1.0, 1.0, 1024),
        "x": (1.33, 1.25, 1024),
    },
    "8": {
        "n": (0.33, 0.25, 1024),
        "s": (0.33, 0.5, 1024),
        "m": (0.67, 0.75, 768),
        "l": (1.0, 1.0, 512),
        "x": (1.0, 1.25, 512),
    },
    "10": {
        "n": (0.33, 0.25, 1024),
        "s": (0.33, 0.5, 1024),
        "m": (0.67, 0.75, 768),
        "b": (0.67, 1.0, 512),
        "l": (1.0, 1.0, 512),
        "x": (1.0, 1.25, 512),
    },
    "11": _GROWN,
    "12": _GROWN,
    "26": _GROWN,
    "x": {
        "nano": (0.33, 0.25, 1024),
        "tiny": (0.33, 0.375, 1024),
        "s": (0.33, 0.5, 1024),
        "m": (0.67, 0.75, 1024),
        "l": (1.0, 1.0, 1024),
        "x": (1.33, 1.25, 1024),
    },
}
_SIZES["5u"] = _SIZES["5"]
# Repeats of the block in the four stages of the backbone and in the neck, before they are scaled by the depth.
_REPEATS = {
    "5": (3, 6, 9, 3, 3),
    "5u": (3, 6, 9, 3, 3),
    "x": (3, 9, 9, 3, 3),
    "8": (3, 6, 6, 3, 3),
    "10": (3, 6, 6, 3, 3),
    "11": (2, 2, 2, 2, 2),
    "12": (2, 2, 4, 4, 2),
    "26": (2, 2, 2, 2, 2),
}
# Of v10, the blocks with depthwise convolutions, by their place among four of the backbone and four of the neck (up to
_DEPTHWISE = {"n": (8,), "s": (4, 8), "m": (4, 7, 8), "b": (4, 5, 7, 8), "l": (4, 5, 7, 8), "x": (3, 4, 5, 7, 8)}
# v9 (Wang et al., arXiv:2402.13616; cfg/models/v9): stem; of each stage the output, and the widths of its block; of
# the neck (up to 4, 3, down to 4, 5) the same; channels into the two blocks that go down; repeats.
_V9: dict[str, tuple] = {
    "t": (
        16,
        ((32, 32, 16), (64, 64, 32), (96, 96, 48), (128, 128, 64)),
        64,
        ((96, 96, 48), (64, 64, 32), (96, 96, 48), (128, 128, 64)),
        (48, 64),
        3,
    ),
    "s": (
        32,
        ((64, 64, 32), (128, 128, 64), (192, 192, 96), (256, 256, 128)),
        128,
        ((192, 192, 96), (128, 128, 64), (192, 192, 96), (256, 256, 128)),
        (96, 128),
        3,
    ),
    "m": (
        32,
        ((128, 128, 64), (240, 240, 120), (360, 360, 180), (480, 480, 240)),
        240,
        ((360, 360, 180), (240, 240, 120), (360, 360, 180), (480, 480, 240)),
        (184, 240),
        1,
    ),
    "c": (
        64,
        ((256, 128, 64), (512, 256, 128), (512, 512, 256), (512, 512, 256)),
        256,
        ((512, 512, 256), (256, 256, 128), (512, 512, 256), (512, 512, 256)),
        (256, 512),
        1,
    ),
    "e": (
        64,
        ((256, 128, 64), (512, 256, 128), (1024, 512, 256), (1024, 512, 256)),
        256,
        ((512, 512, 256), (256, 256, 128), (512, 512, 256), (512, 1024, 512)),
        (256, 512),
        2,
    ),
}
# v7 (Wang et al., arXiv:2207.02696; cfg/deploy, as it answers): stem; of the stages the width of paths and the output;
# convolutions of a path; of the pool; of the neck (up to 4, 3, down to 4, 5) width, width of convolutions, output.
_V7: dict[str, tuple] = {
    "base": (
        (32, 64, 64),
        ((64, 256), (128, 512), (256, 1024), (256, 1024)),
        4,
        512,
        ((256, 128, 256), (128, 64, 128), (256, 128, 256), (512, 256, 512)),
    ),
    "x": (
        (40, 80, 80),
        ((64, 320), (128, 640), (256, 1280), (256, 1280)),
        6,
        640,
        ((256, 256, 320), (128, 128, 160), (256, 256, 320), (512, 512, 640)),
    ),
    "tiny": (
        (32, 64),
        ((32, 64), (64, 128), (128, 256), (256, 512)),
        2,
        256,
        ((64, 64, 128), (32, 32, 64), (64, 64, 128), (128, 128, 256)),
    ),
}
VERSIONS = ("5", "5u", "7", "8", "9", "10", "11", "12", "26", "x")


def yolo(version: str = "8", size: str = "n", image: int = 640, classes: int = 80, heads: int = 1) -> Ops:
    """Build YOLO of a version and a size.

    Parameters
    ----------
    version : str
        "5" (with anchors), "5u" (without, as version 8 of its library runs it), "7" to "12", "26" or "x".
    size : str
        "n", "s", "m", "l" and "x" of most; v7 has "tiny", "base" and "x", v9 "t", "s", "m", "c" and "e", v10 also "b",
        X "nano" and "tiny" too.
    heads : int
        Sets of heads. 10 and 26 train a second one, which answers do without: 2 counts both, as in training.

    Examples
    --------
    >>> yolo("11", "n").parameter_count, yolo("10", "n", heads=2).parameter_count
    (2624064.0, 2775504.0)
    """
    variant_of(dict.fromkeys(VERSIONS), version, "version")
    t = Trace()
    x = t.image(3, image, image)
    if version in ("7", "9"):
        maps = (_yolo9 if version == "9" else _yolo7)(t, x, size)
    else:
        maps = _scaled(t, x, version, size, heads > 1)
    for _ in range(heads):
        if version in ("5", "7"):
            for level in maps:
                t.act(t.conv(level, 3 * (5 + classes), 1, name="head"), "sigmoid")
        elif version == "x":
            _coupled_heads(t, maps, int(maps[0].channels), classes, size == "nano")
        else:
            _heads(t, maps, classes, 1 if version == "26" else 16, version in ("10", "11", "12", "26"))
    return t.ops()


def _conv(t: Trace, x: Shape, out: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: str = "silu") -> Shape:
    return conv_norm(t, x, out, kernel, stride, groups=groups, act=act)


def _separable(t: Trace, x: Shape, out: int, kernel: int = 3, stride: int = 1) -> Shape:
    return _conv(t, _conv(t, x, int(x.channels), kernel, stride, int(x.channels)), out)


def _scaled(t: Trace, x: Shape, version: str, size: str, training: bool) -> list[Shape]:
    """Write backbone and neck of the versions whose sizes are one network scaled in depth and width."""
    depth, width, widest = variant_of(_SIZES[version], size, "size")
    wide = {c: math.ceil(min(c, widest) * width / 8) * 8 for c in (64, 128, 256, 512, 1024)}
    often = [max(1, round(times * depth)) for times in _REPEATS[version]]
    if version == "x":  # its middle stages repeat three times what the first does
        often = [round(3 * depth) * times for times in (1, 3, 3, 1, 1)]
    blocks = _blocks(version, size, often, training)
    down: Block = partial(_separable, stride=2) if size == "nano" else partial(_conv, kernel=3, stride=2)
    last: Block = _separable_stride if version == "10" else down
    x, maps = _stem(t, x, wide[64], version), []
    outs = (wide[256], wide[512]) if version in ("11", "12", "26") else (wide[128], wide[256])
    for stage, out in enumerate((*outs, wide[512], wide[1024])):
        x = (last if stage > 1 else down)(t, x, wide[(128, 256, 512, 1024)[stage]])
        x = _pyramid_pool(t, x, wide[1024]) if version == "x" and stage == 3 else x
        x = blocks[stage](t, x, out)
        maps.append(x)
    top = maps[3] if version in ("x", "12") else _pyramid_pool(t, maps[3], wide[1024])
    if version in ("10", "11", "26"):
        top = _partial_block(t, top, wide[1024], [_attending] * (1 if version == "10" else often[4]))
    return _neck(
        t,
        (maps[1], maps[2], top),
        blocks[4:],
        (wide[256], wide[512], wide[1024]),
        (down, last),
        version in ("5", "5u", "x"),
    )


def _neck(
    t: Trace,
    maps: Sequence[Shape],
    blocks: Sequence[Block],
    wide: Sequence[int],
    down: Sequence[Block],
    narrowed: bool,
    into: Sequence[int] = (),
) -> list[Shape]:
    """Write the path up to the finest map and back down.

    `narrowed` halves a map first and keeps the result for later.
    """
    p3, p4, top = maps
    into = into or wide[:2]
    p5 = _conv(t, top, wide[1]) if narrowed else top
    n4 = blocks[0](t, t.concat([t.resize(p5, 2), p4]), wide[1])
    n4 = _conv(t, n4, wide[0]) if narrowed else n4
    n3 = blocks[1](t, t.concat([t.resize(n4, 2), p3]), wide[0])
    n4 = blocks[2](t, t.concat([down[0](t, n3, into[0]), n4]), wide[1])
    return [n3, n4, blocks[3](t, t.concat([down[1](t, n4, into[1]), p5]), wide[2])]


def _stem(t: Trace, x: Shape, out: int, version: str) -> Shape:
    if version == "x":  # four neighbours side by side
        side = x.space[0] // 2 if isinstance(x.space[0], int) else x.space[0]
        return _conv(t, t.reshape(x, 12, side, side), out, 3)
    if version in ("5", "5u"):
        return conv_norm(t, x, out, 6, 2, 2, act="silu", name="stem")
    return _conv(t, x, out, 3, 2)


def _separable_stride(t: Trace, x: Shape, out: int) -> Shape:
    """Write a halving of the resolution: first the channels, then each channel by itself."""
    return _conv(t, _conv(t, x, out), out, 3, 2, out, act="")


# ---- blocks ---------------------------------------------------------------------------------------------------------
def _blocks(version: str, size: str, often: Sequence[int], training: bool) -> list[Block]:
    """Return the blocks of the four stages and of the neck: up to the maps 4 and 3, down to 4 and 5."""
    times = [*often[:4], *[often[4]] * 4]
    if version in ("5", "5u", "x"):
        return [
            partial(_crossing, times=n, kernel=1, add=place < (3 if version == "x" else 4), apart=size == "nano")
            for place, n in enumerate(times)
        ]
    if version == "8":
        return [_split_block([partial(_bottleneck, add=place < 4)] * n) for place, n in enumerate(times)]
    if version == "10":
        thin = partial(_depthwise_block, large=size in ("n", "s"), both=training)
        return [
            _split_block([thin if place + 1 in _DEPTHWISE[size] else partial(_bottleneck, add=place < 4)] * n)
            for place, n in enumerate(times)
        ]
    narrow, deep = partial(_bottleneck, share=0.5), _nested
    forms: list[Inner] = [deep if size in ("m", "l", "x") else narrow] * 8
    forms[2] = forms[3] = forms[7] = deep
    if version == "26":
        forms[4:] = [deep] * 4
    if version == "12":  # the larger two add the input to the output, which has a factor for each channel
        large = size in ("l", "x")
        local, everywhere = (partial(_areas, hidden=1.2 if large else 2.0, areas=areas) for areas in (4, 1))
        first, last = _split_block([forms[0]] * times[0], 0.25), _split_block([deep] * times[7])
        return [
            first,
            _split_block([forms[1]] * times[1], 0.25),
            _concatenated_block([local] * times[2], large),
            _concatenated_block([everywhere] * times[3], large),
            *[_concatenated_block([deep] * times[4])] * 3,
            last,
        ]
    blocks = [
        _split_block([form] * n, 0.25 if place < 2 else 0.5)
        for place, (form, n) in enumerate(zip(forms, times, strict=True))
    ]
    return [*blocks[:7], _split_block([_attended])] if version == "26" else blocks


def _split_block(inner: Sequence[Inner], share: float = 0.5) -> Block:
    """Return a block whose input is split in two.

    One half passes through `inner`, and all intermediate maps are kept.
    """

    def block(t: Trace, x: Shape, out: int) -> Shape:
        part = int(out * share)
        both = _conv(t, x, 2 * part)
        parts = [both.with_channels(part), both.with_channels(part)]
        with t.block(f"stage{out}"):
            for layer in inner:
                parts.append(layer(t, parts[-1]))
        return _conv(t, t.concat(parts), out)

    return block


def _concatenated_block(inner: Sequence[Inner], add: bool = False) -> Block:
    """Return a block of half the width that keeps all intermediate maps."""

    def block(t: Trace, x: Shape, out: int) -> Shape:
        parts = [_conv(t, x, out // 2)]
        with t.block(f"stage{out}"):
            for layer in inner:
                parts.append(layer(t, parts[-1]))
        y = _conv(t, t.concat(parts), out)
        return t.add(x, t.scale(y)) if add else y

    return block


def _areas(t: Trace, x: Shape, hidden: float, areas: int) -> Shape:
    """Write two layers of attention in the given number of areas."""
    for _ in range(2):
        x = _attending(t, x, 32, 1.0, 7, hidden, areas)
    return x


def _partial_block(t: Trace, x: Shape, out: int, inner: Sequence[Inner]) -> Shape:
    """Write a block of which half the channels pass through `inner`, and the rest bypass it."""
    both = _conv(t, x, out)
    y, rest = both.with_channels(out // 2), both.with_channels(out // 2)
    for layer in inner:
        y = layer(t, y)
    return _conv(t, t.concat([y, rest]), out)


def _crossing(
    t: Trace,
    x: Shape,
    out: int,
    times: int,
    kernel: int,
    add: bool = True,
    apart: bool = False,
    inner: Inner | None = None,
) -> Shape:
    """Write two paths of half the width, with bottlenecks on one of them."""
    y, side = _conv(t, x, out // 2), _conv(t, x, out // 2)
    with t.block(f"stage{out}"):
        for _ in range(times):
            y = inner(t, y) if inner else _bottleneck(t, y, 1.0, add, kernel, apart)
    return _conv(t, t.concat([y, side]), out)


def _bottleneck(
    t: Trace, x: Shape, share: float = 1.0, add: bool = True, kernel: int = 3, apart: bool = False
) -> Shape:
    out = int(x.channels)
    y = _conv(t, x, int(out * share), kernel)
    y = _separable(t, y, out) if apart else _conv(t, y, out, 3)
    return t.add(x, y) if add else y


def _nested(t: Trace, x: Shape) -> Shape:
    return _crossing(t, x, int(x.channels), 2, 3)


def _depthwise_block(t: Trace, x: Shape, large: bool, both: bool) -> Shape:
    """Write depthwise and pointwise convolutions in turn; the `large` one is 7x7, in training with a 3x3 beside it."""
    out = int(x.channels)
    y = _conv(t, _conv(t, x, out, 3, groups=out), 2 * out)
    if large:
        wide = _conv(t, y, 2 * out, 7, groups=2 * out, act="")
        wide = t.add(wide, _conv(t, y, 2 * out, 3, groups=2 * out, act="")) if both else wide
        y = t.act(wide, "silu")
    else:
        y = _conv(t, y, 2 * out, 3, groups=2 * out)
    return t.add(x, _conv(t, _conv(t, y, out), out, 3, groups=out))


def _attending(
    t: Trace, x: Shape, head: int = 64, keys: float = 0.5, kernel: int = 3, hidden: float = 2.0, areas: int = 1
) -> Shape:
    """Write attention with keys of a share of the width, positions by a convolution of values, and an MLP."""
    width = int(x.channels)
    heads = max(width // head, 1)
    key, places = int(width // heads * keys), math.prod(int(side) for side in x.space if isinstance(side, int))
    qkv = _conv(t, x, width + 2 * heads * key, act="")
    y = t.attention(Shape(heads * key, (places,)), heads, heads, key, window=places // areas, v_dim=width // heads)
    where = _conv(t, qkv.with_channels(width), width, kernel, groups=width, act="")
    x = t.add(x, _conv(t, t.add(t.reshape(y, width, *x.space), where), width, act=""))
    return t.add(x, _conv(t, _conv(t, x, int(width * hidden)), width, act=""))


def _attended(t: Trace, x: Shape) -> Shape:
    return _attending(t, _bottleneck(t, x, 0.5))


def _pyramid_pool(t: Trace, x: Shape, out: int, inner: int | None = None) -> Shape:
    parts = [_conv(t, x, inner or int(x.channels) // 2)]
    for _ in range(3):
        parts.append(t.pool(parts[-1], 5, 1, 2))
    return _conv(t, t.concat(parts), out)


# ---- heads ----------------------------------------------------------------------------------------------------------
def _heads(t: Trace, maps: Sequence[Shape], classes: int, bins: int, apart: bool) -> None:
    """Write boxes as `bins` for each side, and classes; `apart` has depthwise convolutions before those of classes."""
    first = int(maps[0].channels)
    box, label = max(16, first // 4, 4 * bins), max(first, min(classes, 100))
    for x in maps:
        y = t.conv(_conv(t, _conv(t, x, box, 3), box, 3), 4 * bins, 1, name="head")
        if bins > 1:
            t.softmax(y, "distances")
        step = _separable if apart else partial(_conv, kernel=3)
        t.act(t.conv(step(t, step(t, x, label), label), classes, 1, name="head"), "sigmoid")


def _coupled_heads(t: Trace, maps: Sequence[Shape], width: int, classes: int, apart: bool) -> None:
    """Write the heads of X: a stem, then two convolutions for classes and two for boxes and objectness."""
    step = _separable if apart else partial(_conv, kernel=3)
    for x in maps:
        stem = _conv(t, x, width)
        for out in (classes, 5):
            t.act(t.conv(step(t, step(t, stem, width), width), out, 1, name="head"), "sigmoid")


# ---- v7 -------------------------------------------------------------------------------------------------------------
def _yolo7(t: Trace, x: Shape, size: str) -> list[Shape]:
    stem, stages, convolutions, pooled, neck = variant_of(_V7, size, "size")
    tiny = size == "tiny"
    for number, width in enumerate(stem):
        x = _conv(t, x, width, 3, 2 if tiny or number == 1 else 1)
    path, maps = partial(_paths, times=convolutions, all_kept=tiny), []
    for stage, (half, out) in enumerate(stages):
        if stage:
            x = t.pool(x, 2, 2) if tiny else _pooled_and_strided(t, x, int(x.channels) // 2)
        elif not tiny:
            x = _conv(t, x, 2 * stem[1], 3, 2)
        x = path(t, x, half, half, out)
        maps.append(x)
    path = partial(_paths, times=convolutions, all_kept=size != "x")
    p5 = _crossing_pool(t, maps[3], pooled, tiny)
    n4, n3 = p5, p5
    for up, side in ((0, maps[2]), (1, maps[1])):
        out = neck[up][2]
        y = path(t, t.concat([_conv(t, side, out), t.resize(_conv(t, n4 if up else p5, out), 2)]), *neck[up])
        n4, n3 = (n4, y) if up else (y, n3)
    maps_out = [n3]
    for down, side in ((2, n4), (3, p5)):
        y, width = maps_out[-1], int(maps_out[-1].channels)
        y = _conv(t, y, 2 * width, 3, 2) if tiny else _pooled_and_strided(t, y, width)
        maps_out.append(path(t, t.concat([y, side]), *neck[down]))
    return [_conv(t, level, 2 * int(level.channels), 3) for level in maps_out]


def _paths(t: Trace, x: Shape, half: int, inner: int, out: int, times: int, all_kept: bool) -> Shape:
    """Write two paths; of the one with convolutions every output is kept, or every second."""
    side, parts = _conv(t, x, half), [_conv(t, x, half)]
    for _ in range(times):
        parts.append(_conv(t, parts[-1], inner, 3))
    return _conv(t, t.concat([side, *(parts if all_kept else parts[::2])]), out)


def _pooled_and_strided(t: Trace, x: Shape, width: int) -> Shape:
    return t.concat([_conv(t, _conv(t, x, width), width, 3, 2), _conv(t, t.pool(x, 2, 2), width)])


def _crossing_pool(t: Trace, x: Shape, width: int, tiny: bool) -> Shape:
    """Write pools of three windows on one of two paths."""
    y, side = _conv(t, x, width), _conv(t, x, width)
    y = y if tiny else _conv(t, _conv(t, y, width, 3), width)
    y = _conv(t, t.concat([y, *(t.pool(y, window, 1, window // 2) for window in (5, 9, 13))]), width)
    return _conv(t, t.concat([y if tiny else _conv(t, y, width, 3), side]), width)


# ---- v9 -------------------------------------------------------------------------------------------------------------
def _yolo9(t: Trace, x: Shape, size: str) -> list[Shape]:
    stem, stages, pooled, neck, into, times = variant_of(_V9, size, "size")
    down = _both_ways if size in ("c", "e") else _averaged
    first = _conv(t, x, stem, 3, 2)
    maps = _yolo9_stages(t, first, stem, stages, down, times)
    if size == "e":
        maps = _second_column(t, x, [first, *maps], stem, stages, times)
    top = _pyramid_pool(t, maps[3], neck[3][0], pooled)
    blocks = [partial(_aggregated, inner=inner, last=last, times=times) for _, inner, last in neck]
    return _neck(t, (maps[1], maps[2], top), blocks, (neck[1][0], neck[0][0], neck[3][0]), (down, down), False, into)


def _yolo9_stages(
    t: Trace,
    x: Shape,
    stem: int,
    stages: Sequence[tuple[int, int, int]],
    down: Block,
    times: int,
    fused: Sequence[Inner] = (),
) -> list[Shape]:
    maps = []
    for stage, (out, inner, last) in enumerate(stages):
        # The channels after the step down are those of the stage before where a stage widens, as in c and e.
        narrow = min(out, int(x.channels)) if stage and down is _both_ways else out
        x = down(t, x, narrow) if stage else _conv(t, x, 2 * stem, 3, 2)
        x = fused[stage](t, x) if fused else x
        x = _aggregated(t, x, out, inner, last, 0 if times == 3 and not stage else times)
        maps.append(x)
    return maps


def _aggregated(t: Trace, x: Shape, out: int, inner: int, last: int, times: int) -> Shape:
    """Write aggregated layers; with `times`, crossing blocks of re-parameterised convolutions before each
    of the two.
    """
    both = _conv(t, x, inner)
    parts = [both.with_channels(inner // 2), both.with_channels(inner // 2)]
    for _ in range(2):
        y = _crossing(t, parts[-1], last, times, 3, inner=_two_kernels) if times else parts[-1]
        parts.append(_conv(t, y, last, 3))
    return _conv(t, t.concat(parts), out)


def _two_kernels(t: Trace, x: Shape) -> Shape:
    """Write a bottleneck whose first convolution is trained as a 3x3 and a 1x1 side by side."""
    out = int(x.channels)
    y = t.act(t.add(_conv(t, x, out, 3, act=""), _conv(t, x, out, act="")), "silu")
    return t.add(x, _conv(t, y, out, 3))


def _averaged(t: Trace, x: Shape, out: int) -> Shape:
    return _conv(t, t.pool(x, 2, 1, kind="average"), out, 3, 2)


def _both_ways(t: Trace, x: Shape, out: int) -> Shape:
    """Write half of the channels by a convolution, half by a max pool."""
    y = t.pool(x, 2, 1, kind="average")
    half = y.with_channels(int(x.channels) // 2)
    pooled = _conv(t, t.pool(half, 3, 2, 1), out // 2)
    return t.concat([_conv(t, half, out // 2, 3, 2), pooled])


def _second_column(
    t: Trace, image: Shape, maps: Sequence[Shape], stem: int, stages: Sequence[tuple[int, int, int]], times: int
) -> list[Shape]:
    """Write the second backbone of e, to which all projected maps of the first are added."""
    places = [stem, 2 * stem, 4 * stem, 8 * stem, 16 * stem]
    for number, x in enumerate(maps):
        t.conv(x, sum(places[: number + 1]), 1, name="bring")

    def fuse(place: int) -> Inner:
        return lambda t, x: t.add(*[x.with_channels(x.channels) for _ in range(len(maps) - place)], x)

    x = fuse(0)(t, _conv(t, image, stem, 3, 2))
    return _yolo9_stages(t, x, stem, stages, _both_ways, times, [fuse(place) for place in range(1, 5)])
