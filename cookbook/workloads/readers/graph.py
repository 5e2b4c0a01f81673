"""A graph of operations with numeric shapes, as in ONNX and PyTorch, recorded by `Trace`.

The graph states inputs and outputs of each operation, so that only its row needs to be written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cookbook.workloads.layers import SOFTMAX_FLOP, Shape, Trace, batched, constant, elements, not_batched
from cookbook.workloads.limits import MAX_NODES
from cookbook.workloads.ops import Ops, attended_pairs

MAX_SHAPE_ELEMENTS = 10**15
Sides = tuple[int, ...]
Named = tuple[Any, Sides]  # an activation of the whole batch: its name and shape


class Graph(Trace):
    """Collects operations; `samples` is the number of samples in the shapes, each with an equal part."""

    def __init__(self, samples: int = 1) -> None:
        super().__init__()
        self.samples = samples
        self.owned: dict[Any, float] = {}
        self.assumed: list[str] = []

    def tensor(self, name: Any, sides: Sides, features: float = 0) -> Shape:
        """Return one sample's part of a batch's activation, by default with the last axis as features."""
        features = features or (sides[-1] if sides else 1) or 1
        return Shape(features, (math.prod(sides) / features / self.samples,), name)

    def weight(self, name: Any, elements: float) -> float:
        """Return the elements of a parameter on its first use, 0 afterwards."""
        if name in self.owned:
            return 0.0
        self.owned[name] = elements
        return elements

    def ops(self) -> Ops:
        """Return the finished table; ValueError where it is empty."""
        if not self.rows:
            raise ValueError("the graph has no operation; nothing can be counted")
        return super().ops()

    def write(self, kind: str, name: str, **columns: Any) -> None:
        """Append one operation; ValueError where there are too many, or it is impossibly large."""
        if len(self.rows) >= MAX_NODES:
            raise ValueError(f"the graph has more than {MAX_NODES:,} operations")
        for column in columns.values():
            amount = float(column.sum()) * self.samples if isinstance(column, np.ndarray) else 0.0
            if not 0 <= amount <= MAX_SHAPE_ELEMENTS * 10**6:
                raise ValueError(f"an operation of {amount:.3g} elements or products cannot be; check the shapes")
        super().write(kind, name, **columns)

    def write_matrix(
        self,
        name: str,
        x: Named,
        out: Sides,
        inner: float,
        outer: float,
        weights: float,
        bias: float,
        parameters: float,
    ) -> None:
        """Write the product with a weight matrix of `inner` x `outer` at every position."""
        source = self.tensor(*x, max(inner, 1))
        self.write_product(
            [source],
            self.tensor(name, out),
            "linear",
            name,
            source.positions,
            outer,
            inner,
            weights,
            bias,
            parameters=parameters,
        )

    def write_conv(
        self,
        name: str,
        x: Named,
        out: Sides,
        weight: Sides,
        groups: int,
        transposed: bool,
        bias: float,
        parameters: float,
    ) -> None:
        """Write a convolution by weights (outputs, inputs / groups, taps); transposed, (inputs, outputs / groups,
        taps).
        """
        sides = x[1]
        if len(weight) < 3 or len(out) != len(weight) or len(sides) != len(weight) or groups < 1:
            raise ValueError(f"convolution {name[:60]} of an input {sides} with weights {weight} gives no {out}")
        inner, outputs = math.prod(weight[1:]), weight[0]
        if transposed:
            inner, outputs = weight[0] // groups * math.prod(weight[2:]), weight[1] * groups
        places = math.prod((sides if transposed else out)[2:]) * sides[0] / self.samples
        self.write_product(
            [self.tensor(*x)],
            self.tensor(name, out),
            f"conv{min(len(weight) - 2, 3)}d",
            name,
            constant(places),
            outputs / groups,
            inner,
            math.prod(weight),
            bias,
            groups,
            parameters,
        )

    def write_attention(self, name: str, query: Named, key: Named, value: Named, causal: bool) -> None:
        """Write the scaled dot-product attention of (..., heads, positions, width)."""
        *batch, positions, width = query[1]
        keys, wide = key[1][-2], value[1][-1]
        full = positions * keys
        pairs = float(attended_pairs(positions, True)) if causal and positions == keys else float(full)
        heads = math.prod(batch) / self.samples
        out = self.tensor(("out", name), (*batch, positions, wide))
        xs = [self.tensor(*named) for named in (query, key, value)]
        self.write(
            "attention",
            name,
            macs=batched(constant(heads * pairs * (width + wide))),
            vector_flop=batched(constant(heads * pairs * SOFTMAX_FLOP)),
            reads=batched(elements(xs)),
            writes=batched(out.elements),
            saved=self.kept(*xs, out),
            mask_bytes=batched(constant(heads * positions * 4)),
            m=batched(constant(positions / self.samples)),
            n=not_batched(constant(keys)),
            k=not_batched(constant(width)),
            groups=max(math.prod(batch) // max(self.samples, 1), 1),
            causal=causal,
        )
