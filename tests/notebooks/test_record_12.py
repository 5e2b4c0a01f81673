"""The decision of recipe 12 follows from its table of patients and the price of the job."""

import gzip
import json
import re
from typing import Any

import pytest
from records import FOLDER, decision, interval, sources, table, words

import cookbook as cb

SAID = sources("12")

PATIENT, HOURS = "Clara", 168


def page() -> dict[str, Any]:
    """Return what the stored page shows: patients, twins, the price of the job, and the record."""
    said = re.search(
        r"(\d+) × (\S+) for (\d+) weeks at \$([\d.]+) per GPU hour \((.+)\): \$([\d,]+)", words("12", "price")
    )
    gpus, _, weeks, hour, dates, bill = said.groups()
    money = {"gpus": int(gpus), "weeks": int(weeks), "hour": float(hour), "dates": dates}
    shown = {"triage": table("12", "triage-shown"), "twins": table("12", "twins"), "record": decision("12")}
    shown |= {"pair": table("12", "symptoms1"), "ranks": table("12", "symptoms2"), "vote": words("12", "q2")}
    return shown | money | {"bill": float(bill.replace(",", ""))}


def test_the_record_follows_from_the_page():
    """The network's share of Farid's step is that of the process that waits least, in text and triage.

    The table leaves open that a neighbour doubles Edith's steps, as the feedback on that vote says.

    Savings follow from gains and price, patients are sorted by gain, and the record repeats its patient.
    """
    shown = page()
    record, row = shown["record"], shown["triage"].loc[PATIENT]
    bill = shown["gpus"] * shown["hour"] * HOURS * shown["weeks"]
    assert abs(bill - shown["bill"]) <= 50
    gains = {name: interval(text) for name, text in shown["triage"].iloc[:, 2].items()}
    saved = {name: interval(text) for name, text in shown["triage"].iloc[:, 3].items()}
    for name, each in gains.items():
        assert each[1] <= each[0] <= each[2]
        assert all(abs(usd - bill * (1 - 1 / g)) <= 0.035 * bill for usd, g in zip(saved[name], each, strict=True))
    points = [each[0] for each in gains.values()]
    (gain, low, high), (usd, least, most) = gains[PATIENT], saved[PATIENT]
    limit = float(re.search(r"more than (\d+) %", record["Would prove it wrong, or badly applied"])[1])
    twins = all(
        interval(promised)[1] <= float(measured) <= interval(promised)[2]
        for measured, promised in shown["twins"].iloc[:, 3:].itertuples(index=False)
    )
    assert points == sorted(points, reverse=True)
    assert record["Run"].endswith("; two cores of a CPU, PyTorch, FP32, a batch of one sample")
    assert cb.table("traces").set_index("patient").design["clara"].endswith("with a batch of one sample")
    assert twins
    assert record["Cause"].startswith(f"{row.iloc[0]}: {row.iloc[1]} %")
    assert record["Gain"] == f"{gain:.1f} times as fast ({low:.1f} to {high:.1f})"
    assert record["Saves"].startswith(f"if Clara's toy were your job: ${usd:,.0f} (${least:,.0f} to ${most:,.0f}) of")
    assert f"of ${shown['bill']:,.0f};" in record["Saves"]
    assert ("a larger batch that harms learning" in record["What would change it"]) == (row.iloc[0] == "tiny batch")
    assert shown["dates"] in record["Saves"]
    assert abs(limit - 100 / low) < 2
    assert record["Change"].startswith("open") == (low <= 1.05)
    *parts, steps = ([float(text.split()[0]) for text in row] for row in shown["pair"].itertuples(index=False))
    stretched = all(edith * steps[1] > 1.3 * anna * steps[0] and abs(edith - anna) <= 2 for anna, edith in parts)
    said = "Not c): it would look just like this: all parts are longer, and the shares stay the same." in shown["vote"]
    assert stretched and said
    assert 1.6 < steps[1] / steps[0] < 2.4
    rows = shown["ranks"][shown["ranks"].index.str.startswith("Farid")].astype(float)
    share = round(100 * min(rows.iloc[:, 1] / rows.iloc[:, 2]))
    prose = (FOLDER / "12-bottleneck-clinic.ipynb").read_text(encoding="utf-8")
    assert shown["triage"].loc["Farid"].iloc[1] == f"{share}"
    assert f"or {share} %. The panel and the tables below show this share for him." in prose


def test_what_a_network_and_equal_shards_can_gain_for_greta():
    """Vote and text give what a network, and equal shards, could gain for Greta at most."""
    other = page()
    ranks, triage, asked = other["ranks"], other["triage"], words("12", "q3")
    said = SAID["reality"]
    rows = ranks.astype(float)
    work, wait, step = rows.loc[["Greta, process 0", "Greta, process 1"]].to_numpy().T
    even = step[0] / (work.mean() + wait[1])
    low, late = interval(triage.loc["Greta"].iloc[2])[1], 100 * (work[1] - work[0]) / step[0]
    farid = rows.loc["Farid, process 0"]
    assert (
        f"a faster network could remove at most the {wait[1]} of {step[0]} ms that the second one waits, while Farid's "
        f"could save up to {farid.iloc[1]:.0f} of {farid.iloc[2]:.0f}" in asked
    )
    assert wait[1] > 0.15 * step[1]
    assert f"only the part due to the lateness of her second process, {late:.0f} % of the step" in said
    assert f"at most a factor of {even:.2f}, near the low end of her range" in said
    assert even == pytest.approx(low, abs=0.1)
    alone = cb.measure.diagnose(cb.measure.patient("greta")[1])
    told = (FOLDER / "facilitator" / "12-bottleneck-clinic.md").read_text(encoding="utf-8")
    assert alone.cause == "communication" and f"(A slow network, at {100 * alone.share:.0f} % of the step:" in told


def test_the_drive_is_the_last_remedy_of_hiro():
    """Two free settings come first, and the ranges of all three overlap, so no question may say that he needs one."""
    remedies = cb.measure.diagnose(cb.measure.patient("hiro")).remedies
    drive = next(each for each in remedies if "faster drive" in each["remedy"])
    assert drive is remedies[-1] and all(each["gain"] > drive["gain"] for each in remedies[:-1])
    assert "One run waits for its drive. Whose?" in words("12", "q4")
    assert all(each["gain_low"] < drive["gain_high"] and each["gain_high"] > drive["gain_low"] for each in remedies)
    assert "costs nothing, and the ranges of all three remedies overlap, so the free ones" in SAID["explain3"]


def test_clara_computes_in_single_precision():
    """As the record says: the trace names the type of every operand of her matmuls."""
    with gzip.open(cb.measure.patient("clara")[0], "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    types = [each["args"]["Input type"] for each in events if each.get("name") in ("aten::addmm", "aten::mm")]
    assert types and all(set(each) - {"Scalar", ""} == {"float"} for each in types)
    assert "PyTorch, FP32, " in decision("12")["Run"]


def test_the_spans_of_the_vote_name_the_slip():
    """60 ms is the step without the whole all-reduce, hidden part included."""
    step, sent, hidden = 100, 80 - 40, 60 - 40
    assert f"Not a): that takes away the whole all-reduce; {hidden} of its {sent} ms were hidden" in words("12", "q1")
    assert step - sent == 60 and step - (sent - hidden) == 80


def test_double_precision_is_no_accident_of_one_array():
    assert "PyTorch refuses to multiply them by 32-bit weights" in SAID["explain1"]
    assert "turns every layer after it" not in SAID["explain1"] and "twice the bytes" not in SAID["q2"]
