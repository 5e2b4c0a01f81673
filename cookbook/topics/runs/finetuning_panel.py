"""Panel of recipe 01: can this language model be fine-tuned on these GPUs, by which method, and what would help?

Of DPO and GRPO: how long does a step take, and which of its phases takes longest?
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import pandas as pd

from cookbook import catalog
from cookbook.catalog.calls import keywords
from cookbook.catalog.fields import Amount
from cookbook.catalog.refusals import Refused
from cookbook.charts import models as charts
from cookbook.charts.look import MEMORY_PARTS, PHASE_PARTS, row_order
from cookbook.hardware import Accelerator
from cookbook.panels.controls import Choice, Control, Slider, one_two_five, powers_of_two, price_control
from cookbook.panels.options import (
    Device,
    Network,
    accelerators,
    assumed,
    cited,
    device_control,
    device_of,
    model_control,
    model_of,
    networks,
    rounded,
)
from cookbook.panels.shell import Panel, Part, Picture, View, device_text, model_text, panel_call, sources_of_case
from cookbook.panels.text import (
    GIBI,
    HOUR,
    MILLION,
    Source,
    at_your_price,
    capital,
    counted,
    in_words,
    listed,
    price_badge,
    short_name,
    sources_of_price,
)
from cookbook.topics.runs.charts import part_ends, step_parts
from cookbook.topics.runs.finetuning import METHODS, FineTuning, finetune
from cookbook.topics.runs.post_training import PHASES, POST_TRAINING, USD, WEIGHTS, PostTraining, with_ends
from cookbook.units import dollars, human, percent, ratio
from cookbook.workloads import zoo

FITS = {"yes": "fits", "likely": "likely fits", "unlikely": "probably does not fit", "no": "does not fit"}
OPTIMISERS = (
    ("adam", "AdamW", "Two states of 4 bytes per parameter"),
    ("adam-8bit", "8-bit", "AdamW with states of one byte"),
    ("adafactor", "Adafactor", "Sums of rows and columns, a negligible size"),
    ("galore", "GaLore", "AdamW on gradients of low rank"),
)
PASSED = ("devices", "rank", "optimiser", "micro_batch")
# Controls of GRPO, and the arguments that they set.
ROLLOUTS = {"group": "group", "prompt": "input_len", "answer": "output_len", "steps": "steps"}
# Parts of `cb.finetune` as they are drawn, with how each is computed in words.
PARTS = {
    "weights": (("weights",), "2 bytes per parameter; QLoRA stores frozen weights in 4 bits. Adapters are included."),
    "gradients": (("gradients",), "2 bytes per trained parameter."),
    "optimiser states": (
        ("optimiser",),
        "Per trained parameter: an fp32 copy of 4 bytes and the states of the optimiser; AdamW has two of 4 bytes.",
    ),
    "activations": (
        ("activations",),
        "Values kept by the forward pass; with checkpointing, only the inputs of blocks.",
    ),
    "workspace": (
        ("gathered", "transient", "reserved"),
        "Logits of the loss, the layer being computed, and the memory of driver, libraries and allocator.",
    ),
}
# Phases of a step of DPO or GRPO, with how each is computed in words.
PHASE_WORDS = {
    "generation": "Each prompt once, then one pass per token of the answers, as many answers at once as fit.",
    "old_policy": "One forward pass of the policy over all sequences: a third of the computation of training.",
    "reference": "One forward pass of the frozen reference; with adapters, of the policy without them.",
    "training": "Forward and backward passes over all sequences, communication and the optimiser.",
    "update": "Weights to the devices that generate; where it helps, training states to host memory and back.",
}
_PHASES_KEY = "Each bar is one step by phase; the line through it is the 80 % interval, composed and not measured."
phases_chart = partial(
    step_parts, title="One step by phase", axis="Time of one step [s]", key=_PHASES_KEY, parts=PHASE_PARTS
)


def finetuning(
    model: Network = "llama3_8b",
    accelerator: Device = "rtx-4090",
    devices: Amount = 1,
    method: str = "lora",
    seq: Amount = 2048,
    micro_batch: Amount = 1,
    rank: Amount = 16,
    optimiser: str = "adam",
    recompute: str = "best",
    tokens: Amount = 20,
    hourly: Amount | None = None,
    group: Amount = 8,
    prompt: Amount = 1024,
    answer: Amount = 1024,
    steps: Amount = 1000,
) -> Panel:
    """Return the panel "Can I fine-tune this model on that GPU?" in the state that the arguments describe.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo.
    accelerator : str, Accelerator or dict
        A device, or ``{"like": "h100-sxm", "memory_bytes": "141 GB"}``.
    devices : int
        How many of them, 1 to 8.
    method : {"lora", "full", "qlora", "dpo", "grpo"}
        What the answer is about; the chart shows full fine-tuning, LoRA and QLoRA. Of DPO and GRPO the answer is about
        the first of these that fits, and the chart shows the phases of a step.
    seq, micro_batch, rank, optimiser
        As for `cb.finetune`.
    recompute : {"best", "none", "full"}
        Activation checkpointing; "best" takes it where the memory needs it.
    tokens : float
        Tokens to train on [millions].
    hourly : float, optional
        Price of an hour of one GPU [$]; the median of dated list prices by default.
    group, prompt, answer, steps
        Of GRPO: answers per prompt, mean tokens of a prompt and of an answer, and steps.

    Returns
    -------
    Panel
        `update(**changes)`, `answer`, `code`, `frame`.

    Examples
    --------
    >>> panel = finetuning(method="qlora")
    >>> panel.answer.partition(" Memory")[0]
    'Llama 3 8B with QLoRA fits 1 × GeForce RTX 4090: 9.11 of 24 GiB.'
    """
    return Panel(
        finetuning,
        "Can I fine-tune this model on that GPU?",
        _controls,
        {"memory": charts.method_memory, "phases": phases_chart},
        _draw,
        locals(),
        dict.fromkeys(("seq", "tokens"), partial(_off, False)) | dict.fromkeys(ROLLOUTS, partial(_off, True)),
    )


def _controls() -> tuple[Control, ...]:
    return (
        model_control("The language model to fine-tune", networks(language=True)),
        device_control("accelerator", "GPU", accelerators(), "Accelerator; each one holds the memory shown"),
        Slider("devices", "GPUs", "Hardware", tuple(map(float, range(1, 9))), tooltip="Number of GPUs, eight at most"),
        Choice(
            "method",
            "Method",
            "Fine-tuning",
            (
                ("full", "full", "All weights are trained"),
                ("lora", "LoRA", "Weights are frozen in 16 bits; two thin matrices beside each matmul are trained"),
                ("qlora", "QLoRA", "As LoRA, with the frozen weights in 4 bits"),
                ("dpo", "DPO", "Learns from pairs of answers, one preferred, beside a frozen reference"),
                ("grpo", "GRPO", "Learns from rewards of its own answers, several per prompt"),
            ),
            tooltip="Weights that are trained by supervised fine-tuning; or DPO or GRPO",
        ),
        Slider("seq", group="Workload", stops=powers_of_two(5, 17), unit="tokens"),
        Slider(
            "micro_batch",
            group="Workload",
            stops=powers_of_two(0, 8),
            unit="sequences",
            tooltip="Sequences that one GPU processes at a time",
        ),
        Slider("rank", group="Fine-tuning", stops=powers_of_two(0, 10), more=True),
        Choice(
            "optimiser",
            group="Fine-tuning",
            options=OPTIMISERS,
            more=True,
            tooltip="Optimiser; it determines the number of states per trained parameter",
        ),
        Choice(
            "recompute",
            "Checkpointing",
            "Fine-tuning",
            (
                ("none", "no", "Keep every activation for the backward pass"),
                ("best", "if needed", "Used where the memory requires it"),
                ("full", "yes", "Keep the inputs of blocks, recompute the rest"),
            ),
            more=True,
            tooltip="Activation checkpointing trades compute for memory",
        ),
        Slider(
            "tokens",
            "Tokens",
            "Workload",
            one_two_five(0.1, 1e6),
            unit="million",
            whole=False,
            more=True,
            tooltip="Tokens to train on, over all epochs",
        ),
        price_control(),
        Slider(
            "group",
            "Answers per prompt",
            "GRPO",
            powers_of_two(1, 7),
            more=True,
            tooltip="Answers of a group, whose rewards are compared",
        ),
        Slider(
            "prompt",
            "Prompt",
            "GRPO",
            powers_of_two(0, 15),
            unit="tokens",
            more=True,
            argument="input_len",
            tooltip="Mean length of a prompt",
        ),
        Slider(
            "answer",
            "Answer",
            "GRPO",
            powers_of_two(0, 15),
            unit="tokens",
            more=True,
            argument="output_len",
            tooltip="Mean length of an answer",
        ),
        Slider(
            "steps",
            "Steps",
            "GRPO",
            one_two_five(10, 1e5),
            more=True,
            tooltip="Weight updates, each from answers of its own",
        ),
    )


def _off(of_rollouts: bool, values: dict[str, Any]) -> dict[str, str]:
    """Return why rollouts, or a data set of sequences, are not asked for."""
    why = "only GRPO makes answers of its own" if of_rollouts else "GRPO makes its own sequences"
    return {} if (values["method"] == "grpo") == of_rollouts else {"*": why}


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `cb.finetune` beyond model and system."""
    again = {} if values["recompute"] == "best" else {"recompute": values["recompute"]}
    of_data = {"tokens": round(values["tokens"] * MILLION), "seq": values["seq"]}
    method = values["method"]
    return {
        "method": method if method in POST_TRAINING else list(METHODS),
        **({name: values[control] for control, name in ROLLOUTS.items()} if method == "grpo" else of_data),
        **{name: values[name] for name in PASSED},
        **again,
        **({} if values["hourly"] is None else {"hourly": values["hourly"]}),
    }


