"""Names and numbers as every panel prints them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from string import digits
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from cookbook import catalog
from cookbook.prediction.measurements import MAX_SHOWN
from cookbook.prediction.scenario import fields
from cookbook.units import dollar_range, dollars, figure, human, large, ratio, shown
from cookbook.units import share as percent

if TYPE_CHECKING:
    from cookbook.catalog.prices import Price
    from cookbook.prediction.measurements import Measurement

__all__ = ["dollar_range", "figure", "large", "percent", "ratio"]
Source = tuple[str, str, str]
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
MILLI, KILO, MILLION, GIBI = 1e-3, 1e3, 1e6, 2.0**30
LONGEST, LONGEST_FILE = 300, 80  # letters of a reason, and of the name of a file
MONTH_LETTERS = len("2026-05")
# What arguments that are no fields of a scenario are called where a reader is told what was taken for them.
ARGUMENTS = {
    "way": "way to pay",
    "mtbf_hours": "MTBF per GPU in hours",
    "restart": "restart after a failure",
    "checkpoint_bandwidth": "checkpoint write bandwidth",
    "neighbours": "correction by similar measurements",
    "think": "think time",
    "max_sequences": "largest number of sequences per iteration",
    "example_tokens": "tokens per example",
    "runs": "runs per month",
    "deadline": "deadline of a run",
    "rate": "requests per second",
    "hours": "hours per day",
}
SWITCHES, YES_OR_NO = ("pinned", "shuffled", "asynchronous"), {"0": "no", "1": "yes"}
# Short words for a reason, by how it is told in full.
SHORT = (
    ("trains nothing", "trains nothing"),
    ("take one of these", "no such peak"),
    ("no peak", "no peak known"),
    ("do not fit", "does not fit memory"),
    ("rated power", "no rated power"),
    ("states a price", "no price"),
    ("made up", "no price"),
)


def json_of(text: str, what: str) -> Any:
    """Return the value of a reader's JSON.

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


class Leader(Protocol):
    """The first of several candidates, as `topics.devices.comparison.Lead` names it."""

    @property
    def measured(self) -> tuple[bool, ...]:
        """For each candidate, True if measured runs were used for its value."""

    @property
    def named(self) -> bool:
        """True if the first may be called the best."""

    @property
    def tied(self) -> tuple[int, ...]:
        """Positions of the first and of those that cannot be distinguished from it."""


def undecided(names: Sequence[str], lead: Leader, mark: str = "") -> str:
    """Return why no leader is named, as a headline without its full stop and with the names between two marks.

    Examples
    --------
    >>> from cookbook.topics.devices.comparison import lead
    >>> undecided(["A", "B"], lead([2, 3], [1, 2], [4, 5], evidence="datasheet only"), "**")
    '**A and B** cannot be distinguished: neither was measured'
    >>> undecided(["A", "B"], lead([1, 9], [1, 8], [2, 10], evidence="datasheet only"))
    'A leads by its datasheet alone: it was not measured'
    >>> undecided(["A", "B"], lead([1, 9], [1, 8], [2, 10]))
    ''
    """
    tied, measured = [names[each] for each in lead.tied], sum(lead.measured)
    if lead.named:
        return ""
    if len(tied) == 1:
        return f"{mark}{tied[0]}{mark} leads by its datasheet alone: it was not measured"
    why = (
        "their intervals overlap"
        if measured == len(tied)
        else f"only {measured} of {len(tied)} {'was' if measured == 1 else 'were'} measured"
        if measured
        else f"{'neither' if len(tied) == 2 else 'none'} was measured"
    )
    return f"{mark}{listed(tied, 3 if len(tied) == 3 else 2)}{mark} cannot be distinguished: {why}"


def no_answer(problem: Exception, what: str) -> str:
    """Return the reason why a state has no answer, where the error is in Python's words.

    Examples
    --------
    >>> no_answer(TypeError("bad operand"), "Batch = 0")
    'Nothing can be computed with Batch = 0; choose another value.'
    >>> no_answer(MemoryError(), "Batch = 4").partition(":")[0]
    'There is not enough memory to compute this with Batch = 4'
    """
    if isinstance(problem, MemoryError):
        return f"There is not enough memory to compute this with {what}: choose smaller values, or close other pages."
    return f"Nothing can be computed with {what}; choose another value."


def capital(text: str) -> str:
    """A text with its first letter large."""
    return f"{text[:1].upper()}{text[1:]}"


def levels(answer: str) -> tuple[str, tuple[str, ...]]:
    """An answer as its headline, which is its first sentence, and the facts below it.

    Examples
    --------
    >>> levels("It takes **20.4 days**, mostly computing. Interval: 16.8 to 24.9 days.")
    ('It takes **20.4 days**, mostly computing.', ('Interval: 16.8 to 24.9 days.',))
    """
    headline, *facts = sentences(answer)
    return headline, tuple(facts)


