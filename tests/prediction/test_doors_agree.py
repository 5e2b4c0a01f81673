"""One question, every door: a call, a row of a table, a sweep, a comparison, a search, a plan and a service.

Questions are typed as a reader would type them, possible ones and others: formats that a device lacks, models that do
not fit, layouts that do not divide. All doors give the same point, the same interval and the same reason against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cookbook.catalog import UnknownName
from cookbook.catalog.refusals import code_of, refusal_of
from cookbook.prediction.answer import answer
from cookbook.prediction.api import forward_pass, generate, train_step
from cookbook.prediction.engine import Estimate
from cookbook.prediction.kinds.constraints import reasons
from cookbook.topics.devices.comparison import compare
from cookbook.topics.runs.search import search
from cookbook.topics.runs.training_run import plan_run
from cookbook.topics.serving.service import serve
from cookbook.topics.sweeps.sweeping import sweep
from cookbook.workloads import zoo

SAME = 1e-9
DEVICES = (
    "h100-sxm",
    "a100-sxm-80gb",
    "v100-sxm2-16gb",
    "t4",
    "mi300x",
    "b200-sxm",
    "rtx-4090",
    "l4",
    "gaudi2",
    "tpu-v5e",
    "trainium1",
    "xeon-platinum-8480",
    "apple-m2-ultra",
    "jetson-agx-orin-64gb",
    "arc-b580",
    "alveo-u280",
    "k80",
    "inferentia2",
    "ascend-910b",
    "gb200",
    "coral-edge-tpu",
)
FORMATS = ("", "", "fp16", "bf16", "fp32", "tf32", "fp8", "int8", "fp4")
LANGUAGE = ("llama2_7b", "llama3_8b", "llama3_70b", "mixtral_8x7b", "gpt2", "mistral_7b", "qwen2_7b", "llama2_13b")
NETWORKS = (
    "resnet50",
    "vgg16",
    "mobilenet_v2",
    "unet3d",
    "bert_large",
    "vit_b_16",
    "ssd1200_resnet34",
    "lstm_ptb_large",
)
SOFTWARE = {
    "transformer": ("", "", "Megatron Core", "PyTorch", "JAX", "PyTorch FSDP"),
    "classic": ("", "", "PyTorch", "PyTorch NGC", "TensorFlow", "torch.compile", "PyTorch 1.13", "PyTorch 9"),
    "inference": (
        "",
        "",
        "TensorRT",
        "PyTorch",
        "torch.compile",
        "ONNX Runtime",
        "TensorFlow",
        "OpenVINO",
        "TensorRT 6.0",
        "TensorRT 42",
    ),
    "generation": (
        "",
        "",
        "vLLM",
        "TensorRT-LLM",
        "llama.cpp",
        "SGLang",
        "Ollama",
        "Hugging Face Transformers",
        "MLX",
        "vLLM 0.5.4",
        "vLLM 0.11.2",
        "TensorRT-LLM 0.17",
        "vLLM 99",
    ),
}


@dataclass(frozen=True)
class Told:
    """What a door says: a point with its 80 % interval, or the code of a reason and its sentence."""

    point: float = math.nan
    low: float = math.nan
    high: float = math.nan
    code: str = ""
    why: str = ""

    def differs(self, other: Told) -> str:
        """In what two doors differ; "" where they agree."""
        if self.code != other.code:
            return f"{self.code or 'answered'} / {other.code or 'answered'}"
        if self.why != other.why and other.why not in reasons().values():
            return f"sentence of {self.code}"
        for name in ("point", "low", "high"):
            one, two = getattr(self, name), getattr(other, name)
            if not (one == pytest.approx(two, rel=SAME) or (math.isnan(one) and math.isnan(two))):
                return "point" if name == "point" else "interval"
        return ""


Question = dict[str, Any]
Door = Callable[[Question], Told | None]


def pick(rng: np.random.Generator, *values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def stated(question: Question, *without: str) -> Question:
    """Arguments that a question gives."""
    return {name: each for name, each in question.items() if each not in ("", None) and name not in ("of", *without)}


def step_of_a_language_model(rng: np.random.Generator) -> Question:
    tp, pp, dp, micro = pick(rng, 1, 1, 2, 4, 8), pick(rng, 1, 1, 2, 4), pick(rng, 1, 2, 8), pick(rng, 1, 2, 4)
    given = {
        "devices": tp * pp * dp,
        "tp": tp,
        "pp": pp,
        "micro_batch": micro,
        "zero": pick(rng, 1, 2, 3),
        "global_batch": micro * dp * pick(rng, 4, 8, 16) + pick(rng, 0, 0, 0, 1),
        "recompute": pick(rng, "none", "selective", "full"),
        "seq": pick(rng, 1024, 2048, 4096),
        "attention": pick(rng, "", "flash2", "fused-softmax"),
        "cp": pick(rng, None, None, 1, 2),
        "vp": pick(rng, None, 1),
    }
    if rng.random() < 0.3:
        given = {"devices": pick(rng, 1, 8, 64), "micro_batch": micro}
    return {
        "of": "train_step",
        "model": pick(rng, *LANGUAGE),
        "accelerator": pick(rng, *DEVICES),
        **given,
        "software": pick(rng, *SOFTWARE["transformer"]),
        "precision": pick(rng, *FORMATS),
    }


def step_of_a_network(rng: np.random.Generator) -> Question:
    devices, batch = pick(rng, 1, 1, 4, 8, 64), pick(rng, 4, 32, 128)
    given = {"devices": devices, "global_batch": batch * devices * pick(rng, 1, 2) - pick(rng, 0, 0, 0, 1)}
    given = given if rng.random() < 0.6 else {}
    return {
        "of": "train_step",
        "model": pick(rng, *NETWORKS),
        "accelerator": pick(rng, *DEVICES),
        "micro_batch": batch,
        **given,
        "software": pick(rng, *SOFTWARE["classic"]),
        "precision": pick(rng, *FORMATS),
    }


def forward(rng: np.random.Generator) -> Question:
    model = pick(rng, *NETWORKS, *LANGUAGE)
    seq = pick(rng, None, 128, 384, 2048) if zoo.model(model).ops.needs_seq else None
    kind = "generation" if model in LANGUAGE else "inference"
    return {
        "of": "forward_pass",
        "model": model,
        "accelerator": pick(rng, *DEVICES),
        "seq": seq,
        "batch": pick(rng, 1, 8, 64, 256),
        "devices": pick(rng, 1, 1, 4),
        "precision": pick(rng, *FORMATS),
        "software": pick(rng, *SOFTWARE[kind]),
    }


def batch_of_answers(rng: np.random.Generator) -> Question:
    tp = pick(rng, None, 1, 1, 2, 8)
    return {
        "of": "generate",
        "model": pick(rng, *LANGUAGE),
        "accelerator": pick(rng, *DEVICES),
        "tp": tp,
        "pp": pick(rng, None, None, 1, 2),
        "batch": pick(rng, None, 1, 1, 8, 32, 512),
        "input_len": pick(rng, 64, 512, 1024, 8000),
        "output_len": pick(rng, 1, 32, 128, 1024),
        "precision": pick(rng, *FORMATS),
        "weights_format": pick(rng, "", "", "", "fp8", "int8", "int4", "q4_k_m"),
        "kv_format": pick(rng, "", "", "fp8"),
        "software": pick(rng, *SOFTWARE["generation"]),
    }


DRAWN = (step_of_a_language_model, step_of_a_network, forward, batch_of_answers)


def questions(count: int, seed: int) -> list[Question]:
    """Typed questions, as many of each kind."""
    rng = np.random.default_rng(seed)
    return [DRAWN[at % len(DRAWN)](rng) for at in range(count)]


def refused(problem: Exception) -> Told:
    return Told(code=refusal_of(problem).code, why=str(problem))


def is_transformer(question: Question) -> bool:
    return question["of"] == "train_step" and question["model"] in LANGUAGE


def told_of(question: Question, found: Estimate) -> Told:
    """Seconds of a step of a language model; else the rate, as tables have it."""
    if is_transformer(question):
        return Told(found.point, found.low80, found.high80)
    return Told(found.rate, found.rate * found.point / found.high80, found.rate * found.point / found.low80)


def by_call(question: Question) -> Told:
    call = {"train_step": train_step, "forward_pass": forward_pass, "generate": generate}[question["of"]]
    try:
        return told_of(
            question, call(question["model"], question["accelerator"], **stated(question, "model", "accelerator"))
        )
    except (ValueError, UnknownName) as problem:
        return refused(problem)


def by_sweep(question: Question) -> Told:
    try:
        row = sweep(question["of"], **stated(question)).iloc[0]
    except (ValueError, UnknownName) as problem:
        return refused(problem)
    if row["why"]:
        return Told(code=code_of(row["why"]), why=row["why"])
    if is_transformer(question):
        return Told(row["seconds"], row["low80"], row["high80"])
    rate, seconds = row["rate"], row["seconds"]
    return Told(rate, rate * seconds / row["high80"], rate * seconds / row["low80"])


def kind_of_table(question: Question) -> str:
    if question["of"] != "train_step":
        return "inference"
    return "training_transformer" if is_transformer(question) else "training_classic"


def cells(question: Question) -> dict[str, str]:
    """A question in the canonical columns of a table."""
    given = stated(question)
    if question["of"] == "train_step" and not is_transformer(question):
        given["batch"] = given.pop("micro_batch")
    if question["of"] == "forward_pass":
        length = given.pop("seq", None) or zoo.model(question["model"]).seq
        prompt = question["model"] in LANGUAGE
        given |= {
            "input_len": length if zoo.model(question["model"]).ops.needs_seq else None,
            "metric": "samples/s",
            "scenario": "prefill" if prompt else "static",
        } | ({"tp": 1} if prompt else {})
    if question["of"] == "generate":
        given |= {"metric": "output tokens/s", "scenario": "static", "batch": given.get("batch", 1)}
    return {name: str(each) for name, each in given.items() if each is not None}


def by_table(asked: list[Question]) -> list[Told]:
    found: list[Told] = [Told()] * len(asked)
    for kind in ("training_transformer", "training_classic", "inference"):
        at = [place for place, each in enumerate(asked) if kind_of_table(each) == kind]
        if not at:
            continue
        table = answer(pd.DataFrame([cells(asked[each]) for each in at]).fillna(""), kind)
        for place, row in zip(at, table.to_dict("records"), strict=True):
            found[place] = Told(row["predicted"], row["low80"], row["high80"], row["reason"], row["why"])
    return found


def by_comparison(question: Question) -> Told | None:
    """One device, one pass of a batch: what a comparison asks."""
    trains = question["of"] == "train_step"
    plain = {"of", "model", "accelerator", "precision", "software", "seq", "micro_batch" if trains else "batch"}
    more = {name: each for name, each in stated(question).items() if name not in plain}
    if question["of"] == "generate" or any(each != 1 for each in more.values()) or is_transformer(question):
        return None
    try:
        row = compare(
            question["model"],
            [question["accelerator"]],
            phase="training" if trains else "inference",
            batch=question["micro_batch" if trains else "batch"],
            precision=question["precision"],
            software=question["software"],
            seq=question.get("seq"),
        ).iloc[0]
    except (ValueError, UnknownName) as problem:
        return refused(problem)
    if row["why"]:
        return Told(code=code_of(row["why"]), why=row["why"])
    return Told(row["samples_per_s"], row["low"], row["high"])


AXES = ("tp", "pp", "cp", "micro_batch", "zero", "recompute")


def whole_layout(question: Question) -> bool:
    names = ("tp", "pp", "vp", "zero", "global_batch")
    return is_transformer(question) and all(question.get(name) for name in names)


def by_search(question: Question) -> Told | None:
    """The row of a search with the layout that is asked for; none where a search does not try it."""
    if not whole_layout(question):
        return None
    same = {
        name: question[name]
        for name in ("seq", "precision", "software", "attention", "micro_batch", "zero", "recompute")
    }
    try:
        table = search(
            question["model"], question["accelerator"], question["devices"], question["global_batch"], **same
        ).table
    except (ValueError, UnknownName) as problem:
        return refused(problem)
    wanted = {name: question.get(name) or 1 for name in AXES} | {"vp": 1, "ep": 1}
    for name, each in wanted.items():
        table = table[table[name] == each]
    return Told(*table[["step_seconds", "low80", "high80"]].iloc[0]) if len(table) else None


def by_plan(question: Question) -> Told | None:
    if not whole_layout(question):
        return None
    layout = {name: question.get(name) or 1 for name in AXES} | {"vp": 1, "ep": 1}
    try:
        row = plan_run(
            question["model"],
            question["accelerator"],
            question["devices"],
            1e9,
            layout=layout,
            hourly=1.0,
            **{name: question[name] for name in ("global_batch", "seq", "precision", "software", "attention")},
        ).table.iloc[0]
    except (ValueError, UnknownName) as problem:
        return refused(problem)
    return Told(row["step_seconds"], row["step_low"], row["step_high"])


def by_service(question: Question, delay: str = "") -> Told | None:
    """A service of one client who asks again at once: the time of one answer, its first token, or a further one."""
    if question["of"] != "generate" or question.get("batch") not in (None, 1):
        return None
    names = ("precision", "weights_format", "kv_format", "software", "input_len", "output_len")
    tp, pp = question["tp"] or 1, question["pp"] or 1
    try:
        row = serve(
            question["model"],
            question["accelerator"],
            concurrency=1,
            input_spread=0,
            output_spread=0,
            tp=tp,
            pp=pp,
            devices=tp * pp,
            hourly=1.0,
            **{name: question[name] for name in names if question[name] != ""},
        ).table.iloc[0]
    except (ValueError, UnknownName) as problem:
        return refused(problem)
    if not delay:
        return Told(row["e2e_p50"])
    name = {"first token": "ttft_p50", "token": "tpot_p50"}[delay]
    return Told(row[name], row[f"{name}_low80"], row[f"{name}_high80"])


def seconds_of(question: Question, delay: str = "") -> Told:
    """Seconds of an answer of a batch of one, or of a delay, by a call."""
    given = stated(question, "model", "accelerator", "batch") | ({"delay_of": delay} if delay else {})
    given |= {"tp": question["tp"] or 1, "pp": question["pp"] or 1}
    try:
        found = generate(question["model"], question["accelerator"], **given)
    except (ValueError, UnknownName) as problem:
        return refused(problem)
    return Told(found.point, found.low80, found.high80) if delay else Told(found.point)


def disagreements(asked: list[Question], slow: int = 1) -> dict[tuple[str, str], list[Question]]:
    """Questions by pair of doors and by what they differ in; of slow doors one question in so many is asked."""
    found: dict[tuple[str, str], list[Question]] = {}

    def note(pair: str, one: Told | None, other: Told | None, question: Question) -> None:
        if one is None or other is None:
            return
        found.setdefault((pair, ""), []).append(question)
        if said := one.differs(other):
            found.setdefault((pair, said), []).append({**question, "said": (one, other)})

    tables = by_table(asked)
    for at, question in enumerate(asked):
        called = by_call(question)
        # A row of a table shares a batch out that is no whole number of passes, and says so; whoever types it is asked.
        note("call, table", called, None if called.code == "batch-not-divisible" else tables[at], question)
        note("call, sweep", called, by_sweep(question), question)
        note("call, comparison", called, by_comparison(question), question)
        if at % slow < len(DRAWN):
            for door, told in (("search", by_search(question)), ("plan", by_plan(question))):
                # Layouts that could be, but not beside all else that these promise, have reasons of their own there.
                if told is not None and not (told.code and not called.code):
                    note(f"call, {door}", called if not told.code else told, told, question)
            for delay in ("", "first token", "token"):
                served = by_service(question, delay)
                if served is not None:
                    note(f"call, service{delay and ' '}{delay}", seconds_of(question, delay), served, question)
    return found


def counts(found: dict[tuple[str, str], list[Question]]) -> dict[str, str]:
    """How many questions each pair of doors was asked, and in how many it differed, by what."""
    pairs = dict.fromkeys(pair for pair, _ in found)
    return {
        pair: f"{sum(len(each) for (other, said), each in found.items() if other == pair and said)} of "
        f"{len(found[pair, ''])}: "
        + ", ".join(
            f"{said} {len(each)}"
            for (other, said), each in sorted(found.items(), key=lambda one: -len(one[1]))
            if other == pair and said
        )
        for pair in pairs
    }


def check(count: int, seed: int, slow: int) -> None:
    found = disagreements(questions(count, seed), slow)
    bad = {key: each for key, each in found.items() if key[1]}
    assert not bad, f"{counts(found)}; the first of each: { {key: each[0] for key, each in bad.items()} }"


def test_every_door_agrees() -> None:
    check(120, 21, 12)


@pytest.mark.slow
@pytest.mark.all
def test_every_door_agrees_on_a_thousand_questions() -> None:
    check(1000, 22, 4)
