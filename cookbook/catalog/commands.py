"""Command lines that start what was planned; every flag is a row of the table ``engine_flags``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cookbook.result import Result
from cookbook.units import shown

from .fields import Field
from .reading import folder_of
from .refusals import Refusal, Refused, refused
from .tables import records, table

# Stands for a model that the zoo has no published name of; the code of what an engine cannot run; what a name is.
PLACEHOLDER, CANNOT, ABOUT = "MODEL", "engine-cannot", "{} stands for a checkpoint of {}: put yours in its place."


@dataclass(frozen=True, repr=False)
class Launch(Result):
    """The command that starts a stack, the one that measures it, and what neither says; printed as text for a shell.

    Attributes
    ----------
    engine, version : str
        Software that is started, and the version whose flags were read.
    command : str
        Starts the stack.
    verify : str
        Measures what was predicted.
    notes : tuple of str
        Quantities that no flag sets, and what must be put in the place of names.
    source : tuple of str
        Keys in sources of the flags.
    """

    engine: str
    version: str
    command: str
    verify: str
    notes: tuple[str, ...]
    source: tuple[str, ...]

    _class_in_repr = False

    def summary(self) -> str:
        """Return the command."""
        return self.command

    def __str__(self) -> str:
        return "\n".join(
            [self.command, *(f"# {' '.join(note.split())}" for note in self.notes), f"# verify:\n{self.verify}"]
        )

    def tables(self) -> dict[str, Any]:
        """Return no table: the commands are `facts`."""
        return {}

    def facts(self) -> dict[str, str]:
        """Return both commands and the notes, by label."""
        return {"start": self.command, "verify": self.verify, "notes": " ".join(self.notes)}

    def _headline(self) -> str:
        return f"{self.engine} ({self.version})"


def engines_for(command: str) -> list[str]:
    """Return the engines that have rows for a command, in the order of the table ``engine_flags``.

    >>> engines_for("finetune")
    ['torchtune']
    """
    return list(dict.fromkeys(row["engine"] for row in _rows(command=command)))


def engine_of(command: str, level: str) -> str:
    """Return the engine whose rows name a level of software as one that it starts; "" where none does.

    >>> engine_of("train", "torch-fsdp"), engine_of("train", "xla-gpu")
    ('torchtitan', '')
    """
    rows = _rows(command=command, quantity="software")
    return next((row["engine"] for row in rows if level in _values(row)), "")


def unable(command: str, engine: str, quantity: str, value: Any) -> Refusal | None:
    """Return why an engine cannot run a value of a quantity, as `launch` refuses it; None where it can.

    >>> unable("train", "torchtitan", "zero", 3), unable("train", "torchtitan", "zero", 1).nearest
    (None, ('0', '2', '3'))
    """
    rows = _rows(command=command, engine=engine, quantity=quantity)
    try:
        if rows:
            _matching(engine, quantity, value, rows)
    except Refused as problem:
        return problem.refusal
    return None


def able_values(command: str, engine: str, quantity: str, wanted: Any, usual: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the values of a quantity to try: those wanted, all of which the engine must run, else the usual it can.

    >>> able_values("finetune", "torchtune", "zero", None, (0, 2, 3)), able_values("train", "", "zero", (0, 1))
    ((2, 3), (0, 1))
    """
    whys = {value: unable(command, engine, quantity, value) for value in wanted or usual if engine and value != ""}
    if wanted and any(whys.values()):
        raise Refused(next(filter(None, whys.values())))
    return tuple(value for value in wanted or usual if not whys.get(value))


def model_id(name: str, title: str) -> str:
    """Return the first name of a network of the zoo on the Hugging Face Hub; "" where it has none or was changed.

    >>> model_id("llama2_7b", "Llama 2 7B"), model_id("llama2_7b", "Llama 2 7B (depth = 40)")
    ('meta-llama/Llama-2-7b-hf', '')
    """
    aliases = table("models").set_index(["name", "title"])["aliases"].to_dict().get((name, title), "")
    return next((alias for alias in aliases.split(";") if alias.count("/") == 1 and " " not in alias), "")


def one_of(field: str, value: Any, able: Sequence[int], what: str) -> int:
    """Return a number of those that can be started, the first by default.

    >>> one_of("row", None, [2, 3], "has no stack"), one_of("row", 3, [2, 3], "has no stack")
    (2, 3)
    """
    chosen = Field.count(0).read(next(iter(able), 0) if value is None else value, field)
    if chosen not in able:
        remedy = f"give one of {shown(list(able))}" if able else "ask again with more devices"
        raise refused(field, chosen, f"{what}; {remedy}", CANNOT, nearest=able)
    return int(chosen)


