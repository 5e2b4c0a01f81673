"""Networks as the arrays that a training step is computed from: distinct products, and totals of everything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

import numpy as np

from cookbook.formulas.networks import winograd_saving
from cookbook.workloads import zoo
from cookbook.workloads.ops import MATMUL_KINDS, Ops
from cookbook.workloads.zoo import Workload

# Bytes that a step moves for each byte of input, forward and backward together, in passes over the tensor.
NORM_TOUCHES, ACTIVATION_TOUCHES, SOFTMAX_TOUCHES, COPY_TOUCHES = 8.0, 5.0, 5.0, 2.0
COPIES = ("pool", "elementwise", "embedding", "scan")
# A kernel of 3 x 3 or 5 x 5 at stride 1 reads each input element that often; larger strides less.
TAPS = {3: (7.4, 10.0), 5: (16.0, 26.0)}
TILE = 2
FEWEST_CHANNELS = 8


@dataclass(frozen=True, eq=False)
class Network:
    """One network at one input size; arrays have one entry a distinct product, for one sample.

    Attributes
    ----------
    macs, moved, weights, scores : numpy.ndarray
        Multiply-accumulates; activation elements read and written; weights; attention scores.
    count, positions : numpy.ndarray
        How often the product occurs; sequential positions (recurrent layers), else 0.
    convolution, deep, grouped, depthwise : numpy.ndarray of bool
        Convolutions; those over one or three axes; in groups; one channel a group.
    saving : numpy.ndarray
        Multiplications that a fast algorithm saves, 1 where there is none.
    streamed, others : float
        Elements that the other operations move in a step for one sample; how many they are.
    parameters, tables, looked_up : float
        Trainable parameters outside embedding tables and in them; those of the tables that one sample reads.
    """

    macs: np.ndarray
    moved: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    count: np.ndarray
    positions: np.ndarray
    convolution: np.ndarray
    deep: np.ndarray
    grouped: np.ndarray
    depthwise: np.ndarray
    saving: np.ndarray
    streamed: float
    others: float
    parameters: float
    tables: float
    looked_up: float


@lru_cache(maxsize=512)
def network(name: str | Workload, arguments: str, seq: float | None) -> Network:
    """Return a network as arrays."""
    workload = zoo.model(name, **json.loads(arguments or "{}")) if isinstance(name, str) else name
    return arrays(workload.ops, seq)


def arrays(ops: Ops, seq: float | None) -> Network:
    """Return any table of operations as arrays; operations that are alike become one entry."""
    per_operation = {q: ops.column(q, 1, seq) / ops.count for q in ("macs", "reads", "writes", "steps")}
    matrix = np.isin(ops.kind, MATMUL_KINDS)
    columns = {q: values[matrix] for q, values in per_operation.items()}
    columns |= {q: ops.column(q, 1, seq)[matrix] for q in ("m", "n", "k")}
    columns |= {"groups": ops.groups[matrix], "weights": ops.weights[matrix]}
    columns["kind"] = np.unique(ops.kind, return_inverse=True)[1][matrix].astype(float)
    table = np.stack(list(columns.values()), axis=1)
    _, first, back = np.unique(table.round(6), axis=0, return_index=True, return_inverse=True)
    alike = {q: values[first] for q, values in columns.items()}
    count = np.bincount(back.ravel(), weights=ops.count[matrix], minlength=len(first))
    touched = _touched(ops, per_operation["reads"], per_operation["writes"])
    stored = ops.parameters * ops.count * (ops.kind == "embedding")
    tables = float(stored.sum()), float((per_operation["writes"] * ops.count) @ (stored > 0))
    others = float(ops.count[~matrix].sum())
    return _network(ops.kind[matrix][first], alike, count, ops.parameter_count, touched, others, tables)


def _touched(ops: Ops, reads: np.ndarray, writes: np.ndarray) -> float:
    """Return the elements that norms, activations, copies and losses move in a step for one sample."""
    touches = np.select(
        [ops.kind == "norm", ops.kind == "activation", np.isin(ops.kind, ("softmax", "loss"))],
        [NORM_TOUCHES * reads, ACTIVATION_TOUCHES * reads, SOFTMAX_TOUCHES * reads],
        COPY_TOUCHES * (reads + writes) * np.isin(ops.kind, COPIES),
    )
    return float(touches @ ops.count)


def _network(
    kind: np.ndarray,
    alike: dict[str, np.ndarray],
    count: np.ndarray,
    parameters: float,
    touched: float,
    others: float,
    tables: tuple[float, float],
) -> Network:
    convolution = np.char.startswith(kind.astype(str), "conv")
    apart = convolution & (alike["groups"] > 2)
    depthwise = apart & (alike["n"] <= 2)
    attention, recurrent = kind == "attention", kind == "recurrent"
    scores = np.where(attention, alike["macs"] / np.maximum(2 * alike["k"], 1), 0.0)
    return Network(
        macs=alike["macs"],
        moved=alike["reads"] + alike["writes"],
        weights=alike["weights"],
        scores=scores + np.where(kind == "matmul", alike["writes"], 0.0),
        count=count,
        positions=np.where(recurrent, alike["steps"], 0.0),
        convolution=convolution,
        deep=np.isin(kind, ("conv1d", "conv3d")),
        grouped=apart & ~depthwise,
        depthwise=depthwise,
        saving=_saving(kind, alike),
        streamed=touched,
        others=others,
        parameters=parameters - tables[0],
        tables=tables[0],
        looked_up=tables[1],
    )


def _saving(kind: np.ndarray, alike: dict[str, np.ndarray]) -> np.ndarray:
    """Return what minimal filtering saves in each product; the kernel size shows in the uses of an input element."""
    used = alike["k"] * alike["groups"] * alike["m"] / np.maximum(alike["reads"], 1)
    saving = np.ones(len(kind))
    for taps, (low, high) in TAPS.items():
        plain = (kind == "conv2d") & (alike["groups"] <= 2) & (alike["k"] >= FEWEST_CHANNELS * taps * taps)
        saving[plain & (used > low) & (used <= high)] = float(winograd_saving(TILE, taps))
    return saving


@dataclass(frozen=True, eq=False)
class Products:
    """Products of several networks one after the other, and totals with one entry a network.

    Attributes
    ----------
    first, number : numpy.ndarray of int
        Where the products of each network start, and how many they are.
    macs, moved, weights, saving, count : numpy.ndarray
        As in `Network`, each times how often the product occurs where it is an amount.
    convolution, deep, grouped, depthwise : numpy.ndarray of bool
        As in `Network`.
    scores, positions, convolved, started, convolutions, streamed, others, parameters, tables, looked_up : numpy.ndarray
        Totals of each network for one sample; `convolved` are the elements that convolutions move, `started` the
        products, `convolutions` those among them.
    """

    first: np.ndarray
    number: np.ndarray
    macs: np.ndarray
    moved: np.ndarray
    weights: np.ndarray
    saving: np.ndarray
    count: np.ndarray
    convolution: np.ndarray
    deep: np.ndarray
    grouped: np.ndarray
    depthwise: np.ndarray
    scores: np.ndarray
    positions: np.ndarray
    convolved: np.ndarray
    started: np.ndarray
    convolutions: np.ndarray
    streamed: np.ndarray
    others: np.ndarray
    parameters: np.ndarray
    tables: np.ndarray
    looked_up: np.ndarray

    def of(self, network: np.ndarray) -> Pairs:
        """Return pairs of a row and a product of its network."""
        one = len(network) > 0 and network[0] == network[-1]
        if one:
            at = np.arange(self.number[network[0]]) + self.first[network[0]]
            return Pairs(self, at, None, None)
        number = self.number[network]
        ends = np.cumsum(number)
        at = np.arange(number.sum()) + np.repeat(self.first[network] - (ends - number), number)
        return Pairs(self, at, number, ends - number)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a row and a product: a grid where all rows have the same network, else a list."""

    table: Products
    at: np.ndarray
    number: np.ndarray | None
    start: np.ndarray | None

    def __getattr__(self, name: str) -> np.ndarray:
        return getattr(self.table, name)[self.at]

    def row(self, column: np.ndarray) -> np.ndarray:
        """Return a quantity of the rows, for each pair."""
        return column[:, None] if self.number is None else np.repeat(column, self.number)

    def shared(self, shares: np.ndarray, variant: np.ndarray) -> np.ndarray:
        """Return the share of a product in the variant of its row, for each pair."""
        if self.number is None:
            return shares[:, self.at][variant]
        return shares[np.repeat(variant, self.number), self.at]

    def sum(self, amounts: np.ndarray) -> np.ndarray:
        """Return the total over the products of each row."""
        return amounts.sum(axis=1) if self.start is None else np.add.reduceat(amounts, self.start)


