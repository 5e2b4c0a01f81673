"""Every layout of a transformer on a number of devices, which of them are worth a look, and why the others lose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd

from cookbook import hardware, units
from cookbook.catalog.commands import Launch, able_values, engine_of, engines_for, launch, one_of
from cookbook.catalog.fields import MAX_SEQUENCES, MAX_TOKENS, Field, checked, fields
from cookbook.catalog.prices import HOUR, device_usd
from cookbook.catalog.refusals import Refused, refused
from cookbook.hardware import Accelerator, Machine, System
from cookbook.prediction.api import network_of, plan_fields, training_scenario
from cookbook.prediction.assumptions import Assumptions
from cookbook.prediction.engine import Estimate, estimate
from cookbook.prediction.fabrics import fabric as fabric_of
from cookbook.prediction.kinds.constraints import (
    CHUNKS,
    ROUNDS,
    SCHEDULES,
    SHARDS,
    SPLITS,
    configuration_grid,
    possible,
)
from cookbook.prediction.kinds.transformer import of_model
from cookbook.prediction.scenario import Coded
from cookbook.prediction.software import level_of
from cookbook.result import Result, plain
from cookbook.topics.sweeps.exploring import pareto_front
from cookbook.units import shown
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

KIND = "training_transformer"
AXES = ("devices", "tp", "pp", "vp", "cp", "ep", "micro_batch", "zero", "recompute")
# Axes that are searched only where other than the usual values are given, and the usual values.
USUAL_AXES: Mapping[str, Any] = {"pipeline_schedule": "", "offload": "", "shard": None}
# Name of the group of all replicas in the table.
ALL_REPLICAS = "all"
# Order of micro-batches where none is named; the short run that times a step.
ORDERS, CHECK = ("1f1b", "interleaved"), {"steps": "check", "log_steps": 1, "mock": "yes"}
RECOMPUTE = ("none", "selective", "full")
ZERO = (0, 1, 2, 3)
MICRO_BATCHES = (1, 2, 4, 8)
LENGTH = 2048
# Arguments of runs: a language model, a machine, and its tokens.
LANGUAGE_MODEL = Field.named("models", Workload, what="network", give="a name such as 'llama2_7b', or cb.model(...)")
SYSTEM = Field.named(
    "accelerators", Accelerator, Machine, what="machine", give="a name such as 'h100-sxm', or cb.accelerator"
)
TOKENS = Field.number(1, 1e24)
OPTIONS = {name: ("", *dict.fromkeys(fields()[name].choices.values())) for name in ("pipeline_schedule", "offload")}
# A neighbour differs from a layout in one axis, or trades one kind of shard for another.
TRADED_AXES = ("tp", "pp", "cp")
# Layouts of a card.
PRINTED = 8
# More layouts than this would take minutes.
MAX_LAYOUTS = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class Layouts(Result):
    """Layouts of one model on one kind of machine; read-only.

    Attributes
    ----------
    title : str
        The model and the machine, as printed.
    table : pandas.DataFrame
        One row per layout that fits, fastest first: the axes, dp, step_seconds with low80 and high80, bound_low,
        memory_bytes, headroom_bytes, device_seconds, tokens_per_second, step_usd (at the median of dated prices on
        demand; NaN where none is known), and whether it is on the front. A copy each time.
    tried, fitting : int
        Layouts that divide the model, the batch and the devices; those of them that fit the memory.
    nearest : mapping
        Where none fits: the layout that needs least memory, with memory_bytes and capacity_bytes.
    assumed : tuple of str
        What was not given, and what was taken.
    prediction : Estimate
        What the table is made of, rows as in `rows`.
    rows : numpy.ndarray of int
        Row of the prediction of each row of the table.
    settings : mapping
        What all layouts have in common, by the names of the table ``engine_flags``.
    engine : str
        What starts the software, an engine of that table.
    """

    _class_in_repr = False
    title: str
    _table: pd.DataFrame = field(repr=False)
    tried: int
    fitting: int
    nearest: Mapping[str, Any]
    assumed: tuple[str, ...]
    prediction: Estimate
    rows: np.ndarray
    settings: Mapping[str, Any] = field(repr=False, default_factory=dict)
    engine: str = ""

    @property
    def table(self) -> pd.DataFrame:
        """One row per layout that fits, fastest first."""
        return self._table.copy(deep=False)

    @property
    def axes(self) -> list[str]:
        """Columns of the table in which layouts differ."""
        return [name for name in (*AXES, *USUAL_AXES) if name in self._table]

    @property
    def front(self) -> pd.DataFrame:
        """Layouts that no other beats in time, memory headroom and device time together."""
        return self._table[self._table["front"]]

    @property
    def memory(self) -> pd.DataFrame:
        """Memory of the fullest device by part [B], one row per row of the table."""
        return pd.DataFrame({name: np.asarray(part)[self.rows] for name, part in self.prediction.memory.items()})

    def frame(self) -> pd.DataFrame:
        """Return the table, in SI units."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain Python values; a missing figure is None."""
        header = {name: getattr(self, name) for name in ("title", "tried", "fitting", "nearest", "assumed")}
        return plain({**header, "layouts": self._table})

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the eight fastest layouts as printed, by title."""
        return {"Layouts": self.printed(self._table.head(PRINTED), self.rows[:PRINTED])}

    def printed(self, layouts: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
        """Return rows of the table as printed, and the part of a step that makes each slower than the first.

        Parameters
        ----------
        layouts : pandas.DataFrame
            Rows of `table`.
        rows : numpy.ndarray of int
            Row of the prediction of each of them.
        """
        parts = pd.DataFrame({name: np.asarray(part)[rows] for name, part in self.prediction.by_part.items()})
        change = parts - parts.iloc[0] if len(parts) else parts
        slower = [
            "fastest of those tried" if not index else f"{part} +{units.human(float(change[part].iloc[index]), 's')}"
            for index, part in enumerate(change.idxmax(axis=1) if len(parts) else ())
        ]
        return pd.DataFrame(
            {
                "Devices": [f"{count:,}" for count in layouts["devices"]],
                "Layout": [layout_words(row) for _, row in layouts.iterrows()],
                "Chunks": layouts["vp"].astype(str),
                "Micro-batch": layouts["micro_batch"].astype(str),
                "ZeRO": layouts["zero"].astype(str),
                "Recomputation": layouts["recompute"],
                "Step": [units.human(seconds, "s") for seconds in layouts["step_seconds"]],
                "Memory": [units.human(size, "iB") for size in layouts["memory_bytes"]],
                "Left": [units.human(size, "iB") for size in layouts["headroom_bytes"]],
                "Loses by": slower,
            }
        )

    def launch(self, engine: str = "", row: int = 0) -> Launch:
        """Return the command line that starts a layout, and that of a short run which times its step.

        Parameters
        ----------
        engine : str
            "megatron-lm" or "torchtitan"; by default the one that starts the software, or else the first.
        row : int
            Row of the table; the fastest layout by default.

        Returns
        -------
        cookbook.catalog.commands.Launch

        Raises
        ------
        ValueError
            No such row, or a layout that the engine cannot run: the quantity, the reason and the remedy.

        Examples
        --------
        >>> search("llama2_7b", "h100-sxm", 16, 128).launch("megatron-lm").command.split()[:2]
        ['torchrun', '--nproc_per_node=8']
        """
        number = one_of("row", row, range(len(self._table)), "is not in the table")
        return start_training(engine or self.engine, self._table.iloc[number].to_dict(), self.settings)

    def summary(self) -> str:
        """Return the number of layouts that fit, and the fastest of them, in one sentence."""
        head = f"{self.title}: {self.fitting:,} of {self.tried:,} layouts fit"
        if not self.fitting:
            if not self.nearest:
                return f"{head}; none can be predicted"
            need, have = (units.human(self.nearest[name], "iB") for name in ("memory_bytes", "capacity_bytes"))
            return f"{head}; the smallest needs {need} of {have}"
        best = self._table.iloc[0]
        seconds, low, high = (units.human(best[name], "s") for name in ("step_seconds", "low80", "high80"))
        return (
            f"{head}; the fastest, {layout_words(best)}, takes {seconds} ({low} to {high}), "
            f"{best['tokens_per_second']:,.0f} tokens/s"
        )

    def why(self, row: int = 0, count: int = 8) -> pd.DataFrame:
        """Return neighbours of a layout, what they change, and the part of a step that makes them slower or faster.

        Parameters
        ----------
        row : int
            Row of `table`; the fastest by default.
        count : int
            Number of neighbours, the nearest in time first.

        Returns
        -------
        pandas.DataFrame
            change, step_seconds, difference_seconds, within_80 (whether the neighbour is inside the 80 % interval of
            the layout, so that either may be the faster), part (that differs most), part_seconds (by how much),
            memory_bytes.

        Raises
        ------
        ValueError
            A row that the table does not have.
        """
        size = len(self._table)
        row = Field.count(0, size - 1, give=f"a row of the table, which has {size:,}").read(row, "row")
        count = Field.count().read(count, "count")
        axes = self._table[self.axes]
        own = axes.iloc[row]
        same = axes.eq(own, axis=1)
        differs = (~same).sum(axis=1)
        traded = differs.eq(2) & same.drop(columns=list(TRADED_AXES)).all(axis=1)
        near = np.flatnonzero((differs.eq(1) | traded).to_numpy())
        seconds = self._table["step_seconds"].to_numpy()
        near = near[np.argsort(np.abs(seconds[near] - seconds[row]), kind="stable")][:count]
        names = list(self.prediction.parts)
        parts = np.stack([self.prediction.parts[name][self.rows] for name in names])
        change = parts[:, near] - parts[:, [row]]
        most = np.abs(change).argmax(axis=0)
        low, high = (self._table[name].iloc[row] for name in ("low80", "high80"))
        return pd.DataFrame(
            {
                "change": [_words(own, axes.iloc[other]) for other in near],
                "step_seconds": seconds[near],
                "difference_seconds": seconds[near] - seconds[row],
                "within_80": (seconds[near] >= low) & (seconds[near] <= high),
                "part": [names[part] for part in most],
                "part_seconds": change[most, np.arange(len(near))],
                "memory_bytes": self._table["memory_bytes"].to_numpy()[near],
            }
        )


@checked(
    model=LANGUAGE_MODEL,
    accelerator=SYSTEM,
    devices=Field.count(many=True),
    global_batch=Field.count(high=MAX_SEQUENCES),
    seq=Field.count(high=MAX_TOKENS),
    precision=Field.named("number_formats"),
    software=Field.text(),
    micro_batch=Field.count(high=MAX_SEQUENCES, many=True),
    zero=Field.choice(*ZERO, many=True),
    recompute=Field.choice(*RECOMPUTE, many=True),
    attention=Field.row("attention", KIND),
    pipeline_schedule=Field.choice(*OPTIONS["pipeline_schedule"], many=True),
    offload=Field.choice(*OPTIONS["offload"], many=True),
    shard=Field.count(many=True, gaps=True, optional=True),
    per_node=Field.count(),
    capacity_factor=Field.number(0, 1e6),
    fabric=Field.named("fabrics"),
    oversubscription=Field.number(0, 1e6),
    network=Field.number(high=1e24, unit="B/s"),
)
def search(
    model: str | Workload,
    accelerator: System,
    devices: int | Sequence[int],
    global_batch: int,
    *,
    seq: int | None = None,
    precision: str = "",
    software: str = "",
    micro_batch: int | Sequence[int] | None = None,
    zero: int | Sequence[int] | None = None,
    recompute: str | Sequence[str] | None = None,
    attention: str = "",
    pipeline_schedule: str | Sequence[str] = ("",),
    offload: str | Sequence[str] = ("",),
    shard: int | Sequence[int | None] | None = (None,),
    per_node: int | None = None,
    capacity_factor: float | None = None,
    fabric: str = "",
    oversubscription: float = 1,
    network: float | str | None = None,
) -> Layouts:
    """Return all layouts of a language model that divide its layers, heads, experts, the batch and the devices.

    Embedding and LM head may count as a layer each where stages are filled, as they did in Llama 3: 126 layers in 16
    stages. Sequence parallelism goes with tensor parallelism.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo, or one with changed arguments (``cb.model("llama2_7b", depth=40)``).
    accelerator : str, Accelerator or Machine
        An accelerator, a server or a cloud instance of the catalogue, or the reader's own record.
    devices : int or sequence of int
        Devices to use, at most 1,048,576; several numbers are searched together.
    global_batch : int
        Sequences of one step.
    seq : int, optional
        Tokens of a sequence; the model's by default. Context parallelism is tried from 8,192 on.
    precision : str
        As for `cookbook.train_step`; "fp8" where the accelerator has it.
    software : str
        A product or a level of the table ``software``; the usual one of the device by default. Of a named one, only
        what the engine that starts it can run is tried.
    micro_batch : int or sequence of int, optional
        Micro-batches to try: sequences of one pass of one replica; 1, 2, 4 and 8 by default.
    zero : int or sequence of int, optional
        ZeRO stages to try, 0 to 3; by default those of 1, 2 and 3 that the software can run.
    recompute : str or sequence of str, optional
        Kinds of activation recomputation to try: "none", "selective", "full"; all by default.
    attention : str
        Attention kernel: "eager", "fused-softmax", "flash1", "flash2" or "flash3"; that of the software by default.
    pipeline_schedule, offload : str or sequence of str
        Schedules, and what lies in host memory or on drives, to try, as in a plan; "" is the usual one.
    shard : int or sequence of int
        Replicas that share one copy under ZeRO-3, to try beside or instead of all of them (None; "all" in the table).
    per_node, capacity_factor, fabric, oversubscription
        As in a plan, for all layouts. Tensor parallelism stays within a node.
    network : float or str, optional
        Rate of the network for one device, one direction [B/s]; that of the machine by default.

    Returns
    -------
    Layouts
        Its `assumed` lists what was not given, and what was taken.

    Raises
    ------
    cookbook.catalog.UnknownName
        A model, system or precision that the catalogue does not have.
    ValueError
        An invalid argument, one that the engine of the named software cannot run, or arguments that leave no layout to
        try: which, and what to change.

    Examples
    --------
    >>> found = search("llama2_7b", "h100-sxm", 16, 64, seq=4096, recompute="none")
    >>> found.fitting <= found.tried, len(found.front) > 0, "software = megatron-core (tuned)" in found.assumed
    (True, True, True)
    """
    counts, batch = sorted(cast(Sequence[int], devices)), global_batch
    workload = model_of(model)
    shape, length = shape_of(workload), sequence(workload, seq)
    machine, joined = machine_of(accelerator), per_node
    device = machine.accelerator
    engine = engine_of("train", level_of(KIND, software, device.vendor, device.kind))
    runs = engine if software else ""
    axes: dict[str, Any] = {
        "micro_batch": MICRO_BATCHES if micro_batch is None else sorted(cast(Sequence[int], micro_batch)),
        "zero": able_values("train", runs, "zero", zero, ZERO[1:]),
        "recompute": able_values("train", runs, "recompute", recompute, RECOMPUTE),
    }
    more: dict[str, Any] = {
        "pipeline_schedule": able_values("train", runs, "pipeline_schedule", pipeline_schedule),
        "offload": able_values("train", runs, "offload", offload),
        "shard": shard or (None,),
    }
    same = {
        "capacity_factor": capacity_factor,
        "fabric": fabric or None,
        "oversubscription": None if oversubscription == 1 else oversubscription,
        "attention": attention or None,
        "network": network,
    }
    domain = fabric_of(fabric).domain if fabric else math.nan
    node = joined or int(domain if math.isfinite(domain) else machine.per_node)
    # Schedules that the reader names are checked one by one.
    rules = SPLITS if any(more["pipeline_schedule"]) else (*SPLITS, ROUNDS)
    grid = configuration_grid(shape, {count: min(node, count) for count in counts}, batch, length, axes, rules)
    grid = _with_more(grid, batch, more)
    if not 0 < len(grid["devices"]) <= MAX_LAYOUTS:
        raise ValueError(
            f"global_batch = {batch:,}, devices = {shown(counts if len(counts) > 1 else counts[0])}: "
            + (
                f"{len(grid['devices']):,} layouts are too many to try; give fewer numbers"
                if len(grid["devices"])
                else "no layout divides them; take a batch that is a multiple of a power of two, and devices likewise"
            )
        )
    columns = _columns(grid) | {"global_batch": float(batch), **same}
    # Nodes that are not given are those of the machine, as for any other question.
    columns |= {"per_node": np.minimum(grid["devices"], joined)} if joined else {}
    answer = _estimated(workload, machine, columns, software, precision, length)
    assumed = (
        ("seq", seq, f"{length:,} tokens"),
        ("micro_batch", micro_batch, all_tried(MICRO_BATCHES)),
        ("zero", zero, all_tried(axes["zero"])),
        ("recompute", recompute, all_tried(axes["recompute"])),
        ("pipeline_schedule", any(more["pipeline_schedule"]), f"1F1B, chunks per stage: {all_tried(CHUNKS)}"),
        ("per_node", per_node or fabric, f"{node:,}"),
        ("sequence_parallel", None, "yes where TP > 1 and the stack splits norms along the sequence"),
        ("neighbours", None, "no, so that layouts are compared by formulas alone"),
    )
    layouts = _layouts(grid, answer, device.memory_bytes, length, batch, device_usd(machine.priced).median)
    first = answer.assumed[0].taken
    defaults = Assumptions(
        {name: value for name, value in first.items() if name not in ("sequence_parallel", "per_node")}
    )
    unstated = [f"{name} = {value}" for name, argument, value in assumed if argument in (None, False, "")]
    return replace(
        layouts,
        settings={
            "network": (workload.name, workload.title),
            "seq": length,
            "global_batch": batch,
            "per_node": node,
            "precision": precision or first.get("precision", ""),
            "software": software or first.get("software", ""),
            "attention": attention or first.get("attention"),
        },
        engine=engine or engines_for("train")[0],
        title=f"{workload.title} on {device.name}",
        assumed=(*defaults.told(), *unstated),
    )


def _columns(grid: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return axes of a grid as columns of a scenario."""
    columns: dict[str, Any] = {}
    for name, column in grid.items():
        if name == "shard":
            columns[name] = [None if size == ALL_REPLICAS else size for size in column.tolist()]
        elif column.dtype.kind in "iuf":
            columns[name] = column.astype(float)
        else:
            levels, codes = np.unique(column.astype(str), return_inverse=True)
            columns[name] = Coded(codes, tuple(levels.tolist()))
    columns.pop("dp")
    return columns


