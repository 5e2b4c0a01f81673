"""Reader of Caffe prototxt files: Google's text format of messages, with a small parser of its own.

Layers and their parameters follow caffe.proto (https://github.com/BVLC/caffe, src/caffe/proto/caffe.proto).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cookbook.catalog.reading import check_names
from cookbook.units import shown
from cookbook.workloads.arguments import MAX_ELEMENTS, check_possible, naming, sample_sizes, stated, whole
from cookbook.workloads.layers import Shape, Trace
from cookbook.workloads.limits import MAX_FILE_LAYERS
from cookbook.workloads.readers import tables
from cookbook.workloads.readers.fields import listed, titled
from cookbook.workloads.zoo import Workload

Message = dict[str, list[Any]]
MAX_DEPTH, MOST_TOKENS = 16, 500_000
LONGEST_SIDE = 2**20
# Files of HPE's benchmarking suite have one of two inputs behind such a mark, which its launcher removes.
TEMPLATE = "#synthetic "


def is_prototxt(words: str) -> bool:
    """Return True if a text looks like a network of Caffe."""
    begin = words[:65536]
    marks = ("layer {", "layer{", "layers {", "layers{", "input_dim:", "input_shape")
    return any(mark in begin for mark in marks)


def parsed(words: str) -> Message:
    """Parse a text of messages into nested dicts: each field is a list of its values.

    Raises
    ------
    ValueError
        If the text is not such a message, is nested too deeply or has too many words.

    Examples
    --------
    >>> parsed('name: "n" layer { type: "ReLU" }')
    {'name': ['n'], 'layer': [{'type': ['ReLU']}]}
    """
    top: Message = {}
    stack, name, number = [top], "", 0
    for number, token in enumerate(_tokens(words), start=1):
        if number > MOST_TOKENS:
            raise ValueError(f"the prototxt has more than {MOST_TOKENS:,} words")
        if token == "}":
            if len(stack) == 1 or name:
                raise ValueError(f"the prototxt closes a message that was not opened, at word {number:,}")
            stack.pop()
        elif token == "{":
            if not name or len(stack) >= MAX_DEPTH:
                raise ValueError(
                    f"the prototxt has a message without a name or nested deeper than {MAX_DEPTH}, at word {number:,}"
                )
            inner: Message = {}
            stack[-1].setdefault(name, []).append(inner)
            stack.append(inner)
            name = ""
        elif not name:
            name = token
        elif token != ":":
            stack[-1].setdefault(name, []).append(_value(token))
            name = ""
    if len(stack) > 1 or name:
        raise ValueError("the prototxt ends within a message; it is damaged")
    return top


def _tokens(words: str) -> Iterator[str]:
    """Yield braces, colons, names, numbers, and texts with their quotation marks."""
    at, end = 0, len(words)
    while at < end:
        letter = words[at]
        if letter in " \t\r\n,;":
            at += 1
        elif letter == "#":
            line = words.find("\n", at)
            at = end if line < 0 else line
        elif letter in "{}:<>":
            yield {"<": "{", ">": "}"}.get(letter, letter)
            at += 1
        elif letter in "\"'":
            closing = words.find(letter, at + 1)
            if closing < 0:
                raise ValueError("the prototxt ends within a text; it is damaged")
            yield words[at : closing + 1]
            at = closing + 1
        else:
            begin = at
            while at < end and words[at] not in " \t\r\n,;{}:<>#\"'":
                at += 1
            yield words[begin:at]


def _value(token: str) -> Any:
    if token[0] in "\"'":
        return token[1:-1]
    if token in ("true", "false"):
        return token == "true"
    try:
        return int(token)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        return token


def read(words: str, changes: Mapping[str, Any], title: str = "") -> Workload:
    """Read a network from the text of a prototxt.

    Parameters
    ----------
    words : str
        The text.
    changes : mapping
        ``shape`` of one sample, (3, 224, 224), where the file does not state it; ``title``.
    title : str
        Printed name where the file has none.

    Raises
    ------
    ValueError
        If the text is damaged, an input has no known shape or a layer is unsupported; the message names it.
    """
    check_names(changes, ("shape", "title"), "a prototxt")
    net = parsed(words.replace(TEMPLATE, "") if TEMPLATE in words else words)
    layers = [layer for layer in net.get("layer", []) + net.get("layers", []) if isinstance(layer, dict)]
    if not 0 < len(layers) <= MAX_FILE_LAYERS:
        raise ValueError(f"the prototxt has {len(layers):,} layers; it must have 1 to {MAX_FILE_LAYERS:,}")
    layers = [layer for layer in layers if not _only_in_tests(layer)]
    network = _Network(_inputs(net, layers, changes.get("shape")))
    skip = set[int]()
    for place, layer in enumerate(layers):
        if place not in skip:
            after = layers[place + 1] if place + 1 < len(layers) else None
            if network.layer(layer, place, after):
                skip.add(place + 1)
    ops = network.trace.ops()
    check_possible(ops, "the work of the prototxt's network cannot be counted; check its sizes")
    if network.unknown:
        network.assumed.append(f"layers left out, since their work is not known: {listed(sorted(network.unknown))}")
    stated = net.get("name", [""])[0]
    name = changes.get("title") or (stated if isinstance(stated, str) and stated.strip() else title) or "Caffe network"
    return Workload(
        "custom",
        titled(name[:200] if isinstance(name, str) else name),
        ops,
        task="",
        data_kind="images",
        sample="image",
        assumed=tuple(network.assumed),
    )


def _only_in_tests(layer: Message) -> bool:
    rules = [rule for rule in layer.get("include", []) if isinstance(rule, dict)]
    return bool(rules) and all(rule.get("phase", [""])[0] in ("TEST", 1) for rule in rules)


def _inputs(net: Message, layers: list[Message], shape: Any) -> dict[str, Shape]:
    """Return the shapes of the input blobs."""
    names = [str(name) for name in net.get("input", [])]
    sizes = [[*group.get("dim", [])] for group in net.get("input_shape", []) if isinstance(group, dict)]
    flat = net.get("input_dim", [])
    sizes += [flat[begin : begin + 4] for begin in range(0, len(flat) - 3, 4)]
    for layer in layers:
        if _operation(layer).kind == "input":
            names.append(str(layer.get("top", ["data"])[0]))
            sizes.append(_of_data_layer(layer))
    if not names:
        raise ValueError("the prototxt has no input; give a layer of type Input with its shape")
    if shape is not None:
        sizes = [[1, *sample_sizes(shape, "(3, 224, 224)")], *sizes[1:]]
    shapes = {}
    for name, size in zip(names, sizes, strict=False):
        if len(size) < 2:
            continue
        _, channels, *space = size
        shapes[name] = Shape(
            whole(channels, "input channels", LONGEST_SIDE), tuple(whole(side, "input", LONGEST_SIDE) for side in space)
        )
    if not shapes:
        raise ValueError(
            f"the shape of input {shown(names[0])} is not in the prototxt; give shape= of one sample, "
            "such as (3, 224, 224)"
        )
    return shapes


def _of_data_layer(layer: Message) -> list[Any]:
    for field in ("input_param", "dummy_data_param"):
        for group in layer.get(field, []):
            for shape in group.get("shape", []) if isinstance(group, dict) else []:
                return list(shape.get("dim", [])) if isinstance(shape, dict) else []
    for field in ("transform_param", "data_param", "image_data_param"):
        for group in layer.get(field, []):
            if isinstance(group, dict) and group.get("crop_size"):
                return [1, 3, group["crop_size"][0], group["crop_size"][0]]
    return []


def _kind(layer: Message) -> str:
    kind = layer.get("type", [""])[0]
    if not isinstance(kind, str):
        return ""
    if kind.isupper() and kind not in ("ELU", "LRN", "LSTM", "RNN"):  # of the first version of the format
        operation = tables.operation("caffe", kind)
        return operation.meaning if operation.kind == "old name" else kind.title().replace("_", "")
    return kind


def _operation(layer: Message) -> tables.Operation:
    """Return the operation that a layer is counted as."""
    return tables.operation("caffe", _kind(layer))


class _Network:
    """Blobs by name, and the layers that make them."""

    def __init__(self, blobs: dict[str, Shape]) -> None:
        self.trace, self.blobs = Trace(), blobs
        self.assumed: list[str] = []
        self.unknown: set[str] = set()

    def layer(self, layer: Message, place: int, after: Message | None) -> bool:
        """Write one layer; True where it took the next one in (a norm and its scale)."""
        kind, name = _kind(layer), str(layer.get("name", [f"layer {place + 1}"])[0])[:60]
        tops = [str(top) for top in layer.get("top", [])]
        if _operation(layer).kind in ("input", "no layer") or not tops:
            return False
        try:
            xs = [self.blobs[str(bottom)] for bottom in layer.get("bottom", [])]
        except KeyError as missing:
            blob = shown(missing.args[0])
            raise ValueError(f"layer {name!r} of the prototxt needs {blob}, which no layer makes") from None
        scaled = after is not None and _kind(after) == "Scale" and after.get("bottom") == layer.get("top")
        joined = kind == "BatchNorm" and scaled
        with naming(f"layer {name!r} ({kind[:40]}) of the prototxt"):
            if joined and after is not None:
                terms = [
                    group.get("bias_term", [False])[0]
                    for group in after.get("scale_param", [])
                    if isinstance(group, dict)
                ]
                y = self.trace.norm(xs[0], "batch", bias=bool(terms and terms[0] is True), name=name)
                tops += [str(top) for top in after.get("top", [])]
            else:
                y = self._written(kind, name, xs, layer)
        self.blobs.update(dict.fromkeys(tops, y))
        return joined

    def _written(self, kind: str, name: str, xs: list[Shape], layer: Message) -> Shape:
        operation = _operation(layer)
        writer = WRITERS.get(operation.kind)
        if writer is None:
            self.unknown.add(kind[:40] or "(no type)")
            return xs[0]
        return writer(self.trace, xs, layer, name, operation.meaning)


def _group(layer: Message, field: str) -> Message:
    group = layer.get(field, [{}])[0]
    return group if isinstance(group, dict) else {}


def _number(group: Message, field: str, default: int | None = None) -> int:
    return stated(next(iter(group.get(field, [])), None), field, LONGEST_SIDE * 1000, default)


def _pair(group: Message, field: str, default: int, least: int = 1) -> tuple[int, ...]:
    """Return a size for each axis: one number, two, or two fields of their own."""
    stem = field.removesuffix("_size")
    both = [group.get(f"{stem}_{axis}") for axis in ("h", "w")]
    if all(both):
        return tuple(whole(size[0], field, LONGEST_SIDE, least) for size in both if size)
    values = [whole(size, field, LONGEST_SIDE, least) for size in group.get(field, [])[:3]]
    return (values[0], values[0]) if len(values) == 1 else tuple(values) or (default, default)


def _convolution(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    group = _group(layer, "convolution_param")
    biased = group.get("bias_term", [True])[0] is True
    return t.conv(
        xs[0],
        _number(group, "num_output"),
        _pair(group, "kernel_size", 1),
        _pair(group, "stride", 1),
        _pair(group, "pad", 0, 0),
        _number(group, "group", 1),
        _pair(group, "dilation", 1),
        biased,
        meaning == "transposed",
        name,
    )


def _inner_product(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    group = _group(layer, "inner_product_param")
    return t.linear(t.flatten(xs[0]), _number(group, "num_output"), group.get("bias_term", [True])[0] is True, name)


def _pooling(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    group = _group(layer, "pooling_param")
    average = group.get("pool", ["MAX"])[0] in ("AVE", 1)
    if group.get("global_pooling", [False])[0] is True:
        y = t.global_pool(xs[0], name)
        return Shape(y.channels, (1,) * len(xs[0].space), y.tensor)
    return t.pool(
        xs[0],
        _pair(group, "kernel_size", 1),
        _pair(group, "stride", 1),
        _pair(group, "pad", 0, 0),
        "average" if average else "max",
        True,
        name,
    )


def _act(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    if meaning == "prelu":
        shared = _group(layer, "prelu_param").get("channel_shared", [False])[0] is True
        t.parameter(1 if shared else xs[0].channels, f"{name}.slope")
    return t.act(xs[0], meaning, name)


def _scale(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    if len(xs) > 1:
        return t.multiply(*xs[:2], name=name)
    if _kind(layer) == "Bias" or _group(layer, "scale_param").get("bias_term", [False])[0] is True:
        t.parameter(xs[0].channels, f"{name}.offset")
    return xs[0] if _kind(layer) == "Bias" else t.scale(xs[0], name)


def _concat(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    group = _group(layer, "concat_param")
    axis = _number(group, "axis", _number(group, "concat_dim", 1)) - 2
    if axis >= 0 and all(x.channels == xs[0].channels and len(x.space) > axis for x in xs):
        sides = list(xs[0].space)
        sides[axis] = sum(int(x.space[axis]) for x in xs)  # type: ignore[arg-type, misc]
        return t.sample(xs[0], Shape(xs[0].channels, tuple(sides)), name)
    if len(xs) > MAX_ELEMENTS or axis >= 0 or any(x.space != xs[0].space for x in xs):
        raise ValueError("its inputs have different sizes")
    return t.concat(xs, name)


def _eltwise(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    if any(x.channels != xs[0].channels or x.space != xs[0].space for x in xs):
        raise ValueError("its inputs have different sizes")
    product = _group(layer, "eltwise_param").get("operation", ["SUM"])[0] in ("PROD", 0)
    return t.multiply(*xs, name=name) if product else t.add(*xs, name=name)


def _slice(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    parts = max(len(layer.get("top", [])), 1)
    if xs[0].channels % parts or _group(layer, "slice_param").get("slice_point"):
        raise ValueError("only slices of equal parts can be built")
    return Shape(xs[0].channels / parts, xs[0].space)


def _lstm(t: Trace, xs: list[Shape], layer: Message, name: str, meaning: str) -> Shape:
    if len(xs[0].space) != 1 or math.isinf(xs[0].channels):
        raise ValueError("its input must be a sequence")
    return t.recurrent(xs[0], _number(_group(layer, "recurrent_param"), "num_output"), biases=1, name=name)


WRITERS: dict[str, Callable[[Trace, list[Shape], Message, str, str], Shape]] = {
    "convolution": _convolution,
    "linear": _inner_product,
    "pool": _pooling,
    "activation": _act,
    "norm": lambda t, xs, layer, name, meaning: t.norm(xs[0], meaning, affine=False, name=name),
    "scale": _scale,
    "offset": _scale,
    "concatenation": _concat,
    "elementwise": _eltwise,
    "softmax": lambda t, xs, layer, name, meaning: t.softmax(xs[0], name),
    "loss": lambda t, xs, layer, name, meaning: t.loss(xs[0], name),
    "dropout": lambda t, xs, layer, name, meaning: t.dropout(xs[0], name),
    "flatten": lambda t, xs, layer, name, meaning: t.flatten(xs[0]),
    "nothing": lambda t, xs, layer, name, meaning: xs[0],
    "slice": _slice,
    "recurrent": _lstm,
}
