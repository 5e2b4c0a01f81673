"""Every public name answers whatever it is given: an answer, or an error in the caller's words, soon.

Calls with good arguments have one or two of them replaced by what nobody should give. Allowed are an answer, and
ValueError, TypeError or KeyError whose message is short and speaks of the caller's argument, not of Python's insides.
As a script it counts failures by name and kind: ``python tests/house/test_hostile.py 20000``; with
``--seed N`` other calls, with ``--json FILE`` every failure, with ``--only NAME`` those of one name.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import inspect
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import HOSTILE, raw_words

import cookbook as cb

LONGEST_MESSAGE = 400
MOST_COUNTS = 15  # the longest call, in times that this machine takes to count to ten million
MOST_BYTES = 8 * 2**30
ALLOWED = (ValueError, TypeError, KeyError)
# Arguments that count or measure something: for these, what is no positive number may not be answered.
SIZES = {
    "batch",
    "micro_batch",
    "global_batch",
    "devices",
    "seq",
    "hosts",
    "samples",
    "epochs",
    "input_len",
    "output_len",
    "stages",
    "micro_batches",
    "payload_bytes",
    "machines",
    "tokens",
    "years",
    "runs",
    "tp",
    "pp",
    "cp",
    "ep",
    "vp",
}
NO_SIZE = ("nan", "inf", "-inf", "-1", "-1e308", "-(10**400)", "NumPy nan", "NumPy -5", "NA", "1j")
NO_SIZE += ("abc", "NUL", "long", "bytes", "{}", "set", "object", "class", "date", "lambda")
# Names that filter by such an argument: what no row has gives no rows.
FILTERS = {"measurements"}


@functools.cache
def spelt() -> dict[str, str]:
    """Argument names of the release at hand."""
    try:
        cb.train_step("resnet50", "t4", micro_batch=1)
    except ValueError:
        return {"micro_batch": "batch", "precision": "number_format"}
    return {}


@functools.cache
def matched() -> Any:
    return cb.match_storage("resnet50", "a100-sxm-80gb", "micron-9400-7-68tb-gen4", "imagenet-1k", accelerators=8)


@functools.cache
def placed() -> Any:
    return cb.planning.where_to_run("resnet50")


def straight(one: Any, other: Any) -> Any:
    return 0.01 + 1e-5 * one + 0 * other


@functools.cache
def line() -> Any:
    return straight


@functools.cache
def step_costs() -> Any:
    return cb.planning.StepCosts(straight, straight, 10_000)


@functools.cache
def simulated_weeks() -> Any:
    return cb.planning.cluster_weeks(["static", "fifo"], load=0.3, weeks=2, progress=False)


@functools.cache
def trained() -> Any:
    return cb.train_step("resnet50", "a100-sxm-80gb")


PLAN = {
    "devices": 8,
    "per_node": 8,
    "micro_batch": 1,
    "global_batch": 8,
    "tp": 2,
    "pp": 1,
    "vp": 1,
    "cp": 1,
    "ep": 1,
    "zero": 1,
    "sequence_parallel": True,
    "recompute": "full",
    "attention": "flash2",
    "capacity_factor": None,
    "shard": None,
    "offload": "",
    "fabric": "",
    "oversubscription": 1,
    "pipeline_schedule": "1f1b",
}
DATA, DRIVE = "imagenet-1k", "micron-9400-7-68tb-gen4"
# Good arguments of each name; what is left out keeps its default and is replaced all the same.
BASE: dict[str, dict[str, Any]] = {
    "accelerator": {"like": "h100-sxm", "memory_bytes": 90e9, "mem_bandwidth": 3e12, "peak_bf16": 1e15},
    "accuracy": {},
    "chain_figures": {"found": matched},
    "cluster": {"policy": "fifo", "load": 0.3, "weeks": 1, "quota": [16, 16, 16, 16], "mtbf_days": 100},
    "cluster_gains": {"found": simulated_weeks},
    "cluster_weeks": {"policies": ["static", "fifo"], "load": 0.3, "weeks": 1},
    "check": {"answer": 2.0, "expected": 2.0},
    "compare_published": {"names": ["resnet50"]},
    "device_usd": {"accelerator": "a100-sxm-80gb"},
    "drf_tasks": {"capacity": [9, 18], "demands": [[1, 4], [3, 1]]},
    "epoch_parts": {"found": matched},
    "explore": {
        "of": "train_step",
        "model": "llama2_7b",
        "accelerator": "h100-sxm",
        "devices": [8, 16],
        "tp": [1, 2],
        "global_batch": 512,
        "progress": False,
    },
    "erlang_wait_seconds": {"servers": 4, "arrival_rate": 0.5, "service_seconds": 2},
    "generate": {"model": "llama2_7b", "accelerator": "h100-sxm", "input_len": 512, "output_len": 64, "batch": 8},
    "finetune": {"model": "llama2_7b", "accelerator": "a100-sxm-80gb", "tokens": "1e7", "recompute": "full", "zero": 0},
    "forward_pass": {"model": "resnet50", "accelerator": "t4", "batch": 8},
    "hint": {"*": ("Think of bytes.",)},
    "human": {"value": 3e9, "unit": "B/s"},
    "jain_index": {"shares": [1, 2, 3]},
    "max_min_rates": {"routes": [[0], [0, 1]], "capacities": [10, 4]},
    "layers": {"table": [{"layer": "linear", "out": 10}], "input": [784]},
    "machine": {"what": "dgx-h100", "per_node": 8},
    "match_storage": {
        "workload": "resnet50",
        "system": "a100-sxm-80gb",
        "storage": DRIVE,
        "data": DATA,
        "accelerators": 8,
    },
    "measurements": {"kind": "training", "framework": ["PyTorch"], "devices": (2, 64)},
    "model": {"source": "llama2_7b", "width": 4096, "depth": 32},
    "models": {},
    "operations": {"model": "resnet50", "accelerator": "t4"},
    "predict_first": {"question": "Which?", "options": {"a": "memory", "b": "compute"}, "answer": "a"},
    "progress": {"line": "x0a1b2c=264"},
    "provenance": {"key": "h100-sxm", "field": "memory_bytes"},
    "requirements": {"model": "resnet50", "accelerators": ["t4"]},
    "roofline_table": {"model": "resnet50", "accelerator": "t4"},
    "scaling": {"model": "resnet50", "accelerator": "dgx-1-v100", "devices": 64},
    "show_source": {"function": cb.si},
    "si": {"value": "312 TFLOP/s"},
    "table": {"name": "places"},
    "topology": {"name": "hgx-h100"},
    "train_step": {"model": "llama2_7b", "accelerator": "a100-sxm-80gb", **PLAN},
    "Price": {"low": 1.0, "median": 2.0, "high": 3.0, "unit": "USD/h"},
    "StepCosts": {"decode": line, "prefill": line, "kv_tokens": 10_000},
    "annuity_usd": {"price_usd": 1e4, "years": 3},
    "arrivals": {"rate": 2.0, "count": 10},
    "assembly_line": {"schedule": "gpipe", "stages": 4, "micro_batches": 8},
    "bought_usd": {"name": "a100-sxm-80gb"},
    "break_even": {"found": placed},
    "break_even_hours": {"bought_usd": 1e4, "running_usd_per_hour": 1, "rent_usd_per_hour": 3},
    "break_even_use": {"owned_usd_per_year": 1e4, "rent_usd_per_hour": 3},
    "carbon": {},
    "compare": {"model": "resnet50", "accelerators": ["t4", "h100-sxm"]},
    "cores_needed": {"model": "resnet50", "system": "dgx-h100", "data": DATA},
    "cumulative": {"found": placed, "keys": lambda: [cb.planning.break_even(placed()).own]},
    "electricity_usd": {"watts": 400},
    "exchange_times": {"devices": 8, "payload_bytes": 1e8},
    "growth_lines": {},
    "growth_rates": {},
    "milestones": {},
    "measured_links": {},
    "tariff": {},
    "hourly_usd": {"name": "a100-sxm-80gb"},
    "lane_budget": {"names": ["hgx-h100"]},
    "least_squares_growth": {"years": [2016, 2018, 2020, 2022], "values": [1, 2, 4, 9]},
    "machines": {"names": ["hgx-h100"]},
    "need": {"model": "llama2_7b", "accelerators": ["rtx-4090", "h100-sxm"]},
    "nodes_needed": {"rate": 1000, "data": DATA},
    "engine_costs": {"model": "llama2_7b", "accelerator": "h100-sxm"},
    "lengths": {"mean": 300, "count": 10},
    "ownership_usd": {"hardware_usd": 1e5, "horizon_years": 3, "life_years": 5},
    "plan_run": {"model": "llama2_7b", "accelerator": "h100-sxm", "devices": 64, "tokens": "1e12"},
    "power_watts": {"rated_watts": 400, "active_share": 0.5, "idle_share": 0.2, "full_share": 0.9},
    "rank_changes": {"found": matched},
    "pick_stack": {"application": "image", "task": "train"},
    "one_size": {"task": "train", "applications": ["sensor"]},
    "rented": {"instances": ["aws-p3-16xlarge"], "model": "resnet50", "data": DATA},
    "run_cost": {"prediction": trained, "device": "a100-sxm-80gb", "samples_per_step": 64, "samples": 1e6},
    "search": {"model": "llama2_7b", "accelerator": "h100-sxm", "devices": 8, "global_batch": 8},
    "serve": {"model": "llama2_7b", "accelerator": "h100-sxm", "rate": 1, "devices": 1},
    "simulate": {"costs": step_costs, "prompts": [50, 60], "answers": [5, 6], "arrival": [0.0, 1.0]},
    "size_host": {"machine": "hgx-h100", "model": "resnet50", "data": DATA},
    "size_platform": {"machine": "hgx-h100", "model": "resnet50", "data": DATA},
    "split_batch": {
        "model": "resnet50",
        "batch": 256,
        "flops": "100 TFLOP/s",
        "inner": ("node", "300 GB/s"),
        "outer": ("network", "25 GB/s"),
    },
    "stated": {"category": "network"},
    "step_kwh": {"prediction": trained, "device": "a100-sxm-80gb"},
    "storage_usd": {},
    "sweep": {"model": "resnet50", "accelerator": ["t4"], "batch": [16, 32], "precision": "fp16"},
    "what_runs": {"accelerator": "rtx-4090", "models": ["llama2_7b"]},
    "where_to_run": {"model": "resnet50"},
    "accuracy_curve": {"over": "adc_bits", "values": [4], "draws": 1},
    "crossbar_accuracy": {"draws": 1},
    "crossbar_gain": {"model": "alexnet"},
    "crossbar_tile": {"rows": 64},
    "digit_images": {},
    "published_crossbars": {},
    "digital_intensity": {"model": "alexnet"},
    "digital_roofs": {"devices": ["h100-sxm"], "intensity": 10.0},
    "largest_crossbar_batch": {"model": "alexnet"},
    "map_to_crossbars": {"model": "alexnet"},
    "train_digits": {"epochs": 2},
}


def formulas() -> dict[str, Callable[..., Any]]:
    """Every formula that ``cb`` hands out, by module and name."""
    rooms = ("arithmetic", "memory", "parallelism", "utilisation")
    found = {f"{room}.{name}": value for room in rooms for name, value in vars(getattr(cb, room)).items()}
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(value)
        and value.__module__.startswith("cookbook.")
        and "._" not in name + value.__module__
    }


def doors() -> dict[str, Callable[..., Any]]:
    """Every public name that can be called."""
    rooms = ((cb, cb.__all__), (cb.planning, cb.planning.__all__))
    found = {name: getattr(room, name) for room, names in rooms for name in names}
    return {name: door for name, door in found.items() if callable(door) and not inspect.ismodule(door)}


def base(name: str, door: Callable[..., Any]) -> dict[str, Any]:
    """Good arguments, in the spelling of the release; tables of results are made when first needed."""
    signature = inspect.signature(door).parameters
    given = {}
    for argument, value in BASE.get(name, {}).items():
        argument = argument if argument in signature else spelt().get(argument, argument)
        given[argument] = value() if inspect.isfunction(value) and argument != "function" else value
        given[argument] = value() if hasattr(value, "cache_clear") and argument != "function" else given[argument]
    return given


def arguments(name: str, door: Callable[..., Any]) -> list[str]:
    """Names of all arguments that can be given."""
    kinds = inspect.signature(door).parameters
    taken = {key for key, each in kinds.items() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
    return sorted(taken | set(base(name, door)))


@functools.cache
def most_seconds() -> float:
    """How much processor time a call may take, by the speed of this machine."""
    begun, count = time.process_time(), 0
    while count < 10_000_000:
        count += 1
    return MOST_COUNTS * (time.process_time() - begun)


class TooLong(BaseException):
    """A call that does not come back; no handler of errors catches it."""


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Break off what takes longer on the processor, whatever else runs there."""

    def stop(*_: Any) -> None:
        raise TooLong

    former = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def called(door: Callable[..., Any], rest: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, str]:
    """The answer of one call, and the kind of failure with what was said; empty where that is allowed.

    A call that takes too long is asked once more: tables that the first call read are kept.
    """
    answer, what = called_once(door, rest, given)
    return called_once(door, rest, given) if what.startswith("too slow") else (answer, what)


