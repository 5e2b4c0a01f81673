"""Fine-tuning of a language model on a few devices: memory by part, whether it fits, what it takes, what would help."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog import constant
from cookbook.catalog.commands import Launch, able_values, engine_of, launch, one_of
from cookbook.catalog.fields import MAX_SEQUENCES, MAX_TOKENS, Field, checked
from cookbook.catalog.prices import HOUR, USD_PER_HOUR, WAY, Price, hour_usd
from cookbook.catalog.refusals import Refusal, Refused, refused
from cookbook.hardware import System
from cookbook.prediction.api import plan_fields, training_scenario
from cookbook.prediction.assumptions import Assumptions
from cookbook.prediction.engine import Estimate, estimate
from cookbook.prediction.kinds import configurations as checks
from cookbook.prediction.kinds.transformer import KIND, USUAL_OPTIMISER
from cookbook.prediction.measurements import Measurement, stated
from cookbook.result import Result, plain
from cookbook.topics.runs.post_training import (
    HOURS,
    IN_BYTES,
    MEMORY,
    POST_TRAINING,
    USD,
    PostTraining,
    able_rows,
    devices_words,
    phases_of,
    post_trained,
    ways_of,
    with_ends,
)
from cookbook.topics.runs.search import (
    CHECK,
    LANGUAGE_MODEL,
    LENGTH,
    SYSTEM,
    TOKENS,
    all_tried,
    devices_of_a_node,
    machine_of,
    model_of,
    shape_of,
)
from cookbook.workloads.zoo import Workload

# Weights that train; of supervised fine-tuning they are its method, of which "sft" compares all.
METHODS = {"full": "full fine-tuning", "lora": "LoRA", "qlora": "QLoRA"}
SMALLER_METHODS = {"full": ("lora", "qlora"), "lora": ("qlora",), "qlora": ()}
RECOMPUTE, ZERO = ("none", "full"), (0, 2, 3)
# Compiled layers and a loss in chunks, as tools for fine-tuning have them today; micro-batches of a device in one step,
# as in what was measured. Adapters are beside all matrices.
SOFTWARE, PASSES, MODULES = "torchtune", 8, "all linear"
# What is tried: devices beyond those requested, lengths and micro-batches.
MORE_DEVICES = tuple(2**power for power in range(1, 11))
NODE = 8
LENGTHS = tuple(2**power for power in range(7, 21))
MICRO_BATCHES = tuple(2**power for power in range(11))
# States are counted, the rest is estimated: they are the least that a device needs.
STATES = ("weights", "gradients", "optimiser")
PARTS = (*STATES, "gathered", "activations", "transient", "reserved")
SMALL_OPTIMISER = "adam-8bit"
# Rollouts of one step by default: sequences as long as those of other methods.
OF_ROLLOUTS = {"group": 8, "input_len": LENGTH // 2, "output_len": LENGTH // 2}
# Arguments of a data set, and what to give instead where GRPO makes its own.
OF_DATA = {
    "tokens": "give steps",
    "seq": "give input_len and output_len",
    "example_tokens": "give output_len",
    "epochs": "give steps",
}
BATCHES = {
    "sft": "{} passes of each device",
    "dpo": "{} pairs for each of a pass of each device",
    "grpo": "{} prompts for each sequence of a pass of each device",
}
# What is taken of each step of GRPO.
ON_POLICY = {
    "longest_output": "output_len, as if all answers were equal",
    "updates": "one per step",
    "rewards": "those that take no time",
    "prefill": "once for each prompt",
}
# Columns of the ways of post-training that their table does not repeat.
NOT_SHOWN = ("method", "answers", "generating", "seq", *(f"{name}_bytes" for name in PARTS))


@dataclass(frozen=True, eq=False, repr=False)
class FineTuning(Result):
    """Fine-tuning by each method on each requested number of devices; read-only.

    Attributes
    ----------
    title : str
        The model and the device, as printed.
    table : pandas.DataFrame
        One row per method and number of devices, each with the fastest of the ways tried that fits for sure, else
        likely, else with that which needs least memory: zero, recompute, micro_batch, seq, trained (parameters); fits
        ("yes" where the upper end of the memory's interval fits, "likely" where the point does, "unlikely" where only
        the lower end does, or "no");
        memory_bytes of one device with memory_low and memory_high (80 %), capacity_bytes; step_seconds with step_low
        and step_high (80 %), tokens_per_second; hours and usd, each with low and high; largest_seq and
        largest_micro_batch that fit, with checkpointing unless `recompute` was given (0: none); why, where it does
        not fit: what would. A copy each time.
    memory : pandas.DataFrame
        Memory of one device by part [B], one row per row of the table: weights, gradients, optimiser (master weights
        and states), gathered (weights of other devices, or widened from 4 bits, for the layer at work), activations,
        transient (logits of the loss, or one layer computed again) and reserved (by driver, libraries, allocator).
    changes : pandas.DataFrame
        What single changes give, for each row of the table (method, devices): change, memory_bytes, saved_bytes, fits,
        tokens_per_second.
    tokens : float
        Tokens that are processed, padding and epochs included; NaN where no data set was given.
    price : Price
        Price of one hour of one device [USD/h].
    assumed : tuple of str
        What was not given, and what was taken.
    settings : mapping
        What all rows have in common, by the names of the table ``engine_flags``.
    steps : Estimate
        Steps of all ways that were tried, of which those of the rows of the table are at `tried`.
    """

    _class_in_repr = False
    title: str
    _table: pd.DataFrame = field(repr=False)
    _memory: pd.DataFrame = field(repr=False)
    _changes: pd.DataFrame = field(repr=False)
    tokens: float
    price: Price
    assumed: tuple[str, ...]
    settings: Mapping[str, Any] = field(repr=False, default_factory=dict)
    steps: Estimate | None = field(repr=False, default=None)
    tried: tuple[int, ...] = field(repr=False, default=())

    @property
    def table(self) -> pd.DataFrame:
        """One row per method and number of devices."""
        return self._table.copy(deep=False)

    @property
    def memory(self) -> pd.DataFrame:
        """Memory of one device by part [B]."""
        return self._memory.copy(deep=False)

    @property
    def changes(self) -> pd.DataFrame:
        """The effects of single changes, one row per way and change."""
        return self._changes.copy(deep=False)

    def frame(self) -> pd.DataFrame:
        """Return the table, in SI units but for hours and USD."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain Python values; a missing figure is None."""
        header = {name: getattr(self, name) for name in ("title", "tokens", "assumed")}
        return plain({**header, "ways": self._table, "memory": self._memory, "changes": self._changes})

    def launch(self, engine: str = "torchtune", row: int | None = None) -> Launch:
        """Return the command line that starts a way to fine-tune, and that of a short run which times its step.

        Parameters
        ----------
        engine : str
            "torchtune".
        row : int, optional
            Row of the table; by default the first that fits, or likely does.

        Returns
        -------
        cookbook.catalog.commands.Launch

        Raises
        ------
        ValueError
            A row that does not exist or does not fit, or a way that the engine cannot run: the quantity, the reason
            and the remedy.

        Examples
        --------
        >>> tuned = finetune("llama3_8b", "rtx-4090", method="qlora")
        >>> tuned.launch().command.split(" ")[:3]
        ['tune', 'run', 'lora_finetune_single_device']
        """
        able, shared = able_rows(self._table), self.settings
        own = self._table.iloc[one_of("row", row, able, "does not fit the memory")]
        devices, adapted = int(own["devices"]), own["method"] != "full"
        node = devices_of_a_node(devices, int(shared["per_node"]))
        settings = {
            **shared,
            "devices": node,
            "nodes": devices // node,
            "recipe": f"{'lora' if adapted else 'full'} on {'several' if devices > 1 else 'one'}",
            "model_config": shared["network"][1],
            **{name: own[name] for name in ("method", "recompute", "micro_batch", "seq", "global_batch")},
            "zero": own["zero"] if devices > 1 else None,
            "accumulation": own["global_batch"] // (devices * own["micro_batch"]),
            **{name: shared[name] if adapted else None for name in ("rank", "target_modules")},
        }
        return launch("finetune", engine, settings, {**CHECK, "log_memory": "yes"})

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """Measured runs of exactly the first way that fits, or likely does, with any version of its software."""
        able = able_rows(self._table)
        return self.steps.one(self.tried[able[0]]).measured if self.steps and able else ()

    def facts(self) -> dict[str, str]:
        """Return measured runs, the estimate and the command that measures it of the first way that fits; why others
        do not; assumptions."""
        whys, first = "; ".join(why for why in self._table["why"] if why), dict[str, str]()
        for row in self._table.iloc[able_rows(self._table)[:1]].to_dict("records"):
            point, low, high = (units.human(row[f"step_{end}"], "s") for end in ("seconds", "low", "high"))
            first = stated(self.measured, f"{point} per step ({low} to {high}, 80 %)", self.launch)
        return {**first, **({"Does not fit": whys} if whys else {}), **super().facts()}

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the methods as printed, by title."""
        rows = [
            {
                "Method": METHODS[row["method"]],
                "Devices": f"{row['devices']:,}",
                "Memory of one (80 %)": with_ends(row, MEMORY, IN_BYTES),
                "Fits": row["fits"],
                "ZeRO": row["zero"],
                "Checkpointing": row["recompute"],
                "Throughput [tokens/s]": f"{row['tokens_per_second']:,.0f}",
                "Hours (80 %)": with_ends(row, HOURS, "{:,.3g}".format),
                "Cost (80 %)": with_ends(row, USD, units.dollars) or "not known",
                "Longest sequence": f"{row['largest_seq']:,}",
                "Largest micro-batch": f"{row['largest_micro_batch']:,}",
            }
            for row in self._table.to_dict("records")
        ]
        return {"Methods": pd.DataFrame(rows)}

    def summary(self) -> str:
        """Return the first way that fits, or that none does, in one line."""
        able = able_rows(self._table)
        row = self._table.iloc[next(iter(able), 0)]
        where = f"{METHODS[row['method']]} on {devices_words(row)}"
        head = (
            f"{self.title}, {where}: {with_ends(row, MEMORY, IN_BYTES)} of {units.human(row['capacity_bytes'], 'iB')}, "
        )
        if not able:
            return f"{head}does not fit"
        hours = f", {row['hours']:,.3g} h" if row["hours"] == row["hours"] else ""
        fits = "fits" if row["fits"] == "yes" else "likely fits"
        return f"{head}{fits}; {row['tokens_per_second']:,.0f} tokens/s{hours}"


@checked(
    model=LANGUAGE_MODEL,
    accelerator=SYSTEM,
    tokens=TOKENS,
    method=Field.choice("sft", *METHODS, *POST_TRAINING, many=True),
    devices=Field.count(many=True),
    fine_tuning=Field.choice(*METHODS, many=True),
    group=Field.count(2, MAX_SEQUENCES, unit="answers"),
    **{
        name: Field.count(high=MAX_TOKENS // 4, unit="tokens") for name in ("input_len", "output_len", "longest_output")
    },
    steps=Field.count(high=MAX_SEQUENCES, unit="steps"),
    generators=Field.count(0),
    reference=Field.flag(),
    rollout=Field.text(),
    epochs=Field.number(high=1e24),
    rank=Field.row("rank", KIND),
    **{name: Field.row(name, KIND) for name in ("target_modules", "optimiser", "attention")},
    seq=Field.count(high=MAX_TOKENS),
    example_tokens=Field.number(high=1e24),
    micro_batch=Field.count(high=MAX_SEQUENCES),
    global_batch=Field.count(high=MAX_SEQUENCES),
    recompute=Field.choice(*RECOMPUTE, many=True),
    zero=Field.choice(*ZERO, many=True),
    precision=Field.named("number_formats", blank=True),
    software=Field.text(),
    hourly=USD_PER_HOUR,
    way=WAY,
)
def finetune(
    model: str | Workload,
    accelerator: System,
    tokens: float | str | None = None,
    *,
    method: str | Sequence[str] = "lora",
    devices: int | Sequence[int] = 1,
    epochs: float = 1,
    rank: int | None = None,
    target_modules: str | None = None,
    optimiser: str | None = None,
    seq: int | None = None,
    example_tokens: float | None = None,
    micro_batch: int = 1,
    global_batch: int | None = None,
    recompute: str | None = None,
    zero: int | None = None,
    attention: str | None = None,
    precision: str | None = None,
    software: str = "",
    hourly: float | None = None,
    way: str = "",
    fine_tuning: str | Sequence[str] = "",
    group: int | None = None,
    input_len: int | None = None,
    output_len: int | None = None,
    longest_output: int | None = None,
    steps: int | None = None,
    generators: int = 0,
    reference: bool = True,
    rollout: str = "",
) -> FineTuning | PostTraining:
    """Return memory, time and cost of fine-tuning on a few devices, each with its own sequences (data parallelism).

    Supervised fine-tuning (SFT) learns the tokens of a data set. DPO learns which of two answers is preferred: the
    policy is trained on both, and a frozen reference passes over both. GRPO learns from rewards: in each step the
    policy answers every prompt `group` times (the rollouts), its log-probabilities and those of the reference are
    computed, it is trained on all sequences, and its weights go to the generator.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo, or one with changed arguments.
    accelerator : str, Accelerator or Machine
        An accelerator, a server or a cloud instance of the catalogue, or the reader's own record.
    tokens : float or str, optional
        Tokens of the data set, such as ``2e7`` or ``"20 M"``; without them there are no hours and no USD.
    method : str or sequence of str
        Supervised fine-tuning by "full" (all weights), "lora" or "qlora" (frozen weights in 4 bits), by several to
        compare, or by all three ("sft"); or "dpo" or "grpo".
    devices : int or sequence of int
        Accelerators that train, or several numbers to compare.
    epochs : float
        Passes over the data set.
    rank : int, optional
        Rank of the adapters.
    target_modules : str, optional
        "attention", "all linear" or "all linear and embeddings".
    optimiser : str, optional
        A row of the table ``optimisers``, such as "adam-8bit".
    seq : int, optional
        Tokens of a sequence; 2,048 by default.
    example_tokens : float, optional
        Mean tokens of an example where each is padded to `seq`; by default examples are packed, and nothing is padded.
    micro_batch : int
        Sequences of one device in one pass; of DPO pairs.
    global_batch : int, optional
        Sequences of one step of all devices, of DPO pairs, of GRPO prompts; 8 for each sequence of a pass by default.
    recompute : str, optional
        Activation checkpointing, "none" or "full"; by default both are tried.
    zero : int, optional
        States that devices share out, 0, 2 or 3 (FSDP); by default all that the software can run are tried.
    attention, precision, software
        As for `cookbook.train_step`; the software is "torchtune" by default: compiled layers, and a loss in chunks.
    hourly : float, optional
        Price of one hour of one accelerator [USD/h]; from dated prices, as `hourly_usd` with `way`, by default.
    fine_tuning : str or sequence of str
        Of DPO and GRPO the weights that train, "full", "lora" or "qlora"; all three are compared by default. With
        adapters the reference is the policy without them, and needs no memory of its own.
    group : int, optional
        Of GRPO: answers per prompt; 8 by default.
    input_len, output_len : int, optional
        Of GRPO: tokens of a prompt and of an answer, on average; 1,024 each by default.
    longest_output : int, optional
        Of GRPO: tokens of the longest answer of a step, for which the rollouts wait and which must fit in training; by
        default all are equal.
    steps : int, optional
        Of GRPO: weight updates, each from rollouts of its own; without them there are no hours and no USD.
    generators : int
        Of GRPO: accelerators of the same kind that generate and do not train; by default those that train do both, in
        turns, and training states leave for host memory meanwhile where that is faster or needed.
    reference : bool
        Of GRPO: whether a frozen reference is asked, for the KL term of the loss.
    rollout : str
        Of GRPO: software that generates, as the software of `cookbook.generate`.

    Returns
    -------
    FineTuning or PostTraining
        `table`, `memory` by part, and `changes`: what checkpointing, a smaller optimiser, adapters, weights of 4 bits,
        shorter sequences and more devices would give; of DPO and GRPO `table` and `phases`.

    Raises
    ------
    cookbook.catalog.UnknownName
        A model, system, precision or software that the catalogue does not have.
    ValueError
        An invalid argument: its name, its value, what is allowed.

    Examples
    --------
    >>> tuned = finetune("llama3_8b", "rtx-4090", "20 M", method=["full", "qlora"])
    >>> tuned.table["fits"].tolist()[0], bool(tuned.table["hours"].iloc[1] > 0)
    ('no', True)
    >>> aligned = finetune("llama3_8b", "h100-sxm", method="grpo", fine_tuning="full", devices=8, output_len=512)
    >>> aligned.table["bound"].tolist(), aligned.phases["phase"].tolist()[:3]
    (['training'], ['generation', 'old_policy', 'reference'])
    """
    arguments: dict[str, Any] = {
        "model": model,
        "accelerator": accelerator,
        "tokens": tokens,
        "method": method,
        "devices": devices,
        "epochs": epochs,
        "rank": rank,
        "target_modules": target_modules,
        "optimiser": optimiser,
        "seq": seq,
        "example_tokens": example_tokens,
        "micro_batch": micro_batch,
        "global_batch": global_batch,
        "recompute": recompute,
        "zero": zero,
        "attention": attention,
        "precision": precision,
        "software": software,
        "group": group,
        "input_len": input_len,
        "output_len": output_len,
        "longest_output": longest_output,
        "steps": steps,
        "generators": generators,
        "reference": reference,
        "rollout": rollout,
    }
    kind, trained = _kind(method, fine_tuning)
    _check_kind(kind, arguments)
    job = _job({**arguments, "method": trained, "kind": kind})
    price = hour_usd(machine_of(accelerator).priced, hourly, way or "on demand")
    tokens_in_all = _processed(tokens, epochs, example_tokens, job["seq"])
    if kind in POST_TRAINING:
        return _post_trained(job, tokens_in_all, price)
    ways, tried_steps, tried = _chosen(job)
    changes = _changes(job, ways)
    table = _spent(ways, tokens_in_all / (ways["global_batch"] * ways["seq"]), ways["devices"], price)
    table = table.assign(**_largest(job, ways), why=[_why(row, changes) for row in ways.to_dict("records")])
    title = f"{job['network'].title} on {job['machine'].accelerator.name}"
    parts = {f"{name}_bytes": name for name in PARTS}
    memory = ways[["method", "devices", *parts]].rename(columns=parts)
    return FineTuning(
        title,
        table.drop(columns=list(parts)),
        memory,
        changes,
        tokens_in_all,
        price,
        tuple(dict.fromkeys((*job["assumed"], *job["told"]))),
        {
            "network": (job["network"].name, job["network"].title),
            "per_node": job["machine"].per_node,
            "packed": example_tokens is None,
            "software": job["software"],
            "precision": job["precision"] or job["taken"].get("precision"),
            **{name: value or job["taken"].get(name) for name, value in job["same"].items()},
            "optimiser": job["same"]["optimiser"] or USUAL_OPTIMISER,
        },
        tried_steps,
        tried,
    )


def _kind(methods: Sequence[str], fine_tuning: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return "sft", "dpo" or "grpo", and the weights that train."""
    kind = next((name for name in methods if name in POST_TRAINING), "sft")
    if kind != "sft" and len(methods) > 1:
        raise refused("method", list(methods), f": {kind} has a table of its own; give method = {kind!r} alone")
    if kind == "sft" and fine_tuning:
        what = "is for method = 'dpo' or 'grpo'; of supervised fine-tuning, give method = {!r}".format(*fine_tuning)
        raise refused("fine_tuning", list(fine_tuning), what)
    trained = fine_tuning if kind != "sft" else methods if "sft" not in methods else ()
    return kind, tuple(trained) or tuple(METHODS)