def _estimated(
    network: Workload, machine: Machine, columns: dict[str, Any], software: str, precision: str, seq: int
) -> Estimate:
    """Return steps of all layouts of a grid at once; ValueError where a value that they share is impossible."""
    plan = plan_fields(None, columns)
    request = training_scenario(network, machine, plan, KIND, software or None, precision or None, seq)
    answer = estimate(request)
    if answer.why[0]:
        raise Refused(answer.why[0])
    return answer


def model_of(model: str | Workload) -> Workload:
    """Return the language model of an argument `model`: of the zoo by name, or a changed one as it is."""
    return network_of(LANGUAGE_MODEL.read(model, "model"))


def sequence(network: Workload, seq: int | None) -> int:
    """Return tokens of a sequence: those given, the model's, or 2,048."""
    return int(network.seq or LENGTH) if seq is None else seq


def shape_of(network: Workload) -> dict[str, int]:
    """Return layers, heads and experts of a language model: what may be divided."""
    shape, own = of_model(network), network.arguments
    if not shape:
        name, why = network.name, ""
        if network.unsplit:
            name, why = network.title, f": {network.unsplit}; build it of {zoo.DIVIDED}"
        raise refused("model", name, f"is not a language model with layers that can be split{why}")
    experts = own.get("experts") or 0
    return {
        "layers": int(own["depth"]) * (2 if shape["decoder"] else 1),
        "heads": int(own["heads"]),
        "experts": int(experts if isinstance(experts, int) else experts.get("number", 0)),
    }