def called_once(door: Callable[..., Any], rest: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, str]:
    """The same, asked once."""
    answer, quiet = None, contextlib.redirect_stdout(io.StringIO())
    try:
        with warnings.catch_warnings(record=True) as said, bounded(most_seconds()), quiet:
            warnings.simplefilter("always")
            answer = door(*rest, **given)
            repr(answer)
    except TooLong:
        return None, f"too slow: more than {most_seconds():.0f} s"
    except ALLOWED as error:
        return None, spoken(error)
    except Exception as error:
        return None, f"wrong exception: {type(error).__name__}: {str(error)[:200]}"
    return answer, f"warning: {said[0].category.__name__}: {str(said[0].message)[:200]}" if said else ""


def judge(name: str, door: Callable[..., Any], changed: dict[str, str]) -> str:
    """What is wrong with one call of a door; empty where nothing is."""
    given = base(name, door) | {argument: HOSTILE[value]() for argument, value in changed.items()}
    rest = given.pop("*", ())
    answer, what = called(door, rest if isinstance(rest, tuple) else (rest,), given)
    return what or ("" if answer is None else wrongly_taken(name, changed, answer))


def spoken(error: Exception) -> str:
    """What is wrong with a message."""
    message = str(error)
    if len(message) > LONGEST_MESSAGE:
        return f"long message: {len(message)} characters"
    if raw := raw_words(message):
        return f"raw message: {type(error).__name__}: {raw[0]}: {message[:200]}"
    if len(message.split()) < 3:
        return f"bare message: {type(error).__name__}: {message[:200]!r}"
    return ""


