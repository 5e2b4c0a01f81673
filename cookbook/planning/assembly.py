"""A pipeline as an assembly line: who works on which micro-batch when, who waits, and what is kept meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cookbook.performance import pipeline

if TYPE_CHECKING:
    import pandas as pd

PHASES = ("forward", "backward", "weight gradients")
# The backward pass computes two gradients, of inputs and of weights, each as much work as the forward pass.
BACKWARD = 2.0


@dataclass(frozen=True, eq=False)
class AssemblyLine:
    """One flush of a pipeline.

    Attributes
    ----------
    passes : pandas.DataFrame
        One row a pass: device, micro_batch, chunk, phase (in words), start and end [s].
    seconds : float
        From the first start to the last end [s].
    waiting : float
        Share of the devices' time in which they wait [-].
    kept : float
        Most micro-batches whose activations one device keeps at a time [-].
    """

    passes: pd.DataFrame
    seconds: float
    waiting: float
    kept: float


def assembly_line(
    schedule: str, stages: int, micro_batches: int, seconds: float = 1.0, interleave: int = 2
) -> AssemblyLine:
    """One flush of a pipeline with equal stages.

    Parameters
    ----------
    schedule : str
        "gpipe", "1f1b", "interleaved" or "zero-bubble".
    stages, micro_batches : int
        Devices in line, and what passes them between two updates.
    seconds : float
        Forward pass of one micro-batch on one device [s]; the backward pass takes twice as long.
    interleave : int
        Chunks of layers on each device where the schedule is interleaved.

    Raises
    ------
    ValueError
        Numbers that the schedule cannot work with.

    Examples
    --------
    >>> line = assembly_line("1f1b", 4, 8)
    >>> round(line.waiting, 3), line.kept, assembly_line("gpipe", 4, 8).kept
    (0.273, 4.0, 8.0)
    """
    import pandas as pd

    chunks = interleave if schedule == "interleaved" else 1
    found = pipeline.schedule(schedule, [seconds] * stages, [BACKWARD * seconds] * stages, micro_batches, chunks)
    passes = pd.DataFrame(found).astype({"device": int, "micro_batch": int, "chunk": int})
    end = float(passes["end"].max())
    waiting = 1 - float((passes["end"] - passes["start"]).sum()) / (stages * end)
    kept = max(_kept(rows) for _, rows in passes.groupby("device")) / chunks
    words = np.array(PHASES, dtype=object)[passes["phase"].astype(int)]
    return AssemblyLine(passes.assign(phase=words), end, waiting, kept)


def _kept(rows: pd.DataFrame) -> float:
    """Most passes of one device whose activations still wait for their last use."""
    last = rows["phase"].max()
    taken, freed = rows.loc[rows["phase"] == pipeline.FORWARD, "start"], rows.loc[rows["phase"] == last, "end"]
    events = sorted([*((at, 1) for at in taken), *((at, -1) for at in freed)])
    return float(np.max(np.cumsum([change for _, change in events])))
