"""Keras layers as operations, and the graph that connects them; `keras` reads the files."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads.arguments import naming, sample_sizes, stated, whole
from cookbook.workloads.layers import Shape, Trace
from cookbook.workloads.limits import MAX_FILE_LAYERS, MAX_REFERENCES
from cookbook.workloads.readers import tables

Config = Mapping[str, Any]
MODELS = ("Sequential", "Functional", "Model")
MAX_DEPTH, LONGEST_SIDE, MAX_FEATURES = 8, 2**20, 10**9


def fields_of(layer: Any) -> Config:
    """Return the fields of a layer or model; an old Sequential was a list of its layers."""
    fields = layer.get("config") if isinstance(layer, Mapping) else None
    return {"layers": fields} if isinstance(fields, list) else fields if isinstance(fields, Mapping) else {}


def text_of(fields: Config, name: str) -> str:
    """Return a field as text; blank where it is not text."""
    value = fields.get(name)
    return value[:60] if isinstance(value, str) else ""


class Node(NamedTuple):
    """One use of a layer: its name, and its input tensors."""

    layer: Any
    name: str
    place: int
    needs: list[tuple[str, int, int]]


class Network:
    """Tensors by the layer that makes them, and the operations."""

    def __init__(self, shape: Any) -> None:
        if shape is not None:
            sample_sizes(shape, "(224, 224, 3)")
        self.trace, self.shape, self.assumed = Trace(), cast(Any, shape), list[str]()
        self.stated, self.given = list[tuple[Any, ...]](), False  # sizes of inputs that state them; whether shape went
        self.written, self.depth, self.axes, self.seen = 0, 0, -1, 0

    def model(self, found: Config, inputs: list[Shape] | None) -> list[Shape]:
        """Write a model and return its outputs."""
        layers = fields_of(found).get("layers")
        if not isinstance(layers, list) or not layers:
            raise ValueError("the Keras model has no list of layers")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"the Keras model has models within models deeper than {MAX_DEPTH}")
        graph = any(isinstance(layer, Mapping) and layer.get("inbound_nodes") for layer in layers)
        outputs = self._graph(found, layers, inputs) if graph else self._chain(found, layers, inputs)
        self.depth -= 1
        return outputs

    def _chain(self, model: Config, layers: list[Any], inputs: list[Shape] | None) -> list[Shape]:
        """Write a Sequential model."""
        x = inputs[0] if inputs else None
        stated = fields_of(model).get("build_input_shape")
        for layer in layers:
            fields, name = fields_of(layer), text_of(fields_of(layer), "name") or "layer"
            if x is None:
                x = self._input(fields, name, stated)
            if not isinstance(layer, Mapping) or layer.get("class_name") != "InputLayer":
                x = self.layer(layer, name, [x])[0]
        return [] if x is None else [x]

    def _graph(self, model: Config, layers: list[Any], inputs: list[Shape] | None) -> list[Shape]:
        """Write a Functional model: every node as soon as its inputs are available."""
        tensors, waiting, sources = dict[tuple[str, int], list[Shape]](), list[Node](), inputs
        order = {name: place for place, (name, *_) in enumerate(self.references(fields_of(model).get("input_layers")))}
        for layer in layers:
            name = text_of(layer if isinstance(layer, Mapping) else {}, "name") or text_of(fields_of(layer), "name")
            if isinstance(layer, Mapping) and layer.get("class_name") == "InputLayer":
                place = order.get(name, len(tensors))
                source = sources[min(place, len(sources) - 1)] if sources else self._input(fields_of(layer), name, None)
                tensors[name, 0] = [source]
                continue
            nodes = layer.get("inbound_nodes") if isinstance(layer, Mapping) else None
            for place, node in enumerate(nodes if isinstance(nodes, list) else []):
                waiting.append(Node(layer, name, place, list(self.references(node))))
        self._in_order(waiting, tensors)
        ends = [(layer_name, at) for layer_name, at, _ in self.references(fields_of(model).get("output_layers"))]
        return [tensors[end][0] for end in ends if end in tensors] or list(tensors.values())[-1]

    def _in_order(self, waiting: list[Node], made: dict[tuple[str, int], list[Shape]]) -> None:
        """Write each node once its inputs are available; each reference is visited once."""
        missing, takers = list[int](), dict[tuple[str, int], list[int]]()
        for number, node in enumerate(waiting):
            needs = {(layer_name, at) for layer_name, at, _ in node.needs} - made.keys()
            missing.append(len(needs) if node.needs else -1)  # what takes nothing is never made
            for need in needs:
                takers.setdefault(need, []).append(number)
        ready = deque(number for number, count in enumerate(missing) if not count)
        while ready:
            node = waiting[ready.popleft()]
            xs = [
                made[layer_name, at][max(min(tensor, len(made[layer_name, at]) - 1), 0)]
                for layer_name, at, tensor in node.needs
            ]
            made[node.name, node.place] = self.layer(node.layer, node.name, xs, again=node.place > 0)
            for number in takers.pop((node.name, node.place), ()):
                missing[number] -= 1
                if not missing[number]:
                    ready.append(number)
        stuck = next((node for node, count in zip(waiting, missing, strict=True) if count), None)
        if stuck is not None:
            raise ValueError(f"layer {stuck.name!r} of the Keras model needs a tensor that no layer makes")

    def references(self, node: Any, depth: int = 0) -> Iterator[tuple[str, int, int]]:
        """Yield (layer, node, tensor) of everything that a node takes except masks, as versions 2 and 3 write it."""
        self.seen += 1
        if self.seen > MAX_REFERENCES:
            raise ValueError(f"the layers of the Keras model refer to each other more than {MAX_REFERENCES:,} times")
        if isinstance(node, Mapping):
            history = node.get("config", {}).get("keras_history") if isinstance(node.get("config"), Mapping) else None
            entries = [history] if history is not None else [node[key] for key in node if not str(key).endswith("mask")]
        else:
            entries = node if isinstance(node, list) else []
            if (
                len(entries) >= 3
                and isinstance(entries[0], str)
                and all(type(number) is int for number in entries[1:3])
            ):
                yield entries[0], entries[1], entries[2]
                entries = entries[3:]
        for inner in entries if depth < MAX_DEPTH else ():
            if isinstance(inner, Mapping | list):
                yield from self.references(inner, depth + 1)

    def _input(self, fields: Config, name: str, stated: Any) -> Shape:
        """Return the shape of one sample; open sizes must be given."""
        sizes = next((fields[name] for name in ("batch_shape", "batch_input_shape") if fields.get(name)), stated)
        sizes = list(sizes)[1:] if isinstance(sizes, list) else None
        if sizes and None not in sizes:
            self.stated.append(tuple(sizes))
        elif self.shape is None:
            raise ValueError(
                f"input {name!r} of the Keras model has no size; give shape= of one sample, such as (224, 224, 3)"
            )
        elif self.given:
            raise ValueError("several inputs of the Keras model are open: save the model with their sizes")
        else:
            if sizes and (len(sizes) != len(self.shape) or any(map(lambda a, b: a and a != b, sizes, self.shape))):
                raise self.differs(tuple(sizes))
            sizes, self.given = list(self.shape), True
        *space, channels = [whole(side, "shape", LONGEST_SIDE) for side in sizes[:5]]
        self.axes = max(self.axes, len(space))
        return Shape(channels, tuple(space))

    def differs(self, stated: tuple[Any, ...]) -> ValueError:
        """Return the error for a given shape that is not what the model states."""
        return ValueError(f"shape = {shown(tuple(self.shape))} but the model states {shown(stated)}; leave it out")

    def layer(self, layer: Any, name: str, xs: list[Shape], again: bool = False) -> list[Shape]:
        """Write one layer; a further use of it adds no parameters."""
        kind = text_of(layer if isinstance(layer, Mapping) else {}, "class_name")
        self.written += 1
        if self.written > MAX_FILE_LAYERS:
            raise ValueError(f"the Keras model has more than {MAX_FILE_LAYERS:,} layers")
        begin = len(self.trace.rows)
        outputs = self.model(layer, xs) if kind in MODELS else [self._written(kind, fields_of(layer), name, xs)]
        for row in self.trace.rows[begin:] if again else ():
            row["parameters"] = row["active_parameters"] = 0.0
        return outputs

    def _written(self, kind: str, fields: Config, name: str, xs: list[Shape]) -> Shape:
        operation = tables.operation("keras", kind)
        if operation.kind == "code":
            raise ValueError(
                f"layer {name!r} of the Keras model is code ({kind}), which is not run; put a layer of "
                "Keras in its place, or give the network as ONNX"
            )
        writer = WRITERS.get(operation.kind)
        if writer is None:
            raise ValueError(
                f"layer {name!r} of the Keras model is of class {kind or '(none)'}, which is not known "
                "here; give the network as ONNX, or its layers (cb.layers)"
            )
        with naming(f"layer {name!r} ({kind}) of the Keras model"):
            if fields.get("data_format") == "channels_first":
                raise ValueError("data_format = channels_first cannot be read; save the model with channels_last")
            return writer(self, xs, fields, name, operation.meaning)


def _count(fields: Config, name: str, usual: int | None = None) -> int:
    return stated(fields.get(name), name, MAX_FEATURES, usual)


def _sides(fields: Config, name: str, axes: int, usual: Any = 1) -> tuple[int, ...]:
    """Return a number for each axis."""
    value = fields.get(name)
    value = usual if value is None else value
    sides = list(value) if isinstance(value, list | tuple) else [value] * axes
    if len(sides) != axes:
        raise refused(name, value, f"must have {axes} numbers")
    return tuple(whole(side, name, LONGEST_SIDE) for side in sides)


def _padding(fields: Config) -> str:
    padding = fields.get("padding", "valid")
    if padding not in ("valid", "same", "causal"):
        raise refused("padding", padding, "must be valid, same or causal")
    return "same" if padding == "causal" else str(padding)


def _activate(n: Network, x: Shape, function: Any, name: str) -> Shape:
    """Write an activation by its name, or as Keras writes a function."""
    if isinstance(function, Mapping):
        kind = function.get("class_name")
        if tables.operation("keras", str(kind)).kind == "code":
            raise ValueError("its activation is code, which is not run")
        function = function.get("config") if isinstance(function.get("config"), str) else str(kind).lower()
    if function in (None, "linear"):
        return x
    if function == "softmax":
        return n.trace.softmax(x, f"{name}.softmax")
    activations = tables.operations("keras activations")
    if function not in activations:
        raise ValueError(f"activation {shown(function)} is not known here; known are {', '.join(activations)}")
    return n.trace.act(x, activations[function].meaning, f"{name}.{function}")


def _dense(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    y = n.trace.linear(xs[0], _count(c, "units"), c.get("use_bias") is not False, name)
    return _activate(n, y, c.get("activation"), name)


def _conv(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    x, axes, transposed = xs[0], len(xs[0].space), meaning == "transposed"
    pad: Any = _padding(c)
    pad = 0 if transposed and pad == "valid" else pad
    y = n.trace.conv(
        x,
        _count(c, "filters"),
        _sides(c, "kernel_size", axes),
        _sides(c, "strides", axes),
        pad,
        _count(c, "groups", 1),
        _sides(c, "dilation_rate", axes),
        c.get("use_bias") is not False,
        transposed,
        name,
    )
    return _activate(n, y, c.get("activation"), name)


def _depthwise(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    y = _by_channel(n, xs[0], c, name, c.get("use_bias") is not False)
    return _activate(n, y, c.get("activation"), name)


def _by_channel(n: Network, x: Shape, c: Config, name: str, bias: bool) -> Shape:
    channels, axes = int(x.channels), len(x.space)
    return n.trace.conv(
        x,
        channels * _count(c, "depth_multiplier", 1),
        _sides(c, "kernel_size", axes),
        _sides(c, "strides", axes),
        _padding(c),
        channels,
        _sides(c, "dilation_rate", axes),
        bias,
        name=name,
    )


def _separable(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    y = _by_channel(n, xs[0], c, f"{name}.depthwise", False)
    y = n.trace.conv(y, _count(c, "filters"), 1, bias=c.get("use_bias") is not False, name=f"{name}.pointwise")
    return _activate(n, y, c.get("activation"), name)


def _pool(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    axes = len(xs[0].space)
    size = _sides(c, "pool_size", axes, 2)
    strides = _sides(c, "strides", axes, size)
    return n.trace.pool(xs[0], size, strides, _padding(c), meaning, name=name)


def _global(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    y = n.trace.global_pool(xs[0], name)
    return Shape(y.channels, (1,) * len(xs[0].space), y.tensor) if c.get("keepdims") is True else y


def _norm(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    axis = c.get("axis")
    if (axis if isinstance(axis, list) else [axis]) not in ([None], [-1], [len(xs[0].space) + 1]):
        raise refused("axis", axis, "cannot be read; only the last axis")
    scaled, centred = c.get("scale") is not False, c.get("center") is not False and meaning != "rms"
    y = n.trace.norm(xs[0], meaning, affine=scaled, bias=centred, name=name)
    if centred and not scaled:
        n.trace.parameter(xs[0].channels, f"{name}.beta")
    return y


def _relu(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    return n.trace.act(xs[0], "relu6" if c.get("max_value") == 6 else "relu", name)


def _prelu(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    """Write a PReLU with one slope per element, shared along the given axes."""
    shared, sides = c.get("shared_axes") or [], [*xs[0].space, xs[0].channels]
    slopes = 1.0
    for axis, side in enumerate(sides, start=1):
        slopes *= 1 if axis in shared else float(side)  # type: ignore[arg-type]
    n.trace.parameter(slopes, f"{name}.slope")
    return n.trace.act(xs[0], "prelu", name)


def _dropout(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    return n.trace.dropout(xs[0], name) if c.get("rate", 1) != 0 else xs[0]


def _reshape(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    sizes, elements = list(c["target_shape"]), float(xs[0].elements[0])
    fixed = [whole(size, "target_shape", MAX_FEATURES) for size in sizes if size != -1]
    rest = math.prod(fixed)
    sizes = [whole(elements / rest, "target_shape", MAX_FEATURES) if size == -1 else size for size in sizes]
    return n.trace.reshape(xs[0], sizes[-1], *sizes[:-1])


def _permuted(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    sides = [*xs[0].space, xs[0].channels]
    if sorted(c["dims"]) != list(range(1, len(sides) + 1)):
        raise refused("dims", c["dims"], f"must name each of {len(sides)} axes once")
    *space, channels = [sides[axis - 1] for axis in c["dims"]]
    return n.trace.sample(xs[0], Shape(channels, tuple(space)), name)


def _repeated(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    return n.trace.sample(xs[0], Shape(xs[0].channels, (_count(c, "n"),)), name)


def _edges(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    """Write rows added to both ends of each axis (padding), or removed from them (cropping)."""
    axes, value, sign = len(xs[0].space), c.get(meaning), 1 if meaning == "padding" else -1
    widths = [value] * axes if isinstance(value, int) else list(value or [])
    widths = [widths] if axes == 1 and len(widths) == 2 else widths
    pairs = [[ends, ends] if isinstance(ends, int) else ends for ends in widths]
    sides = [
        side + sign * sum(whole(end, meaning, LONGEST_SIDE, 0) for end in ends)
        for side, ends in zip(xs[0].space, pairs, strict=True)
    ]
    space = tuple(whole(side, meaning, LONGEST_SIDE) for side in sides)
    return n.trace.sample(xs[0], Shape(xs[0].channels, space), name)


def _upsampled(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    factors = _sides(c, "size", len(xs[0].space), 2)
    space = tuple(side * factor for side, factor in zip(xs[0].space, factors, strict=True))
    return n.trace.sample(xs[0], Shape(xs[0].channels, space), name)


def _resized(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    return n.trace.sample(xs[0], Shape(xs[0].channels, (_count(c, "height"), _count(c, "width"))), name)


def _combined(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    if len(xs) < 2:
        raise ValueError("it needs two inputs or more")
    widest = max(xs, key=lambda x: float(x.elements.sum()))
    if any(x.channels not in (1, widest.channels) for x in xs):
        raise ValueError("its inputs have different sizes")
    return n.trace.multiply(*xs, name=name) if meaning == "product" else n.trace.add(*xs, name=name)


def _concatenated(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    axes = len(xs[0].space) + 1
    axis = c.get("axis", -1)
    axis = axis - 1 if isinstance(axis, int) and axis > 0 else axes + axis
    sides = [[*x.space, x.channels] for x in xs]
    if not 0 <= axis < axes or any(
        [*shape[:axis], *shape[axis + 1 :]] != [*sides[0][:axis], *sides[0][axis + 1 :]] for shape in sides
    ):
        raise ValueError(f"its inputs cannot be joined along axis {axis + 1}")
    if axis == axes - 1:
        return n.trace.concat(xs, name)
    *space, channels = [*sides[0][:axis], sum(shape[axis] for shape in sides), *sides[0][axis + 1 :]]  # type: ignore[misc]
    return n.trace.sample(xs[0], Shape(channels, tuple(space)), name)  # type: ignore[arg-type]


def _embedding(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    """Write the rows of a table for a vector of numbers, or for one number."""
    places = (*xs[0].space, int(xs[0].channels))
    return n.trace.embedding(places, _count(c, "input_dim"), _count(c, "output_dim"), name)


def _recurrent(n: Network, xs: list[Shape], c: Config, name: str, meaning: str, both: bool = False) -> Shape:
    """Write a cell over the steps of a sequence, in one direction or in both."""
    if len(xs[0].space) != 1:
        raise ValueError("its input must be a sequence")
    vectors = 0 if c.get("use_bias") is False else 2 if meaning == "gru" and c.get("reset_after", True) else 1
    y = n.trace.recurrent(xs[0], _count(c, "units"), meaning, bidirectional=both, biases=vectors, name=name)
    return y if c.get("return_sequences") is True else Shape(y.channels)


def _both_ways(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    inner = c.get("layer")
    kind = text_of(inner if isinstance(inner, Mapping) else {}, "class_name")
    cells = {
        name: operation.meaning
        for name, operation in tables.operations("keras").items()
        if operation.kind == "recurrent"
    }
    if kind not in cells:
        raise ValueError(f"only {', '.join(cells)} can be read in it, not {kind or 'nothing'}")
    y = _recurrent(n, xs, fields_of(inner), name, cells[kind], both=True)
    return y if c.get("merge_mode", "concat") == "concat" else y.with_channels(y.channels / 2)


def _at_each_step(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    inner = c.get("layer")
    kind = text_of(inner if isinstance(inner, Mapping) else {}, "class_name")
    if kind not in ("Dense", "Activation", "Dropout", "LayerNormalization"):
        raise ValueError(f"only layers that work at each position can be read in it, not {kind or 'nothing'}")
    fields = fields_of(inner)
    if kind == "LayerNormalization":  # its axes are counted without that of the steps
        axes: list[Any] = axis if isinstance(axis := fields.get("axis"), list) else [axis]
        fields = {
            **fields,
            "axis": [
                axis_number + 1 if isinstance(axis_number, int) and axis_number > 0 else axis_number
                for axis_number in axes
            ],
        }
    operation = tables.operations("keras")[kind]
    return WRITERS[operation.kind](n, xs, fields, name, operation.meaning)


def _attention(n: Network, xs: list[Shape], c: Config, name: str, meaning: str) -> Shape:
    """Write projections of query, key and value, attention, and the output projection."""
    query, value = xs[0], xs[1] if len(xs) > 1 else xs[0]
    heads, size, t = _count(c, "num_heads"), _count(c, "key_dim"), n.trace
    wide, biased = _count(c, "value_dim", size), c.get("use_bias") is not False
    out = c.get("output_shape")
    out = out[0] if isinstance(out, list) and len(out) == 1 else out
    q = t.linear(query, heads * size, biased, f"{name}.query")
    keys = xs[2] if len(xs) > 2 else value
    t.linear(keys, heads * size, biased, f"{name}.key")
    t.linear(value, heads * wide, biased, f"{name}.value")
    memory = None if value.space == query.space else value
    y = t.attention(q, heads, head_dim=size, v_dim=wide, memory=memory, name=name)
    return t.linear(
        y, whole(int(query.channels) if out is None else out, "output_shape", MAX_FEATURES), biased, f"{name}.output"
    )


WRITERS: dict[str, Callable[[Network, list[Shape], Config, str, str], Shape]] = {
    "linear": _dense,
    "convolution": _conv,
    "depthwise convolution": _depthwise,
    "separable convolution": _separable,
    "pool": _pool,
    "global pool": _global,
    "norm": _norm,
    "activation": lambda n, xs, c, name, meaning: _activate(n, xs[0], c.get("activation"), name),
    "relu": _relu,
    "prelu": _prelu,
    "function": lambda n, xs, c, name, meaning: _activate(n, xs[0], meaning, name),
    "dropout": _dropout,
    "flatten": lambda n, xs, c, name, meaning: n.trace.flatten(xs[0]),
    "reshape": _reshape,
    "permutation": _permuted,
    "repetition": _repeated,
    "edges": _edges,
    "upsampling": _upsampled,
    "resizing": _resized,
    "combination": _combined,
    "concatenation": _concatenated,
    "embedding": _embedding,
    "recurrent": _recurrent,
    "both directions": _both_ways,
    "each step": _at_each_step,
    "attention": _attention,
    "nothing": lambda n, xs, c, name, meaning: xs[0],
}
