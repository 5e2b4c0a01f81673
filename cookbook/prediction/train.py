"""The front door for training: any network on any device or server of the catalogue, in any layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import catalog, hardware
from cookbook.catalog import UnknownName
from cookbook.prediction import plan_options
from cookbook.prediction import transformer_hardware as machines
from cookbook.prediction.cells import impossible
from cookbook.prediction.layout_checks import layout_refusals, nearest_multiples
from cookbook.prediction.measurements import module_of
from cookbook.prediction.record import Prediction
from cookbook.prediction.step import predict_scenarios
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

if TYPE_CHECKING:
    import pandas as pd

LANGUAGE_MODELS = ("transformers.decoder", "encoders.encoder_decoder")
# Number formats from the one that a reader most likely means, and how rows of measurements spell them.
PRECISIONS = {"bf16": "bf16", "fp16": "amp_fp16", "tf32": "tf32", "fp32": "fp32"}
NODE = 8
NUMBERS = ("devices", "per_node", "batch", "global_batch", "tp", "pp", "vp", "cp", "ep", "zero", "shard",
           "capacity_factor", "oversubscription")  # fmt: skip
# What only language models may change.
ONE_SHARD = ("tp", "pp", "vp", "cp", "ep", "zero", "sequence_parallel", "recompute", *plan_options.FIELDS)


@dataclass(frozen=True)
class Plan:
    """How training is laid out; every field may be a list, and lists are taken together entry by entry.

    Attributes
    ----------
    devices, per_node : int
        Devices in all and in one node; a node is the server's, or 8.
    batch : float
        Samples of one device in one pass: the micro-batch.
    global_batch : int
        Samples of one update of all devices; one pass of each by default.
    tp, pp, vp, cp, ep : int
        Tensor, pipeline (with `vp` chunks a stage), context and expert parallelism.
    zero : int
        States that replicas share out: 0 none, 1 optimiser, 2 also gradients, 3 also weights (FSDP).
    sequence_parallel : bool
        Whether tensor-parallel ranks split norms along the sequence.
    recompute, attention : str
        Activation recomputation ("none", "selective", "full") and attention kernel ("flash2", "no flash" ...).
    pipeline_schedule : str
        "gpipe", "1f1b", "interleaved", "zero-bubble" or "zb-v"; by default one forward, one backward, in `vp` chunks.
    shard : int
        Replicas that share one copy of what `zero` shares out (HSDP, groups of FSDP); all of them by default.
    offload : str
        "optimiser": its states in host memory, updated there; "optimiser to drives": on drives of the host. Whether
        the host has the memory is not checked.
    capacity_factor : float
        Rows that each expert computes over its even share; by default as many as it is sent.
    fabric : str
        Network of the table ``fabrics``: its rate, domain (as `per_node`), pods and oversubscription.
    oversubscription : float
        How much less than the network of a pod's devices leaves the pod; of a node, where no fabric says otherwise.
    """

    devices: Any = 1
    per_node: Any = None
    batch: Any = 1
    global_batch: Any = None
    tp: Any = 1
    pp: Any = 1
    vp: Any = 1
    cp: Any = 1
    ep: Any = 1
    zero: Any = 1
    sequence_parallel: Any = False
    recompute: Any = "none"
    attention: Any = "flash2"
    pipeline_schedule: Any = ""
    shard: Any = None
    offload: Any = ""
    capacity_factor: Any = None
    fabric: Any = ""
    oversubscription: Any = 1


def train_step(
    workload: str | Workload,
    system: str,
    plan: Plan | Mapping[str, Any] | None = None,
    *,
    software: str = "",
    precision: str = "",
    seq: float | None = None,
    kind: str = "",
    neighbours: bool = True,
    **changes: Any,
) -> Prediction:
    """Time of one training step, with its interval, bounds, parts and what it rests on.

    Parameters
    ----------
    workload : str or Workload
        A network of the zoo, such a network with changes, or one of the reader's own (`cookbook.layers`).
    system : str
        An accelerator or a server of the catalogue.
    plan : Plan or dict, optional
        The layout; one device by default. Lists in it give one prediction each.
    software : str
        Framework and version in words, as reports state them; its level follows from patterns.
    precision : str
        "bf16", "fp16", "tf32" or "fp32"; by default the first of these that the device has.
    seq : float, optional
        Sequence length, where the network has one.
    kind : str
        "training_transformer" or "training_classic"; by default the first for language models, else the second, which
        knows data parallelism alone.
    neighbours : bool
        Whether similar measurements correct the point.
    **changes
        Fields of the plan.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, device or number format that the catalogue does not have.
    ValueError
        One scenario that cannot be: the argument, its value and the remedy. Among several it gets NaN and a reason.

    Examples
    --------
    >>> step = train_step("resnet50", "a100-sxm-80gb", batch=256, precision="fp16", software="PyTorch NGC 21.03")
    >>> bool(step.low80 < step.point < step.high80), step.tier
    (True, 'device and engine measured')
    """
    layout = _plan(plan, changes)
    network = network_of(workload)
    _check(layout, seq)
    chosen = kind or kind_of(network)
    if chosen == "training_transformer" and not _is_language_model(network):
        raise ValueError(f"kind = {kind!r}: {network.title} is not a language model of the zoo; leave kind out")
    row = _row(network, system, layout, software, precision, seq, chosen)
    found = predict_rows(chosen, network, _frame(row), neighbours, _sources(network, row))
    if len(found) > 1 or any(np.ndim(value) for value in row.values()):
        return found
    if found.why[0]:
        raise ValueError(str(found.why[0]))
    return found.one()


def network_of(workload: str | Workload) -> Workload:
    """A network of the zoo by name, or the reader's own as it is; ValueError for anything else."""
    network = zoo.model(workload) if isinstance(workload, str) else workload
    if not isinstance(network, Workload):
        raise ValueError(f"workload = {workload!r} is no network; give a name such as 'resnet50', or cb.layers([...])")
    return network


