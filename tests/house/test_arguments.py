"""Every argument of a public function is declared, and refuses what its declaration rules out, in words that teach.

What is given is made of the declaration: another type, no number, a number below or above its range, an unknown name
with a known one near. Allowed are an error that names the argument and a remedy and keeps the field as data, and, for
what may stand for a number (0 with a sign, a list), an answer.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hostile import HOSTILE
from test_hostile import base

import cookbook as cb
from cookbook import catalog
from cookbook.catalog import Refused, UnknownName
from cookbook.catalog.fields import NUMERIC, TABLES, Field, checked, declared, fields
from cookbook.hardware import Machine
from cookbook.topics.clinic.files import read_trace

# Arguments that no field declares, by function or by function and argument, and why.
FORMULA = "a formula, which knows NumPy alone: formulas/_arguments.py"
LOWEST = "stands below the tables: any value is shown, or said to be no quantity"
LESSON = "opens at once, without tables and so without pandas: lesson.py, asked in tests/test_lesson.py"
UNDECLARED = {
    "drf_tasks": FORMULA,
    "erlang_wait_seconds": FORMULA,
    "jain_index": FORMULA,
    "max_min_rates": FORMULA,
    **dict.fromkeys(("check", "hint", "predict_first", "progress", "show_source"), LESSON),
    "human": LOWEST,
    "accelerator.changes": "peaks, by the columns of the table accelerators; other figures are declared",
    "explore.axes": "columns of a scenario, checked as its rows declare them: prediction/scenario.py",
    "model.source": "a name, a file, its content, a module: whoever reads it says what it is",
    "model.changes": "arguments of the network's builder, checked by their types: workloads/arguments.py",
    "sweep.axes": "columns of a scenario, checked as its rows declare them: prediction/scenario.py",
    "si": LOWEST,
    "progress_bar": LOWEST,
}
# Arguments of any type, and why.
ARRAYS = "a number or an array, read as an array, with which the body computes"
ANY_TYPE = {
    "check": "an answer of a reader, whatever it is",
    "model": "a name, a file, its content, a module: whoever reads it says what it is",
    "si": LOWEST,
    "explore": "a pool of another library",
    "sweep": "a pool of another library",
    **dict.fromkeys(("annuity_usd", "break_even_hours", "break_even_use", "ownership_usd", "power_watts"), ARRAYS),
    **dict.fromkeys(("digital_roofs", "least_squares_growth", "requirements", "run_cost", "step_kwh"), ARRAYS),
}
# Good arguments of what no other test calls with each of its arguments; of what measures, nothing is ever run.
MORE: dict[str, dict[str, Callable[[], Any]]] = {
    "beside": {"report": lambda: REPORT, "accelerator": lambda: "h100-sxm"},
    "calibrate": {"report": lambda: REPORT},
    "diagnose": {
        "path": lambda: recording("anna"),
        "model": lambda: "llama2_7b",
        "accelerator": lambda: "h100-sxm",
    },
    "measured_device": {"report": lambda: REPORT},
}
TIMES = ("low_s", "q1_s", "median_s", "q3_s", "high_s")
ROW = {"case": "one", "path": "numpy", "device": "cpu", "work": 1e9, "samples": 9, "calls": 1, "number_format": "fp32"}
ROWS = [
    {**ROW, "benchmark": name, "unit": unit, "value": 1e9, **dict.fromkeys(TIMES, 1.0)}
    for name, unit in (("matmul", "FLOP/s"), ("memory", "B/s"))
]
REPORT = cb.measure.Report("complete", "2026-01-01 00:00", {}, {"processor": "x", "memory_bytes": 1e10}, ROWS, [])
REMEDY = re.compile(r"\b(?:give|take|leave|nearest|one of|write|choose|list all)\b", re.I)
LONGEST_MESSAGE, LONGEST_WITH_NAMES = 300, 400
ENDLESS = "x" * 100_000
# What no argument takes, whatever its type, but for arrays of any shape and records that are such a thing.
recording = lru_cache(lambda name: read_trace(cb.measure.patient(name)[0]))
STRANGE = {
    "bytes": b"5",
    "a complex number": 1j,
    "a set": {1, "a"},
    "a class": int,
    "lists of several lengths": [[1], [2, 3]],
    "a matrix": np.ones((2, 2)),
    "no numbers": np.array([]),
}
TRACES = ("serve.input_len", "serve.output_len")  # one mean, or the lengths of many requests
MISSPELT = "a choice misspelt"


# Values that arguments must refuse whatever their declarations say: what a device, a network or a run cannot be.
OUTSIDE = {
    "diagnose.stretches": (0, 21, 2.5, True, "5"),
    "crossbar_tile.rows": (0, 4097),
    "crossbar_tile.adc_bits": (1, 17, 60),
    "crossbar_tile.cell_bits": (0, 1.5),
    "crossbar_accuracy.programming": (-0.1, 1.1, math.nan),
    "crossbar_accuracy.draws": (0, 101),
    "crossbar_accuracy.days": (-1, 36526),
    "train_digits.hidden": (0, 257),
    "cluster.load": (0, 5),
    "cluster.mtbf_days": (0,),
    "cluster.seed": (-1,),
    "pick_stack.years": (0, 51),
    "pick_stack.hours": (0, 25),
    "pick_stack.budget": (0, -1, math.nan),
    "ownership_usd.pue": (0.9,),
    "ownership_usd.horizon_years": (0,),
    "ownership_usd.life_years": (0,),
    "ownership_usd.money_rate": (-0.1, 1.1),
    "ownership_usd.watts": (-1,),
    "where_to_run.years": (0, 51),
    "where_to_run.batch": (0, 1.5),
    "run.seconds": (0, 86401, math.nan),
    "run.rounds": (0, 21),
    "explore.size": (10, 999),
    "explore.keep": (0, True),
    "plan_run.devices": (0, 2**20 + 1, None, "64", []),
    "plan_run.tokens": (0, math.inf),
    "plan_run.hourly": (-1,),
    "search.global_batch": (0, 2**30 + 1),
    "search.zero": (4, True),
    "finetune.rank": (0, 65537),
    "finetune.zero": (1,),
    "finetune.group": (0, 1, 1.5),
    "finetune.output_len": (0, 2.5),
    "finetune.generators": (-1, 0.5),
    "scaling.devices": (0, 2.5),
    "requirements.samples": (0.5, None),
    "requirements.recompute": (1.5, None),
    "requirements.epochs": (0, None, True),
    "serve.ep": (0, 1.5),
    "simulate.engines": (0,),
    "size_host.workers": (0, -2),
    "size_host.cores": (0, math.nan),
    "cores_needed.work": (-1,),
    "compare.batch": (0, [1, 2]),
}


# Numbers that may be below 0, and those that may be infinite.
NEGATIVE = {"accuracy_curve.values", "least_squares_growth.years", "least_squares_growth.values"}
BOUNDLESS = {"cluster.mtbf_days", "cluster_weeks.mtbf_days", "generate.request_rate", "lengths.most"}
# Records for which names or numbers stand: what of these they refuse.
NO_NAMES = ("", ENDLESS, "h100-smxq")
NO_DATA = ("", ENDLESS, "imagenet-1kq", "abc", -1, math.nan, math.inf, 10**400, True)
RECORDS = {
    **dict.fromkeys(("bought_usd.name", "hourly_usd.name", "device_usd.accelerator"), NO_NAMES),
    **{f"{name}.data": NO_DATA for name in ("cores_needed", "nodes_needed", "rented", "size_host", "size_platform")},
}


def functions() -> dict[str, Callable[..., Any]]:
    """Public functions of the three namespaces by name."""
    rooms = (cb, cb.planning, cb.measure)
    found = {name: getattr(room, name) for room in rooms for name in room.__all__}
    return {name: each for name, each in sorted(found.items()) if inspect.isfunction(each)}


def excused(name: str, argument: str) -> bool:
    return bool({name, f"{name}.{argument}"} & set(UNDECLARED))


def undeclared(name: str, function: Callable[..., Any]) -> list[str]:
    """Arguments of a function that are declared nowhere; any number of them by name count as one."""
    known, left = declared(function), []
    taken = inspect.signature(function).parameters
    for argument, each in taken.items():
        more = each.kind is each.VAR_KEYWORD and set(known) - set(taken)
        if argument not in known and not more and not excused(name, argument):
            left.append(argument)
    return left


def wrong(field: Field, name: str) -> Iterator[tuple[str, Any]]:
    """What a field of a function rules out, with words for it."""
    kind = "text" if field.type == "software" else "name" if field.type in TABLES else field.type
    yield "an object", object()
    for what, value in STRANGE.items():
        array = isinstance(value, np.ndarray) and (kind == "array" or f"{name}.{field.name}" in TRACES)
        if not (array or isinstance(value, field.records) or (kind == "function" and callable(value))):
            yield what, value
    if field.many and not field.later:
        yield "more entries than can be searched", range(10**6)
        if not field.gaps:
            yield "a list of nothing", [None]
    if not field.optional:
        yield "None", None
    if not isinstance({}, field.records):
        yield "a mapping", {}
    if not isinstance([], field.records):
        if not (field.blank and field.many) and kind != "array":
            yield "an empty list", []
        if kind in NUMERIC and not field.later:
            yield "a list with a bad entry", [max(field.low, 1), "abc"]
        elif not field.later:
            yield "a list with a bad entry", ["abc", object()]
    if kind in (*NUMERIC, "array"):
        yield from ((each, each) for each in ("abc", "3\nGB more", "-1 furlong"))
        yield from (("an infinity", each) for each in (math.inf, -math.inf) if field.high < math.inf)
        yield from (("beyond all floats", each) for each in (10**400, 10**5000, "1e99999999 B"))
        yield "nested too deep", HOSTILE["deep"]()
        if not field.blank:
            yield "an empty text", ""
        if kind != "share":
            yield "a flag", True
        if not field.missing:
            yield "no number", math.nan
        if field.low > -1e300:
            yield "below", field.low - 1
        if field.above or field.low > 0:
            yield "zero", -0.0
        if field.high < 1e308:
            yield "above", min(field.high * 2 + 1, 1e308)
        if kind == "count":
            yield "not whole", max(field.low, 1) + 0.5
    elif kind == "flag":
        yield from (("no flag", each) for each in ("perhaps", math.nan, 2))
    elif kind in ("choice", "text", "name"):
        yield from (("no text", each) for each in (math.nan, 10**400) if float not in field.records)
        if kind != "text" or field.type == "software":
            yield "digits alone", HOSTILE["long digits"]()
        if kind in ("choice", "name"):
            yield "a text without end", ENDLESS
            if not (field.blank or field.gaps or field.later or "" in field.spelt):
                yield "an empty text", ""
            if not any(each is True for each in field.spelt):
                yield "a flag", True
        if kind == "choice":
            word = next((each for each in field.spelt if isinstance(each, str) and len(each) > 3), "")
            yield (MISSPELT, f"{word}x") if word else ("no choice", "abcdx")
            yield "two lines", f"{word or 'abcd'}\n{word or 'abcd'}"
        elif kind == "name" and (table := field.table or TABLES.get(field.type)):
            yield "misspelt", f"{catalog.table(table).iloc[0, 0]}xq"
        elif kind == "text" and field.high < math.inf:
            yield "too long", "x" * (int(field.high) + 1)
    elif kind == "record":
        yield from (("another record", each) for each in (5, math.nan, True) if not isinstance(each, field.records))
        if str not in field.records:
            yield "text", "abc"
    elif kind == "function":
        yield "no function", 5


def misread(name: str, argument: str, what: str, value: Any) -> str:
    """What is wrong with the answer to a value that a declaration rules out; empty where nothing is."""
    function = functions()[name]
    given = base(name, function) | {key: make() for key, make in MORE.get(name, {}).items()} | {argument: value}
    rest = given.pop("*", ())
    said = f"{name}({argument} = {what})"
    try:
        function(*rest, **given)
    except UnknownName as problem:
        own = not isinstance(value, str) or value in str(problem) or len(value) > LONGEST_WITH_NAMES
        short = len(str(problem)) <= LONGEST_WITH_NAMES
        near = problem.nearest or "list all" in str(problem)
        return "" if own and short and near else f"{said}: no name near: {problem}"
    except Refused as problem:
        message, refusal = str(problem), problem.refusal
        if len(message) > LONGEST_MESSAGE:
            return f"{said}: {len(message)} letters"
        if argument not in message or not REMEDY.search(message):
            return f"{said}: names no argument or no remedy: {message}"
        if what == MISSPELT and not refusal.nearest:
            return f"{said}: no choice near: {message}"
        return "" if refusal.field == argument else f"{said}: is the field {refusal.field!r}: {message}"
    except Exception as problem:
        return f"{said}: {type(problem).__name__}: {str(problem)[:200]}"
    return f"{said}: answered"


ASKED = [
    (name, argument)
    for name, function in functions().items()
    for argument in declared(function)
    if not excused(name, argument)
]


@pytest.mark.parametrize("name", functions())
def test_every_argument_is_declared(name):
    assert not undeclared(name, functions()[name])


@pytest.mark.parametrize(
    "name", functions() | {f"panels.{name}": getattr(cb.panels, name) for name in cb.panels.RECIPES}
)
def test_types_of_arguments_are_stated(name):
    function = functions().get(name) or getattr(cb.panels, name.removeprefix("panels."))
    each = inspect.signature(function).parameters.values()
    kinds = {parameter.annotation for parameter in each if parameter.kind is not parameter.VAR_KEYWORD}
    assert ("Any" in kinds or "Any | None" in kinds) == (name in ANY_TYPE)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted({name for name, _ in ASKED}))
def test_what_a_declaration_rules_out_is_refused(name):
    function = functions()[name]
    failed = [
        problem
        for argument, field in declared(function).items()
        if not excused(name, argument)
        for what, value in wrong(field, name)
        if (problem := misread(name, argument, what, value))
    ]
    assert not failed, "\n".join(failed)


MACHINES = [(name, argument) for name, argument in ASKED if Machine in declared(functions()[name])[argument].records]


@pytest.mark.parametrize("key", ["dgx-h100", "h100-sxm", "p5.48xlarge"])
@pytest.mark.parametrize(("name", "argument"), MACHINES)
def test_a_record_of_a_machine_stands_for_its_name(name, argument, key):
    function = functions()[name]
    given = base(name, function) | {other: make() for other, make in MORE.get(name, {}).items()}
    by_name, by_record = (function(**given | {argument: each}) for each in (key, cb.machine(key)))
    assert repr(by_record) == repr(by_name)


@pytest.mark.parametrize("place", RECORDS)
def test_what_stands_for_no_record_is_refused(place):
    failed = [problem for value in RECORDS[place] if (problem := misread(*place.split("."), repr(value)[:20], value))]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(
    "place", [f"{name}.batch" for name in ("requirements", "roofline_table", "generate", "forward_pass")]
)
def test_a_range_without_end_is_refused_before_it_is_listed(place):
    name, _, argument = place.partition(".")
    with pytest.raises(ValueError, match="at most 10,000,000"):
        functions()[name](**base(name, functions()[name]) | {argument: range(10**12)})


@pytest.mark.parametrize("name", ["finetune", "generate", "plan_run", "search", "serve", "train_step"])
def test_a_blank_number_format_is_the_usual_one(name):
    function, given = functions()[name], base(name, functions()[name])
    assert repr(function(**given | {"precision": ""})) == repr(function(**given))


@pytest.mark.parametrize("place", OUTSIDE)
def test_ranges_are_those_that_were_written_down(place):
    name, _, argument = place.partition(".")
    for value in OUTSIDE[place]:
        with pytest.raises(Refused):
            declared(functions()[name])[argument].read(value)


def numbers(*names: str) -> dict[str, Field]:
    """Arguments that are numbers, of some functions or of all, by function and argument."""
    found = {f"{name}.{argument}": name for name, argument in ASKED if name in (names or functions())}
    read = {place: declared(functions()[name])[place.partition(".")[2]] for place, name in found.items()}
    return {place: each for place, each in read.items() if each.type in (*NUMERIC, "array")}


def test_numbers_are_neither_negative_nor_boundless():
    assert {place for place, each in numbers().items() if each.low < 0} == NEGATIVE
    assert {place for place, each in numbers().items() if each.high >= 1e308} == BOUNDLESS


def test_what_a_place_is_asked_for_is_more_than_nothing():
    found = {place for place, each in numbers("run_cost", "where_to_run").items() if each.low <= 0 and not each.above}
    assert found == {"run_cost.price"}


def test_exceptions_are_no_more_than_needed():
    known = functions()
    for place in UNDECLARED:
        name, _, argument = place.partition(".")
        assert name in known and (not argument or argument in inspect.signature(known[name]).parameters), place
        assert not declared(known[name]) if not argument else argument not in declared(known[name]), place


def test_signature_and_docstring_stay():
    @checked(devices=Field.count())
    def asked(devices: int, *, seed: int = 0) -> int:
        """Return them."""
        return devices

    assert str(inspect.signature(asked)) == "(devices: 'int', *, seed: 'int' = 0) -> 'int'"
    assert asked.__doc__ == "Return them." and asked.__name__ == "asked"
    with pytest.raises(TypeError, match="has no argument"):
        checked(device=Field.count())(lambda devices: devices)


def test_a_row_of_the_schema_is_taken_by_name():
    @checked(tp=Field.row("tp", "inference"), precision=Field.row("precision", later=True))
    def asked(tp: int | None = None, precision: str = "") -> Any:
        return tp

    assert declared(asked)["tp"].high == fields("inference")["tp"].high
    assert asked(tp=8) == 8 and asked(tp=None) is None
    with pytest.raises(Refused, match=r"^tp = 0 is outside its range; give 1 to 1e\+06$") as problem:
        asked(tp=0)
    assert problem.value.refusal.field == "tp"


def test_numbers_and_texts_of_numpy_are_read_like_those_of_python():
    plain = cb.train_step("resnet50", "a100-sxm-80gb", precision="fp16", batch=64)
    other = cb.train_step(np.str_("resnet50"), np.str_("a100-sxm-80gb"), precision=np.str_("fp16"), batch=np.int64(64))
    assert other.point == plain.point and other.assumed == plain.assumed


@pytest.mark.parametrize("values", [[2, 4], (2, 4), range(2, 5, 2), np.array([2, 4])])
def test_every_sequence_of_numbers_is_a_list(values):
    assert cb.requirements("resnet50", batch=values).frame()["batch"].drop_duplicates().tolist() == [2, 4]
    assert cb.scaling("resnet50", "dgx-1-v100", devices=values)["devices"].tolist() == [2, 4]


def test_a_set_of_counts_is_answered_for_each_of_them():
    assert sorted(cb.scaling("resnet50", "dgx-1-v100", devices={4, 2})["devices"]) == [2, 4]