def sentences(text: str) -> list[str]:
    """The sentences of a text: after a full stop, the next begins with a capital, a digit or an emphasis.

    Examples
    --------
    >>> sentences("A 3.5 % rise. **Two** follow! End.")
    ['A 3.5 % rise.', '**Two** follow!', 'End.']
    """
    ends = [
        at
        for at in range(1, len(text) - 1)
        if text[at] == " " and text[at - 1] in ".!?" and (text[at + 1].isupper() or text[at + 1] in f"*${digits}")
    ]
    return [text[one:other].strip() for one, other in zip([0, *ends], [*ends, len(text)], strict=True)]


def sent(cell: Any) -> Any:
    """Return a cell of a table as sent to the page: its text; (text, address) becomes a link."""
    if isinstance(cell, tuple):
        return {"text": str(cell[0]), "url": str(cell[1])}
    return "" if cell is None else str(cell)


def table_of(table: pd.DataFrame, most: int) -> dict[str, Any]:
    """Return the first `most` rows of a table as sent to the page, with the number of rows, also from `attrs`."""
    head, count = table.head(most), table.attrs.get("rows", len(table))
    caption = f"first {len(head)} of {count:,}; the CSV has all" if count > len(head) else counted(len(head), "row")
    rows = [[sent(cell) for cell in row] for row in head.itertuples(index=False)]
    return {"columns": [str(column) for column in head.columns], "rows": rows, "caption": caption}


def file_name(*words: str) -> str:
    """Return the name of a file, without its ending, from the words that say what it holds.

    Examples
    --------
    >>> file_name("measurements", "points", "ResNet-50 (v1), BERT-Large")
    'measurements-points-resnet-50-v1-bert-large'
    """
    text = "".join(letter if letter.isalnum() else " " for letter in " ".join(words).casefold())
    return "-".join(text.split())[:LONGEST_FILE].strip("-")


