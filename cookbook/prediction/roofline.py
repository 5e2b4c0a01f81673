"""The roofline of a network, operation by operation, on one accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.performance import arithmetic as roofline
from cookbook.performance.arithmetic import FLOP_PER_MAC
from cookbook.prediction.checks import checked_batch, checked_seq
from cookbook.prediction.devices import device_table, format_row, peaks
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

    from cookbook.workloads.ops import Ops


def roofline_table(
    model: str | zoo.Workload, accelerator: Any, batch: int = 32, seq: float | None = None, precision: str = "bf16"
) -> pd.DataFrame:
    """Each operation of one forward pass on the roofline of an accelerator: how intense it is, and what limits it.

    Parameters
    ----------
    model : str or Workload
        Name in the zoo, or a network of your own.
    accelerator : str or Accelerator
        One accelerator.
    batch : int
        Samples of the batch.
    seq : float, optional
        Sequence length [tokens]; the model's own by default.
    precision : str
        Row of the table ``number_formats``: bytes of an element, and the peak that counts.

    Returns
    -------
    pandas.DataFrame
        One row an operation, in order, with columns name, kind, count (how often it occurs; what follows is for all of
        them), flop (2 x MAC and elementwise arithmetic), bytes (inputs, weights and outputs, each moved once),
        intensity [FLOP/B], attainable_flops (the roofline) [FLOP/s], seconds (at the roofline: arithmetic and traffic
        wholly overlapped, a lower bound unless operations are fused), bound_by ("compute", "memory", or "unknown"
        where the accelerator has no such peak). An optimiser's step moves elements of the master format, FP32.

    Raises
    ------
    ValueError
        An argument out of range; more than one batch or accelerator.
    cookbook.catalog.UnknownName
        A name that no table has.

    Examples
    --------
    >>> table = roofline_table("resnet50", "h100-sxm", batch=32)
    >>> table.loc[[0, 1], ["kind", "bound_by"]].values.tolist()
    [['conv2d', 'memory'], ['norm', 'memory']]
    """
    workload = zoo.model(model) if isinstance(model, str) else model
    size, seq = checked_batch(batch), checked_seq(workload, seq)
    if size.ndim:
        raise ValueError(f"batch = {batch!r} is a list; give one batch, 1 or more")
    device = device_table([accelerator])
    peak, bandwidth = float(peaks(device, precision)[0]), float(device["mem_bandwidth"].iloc[0])
    ops = workload.ops
    flop = FLOP_PER_MAC * ops.column("macs", size, seq) + ops.column("vector_flop", size, seq)
    return _table(ops, flop, _bytes(ops, size, seq, precision), peak, bandwidth)


def _bytes(ops: Ops, batch: np.ndarray, seq: float | None, precision: str) -> np.ndarray:
    """Bytes that each operation moves; those of an optimiser are in the format of its states."""
    sizes, states = format_row(precision), format_row("fp32")["weight_bytes"]
    element = np.where(ops.kind == "optimiser", states, sizes["activation_bytes"])
    moved = (ops.column("reads", batch, seq) + ops.column("writes", batch, seq)) * element
    return np.asarray(moved + ops.column("weights", batch, seq) * sizes["weight_bytes"])


def _table(ops: Ops, flop: np.ndarray, moved: np.ndarray, peak: float, bandwidth: float) -> pd.DataFrame:
    import pandas as pd

    intensity = roofline.arithmetic_intensity(flop, np.where(moved > 0, moved, np.nan))
    return pd.DataFrame(
        {
            "name": ops.name, "kind": ops.kind, "count": ops.count, "flop": flop, "bytes": moved,
            "intensity": intensity, "attainable_flops": roofline.attainable_flops(intensity, peak, bandwidth),
            "seconds": roofline.op_seconds(flop, moved, peak, bandwidth, smoothness=np.inf),
            "bound_by": roofline.bound_by(flop, moved, peak, bandwidth),
        }
    )  # fmt: skip