@lru_cache(maxsize=32)
def _tuned(model: zoo.Workload, device: Accelerator, arguments: str) -> FineTuning | PostTraining:
    """Return what `finetune` answers to arguments in JSON; cached, since many changes of a control ask again."""
    return finetune(model, device, **json.loads(arguments))


def _draw(values: dict[str, Any], pinned: View | None) -> View:
    model, device = model_of(values["model"]), device_of(values["accelerator"])
    tuned = _tuned(model, device, json.dumps(_given(values)))
    first = f"{model_text(values['model'])}, {device_text(values['accelerator'])}"
    sources = partial(_sources, model, device, tuned, values["optimiser"])
    code = f"{panel_call(finetuning, values)}\ncb.finetune({first}, {keywords(_given(values))})"
    if isinstance(tuned, PostTraining):
        return replace(_aligned(values, tuned, model, device), sources=sources, code=code)
    rows = tuned.table.set_index("method", drop=False).to_dict("index")
    own, memory = rows[values["method"]], _by_part(tuned)
    usd = _per_million(tuned, own, "usd")
    what = f"{model.title} with {METHODS[own['method']]}"
    return View(
        answer=f"{_answer(values, tuned, own, what, device)} {assumed(model)}".strip(),
        headline={
            "memory": own["memory_bytes"],
            **({} if own["why"] else {"time": 1 / own["tokens_per_second"]}),
            **({} if own["why"] or usd != usd else {"cost per million tokens": usd}),
        },
        chips=_chips(tuned),
        picture=_picture(rows, memory, own, device, pinned.kept if pinned else None),
        parts=tuple(
            Part(name, size, human(size, "iB"), MEMORY_PARTS[name], PARTS[name][1])
            for name, size in memory[own["method"]].items()
        ),
        parts_title=f"Memory of one GPU by part, {METHODS[own['method']]}: {human(own['memory_bytes'], 'iB')}",
        table=partial(_table, tuned),
        data=lambda: tuned.table.merge(tuned.memory, on=["method", "devices"]),
        sources=sources,
        code=code,
        kept=memory[own["method"]],
        stood_for={"recompute": own["recompute"]},
    )


