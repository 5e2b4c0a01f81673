"""A graph of operations with shapes of numbers alone, as ONNX and PyTorch have it, written down as a table `Ops`.

Counting rules are those of `layers`: 1 MAC = 2 FLOP, an activation is kept for the backward pass once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cookbook.workloads.layers import ACT_FLOP, GATES, KEEPS_OUTPUT, NORM_FLOP, NORM_STATISTICS_BYTES
from cookbook.workloads.limits import MOST_NODES
from cookbook.workloads.ops import Ops, attended_pairs, from_rows

MOST_OF_A_SHAPE = 10**15
SOFTMAX_FLOP = 5
NONE, ONE = np.zeros((2, 3)), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # of most columns of most operations
NONE.flags.writeable = ONE.flags.writeable = False


@dataclass(frozen=True)
class Tensor:
    """One activation of the whole batch: what it is called, and its shape."""

    name: Any
    shape: tuple[int, ...]

    @property
    def elements(self) -> float:
        """Number of elements."""
        return float(math.prod(self.shape))


class Graph:
    """Collects operations; `samples` is how many samples the shapes are for, of which each counts the same part."""

    def __init__(self, samples: int = 1) -> None:
        self.samples = samples
        self.rows: list[dict[str, Any]] = []
        self.kept: set[Any] = set()
        self.owned: dict[Any, float] = {}
        self.assumed: list[str] = []

    def weight(self, name: Any, elements: float) -> float:
        """Elements of a parameter the first time it is used, 0 whenever it is used again."""
        if name in self.owned:
            return 0.0
        self.owned[name] = elements
        return elements

    def ops(self) -> Ops:
        """The finished table; ValueError where there is nothing in it."""
        if not self.rows:
            raise ValueError("the graph has no operation; nothing can be counted")
        return from_rows(self.rows)

    def add(self, kind: str, name: str, reads: Sequence[Tensor], written: float, *, macs: float = 0.0,
            flop: float = 0.0,
            keep: Sequence[Tensor] = (), weights: float = 0.0, parameters: float = 0.0, mask: float = 0.0,
            product: tuple[float, float, float] = (0.0, 0.0, 0.0), groups: float = 1, steps: float = 1,
            **columns: Any) -> None:  # fmt: skip
        """One operation; all amounts are of the whole batch."""
        if len(self.rows) >= MOST_NODES:
            raise ValueError(f"the graph has more than {MOST_NODES:,} operations")
        fresh = {each.name: each for each in keep if each.name not in self.kept}
        self.kept |= set(fresh)
        rows, n, k = product
        self.rows.append({
            "kind": kind, "name": name, "macs": self._part(macs), "vector_flop": self._part(flop),
            "reads": self._part(sum(each.elements for each in reads)), "writes": self._part(written),
            "saved": self._part(sum(each.elements for each in fresh.values())), "mask_bytes": self._part(mask),
            "m": self._part(rows), "n": _fixed(n), "k": _fixed(k), "groups": groups, "weights": weights,
            "parameters": parameters, "active_parameters": parameters, "steps": _fixed(steps), **columns,
        })  # fmt: skip

    def _part(self, amount: float) -> np.ndarray:
        if not 0 <= amount <= MOST_OF_A_SHAPE * 10**6:
            raise ValueError(f"an operation of {amount:.3g} elements or products cannot be; check the shapes")
        return np.array([[0.0, 0.0, 0.0], [amount / self.samples, 0.0, 0.0]]) if amount else NONE

    # ---- what graphs are made of --------------------------------------------------------------------------------
    def linear(self, name: str, x: Tensor, out: tuple[int, ...], inner: float, outer: float, weights: float,
               bias: float,
               parameters: float) -> None:  # fmt: skip
        """Product with a weight matrix of `inner` x `outer` at every position."""
        rows = x.elements / max(inner, 1)
        self.add("linear", name, [x], float(math.prod(out)), macs=rows * inner * outer, keep=[x], weights=weights,
                 flop=math.prod(out) * bool(bias), parameters=parameters, product=(rows, outer, inner))  # fmt: skip

    def conv(self, name: str, x: Tensor, out: tuple[int, ...], weight: tuple[int, ...], groups: int, transposed: bool,
             bias: float, parameters: float) -> None:  # fmt: skip
        """Convolution by weights (outputs, inputs / groups, taps); transposed, (inputs, outputs / groups, taps)."""
        if len(weight) < 3 or len(out) != len(weight) or len(x.shape) != len(weight) or groups < 1:
            raise ValueError(f"convolution {name[:60]} of an input {x.shape} with weights {weight} gives no {out}")
        inner, outputs = math.prod(weight[1:]), weight[0]
        if transposed:
            inner, outputs = weight[0] // groups * math.prod(weight[2:]), weight[1] * groups
        places = math.prod((x.shape if transposed else out)[2:]) * x.shape[0]
        self.add(f"conv{min(len(weight) - 2, 3)}d", name, [x], float(math.prod(out)),
                 macs=float(places) * inner * outputs, keep=[x],
                 flop=math.prod(out) * bool(bias), weights=math.prod(weight) + bias, parameters=parameters,
                 product=(places, outputs / groups, inner), groups=groups)  # fmt: skip

    def matmul(self, name: str, x: Tensor, y: Tensor, out: tuple[int, ...]) -> None:
        """Product of two activations over the last axis of the first."""
        inner = x.shape[-1] if x.shape else 1
        self.add("matmul", name, [x, y], float(math.prod(out)), macs=float(math.prod(out)) * inner, keep=[x, y],
                 product=(math.prod(out[:-1]), out[-1] if out else 1, inner))  # fmt: skip

    def attention(self, name: str, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> None:
        """Scaled dot-product attention of (..., heads, positions, width)."""
        *batch, positions, width = query.shape
        keys, wide = key.shape[-2], value.shape[-1]
        full = positions * keys
        pairs = float(attended_pairs(positions, True)) if causal and positions == keys else float(full)
        scores = math.prod(batch) * pairs
        out = Tensor(("out", name), (*batch, positions, wide))
        self.add("attention", name, [query, key, value], out.elements, macs=scores * (width + wide),
                 flop=scores * SOFTMAX_FLOP,
                 keep=[query, key, value, out], mask=math.prod(batch) * positions * 4.0,
                 product=(positions, keys, width),
                 groups=max(math.prod(batch) // max(self.samples, 1), 1), causal=causal)  # fmt: skip

    def norm(self, name: str, kind: str, x: Tensor, channels: float, parameters: float) -> None:
        """Normalisation of a kind that `layers` knows, of which a position has so many channels."""
        positions = x.elements / max(channels, 1)
        self.add("norm", name, [x], x.elements, flop=x.elements * NORM_FLOP[kind], keep=[x], weights=parameters,
                 parameters=parameters, mask=positions * NORM_STATISTICS_BYTES.get(kind, 0))  # fmt: skip

    def act(self, name: str, kind: str, x: Tensor, y: Tensor, parameters: float = 0.0) -> None:
        """Activation function that `layers` knows."""
        self.add("activation", name, [x], y.elements, flop=x.elements * ACT_FLOP[kind],
                 keep=[y if kind in KEEPS_OUTPUT else x], weights=parameters, parameters=parameters)  # fmt: skip

    def softmax(self, name: str, x: Tensor, y: Tensor) -> None:
        """Softmax over the last axis."""
        self.add("softmax", name, [x], y.elements, flop=x.elements * SOFTMAX_FLOP, keep=[y])

    def pool(self, name: str, x: Tensor, out: tuple[int, ...], taps: float, most: bool) -> None:
        """Pooling over so many taps; `most` for the largest of them, whose place is kept."""
        written = float(math.prod(out))
        self.add("pool", name, [x], written, flop=written * taps, keep=[x] if most else (), mask=written * 8 * most)

    def embedding(self, name: str, out: tuple[int, ...], features: float, parameters: float) -> None:
        """Look-up of rows of a table."""
        taken = Tensor(name, out)
        self.add("embedding", name, [taken], taken.elements, mask=taken.elements / max(features, 1) * 8,
                 parameters=parameters)

    def recurrent(self, name: str, cell: str, x: Tensor, length: int, inputs: float, hidden: float, directions: int,
                  out: tuple[int, ...], biases: float, parameters: float) -> None:  # fmt: skip
        """RNN, GRU or LSTM: one step a position."""
        gates = GATES[cell] * hidden
        weights = directions * gates * (inputs + hidden)
        rows = x.elements / max(inputs, 1)
        self.add("recurrent", name, [x], float(math.prod(out)), macs=rows * weights,
                 flop=rows * directions * gates * 5, keep=[x],
                 weights=weights + biases, parameters=parameters,
                 product=(rows / max(length, 1), gates, inputs + hidden),
                 steps=length)  # fmt: skip

    def elementwise(self, name: str, reads: Sequence[Tensor], written: float, flop: float = 1.0,
                    parameters: float = 0.0,
                    keep: Sequence[Tensor] = ()) -> None:  # fmt: skip
        """Anything done element by element."""
        self.add("elementwise", name, reads, written, flop=written * flop, keep=keep, weights=parameters,
                 parameters=parameters)


def _fixed(value: float) -> np.ndarray:
    return np.array([[float(value), 0.0, 0.0], [0.0, 0.0, 0.0]]) if value not in (0, 1) else ONE if value else NONE
