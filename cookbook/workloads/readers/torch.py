"""Reader of PyTorch modules and exported programs, on the device `meta`: tensors have shapes and no values.

The module's own code runs, in the reader's own process, as whenever the reader calls it; nothing is read from files.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refused
from cookbook.workloads.arguments import check_possible, whole
from cookbook.workloads.readers import tables
from cookbook.workloads.readers.fields import listed, titled
from cookbook.workloads.readers.graph import Graph, Named
from cookbook.workloads.zoo import Workload

MAX_AXES, LARGEST_AXIS = 6, 10**7
REFUSED = (
    RuntimeError,
    NotImplementedError,
    TypeError,
    ValueError,
    IndexError,
    KeyError,
    AttributeError,
    AssertionError,
    ArithmeticError,
)


def is_module(source: Any) -> bool:
    """Return True if an object is a PyTorch module; without PyTorch there is none."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def is_program(source: Any) -> bool:
    """Return True if an object is a program of `torch.export`."""
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(source, export.ExportedProgram)


def read(source: Any, changes: Mapping[str, Any]) -> Workload:
    """Read a network from a module, or from a program that `torch.export` made of one.

    Parameters
    ----------
    source : torch.nn.Module or torch.export.ExportedProgram
        The object in memory. A module is not changed, and its weights are not copied.
    changes : mapping
        ``shape``: of one sample without the batch, (3, 224, 224), or (128,) tokens where the module begins with an
        embedding; a list of shapes for several inputs; ``title``.

    Raises
    ------
    ValueError
        No shape; a forward pass that needs values and not only shapes, with PyTorch's own words.
    """
    check_names(changes, ("shape", "title"), "a PyTorch module")
    counted = _of_program(source) if is_program(source) else _of_module(source, changes.get("shape"))
    title = titled(changes.get("title", type(source).__name__))
    if counted.unknown:
        counted.graph.assumed.append(f"operations counted as element by element: {listed(sorted(counted.unknown))}")
    counted.graph.assumed.append("shapes are those of the example: the length of a sequence, if there is one, is fixed")
    ops = counted.graph.ops()
    check_possible(ops, f"{title} computes nothing that can be counted")
    return Workload("custom", title, ops, assumed=tuple(counted.graph.assumed))


