"""The decision of recipe 05 follows from its table of orders, and parts from it where the table changes."""

import re

import pandas as pd
import pytest
from records import decision, table, words

DAYS, HOURLY, RESERVED = "days, 80 %", "by the hour [$]", "reserved [$]"


def follows(orders: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the order is the smallest in time at the top of its interval, with the figures of its row."""
    deadline = float(re.search(r" of (\d+)$", record["Days (80 %)"])[1])
    firm = hoped = None
    for name, row in orders.iterrows():
        point, _, high = map(float, re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", row[DAYS]).groups())
        answers = ["yes" if days <= deadline else "no" for days in (point, high)]
        if [row["in time by the point"], row["in time by the interval"]] != answers:
            return False
        hoped = hoped or (name if point <= deadline else None)
        firm = firm or (name if high <= deadline else None)
    row, count = orders.loc[firm], int(firm.split()[0])
    rate = float(re.match(r"\$([\d.]+) per GPU hour", words("05", "plans").splitlines()[1])[1])
    reserved, hourly = (float(row[column].replace(",", "")) for column in (RESERVED, HOURLY))
    days = float(row[DAYS].split()[0])
    return (
        re.match(rf"{count} × \S+ \(by the point: {int(hoped.split()[0])}\)$", record["Order"]) is not None
        and record["Days (80 %)"] == f"{row[DAYS]} of {deadline:.0f}"
        and reserved == pytest.approx(count * 24 * deadline * rate, rel=0.005)
        and hourly == pytest.approx(count * 24 * days * rate, rel=0.005)
        and record["Price"].startswith(f"${row[HOURLY]} by the hour, ${row[RESERVED]} reserved; ")
        and words("05", "plans").splitlines()[1] in record["Price"]
        and re.search(r"20\d\d-\d\d", record["Price"]) is not None
    )


def test_the_record_follows_from_the_orders():
    assert follows(table("05", "orders"), decision("05"))


def test_the_record_names_what_it_assumes_and_repeats_the_coverage():
    record, line = decision("05"), words("05", "publishers").splitlines()[0]
    assert all(word in record["Load"] for word in ("llama3_8b", "sequences", "8,192", "software", "bf16"))
    assert re.search(r"(\d+) % at or below the top", line)[1] == record["At or below the top"].split()[0]


@pytest.mark.parametrize(
    ("name", "column", "text"),
    [
        ("56 GPUs", DAYS, "21.2 (17.3 to 28.4)"),  # late at the top
        ("48 GPUs", DAYS, "24.6 (20.1 to 27.9)"),  # in time at the top
        ("40 GPUs", DAYS, "27.5 (24.0 to 36.2)"),  # in time by the point
        ("56 GPUs", HOURLY, "75,063"),
        ("56 GPUs", RESERVED, "96,445"),
        ("56 GPUs", "in time by the interval", "no"),
    ],
)
def test_another_table_gives_another_record(name, column, text):
    orders = table("05", "orders")
    orders.loc[name, column] = text
    assert not follows(orders, decision("05"))