def _check_kind(kind: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of another method."""
    for name in OF_DATA if kind == "grpo" else (*OF_ROLLOUTS, "longest_output", "steps", "generators", "rollout"):
        value = arguments[name]
        if value and (name, value) != ("epochs", 1):
            what = "is of rollouts; leave it out, or give method = 'grpo'"
            if kind == "grpo":
                what = f"is of a data set, where GRPO makes its own; {OF_DATA[name]}"
            raise refused(name, value, what)
    if not arguments["reference"] and kind != "grpo":
        raise refused("reference", False, ": DPO has one and SFT none; give reference = False for 'grpo' alone")


def _post_trained(job: dict[str, Any], tokens: float, price: Price) -> PostTraining:
    """Return post-training by DPO or GRPO."""
    ways = post_trained(job, _rows)
    steps = tokens / ways["tokens"] if job["steps"] is None else job["steps"]
    table = _spent(ways, steps, ways["devices"] + ways["generators"], price)
    return PostTraining(
        f"{job['network'].title} on {job['machine'].accelerator.name}",
        table[["method", *(name for name in table if name not in NOT_SHOWN)]],
        phases_of(job, table),
        price,
        tuple(dict.fromkeys((*job["assumed"], *job["told"]))),
        network=(job["network"].name, job["network"].title),
    )


def _job(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call with defaults; those of all rows are in `same`."""
    network, machine = model_of(arguments["model"]), machine_of(arguments["accelerator"])
    shape_of(network)
    if not machine.accelerator.memory_bytes > 0:
        name = machine.accelerator.name
        remedy = "give one like it with its memory_bytes, as cb.accelerator does"
        raise Refused(Refusal(f"no memory size is known of {name}: {remedy}", field="accelerator"))
    rollouts, kind = _rollouts(arguments), arguments["kind"]
    seq = LENGTH if arguments["seq"] is None else arguments["seq"]
    seq = rollouts["input_len"] + rollouts["output_len"] if kind == "grpo" else seq
    software = arguments["software"] or SOFTWARE
    batch, pair = arguments["global_batch"], 2 if kind == "dpo" else 1
    # A stage that was asked for is predicted; it is refused only where the software was named, too.
    several = max(arguments["devices"]) > 1
    runs = engine_of("finetune", software) if several and (arguments["software"] or not arguments["zero"]) else ""
    job: dict[str, Any] = {
        "network": network,
        "machine": machine,
        "seq": seq,
        "software": software,
        "methods": arguments["method"],
        "devices": sorted(arguments["devices"]),
        "micro_batch": arguments["micro_batch"] * pair,
        "global_batch": None if batch is None else batch * pair * rollouts["group"],
        "passes": PASSES * rollouts["group"],
        "recompute": arguments["recompute"] or RECOMPUTE,
        "zero": able_values("finetune", runs, "zero", arguments["zero"], ZERO),
        "precision": arguments["precision"],
        "told": dict[str, None](),
        "taken": dict[str, str](),
        "same": {
            "target_modules": arguments["target_modules"] or MODULES,
            **{name: arguments[name] for name in ("optimiser", "attention", "rank")},
        },
        "method": kind,
        "reference": arguments["reference"],
        "smaller": SMALLER_METHODS,
        "more": MORE_DEVICES,
        **rollouts,
    }
    for count in job["devices"]:
        once = count * arguments["micro_batch"]
        share = once // math.gcd(once, rollouts["group"])
        if batch and batch % share:
            each = "" if share == once else f" / {once // share:,} (of group = {rollouts['group']:,})"
            reason = f"is not a multiple of devices x micro_batch{each} = {share:,}"
            nearest = max(batch // share, 1) * share
            raise refused("global_batch", batch, f"{reason}; take {nearest:,}", nearest=(nearest,))
    defaults = (
        ("software", arguments["software"], software),
        ("seq", arguments["seq"], f"{seq:,} tokens"),
        ("global_batch", batch, BATCHES[kind].format(PASSES)),
        ("optimiser", arguments["optimiser"], USUAL_OPTIMISER),
        *([("target_modules", arguments["target_modules"], MODULES)] if set(job["methods"]) != {"full"} else []),
        *([("zero", arguments["zero"], all_tried(job["zero"]))] if several else []),
        ("recompute", arguments["recompute"], all_tried(job["recompute"])),
        *([] if kind == "grpo" else [("example_tokens", arguments["example_tokens"], "those of a sequence (packing)")]),
        *((name, arguments[name], f"{rollouts[name]:,}") for name in OF_ROLLOUTS if kind == "grpo"),
        *((name, arguments.get(name), value) for name, value in ON_POLICY.items() if kind == "grpo"),
    )
    job["assumed"] = [f"{name} = {value}" for name, stated, value in defaults if stated in (None, "")]
    return job


def _rollouts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rollouts of one step of GRPO with defaults; of other methods a group of one."""
    usual = OF_ROLLOUTS if arguments["kind"] == "grpo" else {**OF_ROLLOUTS, "group": 1}
    sizes = {name: arguments[name] or value for name, value in usual.items()}
    longest, mean = arguments["longest_output"], sizes["output_len"]
    if longest is not None and longest < mean:
        shorter = f"is shorter than the mean, output_len = {mean:,}; give at least that"
        raise refused("longest_output", longest, shorter, nearest=(mean,))
    return {
        **sizes,
        "longest": longest,
        "steps": arguments["steps"],
        "rollout": arguments["rollout"] or None,
        "generators": arguments["generators"],
    }


def _rows(job: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[pd.DataFrame, Estimate]:
    """Return rows of method, devices, zero, recompute, and what else differs, with memory and step; and the steps."""
    table = pd.DataFrame([{"seq": job["seq"], "micro_batch": job["micro_batch"], **row} for row in rows])
    once = table["devices"] * table["micro_batch"]
    batch = job["global_batch"]
    # Of a batch that was given, more devices or sequences a pass leave fewer passes, one at least.
    table["global_batch"] = once * (job["passes"] if batch is None else np.maximum(batch // once, 1))
    columns = {**job["same"], "tp": 1, "pp": 1, **table.rename(columns={"method": "fine_tuning"}).to_dict("list")}
    seq = columns.pop("seq")
    request = training_scenario(
        job["network"], job["machine"], plan_fields(None, columns), KIND, job["software"], job["precision"], seq
    )
    answer = estimate(request)
    if (np.asarray(answer.why) != "").all():
        raise Refused(answer.why[0])
    for assumed in sorted(set(answer.assumed.tolist())):
        remaining = Assumptions({name: value for name, value in assumed.taken.items() if name != "per_node"})
        job["told"].update(dict.fromkeys(remaining.told()))
        job["taken"].update(assumed.taken)
    return _with_memory(job, table, answer), answer


def _with_memory(job: Mapping[str, Any], table: pd.DataFrame, answer: Estimate) -> pd.DataFrame:
    """Return the memory of one device with its interval, whether it fits, and the step."""
    needed, states = np.asarray(answer.memory_bytes), sum(answer.memory[name] for name in STATES)
    low = np.maximum(needed * constant("memory-interval-low"), states)
    high = needed * constant("memory-interval-high")
    capacity = job["machine"].accelerator.memory_bytes
    fits = np.select([high <= capacity, needed <= capacity, low <= capacity], ["yes", "likely", "unlikely"], "no")
    trained = np.broadcast_to(checks.Stage(answer.rows).trained, len(table))
    tokens = table["global_batch"] * table["seq"]
    return table.assign(
        trained=trained,
        fits=np.where(np.isfinite(needed), fits, "no"),
        memory_bytes=needed,
        memory_low=low,
        memory_high=high,
        capacity_bytes=capacity,
        step_seconds=answer.point,
        step_low=answer.low80,
        step_high=answer.high80,
        tokens_per_second=tokens / answer.point,
        **{f"{name}_bytes": answer.memory[name] for name in PARTS},
    )


def _chosen(job: dict[str, Any]) -> tuple[pd.DataFrame, Estimate, tuple[int, ...]]:
    """Return the fastest way per method and number of devices that fits for sure, else likely; else the smallest.

    With the steps of all ways that were tried, and the positions of these.
    """
    table, steps = _rows(job, ways_of(job))
    fits, sure = table["memory_bytes"] <= table["capacity_bytes"], table["fits"] == "yes"
    order = np.lexsort((np.where(fits, table["step_seconds"], table["memory_bytes"]), ~sure, ~fits))
    best = table.iloc[order].drop_duplicates(["method", "devices"]).sort_index()
    return best.reset_index(drop=True), steps, tuple(best.index.tolist())


def _largest(job: dict[str, Any], ways: pd.DataFrame) -> dict[str, list[int]]:
    """Return the longest sequence and largest micro-batch, powers of two, that fit each row; 0 where none does."""
    again = "full" if "full" in job["recompute"] else "none"
    at, rows = [], []
    for row, way in enumerate(ways[["method", "devices", "zero"]].to_dict("records")):
        for name, tried in (("seq", LENGTHS), ("micro_batch", MICRO_BATCHES)):
            at += [(row, name)] * len(tried)
            rows += [{**way, "recompute": again, name: value} for value in tried]
    table, _ = _rows({**job, "global_batch": None, "told": {}}, rows)
    fits = (table["memory_bytes"] <= table["capacity_bytes"]).to_numpy()
    largest = {name: [0] * len(ways) for name in ("seq", "micro_batch")}
    for (row, name), good, value in zip(at, fits, table.to_dict("records"), strict=True):
        if good:
            largest[name][row] = max(largest[name][row], int(value[name]))
    return {f"largest_{name}": values for name, values in largest.items()}


def _changes(job: dict[str, Any], ways: pd.DataFrame) -> pd.DataFrame:
    """Return the effects of single changes on each row, and of more devices until it fits."""
    rows: list[dict[str, Any]] = []
    usual = job["same"]["optimiser"] or USUAL_OPTIMISER
    for at, row in enumerate(ways.to_dict("records")):
        tried: list[tuple[str, dict[str, Any]]] = []
        way = {name: row[name] for name in ("method", "devices", "zero", "recompute")}
        tried += [("activation checkpointing", {"recompute": "full"})] * (row["recompute"] == "none")
        tried += [("8-bit Adam", {"optimiser": SMALL_OPTIMISER})] * (usual == USUAL_OPTIMISER)
        tried += [(METHODS[name], {"method": name}) for name in SMALLER_METHODS[row["method"]]]
        tried += [(f"sequences of {row['seq'] // 2:,} tokens", {"seq": row["seq"] // 2})] * (row["seq"] > 1)
        tried += [
            (f"{count:,} devices, states shared out (ZeRO-3)", {"devices": count, "zero": 3})
            for count in MORE_DEVICES
            if count > row["devices"]
        ]
        rows += [{**way, "optimiser": usual, **change, "row": at, "change": words} for words, change in tried]
    same = {name: value for name, value in job["same"].items() if name != "optimiser"}
    names = ("row", "change")
    changed = [{name: value for name, value in row.items() if name not in names} for row in rows]
    table, _ = _rows({**job, "same": same, "told": {}}, changed)
    before = ways.iloc[[row["row"] for row in rows]].reset_index(drop=True)
    table = table.assign(
        change=[row["change"] for row in rows],
        saved_bytes=before["memory_bytes"] - table["memory_bytes"],
        more=table["devices"],
        method=before["method"],
        devices=before["devices"],
    )
    return _few(table)[["method", "devices", "change", "memory_bytes", "saved_bytes", "fits", "tokens_per_second"]]


def _few(table: pd.DataFrame) -> pd.DataFrame:
    """Return numbers of devices, of those beyond a node only up to the first that fits."""
    fits = table["memory_bytes"] <= table["capacity_bytes"]
    beyond = (table["more"] > NODE) & (table["more"] > table["devices"])
    earlier = table.assign(good=fits & (table["more"] > table["devices"]))
    seen = earlier.groupby(["method", "devices"])["good"].cumsum() - earlier["good"]
    return table[~(beyond & ((seen > 0) | ~fits))].reset_index(drop=True)


def _why(row: Mapping[str, Any], changes: pd.DataFrame) -> str:
    """Return the memory that a row needs, and what would fit, in words; "" where it fits."""
    if row["memory_bytes"] <= row["capacity_bytes"]:
        return ""
    own = changes[(changes["method"] == row["method"]) & (changes["devices"] == row["devices"])]
    able = own[own["memory_bytes"] <= row["capacity_bytes"]]
    words = [f"{change['change']} ({units.human(change['memory_bytes'], 'iB')})" for change in able.to_dict("records")]
    head = (
        f"{METHODS[row['method']]} on {devices_words(row)} needs {units.human(row['memory_bytes'], 'iB')} of "
        f"{units.human(row['capacity_bytes'], 'iB')} a device"
    )
    if words:
        return f"{head}; what would fit: {', '.join(words[:4])}"
    best = own.loc[own["memory_bytes"].idxmin()]
    return (
        f"{head}; no single change makes it fit: with {best['change']} it needs "
        f"{units.human(best['memory_bytes'], 'iB')}; combine changes, or split layers too (cb.search)"
    )


def _processed(tokens: Any, epochs: Any, example: Any, seq: int) -> float:
    """Return tokens that devices process: those of the data set in all epochs, and padding."""
    filled = 1.0 if example is None else example / seq
    if filled > 1:
        raise refused("example_tokens", example, f"is more than seq = {seq:,}: take longer sequences, or fewer tokens")
    return np.nan if tokens is None else tokens * epochs / filled


def _spent(table: pd.DataFrame, steps: Any, devices: Any, price: Price) -> pd.DataFrame:
    """Return hours and USD of a number of steps on devices."""
    hours = {
        end: steps * table[step] / HOUR
        for end, step in (("", "step_seconds"), ("_low", "step_low"), ("_high", "step_high"))
    }
    usd_per_hour = {"": price.median, "_low": price.low, "_high": price.high}
    usd = {f"usd{end}": hours[end] * devices * usd_per_hour[end] for end in hours}
    return table.assign(**{f"hours{end}": value for end, value in hours.items()}, **usd)
