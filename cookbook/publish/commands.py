"""Commands for public functions: arguments from signature, declared fields and docstring, answers as text or data."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cookbook.catalog.fields import NUMERIC, Field, declared
from cookbook.catalog.refusals import refusal_of
from cookbook.result import Result, plain, short
from cookbook.workloads.limits import parsed_json

WIDTH = 100


@dataclass(frozen=True)
class Command:
    """One command of a reader.

    Attributes
    ----------
    home : str
        Namespace below `cookbook` and name of the public function, such as ``planning.need``.
    words, example : str
        What it answers, and its arguments in an example.
    aliases : mapping of str to str
        Other spellings of options, by argument.
    columns : tuple of str
        Printed columns of a table that is no `Result`.
    """

    home: str
    words: str
    example: str
    aliases: Mapping[str, str]
    columns: tuple[str, ...] = ()

    @property
    def function(self) -> Callable[..., Any]:
        """The public function."""
        space, _, name = self.home.rpartition(".")
        function: Callable[..., Any] = getattr(import_module(f"cookbook.{space}".rstrip(".")), name)
        return function


COMPARED = ("name", "precision", "samples_per_s", "low", "high", "fits", "evidence", "why")
COMMANDS = {
    "what-runs": Command(
        "planning.what_runs",
        "language models that run on this machine or another, and how fast",
        "--on rtx-4090",
        {"accelerator": "--on"},
    ),
    "need": Command("planning.need", "what a language model needs: memory and devices", "llama3_8b", {}),
    "train": Command(
        "planning.plan_run",
        "days and cost of a training run, on the best parallelism configuration",
        "llama2_7b h100-sxm 64 1T",
        {},
    ),
    "serve": Command(
        "planning.serve",
        "latency, throughput and cost of a service",
        "llama3_8b h100-sxm --rate 2 --input-len 512 --output-len 128",
        {},
    ),
    "finetune": Command(
        "finetune", "memory, time and cost of fine-tuning on a few devices", "llama3_8b rtx-4090 --method qlora", {}
    ),
    "compare": Command(
        "planning.compare",
        "one workload on many devices: throughput, memory, cost",
        "--model resnet50 --accelerators t4,h100-sxm",
        {},
        COMPARED,
    ),
    "explain": Command(
        "measure.diagnose",
        "the bottleneck of a training step, from logs, traces and counters",
        "training.csv",
        {},
    ),
}


@dataclass(frozen=True)
class Argument:
    """One argument of a public function that text can give.

    Attributes
    ----------
    field : Field
        Its declaration.
    required : bool
        Whether the function has no default for it.
    words : str
        Its text in the docstring, what is allowed, and the default.
    """

    field: Field
    required: bool
    words: str

    @property
    def listed(self) -> bool:
        """True if text may give several, with commas between them; files are given one by one."""
        return (self.field.many or self.field.type == "array") and not self.several

    @property
    def several(self) -> bool:
        """True of files."""
        return self.field.many and self.field.type == "record"

    def read(self, text: Any) -> Any:
        """Return `text` as the value that the function takes, which refuses what it cannot be."""
        if not isinstance(text, str):
            return text
        if self.listed and "," in text:
            return [self._one(entry.strip()) for entry in text.split(",")]
        return [self._one(text)] if self.field.type == "array" else self._one(text)

    def _one(self, text: str) -> Any:
        if self.field.type in (*NUMERIC, "array"):
            return _number(text)
        if self.field.type == "choice":
            return next((choice for choice in self.field.spelt if str(choice) == text), text)
        if Mapping in self.field.records:
            if text.startswith("{"):
                return parsed_json(text, self.field.name)
            pairs = [entry.partition("=")[::2] for entry in text.split(",")]
            return {name.strip(): _number(value.strip()) for name, value in pairs}
        return text


def _number(text: str) -> Any:
    """Return text as a number where it is one, else as it is."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def arguments_of(function: Callable[..., Any]) -> Iterator[Argument]:
    """Yield the arguments of a public `function` that text can give, in the order of its signature."""
    parameters, fields = inspect.signature(function).parameters, declared(function)
    open_ended = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values())
    texts = described(inspect.getdoc(function) or "")
    for name in dict.fromkeys([*(name for name in parameters if name in fields), *fields]):
        field, parameter = fields[name], parameters.get(name)
        spoken = field.type != "record" or {str, Mapping} & set(field.records)
        if not spoken or field.type == "function" or not (parameter or open_ended):
            continue
        default = None if parameter is None else parameter.default
        required = default is inspect.Parameter.empty
        usual = "" if required or default is None or default in ("", ()) else f" Default: {default}."
        words = _resolved(field, texts.get(name, ""))
        yield Argument(field, required, f"{words.rstrip('.')}. Allowed: {field.allowed}.{usual}")