def sources_of(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the sources as sent to the page."""
    intro = f"The values come from {counted(len(sources), 'source')}; a value quoted from memory is marked recalled."
    return {"intro": intro, "items": [list(source) for source in sources]}


def sentence(problem: Exception) -> str:
    """Return a problem as one plain sentence.

    Examples
    --------
    >>> sentence(ValueError("batch = 0 is not allowed; give 1 or more"))
    'Batch = 0 is not allowed; give 1 or more.'
    """
    if isinstance(problem, catalog.UnknownName) and problem.plain:
        near, table = ", ".join(problem.nearest), f'cb.table("{problem.kind}")'
        return f"No {problem.what} called {shown(problem.name)}; nearest names: {near}. {table} lists all."
    text = " ".join(str(problem.args[0] if problem.args else problem).split()) or type(problem).__name__
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    return capital(text) + ("" if text.endswith((".", "?", "!")) else ".")


def share_of_peak(fraction: float) -> str:
    """A needed rate beside a peak: in per cent up to it, as a multiple beyond it.

    Examples
    --------
    >>> share_of_peak(0.278), share_of_peak(1.047), share_of_peak(9925.9), share_of_peak(float("nan"))
    ('28 % of peak', '1.05× its peak', '9,926× its peak', '')
    """
    if fraction != fraction:
        return ""
    if fraction <= 1:
        return f"{percent(fraction)} of peak"
    return f"{fraction:.3g}× its peak" if fraction < 1.1 else f"{spoken(fraction)}× its peak"


def spoken(count: float) -> str:
    """A number, from a million on with its name.

    Examples
    --------
    >>> spoken(7.04), spoken(2e5), spoken(1.5e13)
    ('7.0', '200,000', '15 trillion')
    """
    if count < 1e6:
        return ratio(count) if count < 10 and count % 1 else f"{count:,.0f}"
    for letter, name in (("M", "million"), ("G", "billion"), ("T", "trillion")):
        if human(count).endswith(letter):
            return f"{human(count)[:-1]}{name}"
    return human(count)


def at_your_price(usd: float) -> str:
    """Return how an answer says that it counts with the reader's price of an hour of one device.

    Examples
    --------
    >>> at_your_price(2.5)
    'at your price of $2.50 per hour'
    """
    return f"at your price of {dollars(usd)} per hour"


def in_words(assumed: Iterable[str]) -> str:
    """Return what was taken where nothing was set, with words in place of the names of arguments.

    Examples
    --------
    >>> in_words(["per_node = 8", "step = predicted (software = eager, devices = 1)", "drafting takes no time"])
    'devices per node: 8; time of a step: predicted (software: eager, devices: 1); drafting takes no time'
    """
    return "; ".join(map(_worded, assumed))


def _worded(text: str) -> str:
    """Return one entry of `in_words`."""
    words, (*heads, last) = "", text.split(" = ")
    for head in heads:
        name = head.split()[-1].lstrip("(")
        words += f"{head.removesuffix(name)}{label_of(name)}: "
    first = text.partition(" = ")[0]
    return words + (YES_OR_NO.get(last, last) if first in SWITCHES else last)


def label_of(name: str) -> str:
    """Return what an argument is called: the label of its field in the schema, else its own words.

    Examples
    --------
    >>> label_of("zero"), label_of("think"), label_of("kv_heads")
    ('ZeRO stage', 'think time', 'kv heads')
    """
    field = fields().get(name)
    return field.label if field else ARGUMENTS.get(name, name.replace("_", " "))


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
    """Return the pieces of a text between commas; a comma in brackets is part of a name.

    Examples
    --------
    >>> pieces("Tesla K80 (board, 2x GK210), t4")
    ['Tesla K80 (board, 2x GK210)', 't4']
    """
    texts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            texts.append("")
        else:
            texts[-1] += letter
    return [piece.strip() for piece in texts if piece.strip()]


def short_name(name: str) -> str:
    """Return a name without its brackets, unless they state the number of devices.

    Examples
    --------
    >>> short_name("Tesla K80 (board, 2x GK210)"), short_name("TPU v2-8 (Cloud TPU device, 4 chips)")
    ('Tesla K80 (board, 2x GK210)', 'TPU v2-8 (4 chips)')
    >>> short_name("GH200 (Hopper GPU, 96GB)")
    'GH200'
    """
    front, _, rest = name.partition(" (")
    counts = [piece for piece in rest.rstrip(")").split(", ") if _devices(piece) or {"board", "one"} & {*piece.split()}]
    return f"{front} ({', '.join(counts)})" if counts else front


def short(why: str) -> str:
    """A reason in two or three words.

    Examples
    --------
    >>> short("no row of data/cloud_prices.csv states a price on demand of k40"), short("something else")
    ('no price', 'no value')
    """
    return next((words for part, words in SHORT if part in why), "no value" if why else "not known")


def measured_badges(runs: Sequence[Measurement]) -> tuple[tuple[str, str], ...]:
    """Badge of the newest measured run of exactly what is shown, and what the others are; none where there is none.

    Examples
    --------
    >>> import cookbook as cb
    >>> asked = cb.generate("llama3_8b", "h100-sxm", input_len=512, output_len=512, software="vllm")
    >>> measured_badges(asked.measured)[0][0], measured_badges(())
    ('measured: 127.1 tokens/s, Argonne National Laboratory 2024', ())
    """
    if not runs:
        return ()
    newest = runs[0]
    label = f"measured: {newest.value}, {newest.publisher} {newest.date[:4]}".strip()
    return (
        (
            label,
            f"Exactly this case was measured: {'; '.join(str(run) for run in runs[:MAX_SHOWN])}. "
            "Another version of the software may be faster or slower.",
        ),
    )


def price_badge(price: Price) -> tuple[str, str]:
    """Badge of a price and its explanation: how many list prices it is the median of, and of which months.

    Examples
    --------
    >>> from cookbook.planning import hourly_usd
    >>> price_badge(hourly_usd("h100-sxm"))[0]
    '20 prices, 2025-11 to 2026-05'
    """
    if price.rows:
        months = " to ".join(dict.fromkeys((price.first[:MONTH_LETTERS], price.last[:MONTH_LETTERS])))
        return (
            f"{counted(price.rows, 'price')}, {months or 'undated'}",
            "Median and quartiles of on-demand list prices of the last twelve months. Set your own under More.",
        )
    return ("your price", "The price that you set.") if price.median == price.median else ("no price", price.why)


def sources_of_price(price: Price) -> dict[str, str]:
    """Return the keys of the sources of a price, each with the badge of the price, as `cited` takes them."""
    return dict.fromkeys(price.source, price_badge(price)[0])


def memories(name: str) -> int:
    """Return the number of separate memories in the name of a device.

    Examples
    --------
    >>> memories("Tesla K80 (board, 2x GK210)"), memories("H100 SXM5 80GB")
    (2, 1)
    """
    return next(filter(None, map(_devices, name.partition(" (")[2].rstrip(")").split(", "))), 1)


def _devices(piece: str) -> int:
    """Return the number of devices in a text such as "2x GK210" or "4 chips"; 0 where there is none."""
    first, _, rest = piece.partition(" ")
    number = first.removesuffix("x")
    return int(number) if number.isdecimal() and (number != first or rest == "chips") else 0


def sources_by_count(rows: pd.DataFrame, what: str) -> tuple[Source, ...]:
    """(title, link, rows) of each source of measured rows, those with most rows first."""
    counts = rows[["source", "url", "publisher"]].value_counts().reset_index(name="count")
    return tuple(
        (row.source, row.url, f"{row.publisher}: {counted(row.count, what)}") for row in counts.itertuples(index=False)
    )
