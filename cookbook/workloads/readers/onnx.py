"""Reader of ONNX graphs: nodes, with shapes by ONNX's own inference, and no weights.

The library `onnx` (extra `onnx`) parses the file and infers shapes; it runs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO

from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads.arguments import check_possible, whole
from cookbook.workloads.layers import GATES, Shape, batched, constant, not_batched
from cookbook.workloads.limits import MAX_GRAPH_BYTES, MAX_NODES, MAX_REFERENCES, MAX_TENSORS
from cookbook.workloads.readers import tables
from cookbook.workloads.readers.fields import listed, titled
from cookbook.workloads.readers.graph import MAX_SHAPE_ELEMENTS, Graph
from cookbook.workloads.zoo import Workload

MISSING = (
    "an ONNX file is read by the library onnx, which is not installed: python -m pip install "
    "'dl-cookbook[onnx]', or python -m pip install onnx"
)
MAX_AXES, MAX_DIMENSIONS, LARGEST_AXIS, LONGEST_NAME, MAX_GRAPH_FIELDS = 8, 32, 10**9, 40, 1_500_000
MAX_SHAPE_BYTES = 1024
Inside = dict[int, Any]  # numbers of fields that are messages, and those within them
FLOATS = (1, 10, 11, 16, 17, 18, 19, 20)  # float, half, double, bfloat16 and the formats of 8 bits (onnx.TensorProto)
# Operations whose shapes are required, since without them nothing relevant could be counted.
MATRICES = {
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "MatMulInteger",
    "QLinearMatMul",
    "QLinearConv",
    "FusedMatMul",
    "LSTM",
    "GRU",
}
# Number of required inputs of a node, one by default.
NEEDED = {
    "LSTM": 3,
    "GRU": 3,
    "RNN": 3,
    "Gemm": 2,
    "Conv": 2,
    "ConvTranspose": 2,
    "ConvInteger": 2,
    "QLinearConv": 8,
    "MatMul": 2,
    "MatMulInteger": 2,
    "FusedMatMul": 2,
    "QLinearMatMul": 8,
    "BatchNormalization": 5,
    "Gather": 2,
}
# Quantised forms: positions of their input, weights and bias.
CONVOLUTIONS = {"Conv": (0, 1, 2), "ConvTranspose": (0, 1, 2), "ConvInteger": (0, 1, None), "QLinearConv": (0, 3, 8)}
PRODUCTS = {"MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3), "FusedMatMul": (0, 1)}


def is_graph(head: bytes) -> bool:
    """Return True if a file begins as an ONNX model does: field 1, the version of the format, then another field."""
    return (
        len(head) > 4 and head[0] == 0x08 and 0 < head[1] < 32 and head[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
    )


def read(file: BinaryIO, size: int, changes: Mapping[str, Any], title: str = "") -> Workload:
    """Read a network from an ONNX file.

    Parameters
    ----------
    file, size : binary file, int
        The file and its bytes; tensors kept in files beside it are not read.
    changes : mapping
        ``shape``: of one sample, such as (3, 224, 224), or a dict from the name of an input to its shape, where the
        graph leaves axes open; ``title``.
    title : str
        Printed name.

    Raises
    ------
    ValueError
        If the library is missing (the message explains how to install it), the file is damaged, an axis is open, or
        control flow depends on values.
    """
    if find_spec("onnx") is None:
        raise ValueError(MISSING)
    if size > MAX_GRAPH_BYTES:
        raise ValueError(
            f"the ONNX file has {size:,} bytes; at most {MAX_GRAPH_BYTES:,} can be read (keep its "
            "tensors in a file beside it)"
        )
    check_names(changes, ("shape", "title"), "an ONNX file")
    onnx = import_module("onnx")
    problems = (
        ValueError,
        RuntimeError,
        TypeError,
        MemoryError,
        import_module("google.protobuf.message").DecodeError,
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
    )
    data = file.read(MAX_GRAPH_BYTES)
    _check_fields(data)
    try:
        model = onnx.load_model_from_string(data)
    except problems:
        raise ValueError("the ONNX file cannot be parsed; it is damaged or of another kind") from None
    if model.functions:
        raise ValueError(
            f"the ONNX file has {len(model.functions):,} functions of its own, which are not read; put "
            "them in their places first (onnx.inliner.inline_local_functions)"
        )
    _check_graph(model.graph)
    samples, assumed = _fixed_inputs(model.graph, changes.get("shape"))
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except UnicodeDecodeError:
        raise ValueError("the ONNX graph has a name that is no text; the file is damaged") from None
    except problems as problem:
        words = " ".join(str(problem).split())[:150]
        raise ValueError(f"shapes of the ONNX graph cannot be inferred: {words}") from None
    return _count(
        model.graph, samples, assumed, titled(changes.get("title", title or model.graph.name or "ONNX graph"))
    )


def _check_fields(data: bytes) -> None:
    """Refuse a file with more fields than a graph can need, before the parser makes an object of each.

    ValueError: there are too many. Damaged files are left to the parser.
    """
    tensor: Inside = {}
    value: Inside = {2: {1: {2: {}}}}
    graph: Inside = {5: tensor, 11: value, 12: value, 13: value}
    graph[1] = {5: {5: tensor, 6: graph, 10: tensor, 11: graph}}
    at, end, number = 0, len(data), 0
    fields: Inside = {7: graph, 20: {1: graph, 2: graph}, 25: {7: graph[1]}}
    outer = list[tuple[int, int, Inside]]()  # where to go on behind the messages that this one is in
    while at < end or outer:
        if at >= end:
            at, end, fields = outer.pop()
            continue
        number += 1
        if number > MAX_GRAPH_FIELDS:
            raise ValueError(
                f"the ONNX file has more than {MAX_GRAPH_FIELDS:,} fields; a graph of {MAX_NODES:,} nodes needs fewer"
            )
        key, at = _varint(data, at, end)
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at, end)
        elif kind == 2:
            length, at = _varint(data, at, end)
            behind = min(at + length, end)
            if key >> 3 in fields:
                outer.append((behind, end, fields))
                end, fields = behind, fields[key >> 3]
            else:
                at = behind
        else:
            at += {1: 8, 5: 4}.get(kind, end)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an integer of protobuf, seven bits per byte, and the position after it."""
    value = shift = 0
    while at < end:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128 or shift > 63:
            break
    return value, at