def _aligned(values: dict[str, Any], tuned: PostTraining, model: zoo.Workload, device: Accelerator) -> View:
    """Return the view of DPO or GRPO, without sources and code: phases of a step, of the first weights that fit."""
    rows = tuned.table.to_dict("records")
    own = next((row for row in rows if not row["why"]), None)
    if own is None:
        raise Refused(rows[-1]["why"])
    seconds = {name: own[f"{name}_seconds"] for name in PHASES if own[f"{name}_seconds"] > 0}
    trained = WEIGHTS[own["fine_tuning"]]
    what = f"{model.title} with {POST_TRAINING[own['method']]} of {trained}"
    shares = {name: percent(size / own["step_seconds"]) for name, size in seconds.items()}
    title = f"{capital(PHASES[own['bound']])} takes {shares[own['bound']]} of a step that trains {trained}"
    frame = _phases(rows)
    return View(
        answer=f"{_step_answer(values, own, what, device, shares)} {assumed(model)}".strip(),
        headline={"memory": own["memory_bytes"], "time per step": own["step_seconds"]},
        chips=(("composed, not measured", f"{capital(tuned.tier.partition(': ')[2])}."), *_chips(tuned)[1:]),
        picture=Picture(
            "phases",
            rounded(frame, ("low", "high")),
            title,
            {**part_ends(frame, PHASE_PARTS), "rows": row_order(frame)},
        ),
        parts=tuple(
            Part(
                title,
                seconds[name],
                f"{human(seconds[name], 's')}, {shares[name]}",
                PHASE_PARTS[title],
                PHASE_WORDS[name],
            )
            for name, title in PHASES.items()
            if name in seconds
        ),
        parts_title=f"One step by phase, {trained}: {human(own['step_seconds'], 's')}",
        table=lambda: tuned.tables()["Ways"],
        data=tuned.frame,
        sources=tuple,
        code="",
        stood_for={"recompute": own["recompute"]},
    )


