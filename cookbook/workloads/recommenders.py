"""Recommenders: DLRM, neural collaborative filtering, wide and deep. A sample is one row of the training table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cookbook.workloads.layers import Shape, Trace
from cookbook.workloads.ops import Ops

# Rows of the 26 embedding tables of the Criteo terabyte set, indices folded at 40 million: MLPerf DLRM, and DLRM-DCNv2
# (its multi-hot version).
CRITEO_40M = (39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155,
              4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36)  # fmt: skip
CRITEO_MULTI_HOT = (40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938,
                    155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36)  # fmt: skip


def _dense(t: Trace, x: Shape, widths: Sequence[int], name: str, dropout: bool = False) -> Shape:
    for i, width in enumerate(widths):
        x = t.act(t.linear(x, width, name=f"{name}{i}"), "relu")
        x = t.dropout(x) if dropout else x
    return x


def _pairwise_dots(t: Trace, vectors: int, width: int) -> Shape:
    """Dot products of all pairs of feature vectors, computed as one full matrix product."""
    stack = t.tokens(vectors, width)
    macs = np.array([vectors * vectors * width, 0.0, 0.0])
    t.matmul(stack, stack, t.tokens(vectors, vectors), macs, "interaction")
    return t.vector(vectors * (vectors - 1) // 2)


def dlrm(tables: Sequence[int] = CRITEO_40M, width: int = 128, bottom: Sequence[int] = (512, 256, 128),
         top: Sequence[int] = (1024, 1024, 512, 256), dense_features: int = 13) -> Ops:  # fmt: skip
    """DLRM (Naumov et al., arXiv:1906.00091) in the MLPerf configuration on the Criteo terabyte set."""
    t = Trace()
    for i, rows in enumerate(tables):
        t.embedding(1, rows, width, name=f"table{i}")
    x = _dense(t, t.vector(dense_features), bottom, "bottom")
    dots = _pairwise_dots(t, len(tables) + 1, width)
    x = _dense(t, t.concat([x, dots]), top, "top")
    t.loss(t.linear(x, 1, name="click"))
    return t.ops()


def dlrm_dcn(tables: Sequence[int] = CRITEO_MULTI_HOT, width: int = 128, bottom: Sequence[int] = (512, 256, 128),
             top: Sequence[int] = (1024, 1024, 512, 256), cross_layers: int = 3, rank: int = 512, lookups: float = 214,
             dense_features: int = 13) -> Ops:  # fmt: skip
    """DLRM-DCNv2 of MLPerf: multi-hot features, a low-rank cross network (Wang et al., arXiv:2008.13535).

    `lookups` is the number of rows read for a sample over all tables.
    """
    t = Trace()
    for i, rows in enumerate(tables):
        t.embedding(lookups / len(tables), rows, width, name=f"table{i}")
    x0 = x = t.concat([_dense(t, t.vector(dense_features), bottom, "bottom"), t.vector(len(tables) * width)])
    for i in range(cross_layers):
        y = t.linear(t.linear(x, rank, bias=False, name=f"cross{i}.v"), int(x0.channels), name=f"cross{i}.w")
        x = t.add(x, t.multiply(x0, y, name=f"cross{i}.product"), name=f"cross{i}.residual")
    t.loss(t.linear(_dense(t, x, top, "top"), 1, name="click"))
    return t.ops()


def ncf(users: int = 138493, items: int = 26744, factors: int = 64, widths: Sequence[int] = (256, 256, 128, 64)) -> Ops:
    """Neural collaborative filtering, NeuMF (He et al., arXiv:1708.05031), sized for MovieLens 20M."""
    t = Trace()
    half, tables = widths[0] // 2, (("user", users), ("item", items))
    product = t.multiply(*(t.embedding((), rows, factors, name=f"mf.{who}") for who, rows in tables))
    x = t.concat([t.embedding((), rows, half, name=f"mlp.{who}") for who, rows in tables])
    x = _dense(t, x, widths[1:], "mlp", dropout=True)
    t.loss(t.linear(t.concat([product, x]), 1, name="final"))
    return t.ops()


# Outbrain features of NVIDIA's recipe: rows, embedding width, values a sample.
OUTBRAIN = ((300000, 128, 1), (250000, 128, 1), (100000, 128, 1), (4000, 64, 1), (4000, 64, 1), (2500, 64, 1),
            (2500, 64, 1), (2000, 64, 1), (1000, 64, 1), (1000, 64, 1), (300, 64, 1), (4, 19, 1), (5000, 128, 1),
            (350, 64, 3), (10000, 64, 3), (100, 64, 3))  # fmt: skip


def wide_and_deep(tables: Sequence[Sequence[int]] = OUTBRAIN, hidden: Sequence[int] = (1024,) * 5,
                  numeric: int = 13) -> Ops:  # fmt: skip
    """Wide and deep (Cheng et al., arXiv:1606.07792) as NVIDIA trains it on the Outbrain click set."""
    t = Trace()
    deep = [t.vector(numeric)]
    for i, (rows, width, values) in enumerate(tables):
        t.embedding(values, rows, width, name=f"deep{i}")
        t.embedding(values, rows, 1, name=f"wide{i}")
        deep.append(t.vector(width))
    t.linear(t.vector(numeric), 1, name="wide.numeric")
    x = _dense(t, t.concat(deep), hidden, "deep", dropout=True)
    t.loss(t.linear(x, 1, name="deep.out"))
    return t.ops()
