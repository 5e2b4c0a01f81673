"""Post-training of a language model from preferences (DPO) or from its own answers (GRPO): time by phase and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog import constant
from cookbook.catalog.commands import Launch, launch, one_of
from cookbook.catalog.prices import Price
from cookbook.catalog.refusals import Refusal
from cookbook.formulas.arithmetic import training_flop
from cookbook.formulas.collectives import hierarchical_all_gather_seconds, point_to_point_seconds
from cookbook.hardware import Machine
from cookbook.prediction.api import generate
from cookbook.prediction.engine import Estimate
from cookbook.prediction.kinds.transformer_step import LINK_LATENCY, NETWORK_LATENCY
from cookbook.result import Result, plain

POST_TRAINING = {"dpo": "DPO", "grpo": "GRPO"}
WEIGHTS = {"full": "all weights", "lora": "LoRA", "qlora": "QLoRA"}
# Phases of a step in their order, with their titles.
PHASES = {
    "generation": "generation",
    "old_policy": "old policy",
    "reference": "reference",
    "training": "training",
    "update": "weight update",
}
COMPOSED = (
    "composed, not measured: a step is the sum of its phases, and each end of its interval the sum of their ends, as "
    "if all were too fast or too slow at once; the weight update has no interval of its own"
)
ENDS = ("", "_low", "_high")
# A step of all weights without recomputation consists of three passes of equal arithmetic, one of them forward; of
# three transfers of sharded weights and their gradients one is before the forward pass.
PASSES_OF_A_STEP = 3
FORWARD = ("products", "experts", "attention", "elementwise", "head", "launch", "weight_exchange")
# Gradients are freed before the rollouts, activations after the backward pass.
RESIDENT, MEMORY = ("weights", "optimiser"), ("memory_bytes", "memory_low", "memory_high")
STEP, HOURS = ("step_seconds", "step_low", "step_high"), ("hours", "hours_low", "hours_high")
USD = ("usd", "usd_low", "usd_high")
IN_BYTES, IN_SECONDS = partial(units.human, unit="iB"), partial(units.human, unit="s")
# Bytes of a weight or adapter that is sent, and the format in which a generator stores what the trainer has in 4 bits.
WEIGHT_BYTES, FROZEN = 2.0, {"qlora": "int4"}
# Returns ways with memory and step, and the steps, of a job and a list of ways.
Rows = Callable[[dict[str, Any], Sequence[Mapping[str, Any]]], tuple[pd.DataFrame, Estimate]]


@dataclass(frozen=True, eq=False, repr=False)
class PostTraining(Result):
    """Post-training by one method, with different weights that train, on each number of devices; read-only.

    Attributes
    ----------
    title : str
        The model and the device, as printed.
    table : pandas.DataFrame
        One row per fine_tuning (the weights that train) and number of devices, each with the fastest of the ways tried
        that fits for sure, else likely, else with that which needs least memory: method; devices (that train) and
        generators (devices beside them that generate; 0: those that train do both); zero, recompute, micro_batch; tp
        and at_once (devices and answers at once of one copy of the generator), offload ("yes" where training states
        are in host memory during the rollouts); sequences and tokens trained in one step; step_seconds with step_low
        and step_high (80 %), and the seconds of each phase with their ends; bound, the longest phase;
        tokens_per_second; hours and usd, each with low and high; memory_bytes of one device that trains, with
        memory_low and memory_high (80 %), and reference_bytes of it; rollout_bytes of one device that generates;
        capacity_bytes; fits ("yes", "likely", "unlikely" or "no"); why, where it does not fit: the least that would.
    phases : pandas.DataFrame
        One row per row of the table and phase: fine_tuning, devices, phase, seconds with low and high, share of the
        step, tokens that all devices process, flop (their matrix arithmetic) and bytes that one device receives.
    price : Price
        Price of one hour of one device [USD/h].
    assumed : tuple of str
        What was not given, and what was taken.
    tier : str
        What the step rests on, and how its interval is composed.
    network : tuple of str
        Name and title of the model.
    """

    _class_in_repr = False
    title: str
    table: pd.DataFrame = field(repr=False)
    phases: pd.DataFrame = field(repr=False)
    price: Price
    assumed: tuple[str, ...]
    tier: str = COMPOSED
    network: tuple[str, str] = field(default=("", ""), repr=False)

    def frame(self) -> pd.DataFrame:
        """Return a copy of the table, in SI units but for hours and USD."""
        return self.table.copy()

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain Python values; a missing figure is None."""
        named = ("title", "tier", "assumed", "phases")
        return plain({**{name: getattr(self, name) for name in named}, "ways": self.table})

    def launch(self, engine: str = "torchtune", row: int | None = None) -> Launch:
        """Return the command line that starts a way of post-training, where the engine has flags for its method.

        Parameters
        ----------
        engine : str
            An engine of the table ``engine_flags``.
        row : int, optional
            Row of the table; by default the first that fits, or likely does.

        Returns
        -------
        cookbook.catalog.commands.Launch

        Raises
        ------
        ValueError
            A row that does not exist or does not fit, or a method for which the engine has no flags: the reason and
            the remedy.
        """
        number = one_of("row", row, able_rows(self.table), "does not fit the memory")
        return launch("finetune", engine, {"network": self.network, "method": self.table["method"][number]}, {})

    def facts(self) -> dict[str, str]:
        """Return the split of the first way that fits, what it rests on, why others do not fit, and assumptions."""
        whys = "; ".join(why for why in self.table["why"] if why)
        able = able_rows(self.table)
        split = {"Phases": self._split(self.table.iloc[able[0]])} if able else {}
        return {**split, "Evidence": self.tier, **({"Does not fit": whys} if whys else {}), **super().facts()}

    def _split(self, row: Mapping[str, Any]) -> str:
        """Return seconds and shares of the phases of one row, in words."""
        words = [
            f"{title} {units.human(row[f'{name}_seconds'], 's')} ({_share(row, name)} %)"
            for name, title in PHASES.items()
            if row[f"{name}_seconds"] > 0
        ]
        return f"{', '.join(words)}; {PHASES[row['bound']]} takes longest"

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the ways as printed, by title."""
        rows = [
            {
                "Trained": row["fine_tuning"],
                "Devices": f"{row['devices']:,}" + (f" + {row['generators']:,}" if row["generators"] else ""),
                "Memory of one (80 %)": with_ends(row, MEMORY, IN_BYTES),
                "Fits": row["fits"],
                "ZeRO": row["zero"],
                "Checkpointing": row["recompute"],
                "Step (80 %)": with_ends(row, STEP, IN_SECONDS),
                **{
                    f"{title.capitalize()} [%]": _share(row, name)
                    for name, title in PHASES.items()
                    if (self.table[f"{name}_seconds"] > 0).any()
                },
                "Hours (80 %)": with_ends(row, HOURS, "{:,.3g}".format),
                "Cost (80 %)": with_ends(row, USD, units.dollars),
            }
            for row in self.table.to_dict("records")
        ]
        return {"Ways": pd.DataFrame(rows)}

    def summary(self) -> str:
        """Return the first way that fits, or that none does, in one line."""
        row = self.table.iloc[next(iter(able_rows(self.table)), 0)].to_dict()
        needed, capacity = (units.human(row[name], "iB") for name in ("memory_bytes", "capacity_bytes"))
        head = f"{self.title}, {_named(row)}: {needed} of {capacity}, "
        if not able_rows(self.table):
            return f"{head}does not fit"
        step = f"{with_ends(row, STEP, IN_SECONDS)} per step, {_share(row, row['bound'])} %"
        hours = f", {row['hours']:,.3g} h" if row["hours"] == row["hours"] else ""
        return f"{head}{'' if row['fits'] == 'yes' else 'likely '}fits; {step} {PHASES[row['bound']]}{hours}"


def able_rows(table: pd.DataFrame) -> list[int]:
    """Return the rows of a table of ways that fit, or likely do."""
    return list(map(int, np.flatnonzero(table["fits"].isin(("yes", "likely")))))


def ways_of(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ways to try: weights that train, numbers of devices, recomputation and ZeRO stages."""
    return [
        {"method": weights, "devices": count, "zero": stage, "recompute": again}
        for weights in job["methods"]
        for count in job["devices"]
        for again in job["recompute"]
        for stage in (job["zero"] if count > 1 else (0,))
    ]