class _Counted:
    """A graph that records ATen's operations; storages identify views of parameters."""

    def __init__(self, samples: int, weights: Mapping[Any, tuple[str, float]]) -> None:
        self.graph = Graph(samples)
        self.weights, self.unknown, self.alive = weights, set[str](), list[Any]()

    def parameters(self, tensors: Sequence[Any]) -> float:
        """Return the elements of the parameters among some tensors that no earlier operation has used."""
        names = [self.weights[_place(tensor)] for tensor in tensors if _place(tensor) in self.weights]
        return sum(self.graph.weight(name, elements) for name, elements in names)

    def is_weight(self, tensor: Any) -> bool:
        return _place(tensor) in self.weights

    def told(self, name: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Count one operation of ATen, with its inputs and outputs."""
        kind, meaning = tables.operation("torch", name)
        if kind == "view" or not outputs:
            return
        label = f"{name}.{len(self.graph.rows)}"
        writer = WRITERS.get(kind)
        if writer is not None:
            writer(self, name, label, arguments, outputs)
            return
        inputs = [tensor for tensor in _flat(arguments) if _is_tensor(tensor)]
        if not inputs:
            return
        if kind == "norm":
            _norm(self, meaning, label, arguments, outputs)
        elif kind == "activation":
            x, y = self.graph.tensor(*_named(inputs[0])), self.graph.tensor(*_named(outputs[0]))
            self.graph.write_act(x, y, meaning, label, self.parameters(inputs))
        else:
            if kind not in ("elementwise", "move") and any(
                self.is_weight(tensor) and tensor.dim() > 1 for tensor in inputs
            ):
                self.unknown.add(name[:40])
            live = [self.graph.tensor(*_named(tensor)) for tensor in inputs if not self.is_weight(tensor)]
            keep = live if name in ("mul", "div") and len(live) > 1 else ()
            y, work = self.graph.tensor(*_named(outputs[0])), 0.0 if kind == "move" else 1.0
            self.graph.write_elementwise(live, y, label, work, keep, self.parameters(inputs))

    def rest(self) -> None:
        """Add the parameters that no operation used."""
        total = {name: elements for name, elements in self.weights.values()}
        left = sum(elements for name, elements in total.items() if name not in self.graph.owned)
        if left:
            self.graph.write_elementwise([], self.graph.tensor("", (0,)), "not used", 0.0, parameters=left)
            self.graph.assumed.append(f"{left:,.0f} parameters are used by no operation of this forward pass")


def _place(tensor: Any) -> Any:
    """Return what two views of one tensor have in common: their storage, or in a program their name."""
    return getattr(tensor, "cookbook_place", None) or (tensor.untyped_storage()._cdata if _is_tensor(tensor) else None)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "untyped_storage") and hasattr(value, "shape")


def _flat(values: Sequence[Any]) -> list[Any]:
    return [inner for value in values for inner in (_flat(value) if isinstance(value, list | tuple) else [value])]


def _named(value: Any) -> Named:
    return _place(value), _sides(value)


def _sides(value: Any) -> tuple[int, ...]:
    return tuple(int(side) for side in value.shape)


# ---- operations of ATen ---------------------------------------------------------------------------------------


def _linear(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Write mm(x, w), addmm(bias, x, w) or linear(x, w, bias): products with a matrix, of weights or not."""
    if name == "addmm":
        bias, x, w = arguments[:3]
    else:
        (x, w), bias = arguments[:2], (arguments[2] if name == "linear" and len(arguments) > 2 else None)
    out = _sides(outputs[0])
    inner = int(x.shape[-1])
    if not g.is_weight(w) and not g.is_weight(x):
        y = g.graph.tensor(label, out)
        xs = [g.graph.tensor(*_named(x)), g.graph.tensor(*_named(w))]
        g.graph.write_product(xs, y, "matmul", label, y.positions, y.channels, inner)
        return
    live = x if g.is_weight(w) else w
    offsets = float(bias.numel()) if _is_tensor(bias) and g.is_weight(bias) else 0.0
    operands = [w, x, *([bias] if _is_tensor(bias) else [])]
    width = out[-1] if g.is_weight(w) else out[0]
    elements = float((w if g.is_weight(w) else x).numel())
    g.graph.write_matrix(label, _named(live), out, inner, width, elements, offsets, g.parameters(operands))


def _batched(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    x, y = arguments[1:3] if name == "baddbmm" else arguments[:2]
    if min(x.dim(), y.dim()) < 1:
        return
    if g.is_weight(y) and y.dim() == 2:
        _linear(g, "mm", label, (x, y), outputs)
        return
    weights = float(sum(tensor.numel() for tensor in (x, y) if g.is_weight(tensor)))
    live = [g.graph.tensor(*_named(tensor)) for tensor in (x, y) if not g.is_weight(tensor)]
    out = _sides(outputs[0])
    product = g.graph.tensor(label, out)
    groups = max(math.prod(out[:-2]) / g.graph.samples, 1) if len(out) > 2 else 1
    g.graph.write_product(
        live,
        product,
        "linear" if weights else "matmul",
        label,
        product.positions / groups,
        product.channels,
        int(x.shape[-1]),
        weights,
        0,
        groups,
        g.parameters([x, y]),
    )


def _convolution(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    x, w, bias = [*arguments, None][:3]
    if name == "convolution":
        transposed, groups = bool(arguments[6]), int(arguments[8])
    else:
        transposed, groups = name.startswith("conv_transpose"), int(arguments[6]) if len(arguments) > 6 else 1
    offsets = float(bias.numel()) if _is_tensor(bias) else 0.0
    operands = [w, *([bias] if _is_tensor(bias) else [])]
    g.graph.write_conv(
        label, _named(x), _sides(outputs[0]), _sides(w), groups, transposed, offsets, g.parameters(operands)
    )


def _attention(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    query, key, value = (_named(tensor) for tensor in arguments[:3])
    g.graph.write_attention(label, query, key, value, any(argument is True for argument in arguments[4:]))


def _norm(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    tensors = [argument for argument in arguments if _is_tensor(argument)]
    trained = [tensor for tensor in tensors[1:] if g.is_weight(tensor)]
    channels = float(trained[0].numel()) if trained else float(tensors[0].shape[-1] if tensors[0].dim() else 1)
    g.graph.write_norm(g.graph.tensor(*_named(tensors[0]), channels), name, label, g.parameters(trained))


def _embedding(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    table = arguments[0]
    y = g.graph.tensor(label, _sides(outputs[0]), int(table.shape[-1]))
    g.graph.write_embedding(y, label, g.parameters([table]))


def _softmax(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    g.graph.write_softmax(g.graph.tensor(*_named(arguments[0])), g.graph.tensor(*_named(outputs[0])), label)


def _pool(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    x, out = arguments[0], _sides(outputs[0])
    kernel = arguments[1] if len(arguments) > 1 else None
    stated = isinstance(kernel, int | list | tuple) and "adaptive" not in name
    sides = [kernel] * (x.dim() - 2) if isinstance(kernel, int) else kernel or [1]
    taps = math.prod(int(side) for side in sides) if stated else x.numel() / max(math.prod(out), 1)
    y = g.graph.tensor(*_named(outputs[0]))
    g.graph.write_pool(g.graph.tensor(*_named(x)), y, float(taps), "max" if "max" in name else "average", label)


def _mean(g: _Counted, name: str, label: str, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
    x, y = g.graph.tensor(*_named(arguments[0])), g.graph.tensor(*_named(outputs[0]))
    g.graph.write_pool(x, y, arguments[0].numel() / max(outputs[0].numel(), 1), "average", label)


Writer = Callable[[_Counted, str, str, Sequence[Any], Sequence[Any]], None]
WRITERS: dict[str, Writer] = {
    "linear": _linear,
    "batched product": _batched,
    "convolution": _convolution,
    "attention": _attention,
    "embedding": _embedding,
    "softmax": _softmax,
    "pool": _pool,
    "mean": _mean,
}


# ---- a module, and a program ----------------------------------------------------------------------------------


def _of_module(module: Any, shape: Any) -> _Counted:
    """Run a module on the device meta and record what it calls."""
    torch = sys.modules["torch"]
    samples = _samples(torch, module, shape)
    parameters = {name: tensor.detach().to("meta") for name, tensor in module.named_parameters()}
    buffers = {name: tensor.detach().to("meta") for name, tensor in module.named_buffers()}
    counted = _Counted(1, {_place(tensor): (name, float(tensor.numel())) for name, tensor in parameters.items()})
    was = module.training
    module.eval()
    try:
        with torch.no_grad(), _functions(torch, counted), _dispatched(torch, counted):
            torch.func.functional_call(module, {**parameters, **buffers}, samples)
    except REFUSED as problem:
        words = " ".join(str(problem).split())[:200]
        raise ValueError(
            f"the forward pass of {type(module).__name__} fails on shapes alone ({words}); give shape= "
            "as its forward "
            "takes it, or a program of torch.export"
        ) from None
    finally:
        module.train(was)
    counted.rest()
    return counted


def _samples(torch: Any, module: Any, shape: Any) -> tuple[Any, ...]:
    """Return inputs of a module: one sample of the shape, of tokens where its first layer is an embedding."""
    tokens = next(
        (isinstance(layer, torch.nn.Embedding) for layer in module.modules() if not list(layer.children())), False
    )
    if shape is None:
        raise ValueError(
            f"shape = None: give the shape of one sample of {type(module).__name__} without the batch, "
            "such as "
            f"shape={'(128,), tokens' if tokens else '(3, 224, 224)'}"
        )
    is_nested = isinstance(shape, list | tuple) and shape and all(isinstance(part, list | tuple) for part in shape)
    samples = []
    for part in shape if is_nested else [shape]:
        sides = [part] if isinstance(part, int) else part
        if not isinstance(sides, list | tuple) or len(sides) > MAX_AXES:
            raise refused("shape", shape, "must be that of one sample, such as (3, 224, 224)")
        sizes = [whole(side, "shape", LARGEST_AXIS) for side in sides]
        kind = torch.long if tokens and len(sizes) == 1 else next((p.dtype for p in module.parameters()), torch.float32)
        samples.append(torch.zeros(1, *sizes, dtype=kind, device="meta"))
    return tuple(samples)


def _dispatched(torch: Any, counted: _Counted) -> Any:
    """Return a mode that reports every operation of ATen to `counted`."""
    mode = import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Listening(mode):  # type: ignore[misc, valid-type]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            outputs = [tensor for tensor in _flat([result]) if _is_tensor(tensor)]
            counted.alive += outputs  # a storage that is gone gives its place to another
            counted.told(func.__name__.partition(".")[0], [*args, *(kwargs or {}).values()], outputs)
            return result

    return Listening()


def _functions(torch: Any, counted: _Counted) -> Any:
    """Return a mode that records attention as one operation, before PyTorch decomposes it."""

    class Whole(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            keywords = kwargs or {}
            if func is not torch.nn.functional.scaled_dot_product_attention:
                return func(*args, **keywords)
            query, key, value = (*args, *(keywords[name] for name in ("query", "key", "value")[len(args) :]))[:3]
            causal = bool(args[5] if len(args) > 5 else keywords.get("is_causal", False))
            places = _named(query), _named(key), _named(value)
            counted.graph.write_attention(f"attention.{len(counted.graph.rows)}", *places, causal)
            result = query.new_empty((*query.shape[:-1], value.shape[-1]))
            counted.alive.append(result)
            return result

    return Whole()


def _of_program(program: Any) -> _Counted:
    """Walk the graph of an exported program, whose nodes carry the shapes."""
    signature = program.graph_signature
    names, first_of = {}, dict[Any, str]()
    for place, name in signature.inputs_to_parameters.items():  # tied parameters are one
        stored = program.state_dict.get(name)
        names[place] = first_of.setdefault(_place(stored) if _is_tensor(stored) else name, name)
    weights, tensors, first = {}, {}, 0
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if not _is_tensor(value):
            continue
        tensors[node] = _Named(value, names.get(node.name, node.name))
        if node.op == "placeholder":
            if node.name in names:
                weights[names[node.name]] = (names[node.name], float(value.numel()))
            elif not first and node.name in signature.user_inputs and value.dim():
                first = int(value.shape[0])
    counted = _Counted(max(first, 1), weights)
    if first > 1:
        counted.graph.assumed.append(f"the program is for {first} samples; counts are of one")
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function":
            continue
        name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
        arguments = [
            tensors.get(argument, argument)
            if not isinstance(argument, list | tuple)
            else [tensors.get(item, item) if _hashable(item) else item for item in argument]
            for argument in (*node.args, *node.kwargs.values())
            if _hashable(argument) or isinstance(argument, list | tuple)
        ]
        is_view = tables.operation("torch", name).kind == "view" and node in tensors
        if is_view and arguments and isinstance(arguments[0], _Named):
            tensors[node] = _Named(tensors[node].value, arguments[0].cookbook_place)
        outputs = [tensors[node]] if node in tensors else [tensor for tensor in _flat([value]) if _is_tensor(tensor)]
        counted.told(name, arguments, outputs)
    counted.rest()
    return counted


def _hashable(value: Any) -> bool:
    return getattr(value, "__hash__", None) is not None and not isinstance(value, list | tuple | dict)


class _Named:
    """A tensor of a graph that is known by name: views of a parameter keep its name."""

    def __init__(self, value: Any, place: str) -> None:
        self.value, self.cookbook_place = value, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)