def all_tried(values: Sequence[Any]) -> str:
    """Return values of an axis in words, as an assumption.

    >>> all_tried((0, 2, 3)), all_tried(("none", "full"))
    ('0, 2 or 3, all tried', 'none or full, both tried')
    """
    return f"{', '.join(map(str, values[:-1]))} or {values[-1]}, {'both' if len(values) == 2 else 'all'} tried"


def _with_more(grid: dict[str, np.ndarray], batch: int, lists: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
    """Return the grid with every choice of further axes that it allows; axes with the usual choice alone stay out."""
    for name, choices in lists.items():
        if tuple(choices) == (USUAL_AXES[name],):
            continue
        row, choice = np.divmod(np.arange(len(grid["devices"]) * len(choices)), len(choices))
        wide = {axis: column[row] for axis, column in grid.items()}
        wide[name] = np.array([ALL_REPLICAS if value is None else value for value in choices], dtype=object)[choice]
        possible = np.ones(len(row), dtype=bool)
        if name == "pipeline_schedule":
            possible = _scheduled(wide, choice == 0, batch)
        elif name == "shard":
            possible = _shared(wide)
        grid = {axis: column[possible] for axis, column in wide.items()}
    return grid


def _scheduled(grid: dict[str, np.ndarray], first: np.ndarray, batch: int) -> np.ndarray:
    """Return rows to keep: one stage has no schedule, so that only the first of the list is kept."""
    layouts = SimpleNamespace(**grid, micro_batches=batch // (grid["dp"] * grid["micro_batch"]), flushes=1)
    return np.where(grid["pp"] > 1, possible(layouts, SCHEDULES), first)


def _shared(grid: dict[str, np.ndarray]) -> np.ndarray:
    """Return groups smaller than all replicas, where weights are shared out; the whole group is the usual."""
    ranks, usual = grid["dp"] * grid["cp"], grid["shard"] == ALL_REPLICAS
    size = np.where(usual, 0, grid["shard"]).astype(int)
    layouts = SimpleNamespace(**{**grid, "stated_shard": size})
    with np.errstate(divide="ignore"):
        return usual | ((grid["zero"] == 3) & (size < ranks) & possible(layouts, SHARDS))


def _layouts(
    grid: dict[str, np.ndarray], answer: Estimate, capacity: float, seq: float, global_batch: int, usd: float
) -> Layouts:
    seconds, memory = np.asarray(answer.point), np.asarray(answer.memory_bytes)
    predicted = np.isfinite(seconds) & np.isfinite(memory)
    rows = np.flatnonzero(predicted & (np.asarray(answer.fits) == "yes"))
    rows = rows[np.argsort(seconds[rows], kind="stable")]
    table = pd.DataFrame({name: column[rows] for name, column in grid.items()})
    table = table.assign(
        step_seconds=seconds[rows],
        low80=answer.low80[rows],
        high80=answer.high80[rows],
        memory_bytes=memory[rows],
        headroom_bytes=capacity - memory[rows],
        device_seconds=seconds[rows] * grid["devices"][rows],
        tokens_per_second=seq * global_batch / seconds[rows],
    )
    costs = table[["step_seconds", "memory_bytes", "device_seconds"]].to_numpy()
    table["front"] = table.index.isin(pareto_front(costs, table.index.to_numpy()))
    table["step_usd"] = table["device_seconds"] * usd / HOUR
    nearest: dict[str, Any] = {}
    if predicted.any() and not len(rows):
        least = int(np.argmin(np.where(predicted, memory, np.inf)))
        nearest = {name: column[least] for name, column in grid.items()}
        nearest |= {"memory_bytes": float(memory[least]), "capacity_bytes": capacity}
    rows.flags.writeable = False
    return Layouts("", table, len(seconds), len(rows), MappingProxyType(nearest), (), answer, rows)


def _words(own: Any, other: Any) -> str:
    """Return the differences of another layout, in words.

    >>> _words({"tp": 8, "pp": 1}, {"tp": 4, "pp": 2})
    'tp 8 -> 4, pp 1 -> 2'
    """
    return ", ".join(f"{name} {own[name]} -> {other[name]}" for name in own.keys() if own[name] != other[name])  # noqa: SIM118


def layout_words(row: Any) -> str:
    """Return a layout as its splits; "none" where there is none.

    >>> layout_words({"tp": 8, "pp": 4, "cp": 1, "ep": 1, "dp": 32})
    'TP 8, PP 4, DP 32'
    """
    if row["dp"] != row["dp"]:
        return "none"
    names = [(name.upper(), int(row[name])) for name in ("tp", "pp", "cp", "ep", "dp")]
    return ", ".join(f"{name} {size:,}" for name, size in names if size > 1) or "one device"


def machine_of(system: System) -> Machine:
    """Return the machine of a name or a record; ValueError for anything else."""
    return hardware.machine(SYSTEM.read(system, "accelerator"))


def devices_of_a_node(devices: int, per_node: int, tp: int = 1) -> int:
    """Return how many devices of each node a run takes: as many as divide its `devices`, whole tensor-parallel groups.

    >>> devices_of_a_node(16, 8), devices_of_a_node(12, 8), devices_of_a_node(12, 8, tp=4)
    (8, 6, 4)
    """
    most = max(min(per_node, devices), 1)
    return next((node for node in range(most, 0, -1) if devices % node == 0 and node % tp == 0), devices)


def start_training(engine: str, row: Mapping[str, Any], shared: Mapping[str, Any]) -> Launch:
    """Return the command line of a parallelism configuration.

    Parameters
    ----------
    engine : str
        "megatron-lm" or "torchtitan".
    row : mapping
        One row of `Layouts.table`, or of a run, which has the steps too.
    shared : mapping
        What all rows have in common: `Layouts.settings`.
    """
    devices = int(row["devices"])
    node = devices_of_a_node(devices, int(shared["per_node"]), int(row["tp"]))
    split = row["zero"] >= 1
    shard = row["dp"] if row.get("shard", ALL_REPLICAS) == ALL_REPLICAS else int(row["shard"])
    settings = {
        **shared,
        "per_node": node,
        "nodes": devices // node,
        "model_config": shared["network"][1],
        **{name: row[name] for name in (*AXES[1:], "dp")},
        "dp_replicate": row["dp"] // shard if split else row["dp"],
        "dp_shard": shard if split else 1,
        "state_copies": row["dp"] // shard if split else 1,
        "sequence_parallel": row["tp"] > 1,
        "pipeline_schedule": row.get("pipeline_schedule") or ORDERS[int(row["vp"] > 1)] if row["pp"] > 1 else None,
        "local_batch": shared["global_batch"] // row["dp"] if row["pp"] > 1 else row["micro_batch"],
        "pipeline_micro_batch": row["micro_batch"] if row["pp"] > 1 else None,
        "offload": row.get("offload") or None,
        **{name: row.get(name) for name in ("steps", "checkpoint_steps")},
    }
    return launch("train", engine, settings, CHECK)