def _step_answer(
    values: dict[str, Any], own: dict[str, Any], what: str, device: Accelerator, shares: dict[str, str]
) -> str:
    """Return the answer of DPO or GRPO: the time of a step, its phases, memory, hours and cost."""
    low, high = (human(own[f"step_{end}"], "s") for end in ("low", "high"))
    rollouts = f"; while generating, {human(own['rollout_bytes'], 'iB')}" if own["rollout_bytes"] else ""
    at_price = "" if values["hourly"] is None else f" {at_your_price(values['hourly'])}"
    cost = with_ends(own, USD, dollars)
    grpo = own["method"] == "grpo"
    work = f"{values['steps']:,} steps" if grpo else f"all {values['tokens']:,g} million tokens"
    answers = f"{values['group']:,} answers to each of {own['sequences'] // values['group']:,} prompts"
    step = answers if grpo else f"{own['sequences'] // 2:,} pairs"
    return (
        f"{what} {FITS[own['fits']]} {own['devices']} × {short_name(device.name)}: "
        f"**{human(own['step_seconds'], 's')}** per step. "
        f"Step: {step}, so a step on more GPUs contains more. "
        f"Phases: {', '.join(f'{PHASES[name]} {share}' for name, share in shares.items())}. "
        f"Interval: {low} to {high}, from the 80 % intervals of the phases. "
        f"Memory: {_of(own)} while training{rollouts}. Time and cost: {work} take {human(HOUR * own['hours'], 's')} "
        f"{f'and cost {cost}{at_price}' if cost else 'at an unknown price'}."
    )


