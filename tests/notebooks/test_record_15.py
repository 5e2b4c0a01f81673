"""The decision of recipe 15 follows from the table of its cases."""

import math
import re

import pytest
from records import FOLDER, decision, sources, table, words

import cookbook as cb

SAID = sources("15")


WATTS, BYTES = r"(\d+) W", r"(\d\.\d+) TB/s"


def number(text: str) -> float:
    """Return the number of a cell, 0 for none."""
    return float(text.replace("none", "0"))


def span(numbers: list[float], form: str = "g") -> str:
    """Return the ends of a range as the record gives them."""
    least, most = (f"{end:{form}}" if end else "none" for end in (min(numbers), max(numbers)))
    return least if least == most else f"{least} to {most}"


def measured(note: str, device: str) -> list[tuple[float, float]]:
    """Return watts and bytes per second at batch 1, 16 and 64 of a device, from the note of the source."""
    text = note[note.index(f"{device}: ") :]
    watts, rates = ([float(value) for value in re.findall(form, text)[:3]] for form in (WATTS, BYTES))
    return [(power, 1e12 * rate) for power, rate in zip(watts, rates, strict=True)]


def test_what_the_gpu_is_charged_is_compared_with_what_it_took():
    """The text gives watts, rates and energies of the run, and those of the datasheets beside them.

    Watts alone decide nothing: energy per byte is power over the bandwidth reached.
    """
    note = cb.table("sources").set_index("key").loc["dl-cookbook-gpu-power", "note"]
    constant = cb.table("constants").set_index("name").loc["memory-bound-energy"]
    said, record = SAID["explain3"], decision("15", "record-form")
    assert constant["source"] == "dl-cookbook-gpu-power"
    parts = []
    for device, key in (("H100", "h100-sxm"), ("H200", "h200-sxm")):
        gpu = cb.accelerator(key)
        runs = [(power, rate, 1e12 * power / rate) for power, rate in measured(note, device)]
        parts.append((runs, 1e12 * gpu.tdp_watts / gpu.mem_bandwidth))
    (ours, sheet), (other, other_sheet) = parts
    one, more, most = ours
    assert (
        f"an H100 drew {one[0]:.0f} W while it read {one[1] / 1e12:.2f} TB/s at batch 1, {more[0]:.0f} W at "
        f"{more[1] / 1e12:.2f} TB/s at batch 16, and {most[0]:.0f} W at {most[1] / 1e12:.2f} TB/s at batch 64" in said
    )
    assert f"That is {one[2]:.0f}, {more[2]:.0f} and {most[2]:.0f} pJ per byte, against {sheet:.0f} by the" in said
    assert (
        f"gave {', '.join(f'{each:.0f}' for *_, each in other[:2])} and {other[2][2]:.0f} pJ, against "
        f"{other_sheet:.0f}." in said
    )
    assert abs(more[2] / sheet - constant["value"]) < 2e-3
    assert (
        "a fair charge at batch 16, but at batch 64 the measured energy is up to "
        f"{100 * (other[2][2] / other_sheet - 1):.0f} % higher" in said
    )
    assert all(abs(runs[1][2] / base - 1) < 0.1 and runs[2][2] / base > 1.15 for runs, base in parts)
    assert record["Energy of the GPU"] == (
        "assumed: 700 W at 3.35 TB/s or at its peak, by its datasheet; in our run at batch 16, an H100 took "
        f"{constant['value']:.2f} times that"
    )
    assert "700/3.35 = 209 pJ" in said and "draws 700 W" not in said
    page = (FOLDER / "facilitator" / "15-beyond-digital.md").read_text(encoding="utf-8")
    assert "Watts alone decide nothing" in page and "an H100 of 700 W drew 457 W at batch 1" in page


