"""The decision of recipe 15 follows from the table of its cases, and parts from it where the table changes."""

import math
import re

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, table, words

import cookbook as cb

SAID = {cell.id: cell.source for cell in nbformat.read(FOLDER / "15-beyond-digital.ipynb", as_version=4).cells}


SHARE = 467 / 700  # of design power at batch 1, as the page says of our own run on an H200


def ends_of(text: str) -> list[float]:
    """Return a cell at design power and at the measured share of it: "18.3 (12.2)" as two numbers, none as 0."""
    board, _, lower = text.replace("none", "0").removesuffix(")").partition(" (")
    return [float(board), float(lower or board)]


def span(numbers: list[float], form: str = "g") -> str:
    """Return the ends of a range as the record gives them."""
    least, most = (f"{end:{form}}" if end else "none" for end in (min(numbers), max(numbers)))
    return least if least == most else f"{least} to {most}"


def follows(cases: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether all gains, none, or some reach the claim at either power of the GPU, as said, and are repeated."""
    row = next(label for label in record if label.startswith("Gain over "))
    claim = float(re.search(r"claimed: ([\d.]+)", record[row])[1])
    gains, idle, limits, idle_limits = ([ends_of(text) for text in cases.iloc[:, place]] for place in range(1, 5))
    every = [gain for row in (*gains, *idle) for gain in row]
    undecided = "open: ask for the figures below first"
    shown = "order, if the accuracy of your network is shown first"
    at = [[case[0] for case in each] for each in (gains, idle, limits, idle_limits)]
    low = [[end for case in each for end in case[1:]] for each in (gains, idle, limits, idle_limits)]
    return (
        record["Choice"] == (shown if min(every) >= claim else "do not order" if max(every) < claim else undecided)
        and record[row]
        == f"at design power {span(at[0], '.1f')} if idle tiles draw nothing, {span(at[1], '.1f')} if they draw a "
        f"tenth of full power; at the lower end of its power {span(low[0], '.1f')} and "
        f"{span(low[1], '.1f')}; claimed: {claim:g}"
        and record[f"Largest batch with {claim:g} times"]
        == f"at design power {span(at[2])}, with idle power {span(at[3])}; at the lower end {span(low[2])} and "
        f"{span(low[3])}"
        and f"converters ({span([float(text) for text in cases.iloc[:, 0]], '.2f')} pJ"
        in record["What would change it"]
        and record["What would change it"].startswith("the power that your GPU draws, ")
    )


def carries_both_powers(cases: pd.DataFrame, digital: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether each gain at the lower end is the measured share of that at design power, and the record names both."""
    board = cb.accelerator("h100-sxm").tdp_watts
    rows = [(text, 0.05 * (1 + SHARE)) for place in (1, 2) for text in cases.iloc[:, place]]  # of one decimal each
    rows += [(text, 0.02 * ends_of(text)[0]) for text in digital[digital.index != "512"].to_numpy().ravel()]
    proportional = all(ends_of(text)[1] == pytest.approx(SHARE * ends_of(text)[0], abs=near) for text, near in rows)
    told = (
        f"assumed: {board:.0f} W, its design power, as the upper end; as the lower end {SHARE * board:.0f} W (the "
        "share that an H200 drew at batch 1 in our own run)"
    )
    return proportional and record["Power of the GPU"] == told and not any("(" in text for text in digital.loc["512"])


def test_the_power_of_the_gpu_has_two_ends():
    """Board power flatters the vendor; decoding draws a share of it, and every gain is in proportion."""
    cases, digital, record = table("15", "claims"), table("15", "digital"), decision("15", "record-form")
    assert carries_both_powers(cases, digital, record)
    told = record["Power of the GPU"].partition(" (")[0]
    assert not carries_both_powers(cases, digital, record | {"Power of the GPU": told})
    digital.iloc[0, 0] = "209"
    assert not carries_both_powers(cases, digital, record)
    gpu = cb.accelerator("h100-sxm")
    joules = [1e12 * share * gpu.tdp_watts / gpu.mem_bandwidth for share in (1, SHARE)]
    for number in (
        f"700/3.35 = {joules[0]:.0f} pJ",
        "an H200 of 700 W drew 467 W at batch 1, 489 W at 16, 630 W at 64 and 692 W from 256",
        f"takes the share at batch 1, {100 * SHARE:.1f} % of design power",
        f"{joules[1]:.0f} pJ for an H100",
    ):
        assert number in SAID["explain3"]
    row = cb.table("constants").set_index("name").loc["memory-bound-power"]
    assert row["value"] == pytest.approx(SHARE, abs=5e-4) and "dl-cookbook-gpu-power" in row["source"]
    page = (FOLDER / "facilitator" / "15-beyond-digital.md").read_text(encoding="utf-8")
    assert "is the best case of a digital device only where arithmetic sets the pace" in page
    assert "an H200 of 700 W drew 467 W at batch 1" in page and "multiply by two thirds for 467 W" in page


def by_formula(batch: int, idle_share: float, pace: bool) -> float:
    """Return the gain by the formula of section 4 at design power; `pace`: with the ends of both fractions."""
    mapped, gpu = cb.planning.map_to_crossbars("llama3_8b", cb.planning.crossbar_tile(128)), cb.accelerator("h100-sxm")
    one, least = (gpu.tdp_watts / rate for rate in (gpu.mem_bandwidth, gpu.peaks["peak_int8"] / 2))
    seconds = max(mapped.latency / batch, mapped.seconds if pace else 0)
    idle = idle_share * 65.8 * mapped.chips * seconds / mapped.macs
    return max(one / batch, least if pace else 0) / (mapped.mac_joules + idle)


def test_the_formula_gives_the_table_with_the_limits_that_the_text_names():
    shown = table("15", "digital")
    for size, row in shown.iterrows():
        for place, idle in ((2, 0.0), (3, 0.1)):
            assert ends_of(row.iloc[place])[0] == pytest.approx(by_formula(int(size), idle, True), rel=0.005)
    assert abs(by_formula(512, 0.1, False) / ends_of(shown.loc["512"].iloc[3])[0] - 1) > 0.03, "no limit was needed"
    mapped = cb.planning.map_to_crossbars("llama3_8b")
    assert f"= {mapped.latency / mapped.seconds:.0f}$ requests. With more, the pipeline is full" in SAID["loop4"]
    assert "stops at 0.71 pJ" in SAID["loop4"] and ends_of(shown.loc["512"].iloc[0])[0] == pytest.approx(
        0.71, abs=0.005
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
        {(name, column): "9.9 (6.6)" for name in range(4) for column in (1, 2)},  # none reaches the claim
        {(name, column): "60.0 (40.0)" for name in range(4) for column in (1, 2)},  # all do, at either power
        {(3, 2): "2.8 (1.2)"},  # another lower end
        {(0, 3): "7 (none)", (0, 4): "56 (37)"},  # batches swapped
        {(3, 0): "2.60"},  # another converter
        {(3, 4): "2 (none)"},  # a batch where there is none now
    ],
)
def test_another_table_gives_another_record(mutation):
    cases = table("15", "claims")
    for (row, column), text in mutation.items():
        cases.iloc[row, column] = text
    assert not follows(cases, decision("15", "record-form"))


def test_a_record_that_leaves_out_idle_power_or_the_lower_power_does_not_follow():
    cases, record = table("15", "claims"), decision("15", "record-form")
    row = next(label for label in record if label.startswith("Gain over "))
    for start, end in ((" if idle tiles", "full power"), ("; at the lower", "; claimed")):
        cut = record[row][: record[row].index(start)] + record[row][record[row].index(end) :]
        assert not follows(cases, record | {row: cut})


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