def _phases(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return one bar per weights that train, by phase; a row that does not fit has its words alone."""
    cells = [
        {
            "row": capital(WEIGHTS[row["fine_tuning"]]),
            "part": title,
            "value": 0.0 if row["why"] else row[f"{name}_seconds"],
            **(_of_row(row) if name == "generation" else {}),
        }
        for row in rows
        for name, title in PHASES.items()
    ]
    return pd.DataFrame(cells, columns=["row", "part", "value", "low", "high", "text"])


def _of_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a bar of phases has once: its words and the ends of its interval."""
    if row["why"]:
        return {"text": FITS[row["fits"]]}
    text = f"{human(row['step_seconds'], 's')}|{FITS[row['fits']]}"
    return {"text": text, "low": row["step_low"], "high": row["step_high"]}


def _by_part(tuned: FineTuning) -> dict[str, dict[str, float]]:
    """Memory of one device [B] by method and part, as drawn."""
    return {
        row["method"]: {name: float(sum(row[part] for part in parts)) for name, (parts, _) in PARTS.items()}
        for row in tuned.memory.to_dict("records")
    }


def _per_million(tuned: FineTuning, row: dict[str, Any], name: str) -> float:
    return float(row[name] / tuned.tokens * MILLION)


def _of(row: dict[str, Any]) -> str:
    return f"{human(row['memory_bytes'], 'iB').removesuffix(' GiB')} of {human(row['capacity_bytes'], 'iB')}"


def _answer(values: dict[str, Any], tuned: FineTuning, own: dict[str, Any], what: str, device: Accelerator) -> str:
    """Return the answer: whether it fits, time and cost per million tokens, and the memory left."""
    head = f"{what} {FITS[own['fits']]} {own['devices']} × {short_name(device.name)}: **{_of(own)}**."
    low, high = (human(own[f"memory_{end}"], "iB") for end in ("low", "high"))
    each = " on each" if own["devices"] > 1 else ""
    alike = low.split()[1:] == high.split()[1:]
    interval = f"Memory: the 80 % interval{each} is {low.split()[0] if alike else low} to {high}"
    if own["why"]:
        return f"{head} {capital(own['why'].partition('; ')[2])}. {interval}."
    cost, whole = _ends(tuned, own, "usd"), human(HOUR * own["hours"], "s")
    at_price = "" if values["hourly"] is None else f" {at_your_price(values['hourly'])}"
    paid = f"and cost {cost}{at_price}" if cost else "at an unknown price"
    still = "also fit" if own["fits"] == "yes" else "probably still fit"
    spare = (own["largest_seq"] > values["seq"], own["largest_micro_batch"] > values["micro_batch"])
    longer = f"{own['largest_seq']:,} tokens per sequence"
    more = f"{counted(own['largest_micro_batch'], 'sequence')} at a time"
    room = " or ".join(words for words, fits in zip((longer, more), spare, strict=True) if fits)
    left = (
        f"Memory left: {room} would {still}."
        if room
        else "Memory left: neither sequences twice as long nor twice as many sequences would fit."
    )
    return (
        f"{head} {interval}{'' if own['fits'] == 'yes' else '; its upper end does not fit'}. Time and cost: "
        f"one million tokens take {human(HOUR * _per_million(tuned, own, 'hours'), 's')} {paid}; all "
        f"{values['tokens']:,g} million take {whole}. {left}"
    )


def _ends(tuned: FineTuning, row: dict[str, Any], name: str) -> str:
    """Return a value per million tokens with its interval; "" where it is not known."""
    point, low, high = (_per_million(tuned, row, f"{name}{end}") for end in ("", "_low", "_high"))
    write = dollars if name == "usd" else ratio
    return "" if point != point else f"{write(point)} ({write(low)}-{write(high)})"


def _chips(tuned: FineTuning | PostTraining) -> tuple[tuple[str, str], ...]:
    return (
        (
            "memory 80 % interval",
            'Spread of published memory around ours. "Likely" fits at the point estimate but not at the upper end.',
        ),
        price_badge(tuned.price),
        (f"{len(tuned.assumed)} assumed", f"Values used where nothing is set: {in_words(tuned.assumed)}."),
    )


def _picture(
    rows: dict[str, dict[str, Any]],
    memory: dict[str, dict[str, float]],
    own: dict[str, Any],
    device: Accelerator,
    ghost: dict[str, float] | None,
) -> Picture:
    """Return the chart of one bar per method, by part, against the memory of the device."""
    cells: list[dict[str, Any]] = []
    for name, row in rows.items():
        label = f"{METHODS[name]} needs" if name == own["method"] else METHODS[name]
        text = f"{human(row['memory_bytes'], 'iB')}|{FITS[row['fits']]}"
        ends = {"text": text, "low": row["memory_low"], "high": row["memory_high"]}
        cells += [
            {"row": capital(label), "role": "need", "part": part, "bytes": size, **({} if at else ends)}
            for at, (part, size) in enumerate(memory[name].items())
        ]
    cells += [
        {"row": "Pinned needs", "role": "pinned", "part": part, "bytes": size} for part, size in (ghost or {}).items()
    ]
    cells.append({"row": device.name, "role": "device", "part": "capacity", "bytes": own["capacity_bytes"]})
    frame = pd.DataFrame(cells, columns=["row", "role", "part", "bytes", "low", "high", "text"])
    ends = {"yes": "", "likely": " (likely)"}
    able = [METHODS[name] + ends[row["fits"]] for name, row in rows.items() if row["fits"] in ends]
    title = f"{capital(listed(able)) if able else 'No method'} can train in {human(own['capacity_bytes'], 'iB')}"
    return Picture("memory", rounded(frame, ("bytes", "low", "high")), title, charts.method_ends(frame))


def _table(tuned: FineTuning) -> pd.DataFrame:
    """Return one row per method as printed text."""
    return pd.DataFrame(
        [
            {
                "Method": METHODS[row["method"]],
                "Trained parameters": human(row["trained"], "").strip(),
                "Memory [GiB]": f"{row['memory_bytes'] / GIBI:.3g} ({row['memory_low'] / GIBI:.3g}-"
                f"{row['memory_high'] / GIBI:.3g}) of {row['capacity_bytes'] / GIBI:.3g}",
                "Fits": row["fits"],
                "ZeRO": row["zero"] or "",
                "Checkpointing": "yes" if row["recompute"] == "full" else "no",
                "Throughput [tokens/s]": f"{row['tokens_per_second']:,.0f}",
                "Hours per million tokens": _ends(tuned, row, "hours"),
                "Cost per million tokens": _ends(tuned, row, "usd") or "not known",
                "Longest sequence": f"{row['largest_seq']:,}",
                "Largest micro-batch": f"{row['largest_micro_batch']:,}",
            }
            for row in tuned.table.to_dict("records")
        ]
    )


def _sources(
    model: zoo.Workload, device: Accelerator, tuned: FineTuning | PostTraining, optimiser: str
) -> tuple[Source, ...]:
    states = dict.fromkeys(catalog.row("optimisers", optimiser)["source"].split(";"), "states of the optimiser")
    return cited({**sources_of_case(model, device), **states, **sources_of_price(tuned.price)})