def wrongly_taken(name: str, changed: dict[str, str], answer: Any) -> str:
    """A size that is none, yet was answered; a table may answer with a reason in each row, NaN may give NaN."""
    table = hasattr(answer, "columns") and hasattr(answer.columns, "__contains__")
    if name in FILTERS or (table and "why" in answer.columns and (answer["why"] != "").all()):
        return ""
    numbers = isinstance(answer, (float, np.ndarray)) and np.asarray(answer).dtype.kind == "f"
    missing = numbers and bool(np.isnan(answer).all())
    wrong = (
        f"answered: {argument} = {value}"
        for argument, value in changed.items()
        if argument in SIZES and value in NO_SIZE and not (missing and value in ("nan", "NumPy nan"))
    )
    return next(wrong, "")


def calls(count: int, seed: int = 0, only: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Names with the arguments replaced, the same for the same seed."""
    rng = random.Random(seed)
    all_doors = doors()
    names = [only] if only else sorted(name for name in all_doors if arguments(name, all_doors[name]))
    for _ in range(count):
        name = rng.choice(names)
        open_to = arguments(name, all_doors[name])
        chosen = rng.sample(open_to, min(len(open_to), rng.choice((1, 1, 2))))
        yield name, {argument: rng.choice(list(HOSTILE)) for argument in chosen}


def formula_failures(count: int, seed: int = 0) -> list[tuple[str, dict[str, str], str]]:
    """The same for formulas, which are arrays in, arrays out: NumPy's own words and infinities are theirs too."""
    rng, found = random.Random(seed), []
    known = formulas()
    for _ in range(count):
        name = rng.choice(sorted(known))
        taken = list(inspect.signature(known[name]).parameters)
        changed = {argument: rng.choice(list(HOSTILE)) for argument in rng.sample(taken, min(len(taken), 2))}
        given = {argument: HOSTILE[changed[argument]]() if argument in changed else 2 for argument in taken}
        what = called(known[name], (), given)[1]
        if what and not what.startswith(("raw", "bare", "warning")):
            found.append((name, changed, what))
    return found


def failures(count: int, seed: int = 0, only: str = "") -> list[tuple[str, dict[str, str], str]]:
    """What failed of so many calls; what is counted once in a process, as documented, is counted before."""
    cb.measurements(classic_flop=True)
    all_doors = doors()
    tried = ((name, changed, judge(name, all_doors[name], changed)) for name, changed in calls(count, seed, only))
    return [found for found in tried if found[2]]


def in_own_process(count: int, seed: int, *more: str) -> list[tuple[str, dict[str, str], str]]:
    """The same in a process that may not take all of the memory, nor go on for ever."""
    command = [sys.executable, str(Path(__file__).resolve()), str(count), "--seed", str(seed), "--json", "-", *more]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with tempfile.TemporaryDirectory() as folder:  # where what is given for a file is written
        ran = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=120 + count / 5, cwd=folder
        )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", sorted(doors()))
