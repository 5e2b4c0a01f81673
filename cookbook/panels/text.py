"""Names and numbers as every panel prints them; and what it shows, written as Python that a reader can paste."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cookbook.prediction.verdicts import ratio
from cookbook.units import human
from cookbook.workloads import zoo

if TYPE_CHECKING:
    import pandas as pd

Source = tuple[str, str, str]
UNNAMED = "my_model"


def json_of(text: str, what: str) -> Any:
    """What a reader's JSON says.

    Raises
    ------
    ValueError
        In plain words, where it says nothing.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise ValueError(f"{what} is not valid JSON: {problem}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{what} is too deep, or a number in it is too long") from None


def counted(count: int, one: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "publisher"), counted(1200, "run")
    ('1 publisher', '1,200 runs')
    """
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a row, the rest counted.

    Examples
    --------
    >>> listed(["A", "B"]), listed(["A", "B", "C", "D", "E", "F"])
    ('A and B', 'A, B, C, D and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def capital(text: str) -> str:
    """A text with its first letter large."""
    return f"{text[:1].upper()}{text[1:]}"


def figure(value: float) -> str:
    """A number with three digits, or all of its whole part.

    Examples
    --------
    >>> figure(12345.6), figure(1.2345), figure(6.19e14)
    ('12,346', '1.23', '619 T')
    """
    if abs(value) >= 1e7:
        return human(value, "").strip()
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(fraction: float) -> str:
    """A share in percent, two digits at least, never an exponent.

    Examples
    --------
    >>> percent(0.0345), percent(2.114), percent(41.3), percent(3.2e-7)
    ('3.5 %', '211 %', '4,130 %', '0.000032 %')
    """
    value = 100 * fraction
    return f"{ratio(value)} %" if value < 9.95 else f"{value:,.0f} %"


def money(usd: float) -> str:
    """US dollars without their sign.

    Examples
    --------
    >>> money(31.12), money(1234.5), money(float("nan"))
    ('31.12', '1,234', 'not known')
    """
    return "not known" if usd != usd else f"{usd:,.0f}" if usd >= 100 else f"{usd:.2f}"


def short_money(usd: float) -> str:
    """US dollars to two or three digits, without their sign.

    Examples
    --------
    >>> short_money(2033840), short_money(644358), short_money(9830)
    ('2.03 M', '644 k', '9,830')
    """
    if usd >= 1e4:
        size, name = (1e9, "bn") if usd >= 0.9995e9 else (1e6, "M") if usd >= 0.9995e6 else (1e3, "k")
        return f"{figure(usd / size)} {name}"
    return f"{usd:,.0f}"


def duration(seconds: float) -> str:
    """A duration in the largest unit that keeps it a short number.

    Examples
    --------
    >>> duration(3600), duration(5400), duration(90 * 86400)
    ('1 h', '1.5 h', '90 d')
    """
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.4g} s"


def pieces(text: str) -> list[str]:
    """What stands between the commas of a text; a comma in brackets is part of a name.

    Examples
    --------
    >>> pieces("Tesla K80 (board, 2x GK210), t4")
    ['Tesla K80 (board, 2x GK210)', 't4']
    """
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            found.append("")
        else:
            found[-1] += letter
    return [piece.strip() for piece in found if piece.strip()]


def short_name(name: str) -> str:
    """A name without what stands in brackets, unless that tells how much hardware it is.

    Examples
    --------
    >>> short_name("Tesla K80 (board, 2x GK210)"), short_name("TPU v2-8 (Cloud TPU device, 4 chips)")
    ('Tesla K80 (board, 2x GK210)', 'TPU v2-8 (4 chips)')
    >>> short_name("GH200 (Hopper GPU, 96GB)")
    'GH200'
    """
    front, _, rest = name.partition(" (")
    told = [piece for piece in rest.rstrip(")").split(", ") if _devices(piece) or {"board", "one"} & {*piece.split()}]
    return f"{front} ({', '.join(told)})" if told else front


def memories(name: str) -> int:
    """How many separate memories the hardware of one row has, as its name says.

    Examples
    --------
    >>> memories("Tesla K80 (board, 2x GK210)"), memories("H100 SXM5 80GB")
    (2, 1)
    """
    return next(filter(None, map(_devices, name.partition(" (")[2].rstrip(")").split(", "))), 1)


def _devices(piece: str) -> int:
    """How many devices "2x GK210" and "4 chips" count; 0 where a text counts none."""
    first, _, rest = piece.partition(" ")
    number = first.removesuffix("x")
    return int(number) if number.isdecimal() and (number != first or rest == "chips") else 0


def sources_by_count(rows: pd.DataFrame, what: str) -> tuple[Source, ...]:
    """(title, link, rows) of each source of measured rows, those with most rows first."""
    counts = rows[["source", "url", "publisher"]].value_counts().reset_index(name="count")
    return tuple(
        (row.source, row.url, f"{row.publisher}: {counted(row.count, what)}") for row in counts.itertuples(index=False)
    )


def as_python(value: Any) -> str:
    """A value as Python text: JSON's true, false and null are not Python.

    Examples
    --------
    >>> as_python({"bias": False, "sizes": [1, 2.5, None]})
    '{"bias": False, "sizes": [1, 2.5, None]}'
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{as_python(key)}: {as_python(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_python, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return workload_text(value) if isinstance(value, zoo.Workload) else repr(value)


def as_arguments(values: Mapping[str, Any]) -> str:
    """Keyword arguments as Python text.

    Examples
    --------
    >>> as_arguments({"batch": 32, "seq": None})
    'batch=32, seq=None'
    """
    return ", ".join(f"{name}={as_python(value)}" for name, value in values.items())


def panel_call(name: str, values: Mapping[str, Any], defaults: Mapping[str, Any], **written: str) -> str:
    """The call that makes a panel in this state, from what differs from its defaults; some of it as `written`.

    Examples
    --------
    >>> panel_call("host", {"model": "vgg16", "batch": 32}, {"model": "alexnet", "batch": 32})
    'cb.panels.host(model="vgg16")'
    """
    changed = [each for each, value in values.items() if value != defaults[each]]
    given = ", ".join(f"{each}={written.get(each) or as_python(values[each])}" for each in changed)
    return f"cb.panels.{name}({given})"


def model_text(value: Any) -> str:
    """Argument `model` of `cb.requirements`: a name, a record, or the layers of the reader's own network."""
    if not isinstance(value, Mapping):
        return as_python(value)
    more = "".join(f", {name}={as_python(value[name])}" for name in ("input", "title") if name in value)
    return f"cb.layers({as_python(value['layers'])}{more})"


def devices_text(values: Any) -> str:
    """Argument `accelerators` of `cb.requirements`."""
    return f"[{', '.join(device_text(value) for value in values)}]"


def device_text(value: Any) -> str:
    """Argument `system` or `accelerator`: a name, or an accelerator like another."""
    return f"cb.accelerator({as_arguments(value)})" if isinstance(value, Mapping) else as_python(value)


def workload_text(workload: zoo.Workload) -> str:
    """Python that gives this network again: of the zoo, of the zoo with changes, or the reader's own variable."""
    return _in_zoo(workload) or _in_session(workload) or UNNAMED


def preamble(values: Mapping[str, Any]) -> str:
    """A first line where the code needs a variable that only the reader has; else nothing."""
    chosen = [values["model"], *values["compare"]]
    lost = [v.title for v in chosen if isinstance(v, zoo.Workload) and workload_text(v) == UNNAMED]
    return f"# {UNNAMED} is the network that you gave this panel: {lost[0]}\n" if lost else ""


@lru_cache(maxsize=16)
def _in_zoo(workload: zoo.Workload) -> str:
    """`"resnet50"` or `cb.model("resnet50", image=448)`, where that builds this very network."""
    try:
        plain = zoo.model(workload.name)
    except KeyError:
        return ""
    if plain is workload:
        return as_python(workload.name)
    changes = {name: value for name, value in workload.arguments.items() if plain.arguments.get(name) != value}
    try:
        same = workload.title.startswith(f"{plain.title} (") and _same(zoo.model(workload.name, **changes), workload)
    except (ValueError, TypeError):
        return ""
    return f"cb.model({as_python(workload.name)}, {as_arguments(changes)})" if same else ""


def _same(one: zoo.Workload, other: zoo.Workload) -> bool:
    work = [(w.ops.parameter_count, float(w.ops.total("macs", 1, w.seq or 1))) for w in (one, other)]
    return one.arguments == other.arguments and work[0] == work[1]


def _in_session(workload: zoo.Workload) -> str:
    """The variable of the reader's notebook that holds this network."""
    names = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    return next((n for n, v in list(names.items()) if v is workload and not n.startswith("_")), "")