def _check_graph(graph: Any) -> None:
    """Refuse too many nodes or inputs of nodes, impossibly large tensors, and a node without the inputs it needs."""
    if len(graph.node) > MAX_NODES or len(graph.initializer) > MAX_TENSORS:
        raise ValueError(
            f"the ONNX graph has {len(graph.node):,} nodes and {len(graph.initializer):,} tensors of "
            f"weights; at most {MAX_NODES:,} and {MAX_TENSORS:,} are read"
        )
    inputs = sum(len(node.input) for node in graph.node)
    if inputs > MAX_REFERENCES:
        raise ValueError(f"the nodes of the ONNX graph have {inputs:,} inputs; at most {MAX_REFERENCES:,} are read")
    for tensor in graph.initializer:
        _check_shape(tensor.name, tensor.dims)
        if len(tensor.raw_data) > MAX_SHAPE_BYTES:  # weights: their values are of no use here
            tensor.ClearField("raw_data")
    for place, node in enumerate(graph.node):
        least = NEEDED.get(node.op_type, 1 if _kind(node) in WRITERS else 0)
        if len(node.input) < least:
            raise ValueError(
                f"{node.op_type} number {place + 1} of {len(graph.node)} nodes of the ONNX graph has "
                f"{len(node.input)} inputs and needs {least}; export the graph again"
            )


def _check_shape(name: str, dims: Sequence[int]) -> None:
    if len(dims) > MAX_DIMENSIONS or any(dim < 0 for dim in dims) or math.prod(dims) > MAX_SHAPE_ELEMENTS:
        raise ValueError(
            f"tensor {shown(name)} of the ONNX graph has the shape {shown(tuple(dims[:MAX_AXES]))}, "
            f"which cannot be: at most {MAX_DIMENSIONS} axes and {MAX_SHAPE_ELEMENTS:.0e} elements"
        )


