"""The decision of recipe 01 follows from its table of methods, and parts from it where the table changes."""

import re
from types import SimpleNamespace
from typing import Any

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, table, words

import cookbook as cb

MEMORY, MEASURED, TIME, RENT = "memory, 80 % [GiB]", "measured [GiB]", "time, 80 % [h]", "rent, 80 % [$]"
SOFTWARE = ("torchtune", "transformers")


def safe(row: pd.Series, card: float) -> bool:
    """Whether the whole interval fits the card, or a run of this case was measured below its memory."""
    high = float(re.fullmatch(r"[\d.]+ \([\d.]+ to ([\d.]+)\)", row[MEMORY])[1])
    return high <= card or (row[MEASURED] != "none" and float(row[MEASURED]) <= card)


def follows(methods: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether each software gets the first safe method of full, LoRA and QLoRA, with the figures of its row."""
    card = float(re.match(r"(\d+) GiB of memory", words("01", "libraries"))[1])
    ways = [f"{method} with {software}" for software in SOFTWARE for method in ("Full", "LoRA", "QLoRA")]
    best = [next(way for way in ways if way.endswith(name) and safe(methods.loc[way], card)) for name in SOFTWARE]
    row = methods.loc[best[0]]
    return (
        record["Choice"] == "; or ".join(best)
        and record["Memory (80 %)"] == f"{row[MEMORY]} GiB of {card:.0f}"
        and record["Measured"].startswith(f"{row[MEASURED]} GiB" if row[MEASURED] != "none" else "none")
        and record["Hours (80 %)"] == row[TIME]
        and record["Rent (80 %)"].startswith(f"${row[RENT]} at $")
        and re.search(r"20\d\d-\d\d", record["Rent (80 %)"]) is not None
    )


def test_the_record_follows_from_the_methods():
    assert follows(table("01", "methods"), decision("01"))


@pytest.mark.parametrize(
    ("way", "column", "text"),
    [
        ("LoRA with torchtune", MEASURED, "none"),  # the interval alone does not fit
        ("LoRA with torchtune", MEASURED, "24.6"),
        ("LoRA with transformers", MEMORY, "22.9 (15.6 to 23.9)"),
        ("QLoRA with transformers", MEMORY, "20.8 (6.4 to 24.1)"),
        ("LoRA with torchtune", RENT, "9.99"),
        ("LoRA with torchtune", TIME, "3.9 (2.2 to 3.0)"),
    ],
)
def test_another_table_gives_another_record(way, column, text):
    methods = table("01", "methods")
    methods.loc[way, column] = text
    try:
        same = follows(methods, decision("01"))
    except StopIteration:  # nothing is safe
        same = False
    assert not same


def test_the_software_of_the_question_is_that_of_the_panel():
    """The panel names none: its answer is that of torchtune, which the question names."""
    point = cb.finetune("llama3_8b", "rtx-4090", software="torchtune").table.memory_bytes[0] / 2**30
    assert "torchtune" in words("01", "predict3") and f"{point:.1f} of 24 GiB" in words("01", "tune3")


def record(**changed: Any) -> tuple[dict[str, str], pd.DataFrame]:
    """Return the decision that the page writes with changed parameters, and its table of methods."""
    every = nbformat.read(FOLDER / "01-model-zoo.ipynb", as_version=4).cells
    source, names = {cell.id: cell.source for cell in every}, dict[str, Any]()
    for cell in ("imports", "parameters"):
        exec(source[cell], names)
    names |= changed
    written: list[dict[str, str]] = []
    panels = SimpleNamespace(record=lambda question, decided: written.append(decided))
    names["cb"] = SimpleNamespace(finetune=cb.finetune, table=cb.table, planning=cb.planning, panels=panels)
    for cell in ("measured", "libraries", "methods", "decision"):
        exec(source[cell], names)
    return written[0], names["shown"]


def test_where_no_method_is_safe_the_record_names_one_to_try_or_none():
    same, _ = record()
    assert same == decision("01")
    small, shown = record(accelerator="rtx-3060-12gb")
    sizes = shown[shown.fits == "probably"][MEMORY].str.split().str[0].astype(float)
    assert not (shown.fits == "yes").any() and small["Choice"] == (
        f"open: no method is safe; try {sizes.idxmin()} for ten steps"
    )
    assert small["Memory (80 %)"] == f"{shown[MEMORY][sizes.idxmin()]} GiB of 12" and small["Measured"] == "none known"
    never, shown = record(model="llama3_405b", accelerator="rtx-3060-12gb")
    assert set(shown.fits) <= {"no", "probably not"} and never["Memory (80 %)"] == "too much"
    assert never["Choice"] == "none: no method is likely to fit this card"


def test_the_longest_text_of_a_weekend_at_half_the_peak():
    """The Tweak of section 1, whose answer is not in its table: half of the last column, 24 hours of arithmetic."""
    most = float(table("01", "need1").loc["rtx-4090"].iloc[2])
    flop = 6 * cb.model("llama3_8b").ops.parameter_count * most / 2 * 1e9
    assert flop / cb.accelerator("rtx-4090").peaks["peak_bf16"] / 3600 == pytest.approx(24, rel=0.02)