def test_good_arguments_are_answered(name):
    door = doors()[name]
    given = base(name, door)
    assert door(*given.pop("*", ()), **given) is not None


def test_every_name_has_good_arguments():
    assert set(doors()) == set(BASE), "add what is new to BASE, take out what is gone"


@pytest.mark.parametrize(("of", "count"), [("doors", 600), ("formulas", 1500)])
def test_hostile_arguments_some(of, count):
    found = in_own_process(count, 1, "--of", of)
    assert not found, f"{len(found)} of {count}, first: {found[:5]}"


@pytest.mark.all
@pytest.mark.parametrize("seed", range(4))
def test_hostile_arguments_many(seed):
    found = in_own_process(5000, seed)
    assert not found, f"{len(found)} of 5,000, first: {found[:5]}"


def main() -> None:
    """Count failures by name and kind."""
    import resource

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--of", choices=["doors", "formulas"], default="doors")
    parser.add_argument("--json", default="", help="write every failure to this file; - is the standard output")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    start = time.perf_counter()
    if asked.of == "formulas":
        found = formula_failures(asked.count, asked.seed)
    else:
        found = failures(asked.count, asked.seed, asked.only)
    if asked.json == "-":
        print(json.dumps(found))
        return
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=0)
    kinds = collections.Counter((name, what.partition(":")[0]) for name, _, what in found)
    example = {(name, what.partition(":")[0]): (changed, what) for name, changed, what in reversed(found)}
    for (name, kind), number in sorted(kinds.items()):
        changed, what = example[name, kind]
        print(f"{number:6} {name:24} {kind:16} e.g. {changed} -> {what.partition(': ')[2][:110]!r}")
    total = collections.Counter(what.partition(":")[0] for _, _, what in found)
    print(f"{len(found)} of {asked.count} calls failed in {time.perf_counter() - start:.0f} s: {dict(total)}")


if __name__ == "__main__":
    main()
