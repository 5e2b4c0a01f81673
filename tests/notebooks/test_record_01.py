"""The decision of recipe 01 follows from its table of methods."""

import re
from types import SimpleNamespace
from typing import Any

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, sources, table, words

import cookbook as cb

SAID = sources("01")

MEMORY, MEASURED, TIME, RENT = "memory, 80 % [GiB]", "measured, in our tables [GiB]", "time, 80 % [h]", "rent, 80 % [$]"
SOFTWARE = "torchtune", "transformers"
FULL, WEEKEND = "Full (16 bytes per parameter)", 48


def safe(row: pd.Series, card: float) -> bool:
    """Whether the whole interval fits the card, or a run of this case was measured below its memory."""
    high = float(re.fullmatch(r"[\d.]+ \([\d.]+ to ([\d.]+)\)", row[MEMORY])[1])
    return high <= card or (row[MEASURED] != "none" and float(row[MEASURED]) <= card)


def test_the_record_follows_from_the_methods():
    """Each software gets the first safe method of full, LoRA and QLoRA, with the figures of its row."""
    methods = table("01", "methods")
    record = decision("01")
    card = float(re.match(r"(\d+) GiB of memory", words("01", "libraries"))[1])
    ways = [f"{method} with {software}" for software in SOFTWARE for method in (FULL, "LoRA", "QLoRA")]
    best = [next(way for way in ways if way.endswith(name) and safe(methods.loc[way], card)) for name in SOFTWARE]
    row = methods.loc[best[0]]
    tops = [float(re.search(r"to ([\d.]+)\)", methods[TIME][way])[1]) for way in best]
    memory, time, rent = (
        "; ".join(f"{way} {sign}{methods[name][way]}{unit}" for way in best)
        for name, sign, unit in ((MEMORY, "", " GiB"), (TIME, "", ""), (RENT, "$", ""))
    )
    enough = f"; you have {WEEKEND} h, which is enough" if max(tops) <= WEEKEND else ""
    chosen = "; or ".join(best).replace("torchtune", "torchtune (not developed since July 2025)")
    late = methods["fits"] == "no"
    assert all((methods[name] == "does not fit").equals(late) for name in (TIME, RENT))
    assert record["Choice"] == chosen + " (of methods with AdamW at 16 bytes per trained parameter)"
    assert record["Memory (80 %)"] == f"{memory}; the card has {card:.0f} GiB"
    assert record["Measured"].startswith(
        f"{row[MEASURED]} GiB, for LoRA, published by torchtune in 2024 as runnable on an RTX 4090, compiled"
        if row[MEASURED] != "none"
        else "none in our tables"
    )
    assert record["Measured"].endswith("; the hours are predicted only" * (row[MEASURED] != "none"))
    assert record["Load"].endswith("AdamW at 16 bytes per trained parameter, activation checkpointing on")
    assert "activation checkpointing off" in record["What would change it"]
    assert record["Hours (80 %)"] == time + enough
    assert record["Rent (80 %, speed only)"].startswith(f"{rent} if you rent the card, at $")
    assert re.search(r"20\d\d-\d\d", record["Rent (80 %, speed only)"]) is not None


def test_the_software_of_the_question_is_that_of_the_panel():
    """The panel names none: its answer is that of torchtune, which the question names."""
    point = cb.finetune("llama3_8b", "rtx-4090", software="torchtune").table.memory_bytes[0] / 2**30
    assert "torchtune" in words("01", "predict3") and f"{point:.1f} of 24 GiB" in words("01", "tune3")


def test_the_answer_on_fine_tuning_rests_on_checkpointing():
    """The text states what LoRA and QLoRA need with and without checkpointing, and what it costs.

    Where nothing is said, both methods use it; the vote, the text and the record say so.
    """
    load, methods = dict(method=["lora", "qlora"], seq=2048), ["lora", "qlora"]
    tuned = {how: cb.finetune("llama3_8b", "rtx-4090", 20e6, recompute=how, **load) for how in ("none", "full")}
    assert cb.finetune("llama3_8b", "rtx-4090", **load).table.recompute.tolist() == ["full"] * len(methods)
    said = SAID["explain3"]
    gib = {how: run.table.filter(regex="memory").div(2**30) for how, run in tuned.items()}
    kept = tuned["full"].memory.activations.div(2**30)
    alone = cb.requirements("llama3_8b", batch=1, seq=2048, samples=1).memory["activations"] / 2**30
    need, high = gib["none"].memory_bytes, gib["none"].memory_high
    longer = tuned["full"].table.hours / tuned["none"].table.hours
    assert f"activations take {kept[0]:.1f} GiB rather than the {alone:.1f} GiB of section 2" in said
    assert f"LoRA would need about {need[0]:.0f} GiB, and QLoRA about {need[1]:.0f} GiB" in said
    assert f"with the top of its interval at {high[1]:.0f}" in said
    assert "a third longer" in said
    assert longer.between(1.25, 1.42).all()
    assert "from $4 N D$ to $6 N D$, and other work by less" in said
    assert tuned["none"].table.fits.tolist() == ["unlikely", "likely"]
    assert "with activation checkpointing, in torchtune" in SAID["predict3"]
    assert "`gradient_checkpointing=True`" in SAID["explain3"]


