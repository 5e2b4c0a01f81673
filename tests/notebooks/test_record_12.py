"""The decision of recipe 12 follows from its table of patients and the price of the job, and changes with them."""

import re
from typing import Any

import pytest
from records import decision, table, words

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
        and twins
        and record["Cause"].startswith(f"{row.iloc[0]}: {row.iloc[1]} %")
        and record["Gain"] == f"{gain:.1f} times as fast ({low:.1f} to {high:.1f})"
        and record["Saves"].startswith(f"${usd:,.0f} (${least:,.0f} to ${most:,.0f}) of ${page['bill']:,.0f};")
        and page["dates"] in record["Saves"]
        and abs(limit - 100 / low) < 2
        and record["Change"].startswith("open") == (low <= 1.05)
    )


def test_the_record_follows_from_the_page():
    assert follows(page())


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
