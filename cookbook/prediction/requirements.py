"""Requirements of training a model in a given time, accelerators that could meet them, and its roofline on one.

No efficiency is assumed anywhere: what is shown are counts, bounds at peak, and what has been measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cookbook import catalog, hardware, units
from cookbook.catalog import constant
from cookbook.catalog.fields import MAX_AMOUNT, Field, checked
from cookbook.catalog.refusals import refused
from cookbook.formulas import arithmetic, memory
from cookbook.formulas.arithmetic import FLOP_PER_MAC
from cookbook.hardware import Accelerator
from cookbook.prediction.api import ACCELERATORS, FORMAT, MODEL
from cookbook.prediction.kernels import observed_efficiency
from cookbook.result import Result, plain
from cookbook.workloads import zoo

if TYPE_CHECKING:
    from cookbook.workloads.ops import Ops

RUNTIME = "runtime-memory"
RECOMPUTE = {"none": 0.0, "full": 1.0}
# What a network in theory is asked for, and numbers of which entries of a list may be none.
BATCH = Field.count(1, MAX_AMOUNT, words=True, name="batch", give="whole samples, 1 or more")
LENGTH = Field.count(1, MAX_AMOUNT, words=True, give="whole tokens, 1 or more")
SHARE = Field.number(0, 1, name="recompute", give='"none", "full" or a share from 0 to 1')


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
        Bytes that driver, kernels and libraries occupy on the device.
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
    """Bytes that the forward pass saves: the total, and what remains when blocks are recomputed."""

    saved: np.ndarray
    block_inputs: np.ndarray
    largest_block: np.ndarray
    buffer: np.ndarray


def block_runs(ops: Ops) -> list[np.ndarray]:
    """Return the row indices of each block: consecutive operations of one label that is not empty, and repeats."""
    change = np.flatnonzero((ops.block[1:] != ops.block[:-1]) | (ops.count[1:] != ops.count[:-1])) + 1
    runs = np.split(np.arange(len(ops)), change)
    return [run for run in runs if ops.block[run[0]]]


def activations(ops: Ops, batch: Any, seq: Any, bytes_per_element: float) -> Activations:
    """Return the saved activations of one pass in bytes."""
    saved = ops.column("saved", batch, seq) * bytes_per_element + ops.column("mask_bytes", batch, seq)
    reads = ops.column("reads", batch, seq) * bytes_per_element
    writes = ops.column("writes", batch, seq) * bytes_per_element
    repeats = ops.count.reshape(-1, *(1,) * (saved.ndim - 1))
    runs = block_runs(ops)
    inputs = saved[ops.block == ""].sum(0) + sum((reads[run[0]] for run in runs), np.zeros(saved.shape[1:]))
    largest = [(saved[run] / repeats[run]).sum(0) for run in runs] or [np.zeros(saved.shape[1:])]
    buffer = ((reads + writes) / repeats).max(0)
    return Activations(saved.sum(0), inputs, np.max(largest, axis=0), buffer)


def memory_parts(ops: Ops, batch: Any, seq: Any, sizes: Sizes, recompute: float) -> dict[str, np.ndarray]:
    """Return training memory by part [B]; the arguments are those of `activations` and the sizes."""
    stored = activations(ops, batch, seq, sizes.activation)
    parts = memory.training_bytes(
        ops.parameter_count,
        memory.activation_bytes(stored.saved, stored.block_inputs, stored.largest_block, recompute),
        memory.workspace_bytes(stored.buffer, sizes.runtime),
        sizes.weight,
        sizes.gradient,
        sizes.master,
        sizes.state_elements,
        sizes.state,
    )
    shape = np.shape(stored.saved)
    return {name: np.broadcast_to(part, shape) for name, part in parts.items()}


def traffic_per_epoch(
    ops: Ops, batch: Any, seq: Any, sizes: Sizes, samples: float, backward: float, recompute: float
) -> np.ndarray:
    """Return the bytes moved in one epoch where each operation reads its inputs and writes its outputs once [B].

    The backward pass moves `backward` times the bytes of the forward pass, recomputed blocks move theirs once
    more, and each step updates all parameters. Operations fused into one move less.
    """
    passes = 1 + backward + recompute * (ops.block != "")
    per_step = _moved(ops, 0, seq, sizes.activation, sizes.weight) @ passes
    per_sample = _moved(ops, 1, seq, sizes.activation, sizes.weight) @ passes - per_step
    copy = sizes.weight if sizes.master else 0.0
    update = memory.update_bytes(
        ops.parameter_count, sizes.update_reads, sizes.update_writes, sizes.state, sizes.gradient, copy
    )
    steps = np.ceil(samples / np.asarray(batch, dtype=float))
    return np.asarray(steps * (per_step + update) + samples * per_sample)


def _moved(ops: Ops, batch: Any, seq: Any, activation: float, weight: float) -> np.ndarray:
    """Return the bytes that each operation moves in one pass over a batch, from those of one element [B]."""
    elements = ops.column("reads", batch, seq) + ops.column("writes", batch, seq)
    return elements * activation + ops.column("weights", batch, seq) * weight


@dataclass(frozen=True, eq=False, repr=False)
class Requirements(Result):
    """Requirements of training a model; quantities that depend on the batch are arrays where the batch is one.

    Attributes
    ----------
    workload : Workload
        The model.
    batch, seq, precision, optimiser, samples, epochs, target_seconds, recompute
        The scenario as it was understood.
    parameters : float
        Trainable parameters.
    macs_per_sample, forward_flop_per_sample : float
        Multiply-accumulates of one forward pass, and the same as FLOP (1 MAC = 2 FLOP).
    passes : float
        Forward passes that one training step costs: 1 + the backward pass (+ recomputation, a share of one).
    training_flop_per_sample, flop_per_epoch, total_flop : float
        Matrix arithmetic of training [FLOP].
    macs_per_epoch : float
        `passes` x MAC x samples: what is printed as "FLOPs" where MAC are mistaken for them.
    needed_macs, needed_flops : float
        Sustained rate that meets the target, in MAC/s and in FLOP/s.
    memory : dict of str to float or numpy.ndarray
        Memory by part [B].
    memory_bytes : float or numpy.ndarray
        Sum of the parts [B].
    fixed_bytes, bytes_per_sample : float
        The same as a line: memory = fixed + batch x per sample [B].
    devices : pandas.DataFrame
        One row an accelerator (and batch); columns are explained in `requirements`.
    sources : tuple of str
        Keys of the table ``sources`` of every row that was used.
    notes : tuple of str
        What the reader should know about this scenario, in plain sentences.
    """

    _class_in_repr = False
    workload: zoo.Workload
    batch: Any
    seq: float | None
    precision: str
    optimiser: str
    samples: float
    epochs: float
    target_seconds: float
    recompute: float
    parameters: float
    macs_per_sample: float
    forward_flop_per_sample: float
    passes: float
    training_flop_per_sample: float
    macs_per_epoch: float
    flop_per_epoch: float
    total_flop: float
    needed_macs: float
    needed_flops: float
    memory: dict[str, Any]
    memory_bytes: Any
    fixed_bytes: float
    bytes_per_sample: float
    devices: pd.DataFrame
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return the sustained rate that meets the target, and the memory, in words."""
        # The largest of the valid batches; NaN where none is.
        most, batch = (float(np.fmax.reduce(np.ravel(values))) for values in (self.memory_bytes, self.batch))
        size = f"{units.human(most, 'iB')} at batch {batch:,.0f}" if most == most else "no valid batch"
        rate, time = units.human(self.needed_flops, "FLOP/s"), units.human(self.target_seconds, "s")
        work = f"{self.epochs:,.3g} × {self.samples:,.3g} samples in {time}"
        return f"{self.workload.title}: {rate} sustained for {work}; {size}"

    def frame(self) -> pd.DataFrame:
        """Return a copy of the devices."""
        return self.devices.copy()

    def to_dict(self) -> dict[str, Any]:
        """Return all values as plain ones, the model by its name; None where one is missing."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain(values | {"workload": self.workload.name})


@checked(
    model=MODEL,
    batch=replace(BATCH, later=True),
    seq=LENGTH,
    precision=FORMAT,
    optimiser=Field.named("optimisers"),
    samples=Field.number(1, MAX_AMOUNT),
    epochs=Field.number(high=MAX_AMOUNT),
    target_seconds=Field.number(high=MAX_AMOUNT, unit="s"),
    accelerators=ACCELERATORS,
    recompute=replace(SHARE, later=True),
    backward=Field.number(high=MAX_AMOUNT),
)
def requirements(
    model: str | zoo.Workload,
    batch: Any = 32,
    seq: float | None = None,
    precision: str = "bf16",
    optimiser: str = "adam",
    samples: Any = 14e6,
    epochs: float = 1,
    target_seconds: Any = 3600,
    accelerators: Iterable[str | Accelerator] | None = None,
    recompute: str | float = "none",
    backward: float = 2,
) -> Requirements:
    """Return what training `model` needs, and which accelerators could meet it.

    Parameters
    ----------
    model : str or Workload
        Name in the zoo, or a network of your own.
    batch : int or array of int
        Samples on one device at a time; an array gives one row a device and batch.
    seq : float, optional
        Sequence length [tokens]; the model's own by default.
    precision, optimiser : str
        Rows of the tables ``number_formats`` and ``optimisers``.
    samples, epochs : float
        Samples in the data set, and passes over it.
    target_seconds : float or str
        Time for all epochs [s], or text such as "1 h".
    accelerators : iterable of str or Accelerator, optional
        All of the table by default.
    recompute : {"none", "full"} or float
        Activations recomputed in the backward pass, or the share of the blocks that is.
    backward : float
        Cost of the backward pass in forward passes; 2, since each product of the forward pass has two
        gradients, that of its input and that of its weights.

    Returns
    -------
    Requirements
        `devices` has the columns key, name, kind, batch, capacity_bytes, needed_bytes, peak_flops (of the
        number format), mem_bandwidth, fits, largest_batch, bound_seconds (one epoch on one device: the
        arithmetic alone, at peak), unfused_overlap_seconds and unfused_serial_seconds (the same where each
        operation also reads its inputs and writes its outputs once, wholly overlapped with the arithmetic or
        one after the other; fused operations move less), needed_fraction (of peak), devices_needed (at peak: a
        lower bound), measured, observed_low, observed_high, observed_best (matrix products measured on it; NaN
        where none), verdict, why, sources.

    Raises
    ------
    ValueError
        An argument out of range; the message says what is allowed.
    cookbook.catalog.UnknownName
        A name that no table has.

    Examples
    --------
    >>> need = requirements("resnet152", samples=14e6, target_seconds="1 h")
    >>> round(need.needed_macs / 1e12), round(need.needed_flops / 1e12)
    (132, 263)
    """
    workload = zoo.model(model) if isinstance(model, str) else model
    batch, seq, target = checked_batch(batch), checked_seq(workload, seq), target_seconds
    share = checked_recompute(recompute)
    sizes, precision, optimiser, sources = sizes_of(precision, optimiser)

    work = _work(workload.ops, seq, samples, epochs, target, backward, share)
    need = _memory(workload.ops, batch, seq, sizes, share)
    traffic = traffic_per_epoch(workload.ops, batch, seq, sizes, samples, backward, share)
    physics = _physics(hardware.accelerator_table(accelerators), precision, batch, need, work, traffic)
    devices = _evaluated(physics, precision, epochs, target)
    used = [key for cell in devices["sources"] for key in cell.split(";") if key]
    return Requirements(
        workload=workload,
        batch=_floats(batch),
        seq=seq,
        precision=precision,
        optimiser=optimiser,
        samples=samples,
        epochs=epochs,
        target_seconds=target,
        recompute=share,
        **work,
        **need,
        devices=devices,
        sources=tuple(dict.fromkeys((*workload.sources, *sources, *used))),
        notes=_notes(workload, share),
    )


def checked_batch(batch: Any) -> np.ndarray:
    """Return batches as floats; a bad scalar raises, a bad entry of an array becomes NaN."""
    units.size_within("batch", batch)
    if np.ndim(batch := _array(batch)) == 0:
        return np.asarray(float(BATCH.read(batch)))
    if batch.ndim > 1 or batch.size == 0:
        raise refused("batch", batch, f"has shape {batch.shape}; give one number of samples or a list of them")
    return np.where((batch >= 1) & (batch == np.floor(batch)) & (batch <= MAX_AMOUNT), batch, np.nan)


def _array(batch: Any) -> Any:
    """Return a list of numbers as an array; anything else as it is. An entry of a list that is no number is refused."""
    try:
        if not np.ndim(batch):
            return batch.item() if isinstance(batch, np.ndarray) else batch
        numbers = np.asarray(batch)
        entries = np.ravel(np.array(batch, dtype=object))
        if numbers.dtype.kind in "bc" or any(isinstance(entry, bool) for entry in entries):
            raise TypeError
        return numbers.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise BATCH.refuse(batch, "is not a number") from None


def checked_seq(workload: zoo.Workload, seq: float | None) -> float | None:
    """Return the sequence length to use; refuse one of a fixed input, and none where the model states none."""
    if seq is None:
        if workload.seq is None and workload.ops.needs_seq:
            raise refused("seq", None, f", but {workload.title} has no length of its own; give seq >= 1")
        return workload.seq
    if not workload.ops.needs_seq:
        raise refused("seq", seq, f": the input of {workload.title} is fixed; leave seq out")
    return float(LENGTH.read(seq, "seq"))


def checked_recompute(recompute: str | float) -> float:
    """Return the share of the blocks that is recomputed, 0 to 1."""
    if isinstance(recompute, str) and recompute in RECOMPUTE:
        return RECOMPUTE[recompute]
    return SHARE.to_number(recompute)


def _work(
    ops: Ops, seq: float | None, samples: float, epochs: float, target: float, backward: float, share: float
) -> dict[str, Any]:
    """Return the arithmetic of training, and the rate that meets the target."""
    by_op = ops.column("macs", 1, seq)
    macs = float(by_op.sum())
    recomputed = share * float(by_op[ops.block != ""].sum()) / macs if macs else 0.0
    sample, epoch, total = (
        float(arithmetic.training_flop(macs, count, backward, recomputed)) for count in (1, samples, samples * epochs)
    )
    needed = float(arithmetic.sustained_rate(total, target))
    return {
        "parameters": ops.parameter_count,
        "macs_per_sample": macs,
        "forward_flop_per_sample": FLOP_PER_MAC * macs,
        "passes": 1 + backward + recomputed,
        "training_flop_per_sample": sample,
        "macs_per_epoch": epoch / FLOP_PER_MAC,
        "flop_per_epoch": epoch,
        "total_flop": total,
        "needed_macs": needed / FLOP_PER_MAC,
        "needed_flops": needed,
    }


def _memory(ops: Ops, batch: np.ndarray, seq: float | None, sizes: Sizes, share: float) -> dict[str, Any]:
    """Return memory by part, and the same as a line in the batch."""
    parts = memory_parts(ops, batch, seq, sizes, share)
    fixed, one = (float(sum(memory_parts(ops, b, seq, sizes, share).values())) for b in (0, 1))
    return {
        "memory": {name: _floats(part) for name, part in parts.items()},
        "memory_bytes": _floats(sum(parts.values())),
        "fixed_bytes": fixed,
        "bytes_per_sample": one - fixed,
    }


def sizes_of(precision: str, optimiser: str) -> tuple[Sizes, str, str, list[str]]:
    """Return element sizes of a number format and an optimiser, their names in the tables, and their rows' sources.

    Raises
    ------
    ValueError
        A number format that does not train.
    cookbook.catalog.UnknownName
        An unknown number format or optimiser.
    """
    row, states = catalog.row("number_formats", precision), catalog.row("optimisers", optimiser)
    formats = catalog.table("number_formats")
    if row["trains"] != "yes":
        able = ", ".join(formats.loc[formats["trains"] == "yes", "name"])
        raise refused("precision", row["name"], f"does not train a network; take one of {able}")
    sizes = Sizes(
        weight=row["weight_bytes"],
        gradient=row["gradient_bytes"],
        master=row["master_bytes"],
        activation=row["activation_bytes"],
        state=catalog.row("number_formats", "fp32")["weight_bytes"],
        state_elements=states["state_elements"],
        update_reads=states["update_reads"],
        update_writes=states["update_writes"],
        runtime=constant(RUNTIME),
    )
    cells = (row["source"], states["source"], catalog.row("constants", RUNTIME)["source"])
    sources = [key for cell in cells for key in cell.split(";")]
    return sizes, str(row["name"]), str(states["name"]), sources


def _physics(
    table: pd.DataFrame,
    precision: str,
    batch: np.ndarray,
    need: dict[str, Any],
    work: dict[str, Any],
    traffic: np.ndarray,
) -> dict[str, list[Any]]:
    """Return the columns of physics for every accelerator (rows) and batch (inner), flattened."""
    b = np.atleast_1d(batch)
    capacity, bandwidth = (table[c].to_numpy(dtype=float)[:, None] for c in ("memory_bytes", "mem_bandwidth"))
    peak = hardware.peak_flops(table, precision)[:, None]
    demand = need["fixed_bytes"] + need["bytes_per_sample"] * b
    parts = np.stack(np.broadcast_arrays(work["flop_per_epoch"] / peak, np.atleast_1d(traffic) / bandwidth))
    shaped = {
        "batch": b,
        "capacity_bytes": capacity,
        "needed_bytes": demand,
        "peak_flops": peak,
        "mem_bandwidth": bandwidth,
        "fits": demand <= capacity,
        "largest_batch": memory.largest_batch(capacity, need["fixed_bytes"], need["bytes_per_sample"]),
        "bound_seconds": parts[0],
        "unfused_overlap_seconds": arithmetic.perfect_overlap_seconds(parts),
        "unfused_serial_seconds": arithmetic.no_overlap_seconds(parts),
        "needed_fraction": work["needed_flops"] / peak,
        "devices_needed": np.ceil(work["needed_flops"] / peak),
    }
    unknown, formats = np.isnan(peak[:, 0]), np.full(len(table), "", dtype=object)
    if unknown.any():  # the formats that each has are part of the reason
        formats[unknown] = _training_formats(table[unknown])
    cells = {column: table[column].to_numpy() for column in ("key", "name", "kind", "sources")} | {"formats": formats}
    shape, names = (len(table), len(b)), {column: np.repeat(values, len(b)) for column, values in cells.items()}
    columns = {**names, **{column: np.broadcast_to(values, shape).ravel() for column, values in shaped.items()}}
    return {column: values.tolist() for column, values in columns.items()}


def _evaluated(physics: dict[str, list[Any]], precision: str, epochs: float, target: float) -> pd.DataFrame:
    """Return the devices with measured efficiencies, verdicts and reasons."""
    seen = _seen(precision)
    observed = zip(*(seen.get(key, NOT_MEASURED) for key in physics["key"]), strict=True)
    columns = physics | dict(zip(OBSERVED, observed, strict=True))
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    said = [(_verdict(row, epochs, target), _reason(row, precision)) for row in rows]
    sources, measured, _ = (columns.pop(name) for name in ("sources", "observed_sources", "formats"))
    columns["verdict"], columns["why"] = ([words[at] for words in said] for at in range(2))
    columns["sources"] = [";".join(filter(None, (*keys, more))) for keys, more in zip(sources, measured, strict=True)]
    return pd.DataFrame(columns)


OBSERVED = ("measured", "observed_low", "observed_high", "observed_best", "observed_sources")
NOT_MEASURED = (math.nan, math.nan, math.nan, math.nan, "")


@lru_cache(maxsize=32)
def _seen(precision: str) -> dict[str, tuple[Any, ...]]:
    """Return the measured efficiency in a number format by accelerator, as `OBSERVED`."""
    seen = observed_efficiency()
    seen = seen[seen["number_format"] == precision]
    return dict(zip(seen["key"], seen[list(OBSERVED)].itertuples(index=False, name=None), strict=True))


def _training_formats(table: pd.DataFrame) -> list[str]:
    """Return, for each accelerator, the number formats that train and for which it has a peak, as one text."""
    rows = catalog.table("number_formats")
    names = [str(name) for name in rows.loc[rows["trains"] == "yes", "name"]]
    has = np.array([~np.isnan(hardware.peak_flops(table, name)) for name in names])
    return [", ".join(name for name, there in zip(names, column, strict=True) if there) for column in has.T]


def _notes(workload: zoo.Workload, share: float) -> tuple[str, ...]:
    """Return notes about what the numbers leave out."""
    if share and not (workload.ops.block != "").any():
        return (f"{workload.title} is not divided into blocks, so nothing is recomputed and all activations stay.",)
    return ()


def _floats(value: Any) -> Any:
    """Return a number as a float, several as an array of floats."""
    array = np.asarray(value, dtype=float)
    return float(array) if array.ndim == 0 else array


def _reason(row: Mapping[str, Any], precision: str) -> str:
    """Return why numbers of a row are missing or the model does not fit; "" where neither is so."""
    if math.isnan(row["batch"]):
        return "the batch is not a whole number of 1 or more"
    reasons = []
    if math.isnan(row["peak_flops"]):
        reasons.append(f"no {precision} peak is known for it; those known are {row['formats'] or 'none that train'}")
    if math.isnan(row["mem_bandwidth"]):
        reasons.append("its memory bandwidth is not known")
    if math.isnan(row["capacity_bytes"]):
        reasons.append("its memory size is not known")
    elif not row["fits"]:
        short = units.human(row["needed_bytes"] - row["capacity_bytes"], "iB")
        over = f"batch {row['batch']:,.0f} exceeds its memory by {short}"
        reasons.append(
            f"{over}; {_largest(row['largest_batch'])}" if max(row["batch"], row["largest_batch"]) > 1 else over
        )
    return "; ".join(reasons)


def _largest(batch: float) -> str:
    return f"the largest batch is {batch:,.0f}" if batch else "not even batch 1 fits"


def _verdict(row: Mapping[str, Any], epochs: float, target_seconds: float) -> str:
    """Return in plain words whether an accelerator alone could meet the target."""
    needed = row["needed_fraction"]
    if math.isnan(needed) or math.isnan(row["batch"]):
        return "cannot tell"
    if needed > 1:
        return f"cannot: needs {units.ratio(needed)}x its peak"
    if math.isnan(row["capacity_bytes"]):
        return f"cannot tell whether it fits: needs {units.ratio(100 * needed)} % of peak"
    if not row["fits"]:
        return f"cannot: does not fit at batch {row['batch']:,.0f}"
    if needed > row["observed_best"]:
        best = units.ratio(100 * row["observed_best"])
        return f"possible only above the best matmul seen, {best} %"
    moving = row["unfused_overlap_seconds"] * epochs / target_seconds
    if moving > 1:
        return f"possible only if fused: data take {units.ratio(moving)}x as long"
    return f"possible: needs {units.ratio(100 * needed)} % of peak"


@checked(
    model=MODEL,
    accelerator=Field.named("accelerators", Accelerator),
    batch=replace(BATCH, later=True),
    seq=LENGTH,
    precision=FORMAT,
)
def roofline_table(
    model: str | zoo.Workload,
    accelerator: str | Accelerator,
    batch: int = 32,
    seq: float | None = None,
    precision: str = "bf16",
) -> pd.DataFrame:
    """Return each operation of one forward pass on the roofline of an accelerator: its intensity, and what limits it.

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
        where the accelerator has no such peak).

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
        raise refused("batch", batch, "is a list; give one number of samples")
    device = hardware.accelerator(accelerator)
    peak, bandwidth = hardware.peak_flops(device, precision), device.mem_bandwidth
    ops, sizes = workload.ops, catalog.row("number_formats", precision)
    flop = FLOP_PER_MAC * ops.column("macs", size, seq) + ops.column("vector_flop", size, seq)
    moved = _moved(ops, size, seq, sizes["activation_bytes"], sizes["weight_bytes"])
    return _roofline(ops, flop, moved, peak, bandwidth)


def _roofline(ops: Ops, flop: np.ndarray, moved: np.ndarray, peak: float, bandwidth: float) -> pd.DataFrame:
    intensity = arithmetic.arithmetic_intensity(flop, np.where(moved > 0, moved, np.nan))
    return pd.DataFrame(
        {
            "name": ops.name,
            "kind": ops.kind,
            "count": ops.count,
            "flop": flop,
            "bytes": moved,
            "intensity": intensity,
            "attainable_flops": arithmetic.attainable_flops(intensity, peak, bandwidth),
            "seconds": arithmetic.op_seconds(flop, moved, peak, bandwidth, smoothness=np.inf),
            "bound_by": arithmetic.bound_by(flop, moved, peak, bandwidth),
        }
    )