def test_the_measurement_is_of_the_year_that_the_record_names():
    row = cb.table("worked_examples").query("example == 'torchtune-2024' and quantity == '8B LoRA'").iloc[0]
    assert row.source == "torchtune-2024" and "published by torchtune in 2024" in decision("01")["Measured"]
    assert "(https://github.com/meta-pytorch/torchtune/issues/2883)" in SAID["left-out"]


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
    assert small["Memory (80 %)"] == f"{sizes.idxmin()} {shown[MEMORY][sizes.idxmin()]} GiB; the card has 12 GiB"
    assert small["Measured"] == "none in our tables"
    never, shown = record(model="llama3_405b", accelerator="rtx-3060-12gb")
    assert set(shown.fits) <= {"no", "probably not"} and never["Memory (80 %)"] == "too much"
    assert never["Choice"] == "none: no method is likely to fit this card"


def test_the_longest_text_of_a_weekend_at_half_the_peak():
    """The Tweak of section 1, whose answer is not in its table: half of the last column, 24 hours of arithmetic."""
    most = float(table("01", "need1").loc["rtx-4090"].iloc[2])
    flop = 6 * cb.model("llama3_8b").ops.parameter_count * most / 2 * 1e9
    assert flop / cb.accelerator("rtx-4090").peaks["peak_bf16"] / 3600 == pytest.approx(24, rel=0.02)


def test_full_fine_tuning_that_was_measured_is_stated_as_its_source_states_it():
    """A text states the memory of the full run that the note of its source states, and no speed.

    It fits the card, so the page may not say that nothing but adapters does; the README is the source.
    """
    note = cb.table("sources").set_index("key").note["torchtune-2024"]
    said = SAID["other3"]
    size = re.search(r"Llama 3.1 8B full ([\d.]+) GiB", note)[1]
    assert f"as runnable on an RTX 4090, with a peak of {size} GiB" in said
    assert "tokens/s" not in said
    assert 16 * cb.model("llama3_8b").ops.parameter_count / 2**30 > 18.9
    assert "torchtune, *README* at commit [0031bfb]" in SAID["left-out"]
    assert "18.9 GiB" in (FOLDER / "facilitator" / "01-model-zoo.md").read_text(encoding="utf-8")


LISTED = r"^How fast is (Q?LoRA) of Llama 3.1 8B in the run listed as runnable on an (RTX \w+)\?$"


def test_rates_of_an_unnamed_card_do_not_check_the_hours():
    """The text gives the rates of cards on which runs fit, and what they would be there, by hand."""
    speeds = cb.table("known_answers").query("unit == 'tokens/s'").set_index("question").published
    said = SAID["agree"]
    forward = cb.requirements("llama3_8b", seq=2048, samples=1).total_flop / 2048 / 3
    rates = {re.search(LISTED, each).groups(): rate for each, rate in speeds.items() if re.search(LISTED, each)}
    card, other = (cb.accelerator(name).peaks["peak_bf16"] / forward / 100 for name in ("rtx-4090", "rtx-a6000"))
    lora, qlora, large = (
        rates.get(each, 0) for each in (("LoRA", "RTX 4090"), ("QLoRA", "RTX 4090"), ("LoRA", "RTX A6000"))
    )
    assert len(rates) == 3
    assert f"{lora:,.0f} tokens/s with LoRA and {qlora:,.0f} with QLoRA. We do not compare them" in said
    assert f"On an RTX 4090, {lora:,.0f} tokens/s would be {3 * lora / card:.0f} % of the peak, recomputation" in said
    assert (
        f"RTX A6000, reached {large:,.0f} tokens/s, which would be {2 * large / other:.0f} % of that card's peak"
        " without" in said
    )
    assert f"and {3 * large / other:.0f} % with it" in said
    assert 3 * large / other > 100
    assert "they do not test our predicted hours for the RTX 4090" in said