@lru_cache(maxsize=64)
def products(networks: tuple[tuple[str | Workload, str, float | None], ...]) -> Products:
    """Return the products of networks, given by name, changed arguments and sequence length."""
    nets = [network(*arguments) for arguments in networks]
    number = np.array([len(net.macs) for net in nets], dtype=int)

    def joined(name: str, counted: bool = False) -> np.ndarray:
        return np.concatenate([getattr(net, name) * (net.count if counted else 1) for net in nets] or [np.zeros(0)])

    def total(amount: Callable[[Network], float]) -> np.ndarray:
        return np.array([amount(net) for net in nets], dtype=float)

    return Products(
        first=np.cumsum(number) - number,
        number=number,
        **{name: joined(name, counted=True) for name in ("macs", "moved", "weights")},
        **{name: joined(name) for name in ("saving", "count")},
        **{name: joined(name).astype(bool) for name in ("convolution", "deep", "grouped", "depthwise")},
        scores=total(lambda net: net.scores @ net.count),
        positions=total(lambda net: net.positions @ net.count),
        convolved=total(lambda net: (net.moved * net.convolution) @ net.count),
        started=total(lambda net: net.count.sum()),
        convolutions=total(lambda net: net.count @ net.convolution),
        **{name: total(attrgetter(name)) for name in ("streamed", "others", "parameters", "tables", "looked_up")},
    )