def _resolved(field: Field, words: str) -> str:
    """Return the words of an argument: of another function where they say "As for `cookbook...`", else of its row."""
    other = re.match(r"As for cookbook\.((?:\w+\.)*\w+)", words)
    if not other:
        return words or field.description or field.label
    function = Command(other[1], "", "", {}).function
    return _resolved(field, described(inspect.getdoc(function) or "").get(field.name, ""))


def described(docstring: str) -> dict[str, str]:
    r"""Return the texts of the Parameters of a `docstring` by argument.

    Examples
    --------
    >>> described("Sum.\n\nParameters\n----------\na, b : int\n    Terms,\n    both.\n\nReturns\n-------\nint")
    {'a': 'Terms, both.', 'b': 'Terms, both.'}
    """
    section = re.split(r"^\w[\w ]*\n-{3,}\n", docstring.partition("Parameters\n-----")[2].lstrip("-\n"), flags=re.M)[0]
    texts: dict[str, str] = {}
    heads: list[str] = []
    for line in section.splitlines():
        if line[:1].strip():
            heads = [name.strip("* ") for name in line.partition(" : ")[0].split(",")]
        else:
            texts |= {name: f"{texts.get(name, '')} {line.strip()}".strip().replace("`", "") for name in heads}
    return texts


def add_arguments(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add the arguments of a `command` to a `parser`: required ones by position, others as options."""
    for argument in arguments_of(command.function):
        name, words = argument.field.name, argument.words.replace("%", "%%")
        flags = [f"--{name.replace('_', '-')}", *filter(None, [command.aliases.get(name)])]
        if argument.required:
            parser.add_argument(name, metavar=name.upper(), help=words, nargs="+" if argument.several else None)
        elif argument.field.type == "flag":
            parser.add_argument(*flags, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=words)
        else:
            parser.add_argument(*flags, dest=name, metavar="VALUE", default=argparse.SUPPRESS, help=words)


def answer(command: Command, given: Mapping[str, Any]) -> Any:
    """Return the answer of a `command` to arguments that are `given` as texts."""
    function = command.function
    readers = {argument.field.name: argument.read for argument in arguments_of(function)}
    return function(**{name: readers[name](value) for name, value in given.items()})


def as_data(answer: Any) -> dict[str, Any]:
    """Return an `answer` as plain values: summary, call, sources and values of a result, or the rows of a table."""
    if not isinstance(answer, Result):
        return {"rows": plain(answer)}
    about = {"summary": answer.summary(), "call": answer.call(), "sources": list(answer.sources)}
    return {**about, **answer.to_dict()}


def refusal_data(problem: Exception, command: Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `problem`, why a `command` has no answer to the `given` arguments, as plain values."""
    why, fields = refusal_of(problem), declared(command.function)
    # A name that no table has is refused as one row of the table, also where the argument may list several.
    name = next((name for name in (why.field, f"{why.field}s") if name in fields), why.field)
    field = fields.get(name)
    return {
        "why": str(why),
        "code": why.code,
        "field": name,
        "value": plain(given.get(name)),
        "allowed": field.allowed if field else "",
        "nearest": plain(why.nearest),
        "remedy": str(why).partition("; ")[2] or (field.remedy if field else ""),
    }


def as_json(data: Mapping[str, Any]) -> str:
    """Return plain values, `data`, as one JSON object."""
    return json.dumps(data, allow_nan=False, indent=1)


def as_text(answer: Any, columns: Sequence[str] = ()) -> str:
    """Return an `answer` for a terminal, at most 100 columns wide: summary, tables, and what else a card says.

    Of a table that is no `Result` the `columns` are printed.
    """
    if not isinstance(answer, Result):
        return columned(answer[list(columns)].map(short))
    facts = [f"{name}: {fact}" for name, fact in answer.facts().items()]
    return "\n\n".join([filled(answer.summary()), *map(columned, answer.tables().values()), *map(filled, facts)])


def filled(text: str, indent: str = "") -> str:
    """Return a paragraph, `text`, in lines; those after the first begin with `indent`."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def columned(frame: Any) -> str:
    """Return a table of texts, `frame`, in columns, or where these are too wide each row as lines of one value each."""
    rows = [list(map(str, frame.columns)), *([str(cell) for cell in row] for row in frame.itertuples(index=False))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 2 * len(widths) <= WIDTH:
        cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
        return "\n".join("  ".join(row).rstrip() for row in cells)
    named = [zip(rows[0], row, strict=True) for row in rows[1:]]
    return "\n\n".join("\n".join(filled(f"{name}: {cell}", "  ") for name, cell in row if cell) for row in named)
