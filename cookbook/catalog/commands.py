"""Command lines that start what was planned; every flag is a row of the table ``engine_flags``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cookbook.result import Result, card

from .fields import Field
from .refusals import refused
from .tables import table

__all__ = ["Launch", "engines_for", "launch", "model_id"]
# Stands for a model that the zoo has no published name of.
PLACEHOLDER = "MODEL"
CANNOT = "engine-cannot"


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

    @property
    def text(self) -> str:
        """The command, the notes as comments, and the command that measures."""
        return "\n".join([self.command, *(f"# {note}" for note in self.notes), f"# verify:\n{self.verify}"])

    def summary(self) -> str:
        """Return the command."""
        return self.command

    def __repr__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = {"start": self.command, "verify": self.verify}
        return card(f"{self.engine} ({self.version})", rows, self.notes)


def engines_for(command: str) -> list[str]:
    """Return the engines that have rows for a command, in the order of the table ``engine_flags``.

    >>> engines_for("finetune")
    ['torchtune']
    """
    rows = table("engine_flags")
    return list(dict.fromkeys(rows.loc[rows["command"] == command, "engine"]))


def model_id(name: str, title: str) -> str:
    """Return the first name of a network of the zoo on the Hugging Face Hub; "" where it has none or was changed.

    >>> model_id("llama2_7b", "Llama 2 7B"), model_id("llama2_7b", "Llama 2 7B (depth = 40)")
    ('meta-llama/Llama-2-7b-hf', '')
    """
    rows = table("models")
    names = rows.loc[(rows["name"] == name) & (rows["title"] == title), "aliases"]
    aliases = names.iloc[0].split(";") if len(names) else []
    return next((alias for alias in aliases if alias.count("/") == 1 and " " not in alias), "")


def launch(
    command: str, engine: str, settings: Mapping[str, Any], check: Mapping[str, Any], network: tuple[str, str]
) -> Launch:
    """Return the command line of an engine for chosen quantities.

    Parameters
    ----------
    command : str
        "serve", "train" or "finetune".
    engine : str
        An engine of the table ``engine_flags``.
    settings : mapping
        Chosen quantities by name, as the table names them; None where nothing was chosen.
    check : mapping
        Quantities of the command that measures.
    network : tuple of str
        Name and title of a network; a changed one has another title than its row of the zoo.

    Returns
    -------
    Launch

    Raises
    ------
    ValueError
        An engine that is not in the table, or that cannot run one of the quantities: the reason and the remedy.

    Examples
    --------
    >>> print(launch("finetune", "torchtune", {"rank": 8}, {}, ("llama2_7b", "Llama 2 7B")).command)
    --config CONFIG model.lora_rank=8
    """
    chosen = Field.choice(*engines_for(command)).read(engine, "engine")
    name, title = network
    model = model_id(name, title) or PLACEHOLDER
    model_notes = [
        f"{PLACEHOLDER} is the name or the folder of a checkpoint of {title}, which the zoo has no published name of."
        if model == PLACEHOLDER
        else f"{model} has the dimensions of {title}; put another checkpoint of the same dimensions in its place."
    ]
    started = _Written(chosen, command, {"program": "", "model": model, **_given(settings)}, _given(settings))
    measured = _Written(chosen, "verify", {**started.settings, **_given(check)}, _given(check))
    notes = model_notes if any(model in word for several in started.words.values() for word in several) else []
    words = measured.words if "program" in measured.words else {**started.words, **measured.words}
    notes += [*started.notes, *measured.notes]
    return Launch(
        chosen,
        started.version,
        _line(started.words.values()),
        _line(words.values()),
        tuple(dict.fromkeys(notes)),
        tuple(dict.fromkeys([*started.source, *measured.source])),
    )


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _line(words: Iterable[list[str]]) -> str:
    return " ".join(word for several in words for word in several)


class _Written:
    """Words of a command by quantity, in the order of the table, and notes.

    `required` are the quantities that are said in any case, in a note where the table has no row of them.
    """

    def __init__(self, engine: str, command: str, settings: Mapping[str, Any], required: Mapping[str, Any]) -> None:
        flags = table("engine_flags")
        rows = flags[(flags["engine"] == engine) & (flags["command"] == command)].to_dict("records")
        self.engine, self.settings, self.version = engine, settings, rows[0]["version"] if rows else ""
        self.words: dict[str, list[str]] = {}
        self.notes, self.source = list[str](), list[str]()
        by_quantity: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            by_quantity.setdefault(row["quantity"], []).append(row)
        for quantity, own in by_quantity.items():
            if quantity in settings:
                self._write(quantity, settings[quantity], own)
        for quantity in [name for name in required if name not in by_quantity]:
            self.notes.append(f"No flag of {engine} sets {quantity} = {_word(settings[quantity])}.")

    def _write(self, quantity: str, value: Any, rows: list[dict[str, Any]]) -> None:
        """Add the words of one quantity, or its notes; refuse a value that the engine cannot run."""
        word, fields = _word(value), {"model": self.settings.get("model", "")}
        matching = _matching(rows, word)
        if not matching:
            allowed = [ours for row in rows if row["kind"] != "refused" for ours in _values(row)]
            reason = f": {self.engine} {self.version} has no flag for it; give one of {', '.join(allowed)}"
            raise refused(quantity, value, reason, CANNOT, nearest=allowed)
        self.words[quantity] = []
        for row, theirs in matching:
            if row["kind"] == "refused":
                raise refused(quantity, value, f": {self.engine} cannot run it: {row['note']}", CANNOT)
            if row["kind"] == "flag":
                self.words[quantity].append(row["form"].format(flag=row["flag"], value=theirs, **fields))
                self.source += row["source"].split(";")
            if row["note"]:
                self.notes.append(row["note"].format(value=word))


def _matching(rows: list[dict[str, Any]], word: str) -> list[tuple[dict[str, Any], str]]:
    """Return the rows of a value with the engine's word for it: those that name it, else those of any value."""
    named = [(row, _values(row)[word]) for row in rows if word in _values(row)]
    return named or [(row, _values(row).get("*") or word) for row in rows if not row["values"] or "*" in _values(row)]


def _values(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the engine's words for the values of a row, by ours; "" for any value as it is."""
    pairs = [pair.partition("=") for pair in row["values"].split("|") if pair]
    return {ours: theirs or ("" if ours == "*" else ours) for ours, _, theirs in pairs}


def _word(value: Any) -> str:
    """Return a value as a command line has it.

    >>> _word(True), _word(8.0), _word(2.34567), _word("fp8")
    ('yes', '8', '2.346', 'fp8')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"