def _fixed_inputs(graph: Any, shape: Any) -> tuple[int, list[str]]:
    """Give every open axis of the inputs its size: 1 sample, and `shape` for the rest."""
    weights, samples, assumed = {tensor.name for tensor in graph.initializer}, 0, list[str]()
    inputs = [entry for entry in graph.input if entry.name not in weights]
    if not inputs:
        raise ValueError("the ONNX graph has no inputs")
    for entry in inputs:
        axes = entry.type.tensor_type.shape.dim
        if not 0 < len(axes) <= MAX_AXES:
            continue
        requested = shape.get(entry.name) if isinstance(shape, Mapping) else shape
        if requested is not None:
            requested = _wanted(requested, entry.name, axes, isinstance(shape, Mapping))
        open_axes = [axis for axis in axes[1:] if not axis.dim_value > 0]
        if open_axes and requested is None:
            names = ", ".join(axis.dim_param[:30] or str(axis.dim_value or "?") for axis in axes)
            example = tuple(axis.dim_value if axis.dim_value > 0 else 128 for axis in axes[1:])
            raise ValueError(
                f"input {entry.name[:60]!r} of the ONNX graph has open axes ({names}); give shape= of one "
                f"sample, such as shape={example}"
            )
        first = axes[0].dim_value if axes[0].dim_value > 0 else 1
        for axis, value in zip(axes, (first, *(requested or [axis.dim_value for axis in axes[1:]])), strict=True):
            axis.dim_value = value
        samples = samples or first
    if samples > 1:
        assumed.append(f"the graph is for {samples} samples; counts are of one")
    return max(samples, 1), assumed


def _wanted(wanted: Any, name: str, axes: Sequence[Any], exact: bool) -> list[int] | None:
    """Return the reader's shape, checked against the graph's; None where it is of another input."""
    sizes = [wanted] if isinstance(wanted, int) else wanted
    if not isinstance(sizes, list | tuple) or len(sizes) > MAX_AXES:
        raise refused("shape", wanted, "must be the sizes of one sample, such as (3, 224, 224)")
    shape = [whole(side, "shape", LARGEST_AXIS) for side in sizes]
    fits = len(shape) == len(axes) - 1 and all(
        not axis.dim_value > 0 or axis.dim_value == size for axis, size in zip(axes[1:], shape, strict=True)
    )
    if fits or not exact:
        return shape if fits else None
    raise refused("shape", wanted, f"does not fit input {name[:60]!r} of the ONNX graph")


