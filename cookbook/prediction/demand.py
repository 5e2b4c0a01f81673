"""What one network asks for in training, whatever the accelerator: memory by part and bytes moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.performance import memory

if TYPE_CHECKING:
    from cookbook.workloads.ops import Ops


@dataclass(frozen=True)
class Sizes:
    """Bytes and elements that a number format and an optimiser fix, from the rows of their tables.

    Attributes
    ----------
    weight, gradient, master, activation, state : float
        Bytes of one element; `master` is 0 where no full-precision copy is kept.
    state_elements, update_reads, update_writes : float
        Elements for each parameter: states kept, elements read and written by one step.
    runtime : float
        Bytes that driver, kernels and libraries hold on the device.
    """

    weight: float
    gradient: float
    master: float
    activation: float
    state: float
    state_elements: float
    update_reads: float
    update_writes: float
    runtime: float


@dataclass(frozen=True)
class Activations:
    """What the forward pass saves, in bytes; the total, and what remains when blocks are recomputed."""

    saved: np.ndarray
    block_inputs: np.ndarray
    largest_block: np.ndarray
    buffer: np.ndarray


def block_runs(ops: Ops) -> list[np.ndarray]:
    """Row indices of each block: consecutive operations with the same label and the same number of repeats.

    Parameters
    ----------
    ops : Ops
        Table of one forward pass; an empty label is outside any block.
    """
    change = np.flatnonzero((ops.block[1:] != ops.block[:-1]) | (ops.count[1:] != ops.count[:-1])) + 1
    runs = np.split(np.arange(len(ops)), change)
    return [run for run in runs if ops.block[run[0]]]


def activations(ops: Ops, batch: Any, seq: Any, bytes_per_element: float) -> Activations:
    """Saved activations of one pass in bytes.

    Parameters
    ----------
    ops : Ops
        Table of one forward pass.
    batch, seq : array_like
        Samples of a batch and sequence length.
    bytes_per_element : float
        Size of one activation [B].
    """
    saved = ops.column("saved", batch, seq) * bytes_per_element + ops.column("mask_bytes", batch, seq)
    reads = ops.column("reads", batch, seq) * bytes_per_element
    writes = ops.column("writes", batch, seq) * bytes_per_element
    each = ops.count.reshape(-1, *(1,) * (saved.ndim - 1))
    runs = block_runs(ops)
    inputs = saved[ops.block == ""].sum(0) + sum((reads[run[0]] for run in runs), np.zeros(saved.shape[1:]))
    largest = [(saved[run] / each[run]).sum(0) for run in runs] or [np.zeros(saved.shape[1:])]
    buffer = ((reads + writes) / each).max(0)
    return Activations(saved.sum(0), inputs, np.max(largest, axis=0), buffer)


def memory_parts(ops: Ops, batch: Any, seq: Any, sizes: Sizes, recompute: float) -> dict[str, np.ndarray]:
    """Training memory by part [B]; the argument list is that of `activations` plus the sizes.

    Parameters
    ----------
    ops : Ops
        Table of one forward pass.
    batch, seq : array_like
        Samples of a batch and sequence length.
    sizes : Sizes
        Bytes and elements of the number format and the optimiser.
    recompute : float
        Share of the blocks that is recomputed, 0 to 1.
    """
    kept = activations(ops, batch, seq, sizes.activation)
    parts = memory.training_bytes(
        ops.parameter_count,
        memory.activation_bytes(kept.saved, kept.block_inputs, kept.largest_block, recompute),
        memory.workspace_bytes(kept.buffer, sizes.runtime),
        sizes.weight,
        sizes.gradient,
        sizes.master,
        sizes.state_elements,
        sizes.state,
    )
    shape = np.shape(kept.saved)
    return {name: np.broadcast_to(part, shape) for name, part in parts.items()}


def traffic_per_epoch(
    ops: Ops, batch: Any, seq: Any, sizes: Sizes, samples: float, backward: float, recompute: float
) -> np.ndarray:
    """Bytes moved in one epoch where each operation reads its inputs and writes its outputs once [B].

    The backward pass moves `backward` times the bytes of the forward pass, recomputed blocks move theirs once
    more, and each step updates all parameters. Operations fused into one move less.

    Parameters
    ----------
    ops : Ops
        Table of one forward pass.
    batch, seq : array_like
        Samples of a batch and sequence length.
    sizes : Sizes
        Bytes and elements of the number format and the optimiser.
    samples : float
        Samples in one epoch.
    backward, recompute : float
        Passes of the backward pass for each forward pass; share of the blocks that is recomputed.
    """
    passes = 1 + backward + recompute * (ops.block != "")
    per_step = _moved(ops, 0, seq, sizes) @ passes
    per_sample = _moved(ops, 1, seq, sizes) @ passes - per_step
    copy = sizes.weight if sizes.master else 0.0
    update = memory.update_bytes(
        ops.parameter_count, sizes.update_reads, sizes.update_writes, sizes.state, sizes.gradient, copy
    )
    steps = np.ceil(samples / np.asarray(batch, dtype=float))
    return np.asarray(steps * (per_step + update) + samples * per_sample)


def _moved(ops: Ops, batch: float, seq: Any, sizes: Sizes) -> np.ndarray:
    elements = ops.column("reads", batch, seq) + ops.column("writes", batch, seq)
    return elements * sizes.activation + ops.column("weights", batch, seq) * sizes.weight