def test_a_full_batch_is_charged_the_peak_which_no_run_reaches():
    note = cb.table("sources").set_index("key").loc["dl-cookbook-gpu-power", "note"]
    watts, reached = map(float, re.search(r"(\d+) W and [\d.]+ TB/s \((\d+) TFLOP/s\) at 4,096", note).groups())
    gpu = cb.accelerator("h100-sxm")
    share = 1e12 * reached / gpu.peaks["peak_bf16"]
    assert (
        f"an H100 reached {100 * share:.0f} % of its bf16 peak at {watts:.0f} W, so it took "
        f"{watts / gpu.tdp_watts / share:.1f} times as much energy" in SAID["explain4"]
    )


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
            assert number(row.iloc[place]) == pytest.approx(by_formula(int(size), idle, True), rel=0.005)
    assert abs(by_formula(512, 0.1, False) / number(shown.loc["512"].iloc[3]) - 1) > 0.03, "no limit was needed"
    mapped = cb.planning.map_to_crossbars("llama3_8b")
    assert f"= {mapped.latency / mapped.seconds:.0f}$ requests. With more, the pipeline is full" in SAID["loop4"]
    assert "stops falling at 0.71 pJ" in SAID["loop4"]
    assert number(shown.loc["512"].iloc[0]) == pytest.approx(0.71, abs=0.005)


def test_the_size_is_in_whole_chips():
    """The record rounds the printed chips up, and says what a chip holds."""
    printed, record = words("15", "mapped"), decision("15", "record-form")
    tiles, chips, whole = re.search(
        r"([\d,]+) tiles; .* fill ([\d.]+) chips of ISAAC, ([\d,]+) rounded", printed
    ).groups()
    count = math.ceil(float(chips))
    held = "a part" if count > 1 else "all"
    assert int(whole.replace(",", "")) == count
    assert record["Size"] == f"{tiles} tiles on {whole} chip{'s' * (count > 1)} of ISAAC"
    assert record["Test card"].startswith(f"a chip like ISAAC's holds {held} of ")
    assert all(
        word in record["Test card"]
        for word in ("energy of a conversion", "power of idle tiles", "accuracy of your network")
    )


def test_the_record_follows_from_the_cases():
    """All gains, none, or some reach the claim, as said, and are repeated."""
    record = decision("15", "record-form")
    row = next(label for label in record if label.startswith("Gain over "))
    claim = float(re.search(r"claimed: ([\d.]+)", record[row])[1])
    joules, gains, idle, limits, idle_limits = (
        [number(text) for text in table("15", "claims").iloc[:, place]] for place in range(5)
    )
    every = [*gains, *idle]
    undecided = "open: ask for the figures below first"
    shown = "order, if the accuracy of your network is shown first"
    assert record["Choice"] == (shown if min(every) >= claim else "do not order" if max(every) < claim else undecided)
    assert (
        record[row]
        == f"{span(gains, '.1f')} if idle tiles draw nothing, {span(idle, '.1f')} if they draw a tenth of full power; "
        f"claimed: {claim:g}"
    )
    assert record[f"Largest batch with a gain of {claim:g}"] == f"{span(limits)}, with idle power {span(idle_limits)}"
    assert f"converters ({span(joules, '.2f')} pJ" in record["What would change it"]
    assert record["What would change it"].startswith("the energy of a token on your GPU (watts times seconds), ")


def test_six_bits_stay_within_the_spread_between_programmings():
    """Six bits lose less than the programmings of eight bits differ."""
    curve, page = table("15", "adc-curve"), (FOLDER / "15-beyond-digital.ipynb").read_text()
    assert "the accuracy stays within the spread between programmings" in page
    six, eight = (curve.loc[bits].astype(float) for bits in ("6", "8"))
    assert eight["worst [%]"] <= six["mean [%]"] <= eight["best [%]"]


def test_the_record_does_not_leave_out_accuracy():
    """The record says what the digits keep at its converters, and that the network's accuracy is unknown."""
    curve, record = table("15", "adc-curve"), decision("15", "record-form")
    bits, network = re.search(r"ADCs of (\d+) bits", record["Setup"])[1], record["Setup"].partition(",")[0]
    kept, software = (float(curve.loc[bits, name]) for name in ("mean [%]", "in software [%]"))
    digits = f"our digits with these converters: {kept:.0f} % ({software:.0f} % in software)"
    assert record.get("Accuracy") == f"of {network}: unknown, ask for it; {digits}"