def post_trained(job: dict[str, Any], rows: Rows) -> pd.DataFrame:
    """Return the fastest way per weights that train and number of devices, with its phases, memory and why not.

    Parameters
    ----------
    job : dict
        The arguments of a call: `network`, `machine`, `method`, `methods` (weights that train), `devices`, `zero`,
        `recompute`, `seq`, `global_batch` and `passes` as for `rows`; `reference` (whether a frozen copy is asked for
        log-probabilities); of GRPO `group`, `input_len`, `output_len`, `longest` (or None), `generators` and `rollout`.
    rows : callable
        Returns ways with memory and step, and the steps, of a job and a list of ways.
    """
    ways = [{**way, "generators": job["generators"]} for way in ways_of(job)]
    best = _best(_evaluated(job, ways, rows))
    return best.assign(why=[_why(job, row, rows) for row in best.to_dict("records")])


def phases_of(job: Mapping[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per row of the table and phase: seconds, share, tokens, FLOP and bytes."""
    macs = float(job["network"].ops.total("macs", 1, job["seq"])) / job["seq"]
    return pd.DataFrame([_phase(job, macs, row, name) for row in table.to_dict("records") for name in PHASES])


def _phase(job: Mapping[str, Any], macs: float, row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one phase of a way; `macs` are those of one token."""
    made = row["sequences"] * (job["input_len"] / job["group"] + job["output_len"])
    computes = name != "update" and row[f"{name}_seconds"] > 0
    tokens = computes * (made if name == "generation" else row["tokens"])
    backward = (2 if row["fine_tuning"] == "full" else 1) if name == "training" else 0
    return {
        "fine_tuning": row["fine_tuning"],
        "devices": row["devices"],
        "phase": name,
        **{f"seconds{end}": row[f"{name}_seconds{end}"] for end in ENDS},
        "share": row[f"{name}_seconds"] / row["step_seconds"],
        "tokens": tokens,
        "flop": float(training_flop(macs, tokens, backward)),
        "bytes": row["update_bytes"] if name == "update" else 0.0,
    }


def _best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the fastest way of each question that fits for sure, else likely; else that which needs least memory."""
    fits, sure = table["fits"].isin(("yes", "likely")), table["fits"] == "yes"
    needed = table[["memory_bytes", "rollout_bytes"]].max(axis=1)
    order = np.lexsort((table["memory_bytes"], np.where(fits, table["step_seconds"], needed), ~sure, ~fits))
    best = table.iloc[order].drop_duplicates(["fine_tuning", "devices", "generators"])
    return best.sort_index(kind="stable").reset_index(drop=True)


def _evaluated(job: dict[str, Any], ways: Sequence[Mapping[str, Any]], rows: Rows) -> pd.DataFrame:
    """Return ways with their phases, memory and whether they fit; of GRPO one row per way to generate."""
    generators = [way["generators"] for way in ways]
    plans = [{name: value for name, value in way.items() if name != "generators"} for way in ways]
    table, steps = rows(job, plans)
    if job["longest"]:
        longest = rows({**job, "told": {}, "seq": job["input_len"] + job["longest"]}, plans)[0]
        table[[*MEMORY]] = longest[[*MEMORY]]
    passes = _forward(rows({**job, "told": {}}, [{**plan, "method": "full", "recompute": "none"} for plan in plans])[1])
    asks = float(job["reference"])
    reference = np.where(table["method"] == "full", asks * table["weights_bytes"], 0.0)
    table = table.rename(columns={"method": "fine_tuning"}).assign(
        method=job["method"],
        generators=generators,
        sequences=table["global_batch"],
        tokens=table["global_batch"] * table["seq"],
        reference_bytes=reference,
        **{name: table[name] + reference for name in MEMORY},
        **_ends("training", (steps.point, steps.low80, steps.high80)),
        **_ends("reference", asks * passes),
        **_ends("old_policy", passes * (job["method"] == "grpo")),
    )
    table = _generated(job, table) if job["method"] == "grpo" else table.assign(**_nothing(len(table)))
    ends = [sum(table[f"{name}_seconds{end}"] for name in PHASES) for end in ENDS]
    longest = table[[f"{name}_seconds" for name in PHASES]].fillna(0).to_numpy().argmax(axis=1)
    sure = [table[name] <= table["capacity_bytes"] for name in ("memory_high", "memory_bytes", "memory_low")]
    return table.assign(
        fits=np.where(table["answers"], np.select(sure, ["yes", "likely", "unlikely"], "no"), "no"),
        **dict(zip(STEP, ends, strict=True)),
        tokens_per_second=table["tokens"] / ends[0],
        bound=np.array(list(PHASES))[longest],
    )


def _ends(phase: str, seconds: Any) -> dict[str, Any]:
    """Return the columns of a phase: point, low and high [s]."""
    return {f"{phase}_seconds{end}": value for end, value in zip(ENDS, seconds, strict=True)}


def _forward(steps: Estimate) -> np.ndarray:
    """Return point, low and high of the forward passes of steps of all weights without recomputation [s]."""
    point = sum(np.asarray(steps.parts[name]) for name in FORWARD) / PASSES_OF_A_STEP
    return np.array([point, point * steps.low80 / steps.point, point * steps.high80 / steps.point])


def _nothing(count: int) -> dict[str, Any]:
    """Return the columns of rollouts where there are none."""
    return {
        **{name: np.zeros(count) for phase in ("generation", "update") for name in _ends(phase, ENDS)},
        **{"tp": 0, "at_once": 0, "offload": "no", "rollout_bytes": 0.0, "update_bytes": 0.0, "answers": True},
    }


def _generated(job: dict[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per way to generate: copies over devices, and training states that stay or leave meanwhile.

    A copy answers its share of the sequences, as many at once as the memory that is left holds keys and values of. No
    rollout ends before its longest answer, alone at the end.
    """
    table = _ways_to_generate(job, table)
    share = np.ceil(table["sequences"] * table["tp"] / table["generating"]).to_numpy()
    resident = sum(table[f"{name}_bytes"] for name in RESIDENT) + table["reference_bytes"]
    resident = resident.where(table["generators"] == 0, 0.0).to_numpy()
    stays = np.where(table["offload"] == "no", resident, 0.0)
    alone = _answers(job, table, share)
    slots = np.asarray(alone.tokens) / job["output_len"]
    # Where the weights fit no copy, nothing else is known of its memory.
    least = WEIGHT_BYTES * job["network"].ops.parameter_count / table["tp"].to_numpy()
    shard, workspace, cache = (np.asarray(alone.memory.get(name, np.nan)) for name in ("weights", "workspace", "cache"))
    cache, fixed = cache / slots, shard + workspace
    served = constant("memory-served") * table["capacity_bytes"].to_numpy()
    at_once = np.floor(np.minimum(slots, (served - stays - fixed) / cache))
    batch = np.where(at_once >= 1, at_once, 1.0)
    found = _answers(job, table, batch)
    rollouts = np.array([found.point, found.low80, found.high80]) * share / batch
    if job["longest"]:
        last = _answers({**job, "output_len": job["longest"]}, table, np.ones(len(table)))
        rollouts = np.fmax(rollouts, [last.point, last.low80, last.high80])
    received, sent = _update(job["machine"], table, shard)
    # There and back.
    update = sent + np.where(resident > stays, 2 * resident / job["machine"].host_link, 0.0)
    for assumed in sorted(set(map(str, np.ravel(found.assumed)))):
        job["told"].update(dict.fromkeys(f"rollouts: {words}" for words in assumed.split("; ") if words))
    return table.assign(
        **_ends("generation", rollouts),
        **_ends("update", (update,) * 3),
        at_once=batch,
        answers=(at_once >= 1) & np.isfinite(found.point + update),
        rollout_bytes=stays + np.where(np.isnan(fixed + cache), least, fixed + cache * batch),
        update_bytes=received,
    )


def _ways_to_generate(job: Mapping[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    """Return each row once per size of a copy of the generator, and where devices do both, with and without offload."""
    wide = (
        {**row, "generating": count, "tp": 2**at, "offload": offload}
        for row in table.to_dict("records")
        for count in [row["generators"] or row["devices"]]
        for at in range(int(count).bit_length())
        if count % 2**at == 0 and 2**at <= job["machine"].per_node
        for offload in (("no",) if row["generators"] else ("no", "yes"))
    )
    return pd.DataFrame(wide)


def _answers(job: Mapping[str, Any], table: pd.DataFrame, batch: np.ndarray) -> Estimate:
    """Return batches of answers of one copy of the generator; a prompt is processed once for its group."""
    shards = table["tp"].tolist()
    return generate(
        job["network"],
        job["machine"],
        input_len=job["input_len"],
        output_len=job["output_len"],
        batch=batch.tolist(),
        tp=shards,
        devices=shards,
        weights_format=[FROZEN.get(weights) for weights in table["fine_tuning"]],
        precision=job["precision"],
        software=job["rollout"],
        prefix_hit=1 - 1 / job["group"],
    )


def _update(machine: Machine, table: pd.DataFrame, shard: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes that one device receives of the trained weights in an update, and the time until all have them.

    Devices apart receive their `shard` of the weights, or the adapters, over the link of their node or the network;
    devices that do both gather what ZeRO-3 shares out, and otherwise have them.
    """
    devices, apart = (table[name].to_numpy() for name in ("devices", "generators"))
    near = devices + apart <= machine.per_node
    rate, latency = np.where(near, machine.link, machine.network), np.where(near, LINK_LATENCY, NETWORK_LATENCY)
    full = table["fine_tuning"] == "full"
    own = np.nan_to_num(np.where(full, shard, WEIGHT_BYTES * table["trained"]))
    whole, inner = np.where(full, own * table["tp"], own), np.minimum(devices, machine.per_node)
    gather = hierarchical_all_gather_seconds(
        whole, inner, np.ceil(devices / inner), machine.ring_link, machine.network, latency
    )
    ways = [apart > 0, table["zero"] == 3]
    received = np.select(ways, [own, whole * (1 - 1 / devices)], 0.0)
    return received, np.select(ways, [point_to_point_seconds(own, rate, latency), gather], 0.0)


def _why(job: dict[str, Any], row: Mapping[str, Any], rows: Rows) -> str:
    """Return the memory that a way needs, and the least that would fit; "" where it fits, or likely does."""
    if row["fits"] in ("yes", "likely"):
        return ""
    apart = row["generators"]
    counts = {
        (max(row["devices"], train), max(apart, generate) if apart else 0)
        for count in job["more"]
        for train, generate in ((count, 1), (1, count), (count, count))
    }
    tried = [(name, row["devices"], apart) for name in job["smaller"][row["fine_tuning"]]]
    tried += [(row["fine_tuning"], *count) for count in sorted(counts, key=sum)]
    ways = [
        {"method": name, "devices": count, "generators": others, "recompute": "full", "zero": 3 if count > 1 else 0}
        for name, count, others in tried
    ]
    table = _evaluated({**job, "told": {}}, ways, rows)
    fits = table.iloc[able_rows(table)].drop_duplicates("fine_tuning")
    same = fits[fits["fine_tuning"] == row["fine_tuning"]]
    words = [
        f"{_named(each)} ({units.human(max(each['memory_bytes'], each['rollout_bytes']), 'iB')})"
        for each in fits.to_dict("records")
    ]
    remedy = f"what would fit: {', '.join(words)}" if words else "nothing tried fits; split layers too (cb.search)"
    return Refusal(f"{_named(row)} {_needs(row)}; {remedy}", "memory-exceeded", "devices", same["devices"].tolist())


def _needs(row: Mapping[str, Any]) -> str:
    """Return what a way that does not fit needs of a device, in words."""
    held, capacity = "with its reference " if row["reference_bytes"] > 0 else "", row["capacity_bytes"]
    trains = row["memory_bytes"] > capacity
    size, of = (row["memory_bytes"], 1.0) if trains else (row["rollout_bytes"], constant("memory-served"))
    sizes = f"{units.human(size, 'iB')} of {units.human(of * capacity, 'iB')}"
    return f"{held}needs {sizes} a device to {'train' if trains else 'generate'}"


def _named(row: Mapping[str, Any]) -> str:
    """Return the method, what trains and the devices of a way, in words."""
    beside = f" and {row['generators']:,} that generate" if row["generators"] else ""
    return f"{POST_TRAINING[row['method']]} of {WEIGHTS[row['fine_tuning']]} on {devices_words(row)}{beside}"


def devices_words(row: Mapping[str, Any]) -> str:
    """Return the number of devices of a way, in words."""
    return f"{row['devices']:,} device{'s' if row['devices'] > 1 else ''}"


def _share(row: Mapping[str, Any], phase: str) -> str:
    """Return the share of a phase [%] as printed."""
    return f"{100 * row[f'{phase}_seconds'] / row['step_seconds']:.0f}"


def with_ends(row: Mapping[str, Any], names: Sequence[str], write: Callable[[float], str]) -> str:
    """Return a point with its ends, columns of a row, as printed; "" where it is not known."""
    point, low, high = (row[name] for name in names)
    return f"{write(point)} ({write(low)} to {write(high)})" if point == point else ""
