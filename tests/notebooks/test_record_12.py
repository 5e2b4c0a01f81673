"""The decision of recipe 12 follows from its table of patients and the price of the job, and changes with them."""

import re
from typing import Any

import pytest
from records import FOLDER, decision, table, words

import cookbook as cb

PATIENT, HOURS = "Clara", 168


def three(text: str) -> list[float]:
    """Return point, low and high of a text such as "2.4 (1.7 to 4.4)"."""
    return [float(figure.replace(",", "")) for figure in re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", text).groups()]


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


def follows(page: dict[str, Any]) -> bool:
    """Whether savings follow from gains and price, patients are sorted by gain, and the record repeats its patient."""
    record, row = page["record"], page["triage"].loc[PATIENT]
    bill = page["gpus"] * page["hour"] * HOURS * page["weeks"]
    if abs(bill - page["bill"]) > 50:
        return False
    gains = {name: three(text) for name, text in page["triage"].iloc[:, 2].items()}
    saved = {name: three(text) for name, text in page["triage"].iloc[:, 3].items()}
    for name, each in gains.items():
        if not each[1] <= each[0] <= each[2]:
            return False
        if any(abs(usd - bill * (1 - 1 / g)) > 0.035 * bill for usd, g in zip(saved[name], each, strict=True)):
            return False
    points = [each[0] for each in gains.values()]
    (gain, low, high), (usd, least, most) = gains[PATIENT], saved[PATIENT]
    limit = float(re.search(r"more than (\d+) %", record["Proves it wrong"])[1])
    twins = all(
        three(promised)[1] <= float(measured) <= three(promised)[2]
        for measured, promised in page["twins"].iloc[:, 3:].itertuples(index=False)
    )
    return (
        points == sorted(points, reverse=True)
        and record["Run"].endswith("; two cores of a CPU, a profile of PyTorch, a batch of one sample")
        and cb.table("traces").set_index("patient").design["clara"].endswith("with a batch of one sample")
        and twins
        and record["Cause"].startswith(f"{row.iloc[0]}: {row.iloc[1]} %")
        and record["Gain"] == f"{gain:.1f} times as fast ({low:.1f} to {high:.1f})"
        and record["Saves"].startswith(f"if Clara's toy were your job: ${usd:,.0f} (${least:,.0f} to ${most:,.0f}) of")
        and f"of ${page['bill']:,.0f};" in record["Saves"]
        and ("a larger batch that harms learning" in record["What would change it"]) == (row.iloc[0] == "tiny batch")
        and page["dates"] in record["Saves"]
        and abs(limit - 100 / low) < 2
        and record["Change"].startswith("open") == (low <= 1.05)
    )


def vote_holds(page: dict[str, Any]) -> bool:
    """Whether the table leaves open that a neighbour doubles Edith's steps, as the feedback on that vote says."""
    *parts, steps = ([float(text.split()[0]) for text in row] for row in page["pair"].itertuples(index=False))
    stretched = all(edith * steps[1] > 1.3 * anna * steps[0] and abs(edith - anna) <= 2 for anna, edith in parts)
    said = "Not c): it would look just like this: all parts are longer, and the shares stay the same." in page["vote"]
    return stretched == said and 1.6 < steps[1] / steps[0] < 2.4


def network_holds(page: dict[str, Any]) -> bool:
    """Whether the network's share of Farid's step is that of the process that waits least, in text and triage."""
    rows = page["ranks"][page["ranks"].index.str.startswith("Farid")].astype(float)
    share = round(100 * min(rows.iloc[:, 1] / rows.iloc[:, 2]))
    prose = (FOLDER / "12-bottleneck-clinic.ipynb").read_text(encoding="utf-8")
    return page["triage"].loc["Farid"].iloc[1] == f"{share}" and f"or {share} %. The panel and the tables" in prose


def test_the_record_follows_from_the_page():
    assert follows(page()) and vote_holds(page()) and network_holds(page())


@pytest.mark.parametrize(
    ("cell", "row", "column", "text"),
    [
        ("triage", PATIENT, 2, "2.4 (1.0 to 4.4)"),  # may gain nothing
        ("triage", PATIENT, 2, "2.4 (4.4 to 1.7)"),  # ends swapped
        ("triage", PATIENT, 0, "host-bound"),
        ("triage", "Ines", 2, "3.0 (1.0 to 4.0)"),  # first in line, and not where the line puts her
        ("twins", "Hiro", 3, "2.31"),  # measured outside what was promised
    ],
)
def test_another_table_gives_another_record(cell, row, column, text):
    other = page()
    other[cell].iloc[other[cell].index.get_loc(row), column] = text
    assert not follows(other)


def test_another_price_gives_another_record():
    assert not follows(page() | {"hour": 2.29})


@pytest.mark.parametrize(("part", "share"), [("launch", "8 %"), ("memory traffic", "1 %"), ("median step", "15.0 ms")])
def test_parts_that_a_neighbour_would_not_stretch_refute_the_vote(part, share):
    other = page()
    other["pair"].loc[part, "Edith"] = share
    assert not vote_holds(other)


def test_another_wait_gives_another_share_of_the_network():
    other = page()
    other["ranks"].loc["Farid, process 0", "exposed communication [ms]"] = "30.1"
    assert not network_holds(other)


def test_dollars_without_their_condition_do_not_follow():
    other = page()
    other["record"]["Saves"] = other["record"]["Saves"].partition(": ")[2]
    assert not follows(other)


def test_a_run_without_its_tool_does_not_follow():
    other = page()
    other["record"]["Run"] = other["record"]["Run"].rpartition("; ")[0]
    assert not follows(other)