class _Shapes:
    """Shapes and initialisers of a graph by name."""

    def __init__(self, graph: Any) -> None:
        self.constants = {tensor.name: (tuple(tensor.dims), tensor.data_type) for tensor in graph.initializer}
        self.shapes = {name: dims for name, (dims, _) in self.constants.items()}
        for value in (*graph.input, *graph.output, *graph.value_info):
            kind = value.type.tensor_type
            if kind.HasField("shape"):
                dims = tuple(axis.dim_value for axis in kind.shape.dim)
                if all(dim > 0 for dim in dims):
                    _check_shape(value.name, dims)
                    self.shapes.setdefault(value.name, dims)
        for node in graph.node:
            if node.op_type == "Constant" and node.output:
                for attribute in node.attribute:
                    if attribute.name == "value":
                        _check_shape(node.output[0], attribute.t.dims)
                        self.constants[node.output[0]] = (tuple(attribute.t.dims), attribute.t.data_type)
                        self.shapes[node.output[0]] = tuple(attribute.t.dims)

    def of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor, None where it is not known."""
        return self.shapes.get(name)

    def weight(self, name: str) -> float:
        """Return the elements of a weight tensor, else 0: integers and single numbers are no parameters."""
        dims, kind = self.constants.get(name, ((), 0))
        return float(math.prod(dims)) if kind in FLOATS and dims and math.prod(dims) > 1 else 0.0


def _kind(node: Any) -> str:
    """Return the kind of operation that a node is, "" where it is not known."""
    return tables.operation("onnx", node.op_type).kind


def _meaning(node: Any) -> str:
    """Return the activation, norm or cell that a node is counted as."""
    return tables.operation("onnx", node.op_type).meaning


def _count(graph: Any, samples: int, assumed: list[str], title: str) -> Workload:
    trace, shapes = Graph(samples), _Shapes(graph)
    unknown, blind = dict[str, int](), 0
    for place, node in enumerate(graph.node):
        if _kind(node) == "control":
            raise ValueError(
                f"the ONNX graph has {node.op_type}, whose work depends on values; export it without control flow"
            )
        if _kind(node) == "view" or not node.output:
            continue
        out = shapes.of(node.output[0])
        if out is None:
            blind += 1
            if node.op_type in MATRICES:
                raise ValueError(
                    f"the shape of {node.op_type} number {place + 1} of {len(graph.node)} cannot be "
                    "inferred; export "
                    "the graph with fixed shapes, or give shape= of one sample"
                )
            continue
        kind = node.op_type[:LONGEST_NAME]
        try:
            if not _write(trace, node, f"{kind}.{place}", out, shapes):
                unknown[kind] = unknown.get(kind, 0) + 1
        except (ArithmeticError, TypeError, IndexError):
            raise ValueError(
                f"{kind} number {place + 1} of {len(graph.node)} nodes of the ONNX graph cannot be "
                "counted as stated; export the graph again"
            ) from None
    if blind:
        assumed.append(f"{blind} of {len(graph.node)} nodes have no shape that can be inferred, and are left out")
    if unknown:
        assumed.append(
            f"nodes counted as element by element: {listed([f'{name} x{times}' for name, times in unknown.items()])}"
        )
    assumed.append("shapes are those of the file: the length of a sequence, if there is one, is fixed")
    ops = trace.ops()
    check_possible(ops, "the work of the ONNX graph cannot be counted; nothing in it computes")
    return Workload("custom", title, ops, assumed=tuple(assumed))


def _write(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    """Write one node; False where it was counted as elementwise because nothing is known of it."""
    writer = WRITERS.get(_kind(node))
    if writer is not None and writer(trace, node, name, out, shapes):
        return True
    _elementwise(trace, node, name, out, shapes)
    return _kind(node) in ("elementwise", "move", "gather")


def _tensors(trace: Graph, node: Any, shapes: _Shapes) -> list[Shape]:
    """Return the inputs that are activations."""
    return [trace.tensor(name, shapes.of(name) or ()) for name in node.input if name and name not in shapes.constants]


def _parameters(trace: Graph, names: Sequence[str], shapes: _Shapes) -> float:
    return sum(trace.weight(name, shapes.weight(name)) for name in names if shapes.weight(name))


def _elementwise(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> None:
    inputs = _tensors(trace, node, shapes)
    if inputs or any(shapes.weight(name_in) for name_in in node.input):
        work = 0.0 if _kind(node) in ("move", "gather") else 1.0
        keep = inputs if node.op_type in ("Mul", "Div", "Pow") and len(inputs) > 1 else ()
        parameters = _parameters(trace, node.input, shapes)
        trace.write_elementwise(inputs, trace.tensor(node.output[0], out), name, work, keep, parameters)


def _attributes(node: Any) -> dict[str, Any]:
    return {
        attribute.name: attribute.i
        if attribute.type == 2
        else tuple(attribute.ints)
        if attribute.type == 7
        else attribute.s
        for attribute in node.attribute
    }


def _conv(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    at, weights, bias = CONVOLUTIONS[node.op_type]
    x, w = (shapes.of(node.input[index]) if index < len(node.input) else None for index in (at, weights))
    if not x or not w:
        return False
    offsets = node.input[bias] if bias is not None and bias < len(node.input) else ""
    groups = _attributes(node).get("group", 1)
    trace.write_conv(
        name,
        (node.input[at], x),
        out,
        w,
        groups if isinstance(groups, int) else 1,
        node.op_type == "ConvTranspose",
        shapes.weight(offsets),
        _parameters(trace, [node.input[weights], offsets], shapes),
    )
    return True


def _product(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    left, right = PRODUCTS[node.op_type]
    if right >= len(node.input):
        return False
    x, w = shapes.of(node.input[left]), shapes.of(node.input[right])
    if not x and w and len(w) > 1:  # all but the inner size is that of the output
        x = (*out[:-1], w[-2])
    if not w and x:
        w = (x[-1], out[-1])
    if not x or not w:
        raise ValueError(f"shapes of what {name} multiplies cannot be inferred; export the graph with fixed shapes")
    first = node.input[left], x
    if node.input[right] in shapes.constants and len(w) == 2:
        parameters = _parameters(trace, [node.input[right]], shapes)
        trace.write_matrix(name, first, out, w[0], w[1], math.prod(w), 0, parameters)
    else:
        y = trace.tensor(name, out)
        xs = [trace.tensor(*first), trace.tensor(node.input[right], w)]
        trace.write_product(xs, y, "matmul", name, y.positions, y.channels, x[-1])
    return True


def _gemm(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    x, w = (shapes.of(source) for source in node.input[:2])
    if not x or not w or len(w) != 2 or len(out) != 2:
        return False
    turned = _attributes(node).get("transA", 0)
    inner = x[0] if turned == 1 else x[1]
    offsets = node.input[2] if len(node.input) > 2 else ""
    trace.write_matrix(
        name,
        (node.input[0], x),
        out,
        inner,
        out[1],
        math.prod(w),
        shapes.weight(offsets),
        _parameters(trace, [node.input[1], offsets], shapes),
    )
    return True


def _norm(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    trained = (
        node.input[1:3]
        if node.op_type == "BatchNormalization"
        else [source for source in node.input[1:] if source in shapes.constants]
    )
    channels = max((shapes.weight(source) for source in trained), default=0.0) or out[-1]
    x = trace.tensor(node.input[0], out, channels)
    trace.write_norm(x, _meaning(node), name, _parameters(trace, trained, shapes))
    return True


def _act(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    trained = [source for source in node.input[1:] if shapes.weight(source)]
    x, y = trace.tensor(node.input[0], out), trace.tensor(node.output[0], out)
    trace.write_act(x, y, _meaning(node), name, _parameters(trace, trained, shapes))
    return True


def _softmax(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    trace.write_softmax(trace.tensor(node.input[0], out), trace.tensor(node.output[0], out), name)
    return True


def _pool(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    x = shapes.of(node.input[0])
    if not x:
        return False
    taps = (
        math.prod(x[2:])
        if _kind(node) == "global pool"
        else math.prod(_attributes(node).get("kernel_shape", ()) or (1,))
    )
    kind = "max" if "Max" in node.op_type else "average"
    trace.write_pool(trace.tensor(node.input[0], x), trace.tensor(node.output[0], out), float(taps), kind, name)
    return True


def _gather(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    table = shapes.of(node.input[0])
    if not shapes.weight(node.input[0]) or not table or len(table) != 2:
        return False
    trace.write_embedding(trace.tensor(name, out, table[1]), name, _parameters(trace, node.input[:1], shapes))
    return True


def _recurrent(trace: Graph, node: Any, name: str, out: tuple[int, ...], shapes: _Shapes) -> bool:
    x, w = (shapes.of(source) for source in node.input[:2])
    hidden = _attributes(node).get("hidden_size", 0)
    if not x or not w or len(x) != 3 or not isinstance(hidden, int) or hidden < 1:
        return False
    trained = [source for source in node.input[1:4] if source]
    biases = shapes.weight(node.input[3]) if len(node.input) > 3 else 0.0
    sequence, y = trace.tensor(node.input[0], x), trace.tensor(node.output[0], out)
    gates, inner, length = GATES[_meaning(node)] * hidden, x[2] + hidden, max(x[0], 1)
    weights = w[0] * gates * inner
    trace.write(
        "recurrent",
        name,
        macs=batched(sequence.positions * weights),
        vector_flop=batched(sequence.positions * w[0] * gates * 5),
        reads=batched(sequence.elements),
        writes=batched(y.elements),
        saved=trace.kept(sequence),
        weights=weights + biases,
        parameters=_parameters(trace, trained, shapes),
        m=batched(sequence.positions / length),
        n=not_batched(constant(gates)),
        k=not_batched(constant(inner)),
        steps=not_batched(constant(length)),
    )
    return True


WRITERS: dict[str, Callable[[Graph, Any, str, tuple[int, ...], _Shapes], bool]] = {
    "convolution": _conv,
    "product": _product,
    "gemm": _gemm,
    "norm": _norm,
    "activation": _act,
    "softmax": _softmax,
    "pool": _pool,
    "global pool": _pool,
    "gather": _gather,
    "recurrent": _recurrent,
}
