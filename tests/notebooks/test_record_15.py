"""The decision of recipe 15 follows from the table of its cases, and parts from it where the table changes."""

import math
import re

import pandas as pd
import pytest
from records import FOLDER, decision, table, words


def follows(cases: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether all gains, none, or some of the reader's GPU reach the claim, as the choice says, each repeated."""
    row = next(label for label in record if label.startswith("Gain over "))
    gpu, batch = re.fullmatch(r"Gain over ([\w.-]+) at batch (\d+)", row).groups()
    claim = float(re.search(r"claimed: ([\d.]+)", record[row])[1])
    mine = cases[cases.index.str.endswith(f"; {gpu}")]
    columns = [place for place, name in enumerate(cases) if name == f"gain at batch {batch}"]
    gains = [float(text) for place in (*columns, columns[0] + 1) for text in mine.iloc[:, place]]
    spans = [
        f"{min(map(float, own)):g} to {max(map(float, own)):g}"
        for own in (mine.iloc[:, columns[0]], mine.iloc[:, columns[0] + 1])
    ]
    undecided = "open: ask for the figures below first"
    shown = "order, if the accuracy of your network is shown first"
    choice = shown if min(gains) >= claim else "do not order" if max(gains) < claim else undecided
    often = [(name, *("never" if text == "0" else text for text in row.iloc[3:5])) for name, row in cases.iterrows()]
    held = "; ".join(f"{name} {work} ({idle} with idle power)" for name, work, idle in often)
    return (
        record["Choice"] == choice
        and record[row]
        == f"{spans[0]} if idle tiles draw nothing, {spans[1]} if they draw a tenth of full power; claimed: {claim:g}"
        and record[f"Largest batch with {claim:g} times"] == held
        and f"{cases.iloc[0, 0]} to {cases.iloc[-1, 0]} pJ" in record["What would change it"]
    )


def sized(printed: str, record: dict[str, str]) -> bool:
    """Whether the record rounds the printed chips up, and says what a chip holds."""
    tiles, chips, whole = re.search(
        r"([\d,]+) tiles; .* fill ([\d.]+) chips of ISAAC, ([\d,]+) rounded", printed
    ).groups()
    count = math.ceil(float(chips))
    held = "a part" if count > 1 else "all"
    return (
        int(whole.replace(",", "")) == count
        and record["Size"] == f"{tiles} tiles on {whole} chip{'s' * (count > 1)} of ISAAC"
        and record["Test card"].startswith(f"a chip like ISAAC's holds {held} of ")
        and all(
            word in record["Test card"]
            for word in ("energy of a conversion", "power of idle tiles", "accuracy of your network")
        )
    )


def test_the_size_is_in_whole_chips():
    printed, record = words("15", "mapped"), decision("15", "record-form")
    assert sized(printed, record)
    for old, new in (("227.2", "226.9"), ("228", "227"), ("227.2", "0.9"), ("3,664,384", "3,664,385")):
        assert not sized(printed.replace(old, new), record)


def test_the_record_follows_from_the_cases():
    assert follows(table("15", "claims"), decision("15", "record-form"))


@pytest.mark.parametrize(
    "mutation",
    [
        {(name, column): "9.9" for name in (0, 2, 4) for column in (1, 2)},  # none reaches the claim
        {(name, column): "12.0" for name in (0, 2, 4) for column in (1, 2)},  # all do
        {(4, 2): "1.8"},  # another lower end
        {(0, 3): "7", (0, 4): "56"},  # batches swapped
        {(5, 0): "0.36"},  # another converter
        {(1, 4): "2"},  # a batch where there is none now
    ],
)
def test_another_table_gives_another_record(mutation):
    cases = table("15", "claims")
    for (row, column), text in mutation.items():
        cases.iloc[row, column] = text
    assert not follows(cases, decision("15", "record-form"))


def test_a_record_that_mixes_gains_with_and_without_idle_power_does_not_follow():
    cases, record = table("15", "claims"), decision("15", "record-form")
    row = next(label for label in record if label.startswith("Gain over "))
    for old, new in (
        (" if idle tiles draw nothing, 2.8 to 8.8 if they draw a tenth of full power", ""),
        ("2.8 to 8.8", "2.8 to 35.2"),
    ):
        assert old in record[row] and not follows(cases, record | {row: record[row].replace(old, new)})


def inside_the_spread(curve: pd.DataFrame) -> bool:
    """Whether six bits lose less than the programmings of eight bits differ."""
    six, eight = (curve.loc[bits].astype(float) for bits in ("6", "8"))
    return eight["worst [%]"] <= six["mean [%]"] <= eight["best [%]"]


def test_six_bits_stay_within_the_spread_between_programmings():
    curve, page = table("15", "adc-curve"), (FOLDER / "15-beyond-digital.ipynb").read_text()
    assert "the accuracy stays within the spread between programmings" in page and inside_the_spread(curve)
    curve.loc["6", "mean [%]"] = "87.8"
    assert not inside_the_spread(curve)


def accuracy_is_told(curve: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the record says what the digits keep at its converters, and that the network's accuracy is unknown."""
    bits, network = re.search(r"ADCs of (\d+) bits", record["Setup"])[1], record["Setup"].partition(",")[0]
    kept, software = (float(curve.loc[bits, name]) for name in ("mean [%]", "in software [%]"))
    digits = f"our digits with these converters: {kept:.0f} % ({software:.0f} % in software)"
    return record.get("Accuracy") == f"of {network}: unknown, ask for it; {digits}"


def test_the_record_does_not_leave_out_accuracy():
    curve, record = table("15", "adc-curve"), decision("15", "record-form")
    assert accuracy_is_told(curve, record)
    assert not accuracy_is_told(curve, record | {"Setup": record["Setup"].replace("8 bits, tiles", "3 bits, tiles")})
    assert not accuracy_is_told(curve, {label: text for label, text in record.items() if label != "Accuracy"})
    curve.loc["8", "mean [%]"] = "73.1"
    assert not accuracy_is_told(curve, record)
