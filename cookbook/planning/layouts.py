"""Every layout of a transformer on a number of devices, which of them are worth a look, and why the others lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.planning.altered import System, accelerator_of, altered, base_of
from cookbook.planning.cost import HOUR, device_usd
from cookbook.planning.divisible import context_sizes, divisors, even_stages, stage_counts
from cookbook.prediction.layout_checks import layout_refusals
from cookbook.prediction.measurements import module_of
from cookbook.prediction.plan_options import cells
from cookbook.prediction.record import Prediction
from cookbook.prediction.step import predict_scenarios
from cookbook.prediction.train import Plan, machine_row
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

KIND = "training_transformer"
AXES = ("devices", "tp", "pp", "vp", "cp", "ep", "micro_batch", "zero", "recompute")
# Axes that are searched where more than the usual is asked for.
MORE = ("pipeline_schedule", "offload", "shard")
USUAL = {"pipeline_schedule": "", "offload": "", "shard": None}
# How the table calls the group of all replicas.
ALL = "all"
# Chunks of a stage that a schedule takes; any where it is the usual one.
ONE_CHUNK = ("gpipe", "1f1b", "zero-bubble")
RECOMPUTE = ("none", "selective", "full")
MICRO_BATCHES = (1, 2, 4, 8)
CHUNKS = (1, 2, 4)
# A neighbour differs from a layout in one axis, or trades one kind of shard for another.
TRADED = ("tp", "pp", "cp")


@dataclass(frozen=True, eq=False)
class Layouts:
    """Layouts of one model on one kind of machine.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a layout that fits, fastest first: the axes, dp, step_seconds with low80 and high80, bound_low,
        memory_bytes, headroom_bytes, device_seconds, tokens_per_second, step_usd (at the median of dated prices on
        demand; NaN where none is known), and whether it is on the front.
    tried, fitting : int
        Layouts that divide the model, the batch and the devices; those of them that fit the memory.
    nearest : dict
        Where none fits: the layout that needs least memory, with memory_bytes and capacity_bytes.
    prediction : Prediction
        What the table is made of, rows as in `rows`.
    rows : numpy.ndarray of int
        Row of the prediction of each row of the table.
    """

    table: pd.DataFrame
    tried: int
    fitting: int
    nearest: dict[str, Any]
    prediction: Prediction
    rows: np.ndarray

    @property
    def axes(self) -> list[str]:
        """Columns of the table in which layouts differ."""
        return [name for name in (*AXES, *MORE) if name in self.table]

    @property
    def front(self) -> pd.DataFrame:
        """Layouts that no other beats in time, memory headroom and device time together."""
        return self.table[self.table["front"]]

    @property
    def memory(self) -> pd.DataFrame:
        """Memory of the fullest device by part [B], one row a row of the table."""
        import pandas as pd

        return pd.DataFrame({name: np.asarray(part)[self.rows] for name, part in self.prediction.memory.items()})

    def why(self, row: int = 0, count: int = 8) -> pd.DataFrame:
        """Neighbours of a layout, what they change, and the part of a step that makes them slower or faster.

        Parameters
        ----------
        row : int
            Row of `table`; the fastest by default.
        count : int
            How many neighbours to tell, the nearest in time first.

        Returns
        -------
        pandas.DataFrame
            change, step_seconds, difference_seconds, part (that differs most), part_seconds (by how much),
            memory_bytes.
        """
        import pandas as pd

        axes = self.table[self.axes]
        own = axes.iloc[row]
        same = axes.eq(own, axis=1)
        differs = (~same).sum(axis=1)
        traded = differs.eq(2) & same.drop(columns=list(TRADED)).all(axis=1)
        near = np.flatnonzero((differs.eq(1) | traded).to_numpy())
        seconds = self.table["step_seconds"].to_numpy()
        near = near[np.argsort(np.abs(seconds[near] - seconds[row]), kind="stable")][:count]
        names = list(self.prediction.parts)
        parts = np.stack([self.prediction.parts[name][self.rows] for name in names])
        change = parts[:, near] - parts[:, [row]]
        most = np.abs(change).argmax(axis=0)
        return pd.DataFrame({
            "change": [_words(own, axes.iloc[other]) for other in near],
            "step_seconds": seconds[near],
            "difference_seconds": seconds[near] - seconds[row],
            "part": [names[part] for part in most],
            "part_seconds": change[most, np.arange(len(near))],
            "memory_bytes": self.table["memory_bytes"].to_numpy()[near],
        })  # fmt: skip


def search(
    model: str,
    system: System,
    devices: int | Sequence[int],
    global_batch: int,
    *,
    seq: float | None = None,
    precision: str = "",
    software: str = "Megatron Core",
    recompute: Sequence[str] = RECOMPUTE,
    micro_batches: Sequence[int] = MICRO_BATCHES,
    attention: str = "flash2",
    pipeline_schedule: Sequence[str] = ("",),
    offload: Sequence[str] = ("",),
    shard: Sequence[int | None] = (None,),
    per_node: int | None = None,
    capacity_factor: float | None = None,
    fabric: str = "",
    oversubscription: float = 1,
    network: float | str | None = None,
) -> Layouts:
    """All layouts of a language model that divide its layers, heads, experts, the batch and the devices.

    Embedding and head may count as a layer each where stages are filled, as they did in Llama 3: 126 layers in 16
    stages.

    Parameters
    ----------
    model : str
        A language model of the zoo.
    system : str or Accelerator
        An accelerator or a server of the catalogue, or an accelerator with some figures changed.
    devices : int or sequence of int
        Devices to use; several numbers are searched together.
    global_batch : int
        Sequences of one step.
    seq : float, optional
        Sequence length; the model's by default. Context parallelism is tried from 8,192 on.
    precision, software, attention : str
        As for `cookbook.train_step`.
    recompute : sequence of str
        Kinds of activation recomputation to try.
    micro_batches : sequence of int
        Micro-batches to try.
    pipeline_schedule, offload : sequence of str
        Schedules and places of optimiser states to try, as in a plan; "" is the usual one.
    shard : sequence of int
        Replicas that share one copy under ZeRO-3, to try beside or instead of all of them (None; "all" in the table).
    per_node, capacity_factor, fabric, oversubscription
        As in a plan, for all layouts. Tensor parallelism stays within a node.
    network : float or str, optional
        Rate of the network for one device, one direction [B/s]; that of the machine by default.

    Returns
    -------
    Layouts

    Raises
    ------
    cookbook.catalog.UnknownName
        A model, system or number format that the catalogue does not have.
    ValueError
        Arguments that leave no layout to try: which, and what to change.

    Examples
    --------
    >>> found = search("llama2_7b", "h100-sxm", 16, 64, seq=4096, recompute=["none"])
    >>> found.fitting <= found.tried, len(found.front) > 0
    (True, True)
    """
    counts = _counts(devices)
    workload = zoo.model(model)
    shape = _shape(workload.name)
    length = float(seq or workload.seq or 2048)
    whole = {"model": workload.name, "software": software, "seq_len": length, "global_batch": global_batch,
             "attention_kernel": attention, "task": "pretrain"}  # fmt: skip
    same = {"capacity_factor": capacity_factor, "fabric": fabric, "oversubscription": oversubscription}
    nodes = {count: None if per_node is None else min(per_node, count) for count in counts}
    machines = {
        count: machine_row(base_of(system), Plan(devices=count, per_node=nodes[count], **same), precision)
        for count in counts
    }
    sizes = {count: int(machine["per_node"]) for count, machine in machines.items()}
    grid = _grid(shape, counts, sizes, int(global_batch), length, list(recompute), list(micro_batches))
    grid = _with_more(grid, shape, int(global_batch), {"pipeline_schedule": pipeline_schedule, "offload": offload,
                                                       "shard": shard})  # fmt: skip
    if not len(grid["devices"]):
        raise ValueError(
            f"global_batch = {global_batch}, devices = {devices!r}: no layout divides them; take a batch that is a "
            "multiple of a power of two, and devices likewise"
        )
    frame = _frame(grid, machines, whole)
    options = {name: [None if each == ALL else each for each in grid[name]] for name in MORE if name in grid}
    plan = Plan(devices=grid["devices"], **{**same, **options})
    frame = frame.drop(columns=list(MORE), errors="ignore").assign(**cells(plan, frame["accelerator"].iloc[0]))
    chosen = str(frame["precision"].iloc[0])
    scenarios = altered(module_of(KIND).scenarios(frame), system, network, chosen.removeprefix("amp_"))
    if why := layout_refusals(scenarios.take([0]), frame.head(1))[0]:
        raise ValueError(why)
    found = predict_scenarios(KIND, scenarios, neighbours=False)
    layouts = _layouts(grid, found, accelerator_of(system)[0].memory_bytes, length, global_batch)
    layouts.table["step_usd"] = layouts.table["device_seconds"] * device_usd(system).median / HOUR
    return layouts


def _counts(devices: int | Sequence[int]) -> list[int]:
    counts: list[Any] = [devices] if np.ndim(devices) == 0 else list(devices)  # type: ignore[arg-type]
    for count in counts:
        if int(count) != count or count < 1:
            raise ValueError(f"devices = {count!r} must be a whole number, 1 or more")
    return [int(count) for count in counts]


def _shape(name: str) -> dict[str, int]:
    """Layers, heads and experts of a language model: what may be divided."""
    from cookbook.prediction.transformer_rows import of_model

    known = of_model(name)
    if not known:
        raise ValueError(f"model = {name!r} is not a language model with layers that can be split")
    return {part: int(known.get(part, 0)) for part in ("layers", "heads", "kv_heads", "experts")}


def shards_of(
    model: str, system: System, devices: int, seq: float, per_node: int | None = None
) -> tuple[dict[str, int], list[int]]:
    """Layers, heads, experts and devices of a node, and every tp x pp x cp that divides them and so many devices."""
    shape = _shape(model)
    node = int(machine_row(base_of(system), Plan(devices=devices, per_node=per_node), "")["per_node"])
    split = [divisors(shape["heads"], min(node, devices)), stage_counts(shape["layers"], devices), context_sizes(seq)]
    return {**shape, "per_node": node}, sorted({int(t * p * c) for t in split[0] for p in split[1] for c in split[2]})


def _grid(
    shape: dict[str, int], counts: list[int], per_node: dict[int, int], batch: int, seq: float,
    recompute: list[str], micro_batches: list[int],
) -> dict[str, np.ndarray]:  # fmt: skip
    """All combinations of the axes that divide what they must, as arrays."""
    found: list[dict[str, np.ndarray]] = []
    for count in counts:
        tensor = [t for t in divisors(shape["heads"], per_node[count]) if count % t == 0]
        stages = [p for p in stage_counts(shape["layers"], count) if count % p == 0]
        context = context_sizes(seq)
        experts = divisors(shape["experts"], count) if shape["experts"] else [1]
        axes = np.meshgrid(tensor, stages, CHUNKS, context, experts, micro_batches, (1, 2, 3), range(len(recompute)),
                           indexing="ij")  # fmt: skip
        tp, pp, vp, cp, ep, micro, zero, again = (axis.ravel() for axis in axes)
        model = tp * pp * cp
        chunks = (pp > 1) & even_stages(shape["layers"], pp * vp)
        fits = (count % model == 0) & ((vp == 1) | chunks)
        dp = np.where(fits, count // model, 1)
        fits &= (batch % (dp * micro) == 0) & ((dp * cp * tp) % ep == 0) & (seq % cp == 0)
        # Gathering weights for every micro-batch of a pipeline defeats both.
        fits &= (zero < 3) | (pp == 1)
        fits &= (zero == 1) | (dp * cp > 1)
        columns = {"devices": np.full(len(tp), count), "tp": tp, "pp": pp, "vp": vp, "cp": cp, "ep": ep,
                   "micro_batch": micro, "zero": zero, "recompute": np.array(recompute)[again], "dp": dp}  # fmt: skip
        found.append({name: column[fits] for name, column in columns.items()})
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _with_more(
    grid: dict[str, np.ndarray], shape: dict[str, int], batch: int, lists: dict[str, Sequence[Any]]
) -> dict[str, np.ndarray]:
    """The grid with every choice of the further axes that it allows; those with the usual choice alone stay out."""
    for name, choices in lists.items():
        given = list(choices) or [USUAL[name]]
        if given == [USUAL[name]]:
            continue
        size = len(grid["devices"])
        row, choice = np.divmod(np.arange(size * len(given)), len(given))
        wide = {axis: column[row] for axis, column in grid.items()}
        wide[name] = np.array([ALL if each is None else each for each in given], dtype=object)[choice]
        kept = _ALLOWED[name](wide, choice == 0, batch)
        grid = {axis: column[kept] for axis, column in wide.items()}
    return grid


def _scheduled(grid: dict[str, np.ndarray], first: np.ndarray, batch: int) -> np.ndarray:
    """One stage has no schedule: the first of the list stands for all."""
    kind, fed = grid["pipeline_schedule"], batch // (grid["dp"] * grid["micro_batch"])
    chunks = np.select(
        [np.isin(kind, ONE_CHUNK), kind == "zb-v", kind == "interleaved"],
        [grid["vp"] == 1, grid["vp"] == 2, (grid["vp"] > 1) & (fed % grid["pp"] == 0)],
        True,
    )
    return np.where(grid["pp"] > 1, chunks, first)


def _shared(grid: dict[str, np.ndarray], first: np.ndarray, batch: int) -> np.ndarray:
    """Groups smaller than all replicas, where weights are shared out; the whole group is the usual."""
    ranks, usual = grid["dp"] * grid["cp"], grid["shard"] == ALL
    size = np.where(usual, 0, grid["shard"]).astype(int)
    return usual | ((grid["zero"] == 3) & (size >= 1) & (size < ranks) & (ranks % np.maximum(size, 1) == 0))


_ALLOWED = {
    "pipeline_schedule": _scheduled,
    "offload": lambda grid, first, batch: np.ones(len(first), dtype=bool),
    "shard": _shared,
}


def _frame(grid: dict[str, np.ndarray], machines: dict[int, dict[str, Any]], whole: dict[str, Any]) -> pd.DataFrame:
    """The layouts as rows that the engine reads."""
    import pandas as pd

    frame = pd.DataFrame(grid).rename(columns={"zero": "zero_fsdp_stage", "recompute": "activation_recompute"})
    first = next(iter(machines.values()))
    for name in first:
        if name != "devices":
            frame[name] = frame["devices"].map({count: machine[name] for count, machine in machines.items()})
    split = np.where(frame["tp"] > 1, "yes", "no")
    return frame.assign(**whole, sequence_parallel=split, zero_fsdp_stage=frame["zero_fsdp_stage"].astype(str))


def _layouts(
    grid: dict[str, np.ndarray], found: Prediction, capacity: float, seq: float, global_batch: int
) -> Layouts:
    import pandas as pd

    seconds, memory = np.asarray(found.point), np.asarray(found.memory_bytes)
    known = np.isfinite(seconds) & np.isfinite(memory)
    fitting = known & (np.asarray(found.fits) == "yes")
    rows = np.flatnonzero(fitting)
    rows = rows[np.argsort(seconds[rows], kind="stable")]
    table = pd.DataFrame({name: column[rows] for name, column in grid.items()})
    table = table.assign(
        step_seconds=seconds[rows], low80=found.low80[rows], high80=found.high80[rows],
        memory_bytes=memory[rows], headroom_bytes=capacity - memory[rows],
        device_seconds=seconds[rows] * grid["devices"][rows], tokens_per_second=seq * global_batch / seconds[rows],
    )  # fmt: skip
    some = _lightest(table["devices"].to_numpy(), memory[rows])
    table["front"] = False
    table.loc[some, "front"] = _front(table.loc[some, ["step_seconds", "memory_bytes", "device_seconds"]].to_numpy())
    least = int(np.argmin(np.where(known, memory, np.inf))) if known.any() and not len(rows) else -1
    nearest = {name: column[least] for name, column in grid.items()} if least >= 0 else {}
    nearest |= {"memory_bytes": float(memory[least]), "capacity_bytes": capacity} if least >= 0 else {}
    return Layouts(table, len(seconds), len(rows), nearest, found, rows)


def _lightest(devices: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """Rows that need less memory than all faster ones on as many devices; no other can be on the front."""
    found = np.zeros(len(memory), dtype=bool)
    for count in np.unique(devices):
        rows = np.flatnonzero(devices == count)
        least = np.minimum.accumulate(memory[rows])
        found[rows] = memory[rows] < np.concatenate([[np.inf], least[:-1]])
    return found


def _front(costs: np.ndarray) -> np.ndarray:
    """Rows that no other row beats in one cost without losing in another; rows come sorted by the first cost."""
    front = np.zeros(len(costs), dtype=bool)
    best = np.empty((0, costs.shape[1]))
    for row, cost in enumerate(costs):
        if not (best <= cost).all(axis=1).any():
            front[row] = True
            best = np.vstack([best[~(cost <= best).all(axis=1)], cost])
    return front


def _words(own: Any, other: Any) -> str:
    """What another layout has differently.

    >>> _words({"tp": 8, "pp": 1}, {"tp": 4, "pp": 2})
    'tp 8 -> 4, pp 1 -> 2'
    """
    return ", ".join(f"{name} {own[name]} -> {other[name]}" for name in own.keys() if own[name] != other[name])  # noqa: SIM118