def kind_of(network: Workload) -> str:
    """Kind of training that predicts a network."""
    return "training_transformer" if _is_language_model(network) else "training_classic"


def step_frame(
    network: Workload, systems: Sequence[str], number_formats: Sequence[str], batch: int = 1, software: str = "",
    seq: float | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Rows of the same step on one device of each kind, so that they may be predicted at once.

    Parameters
    ----------
    network : Workload
    systems, number_formats : sequence of str
        Accelerators, and the number format of each.
    batch, software, seq
        As for `train_step`.
    """
    plan, kind = Plan(batch=batch), kind_of(network)
    _check(plan, seq)
    pairs = zip(systems, number_formats, strict=True)
    rows = [_row(network, system, plan, software, name, seq, kind) for system, name in pairs]
    return _frame({name: [row[name] for row in rows] for name in rows[0]})


def predict_rows(
    kind: str, network: Workload, frame: pd.DataFrame, neighbours: bool = True, sources: tuple[str, ...] = ()
) -> Prediction:
    """Predictions of rows that all run one network; a row that cannot be has NaN and a reason.

    Parameters
    ----------
    kind : str
        Kind of prediction.
    network : Workload
        What all rows run.
    frame : pandas.DataFrame
        One row a scenario, cells as text.
    neighbours : bool
        Whether similar measurements correct the points.
    sources : tuple of str
        What else the prediction rests on.
    """
    scenarios = module_of(kind).scenarios(frame, own=None if _is_of_zoo(network) else network)
    found = predict_scenarios(kind, scenarios, neighbours)
    bad = impossible(frame)
    if kind == "training_transformer":
        refused = layout_refusals(scenarios, frame).tolist()
        bad = [first or second for first, second in zip(bad, refused, strict=True)]
    why = np.array([first or second for first, second in zip(bad, found.why.tolist(), strict=True)], dtype=object)
    return replace(_blank(found, why != ""), why=why, sources=sources)


def _row(
    network: Workload, system: str, plan: Plan, software: str, precision: str, seq: float | None, kind: str
) -> dict[str, Any]:
    row = machine_row(system, plan, precision) | {"model": network.name, "software": software}
    if kind != "training_transformer":
        return row | _classic(network, plan, seq)
    cores = float(machines.cores_per_device(machines.family(row["accelerator"])))
    return row | _transformer(network, plan, seq, cores) | plan_options.cells(plan, row["accelerator"])


def classic_scenarios(
    network: Workload, system: str, plan: Plan, software: str = "", precision: str = "", seq: float | None = None
) -> Any:
    """Data-parallel training of a network as the rows that the engine reads.

    Parameters
    ----------
    network, system, plan, software, precision, seq
        As for `train_step`; language models are refused, whose layouts are more than data parallel.
    """
    if _is_language_model(network):
        raise ValueError(
            f"workload = {network.name!r}: a language model is laid out in more ways than data parallel; use "
            "cb.train_step with tp, pp and dp, or take another network"
        )
    row = machine_row(system, plan, precision) | {"model": network.name, "software": software}
    frame = _frame(row | _classic(network, plan, seq))
    return module_of("training_classic").scenarios(frame, own=None if _is_of_zoo(network) else network)


def _is_of_zoo(network: Workload) -> bool:
    """Whether a network is one of the zoo as it stands, neither changed nor the reader's own."""
    rows = catalog.table("models")
    return (rows["name"] == network.name).any() and network.ops is zoo.model(network.name).ops


def _blank(found: Prediction, bad: np.ndarray) -> Prediction:
    names = ("point", "low80", "high80", "low90", "high90", "rate")
    parts = {name: np.where(bad, np.nan, part) for name, part in found.parts.items()}
    changed: dict[str, Any] = {name: np.where(bad, np.nan, getattr(found, name)) for name in names}
    return replace(found, parts=parts, **changed)


def _plan(plan: Plan | Mapping[str, Any] | None, changes: Mapping[str, Any]) -> Plan:
    known = asdict(Plan())
    if plan is not None and not isinstance(plan, (Plan, Mapping)):
        raise ValueError(f"plan = {plan!r} is no plan; give a dict such as {{'devices': 8, 'batch': 64}}")
    given = {**(asdict(plan) if isinstance(plan, Plan) else dict(plan or {})), **changes}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(f"the plan has no field {unknown[0]!r}; it has {', '.join(known)}")
    return Plan(**given)


def _check(plan: Plan, seq: float | None) -> None:
    """Lists that belong together are of one length, numbers are numbers."""
    lengths = {name: np.shape(value) for name, value in asdict(plan).items() if np.ndim(value)}
    if len(set(lengths.values())) > 1 or any(len(shape) > 1 for shape in lengths.values()):
        shown = ", ".join(f"{name} has {' x '.join(map(str, shape))}" for name, shape in lengths.items())
        raise ValueError(f"lists of the plan are taken together entry by entry, but {shown}: give lists of one length")
    for name in NUMBERS:
        value = getattr(plan, name)
        stated = [cell for cell in np.ravel(np.asarray(value, dtype=object)).tolist() if cell is not None]
        if stated and not np.issubdtype(np.asarray(stated).dtype, np.number):
            raise ValueError(f"{name} = {value!r} is not a number")
    for name in ("tp", "pp", "cp"):
        if np.any(np.asarray(getattr(plan, name)) < 1):
            raise ValueError(f"{name} = {getattr(plan, name)!r} must be 1 or more")
    if seq is not None and not (isinstance(seq, (int, float, np.number)) and math.isfinite(seq) and seq >= 1):
        raise ValueError(f"seq = {seq!r} must be a number, 1 or more")


def _is_language_model(network: Workload) -> bool:
    return network.name in _language_models()


@lru_cache(maxsize=1)
def _language_models() -> frozenset[str]:
    rows = catalog.table("models")
    return frozenset(rows.loc[rows["builder"].isin(LANGUAGE_MODELS), "name"])


@lru_cache(maxsize=256)
def _machine(system: str) -> tuple[str, bool]:
    """Key of an accelerator or, where there is none of that name, of a server, and which of both."""
    try:
        return catalog.lookup("accelerators", system), False
    except UnknownName:
        return catalog.lookup("systems", system), True


def machine_row(system: str, plan: Plan, precision: str) -> dict[str, Any]:
    """Device, node and links of a server or accelerator by name."""
    row: dict[str, Any] = {"accelerator": "", "per_node": plan_options.per_node(plan, NODE)}
    key, is_server = _machine(system)
    if not is_server:
        row["accelerator"] = key
    else:
        servers = catalog.table("systems")
        server = servers.loc[servers["key"] == key].iloc[0]
        if not server["accelerator_key"]:
            raise ValueError(f"system = {system!r}: the catalogue does not say which accelerator it has")
        row |= {"accelerator": server["accelerator_key"], "intra_node_link": server["intra_link"]}
        row["inter_node_link"] = server["nic"]
        row["per_node"] = plan_options.per_node(plan, server["devices"])
    device = hardware.accelerator(row["accelerator"])
    wanted = catalog.lookup("number_formats", precision) if precision else ""
    offered = hardware.formats(device)
    formats = [name for name in PRECISIONS if name in offered]
    if wanted and wanted not in offered:
        raise ValueError(f"precision = {precision!r}: {device.name} has {', '.join(offered)}")
    chosen = wanted or (formats[0] if formats else "")
    if not chosen:
        raise ValueError(f"precision: no peak of {device.name} is known in {', '.join(PRECISIONS)}")
    return row | {"precision": PRECISIONS.get(chosen, chosen), "devices": plan.devices}


def _classic(network: Workload, plan: Plan, seq: float | None) -> dict[str, Any]:
    for name in ONE_SHARD:
        given, usual = getattr(plan, name), getattr(Plan, name)
        if np.any(np.asarray(given) != usual) and not (name == "zero" and np.max(given) <= usual):
            raise ValueError(
                f"{name} = {given!r}: of {network.title} data parallelism alone is predicted ({name} = {usual!r}); "
                "other layouts are for language models of the zoo"
            )
    if seq and not network.ops.needs_seq:
        raise ValueError(f"seq = {seq!r}: {network.title} has no sequence length; leave seq out")
    length = seq or network.seq
    return {
        "batch_per_device": plan.batch, "global_batch": plan.global_batch, "unit": "samples/s",
        "task_input": f"seq_len {length:.0f}" if length else "",
    }  # fmt: skip


def _transformer(network: Workload, plan: Plan, seq: float | None, cores: float) -> dict[str, Any]:
    model = np.prod([np.asarray(size, dtype=float) for size in np.broadcast_arrays(plan.tp, plan.pp, plan.cp)], axis=0)
    replicas = np.maximum(np.asarray(plan.devices, dtype=float) * cores / model, 1)
    if np.ndim(replicas) == 0 and replicas != np.round(replicas):
        near = nearest_multiples(float(np.asarray(plan.devices)), float(model) / cores)
        raise ValueError(
            f"devices = {plan.devices!r} is not a multiple of tp x pp x cp = {float(model):g}: take {near} devices, "
            "or other shards"
        )
    replicas = np.floor(replicas)
    whole = np.asarray(plan.batch, dtype=float) * replicas if plan.global_batch is None else plan.global_batch
    shared = np.where(np.asarray(plan.sequence_parallel), "yes", "no")
    return {
        "seq_len": seq or network.seq, "micro_batch": plan.batch, "global_batch": whole, "dp": replicas,
        "tp": plan.tp, "pp": plan.pp, "vp": plan.vp, "cp": plan.cp, "ep": plan.ep, "zero_fsdp_stage": plan.zero,
        "sequence_parallel": shared, "activation_recompute": plan.recompute, "attention_kernel": plan.attention,
        "task": "pretrain",
    }  # fmt: skip


def _frame(row: Mapping[str, Any]) -> pd.DataFrame:
    """One row a scenario, cells as text; lists are taken together."""
    import pandas as pd

    values = dict(zip(row, np.broadcast_arrays(*map(_array, row.values())), strict=True))
    return pd.DataFrame({name: [_cell(cell) for cell in np.ravel(value)] for name, value in values.items()})


def _array(value: Any) -> np.ndarray:
    return np.asarray(value if not hasattr(value, "tolist") else value.tolist(), dtype=object)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _sources(network: Workload, row: Mapping[str, Any]) -> tuple[str, ...]:
    devices = catalog.table("accelerators")
    device = devices.loc[devices["key"] == row["accelerator"], "source"].iloc[0].split(";")
    return tuple(dict.fromkeys([*network.sources, *device]))