def names_where_a_run_fits(said: str) -> bool:
    """Whether a text calls a card of torchtune's table one that a run fits, and never the one that it was made on."""
    made = re.search(r"measured[^.|]* on an? RTX|on one RTX 4090, 2 packed", said)
    return "runnable on" in said and not made


def test_no_text_says_on_which_card_the_runs_were_made():
    """The column of the source is headed *Runnable On*; nothing in it states where the runs were made."""
    examples = cb.table("worked_examples").query("example == 'torchtune-2024'").set_index("quantity").note
    guide = (FOLDER / "facilitator" / "01-model-zoo.md").read_text(encoding="utf-8")
    note = cb.table("sources").set_index("key").note["torchtune-2024"]
    texts = [
        SAID["other3"],
        SAID["reality"],
        decision("01")["Measured"],
        guide,
        note,
        *examples[["8B LoRA", "70B LoRA"]],
    ]
    assert all(names_where_a_run_fits(each) for each in texts) and "but not which card was used for the run" in texts[1]
    assert not any(re.search(r"measured[^.|]* on an? RTX", each) for each in SAID.values())
    asked = cb.table("known_answers")
    asked = asked[asked.page.str.contains("torchtune/blob/main")].question
    assert len(asked) == 10 and asked.str.contains("in the run listed as runnable on").all()


def test_the_rank_of_the_run_hardly_changes_the_memory():
    """The run has rank 8, the load rank 16: the adapters of eight more ranks, at 16 bytes per weight."""
    h, kv, f, layers = 4096, 1024, 14336, 32
    more = 16 * 8 * layers * (2 * (h + h) + 2 * (h + kv) + 3 * (h + f)) / 2**30
    assert f"rank 16 adds {more:.1f} GiB" in SAID["record"] and ", rank 16," in decision("01")["Load"]
    assert "rank 8 by default" in decision("01")["Measured"]


def test_a_shorter_time_than_the_hours_is_too_little():
    for hours, told in ((5, "perhaps"), (4, "too little")):
        assert f"; you have {hours} h, which is {told}" in record(weekend=hours)[0]["Hours (80 %)"]


def test_full_fine_tuning_is_ruled_out_for_adamw_at_sixteen_bytes_alone():
    """Vote, text and record limit "full: no" to AdamW at 16 bytes, and name what the page does not predict."""
    smaller, methods = table("01", "smaller3"), table("01", "methods")
    last = decision("01")["Also measured, not predicted"]
    card, parameters = 24, cb.model("llama3_8b").ops.parameter_count
    sizes = smaller.astype(float)
    bytes_each = sizes.iloc[:, 0] * 2**30 / parameters
    assert "You train with AdamW, at 16 bytes per trained parameter" in SAID["predict3"]
    assert "at 16 bytes per parameter, full fine-tuning needs five times the memory of the card" in SAID["predict3"]
    assert 4.5 < 16 * parameters / 2**30 / card < 5.5
    assert bytes_each.between([16, 10], [17, 11]).all()  # the latter: 2 + 2 + 4 and two states of one byte
    assert (sizes.iloc[:, 1] > card).all()
    assert "does not fit by this route either" in SAID["other3"]
    assert "Without a 32-bit copy, small updates may be lost to rounding. This recipe makes no" in SAID["other3"]
    assert "other optimisers are not considered" in SAID["record"]
    assert methods.loc[methods.index.str.startswith(FULL), "fits"].tolist() == ["no", "no"]
    assert not methods.index.str.match("Full with").any()
    assert "*none* means only that our tables contain no run of that kind" in SAID["record"]
    assert "within the memory of such a card (section 3), without a 32-bit copy of the weights" in last
    assert record(accelerator="a100-sxm-80gb")[0]["Also measured, not predicted"] == "none"


def test_adapters_have_a_lower_bound_than_all_weights():
    """The text gives two thirds of the bound of all weights to adapters."""
    times = table("01", "need1")
    hours = float(times.loc["rtx-4090"].iloc[1]) * 4 / 6
    assert f"$4 N D$, a third less, or {hours:.1f} hours" in SAID["tweak1"]
