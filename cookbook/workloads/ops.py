"""Work of one network in one forward pass: a columnar table, symbolic in batch and sequence length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cookbook.catalog.refusals import refused
from cookbook.units import shown

POLYNOMIALS = ("macs", "vector_flop", "reads", "writes", "saved", "mask_bytes", "steps", "m", "n", "k")
NUMBERS = ("count", "groups", "weights", "parameters", "active_parameters", "window")
TEXTS = ("name", "kind", "block")
MATMUL_KINDS = ("conv1d", "conv2d", "conv3d", "linear", "matmul", "attention", "recurrent")
_NOT_MULTIPLIED = ("m", "n", "k")


def attended_pairs(seq: Any, causal: Any = False, window: Any = np.inf) -> np.ndarray:
    """Return the number of (query, key) pairs that attention computes for one sequence and one head.

    Parameters
    ----------
    seq : array_like
        Sequence length s [-].
    causal : array_like of bool
        Whether a query sees only itself and earlier keys.
    window : array_like
        Sliding window w [-], keys a query may see at most; infinite for none.

    Returns
    -------
    numpy.ndarray
        Pairs: s min(s, w) for full attention; s (s + 1) / 2 for causal attention, minus the pairs outside the window.

    Examples
    --------
    >>> attended_pairs(4).item(), attended_pairs(4, causal=True).item(), attended_pairs(4, True, 2).item()
    (16.0, 10.0, 7.0)
    """
    s = np.asarray(seq, dtype=float)
    reach = np.minimum(s, window)
    return np.where(causal, reach * (reach + 1) / 2 + (s - reach) * reach, s * reach)


@dataclass(frozen=True, eq=False)
class Ops:
    """Columnar table of the operations of one forward pass.

    Each polynomial column has shape (ops, 2, 3): axis 1 is the power of the batch b (0 or 1), axis 2 the basis
    (1, s, pairs), s the sequence length and pairs the attended (query, key) pairs of that operation
    (`attended_pairs`). All columns describe one application; `count` says how often the operation occurs.
    1 MAC = 2 FLOP.

    Attributes
    ----------
    name, kind, block : numpy.ndarray of str
        Label, kind of layer, and the repeated block it belongs to ("" outside any block).
    macs, vector_flop : numpy.ndarray
        Multiply-accumulates of matrix-like work; other arithmetic [FLOP].
    reads, writes : numpy.ndarray
        Activation elements read and written (weights apart).
    saved, mask_bytes : numpy.ndarray
        Activation elements saved for the backward pass; bytes of masks and indices kept, which no number
        format changes [B].
    steps : numpy.ndarray
        Parts that must run one after the other (recurrence), else 1.
    m, n, k : numpy.ndarray
        Shape of the matrix product, rows x columns x inner (0 where there is none).
    groups : numpy.ndarray
        Independent products of that shape (grouped convolution, heads).
    weights, parameters, active_parameters : numpy.ndarray
        Elements of weights read; trainable parameters; those of them that one token uses (experts).
    causal, window : numpy.ndarray
        Mask of attention operations.
    """

    name: np.ndarray
    kind: np.ndarray
    block: np.ndarray
    causal: np.ndarray
    window: np.ndarray
    count: np.ndarray
    groups: np.ndarray
    weights: np.ndarray
    parameters: np.ndarray
    active_parameters: np.ndarray
    macs: np.ndarray
    vector_flop: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    saved: np.ndarray
    mask_bytes: np.ndarray
    steps: np.ndarray
    m: np.ndarray
    n: np.ndarray
    k: np.ndarray

    def __post_init__(self) -> None:
        for column in fields(self):
            getattr(self, column.name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.name)

    def __repr__(self) -> str:
        return f"<Ops: {len(self)} rows, {self.count.sum():,.0f} operations, {self.parameter_count:,.0f} parameters>"

    @property
    def parameter_count(self) -> float:
        """Return the number of trainable parameters."""
        return float(self.parameters @ self.count)

    @property
    def active_parameter_count(self) -> float:
        """Return the trainable parameters that one token uses; fewer than all in a mixture of experts."""
        return float(self.active_parameters @ self.count)

    @cached_property
    def needs_seq(self) -> bool:
        """Return True if any quantity depends on a sequence length."""
        return bool(any(np.any(getattr(self, p)[..., 1:]) for p in POLYNOMIALS))

    def column(self, quantity: str, batch: Any = 1, seq: Any = None) -> np.ndarray:
        """Return one quantity of each operation, times the operation's count (matmul shapes excepted).

        Parameters
        ----------
        quantity : str
            A column of this table, or ``"flop"`` (2 x MAC).
        batch, seq : array_like
            Samples in a batch and sequence length; they broadcast.

        Returns
        -------
        numpy.ndarray
            Shape (operations, *broadcast shape of batch and seq).

        Raises
        ------
        ValueError
            If the quantity is unknown, or a sequence length is needed and not given.
        """
        b, s = self._axes(batch, seq)
        shape = (len(self),) + (1,) * b.ndim
        if quantity in NUMBERS:
            values = getattr(self, quantity) * (1 if quantity in ("count", "groups", "window") else self.count)
            return np.broadcast_to(values.reshape(shape), (len(self), *b.shape))
        c = self._coefficients(quantity)
        if quantity not in _NOT_MULTIPLIED:
            c = c * self.count[:, None, None]
        pairs = attended_pairs(s, self.causal.reshape(shape), self.window.reshape(shape))
        c = c.reshape(len(self), 2, 3, *(1,) * b.ndim)
        by_batch = c[:, :, 0] + c[:, :, 1] * s + c[:, :, 2] * pairs[:, None]
        return by_batch[:, 0] + by_batch[:, 1] * b

    def total(self, quantity: str, batch: Any = 1, seq: Any = None) -> np.ndarray:
        """Return the sum of one quantity over all operations; same arguments and errors as `column`.

        The sum is taken over coefficients first, so that 10^6 batches cost a few array operations.
        """
        b, s = self._axes(batch, seq)
        if quantity in NUMBERS:
            return np.full(b.shape, float(getattr(self, quantity) @ self.count))
        c = self._coefficients(quantity) * self.count[:, None, None]
        const, linear = c[:, :, 0].sum(0), c[:, :, 1].sum(0)
        out = (const[0] + linear[0] * s) + (const[1] + linear[1] * s) * b
        with_pairs = np.any(c[:, :, 2], axis=1)
        for causal, window in sorted(set(zip(self.causal[with_pairs], self.window[with_pairs], strict=True))):
            rows = with_pairs & (self.causal == causal) & (self.window == window)
            by_batch = c[rows, :, 2].sum(0)
            out = out + (by_batch[0] + by_batch[1] * b) * attended_pairs(s, causal, window)
        return np.asarray(out)

    def by(self, label: str, quantity: str, batch: Any = 1, seq: Any = None) -> dict[str, np.ndarray]:
        """Return the totals of one quantity for each value of a text column (`name`, `kind` or `block`)."""
        values, labels = self.column(quantity, batch, seq), getattr(self, label)
        return {str(key): values[labels == key].sum(0) for key in dict.fromkeys(labels)}

    def frame(self, batch: float = 1, seq: float | None = None, element_bytes: float = 2.0) -> pd.DataFrame:
        """Return the table as a frame, one row per operation, for one batch and sequence length.

        Parameters
        ----------
        batch, seq : float
            Samples in the batch and sequence length.
        element_bytes : float
            Bytes of one element in the number format [B].
        """
        c = {q: self.column(q, batch, seq) for q in (*POLYNOMIALS, "weights", "parameters")}
        return pd.DataFrame(
            {
                "name": self.name,
                "kind": self.kind,
                "block": self.block,
                "count": self.count,
                "steps": c["steps"],
                "macs": c["macs"],
                "flop": 2 * c["macs"],
                "vector_flop": c["vector_flop"],
                "read_bytes": (c["reads"] + c["weights"]) * element_bytes,
                "write_bytes": c["writes"] * element_bytes,
                "saved_bytes": c["saved"] * element_bytes + c["mask_bytes"],
                "parameters": c["parameters"],
                "m": c["m"],
                "n": c["n"],
                "k": c["k"],
                "groups": self.groups,
            }
        )

    def _coefficients(self, quantity: str) -> np.ndarray:
        if quantity == "flop":
            return 2.0 * self.macs
        if quantity not in POLYNOMIALS:
            columns = ", ".join(("flop", *POLYNOMIALS, *NUMBERS))
            raise refused("quantity", quantity, f"is not a column of Ops; take one of {columns}")
        return np.asarray(getattr(self, quantity))

    def _axes(self, batch: Any, seq: Any) -> tuple[np.ndarray, np.ndarray]:
        if seq is None and self.needs_seq:
            raise ValueError("seq = None, but this workload depends on the sequence length: give seq >= 1 [tokens]")
        b = np.asarray(batch, dtype=float)
        s = np.asarray(0.0 if seq is None else seq, dtype=float)
        if np.any(b < 0) or np.any(s < 0):
            raise refused("batch", batch, f", seq = {shown(seq)}: both must be >= 0")
        b, s = np.broadcast_arrays(b, s)
        return b, s


def from_rows(rows: Sequence[dict[str, Any]]) -> Ops:
    """Build a table from one dict per operation, as `layers.Trace` makes them.

    `rows`: keys are columns of `Ops`; a missing polynomial is 0; a missing count, step or group is 1.
    """
    if not rows:
        raise ValueError("rows = []: a network needs at least one operation; add a layer")
    unknown = {key for row in rows for key in row} - {f.name for f in fields(Ops)}
    if unknown:
        raise ValueError(f"rows have unknown columns {sorted(unknown)}; the columns are those of Ops")
    default: dict[str, Any] = {"count": 1.0, "groups": 1.0, "window": np.inf}
    columns: dict[str, np.ndarray] = {c: np.array([str(r.get(c, "")) for r in rows]) for c in TEXTS}
    columns["causal"] = np.array([bool(r.get("causal", False)) for r in rows])
    for c in NUMBERS:
        columns[c] = np.array([float(r.get(c, default.get(c, 0.0))) for r in rows])
    for c in POLYNOMIALS:
        columns[c] = np.zeros((len(rows), 2, 3))
        for place, row in enumerate(rows):
            if c in row:
                columns[c][place] = row[c]
            elif c == "steps":
                columns[c][place, 0, 0] = 1.0
    return Ops(**columns)


def join(tables: Sequence[Ops]) -> Ops:
    """Concatenate several tables, in order (a network of parts)."""
    return Ops(**{f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(Ops)})


def repeat(ops: Ops, times: float) -> Ops:
    """Return the operations repeated `times` times, each with its own parameters."""
    return replace(ops, count=ops.count * times)


# Sizes of the matrix products of a layer, (inputs, outputs) each: networks that are built and layers that are predicted
# in shards read them here. A shard has its part of the heads and of the inner width: the same layer, narrower.
Product = tuple[Any, Any]


def attention_products(width: Any, query: Any, keys: Any, values: Any) -> tuple[Product, ...]:
    """Return query, key, value and output products of the stream, all query heads, and all key-value heads."""
    return (width, query), (width, keys), (width, keys), (values, width)


def latent_products(
    width: Any, query: Any, expanded: Any, values: Any, q_rank: Any, kv_rank: Any, rope_dim: Any
) -> tuple[Product, ...]:
    """Return the products of multi-head latent attention: query and key-value down and up, output; ranks stay whole.

    `q_rank` is 0 where queries are not compressed.
    """
    up = np.where(np.asarray(q_rank) > 0, q_rank, width)
    return (width, q_rank), (up, query), (width, kv_rank + rope_dim), (kv_rank, expanded), (values, width)


def mlp_products(width: Any, hidden: Any, gates: Any = 1) -> tuple[Product, ...]:
    """Return up, gate and down products; `gates` is 1 where the layer has one, else 0."""
    return (width, hidden), (width, gates * hidden), (hidden, width)


def weights_of(products: Sequence[Product]) -> Any:
    """Return the number of weights of some products, without biases."""
    return sum(inputs * outputs for inputs, outputs in products)