def launch(command: str, engine: str, settings: Mapping[str, Any], check: Mapping[str, Any]) -> Launch:
    """Return the command line of an engine for chosen quantities.

    Parameters
    ----------
    command : str
        "serve", "train" or "finetune".
    engine : str
        An engine of the table ``engine_flags``.
    settings : mapping
        Chosen quantities by name, as the table names them, None where nothing was chosen; and `network`, its name and
        title (a changed network has another title than its row of the zoo).
    check : mapping
        Quantities of the command that measures.

    Raises
    ------
    ValueError
        An engine that is not in the table, or that cannot run one of the quantities: the reason and the remedy.

    Examples
    --------
    >>> print(launch("finetune", "torchtune", {"network": ("llama2_7b", "Llama 2 7B"), "rank": 8}, {}).command)
    model.lora_rank=8
    """
    chosen = Field.choice(*engines_for(command)).read(engine, "engine")
    title, model = settings["network"][1], model_id(*settings["network"]) or PLACEHOLDER
    given, checked = (
        {name: value for name, value in quantities.items() if value is not None and name != "network"}
        for quantities in (settings, check)
    )
    flags = _rows(engine=chosen)
    words, notes, rows = _written(flags, command, {"program": "", "model": model, **given}, given)
    measured, others, more = _written(flags, "verify", {"program": "", "model": model, **given, **checked}, checked)
    named = any(model in word for word in chain(*words.values()))
    return Launch(
        chosen,
        flags[0]["version"],
        " ".join(chain(*words.values())),
        " ".join(chain(*(measured if "program" in measured else {**words, **measured}).values())),
        tuple(dict.fromkeys([*[ABOUT.format(model, title)][: int(named)], *notes, *others])),
        tuple(dict.fromkeys(key for row in (*rows, *more) for key in row["source"].split(";"))),
    )


def _rows(**cells: str) -> list[dict[str, Any]]:
    """Return the rows of the table with these cells."""
    return [row for row in records("engine_flags", folder_of(None)) if cells.items() <= row.items()]


def _written(
    flags: Sequence[dict[str, Any]], command: str, settings: Mapping[str, Any], required: Mapping[str, Any]
) -> tuple[dict[str, list[str]], list[str], list[dict[str, Any]]]:
    """Return words of a command by quantity in the order of the table, notes, and rows of the flags.

    `flags` are all rows of an engine, `required` the quantities that are said in any case, in a note where the table
    has no row of them.
    """
    engine, by_name = flags[0]["engine"], dict[str, list[dict[str, Any]]]()
    for row in flags:
        if row["command"] == command:
            by_name.setdefault(row["quantity"], []).append(row)
    matching = {
        name: _matching(engine, name, settings[name], rows) for name, rows in by_name.items() if name in settings
    }
    words = {
        name: [
            row["form"].format(flag=row["flag"], value=theirs, model=settings["model"])
            for row, theirs in pairs
            if row["kind"] == "flag"
        ]
        for name, pairs in matching.items()
    }
    said = [(row, _word(settings[name])) for name, pairs in matching.items() for row, _ in pairs]
    missing = [
        f"No flag of {engine} sets {name} = {_word(value)}." for name, value in required.items() if name not in matching
    ]
    notes = [row["note"].format(value=word) for row, word in said if row["note"]]
    return words, [*notes, *missing], [row for row, _ in said if row["kind"] == "flag"]


def _matching(engine: str, quantity: str, value: Any, rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Return the rows of a value with the engine's word for it: those that name it, else those of any value."""
    word, meanings = _word(value), [(row, _values(row)) for row in rows]
    matching = [(row, own[word]) for row, own in meanings if word in own] or [
        (row, own.get("*") or word) for row, own in meanings if not own or "*" in own
    ]
    if not matching or matching[0][0]["kind"] == "refused":
        allowed = [ours for row, own in meanings if row["kind"] != "refused" for ours in own]
        reason = matching[0][0]["note"] if matching else f"it has no flag for it; give one of {', '.join(allowed)}"
        raise refused(quantity, value, f": {engine} cannot run it: {reason}", CANNOT, nearest=allowed)
    return matching


def _values(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the engine's words for the values of a row, by ours; "" for any value as it is."""
    pairs = [pair.partition("=") for pair in row["values"].split("|") if pair]
    return {ours: theirs or ("" if ours == "*" else ours) for ours, _, theirs in pairs}


def _word(value: Any) -> str:
    """Return a value as a command line has it.

    >>> _word(True), _word(8.0), _word(2.34567), _word("fp8")
    ('yes', '8', '2.346', 'fp8')
    """
    if isinstance(value, (bool, str)):
        return value if isinstance(value, str) else "yes" if value else "no"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"
